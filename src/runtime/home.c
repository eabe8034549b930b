#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "runtime/home.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "codelets/cuda/pinned.h"

/* Homes of up to SMALL bytes share slabs: a loss that each step reads from another buffer of the pool is pinned already. */
enum { LEAST = 256, SMALL = 256 << 10, SLAB = 4 << 20, CLASSES = 11 };

enum { PLAIN, PINNED, REFUSED };

/* What is mapped and pinned as a whole. */
typedef struct region {
    char *memory;
    int64_t bytes;
    int64_t used; /* of a slab */
    atomic_int state;
    bool stays; /* in use until the process ends */
    weft_homes *homes;
    struct region *next; /* among the slabs */
} region;

struct weft_home {
    region *region;
    char *memory;
    int size_class; /* -1: it has its region for itself */
    weft_home *next; /* free */
};

struct weft_homes {
    region *slabs;            /* the newest has room */
    weft_home *free[CLASSES]; /* LEAST bytes, twice as many, ... */
    bool pins;
    pthread_mutex_t mutex; /* of pinning */
};

/* ---- regions --------------------------------------------------------------------------------------------- */

static region *region_new(weft_homes *homes, int64_t bytes)
{
    region *r = calloc(1, sizeof(*r));
    void *memory = r == NULL ? MAP_FAILED
                             : mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(r);
        return NULL;
    }
    r->memory = memory;
    r->bytes = bytes;
    r->homes = homes;
    return r;
}

static void region_delete(region *r)
{
    if (!r->stays && atomic_load(&r->state) == PINNED) {
        weft_cuda_unpin(r->memory);
    }
    if (!r->stays) {
        munmap(r->memory, (size_t)r->bytes);
    }
    free(r);
}

/* On StarPU's thread that copies. Where memory cannot be pinned (a limit on locked memory), copies wait. */
static void pin(region *r)
{
    if (atomic_load_explicit(&r->state, memory_order_acquire) != PLAIN || !r->homes->pins) {
        return;
    }
    pthread_mutex_lock(&r->homes->mutex);
    if (atomic_load(&r->state) == PLAIN) {
        atomic_store_explicit(&r->state, weft_cuda_pin(r->memory, (size_t)r->bytes) ? PINNED : REFUSED, memory_order_release);
    }
    pthread_mutex_unlock(&r->homes->mutex);
}

/* ---- homes ----------------------------------------------------------------------------------------------- */

static int size_class_of(int64_t bytes)
{
    int c = 0;
    while ((int64_t)LEAST << c < bytes) {
        c++;
    }
    return c;
}

/* A part of a slab. */
static bool place_small(weft_homes *homes, weft_home *home)
{
    int64_t bytes = (int64_t)LEAST << home->size_class;
    if (homes->slabs == NULL || homes->slabs->used + bytes > SLAB) {
        region *slab = region_new(homes, SLAB);
        if (slab == NULL) {
            return false;
        }
        slab->next = homes->slabs;
        homes->slabs = slab;
    }
    home->region = homes->slabs;
    home->memory = home->region->memory + home->region->used;
    home->region->used += bytes;
    return true;
}

weft_home *weft_home_new(weft_homes *homes, int64_t bytes)
{
    int size_class = bytes > SMALL ? -1 : size_class_of(bytes);
    if (size_class >= 0 && homes->free[size_class] != NULL) {
        weft_home *home = homes->free[size_class];
        homes->free[size_class] = home->next;
        return home;
    }
    weft_home *home = calloc(1, sizeof(*home));
    if (home == NULL) {
        return NULL;
    }
    home->size_class = size_class;
    if (size_class < 0) {
        home->region = region_new(homes, bytes);
        home->memory = home->region == NULL ? NULL : home->region->memory;
    } else {
        place_small(homes, home);
    }
    if (home->memory == NULL) {
        free(home);
        return NULL;
    }
    return home;
}

void *weft_home_memory(const weft_home *home)
{
    return home->memory;
}

void weft_home_give_back(weft_homes *homes, weft_home *home, bool stays)
{
    home->region->stays |= stays;
    if (home->size_class < 0) {
        region_delete(home->region);
    }
    if (home->size_class < 0 || stays) {
        free(home);
        return;
    }
    home->next = homes->free[home->size_class];
    homes->free[home->size_class] = home;
}

void weft_homes_delete(weft_homes *homes)
{
    if (homes == NULL) {
        return;
    }
    for (int c = 0; c < CLASSES; c++) {
        while (homes->free[c] != NULL) {
            weft_home *next = homes->free[c]->next;
            free(homes->free[c]);
            homes->free[c] = next;
        }
    }
    while (homes->slabs != NULL) {
        region *next = homes->slabs->next;
        region_delete(homes->slabs);
        homes->slabs = next;
    }
    pthread_mutex_destroy(&homes->mutex);
    free(homes);
}

/* ---- StarPU's view --------------------------------------------------------------------------------------- */

/* A panel is StarPU's variable but for its copies to and from devices, which pin its home first. It has the same size and the same
 * identity, because StarPU uses device memory again for another handle together with its interface. The region is what the
 * interface in main memory has as the variable's allocation: dev_handle + offset = ptr. */
static int copy_panel(void *source, unsigned source_node, void *target, unsigned target_node, void *async)
{
    unsigned other = source_node == STARPU_MAIN_RAM ? target_node : source_node;
    if ((source_node == STARPU_MAIN_RAM || target_node == STARPU_MAIN_RAM) && starpu_node_get_kind(other) == STARPU_CUDA_RAM) {
        const struct starpu_variable_interface *home = source_node == STARPU_MAIN_RAM ? source : target;
        pin((region *)home->dev_handle); // NOLINT
    }
    return starpu_interface_variable_ops.copy_methods->any_to_any(source, source_node, target, target_node, async);
}

static const struct starpu_data_copy_methods panel_copies = { .any_to_any = copy_panel };
/* StarPU keeps its address with device memory that it may use again, until it ends. */
static struct starpu_data_interface_ops panel_operations;

starpu_data_handle_t weft_home_register(weft_home *home, int64_t offset, int64_t bytes)
{
    uintptr_t at = (uintptr_t)(home->memory + offset), allocation = (uintptr_t)home->region;
    struct starpu_variable_interface panel = { .id = STARPU_VARIABLE_INTERFACE_ID,
                                               .ptr = at,
                                               .dev_handle = allocation,
                                               .offset = at - allocation,
                                               .elemsize = (size_t)bytes };
    starpu_data_handle_t handle;
    starpu_data_register(&handle, STARPU_MAIN_RAM, &panel, &panel_operations);
    return handle;
}

/* Of what StarPU allocates on a device itself the offset is 0. */
enum { LENT_OFFSET = 64 };

void weft_home_lend(starpu_data_handle_t handle, int node, void *memory)
{
    const uintptr_t at = (uintptr_t)memory;
    starpu_variable_ptr_register(handle, (unsigned)node, at, at - LENT_OFFSET, LENT_OFFSET);
    /* Its values are the valid ones: as if they had just been written there. */
    starpu_data_acquire_on_node(handle, node, STARPU_W);
    starpu_data_release_on_node(handle, node);
}

bool weft_home_is_lent(starpu_data_handle_t handle, unsigned node)
{
    const struct starpu_variable_interface *panel = starpu_data_get_interface_on_node(handle, node);
    return panel->offset == LENT_OFFSET;
}

weft_homes *weft_homes_new(void)
{
    weft_homes *homes = calloc(1, sizeof(*homes));
    if (homes != NULL && pthread_mutex_init(&homes->mutex, NULL) != 0) {
        free(homes);
        return NULL;
    }
    if (homes != NULL) {
        panel_operations = starpu_interface_variable_ops;
        panel_operations.copy_methods = &panel_copies;
        homes->pins = starpu_getenv_number("STARPU_DISABLE_PINNING") <= 0;
    }
    return homes;
}
