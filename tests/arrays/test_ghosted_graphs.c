/* Captured graphs of steps on tensors in ghosted arrays: captured, replayed, with bodies, frozen, against dense arrays. */
#include "ghosted_scene.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 8, RUNS = 5 };

static int num_programs;

/* The steps of a graph. */
typedef struct program {
    field f;
    const weft_operation *stencil;
    int count;
    step steps[MAX_STEPS];
    bool computes; /* the dense tensors too, where the calls are made */
    int called;    /* the function, so often */
} program;

static weft_status run_steps(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs;
    (void)scalars;
    (void)outputs;
    program *p = context;
    p->called++;
    for (int i = 0; i < p->count; i++) {
        step_make(&p->f, p->stencil, &p->steps[i]);
        if (p->computes) {
            step_compute(&p->f, &p->steps[i]);
        }
    }
    return weft_last_status();
}

/* Between two runs: a step by itself, or the program looks at its arrays. */
static void go_on(prng *random, program *p)
{
    if (prng_below(random, 2)) {
        const step s = step_random(random, &p->f, NUM_STEPS);
        step_make(&p->f, p->stencil, &s);
        step_compute(&p->f, &s);
    }
    if (prng_below(random, 2)) {
        assert_int_equal(weft_wait(), WEFT_OK);
        field_check(&p->f, 0, false);
        field_check(&p->f, 1, false);
    }
}

static void run_program(prng *random, const weft_operation *const stencils[])
{
    program p = { .count = 1 + (int)prng_below(random, MAX_STEPS) };
    weft_scope_begin();
    field_random(random, &p.f);
    p.stencil = stencils[p.f.ndim - 1];
    const bool frozen = prng_below(random, 3) == 0;
    p.computes = !frozen;
    for (int i = 0; i < p.count; i++) {
        p.steps[i] = step_random(random, &p.f, frozen ? STEP_SUM : NUM_STEPS);
    }
    weft_graph *graph = weft_graph_create("steps", run_steps, &p, 2, 0, 0);
    weft_graph_set_passes(graph, prng_below(random, 3) == 0 ? WEFT_PASS_NONE : WEFT_PASS_ALL);
    weft_graph_freeze(graph, frozen);
    for (int run = 0; run < RUNS; run++) {
        assert_int_equal(weft_graph_call(graph, p.f.tensors, NULL, NULL), WEFT_OK);
        for (int i = 0; i < p.count && frozen; i++) {
            step_compute(&p.f, &p.steps[i]);
        }
        go_on(random, &p);
    }
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_int_equal(info.guards_failed, 0);
    assert_int_equal(p.called, frozen ? 3 : RUNS);
    assert_int_equal(weft_wait(), WEFT_OK);
    field_check(&p.f, 0, false);
    field_check(&p.f, 1, false);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    field_free(&p.f);
}

static void random_graphs(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    prng random = prng_start(20261201);
    for (int world = 0; world < 6; world++) {
        start_with_panels(1 + (int)prng_below(&random, MAX_RANKS), heights[world % 3]);
        const weft_operation *stencils[MAX_DIMS];
        for (int d = 0; d < MAX_DIMS; d++) {
            stencils[d] = register_stencil(d + 1);
        }
        for (int i = 0; i < num_programs / 6 + 1; i++) {
            run_program(&random, stencils);
        }
        world_stop(NULL);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- one graph ----------------------------------------------------------------------------------------- */

/* A ghosted row of 30 on all ranks. */
static weft_tensor *make_row(weft_mesh *mesh, double *arrays[], int64_t ghosts, weft_dtype dtype)
{
    const weft_placement cut[] = { weft_shard_balanced(0) };
    const int64_t shape[] = { 30 };
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset, extent;
        assert_int_equal(weft_shard_box(mesh, cut, 1, shape, weft_first_rank() + i, &offset, &extent), WEFT_OK);
        arrays[i] = calloc((size_t)(extent + 2 * ghosts), sizeof(double));
    }
    weft_tensor *row = weft_from_ghosted(dtype, 1, shape, (void *const *)arrays,
                                         &(weft_ghosts){ .before = { ghosts }, .after = { ghosts } }, mesh, cut);
    assert_no_error();
    return row;
}

/* outputs: the row's sum with ones, and the row itself, changed. */
static weft_status add_and_scale(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_add(inputs[0], weft_ones_like(inputs[0]));
    outputs[1] = weft_add_inplace(inputs[0], weft_ones_like(inputs[0]), scalars[0]);
    return weft_last_status();
}

static double first_of(weft_tensor *tensor)
{
    double values[30];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    return values[0];
}

static void values_and_guards(void **state)
{
    (void)state;
    WORLD(4);
    double *arrays[3][MAX_LOCAL];
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    weft_scope_begin();
    weft_tensor *narrow = make_row(mesh, arrays[0], 1, WEFT_F64), *wide = make_row(mesh, arrays[1], 2, WEFT_F64);
    weft_tensor *leaf = make_row(mesh, arrays[2], 1, WEFT_F64 | WEFT_WITH_GRAD), *outputs[2];
    weft_tensor *plain = weft_zeros_like(narrow);
    weft_graph *graph = weft_graph_create("add", add_and_scale, NULL, 1, 1, 2);
    weft_graph_info info;
    for (int run = 0; run < 4; run++) {
        assert_int_equal(weft_graph_call(graph, &narrow, &(double){ 2 }, outputs), WEFT_OK);
        assert_ptr_equal(outputs[1], narrow);
        assert_true(first_of(outputs[0]) == 2 * run + 1 && first_of(narrow) == 2 * run + 2);
    }
    assert_int_equal(weft_graph_call(graph, &wide, &(double){ 3 }, outputs), WEFT_OK); /* another trace */
    assert_int_equal(weft_graph_get_info(graph, &info, sizeof(info)), WEFT_OK);
    assert_int_equal(info.num_traces, 2);
    assert_non_null(strstr(info.failed_guard, "ghosted arrays"));
    assert_int_equal(weft_graph_shard(graph, NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "graph add has tensors in ghosted arrays");
    assert_int_equal(weft_graph_call(graph, &plain, &(double){ 4 }, outputs), WEFT_OK);
    assert_true(first_of(outputs[0]) == 1 && first_of(plain) == 4 && first_of(wide) == 3);
    assert_int_equal(weft_graph_call(graph, &leaf, &(double){ 4 }, outputs), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "gradients of tensors in ghosted arrays");
    assert_int_equal(weft_graph_donate(graph, 0, true), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &narrow, &(double){ 2 }, outputs), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "lies in ghosted arrays");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < 3 * MAX_LOCAL; i++) {
        if (i % MAX_LOCAL < weft_local_ranks()) {
            free(arrays[i / MAX_LOCAL][i % MAX_LOCAL]);
        }
    }
    world_stop(NULL);
}

/* A kernel that reads two rows on is refused where the arrays have one, when the call is made. */
static weft_status read_too_far(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    const weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1, .numbers = { 0, 2 } };
    outputs[0] = weft_apply(context, 3, (weft_tensor *[]){ inputs[0], inputs[1], weft_zeros_like(inputs[0]) }, &options);
    assert_null(outputs[0]);
    assert_error(WEFT_ERR_SHAPE, "now lies in ghosted arrays: the margins of its arrays are narrower than the halo");
    outputs[0] = inputs[0];
    return WEFT_OK;
}

static void misfits_are_refused_at_the_call(void **state)
{
    (void)state;
    WORLD(4);
    double *arrays[2][MAX_LOCAL];
    weft_tensor *output;
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    weft_scope_begin();
    weft_tensor *rows[] = { make_row(mesh, arrays[0], 1, WEFT_I64), make_row(mesh, arrays[1], 1, WEFT_I64) };
    weft_graph *graph = weft_graph_create("too far", read_too_far, (void *)register_stencil(1), 2, 0, 1);
    assert_int_equal(weft_graph_call(graph, rows, NULL, &output), WEFT_OK);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(arrays[0][i]);
        free(arrays[1][i]);
    }
    world_stop(NULL);
}

int main(void)
{
    num_programs = cases_to_run(240);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(values_and_guards),
        cmocka_unit_test(misfits_are_refused_at_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
