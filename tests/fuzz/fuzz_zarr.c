/* weft_zarr_parse() and weft_zarr_decode(): a zarr.json, and after a 0 the bytes of a chunk. Metadata that are accepted have extents that
 * can be counted with, and are read again as they are written. */
#include "fuzz.h"
#include "io/zarr_codecs.h"

static void decode(const weft_zarr_array *array, const uint8_t *data, size_t size)
{
    const char *missing;
    const size_t element = weft_dtype_size(array->dtype);
    int64_t count = 1;
    for (int d = 0; d < array->ndim; d++) {
        if (array->inner[d] > (1 << 16) / count) {
            return;
        }
        count *= array->inner[d];
    }
    weft_zarr_bytes stored = { .count = 0 };
    unsigned char *elements = malloc((size_t)count * element + 1);
    FUZZ_REQUIRE(elements != NULL && weft_zarr_bytes_reserve(&stored, (int64_t)size + 1));
    memcpy(stored.bytes, data, size);
    stored.count = (int64_t)size;
    if (weft_zarr_has_codecs(&array->chain, &missing)) {
        bool no_memory;
        weft_zarr_decode(&array->chain, &stored, count, element, element, elements, &no_memory);
    }
    weft_zarr_bytes_free(&stored);
    free(elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), why[200] = "";
    const size_t length = strlen(text);
    weft_zarr_array array, again;
    const weft_status status = weft_zarr_parse(text, length, &array, why, sizeof(why));
    FUZZ_REQUIRE(status == WEFT_OK || why[0] != '\0');
    if (status == WEFT_OK) {
        FUZZ_REQUIRE(array.ndim >= 0 && array.ndim <= WEFT_MAX_DIMS);
        for (int d = 0; d < array.ndim; d++) {
            FUZZ_REQUIRE(array.shape[d] >= 0 && array.inner[d] > 0 && array.chunk[d] % array.inner[d] == 0);
            FUZZ_REQUIRE(array.chain.order[d] >= 0 && array.chain.order[d] < array.ndim);
        }
        decode(&array, data + (length < size ? length + 1 : size), length < size ? size - length - 1 : 0);
        weft_text written = weft_text_growing();
        weft_zarr_add(&written, &array, "a\"b", "layout");
        FUZZ_REQUIRE(!written.failed);
        FUZZ_REQUIRE(weft_zarr_parse(written.characters, written.length, &again, why, sizeof(why)) == WEFT_OK);
        FUZZ_REQUIRE(again.ndim == array.ndim && again.dtype == array.dtype);
        FUZZ_REQUIRE(memcmp(again.shape, array.shape, sizeof(array.shape)) == 0);
        weft_text_free(&written);
    }
    free(text);
    return 0;
}
