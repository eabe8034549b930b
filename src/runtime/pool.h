/* The buffer pool. A buffer is one allocation cut into panels, each a StarPU handle that stays registered.
 * A released buffer is reused at once, even while tasks on it are pending: StarPU orders a write after the
 * reads before it. */
#ifndef WEFT_SRC_RUNTIME_POOL_H
#define WEFT_SRC_RUNTIME_POOL_H

#include <starpu.h>

#include "base/base.h"

typedef struct weft_pool weft_pool;

/* How `total` bytes (> 0) are cut: panel 0 has `first` bytes, panel 1 `second` if that is not 0; the others have `step`, the last one
 * of these the rest; then follow panels of trailing[0] and trailing[1] bytes, where these are not 0, which are of the total. */
typedef struct weft_cut {
    int64_t total, first, step, second, trailing[2];
} weft_cut;

/* Contiguous rows behind one StarPU handle. */
typedef struct weft_panel {
    starpu_data_handle_t handle;
    int64_t offset; /* bytes from the handle's start to the panel's first row */
} weft_panel;

typedef struct weft_buffer {
    void *memory;
    weft_cut cut;
    int num_panels;
    weft_panel *panels; /* with offset 0 */
    int references;
    bool borrowed;            /* the program's memory: used in place, never freed */
    void *lent;               /* borrowed memory of a device; `memory` is then its home. NULL: it is main memory */
    int lent_node;            /* the device's memory node */
    bool read_only;           /* borrowed memory that must not be written to */
    bool ordered;             /* its uses come after all earlier ones of borrowed memory with bytes in common */
    uint64_t number;          /* larger than those of older buffers */
    uint64_t newest_at_end;   /* the newest buffer's number when its last reference was released */
    bool pooled;              /* released: kept for reuse; else deleted after its last task */
    void (*give_back)(void *owner); /* the deleter of borrowed memory, called with the buffer's end; may be NULL */
    void *owner;
    struct weft_home *home;   /* of memory; NULL: it is not one */
    struct weft_lease *lease; /* its uses by code outside of the library; NULL: none */
    int sends;                /* sends of its panels since the last renewal */
    int retiring;             /* panels that tasks may still use; of a buffer without references */
    struct weft_buffer *next; /* in a free list, or in the list of buffers to be deleted */
    struct weft_buffer *newer, *older;       /* free buffers by age */
    struct weft_buffer *all_next, *all_prev; /* every buffer of the pool */
    struct weft_pool *pool;
} weft_buffer;

/* `max_bytes`: limit of memory without references: values, StarPU's handles, and our own. Three quarters
 * are for reuse, oldest deleted first; the rest is for retired buffers, which are deleted after their last
 * task (64 MiB at least). */
weft_pool *weft_pool_new(int64_t max_bytes);
/* All tasks must have ended. Buffers still referenced are deleted too. */
void weft_pool_delete(weft_pool *pool);

/* A buffer with one reference and undefined contents; earlier tasks may still use it. NULL: no memory. */
weft_buffer *weft_buffer_new(weft_pool *pool, weft_cut cut);
/* Which free buffer is used again. A task that writes to it waits for the last tasks that read it, which may run late.
 * WEFT_REUSE_LATER: the newest ones are left, if there are others: as many buffers are needed in all, but fewer of them are in caches.
 * WEFT_REUSE_OLD: also if a new one must be allocated. Returns what was said before. */
typedef enum weft_reuse { WEFT_REUSE_NEWEST = 0, WEFT_REUSE_LATER, WEFT_REUSE_OLD } weft_reuse;
weft_reuse weft_pool_set_reuse(weft_pool *pool, weft_reuse reuse);
/* One of the free buffers of a cut, from the newest on (reuse.c). NULL: none of them. */
weft_buffer *weft_reuse_choose(weft_reuse reuse, weft_buffer *newest);
/* A new allocation, which no task uses, with a copy of `memory` (NULL: undefined contents). */
weft_buffer *weft_buffer_copy(weft_pool *pool, weft_cut cut, const void *memory);
/* A buffer on the program's memory, in this memory node: STARPU_MAIN_RAM, or that of a device. */
weft_buffer *weft_buffer_borrow(weft_pool *pool, weft_cut cut, void *memory, int node);
/* The first in the list of all buffers (all_next), in which newer ones come first. NULL: there is none. */
const weft_buffer *weft_pool_newest(const weft_pool *pool);
/* Has visit() order the uses of `count` added buffers after those of others on the program's memory: it is called for each pair that
 * shares bytes. Released buffers that tasks may still use are among the others, unless all bytes that they share belong to newer
 * ones, which come after them already. The added buffers are in order of memory, and share no bytes. False as soon as visit()
 * returns it. (order.c) */
bool weft_buffers_order(const weft_pool *pool, int64_t count, weft_buffer *const added[],
                                   bool (*visit)(void *context, const weft_buffer *added, const weft_buffer *other),
                                   void *context);
void weft_buffer_retain(weft_buffer *buffer);
/* Whether a tensor has to leave the buffer before it is written to. */
static inline bool weft_buffer_is_shared(const weft_buffer *buffer)
{
    return buffer->references > 1 || buffer->read_only;
}
/* Never blocks. */
void weft_buffer_release(weft_buffer *buffer);
/* Renews panels: acquires them for writing, without waiting. StarPU remembers the readers of a handle
 * until the next write: 32 bytes per task with FxT, and in any case 2 KB for each acquisition that
 * overlaps with another, so for each send of a panel that is always being sent. Weights that are only read
 * would take ever more memory. Does nothing while the program has acquired shards: other panels would come
 * to wait for them. */
void weft_pool_renew_when_due(weft_pool *pool);
void weft_buffer_renew_when_due(weft_buffer *buffer);
/* Until released buffers on the program's memory have their last values there. Nothing may be acquired. */
void weft_pool_wait_for_borrowed(weft_pool *pool);
/* Deletes all free buffers after their last tasks: for a program that goes over to tensors of other sizes. */
void weft_pool_trim(weft_pool *pool);
/* Bytes of values in referenced buffers of the pool's own memory; the most of them is weft_counters.tensor_bytes_peak. */
int64_t weft_pool_bytes_in_use(const weft_pool *pool);
/* The most of these since the last call, and the most bytes of values in all buffers of its own memory. For tests. */
void weft_pool_peak(weft_pool *pool, int64_t *used, int64_t *own);
/* The most bytes of values in referenced buffers since the last weft_pool_mark(). */
void weft_pool_mark(weft_pool *pool);
int64_t weft_pool_marked_peak(const weft_pool *pool);
/* To be called before the first submission of a call. BLOCKS while too much retired memory waits for its
 * tasks, until half has been freed. False with the error kept (WEFT_ERR_STATE): too much of it waits for
 * the program. */
bool weft_pool_admit(weft_pool *pool, const char *function);
/* Deletes unused buffers, and gives borrowed memory back; to be called now and then by the submitting thread. */
void weft_pool_collect(weft_pool *pool);

static inline int64_t weft_cut_start(const weft_cut *cut, int panel)
{
    const int leading = 1 + (cut->second > 0);
    const int64_t begin = cut->first + cut->second, end = cut->total - cut->trailing[0] - cut->trailing[1];
    if (panel < leading) {
        return panel == 0 ? 0 : cut->first;
    }
    const int64_t steps = weft_ceil_div(end - begin, cut->step), number = panel - leading;
    return number < steps ? begin + number * cut->step : number == steps ? end : number == steps + 1 ? end + cut->trailing[0] : cut->total;
}

static inline int64_t weft_cut_end(const weft_cut *cut, int panel)
{
    return weft_cut_start(cut, panel + 1);
}

/* Number of panels. */
static inline int64_t weft_cut_count(const weft_cut *cut)
{
    const int64_t rest = cut->total - cut->first - cut->second - cut->trailing[0] - cut->trailing[1];
    return 1 + (cut->second > 0) + weft_ceil_div(rest, cut->step) + (cut->trailing[0] > 0) + (cut->trailing[1] > 0);
}

#endif
