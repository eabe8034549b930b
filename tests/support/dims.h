/* Sets of dimensions from lists. */
#ifndef WEFT_TESTS_DIMS_H
#define WEFT_TESTS_DIMS_H

#include <weft/base.h>

static inline int set_of_dims(int num_dims, const int dims[])
{
    int set = WEFT_ALL_DIMS;
    for (int i = 0; i < num_dims; i++) {
        set |= WEFT_DIM(dims[i]);
    }
    return set;
}

#endif
