#include "codelets/softmax.h"

#include <math.h>
#include <stdlib.h>

#include "codelets/cpu/clones.h"
#include "codelets/functions.h"
#include "codelets/cpu/line_sums.h"
#include "codelets/cpu/vectors.h"

/* ---- whole rows ---------------------------------------------------------------------------------------- */

/* The last steps; `out` may be an input. */
#define ENDS(T, exponential)                                                                                 \
    WEFT_CLONES static void multiply_##T(T *out, T factor, int64_t n)                                        \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] *= factor;                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void subtract_##T(T *out, const T *values, T most, T log_sum, int64_t n)              \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = (values[i] - most) - log_sum;                                                           \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void backward_##T(T *out, const T *gradient, const T *output, T sum, int64_t n)       \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = output[i] * (gradient[i] - sum);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void log_backward_##T(T *out, const T *gradient, const T *output, T sum, int64_t n)   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = gradient[i] - exponential(output[i]) * sum;                                             \
        }                                                                                                    \
    }

ENDS(float, weft_exp_f32)
ENDS(double, weft_exp_f64)

static void softmax_line(weft_dtype type, void *out, const void *a, const void *b, int64_t n)
{
    (void)b;
    weft_line_exp_below(type, out, a, weft_line_max(type, a, n), n);
    double sum = weft_line_sum(type, out, n);
    if (type == WEFT_F64) {
        multiply_double(out, 1 / sum, n);
    } else {
        multiply_float(out, (float)(1 / sum), n);
    }
}

static void log_softmax_line(weft_dtype type, void *out, const void *a, const void *b, int64_t n)
{
    (void)b;
    double most = weft_line_max(type, a, n), log_sum = log(weft_line_sum_exp_below(type, a, most, n));
    if (type == WEFT_F64) {
        subtract_double(out, a, most, log_sum, n);
    } else {
        subtract_float(out, a, (float)most, (float)log_sum, n);
    }
}

static void softmax_backward_line(weft_dtype type, void *out, const void *gradient, const void *output,
                                  int64_t n)
{
    double sum = weft_line_sum_product(type, gradient, output, n);
    if (type == WEFT_F64) {
        backward_double(out, gradient, output, sum, n);
    } else {
        backward_float(out, gradient, output, (float)sum, n);
    }
}

static void log_softmax_backward_line(weft_dtype type, void *out, const void *gradient, const void *output,
                                      int64_t n)
{
    double sum = weft_line_sum(type, gradient, n);
    if (type == WEFT_F64) {
        log_backward_double(out, gradient, output, sum, n);
    } else {
        log_backward_float(out, gradient, output, (float)sum, n);
    }
}

typedef void (*line_function)(weft_dtype type, void *out, const void *a, const void *b, int64_t n);

static void run_lines(const weft_kernel_call *call, line_function function)
{
    int dim = (int)call->numbers[0];
    weft_dtype type = weft_float_arithmetic(call->output.dtype);
    weft_vectors out = weft_vectors_along(&call->output, dim, dim), in[2];
    for (int i = 0; i < call->num_inputs; i++) {
        in[i] = weft_vectors_along(&call->inputs[i], dim, dim);
    }
    size_t line = (size_t)out.length * weft_dtype_size(type);
    char *memory = malloc(3 * line + 1);
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_ROW, 0);
        return;
    }
    for (int64_t v = 0; v < out.count; v++) {
        const void *a = weft_vector_load(&in[0], type, v, memory);
        const void *b = call->num_inputs > 1 ? weft_vector_load(&in[1], type, v, memory + line) : NULL;
        void *target = weft_vector_target(&out, type, v, memory + 2 * line);
        function(type, target, a, b, out.length);
        weft_vector_store(&out, type, v, target);
    }
    free(memory);
}

void weft_kernel_softmax(const weft_kernel_call *call)
{
    run_lines(call, softmax_line);
}

void weft_kernel_log_softmax(const weft_kernel_call *call)
{
    run_lines(call, log_softmax_line);
}

void weft_kernel_softmax_backward(const weft_kernel_call *call)
{
    run_lines(call, softmax_backward_line);
}

void weft_kernel_log_softmax_backward(const weft_kernel_call *call)
{
    run_lines(call, log_softmax_backward_line);
}

/* ---- parts of rows ------------------------------------------------------------------------------------- */

/* `b`: the second input's values, or the line's statistic. */
typedef double (*sum_function)(weft_dtype type, const void *a, const void *b, int64_t n);

static double sum_exp_line(weft_dtype type, const void *a, const void *b, int64_t n)
{
    return weft_line_sum_exp(type, a, *(const double *)b, n);
}

static double sum_product_line(weft_dtype type, const void *a, const void *b, int64_t n)
{
    return b == NULL ? weft_line_sum(type, a, n) : weft_line_sum_product(type, a, b, n);
}

static void run_sums(const weft_kernel_call *call, sum_function function, bool one_value)
{
    int dim = (int)call->numbers[0];
    weft_dtype type = weft_float_arithmetic(call->inputs[0].dtype);
    weft_vectors in = weft_vectors_along(&call->inputs[0], dim, dim), other = { .view = NULL };
    bool others = call->num_inputs > 1 && !one_value;
    if (others) {
        other = weft_vectors_along(&call->inputs[1], dim, dim);
    }
    size_t line = (size_t)in.length * weft_dtype_size(type);
    char *memory = malloc(2 * line + 1);
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_ROW, 0);
        return;
    }
    int64_t count = weft_view_count(&call->output);
    for (int64_t v = 0; v < count; v++) {
        double sum = call->first ? 0 : weft_view_value(&call->output, v);
        double value = one_value ? weft_view_value(&call->inputs[1], v) : 0;
        if (in.length > 0) {
            const void *a = weft_vector_load(&in, type, v, memory);
            const void *b = others ? weft_vector_load(&other, type, v, memory + line) : NULL;
            sum += function(type, a, one_value ? &value : b, in.length);
        }
        weft_view_set(&call->output, v, sum);
    }
    free(memory);
}

void weft_kernel_sum_exp(const weft_kernel_call *call)
{
    run_sums(call, sum_exp_line, true);
}

void weft_kernel_sum_product(const weft_kernel_call *call)
{
    run_sums(call, sum_product_line, false);
}
