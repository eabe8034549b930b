/* The traffic of a plan, over all ranks. */
#include <stdlib.h>

#include "plan/traffic.h"

/* More messages than this are not listed. */
static const int64_t max_messages = 50000000;

/* Per rank, over all stages. */
typedef struct traffic {
    int64_t *in, *out, *messages_in, *messages_out;
} traffic;

static void add_traffic(const weft_stage *stage, int num_ranks, traffic *t)
{
    for (int rank = 0; rank < num_ranks; rank++) {
        weft_traffic total = weft_stage_traffic(stage, rank);
        t->in[rank] = weft_add_saturated(t->in[rank], total.bytes_in);
        t->out[rank] = weft_add_saturated(t->out[rank], total.bytes_out);
        t->messages_in[rank] = weft_add_saturated(t->messages_in[rank], total.messages_in);
        t->messages_out[rank] = weft_add_saturated(t->messages_out[rank], total.messages_out);
    }
}

static weft_status add_listed(const weft_stage *stage, const weft_topology *topology, traffic *t)
{
    int64_t size = (int64_t)weft_dtype_size(stage->from->dtype);
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        weft_transfers moves = { 0 };
        weft_status status = weft_stage_receives(stage, topology, rank, &moves);
        for (size_t i = 0; i < moves.count && status == WEFT_OK; i++) {
            int peer = moves.items[i].peer;
            int64_t bytes = weft_box_count(stage->from->ndim, &moves.items[i].box) * size;
            if (peer != rank) {
                t->in[rank] = weft_add_saturated(t->in[rank], bytes);
                t->out[peer] = weft_add_saturated(t->out[peer], bytes);
                t->messages_in[rank]++;
                t->messages_out[peer]++;
            }
        }
        weft_transfers_free(&moves);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

static int64_t count_messages(const weft_stage *stage, int num_ranks)
{
    int64_t messages = 0;
    for (int rank = 0; rank < num_ranks; rank++) {
        messages = weft_add_saturated(messages, weft_stage_traffic(stage, rank).messages_in);
    }
    return messages;
}

/* Ranks that belong to either of two meshes. */
static int64_t count_participants(const weft_mesh_impl *a, const weft_mesh_impl *b)
{
    int64_t count = a->num_ranks;
    for (int64_t i = 0; i < b->num_ranks && a != b; i++) {
        count += weft_mesh_index_of(a, weft_mesh_rank_at(b, i)) < 0;
    }
    return count;
}

/* For each element, and each coordinate along the Partial dimensions that stay. */
typedef struct reduction {
    int64_t addends, copies; /* ranks that need the result */
    int64_t times;           /* coordinates along the Partial dimensions that stay */
} reduction;

static reduction reduction_of(const weft_layout *from, const weft_layout *to)
{
    reduction r = { 1, 1, 1 };
    bool same_mesh = from->mesh == to->mesh;
    for (int m = 0; m < from->mesh->ndim; m++) {
        bool partial = from->placements[m].kind == WEFT_PARTIAL;
        bool stays = partial && same_mesh && to->placements[m].kind == WEFT_PARTIAL;
        r.addends *= partial && !stays ? from->mesh->shape[m] : 1;
        r.times *= stays ? from->mesh->shape[m] : 1;
    }
    for (int m = 0; m < to->mesh->ndim; m++) {
        r.copies *= to->placements[m].kind == WEFT_REPLICATE ? to->mesh->shape[m] : 1;
    }
    return r;
}

/* Without a reduction a rank must receive the data that it lacks. With a reduction of n > 1 addends:
 *  - a rank holds at most one addend of an element, so each element of its result takes a transfer to it;
 *  - the first rank that knows an element's result has been reached from all other addends, which takes n - 1
 *    transfers; each further rank that needs the result takes one more, later. Some rank takes the average of
 *    these transfers or more.
 * With n ranks that is (n - 1) / n of the tensor for a reduce-scatter and 2 (n - 1) / n for an all-reduce:
 * the bounds of P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of
 * workstations, 2009. */
static int64_t lower_bound(const weft_plan *plan, int num_ranks)
{
    const weft_layout *from = plan->from, *to = plan->to;
    int64_t bound = 0, size = (int64_t)weft_dtype_size(to->dtype), elements = 1;
    reduction r = reduction_of(from, to);
    for (int rank = 0; rank < num_ranks; rank++) {
        int64_t needed =
            r.addends > 1 ? weft_layout_shard_count(to, rank) * size : weft_missing_bytes(from, to, rank);
        bound = weft_max_i64(bound, needed);
    }
    int64_t bytes, transfers;
    if (r.addends > 1 && weft_count_checked(from->ndim, from->shape, &elements) &&
        weft_mul_checked(elements, size, &bytes) &&
        weft_mul_checked(bytes, r.times * (r.addends - 1 + r.copies - 1), &transfers)) {
        bound = weft_max_i64(bound, transfers / count_participants(from->mesh, to->mesh));
    }
    return bound;
}

static void summarize(const traffic *t, int num_ranks, weft_plan_statistics *out)
{
    for (int rank = 0; rank < num_ranks; rank++) {
        out->bytes_total = weft_add_saturated(out->bytes_total, t->in[rank]);
        out->bytes_in_max = weft_max_i64(out->bytes_in_max, t->in[rank]);
        out->bytes_out_max = weft_max_i64(out->bytes_out_max, t->out[rank]);
        out->messages_max = weft_max_i64(out->messages_max, t->messages_in[rank]);
        out->messages_max = weft_max_i64(out->messages_max, t->messages_out[rank]);
    }
}

weft_status weft_plan_measure(const weft_plan *plan, const weft_topology *topology, weft_plan_statistics *out)
{
    int num_ranks = topology->num_ranks;
    int64_t *numbers = calloc(4 * (size_t)num_ranks, sizeof(*numbers));
    if (numbers == NULL) {
        return WEFT_ERR_NOMEM;
    }
    traffic t = { numbers, numbers + num_ranks, numbers + 2 * (size_t)num_ranks,
                  numbers + 3 * (size_t)num_ranks };
    *out = (weft_plan_statistics){ .ranks = num_ranks, .exact = true };
    weft_status status = WEFT_OK;
    for (int i = 0; i < plan->num_stages && status == WEFT_OK; i++) {
        const weft_stage *stage = &plan->stages[i];
        bool exact = weft_stage_traffic_exact(stage, topology);
        if (!exact && count_messages(stage, num_ranks) <= max_messages) {
            status = add_listed(stage, topology, &t);
        } else {
            out->exact = out->exact && exact;
            add_traffic(stage, num_ranks, &t);
        }
    }
    summarize(&t, num_ranks, out);
    out->lower_bound_bytes_in_max = lower_bound(plan, num_ranks);
    free(numbers);
    return status;
}
