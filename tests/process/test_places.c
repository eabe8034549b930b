/* Places of files, and folders that are not writable. The start succeeds if it can, waits for nothing, and
 * changes nothing elsewhere.
 *
 * Argument: the program starter. */
#include "places_support.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpirun.h"

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

/* Starts all the same, and keeps no figures; the program's variables are unchanged. */
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

/* An error, because the request cannot be met: StarPU, built with FxT, would abort. */
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
    const char *arguments[MPIRUN_MAX_WORDS + 2] = { NULL };
    arguments[mpirun_words(arguments, "3", false)] = starter;
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

/* Measurements of buses and of the machine are read from a read-only folder. */
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
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s STARTER\n", argv[0]);
        return 2;
    }
    starter = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
