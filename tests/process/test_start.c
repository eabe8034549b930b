/* Starts under adverse conditions: misspelt settings, a launcher of another world, no place for files.
 * Observed from outside: starter.c is run as a child.
 *
 * Arguments: the program starter, settings.md, runtime.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "runtime/variables.h"

enum { LONG_S = 60 };

static char *starter;

/* Runs it, alone, with these settings; it must start, and end well. */
static const child *start_alone(const char *const settings[])
{
    static child c;
    const char *const arguments[] = { starter, NULL };
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    assert_ends(&c, 0);
    assert_says(&c, "process 0 computes 12", NULL, NULL);
    return &c;
}

static void refuse(const child *c, const char *text)
{
    if (child_says(c, text, NULL, NULL)) {
        fail_msg("\"%s\" in:\n%s", text, c->output);
    }
}

/* ---- what hwloc looks at ------------------------------------------------------------------------------- */

/* An X display may be that of an ssh client, and "localhost" a question to a name server. */
static void test_opens_no_display(void **state)
{
    (void)state;
    const char *const forwarded[] = { "DISPLAY=localhost:10.0", NULL };
    const child *c = start_alone(forwarded);
    refuse(c, "opens the X display");
    assert_says(c, "process 0 has HWLOC_COMPONENTS (not set)", NULL, NULL);
    const char *const wanted[] = { "HWLOC_COMPONENTS=gl,-opencl", NULL };
    c = start_alone(wanted);
    assert_says(c, "process 0 has HWLOC_COMPONENTS gl,-opencl", NULL, NULL);
    if (!child_says(c, "opens the X display", NULL, NULL)) {
        skip(); /* hwloc has no component gl, or StarPU does not ask for it: nothing was tested */
    }
}

/* ---- settings ------------------------------------------------------------------------------------------ */

/* More ranks than one process can emulate are refused at once; a fake world may have them. */
static void test_too_many_ranks(void **state)
{
    (void)state;
    static const char *const numbers[] = { "WEFT_RANKS=100000", "WEFT_RANKS=4097", "WEFT_LOCAL_RANKS=100000" };
    const char *const arguments[] = { starter, NULL };
    for (int i = 0; i < 3; i++) {
        const char *const settings[] = { numbers[i], NULL };
        child c = { .arguments = arguments, .settings = settings, .seconds = LONG_S };
        child_run(&c);
        assert_ends(&c, 3);
        assert_says(&c, "a process would host ", " ranks, at most 4096 are possible", NULL);
    }
    start_alone((const char *const[]){ "WEFT_RANKS=64", NULL });
}

static void test_misspelt_variables(void **state)
{
    (void)state;
    const char *const settings[] = { "WEFT_TIMEOUT=3",    "WEFT_PNAEL_ROWS=8", "WEFT_CHEK=1",
                                     "WEFT_COLOUR_MAP=1", "WEFT_TEST_X=1",     "WEFT_BENCH_X=1",
                                     "WEFT_PANEL_BYTES=", "WEFT_SEED=1",       "WEFT_PEERS_PYTHON=x", "WEFT_TENSORS_LIBRARY=x",
                                     NULL };
    const child *c = start_alone(settings);
    assert_says(c, "weft: WEFT_TIMEOUT is set, which weft does not know", "did you mean WEFT_TIMEOUT_S?",
                NULL);
    assert_says(c, "weft: WEFT_PNAEL_ROWS is set", "did you mean WEFT_PANEL_ROWS?", NULL);
    assert_says(c, "weft: WEFT_CHEK is set", "did you mean WEFT_CHECK?", NULL);
    assert_says(c, "weft: WEFT_COLOUR_MAP is set, which weft does not know (", NULL, NULL);
    refuse(c, "WEFT_TEST_X");
    refuse(c, "WEFT_BENCH_X");
    refuse(c, "WEFT_PEERS_PYTHON");
    refuse(c, "WEFT_TENSORS_LIBRARY");
    refuse(c, "WEFT_PANEL_BYTES is");
    refuse(c, "WEFT_SEED");
}

static void test_no_warnings(void **state)
{
    (void)state;
    const char *const settings[] = { "WEFT_TIMEOUT=3", "SLURM_NTASKS=4", "WEFT_SILENT=1", NULL };
    refuse(start_alone(settings), "weft:");
}

static char manual[1 << 17]; /* docs/settings.md and runtime.h */

static void read_manual(const char *settings, const char *header)
{
    const char *const paths[] = { settings, header };
    size_t length = 0;
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "r");
        assert_non_null(file);
        length += fread(manual + length, 1, sizeof(manual) - 1 - length, file);
        fclose(file);
    }
}

/* All that are read are in the manual. */
static void test_variables_are_documented(void **state)
{
    (void)state;
    for (int v = 0; v < WEFT_VARIABLE_COUNT; v++) {
        if (strstr(manual, weft_variable_name(v)) == NULL) {
            fail_msg("%s is neither in docs/settings.md nor in runtime.h", weft_variable_name(v));
        }
    }
}

/* Every `WEFT_NAME` or `WEFT_NAME=value` of docs/settings.md is known. */
static void test_documented_variables_are_known(void **state)
{
    (void)state;
    enum { MOST = 64 };
    static char names[MOST][64];
    const char *settings[MOST + 1];
    int count = 0;
    for (const char *name = strstr(manual, "`WEFT_"); name != NULL && count < MOST;
         name = strstr(name, "`WEFT_")) {
        size_t length = strspn(++name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        snprintf(names[count], sizeof(names[count]), "%.*s=", (int)length, name);
        bool named = strcmp(names[count], "WEFT_=") != 0; /* "begins with `WEFT_`" */
        if (named && strcmp(names[count], "WEFT_CALIBRATE=") != 0) { /* that is off already */
            settings[count] = names[count];
            count++;
        }
    }
    assert_in_range(count, 12, MOST - 1);
    settings[count] = NULL;
    refuse(start_alone(settings), "weft:");
}

/* ---- launchers ----------------------------------------------------------------------------------------- */

/* srun without PMI, or the mpirun of another MPI: each process would be a world of its own. */
static void test_alone_among_several(void **state)
{
    (void)state;
    static const char *const variables[] = { "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=3", "FLUX_JOB_SIZE=2" };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *const settings[] = { variables[i], NULL };
        char name[64];
        snprintf(name, sizeof(name), "weft: %s", variables[i]);
        char *value = strchr(name, '=');
        *value = '\0';
        assert_says(start_alone(settings), name, "a world of its own", NULL);
    }
}

/* MPI's launcher is there, and MPI_COMM_WORLD has one process all the same. */
static void test_singletons(void **state)
{
    (void)state;
    const char *const settings[] = { "OMPI_COMM_WORLD_SIZE=4", NULL };
    assert_says(start_alone(settings), "weft: OMPI_COMM_WORLD_SIZE is 4", "a world of its own", NULL);
}

static void test_alone_on_purpose(void **state)
{
    (void)state;
    const char *const one[] = { "SLURM_NTASKS=1", NULL };
    refuse(start_alone(one), "weft:");
    const char *const meant[] = { "SLURM_NTASKS=4", "OMPI_COMM_WORLD_SIZE=4", "WEFT_WORLD=self", NULL };
    refuse(start_alone(meant), "weft:");
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many_ranks),
        cmocka_unit_test(test_opens_no_display),
        cmocka_unit_test(test_misspelt_variables),
        cmocka_unit_test(test_no_warnings),
        cmocka_unit_test(test_variables_are_documented),
        cmocka_unit_test(test_documented_variables_are_known),
        cmocka_unit_test(test_alone_among_several),
        cmocka_unit_test(test_singletons),
        cmocka_unit_test(test_alone_on_purpose),
    };
    if (argc != 4) {
        fprintf(stderr, "usage: %s STARTER SETTINGS HEADER\n", argv[0]);
        return 2;
    }
    starter = argv[1];
    read_manual(argv[2], argv[3]);
    /* Variables of the launcher of these tests. */
    static const char *const launchers[] = { "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "FLUX_JOB_SIZE" };
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        unsetenv(launchers[i]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
