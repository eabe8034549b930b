/* Row-wise lowering: pieces of rows in one panel of every operand. */
#include "codelets/constant.h"
#include "dispatch/dispatch.h"

/* a scalar is one row */
static void shard_rows(int ndim, const weft_box *box, int64_t *first, int64_t *last)
{
    *first = ndim == 0 ? 0 : box->offset[0];
    *last = ndim == 0 ? 1 : box->offset[0] + box->extent[0];
}

weft_slot weft_output_slot(const weft_lowering *lowering, int output, int64_t panel)
{
    bool in_place = lowering->operation->outputs[output].in_place;
    return (weft_slot){ in_place ? output : lowering->num_inputs + output, lowering->shard, panel };
}

int64_t weft_shard_panel_at(const weft_layout *layout, const weft_shard_info *shard, int64_t row,
                            int64_t *first, int64_t *last)
{
    int64_t panel = weft_panel_of_row(layout, &shard->box, row);
    weft_panel_range(layout, &shard->box, panel, first, last);
    return panel;
}

void weft_rows_begin(weft_row_walk *walk, const weft_lowering *lowering, unsigned aligned)
{
    *walk = (weft_row_walk){ .lowering = lowering, .aligned = aligned };
    shard_rows(lowering->output->ndim, &weft_lowering_output(lowering)->box, &walk->last, &walk->end);
}

bool weft_rows_next(weft_row_walk *walk)
{
    const weft_lowering *lowering = walk->lowering;
    if (walk->last == walk->end) {
        return false;
    }
    walk->first = walk->last;
    walk->output =
        weft_output_slot(lowering, 0,
                         weft_shard_panel_at(lowering->output, weft_lowering_output(lowering), walk->first,
                                             &walk->output_first, &walk->output_last));
    walk->access = walk->first == walk->output_first ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE;
    walk->last = weft_min_i64(walk->end, walk->output_last);
    for (int i = 0; i < lowering->num_inputs; i++) {
        if (walk->aligned & (1u << i)) {
            int64_t last;
            int64_t panel = weft_shard_panel_at(lowering->inputs[i], weft_lowering_input(lowering, i),
                                                walk->first, &walk->input_first[i], &last);
            walk->inputs[i] = weft_input_slot(lowering, i, panel);
            walk->last = weft_min_i64(walk->last, last);
        }
    }
    return true;
}

/* Bytes of `rows` rows of a shard. */
static int64_t row_bytes(const weft_layout *layout, const weft_shard_info *shard, int64_t rows)
{
    return rows * weft_row_elements(layout->ndim, &shard->box) * (int64_t)weft_dtype_size(layout->dtype);
}

int64_t weft_rows_output_offset(const weft_row_walk *walk)
{
    return row_bytes(walk->lowering->output, weft_lowering_output(walk->lowering),
                     walk->first - walk->output_first);
}

int64_t weft_rows_input_offset(const weft_row_walk *walk, int input)
{
    return row_bytes(walk->lowering->inputs[input], weft_lowering_input(walk->lowering, input),
                     walk->first - walk->input_first[input]);
}

void weft_rows_add_output(const weft_row_walk *walk)
{
    weft_task_add(walk->lowering->tasks, walk->output, weft_rows_output_offset(walk), walk->access);
}

void weft_rows_add_input(const weft_row_walk *walk, int input)
{
    weft_task_add(walk->lowering->tasks, walk->inputs[input], weft_rows_input_offset(walk, input),
                  WEFT_SLOT_READ);
}

double weft_lowering_position(const weft_lowering *lowering, int64_t row)
{
    return weft_row_position(lowering->output, weft_lowering_output(lowering)->rank, row);
}

bool weft_rows_end_task(const weft_row_walk *walk)
{
    return weft_task_end(walk->lowering->tasks, weft_lowering_position(walk->lowering, walk->first));
}

bool weft_lower_fill(const weft_lowering *lowering, weft_exact value)
{
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, 0); weft_rows_next(&walk);) {
        weft_constant_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_constant, sizeof(*args));
        if (args == NULL) {
            return false;
        }
        args->base.dtype = lowering->output->dtype;
        args->count = (walk.last - walk.first) *
                      weft_row_elements(lowering->output->ndim, &weft_lowering_output(lowering)->box);
        args->value = value.value;
        args->rest = value.rest;
        weft_rows_add_output(&walk);
        if (!weft_rows_end_task(&walk)) {
            return false;
        }
    }
    return true;
}

bool weft_lowering_adds(const weft_lowering *lowering, int input)
{
    const weft_layout *output = lowering->output, *own = lowering->inputs[input];
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(output->mesh, weft_mesh_index_of(output->mesh, weft_lowering_output(lowering)->rank),
                      coordinate);
    for (int m = 0; m < output->mesh->ndim; m++) {
        bool summed = output->placements[m].kind == WEFT_PARTIAL && output->placements[m].op == WEFT_SUM;
        if (summed && own->placements[m].kind != WEFT_PARTIAL && coordinate[m] != 0) {
            return false;
        }
    }
    return true;
}

void weft_box_strides(int ndim, const weft_box *box, int64_t strides[WEFT_MAX_DIMS])
{
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= box->extent[d];
    }
}
