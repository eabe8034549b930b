/* Local regions seen from inside: memory in pieces, and regions as calls that are
 * values. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/interposer.h"
#include "codelets/local.h"
#include "dispatch/dispatch.h"
#include "local_constant.h"

enum { RANKS = 4, ROWS = 11, COLUMNS = 6 };

/* y = 2 x + the element's global row. */
static void double_and_add_row(const weft_local_call *call)
{
    const weft_local_tensor *x = &call->inputs[0], *y = &call->outputs[0];
    for (int64_t i = 0; i < y->count; i++) {
        int64_t row = y->offset[0] + i / y->extent[1];
        ((double *)y->data)[i] = 2 * ((const double *)x->data)[i] + (double)row;
    }
}

/* ---- memory in pieces ---------------------------------------------------------------------------------- */

/* Panels that do not lie one after another, as on several memory nodes: the function sees one piece all the
 * same. */
static void a13_panels_apart(void **state)
{
    (void)state;
    enum { PANELS = 3, EACH = 4 };
    double in[PANELS][2 * EACH], out[PANELS][3 * EACH];
    size_t size = weft_local_name_offset(2) + sizeof("apart");
    weft_local_args *args = calloc(1, size);
    args->function = double_and_add_row;
    args->num_inputs = args->num_outputs = 1;
    void *pointers[2 * PANELS];
    for (int p = 0; p < PANELS; p++) {
        pointers[p] = in[p];
        pointers[PANELS + p] = out[p];
        for (int i = 0; i < EACH; i++) {
            in[p][i] = EACH * p + i;
            out[p][i] = out[p][i + EACH] = -1;
        }
    }
    for (int o = 0; o < 2; o++) {
        args->operands[o] = (weft_local_operand){
            .tensor = { .dtype = WEFT_F64, .ndim = 2, .shape = { 7, 2 }, .offset = { 1, 0 }, .extent = { 6, 2 }, .count = 12 },
            .total_bytes = 12 * sizeof(double),
            .first_bytes = EACH * sizeof(double),
            .step_bytes = EACH * sizeof(double),
            .first_panel = o * PANELS,
            .num_panels = PANELS,
        };
    }
    strcpy((char *)args + weft_local_name_offset(2), "apart");
    weft_kernel_error error = { WEFT_OK };
    const weft_task_run run = { .kernel = WEFT_KERNEL_local_map,
                                .cpu = &weft_cpu_kernels[WEFT_KERNEL_local_map],
                                .arguments = args,
                                .num_operands = 2 * PANELS,
                                .operands = pointers,
                                .function = "weft_local_map",
                                .error = &error };
    run.cpu->run(&run);
    assert_int_equal(error.status, WEFT_OK);
    for (int p = 0; p < PANELS; p++) {
        for (int i = 0; i < EACH; i++) {
            assert_true(out[p][i] == 2 * (EACH * p + i) + 1 + 2 * p + i / 2);
            assert_true(out[p][i + EACH] == -1);
        }
    }
    free(args);
}

/* ---- a call as a value --------------------------------------------------------------------------------- */

static void expect_thousand(weft_tensor *tensor)
{
    double values[ROWS * COLUMNS];
    assert_shards(tensor, NULL, NULL, "a result of a local region");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(values[i] == 1000);
    }
}

static weft_call *noted;
static int num_told;

static weft_status note_call(weft_interposer *self, weft_call_frame *frame)
{
    (void)self;
    weft_status status = weft_call_next(frame);
    assert_int_equal(frame->num_outputs, 1);
    assert_non_null(frame->outputs[0]);
    assert_int_equal(status, WEFT_OK);
    size_t bytes;
    noted = weft_call_copy(frame->call, &bytes);
    num_told++;
    return status;
}

/* An interposer sees it once, and its copy can be executed again after all its arguments have been released. */
static void a13_is_a_call(void **state)
{
    (void)state;
    WORLD(RANKS);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_interposer interposer = { .order = WEFT_OBSERVER, .around = note_call };
    constant thousand = { 1000 };
    const int64_t shape[] = { ROWS, COLUMNS };
    const weft_placement rows[] = { weft_shard(0) };
    weft_local_output output = { .dtype = WEFT_F64, .ndim = 2, .shape = shape, .placements = rows };
    weft_local_map_options options = { .context = &thousand, .context_size = sizeof(thousand) };
    char name[] = "constant";
    options.name = name;
    weft_tensor *input = weft_ones(WEFT_F64, 0, NULL, mesh, NULL), *first, *again = NULL;
    num_told = 0;
    weft_interposer_install(&interposer);
    assert_int_equal(weft_local_map(write_constant, 1, &input, 1, &output, &options, &first), WEFT_OK);
    weft_interposer_remove(&interposer);
    assert_int_equal(num_told, 1);
    thousand.value = -1;
    name[0] = '?';
    output.shape = NULL;
    assert_int_equal(weft_invoke(noted, &again), WEFT_OK);
    free(noted);
    expect_thousand(first);
    expect_thousand(again);
    weft_tensor_release(input);
    weft_tensor_release(first);
    weft_tensor_release(again);
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void never(const weft_local_call *call)
{
    (void)call;
    abort();
}

/* With inputs without data the outputs are layouts only, and the function is not called. */
static void a13_without_data(void **state)
{
    (void)state;
    WORLD(RANKS);
    const int64_t shape[] = { ROWS, COLUMNS };
    const weft_placement rows[] = { weft_shard(0) };
    const weft_placement *const wanted[] = { rows, rows };
    const weft_local_map_options options = { .in_placements = wanted };
    weft_local_output output = { .dtype = WEFT_I64, .ndim = 2, .shape = shape, .placements = rows };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_scope_begin();
    weft_tensor *const inputs[] = { weft_ones(WEFT_F64, 2, shape, mesh, NULL),
                                    weft_fake(WEFT_F64, 2, shape, mesh, NULL) };
    weft_tensor *result = NULL;
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    assert_int_equal(weft_local_map(never, 2, inputs, 1, &output, &options, &result), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    assert_true(weft_tensor_is_fake(result));
    assert_int_equal(weft_tensor_dtype(result), WEFT_I64);
    assert_int_equal(weft_tensor_placements(result)[0].kind, WEFT_SHARD);
    assert_int_equal(after.buffers_created, before.buffers_created);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a13_panels_apart),
        cmocka_unit_test(a13_is_a_call),
        cmocka_unit_test(a13_without_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
