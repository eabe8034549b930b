/* Attention, its gradients and rotary embedding on the stand-in, whose sums have another order than the CPU's: within bounds;
 * states, statistics and rotations: equal bits. Without StarPU. */
#include <stdlib.h>

#include "codelets/attention.h"
#include "codelets/cuda/fast.h"
#include "fast_attention.h"
#include "fast_cases.h"
#include "rotary_cases.h"
#include "view_cases.h"

#define CASES share_of(24)

static weft_dtype any_float(void)
{
    return (weft_dtype)below(WEFT_F16 + 1);
}

static weft_dtype wide_of(weft_dtype type)
{
    return type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
}

/* Of the largest number: some thousand units in the last place, and one of the result's. */
static double bound(weft_dtype type, weft_dtype result)
{
    double own = result == WEFT_BF16 ? 0x1p-7 : result == WEFT_F16 ? 0x1p-10 : 0;
    return (type == WEFT_F64 ? 1e-12 : 1e-5) + own;
}

/* ---- sizes --------------------------------------------------------------------------------------------- */

typedef struct sizes {
    part batch;
    weft_dtype type;
    int64_t rows, keys, depth, width, first_row, first_key;
    bool counts;
} sizes;

/* More rows, keys and columns than kernels of fast mode take at once, and rarely too few rows or too many columns for them. */
static void enlarge(sizes *s)
{
    if (s->type == WEFT_F64) {
        s->batch.ndim = 0; /* as much as fits into the memory */
    }
    const int64_t most = s->batch.ndim > 0 || s->type == WEFT_F64 ? 90 : 150;
    s->rows = below(8) == 0 ? below(17) : 17 + below(most - 17);
    s->keys = below(8) == 0 ? below(17) : 17 + below(most - 17);
    s->depth = below(8) == 0 ? 129 + below(16) : 1 + below(below(2) == 0 ? 64 : 128);
    s->width = below(8) == 0 ? 129 + below(16) : 1 + below(below(2) == 0 ? 64 : 128);
    s->first_row = below(2) == 0 ? 0 : below(150);
    s->first_key = below(2) == 0 ? s->first_row : below(150);
}

static sizes any_sizes(view_case *c)
{
    memory.calm = true;
    sizes s = { .batch = any_part(0, 2, 2), .type = any_float() };
    for (int d = 0; d < s.batch.ndim; d++) { /* two matrices, at most, fit into the memory */
        s.batch.extent[d] = s.batch.extent[d] == 0 || d > 0 ? 1 : s.batch.extent[d];
    }
    s.rows = below(15) == 0 ? 0 : 1 + below(35);
    s.keys = below(15) == 0 ? 0 : 1 + below(40);
    s.depth = below(15) == 0 ? 0 : 1 + below(40);
    s.width = 1 + below(40);
    if (below(6) == 0) { /* more columns than a block has threads */
        s.batch.ndim = 0;
        s.rows = below(18);
        *(below(2) == 0 ? &s.depth : &s.width) = 128 + below(20);
        s.keys = below(18);
    }
    s.first_row = below(40);
    s.first_key = below(2) == 0 ? s.first_row : below(40);
    if (memory.bytes == MOST_MEMORY_BYTES) {
        enlarge(&s);
    }
    s.counts = below(4) == 0;
    int64_t *numbers = c->args->numbers;
    numbers[WEFT_ATTENTION_CAUSAL] = below(2);
    numbers[WEFT_ATTENTION_PARTS] = s.counts ? WEFT_ATTENTION_COUNTS : 0;
    numbers[WEFT_ATTENTION_ROWS] = s.rows == 0 ? 0 : below(s.rows + 1);
    numbers[WEFT_ATTENTION_KEYS] = s.keys == 0 ? 0 : below(s.keys + 1);
    c->scalars[0] = 0.02;
    c->args->first = true;
    return s;
}

/* Vectors of rows, or of keys, of which `columns` belong to each; all of the batch if `whole`. */
static part vectors(const sizes *s, bool of_rows, int64_t columns, bool whole)
{
    int64_t count = of_rows ? s->rows : s->keys, first = of_rows ? s->first_row : s->first_key;
    int dims = s->batch.ndim;
    part p = any_matrices(&s->batch, dims, count, columns);
    for (int d = 0; d < dims && whole; d++) {
        p.shape[d] = s->batch.shape[d];
        p.offset[d] = s->batch.offset[d];
        p.extent[d] = s->batch.extent[d];
    }
    p.offset[dims] = first;
    p.shape[dims] = first + count + 2;
    return p;
}

static void add_vectors(view_case *c, const sizes *s, bool of_rows, int64_t columns)
{
    part p = vectors(s, of_rows, columns, of_rows);
    add_input(c, s->type, &p, false);
}

/* Of any number of dimensions, some of size 1. */
static void add_mask(view_case *c, const sizes *s)
{
    if (below(2) == 0 || s->keys == 0 || s->rows == 0) {
        return;
    }
    part p = any_matrices(&s->batch, (int)below(s->batch.ndim + 1), s->rows, s->keys);
    int last = p.ndim - 1;
    const int64_t first[] = { s->first_row, s->first_key };
    for (int d = 0; d < 2; d++) {
        bool repeats = below(4) == 0;
        p.offset[last - 1 + d] = repeats ? 0 : first[d];
        p.extent[last - 1 + d] = repeats ? 1 : p.extent[last - 1 + d];
        p.shape[last - 1 + d] = repeats ? 1 : first[d] + p.extent[last - 1 + d] + 2;
    }
    while (p.ndim > 0 && below(4) == 0) {
        p = part_without(p, 0);
    }
    c->args->numbers[WEFT_ATTENTION_PARTS] |= WEFT_ATTENTION_HAS_MASK;
    add_input(c, below(2) == 0 ? WEFT_BOOL : any_float(), &p, false);
}

/* ---- forward ------------------------------------------------------------------------------------------- */

/* An operand without zeros: states have seen keys. */
static void fill_without_zeros(int k, weft_dtype type)
{
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        set_number_at(type, memory.host[k] + i, 0.5 + (double)below(1000) / 512);
    }
    send_again(k);
}

/* Returns the share of the largest number by which results may differ. */
static double attention_case(view_case *c, bool as_state)
{
    begin_case(c, as_state ? WEFT_KERNEL_attention_state : WEFT_KERNEL_attention);
    sizes s = any_sizes(c);
    int64_t *parts = &c->args->numbers[WEFT_ATTENTION_PARTS];
    bool has_v = !as_state || below(3) > 0, continues = as_state && below(2) == 0;
    *parts |= continues ? WEFT_ATTENTION_CONTINUES : 0;
    *parts |= has_v ? WEFT_ATTENTION_HAS_V : 0;
    s.width = has_v ? s.width : 0;
    part result = vectors(&s, true, s.width + (as_state ? (int)WEFT_ATTENTION_STATE : 0), true);
    weft_dtype type = as_state ? wide_of(s.type) : s.type;
    add_output(c, type, &result, false);
    if (continues) {
        fill_without_zeros(0, type);
    }
    if (!as_state && below(2) == 0) {
        part log_sums = part_without(result, result.ndim - 1);
        add_output(c, wide_of(s.type), &log_sums, false);
    }
    add_vectors(c, &s, true, s.depth);
    add_vectors(c, &s, false, s.depth);
    if (has_v) {
        add_vectors(c, &s, false, s.width);
    }
    add_mask(c, &s);
    return bound(s.type, type);
}

static void test_attention(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        const double share = attention_case(&c, i % 2 == 1);
        run_case_near(&c, share);
    }
}

/* A result with as many columns as two blocks of threads, and more, have; or as one has, and fewer. */
static const int64_t widths[] = { 127, 128, 129, 256, 300 };
enum { WIDTHS = sizeof(widths) / sizeof(widths[0]), STATE_ROWS = 18, STATE_KEYS = 5, STATE_DEPTH = 3 };

static double element(int k, weft_dtype type, int64_t index)
{
    return number_at(type, memory.host[k] + (size_t)index * weft_dtype_size(type));
}

/* The states in memory 0 after the keys: computed from q, k and v in memories 1 to 3, one after the other. */
static void continue_states(weft_dtype type, int64_t width, double scale, double *states)
{
    for (int64_t row = 0; row < STATE_ROWS; row++) {
        const int64_t first = row * (width + WEFT_ATTENTION_STATE);
        double *sums = states + first, most = element(0, type, first + width + WEFT_ATTENTION_LARGEST), scores[STATE_KEYS], before = most;
        for (int64_t key = 0; key < STATE_KEYS; key++) {
            scores[key] = 0;
            for (int64_t d = 0; d < STATE_DEPTH; d++) {
                scores[key] += scale * element(1, type, row * STATE_DEPTH + d) * element(2, type, key * STATE_DEPTH + d);
            }
            most = fmax(most, scores[key]);
        }
        for (int64_t column = 0; column <= width; column++) { /* the last one: of the weights themselves */
            sums[column] = exp(before - most) * element(0, type, first + column);
            for (int64_t key = 0; key < STATE_KEYS; key++) {
                sums[column] += exp(scores[key] - most) * (column < width ? element(3, type, key * width + column) : 1);
            }
        }
        sums[width + WEFT_ATTENTION_LARGEST] = most;
    }
}

/* The states in memory 0 have seen keys: their sums of weights are at least 1. */
static void set_sums(weft_dtype type, int64_t columns)
{
    for (int64_t row = 0; row < STATE_ROWS; row++) {
        const int64_t sum = (row + 1) * columns - WEFT_ATTENTION_STATE + WEFT_ATTENTION_SUM;
        set_number_at(type, memory.host[0] + (size_t)sum * weft_dtype_size(type), 1 + fabs(element(0, type, sum)));
    }
    send_again(0);
}

/* Columns of all pieces continue the same state: against a sum of each column. */
static void test_continued_states(void **state)
{
    (void)state;
    static double expected[STATE_ROWS * (300 + WEFT_ATTENTION_STATE)];
    for (int i = 0; i < 2 * WIDTHS; i++) {
        const weft_dtype type = i % 2 == 0 ? WEFT_F32 : WEFT_F64;
        const int64_t width = widths[i / 2], columns[] = { width + WEFT_ATTENTION_STATE, STATE_DEPTH, STATE_DEPTH, width };
        view_case c;
        begin_case(&c, WEFT_KERNEL_attention_state);
        memory.calm = true;
        c.args->first = true;
        c.args->numbers[WEFT_ATTENTION_PARTS] = WEFT_ATTENTION_HAS_V | WEFT_ATTENTION_CONTINUES;
        c.scalars[0] = 0.25;
        for (int k = 0; k < 4; k++) {
            part p = part_with(part_with((part){ .ndim = 2 }, 0, k < 2 ? STATE_ROWS : STATE_KEYS), 1, columns[k]);
            (k == 0 ? add_output : add_input)(&c, type, &p, true);
            c.host[k] = memory.host[k]; /* the one panel is where the memory begins */
            c.device[k] = memory.device[k];
        }
        set_sums(type, columns[0]);
        continue_states(type, width, c.scalars[0], expected);
        run_case_near(&c, bound(type, type));
        for (int64_t x = 0; x < STATE_ROWS * columns[0]; x++) {
            set_number_at(type, memory.host[0] + (size_t)x * weft_dtype_size(type), expected[x]);
        }
        compare_near("attention_state", 0, type, bound(type, type));
    }
}

static void test_finish(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_attention_finish);
        part lines = any_part(1, 3, 4);
        part result = lines, states = lines;
        weft_dtype type = any_float();
        int64_t width = 1 + below(9);
        result.ndim = states.ndim = lines.ndim + 1;
        result = part_with(result, lines.ndim, width);
        states = part_with(states, lines.ndim, (width + WEFT_ATTENTION_STATE) * (1 + below(4)));
        add_output(&c, type, &result, false);
        if (below(2) == 0) {
            add_output(&c, wide_of(type), &lines, false);
        }
        add_input(&c, wide_of(type), &states, false);
        run_case(&c);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* Large logarithms, so that weights are small. */
static void raise_statistics(int k, weft_dtype type)
{
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        set_number_at(type, memory.host[k] + i, number_at(type, memory.host[k] + i) + 14);
    }
    send_again(k);
}

static double gradients_case(view_case *c, weft_kernel_id kernel)
{
    begin_case(c, kernel);
    sizes s = any_sizes(c);
    bool all = c->kernel == WEFT_KERNEL_attention_backward_all;
    int64_t *parts = &c->args->numbers[WEFT_ATTENTION_PARTS], wanted = 1 + below(3);
    if (all) { /* with a dimension before the last two, in one piece */
        s.batch = s.batch.ndim == 0 ? part_with((part){ .ndim = 1 }, 0, 1) : s.batch;
        *parts = 0;
    }
    weft_dtype wide = wide_of(s.type);
    *parts |= (wanted & 1 ? WEFT_ATTENTION_HAS_K_GRADIENT : 0) | (wanted & 2 ? WEFT_ATTENTION_HAS_V_GRADIENT : 0) |
              (!all && below(2) == 0 ? WEFT_ATTENTION_CONTINUES : 0);
    if (c->kernel != WEFT_KERNEL_attention_backward_kv) {
        part of_q = vectors(&s, true, s.depth, true);
        add_output(c, wide, &of_q, false);
    } else {
        part both = vectors(&s, false, (wanted & 1 ? s.depth : 0) + (wanted & 2 ? s.width : 0), true);
        add_output(c, wide, &both, false);
    }
    if (all) {
        part of_k = vectors(&s, false, s.depth, true), of_v = vectors(&s, false, s.width, true);
        add_output(c, wide, &of_k, false);
        add_output(c, wide, &of_v, false);
    }
    add_vectors(c, &s, true, s.width);
    add_vectors(c, &s, true, s.depth);
    add_vectors(c, &s, false, s.depth);
    add_vectors(c, &s, false, s.width);
    part statistics = vectors(&s, true, WEFT_ATTENTION_STATISTICS, true);
    raise_statistics(add_input(c, wide, &statistics, false), wide);
    if (!all) {
        add_mask(c, &s);
    }
    return 4 * bound(s.type, wide);
}

static const weft_kernel_id gradients[] = { WEFT_KERNEL_attention_backward_q, WEFT_KERNEL_attention_backward_kv,
                                            WEFT_KERNEL_attention_backward_all };

static void test_gradients(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        view_case c;
        const double share = gradients_case(&c, gradients[i % 3]);
        run_case_near(&c, share);
    }
}

/* ---- fast mode ------------------------------------------------------------------------------------------- */

/* Calls that kernels of fast mode have taken. By the linker's --wrap. */
static int taken;

int __real_weft_fast_attention(const weft_device_call *call, bool as_state, weft_cuda_queue *queue);
int __wrap_weft_fast_attention(const weft_device_call *call, bool as_state, weft_cuda_queue *queue);
int __real_weft_fast_attention_rows(const weft_device_call *call, weft_cuda_queue *queue);
int __wrap_weft_fast_attention_rows(const weft_device_call *call, weft_cuda_queue *queue);
int __real_weft_fast_attention_keys(const weft_device_call *call, weft_cuda_queue *queue);
int __wrap_weft_fast_attention_keys(const weft_device_call *call, weft_cuda_queue *queue);

static int count_taken(int result)
{
    taken += result == cudaSuccess;
    return result;
}

int __wrap_weft_fast_attention(const weft_device_call *call, bool as_state, weft_cuda_queue *queue)
{
    return count_taken(__real_weft_fast_attention(call, as_state, queue));
}

int __wrap_weft_fast_attention_rows(const weft_device_call *call, weft_cuda_queue *queue)
{
    return count_taken(__real_weft_fast_attention_rows(call, queue));
}

int __wrap_weft_fast_attention_keys(const weft_device_call *call, weft_cuda_queue *queue)
{
    return count_taken(__real_weft_fast_attention_keys(call, queue));
}

/* How many of a call's kernels should be those of fast mode: of more than 16 rows, for at most 128 columns of a result. */
static int expected_to_take(const view_case *c)
{
    const int64_t *numbers = c->args->numbers, parts = numbers[WEFT_ATTENTION_PARTS];
    const bool state = c->kernel == WEFT_KERNEL_attention_state, backward = !state && c->kernel != WEFT_KERNEL_attention;
    const weft_kernel_operand *q = c->args->operands + c->args->num_outputs + backward, *v = q + 2;
    const int64_t rows = parts & WEFT_ATTENTION_COUNTS ? numbers[WEFT_ATTENTION_ROWS] : q->extent[q->ndim - 2];
    const int64_t depth = q->extent[q->ndim - 1], width = state && !(parts & WEFT_ATTENTION_HAS_V) ? 0 : v->extent[v->ndim - 1];
    const bool all = c->kernel == WEFT_KERNEL_attention_backward_all;
    const bool of_k = all || parts & WEFT_ATTENTION_HAS_K_GRADIENT, of_v = all || parts & WEFT_ATTENTION_HAS_V_GRADIENT;
    if (q->dtype == WEFT_F64 || rows <= 16 || depth == 0) {
        return 0;
    }
    if (!backward) {
        return width <= 128;
    }
    return (c->kernel != WEFT_KERNEL_attention_backward_kv && depth <= 128) +
           (c->kernel != WEFT_KERNEL_attention_backward_q && (!of_k || depth <= 128) && (!of_v || width <= 128));
}

static void run_near(view_case *c, const void *share)
{
    taken = 0;
    run_case_near(c, *(const double *)share);
    assert_int_equal(taken, expected_to_take(c));
}

static void run_squares(int cases, double (*make)(view_case *c, int i))
{
    int all = 0;
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < cases; i++) {
        view_case c;
        const double share = make(&c, i);
        run_fast_twice(&c, run_near, &share);
        all += taken;
    }
    resize_memory(MEMORY_BYTES);
    assert_true(all >= cases / 3);
}

static double square_case(view_case *c, int i)
{
    return attention_case(c, i % 2 == 1);
}

static void test_squares(void **state)
{
    (void)state;
    run_squares(3 * CASES, square_case);
}

static double square_of_gradients(view_case *c, int i)
{
    return gradients_case(c, gradients[i % 3]);
}

static void test_squares_of_gradients(void **state)
{
    (void)state;
    run_squares(3 * CASES, square_of_gradients);
}

/* Some numbers of an input are none, or infinite. Without a causal mask, as a CPU multiplies more values by weights of 0. */
static void make_special(view_case *c, int k)
{
    static const double special[] = { NAN, INFINITY, -INFINITY };
    const weft_dtype type = c->args->operands[k].dtype;
    c->args->numbers[WEFT_ATTENTION_CAUSAL] = 0;
    for (int some = 1 + (int)below(3); some > 0 && type != WEFT_BOOL; some--) {
        set_number_at(type, memory.host[k] + (size_t)below(2000) * weft_dtype_size(type), special[below(3)]);
    }
    send_again(k);
}

static double special_case(view_case *c, int i)
{
    const double share = attention_case(c, i % 2 == 1);
    make_special(c, c->args->num_outputs + (int)below(c->args->num_inputs < 3 ? c->args->num_inputs : 3));
    return share;
}

/* Some values of an input are NaN or infinite; in half of the cases they are statistics. */
static double special_gradients(view_case *c, int i)
{
    const double share = gradients_case(c, gradients[i % 3]);
    make_special(c, c->args->num_outputs + (below(2) == 0 ? 4 : (int)below(4)));
    return share;
}

static void test_squares_of_any_numbers(void **state)
{
    (void)state;
    run_squares(CASES, special_case);
    run_squares(3 * CASES, special_gradients);
}

/* ---- statistics ------------------------------------------------------------------------------------------ */

/* Begins a case whose vectors have `width` values. `near`: its results are compared within bounds, and half of the cases have one panel
 * for each operand. */
static void begin_statistics(view_case *c, weft_dtype type, int64_t width, bool near)
{
    begin_case(c, WEFT_KERNEL_attention_statistics);
    const bool whole = near && below(2) == 0;
    memory.calm = memory.calm || near;
    part lines = any_part(1, 3, 4);
    part result = lines, states = lines, values = lines;
    result.ndim = states.ndim = values.ndim = lines.ndim + 1;
    result = part_with(result, lines.ndim, WEFT_ATTENTION_STATISTICS);
    states = part_with(states, lines.ndim, below(2) == 0 ? 1 : WEFT_ATTENTION_STATE * (1 + below(3)));
    values = part_with(values, lines.ndim, width);
    add_output(c, wide_of(type), &result, whole);
    add_input(c, wide_of(type), &states, whole);
    add_input(c, type, &values, whole);
    add_input(c, type, &values, whole);
}

static void test_statistics(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_statistics(&c, any_float(), below(9) == 0 ? 0 : below(5) == 0 ? 128 + below(40) : 1 + below(30), false);
        run_case(&c);
    }
}

/* The distance of numbers of a type's arithmetic, relative to them. */
static double unit_of(weft_dtype type)
{
    return type == WEFT_F64 ? 0x1p-52 : 0x1p-23;
}

static void test_fast_statistics(void **state)
{
    (void)state;
    resize_memory(MOST_MEMORY_BYTES);
    for (int64_t width = 0; width <= 170; width++) {
        for (int type = 0; type <= WEFT_F16; type++) {
            view_case c;
            begin_statistics(&c, (weft_dtype)type, width, true);
            /* Products are up to 16. */
            run_fast(&c, 4 * unit_of((weft_dtype)type), 8 * (double)(1 + width) * unit_of((weft_dtype)type));
        }
    }
    resize_memory(MEMORY_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_continued_states), cmocka_unit_test(test_finish), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_squares), cmocka_unit_test(test_squares_of_any_numbers),
        cmocka_unit_test(test_squares_of_gradients),
        cmocka_unit_test(test_statistics), cmocka_unit_test(test_rotary), cmocka_unit_test(test_fast_attention),
        cmocka_unit_test(test_fast_attention_refused), cmocka_unit_test(test_fast_gradients_of_q),
        cmocka_unit_test(test_fast_gradients_of_kv), cmocka_unit_test(test_fast_gradients_all), cmocka_unit_test(test_fast_gradients_refused),
        cmocka_unit_test(test_prepared_rows), cmocka_unit_test(test_put_values),
        cmocka_unit_test(test_fast_statistics), cmocka_unit_test(test_fast_rotary),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    cmocka_set_skip_filter(getenv("WEFT_TEST_SKIP"));
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
