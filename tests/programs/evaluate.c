#include "evaluate.h"

#include <string.h>

#include "prng.h"
#include "calls.h"

const char *random_state_name(int i)
{
    static const char *const names[MAX_STATES] = { NULL, "state1", "state2" };
    return names[i];
}

dense *scene_output(scene *s, int i, weft_dtype dtype, int ndim, const int64_t shape[])
{
    return s->out[i] = dense_new(s->arena, dtype, ndim, shape);
}

/* ---- references ---------------------------------------------------------------------------------------- */

void evaluation_start(evaluation *e, const program *p)
{
    memset(e, 0, sizeof(*e));
    e->program = p;
    e->depth = p->scoped;
    for (int i = 0; i < MAX_STATES; i++) {
        e->states.states[i].seed = hash3(p->seed, (uint64_t)i, 5);
    }
    for (int i = 0; i < MAX_VALUES; i++) {
        e->lives[i].owner = -1;
    }
}

void evaluation_end(evaluation *e)
{
    arena_free(&e->arena);
}

bool is_alive(const evaluation *e, int value)
{
    return value >= 0 && (e->lives[value].owner >= 0 || e->lives[value].retained > 0);
}

/* Whether a step's changes of references, and of the stack of meshes, are valid. */
static bool may_change_hands(const evaluation *e, const step *s)
{
    int flags = s->operation->flags;
    const life *l = s->num_inputs > 0 && s->inputs[0] >= 0 ? &e->lives[s->inputs[0]] : NULL;
    return (!(flags & CLOSES) || e->depth > e->program->scoped) &&
           (!(flags & KEEPS) || (l->owner == e->depth && e->depth > 0)) &&
           (!(flags & RELEASES) || l->retained > 0 || l->owner == 0) &&
           (!(flags & PUSHES) || e->num_stack < MAX_STACK) && (!(flags & POPS) || e->num_stack > 0) &&
           (!(flags & HERE) || (e->num_stack > 0 && e->stack[e->num_stack - 1] == s->mesh));
}

static void change_hands(evaluation *e, const step *s)
{
    int flags = s->operation->flags;
    life *l = s->num_inputs > 0 && s->inputs[0] >= 0 ? &e->lives[s->inputs[0]] : NULL;
    e->depth += (flags & OPENS) != 0;
    if (flags & CLOSES) {
        for (int v = 0; v < MAX_VALUES; v++) {
            e->lives[v].owner = e->lives[v].owner == e->depth ? -1 : e->lives[v].owner;
        }
        e->depth--;
    }
    if (flags & PUSHES) {
        e->stack[e->num_stack++] = s->mesh;
    }
    e->num_stack -= (flags & POPS) != 0;
    if (flags & KEEPS) {
        l->owner--;
    }
    if (flags & RETAINS) {
        l->retained++;
    }
    if (flags & RELEASES) {
        if (l->retained > 0) {
            l->retained--;
        } else {
            l->owner = -1;
        }
    }
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static bool is_in_place(const step *s, int output)
{
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] == s->outputs[output]) {
            return true;
        }
    }
    return false;
}

/* Whether an input may be on another mesh than the others. */
static bool is_fetched(const evaluation *e, const step *s, int input)
{
    return (e->program->implicit || e->values[s->inputs[input]]->count == 1) &&
           (s->operation->flags & FETCHES_SCALARS) && !((s->operation->flags & IN_PLACE) && input == 0);
}

/* The mesh to which the others go: that of the first input with other than one element, else of the first
 * with dimensions, else of the first. */
static int mesh_of_leader(const evaluation *e, const step *s)
{
    for (int i = 0; i < 2 * s->num_inputs; i++) {
        int v = s->inputs[i % s->num_inputs];
        if (v != NO_VALUE && (i < s->num_inputs ? e->values[v]->count != 1 : e->values[v]->ndim > 0)) {
            return e->meshes[v];
        }
    }
    return e->meshes[s->inputs[0]];
}

/* The mesh of a step's result: the program's choice; else that of the inputs that are not fetched. -1:
 * these are on several. */
static int mesh_of_result(const evaluation *e, const step *s)
{
    if (s->mesh >= 0 || s->num_inputs == 0) {
        return s->mesh;
    }
    if (s->operation->flags & ANY_MESHES) {
        return e->meshes[s->inputs[0]];
    }
    int mesh = -1;
    for (int i = 0; i < s->num_inputs; i++) {
        int v = s->inputs[i];
        if (v == NO_VALUE || is_fetched(e, s, i)) {
            continue;
        }
        if (mesh >= 0 && mesh != e->meshes[v]) {
            return -1;
        }
        mesh = e->meshes[v];
    }
    return mesh >= 0 ? mesh : mesh_of_leader(e, s);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

bool is_unrecorded(const evaluation *e, const step *s)
{
    return e->no_grad > 0 || s->operation->flags & CUTS || operation_steps(s->operation);
}

static bool any_requires_grad(const evaluation *e, const step *s)
{
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] != NO_VALUE && e->requires_grad[s->inputs[i]]) {
            return true;
        }
    }
    return false;
}

/* Leaves are new values that nobody else has; a change of one must not be recorded. A result that may be its input
 * must not depend on whether it is. */
static bool may_be_recorded(const evaluation *e, const step *s)
{
    int flags = s->operation->flags;
    bool valid = !(flags & NO_GRAD_ENDS) || e->no_grad > 0;
    valid &= !(flags & LEAVES) || (is_floating(e->values[s->inputs[0]]->dtype) && !e->requires_grad[s->inputs[0]]);
    valid &= !(flags & MAY_BE_SAME) || flags & CUTS || e->no_grad == 0 || !any_requires_grad(e, s);
    for (int i = 0; i < s->num_outputs && !is_unrecorded(e, s); i++) {
        valid &= !is_in_place(s, i) || !e->is_leaf[s->outputs[i]];
    }
    valid &= !(flags & OF_LEAVES) || e->is_leaf[s->inputs[0]] || (s->operation->details != NULL && e->requires_grad[s->inputs[0]]);
    valid &= !(flags & WRITES) || !e->requires_grad[s->outputs[0]];
    return valid;
}

static void note_gradients(evaluation *e, const scene *seen)
{
    const step *s = seen->step;
    int flags = s->operation->flags;
    bool requires_grad = any_requires_grad(e, s) && !is_unrecorded(e, s);
    for (int i = 0; i < s->num_outputs; i++) {
        bool kept = is_in_place(s, i) && is_unrecorded(e, s);
        if (!kept) {
            e->requires_grad[s->outputs[i]] = requires_grad && is_floating(seen->out[i]->dtype);
            e->is_leaf[s->outputs[i]] = flags & MAY_BE_SAME && e->is_leaf[s->inputs[0]];
        }
    }
    if (flags & LEAVES) {
        e->requires_grad[s->inputs[0]] = e->is_leaf[s->inputs[0]] = true;
    }
    e->no_grad += ((flags & NO_GRAD_BEGINS) != 0) - ((flags & NO_GRAD_ENDS) != 0);
}

/* Whether the sizes that a step lists, if any, are those of its output: smaller programs may have other meshes and shapes. */
static bool sizes_fit(const program *p, const step *s, const dense *out)
{
    bool cut[WEFT_MAX_DIMS] = { false }, fit = true;
    for (int m = 0; s->mesh >= 0 && s->mesh < p->num_meshes && m < p->meshes[s->mesh].ndim && fit; m++) {
        const int64_t *sizes;
        weft_placement placement = s->placements[m];
        int64_t parts = weft_placement_sizes(placement, &sizes), rows = 0;
        for (int64_t i = 0; i < parts; i++) {
            rows += sizes[i];
        }
        int dim = placement.kind == WEFT_SHARD && placement.dim < out->ndim ? placement.dim : -1;
        fit = sizes == NULL || (dim >= 0 && !cut[dim] && parts == p->meshes[s->mesh].shape[m] && rows == out->shape[dim]);
        if (dim >= 0 && p->meshes[s->mesh].shape[m] > 1) {
            cut[dim] = true;
        }
    }
    return fit;
}

bool evaluate_step(evaluation *e, const step *s, scene *seen)
{
    *seen = (scene){ .program = e->program, .step = s, .arena = &e->arena, .states = &e->states };
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] != NO_VALUE && !is_alive(e, s->inputs[i])) {
            return false;
        }
        seen->in[i] = s->inputs[i] == NO_VALUE ? NULL : e->values[s->inputs[i]];
        const int leaves = WRITES | CHECKS | KEEPS | RETAINS | RELEASES | HOLDS;
        if (seen->in[i] != NULL && seen->in[i]->undefined && !(s->operation->flags & leaves)) {
            return false;
        }
    }
    seen->mesh = mesh_of_result(e, s);
    if ((seen->mesh < 0 && s->num_inputs > 0) || !may_change_hands(e, s) || !may_be_recorded(e, s) ||
        (s->operation->reference != NULL && !s->operation->reference(seen))) {
        return false;
    }
    for (int i = 0; i < s->num_outputs; i++) {
        dense *out = seen->out[i];
        if (out == NULL || !sizes_fit(seen->program, s, out)) { /* more outputs than the call has */
            return false;
        }
        out->derived = false;
        for (int k = 0; k < s->num_inputs && !(s->operation->flags & WRITES); k++) {
            out->derived |= seen->in[k] != NULL && seen->in[k]->inexact;
        }
        out->inexact = out->derived || out->slack != NULL;
    }
    return true;
}

void evaluation_commit(evaluation *e, const scene *seen)
{
    const step *s = seen->step;
    for (int i = 0; i < s->num_outputs; i++) {
        if (!is_in_place(s, i)) {
            e->lives[s->outputs[i]] = (life){ e->depth, 0 };
            e->meshes[s->outputs[i]] = seen->mesh;
        }
        e->values[s->outputs[i]] = seen->out[i];
    }
    note_gradients(e, seen);
    change_hands(e, s);
}

bool evaluate(evaluation *e, const program *p)
{
    evaluation_start(e, p);
    for (int i = 0; i < p->num_steps; i++) {
        scene seen;
        if (!evaluate_step(e, &p->steps[i], &seen)) {
            return false;
        }
        evaluation_commit(e, &seen);
    }
    return true;
}

/* ---- given values -------------------------------------------------------------------------------------- */

uint64_t hash3(uint64_t a, uint64_t b, uint64_t c)
{
    prng random = { a * UINT64_C(0x9e3779b97f4a7c15) + b };
    random.state = prng_next(&random) + c;
    return prng_next(&random);
}

static double wide_number(weft_dtype dtype, uint64_t random)
{
    int range = dtype == WEFT_F16 ? 8 : 40;
    double fraction = 1 + (double)(random >> 40) * 0x1p-24;
    double value = ldexp(fraction, (int)(random % (uint64_t)(2 * range)) - range);
    return random >> 39 & 1 ? -value : value;
}

static double special_number(uint64_t random)
{
    switch (random % 20) {
    case 0:
        return (double)NAN;
    case 1:
        return (double)INFINITY;
    case 2:
        return -(double)INFINITY;
    case 3:
        return -0.0;
    default:
        return (double)(int64_t)(random / 20 % 11) - 5;
    }
}

static double given_number(value_kind kind, weft_dtype dtype, uint64_t random)
{
    switch (kind) {
    case VALUES_EIGHTHS:
        return ((double)(random % 65) - 32) / 8;
    case VALUES_FINE:
        return (double)(random % 6001) / 1000.0 - 3.0;
    case VALUES_WIDE:
        return wide_number(dtype, random);
    case VALUES_SPECIAL:
        return special_number(random);
    case VALUES_UNIT:
        return (double)(random % 17) / 16;
    case VALUES_POSITIVE:
        return (double)(random % 16 + 1) / 4;
    default:
        return (double)(random % 11) - 5;
    }
}

static int64_t given_whole(value_kind kind, int64_t limit, weft_dtype dtype, uint64_t random)
{
    if (kind == VALUES_INDEX) {
        return limit < 1 ? 0 : (int64_t)(random % (uint64_t)limit);
    }
    if (kind == VALUES_WIDE) {
        return wrapped(dtype, (int64_t)(random >> (random % 64)) * (random & 64 ? -1 : 1));
    }
    if (kind == VALUES_POSITIVE) {
        return dtype == WEFT_BOOL ? 1 : (int64_t)(random % 4) + 1;
    }
    return dtype == WEFT_BOOL ? (int64_t)(random % 2)
           : lacks_sign(dtype) ? (int64_t)(random % 10)
                              : (int64_t)(random % 11) - 5;
}

element given_value(value_kind kind, int64_t limit, weft_dtype dtype, uint64_t salt, int64_t i)
{
    uint64_t random = hash3(salt, (uint64_t)i, 1);
    return is_floating(dtype) ? (element){ .real = rounded(dtype, given_number(kind, dtype, random)) }
                              : (element){ .whole = given_whole(kind, limit, dtype, random) };
}

/* 0 .. 8 */
static int64_t noise(uint64_t salt, int64_t i, int64_t part)
{
    return (int64_t)(hash3(salt, (uint64_t)i, (uint64_t)part + 100) % 9);
}

static element plus(weft_dtype dtype, element value, int64_t whole)
{
    return is_floating(dtype)
               ? (element){ .real = value.real + (double)whole }
               : (element){ .whole = wrapped(dtype, (int64_t)((uint64_t)value.whole + (uint64_t)whole)) };
}

element given_addend(weft_reduce_op op, weft_dtype dtype, element value, int64_t parts, int64_t part,
                     uint64_t salt, int64_t i)
{
    bool chosen = part == (int64_t)(hash3(salt, (uint64_t)i, 77) % (uint64_t)parts);
    element one = is_floating(dtype) ? (element){ .real = 1 } : (element){ .whole = 1 };
    int64_t others = 0;
    switch (op) {
    case WEFT_PROD:
        return chosen ? value : one;
    case WEFT_MIN:
    case WEFT_MAX:
        if (chosen || lacks_sign(dtype) || dtype == WEFT_I8 || dtype == WEFT_I16) { /* noise would wrap around */
            return value;
        }
        return plus(dtype, value, noise(salt, i, part) * (op == WEFT_MIN ? 1 : -1));
    default:
        break;
    }
    /* Addends of an average are multiples of `parts`, so that it is exact in any order. */
    int64_t factor = op == WEFT_AVG ? parts : 1;
    if (part < parts - 1) {
        return plus(dtype, (element){ 0 }, (noise(salt, i, part) - 4) * factor);
    }
    for (int64_t p = 0; p < parts - 1; p++) {
        others += (noise(salt, i, p) - 4) * factor;
    }
    if (is_floating(dtype)) {
        value.real *= (double)factor;
    }
    return plus(dtype, value, -others);
}

int64_t addend_index(const mesh_plan *mesh, const weft_placement placements[], const int64_t coordinate[],
                     int64_t *parts, weft_reduce_op *op)
{
    int64_t index = 0;
    *parts = 1;
    *op = WEFT_SUM;
    for (int m = 0; m < mesh->ndim; m++) {
        if (placements[m].kind == WEFT_PARTIAL) {
            *op = placements[m].op;
            index = index * mesh->shape[m] + coordinate[m];
            *parts *= mesh->shape[m];
        }
    }
    return index;
}

dense *given_values(scene *s, weft_dtype dtype, int ndim, const int64_t shape[])
{
    const step *call = s->step;
    dense *x = scene_output(s, 0, dtype, ndim, shape);
    for (int64_t i = 0; i < x->count; i++) {
        x->at[i] = given_value((value_kind)call->wholes[0], call->wholes[1], dtype, call->salt, i);
    }
    x->signed_zeros = true;
    x->unit = dense_unit(x);
    x->mass = dense_mass(x);
    return x;
}
