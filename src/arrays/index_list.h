/* Index lists (<weft/index_list.h>): rows that ranks name, and the exchanges that bring them.
 *
 * The ranks along one mesh dimension, with equal coordinates in the others, are a LINE; an exchange is within lines. A PAIR is a
 * rank that holds rows, its HOLDER, and one of its line that names some of them, its NAMER: they are the same rank for a rank's
 * own rows. Both sides know the pair's rows, each once, ascending by their numbers in the holder's part. Gathering sends a
 * pair's rows to the namer, adding sends sums of the namer's rows to the holder.
 *
 * A side of a pair is PLAIN where its rows follow each other in its tensor: messages begin or end there. Else they pass through
 * a buffer, which a task fills from the tensor, or empties into it. */
#ifndef WEFT_SRC_ARRAYS_INDEX_LIST_H
#define WEFT_SRC_ARRAYS_INDEX_LIST_H

#include <weft/index_list.h>

#include "arrays/arrays.h"
#include "plan/named_rows.h"
#include "tensor/exchange.h"

/* With an end at this process. */
typedef struct weft_row_pair {
    int holder, namer; /* ranks */
    int64_t holder_part, namer_part;
    int64_t count;     /* rows, at least 1 */
    int64_t *rows;     /* as numbers of the whole dimension, in the order in which parts store them (layout/layout.h) */
    int64_t first_place; /* >= 0: the namer's side is plain, from this position of its list on */
    int64_t received;  /* a namer's side that is not plain, of another process's holder: first row in the buffer of received rows */
    int64_t summed;    /* a namer's side that is not plain: first row in the buffer of sums */
    int64_t indices;   /* holder hosted: where `rows` stand in the holder's indices */
} weft_row_pair;

static inline bool weft_pair_has_plain_holder(const weft_row_pair *pair)
{
    return pair->rows[pair->count - 1] - pair->rows[0] == pair->count - 1;
}

/* The rows that a hosted rank names, by position. Its shard of the tensor of indices has `places`, then `sums`, then the rows of the
 * pairs that it holds. */
typedef struct weft_rank_names {
    int64_t count;
    int64_t num_received, num_summed; /* rows of the two buffers */
    int64_t *places; /* a row of this process, as in weft_row_pair.rows; size + n: row n of the received ones; size + num_received: plain */
    int64_t *sums;   /* row in the buffer of sums; num_summed: plain */
} weft_rank_names;

typedef struct weft_lowered_list {
    bool adds;
    weft_exchange *exchange; /* of stage.from and stage.to */
} weft_lowered_list;

typedef struct weft_index_list_impl {
    uint64_t number; /* on all processes alike, and never another one's */
    const weft_mesh_impl *mesh;
    int mesh_dim;
    int64_t size, total;      /* of dimension 0 of what is gathered from; of all lists together */
    weft_placement held, named; /* how the mesh dimension cuts the two */
    weft_vec pairs;           /* weft_row_pair, by the namer's part, its rank, and the holder's part */
    weft_rank_names *names;   /* of each hosted rank */
    weft_tensor_impl *indices;
    weft_vec lowered;         /* weft_lowered_list, the newest last */
} weft_index_list_impl;

/* The list of a handle, or of a number; NULL with the error kept. */
weft_index_list_impl *weft_check_index_list(const char *function, const weft_index_list *list);
weft_index_list_impl *weft_index_list_numbered(const char *function, uint64_t number);
void weft_index_list_free(weft_index_list_impl *list);

/* Arguments of weft_index_list_create(). */
typedef struct weft_index_list_arguments {
    const char *function;
    int64_t size;
    const weft_mesh *mesh;
    const weft_placement *placements;
    const int64_t *counts;
    const int64_t *indices; /* one rank's after the other's */
    bool refused;           /* here, with the error kept: the other processes are told */
} weft_index_list_arguments;

/* How rows are cut, as a program says: one of the placements cuts dimension 0, the others replicate. The names are for messages. */
typedef struct weft_row_cut_arguments {
    const weft_mesh_impl *mesh;
    const weft_placement *placements;
    const char *name;
    int64_t size;
    const char *size_name;
} weft_row_cut_arguments;

/* Finds the mesh dimension that cuts, and how. False with the error kept. */
bool weft_check_row_cut(const char *function, const weft_row_cut_arguments *given, int *mesh_dim, weft_placement *cut);

/* Gathers a header of each process and `each` numbers of each rank: (*all)[process * stride], and (*ranks), by rank. mine[]: the header,
 * and numbers of weft_most_local_ranks() ranks; their sum is the stride. BLOCKS. The caller frees both. False with the error kept. */
bool weft_rank_numbers_gather(const char *function, int header, int each, const int64_t mine[], int64_t **all, int64_t **ranks);

/* Makes a list, and its handle: a call of all processes. BLOCKS. NULL with the error kept, the same status everywhere. */
weft_index_list *weft_index_list_new(const weft_index_list_arguments *arguments);
/* Its end; NULL: nothing. */
void weft_index_list_drop(weft_index_list *list);
/* Made by all processes together (index_list_make.c). BLOCKS. NULL with the error kept, the same status everywhere. */
weft_index_list_impl *weft_index_list_make(const weft_index_list_arguments *arguments);

/* ---- what ranks name (index_list_pairs.c) -------------------------------------------------------------------- */

/* The numbers that a namer tells a holder: how many rows; the first one's position if they are plain, else -1; and how many rows it names of
 * holders before. */
enum { WEFT_PAIR_COUNT, WEFT_PAIR_PLACE, WEFT_PAIR_BEGIN, WEFT_PAIR_NUMBERS };

static inline int weft_hosted_rank(int i)
{
    return weft_runtime.first_rank + i;
}

/* The place of a rank along the mesh dimension that cuts; the rank at a place of a rank's line. */
int64_t weft_part_of_rank(const weft_index_list_impl *list, int rank);
int weft_rank_along(const weft_index_list_impl *list, int rank, int64_t part);
/* Completes a list: what hosted ranks name (by hosted rank) and hold. held[]: by hosted rank and namer's part, WEFT_PAIR_NUMBERS;
 * requests[]: by hosted rank the named rows, numbered within its part, by namer's part. False with the error kept. */
bool weft_index_list_complete(const char *function, weft_index_list_impl *list, const weft_named_rows named[], const int64_t held[],
                              int64_t *const requests[]);
/* False, with the error kept. */
bool weft_index_list_fail_memory(const char *function);

/* ---- calls (index_list.c) -------------------------------------------------------------------------------------- */

/* Gathers rows of a tensor that lies as the list says, or adds rows to sums: a new tensor, owned by the innermost scope. NULL with the
 * error kept. */
weft_tensor_impl *weft_index_list_run(const char *function, weft_index_list_impl *list, bool adds, weft_tensor_impl *tensor);
/* The two layouts of a call on a tensor of this layout: that with the rows that ranks hold, and (`named`) that with the rows that they
 * name. NULL with the error kept. */
const weft_layout *weft_index_list_layout(const char *function, const weft_index_list_impl *list, bool adds, const weft_layout *given,
                                          bool named);

/* A tensor of index lists: each hosted rank's numbers in one panel, copied. NULL with the error kept. */
weft_tensor_impl *weft_indices_new(const char *function, const weft_layout *layout, const int64_t counts[], int64_t *const numbers[]);
void weft_indices_free(weft_tensor_impl *indices);

/* ---- task lists ---------------------------------------------------------------------------------------------- */

/* A task list under construction. */
typedef struct weft_list_lowering {
    const weft_index_list_impl *list;
    weft_exchange *exchange;
    const weft_layout *from, *to;
    bool adds;
    weft_dtype wide; /* of sums */
    weft_vec sends, receives; /* weft_row_piece: by pair; in the order of their numbers */
    weft_slot *buffers;       /* by hosted rank: of the rows that it receives; else no temporary */
    bool failed;
} weft_list_lowering;

/* Rows of a pair that are one message. */
typedef struct weft_row_piece {
    const weft_row_pair *pair;
    int64_t first, last;    /* rows of the pair */
    int source_rank, target_rank;
    int64_t source_part;
    int64_t source, target; /* panels; -1: a buffer */
    int64_t row_bytes;
    int peer;
    uint32_t tag;
} weft_row_piece;

/* Both ends of a pair's messages. */
typedef struct weft_pair_ends {
    int source, target;                 /* ranks */
    int64_t source_first, target_first; /* plain: the number of the pair's first row in the tensor; -1: its rows pass through a buffer */
    weft_dtype dtype;                   /* of what travels */
} weft_pair_ends;

weft_pair_ends weft_pair_ends_of(const weft_list_lowering *l, const weft_row_pair *pair);
/* Finds the pieces of all pairs between processes, numbered and counted. False: no memory. */
bool weft_list_collect(weft_list_lowering *l);
/* Adds a piece to the transfer that has begun; `origin`: byte in the operand of the pair's first row. */
void weft_list_add_message(weft_list_lowering *l, const weft_row_piece *piece, int64_t origin);
/* The pieces of a plain source, one transfer for each panel of it: sends[*next] and those after it of the same pair. */
void weft_list_add_sends(weft_list_lowering *l, size_t *next, weft_slot buffer, int64_t origin);
/* Begins a task list, and ends it. */
bool weft_list_begin(weft_list_lowering *l, const weft_index_list_impl *list, weft_exchange *exchange, bool adds);
bool weft_list_end(weft_list_lowering *l);

/* Elements of a row of a rank's shard. */
static inline int64_t weft_row_width(const weft_layout *layout, int rank)
{
    weft_box box;
    return weft_layout_shard_box(layout, rank, &box) ? weft_row_elements(layout->ndim, &box) : 0;
}

/* Build this process's list for a pair of layouts: gathering (index_list_lower.c) and adding (index_list_sums.c). False: no memory. */
bool weft_index_list_lower_gather(const weft_index_list_impl *list, weft_exchange *exchange);
bool weft_index_list_lower_sums(const weft_index_list_impl *list, weft_exchange *exchange);

#endif
