/* What a composite becomes: calls of operations and actions, in order, on numbered tensors. Made from layouts,
 * attributes and scalars alone, by carrying its body out on tensors without data; kept, and run on actual tensors. */
#ifndef WEFT_SRC_DISPATCH_EXPANSION_H
#define WEFT_SRC_DISPATCH_EXPANSION_H

#include "dispatch/dispatch.h"

/* One call. Tensors have numbers: the composite's inputs first, then what the calls make. */
typedef struct weft_step {
    weft_call *call; /* its inputs are not used */
    int inputs[WEFT_MAX_INPUTS];
    int num_outputs;
    int outputs[WEFT_MAX_STEP_OUTPUTS];
    unsigned last_inputs, last_outputs; /* bits: no later step uses the tensor, and it is no output */
} weft_step;

typedef struct weft_expansion {
    int num_inputs, num_tensors;
    weft_vec steps; /* weft_step */
    int num_outputs;
    int *outputs;   /* the composite's: numbers of tensors, or -1: not asked for */
    size_t bytes;   /* of memory */
    uint64_t *key;  /* what it was made from */
    size_t num_words;
    uint64_t hash;
    struct weft_expansion *next;          /* in the bucket */
    struct weft_expansion *newer, *older; /* by their last use */
} weft_expansion;

/* Those that are kept: those used least recently go first. */
typedef struct weft_expansions {
    weft_expansion **buckets;
    size_t num_buckets, count, bytes;
    weft_expansion *newest, *oldest;
} weft_expansions;

/* The expansion of a call with these inputs, kept or new; NULL with the error kept: the call is not accepted. *owned:
 * it is not kept, and weft_expansion_free() is the caller's. */
weft_expansion *weft_expansion_obtain(const weft_call *call, weft_tensor_impl *const inputs[], bool *owned);
void weft_expansion_free(weft_expansion *expansion);
/* Whether two are the same calls on the same tensors. */
bool weft_expansion_equal(const weft_expansion *a, const weft_expansion *b);
void weft_expansions_free(weft_expansions *kept);

/* Makes the calls. New tensors among the outputs belong to the innermost scope. False with the error kept. */
bool weft_expansion_run(const weft_expansion *expansion, const weft_call *call, weft_tensor_impl *const inputs[],
                        weft_tensor *outputs[]);

/* "  3 = sum_exp(0, 2) [...]": one line for each step. */
void weft_expansion_print(const weft_expansion *expansion, FILE *file);

#endif
