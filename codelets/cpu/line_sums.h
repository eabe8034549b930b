/* Sums and the like over contiguous values of WEFT_F32 or WEFT_F64: vectorised, in double precision, in
 * sixteen interleaved parts whatever the machine's vectors are, so that results do not depend on it. */
#ifndef WEFT_CODELETS_CPU_LINE_SUMS_H
#define WEFT_CODELETS_CPU_LINE_SUMS_H

#include <weft/base.h>

/* -INFINITY of none; NaN are passed over. */
double weft_line_max(weft_dtype type, const void *values, int64_t n);
double weft_line_sum(weft_dtype type, const void *values, int64_t n);
/* Of products with other values; of squares of differences from a value. */
double weft_line_sum_product(weft_dtype type, const void *values, const void *others, int64_t n);
double weft_line_sum_square(weft_dtype type, const void *values, double centre, int64_t n);

/* out[i] = e^(values[i] - most); out may be `values`. */
void weft_line_exp(weft_dtype type, void *out, const void *values, double most, int64_t n);
/* Their sum. */
double weft_line_sum_exp(weft_dtype type, const void *values, double most, int64_t n);

#endif
