/* Operations that move elements: each gives affine maps, from which rule and tasks follow. */
#ifndef WEFT_SRC_OPS_DATA_MOVEMENT_H
#define WEFT_SRC_OPS_DATA_MOVEMENT_H

#include "ops/affine.h"
#include "ops/ops.h"

enum { WEFT_MAX_MAPS = 2 };

/* weft_describe_function fills in the maps from a source of layout `from` to the output; there are at most WEFT_MAX_MAPS, and each has
 * an input of its own. The source is input 0, or input 1 of an operation in place. */

void weft_write_move(weft_describe_function describe, const weft_call_layouts *call, char *text, size_t size);
weft_window weft_window_of_move(weft_describe_function describe, const weft_call_layouts *call, int input,
                                int dim);
bool weft_lower_move(weft_describe_function describe, const weft_lowering *lowering);

/* Moving commutes with every Partial op, also with zeros added: every op maps zeros to 0. */
#define WEFT_PASSES_ALL                                                                                      \
    {                                                                                                        \
        .kind = WEFT_LINEAR_JOINTLY, .ops = ~0u                                                              \
    }

/* Rule, windows and lowering of an operation from its describe_NAME(). */
#define WEFT_MOVE_FUNCTIONS(name_)                                                                           \
    static void write_##name_##_rule(const weft_call_layouts *call, char *text, size_t size)                 \
    {                                                                                                        \
        weft_write_move(describe_##name_, call, text, size);                                                 \
    }                                                                                                        \
    static weft_window window_of_##name_(const weft_call_layouts *call, int input, int dim)                  \
    {                                                                                                        \
        return weft_window_of_move(describe_##name_, call, input, dim);                                      \
    }                                                                                                        \
    static bool lower_##name_(const weft_lowering *lowering)                                                 \
    {                                                                                                        \
        return weft_lower_move(describe_##name_, lowering);                                                  \
    }

/* first_row: the first row of the input that is in the output, if the output is consecutive rows; NULL:
 * see `views`. gradient: a function that reads no values. Further members may follow. */
#define WEFT_MOVES_AND(name_, like, views_, first_row_, gradient_, ...)                                               \
    WEFT_MOVE_FUNCTIONS(name_)                                                                               \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = gradient_ },                                                               \
        .write_rule = write_##name_##_rule,                                                                  \
        .rule_like = like,                                                                                   \
        .window = window_of_##name_,                                                                         \
        .describe = describe_##name_,                                                                        \
        .outputs[0].linear = WEFT_PASSES_ALL,                                                                \
        .inputs = { { "a", WEFT_TYPES_MOVED, false } },                                                      \
        .places = true,                                                                                      \
        .views = views_,                                                                                     \
        .first_row = first_row_,                                                                             \
        .lower = lower_##name_,                                                                              \
        __VA_ARGS__                                                                                          \
    };
#define WEFT_MOVES(name_, like, views_, first_row_, gradient_)                                               \
    WEFT_MOVES_AND(name_, like, views_, first_row_, gradient_, .num_outputs = 1)

/* Calls an operation with one input. */
weft_tensor *weft_dispatch_move(const char *function, const weft_operation *operation, weft_tensor *a,
                                const weft_attributes *attributes);

/* The identity. */
weft_affine weft_same_map(const weft_layout *from);

/* Writes num_dims dimensions as weft_wrap_dim() does, each at most once. False with the error kept. */
bool weft_check_own_dims(const char *function, const weft_tensor *a, int num_dims, const int dims[],
                         int checked[]);

#endif
