/* Rows that go from the ranks of one tensor to those of another, to places that no rule describes: each goes there once, straight from the
 * panel that it lies in to that which it belongs to. All processes know all moves.
 *
 * Both layouts have one mesh and one type, and dimensions after the first that are whole. */
#ifndef WEFT_SRC_ARRAYS_ROW_MOVES_H
#define WEFT_SRC_ARRAYS_ROW_MOVES_H

#include "tensor/tensor.h"

/* Consecutive rows of a rank, by their numbers in the whole dimension, and where they go. */
typedef struct weft_row_move {
    int source, target; /* ranks */
    int64_t from, to, rows;
} weft_row_move;

/* A new tensor in the layout `to`, owned by the innermost scope. moves[] fill each of its rows once. They may leave out those between
 * ranks that this process does not host. NULL with the error kept. */
weft_tensor_impl *weft_move_rows(const char *function, weft_tensor_impl *source, const weft_layout *to, int64_t num_moves,
                                 const weft_row_move moves[]);

#endif
