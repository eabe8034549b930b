/* Calls that a program repeats, found without a graph (WEFT_AUTOGRAPH=1): the same bits and errors as one by one. */
#include <stdlib.h>
#include <string.h>

#include "call/deferral.h"
#include "graph_support.h"
#include "operand.h"

enum { STEPS = 40, SIZE = 12 };

/* ---- two runs of a loop ---------------------------------------------------------------------------------------------- */

typedef struct results {
    int count;
    double numbers[256]; /* what the loop has read */
    weft_tensor *tensors[2];
} results;

typedef void loop(results *seen);

static weft_counters counters(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

static void note(results *seen, double number)
{
    assert_true(seen->count < 256);
    seen->numbers[seen->count++] = number;
}

/* Runs the loop with each call executed at once, then as the program is. Returns the second run's counters. */
static weft_counters run_both(loop *body)
{
    results one = { 0 }, other = { 0 };
    weft_random_state before;
    weft_scope_begin();
    weft_random_state_get(NULL, &before);
    weft_deferral *implicit = weft_deferral_set_implicit(NULL);
    body(&one);
    weft_deferral_set_implicit(implicit);
    weft_random_state_set(NULL, before);
    weft_counters start = counters();
    body(&other);
    weft_counters end = counters();
    assert_int_equal(one.count, other.count);
    assert_memory_equal(one.numbers, other.numbers, (size_t)one.count * sizeof(double));
    for (int i = 0; i < 2; i++) {
        assert_true((one.tensors[i] == NULL) == (other.tensors[i] == NULL));
        if (one.tensors[i] != NULL) {
            assert_same_shards(other.tensors[i], one.tensors[i], "what a loop has made");
        }
    }
    weft_scope_end();
    end.windows_found -= start.windows_found;
    end.windows_replayed -= start.windows_replayed;
    end.windows_flushed -= start.windows_flushed;
    end.windows_left -= start.windows_left;
    end.window_calls -= start.window_calls;
    end.tasks -= start.tasks;
    assert_no_error();
    return end;
}

static double item(weft_tensor *tensor)
{
    double number = 0;
    assert_int_equal(weft_tensor_item(weft_redistribute(tensor, NULL, NULL), &number), WEFT_OK);
    return number;
}

/* ---- loops -------------------------------------------------------------------------------------------------------------- */

static weft_tensor *next_state(weft_tensor *x)
{
    weft_scope_begin();
    weft_tensor *y = weft_add(weft_scale(x, 0.5), weft_roll(x, 1, 0));
    y = weft_sub(weft_mul(y, y), weft_scale(x, 0.25));
    y = weft_tanh(weft_add_scalar(y, 0.125));
    weft_scope_keep(y);
    weft_scope_end();
    return y;
}

/* A step that leaves no tensor behind. */
static void advance(weft_tensor *x)
{
    weft_scope_begin();
    assert_non_null(weft_copy_inplace(x, next_state(x)));
    weft_scope_end();
}

/* No value is read. */
static void loop_without_reads(results *seen)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = numbers(1, SIZE, &rows);
    for (int i = 0; i < STEPS; i++) {
        advance(x);
    }
    seen->tensors[0] = x;
}

/* Some are, now in this step, now in that one; and a step has another call. */
static void loop_with_reads(results *seen)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = numbers(2, SIZE, &rows);
    for (int i = 0; i < STEPS; i++) {
        advance(x);
        if (i % 3 == 0) {
            note(seen, item(weft_sum(x, WEFT_ALL_DIMS, false)));
        }
        if (i % 11 == 10) {
            x = weft_relu(x);
        }
        if (i % 7 == 6) {
            assert_int_equal(weft_wait(), WEFT_OK);
        }
    }
    seen->tensors[0] = x;
}

/* Scalars and random numbers change from step to step, parameters in place; gradients. */
static void loop_of_training(results *seen)
{
    weft_tensor *w = numbers(3, SIZE, NULL), *first = weft_zeros_like(w), *second = weft_zeros_like(w);
    assert_int_equal(weft_set_requires_grad(w, true), WEFT_OK);
    for (int i = 0; i < STEPS; i++) {
        weft_adam_options options;
        weft_adamw_options_init(&options);
        options.learning_rate = 0.01 / (1 + i);
        weft_scope_begin();
        weft_tensor *h = weft_dropout(weft_tanh(weft_mul(w, w)), 0.25, true, NULL);
        weft_tensor *loss = weft_mean(weft_mul(h, weft_add(h, w)), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        weft_tensor *gradient = weft_grad(w);
        assert_int_equal(weft_adamw(1, &w, &gradient, &first, &second, i + 1, &options), WEFT_OK);
        assert_int_equal(weft_zero_grad(1, &w), WEFT_OK);
        if (i % 5 == 4) {
            note(seen, item(weft_detach(loss)));
        }
        weft_scope_end();
    }
    seen->tensors[0] = weft_detach(w);
    seen->tensors[1] = second;
}

/* The program's memory is read, and changed. */
static void loop_on_memory(results *seen)
{
    double memory[MAX_RANKS][SIZE];
    void *locals[MAX_RANKS];
    int64_t size = SIZE;
    for (int r = 0; r < weft_local_ranks(); r++) {
        locals[r] = memory[r];
        for (int i = 0; i < SIZE; i++) {
            memory[r][i] = 0.5 + i;
        }
    }
    weft_scope_begin();
    weft_tensor *given = weft_from_local(WEFT_F64, 1, &size, locals, line(), NULL, 0), *x = weft_zeros_like(given);
    for (int i = 0; i < STEPS; i++) {
        weft_scope_begin();
        assert_non_null(weft_copy_inplace(x, weft_scale(weft_add(weft_mul(x, given), given), 0.125)));
        weft_scope_end();
        if (i % 13 == 12) {
            assert_non_null(weft_copy_inplace(given, x));
            assert_int_equal(weft_wait(), WEFT_OK);
            note(seen, memory[0][SIZE - 1]);
        }
    }
    note(seen, item(weft_sum(x, WEFT_ALL_DIMS, false)));
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    note(seen, memory[0][1]);
}

/* Refused calls are refused where they are, with the same words. */
static void loop_with_errors(results *seen)
{
    weft_tensor *x = numbers(4, SIZE, NULL), *other = numbers(4, SIZE + 1, NULL);
    for (int i = 0; i < STEPS; i++) {
        advance(x);
        if (i % 9 == 8) {
            assert_null(weft_add(x, other));
            note(seen, weft_last_status());
            note(seen, (double)strlen(weft_last_error()));
            assert_non_null(strstr(weft_last_error(), "weft_add"));
            weft_clear_error();
        }
    }
    seen->tensors[0] = x;
}

static weft_status in_graph(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    outputs[0] = next_state(inputs[0]);
    return WEFT_OK;
}

/* Graphs, regions and explanations are as ever. */
static void loop_with_graphs(results *seen)
{
    weft_tensor *x = numbers(5, SIZE, NULL);
    weft_graph *graph = weft_graph_create("step", in_graph, NULL, 1, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        advance(x);
        advance(x);
        weft_scope_begin();
        weft_tensor *y;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
        assert_non_null(weft_copy_inplace(x, y));
        weft_scope_end();
        if (i % 8 == 7) {
            weft_region_begin("outside", 0);
            advance(x);
            weft_region_end();
        }
    }
    seen->tensors[0] = x;
    weft_graph_destroy(graph);
}

/* Each step leaves a tensor behind: that is no step that comes again as it was, but calls all the same. */
static void loop_that_keeps(results *seen)
{
    weft_tensor *x = numbers(7, SIZE, NULL);
    for (int i = 0; i < STEPS; i++) {
        x = next_state(x);
    }
    seen->tensors[0] = x;
}

/* Calls on shards, none of which sends. */
static void loop_without_messages(results *seen)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = numbers(8, SIZE, &rows);
    for (int i = 0; i < STEPS; i++) {
        weft_scope_begin();
        assert_non_null(weft_copy_inplace(x, weft_tanh(weft_add_scalar(weft_mul(weft_scale(x, 0.5), x), 0.125))));
        weft_scope_end();
    }
    seen->tensors[0] = x;
}

enum { CALLS = 8 };
static int sender; /* which call of a step sends */

static weft_tensor *one_call(int number, weft_tensor *x)
{
    weft_tensor *(*const calls[CALLS - 1])(weft_tensor *) = { weft_tanh, weft_relu, weft_exp, weft_sin, weft_cos, weft_abs, weft_neg };
    if (number != sender) {
        return calls[number - (number > sender)](x);
    }
    const uint64_t stages = weft_runtime.counters.stages;
    x = weft_redistribute(x, NULL, NULL);
    assert_true(weft_runtime.counters.stages > stages || weft_num_processes() == 1); /* others may wait for it */
    return x;
}

/* A call of each step sends: it is executed when it is made. */
static void loop_that_sends(results *seen)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = numbers(9, SIZE, &rows), *last = weft_zeros_like(weft_redistribute(x, NULL, NULL));
    for (int i = 0; i < STEPS; i++) {
        weft_scope_begin();
        weft_tensor *y = x;
        for (int k = 0; k < CALLS; k++) {
            y = one_call(k, y);
        }
        if (i == STEPS - 1) {
            weft_copy_inplace(last, y);
        }
        weft_scope_end();
    }
    seen->tensors[0] = last;
}

/* The program waits in the midst of some steps, which follow no rule. */
static void loop_with_pauses(results *seen)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = numbers(10, SIZE, &rows);
    uint32_t chance = 1;
    for (int i = 0; i < 48 * STEPS; i++) {
        weft_scope_begin();
        weft_tensor *y = weft_tanh(weft_add_scalar(weft_mul(weft_scale(x, 0.5), x), 0.125));
        chance = chance * 1103515245 + 12345;
        if ((chance >> 16) % 8 == 0) {
            assert_int_equal(weft_wait(), WEFT_OK);
        }
        assert_non_null(weft_copy_inplace(x, weft_sin(weft_cos(y))));
        weft_scope_end();
    }
    seen->tensors[0] = x;
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------- */

/* With WEFT_CHECK=1 calls are compared one by one, and with WEFT_AUTOGRAPH=0 nobody looks. */
static bool finds_windows(void)
{
    return weft_runtime.implicit != NULL && !weft_runtime.check;
}

static void test_loops(void **state)
{
    (void)state;
    static loop *const loops[] = { loop_without_reads, loop_with_reads,  loop_of_training, loop_on_memory,
                                   loop_with_errors,   loop_with_graphs, loop_that_keeps };
    uint64_t calls = 0;
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        weft_counters seen = run_both(loops[i]);
        print_message("# loop %zu: %d windows found, %d replayed, %d flushed, %d left, %d calls\n", i, (int)seen.windows_found,
                      (int)seen.windows_replayed, (int)seen.windows_flushed, (int)seen.windows_left, (int)seen.window_calls);
        assert_true(finds_windows() || seen.windows_replayed == 0);
        calls += seen.window_calls;
    }
    /* Some 2,300; less on a machine that does other things, where windows rest. Windows of several processes end with messages. */
    assert_true(calls >= 200 || weft_num_processes() > 1 || !finds_windows());
}

/* On each process, however many there are. */
static void test_without_messages(void **state)
{
    (void)state;
    weft_counters seen = run_both(loop_without_messages);
    print_message("# %d windows replayed, %d calls\n", (int)seen.windows_replayed, (int)seen.window_calls);
    assert_true(seen.windows_replayed > 0 || !finds_windows());
}

static void test_senders(void **state)
{
    (void)state;
    for (sender = 0; sender < CALLS; sender++) {
        weft_counters seen = run_both(loop_that_sends);
        print_message("# call %d sends: %d windows replayed, %d calls\n", sender, (int)seen.windows_replayed, (int)seen.window_calls);
        assert_true(seen.windows_replayed > 0 || !finds_windows());
    }
}

/* Windows that rest are not made again each time that their calls are found to repeat. */
static void test_pauses(void **state)
{
    (void)state;
    weft_counters seen = run_both(loop_with_pauses);
    print_message("# %d windows found, %d replayed, %d flushed\n", (int)seen.windows_found, (int)seen.windows_replayed,
                  (int)seen.windows_flushed);
    assert_true(seen.windows_found > 0 || !finds_windows());
    assert_true(seen.windows_found <= 8);
}

/* Tokens without repetition: nothing is deferred. */
static void test_no_repetition(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_counters before = counters();
    for (int64_t i = 1; i < 200; i++) {
        weft_exp(weft_ones(WEFT_F64, 1, &i, line(), NULL));
    }
    assert_int_equal(counters().windows_replayed, before.windows_replayed);
    weft_scope_end();
    assert_no_error();
}

/* weft_get_counters() submits the open window before it counts, and released tensors give their memory back. */
static void test_what_is_left(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbers(6, SIZE, NULL);
    assert_int_equal(weft_wait(), WEFT_OK);
    uint64_t bytes = counters().tensor_bytes;
    for (int i = 0; i < STEPS; i++) {
        weft_scope_begin();
        next_state(next_state(x));
        weft_scope_end();
        assert_true(i % 4 != 3 || counters().tensor_bytes == bytes);
    }
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    setenv("WEFT_AUTOGRAPH", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_without_messages),
        cmocka_unit_test(test_senders),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_no_repetition),
        cmocka_unit_test(test_what_is_left),
    };
    return RUN_ON_RANKS(tests);
}
