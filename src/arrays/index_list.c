/* Index lists: handles, calls, and the exchanges that are kept. */
#include "arrays/index_list.h"

#include <stdlib.h>
#include <string.h>

#include "arrays/boxes.h"
#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/explained.h"
#include "tensor/regions.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

weft_tensor_impl *weft_indices_new(const char *function, const weft_layout *layout, const int64_t counts[], int64_t *const numbers[])
{
    int ranks = weft_runtime.local_ranks;
    weft_tensor_impl *tensor = calloc(1, sizeof(*tensor) + (size_t)ranks * sizeof(tensor->shards[0]));
    bool done = tensor != NULL;
    for (int i = 0; i < ranks && done; i++) {
        int64_t bytes = counts[i] * (int64_t)sizeof(int64_t);
        weft_local_shard *shard = &tensor->shards[i];
        tensor->num_shards = i + 1;
        if (bytes > 0) {
            const weft_cut whole = { .total = bytes, .first = bytes, .step = bytes };
            done = weft_shard_attach(shard, weft_buffer_copy(weft_runtime.pool, whole, numbers[i]));
            shard->count = shard->num_panels = done;
        }
    }
    if (!done) {
        weft_indices_free(tensor);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for an index list");
        return NULL;
    }
    tensor->layout = layout;
    return tensor;
}

void weft_indices_free(weft_tensor_impl *indices)
{
    for (int i = 0; indices != NULL && i < indices->num_shards; i++) {
        if (indices->shards[i].count > 0) {
            weft_buffer_release(indices->shards[i].buffer);
        }
    }
    free(indices);
}

void weft_index_list_free(weft_index_list_impl *list)
{
    if (list == NULL) {
        return;
    }
    for (size_t i = 0; i < list->pairs.count; i++) {
        free(((weft_row_pair *)list->pairs.items)[i].rows);
    }
    for (size_t i = 0; i < list->lowered.count; i++) {
        weft_exchange_free(((weft_lowered_list *)list->lowered.items)[i].exchange);
    }
    for (int i = 0; list->names != NULL && i < weft_runtime.local_ranks; i++) {
        free(list->names[i].places);
        free(list->names[i].sums);
    }
    free(list->names);
    weft_indices_free(list->indices);
    weft_vec_free(&list->pairs);
    weft_vec_free(&list->lowered);
    free(list);
}

weft_index_list_impl *weft_check_index_list(const char *function, const weft_index_list *handle)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_index_list_impl *list = handle == NULL ? NULL : weft_handle_get(&weft_runtime.handles.index_lists, handle);
    if (list == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "list is %s", handle == NULL ? "NULL" : "no index list: it has been destroyed");
    }
    return list;
}

weft_index_list_impl *weft_index_list_numbered(const char *function, uint64_t number)
{
    const weft_vec *slots = &weft_runtime.handles.index_lists.slots;
    for (size_t i = 0; i < slots->count; i++) {
        weft_index_list_impl *list = ((const weft_handle_slot *)slots->items)[i].object;
        if (list != NULL && list->number == number) {
            return list;
        }
    }
    weft_fail(WEFT_ERR_STATE, function, "the index list has been destroyed");
    return NULL;
}

void weft_index_lists_stop(void)
{
    const weft_vec *slots = &weft_runtime.handles.index_lists.slots;
    for (size_t i = 0; i < slots->count; i++) {
        weft_index_list_free(((const weft_handle_slot *)slots->items)[i].object);
    }
    weft_handle_remove_all(&weft_runtime.handles.index_lists);
}

void weft_index_lists_meet_layouts(void)
{
    const weft_vec *slots = &weft_runtime.handles.index_lists.slots;
    for (size_t i = 0; i < slots->count; i++) {
        const weft_index_list_impl *list = ((const weft_handle_slot *)slots->items)[i].object;
        if (list == NULL) {
            continue;
        }
        weft_meet_layout(list->indices->layout);
        for (size_t k = 0; k < list->lowered.count; k++) {
            const weft_lowered_list *lowered = (const weft_lowered_list *)list->lowered.items + k;
            weft_meet_layout(lowered->exchange->stage.from);
            weft_meet_layout(lowered->exchange->stage.to);
        }
    }
}

weft_index_list *weft_index_list_new(const weft_index_list_arguments *arguments)
{
    weft_index_list_impl *list = weft_index_list_make(arguments);
    if (list == NULL) {
        return NULL;
    }
    list->number = ++weft_runtime.arrays->index_lists;
    weft_index_list *handle = weft_handle_add(&weft_runtime.handles.index_lists, WEFT_HANDLE_INDEX_LIST, list);
    if (handle == NULL) {
        weft_index_list_free(list);
        weft_fail(WEFT_ERR_NOMEM, arguments->function, "no memory for an index list");
    }
    return handle;
}

void weft_index_list_drop(weft_index_list *handle)
{
    weft_index_list_impl *list = handle == NULL ? NULL : weft_handle_get(&weft_runtime.handles.index_lists, handle);
    if (list != NULL) {
        weft_handle_remove(&weft_runtime.handles.index_lists, handle);
        weft_index_list_free(list);
    }
}

/* details->memory: the arguments; receives the handle. */
typedef struct creation {
    weft_index_list_arguments given;
    weft_index_list *handle;
} creation;

static weft_status perform_create(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    creation *c = call->details->memory;
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function })) {
        return weft_latest_status();
    }
    c->given.refused = weft_runtime.num_processes > 1 && !weft_check_nothing_waits(call->function);
    c->handle = weft_index_list_new(&c->given);
    return c->handle == NULL ? weft_latest_status() : WEFT_OK;
}

weft_index_list *weft_index_list_create(int64_t size, weft_mesh *mesh, const weft_placement *placements, const int64_t counts[],
                                        const int64_t indices[])
{
    static const char function[] = "weft_index_list_create";
    static const weft_operation action = { .name = "index_list_create", .perform = perform_create, .effects = WEFT_LEAVES_VALUES };
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_deferral_note(function);
    if (weft_runtime.context.deferral != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "called in a captured graph: make the list before weft_graph_call()");
        return NULL;
    }
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "a fake world has no ranks that could name indices");
        return NULL;
    }
    creation c = { .given = { function, size, mesh, placements, counts, indices } };
    weft_act(&(weft_call){ .function = function, .operation = &action, .details = &(weft_call_details){ .memory = &c } }, NULL);
    return c.handle;
}

weft_status weft_index_list_destroy(weft_index_list *handle)
{
    static const char function[] = "weft_index_list_destroy";
    weft_index_list_impl *list = weft_check_index_list(function, handle);
    if (list == NULL) {
        return weft_latest_status();
    }
    if (!weft_deferral_finish(function)) {
        return weft_latest_status();
    }
    weft_note_change(function, true);
    weft_index_list_drop(handle);
    return WEFT_OK;
}

int64_t weft_index_list_count(const weft_index_list *handle)
{
    const weft_index_list_impl *list = weft_check_index_list("weft_index_list_count", handle);
    return list == NULL ? -1 : list->total;
}

weft_status weft_index_list_placements(const weft_index_list *handle, weft_placement placements[])
{
    static const char function[] = "weft_index_list_placements";
    const weft_index_list_impl *list = weft_check_index_list(function, handle);
    if (list == NULL || placements == NULL) {
        return list == NULL ? weft_latest_status() : weft_fail(WEFT_ERR_INVALID, function, "placements is NULL");
    }
    for (int d = 0; d < list->mesh->ndim; d++) {
        placements[d] = d == list->mesh_dim ? list->named : weft_replicate();
    }
    return WEFT_OK;
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

const weft_layout *weft_index_list_layout(const char *function, const weft_index_list_impl *list, bool adds, const weft_layout *given,
                                          bool named)
{
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, given->shape, sizeof(shape));
    shape[0] = named ? list->total : list->size;
    for (int d = 0; d < list->mesh->ndim; d++) {
        weft_placement own = given->placements[d];
        bool kept = own.kind == WEFT_SHARD     ? own.dim != 0
                    : own.kind == WEFT_PARTIAL ? !adds || own.op == WEFT_SUM || own.op == WEFT_AVG
                                               : true;
        placements[d] = d == list->mesh_dim ? (named ? list->named : list->held) : kept ? own : weft_replicate();
    }
    return weft_check_layout(function, list->mesh, placements, given->ndim, shape, given->dtype);
}

enum { MOST_LOWERED = 64 }; /* of one list: pairs of layouts */

/* NULL with the error kept. */
static weft_exchange *new_exchange(const char *function, const weft_index_list_impl *list, bool adds, const weft_layout *from,
                                   const weft_layout *to)
{
    weft_exchange *exchange = weft_exchange_allocate(&(weft_stage){ .from = from, .to = to, .scale = 1.0 });
    if (exchange != NULL) {
        exchange->indices = list->indices;
        exchange->digest = weft_digest_add(weft_digest_add(exchange->digest, list->number), adds);
    }
    if (exchange == NULL || !(adds ? weft_index_list_lower_sums : weft_index_list_lower_gather)(list, exchange)) {
        weft_exchange_free(exchange);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the exchange of an index list");
        return NULL;
    }
    return exchange;
}

/* Takes an exchange over; the oldest one makes room. NULL with the error kept. */
static weft_exchange *keep(const char *function, weft_index_list_impl *list, bool adds, weft_exchange *exchange)
{
    weft_lowered_list *all = list->lowered.items;
    if (list->lowered.count == MOST_LOWERED) {
        weft_exchange_free(all[0].exchange);
        memmove(all, all + 1, (MOST_LOWERED - 1) * sizeof(*all));
        list->lowered.count--;
    }
    weft_lowered_list *kept = weft_vec_push(&list->lowered, sizeof(*kept));
    if (kept == NULL) {
        weft_exchange_free(exchange);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the exchange of an index list");
        return NULL;
    }
    *kept = (weft_lowered_list){ adds, exchange };
    return exchange;
}

/* A kept exchange, by WEFT_TASK_CACHE: as it is, made anew, or compared with a new one. NULL with the error kept. */
static weft_exchange *use_again(const char *function, const weft_index_list_impl *list, weft_lowered_list *kept)
{
    const weft_stage *stage = &kept->exchange->stage;
    if (weft_runtime.task_cache == WEFT_TASK_CACHE_ON) {
        return kept->exchange;
    }
    weft_exchange *other = new_exchange(function, list, kept->adds, stage->from, stage->to);
    bool same = other != NULL && (weft_runtime.task_cache == WEFT_TASK_CACHE_OFF ||
                                  weft_task_list_equal(&other->list, &kept->exchange->list));
    if (!same) {
        if (other != NULL) {
            weft_fail_alone(WEFT_ERR_STATE, function, "the kept task list of an index list differs from a new one");
        }
        weft_exchange_free(other);
        return NULL;
    }
    weft_exchange_free(kept->exchange);
    return kept->exchange = other;
}

/* The exchange between two layouts, kept or new; NULL with the error kept. */
static weft_exchange *obtain(const char *function, weft_index_list_impl *list, bool adds, const weft_layout *from, const weft_layout *to)
{
    weft_lowered_list *all = list->lowered.items;
    for (size_t i = 0; i < list->lowered.count; i++) {
        if (all[i].adds == adds && all[i].exchange->stage.from == from && all[i].exchange->stage.to == to) {
            return use_again(function, list, &all[i]);
        }
    }
    weft_exchange *exchange = new_exchange(function, list, adds, from, to);
    return exchange == NULL ? NULL : keep(function, list, adds, exchange);
}

weft_tensor_impl *weft_index_list_run(const char *function, weft_index_list_impl *list, bool adds, weft_tensor_impl *tensor)
{
    const weft_layout *from = weft_index_list_layout(function, list, adds, tensor->layout, adds);
    const weft_layout *to = from == NULL ? NULL : weft_index_list_layout(function, list, adds, tensor->layout, !adds);
    weft_exchange *exchange = to == NULL ? NULL : obtain(function, list, adds, from, to);
    weft_tensor_impl *source = exchange == NULL ? NULL : weft_tensor_to_layout(function, tensor, from);
    weft_tensor_impl *target = source == NULL ? NULL : weft_tensor_new(function, to);
    weft_runtime.counters.stages += target != NULL;
    bool done = target != NULL && weft_exchange_run(function, exchange, source, target, true);
    return done ? target : weft_tensor_discard(target);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static weft_tensor *call_list(const char *function, bool adds, const weft_index_list_impl *list, weft_tensor *tensor);

/* Numbers of the call: the list's. */
static weft_status perform(const weft_call *call, bool adds, weft_tensor *outputs[])
{
    weft_index_list_impl *list = weft_index_list_numbered(call->function, (uint64_t)call->details->numbers[0]);
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    const weft_layout *layouts[] = { tensor->layout, call->details->layout };
    double number = (double)call->details->numbers[0];
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function,
                                                 .failed = list == NULL,
                                                 .num_layouts = 2,
                                                 .layouts = layouts,
                                                 .num_numbers = 1,
                                                 .numbers = &number }) ||
        list == NULL) {
        return weft_latest_status();
    }
    if (weft_runtime.context.rehearsal != NULL) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "a prediction does not know which rows the ranks of other processes name");
    }
    weft_scope_begin();
    weft_tensor_impl *result = weft_index_list_run(call->function, list, adds, tensor);
    if (result != NULL && result->layout != call->details->layout) { /* a graph has found another layout for the tensor */
        result = weft_tensor_to_layout(call->function, result, call->details->layout);
    }
    outputs[0] = result == NULL ? NULL : weft_scope_keep(result->handle);
    weft_scope_end_own();
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

static weft_status perform_gather(const weft_call *call, weft_tensor *outputs[])
{
    return perform(call, false, outputs);
}

static weft_status perform_scatter_add(const weft_call *call, weft_tensor *outputs[])
{
    return perform(call, true, outputs);
}

/* That of either is the other. */
static bool gradient(const weft_gradient *of, bool adds)
{
    const weft_call *call = of->call;
    const weft_index_list_impl *list = weft_index_list_numbered(call->function, (uint64_t)call->details->numbers[0]);
    if (list == NULL) {
        return false;
    }
    if (of->wanted[0] && of->output_gradients[0] != NULL) {
        of->gradients[0] = call_list(call->function, adds, list, of->output_gradients[0]);
    }
    return !of->wanted[0] || of->output_gradients[0] == NULL || of->gradients[0] != NULL;
}

static bool gradient_of_gather(const weft_gradient *of)
{
    return gradient(of, true);
}

static bool gradient_of_scatter_add(const weft_gradient *of)
{
    return gradient(of, false);
}

/* After all checks. */
static weft_tensor *call_list(const char *function, bool adds, const weft_index_list_impl *list, weft_tensor *tensor)
{
    static const weft_operation gather = { .name = "index_list_gather",
                                           .perform = perform_gather,
                                           .num_outputs = 1,
                                           .effects = WEFT_MAKES,
                                           .gradient = { .function = gradient_of_gather } },
                                sums = { .name = "index_list_scatter_add",
                                         .perform = perform_scatter_add,
                                         .num_outputs = 1,
                                         .effects = WEFT_MAKES,
                                         .gradient = { .function = gradient_of_scatter_add } };
    const weft_layout *to = weft_index_list_layout(function, list, adds, weft_layout_of(tensor), !adds);
    const int64_t number = (int64_t)list->number;
    return to == NULL ? NULL
                      : weft_act_for_tensor(&(weft_call){
                            .function = function,
                            .operation = adds ? &sums : &gather,
                            .num_inputs = 1,
                            .inputs = { tensor },
                            .details = &(weft_call_details){ .layout = to, .num_numbers = 1, .numbers = &number } });
}

/* The other dimensions stay as they are; a Partial along another mesh dimension does if it can be added. */
static bool check_tensor(const char *function, const char *argument, bool adds, const weft_index_list_impl *list,
                         const weft_layout *layout)
{
    int64_t rows = adds ? list->total : list->size;
    if (layout->mesh != list->mesh) {
        char own[160], other[160];
        weft_fail(WEFT_ERR_MESH, function, "%s is on mesh %s and the list on mesh %s: weft_redistribute() it", argument,
                  weft_mesh_format(layout->mesh, own, sizeof(own)), weft_mesh_format(list->mesh, other, sizeof(other)));
        return false;
    }
    if (layout->ndim == 0 || layout->shape[0] != rows) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %lld rows, expected %lld, as the list has %s", argument,
                  (long long)(layout->ndim == 0 ? 1 : layout->shape[0]), (long long)rows, adds ? "indices" : "in its size");
        return false;
    }
    const weft_layout *from = weft_index_list_layout(function, list, adds, layout, adds);
    return from != NULL && (from == layout || (weft_plan_check(function, layout, from) &&
                                               weft_check_explicit(function, argument, layout, from)));
}

static weft_tensor *call_checked(const char *function, const char *argument, bool adds, weft_index_list *handle, weft_tensor *tensor)
{
    const weft_index_list_impl *list = weft_check_index_list(function, handle);
    const weft_tensor_impl *given = list == NULL ? NULL : weft_check_tensor(function, argument, tensor);
    const weft_layout *layout = given == NULL ? NULL : given->layout;
    if (layout == NULL || !check_tensor(function, argument, adds, list, layout)) {
        if (weft_may_call()) {
            weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true, .num_layouts = 1, .layouts = &layout });
        }
        return NULL;
    }
    return call_list(function, adds, list, tensor);
}

weft_tensor *weft_index_list_gather(weft_index_list *list, weft_tensor *x)
{
    return call_checked("weft_index_list_gather", "x", false, list, x);
}

weft_tensor *weft_index_list_scatter_add(weft_index_list *list, weft_tensor *values)
{
    return call_checked("weft_index_list_scatter_add", "values", true, list, values);
}
