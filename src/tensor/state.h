/* What src/tensor keeps between calls. */
#ifndef WEFT_SRC_TENSOR_STATE_H
#define WEFT_SRC_TENSOR_STATE_H

#include <stdalign.h>

#include "base/map.h"
#include "tensor/exchange.h"
#include "tensor/tensor.h"

/* A redistribution that was done before: its plan and this process's part of each stage. */
typedef struct weft_cached_plan {
    weft_plan plan;
    weft_access_map access_map; /* of its only stage; cut: NULL, there are none */
    weft_exchange *exchanges[WEFT_MAX_STAGES];
    size_t bytes; /* of memory */
} weft_cached_plan;

/* A shard's panels, acquired. */
typedef struct weft_acquisition weft_acquisition;

/* What the program holds, and the handles that tasks wait for because of it (holds.c). */
typedef struct weft_acquired {
    weft_acquisition *newest;
    int count;
    weft_map unwritable, unreadable; /* who writes the handle waits; who reads it */
    bool tasks_wait;                    /* not the program alone has been noted in these */
    bool sends_wait;                    /* messages among them */
    bool all_wait;                      /* there was no memory to note what does */
} weft_acquired;

typedef struct weft_tensors {
    weft_tensor_impl *newest;
    weft_tensor_impl *spare; /* memory of tensors that are gone, which all have one size: used again */
    int num_spare;
    struct weft_room *rooms; /* that are not used */
    weft_vec references; /* weft_tensor_impl *: the scopes' references, outermost scope first */
    weft_vec scopes;     /* size_t: where each open scope begins in `references` */
    int64_t unopened;    /* scopes inside these for which there was no memory */
    weft_map plans; /* weft_cached_plan */
    size_t plan_bytes;     /* of all of them */
    size_t max_plan_bytes; /* a plan that would exceed that has all others dropped */
    weft_acquired held;
    weft_vec random_states; /* weft_named_state, the default one first */
    size_t random_in_use;   /* index of one */
} weft_tensors;

typedef struct weft_named_state {
    char *name; /* NULL: the default one */
    weft_random_state state;
} weft_named_state;

/* The cached plan, made when it is not there, valid until the next one is asked for; NULL with the error
 * kept. */
weft_cached_plan *weft_plan_obtain(const char *function, const weft_layout *from, const weft_layout *to);
/* Submits all stages from `source` into `target`, which has the plan's last layout. False with the error
 * kept. */
bool weft_plan_run(const char *function, const weft_cached_plan *cached, weft_tensor_impl *source,
                   weft_tensor_impl *target);
void weft_plans_free(weft_tensors *tensors);
/* Whether weft_tensor_to_layout() can do it; false with the error kept. */
bool weft_check_redistribution(const char *function, const weft_layout *from, const weft_layout *to);

/* The default state of random numbers; false: no memory. And the end of all. */
bool weft_random_start(weft_tensors *tensors, uint64_t seed);
void weft_random_stop(weft_tensors *tensors);

/* A tensor on the memory of the hosted shards, each row-major, or on a copy of it. NULL with the error kept. */
weft_tensor_impl *weft_tensor_import(const char *function, const weft_layout *layout, void *const locals[],
                                     bool copy);

/* ---- numbers from process to process (numbers.c) ------------------------------------------------------- */

/* Every process calls them, and they wait for no task of the program's. False with the error kept. BLOCKS: the `count`
 * numbers of every process, one process after another. */
bool weft_numbers_gather(const char *function, int count, const int64_t mine[], int64_t all[]);
/* BLOCKS, but on `process`: its numbers on all of them. */
bool weft_numbers_broadcast(const char *function, int process, int count, int64_t numbers[]);

/* Gives replicas the values of their first rank, in the memory that they have, also where addends are
 * replicated. For a tensor that is new. False with the error kept. */
bool weft_tensor_replicate_first(const char *function, weft_tensor_impl *tensor);

/* Memory for the time of one run of a task list, of undefined contents; kept and used again. */
typedef struct weft_room {
    struct weft_room *next;
    size_t bytes;
    alignas(16) char memory[];
} weft_room;

/* NULL: no memory. */
weft_room *weft_room_obtain(size_t bytes);
/* NULL: nothing. */
void weft_room_give_back(weft_room *room);

/* Drops one reference of any kind; deletes the tensor at the last. */
void weft_tensor_unreference(weft_tensor_impl *tensor);
/* Gives a new reference to the innermost scope, or to the caller where none is open. False: no memory. */
bool weft_scope_adopt(weft_tensor_impl *tensor);

/* A tensor whose shards are not filled in yet (no panels, no buffers), or NULL with the error kept; and its
 * end. */
weft_tensor_impl *weft_tensor_allocate(const char *function, const weft_layout *layout);
/* The same without data: it has no shards. */
weft_tensor_impl *weft_tensor_allocate_fake(const char *function, const weft_layout *layout);
bool weft_tensor_register(const char *function, weft_tensor_impl *tensor);
void weft_tensor_delete(weft_tensor_impl *tensor);
void weft_tensor_free_spare(weft_tensors *tensors);

/* ---- what is held (holds.c) ---------------------------------------------------------------------------- */

/* BLOCKS: acquires the shard's panels, and the reverse. The handles are remembered: the shard may get other
 * memory meanwhile. NULL: no memory. */
weft_acquisition *weft_acquisition_begin(const weft_local_shard *shard, enum starpu_data_access_mode mode);
void weft_acquisition_end(weft_acquisition *hold);
/* The same for the program (nothing when it is not held). False: no memory. */
bool weft_shard_hold(weft_tensor_impl *tensor, int local_rank, enum starpu_data_access_mode mode);
void weft_shard_let_go(weft_local_shard *shard);
/* Called for every task and transfer before it is submitted. `tasks`: what the transfer counts in
 * weft_pending. */
void weft_acquired_follow_task(int count, const starpu_data_handle_t handles[],
                               const enum starpu_data_access_mode modes[]);
void weft_acquired_follow_transfer(starpu_data_handle_t handle, bool receive, int64_t tasks);
/* Those of weft_pending. */
bool weft_acquired_waits(starpu_data_handle_t handle);
bool weft_acquired_refuse(const char *function, const char *why);
/* Whether reading or writing the shard waits for nothing that waits for the program; and whether nothing does
 * at all, so that none of the pool's buffers is waited for. False with the error kept: who waited all the
 * same would wait for ever. */
bool weft_check_shard_waits_not(const char *function, const weft_local_shard *shard, bool write);
bool weft_check_nothing_waits(const char *function);
/* Whether no message to another process waits for the program: who waits for what that process makes of it may wait for
 * ever. False with the error kept. */
bool weft_check_no_send_waits(const char *function);
/* BLOCKS: copies a hosted shard. Errors of tasks stay where they are; nothing is written in a world that is
 * broken. */
weft_status weft_shard_read(const char *function, const weft_tensor_impl *tensor, int local_rank, void *host);
/* BLOCKS: the whole of a tensor on every process; the same. Each process must call it. */
weft_status weft_tensor_gather(const char *function, weft_tensor_impl *tensor, void *global, size_t bytes);

/* How the shard's memory is cut into panels. The shard is not empty. */
weft_cut weft_shard_cut(const weft_layout *layout, const weft_local_shard *shard);
/* Gives a shard its buffer, taking over the reference. False when there is none: no memory. */
bool weft_shard_attach(weft_local_shard *shard, weft_buffer *buffer);
/* Whether views may share a shard's memory: not where it is the program's, which looks for the tensor's values there.
 * Such a view is a copy, and counted. */
bool weft_shard_may_be_viewed(const weft_local_shard *shard);
/* Gives a shard a view of `source` beginning `offset` bytes after its first element. False, and nothing
 * changed, when a panel would not lie inside one panel of the source, or for lack of memory. */
bool weft_shard_view(const weft_layout *layout, weft_local_shard *shard,
                     const weft_tensor_impl *source_tensor, const weft_local_shard *source, int64_t offset);

#endif
