#include "elementwise.h"

#include <string.h>

#include "run.h"

/* ---- types and shapes ---------------------------------------------------------------------------------- */

int category_of(weft_dtype dtype)
{
    return dtype == WEFT_BOOL ? 0 : is_floating(dtype) ? 2 : 1;
}

weft_dtype promoted_pair(weft_dtype a, weft_dtype b)
{
    if (category_of(a) != category_of(b)) {
        return category_of(a) > category_of(b) ? a : b;
    }
    if (a != b && is_floating(a) && a >= WEFT_BF16 && b >= WEFT_BF16) {
        return WEFT_F32;
    }
    if (a != b && BIT(a) + BIT(b) == BIT(WEFT_I8) + BIT(WEFT_U8)) {
        return WEFT_I16;
    }
    return weft_dtype_size(a) >= weft_dtype_size(b) ? a : b;
}

static bool have_common_type(weft_dtype a, weft_dtype b)
{
    const unsigned lonely = BIT(WEFT_U16) | BIT(WEFT_U32) | BIT(WEFT_U64);
    return a == b || is_floating(a) || is_floating(b) || ((BIT(a) | BIT(b)) & lonely) == 0;
}

bool are_promoted(int count, const dense *const inputs[])
{
    bool any[2] = { false, false }, all = true;
    weft_dtype types[2] = { WEFT_BOOL, WEFT_BOOL };
    for (int i = 0; i < count; i++) {
        int which = inputs[i]->ndim > 0;
        all = all && (!any[which] || have_common_type(types[which], inputs[i]->dtype));
        types[which] = any[which] ? promoted_pair(types[which], inputs[i]->dtype) : inputs[i]->dtype;
        any[which] = true;
    }
    const bool joins = any[0] && any[1] && category_of(types[0]) > category_of(types[1]);
    return all && (!joins || have_common_type(types[0], types[1]));
}

weft_dtype promoted(int count, const dense *const inputs[])
{
    bool any[2] = { false, false };
    weft_dtype types[2] = { WEFT_BOOL, WEFT_BOOL };
    for (int i = 0; i < count; i++) {
        int which = inputs[i]->ndim > 0;
        types[which] = any[which] ? promoted_pair(types[which], inputs[i]->dtype) : inputs[i]->dtype;
        any[which] = true;
    }
    if (!any[1] || (any[0] && category_of(types[0]) > category_of(types[1]))) {
        return any[1] ? promoted_pair(types[0], types[1]) : types[0];
    }
    return types[1];
}

int broadcast_shape(int count, const dense *const inputs[], int64_t shape[])
{
    int ndim = 0;
    for (int i = 0; i < count; i++) {
        ndim = inputs[i]->ndim > ndim ? inputs[i]->ndim : ndim;
    }
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1;
        for (int i = 0; i < count; i++) {
            int own = d - (ndim - inputs[i]->ndim);
            int64_t size = own < 0 ? 1 : inputs[i]->shape[own];
            if (size != 1 && shape[d] != 1 && size != shape[d]) {
                return -1;
            }
            shape[d] = size != 1 ? size : shape[d];
        }
    }
    return ndim;
}

int64_t broadcast_index(const dense *x, int ndim, const int64_t shape[], int64_t i)
{
    int64_t index = 0, stride = 1;
    for (int d = ndim - 1; d >= ndim - x->ndim; d--) {
        int64_t size = x->shape[d - (ndim - x->ndim)];
        index += size == 1 ? 0 : i % shape[d] * stride;
        stride *= size;
        i /= shape[d];
    }
    return index;
}

/* ---- Partial inputs ------------------------------------------------------------------------------------ */

void allow_all(scene *s, dense *x, double slack)
{
    for (int64_t i = 0; i < x->count; i++) {
        dense_allow(s->arena, x, i, slack);
    }
}

void allow_addends(scene *s, dense *x, double mass, double unit)
{
    x->mass = mass;
    x->unit = unit;
    int digits = digits_of(x->dtype);
    if (is_floating(x->dtype) && !(mass <= unit * ldexp(1, digits))) {
        allow_all(s, x, 16 * ldexp(mass, 1 - digits));
    }
}

/* Mass and unit of the result from inputs that are, or may become, Partial. */
static void pass_addends(scene *s, const elementwise *e, dense *x)
{
    const dense *a = s->in[0], *b = e->inputs > 1 ? s->in[1] : NULL;
    double number = e->numbers > 0 ? fabs(s->step->reals[0]) : 1, mass = dense_mass(a), unit = dense_unit(a);
    double number_unit = number == nearbyint(number) ? 1 : number * 8 == nearbyint(number * 8) ? 0.125 : 0;
    switch (e->passes) {
    case PASSES_SUM: {
        double other = b == NULL ? 0 : dense_unit(b) * number_unit;
        mass = (mass + (b == NULL ? 0 : dense_mass(b))) * (1 + 2 * number);
        unit = (b != NULL && other < unit ? other : unit) * number_unit;
        break;
    }
    case PASSES_PRODUCT:
        mass *= dense_mass(b);
        unit *= dense_unit(b);
        break;
    default: {
        /* The largest factor is what 1 becomes. */
        double factor = 0;
        bool plain = true;
        for (int64_t i = 0; i < x->count; i++) {
            scalars v = { .type = WEFT_F64, .a = 1, .real = s->step->reals };
            v.b = number_of(b->dtype, b->at[broadcast_index(b, x->ndim, x->shape, i)]);
            double own = e->real(&v);
            plain &= own == 0 || own == 1;
            factor = fmax(factor, fabs(own));
        }
        mass = isinf(factor) ? (double)INFINITY : mass * factor; /* the mass may be 0 */
        unit = plain ? unit : 0;
    }
    }
    allow_addends(s, x, mass, unit);
    for (int64_t i = 0; i < x->count; i++) {
        bool finite = true;
        for (int k = 0; k < e->inputs; k++) {
            const dense *in = s->in[k];
            finite &= isfinite(number_of(in->dtype, in->at[broadcast_index(in, x->ndim, x->shape, i)]));
        }
        dense_allow(s->arena, x, i, finite ? 0 : (double)INFINITY);
    }
}

static void allow_for_partial(scene *s, const elementwise *e, dense *x)
{
    bool vague = false, partial = false;
    for (int i = 0; i < e->inputs; i++) {
        vague |= dense_is_vague(s->in[i]);
        partial |= s->in[i]->partial;
    }
    x->signed_zeros &= !partial;
    if (partial && e->passes != PASSES_NOT) {
        pass_addends(s, e, x);
    } else if (vague) {
        allow_all(s, x, (double)INFINITY);
    }
}

/* ---- the reference ------------------------------------------------------------------------------------- */

/* Whether the operation accepts the types; in place the target's must hold the result. */
static bool has_types(const scene *s, const elementwise *e)
{
    for (int i = 0; i < e->inputs; i++) {
        const dense *x = s->in[i];
        if (x == NULL || !(e->types & BIT(x->dtype)) || (e->same_shape && x->dtype != s->in[0]->dtype)) {
            return false;
        }
    }
    if (strcmp(s->step->operation->name, "copy_inplace") != 0 && !are_promoted(e->inputs, s->in)) {
        return false;
    }
    return !(s->step->operation->flags & IN_PLACE) || e->inputs < 2 ||
           category_of(s->in[1]->dtype) <= category_of(s->in[0]->dtype);
}

static weft_dtype type_of_result(const scene *s, const elementwise *e, weft_dtype common)
{
    if (s->step->operation->flags & IN_PLACE) {
        return s->in[0]->dtype;
    }
    return e->result == RESULT_TRUTH   ? WEFT_BOOL
           : e->result == RESULT_GIVEN ? s->step->dtype
           : e->result == RESULT_FIRST ? s->in[0]->dtype
                                       : common;
}

/* Roundings of the arithmetic, and one of 16 bits if the exact value is unknown. */
static double slack_of(const elementwise *e, const scalars *v, weft_dtype type, double value)
{
    if (v->unsure) {
        return (double)INFINITY;
    }
    if (v->exact) {
        return 0;
    }
    double magnitude = fmax(v->magnitude, fabs(value));
    double tiny = type == WEFT_F64 ? 0x1p-1000 : type == WEFT_F16 ? 0x1p-24 : 0x1p-120;
    double slack = tiny + e->roundings * ldexp(magnitude, 1 - digits_of(v->type));
    slack += digits_of(type) < digits_of(v->type) ? ldexp(fabs(value), 1 - digits_of(type)) : 0;
    /* Values near the largest number may overflow. */
    double largest = type == WEFT_F64 ? 0x1p1022 : type == WEFT_F16 ? 65000 : 0x1.f8p127;
    return !isfinite(value) ? 0 : magnitude >= largest ? (double)INFINITY : slack;
}

static element compute(scene *s, const elementwise *e, weft_dtype common, dense *out, int64_t i)
{
    weft_dtype type = arithmetic_type(common);
    double rounded_reals[MAX_REALS] = { 0 };
    scalars v = {
        .type = type, .common = common, .real = rounded_reals, .zeros_known = out->signed_zeros, .exact = true
    };
    for (int k = 0; k < s->step->num_reals; k++) {
        rounded_reals[k] = type == WEFT_F32 ? (double)(float)s->step->reals[k] : s->step->reals[k];
    }
    element operands[3] = { { 0 } };
    for (int k = 0; k < e->inputs; k++) {
        const dense *x = s->in[k];
        bool wide = e->wide_scalar && k == 1 && x->count == 1 && is_floating(common);
        operands[k] =
            converted(wide ? type : common, x->dtype, x->at[broadcast_index(x, out->ndim, out->shape, i)]);
    }
    if (type == WEFT_I64) {
        v.i = operands[0].whole, v.j = operands[1].whole, v.k = operands[2].whole;
        weft_dtype own = e->result == RESULT_TRUTH ? WEFT_BOOL : common;
        return converted(out->dtype, own, (element){ .whole = wrapped(own, e->whole(&v)) });
    }
    v.a = operands[0].real, v.b = operands[1].real, v.c = operands[2].real;
    double result = e->real(&v);
    if (e->result == RESULT_TRUTH) {
        return (element){ .whole = result != 0 };
    }
    result = rounded(common, result);
    dense_allow(s->arena, out, i, slack_of(e, &v, out->dtype, result));
    return converted(out->dtype, common, (element){ .real = result });
}

bool elementwise_reference(scene *s)
{
    const elementwise *e = s->step->operation->details;
    int64_t shape[WEFT_MAX_DIMS];
    if (s->step->num_inputs < e->inputs || s->step->num_reals < e->numbers || !has_types(s, e)) {
        return false;
    }
    int ndim = broadcast_shape(e->inputs, s->in, shape);
    bool in_place = s->step->operation->flags & IN_PLACE;
    if (ndim < 0 || ((in_place || e->same_shape) &&
                     (ndim != s->in[0]->ndim || count_of(ndim, shape) != s->in[0]->count))) {
        return false;
    }
    for (int k = 1; k < e->inputs && e->same_shape; k++) {
        if (s->in[k]->ndim != ndim ||
            memcmp(s->in[k]->shape, s->in[0]->shape, (size_t)ndim * sizeof(shape[0])) != 0) {
            return false;
        }
    }
    weft_dtype common = promoted(e->inputs, s->in);
    common = e->result == RESULT_FLOATING && !is_floating(common) ? WEFT_F32 : common;
    if (!is_floating(common)) {
        for (int k = 0; k < s->step->num_reals && !e->any_numbers; k++) {
            double number = s->step->reals[k];
            if (isfinite(number) && number != nearbyint(number)) {
                return false;
            }
        }
        if (e->whole == NULL) {
            return false;
        }
    }
    dense *out = scene_output(s, 0, type_of_result(s, e, common), ndim, shape);
    out->signed_zeros = true;
    for (int k = 0; k < e->inputs; k++) {
        out->signed_zeros &= s->in[k]->signed_zeros && !s->in[k]->partial;
    }
    for (int64_t i = 0; i < out->count; i++) {
        out->at[i] = compute(s, e, common, out, i);
    }
    out->signed_zeros &= e->signs;
    allow_for_partial(s, e, out);
    return true;
}

/* ---- making -------------------------------------------------------------------------------------------- */

int choose_broadcast(maker *m, int first, unsigned types, value_kind kind)
{
    const dense *a = value_of(m, first);
    int64_t shape[WEFT_MAX_DIMS];
    int from = one_in(m, 3) ? (int)below(m, a->ndim + 1) : 0, ndim = a->ndim - from;
    for (int d = 0; d < ndim; d++) {
        shape[d] = one_in(m, 5) ? 1 : a->shape[from + d];
    }
    wish w = { .types = types, .mesh = mesh_of(m, first), .least = ndim, .shape = shape, .kind = kind };
    if ((ndim == 0 || m->program->implicit) && one_in(m, 3)) {
        w.mesh = -1; /* scalars of other meshes are replicated by themselves */
    }
    return choose_value(m, &w);
}

/* Types of a second input: mostly the first one's. */
static unsigned other_types(maker *m, const elementwise *e, weft_dtype first)
{
    return e->same_shape || !one_in(m, MIXED_TYPES_ONE_IN) ? BIT(first) : e->types;
}

/* In place into addends: only sums and averages, and the other input must have addends on the same ranks. */
static bool make_into_addends(maker *m, step *s, const elementwise *e)
{
    int found = NO_VALUE;
    for (int v = 0; v < m->program->num_values; v++) {
        const knowledge *k = &m->known[v];
        /* from_local takes boxes. */
        bool boxes = !has_runs(m->program->meshes[mesh_of(m, v)].ndim, k->placements);
        bool sums = k->is_partial && !k->stale && is_alive(&m->evaluation, v) &&
                    (e->types & BIT(value_of(m, v)->dtype)) && (boxes || e->passes != PASSES_SUM);
        for (int d = 0; d < MAX_MESH_DIMS && sums; d++) {
            sums = k->placements[d].kind != WEFT_PARTIAL || k->placements[d].op == WEFT_SUM ||
                   k->placements[d].op == WEFT_AVG;
        }
        found = sums && (found == NO_VALUE || one_in(m, 2)) ? v : found;
    }
    if (found == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, found);
    *s = step_of(s->operation, 1, found);
    s->outputs[0] = found;
    s->num_reals = e->numbers;
    s->reals[0] = (double)between(m, -2, 3) * (lacks_sign(x->dtype) ? 0 : 1);
    if (e->inputs == 2 && e->passes != PASSES_SUM) {
        s->inputs[s->num_inputs++] = choose_broadcast(m, found, BIT(x->dtype), VALUES_SMALL);
    } else if (e->inputs == 2) {
        step given = step_of(operation_find("from_local"), 0);
        given.dtype = x->dtype;
        given.ndim = x->ndim;
        given.mesh = mesh_of(m, found);
        given.num_wholes = 2;
        given.wholes[0] = VALUES_SMALL;
        given.salt = prng_next(&m->random);
        memcpy(given.shape, x->shape, sizeof(given.shape));
        memcpy(given.placements, m->known[found].placements, sizeof(given.placements));
        s->inputs[s->num_inputs++] = add_step(m, &given) ? given.outputs[0] : NO_VALUE;
    }
    return e->inputs < 2 || s->inputs[1] != NO_VALUE;
}

bool make_elementwise(maker *m, step *s)
{
    const elementwise *e = s->operation->details;
    bool in_place = s->operation->flags & IN_PLACE;
    if (in_place && e->passes != PASSES_NOT && one_in(m, 4)) {
        return make_into_addends(m, s, e);
    }
    wish w = {
        .types = e->types, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = e->tame ? VALUES_SMALL : VALUES_ANY
    };
    int a = in_place ? choose_target(m, e->types, 0, MAX_TENSOR_DIMS) : choose_value(m, &w);
    if (a == NO_VALUE) {
        return false;
    }
    *s = step_of(s->operation, 1, a);
    weft_dtype dtype = value_of(m, a)->dtype;
    for (int k = 1; k < e->inputs; k++) {
        const dense *x = value_of(m, a);
        unsigned types = other_types(m, e, dtype) & e->types;
        int b = e->same_shape ? choose_like(m, a, types, x->ndim, x->shape)
                              : choose_broadcast(m, a, types, w.kind);
        if (b == NO_VALUE) {
            return false;
        }
        s->inputs[s->num_inputs++] = b;
    }
    if (e->inputs == 2 && !in_place && one_in(m, 4)) {
        int first = s->inputs[0];
        s->inputs[0] = s->inputs[1];
        s->inputs[1] = first;
    }
    s->outputs[0] = in_place ? a : NO_VALUE;
    s->num_reals = e->numbers;
    s->reals[0] = any_number(m, dtype);
    s->reals[0] += e->any_numbers && one_in(m, 3) ? 0.5 : 0;
    s->reals[1] = s->reals[0] + (double)below(m, 4);
    s->dtype = any_type(m, EVERY_TYPE);
    return true;
}
