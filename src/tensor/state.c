/* Start and stop of the state that src/tensor keeps between calls. */
#include <stdlib.h>

#include "runtime/failures.h"
#include "runtime/pending.h"
#include "tensor/explained.h"
#include "tensor/regions.h"
#include "tensor/state.h"

weft_status weft_tensors_start(void)
{
    weft_tensors *tensors = calloc(1, sizeof(weft_tensors));
    if (tensors == NULL || !weft_random_start(tensors, weft_runtime.seed)) {
        free(tensors);
        return weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory for the tensors");
    }
    weft_runtime.pending->waits = weft_acquired_waits;
    weft_runtime.pending->refuse = weft_acquired_refuse;
    weft_runtime.tensors = tensors;
    return WEFT_OK;
}

/* The buffer used last; a too small one is replaced. */
weft_room *weft_room_obtain(size_t bytes)
{
    weft_tensors *tensors = weft_runtime.tensors;
    weft_room *room = tensors->rooms;
    if (room != NULL) {
        tensors->rooms = room->next;
        if (room->bytes >= bytes) {
            return room;
        }
        free(room);
    }
    room = malloc(sizeof(*room) + 2 * bytes);
    if (room != NULL) {
        room->bytes = 2 * bytes;
    }
    return room;
}

void weft_room_give_back(weft_room *room)
{
    if (room != NULL) {
        room->next = weft_runtime.tensors->rooms;
        weft_runtime.tensors->rooms = room;
    }
}

static void free_rooms(weft_tensors *tensors)
{
    while (tensors->rooms != NULL) {
        weft_room *next = tensors->rooms->next;
        free(tensors->rooms);
        tensors->rooms = next;
    }
}

void weft_tensors_tell_left_over(FILE *file)
{
    const weft_tensors *tensors = weft_runtime.tensors;
    int64_t shards = tensors->held.count, own = 0,
            scopes = (int64_t)tensors->scopes.count + tensors->unopened;
    const weft_tensor_impl *last = NULL;
    for (const weft_tensor_impl *tensor = tensors->newest; tensor != NULL; tensor = tensor->older) {
        own += tensor->caller_references > 0;
        last = last == NULL && tensor->caller_references > 0 ? tensor : last;
    }
    if (shards + own + scopes == 0) {
        return;
    }
    char prefix[48], text[256] = "";
    fprintf(file,
            "%sweft_finalize: left over: %lld shard%s without weft_local_release(), %lld tensor%s without "
            "weft_tensor_release()%s%s%s, %lld scope%s without weft_scope_end()\n",
            weft_stderr_prefix(prefix, sizeof(prefix)), (long long)shards, shards == 1 ? "" : "s",
            (long long)own, own == 1 ? "" : "s",
            own == 0   ? ""
            : own == 1 ? " ("
                       : " (the last is ",
            own == 0 ? "" : weft_tensor_describe(last->handle, text, sizeof(text)), own == 0 ? "" : ")",
            (long long)scopes, scopes == 1 ? "" : "s");
}

void weft_tensors_meet_layouts(void)
{
    const weft_tensors *tensors = weft_runtime.tensors;
    for (const weft_tensor_impl *tensor = tensors->newest; tensor != NULL; tensor = tensor->older) {
        weft_meet_layout(tensor->layout);
    }
    weft_plans_meet_layouts(tensors);
}

void weft_tensors_stop(void)
{
    weft_regions_stop();
    weft_explained_stop();
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors == NULL) {
        return;
    }
    for (weft_tensor_impl *tensor = tensors->newest, *older; tensor != NULL; tensor = older) {
        older = tensor->older;
        if (tensor->handle != NULL) {
            weft_tensor_delete(tensor);
        }
    }
    free_rooms(tensors);
    weft_tensor_free_spare(tensors);
    weft_plans_free(tensors);
    weft_random_stop(tensors);
    weft_vec_free(&tensors->references);
    weft_vec_free(&tensors->scopes);
    free(tensors);
    weft_runtime.tensors = NULL;
}
