/* The buffer pool: a buffer is one allocation cut into panels, each a StarPU handle that stays registered. A
 * released buffer is reused at once, even while tasks on it are pending: StarPU orders a write after the
 * reads before it. */
#ifndef WEFT_SRC_RUNTIME_POOL_H
#define WEFT_SRC_RUNTIME_POOL_H

#include <starpu.h>

#include "base/base.h"

typedef struct weft_pool weft_pool;

/* How `total` bytes (> 0) are cut: panel 0 has `first` bytes, the others `step`, the last one what is left.
 */
typedef struct weft_cut {
    int64_t total, first, step;
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
    weft_panel *panels; /* offsets are 0 */
    int references;
    bool borrowed;            /* the program's memory: used in place, never freed */
    bool pooled;              /* kept for reuse when released; else deleted as soon as no task uses it */
    int sends;                /* of its panels, since it was renewed */
    int retiring;             /* panels that tasks may still use, once nobody can reach the buffer */
    struct weft_buffer *next; /* in a free list, or in the list of those that can be deleted */
    struct weft_buffer *newer, *older;       /* free buffers by age */
    struct weft_buffer *all_next, *all_prev; /* every buffer of the pool */
    struct weft_pool *pool;
} weft_buffer;

/* `max_bytes`: of memory that nobody has a reference to: values, StarPU's handles, and our own. Three
 * quarters of it are kept for reuse, and the oldest go first; the rest is for what is on its way back to the
 * system, as soon as its tasks have ended (64 MiB of that at least). */
weft_pool *weft_pool_new(int64_t max_bytes);
/* All tasks must have ended. Buffers still referenced are deleted too. */
void weft_pool_delete(weft_pool *pool);

/* A buffer with one reference; its contents are undefined, and tasks may still use it. NULL: no memory. */
weft_buffer *weft_buffer_new(weft_pool *pool, weft_cut cut);
/* The same with a copy of `memory` in it (NULL: of undefined contents): new memory, so that nothing has to be
 * waited for. */
weft_buffer *weft_buffer_copy(weft_pool *pool, weft_cut cut, const void *memory);
/* The same on the program's memory. */
weft_buffer *weft_buffer_borrow(weft_pool *pool, weft_cut cut, void *memory);
void weft_buffer_retain(weft_buffer *buffer);
/* Never blocks. */
void weft_buffer_release(weft_buffer *buffer);
/* StarPU remembers who has read a handle until something writes to it. A StarPU with FxT keeps 32 bytes for
 * each task; any keeps 2 KB for each acquisition while others overlap with it, so for each send of a panel of
 * which another send is always under way. Weights that are only ever read would take more and more. So panels
 * are renewed now and then: acquired for writing, without waiting. Not while the program holds shards: others
 * would come to wait for them. */
void weft_pool_renew_when_due(weft_pool *pool);
void weft_buffer_renew_when_due(weft_buffer *buffer);
/* Of values, without handles, in memory of the pool's that somebody has a reference to. For tests. */
int64_t weft_pool_bytes_in_use(const weft_pool *pool);
/* Before a call submits anything. BLOCKS while too much of what is on its way back waits for its tasks, until
 * half of it has gone. False with the error kept (WEFT_ERR_STATE): too much of it waits for the program. */
bool weft_pool_admit(weft_pool *pool, const char *function);
/* Deletes what has become unused; called now and then by the submitting thread. */
void weft_pool_collect(weft_pool *pool);

static inline int64_t weft_cut_start(const weft_cut *cut, int panel)
{
    return panel == 0 ? 0 : cut->first + (panel - 1) * cut->step;
}

static inline int64_t weft_cut_end(const weft_cut *cut, int panel)
{
    return weft_min_i64(cut->total, cut->first + panel * cut->step);
}

#endif
