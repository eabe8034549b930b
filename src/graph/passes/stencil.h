/* A stencil while it is made: views, which are tensors moved by chains of calls (stencil_views.c), and the parts of their sources that
 * the operation reads (stencil_inputs.c). */
#ifndef WEFT_SRC_GRAPH_PASSES_STENCIL_H
#define WEFT_SRC_GRAPH_PASSES_STENCIL_H

#include "codelets/stencil.h"
#include "graph/passes/pass.h"

/* Facts of the trace that each stencil asks for. */
typedef struct weft_stencil_trace {
    const weft_graph_trace *trace;
    int *defined;  /* by value: the node that makes it; -1: none, or one that changes it in place */
    int *num_uses; /* by value: how often calls read it */
    bool *changed; /* by value: some call changes it in place */
    bool *moves;   /* by node: it moves elements of one tensor */
} weft_stencil_trace;

/* The calls that become one. */
typedef struct weft_stencil_making {
    const weft_stencil_trace *known;
    const weft_layout *output;
    int num_views, num_sources, num_constants;
    weft_stencil_view views[WEFT_STENCIL_VIEWS];
    int view_values[WEFT_STENCIL_VIEWS];      /* the value that each is */
    int source_values[WEFT_STENCIL_SOURCES];
    weft_stencil_constant constants[WEFT_STENCIL_CONSTANTS];
    bool shifted; /* some view is not its source itself */
    int num_inputs;
    int input_sources[WEFT_MAX_KERNEL_INPUTS];
    int64_t low[WEFT_MAX_KERNEL_INPUTS][WEFT_MAX_DIMS], high[WEFT_MAX_KERNEL_INPUTS][WEFT_MAX_DIMS]; /* index read minus index written */
} weft_stencil_making;

/* The number of the view that a value is, which is added. -1: there are too many, or it has neither the output's shape nor one element
 * without dimensions. */
int weft_stencil_add_view(weft_stencil_making *m, int value);
/* Finds the inputs. False: there are too many, or none. */
bool weft_stencil_find_inputs(weft_stencil_making *m);
/* The attributes of the call. False: it does not fit into them. */
bool weft_stencil_attributes(const weft_stencil_making *m, weft_attributes *attributes);
bool weft_stencil_has_partial(const weft_layout *layout);

#endif
