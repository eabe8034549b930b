/* Programs from seeds. */
#include <string.h>

#include "make.h"

/* ---- the world ----------------------------------------------------------------------------------------- */

void choose_world(program *p, uint64_t seed, int processes)
{
    memset(p, 0, sizeof(*p));
    p->seed = seed;
    p->processes = processes;
    prng random = { seed / PROGRAMS_PER_WORLD * 2 + 1 };
    static const int heights[] = { 0, 0, 1, 2, 3 };
    p->ranks = processes + (int)prng_below(&random, MAX_RANKS - processes + 1);
    p->panel_rows = heights[prng_below(&random, 5)];
    p->plan = prng_below(&random, 4) == 0 ? 1 + (int)prng_below(&random, NUM_PLANS - 1) : 0;
    p->cache = (int)(prng_below(&random, 2 * NUM_CACHES) % (NUM_CACHES + 1)) % NUM_CACHES;
    p->compares = prng_below(&random, 12) == 0;
    p->packs = processes > 1 && prng_below(&random, 3) == 0;
}

/* ---- meshes -------------------------------------------------------------------------------------------- */

static void choose_ranks(maker *m, mesh_plan *mesh)
{
    int world = m->program->ranks, ranks[MAX_RANKS] = { 0 };
    for (int i = 0; i < world; i++) {
        int other = mesh->kind == MESH_OF_RANKS ? (int)below(m, i + 1) : i;
        ranks[i] = ranks[other];
        ranks[other] = i;
    }
    memcpy(mesh->ranks, ranks, (size_t)mesh_count(mesh) * sizeof(ranks[0]));
}

static void choose_grid(maker *m, mesh_plan *mesh)
{
    int world = m->program->ranks;
    mesh->kind = one_in(m, 3) ? MESH_OF_RANKS : MESH_GRID;
    mesh->ndim = (int)between(m, 1, MAX_MESH_DIMS);
    int64_t count = 1;
    for (int d = 0; d < mesh->ndim; d++) {
        mesh->shape[d] = between(m, 1, world / count);
        count *= mesh->shape[d];
    }
    /* Large ones more often than chance makes them. */
    int largest = (int)below(m, mesh->ndim);
    if (one_in(m, 2)) {
        mesh->shape[largest] *= world / count;
    }
    choose_ranks(m, mesh);
}

static bool choose_flattened(maker *m, mesh_plan *mesh)
{
    mesh->of = any_mesh(m);
    const mesh_plan *of = &m->program->meshes[mesh->of];
    if (of->ndim < 2) {
        return false;
    }
    mesh->kind = MESH_FLATTENED;
    mesh->first = (int)below(m, of->ndim - 1);
    mesh->last = (int)between(m, mesh->first + 1, of->ndim - 1);
    for (int d = 0; d < of->ndim; d++) {
        bool joins = d > mesh->first && d <= mesh->last;
        if (joins) {
            mesh->shape[mesh->ndim - 1] *= of->shape[d];
        } else {
            mesh->shape[mesh->ndim++] = of->shape[d];
        }
    }
    memcpy(mesh->ranks, of->ranks, sizeof(mesh->ranks));
    return true;
}

/* The line through the first rank along one dimension: in one process that is it for all. */
static bool choose_slice(maker *m, mesh_plan *mesh)
{
    mesh->of = any_mesh(m);
    const mesh_plan *of = &m->program->meshes[mesh->of];
    if (m->program->processes > 1 || of->kind > MESH_OF_RANKS) {
        return false;
    }
    mesh->kind = MESH_SLICE;
    mesh->first = mesh->last = (int)below(m, of->ndim);
    mesh->ndim = 1;
    mesh->shape[0] = of->shape[mesh->first];
    int64_t stride = 1;
    for (int d = mesh->first + 1; d < of->ndim; d++) {
        stride *= of->shape[d];
    }
    for (int64_t i = 0; i < mesh->shape[0]; i++) {
        mesh->ranks[i] = of->ranks[i * stride];
    }
    return true;
}

static void choose_meshes(maker *m)
{
    int count = (int)between(m, 1, 3);
    for (int i = 0; i < count; i++) {
        mesh_plan mesh = { 0 };
        if (i == 0 || !one_in(m, 3) || !(one_in(m, 2) ? choose_slice : choose_flattened)(m, &mesh)) {
            mesh = (mesh_plan){ 0 };
            choose_grid(m, &mesh);
        }
        m->program->meshes[m->program->num_meshes++] = mesh;
    }
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Whether a list of names, separated by commas, has this one. */
static bool lists(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length) {
        if ((at == names || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Nothing is compared on the way, and no memory is written to behind the tape's back. */
static bool suits_gradients(const operation *row)
{
    return !(row->flags & (CHECKS | WRITES | HOLDS | ANSWERS | COUNTS));
}

static int weight_of(const maker *m, const operation *row)
{
    bool all_but = m->only != NULL && m->only[0] == '-';
    if (row->flags & NOT_CHOSEN || (row->flags & OF_GRADIENTS && !m->program->gradients) ||
        (m->program->gradients && !suits_gradients(row)) || (m->only != NULL && lists(m->only + all_but, row->name) == all_but)) {
        return 0;
    }
    return row->weight == 0 ? 4 : row->weight;
}

static const operation *choose_operation(maker *m)
{
    const operation *found;
    int64_t total = 0;
    for (int i = 0; operation_at(i, &found); i++) {
        total += weight_of(m, found);
    }
    int64_t chosen = below(m, total);
    for (int i = 0; operation_at(i, &found); i++) {
        chosen -= weight_of(m, found);
        if (chosen < 0) {
            return found;
        }
    }
    return NULL;
}

/* A call that was made before, once more: weft keeps choices, plans and lists of tasks from call to call. */
static bool repeat_step(maker *m, step *s)
{
    *s = m->program->steps[below(m, m->program->num_steps)];
    const int not = OPENS | CLOSES | KEEPS | RETAINS | RELEASES | PUSHES | POPS | CHECKS | BLOCKS | LEAVES |
                    NO_GRAD_BEGINS | NO_GRAD_ENDS;
    for (int i = 0; i < s->num_outputs; i++) {
        bool in_place = false;
        for (int k = 0; k < s->num_inputs; k++) {
            in_place |= s->inputs[k] == s->outputs[i];
        }
        s->outputs[i] = in_place ? s->outputs[i] : NO_VALUE;
    }
    for (int k = 0; k < s->num_inputs; k++) {
        if (s->inputs[k] != NO_VALUE && m->known[s->inputs[k]].stale) {
            return false;
        }
    }
    return !(s->operation->flags & not );
}

static void add_random_step(maker *m)
{
    step s = { .operation = choose_operation(m), .mesh = -1 };
    bool repeats = m->program->num_steps > 0 && one_in(m, m->repeating);
    if ((repeats ? repeat_step(m, &s) : s.operation->make(m, &s)) && add_step(m, &s) && s.num_outputs > 0 &&
        one_in(m, m->eager)) {
        step check = step_of(operation_find("check"), 1, s.outputs[0]);
        check.num_outputs = 0;
        add_step(m, &check);
    }
}

/* Small values that are known well and differ. */
static void prefer_smooth(maker *m)
{
    m->largest = between(m, 20, 150);
    m->special = m->calm = false;
    m->eager = 1 << 30;
}

/* All steps but a loss. */
static void add_steps(maker *m)
{
    program *p = m->program;
    if (p->num_steps > 0) {
        evaluation_end(&m->evaluation);
    }
    p->num_steps = p->num_values = 0;
    memset(m->known, 0, sizeof(m->known));
    evaluation_start(&m->evaluation, p);
    int64_t steps = between(m, 4, m->largest > MAX_ELEMENTS ? 12 : 36);
    for (int tries = 0; p->num_steps < steps && tries < 400; tries++) {
        add_random_step(m);
    }
}

void generate(program *p, const char *only)
{
    maker *m = malloc(sizeof(*m));
    if (m == NULL) {
        abort();
    }
    memset(m, 0, sizeof(*m));
    m->random = (prng){ p->seed };
    m->program = p;
    m->only = only;
    p->scoped = one_in(m, 2);
    p->implicit = one_in(m, 6);
    /* With panels of few rows tasks would be as many as the square of the rows. */
    m->largest = p->panel_rows == 0 && one_in(m, 40) ? 40 * MAX_ELEMENTS : MAX_ELEMENTS;
    m->special = one_in(m, 4);
    m->calm = one_in(m, 2);
    m->eager = one_in(m, 3) ? 2 : 30;
    m->repeating = one_in(m, 3) ? 2 : 12;
    if (p->gradients) {
        prefer_smooth(m);
    }
    choose_meshes(m);
    do {
        add_steps(m);
    } while (p->gradients && !end_with_loss(m));
    evaluation_end(&m->evaluation);
    free(m);
}
