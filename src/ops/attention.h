/* Shared by attention with and without a ring, and by the gradients. */
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

/* All tensors of a call; forward: gradient, output and log_sums are NULL. */
typedef struct weft_attention_operands {
    const char *function;
    weft_tensor *q, *k, *v, *mask, *gradient, *output, *log_sums;
    bool causal, grouped; /* grouped: groups of q's heads share a head of k and v */
    double scale, dropout;
    int batch;                    /* number of dimensions of the result before the last two */
    int64_t shape[WEFT_MAX_DIMS]; /* of the result: batch, s, f */
    /* For sharded keys: mesh dimensions around which blocks move; those along which each rank computes a
     * state of its own keys for all rows; and the placements of the result's batch and rows. */
    bool turns[WEFT_MAX_DIMS], splits[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
} weft_attention_operands;

/* ---- calls (attention_calls.c) ------------------------------------------------------------------------- */

/* Takes the options, with defaults. False with the error kept: q is not a live tensor. */
bool weft_attention_begin(weft_attention_operands *a, const weft_attention_options *options);
/* The operands of a call of attention. */
weft_attention_operands weft_attention_operands_of(const weft_call *call);
/* Layouts of q, k, v and the mask, which may be NULL. */
typedef struct weft_attention_layouts {
    const weft_layout *q, *k, *v, *mask;
} weft_attention_layouts;
weft_attention_layouts weft_attention_layouts_of(const weft_attention_operands *a);
/* The result's shape; q, k and v have two dimensions at least. */
void weft_attention_find_shape(weft_attention_operands *a, const weft_attention_layouts *of);

/* A call without inputs. */
weft_call weft_attention_call(const weft_attention_operands *a, const weft_operation *operation,
                              int64_t parts);
/* `tensor` NULL: adds nothing. */
void weft_attention_add_input(weft_call *call, weft_tensor *tensor);
/* The mask's term in a rule. Its last dimensions are s and t of q and k (k is the input after q); those
 * of size 1 broadcast, as do missing leading ones. The mask is the last input. "": no mask. */
const char *weft_attention_write_mask(const weft_call_layouts *call, int q, char text[16]);

/* The call of attention, with checked options (attention.c). */
weft_tensor *weft_attention_dispatch(const weft_attention_operands *a, weft_tensor **log_sums);
/* That of another operation with its inputs and outputs. */
weft_tensor *weft_attention_dispatch_as(const weft_attention_operands *a, const weft_operation *operation,
                                        weft_tensor **log_sums);

/* The gradients of a call with attention's inputs and outputs, from the log-sums where they were kept. */
bool weft_attention_gradients(const weft_gradient *of);

/* ---- grouped heads and dropout (attention_options.c) ----------------------------------------------------- */

bool weft_attention_has_options(const weft_attention_operands *a);
/* Attention with these options. NULL with the error kept. */
weft_tensor *weft_attention_with_options(weft_attention_operands *a, weft_tensor **log_sums);
/* True with the error kept: the function does not have these options. */
bool weft_attention_refuse_options(const weft_attention_operands *a);

/* ---- with all scores (attention_second.c) --------------------------------------------------------------- */

/* The mask's gradient of a call of attention. */
bool weft_attention_give_mask(const weft_gradient *of, const weft_attention_options *options);
/* Of a call of its backward pass. */
bool weft_gradients_of_attention_backward(const weft_gradient *of);

/* ---- keys that stay sharded (attention_ring.c) --------------------------------------------------------- */

/* Whether keys stay sharded: if q is sharded in s too, blocks of keys move around a ring; if q is not, the
 * states of few rows may be smaller than the keys. Fills in the shape and the placements. */
bool weft_attention_find_ring(weft_attention_operands *a, const weft_attention_layouts *of, bool backward);

/* Placement of an operand. A mask has the result's rows and all keys; or, if rows move around the ring,
 * all rows and the keys of its rank. States: those of all ranks with keys, side by side. */
typedef enum weft_attention_kind {
    WEFT_ATTENTION_OF_ROWS,
    WEFT_ATTENTION_OF_STATES,
    WEFT_ATTENTION_OF_KEYS,
    WEFT_ATTENTION_OF_MASK,
    WEFT_ATTENTION_OF_MASK_KEYS
} weft_attention_kind;

/* Redistributes a tensor for a step, with one more dimension before the last two if needed. False with the
 * error kept. */
bool weft_attention_place(const weft_attention_operands *a, weft_tensor **tensor, weft_attention_kind kind);
/* Places all of them, in an open scope. */
bool weft_attention_place_all(weft_attention_operands *a);

/* A tensor of undefined values for results per row, or per key: `size` of them, `columns` each. */
weft_tensor *weft_attention_target(const weft_attention_operands *a, weft_attention_kind kind, int64_t size,
                                   int64_t columns);
/* Makes the call for every block of the inputs in `moving` (bits). Returns the target. */
weft_tensor *weft_attention_go_round(const weft_attention_operands *a, const weft_call *call,
                                     unsigned moving);
/* The softmax state of each row, with values or without, combined over all keys. With values it is placed
 * as the result, else as q. */
weft_tensor *weft_attention_state(const weft_attention_operands *a, bool values);
/* The result and, unless `results` is to be 1, the log-sums, by other calls. False with the error kept. */
bool weft_attention_in_ring(weft_attention_operands *a, int results, weft_tensor *outputs[]);

/* Shardings of step operations: in place, the inputs as they are. */
weft_status weft_attention_choose(const weft_call_layouts *call, weft_sharding *sharding, char *why,
                                  size_t why_size);
/* `q`: number of input q; the next one is k. Skips blocks that contribute nothing, but for the first one,
 * which initialises the target. */
bool weft_attention_lower_step(const weft_lowering *lowering, int q);

#endif
