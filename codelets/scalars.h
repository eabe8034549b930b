/* Numbers in the scalars of a call. */
#ifndef WEFT_CODELETS_SCALARS_H
#define WEFT_CODELETS_SCALARS_H

/* A number as a call passes it: value + rest. A double has no whole numbers beyond 2^53; the two have all 64 bits. */
typedef struct weft_exact {
    double value, rest;
} weft_exact;

/* Elementwise kernels of integers add scalar WEFT_SCALAR_RESTS + i to scalar i. */
enum { WEFT_SCALAR_RESTS = 4 };

#endif
