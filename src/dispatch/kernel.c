/* The lowering of operations with a kernel: the rule says which rows of each input a task reads. */
#include <string.h>

#include "codelets/copy.h"
#include "codelets/kernel.h"
#include "dispatch/dispatch.h"

/* Rows [first, last) (global) of a shard, as an operand. */
typedef struct part {
    const weft_layout *layout;
    const weft_access_map *access_map; /* of the tensor; NULL: none */
    const weft_neighbours *neighbours; /* the rows may be neighbours' as well; NULL: they are the shard's */
    const weft_shard_info *shard;
    int64_t first, last, own_first;
    int64_t shift; /* added to the rows' global indices: data of an access map has other rows */
    int64_t first_panel, num_panels;
    weft_slot slot; /* panel 0; with is_own: the only panel, of a temporary with the rows from own_first on */
    bool is_own;
    weft_slot_access access; /* WRITE becomes READ_WRITE if another task writes the panel's first rows */
} part;

/* Operands are numbered as slots: inputs, then outputs. */
static int output_operand(const weft_lowering *lowering, int output)
{
    return lowering->num_inputs + output;
}

static part part_of(const weft_lowering *lowering, int operand, int64_t first, int64_t last)
{
    int output = operand - lowering->num_inputs;
    part p = { .first = first, .last = last, .own_first = first };
    if (output >= 0) {
        p.layout = lowering->outputs[output];
        p.shard = &lowering->output_shards[output];
        p.slot = weft_output_slot(lowering, output, 0);
        p.access = lowering->operation->outputs[output].in_place ? WEFT_SLOT_READ_WRITE : WEFT_SLOT_WRITE;
    } else {
        p.layout = lowering->inputs[operand];
        p.shard = weft_lowering_input(lowering, operand);
        p.slot = weft_input_slot(lowering, operand, 0);
        p.access = WEFT_SLOT_READ;
    }
    if (p.shard->count > 0 && last > first) {
        p.first_panel = weft_panel_of_row(p.layout, &p.shard->box, first);
        p.num_panels = weft_panel_of_row(p.layout, &p.shard->box, last - 1) - p.first_panel + 1;
    }
    return p;
}

static part whole_shard(const weft_lowering *lowering, int operand)
{
    part p = part_of(lowering, operand, 0, 0);
    int64_t first = p.layout->ndim == 0 ? 0 : p.shard->box.offset[0];
    return part_of(lowering, operand, first, first + (p.layout->ndim == 0 ? 1 : p.shard->box.extent[0]));
}

static part panel_part(const weft_lowering *lowering, int operand, int64_t panel)
{
    part p = part_of(lowering, operand, 0, 0);
    int64_t first, last;
    weft_panel_range(p.layout, &p.shard->box, panel, &first, &last);
    return part_of(lowering, operand, first, last);
}

/* The window of an input's dimension. */
static weft_window window_of(const weft_lowering *lowering, int input, int dim)
{
    const weft_sharding *sharding = lowering->sharding;
    weft_call_layouts call = { lowering->operation, lowering->num_inputs, { NULL }, lowering->attributes };
    memcpy(call.inputs, sharding->inputs, sizeof(call.inputs));
    weft_window window = lowering->operation->window(&call, input, dim);
    window.size = sharding->inputs[input]->shape[dim];
    return window;
}

/* Rows [first, last) of an input that is read in place, in panels of neighbours->height rows. */
static part part_in_place(const weft_lowering *lowering, int input, int64_t first, int64_t last)
{
    part p = part_of(lowering, input, 0, 0);
    int64_t height = lowering->neighbours[input]->height;
    p.neighbours = lowering->neighbours[input];
    p.first = first;
    p.last = last;
    p.num_panels = p.shard->count > 0 && last > first ? (last - 1) / height - first / height + 1 : 0;
    return p;
}

/* The rows of an input that rows [first, last) of output 0 read through its access map. */
static part rows_through_map(const weft_lowering *lowering, int input, int64_t first, int64_t last)
{
    const weft_access_map *map = lowering->access_map[input];
    weft_window window = window_of(lowering, input, 0);
    int64_t begin, end, shift = 0;
    weft_window_range(&window, first, last - first, &begin, &end);
    if (lowering->neighbours[input] != NULL) {
        return part_in_place(lowering, input, begin, end);
    }
    if (map != NULL && map->has[0]) {
        const weft_shard_info *shard = weft_lowering_input(lowering, input);
        weft_box box;
        weft_access_map_rank_box(map, shard->rank, &box);
        shift = shard->box.offset[0] - box.offset[0];
    }
    part p = part_of(lowering, input, begin + shift, end + shift);
    p.shift = shift;
    return p;
}

/* A rank's whole shard of an input, without unused room behind an access map's rows. */
static part all_of_input(const weft_lowering *lowering, int input)
{
    const weft_access_map *map = lowering->access_map[input];
    const weft_shard_info *shard = weft_lowering_input(lowering, input);
    if (lowering->neighbours[input] != NULL) {
        weft_window window = window_of(lowering, input, 0);
        int64_t begin, end;
        weft_window_range(&window, shard->box.offset[0], shard->box.extent[0], &begin, &end);
        return part_in_place(lowering, input, begin, end);
    }
    if (map == NULL || !map->has[0]) {
        return whole_shard(lowering, input);
    }
    weft_box box;
    weft_access_map_rank_box(map, shard->rank, &box);
    part p = part_of(lowering, input, shard->box.offset[0], shard->box.offset[0] + box.extent[0]);
    p.shift = shard->box.offset[0] - box.offset[0];
    return p;
}

/* Converts the view through an access map to indices of the tensor that the map reads from. */
static void place_in_source(weft_kernel_operand *operand, const part *p)
{
    weft_box box;
    weft_access_map_rank_box(p->access_map, p->shard->rank, &box);
    for (int d = 0; d < operand->ndim; d++) {
        if (p->access_map->has[d]) {
            operand->shape[d] = p->access_map->of[d].size;
            operand->offset[d] = d == 0 ? operand->offset[d] : box.offset[d];
            operand->extent[d] = d == 0 ? operand->extent[d] : box.extent[d];
        }
    }
}

/* Whether the part's memory has unused room along a dimension other than the first. */
static bool has_room(const part *p)
{
    bool has = false;
    for (int d = 1; d < p->layout->ndim && p->access_map != NULL; d++) {
        has |= p->access_map->has[d];
    }
    return has;
}

static void fill_operand(weft_kernel_operand *operand, const part *p)
{
    const weft_layout *layout = p->layout;
    operand->dtype = layout->dtype;
    operand->ndim = layout->ndim;
    operand->panel_rows = p->neighbours == NULL ? layout->panel_rows : p->neighbours->height;
    operand->row_shift = p->shift;
    for (int d = 0; d < layout->ndim; d++) {
        operand->shape[d] = layout->shape[d];
        operand->offset[d] = p->shard->box.offset[d];
        operand->extent[d] = p->shard->box.extent[d];
    }
    if (layout->ndim > 0) {
        operand->offset[0] = p->first - p->shift;
        operand->extent[0] = p->last - p->first;
    }
    if (p->access_map != NULL) {
        place_in_source(operand, p);
    }
}

static int64_t row_bytes(const part *p)
{
    return weft_row_elements(p->layout->ndim, &p->shard->box) * (int64_t)weft_dtype_size(p->layout->dtype);
}

/* Bytes before the part's first row in its first panel. */
static int64_t offset_in_panel(const part *p, int64_t panel)
{
    if (panel > p->first_panel || p->layout->ndim == 0) {
        return 0;
    }
    int64_t first = p->own_first, last;
    if (!p->is_own) {
        weft_panel_range(p->layout, &p->shard->box, panel, &first, &last);
    }
    return (p->first - first) * row_bytes(p);
}

/* Adds the panel of a shard in which a row lies, from that row on. */
static void add_row(weft_task_list *tasks, const weft_layout *layout, const weft_shard_info *shard, int tensor,
                    int local_shard, int64_t row)
{
    int64_t first, last;
    int64_t panel = weft_shard_panel_at(layout, shard, row, &first, &last);
    int64_t row_bytes = weft_row_elements(layout->ndim, &shard->box) * (int64_t)weft_dtype_size(layout->dtype);
    weft_task_add(tasks, (weft_slot){ tensor, local_shard, panel }, (row - first) * row_bytes, WEFT_SLOT_READ);
}

/* The panels of an input that is read in place. Parts begin at multiples of the panels' height, so that the rows of a panel are
 * all the rank's own, or all before them, or all behind. */
static void add_in_place(weft_task_list *tasks, const part *p)
{
    const weft_box *own = &p->shard->box;
    int64_t height = p->neighbours->height;
    for (int64_t row = p->first; row < p->last; row = (row / height + 1) * height) {
        int64_t behind = row - own->offset[0] - own->extent[0];
        if (row >= own->offset[0] && behind < 0) {
            add_row(tasks, p->layout, p->shard, p->slot.tensor, p->slot.shard, row);
            continue;
        }
        const weft_neighbour_rows *side = &p->neighbours->sides[behind < 0 ? WEFT_ROWS_BEFORE : WEFT_ROWS_BEHIND];
        weft_shard_info shard = weft_layout_shard(side->layout, p->shard->rank);
        int64_t number = behind < 0 ? row - own->offset[0] + side->rows : behind;
        add_row(tasks, side->layout, &shard, side->tensor, p->slot.shard, shard.box.offset[0] + number);
    }
}

static void add_part(weft_task_list *tasks, weft_kernel_operand *operand, int *num_panels, const part *p)
{
    fill_operand(operand, p);
    operand->first_panel = *num_panels;
    operand->num_panels = (int)p->num_panels;
    *num_panels += (int)p->num_panels;
    if (p->neighbours != NULL) {
        if (p->num_panels > 0) {
            add_in_place(tasks, p);
        }
        return;
    }
    for (int64_t i = 0; i < p->num_panels; i++) {
        int64_t panel = p->first_panel + i;
        weft_slot slot = p->slot;
        slot.panel += p->is_own ? 0 : panel;
        int64_t offset = offset_in_panel(p, panel);
        weft_task_add(tasks, slot, offset,
                      offset > 0 && p->access == WEFT_SLOT_WRITE ? WEFT_SLOT_READ_WRITE : p->access);
    }
}

/* The operands of one task. */
typedef struct job {
    part outputs[WEFT_MAX_OUTPUTS];
    int num_inputs; /* number of inputs read */
    part inputs[WEFT_MAX_INPUTS];
    bool first, last; /* see weft_kernel_call */
} job;

static int64_t panels_of(const weft_lowering *lowering, const job *j)
{
    int64_t panels = 0;
    for (int o = 0; o < lowering->num_outputs; o++) {
        panels += j->outputs[o].num_panels;
    }
    for (int i = 0; i < j->num_inputs; i++) {
        panels += j->inputs[i].num_panels;
    }
    return panels;
}

static int rooms_of(const job *j)
{
    int rooms = 0;
    for (int i = 0; i < j->num_inputs; i++) {
        rooms += has_room(&j->inputs[i]);
    }
    return rooms;
}

/* Adds the extents of the inputs' memory if it has unused room. */
static void add_rooms(weft_kernel_args *args, const job *j)
{
    weft_kernel_room *room = weft_kernel_rooms(args);
    int number = 0;
    for (int i = 0; i < j->num_inputs; i++) {
        if (has_room(&j->inputs[i])) {
            memcpy(room[number].extent, j->inputs[i].shard->box.extent, sizeof(room->extent));
            args->operands[args->num_outputs + i].room = ++number;
        }
    }
}

static bool add_task(const weft_lowering *lowering, const job *j)
{
    int64_t needed = panels_of(lowering, j);
    if (needed > WEFT_KERNEL_MAX_PANELS) {
        weft_fail_alone(WEFT_ERR_UNSUPPORTED, lowering->function,
                        "a task would need %lld panels, and takes at most %d: WEFT_PANEL_ROWS is too small",
                        (long long)needed, WEFT_KERNEL_MAX_PANELS);
        return false;
    }
    int num_operands = lowering->num_outputs + j->num_inputs;
    weft_kernel_args *args = weft_task_begin(lowering->tasks, lowering->operation->kernel,
                                             weft_kernel_args_size(num_operands, rooms_of(j)));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = lowering->output->dtype;
    args->first = j->first;
    args->last = j->last;
    args->num_outputs = lowering->num_outputs;
    args->num_inputs = j->num_inputs;
    memcpy(args->numbers, lowering->attributes->numbers, sizeof(args->numbers));
    int num_panels = 0;
    for (int o = 0; o < lowering->num_outputs; o++) {
        add_part(lowering->tasks, &args->operands[o], &num_panels, &j->outputs[o]);
    }
    for (int i = 0; i < j->num_inputs; i++) {
        add_part(lowering->tasks, &args->operands[lowering->num_outputs + i], &num_panels, &j->inputs[i]);
    }
    add_rooms(args, j);
    return weft_task_end(lowering->tasks, weft_lowering_position(lowering, j->outputs[0].first));
}

/* Inputs changed in place are outputs. */
static bool is_read(const weft_lowering *lowering, int input)
{
    return input >= lowering->num_outputs || !lowering->operation->outputs[input].in_place;
}

/* Whether a rank reads nothing of an input through its access map. */
static bool reads_nothing(const part *p)
{
    weft_box box = { .extent = { 0 } };
    bool nothing = false;
    if (p->access_map != NULL) {
        weft_access_map_rank_box(p->access_map, p->shard->rank, &box);
    }
    for (int d = 0; d < p->layout->ndim && p->access_map != NULL; d++) {
        nothing |= p->access_map->has[d] && box.extent[d] == 0;
    }
    return nothing;
}

/* Chooses the inputs' parts for rows [first, last): row-aligned inputs by row, the others whole. */
static void choose_inputs(const weft_lowering *lowering, weft_rows_relation same, int64_t first, int64_t last,
                          job *j)
{
    const part *output = &j->outputs[0];
    j->num_inputs = 0;
    for (int i = 0; i < lowering->num_inputs; i++) {
        if (is_read(lowering, i)) {
            weft_rows_relation rows = lowering->sharding->rows[i];
            part *p = &j->inputs[j->num_inputs++];
            *p = rows == WEFT_ROWS_WINDOW ? rows_through_map(lowering, i, output->first, output->last)
                 : rows == same && same != WEFT_ROWS_ALL ? part_of(lowering, i, first, last)
                                                         : all_of_input(lowering, i);
            p->access_map = lowering->access_map[i];
            p->num_panels = reads_nothing(p) ? 0 : p->num_panels;
        }
    }
}

/* The outputs' parts for rows [first, last) of output 0, which are rows of all outputs. */
static job job_of_rows(const weft_lowering *lowering, int64_t first, int64_t last)
{
    job j = { .first = true, .last = true };
    for (int o = 0; o < lowering->num_outputs; o++) {
        j.outputs[o] = part_of(lowering, output_operand(lowering, o), first, last);
    }
    return j;
}

/* One task for the whole shard. */
static bool lower_whole(const weft_lowering *lowering)
{
    job j = { .first = true, .last = true };
    for (int o = 0; o < lowering->num_outputs; o++) {
        j.outputs[o] = whole_shard(lowering, output_operand(lowering, o));
    }
    choose_inputs(lowering, WEFT_ROWS_SAME, j.outputs[0].first, j.outputs[0].last, &j);
    return add_task(lowering, &j);
}

/* ---- piece by piece ------------------------------------------------------------------------------------ */

/* Accumulates over pieces [from, to) of the contracted rows, one per panel of input 0, in order. */
static bool accumulate_pieces(const weft_lowering *lowering, job j, int64_t from, int64_t to)
{
    const weft_shard_info *shard = weft_lowering_input(lowering, 0);
    for (int64_t piece = from; piece < to; piece++) {
        part rows = shard->num_panels == 0 ? whole_shard(lowering, 0) : panel_part(lowering, 0, piece);
        choose_inputs(lowering, WEFT_ROWS_SUMMED, rows.first, rows.last, &j);
        j.first = piece == from;
        j.last = piece == to - 1;
        for (int o = 0; o < lowering->num_outputs && !j.first; o++) {
            j.outputs[o].access = WEFT_SLOT_READ_WRITE;
        }
        if (!add_task(lowering, &j)) {
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
static int64_t groups_of(const weft_lowering *lowering, const part *output, int64_t pieces)
{
    if (lowering->num_outputs > 1 || lowering->operation->outputs[0].in_place) {
        return 1;
    }
    const weft_shard_info *shard = weft_lowering_input(lowering, 0);
    int64_t input_bytes = shard->count * (int64_t)weft_dtype_size(lowering->inputs[0]->dtype);
    int64_t most = input_bytes / (4 * (output->last - output->first) * row_bytes(output));
    return weft_max_i64(1, weft_min_i64(most, weft_min_i64(MAX_GROUPS, pieces / 2)));
}

/* The next source of a copy or a reduction: so many rows of an output, in a temporary. */
static void add_source(const weft_lowering *lowering, weft_strided_box *box, const part *p, int64_t rows, weft_slot from)
{
    box->ndim = 1;
    box->extent[0] = rows * weft_row_elements(p->layout->ndim, &p->shard->box);
    box->source_stride[0] = box->target_stride[0] = 1;
    weft_task_add(lowering->tasks, from, 0, WEFT_SLOT_READ);
}

/* output = output op others[1] op ..., in this order. */
static bool combine(const weft_lowering *lowering, const part *output, const weft_slot others[], int64_t groups)
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
        add_source(lowering, &args->boxes[g - 1], output, output->last - output->first, others[g]);
    }
    return weft_task_end(lowering->tasks, weft_lowering_position(lowering, output->first));
}

static bool accumulate(const weft_lowering *lowering, int64_t first, int64_t last)
{
    job whole = job_of_rows(lowering, first, last);
    const part *output = &whole.outputs[0];
    int64_t pieces = weft_max_i64(1, weft_lowering_input(lowering, 0)->num_panels);
    int64_t groups = groups_of(lowering, output, pieces), bytes = (last - first) * row_bytes(output);
    weft_slot others[MAX_GROUPS];
    bool done = true;
    for (int64_t g = 0; g < groups && done; g++) {
        job own = whole;
        if (g > 0) {
            own.outputs[0].slot = others[g] = weft_task_new_temporary(lowering->tasks, bytes);
            own.outputs[0].is_own = true;
        }
        done = accumulate_pieces(lowering, own, pieces * g / groups, pieces * (g + 1) / groups);
    }
    return done && (groups == 1 || combine(lowering, output, others, groups));
}

/* ---- panels shared by tasks ---------------------------------------------------------------------------- */

/* Tasks that write to one panel are sequential, so those of a panel that is small beside the input are divided among
 * groups of consecutive rows. The first group writes to the panel, the others to temporaries, which are copied behind. */
typedef struct row_groups {
    part panel;
    int64_t count;                 /* 1: its tasks are sequential; 0: no panel yet */
    int64_t begin[MAX_GROUPS + 1]; /* first rows of the groups; then one past the panel's last row */
    weft_slot slots[MAX_GROUPS];   /* but for the first */
} row_groups;

/* Whether the output's rows are those of input 0, with at most a quarter of their bytes. */
static bool is_small(const weft_lowering *lowering, const part *output)
{
    part input = part_of(lowering, 0, 0, 0);
    bool same = lowering->num_inputs > 0 && is_read(lowering, 0) && lowering->access_map[0] == NULL &&
                lowering->sharding->rows[0] == WEFT_ROWS_SAME;
    return same && output->access == WEFT_SLOT_WRITE && output->layout->ndim > 0 &&
           4 * row_bytes(output) <= row_bytes(&input);
}

/* Rows of one task: the panel height of output 0, or that of input 0 if it is smaller and the output is small. */
static int64_t height_of(const weft_lowering *lowering)
{
    part output = part_of(lowering, output_operand(lowering, 0), 0, 0);
    int64_t own = output.layout->panel_rows;
    return is_small(lowering, &output) ? weft_min_i64(own, lowering->inputs[0]->panel_rows) : own;
}

/* The groups of the panel with the part's rows: as many for the same sizes on every machine. */
static void begin_groups(const weft_lowering *lowering, const part *p, int64_t height, row_groups *g)
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
        g->slots[i] = weft_task_new_temporary(lowering->tasks, (g->begin[i + 1] - g->begin[i]) * row_bytes(p));
    }
}

/* Lets a task write its rows to its group's memory. */
static void choose_group(const row_groups *g, part *p)
{
    for (int64_t i = g->count - 1; i > 0 && !p->is_own; i--) {
        if (p->first >= g->begin[i]) {
            p->slot = g->slots[i];
            p->is_own = true;
            p->own_first = g->begin[i];
        }
    }
}

static bool copy_groups(const weft_lowering *lowering, const row_groups *g)
{
    const part *p = &g->panel;
    weft_copy_args *args = weft_task_begin(lowering->tasks, WEFT_KERNEL_copy, sizeof(*args));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = p->layout->dtype;
    args->element_size = weft_dtype_size(p->layout->dtype);
    weft_slot panel = { p->slot.tensor, p->slot.shard, p->first_panel };
    weft_task_add(lowering->tasks, panel, 0, WEFT_SLOT_READ_WRITE);
    for (int64_t i = 1; i < g->count; i++) {
        args->target_offset[i - 1] = (g->begin[i] - g->begin[0]) * row_bytes(p);
        add_source(lowering, &args->boxes[i - 1], p, g->begin[i + 1] - g->begin[i], g->slots[i]);
    }
    weft_task_trim(lowering->tasks, offsetof(weft_copy_args, boxes) + (size_t)(g->count - 1) * sizeof(args->boxes[0]));
    return weft_task_end(lowering->tasks, weft_lowering_position(lowering, g->begin[0]));
}

static bool lower_rows(const weft_lowering *lowering, int64_t first, int64_t last, int64_t height, row_groups all[])
{
    job j = job_of_rows(lowering, first, last);
    for (int o = 0; o < lowering->num_outputs; o++) {
        if (j.outputs[o].num_panels > 0 && (all[o].count == 0 || first >= all[o].begin[all[o].count])) {
            begin_groups(lowering, &j.outputs[o], height, &all[o]);
        }
        choose_group(&all[o], &j.outputs[o]);
    }
    choose_inputs(lowering, WEFT_ROWS_SAME, first, last, &j);
    bool done = add_task(lowering, &j);
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
    return shard->count > 0 ? shard->num_panels
           : ndim == 0 || box->extent[0] == 0
               ? 0
               : weft_panel_of_row(lowering->output, box, box->offset[0] + box->extent[0] - 1) + 1;
}

/* Whether one task per panel of output 0 makes all outputs. */
static bool goes_by_rows(const weft_lowering *lowering)
{
    bool by_rows = !lowering->sharding->whole_rows && count_panels(lowering) > 0;
    for (int o = 1; o < lowering->num_outputs; o++) {
        by_rows &= lowering->sharding->output_rows[o] == WEFT_ROWS_SAME;
    }
    return by_rows;
}

bool weft_lower_kernel(const weft_lowering *lowering)
{
    if (!goes_by_rows(lowering)) {
        return lower_whole(lowering);
    }
    bool by_piece = lowering->operation->accumulates && lowering->sharding->rows[0] == WEFT_ROWS_SUMMED;
    int64_t height = by_piece ? lowering->output->panel_rows : height_of(lowering);
    row_groups all[WEFT_MAX_OUTPUTS] = { 0 };
    for (int64_t panel = 0, count = count_panels(lowering); panel < count; panel++) {
        part rows = panel_part(lowering, output_operand(lowering, 0), panel);
        for (int64_t first = rows.first, last; first < rows.last; first = last) {
            last = weft_min_i64(rows.last, lowering->output->ndim == 0 ? 1 : (first / height + 1) * height);
            if (!(by_piece ? accumulate(lowering, first, last) : lower_rows(lowering, first, last, height, all))) {
                return false;
            }
        }
    }
    return true;
}
