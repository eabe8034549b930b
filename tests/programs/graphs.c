#include "graphs.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/graph_shard.h>
#include <weft/predict.h>

#include "call/deferral.h"
#include "pieces.h"

enum { MOST_HELD = 64 };

/* A graph, and what its function is to run now. */
typedef struct graph_of_piece {
    weft_graph *graph;
    running *running;
    const piece *piece;
    bool holds; /* tensors of the function live on after it, in this run */
    int num_held;
    weft_tensor *held[MOST_HELD];
} graph_of_piece;

typedef struct checker {
    const program *program; /* that is being run */
    bool frozen;            /* the graphs are to be frozen, with inputs that are given up */
    bool shards;            /* layouts are chosen for the graphs after each run */
    const char *run;        /* which run, for messages */
    int runs;               /* in graphs, up to now */
    tally *tally;
    /* By the piece's number and its outputs; those to be frozen: the first. */
    graph_of_piece graphs[MAX_STEPS][MAX_GRAPH_OUTPUTS + 1];
    partition plan;
} checker;

static _Noreturn void fail(const checker *c, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "FAILED seed %llu, process %d, %s: %s\n", (unsigned long long)c->program->seed,
            weft_process_index(), c->run, text);
    fflush(NULL);
    _exit(RUN_FAILED);
}

/* ---- running ----------------------------------------------------------------------------------------------- */

/* Some tensors of a step that no scope keeps: which values of a trace are needed differs from run to run. */
static void hold_some(graph_of_piece *own, const running *r, const step *s)
{
    for (int i = 0; i < s->num_outputs && own->holds && own->num_held < MOST_HELD; i++) {
        weft_tensor *tensor = s->outputs[i] < 0 ? NULL : r->tensors[s->outputs[i]];
        bool live = tensor != NULL && r->evaluation.lives[s->outputs[i]].owner >= 0;
        if (live && hash3(r->program->seed, (uint64_t)r->step, 905) % 2 == 0 && weft_tensor_retain(tensor) == WEFT_OK) {
            own->held[own->num_held++] = tensor;
        }
    }
}

static void release_held(graph_of_piece *own)
{
    while (own->num_held > 0) {
        weft_tensor_release(own->held[--own->num_held]);
    }
}

static weft_status run_inside(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    graph_of_piece *own = context;
    running *r = own->running;
    (void)inputs, (void)scalars;
    for (; r->step < own->piece->end && !r->refused; r->step++) {
        run_step(r, &r->program->steps[r->step]);
        hold_some(own, r, &r->program->steps[r->step]);
    }
    if (r->refused) {
        return WEFT_ERR_STATE;
    }
    for (int i = 0; i < own->piece->num_new; i++) {
        weft_tensor *tensor = r->tensors[own->piece->fresh[i]];
        if (i < own->piece->num_outputs) {
            outputs[i] = tensor;
        } else {
            weft_scope_keep(tensor);
        }
    }
    run_expect_no_error(r, "keeping the function's tensors");
    return WEFT_OK;
}

/* Values that have not come to be, or that the function has not handed over. */
static void forget_values(const checker *c, running *r, int first)
{
    for (int v = 0; v < r->program->num_values; v++) {
        if (c->plan.maker[v] >= first) {
            r->evaluation.lives[v].owner = -1;
        }
    }
}

/* Half of the graphs have any of the passes, and some of them others in each run, unless WEFT_GRAPH_PASSES chooses. */
static void switch_passes(const checker *c, weft_graph *graph, const program *p, const piece *one)
{
    uint64_t random = hash3(p->seed, (uint64_t)one->number, 904);
    uint64_t passes = random % 8 == 0 ? hash3(random, (uint64_t)c->runs, 908) : random / 2;
    if (random % 2 == 0 && getenv("WEFT_GRAPH_PASSES") == NULL) {
        weft_graph_set_passes(graph, (unsigned)passes & WEFT_PASS_ALL);
    }
}

static weft_graph *make_graph(graph_of_piece *own, const piece *one, bool frozen)
{
    weft_graph *graph = weft_graph_create("piece", run_inside, own, one->num_inputs, 0, one->num_outputs);
    for (int i = 0; i < one->num_inputs; i++) {
        weft_graph_donate(graph, i, one->given_up[i]);
    }
    if (frozen) {
        weft_graph_freeze(graph, true);
    }
    return graph;
}

/* The function was not called: its calls are followed, and what they have made is there. */
static void follow_frozen(running *r, const piece *one, weft_tensor *const outputs[])
{
    for (; r->step < one->end; r->step++) {
        scene now;
        if (!evaluate_step(&r->evaluation, &r->program->steps[r->step], &now)) {
            run_fail(r, "the program is not valid");
        }
        evaluation_commit(&r->evaluation, &now);
    }
    for (int i = 0; i < one->num_outputs; i++) {
        r->tensors[one->fresh[i]] = outputs[i];
    }
    r->tally->frozen++;
}

/* Refused before anything was done, where its calls cannot be repeated: then the function is called as ever. */
static bool cannot_be_frozen(weft_graph *graph, const running *r, const piece *one)
{
    weft_graph_info info;
    return r->step == one->first && !r->refused && weft_last_status() == WEFT_ERR_STATE &&
           weft_graph_get_info(graph, &info, sizeof(info)) == WEFT_OK && info.not_frozen[0] != '\0';
}

static weft_status call_or_thaw(graph_of_piece *own, running *r, const piece *one, weft_tensor *outputs[])
{
    weft_tensor *inputs[MAX_VALUES];
    for (int i = 0; i < one->num_inputs; i++) {
        inputs[i] = r->tensors[one->inputs[i]];
    }
    weft_status status = weft_graph_call(own->graph, inputs, NULL, outputs);
    if (status != WEFT_OK && cannot_be_frozen(own->graph, r, one)) {
        weft_clear_error();
        weft_graph_freeze(own->graph, false);
        status = weft_graph_call(own->graph, inputs, NULL, outputs);
    }
    return status;
}

/* Inputs that nothing needs any more: the program releases them, or a graph has taken them. */
static void give_up(running *r, const piece *one, bool taken)
{
    for (int i = 0; i < one->num_inputs; i++) {
        life *l = &r->evaluation.lives[one->inputs[i]];
        if (!one->given_up[i]) {
            continue;
        }
        for (; !taken && l->retained > 0; l->retained--) {
            weft_tensor_release(r->tensors[one->inputs[i]]);
        }
        if (!taken && l->owner == 0) {
            weft_tensor_release(r->tensors[one->inputs[i]]);
        }
        *l = (life){ .owner = -1 };
        r->tally->donated += taken;
    }
}

/* Chooses layouts for the run that has ended, which the next one works on. Those of the capture are always a choice; now and
 * then the run is predicted too. */
static void shard_graph(const checker *c, const running *r, weft_graph *graph)
{
    weft_graph_info info;
    weft_graph_shard_info found;
    weft_prediction prediction;
    if (weft_graph_get_info(graph, &info, sizeof(info)) != WEFT_OK || info.num_calls == 0) {
        return;
    }
    if (weft_graph_shard(graph, NULL) != WEFT_OK || weft_graph_get_shard_info(graph, &found, sizeof(found)) != WEFT_OK) {
        run_fail(r, "layouts for a graph: %s", weft_last_error());
    }
    if (found.recorded_us < 0 || (found.proved && found.us > found.recorded_us)) {
        run_fail(r, "the chosen layouts take %g us, and those of the capture %g us", found.us, found.recorded_us);
    }
    if (r->num_held == 0 && hash3(r->program->seed, (uint64_t)r->step, 909 + (uint64_t)c->runs) % 8 == 0 &&
        weft_graph_predict(graph, NULL, &prediction, sizeof(prediction)) != WEFT_OK) {
        run_fail(r, "prediction of a graph with chosen layouts: %s", weft_last_error());
    }
    r->tally->sharded++;
}

static void call_graph(checker *c, running *r, const piece *one)
{
    graph_of_piece *own = &c->graphs[one->number][c->frozen ? 0 : one->num_outputs];
    weft_tensor *outputs[MAX_VALUES + 1] = { NULL };
    if (own->graph == NULL) {
        own->graph = make_graph(own, one, c->frozen);
    }
    switch_passes(c, own->graph, r->program, one);
    if (r->program->processes > 1) {
        let_shards_go(r);
    }
    own->running = r;
    own->piece = one;
    own->holds = c->runs % 3 == 2 && !c->frozen;
    if (call_or_thaw(own, r, one, outputs) != WEFT_OK && r->refused) {
        weft_clear_error();
    }
    release_held(own);
    run_expect_no_error(r, "weft_graph_call()");
    if (c->shards && !r->refused) {
        shard_graph(c, r, own->graph);
    }
    if (r->step == one->first) {
        follow_frozen(r, one, outputs);
    }
    for (int i = 0; i < one->num_outputs && !r->refused; i++) {
        if (outputs[i] != r->tensors[one->fresh[i]]) {
            run_fail(r, "output %d of a graph is not the tensor that its function gave", i);
        }
    }
}

static void run_piece(checker *c, running *r, const piece *one, bool in_graphs)
{
    bool taken = in_graphs && one->in_graph;
    if (taken) {
        call_graph(c, r, one);
    }
    for (; r->step < one->end && !r->refused; r->step++) {
        run_step(r, &r->program->steps[r->step]);
    }
    if (!r->refused) {
        give_up(r, one, taken);
    }
}

/* A run whose backward pass was refused: the same of all runs, and nothing else. */
static void end_refused(checker *c, running *r, bool in_graphs, trail *seen, const piece *last)
{
    bool inside = in_graphs && last->in_graph;
    forget_values(c, r, inside ? last->first : r->step - 1);
    r->evaluation.depth = inside ? c->plan.depth[last->first] : r->evaluation.depth;
    trail_clear(seen);
    for (const char *at = r->refusal; *at != '\0'; at++) {
        trail_add(seen, (entry){ .value = NO_VALUE, .bits = (uint64_t)*at });
    }
    run_end(r);
}

/* Runs a program; `seen`: all that can be read goes there, and nothing is compared; NULL: it is compared with its
 * reference. */
static void run_pieces(checker *c, const program *p, bool in_graphs, trail *seen, const char *name)
{
    c->program = p;
    c->run = name;
    if (!choose_pieces(&c->plan, p, c->frozen)) {
        fail(c, "a step is not valid");
    }
    running *r = run_begin(p, c->tally);
    r->plain = seen != NULL;
    r->trail = seen;
    for (int i = 0; i < c->plan.num_pieces; i++) {
        run_piece(c, r, &c->plan.pieces[i], in_graphs);
        if (r->refused) {
            end_refused(c, r, in_graphs, seen, &c->plan.pieces[i]);
            return;
        }
    }
    run_finish(r);
}

static uint64_t num_captures(const checker *c)
{
    uint64_t captures = 0;
    for (int i = 0; i < MAX_STEPS; i++) {
        for (int k = 0; k <= MAX_GRAPH_OUTPUTS; k++) {
            weft_graph_info info;
            if (c->graphs[i][k].graph != NULL && weft_graph_get_info(c->graphs[i][k].graph, &info, sizeof(info)) == WEFT_OK) {
                captures += info.captures;
            }
        }
    }
    return captures;
}

static void compare_trails(const checker *c, const trail *expected, const trail *got)
{
    size_t count = expected->count < got->count ? expected->count : got->count;
    for (size_t i = 0; i < count; i++) {
        const entry *e = &expected->entries[i], *g = &got->entries[i];
        if (e->step != g->step || e->value != g->value || e->bits != g->bits) {
            fail(c, "value %d, read at step %d: other bits than without graphs (value %d at step %d)", g->value, g->step,
                 e->value, e->step);
        }
    }
    if (expected->count != got->count) {
        fail(c, "%zu values were read, without graphs %zu", got->count, expected->count);
    }
}

/* Without graphs, and in graphs. */
static void run_both(checker *c, const program *p, const char *name)
{
    trail expected = { 0 }, got = { 0 };
    run_pieces(c, p, false, &expected, "without graphs");
    run_pieces(c, p, true, &got, name);
    c->runs++;
    compare_trails(c, &expected, &got);
    trail_clear(&expected);
    trail_clear(&got);
}

/* ---- other programs ------------------------------------------------------------------------------------------ */

/* The same calls with other values and, where that is valid and asked for, other numbers. */
static bool change_values(const program *p, program *changed, bool numbers)
{
    evaluation e;
    bool valid = true;
    *changed = *p;
    evaluation_start(&e, changed);
    for (int i = 0; i < changed->num_steps && valid; i++) {
        step *s = &changed->steps[i];
        scene now;
        s->salt = hash3(s->salt, p->seed, 902);
        for (int k = 0; k < s->num_reals; k++) {
            s->reals[k] *= numbers ? 0.5 : 1;
        }
        if (!evaluate_step(&e, s, &now)) {
            memcpy(s->reals, p->steps[i].reals, sizeof(s->reals));
            valid = evaluate_step(&e, s, &now);
        }
        if (valid) {
            evaluation_commit(&e, &now);
        }
    }
    evaluation_end(&e);
    return valid;
}

/* A size of the program becomes another one wherever it stands: in shapes, and in numbers that may mean it. False: no such
 * program is valid. */
static bool change_sizes(const program *p, program *changed)
{
    evaluation e;
    bool valid = false;
    for (uint64_t tries = 0; tries < 8 && !valid; tries++) {
        const step *of = &p->steps[hash3(p->seed, tries, 907) % (uint64_t)p->num_steps];
        int64_t size = of->ndim > 0 ? of->shape[hash3(p->seed, tries, 908) % (uint64_t)of->ndim] : 0;
        int64_t other = size + 1 + (int64_t)(hash3(p->seed, tries, 909) % 3);
        *changed = *p;
        for (int i = 0; i < changed->num_steps && size > 1; i++) {
            step *s = &changed->steps[i];
            for (int d = 0; d < s->ndim; d++) {
                s->shape[d] = s->shape[d] == size ? other : s->shape[d];
            }
            for (int k = 0; k < s->num_wholes; k++) {
                s->wholes[k] = s->wholes[k] == size && size > WEFT_MAX_DIMS ? other : s->wholes[k]; /* smaller: a choice, a dimension */
            }
            for (int m = 0; m < MAX_MESH_DIMS; m++) { /* listed sizes are of the first shape */
                s->placements[m].cut = s->placements[m].cut == WEFT_CUT_SIZES ? WEFT_CUT_BALANCED : s->placements[m].cut;
            }
        }
        valid = size > 1 && evaluate(&e, changed);
        if (size > 1) {
            evaluation_end(&e);
        }
    }
    return valid;
}

/* A step is left out, with all that depend on it. */
static bool leave_out(const program *p, program *changed)
{
    evaluation e;
    bool valid = false;
    for (uint64_t tries = 0; tries < 5 && p->num_steps > 1 && !valid; tries++) {
        *changed = *p;
        changed->steps[hash3(p->seed, tries, 903) % (uint64_t)p->num_steps].operation = NULL;
        program_tidy(changed);
        valid = changed->num_steps > 0 && evaluate(&e, changed);
        if (changed->num_steps > 0) {
            evaluation_end(&e);
        }
    }
    return valid;
}

static void free_graphs(checker *c)
{
    for (int i = 0; i < MAX_STEPS; i++) {
        for (int k = 0; k <= MAX_GRAPH_OUTPUTS; k++) {
            if (c->graphs[i][k].graph != NULL && weft_graph_destroy(c->graphs[i][k].graph) != WEFT_OK) {
                fail(c, "a graph is not freed: %s", weft_last_error());
            }
        }
    }
}

/* Once the first runs have been observed, functions are not called; a frozen graph does not see that a constant has changed. */
static void run_frozen(checker *c, const program *p, program *changed)
{
    run_both(c, p, "to be frozen, 1");
    run_both(c, p, "to be frozen, 2");
    run_both(c, p, "to be frozen, 3");
    run_both(c, p, "frozen");
    if (change_values(p, changed, false)) {
        run_both(c, changed, "frozen, with other values");
    }
    run_both(c, p, "frozen, again");
}

/* Layouts are chosen for graphs, and the graphs called: sums may be rounded differently then, so that values are compared with
 * the reference; those of frozen graphs and of programs with gradients, for which there is none, are not compared. */
static void run_sharded(checker *c, const program *p)
{
    static const char *const names[] = { "captured, to be sharded", "sharded, 1", "sharded, 2", "sharded, 3" };
    for (int i = 0; i < 4; i++) {
        trail unused = { 0 };
        run_pieces(c, p, true, p->gradients || c->frozen ? &unused : NULL, names[i]);
        c->runs++;
        trail_clear(&unused);
    }
}

void run_in_graphs(const program *p, tally *counts)
{
    checker *c = calloc(1, sizeof(*c));
    program *changed = malloc(sizeof(*changed));
    c->tally = counts;
    /* Clusters may end anywhere, elsewhere on each process. */
    weft_runtime.cluster_seed = p->seed % 3 == 0 ? hash3(p->seed, (uint64_t)weft_process_index(), 906) : 0;
    run_both(c, p, "captured");
    uint64_t captures = num_captures(c);
    run_both(c, p, "replayed");
    if (num_captures(c) != captures) {
        fail(c, "%d traces were captured", (int)(num_captures(c) - captures));
    }
    if (change_values(p, changed, true)) {
        run_both(c, changed, "with other values");
    }
    if (p->num_steps > 0 && change_sizes(p, changed)) {
        run_both(c, changed, "with other sizes");
        run_both(c, p, "with the first sizes");
        run_both(c, changed, "with other sizes again");
        c->tally->resized++;
    }
    if (leave_out(p, changed)) {
        run_both(c, changed, "with other steps");
    }
    if (!p->gradients) {
        run_pieces(c, p, true, NULL, "against the reference");
    }
    run_both(c, p, "again");
    run_both(c, p, "once more");
    free_graphs(c);
    *c = (checker){ .tally = counts, .frozen = true };
    run_frozen(c, p, changed);
    free_graphs(c);
    *c = (checker){ .tally = counts, .shards = true, .frozen = p->seed % 3 == 0 };
    run_sharded(c, p);
    free_graphs(c);
    free(changed);
    free(c);
}

/* ---- again and again ------------------------------------------------------------------------------------------ */

/* All that the program reads, with calls that are deferred (WEFT_AUTOGRAPH=1), or one by one. */
static void run_observed(checker *c, const program *p, weft_deferral *implicit, trail *seen, const char *name)
{
    weft_deferral *given = weft_runtime.implicit;
    weft_runtime.implicit = implicit;
    run_pieces(c, p, false, seen, name);
    weft_runtime.implicit = given;
}

/* The program so many times: the same each time. */
static void run_times(checker *c, const program *p, int times, const char *name)
{
    trail expected = { 0 };
    run_observed(c, p, NULL, &expected, "one by one");
    for (int i = 0; i < times; i++) {
        trail got = { 0 };
        run_observed(c, p, weft_runtime.implicit, &got, name);
        compare_trails(c, &expected, &got);
        trail_clear(&got);
    }
    trail_clear(&expected);
}

void run_repeated(const program *p, tally *counts)
{
    weft_counters before, after;
    checker *c = calloc(1, sizeof(*c));
    program *changed = malloc(sizeof(*changed));
    c->tally = counts;
    weft_get_counters(&before, sizeof(before));
    run_times(c, p, 6, "repeated");
    if (change_values(p, changed, true)) {
        run_times(c, changed, 1, "repeated, with other values");
    }
    if (leave_out(p, changed)) {
        run_times(c, changed, 1, "repeated, with other steps");
    }
    run_times(c, p, 2, "repeated again");
    weft_get_counters(&after, sizeof(after));
    counts->windows += (int64_t)(after.windows_replayed - before.windows_replayed);
    counts->window_calls += (int64_t)(after.window_calls - before.window_calls);
    free(changed);
    free(c);
}
