/* Rotary position embedding. */
#ifndef WEFT_CODELETS_ROTARY_H
#define WEFT_CODELETS_ROTARY_H

#include <weft/kernel.h>

/* scalars[]; a program that generates text changes the position from call to call. */
enum {
    WEFT_ROTARY_THETA,
    WEFT_ROTARY_FIRST,  /* position of the whole tensor's first vectors, a whole number */
    WEFT_ROTARY_SIGN    /* -1: by the negative angles */
};

/* [..., t, d], d even, of which the task has all: the vector at position p has its elements j and j + d / 2 rotated by
 * the angle p theta^(-2j/d). Angles in double precision; rotated in the type of the arithmetic, and rounded once. */
void weft_kernel_rotary(const weft_kernel_call *call);

#endif
