/* Values in graphs: reads that do not end a segment, and numbers that a function of the program derives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"
#include "graph_support.h"

/* ---- reads of values from before the segment ------------------------------------------------------------------------ */

typedef enum reading { READ_ITEM, READ_HOST, READ_EQUAL, READ_TEXT, READ_OWN, READ_TWO, READ_CHANGED, READ_MADE, NUM_READINGS } reading;

typedef struct reader {
    reading kind;
    weft_tensor *own; /* from before the run; READ_CHANGED: a call changes it first */
} reader;

static weft_status read_one(weft_tensor *tensor, double *value)
{
    weft_tensor *sum = weft_tensor_ndim(tensor) == 0 ? tensor : NULL;
    return sum == NULL ? weft_to_host(tensor, value, sizeof(*value)) : weft_tensor_item(sum, value);
}

/* a + read value * b, where a call comes before the read and one after it. */
static weft_status read_within(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const reader *r = context;
    (void)scalars;
    double value = 0, other = 0;
    char text[400];
    bool equal = false;
    weft_tensor *sum = weft_add(inputs[0], inputs[0]);
    weft_status status = WEFT_OK;
    switch (r->kind) {
    case READ_ITEM:
        status = weft_tensor_item(inputs[1], &value);
        break;
    case READ_HOST:
        status = weft_to_host(inputs[1], &value, sizeof(value));
        break;
    case READ_EQUAL:
        status = weft_equal(inputs[1], r->own, &equal);
        value = equal ? 2 : 3;
        break;
    case READ_TEXT:
        status = weft_tensor_print_text(inputs[1], text, sizeof(text), NULL);
        value = strstr(text, "4") != NULL ? 4 : 5;
        break;
    case READ_OWN:
        status = read_one(r->own, &value);
        break;
    case READ_TWO:
        status = read_one(r->own, &value);
        sum = weft_neg(sum);
        status = status == WEFT_OK ? weft_tensor_item(inputs[1], &other) : status;
        value += other;
        break;
    case READ_CHANGED:
        weft_scale_inplace(r->own, 1.5);
        status = read_one(r->own, &value);
        break;
    default:
        status = weft_tensor_item(weft_add_scalar(inputs[1], 1), &value);
        break;
    }
    outputs[0] = weft_scale(sum, value);
    return status == WEFT_OK && outputs[0] == NULL ? weft_last_status() : status;
}

static weft_tensor *number(double value)
{
    return weft_full(WEFT_F64, value, 0, NULL, line(), NULL);
}

static void test_reads(void **state)
{
    (void)state;
    const weft_placement rows = weft_shard(0);
    for (int kind = 0; kind < NUM_READINGS; kind++) {
        weft_scope_begin();
        reader r = { kind, number(2) }, eager = { kind, number(2) };
        weft_graph *graph = weft_graph_create("reads", read_within, &r, 2, 0, 1);
        for (int run = 0; run < 6; run++) {
            weft_scope_begin();
            weft_tensor *inputs[] = { numbers(7, 5, &rows), number(1 + run) }, *output, *expected;
            if (weft_graph_call(graph, inputs, NULL, &output) != WEFT_OK) {
                fail_msg("read %d: %s", kind, weft_last_error());
            }
            assert_int_equal(read_within(&eager, inputs, NULL, &expected), WEFT_OK);
            assert_same_tensors(output, expected, "output");
            weft_scope_end();
        }
        bool ends = kind == READ_CHANGED || kind == READ_MADE;
        assert_int_equal(info_of(graph).captures, ends ? 2 : 1);
        assert_int_equal(info_of(graph).replays, ends ? 10 : 5);
        char *text = listing_of(graph);
        assert_true((strstr(text, "values are read") != NULL) == ends);
        free(text);
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* What the program reads is no part of the record: it cannot be frozen. */
static void test_reads_are_not_frozen(void **state)
{
    (void)state;
    weft_scope_begin();
    reader r = { READ_ITEM, NULL };
    weft_graph *graph = weft_graph_create("reads", read_within, &r, 2, 0, 1);
    weft_tensor *inputs[] = { numbers(7, 5, NULL), number(1) }, *output;
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_tensor_item inside is no call of the graph");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- derived numbers -------------------------------------------------------------------------------------------------- */

enum { STEPS = 12 };

typedef struct schedule {
    double rate;
    int calls, derivations;
} schedule;

/* The rate by a cosine, the same for a time at first; and twice the second scalar. */
static void derive(void *context, const double scalars[], double derived[])
{
    schedule *s = context;
    s->derivations++;
    derived[0] = scalars[0] < 6 ? s->rate : s->rate * cos(scalars[0]);
    derived[1] = 2 * scalars[1];
}

static weft_status follow(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    schedule *s = context;
    s->calls++;
    outputs[0] = weft_add_scaled(weft_scale(inputs[0], scalars[2]), inputs[0], scalars[3]);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

/* As follow(), with a number that is a function of a derived one, which is the same at first. */
static weft_status follow_further(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const double further[] = { scalars[0], scalars[1], 3 * scalars[2], scalars[3] };
    return follow(context, inputs, further, outputs);
}

static void test_derived_numbers(void **state)
{
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        weft_scope_begin();
        schedule s = { .rate = 0.3 }, eager = s;
        weft_tensor *x = numbers(7, 5, NULL);
        weft_graph *graph = weft_graph_create("follows", follow, &s, 1, 2, 1);
        assert_int_equal(weft_graph_freeze(graph, frozen), WEFT_OK);
        assert_int_equal(weft_graph_derive_numbers(graph, derive, &s, 2), WEFT_OK);
        for (int step = 0; step < STEPS; step++) {
            weft_scope_begin();
            double scalars[4] = { step, 0.5 * step };
            weft_tensor *output, *expected;
            assert_int_equal(weft_graph_call(graph, &x, scalars, &output), WEFT_OK);
            derive(&eager, scalars, scalars + 2);
            assert_int_equal(follow(&eager, &x, scalars, &expected), WEFT_OK);
            assert_same_tensors(output, expected, "output");
            weft_scope_end();
        }
        assert_int_equal(s.derivations, STEPS);
        assert_int_equal(s.calls + (int)info_of(graph).frozen_replays, STEPS);
        assert_int_equal(info_of(graph).captures, 1);
        assert_true(!frozen || info_of(graph).frozen_replays >= STEPS - 6);
        /* Another function: observed again. */
        assert_int_equal(weft_graph_derive_numbers(graph, NULL, NULL, 0), WEFT_OK);
        assert_false(info_of(graph).frozen);
        weft_graph_destroy(graph);
        weft_scope_end();
    }
    assert_no_error();
}

/* 3 times a derived number looks like a constant as long as that does not change: then the function is called, and the graph refuses. */
static void test_derived_numbers_that_change_late(void **state)
{
    (void)state;
    weft_scope_begin();
    schedule s = { .rate = 0.3 };
    weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 5, 3 }, line(), NULL), *output;
    weft_graph *graph = weft_graph_create("follows", follow_further, &s, 1, 2, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    assert_int_equal(weft_graph_derive_numbers(graph, derive, &s, 2), WEFT_OK);
    weft_status status = WEFT_OK;
    int step = 0;
    for (; step < STEPS && status == WEFT_OK; step++) {
        const double scalars[] = { step, 0.5 * step };
        status = weft_graph_call(graph, &x, scalars, &output);
        if (status == WEFT_OK) {
            assert_all(output, 3 * (step < 6 ? 0.3 : 0.3 * cos(step)) + step);
        }
    }
    assert_int_equal(step, 8);
    assert_error(WEFT_ERR_STATE, "is no entry of scalars[]");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static weft_status derive_within(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    assert_int_equal(weft_graph_derive_numbers(*(weft_graph **)context, derive, NULL, 1), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "within the function");
    outputs[0] = inputs[0];
    return WEFT_OK;
}

static void test_arguments(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_graph *graph, *many = weft_graph_create("many", derive_within, &graph, 1, WEFT_MAX_FROZEN_SCALARS, 1);
    weft_tensor *x = number(1), *output;
    graph = weft_graph_create("arguments", derive_within, &graph, 1, 0, 1);
    assert_int_equal(weft_graph_derive_numbers(graph, derive, NULL, 0), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_derived is 0");
    assert_int_equal(weft_graph_derive_numbers(graph, NULL, NULL, 1), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "function is NULL");
    assert_int_equal(weft_graph_derive_numbers(graph, derive, NULL, -1), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_derived is -1");
    assert_int_equal(weft_graph_derive_numbers(graph, derive, NULL, WEFT_MAX_FROZEN_SCALARS + 1), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "at most 64");
    assert_int_equal(weft_graph_derive_numbers(many, derive, NULL, 1), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "graph many has 64 scalars");
    assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
    weft_graph_destroy(graph);
    assert_int_equal(weft_graph_derive_numbers(graph, derive, NULL, 1), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "graph");
    weft_graph_destroy(many);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_reads_are_not_frozen),
        cmocka_unit_test(test_derived_numbers),
        cmocka_unit_test(test_derived_numbers_that_change_late),
        cmocka_unit_test(test_arguments),
    };
    return RUN_ON_RANKS(tests);
}
