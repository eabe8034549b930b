/* Factories, redistributions, reads: tensor.h. */
#include <string.h>

#include "movement.h"

/* ---- given values -------------------------------------------------------------------------------------- */

CALLS(from_local, out[0] = weft_from_local(dtype, ndim, shape, locals, mesh, placements, WEFT_COPY))
CALLS(from_local_lent, out[0] = weft_from_local(dtype, ndim, shape, locals, mesh, placements, 0))
CALLS(from_local_checked,
      out[0] = weft_from_local(dtype, ndim, shape, locals, mesh, placements, WEFT_COPY | WEFT_CHECK_RANKS))
CALLS(from_local_even, out[0] = weft_from_local_even(dtype, ndim, shape, locals, mesh, placements, WEFT_COPY))
CALLS(distribute, out[0] = weft_distribute(dtype, ndim, shape, global, mesh, placements))

static bool given(scene *s)
{
    const step *call = s->step;
    given_values(s, call->dtype, call->ndim, call->shape);
    return call->num_wholes >= 2;
}

/* Every rank's shard has the shape of the call. */
static bool make_even(maker *m, step *s)
{
    *s = step_of(s->operation, 0);
    s->mesh = any_mesh(m);
    s->dtype = any_type(m, EVERY_TYPE);
    s->ndim = any_shape(m, 0, 3, s->shape);
    any_placements(m, s->mesh, s->ndim, false, s->placements);
    s->num_wholes = 2;
    s->wholes[0] = VALUES_SMALL;
    s->salt = prng_next(&m->random);
    return true;
}

static bool given_evenly(scene *s)
{
    const step *call = s->step;
    const mesh_plan *mesh = &s->program->meshes[call->mesh];
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < call->ndim; d++) {
        shape[d] = call->shape[d];
    }
    for (int d = 0; d < mesh->ndim; d++) {
        if (call->placements[d].kind == WEFT_SHARD) {
            shape[call->placements[d].dim] *= mesh->shape[d];
        }
    }
    given_values(s, call->dtype, call->ndim, shape);
    return call->num_wholes >= 2;
}

/* No call of weft's: the runner acquires the shards and writes to them. */
CALLS(write, )

static bool make_write(maker *m, step *s)
{
    int target = choose_target(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (target == NO_VALUE) {
        return false;
    }
    *s = (step){ .operation = s->operation, .num_inputs = 1, .inputs = { target }, .num_outputs = 1 };
    s->outputs[0] = target;
    s->mesh = -1;
    s->num_wholes = 2;
    s->wholes[0] = VALUES_SMALL;
    s->salt = prng_next(&m->random);
    return true;
}

static bool written(scene *s)
{
    if (s->in[0] == NULL || s->step->num_wholes < 2) {
        return false;
    }
    given_values(s, s->in[0]->dtype, s->in[0]->ndim, s->in[0]->shape);
    return true;
}

/* ---- factories ----------------------------------------------------------------------------------------- */

CALLS(empty, out[0] = weft_empty(dtype, ndim, shape, mesh, placements))
CALLS(zeros, out[0] = weft_zeros(dtype, ndim, shape, mesh, placements))
CALLS(ones, out[0] = weft_ones(dtype, ndim, shape, mesh, placements))
CALLS(full, out[0] = weft_full(dtype, real[0], ndim, shape, mesh, placements))
CALLS(arange, out[0] = weft_arange(dtype, real[0], real[1], real[2], mesh, placements))
CALLS(linspace, out[0] = weft_linspace(dtype, real[0], real[1], whole[0], mesh, placements))
CALLS(eye, out[0] = weft_eye(dtype, shape[0], shape[1], mesh, placements))
CALLS(empty_like, out[0] = weft_empty_like(in[0]))
CALLS(zeros_like, out[0] = weft_zeros_like(in[0]))
CALLS(ones_like, out[0] = weft_ones_like(in[0]))
CALLS(full_like, out[0] = weft_full_like(in[0], real[0]))

/* details: the value; NULL: the call's number; `undefined`: any value. */
static const double zero = 0, one = 1, undefined = -1;

static bool make_factory(maker *m, step *s)
{
    s->num_outputs = 1;
    s->outputs[0] = NO_VALUE;
    s->mesh = any_mesh(m);
    s->dtype = any_type(m, EVERY_TYPE);
    s->ndim = any_shape(m, 0, MAX_TENSOR_DIMS, s->shape);
    any_placements(m, s->mesh, s->ndim, false, s->placements);
    any_cuts(m, s->mesh, s->ndim, s->shape, s->placements);
    s->num_reals = 1;
    s->reals[0] = s->dtype == WEFT_BOOL ? (double)below(m, 2) : any_number(m, s->dtype);
    return true;
}

static void write_at_once(maker *m, const step *empty)
{
    step s = {
        .operation = operation_find("write"), .num_inputs = 1, .num_outputs = 1, .mesh = -1, .num_wholes = 2
    };
    s.inputs[0] = s.outputs[0] = empty->outputs[0];
    s.wholes[0] = VALUES_SMALL;
    s.salt = prng_next(&m->random);
    add_step(m, &s);
}

static bool make_empty(maker *m, step *s)
{
    bool made = make_factory(m, s) && add_step(m, s);
    if (made) {
        write_at_once(m, s);
    }
    return false; /* it is there already */
}

static bool make_like(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    *s = step_of(s->operation, 1, a);
    s->num_reals = 1;
    weft_dtype dtype = value_of(m, a)->dtype;
    s->reals[0] = dtype == WEFT_BOOL ? (double)below(m, 2) : any_number(m, dtype);
    return true;
}

static bool make_empty_like(maker *m, step *s)
{
    bool made = make_like(m, s) && add_step(m, s);
    if (made) {
        write_at_once(m, s);
    }
    return false;
}

static bool filled(scene *s)
{
    const step *call = s->step;
    const dense *like = call->num_inputs > 0 ? s->in[0] : NULL;
    if ((call->num_inputs > 0 && like == NULL) || (call->operation->details == NULL && call->num_reals < 1)) {
        return false;
    }
    weft_dtype dtype = like != NULL ? like->dtype : call->dtype;
    dense *x = like != NULL ? scene_output(s, 0, dtype, like->ndim, like->shape)
                            : scene_output(s, 0, dtype, call->ndim, call->shape);
    const double *value = call->operation->details == NULL ? &call->reals[0] : call->operation->details;
    if (!is_floating(dtype) &&
        (*value != nearbyint(*value) || (*value < 0 && value != &undefined && lacks_sign(dtype)))) {
        return false;
    }
    x->signed_zeros = value != &undefined;
    x->undefined = value == &undefined;
    for (int64_t i = 0; i < x->count; i++) {
        x->at[i] =
            value == &undefined ? (element){ 0 } : converted(dtype, WEFT_F64, (element){ .real = *value });
        dense_allow(s->arena, x, i, value == &undefined ? (double)INFINITY : 0);
    }
    return true;
}

/* Wholes: how many; reals: start, stop, and step of whole numbers and halves, which all types hold. */
static bool make_range(maker *m, step *s)
{
    bool spaced = s->operation->name[0] == 'l';
    s->num_outputs = 1;
    s->outputs[0] = NO_VALUE;
    s->mesh = any_mesh(m);
    s->dtype = any_type(m, spaced ? FLOATS : NUMBERS);
    any_placements(m, s->mesh, 1, false, s->placements);
    double unit = is_floating(s->dtype) ? 0.5 : 1, sign = lacks_sign(s->dtype) || one_in(m, 2) ? 1 : -1;
    s->num_wholes = 1;
    s->num_reals = 3;
    s->wholes[0] = between(m, 0, 9);
    s->reals[2] = sign * unit * (double)between(m, 1, 3);
    s->reals[0] = unit * (double)between(m, lacks_sign(s->dtype) ? 0 : -5, 5);
    s->reals[1] = s->reals[0] + s->reals[2] * (double)(spaced && s->wholes[0] > 0 ? s->wholes[0] - 1 : s->wholes[0]);
    return true;
}

static bool ranged(scene *s)
{
    const step *call = s->step;
    bool spaced = call->operation->name[0] == 'l';
    if (call->num_reals < 3 || call->reals[2] == 0 || whole_of_call(s, 0) < 0 || (spaced && !is_floating(call->dtype)) ||
        call->dtype == WEFT_BOOL) {
        return false;
    }
    double first = call->reals[0], length = (call->reals[1] - first) / call->reals[2];
    int64_t count = spaced ? whole_of_call(s, 0) : (int64_t)ceil(length);
    double step_size = !spaced ? call->reals[2] : count > 1 ? (call->reals[1] - first) / (double)(count - 1) : 0;
    bool whole = first == nearbyint(first) && call->reals[2] == nearbyint(call->reals[2]);
    if (!(length >= 0 && length < 1000) || 2 * step_size != nearbyint(2 * step_size) || (!is_floating(call->dtype) && !whole) ||
        (lacks_sign(call->dtype) && (first < 0 || call->reals[2] < 0))) {
        return false;
    }
    dense *x = scene_output(s, 0, call->dtype, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        x->at[i] = converted(call->dtype, WEFT_F64, (element){ .real = first + step_size * (double)i });
    }
    return true;
}

static bool make_eye(maker *m, step *s)
{
    if (!make_factory(m, s)) {
        return false;
    }
    s->ndim = 2;
    s->shape[0] = below(m, 6);
    s->shape[1] = below(m, 6);
    any_placements(m, s->mesh, 2, false, s->placements);
    return true;
}

static bool identity(scene *s)
{
    if (s->step->ndim != 2 || s->step->shape[0] < 0 || s->step->shape[1] < 0) {
        return false;
    }
    dense *x = scene_output(s, 0, s->step->dtype, 2, s->step->shape);
    for (int64_t i = 0; i < x->shape[0] && i < x->shape[1]; i++) {
        x->at[i * x->shape[1] + i] = converted(s->step->dtype, WEFT_F64, (element){ .real = 1 });
    }
    return true;
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

CALLS(redistribute, out[0] = weft_redistribute(in[0], mesh, placements))

static bool make_redistribute(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    *s = step_of(s->operation, 1, a);
    const knowledge *k = &m->known[a];
    s->mesh = one_in(m, 3) ? any_mesh(m) : mesh_of(m, a);
    any_placements(m, s->mesh, value_of(m, a)->ndim, false, s->placements);
    any_cuts(m, s->mesh, value_of(m, a)->ndim, value_of(m, a)->shape, s->placements);
    for (int d = 0; d < m->program->meshes[s->mesh].ndim && k->is_partial && s->mesh == mesh_of(m, a); d++) {
        if (k->placements[d].kind == WEFT_PARTIAL && one_in(m, 2)) {
            s->placements[d] = k->placements[d];
        }
    }
    return true;
}

CALLS(redistribute_here, out[0] = weft_redistribute(in[0], NULL, placements))
CALLS(redistribute_whole, out[0] = weft_redistribute(in[0], NULL, NULL))

/* Without a mesh: that of the tensor, whatever is on the stack. */
static bool make_redistribute_here(maker *m, step *s)
{
    if (!make_redistribute(m, s)) {
        return false;
    }
    s->mesh = mesh_of(m, s->inputs[0]);
    any_placements(m, s->mesh, value_of(m, s->inputs[0])->ndim, false, s->placements);
    any_cuts(m, s->mesh, value_of(m, s->inputs[0])->ndim, value_of(m, s->inputs[0])->shape, s->placements);
    for (int d = 0; d < MAX_MESH_DIMS && s->operation->details != NULL; d++) {
        s->placements[d] = weft_replicate();
    }
    return true;
}

static bool moved(scene *s)
{
    if (s->in[0] == NULL) {
        return false;
    }
    s->out[0] = dense_copy(s->arena, s->in[0]);
    return true;
}

/* ---- questions ----------------------------------------------------------------------------------------- */

CALLS(tensor_item, weft_tensor_item(in[0], number))
CALLS(equal, weft_equal(in[0], in[1], truth))
CALLS(allclose, weft_allclose(in[0], in[1], real[0], real[1], whole[0] != 0, truth))
CALLS(check, )
CALLS(wait, weft_wait())
CALLS(tensor_print, weft_tensor_print(in[0], stdout))
CALLS(hold, )
CALLS(tensor_set_name, weft_tensor_set_name(in[0], "named"))

static bool make_question(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    s->num_outputs = 0;
    return a != NO_VALUE;
}

static bool make_item(maker *m, step *s)
{
    const int64_t shape[] = { 1, 1, 1 };
    int a =
        choose_value(m, &(wish){ .types = ALL_TYPES, .mesh = -1, .least = (int)below(m, 3), .shape = shape });
    *s = step_of(s->operation, 1, a);
    s->num_outputs = 0;
    return a != NO_VALUE;
}

static bool item(scene *s)
{
    if (s->in[0] == NULL || s->in[0]->count != 1) {
        return false;
    }
    s->number = number_of(s->in[0]->dtype, s->in[0]->at[0]);
    return true;
}

static bool make_comparison(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    /* The same tensor in another layout. */
    int b;
    if (one_in(m, 2)) {
        step other = step_of(operation_find("redistribute"), 1, a);
        other.mesh = mesh_of(m, a);
        any_placements(m, other.mesh, x->ndim, false, other.placements);
        any_cuts(m, other.mesh, x->ndim, x->shape, other.placements);
        b = add_step(m, &other) ? other.outputs[0] : NO_VALUE;
    } else {
        b = choose_like(m, a, one_in(m, 8) ? ALL_TYPES : BIT(x->dtype), x->ndim, x->shape);
    }
    *s = step_of(s->operation, 2, a, b);
    s->num_outputs = 0;
    s->num_wholes = 1;
    s->wholes[0] = below(m, 2);
    s->num_reals = 2;
    s->reals[0] = (double)below(m, 2) / 4;
    s->reals[1] = (double)below(m, 3);
    return b != NO_VALUE;
}

static bool are_close(const step *call, weft_dtype dtype, element a, element b, bool exactly)
{
    if (!is_floating(dtype)) {
        double difference = fabs((double)a.whole - (double)b.whole);
        return a.whole == b.whole ||
               (!exactly && difference <= call->reals[1] + call->reals[0] * fabs((double)b.whole));
    }
    if (a.real != a.real || b.real != b.real) {
        return !exactly && a.real != a.real && b.real != b.real && call->wholes[0] != 0;
    }
    return a.real == b.real || (!exactly && isfinite(a.real) && isfinite(b.real) &&
                                fabs(a.real - b.real) <= call->reals[1] + fabs(call->reals[0] * b.real));
}

static bool compared(scene *s)
{
    const dense *a = s->in[0], *b = s->in[1];
    if (a == NULL || b == NULL || s->step->num_reals < 2 || s->step->num_wholes < 1) {
        return false;
    }
    bool exactly = strcmp(s->step->operation->name, "equal") == 0;
    s->truth = a->dtype == b->dtype && a->ndim == b->ndim &&
               memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
    for (int64_t i = 0; s->truth && i < a->count; i++) {
        s->truth = are_close(s->step, a->dtype, a->at[i], b->at[i], exactly);
    }
    return true;
}

static bool make_alone(maker *m, step *s)
{
    (void)m;
    s->num_outputs = 0;
    s->mesh = -1;
    return true;
}

CALLS(full_here, out[0] = weft_full(dtype, real[0], ndim, shape, NULL, NULL))
CALLS(mesh_push, weft_mesh_push(mesh))
CALLS(mesh_pop, weft_mesh_pop())

static bool make_push(maker *m, step *s)
{
    *s = step_of(s->operation, 0);
    s->num_outputs = 0;
    s->mesh = any_mesh(m);
    return true;
}

static bool make_here(maker *m, step *s)
{
    const evaluation *e = &m->evaluation;
    if (e->num_stack == 0 || !make_factory(m, s)) {
        return false;
    }
    s->mesh = e->stack[e->num_stack - 1];
    for (int d = 0; d < MAX_MESH_DIMS; d++) {
        s->placements[d] = weft_replicate();
    }
    return true;
}

static bool alive(scene *s)
{
    return s->in[0] != NULL;
}

/* ---- the tables ---------------------------------------------------------------------------------------- */

const operation tensor_calls[] = {
    ROW(from_local, NULL, given, .flags = GIVES | NOT_CHOSEN),
    ROW(from_local_lent, NULL, given, .flags = GIVES | LENDS | NOT_CHOSEN),
    ROW(from_local_checked, NULL, given, .flags = GIVES | BLOCKS | NOT_CHOSEN),
    ROW(from_local_even, make_even, given_evenly, .flags = GIVES),
    ROW(distribute, NULL, given, .flags = GIVES | BLOCKS | NOT_CHOSEN),
    ROW(write, make_write, written, .flags = WRITES | IN_PLACE | BLOCKS, .weight = 30),
    ROW(empty, make_empty, filled, .details = &undefined, .weight = 8),
    ROW(empty_like, make_empty_like, filled, .details = &undefined),
    ROW(zeros, make_factory, filled, .details = &zero),
    ROW(ones, make_factory, filled, .details = &one),
    ROW(full, make_factory, filled, .details = NULL),
    ROW(arange, make_range, ranged, .flags = 0),
    ROW(linspace, make_range, ranged, .flags = 0),
    ROW(eye, make_eye, identity, .flags = 0),
    ROW(zeros_like, make_like, filled, .details = &zero),
    ROW(ones_like, make_like, filled, .details = &one),
    ROW(full_like, make_like, filled, .details = NULL),
    ROW(redistribute, make_redistribute, moved, .flags = MOVES | MAY_BE_SAME, .weight = 200),
    ROW(redistribute_here, make_redistribute_here, moved, .flags = MOVES | MAY_BE_SAME, .weight = 20),
    ROW(redistribute_whole, make_redistribute_here, moved, .flags = MOVES | MAY_BE_SAME, .details = &zero,
        .weight = 20),
    ROW(full_here, make_here, filled, .flags = HERE, .weight = 60),
    ROW(mesh_push, make_push, NULL, .flags = PUSHES, .weight = 20),
    ROW(mesh_pop, make_alone, NULL, .flags = POPS, .weight = 15),
    ROW(tensor_item, make_item, item, .flags = COUNTS | BLOCKS, .weight = 8),
    ROW(equal, make_comparison, compared, .flags = ANSWERS | BLOCKS, .weight = 8),
    ROW(allclose, make_comparison, compared, .flags = ANSWERS | BLOCKS, .weight = 8),
    ROW(check, make_question, alive, .flags = CHECKS | BLOCKS, .weight = 50),
    ROW(wait, make_alone, NULL, .flags = BLOCKS, .weight = 20),
    ROW(tensor_print, make_question, alive, .flags = BLOCKS, .weight = 4),
    ROW(hold, make_question, alive, .flags = HOLDS, .weight = 30),
    ROW(tensor_set_name, make_question, alive, .weight = 4),
    { .name = NULL },
};

/* ---- references ---------------------------------------------------------------------------------------- */

CALLS(scope_open, weft_scope_begin())
CALLS(scope_close, weft_scope_end())
CALLS(scope_keep, weft_scope_keep(in[0]))
CALLS(tensor_retain, weft_tensor_retain(in[0]))
CALLS(tensor_release, weft_tensor_release(in[0]))

static bool make_open(maker *m, step *s)
{
    return m->evaluation.depth < 3 && make_alone(m, s);
}

static bool make_close(maker *m, step *s)
{
    return m->evaluation.depth > m->program->scoped && make_alone(m, s);
}

/* Any that is alive, stale ones too. */
static bool make_held(maker *m, step *s)
{
    int found = NO_VALUE;
    for (int tries = 0; tries < 6 && found == NO_VALUE && m->program->num_values > 0; tries++) {
        int v = (int)below(m, m->program->num_values);
        found = is_alive(&m->evaluation, v) ? v : NO_VALUE;
    }
    *s = step_of(s->operation, 1, found);
    s->num_outputs = 0;
    return found != NO_VALUE;
}

const operation scope_calls[] = {
    ROW(scope_open, make_open, NULL, .flags = OPENS, .weight = 40),
    ROW(scope_close, make_close, NULL, .flags = CLOSES, .weight = 60),
    ROW(scope_keep, make_held, alive, .flags = KEEPS, .weight = 30),
    ROW(tensor_retain, make_held, alive, .flags = RETAINS, .weight = 20),
    ROW(tensor_release, make_held, alive, .flags = RELEASES, .weight = 50),
    { .name = NULL },
};
