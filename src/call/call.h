/* A public call as a value: function and arguments. Interposers (interposer.h) receive it, composites expand
 * into such values (dispatch/expansion.h), and weft_invoke() executes one. */
#ifndef WEFT_SRC_CALL_CALL_H
#define WEFT_SRC_CALL_CALL_H

#include <string.h>

#include "sharding/operation.h"

struct weft_call;

/* Effects of an action. */
typedef enum weft_effects {
    WEFT_NEEDS_DATA = 1,     /* reads or writes the values of its inputs: refuses tensors without data */
    WEFT_MAKES = 2,          /* its output has details->layout, and has data if the inputs have, outside of expansions */
    WEFT_MOVES = 4,          /* with WEFT_MAKES: has input 0's values, and may be input 0 itself */
    WEFT_LEAVES_VALUES = 8,  /* neither reads nor writes values of tensors: executed at once also where calls are deferred */
    WEFT_LENDS = 16,         /* the program may write to input 0's memory from now on */
    WEFT_READS_LAYOUTS = 32, /* of its inputs, and no values */
    WEFT_KEEPS = 64,         /* concerns references to input 0, not its values */
    WEFT_IS_NOT_MISSED = 128, /* a frozen graph, which does not repeat it, loses nothing */
    WEFT_ONLY_READS = 512, /* values of its inputs: the program gets numbers, and nothing else happens */
    WEFT_CHANGES = 256 /* its inputs in place (details->num_changed), and depends on nothing but them: may be deferred */
} weft_effects;

/* A public function that is no operation: factories, redistributions, reads and releases. A constant
 * beside the public function. */
typedef struct weft_action {
    const char *name; /* of the public function */
    /* Executes a call whose arguments have been checked; outputs[] receives the new tensors. A status with
     * the error kept. */
    weft_status (*perform)(const struct weft_call *call, weft_tensor *outputs[]);
    int num_outputs;
    unsigned effects; /* weft_effects */
    const weft_gradient_entry *gradient; /* NULL: that of WEFT_MOVES is the output's, and others have none */
    void (*meet_layouts)(const struct weft_call *call); /* those among its numbers (weft_meet_layout()); NULL: there are none */
} weft_action;

/* How the scalars of a call follow from numbers that the program gave to the public function (their ORIGINS). */
typedef struct weft_derivation {
    int num_origins; /* at most WEFT_MAX_SCALARS */
    int counter;     /* the origin that counts the program's calls, one more each time; -1: none */
    void (*derive)(const double origins[], double scalars[]);
} weft_derivation;

/* Arguments that few calls have; zero or NULL: none. */
typedef struct weft_call_details {
    int num_outputs;         /* if the call determines it; 0: the operation or action does */
    int num_changed;         /* outputs, the first ones, that are the inputs of the same numbers, changed in place */
    int num_tensors;         /* inputs after those of weft_call.inputs: any number */
    weft_tensor *const *tensors;
    int num_numbers;         /* attributes beyond those of weft_attributes */
    const int64_t *numbers;
    const weft_layout *layout; /* of the output, if the call determines it */
    const char *text;        /* a name; may be NULL */
    const weft_derivation *derivation; /* NULL: the scalars are numbers of the program's */
    const double *origins;   /* of it; not in copies of the call */
    void *context;           /* the program's, for its function or kernel; copies of the call have a copy of context_size bytes */
    size_t context_size;     /* 0: they have the pointer */
    void *memory;            /* the program's: to read, or for results that are no tensor */
    size_t bytes;            /* of `memory`, if the program gives it */
} weft_call_details;

/* Exactly one of operation and action is not NULL. Tensors are handles. */
typedef struct weft_call {
    const char *function; /* the public function, for messages: static storage */
    const weft_operation *operation;
    const weft_action *action;
    int num_inputs;
    weft_tensor *inputs[WEFT_MAX_INPUTS];
    /* Access maps of inputs that weft_tensor_access() made, and whose layouts are fixed
     * (weft_choose_function). */
    const weft_access_map *access_map[WEFT_MAX_INPUTS];
    weft_attributes attributes;       /* layouts may depend on these */
    double scalars[WEFT_MAX_SCALARS]; /* layouts do not depend on these */
    /* In a composite: bit i: scalar i is the composite's own scalar i (weft_operation.passes_scalars). */
    unsigned inherited;
    const weft_call_details *details; /* NULL: none */
} weft_call;

/* Whether it is an action with all of these effects (weft_effects). */
static inline bool weft_call_does(const weft_call *call, unsigned effects)
{
    return call->action != NULL && (call->action->effects & effects) == effects;
}

/* Value of weft_call.inherited. */
enum { WEFT_ALL_SCALARS = (1 << WEFT_MAX_SCALARS) - 1 };

static inline int weft_call_num_tensors(const weft_call *call)
{
    return call->num_inputs + (call->details == NULL ? 0 : call->details->num_tensors);
}

/* Number of outputs, also those that the caller does not ask for. */
static inline int weft_call_num_outputs(const weft_call *call)
{
    if (call->details != NULL && call->details->num_outputs > 0) {
        return call->details->num_outputs;
    }
    return call->action != NULL                ? call->action->num_outputs
           : call->operation->num_outputs > 0 ? call->operation->num_outputs
                                               : 1;
}

/* 0 <= input < weft_call_num_tensors(). */
static inline weft_tensor *weft_call_tensor(const weft_call *call, int input)
{
    return input < call->num_inputs ? call->inputs[input] : call->details->tensors[input - call->num_inputs];
}

/* A call with details of its own. */
typedef struct weft_own_call {
    weft_call call;
    weft_call_details details;
} weft_own_call;

/* The same call on other tensors, of which weft_call_num_tensors() are borrowed while it is used. */
static inline const weft_call *weft_call_on(weft_own_call *own, const weft_call *call, weft_tensor *const tensors[])
{
    own->call = *call;
    memcpy(own->call.inputs, tensors, (size_t)call->num_inputs * sizeof(tensors[0]));
    if (call->details != NULL) {
        own->details = *call->details;
        own->details.tensors = tensors + call->num_inputs;
        own->call.details = &own->details;
    }
    return &own->call;
}

/* A copy of a call with everything it points to but the program's memory (copy.c): its bytes; in memory of so many bytes,
 * aligned as malloc()'s; and in an allocation of *bytes bytes, to be freed with free() (NULL: no memory). Takes no
 * references. */
size_t weft_call_copy_bytes(const weft_call *call);
weft_call *weft_call_copy_to(void *memory, const weft_call *call);
weft_call *weft_call_copy(const weft_call *call, size_t *bytes);
/* weft_meet_layout() for all layouts of a copy but those of its tensors. */
void weft_call_meet_layouts(const weft_call *call);

/* Whether an output is the input of the same number, changed in place. */
static inline bool weft_call_changes(const weft_call *call, int output)
{
    bool listed = call->details != NULL && output < call->details->num_changed;
    return output < weft_call_num_tensors(call) &&
           (listed || (call->operation != NULL && output < WEFT_MAX_OUTPUTS &&
                       weft_operation_changes(call->operation, output)));
}

/* Arguments: the wanted gradients of one call. Inputs are numbered as by weft_call_tensor(). */
typedef struct weft_gradient {
    /* The call. Inputs are as before it; those whose values no wanted gradient reads
     * (weft_gradient_entry.reads) may be tensors without data. */
    const weft_call *call;
    weft_tensor *const *outputs;          /* likewise; NULL: not asked for in the call */
    weft_tensor *const *output_gradients; /* NULL: zero; the shape and type of the output, in any layout */
    const bool *wanted;                   /* for each input */
    const bool *wide; /* for each input: of 16 bits, and its gradient may be WEFT_F32; NULL: of none */
    bool differentiated;                  /* the gradients will be differentiated themselves */
    weft_tensor **gradients;              /* for each input; NULL: zero, or not wanted */
} weft_gradient;

#endif
