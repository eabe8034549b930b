/* The chunks of HDF5 datasets, as another program reads them. */
#include "checkpoint_support.h"

#include <stdio.h>

enum { RANKS = 6 };

static const char *hdf5_writer; /* NULL: there is none */

/* Chunks of rows of 64 bytes, of shards of one size: whole ones, unless that needs twice as many. */
static void test_chunks(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, bytes;
        const char *chunk;
    } cases[] = { { 9, 320, "3 8 " }, { 7, 320, "4 8 " }, { 6, 320, "3 8 " }, { 12, 704, "6 8 " }, { 5, 320, "5 8 " }, { 5, 4000, "5 8 " },
                  { 5, 16, "1 2 " }, { 4, 40, "1 4 " } };
    const char *name = "a";
    if (hdf5_writer == NULL) {
        skip();
    }
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const weft_hdf5_options stored = { .chunk_bytes = cases[i].bytes };
        char command[600], chunk[40] = "";
        weft_tensor *tensor =
            make_numbered(1, WEFT_F64, 2, (const int64_t[]){ cases[i].rows * RANKS, 8 }, line, (const weft_placement[]){ weft_shard(0) });
        assert_int_equal(weft_hdf5_save_ex(checkpoint_path(), 1, &name, &tensor, &stored), WEFT_OK);
        snprintf(command, sizeof(command), "'%s' '%s' a", hdf5_writer, checkpoint_path());
        FILE *output = popen(command, "r");
        assert_non_null(output);
        assert_non_null(fgets(chunk, sizeof(chunk), output));
        assert_int_equal(pclose(output), 0);
        assert_string_equal(chunk, cases[i].chunk);
        assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, &name, &tensor), WEFT_OK); /* all processes have looked */
        assert_numbered(tensor, 1);
    }
}

int main(int argc, char **argv)
{
    hdf5_writer = argc > 1 ? argv[1] : NULL;
    WORLD(RANKS);
    weft_scope_begin();
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_chunks) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    checkpoint_remove();
    weft_scope_end();
    return failed + world_stop(NULL);
}
