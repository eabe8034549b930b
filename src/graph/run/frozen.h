/* Frozen graphs (weft_graph_freeze()): where the numbers and tensors of a trace come from. */
#ifndef WEFT_SRC_GRAPH_RUN_FROZEN_H
#define WEFT_SRC_GRAPH_RUN_FROZEN_H

#include <string.h>

#include "autograd/tape.h"
#include "graph/run/graph.h"

/* A number and its possible sources. */
typedef struct weft_number {
    double value;     /* in the newest run */
    uint64_t entries; /* bit i: equal to scalars[i] in all runs observed */
    bool changed;     /* it is no constant */
    bool counts;      /* one more in each run; of numbers that may alone */
} weft_number;

/* A call whose scalars are derived. */
typedef struct weft_frozen_derived {
    size_t node;
    const weft_derivation *derivation;
    weft_number origins[WEFT_MAX_SCALARS];
} weft_frozen_derived;

typedef enum weft_source_kind { NO_TENSOR, OF_INPUT, OF_PROGRAM, OF_CALLS } weft_source_kind;

/* Parts of a tensor's state that decide which calls a backward pass makes. */
typedef enum weft_gradient_state { REQUIRES_NONE, REQUIRES_GRADIENT, HAS_GRADIENT } weft_gradient_state;

/* Where a tensor comes from. */
typedef struct weft_source {
    weft_source_kind kind;
    int index;           /* of the input, or the value's number */
    int same_as;         /* OF_CALLS: the first output that is the same tensor */
    weft_tensor *handle; /* OF_PROGRAM */
    weft_gradient_state gradient; /* OF_PROGRAM: when the run has ended */
} weft_source;

/* What is known of one trace. */
struct weft_frozen {
    struct weft_freezing *of; /* the graph's */
    int num_inputs, num_scalars, num_outputs; /* derived scalars are the last ones */
    int num_derived;
    const weft_graph_trace *trace;
    uint64_t inputs_hash; /* weft_graph_impl.inputs_hash */
    int observations; /* 0: it begins */
    uint64_t varied;  /* bit i: scalars[i] has had two values */
    double *scalars;  /* the newest ones */
    weft_number *numbers;  /* WEFT_MAX_SCALARS for each call */
    weft_vec live;    /* size_t: numbers that are no constants */
    weft_vec derived; /* weft_frozen_derived */
    weft_vec bound;   /* source: of each value that is bound to a tensor */
    weft_source *outputs;
    int *input_numbers;     /* of the values that inputs are; -1: no call reads it */
    weft_gradient_state *input_gradients; /* when the run has ended */
    weft_tape_regions regions;
    int implicit_replications;
    const weft_mesh_impl *mesh; /* weft_mesh_current() */
    uint64_t changes; /* weft_runtime.changes */
};

/* Of a graph. */
struct weft_freezing {
    struct weft_frozen *newest; /* of the trace of the newest run; NULL: nothing is known of that */
    bool counted; /* replays have counted what the function counts itself, and was not told */
    bool refused;
    char why[320];
};

static inline bool weft_same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

bool weft_frozen_is_ready(const struct weft_frozen *f);
/* Whether it has a number that is a count, and nothing else. */
bool weft_frozen_counts(const struct weft_frozen *f);
weft_gradient_state weft_frozen_gradient_state(const weft_tensor_impl *tensor);
/* Whether the regions that are open now are those of the observed runs. */
bool weft_frozen_in_same_regions(const struct weft_frozen *f);

#endif
