/* Look-up of rows in a table, and the gradient of the table. */
#include "codelets/lookup.h"
#include "ops/row_reduce.h"
#include "runtime/last_cache.h"

/* ---- forward ------------------------------------------------------------------------------------------- */

/* The part of the table that a task reads: some panels; none if the rank has no rows. */
typedef struct table_part {
    int64_t first_panel, num_panels;
    int64_t first_row, num_rows;
} table_part;

/* Panels from `first` on, at most as many as fit in a task. */
static table_part table_part_at(const weft_layout *layout, const weft_shard_info *shard, int64_t first)
{
    table_part part = { first, weft_min_i64(shard->num_panels - first, WEFT_EMBEDDING_PANELS), 0, 0 };
    if (part.num_panels > 0) {
        int64_t begin, end;
        weft_panel_range(layout, &shard->box, first, &part.first_row, &end);
        weft_panel_range(layout, &shard->box, first + part.num_panels - 1, &begin, &end);
        part.num_rows = end - part.first_row;
    }
    return part;
}

/* A task for each part of the table reads every index; only the part with row 0 (or the empty part of an
 * empty table) checks its range. */
static bool is_checked_with(const table_part *part, int64_t total_rows)
{
    return total_rows == 0 || (part->num_rows > 0 && part->first_row == 0);
}

/* Looks up the current piece in one part of the table. With a single index the output's rows are columns
 * of the looked-up row, and the piece is a range of them. */
static bool look_up(const weft_row_walk *walk, const table_part *part, bool first)
{
    const weft_lowering *lowering = walk->lowering;
    const weft_layout *table = lowering->inputs[0];
    const weft_shard_info *indices = weft_lowering_input(lowering, 1);
    bool single = lowering->inputs[1]->ndim == 0;
    int64_t table_width = weft_lowering_input(lowering, 0)->box.extent[1];
    int64_t first_column = single ? walk->first - weft_lowering_output(lowering)->box.offset[0] : 0;
    weft_embedding_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_embedding, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = table->dtype;
    args->index_type = lowering->inputs[1]->dtype;
    args->count =
        single ? 1 : (walk->last - walk->first) * weft_row_elements(lowering->inputs[1]->ndim, &indices->box);
    args->width = single ? walk->last - walk->first : table_width;
    args->first_row = part->first_row;
    args->num_rows = part->num_rows;
    args->total_rows = table->shape[0];
    args->panel_rows = table->panel_rows;
    args->output_stride = args->width;
    args->table_stride = table_width;
    args->first = first;
    args->checks = is_checked_with(part, args->total_rows);
    args->streams = weft_outgrows_cache(lowering->output);
    weft_task_add(lowering->tasks, walk->output, weft_rows_output_offset(walk),
                  first ? walk->access : WEFT_SLOT_READ_WRITE);
    if (single) {
        weft_task_add(lowering->tasks, weft_input_slot(lowering, 1, 0), 0, WEFT_SLOT_READ);
    } else {
        weft_rows_add_input(walk, 1);
    }
    for (int64_t i = 0; i < part->num_panels; i++) {
        weft_task_add(lowering->tasks, weft_input_slot(lowering, 0, part->first_panel + i),
                      first_column * (int64_t)weft_dtype_size(table->dtype), WEFT_SLOT_READ);
    }
    return weft_rows_end_task(walk);
}

static bool lower_embedding(const weft_lowering *lowering)
{
    const weft_shard_info *table = weft_lowering_input(lowering, 0);
    unsigned aligned = lowering->inputs[1]->ndim == 0 ? 0 : 1u << 1;
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, aligned); weft_rows_next(&walk);) {
        table_part part = { 0 };
        do {
            part = table_part_at(lowering->inputs[0], table, part.first_panel + part.num_panels);
            if (!look_up(&walk, &part, part.first_panel == 0)) {
                return false;
            }
        } while (part.first_panel + part.num_panels < table->num_panels);
    }
    return true;
}

/* The result has no elements, so no task would report a wrong index. */
static bool has_no_columns(const weft_call_layouts *call)
{
    return call->inputs[0]->ndim == 2 && call->inputs[0]->shape[1] == 0;
}

static bool expand_unseen(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *result = weft_dispatch_itself(call);
    outputs[0] = weft_with_checked_indices(call->function, result, call->inputs[1],
                                           weft_layout_of(call->inputs[0])->shape[0]);
    return outputs[0] != NULL;
}

static bool gradient_of_embedding(const weft_gradient *of)
{
    int64_t rows = weft_layout_of(of->call->inputs[0])->shape[0];
    return weft_give_gradient(
        of, 0, weft_embedding_backward(weft_gradient_of_output(of, 0), of->call->inputs[1], rows));
}

static const weft_operation operation_embedding = {
    .name = "embedding",
    .gradient = WEFT_GRADIENT_BY(gradient_of_embedding, WEFT_READS_INPUT(1)),
    .rules = { "vd*,A*->Ad" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "table", WEFT_TYPES_FLOAT, true }, { "indices", WEFT_TYPES_INDEX, false } },
    .kernel = WEFT_KERNEL_embedding,
    .lower = lower_embedding,
    .expand = expand_unseen,
    .expands = has_no_columns,
};

weft_tensor *weft_embedding(weft_tensor *table, weft_tensor *indices)
{
    static const char function[] = "weft_embedding";
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = &operation_embedding,
                                       .num_inputs = 2,
                                       .inputs = { table, indices } });
}

/* ---- gradient of the table ----------------------------------------------------------------------------- */

/* Rows of the gradient and of the indices in one panel of each. With a single index: columns of the
 * gradient's only row. */
typedef struct source_piece {
    int64_t gradient, indices;             /* panel numbers */
    int64_t gradient_first, indices_first; /* first rows of these panels */
    int64_t first, last;
} source_piece;

static source_piece source_piece_at(const weft_lowering *lowering, int64_t row)
{
    source_piece piece = { .first = row };
    piece.gradient = weft_shard_panel_at(lowering->inputs[0], weft_lowering_input(lowering, 0), row,
                                         &piece.gradient_first, &piece.last);
    if (lowering->inputs[1]->ndim == 0) {
        return piece;
    }
    int64_t last;
    piece.indices = weft_shard_panel_at(lowering->inputs[1], weft_lowering_input(lowering, 1), row,
                                        &piece.indices_first, &last);
    piece.last = weft_min_i64(piece.last, last);
    return piece;
}

/* Adds a piece to the current rows of the table's gradient. */
static bool scatter(const weft_row_walk *walk, const source_piece *piece, bool first)
{
    const weft_lowering *lowering = walk->lowering;
    const weft_layout *gradient = lowering->inputs[0], *indices = lowering->inputs[1];
    const weft_shard_info *gradient_shard = weft_lowering_input(lowering, 0);
    bool single = indices->ndim == 0;
    weft_dtype type = lowering->output->dtype;
    int64_t gradient_size = (int64_t)weft_dtype_size(gradient->dtype);
    int64_t gradient_row = weft_row_elements(gradient->ndim, &gradient_shard->box);
    int64_t indices_row = weft_row_elements(indices->ndim, &weft_lowering_input(lowering, 1)->box);
    int64_t table_width = weft_lowering_output(lowering)->box.extent[1];
    weft_embedding_args *args =
        weft_task_begin(lowering->tasks, WEFT_KERNEL_embedding_backward, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = type;
    args->index_type = indices->dtype;
    args->gradient_type = gradient->dtype;
    args->count = single ? 1 : (piece->last - piece->first) * indices_row;
    args->width = single ? piece->last - piece->first : table_width;
    args->first_row = walk->first;
    args->num_rows = walk->last - walk->first;
    args->total_rows = lowering->output->shape[0];
    args->output_stride = args->width;
    args->table_stride = table_width;
    args->first = first || single; /* pieces of a single row are different columns */
    args->checks = walk->first == 0;
    int64_t column = single ? piece->first - gradient_shard->box.offset[0] : 0;
    weft_task_add(lowering->tasks, walk->output,
                  weft_rows_output_offset(walk) + column * (int64_t)weft_dtype_size(type),
                  first ? walk->access : WEFT_SLOT_READ_WRITE);
    weft_task_add(lowering->tasks, weft_input_slot(lowering, 0, piece->gradient),
                  (piece->first - piece->gradient_first) * gradient_row * gradient_size, WEFT_SLOT_READ);
    weft_task_add(lowering->tasks, weft_input_slot(lowering, 1, piece->indices),
                  single ? 0
                         : (piece->first - piece->indices_first) * indices_row *
                               (int64_t)weft_dtype_size(indices->dtype),
                  WEFT_SLOT_READ);
    return weft_rows_end_task(walk);
}

/* Every part of the table visits all indices, in their order. */
static bool lower_embedding_backward(const weft_lowering *lowering)
{
    const weft_shard_info *gradient = weft_lowering_input(lowering, 0);
    if (gradient->count == 0) {
        return weft_lower_fill(lowering, (weft_exact){ 0, 0 });
    }
    int64_t begin = gradient->box.offset[0], end = begin + gradient->box.extent[0];
    weft_row_walk walk;
    for (weft_rows_begin(&walk, lowering, 0); weft_rows_next(&walk);) {
        source_piece piece;
        for (int64_t row = begin; row < end; row = piece.last) {
            piece = source_piece_at(lowering, row);
            if (!scatter(&walk, &piece, row == begin)) {
                return false;
            }
        }
    }
    return true;
}

/* Sums that are rounded need a wider result; indices may need a check without tasks. */
static bool backward_expands(const weft_call_layouts *call)
{
    int last = call->inputs[0]->ndim - 1;
    return weft_sum_is_rounded(call) || call->attributes->sizes[0] == 0 ||
           (last >= 0 && call->inputs[0]->shape[last] == 0);
}

static bool expand_backward(const weft_call *call, weft_tensor *outputs[])
{
    weft_call sum = *call;
    weft_dtype type = (weft_dtype)call->attributes.type;
    sum.attributes.type = weft_wide_type(type);
    weft_tensor *result = weft_dispatch_itself(&sum);
    result = result == NULL ? NULL : weft_to_type(result, type);
    outputs[0] = weft_with_checked_indices(call->function, result, call->inputs[1], call->attributes.sizes[0]);
    return outputs[0] != NULL;
}

static bool gradient_of_embedding_backward(const weft_gradient *of)
{
    return weft_give_gradient(of, 0, weft_embedding(weft_gradient_of_output(of, 0), of->call->inputs[1]));
}

/* attributes.sizes[0]: rows of the table. The call gives the type: 16-bit rows are summed in WEFT_F32. */
static const weft_operation operation_embedding_backward = {
    .name = "embedding_backward",
    .gradient = WEFT_GRADIENT_BY(gradient_of_embedding_backward, WEFT_READS_INPUT(1)),
    .rules = { "A*d*,A->vd" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_EACH, .inputs = 1u << 0, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "gradient", WEFT_TYPES_FLOAT, true }, { "indices", WEFT_TYPES_INDEX, false } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_embedding_backward,
    .lower = lower_embedding_backward,
    .expand = expand_backward,
    .expands = backward_expands,
};

weft_tensor *weft_embedding_backward(weft_tensor *gradient, weft_tensor *indices, int64_t num_rows)
{
    static const char function[] = "weft_embedding_backward";
    if (weft_check_tensor(function, "gradient", gradient) == NULL) {
        return NULL;
    }
    if (num_rows < 0) {
        weft_fail(WEFT_ERR_INVALID, function, "num_rows is %lld, expected at least 0", (long long)num_rows);
        return NULL;
    }
    return weft_dispatch_sum(&(weft_call){
        .function = function,
        .operation = &operation_embedding_backward,
        .num_inputs = 2,
        .inputs = { gradient, indices },
        .attributes = { .num_sizes = 1, .sizes = { num_rows } },
    });
}

const weft_operation *const weft_embedding_operations[] = {
    &operation_embedding,
    &operation_embedding_backward,
    NULL,
};
