/* weft_file_index_parse(): the JSON of an index. If it is accepted, its tensors are in files that it names, in its own folder. */
#include "fuzz.h"
#include "io/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_file_index index = { .files = { 0 } };
    char why[128] = "";
    if (weft_file_index_parse(&index, (const char *)data, size, why, sizeof(why)) == WEFT_OK) {
        const weft_index_entry *entries = index.tensors.items;
        for (size_t i = 0; i < index.tensors.count; i++) {
            const int file = weft_file_index_find(&index, entries[i].name);
            FUZZ_REQUIRE(file == entries[i].file && file >= 0 && (size_t)file < index.files.count);
            FUZZ_REQUIRE(strchr(weft_file_index_name(&index, file), '/') == NULL);
        }
    } else {
        FUZZ_REQUIRE(why[0] != '\0');
    }
    weft_file_index_free(&index);
    return 0;
}
