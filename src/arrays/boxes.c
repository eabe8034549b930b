/* weft_from_boxes(), weft_to_boxes(): checks, and the layouts in between. */
#include "arrays/boxes.h"

#include "comm/check_spmd.h"
#include "tensor/actions.h"

/* ---- checks of this process's arguments ---------------------------------------------------------------- */

/* A box without elements may lie anywhere: ceil(N / p) rows for each process leave the last ones beyond N. */
static bool check_box(const weft_boxes *given, int ndim, const int64_t shape[], int number)
{
    const weft_box *box = &given->items[number].box;
    bool empty = weft_box_is_empty(ndim, box);
    for (int d = 0; d < ndim; d++) {
        int64_t offset = box->offset[d], extent = box->extent[d];
        if (empty && extent >= 0) {
            continue;
        }
        if (offset < 0 || extent < 0 || offset > shape[d] || extent > shape[d] - offset) {
            weft_fail(WEFT_ERR_SHAPE, given->function,
                      "boxes[%d].box has offset %lld and extent %lld in dimension %d, which has indices 0 to %lld", number,
                      (long long)offset, (long long)extent, d, (long long)shape[d] - 1);
            return false;
        }
    }
    return true;
}

static bool check_strides(const weft_boxes *given, int ndim, int number, size_t element_size)
{
    int64_t strides[WEFT_MAX_DIMS];
    int dim = 0;
    const weft_subarray *item = &given->items[number];
    if (weft_box_is_empty(ndim, &item->box)) {
        return true;
    }
    weft_subarray_strides(item, ndim, strides);
    int64_t span = weft_strides_span(ndim, item->box.extent, strides, &dim);
    if (span < 0 || span > INT64_MAX / 2 / (int64_t)element_size) {
        weft_fail(WEFT_ERR_INVALID, given->function,
                  "boxes[%d].strides[%d] is %lld: it must be positive, and not interleave with smaller strides", number, dim,
                  (long long)strides[dim]);
        return false;
    }
    return true;
}

static bool check_pointer(const weft_boxes *given, int ndim, int number, size_t element_size)
{
    if (weft_box_is_empty(ndim, &given->items[number].box)) {
        return true;
    }
    const void *data = given->items[number].data;
    if (data == NULL || !weft_is_aligned(element_size, data)) {
        weft_fail(WEFT_ERR_INVALID, given->function, "boxes[%d].data is %s, and the box has elements", number,
                  data == NULL ? "NULL" : "not aligned to the type");
        return false;
    }
    return true;
}

/* False with the error kept. */
static bool check_boxes(const weft_boxes *given, int ndim, const int64_t shape[], size_t element_size)
{
    if (given->count < 0 || (given->count > 0 && given->items == NULL)) {
        weft_fail(WEFT_ERR_INVALID, given->function, "%s is %s", given->count < 0 ? "num_boxes" : "boxes",
                  given->count < 0 ? "negative" : "NULL");
        return false;
    }
    bool right = true;
    for (int i = 0; i < given->count && right; i++) {
        right = check_box(given, ndim, shape, i) && check_strides(given, ndim, i, element_size);
    }
    return right;
}

static bool check_pointers(const weft_boxes *given, int ndim, size_t element_size)
{
    bool right = true;
    for (int i = 0; i < given->count && right; i++) {
        right = check_pointer(given, ndim, i, element_size);
    }
    return right;
}

static bool check_not_captured(const char *function)
{
    if (weft_runtime.context.deferral != NULL) {
        weft_fail(WEFT_ERR_STATE, function,
                  "a captured graph has no boxes: make the tensor before weft_graph_call(), and write it after");
    }
    return weft_runtime.context.deferral == NULL;
}

/* Processes wait for each other, unless boxes are fixed. */
static bool check_may_wait(const char *function)
{
    return weft_boxes_are_fixed() || weft_runtime.num_processes == 1 || weft_check_nothing_waits(function);
}

/* ---- the layout in between ----------------------------------------------------------------------------- */

/* The tensor dimension of which each rank would have the most indices. */
static int longest_dim(const weft_layout *layout, const weft_placement placements[])
{
    int longest = 0;
    int64_t most = -1;
    for (int d = 0; d < layout->ndim; d++) {
        int64_t parts = 1;
        for (int m = 0; m < layout->mesh->ndim; m++) {
            bool cut = placements[m].kind == WEFT_SHARD && placements[m].dim == d;
            parts *= cut ? layout->mesh->shape[m] : 1;
        }
        longest = layout->shape[d] / parts > most ? d : longest;
        most = weft_max_i64(most, layout->shape[d] / parts);
    }
    return longest;
}

/* The layout whose shards are transferred, which are boxes: Partial becomes Shard, and with no_replicas Replicate too, so that each element
 * travels once; a redistribution brings it to the other replicas. NULL with the error kept. */
static const weft_layout *between(const char *function, const weft_layout *layout, bool no_replicas)
{
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement given = layout->placements[m];
        placements[m] = given.kind == WEFT_PARTIAL  ? weft_replicate()
                        : weft_cut_has_runs(given) ? weft_shard(given.dim)
                                                   : given;
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool replaced = layout->placements[m].kind == WEFT_PARTIAL || (placements[m].kind == WEFT_REPLICATE && no_replicas);
        if (replaced && layout->mesh->shape[m] > 1 && layout->ndim > 0) {
            placements[m] = weft_shard(longest_dim(layout, placements));
        }
    }
    weft_placements_settle(layout->mesh, layout->shape, placements);
    return weft_check_layout(function, layout->mesh, placements, layout->ndim, layout->shape, layout->dtype);
}

/* ---- from boxes ---------------------------------------------------------------------------------------- */

typedef struct from_boxes_arguments {
    weft_boxes given;
    weft_dtype dtype; /* as given: maybe with WEFT_WITH_GRAD */
    int ndim;
    const int64_t *shape;
    const weft_mesh *mesh;
    const weft_placement *placements;
} from_boxes_arguments;

/* The layout, if all arguments of this process but the pointers are right; NULL with the error kept. */
static const weft_layout *check_from(const from_boxes_arguments *a)
{
    const char *function = a->given.function;
    const weft_mesh_impl *mesh = weft_check_mesh(function, a->mesh);
    if (mesh == NULL || !weft_check_given_type(function, a->dtype) || !weft_check_shape(function, a->ndim, a->shape)) {
        return NULL;
    }
    weft_dtype dtype = weft_plain_type(a->dtype);
    const weft_layout *layout = weft_check_layout(function, mesh, a->placements, a->ndim, a->shape, dtype);
    if (layout != NULL && layout->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, function, "placements has a Partial: boxes have values, and no addends");
        return NULL;
    }
    return layout != NULL && check_boxes(&a->given, a->ndim, a->shape, weft_dtype_size(dtype)) ? layout : NULL;
}

static weft_tensor_impl *import(const weft_boxes *given, const weft_layout *layout)
{
    const weft_layout *direct = layout == NULL ? NULL : between(given->function, layout, true);
    bool right = direct != NULL && check_pointers(given, layout->ndim, weft_dtype_size(layout->dtype));
    weft_box_plan *plan = weft_box_plan_obtain(given, direct, true, right);
    if (plan == NULL) {
        return NULL;
    }
    weft_tensor_impl *tensor = weft_box_plan_import(plan, given);
    return tensor == NULL ? NULL : weft_tensor_to_layout(given->function, tensor, layout);
}

/* details->memory: from_boxes_arguments. */
static weft_status perform_from_boxes(const weft_call *call, weft_tensor *outputs[])
{
    const from_boxes_arguments *a = call->details->memory;
    const weft_layout *layout = check_from(a);
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        bool right = layout != NULL && check_pointers(&a->given, a->ndim, weft_dtype_size(layout->dtype));
        outputs[0] = right ? weft_tensor_handle(weft_tensor_new(call->function, layout)) : NULL;
        return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (!check_may_wait(call->function) ||
        !weft_check_spmd(&(weft_call_signature){ .function = call->function })) {
        return weft_latest_status();
    }
    weft_scope_begin();
    weft_tensor_impl *tensor = import(&a->given, layout);
    outputs[0] = tensor == NULL ? NULL : weft_scope_keep(tensor->handle);
    weft_scope_end_own();
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

weft_tensor *weft_from_boxes(weft_dtype dtype, int ndim, const int64_t shape[], int num_boxes, const weft_subarray boxes[],
                             weft_mesh *mesh, const weft_placement *placements)
{
    static const char function[] = "weft_from_boxes";
    static const weft_operation action = { .name = "from_boxes", .perform = perform_from_boxes, .effects = WEFT_LEAVES_VALUES, .num_outputs = 1 };
    if (weft_require_init(function) != WEFT_OK || !check_not_captured(function)) {
        return NULL;
    }
    from_boxes_arguments a = { .given = { function, num_boxes, boxes },
                               .dtype = dtype,
                               .ndim = ndim,
                               .shape = shape,
                               .mesh = mesh,
                               .placements = placements };
    return weft_made(dtype, weft_act_for_tensor(&(weft_call){
                                .function = function, .operation = &action, .details = &(weft_call_details){ .memory = &a } }));
}

/* ---- to boxes ------------------------------------------------------------------------------------------ */

static bool check_no_arrays(const weft_boxes *given)
{
    bool right = true;
    for (int i = 0; i < given->count && right; i++) {
        right = !weft_lies_in_array(given->items[i].data);
        if (!right) {
            weft_fail(WEFT_ERR_STATE, given->function,
                      "boxes[%d] lies in the arrays of a ghosted tensor: weft_copy_inplace() to that one", i);
        }
    }
    return right;
}

static bool export(const weft_boxes *given, weft_tensor_impl *tensor, bool right)
{
    const weft_layout *layout = tensor->layout, *direct = right ? between(given->function, layout, false) : NULL;
    right = direct != NULL && check_pointers(given, layout->ndim, weft_dtype_size(layout->dtype)) &&
            check_no_arrays(given);
    weft_box_plan *plan = weft_box_plan_obtain(given, direct, false, right);
    tensor = plan == NULL ? NULL : weft_tensor_to_layout(given->function, tensor, direct);
    return tensor != NULL && weft_box_plan_export(plan, given, tensor);
}

/* details->memory: the boxes. */
static weft_status perform_to_boxes(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_boxes *given = call->details->memory;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    const weft_layout *layout = tensor->layout;
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        return weft_fail(WEFT_ERR_STATE, call->function, "tensor has no data: the world is fake");
    }
    bool right = check_boxes(given, layout->ndim, layout->shape, weft_dtype_size(layout->dtype));
    if (!check_may_wait(call->function) ||
        !weft_check_spmd(&(weft_call_signature){ .function = call->function, .num_layouts = 1, .layouts = &layout })) {
        return weft_latest_status();
    }
    weft_scope_begin();
    bool done = export(given, tensor, right);
    weft_scope_end_own();
    return done ? WEFT_OK : weft_latest_status();
}

weft_status weft_to_boxes(weft_tensor *handle, int num_boxes, const weft_subarray boxes[])
{
    static const char function[] = "weft_to_boxes";
    static const weft_operation action = { .name = "to_boxes", .perform = perform_to_boxes, .effects = WEFT_NEEDS_DATA };
    if (weft_check_tensor(function, "tensor", handle) == NULL || !check_not_captured(function)) {
        return weft_latest_status();
    }
    weft_boxes given = { function, num_boxes, boxes };
    return weft_act(&(weft_call){ .function = function,
                                  .operation = &action,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .details = &(weft_call_details){ .memory = &given } },
                    NULL);
}

weft_status weft_fixed_boxes_begin(void)
{
    static const char function[] = "weft_fixed_boxes_begin";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_runtime.arrays->fixed_boxes++;
    return WEFT_OK;
}

weft_status weft_fixed_boxes_end(void)
{
    static const char function[] = "weft_fixed_boxes_end";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (!weft_boxes_are_fixed()) {
        return weft_fail(WEFT_ERR_STATE, function, "no region of fixed boxes is open");
    }
    weft_runtime.arrays->fixed_boxes--;
    return WEFT_OK;
}
