/* Every operation against PyTorch's answers (README.md), with panels of several heights; in one process
 * that hosts all ranks, or in several.
 *   test-oracle CASES                 the folder of cases
 *   test-oracle CASES --report FILE   also writes the results as a page
 *   test-oracle CASES --bits FILE     also writes a hash of each result, to compare two builds bit for bit
 * WEFT_TEST_ONLY selects one operation. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "oracle.h"
#include "runtime/pending.h"

enum { MAX_FILES = 64 };

static oracle_file files[MAX_FILES];
static int num_files;
static const char *folder, *report_path;
static FILE *bits; /* NULL: not asked for */

/* ---- what went wrong ----------------------------------------------------------------------------------- */

enum { SHOWN = 20 };

static int failures;

/* Runs all cases; prints the first few that fail. Returns false. */
static bool complain(const oracle_file *file, const oracle_case *c, const char *format, ...)
{
    if (failures++ < SHOWN) {
        char text[400];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        print_error("%s:%d: %s: %s\n", file->path, c->line, c->operation, text);
    }
    return false;
}

/* ---- one case ------------------------------------------------------------------------------------------ */

static bool check_description(const oracle_file *file, const oracle_case *c, const oracle_output *expected,
                              weft_tensor *tensor)
{
    if (tensor == NULL) {
        complain(file, c, "%s", weft_last_error());
        weft_clear_error();
        return false;
    }
    if (weft_tensor_dtype(tensor) != expected->dtype) {
        return complain(file, c, "the type is %s, expected %s", weft_dtype_name(weft_tensor_dtype(tensor)),
                        weft_dtype_name(expected->dtype));
    }
    bool same = weft_tensor_ndim(tensor) == expected->ndim;
    for (int d = 0; same && d < expected->ndim; d++) {
        same = weft_tensor_size(tensor, d) == expected->shape[d];
    }
    return same || complain(file, c, "another shape, of %d dimensions", weft_tensor_ndim(tensor));
}

static double allowed_ulps(const oracle_case *c, const oracle_operation *operation, weft_dtype dtype)
{
    double ulps = weft_dtype_size(dtype) == 2 && operation->ulps > 0 ? 1 : operation->ulps;
    for (int i = 0; i < c->num_inputs; i++) {
        int64_t parts = oracle_parts(c, &c->inputs[i]);
        ulps = parts > 1 ? (ulps + 1) * (double)parts : ulps;
    }
    return ulps;
}

static double for_messages(weft_dtype dtype, const void *array, int64_t i)
{
    return oracle_is_floating(dtype) ? oracle_load_real(dtype, array, i)
                                     : (double)oracle_load_whole(dtype, array, i);
}

/* Expected values. */
typedef struct answer {
    const oracle_output *output;
    double allowed;
    double *ulps; /* gets the largest distance, where that is more */
} answer;

/* Element i of both arrays. */
static bool is_near(const answer *a, const void *got, const void *expected, int64_t i, char *text,
                    size_t size)
{
    weft_dtype dtype = a->output->dtype;
    double distance = oracle_distance(dtype, got, expected, i, a->output->magnitude);
    if (!(distance <= a->allowed)) {
        snprintf(text, size, "element %d is %.17g, expected %.17g: %.3g ulps, allowed %.3g", (int)i,
                 for_messages(dtype, got, i), for_messages(dtype, expected, i), distance, a->allowed);
        return false;
    }
    *a->ulps = fmax(*a->ulps, distance);
    return true;
}

static bool judge(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const answer *a = expected;
    const oracle_output *output = a->output;
    void *box = malloc((size_t)found->count * 8 + 8);
    copy_box_out(output->ndim, output->shape, weft_dtype_size(output->dtype), output->elements, found->offset,
                 found->extent, box);
    bool near = true;
    for (int64_t i = 0; i < found->count && near; i++) {
        near = is_near(a, found->values, box, i, text, size);
    }
    free(box);
    return near;
}

/* Checks the shards of all ranks; for addends their sums; replicas must be equal. */
static bool check_shards(weft_tensor *tensor, const answer *a, char *text, size_t size)
{
    weft_tensor *reduced = without_partial(tensor);
    if (reduced == NULL) {
        snprintf(text, size, "%s", weft_last_error());
        weft_clear_error();
        return false;
    }
    bool is_reduced = weft_tensor_placements(reduced) == weft_tensor_placements(tensor);
    return shards_are_right(reduced, judge, a, text, size) &&
           (is_reduced || shards_are_right(tensor, NULL, NULL, text, size));
}

/* FNV-1a. */
static void write_bits(const void *host, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ ((const unsigned char *)host)[i]) * 1099511628211u;
    }
    fprintf(bits, " %016llx", (unsigned long long)hash);
}

/* The whole tensor, as every process gets it. */
static bool check_host(weft_tensor *tensor, const answer *a, char *text, size_t size)
{
    void *host = calloc((size_t)a->output->count + 1, 8);
    bool right = weft_to_host(tensor, host, (size_t)a->output->count * 8) == WEFT_OK;
    if (right && bits != NULL) {
        write_bits(host, (size_t)a->output->count * weft_dtype_size(weft_tensor_dtype(tensor)));
    }
    if (!right) {
        snprintf(text, size, "%s", weft_last_error());
        weft_clear_error();
    }
    for (int64_t i = 0; i < a->output->count && right; i++) {
        right = is_near(a, host, a->output->elements, i, text, size);
    }
    free(host);
    return right;
}

static bool check_output(const oracle_file *file, const oracle_case *c, const oracle_operation *operation,
                         const oracle_output *expected, weft_tensor *tensor, double *ulps)
{
    if (!check_description(file, c, expected, tensor)) {
        return false;
    }
    answer a = { expected, allowed_ulps(c, operation, expected->dtype), ulps };
    char text[400];
    bool right = check_shards(tensor, &a, text, sizeof(text)) && check_host(tensor, &a, text, sizeof(text));
    return right || complain(file, c, "%s", text);
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
    bool right =
        !is_in_place(c) || out[0] == NULL || out[0] == in[0] || complain(file, c, "not the target itself");
    for (int i = 0; right && i < c->num_outputs; i++) {
        right = check_output(file, c, operation, &c->outputs[i], out[i], &ulps);
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
    weft_scope_open();
    oracle_call(operation, c, targets, out);
    weft_scope_close();
    weft_pending_end(pending, 1);
    pending->refuse = real_refuse;
    pending->most = most;
    pending->for_program = 0;
    if (weft_runtime.counters.tasks != counters.tasks ||
        weft_runtime.counters.transfers != counters.transfers || weft_runtime.call_number != number ||
        weft_random_in_use()->offset != random.offset) {
        complain(file, c, "a call that was refused has submitted something");
    }
    if (weft_last_status() != WEFT_OK && weft_last_status() != WEFT_ERR_STATE) {
        complain(file, c, "refused, with another error: %s", weft_last_error());
    }
    weft_clear_error();
}

/* `combination`: of strategies, forced; negative: the dispatcher's choice. Returns their number. */
static int64_t run_case(const oracle_file *file, const oracle_case *c, int64_t combination, bool counts)
{
    const oracle_operation *operation = oracle_find(c->operation);
    if (operation == NULL) {
        complain(file, c, "the tables of calls have no row for it");
        return 0;
    }
    weft_scope_open();
    weft_mesh *mesh = weft_mesh_create(c->mesh_ndim, c->mesh_shape, NULL);
    weft_tensor *in[ORACLE_INPUTS] = { NULL }, *out[ORACLE_OUTPUTS] = { NULL };
    for (int i = 0; i < c->num_inputs; i++) {
        in[i] = oracle_tensor(&c->inputs[i], mesh, c->line % 2 == 0);
    }
    assert_no_error();
    if (combination < 0) {
        call_in_vain(file, c, operation, in);
    }
    uint64_t calls = weft_runtime.pending->calls;
    weft_dispatch_force(combination);
    if (bits != NULL) {
        fprintf(bits, "\n%s:%d", strrchr(file->path, '/'), c->line);
    }
    oracle_call(operation, c, in, out);
    int64_t combinations = weft_dispatch_force(-1);
    /* The rows of attention's gradients call weft_attention() first. */
    calls += strncmp(c->operation, "attention_backward", strlen("attention_backward")) == 0 ? 2 : 1;
    if (weft_runtime.pending->calls > calls) {
        complain(file, c, "may be refused in the middle");
    }
    bool impossible = combination >= 0 && out[0] == NULL && weft_last_status() == WEFT_ERR_LAYOUT;
    if (impossible) {
        weft_clear_error(); /* some input cannot be moved there */
    } else {
        check_outputs(file, c, operation, in, out, counts);
    }
    weft_scope_close();
    return combinations;
}

/* ---- all cases ----------------------------------------------------------------------------------------- */

static void start_world(const char *panel_rows)
{
    start_with_panels(ORACLE_RANKS, panel_rows);
    failures = 0;
}

static void stop_world(void)
{
    assert_int_equal(weft_finalize(), WEFT_OK);
    if (failures > 0) {
        fail_msg("%d cases are wrong", failures);
    }
}

/* Every `step`th case from number `first` on. `forced`: in all ways that there are, up to so many. */
static void run_cases(int first, int step, int64_t forced, bool counts)
{
    const char *only = getenv("WEFT_TEST_ONLY");
    int number = 0;
    for (int f = 0; f < num_files; f++) {
        for (int i = 0; i < files[f].num_cases; i++) {
            const oracle_case *c = &files[f].cases[i];
            if (number++ % step != first || (only != NULL && strcmp(only, c->operation) != 0)) {
                continue;
            }
            int64_t ways = run_case(&files[f], c, forced > 0 ? 0 : -1, counts);
            for (int64_t way = 1; way < ways && way < forced; way++) {
                run_case(&files[f], c, way, false);
            }
        }
    }
}

static uint64_t dispatch_misses(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters), WEFT_OK);
    return counters.dispatch_misses;
}

/* All cases; some of them again, for which no layouts have to be chosen any more. */
static void test_panels_by_default(void **state)
{
    (void)state;
    start_world(NULL);
    bool several = weft_num_processes() > 1;
    run_cases(0, several ? 10 : 1, 0, true);
    uint64_t misses = dispatch_misses();
    run_cases(0, several ? 100 : 10, 0, false);
    assert_int_equal(dispatch_misses(), misses);
    stop_world();
}

static void run_with_panels(const char *rows, int first)
{
    start_world(rows);
    run_cases(first, weft_num_processes() > 1 ? 30 : 3, 0, false);
    stop_world();
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
    start_world("2");
    run_cases(3, weft_num_processes() > 1 ? 200 : 20, 40, false);
    stop_world();
}

/* Each row of the table has cases. */
static void test_all_operations_have_cases(void **state)
{
    (void)state;
    const oracle_operation *operation;
    for (int i = 0; oracle_operation_at(i, &operation); i++) {
        int cases = 0;
        for (int f = 0; f < num_files; f++) {
            for (int k = 0; k < files[f].num_cases; k++) {
                cases += strcmp(files[f].cases[k].operation, operation->name) == 0;
            }
        }
        if (cases < 40) {
            fail_msg("%s has %d cases, expected 40 at least", operation->name, cases);
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

static int is_case_file(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

static int read_files(void **state)
{
    (void)state;
    struct dirent **entries;
    int count = scandir(folder, &entries, is_case_file, alphasort);
    for (int i = 0; i < count; i++) {
        if (num_files < MAX_FILES) {
            files[num_files++] = oracle_read(folder, entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return count > 0 && count <= MAX_FILES ? 0 : -1;
}

static int close_cases(void **state)
{
    (void)state;
    for (int f = 0; f < num_files; f++) {
        oracle_close(&files[f]);
    }
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
    bits = writes_bits ? fopen(arguments[3], "w") : NULL;
    if (writes_bits && bits == NULL) {
        fprintf(stderr, "cannot write %s\n", arguments[3]);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_operations_have_cases), cmocka_unit_test(test_panels_by_default),
        cmocka_unit_test(test_panels_of_one_row),         cmocka_unit_test(test_panels_of_two_rows),
        cmocka_unit_test(test_panels_of_three_rows),      cmocka_unit_test(test_all_strategies),
    };
    int failed = cmocka_run_group_tests(tests, read_files, close_cases);
    if (bits != NULL && fclose(bits) != 0) {
        fprintf(stderr, "cannot write %s\n", arguments[3]);
        return 1;
    }
    return failed > 0 || (report_path != NULL && !write_report());
}
