/* A backward pass. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "ops/ops.h"

static weft_tape_node *node_at(const weft_pass *pass, size_t i)
{
    return ((weft_tape_node **)pass->nodes.items)[i];
}

static bool is_wanted(const weft_pass *pass, const weft_tape_value *value)
{
    if (value == NULL) {
        return false;
    }
    const weft_tape_leaf *leaf = weft_tape_leaf_of(value);
    return value->chosen > 0 ||
           (leaf != NULL ? pass->accumulates && leaf->tensor != NULL /* else nobody can ask for its gradient */
                         : value->node->pass == pass->number && value->node->needed);
}

/* Whether the value was converted to 16 bits from f32, and moved at most since: its gradient may stay f32, as the conversion's
 * gradient is that in f32. Not if the program gets to see it. */
static bool is_wide(const weft_pass *pass, const weft_tape_value *value)
{
    while (value != NULL && !pass->create_graph && value->chosen == 0 && value->node->kind == WEFT_TAPE_CALL &&
           value->node->num_inputs == 1 && weft_dtype_size(value->layout->dtype) == 2) {
        const weft_call *call = value->node->call;
        bool converts = weft_is_conversion(call) && call->operation->gradient.by_program == NULL;
        const weft_tape_value *source = value->node->inputs[0].value;
        if (source == NULL || !(converts || weft_is_gather(call))) {
            return false;
        }
        if (source->layout->dtype == WEFT_F32) {
            return true;
        }
        value = source->layout->dtype == value->layout->dtype ? source : NULL;
    }
    return false;
}

/* ---- nodes to visit -------------------------------------------------------------------------------------- */

static int reach(const weft_pass *pass, const weft_tape_value *value)
{
    weft_tape_node *node = value == NULL ? NULL : value->node;
    if (node == NULL || node->kind == WEFT_TAPE_LEAF || node->pass == pass->number || node->number <= pass->oldest) {
        return 0;
    }
    node->pass = pass->number;
    node->needed = false;
    return 1;
}

/* Collects the nodes that the outputs depend on. Nodes that nobody refers to any more are not on the tape. */
static bool collect(weft_pass *pass, int num_outputs, weft_tape_value *const outputs[])
{
    int left = 0;
    for (int i = 0; i < num_outputs; i++) {
        left += reach(pass, outputs[i]);
    }
    for (weft_tape_node *node = weft_runtime.tape->newest; node != NULL && left > 0; node = node->older) {
        if (node->pass != pass->number) {
            continue;
        }
        left--;
        weft_tape_node **entry = weft_vec_push(&pass->nodes, sizeof(weft_tape_node *));
        if (entry == NULL) {
            weft_fail(WEFT_ERR_NOMEM, pass->function, "no memory for a backward pass");
            return false;
        }
        *entry = node;
        node->references++;
        for (int i = 0; i < node->num_inputs; i++) {
            left += reach(pass, node->inputs[i].value);
        }
    }
    return true;
}

static bool expect(weft_pass *pass, weft_tape_leaf *leaf)
{
    if (leaf->expected++ > 0) {
        return true;
    }
    weft_tape_leaf **entry = weft_vec_push(&pass->leaves, sizeof(*entry));
    if (entry == NULL) {
        leaf->expected = 0;
        weft_fail(WEFT_ERR_NOMEM, pass->function, "no memory for a backward pass");
        return false;
    }
    *entry = leaf;
    leaf->node.references++;
    return true;
}

/* Marks the nodes that a wanted gradient passes through, and counts those that each leaf will get. */
static bool mark(weft_pass *pass)
{
    for (size_t n = pass->nodes.count; n-- > 0;) {
        weft_tape_node *node = node_at(pass, n);
        for (int i = 0; i < node->num_inputs; i++) {
            const weft_tape_value *value = node->inputs[i].value;
            bool wanted = is_wanted(pass, value);
            weft_tape_leaf *leaf = wanted ? weft_tape_leaf_of(value) : NULL;
            node->needed |= wanted;
            if (leaf != NULL && !expect(pass, leaf)) {
                return false;
            }
        }
    }
    return true;
}

/* Everything that can be refused is refused before the first gradient. */
static bool check(const weft_pass *pass, const weft_tape_node *node)
{
    const weft_call *call = node->call;
    const char *name = call != NULL                        ? call->function
                       : node->kind == WEFT_TAPE_SEGMENT ? "weft_recompute()"
                                                          : "weft_custom_gradient()";
    if (node->spent) { /* it knows its inputs no more, and so not whether it is needed */
        weft_fail(WEFT_ERR_STATE, pass->function,
                  "the tape of %s has been released by a former backward pass: ask that one to retain it", name);
        return false;
    }
    if (!node->needed) {
        return true;
    }
    if (pass->create_graph && node->no_second != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, pass->function, "gradients through %s cannot be differentiated again: %s", name,
                  node->no_second);
        return false;
    }
    const char *missing = call == NULL ? NULL : weft_call_missing_gradient(call);
    if (missing != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, pass->function, "the gradient of %s (%s) is not known: %s", name,
                  weft_call_is_action(call) && call->details->text != NULL ? call->details->text : call->operation->name,
                  missing);
        return false;
    }
    return true;
}

static bool check_all(const weft_pass *pass)
{
    bool right = true;
    for (size_t n = 0; n < pass->nodes.count && right; n++) {
        right = check(pass, node_at(pass, n));
    }
    return right;
}

/* ---- leaves ---------------------------------------------------------------------------------------------- */

static bool add_to_leaf(const weft_pass *pass, weft_tape_leaf *leaf, weft_tensor *sum)
{
    weft_tensor_impl *former = leaf->gradient;
    if (former != NULL && !pass->create_graph) {
        return weft_add_inplace(former->handle, sum, 1) != NULL;
    }
    if (former != NULL) {
        sum = weft_add(former->handle, sum);
    }
    leaf->gradient = sum == NULL ? former : weft_own_gradient(pass, weft_tensor_get(sum));
    if (leaf->gradient == NULL) {
        leaf->gradient = former;
        return false;
    }
    if (former != NULL) {
        weft_tensor_unreference(former);
    }
    return sum != NULL;
}

static bool call_hook(const weft_pass *pass, weft_tape_leaf *leaf)
{
    if (leaf->hook == NULL || leaf->tensor == NULL) {
        return true;
    }
    weft_tape *tape = weft_runtime.tape;
    leaf->node.references++; /* the hook may release the leaf */
    weft_tape_visit visit;
    weft_tape_visit_begin(&visit, tape->no_grad + 1);
    weft_status status = leaf->hook(leaf->tensor->handle, leaf->gradient->handle, leaf->hook_context);
    weft_tape_visit_end(&visit);
    weft_tape_node_release(&leaf->node);
    if (status != WEFT_OK) {
        weft_fail(status, pass->function, "a hook of a leaf's gradient returned an error");
    }
    return status == WEFT_OK;
}

/* So that its sum over ranks is found in timelines: docs/profiling.md. */
static void name_gradient(const weft_tape_leaf *leaf)
{
    if (weft_runtime.trace == NULL || leaf->tensor == NULL || leaf->tensor->name == NULL) {
        return;
    }
    char name[128];
    snprintf(name, sizeof(name), "%s.grad", leaf->tensor->name);
    for (const weft_partial_sum *part = &leaf->value.first; part != NULL; part = part->next) {
        if (part->sum->name == NULL) {
            weft_tensor_set_name(part->sum->handle, name);
        }
    }
}

/* All gradients of a leaf have come: adds their sum to its gradient. */
static bool complete(const weft_pass *pass, weft_tape_leaf *leaf)
{
    weft_tensor *sum;
    if (leaf->value.first.sum == NULL) {
        return true;
    }
    if (!weft_scope_begin_unrecorded()) {
        weft_sums_drop(&leaf->value);
        return false;
    }
    name_gradient(leaf);
    const weft_layout *layout = weft_gradient_layout(pass->function, &leaf->value);
    bool done = layout != NULL && weft_sums_take(pass, &leaf->value, layout, &sum) && add_to_leaf(pass, leaf, sum);
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return done && call_hook(pass, leaf);
}

/* ---- a node ---------------------------------------------------------------------------------------------- */

/* Arguments of weft_call_gradients() for a node. */
typedef struct visit {
    const weft_pass *pass;
    weft_tape_node *node;
    weft_own_call own;
    bool *wanted, *wide;
    weft_tensor **tensors, **outputs, **output_gradients, **gradients;
    weft_tape_leaf **complete; /* with references: leaves that wait for no other gradient */
    int num_complete;
} visit;

static bool begin_visit(visit *v)
{
    weft_tape_node *node = v->node;
    size_t inputs = (size_t)node->num_inputs, outputs = (size_t)node->num_outputs;
    v->tensors = calloc(2 * inputs + 2 * outputs + 1, sizeof(weft_tensor *));
    v->complete = calloc(inputs + 1, sizeof(weft_tape_leaf *));
    v->wanted = calloc(2 * inputs + 1, sizeof(bool));
    if (v->tensors == NULL || v->complete == NULL || v->wanted == NULL) {
        weft_fail(WEFT_ERR_NOMEM, v->pass->function, "no memory for the gradients of a call");
        return false;
    }
    v->wide = v->wanted + inputs;
    v->gradients = v->tensors + inputs;
    v->outputs = v->gradients + inputs;
    v->output_gradients = v->outputs + outputs;
    for (int i = 0; i < node->num_inputs; i++) {
        v->wanted[i] = is_wanted(v->pass, node->inputs[i].value);
        v->wide[i] = v->wanted[i] && is_wide(v->pass, node->inputs[i].value);
        weft_tape_leaf *leaf = v->wanted[i] ? weft_tape_leaf_of(node->inputs[i].value) : NULL;
        if (leaf != NULL && --leaf->expected == 0 && v->pass->accumulates) {
            leaf->node.references++;
            v->complete[v->num_complete++] = leaf;
        }
    }
    return true;
}

/* A saved value, or a tensor without data where the gradient reads none; as `value` of the tape, if the pass is
 * recorded. NULL with the error kept. */
static weft_tensor *restored(const visit *v, weft_saved *saved, const weft_layout *layout, weft_tape_value *value)
{
    const char *function = v->pass->function;
    if (saved->tensor == NULL) {
        return weft_tensor_handle(weft_tensor_fake(function, layout));
    }
    weft_tensor_impl *tensor = weft_saved_restore(function, saved, !v->pass->retain);
    if (tensor != NULL && v->pass->create_graph && value != NULL) {
        weft_tape_set(tensor, value);
    }
    return weft_tensor_handle(tensor);
}

static bool restore(visit *v)
{
    weft_tape_node *node = v->node;
    bool done = true;
    for (int i = 0; i < node->num_inputs && done; i++) {
        weft_tape_input *input = &node->inputs[i];
        v->tensors[i] = input->layout == NULL ? NULL : restored(v, &input->saved, input->layout, input->value);
        done = input->layout == NULL || v->tensors[i] != NULL;
    }
    for (int i = 0; i < node->num_outputs && done; i++) {
        weft_tape_value *value = &node->outputs[i];
        v->outputs[i] = value->layout == NULL ? NULL : restored(v, &value->saved, value->layout, value);
        done = value->layout == NULL || v->outputs[i] != NULL;
    }
    return done;
}

/* The recorded call on the restored tensors. */
static void make_call(visit *v)
{
    weft_call_on(&v->own, v->node->call, v->tensors);
}

/* The sums of the outputs' gradients; *any: there are some. The gradient of a chosen output remains its sum. */
static bool take_output_gradients(visit *v, bool *any)
{
    bool done = true;
    for (int i = 0; i < v->node->num_outputs && done; i++) {
        weft_tape_value *value = &v->node->outputs[i];
        if (value->layout == NULL) {
            continue;
        }
        done = weft_sums_take(v->pass, value, value->gradient_layout, &v->output_gradients[i]);
        weft_tensor *gradient = v->output_gradients[i];
        *any |= gradient != NULL;
        if (done && gradient != NULL && value->chosen > 0) {
            done = weft_sums_add(v->pass, value, gradient, false);
        }
    }
    return done;
}

/* The gradient of a redistribution's input in the dual of the input's layout; others on the input's mesh. */
static weft_tensor *placed(const visit *v, const weft_tape_value *value, weft_tensor *gradient)
{
    const weft_layout *layout = weft_layout_of(gradient);
    bool redistribution = v->node->call != NULL && weft_call_does(v->node->call, WEFT_MOVES);
    if (layout->mesh == value->layout->mesh && (!redistribution || weft_tape_leaf_of(value) != NULL)) {
        return gradient;
    }
    const weft_layout *dual = weft_dual_layout(v->pass->function, value->layout, 1, &layout);
    return dual == NULL ? NULL : weft_redistribute(gradient, dual->mesh->handle, dual->placements);
}

static bool deliver(visit *v)
{
    bool done = true;
    for (int i = 0; i < v->node->num_inputs && done; i++) {
        weft_tape_value *value = v->wanted[i] ? v->node->inputs[i].value : NULL;
        if (value == NULL || v->gradients[i] == NULL) {
            continue;
        }
        weft_tensor *gradient = placed(v, value, v->gradients[i]);
        done = gradient != NULL && weft_sums_add(v->pass, value, gradient, true);
    }
    return done;
}

static bool compute(visit *v)
{
    bool any = false;
    if (!take_output_gradients(v, &any)) {
        return false;
    }
    if (!any || !v->node->needed) {
        return true;
    }
    if (v->node->differentiate != NULL) {
        return v->node->differentiate(v->pass, v->node, v->wanted, v->output_gradients, v->gradients) && deliver(v);
    }
    bool added = false;
    if (v->wanted[0] && v->node->num_outputs == 1 &&
        !weft_sums_add_part(v->pass, v->node->inputs[0].value, v->node->call, v->output_gradients[0], &added)) {
        return false;
    }
    if (added) {
        return true;
    }
    if (!restore(v)) {
        return false;
    }
    make_call(v);
    return weft_call_gradients(&(weft_gradient){ .call = &v->own.call,
                                                 .outputs = v->outputs,
                                                 .output_gradients = v->output_gradients,
                                                 .wanted = v->wanted,
                                                 .wide = v->wide,
                                                 .differentiated = v->pass->create_graph,
                                                 .gradients = v->gradients }) == WEFT_OK &&
           deliver(v);
}

/* Saved values are released before hooks are called, so that an optimiser's step in a hook copies nothing. */
static bool run_visit(visit *v)
{
    bool done = begin_visit(v) && weft_scope_begin_unrecorded();
    if (done) {
        done = compute(v);
        weft_scope_end_keeping(0, NULL, NULL, NULL);
    }
    if (v->node->needed && !v->pass->retain && !v->node->stays) { /* also after an error: its values may be gone */
        weft_tape_node_spend(v->node);
    }
    for (int i = 0; i < v->num_complete; i++) {
        done = done && complete(v->pass, v->complete[i]);
        weft_tape_node_release(&v->complete[i]->node);
    }
    free(v->tensors);
    free(v->complete);
    free(v->wanted);
    return done;
}

/* ---- the pass -------------------------------------------------------------------------------------------- */

/* Outputs that are leaves themselves. */
static bool complete_outputs(const weft_pass *pass, int num_outputs, weft_tape_value *const outputs[])
{
    bool done = true;
    for (int i = 0; i < num_outputs && pass->accumulates && done; i++) {
        weft_tape_leaf *leaf = outputs[i] == NULL ? NULL : weft_tape_leaf_of(outputs[i]);
        done = leaf == NULL || leaf->expected > 0 || complete(pass, leaf);
    }
    return done;
}

/* Clears the state that a pass, perhaps interrupted, leaves in values. */
static void clear(const weft_pass *pass)
{
    for (size_t n = 0; n < pass->nodes.count; n++) {
        weft_tape_node *node = node_at(pass, n);
        for (int i = 0; i < node->num_outputs; i++) {
            if (node->outputs[i].chosen == 0) {
                weft_sums_drop(&node->outputs[i]);
            }
        }
        weft_tape_node_release(node);
    }
    weft_tape_leaf **leaves = pass->leaves.items;
    for (size_t i = 0; i < pass->leaves.count; i++) {
        leaves[i]->expected = 0;
        if (leaves[i]->value.chosen == 0) {
            weft_sums_drop(&leaves[i]->value);
        }
        weft_tape_node_release(&leaves[i]->node);
    }
}

bool weft_pass_run(weft_pass *pass, int num_outputs, weft_tape_value *const outputs[],
                   weft_tensor *const output_gradients[])
{
    weft_tape *tape = weft_runtime.tape;
    int no_grad = tape->no_grad, no_grad_min = tape->no_grad_min;
    size_t casts_min = tape->casts_min;
    bool in_pass = tape->in_pass, in_segment = tape->in_segment;
    tape->in_pass = true;
    tape->in_segment = false;
    tape->no_grad_min = tape->no_grad = pass->create_graph ? 0 : no_grad + 1;
    tape->casts_min = tape->casts.count;
    pass->number = ++tape->passes;
    bool done = collect(pass, num_outputs, outputs) && mark(pass) && check_all(pass);
    for (int i = 0; i < num_outputs && done; i++) {
        bool seeded = outputs[i] != NULL && is_wanted(pass, outputs[i]);
        done = !seeded || weft_sums_add(pass, outputs[i], output_gradients[i], false);
    }
    done = done && complete_outputs(pass, num_outputs, outputs);
    for (size_t n = 0; n < pass->nodes.count && done; n++) {
        done = run_visit(&(visit){ .pass = pass, .node = node_at(pass, n) });
    }
    clear(pass);
    weft_vec_free(&pass->nodes);
    weft_vec_free(&pass->leaves);
    tape->no_grad = no_grad;
    tape->no_grad_min = no_grad_min;
    tape->casts_min = casts_min;
    tape->in_pass = in_pass;
    tape->in_segment = in_segment;
    return done;
}
