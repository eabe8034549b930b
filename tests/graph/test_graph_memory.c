/* Graphs without memory: whichever allocation fails, a run is refused, or has done all that it does; the next ones are
 * right, and nothing is left over. */
#include <stdlib.h>

#include "graph_support.h"
#include "failing_memory.h"
#include "runtime/runtime.h"
#include "tensor/tensor.h"

static _Thread_local int64_t countdown; /* allocations of the library by this thread until one fails; 0: none does */
static int64_t failed;
static _Thread_local int64_t allocations; /* all of the library's by this thread */

bool allocation_fails(void)
{
    bool now = countdown > 0 && --countdown == 0;
    allocations++;
    failed += now;
    return now;
}

/* A call that is refused for want of memory ends the function. */
static weft_status few_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_add_scaled(inputs[0], inputs[1], scalars[0]), *before = x == NULL ? NULL : weft_detach(x);
    weft_tensor *changed = before == NULL ? NULL : weft_scale_inplace(x, 3);
    weft_tensor *sum = changed == NULL ? NULL : weft_sum(weft_tanh(changed), 0, true);
    weft_tensor *other = sum == NULL ? NULL : weft_sum(weft_tanh(changed), 0, true); /* equal calls */
    weft_tensor *third = other == NULL ? NULL : weft_sum(changed, 0, true);          /* these travel together */
    weft_tensor *here = third == NULL ? NULL : weft_redistribute(sum, NULL, NULL);
    weft_tensor *there = here == NULL ? NULL : weft_redistribute(third, NULL, NULL);
    weft_tensor *again = there == NULL ? NULL : weft_redistribute(other, NULL, NULL);
    outputs[0] = again == NULL ? NULL : weft_add(weft_add(before, here), weft_mul(there, again));
    outputs[1] = outputs[0] == NULL ? NULL : weft_mul(x, before);
    return outputs[1] == NULL ? weft_last_status() : WEFT_OK;
}

typedef struct made {
    weft_tensor *inputs[2], *expected[2];
} made;

static made make_tensors(void)
{
    const weft_placement rows = weft_shard(0);
    made m;
    weft_random_seed(7);
    m.inputs[0] = weft_randn(WEFT_F64, 2, (int64_t[]){ 6, 3 }, line(), &rows);
    m.inputs[1] = weft_randn(WEFT_F64, 2, (int64_t[]){ 6, 3 }, line(), &rows);
    assert_int_equal(few_calls(NULL, m.inputs, &(double){ 0.5 }, m.expected), WEFT_OK);
    return m;
}

/* One run of these has one allocation that fails. */
static bool run_without(const made *m, weft_graph *graph, int64_t which)
{
    weft_tensor *outputs[2] = { NULL };
    weft_scope_begin();
    failed = 0;
    countdown = which;
    weft_status status = weft_graph_call(graph, m->inputs, &(double){ 0.5 }, outputs);
    countdown = 0;
    bool any = failed > 0;
    if (status == WEFT_OK) {
        assert_same_shards(outputs[0], m->expected[0], "output 0");
        assert_same_shards(outputs[1], m->expected[1], "output 1");
    } else {
        assert_int_equal(status, WEFT_ERR_NOMEM);
        assert_null(outputs[0]);
        weft_clear_error();
    }
    weft_scope_end();
    return any;
}

/* `former_runs`: a capture, a replay, a replay with clusters. */
static void fail_each(int former_runs)
{
    weft_scope_begin();
    made m = make_tensors();
    int64_t which = 1;
    for (bool any = true; any; which++) {
        size_t tensors = weft_runtime.handles.tensors.num_objects;
        weft_graph *graph = weft_graph_create("few", few_calls, NULL, 2, 1, 2);
        for (int i = 0; i < former_runs; i++) {
            run_without(&m, graph, 0);
        }
        any = run_without(&m, graph, which);
        run_without(&m, graph, 0);
        run_without(&m, graph, 0);
        weft_graph_destroy(graph);
        assert_int_equal(weft_runtime.handles.tensors.num_objects, tensors);
        assert_no_error();
    }
    print_message("# %d allocations failed, one in each run\n", (int)which - 2);
    assert_true(former_runs > 1 || which > 10);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_scope_end();
}

static void test_captures(void **state)
{
    (void)state;
    fail_each(0);
}

static void test_replays(void **state)
{
    (void)state;
    fail_each(1);
    fail_each(2);
    fail_each(3);
}

static weft_status chain(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const int *length = context;
    weft_tensor *x = inputs[0];
    for (int i = 0; i < *length; i++) {
        x = i % 2 ? weft_add_scaled(x, inputs[0], scalars[0]) : weft_tanh(x);
    }
    outputs[0] = x;
    return WEFT_OK;
}

/* Memory that a replay obtains does not depend on its calls: clusters, fused calls and runs keep theirs. */
static void count_allocations(int length, int64_t elements)
{
    weft_scope_begin();
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_rand(WEFT_F64, 1, &elements, line(), &rows), *output;
    weft_graph *graph = weft_graph_create("chain", chain, &length, 1, 1, 1);
    for (int i = 0; i < 12; i++) {
        weft_scope_begin();
        allocations = 0;
        assert_int_equal(weft_graph_call(graph, &x, &(double){ 0.5 }, &output), WEFT_OK);
        int64_t own = allocations;
        assert_int_equal(weft_wait(), WEFT_OK);
        if (i == 11) {
            print_message("# %d calls: %lld allocations\n", length, (long long)own);
            assert_true(own <= 4);
        }
        weft_scope_end();
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    print_message("# at once %lld bytes, foreseen %lld\n", (long long)info.peak_bytes, (long long)info.foreseen_bytes);
    if (info.fused > 0) { /* nothing but the output is a tensor */
        assert_int_equal(info.peak_bytes, elements * 8);
        assert_int_equal(info.foreseen_bytes, elements * 8);
    }
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_f2_allocations_of_replays(void **state)
{
    (void)state;
    count_allocations(2, 64);
    count_allocations(200, 64);
    count_allocations(60, 1 << 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_captures), cmocka_unit_test(test_replays),
                                         cmocka_unit_test(test_f2_allocations_of_replays) };
    return RUN_ON_RANKS(tests);
}
