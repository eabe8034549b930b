/* Constants. */
#include "codelets/constant.h"

#define FILL(bits_, type)                                                                                    \
    static void fill_##bits_(type *out, int64_t count, uint64_t bits)                                        \
    {                                                                                                        \
        const type value = (type)bits;                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                \
            out[i] = value;                                                                                  \
        }                                                                                                    \
    }

FILL(64, uint64_t)
FILL(32, uint32_t)
FILL(16, uint16_t)
FILL(8, uint8_t)

static void fill_pairs(double *out, int64_t count, double real, double imag)
{
    for (int64_t i = 0; i < count; i++) {
        out[2 * i] = real;
        out[2 * i + 1] = imag;
    }
}

void weft_cpu_constant(const weft_task_run *run)
{
    const weft_constant_args *args = run->arguments;
    uint64_t bits = weft_constant_bits(args->base.dtype, args->value, args->rest);
    switch (weft_dtype_size(args->base.dtype)) {
    case 16:
        fill_pairs(run->operands[0], args->count, args->value, args->rest);
        break;
    case 8:
        fill_64(run->operands[0], args->count, bits);
        break;
    case 4:
        fill_32(run->operands[0], args->count, bits);
        break;
    case 2:
        fill_16(run->operands[0], args->count, bits);
        break;
    default:
        fill_8(run->operands[0], args->count, bits);
        break;
    }
}
