/* Attention and its gradients. Where queries and keys are sharded along the same mesh dimensions, blocks of
 * the keys go round (ring) and are added to what is known of each row so far; in the gradients of k and v,
 * blocks of the queries. */
#include "codelets/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/statistics.h"

/* ---- rules --------------------------------------------------------------------------------------------- */

static bool has_part(const weft_call *call, int64_t part)
{
    return call->attributes.numbers[WEFT_ATTENTION_PARTS] & part;
}

/* The mask's last dimensions are s and t, those of q and k, which is behind q; those of size 1 are repeated,
 * and so is what comes before. The mask is the last input. "" for none. */
static const char *write_mask(const weft_call *call, const weft_layout *const inputs[], int q, char text[16])
{
    const weft_layout *mask = inputs[call->num_inputs - 1], *const *sides = &inputs[q];
    char names[3] = "";
    int used = 0;
    if (!has_part(call, WEFT_ATTENTION_HAS_MASK)) {
        return strcpy(text, "");
    }
    for (int d = mask->ndim < 2 ? 2 - mask->ndim : 0; d < 2; d++) {
        int64_t target = sides[d]->ndim < 2 ? 1 : sides[d]->shape[sides[d]->ndim - 2];
        names[used++] = mask->shape[mask->ndim - 2 + d] == 1 && target != 1 ? '1' : "st"[d];
    }
    snprintf(text, 16, ",%s%s", mask->ndim > 2 ? "..." : "", names);
    return text;
}

static void write_rule(const weft_call *call, const weft_layout *const inputs[], char *text, size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[e],...[te],...[t]f%s->...sf", write_mask(call, inputs, 0, mask));
}

static void write_state_rule(const weft_call *call, const weft_layout *const inputs[], char *text,
                             size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[e],...[te]%s->...s[w]", write_mask(call, inputs, 0, mask));
}

static void write_backward_q_rule(const weft_call *call, const weft_layout *const inputs[], char *text,
                                  size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[f],...s[e],...t[e],...t[f],...s[w]%s->...s[e]",
             write_mask(call, inputs, 1, mask));
}

static void write_backward_kv_rule(const weft_call *call, const weft_layout *const inputs[], char *text,
                                   size_t size)
{
    char mask[16];
    snprintf(text, size, "...s[f],...s[e],...t[e],...t[f],...s[w]%s->...t[x]",
             write_mask(call, inputs, 1, mask));
}

/* ---- steps of a ring ----------------------------------------------------------------------------------- */

/* A step is in place, on tensors that were put where it needs them. */
static weft_status choose_as_they_lie(const weft_call *call, const weft_layout *const inputs[],
                                      weft_choice *choice, char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    const weft_layout *target = choice->output = inputs[0];
    for (int i = 0; i < call->num_inputs; i++) {
        bool same_rows = inputs[i]->ndim == target->ndim && inputs[i]->shape[0] == target->shape[0];
        choice->inputs[i] = inputs[i];
        choice->rows[i] = same_rows ? WEFT_ROWS_SAME : WEFT_ROWS_ALL;
    }
    return WEFT_OK;
}

/* Rows of q, or keys: global numbers of those that the rank has in a step. */
static void span_of(const weft_lowering *lowering, int input, int64_t *first, int64_t *end)
{
    const weft_local_shard *shard = weft_lowering_input(lowering, input);
    const weft_layout *layout = lowering->inputs[input]->layout;
    weft_box box = shard->box;
    if (lowering->windows[input] != NULL) {
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(layout->mesh, weft_mesh_index_of(layout->mesh, shard->rank), coordinate);
        weft_windows_box(lowering->windows[input], coordinate, &box);
    }
    *first = box.offset[layout->ndim - 2];
    *end = *first + box.extent[layout->ndim - 2];
}

/* A block that adds nothing is passed over, but for the first one, which sets the target. */
static bool lower_step(const weft_lowering *lowering, int q)
{
    const weft_call *call = lowering->call;
    int64_t row, row_end, key, key_end;
    span_of(lowering, q, &row, &row_end);
    span_of(lowering, q + 1, &key, &key_end);
    bool unseen = call->attributes.numbers[WEFT_ATTENTION_CAUSAL] && key >= row_end;
    bool adds = row < row_end && key < key_end && !unseen;
    if (!adds && has_part(call, WEFT_ATTENTION_CONTINUES)) {
        return true;
    }
    weft_call own = *call;
    weft_lowering counted = *lowering;
    counted.call = &own;
    own.attributes.numbers[WEFT_ATTENTION_PARTS] |= WEFT_ATTENTION_COUNTS;
    own.attributes.numbers[WEFT_ATTENTION_ROWS] = row_end - row;
    own.attributes.numbers[WEFT_ATTENTION_KEYS] = key_end - key;
    return weft_lower_kernel(&counted);
}

static bool lower_state_step(const weft_lowering *lowering)
{
    return lower_step(lowering, 1);
}

static bool lower_backward_step(const weft_lowering *lowering)
{
    return lower_step(lowering, 2);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

#define FLOATING(argument)                                                                                   \
    {                                                                                                        \
        argument, WEFT_TYPES_FLOAT, true                                                                     \
    }
#define ANY_FLOATING(argument)                                                                               \
    {                                                                                                        \
        argument, WEFT_TYPES_FLOAT, false                                                                    \
    }
#define WIDE(argument)                                                                                       \
    {                                                                                                        \
        argument, WEFT_TYPES_WIDE, false                                                                     \
    }
#define MASK                                                                                                 \
    {                                                                                                        \
        "mask", WEFT_TYPES_FLOAT | WEFT_TYPES_BOOL, false                                                    \
    }

static const weft_operation operation_attention = {
    .name = "attention",
    .gradient = "attention_backward_q, attention_backward_kv",
    .write_rule = write_rule,
    .rule_like = "...s[e],...[te],...[t]f->...sf",
    .inputs = { FLOATING("q"), FLOATING("k"), FLOATING("v"), MASK },
    .kernel = weft_kernel_attention,
};

static const weft_operation operation_state = {
    .name = "attention_state",
    .write_rule = write_state_rule,
    .rule_like = "...s[e],...[te]->...s[w]",
    .inputs = { FLOATING("q"), FLOATING("k"), MASK },
    .output_type = WEFT_TYPE_GIVEN,
    .kernel = weft_kernel_attention_state,
};

/* Without v the mask is in its place. */
static const weft_operation operation_state_step = {
    .name = "attention_state",
    .choose = choose_as_they_lie,
    .inputs = { WIDE("state"), ANY_FLOATING("q"), ANY_FLOATING("k"), MASK, MASK },
    .in_place = true,
    .kernel = weft_kernel_attention_state,
    .lower = lower_state_step,
};

static const weft_operation operation_finish = {
    .name = "attention_finish",
    .rules = { "A[w]->A[f]" },
    .inputs = { WIDE("state") },
    .output_type = WEFT_TYPE_GIVEN,
    .kernel = weft_kernel_attention_finish,
};

static const weft_operation operation_statistics = {
    .name = "attention_statistics",
    .rules = { "A[w],A[f],A[f]->A[w]" },
    .inputs = { WIDE("state"), ANY_FLOATING("gradient"), ANY_FLOATING("output") },
    .kernel = weft_kernel_attention_statistics,
};

#define BACKWARD(name_, rule, like, kernel_)                                                                 \
    static const weft_operation operation_##name_ = {                                                        \
        .name = "attention_" #name_,                                                                         \
        .write_rule = rule,                                                                                  \
        .rule_like = like,                                                                                   \
        .inputs = { FLOATING("gradient"), FLOATING("q"), FLOATING("k"), FLOATING("v"), WIDE("statistics"),   \
                    MASK },                                                                                  \
        .output_type = WEFT_TYPE_GIVEN,                                                                      \
        .kernel = kernel_,                                                                                   \
    };                                                                                                       \
    static const weft_operation operation_##name_##_step = {                                                 \
        .name = "attention_" #name_,                                                                         \
        .choose = choose_as_they_lie,                                                                        \
        .inputs = { WIDE("target"), ANY_FLOATING("gradient"), ANY_FLOATING("q"), ANY_FLOATING("k"),          \
                    ANY_FLOATING("v"), WIDE("statistics"), MASK },                                           \
        .in_place = true,                                                                                    \
        .kernel = kernel_,                                                                                   \
        .lower = lower_backward_step,                                                                        \
    };

BACKWARD(backward_q, write_backward_q_rule, "...s[f],...s[e],...t[e],...t[f],...s[w]->...s[e]",
         weft_kernel_attention_backward_q)
BACKWARD(backward_kv, write_backward_kv_rule, "...s[f],...s[e],...t[e],...t[f],...s[w]->...t[x]",
         weft_kernel_attention_backward_kv)

/* ---- calls --------------------------------------------------------------------------------------------- */

/* All tensors of a call; gradient and output: NULL going forward. */
typedef struct attention {
    const char *function;
    weft_tensor *q, *k, *v, *mask, *gradient, *output;
    bool causal;
    double scale;
    int batch;                    /* dimensions of the result before the last two */
    int64_t shape[WEFT_MAX_DIMS]; /* of the result: batch, s, f */
    /* Of a ring: mesh dimensions along which blocks go round, and where else the result's batch and rows are
     * sharded. */
    bool turns[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
} attention;

static weft_call call_of(const attention *a, const weft_operation *operation, int64_t parts)
{
    parts |= a->mask != NULL ? WEFT_ATTENTION_HAS_MASK : 0;
    return (weft_call){
        .function = a->function,
        .operation = operation,
        .attributes = { .num_numbers = WEFT_ATTENTION_NUMBERS,
                        .numbers = { [WEFT_ATTENTION_CAUSAL] = a->causal, [WEFT_ATTENTION_PARTS] = parts } },
        .scalars = { a->scale },
    };
}

/* NULL: not this one. */
static void add_input(weft_call *call, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
    }
}

static weft_call forward_call(const attention *a)
{
    weft_call call = call_of(a, &operation_attention, WEFT_ATTENTION_HAS_V);
    weft_tensor *const inputs[] = { a->q, a->k, a->v, a->mask };
    memcpy(call.inputs, inputs, sizeof(inputs));
    call.num_inputs = a->mask == NULL ? 3 : 4;
    return call;
}

static bool begin(attention *a, const weft_attention_options *options)
{
    weft_attention_options given = options == NULL ? (weft_attention_options){ .causal = false } : *options;
    a->causal = given.causal;
    a->scale = given.scale;
    a->mask = given.mask;
    a->q = weft_check_tensor(a->function, "q", a->q);
    if (a->q == NULL) {
        return false;
    }
    if (a->scale == 0 && a->q->layout->ndim > 0) {
        a->scale = 1 / sqrt((double)a->q->layout->shape[a->q->layout->ndim - 1]);
    }
    return true;
}

/* Of tensors that fit together. */
static void find_shape(attention *a)
{
    const weft_tensor *all[] = { a->q, a->k, a->v, a->mask };
    a->batch = 0;
    for (int i = 0; i < 4; i++) {
        int dims = all[i] == NULL ? 0 : all[i]->layout->ndim - 2;
        a->batch = dims > a->batch ? dims : a->batch;
    }
    for (int d = 0; d < a->batch; d++) {
        a->shape[d] = 1;
        for (int i = 0; i < 4; i++) {
            int own = all[i] == NULL ? -1 : d - (a->batch - (all[i]->layout->ndim - 2));
            if (own >= 0 && all[i]->layout->shape[own] != 1) {
                a->shape[d] = all[i]->layout->shape[own];
            }
        }
    }
    a->shape[a->batch] = a->q->layout->shape[a->q->layout->ndim - 2];
    a->shape[a->batch + 1] = a->v->layout->shape[a->v->layout->ndim - 1];
}

/* ---- where a ring has its tensors ---------------------------------------------------------------------- */

static bool is_sharded(const weft_tensor *tensor, int m, int dim)
{
    weft_placement placement = tensor->layout->placements[m];
    return dim >= 0 && placement.kind == WEFT_SHARD && placement.dim == dim;
}

/* Along mesh dimension m: its rows (or keys). */
static bool is_sharded_by_rows(const weft_tensor *tensor, int m)
{
    return is_sharded(tensor, m, tensor->layout->ndim - 2);
}

/* Where the result lies along a mesh dimension along which nothing goes round: as q, else as k or v, in its
 * batch; or as q in its rows. */
static weft_placement place_result(const attention *a, int m)
{
    const weft_tensor *all[] = { a->q, a->k, a->v };
    for (int i = 0; i < 3; i++) {
        const weft_layout *layout = all[i]->layout;
        weft_placement placement = layout->placements[m];
        int dim = placement.dim + a->batch - (layout->ndim - 2);
        if (placement.kind == WEFT_SHARD && placement.dim < layout->ndim - (i == 0 ? 1 : 2) &&
            layout->shape[placement.dim] == a->shape[dim]) {
            return weft_shard(dim);
        }
    }
    return weft_replicate();
}

/* Whether the sequences of q, k and v are sharded along the same mesh dimensions: then only blocks move.
 * Fills in the shape and the placements. */
static bool find_ring(attention *a)
{
    const weft_mesh *mesh = a->q->layout->mesh;
    bool any = false, empty = a->k->layout->shape[a->k->layout->ndim - 2] == 0;
    if (a->k->layout->mesh != mesh || a->v->layout->mesh != mesh ||
        (a->mask != NULL && a->mask->layout->mesh != mesh)) {
        return false;
    }
    find_shape(a);
    for (int d = 0; d < a->batch + 2; d++) {
        empty = empty || a->shape[d] == 0;
    }
    for (int m = 0; m < mesh->ndim; m++) {
        a->turns[m] = mesh->shape[m] > 1 && is_sharded_by_rows(a->q, m) && is_sharded_by_rows(a->k, m) &&
                      is_sharded_by_rows(a->v, m);
        a->placements[m] = a->turns[m] ? weft_shard(a->batch) : place_result(a, m);
        any = any || a->turns[m];
    }
    return any && !empty;
}

/* A mask has rows where the result has, and all keys; or, where rows go round, all rows along these mesh
 * dimensions, and the keys that stay. */
typedef enum operand_kind { OF_ROWS, OF_KEYS, OF_MASK, OF_MASK_KEYS } operand_kind;

static weft_placement place_mask(const attention *a, const weft_layout *layout, operand_kind kind, int m)
{
    int dim = kind == OF_MASK_KEYS && a->turns[m] ? layout->ndim - 1 : layout->ndim - 2;
    int64_t size = dim == layout->ndim - 2 ? a->shape[a->batch] : a->k->layout->shape[a->k->layout->ndim - 2];
    return dim >= 0 && layout->shape[dim] == size ? weft_shard(dim) : weft_replicate();
}

static weft_placement place_operand(const attention *a, const weft_layout *layout, operand_kind kind, int m)
{
    weft_placement result = a->placements[m];
    int rows = layout->ndim - 2;
    if (result.kind != WEFT_SHARD) {
        return result;
    }
    if (result.dim < a->batch) {
        int own = result.dim - (a->batch - rows);
        return own >= 0 && layout->shape[own] == a->shape[result.dim] ? weft_shard(own) : weft_replicate();
    }
    if (kind == OF_MASK || kind == OF_MASK_KEYS) {
        return place_mask(a, layout, kind, m);
    }
    return kind == OF_ROWS || a->turns[m] ? weft_shard(rows) : weft_replicate();
}

static const weft_layout *layout_of(const attention *a, const weft_placement placements[], int ndim,
                                    const int64_t shape[], weft_dtype dtype)
{
    if (!weft_check_shape(a->function, ndim, shape)) {
        return NULL;
    }
    const weft_layout *layout =
        weft_layout_intern(weft_runtime.layouts, a->q->layout->mesh, placements, ndim, shape, dtype);
    if (layout == NULL) {
        weft_fail(WEFT_ERR_NOMEM, a->function, "no memory for a layout");
    }
    return layout;
}

/* Puts a tensor where the ring needs it, with a dimension before the last two. False with the error kept. */
static bool place(const attention *a, weft_tensor **tensor, operand_kind kind)
{
    if (*tensor == NULL) {
        return true;
    }
    if ((kind == OF_ROWS || kind == OF_KEYS) && (*tensor)->layout->ndim == 2) {
        *tensor = weft_unsqueeze_dim(a->function, *tensor, 0);
    }
    if (*tensor == NULL) {
        return false;
    }
    const weft_layout *from = (*tensor)->layout;
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < from->mesh->ndim; m++) {
        placements[m] = place_operand(a, from, kind, m);
    }
    const weft_layout *to = layout_of(a, placements, from->ndim, from->shape, from->dtype);
    *tensor = to == NULL ? NULL : weft_tensor_to_layout(a->function, *tensor, to);
    return *tensor != NULL;
}

/* All of them, in an open scope. */
static bool place_all(attention *a)
{
    if (a->batch == 0) {
        memmove(a->shape + 1, a->shape, 2 * sizeof(a->shape[0]));
        a->shape[0] = 1;
        a->batch = 1;
        for (int m = 0; m < a->q->layout->mesh->ndim; m++) {
            a->placements[m].dim += a->placements[m].kind == WEFT_SHARD;
        }
    }
    return place(a, &a->q, OF_ROWS) && place(a, &a->k, OF_KEYS) && place(a, &a->v, OF_KEYS) &&
           place(a, &a->mask, OF_MASK) && place(a, &a->gradient, OF_ROWS) && place(a, &a->output, OF_ROWS);
}

/* ---- a ring -------------------------------------------------------------------------------------------- */

/* A tensor of undefined values for the results of rows, or of keys: `size` of them, `columns` each. */
static weft_tensor *new_target(const attention *a, operand_kind kind, int64_t size, int64_t columns)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, (size_t)a->batch * sizeof(shape[0]));
    shape[a->batch] = size;
    shape[a->batch + 1] = columns;
    for (int m = 0; m < a->q->layout->mesh->ndim; m++) {
        /* What belongs to keys is added up over rows, which other ranks have. */
        bool adds = kind == OF_KEYS && is_sharded_by_rows(a->q, m) && !a->turns[m];
        placements[m] = adds ? weft_partial(WEFT_SUM) : a->placements[m];
    }
    const weft_layout *layout =
        layout_of(a, placements, a->batch + 2, shape, weft_wide_type(a->q->layout->dtype));
    return layout == NULL ? NULL : weft_tensor_new(a->function, layout);
}

static int64_t steps_of(const attention *a)
{
    int64_t steps = 1;
    for (int m = 0; m < a->q->layout->mesh->ndim; m++) {
        steps *= a->turns[m] ? a->q->layout->mesh->shape[m] : 1;
    }
    return steps;
}

/* What the ranks work with in a step: the blocks of those further along the mesh dimensions that turn. */
static weft_windows blocks_of(const attention *a, const weft_layout *layout, int64_t step)
{
    weft_windows windows = { .cut = layout };
    int dim = layout->ndim - 2;
    windows.has[dim] = true;
    windows.of[dim] = (weft_window){ .size = layout->shape[dim], .times = 1, .over = 1 };
    for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
        if (a->turns[m]) {
            windows.turn[m] = step % layout->mesh->shape[m];
            step /= layout->mesh->shape[m];
        }
    }
    return windows;
}

/* The blocks are put into `blocks`, with a reference of the caller's. */
static bool run_step(const attention *a, const weft_call *like, unsigned moving, int64_t step,
                     weft_tensor *blocks[])
{
    weft_call call = *like;
    weft_windows windows[WEFT_MAX_INPUTS];
    for (int i = 0; i < call.num_inputs && step > 0; i++) {
        if (moving >> i & 1) {
            windows[i] = blocks_of(a, call.inputs[i]->layout, step);
            call.windows[i] = &windows[i];
            call.inputs[i] = blocks[i] = weft_tensor_windows(a->function, call.inputs[i], &windows[i]);
            if (blocks[i] == NULL) {
                return false;
            }
            weft_tensor_retain(blocks[i]);
        }
    }
    call.attributes.numbers[WEFT_ATTENTION_PARTS] |= step > 0 ? WEFT_ATTENTION_CONTINUES : 0;
    return weft_dispatch(&call) != NULL;
}

static void let_go(weft_tensor *blocks[])
{
    for (int i = 0; i < WEFT_MAX_INPUTS; i++) {
        if (blocks[i] != NULL) {
            weft_tensor_release(blocks[i]);
        }
        blocks[i] = NULL;
    }
}

/* The call for every block of the inputs in `moving` (bits). The blocks of one step are held until those of
 * the next one have their memory, and then give back theirs: two buffers each, and StarPU has what is received
 * into one wait for the tasks that read it before. Returns the target. */
static weft_tensor *go_round(const attention *a, const weft_call *call, unsigned moving)
{
    weft_tensor *blocks[2][WEFT_MAX_INPUTS] = { { NULL } };
    bool done = true;
    for (int64_t step = 0, steps = steps_of(a); step < steps && done; step++) {
        weft_scope_open();
        done = run_step(a, call, moving, step, blocks[step % 2]);
        weft_scope_close();
        let_go(blocks[(step + 1) % 2]);
    }
    let_go(blocks[0]);
    let_go(blocks[1]);
    return done ? call->inputs[0] : NULL;
}

/* What is known of each row after all keys; without values where they are not asked for. */
static weft_tensor *ring_state(const attention *a, bool values)
{
    int64_t columns = (values ? a->shape[a->batch + 1] : 0) + WEFT_ATTENTION_STATE;
    weft_tensor *state = new_target(a, OF_ROWS, a->shape[a->batch], columns);
    if (state == NULL) {
        return NULL;
    }
    weft_call call = call_of(a, &operation_state_step, values ? WEFT_ATTENTION_HAS_V : 0);
    add_input(&call, state);
    add_input(&call, a->q);
    add_input(&call, a->k);
    add_input(&call, values ? a->v : NULL);
    add_input(&call, a->mask);
    return go_round(a, &call, values ? 1u << 2 | 1u << 3 : 1u << 2);
}

/* In an open scope. */
static weft_tensor *attend_in_ring(attention *a)
{
    bool flat = a->batch == 0;
    weft_tensor *state = place_all(a) ? ring_state(a, true) : NULL;
    if (state == NULL) {
        return NULL;
    }
    weft_tensor *result = weft_dispatch(&(weft_call){
        .function = a->function,
        .operation = &operation_finish,
        .num_inputs = 1,
        .inputs = { state },
        .attributes = {
            .type = (int64_t)a->q->layout->dtype, .num_sizes = 1, .sizes = { a->shape[a->batch + 1] } } });
    return result == NULL || !flat ? result : weft_squeeze_dims(a->function, result, 1);
}

weft_tensor *weft_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                            const weft_attention_options *options)
{
    attention a = { .function = "weft_attention", .q = q, .k = k, .v = v };
    if (!begin(&a, options)) {
        return NULL;
    }
    weft_call call = forward_call(&a);
    if (!weft_is_cut(a.q->layout, ~(int64_t)0) || !weft_dispatch_accepts(&call) || !find_ring(&a)) {
        return weft_dispatch(&call);
    }
    weft_scope_open();
    return weft_leave_scope(attend_in_ring(&a));
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The gradient, or the output, has the result's shape and q's type. */
static bool check_like_result(const attention *a, const char *name, const weft_tensor *tensor)
{
    const weft_layout *layout = tensor->layout, *q = a->q->layout;
    if (layout->dtype != q->dtype) {
        weft_fail(WEFT_ERR_DTYPE, a->function, "%s is %s, expected %s, the type of q", name,
                  weft_dtype_name(layout->dtype), weft_dtype_name(q->dtype));
        return false;
    }
    if (layout->ndim != a->batch + 2 ||
        memcmp(layout->shape, a->shape, (size_t)layout->ndim * sizeof(a->shape[0])) != 0) {
        char text[160];
        weft_fail(WEFT_ERR_SHAPE, a->function,
                  "%s is %s, expected the shape of the result: %d dimensions, the last ones %lld and %lld",
                  name, weft_layout_format(layout, text, sizeof(text)), a->batch + 2,
                  (long long)a->shape[a->batch], (long long)a->shape[a->batch + 1]);
        return false;
    }
    return weft_check_same_mesh(a->function, "q", q, name, layout);
}

/* False with the error kept. */
static bool check_backward(attention *a)
{
    weft_call call = forward_call(a);
    a->gradient = weft_check_tensor(a->function, "gradient", a->gradient);
    a->output = a->gradient == NULL ? NULL : weft_check_tensor(a->function, "output", a->output);
    if (a->output == NULL || !weft_dispatch_accepts(&call)) {
        return false;
    }
    find_shape(a);
    return check_like_result(a, "gradient", a->gradient) && check_like_result(a, "output", a->output);
}

/* What is known of each row, without values, where q and k lie; repeated over the batch that they lack. */
static weft_tensor *plain_state(const attention *a)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_call call = call_of(a, &operation_state, 0);
    add_input(&call, a->q);
    add_input(&call, a->k);
    add_input(&call, a->mask);
    call.attributes.type = (int64_t)weft_wide_type(a->q->layout->dtype);
    call.attributes.num_sizes = 1;
    call.attributes.sizes[0] = WEFT_ATTENTION_STATE;
    weft_tensor *state = weft_dispatch(&call);
    memcpy(shape, a->shape, (size_t)(a->batch + 1) * sizeof(shape[0]));
    shape[a->batch + 1] = WEFT_ATTENTION_STATE;
    bool whole =
        state == NULL || (state->layout->ndim == a->batch + 2 &&
                          memcmp(state->layout->shape, shape, sizeof(shape[0]) * (size_t)a->batch) == 0);
    return whole ? state : weft_expand(state, a->batch + 2, shape);
}

static weft_tensor *statistics_of(const attention *a, weft_tensor *state)
{
    return state == NULL ? NULL
                         : weft_dispatch(&(weft_call){ .function = a->function,
                                                       .operation = &operation_statistics,
                                                       .num_inputs = 3,
                                                       .inputs = { state, a->gradient, a->output } });
}

/* With a target, in a ring; else where the rule says. `columns`: of the output, where the rule does not say;
 * else -1. */
static weft_tensor *backward(const attention *a, const weft_operation *operation, weft_tensor *target,
                             weft_tensor *statistics, int64_t parts, int64_t columns, unsigned moving)
{
    weft_call call = call_of(a, operation, parts);
    add_input(&call, target);
    add_input(&call, a->gradient);
    add_input(&call, a->q);
    add_input(&call, a->k);
    add_input(&call, a->v);
    add_input(&call, statistics);
    add_input(&call, a->mask);
    if (target != NULL) {
        return go_round(a, &call, moving);
    }
    call.attributes.type = (int64_t)weft_wide_type(a->q->layout->dtype);
    if (columns >= 0) {
        call.attributes.num_sizes = 1;
        call.attributes.sizes[0] = columns;
    }
    return weft_dispatch(&call);
}

static weft_tensor *gradient_of_q(const attention *a, bool ring, weft_tensor *statistics)
{
    if (!ring) {
        return backward(a, &operation_backward_q, NULL, statistics, 0, -1, 0);
    }
    const weft_layout *q = a->q->layout;
    weft_tensor *target = new_target(a, OF_ROWS, a->shape[a->batch], q->shape[q->ndim - 1]);
    return target == NULL
               ? NULL
               : backward(a, &operation_backward_q_step, target, statistics, 0, -1, 1u << 3 | 1u << 4);
}

/* Side by side. */
static weft_tensor *gradients_of_kv(const attention *a, bool ring, weft_tensor *statistics, int64_t parts,
                                    int64_t columns)
{
    if (!ring) {
        return backward(a, &operation_backward_kv, NULL, statistics, parts, columns, 0);
    }
    const weft_layout *k = a->k->layout;
    attention own = *a;
    weft_tensor *target = new_target(a, OF_KEYS, k->shape[k->ndim - 2], columns);
    if (target == NULL || !place(&own, &own.mask, OF_MASK_KEYS)) {
        return NULL;
    }
    return backward(&own, &operation_backward_kv_step, target, statistics, parts, -1,
                    1u << 1 | 1u << 2 | 1u << 5);
}

/* `columns` columns of a gradient from `start` on, in the shape and type of what it is of: summed over the
 * batch that this lacks. */
static weft_tensor *fit(const attention *a, weft_tensor *gradient, const weft_tensor *like, int64_t start,
                        int64_t columns)
{
    const weft_layout *layout = like->layout;
    int last = gradient == NULL ? 0 : gradient->layout->ndim - 1;
    if (gradient != NULL && columns != gradient->layout->shape[last]) {
        gradient = weft_slice(gradient, last, start, start + columns);
    }
    if (gradient != NULL && last == 2 && layout->ndim == 2 && gradient->layout->shape[0] == 1) {
        gradient = weft_squeeze_dims(a->function, gradient, 1);
    }
    bool same = gradient != NULL && gradient->layout->ndim == layout->ndim &&
                memcmp(gradient->layout->shape, layout->shape, (size_t)layout->ndim * sizeof(int64_t)) == 0;
    if (gradient != NULL && !same) {
        gradient = weft_sum_to(gradient, layout->ndim, layout->shape);
    }
    if (gradient != NULL && gradient->layout->has_partial && gradient->layout->dtype != layout->dtype &&
        gradient->layout->mesh == layout->mesh) {
        gradient = weft_place_like(a->function, gradient, layout, 0); /* the rounding needs the sums */
    }
    return gradient == NULL ? NULL : weft_to_type(gradient, layout->dtype);
}

/* Of q, k and v, those that are wanted; in an open scope. False with the error kept. */
static bool compute_gradients(attention *a, const bool wanted[3], weft_tensor *results[3])
{
    const attention given = *a;
    const weft_layout *k = a->k->layout, *v = a->v->layout;
    int64_t e = k->shape[k->ndim - 1], f = v->shape[v->ndim - 1];
    int64_t columns[] = { e, wanted[1] ? e : 0, wanted[2] ? f : 0 };
    int64_t parts =
        (wanted[1] ? WEFT_ATTENTION_HAS_K_GRADIENT : 0) | (wanted[2] ? WEFT_ATTENTION_HAS_V_GRADIENT : 0);
    bool ring = find_ring(a);
    if (ring && !place_all(a)) {
        return false;
    }
    weft_tensor *statistics = statistics_of(a, ring ? ring_state(a, false) : plain_state(a));
    if (statistics == NULL) {
        return false;
    }
    results[0] = fit(a, gradient_of_q(a, ring, statistics), given.q, 0, e);
    if (results[0] == NULL || parts == 0) {
        return results[0] != NULL;
    }
    weft_tensor *both = gradients_of_kv(a, ring, statistics, parts, columns[1] + columns[2]);
    for (int i = 1; i < 3 && both != NULL; i++) {
        if (wanted[i]) {
            results[i] = fit(a, both, i == 1 ? given.k : given.v, i == 1 ? 0 : columns[1], columns[i]);
        }
    }
    return both != NULL && (!wanted[1] || results[1] != NULL) && (!wanted[2] || results[2] != NULL);
}

weft_tensor *weft_attention_backward(weft_tensor *gradient, weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                     weft_tensor *output, const weft_attention_options *options,
                                     weft_tensor **gradient_k, weft_tensor **gradient_v)
{
    attention a = {
        .function = "weft_attention_backward", .q = q, .k = k, .v = v, .gradient = gradient, .output = output
    };
    weft_tensor **targets[3] = { NULL, gradient_k, gradient_v }, *results[3] = { NULL, NULL, NULL };
    const bool wanted[3] = { true, gradient_k != NULL, gradient_v != NULL };
    for (int i = 1; i < 3; i++) {
        if (wanted[i]) {
            *targets[i] = NULL;
        }
    }
    if (!begin(&a, options) || !check_backward(&a)) {
        return NULL;
    }
    weft_scope_open();
    bool done = compute_gradients(&a, wanted, results);
    for (int i = 0; i < 3 && done; i++) {
        if (wanted[i]) {
            weft_scope_keep(results[i]);
        }
        if (i > 0 && wanted[i]) {
            *targets[i] = results[i];
        }
    }
    weft_scope_close();
    return done ? results[0] : NULL;
}

const weft_operation *const weft_attention_operations[] = {
    &operation_attention,        &operation_state,
    &operation_state_step,       &operation_finish,
    &operation_statistics,       &operation_backward_q,
    &operation_backward_q_step,  &operation_backward_kv,
    &operation_backward_kv_step, NULL,
};
