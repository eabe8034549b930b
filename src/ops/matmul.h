/* Attributes and inputs of matrix products, for the operations and their lowering. */
#ifndef WEFT_OPS_MATMUL_H
#define WEFT_OPS_MATMUL_H

#include "codelets/linear.h"
#include "ops/ops.h"

/* Attributes: numbers[FORM], numbers[TRANSPOSES] (1: a, 2: b is transposed); with an addend scalars[ALPHA]
 * and [BETA]: alpha a b + beta c. */
enum { TRANSPOSES, FORM };
enum { ALPHA = WEFT_GEMM_ALPHA, BETA = WEFT_GEMM_BETA };
enum { MATMUL, DOT, ADDMM, LINEAR, OVER_ROWS }; /* forms */
enum { A, B, C };                               /* inputs */

bool weft_lower_product(const weft_lowering *lowering);

#endif
