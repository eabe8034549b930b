/* Stencils: random functions of shifted, cut and padded tensors give bit for bit what the calls give without a graph, and gradients
 * too; and the calls become one. */
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

enum { INPUTS = 3, MOST_CALLS = 14 };

typedef struct random_stencil {
    uint64_t seed;
    int num_calls;
    bool exact;    /* numbers are whole */
    bool orders;   /* the type has greater and less */
    bool floating;
} random_stencil;

/* ---- random calls ---------------------------------------------------------------------------------------- */

static double constant(prng *random, const random_stencil *s)
{
    static const double numbers[] = { 0, 1, 3, -2.5 };
    return numbers[prng_below(random, s->exact ? 3 : 4)];
}

static int64_t size_of(weft_tensor *a, int d)
{
    return weft_tensor_size(a, d);
}

/* More around each dimension, and as many indices as before from any on. */
static weft_tensor *pad_and_slice(prng *random, const random_stencil *s, weft_tensor *a)
{
    int64_t before[WEFT_MAX_DIMS], after[WEFT_MAX_DIMS];
    int ndim = weft_tensor_ndim(a);
    for (int d = 0; d < ndim; d++) {
        before[d] = prng_below(random, 4);
        after[d] = prng_below(random, 3);
    }
    weft_tensor *padded = weft_pad(a, WEFT_PAD_CONSTANT, constant(random, s), ndim, before, after);
    for (int d = 0; d < ndim; d++) {
        int64_t start = prng_below(random, before[d] + after[d] + 1);
        padded = weft_slice(padded, d, start, start + size_of(a, d), 1);
    }
    return padded;
}

/* A part, and constants in place of the rest; or moved by negative pads. */
static weft_tensor *cut_and_pad(prng *random, const random_stencil *s, weft_tensor *a)
{
    int64_t before[WEFT_MAX_DIMS] = { 0 }, after[WEFT_MAX_DIMS] = { 0 };
    int ndim = weft_tensor_ndim(a), d = (int)prng_below(random, ndim);
    int64_t size = size_of(a, d), start = prng_below(random, size + 1), count = prng_below(random, size - start + 1);
    if (prng_below(random, 2) == 0) {
        before[d] = prng_below(random, 2) == 0 ? -start : start;
        after[d] = -before[d];
        return weft_pad(a, WEFT_PAD_CONSTANT, constant(random, s), ndim, before, after);
    }
    before[d] = prng_below(random, size - count + 1);
    after[d] = size - count - before[d];
    return weft_pad(weft_slice(a, d, start, start + count, 1), WEFT_PAD_CONSTANT, constant(random, s), ndim, before, after);
}

static weft_tensor *shifted(prng *random, const random_stencil *s, weft_tensor *a)
{
    int64_t size;
    int d, times = 1 + (int)prng_below(random, 3);
    for (int i = 0; i < times; i++) {
        switch (prng_below(random, 4)) {
        case 0:
            a = pad_and_slice(random, s, a);
            break;
        case 1:
            a = cut_and_pad(random, s, a);
            break;
        default:
            d = (int)prng_below(random, weft_tensor_ndim(a));
            size = size_of(a, d);
            a = weft_roll(a, prng_below(random, 2) == 0 ? prng_below(random, 3) - 1 : prng_below(random, 2 * size + 1) - size, d);
        }
    }
    return a;
}

static weft_tensor *combined(prng *random, const random_stencil *s, weft_tensor *a, weft_tensor *b, weft_tensor *one, double number)
{
    switch (prng_below(random, s->orders ? 10 : 7)) {
    case 0: return weft_sub(a, b);
    case 1: return weft_mul(a, b);
    case 2: return weft_add_scaled(a, b, number);
    case 3: return weft_scale(a, number);
    case 4: return weft_mul(a, one);
    case 7: return weft_where(weft_gt(a, b), a, b);
    case 8: return weft_maximum(a, b);
    case 9: return s->floating ? weft_tanh(a) : weft_add_scalar(a, number);
    default: return weft_add(a, b);
    }
}

/* Two tensors of one shape, and one element. Later calls often read the newest tensor, so that stencils follow each other. */
static weft_status run(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const random_stencil *s = context;
    prng random = { s->seed };
    weft_tensor *tensors[MOST_CALLS + 2] = { inputs[0], inputs[1] };
    for (int i = 0; i < s->num_calls; i++) {
        weft_tensor *a = tensors[prng_below(&random, 2) == 0 ? i + 1 : prng_below(&random, i + 2)];
        weft_tensor *b = tensors[prng_below(&random, i + 2)];
        a = prng_below(&random, 4) == 0 ? a : shifted(&random, s, a);
        b = prng_below(&random, 3) == 0 ? b : shifted(&random, s, b);
        tensors[i + 2] = combined(&random, s, a, b, inputs[2], scalars[0] + i);
    }
    outputs[0] = tensors[s->num_calls + 1];
    outputs[1] = tensors[prng_below(&random, s->num_calls + 2)];
    return WEFT_OK;
}

/* The gradient of a leaf, by the backward pass of such a function. */
static weft_status run_gradient(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor *leaf = weft_scale(inputs[0], 1), *own[INPUTS] = { leaf, inputs[1], inputs[2] }, *values[2];
    weft_set_requires_grad(leaf, true);
    weft_status status = run(context, own, scalars, values);
    weft_tensor *loss = weft_sum(weft_mul(values[0], inputs[1]), WEFT_ALL_DIMS, false);
    status = status == WEFT_OK && weft_requires_grad(loss) ? weft_backward(loss, NULL) : status;
    outputs[0] = weft_grad(leaf) == NULL ? weft_scale(inputs[0], 2) : weft_scale(weft_grad(leaf), 1);
    outputs[1] = weft_detach(values[0]);
    return status;
}

/* ---- random cases ---------------------------------------------------------------------------------------- */

static void compare(weft_graph *graph, weft_graph_function function, random_stencil *s, weft_tensor *const inputs[], double number,
                    const char *what)
{
    weft_tensor *outputs[2], *expected[2];
    if (weft_graph_call(graph, inputs, &number, outputs) != WEFT_OK || function(s, inputs, &number, expected) != WEFT_OK) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    for (int i = 0; i < 2; i++) {
        assert_same_tensors(outputs[i], expected[i], what);
    }
}

/* Calls of the newest body that stencils became. */
static int count_stencils(const weft_graph *graph)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    assert_int_equal(weft_graph_print(graph, WEFT_GRAPH_BODY, file), WEFT_OK);
    assert_int_equal(fclose(file), 0);
    int count = count_in(text, "= stencil(");
    free(text);
    return count;
}

static int run_random(uint64_t seed, int64_t most, bool gradient)
{
    static const weft_dtype dtypes[] = { WEFT_F64, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16, WEFT_I32, WEFT_I64, WEFT_C64, WEFT_C128 };
    prng random = prng_start(seed);
    weft_scope_begin();
    weft_mesh *mesh = random_mesh(&random, weft_world_size());
    int64_t shape[3];
    int ndim = 1 + (int)prng_below(&random, 3);
    for (int d = 0; d < ndim; d++) {
        int64_t sizes = d == 0 && ndim == 1 ? most * most : most;
        shape[d] = prng_below(&random, 12) == 0 ? prng_below(&random, 2) : 1 + prng_below(&random, sizes);
    }
    int kind = (int)prng_below(&random, gradient ? 3 : 9);
    random_stencil s = { .seed = prng_next(&random), .num_calls = 1 + (int)prng_below(&random, gradient ? 5 : MOST_CALLS),
                         .exact = kind == 5 || kind == 6, .orders = kind < 7, .floating = kind < 5 };
    weft_placement placements[WEFT_MAX_DIMS];
    random_placements(&random, mesh, ndim, false, placements);
    weft_tensor *inputs[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        weft_tensor *numbers = weft_randn(WEFT_F64, i == 2 ? 0 : ndim, shape, mesh, i == 2 ? NULL : placements);
        inputs[i] = weft_to_type(s.exact ? weft_scale(numbers, 5) : numbers, dtypes[kind]);
    }
    weft_graph_function function = gradient ? run_gradient : run;
    weft_graph *graph = weft_graph_create("random", function, &s, INPUTS, 1, 2);
    unsigned more = seed % 2 ? WEFT_PASS_MEMORY | WEFT_PASS_REDUNDANT : 0;
    weft_graph_set_passes(graph, seed % 5 == 4 ? WEFT_PASS_ALL : WEFT_PASS_DEAD | WEFT_PASS_COMMON | WEFT_PASS_FUSE | more);
    for (int turn = 0; turn < 3; turn++) {
        char what[160];
        snprintf(what, sizeof(what), "seed %llu, turn %d, %s", (unsigned long long)seed, turn, describe(mesh, placements, ndim, shape));
        compare(graph, function, &s, inputs, turn, what);
    }
    int stencils = count_stencils(graph);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
    return stencils;
}

static void test_random_stencils(void **state)
{
    (void)state;
    static const struct {
        const char *panel_rows;
        int ranks, most, count;
    } rounds[] = { { NULL, 4, 14, 150 }, { "1", 3, 9, 100 },  { "3", 5, 12, 100 },
                   { "2", 1, 14, 60 },   { NULL, 1, 30, 60 }, { NULL, 2, 70, 30 } };
    for (size_t r = 0; r < sizeof(rounds) / sizeof(rounds[0]); r++) {
        int stencils = 0;
        if (over_processes()) {
            WORLD(0);
        } else {
            start_with_panels(rounds[r].ranks, rounds[r].panel_rows);
        }
        int count = cases_to_run(rounds[r].count);
        for (int i = 0; i < count; i++) {
            stencils += run_random(1000 * r + (uint64_t)i + 1, rounds[r].most, i % 3 == 0);
        }
        print_message("# %d stencils\n", stencils);
        assert_true(stencils > count / 8);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_stencils),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
