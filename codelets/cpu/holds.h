/* Whether a value is among others: a first look, much faster than finding it. */
#ifndef WEFT_CODELETS_CPU_HOLDS_H
#define WEFT_CODELETS_CPU_HOLDS_H

#include <stdbool.h>

#include <weft/base.h>

/* False: none of n values is this one, which is of their type (any NaN for NaN). True: one may be. Only WEFT_F32 and WEFT_F64 are
 * looked at; others may always be. */
bool weft_may_hold(weft_dtype type, const void *from, int64_t n, double value);

#endif
