/* What a plan moves, over all ranks. */
#include <stdlib.h>

#include "plan/totals.h"

/* Above this many messages they are not listed any more. */
static const int64_t most_messages = 50000000;

static bool closed_form_is_exact(const weft_stage *stage, const weft_topology *topology)
{
    bool aligned = topology->num_processes == 1 || topology->num_processes == topology->num_ranks;
    return aligned && stage->from->mesh == stage->to->mesh;
}

/* Per rank, over all stages. */
typedef struct traffic {
    int64_t *in, *out, *messages_in, *messages_out;
} traffic;

static void add_totals(const weft_stage *stage, int num_ranks, traffic *t)
{
    for (int rank = 0; rank < num_ranks; rank++) {
        weft_totals totals = weft_stage_totals(stage, rank);
        t->in[rank] += totals.bytes_in;
        t->out[rank] += totals.bytes_out;
        t->messages_in[rank] += totals.messages_in;
        t->messages_out[rank] += totals.messages_out;
    }
}

static weft_status add_listed(const weft_stage *stage, const weft_topology *topology, traffic *t)
{
    int64_t size = (int64_t)weft_dtype_size(stage->from->dtype);
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        weft_moves moves = { 0 };
        weft_status status = weft_stage_receives(stage, topology, rank, &moves);
        for (size_t i = 0; i < moves.count && status == WEFT_OK; i++) {
            int peer = moves.items[i].peer;
            int64_t bytes = weft_box_count(stage->from->ndim, &moves.items[i].box) * size;
            if (peer != rank) {
                t->in[rank] += bytes;
                t->out[peer] += bytes;
                t->messages_in[rank]++;
                t->messages_out[peer]++;
            }
        }
        weft_moves_free(&moves);
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
        messages += weft_stage_totals(stage, rank).messages_in;
    }
    return messages;
}

/* Every rank must receive what it lacks. Where addends are reduced, a rank that holds one of n can lack all: in a
 * reduce-scatter over n ranks each of the n - 1 other addends of an element crosses a link at least once, reduced or not,
 * so the busiest rank takes at least (n - 1) / n of a full addend; an all-reduce twice that (Patarasuk and Yuan, 2009). */
static int64_t lower_bound(const weft_plan *plan, int num_ranks)
{
    int64_t bound = 0;
    int64_t addends = 1, copies = 1;
    bool same_mesh = plan->from->mesh == plan->to->mesh;
    for (int m = 0; m < plan->from->mesh->ndim; m++) {
        bool partial = plan->from->placements[m].kind == WEFT_PARTIAL;
        bool kept = partial && same_mesh && plan->to->placements[m].kind == WEFT_PARTIAL;
        if (partial && !kept) {
            addends *= plan->from->mesh->shape[m];
            copies *= same_mesh && plan->to->placements[m].kind == WEFT_REPLICATE ? plan->from->mesh->shape[m] : 1;
        }
    }
    if (addends == 1) {
        for (int rank = 0; rank < num_ranks; rank++) {
            bound = weft_max_i64(bound, weft_missing_bytes(plan->from, plan->to, rank));
        }
        return bound;
    }
    if (!same_mesh || plan->num_stages == 0) {
        return 0;
    }
    /* All traffic into the mesh, shared evenly. Every element exists in shards x addends copies before; those that reduce to
     * one need (addends - 1) transfers, and each further copy of the result one more. */
    int64_t size = (int64_t)weft_dtype_size(plan->from->dtype), elements = 1;
    weft_count_checked(plan->from->ndim, plan->from->shape, &elements);
    int64_t total = elements * size * (addends - 1 + copies - 1);
    return total / plan->from->mesh->num_ranks;
}

static void summarize(const traffic *t, int num_ranks, weft_plan_statistics *out)
{
    for (int rank = 0; rank < num_ranks; rank++) {
        out->bytes_total += t->in[rank];
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
    traffic t = { numbers, numbers + num_ranks, numbers + 2 * (size_t)num_ranks, numbers + 3 * (size_t)num_ranks };
    *out = (weft_plan_statistics){ .ranks = num_ranks, .exact = true };
    weft_status status = WEFT_OK;
    for (int i = 0; i < plan->num_stages && status == WEFT_OK; i++) {
        const weft_stage *stage = &plan->stages[i];
        bool listed = !closed_form_is_exact(stage, topology) && count_messages(stage, num_ranks) <= most_messages;
        if (listed) {
            status = add_listed(stage, topology, &t);
        } else {
            out->exact = out->exact && closed_form_is_exact(stage, topology);
            add_totals(stage, num_ranks, &t);
        }
    }
    summarize(&t, num_ranks, out);
    out->lower_bound_bytes_in_max = lower_bound(plan, num_ranks);
    free(numbers);
    return status;
}
