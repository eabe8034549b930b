/* Leases: uses of a buffer's memory by code outside of the library, on any thread. */
#include "runtime/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/cuda.h"

/* A panel whose values stay in the memory of a device. */
typedef struct hold {
    starpu_data_handle_t handle;
    int node;
    struct hold *next;
} hold;

struct weft_lease {
    weft_buffer *buffer; /* NULL: its pool has ended, and the memory is the lease's */
    void *memory;
    bool freeable;
    int64_t uses;
    hold *holds; /* on the thread of weft_init() alone */
    weft_lease *next;
};

/* Not part of weft_runtime: any thread gives back, also after weft_finalize(), and in a child of fork(). All but held_bytes, which
 * belongs to the thread of weft_init(), is the mutex's. */
static struct {
    pthread_mutex_t mutex;
    weft_lease *first;
    atomic_bool unused; /* weft_leases_collect() has a buffer to release: a lease has no uses left */
    pthread_once_t once;
    int follow_error; /* of pthread_atfork() */
    int64_t held_bytes; /* of all holds */
} leases = { .mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

static void lock(void)
{
    pthread_mutex_lock(&leases.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&leases.mutex);
}

/* The forking thread holds the mutex, so that no other one does, which the child would lack. */
static void follow_forks(void)
{
    leases.follow_error = pthread_atfork(lock, unlock, unlock);
}

static void take_off(const weft_lease *lease)
{
    weft_lease **place = &leases.first;
    while (*place != lease) {
        place = &(*place)->next;
    }
    *place = lease->next;
}

weft_lease *weft_lease_take(weft_buffer *buffer)
{
    pthread_once(&leases.once, follow_forks);
    if (leases.follow_error != 0) {
        return NULL;
    }
    lock();
    weft_lease *lease = buffer->lease;
    if (lease != NULL) {
        lease->uses++;
    } else if ((lease = malloc(sizeof(*lease))) != NULL) {
        *lease = (weft_lease){ .buffer = buffer, .memory = buffer->memory, .uses = 1, .next = leases.first };
        leases.first = buffer->lease = lease;
        weft_buffer_retain(buffer);
    }
    unlock();
    return lease;
}

void weft_lease_give_back(weft_lease *lease)
{
    lock();
    bool unused = --lease->uses == 0, outlived = unused && lease->buffer == NULL;
    if (outlived) {
        take_off(lease);
    } else if (unused) {
        atomic_store(&leases.unused, true);
    }
    unlock();
    if (outlived) {
        free(lease->freeable ? lease->memory : NULL);
        free(lease);
    }
}

static const hold *hold_of(const weft_lease *lease, starpu_data_handle_t handle)
{
    const hold *h = lease->holds;
    while (h != NULL && h->handle != handle) {
        h = h->next;
    }
    return h;
}

void *weft_lease_hold(weft_lease *lease, starpu_data_handle_t handle, int number, int *node)
{
    const hold *held = hold_of(lease, handle);
    if (held != NULL) {
        *node = held->node;
        return weft_cuda_held(handle, held->node);
    }
    void *memory = NULL;
    hold *h = malloc(sizeof(*h));
    if (h != NULL) {
        *node = weft_cuda_hold(handle, number, &memory);
        *h = (hold){ handle, *node, lease->holds };
        lease->holds = h;
        leases.held_bytes += (int64_t)starpu_data_get_size(handle);
    }
    return memory;
}

int64_t weft_lease_held_bytes(void)
{
    return leases.held_bytes;
}

bool weft_lease_holds(const weft_lease *lease, starpu_data_handle_t handle)
{
    return lease != NULL && hold_of(lease, handle) != NULL;
}

/* Devices that have been waited for, by their memory nodes: each once, whatever lies there. */
typedef struct waited {
    bool asked[STARPU_MAXNODES], idle[STARPU_MAXNODES];
} waited;

/* BLOCKS. Whether no kernel can read the lease's panels any more. */
static bool is_unread(const weft_lease *lease, waited *devices)
{
    bool unread = true;
    for (const hold *h = lease->holds; h != NULL; h = h->next) {
        if (!devices->asked[h->node]) {
            devices->asked[h->node] = true;
            devices->idle[h->node] = weft_cuda_wait(h->node) == 0;
        }
        unread = unread && devices->idle[h->node];
    }
    return unread;
}

static void let_go(weft_lease *lease)
{
    while (lease->holds != NULL) {
        hold *h = lease->holds;
        lease->holds = h->next;
        leases.held_bytes -= (int64_t)starpu_data_get_size(h->handle);
        weft_cuda_let_go(h->handle, h->node);
        free(h);
    }
}

void weft_lease_let_go(weft_lease *lease)
{
    waited devices = { .asked = { false } };
    if (lease != NULL) {
        is_unread(lease, &devices);
        let_go(lease);
    }
}

/* Takes those off the list that are to be released. */
static weft_lease *take_unused(void)
{
    weft_lease *unused = NULL;
    lock();
    atomic_store(&leases.unused, false);
    for (weft_lease **place = &leases.first; *place != NULL;) {
        weft_lease *lease = *place;
        if (lease->uses == 0) {
            *place = lease->next;
            lease->next = unused;
            unused = lease;
        } else {
            place = &lease->next;
        }
    }
    unlock();
    return unused;
}

/* On the list again, for the next weft_leases_collect(). */
static void put_back(weft_lease *lease)
{
    lock();
    lease->next = leases.first;
    leases.first = lease;
    atomic_store(&leases.unused, true);
    unlock();
}

static void release(weft_lease *lease)
{
    lease->buffer->lease = NULL;
    let_go(lease);
    weft_buffer_release(lease->buffer);
    free(lease);
}

void weft_leases_collect(void)
{
    if (!atomic_load(&leases.unused)) {
        return;
    }
    waited devices = { .asked = { false } };
    weft_lease *lease = take_unused();
    while (lease != NULL) {
        weft_lease *next = lease->next;
        if (is_unread(lease, &devices)) {
            release(lease);
        } else {
            put_back(lease); /* a stream of the device is being captured, or the device is lost */
        }
        lease = next;
    }
}

bool weft_lease_outlives(weft_lease *lease, bool freeable)
{
    lock();
    bool in_use = lease->uses > 0;
    if (in_use) {
        lease->buffer = NULL;
        lease->freeable = freeable;
    } else {
        take_off(lease);
    }
    unlock();
    if (!in_use) {
        free(lease);
    }
    return in_use;
}
