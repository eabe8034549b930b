/* Numbers in the scalars of a call. */
#ifndef WEFT_CODELETS_SCALARS_H
#define WEFT_CODELETS_SCALARS_H

/* A number as a call passes it. Beside integers it is value + rest, since a double has no whole numbers beyond 2^53 and the two
 * have all 64 bits; beside complex numbers value + i rest. */
typedef struct weft_exact {
    double value, rest;
} weft_exact;

/* Scalar WEFT_SCALAR_RESTS + i is the rest of scalar i. */
enum { WEFT_SCALAR_RESTS = 4 };

#endif
