/* The tasks of local regions: one for each hosted rank, or for each panel of rows. */
#include <stdlib.h>
#include <string.h>

#include "codelets/local.h"
#include "tensor/local_map.h"
#include "tensor/run.h"
#include "tensor/state.h"

bool weft_local_same_rows(const weft_layout *a, const weft_layout *b)
{
    bool same = a->mesh == b->mesh && a->ndim > 0 && b->ndim > 0 && a->shape[0] == b->shape[0];
    for (int m = 0; m < a->mesh->ndim && same; m++) {
        const weft_placement one = a->placements[m], other = b->placements[m];
        bool cuts = one.kind == WEFT_SHARD && one.dim == 0;
        same = cuts == (other.kind == WEFT_SHARD && other.dim == 0) && (!cuts || weft_placement_equal(one, other));
    }
    return same;
}

/* Rows [first, last) of a shard, by global index; of a tensor without dimensions [0, 1). */
typedef struct rows {
    int64_t first, last;
} rows;

static rows all_rows(const weft_layout *layout, const weft_local_shard *shard)
{
    const weft_box *box = &shard->box;
    return layout->ndim == 0 ? (rows){ 0, 1 } : (rows){ box->offset[0], box->offset[0] + box->extent[0] };
}

/* Those that the function gets of a tensor. */
static rows rows_of(const weft_local_region *r, int tensor, const weft_local_shard *shard, const rows *some)
{
    bool whole = !r->options.by_rows || (tensor < r->num_inputs && r->whole[tensor]);
    return whole ? all_rows(r->layouts[tensor], shard) : *some;
}

/* The first panel of some rows, how many there are, and bytes from the first one's beginning to the rows. */
typedef struct panels {
    int64_t first, count, offset;
} panels;

static int64_t row_bytes(const weft_layout *layout, const weft_local_shard *shard)
{
    return weft_row_elements(layout->ndim, &shard->box) * (int64_t)weft_dtype_size(layout->dtype);
}

static panels panels_of(const weft_layout *layout, const weft_local_shard *shard, rows some)
{
    panels found = { 0, shard->num_panels, 0 };
    if (shard->count > 0 && layout->ndim > 0) {
        int64_t first, last;
        found.first = weft_panel_of_row(layout, &shard->box, some.first);
        found.count = weft_panel_of_row(layout, &shard->box, some.last - 1) - found.first + 1;
        weft_panel_range(layout, &shard->box, found.first, &first, &last);
        found.offset = (some.first - first) * row_bytes(layout, shard);
    }
    return found;
}

static void describe_operand(weft_local_operand *operand, const weft_layout *layout, const weft_local_shard *shard, rows some)
{
    weft_local_tensor *tensor = &operand->tensor;
    tensor->dtype = layout->dtype;
    tensor->ndim = layout->ndim;
    memcpy(tensor->shape, layout->shape, sizeof(tensor->shape));
    memcpy(tensor->offset, shard->box.offset, sizeof(tensor->offset));
    memcpy(tensor->extent, shard->box.extent, sizeof(tensor->extent));
    if (layout->ndim > 0) {
        tensor->offset[0] = some.first;
        tensor->extent[0] = some.last - some.first;
    }
    if (shard->count > 0) {
        int64_t bytes = row_bytes(layout, shard), first, last;
        weft_panel_range(layout, &shard->box, panels_of(layout, shard, some).first, &first, &last);
        tensor->count = (some.last - some.first) * weft_row_elements(layout->ndim, &shard->box);
        operand->total_bytes = (some.last - some.first) * bytes;
        operand->first_bytes = (weft_min_i64(last, some.last) - some.first) * bytes;
        operand->step_bytes = weft_min_i64(layout->panel_rows, some.last - some.first) * bytes;
    }
}

/* Appends the panels of one operand. */
static void add_panels(const weft_local_region *r, int tensor, const weft_local_shard *shard, rows some, weft_local_operand *operand,
                       weft_bound_operand operands[], int *num_panels)
{
    panels found = panels_of(r->layouts[tensor], shard, some);
    enum starpu_data_access_mode mode = tensor < r->num_inputs                    ? STARPU_R
                                        : tensor < r->num_inputs + r->num_changed ? STARPU_RW
                                                                                  : STARPU_W;
    operand->first_panel = *num_panels;
    operand->num_panels = (int)found.count;
    for (int64_t p = 0; p < found.count; p++) {
        int64_t offset = p == 0 ? found.offset : 0;
        /* Another task has written the panel's first rows. */
        operands[(*num_panels)++] =
            weft_bound(&shard->panels[found.first + p], offset, offset > 0 && mode == STARPU_W ? STARPU_RW : mode);
    }
}

static void fill_arguments(const weft_local_region *r, int shard, const rows *some, weft_local_args *args,
                           weft_bound_operand operands[])
{
    int count = r->num_inputs + r->num_outputs, num_panels = 0;
    args->base.dtype = r->layouts[r->num_inputs]->dtype;
    args->function = r->function;
    args->rank = weft_runtime.first_rank + shard;
    args->num_inputs = r->num_inputs;
    args->num_outputs = r->num_outputs;
    args->num_changed = r->num_changed;
    for (int i = 0; i < count; i++) {
        const weft_local_shard *at = &r->tensors[i]->shards[shard];
        const rows own = rows_of(r, i, at, some);
        describe_operand(&args->operands[i], r->layouts[i], at, own);
        if (i >= r->num_changed) { /* those are outputs */
            add_panels(r, i, at, own, &args->operands[i], operands, &num_panels);
        }
    }
    strcpy((char *)args + weft_local_name_offset(count), r->options.name);
}

static int64_t count_panels(const weft_local_region *r, int shard, const rows *some)
{
    int64_t count = 0;
    for (int i = r->num_changed; i < r->num_inputs + r->num_outputs; i++) {
        const weft_local_shard *at = &r->tensors[i]->shards[shard];
        count += panels_of(r->layouts[i], at, rows_of(r, i, at, some)).count;
    }
    return count;
}

/* What the tasks of a call share. */
typedef struct shared {
    weft_shared_bytes *context;
    weft_random_state random;
} shared;

/* The rows' task. False with the error kept. */
static bool submit(const weft_local_region *r, int shard, const rows *some, double position, const shared *all)
{
    int count = r->num_inputs + r->num_outputs, num_panels = (int)count_panels(r, shard, some);
    size_t size = weft_local_name_offset(count) + strlen(r->options.name) + 1;
    weft_local_args *args = calloc(1, size);
    weft_bound_operand *operands = malloc((size_t)num_panels * sizeof(*operands));
    bool done = args != NULL && operands != NULL;
    if (done) {
        fill_arguments(r, shard, some, args, operands);
        args->random = all->random;
        /* StarPU keeps a pointer to the name; traces have a copy. */
        done = weft_task_submit(&(weft_single_task){
            .kernel = WEFT_KERNEL_local_map,
            .name = weft_runtime.trace == NULL ? "local_map" : r->options.name,
            .function = "weft_local_map",
            .name_offset = weft_local_name_offset(count),
            .arguments = args,
            .arguments_size = size,
            .context = r->options.context,
            .shared = all->context,
            .num_operands = num_panels,
            .operands = operands,
            .position = position,
        });
    } else {
        weft_fail(WEFT_ERR_NOMEM, "weft_local_map", "no memory for a task");
    }
    free(args);
    free(operands);
    return done;
}

/* The first output that has elements on a hosted rank; -1: none. */
static int leading_output(const weft_local_region *r, int shard)
{
    int found = r->num_inputs, end = r->num_inputs + r->num_outputs;
    while (found < end && r->tensors[found]->shards[shard].count == 0) {
        found++;
    }
    return found < end ? found : -1;
}

static bool submit_shard(const weft_local_region *r, int shard, const shared *all)
{
    int leading = leading_output(r, shard);
    if (leading < 0) {
        return true;
    }
    if (!r->options.by_rows) {
        return submit(r, shard, NULL, 0, all);
    }
    const weft_layout *layout = r->layouts[leading];
    const weft_local_shard *rows_in = &r->tensors[leading]->shards[shard];
    bool done = true;
    for (int64_t p = 0; p < rows_in->num_panels && done; p++) {
        rows some;
        weft_panel_range(layout, &rows_in->box, p, &some.first, &some.last);
        done = submit(r, shard, &some, weft_row_position(layout, weft_runtime.first_rank + shard, some.first), all);
    }
    return done;
}

bool weft_local_submit(const weft_local_region *r, weft_random_state random)
{
    shared all = { .random = random };
    if (r->options.context_size > 0) {
        all.context = weft_shared_bytes_copy(r->options.context, r->options.context_size);
        if (all.context == NULL) {
            weft_fail(WEFT_ERR_NOMEM, "weft_local_map", "no memory for a context");
            return false;
        }
    }
    bool done = true;
    for (int shard = 0; shard < weft_runtime.local_ranks && done; shard++) {
        done = submit_shard(r, shard, &all);
    }
    weft_shared_bytes_release(all.context);
    return done;
}
