/* The chunks of HDF5 datasets, as another program reads them; and by how many writes datasets without chunks are written. */
#include "checkpoint_support.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/disk.h"

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

static atomic_int writes;

const char *__real_weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset);
const char *__wrap_weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset);

const char *__wrap_weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset)
{
    atomic_fetch_add(&writes, 1);
    return __real_weft_disk_write(file, bytes, count, offset);
}

/* Columns on ranks, which would be a write for each row: rows are brought together first. */
static void test_short_runs(void **state)
{
    (void)state;
    enum { ROWS = 400 };
    const char *name = "a";
    if (weft_hdf5_save(checkpoint_path(), 0, NULL, NULL) == WEFT_ERR_UNSUPPORTED) {
        weft_clear_error();
        skip();
    }
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    for (int columns = RANKS; columns <= 2 * RANKS + 1; columns += RANKS + 1) {
        const int64_t shape[] = { ROWS, columns };
        weft_tensor *saved = make_numbered(1, WEFT_F32, 2, shape, line, (const weft_placement[]){ weft_shard(1) });
        weft_tensor *read = weft_zeros(WEFT_F32, 2, shape, line, (const weft_placement[]){ weft_shard(1) });
        atomic_store(&writes, 0);
        assert_int_equal(weft_hdf5_save(checkpoint_path(), 1, &name, &saved), WEFT_OK);
        assert_in_range(atomic_load(&writes), 1, ROWS / 4);
        assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, &name, &read), WEFT_OK);
        assert_numbered(read, 1);
        assert_numbered(saved, 1);
    }
}

int main(int argc, char **argv)
{
    hdf5_writer = argc > 1 ? argv[1] : NULL;
    WORLD(RANKS);
    weft_scope_begin();
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_chunks), cmocka_unit_test(test_short_runs) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    checkpoint_remove();
    weft_scope_end();
    return failed + world_stop(NULL);
}
