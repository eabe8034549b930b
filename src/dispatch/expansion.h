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

typedef struct weft_joined weft_joined;

typedef struct weft_expansion {
    weft_lru_entry entry; /* must be the first member */
    int num_inputs, num_tensors;
    weft_vec layouts; /* const weft_layout *, of all tensors */
    weft_vec steps; /* weft_step */
    int num_outputs;
    int *outputs;   /* numbers of the composite's outputs; -1: not asked for */
    size_t bytes;   /* memory */
    uint64_t *key;  /* layouts, attributes and scalars in words; NULL: it is not cached */
    size_t num_words;
    bool may_join;       /* some steps that change tensors in place follow each other */
    weft_joined *joined; /* these; NULL: not made yet */
} weft_expansion;

/* How steps that follow each other become one task for each hosted rank: src/graph/fuse/joined.c. */
typedef struct weft_joining {
    /* *bytes: of its memory. NULL with the error kept. */
    weft_joined *(*make)(const char *function, const weft_expansion *expansion, size_t *bytes);
    /* The steps from `first` on that it has submitted; 0: none; -1: none, with the error kept. tensors[]: by number. */
    int (*run)(const weft_expansion *expansion, size_t first, const weft_call *composite, weft_tensor_impl *const tensors[]);
    void (*free)(weft_joined *joined);
} weft_joining;
void weft_expansions_join_by(const weft_joining *joining);
/* NULL: steps are run one by one. */
const weft_joining *weft_expansions_joining(void);
/* Whether the step is an operation's that changes its outputs in place, and makes none. */
bool weft_step_changes_alone(const weft_step *step);
/* The scalars of a step: its own, and those that it inherits. */
void weft_step_scalars(const weft_call *step, const weft_call *composite, double scalars[WEFT_MAX_SCALARS]);

/* The expansion of a call with these inputs, cached or new, until it is released; NULL with the error
 * kept: the call is refused. */
weft_expansion *weft_expansion_obtain(const weft_call *call, weft_tensor_impl *const inputs[]);
/* Finds the steps of a cached one that become tasks together, if the cache has room for them. False with the error kept. */
bool weft_expansion_join(const char *function, weft_expansion *expansion);
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
