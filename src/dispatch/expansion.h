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
    weft_lru_entry entry; /* its first field */
    int num_inputs, num_tensors;
    weft_vec steps; /* weft_step */
    int num_outputs;
    int *outputs;   /* the composite's: numbers of tensors, or -1: not asked for */
    size_t bytes;   /* of memory */
    uint64_t *key;  /* what it was made from */
    size_t num_words;
} weft_expansion;

/* The expansion of a call with these inputs, kept or new, until it is released; NULL with the error kept: the call is
 * not accepted. */
weft_expansion *weft_expansion_obtain(const weft_call *call, weft_tensor_impl *const inputs[]);
/* NULL: nothing. */
void weft_expansion_release(weft_expansion *expansion);
/* Whether two are the same calls on the same tensors. */
bool weft_expansion_equal(const weft_expansion *a, const weft_expansion *b);

/* Makes the calls. New tensors among the outputs belong to the innermost scope. False with the error kept. */
bool weft_expansion_run(const weft_expansion *expansion, const weft_call *call, weft_tensor_impl *const inputs[],
                        weft_tensor *outputs[]);

/* "  3 = sum_exp(0, 2) [...]": one line for each step. */
void weft_expansion_print(const weft_expansion *expansion, FILE *file);

#endif
