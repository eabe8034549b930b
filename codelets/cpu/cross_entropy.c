/* Softmax cross-entropy and its derivative, row by row. Stable: the row's maximum is subtracted before the
 * exponential; sums are in double. */
#include <math.h>

#include "codelets/lookup.h"

static int64_t target_at(const weft_cross_entropy_args *args, const void *targets, int64_t row,
                         const char *operation)
{
    int64_t target =
        args->index_type == WEFT_I64 ? ((const int64_t *)targets)[row] : ((const int32_t *)targets)[row];
    if (target >= 0 && target < args->classes) {
        return target;
    }
    if (args->report != NULL) {
        args->report(operation, target, args->classes);
    }
    return -1;
}

#define DEFINE_CROSS_ENTROPY(name, type)                                                                     \
    static double log_sum_exp_##name(const type *row, int64_t classes)                                       \
    {                                                                                                        \
        double max = (double)row[0], total = 0;                                                              \
        for (int64_t c = 1; c < classes; c++) {                                                              \
            max = (double)row[c] > max ? (double)row[c] : max;                                               \
        }                                                                                                    \
        for (int64_t c = 0; c < classes; c++) {                                                              \
            total += exp((double)row[c] - max);                                                              \
        }                                                                                                    \
        return max + log(total);                                                                             \
    }                                                                                                        \
    static void forward_##name(type *loss, const type *logits, const void *targets,                          \
                               const weft_cross_entropy_args *args)                                          \
    {                                                                                                        \
        double total = 0;                                                                                    \
        for (int64_t r = 0; r < args->rows; r++) {                                                           \
            int64_t target = target_at(args, targets, r, "weft_cross_entropy");                              \
            const type *row = logits + r * args->classes;                                                    \
            if (target >= 0) {                                                                               \
                total += log_sum_exp_##name(row, args->classes) - (double)row[target];                       \
            }                                                                                                \
        }                                                                                                    \
        *loss = (type)((args->first ? 0.0 : (double)*loss) + args->scale * total);                           \
    }                                                                                                        \
    static void backward_##name(type *out, const type *logits, const void *targets, double gradient,         \
                                const weft_cross_entropy_args *args)                                         \
    {                                                                                                        \
        double factor = args->scale * gradient;                                                              \
        for (int64_t r = 0; r < args->rows; r++) {                                                           \
            int64_t target = target_at(args, targets, r, "weft_cross_entropy_backward");                     \
            const type *row = logits + r * args->classes;                                                    \
            type *result = out + r * args->classes;                                                          \
            double log_sum = target < 0 ? 0.0 : log_sum_exp_##name(row, args->classes);                      \
            for (int64_t c = 0; c < args->classes; c++) {                                                    \
                double p = target < 0 ? 0.0 : exp((double)row[c] - log_sum) - (c == target);                 \
                result[c] = (type)(factor * p);                                                              \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_CROSS_ENTROPY(f32, float)
DEFINE_CROSS_ENTROPY(f64, double)

static void cross_entropy_cpu(void *buffers[], void *argument)
{
    const weft_cross_entropy_args *args = argument;
    void *loss = weft_task_pointer(buffers, &args->base, 0);
    const void *logits = weft_task_pointer(buffers, &args->base, 1);
    const void *targets = weft_task_pointer(buffers, &args->base, 2);
    if (args->base.dtype == WEFT_F64) {
        forward_f64(loss, logits, targets, args);
    } else {
        forward_f32(loss, logits, targets, args);
    }
}

static void cross_entropy_backward_cpu(void *buffers[], void *argument)
{
    const weft_cross_entropy_args *args = argument;
    void *out = weft_task_pointer(buffers, &args->base, 0);
    const void *logits = weft_task_pointer(buffers, &args->base, 1);
    const void *targets = weft_task_pointer(buffers, &args->base, 2);
    const void *gradient = args->has_gradient ? weft_task_pointer(buffers, &args->base, 3) : NULL;
    if (args->base.dtype == WEFT_F64) {
        backward_f64(out, logits, targets, gradient == NULL ? 1.0 : *(const double *)gradient, args);
    } else {
        backward_f32(out, logits, targets, gradient == NULL ? 1.0 : (double)*(const float *)gradient, args);
    }
}

struct starpu_codelet weft_codelet_cross_entropy = {
    .cpu_funcs = { cross_entropy_cpu },
    .cpu_funcs_name = { "cross_entropy_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_cross_entropy",
    .color = WEFT_COLOR_OTHER,
};

struct starpu_codelet weft_codelet_cross_entropy_backward = {
    .cpu_funcs = { cross_entropy_backward_cpu },
    .cpu_funcs_name = { "cross_entropy_backward_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_cross_entropy_backward",
    .color = WEFT_COLOR_OTHER,
};
