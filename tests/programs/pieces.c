#include "pieces.h"

#include <string.h>

#include "calls.h"

/* False: a step is not valid. */
static bool follow(partition *plan, const program *p)
{
    evaluation e;
    bool valid = true;
    evaluation_start(&e, p);
    for (int i = 0; i <= p->num_steps; i++) {
        scene now;
        plan->depth[i] = e.depth;
        memcpy(plan->lives[i], e.lives, sizeof(e.lives));
        if (i == p->num_steps || !(valid = evaluate_step(&e, &p->steps[i], &now))) {
            break;
        }
        for (int k = 0; k < p->steps[i].num_outputs; k++) {
            int value = p->steps[i].outputs[k];
            bool new = e.lives[value].owner < 0 && e.lives[value].retained == 0;
            plan->maker[value] = new ? i : plan->maker[value];
        }
        evaluation_commit(&e, &now);
    }
    memcpy(plan->requires_grad, e.requires_grad, sizeof(e.requires_grad));
    evaluation_end(&e);
    return valid;
}

/* Whether a step may be inside a function that begins with step `first`: it does not concern the scope around that. */
static bool may_be_inside(const partition *plan, const program *p, int first, int i)
{
    const step *s = &p->steps[i];
    int flags = s->operation->flags;
    const life *l = s->num_inputs > 0 && s->inputs[0] >= 0 ? &plan->lives[i][s->inputs[0]] : NULL;
    bool closes = flags & CLOSES && plan->depth[i] == plan->depth[first];
    bool keeps = flags & KEEPS && l->owner == plan->depth[first];
    bool releases = flags & RELEASES && l->retained == 0 && plan->maker[s->inputs[0]] >= first;
    /* A capture waits for the other processes, which is refused while shards are held. */
    bool holds = flags & HOLDS && p->processes > 1;
    return !closes && !keeps && !releases && !holds;
}

/* A frozen graph repeats calls, and nothing else: neither states nor regions nor what the program does itself. */
static bool may_be_frozen(const step *s)
{
    const int others = CHECKS | WRITES | GIVES | KEEPS | RETAINS | RELEASES | ANSWERS | COUNTS | PUSHES | POPS | HOLDS | LEAVES |
                       NO_GRAD_BEGINS | NO_GRAD_ENDS;
    return s->num_outputs > 0 && !(s->operation->flags & others);
}

/* The end of a piece of about so many steps; scopes that it opens, it closes. */
static int end_of_piece(const partition *plan, const program *p, int first, int length, bool frozen)
{
    int end = first;
    for (int i = first; i < p->num_steps && (i < first + length || plan->depth[i] > plan->depth[first]); i++) {
        if (!may_be_inside(plan, p, first, i) || (frozen && !may_be_frozen(&p->steps[i]))) {
            break;
        }
        end = plan->depth[i + 1] == plan->depth[first] ? i + 1 : end;
    }
    return end;
}

static void find_new(const partition *plan, const program *p, piece *one)
{
    for (int v = 0; v < p->num_values; v++) {
        const life *l = &plan->lives[one->end][v];
        if (l->owner == plan->depth[one->first] && plan->maker[v] >= one->first && plan->maker[v] < one->end) {
            one->fresh[one->num_new++] = v;
        }
    }
    int wanted = (int)(hash3(p->seed, (uint64_t)one->number, 901) % (MAX_GRAPH_OUTPUTS + 1));
    one->num_outputs = wanted < one->num_new ? wanted : one->num_new;
}

/* ---- inputs ---------------------------------------------------------------------------------------------- */

/* A step after the piece needs it, or it may be the same tensor as another value: one that may be returned as it is. */
static bool is_shared_or_needed(const program *p, const piece *one, int value)
{
    bool found = false;
    for (int i = 0; i < p->num_steps; i++) {
        const step *s = &p->steps[i];
        bool may_be_same = s->operation->flags & (MAY_BE_SAME | LENDS | HOLDS | LEAVES);
        for (int k = 0; k < s->num_inputs; k++) {
            found |= s->inputs[k] == value && (may_be_same || i >= one->end);
        }
        for (int k = 0; k < s->num_outputs; k++) {
            found |= s->outputs[k] == value && may_be_same;
        }
    }
    return found;
}

static bool is_input(const piece *one, int value)
{
    bool found = false;
    for (int i = 0; i < one->num_inputs; i++) {
        found |= one->inputs[i] == value;
    }
    return found;
}

static void find_inputs(const partition *plan, const program *p, piece *one)
{
    for (int i = one->first; i < one->end; i++) {
        const step *s = &p->steps[i];
        for (int k = 0; k < s->num_inputs; k++) {
            int v = s->inputs[k];
            if (v != NO_VALUE && plan->maker[v] < one->first && !is_input(one, v)) {
                one->inputs[one->num_inputs++] = v;
            }
        }
    }
    for (int i = 0; i < one->num_inputs; i++) {
        int v = one->inputs[i];
        one->given_up[i] = plan->lives[one->first][v].owner >= 0 && !plan->requires_grad[v] &&
                           !is_shared_or_needed(p, one, v) && hash3(p->seed, (uint64_t)v, 907) % 4 != 0;
    }
}

bool choose_pieces(partition *plan, const program *p, bool frozen)
{
    memset(plan, 0, sizeof(*plan));
    if (!follow(plan, p)) {
        return false;
    }
    for (int i = 0; i < p->num_steps;) {
        piece *one = &plan->pieces[plan->num_pieces];
        uint64_t random = hash3(p->seed, (uint64_t)plan->num_pieces, 900);
        *one = (piece){ .number = plan->num_pieces++, .first = i };
        one->end = random % 8 == 0 ? i : end_of_piece(plan, p, i, 1 + (int)(random / 8 % MAX_PIECE), frozen);
        one->in_graph = one->end > i;
        one->end = one->in_graph ? one->end : i + 1;
        if (one->in_graph) {
            find_new(plan, p, one);
        }
        if (one->in_graph && frozen) {
            one->num_outputs = one->num_new;
            find_inputs(plan, p, one);
        }
        i = one->end;
    }
    return true;
}
