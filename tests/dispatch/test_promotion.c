/* Operands of different types are converted to their common type before the operation: the result equals
 * that of operands converted by weft_to_type(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "operand.h"
#include "ops/backward.h"

/* ---- PyTorch's rule for types, once more --------------------------------------------------------------- */

static int category(weft_dtype type)
{
    return type == WEFT_BOOL ? 0 : type == WEFT_I64 || type == WEFT_I32 || type == WEFT_U8 ? 1 : 2;
}

static weft_dtype promote(weft_dtype a, weft_dtype b)
{
    static const weft_dtype by_rank[] = { WEFT_BOOL, WEFT_U8,  WEFT_I32, WEFT_I64,
                                          WEFT_BF16, WEFT_F32, WEFT_F64 };
    if ((a == WEFT_BF16 && b == WEFT_F16) || (a == WEFT_F16 && b == WEFT_BF16)) {
        return WEFT_F32;
    }
    int rank = 0;
    for (int i = 0; i < 7; i++) {
        rank = a == by_rank[i] || b == by_rank[i] ? i : rank;
    }
    bool half = (a == WEFT_F16 || b == WEFT_F16) && by_rank[rank] != WEFT_F32 && by_rank[rank] != WEFT_F64;
    return half ? WEFT_F16 : by_rank[rank];
}

/* ---- operands ------------------------------------------------------------------------------------------ */

enum { LENGTH = 13, WIDTH = 3 };

/* Shape of an operand in the result's shape, [LENGTH, WIDTH]. */
typedef enum mixed_form { FULL, ROW, ONE, SCALAR, FORMS } mixed_form;

typedef struct mixed {
    weft_dtype type;
    mixed_form form;
    weft_tensor *tensor;
} mixed;

/* Few and small: what is looked for is in the values. */
static weft_mesh *meshes[3];

static void start(uint64_t seed)
{
    source = prng_start(seed);
    start_world("WEFT_PANEL_ROWS", "8");
    meshes[0] = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    meshes[1] = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    meshes[2] = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
}

static weft_mesh *any_small_mesh(void)
{
    return meshes[below(3)];
}

/* Whole numbers at the edges of narrower types, real ones of more bits than 16-bit types have. */
static double any_value(weft_dtype type)
{
    static const double edges[] = {
        0, 1, -1, 127, 128, 255, 256, 257, 2049, 65519, 0x1p31, 0x1p32, 0x1p32 + 7
    };
    double edge = edges[below(sizeof(edges) / sizeof(edges[0]))];
    switch (type) {
    case WEFT_BOOL:
        return (double)below(2);
    case WEFT_U8:
        return (double)below(256);
    case WEFT_I32:
        return fmod(below(2) ? edge : -edge, 0x1p31);
    case WEFT_I64:
        return below(3) ? (double)(below(2001) - 1000) : below(2) ? edge : -edge;
    default:
        return below(6) == 0 ? edge : (double)(below(100001) - 50000) / 0x1p14;
    }
}

static mixed make(weft_mesh *mesh, weft_dtype type, mixed_form form, bool divisor)
{
    static const int64_t shapes[FORMS][2] = { { LENGTH, WIDTH }, { WIDTH }, { 1 }, { 0 } };
    static const int ndims[FORMS] = { 2, 1, 1, 0 };
    double values[LENGTH * WIDTH];
    int64_t wholes[LENGTH * WIDTH];
    for (int i = 0; i < LENGTH * WIDTH; i++) {
        values[i] = any_value(type);
        values[i] = divisor && fmod(values[i], 256) == 0 ? 3 : values[i];
        wholes[i] = (int64_t)values[i];
    }
    weft_placement placements[3];
    random_placements(&source, mesh, ndims[form], false, placements);
    bool real = category(type) == 2;
    weft_tensor *wide = weft_distribute(real ? WEFT_F64 : WEFT_I64, ndims[form], shapes[form],
                                        real ? (void *)values : wholes, mesh, placements);
    return (mixed){ type, form, weft_to_type(wide, type) };
}

/* The operand with all dimensions of the result, in another type. */
static weft_tensor *spread(const mixed *x, weft_dtype type)
{
    return weft_expand(weft_to_type(x->tensor, type), 2, (int64_t[]){ LENGTH, WIDTH });
}

static weft_dtype common_type(int count, const mixed x[])
{
    bool any[2] = { false, false };
    weft_dtype types[2] = { WEFT_BOOL, WEFT_BOOL };
    for (int i = 0; i < count; i++) {
        int which = x[i].form != SCALAR;
        types[which] = any[which] ? promote(types[which], x[i].type) : x[i].type;
        any[which] = true;
    }
    if (!any[0] || !any[1]) {
        return types[any[1]];
    }
    return category(types[0]) > category(types[1]) ? promote(types[0], types[1]) : types[1];
}

static bool has_16_bits(weft_dtype type)
{
    return weft_dtype_size(type) == 2;
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

/* Bit for bit, but for the bits of NaN. */
static void check_same(weft_tensor *got, weft_tensor *expected, const char *name, int count, const mixed x[])
{
    assert_no_error();
    unsigned char a[LENGTH * WIDTH * 8], b[LENGTH * WIDTH * 8];
    weft_dtype type = weft_tensor_dtype(expected);
    size_t size = weft_dtype_size(type);
    bool same = weft_tensor_dtype(got) == type && weft_tensor_ndim(got) == weft_tensor_ndim(expected);
    assert_true(same);
    assert_int_equal(weft_to_host(got, a, sizeof(a)), WEFT_OK);
    assert_int_equal(weft_to_host(expected, b, sizeof(b)), WEFT_OK);
    double real[2][LENGTH * WIDTH];
    weft_to_host(weft_to_type(got, WEFT_F64), real[0], sizeof(real[0]));
    weft_to_host(weft_to_type(expected, WEFT_F64), real[1], sizeof(real[1]));
    for (size_t i = 0; i < LENGTH * WIDTH; i++) {
        if (memcmp(a + i * size, b + i * size, size) != 0 && !(isnan(real[0][i]) && isnan(real[1][i]))) {
            static const char *const forms[FORMS] = { "[13,3]", "[3]", "[1]", "[]" };
            char text[100];
            weft_text written = weft_text_in(text, sizeof(text));
            for (int k = 0; k < count; k++) {
                weft_text_add(&written, " %s%s", weft_dtype_name(x[k].type), forms[x[k].form]);
            }
            fail_msg("%s of%s: element %d is %.17g, expected %.17g", name, text, (int)i, real[0][i],
                     real[1][i]);
        }
    }
}

/* ---- two operands -------------------------------------------------------------------------------------- */

typedef struct binary {
    row_place place;
    const char *name;
    weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
    int least;     /* category of the operands */
    bool floating; /* integers give WEFT_F32 */
    bool exact;    /* a second operand of one element is not rounded to 16 bits */
    bool divides;
} binary;

static weft_tensor *add_scaled(weft_tensor *a, weft_tensor *b)
{
    return weft_add_scaled(a, b, 3);
}

static weft_tensor *lerp(weft_tensor *a, weft_tensor *b)
{
    return weft_lerp(a, b, 0.75);
}

static const binary binaries[] = {
    { THIS_ROW, "add", weft_add, 0, false, false, false },
    { THIS_ROW, "sub", weft_sub, 1, false, false, false },
    { THIS_ROW, "mul", weft_mul, 0, false, true, false },
    { THIS_ROW, "div", weft_div, 0, true, true, false },
    { THIS_ROW, "floor_div", weft_floor_div, 1, false, false, true },
    { THIS_ROW, "remainder", weft_remainder, 1, false, false, true },
    { THIS_ROW, "fmod", weft_fmod, 1, false, false, true },
    { THIS_ROW, "pow", weft_pow, 1, false, false, false },
    { THIS_ROW, "maximum", weft_maximum, 0, false, false, false },
    { THIS_ROW, "minimum", weft_minimum, 0, false, false, false },
    { THIS_ROW, "atan2", weft_atan2, 0, true, false, false },
    { THIS_ROW, "hypot", weft_hypot, 2, false, false, false },
    { THIS_ROW, "logaddexp", weft_logaddexp, 2, false, false, false },
    { THIS_ROW, "eq", weft_eq, 0, false, false, false },
    { THIS_ROW, "ne", weft_ne, 0, false, false, false },
    { THIS_ROW, "lt", weft_lt, 0, false, false, false },
    { THIS_ROW, "le", weft_le, 0, false, false, false },
    { THIS_ROW, "gt", weft_gt, 0, false, false, false },
    { THIS_ROW, "ge", weft_ge, 0, false, false, false },
    { THIS_ROW, "logical_and", weft_logical_and, 0, false, false, false },
    { THIS_ROW, "logical_or", weft_logical_or, 0, false, false, false },
    { THIS_ROW, "logical_xor", weft_logical_xor, 0, false, false, false },
    { THIS_ROW, "add_scaled", add_scaled, 1, false, false, false },
    { THIS_ROW, "lerp", lerp, 2, false, false, false },
};

/* The expected result, from operands of one type. */
static weft_tensor *converted_first(const binary *b, const mixed x[2])
{
    weft_dtype common = common_type(2, x);
    common = b->floating && category(common) < 2 ? WEFT_F32 : common;
    if (b->exact && (x[1].form == ONE || x[1].form == SCALAR) && has_16_bits(common)) {
        weft_tensor *first = weft_to_type(spread(&x[0], common), WEFT_F32);
        return weft_to_type(b->call(first, spread(&x[1], WEFT_F32)), common);
    }
    return b->call(spread(&x[0], common), spread(&x[1], common));
}

static void check_binary(const binary *b, const mixed x[2])
{
    check_same(b->call(x[0].tensor, x[1].tensor), converted_first(b, x), b->name, 2, x);
}

static void test_two(void **state)
{
    (void)state;
    start(21);
    for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++) {
        const binary *b = &binaries[i];
        enter_row(b->place, __func__);
        for (int types = 0; types < REAL_TYPES * REAL_TYPES; types++) {
            weft_dtype first = (weft_dtype)(types % REAL_TYPES),
                       second = (weft_dtype)(types / REAL_TYPES);
            if (category(first) < b->least || category(second) < b->least) {
                continue;
            }
            weft_scope_begin();
            weft_mesh *mesh = any_small_mesh();
            mixed whole = make(mesh, first, FULL, false);
            check_binary(b, (mixed[]){ whole, make(mesh, second, FULL, b->divides) });
            check_binary(b, (mixed[]){ whole, make(mesh, second, SCALAR, b->divides) });
            check_binary(b, (mixed[]){ whole, make(mesh, second, below(2) ? ROW : ONE, b->divides) });
            whole = make(mesh, second, FULL, b->divides);
            check_binary(b, (mixed[]){ make(mesh, first, (mixed_form)(1 + below(3)), false), whole });
            weft_scope_end();
        }
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- three operands ------------------------------------------------------------------------------------ */

static weft_dtype any_of(int least)
{
    for (;;) {
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        if (category(type) >= least) {
            return type;
        }
    }
}

static weft_tensor *addcmul(weft_tensor *a, weft_tensor *b, weft_tensor *c)
{
    return weft_addcmul(a, b, c, 2);
}

static weft_tensor *addcdiv(weft_tensor *a, weft_tensor *b, weft_tensor *c)
{
    return weft_addcdiv(a, b, c, 2);
}

static void check_ternary(weft_tensor *(*call)(weft_tensor *, weft_tensor *, weft_tensor *), const char *name,
                          int least)
{
    weft_scope_begin();
    weft_mesh *mesh = any_small_mesh();
    mixed x[3];
    int64_t whole = below(3);
    for (int i = 0; i < 3; i++) {
        x[i] = make(mesh, any_of(least), i == whole ? FULL : (mixed_form)below(FORMS), false);
    }
    weft_dtype common = common_type(3, x);
    weft_tensor *expected = call(spread(&x[0], common), spread(&x[1], common), spread(&x[2], common));
    check_same(call(x[0].tensor, x[1].tensor, x[2].tensor), expected, name, 3, x);
    weft_scope_end();
}

/* The condition has no part in the type. */
static void check_where(void)
{
    weft_scope_begin();
    weft_mesh *mesh = any_small_mesh();
    mixed x[3] = { make(mesh, WEFT_BOOL, (mixed_form)below(FORMS), false) };
    x[1] = make(mesh, any_of(0), FULL, false);
    x[2] = make(mesh, any_of(0), (mixed_form)below(FORMS), false);
    weft_dtype common = common_type(2, x + 1);
    weft_tensor *expected =
        weft_where(spread(&x[0], WEFT_BOOL), spread(&x[1], common), spread(&x[2], common));
    check_same(weft_where(x[0].tensor, x[1].tensor, x[2].tensor), expected, "where", 3, x);
    weft_scope_end();
}

static void test_three(void **state)
{
    (void)state;
    start(22);
    for (int i = 0; i < 400; i++) {
        check_ternary(addcmul, "addcmul", 1);
        check_ternary(addcdiv, "addcdiv", 2);
        check_where();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- in place ------------------------------------------------------------------------------------------ */

static weft_tensor *second(weft_tensor *a, weft_tensor *b)
{
    (void)a;
    return b;
}

static weft_tensor *add_in_place(weft_tensor *a, weft_tensor *b)
{
    return weft_add_inplace(a, b, 3);
}

static weft_tensor *lerp_in_place(weft_tensor *a, weft_tensor *b)
{
    return weft_lerp_inplace(a, b, 0.75);
}

/* The result is converted to the target's type at the end. */
static void test_in_place(void **state)
{
    (void)state;
    static const struct {
        binary out_of_place;
        weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
    } operations[] = {
        { { THIS_ROW, "copy_inplace", second, 0, false, false, false }, weft_copy_inplace },
        { { THIS_ROW, "add_inplace", add_scaled, 1, false, false, false }, add_in_place },
        { { THIS_ROW, "mul_inplace", weft_mul, 0, false, true, false }, weft_mul_inplace },
        { { THIS_ROW, "div_inplace", weft_div, 2, false, true, false }, weft_div_inplace },
        { { THIS_ROW, "lerp_inplace", lerp, 2, false, false, false }, lerp_in_place },
    };
    start(23);
    for (int i = 0; i < 3000; i++) {
        const binary *b = &operations[i % 5].out_of_place;
        enter_row(b->place, __func__);
        weft_dtype target = any_of(b->least), other = any_of(b->least);
        if (category(other) > category(target)) {
            continue;
        }
        weft_scope_begin();
        weft_mesh *mesh = any_small_mesh();
        mixed x[] = { make(mesh, target, FULL, false), make(mesh, other, (mixed_form)below(FORMS), false) };
        weft_tensor *expected = weft_to_type(converted_first(b, x), target);
        check_same(operations[i % 5].call(x[0].tensor, x[1].tensor), expected, b->name, 2, x);
        weft_scope_end();
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- what PyTorch gives -------------------------------------------------------------------------------- */

static weft_tensor *one(weft_dtype type, int ndim, double value)
{
    return weft_full(type, value, ndim, (int64_t[]){ 1 }, NULL, NULL);
}

static void check_item(weft_tensor *tensor, double expected)
{
    double value = -1;
    assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_F64), &value, sizeof(value)), WEFT_OK);
    if (value != expected) {
        fail_msg("%a of %s, expected %a", value, weft_dtype_name(weft_tensor_dtype(tensor)), expected);
    }
}

static void test_examples(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL));
    weft_scope_begin();
    check_item(weft_maximum(one(WEFT_I32, 1, 1), one(WEFT_I64, 0, 0x1p32)), 1);
    check_item(weft_minimum(one(WEFT_I64, 0, 0x1p32 - 3), one(WEFT_I32, 1, 1)), -3);
    check_item(weft_eq(one(WEFT_BF16, 1, 0.1), one(WEFT_F32, 0, 0.1)), 1);
    check_item(weft_eq(one(WEFT_BF16, 1, 256), one(WEFT_I64, 1, 257)), 1);
    check_item(weft_eq(one(WEFT_F16, 1, INFINITY), one(WEFT_I32, 1, 70000)), 1);
    check_item(weft_lt(one(WEFT_U8, 1, 6), one(WEFT_I64, 0, -2)), 1);
    check_item(weft_floor_div(one(WEFT_U8, 1, 6), one(WEFT_I64, 0, -2)), 0);
    check_item(weft_remainder(one(WEFT_U8, 1, 6), one(WEFT_I64, 0, -4)), 6);
    check_item(weft_add(one(WEFT_BF16, 1, 256), one(WEFT_I64, 1, 257)), 512);
    check_item(weft_logical_and(one(WEFT_F16, 1, 1), one(WEFT_F64, 0, 1e-10)), 0);
    check_item(weft_logical_or(one(WEFT_U8, 1, 0), one(WEFT_I32, 0, 256)), 0);
    /* Of one category and both with dimensions, or without: the wider type. */
    check_item(weft_lt(one(WEFT_U8, 1, 6), one(WEFT_I64, 1, -2)), 0);
    check_item(weft_eq(one(WEFT_BF16, 0, 0.1), one(WEFT_F32, 0, 0.1)), 0);
    /* A factor and a divisor of one element are not rounded to 16 bits: 3 * 0.1 and 3 * bf16(0.1) differ
     * there. */
    double factor = 1.00390625 + 0x1p-11; /* between two bf16 numbers */
    check_item(weft_mul(one(WEFT_BF16, 1, 253), one(WEFT_F32, 0, factor)), 254);
    check_item(weft_mul(one(WEFT_F32, 0, factor), one(WEFT_BF16, 1, 253)), 255);
    check_item(weft_mul_inplace(one(WEFT_BF16, 1, 253), one(WEFT_F32, 0, factor)), 254);
    /* Numbers are not rounded either, but for exponents. */
    check_item(weft_scale(one(WEFT_BF16, 1, 253), factor), 254);
    check_item(weft_pow_scalar(one(WEFT_BF16, 1, 900), 0.7), 116.5);
    check_item(weft_pow_scalar_backward(one(WEFT_BF16, 1, 1), one(WEFT_BF16, 1, 900), 1.7), 198);
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Numbers just above the middle between two of 16 bits: single precision would round them to the middle, and that to the even
 * one below. */
static void test_rounded_once(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL));
    weft_scope_begin();
    static const weft_dtype types[] = { WEFT_BF16, WEFT_F16 };
    for (int i = 0; i < 2; i++) {
        double unit = i == 0 ? 0x1p-7 : 0x1p-10, value = 1 + unit / 2 + 0x1p-40, above = 1 + unit;
        double whole = 65536.0 * 1024, much = whole * (1 + unit / 2) + 1; /* beyond f16: infinite */
        check_item(weft_to_type(one(WEFT_F64, 1, value), types[i]), above);
        check_item(weft_to_type(one(WEFT_F64, 0, value), types[i]), above);
        check_item(weft_copy_inplace(one(types[i], 1, 0), one(WEFT_F64, 1, value)), above);
        check_item(weft_mul_inplace(one(types[i], 1, 1), one(WEFT_F64, 1, value)), above);
        check_item(one(types[i], 1, value), above);
        check_item(weft_fill_inplace(one(types[i], 1, 0), value), above);
        check_item(weft_masked_fill(one(types[i], 1, 0), one(WEFT_BOOL, 1, 1), value), above);
        check_item(weft_to_type(one(WEFT_I64, 1, much), types[i]), i == 0 ? whole * above : INFINITY);
        check_item(weft_to_type(one(WEFT_I32, 1, much), types[i]), i == 0 ? whole * above : INFINITY);
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_rounded_once),
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
