/* softmax(q k^T scale + mask) v and its gradients, without the matrix of all scores. */
#ifndef WEFT_CODELETS_ATTENTION_H
#define WEFT_CODELETS_ATTENTION_H

#include <weft/kernel.h>

/* Inputs: q [..., s, e], k [..., t, e], v [..., t, f], and optionally a mask: WEFT_BOOL, or numbers to
 * add; its last dimensions are s and t; missing leading dimensions, and those of size 1, broadcast.
 * scalars[0]: the scale. Keys are processed in blocks; 16-bit types are computed in WEFT_F32 and rounded
 * once. Inputs read through an access map may have unused rows: the call says how many count. */
enum {
    WEFT_ATTENTION_CAUSAL, /* numbers: row s sees keys 0 .. s only, by global index */
    WEFT_ATTENTION_PARTS,  /* flags: which of the following apply */
    WEFT_ATTENTION_ROWS,   /* with WEFT_ATTENTION_COUNTS: used rows of q and its like; else all */
    WEFT_ATTENTION_KEYS,   /* and of k and v */
    WEFT_ATTENTION_NUMBERS
};
enum {
    WEFT_ATTENTION_HAS_MASK = 1,
    WEFT_ATTENTION_HAS_V = 2,
    WEFT_ATTENTION_HAS_K_GRADIENT = 4,
    WEFT_ATTENTION_HAS_V_GRADIENT = 8,
    WEFT_ATTENTION_COUNTS = 16,
    WEFT_ATTENTION_CONTINUES = 32, /* accumulates into the output */
    WEFT_ATTENTION_HAS_LOG_SUMS = 64
};

/* Outputs [..., s, f] and, where there is a second one, the log-sums [..., s]: of each row the logarithm of the sum of
 * e^score, in WEFT_F32 or WEFT_F64. A row that sees no key gives 0, and infinity. */
void weft_kernel_attention(const weft_kernel_call *call);

/* Softmax state of a row after some of the keys, in WEFT_F32 or WEFT_F64: the f sums of values weighted by
 * e^(score - largest); the sum of weights; the largest score. */
enum { WEFT_ATTENTION_SUM, WEFT_ATTENTION_LARGEST, WEFT_ATTENTION_STATE /* columns after the f sums */ };
/* The state [..., s, f + 2], from q, k, v and a mask; without v, f is 0. */
void weft_kernel_attention_state(const weft_kernel_call *call);
/* The result [..., s, f] from states over disjoint sets of keys, all keys together, side by side: [..., s,
 * n (f + 2)]; and, where there is a second output, the log-sums [..., s]. */
void weft_kernel_attention_finish(const weft_kernel_call *call);

/* Statistics of a row for the gradients: the logarithm of the sum of e^score (infinite for a row that sees
 * no key, so that all weights are 0), and the dot product of gradient and result. */
enum { WEFT_ATTENTION_LOG_SUM, WEFT_ATTENTION_PRODUCT, WEFT_ATTENTION_STATISTICS };
/* The statistics [..., s, 2], from states without values, [..., s, 2 n], or log-sums, [..., s, 1]; the gradient and the
 * result, both [..., s, f]. */
void weft_kernel_attention_statistics(const weft_kernel_call *call);

/* Inputs: the gradient [..., s, f], q, k, v, the statistics, and optionally a mask. Outputs: the gradient
 * of q, [..., s, e]; the gradients of k and v as wanted, side by side: [..., t, e], [..., t, f] or [...,
 * t, e + f]; in WEFT_F32 or WEFT_F64. */
void weft_kernel_attention_backward_q(const weft_kernel_call *call);
void weft_kernel_attention_backward_kv(const weft_kernel_call *call);
/* The same with three outputs, the gradients of q, k and v, for tasks that have all rows and all keys: five products of rows
 * and keys instead of seven. With a dimension before the last two. */
void weft_kernel_attention_backward_all(const weft_kernel_call *call);

#endif
