#include "runtime/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "runtime/home.h"
#include "runtime/lease.h"
#include "runtime/pending.h"
#include "runtime/runtime.h"
#include "runtime/spare.h"
#include "runtime/thread.h"

/* Bytes of a handle in StarPU: two pointers for each pair of memory nodes, and its description. Measured
 * with 8 nodes (StarPU 1.4.10): 2512 when registered, 2551 after use. */
enum { HANDLE_BYTES = 16 * STARPU_MAXNODES * STARPU_MAXNODES + 128 * STARPU_MAXNODES + 512 };

/* Least limit of retired bytes (memory whose tasks have not ended), also with a small pool: else a program
 * would wait in each call. */
enum { FEWEST_RETIRED_BYTES = 64 << 20 };

/* Renewal of panels, which empties StarPU's lists of readers: at least so many tasks between two, and so
 * many for each panel, so that its cost is small. */
enum { TASKS_PER_RENEWAL = 1 << 17, TASKS_PER_RENEWED_PANEL = 16 };

/* Free buffers that are kept: so many bytes at least, and so many times the most that was in use at one time. */
enum { LEAST_KEPT_BYTES = 256 << 20, SETS_KEPT = 16 };

struct weft_pool {
    weft_reuse reuse;
    weft_homes *homes;                  /* of all memory of its own; NULL: no devices compute */
    weft_spares spares;                 /* without devices */
    weft_map free_lists;                /* by cut: the newest free buffer, linked to the others */
    weft_buffer *newest, *oldest;       /* free buffers by time of release */
    int64_t free_bytes, max_free_bytes; /* of free buffers */
    int64_t used_bytes, most_used_bytes; /* of values in referenced buffers: now, and at most since weft_pool_peak() */
    int64_t marked_peak;                 /* of used_bytes since weft_pool_mark() */
    int64_t largest_use;                 /* of used_bytes, ever */
    int64_t own_bytes, most_own_bytes;   /* of values in all buffers */
    /* Retired buffers that are not deleted yet. */
    int64_t retired_bytes, max_retired_bytes;
    weft_buffer *all;
    uint64_t buffers;   /* that were ever made */
    int64_t num_panels; /* of all buffers */
    uint64_t renewal;   /* number of submitted tasks at which the next renewal is due */
    pthread_mutex_t mutex; /* of the members below and weft_buffer.retiring, which StarPU's callbacks write */
    pthread_cond_t idle;   /* `retiring` or `returning` is 0 */
    pthread_cond_t fewer;  /* unused_bytes >= wanted_bytes */
    weft_buffer *unused;   /* without references and tasks: to be deleted */
    int64_t unused_bytes;
    int64_t wanted_bytes; /* awaited by the submitting thread; INT64_MAX: it does not wait */
    int retiring;         /* panels whose tasks have not ended */
    int returning;        /* those of them that are the program's memory */
};

weft_pool *weft_pool_new(int64_t max_bytes)
{
    weft_pool *pool = calloc(1, sizeof(*pool));
    int made = pool == NULL || pthread_mutex_init(&pool->mutex, NULL) != 0 ? 0
               : pthread_cond_init(&pool->idle, NULL) != 0                 ? 1
               : pthread_cond_init(&pool->fewer, NULL) != 0                ? 2
                                                                           : 3;
    if (made < 3) {
        if (made > 1) {
            pthread_cond_destroy(&pool->idle);
        }
        if (made > 0) {
            pthread_mutex_destroy(&pool->mutex);
        }
        free(pool);
        return NULL;
    }
    pool->homes = weft_runtime.cuda_queues == NULL ? NULL : weft_homes_new();
    if (weft_runtime.cuda_queues != NULL && pool->homes == NULL) {
        weft_pool_delete(pool);
        return NULL;
    }
    pool->max_free_bytes = max_bytes - max_bytes / 4;
    pool->max_retired_bytes = weft_max_i64(max_bytes / 4, FEWEST_RETIRED_BYTES);
    pool->wanted_bytes = INT64_MAX;
    pool->renewal = TASKS_PER_RENEWAL;
    return pool;
}

/* All memory that a buffer takes in the process. */
static int64_t footprint(const weft_buffer *buffer)
{
    int64_t panel = HANDLE_BYTES + (int64_t)sizeof(weft_panel);
    return (buffer->borrowed ? 0 : buffer->cut.total) + buffer->num_panels * panel + (int64_t)sizeof(*buffer);
}

static bool same_cut(const weft_cut *a, const weft_cut *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Where no devices compute, memory is aligned (weft_runtime_start()), and placed, by StarPU. */
static bool memory_allocate(weft_buffer *buffer)
{
    int64_t bytes = buffer->cut.total;
    if (buffer->pool->homes != NULL) {
        buffer->home = weft_home_new(buffer->pool->homes, bytes);
        buffer->memory = buffer->home == NULL ? NULL : weft_home_memory(buffer->home);
    } else {
        buffer->memory = weft_spare_allocate(&buffer->pool->spares, bytes);
    }
    if (buffer->memory != NULL) {
        weft_use_huge_pages(buffer->memory, bytes);
    }
    return buffer->memory != NULL;
}

/* Kept for reuse: sets of sizes that a program may go through in turn. A loop over ever new sizes would fill the whole limit. */
static int64_t kept_bytes(const weft_pool *pool)
{
    return weft_min_i64(pool->max_free_bytes, weft_max_i64(LEAST_KEPT_BYTES, SETS_KEPT * pool->largest_use));
}

/* Cancelled messages may read and write their memory until the process ends, so a broken world frees none. Nor is memory freed that
 * a lease keeps (`leased`). */
static void memory_free(weft_buffer *buffer, bool leased)
{
    bool stays = leased || weft_is_broken();
    if (buffer->home != NULL) {
        weft_home_give_back(buffer->pool->homes, buffer->home, stays);
    } else if (!stays) {
        weft_spare_free(&buffer->pool->spares, buffer->memory, buffer->cut.total, kept_bytes(buffer->pool) / 4);
    }
}

/* A buffer of the pool's own memory gets its first reference, or has given up its last one. */
static void count_used(weft_pool *pool, const weft_buffer *buffer, int change)
{
    pool->used_bytes += buffer->borrowed ? 0 : change * buffer->cut.total;
    pool->most_used_bytes = weft_max_i64(pool->most_used_bytes, pool->used_bytes);
    pool->marked_peak = weft_max_i64(pool->marked_peak, pool->used_bytes);
    pool->largest_use = weft_max_i64(pool->largest_use, pool->used_bytes);
    weft_counters *counters = &weft_runtime.counters;
    counters->tensor_bytes_peak = (uint64_t)weft_max_i64((int64_t)counters->tensor_bytes_peak, pool->used_bytes);
}

/* Whether memory of the pool's own comes from the C library: StarPU pins it where there are devices, and places it where it
 * tells memory nodes of the host apart. */
static bool is_plain_memory(void)
{
    return starpu_worker_get_count() == starpu_cpu_worker_get_count() && starpu_memory_nodes_get_numa_count() <= 1;
}

static void buffer_delete(weft_buffer *buffer)
{
    void (*function)(void *owner) = buffer->give_back; /* called last: it finds the pool complete */
    void *owner = buffer->owner;
    *(buffer->all_prev ? &buffer->all_prev->all_next : &buffer->pool->all) = buffer->all_next;
    if (buffer->all_next != NULL) {
        buffer->all_next->all_prev = buffer->all_prev;
    }
    weft_lease_let_go(buffer->lease);
    for (int i = 0; i < buffer->num_panels; i++) {
        starpu_data_unregister_no_coherency(buffer->panels[i].handle);
    }
    buffer->pool->num_panels -= buffer->num_panels;
    if (buffer->lent != NULL) {
        weft_home_give_back(buffer->pool->homes, buffer->home, weft_is_broken());
    } else if (!buffer->borrowed) {
        memory_free(buffer, buffer->lease != NULL && weft_lease_outlives(buffer->lease, is_plain_memory() && !weft_is_broken()));
        buffer->pool->own_bytes -= buffer->cut.total;
    }
    free(buffer->panels);
    free(buffer);
    if (function != NULL && !weft_is_broken()) {
        weft_thread_call_barred(function, owner);
    }
}

void weft_pool_delete(weft_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    weft_end_pause();
    pthread_mutex_lock(&pool->mutex);
    while (pool->retiring > 0) {
        pthread_cond_wait(&pool->idle, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    while (pool->all != NULL) {
        buffer_delete(pool->all);
    }
    weft_homes_delete(pool->homes);
    weft_spares_clear(&pool->spares);
    weft_map_free(&pool->free_lists);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->fewer);
    free(pool);
}

static void register_panels(weft_buffer *buffer)
{
    const weft_cut *cut = &buffer->cut;
    for (int i = 0; i < buffer->num_panels; i++) {
        int64_t start = weft_cut_start(cut, i), bytes = weft_cut_end(cut, i) - start;
        starpu_data_handle_t *handle = &buffer->panels[i].handle;
        if (buffer->home != NULL) {
            *handle = weft_home_register(buffer->home, start, bytes);
        } else {
            starpu_variable_data_register(handle, STARPU_MAIN_RAM, (uintptr_t)buffer->memory + (size_t)start, (size_t)bytes);
        }
        if (buffer->lent != NULL) {
            weft_home_lend(*handle, buffer->lent_node, (char *)buffer->lent + start);
        }
    }
}

/* `node`: STARPU_MAIN_RAM, or the one of a device, whose memory is borrowed. */
static weft_buffer *buffer_create(weft_pool *pool, weft_cut cut, void *borrowed, int node)
{
    weft_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL) {
        return NULL;
    }
    const bool on_device = node != STARPU_MAIN_RAM;
    int64_t panels = weft_cut_count(&cut);
    buffer->pool = pool;
    buffer->cut = cut;
    buffer->num_panels = (int)panels;
    buffer->references = 1;
    buffer->borrowed = borrowed != NULL;
    buffer->pooled = borrowed == NULL;
    buffer->memory = on_device ? NULL : borrowed;
    buffer->lent = on_device ? borrowed : NULL;
    buffer->lent_node = node;
    buffer->panels = calloc((size_t)panels, sizeof(*buffer->panels));
    if (buffer->panels == NULL || (buffer->memory == NULL && !memory_allocate(buffer))) {
        free(buffer->panels);
        free(buffer);
        return NULL;
    }
    buffer->number = ++pool->buffers;
    buffer->all_next = pool->all;
    if (pool->all != NULL) {
        pool->all->all_prev = buffer;
    }
    pool->all = buffer;
    register_panels(buffer);
    pool->num_panels += panels;
    pool->own_bytes += buffer->borrowed ? 0 : cut.total;
    pool->most_own_bytes = weft_max_i64(pool->most_own_bytes, pool->own_bytes);
    count_used(pool, buffer, 1);
    weft_runtime.counters.buffers_created++;
    return buffer;
}

static uint64_t hash_cut(const weft_cut *cut)
{
    return weft_hash_bytes(cut, sizeof(*cut), 0);
}

/* The newest free buffer of a cut; NULL: none. */
static weft_map_slot *free_list_of(const weft_pool *pool, const weft_cut *cut, uint64_t hash)
{
    weft_map_slot *slot = weft_map_first(&pool->free_lists, hash);
    while (slot != NULL && !same_cut(&((const weft_buffer *)slot->value)->cut, cut)) {
        slot = weft_map_next(&pool->free_lists, slot);
    }
    return slot;
}

static void free_list_remove(weft_pool *pool, weft_map_slot *slot, weft_buffer *buffer)
{
    weft_buffer *first = slot->value;
    if (first == buffer && buffer->next == NULL) {
        weft_map_remove(&pool->free_lists, slot);
    } else if (first == buffer) {
        slot->value = buffer->next;
    } else {
        while (first->next != buffer) {
            first = first->next;
        }
        first->next = buffer->next;
    }
    *(buffer->newer ? &buffer->newer->older : &pool->newest) = buffer->older;
    *(buffer->older ? &buffer->older->newer : &pool->oldest) = buffer->newer;
    buffer->next = buffer->newer = buffer->older = NULL;
    pool->free_bytes -= footprint(buffer);
}

/* False: no memory. */
static bool free_list_add(weft_pool *pool, weft_buffer *buffer)
{
    uint64_t hash = hash_cut(&buffer->cut);
    weft_map_slot *slot = free_list_of(pool, &buffer->cut, hash);
    if (slot == NULL && !weft_map_add(&pool->free_lists, hash, buffer)) {
        return false;
    }
    buffer->next = slot == NULL ? NULL : slot->value;
    if (slot != NULL) {
        slot->value = buffer;
    }
    buffer->newer = NULL;
    buffer->older = pool->newest;
    *(pool->newest ? &pool->newest->newer : &pool->oldest) = buffer;
    pool->newest = buffer;
    pool->free_bytes += footprint(buffer);
    return true;
}

weft_reuse weft_pool_set_reuse(weft_pool *pool, weft_reuse reuse)
{
    const weft_reuse before = pool->reuse;
    pool->reuse = reuse;
    return before;
}

static void retire_free(weft_pool *pool, int64_t left);

weft_buffer *weft_buffer_new(weft_pool *pool, weft_cut cut)
{
    weft_map_slot *slot = free_list_of(pool, &cut, hash_cut(&cut));
    weft_buffer *buffer = slot == NULL ? NULL : weft_reuse_choose(pool->reuse, slot->value);
    if (buffer != NULL) {
        free_list_remove(pool, slot, buffer);
        buffer->references = 1;
        count_used(pool, buffer, 1);
        weft_runtime.counters.buffers_reused++;
        return buffer;
    }
    retire_free(pool, weft_max_i64(0, kept_bytes(pool) - cut.total)); /* their memory may be the new buffer's */
    weft_pool_collect(pool);
    return buffer_create(pool, cut, NULL, STARPU_MAIN_RAM);
}

weft_buffer *weft_buffer_copy(weft_pool *pool, weft_cut cut, const void *memory)
{
    weft_pool_collect(pool);
    weft_buffer *buffer = buffer_create(pool, cut, NULL, STARPU_MAIN_RAM);
    if (buffer != NULL) {
        buffer->pooled = false;
        if (memory != NULL) {
            memcpy(buffer->memory, memory, (size_t)cut.total);
        }
    }
    return buffer;
}

weft_buffer *weft_buffer_borrow(weft_pool *pool, weft_cut cut, void *memory, int node)
{
    weft_pool_collect(pool);
    return buffer_create(pool, cut, memory, node);
}

const weft_buffer *weft_pool_newest(const weft_pool *pool)
{
    return pool->all;
}

void weft_buffer_retain(weft_buffer *buffer)
{
    buffer->references++;
}

/* One panel of a retired buffer. */
typedef struct retirement {
    weft_buffer *buffer;
    starpu_data_handle_t handle;
} retirement;

/* The program finds the last values in its memory; those of other buffers are lost where they are. */
static int node_to_end_in(const weft_buffer *buffer)
{
    return !buffer->borrowed ? STARPU_ACQUIRE_NO_NODE : buffer->lent_node;
}

/* StarPU's callback once the tasks on the panel have ended; any thread. */
static void panel_is_idle(void *argument)
{
    retirement *panel = argument;
    weft_buffer *buffer = panel->buffer;
    weft_pool *pool = buffer->pool;
    starpu_data_release_on_node(panel->handle, node_to_end_in(buffer));
    free(panel);
    pthread_mutex_lock(&pool->mutex);
    pool->returning -= buffer->borrowed;
    if (--buffer->retiring == 0) {
        buffer->next = pool->unused;
        pool->unused = buffer;
        pool->unused_bytes += footprint(buffer);
        if (pool->unused_bytes >= pool->wanted_bytes) {
            pthread_cond_signal(&pool->fewer);
        }
    }
    if (--pool->retiring == 0 || (buffer->borrowed && pool->returning == 0)) {
        pthread_cond_broadcast(&pool->idle);
    }
    pthread_mutex_unlock(&pool->mutex);
}

static bool waits_for_program(const weft_buffer *buffer)
{
    const weft_pending *pending = weft_runtime.pending;
    bool waits = false;
    for (int i = 0; i < buffer->num_panels && pending->held && !waits; i++) {
        waits = pending->waits(buffer->panels[i].handle);
    }
    return waits;
}

/* Has the buffer deleted after its last task, without blocking as unregistering a handle would. Without
 * memory it stays until weft_pool_delete(). */
static void retire(weft_buffer *buffer)
{
    weft_pool *pool = buffer->pool;
    bool lost = false;
    if (waits_for_program(buffer)) {
        weft_runtime.pending->bytes_for_program += footprint(buffer);
    }
    pthread_mutex_lock(&pool->mutex);
    buffer->retiring = buffer->num_panels;
    pool->retiring += buffer->num_panels;
    pool->returning += buffer->borrowed ? buffer->num_panels : 0;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < buffer->num_panels; i++) {
        retirement *panel = malloc(sizeof(*panel));
        if (panel == NULL) {
            pthread_mutex_lock(&pool->mutex);
            pool->retiring--;
            pool->returning -= buffer->borrowed;
            pthread_mutex_unlock(&pool->mutex);
            lost = true;
            continue;
        }
        *panel = (retirement){ buffer, buffer->panels[i].handle };
        starpu_data_acquire_on_node_cb(panel->handle, node_to_end_in(buffer), STARPU_RW, panel_is_idle, panel);
    }
    pool->retired_bytes += lost ? 0 : footprint(buffer); /* added before anything is collected */
}

/* Retires the oldest free buffers until so many bytes are left. */
static void retire_free(weft_pool *pool, int64_t left)
{
    while (pool->free_bytes > left && pool->oldest != NULL) {
        weft_buffer *oldest = pool->oldest;
        free_list_remove(pool, free_list_of(pool, &oldest->cut, hash_cut(&oldest->cut)), oldest);
        retire(oldest);
    }
}

void weft_buffer_release(weft_buffer *buffer)
{
    if (buffer == NULL || --buffer->references > 0) {
        return;
    }
    weft_pool *pool = buffer->pool;
    buffer->newest_at_end = pool->buffers;
    count_used(pool, buffer, -1);
    if (!buffer->pooled || !free_list_add(pool, buffer)) {
        retire(buffer);
        return;
    }
    retire_free(pool, pool->max_free_bytes - pool->spares.bytes);
}

void weft_pool_wait_for_borrowed(weft_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    weft_end_pause();
    pthread_mutex_lock(&pool->mutex);
    while (pool->returning > 0) {
        pthread_cond_wait(&pool->idle, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void weft_pool_trim(weft_pool *pool)
{
    retire_free(pool, 0);
    weft_pool_collect(pool);
    weft_spares_clear(&pool->spares);
    pool->largest_use = pool->used_bytes;
}

/* Waits until at most `left` retired bytes are left. */
static void wait_for_retired(weft_pool *pool, int64_t left)
{
    weft_end_pause();
    pthread_mutex_lock(&pool->mutex);
    pool->wanted_bytes = pool->retired_bytes - left;
    while (pool->unused_bytes < pool->wanted_bytes) {
        pthread_cond_wait(&pool->fewer, &pool->mutex);
    }
    pool->wanted_bytes = INT64_MAX;
    pthread_mutex_unlock(&pool->mutex);
    weft_pool_collect(pool);
}

bool weft_pool_admit(weft_pool *pool, const char *function)
{
    int64_t most = pool->max_retired_bytes;
    if (pool->retired_bytes > most) {
        weft_pool_collect(pool);
    }
    if (pool->retired_bytes <= most) {
        return true;
    }
    const weft_pending *pending = weft_runtime.pending;
    int64_t stays = pending->held ? pending->bytes_for_program : 0;
    if (stays >= most) {
        char why[160];
        snprintf(why, sizeof(why),
                 "%lld bytes of released tensors wait for weft_local_release(), more than a quarter of what "
                 "may be kept (WEFT_POOL_BYTES)",
                 (long long)stays);
        return pending->refuse(function, why);
    }
    wait_for_retired(pool, weft_max_i64(most / 2, stays));
    return true;
}

static void panel_is_renewed(void *handle)
{
    starpu_data_release_on_node(handle, STARPU_ACQUIRE_NO_NODE);
}

static void renew(weft_buffer *buffer)
{
    buffer->sends = 0;
    for (int i = 0; i < buffer->num_panels; i++) {
        starpu_data_handle_t handle = buffer->panels[i].handle;
        if (!weft_lease_holds(buffer->lease, handle)) { /* else readers would come to wait for the program */
            starpu_data_acquire_on_node_cb(handle, STARPU_ACQUIRE_NO_NODE, STARPU_RW, panel_is_renewed, handle);
        }
    }
}

void weft_pool_renew_when_due(weft_pool *pool)
{
    uint64_t tasks = weft_runtime.counters.tasks;
    if (tasks < pool->renewal || weft_runtime.pending->held) {
        return;
    }
    pool->renewal = tasks + (uint64_t)weft_max_i64(TASKS_PER_RENEWAL, TASKS_PER_RENEWED_PANEL * pool->num_panels);
    for (weft_buffer *buffer = pool->all; buffer != NULL; buffer = buffer->all_next) {
        renew(buffer);
    }
}

void weft_buffer_renew_when_due(weft_buffer *buffer)
{
    enum { FEWEST_SENDS = 256, SENDS_PER_PANEL = 16 };
    if (buffer->sends > weft_max_i64(FEWEST_SENDS, (int64_t)SENDS_PER_PANEL * buffer->num_panels) && !weft_runtime.pending->held) {
        renew(buffer);
    }
}

int64_t weft_pool_bytes_in_use(const weft_pool *pool)
{
    return pool->used_bytes;
}

void weft_pool_mark(weft_pool *pool)
{
    pool->marked_peak = pool->used_bytes;
}

int64_t weft_pool_marked_peak(const weft_pool *pool)
{
    return pool->marked_peak;
}

void weft_pool_peak(weft_pool *pool, int64_t *used, int64_t *own)
{
    *used = pool->most_used_bytes;
    *own = pool->most_own_bytes;
    pool->most_used_bytes = pool->used_bytes;
    pool->most_own_bytes = pool->own_bytes;
}

void weft_pool_collect(weft_pool *pool)
{
    weft_leases_collect();
    pthread_mutex_lock(&pool->mutex);
    weft_buffer *buffer = pool->unused;
    pool->unused = NULL;
    pool->unused_bytes = 0;
    pthread_mutex_unlock(&pool->mutex);
    while (buffer != NULL) {
        weft_buffer *next = buffer->next;
        pool->retired_bytes -= footprint(buffer);
        buffer_delete(buffer);
        buffer = next;
    }
}
