#include "ops/affine.h"

#include <stdio.h>

#include "runtime/last_cache.h"
#include "tasks/copies.h"

weft_affine_loop weft_affine_same(int64_t extent, int source, int target)
{
    return (weft_affine_loop){ .extent = extent, .source = { source, 0, 1 }, .target = { target, 0, 1 } };
}

/* ---- the rule ------------------------------------------------------------------------------------------ */

static const weft_affine_side *side_of(const weft_affine_loop *loop, bool target)
{
    return target ? &loop->target : &loop->source;
}

/* The loop along a dimension; -1: no such dimension. */
static int loop_along(const weft_affine *map, bool target, int dim)
{
    for (int i = 0; i < map->num_loops; i++) {
        if (side_of(&map->loops[i], target)->dim == dim) {
            return i;
        }
    }
    return -1;
}

/* Writes a loop's letter in an operand's term. */
static void write_term(weft_text *text, const weft_affine_loop *loop, int index, bool target)
{
    char letter = (char)('a' + index);
    switch (loop->kind) {
    case WEFT_LOOP_SAME:
        weft_text_add(text, "%c%s", letter, target ? "*" : "");
        break;
    case WEFT_LOOP_ACCESS:
        weft_text_add(text, "%c%s", letter, target ? "" : "~");
        break;
    case WEFT_LOOP_TAKEN:
        weft_text_add(text, "[%c]", letter);
        break;
    case WEFT_LOOP_REPEATED:
        weft_text_add(text, "%c", target ? letter : '1');
        break;
    case WEFT_LOOP_ONE:
        weft_text_add(text, "1");
        break;
    }
}

static void write_operand(weft_text *text, const weft_affine *map, bool target)
{
    int loop = loop_along(map, target, 0);
    for (int dim = 1; loop >= 0; dim++) {
        write_term(text, &map->loops[loop], loop, target);
        loop = loop_along(map, target, dim);
    }
}

void weft_affine_rule(int num_maps, const weft_affine maps[], bool in_place, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    if (in_place) {
        write_operand(&text, &maps[0], true);
        weft_text_add(&text, ",");
    }
    for (int i = 0; i < num_maps; i++) {
        weft_text_add(&text, "%s", i == 0 ? "" : ",");
        write_operand(&text, &maps[0], false);
    }
    weft_text_add(&text, "->");
    write_operand(&text, &maps[0], true);
}

/* Maps target index target.first + target.step * i to source index source.first + source.step * i. */
weft_window weft_affine_window(const weft_affine *map, int dim)
{
    const weft_affine_loop *loop = &map->loops[loop_along(map, false, dim)];
    int64_t before = loop->target.first * loop->source.step - loop->source.first * loop->target.step;
    return (weft_window){
        .times = loop->source.step, .over = loop->target.step, .before = before, .after = -before
    };
}

/* ---- boxes of a map's loops ---------------------------------------------------------------------------- */

/* Indices [first, last) of each loop. */
typedef struct region {
    int64_t first[WEFT_MAX_DIMS], last[WEFT_MAX_DIMS];
} region;

static region whole_region(const weft_affine *map)
{
    region r = { { 0 }, { 0 } };
    for (int i = 0; i < map->num_loops; i++) {
        r.first[i] = 0;
        r.last[i] = map->loops[i].extent;
    }
    return r;
}

static int64_t region_count(const weft_affine *map, const region *r)
{
    int64_t count = 1;
    for (int i = 0; i < map->num_loops; i++) {
        count *= r->last[i] - r->first[i];
    }
    return count;
}

/* The least i >= 0 with step * i >= distance; step > 0. */
static int64_t steps_to(int64_t distance, int64_t step)
{
    return distance <= 0 ? 0 : weft_ceil_div(distance, step);
}

/* Restricts [*first, *last) to the i for which begin <= side->first + side->step * i < end. */
static void restrict_loop(const weft_affine_side *side, int64_t begin, int64_t end, int64_t *first,
                          int64_t *last)
{
    int64_t start = side->first, step = side->step;
    if (step == 0) {
        *last = start >= begin && start < end ? *last : *first;
        return;
    }
    if (step < 0) { /* mirrored about 0 */
        int64_t mirrored = 1 - end;
        end = 1 - begin;
        begin = mirrored;
        start = -start;
        step = -step;
    }
    *first = weft_max_i64(*first, steps_to(begin - start, step));
    *last = weft_max_i64(*first, weft_min_i64(*last, steps_to(end - start, step)));
}

/* Restricts a region to a box of the source or of the target. */
static void restrict_to(const weft_affine *map, bool target, const weft_box *box, region *r)
{
    for (int i = 0; i < map->num_loops; i++) {
        const weft_affine_side *side = side_of(&map->loops[i], target);
        if (side->dim >= 0) {
            restrict_loop(side, box->offset[side->dim], box->offset[side->dim] + box->extent[side->dim],
                          &r->first[i], &r->last[i]);
        }
    }
}

/* ---- one task ------------------------------------------------------------------------------------------ */

/* A shard and one of its panels. Elements received through an access map lie at the beginning of the
 * shard's memory; the rest of it is unused. */
typedef struct place {
    const weft_layout *layout;
    const weft_shard_info *shard;
    int64_t strides[WEFT_MAX_DIMS];
    weft_box held;                /* box of the elements in memory, in the tensor's own indices */
    int64_t shift[WEFT_MAX_DIMS]; /* index in the shard's box minus index in `held` */
    int64_t panel;
    weft_box box; /* of the panel, within `held` */
} place;

static place place_of(const weft_layout *layout, const weft_shard_info *shard,
                      const weft_access_map *access_map)
{
    place p = { .layout = layout, .shard = shard, .held = shard->box };
    weft_box_strides(layout->ndim, &shard->box, p.strides);
    if (access_map != NULL) {
        weft_access_map_rank_box(access_map, shard->rank, &p.held);
        for (int d = 0; d < layout->ndim; d++) {
            p.shift[d] = shard->box.offset[d] - p.held.offset[d];
        }
    }
    p.box = p.held;
    return p;
}

static void go_to_panel(place *p, int64_t panel)
{
    p->panel = panel;
    if (p->layout->ndim > 0) {
        int64_t first, last;
        weft_panel_range(p->layout, &p->shard->box, panel, &first, &last);
        p->box.offset[0] = first - p->shift[0];
        p->box.extent[0] =
            weft_min_i64(last - first, p->held.offset[0] + p->held.extent[0] - p->box.offset[0]);
    }
}

/* The copies to one panel of the output. */
typedef struct copier {
    const weft_lowering *lowering;
    place from, to;
    weft_copies copies;
} copier;

/* Bytes from the panel's start to the beginning of a region. */
static int64_t region_offset(const weft_affine *map, bool target, const place *p, const region *r)
{
    int64_t elements = 0;
    for (int i = 0; i < map->num_loops; i++) {
        const weft_affine_side *side = side_of(&map->loops[i], target);
        if (side->dim >= 0) {
            elements +=
                (side->first + side->step * r->first[i] - p->box.offset[side->dim]) * p->strides[side->dim];
        }
    }
    return elements * (int64_t)weft_dtype_size(p->layout->dtype);
}

static bool add_region(copier *c, const weft_affine *map, const region *r)
{
    weft_strided_box box = { .ndim = map->num_loops };
    for (int i = 0; i < map->num_loops; i++) {
        const weft_affine_loop *loop = &map->loops[i];
        box.extent[i] = r->last[i] - r->first[i];
        box.source_stride[i] = loop->source.dim < 0 ? 0 : loop->source.step * c->from.strides[loop->source.dim];
        box.target_stride[i] = loop->target.dim < 0 ? 0 : loop->target.step * c->to.strides[loop->target.dim];
    }
    return weft_copies_add(&c->copies, region_offset(map, true, &c->to, r), weft_input_slot(c->lowering, map->input, c->from.panel),
                           region_offset(map, false, &c->from, r), &box);
}

/* ---- all tasks ----------------------------------------------------------------------------------------- */

/* The panels [*first, *last) of the source, along its dimension 0, that a region of the target may read. */
static void source_panels(const weft_affine *map, const place *from, const region *r, int64_t *first,
                          int64_t *last)
{
    *first = 0;
    *last = from->shard->num_panels;
    int loop = loop_along(map, false, 0);
    if (loop < 0 || *last == 0) {
        return;
    }
    const weft_affine_side *side = &map->loops[loop].source;
    int64_t begin = side->first + side->step * r->first[loop],
            end = side->first + side->step * (r->last[loop] - 1);
    const weft_layout *layout = from->layout;
    int64_t shift = from->shift[0];
    *first = weft_panel_of_row(layout, &from->shard->box, weft_min_i64(begin, end) + shift);
    *last = weft_panel_of_row(layout, &from->shard->box, weft_max_i64(begin, end) + shift) + 1;
}

static bool copy_map(copier *c, const weft_affine *map)
{
    const weft_access_map *access_map = c->lowering->access_map[map->input];
    region wanted = whole_region(map);
    restrict_to(map, true, &c->to.box, &wanted);
    if (region_count(map, &wanted) == 0 || (access_map != NULL && access_map->placed)) {
        return true;
    }
    c->from =
        place_of(c->lowering->inputs[map->input], weft_lowering_input(c->lowering, map->input), access_map);
    int64_t panel, last;
    for (source_panels(map, &c->from, &wanted, &panel, &last); panel < last; panel++) {
        go_to_panel(&c->from, panel);
        region held = wanted;
        restrict_to(map, false, &c->from.box, &held);
        if (region_count(map, &held) > 0 && !add_region(c, map, &held)) {
            return false;
        }
    }
    return true;
}

/* Whether the maps write every element of the panel. */
static bool is_covered(const copier *c, int num_maps, const weft_affine maps[])
{
    int64_t covered = 0;
    for (int i = 0; i < num_maps; i++) {
        region r = whole_region(&maps[i]);
        restrict_to(&maps[i], true, &c->to.box, &r);
        covered += region_count(&maps[i], &r);
    }
    return covered == weft_box_count(c->to.layout->ndim, &c->to.box);
}

bool weft_lower_affine(const weft_lowering *lowering, int num_maps, const weft_affine maps[])
{
    const weft_layout *output = lowering->output;
    const bool streams = weft_outgrows_cache(output);
    copier c = { .lowering = lowering, .to = place_of(output, weft_lowering_output(lowering), NULL) };
    for (int64_t panel = 0; panel < c.to.shard->num_panels; panel++) {
        go_to_panel(&c.to, panel);
        c.copies = (weft_copies){
            .list = lowering->tasks,
            .dtype = output->dtype,
            .element_size = weft_dtype_size(output->dtype),
            .streams = streams,
            .target = weft_output_slot(lowering, 0, panel),
            .access = is_covered(&c, num_maps, maps) ? WEFT_SLOT_WRITE : WEFT_SLOT_READ_WRITE,
            .position = weft_lowering_position(lowering, output->ndim == 0 ? 0 : c.to.box.offset[0]),
        };
        for (int i = 0; i < num_maps; i++) {
            if (!copy_map(&c, &maps[i])) {
                return false;
            }
        }
        if (!weft_copies_end(&c.copies)) {
            return false;
        }
    }
    return true;
}
