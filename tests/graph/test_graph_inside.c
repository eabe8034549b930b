/* Parts of weft inside the functions of graphs and around them: local_map, modules, checkpoints, explanations, strict regions,
 * named states of random numbers, other threads. A graph gives what its function gives without one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph_support.h"
#include "printed.h"

enum { RUNS = 5, ROWS = 6 };

static char path[64];

static weft_tensor *draw_rows(int64_t rows)
{
    const weft_placement by_rows = weft_shard(0);
    return weft_randn(WEFT_F64, 2, (int64_t[]){ rows, 3 }, line(), &by_rows);
}

/* What functions use, one for the graph and one for the calls without it. */
typedef struct part {
    weft_module *module;
    weft_tensor *kept;
    weft_graph *graph;
    int run;
} part;

/* Runs it in a graph and without one. The graph's counts. */
static weft_graph_info compare(weft_graph_function function, part *captured, part *eager)
{
    weft_graph *graph = weft_graph_create("inside", function, captured, 1, 1, 1);
    captured->graph = graph;
    for (int run = 0; run < RUNS; run++) {
        weft_scope_begin();
        captured->run = eager->run = run;
        const double scalar = 0.5 + run;
        weft_tensor *x = draw_rows(ROWS), *output, *expected;
        weft_random_state before, after, now;
        weft_random_state_get(NULL, &before);
        if (weft_graph_call(graph, &x, &scalar, &output) != WEFT_OK) {
            fail_msg("run %d: %s", run, weft_last_error());
        }
        weft_random_state_get(NULL, &after);
        weft_random_state_set(NULL, before);
        assert_int_equal(function(eager, &x, &scalar, &expected), WEFT_OK);
        weft_random_state_get(NULL, &now);
        assert_memory_equal(&now, &after, sizeof(now));
        assert_same_tensors(output, expected, "output");
        weft_scope_end();
    }
    weft_graph_info info = info_of(graph);
    weft_graph_destroy(graph);
    assert_no_error();
    return info;
}

/* ---- local_map --------------------------------------------------------------------------------------------- */

static void add_rank(const weft_local_call *call)
{
    const double *from = call->inputs[0].data;
    double *to = call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        to[i] = 2 * from[i] + *(const double *)call->context;
    }
}

static void twice_gradient(const weft_local_call *call)
{
    const double *from = call->inputs[1].data;
    double *to = call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        to[i] = 2 * from[i];
    }
}

static weft_status maps(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { ROWS, 3 };
    const weft_local_output description = { WEFT_F64, 2, shape, &rows };
    const weft_local_map_options options = { .gradient = twice_gradient, .context = (void *)(uintptr_t)scalars,
                                             .context_size = sizeof(scalars[0]) };
    (void)context;
    weft_tensor *leaf = weft_detach(weft_mul(inputs[0], inputs[0])), *y;
    weft_set_requires_grad(leaf, true);
    weft_status status = weft_local_map(add_rank, 1, &leaf, 1, &description, &options, &y);
    status = status == WEFT_OK ? weft_backward(weft_sum(weft_mul(y, y), WEFT_ALL_DIMS, false), NULL) : status;
    outputs[0] = status == WEFT_OK ? weft_add(weft_detach(y), weft_grad(leaf)) : NULL;
    return status;
}

static void a_local_map(void **state)
{
    (void)state;
    part captured = { .run = 0 }, eager = { .run = 0 };
    weft_graph_info info = compare(maps, &captured, &eager);
    assert_true(info.replays > 0);
    assert_int_equal(info.guards_failed, 0);
}

/* ---- modules ----------------------------------------------------------------------------------------------- */

static weft_status linear(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_tanh(weft_matmul(inputs[0], weft_module_use(self, "weight")));
    return weft_last_status();
}

static weft_module *make_module(const char *style)
{
    const int64_t ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, (const char *const[]){ "dp" });
    weft_module *module = weft_module_create("linear");
    weft_random_seed(11);
    weft_tensor *weight = weft_randn(WEFT_F64, 2, (int64_t[]){ 3, 3 }, mesh, NULL);
    weft_module_add_parameter(module, "weight", weight);
    weft_module_set_forward(module, linear, NULL);
    const weft_parallel plan[] = { { style, WEFT_PARALLEL_FULLY_SHARDED, "dp" } };
    assert_int_equal(weft_parallelize(module, mesh, style == NULL ? 0 : 1, plan), WEFT_OK);
    assert_no_error();
    return module;
}

static weft_status trains_module(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    part *p = context;
    weft_tensor *weight = weft_module_parameter(p->module, "weight");
    weft_tensor *x = weft_redistribute(inputs[0], weft_module_mesh(p->module), (weft_placement[]){ weft_shard(0) });
    weft_tensor *y = weft_module_call(p->module, x);
    weft_tensor *loss = y == NULL ? NULL : weft_sum(weft_mul(y, y), WEFT_ALL_DIMS, false);
    weft_status status = loss == NULL ? weft_last_status() : weft_backward(loss, NULL);
    weft_tensor *gradient = weft_grad(weight);
    const weft_sgd_options options = { .learning_rate = 0.01 * scalars[0] };
    status = status == WEFT_OK ? weft_sgd(1, &weight, &gradient, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(1, &weight) : status;
    outputs[0] = status == WEFT_OK ? weft_detach(y) : NULL;
    return status;
}

static void a_module(void **state)
{
    (void)state;
    static const char *const styles[] = { NULL, "**" };
    for (int i = 0; i < 2; i++) {
        part captured = { .module = make_module(styles[i]) }, eager = { .module = make_module(styles[i]) };
        weft_graph_info info = compare(trains_module, &captured, &eager);
        assert_true(info.replays > 0);
        assert_same_shards(weft_module_parameter(captured.module, "weight"), weft_module_parameter(eager.module, "weight"),
                           "weight");
        weft_module_destroy(captured.module);
        weft_module_destroy(eager.module);
    }
}

/* ---- checkpoints -------------------------------------------------------------------------------------------- */

static weft_status saves_and_loads(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_scale(inputs[0], scalars[0]), *y = weft_zeros_like(x);
    weft_status status = weft_checkpoint_save(path, 1, (const char *const[]){ "x" }, &x, NULL);
    y = weft_add_inplace(y, x, 1);
    status = status == WEFT_OK ? weft_checkpoint_load(path, 1, (const char *const[]){ "x" }, &y) : status;
    outputs[0] = weft_add(weft_exp(x), y);
    return status;
}

static weft_status saves_later(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_scale(inputs[0], scalars[0]);
    weft_checkpoint_saving *saving = weft_checkpoint_save_async(path, 1, (const char *const[]){ "x" }, &x, NULL);
    weft_tensor *former = weft_detach(x);
    x = weft_scale_inplace(x, 3); /* the save has the former values */
    weft_status status = saving == NULL ? weft_last_status() : weft_checkpoint_wait(saving);
    weft_tensor *y = weft_zeros_like(x);
    status = status == WEFT_OK ? weft_checkpoint_load(path, 1, (const char *const[]){ "x" }, &y) : status;
    outputs[0] = weft_add(weft_sub(y, former), x);
    return status;
}

static void checkpoints(void **state)
{
    (void)state;
    part captured = { .run = 0 }, eager = { .run = 0 };
    assert_true(compare(saves_and_loads, &captured, &eager).replays > 0);
    assert_true(compare(saves_later, &captured, &eager).replays > 0);
    assert_int_equal(weft_wait(), WEFT_OK);
    if (weft_process_index() == 0) {
        unlink(path);
    }
}

/* ---- explanations, strict regions --------------------------------------------------------------------------- */

/* In each run. */
static weft_status explains(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    char text[4000];
    (void)context;
    weft_explain_begin();
    weft_tensor *whole = weft_redistribute(inputs[0], NULL, NULL);
    weft_explain_end();
    PRINT_INTO(text, weft_explain(file));
    assert_non_null(strstr(text, "weft_redistribute("));
    assert_true(strstr(text, "direct") != NULL || weft_world_size() == 1);
    outputs[0] = weft_scale(whole, scalars[0]);
    return WEFT_OK;
}

/* The sum of the rows stays Partial; adding to it would move it. */
static weft_status moves_strictly(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_scale(inputs[0], scalars[0]);
    weft_status begun = weft_region_begin("strict", WEFT_REGION_STRICT);
    weft_tensor *moved = weft_exp(weft_sum(x, 0, true));
    bool refused = moved == NULL && weft_last_status() == WEFT_ERR_LAYOUT;
    weft_clear_error();
    weft_status ended = weft_region_end();
    assert_int_equal(refused, weft_world_size() > 1);
    outputs[0] = weft_add_scalar(x, refused);
    return begun == WEFT_OK ? ended : begun;
}

static weft_status moves(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_exp(weft_sum(weft_mul(inputs[0], inputs[0]), 0, true));
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void explanations_and_strict_regions(void **state)
{
    (void)state;
    part captured = { .run = 0 }, eager = { .run = 0 };
    assert_int_equal(compare(explains, &captured, &eager).replays, RUNS - 1);
    assert_true(compare(moves_strictly, &captured, &eager).replays > 0);

    /* around: a graph that has replayed is refused there as its function is, and goes on afterwards. */
    weft_graph *graph = weft_graph_create("moves", moves, NULL, 1, 1, 1);
    weft_scope_begin();
    weft_tensor *x = draw_rows(ROWS), *output, *expected;
    for (int run = 0; run < 9; run++) {
        bool strict = run % 3 == 2, explained = run % 3 == 1;
        if (strict) {
            assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
        }
        if (explained) {
            assert_int_equal(weft_explain_begin(), WEFT_OK);
        }
        weft_status status = weft_graph_call(graph, &x, (double[]){ 1 }, &output);
        if (explained) {
            char text[4000];
            assert_int_equal(weft_explain_end(), WEFT_OK);
            PRINT_INTO(text, weft_explain(file));
            assert_non_null(strstr(text, "weft_exp"));
        }
        if (strict) {
            assert_int_equal(weft_region_end(), WEFT_OK);
        }
        assert_int_equal(status, strict && weft_world_size() > 1 ? WEFT_ERR_LAYOUT : WEFT_OK);
        weft_clear_error();
        assert_int_equal(moves(NULL, &x, NULL, &expected), WEFT_OK);
        if (status == WEFT_OK) {
            assert_same_shards(output, expected, "output");
        }
    }
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- states of random numbers -------------------------------------------------------------------------------- */

static weft_status draws(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *noise = weft_mul(weft_rand_like(inputs[0]), weft_randn_like(inputs[0]));
    outputs[0] = weft_add_scaled(inputs[0], noise, scalars[0]);
    return weft_last_status();
}

/* It changes the state in its midst in some runs. */
static weft_status draws_from_two(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const part *p = context;
    const char *former = weft_random_state_current();
    weft_tensor *noise = weft_rand_like(inputs[0]);
    weft_random_state_use(p->run % 2 ? "one" : "two");
    noise = weft_mul(noise, weft_dropout(weft_randn_like(inputs[0]), 0.25, true, NULL));
    weft_random_state_use(former);
    outputs[0] = weft_add_scaled(inputs[0], noise, scalars[0]);
    return weft_last_status();
}

static void set_states(const weft_random_state from[])
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_random_state_set((const char *const[]){ NULL, "one", "two" }[i], from[i]), WEFT_OK);
    }
}

static void get_states(weft_random_state to[])
{
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_random_state_get((const char *const[]){ NULL, "one", "two" }[i], &to[i]), WEFT_OK);
    }
}

/* The state in use is another one from run to run: numbers come from that, checked and frozen, and nothing is captured anew. */
static void f3_the_random_states_name(void **state)
{
    (void)state;
    weft_random_state_create("one", 5);
    weft_random_state_create("two", 6);
    for (int i = 0; i < 3; i++) {
        weft_graph_function function = i == 2 ? draws_from_two : draws;
        part p = { .run = 0 };
        weft_graph *graph = weft_graph_create("draws", function, &p, 1, 1, 1);
        assert_int_equal(weft_graph_freeze(graph, i == 1), WEFT_OK);
        weft_scope_begin();
        for (int run = 0; run < 9; run++) {
            const double scalar = 0.5 + run;
            weft_tensor *x = draw_rows(ROWS), *output, *expected;
            weft_random_state before[3], after[3], now[3];
            p.run = run;
            weft_random_state_use((const char *const[]){ NULL, "one", "two" }[run % 3]);
            get_states(before);
            assert_int_equal(weft_graph_call(graph, &x, &scalar, &output), WEFT_OK);
            get_states(after);
            set_states(before);
            assert_int_equal(function(&p, &x, &scalar, &expected), WEFT_OK);
            get_states(now);
            weft_random_state_use(NULL);
            assert_memory_equal(now, after, sizeof(now));
            assert_same_shards(output, expected, "output");
        }
        assert_int_equal(info_of(graph).captures, 1);
        assert_true(i != 1 || info_of(graph).frozen);
        weft_scope_end();
        weft_graph_destroy(graph);
    }
    assert_no_error();
}

/* ---- other threads ------------------------------------------------------------------------------------------ */

static void *call_in_thread(void *graph)
{
    weft_tensor *output = NULL;
    weft_status status = weft_graph_call(graph, &output, (double[]){ 1 }, &output);
    status = status == WEFT_ERR_STATE ? weft_graph_save(graph, path) : WEFT_OK;
    bool made = weft_graph_create("other", moves, NULL, 0, 0, 0) != NULL;
    return status == WEFT_ERR_STATE && !made ? graph : NULL;
}

static weft_status meets_threads(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const part *p = context;
    pthread_t thread;
    void *refused = NULL;
    weft_tensor *x = weft_exp(inputs[0]);
    if (p->graph != NULL) {
        assert_int_equal(pthread_create(&thread, NULL, call_in_thread, p->graph), 0);
        assert_int_equal(pthread_join(thread, &refused), 0);
        assert_ptr_equal(refused, p->graph);
    }
    outputs[0] = weft_scale(x, scalars[0]);
    return WEFT_OK;
}

/* Calls of other threads are refused, also while a function runs, and leave its graph alone. */
static void other_threads(void **state)
{
    (void)state;
    part captured = { .run = 0 }, eager = { .run = 0 };
    weft_graph_info info = compare(meets_threads, &captured, &eager);
    assert_int_equal(info.captures, 1);
    assert_int_equal(info.replays, RUNS - 1);
    assert_int_equal(info.guards_failed, 0);
}

int main(void)
{
    const char *job = getenv("PMIX_NAMESPACE"); /* one file for all processes */
    int own = over_processes() ? 0 : (int)getpid();
    snprintf(path, sizeof(path), "/tmp/weft-inside-%s-%d.safetensors", job != NULL ? job : "", own);
    for (char *c = path + 5; *c != '\0'; c++) {
        *c = *c == '/' ? '_' : *c;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_local_map),
        cmocka_unit_test(a_module),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(explanations_and_strict_regions),
        cmocka_unit_test(f3_the_random_states_name),
        cmocka_unit_test(other_threads),
    };
    return RUN_ON_RANKS(tests);
}
