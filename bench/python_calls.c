/* Loops of calls in C, for bench/python_calls.py, which loads this library and subtracts them from the same calls in Python. */
#include <string.h>

#include <weft/weft.h>

#include "bench.h"

/* Operands of one world, which the script makes. */
typedef struct calls_operands {
    weft_tensor *a, *b, *matrix;
} calls_operands;

static const int64_t sizes[] = { 3, 4 }, joined[] = { 4, 3 }, wide[] = { 2, 3, 4 };

static weft_tensor *call_add(const calls_operands *o) { return weft_add(o->a, o->b); }
static weft_tensor *call_mul(const calls_operands *o) { return weft_mul(o->a, o->b); }
static weft_tensor *call_div(const calls_operands *o) { return weft_div(o->a, o->b); }
static weft_tensor *call_lt(const calls_operands *o) { return weft_lt(o->a, o->b); }
static weft_tensor *call_neg(const calls_operands *o) { return weft_neg(o->a); }
static weft_tensor *call_add_scalar(const calls_operands *o) { return weft_add_scalar(o->a, 1.0); }
static weft_tensor *call_scale(const calls_operands *o) { return weft_scale(o->a, 2.0); }
static weft_tensor *call_matmul(const calls_operands *o) { return weft_matmul(o->matrix, o->b); }
static weft_tensor *call_exp(const calls_operands *o) { return weft_exp(o->a); }

static weft_tensor *call_zeros(const calls_operands *o)
{
    (void)o;
    return weft_zeros(WEFT_F32, 2, sizes, NULL, NULL);
}

static weft_tensor *call_randn(const calls_operands *o)
{
    (void)o;
    return weft_randn(WEFT_F32, 2, sizes, NULL, NULL);
}

static weft_tensor *call_full(const calls_operands *o)
{
    (void)o;
    return weft_full(WEFT_F32, 2.5, 2, sizes, NULL, NULL);
}

static weft_tensor *call_arange(const calls_operands *o)
{
    (void)o;
    return weft_arange(WEFT_I64, 0, 10, 1, NULL, NULL);
}

static weft_tensor *call_reshape(const calls_operands *o) { return weft_reshape(o->a, 2, joined); }
static weft_tensor *call_expand(const calls_operands *o) { return weft_expand(o->a, 3, wide); }

static weft_tensor *call_permute(const calls_operands *o)
{
    return weft_permute(o->a, 2, (const int[]){ 1, 0 });
}

static weft_tensor *call_transpose(const calls_operands *o) { return weft_transpose(o->a, 0, 1); }
static weft_tensor *call_unsqueeze(const calls_operands *o) { return weft_unsqueeze(o->a, 0); }
static weft_tensor *call_sum(const calls_operands *o) { return weft_sum(o->a, WEFT_ALL_DIMS, false); }
static weft_tensor *call_sum_dim(const calls_operands *o) { return weft_sum(o->a, 1, false); }
static weft_tensor *call_sum_dims(const calls_operands *o) { return weft_sum(o->a, WEFT_DIM(0) | WEFT_DIM(1), true); }
static weft_tensor *call_select(const calls_operands *o) { return weft_select(o->a, 0, 1); }
static weft_tensor *call_slice(const calls_operands *o) { return weft_slice(o->a, 0, 1, 3, 1); }
static weft_tensor *call_softmax(const calls_operands *o) { return weft_softmax(o->a, -1); }

static weft_tensor *call_cat(const calls_operands *o)
{
    return weft_cat(2, (weft_tensor *[]){ o->a, o->b }, 0);
}

static const struct {
    const char *name;
    weft_tensor *(*call)(const calls_operands *operands);
} calls[] = {
    { "add", call_add }, { "mul", call_mul }, { "div", call_div }, { "lt", call_lt }, { "neg", call_neg },
    { "add_scalar", call_add_scalar }, { "scale", call_scale }, { "matmul", call_matmul }, { "exp", call_exp },
    { "zeros", call_zeros }, { "randn", call_randn }, { "full", call_full }, { "arange", call_arange },
    { "reshape", call_reshape }, { "expand", call_expand }, { "permute", call_permute }, { "transpose", call_transpose },
    { "unsqueeze", call_unsqueeze }, { "sum", call_sum }, { "sum_dim", call_sum_dim }, { "sum_dims", call_sum_dims },
    { "select", call_select }, { "slice", call_slice }, { "softmax", call_softmax }, { "cat", call_cat },
};

double python_calls_us(const char *name, const calls_operands *operands, int count);

/* Microseconds of `count` calls, each with the release of its result; negative if there is no such call, or one fails. */
double python_calls_us(const char *name, const calls_operands *operands, int count)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name)) {
            continue;
        }
        double start = bench_now_us();
        for (int j = 0; j < count; j++) {
            weft_tensor *made = calls[i].call(operands);
            if (made == NULL) {
                return -1;
            }
            weft_tensor_release(made);
        }
        return bench_now_us() - start;
    }
    return -1;
}
