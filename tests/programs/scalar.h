/* An elementwise operation on one element. */
#ifndef WEFT_TESTS_SCALAR_H
#define WEFT_TESTS_SCALAR_H

#include "dense.h"

/* The operands of one element, in the type of the arithmetic (WEFT_F64, WEFT_F32 or WEFT_I64), and the
 * function's findings beside the result. */
typedef struct scalars {
    weft_dtype type;
    weft_dtype
        common;      /* that the operands have been converted to: of 16 bits, where the arithmetic is wider */
    double a, b, c;  /* of floating types */
    int64_t i, j, k; /* of integers */
    const double *real; /* the call's numbers, rounded to the type */
    bool zeros_known;   /* whether the zeros above are -0 is known */
    bool exact;         /* so far every step is; a function says when one is not */
    bool unsure;        /* the result could be anything */
    double magnitude;   /* of what roundings are relative to; 0: of the result */
} scalars;

/* The nearest number of the type. */
double nearest(const scalars *v, double x);
/* Steps that are followed by others: rounded, and noted where that changes them. The last step of a function
 * is plain arithmetic: it is rounded once, which is right. \{ */
double product(scalars *v, double x, double y);
double sum(scalars *v, double x, double y);
double quotient(scalars *v, double x, double y);
/* \} */
/* A result of the C library, or of several roundings. */
double inexact(scalars *v, double x);
/* The same, with roundings relative to something larger. */
double inexact_by(scalars *v, double x, double magnitude);
/* Zeros whose sign matters. */
void depends_on_sign_of(scalars *v, double x);

int64_t wrap_add(int64_t a, int64_t b);
int64_t wrap_multiply(int64_t a, int64_t b);
int64_t wrap_power(int64_t a, int64_t b);

/* Passage of Partial tensors. */
typedef enum passing {
    PASSES_NOT = 0,
    PASSES_SUM,    /* a + b and the like: all inputs together */
    PASSES_FACTOR, /* in input 0 alone: with a factor that the other inputs say */
    PASSES_PRODUCT /* in any of both */
} passing;

typedef enum result_type {
    RESULT_PROMOTED = 0,
    RESULT_FIRST,
    RESULT_FLOATING,
    RESULT_TRUTH,
    RESULT_GIVEN
} result_type;

/* An elementwise operation: operation.details. */
typedef struct elementwise {
    int inputs, numbers;
    unsigned types;
    result_type result;
    double (*real)(scalars *v);
    int64_t (*whole)(scalars *v); /* NULL: not of integers */
    double roundings;             /* of a result that is not exact */
    passing passes;
    bool same_shape;  /* nothing is broadcast, and types are those of input 0 */
    bool signs;       /* says of zeros whether they are -0 */
    bool wide_scalar; /* a second operand of one element is not rounded to 16 bits */
    bool tame;        /* is called with values that are not large */
    bool any_numbers; /* numbers beside integers need not be whole */
} elementwise;

#endif
