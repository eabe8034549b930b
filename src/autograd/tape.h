/* src/autograd: the tape. An interposer keeps a node for each call on values that require a gradient:
 * the call, the values it was made of, and those values that its gradient reads. A backward pass visits nodes by
 * falling number, the order of the calls reversed: the same on every process.
 *
 *     tensor --tape--> value (an output of a node) <--inputs-- node of a later call
 *
 * A node lives as long as a tensor or a later node refers to one of its values. Tensors that are copies of one
 * another (shares) may refer to one value. */
#ifndef WEFT_SRC_AUTOGRAD_TAPE_H
#define WEFT_SRC_AUTOGRAD_TAPE_H

#include <weft/autograd.h>

#include "call/interposer.h"
#include "ops/gradient.h"
#include "tensor/state.h"

struct weft_tape_node;

/* A value for the backward pass: a share of the tensor, or what it can be made from again. */
typedef struct weft_saved {
    weft_tensor_impl *tensor; /* NULL: nothing; with a reference */
    const weft_layout *gathered; /* the value is the tensor in this layout; NULL: in its own */
    weft_dtype dtype;            /* and of this type */
} weft_saved;

/* The sum of the gradients of a value that have come in one layout. */
typedef struct weft_partial_sum {
    weft_tensor_impl *sum; /* with a reference */
    bool own;              /* nothing else refers to it: it may be changed in place */
    struct weft_partial_sum *next;
} weft_partial_sum;

/* An output of a node, or a leaf. */
typedef struct weft_tape_value {
    struct weft_tape_node *node;
    const weft_layout *layout; /* NULL: the output was not asked for, or is no floating tensor */
    weft_saved saved;
    const weft_layout *gradient_layout; /* that the program wants its gradient in; NULL: it has not said */
    /* State of the pass in progress. */
    weft_partial_sum first; /* sum NULL: none yet */
    int chosen;             /* its gradient is wanted: 1 + its number among the inputs; 0: not */
} weft_tape_value;

typedef struct weft_tape_input {
    weft_tape_value *value;    /* NULL: a constant; else with a reference of its node */
    const weft_layout *layout; /* of the tensor at the time of the call */
    weft_saved saved;
} weft_tape_input;

typedef enum weft_tape_kind { WEFT_TAPE_LEAF, WEFT_TAPE_CALL, WEFT_TAPE_SEGMENT, WEFT_TAPE_CUSTOM } weft_tape_kind;

struct weft_pass;
struct weft_tape_node;

/* weft_call_gradients() for a node that is no call. False with the error kept. */
typedef bool weft_differentiate(const struct weft_pass *pass, struct weft_tape_node *node, const bool wanted[],
                                weft_tensor *const output_gradients[], weft_tensor *gradients[]);

/* One call. In one allocation with its arrays and the call. */
typedef struct weft_tape_node {
    weft_tape_kind kind;
    uint64_t number; /* of creation */
    int references;  /* by tensors, inputs of later nodes, and passes */
    bool spent;      /* a pass has released what it saved */
    bool stays;      /* in use by several passes: a cached conversion, which saves nothing */
    /* State of the pass in progress. */
    uint64_t pass; /* the last one that has reached it */
    bool needed;   /* a wanted gradient passes through it */
    int num_inputs, num_outputs;
    weft_tape_input *inputs;
    weft_tape_value *outputs;
    const weft_call *call;         /* of WEFT_TAPE_CALL */
    const struct segment *segment; /* of WEFT_TAPE_SEGMENT */
    const struct custom *custom;   /* of WEFT_TAPE_CUSTOM */
    const char *no_second;         /* why no pass through it can be recorded; NULL: it can */
    weft_differentiate *differentiate; /* NULL: weft_call_gradients() of the call */
    struct weft_tape_node *older, *newer; /* all nodes but leaves */
} weft_tape_node;

typedef struct weft_tape_leaf {
    weft_tape_node node;
    weft_tape_value value;
    weft_tensor_impl *tensor;   /* NULL: it is gone */
    weft_tensor_impl *gradient; /* with a reference; NULL: none yet */
    weft_grad_hook hook;
    void *hook_context;
    bool regathers;
    int expected; /* gradients still to come in the pass in progress */
    struct weft_tape_leaf *previous, *next; /* all leaves */
} weft_tape_leaf;

/* weft_runtime.tape. */
typedef struct weft_tape {
    weft_interposer interposer; /* first member */
    uint64_t numbers, passes;
    int no_grad; /* depth of weft_no_grad_begin() and of passes that are not recorded */
    int no_grad_min; /* depth at which a function of the program was called, which must not end what it has not begun */
    bool in_pass;
    int64_t deferred; /* live tensors that are gathered when they are used */
    weft_tape_node *newest;
    weft_tape_leaf *leaves;
    /* Inputs that have been reduced, outside of any scope, for a call that is about to be made (record.c). */
    const weft_call *reduced_for;
    int num_reduced;
    weft_tensor_impl *reduced[WEFT_MAX_INPUTS];
    /* Regions of mixed precision (autocast.c). */
    weft_vec casts; /* weft_dtype: of the open regions */
    size_t casts_min; /* as no_grad_min */
    weft_vec cast_rules, converted;
    /* Segments (segment.c). */
    bool in_first_run; /* of a segment's function: values used are noted */
    bool in_segment;   /* in the second run of one, within a pass */
    weft_vec used;     /* weft_tape_value *, with references */
} weft_tape;

/* Installed with the first leaf; NULL with the error kept. */
weft_tape *weft_tape_obtain(const char *function);
/* Its first member (record.c). */
weft_interposer weft_tape_interposer(void);
/* The tensor is a leaf that has a gradient. */
bool weft_tape_has_gradient(const weft_tensor_impl *tensor);
/* weft_meet_layout() for all layouts of the tape. */
void weft_autograd_meet_layouts(void);
/* Drops everything. weft_finalize() calls it before tensors stop. */
void weft_autograd_stop(void);

/* ---- open regions (autocast.c) ----------------------------------------------------------------------------- */

/* The regions without recording, and of mixed precision, that are open at a moment. */
typedef struct weft_tape_regions {
    int no_grad;
    size_t casts;
    weft_dtype cast; /* of the innermost one */
} weft_tape_regions;

weft_tape_regions weft_tape_regions_open(void);
/* Back to those; false: others were open. */
bool weft_tape_regions_restore(const weft_tape_regions *regions);

/* ---- nodes and values (node.c) --------------------------------------------------------------------------- */

/* With room for the arrays and `extra` bytes after them at *room. NULL with the error kept. */
weft_tape_node *weft_tape_node_new(const char *function, weft_tape_kind kind, int num_inputs, int num_outputs,
                                   size_t extra, void **room);
void weft_tape_node_release(weft_tape_node *node);
/* Releases what it has saved, and its inputs: it is spent. */
void weft_tape_node_spend(weft_tape_node *node);
static inline weft_tape_leaf *weft_tape_leaf_of(const weft_tape_value *value)
{
    return value->node->kind == WEFT_TAPE_LEAF ? (weft_tape_leaf *)value->node : NULL;
}
/* Makes the tensor refer to another value; NULL: to none. */
void weft_tape_set(weft_tensor_impl *tensor, weft_tape_value *value);
/* Makes the outputs of a function of the program values of the node: shares, because it may have returned a tensor that was there
 * before, such as a leaf. False with the error kept. */
bool weft_tape_attach_shares(weft_tape_node *node, weft_tensor *outputs[]);
/* Gives up the list of values used. */
void weft_tape_forget_used(weft_tape *tape);
/* Notes that a segment's first run uses the tensor's value. False with the error kept: no memory. */
bool weft_tape_use(weft_tape *tape, const char *function, const weft_tensor *handle);

/* ---- functions of the program that are called within a pass or a segment (tape.c) ------------------------- */

typedef struct weft_tape_visit {
    weft_visit scopes;
    int no_grad, no_grad_min;
    size_t casts, casts_min;
} weft_tape_visit;

/* `no_grad`: the depth of regions without recording in the function. It can end regions of its own alone; others that it
 * leaves open end with it. Without a tape `no_grad` is not used: the function may make the first leaf. */
void weft_tape_visit_begin(weft_tape_visit *visit, int no_grad);
void weft_tape_visit_end(const weft_tape_visit *visit);

/* ---- saved values (saved.c) ------------------------------------------------------------------------------ */

/* False with the error kept. */
bool weft_save(const char *function, weft_tensor_impl *tensor, weft_saved *saved);
void weft_saved_release(weft_saved *saved);
/* The value as a tensor of the innermost scope; `last`: the saved share itself, which is given up. NULL with the error kept. */
weft_tensor_impl *weft_saved_restore(const char *function, weft_saved *saved, bool last);

/* ---- gathered tensors (gathered.c) -------------------------------------------------------------------------- */

/* weft_redistribute() of a sharded tensor on its mesh, for calls that use it so: in a region of mixed precision gathered when it
 * is used, and a constant again in the backward pass. NULL with the error kept. */
weft_tensor *weft_gather_for_use(const char *function, weft_tensor *sharded, const weft_placement *placements);
/* Whether it is still to be gathered: it has no data, and is a value of no tape until then. */
bool weft_is_deferred(const weft_tensor_impl *tensor);
/* Gathers it: from now on as any other tensor. False with the error kept. */
bool weft_gather_now(weft_tensor_impl *tensor);
/* Its values in another type, in the innermost scope: converted first, then gathered. It stays deferred. NULL with the
 * error kept. */
weft_tensor *weft_gather_converted(weft_tensor_impl *tensor, weft_dtype dtype);
/* The sharded tensor that a constant was gathered from; NULL: none, or it was written to since. */
const weft_tensor_impl *weft_gathered_from(const weft_tensor_impl *tensor);
/* For a conversion of another gathered constant: it can be made from the same. False with the error kept. */
bool weft_gathered_like(const char *function, weft_tensor_impl *tensor, const weft_tensor_impl *other);
/* Gathering with a conversion. */
extern const weft_operation weft_action_gather;
/* Whether a call gathers: a redistribution, or one with a conversion. */
bool weft_is_gather(const weft_call *call);
/* Forgets where its values come from. */
void weft_gathering_drop(weft_tensor_impl *tensor);

/* ---- passes (pass.c, sums.c) ------------------------------------------------------------------------------ */

typedef struct weft_pass {
    const char *function;
    bool retain, create_graph;
    bool accumulates; /* to leaves, with hooks; else chosen values alone */
    uint64_t oldest;  /* nodes up to this number are not reached */
    uint64_t number;
    weft_vec nodes;  /* weft_tape_node *, by falling number, each with a reference */
    weft_vec leaves; /* weft_tape_leaf *: those that are reached, each with a reference */
} weft_pass;

/* Runs it; chosen values are left with their sums. False with the error kept. */
bool weft_pass_run(weft_pass *pass, int num_outputs, weft_tape_value *const outputs[],
                   weft_tensor *const output_gradients[]);

/* The layout in which gradients of a value come together (JAX: the cotangent's type is a function of the primal's):
 * Shard for Shard, Replicate for Partial; for Replicate Partial if all of `gradients` are, else Replicate. NULL with
 * the error kept. */
const weft_layout *weft_dual_layout(const char *function, const weft_layout *layout, int num_gradients,
                                    const weft_layout *const gradients[]);
/* The layout in which the program gets the gradient of a value: the one that it wants, else the value's own with Replicate in
 * place of Partial. NULL with the error kept. */
const weft_layout *weft_gradient_layout(const char *function, const weft_tape_value *value);
/* A gradient as a tensor that nothing else shares, with a reference of the caller's: the sum's values, on its memory if
 * possible. NULL with the error kept. */
weft_tensor_impl *weft_own_gradient(const weft_pass *pass, weft_tensor_impl *sum);
/* Adds a gradient to a value's sums. `computed`: by the pass, so that it may be changed if nothing else refers to it.
 * False with the error kept. */
bool weft_sums_add(const weft_pass *pass, weft_tape_value *value, weft_tensor *gradient, bool computed);
/* Adds the gradient of a slice of the value to the slice of its sum: many slices need no tensor of the value's size each.
 * *added: it could; else nothing is changed. False with the error kept. */
bool weft_sums_add_part(const weft_pass *pass, weft_tape_value *value, const weft_call *call, weft_tensor *gradient,
                        bool *added);
/* The sum of them in the innermost scope, in `layout`; NULL: in the layout dual to the value's. *sum is NULL if there
 * are none. Empties the sums. False with the error kept. */
bool weft_sums_take(const weft_pass *pass, weft_tape_value *value, const weft_layout *layout, weft_tensor **sum);
void weft_sums_drop(weft_tape_value *value);

/* ---- mixed precision (cast.c) ----------------------------------------------------------------------------- */

typedef enum weft_cast { WEFT_CAST_NONE, WEFT_CAST_NARROW, WEFT_CAST_WIDE } weft_cast;

typedef struct weft_cast_rule {
    const weft_operation *operation;
    weft_cast cast;
} weft_cast_rule;

/* The call with converted inputs, in `own`, or the call itself. NULL with the error kept. */
const weft_call *weft_autocast(weft_tape *tape, const weft_call *call, weft_call *own);
/* So many regions are open; without any no conversion is kept. */
void weft_casts_close(weft_tape *tape, size_t depth);
void weft_autocast_stop(weft_tape *tape);

static inline bool weft_is_16_bit(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* The type that the innermost region converts to. */
static inline weft_dtype weft_cast_type(const weft_tape *tape)
{
    return ((const weft_dtype *)tape->casts.items)[tape->casts.count - 1];
}

/* Whether calls get 16 bits now. */
static inline bool weft_autocast_narrows(const weft_tape *tape)
{
    return tape->casts.count > 0 && (!tape->in_pass || tape->in_segment) && weft_is_16_bit(weft_cast_type(tape));
}

#endif
