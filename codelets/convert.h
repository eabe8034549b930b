/* Conversion between any type and the few types of arithmetic: kernels' loads and stores. The complex types are types of
 * arithmetic too; of a complex value that is converted to a real type the real part remains. */
#ifndef WEFT_CODELETS_CONVERT_H
#define WEFT_CODELETS_CONVERT_H

#include <weft/base.h>

/* Loads n elements of `type`, `stride` elements apart, as `arithmetic`: WEFT_F64, WEFT_F32 or WEFT_I64.
 * Floating values become integers as in weft_store(). */
void weft_load(weft_dtype arithmetic, void *target, weft_dtype type, const void *source, int64_t stride,
               int64_t n);

/* Stores n values of `arithmetic` (these three, or WEFT_BOOL) as `type`, `stride` elements apart. To 16
 * bits: rounded to nearest even. From floating types to integers: towards zero; out of range saturates
 * (from 64 to fewer bits wraps around), NaN becomes 0. To WEFT_BOOL: not zero. */
void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n);

/* Rounds n values of the arithmetic of `type` (WEFT_BF16, WEFT_F16: WEFT_F32; WEFT_I32, WEFT_U8,
 * WEFT_BOOL: WEFT_I64) to `type`: weft_store() and weft_load() in place. */
void weft_narrow(weft_dtype type, void *values, int64_t n);

#endif
