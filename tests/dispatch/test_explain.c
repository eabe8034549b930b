/* weft_explain(): what it says of calls, against what they do. */
#include "printed.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_mesh *mesh;
static weft_tensor *rows, *columns;
static char text[1 << 17];

static int start(void **state)
{
    (void)state;
    WORLD(4);
    const weft_placement first = weft_shard(0), second = weft_shard(1);
    mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    rows = weft_rand(WEFT_F32, 2, (int64_t[]){ 32, 16 }, mesh, &first);
    columns = weft_rand(WEFT_F32, 2, (int64_t[]){ 32, 16 }, mesh, &second);
    assert_no_error();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weft_clear_error();
    return world_stop(NULL);
}

static void difference_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t i = out->offset[0] + row;
        const float *here = weft_view_row(in, i - in->offset[0], NULL);
        const float *before = weft_view_row(in, i > 0 ? i - 1 - in->offset[0] : 0, NULL);
        float *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            target[c] = here[c] - before[c];
        }
    }
}

static const weft_operation *difference;

static void register_difference(void)
{
    difference = weft_operation_register(
        &(weft_operation_description){ .name = "difference",
                                       .rule = "h~w->hw",
                                       .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F32), false } },
                                       .halos = { { .letter = 'h', .before = 1 } },
                                       .kernel = difference_kernel });
    assert_non_null(difference);
}

static weft_tensor *product(weft_tensor *a, weft_tensor *b)
{
    return weft_matmul_ex(a, true, b, false);
}

static weft_tensor *sum(weft_tensor *a, weft_tensor *b)
{
    return weft_add(a, b);
}

static weft_tensor *halo(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_apply(difference, 1, &a, NULL);
}

static weft_tensor *normalised(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_softmax(a, 0);
}

static weft_tensor *moved(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_redistribute(a, NULL, NULL);
}

static weft_tensor *shifted(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_roll(a, 3, 0);
}

/* Sharded rows go round in a ring. */
static weft_tensor *attended(weft_tensor *a, weft_tensor *b)
{
    (void)b;
    return weft_attention(a, a, a, NULL);
}

typedef weft_tensor *(*called)(weft_tensor *a, weft_tensor *b);

static const called calls[] = { product, sum, halo, normalised, moved, shifted, attended };
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* What is explained of a call, in `text`. */
static weft_tensor *explain(called call, weft_tensor *a, weft_tensor *b)
{
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    weft_tensor *result = call(a, b);
    assert_int_equal(weft_explain_end(), WEFT_OK);
    PRINT_INTO(text, weft_explain(file));
    assert_true(strlen(text) < sizeof(text) - 1);
    assert_no_error();
    assert_non_null(result);
    return result;
}

static void assert_says(const char *words)
{
    if (strstr(text, words) == NULL) {
        fail_msg("no \"%s\" in: %s", words, text);
    }
}

/* The sum of the numbers in front of some words. */
static int64_t sum_before(const char *words)
{
    int64_t all = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        const char *number = at;
        while (number > text && number[-1] >= '0' && number[-1] <= '9') {
            number--;
        }
        all += strtoll(number, NULL, 10);
    }
    return all;
}

static int64_t sum_behind(const char *words)
{
    int64_t all = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        all += strtoll(at + strlen(words), NULL, 10);
    }
    return all;
}

/* The bytes that it tells are those that move, and its tasks those of the call, apart from what moves. */
static void test_what_it_says_happens(void **state)
{
    (void)state;
    register_difference();
    for (int i = 0; i < CALLS; i++) {
        for (int turn = 0; turn < 3; turn++) { /* the layouts are known, then the tasks are */
            weft_tensor *a = turn == 2 ? columns : rows;
            weft_counters before, after;
            weft_get_counters(&before, sizeof(before));
            explain(calls[i], a, columns);
            assert_int_equal(weft_wait(), WEFT_OK);
            weft_get_counters(&after, sizeof(after));
            if (weft_num_processes() == 1) {
                assert_int_equal(sum_before(" bytes in all"), after.bytes_moved - before.bytes_moved);
            }
            int64_t tasks = sum_behind("tasks of this process: ");
            if (strstr(text, "no tasks where") == NULL) { /* else views may take none */
                assert_in_range(tasks, 0, after.tasks - before.tasks);
                assert_true(after.stages != before.stages || tasks == (int64_t)(after.tasks - before.tasks));
            }
        }
    }
}

/* A call that would be made: the same words, and nothing is carried out. */
static void test_without_data(void **state)
{
    (void)state;
    static char expected[sizeof(text)];
    register_difference();
    for (int i = 0; i < CALLS; i++) {
        explain(calls[i], rows, columns);
        strcpy(expected, text);
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        assert_true(weft_tensor_is_fake(explain(calls[i], weft_fake_like(rows), weft_fake_like(columns))));
        weft_get_counters(&after, sizeof(after));
        assert_int_equal(before.tasks, after.tasks);
        assert_int_equal(before.transfers, after.transfers);
        assert_string_equal(text, expected);
    }
}

static void test_words(void **state)
{
    (void)state;
    register_difference();
    const weft_placement first = weft_shard(0);
    weft_tensor *left = weft_fake(WEFT_F32, 2, (int64_t[]){ 64, 32 }, mesh, &first);
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    assert_non_null(weft_matmul(left, rows));
    assert_int_equal(weft_explain_end(), WEFT_OK);
    PRINT_INTO(text, weft_explain(file));
    assert_says("weft_matmul(f32[64, 32] [S0] on 4, f32[32, 16] [S0] on 4)\n  matmul  ");
    assert_says(" combinations of strategies possible, 0 not\n");
    assert_says("chosen (*): least predicted cost: ");
    assert_says("to f32[32, 16] [R] on 4: ");
    assert_says("    6144 bytes in all, at most 1536 into a rank; ");
    assert_says("output  f32[64, 16] [S0] on 4\n");
    assert_says(" matmul) on ");
    assert_says("    predicted: ");
    explain(halo, rows, NULL);
    assert_says("difference(f32[32, 16] [S0] on 4)\n  difference  h~w->hw\n");
    assert_says("read across ranks: halo; 192 bytes in all, at most 64 into a rank");
    explain(normalised, rows, NULL);
    assert_says("weft_softmax(");
    assert_says("  sum_exp  ");
    assert_says("  softmax_step  ...,...,...->...");
    explain(moved, rows, NULL);
    assert_says("weft_redistribute(f32[32, 16] [S0] on 4)\n  redistribution  f32[32, 16] [S0] on 4\n");
    /* What fails is told, too. */
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    assert_null(weft_add(rows, weft_fake(WEFT_F32, 1, (int64_t[]){ 5 }, mesh, NULL)));
    weft_clear_error();
    assert_int_equal(weft_explain_end(), WEFT_OK);
    PRINT_INTO(text, weft_explain(file));
    assert_says("weft_add(f32[32, 16] [S0] on 4, f32[5] [R] on 4)\n  failed: ");
}

static void test_functions(void **state)
{
    (void)state;
    assert_int_equal(weft_explain(stdout), WEFT_ERR_STATE);
    assert_int_equal(weft_explain_end(), WEFT_ERR_STATE);
    assert_int_equal(weft_explain_begin(), WEFT_OK);
    assert_int_equal(weft_explain_begin(), WEFT_ERR_STATE);
    assert_int_equal(weft_explain(NULL), WEFT_ERR_INVALID);
    weft_clear_error();
    PRINT_INTO(text, weft_explain(file));
    assert_string_equal(text, "");
    weft_neg(rows);
    PRINT_INTO(text, weft_explain(file)); /* before the end, too */
    const size_t length = strlen(text);
    assert_in_range(length, 100, 10000);
    assert_int_equal(weft_explain_end(), WEFT_OK);
    weft_neg(rows); /* is not explained */
    PRINT_INTO(text, weft_explain(file));
    assert_int_equal(strlen(text), length);
    assert_int_equal(weft_explain_begin(), WEFT_OK); /* open at the end of the world */
    PRINT_INTO(text, weft_explain(file));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_says_happens, start, stop),
        cmocka_unit_test_setup_teardown(test_without_data, start, stop),
        cmocka_unit_test_setup_teardown(test_words, start, stop),
        cmocka_unit_test_setup_teardown(test_functions, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
