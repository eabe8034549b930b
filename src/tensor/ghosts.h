/* Ghosted tensors (<weft/ghosts.h>). The program's arrays are a tensor of their own, the ARRAY, of a layout that has the margins
 * (plan/ghosts.h). The ghosted tensor has its elements in the array alone, and is without data (weft_tensor_impl.fake), until
 * something else than a kernel with `takes_strides` reads it: then it gets a dense copy. A change makes the other copy out of
 * date, and whoever makes the change renews or drops that. */
#ifndef WEFT_SRC_TENSOR_GHOSTS_H
#define WEFT_SRC_TENSOR_GHOSTS_H

#include "plan/ghosts.h"
#include "tensor/exchange.h"
#include "tensor/tensor.h"

typedef struct weft_ghosted {
    weft_ghosts ghosts;
    uint64_t digest;         /* of `ghosts`; not 0 */
    weft_tensor_impl *array; /* one reference is its own; NULL: of a tensor that stands for another one (weft_ghosted_twin()) */
    weft_access_map map;     /* of the array */
    uint64_t version;        /* the dense copy's, when it was equal to the array */
    bool has_gaps;           /* its margins are the program's, and no ghosts (WEFT_STRIDES) */
    bool is_filled;          /* the margins have the tensor's values */
    weft_exchange *fill, *to_dense, *to_array; /* NULL: not made yet */
} weft_ghosted;

/* A tensor of this layout on the arrays, one for each hosted rank, in the innermost scope; NULL with the error kept. */
weft_tensor_impl *weft_ghosted_new(const char *function, const weft_layout *layout, const weft_layout *padded,
                                   const weft_ghosts *ghosts, void *const arrays[]);
/* A tensor without data that calls take for a ghosted one: to check them. NULL with the error kept. */
weft_tensor_impl *weft_ghosted_twin(const char *function, const weft_tensor_impl *tensor);
/* The margins are gaps. */
void weft_ghosted_set_gaps(weft_tensor_impl *tensor);
/* weft_ghosted.digest; 0: it is not ghosted. */
static inline uint64_t weft_ghosted_digest(const weft_tensor_impl *tensor)
{
    return tensor->ghosted == NULL ? 0 : tensor->ghosted->digest;
}
/* Whether the tensor has values: in arrays, or in memory of its own. */
static inline bool weft_has_values(const weft_tensor_impl *tensor)
{
    return !tensor->fake || (tensor->ghosted != NULL && tensor->ghosted->array != NULL);
}
/* The tensor ends. */
void weft_ghosted_drop(weft_tensor_impl *tensor);

/* Submits what fills the margins. False with the error kept. */
bool weft_ghosted_fill(const char *function, weft_tensor_impl *tensor);
/* Whether the margins have the tensor's values. */
static inline bool weft_ghosted_is_filled(const weft_tensor_impl *tensor)
{
    return tensor->ghosted->is_filled;
}
/* Makes the dense copy, if there is none. False with the error kept. */
bool weft_ghosted_make_dense(const char *function, weft_tensor_impl *tensor);
/* Writes the dense copy to the array, if that has changed. False with the error kept. */
bool weft_ghosted_write_back(const char *function, weft_tensor_impl *tensor);
/* The array has changed, and the tensor with it: the dense copy ends. */
void weft_ghosted_array_changed(weft_tensor_impl *tensor);
/* Copies between the array and another tensor in the ghosted tensor's layout. False with the error kept. */
bool weft_ghosted_read(const char *function, weft_tensor_impl *tensor, weft_tensor_impl *into);
bool weft_ghosted_write(const char *function, weft_tensor_impl *tensor, weft_tensor_impl *from);

/* ---- inside src/tensor --------------------------------------------------------------------------------- */

/* Appends to an empty exchange what brings boxes from shards of exchange->stage.from to shards of exchange->stage.to, and leaves
 * the rest of these as it is (ghosts_lower.c). Moves of hosted ranks: those to other processes in `sends`, all others in
 * `receives`, each by target, source and place. False: no memory. */
bool weft_exchange_lower_moves(weft_exchange *exchange, const weft_vec *sends, const weft_vec *receives);

#endif
