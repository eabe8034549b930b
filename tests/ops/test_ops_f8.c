/* Floating types of 8 bits: conversions from and to every type against a search for the nearest of all 256 numbers, redistribution,
 * files, and what refuses them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/checkpoint.h>

#include "operand.h"

static const weft_dtype stored_types[] = { WEFT_F8_E4M3, WEFT_F8_E5M2 };

/* The number of the bits, by the definition of the type. */
static double number_of(weft_dtype type, int bits)
{
    const int fraction_bits = type == WEFT_F8_E4M3 ? 3 : 2, bias = type == WEFT_F8_E4M3 ? 7 : 15;
    const int exponent = (bits & 127) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
    double value = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                 : ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    if (type == WEFT_F8_E4M3 && (bits & 127) == 127) {
        value = (double)NAN;
    } else if (type == WEFT_F8_E5M2 && exponent == 31) {
        value = fraction == 0 ? (double)INFINITY : (double)NAN;
    }
    return bits & 128 ? -value : value;
}

/* Bits of the nearest number; of two as near, those that end with 0. One step beyond the largest number stands for all beyond it. */
static int nearest_bits(weft_dtype type, double x)
{
    const int last = type == WEFT_F8_E4M3 ? 126 : 123;
    const double step = number_of(type, last) - number_of(type, last - 1), sign = signbit(x) ? 128 : 0;
    int best = 0;
    double distance = fabs(x);
    if (x != x) {
        return -1;
    }
    for (int bits = 1; bits <= last + 1; bits++) {
        const double value = bits > last ? number_of(type, last) + step : number_of(type, bits), off = fabs(fabs(x) - value);
        if (off < distance || (off == distance && bits % 2 == 0)) {
            best = bits;
            distance = off;
        }
    }
    if (fabs(x) > number_of(type, last) + step) {
        best = last + 1;
    }
    return type == WEFT_F8_E4M3 && best > last ? -1 : best + (int)sign;
}

static bool is_nan_bits(weft_dtype type, int bits)
{
    return number_of(type, bits) != number_of(type, bits);
}

/* ---- conversions ------------------------------------------------------------------------------------------ */

enum { MOST = 4096 };

/* Numbers, halves between them, and what is next to those. */
static int make_values(weft_dtype type, double values[])
{
    int count = 0;
    for (int bits = 0; bits < 127; bits++) {
        const double a = number_of(type, bits), b = bits + 1 > (type == WEFT_F8_E4M3 ? 126 : 123) ? a * 1.25 : number_of(type, bits + 1);
        const double middle = isfinite(a) && isfinite(b) ? (a + b) / 2 : a;
        const double all[] = { a,        middle,  nextafter(middle, 0), nextafter(middle, 1e9), (double)nextafterf((float)middle, 0),
                               a * 1.01, -middle, -a };
        for (int k = 0; k < 8; k++) {
            values[count++] = all[k];
        }
    }
    const double extra[] = { 464,      464.001,   463.999, 480,     1e300,     -1e300,   61439.99, 61440,     61441,
                             INFINITY, -INFINITY, NAN,     0x1p-10, 0x1p-1074, -0.0,     0x1p-17,  0x1.8p-17, 0x1p-18 };
    for (size_t k = 0; k < sizeof(extra) / sizeof(extra[0]); k++) {
        values[count++] = extra[k];
    }
    return count;
}

static weft_tensor *somehow(weft_tensor *tensor, weft_mesh *mesh, int ndim)
{
    weft_placement placements[3];
    random_placements(&source, mesh, ndim, false, placements);
    return weft_redistribute(tensor, mesh, placements);
}

static void check_bits(weft_tensor *tensor, weft_dtype type, int count, const double values[], const char *from)
{
    static uint8_t bits[MOST];
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_dtype(tensor), type);
    assert_int_equal(weft_to_host(tensor, bits, (size_t)count), WEFT_OK);
    for (int i = 0; i < count; i++) {
        const int expected = nearest_bits(type, values[i]);
        if (expected < 0 ? !is_nan_bits(type, bits[i]) : bits[i] != expected) {
            fail_msg("%.17g from %s to %s is %#x, expected %#x", values[i], from, weft_dtype_name(type), bits[i], (unsigned)expected);
        }
    }
    checks_made++;
}

static void run_conversions(void)
{
    static double values[MOST], rounded[MOST];
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16 };
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = stored_types[below(2)];
    const int64_t count = make_values(type, values);
    weft_tensor *given = somehow(weft_distribute(WEFT_F64, 1, &count, values, mesh, NULL), mesh, 1);
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        weft_tensor *from = weft_to_type(given, types[k]);
        assert_int_equal(weft_to_host(weft_to_type(from, WEFT_F64), rounded, sizeof(double) * (size_t)count), WEFT_OK);
        check_bits(weft_to_type(from, type), type, (int)count, rounded, weft_dtype_name(types[k]));
    }
    static int64_t wholes[MOST];
    for (int64_t i = 0; i < count; i++) {
        wholes[i] = below(2) ? below(1200) - 600 : below(200000) - 100000;
        wholes[i] = below(9) == 0 ? (INT64_C(1) << 62) + below(99) : wholes[i];
        rounded[i] = (double)wholes[i];
    }
    weft_tensor *whole = somehow(weft_distribute(WEFT_I64, 1, &count, wholes, mesh, NULL), mesh, 1);
    check_bits(weft_to_type(whole, type), type, (int)count, rounded, "i64");
    for (int64_t i = 0; i < count; i++) {
        rounded[i] = (double)(uint64_t)wholes[i];
    }
    check_bits(weft_to_type(weft_to_type(whole, WEFT_U64), type), type, (int)count, rounded, "u64");
}

static void run_back(void)
{
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16 };
    double found[256];
    uint8_t bits[256];
    int64_t wholes[256];
    const int64_t shape[] = { 16, 16 };
    weft_mesh *mesh = any_mesh();
    const weft_dtype type = stored_types[below(2)];
    for (int i = 0; i < 256; i++) {
        bits[i] = (uint8_t)i;
    }
    weft_tensor *a = somehow(weft_distribute(type, 2, shape, bits, mesh, NULL), mesh, 2);
    assert_no_error();
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        assert_int_equal(weft_to_host(weft_to_type(weft_to_type(a, types[k]), WEFT_F64), found, sizeof(found)), WEFT_OK);
        for (int i = 0; i < 256; i++) {
            const double expected = number_of(type, i);
            assert_true(expected != expected ? found[i] != found[i] : found[i] == expected && !signbit(found[i]) == !signbit(expected));
        }
    }
    assert_int_equal(weft_to_host(weft_to_type(a, WEFT_I64), wholes, sizeof(wholes)), WEFT_OK);
    for (int i = 0; i < 256; i++) {
        const double expected = number_of(type, i);
        assert_true(expected != expected ? wholes[i] == 0 : isinf(expected) || wholes[i] == (int64_t)expected);
    }
    weft_tensor *other = weft_to_type(a, stored_types[type == WEFT_F8_E4M3]);
    assert_int_equal(weft_tensor_dtype(other), stored_types[type == WEFT_F8_E4M3]);
    assert_int_equal(weft_tensor_dtype(weft_to_type(a, WEFT_C64)), WEFT_C64);
    double item = 0;
    weft_tensor *full = weft_full(type, 2.4, 0, NULL, mesh, NULL);
    assert_int_equal(weft_tensor_item(full, &item), WEFT_OK);
    assert_true(item == (type == WEFT_F8_E4M3 ? 2.5 : 2.5));
    assert_no_error();
}

/* Elements that move, beside the same movement of integers of 8 bits: the bits are the same. Padding is a number of the type. */
static weft_tensor *moved(int kind, weft_tensor *a)
{
    static const int64_t before[] = { 1, 0 }, after[] = { 0, 2 };
    const int first = 0;
    weft_tensor *both[] = { a, weft_flip(a, 1, &first) };
    switch (kind) {
    case 0:
        return weft_slice(a, 0, 1, weft_tensor_size(a, 0), 2);
    case 1:
        return weft_cat(2, both, 1);
    case 2:
        return weft_stack(2, both, 0);
    case 3:
        return weft_pad(a, WEFT_PAD_CONSTANT, 0, 2, before, after);
    case 4:
        return weft_transpose(a, 0, 1);
    case 5:
        return weft_reshape(a, 1, (const int64_t[]){ weft_tensor_num_elements(a) });
    case 6:
        return weft_roll(a, 3, 1);
    case 7:
        return weft_expand(weft_unsqueeze(weft_select(a, 0, 0), 0), 2, (const int64_t[]){ 5, weft_tensor_size(a, 1) });
    case 8:
        return weft_pad(a, WEFT_PAD_CIRCULAR, 0, 2, before, after);
    default:
        return weft_diagonal(a, 0, 0, 1);
    }
}

static void run_moves(void)
{
    static uint8_t bits[MOST], found[2][MOST];
    const int64_t shape[] = { 2 + below(9), 3 + below(9) }, count = shape[0] * shape[1];
    const int kind = (int)below(10);
    weft_mesh *mesh = any_mesh();
    const weft_dtype types[] = { stored_types[below(2)], WEFT_U8 };
    weft_placement placements[3];
    random_placements(&source, mesh, 2, false, placements);
    for (int64_t i = 0; i < count; i++) {
        bits[i] = (uint8_t)below(256);
    }
    int64_t bytes[2] = { 0 };
    for (int k = 0; k < 2; k++) {
        weft_tensor *result = moved(kind, weft_distribute(types[k], 2, shape, bits, mesh, placements));
        assert_no_error();
        assert_int_equal(weft_tensor_dtype(result), types[k]);
        bytes[k] = weft_tensor_num_elements(result);
        assert_int_equal(weft_to_host(result, found[k], (size_t)bytes[k]), WEFT_OK);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(found[0], found[1], (size_t)bytes[0]);
    weft_tensor *padded = weft_pad(weft_zeros(types[0], 1, (const int64_t[]){ 1 }, mesh, NULL), WEFT_PAD_CONSTANT, -2.4, 1,
                                   (const int64_t[]){ 1 }, (const int64_t[]){ 0 });
    assert_int_equal(weft_to_host(padded, found[0], 2), WEFT_OK);
    assert_int_equal(found[0][0], nearest_bits(types[0], -2.4));
    assert_int_equal(found[0][1], 0);
    checks_made++;
}

/* ---- refusals, files --------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const int64_t shape[] = { 4, 3 };
    for (int k = 0; k < 2; k++) {
        const weft_dtype type = stored_types[k];
        weft_tensor *a = weft_zeros(type, 2, shape, mesh, NULL), *f = weft_ones(WEFT_F32, 2, shape, mesh, NULL), *results[] = {
            weft_add(a, a), weft_mul(f, a), weft_neg(a), weft_sum(a, 0, false), weft_matmul(a, a), weft_sort(a, 0, false, NULL),
            weft_randn(type, 2, shape, mesh, NULL), weft_randint(type, 0, 2, 2, shape, mesh, NULL), weft_arange(type, 0, 4, 1, mesh, NULL),
            weft_zeros(type | WEFT_WITH_GRAD, 2, shape, mesh, NULL), weft_eq(a, a), weft_copy_inplace(a, f),
        };
        assert_non_null(a);
        for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
            assert_null(results[i]);
        }
        weft_clear_error();
        assert_null(weft_add(a, a));
        assert_int_equal(weft_last_status(), WEFT_ERR_DTYPE);
        assert_non_null(strstr(weft_last_error(), "a is f8_e"));
        weft_clear_error();
        assert_int_equal(weft_set_requires_grad(a, true), WEFT_ERR_DTYPE);
        weft_clear_error();
        const weft_placement partial = weft_partial(WEFT_SUM);
        assert_null(weft_from_local(type, 2, shape, (void *[]){ NULL, NULL }, mesh, &partial, 0));
        assert_int_equal(weft_last_status(), WEFT_ERR_LAYOUT);
        weft_clear_error();
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_files(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    const weft_placement rows = weft_shard(0);
    const int64_t shape[] = { 16, 16 };
    uint8_t bits[256], found[256];
    const char *folder = getenv("TMPDIR"); /* the row's own */
    char path[400];
    for (int i = 0; i < 256; i++) {
        bits[i] = (uint8_t)i;
    }
    snprintf(path, sizeof(path), "%s/f8", folder == NULL ? "/tmp" : folder);
    for (int k = 0; k < 2; k++) {
        weft_tensor *a = weft_distribute(stored_types[k], 2, shape, bits, mesh, &rows);
        weft_tensor *b = weft_zeros(stored_types[k], 2, shape, mesh, NULL);
        const char *name = "a";
        assert_int_equal(weft_checkpoint_save(path, 1, &name, &a, NULL), WEFT_OK);
        assert_int_equal(weft_checkpoint_load(path, 1, &name, &b), WEFT_OK);
        assert_int_equal(weft_to_host(b, found, sizeof(found)), WEFT_OK);
        assert_memory_equal(bits, found, sizeof(bits));
        const weft_status status = weft_hdf5_save(path, 1, &name, &a);
        assert_true(status == WEFT_ERR_DTYPE || status == WEFT_ERR_UNSUPPORTED);
        weft_clear_error();
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    static const family families[] = { { "conversions", run_conversions }, { "back", run_back }, { "moves", run_moves } };
    const suite all = { families, sizeof(families) / sizeof(families[0]), 4, 8, NULL };
    const struct CMUnitTest own[] = { cmocka_unit_test(test_refusals), cmocka_unit_test(test_files) };
    return run_suite(&all, own, 2);
}
