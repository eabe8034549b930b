/* Kernels of a program's own for devices (weft_operation_description.cuda), and the same for CPUs, in single precision. */
#ifndef WEFT_TESTS_OWN_KERNELS_H
#define WEFT_TESTS_OWN_KERNELS_H

#include <weft/kernel.h>

WEFT_BEGIN_DECLS

/* scalars[0] * a + scalars[1]: "A->A", or in place. */
void own_affine(const weft_kernel_call *call);
int own_affine_cuda(const weft_kernel_call *call, void *stream);
/* Sums over the 3 by 3 neighbours that there are: "h~w~->hw". */
void own_stencil(const weft_kernel_call *call);
int own_stencil_cuda(const weft_kernel_call *call, void *stream);
/* Sums of squares of the columns, piece by piece of the rows: "nc->c". */
void own_squares(const weft_kernel_call *call);
int own_squares_cuda(const weft_kernel_call *call, void *stream);

/* Uniform random numbers, times the context's float, added to a of two dimensions, by rows: "a[b]->a[b]". */
void own_noise(const weft_kernel_call *call);
int own_noise_cuda(const weft_kernel_call *call, void *stream);

/* How often these four functions for devices have been called. */
int64_t own_cuda_calls(void);

/* "A->A", on a device: too many threads, which CUDA refuses; a null pointer; the end of the stand-in's devices. */
int own_refused_cuda(const weft_kernel_call *call, void *stream);
int own_illegal_cuda(const weft_kernel_call *call, void *stream);
int own_killing_cuda(const weft_kernel_call *call, void *stream);

WEFT_END_DECLS

#endif
