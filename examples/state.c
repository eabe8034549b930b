#include "state.h"

enum { MAX_STATES = 16 };

void state_begin(int n, weft_tensor *const state[])
{
    for (int i = 0; i < n; i++) {
        weft_tensor_retain(state[i]);
    }
}

void state_advance(weft_graph *graph, weft_graph_function step, void *context, int n, weft_tensor *state[])
{
    weft_tensor *next[MAX_STATES] = { NULL };
    weft_scope_begin();
    if (graph != NULL) {
        weft_graph_call(graph, state, NULL, next);
    } else {
        step(context, state, NULL, next);
    }
    for (int i = 0; i < n; i++) {
        weft_tensor_release(state[i]);
        state[i] = next[i];
        weft_tensor_retain(next[i]);
    }
    weft_scope_end();
}

void state_end(int n, weft_tensor *const state[])
{
    for (int i = 0; i < n; i++) {
        weft_tensor_release(state[i]);
    }
}
