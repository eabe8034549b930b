/* Checkpoints where the disk or the memory fails at one step: what stands under the path is whole, with all its files, and the status
 * says what failed. */
#include "checkpoint_support.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failing_memory.h"

enum { TENSORS = 3, PATH = 320 };

static const char *const names[TENSORS] = { "a", "b", "c" };

/* ---- what fails ---------------------------------------------------------------------------------------------------------- */

static int folder_syncs = -1;       /* so many succeed, the next one fails; -1: all succeed */
static const char *unreadable;      /* the end of a path whose file cannot be read; NULL: none */
static long allocations = -1;       /* so many succeed, the next one fails; -1: all succeed */
static pthread_t of_test;           /* allocations of this thread */

int __real_fsync(int file);
int __wrap_fsync(int file);
const char *__real_weft_disk_read(int file, void *bytes, int64_t count, int64_t offset);
const char *__wrap_weft_disk_read(int file, void *bytes, int64_t count, int64_t offset);

int __wrap_fsync(int file)
{
    struct stat about;
    if (folder_syncs >= 0 && fstat(file, &about) == 0 && S_ISDIR(about.st_mode) && folder_syncs-- == 0) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(file);
}

const char *__wrap_weft_disk_read(int file, void *bytes, int64_t count, int64_t offset)
{
    char link[64], path[PATH + 40] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    if (unreadable != NULL && readlink(link, path, sizeof(path) - 1) > 0 && strlen(path) > strlen(unreadable) &&
        strcmp(path + strlen(path) - strlen(unreadable), unreadable) == 0) {
        errno = EIO;
        return "read";
    }
    return __real_weft_disk_read(file, bytes, count, offset);
}

bool allocation_fails(void)
{
    return allocations >= 0 && pthread_equal(pthread_self(), of_test) && allocations-- == 0;
}

/* ---- saves ----------------------------------------------------------------------------------------------------------------- */

static const char *index_path(void)
{
    static char path[PATH];
    snprintf(path, sizeof(path), "%s.index.json", checkpoint_path());
    return path;
}

static bool is_there(const char *which, int part)
{
    char path[PATH + 40];
    int stem = (int)(strlen(checkpoint_path()) - strlen(".safetensors"));
    snprintf(path, sizeof(path), "%.*s-%s%05d-of-%05d.safetensors", stem, checkpoint_path(), which, part, TENSORS);
    return access(path, F_OK) == 0;
}

static void assert_parts(const char *which, bool there)
{
    for (int k = 1; k <= TENSORS; k++) {
        assert_int_equal(is_there(which, k), there);
    }
}

static void make_tensors(weft_tensor *tensors[])
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    const weft_placement placements[] = { weft_shard(0) };
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = make_numbered(i, WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, placements);
    }
}

static weft_status save(const char *path, weft_tensor *const tensors[])
{
    const weft_checkpoint_options options = { .max_file_bytes = 1 };
    return weft_checkpoint_save(path, TENSORS, names, tensors, path == index_path() ? &options : NULL);
}

/* What the path holds is `number`ed from this number on. */
static void assert_holds(const char *path, int number)
{
    weft_tensor *loaded[TENSORS];
    make_tensors(loaded);
    assert_int_equal(weft_checkpoint_load(path, TENSORS, names, loaded), WEFT_OK);
    for (int i = 0; i < TENSORS; i++) {
        assert_numbered(loaded[i], (i + number) % TENSORS);
    }
}

static void remove_files(void)
{
    char command[2 * PATH];
    int stem = (int)(strlen(checkpoint_path()) - strlen(".safetensors"));
    snprintf(command, sizeof(command), "rm -f '%.*s'*", stem, checkpoint_path());
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    (void)state;
    WORLD(2);
    weft_scope_begin();
    return 0;
}

static int tear_down(void **state)
{
    weft_scope_end();
    remove_files();
    return world_stop(state);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------ */

/* A file has its new name, and the folder cannot be synced: until the index has been replaced all is undone, then nothing is. */
static void test_folder_cannot_be_synced(void **state)
{
    (void)state;
    weft_tensor *tensors[TENSORS], *others[TENSORS];
    make_tensors(tensors);
    for (int i = 0; i < TENSORS; i++) {
        others[i] = tensors[(i + 1) % TENSORS];
    }
    assert_int_equal(save(index_path(), tensors), WEFT_OK);
    for (int before = 0; before <= TENSORS; before++) {
        folder_syncs = before;
        assert_int_equal(save(index_path(), others), WEFT_ERR_IO);
        assert_int_equal(folder_syncs, -1);
        assert_error(WEFT_ERR_IO, "renamed, but a crash of the machine may undo it: fsync of the folder: Input/output error");
        bool replaced = before == TENSORS;
        assert_holds(index_path(), replaced);
        assert_parts("", true); /* a crash may bring the old index back */
        assert_parts("1-", replaced);
    }
    assert_int_equal(save(checkpoint_path(), tensors), WEFT_OK);
    folder_syncs = 0;
    assert_int_equal(save(checkpoint_path(), others), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "renamed, but");
    assert_holds(checkpoint_path(), 1);
}

/* It may be whole. A damaged one is replaced. */
static void test_former_index_cannot_be_read(void **state)
{
    (void)state;
    weft_tensor *tensors[TENSORS];
    make_tensors(tensors);
    assert_int_equal(save(index_path(), tensors), WEFT_OK);
    unreadable = ".index.json";
    assert_int_equal(save(index_path(), tensors), WEFT_ERR_IO);
    unreadable = NULL;
    assert_error(WEFT_ERR_IO, ".index.json: read: Input/output error");
    assert_holds(index_path(), 0);
    assert_parts("1-", false);
    write_bytes(index_path(), "{", 1);
    assert_int_equal(save(index_path(), tensors), WEFT_OK);
    assert_holds(index_path(), 0);
    assert_parts("", false); /* they say themselves that they were the damaged index's */
    assert_parts("1-", true);
}

/* Before the commit process 0 reads what others have written. */
static void test_sample_cannot_be_read(void **state)
{
    (void)state;
    weft_tensor *tensors[TENSORS];
    make_tensors(tensors);
    unreadable = ".safetensors.tmp";
    assert_int_equal(save(checkpoint_path(), tensors), WEFT_ERR_IO);
    unreadable = NULL;
    assert_error(WEFT_ERR_IO, "read: Input/output error");
    assert_int_not_equal(access(checkpoint_path(), F_OK), 0);
}

/* Each allocation in turn: of one file, and of an index. */
static void test_no_memory_to_open(void **state)
{
    (void)state;
    weft_tensor *tensors[TENSORS];
    make_tensors(tensors);
    of_test = pthread_self();
    for (int kind = 0; kind < 2; kind++) {
        const char *path = kind == 0 ? checkpoint_path() : index_path();
        int failures = 0;
        assert_int_equal(save(path, tensors), WEFT_OK);
        for (bool failed = true; failed; failures += failed) {
            allocations = failures;
            weft_checkpoint_file *file = weft_checkpoint_open(path);
            failed = allocations < 0;
            allocations = -1;
            if (file == NULL) {
                assert_error(WEFT_ERR_NOMEM, "no memory");
            } else {
                assert_int_equal(weft_checkpoint_num_tensors(file), TENSORS);
                assert_int_equal(weft_checkpoint_close(file), WEFT_OK);
            }
        }
        assert_true(failures > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folder_cannot_be_synced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_former_index_cannot_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sample_cannot_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory_to_open, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
