/* Rows F1, F6, F7, F8 of what weft must do: what a graph shows, takes and gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"

static weft_graph_info info_of(const weft_graph *graph)
{
    weft_graph_info info;
    assert_int_equal(weft_graph_get_info(graph, &info), WEFT_OK);
    return info;
}

/* The world as a line named dp. */
static weft_mesh *data_parallel(void)
{
    int64_t ranks = weft_world_size();
    return weft_mesh_create(1, &ranks, (const char *const[]){ "dp" });
}

/* ---- memory of the program's and redistributions are calls of the graph ------------------------------------------- */

enum { ROWS_PER_RANK = 2, COLUMNS = 3 };

typedef struct importing {
    weft_mesh *mesh;
    void **locals;
    unsigned flags;
} importing;

/* PyTorch's program: a tensor of local rows, whole on each rank, and what each holds plus two. */
static weft_status import(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const importing *i = context;
    const weft_placement rows = weft_shard(0), whole = weft_replicate();
    (void)inputs, (void)scalars;
    weft_tensor *x = weft_from_local(WEFT_F64, 2, (int64_t[]){ (int64_t)ROWS_PER_RANK * weft_world_size(), COLUMNS }, i->locals,
                                     i->mesh, &rows, i->flags);
    outputs[0] = weft_add_scalar(weft_redistribute(x, NULL, &whole), 2);
    return WEFT_OK;
}

static void write_locals(void *locals[], double value)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < ROWS_PER_RANK * COLUMNS; k++) {
            ((double *)locals[i])[k] = value + weft_first_rank() + i;
        }
    }
}

static void **new_locals(void)
{
    void **locals = calloc((size_t)weft_local_ranks(), sizeof(void *));
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = calloc(ROWS_PER_RANK * COLUMNS, sizeof(double));
    }
    return locals;
}

/* Each run takes the memory that it is given. */
static void import_on(weft_graph *graph, importing *i, void **locals, double value)
{
    write_locals(locals, value);
    i->locals = locals;
    weft_scope_open();
    weft_tensor *output;
    assert_int_equal(weft_graph_call(graph, NULL, NULL, &output), WEFT_OK);
    double *all = calloc((size_t)weft_world_size() * ROWS_PER_RANK * COLUMNS, sizeof(double));
    assert_int_equal(weft_to_host(output, all, (size_t)weft_world_size() * ROWS_PER_RANK * COLUMNS * sizeof(double)), WEFT_OK);
    for (int r = 0; r < weft_world_size(); r++) {
        for (int k = 0; k < ROWS_PER_RANK * COLUMNS; k++) {
            assert_true(all[r * ROWS_PER_RANK * COLUMNS + k] == value + r + 2);
        }
    }
    free(all);
    weft_scope_close();
}

static void test_f1_program_of_the_seed(void **state)
{
    (void)state;
    char text[1000], expected[1000];
    importing i = { .mesh = data_parallel() };
    for (int copies = 0; copies < 2; copies++) {
        i.flags = copies ? WEFT_COPY : 0;
        weft_graph *graph = weft_graph_new("import", import, &i, 0, 0, 1);
        void **first = new_locals(), **second = new_locals();
        for (int run = 0; run < 4; run++) {
            import_on(graph, &i, run % 2 ? second : first, 10 * run);
        }
        assert_int_equal(info_of(graph).captures, 1);
        assert_int_equal(info_of(graph).replays, 3);
        int ranks = weft_world_size();
        snprintf(expected, sizeof(expected),
                 "graph import:\n"
                 "  %%0 = weft_from_local(memory 0) mesh (dp %d) [S0] : f64[%d, 3]\n"
                 "  %%1 = weft_redistribute(%%0) mesh (dp %d) [R] : f64[%d, 3]\n"
                 "  %%2 = weft_add_scalar(%%1) : f64[%d, 3] [R] on %d\n",
                 ranks, 2 * ranks, ranks, 2 * ranks, 2 * ranks, ranks);
        assert_int_equal(weft_graph_print_text(graph, text, sizeof(text), NULL), WEFT_OK);
        assert_string_equal(text, expected);
        weft_graph_free(graph);
        free_locals(first);
        free_locals(second);
        free(first);
        free(second);
    }
    assert_no_error();
}

/* A tensor of the program's in place of one that the function makes of memory is another graph. */
static weft_status import_or_take(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const importing *i = context;
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = inputs[0];
    if (scalars[0] > 0) {
        x = weft_from_local(WEFT_F64, 2, (int64_t[]){ (int64_t)ROWS_PER_RANK * weft_world_size(), COLUMNS }, i->locals, i->mesh,
                            &rows, WEFT_COPY);
    }
    outputs[0] = weft_exp(x);
    return WEFT_OK;
}

static void test_f1_memory_is_guarded(void **state)
{
    (void)state;
    importing i = { .mesh = data_parallel(), .locals = new_locals() };
    write_locals(i.locals, 0);
    weft_graph *graph = weft_graph_new("either", import_or_take, &i, 1, 1, 1);
    weft_scope_open();
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_from_local(WEFT_F64, 2, (int64_t[]){ (int64_t)ROWS_PER_RANK * weft_world_size(), COLUMNS }, i.locals,
                                     i.mesh, &rows, WEFT_COPY), *output;
    for (int run = 0; run < 6; run++) {
        const double imports = run % 2;
        assert_int_equal(weft_graph_call(graph, &x, &imports, &output), WEFT_OK);
        assert_same_shards(output, weft_exp(x), "output");
    }
    assert_int_equal(info_of(graph).captures, 2);
    assert_non_null(strstr(info_of(graph).failed_guard, "call 0: weft_exp: tensor 0 was an input, is of weft_from_local()"));
    weft_scope_close();
    weft_graph_free(graph);
    free_locals(i.locals);
    free(i.locals);
    assert_no_error();
}

static void test_f1_picture(void **state)
{
    (void)state;
    importing i = { .mesh = data_parallel(), .locals = new_locals(), .flags = WEFT_COPY };
    weft_graph *graph = weft_graph_new("a \"name\"", import, &i, 0, 0, 1);
    import_on(graph, &i, i.locals, 1);
    assert_int_equal(weft_graph_print_dot(graph, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_print_dot: file is NULL");
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(weft_graph_print_dot(graph, file), WEFT_OK);
    fclose(file);
    assert_non_null(strstr(text, "digraph \"a \\\"name\\\"\" {\n"));
    assert_non_null(strstr(text, "    s0_v0 [shape=ellipse, label=\"weft_from_local\"];\n"));
    assert_non_null(strstr(text, "    s0_c0 [shape=box, label=\"weft_redistribute\", style=filled, fillcolor="));
    assert_non_null(strstr(text, "    s0_c1 [shape=box, label=\"weft_add_scalar\"];\n"));
    assert_non_null(strstr(text, "    s0_v0 -> s0_c0 [label=\"%0 f64["));
    assert_non_null(strstr(text, "    s0_c0 -> s0_c1 [label=\"%1 f64["));
    assert_non_null(strstr(text, "\\n[R]\"];\n"));
    assert_int_equal(count_in(text, "{"), count_in(text, "}"));
    free(text);
    weft_graph_free(graph);
    free_locals(i.locals);
    free(i.locals);
}

int main(int count, char *arguments[])
{
    (void)arguments;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f1_program_of_the_seed),
        cmocka_unit_test(test_f1_memory_is_guarded),
        cmocka_unit_test(test_f1_picture),
    };
    return RUN_ON_RANKS(count, tests);
}
