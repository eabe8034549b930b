/* A call as a value: the function, and all that it is called with. What is told of a call (recorder.h), what a
 * composite expands into (dispatch/expansion.h) and what can be carried out again (weft_invoke()) is this. */
#ifndef WEFT_SRC_RUNTIME_CALL_H
#define WEFT_SRC_RUNTIME_CALL_H

#include "sharding/operation.h"

struct weft_call;

/* A function that is no operation: it makes tensors from nothing, moves them, reads them or lets them go. A
 * constant beside its public function. */
typedef struct weft_action {
    const char *name; /* of the public function */
    /* Carries a call out, whose arguments have been checked; outputs[] gets the tensors that it returns. A status
     * with the error kept. */
    weft_status (*perform)(const struct weft_call *call, weft_tensor *outputs[]);
    int num_outputs;
    /* It reads or writes the values of its inputs: tensors without data are refused. */
    bool needs_data;
    /* Its output has details->layout, and data if its inputs have: of inputs without, or inside an expansion, it
     * is a tensor without. */
    bool makes;
    bool moves; /* and that is input 0's values elsewhere: input 0 itself where it lies there already */
} weft_action;

/* What few calls have; zero or NULL where there is none. */
typedef struct weft_call_details {
    int num_outputs;         /* where the call says it; 0: as the operation or the action does */
    int num_tensors;         /* inputs behind those of weft_call.inputs: as many as the program gives */
    weft_tensor *const *tensors;
    int num_numbers;         /* attributes beyond those of weft_attributes */
    const int64_t *numbers;
    const weft_layout *layout; /* of the output, where the call says it */
    const char *text;        /* a name; NULL is one too */
    void *memory;            /* the program's: to read, or for what is no tensor */
    size_t bytes;            /* of it, where the program says */
} weft_call_details;

/* Of an operation or an action, one of which is not NULL. Handles, as the program has them. */
typedef struct weft_call {
    const char *function; /* the public function, for messages: static storage */
    const weft_operation *operation;
    const weft_action *action;
    int num_inputs;
    weft_tensor *inputs[WEFT_MAX_INPUTS];
    /* Of inputs that weft_tensor_access() made, and that stay as they are (weft_choose_function): what they
     * are windows of. */
    const weft_access_map *access_map[WEFT_MAX_INPUTS];
    weft_attributes attributes;       /* what the layouts depend on */
    double scalars[WEFT_MAX_SCALARS]; /* what they do not depend on */
    /* Of a call that a composite makes: bit i, scalar i is the composite's scalar i (weft_operation.passes_scalars). */
    unsigned inherited;
    const weft_call_details *details; /* NULL: none */
} weft_call;

/* weft_call.inherited: all of them. */
enum { WEFT_ALL_SCALARS = (1 << WEFT_MAX_SCALARS) - 1 };

static inline int weft_call_num_tensors(const weft_call *call)
{
    return call->num_inputs + (call->details == NULL ? 0 : call->details->num_tensors);
}

/* Tensors that it returns, those that are not asked for included. */
static inline int weft_call_num_outputs(const weft_call *call)
{
    if (call->details != NULL && call->details->num_outputs > 0) {
        return call->details->num_outputs;
    }
    return call->action != NULL                ? call->action->num_outputs
           : call->operation->num_outputs > 0 ? call->operation->num_outputs
                                               : 1;
}

/* Input `input` of weft_call_num_tensors(). */
static inline weft_tensor *weft_call_tensor(const weft_call *call, int input)
{
    return input < call->num_inputs ? call->inputs[input] : call->details->tensors[input - call->num_inputs];
}

#endif
