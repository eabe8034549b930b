/* softmax(q k^T scale + mask) v, without the matrix of all scores. */
#ifndef WEFT_CODELETS_ATTENTION_H
#define WEFT_CODELETS_ATTENTION_H

#include <weft/kernel.h>

/* Inputs: q [..., s, e], k [..., t, e], v [..., t, f], and a mask or none: truth values, or numbers to add,
 * whose last dimensions are s and t; what comes before is broadcast, and so are dimensions of size 1 of the
 * mask. The output is
 * [..., s, f]. numbers[0]: row s sees keys 0 .. s alone. scalars[0]: the scale. Keys are gone through in
 * blocks, with the largest score and the sum so far; types of 16 bits are computed in WEFT_F32 and rounded
 * once. A row that sees no key gives 0. */
void weft_kernel_attention(const weft_kernel_call *call);

#endif
