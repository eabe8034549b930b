/* Numbers out of a graph. A tensor of one element is read one step late: nothing splits,
 * and the next step has been submitted. The code of docs/graphs.md, "Numbers out", stands here.
 *
 * Arguments: docs/graphs.md and this file; under mpirun "processes" before them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

enum { STEPS = 40, EVERY = 10, ROWS = 12 };

static const char *page_path, *source_path;

/* ---- the page's program -------------------------------------------------------------------------------------- */

static weft_status descend(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor *w = context, *error = weft_sub(weft_matmul(inputs[0], w), inputs[1]);
    weft_tensor *loss = weft_mean(weft_mul(error, error), WEFT_ALL_DIMS, false);
    weft_status status = weft_backward(loss, NULL);
    weft_tensor *gradient = weft_grad(w);
    weft_sgd_options options = { .learning_rate = scalars[0] };
    status = status == WEFT_OK ? weft_sgd(1, &w, &gradient, &options, NULL) : status;
    status = status == WEFT_OK ? weft_zero_grad(1, &w) : status;
    outputs[0] = weft_redistribute(weft_detach(loss), NULL, NULL); /* the sum over the ranks is part of the step */
    return status;
}

static void train(weft_graph *graph, weft_tensor *const batch[], double rate, double losses[])
{
    weft_tensor *loss = NULL;
    for (int i = 0; i <= STEPS; i++) {
        weft_tensor *former = loss;
        weft_graph_call(graph, batch, &rate, &loss);
        if (i % EVERY == 0 && i > 0) {
            weft_tensor_item(former, &losses[i / EVERY - 1]); /* waits for step i - 1, while step i runs */
        }
        if (former != NULL) {
            weft_tensor_release(former);
        }
    }
    weft_tensor_release(loss);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static weft_tensor *make(uint64_t seed, int64_t rows, int64_t columns, const weft_placement *placements)
{
    weft_random_seed(seed);
    return weft_randn(WEFT_F64, 2, (int64_t[]){ rows, columns }, line(), placements);
}

static void f6_losses_are_read_late(void **state)
{
    (void)state;
    const weft_placement rows = weft_shard(0);
    double losses[STEPS / EVERY] = { 0 };
    weft_tensor *batch[] = { make(1, ROWS, 3, &rows), make(2, ROWS, 1, &rows) };
    weft_tensor *captured = make(3, 3, 1, NULL), *eager = make(3, 3, 1, NULL), *loss;
    weft_set_requires_grad(captured, true);
    weft_set_requires_grad(eager, true);
    weft_graph *graph = weft_graph_create("descend", descend, captured, 2, 1, 1);
    train(graph, batch, 0.05, losses);
    assert_no_error();
    weft_scope_begin();
    for (int i = 0; i <= STEPS; i++) {
        double value;
        assert_int_equal(descend(eager, batch, (double[]){ 0.05 }, &loss), WEFT_OK);
        assert_int_equal(weft_tensor_item(loss, &value), WEFT_OK);
        assert_true((i + 1) % EVERY != 0 || value == losses[(i + 1) / EVERY - 1]);
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_int_equal(info.captures, 1); /* no trace ends in its midst */
    assert_int_equal(info.replays, STEPS);
    assert_true(losses[STEPS / EVERY - 1] < losses[0]);
    weft_graph_destroy(graph);
    weft_scope_end();
    weft_tensor *const made[] = { batch[0], batch[1], captured, eager };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_tensor_release(made[i]), WEFT_OK);
    }
    assert_no_error();
}

static char *text_of(const char *path)
{
    char *text = calloc(1, 1 << 18);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

static void the_page_has_this_code(void **state)
{
    (void)state;
    char *page = text_of(page_path), *source = text_of(source_path);
    char *section = strstr(page, "## Numbers out\n");
    assert_non_null(section);
    char *end = strstr(section, "\n## ");
    *end = '\0';
    int blocks = 0;
    for (char *begin = section; (begin = strstr(begin, "```c\n")) != NULL; blocks++) {
        begin += strlen("```c\n");
        char *fence = strstr(begin, "```");
        assert_non_null(fence);
        *fence = '\0';
        if (strstr(source, begin) == NULL) {
            fail_msg("not in this file: %s", begin);
        }
        begin = fence + 1;
    }
    assert_int_equal(blocks, 2);
    free(page);
    free(source);
}

int main(int count, char *arguments[])
{
    if (count != 3) {
        fprintf(stderr, "usage: %s PAGE SOURCE\n", arguments[0]);
        return 1;
    }
    page_path = arguments[1];
    source_path = arguments[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f6_losses_are_read_late),
        cmocka_unit_test(the_page_has_this_code),
    };
    return RUN_ON_RANKS(tests);
}
