/* Windows: their graphs, and when they are used. */
#include <stdlib.h>

#include "graph/auto/auto.h"

enum {
    PASSES = WEFT_PASS_CLUSTER | WEFT_PASS_FUSE | WEFT_PASS_MEMORY, /* those that need no other process, and keep each call */
    MOST_MERIT = 4,
    LOSS = 2, /* of merit, where it is not taken to its end */
    FIRST_REST = 8,
    MOST_DOUBLED = 12,
    MOST_CAPTURES = 6 /* a window whose calls are others again and again is recorded no more */
};

void weft_repeated_renew(weft_repeated *window, uint64_t context)
{
    const bool same = window->context == context;
    if (window->graph != NULL) {
        weft_deferral *implicit = weft_deferral_set_implicit(NULL); /* the program destroys no graph */
        weft_graph_destroy(window->graph->handle);
        weft_deferral_set_implicit(implicit);
    }
    *window = (weft_repeated){
        .context = context, .merit = LOSS, .rests = same ? window->rests : 0, .failures = same ? window->failures : 0
    };
}

/* It has no function: its runs are the program's calls. */
static weft_status no_function(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    (void)inputs;
    (void)scalars;
    (void)outputs;
    return WEFT_ERR_STATE;
}

bool weft_repeated_prepare(weft_repeated *window)
{
    if (window->graph == NULL) {
        const weft_graph *graph = weft_graph_create("of repeated calls (WEFT_AUTOGRAPH)", no_function, NULL, 0, 0, 0);
        window->graph = graph == NULL ? NULL : weft_handle_get(&weft_runtime.handles.graphs, graph);
        weft_runtime.counters.windows_found += graph != NULL;
    }
    if (window->graph != NULL) {
        window->graph->passes &= PASSES;
    }
    return window->graph != NULL;
}

bool weft_repeated_is_ready(weft_repeated *window)
{
    const bool rests = window->rests > 0;
    window->rests -= rests;
    return !rests && !window->is_wrong;
}

static void rest(weft_repeated *window)
{
    window->rests = (uint64_t)FIRST_REST << window->failures;
    window->failures += window->failures < MOST_DOUBLED;
    window->merit = 0;
}

void weft_repeated_used(weft_repeated *window, bool complete, bool captured)
{
    window->merit += complete ? 1 : -LOSS;
    if (window->merit >= MOST_MERIT) {
        window->merit = MOST_MERIT;
        window->failures = 0;
    }
    if (window->merit < 0 || (captured && window->graph->info.captures > MOST_CAPTURES)) {
        rest(window);
    }
}
