/* The text of a graph, its inputs and its outputs. Arguments under mpirun: "processes"; and
 * "moved": only those cases that move data between ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

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
    weft_scope_begin();
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
    weft_scope_end();
}

static void test_f1_program_of_the_seed(void **state)
{
    (void)state;
    char expected[1000];
    importing i = { .mesh = data_parallel() };
    for (int copies = 0; copies < 2; copies++) {
        i.flags = copies ? WEFT_COPY : 0;
        weft_graph *graph = weft_graph_create("import", import, &i, 0, 0, 1);
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
                 "  %%2 = weft_add_scalar(%%1) : f64[%d, 3] [R] on %d\n"
                 "  outputs[0] = %%2\n",
                 ranks, 2 * ranks, ranks, 2 * ranks, 2 * ranks, ranks);
        char *text = listing_of(graph);
        assert_string_equal(text, expected);
        free(text);
        weft_graph_destroy(graph);
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
    weft_graph *graph = weft_graph_create("either", import_or_take, &i, 1, 1, 1);
    weft_scope_begin();
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
    weft_scope_end();
    weft_graph_destroy(graph);
    free_locals(i.locals);
    free(i.locals);
    assert_no_error();
}

static void test_f1_picture(void **state)
{
    (void)state;
    importing i = { .mesh = data_parallel(), .locals = new_locals(), .flags = WEFT_COPY };
    weft_graph *graph = weft_graph_create("a \"name\"", import, &i, 0, 0, 1);
    import_on(graph, &i, i.locals, 1);
    assert_int_equal(weft_graph_print(graph, WEFT_GRAPH_DOT, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_print: file is NULL");
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(weft_graph_print(graph, WEFT_GRAPH_DOT, file), WEFT_OK);
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
    weft_graph_destroy(graph);
    free_locals(i.locals);
    free(i.locals);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

/* A number of the program's, one that is computed from it, and a norm. */
static weft_status numbers_in(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    weft_tensor *x = weft_add_scaled(inputs[0], inputs[0], 2 * scalars[0] - scalars[1]);
    outputs[0] = x;
    outputs[1] = weft_sum(weft_mul(x, x), WEFT_ALL_DIMS, false);
    return WEFT_OK;
}

/* A number is read when the next run has been submitted: nothing splits, and nothing is captured again. */
static void test_f6_numbers_in_and_out(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("numbers", numbers_in, NULL, 1, 2, 2);
    weft_scope_begin();
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_full(WEFT_F64, 0.5, 2, (int64_t[]){ 6, 3 }, line(), &rows), *last = NULL, *outputs[2];
    double expected = 0;
    for (int run = 0; run < 6; run++) {
        const double scalars[] = { 0.25 * run, 0.125 };
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ x }, scalars, outputs), WEFT_OK);
        double value;
        if (last != NULL) {
            assert_int_equal(weft_tensor_item(last, &value), WEFT_OK);
            assert_float_equal(value, expected, 1e-12);
        }
        double one = 0.5 * (1 + 2 * scalars[0] - scalars[1]);
        expected = 18 * one * one;
        last = outputs[1];
    }
    assert_int_equal(info_of(graph).captures, 1);
    assert_int_equal(info_of(graph).replays, 5);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- donated inputs ------------------------------------------------------------------------------------------------- */

static weft_status three_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_exp(weft_neg(weft_mul(inputs[0], inputs[1])));
    return WEFT_OK;
}

static weft_tensor *large(int64_t columns, double value)
{
    const weft_placement rows = weft_shard(0);
    return weft_full(WEFT_F64, value, 2, (int64_t[]){ 64, columns }, line(), &rows);
}

/* Buffers that the pool creates in a first run on tensors of a size that it has none of. */
static uint64_t new_buffers(int64_t columns, bool donate)
{
    weft_graph *graph = weft_graph_create("donated", three_calls, NULL, 2, 0, 1);
    weft_counters before, after;
    assert_int_equal(weft_graph_donate(graph, 0, donate), WEFT_OK);
    assert_int_equal(weft_graph_donate(graph, 1, donate), WEFT_OK);
    weft_scope_begin();
    weft_tensor *inputs[] = { large(columns, 1), large(columns, 2) }, *output, *expected;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(three_calls(NULL, (weft_tensor *[]){ large(columns, 1), large(columns, 2) }, NULL, &expected), WEFT_OK);
    assert_same_shards(output, expected, "output");
    weft_scope_end();
    weft_graph_destroy(graph);
    return after.buffers_created - before.buffers_created;
}

static void test_f7_donated_memory_is_used_again(void **state)
{
    (void)state;
    uint64_t kept = new_buffers(3000, false), donated = new_buffers(3700, true);
    assert_true(donated < kept);
    assert_no_error();
}

/* Aliases keep the values; the handle ends. */
static void test_f7_donated_inputs(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("donated", three_calls, NULL, 2, 0, 1);
    assert_int_equal(weft_graph_donate(graph, 0, true), WEFT_OK);
    assert_int_equal(weft_graph_donate(graph, 1, true), WEFT_OK);
    for (int run = 0; run < 3; run++) {
        weft_scope_begin();
        weft_tensor *inputs[] = { large(30, 1 + run), large(30, 2) }, *view = weft_detach(inputs[1]), *output, *expected;
        assert_int_equal(three_calls(NULL, inputs, NULL, &expected), WEFT_OK);
        assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
        assert_same_shards(output, expected, "output");
        assert_same_shards(view, large(30, 2), "an alias");
        assert_null(weft_neg(inputs[0]));
        assert_error(WEFT_ERR_INVALID, "is not a live tensor: released, donated to a graph");
        assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "inputs[0]");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).captures, 1);
    weft_graph_destroy(graph);
    assert_no_error();
}

static weft_status change_donated(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_tensor **alias = context;
    *alias = weft_scope_keep(weft_detach(inputs[0]));
    weft_tensor_retain(*alias);
    weft_add_inplace(inputs[0], inputs[1], scalars[0]);
    outputs[0] = weft_mul(inputs[0], inputs[1]);
    outputs[1] = inputs[2];
    return weft_last_status();
}

static void test_f7_changed_kept_and_refused(void **state)
{
    (void)state;
    weft_tensor *alias;
    weft_graph *graph = weft_graph_create("change", change_donated, &alias, 3, 1, 2);
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { 6 };
    assert_int_equal(weft_graph_donate(graph, 3, true), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_donate: input is 3, but graph change has 3 inputs");
    assert_int_equal(weft_graph_donate(graph, 0, true), WEFT_OK);
    assert_int_equal(weft_graph_donate(graph, 2, true), WEFT_OK);
    for (int run = 0; run < 3; run++) {
        weft_scope_begin();
        double factor = run;
        weft_tensor *inputs[3], *outputs[2];
        for (int i = 0; i < 3; i++) {
            inputs[i] = weft_full(WEFT_F64, 1 + i, 1, shape, line(), &rows);
        }
        weft_tensor_retain(inputs[0]); /* ends with the donation */
        assert_int_equal(weft_graph_call(graph, inputs, &factor, outputs), WEFT_OK);
        assert_all(outputs[0], 2 * (1 + 2 * factor));
        assert_all(alias, 1);
        assert_ptr_equal(outputs[1], inputs[2]); /* an output stays */
        assert_all(inputs[2], 3);
        assert_int_equal(weft_tensor_release(inputs[0]), WEFT_ERR_INVALID);
        weft_clear_error();
        assert_int_equal(weft_tensor_release(alias), WEFT_OK);

        /* Refused before anything is done. */
        weft_tensor *leaf = weft_full(WEFT_F64, 1, 1, shape, line(), &rows), *y = weft_full(WEFT_F64, 1, 1, shape, line(), &rows);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ y, y, inputs[2] }, &factor, outputs), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "inputs[0] of graph change is donated, and is another input too");
        weft_set_requires_grad(leaf, true);
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ leaf, y, inputs[2] }, &factor, outputs), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "is donated, and requires a gradient");
        assert_all(y, 1);
        weft_scope_end();
    }
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- functions that are not captured ------------------------------------------------------------------------------- */

typedef struct opaque {
    int made, called;
    bool computes; /* the constant's input is computed in the graph */
} opaque;

static weft_status make_table(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    opaque *o = context;
    double value;
    o->made++;
    weft_status status = weft_tensor_item(weft_sum(inputs[0], WEFT_ALL_DIMS, false), &value); /* cannot be captured */
    outputs[0] = weft_full(WEFT_F64, value, 1, (int64_t[]){ 6 }, line(), NULL);
    outputs[1] = weft_neg(outputs[0]);
    return status;
}

static weft_status look_at(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    opaque *o = context;
    double value;
    weft_status status = weft_tensor_item(weft_sum(inputs[0], WEFT_ALL_DIMS, false), &value);
    outputs[0] = weft_full(WEFT_F64, value + ++o->called, 1, (int64_t[]){ 6 }, line(), NULL);
    return status;
}

static weft_status with_opaque(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    opaque *o = context;
    weft_tensor *tables[2], *seen;
    weft_tensor *x = weft_add_scalar(inputs[0], scalars[0]);
    weft_status status = weft_graph_opaque("table", WEFT_OPAQUE_CONSTANT, make_table, o, 1, o->computes ? &x : &inputs[1], 2, tables);
    if (status == WEFT_OK) {
        status = weft_graph_opaque("look", WEFT_OPAQUE_CALLED, look_at, o, 1, &x, 1, &seen);
    }
    if (status == WEFT_OK) {
        outputs[0] = weft_add(weft_add(x, seen), weft_add(tables[0], weft_scale(tables[1], 3)));
    }
    return status;
}

static void test_f8_opaque_functions(void **state)
{
    (void)state;
    opaque o = { 0 };
    weft_graph *graph = weft_graph_create("opaque", with_opaque, &o, 2, 1, 1);
    weft_scope_begin();
    weft_tensor *x = weft_full(WEFT_F64, 1, 1, (int64_t[]){ 6 }, line(), NULL), *one = weft_full(WEFT_F64, 2, 1, (int64_t[]){ 6 }, line(), NULL);
    weft_tensor *output;
    for (int run = 0; run < 5; run++) {
        const double number = run;
        assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ x, one }, &number, &output), WEFT_OK);
        assert_all(output, (1 + run) + (6.0 * (1 + run) + run + 1) + 12 - 36);
    }
    assert_int_equal(o.made, 1);
    assert_int_equal(o.called, 5);
    assert_int_equal(info_of(graph).captures, 2); /* two segments */
    assert_int_equal(info_of(graph).replays, 8);
    assert_int_equal(info_of(graph).guards_failed, 0);

    o.computes = true;
    const double number = 0;
    assert_int_equal(weft_graph_call(graph, (weft_tensor *[]){ x, one }, &number, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_graph_opaque: inputs[0] is computed in the graph, and the results of table are constants");
    assert_int_equal(with_opaque(&o, (weft_tensor *[]){ x, one }, &number, &output), WEFT_OK); /* no graph */
    assert_int_equal(o.called, 6);
    weft_scope_end();
    weft_graph_destroy(graph);
    assert_no_error();
}

int main(int count, char *arguments[])
{
    const struct CMUnitTest moved[] = {
        cmocka_unit_test(test_f1_program_of_the_seed),
        cmocka_unit_test(test_f6_numbers_in_and_out),
        cmocka_unit_test(test_f8_opaque_functions),
    };
    if (count > 1 && strcmp(arguments[1], "moved") == 0) {
        return RUN_ON_RANKS(moved);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f1_program_of_the_seed),
        cmocka_unit_test(test_f1_memory_is_guarded),
        cmocka_unit_test(test_f1_picture),
        cmocka_unit_test(test_f6_numbers_in_and_out),
        cmocka_unit_test(test_f7_donated_memory_is_used_again),
        cmocka_unit_test(test_f7_donated_inputs),
        cmocka_unit_test(test_f7_changed_kept_and_refused),
        cmocka_unit_test(test_f8_opaque_functions),
    };
    return RUN_ON_RANKS(tests);
}
