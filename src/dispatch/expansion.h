/* Expansions of composites: calls of operations and actions, in order, on numbered tensors. A function of
 * layouts, attributes and scalars: made by running the body on tensors without data; cached, and run on
 * actual tensors. */
#ifndef WEFT_SRC_DISPATCH_EXPANSION_H
#define WEFT_SRC_DISPATCH_EXPANSION_H

#include "dispatch/dispatch.h"

/* One call. Tensors are numbered: the composite's inputs first, then outputs of the calls. */
typedef struct weft_step {
    weft_call *call; /* the member `inputs` is unused */
    int inputs[WEFT_MAX_INPUTS];
    int num_outputs;
    int outputs[WEFT_MAX_STEP_OUTPUTS];
    unsigned last_inputs, last_outputs; /* bits: no later step uses the tensor, and it is not an output */
} weft_step;

typedef struct weft_expansion {
    weft_lru_entry entry; /* must be the first member */
    int num_inputs, num_tensors;
    weft_vec steps; /* weft_step */
    int num_outputs;
    int *outputs;   /* numbers of the composite's outputs; -1: not asked for */
    size_t bytes;   /* memory */
    uint64_t *key;  /* layouts, attributes and scalars in words; NULL: it is not cached */
    size_t num_words;
} weft_expansion;

/* The expansion of a call with these inputs, cached or new, until it is released; NULL with the error
 * kept: the call is refused. */
weft_expansion *weft_expansion_obtain(const weft_call *call, weft_tensor_impl *const inputs[]);
/* May be NULL. */
void weft_expansion_release(weft_expansion *expansion);
/* weft_meet_layout() for all layouts of a cached one. */
void weft_expansion_meet_layouts(const weft_expansion *expansion);
/* Whether two have the same calls on the same tensors. */
bool weft_expansion_equal(const weft_expansion *a, const weft_expansion *b);

/* Runs the calls. New output tensors belong to the innermost scope. False with the error kept. */
bool weft_expansion_run(const weft_expansion *expansion, const weft_call *call, weft_tensor_impl *const inputs[],
                        weft_tensor *outputs[]);

/* One line per step: "  3 = sum_exp(0, 2) [...]". */
void weft_expansion_print(const weft_expansion *expansion, FILE *file);

#endif
