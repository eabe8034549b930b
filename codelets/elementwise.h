/* Elementwise kernels with broadcasting. */
#ifndef WEFT_CODELETS_ELEMENTWISE_H
#define WEFT_CODELETS_ELEMENTWISE_H

#include "codelets/args.h"

/* Operand 0: output (W, or RW for axpy); operands 1, 2: inputs. All over the same index box `extent`; each
 * has its own strides in elements (0 along a broadcast dimension). The output's are never 0. */
typedef struct weft_elementwise_args {
    weft_task_args base;
    int ndim;
    int64_t extent[WEFT_MAX_DIMS];
    int64_t stride[3][WEFT_MAX_DIMS];
    double alpha;
} weft_elementwise_args;

extern struct starpu_codelet weft_codelet_add;           /* out = a + b */
extern struct starpu_codelet weft_codelet_sub;           /* out = a - b */
extern struct starpu_codelet weft_codelet_mul;           /* out = a * b */
extern struct starpu_codelet weft_codelet_scale;         /* out = alpha * a */
extern struct starpu_codelet weft_codelet_axpy;          /* out += alpha * a */
extern struct starpu_codelet weft_codelet_relu;          /* out = max(a, 0); NaN stays NaN */
extern struct starpu_codelet weft_codelet_relu_backward; /* out = b > 0 ? a : 0;  a: gradient, b: the input */
extern struct starpu_codelet weft_codelet_gelu;          /* out = a Phi(a), with erf, as PyTorch's default */
extern struct starpu_codelet
    weft_codelet_gelu_backward; /* out = a (Phi(b) + b phi(b)); a: gradient, b: the input */

#endif
