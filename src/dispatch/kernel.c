/* The lowering of operations with a kernel: the walks over its tasks. parts.h says what each reads and writes. */
#include "dispatch/parts.h"
#include "tasks/copies.h"

/* One task for the whole shard. */
static bool lower_whole(const weft_lowering *lowering)
{
    weft_job j = { .first = true, .last = true };
    for (int o = 0; o < lowering->num_outputs; o++) {
        j.outputs[o] = weft_part_whole(lowering, weft_output_operand(lowering, o));
    }
    const weft_part *rows = &j.outputs[0];
    weft_job_choose_inputs(lowering, WEFT_ROWS_SAME, rows->first - rows->shift, rows->last - rows->shift, &j);
    return weft_job_add(lowering, &j);
}

/* ---- piece by piece ------------------------------------------------------------------------------------ */

/* Accumulates over pieces [from, to) of the contracted rows, one per panel of input 0, in order. */
static bool accumulate_pieces(const weft_lowering *lowering, weft_job j, int64_t from, int64_t to)
{
    const weft_shard_info *shard = weft_lowering_input(lowering, 0);
    for (int64_t piece = from; piece < to; piece++) {
        weft_part rows = shard->num_panels == 0 ? weft_part_whole(lowering, 0) : weft_part_panel(lowering, 0, piece);
        weft_job_choose_inputs(lowering, WEFT_ROWS_SUMMED, rows.first, rows.last, &j);
        j.first = piece == from;
        j.last = piece == to - 1;
        for (int o = 0; o < lowering->num_outputs && !j.first; o++) {
            j.outputs[o].access = WEFT_SLOT_READ_WRITE;
        }
        if (!weft_job_add(lowering, &j)) {
            return false;
        }
    }
    return true;
}

/* Pieces are sequential, so they are divided among groups. Each group computes the result of a rank that
 * had its rows alone; the results are then reduced as those of ranks are. The number of groups depends on
 * sizes, not on workers: results are reproducible. */
enum { MAX_GROUPS = WEFT_MAX_OPERANDS };

/* Reducing must cost little beside reading the input. 1 with several outputs, which belong together. */
static int64_t groups_of(const weft_lowering *lowering, int64_t output_bytes, int64_t pieces)
{
    if (lowering->num_outputs > 1 || lowering->operation->outputs[0].in_place) {
        return 1;
    }
    const weft_shard_info *shard = weft_lowering_input(lowering, 0);
    int64_t most = shard->count * (int64_t)weft_dtype_size(lowering->inputs[0]->dtype) / output_bytes;
    /* Each row of the output is made of all of a piece: reducing takes little beside that, and its memory is the limit. */
    most = lowering->operation->whole_pieces ? weft_min_i64(most, pieces) : weft_min_i64(most / 4, pieces / 2);
    return weft_max_i64(1, weft_min_i64(most, MAX_GROUPS));
}

/* Whole rows of an output, as they follow each other. */
static weft_strided_box box_of_rows(const weft_part *p, int64_t rows)
{
    const int64_t elements = rows * weft_row_elements(p->layout->ndim, &p->shard->box);
    return (weft_strided_box){ .ndim = 1, .extent = { elements }, .source_stride = { 1 }, .target_stride = { 1 } };
}

/* One panel: output = output op others[1] op ..., in this order. The others have the rows from `first` on. */
static bool combine(const weft_lowering *lowering, const weft_part *output, const weft_slot others[], int64_t groups, int64_t first)
{
    weft_reduce_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_reduce, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = lowering->output->dtype;
    args->combine = (weft_combine)lowering->operation->outputs[0].linear.contracts;
    args->accumulate = true;
    args->scale = 1;
    weft_task_add(lowering->tasks, weft_output_slot(lowering, 0, output->first_panel), 0,
                  WEFT_SLOT_READ_WRITE);
    for (int64_t g = 1; g < groups; g++) {
        args->boxes[g - 1] = box_of_rows(output, output->last - output->first);
        weft_task_add(lowering->tasks, others[g], (output->first - first) * weft_part_row_bytes(output), WEFT_SLOT_READ);
    }
    return weft_task_end(lowering->tasks, weft_lowering_position(lowering, output->first));
}

static int64_t pieces_of(const weft_lowering *lowering)
{
    return weft_max_i64(1, weft_lowering_input(lowering, 0)->num_panels);
}

/* The sums of a group. A range's temporaries that were those of the range before would make it wait for all of that. Where
 * ranges are few, all together take at most about twice the input's bytes, or one output's. */
static weft_slot new_sums(const weft_lowering *lowering, int64_t bytes)
{
    return lowering->operation->whole_pieces ? weft_task_new_buffer(lowering->tasks, bytes)
                                             : weft_task_new_temporary(lowering->tasks, bytes);
}

/* Panels [panel, end) of the output. */
static bool accumulate(const weft_lowering *lowering, int64_t panel, int64_t end)
{
    int operand = weft_output_operand(lowering, 0);
    int64_t first = weft_part_panel(lowering, operand, panel).first, last = weft_part_panel(lowering, operand, end - 1).last;
    weft_job whole = weft_job_of_rows(lowering, first, last);
    int64_t pieces = pieces_of(lowering), bytes = (last - first) * weft_part_row_bytes(&whole.outputs[0]);
    int64_t groups = groups_of(lowering, bytes, pieces);
    weft_slot others[MAX_GROUPS];
    bool done = true;
    for (int64_t g = 0; g < groups && done; g++) {
        weft_job own = whole;
        own.grouped = groups > 1;
        if (g > 0) {
            others[g] = new_sums(lowering, bytes);
            weft_part_move(&own.outputs[0], others[g], first);
        }
        done = accumulate_pieces(lowering, own, pieces * g / groups, pieces * (g + 1) / groups);
    }
    for (; panel < end && groups > 1 && done; panel++) {
        weft_part output = weft_part_panel(lowering, operand, panel);
        done = combine(lowering, &output, others, groups, first);
    }
    return done;
}

/* Where each row of the output reads all of a piece, tasks of more panels copy the piece less often (into the order of oneDNN,
 * say): as many panels as leave so many sequences of tasks that can run at once. */
enum { ENOUGH_SEQUENCES = 8 };

/* The number of ranges of panels that the output is divided into: a function of sizes. */
static int64_t ranges_of(const weft_lowering *lowering, int64_t panels)
{
    weft_part output = weft_part_of(lowering, weft_output_operand(lowering, 0), 0, 0);
    int64_t rows = output.shard->box.extent[0], ranges = lowering->operation->whole_pieces ? 1 : panels;
    for (; ranges < panels && !lowering->sharding->whole_rows; ranges++) {
        int64_t height = weft_ceil_div(panels, ranges); /* of the highest range, in panels */
        int64_t bytes = weft_min_i64(rows, height * output.layout->panel_rows) * weft_part_row_bytes(&output);
        if (panels * groups_of(lowering, bytes, pieces_of(lowering)) >= ENOUGH_SEQUENCES * height) {
            break;
        }
    }
    return ranges;
}

static bool accumulate_all(const weft_lowering *lowering, int64_t panels)
{
    bool done = true;
    for (int64_t r = 0, ranges = ranges_of(lowering, panels); r < ranges && done; r++) {
        done = accumulate(lowering, panels * r / ranges, panels * (r + 1) / ranges);
    }
    return done;
}

/* ---- panels shared by tasks ---------------------------------------------------------------------------- */

/* Tasks that write to one panel are sequential, so those of a panel that is small beside the input are divided among
 * groups of consecutive rows. The first group writes to the panel, the others to temporaries, which are copied afterwards. */
typedef struct row_groups {
    weft_part panel;
    int64_t count;                 /* 1: its tasks are sequential; 0: no panel yet */
    int64_t begin[MAX_GROUPS + 1]; /* first rows of the groups; then one past the panel's last row */
    weft_slot slots[MAX_GROUPS];   /* but for the first */
} row_groups;

/* Bytes of a row where most are: the same on all ranks. */
static int64_t largest_row_bytes(const weft_layout *layout)
{
    weft_shard_info shard = weft_layout_shard(layout, weft_layout_largest_rank(layout));
    return weft_row_elements(layout->ndim, &shard.box) * (int64_t)weft_dtype_size(layout->dtype);
}

/* Whether the output's rows are those of input 0, with at most a quarter of their bytes. All ranks answer alike: their tasks have
 * equal rows, and replicas of another output equal bits. */
static bool is_small(const weft_lowering *lowering, const weft_part *output)
{
    weft_part input = weft_part_of(lowering, 0, 0, 0);
    bool same = lowering->num_inputs > 0 && weft_lowering_reads(lowering, 0) && lowering->access_map[0] == NULL &&
                lowering->sharding->rows[0] == WEFT_ROWS_SAME;
    return same && output->access == WEFT_SLOT_WRITE && output->layout->ndim > 0 &&
           4 * largest_row_bytes(output->layout) <= largest_row_bytes(input.layout);
}

/* Rows of one task: the panel height of output 0, or that of input 0 if it is smaller and the output is small. */
static int64_t height_of(const weft_lowering *lowering)
{
    weft_part output = weft_part_of(lowering, weft_output_operand(lowering, 0), 0, 0);
    int64_t own = output.in_array ? INT64_MAX / 4 : output.layout->panel_rows; /* of an array, the panel's rows as they come */
    return is_small(lowering, &output) ? weft_min_i64(own, lowering->inputs[0]->panel_rows) : own;
}

/* The groups of the panel with the part's rows: as many for the same sizes on every machine. */
static void begin_groups(const weft_lowering *lowering, const weft_part *p, int64_t height, row_groups *g)
{
    int64_t first, last;
    weft_panel_range(p->layout, &p->shard->box, p->first_panel, &first, &last);
    int64_t number = first / height, tasks = (last - 1) / height - number + 1;
    bool divides = is_small(lowering, p) && p->layout->panel_rows % height == 0;
    g->panel = *p;
    g->count = divides ? weft_min_i64(MAX_GROUPS, tasks) : 1;
    g->begin[0] = first;
    g->begin[g->count] = last;
    for (int64_t i = g->count - 1; i > 0; i--) {
        g->begin[i] = (number + weft_ceil_div(tasks * i, g->count)) * height;
        g->slots[i] = weft_task_new_temporary(lowering->tasks, (g->begin[i + 1] - g->begin[i]) * weft_part_row_bytes(p));
    }
}

/* Lets a task write its rows to its group's memory. */
static void choose_group(const row_groups *g, weft_part *p)
{
    for (int64_t i = g->count - 1; i > 0 && !p->is_own; i--) {
        if (p->first >= g->begin[i]) {
            weft_part_move(p, g->slots[i], g->begin[i]);
        }
    }
}

static bool copy_groups(const weft_lowering *lowering, const row_groups *g)
{
    const weft_part *p = &g->panel;
    weft_copies copies = { .list = lowering->tasks,
                           .dtype = p->layout->dtype,
                           .element_size = weft_dtype_size(p->layout->dtype),
                           .target = { p->slot.tensor, p->slot.shard, p->first_panel },
                           .access = WEFT_SLOT_READ_WRITE,
                           .position = weft_lowering_position(lowering, g->begin[0]) };
    for (int64_t i = 1; i < g->count; i++) {
        weft_strided_box rows = box_of_rows(p, g->begin[i + 1] - g->begin[i]);
        if (!weft_copies_add(&copies, (g->begin[i] - g->begin[0]) * weft_part_row_bytes(p), g->slots[i], 0, &rows)) {
            return false;
        }
    }
    return weft_copies_end(&copies);
}

static bool lower_rows(const weft_lowering *lowering, int64_t first, int64_t last, int64_t height, row_groups all[])
{
    weft_job j = weft_job_of_rows(lowering, first, last);
    for (int o = 0; o < lowering->num_outputs; o++) {
        if (j.outputs[o].num_panels > 0 && (all[o].count == 0 || first >= all[o].begin[all[o].count])) {
            begin_groups(lowering, &j.outputs[o], height, &all[o]);
        }
        choose_group(&all[o], &j.outputs[o]);
    }
    weft_job_choose_inputs(lowering, WEFT_ROWS_SAME, first, last, &j);
    bool done = weft_job_add(lowering, &j);
    for (int o = 0; o < lowering->num_outputs && done; o++) {
        done = all[o].count < 2 || last < all[o].begin[all[o].count] || copy_groups(lowering, &all[o]);
    }
    return done;
}

/* ---- all tasks ----------------------------------------------------------------------------------------- */

/* Panels of output 0; also where a rank has its rows and none of their columns, so that replicas of the other outputs
 * are made by the same tasks. */
static int64_t count_panels(const weft_lowering *lowering)
{
    const weft_shard_info *shard = weft_lowering_output(lowering);
    const weft_box *box = &shard->box;
    int ndim = lowering->output->ndim;
    weft_part output = weft_part_of(lowering, weft_output_operand(lowering, 0), 0, 0);
    if (output.in_array) {
        return output.shard->num_panels;
    }
    return shard->count > 0 ? shard->num_panels
           : ndim == 0 || box->extent[0] == 0
               ? 0
               : weft_panel_of_row(lowering->output, box, box->offset[0] + box->extent[0] - 1) + 1;
}

static bool goes_by_piece(const weft_lowering *lowering)
{
    return lowering->operation->accumulates && lowering->sharding->rows[0] == WEFT_ROWS_SUMMED;
}

/* Whether tasks for some rows of output 0, or for all of them and a piece, make all outputs. */
static bool goes_by_rows(const weft_lowering *lowering, int64_t panels)
{
    bool whole = lowering->sharding->whole_rows && !(goes_by_piece(lowering) && lowering->operation->whole_pieces);
    bool by_rows = !whole && panels > 0;
    for (int o = 1; o < lowering->num_outputs; o++) {
        by_rows &= lowering->sharding->output_rows[o] == WEFT_ROWS_SAME;
    }
    return by_rows;
}

bool weft_lower_kernel(const weft_lowering *lowering)
{
    int64_t panels = count_panels(lowering);
    if (!goes_by_rows(lowering, panels)) {
        return lower_whole(lowering);
    }
    if (goes_by_piece(lowering)) {
        return accumulate_all(lowering, panels);
    }
    int64_t height = height_of(lowering);
    row_groups all[WEFT_MAX_OUTPUTS] = { 0 };
    for (int64_t panel = 0; panel < panels; panel++) {
        weft_part rows = weft_part_panel(lowering, weft_output_operand(lowering, 0), panel);
        int64_t end = rows.last - rows.shift;
        for (int64_t first = rows.first - rows.shift, last; first < end; first = last) {
            last = weft_min_i64(end, lowering->output->ndim == 0 ? 1 : (first / height + 1) * height);
            if (!lower_rows(lowering, first, last, height, all)) {
                return false;
            }
        }
    }
    return true;
}
