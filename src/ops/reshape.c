/* Other shapes for the same elements. */
#include <stdio.h>
#include <string.h>

#include "codelets/move.h"
#include "ops/ops.h"

/* ---- lowering: where the output cannot share the memory ------------------------------------------------ */

/* Bytes [first, last) of a shard's memory that a panel has. */
static void panel_bytes(const weft_tensor *tensor, const weft_local_shard *shard, int64_t panel,
                        int64_t *first, int64_t *last)
{
    const weft_layout *layout = tensor->layout;
    int64_t row_bytes =
        weft_row_elements(layout->ndim, &shard->box) * (int64_t)weft_dtype_size(layout->dtype);
    int64_t begin = layout->ndim == 0 ? 0 : shard->box.offset[0];
    weft_panel_range(layout, &shard->box, panel, first, last);
    *first = (*first - begin) * row_bytes;
    *last = (*last - begin) * row_bytes;
}

/* Fills one panel, bytes [first, last) of the output's shard, from the input's panels beginning with *source,
 * which is moved on to the last one used. One task for at most WEFT_MAX_OPERANDS - 1 of them. */
static bool copy_to_panel(const weft_lowering *lowering, int64_t panel, int64_t *source)
{
    const weft_tensor *input = lowering->inputs[0];
    const weft_local_shard *from = weft_lowering_input(lowering, 0), *to = weft_lowering_output(lowering);
    int64_t first, last;
    panel_bytes(lowering->output, to, panel, &first, &last);
    for (int64_t at = first; at < last;) {
        weft_task task;
        weft_copy_args *args = weft_task_begin(&task, &weft_codelet_copy, lowering->call->operation->name,
                                               sizeof(*args), input->layout->dtype);
        if (args == NULL) {
            return false;
        }
        args->element_size = 1;
        weft_task_add(&task, &to->panels[panel], 0, at == first ? STARPU_W : STARPU_RW);
        for (int i = 0; i < WEFT_MAX_OPERANDS - 1 && at < last; i++) {
            int64_t source_first, source_last;
            panel_bytes(input, from, *source, &source_first, &source_last);
            int64_t end = weft_min_i64(last, source_last);
            args->target_offset[i] = at - first;
            args->boxes[i] = (weft_strided_box){
                .ndim = 1, .extent = { end - at }, .source_stride = { 1 }, .target_stride = { 1 }
            };
            weft_task_add(&task, &from->panels[*source], at - source_first, STARPU_R);
            at = end;
            *source += end == source_last;
        }
        if (!weft_task_submit(&task)) {
            return false;
        }
    }
    return true;
}

static bool lower_copy(const weft_lowering *lowering)
{
    int64_t source = 0;
    for (int64_t panel = 0; panel < weft_lowering_output(lowering)->num_panels; panel++) {
        if (!copy_to_panel(lowering, panel, &source)) {
            return false;
        }
    }
    return true;
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

/* The first dimension whose size is not 1: shards of it are contiguous. 0 when there is none. */
static int leading_dim(int ndim, const int64_t shape[])
{
    for (int d = 0; d < ndim; d++) {
        if (shape[d] != 1) {
            return d;
        }
    }
    return 0;
}

/* Whether the ranks' parts stay the same when the leading dimension of `from` elements becomes one of `to`.
 * They do when it is the same, and when both are cut into equal parts. */
static bool parts_stay(int64_t from, int64_t to, int64_t parts)
{
    return from == to || (from % parts == 0 && to % parts == 0);
}

static const weft_layout *with_placements(const weft_layout *layout, int ndim, const int64_t shape[],
                                          const weft_placement placements[])
{
    return weft_layout_intern(weft_runtime.layouts, layout->mesh, placements, ndim, shape, layout->dtype);
}

/* A shard of the leading dimension stays one where the ranks' parts stay the same, Partial stays, all else is
 * gathered. attributes.sizes: the new shape. */
static weft_status choose_layouts(const weft_call *call, const weft_layout *const inputs[],
                                  weft_choice *choice, char *why, size_t why_size)
{
    (void)why;
    (void)why_size;
    const weft_layout *from = inputs[0];
    int ndim = (int)call->attributes.num_sizes;
    const int64_t *shape = call->attributes.sizes;
    int leading = leading_dim(from->ndim, from->shape), new_leading = leading_dim(ndim, shape);
    int64_t parts = 1;
    for (int d = 0; d < from->mesh->ndim; d++) {
        if (from->placements[d].kind == WEFT_SHARD && from->placements[d].dim == leading) {
            parts *= from->mesh->shape[d];
        }
    }
    bool stay = from->ndim > 0 && ndim > 0 && parts_stay(from->shape[leading], shape[new_leading], parts);
    weft_placement wanted[WEFT_MAX_DIMS], result[WEFT_MAX_DIMS];
    for (int d = 0; d < from->mesh->ndim; d++) {
        wanted[d] = result[d] = from->placements[d];
        if (wanted[d].kind != WEFT_SHARD) {
            continue;
        }
        if (stay && wanted[d].dim == leading) {
            result[d] = weft_shard(new_leading);
        } else {
            wanted[d] = result[d] = weft_replicate();
        }
    }
    choice->inputs[0] = with_placements(from, from->ndim, from->shape, wanted);
    choice->output = with_placements(from, ndim, shape, result);
    return choice->inputs[0] == NULL || choice->output == NULL ? WEFT_ERR_NOMEM : WEFT_OK;
}

static const weft_operation operation_reshape = {
    .name = "reshape",
    .choose = choose_layouts,
    .inputs = { { "a", WEFT_TYPES_ALL, true } },
    .views = true,
    .lower = lower_copy,
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* "[2, 3]" */
static const char *shape_text(int ndim, const int64_t shape[], char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < ndim && used < size; d++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d == 0 ? "" : ", ", (long long)shape[d]);
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
    return text;
}

static bool refuse_shape(const weft_layout *from, int ndim, const int64_t shape[])
{
    char old[120], new[120];
    weft_fail(WEFT_ERR_SHAPE, "weft_reshape", "a has shape %s, which does not become shape %s",
              shape_text(from->ndim, from->shape, old, sizeof(old)),
              shape_text(ndim, shape, new, sizeof(new)));
    return false;
}

/* Writes `shape` with its -1 replaced. False with the error kept. */
static bool complete_shape(const weft_layout *from, int ndim, const int64_t shape[], int64_t complete[])
{
    static const char function[] = "weft_reshape";
    if (ndim < 0 || ndim > WEFT_MAX_DIMS || (ndim > 0 && shape == NULL)) {
        return weft_check_shape(function, ndim, shape);
    }
    int unknown = -1;
    for (int d = 0; d < ndim; d++) {
        complete[d] = shape[d];
        if (shape[d] != -1) {
            continue;
        }
        if (unknown >= 0) {
            weft_fail(WEFT_ERR_SHAPE, function, "shape has -1 in dimensions %d and %d, expected at most one",
                      unknown, d);
            return false;
        }
        unknown = d;
        complete[d] = 1;
    }
    if (!weft_check_shape(function, ndim, complete)) {
        return false;
    }
    int64_t old_count = 1, new_count = 1;
    weft_count_checked(from->ndim, from->shape, &old_count);
    weft_count_checked(ndim, complete, &new_count);
    if (unknown >= 0) {
        if (new_count == 0 || old_count % new_count != 0) {
            return refuse_shape(from, ndim, shape);
        }
        complete[unknown] = old_count / new_count;
        new_count = old_count;
    }
    return old_count == new_count || refuse_shape(from, ndim, shape);
}

weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[])
{
    weft_call call = {
        .function = "weft_reshape", .operation = &operation_reshape, .num_inputs = 1, .inputs = { a }
    };
    a = weft_check_tensor("weft_reshape", "a", a);
    if (a == NULL || !complete_shape(a->layout, ndim, shape, call.attributes.sizes)) {
        return NULL;
    }
    call.attributes.num_sizes = ndim;
    return weft_dispatch(&call);
}

/* ---- dropping a dimension ------------------------------------------------------------------------------ */

/* "a1c->ac"; numbers[0]: bit d for each dimension that goes. */
static void write_squeeze_rule(const weft_call *call, const weft_layout *const inputs[], char *text, size_t size)
{
    char from[WEFT_MAX_DIMS + 1], to[WEFT_MAX_DIMS + 1];
    int used = 0;
    for (int d = 0; d <= inputs[0]->ndim; d++) {
        bool ends = d == inputs[0]->ndim, goes = !ends && (call->attributes.numbers[0] >> d & 1);
        from[d] = ends ? '\0' : goes ? '1' : (char)('a' + d);
        to[used] = from[d];
        used += !goes;
    }
    snprintf(text, size, "%s->%s", from, to);
}

static const weft_operation operation_squeeze = {
    .name = "squeeze",
    .write_rule = write_squeeze_rule,
    .linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = ~0u },
    .inputs = { { "a", WEFT_TYPES_ALL, true } },
    .views = true,
    .lower = lower_copy,
};

weft_tensor *weft_squeeze_dims(const char *function, weft_tensor *a, int64_t mask)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_squeeze,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .attributes = { .num_numbers = 1, .numbers = { mask } } });
}

const weft_operation *const weft_reshape_operations[] = {
    &operation_reshape,
    &operation_squeeze,
    NULL,
};
