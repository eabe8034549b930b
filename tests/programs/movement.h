/* Shared by operations that only move elements. */
#ifndef WEFT_TESTS_MOVEMENT_H
#define WEFT_TESTS_MOVEMENT_H

#include "make.h"

/* The input's element for `at` of the output; false: zero. */
typedef bool (*mapping)(const scene *s, const int64_t at[], int64_t from[]);

/* An output of elements of one input, with their knowledge (slack, signs of zeros, addends). */
dense *move_elements(scene *s, int output, const dense *in, int ndim, const int64_t shape[], mapping map);
/* The same elements in their order. */
dense *reshape_elements(scene *s, const dense *in, int ndim, const int64_t shape[]);
/* Copies the knowledge of one element from x to out. */
void carry_element(scene *s, dense *out, int64_t to, const dense *x, int64_t from);

/* 0 .. ndim - 1; -1: out of range. Negative ones count from the end. */
int dim_in(int64_t dim, int ndim);
/* Whole number `i` of the call; 0 where it has not so many. */
int64_t whole_of_call(const scene *s, int i);

/* A step with input 0 of least .. most dimensions and a dimension of it as whole number 0. */
bool make_along(maker *m, step *s, unsigned types, int least);

#endif
