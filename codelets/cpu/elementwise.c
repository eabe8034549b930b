/* Elementwise kernels. Each operation is one expression; the loops around it are shared. */
#include "codelets/elementwise.h"

#include <math.h>

/* ---- loops --------------------------------------------------------------------------------------------- */

/* Size-1 dimensions go, and neighbours that are contiguous for every operand become one. At least one is
 * left. */
static weft_elementwise_args simplify(const weft_elementwise_args *args)
{
    weft_elementwise_args out = *args;
    out.ndim = 0;
    for (int d = 0; d < args->ndim; d++) {
        if (args->extent[d] == 1) {
            continue;
        }
        int last = out.ndim - 1;
        bool joins = last >= 0;
        for (int k = 0; k < args->base.num_operands && joins; k++) {
            joins = out.stride[k][last] == args->extent[d] * args->stride[k][d];
        }
        int place = joins ? last : out.ndim++;
        out.extent[place] = joins ? out.extent[place] * args->extent[d] : args->extent[d];
        for (int k = 0; k < args->base.num_operands; k++) {
            out.stride[k][place] = args->stride[k][d];
        }
    }
    if (out.ndim == 0) {
        out.ndim = 1;
        out.extent[0] = 1;
        for (int k = 0; k < 3; k++) {
            out.stride[k][0] = 1;
        }
    }
    return out;
}

/* The arguments themselves where nothing can be left out: a copy costs more than a small task's arithmetic.
 */
static const weft_elementwise_args *simplest(const weft_elementwise_args *given, weft_elementwise_args *room)
{
    if (given->ndim == 1) {
        return given;
    }
    *room = simplify(given);
    return room;
}

/* Places of one row's first elements; moves to the next row. */
static void next_row(const weft_elementwise_args *args, int64_t index[], int64_t place[3])
{
    for (int d = args->ndim - 2; d >= 0; d--) {
        int64_t steps = ++index[d] < args->extent[d] ? 1 : 1 - args->extent[d];
        for (int k = 0; k < 3; k++) {
            place[k] += steps * args->stride[k][d];
        }
        if (steps == 1) {
            return;
        }
        index[d] = 0;
    }
}

static int64_t count_rows(const weft_elementwise_args *args)
{
    int64_t rows = 1;
    for (int d = 0; d < args->ndim - 1; d++) {
        rows *= args->extent[d];
    }
    return args->extent[args->ndim - 1] == 0 ? 0 : rows;
}

/* One row for strides that are known: the contiguous cases are vectorised by the compiler. `o` is the
 * output's old value. */
#define ROW_LOOP(type, expression, output_step, a_step, b_step)                                              \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        const type a = pa[i * (a_step)], b = pb[i * (b_step)];                                               \
        const type o = po[i * (output_step)];                                                                \
        (void)a, (void)b, (void)o;                                                                           \
        po[i * (output_step)] = (expression);                                                                \
    }

#define DEFINE_KERNEL(name, type, expression)                                                                \
    static void name##_row_##type(type *po, const type *pa, const type *pb, int64_t n,                       \
                                  const int64_t step[3], type alpha)                                         \
    {                                                                                                        \
        (void)alpha;                                                                                         \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1) {                                                  \
            ROW_LOOP(type, expression, 1, 1, 1)                                                              \
        } else if (step[0] == 1 && step[1] == 1 && step[2] == 0) {                                           \
            ROW_LOOP(type, expression, 1, 1, 0)                                                              \
        } else if (step[0] == 1 && step[1] == 0 && step[2] == 1) {                                           \
            ROW_LOOP(type, expression, 1, 0, 1)                                                              \
        } else {                                                                                             \
            ROW_LOOP(type, expression, step[0], step[1], step[2])                                            \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_##type(void *buffers[], const weft_elementwise_args *given)                           \
    {                                                                                                        \
        weft_elementwise_args simple;                                                                        \
        const weft_elementwise_args *args = simplest(given, &simple);                                        \
        int second = args->base.num_operands == 3 ? 2 : 1; /* unary: b is a */                               \
        type *out = weft_task_pointer(buffers, &args->base, 0);                                              \
        const type *a = weft_task_pointer(buffers, &args->base, 1);                                          \
        const type *b = weft_task_pointer(buffers, &args->base, second);                                     \
        int64_t index[WEFT_MAX_DIMS] = { 0 }, place[3] = { 0 };                                              \
        int last = args->ndim - 1;                                                                           \
        int64_t step[3] = { args->stride[0][last], args->stride[1][last], args->stride[second][last] };      \
        int64_t rows = count_rows(args), n = args->extent[last];                                             \
        for (int64_t row = 0; row < rows; row++) {                                                           \
            name##_row_##type(out + place[0], a + place[1], b + place[second], n, step, (type)args->alpha);  \
            next_row(args, index, place);                                                                    \
        }                                                                                                    \
    }

#define CODELET(operation, paint)                                                                            \
    struct starpu_codelet weft_codelet_##operation = {                                                       \
        .cpu_funcs = { operation##_cpu },                                                                    \
        .cpu_funcs_name = { #operation "_cpu" },                                                             \
        .nbuffers = STARPU_VARIABLE_NBUFFERS,                                                                \
        .name = "weft_" #operation,                                                                          \
        .color = (paint),                                                                                    \
    };

#define FLOAT_CASES(operation)                                                                               \
    case WEFT_F64:                                                                                           \
        operation##_double(buffers, args);                                                                   \
        break;                                                                                               \
    case WEFT_F32:                                                                                           \
        operation##_float(buffers, args);                                                                    \
        break;

/* An operation on floating types, by one expression in single and one in double precision. */
#define DEFINE_FLOAT(operation, single, twice, paint)                                                        \
    DEFINE_KERNEL(operation, float, single)                                                                  \
    DEFINE_KERNEL(operation, double, twice)                                                                  \
    static void operation##_cpu(void *buffers[], void *argument)                                             \
    {                                                                                                        \
        const weft_elementwise_args *args = argument;                                                        \
        switch (args->base.dtype) {                                                                          \
            FLOAT_CASES(operation)                                                                           \
        default:                                                                                             \
            break;                                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    CODELET(operation, paint)

/* The same on integers too, which wrap around: computed without sign, where that is defined. */
#define DEFINE_NUMBER(operation, expression, integer, paint)                                                 \
    DEFINE_KERNEL(operation, float, expression)                                                              \
    DEFINE_KERNEL(operation, double, expression)                                                             \
    DEFINE_KERNEL(operation, uint32_t, integer)                                                              \
    DEFINE_KERNEL(operation, uint64_t, integer)                                                              \
    static void operation##_cpu(void *buffers[], void *argument)                                             \
    {                                                                                                        \
        const weft_elementwise_args *args = argument;                                                        \
        switch (args->base.dtype) {                                                                          \
            FLOAT_CASES(operation)                                                                           \
        case WEFT_I64:                                                                                       \
            operation##_uint64_t(buffers, args);                                                             \
            break;                                                                                           \
        case WEFT_I32:                                                                                       \
            operation##_uint32_t(buffers, args);                                                             \
            break;                                                                                           \
        default:                                                                                             \
            break;                                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    CODELET(operation, paint)

/* ---- operations ---------------------------------------------------------------------------------------- */

static float normal_cdf_f(float x)
{
    return 0.5f * (1.0f + erff(x * 0.70710678f));
}

static double normal_cdf(double x)
{
    return 0.5 * (1.0 + erf(x * 0.70710678118654752440));
}

static float normal_density_f(float x)
{
    return 0.39894228f * expf(-0.5f * x * x);
}

static double normal_density(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

DEFINE_NUMBER(add, a + b, a + b, WEFT_COLOR_OTHER)
DEFINE_NUMBER(sub, a - b, a - b, WEFT_COLOR_OTHER)
DEFINE_NUMBER(mul, a *b, a *b, WEFT_COLOR_OTHER)
DEFINE_FLOAT(scale, alpha *a, alpha *a, WEFT_COLOR_OTHER)
DEFINE_FLOAT(axpy, o + alpha * a, o + alpha * a, WEFT_COLOR_OTHER)
DEFINE_FLOAT(relu, a < 0 ? 0 : a, a < 0 ? 0 : a, WEFT_COLOR_OTHER)
DEFINE_FLOAT(relu_backward, b > 0 ? a : 0, b > 0 ? a : 0, WEFT_COLOR_OTHER)
DEFINE_FLOAT(gelu, a *normal_cdf_f(a), a *normal_cdf(a), WEFT_COLOR_OTHER)
DEFINE_FLOAT(gelu_backward, a *(normal_cdf_f(b) + b * normal_density_f(b)),
             a *(normal_cdf(b) + b * normal_density(b)), WEFT_COLOR_OTHER)
