/* No test: what test_checkpoint_kill.c kills. Saves generation after generation to the path of its first argument,
 * and prints each that is saved. All elements of a generation have its number. With a second argument it saves in the
 * background, and goes on changing the tensors meanwhile. To an index: each tensor in a file of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { TENSORS = 6, MESH = 2 };

static void fill(weft_tensor *const tensors[], double value)
{
    for (int i = 0; i < TENSORS; i++) {
        weft_fill_inplace(tensors[i], value);
    }
}

static weft_status save(const char *path, int generation, bool in_background, weft_tensor *const tensors[])
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f" };
    char number[16];
    const char *const keys[] = { "generation" }, *const values[] = { number };
    const weft_checkpoint_options options = { .num_entries = 1, .keys = keys, .values = values,
                                              .max_file_bytes = strstr(path, ".index.json") != NULL ? 1 : 0 };
    snprintf(number, sizeof(number), "%d", generation);
    fill(tensors, generation);
    if (!in_background) {
        return weft_checkpoint_save(path, TENSORS, names, tensors, &options);
    }
    weft_checkpoint_saving *saving = weft_checkpoint_save_async(path, TENSORS, names, tensors, &options);
    for (int step = 1; step <= 3; step++) {
        fill(tensors, -step); /* no file may have these values */
        weft_wait();
    }
    return weft_checkpoint_wait(saving);
}

int main(int argc, char *argv[])
{
    const weft_config config = { .ranks = 2 };
    if (argc < 2 || weft_init(&config) != WEFT_OK) {
        return 1;
    }
    const int64_t ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    weft_tensor *tensors[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        const int64_t shape[] = { 10 + 13 * i, 37 };
        const weft_placement placement = i % 2 == 0 ? weft_shard(0) : weft_shard(1);
        tensors[i] = weft_zeros(i % 3 == 0 ? WEFT_F64 : WEFT_F32, 2, shape, mesh, &placement);
    }
    weft_status status = WEFT_OK;
    for (int generation = 1; status == WEFT_OK; generation++) {
        status = save(argv[1], generation, argc > 2, tensors);
        if (status == WEFT_OK && weft_process_index() == 0) {
            printf("%d\n", generation);
            fflush(stdout);
        }
    }
    fprintf(stderr, "%s\n", weft_last_error());
    return 1;
}
