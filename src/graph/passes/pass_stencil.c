/* Stencils: elementwise calls on tensors that were shifted, cut and padded. The calls that make one output become one call of an
 * operation (ops/stencil.h), which reads the tensors at shifted indices; nothing is copied but the edges of other ranks. The
 * kernels are those of the calls, so that results have the same bits, but for which NaN a NaN is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/cache.h"
#include "graph/fuse/scratch.h"
#include "graph/passes/stencil.h"
#include "ops/stencil.h"
#include "tensor/state.h"

/* Smaller tensors are clustered with the calls around them; calls further apart are not looked for. */
enum { MIN_BYTES = 8192, MOST_NODES = 256 };

typedef struct finding {
    weft_graph_body *body;
    weft_stencil_trace known;
    bool *elementwise; /* by node */
    bool *is_member;   /* by node: of the current stencil */
    int *member_uses;  /* by value: how often members read it */
    int members[WEFT_STENCIL_STEPS], num_members; /* in the order of their nodes */
    bool failed; /* an error is kept */
} finding;

static const weft_graph_node *node_at(const finding *f, int number)
{
    return weft_trace_node(f->body->trace, (size_t)number);
}

static const weft_graph_value *value_at(const finding *f, int number)
{
    return weft_trace_value(f->body->trace, number);
}

/* ---- which calls ----------------------------------------------------------------------------------------- */

/* A call of tasks alone that makes one new tensor. */
static bool is_plain(const weft_graph_trace *trace, const weft_graph_node *node)
{
    const weft_call *call = node->call;
    bool plain = !weft_call_is_action(call) && call->details == NULL && call->attributes.omitted == 0 && node->num_inputs > 0 &&
                 node->num_outputs == 1 && node->outputs[0] >= 0 && !weft_call_changes(call, 0) && !node->implicit && !node->draws &&
                 !node->is_step && node->source >= 0 && !weft_pass_leaves_alone(node) && !weft_node_has_ghosts(trace, node) &&
                 weft_operation_in_use(call->operation) == call->operation;
    for (int i = 0; i < node->num_inputs && plain; i++) {
        plain = node->inputs[i] >= 0 && call->access_map[i] == NULL && node->inputs[i] != node->outputs[0];
    }
    return plain;
}

static bool moves(const weft_graph_trace *trace, const weft_graph_node *node)
{
    bool does = is_plain(trace, node) && node->call->operation->describe != NULL;
    for (int i = 1; i < node->num_inputs && does; i++) {
        does = node->inputs[i] == node->inputs[0];
    }
    return does && !weft_stencil_has_partial(weft_trace_value(trace, node->outputs[0])->layout);
}

static bool is_elementwise(const weft_graph_trace *trace, const weft_graph_node *node)
{
    return is_plain(trace, node) && weft_kernel_is_elementwise(node->call->operation->kernel) && node->call->operation->lower == NULL &&
           node->call->operation->expand == NULL && node->num_inputs <= WEFT_MAX_ELEMENTWISE_INPUTS &&
           !weft_stencil_has_partial(weft_trace_value(trace, node->outputs[0])->layout);
}

/* False: no memory. */
static bool examine(finding *f)
{
    const weft_graph_trace *trace = f->body->trace;
    size_t num_values = trace->values.count + 1, num_nodes = trace->nodes.count + 1;
    f->known = (weft_stencil_trace){ .trace = trace, .changed = weft_pass_find_changed(trace) };
    f->known.defined = malloc(3 * num_values * sizeof(int));
    f->known.moves = calloc(3 * num_nodes, sizeof(bool));
    if (f->known.changed == NULL || f->known.defined == NULL || f->known.moves == NULL) {
        return false;
    }
    f->known.num_uses = f->known.defined + num_values;
    f->member_uses = f->known.num_uses + num_values;
    f->elementwise = f->known.moves + num_nodes;
    f->is_member = f->elementwise + num_nodes;
    memset(f->known.defined, -1, num_values * sizeof(int));
    memset(f->known.num_uses, 0, 2 * num_values * sizeof(int));
    for (int n = 0; n < (int)trace->nodes.count; n++) {
        const weft_graph_node *node = node_at(f, n);
        f->known.moves[n] = moves(trace, node);
        f->elementwise[n] = is_elementwise(trace, node);
        for (int i = 0; i < node->num_inputs; i++) {
            if (node->inputs[i] >= 0) {
                f->known.num_uses[node->inputs[i]]++;
            }
        }
        if (f->known.moves[n] || f->elementwise[n]) {
            f->known.defined[node->outputs[0]] = n;
        }
    }
    return true;
}

/* ---- the calls of one stencil ---------------------------------------------------------------------------- */

/* Whether each rank has the same elements of two tensors. */
static bool has_same_elements(const weft_layout *a, const weft_layout *b)
{
    bool same = a->mesh == b->mesh && a->ndim == b->ndim && memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(a->shape[0])) == 0;
    for (int m = 0; m < a->mesh->ndim && same; m++) {
        same = weft_placement_equal(a->placements[m], b->placements[m]);
    }
    return same;
}

static void add_member(finding *f, int number)
{
    const weft_graph_node *node = node_at(f, number);
    f->is_member[number] = true;
    memmove(f->members + 1, f->members, (size_t)f->num_members * sizeof(f->members[0]));
    f->members[0] = number;
    f->num_members++;
    for (int i = 0; i < node->num_inputs; i++) {
        f->member_uses[node->inputs[i]]++;
    }
}

static void forget_members(finding *f)
{
    for (int i = 0; i < f->num_members; i++) {
        const weft_graph_node *node = node_at(f, f->members[i]);
        f->is_member[f->members[i]] = false;
        for (int k = 0; k < node->num_inputs; k++) {
            f->member_uses[node->inputs[k]] = 0;
        }
    }
    f->num_members = 0;
}

/* The calls that make what the last one reads, and nothing else needs; at most so many. */
static void find_members(finding *f, int last, int most)
{
    const weft_layout *output = value_at(f, node_at(f, last)->outputs[0])->layout;
    add_member(f, last);
    for (int n = last - 1; n >= 0 && n > last - MOST_NODES && f->num_members < most; n--) {
        const weft_graph_node *node = node_at(f, n);
        if (f->elementwise[n] && !node->removed) {
            int value = node->outputs[0];
            bool inner = f->member_uses[value] > 0 && f->member_uses[value] == f->known.num_uses[value] &&
                         !value_at(f, value)->is_promised && !f->known.changed[value] && has_same_elements(value_at(f, value)->layout, output);
            if (inner) {
                add_member(f, n);
            }
        }
    }
}

/* ---- the program of the kernel --------------------------------------------------------------------------- */

/* Memory of the values between the steps: slots, each of one value at a time. */
typedef struct slots {
    int ends[WEFT_STENCIL_STEPS]; /* by slot: the last member that reads its value */
    int count;
} slots;

static int last_reader(const finding *f, int value)
{
    int last = -1;
    for (int i = 0; i < f->num_members; i++) {
        const weft_graph_node *node = node_at(f, f->members[i]);
        for (int k = 0; k < node->num_inputs; k++) {
            last = node->inputs[k] == value ? i : last;
        }
    }
    return last;
}

/* A slot that no value needs, nor the step itself: types may have other sizes. */
static int take_slot(slots *s, int step, int end)
{
    int slot = 0;
    while (slot < s->count && s->ends[slot] >= step) {
        slot++;
    }
    s->count += slot == s->count;
    s->ends[slot] = end;
    return slot;
}

static void describe_types(const finding *f, const weft_graph_node *node, weft_stencil_step *step)
{
    weft_lowering lowering = { .operation = node->call->operation,
                               .num_inputs = node->num_inputs,
                               .output = value_at(f, node->outputs[0])->layout };
    for (int i = 0; i < node->num_inputs; i++) {
        lowering.inputs[i] = value_at(f, node->inputs[i])->layout;
    }
    weft_elementwise_types(&lowering, &step->args);
}

/* The steps; slots_of[]: by member. False: there are too many views, or an input has another shape. */
static bool write_steps(const finding *f, weft_stencil_making *m, weft_stencil *s)
{
    slots all = { .count = 0 };
    int slots_of[WEFT_STENCIL_STEPS];
    bool done = true;
    for (int i = 0; i < f->num_members && done; i++) {
        const weft_graph_node *node = node_at(f, f->members[i]);
        weft_stencil_step *step = &s->steps[i];
        *step = (weft_stencil_step){ .kernel = node->call->operation->kernel,
                                     .source = node->source,
                                     .num_inputs = node->num_inputs,
                                     .function = node->call->function };
        describe_types(f, node, step);
        for (int k = 0; k < node->num_inputs && done; k++) {
            int member = 0;
            while (member < i && node_at(f, f->members[member])->outputs[0] != node->inputs[k]) {
                member++;
            }
            step->operands[k] = member < i ? -1 - slots_of[member] : weft_stencil_add_view(m, node->inputs[k]);
            done = member < i || step->operands[k] >= 0;
        }
        bool last = i == f->num_members - 1;
        step->slot = slots_of[i] = last ? -1 : take_slot(&all, i, last_reader(f, node->outputs[0]));
        step->args.streams = step->args.streams && last;
        int64_t size = (int64_t)weft_dtype_size(step->args.types[0]);
        s->slot_element = last ? s->slot_element : weft_max_i64(s->slot_element, size);
    }
    s->num_steps = f->num_members;
    s->num_slots = all.count;
    return done;
}

/* The members as a program. NULL, with f->failed false: they do not fit. */
static weft_stencil *write_program(finding *f, weft_stencil_making *m)
{
    size_t steps = (size_t)f->num_members * sizeof(weft_stencil_step), most = WEFT_STENCIL_VIEWS * sizeof(weft_stencil_view);
    weft_stencil *s = calloc(1, sizeof(*s) + steps + most);
    if (s == NULL) {
        f->failed = true;
        return NULL;
    }
    s->slot_element = 1;
    if (!write_steps(f, m, s) || !m->shifted || !weft_stencil_find_inputs(m)) {
        free(s);
        return NULL;
    }
    s->num_views = m->num_views;
    s->num_inputs = m->num_inputs;
    for (int i = 0; i < m->num_inputs; i++) {
        s->source_of[i] = m->input_sources[i];
    }
    for (int i = 0; i < m->num_sources; i++) {
        s->types[i] = weft_trace_layout(m->known->trace, m->source_values[i])->dtype;
    }
    memcpy(s->constants, m->constants, sizeof(s->constants));
    s->views_at = (int64_t)(sizeof(*s) + steps);
    s->bytes = s->views_at + (int64_t)((size_t)m->num_views * sizeof(weft_stencil_view));
    memcpy((char *)s + s->views_at, m->views, (size_t)m->num_views * sizeof(weft_stencil_view));
    return s;
}

/* ---- the call -------------------------------------------------------------------------------------------- */

/* Whether the call, on tensors without data, works where its inputs are and makes the output where it is. */
static bool keeps_layouts(finding *f, weft_call *call, const int inputs[], const weft_layout *output)
{
    weft_tensor_impl *tensors[WEFT_MAX_INPUTS];
    if (!weft_scope_begin_unrecorded()) {
        f->failed = true;
        return false;
    }
    bool keeps = true;
    for (int i = 0; i < call->num_inputs && keeps; i++) {
        tensors[i] = weft_tensor_fake(call->function, value_at(f, inputs[i])->layout);
        keeps = tensors[i] != NULL;
        call->inputs[i] = keeps ? tensors[i]->handle : NULL;
    }
    f->failed |= !keeps;
    if (keeps) {
        weft_sharding own;
        weft_cached_call *cached;
        int guessed;
        const weft_sharding *sharding = weft_obtain_layouts(call, tensors, &own, &guessed, &cached);
        f->failed |= sharding == NULL;
        keeps = sharding != NULL && sharding->outputs[0] == output;
        for (int i = 0; i < call->num_inputs && keeps; i++) {
            keeps = sharding->inputs[i] == value_at(f, inputs[i])->layout;
        }
        weft_cache_release(cached);
    }
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return keeps;
}

/* Removes the members, and calls whose outputs nothing needs without them. Returns how many. */
static int remove_members(finding *f, const int inputs[], int num_inputs)
{
    int last = f->members[f->num_members - 1], count = 0;
    for (int i = 0; i < num_inputs; i++) {
        f->known.num_uses[inputs[i]]++;
    }
    for (int n = last; n >= 0; n--) {
        weft_graph_node *node = weft_trace_node(f->body->trace, (size_t)n);
        bool unused = !node->removed && f->known.moves[n] && f->known.num_uses[node->outputs[0]] == 0 &&
                      !value_at(f, node->outputs[0])->is_promised;
        if (!f->is_member[n] && !unused) {
            continue;
        }
        weft_body_remove(node);
        count++;
        for (int i = 0; i < node->num_inputs; i++) {
            f->known.num_uses[node->inputs[i]]--;
        }
    }
    return count;
}

/* Replaces the members by a call. False: they do not fit together so, or (f->failed) an error is kept. */
static bool replace(finding *f, weft_stencil_making *m, weft_stencil *program)
{
    int last = f->members[f->num_members - 1], inputs[WEFT_MAX_KERNEL_INPUTS];
    weft_call call = { .function = "stencil", .operation = &weft_operation_stencil, .num_inputs = m->num_inputs };
    if (!weft_stencil_attributes(m, &call.attributes)) {
        return false;
    }
    for (int i = 0; i < m->num_inputs; i++) {
        inputs[i] = m->source_values[m->input_sources[i]];
    }
    if (!keeps_layouts(f, &call, inputs, m->output)) {
        return false;
    }
    program->num_calls = remove_members(f, inputs, m->num_inputs);
    char text[80];
    snprintf(text, sizeof(text), "%d calls in one pass, %d of them on %d views", program->num_calls, f->num_members, m->num_views);
    call.details = &(weft_call_details){ .context = program, .context_size = (size_t)program->bytes, .text = text };
    f->failed = !weft_body_insert(f->body, (size_t)last, &call, inputs, 1, node_at(f, last)->outputs);
    f->body->counts.stencils++;
    return true;
}

static bool is_large(const finding *f, const weft_layout *layout)
{
    int64_t count = layout->ndim == 0 ? 0 : weft_layout_shard(layout, weft_layout_largest_rank(layout)).count;
    bool clusters = (f->body->passes & WEFT_PASS_CLUSTER) != 0;
    return count * (int64_t)weft_dtype_size(layout->dtype) > (clusters ? MIN_BYTES : 0);
}

/* The stencil that ends with this call, with at most so many calls. */
static bool make_stencil(finding *f, int last, int most)
{
    const weft_layout *output = value_at(f, node_at(f, last)->outputs[0])->layout;
    weft_stencil_making *m = calloc(1, sizeof(*m));
    find_members(f, last, most);
    weft_stencil *program = NULL;
    if (m != NULL) {
        m->known = &f->known;
        m->output = output;
        program = write_program(f, m);
    }
    f->failed |= m == NULL;
    bool done = program != NULL && replace(f, m, program);
    forget_members(f);
    free(program);
    free(m);
    return done;
}

bool weft_pass_stencil(weft_graph_body *body)
{
    finding f = { .body = body };
    if (weft_runtime.devices.bytes > 0) { /* the kernel is one for CPUs */
        return true;
    }
    bool done = examine(&f), any = false;
    for (size_t n = 0; n < body->trace->nodes.count && done; n++) {
        any |= f.known.moves[n];
    }
    for (int n = (int)body->trace->nodes.count - 1; n >= 0 && done && any && !f.failed; n--) {
        const weft_graph_node *node = node_at(&f, n);
        bool may_end = f.elementwise[n] && !node->removed && !f.known.changed[node->outputs[0]] &&
                       is_large(&f, value_at(&f, node->outputs[0])->layout);
        for (int most = WEFT_STENCIL_STEPS; may_end && most > 0 && !f.failed; most /= 2) {
            may_end = !make_stencil(&f, n, most); /* of fewer calls, where so many do not fit */
        }
    }
    free(f.known.changed);
    free(f.known.defined);
    free(f.known.moves);
    return done && !f.failed;
}
