/* The state of an iteration: tensors that are carried from step to step through scopes. */
#ifndef EXAMPLES_STATE_H
#define EXAMPLES_STATE_H

#include <weft/weft.h>

/* Makes the iteration's own references to n tensors, which may be one and the same. */
void state_begin(int n, weft_tensor *const state[]);
/* One step: new tensors take the place of the former ones. Other tensors of the step end with its scope; tasks that still read
 * them keep their memory. `graph`: the step, captured; NULL: its calls are made one by one, by step(context, ...). */
void state_advance(weft_graph *graph, weft_graph_function step, void *context, int n, weft_tensor *state[]);
/* Releases the tensors. */
void state_end(int n, weft_tensor *const state[]);

#endif
