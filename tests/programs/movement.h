/* What operations that move elements and compute nothing share. */
#ifndef WEFT_TESTS_MOVEMENT_H
#define WEFT_TESTS_MOVEMENT_H

#include "make.h"

/* Which element of the input comes to `at` of the output; false: a zero does. */
typedef bool (*mapping)(const scene *s, const int64_t at[], int64_t from[]);

/* An output made of elements of one input; what is known of them (slack, signs of zeros, addends) comes
 * along. */
dense *move_elements(scene *s, int output, const dense *in, int ndim, const int64_t shape[], mapping map);
/* The same elements in their order. */
dense *reshape_elements(scene *s, const dense *in, int ndim, const int64_t shape[]);
/* What is known of one element, from x to out. */
void carry_element(scene *s, dense *out, int64_t to, const dense *x, int64_t from);

/* 0 .. ndim - 1; -1: out of range. Negative ones count from the end. */
int dim_in(int64_t dim, int ndim);
/* Whole number `i` of the call; 0 where it has not so many. */
int64_t whole_of_call(const scene *s, int i);

/* A step with input 0 of least .. most dimensions and a dimension of it as whole number 0. */
bool make_along(maker *m, step *s, unsigned types, int least);

#endif
