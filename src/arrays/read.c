#include "arrays/read.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/state.h"

/* ---- which shards -------------------------------------------------------------------------------------- */

static int64_t rows_of(const weft_layout *layout)
{
    return layout->ndim == 0 ? 1 : layout->shape[0];
}

/* Whether the rank has rows from `row` on, all of each; *last: one past them. */
static bool has_rows_from(const weft_layout *layout, int rank, int64_t row, int64_t *last)
{
    weft_box box;
    bool whole = weft_layout_shard_box(layout, rank, &box);
    for (int d = 1; d < layout->ndim && whole; d++) {
        whole = box.extent[d] == layout->shape[d];
    }
    *last = layout->ndim == 0 ? 1 : box.offset[0] + box.extent[0];
    return whole && !layout->has_runs && *last > row && (layout->ndim == 0 || box.offset[0] == row);
}

/* The rank of the process that has rows from `row` on; -1: none. Ranks mostly have rows in their order: the one after `former` is
 * asked first. */
static int rank_with_rows(const weft_layout *layout, int process, int former, int64_t row, int64_t *last)
{
    int first = weft_runtime.first_rank_of[process], count = weft_runtime.first_rank_of[process + 1] - first;
    for (int i = 0; i < count; i++) {
        int rank = first + (former - first + 1 + i) % count;
        if (has_rows_from(layout, rank, row, last)) {
            return rank;
        }
    }
    return -1;
}

static bool process_has_all(const weft_layout *layout, int process)
{
    int rank = weft_runtime.first_rank_of[process] - 1;
    int64_t row = 0;
    bool found = true;
    while (row < rows_of(layout) && found) {
        rank = rank_with_rows(layout, process, rank, row, &row);
        found = rank >= 0;
    }
    return found;
}

bool weft_is_read_in_place(const weft_layout *layout)
{
    int64_t count = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return weft_runtime.num_processes == 1 && weft_runtime.devices.bytes > 0 && !layout->has_partial &&
           (count == 0 || process_has_all(layout, 0));
}

/* ---- panels -------------------------------------------------------------------------------------------- */

typedef struct panel_read {
    struct panel_read *next; /* among those that have come */
    struct reading *reading;
    const weft_panel *panel;
    char *to;
    size_t bytes;
} panel_read;

typedef struct reading {
    pthread_mutex_t mutex;
    pthread_cond_t one_came;
    panel_read *come; /* acquired in main memory */
    size_t count;
    panel_read panels[];
} reading;

static reading *reading_new(size_t most)
{
    reading *r = calloc(1, sizeof(*r) + most * sizeof(r->panels[0]));
    if (r != NULL && pthread_mutex_init(&r->mutex, NULL) != 0) {
        free(r);
        return NULL;
    }
    if (r != NULL && pthread_cond_init(&r->one_came, NULL) != 0) {
        pthread_mutex_destroy(&r->mutex);
        free(r);
        return NULL;
    }
    return r;
}

static void reading_free(reading *r)
{
    pthread_cond_destroy(&r->one_came);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

/* StarPU's callback; any thread. */
static void note_panel(void *argument)
{
    panel_read *p = argument;
    reading *r = p->reading;
    pthread_mutex_lock(&r->mutex);
    p->next = r->come;
    r->come = p;
    pthread_cond_signal(&r->one_came);
    pthread_mutex_unlock(&r->mutex);
}

static panel_read *next_panel(reading *r)
{
    pthread_mutex_lock(&r->mutex);
    while (r->come == NULL) {
        pthread_cond_wait(&r->one_came, &r->mutex);
    }
    panel_read *p = r->come;
    r->come = p->next;
    pthread_mutex_unlock(&r->mutex);
    return p;
}

static void add_shard(reading *r, const weft_layout *layout, const weft_local_shard *shard, char *to)
{
    for (int i = 0; i < (int)shard->num_panels; i++) {
        weft_cut cut = weft_shard_cut(layout, shard);
        int64_t begin = weft_cut_start(&cut, i);
        r->panels[r->count++] = (panel_read){
            .reading = r, .panel = &shard->panels[i], .to = to + begin, .bytes = (size_t)(weft_cut_end(&cut, i) - begin)
        };
    }
}

/* BLOCKS. All panels are asked for at once, so that devices send them one after the other. */
static void read_panels(reading *r)
{
    weft_end_pause();
    for (size_t i = 0; i < r->count; i++) {
        starpu_data_acquire_on_node_cb(r->panels[i].panel->handle, STARPU_MAIN_RAM, STARPU_R, note_panel, &r->panels[i]);
    }
    for (size_t i = 0; i < r->count; i++) {
        const panel_read *p = next_panel(r);
        if (!weft_is_broken()) {
            memcpy(p->to, (const char *)starpu_variable_get_local_ptr(p->panel->handle) + p->panel->offset, p->bytes);
        }
        starpu_data_release_on_node(p->panel->handle, STARPU_MAIN_RAM);
    }
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

/* Reads the shards of these local ranks, one after the other. */
static weft_status read_shards(const char *function, const weft_tensor_impl *tensor, int count, const int local_ranks[], char *to)
{
    size_t panels = 0;
    for (int i = 0; i < count; i++) {
        const weft_local_shard *shard = &tensor->shards[local_ranks[i]];
        if (!weft_check_shard_waits_not(function, shard, false)) {
            return WEFT_ERR_STATE;
        }
        panels += (size_t)shard->num_panels;
    }
    reading *r = reading_new(panels);
    if (r == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
    }
    for (int i = 0; i < count; i++) {
        const weft_local_shard *shard = &tensor->shards[local_ranks[i]];
        add_shard(r, tensor->layout, shard, to);
        to += (size_t)shard->count * weft_dtype_size(tensor->layout->dtype);
    }
    read_panels(r);
    reading_free(r);
    return weft_is_broken() ? weft_error_collect() : WEFT_OK;
}

weft_status weft_shard_read_in_place(const char *function, const weft_tensor_impl *tensor, int local_rank, void *host)
{
    return weft_is_broken() ? weft_error_collect() : read_shards(function, tensor, 1, &local_rank, host);
}

weft_status weft_tensor_read_in_place(const char *function, const weft_tensor_impl *tensor, void *global)
{
    if (weft_is_broken()) {
        return weft_error_collect();
    }
    int *local_ranks = malloc((size_t)weft_runtime.local_ranks * sizeof(int));
    if (local_ranks == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory to hold a shard");
    }
    int64_t elements = 0, row = 0;
    weft_count_checked(tensor->layout->ndim, tensor->layout->shape, &elements);
    int count = 0, rank = weft_runtime.first_rank - 1;
    while (row < rows_of(tensor->layout) && elements > 0) {
        rank = rank_with_rows(tensor->layout, weft_runtime.process, rank, row, &row);
        local_ranks[count++] = rank - weft_runtime.first_rank;
    }
    weft_status status = read_shards(function, tensor, count, local_ranks, global);
    free(local_ranks);
    return status;
}
