/* The matrix of HPCCG: 27 on the diagonal and -1 for each neighbour of a point. */
#ifndef WEFT_EXAMPLES_BLOCK_MATRIX_H
#define WEFT_EXAMPLES_BLOCK_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

enum { NEIGHBOURS = 27 };

/* A process's rows. Columns below `rows` are its own, the others are ghosts. */
typedef struct matrix {
    int64_t size[3];          /* points of a process */
    int64_t rows, first, all; /* the first one's global index; rows of all processes */
    int32_t *begin, *columns; /* where the rows begin, and the end */
    double *values;
    bool *reaches;            /* by row: it has a column that is a ghost */
    int64_t num_ghosts, *ghosts; /* their global indices, ascending */
} matrix;

/* The rows of this process's points, size[0] x size[1] x size[2]. False: no memory. */
bool matrix_make(matrix *a, const int64_t size[3]);
void matrix_free(matrix *a);

#endif
