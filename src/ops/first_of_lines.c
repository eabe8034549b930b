/* The first elements of sorted lines that ranks hold parts of: each rank finds the first ones of its own parts, and these, few, are brought
 * together. Nothing depends on values but values. */
#include <stdlib.h>
#include <string.h>

#include <weft/local_map.h>

#include "codelets/sorted_parts.h"
#include "comm/check_spmd.h"
#include "ops/line_parts.h"
#include "ops/sorted_lines.h"

enum { LEAST_PART = 64 }; /* shorter parts take longer to order twice than to bring together */

/* The context of tasks. */
typedef struct wish {
    int dim;
    bool largest;
} wish;

/* ---- on a rank's parts ---------------------------------------------------------------------------------------------- */

/* Lines of a box along a dimension: `outer` times `inner` of them, `inner` elements apart. */
typedef struct box_lines {
    int64_t outer, length, inner;
} box_lines;

static box_lines lines_of(const weft_local_tensor *t, int dim)
{
    box_lines lines = { 1, t->extent[dim], 1 };
    for (int d = 0; d < t->ndim; d++) {
        lines.outer *= d < dim ? t->extent[d] : 1;
        lines.inner *= d > dim ? t->extent[d] : 1;
    }
    return lines;
}

static void first_of_part(const weft_local_call *call)
{
    const weft_local_tensor *in = &call->inputs[0], *out = call->outputs;
    const wish *w = call->context;
    const box_lines from = lines_of(in, w->dim), to = lines_of(out, w->dim);
    const size_t size = weft_dtype_size(out->dtype);
    void *room = malloc(weft_sort_room(from.length));
    for (int64_t outer = 0; outer < to.outer && room != NULL; outer++) {
        for (int64_t j = 0; j < to.inner; j++) {
            const int64_t at = outer * from.length * from.inner + j, result = outer * to.length * to.inner + j;
            const weft_sorted_part p = { .dtype = in->dtype,
                                         .descending = w->largest,
                                         .count = from.length,
                                         .values = (const char *)in->data + (size_t)at * size,
                                         .step = from.inner,
                                         .first = in->offset[w->dim],
                                         .sorted = (char *)out[0].data + (size_t)result * size,
                                         .indices = (int64_t *)out[1].data + result,
                                         .sorted_step = to.inner };
            weft_sort_part_in(&p, to.length, room);
        }
    }
    if (room == NULL) {
        weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory to order %lld elements", (long long)from.length);
        memset(out[0].data, 0, (size_t)out[0].count * size);
        memset(out[1].data, 0, (size_t)out[1].count * sizeof(int64_t));
    }
    free(room);
}

/* ---- calls ---------------------------------------------------------------------------------------------------------- */

bool weft_takes_first(const weft_tensor *a, int dim, int64_t k)
{
    const weft_layout *layout = weft_layout_of(a);
    const int mesh_dim = layout->ndim == 0 ? -1 : weft_cutting_dim(layout, dim);
    const int64_t part = mesh_dim < 0 ? 0 : layout->shape[dim] / layout->mesh->shape[mesh_dim];
    return part >= LEAST_PART && k > 0 && k <= part / 4 && weft_works_in_parts(a);
}

/* The cut of the first k elements of each part, of which there may be fewer; *size: of all. An invalid one with the error kept. */
static weft_placement cut_of_first(const weft_layout *layout, int mesh_dim, int dim, int64_t k, int64_t *size)
{
    const int64_t parts = layout->mesh->shape[mesh_dim];
    int64_t *sizes = malloc((size_t)parts * sizeof(*sizes));
    *size = 0;
    for (int64_t part = 0; part < parts && sizes != NULL; part++) {
        int64_t offset, extent;
        weft_part_range(layout->placements[mesh_dim], layout->shape[dim], parts, part, &offset, &extent);
        sizes[part] = weft_min_i64(k, extent);
        *size += sizes[part];
    }
    const weft_placement cut = sizes == NULL ? weft_replicate() : weft_shard_sizes(dim, (int)parts, sizes);
    free(sizes);
    return cut;
}

/* outputs[]: values and indices. False with the error kept. */
static bool take_first(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const int dim = (int)call->attributes.leading, mesh_dim = weft_cutting_dim(layout, dim);
    const int64_t k = call->attributes.sizes[0];
    const wish w = { dim, call->attributes.numbers[0] != 0 };
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(shape, layout->shape, sizeof(shape));
    memcpy(placements, layout->placements, sizeof(placements));
    placements[mesh_dim] = cut_of_first(layout, mesh_dim, dim, k, &shape[dim]);
    const weft_local_output first[2] = { { layout->dtype, layout->ndim, shape, placements, false },
                                         { WEFT_I64, layout->ndim, shape, placements, false } };
    const weft_local_map_options options = {
        .name = call->function, .mesh = layout->mesh->handle, .context = (void *)&w, .context_size = sizeof(w)
    };
    weft_tensor *parts[2] = { NULL, NULL }, *places = NULL;
    if (weft_local_map(first_of_part, 1, call->inputs, 2, first, &options, parts) != WEFT_OK) {
        return false;
    }
    outputs[0] = weft_first_values(call->function, parts[0], dim, k, w.largest, &places);
    outputs[1] = outputs[0] == NULL ? NULL : weft_gather(parts[1], dim, places);
    return outputs[1] != NULL;
}

/* attributes: leading: the dimension; sizes[0]: k; numbers[0]: whether the largest are wanted. */
static weft_status perform_first(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const double numbers[] = { (double)call->attributes.leading, (double)call->attributes.sizes[0], call->attributes.numbers[0] };
    return weft_perform_in_parts(call,
                                 &(weft_call_signature){ .function = call->function,
                                                         .num_layouts = 1,
                                                         .layouts = &layout,
                                                         .num_numbers = WEFT_ARRAY_SIZE(numbers),
                                                         .numbers = numbers },
                                 2, take_first, outputs);
}

bool weft_take_first(const char *function, weft_tensor *a, int dim, int64_t k, bool largest, weft_tensor **values, weft_tensor **indices)
{
    static const weft_operation action = { .name = "topk",
                                           .perform = perform_first,
                                           .num_outputs = 2,
                                           .effects = WEFT_NEEDS_DATA,
                                           .gradient = WEFT_GRADIENT_BY(weft_gradient_of_order, WEFT_READS_OUTPUT(1)) };
    const weft_call call = { .function = function,
                             .operation = &action,
                             .num_inputs = 1,
                             .inputs = { a },
                             .attributes = { .leading = dim, .num_sizes = 1, .sizes = { k }, .num_numbers = 1, .numbers = { largest } } };
    return weft_act_in_parts(&call, values, indices);
}
