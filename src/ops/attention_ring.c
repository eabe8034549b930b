/* Attention with sharded keys. If queries are sharded along the same mesh dimensions, blocks of keys move
 * around a ring and are added to the softmax state of each row; in the gradients of k and v blocks of
 * queries move. If queries are not sharded and are few, each rank computes the state of each row over its
 * own keys, and the states are combined. */
#include <string.h>

#include "ops/attention.h"

typedef weft_attention_operands attention;

/* ---- steps --------------------------------------------------------------------------------------------- */

weft_status weft_attention_choose(const weft_call_layouts *call, weft_sharding *sharding, char *why,
                                  size_t why_size)
{
    (void)why;
    (void)why_size;
    const weft_layout *const *inputs = call->inputs, *target = sharding->outputs[0] = inputs[0];
    sharding->num_outputs = 1;
    for (int i = 0; i < call->num_inputs; i++) {
        bool same_rows = inputs[i]->ndim == target->ndim && inputs[i]->shape[0] == target->shape[0];
        sharding->inputs[i] = inputs[i];
        sharding->rows[i] = same_rows ? WEFT_ROWS_SAME : WEFT_ROWS_ALL;
    }
    return WEFT_OK;
}

/* Runs of rows (of q) or of keys that the rank has in a step: of chunks one, of zigzag cuts two. One that is empty if it has none. */
enum { MOST_RUNS = 2 };
typedef struct spans {
    int count;
    weft_dim_run runs[MOST_RUNS];
} spans;

/* The layout of an input, of which the rank has another one's part if the input moves around the ring. */
static const weft_layout *cut_of(const weft_lowering *lowering, int input)
{
    return lowering->access_map[input] == NULL ? lowering->inputs[input] : lowering->access_map[input]->cut;
}

/* False with the error kept: no memory. */
static bool find_spans(const weft_lowering *lowering, int input, spans *of)
{
    const weft_layout *layout = cut_of(lowering, input);
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(layout->mesh, weft_mesh_index_of(layout->mesh, weft_lowering_input(lowering, input)->rank), coordinate);
    for (int m = 0; m < layout->mesh->ndim && lowering->access_map[input] != NULL; m++) {
        coordinate[m] = (coordinate[m] + lowering->access_map[input]->turn[m]) % layout->mesh->shape[m];
    }
    weft_vec runs = { 0 };
    bool done = weft_layout_runs(layout, coordinate, layout->ndim - 2, &runs);
    bool fits = done && runs.count <= MOST_RUNS; /* weft_attention_place_all() leaves no other cuts */
    *of = (spans){ .count = 1, .runs = { { .from_end = 2 } } };
    for (int i = 0; fits && i < (int)runs.count; i++) {
        const weft_run *run = (const weft_run *)runs.items + i;
        of->runs[i] = (weft_dim_run){ 2, run->local, run->rows, run->begin };
        of->count = i + 1;
    }
    if (!fits) {
        weft_fail(done ? WEFT_ERR_INTERNAL : WEFT_ERR_NOMEM, lowering->function, done ? "%d runs of rows" : "no memory for %d runs of rows",
                  (int)runs.count);
    }
    weft_vec_free(&runs);
    return fits;
}

/* A pair of runs: its tasks if the rows see keys, or if the target has no value yet. */
typedef struct span_pair {
    const weft_dim_run *rows, *keys;
    bool continues;
} span_pair;

static bool adds(const weft_lowering *lowering, const span_pair *p)
{
    bool unseen = lowering->attributes->numbers[WEFT_ATTENTION_CAUSAL] && p->keys->first >= p->rows->first + p->rows->count;
    return p->rows->count > 0 && p->keys->count > 0 && !unseen;
}

/* `q`: number of input q, before k and v. */
static bool lower_pair(const weft_lowering *lowering, int q, const span_pair *p, bool by_runs)
{
    weft_attributes own = *lowering->attributes;
    weft_lowering counted = *lowering;
    counted.attributes = &own;
    own.numbers[WEFT_ATTENTION_PARTS] |= WEFT_ATTENTION_COUNTS | (p->continues ? WEFT_ATTENTION_CONTINUES : 0);
    own.numbers[WEFT_ATTENTION_CAUSAL] &= p->keys->first + p->keys->count > p->rows->first + 1; /* else all rows see all keys */
    own.numbers[WEFT_ATTENTION_ROWS] = p->rows->count;
    own.numbers[WEFT_ATTENTION_KEYS] = p->keys->count;
    for (int i = 0; i < lowering->num_inputs && by_runs; i++) {
        counted.runs[i] = i == q + 1 || i == q + 2 ? p->keys : p->rows;
    }
    if (by_runs) {
        counted.runs[lowering->num_inputs] = lowering->operation->kernel == WEFT_KERNEL_attention_backward_kv ? p->keys : p->rows;
    }
    return weft_lower_kernel(&counted);
}

bool weft_attention_lower_step(const weft_lowering *lowering, int q)
{
    spans rows, keys;
    if (!find_spans(lowering, q, &rows) || !find_spans(lowering, q + 1, &keys)) {
        return false;
    }
    bool by_runs = cut_of(lowering, q)->has_runs || cut_of(lowering, q + 1)->has_runs, done = true;
    bool of_keys = lowering->operation->kernel == WEFT_KERNEL_attention_backward_kv;
    const spans *targets = of_keys ? &keys : &rows, *others = of_keys ? &rows : &keys;
    for (int t = 0; t < targets->count && done; t++) {
        bool continues = lowering->attributes->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_CONTINUES;
        for (int i = 0; i < others->count && done; i++) {
            const span_pair p = { &rows.runs[of_keys ? i : t], &keys.runs[of_keys ? t : i], continues };
            if (!continues || adds(lowering, &p)) {
                done = lower_pair(lowering, q, &p, by_runs);
                continues = true;
            }
        }
    }
    return done;
}

static bool lower_state_step(const weft_lowering *lowering)
{
    return weft_attention_lower_step(lowering, 1);
}

/* Input 3 is v, or the mask if there is no v. */
static const weft_operation operation_state_step = {
    .name = "attention_state",
    .gradient = WEFT_GRADIENT_OF_WHOLE("attention"),
    .choose = weft_attention_choose,
    .inputs = { WEFT_ATTENTION_WIDE("state"), WEFT_ATTENTION_ANY_FLOATING("q"),
                WEFT_ATTENTION_ANY_FLOATING("k"), WEFT_ATTENTION_MASK, WEFT_ATTENTION_MASK },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_attention_state,
    .lower = lower_state_step,
};

static const weft_operation operation_finish = {
    .name = "attention_finish",
    .gradient = WEFT_GRADIENT_OF_WHOLE("attention"),
    .rules = { "A*[w]->A[f],A" },
    .inputs = { WEFT_ATTENTION_WIDE("state") },
    .outputs = { { .type = WEFT_TYPE_GIVEN }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_attention_finish,
};

/* ---- where tensors are --------------------------------------------------------------------------------- */

static bool is_sharded(const weft_layout *layout, int m, int dim)
{
    weft_placement placement = layout->placements[m];
    return dim >= 0 && placement.kind == WEFT_SHARD && placement.dim == dim;
}

/* Whether mesh dimension m shards the tensor's rows (or keys). */
static bool is_sharded_by_rows(const weft_layout *layout, int m)
{
    return is_sharded(layout, m, layout->ndim - 2);
}

/* The result's placement along a mesh dimension without a ring: as q's or else k's or v's batch, or as q's
 * rows. */
static weft_placement place_result(const attention *a, const weft_attention_layouts *of, int m)
{
    const weft_layout *const all[] = { of->q, of->k, of->v };
    for (int i = 0; i < 3; i++) {
        const weft_layout *layout = all[i];
        weft_placement placement = layout->placements[m];
        int dim = placement.dim + a->batch - (layout->ndim - 2);
        if (placement.kind == WEFT_SHARD && placement.dim < layout->ndim - (i == 0 ? 1 : 2) &&
            layout->shape[placement.dim] == a->shape[dim]) {
            return weft_shard(dim);
        }
    }
    return weft_replicate();
}

/* The placement of the result's rows along a mesh dimension with a ring: zigzag if q, k and v are, else chunks. */
static weft_placement place_rows(const attention *a, const weft_attention_layouts *of, int m)
{
    const weft_layout *const all[] = { of->q, of->k, of->v };
    weft_placement rows = weft_shard(a->batch);
    int zigzag = 0;
    for (int i = 0; i < 3; i++) {
        weft_placement placement = all[i]->placements[m];
        zigzag += placement.cut == WEFT_CUT_ZIGZAG && placement.period == 0 &&
                  weft_layout_parts(all[i], all[i]->ndim - 2) == all[i]->mesh->shape[m];
    }
    rows.cut = zigzag == 3 && of->mask == NULL ? WEFT_CUT_ZIGZAG : WEFT_CUT_CHUNKS;
    return rows;
}

static bool any_turns(const attention *a)
{
    bool any = false;
    for (int m = 0; m < weft_layout_of(a->q)->mesh->ndim; m++) {
        any = any || a->turns[m];
    }
    return any;
}

/* The dimension of a mask to be sharded along mesh dimension m, by rows or keys. The mask is whole in the
 * dimension that moves around the ring, whose blocks other mesh dimensions cut at other places. Negative:
 * none. */
static int mask_dim(const attention *a, const weft_layout *layout, weft_attention_kind kind, int m)
{
    bool keys_stay = kind == WEFT_ATTENTION_OF_MASK_KEYS;
    bool of_keys = a->splits[m] || (keys_stay && a->turns[m]);
    bool stays = of_keys == keys_stay || !any_turns(a);
    return !stays ? -1 : of_keys ? layout->ndim - 1 : layout->ndim - 2;
}

static weft_placement place_mask(const attention *a, const weft_layout *layout, weft_attention_kind kind,
                                 int m)
{
    int dim = mask_dim(a, layout, kind, m);
    int64_t size = dim == layout->ndim - 2 ? a->shape[a->batch]
                                           : weft_layout_of(a->k)->shape[weft_layout_of(a->k)->ndim - 2];
    return dim >= 0 && layout->shape[dim] == size ? weft_shard(dim) : weft_replicate();
}

static weft_placement place_operand(const attention *a, const weft_layout *layout, weft_attention_kind kind,
                                    int m)
{
    weft_placement result = a->splits[m] ? weft_shard(a->batch) : a->placements[m];
    int rows = layout->ndim - 2;
    if (result.kind != WEFT_SHARD) {
        return result;
    }
    if (result.dim < a->batch) {
        int own = result.dim - (a->batch - rows);
        return own >= 0 && layout->shape[own] == a->shape[result.dim] ? weft_shard(own) : weft_replicate();
    }
    if (kind == WEFT_ATTENTION_OF_MASK || kind == WEFT_ATTENTION_OF_MASK_KEYS) {
        return place_mask(a, layout, kind, m);
    }
    bool has = kind == WEFT_ATTENTION_OF_ROWS ? !a->splits[m] : a->turns[m] || a->splits[m];
    result.dim = rows;
    return has ? result : weft_replicate();
}

/* ---- what moves less ----------------------------------------------------------------------------------- */

/* Bytes of k, or v, per rank. */
static double bytes_of_keys(const attention *a, const weft_layout *layout)
{
    double bytes = (double)weft_dtype_size(layout->dtype);
    for (int d = 0; d < layout->ndim; d++) {
        bytes *= (double)layout->shape[d];
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool sharded = place_operand(a, layout, WEFT_ATTENTION_OF_KEYS, m).kind == WEFT_SHARD;
        bytes /= sharded ? (double)layout->mesh->shape[m] : 1;
    }
    return bytes;
}

/* Whether gathering the states of all ranks with keys receives fewer bytes than gathering keys. If such a
 * mesh dimension shards q's batch, the states need q's other rows and all that is placed like them, while
 * only a part of the keys would be needed. */
static bool states_move_less(const attention *a, const weft_attention_layouts *of, bool back)
{
    const weft_layout *q = of->q;
    double ranks = 1, spread = 1, rows = 1, e = (double)q->shape[q->ndim - 1],
           f = (double)a->shape[a->batch + 1];
    for (int d = 0; d <= a->batch; d++) {
        rows *= (double)a->shape[d];
    }
    for (int m = 0; m < q->mesh->ndim; m++) {
        double size = (double)q->mesh->shape[m];
        rows /= a->placements[m].kind == WEFT_SHARD ? size : 1;
        ranks *= a->splits[m] ? size : 1;
        spread *= a->splits[m] && a->placements[m].kind == WEFT_SHARD ? size : 1;
    }
    double row = (back ? e + 2 * f : e) * (double)weft_dtype_size(q->dtype);
    double state =
        ((back ? 0 : f) + WEFT_ATTENTION_STATE) * (double)weft_dtype_size(weft_wide_type(q->dtype));
    double keys = bytes_of_keys(a, of->k) + bytes_of_keys(a, of->v);
    return (ranks - 1) * rows * state + (spread - 1) * rows * row < (ranks - 1) * keys / spread;
}

bool weft_attention_find_ring(attention *a, const weft_attention_layouts *of, bool backward)
{
    const weft_mesh_impl *mesh = of->q->mesh;
    if (mesh->num_ranks == 1 || of->q->ndim < 2 || of->k->ndim < 2 || of->v->ndim < 2 || of->k->mesh != mesh ||
        of->v->mesh != mesh || (of->mask != NULL && of->mask->mesh != mesh)) {
        return false;
    }
    bool turns = false, splits = false, empty = of->k->shape[of->k->ndim - 2] == 0;
    weft_attention_find_shape(a, of);
    for (int d = 0; d < a->batch + 2; d++) {
        empty = empty || a->shape[d] == 0;
    }
    for (int m = 0; m < mesh->ndim; m++) {
        bool keys = mesh->shape[m] > 1 && is_sharded_by_rows(of->k, m) && is_sharded_by_rows(of->v, m);
        a->turns[m] = keys && is_sharded_by_rows(of->q, m);
        a->splits[m] = keys && !a->turns[m];
        a->placements[m] = a->turns[m] ? place_rows(a, of, m) : place_result(a, of, m);
        turns = turns || a->turns[m];
        splits = splits || a->splits[m];
    }
    splits = splits && !empty && states_move_less(a, of, backward);
    for (int m = 0; m < mesh->ndim; m++) {
        a->splits[m] = a->splits[m] && splits;
    }
    return (turns || splits) && !empty;
}

/* ---- putting tensors there ----------------------------------------------------------------------------- */

static const weft_layout *layout_of(const attention *a, const weft_placement placements[], int ndim,
                                    const int64_t shape[], weft_dtype dtype)
{
    if (!weft_check_shape(a->function, ndim, shape)) {
        return NULL;
    }
    const weft_layout *layout =
        weft_layout_intern(weft_runtime.layouts, weft_layout_of(a->q)->mesh, placements, ndim, shape, dtype);
    if (layout == NULL) {
        weft_fail(WEFT_ERR_NOMEM, a->function, "no memory for a layout");
    }
    return layout;
}

bool weft_attention_place(const attention *a, weft_tensor **tensor, weft_attention_kind kind)
{
    if (*tensor == NULL) {
        return true;
    }
    if ((kind == WEFT_ATTENTION_OF_ROWS || kind == WEFT_ATTENTION_OF_KEYS) &&
        weft_layout_of(*tensor)->ndim == 2) {
        *tensor = weft_unsqueeze_dim(a->function, *tensor, 0);
    }
    if (*tensor == NULL) {
        return false;
    }
    const weft_layout *from = weft_layout_of(*tensor);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        placements[m] = place_operand(a, from, kind, m);
    }
    const weft_layout *to = layout_of(a, placements, from->ndim, from->shape, from->dtype);
    *tensor = to == NULL ? NULL : weft_in_layout(a->function, *tensor, to);
    return *tensor != NULL;
}

bool weft_attention_place_all(attention *a)
{
    if (a->batch == 0) {
        memmove(a->shape + 1, a->shape, 2 * sizeof(a->shape[0]));
        a->shape[0] = 1;
        a->batch = 1;
        for (int m = 0; m < weft_layout_of(a->q)->mesh->ndim; m++) {
            a->placements[m].dim += a->placements[m].kind == WEFT_SHARD;
        }
    }
    return weft_attention_place(a, &a->q, WEFT_ATTENTION_OF_ROWS) &&
           weft_attention_place(a, &a->k, WEFT_ATTENTION_OF_KEYS) &&
           weft_attention_place(a, &a->v, WEFT_ATTENTION_OF_KEYS) &&
           weft_attention_place(a, &a->mask, WEFT_ATTENTION_OF_MASK) &&
           weft_attention_place(a, &a->gradient, WEFT_ATTENTION_OF_ROWS) &&
           weft_attention_place(a, &a->output, WEFT_ATTENTION_OF_ROWS) &&
           weft_attention_place(a, &a->log_sums, WEFT_ATTENTION_OF_ROWS);
}

/* ---- a ring -------------------------------------------------------------------------------------------- */

static weft_placement place_target(const attention *a, weft_attention_kind kind, int m)
{
    if (a->splits[m]) {
        return kind == WEFT_ATTENTION_OF_STATES ? weft_shard(a->batch + 1)
               : kind == WEFT_ATTENTION_OF_KEYS ? weft_shard(a->batch)
                                                : weft_partial(WEFT_SUM);
    }
    /* Results per key are sums over rows, which are on other ranks. */
    bool adds = kind == WEFT_ATTENTION_OF_KEYS && is_sharded_by_rows(weft_layout_of(a->q), m) && !a->turns[m];
    return adds ? weft_partial(WEFT_SUM) : a->placements[m];
}

weft_tensor *weft_attention_target(const attention *a, weft_attention_kind kind, int64_t size,
                                   int64_t columns)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, (size_t)a->batch * sizeof(shape[0]));
    shape[a->batch] = size;
    shape[a->batch + 1] = columns;
    for (int m = 0; m < weft_layout_of(a->q)->mesh->ndim; m++) {
        placements[m] = place_target(a, kind, m);
        bool beside = a->splits[m] && kind == WEFT_ATTENTION_OF_STATES;
        shape[a->batch + 1] *= beside ? weft_layout_of(a->q)->mesh->shape[m] : 1;
    }
    const weft_layout *layout =
        layout_of(a, placements, a->batch + 2, shape, weft_wide_type(weft_layout_of(a->q)->dtype));
    return layout == NULL ? NULL : weft_new_tensor(a->function, layout);
}

static int64_t steps_of(const attention *a)
{
    int64_t steps = 1;
    for (int m = 0; m < weft_layout_of(a->q)->mesh->ndim; m++) {
        steps *= a->turns[m] ? weft_layout_of(a->q)->mesh->shape[m] : 1;
    }
    return steps;
}

/* The blocks of a step: those of the next ranks along the ring's mesh dimensions. */
static weft_access_map blocks_of(const attention *a, const weft_layout *layout, int64_t step)
{
    weft_access_map access_map = { .cut = layout };
    int dim = layout->ndim - 2;
    access_map.has[dim] = true;
    access_map.of[dim] = (weft_window){ .size = layout->shape[dim], .times = 1, .over = 1 };
    for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
        if (a->turns[m]) {
            access_map.turn[m] = step % layout->mesh->shape[m];
            step /= layout->mesh->shape[m];
        }
    }
    return access_map;
}

/* The call of a step, with the blocks that it works with. False with the error kept. */
static bool take_blocks(const attention *a, const weft_call *like, unsigned moving, int64_t step, weft_call *call,
                        weft_access_map access_map[])
{
    *call = *like;
    call->attributes.numbers[WEFT_ATTENTION_PARTS] |= WEFT_ATTENTION_CONTINUES;
    bool done = true;
    for (int i = 0; i < call->num_inputs && done; i++) {
        if (moving >> i & 1) {
            access_map[i] = blocks_of(a, weft_layout_of(like->inputs[i]), step);
            call->access_map[i] = &access_map[i];
            call->inputs[i] = weft_through_map(a->function, like->inputs[i], &access_map[i]);
            done = call->inputs[i] != NULL;
        }
    }
    return done;
}

/* Makes the call for every block of the inputs in `moving` (bits). Blocks of the next step are taken before those of
 * this one are used and let go: two buffers each, and StarPU delays a receive until the tasks that read the buffer
 * have ended. Returns the target. */
weft_tensor *weft_attention_go_round(const attention *a, const weft_call *call, unsigned moving)
{
    weft_call calls[2] = { *call };
    weft_access_map access_map[2][WEFT_MAX_INPUTS];
    bool done = true;
    for (int64_t step = 0, steps = steps_of(a); step < steps && done; step++) {
        int64_t next = (step + 1) % 2;
        done = step + 1 == steps || take_blocks(a, call, moving, step + 1, &calls[next], access_map[next]);
        done = done && weft_dispatch(&calls[step % 2]) != NULL;
    }
    return done ? call->inputs[0] : NULL;
}

/* Combines the states of all ranks with keys for the same rows. */
static weft_tensor *gather_states(const attention *a, weft_tensor *states, bool values)
{
    const weft_layout *from = weft_layout_of(states);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        weft_placement result = values ? a->placements[m] : weft_replicate();
        placements[m] = a->splits[m] ? result : from->placements[m];
    }
    const weft_layout *to = layout_of(a, placements, from->ndim, from->shape, from->dtype);
    return to == NULL ? NULL : weft_in_layout(a->function, states, to);
}

weft_tensor *weft_attention_state(const attention *a, bool values)
{
    int64_t columns = (values ? a->shape[a->batch + 1] : 0) + WEFT_ATTENTION_STATE;
    weft_tensor *state = weft_attention_target(a, WEFT_ATTENTION_OF_STATES, a->shape[a->batch], columns);
    if (state == NULL) {
        return NULL;
    }
    weft_call call = weft_attention_call(a, &operation_state_step, values ? WEFT_ATTENTION_HAS_V : 0);
    weft_attention_add_input(&call, state);
    weft_attention_add_input(&call, a->q);
    weft_attention_add_input(&call, a->k);
    weft_attention_add_input(&call, values ? a->v : NULL);
    weft_attention_add_input(&call, a->mask);
    state = weft_attention_go_round(a, &call, values ? 1u << 2 | 1u << 3 : 1u << 2);
    return state == NULL ? NULL : gather_states(a, state, values);
}

bool weft_attention_in_ring(attention *a, int results, weft_tensor *outputs[])
{
    bool flat = a->batch == 0;
    weft_tensor *state = weft_attention_place_all(a) ? weft_attention_state(a, true) : NULL;
    if (state == NULL) {
        return false;
    }
    bool done = weft_dispatch_all(&(weft_call){ .function = a->function,
                                                .operation = &operation_finish,
                                                .num_inputs = 1,
                                                .inputs = { state },
                                                .attributes = { .type = (int64_t)weft_layout_of(a->q)->dtype,
                                                                .omitted = 2 - results,
                                                                .num_sizes = 1,
                                                                .sizes = { a->shape[a->batch + 1] } } },
                                  outputs);
    for (int o = 0; o < results && done && flat; o++) {
        outputs[o] = weft_squeeze_dims(a->function, outputs[o], 1);
        done = outputs[o] != NULL;
    }
    return done;
}

const weft_operation *const weft_attention_ring_operations[] = { &operation_state_step, &operation_finish,
                                                                 NULL };
