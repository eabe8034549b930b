/* Cosine and sine transforms. Each is a matrix of codelets/fft.h between diagonal ones, whose adjoint has the transposed matrix and the
 * diagonal ones exchanged. */
#include <math.h>

#include "ops/fft.h"

static weft_tensor *transform(const char *function, weft_tensor *a, weft_fft_kind kind, int dim, int64_t n, const double scalars[]);

/* The matrix of type 3 is that of type 2 transposed; the others are symmetric. */
static weft_fft_kind transposed(weft_fft_kind kind)
{
    static const int types[] = { 0, 2, 1, 3 };
    const weft_fft_kind first = kind < WEFT_FFT_SINE_KIND ? WEFT_FFT_COSINE_KIND : WEFT_FFT_SINE_KIND;
    return (weft_fft_kind)((int)first + types[kind - first]);
}

static bool gradient_of_cosines(const weft_gradient *of)
{
    const int64_t *numbers = of->call->attributes.numbers;
    const double *s = of->call->scalars;
    const double scalars[WEFT_MAX_SCALARS] = { [WEFT_FFT_SCALE] = s[WEFT_FFT_SCALE],
                                               [WEFT_FFT_X_FIRST] = s[WEFT_FFT_Y_FIRST],
                                               [WEFT_FFT_X_LAST] = s[WEFT_FFT_Y_LAST],
                                               [WEFT_FFT_Y_FIRST] = s[WEFT_FFT_X_FIRST],
                                               [WEFT_FFT_Y_LAST] = s[WEFT_FFT_X_LAST] };
    const int dim = (int)numbers[WEFT_FFT_DIM];
    weft_tensor *gradient = transform(of->call->function, weft_gradient_of_output(of, 0), transposed((weft_fft_kind)numbers[WEFT_FFT_KIND]),
                                      dim, numbers[WEFT_FFT_SIZE], scalars);
    return weft_give_gradient(of, 0, weft_fft_fit(gradient, dim, weft_layout_of(of->call->inputs[0])->shape[dim]));
}

#define COSINES(variable, name_)                                                                             \
    static const weft_operation variable = {                                                                 \
        .name = name_,                                                                                       \
        .rules = { "A*[m]B*->A[n]B" },                                                                       \
        .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },                        \
        .gradient = { .function = gradient_of_cosines },                                                     \
        .inputs = { { "a", WEFT_TYPES_ANY, false } },                                                        \
        .kernel = WEFT_KERNEL_fft,                                                                           \
        .expand = weft_fft_expand_narrow,                                                                    \
        .expands = weft_fft_is_narrow,                                                                       \
        .passes_scalars = true,                                                                              \
    };

COSINES(operation_dct, "dct")
COSINES(operation_dst, "dst")

static weft_tensor *transform(const char *function, weft_tensor *a, weft_fft_kind kind, int dim, int64_t n, const double scalars[])
{
    weft_call call = { .function = function,
                       .operation = kind < WEFT_FFT_SINE_KIND ? &operation_dct : &operation_dst,
                       .num_inputs = 1,
                       .inputs = { a },
                       .attributes = { .leading = dim,
                                       .num_sizes = 1,
                                       .sizes = { n },
                                       .num_numbers = WEFT_FFT_NUMBERS,
                                       .numbers = { [WEFT_FFT_DIM] = dim, [WEFT_FFT_KIND] = kind, [WEFT_FFT_SIZE] = n } } };
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        call.scalars[i] = scalars[i];
    }
    return weft_dispatch(&call);
}

/* ---- public -------------------------------------------------------------------------------------------- */

/* Ends of the unitary matrices, which norm WEFT_FFT_ORTHO makes, and of the others. */
static void set_ends(weft_fft_kind kind, bool unitary, double scalars[])
{
    const double outside = unitary ? sqrt(0.5) : 1, inside = unitary ? sqrt(0.5) : 0.5;
    for (int i = WEFT_FFT_X_FIRST; i <= WEFT_FFT_Y_LAST; i++) {
        scalars[i] = 1;
    }
    switch ((int)kind) {
    case WEFT_FFT_COSINE_KIND:
        scalars[WEFT_FFT_X_FIRST] = scalars[WEFT_FFT_X_LAST] = inside;
        scalars[WEFT_FFT_Y_FIRST] = scalars[WEFT_FFT_Y_LAST] = outside;
        break;
    case WEFT_FFT_COSINE_KIND + 1:
        scalars[WEFT_FFT_Y_FIRST] = outside;
        break;
    case WEFT_FFT_COSINE_KIND + 2:
        scalars[WEFT_FFT_X_FIRST] = inside;
        break;
    case WEFT_FFT_SINE_KIND + 1:
        scalars[WEFT_FFT_Y_LAST] = outside;
        break;
    case WEFT_FFT_SINE_KIND + 2:
        scalars[WEFT_FFT_X_LAST] = inside;
        break;
    default:
        break;
    }
}

typedef struct variant {
    const char *function;
    bool sine, inverse;
} variant;

static weft_tensor *cosines(variant v, weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm)
{
    if (weft_check_tensor(v.function, "a", a) == NULL || !weft_check_fft_norm(v.function, norm)) {
        return NULL;
    }
    if (type < 1 || type > 4) {
        weft_fail(WEFT_ERR_INVALID, v.function, "type is %d, expected 1 to 4", type);
        return NULL;
    }
    dim = weft_check_own_dim(v.function, "dim", a, dim);
    n = dim < 0 ? -1 : weft_fft_size(v.function, "n", WEFT_FFT_FORWARD_KIND, weft_layout_of(a)->shape[dim], dim, n);
    if (n == 1 && type == 1 && !v.sine) {
        weft_fail(WEFT_ERR_SHAPE, v.function, "n is 1, expected at least 2 for type 1");
        return NULL;
    }
    if (n < 0) {
        return NULL;
    }
    const int matrix = v.inverse && (type == 2 || type == 3) ? 5 - type : type;
    const weft_fft_kind kind = (weft_fft_kind)((v.sine ? WEFT_FFT_SINE_KIND : WEFT_FFT_COSINE_KIND) + matrix - 1);
    const double period = 2 * ((double)n + (type > 1 ? 0 : v.sine ? 1 : -1));
    const bool divides = (norm == WEFT_FFT_FORWARD) != v.inverse;
    double scalars[WEFT_MAX_SCALARS] = { norm == WEFT_FFT_ORTHO ? 2 / sqrt(period) : divides ? 2 / period : 2 };
    set_ends(kind, norm == WEFT_FFT_ORTHO, scalars);
    return transform(v.function, a, kind, dim, n, scalars);
}

weft_tensor *weft_dct(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm)
{
    return cosines((variant){ "weft_dct", false, false }, a, type, n, dim, norm);
}

weft_tensor *weft_idct(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm)
{
    return cosines((variant){ "weft_idct", false, true }, a, type, n, dim, norm);
}

weft_tensor *weft_dst(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm)
{
    return cosines((variant){ "weft_dst", true, false }, a, type, n, dim, norm);
}

weft_tensor *weft_idst(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm)
{
    return cosines((variant){ "weft_idst", true, true }, a, type, n, dim, norm);
}

const weft_operation *const weft_cosine_operations[] = {
    &operation_dct,
    &operation_dst,
    NULL,
};
