/* Elementwise kernels: any types, broadcasting by strides, up to three inputs. */
#ifndef WEFT_CODELETS_ELEMENTWISE_H
#define WEFT_CODELETS_ELEMENTWISE_H

#include <weft/kernel.h>

#include "codelets/args.h"

enum { WEFT_MAX_ELEMENTWISE_INPUTS = 3 };

/* n elements, contiguous, in the type of the arithmetic; out may be one of the inputs. `out` has that type
 * too, or is one byte per element, 0 or 1, where the kernel gives truth values. */
typedef void (*weft_elementwise_loop)(void *out, const void *a, const void *b, const void *c, int64_t n,
                                      const double scalars[]);

/* What is computed. Arithmetic is done in one of three types: f64; f32, for f32, bf16 and f16; i64, for all
 * integers and truth values, which wraps around. i64 NULL: there are no integers of it. */
typedef struct weft_elementwise {
    int num_inputs;
    bool truth;
    weft_elementwise_loop f64, f32, i64;
    bool exact_scalar; /* input 1, where it is a single element, need not have the type of the operands */
} weft_elementwise;

/* Operand 0: output (W, or RW in place); the others: inputs (in place, the output is input 0 as well). All
 * over the same index box `extent`; each has its own strides in elements (0 along a broadcast dimension) and
 * its own type. base.dtype: in which the arithmetic is done, WEFT_F64, WEFT_F32 or WEFT_I64. An input whose
 * bit is set in `converted` is converted to the type `common` before that. Values are rounded to nearest even
 * where they are stored in 16 bits; to integers, towards zero, and to the nearest that there is. */
typedef struct weft_elementwise_args {
    weft_task_args base;
    const weft_elementwise *kernel;
    int ndim;
    weft_dtype common;
    unsigned converted; /* bit k for operand k */
    weft_dtype types[1 + WEFT_MAX_ELEMENTWISE_INPUTS];
    int64_t extent[WEFT_MAX_DIMS];
    int64_t stride[1 + WEFT_MAX_ELEMENTWISE_INPUTS][WEFT_MAX_DIMS];
} weft_elementwise_args;

extern const weft_kernel_entry weft_entry_elementwise;

/* One of those three, for values of a type. */
weft_dtype weft_arithmetic_type(weft_dtype dtype);
/* Whether it makes a difference that values of `type` become `common` before weft_arithmetic_type(common):
 * not those of a type that is no wider, and none where `common` is that of the arithmetic. */
bool weft_conversion_matters(weft_dtype type, weft_dtype common);

/* s, t, u, v: scalars[0] to [3]. NaN stays NaN where nothing else is said. */
extern const weft_elementwise weft_elementwise_copy; /* a */

/* Arithmetic. Integers divided by 0 give 0. */
extern const weft_elementwise weft_elementwise_add, weft_elementwise_sub, weft_elementwise_mul,
    weft_elementwise_div;
extern const weft_elementwise weft_elementwise_floor_div; /* rounded down */
extern const weft_elementwise weft_elementwise_remainder; /* with the sign of b */
extern const weft_elementwise weft_elementwise_pow;
extern const weft_elementwise weft_elementwise_fmod; /* with the sign of a */
extern const weft_elementwise weft_elementwise_maximum, weft_elementwise_minimum;
extern const weft_elementwise weft_elementwise_atan2;      /* of the point with a above, b to the right */
extern const weft_elementwise weft_elementwise_hypot;      /* sqrt(a^2 + b^2), without overflow between */
extern const weft_elementwise weft_elementwise_logaddexp;  /* log(e^a + e^b) */
extern const weft_elementwise weft_elementwise_scale;      /* s a */
extern const weft_elementwise weft_elementwise_add_scalar; /* a + s */
extern const weft_elementwise weft_elementwise_pow_scalar; /* a^s */
extern const weft_elementwise weft_elementwise_clamp;      /* min(max(a, s), t) */

/* Comparisons and truth. */
extern const weft_elementwise weft_elementwise_eq, weft_elementwise_ne, weft_elementwise_lt,
    weft_elementwise_le, weft_elementwise_gt, weft_elementwise_ge;
extern const weft_elementwise weft_elementwise_logical_and, weft_elementwise_logical_or,
    weft_elementwise_logical_xor, weft_elementwise_logical_not;
extern const weft_elementwise weft_elementwise_isnan, weft_elementwise_isinf, weft_elementwise_isfinite;
/* |a - b| <= s |b| + t, or both equal; NaN is close to NaN where u (scalars[2]) is not 0. */
extern const weft_elementwise weft_elementwise_close;
extern const weft_elementwise weft_elementwise_where;        /* a ? b : c */
extern const weft_elementwise weft_elementwise_masked_scale; /* a (b ? s : 0) */
extern const weft_elementwise weft_elementwise_masked_fill;  /* b ? s : a */

/* Functions of one value. */
extern const weft_elementwise weft_elementwise_neg, weft_elementwise_abs, weft_elementwise_sign,
    weft_elementwise_square, weft_elementwise_reciprocal, weft_elementwise_sqrt, weft_elementwise_rsqrt,
    weft_elementwise_exp, weft_elementwise_expm1, weft_elementwise_log, weft_elementwise_log1p,
    weft_elementwise_log2, weft_elementwise_log10, weft_elementwise_sin, weft_elementwise_cos,
    weft_elementwise_tan, weft_elementwise_asin, weft_elementwise_acos, weft_elementwise_atan,
    weft_elementwise_sinh, weft_elementwise_cosh, weft_elementwise_tanh, weft_elementwise_exp2,
    weft_elementwise_erf, weft_elementwise_erfc, weft_elementwise_floor, weft_elementwise_ceil,
    weft_elementwise_trunc;
extern const weft_elementwise weft_elementwise_round; /* halves to even */
extern const weft_elementwise weft_elementwise_sigmoid, weft_elementwise_silu, weft_elementwise_relu;
extern const weft_elementwise weft_elementwise_gelu; /* a Phi(a), with erf, as PyTorch's default */
extern const weft_elementwise weft_elementwise_softplus;
extern const weft_elementwise weft_elementwise_leaky_relu; /* a > 0 ? a : s a */
extern const weft_elementwise weft_elementwise_elu;        /* a > 0 ? a : s (e^a - 1) */

/* Derivatives: a is the gradient, b the input of the function, or its output where that is said. */
extern const weft_elementwise weft_elementwise_relu_backward, weft_elementwise_gelu_backward,
    weft_elementwise_silu_backward, weft_elementwise_leaky_relu_backward, weft_elementwise_elu_backward;
extern const weft_elementwise weft_elementwise_tanh_backward,
    weft_elementwise_sigmoid_backward;                              /* b: the output */
extern const weft_elementwise weft_elementwise_pow_scalar_backward; /* a s b^t, t = s - 1 */

/* Last steps of softmax, of its logarithm and of their derivatives: of an element and two values of its row
 * (the largest and the sum of exponentials); of the gradient, the output and a sum over the row. */
extern const weft_elementwise weft_elementwise_softmax_step;              /* e^(a - b) / c */
extern const weft_elementwise weft_elementwise_log_softmax_step;          /* (a - b) - log(c) */
extern const weft_elementwise weft_elementwise_softmax_backward_step;     /* b (a - c) */
extern const weft_elementwise weft_elementwise_log_softmax_backward_step; /* a - e^b c */

/* Losses. */
extern const weft_elementwise weft_elementwise_square_difference; /* (a - b)^2 */
extern const weft_elementwise weft_elementwise_scaled_difference; /* s (a - b) */
extern const weft_elementwise weft_elementwise_mse_backward;      /* s c (a - b) */

/* In place, and steps of optimisers. */
extern const weft_elementwise weft_elementwise_assign;          /* b */
extern const weft_elementwise weft_elementwise_fill;            /* s */
extern const weft_elementwise weft_elementwise_add_scaled;      /* a + s b */
extern const weft_elementwise weft_elementwise_lerp;            /* a + s (b - a) */
extern const weft_elementwise weft_elementwise_average_square;  /* t a + s b^2 */
extern const weft_elementwise weft_elementwise_addcmul;         /* a + s b c */
extern const weft_elementwise weft_elementwise_addcdiv;         /* a + s b / c */
extern const weft_elementwise weft_elementwise_momentum;        /* s a + t (b + u c); s 0: a does not count */
extern const weft_elementwise weft_elementwise_sgd_update;      /* a - s (b + t a) */
extern const weft_elementwise weft_elementwise_nesterov_update; /* a - s (b + t a + u c) */
extern const weft_elementwise weft_elementwise_lerp_decayed;    /* a + s (b + u c - a) */
extern const weft_elementwise weft_elementwise_average_square_decayed; /* t a + s (b + u c)^2 */
extern const weft_elementwise weft_elementwise_adam_update;            /* a v - s b / (sqrt(c) u + t) */

#endif
