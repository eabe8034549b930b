/* Refusals of operations, their own and common ones, without any effect; indices out of range, which tasks
 * find. */
#include "dispatch_support.h"

#include "ops/backward.h"
#include "sharding/types.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what every operation refuses ---------------------------------------------------------------------- */

/* Calls of up to three tensors in one form, so that a table can have them. */
typedef weft_tensor *(*call_function)(weft_tensor *, weft_tensor *, weft_tensor *);

#define CALL(name, expression)                                                                               \
    static weft_tensor *call_##name(weft_tensor *a, weft_tensor *b, weft_tensor *c)                          \
    {                                                                                                        \
        (void)a;                                                                                             \
        (void)b;                                                                                             \
        (void)c;                                                                                             \
        return expression;                                                                                   \
    }
CALL(add, weft_add(a, b))
CALL(sub, weft_sub(a, b))
CALL(mul, weft_mul(a, b))
CALL(scale, weft_scale(a, 2))
CALL(add_inplace, weft_add_inplace(a, b, 2))
CALL(relu, weft_relu(a))
CALL(relu_backward, weft_relu_backward(a, b))
CALL(gelu, weft_gelu(a))
CALL(gelu_backward, weft_gelu_backward(a, b))
CALL(matmul, weft_matmul(a, b))
CALL(matmul_ex, weft_matmul_ex(a, false, b, false))
CALL(sum, weft_sum(a, 0, false))
CALL(sum_all, weft_sum(a, WEFT_ALL_DIMS, false))
CALL(embedding, weft_embedding(a, b))
CALL(embedding_backward, weft_embedding_backward(a, b, 7))
CALL(cross_entropy, weft_cross_entropy(a, b, NULL))
CALL(cross_entropy_backward, weft_cross_entropy_backward(c, a, b))
CALL(softmax, weft_softmax(a, 1))
CALL(softmax_backward, weft_softmax_backward(a, b, 1))
CALL(layer_norm_backward, weft_layer_norm_backward(b, a, NULL, 0, NULL, NULL))
CALL(nll, weft_nll(a, b, -100, WEFT_LOSS_MEAN))
CALL(mse, weft_mse(a, b, WEFT_LOSS_SUM))
CALL(mse_backward, weft_mse_backward(c, a, b, WEFT_LOSS_SUM))
static const int64_t reshaped[] = { 36 };
CALL(reshape, weft_reshape(a, 1, reshaped))

/* Refusals of a call with one wrong input; arguments[i] is the name of input i. */
typedef struct operation_row {
    row_place place;
    const char *function;
    call_function call;
    const char *arguments[3]; /* NULL: it has no more */
    int ndim[3];              /* of valid inputs; all sizes are 6 */
    bool index[3];            /* an index type is right */
    unsigned types;           /* that are right for the others */
    bool mixed;               /* they may differ */
} operation_row;

static const operation_row operations[] = {
    { THIS_ROW, "weft_add", call_add, { "a", "b" }, { 2, 2 }, { 0 }, WEFT_TYPES_ALL, true },
    { THIS_ROW, "weft_sub", call_sub, { "a", "b" }, { 2, 2 }, { 0 }, WEFT_TYPES_NUMBER, true },
    { THIS_ROW, "weft_mul", call_mul, { "a", "b" }, { 2, 2 }, { 0 }, WEFT_TYPES_ALL, true },
    { THIS_ROW, "weft_scale", call_scale, { "a" }, { 2 }, { 0 }, WEFT_TYPES_NUMBER, true },
    { THIS_ROW,
      "weft_add_inplace",
      call_add_inplace,
      { "a", "b" },
      { 2, 2 },
      { 0 },
      WEFT_TYPES_NUMBER,
      true },
    { THIS_ROW, "weft_relu", call_relu, { "a" }, { 2 }, { 0 }, WEFT_TYPES_NUMBER, true },
    { THIS_ROW,
      "weft_relu_backward",
      call_relu_backward,
      { "gradient", "input" },
      { 2, 2 },
      { 0 },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW, "weft_gelu", call_gelu, { "a" }, { 2 }, { 0 }, WEFT_TYPES_FLOAT, true },
    { THIS_ROW,
      "weft_gelu_backward",
      call_gelu_backward,
      { "gradient", "input" },
      { 2, 2 },
      { 0 },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW, "weft_matmul", call_matmul, { "a", "b" }, { 2, 2 }, { 0 }, WEFT_TYPES_NUMBER, false },
    { THIS_ROW, "weft_matmul_ex", call_matmul_ex, { "a", "b" }, { 3, 3 }, { 0 }, WEFT_TYPES_NUMBER, false },
    { THIS_ROW, "weft_sum", call_sum, { "a" }, { 2 }, { 0 }, WEFT_TYPES_ALL, true },
    { THIS_ROW, "weft_sum", call_sum_all, { "a" }, { 2 }, { 0 }, WEFT_TYPES_ALL, true },
    { THIS_ROW,
      "weft_embedding",
      call_embedding,
      { "table", "indices" },
      { 2, 1 },
      { false, true },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW,
      "weft_embedding_backward",
      call_embedding_backward,
      { "gradient", "indices" },
      { 2, 1 },
      { false, true },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW,
      "weft_cross_entropy",
      call_cross_entropy,
      { "logits", "targets" },
      { 2, 1 },
      { false, true },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW,
      "weft_cross_entropy_backward",
      call_cross_entropy_backward,
      { "logits", "targets", "gradient" },
      { 2, 1, 0 },
      { false, true },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW, "weft_softmax", call_softmax, { "a" }, { 2 }, { 0 }, WEFT_TYPES_FLOAT, true },
    { THIS_ROW,
      "weft_softmax_backward",
      call_softmax_backward,
      { "gradient", "output" },
      { 2, 2 },
      { 0 },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW,
      "weft_layer_norm_backward",
      call_layer_norm_backward,
      { "a", "gradient" },
      { 2, 2 },
      { 0 },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW,
      "weft_nll",
      call_nll,
      { "log_probabilities", "targets" },
      { 2, 1 },
      { false, true },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW, "weft_mse", call_mse, { "a", "b" }, { 2, 2 }, { 0 }, WEFT_TYPES_FLOAT, false },
    { THIS_ROW,
      "weft_mse_backward",
      call_mse_backward,
      { "a", "b", "gradient" },
      { 2, 2, 0 },
      { 0 },
      WEFT_TYPES_FLOAT,
      false },
    { THIS_ROW, "weft_reshape", call_reshape, { "a" }, { 2 }, { 0 }, WEFT_TYPES_ALL, true },
};

static weft_tensor *sixes(weft_dtype dtype, int ndim, weft_mesh *mesh)
{
    int64_t shape[] = { 6, 6, 6 };
    weft_tensor *tensor = weft_zeros(dtype, ndim, shape, mesh, NULL);
    assert_no_error();
    return tensor;
}

static int count_inputs(const operation_row *row)
{
    int count = 0;
    while (count < 3 && row->arguments[count] != NULL) {
        count++;
    }
    return count;
}

static void right_inputs(const operation_row *row, weft_tensor *inputs[3])
{
    for (int i = 0; i < 3; i++) {
        inputs[i] =
            i < count_inputs(row) ? sixes(row->index[i] ? WEFT_I64 : WEFT_F32, row->ndim[i], line()) : NULL;
    }
}

/* Made last, so that no other tensor has its address. */
static weft_tensor *released(void)
{
    weft_scope_begin();
    weft_tensor *tensor = sixes(WEFT_F32, 2, line());
    weft_scope_end();
    return tensor;
}

static weft_tensor *const a_released_one = (weft_tensor *)(uintptr_t)1;

/* Puts `wrong` in place of input i. */
static void refused_with(const operation_row *row, int i, weft_tensor *wrong, weft_status status,
                         const char *text)
{
    weft_tensor *inputs[3];
    right_inputs(row, inputs);
    inputs[i] = wrong == a_released_one ? released() : wrong;
    expect_no_more_tasks();
    char expected[200];
    snprintf(expected, sizeof(expected), "%s%s%s", row->arguments[i], text[0] == '\0' ? "" : " ", text);
    refused(row->call(inputs[0], inputs[1], inputs[2]), status, row->function, expected);
}

/* `check` is done with each row and each of its inputs, from `first` on. */
static void for_all_inputs(const char *test, int first, void (*check)(const operation_row *row, int i))
{
    for (size_t r = 0; r < sizeof(operations) / sizeof(operations[0]); r++) {
        enter_row(operations[r].place, test);
        weft_scope_begin();
        for (int i = first; i < count_inputs(&operations[r]); i++) {
            check(&operations[r], i);
        }
        weft_scope_end();
    }
    leave_rows();
}

static void check_null_and_released(const operation_row *row, int i)
{
    if (strcmp(row->arguments[i], "gradient") != 0 || i == 0) { /* else NULL means 1 */
        refused_with(row, i, NULL, WEFT_ERR_INVALID, "is NULL");
    }
    refused_with(row, i, a_released_one, WEFT_ERR_INVALID, "(0x");
}

static void test_null_and_released(void **state)
{
    (void)state;
    for_all_inputs(__func__, 0, check_null_and_released);
}

static void check_wrong_types(const operation_row *row, int i)
{
    for (int dtype = 0; dtype < REAL_TYPES; dtype++) {
        unsigned types = row->index[i] ? WEFT_TYPES_INDEX : row->types;
        bool accepted = (types & WEFT_TYPE_BIT(dtype)) != 0,
             alike = i > 0 && !row->index[i] && !row->mixed; /* as input 0, which is f32 */
        if (!accepted || (alike && dtype != WEFT_F32)) {
            char text[60];
            snprintf(text, sizeof(text), "is %s, expected", weft_dtype_name((weft_dtype)dtype));
            refused_with(row, i, sixes((weft_dtype)dtype, row->ndim[i], line()), WEFT_ERR_DTYPE, text);
        }
    }
}

static void test_wrong_types(void **state)
{
    (void)state;
    for_all_inputs(__func__, 0, check_wrong_types);
}

static void check_wrong_mesh(const operation_row *row, int i)
{
    weft_dtype dtype = row->index[i] ? WEFT_I64 : WEFT_F32;
    if (row->ndim[i] > 0) { /* scalars are moved by themselves: test_meshes.c */
        refused_with(row, i, sixes(dtype, row->ndim[i], grid()), WEFT_ERR_MESH,
                     "on mesh 2x3 (data, model): weft_redistribute()");
    }
}

static void test_wrong_meshes(void **state)
{
    (void)state;
    for_all_inputs(__func__, 1, check_wrong_mesh);
    /* The same shape, other ranks. */
    int ranks[] = { 5, 4, 3, 2 };
    int64_t mesh_shape[] = { 4 };
    weft_mesh *other = weft_mesh_of_ranks(1, mesh_shape, ranks, NULL);
    weft_tensor *a = sixes(WEFT_F32, 1, line()), *b = sixes(WEFT_F32, 1, other);
    expect_no_more_tasks();
    refused(weft_add(a, b), WEFT_ERR_MESH, "weft_add", "a is on mesh 4 and b on mesh 4 of ranks 5, 4, 3, 2");
    assert_non_null(weft_add(a, weft_redistribute(b, line(), NULL)));
    assert_no_error();
}

/* ---- what each refuses by itself ----------------------------------------------------------------------- */

static void test_wrong_shapes(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *m46 = ones(WEFT_F32, 4, 6, -1), *m65 = ones(WEFT_F32, 6, 5, -1),
                *m16 = ones(WEFT_F32, 1, 6, -1);
    weft_tensor *b234 = ones(WEFT_F32, 2, 3, 4), *v6 = ones(WEFT_F32, 6, -1, -1),
                *scalar = ones(WEFT_F32, -1, -1, -1);
    weft_tensor *indices = ones(WEFT_I64, 4, -1, -1), *indices2 = ones(WEFT_I64, 4, 6, -1);
    expect_no_more_tasks();
    refused(weft_add(m46, m65), WEFT_ERR_SHAPE, "weft_add", "b has size 6 in dimension 0, expected 4 or 1");
    refused(weft_sub(m46, b234), WEFT_ERR_SHAPE, "weft_sub", "b has size 3 in dimension 1, expected 4 or 1");
    refused(weft_mul(b234, v6), WEFT_ERR_SHAPE, "weft_mul", "b has size 6 in dimension 0, expected 4 or 1");
    refused(weft_add_inplace(v6, m46, 1), WEFT_ERR_SHAPE, "weft_add_inplace", "b, f32[4, 6]");
    refused(weft_add_inplace(m16, m46, 1), WEFT_ERR_SHAPE, "weft_add_inplace", "does not broadcast to a");
    refused(weft_relu_backward(m46, v6), WEFT_ERR_SHAPE, "weft_relu_backward",
            "input has 1 dimension, expected 2");
    refused(weft_gelu_backward(m46, m16), WEFT_ERR_SHAPE, "weft_gelu_backward",
            "input has size 1 in dimension 0");
    refused(weft_matmul(m46, m46), WEFT_ERR_SHAPE, "weft_matmul", "b has size 4 in dimension 0, expected 6");
    refused(weft_matmul(v6, m46), WEFT_ERR_SHAPE, "weft_matmul", "b has size 4 in dimension 0, expected 6");
    refused(weft_matmul_ex(v6, true, m65, false), WEFT_ERR_SHAPE, "weft_matmul_ex",
            "a has 1 dimension, expected at least 2");
    refused(weft_matmul(scalar, m65), WEFT_ERR_SHAPE, "weft_matmul", "a has 0 dimensions");
    refused(weft_matmul(b234, m65), WEFT_ERR_SHAPE, "weft_matmul", "b has size 6 in dimension 0, expected 4");
    refused(weft_matmul_ex(m46, true, m65, false), WEFT_ERR_SHAPE, "weft_matmul_ex",
            "b has size 6 in dimension 0, expected 4");
    refused(weft_matmul_ex(m46, false, m65, true), WEFT_ERR_SHAPE, "weft_matmul_ex",
            "b has size 5 in dimension 1, expected 6");
    refused(weft_sum(m46, 2, false), WEFT_ERR_INVALID, "weft_sum", "dim is 2");
    refused(weft_sum(m46, -3, true), WEFT_ERR_INVALID, "weft_sum", "dim is -3");
    refused(weft_sum(scalar, 1, true), WEFT_ERR_INVALID, "weft_sum", "dim is 1");
    refused(weft_embedding(v6, indices), WEFT_ERR_SHAPE, "weft_embedding",
            "table has 1 dimension, expected 2");
    refused(weft_embedding_backward(m65, indices, 3), WEFT_ERR_SHAPE, "weft_embedding_backward",
            "indices has size 4");
    refused(weft_embedding_backward(m46, indices2, 3), WEFT_ERR_SHAPE, "weft_embedding_backward",
            "indices has 2 dimensions, expected 1");
    refused(weft_embedding_backward(m46, indices, -1), WEFT_ERR_INVALID, "weft_embedding_backward",
            "num_rows is -1");
    refused(weft_embedding_backward(m46, indices, INT64_MAX / 2), WEFT_ERR_SHAPE, "weft_embedding_backward",
            "shape");
    refused(weft_cross_entropy(m65, indices, NULL), WEFT_ERR_SHAPE, "weft_cross_entropy",
            "targets has size 4 in dimension 0, expected 6");
    refused(weft_cross_entropy(v6, indices, NULL), WEFT_ERR_SHAPE, "weft_cross_entropy", "logits has 1 dimension");
    refused(weft_cross_entropy(m46, indices2, NULL), WEFT_ERR_SHAPE, "weft_cross_entropy",
            "targets has 2 dimensions");
    refused(weft_cross_entropy(ones(WEFT_F32, 4, 0, -1), indices, NULL), WEFT_ERR_SHAPE, "weft_cross_entropy",
            "0 classes");
    refused(weft_cross_entropy_backward(v6, m46, indices), WEFT_ERR_SHAPE, "weft_cross_entropy_backward",
            "gradient has 1 dimension, expected 0");
    weft_scope_end();
}

static void test_wrong_reshapes(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *m46 = ones(WEFT_F32, 4, 6, -1), *empty = ones(WEFT_F32, 0, 6, -1);
    static const struct {
        row_place place;
        int ndim;
        int64_t shape[3];
        weft_status status;
        const char *text;
    } cases[] = {
        { THIS_ROW, 2, { 5, 5 }, WEFT_ERR_SHAPE, "a has shape [4, 6], which does not become shape [5, 5]" },
        { THIS_ROW, 2, { -1, 5 }, WEFT_ERR_SHAPE, "which does not become shape [-1, 5]" },
        { THIS_ROW, 2, { -1, -1 }, WEFT_ERR_SHAPE, "-1 in dimensions 0 and 1" },
        { THIS_ROW, 2, { -2, 12 }, WEFT_ERR_SHAPE, "shape[0] is -2" },
        { THIS_ROW, 2, { -1, 0 }, WEFT_ERR_SHAPE, "does not become" },
        { THIS_ROW, 0, { 0 }, WEFT_ERR_SHAPE, "does not become shape []" },
        { THIS_ROW, 9, { 24 }, WEFT_ERR_INVALID, "ndim is 9" },
        { THIS_ROW, -1, { 24 }, WEFT_ERR_INVALID, "ndim is -1" },
        { THIS_ROW, 3, { INT64_MAX, INT64_MAX, 4 }, WEFT_ERR_SHAPE, "shape" },
    };
    expect_no_more_tasks();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enter_row(cases[i].place, __func__);
        refused(weft_reshape(m46, cases[i].ndim, cases[i].shape), cases[i].status, "weft_reshape",
                cases[i].text);
    }
    leave_rows();
    refused(weft_reshape(m46, 2, NULL), WEFT_ERR_INVALID, "weft_reshape", "shape is NULL");
    int64_t unknown[] = { -1, 0 };
    refused(weft_reshape(empty, 2, unknown), WEFT_ERR_SHAPE, "weft_reshape", "does not become");
    weft_scope_end();
}

static void test_partial_target(void **state)
{
    (void)state;
    weft_scope_begin();
    int64_t shape[] = { 5 };
    double values[NUM_RANKS][5] = { { 0 } };
    void *locals[NUM_RANKS];
    for (int i = 0; i < NUM_RANKS; i++) {
        locals[i] = values[i];
    }
    weft_placement sum = weft_partial(WEFT_SUM), max = weft_partial(WEFT_MAX);
    weft_tensor *target = weft_from_local(WEFT_F64, 1, shape, locals, line(), &sum, WEFT_COPY);
    weft_tensor *other = weft_from_local(WEFT_F64, 1, shape, locals, line(), &max, WEFT_COPY);
    weft_tensor *whole = ones(WEFT_F64, 5, -1, -1);
    expect_no_more_tasks();
    refused(weft_add_inplace(target, whole, 1), WEFT_ERR_LAYOUT, "weft_add_inplace", "redistribute the target first");
    refused(weft_add_inplace(target, other, 1), WEFT_ERR_LAYOUT, "weft_add_inplace", "P(sum)");
    assert_ptr_equal(weft_add_inplace(target, target, 1), target);
    assert_no_error();
    weft_scope_end();
}

/* One check at the end of a chain is enough, and reports the first error. The library continues. */
static void test_chain_after_an_error(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = ones(WEFT_F32, 4, 6, -1);
    expect_no_more_tasks();
    weft_tensor *result = weft_sum(weft_relu(weft_add(weft_matmul(a, a), a)), WEFT_ALL_DIMS, false);
    assert_null(result);
    assert_int_equal(tasks(), tasks_before);
    assert_error(WEFT_ERR_SHAPE, "weft_matmul: b has size 4");
    float sum = 0;
    assert_int_equal(
        weft_to_host(weft_sum(weft_relu(weft_add(a, a)), WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 48);
    weft_scope_end();
}

static void test_before_init(void **state)
{
    (void)state;
    assert_null(weft_add(NULL, NULL));
    assert_error(WEFT_ERR_STATE, "weft_add");
    assert_null(weft_reshape(NULL, 0, NULL));
    assert_error(WEFT_ERR_STATE, "weft_reshape");
    assert_null(weft_sum(NULL, 0, false));
    assert_error(WEFT_ERR_STATE, "weft_sum");
}

/* ---- indices out of range ------------------------------------------------------------------------------ */

static void test_bad_indices(void **state)
{
    (void)state;
    static const char *const layouts[][2] = {
        { "R", "R" }, { "S0", "R" }, { "R", "S0" }, { "S1", "R" }, { "S0", "S0" }
    };
    double table[7][3], row[3] = { 0 };
    for (int i = 0; i < 21; i++) {
        table[i / 3][i % 3] = i + 1;
    }
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        for (int bad = -1; bad <= 7; bad += 8) {
            weft_scope_begin();
            weft_placement placements[2];
            for (int i = 0; i < 2; i++) {
                assert_int_equal(weft_placements_parse(layouts[l][i], 1, &placements[i]), WEFT_OK);
            }
            int64_t table_shape[] = { 7, 3 }, shape[] = { 5 };
            int32_t indices[] = { 6, 0, bad, 3, 6 };
            double result[5][3];
            weft_tensor *t = weft_distribute(WEFT_F64, 2, table_shape, table, line(), &placements[0]);
            weft_tensor *i = weft_distribute(WEFT_I32, 1, shape, indices, line(), &placements[1]);
            weft_tensor *found = weft_embedding(t, i);
            assert_no_error();
            assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
            char text[60];
            snprintf(text, sizeof(text), "indices has %d, expected 0 to 6", bad);
            assert_error(WEFT_ERR_INVALID, text);
            assert_int_equal(weft_to_host(found, result, sizeof(result)), WEFT_OK);
            for (int r = 0; r < 5; r++) {
                assert_memory_equal(result[r], r == 2 ? row : table[indices[r]], sizeof(row));
            }
            weft_tensor *gradient = weft_embedding_backward(found, i, 7);
            assert_no_error();
            assert_non_null(gradient);
            assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
            assert_error(WEFT_ERR_INVALID, "weft_embedding_backward");
            weft_scope_end();
        }
    }
}

static void test_bad_targets(void **state)
{
    (void)state;
    weft_scope_begin();
    int64_t shape[] = { 3, 4 }, targets[] = { 1, 4, 0 };
    weft_tensor *logits = ones(WEFT_F64, 3, 4, -1);
    weft_tensor *t = weft_distribute(WEFT_I64, 1, shape, targets, line(), NULL);
    weft_tensor *loss = weft_cross_entropy(logits, t, NULL);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy: targets has 4, expected 0 to 3");
    double value;
    assert_int_equal(weft_to_host(loss, &value, sizeof(value)), WEFT_OK);
    assert_true(fabs(value - 2 * log(4) / 3) < 1e-14);
    weft_cross_entropy_backward(NULL, logits, t);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy_backward: targets has 4");
    weft_scope_end();
}

/* A table without rows: every index is wrong. */
static void test_empty_table(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *indices = ones(WEFT_I64, 5, -1, -1);
    double result[15];
    weft_tensor *found = weft_embedding(ones(WEFT_F64, 0, 3, -1), indices);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "indices has 1");
    assert_int_equal(weft_to_host(found, result, sizeof(result)), WEFT_OK);
    for (int i = 0; i < 15; i++) {
        assert_true(result[i] == 0);
    }
    weft_scope_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_null_and_released, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_types, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_meshes, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_shapes, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_reshapes, start, stop),
        cmocka_unit_test_setup_teardown(test_partial_target, start, stop),
        cmocka_unit_test_setup_teardown(test_chain_after_an_error, start, stop),
        cmocka_unit_test(test_before_init),
        cmocka_unit_test_setup_teardown(test_bad_indices, start, stop),
        cmocka_unit_test_setup_teardown(test_bad_targets, start, stop),
        cmocka_unit_test_setup_teardown(test_empty_table, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
