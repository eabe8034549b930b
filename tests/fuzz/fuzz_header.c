/* weft_file_header_parse(): the JSON of a safetensors file. If a header is accepted, its tensors lie inside the file. */
#include "fuzz.h"
#include "io/header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    /* 8 bytes of length, the header, and data of a length that the first byte tells. */
    int64_t length = (int64_t)size - 1, file_bytes = WEFT_LENGTH_BYTES + length + data[0] * 16, told;
    char *bytes = malloc((size_t)(WEFT_LENGTH_BYTES + length)), why[128] = "";
    FUZZ_REQUIRE(bytes != NULL);
    for (int i = 0; i < WEFT_LENGTH_BYTES; i++) {
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    }
    memcpy(bytes + WEFT_LENGTH_BYTES, data + 1, (size_t)length);
    if (weft_file_header_size((const unsigned char *)bytes, file_bytes, &told, why, sizeof(why))) {
        FUZZ_REQUIRE(told == length);
        weft_file_header header = { 0 };
        if (weft_file_header_parse(&header, bytes, WEFT_LENGTH_BYTES + length, file_bytes, why, sizeof(why)) == WEFT_OK) {
            const weft_file_tensor *tensors = weft_file_tensors(&header);
            for (int64_t i = 0; i < (int64_t)header.tensors.count; i++) {
                FUZZ_REQUIRE(tensors[i].begin >= 0 && tensors[i].begin <= tensors[i].end && tensors[i].end <= header.data_bytes);
            }
        }
        weft_file_header_free(&header);
    }
    free(bytes);
    return 0;
}
