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
    const bool is_signed = type == WEFT_I64 || type == WEFT_I32 || type == WEFT_I16 || type == WEFT_I8;
    const bool is_unsigned = type == WEFT_U8 || type == WEFT_U16 || type == WEFT_U32 || type == WEFT_U64;
    const int bits = 8 * (int)weft_dtype_size(type);
    *least = is_signed ? -(int64_t)(UINT64_MAX >> (65 - bits)) - 1 : 0;
    *most = is_signed ? UINT64_MAX >> (65 - bits) : is_unsigned ? UINT64_MAX >> (64 - bits) : type == WEFT_BOOL;
    return *most != 0;
}

#endif
