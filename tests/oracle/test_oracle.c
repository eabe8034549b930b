/* Every operation against PyTorch's answers (README.md), with panels of several heights; in one process
 * that hosts all ranks, or in several.
 *   test-oracle CASES                 the folder of cases
 *   test-oracle CASES --report FILE   also writes the results as a page
 *   test-oracle CASES --bits FILE     also writes a hash of each result, to compare two builds bit for bit
 * WEFT_TEST_ONLY selects one operation; with WEFT_TEST_STEP=n only every nth of the cases is run (oracle_runs()). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "oracle.h"
#include "runtime/pending.h"

static oracle_folder cases;
static const char *folder, *report_path;

/* ---- one case ------------------------------------------------------------------------------------------ */

static double allowed_ulps(const oracle_case *c, const oracle_operation *operation, weft_dtype dtype)
{
    double ulps = weft_dtype_size(dtype) == 2 && operation->ulps > 0 ? 1 : operation->ulps;
    for (int i = 0; i < c->num_inputs; i++) {
        int64_t parts = oracle_parts(c, &c->inputs[i]);
        ulps = parts > 1 ? (ulps + 1) * (double)parts : ulps;
    }
    return ulps;
}

static bool is_in_place(const oracle_case *c)
{
    static const char suffix[] = "_inplace";
    size_t length = strlen(c->operation);
    return length >= sizeof(suffix) && strcmp(c->operation + length - (sizeof(suffix) - 1), suffix) == 0;
}

static void check_outputs(const oracle_file *file, const oracle_case *c, const oracle_operation *operation,
                          weft_tensor *const in[], weft_tensor *const out[], bool counts)
{
    double ulps = 0;
    bool right = !is_in_place(c) || out[0] == NULL || out[0] == in[0] ||
                 oracle_complain(file, c, "not the target itself");
    for (int i = 0; right && i < c->num_outputs; i++) {
        right = oracle_compare(file, c, &c->outputs[i], allowed_ulps(c, operation, c->outputs[i].dtype),
                               out[i], &ulps);
    }
    if (right && counts) {
        oracle_count(file, c, ulps, out);
    }
}

/* ---- back-pressure ------------------------------------------------------------------------------------- */

static bool refuse(const char *function, const char *why)
{
    weft_fail(WEFT_ERR_STATE, function, "%s", why);
    return false;
}

/* A call that is refused has submitted nothing: it can be made again. */
static void call_in_vain(const oracle_file *file, const oracle_case *c, const oracle_operation *operation,
                         weft_tensor *const in[])
{
    weft_pending *pending = weft_runtime.pending;
    bool (*real_refuse)(const char *, const char *) = pending->refuse;
    int64_t most = pending->most;
    weft_random_state random = *weft_random_in_use();
    weft_counters counters = weft_runtime.counters;
    uint64_t number = weft_runtime.call_number;
    weft_tensor *targets[ORACLE_INPUTS], *out[ORACLE_OUTPUTS] = { NULL };
    memcpy(targets, in, sizeof(targets));
    pending->refuse = refuse;
    pending->most = pending->for_program = 1;
    weft_pending_begin(pending, 1);
    weft_scope_begin();
    oracle_call(operation, c, targets, out);
    weft_scope_end();
    weft_pending_end(pending, 1);
    pending->refuse = real_refuse;
    pending->most = most;
    pending->for_program = 0;
    if (weft_runtime.counters.tasks != counters.tasks ||
        weft_runtime.counters.transfers != counters.transfers || weft_runtime.call_number != number ||
        weft_random_in_use()->offset != random.offset) {
        oracle_complain(file, c, "a call that was refused has submitted something");
    }
    if (weft_last_status() != WEFT_OK && weft_last_status() != WEFT_ERR_STATE) {
        oracle_complain(file, c, "refused, with another error: %s", weft_last_error());
    }
    weft_clear_error();
}

/* Public calls of a row at most, but for those whose arguments are checked before the first. */
static uint64_t calls_of(const oracle_case *c)
{
    static const struct {
        const char *operation;
        uint64_t calls;
    } rows[] = {
        { "attention_backward", 2 }, /* weft_attention() first */
        { "attention_backward_with_log_sums", 2 },
        { "cross_entropy_with_log_sums", 2 }, /* weft_to_type() after it */
        { "cross_entropy_backward_with_log_sums", 2 },
        { "batch_norm", 5 }, /* two running statistics are made, and change by calls of their own */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(c->operation, rows[i].operation) == 0) {
            return rows[i].calls;
        }
    }
    return 1;
}

/* `combination`: of strategies, forced; negative: the dispatcher's choice. Returns their number. */
static int64_t run_case(const oracle_file *file, const oracle_case *c, int64_t combination, bool counts)
{
    const oracle_operation *operation = oracle_find(c->operation);
    if (operation == NULL) {
        oracle_complain(file, c, "the tables of calls have no row for it");
        return 0;
    }
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(c->mesh_ndim, c->mesh_shape, NULL);
    weft_tensor *in[ORACLE_INPUTS] = { NULL }, *out[ORACLE_OUTPUTS] = { NULL };
    for (int i = 0; i < c->num_inputs; i++) {
        in[i] = oracle_tensor(&c->inputs[i], mesh, c->line % 2 == 0);
    }
    assert_no_error();
    if (combination < 0) {
        call_in_vain(file, c, operation, in);
    }
    uint64_t calls = weft_runtime.pending->calls + calls_of(c);
    weft_dispatch_force(combination);
    if (oracle_bits != NULL) {
        fprintf(oracle_bits, "\n%s:%d", strrchr(file->path, '/'), c->line);
    }
    oracle_call(operation, c, in, out);
    int64_t combinations = weft_dispatch_force(-1);
    if (weft_runtime.pending->calls > calls) {
        oracle_complain(file, c, "may be refused in the middle");
    }
    bool impossible = combination >= 0 && out[0] == NULL && weft_last_status() == WEFT_ERR_LAYOUT;
    if (impossible) {
        weft_clear_error(); /* some input cannot be moved there */
    } else {
        check_outputs(file, c, operation, in, out, counts);
    }
    weft_scope_end();
    return combinations;
}

/* ---- all cases ----------------------------------------------------------------------------------------- */

/* Every `step`th case from number `first` on. `forced`: in all ways that there are, up to so many. */
static void run_cases(int first, int step, int64_t forced, bool counts)
{
    const char *only = getenv("WEFT_TEST_ONLY");
    int number = 0;
    for (int f = 0; f < cases.num_files; f++) {
        for (int i = 0; i < cases.files[f].num_cases; i++) {
            const oracle_case *c = &cases.files[f].cases[i];
            if (!oracle_runs(number++, first, step) || (only != NULL && strcmp(only, c->operation) != 0)) {
                continue;
            }
            int64_t ways = run_case(&cases.files[f], c, forced > 0 ? 0 : -1, counts);
            for (int64_t way = 1; way < ways && way < forced; way++) {
                run_case(&cases.files[f], c, way, false);
            }
        }
    }
}

static uint64_t dispatch_misses(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.dispatch_misses;
}

/* All cases; some of them again, for which no layouts have to be chosen any more. */
static void test_panels_by_default(void **state)
{
    (void)state;
    oracle_start(NULL);
    bool several = weft_num_processes() > 1;
    run_cases(0, several ? 10 : 1, 0, true);
    uint64_t misses = dispatch_misses();
    run_cases(0, several ? 100 : 10, 0, false);
    assert_int_equal(dispatch_misses(), misses);
    oracle_stop();
}

static void run_with_panels(const char *rows, int first)
{
    oracle_start(rows);
    run_cases(first, weft_num_processes() > 1 ? 30 : 3, 0, false);
    oracle_stop();
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_with_panels("1", 0);
}

static void test_panels_of_two_rows(void **state)
{
    (void)state;
    run_with_panels("2", 1);
}

static void test_panels_of_three_rows(void **state)
{
    (void)state;
    run_with_panels("3", 2);
}

/* Not only the cheapest way to run a case, but each. */
static void test_all_strategies(void **state)
{
    (void)state;
    oracle_start("2");
    run_cases(3, weft_num_processes() > 1 ? 200 : 20, 40, false);
    oracle_stop();
}

/* Each row of the table has cases. */
static void test_all_operations_have_cases(void **state)
{
    (void)state;
    const oracle_operation *operation;
    for (int i = 0; oracle_operation_at(i, &operation); i++) {
        int count = 0;
        for (int f = 0; f < cases.num_files; f++) {
            for (int k = 0; k < cases.files[f].num_cases; k++) {
                count += strcmp(cases.files[f].cases[k].operation, operation->name) == 0;
            }
        }
        if (count < 40) {
            fail_msg("%s has %d cases, expected 40 at least", operation->name, count);
        }
    }
}

static bool write_report(void)
{
    FILE *file = fopen(report_path, "w");
    if (file == NULL) {
        fprintf(stderr, "cannot write %s\n", report_path);
        return false;
    }
    oracle_write_report(file);
    return fclose(file) == 0;
}

/* ---- files --------------------------------------------------------------------------------------------- */

static int read_files(void **state)
{
    (void)state;
    char gradients[4096];
    snprintf(gradients, sizeof(gradients), "%s/gradients", folder);
    return oracle_open_folder(&cases, folder) == 0 && oracle_open_gradients(gradients) == 0 ? 0 : -1;
}

static int close_cases(void **state)
{
    (void)state;
    oracle_close_folder(&cases);
    oracle_close_gradients();
    return 0;
}

int main(int count, char **arguments)
{
    bool reports = count == 4 && strcmp(arguments[2], "--report") == 0;
    bool writes_bits = count == 4 && strcmp(arguments[2], "--bits") == 0;
    if (count != 2 && !reports && !writes_bits) {
        fprintf(stderr, "usage: test-oracle CASES [--report FILE | --bits FILE]\n");
        return 2;
    }
    folder = arguments[1];
    report_path = reports ? arguments[3] : NULL;
    oracle_bits = writes_bits ? fopen(arguments[3], "w") : NULL;
    if (writes_bits && oracle_bits == NULL) {
        fprintf(stderr, "cannot write %s\n", arguments[3]);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_operations_have_cases), cmocka_unit_test(test_panels_by_default),
        cmocka_unit_test(test_panels_of_one_row),         cmocka_unit_test(test_panels_of_two_rows),
        cmocka_unit_test(test_panels_of_three_rows),      cmocka_unit_test(test_all_strategies),
        cmocka_unit_test(oracle_test_gradients),          cmocka_unit_test(oracle_test_gradients_in_panels),
        cmocka_unit_test(oracle_test_gradients_of_all),
    };
    int failed = cmocka_run_group_tests(tests, read_files, close_cases);
    if (oracle_bits != NULL && fclose(oracle_bits) != 0) {
        fprintf(stderr, "cannot write %s\n", arguments[3]);
        return 1;
    }
    return failed > 0 || (report_path != NULL && !write_report());
}
