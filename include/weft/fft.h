/** \file
 * Discrete Fourier transforms, as torch.fft and numpy.fft. The transformed dimension is whole on each rank that works on it: if a tensor
 * is sharded along it, weft redistributes the tensor so that another dimension is sharded, as a hand-written pencil
 * decomposition does. The result stays in the layout that the transform has made. Where no other dimension has an index for each
 * rank, as in a tensor of one dimension, ranks share a line (docs/fft.md, "Long lines"): the result's layout is then
 * periodic, as S0%64. Redistribute it if you need another one.
 *
 * Most transforms return complex tensors: WEFT_C128 for WEFT_F64 and WEFT_C128, otherwise WEFT_C64. weft_irfft(), weft_irfftn() and
 * weft_hfft() return real ones: WEFT_F64, or WEFT_F32. Cosine and sine transforms keep the type. Any size is possible; products of 2, 3, 5, 7, 11 and 13 are
 * fastest. The arithmetic is that of the result's type.
 *
 * Gradients are PyTorch's. A transform is linear, so Partial sums pass through it unreduced. The tasks run on CPUs. */
#ifndef WEFT_FFT_H
#define WEFT_FFT_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Which transform divides: by n in one direction, or by sqrt(n) in both. */
typedef enum weft_fft_norm {
    WEFT_FFT_BACKWARD = 0, /**< the inverse divides by n */
    WEFT_FFT_ORTHO,        /**< both directions divide by sqrt(n) */
    WEFT_FFT_FORWARD       /**< the forward transform divides by n */
} weft_fft_norm;

/**
 * Transforms of one dimension. In one dimension, without the factor of `norm`:
 *
 *     weft_fft    y_k = sum over j of a_j exp(-2 pi i j k / n)
 *     weft_ifft   y_j = sum over k of a_k exp(+2 pi i j k / n)
 *     weft_rfft   weft_fft() of a real tensor: only the n / 2 + 1 results that determine the others
 *     weft_irfft  weft_ifft() of such a half: a real tensor of size n. The imaginary parts of a_0, and of a_(n/2) if n is even,
 *                 are ignored
 *     weft_hfft   weft_fft() of a half of a conjugate-symmetric signal: a real tensor of size n
 *     weft_ihfft  the inverse of weft_hfft(): a half
 *
 * \param n     size of the transform: the tensor is cut, or followed by zeros, to it (weft_irfft(), weft_hfft(): to n / 2 + 1). 0: the
 *              size of the dimension; weft_irfft() and weft_hfft(): 2 (size - 1). At most 2^40
 * \param norm  weft_fft(), weft_rfft() and weft_hfft() are forward transforms, the others inverse ones. The sum is divided
 *              at the end
 * \return NULL on error, as operations: WEFT_ERR_SHAPE if n would be less than 1, WEFT_ERR_DTYPE (weft_rfft() and weft_ihfft()
 *         take real tensors; weft_irfft() and weft_hfft() take complex ones, WEFT_F32 and WEFT_F64).
 *
 *     weft_tensor *spectrum = weft_fft(a, 0, -1, WEFT_FFT_BACKWARD);
 *
 * \{ */
WEFT_API weft_tensor *weft_fft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_ifft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_rfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_irfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_hfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_ihfft(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm);
/** \} */

/**
 * Transforms of several dimensions, one after the other: those that are not sharded come first. weft_rfftn() transforms the last
 * of `dims` with weft_rfft() and the others with weft_fft(); weft_irfftn() goes back.
 *
 * \param dims  num_dims dimensions, each at most once. NULL: the last num_dims ones, or with num_dims = WEFT_ALL_DIMS all
 * \param s     size of the transform for each of dims, as `n` above; NULL: all 0. The size for the last of dims in
 *              weft_irfftn() is that of the result
 *
 *     weft_tensor *spectrum = weft_rfftn(a, 3, NULL, NULL, WEFT_FFT_BACKWARD);
 *
 * \{ */
WEFT_API weft_tensor *weft_fftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm);
WEFT_API weft_tensor *weft_ifftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm);
WEFT_API weft_tensor *weft_rfftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm);
WEFT_API weft_tensor *weft_irfftn(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm);
/** \} */
/** The same of two dimensions; dims NULL: the last two. \{ */
WEFT_API weft_tensor *weft_fft2(weft_tensor *a, const int64_t s[2], const int dims[2], weft_fft_norm norm);
WEFT_API weft_tensor *weft_ifft2(weft_tensor *a, const int64_t s[2], const int dims[2], weft_fft_norm norm);
/** \} */

/**
 * Cosine and sine transforms of one dimension, as scipy.fft. From x_0, ..., x_(n-1), with a factor of 2 in each sum:
 *
 *     type   weft_dct: y_k = 2 sum of x_j times                 weft_dst: y_k = 2 sum of x_j times
 *     1      cos(pi j k / (n - 1)), x_0 and x_(n-1) halved      sin(pi (j + 1) (k + 1) / (n + 1))
 *     2      cos(pi (2 j + 1) k / 2 n)                          sin(pi (2 j + 1) (k + 1) / 2 n)
 *     3      cos(pi j (2 k + 1) / 2 n), x_0 halved              sin(pi (j + 1) (2 k + 1) / 2 n), x_(n-1) halved
 *     4      cos(pi (2 j + 1) (2 k + 1) / 4 n)                  sin(pi (2 j + 1) (2 k + 1) / 4 n)
 *
 * weft_idct() and weft_idst() are the inverses of the same type. The result has a's type, WEFT_F32 for integers and types of 16 bits;
 * both parts of complex numbers are transformed.
 *
 * \param type  1 to 4
 * \param n     size of the transform, as in weft_fft(); 0: the size of the dimension. Type 1 of weft_dct() needs at least 2
 * \param norm  WEFT_FFT_BACKWARD: the inverse divides by 2 n (type 1: by 2 (n - 1), weft_idst(): by 2 (n + 1)); WEFT_FFT_FORWARD: the
 *              other does; WEFT_FFT_ORTHO: the matrix is orthogonal
 *
 *     weft_tensor *spectrum = weft_dct(a, 2, 0, -1, WEFT_FFT_ORTHO);
 *
 * \{ */
WEFT_API weft_tensor *weft_dct(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_idct(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_dst(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm);
WEFT_API weft_tensor *weft_idst(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm);
/** \} */

/** Rolls these dimensions by half their size, so that frequency 0 is in the middle; and back. dims NULL: all dimensions (num_dims is
 * then ignored). \{ */
WEFT_API weft_tensor *weft_fftshift(weft_tensor *a, int num_dims, const int dims[]);
WEFT_API weft_tensor *weft_ifftshift(weft_tensor *a, int num_dims, const int dims[]);
/** \} */

/** The frequencies of the bins of weft_fft(), [n], and of weft_rfft(), [n / 2 + 1], in cycles per unit of the spacing of samples: 0, 1,
 * ..., -2, -1 and 0, 1, ..., n / 2, divided by n spacing. The type must be floating (WEFT_ERR_DTYPE).
 *
 *     weft_tensor *k = weft_fftfreq(WEFT_F64, n, 1.0 / n, mesh, NULL);
 *
 * \{ */
WEFT_API weft_tensor *weft_fftfreq(weft_dtype dtype, int64_t n, double spacing, weft_mesh *mesh,
                                   const weft_placement *placements);
WEFT_API weft_tensor *weft_rfftfreq(weft_dtype dtype, int64_t n, double spacing, weft_mesh *mesh,
                                    const weft_placement *placements);
/** \} */

WEFT_END_DECLS

#endif
