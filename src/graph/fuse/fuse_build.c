/* Building fused calls: pieces of rows, tiles, and the task of each piece. */
#include <stdlib.h>
#include <string.h>

#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "graph/fuse/fuse.h"
#include "tensor/state.h"

enum {
    MAX_VALUES = 16,             /* of one task's panels */
    MAX_PIECES = 1 << 14,        /* of a cluster, so that its programs stay small */
    MAX_TILE_UNITS = 8192,
    MAX_TRAFFIC_OF_TILE = 1 << 18 /* bytes that a tile reads and writes: a part of the second-level cache */
};

static bool has_one_element(const weft_layout *layout)
{
    int64_t count = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return count == 1;
}

/* State of building the tasks of one rank. */
typedef struct fusing {
    const weft_cluster_building *b;
    weft_cluster *cluster;
    const int *index; /* see weft_cluster_index() */
    int64_t *offsets; /* by value: of its home in the scratch memory */
    int shard, rank;
    bool flat;                   /* units are elements, else rows */
    int64_t tile_units, scratch_bytes;
    const weft_task *tasks[WEFT_MAX_FUSED_CALLS]; /* by call: its first task on the rank; NULL: none */
    size_t former[WEFT_MAX_FUSED_CALLS];          /* by call: arguments of the piece before */
} fusing;

/* Rows of a piece, global. */
typedef struct piece {
    int64_t first, last;
} piece;

static int home_of(const fusing *f, int value)
{
    return weft_cluster_home(f->b, f->cluster->first, f->cluster->last, value);
}

static weft_shard_info shard_of(const fusing *f, const weft_layout *layout)
{
    return weft_layout_shard(layout, f->rank);
}

static int64_t row_elements(const fusing *f, const weft_layout *layout)
{
    weft_shard_info shard = shard_of(f, layout);
    return layout->ndim == 0 ? 1 : weft_row_elements(layout->ndim, &shard.box);
}

static int64_t unit_bytes(const fusing *f, const weft_layout *layout)
{
    return (f->flat ? 1 : row_elements(f, layout)) * (int64_t)weft_dtype_size(layout->dtype);
}

/* Whether each rank has the same elements of two tensors. */
static bool has_same_elements(const weft_layout *a, const weft_layout *b)
{
    bool same = a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
    for (int d = 0; same && d < a->mesh->ndim; d++) {
        weft_placement one = a->placements[d], other = b->placements[d];
        same = (one.kind == WEFT_SHARD) == (other.kind == WEFT_SHARD) && (one.kind != WEFT_SHARD || weft_placement_equal(one, other));
    }
    return same;
}

/* Whether no kernel needs rows: all operands have all elements of the rows, or one element for all. */
static bool is_flat(const weft_cluster_building *b, int first, int last)
{
    const weft_layout *leader = weft_fused_layout(b, &b->calls[first].operands[0]);
    bool flat = true;
    for (int n = first; n <= last && flat; n++) {
        const weft_lowered *call = &b->calls[n];
        flat = call->pointwise;
        for (int i = 0; i < call->num_operands && flat; i++) {
            const weft_layout *own = weft_fused_layout(b, &call->operands[i]);
            flat = call->operands[i].moves ? has_same_elements(own, leader) : has_one_element(own);
        }
    }
    return flat;
}

/* Lays out the values that stay in tiles of so many units. -1: no memory. */
static int64_t lay_out(const fusing *f, int64_t units)
{
    weft_scratch scratch = { .bytes = 0 };
    bool done = true;
    for (int n = f->cluster->first; n <= f->cluster->last && done; n++) {
        const weft_graph_node *node = weft_trace_node(f->b->trace, (size_t)n);
        for (int i = 0; i < node->num_outputs && done; i++) {
            int value = node->outputs[i], home = home_of(f, value);
            int last_use = weft_trace_value(f->b->trace, value)->last_use;
            last_use = last_use < n ? n : last_use;
            if (f->index[home] >= 0) {
                continue;
            }
            if (home != value) {
                weft_scratch_prolong(&scratch, f->offsets[home], last_use);
                continue;
            }
            f->offsets[value] =
                weft_scratch_allocate(&scratch, units * unit_bytes(f, weft_trace_layout(f->b->trace, value)), last_use);
            done = f->offsets[value] >= 0;
        }
        weft_scratch_release(&scratch, n);
    }
    weft_scratch_free(&scratch);
    return done ? scratch.bytes : -1;
}

/* Bytes of a unit of all values that are in memory. */
static int64_t traffic_of_unit(const fusing *f)
{
    const weft_cluster *cluster = f->cluster;
    const weft_layout *leader = weft_fused_layout(f->b, &f->b->calls[cluster->first].operands[0]);
    int64_t bytes = 0;
    for (int i = 0; i < cluster->num_inputs + cluster->num_outputs; i++) {
        const weft_layout *own = weft_trace_layout(f->b->trace, cluster->values[i]);
        bytes += weft_layouts_share_rows(own, leader) ? unit_bytes(f, own) : 0;
    }
    return weft_max_i64(bytes, 1);
}

/* Chooses the tile's size. False: no memory, or (tile_units 0) a unit is too large. */
static bool choose_tile(fusing *f)
{
    f->tile_units = weft_max_i64(1, weft_min_i64(MAX_TILE_UNITS, MAX_TRAFFIC_OF_TILE / traffic_of_unit(f)));
    f->scratch_bytes = lay_out(f, f->tile_units);
    while (f->scratch_bytes > WEFT_MAX_TILE_BYTES && f->tile_units > 0) {
        f->tile_units /= 2;
        f->scratch_bytes = lay_out(f, f->tile_units);
    }
    return f->scratch_bytes >= 0 && f->tile_units > 0;
}

/* ---- pieces ---------------------------------------------------------------------------------------------- */

/* The rows after `first` that lie in one panel of all values. */
static int64_t end_of_piece(const fusing *f, int64_t first, int64_t end)
{
    const weft_cluster *cluster = f->cluster;
    for (int n = cluster->first; n <= cluster->last; n++) {
        const weft_lowered *call = &f->b->calls[n];
        for (int i = 0; i < call->num_operands; i++) {
            const weft_layout *own = weft_fused_layout(f->b, &call->operands[i]);
            if (call->operands[i].moves && own->ndim > 0 && f->index[home_of(f, call->operands[i].value)] >= 0 &&
                first / own->panel_rows < end / own->panel_rows) {
                end = weft_min_i64(end, (first / own->panel_rows + 1) * own->panel_rows);
            }
        }
    }
    return end;
}

/* The rank's rows; none if it has no elements. */
static piece rows_of(const fusing *f)
{
    const weft_layout *leader = weft_fused_layout(f->b, &f->b->calls[f->cluster->first].operands[0]);
    weft_shard_info shard = shard_of(f, leader);
    return shard.count == 0 ? (piece){ 0, 0 }
           : leader->ndim == 0
               ? (piece){ 0, 1 }
               : (piece){ shard.box.offset[0], shard.box.offset[0] + shard.box.extent[0] };
}

static int64_t count_pieces(const fusing *f)
{
    piece rows = rows_of(f);
    int64_t count = 0;
    while (rows.first < rows.last) {
        rows.first = end_of_piece(f, rows.first, rows.last);
        count++;
    }
    return count;
}

/* ---- one task -------------------------------------------------------------------------------------------- */

/* An operand that goes by units: the piece's rows in one panel. False: no memory. */
static bool place_moving(const fusing *f, weft_cluster_program *program, const weft_fused_operand *operand, const piece *rows,
                         weft_cluster_place *place)
{
    const weft_layout *layout = weft_fused_layout(f->b, operand);
    int home = home_of(f, operand->value);
    if (f->index[home] < 0) {
        *place = (weft_cluster_place){ .offset = f->offsets[home], .operand = WEFT_CLUSTER_SCRATCH };
        return true;
    }
    weft_shard_info shard = shard_of(f, layout);
    int64_t panel = layout->ndim == 0 ? 0 : weft_panel_of_row(layout, &shard.box, rows->first), first, last;
    weft_panel_range(layout, &shard.box, panel, &first, &last);
    bool begins = rows->first == first;
    weft_slot_access access =
        operand->access == WEFT_SLOT_WRITE && !begins ? WEFT_SLOT_READ_WRITE : operand->access;
    *place = (weft_cluster_place){ .unit_bytes = unit_bytes(f, layout) };
    place->offset = (rows->first - first) * row_elements(f, layout) * (int64_t)weft_dtype_size(layout->dtype);
    place->operand = weft_cluster_add_operand(program, f->index[home], panel, access);
    return place->operand >= 0;
}

/* All panels of an operand that every task reads. Their number; -1: no memory. */
static int place_whole(const fusing *f, weft_cluster_program *program, const weft_fused_operand *operand)
{
    weft_shard_info shard = shard_of(f, weft_fused_layout(f->b, operand));
    int count = shard.count == 0 ? 0 : (int)shard.num_panels;
    for (int panel = 0; panel < count; panel++) {
        weft_cluster_place *place = weft_vec_push(&program->places, sizeof(*place));
        if (place == NULL) {
            return -1;
        }
        *place = (weft_cluster_place){ .offset = 0 };
        place->operand = weft_cluster_add_operand(program, f->index[home_of(f, operand->value)], panel, WEFT_SLOT_READ);
        if (place->operand < 0) {
            return -1;
        }
    }
    return count;
}

/* The operands of a call; counts[i]: panels of operand i. False: no memory. */
static bool place_operands(const fusing *f, weft_cluster_program *program, const weft_lowered *call, const piece *rows,
                           int counts[])
{
    bool done = true;
    for (int i = 0; i < call->num_operands && done; i++) {
        counts[i] = 1;
        if (!call->operands[i].moves) {
            counts[i] = place_whole(f, program, &call->operands[i]);
            done = counts[i] >= 0;
            continue;
        }
        weft_cluster_place *place = weft_vec_push(&program->places, sizeof(*place));
        done = place != NULL && place_moving(f, program, &call->operands[i], rows, place);
    }
    return done;
}

/* `keeps`: the output is scratch memory, which stays in the cache. */
static void narrow_elementwise(const fusing *f, const weft_lowered *call, int64_t units, bool keeps, weft_elementwise_args *args)
{
    args->extent[0] = units;
    args->streams = args->streams && !keeps;
    if (f->flat) {
        args->ndim = 1;
        for (int i = 0; i < call->num_operands; i++) {
            args->stride[i][0] = call->operands[i].moves;
        }
    }
}

static unsigned narrow_views(const fusing *f, const weft_lowered *call, const piece *rows, int64_t units, const int counts[],
                             weft_kernel_args *args)
{
    unsigned moving = 0;
    int panels = 0;
    for (int i = 0; i < call->num_operands; i++) {
        weft_kernel_operand *operand = &args->operands[i];
        operand->first_panel = panels;
        operand->num_panels = counts[i];
        panels += counts[i];
        if (!call->operands[i].moves) {
            continue;
        }
        moving |= 1u << i;
        operand->extent[0] = units;
        operand->offset[0] = f->flat ? 0 : rows->first;
        operand->panel_rows = INT64_MAX / 2; /* a piece is one panel, also in the scratch memory */
        operand->ndim = f->flat ? 1 : operand->ndim;
    }
    return moving;
}

/* The arguments of a call for a piece: those of its first task on the rank, narrowed. Equal ones of the piece before are
 * shared. `keeps`: see narrow_elementwise(). False: no memory. */
static bool add_arguments(fusing *f, int number, const piece *rows, int64_t units, const int counts[], bool keeps,
                          weft_cluster_step *step)
{
    const weft_lowered *call = &f->b->calls[number];
    const weft_task *task = f->tasks[number - f->cluster->first];
    weft_vec *arguments = &f->cluster->arguments;
    size_t size = weft_task_block_of(&call->tasks, task)->size, words = (size + 15) / 16 * 2;
    size_t *former = &f->former[number - f->cluster->first];
    if (!weft_vec_reserve(arguments, arguments->count + words, 8)) {
        return false;
    }
    char *own = (char *)arguments->items + arguments->count * 8;
    memset(own, 0, words * 8);
    weft_task_arguments(&call->tasks, task, own);
    if (weft_kernel_is_elementwise(step->kernel)) {
        narrow_elementwise(f, call, units, keeps, (void *)own);
    } else {
        step->moving = narrow_views(f, call, rows, units, counts, (void *)own);
    }
    bool same = *former != SIZE_MAX && memcmp((char *)arguments->items + *former, own, words * 8) == 0;
    step->arguments = same ? *former : arguments->count * 8;
    step->arguments_size = (uint32_t)size;
    *former = step->arguments;
    arguments->count += same ? 0 : words;
    return true;
}

/* Bytes that the call's own tasks read and write for the piece. */
static int64_t traffic_of_call(const fusing *f, const weft_lowered *call, int64_t units)
{
    int64_t bytes = 0;
    for (int i = 0; i < call->num_operands; i++) {
        const weft_fused_operand *operand = &call->operands[i];
        bool again = weft_kernel_is_elementwise(call->tasks.tasks.count == 0 ? WEFT_KERNEL_NONE
                                                                             : weft_task_list_tasks(&call->tasks)->kernel) &&
                     i == 1 && operand->value == call->operands[0].value; /* the input that is changed is counted with the output */
        int times = !operand->moves || again ? 0 : operand->access == WEFT_SLOT_READ_WRITE ? 2 : 1;
        bytes += times * units * unit_bytes(f, weft_fused_layout(f->b, operand));
    }
    return bytes;
}

/* Bytes that the fused task reads and writes. */
static int64_t traffic_of_task(const fusing *f, const weft_cluster_program *program)
{
    const weft_layout *leader = weft_fused_layout(f->b, &f->b->calls[f->cluster->first].operands[0]);
    const weft_cluster_operand *operands = program->operands.items;
    int64_t bytes = 0;
    for (size_t i = 0; i < program->operands.count; i++) {
        const weft_layout *own = weft_trace_layout(f->b->trace, f->cluster->values[operands[i].value]);
        int times = !weft_layouts_share_rows(own, leader) ? 0 : operands[i].access == WEFT_SLOT_READ_WRITE ? 2 : 1;
        bytes += times * program->num_units * unit_bytes(f, own);
    }
    return bytes;
}

static bool write_piece(fusing *f, weft_cluster_program *program, const piece *rows)
{
    const weft_layout *leader = weft_fused_layout(f->b, &f->b->calls[f->cluster->first].operands[0]);
    int64_t units = (rows->last - rows->first) * (f->flat ? row_elements(f, leader) : 1), apart = 0;
    program->shard = f->shard;
    program->num_units = units;
    program->tile_units = f->tile_units;
    program->scratch_bytes = f->scratch_bytes;
    program->position = weft_row_position(leader, f->rank, rows->first);
    bool done = true;
    for (int n = f->cluster->first; n <= f->cluster->last && done; n++) {
        const weft_graph_node *node = weft_trace_node(f->b->trace, (size_t)n);
        const weft_lowered *call = &f->b->calls[n];
        int counts[WEFT_MAX_FUSED_OPERANDS];
        weft_cluster_step step = { .kernel = node->call->operation->kernel,
                                   .function = node->call->function,
                                   .operation = node->call->operation,
                                   .call = n - f->cluster->first,
                                   .first_place = (uint32_t)program->places.count };
        done = place_operands(f, program, call, rows, counts);
        step.num_places = (uint32_t)program->places.count - step.first_place;
        const weft_cluster_place *output = (weft_cluster_place *)program->places.items + step.first_place;
        bool keeps = done && output->operand == WEFT_CLUSTER_SCRATCH;
        done = done && add_arguments(f, n, rows, units, counts, keeps, &step) && 
               weft_cluster_add_step(program, &step, (const char *)f->cluster->arguments.items + step.arguments);
        apart += traffic_of_call(f, call, units);
    }
    int64_t together = traffic_of_task(f, program);
    f->cluster->bytes += together;
    f->cluster->saved_bytes += apart - together;
    return done;
}

/* ---- all tasks ------------------------------------------------------------------------------------------- */

static fusing begin(const weft_cluster_building *b, weft_cluster *cluster, int shard, const int *index, int64_t *offsets)
{
    fusing f = { .b = b, .cluster = cluster, .index = index, .offsets = offsets, .shard = shard,
                 .rank = weft_runtime.first_rank + shard };
    f.flat = is_flat(b, cluster->first, cluster->last);
    for (int n = cluster->first; n <= cluster->last; n++) {
        f.tasks[n - cluster->first] = weft_lowered_task(&b->calls[n], shard);
        f.former[n - cluster->first] = SIZE_MAX;
    }
    return f;
}

/* Whether all values that go by rows have elements on the rank, and all calls have a task there; or, on a rank without
 * pieces, none of the values has elements. */
static bool has_fitting_parts(const fusing *f, bool any)
{
    bool fits = true;
    for (int n = f->cluster->first; n <= f->cluster->last && fits; n++) {
        const weft_lowered *call = &f->b->calls[n];
        fits = !any || f->tasks[n - f->cluster->first] != NULL;
        for (int i = 0; i < call->num_operands && fits; i++) {
            fits = !call->operands[i].moves || (shard_of(f, weft_fused_layout(f->b, &call->operands[i])).count > 0) == any;
        }
    }
    return fits;
}

static bool write_rank(fusing *f, int *next)
{
    bool done = true;
    for (piece rows = rows_of(f), own; rows.first < rows.last && done; rows.first = own.last) {
        own = (piece){ rows.first, end_of_piece(f, rows.first, rows.last) };
        done = write_piece(f, &f->cluster->programs[(*next)++], &own);
    }
    return done;
}

/* Number of tasks on all hosted ranks; -1: they cannot be fused. */
static int64_t count_tasks(const weft_cluster_building *b, weft_cluster *values, const int *index)
{
    int64_t count = 0;
    for (int shard = 0; shard < weft_runtime.local_ranks && count >= 0; shard++) {
        fusing f = begin(b, values, shard, index, NULL);
        int64_t own = count_pieces(&f);
        count = has_fitting_parts(&f, own > 0) ? count + own : -1;
    }
    return count <= MAX_PIECES && values->num_inputs + values->num_outputs <= MAX_VALUES ? count : -1;
}

static weft_cluster *build(const weft_cluster_building *b, int first, int last, int num_programs, const int index[],
                           int64_t offsets[], bool *possible)
{
    weft_cluster *cluster = weft_cluster_new(b, first, last, num_programs);
    bool done = cluster != NULL;
    int next = 0;
    for (int shard = 0; shard < weft_runtime.local_ranks && done; shard++) {
        fusing f = begin(b, cluster, shard, index, offsets);
        piece rows = rows_of(&f);
        if (rows.first < rows.last) {
            done = choose_tile(&f);
            *possible = f.tile_units > 0;
            done = done && write_rank(&f, &next);
        }
    }
    if (!done && cluster != NULL) {
        weft_cluster_release(cluster);
        return NULL;
    }
    if (cluster != NULL) {
        cluster->fused = true;
    }
    return cluster;
}

weft_cluster *weft_fuse_build(const weft_cluster_building *b, int first, int last, bool *possible)
{
    size_t num_values = b->trace->values.count + 1;
    weft_cluster *values = weft_cluster_new(b, first, last, 0), *cluster = NULL;
    int *index = malloc(num_values * sizeof(int));
    int64_t *offsets = malloc(num_values * sizeof(int64_t));
    *possible = true;
    if (values != NULL && index != NULL && offsets != NULL) {
        weft_cluster_index(b, values, index);
        int64_t count = count_tasks(b, values, index);
        *possible = count >= 0;
        cluster = *possible ? build(b, first, last, (int)count, index, offsets, possible) : NULL;
    }
    if (values != NULL) {
        weft_cluster_release(values);
    }
    free(index);
    free(offsets);
    return cluster;
}
