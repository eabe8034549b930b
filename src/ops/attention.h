/* What the plain call of attention, the one in a ring and the gradients share. */
#ifndef WEFT_SRC_OPS_ATTENTION_H
#define WEFT_SRC_OPS_ATTENTION_H

#include "codelets/attention.h"
#include "ops/ops.h"

#define WEFT_ATTENTION_FLOATING(argument)                                                                    \
    {                                                                                                        \
        argument, WEFT_TYPES_FLOAT, true                                                                     \
    }
#define WEFT_ATTENTION_ANY_FLOATING(argument)                                                                \
    {                                                                                                        \
        argument, WEFT_TYPES_FLOAT, false                                                                    \
    }
#define WEFT_ATTENTION_WIDE(argument)                                                                        \
    {                                                                                                        \
        argument, WEFT_TYPES_WIDE, false                                                                     \
    }
#define WEFT_ATTENTION_MASK                                                                                  \
    {                                                                                                        \
        "mask", WEFT_TYPES_FLOAT | WEFT_TYPES_BOOL, false                                                    \
    }

/* All tensors of a call; gradient and output: NULL going forward. */
typedef struct weft_attention_operands {
    const char *function;
    weft_tensor *q, *k, *v, *mask, *gradient, *output;
    bool causal;
    double scale;
    int batch;                    /* dimensions of the result before the last two */
    int64_t shape[WEFT_MAX_DIMS]; /* of the result: batch, s, f */
    /* Of keys that stay sharded: mesh dimensions along which blocks go round; those along which each rank has
     * a state of its own keys for all rows; and where the result's batch and rows are sharded. */
    bool turns[WEFT_MAX_DIMS], splits[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
} weft_attention_operands;

/* ---- calls (attention_calls.c) ------------------------------------------------------------------------- */

/* The options, with their defaults filled in. False with the error kept: q is no live tensor. */
bool weft_attention_begin(weft_attention_operands *a, const weft_attention_options *options);
/* The result's shape, of tensors that fit together. */
void weft_attention_find_shape(weft_attention_operands *a);

/* A call without inputs. */
weft_call weft_attention_call(const weft_attention_operands *a, const weft_operation *operation,
                              int64_t parts);
/* NULL: not this one. */
void weft_attention_add_input(weft_call *call, weft_tensor *tensor);
/* The mask's part of a rule. Its last dimensions are s and t, those of q and k, which is behind q; those of
 * size 1 are repeated, and so is what comes before. The mask is the last input. "" for none. */
const char *weft_attention_write_mask(const weft_call_layouts *call, int q, char text[16]);

/* ---- the plain call (attention.c) ----------------------------------------------------------------------- */

/* The call that gives the result. */
weft_call weft_attention_forward(const weft_attention_operands *a);

/* ---- keys that stay sharded (attention_ring.c) --------------------------------------------------------- */

/* Whether keys are sharded so that not all of them need to move: where q is in s too, blocks go round; where
 * q is not, the states of few rows may be less than the keys. Fills in the shape and the placements. */
bool weft_attention_find_ring(weft_attention_operands *a);

/* A mask has rows where the result has, and all keys that come round; or, where rows go round, all rows, and
 * the keys that stay. States: of each rank that has keys, side by side. */
typedef enum weft_attention_kind {
    WEFT_ATTENTION_OF_ROWS,
    WEFT_ATTENTION_OF_STATES,
    WEFT_ATTENTION_OF_KEYS,
    WEFT_ATTENTION_OF_MASK,
    WEFT_ATTENTION_OF_MASK_KEYS
} weft_attention_kind;

/* Puts a tensor where it is needed, with a dimension before the last two. False with the error kept. */
bool weft_attention_place(const weft_attention_operands *a, weft_tensor **tensor, weft_attention_kind kind);
/* All of them, in an open scope. */
bool weft_attention_place_all(weft_attention_operands *a);

/* A tensor of undefined values for the results of rows, or of keys: `size` of them, `columns` each. */
weft_tensor *weft_attention_target(const weft_attention_operands *a, weft_attention_kind kind, int64_t size,
                                   int64_t columns);
/* The call for every block of the inputs in `moving` (bits). Returns the target. */
weft_tensor *weft_attention_go_round(const weft_attention_operands *a, const weft_call *call,
                                     unsigned moving);
/* What is known of each row, with values or without them: states side by side that together have seen all
 * keys. Where values lie, there is the result; without them, where q is. */
weft_tensor *weft_attention_state(const weft_attention_operands *a, bool values);
/* The result, in an open scope. */
weft_tensor *weft_attention_in_ring(weft_attention_operands *a);

/* Of operations that are a step: in place, on tensors that were put where it needs them. */
weft_status weft_attention_choose(const weft_call_layouts *call, weft_sharding *sharding, char *why,
                                  size_t why_size);
/* `q`: which input that is; the next one is k. A block that adds nothing is passed over, but for the first
 * one, which sets the target. */
bool weft_attention_lower_step(const weft_lowering *lowering, int q);

#endif
