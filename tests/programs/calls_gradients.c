/* Leaves, values and regions without recording, losses, backward passes: autograd.h. For programs with gradients
 * (gradients.h). */
#include <string.h>

#include "make.h"

CALLS(leaf, weft_set_requires_grad(in[0], true))
/* The generator takes any result of leaves for one that requires a gradient; some operations have none. */
CALLS(set_grad_placements, if (weft_requires_grad(in[0])) { weft_set_grad_placements(in[0], placements); })
CALLS(set_regather, weft_set_regather(in[0], true))
CALLS(detach, out[0] = weft_detach(in[0]))
CALLS(no_grad_begin, weft_no_grad_begin())
CALLS(no_grad_end, weft_no_grad_end())
CALLS(loss_weigh, out[0] = weft_mul(in[0], in[1]))
CALLS(loss_sum, out[0] = weft_sum(in[0], WEFT_ALL_DIMS, false))
CALLS(loss_add, out[0] = weft_add(in[0], in[1]))

/* ---- passes --------------------------------------------------------------------------------------------- */

CALLS(backward, weft_backward(in[0], NULL))
CALLS(backward_twice, weft_backward(in[0], &(weft_backward_options){ .retain = true }); weft_backward(in[0], NULL))
CALLS(backward_recorded, weft_backward(in[0], &(weft_backward_options){ .create_graph = true }))
/* whole: the number of inputs; whether the gradients can be differentiated. */
CALLS(gradients,
      weft_status status = weft_gradients(1, in, NULL, (int)whole[0], in + 1, whole[1] != 0, out);
      for (int i = 0; status == WEFT_OK && i < whole[0]; i++) { if (out[i] == NULL) { out[i] = weft_zeros_like(in[1 + i]); } })

/* ---- making ---------------------------------------------------------------------------------------------- */

static bool make_of_leaf(maker *m, step *s)
{
    int found = NO_VALUE, count = 0;
    for (int i = 0; i < m->program->num_steps; i++) {
        const step *leaf = &m->program->steps[i];
        if (leaf->operation->flags & LEAVES && is_alive(&m->evaluation, leaf->inputs[0])) {
            found = one_in(m, ++count) ? leaf->inputs[0] : found;
        }
    }
    bool of_computed = s->operation->details != NULL && one_in(m, 2);
    for (int v = 0, others = 0; v < m->program->num_values && of_computed; v++) {
        if (is_alive(&m->evaluation, v) && m->evaluation.requires_grad[v] && !m->known[v].stale) {
            found = one_in(m, ++others) ? v : found;
        }
    }
    *s = step_of(s->operation, 1, found);
    s->num_outputs = 0;
    if (found == NO_VALUE) {
        return false;
    }
    if (s->operation->details != NULL) {
        s->mesh = mesh_of(m, found);
        any_placements(m, s->mesh, value_of(m, found)->ndim, false, s->placements);
    }
    return true;
}

static bool make_detach(maker *m, step *s)
{
    int a = choose_any(m, ALL_TYPES, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE;
}

static bool make_region(maker *m, step *s)
{
    bool begins = (s->operation->flags & NO_GRAD_BEGINS) != 0;
    s->num_outputs = 0;
    s->mesh = -1;
    return begins ? m->evaluation.no_grad < 2 : m->evaluation.no_grad > 0;
}

/* ---- references ------------------------------------------------------------------------------------------ */

static bool alive(scene *s)
{
    return s->in[0] != NULL;
}

static bool copied(scene *s)
{
    if (s->in[0] == NULL) {
        return false;
    }
    s->out[0] = dense_copy(s->arena, s->in[0]);
    return true;
}

static bool same_shape(const dense *a, const dense *b)
{
    return a != NULL && b != NULL && a->ndim == b->ndim && a->dtype == WEFT_F64 && b->dtype == WEFT_F64 &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
}

static bool combined(scene *s)
{
    const dense *a = s->in[0], *b = s->in[1];
    if (!same_shape(a, b)) {
        return false;
    }
    dense *x = scene_output(s, 0, WEFT_F64, a->ndim, a->shape);
    for (int64_t i = 0; i < x->count; i++) {
        x->at[i].real = s->step->operation->details != NULL ? a->at[i].real * b->at[i].real
                                                            : a->at[i].real + b->at[i].real;
        dense_allow(s->arena, x, i, (double)INFINITY);
    }
    return true;
}

static bool summed(scene *s)
{
    if (s->in[0] == NULL || s->in[0]->dtype != WEFT_F64) {
        return false;
    }
    dense *x = scene_output(s, 0, WEFT_F64, 0, NULL);
    for (int64_t i = 0; i < s->in[0]->count; i++) {
        x->at[0].real += s->in[0]->at[i].real;
    }
    dense_allow(s->arena, x, 0, (double)INFINITY);
    return true;
}

/* A loss, which has one element. */
static bool differentiable(scene *s)
{
    return s->in[0] != NULL && s->in[0]->dtype == WEFT_F64 && s->in[0]->count == 1;
}

/* The values of gradients are not known here: gradients.c has them. */
static bool differentiated(scene *s)
{
    const step *call = s->step;
    if (!differentiable(s) || call->num_wholes < 2 || call->wholes[0] != call->num_inputs - 1 ||
        call->num_outputs != call->num_inputs - 1) {
        return false;
    }
    for (int i = 0; i < call->num_outputs; i++) {
        if (s->in[1 + i] == NULL || s->in[1 + i]->dtype != WEFT_F64) {
            return false;
        }
        dense *x = scene_output(s, i, WEFT_F64, s->in[1 + i]->ndim, s->in[1 + i]->shape);
        for (int64_t k = 0; k < x->count; k++) {
            dense_allow(s->arena, x, k, (double)INFINITY);
        }
    }
    return true;
}

/* Details of rows. on_its_mesh: weft_set_grad_placements() takes computed tensors as well as leaves. */
static const int on_its_mesh = 1, product = 1;

const operation gradient_calls[] = {
    ROW(leaf, NULL, alive, .flags = OF_GRADIENTS | LEAVES | NOT_CHOSEN),
    ROW(set_grad_placements, make_of_leaf, alive, .flags = OF_GRADIENTS | OF_LEAVES, .details = &on_its_mesh, .weight = 30),
    ROW(set_regather, make_of_leaf, alive, .flags = OF_GRADIENTS | OF_LEAVES, .weight = 20),
    ROW(detach, make_detach, copied, .flags = OF_GRADIENTS | CUTS | MAY_BE_SAME | MOVES, .weight = 20),
    ROW(no_grad_begin, make_region, NULL, .flags = OF_GRADIENTS | NO_GRAD_BEGINS, .weight = 15),
    ROW(no_grad_end, make_region, NULL, .flags = OF_GRADIENTS | NO_GRAD_ENDS, .weight = 100),
    ROW(loss_weigh, NULL, combined, .flags = OF_GRADIENTS | NOT_CHOSEN, .details = &product),
    ROW(loss_sum, NULL, summed, .flags = OF_GRADIENTS | NOT_CHOSEN),
    ROW(loss_add, NULL, combined, .flags = OF_GRADIENTS | NOT_CHOSEN | FETCHES_SCALARS),
    ROW(backward, NULL, differentiable, .flags = OF_GRADIENTS | NOT_CHOSEN | DIFFERENTIATES),
    ROW(backward_twice, NULL, differentiable, .flags = OF_GRADIENTS | NOT_CHOSEN | DIFFERENTIATES),
    ROW(backward_recorded, NULL, differentiable, .flags = OF_GRADIENTS | NOT_CHOSEN | DIFFERENTIATES),
    ROW(gradients, NULL, differentiated, .flags = OF_GRADIENTS | NOT_CHOSEN | DIFFERENTIATES),
    { .name = NULL },
};

/* ---- the end of a program -------------------------------------------------------------------------------- */

static int added(maker *m, step s)
{
    return add_step(m, &s) ? s.outputs[0] : NO_VALUE;
}

/* The sum of a value's elements, each with a weight. */
static int weighted_sum(maker *m, int value)
{
    const dense *x = value_of(m, value);
    step weights = step_of(operation_find("from_local"), 0);
    weights.mesh = mesh_of(m, value);
    weights.dtype = WEFT_F64;
    weights.ndim = x->ndim;
    memcpy(weights.shape, x->shape, sizeof(weights.shape));
    any_placements(m, weights.mesh, x->ndim, false, weights.placements);
    weights.num_wholes = 2;
    weights.wholes[0] = VALUES_EIGHTHS;
    weights.salt = prng_next(&m->random);
    int given = added(m, weights);
    int product_ = given == NO_VALUE ? NO_VALUE : added(m, step_of(operation_find("loss_weigh"), 2, value, given));
    return product_ == NO_VALUE ? NO_VALUE : added(m, step_of(operation_find("loss_sum"), 1, product_));
}

static int plus(maker *m, int sum, int term)
{
    return term == NO_VALUE  ? sum
           : sum == NO_VALUE ? term
                             : added(m, step_of(operation_find("loss_add"), 2, sum, term));
}

/* Whether the reference knows the value. */
static bool is_known(const dense *x)
{
    for (int64_t i = 0; x->slack != NULL && i < x->count; i++) {
        if (x->slack[i] == (double)INFINITY) {
            return false;
        }
    }
    return true;
}

static bool is_wanted(const maker *m, int value)
{
    const evaluation *e = &m->evaluation;
    return is_alive(e, value) && is_known(e->values[value]) && e->requires_grad[value] && !e->is_leaf[value] && !m->known[value].stale &&
           e->values[value]->dtype == WEFT_F64 && e->values[value]->count > 0;
}

/* Of some values that depend on leaves, the newest more likely. */
static int add_loss(maker *m)
{
    int sum = NO_VALUE, terms = 0, most = (int)between(m, 1, 4);
    for (int v = m->program->num_values - 1; v >= 0 && terms < most; v--) {
        if (is_wanted(m, v) && !one_in(m, 3)) {
            sum = plus(m, sum, weighted_sum(m, v));
            terms++;
        }
    }
    return sum;
}

/* The gradients' step; its inputs are some leaves. */
static bool add_gradients(maker *m, int loss, bool recorded, step *s)
{
    *s = step_of(operation_find("gradients"), 1, loss);
    for (int i = 0; i < m->program->num_steps && s->num_inputs < 6; i++) {
        const step *leaf = &m->program->steps[i];
        bool taken = leaf->operation->flags & LEAVES && is_alive(&m->evaluation, leaf->inputs[0]) &&
                     !m->known[leaf->inputs[0]].stale;
        if (taken && !one_in(m, 5)) {
            s->inputs[s->num_inputs++] = leaf->inputs[0];
        }
    }
    s->num_outputs = s->num_inputs - 1;
    s->num_wholes = 2;
    s->wholes[0] = s->num_outputs;
    s->wholes[1] = recorded;
    for (int i = 0; i < s->num_outputs; i++) {
        s->outputs[i] = NO_VALUE;
    }
    return s->num_outputs > 0 && add_step(m, s);
}

/* A loss of gradients, and its gradients. */
static bool add_second_pass(maker *m, const step *first)
{
    int sum = NO_VALUE;
    for (int i = 0; i < first->num_outputs; i++) {
        sum = plus(m, sum, weighted_sum(m, first->outputs[i]));
    }
    step s = step_of(operation_find("backward"), 1, sum);
    s.num_outputs = 0;
    return sum != NO_VALUE && add_step(m, &s);
}

bool end_with_loss(maker *m)
{
    while (m->evaluation.no_grad > 0) {
        step end = step_of(operation_find("no_grad_end"), 0);
        end.num_outputs = 0;
        if (!add_step(m, &end)) {
            return false;
        }
    }
    int loss = add_loss(m);
    if (loss == NO_VALUE) {
        return false;
    }
    static const char *const passes[] = { "backward", "backward", "backward_twice", "backward_recorded" };
    int64_t way = below(m, 8);
    step s;
    if (way >= 6) {
        return add_gradients(m, loss, true, &s) && add_second_pass(m, &s);
    }
    if (way >= 4) {
        return add_gradients(m, loss, way == 4, &s);
    }
    s = step_of(operation_find(passes[way]), 1, loss);
    s.num_outputs = 0;
    return add_step(m, &s);
}
