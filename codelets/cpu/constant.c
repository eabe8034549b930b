/* Constants. */
#include "codelets/constant.h"

#include "codelets/half.h"

/* ---- fill ---------------------------------------------------------------------------------------------- */

#define FILL(name, type)                                                                                     \
    static void fill_##name(type *out, int64_t count, type value)                                            \
    {                                                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                                \
            out[i] = value;                                                                                  \
        }                                                                                                    \
    }

FILL(f64, double)
FILL(f32, float)
FILL(16, uint16_t)
FILL(i64, int64_t)
FILL(i32, int32_t)
FILL(8, uint8_t)

static void fill(weft_dtype dtype, void *pointer, int64_t count, double value)
{
    switch (dtype) {
    case WEFT_F64:
        fill_f64(pointer, count, value);
        break;
    case WEFT_F32:
        fill_f32(pointer, count, (float)value);
        break;
    case WEFT_BF16:
        fill_16(pointer, count, weft_f32_to_bf16((float)value));
        break;
    case WEFT_F16:
        fill_16(pointer, count, weft_f32_to_f16((float)value));
        break;
    case WEFT_I64:
        fill_i64(pointer, count, (int64_t)value);
        break;
    case WEFT_I32:
        fill_i32(pointer, count, (int32_t)value);
        break;
    case WEFT_U8:
        fill_8(pointer, count, (uint8_t)(int64_t)value);
        break;
    case WEFT_BOOL:
        fill_8(pointer, count, value != 0);
        break;
    }
}

void weft_cpu_constant(const weft_task_run *run)
{
    const weft_constant_args *args = run->arguments;
    fill(args->base.dtype, run->operands[0], args->count, args->value);
}
