/* Properties of element types. PURE. */
#ifndef WEFT_CODELETS_TYPES_H
#define WEFT_CODELETS_TYPES_H

#include <weft/base.h>

/* Whether the type is for storage alone: without arithmetic. */
static inline bool weft_dtype_is_stored(weft_dtype dtype)
{
    return dtype == WEFT_F8_E4M3 || dtype == WEFT_F8_E5M2;
}

/* Whether the type has whole numbers, or is WEFT_BOOL. */
static inline bool weft_dtype_is_whole(weft_dtype dtype)
{
    return (dtype >= WEFT_I64 && dtype <= WEFT_BOOL) || (dtype >= WEFT_I8 && dtype <= WEFT_U64);
}

/* The smallest and the largest number of an integer type or WEFT_BOOL. False, and both 0: another type. */
static inline bool weft_whole_range(weft_dtype type, int64_t *least, uint64_t *most)
{
    const bool is_whole = weft_dtype_is_whole(type);
    const bool is_signed = type == WEFT_I64 || type == WEFT_I32 || type == WEFT_I16 || type == WEFT_I8;
    const int bits = (type == WEFT_BOOL ? 1 : 8 * (int)weft_dtype_size(type)) - is_signed; /* without the sign */
    *most = is_whole ? UINT64_MAX >> (64 - bits) : 0;
    *least = is_signed ? -(int64_t)*most - 1 : 0;
    return is_whole;
}

#endif
