/* Gradients of local regions (rows A13, E2): the region's gradient is a region too, and the program says in which
 * placements it writes. */
#include <stdlib.h>
#include <string.h>

#include "autograd_support.h"

enum { ROWS = 7, COLUMNS = 3 };

/* y = factor * x * w, by rows of x; sums = the sum of each row of y; w and the index are whole. */
static void region(const weft_local_call *call)
{
    const double *x = call->inputs[0].data, *w = call->inputs[1].data, factor = *(const double *)call->context;
    const int64_t *power = call->inputs[2].data;
    double *y = call->outputs[0].data, *sums = call->outputs[1].data;
    for (int64_t i = 0; i < call->inputs[0].extent[0]; i++) {
        sums[i] = 0;
        for (int64_t j = 0; j < COLUMNS; j++) {
            y[i * COLUMNS + j] = factor * x[i * COLUMNS + j] * w[j] * (double)power[0];
            sums[i] += y[i * COLUMNS + j];
        }
    }
}

/* Of x by rows; of w the rank's addend. */
static void gradient(const weft_local_call *call)
{
    const double *x = call->inputs[0].data, *w = call->inputs[1].data, factor = *(const double *)call->context;
    const int64_t *power = call->inputs[2].data;
    const double *of_y = call->inputs[3].data, *of_sums = call->inputs[4].data;
    double *of_x = call->outputs[0].data, *of_w = call->outputs[1].data;
    memset(of_w, 0, COLUMNS * sizeof(double));
    for (int64_t i = 0; i < call->inputs[0].extent[0]; i++) {
        for (int64_t j = 0; j < COLUMNS; j++) {
            double g = (of_y[i * COLUMNS + j] + of_sums[i]) * factor * (double)power[0];
            of_x[i * COLUMNS + j] = g * w[j];
            of_w[j] += g * x[i * COLUMNS + j];
        }
    }
}

static const int64_t shape[] = { ROWS, COLUMNS };
static const double factor = 1.5;
static const weft_placement rows = { .kind = WEFT_SHARD };

static weft_status call_region(weft_tensor *x, weft_tensor *w, weft_local_function back, weft_tensor *outputs[])
{
    const weft_placement whole = weft_replicate(), addends = weft_partial(WEFT_SUM);
    const weft_placement *const in[] = { &rows, &whole, &whole };
    const weft_placement *const of_inputs[] = { &rows, &addends, NULL };
    const weft_local_output described[] = { { WEFT_F64, 2, shape, &rows }, { WEFT_F64, 1, shape, &rows } };
    int64_t two = 2, one = 1;
    weft_tensor *power = weft_distribute(WEFT_I64, 1, &one, &two, line(), NULL);
    return weft_local_map(region, 3, (weft_tensor *[]){ x, w, power }, 2, described,
                          &(weft_local_map_options){ .name = "rows",
                                                     .mesh = line(),
                                                     .in_placements = in,
                                                     .gradient = back,
                                                     .grad_placements = back == NULL ? NULL : of_inputs,
                                                     .context = (void *)(uintptr_t)&factor,
                                                     .context_size = sizeof(factor) },
                          outputs);
}

static weft_tensor *numbers(int ndim, int dim, int first)
{
    double values[ROWS * COLUMNS];
    weft_placement placement = dim < 0 ? weft_replicate() : weft_shard(dim);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        values[i] = (double)((i * 5 + first) % 7) - 3; /* exact in any order of sums */
    }
    weft_tensor *tensor = weft_distribute(WEFT_F64, ndim, ndim == 2 ? shape : shape + 1, values, line(), &placement);
    assert_int_equal(weft_set_requires_grad(tensor, true), WEFT_OK);
    return tensor;
}

/* The loss, of the region or of the same operations. */
static weft_tensor *loss_of(weft_tensor *x, weft_tensor *w, bool in_region, bool uses_sums)
{
    weft_tensor *outputs[2];
    weft_tensor *input = weft_mul(x, x);
    if (in_region) {
        assert_int_equal(call_region(input, w, gradient, outputs), WEFT_OK);
    } else {
        outputs[0] = weft_scale(weft_mul(input, w), 2 * factor);
        outputs[1] = weft_sum(outputs[0], 1, false);
    }
    weft_tensor *loss = weft_sum(weft_mul(outputs[0], outputs[0]), WEFT_ALL_DIMS, false);
    return uses_sums ? weft_add(loss, weft_sum(outputs[1], 0, false)) : loss;
}

static void test_e2_local_regions(void **state)
{
    (void)state;
    double of_x[2][ROWS * COLUMNS], of_w[2][COLUMNS];
    for (int n = 0; n < 6; n++) {
        int dim = n % 3 - 1;
        for (int in_region = 0; in_region < 2; in_region++) {
            weft_scope_begin();
            weft_tensor *x = numbers(2, dim, 1), *w = numbers(1, -1, 2);
            assert_int_equal(weft_backward(loss_of(x, w, in_region, n < 3), NULL), WEFT_OK);
            weft_to_host(weft_grad(x), of_x[in_region], sizeof(of_x[0]));
            weft_to_host(weft_grad(w), of_w[in_region], sizeof(of_w[0]));
            assert_shards(weft_grad(w), NULL, NULL, "w");
            assert_no_error();
            weft_scope_end();
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            assert_true(of_x[0][i] == of_x[1][i]); /* 0 and -0 are equal */
            assert_true(i >= COLUMNS || of_w[0][i] == of_w[1][i]);
        }
    }
}

/* Nothing is guessed. */
static void test_regions_without_gradient(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbers(2, 0, 1), *w = numbers(1, -1, 2), *outputs[2], *fake[2];
    assert_int_equal(call_region(x, w, NULL, outputs), WEFT_OK);
    assert_int_equal(weft_backward(weft_sum(outputs[0], WEFT_ALL_DIMS, false), NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "(rows) is not known: options.gradient is NULL");
    assert_null(weft_grad(x));
    weft_no_grad_begin();
    assert_int_equal(call_region(x, w, NULL, outputs), WEFT_OK);
    assert_false(weft_requires_grad(outputs[0]));
    weft_no_grad_end();
    /* Without data. */
    weft_tensor *no_data = weft_fake_like(x);
    weft_set_requires_grad(no_data, true);
    assert_int_equal(call_region(no_data, w, gradient, fake), WEFT_OK);
    assert_int_equal(weft_backward(weft_sum(fake[1], 0, false), NULL), WEFT_OK);
    assert_true(weft_tensor_is_fake(weft_grad(no_data)));
    assert_memory_equal(weft_tensor_shape(weft_grad(no_data)), shape, sizeof(shape));
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e2_local_regions),
        cmocka_unit_test(test_regions_without_gradient),
    };
    return RUN_ON_RANKS(tests);
}
