/* Arguments of convolutions: options with defaults, and shapes that fit together. All functions return false with the error
 * kept. */
#ifndef WEFT_SRC_OPS_CONVOLUTION_ARGUMENTS_H
#define WEFT_SRC_OPS_CONVOLUTION_ARGUMENTS_H

#include "ops/ops.h"

/* Arguments of one call: options with defaults, and all shapes, one of which is the output's. */
typedef struct weft_convolution_arguments {
    const char *function;
    int spatial; /* number of spatial dimensions */
    weft_convolution3d options; /* those of further dimensions have no effect */
    int64_t x[5], weight[5], result[5];
} weft_convolution_arguments;

/* Takes the options of one or two spatial dimensions; of three. `options`: NULL for defaults. */
bool weft_take_convolution_options(weft_convolution_arguments *c, const weft_convolution *options);
bool weft_take_convolution3d_options(weft_convolution_arguments *c, const weft_convolution3d *options);
/* Takes the shape of a tensor of the call. */
bool weft_take_convolution_shape(const weft_convolution_arguments *c, const char *name, weft_tensor *tensor,
                                 int64_t shape[]);
/* Takes a shape given by the caller. */
bool weft_take_given_shape(const weft_convolution_arguments *c, const int64_t given[], int64_t shape[]);
/* Computes the result's shape from x, weight and options; or compares it. */
bool weft_check_convolution(weft_convolution_arguments *c, bool known);

/* Computes x from result, weight and options: those of the convolution whose input is wanted. `output_padding`: NULL: 0. */
bool weft_check_transposed(weft_convolution_arguments *c, const int64_t output_padding[]);
/* The bias has so many channels, or is NULL. False with the error kept. */
bool weft_check_convolution_bias(const weft_convolution_arguments *c, weft_tensor *bias, int64_t channels);

/* The convolution of complex tensors (complex_convolution.c), whose shapes and options have been checked. NULL with the error kept. */
static inline bool weft_convolves_complex(const weft_tensor *x)
{
    return weft_dtype_is_complex(weft_layout_of(x)->dtype);
}
weft_tensor *weft_convolve_complex(const weft_convolution_arguments *c, weft_tensor *x, weft_tensor *weight, weft_tensor *bias,
                                   bool transposed, const int64_t output_padding[]);

#endif
