/* Each kind of guard fails, names itself, and is captured again; and attacks: whatever a function
 * does, checked and frozen graphs give what it gives without one, or refuse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "graph_support.h"

/* ---- each kind of guard ------------------------------------------------------------------------------------------- */

typedef struct scene {
    int what; /* 0: the recorded one */
    weft_tensor *leaf, *list[3];
} scene;

enum { FUNCTION = 1, SHAPE, DTYPE, LAYOUT, MESH, ATTRIBUTE, COUNT, IDENTITY, REGION, REQUIRES, END, MORE, ACCESS, GRADIENT };

static weft_status guarded(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const scene *s = context;
    (void)scalars;
    weft_tensor *x = weft_exp(inputs[0]);
    weft_tensor *y = s->what == FUNCTION ? weft_sub(x, inputs[1]) : weft_mul(x, s->what == IDENTITY ? x : inputs[1]);
    weft_tensor *z = weft_sum(y, s->what == ATTRIBUTE ? 0 : 1, false);
    weft_tensor *joined = weft_cat(s->what == COUNT ? 2 : 3, s->list, 0);
    if (s->what == REGION) {
        weft_implicit_replication_begin();
    }
    joined = weft_neg(joined);
    if (s->what == REGION) {
        weft_implicit_replication_end();
    }
    weft_tensor *part = weft_slice(joined, 0, s->what == ACCESS ? 2 : 1, 5, 1);
    weft_status status = WEFT_OK;
    if (s->leaf != NULL) {
        weft_tensor *loss = weft_sum(weft_mul(s->leaf, s->leaf), WEFT_ALL_DIMS, false);
        status = weft_requires_grad(s->leaf) ? weft_backward(loss, NULL) : WEFT_OK;
        if (status == WEFT_OK && weft_requires_grad(s->leaf) && s->what != GRADIENT) {
            status = weft_zero_grad(1, &s->leaf);
        }
    }
    if (s->what != END) {
        part = weft_neg(part);
    }
    outputs[0] = z;
    outputs[1] = s->what == MORE ? weft_abs(part) : part;
    return status;
}

static void test_f3_each_guard(void **state)
{
    (void)state;
    const weft_placement rows = weft_shard(0), whole = weft_replicate();
    const struct {
        int what;
        const char *why;
    } cases[] = {
        { FUNCTION, "call 1: the function differs: recorded weft_mul, came weft_sub" },
        { SHAPE, "call 0: weft_exp: tensor 0 was f64[6, 3] [S0] on" },
        { DTYPE, "call 0: weft_exp: tensor 0 was f64[6, 3] [S0] on" },
        { LAYOUT, "call 0: weft_exp: tensor 0 was f64[6, 3] [S0] on" },
        { MESH, "call 0: weft_exp: tensor 0 was f64[6, 3] [S0] on" },
        { ATTRIBUTE, "call 2: an attribute differs: recorded weft_sum, came weft_sum" },
        { COUNT, "call 3: the number of tensors differs: recorded weft_cat, came weft_cat" },
        { IDENTITY, "call 1: weft_mul: tensor 1 was value %2, is %1" },
        { REGION, "call 4: weft_implicit_replication_begin() differs: recorded weft_neg, came weft_neg" },
        { REQUIRES, "differs: recorded weft_ones_like, came weft_neg" },
        { END, "came the end" },
        { MORE, "recorded the end, came weft_abs" },
        { ACCESS, "call 5: " },
        { GRADIENT, "differs: recorded weft_neg, came weft_add" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_scope_begin();
        scene s = { .leaf = numbers(9, 4, NULL) };
        weft_set_requires_grad(s.leaf, true);
        for (int k = 0; k < 3; k++) {
            s.list[k] = numbers((uint64_t)k + 1, 3, NULL);
        }
        weft_tensor *inputs[] = { numbers(4, 6, &rows), numbers(5, 6, &rows) }, *outputs[2], *expected[2];
        weft_graph *graph = weft_graph_create("guarded", guarded, &s, 2, 0, 2);
        for (int run = 0; run < 2; run++) {
            assert_int_equal(weft_graph_call(graph, inputs, NULL, outputs), WEFT_OK);
        }
        assert_int_equal(info_of(graph).captures, 1);
        s.what = cases[i].what;
        const int64_t ranks = weft_world_size();
        if (s.what == SHAPE) {
            inputs[0] = numbers(4, 7, &rows);
            inputs[1] = numbers(5, 7, &rows);
        } else if (s.what == DTYPE) {
            inputs[0] = weft_to_type(inputs[0], WEFT_F32);
            inputs[1] = weft_to_type(inputs[1], WEFT_F32);
        } else if (s.what == LAYOUT) {
            inputs[0] = weft_redistribute(inputs[0], NULL, &whole);
        } else if (s.what == MESH) {
            weft_mesh *other = weft_mesh_create(2, (int64_t[]){ ranks, 1 }, (const char *const[]){ "a", "b" });
            const weft_placement both[] = { weft_shard(0), weft_replicate() };
            inputs[0] = weft_redistribute(inputs[0], other, both);
            inputs[1] = weft_redistribute(inputs[1], other, both);
        } else if (s.what == REQUIRES) {
            weft_set_requires_grad(s.leaf, false);
        }
        for (int run = 0; run < 3; run++) {
            assert_int_equal(weft_graph_call(graph, inputs, NULL, outputs), WEFT_OK);
            assert_int_equal(guarded(&s, inputs, NULL, expected), WEFT_OK);
            assert_same_tensors(outputs[0], expected[0], "output 0");
            assert_same_shards(outputs[1], expected[1], "output 1");
        }
        if (strstr(info_of(graph).failed_guard, cases[i].why) == NULL) {
            fail_msg("expected \"%s\", got \"%s\"", cases[i].why, info_of(graph).failed_guard);
        }
        assert_int_equal(info_of(graph).captures, 2);
        assert_int_equal(info_of(graph).guards_failed, 1); /* the other trace is the newest one then */
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* ---- attacks, checked and frozen ----------------------------------------------------------------------------------- */

typedef struct attacked {
    weft_graph *graph, *other;
    weft_tensor *parameter;
    int depth;
} attacked;

/* A graph that calls itself. */
static weft_status recurse(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    attacked *a = context;
    weft_tensor *x = weft_add_scalar(inputs[0], scalars[0]);
    if (++a->depth < 3 && a->graph != NULL) {
        weft_status status = weft_graph_call(a->graph, &x, scalars, outputs);
        a->depth--;
        outputs[0] = status == WEFT_OK ? weft_mul(outputs[0], x) : NULL;
        return status;
    }
    if (a->graph == NULL && a->depth < 3) {
        weft_status status = recurse(context, &x, scalars, outputs);
        a->depth--;
        outputs[0] = weft_mul(outputs[0], x);
        return status;
    }
    a->depth--;
    outputs[0] = x;
    return WEFT_OK;
}

/* Second derivatives. */
static weft_status twice(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *leaf = weft_detach(inputs[0]), *gradient, *second;
    weft_set_requires_grad(leaf, true);
    weft_tensor *loss = weft_sum(weft_mul(weft_mul(leaf, leaf), leaf), WEFT_ALL_DIMS, false);
    weft_status status = weft_gradients(1, &loss, NULL, 1, &leaf, true, &gradient);
    loss = weft_sum(weft_mul(gradient, gradient), WEFT_ALL_DIMS, false);
    status = status == WEFT_OK ? weft_gradients(1, &loss, NULL, 1, &leaf, false, &second) : status;
    outputs[0] = status == WEFT_OK ? weft_add_scalar(weft_detach(second), scalars[0]) : NULL;
    return status;
}

/* Views of an input that is changed; a tensor of no elements; the same output under two names. */
static weft_status views(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    attacked *a = context;
    weft_tensor *view = weft_reshape(a->parameter, 1, (int64_t[]){ 18 }), *row = weft_slice(a->parameter, 0, 0, 1, 1);
    weft_add_inplace(a->parameter, inputs[0], scalars[0]);
    weft_tensor *none = weft_slice(a->parameter, 0, 2, 2, 1);
    weft_scale_inplace(row, 2);
    weft_tensor *sum = weft_add(weft_sum(view, WEFT_ALL_DIMS, false), weft_sum(row, WEFT_ALL_DIMS, false));
    outputs[0] = weft_add(weft_mul(a->parameter, sum), weft_sum(none, WEFT_ALL_DIMS, false));
    return weft_last_status();
}

/* Regions that open and close inside. */
static weft_status regions(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_no_grad_begin();
    weft_autocast_begin(WEFT_BF16);
    weft_tensor *narrow = weft_to_type(inputs[0], WEFT_F32);
    weft_tensor *product = weft_matmul(narrow, weft_transpose(narrow, 0, 1));
    weft_autocast_end();
    weft_no_grad_end();
    outputs[0] = weft_add_scalar(product, scalars[0]);
    return weft_last_status();
}

/* Another graph over the same parameter. */
static weft_status change_parameter(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    attacked *a = context;
    weft_add_inplace(a->parameter, inputs[0], scalars[0]);
    outputs[0] = weft_neg(a->parameter);
    return weft_last_status();
}

static void attack(weft_graph_function function, bool freeze)
{
    const weft_placement rows = weft_shard(0);
    weft_scope_begin();
    attacked captured = { .parameter = numbers(3, 6, &rows) }, eager = { .parameter = numbers(3, 6, &rows) };
    weft_tensor *x = numbers(4, 6, &rows);
    captured.graph = weft_graph_create("attack", function, &captured, 1, 1, 1);
    captured.other = weft_graph_create("other", change_parameter, &captured, 1, 1, 1);
    weft_graph_freeze(captured.graph, freeze);
    weft_graph_freeze(captured.other, freeze);
    for (int run = 0; run < 8; run++) {
        double scalar = 0.25 * run;
        weft_tensor *output, *expected;
        for (int other = 0; other < 2; other++) {
            weft_graph_function called = other ? change_parameter : function;
            weft_status status = weft_graph_call(other ? captured.other : captured.graph, &x, &scalar, &output);
            if (freeze && status == WEFT_ERR_STATE) {
                assert_error(WEFT_ERR_STATE, "cannot be frozen");
                assert_int_equal(weft_graph_freeze(other ? captured.other : captured.graph, false), WEFT_OK);
                status = weft_graph_call(other ? captured.other : captured.graph, &x, &scalar, &output);
            }
            assert_int_equal(status, WEFT_OK);
            assert_int_equal(called(&eager, &x, &scalar, &expected), WEFT_OK);
            assert_same_tensors(output, expected, "output");
            assert_same_shards(captured.parameter, eager.parameter, "parameter");
        }
    }
    assert_true(!freeze || info_of(captured.other).frozen);
    weft_graph_destroy(captured.graph);
    weft_graph_destroy(captured.other);
    weft_scope_end();
    assert_no_error();
}

static void test_attacks(void **state)
{
    (void)state;
    static const weft_graph_function functions[] = { recurse, twice, views, regions, change_parameter };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        attack(functions[i], false);
        attack(functions[i], true);
    }
}

/* ---- regions around a call ------------------------------------------------------------------------------------------- */

static weft_status plain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_exp(weft_mul(inputs[0], inputs[0]));
    return WEFT_OK;
}

/* A frozen graph in other regions than it was frozen in: its outputs require gradients where the function's would. */
static void test_frozen_in_other_regions(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *leaf = numbers(4, 6, NULL), *x = numbers(5, 6, NULL), *output;
    weft_set_requires_grad(leaf, true);
    weft_graph *graph = weft_graph_create("plain", plain, NULL, 1, 0, 1);
    weft_graph_freeze(graph, true);
    for (int run = 0; run < 5; run++) {
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
    }
    assert_true(info_of(graph).frozen);
    assert_int_equal(weft_graph_call(graph, &leaf, NULL, &output), WEFT_OK);
    assert_true(weft_requires_grad(output));
    weft_graph_freeze(graph, false);
    weft_graph_freeze(graph, true);
    weft_no_grad_begin();
    for (int run = 0; run < 5; run++) {
        assert_int_equal(weft_graph_call(graph, &leaf, NULL, &output), WEFT_OK);
        assert_false(weft_requires_grad(output));
    }
    assert_true(info_of(graph).frozen);
    weft_no_grad_end();
    assert_int_equal(weft_graph_call(graph, &leaf, NULL, &output), WEFT_OK);
    assert_true(weft_requires_grad(output));
    assert_int_equal(weft_backward(weft_sum(output, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_non_null(weft_grad(leaf));
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* A copy that was made before the program wrote to the tensor is another value. */
static weft_status difference(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *first = weft_exp(inputs[0]);
    outputs[0] = weft_sub(first, weft_exp(inputs[1]));
    return WEFT_OK;
}

static void test_copies_and_writes(void **state)
{
    (void)state;
    const weft_placement rows = weft_shard(0);
    weft_graph *graph = weft_graph_create("difference", difference, NULL, 2, 0, 1);
    for (int run = 0; run < 4; run++) {
        weft_scope_begin();
        weft_tensor *x = numbers(4, 8, &rows), *copy = weft_detach(x), *output, *expected;
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ x, copy }, NULL, &output), WEFT_OK);
        for (int i = 0; i < weft_local_ranks(); i++) {
            double *values = weft_local_acquire(x, i, WEFT_WRITE);
            if (values != NULL && weft_local_bytes(x, i) > 0) {
                values[0] = 3 + run;
            }
            weft_local_release(x, i);
        }
        weft_clear_error();
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ x, copy }, NULL, &output), WEFT_OK);
        assert_int_equal(difference(NULL, (weft_tensor *[]){ x, copy }, NULL, &expected), WEFT_OK);
        assert_same_shards(output, expected, "output");
        weft_scope_end();
    }
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- numbers that decide of what calls a composite is made ------------------------------------------------------ */

enum { WAYS = 4 };
static const double powers[WAYS] = { 2, 1, INFINITY, 3.5 }, ranks[WAYS] = { 0.5, 0.25, 1, 0.3 }, smoothings[WAYS] = { 0, 0.25, 0, 0.5 };

static weft_status chosen_by_numbers(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const int way = *(const int *)context;
    (void)scalars;
    weft_cross_entropy_options options;
    weft_cross_entropy_options_init(&options);
    options.weight = inputs[2];
    options.label_smoothing = smoothings[way];
    options.reduction = WEFT_LOSS_NONE;
    outputs[0] = weft_normalize(inputs[0], powers[way], -2, 0.125);
    outputs[1] = weft_quantile(inputs[0], ranks[way], 0, true, WEFT_QUANTILE_LINEAR);
    outputs[2] = weft_cross_entropy(inputs[0], inputs[1], &options);
    weft_tensor *gradient = weft_exp(inputs[0]);
    weft_status status = weft_clip_grad_norm(1, &gradient, 0.5, powers[way], &outputs[3]);
    outputs[4] = gradient;
    return status;
}

/* The recorded calls, and the layouts of their outputs, are for the numbers of the capture: others are another call. Shapes and
 * meshes of one, where layouts cost nothing and other calls choose others. */
static void test_numbers_that_choose_calls(void **state)
{
    (void)state;
    const int64_t one[] = { 1, 1 }, rows[] = { 1, 3 };
    int ranks_of_mesh[] = { 0 }, way = 0;
    weft_mesh *mesh = weft_mesh_of_ranks(2, one, ranks_of_mesh, NULL);
    const weft_placement layouts[][2] = { { weft_partial(WEFT_PROD), weft_replicate() },
                                          { weft_shard(0), weft_replicate() },
                                          { weft_replicate(), weft_partial(WEFT_SUM) } };
    for (size_t l = 0; l < WEFT_ARRAY_SIZE(layouts); l++) {
        weft_scope_begin();
        const int64_t *shape = l == 0 ? one : rows;
        const double values[] = { -3, 1, 2 };
        void *locals[8] = { (void *)(uintptr_t)values, (void *)(uintptr_t)values, (void *)(uintptr_t)values, (void *)(uintptr_t)values };
        weft_tensor *inputs[] = { weft_from_local(WEFT_F64, 2, shape, locals, mesh, layouts[l], WEFT_COPY),
                                  weft_zeros(WEFT_I64, 1, shape, mesh, NULL), weft_ones(WEFT_F64, 1, shape + 1, mesh, NULL) };
        weft_graph *graph = weft_graph_create("numbers", chosen_by_numbers, &way, 3, 0, 5);
        assert_no_error();
        for (int run = 0; run < 4 * WAYS; run++) {
            weft_tensor *outputs[5], *expected[5];
            way = run < WAYS ? 0 : run % WAYS;
            assert_int_equal(chosen_by_numbers(&way, inputs, NULL, expected), WEFT_OK);
            if (weft_graph_call(graph, inputs, NULL, outputs) != WEFT_OK) {
                fail_msg("layout %zu, way %d: %s", l, way, weft_last_error());
            }
            for (int i = 0; i < 5; i++) {
                assert_same_shards(outputs[i], expected[i], "output");
            }
        }
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f3_each_guard),
        cmocka_unit_test(test_attacks),
        cmocka_unit_test(test_frozen_in_other_regions),
        cmocka_unit_test(test_copies_and_writes),
        cmocka_unit_test(test_numbers_that_choose_calls),
    };
    return RUN_ON_RANKS(tests);
}
