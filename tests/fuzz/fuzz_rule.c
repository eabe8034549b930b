/* weft_rule_parse(): any text, in a buffer for the reason of any size. */
#include "fuzz.h"
#include "sharding/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), why[64] = "";
    weft_rule rule;
    weft_status status = weft_rule_parse(text, &rule, why, sizeof(why));
    FUZZ_REQUIRE((status == WEFT_OK) == (why[0] == '\0'));
    FUZZ_REQUIRE(status != WEFT_OK || (rule.num_inputs <= WEFT_MAX_INPUTS && rule.num_outputs <= WEFT_MAX_OUTPUTS));
    free(text);
    return 0;
}
