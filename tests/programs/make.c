#include "make.h"

#include <stdarg.h>
#include <string.h>

#include "cuts.h"

/* ---- chance -------------------------------------------------------------------------------------------- */

int64_t below(maker *m, int64_t n)
{
    return prng_below(&m->random, n);
}

int64_t between(maker *m, int64_t low, int64_t high)
{
    return low + below(m, high - low + 1);
}

bool one_in(maker *m, int64_t n)
{
    return below(m, n) == 0;
}

static const weft_dtype types_drawn[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL,
                                          WEFT_I8,  WEFT_I16, WEFT_U16,  WEFT_U32, WEFT_U64 };

weft_dtype any_type(maker *m, unsigned types)
{
    weft_dtype dtype;
    if (m->program->gradients && types & BIT(WEFT_F64)) {
        unsigned whole = types & ~(unsigned)FLOATS;
        if (whole == 0 || !one_in(m, 20)) {
            return WEFT_F64;
        }
        types = whole;
    }
    do {
        dtype = types_drawn[below(m, sizeof(types_drawn) / sizeof(types_drawn[0]))];
    } while (!(types & BIT(dtype)));
    return dtype;
}

int any_shape(maker *m, int least, int most, int64_t shape[])
{
    static const int likely[] = { 0, 1, 1, 2, 2, 2, 3, 3, 4, 5 };
    int ndim = likely[below(m, 10)];
    ndim = ndim < least ? least : ndim > most ? most : ndim;
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        int64_t room = m->largest / (count < 1 ? 1 : count), largest = ndim == 1 ? 40 : ndim == 2 ? 17 : 7;
        largest = m->largest > MAX_ELEMENTS && d == 0 ? largest * 300 : largest;
        largest = largest < room ? largest : room;
        shape[d] = one_in(m, 40) ? 0 : one_in(m, 6) ? 1 : between(m, 1, largest);
        count *= shape[d];
    }
    return ndim;
}

int any_mesh(maker *m)
{
    return (int)below(m, m->program->num_meshes);
}

void any_placements(maker *m, int mesh, int ndim, bool partial, weft_placement out[])
{
    weft_reduce_op op = (weft_reduce_op)below(m, 5);
    for (int d = 0; d < m->program->meshes[mesh].ndim; d++) {
        int64_t kind = below(m, partial ? 4 : 3);
        out[d] = kind == 3                ? weft_partial(op)
                 : kind == 0 || ndim == 0 ? weft_replicate()
                 : kind == 1              ? weft_shard((int)below(m, ndim))
                                          : weft_shard_balanced((int)below(m, ndim));
    }
    draw_levels(&m->random, m->program->meshes[mesh].ndim, out);
}

void any_cut_sizes(maker *m, int mesh, int ndim, const int64_t shape[], weft_placement placements[])
{
    int count = m->program->meshes[mesh].ndim;
    for (int d = 0; d < count && ndim > 0; d++) {
        int dim = placements[d].dim, level = placements[d].level;
        if (cuts_first(count, placements, d) && one_in(m, 3)) {
            placements[d] = sizes_of_rows(&m->random, dim, m->program->meshes[mesh].shape[d], shape[dim]);
            placements[d].level = level;
        }
    }
}

void any_cuts(maker *m, int mesh, int ndim, const int64_t shape[], weft_placement placements[])
{
    any_cut_sizes(m, mesh, ndim, shape, placements);
    for (int d = 0; d < m->program->meshes[mesh].ndim && ndim > 0; d++) {
        int level = placements[d].level;
        if (placements[d].kind == WEFT_SHARD && one_in(m, 5)) {
            placements[d] = cut_in_runs(&m->random, placements[d].dim, m->program->meshes[mesh].shape[d]);
            placements[d].level = level;
        }
    }
}

double any_number(maker *m, weft_dtype dtype)
{
    double number = (double)between(m, -3, 4);
    return lacks_sign(dtype)                       ? fabs(number)
           : is_floating(dtype) && one_in(m, 3)   ? number / 8
           : is_floating(dtype) && one_in(m, 4)   ? number * 0.3
                                                  : number;
}

int any_dim(maker *m, int ndim)
{
    int dim = (int)below(m, ndim);
    return one_in(m, 3) ? dim - ndim : dim;
}

/* ---- values -------------------------------------------------------------------------------------------- */

const dense *value_of(const maker *m, int value)
{
    return m->evaluation.values[value];
}

int mesh_of(const maker *m, int value)
{
    return m->evaluation.meshes[value];
}

static bool has_shape(const dense *x, const wish *w)
{
    if (w->shape == NULL) {
        return x->ndim >= w->least && x->ndim <= w->most;
    }
    for (int d = 0; d < w->least && x->ndim == w->least; d++) {
        if (w->shape[d] >= 0 && x->shape[d] != w->shape[d]) {
            return false;
        }
    }
    return x->ndim == w->least;
}

static bool has_values(const dense *x, value_kind kind, int64_t limit)
{
    for (int64_t i = 0; i < x->count && kind != VALUES_ANY; i++) {
        double value = number_of(x->dtype, x->at[i]);
        bool good = kind == VALUES_INDEX      ? value >= 0 && value < (double)limit
                    : kind == VALUES_UNIT     ? value >= 0 && value <= 1
                    : kind == VALUES_POSITIVE ? value > 0.1 && value < 100
                                              : fabs(value) <= 64;
        if (!good) {
            return false;
        }
    }
    return true;
}

static bool fits(const maker *m, int value, const wish *w)
{
    const knowledge *k = &m->known[value];
    const dense *x = value_of(m, value);
    /* Values computed from inexact ones may differ in the run. */
    bool may_differ = x != NULL && x->inexact && w->kind >= VALUES_INDEX;
    return is_alive(&m->evaluation, value) && !k->stale && !may_differ && (w->types & BIT(x->dtype)) &&
           (w->mesh < 0 || w->mesh == mesh_of(m, value)) &&
           (!(w->whole || w->writable) || !k->may_be_partial) && has_shape(x, w) &&
           !(w->writable && m->evaluation.is_leaf[value] && m->evaluation.no_grad == 0) &&
           /* Backward passes refuse lent memory that was written to. */
           !(w->writable && m->program->gradients && k->lent) &&
           has_values(x, w->kind, w->limit);
}

static value_kind kind_to_give(maker *m, weft_dtype dtype, const wish *w)
{
    if (w->kind != VALUES_ANY && w->kind != VALUES_SMALL) {
        return w->kind;
    }
    if (w->kind == VALUES_ANY && m->special && is_floating(dtype) && one_in(m, 3)) {
        return VALUES_SPECIAL;
    }
    if (w->kind == VALUES_ANY && !m->program->gradients && one_in(m, 25)) {
        return VALUES_WIDE;
    }
    int64_t choice = below(m, 10);
    if (is_floating(dtype) && m->program->gradients && choice < 6) {
        return VALUES_FINE;
    }
    return is_floating(dtype) && choice == 0  ? VALUES_FINE
           : is_floating(dtype) && choice < 3 ? VALUES_EIGHTHS
                                              : VALUES_SMALL;
}

/* Partial tensors are made of few whole addends, which add up exactly. */
static void place_given(maker *m, step *s, value_kind kind, bool whole)
{
    bool reducible =
        kind == VALUES_SMALL || kind == VALUES_INDEX || (kind == VALUES_EIGHTHS && s->dtype != WEFT_BF16);
    any_placements(m, s->mesh, s->ndim, reducible && !whole && one_in(m, 2), s->placements);
    any_cut_sizes(m, s->mesh, s->ndim, s->shape, s->placements);
    for (int d = 0; d < m->program->meshes[s->mesh].ndim; d++) {
        weft_placement *p = &s->placements[d];
        if (p->kind == WEFT_PARTIAL && p->op == WEFT_AVG && !is_floating(s->dtype)) {
            p->op = WEFT_SUM;
        }
        if (p->kind == WEFT_PARTIAL && p->op == WEFT_SUM && s->dtype == WEFT_BOOL) {
            p->op = WEFT_MAX;
        }
    }
}

static bool has_partial(const maker *m, const step *s)
{
    for (int d = 0; d < m->program->meshes[s->mesh].ndim; d++) {
        if (s->placements[d].kind == WEFT_PARTIAL) {
            return true;
        }
    }
    return false;
}

int give_value(maker *m, const wish *w)
{
    step s = { .num_outputs = 1, .outputs = { NO_VALUE }, .mesh = w->mesh < 0 ? any_mesh(m) : w->mesh };
    s.dtype = any_type(m, w->types);
    if (w->shape == NULL) {
        s.ndim = any_shape(m, w->least, w->most, s.shape);
    } else {
        s.ndim = w->least;
        for (int d = 0; d < s.ndim; d++) {
            s.shape[d] = w->shape[d] < 0 ? between(m, 1, 6) : w->shape[d];
        }
    }
    value_kind kind = kind_to_give(m, s.dtype, w);
    place_given(m, &s, kind, w->whole || w->writable);
    s.num_wholes = 2;
    s.wholes[0] = kind;
    s.wholes[1] = w->limit;
    s.salt = prng_next(&m->random);
    bool partial = has_partial(m, &s);
    int64_t choice = below(m, 10);
    bool lends = choice >= 2 && choice < 5 && !(w->writable && m->program->gradients);
    s.operation = operation_find(choice < 2 && !partial ? "distribute"
                                 : lends                ? "from_local_lent"
                                 : choice < 6           ? "from_local_checked"
                                                        : "from_local");
    if (!add_step(m, &s)) {
        return NO_VALUE;
    }
    /* A value that is about to be changed must not be a leaf. */
    if (m->program->gradients && s.dtype == WEFT_F64 && !w->writable && !one_in(m, 3)) {
        step leaf = step_of(operation_find("leaf"), 1, s.outputs[0]);
        leaf.num_outputs = 0;
        add_step(m, &leaf);
    }
    return s.outputs[0];
}

int choose_value(maker *m, const wish *w)
{
    int found = NO_VALUE, count = 0;
    for (int v = 0; v < m->program->num_values; v++) {
        /* The newest are the likeliest: programs become deep. */
        if (fits(m, v, w)) {
            count++;
            found = one_in(m, count < 4 ? count : 4) ? v : found;
        }
    }
    return found == NO_VALUE || one_in(m, 5) ? give_value(m, w) : found;
}

int choose_any(maker *m, unsigned types, int least, int most)
{
    return choose_value(m, &(wish){ .types = types, .mesh = -1, .least = least, .most = most });
}

int choose_like(maker *m, int other, unsigned types, int ndim, const int64_t shape[])
{
    return choose_value(m,
                        &(wish){ .types = types, .mesh = mesh_of(m, other), .least = ndim, .shape = shape });
}

int choose_target(maker *m, unsigned types, int least, int most)
{
    wish w = { .types = types, .mesh = -1, .least = least, .most = most, .writable = true };
    if (one_in(m, 2)) {
        return choose_value(m, &w);
    }
    /* An existing value, redistributed to a layout without Partial. */
    w.writable = false;
    int v = choose_value(m, &w);
    if (v == NO_VALUE || !m->known[v].may_be_partial) {
        return v;
    }
    step s = step_of(operation_find("redistribute"), 1, v);
    s.mesh = mesh_of(m, v);
    any_placements(m, s.mesh, value_of(m, v)->ndim, false, s.placements);
    any_cuts(m, s.mesh, value_of(m, v)->ndim, value_of(m, v)->shape, s.placements);
    return add_step(m, &s) ? s.outputs[0] : NO_VALUE;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

step step_of(const operation *row, int num_inputs, ...)
{
    step s = {
        .operation = row, .num_inputs = num_inputs, .num_outputs = 1, .outputs = { NO_VALUE }, .mesh = -1
    };
    va_list list;
    va_start(list, num_inputs);
    for (int i = 0; i < num_inputs; i++) {
        s.inputs[i] = va_arg(list, int);
    }
    va_end(list);
    return s;
}

/* Values that overflow, or are mostly NaN, would hide errors. */
static bool is_good(maker *m, const dense *x)
{
    int64_t wild = 0;
    for (int64_t i = 0; i < x->count; i++) {
        double value = number_of(x->dtype, x->at[i]);
        wild += !(fabs(value) <= (x->dtype == WEFT_F16 ? 2000 : 1e5)) && is_floating(x->dtype);
    }
    return x->count <= 2 * m->largest && x->ndim <= 6 &&
           (wild == 0 || (m->special && wild * 2 <= x->count + 1) || (wild * 4 <= x->count && one_in(m, 8)));
}

/* Programs with gradients are compared with differences: all reals are in double precision, and finite. */
static bool is_smooth(const dense *x)
{
    return !is_floating(x->dtype) || (x->dtype == WEFT_F64 && dense_is_finite(x));
}

static bool is_new(const step *s, int output)
{
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] == s->outputs[output]) {
            return false;
        }
    }
    return true;
}

/* Values that may share a tensor with a changed one are not used any more. */
static void make_stale(maker *m, int written)
{
    for (int v = 0; v < m->program->num_values; v++) {
        if (v != written && m->known[v].group == m->known[written].group) {
            m->known[v].stale = true;
        }
    }
    m->known[written].group = written;
}

static knowledge know(const maker *m, const step *s, int value)
{
    knowledge k = { .group = value };
    int flags = s->operation->flags;
    if (flags & MAY_BE_SAME) {
        k.group = m->known[s->inputs[0]].group;
    }
    k.lent = flags & LENDS || (flags & MAY_BE_SAME && m->known[s->inputs[0]].lent);
    k.may_be_partial = (flags & MAY_BE_PARTIAL) != 0;
    if (s->mesh >= 0) { /* the program says where it lies */
        k.may_be_partial = k.is_partial = has_partial(m, s);
        memcpy(k.placements, s->placements, sizeof(k.placements));
        return k;
    }
    for (int i = 0; i < s->num_inputs; i++) {
        k.may_be_partial |= s->inputs[i] != NO_VALUE && m->known[s->inputs[i]].may_be_partial;
    }
    return k;
}

bool add_step(maker *m, step *s)
{
    program *p = m->program;
    int num_values = p->num_values;
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] == NO_VALUE && !(s->operation->flags & IN_PLACE) && i == 0) {
            return false;
        }
    }
    if (p->num_steps + 1 >= MAX_STEPS || num_values + MAX_OUTPUTS >= MAX_VALUES) {
        return false;
    }
    for (int i = 0; i < s->num_outputs; i++) {
        if (s->outputs[i] == NO_VALUE) {
            s->outputs[i] = num_values++;
        }
    }
    random_states states = m->evaluation.states;
    scene seen;
    bool good = evaluate_step(&m->evaluation, s, &seen);
    for (int i = 0; i < s->num_outputs && good; i++) {
        good = is_good(m, seen.out[i]) && !(m->program->gradients && !is_smooth(seen.out[i])) && !(m->calm && seen.out[i]->inexact && s->operation->details != NULL);
    }
    if (!good) {
        m->evaluation.states = states;
        return false;
    }
    step *added = &p->steps[p->num_steps++];
    *added = *s;
    seen.step = added;
    p->num_values = num_values;
    for (int i = 0; i < s->num_outputs; i++) {
        if (is_new(s, i)) {
            m->known[s->outputs[i]] = know(m, s, s->outputs[i]);
        } else {
            make_stale(m, s->outputs[i]);
        }
    }
    evaluation_commit(&m->evaluation, &seen);
    return true;
}
