/* Places of files that are occupied by entries of others. The start waits for nothing, and changes nothing
 * elsewhere.
 *
 * Argument: the program starter. */
#define _DEFAULT_SOURCE /* mknod() */
#include "places_support.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* ---- what lies in the file's place --------------------------------------------------------------------- */

static char models[160]; /* HOME's, with weft/ in it */

static void make_models(void)
{
    make_folder(in(home, ".starpu"));
    snprintf(models, sizeof(models), "%s/.starpu/sampling", home);
    make_folder(models);
    make_folder(in(models, "weft"));
    make_folder(in(models, "bus"));
}

static void make_fifo(const char *path)
{
    assert_int_equal(mkfifo(path, 0666), 0);
}

static void make_link(const char *path)
{
    assert_int_equal(symlink(elsewhere, path), 0);
}

static void make_dangling_link(const char *path)
{
    assert_int_equal(symlink(in(top, "not-there"), path), 0);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(socket_file, (struct sockaddr *)&address, sizeof(address)), 0);
    close(socket_file);
}

/* One that can be read for ever, where that is allowed. */
static void make_device(const char *path)
{
    if (mknod(path, S_IFCHR | 0666, (dev_t)(1 << 8 | 5)) != 0) {
        make_link(path);
    }
}

static void make_huge(const char *path)
{
    write_text(path, "weft-machine 2\ntask_us ");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
}

static const struct kind {
    void (*make)(const char *path);
    bool replaced; /* by what has been measured: it is a file */
} kinds[] = { { make_fifo, false },   { make_link, false },   { make_dangling_link, false },
              { make_folder, false }, { make_socket, false }, { make_device, false },
              { make_huge, true } };
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void assert_unchanged(const char *path, const struct stat *before)
{
    struct stat after;
    assert_int_equal(lstat(path, &after), 0);
    assert_true(after.st_ino == before->st_ino && after.st_mode == before->st_mode &&
                after.st_mtime == before->st_mtime);
}

static void test_in_place_of_the_file(void **state)
{
    (void)state;
    make_models();
    for (int k = 0; k < NUM_KINDS; k++) {
        char path[256];
        strcpy(path, in(models, "weft/a-host"));
        struct stat before;
        kinds[k].make(path);
        assert_int_equal(lstat(path, &before), 0);
        assert_says(start_at_home(), "machine (measured", NULL, NULL);
        assert_int_equal(is_kept(models), kinds[k].replaced);
        if (!kinds[k].replaced) {
            assert_unchanged(path, &before);
        }
        assert_int_equal(count_entries(in(models, "weft")), 2); /* and the lock */
        assert_text(elsewhere, "untouched\n");
        remove_tree(path);
        unlink(path);
    }
}

static void test_in_place_of_the_lock(void **state)
{
    (void)state;
    make_models();
    for (int k = 0; k < NUM_KINDS; k++) {
        char path[256];
        strcpy(path, in(models, "weft/a-host.lock"));
        struct stat before;
        kinds[k].make(path);
        assert_int_equal(lstat(path, &before), 0);
        assert_says(start_at_home(), "machine (measured", NULL, NULL);
        assert_true(is_kept(models));
        assert_unchanged(path, &before);
        unlink(in(models, "weft/a-host"));
        remove_tree(path);
        unlink(path);
    }
}

static void test_in_place_of_the_folder(void **state)
{
    (void)state;
    make_models();
    for (int k = 0; k < NUM_KINDS; k++) {
        char path[256];
        strcpy(path, in(models, "weft"));
        struct stat before;
        remove_tree(path);
        unlink(path);
        kinds[k].make(path);
        assert_int_equal(lstat(path, &before), 0);
        assert_says(start_at_home(), "machine (measured", NULL, NULL);
        assert_text(elsewhere, "untouched\n");
        assert_int_equal(is_kept(models), kinds[k].make == make_folder);
    }
    unlink(in(models, "weft"));
}

/* StarPU itself would hang, write elsewhere, or abort. */
static void test_in_place_of_files_of_buses(void **state)
{
    (void)state;
    make_models();
    for (int k = 0; k < NUM_KINDS; k++) {
        if (kinds[k].make != make_huge) {
            char path[256];
            strcpy(path, in(models, k % 2 == 0 ? "bus/a-host.config" : "bus/a-host.latency"));
            struct stat before;
            kinds[k].make(path);
            assert_int_equal(lstat(path, &before), 0);
            assert_says(start_at_home(), "weft: ", "cannot be used", NULL);
            assert_unchanged(path, &before);
            assert_text(elsewhere, "untouched\n");
            remove_tree(path);
            unlink(path);
        }
    }
}

static void test_a_file_that_cannot_be_read(void **state)
{
    (void)state;
    start_at_home();
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s", home);
    assert_int_equal(chmod(in(home, ".starpu/sampling/weft/a-host"), 0), 0);
    assert_says(start_with(setting, geteuid() == 0 ? "WEFT_TEST_USER=65534" : NULL), "machine (measured",
                NULL, NULL);
}

/* ---- what others have put there ------------------------------------------------------------------------ */

/* As /tmp: everybody may add entries, nobody may remove those of others. */
static void open_to_all(const char *path)
{
    assert_int_equal(chmod(path, 01777), 0);
}

static void give_away(const char *path)
{
    assert_int_equal(lchown(path, NOBODY, NOBODY), 0);
}

static void skip_unless_root(void)
{
    if (geteuid() != 0) {
        skip(); /* one cannot give files to others */
    }
}

/* Figures that another user has written, for all. */
static void test_a_file_of_another_user(void **state)
{
    (void)state;
    skip_unless_root();
    start_at_home();
    snprintf(models, sizeof(models), "%s/.starpu/sampling", home);
    give_away(in(models, "weft/a-host"));
    assert_says(start_at_home(), "machine (kept: ", NULL, NULL); /* the folder's owner has allowed it */
    open_to_all(in(models, "weft"));
    assert_says(start_at_home(), "machine (measured", NULL, NULL);
}

static void test_a_link_of_another_user(void **state)
{
    (void)state;
    skip_unless_root();
    make_models();
    make_folder(in(top, "target"));
    assert_int_equal(rmdir(in(models, "weft")), 0);
    assert_int_equal(symlink(in(top, "target"), in(models, "weft")), 0);
    give_away(in(models, "weft"));
    open_to_all(models);
    assert_says(start_at_home(), "machine (measured)", NULL, NULL);
    assert_int_equal(count_entries(in(top, "target")), 0);
    /* One of our own is followed. */
    assert_int_equal(lchown(in(models, "weft"), 0, 0), 0);
    assert_says(start_at_home(), "machine (measured: ", NULL, NULL);
    assert_int_equal(count_entries(in(top, "target")), 2);
}

/* STARPU_HOME=/tmp, and somebody was there before. */
static void test_a_folder_of_another_user(void **state)
{
    (void)state;
    skip_unless_root();
    open_to_all(home);
    make_folder(in(home, ".starpu"));
    give_away(in(home, ".starpu"));
    assert_int_equal(chmod(in(home, ".starpu"), 0777), 0);
    const child *c = start_at_home();
    assert_says(c, "weft: ", "cannot be used", NULL);
    assert_says(c, "machine (measured)", NULL, NULL);
    assert_int_equal(count_entries(in(home, ".starpu")), 0);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(test_in_place_of_the_file),       TEST(test_in_place_of_the_lock),
        TEST(test_in_place_of_the_folder),     TEST(test_in_place_of_files_of_buses),
        TEST(test_a_file_that_cannot_be_read), TEST(test_a_file_of_another_user),
        TEST(test_a_link_of_another_user),     TEST(test_a_folder_of_another_user),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s STARTER\n", argv[0]);
        return 2;
    }
    starter = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
