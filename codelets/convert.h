/* Conversion between any type and the few types of arithmetic: kernels' loads and stores. The complex types are types of
 * arithmetic too; of a complex value that is converted to a real type the real part remains. */
#ifndef WEFT_CODELETS_CONVERT_H
#define WEFT_CODELETS_CONVERT_H

#include <weft/base.h>

#include "codelets/types.h"

/* Loads n elements of `type`, `stride` elements apart, as `arithmetic`: WEFT_F64, WEFT_F32, WEFT_I64 or WEFT_U64.
 * Floating values become integers as in weft_store(). Integers as WEFT_I64 and WEFT_U64 have the same bits. */
void weft_load(weft_dtype arithmetic, void *target, weft_dtype type, const void *source, int64_t stride,
               int64_t n);

/* Stores n values of `arithmetic` (these four, or WEFT_BOOL) as `type`, `stride` elements apart. To 16 and 8
 * bits: rounded to nearest even, once. From floating types to integers: towards zero; out of range saturates
 * (from 64 to fewer bits wraps around), NaN becomes 0. To WEFT_BOOL: not zero. */
void weft_store(weft_dtype type, void *target, int64_t stride, weft_dtype arithmetic, const void *source,
                int64_t n);

/* Rounds n values of the arithmetic of `type` (WEFT_BF16, WEFT_F16: WEFT_F32; integers of fewer than 64 bits,
 * WEFT_BOOL: WEFT_I64) to `type`: weft_store() and weft_load() in place. */
void weft_narrow(weft_dtype type, void *values, int64_t n);

/* Between the bits of WEFT_U64 and WEFT_I64 numbers in the same order: loops of WEFT_I64 compare those. Other types: nothing. */
void weft_flip_order(weft_dtype type, int64_t *values, int64_t n);

#endif
