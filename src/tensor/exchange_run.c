/* Exchanges: cached lists, tags, counters, and submission of a list's transfers. */
#include <stdlib.h>
#include <string.h>

#include "tasks/check.h"
#include "tensor/claimed_stage.h"
#include "tensor/exchange.h"
#include "tensor/rehearsal.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* ---- made once ----------------------------------------------------------------------------------------- */

static uint64_t digest_of(const weft_stage *stage)
{
    uint64_t digest = stage->from->mesh->digest;
    digest = weft_digest_add(digest, stage->to->mesh->digest);
    digest = weft_digest_add(digest, stage->from->digest);
    digest = weft_digest_add(digest, stage->to->digest);
    digest = weft_digest_add(digest, (uint64_t)stage->from->panel_rows);
    return weft_digest_add(digest, (uint64_t)stage->to->panel_rows);
}

static int64_t addend_of(const void *stage, int rank)
{
    return weft_stage_addend(stage, rank);
}

/* Number of addends of each element: addends are numbered from 0. */
static int64_t num_addends_of(const weft_stage *stage)
{
    const weft_mesh_impl *mesh = stage->from->mesh;
    int64_t count = 0;
    for (int64_t i = 0; i < mesh->num_ranks && stage->reduces; i++) {
        int rank = mesh->ranks == NULL ? (int)i : mesh->ranks[i];
        count = weft_max_i64(count, weft_stage_addend(stage, rank) + 1);
    }
    return count;
}

/* Elements of the target that a rank receives: through an access map not all of its shard. */
static weft_box box_of(const weft_stage *stage, int rank)
{
    int64_t index = weft_mesh_index_of(stage->to->mesh, rank);
    int64_t coordinate[WEFT_MAX_DIMS], shift[WEFT_MAX_DIMS];
    weft_box box = { .extent = { 0 } };
    if (index >= 0) {
        weft_mesh_unravel(stage->to->mesh, index, coordinate);
        weft_stage_wanted(stage, coordinate, &box);
        weft_stage_shift(stage, rank, shift);
    }
    for (int d = 0; d < stage->to->ndim && index >= 0; d++) {
        box.offset[d] += shift[d];
    }
    return box;
}

/* WEFT_TASK_CACHE=check. False with the error kept. */
static bool check(const char *function, const weft_exchange *exchange)
{
    const weft_stage *stage = &exchange->stage;
    bool parts = stage->access_map != NULL;
    weft_box *boxes = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*boxes));
    for (int i = 0; i < weft_runtime.local_ranks && boxes != NULL; i++) {
        boxes[i] = box_of(stage, weft_runtime.first_rank + i);
    }
    weft_task_tensor tensors[WEFT_EXCHANGE_TENSORS] = {
        [WEFT_EXCHANGE_SOURCE] = { .layout = stage->from, .given = true, .read = WEFT_TASKS_SOME },
        [WEFT_EXCHANGE_TARGET] = { .layout = stage->to,
                                   .written = parts ? WEFT_TASKS_SOME : WEFT_TASKS_ALL,
                                   .boxes = parts ? boxes : NULL },
    };
    weft_task_call call = { .num_tensors = WEFT_EXCHANGE_TENSORS,
                            .tensors = tensors,
                            .first_rank = weft_runtime.first_rank,
                            .num_shards = weft_runtime.local_ranks,
                            .addend = stage->reduces ? addend_of : NULL,
                            .num_addends = num_addends_of(stage),
                            .context = stage };
    char why[300] = "no memory";
    weft_status status =
        boxes == NULL ? WEFT_ERR_NOMEM : weft_task_list_check(&exchange->list, &call, why, sizeof(why));
    free(boxes);
    if (status != WEFT_OK) {
        weft_fail_alone(status, function, "the tasks of a redistribution: %s", why);
    }
    return status == WEFT_OK;
}

/* The same on every process. A group forwards nothing that it receives, so all boxes go directly, unless WEFT_PLAN
 * prescribes another way. */
static bool travels_as_group(const weft_stage *stage)
{
    bool direct = stage->reduces || stage->algorithm == WEFT_DIRECT || weft_runtime.cost.algorithm == WEFT_ALGORITHM_AUTO;
    return direct && weft_runtime.comm != NULL && weft_comm_groups(weft_runtime.comm, stage);
}

weft_exchange *weft_exchange_allocate(const weft_stage *stage)
{
    weft_exchange *exchange = calloc(1, sizeof(*exchange));
    if (exchange == NULL) {
        return NULL;
    }
    exchange->stage = *stage;
    exchange->digest = digest_of(stage);
    exchange->sends = calloc((size_t)weft_runtime.num_processes, sizeof(weft_tag_range));
    exchange->receives = calloc((size_t)weft_runtime.num_processes, sizeof(weft_tag_range));
    if (exchange->sends == NULL || exchange->receives == NULL) {
        weft_exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

weft_exchange *weft_exchange_new(const char *function, const weft_stage *stage)
{
    weft_exchange *exchange = weft_exchange_allocate(stage);
    if (exchange != NULL) {
        exchange->grouped = travels_as_group(stage);
        if (exchange->grouped && !stage->reduces) {
            exchange->stage.algorithm = WEFT_DIRECT;
        }
    }
    if (exchange == NULL || !weft_exchange_lower(exchange, &exchange->list)) {
        weft_exchange_free(exchange);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a redistribution");
        return NULL;
    }
    if (weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK && !check(function, exchange)) {
        weft_exchange_free(exchange);
        return NULL;
    }
    return exchange;
}

bool weft_exchange_check_again(const char *function, const weft_exchange *exchange)
{
    weft_exchange *other = weft_exchange_new(function, &exchange->stage);
    bool same = other != NULL && weft_task_list_equal(&other->list, &exchange->list);
    if (other != NULL && !same) {
        weft_fail_alone(WEFT_ERR_STATE, function,
                        "the cached task list of a redistribution differs from a new one");
    }
    weft_exchange_free(other);
    return same;
}

size_t weft_exchange_bytes(const weft_exchange *exchange)
{
    return sizeof(*exchange) - sizeof(exchange->list) + weft_task_list_bytes(&exchange->list) +
           2 * (size_t)weft_runtime.num_processes * sizeof(weft_tag_range);
}

void weft_exchange_free(weft_exchange *exchange)
{
    if (exchange != NULL) {
        weft_task_list_free(&exchange->list);
        free(exchange->sends);
        free(exchange->receives);
        free(exchange);
    }
}

/* ---- run many times ------------------------------------------------------------------------------------ */

static void reserve_tags(weft_tag_range ranges[], bool receive)
{
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        if (ranges[p].count > 0) {
            ranges[p].first = weft_runtime.context.rehearsal != NULL
                                  ? 0
                                  : weft_comm_reserve(weft_runtime.comm, p, receive, ranges[p].count);
        }
    }
}

/* Waits before the first send. Waiting for a send of an older call is safe; a send of this call may depend
 * on other processes' later calls (comm/start_queue.h). */
static void renew_source(const weft_tensor_impl *source)
{
    for (int i = 0; i < source->num_shards; i++) {
        if (source->shards[i].count > 0) {
            weft_buffer_renew_when_due(source->shards[i].buffer);
        }
    }
}

/* All transfers of the list that will be submitted. */
static bool open_group(const weft_exchange *exchange)
{
    const weft_task_list *list = &exchange->list;
    return weft_comm_group_open(weft_runtime.comm, (int)list->num_transfers, (int)list->messages.count, exchange->digest);
}

bool weft_exchange_run(const char *function, weft_exchange *exchange, weft_tensor_impl *source,
                       weft_tensor_impl *target, bool is_new)
{
    if (!exchange->of_boxes && exchange->indices == NULL && weft_stage_is_claimed(&exchange->stage)) {
        weft_runtime.counters.bytes_moved += exchange->received.bytes;
        return weft_claimed_stage_run(function, &exchange->stage, source, target);
    }
    weft_tensor_impl *tensors[] = { [WEFT_EXCHANGE_SOURCE] = source,
                                    [WEFT_EXCHANGE_TARGET] = target,
                                    [WEFT_EXCHANGE_INDICES] = exchange->indices };
    weft_bindings bindings = { .function = function, .tensors = tensors, .on_host = exchange->of_boxes, .exchange = exchange };
    weft_bound_list bound;
    bool groups = exchange->grouped && is_new && exchange->list.num_transfers > 0 && weft_runtime.context.rehearsal == NULL;
    if (groups && !open_group(exchange)) {
        return false;
    }
    if (!weft_task_list_bind(&bound, &exchange->list, &bindings)) {
        if (groups) {
            weft_comm_group_cancel(weft_runtime.comm);
        }
        return false;
    }
    weft_runtime.operations++;
    renew_source(source);
    if (exchange->list.messages.count > 0) {
        reserve_tags(exchange->sends, false);
        reserve_tags(exchange->receives, true);
    }
    bool done = weft_task_list_submit(&bound);
    weft_runtime.counters.transfers += exchange->received.transfers;
    weft_runtime.counters.bytes_moved += exchange->received.bytes;
    weft_runtime.counters.messages += exchange->received.messages;
    return done;
}

void weft_transfer_submit(const weft_bound_list *bound, const weft_task *transfer,
                          struct weft_comm_transfer *prepared)
{
    const weft_bindings *bindings = bound->bindings;
    const weft_exchange *exchange = bindings->exchange;
    const weft_task_operand *operand = weft_task_operand_at(bound->list, transfer, 0);
    const weft_slot *slot = weft_task_list_slots(bound->list) + operand->slot;
    const weft_panel *panel = &bound->slots[operand->slot];
    bool receives = transfer->kind == WEFT_RECORD_RECEIVE;
    const weft_tensor_impl *source = bindings->tensors[WEFT_EXCHANGE_SOURCE];
    const weft_tag_range *ranges = receives ? exchange->receives : exchange->sends;
    uint64_t calls = weft_digest_add(weft_runtime.digest, exchange->digest);
    if (!receives && slot->tensor == WEFT_EXCHANGE_SOURCE) {
        source->shards[slot->shard].buffer->sends++;
    }
    weft_message *messages = weft_comm_messages(prepared);
    for (uint32_t i = 0; i < transfer->num_items; i++) {
        const weft_task_message *message = weft_task_messages(bound->list, transfer) + i;
        messages[i] = (weft_message){ .peer = message->peer,
                                      .tag = ranges[message->peer].first + message->tag,
                                      .region = message->region,
                                      .bytes = weft_region_bytes(&message->region),
                                      .source_rank = message->source_rank,
                                      .target_rank = message->target_rank,
                                      .calls = calls };
        messages[i].region.offset += panel->offset;
    }
    if (weft_runtime.context.rehearsal != NULL) {
        weft_runtime.context.rehearsal->transfer(weft_runtime.context.rehearsal, panel->handle, receives, (int)transfer->num_items,
                                         messages, weft_tensor_label(source));
        weft_comm_discard(prepared);
        return;
    }
    weft_acquired_follow_transfer(panel->handle, receives, weft_comm_pending_tasks((int)transfer->num_items));
    bool of_target = slot->tensor == WEFT_EXCHANGE_TARGET;
    weft_comm_submit_prepared(
        weft_runtime.comm, prepared, panel->handle, receives, operand->access == WEFT_SLOT_WRITE,
        of_target ? exchange->stage.to : exchange->stage.from, weft_tensor_label(source));
}
