/* Where files are kept: folders that cannot be written, and what others may have put there. The start succeeds
 * wherever it can, waits for nothing, and changes nothing elsewhere. starter.c is run as a child.
 *
 * Argument: the program starter. */
#define _DEFAULT_SOURCE /* mknod() */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "child.h"

enum { LONG_S = 60, NOBODY = 65534 };

static char *starter;

/* ---- folders of a test --------------------------------------------------------------------------------- */

static char top[] = "/tmp/weft-places-XXXXXX"; /* all lies in it */
static char private[128];                      /* TMPDIR: StarPU's own folder is made there */
static char home[128];
static char elsewhere[128]; /* a file that must stay as it is */

static const char *in(const char *folder, const char *name)
{
    enum { PATHS = 8 };
    static char paths[PATHS][256];
    static int next;
    char *path = paths[next++ % PATHS];
    assert_true(strlen(folder) + strlen(name) + 2 < sizeof(paths[0]));
    strcpy(path, folder);
    strcat(path, "/");
    return strcat(path, name);
}

static void remove_tree(const char *name)
{
    DIR *directory = opendir(name);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char inner[1024];
            struct stat found;
            snprintf(inner, sizeof(inner), "%s/%s", name, entry->d_name);
            if (lstat(inner, &found) == 0 && S_ISDIR(found.st_mode)) {
                remove_tree(inner);
            } else {
                unlink(inner);
            }
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    rmdir(name);
}

static int count_entries(const char *name)
{
    DIR *directory = opendir(name);
    assert_non_null(directory);
    int count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 2;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_text(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(found, text);
}

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/weft-places-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    snprintf(private, sizeof(private), "%s/private", top);
    snprintf(home, sizeof(home), "%s/home", top);
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", top);
    make_folder(private);
    assert_int_equal(chmod(private, 0777), 0); /* another user runs the program in some tests */
    make_folder(home);
    write_text(elsewhere, "untouched\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_text(elsewhere, "untouched\n");
    assert_int_not_equal(access(in(top, "not-there"), F_OK), 0);
    assert_int_equal(count_entries(private), 0);
    remove_tree(top);
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* With a TMPDIR and a host's name of its own, measuring. It must start and compute. */
static const child *start_with(const char *first, const char *second)
{
    static child c;
    static char tmpdir[160];
    const char *const arguments[] = { starter, NULL };
    const char *const settings[] = { tmpdir,
                                     "WEFT_CALIBRATE=auto",
                                     "STARPU_HOSTNAME=a-host",
                                     "XDG_CACHE_HOME",
                                     "STARPU_HOME",
                                     "STARPU_PERF_MODEL_DIR",
                                     first,
                                     second,
                                     NULL };
    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", private);
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    assert_ends(&c, 0);
    assert_says(&c, "process 0 computes 12", NULL, NULL);
    return &c;
}

static const child *start_at_home(void)
{
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s", home);
    return start_with(setting, NULL);
}

/* As a user whom permissions hold, for the one of the tests may be root. */
static const child *start_at_home_of_another(void)
{
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s", home);
    return start_with(setting, geteuid() == 0 ? "WEFT_TEST_USER=65534" : NULL);
}

static void assert_says_not(const child *c, const char *text)
{
    if (child_says(c, text, NULL, NULL)) {
        fail_msg("\"%s\" in:\n%s", text, c->output);
    }
}

/* Whether the figures of a-host have been kept, whole, in weft/ of this folder. */
static bool is_kept(const char *models)
{
    char path[256], word[32] = "";
    snprintf(path, sizeof(path), "%s/weft/a-host", models);
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISREG(found.st_mode)) {
        return false;
    }
    FILE *file = fopen(path, "r");
    bool kept = file != NULL && fscanf(file, "%31s", word) == 1 && strcmp(word, "weft-machine") == 0;
    if (file != NULL) {
        fclose(file);
    }
    return kept;
}

/* ---- folders that cannot be written -------------------------------------------------------------------- */

static void test_a_home_that_can_be_written(void **state)
{
    (void)state;
    const child *c = start_at_home();
    assert_says(c, "machine (measured: ", "/home/.starpu/sampling/weft/a-host", NULL);
    assert_says_not(c, "weft:");
    assert_true(is_kept(in(home, ".starpu/sampling")));
    assert_says(start_at_home(), "machine (kept: ", NULL, NULL);
}

static void test_a_home_that_is_to_be_made(void **state)
{
    (void)state;
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s/not/yet", home);
    assert_says(start_with(setting, NULL), "machine (measured: ", "/not/yet/.starpu", NULL);
}

/* Where weft takes StarPU's folder to be, StarPU keeps its own files. */
static void test_the_folder_is_starpus(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *folder;
    } places[] = { { "HOME", "/.starpu/sampling" },
                   { "STARPU_HOME", "/.starpu/sampling" },
                   { "XDG_CACHE_HOME", "/.starpu/sampling" },
                   { "STARPU_PERF_MODEL_DIR", "" } };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char folder[160], setting[200], models[200];
        snprintf(folder, sizeof(folder), "%s/%s", home, places[i].variable);
        snprintf(setting, sizeof(setting), "%s=%s", places[i].variable, folder);
        snprintf(models, sizeof(models), "%s%s", folder, places[i].folder);
        assert_says_not(start_with(setting, NULL), "weft:");
        assert_true(is_kept(models));
        assert_int_equal(access(in(models, "bus/a-host.config"), R_OK), 0);
    }
}

/* Started all the same, with figures that are kept nowhere; the program's variables are what they were. */
static void test_homes_that_cannot_be_written(void **state)
{
    (void)state;
    char file[160], file_within[160];
    snprintf(file, sizeof(file), "HOME=%s", elsewhere);
    snprintf(file_within, sizeof(file_within), "STARPU_HOME=%s/home", elsewhere);
    const char *const settings[] = { "HOME=/proc",
                                     "STARPU_HOME=/proc/self",
                                     "XDG_CACHE_HOME=/dev/null",
                                     file,
                                     file_within,
                                     "STARPU_PERF_MODEL_DIR=/proc/models" };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const child *c = start_with(settings[i], NULL);
        assert_says(c, "weft: ", "cannot be used: what is measured of this machine is not kept", NULL);
        assert_says(c, "machine (measured)", NULL, NULL);
        bool own = strncmp(settings[i], "STARPU_PERF", 11) == 0, cache = strncmp(settings[i], "XDG", 3) == 0;
        assert_says(c, "process 0 has STARPU_PERF_MODEL_DIR", own ? "/proc/models" : "DIR (not set)",
                    cache ? "/dev/null" : "HOME (not set)");
        assert_int_equal(count_entries(private), 0);
    }
    assert_says_not(start_with("HOME=/proc", "WEFT_SILENT=1"), "weft:");
    assert_says(start_with("HOME=/proc", "WEFT_CALIBRATE=off"), "machine (built in)", NULL, NULL);
}

/* An error, for what the program asks for cannot be done: StarPU, built with FxT, would end the program. */
static void test_no_place_for_traces(void **state)
{
    (void)state;
    static child c;
    const char *const arguments[] = { starter, NULL };
    const char *const settings[] = { "STARPU_FXT_TRACE=1", "STARPU_FXT_PREFIX=/proc/traces", NULL };
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    if (c.code != 0) {
        assert_ends(&c, 3);
        assert_says(&c, "process 0 starts: input or output failed", "STARPU_FXT_PREFIX is \"/proc/traces\"",
                    NULL);
    }
}

/* Then StarPU takes TMPDIR. */
static void test_no_home(void **state)
{
    (void)state;
    assert_says(start_with("HOME", NULL), "machine (measured: ", "/private/.starpu/sampling/weft/a-host",
                NULL);
    remove_tree(in(private, ".starpu"));
}

static void test_an_exit_without_an_end(void **state)
{
    (void)state;
    static child c;
    char tmpdir[160];
    const char *const arguments[] = { starter, "exits", NULL };
    const char *const settings[] = { tmpdir, "HOME=/proc", "WEFT_CALIBRATE=off", NULL };
    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", private);
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    assert_ends(&c, 0);
    assert_int_equal(count_entries(private), 0);
}

#if WEFT_HAVE_MPI
static void test_several_processes(void **state)
{
    (void)state;
    static child c;
    const char *const arguments[] = { "mpirun", "--oversubscribe", "--bind-to", "none", "-n",
                                      "3",      starter,           NULL };
    const char *const settings[] = { "HOME=/proc", "WEFT_CALIBRATE=off", NULL };
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    assert_ends(&c, 0);
    for (int p = 0; p < 3; p++) {
        char line[32];
        snprintf(line, sizeof(line), "process %d computes 12", p);
        assert_says(&c, line, NULL, NULL);
    }
}
#endif

/* Nobody may write there any more. */
static void close_folder(const char *name)
{
    DIR *directory = opendir(name);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char inner[512];
            snprintf(inner, sizeof(inner), "%s/%s", name, entry->d_name);
            struct stat found;
            assert_int_equal(stat(inner, &found), 0);
            if (S_ISDIR(found.st_mode)) {
                close_folder(inner);
            } else {
                assert_int_equal(chmod(inner, 0444), 0);
            }
        }
    }
    closedir(directory);
    assert_int_equal(chmod(name, 0555), 0);
}

static void open_folders(void)
{
    static const char *const names[] = { "", ".starpu", ".starpu/sampling", ".starpu/sampling/bus",
                                         ".starpu/sampling/weft" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(chmod(in(home, names[i]), 0755), 0);
    }
}

/* What was measured of buses and of the machine is read where it cannot be written. */
static void test_a_home_that_can_be_read(void **state)
{
    (void)state;
    start_at_home();
    close_folder(home);
    const child *c = start_at_home_of_another();
    assert_says(c, "weft: ", "cannot be used", NULL);
    assert_says(c, "machine (kept: ", NULL, NULL);
    assert_says_not(c, "calibrating");
    open_folders();
}

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

/* StarPU itself would wait for ever, write elsewhere, or end the program. */
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

/* As in /tmp: everybody may add something, nobody remove what is another's. */
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_home_that_can_be_written),
        TEST(test_a_home_that_is_to_be_made),
        TEST(test_the_folder_is_starpus),
        TEST(test_homes_that_cannot_be_written),
        TEST(test_no_place_for_traces),
        TEST(test_no_home),
        TEST(test_an_exit_without_an_end),
#if WEFT_HAVE_MPI
        TEST(test_several_processes),
#endif
        TEST(test_a_home_that_can_be_read),
        TEST(test_in_place_of_the_file),
        TEST(test_in_place_of_the_lock),
        TEST(test_in_place_of_the_folder),
        TEST(test_in_place_of_files_of_buses),
        TEST(test_a_file_that_cannot_be_read),
        TEST(test_a_file_of_another_user),
        TEST(test_a_link_of_another_user),
        TEST(test_a_folder_of_another_user),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s STARTER\n", argv[0]);
        return 2;
    }
    starter = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
