/* Fourier transforms of several dimensions, of conjugate-symmetric signals, and what goes with them: put together from those of one
 * dimension. */
#include <stdio.h>

#include "ops/data_movement.h"
#include "ops/fft.h"

/* ---- several dimensions -------------------------------------------------------------------------------- */

enum { KIND, NORM, NUMBERS }; /* attributes.sizes: the dimensions, then the sizes of their transforms */

static bool is_sharded(const weft_layout *layout, int dim)
{
    bool sharded = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        sharded |= layout->placements[m].kind == WEFT_SHARD && layout->placements[m].dim == dim;
    }
    return sharded;
}

/* The last one of the first `count` dimensions that are not done, one that is whole now if there is any. */
static int64_t next_dim(const weft_layout *layout, const int64_t dims[], int64_t count, const bool done[])
{
    int64_t next = 0;
    bool found = false;
    for (int64_t d = count - 1; d >= 0; d--) {
        bool better = !found || (is_sharded(layout, (int)dims[next]) && !is_sharded(layout, (int)dims[d]));
        if (!done[d] && better) {
            next = d;
            found = true;
        }
    }
    return next;
}

/* The first `count` dimensions of the call, those first that are whole now. */
static weft_tensor *transform_dims(const weft_call *call, weft_fft_kind kind, weft_tensor *a, int64_t count)
{
    const int64_t *dims = call->attributes.sizes, *sizes = dims + WEFT_MAX_DIMS;
    bool done[WEFT_MAX_DIMS] = { false };
    for (int64_t i = 0; i < count && a != NULL; i++) {
        int64_t next = next_dim(weft_layout_of(a), dims, count, done);
        done[next] = true;
        double scale = weft_fft_scale(kind, sizes[next], (weft_fft_norm)call->attributes.numbers[NORM]);
        const weft_transform t = { .function = call->function, .kind = kind, .dim = (int)dims[next], .n = sizes[next], .scale = scale };
        a = weft_transform_dim(&t, a);
    }
    return a;
}

static weft_tensor *transform_last(const weft_call *call, weft_fft_kind kind, weft_tensor *a, int64_t last)
{
    int64_t dim = call->attributes.sizes[last], n = call->attributes.sizes[WEFT_MAX_DIMS + last];
    double scale = weft_fft_scale(kind, n, (weft_fft_norm)call->attributes.numbers[NORM]);
    const weft_transform t = { .function = call->function, .kind = kind, .dim = (int)dim, .n = n, .scale = scale };
    return a == NULL ? NULL : weft_transform_dim(&t, a);
}

static bool expand_dims(const weft_call *call, weft_tensor *outputs[])
{
    weft_fft_kind kind = (weft_fft_kind)call->attributes.numbers[KIND];
    int64_t count = call->attributes.numbers[NUMBERS];
    weft_tensor *a = call->inputs[0];
    switch (kind) {
    case WEFT_FFT_REAL_KIND:
        outputs[0] = transform_dims(call, WEFT_FFT_FORWARD_KIND, transform_last(call, kind, a, count - 1), count - 1);
        break;
    case WEFT_FFT_HALF_KIND:
        outputs[0] = transform_last(call, kind, transform_dims(call, WEFT_FFT_INVERSE_KIND, a, count - 1), count - 1);
        break;
    default:
        outputs[0] = transform_dims(call, kind, a, count);
        break;
    }
    return outputs[0] != NULL;
}

#define OF_DIMS(variable, name_, types, type_)                                                               \
    static const weft_operation variable = {                                                                 \
        .name = name_,                                                                                       \
        .gradient = WEFT_GRADIENT_OF_MOVES,                                                                  \
        .inputs = { { "a", types, false } },                                                                 \
        .outputs[0].type = type_,                                                                            \
        .expand = expand_dims,                                                                               \
    };

OF_DIMS(operation_fftn, "fftn", WEFT_TYPES_ANY, WEFT_TYPE_COMPLEX)
OF_DIMS(operation_rfftn, "rfftn", WEFT_TYPES_ALL, WEFT_TYPE_COMPLEX)
OF_DIMS(operation_irfftn, "irfftn", WEFT_TYPES_WIDE | WEFT_TYPES_COMPLEX, WEFT_TYPE_REAL)

/* Their number; -1 with the error kept. */
static int take_dims(const char *function, const weft_tensor *a, int num_dims, const int dims[], int taken[])
{
    int ndim = weft_layout_of(a)->ndim, last[WEFT_MAX_DIMS];
    num_dims = dims == NULL && num_dims == WEFT_ALL_DIMS ? ndim : num_dims;
    if (num_dims < 1 || num_dims > ndim) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d, expected 1 to %d", num_dims, ndim);
        return -1;
    }
    for (int i = 0; i < num_dims; i++) {
        last[i] = ndim - num_dims + i;
    }
    return weft_check_own_dims(function, a, num_dims, dims == NULL ? last : dims, taken) ? num_dims : -1;
}

static weft_tensor *transforms(const char *function, weft_fft_kind kind, weft_tensor *a, int num_dims, const int64_t s[],
                               const int dims[], weft_fft_norm norm)
{
    static const weft_operation *const operations[] = { [WEFT_FFT_FORWARD_KIND] = &operation_fftn,
                                                        [WEFT_FFT_INVERSE_KIND] = &operation_fftn,
                                                        [WEFT_FFT_REAL_KIND] = &operation_rfftn,
                                                        [WEFT_FFT_HALF_KIND] = &operation_irfftn };
    int taken[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "a", a) == NULL || !weft_check_fft_norm(function, norm) ||
        (num_dims = take_dims(function, a, num_dims, dims, taken)) < 0) {
        return NULL;
    }
    weft_attributes attributes = { .num_sizes = 2 * WEFT_MAX_DIMS,
                                   .num_numbers = NUMBERS + 1,
                                   .numbers = { [KIND] = kind, [NORM] = norm, [NUMBERS] = num_dims } };
    for (int i = 0; i < num_dims; i++) {
        weft_fft_kind own = kind == WEFT_FFT_HALF_KIND && i < num_dims - 1 ? WEFT_FFT_INVERSE_KIND : kind;
        char name[16];
        snprintf(name, sizeof(name), "s[%d]", i);
        attributes.sizes[i] = taken[i];
        attributes.sizes[WEFT_MAX_DIMS + i] =
            weft_fft_size(function, name, own, weft_layout_of(a)->shape[taken[i]], taken[i], s == NULL ? 0 : s[i]);
        if (attributes.sizes[WEFT_MAX_DIMS + i] < 0) {
            return NULL;
        }
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = operations[kind],
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = attributes });
}

weft_tensor *weft_fftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm)
{
    return transforms("weft_fftn", WEFT_FFT_FORWARD_KIND, a, num_dims, s, dims, norm);
}

weft_tensor *weft_ifftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm)
{
    return transforms("weft_ifftn", WEFT_FFT_INVERSE_KIND, a, num_dims, s, dims, norm);
}

weft_tensor *weft_rfftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm)
{
    return transforms("weft_rfftn", WEFT_FFT_REAL_KIND, a, num_dims, s, dims, norm);
}

weft_tensor *weft_irfftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm)
{
    return transforms("weft_irfftn", WEFT_FFT_HALF_KIND, a, num_dims, s, dims, norm);
}

weft_tensor *weft_fft2(weft_tensor *a, const int64_t s[2], const int dims[2], weft_fft_norm norm)
{
    return transforms("weft_fft2", WEFT_FFT_FORWARD_KIND, a, 2, s, dims, norm);
}

weft_tensor *weft_ifft2(weft_tensor *a, const int64_t s[2], const int dims[2], weft_fft_norm norm)
{
    return transforms("weft_ifft2", WEFT_FFT_INVERSE_KIND, a, 2, s, dims, norm);
}

/* ---- conjugate-symmetric signals ----------------------------------------------------------------------- */

/* numbers: as those of a transform of one dimension; scalars[0]: its factor, which has the other direction's norm. */
static weft_tensor *transform_again(const weft_call *call, weft_tensor *a)
{
    const int64_t *numbers = call->attributes.numbers;
    return a == NULL ? NULL
                     : weft_transform_dim(&(weft_transform){ .function = call->function,
                                                             .kind = (weft_fft_kind)numbers[WEFT_FFT_KIND],
                                                             .dim = (int)numbers[WEFT_FFT_DIM],
                                                             .n = numbers[WEFT_FFT_SIZE],
                                                             .scale = call->scalars[0] },
                                          a);
}

static bool expand_hfft(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = transform_again(call, weft_conj(call->inputs[0]));
    return outputs[0] != NULL;
}

static bool expand_ihfft(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *half = transform_again(call, call->inputs[0]);
    outputs[0] = half == NULL ? NULL : weft_conj(half);
    return outputs[0] != NULL;
}

static const weft_operation operation_hfft = {
    .name = "hfft",
    .gradient = WEFT_GRADIENT_OF_MOVES,
    .inputs = { { "a", WEFT_TYPES_WIDE | WEFT_TYPES_COMPLEX, false } },
    .outputs[0].type = WEFT_TYPE_REAL,
    .expand = expand_hfft,
};

static const weft_operation operation_ihfft = {
    .name = "ihfft",
    .gradient = WEFT_GRADIENT_OF_MOVES,
    .inputs = { { "a", WEFT_TYPES_ALL, false } },
    .outputs[0].type = WEFT_TYPE_COMPLEX,
    .expand = expand_ihfft,
};

static weft_tensor *hermitian(const char *function, const weft_operation *operation, weft_fft_kind kind, weft_tensor *a, int64_t n,
                              int dim, weft_fft_norm norm)
{
    dim = weft_check_tensor(function, "a", a) == NULL || !weft_check_fft_norm(function, norm)
              ? -1
              : weft_check_own_dim(function, "dim", a, dim);
    n = dim < 0 ? -1 : weft_fft_size(function, "n", kind, weft_layout_of(a)->shape[dim], dim, n);
    if (n < 0) {
        return NULL;
    }
    weft_fft_norm other = norm == WEFT_FFT_ORTHO ? norm : norm == WEFT_FFT_BACKWARD ? WEFT_FFT_FORWARD : WEFT_FFT_BACKWARD;
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = operation,
        .num_inputs = 1,
        .inputs = { a },
        .attributes = { .num_numbers = WEFT_FFT_NUMBERS,
                        .numbers = { [WEFT_FFT_DIM] = dim, [WEFT_FFT_KIND] = kind, [WEFT_FFT_SIZE] = n } },
        .scalars = { weft_fft_scale(kind, n, other) } });
}

weft_tensor *weft_hfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return hermitian("weft_hfft", &operation_hfft, WEFT_FFT_HALF_KIND, a, n, dim, norm);
}

weft_tensor *weft_ihfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm)
{
    return hermitian("weft_ihfft", &operation_ihfft, WEFT_FFT_REAL_KIND, a, n, dim, norm);
}

/* ---- shifts -------------------------------------------------------------------------------------------- */

/* numbers[0]: bit d: dimension d is rolled; numbers[1]: back. */
static bool expand_shift(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0];
    for (int d = 0; a != NULL && d < weft_layout_of(call->inputs[0])->ndim; d++) {
        int64_t size = weft_layout_of(call->inputs[0])->shape[d];
        int64_t shift = call->attributes.numbers[1] ? (size + 1) / 2 : size / 2;
        a = call->attributes.numbers[0] >> d & 1 ? weft_roll(a, shift, d) : a;
    }
    outputs[0] = a;
    return a != NULL;
}

static const weft_operation operation_fftshift = {
    .name = "fftshift",
    .gradient = WEFT_GRADIENT_OF_MOVES,
    .inputs = { { "a", WEFT_TYPES_ANY, false } },
    .expand = expand_shift,
};

static weft_tensor *shift_by_halves(const char *function, weft_tensor *a, int num_dims, const int dims[], bool back)
{
    int taken[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "a", a) == NULL ||
        (dims != NULL && !weft_check_own_dims(function, a, num_dims, dims, taken))) {
        return NULL;
    }
    int64_t mask = dims == NULL ? ((int64_t)1 << weft_layout_of(a)->ndim) - 1 : 0;
    for (int i = 0; i < num_dims && dims != NULL; i++) {
        mask |= (int64_t)1 << taken[i];
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_fftshift,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_numbers = 2, .numbers = { mask, back } } });
}

weft_tensor *weft_fftshift(weft_tensor *a, int num_dims, const int dims[])
{
    return shift_by_halves("weft_fftshift", a, num_dims, dims, false);
}

weft_tensor *weft_ifftshift(weft_tensor *a, int num_dims, const int dims[])
{
    return shift_by_halves("weft_ifftshift", a, num_dims, dims, true);
}

const weft_operation *const weft_fft_call_operations[] = {
    &operation_fftn, &operation_rfftn, &operation_irfftn, &operation_hfft, &operation_ihfft, &operation_fftshift, NULL,
};
