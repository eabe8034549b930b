/* Reductions of two numbers, for tests. */
#ifndef WEFT_TESTS_REDUCE_H
#define WEFT_TESTS_REDUCE_H

#include <weft/placement.h>

/* An average is a sum until all addends are there. */
static inline double reduce_two(weft_reduce_op op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

#endif
