/* Reductions of contiguous WEFT_F32 or WEFT_F64 values: vectorised, in double precision, in sixteen
 * interleaved parts for any vector width, so that results do not depend on the machine. */
#ifndef WEFT_CODELETS_CPU_LINE_SUMS_H
#define WEFT_CODELETS_CPU_LINE_SUMS_H

#include <weft/base.h>

/* -INFINITY without values; NaN is ignored. */
double weft_line_max(weft_dtype type, const void *values, int64_t n);
double weft_line_sum(weft_dtype type, const void *values, int64_t n);
/* Sum of products; sum of squared differences from a value. */
double weft_line_sum_product(weft_dtype type, const void *values, const void *others, int64_t n);
double weft_line_sum_square(weft_dtype type, const void *values, double centre, int64_t n);

/* out[i] = e^(values[i] - most); out may be `values`. */
void weft_line_exp(weft_dtype type, void *out, const void *values, double most, int64_t n);
/* The same with the same bits, faster, where no value is above `most`. */
void weft_line_exp_below(weft_dtype type, void *out, const void *values, double most, int64_t n);
/* The sums of these; _below: no value is above `most`; _short: nor here, with weft_exp_short_f32(). */
double weft_line_sum_exp(weft_dtype type, const void *values, double most, int64_t n);
double weft_line_sum_exp_below(weft_dtype type, const void *values, double most, int64_t n);
double weft_line_sum_exp_short(weft_dtype type, const void *values, double most, int64_t n);
/* weft_line_exp_below(), and the sum of its results, with the bits of weft_line_sum_exp_below(). */
double weft_line_exp_below_and_sum(weft_dtype type, void *out, const void *values, double most, int64_t n);

#endif
