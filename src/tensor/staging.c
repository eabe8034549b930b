#include "tensor/staging.h"

#include "runtime/runtime.h"

static weft_slot add_new(weft_staging *staging, weft_task_list *list, weft_staging_ring *ring, int64_t bytes)
{
    weft_slot slot = weft_task_new_buffer(list, bytes);
    weft_slot *kept = weft_vec_push(&ring->slots, sizeof(*kept));
    bool *read = weft_vec_push(&staging->read, sizeof(*read));
    if (kept == NULL || read == NULL) {
        list->failed = true;
        return slot;
    }
    *kept = slot;
    *read = false;
    staging->bytes += bytes;
    return slot;
}

/* Sizes are powers of two, so that the last piece of a panel finds a buffer too. */
weft_slot weft_staging_obtain(weft_staging *staging, weft_task_list *list, int64_t bytes)
{
    int size = 0;
    while ((int64_t)1 << size < bytes) {
        size++;
    }
    weft_staging_ring *ring = &staging->rings[size];
    bool enough = !staging->grows && staging->bytes + bytes > weft_runtime.messages.staging_bytes;
    if (enough && ring->slots.count > 0) {
        weft_slot oldest = ((weft_slot *)ring->slots.items)[ring->oldest];
        bool *read = (bool *)staging->read.items + ((size_t)oldest.panel - staging->first);
        if (*read) {
            *read = false;
            ring->oldest = (ring->oldest + 1) % ring->slots.count;
            return oldest;
        }
    }
    return add_new(staging, list, ring, (int64_t)1 << size);
}

void weft_staging_was_read(weft_staging *staging, weft_slot slot)
{
    if (slot.tensor == WEFT_TEMPORARY && (size_t)slot.panel - staging->first < staging->read.count) {
        ((bool *)staging->read.items)[(size_t)slot.panel - staging->first] = true;
    }
}

void weft_staging_free(weft_staging *staging)
{
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(staging->rings); i++) {
        weft_vec_free(&staging->rings[i].slots);
    }
    weft_vec_free(&staging->read);
}
