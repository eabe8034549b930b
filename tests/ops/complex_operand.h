/* A tensor of complex (or real) numbers in a random layout, with its dense value. */
#ifndef WEFT_TESTS_COMPLEX_OPERAND_H
#define WEFT_TESTS_COMPLEX_OPERAND_H

#include <complex.h>
#undef I

#include "operand.h"

typedef double _Complex number;

/* re + i im, whatever they are. */
number number_of(double re, double im);

typedef struct complex_operand {
    weft_tensor *tensor;
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t count;
    number *dense;
} complex_operand;

weft_dtype any_complex(void);
bool is_complex(weft_dtype dtype);
/* The real type of the parts, and the rounding of numbers of this size. */
double epsilon_of(weft_dtype dtype);

/* Random parts of about -3 .. 3, or whole ones. Partial ones are made of random addends or factors. WEFT_F32, WEFT_F64 or complex. */
complex_operand make_complex(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], bool whole);
/* Makes the tensor of one whose other fields are set. */
void realise_complex(complex_operand *x);
/* Its dense values, of another shape. */
void release_complex(complex_operand *x);
const char *describe_complex(const complex_operand *x);

/* As check(): also of real results. */
void check_complex(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[], const number *expected, double roundings,
                   double magnitude, const char *what);

#endif
