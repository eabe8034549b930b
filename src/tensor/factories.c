/* Tensors from nothing: empty, constants, random numbers. */
#include "codelets/fill.h"
#include "comm/calls.h"
#include "tensor/tensor.h"

/* What a factory has been given. */
typedef struct request {
    const char *function;
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;
    weft_mesh *mesh;
    const weft_placement *placements;
    bool partial_allowed, floating;
    double value;
} request;

/* NULL with the error kept. */
static const weft_layout *checked_layout(const request *r)
{
    weft_mesh *mesh = weft_check_mesh(r->function, r->mesh);
    if (mesh == NULL || !weft_check_dtype(r->function, r->dtype) ||
        !weft_check_shape(r->function, r->ndim, r->shape)) {
        return NULL;
    }
    const weft_layout *layout =
        weft_check_layout(r->function, mesh, r->placements, r->ndim, r->shape, r->dtype);
    if (layout != NULL && layout->has_partial && !r->partial_allowed) {
        weft_fail(WEFT_ERR_LAYOUT, r->function,
                  "placements has a Partial: a new tensor is Shard or Replicate");
        return NULL;
    }
    if (layout != NULL && r->floating && r->dtype > WEFT_F16) {
        weft_fail(WEFT_ERR_DTYPE, r->function, "dtype is %s, expected a floating type",
                  weft_dtype_name(r->dtype));
        return NULL;
    }
    return layout;
}

/* The tensor without its values; NULL with the error kept. */
static weft_tensor *new_tensor(const request *r)
{
    const weft_layout *layout = checked_layout(r);
    weft_public_call call = { .function = r->function,
                              .failed = layout == NULL,
                              .num_layouts = 1,
                              .layouts = &layout,
                              .num_numbers = 1,
                              .numbers = &r->value };
    return weft_call_admit(&call) && layout != NULL ? weft_tensor_new(r->function, layout) : NULL;
}

static bool submit_fill(const weft_panel *panel, int64_t count, weft_dtype dtype, double value)
{
    weft_task task;
    weft_fill_args *args = weft_task_begin(&task, &weft_codelet_fill, "fill", sizeof(*args), dtype);
    if (args == NULL) {
        return false;
    }
    args->count = count;
    args->value = value;
    weft_task_add(&task, panel, 0, STARPU_W);
    return weft_task_submit(&task);
}

static bool fill_shard(const weft_tensor *tensor, const weft_local_shard *shard, double value)
{
    weft_dtype dtype = tensor->layout->dtype;
    for (int64_t i = 0; i < shard->num_panels; i++) {
        int64_t first, last;
        weft_panel_range(tensor->layout, &shard->box, i, &first, &last);
        int64_t count = (last - first) * weft_row_elements(tensor->layout->ndim, &shard->box);
        if (!submit_fill(&shard->panels[i], count, dtype, value)) {
            return false;
        }
    }
    return true;
}

static weft_tensor *constant(const char *function, weft_dtype dtype, int ndim, const int64_t shape[],
                             double value, weft_mesh *mesh, const weft_placement *placements)
{
    request r = { function, dtype, ndim, shape, mesh, placements, .value = value };
    weft_tensor *tensor = new_tensor(&r);
    for (int i = 0; tensor != NULL && i < tensor->num_shards; i++) {
        if (!fill_shard(tensor, &tensor->shards[i], value)) {
            return NULL;
        }
    }
    return tensor;
}

weft_tensor *weft_empty(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    request r = { "weft_empty", dtype, ndim, shape, mesh, placements, .partial_allowed = true };
    return new_tensor(&r);
}

weft_tensor *weft_zeros(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    return constant("weft_zeros", dtype, ndim, shape, 0.0, mesh, placements);
}

weft_tensor *weft_ones(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    return constant("weft_ones", dtype, ndim, shape, 1.0, mesh, placements);
}

weft_tensor *weft_full(weft_dtype dtype, int ndim, const int64_t shape[], double value, weft_mesh *mesh,
                       const weft_placement *placements)
{
    return constant("weft_full", dtype, ndim, shape, value, mesh, placements);
}

/* ---- random numbers ------------------------------------------------------------------------------------ */

static bool submit_random(const weft_tensor *tensor, const weft_local_shard *shard, int64_t index,
                          bool normal, uint64_t stream)
{
    const weft_layout *layout = tensor->layout;
    weft_task task;
    weft_random_args *args =
        weft_task_begin(&task, &weft_codelet_random, normal ? "randn" : "rand", sizeof(*args), layout->dtype);
    if (args == NULL) {
        return false;
    }
    args->normal = normal;
    args->seed = weft_runtime.seed;
    args->stream = stream;
    args->ndim = layout->ndim;
    for (int d = 0; d < layout->ndim; d++) {
        args->shape[d] = layout->shape[d];
        args->offset[d] = shard->box.offset[d];
        args->extent[d] = shard->box.extent[d];
    }
    if (layout->ndim > 0) {
        int64_t first, last;
        weft_panel_range(layout, &shard->box, index, &first, &last);
        args->offset[0] = first;
        args->extent[0] = last - first;
    }
    weft_task_add(&task, &shard->panels[index], 0, STARPU_W);
    return weft_task_submit(&task);
}

static weft_tensor *random_tensor(const char *function, bool normal, weft_dtype dtype, int ndim,
                                  const int64_t shape[], weft_mesh *mesh, const weft_placement *placements)
{
    request r = { function, dtype, ndim, shape, mesh, placements, .floating = true };
    weft_tensor *tensor = new_tensor(&r);
    if (tensor == NULL) {
        return NULL;
    }
    uint64_t stream = weft_runtime.random_stream++;
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        for (int64_t panel = 0; panel < shard->num_panels; panel++) {
            if (!submit_random(tensor, shard, panel, normal, stream)) {
                return NULL;
            }
        }
    }
    return tensor;
}

weft_tensor *weft_rand(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    return random_tensor("weft_rand", false, dtype, ndim, shape, mesh, placements);
}

weft_tensor *weft_randn(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    return random_tensor("weft_randn", true, dtype, ndim, shape, mesh, placements);
}
