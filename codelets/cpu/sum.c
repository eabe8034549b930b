/* Sums over one dimension. */
#include "codelets/linear.h"

/* Single precision is added up in double, rounded once per task; the order is that of j, whatever the shape
 * around it. */
#define DEFINE_SUM(name, type, wide)                                                                         \
    static void sum_##name(type *restrict out, const type *restrict in, const weft_sum_args *args)           \
    {                                                                                                        \
        int64_t n = args->n, inner = args->inner;                                                            \
        for (int64_t o = 0; o < args->outer; o++) {                                                          \
            for (int64_t i = 0; i < inner; i++) {                                                            \
                const type *first = in + o * n * inner + i;                                                  \
                wide total = args->accumulate ? (wide)out[o * inner + i] : 0;                                \
                for (int64_t j = 0; j < n; j++) {                                                            \
                    total += (wide)first[j * inner];                                                         \
                }                                                                                            \
                out[o * inner + i] = (type)total;                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_SUM(f64, double, double)
DEFINE_SUM(f32, float, double)
DEFINE_SUM(i64, int64_t, uint64_t) /* wraps around */
DEFINE_SUM(i32, int32_t, uint32_t)

static void sum_cpu(void *buffers[], void *argument)
{
    const weft_sum_args *args = argument;
    void *out = weft_task_pointer(buffers, &args->base, 0);
    const void *in = weft_task_pointer(buffers, &args->base, 1);
    switch (args->base.dtype) {
    case WEFT_F64:
        sum_f64(out, in, args);
        break;
    case WEFT_F32:
        sum_f32(out, in, args);
        break;
    case WEFT_I64:
        sum_i64(out, in, args);
        break;
    case WEFT_I32:
        sum_i32(out, in, args);
        break;
    default:
        break;
    }
}

struct starpu_codelet weft_codelet_sum = {
    .cpu_funcs = { sum_cpu },
    .cpu_funcs_name = { "sum_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_sum",
    .color = WEFT_COLOR_OTHER,
};
