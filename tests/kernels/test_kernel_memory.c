/* A kernel that finds no memory says so, and writes zeros: later kernels may take its results for places. */
#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "codelets/kernels.h"
#include "failing_memory.h"

static atomic_bool failing; /* kernels find no memory */
static atomic_int failed;
static _Thread_local bool in_a_kernel;

bool allocation_fails(void)
{
    bool fails = in_a_kernel && atomic_load(&failing);
    failed += fails;
    return fails;
}

#define EACH_KERNEL(each)                                                                                     \
    each(softmax) each(log_softmax) each(cross_entropy) each(cross_entropy_backward) each(sum) each(place) each(order) each(norm) \
    each(norm_backward) each(max_pool) each(fft) each(sum_exp)
#define WRAP(name)                                                                                            \
    void __real_weft_kernel_##name(const weft_kernel_call *call);                                             \
    void __wrap_weft_kernel_##name(const weft_kernel_call *call);                                             \
    void __wrap_weft_kernel_##name(const weft_kernel_call *call)                                              \
    {                                                                                                         \
        in_a_kernel = true;                                                                                   \
        __real_weft_kernel_##name(call);                                                                      \
        in_a_kernel = false;                                                                                  \
    }
EACH_KERNEL(WRAP)

enum { ROWS = 6, COLUMNS = 1500 };

typedef struct operands {
    weft_tensor *a, *classes, *image, *sharded;
} operands;

static weft_tensor *softmax(const operands *o)
{
    return weft_softmax(o->a, 1);
}

static weft_tensor *log_softmax(const operands *o)
{
    return weft_log_softmax(o->a, 1);
}

static weft_tensor *softmax_of_columns(const operands *o)
{
    return weft_softmax(o->sharded, 1);
}

static weft_tensor *cross_entropy(const operands *o)
{
    return weft_cross_entropy(o->a, o->classes, NULL);
}

static weft_tensor *sum(const operands *o)
{
    return weft_sum(o->a, 0, false);
}

static weft_tensor *place(const operands *o)
{
    return weft_argmax(o->a, 0, false);
}

static weft_tensor *order(const operands *o)
{
    return weft_argsort(o->a, 1, false);
}

static weft_tensor *norm(const operands *o)
{
    return weft_layer_norm(o->a, NULL, NULL, 1e-5);
}

static weft_tensor *max_pool(const operands *o)
{
    const weft_pooling options = { .kernel = { 2, 2 } };
    return weft_max_pool(weft_unsqueeze(o->image, 0), 2, &options, NULL);
}

static weft_tensor *fft(const operands *o)
{
    return weft_fft(o->a, 0, 1, WEFT_FFT_BACKWARD);
}

static weft_tensor *gradient_of(const operands *o, weft_tensor *loss)
{
    return weft_backward(loss, NULL) == WEFT_OK ? weft_grad(o->a) : NULL;
}

static weft_tensor *cross_entropy_backward(const operands *o)
{
    return gradient_of(o, weft_cross_entropy(o->a, o->classes, NULL));
}

typedef struct row {
    const char *name;
    weft_tensor *(*run)(const operands *o);
    bool zeros; /* of the kernel itself; else a later call computes from them */
} row;

static const row rows[] = { { "softmax", softmax, true },
                            { "log_softmax", log_softmax, true },
                            { "softmax_of_columns", softmax_of_columns, false },
                            { "cross_entropy", cross_entropy, true },
                            { "sum", sum, true },
                            { "place", place, true },
                            { "order", order, true },
                            { "norm", norm, true },
                            { "max_pool", max_pool, true },
                            { "fft", fft, true },
                            { "cross_entropy_backward", cross_entropy_backward, false } };

static void run_row(const operands *o, const row *r)
{
    static char bytes[ROWS * COLUMNS * 16], zeros[sizeof(bytes)];
    weft_scope_begin();
    weft_wait();
    atomic_store(&failed, 0);
    atomic_store(&failing, true);
    weft_tensor *result = r->run(o);
    assert_non_null(result);
    size_t size = (size_t)weft_tensor_bytes(result);
    assert_true(size <= sizeof(bytes));
    memset(bytes, 1, sizeof(bytes));
    weft_status status = weft_wait();
    atomic_store(&failing, false);
    if (failed == 0 || status != WEFT_ERR_NOMEM || strstr(weft_last_error(), "no memory") == NULL) {
        fail_msg("%s: %d failures, status %d: %s", r->name, (int)failed, (int)status, weft_last_error());
    }
    weft_clear_error();
    assert_int_equal(weft_to_host(result, bytes, sizeof(bytes)), WEFT_OK);
    if (r->zeros && memcmp(bytes, zeros, size) != 0) {
        fail_msg("%s: not zeros", r->name);
    }
    weft_scope_end();
}

static void test_zeros_without_memory(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_ROWS", "4", 1);
    WORLD(2, .workers = 2);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    operands o = { .a = weft_randn(WEFT_F32 | WEFT_WITH_GRAD, 2, (int64_t[]){ ROWS, COLUMNS }, mesh, NULL),
                   .classes = weft_zeros(WEFT_I64, 1, (int64_t[]){ ROWS }, mesh, NULL),
                   .image = weft_randn(WEFT_F32, 2, (int64_t[]){ ROWS, COLUMNS }, mesh, NULL),
                   .sharded = weft_randn(WEFT_F32, 2, (int64_t[]){ ROWS, COLUMNS }, mesh, (weft_placement[]){ weft_shard(1) }) };
    assert_no_error();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        run_row(&o, &rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(test_zeros_without_memory, world_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
