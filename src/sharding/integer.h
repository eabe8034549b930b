/* The choice of layouts (assign.h) as an integer program, solved by GLPK where the library is built with it: for problems that
 * are too wide for elimination. PURE. */
#ifndef WEFT_SRC_SHARDING_INTEGER_H
#define WEFT_SRC_SHARDING_INTEGER_H

#include "sharding/assign.h"

/* What a solver has found. */
typedef enum weft_integer_end {
    WEFT_INTEGER_NONE,   /* nothing: the program is too large, or GLPK has stopped early or is not there */
    WEFT_INTEGER_FOUND,  /* choices, perhaps not the least */
    WEFT_INTEGER_PROVED, /* the least ones, up to a relative 1e-7 of the cost, as floating-point numbers tell it */
} weft_integer_end;

bool weft_integer_is_there(void);
/* choices[]: written where some within max_memory (negative: any) are found. The effort is bounded by counts, not by time: all
 * processes find the same. */
weft_integer_end weft_integer_solve(const weft_assign *problem, int64_t max_memory, int choices[]);

#endif
