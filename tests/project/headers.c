/* Compiled, never run: the public headers, and the usual beginnings of options structs, give no warning. */
/* As DLPack's own header defines it: programs may include both, in any order. */
typedef struct DLManagedTensor {
    void *manager_ctx;
} DLManagedTensor;

#include <weft/weft.h>

typedef struct DLManagedTensorVersioned {
    void *manager_ctx;
} DLManagedTensorVersioned;

void weft_headers_compile(DLManagedTensor *const older[], DLManagedTensorVersioned *const managed[]);

void weft_headers_compile(DLManagedTensor *const older[], DLManagedTensorVersioned *const managed[])
{
    weft_from_dlpack_unversioned(WEFT_F32, 0, NULL, older, NULL, NULL, 0);
    weft_from_dlpack(WEFT_F32, 0, NULL, managed, NULL, NULL, 0);
    const weft_config zero = { 0 }, config = WEFT_CONFIG_DEFAULT;
    const weft_adam_options adam = WEFT_ADAM_DEFAULT, adamw = WEFT_ADAMW_DEFAULT;
    const weft_cross_entropy_options cross_entropy = WEFT_CROSS_ENTROPY_OPTIONS_DEFAULT;
    const weft_local_map_options local_map = WEFT_LOCAL_MAP_OPTIONS_DEFAULT;
    (void)zero, (void)config, (void)adam, (void)adamw, (void)cross_entropy, (void)local_map;
}
