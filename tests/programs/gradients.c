#include "gradients.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

/* A gradient: of which loss, by which leaf. */
typedef struct observed {
    int leaf, order; /* order 2: of the loss that is made of gradients */
    double factor;   /* how often it was added */
    const dense *of; /* the leaf's value */
    double *own, *whole; /* of the program's layouts, and of all on one rank; NULL: refused */
} observed;

enum { MAX_OBSERVED = 60 };

typedef struct checker {
    const program *program;
    tally *tally;
    evaluation base; /* without differences */
    /* The outputs of each step, and the values that were changed. */
    dense *after[MAX_STEPS][MAX_OUTPUTS];
    const dense *before[MAX_STEPS][MAX_OUTPUTS];
    int first_pass, loss;          /* the step, and its loss */
    double *direction[MAX_VALUES]; /* of the second order's loss: weights of the leaves' gradients; or NULL */
    double mass;                   /* of all values */
    int num_observed;
    observed observed[MAX_OBSERVED];
    char refusals[2][1000];
} checker;

static _Noreturn void fail(const checker *c, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "FAILED seed %llu, process %d, gradients: %s\n", (unsigned long long)c->program->seed,
            weft_process_index(), text);
    fflush(NULL);
    _exit(RUN_FAILED);
}

/* ---- the loss, with other values of leaves --------------------------------------------------------------- */

static int input_that_is(const step *s, int value)
{
    for (int i = 0; i < s->num_inputs; i++) {
        if (s->inputs[i] == value) {
            return i;
        }
    }
    return -1;
}

/* A result that is not recorded is what it was; a value that was changed without recording has changed as before. */
static void keep_constants(const checker *c, int number, scene *now)
{
    const step *s = &c->program->steps[number];
    for (int k = 0; k < s->num_outputs; k++) {
        int input = input_that_is(s, s->outputs[k]);
        const dense *after = c->after[number][k], *before = c->before[number][k];
        for (int64_t i = 0; i < now->out[k]->count; i++) {
            double moved = input < 0 || !is_floating(after->dtype) ? 0 : now->in[input]->at[i].real - before->at[i].real;
            now->out[k]->at[i] = after->at[i];
            if (moved != 0) {
                now->out[k]->at[i].real += moved;
            }
        }
    }
}

static void move_leaf(const step *s, double *const by[], scene *now)
{
    const double *offsets = s->operation->flags & GIVES ? by[s->outputs[0]] : NULL;
    for (int64_t i = 0; offsets != NULL && i < now->out[0]->count; i++) {
        now->out[0]->at[i].real += offsets[i];
    }
}

/* by[value]: what is added to that value, or NULL. False: the program is not valid with these. */
static bool loss_at(const checker *c, double *const by[], double *loss)
{
    evaluation e;
    bool valid = true;
    evaluation_start(&e, c->program);
    for (int i = 0; i < c->first_pass && valid; i++) {
        const step *s = &c->program->steps[i];
        scene now;
        valid = evaluate_step(&e, s, &now);
        if (valid) {
            if (is_unrecorded(&e, s)) {
                keep_constants(c, i, &now);
            }
            move_leaf(s, by, &now);
            evaluation_commit(&e, &now);
        }
    }
    *loss = valid ? e.values[c->loss]->at[0].real : (double)NAN;
    evaluation_end(&e);
    return valid;
}

/* At one element's distance `by` from the point, and `along` times the direction of the second order's loss. */
static double loss_near(const checker *c, int leaf, int64_t which, double by, double along)
{
    double *offsets[MAX_VALUES] = { NULL }, loss;
    for (int v = 0; v < c->program->num_values; v++) {
        const dense *x = v == leaf || c->direction[v] != NULL ? c->base.values[v] : NULL;
        if (x == NULL) {
            continue;
        }
        offsets[v] = calloc((size_t)x->count + 1, sizeof(double));
        for (int64_t i = 0; i < x->count; i++) {
            offsets[v][i] = (c->direction[v] == NULL ? 0 : along * c->direction[v][i]) +
                            (v == leaf && i == which ? by : 0);
        }
    }
    bool valid = loss_at(c, offsets, &loss);
    for (int v = 0; v < c->program->num_values; v++) {
        free(offsets[v]);
    }
    return valid ? loss : (double)NAN;
}

/* ---- differences ------------------------------------------------------------------------------------------ */

typedef struct quotient {
    double value;
    double slack; /* NAN or large: the loss is not smooth here */
} quotient;

static quotient first_quotient(const checker *c, int leaf, int64_t which)
{
    const double h = 0x1p-14;
    double at[5]; /* at distances -h, -h/2, 0, h/2, h */
    for (int i = 0; i < 5; i++) {
        at[i] = loss_near(c, leaf, which, (i - 2) * h / 2, 0);
    }
    double value = (at[4] - at[0]) / (2 * h), half = (at[3] - at[1]) / h;
    double noise = 1e-6 * (1 + fabs(half)) + 1e-15 * c->mass / h;
    /* Of the slopes on both sides: half as much at half the distance, but at a kink, of equal values in a sort. */
    double bend = fabs(at[4] - 2 * at[2] + at[0]) / h, half_bend = fabs(at[3] - 2 * at[2] + at[1]) / (h / 2);
    /* Where the loss jumps at short distances (remainders), quotients of long steps agree with each other alone. */
    const double small = 0x1p-21;
    double near = (loss_near(c, leaf, which, small, 0) - loss_near(c, leaf, which, -small, 0)) / (2 * small);
    bool kink = half_bend > 0.75 * bend && bend > noise;
    return (quotient){ half, kink ? (double)INFINITY : 4 * (fabs(value - half) + fabs(near - half)) + bend + noise };
}

/* The quotients by the steps +-h from the point: mixed differences in each of the four quadrants. Their mean is the central
 * quotient. */
static void quadrants(const checker *c, int leaf, int64_t which, double h, double of[4])
{
    double at[3][3];
    for (int i = 0; i < 9; i++) {
        at[i / 3][i % 3] = loss_near(c, leaf, which, (i / 3 - 1) * h, (i % 3 - 1) * h);
    }
    for (int i = 0; i < 4; i++) {
        int a = i / 2 * 2, b = i % 2 * 2;
        of[i] = (a - 1) * (b - 1) * (at[a][b] - at[a][1] - at[1][b] + at[1][1]) / (h * h);
    }
}

static double mean(const double of[4])
{
    return (of[0] + of[1] + of[2] + of[3]) / 4;
}

/* How far the limits of the quadrants' quotients are apart: 0, but where the loss or its gradient has a kink. Then the
 * central quotients may agree with each other, with the mean of the sides. */
static double kink(const double whole[4], const double half[4])
{
    double least = (double)INFINITY, most = -(double)INFINITY;
    for (int i = 0; i < 4; i++) {
        double limit = 2 * half[i] - whole[i];
        least = fmin(least, limit);
        most = fmax(most, limit);
    }
    return most - least;
}

static quotient second_quotient(const checker *c, int leaf, int64_t which)
{
    const double h = 0x1p-9;
    double whole[4], half[4], quarter[4];
    quadrants(c, leaf, which, h, whole);
    quadrants(c, leaf, which, h / 2, half);
    quadrants(c, leaf, which, h / 4, quarter);
    double value = mean(half), bend = fmax(kink(whole, half), kink(half, quarter));
    return (quotient){ value, 4 * (fabs(mean(whole) - value) + fabs(value - mean(quarter))) + bend +
                                  1e-3 * (1 + fabs(value)) + 1e-14 * c->mass / (h * h) };
}

/* What the element should be. */
static quotient expected(const checker *c, const observed *o, int64_t which)
{
    quotient q = o->order == 1 ? first_quotient(c, o->leaf, which) : second_quotient(c, o->leaf, which);
    return (quotient){ o->factor * q.value, o->factor * q.slack };
}

static bool is_clear(const quotient *q)
{
    return q->slack <= 0.03 * (1 + fabs(q->value));
}

/* ---- comparing -------------------------------------------------------------------------------------------- */

static void compare_with_differences(const checker *c, const observed *o, int64_t which, double got, const char *where)
{
    quotient q = expected(c, o, which);
    /* A gradient of 0 / 0 is NaN also where the loss is constant: as PyTorch's of hypot(0, 0). */
    if (!is_clear(&q) || got != got) {
        c->tally->unknown++;
        return;
    }
    c->tally->differences++;
    if (!(fabs(got - q.value) <= q.slack)) {
        fail(c, "order %d, by value %d, element %lld, %s: %.17g, expected %.9g (allowed %.3g); in layouts %.17g, "
                "on one rank %.17g",
             o->order, o->leaf, (long long)which, where, got, q.value, q.slack, o->own[which], o->whole[which]);
    }
}

static void compare_observed(const checker *c, const observed *o)
{
    double scale = 1;
    for (int64_t i = 0; i < o->of->count; i++) {
        scale = isfinite(o->whole[i]) && fabs(o->whole[i]) > scale ? fabs(o->whole[i]) : scale;
    }
    for (int64_t i = 0; i < o->of->count; i++) {
        bool same = fabs(o->own[i] - o->whole[i]) <= 1e-9 * scale || (o->own[i] != o->own[i] && o->whole[i] != o->whole[i]);
        c->tally->elements++;
        if (!same && o->own[i] != o->whole[i]) {
            compare_with_differences(c, o, i, o->own[i], "in layouts");
            compare_with_differences(c, o, i, o->whole[i], "on one rank");
        }
    }
    for (int k = 0; k < 3 && o->of->count > 0; k++) {
        int64_t i = (int64_t)(hash3(c->program->seed, (uint64_t)o->leaf, (uint64_t)k) % (uint64_t)o->of->count);
        compare_with_differences(c, o, i, o->whole[i], "on one rank");
    }
    c->tally->tensors++;
}

/* ---- what is observed ------------------------------------------------------------------------------------ */

/* Evaluates the program, and finds its passes. */
static void prepare(checker *c)
{
    const program *p = c->program;
    evaluation_start(&c->base, p);
    c->first_pass = -1;
    for (int i = 0; i < p->num_steps; i++) {
        const step *s = &p->steps[i];
        scene now;
        if (!evaluate_step(&c->base, s, &now)) {
            fail(c, "step %d is not valid", i);
        }
        for (int k = 0; k < s->num_outputs; k++) {
            int input = input_that_is(s, s->outputs[k]);
            c->after[i][k] = now.out[k];
            c->before[i][k] = input < 0 ? NULL : now.in[input];
            double mass = dense_mass(now.out[k]);
            c->mass = mass > c->mass ? mass : c->mass;
        }
        if (s->operation->flags & DIFFERENTIATES && c->first_pass < 0) {
            c->first_pass = i;
            c->loss = s->inputs[0];
        }
        evaluation_commit(&c->base, &now);
    }
}

static bool is_second(const program *p, const step *s)
{
    for (int i = 0; i < p->num_steps; i++) {
        if (p->steps[i].operation->flags & DIFFERENTIATES) {
            return &p->steps[i] != s;
        }
    }
    return false;
}

/* The step that has computed a value; NULL: none. */
static const step *source_of(const program *p, int value)
{
    for (int i = 0; i < p->num_steps; i++) {
        for (int k = 0; k < p->steps[i].num_outputs; k++) {
            if (p->steps[i].outputs[k] == value) {
                return &p->steps[i];
            }
        }
    }
    return NULL;
}

/* A term of the second pass's loss: a gradient with weights. */
static void add_direction(checker *c, const step *weigh)
{
    const step *pass = &c->program->steps[c->first_pass];
    for (int k = 0; k < pass->num_outputs; k++) {
        if (weigh->inputs[0] != pass->outputs[k]) {
            continue;
        }
        const dense *weights = c->base.values[weigh->inputs[1]];
        double **direction = &c->direction[pass->inputs[1 + k]];
        if (*direction == NULL) {
            *direction = calloc((size_t)weights->count + 1, sizeof(double));
        }
        for (int64_t n = 0; n < weights->count; n++) {
            (*direction)[n] += weights->at[n].real;
        }
    }
}

/* The weights of gradients in the loss of a second pass, as far as it is a sum of them: a program that is made smaller
 * may lose terms. */
static void find_direction(checker *c, int loss)
{
    const step *s = source_of(c->program, loss);
    if (s == NULL) {
        return;
    }
    if (strcmp(s->operation->name, "loss_weigh") == 0) {
        add_direction(c, s);
    }
    bool sums = strcmp(s->operation->name, "loss_add") == 0 || strcmp(s->operation->name, "loss_sum") == 0;
    for (int i = 0; i < s->num_inputs && sums; i++) {
        find_direction(c, s->inputs[i]);
    }
}

static void find_directions(checker *c)
{
    for (int i = c->first_pass + 1; c->first_pass >= 0 && i < c->program->num_steps; i++) {
        const step *s = &c->program->steps[i];
        if (s->operation->flags & DIFFERENTIATES) {
            find_direction(c, s->inputs[0]);
        }
    }
}

static observed *observe(checker *c, int leaf, int order, double factor)
{
    observed *o = &c->observed[c->num_observed++];
    *o = (observed){ .leaf = leaf, .order = order, .factor = factor, .of = c->base.values[leaf] };
    if (c->num_observed == MAX_OBSERVED) {
        fail(c, "too many gradients");
    }
    o->own = calloc((size_t)o->of->count + 1, sizeof(double));
    o->whole = calloc((size_t)o->of->count + 1, sizeof(double));
    return o;
}

static void observe_pass(checker *c, const step *s)
{
    const program *p = c->program;
    int order = is_second(p, s) ? 2 : 1;
    double factor = strcmp(s->operation->name, "backward_twice") == 0 ? 2 : 1;
    for (int k = 0; k < s->num_outputs; k++) {
        observe(c, s->inputs[1 + k], order, 1);
    }
    for (int i = 0; i < p->num_steps && s->num_outputs == 0; i++) {
        const step *leaf = &p->steps[i];
        if (leaf->operation->flags & LEAVES && is_alive(&c->base, leaf->inputs[0])) {
            observe(c, leaf->inputs[0], order, factor);
        }
    }
}

static void observe_all(checker *c)
{
    for (int i = 0; i < c->program->num_steps; i++) {
        if (c->program->steps[i].operation->flags & DIFFERENTIATES) {
            observe_pass(c, &c->program->steps[i]);
        }
    }
}

/* ---- running ---------------------------------------------------------------------------------------------- */

static weft_status count_hook(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    ++*(int *)context;
    return weft_tensor_ndim(leaf) == weft_tensor_ndim(gradient) ? WEFT_OK : WEFT_ERR_INVALID;
}

static void fetch(const running *r, weft_tensor *gradient, const observed *o, double *to)
{
    if (gradient != NULL && weft_to_host(gradient, to, (size_t)o->of->count * sizeof(double)) != WEFT_OK) {
        run_fail(r, "the gradient by value %d: %s", o->leaf, weft_last_error());
    }
}

/* Gradients of `gradients` are values; others are those of the leaves. */
static void fetch_all(const checker *c, running *r, bool whole, const int hooks[])
{
    int n = 0;
    for (int i = 0; i < r->program->num_steps; i++) {
        const step *s = &r->program->steps[i];
        if (!(s->operation->flags & DIFFERENTIATES)) {
            continue;
        }
        for (int k = 0; k < s->num_outputs; k++, n++) {
            const observed *o = &c->observed[n];
            fetch(r, r->tensors[s->outputs[k]], o, whole ? o->whole : o->own);
        }
        for (; s->num_outputs == 0 && n < c->num_observed; n++) {
            const observed *o = &c->observed[n];
            weft_tensor *gradient = weft_grad(r->tensors[o->leaf]);
            fetch(r, gradient, o, whole ? o->whole : o->own);
            if (gradient != NULL && hooks[o->leaf] > 0 && hooks[o->leaf] != 1 + (int)o->factor) {
                run_fail(r, "the hook of value %d was called %d times", o->leaf, hooks[o->leaf] - 1);
            }
        }
    }
}

static void run_once(checker *c, const program *p, bool whole)
{
    running *r = run_begin(p, c->tally);
    int hooks[MAX_VALUES] = { 0 }; /* 1 + calls; 0: none is set */
    r->plain = true;
    for (; r->step < p->num_steps && !r->refused; r->step++) {
        const step *s = &p->steps[r->step];
        run_step(r, s);
        if (s->operation->flags & LEAVES && p->seed % 2 == 0) {
            hooks[s->inputs[0]] = 1;
            weft_set_grad_hook(r->tensors[s->inputs[0]], count_hook, &hooks[s->inputs[0]]);
        }
    }
    if (r->refused) {
        memcpy(c->refusals[whole], r->refusal, sizeof(r->refusal));
        for (int i = 0; i < p->num_steps; i++) { /* values that have not come to be */
            for (int k = 0; k < p->steps[i].num_outputs && i + 1 >= r->step; k++) {
                r->evaluation.lives[p->steps[i].outputs[k]] = (life){ -1, 0 };
            }
        }
    } else {
        fetch_all(c, r, whole, hooks);
    }
    run_end(r);
}

/* A shard of each rank's shape as the tensor that they make up. */
static void make_whole(const program *p, step *s)
{
    if (strcmp(s->operation->name, "from_local_even") != 0) {
        return;
    }
    for (int d = 0; d < p->meshes[s->mesh].ndim; d++) {
        if (s->placements[d].kind == WEFT_SHARD) {
            s->shape[s->placements[d].dim] *= p->meshes[s->mesh].shape[d];
        }
    }
    s->operation = operation_find("from_local");
}

/* The same program on one rank. */
static program *on_one_rank(const program *p)
{
    program *one = malloc(sizeof(*one));
    *one = *p;
    for (int m = 0; m < one->num_meshes; m++) {
        mesh_plan *mesh = &one->meshes[m];
        mesh->kind = MESH_OF_RANKS;
        mesh->ranks[0] = 0;
        for (int d = 0; d < mesh->ndim; d++) {
            mesh->shape[d] = 1;
        }
    }
    for (int i = 0; i < one->num_steps; i++) {
        make_whole(p, &one->steps[i]);
        for (int d = 0; d < MAX_MESH_DIMS; d++) {
            one->steps[i].placements[d] = weft_replicate();
        }
    }
    return one;
}

/* A pass may be refused where a gradient is not known, or the program's memory has been written to. */
static bool may_be_refused(const char *refusal)
{
    return refusal[0] == '\0' || strstr(refusal, "is not known") != NULL ||
           strstr(refusal, "the mask has no gradient here") != NULL || strstr(refusal, "has been written to since") != NULL ||
           strstr(refusal, "it was not computed from leaves") != NULL;
}

void run_gradients(const program *p, tally *counts)
{
    checker *c = calloc(1, sizeof(*c));
    c->program = p;
    c->tally = counts;
    prepare(c);
    find_directions(c);
    observe_all(c);
    run_once(c, p, false);
    program *one = on_one_rank(p);
    run_once(c, one, true);
    for (int i = 0; i < 2; i++) {
        if (!may_be_refused(c->refusals[i])) {
            fail(c, "%s: %s", i == 0 ? "in layouts" : "on one rank", c->refusals[i]);
        }
    }
    bool refused = c->refusals[0][0] != '\0' || c->refusals[1][0] != '\0';
    c->tally->refused += refused;
    for (int i = 0; i < c->num_observed; i++) {
        if (!refused) {
            compare_observed(c, &c->observed[i]);
        }
        free(c->observed[i].own);
        free(c->observed[i].whole);
    }
    for (int v = 0; v < MAX_VALUES; v++) {
        free(c->direction[v]);
    }
    evaluation_end(&c->base);
    free(one);
    free(c);
}
