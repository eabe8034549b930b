/* State of src/tensor between calls. */
#ifndef WEFT_SRC_TENSOR_STATE_H
#define WEFT_SRC_TENSOR_STATE_H

#include <stdalign.h>

#include "base/map.h"
#include "tensor/exchange.h"
#include "tensor/tensor.h"

/* A cached redistribution: its plan and this process's part of each stage. */
typedef struct weft_cached_plan {
    weft_lru_entry entry; /* its first field */
    weft_plan plan;
    weft_access_map access_map; /* of its only stage; cut NULL: none */
    uint64_t uses; /* how often it was run */
    weft_exchange *exchanges[WEFT_MAX_STAGES]; /* NULL: not kept, and made for each run */
} weft_cached_plan;

/* A shard's panels, acquired. */
typedef struct weft_acquisition weft_acquisition;

/* The acquired shards, and the handles of tasks that wait for their release (acquired.c). */
typedef struct weft_acquired {
    weft_acquisition *newest;
    int count;
    weft_map unwritable, unreadable; /* writing the handle waits; reading it does */
    bool tasks_wait;                    /* these contain handles of pending tasks too */
    bool sends_wait;                    /* and of sends */
    bool all_wait;                      /* an entry could not be added: no memory */
} weft_acquired;

typedef struct weft_tensors {
    weft_tensor_impl *newest;   /* of all, also those without a handle */
    weft_tensor_impl *promised; /* newest promised tensor */
    weft_tensor_impl *spare; /* deleted tensors of one size, for reuse */
    int num_spare;
    struct weft_room *rooms; /* free for reuse */
    weft_vec references; /* weft_tensor_impl *: references of all scopes, outermost first */
    weft_vec scopes;     /* size_t: where each open scope begins in `references` */
    int64_t unopened;    /* further open scopes, which got no memory */
    size_t scopes_below; /* open scopes that the program must not close now (weft_visit) */
    const weft_tensor_owner *owner; /* NULL: none */
    weft_map plans; /* weft_cached_plan */
    weft_acquired held;
    weft_vec random_states; /* weft_named_state, the default state first */
    size_t random_in_use;   /* index of the current state */
    int64_t sorts_from; /* for tests: vectors from this length on are sorted in parts; 0: from the usual one on (ops/sorted_lines.h) */
} weft_tensors;

typedef struct weft_named_state {
    char *name; /* NULL: the default state */
    weft_random_state state;
} weft_named_state;

/* ---- plans that are kept (plans.c) --------------------------------------------------------------------- */

/* The plan between two layouts, kept or new, until it is released; through an access map, or NULL. NULL with the error
 * kept. */
weft_cached_plan *weft_plan_obtain(const char *function, const weft_layout *from, const weft_layout *to,
                                   const weft_access_map *access_map);
/* NULL: nothing. */
void weft_plan_release(weft_cached_plan *plan);
/* Whether there is a plan. False with the error kept. */
bool weft_plan_check(const char *function, const weft_layout *from, const weft_layout *to);
/* Submits all stages from `source` into `target`, which has the plan's last layout. False with the error
 * kept. */
bool weft_plan_run(const char *function, weft_cached_plan *plan, weft_tensor_impl *source, weft_tensor_impl *target,
                   bool is_new);
/* Obtains the plan between the tensors' layouts and runs it. */
bool weft_plan_move(const char *function, const weft_access_map *access_map, weft_tensor_impl *source,
                    weft_tensor_impl *target);
void weft_plans_free(weft_tensors *tensors);
/* weft_meet_layout() for all layouts of cached plans. */
void weft_plans_meet_layouts(const weft_tensors *tensors);
/* Whether weft_tensor_to_layout() can redistribute so; false with the error kept. */
bool weft_check_redistribution(const char *function, const weft_layout *from, const weft_layout *to);

/* The default state of random numbers (false: no memory); the end of all states. */
bool weft_random_start(weft_tensors *tensors, uint64_t seed);
void weft_random_stop(weft_tensors *tensors);

/* Memory of undefined contents for one run of a task list; kept for reuse. */
typedef struct weft_room {
    struct weft_room *next;
    size_t bytes;
    alignas(16) char memory[];
} weft_room;

/* NULL: no memory. */
weft_room *weft_room_obtain(size_t bytes);
/* May be NULL. */
void weft_room_give_back(weft_room *room);

/* Drops one reference of any kind; the last one deletes the tensor. */
void weft_tensor_unreference(weft_tensor_impl *tensor);
/* Gives a new reference to the innermost scope, or to the caller if none is open. False: no memory. */
bool weft_scope_adopt(weft_tensor_impl *tensor);

/* A tensor with empty shards (no panels, no buffers), or NULL with the error kept; and its end. */
weft_tensor_impl *weft_tensor_allocate(const char *function, const weft_layout *layout);
/* A tensor without data: no shards. */
weft_tensor_impl *weft_tensor_allocate_fake(const char *function, const weft_layout *layout);
/* Gives a tensor without shards, or with empty ones, memory of its own, with undefined values; and takes it away: the tensor has no
 * data then. False with the error kept: no memory. */
bool weft_tensor_give_memory(const char *function, weft_tensor_impl *tensor);
void weft_tensor_drop_memory(weft_tensor_impl *tensor);
bool weft_tensor_register(const char *function, weft_tensor_impl *tensor);
void weft_tensor_delete(weft_tensor_impl *tensor);
void weft_tensor_free_spare(weft_tensors *tensors);

/* ---- what is held (acquired.c) ---------------------------------------------------------------------------- */

/* BLOCKS: acquires the shard's panels; and releases them. The handles are remembered, because the shard
 * may get other memory meanwhile. NULL: no memory. */
weft_acquisition *weft_acquisition_begin(const weft_local_shard *shard, enum starpu_data_access_mode mode);
void weft_acquisition_end(weft_acquisition *hold);
/* The same for the program; release does nothing if not acquired. False: no memory. */
bool weft_shard_hold(weft_tensor_impl *tensor, int local_rank, enum starpu_data_access_mode mode);
void weft_shard_let_go(weft_local_shard *shard);
/* To be called for every task and transfer before its submission. `tasks`: what the transfer adds to
 * weft_pending. */
void weft_acquired_follow_task(int count, const starpu_data_handle_t handles[],
                               const enum starpu_data_access_mode modes[]);
void weft_acquired_follow_transfer(starpu_data_handle_t handle, bool receive, int64_t tasks);
/* Whether writing the handle waits for the program. */
bool weft_acquired_waits(starpu_data_handle_t handle);
bool weft_acquired_refuse(const char *function, const char *why);
/* The shard of a hosted rank of a tensor with data. NULL with the error kept: there is none, or no value in it. */
weft_local_shard *weft_check_shard(const char *function, weft_tensor_impl *tensor, int local_rank);
/* False with the error kept if a wait would deadlock on the program's own acquired shards: a wait for
 * reading or writing the shard; and any wait at all, also for the pool's buffers. */
bool weft_check_shard_waits_not(const char *function, const weft_local_shard *shard, bool write);
bool weft_check_nothing_waits(const char *function);
/* False with the error kept if a send to another process waits for the program: waiting for results of
 * that process may then deadlock. */
bool weft_check_no_send_waits(const char *function);
/* BLOCKS: copies a hosted shard. Errors of tasks are not collected; nothing is written in a broken world. */
weft_status weft_shard_read(const char *function, const weft_tensor_impl *tensor, int local_rank, void *host);

/* Gives one shard memory of its own; `keep`: with its values (a copy task per panel). False with the error kept: no
 * memory. */
bool weft_shard_detach(const char *function, weft_tensor_impl *tensor, weft_local_shard *shard, bool keep);
/* The panels of the shard's memory. The shard is not empty. */
weft_cut weft_shard_cut(const weft_layout *layout, const weft_local_shard *shard);
/* Gives a shard its buffer and takes over the reference. False: the buffer is NULL (no memory). */
bool weft_shard_attach(weft_local_shard *shard, weft_buffer *buffer);
/* Gives a shard the whole memory of another one of the same layout; without an allocation if that is no view. False: no
 * memory. */
bool weft_shard_share(const weft_layout *layout, weft_local_shard *shard, const weft_tensor_impl *source,
                      const weft_local_shard *from);
/* Whether views may share a shard's memory: not if it is the program's, which reads the tensor's values
 * there. Such a view is a copy, and counted. */
bool weft_shard_may_be_viewed(const weft_local_shard *shard);
/* Gives a shard a view of `source` beginning `offset` bytes after its first element. False, and nothing
 * changed: a panel would not lie inside one panel of the source, or no memory. */
bool weft_shard_view(const weft_layout *layout, weft_local_shard *shard,
                     const weft_tensor_impl *source_tensor, const weft_local_shard *source, int64_t offset);

#endif
