/* Convolutions of complex numbers, by three of real ones, as PyTorch: of x = a + i b and w = c + i d they are
 *
 *     p = a * c,  q = b * d,  r = (a + b) * (c + d),  x * w = p - q + i (r - p - q)
 *
 * The real part of the bias is added to p, the sum of both parts to r. Gradients are those of the three. */
#include "ops/convolution_arguments.h"

enum { SPATIAL, TRANSPOSED, GROUPS, STRIDE, PADDING = STRIDE + 3, DILATION = PADDING + 3, ADDED = DILATION + 3, NUMBERS = ADDED + 3 };

/* NULL for a tensor that is NULL; but for a bias, which there may be none of. */
static weft_tensor *convolve(const weft_call *call, weft_tensor *x, weft_tensor *weight, weft_tensor *bias)
{
    const int64_t *numbers = call->attributes.numbers, *added = numbers + ADDED;
    weft_convolution3d options = { .groups = numbers[GROUPS] };
    weft_convolution flat = { .groups = numbers[GROUPS] };
    for (int d = 0; d < 3; d++) {
        options.stride[d] = numbers[STRIDE + d];
        options.padding[d] = numbers[PADDING + d];
        options.dilation[d] = numbers[DILATION + d];
    }
    for (int d = 0; d < 2; d++) {
        flat.stride[d] = options.stride[d];
        flat.padding[d] = options.padding[d];
        flat.dilation[d] = options.dilation[d];
    }
    if (x == NULL || weight == NULL) {
        return NULL;
    }
    switch (numbers[SPATIAL]) {
    case 1:
        return numbers[TRANSPOSED] ? weft_conv_transpose1d(x, weight, bias, &flat, added) : weft_conv1d(x, weight, bias, &flat);
    case 2:
        return numbers[TRANSPOSED] ? weft_conv_transpose2d(x, weight, bias, &flat, added) : weft_conv2d(x, weight, bias, &flat);
    default:
        return numbers[TRANSPOSED] ? weft_conv_transpose3d(x, weight, bias, &options, added) : weft_conv3d(x, weight, bias, &options);
    }
}

static weft_tensor *sum_of(weft_tensor *a, weft_tensor *b)
{
    return a == NULL || b == NULL ? NULL : weft_add(a, b);
}

static bool expand(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *real[3] = { NULL }, *imag[3] = { NULL }, *sum[3] = { NULL };
    for (int i = 0; i < call->num_inputs; i++) {
        real[i] = weft_real(call->inputs[i]);
        imag[i] = weft_imag(call->inputs[i]);
        sum[i] = sum_of(real[i], imag[i]);
        if (sum[i] == NULL) {
            return false;
        }
    }
    weft_tensor *p = convolve(call, real[0], real[1], real[2]), *q = p == NULL ? NULL : convolve(call, imag[0], imag[1], NULL);
    weft_tensor *r = q == NULL ? NULL : convolve(call, sum[0], sum[1], sum[2]);
    weft_tensor *rest = r == NULL ? NULL : weft_sub(r, p), *difference = rest == NULL ? NULL : weft_sub(p, q);
    weft_tensor *turned = difference == NULL ? NULL : weft_sub(rest, q);
    outputs[0] = turned == NULL ? NULL : weft_complex(difference, turned);
    return outputs[0] != NULL;
}

static const weft_operation operation_complex_convolution = {
    .name = "complex_convolution",
    .gradient = WEFT_GRADIENT_OF_BODY,
    .inputs = { { "x", WEFT_TYPES_COMPLEX, true }, { "weight", WEFT_TYPES_COMPLEX, true }, { "bias", WEFT_TYPES_COMPLEX, true } },
    .expand = expand,
};

weft_tensor *weft_convolve_complex(const weft_convolution_arguments *c, weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                   bool transposed, const int64_t output_padding[])
{
    if (!weft_check_convolution_bias(c, bias, transposed ? c->x[1] : c->weight[0])) {
        return NULL;
    }
    weft_call call = { .function = c->function,
                       .operation = &operation_complex_convolution,
                       .num_inputs = bias == NULL ? 2 : 3,
                       .inputs = { x, weight, bias },
                       .attributes = { .num_numbers = NUMBERS,
                                       .numbers = { [SPATIAL] = c->spatial, [TRANSPOSED] = transposed, [GROUPS] = c->options.groups } } };
    int64_t *numbers = call.attributes.numbers;
    for (int d = 0; d < c->spatial; d++) {
        numbers[STRIDE + d] = c->options.stride[d];
        numbers[PADDING + d] = c->options.padding[d];
        numbers[DILATION + d] = c->options.dilation[d];
        numbers[ADDED + d] = output_padding == NULL ? 0 : output_padding[d];
    }
    return weft_dispatch(&call);
}

const weft_operation *const weft_complex_convolution_operations[] = { &operation_complex_convolution, NULL };
