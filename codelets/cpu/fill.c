/* Constants. */
#include "codelets/fill.h"

#include "codelets/cpu/half.h"

/* ---- fill ---------------------------------------------------------------------------------------------- */

#define FILL(type, converted)                                                                                \
    {                                                                                                        \
        type *out = pointer;                                                                                 \
        type v = (type)(converted);                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                                \
            out[i] = v;                                                                                      \
        }                                                                                                    \
        break;                                                                                               \
    }

static void fill(weft_dtype dtype, void *pointer, int64_t count, double value)
{
    switch (dtype) {
    case WEFT_F64:
        FILL(double, value)
    case WEFT_F32:
        FILL(float, value)
    case WEFT_BF16:
        FILL(uint16_t, weft_f32_to_bf16((float)value))
    case WEFT_F16:
        FILL(uint16_t, weft_f32_to_f16((float)value))
    case WEFT_I64:
        FILL(int64_t, value)
    case WEFT_I32:
        FILL(int32_t, value)
    case WEFT_U8:
        FILL(uint8_t, (int64_t)value)
    case WEFT_BOOL:
        FILL(uint8_t, value != 0)
    }
}

static void fill_cpu(void *buffers[], void *argument)
{
    const weft_fill_args *args = argument;
    fill(args->base.dtype, weft_task_pointer(buffers, &args->base, 0), args->count, args->value);
}

struct starpu_codelet weft_codelet_fill = {
    .cpu_funcs = { fill_cpu },
    .cpu_funcs_name = { "fill_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_fill",
    .color = WEFT_COLOR_FILL,
};
