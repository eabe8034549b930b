/* Gradients of operations of a program's own: by the program, compared with central differences; and refusals. */
#include "support.h"

#include "gradient_check.h"
#include "ops/ops.h"

static weft_mesh *mesh;

/* User-defined operations: p = s a b^2 and q = a + b, for each row of a. */
static double element(const weft_view *view, int64_t i, int64_t j)
{
    const double *row = weft_view_row(view, i - view->offset[0], NULL);
    return view->ndim < 2 ? row[0] : row[j - view->offset[1]];
}

static void own_kernel(const weft_kernel_call *call)
{
    const weft_view *p = &call->outputs[0], *q = &call->outputs[1];
    for (int64_t i = 0; i < weft_view_rows(p); i++) {
        double *p_row = weft_view_row(p, i, NULL), *q_row = weft_view_row(q, i, NULL);
        for (int64_t j = 0; j < p->extent[1]; j++) {
            int64_t row = p->offset[0] + i, column = p->offset[1] + j;
            double a = element(&call->inputs[0], row, column), b = element(&call->inputs[1], column, 0);
            p_row[j] = call->scalars[0] * a * b * b;
            q_row[j] = a + b;
        }
    }
}

static weft_status own_gradient(const weft_gradient_request *request, weft_tensor *gradients[])
{
    weft_tensor *a = request->inputs[0], *b = request->inputs[1];
    weft_tensor *p = request->output_gradients[0], *q = request->output_gradients[1];
    assert_int_equal(request->num_inputs, 2);
    assert_int_equal(request->num_outputs, 2);
    weft_tensor *scaled = weft_scale(p, request->options->scalars[0]);
    if (request->wanted[0]) {
        gradients[0] = weft_add(weft_mul(scaled, weft_square(b)), q);
    }
    if (request->wanted[1]) {
        gradients[1] = weft_add(weft_scale(weft_mul(scaled, weft_mul(a, b)), 2), q); /* summed over rows by weft */
    }
    return weft_last_status();
}

static const weft_operation *register_own(const char *name, weft_operation_gradient gradient)
{
    const weft_operation_description description = {
        .name = name,
        .rule = "ab,b->ab,ab",
        .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false }, { "b", WEFT_TYPE_BIT(WEFT_F64), false } },
        .kernel = own_kernel,
        .gradient = gradient,
        .gradient_reads = gradient == NULL ? 0 : WEFT_GRADIENT_READS_INPUT(0) | WEFT_GRADIENT_READS_INPUT(1),
    };
    return weft_operation_register(&description);
}

static void check_own(int ranks, input_layout layout)
{
    static const double a[] = { 0.5, -0.25, 0.75, 1.5, -2, 0.125, 3, -1.25, 0.375, 2, 1, -0.5, 0.25, -0.75, 1.75 };
    static const double b[] = { 1.25, -0.5, 0.75 };
    start_with_panels(ranks, "2");
    mesh = weft_mesh_create(1, (int64_t[]){ ranks }, NULL);
    const weft_operation *operation = register_own("own", own_gradient);
    weft_tensor *x[] = { tensor_of_values(mesh, layout, WEFT_F64, 2, (int64_t[]){ 5, 3 }, a),
                         tensor_of_values(mesh, layout, WEFT_F64, 1, (int64_t[]){ 3 }, b) };
    const weft_apply_options options = { .num_scalars = 1, .scalars = { -0.75 } };
    weft_tensor *outputs[2];
    gradient_check_begin(mesh, layout);
    assert_int_equal(weft_apply_all(operation, 2, x, &options, 2, outputs), WEFT_OK);
    assert_int_equal(gradient_check_recorded() > 0, 1);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_own(void **state)
{
    (void)state;
    check_own(1, REPLICATED);
    for (int layout = 0; layout < NUM_INPUT_LAYOUTS; layout++) {
        check_own(2, (input_layout)layout);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static weft_status give_integers(const weft_gradient_request *request, weft_tensor *gradients[])
{
    gradients[0] = weft_to_type(request->output_gradients[0], WEFT_I64);
    return WEFT_OK;
}

static weft_status give_nothing(const weft_gradient_request *request, weft_tensor *gradients[])
{
    (void)request;
    (void)gradients;
    return WEFT_ERR_IO;
}

/* The gradients of an operation whose inputs are ones. */
static weft_status gradients_of_own(const weft_operation *operation, weft_tensor *gradients[2])
{
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, mesh, NULL);
    weft_tensor *row = weft_ones(WEFT_F64, 1, (int64_t[]){ 3 }, mesh, NULL);
    weft_tensor *const outputs[] = { ones, ones };
    const bool wanted[] = { true, false };
    const weft_call call = { .function = "weft_apply_all",
                             .operation = weft_handle_get(&weft_runtime.handles.operations, operation),
                             .num_inputs = 2,
                             .inputs = { ones, row } };
    return weft_call_gradients(&(weft_gradient){ .call = &call,
                                                 .outputs = outputs,
                                                 .output_gradients = outputs,
                                                 .wanted = wanted,
                                                 .gradients = gradients });
}

static void test_refused(void **state)
{
    (void)state;
    start_with_panels(2, NULL);
    mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    weft_tensor *gradients[2];
    const struct {
        const char *name;
        weft_operation_gradient gradient;
        weft_status status;
        const char *text;
    } refused[] = { { "without", NULL, WEFT_ERR_UNSUPPORTED, "gradient of without" },
                    { "integers", give_integers, WEFT_ERR_DTYPE, "gradients[0]" },
                    { "nothing", give_nothing, WEFT_ERR_IO, "gradient of nothing" } };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const weft_operation *operation = register_own(refused[i].name, refused[i].gradient);
        assert_int_equal(gradients_of_own(operation, gradients), refused[i].status);
        assert_null(gradients[0]);
        assert_error(refused[i].status, refused[i].text);
    }
    weft_operation_description description = { .name = "beyond",
                                               .rule = "a->a",
                                               .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
                                               .kernel = own_kernel,
                                               .gradient = own_gradient,
                                               .gradient_reads = WEFT_GRADIENT_READS_OUTPUT(1) };
    assert_null(weft_operation_register(&description));
    assert_error(WEFT_ERR_INVALID, "gradient_reads");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
