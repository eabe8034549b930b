/* Operands of a kernel's tasks. The rule determines the rows of each input. */
#include "dispatch/parts.h"

#include <string.h>

#include "codelets/kernel.h"

int weft_output_operand(const weft_lowering *lowering, int output)
{
    return lowering->num_inputs + output;
}

/* The panels with the part's rows. */
static void find_panels(weft_part *p)
{
    p->panel_rows = p->layout->panel_rows;
    if (p->shard->count > 0 && p->last > p->first) {
        p->first_panel = weft_panel_of_row(p->layout, &p->shard->box, p->first);
        p->num_panels = weft_panel_of_row(p->layout, &p->shard->box, p->last - 1) - p->first_panel + 1;
    }
}

/* ---- ghosted arrays ------------------------------------------------------------------------------------- */

/* The number of the ghosted input that an operand is, an output by changing it; -1: it is none. */
static int array_of(const weft_lowering *lowering, int operand)
{
    int output = operand - lowering->num_inputs, input = output < 0 ? operand : output;
    bool in_place = output < 0 || lowering->operation->outputs[output].in_place;
    return in_place && (lowering->ghosted >> input & 1) ? input : -1;
}

/* The tensor's elements that the rank has, without margins. */
static weft_box own_box(const weft_lowering *lowering, int input)
{
    weft_box own;
    weft_layout_shard_box(lowering->access_map[input]->cut, lowering->input_shards[input].rank, &own);
    return own;
}

/* A row's number in the array minus its global index. */
static int64_t shift_in_array(const weft_lowering *lowering, int input)
{
    return lowering->input_shards[input].box.offset[0] + lowering->access_map[input]->of[0].before -
           own_box(lowering, input).offset[0];
}

static weft_window window_in_array(const weft_lowering *lowering, int input, int dim)
{
    return weft_window_in_array(lowering->operation, lowering->attributes, lowering->access_map[input]->cut,
                                lowering->num_inputs, input, dim);
}

/* Rows [first, last) of the tensor. As an input, an operand has its halo along other dimensions. */
static weft_part part_of_array(const weft_lowering *lowering, int operand, int64_t first, int64_t last)
{
    const int input = array_of(lowering, operand);
    const bool reads = operand < lowering->num_inputs;
    const int64_t shift = shift_in_array(lowering, input);
    weft_part p = { .layout = lowering->inputs[input],
                    .access_map = lowering->access_map[input],
                    .shard = &lowering->input_shards[input],
                    .first = first + shift,
                    .last = last + shift,
                    .own_first = first + shift,
                    .shift = shift,
                    .in_array = true,
                    .inside = own_box(lowering, input),
                    .slot = weft_input_slot(lowering, input, 0),
                    .access = reads ? WEFT_SLOT_READ : WEFT_SLOT_READ_WRITE };
    for (int d = 1; d < p.layout->ndim && reads; d++) {
        weft_window w = window_in_array(lowering, input, d);
        p.inside.offset[d] -= w.before;
        p.inside.extent[d] += w.before + w.after;
    }
    find_panels(&p);
    p.is_joined = weft_layout_has_margins(p.layout);
    return p;
}

/* ---- shards --------------------------------------------------------------------------------------------- */

weft_part weft_part_of(const weft_lowering *lowering, int operand, int64_t first, int64_t last)
{
    if (lowering->ghosted != 0 && array_of(lowering, operand) >= 0) {
        return part_of_array(lowering, operand, first, last);
    }
    int output = operand - lowering->num_inputs;
    weft_part p = { .first = first, .last = last, .own_first = first, .run = lowering->runs[operand] };
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
    find_panels(&p);
    return p;
}

weft_part weft_part_whole(const weft_lowering *lowering, int operand)
{
    weft_part p = weft_part_of(lowering, operand, 0, 0);
    if (p.in_array) {
        return weft_part_of(lowering, operand, p.inside.offset[0], p.inside.offset[0] + p.inside.extent[0]);
    }
    int64_t first = p.layout->ndim == 0 ? 0 : p.shard->box.offset[0];
    return weft_part_of(lowering, operand, first, first + (p.layout->ndim == 0 ? 1 : p.shard->box.extent[0]));
}

weft_part weft_part_panel(const weft_lowering *lowering, int operand, int64_t panel)
{
    weft_part p = weft_part_of(lowering, operand, 0, 0);
    int64_t first, last;
    weft_panel_range(p.layout, &p.shard->box, panel, &first, &last);
    if (p.in_array) { /* without the margin's rows; maybe none is left */
        first = weft_max_i64(first - p.shift, p.inside.offset[0]);
        last = weft_max_i64(first, weft_min_i64(last - p.shift, p.inside.offset[0] + p.inside.extent[0]));
    }
    return weft_part_of(lowering, operand, first, last);
}

void weft_part_move(weft_part *p, weft_slot temporary, int64_t own_first)
{
    p->slot = temporary;
    p->is_own = true;
    p->own_first = own_first;
    if (p->num_panels > 1) { /* they become one */
        p->num_panels = 1;
        p->panel_rows = WEFT_ONE_PANEL;
    }
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
static weft_part part_in_place(const weft_lowering *lowering, int input, int64_t first, int64_t last)
{
    weft_part p = weft_part_of(lowering, input, 0, 0);
    int64_t height = lowering->neighbours[input]->height;
    p.neighbours = lowering->neighbours[input];
    p.panel_rows = height;
    p.shift = p.neighbours->shift;
    p.first = first + p.shift;
    p.last = last + p.shift;
    p.num_panels = p.shard->count > 0 && last > first ? (p.last - 1) / height - p.first / height + 1 : 0;
    return p;
}

/* The rows of an input that rows [first, last) of output 0 read through its access map. */
static weft_part rows_through_map(const weft_lowering *lowering, int input, int64_t first, int64_t last)
{
    const weft_access_map *map = lowering->access_map[input];
    weft_window window = window_of(lowering, input, 0);
    int64_t begin, end, shift = 0;
    if (lowering->ghosted >> input & 1) {
        window.periodic = 1; /* not clipped */
    }
    weft_window_range(&window, first, last - first, &begin, &end);
    if (lowering->ghosted >> input & 1) {
        return weft_part_of(lowering, input, begin, end);
    }
    if (lowering->neighbours[input] != NULL) {
        return part_in_place(lowering, input, begin, end);
    }
    if (map != NULL && map->has[0]) {
        const weft_shard_info *shard = weft_lowering_input(lowering, input);
        weft_box box;
        weft_access_map_rank_box(map, shard->rank, &box);
        shift = shard->box.offset[0] - box.offset[0];
    }
    weft_part p = weft_part_of(lowering, input, begin + shift, end + shift);
    p.shift = shift;
    return p;
}

/* A rank's whole shard of an input, without unused room after an access map's rows. */
static weft_part all_of_input(const weft_lowering *lowering, int input)
{
    const weft_access_map *map = lowering->access_map[input];
    const weft_shard_info *shard = weft_lowering_input(lowering, input);
    if (lowering->ghosted >> input & 1) {
        weft_box own = own_box(lowering, input);
        weft_window w = window_in_array(lowering, input, 0);
        return weft_part_of(lowering, input, own.offset[0] - w.before, own.offset[0] + own.extent[0] + w.after);
    }
    if (lowering->neighbours[input] != NULL) {
        weft_window window = window_of(lowering, input, 0);
        int64_t begin, end;
        weft_window_range(&window, shard->box.offset[0], shard->box.extent[0], &begin, &end);
        return part_in_place(lowering, input, begin, end);
    }
    if (map == NULL || !map->has[0]) {
        return weft_part_whole(lowering, input);
    }
    weft_box box;
    weft_access_map_rank_box(map, shard->rank, &box);
    weft_part p = weft_part_of(lowering, input, shard->box.offset[0], shard->box.offset[0] + box.extent[0]);
    p.shift = shard->box.offset[0] - box.offset[0];
    return p;
}

/* Converts the view of an array to indices of the tensor that lies in it. */
static void place_in_tensor(weft_kernel_operand *operand, const weft_part *p)
{
    for (int d = 0; d < operand->ndim; d++) {
        operand->shape[d] = p->access_map->of[d].size;
        operand->offset[d] = d == 0 ? operand->offset[d] : p->inside.offset[d];
        operand->extent[d] = d == 0 ? operand->extent[d] : p->inside.extent[d];
    }
}

/* Converts the view through an access map to indices of the tensor that the map reads from. */
static void place_in_source(weft_kernel_operand *operand, const weft_part *p)
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

/* Whether the part's memory has more than the part along a dimension other than the first. */
static bool has_room(const weft_part *p)
{
    bool has = p->run != NULL;
    for (int d = 1; d < p->layout->ndim && p->access_map != NULL; d++) {
        has |= p->access_map->has[d];
    }
    return has;
}

static void fill_operand(weft_kernel_operand *operand, const weft_part *p)
{
    const weft_layout *layout = p->layout;
    operand->dtype = layout->dtype;
    operand->ndim = layout->ndim;
    operand->panel_rows = p->is_joined ? WEFT_ONE_PANEL : p->panel_rows;
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
        (p->in_array ? place_in_tensor : place_in_source)(operand, p);
    }
    if (p->run != NULL) {
        operand->offset[layout->ndim - p->run->from_end] = p->run->first;
        operand->extent[layout->ndim - p->run->from_end] = p->run->count;
    }
}

/* Bytes before the part in each row of an array. */
static int64_t offset_in_array(const weft_part *p)
{
    int64_t elements = 0, step = 1;
    weft_box held;
    weft_access_map_rank_box(p->access_map, p->shard->rank, &held);
    for (int d = p->layout->ndim - 1; d > 0; d--) {
        elements += (p->inside.offset[d] - held.offset[d]) * step;
        step *= p->shard->box.extent[d];
    }
    return elements * (int64_t)weft_dtype_size(p->layout->dtype);
}

/* Bytes before the part in each row. */
static int64_t offset_in_row(const weft_part *p)
{
    if (p->in_array) {
        return offset_in_array(p);
    }
    int64_t bytes = p->run == NULL ? 0 : p->run->start * (int64_t)weft_dtype_size(p->layout->dtype);
    for (int d = p->layout->ndim - 1; bytes > 0 && d > p->layout->ndim - p->run->from_end; d--) {
        bytes *= p->shard->box.extent[d];
    }
    return bytes;
}

int64_t weft_part_row_bytes(const weft_part *p)
{
    return weft_row_elements(p->layout->ndim, &p->shard->box) * (int64_t)weft_dtype_size(p->layout->dtype);
}

/* Bytes before the part's first row in its first panel. */
static int64_t offset_in_panel(const weft_part *p, int64_t panel)
{
    if (panel > p->first_panel || p->layout->ndim == 0) {
        return 0;
    }
    int64_t first = p->own_first, last;
    if (!p->is_own) {
        weft_panel_range(p->layout, &p->shard->box, panel, &first, &last);
    }
    return (p->first - first) * weft_part_row_bytes(p);
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
 * all the rank's own, or all before them, or all after them. */
static void add_in_place(weft_task_list *tasks, const weft_part *p)
{
    const weft_box *own = &p->shard->box;
    int64_t height = p->neighbours->height;
    for (int64_t place = p->first; place < p->last; place = (place / height + 1) * height) {
        int64_t row = place - p->shift, behind = row - own->offset[0] - own->extent[0];
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

static void add_part(weft_task_list *tasks, weft_kernel_operand *operand, int *num_panels, const weft_part *p)
{
    fill_operand(operand, p);
    operand->first_panel = *num_panels;
    operand->num_panels = p->is_joined && p->num_panels > 0 ? 1 : (int)p->num_panels;
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
        int64_t offset = offset_in_panel(p, panel) + offset_in_row(p);
        weft_task_add(tasks, slot, offset,
                      offset > 0 && p->access == WEFT_SLOT_WRITE ? WEFT_SLOT_READ_WRITE : p->access);
    }
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static int64_t panels_of(const weft_lowering *lowering, const weft_job *j)
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

/* Operands of a task, outputs first. */
static const weft_part *operand_of(const weft_lowering *lowering, const weft_job *j, int number)
{
    return number < lowering->num_outputs ? &j->outputs[number] : &j->inputs[number - lowering->num_outputs];
}

static int rooms_of(const weft_lowering *lowering, const weft_job *j)
{
    int rooms = 0;
    for (int i = 0; i < lowering->num_outputs + j->num_inputs; i++) {
        rooms += has_room(operand_of(lowering, j, i));
    }
    return rooms;
}

/* Adds the extents of the operands' memory where it has more. */
static void add_rooms(const weft_lowering *lowering, weft_kernel_args *args, const weft_job *j)
{
    weft_kernel_room *room = weft_kernel_rooms(args);
    int number = 0;
    for (int i = 0; i < lowering->num_outputs + j->num_inputs; i++) {
        const weft_part *p = operand_of(lowering, j, i);
        if (has_room(p)) {
            memcpy(room[number].extent, p->shard->box.extent, sizeof(room->extent));
            args->operands[i].room = ++number;
        }
    }
}

/* In an array, rows beside margins come first: neighbours wait for them. */
static double position_of(const weft_lowering *lowering, const weft_part *output)
{
    const int64_t first = output->first - output->shift, last = output->last - output->shift;
    if (!output->in_array) {
        return weft_lowering_position(lowering, first);
    }
    const weft_box *inside = &output->inside;
    const weft_window *w = &output->access_map->of[0];
    bool gives = first - inside->offset[0] < w->after || inside->offset[0] + inside->extent[0] - last < w->before;
    return gives ? 0 : 0.5 + 0.5 * (double)(first - inside->offset[0]) / (double)inside->extent[0];
}

bool weft_job_add(const weft_lowering *lowering, const weft_job *j)
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
                                             weft_kernel_args_size(num_operands, rooms_of(lowering, j)));
    if (args == NULL) {
        return false;
    }
    args->base.dtype = lowering->output->dtype;
    args->first = j->first;
    args->grouped = j->grouped;
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
    add_rooms(lowering, args, j);
    return weft_task_end(lowering->tasks, position_of(lowering, &j->outputs[0]));
}

bool weft_lowering_reads(const weft_lowering *lowering, int input)
{
    return input >= lowering->num_outputs || !lowering->operation->outputs[input].in_place;
}

/* Whether a rank reads nothing of an input through its access map. */
static bool reads_nothing(const weft_part *p)
{
    weft_box box = { .extent = { 0 } };
    bool nothing = false;
    if (p->access_map != NULL) {
        weft_access_map_rank_box(p->access_map, p->shard->rank, &box);
    }
    for (int d = 0; d < p->layout->ndim && p->access_map != NULL && !p->in_array; d++) {
        nothing |= p->access_map->has[d] && box.extent[d] == 0;
    }
    return nothing;
}

void weft_job_choose_inputs(const weft_lowering *lowering, weft_rows_relation same, int64_t first, int64_t last, weft_job *j)
{
    const weft_part *output = &j->outputs[0];
    j->num_inputs = 0;
    for (int i = 0; i < lowering->num_inputs; i++) {
        if (weft_lowering_reads(lowering, i)) {
            weft_rows_relation rows = lowering->sharding->rows[i];
            weft_part *p = &j->inputs[j->num_inputs++];
            *p = rows == WEFT_ROWS_WINDOW ? rows_through_map(lowering, i, output->first - output->shift, output->last - output->shift)
                 : rows == same && same != WEFT_ROWS_ALL ? weft_part_of(lowering, i, first, last)
                                                         : all_of_input(lowering, i);
            p->access_map = lowering->access_map[i];
            p->num_panels = reads_nothing(p) ? 0 : p->num_panels;
        }
    }
}

weft_job weft_job_of_rows(const weft_lowering *lowering, int64_t first, int64_t last)
{
    weft_job j = { .first = true, .last = true };
    for (int o = 0; o < lowering->num_outputs; o++) {
        j.outputs[o] = weft_part_of(lowering, weft_output_operand(lowering, o), first, last);
    }
    return j;
}
