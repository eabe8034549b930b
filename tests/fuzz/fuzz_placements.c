/* weft_placements_parse(): what it reads is written, and read again, as the same. */
#include "fuzz.h"
#include "layout/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    int n = data[0] % (WEFT_MAX_DIMS + 2);
    char *text = fuzz_text(data + 1, size - 1), written[1 << 16], why[64];
    weft_placement placements[WEFT_MAX_DIMS + 2], again[WEFT_MAX_DIMS + 2];
    if (weft_placements_read(text, n, placements, why, sizeof(why)) == WEFT_OK) {
        FUZZ_REQUIRE(n <= WEFT_MAX_DIMS);
        weft_placement canonical[WEFT_MAX_DIMS];
        if (weft_placements_normalize(placements, n, WEFT_MAX_DIMS, canonical, why, sizeof(why)) == WEFT_OK) {
            weft_text whole = weft_text_in(written, sizeof(written));
            weft_placements_write(&whole, canonical, n);
            FUZZ_REQUIRE(weft_placements_read(written, n, again, why, sizeof(why)) == WEFT_OK);
            FUZZ_REQUIRE(weft_placements_equal(canonical, again, n));
        }
    }
    free(text);
    return 0;
}
