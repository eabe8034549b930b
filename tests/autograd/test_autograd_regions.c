/* Regions of the tape: segments that are computed again, and mixed precision (row E4). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"
#include "autograd_support.h"

enum { ROWS = 6, COLUMNS = 8, COUNT = ROWS * COLUMNS };

static weft_tensor *leaf(weft_dtype dtype, int64_t rows, int64_t columns, int dim, int number)
{
    double values[COLUMNS * COLUMNS];
    weft_placement placement = dim < 0 ? weft_replicate() : weft_shard(dim);
    for (int64_t i = 0; i < rows * columns; i++) {
        values[i] = 0.25 * sin((double)(i * 3 + number));
    }
    weft_tensor *wide = weft_distribute(WEFT_F64, 2, (int64_t[]){ rows, columns }, values, line(), &placement);
    weft_tensor *tensor = dtype == WEFT_F64 ? wide : weft_to_type(wide, dtype);
    assert_int_equal(weft_set_requires_grad(tensor, true), WEFT_OK);
    return tensor;
}

static void values_of(weft_tensor *tensor, double values[])
{
    assert_non_null(tensor);
    weft_tensor *wide = weft_detach(weft_to_type(tensor, WEFT_F64));
    assert_int_equal(weft_to_host(wide, values, COLUMNS * COLUMNS * sizeof(double)), WEFT_OK);
}

/* ---- segments ---------------------------------------------------------------------------------------------- */

/* What a segment uses beside its inputs. */
typedef struct closure {
    weft_tensor *weight, *scale; /* a leaf; a value computed from one */
    double p;
    int *runs;
    weft_status answer;
} closure;

static weft_status block(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                         weft_tensor *outputs[])
{
    const closure *c = context;
    assert_int_equal(num_inputs, 1);
    assert_int_equal(num_outputs, 2);
    ++*c->runs;
    weft_tensor *h = weft_gelu(weft_matmul(inputs[0], c->weight));
    weft_tensor *dropped = weft_dropout(weft_mul(weft_exp(h), c->scale), c->p, true, NULL);
    outputs[0] = weft_softmax(weft_add(dropped, inputs[0]), 1);
    outputs[1] = weft_sum(weft_mul(dropped, dropped), 1, false);
    return c->answer;
}

static weft_status nested(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[])
{
    weft_tensor *middle[2];
    weft_status status = weft_recompute(block, context, sizeof(closure), num_inputs, inputs, 2, middle);
    return status != WEFT_OK ? status
                             : weft_recompute(block, context, sizeof(closure), 1, middle, num_outputs, outputs);
}

typedef struct outcome {
    double x[COUNT], weight[COLUMNS * COLUMNS], base[COLUMNS * COLUMNS];
    int runs;
} outcome;

typedef enum way { PLAIN, RECOMPUTED, PLAIN_TWICE, NESTED } way;

static void train(way how, int dim, outcome *result)
{
    weft_random_seed(7);
    weft_scope_begin();
    result->runs = 0;
    weft_tensor *x = leaf(WEFT_F64, ROWS, COLUMNS, dim, 0), *weight = leaf(WEFT_F64, COLUMNS, COLUMNS, -1, 1);
    weft_tensor *base = leaf(WEFT_F64, 1, COLUMNS, -1, 2), *outputs[2], *middle[2];
    closure c = { weight, weft_scale(base, 2), 0.3, &result->runs, WEFT_OK };
    weft_tensor *before = weft_mul(x, weft_sigmoid(base));
    weft_status status = how == PLAIN        ? block(&c, 1, &before, 2, outputs)
                         : how == RECOMPUTED ? weft_recompute(block, &c, sizeof(c), 1, &before, 2, outputs)
                         : how == NESTED     ? weft_recompute(nested, &c, sizeof(c), 1, &before, 2, outputs)
                         : block(&c, 1, &before, 2, middle) != WEFT_OK ? WEFT_ERR_INVALID
                                                                        : block(&c, 1, middle, 2, outputs);
    assert_int_equal(status, WEFT_OK);
    weft_rand_like(x); /* the second run does not move the state */
    weft_random_state middle_state, end_state;
    weft_random_state_get(NULL, &middle_state);
    weft_tensor *loss = weft_add(weft_sum(weft_mul(outputs[0], before), WEFT_ALL_DIMS, false),
                                 weft_mean(outputs[1], WEFT_ALL_DIMS, false));
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    weft_random_state_get(NULL, &end_state);
    assert_memory_equal(&middle_state, &end_state, sizeof(end_state));
    values_of(weft_grad(x), result->x);
    values_of(weft_grad(weight), result->weight);
    values_of(weft_grad(base), result->base);
    weft_scope_end();
    assert_no_error();
}

/* The same bits as without, on replicated and sharded inputs. */
static void test_segments(void **state)
{
    (void)state;
    static outcome plain, again;
    for (int dim = -1; dim < 2; dim++) {
        train(PLAIN, dim, &plain);
        train(RECOMPUTED, dim, &again);
        assert_int_equal(plain.runs, 1);
        assert_int_equal(again.runs, 2);
        again.runs = plain.runs;
        for (int i = 0; i < COUNT; i++) {
            assert_float_equal(plain.x[i], again.x[i], 1e-13);
        }
        assert_memory_equal(plain.weight, again.weight, sizeof(plain.weight));
        train(PLAIN_TWICE, dim, &plain);
        train(NESTED, dim, &again);
        for (int i = 0; i < COUNT; i++) {
            assert_float_equal(plain.x[i], again.x[i], 1e-12);
            assert_float_equal(plain.weight[i], again.weight[i], 1e-12);
        }
        for (int i = 0; i < COLUMNS; i++) {
            assert_float_equal(plain.base[i], again.base[i], 1e-12);
        }
    }
}

static weft_status add_named(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                             weft_tensor *outputs[])
{
    (void)context, (void)num_inputs, (void)num_outputs;
    weft_random_state_use("dropout");
    outputs[0] = weft_dropout(weft_sin(inputs[0]), 0.5, true, NULL);
    weft_random_state_use(NULL);
    return WEFT_OK;
}

/* One variable for input and output; random numbers of a named state. */
static void test_segments_in_a_chain(void **state)
{
    (void)state;
    double plain[COLUMNS * COLUMNS], again[COLUMNS * COLUMNS];
    weft_random_state_create("dropout", 3);
    for (int n = 0; n < 2; n++) {
        weft_random_state_set("dropout", (weft_random_state){ 3, 0 });
        weft_scope_begin();
        weft_tensor *leaf_x = leaf(WEFT_F64, ROWS, COLUMNS, 0, 0), *x = leaf_x;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(n == 0 ? add_named(NULL, 1, &x, 1, &x) : weft_recompute(add_named, NULL, 0, 1, &x, 1, &x),
                             WEFT_OK);
        }
        assert_int_equal(weft_backward(weft_sum(x, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        values_of(weft_grad(leaf_x), n == 0 ? plain : again);
        weft_random_state now;
        weft_random_state_get("dropout", &now);
        assert_int_equal(now.offset, 3);
        weft_scope_end();
    }
    for (int i = 0; i < COUNT; i++) {
        assert_float_equal(plain[i], again[i], 1e-13);
    }
    assert_no_error();
}

static weft_status give_back(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                             weft_tensor *outputs[])
{
    (void)num_inputs, (void)num_outputs;
    outputs[0] = inputs[0];
    outputs[1] = *(weft_tensor **)context;
    return WEFT_OK;
}

/* The function returns its input, and a constant: the leaf remains one, and the constant needs no gradient. */
static void test_segments_that_compute_nothing(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = leaf(WEFT_F64, ROWS, COLUMNS, 0, 0), *constant = weft_ones_like(x), *y[2];
    assert_int_equal(weft_recompute(give_back, &constant, sizeof(constant), 1, &x, 2, y), WEFT_OK);
    assert_true(weft_is_leaf(x));
    assert_false(weft_requires_grad(constant));
    assert_int_equal(weft_backward(weft_sum(weft_mul(y[0], y[1]), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    double values[COLUMNS * COLUMNS];
    values_of(weft_grad(x), values);
    for (int i = 0; i < COUNT; i++) {
        assert_float_equal(values[i], 1, 0);
    }
    weft_scope_end();
    assert_no_error();
}

static void test_segments_refuse(void **state)
{
    (void)state;
    int runs = 0;
    weft_scope_begin();
    weft_tensor *x = leaf(WEFT_F64, ROWS, COLUMNS, 0, 0), *weight = leaf(WEFT_F64, COLUMNS, COLUMNS, -1, 1);
    weft_tensor *base = leaf(WEFT_F64, 1, COLUMNS, -1, 2), *outputs[2], *gradient;
    closure c = { weight, base, 0, &runs, WEFT_OK };
    assert_int_equal(weft_recompute(NULL, &c, 0, 1, &x, 2, outputs), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "function is NULL");
    assert_int_equal(weft_recompute(block, &c, 0, 1, NULL, 2, outputs), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "inputs is NULL");
    assert_int_equal(weft_recompute(block, &c, 0, 1, &x, 0, outputs), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "num_outputs");
    c.answer = WEFT_ERR_IO;
    assert_int_equal(weft_recompute(block, &c, 0, 1, &x, 2, outputs), WEFT_ERR_IO);
    weft_clear_error();
    c.answer = WEFT_OK;
    assert_int_equal(weft_recompute(block, &c, 0, 1, &x, 2, outputs), WEFT_OK);
    weft_tensor *loss = weft_sum(outputs[1], 0, false);
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &x, true, &gradient), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_recompute()");
    c.answer = WEFT_ERR_IO; /* in the second run */
    assert_int_equal(weft_backward(loss, NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "weft_recompute()");
    assert_null(weft_grad(x));
    weft_scope_end();
    assert_no_error();
}

static weft_status deep(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                        weft_tensor *outputs[])
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    weft_scope_begin();
    weft_tensor *x = inputs[0];
    for (int i = 0; i < 10; i++) {
        x = weft_sin(x);
    }
    outputs[0] = weft_scope_keep(x);
    weft_scope_end();
    return WEFT_OK;
}

/* Ten values that the gradient of sin reads, or one. */
static void test_segments_save_little(void **state)
{
    (void)state;
    int64_t held[2];
    for (int again = 0; again < 2; again++) {
        weft_scope_begin();
        weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 400, 100 }, line(), NULL), *y;
        weft_set_requires_grad(x, true);
        int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
        if (again == 1) {
            assert_int_equal(weft_recompute(deep, NULL, 0, 1, &x, 1, &y), WEFT_OK);
        } else {
            deep(NULL, 1, &x, 1, &y);
        }
        held[again] = (weft_pool_bytes_in_use(weft_runtime.pool) - before) / (weft_local_ranks() * 400 * 100 * 8);
        weft_scope_end();
    }
    assert_int_equal(held[0], 10); /* x is there anyhow; sin's results are read by the next sin's gradient, the last is y */
    assert_int_equal(held[1], 1);
    assert_no_error();
}

/* ---- mixed precision ----------------------------------------------------------------------------------------- */

static void test_e4_types(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *w = leaf(WEFT_F32, COLUMNS, COLUMNS, 1, 1);
    assert_int_equal(weft_autocast_dtype(), WEFT_BF16);
    weft_runtime.devices.bytes = 1; /* as where a process has a device: tests/device/test_device_empty.c */
    assert_int_equal(weft_autocast_dtype(), WEFT_F16);
    weft_runtime.devices.bytes = 0;
    assert_int_equal(weft_autocast_begin(WEFT_I32), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "dtype is i32");
    assert_int_equal(weft_autocast_end(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_autocast_begin");
    assert_int_equal(weft_tensor_dtype(weft_matmul(x, w)), WEFT_F32);
    assert_int_equal(weft_autocast_begin(WEFT_BF16), WEFT_OK);
    weft_tensor *h = weft_matmul(x, w);
    assert_int_equal(weft_tensor_dtype(h), WEFT_BF16);
    assert_int_equal(weft_tensor_dtype(weft_gelu(h)), WEFT_BF16);
    assert_int_equal(weft_tensor_dtype(weft_softmax(h, 1)), WEFT_F32);
    assert_int_equal(weft_tensor_dtype(weft_sum(h, 0, false)), WEFT_F32);
    assert_int_equal(weft_tensor_dtype(weft_rms_norm(h, NULL, 1e-5)), WEFT_F32);
    assert_int_equal(weft_tensor_dtype(weft_group_norm(h, 1, NULL, NULL, 1e-5)), WEFT_F32);
    assert_int_equal(weft_tensor_dtype(weft_instance_norm(h, NULL, NULL, 1e-5)), WEFT_BF16);
    assert_int_equal(weft_tensor_dtype(weft_matmul(weft_to_type(x, WEFT_F64), weft_to_type(w, WEFT_F64))), WEFT_F64);
    assert_int_equal(weft_autocast_begin(WEFT_F32), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(weft_matmul(x, w)), WEFT_F32);
    assert_int_equal(weft_autocast_end(), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(weft_matmul(x, w)), WEFT_BF16);
    assert_int_equal(weft_autocast_end(), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(weft_matmul(x, w)), WEFT_F32);
    weft_scope_end();
    assert_no_error();
}

/* Attention with each of its options has the region's type, takes what the region makes one type, and tells its gradients. */
static void test_e4_attention(void **state)
{
    (void)state;
    static const int64_t heads[] = { 4, ROWS, COLUMNS }, shared[] = { 2, ROWS, COLUMNS };
    for (int options = 0; options < 4; options++) {
        const weft_attention_options with = { .size = sizeof(with),
                                              .grouped_heads = (options & 1) != 0,
                                              .dropout = options & 2 ? 0.5 : 0 };
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(1, &(int64_t){ weft_world_size() }, NULL);
        weft_tensor *q = weft_randn(WEFT_F32, 3, heads, mesh, NULL), *k = weft_randn(WEFT_F32, 3, options & 1 ? shared : heads, mesh, NULL);
        assert_int_equal(weft_set_requires_grad(q, true), WEFT_OK);
        weft_tensor *half = weft_to_type(k, WEFT_BF16);
        assert_null(weft_attention(q, half, k, &with));
        assert_error(WEFT_ERR_DTYPE, "k is bf16");
        assert_int_equal(weft_autocast_begin(WEFT_BF16), WEFT_OK);
        weft_tensor *result = weft_attention(q, half, k, &with);
        assert_no_error();
        assert_int_equal(weft_tensor_dtype(result), WEFT_BF16);
        assert_int_equal(weft_backward(weft_sum(result, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        assert_int_equal(weft_autocast_end(), WEFT_OK);
        assert_int_equal(weft_tensor_dtype(weft_grad(q)), WEFT_F32);
        weft_scope_end();
    }
    assert_no_error();
}

/* Several passes within one region use one conversion of the leaf. */
static void test_e4_passes(void **state)
{
    (void)state;
    double values[2][COLUMNS * COLUMNS];
    for (int n = 0; n < 2; n++) {
        weft_scope_begin();
        weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *w = leaf(WEFT_F32, COLUMNS, COLUMNS, -1, 1);
        weft_autocast_begin(WEFT_BF16);
        for (int i = 0; i < 3; i++) {
            weft_tensor *loss = weft_sum(weft_scale(weft_matmul(x, w), i + 1), WEFT_ALL_DIMS, false);
            assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
            if (n == 1) {
                weft_autocast_end();
                weft_autocast_begin(WEFT_BF16);
            }
        }
        weft_autocast_end();
        values_of(weft_grad(w), values[n]);
        weft_scope_end();
    }
    assert_memory_equal(values[0], values[1], sizeof(values[0]));
    assert_no_error();
}

/* The gradient of a value that was converted from 32 bits is not rounded to 16, whether the value was moved since or not; what the
 * program asks for has the value's type. */
static void test_e4_sums_stay_wide(void **state)
{
    (void)state;
    enum { STRAIGHT, MOVED, CHOSEN, AGAIN, VARIANTS };
    for (int variant = 0; variant < VARIANTS; variant++) {
        weft_scope_begin();
        weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *w = leaf(WEFT_F32, COLUMNS, COLUMNS, 1, 1);
        weft_tensor *g = weft_detach(leaf(WEFT_BF16, ROWS, COLUMNS, 0, 2)), *left = weft_to_type(x, WEFT_BF16);
        const weft_placement whole = weft_replicate();
        left = variant == MOVED ? weft_redistribute(left, NULL, &whole) : left;
        weft_autocast_begin(WEFT_BF16);
        weft_tensor *y = weft_matmul(left, w);
        weft_autocast_end();
        weft_tensor *inputs[] = { x, w, left }, *gradients[3];
        assert_int_equal(weft_gradients(1, &y, &g, variant == CHOSEN ? 3 : 2, inputs, variant == AGAIN, gradients), WEFT_OK);
        assert_int_equal(weft_tensor_dtype(gradients[0]), WEFT_F32);
        assert_int_equal(weft_tensor_dtype(gradients[1]), WEFT_F32);
        double of_x[COLUMNS * COLUMNS], of_w[COLUMNS * COLUMNS], outer[COLUMNS * COLUMNS], right[COLUMNS * COLUMNS], in[COLUMNS * COLUMNS];
        values_of(gradients[0], of_x);
        values_of(gradients[1], of_w);
        values_of(g, outer);
        values_of(weft_to_type(w, WEFT_BF16), right);
        values_of(left, in);
        double error_of_x = 0, error_of_w = 0;
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < COLUMNS; j++) {
                double expected = 0;
                for (int k = 0; k < COLUMNS; k++) {
                    expected += outer[i * COLUMNS + k] * right[j * COLUMNS + k];
                }
                error_of_x = fmax(error_of_x, fabs(of_x[i * COLUMNS + j] - expected));
            }
        }
        for (int i = 0; i < COLUMNS; i++) {
            for (int j = 0; j < COLUMNS; j++) {
                double expected = 0;
                for (int k = 0; k < ROWS; k++) {
                    expected += in[k * COLUMNS + i] * outer[k * COLUMNS + j];
                }
                error_of_w = fmax(error_of_w, fabs(of_w[i * COLUMNS + j] - expected));
            }
        }
        assert_true(variant == AGAIN ? error_of_w > 1e-5 && error_of_w < 1e-2 : error_of_w < 1e-6);
        assert_true(variant == AGAIN || variant == CHOSEN ? error_of_x > 1e-5 && error_of_x < 1e-2 : error_of_x < 1e-6);
        if (variant == CHOSEN) {
            double again[COLUMNS * COLUMNS];
            assert_int_equal(weft_tensor_dtype(gradients[2]), WEFT_BF16);
            values_of(gradients[2], again);
            assert_memory_equal(again, of_x, ROWS * COLUMNS * sizeof(double));
        }
        weft_scope_end();
    }
    assert_no_error();
}

/* A leaf is converted once, unless it has been written to; its gradient has its type. */
static void test_e4_gradients(void **state)
{
    (void)state;
    double wide[COLUMNS * COLUMNS], narrow[COLUMNS * COLUMNS];
    for (int cast = 0; cast < 2; cast++) {
        weft_scope_begin();
        weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *w = leaf(WEFT_F32, COLUMNS, COLUMNS, -1, 1);
        weft_autocast_begin(cast == 0 ? WEFT_F32 : WEFT_BF16);
        weft_tensor *y = weft_matmul(weft_gelu(weft_matmul(x, w)), w);
        weft_tensor *loss = weft_sum(weft_mul(y, y), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        weft_autocast_end();
        assert_int_equal(weft_tensor_dtype(loss), WEFT_F32);
        assert_int_equal(weft_tensor_dtype(weft_grad(w)), WEFT_F32);
        values_of(weft_grad(w), cast == 0 ? wide : narrow);
        weft_scope_end();
    }
    double difference = 0, size = 0;
    for (int i = 0; i < COLUMNS * COLUMNS; i++) {
        difference = fmax(difference, fabs(wide[i] - narrow[i]));
        size = fmax(size, fabs(wide[i]));
    }
    assert_true(difference > 0 && difference < 0.03 * size);

    weft_scope_begin();
    weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *w = leaf(WEFT_F32, COLUMNS, COLUMNS, -1, 1);
    weft_autocast_begin(WEFT_BF16);
    weft_tensor *first = weft_matmul(x, w);
    weft_no_grad_begin();
    weft_copy_inplace(w, weft_scale(w, 2));
    weft_no_grad_end();
    double once[COLUMNS * COLUMNS], twice[COLUMNS * COLUMNS];
    values_of(first, once);
    values_of(weft_matmul(x, w), twice);
    weft_autocast_end();
    for (int i = 0; i < COUNT; i++) {
        assert_float_equal(twice[i], 2 * once[i], 1e-12);
    }
    weft_scope_end();
    assert_no_error();
}

static void test_e4_list(void **state)
{
    (void)state;
    char text[2000] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");
    assert_int_equal(weft_autocast_print(file), WEFT_OK);
    fclose(file);
    assert_non_null(strstr(text, "16 bits: matmul"));
    assert_non_null(strstr(text, "softmax"));
    assert_int_equal(weft_autocast_print(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "file is NULL");
}

/* Gradients below the smallest number of 16 bits survive; infinite ones halve the scale. */
static void test_loss_scaling(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_loss_scaler scaler = WEFT_LOSS_SCALER_DEFAULT;
    scaler.interval = 2;
    weft_tensor *x = leaf(WEFT_F32, ROWS, COLUMNS, 0, 0), *gradient;
    for (int n = 0; n < 4; n++) {
        bool finite = n == 2;
        weft_zero_grad(1, &x);
        /* The gradient of `half` is 1e-6 / 48 without scaling: less than half of the smallest number, 6e-8. */
        weft_tensor *half = weft_to_type(x, WEFT_F16), *scaled = weft_scale(half, n == 2 ? 60000 : 1e-6);
        weft_tensor *loss = weft_mean(weft_to_type(scaled, WEFT_F32), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_backward(weft_scale_loss(&scaler, loss), NULL), WEFT_OK);
        gradient = weft_grad(x);
        assert_int_equal(weft_unscale_gradients(&scaler, 1, &gradient, &finite), WEFT_OK);
        assert_true(finite == (n != 2));
        double values[COLUMNS * COLUMNS];
        values_of(gradient, values);
        assert_true(n == 2 || fabs(values[0] * COUNT - 1e-6) < 1e-8);
        assert_true(scaler.scale == (n == 0 ? 65536 : n == 1 ? 131072 : 65536));
    }
    bool finite;
    assert_int_equal(weft_unscale_gradients(NULL, 1, &gradient, &finite), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "scaler is NULL");
    assert_int_equal(weft_unscale_gradients(&scaler, 1, NULL, &finite), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "gradients is NULL");
    scaler.scale = 0;
    assert_null(weft_scale_loss(&scaler, x));
    assert_error(WEFT_ERR_INVALID, "scale 0");
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),  cmocka_unit_test(test_segments_refuse),
        cmocka_unit_test(test_segments_save_little),
        cmocka_unit_test(test_e4_types),  cmocka_unit_test(test_e4_gradients),
        cmocka_unit_test(test_e4_list),   cmocka_unit_test(test_e4_passes), cmocka_unit_test(test_e4_sums_stay_wide), cmocka_unit_test(test_e4_attention),
        cmocka_unit_test(test_segments_in_a_chain), cmocka_unit_test(test_segments_that_compute_nothing),   cmocka_unit_test(test_loss_scaling),
    };
    return RUN_ON_RANKS(tests);
}
