/* Files that public functions read: saved graphs, checkpoints. The file is one of memory. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include <weft/weft.h>

#include "fuzz.h"
#include "graph/save/saved.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    FUZZ_REQUIRE(weft_init(&(weft_config){ .world = WEFT_WORLD_FAKE, .fake_size = 4 }) == WEFT_OK);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    int file = memfd_create("fuzz", 0);
    FUZZ_REQUIRE(file >= 0 && write(file, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (data[0] % 2 == 0) {
        weft_saved_graph *saved = weft_saved_graph_read("fuzz", path);
        if (saved != NULL) {
            weft_saved_graph_free(saved);
        }
    } else {
        weft_checkpoint_file *opened = weft_checkpoint_open(path);
        if (opened != NULL) {
            weft_checkpoint_entry entry;
            for (int i = 0; i < weft_checkpoint_num_tensors(opened); i++) {
                weft_checkpoint_tensor(opened, i, &entry);
            }
            weft_checkpoint_close(opened);
        }
    }
    weft_clear_error();
    close(file);
    return 0;
}
