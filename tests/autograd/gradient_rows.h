/* The calls whose gradients test_gradients.c compares, by family. */
#ifndef WEFT_TESTS_GRADIENT_ROWS_H
#define WEFT_TESTS_GRADIENT_ROWS_H

#include <weft/weft.h>

#include "rows.h"

enum { MAX_GRADIENT_INPUTS = 4 };

typedef struct call_row {
    row_place place;
    const char *inputs[MAX_GRADIENT_INPUTS]; /* "5x3:u": test_gradients.c has the kinds */
    weft_tensor *(*call)(weft_tensor *const x[]);
    bool in_place; /* Partial inputs are refused */
} call_row;

/* Each ends with a row without a call. */
extern const call_row gradient_rows_around[];
extern const call_row gradient_rows_elementwise[];

#define CALL(name_, expression)                                                                              \
    static weft_tensor *name_(weft_tensor *const x[])                                                        \
    {                                                                                                        \
        return expression;                                                                                   \
    }

#endif
