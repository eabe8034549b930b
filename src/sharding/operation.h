/* Operations as data: constants beside the public functions, and a program's own. The fields that the
 * sharding of a call depends on are read here (sharding.h); the fields that its tasks depend on are opaque
 * here. PURE. */
#ifndef WEFT_SRC_SHARDING_OPERATION_H
#define WEFT_SRC_SHARDING_OPERATION_H

#include <weft/operation.h>

#include "codelets/kernels.h"
#include "sharding/strategy.h"

enum { WEFT_MAX_RULES = 4 }; /* of one operation */

/* A call without its tensors: everything that its sharding depends on. */
typedef struct weft_call_layouts {
    const weft_operation *operation;
    int num_inputs;
    const weft_layout *inputs[WEFT_MAX_INPUTS];
    const weft_attributes *attributes;
} weft_call_layouts;

/* Chooses the layouts where no rule can. A status with why, as weft_strategy_search() does. PURE. */
typedef weft_status (*weft_choose_function)(const weft_call_layouts *call, weft_sharding *sharding, char *why,
                                            size_t why_size);

/* Writes the rule of a call, if it depends on the number of dimensions or on the dimensions that the
 * attributes name. Called with inputs of the right types; a misfit shows when the rule is bound. PURE. */
typedef void (*weft_rule_function)(const weft_call_layouts *call, char *text, size_t size);

/* The indices of an input's dimension that some rows of its factor read, if the rule says "~": all fields
 * but the size. PURE. */
typedef weft_window (*weft_window_function)(const weft_call_layouts *call, int input, int dim);

/* The tasks of a call (src/dispatch). */
struct weft_lowering;
struct weft_elementwise;
typedef bool (*weft_lower_function)(const struct weft_lowering *lowering);

/* The body of a composite (src/dispatch/expansion.h): executes a call by other calls, of operations and of
 * composites' helpers (weft_in_layout(), weft_new_tensor()). It runs on tensors without data, and depends
 * on layouts, attributes and scalars only; outputs[] gets its results. False with the error kept: the call
 * is refused. */
struct weft_call;
typedef bool (*weft_expand_function)(const struct weft_call *call, weft_tensor *outputs[]);
/* Whether a call with these layouts expands. PURE. */
typedef bool (*weft_expands_function)(const weft_call_layouts *call);

/* Of an operation that moves elements: the maps from its source to the output (src/ops/data_movement.h); returns their number. PURE. */
struct weft_affine;
typedef int (*weft_describe_function)(const weft_attributes *attributes, const weft_layout *from, struct weft_affine *maps);
/* The value of the elements that no map reaches: a number and a rest (weft_exact). PURE. */
typedef void (*weft_fill_function)(const weft_attributes *attributes, double value[2]);

/* A halo of the program's own operation. */
typedef struct weft_operation_halo {
    weft_halo halo;
    int dim; /* of the input; negative: from the end */
} weft_operation_halo;

/* The gradients of a call's inputs, by calls: src/ops/gradient.h. False with the error kept. */
struct weft_gradient;
typedef bool (*weft_gradient_function)(const struct weft_gradient *of);

/* weft_gradient_entry.reads: values of an input of the call, as they were before it, and of an output. */
#define WEFT_READS_INPUT(input) (1u << (input))
#define WEFT_READS_OUTPUT(output) (1u << (WEFT_MAX_INPUTS + (output)))

/* How the gradients of a call's inputs follow from those of its outputs. One of the first three is set, but in actions: there
 * that of WEFT_MOVES is the output's, and others have none. */
typedef struct weft_gradient_entry {
    weft_gradient_function function;
    const char *zero;    /* why it has none: nothing depends on it by more than a step ("indices") */
    const char *missing; /* why it is not known here: a call is refused where one is asked for */
    bool steps;          /* a step of an optimiser, never recorded: may change leaves */
    weft_operation_gradient by_program; /* of a registered operation: called by `function` */
    bool reads_inputs; /* all of them, any number */
    unsigned reads[WEFT_MAX_INPUTS]; /* [i]: the values that the gradient of input i is computed from */
} weft_gradient_entry;

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
    WEFT_CHANGES = 256, /* its inputs in place (details->num_changed), and depends on nothing but them: may be deferred */
    WEFT_ONLY_READS = 512 /* values of its inputs: the program gets numbers, and nothing else happens */
} weft_effects;

/* A function of tensors: a constant beside the public function. Most have a rule, from which layouts follow, and become
 * tasks or other calls. An action has neither and executes a call itself: factories, redistributions, reads, releases. */
struct weft_operation {
    const char *name; /* for traces; of an action: the public function's */
    /* An action: executes a call whose arguments have been checked; outputs[] receives the new tensors. A status with the
     * error kept. */
    weft_status (*perform)(const struct weft_call *call, weft_tensor *outputs[]);
    unsigned effects; /* weft_effects: of an action */
    void (*meet_layouts)(const struct weft_call *call); /* those among its numbers (weft_meet_layout()); NULL: there are none */
    const char *rules[WEFT_MAX_RULES]; /* attributes.rule says which; or none, and one of the next two */
    weft_rule_function write_rule;
    const char *rule_like; /* with write_rule: an example of a rule, for docs/operations.md */
    weft_choose_function choose;
    bool numbers_are_shape;      /* attributes.numbers is the output's shape */
    weft_window_function window; /* of rules with "~" */
    weft_describe_function describe; /* of an operation that moves elements of one tensor; NULL: it is none */
    weft_fill_function fill;         /* beside it; NULL: the maps reach all elements */
    weft_gradient_entry gradient;
    weft_operation_input inputs[WEFT_MAX_INPUTS];
    /* As many as the rule has. `overwrites`, `places` and `views` need a single output. */
    weft_operation_output outputs[WEFT_MAX_OUTPUTS];
    /* Registered operations only; callers of others know it. */
    int num_inputs;
    const weft_operation *replaces; /* of the library, replaced by the program; NULL: none */
    bool keeps_kernel;              /* its rule alone is replaced: the dimensions must stay as they were */
    int num_halos;
    const weft_operation_halo *halos;
    weft_halo_function halo; /* NULL: they do not depend on the call */
    bool takes_strides;
    /* Bit i: input i may stay a Partial sum, or average, where the others are whole and repeated along the output: these are addends
     * of a sum at coordinate 0 alone (weft_lowering_adds()), and of all of an average's. Elementwise operations alone: ranks
     * without an addend copy the rest. */
    unsigned joins;
    bool joins_large; /* the others need not be repeated */
    /* Partial passes only where the output's type has all values of input 0's, of the same kind or a complex one. */
    bool only_widens;
    /* Write-only, in place: the output becomes input 1, if there is one, and takes over its memory if
     * possible. */
    bool overwrites;
    /* Access maps are placed in the output if they can be: their data lands there, and the lowering leaves
     * it out. */
    bool places;
    /* The output has the elements of input 0, rank by rank in the same order: it shares the memory if it
     * can, and `lower` copies if it cannot. With `first_row`: the elements from this row of each shard on,
     * as many as the output has; -1: no view in this call. */
    bool views;
    int64_t (*first_row)(const struct weft_lowering *lowering);
    /* Its tasks, by one of
     *     a kernel on views, with the rows given by the rule: weft_lower_kernel();
     *     an elementwise kernel: weft_lower_elementwise();
     *     a lowering of its own, which may delegate to one of these two. */
    weft_kernel_id kernel;
    bool only_contiguous; /* the asterisks of its rule are not meant for its kernel */
    bool accumulates; /* the kernel takes contracted rows piece by piece */
    bool whole_pieces; /* accumulates, and every row of output 0 reads all of a piece: a task makes several panels */
    weft_lower_function lower;
    /* A composite: its calls are expanded into others, which are cached. `expands`: whether a call is
     * expanded, or runs as tasks of its own; NULL: all are. */
    weft_expand_function expand;
    weft_expands_function expands;
    /* Its scalars change from call to call: the body passes them on (weft_call.inherited) and does not
     * depend on them. Otherwise calls with other scalars are expanded separately. */
    bool passes_scalars;
    /* The body is a long chain of steps: its tasks go before those of operations called before, which it may not need all. */
    bool leads;
    bool draws;      /* it takes random numbers from the state in use, and moves that on (codelets/random.h) */
    int num_outputs; /* as many as the rule has, where that is more than one; of an action */
};

/* Whether an operation is `other`, or has taken its place. */
static inline bool weft_operation_is(const weft_operation *one, const weft_operation *other)
{
    return one == other || one->replaces == other;
}

/* Whether an output is an input that the call changes. */
static inline bool weft_operation_changes(const weft_operation *of, int output)
{
    return of->outputs[output].in_place;
}

#endif
