/* Floating operands of all types, and tolerances. */
#ifndef WEFT_TESTS_REAL_OPERAND_H
#define WEFT_TESTS_REAL_OPERAND_H

#include "operand.h"

/* A floating type, seldom one of 16 bits. */
weft_dtype any_real_type(void);
/* Random, sometimes with a dimension that is longer than the lanes of a sum. */
int any_shape(int64_t shape[]);
/* Reals of about -3 .. 3 in a random layout; of 16 bits: rounded from single precision by the library. */
operand make_real(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[]);
/* Zeros, to be freed. */
double *array(int64_t count);

/* Roundings of single precision by which a value of the type may differ: `exactly` if its inputs are known
 * exactly; a 16-bit value rounded from an inexact one may be its neighbour. */
double allowed(weft_dtype type, bool exactly, double roundings);
/* check() of a tensor of any floating type. */
void compare(weft_tensor *tensor, weft_dtype type, int ndim, const int64_t shape[], const double *expected,
             double roundings, double magnitude, const char *what);

#endif
