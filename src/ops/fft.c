/* Fourier transforms of one dimension. A forward transform is the adjoint of the inverse one without its factor. */
#include "ops/fft.h"

#include <math.h>

/* ---- gradients ----------------------------------------------------------------------------------------- */

static weft_transform transform_of(const weft_call *call)
{
    const int64_t *numbers = call->attributes.numbers;
    return (weft_transform){ .function = call->function,
                             .kind = (weft_fft_kind)numbers[WEFT_FFT_KIND],
                             .dim = (int)numbers[WEFT_FFT_DIM],
                             .n = numbers[WEFT_FFT_SIZE],
                             .scale = call->scalars[0],
                             .weighted = numbers[WEFT_FFT_WEIGHTED] != 0 };
}

weft_tensor *weft_fft_fit(weft_tensor *a, int dim, int64_t size)
{
    if (a == NULL || weft_layout_of(a)->shape[dim] == size) {
        return a;
    }
    int64_t before[WEFT_MAX_DIMS] = { 0 }, after[WEFT_MAX_DIMS] = { 0 };
    after[dim] = size - weft_layout_of(a)->shape[dim];
    return after[dim] < 0 ? weft_slice(a, dim, 0, size, 1)
                          : weft_pad(a, WEFT_PAD_CONSTANT, 0, weft_layout_of(a)->ndim, before, after);
}

/* Bins that stand for two count twice in the adjoint, once they do not in the transform, and the other way round. */
static bool gradient_of_transform(const weft_gradient *of)
{
    static const weft_fft_kind adjoints[] = { [WEFT_FFT_FORWARD_KIND] = WEFT_FFT_INVERSE_KIND,
                                              [WEFT_FFT_INVERSE_KIND] = WEFT_FFT_FORWARD_KIND,
                                              [WEFT_FFT_REAL_KIND] = WEFT_FFT_HALF_KIND,
                                              [WEFT_FFT_HALF_KIND] = WEFT_FFT_REAL_KIND };
    weft_transform t = transform_of(of->call);
    bool real = t.kind == WEFT_FFT_REAL_KIND || t.kind == WEFT_FFT_HALF_KIND;
    t.kind = adjoints[t.kind];
    t.weighted = real && !t.weighted;
    weft_tensor *gradient = weft_transform_dim(&t, weft_gradient_of_output(of, 0));
    return weft_give_gradient(of, 0, weft_fft_fit(gradient, t.dim, weft_layout_of(of->call->inputs[0])->shape[t.dim]));
}

/* ---- the operations ------------------------------------------------------------------------------------ */

bool weft_fft_is_narrow(const weft_call_layouts *call)
{
    return !(WEFT_TYPE_BIT(call->inputs[0]->dtype) & (WEFT_TYPES_WIDE | WEFT_TYPES_COMPLEX));
}

bool weft_fft_expand_narrow(const weft_call *call, weft_tensor *outputs[])
{
    weft_call wide = *call;
    wide.inherited = WEFT_ALL_SCALARS;
    wide.inputs[0] = weft_to_type(call->inputs[0], WEFT_F32);
    outputs[0] = wide.inputs[0] == NULL ? NULL : weft_dispatch(&wide);
    return outputs[0] != NULL;
}

static bool expands(const weft_call_layouts *call)
{
    return weft_fft_is_narrow(call) || weft_fft_may_be_shared(call);
}

static bool expand(const weft_call *call, weft_tensor *outputs[])
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    if (weft_fft_is_narrow(&layouts)) {
        return weft_fft_expand_narrow(call, outputs);
    }
    const weft_transform t = transform_of(call);
    weft_call itself = *call;
    itself.inherited = WEFT_ALL_SCALARS;
    outputs[0] = weft_fft_is_shared(&t, layouts.inputs[0]) ? weft_fft_share(&t, call->inputs[0]) : weft_dispatch_itself(&itself);
    return outputs[0] != NULL;
}

#define TRANSFORM(variable, name_, types, type_)                                                             \
    static const weft_operation variable = {                                                                 \
        .name = name_,                                                                                       \
        .rules = { "A*[m]B*->A[n]B" },                                                                       \
        .outputs[0] = { .type = type_, .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS } },  \
        .gradient = { .function = gradient_of_transform },                                                   \
        .inputs = { { "a", types, false } },                                                                 \
        .kernel = WEFT_KERNEL_fft,                                                                           \
        .expand = expand,                                                                                    \
        .expands = expands,                                                                                  \
        .passes_scalars = true,                                                                              \
    };

TRANSFORM(operation_fft, "fft", WEFT_TYPES_ANY, WEFT_TYPE_COMPLEX)
TRANSFORM(operation_rfft, "rfft", WEFT_TYPES_ALL, WEFT_TYPE_COMPLEX)
TRANSFORM(operation_irfft, "irfft", WEFT_TYPES_WIDE | WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL)

weft_tensor *weft_transform_dim(const weft_transform *t, weft_tensor *a)
{
    static const weft_operation *const operations[] = { [WEFT_FFT_FORWARD_KIND] = &operation_fft,
                                                        [WEFT_FFT_INVERSE_KIND] = &operation_fft,
                                                        [WEFT_FFT_REAL_KIND] = &operation_rfft,
                                                        [WEFT_FFT_HALF_KIND] = &operation_irfft };
    return weft_dispatch(&(weft_call){
        .function = t->function,
        .operation = operations[t->kind],
        .num_inputs = 1,
        .inputs = { a },
        .attributes = { .leading = t->dim,
                        .num_sizes = 1,
                        .sizes = { t->line > 0 ? t->size : t->kind == WEFT_FFT_REAL_KIND ? t->n / 2 + 1 : t->n },
                        .num_numbers = WEFT_FFT_NUMBERS,
                        .numbers = { [WEFT_FFT_DIM] = t->dim,
                                     [WEFT_FFT_KIND] = t->kind,
                                     [WEFT_FFT_SIZE] = t->n,
                                     [WEFT_FFT_WEIGHTED] = t->weighted,
                                     [WEFT_FFT_LINE] = t->line,
                                     [WEFT_FFT_STEP] = t->step } },
        .scalars = { t->scale },
        .inherited = t->inherited,
    });
}

/* ---- arguments ----------------------------------------------------------------------------------------- */

double weft_fft_scale(weft_fft_kind kind, int64_t n, weft_fft_norm norm)
{
    bool forward = kind == WEFT_FFT_FORWARD_KIND || kind == WEFT_FFT_REAL_KIND;
    return norm == WEFT_FFT_ORTHO                             ? 1 / sqrt((double)n)
           : (norm == WEFT_FFT_FORWARD) == forward ? 1 / (double)n
                                                              : 1;
}

int64_t weft_fft_size(const char *function, const char *argument, weft_fft_kind kind, int64_t size, int dim, int64_t n)
{
    enum { BITS = 40 }; /* larger ones could not be allocated */
    bool half = kind == WEFT_FFT_HALF_KIND;
    if (n < 0 || n > (int64_t)1 << BITS) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s is %lld, expected 0, or 1 to 2^%d", argument, (long long)n, BITS);
        return -1;
    }
    n = n > 0 ? n : half ? 2 * (size - 1) : size;
    if (n < 1) {
        weft_fail(WEFT_ERR_SHAPE, function, "a has size %lld in dimension %d: %s must be given, at least 1", (long long)size, dim,
                  argument);
        return -1;
    }
    return n;
}

bool weft_check_fft_norm(const char *function, weft_fft_norm norm)
{
    if ((int)norm < WEFT_FFT_BACKWARD || norm > WEFT_FFT_FORWARD) {
        weft_fail(WEFT_ERR_INVALID, function, "norm is %d, expected a weft_fft_norm", (int)norm);
        return false;
    }
    return true;
}

/* ---- public -------------------------------------------------------------------------------------------- */

static weft_tensor *transform(const char *function, weft_fft_kind kind, weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    dim = weft_check_tensor(function, "a", a) == NULL || !weft_check_fft_norm(function, norm)
              ? -1
              : weft_check_own_dim(function, "dim", a, dim);
    n = dim < 0 ? -1 : weft_fft_size(function, "n", kind, weft_layout_of(a)->shape[dim], dim, n);
    return n < 0 ? NULL
                 : weft_transform_dim(&(weft_transform){ .function = function,
                                                             .kind = kind,
                                                             .dim = dim,
                                                             .n = n,
                                                             .scale = weft_fft_scale(kind, n, norm) },
                                          a);
}

weft_tensor *weft_fft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return transform("weft_fft", WEFT_FFT_FORWARD_KIND, a, n, dim, norm);
}

weft_tensor *weft_ifft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return transform("weft_ifft", WEFT_FFT_INVERSE_KIND, a, n, dim, norm);
}

weft_tensor *weft_rfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return transform("weft_rfft", WEFT_FFT_REAL_KIND, a, n, dim, norm);
}

weft_tensor *weft_irfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return transform("weft_irfft", WEFT_FFT_HALF_KIND, a, n, dim, norm);
}

const weft_operation *const weft_fft_operations[] = {
    &operation_fft,
    &operation_rfft,
    &operation_irfft,
    NULL,
};
