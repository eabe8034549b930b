/* Operations of a program's own on the tape: a gradient of the program's, with saved tensors (a further output)
 * and saved plain data (numbers and scalars of the call). */
#include <math.h>
#include <stdlib.h>

#include "autograd_support.h"

enum { ROWS = 5, COLUMNS = 4 };

/* y = scale * a / |a|_row ^ power; and |a|_row, kept for the gradient. */
static void normalise(const weft_kernel_call *call)
{
    const weft_view *a = &call->inputs[0], *y = &call->outputs[0], *norms = &call->outputs[1];
    for (int64_t i = 0; i < weft_view_rows(y); i++) {
        const double *in = weft_view_row(a, i, NULL);
        double *out = weft_view_row(y, i, NULL), *norm = weft_view_row(norms, i, NULL), sum = 0;
        for (int64_t j = 0; j < COLUMNS; j++) {
            sum += in[j] * in[j];
        }
        *norm = sqrt(sum);
        for (int64_t j = 0; j < COLUMNS; j++) {
            out[j] = call->scalars[0] * in[j] / pow(*norm, (double)call->numbers[0]);
        }
    }
}

static int gradients_asked;

/* d = scale |a|^-p (g - p a (a.g) / |a|^2), from the saved norms. */
static weft_status normalise_gradient(const weft_gradient_request *request, weft_tensor *gradients[])
{
    weft_tensor *a = request->inputs[0], *g = request->output_gradients[0];
    gradients_asked++;
    assert_null(request->output_gradients[1]);
    assert_true(weft_tensor_is_fake(request->outputs[0])); /* not read, not kept */
    assert_int_equal(request->options->num_numbers, 1);
    double p = (double)request->options->numbers[0], scale = request->options->scalars[0];
    weft_tensor *norms = weft_unsqueeze(request->outputs[1], 1);
    weft_tensor *along = weft_div(weft_sum(weft_mul(a, g), 1, true), weft_square(norms));
    weft_tensor *inner = weft_sub(g, weft_scale(weft_mul(a, along), p));
    gradients[0] = weft_scale(weft_div(inner, weft_pow_scalar(norms, p)), scale);
    return weft_last_status();
}

static const weft_operation *operation;

static weft_tensor *normalised(weft_tensor *a)
{
    weft_tensor *outputs[2] = { NULL };
    const weft_apply_options options = { .num_numbers = 1, .numbers = { 2 }, .num_scalars = 1, .scalars = { 1.5 } };
    assert_int_equal(weft_apply_all(operation, 1, &a, &options, 2, outputs), WEFT_OK);
    return outputs[0];
}

static weft_tensor *built_in(weft_tensor *a)
{
    return weft_scale(weft_div(a, weft_sum(weft_square(a), 1, true)), 1.5);
}

static weft_tensor *leaf(int dim)
{
    double values[ROWS * COLUMNS];
    weft_placement placement = dim < 0 ? weft_replicate() : weft_shard(dim);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = cos((double)i) + 0.1;
    }
    weft_tensor *tensor = weft_distribute(WEFT_F64, 2, (int64_t[]){ ROWS, COLUMNS }, values, line(), &placement);
    assert_int_equal(weft_set_requires_grad(tensor, true), WEFT_OK);
    return tensor;
}

static void gradient_of(weft_tensor *(*function)(weft_tensor *), int dim, double values[])
{
    weft_scope_begin();
    weft_tensor *a = leaf(dim), *y = function(weft_scale(a, 2)), *gradient;
    weft_tensor *loss = weft_sum(weft_mul(weft_exp(y), a), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &gradient), WEFT_OK);
    assert_int_equal(weft_to_host(gradient, values, ROWS * COLUMNS * sizeof(double)), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

static void test_e3_custom_operations(void **state)
{
    (void)state;
    double own[ROWS * COLUMNS], reference[ROWS * COLUMNS];
    const weft_operation_description description = {
        .name = "normalise",
        .rule = "a[b]->a[b],a",
        .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
        .kernel = normalise,
        .gradient = normalise_gradient,
        .gradient_reads = WEFT_GRADIENT_READS_INPUT(0) | WEFT_GRADIENT_READS_OUTPUT(1),
    };
    operation = weft_operation_register(&description);
    assert_no_error();
    for (int dim = -1; dim < 2; dim++) {
        gradients_asked = 0;
        gradient_of(normalised, dim, own);
        assert_int_equal(gradients_asked, 1);
        gradient_of(built_in, dim, reference);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            assert_float_equal(own[i], reference[i], 1e-12);
        }
    }
}

static weft_status refuses(const weft_gradient_request *request, weft_tensor *gradients[])
{
    (void)request;
    (void)gradients;
    return WEFT_ERR_IO;
}

static void test_errors_of_gradients(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_operation_description description = {
        .name = "refuses",
        .rule = "a[b]->a[b],a",
        .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
        .kernel = normalise,
        .gradient = refuses,
    };
    operation = weft_operation_register(&description);
    weft_tensor *a = leaf(0);
    assert_int_equal(weft_backward(weft_sum(normalised(a), WEFT_ALL_DIMS, false), NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "the gradient of refuses failed");
    assert_null(weft_grad(a));
    description.name = "without";
    description.gradient = NULL;
    operation = weft_operation_register(&description);
    assert_int_equal(weft_backward(weft_sum(normalised(a), WEFT_ALL_DIMS, false), NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "without");
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e3_custom_operations),
        cmocka_unit_test(test_errors_of_gradients),
    };
    return RUN_ON_RANKS(tests);
}
