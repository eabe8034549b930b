/* Compiled, never run: the public headers, and the usual beginnings of options structs, give no warning. */
#include <weft/weft.h>

void weft_headers_compile(void);

void weft_headers_compile(void)
{
    const weft_config zero = { 0 }, config = WEFT_CONFIG_DEFAULT;
    const weft_adam_options adam = WEFT_ADAM_DEFAULT, adamw = WEFT_ADAMW_DEFAULT;
    const weft_cross_entropy_options cross_entropy = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    const weft_local_map_options local_map = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    (void)zero, (void)config, (void)adam, (void)adamw, (void)cross_entropy, (void)local_map;
}
