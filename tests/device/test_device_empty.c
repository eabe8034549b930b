/* Products, convolutions and attention with dimensions of size 0, on two devices: no launch and no call of cuBLAS is refused, sums
 * of no terms are zeros, and all results have the CPU's bits. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"
#include "stand_in.h"

static weft_dtype type;

static void start_on(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(2, .world = WEFT_WORLD_SELF, .seed = 7);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
}

static weft_tensor *ones(int ndim, const int64_t shape[])
{
    return weft_ones(type, ndim, shape, NULL, NULL);
}

#define ONES(...) ones((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

/* ---- calls, with b products of [m, k] and [k, n] ---------------------------------------------------------- */

typedef struct sizes {
    int64_t b, m, n, k;
} sizes;

static weft_tensor *matmul(sizes s)
{
    return weft_matmul(ONES(s.m, s.k), ONES(s.k, s.n));
}

static weft_tensor *transposed(sizes s)
{
    return weft_matmul_ex(ONES(s.k, s.m), true, ONES(s.n, s.k), true);
}

static weft_tensor *batched(sizes s)
{
    return weft_matmul(ONES(s.b, s.m, s.k), ONES(s.b, s.k, s.n));
}

static weft_tensor *batched_transposed(sizes s)
{
    return weft_matmul_ex(ONES(s.b, s.k, s.m), true, ONES(s.b, s.n, s.k), true);
}

static weft_tensor *broadcast(sizes s)
{
    return weft_matmul(ONES(s.b, 2, s.m, s.k), ONES(s.k, s.n));
}

static weft_tensor *by_vector(sizes s)
{
    return weft_matmul(ONES(s.b, s.m, s.k), ONES(s.k));
}

static weft_tensor *addmm(sizes s)
{
    return weft_addmm(ONES(s.m, s.n), ONES(s.m, s.k), ONES(s.k, s.n), 3, 2);
}

static weft_tensor *einsum(sizes s)
{
    return weft_einsum("bmk,kn,bn->bmn", 3, (weft_tensor *[]){ ONES(s.b, s.m, s.k), ONES(s.k, s.n), ONES(s.b, s.n) });
}

/* b images of k channels, n features, m places. */
static weft_tensor *convolution(sizes s)
{
    return weft_conv1d(ONES(s.b, s.k, s.m), ONES(s.n, s.k, s.m > 0 ? 1 : 0), NULL, NULL);
}

static weft_tensor *convolution_input(sizes s)
{
    return weft_conv1d_backward_input(ONES(s.b, s.n, s.m), ONES(s.n, s.k, 1), (int64_t[]){ s.b, s.k, s.m }, NULL);
}

static weft_tensor *convolution_weight(sizes s)
{
    return weft_conv1d_backward_weight(ONES(s.b, s.n, s.m), ONES(s.b, s.k, s.m), (int64_t[]){ s.n, s.k, 1 }, NULL);
}

/* m queries, k keys, n columns. */
static weft_tensor *attention(sizes s)
{
    return weft_attention(ONES(s.b, s.m, 4), ONES(s.b, s.k, 4), ONES(s.b, s.k, s.n), NULL);
}

static weft_tensor *attention_backward(sizes s)
{
    weft_tensor *q = ONES(s.b, s.m, 4), *k = ONES(s.b, s.k, 4), *v = ONES(s.b, s.k, s.n);
    return weft_attention_backward(ONES(s.b, s.m, s.n), q, k, v, weft_attention(q, k, v, NULL), NULL, NULL, NULL);
}

static const struct {
    const char *name;
    weft_tensor *(*make)(sizes s);
    bool floating; /* has no integers */
} calls[] = {
    { "matmul", matmul, false },
    { "transposed", transposed, false },
    { "batched", batched, false },
    { "batched, transposed", batched_transposed, false },
    { "broadcast", broadcast, false },
    { "by a vector", by_vector, false },
    { "addmm", addmm, false },
    { "einsum", einsum, false },
    { "convolution", convolution, true },
    { "convolution's input", convolution_input, true },
    { "convolution's weight", convolution_weight, true },
    { "attention", attention, true },
    { "attention's gradients", attention_backward, true },
};

/* ---- the test --------------------------------------------------------------------------------------------- */

/* Bit i: whether size i is 0. */
static sizes sizes_of(int empty)
{
    return (sizes){ empty & 1 ? 0 : 2, empty & 2 ? 0 : 3, empty & 4 ? 0 : 5, empty & 8 ? 0 : 4 };
}

/* The result's bytes, or those of a status, and their number. */
static size_t result(size_t call, int empty, char *bytes, size_t room)
{
    weft_scope_begin();
    weft_tensor *made = calls[call].make(sizes_of(empty));
    size_t size = made == NULL ? sizeof(weft_status) : (size_t)weft_tensor_num_elements(made) * weft_dtype_size(type);
    assert_true(size <= room);
    if (made == NULL) {
        weft_status status = weft_last_status();
        memcpy(bytes, &status, sizeof(status));
        weft_clear_error();
    } else if (weft_to_host(made, bytes, size) != WEFT_OK || weft_wait() != WEFT_OK) {
        fail_msg("%s of %s, empty %#x: %s", calls[call].name, weft_dtype_name(type), empty, weft_last_error());
    }
    weft_scope_end();
    return size;
}

static void test_same_as_on_cpus(void **state)
{
    (void)state;
    enum { CALLS = sizeof(calls) / sizeof(calls[0]), EMPTY = 16, ROOM = 2 * 2 * 3 * 5 * 8 };
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32 };
    static char on_cpus[4][CALLS][EMPTY][ROOM];
    static size_t sizes_there[4][CALLS][EMPTY];
    int64_t values = 0;
    for (int devices = 0; devices < 2; devices++) {
        start_on(devices == 0 ? "0" : TEST_ALL_DEVICES);
        assert_int_equal(weft_autocast_dtype(), devices == 0 ? WEFT_BF16 : WEFT_F16);
        for (size_t t = 0; t < 4; t++) {
            type = types[t];
            for (size_t c = 0; c < CALLS; c++) {
                for (int empty = 0; empty < EMPTY && !(calls[c].floating && type == WEFT_I32); empty++) {
                    char here[ROOM] = "";
                    size_t size = result(c, empty, devices == 0 ? on_cpus[t][c][empty] : here, ROOM);
                    values += (int64_t)size;
                    if (devices == 0) {
                        sizes_there[t][c][empty] = size;
                    } else if (size != sizes_there[t][c][empty] || memcmp(here, on_cpus[t][c][empty], size) != 0) {
                        fail_msg("%s of %s, empty %#x: other values than on a CPU", calls[c].name, weft_dtype_name(type), empty);
                    }
                }
            }
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    assert_true(values > 0);
#ifndef WEFT_TEST_GPU
    assert_true(stand_in_device_counts(0).launches + stand_in_device_counts(1).launches > 0);
#endif
}

/* k = 0 */
static void test_sums_of_no_terms(void **state)
{
    (void)state;
    start_on(TEST_ALL_DEVICES);
    type = WEFT_F32;
    for (size_t c = 0; calls[c].make != attention; c++) {
        float values[2 * 2 * 3 * 5];
        size_t size = result(c, 8, (char *)values, sizeof(values));
        float expected = calls[c].make == addmm ? 3 : 0;
        bool has_terms = calls[c].make == convolution_input || calls[c].make == convolution_weight; /* shapes without channels */
        assert_true(has_terms == (size == 0));
        for (size_t i = 0; i < size / sizeof(float); i++) {
            assert_true(values[i] == expected);
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_as_on_cpus), cmocka_unit_test(test_sums_of_no_terms) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
