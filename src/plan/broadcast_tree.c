#include "plan/broadcast_tree.h"

#include <stdlib.h>

#include "plan/box_iterator.h"
#include "plan/replica.h"
#include "plan/transfers.h"

/* ---- groups -------------------------------------------------------------------------------------------- */

/* Properties that all groups of a stage share. */
typedef struct grouping {
    const weft_stage *stage;
    weft_roles roles;
    bool copies[WEFT_MAX_DIMS]; /* dimensions of the destination mesh along which members of a group differ */
    int64_t stride[WEFT_MAX_DIMS];
    int64_t members; /* of each group */
    int64_t blocks;  /* of each group */
} grouping;

/* On one mesh, data is not copied along the source's Replicate dimensions: each of their coordinates
 * serves its own group. On another mesh replicas share the members. */
static grouping grouping_of(const weft_stage *stage, const weft_topology *topology)
{
    grouping g = { .stage = stage, .roles = weft_roles_of(stage, topology), .members = 1 };
    const weft_layout *to = stage->to;
    weft_mesh_strides(to->mesh, g.stride);
    for (int m = 0; m < to->mesh->ndim; m++) {
        bool has = g.roles.same_mesh && g.roles.replicates[m];
        g.copies[m] = to->placements[m].kind == WEFT_REPLICATE && !has;
        g.members *= g.copies[m] ? to->mesh->shape[m] : 1;
    }
    g.blocks = g.roles.same_mesh ? 1 : weft_min_i64(g.members, g.roles.num_replicas);
    return g;
}

/* The mesh index of member `number` of a group; `place` is the mesh index of member 0. */
static int64_t member_index(const grouping *g, int64_t place, int64_t number)
{
    for (int m = g->stage->to->mesh->ndim - 1; m >= 0; m--) {
        if (g->copies[m]) {
            place += number % g->stage->to->mesh->shape[m] * g->stride[m];
            number /= g->stage->to->mesh->shape[m];
        }
    }
    return place;
}

/* A position in the destination mesh: mesh index of member 0 of its group, its number in the group, and
 * the group's number among all groups. */
typedef struct membership {
    int64_t place, number, group;
} membership;

static membership membership_of(const grouping *g, int64_t index)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    const weft_mesh_impl *mesh = g->stage->to->mesh;
    weft_mesh_unravel(mesh, index, coordinate);
    membership m = { .place = index };
    for (int k = 0; k < mesh->ndim; k++) {
        if (g->copies[k]) {
            m.place -= coordinate[k] * g->stride[k];
            m.number = m.number * mesh->shape[k] + coordinate[k];
        } else {
            m.group = m.group * mesh->shape[k] + coordinate[k];
        }
    }
    return m;
}

/* ---- lines: a root and those that it serves ------------------------------------------------------------ */

/* Element 0 is the root, 1 .. count are the other members of a block, in their order. */
typedef struct line {
    const grouping *grouping;
    int64_t base;        /* of the part: see replica.h */
    int64_t place;       /* of the group */
    int64_t first;       /* the block's first member */
    int64_t root_member; /* -1: the root is not in the block */
    int64_t count;
    int root;
} line;

static int64_t block_of(const grouping *g, int64_t number)
{
    return number * g->blocks / g->members;
}

static int64_t first_of_block(const grouping *g, int64_t block)
{
    return weft_ceil_div(block * g->members, g->blocks);
}

static line line_of(const grouping *g, int64_t base, const membership *group, int64_t block)
{
    const weft_mesh_impl *from = g->stage->from->mesh, *to = g->stage->to->mesh;
    int64_t part;
    if (g->roles.same_mesh) {
        int64_t coordinate[WEFT_MAX_DIMS];
        weft_mesh_unravel(to, group->place, coordinate);
        part = weft_replica_part(&g->roles, coordinate);
    } else {
        part =
            weft_replica_part_of_turn(&g->roles, (block + group->group * g->blocks) % g->roles.num_replicas);
    }
    int64_t first = first_of_block(g, block), end = first_of_block(g, block + 1);
    line l = { g, base, group->place, first, -1, end - first, weft_mesh_rank_at(from, base + part) };
    int64_t index = weft_mesh_index_of(to, l.root);
    membership own = membership_of(g, weft_max_i64(0, index));
    if (index >= 0 && own.place == l.place && own.number >= first && own.number < end) {
        l.root_member = own.number;
        l.count--;
    }
    return l;
}

static int64_t element_of(const line *l, int64_t number)
{
    if (number == l->root_member) {
        return 0;
    }
    return number - l->first + (l->root_member < 0 || number < l->root_member);
}

static int rank_of(const line *l, int64_t element)
{
    if (element == 0) {
        return l->root;
    }
    int64_t number = l->first + element - 1;
    number += l->root_member >= 0 && number >= l->root_member;
    return weft_mesh_rank_at(l->grouping->stage->to->mesh, member_index(l->grouping, l->place, number));
}

static int process_of(const line *l, int64_t element)
{
    return weft_topology_process_of(l->grouping->roles.topology, rank_of(l, element));
}

/* Whether a rank of the line has its part in the source. On one mesh only the root does: other replicas
 * differ in coordinates along which the group does not vary. */
static bool holds(const line *l, int rank)
{
    const weft_roles *roles = &l->grouping->roles;
    if (rank == l->root || roles->same_mesh) {
        return rank == l->root;
    }
    int64_t index = weft_mesh_index_of(l->grouping->stage->to->mesh, rank);
    return weft_target_of(roles, rank, index).own_base == l->base;
}

/* The first of the elements low .. high - 1 whose rank is `rank` or a higher one, or high. */
static int64_t first_from(const line *l, int rank, int64_t low, int64_t high)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (rank_of(l, middle) < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The elements begin .. end - 1 hosted by the process of `element`, which is one of them. The search goes
 * outwards from `element`, because a process hosts few ranks. On a mesh that lists ranks in no order the
 * element is alone. */
static void hosted_with(const line *l, int64_t element, int64_t *begin, int64_t *end)
{
    const weft_topology *topology = l->grouping->roles.topology;
    *begin = element;
    *end = element + 1;
    if (!l->grouping->stage->to->mesh->ascending || topology->first_rank == NULL) {
        return;
    }
    int process = process_of(l, element);
    int first = weft_topology_first_rank(topology, process),
        last = weft_topology_first_rank(topology, process + 1);
    int64_t low = element, high = element;
    for (int64_t step = 1; low > 1 && rank_of(l, low) >= first; step *= 2) {
        low = weft_max_i64(1, low - step);
    }
    for (int64_t step = 1; high < l->count && rank_of(l, high) < last; step *= 2) {
        high = weft_min_i64(l->count, high + step);
    }
    *begin = first_from(l, first, low, element);
    *end = first_from(l, last, element + 1, high + 1);
}

/* ---- parents and children ------------------------------------------------------------------------------ */

/* Of the elements begin .. end - 1, of which `begin` has the part: the element that receives it next, to
 * serve those after it. The middle, or a position near it where a process begins, so that each process
 * receives the part once. */
static int64_t next_in_tree(const line *l, int64_t begin, int64_t end)
{
    int64_t middle = begin + (end - begin + 1) / 2, first, last;
    hosted_with(l, middle, &first, &last);
    bool with_root = begin == 0 && process_of(l, 0) == process_of(l, middle);
    if (first > begin && !with_root) {
        return first;
    }
    return last < end ? last : middle;
}

static int64_t parent_in_tree(const line *l, int64_t element)
{
    int64_t begin = 0, end = l->count + 1;
    for (;;) {
        int64_t next = next_in_tree(l, begin, end);
        if (next == element) {
            return begin;
        }
        begin = next < element ? next : begin;
        end = next < element ? end : next;
    }
}

static int64_t parent_of(const line *l, int64_t element)
{
    int64_t first, last;
    switch (l->grouping->stage->algorithm) {
    case WEFT_CHAIN:
        return element - 1;
    case WEFT_TREE:
        return parent_in_tree(l, element);
    case WEFT_ONCE:
        hosted_with(l, element, &first, &last);
        return element == first || process_of(l, element) == process_of(l, 0) ? 0 : first;
    default:
        return 0;
    }
}

/* A send under construction: a part of a line to the children of one element. */
typedef struct sending {
    const line *line;
    const weft_box *part;
    bool forwarded;
    weft_transfers *moves;
} sending;

/* A child that already has the part takes it from itself. */
static bool send_to(const sending *s, int64_t child)
{
    int rank = rank_of(s->line, child);
    if (holds(s->line, rank)) {
        return true;
    }
    if (!weft_transfers_reserve_one(s->moves)) {
        return false;
    }
    weft_transfers_add(s->moves, rank, s->forwarded, s->line->grouping->stage->to->ndim, s->part);
    return true;
}

static bool send_down_tree(const sending *s, int64_t element)
{
    int64_t begin = 0, end = s->line->count + 1;
    while (begin != element) {
        int64_t next = next_in_tree(s->line, begin, end);
        begin = next <= element ? next : begin;
        end = next <= element ? end : next;
    }
    while (end - begin > 1) {
        end = next_in_tree(s->line, begin, end);
        if (!send_to(s, end)) {
            return false;
        }
    }
    return true;
}

/* The root serves the first rank of each process, and all ranks of its own; the first rank of a process
 * the others there. */
static bool send_once(const sending *s, int64_t element)
{
    const line *l = s->line;
    int64_t first, last;
    if (element > 0) {
        hosted_with(l, element, &first, &last);
        bool leads = element == first && process_of(l, element) != process_of(l, 0);
        for (int64_t child = element + 1; leads && child < last; child++) {
            if (!send_to(s, child)) {
                return false;
            }
        }
        return true;
    }
    for (int64_t next = 1; next <= l->count; next = last) {
        hosted_with(l, next, &first, &last);
        int64_t served = process_of(l, next) == process_of(l, 0) ? last : next + 1;
        for (int64_t child = next; child < served; child++) {
            if (!send_to(s, child)) {
                return false;
            }
        }
    }
    return true;
}

static bool send_to_children(const sending *s, int64_t element)
{
    switch (s->line->grouping->stage->algorithm) {
    case WEFT_CHAIN:
        return element == s->line->count || send_to(s, element + 1);
    case WEFT_TREE:
        return send_down_tree(s, element);
    default:
        return send_once(s, element);
    }
}

/* ---- what a rank wants --------------------------------------------------------------------------------- */

/* The parts of a rank's destination box, and their bases. */
typedef struct wants {
    int64_t index; /* in the destination mesh; -1: the rank wants nothing */
    membership member;
    int64_t kept; /* part of the mesh index of the coordinates that stay */
    weft_box_iterator parts;
} wants;

static bool wants_make(wants *w, const grouping *g, int rank)
{
    const weft_layout *from = g->stage->from, *to = g->stage->to;
    weft_box box;
    *w = (wants){ .index = -1 };
    if (!weft_layout_shard_box(to, rank, &box) || weft_box_count(to->ndim, &box) == 0) {
        return true;
    }
    w->index = weft_mesh_index_of(to->mesh, rank);
    w->member = membership_of(g, w->index);
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(to->mesh, w->index, coordinate);
    for (int m = 0; m < from->mesh->ndim; m++) {
        w->kept += g->roles.keeps[m] ? coordinate[m] * g->roles.stride[m] : 0;
    }
    weft_fixed none = weft_fixed_none();
    return weft_box_iterator_make(&w->parts, from, &box, &none);
}

static line wanted_line(const wants *w, const grouping *g, weft_box *part)
{
    int64_t base = weft_box_iterator_box(&w->parts, part) + w->kept;
    return line_of(g, base, &w->member, block_of(g, w->member.number));
}

weft_status weft_broadcast_tree_receives(const weft_stage *stage, const weft_topology *topology, int rank,
                                         weft_transfers *moves)
{
    grouping g = grouping_of(stage, topology);
    wants w;
    if (!wants_make(&w, &g, rank)) {
        return WEFT_ERR_NOMEM;
    }
    if (w.index < 0) {
        return WEFT_OK;
    }
    bool done = weft_transfers_reserve(moves, w.parts.count);
    for (size_t i = 0; done && i < w.parts.count; i++, weft_box_iterator_next(&w.parts)) {
        weft_box part;
        line l = wanted_line(&w, &g, &part);
        int source = rank;
        bool forwarded = false;
        if (!holds(&l, rank)) {
            source = rank_of(&l, parent_of(&l, element_of(&l, w.member.number)));
            forwarded = !holds(&l, source);
        }
        weft_transfers_add(moves, source, forwarded, stage->to->ndim, &part);
    }
    weft_box_iterator_free(&w.parts);
    return done ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* ---- sends --------------------------------------------------------------------------------------------- */

/* The sends of the rank as a member of its own group, and its copies from itself. Sends as a root follow
 * below. */
static bool send_as_member(const grouping *g, int rank, weft_transfers *moves)
{
    wants w;
    if (!wants_make(&w, g, rank) || w.index < 0) {
        return w.index < 0;
    }
    bool done = true;
    for (size_t i = 0; done && i < w.parts.count; i++, weft_box_iterator_next(&w.parts)) {
        weft_box part;
        line l = wanted_line(&w, g, &part);
        bool has = holds(&l, rank);
        if (has) {
            done = weft_transfers_reserve_one(moves);
            if (done) {
                weft_transfers_add(moves, rank, false, g->stage->to->ndim, &part);
            }
        }
        sending s = { &l, &part, !has, moves };
        int64_t element = element_of(&l, w.member.number);
        done = done && (element == 0 || send_to_children(&s, element));
    }
    weft_box_iterator_free(&w.parts);
    return done;
}

/* The block of a group that the replica with this turn serves; or -1. */
static int64_t block_of_turn(const grouping *g, const membership *group, int64_t turn)
{
    int64_t replicas = g->roles.num_replicas;
    int64_t block = (turn - group->group * g->blocks % replicas + replicas) % replicas;
    return block < g->blocks ? block : -1;
}

/* Intersections of the rank's source box with the boxes of the groups that it serves. */
static bool send_as_root(const grouping *g, int rank, weft_transfers *moves)
{
    const weft_layout *from = g->stage->from, *to = g->stage->to;
    weft_box box;
    if (!weft_layout_shard_box(from, rank, &box) || weft_box_count(from->ndim, &box) == 0) {
        return true;
    }
    int64_t index = weft_mesh_index_of(from->mesh, rank), coordinate[WEFT_MAX_DIMS], place = 0;
    weft_mesh_unravel(from->mesh, index, coordinate);
    int64_t base = index - weft_replica_part(&g->roles, coordinate),
            turn = weft_replica_turn_of(&g->roles, coordinate);
    weft_fixed fixed = weft_fixed_none();
    for (int m = 0; g->roles.same_mesh && m < from->mesh->ndim; m++) {
        if (g->roles.keeps[m] || g->roles.replicates[m]) {
            fixed.coordinate[m] = coordinate[m];
            place += to->placements[m].kind == WEFT_SHARD ? 0 : coordinate[m] * g->stride[m];
        }
    }
    weft_box_iterator parts;
    bool done = weft_box_iterator_make(&parts, to, &box, &fixed);
    for (size_t i = 0; done && i < parts.count; i++, weft_box_iterator_next(&parts)) {
        weft_box part;
        membership group = membership_of(g, place + weft_box_iterator_box(&parts, &part));
        int64_t block = g->roles.same_mesh ? 0 : block_of_turn(g, &group, turn);
        if (block >= 0) {
            line l = line_of(g, base, &group, block);
            sending s = { &l, &part, false, moves };
            done = send_to_children(&s, 0);
        }
    }
    weft_box_iterator_free(&parts);
    return done;
}

weft_status weft_broadcast_tree_sends(const weft_stage *stage, const weft_topology *topology, int rank,
                                      weft_transfers *moves)
{
    grouping g = grouping_of(stage, topology);
    return send_as_root(&g, rank, moves) && send_as_member(&g, rank, moves) ? WEFT_OK : WEFT_ERR_NOMEM;
}

/* ---- for costs ----------------------------------------------------------------------------------------- */

weft_broadcast_shape weft_broadcast_shape_of(const weft_stage *stage, const weft_topology *topology)
{
    grouping g = grouping_of(stage, topology);
    weft_broadcast_shape shape = { first_of_block(&g, 1), 0 };
    const weft_mesh_impl *mesh = stage->to->mesh;
    int64_t last = member_index(&g, 0, shape.ranks - 1);
    int processes = weft_topology_process_of(topology, weft_mesh_rank_at(mesh, last)) -
                    weft_topology_process_of(topology, weft_mesh_rank_at(mesh, 0));
    shape.processes = mesh->ascending ? weft_min_i64(shape.ranks, processes + 1) : shape.ranks;
    return shape;
}
