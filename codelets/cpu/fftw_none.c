/* Where weft is built without a library of Fourier transforms. */
#include "codelets/cpu/fft_library.h"

bool weft_fft_has_library(void)
{
    return false;
}

bool weft_fft_by_library(const weft_fft_batch *batch, const void *in, void *out)
{
    (void)batch;
    (void)in;
    (void)out;
    return false;
}
