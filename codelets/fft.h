/* Fourier transforms of lines. */
#ifndef WEFT_CODELETS_FFT_H
#define WEFT_CODELETS_FFT_H

#include <weft/kernel.h>

/* The values that a transform computes along dimension numbers[WEFT_FFT_DIM]: from m values x, real or complex, without a factor,
 *
 *     FORWARD   y_k = sum of x_j e^(-2 pi i j k / n), k < n          (complex results)
 *     INVERSE   y_j = sum of x_k e^(+2 pi i j k / n), j < n          (complex results)
 *     REAL      FORWARD of real values, k <= n / 2
 *     HALF      INVERSE of values that are given for k <= n / 2 and conjugate-symmetric beyond: real results. The imaginary parts
 *               of x_0, and of x_(n/2) where n is even, are not read
 *
 * n is numbers[WEFT_FFT_SIZE]. The values are cut, or followed by zeros, to n; those of HALF to n / 2 + 1. Results are multiplied by
 * scalars[WEFT_FFT_SCALE]. With numbers[WEFT_FFT_WEIGHTED] the bins k of REAL and HALF that stand for two, all but 0 and n / 2, are
 * multiplied by 2 (REAL, results) or by 1/2 (HALF, values): the adjoints of HALF and of REAL.
 *
 * With numbers[WEFT_FFT_LINE] a transform is a step of that of a line of so many elements, N, that ranks share: element k of row r, an
 * index of dimension numbers[WEFT_FFT_DIM] - 1, is element r + N / n k of the line. numbers[WEFT_FFT_STEP] has bits, none for HALF:
 *
 *     WEFT_FFT_TURNS             results k of row r are multiplied by e^(-2 pi i r k / N), INVERSE: e^(+2 pi i r k / N)
 *     WEFT_FFT_DOUBLES_VALUES    all elements of the line but 0 and N / 2 are multiplied by 2 before; the imaginary parts of these are
 *                                not read
 *     WEFT_FFT_DOUBLES_RESULTS   all elements but 0 and N / 2 are multiplied by 2 afterwards; the imaginary parts of these become 0
 *
 * As many results are stored as the output has.
 *
 * The others are of real values, or of both parts of complex ones; results have the type of the values:
 *
 *     COSINE_1   y_k = sum of x_j cos(pi j k / (n - 1)), n > 1       SINE_1   sin(pi (j + 1) (k + 1) / (n + 1))
 *     COSINE_2   cos(pi (2 j + 1) k / 2 n)                           SINE_2   sin(pi (2 j + 1) (k + 1) / 2 n)
 *     COSINE_3   cos(pi j (2 k + 1) / 2 n)                           SINE_3   sin(pi (j + 1) (2 k + 1) / 2 n)
 *     COSINE_4   cos(pi (2 j + 1) (2 k + 1) / 4 n)                   SINE_4   sin(pi (2 j + 1) (2 k + 1) / 4 n)
 *
 * Before and after it x_0, x_(n-1), y_0 and y_(n-1) are multiplied by scalars[WEFT_FFT_X_FIRST], ... */
enum { WEFT_FFT_DIM, WEFT_FFT_KIND, WEFT_FFT_SIZE, WEFT_FFT_WEIGHTED, WEFT_FFT_LINE, WEFT_FFT_STEP, WEFT_FFT_NUMBERS };
enum { WEFT_FFT_TURNS = 1, WEFT_FFT_DOUBLES_VALUES = 2, WEFT_FFT_DOUBLES_RESULTS = 4 };
enum { WEFT_FFT_SCALE, WEFT_FFT_X_FIRST, WEFT_FFT_X_LAST, WEFT_FFT_Y_FIRST, WEFT_FFT_Y_LAST };
typedef enum weft_fft_kind {
    WEFT_FFT_FORWARD_KIND,
    WEFT_FFT_INVERSE_KIND,
    WEFT_FFT_REAL_KIND,
    WEFT_FFT_HALF_KIND,
    WEFT_FFT_COSINE_KIND, /* COSINE_1; the others follow */
    WEFT_FFT_SINE_KIND = WEFT_FFT_COSINE_KIND + 4
} weft_fft_kind;

/* In the type of the output's parts. A line's results do not depend on the others. */
void weft_kernel_fft(const weft_kernel_call *call);
/* Frees the plans that are kept, when no transform is pending. */
void weft_fft_forget_plans(void);

#endif
