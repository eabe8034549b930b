/* Random shapes as lines along one dimension. */
#ifndef WEFT_TESTS_LINES_H
#define WEFT_TESTS_LINES_H

#include <weft/weft.h>

/* A shape, and one dimension of it. */
typedef struct lines {
    int ndim, dim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t outer, length, inner;
} lines;

lines any_lines(void);
/* Gives the dimension another size. */
void set_length(lines *l, int64_t length);
int64_t count_of(const lines *l);
/* Element k of line (outer, j), which is counted by `line`. */
int64_t place_in(const lines *l, int64_t line, int64_t k);
/* The dimension, sometimes counted from the end. */
int spoken(const lines *l);
/* Zeros, to be freed. */
double *new_values(int64_t count);

#endif
