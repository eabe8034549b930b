/* src/arrays: values from the program's memory into tensors and out of them. Import and export of shards, boxes and whole
 * tensors, DLPack, printing, and numbers that processes tell each other as tensors. */
#ifndef WEFT_SRC_ARRAYS_ARRAYS_H
#define WEFT_SRC_ARRAYS_ARRAYS_H

#include "call/interposer.h"
#include "tensor/state.h"

/* weft_runtime.arrays */
typedef struct weft_arrays {
    weft_vec box_plans; /* weft_box_plan * */
    uint64_t box_plan_uses;
    int fixed_boxes; /* depth of weft_fixed_boxes_begin() */
    weft_interposer ghosts; /* of ghosted tensors (ghosted.c) */
    bool sees_calls;        /* it is installed */
    uint64_t index_lists; /* made so far */
} weft_arrays;

/* A tensor on the memory of the hosted shards, each row-major, or on a copy of it. NULL with the error
 * kept. */
weft_tensor_impl *weft_tensor_import(const char *function, const weft_layout *layout, void *const locals[],
                                     bool copy);
/* Truth values from outside: bytes other than 0 become 1, and no others are written to. `memory`: `count` elements, which are
 * truth values if `dtype` is WEFT_BOOL. */
void weft_truths_normalize(weft_dtype dtype, void *memory, int64_t count);
/* Whether memory can hold elements of this size: complex numbers are aligned as their parts. */
bool weft_is_aligned(size_t element_size, const void *memory);
/* Whether there is nothing to do. */
bool weft_truths_are_normal(weft_dtype dtype, const void *memory, int64_t count);

/* ---- whole tensors (global.c) -------------------------------------------------------------------------- */

/* A call that blocks until tasks have read a tensor is refused while the program has acquired a shard they
 * wait for. False with the error kept. */
bool weft_check_not_acquired(const char *function, const char *argument, const weft_tensor_impl *tensor);
/* BLOCKS: copies the whole of a live tensor into `global`, which has room for `bytes` bytes, on every
 * process; writes all or nothing. */
weft_status weft_tensor_to_host(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes);
/* WEFT_ERR_INVALID unless the `bytes` bytes at `memory`, the argument of this name, suffice for `needed`.
 * False with the error kept. */
bool weft_check_room(const char *function, const char *name, const void *memory, size_t bytes, size_t needed);
/* BLOCKS: the whole of a tensor on every process. Collective. */
weft_status weft_tensor_gather(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes);

/* ---- numbers from process to process (numbers.c) ------------------------------------------------------- */

/* Exchanges `count` numbers of every process, ordered by process. Every process calls it; waits for no
 * task of the program. BLOCKS. False with the error kept. */
bool weft_numbers_gather(const char *function, int count, const int64_t mine[], int64_t all[]);
/* Broadcasts the numbers of `process`. BLOCKS on the other processes. False with the error kept. */
bool weft_numbers_broadcast(const char *function, int process, int count, int64_t numbers[]);

/* The first two numbers of a process that tells the others whether its arguments are right (a weft_status), and a hash of
 * those that must be the same everywhere. */
enum { WEFT_NUMBERS_STATUS, WEFT_NUMBERS_FINGERPRINT, WEFT_NUMBERS_OWN };
/* Whether all gathered statuses are WEFT_OK and all fingerprints equal: the same on every process. `right`: this process's
 * arguments are; else its error is kept already. False with the error kept. */
bool weft_numbers_agree(const char *function, int count, const int64_t all[], bool right);

/* ---- replicas (replicate.c) ---------------------------------------------------------------------------- */

/* Copies the first replica's values to the others, in place, also for replicated addends. For a new
 * tensor. False with the error kept. */
bool weft_tensor_replicate_first(const char *function, weft_tensor_impl *tensor);
/* The first replicas alone, on the memory of the tensor's: a tensor on a part of its mesh, in the innermost scope; the tensor
 * itself if nothing is replicated. NULL with the error kept. */
weft_tensor_impl *weft_tensor_first_replicas(const char *function, weft_tensor_impl *tensor);
/* The tensor on its own memory with its replicas as addends of a Partial, in the innermost scope: to combine what the ranks
 * have. Where it is Partial already, it is so by the same op. NULL with the error kept. */
weft_tensor_impl *weft_tensor_replicas_as_addends(const char *function, weft_tensor_impl *tensor, weft_reduce_op op);

/* ---- index lists (index_list.c) --------------------------------------------------------------------------- */

/* Frees those that are left; weft_meet_layout() for all of their layouts. */
void weft_index_lists_stop(void);
void weft_index_lists_meet_layouts(void);

/* ---- sparse matrices (sparse.c) -------------------------------------------------------------------------- */

/* Frees the structures that are left. */
void weft_sparse_stop(void);

/* ---- start and stop (boxes_agree.c) -------------------------------------------------------------------- */

weft_status weft_arrays_start(void);
void weft_arrays_stop(void);
/* weft_meet_layout() for all layouts of src/arrays. */
void weft_arrays_meet_layouts(void);

/* ---- ghosted tensors (ghosted.c) ----------------------------------------------------------------------- */

/* From here on calls are seen: for those on ghosted tensors. */
void weft_ghosted_see_calls(void);
/* Whether the address lies in the arrays of a ghosted tensor. */
bool weft_lies_in_array(const void *memory);

#endif
