/* The state of a call of an operation while it runs, and what becomes of inputs that lie in ghosted arrays. */
#ifndef WEFT_SRC_DISPATCH_OPERANDS_H
#define WEFT_SRC_DISPATCH_OPERANDS_H

#include "dispatch/cache.h"

typedef struct weft_operands {
    const weft_call *call;
    const weft_sharding *sharding;
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];          /* as given, later redistributed */
    const weft_access_map *access_map[WEFT_MAX_INPUTS]; /* see weft_lowering */
    const weft_neighbours *neighbours[WEFT_MAX_INPUTS]; /* likewise */
    unsigned ghosted; /* likewise */
    weft_tensor_impl *ghosts[WEFT_MAX_INPUTS]; /* of these inputs: the tensors that lie in the arrays */
    int num_neighbours; /* tensors of neighbours' rows */
    weft_tensor_impl *neighbour_rows[WEFT_ROWS_SIDES * WEFT_MAX_INPUTS];
    int num_outputs; /* number of wanted outputs */
    weft_tensor_impl *outputs[WEFT_MAX_OUTPUTS];
    weft_cached_call *cached; /* cache entry of layouts and tasks; NULL: none */
} weft_operands;

/* ---- ghosted arrays (ghosts.c) ------------------------------------------------------------------------- */

static inline bool weft_any_ghosted(const weft_operands *o)
{
    bool any = false;
    for (int i = 0; i < o->call->num_inputs; i++) {
        any |= o->inputs[i]->ghosted != NULL;
    }
    return any;
}

/* weft_obtain_layouts() of a call with ghosted inputs; o->call is the call that has these layouts, maybe in `in_arrays`. */
const weft_sharding *weft_obtain_in_arrays(weft_operands *o, weft_call *in_arrays, weft_sharding *own, int *guessed);
/* Whether margins of an input's array are to be filled before the call. */
bool weft_fills_array(const weft_operands *o, int input);
/* Puts the arrays, with fresh margins if they are read, in the places of the tensors that lie in them. False with the error kept. */
bool weft_use_arrays(weft_operands *o);
/* The outputs in arrays are the tensors that lie there. False with the error kept. */
bool weft_leave_arrays(weft_operands *o);

#endif
