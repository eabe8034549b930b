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
/* The angles at a multiple of so many positions are computed; those up to the next one follow from these, so that
 * values do not depend on how positions are sharded. */
enum { WEFT_ROTARY_POSITIONS = 16 };

/* [..., t, d], d even, of which the task has all: the vector at position p has its elements j and j + d / 2 rotated by
 * the angle p theta^(-2j/d). Angles in double precision; rotated in the type of the arithmetic, and rounded once. */
void weft_kernel_rotary(const weft_kernel_call *call);

#endif
