/* Tensors of integers in random layouts, with their values in 128 bits. */
#ifndef WEFT_TESTS_INTEGER_OPERAND_H
#define WEFT_TESTS_INTEGER_OPERAND_H

#include "operand.h"

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 wide_bits;

enum { MOST = 32 * 32 };

typedef struct integers {
    weft_dtype type;
    int64_t shape[2], count;
    wide dense[MOST];
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_tensor *tensor;
} integers;

/* Any integer type, new ones more often. */
weft_dtype any_integer(void);
bool has_sign(weft_dtype type);
/* The number that has the type's lowest bits; a truth value. */
wide cut(weft_dtype type, wide x);
/* Any number of the type: small, near powers of 2, of all sizes. */
wide any_value(weft_dtype type);
/* To be freed; the tensor belongs to its scope. Partial ones are made of addends. */
integers *make(weft_mesh *mesh, weft_dtype type, int64_t rows, int64_t columns);
/* Asserts the type, the number of elements, and the values. */
void check_numbers(weft_tensor *result, weft_dtype type, int64_t count, const wide expected[], const char *what);

#endif
