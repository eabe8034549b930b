/* A step of examples/transformer_lm.c, by calls and captured, asks a device for few launches, synchronisations and copied bytes once it has
 * settled, and for no memory. Linked with the example, and -Wl,--wrap=main,--wrap=weft_clip_grad_norm,--wrap=weft_graph_call.
 *
 * Arguments: a text to learn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "stand_in.h"

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
weft_status __real_weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p, weft_tensor **total_norm);
weft_status __wrap_weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p, weft_tensor **total_norm);
weft_status __real_weft_graph_call(weft_graph *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[]);
weft_status __wrap_weft_graph_call(weft_graph *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[]);

enum { STEPS = 8, SETTLED = 5 };

static const char *text;
static int steps;
static bool captured;

/* As it is between two steps, in the middle of one of them where calls are not captured. */
typedef struct usage {
    stand_in_calls calls;
    stand_in_counts device;
} usage;

static usage at[STEPS + 1];

static void note(void)
{
    if (steps <= STEPS && weft_wait() == WEFT_OK) {
        at[steps++] = (usage){ stand_in_counted_calls(), stand_in_device_counts(0) };
    }
}

weft_status __wrap_weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p, weft_tensor **total_norm)
{
    if (!captured) {
        note();
    }
    return __real_weft_clip_grad_norm(n, gradients, max_norm, p, total_norm);
}

weft_status __wrap_weft_graph_call(weft_graph *graph, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    note();
    return __real_weft_graph_call(graph, inputs, scalars, outputs);
}

/* Launches and bytes of a step at most. The batch goes in, the loss comes out. */
static void train(const char *dtype, bool graph, int64_t launches, int64_t bytes)
{
    const char *arguments[] = { "transformer_lm", "--layers", "2", "--width", "32", "--heads", "2", "--kv-heads", "2", "--context", "32",
                                "--batch", "2", "--steps", "8", "--validate", "0", "--sample", "0", "--text", text, "--dtype", dtype, "--graph" };
    const int count = (int)(sizeof(arguments) / sizeof(arguments[0])) - !graph;
    steps = 0;
    captured = graph;
    assert_int_equal(__real_main(count, (char **)arguments), 0);
    assert_int_equal(steps, STEPS);
    for (int step = 1; step < STEPS; step++) {
        const usage *a = &at[step - 1], *b = &at[step];
        const int64_t launched = b->device.launches - a->device.launches, in = b->device.bytes_in - a->device.bytes_in;
        const int64_t out = b->device.bytes_out - a->device.bytes_out, waited = b->calls.synchronizations - a->calls.synchronizations;
        printf("# %s %s, step %d: %lld launches, %lld synchronisations, %lld bytes in, %lld out, %lld allocations\n", dtype,
               graph ? "captured" : "by calls", step, (long long)launched, (long long)waited, (long long)in, (long long)out,
               (long long)(b->calls.mallocs - a->calls.mallocs));
        if (step < SETTLED) {
            continue;
        }
        assert_true(launched <= launches && in + out <= bytes);
        assert_int_equal(waited, 0);
        assert_int_equal(b->calls.mallocs, a->calls.mallocs);
        assert_int_equal(b->calls.frees, a->calls.frees);
        assert_int_equal(b->calls.host_allocs, a->calls.host_allocs);
        assert_int_equal(b->calls.host_frees, a->calls.host_frees);
        assert_int_equal(b->calls.registers, a->calls.registers);
        assert_int_equal(b->calls.unregisters, a->calls.unregisters);
        assert_int_equal(b->calls.pageable_bytes, a->calls.pageable_bytes);
        assert_int_equal(b->calls.late_loads, a->calls.late_loads);
    }
}

static void test_by_calls(void **state)
{
    (void)state;
    train("f32", false, 178, 2048);
}

static void test_captured(void **state)
{
    (void)state;
    train("f32", true, 166, 2048);
}

static void test_mixed_precision(void **state)
{
    (void)state;
    train("bf16", false, 216, 2048);
}

int __wrap_main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_calls),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_mixed_precision),
    };
    if (argc != 2) {
        return 2;
    }
    text = argv[1];
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER")); /* the example runs once in a process */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
