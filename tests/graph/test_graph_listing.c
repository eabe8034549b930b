/* Listings: where inputs, constants, outputs and numbers come from, and the program's lines (weft_here()); and frozen graphs whose
 * parameters were replaced. */
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"
#include "graph_support.h"

#include <weft/module.h>
#include <weft/regions.h>

static void assert_listed(const weft_graph *graph, const char *line)
{
    char *text = listing_of(graph);
    if (strstr(text, line) == NULL) {
        fail_msg("no \"%s\" in\n%s", line, text);
    }
    free(text);
}

static void assert_not_listed(const weft_graph *graph, const char *line)
{
    char *text = listing_of(graph);
    if (strstr(text, line) != NULL) {
        fail_msg("\"%s\" in\n%s", line, text);
    }
    free(text);
}

/* ---- inputs, constants, outputs ------------------------------------------------------------------------------------ */

static weft_status make_table(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    (void)inputs;
    outputs[0] = weft_full_like(context, 3);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static weft_status all_sources(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor *own = context, *table;
    (void)scalars;
    weft_status status = weft_graph_opaque("table", WEFT_OPAQUE_CONSTANT, make_table, own, 0, NULL, 1, &table);
    weft_tensor *sum = weft_add(weft_add(inputs[1], own), table);
    outputs[0] = inputs[0];
    outputs[1] = weft_neg(sum);
    outputs[2] = own;
    return status == WEFT_OK && outputs[1] == NULL ? weft_last_status() : status;
}

static void test_sources(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *own = numbers(1, 6, NULL), *inputs[] = { numbers(2, 6, NULL), numbers(3, 6, NULL) }, *outputs[3];
    weft_graph *graph = weft_graph_create("sources", all_sources, own, 2, 0, 3);
    for (int run = 0; run < 3; run++) {
        assert_int_equal(weft_graph_call(graph, inputs, NULL, outputs), WEFT_OK);
        assert_listed(graph, "%0 = inputs[1] : ");
        assert_listed(graph, "%1 = input : ");
        assert_listed(graph, "%3 = constant[0] : ");
        assert_listed(graph, "\n  outputs[0] = inputs[0]\n  outputs[1] = %5\n  outputs[2] = %1\n");
    }
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static weft_status read_between(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    double value;
    (void)context, (void)scalars;
    outputs[0] = weft_neg(inputs[0]);
    weft_tensor *sum = weft_redistribute(weft_sum(outputs[0], WEFT_ALL_DIMS, false), NULL, NULL);
    weft_status status = weft_tensor_item(sum, &value);
    outputs[1] = weft_scale(outputs[0], 2);
    return status == WEFT_OK && outputs[1] == NULL ? weft_last_status() : status;
}

static void test_outputs_of_parts(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *input = numbers(1, 6, NULL), *outputs[2];
    weft_graph *graph = weft_graph_create("parts", read_between, NULL, 1, 0, 2);
    for (int run = 0; run < 3; run++) {
        assert_int_equal(weft_graph_call(graph, &input, NULL, outputs), WEFT_OK);
        assert_listed(graph, "---- values are read by weft_tensor_item ----");
        assert_listed(graph, "outputs[0] = ");
        assert_listed(graph, "outputs[1] = %1\n");
    }
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

static weft_status with_numbers(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = weft_scale(weft_add_scaled(inputs[0], inputs[1], scalars[1]), 0.5);
    outputs[0] = weft_scale(outputs[0], scalars[0]);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void test_numbers(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *inputs[] = { numbers(2, 6, NULL), numbers(3, 6, NULL) }, *output;
    weft_graph *graph = weft_graph_create("numbers", with_numbers, NULL, 2, 2, 1);
    weft_graph *other = weft_graph_create("numbers", with_numbers, NULL, 2, 2, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    for (int run = 0; run < 5; run++) {
        const double scalars[] = { 1 + run, 7 - run };
        assert_int_equal(weft_graph_call(graph, inputs, scalars, &output), WEFT_OK);
        if (run == 0) { /* nothing is known of numbers: equal templates have equal texts */
            assert_int_equal(weft_graph_call(other, inputs, (double[]){ 3, 0 }, &output), WEFT_OK);
            char *text = listing_of(graph), *same = listing_of(other);
            assert_string_equal(text, same);
            assert_null(strstr(text, "scalars"));
            assert_int_equal(info_of(graph).digest, info_of(other).digest);
            free(text);
            free(same);
        }
    }
    assert_true(info_of(graph).frozen);
    assert_listed(graph, "scalars=scalars[1]\n");
    assert_listed(graph, "scalars=0.5\n");
    assert_listed(graph, "scalars=scalars[0]\n");
    weft_graph_destroy(graph);
    weft_graph_destroy(other);
    weft_scope_end();
    assert_no_error();
}

/* ---- lines of the program ------------------------------------------------------------------------------------------- */

static weft_status with_lines(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    char name[16] = "folder/first.c"; /* copied */
    weft_here(name, 11);
    weft_tensor *t = weft_exp(inputs[0]);
    memset(name, 'x', sizeof(name) - 1);
    weft_here("second.c", 22);
    t = weft_neg(t);
    weft_here(NULL, 0);
    outputs[0] = weft_square(t);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static bool ends_with_line(const char *text, const char *call, const char *end)
{
    const char *at = strstr(text, call), *stop = at == NULL ? NULL : strchr(at, '\n');
    return stop != NULL && stop - at > (long)strlen(end) && strncmp(stop - strlen(end), end, strlen(end)) == 0;
}

static void test_lines(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbers(1, 6, NULL), *longer = numbers(1, 9, NULL), *output;
    weft_graph *graph = weft_graph_create("lines", with_lines, NULL, 1, 0, 1);
    for (int run = 0; run < 4; run++) {
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
        char *text = listing_of(graph);
        assert_true(ends_with_line(text, "weft_exp", "  # folder/first.c:11"));
        assert_true(ends_with_line(text, "weft_neg", "  # second.c:22"));
        assert_false(ends_with_line(text, "weft_square", "  # second.c:22"));
        free(text);
    }
    assert_int_equal(weft_graph_call(graph, &longer, NULL, &output), WEFT_OK);
    assert_non_null(strstr(info_of(graph).failed_guard, "at folder/first.c:11"));
    /* Messages of errors. */
    WEFT_HERE; const int line = __LINE__;
    char expected[200];
    assert_null(weft_add(x, longer));
    snprintf(expected, sizeof(expected), "weft_add at %s:%d: ", __FILE__, line);
    assert_error(WEFT_ERR_SHAPE, expected);
    /* What a graph executes is at its own lines; then the program's is back. */
    assert_int_equal(weft_here("outside.c", 5), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
    assert_null(weft_add(x, longer));
    assert_error(WEFT_ERR_SHAPE, "weft_add: "); /* the function has said NULL at its end */
    assert_int_equal(weft_here("line.c", -1), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "line is -1");
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_lines_stay_outside(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbers(1, 6, NULL), *longer = numbers(1, 9, NULL), *inputs[] = { x, x }, *output;
    weft_graph *graph = weft_graph_create("numbers", with_numbers, NULL, 2, 2, 1);
    weft_here("outside.c", 5);
    for (int run = 0; run < 3; run++) {
        assert_int_equal(weft_graph_call(graph, inputs, (double[]){ 1, 2 }, &output), WEFT_OK);
        assert_null(weft_add(x, longer));
        assert_error(WEFT_ERR_SHAPE, "weft_add at outside.c:5: ");
    }
    assert_listed(graph, "  # outside.c:5\n");
    weft_here(NULL, 0);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- replaced parameters --------------------------------------------------------------------------------------------- */

typedef struct stored {
    weft_tensor *w; /* the program's own copy of the handle */
    int calls;
} stored;

static weft_status times_stored(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    stored *s = context;
    (void)scalars;
    s->calls++;
    outputs[0] = weft_detach(weft_mul(inputs[0], s->w));
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void call(weft_graph *graph, weft_tensor *x, double expected)
{
    weft_scope_begin();
    weft_tensor *output;
    if (weft_graph_call(graph, &x, NULL, &output) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    assert_all(output, expected);
    weft_scope_end();
}

/* A frozen graph whose program has kept the handle of a parameter calls its function again when the module gets another one, and
 * then either uses the new one, or refuses the old one by its name. */
static void test_replaced_parameters(void **state)
{
    (void)state;
    for (int follows = 0; follows < 2; follows++) {
        weft_scope_begin();
        weft_module *root = weft_module_create("root"), *layer = weft_module_create("layer");
        weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 5, 3 }, line(), NULL), *refused;
        assert_int_equal(weft_module_add_child(root, "layer", layer), WEFT_OK);
        assert_int_equal(weft_module_add_parameter(root, "w", weft_full_like(x, 2)), WEFT_OK);
        assert_int_equal(weft_module_add_parameter(layer, "w", weft_full_like(x, 3)), WEFT_OK);
        stored s = { weft_module_parameter(root, "layer.w"), 0 };
        assert_int_equal(weft_tensor_retain(s.w), WEFT_OK);
        weft_graph *graph = weft_graph_create("stored", times_stored, &s, 1, 0, 1);
        assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
        for (int run = 0; run < 5; run++) {
            call(graph, x, 3);
        }
        assert_int_equal(s.calls, 3);
        assert_int_equal(weft_module_set_tensor(root, "layer.w", weft_full_like(x, 4)), WEFT_OK);
        weft_tensor *former = s.w;
        if (follows) {
            s.w = weft_module_parameter(root, "layer.w");
            for (int run = 0; run < 5; run++) {
                call(graph, x, 4);
            }
            assert_true(info_of(graph).frozen);
        } else {
            assert_int_equal(weft_graph_call(graph, &x, NULL, &refused), WEFT_OK); /* the function is called: as without a graph */
            assert_all(refused, 3);
            assert_int_equal(weft_graph_call(graph, &x, NULL, &refused), WEFT_ERR_STATE);
            assert_error(WEFT_ERR_STATE, "was layer.w in a module, where weft_module_set_tensor() has replaced it");
            /* Back in its place. */
            assert_int_equal(weft_module_set_tensor(root, "layer.w", s.w), WEFT_OK);
            assert_int_equal(weft_graph_freeze(graph, false), WEFT_OK);
            assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
            for (int run = 0; run < 5; run++) {
                call(graph, x, 3);
            }
            assert_true(info_of(graph).frozen);
        }
        assert_not_listed(graph, "----");
        assert_int_equal(weft_tensor_release(former), WEFT_OK);
        weft_graph_destroy(graph);
        weft_module_destroy(root);
        weft_scope_end();
    }
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_outputs_of_parts),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_stay_outside),
        cmocka_unit_test(test_replaced_parameters),
    };
    return RUN_ON_RANKS(tests);
}
