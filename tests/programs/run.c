#include "run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call/deferral.h"
#include "calls.h"
#include "runtime/runtime.h"
#include "tensor/tensor.h"

/* ---- failures ------------------------------------------------------------------------------------------ */

_Noreturn void run_fail(const running *r, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    const program *p = r->program;
    const char *name = r->step < p->num_steps ? p->steps[r->step].operation->name : "the end";
    fprintf(stderr, "FAILED seed %llu, process %d, step %d (%s): %s\n", (unsigned long long)p->seed,
            weft_process_index(), r->step, name, text);
    fflush(NULL);
    _exit(RUN_FAILED);
}

void run_expect_no_error(const running *r, const char *what)
{
    if (weft_last_status() != WEFT_OK) {
        run_fail(r, "%s: %s: %s", what, weft_status_string(weft_last_status()), weft_last_error());
    }
}

/* ---- meshes -------------------------------------------------------------------------------------------- */

static weft_mesh *make_mesh(const running *r, const mesh_plan *mesh)
{
    switch (mesh->kind) {
    case MESH_GRID:
        return weft_mesh_create(mesh->ndim, mesh->shape, mesh_names);
    case MESH_OF_RANKS:
        return weft_mesh_of_ranks(mesh->ndim, mesh->shape, mesh->ranks, mesh_names);
    case MESH_SLICE:
        return weft_mesh_slice(r->meshes[mesh->of], mesh_names[mesh->first]);
    default:
        return weft_mesh_flatten(r->meshes[mesh->of], mesh->first, mesh->last, NULL);
    }
}

/* ---- values that the program gives --------------------------------------------------------------------- */

void fill_shard(const running *r, const mesh_plan *mesh, const weft_placement placements[], const dense *x,
                const shard_rows *rows, int rank, uint64_t salt, void *memory)
{
    (void)r;
    int64_t coordinate[MAX_MESH_DIMS] = { 0 }, parts, at[WEFT_MAX_DIMS];
    weft_reduce_op op;
    mesh_coordinate(mesh, mesh_index(mesh, rank), coordinate);
    int64_t part = addend_index(mesh, placements, coordinate, &parts, &op);
    for (int64_t i = 0; i < count_of(x->ndim, rows->extent); i++) {
        element_of_shard(rows, x->ndim, i, at);
        int64_t from = ravel(x->ndim, x->shape, at);
        element value =
            parts > 1 ? given_addend(op, x->dtype, x->at[from], parts, part, salt, from) : x->at[from];
        element_store(x->dtype, memory, i, value);
    }
}

/* Memory for what each hosted rank has; NULL for ranks outside the mesh. */
static lent *make_locals(const running *r, const step *s, const dense *x)
{
    const mesh_plan *mesh = &r->program->meshes[s->mesh];
    lent *memory = calloc(1, sizeof(*memory));
    memory->value = s->outputs[0];
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        if (mesh_index(mesh, rank) >= 0) {
            weft_shard_box(r->meshes[s->mesh], s->placements, x->ndim, x->shape, rank, offset, extent);
            shard_rows rows = rows_of_box(x->ndim, offset, extent);
            memory->memory[i] = malloc((size_t)count_of(x->ndim, extent) * 8 + 8);
            fill_shard(r, mesh, s->placements, x, &rows, rank, s->salt, memory->memory[i]);
            free_rows(&rows, x->ndim);
        }
    }
    return memory;
}

static void free_locals(lent *memory)
{
    for (int i = 0; i < MAX_RANKS; i++) {
        free(memory->memory[i]);
    }
    free(memory);
}

static void *make_global(const dense *x)
{
    void *memory = malloc((size_t)x->count * 8 + 8);
    for (int64_t i = 0; i < x->count; i++) {
        element_store(x->dtype, memory, i, x->at[i]);
    }
    return memory;
}

/* Addends of given values: what fill_shard() makes of them. */
static void note_given(const program *p, int mesh, const weft_placement placements[], dense *x)
{
    int64_t coordinate[MAX_MESH_DIMS] = { 0 }, parts;
    weft_reduce_op op;
    addend_index(&p->meshes[mesh], placements, coordinate, &parts, &op);
    double factor = op == WEFT_AVG ? (double)parts : 1;
    x->partial = false; /* of the mass of its values alone */
    double mass = dense_mass(x), unit = dense_unit(x);
    x->partial = parts > 1 && (op == WEFT_SUM || op == WEFT_AVG);
    x->mass = (mass + 8 * (double)parts) * factor;
    x->unit = unit;
}

void end_segment(const running *r)
{
    if (!weft_deferral_finish("weft_wait")) {
        run_fail(r, "the calls of a graph: %s", weft_last_error());
    }
}

static void write_shards(running *r, const step *s, const dense *x)
{
    end_segment(r);
    weft_tensor *tensor = r->tensors[s->inputs[0]];
    const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[s->inputs[0]]];
    const weft_placement *placements = weft_tensor_placements(tensor);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        if (mesh_index(mesh, rank) < 0) {
            continue;
        }
        shard_rows rows = rows_of_shard(tensor, i);
        void *memory = weft_local_acquire(tensor, i, WEFT_WRITE);
        if (memory == NULL && count_of(x->ndim, rows.extent) > 0) {
            run_fail(r, "weft_local_acquire() of rank %d: %s", rank, weft_last_error());
        }
        fill_shard(r, mesh, placements, x, &rows, rank, s->salt, memory);
        weft_local_release(tensor, i);
        free_rows(&rows, x->ndim);
    }
}

/* ---- steps --------------------------------------------------------------------------------------------- */

/* ---- shards that the program holds --------------------------------------------------------------------- */

static void hold_shards(running *r, int value)
{
    if (r->write_waits) {
        let_shards_go(r);
    }
    if (r->num_held == MAX_HELD) {
        return;
    }
    for (int i = 0; i < r->num_held; i++) {
        if (r->tensors[r->held[i]] == r->tensors[value]) {
            return;
        }
    }
    const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[value]];
    end_segment(r);
    for (int i = 0; i < weft_local_ranks(); i++) {
        if (mesh_index(mesh, weft_first_rank() + i) >= 0) {
            weft_local_acquire(r->tensors[value], i, WEFT_READ);
        }
    }
    run_expect_no_error(r, "acquiring shards");
    weft_tensor_retain(r->tensors[value]);
    r->held[r->num_held++] = value;
}

/* Before anything that waits: it would wait for these. */
void let_shards_go(running *r)
{
    if (r->num_held > 0) {
        end_segment(r);
    }
    for (int k = 0; k < r->num_held; k++) {
        int value = r->held[k];
        const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[value]];
        for (int i = 0; i < weft_local_ranks(); i++) {
            if (mesh_index(mesh, weft_first_rank() + i) >= 0) {
                weft_local_release(r->tensors[value], i);
            }
        }
        weft_tensor_release(r->tensors[value]);
    }
    r->num_held = 0;
    r->write_waits = false;
    run_expect_no_error(r, "releasing shards");
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static bool is_output(const step *s, int value)
{
    for (int i = 0; i < s->num_outputs; i++) {
        if (s->outputs[i] == value) {
            return true;
        }
    }
    return false;
}

static void note_answer(const running *r, bool truth, double number)
{
    entry added = { .step = r->step, .value = NO_VALUE };
    memcpy(&added.bits, &number, sizeof(number));
    added.bits ^= truth;
    if (r->trail != NULL) {
        trail_add(r->trail, added);
    }
}

static void call(running *r, const step *s, const scene *now)
{
    weft_tensor *in[MAX_INPUTS] = { NULL }, *out[MAX_OUTPUTS] = { NULL };
    int dims[WEFT_MAX_DIMS];
    bool truth = false;
    double number = NAN;
    for (int i = 0; i < s->num_inputs; i++) {
        in[i] = s->inputs[i] == NO_VALUE ? NULL : r->tensors[s->inputs[i]];
    }
    for (int d = 0; d < s->ndim; d++) {
        dims[d] = (int)s->shape[d];
    }
    int flags = s->operation->flags;
    lent *locals = flags & GIVES ? make_locals(r, s, now->out[0]) : NULL;
    void *global = flags & GIVES ? make_global(now->out[0]) : NULL;
    s->operation->call(&(call_arguments){ .in = in,
                                          .out = out,
                                          .whole = s->wholes,
                                          .real = s->reals,
                                          .dtype = s->dtype,
                                          .ndim = s->ndim,
                                          .shape = s->shape,
                                          .dims = dims,
                                          .mesh = s->mesh < 0 ? NULL : r->meshes[s->mesh],
                                          .placements = s->placements,
                                          .locals = locals == NULL ? NULL : locals->memory,
                                          .global = global,
                                          .truth = &truth,
                                          .number = &number });
    free(global);
    if (flags & LENDS) {
        locals->next = r->lent;
        r->lent = locals;
    } else if (locals != NULL) {
        free_locals(locals);
    }
    if (flags & DIFFERENTIATES && weft_last_status() != WEFT_OK) {
        /* A loss that depends on no leaf: its gradients are 0. */
        r->refused = s->num_outputs > 0 || strstr(weft_last_error(), "was not computed from leaves") == NULL;
        snprintf(r->refusal, sizeof(r->refusal), "%s: %s", weft_status_string(weft_last_status()), weft_last_error());
        weft_clear_error();
        return;
    }
    run_expect_no_error(r, "the call");
    if (r->plain && flags & (ANSWERS | COUNTS)) {
        note_answer(r, truth, number);
    }
    if (flags & ANSWERS && !r->plain && truth != now->truth) {
        run_fail(r, "the answer is %d, expected %d", truth, now->truth);
    }
    if (flags & COUNTS && !r->plain && number != now->number && !(number != number && now->number != now->number)) {
        run_fail(r, "the number is %.17g, expected %.17g", number, now->number);
    }
    for (int i = 0; i < s->num_outputs; i++) {
        bool in_place = false;
        for (int k = 0; k < s->num_inputs; k++) {
            in_place |= s->inputs[k] == s->outputs[i];
            if (out[i] != NULL && out[i] == in[k] && !(flags & (MAY_BE_SAME | IN_PLACE))) {
                run_fail(r, "the result is input %d itself", k);
            }
        }
        if (!in_place) {
            if (out[i] == NULL) {
                run_fail(r, "output %d is NULL", i);
            }
            r->tensors[s->outputs[i]] = out[i];
        }
    }
}

/* Whether a step needs to know its input exactly. */
static bool must_adopt(const running *r, const step *s, int input)
{
    int v = s->inputs[input];
    const dense *x = v == NO_VALUE ? NULL : r->evaluation.values[v];
    const int leaves = MOVES | CHECKS | WRITES | OPENS | CLOSES | KEEPS | RETAINS | RELEASES | HOLDS;
    return !r->plain && x != NULL && x->slack != NULL && !(s->operation->flags & leaves);
}

/* Values that are the same tensor are equal. */
static void share_values(running *r, const step *s)
{
    evaluation *e = &r->evaluation;
    for (int i = 0; i < s->num_outputs; i++) {
        for (int v = 0; v < r->program->num_values; v++) {
            if (is_alive(e, v) && !is_output(s, v) && r->tensors[v] == r->tensors[s->outputs[i]]) {
                e->values[v] = e->values[s->outputs[i]];
            }
        }
        r->compared[s->outputs[i]] = false;
    }
}

/* A value that nothing has been written to yet may be anything. */
static void check_value(running *r, int value)
{
    if (!r->plain) {
        compare_value(r, value);
    } else if (!r->evaluation.values[value]->undefined) {
        note_tensor(r, value, r->tensors[value]);
    }
}

void run_step(running *r, const step *s)
{
    evaluation *e = &r->evaluation;
    for (int i = 0; i < s->num_inputs; i++) {
        if (must_adopt(r, s, i)) {
            adopt_value(r, s->inputs[i]);
        }
    }
    scene now;
    if (!evaluate_step(e, s, &now)) {
        run_fail(r, "the program is not valid");
    }
    if (s->operation->flags & BLOCKS) {
        let_shards_go(r);
    }
    if (s->operation->flags & HOLDS) {
        hold_shards(r, s->inputs[0]);
    } else if (s->operation->flags & CHECKS) {
        check_value(r, s->inputs[0]);
    } else if (s->operation->flags & WRITES) {
        write_shards(r, s, now.out[0]);
        run_expect_no_error(r, "writing");
    } else {
        r->write_waits = r->write_waits || (r->num_held > 0 && s->operation->flags & IN_PLACE);
        call(r, s, &now);
        if (r->refused) {
            return;
        }
    }
    for (int i = 0; i < s->num_outputs && !r->plain; i++) {
        weft_tensor *tensor = r->tensors[s->outputs[i]];
        now.out[i]->partial = is_partial_sum(tensor);
        if (now.out[i]->partial && now.out[i]->mass == 0 && now.out[i]->unit == 0 && now.out[i]->count > 0) {
            now.out[i]->mass = (double)INFINITY; /* its reference says nothing of addends */
        }
        now.out[i]->factors = !now.out[i]->partial && is_partial(tensor);
        if (s->operation->flags & (GIVES | WRITES)) {
            note_given(r->program, now.mesh, weft_tensor_placements(tensor), now.out[i]);
        }
    }
    evaluation_commit(e, &now);
    share_values(r, s);
    r->tally->steps++;
}

/* ---- the end ------------------------------------------------------------------------------------------- */

/* The library has counted random operations as the reference has. */
static void compare_states(const running *r)
{
    for (int i = 0; i < MAX_STATES; i++) {
        weft_random_state own = { 0, 0 }, expected = r->evaluation.states.states[i];
        weft_random_state_get(random_state_name(i), &own);
        if (own.seed != expected.seed || own.offset != expected.offset) {
            run_fail(r, "random state %d has seed %llu and offset %llu, expected %llu and %llu", i,
                     (unsigned long long)own.seed, (unsigned long long)own.offset,
                     (unsigned long long)expected.seed, (unsigned long long)expected.offset);
        }
    }
}

static void set_states(const running *r)
{
    for (int i = 0; i < MAX_STATES; i++) {
        weft_random_state_set(random_state_name(i), r->evaluation.states.states[i]);
    }
    weft_random_state_use(NULL);
}

static void release_all(running *r)
{
    evaluation *e = &r->evaluation;
    for (; e->num_stack > 0; e->num_stack--) {
        weft_mesh_pop();
    }
    for (int v = 0; v < r->program->num_values; v++) {
        for (; e->lives[v].retained > 0; e->lives[v].retained--) {
            weft_tensor_release(r->tensors[v]);
        }
        if (e->lives[v].owner == 0) {
            weft_tensor_release(r->tensors[v]);
        }
    }
    for (; e->depth > 0; e->depth--) {
        weft_scope_end();
    }
}

/* The step that gave a value; NULL: values that another one may share the tensor of. */
static const step *only_giver(const running *r, int value)
{
    const step *found = NULL;
    for (int i = 0; i < r->program->num_steps; i++) {
        const step *s = &r->program->steps[i];
        if (s->operation->flags & GIVES && s->outputs[0] == value) {
            found = s;
        }
        if (s->operation->flags & MAY_BE_SAME && s->inputs[0] == value) {
            return NULL;
        }
    }
    return found;
}

/* Lent memory has the last values of its tensor. */
static void compare_lent_memory(running *r, const lent *memory)
{
    const step *s = only_giver(r, memory->value);
    const dense *x = r->evaluation.values[memory->value];
    if (s == NULL || x->partial) {
        return;
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS], parts,
            coordinate[MAX_MESH_DIMS] = { 0 };
        weft_reduce_op op;
        addend_index(&r->program->meshes[s->mesh], s->placements, coordinate, &parts, &op);
        if (memory->memory[i] == NULL || parts > 1) {
            continue;
        }
        weft_shard_box(r->meshes[s->mesh], s->placements, x->ndim, x->shape, weft_first_rank() + i, offset,
                       extent);
        for (int64_t k = 0; k < count_of(x->ndim, extent); k++) {
            unravel(x->ndim, extent, k, at);
            for (int d = 0; d < x->ndim; d++) {
                at[d] += offset[d];
            }
            element got = element_load(x->dtype, memory->memory[i], k);
            if (!dense_accepts(x, ravel(x->ndim, x->shape, at), got)) {
                run_fail(r, "memory that was lent for value %d: element %lld of rank %d is %.17g",
                         memory->value, (long long)k, weft_first_rank() + i, number_of(x->dtype, got));
            }
        }
    }
}

static void compare_lent(running *r)
{
    while (r->lent != NULL) {
        lent *memory = r->lent;
        r->lent = memory->next;
        if (!r->plain) {
            compare_lent_memory(r, memory);
        }
        free_locals(memory);
    }
}

running *run_begin(const program *p, tally *counts)
{
    running *r = calloc(1, sizeof(*r));
    r->live = weft_runtime.handles.tensors.num_objects;
    r->bytes = weft_pool_bytes_in_use(weft_runtime.pool);
    r->program = p;
    r->tally = counts;
    evaluation_start(&r->evaluation, p);
    for (int m = 0; m < p->num_meshes; m++) {
        r->meshes[m] = make_mesh(r, &p->meshes[m]);
    }
    set_states(r);
    if (p->implicit) {
        weft_implicit_replication_begin();
    }
    run_expect_no_error(r, "the meshes");
    if (p->scoped) {
        weft_scope_begin();
    }
    return r;
}

void run_end(running *r)
{
    if (r->program->implicit) {
        weft_implicit_replication_end();
    }
    release_all(r);
    run_expect_no_error(r, "releasing");
    weft_deferral_finish_implicit("run_end");
    if (weft_runtime.handles.tensors.num_objects != r->live ||
        weft_pool_bytes_in_use(weft_runtime.pool) != r->bytes) {
        run_fail(r, "%ld tensors and %ld bytes are left",
                 (long)weft_runtime.handles.tensors.num_objects - (long)r->live,
                 (long)(weft_pool_bytes_in_use(weft_runtime.pool) - r->bytes));
    }
    if (r->lent != NULL && weft_wait() != WEFT_OK) {
        run_fail(r, "weft_wait(): %s", weft_last_error());
    }
    compare_lent(r);
    evaluation_end(&r->evaluation);
    free(r);
}

/* Reads values, and the gradients of leaves. */
static void note_rest(running *r)
{
    for (int v = 0; v < r->program->num_values; v++) {
        if (!is_alive(&r->evaluation, v)) {
            continue;
        }
        check_value(r, v);
        weft_tensor *gradient = r->evaluation.is_leaf[v] && weft_is_leaf(r->tensors[v]) ? weft_grad(r->tensors[v]) : NULL;
        if (gradient != NULL) {
            note_tensor(r, v, gradient);
        }
    }
    run_expect_no_error(r, "reading what is left");
}

void run_finish(running *r)
{
    const program *p = r->program;
    let_shards_go(r);
    compare_states(r);
    if (r->trail != NULL) {
        note_rest(r);
    }
    for (int v = 0; v < p->num_values && !r->plain; v++) {
        if (is_alive(&r->evaluation, v) && !r->compared[v]) {
            compare_value(r, v);
        }
    }
    if (!r->plain) {
        compare_replicas(r);
    }
    run_end(r);
}

void run_program(const program *p, tally *counts)
{
    running *r = run_begin(p, counts);
    for (; r->step < p->num_steps; r->step++) {
        run_step(r, &p->steps[r->step]);
    }
    run_finish(r);
}
