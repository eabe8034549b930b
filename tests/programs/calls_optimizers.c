/* Steps of optimisers: optimizers.h. */
#include <string.h>

#include "sums.h"

/* Inputs: n parameters, n gradients, n of each state. Outputs: what of these is changed. */
CALLS(sgd, weft_sgd((int)whole[0], in, in + whole[0],
                    &(weft_sgd_options){ 0, real[0], real[1], real[2], real[3], whole[1] != 0, whole[2] != 0 },
                    real[1] == 0 ? NULL : in + 2 * whole[0]))
CALLS(adam, weft_adam((int)whole[0], in, in + whole[0], in + 2 * whole[0], in + 3 * whole[0], whole[1],
                      &(weft_adam_options){ 0, real[0], real[1], real[2], real[3], real[4] }))
CALLS(adamw, weft_adamw((int)whole[0], in, in + whole[0], in + 2 * whole[0], in + 3 * whole[0], whole[1],
                        &(weft_adam_options){ 0, real[0], real[1], real[2], real[3], real[4] }))
CALLS(clip_grad_norm, weft_clip_grad_norm((int)whole[0], in, real[0], real[1], &out[0]))

enum { MAX_PARAMETERS = 3 };

/* ---- making -------------------------------------------------------------------------------------------- */

/* Zeros that lie as a parameter does, in any floating type. */
static int make_state(maker *m, int parameter)
{
    step zeros = step_of(operation_find("zeros_like"), 1, parameter);
    if (!add_step(m, &zeros)) {
        return NO_VALUE;
    }
    if (one_in(m, 2)) {
        return zeros.outputs[0];
    }
    step other = step_of(operation_find("to_type"), 1, zeros.outputs[0]);
    other.dtype = any_type(m, FLOATS);
    return add_step(m, &other) ? other.outputs[0] : NO_VALUE;
}

/* Whether a value may be one tensor with one that is listed already. */
static bool is_listed(const maker *m, const step *s, int value)
{
    for (int i = 0; i < s->num_inputs; i++) {
        if (m->known[s->inputs[i]].group == m->known[value].group) {
            return true;
        }
    }
    return false;
}

/* Parameters, gradients, and so many states of each. */
static bool make_lists(maker *m, step *s, int states)
{
    int n = (int)between(m, 1, MAX_PARAMETERS), kinds = states + 2;
    int values[4 * MAX_PARAMETERS];
    step listed = step_of(s->operation, 0);
    for (int i = 0; i < n; i++) {
        int parameter = choose_target(m, FLOATS, 0, 4);
        if (parameter == NO_VALUE || is_listed(m, &listed, parameter)) {
            return false;
        }
        listed.inputs[listed.num_inputs++] = parameter;
        const dense *x = value_of(m, parameter);
        int gradient = choose_like(m, parameter, one_in(m, 3) ? FLOATS : BIT(x->dtype), x->ndim, x->shape);
        if (gradient == NO_VALUE || is_listed(m, &listed, gradient)) {
            return false;
        }
        listed.inputs[listed.num_inputs++] = gradient;
        values[i] = parameter;
        values[n + i] = gradient;
        for (int k = 2; k < kinds; k++) {
            int state = make_state(m, parameter);
            if (state == NO_VALUE || is_listed(m, &listed, state)) {
                return false;
            }
            listed.inputs[listed.num_inputs++] = state;
            values[k * n + i] = state;
        }
    }
    *s = step_of(s->operation, 0);
    s->num_inputs = kinds * n;
    memcpy(s->inputs, values, (size_t)s->num_inputs * sizeof(values[0]));
    s->num_outputs = 0;
    for (int k = 0; k < kinds; k++) {
        for (int i = 0; i < n && k != 1; i++) {
            s->outputs[s->num_outputs++] = values[k * n + i];
        }
    }
    s->num_wholes = 3;
    s->wholes[0] = n;
    return true;
}

static bool make_sgd(maker *m, step *s)
{
    bool moves = one_in(m, 2);
    if (!make_lists(m, s, moves)) {
        return false;
    }
    s->wholes[1] = moves && one_in(m, 3);
    s->wholes[2] = one_in(m, 2);
    s->num_reals = 4;
    s->reals[0] = one_in(m, 2) ? 0.5 : 0.1;
    s->reals[1] = moves ? (one_in(m, 2) ? 0.5 : 0.9) : 0;
    s->reals[2] = s->wholes[1] || one_in(m, 2) ? 0 : 0.25;
    s->reals[3] = one_in(m, 2) ? 0 : 0.125;
    return true;
}

static bool make_adam(maker *m, step *s)
{
    if (!make_lists(m, s, 2)) {
        return false;
    }
    s->wholes[1] = between(m, 1, 3);
    s->num_reals = 5;
    s->reals[0] = 0.125;
    s->reals[1] = one_in(m, 2) ? 0.9 : 0.5;
    s->reals[2] = one_in(m, 2) ? 0.999 : 0.75;
    s->reals[3] = 1e-3;
    s->reals[4] = one_in(m, 2) ? 0 : 0.25;
    return true;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

/* The tensors of one parameter: inputs i, n + i, ... */
typedef struct update {
    const dense *parameter, *gradient, *states[2];
    dense *out, *new_states[2];
} update;

/* The type of all together, at least WEFT_F32. */
static weft_dtype largest_type(int count, const dense *const of[])
{
    for (int i = 0; i < count; i++) {
        if (of[i] != NULL && of[i]->dtype == WEFT_F64) {
            return WEFT_F64;
        }
    }
    return WEFT_F32;
}

/* Prepares parameter i of n; false: shapes or types do not fit. */
static bool find_update(scene *s, int states, int n, int i, update *u)
{
    *u = (update){ .parameter = s->in[i], .gradient = s->in[n + i] };
    for (int k = 0; k < states + 2; k++) {
        const dense *x = s->in[k * n + i];
        if (x == NULL || !is_floating(x->dtype) || x->ndim != u->parameter->ndim ||
            memcmp(x->shape, u->parameter->shape, (size_t)x->ndim * sizeof(x->shape[0])) != 0) {
            return false;
        }
    }
    u->out = scene_output(s, i, u->parameter->dtype, u->parameter->ndim, u->parameter->shape);
    for (int k = 0; k < states; k++) {
        u->states[k] = s->in[(k + 2) * n + i];
        u->new_states[k] = scene_output(s, (k + 1) * n + i, u->states[k]->dtype, u->out->ndim, u->out->shape);
    }
    return true;
}

/* A result in another type than it is computed in. */
static double set_updated(scene *s, dense *out, int64_t i, double value, weft_dtype type, double magnitude,
                          double slack)
{
    set_number(s, out, i, value, slack + 8 * epsilon_of(type) * magnitude);
    return out->slack == NULL ? 0 : out->slack[i];
}

static void step_sgd(scene *s, const update *u, bool moves)
{
    const double *real = s->step->reals;
    double rate = real[0], momentum = real[1], dampening = real[2], decay = real[3];
    bool nesterov = s->step->wholes[1] != 0, first = s->step->wholes[2] != 0;
    weft_dtype type = largest_type(3, (const dense *const[]){ u->parameter, u->gradient, u->states[0] });
    for (int64_t i = 0; i < u->out->count; i++) {
        double p = u->parameter->at[i].real, g = u->gradient->at[i].real + (decay == 0 ? 0 : decay * p),
               slack = 0, by = g;
        double size = fabs(u->gradient->at[i].real) + decay * fabs(p);
        if (moves) {
            double m = u->states[0]->at[i].real, next = first ? g : momentum * m + (1 - dampening) * g;
            double scale = (first ? 0 : momentum * fabs(m)) + size;
            slack = set_updated(s, u->new_states[0], i, next, type, scale, 0);
            next = u->new_states[0]->at[i].real;
            by = nesterov ? g + momentum * next : next;
            size += fabs(next) + scale;
        }
        set_updated(s, u->out, i, p - rate * by, type, fabs(p) + rate * size, rate * slack);
    }
}

static bool sgd(scene *s)
{
    bool moves = s->step->num_reals > 3 && s->step->reals[1] != 0;
    int n = (int)whole_of_call(s, 0);
    if (s->step->num_reals < 4 || s->step->num_wholes < 3 || n < 1 ||
        s->step->num_inputs != n * (2 + moves) || s->step->num_outputs != n * (1 + moves)) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        update u;
        if (!find_update(s, moves, n, i, &u)) {
            return false;
        }
        step_sgd(s, &u, moves);
    }
    for (int k = 0; k < s->step->num_outputs; k++) {
        distrust_vague(s, s->out[k]);
    }
    return true;
}

/* From a to b, as weft_lerp() goes: where infinite values meet, that shows. */
static double between_two(double a, double b, double weight)
{
    return fabs(weight) < 0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

static void step_adam(scene *s, const update *u, bool decoupled)
{
    const double *real = s->step->reals;
    double beta1 = real[1], beta2 = real[2], epsilon = real[3], decay = decoupled ? 0 : real[4];
    double rate = real[0] / (1 - pow(beta1, (double)s->step->wholes[1]));
    double correction = 1 / sqrt(1 - pow(beta2, (double)s->step->wholes[1]));
    double factor = decoupled ? 1 - real[0] * real[4] : 1;
    weft_dtype type = largest_type(3, (const dense *const[]){ u->parameter, u->states[0], u->states[1] });
    for (int64_t i = 0; i < u->out->count; i++) {
        double p = u->parameter->at[i].real, g = u->gradient->at[i].real + (decay == 0 ? 0 : decay * p);
        double size = fabs(u->gradient->at[i].real) + decay * fabs(p), m = u->states[0]->at[i].real,
               v = u->states[1]->at[i].real;
        /* Each of the three is computed in the type of its own tensors. */
        double of_m =
            set_updated(s, u->new_states[0], i, between_two(m, g, 1 - beta1), WEFT_F32, fabs(m) + size, 0);
        double of_v = set_updated(s, u->new_states[1], i, beta2 * v + (1 - beta2) * g * g, WEFT_F32,
                                  fabs(v) + size * size, 0);
        m = u->new_states[0]->at[i].real;
        v = u->new_states[1]->at[i].real;
        double below_line = sqrt(v) * correction + epsilon, part = rate * m / below_line;
        double of_root = v > 4 * of_v ? of_v / sqrt(v) : sqrt(of_v + fabs(v));
        double slack = rate * of_m / below_line + fabs(part) * of_root * correction / below_line;
        set_updated(s, u->out, i, p * factor - part, type, fabs(p) + fabs(part), 2 * slack);
    }
}

static bool adam(scene *s)
{
    int n = (int)whole_of_call(s, 0);
    if (s->step->num_reals < 5 || s->step->num_wholes < 3 || n < 1 || s->step->num_inputs != 4 * n ||
        s->step->num_outputs != 3 * n || s->step->wholes[1] < 1) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        update u;
        if (!find_update(s, 2, n, i, &u)) {
            return false;
        }
        step_adam(s, &u, s->step->operation->name[4] == 'w');
    }
    for (int k = 0; k < s->step->num_outputs; k++) {
        distrust_vague(s, s->out[k]);
    }
    return true;
}

/* ---- clipping ------------------------------------------------------------------------------------------ */

static bool make_clip(maker *m, step *s)
{
    static const double powers[] = { 1, 2, 2, 3, (double)INFINITY };
    int n = (int)between(m, 1, MAX_PARAMETERS);
    step listed = step_of(s->operation, 0);
    for (int i = 0; i < n; i++) {
        int gradient = choose_target(m, FLOATS, 0, 4);
        if (gradient == NO_VALUE || is_listed(m, &listed, gradient)) {
            return false;
        }
        listed.inputs[listed.num_inputs++] = gradient;
        listed.outputs[i + 1] = gradient;
    }
    *s = listed;
    s->num_outputs = n + 1;
    s->outputs[0] = NO_VALUE;
    s->num_wholes = 1;
    s->wholes[0] = n;
    s->num_reals = 2;
    s->reals[0] = (double)between(m, 0, 8);
    s->reals[1] = powers[below(m, 5)];
    return true;
}

static bool clip(scene *s)
{
    int n = (int)whole_of_call(s, 0);
    if (n < 1 || n != s->step->num_inputs || n + 1 != s->step->num_outputs || s->step->num_reals < 2) {
        return false;
    }
    double sum = 0, largest = 0, p = s->step->reals[1], addends = 0;
    weft_dtype type = WEFT_F32;
    for (int k = 0; k < n; k++) {
        if (s->in[k] == NULL || !is_floating(s->in[k]->dtype) || !dense_is_finite(s->in[k])) {
            return false;
        }
        type = s->in[k]->dtype == WEFT_F64 ? WEFT_F64 : type;
        addends += (double)s->in[k]->count;
        for (int64_t i = 0; i < s->in[k]->count; i++) {
            sum += isinf(p) ? 0 : pow(fabs(s->in[k]->at[i].real), p);
            largest = fmax(largest, fabs(s->in[k]->at[i].real));
        }
    }
    /* Of the largest value the type is that of all together. */
    weft_dtype common = s->in[0]->dtype;
    for (int k = 1; k < n; k++) {
        weft_dtype own = s->in[k]->dtype;
        common = own == common                           ? common
                 : own < WEFT_BF16 || common < WEFT_BF16 ? (own < common ? own : common)
                                                         : WEFT_F32;
    }
    dense *total = scene_output(s, 0, isinf(p) ? common : type, 0, NULL);
    double norm = isinf(p) ? largest : pow(sum, 1 / p), slack = (addends + 30) * epsilon_of(WEFT_F32) * norm;
    bool wild = sum > 1e30 || (sum < 1e-30 && sum > 0);
    set_number(s, total, 0, norm, isinf(p) ? 0 : wild ? (double)INFINITY : slack);
    double factor = fmin(1, s->step->reals[0] / (norm + 1e-6));
    for (int k = 0; k < n; k++) {
        const dense *x = s->in[k];
        dense *out = scene_output(s, k + 1, x->dtype, x->ndim, x->shape);
        for (int64_t i = 0; i < x->count; i++) {
            double error = (addends + 40) * epsilon_of(WEFT_F32) * (1 + norm / (norm + 1e-6));
            set_number(s, out, i, factor * x->at[i].real,
                       wild ? (double)INFINITY : error * fabs(factor * x->at[i].real));
            out->mass = fmax(out->mass, factor * mass_at(x, i));
        }
        distrust_vague(s, out);
    }
    distrust_vague(s, total);
    return true;
}

const operation optimizer_calls[] = {
    ROW(sgd, make_sgd, sgd, .flags = IN_PLACE | ANY_MESHES, .weight = 8),
    ROW(adam, make_adam, adam, .flags = IN_PLACE | ANY_MESHES, .weight = 6),
    ROW(adamw, make_adam, adam, .flags = IN_PLACE | ANY_MESHES, .weight = 6),
    ROW(clip_grad_norm, make_clip, clip, .flags = IN_PLACE | ANY_MESHES, .weight = 6),
    { .name = NULL },
};
