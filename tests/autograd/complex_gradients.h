/* The operations whose gradients test_gradients_complex.c compares: those on complex numbers, Fourier transforms, and linear algebra. */
#ifndef WEFT_TESTS_COMPLEX_GRADIENTS_H
#define WEFT_TESTS_COMPLEX_GRADIENTS_H

static const char *const complex_gradients[] = {
    "real",  "imag", "conj", "angle", "sgn", "complex", "polar", "view_as_real", "view_as_complex", "complex_norm",
    "complex_var", "complex_std", "complex_convolution",
    "fft",   "rfft", "irfft", "fftn", "rfftn",        "irfftn",  "hfft",  "ihfft",        "fftshift",
    "dct",   "dst",
    "cholesky", "cholesky_solve", "triangular_solve", "solve", "solve_vector", "inverse", "det", "slogdet", "qr", "eigh", "svd", "pinv",
    "lstsq", "matrix_power", "matrix_exp", "eig", "cond", "lu_factor", "lu_solve", "lu",
};

#endif
