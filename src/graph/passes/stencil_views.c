/* The views of a stencil: chains of calls that shift, cut and pad become segments of indices. */
#include <string.h>

#include "graph/passes/stencil.h"
#include "ops/data_movement.h"

bool weft_stencil_has_partial(const weft_layout *layout)
{
    bool has = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        has |= layout->placements[m].kind == WEFT_PARTIAL;
    }
    return has;
}

/* ---- one call -------------------------------------------------------------------------------------------- */

/* A call that moves elements takes the indices [first, last) of a dimension from `source` on, and fills the others. */
typedef struct piece {
    int64_t first, last, source;
} piece;

typedef struct pieces {
    int count;
    piece of[WEFT_MAX_MAPS];
} pieces;

static void add_piece(pieces *p, const weft_affine_loop *loop)
{
    piece own = { loop->target.first, loop->target.first + loop->extent, loop->source.first };
    for (int i = 0; i < p->count; i++) {
        if (p->of[i].first == own.first && p->of[i].last == own.last && p->of[i].source == own.source) {
            return;
        }
    }
    bool before = p->count > 0 && own.first < p->of[0].first;
    p->of[1] = before ? p->of[0] : p->of[1];
    p->of[before ? 0 : p->count] = own;
    p->count++;
}

/* The pieces of a call along each dimension. False: indices are not moved by shifts, along one dimension at a time. */
static bool find_pieces(const weft_graph_node *node, const weft_layout *from, pieces all[])
{
    weft_affine maps[WEFT_MAX_MAPS];
    int count = node->call->operation->describe(&node->call->attributes, from, maps), divided = 0;
    bool shifts = true;
    memset(all, 0, WEFT_MAX_DIMS * sizeof(all[0]));
    for (int i = 0; i < count && shifts; i++) {
        shifts = maps[i].num_loops == from->ndim;
        for (int d = 0; d < from->ndim && shifts; d++) {
            const weft_affine_loop *loop = &maps[i].loops[d];
            shifts = (loop->kind == WEFT_LOOP_SAME || loop->kind == WEFT_LOOP_ACCESS) && loop->source.dim == d && loop->target.dim == d &&
                     (loop->extent < 2 || (loop->source.step == 1 && loop->target.step == 1));
            if (shifts) {
                add_piece(&all[d], loop);
            }
        }
    }
    for (int d = 0; d < from->ndim && shifts; d++) {
        divided += all[d].count > 1;
    }
    return shifts && divided <= 1;
}

/* ---- segments -------------------------------------------------------------------------------------------- */

typedef struct segments {
    int count;
    weft_stencil_segment *of;
} segments;

/* Appends a segment, or lengthens the last one. False: there are too many. */
static bool append(segments *s, weft_stencil_segment own)
{
    weft_stencil_segment *last = s->count == 0 ? NULL : &s->of[s->count - 1];
    bool joins = last != NULL && last->constant == own.constant &&
                 (own.constant < 0 ? last->first + last->count == own.first : last->level == own.level);
    if (joins) {
        last->count += own.count;
        return true;
    }
    if (s->count == WEFT_STENCIL_SEGMENTS) {
        return false;
    }
    s->of[s->count++] = own;
    return true;
}

/* Indices of a call's output become those of its input, or constants. False: there are too many segments. */
static bool move_segment(const weft_stencil_segment *segment, const pieces *p, int constant, int level, segments *moved)
{
    int64_t at = segment->first, end = at + segment->count;
    while (at < end) {
        int64_t last = end;
        weft_stencil_segment own = { .constant = constant, .level = level };
        for (int i = 0; i < p->count; i++) {
            if (at >= p->of[i].first && at < p->of[i].last) {
                own = (weft_stencil_segment){ .first = p->of[i].source + at - p->of[i].first, .constant = -1 };
                last = weft_min_i64(last, p->of[i].last);
            } else if (p->of[i].first > at) {
                last = weft_min_i64(last, p->of[i].first);
            }
        }
        own.count = last - at;
        if (!append(moved, own)) {
            return false;
        }
        at = last;
    }
    return true;
}

/* ---- chains ---------------------------------------------------------------------------------------------- */

/* The number of a constant; -1: there are too many. */
static int find_constant(weft_stencil_making *m, const weft_operation *operation, const weft_attributes *attributes)
{
    double value[2] = { 0, 0 };
    if (operation->fill != NULL) {
        operation->fill(attributes, value);
    }
    weft_stencil_constant own = { value[0], value[1] };
    for (int i = 0; i < m->num_constants; i++) {
        if (memcmp(&m->constants[i], &own, sizeof(own)) == 0) {
            return i;
        }
    }
    if (m->num_constants == WEFT_STENCIL_CONSTANTS) {
        return -1;
    }
    m->constants[m->num_constants] = own;
    return m->num_constants++;
}

/* Goes from the output of a call to its input. False: the view has to begin with the output. */
static bool go_through(weft_stencil_making *m, const weft_graph_node *node, int level, weft_stencil_view *view)
{
    const weft_layout *from = weft_trace_layout(m->known->trace, node->inputs[0]);
    weft_stencil_view moved = { .ndim = view->ndim };
    pieces all[WEFT_MAX_DIMS];
    int constant = find_constant(m, node->call->operation, &node->call->attributes);
    int64_t count = 0;
    weft_count_checked(from->ndim, from->shape, &count);
    bool done = constant >= 0 && count > 0 && !weft_stencil_has_partial(from) && find_pieces(node, from, all);
    for (int d = 0; d < view->ndim && done; d++) {
        segments to = { 0, moved.segments[d] };
        for (int i = 0; i < view->num_segments[d] && done; i++) {
            const weft_stencil_segment *segment = &view->segments[d][i];
            done = segment->constant >= 0 ? append(&to, *segment) : move_segment(segment, &all[d], constant, level, &to);
        }
        moved.num_segments[d] = to.count;
    }
    if (done) {
        *view = moved;
    }
    return done;
}

/* The number of a source; -1: there are too many. */
static int find_source(weft_stencil_making *m, int value)
{
    for (int i = 0; i < m->num_sources; i++) {
        if (m->source_values[i] == value) {
            return i;
        }
    }
    if (m->num_sources == WEFT_STENCIL_SOURCES) {
        return -1;
    }
    m->source_values[m->num_sources] = value;
    return m->num_sources++;
}

/* Follows the calls that make a value, and changes the view of all of it to one of what they begin with. Returns that value. */
static int find_beginning(weft_stencil_making *m, int value, weft_stencil_view *view)
{
    int from = value, level = 0;
    for (int n = m->known->defined[from]; n >= 0 && m->known->moves[n]; n = m->known->defined[from]) {
        const weft_graph_node *node = weft_trace_node(m->known->trace, (size_t)n);
        if (!go_through(m, node, level++, view)) {
            break;
        }
        from = node->inputs[0];
        m->shifted = true;
    }
    return from;
}

int weft_stencil_add_view(weft_stencil_making *m, int value)
{
    for (int i = 0; i < m->num_views; i++) {
        if (m->view_values[i] == value) {
            return i;
        }
    }
    const weft_layout *layout = weft_trace_layout(m->known->trace, value);
    bool fits = layout->ndim == 0 || (layout->ndim == m->output->ndim &&
                                      memcmp(layout->shape, m->output->shape, (size_t)layout->ndim * sizeof(layout->shape[0])) == 0);
    if (!fits || m->num_views == WEFT_STENCIL_VIEWS) {
        return -1;
    }
    weft_stencil_view *view = &m->views[m->num_views];
    *view = (weft_stencil_view){ .ndim = layout->ndim };
    for (int d = 0; d < layout->ndim; d++) {
        view->num_segments[d] = 1;
        view->segments[d][0] = (weft_stencil_segment){ .count = layout->shape[d], .constant = -1 };
    }
    int from = find_beginning(m, value, view);
    view->source = find_source(m, from);
    bool known = view->source >= 0 && !m->known->changed[from] && !weft_stencil_has_partial(weft_trace_layout(m->known->trace, from)) &&
                 weft_trace_value(m->known->trace, from)->ghosts == 0 && !weft_trace_value(m->known->trace, from)->is_fake;
    m->view_values[m->num_views] = value;
    return known ? m->num_views++ : -1;
}
