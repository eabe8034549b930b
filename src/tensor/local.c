/* Access to what a hosted rank holds. */
#include <string.h>

#include "tensor/state.h"

static weft_local_shard *check_shard(const char *function, weft_tensor *tensor, int local_rank)
{
    if (local_rank < 0 || local_rank >= tensor->num_shards) {
        weft_fail(WEFT_ERR_INVALID, function, "local_rank is %d, but this process hosts %d ranks", local_rank,
                  tensor->num_shards);
        return NULL;
    }
    weft_local_shard *shard = &tensor->shards[local_rank];
    if (tensor->layout->ndim == 0 && !shard->member) {
        char text[160];
        weft_fail(WEFT_ERR_MESH, function,
                  "tensor is %s, and local rank %d (rank %d) is not in its mesh: it has no value",
                  weft_layout_format(tensor->layout, text, sizeof(text)), local_rank, shard->rank);
        return NULL;
    }
    return shard;
}

static enum starpu_data_access_mode starpu_mode(weft_access access)
{
    return access == WEFT_READ ? STARPU_R : access == WEFT_WRITE ? STARPU_W : STARPU_RW;
}

void *weft_local_acquire(weft_tensor *tensor, int local_rank, weft_access access)
{
    static const char function[] = "weft_local_acquire";
    tensor = weft_check_tensor(function, "tensor", tensor);
    weft_local_shard *shard = tensor == NULL ? NULL : check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return NULL;
    }
    if (access != WEFT_READ && access != WEFT_WRITE && access != WEFT_READ_WRITE) {
        weft_fail(WEFT_ERR_INVALID, function, "access is %d, which is no weft_access", (int)access);
        return NULL;
    }
    if (shard->hold != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is acquired already", local_rank);
        return NULL;
    }
    if (weft_is_broken()) {
        weft_error_collect();
        return NULL;
    }
    if (access != WEFT_READ && !weft_tensor_make_writable(function, tensor, true)) {
        return NULL;
    }
    if (!weft_shard_hold(shard, starpu_mode(access))) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
        return NULL;
    }
    weft_error_collect();
    if (weft_is_broken()) { /* while we waited */
        weft_shard_let_go(shard);
        return NULL;
    }
    static int64_t nothing; /* an address for empty shards */
    return shard->count == 0 ? (void *)&nothing : (char *)shard->buffer->memory + shard->offset;
}

weft_status weft_local_release(weft_tensor *tensor, int local_rank)
{
    static const char function[] = "weft_local_release";
    tensor = weft_check_tensor(function, "tensor", tensor);
    weft_local_shard *shard = tensor == NULL ? NULL : check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return weft_latest_status();
    }
    if (shard->hold == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is not acquired", local_rank);
    }
    weft_shard_let_go(shard);
    return WEFT_OK;
}

/* The shard is held. */
static void copy_out(const weft_layout *layout, const weft_local_shard *shard, void *host)
{
    weft_cut cut = shard->count == 0 ? (weft_cut){ 0, 0, 0 } : weft_shard_cut(layout, shard);
    for (int i = 0; i < (int)shard->num_panels; i++) {
        const weft_panel *panel = &shard->panels[i];
        int64_t begin = weft_cut_start(&cut, i);
        const char *memory = (const char *)starpu_variable_get_local_ptr(panel->handle);
        memcpy((char *)host + begin, memory + panel->offset, (size_t)(weft_cut_end(&cut, i) - begin));
    }
}

weft_status weft_local_to_host(weft_tensor *tensor, int local_rank, void *host)
{
    static const char function[] = "weft_local_to_host";
    tensor = weft_check_tensor(function, "tensor", tensor);
    weft_local_shard *shard = tensor == NULL ? NULL : check_shard(function, tensor, local_rank);
    if (shard == NULL) {
        return weft_latest_status();
    }
    if (shard->count > 0 && host == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "shard is NULL");
    }
    if (shard->hold != NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "the shard of local rank %d is acquired", local_rank);
    }
    /* All panels before the first byte is copied: what a world that breaks meanwhile leaves is not values. */
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    if (!weft_shard_hold(shard, STARPU_R)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
    }
    if (!weft_is_broken()) {
        copy_out(tensor->layout, shard, host);
    }
    weft_shard_let_go(shard);
    return weft_error_collect();
}
