/* softmax(q k^T scale + mask) v and its gradients, without the matrix of all scores. */
#ifndef WEFT_CODELETS_ATTENTION_H
#define WEFT_CODELETS_ATTENTION_H

#include <weft/kernel.h>

/* Inputs: q [..., s, e], k [..., t, e], v [..., t, f], and a mask or none: truth values, or numbers to add,
 * whose last dimensions are s and t; what comes before is broadcast, and so are dimensions of size 1 of the
 * mask. scalars[0]: the scale. Keys are gone through in blocks; types of 16 bits are computed in WEFT_F32 and
 * rounded once. Inputs that are windows have room for more rows than there are: the call says how many
 * count. */
enum {
    WEFT_ATTENTION_CAUSAL, /* numbers: row s sees keys 0 .. s alone, by their global numbers */
    WEFT_ATTENTION_PARTS,  /* what of the following there is */
    WEFT_ATTENTION_ROWS,   /* with WEFT_ATTENTION_COUNTS: rows of q, and of what belongs to them; else all */
    WEFT_ATTENTION_KEYS,   /* and of k and v */
    WEFT_ATTENTION_NUMBERS
};
enum {
    WEFT_ATTENTION_HAS_MASK = 1,
    WEFT_ATTENTION_HAS_V = 2,
    WEFT_ATTENTION_HAS_K_GRADIENT = 4,
    WEFT_ATTENTION_HAS_V_GRADIENT = 8,
    WEFT_ATTENTION_COUNTS = 16,
    WEFT_ATTENTION_CONTINUES = 32 /* the output has values, which are gone on with */
};

/* [..., s, f]. A row that sees no key gives 0. */
void weft_kernel_attention(const weft_kernel_call *call);

/* What is known of each row after some of the keys, in WEFT_F32 or WEFT_F64: the sum of the values with the
 * weights e^(score - largest), f of them; the sum of the weights; the largest score. */
enum { WEFT_ATTENTION_SUM, WEFT_ATTENTION_LARGEST, WEFT_ATTENTION_STATE /* behind the f columns */ };
/* The state [..., s, f + 2], of q, k, v and a mask; without v, f is 0. */
void weft_kernel_attention_state(const weft_kernel_call *call);
/* The result [..., s, f] of states that together have seen all keys, side by side: [..., s, n (f + 2)]. */
void weft_kernel_attention_finish(const weft_kernel_call *call);

/* What the gradients need of each row: the logarithm of the sum of e^score (infinite where no key is seen:
 * then all weights are 0), and the product of the gradient with the result. */
enum { WEFT_ATTENTION_LOG_SUM, WEFT_ATTENTION_PRODUCT, WEFT_ATTENTION_STATISTICS };
/* Them, [..., s, 2], of states without values, [..., s, 2 n], the gradient and the result, both
 * [..., s, f]. */
void weft_kernel_attention_statistics(const weft_kernel_call *call);

/* Inputs: the gradient [..., s, f], q, k, v, the statistics, and a mask or none. The gradient of q,
 * [..., s, e], and those wanted of k and v, side by side: [..., t, e], [..., t, f] or [..., t, e + f]; in
 * WEFT_F32 or WEFT_F64. */
void weft_kernel_attention_backward_q(const weft_kernel_call *call);
void weft_kernel_attention_backward_kv(const weft_kernel_call *call);

#endif
