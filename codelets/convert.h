/* Values of any type as those of another: what kernels that compute in one of few types load and store. */
#ifndef WEFT_CODELETS_CONVERT_H
#define WEFT_CODELETS_CONVERT_H

#include <weft/base.h>

/* Loads n elements of `type`, `stride` elements apart, as `arithmetic`: WEFT_F64, WEFT_F32 or WEFT_I64.
 * Floating values become integers as weft_store() makes them. */
void weft_load(weft_dtype arithmetic, void *target, weft_dtype type, const void *source, int64_t stride,
               int64_t n);

/* Stores n values of `arithmetic` (the three, or WEFT_BOOL) as `type`, `stride` elements apart. To 16 bits:
 * rounded to nearest even. From floating types to integers: towards zero; what is out of range becomes the
 * nearest that there is (from 64 to fewer bits: wraps around), NaN becomes 0. To WEFT_BOOL: not zero. */
void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n);

/* n values of the arithmetic of `type`, one of WEFT_BF16, WEFT_F16 (WEFT_F32) and WEFT_I32, WEFT_U8 (WEFT_I64),
 * become what weft_store() as this type and weft_load() make of them. */
void weft_narrow(weft_dtype type, void *values, int64_t n);

#endif
