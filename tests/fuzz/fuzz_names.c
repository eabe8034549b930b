/* Names of tensors in HDF5 files and in checkpoints: one on each line. What has been saved under them is loaded under them. */
#include <unistd.h>

#include <weft/weft.h>

#include "fuzz.h"

enum { MOST_NAMES = 4 };

static weft_tensor *tensors[MOST_NAMES];
static char path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FUZZ_REQUIRE(weft_init(&(weft_config){ .ranks = 1 }) == WEFT_OK);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    for (int i = 0; i < MOST_NAMES; i++) {
        tensors[i] = weft_full(WEFT_F32, i, 1, (int64_t[]){ 2 }, NULL, NULL);
        FUZZ_REQUIRE(tensors[i] != NULL);
    }
    snprintf(path, sizeof(path), "/dev/shm/weft-fuzz-names-%d", (int)getpid());
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char *text = fuzz_text(data + 1, size - 1);
    const char *names[MOST_NAMES];
    int count = 0;
    for (char *line = text; line != NULL && count < MOST_NAMES;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        names[count++] = line;
        line = end == NULL ? NULL : end + 1;
    }
    bool hdf5 = data[0] % 2 == 0;
    weft_status status = hdf5 ? weft_hdf5_save(path, count, names, tensors) : weft_checkpoint_save(path, count, names, tensors, NULL);
    if (status == WEFT_OK) {
        status = hdf5 ? weft_hdf5_load(path, count, names, tensors) : weft_checkpoint_load(path, count, names, tensors);
        if (status != WEFT_OK) {
            fprintf(stderr, "%s\n", weft_last_error());
        }
        FUZZ_REQUIRE(status == WEFT_OK);
    }
    weft_clear_error();
    unlink(path);
    free(text);
    return 0;
}
