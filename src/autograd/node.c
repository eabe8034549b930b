/* Nodes of the tape: their life, and the tape's own. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

static size_t rounded(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

weft_tape_node *weft_tape_node_new(const char *function, weft_tape_kind kind, int num_inputs, int num_outputs,
                                   size_t extra, void **room)
{
    weft_tape *tape = weft_runtime.tape;
    size_t inputs = rounded(sizeof(weft_tape_node)),
           outputs = inputs + rounded((size_t)num_inputs * sizeof(weft_tape_input)),
           end = outputs + rounded((size_t)num_outputs * sizeof(weft_tape_value));
    char *block = malloc(end + extra);
    if (block == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to record the call for its gradient");
        return NULL;
    }
    memset(block, 0, end);
    weft_tape_node *node = (weft_tape_node *)block;
    *node = (weft_tape_node){ .kind = kind,
                              .number = ++tape->numbers,
                              .references = 1,
                              .num_inputs = num_inputs,
                              .num_outputs = num_outputs,
                              .inputs = (weft_tape_input *)(block + inputs),
                              .outputs = (weft_tape_value *)(block + outputs),
                              .older = tape->newest };
    for (int i = 0; i < num_outputs; i++) {
        node->outputs[i].node = node;
    }
    if (tape->newest != NULL) {
        tape->newest->newer = node;
    }
    tape->newest = node;
    *room = block + end;
    return node;
}

static void delete_leaf(weft_tape_leaf *leaf)
{
    weft_tape *tape = weft_runtime.tape;
    *(leaf->previous == NULL ? &tape->leaves : &leaf->previous->next) = leaf->next;
    if (leaf->next != NULL) {
        leaf->next->previous = leaf->previous;
    }
    if (leaf->gradient != NULL) {
        weft_tensor_unreference(leaf->gradient);
    }
    free(leaf);
}

/* Takes a node without references off the tape. */
static void unlink_node(weft_tape_node *node)
{
    *(node->newer == NULL ? &weft_runtime.tape->newest : &node->newer->older) = node->older;
    if (node->older != NULL) {
        node->older->newer = node->newer;
    }
}

/* Gives up what the node refers to. Nodes that lose their last reference are pushed on *dead, a list by `newer`: a
 * chain of any length needs no recursion. */
static void release_contents(weft_tape_node *node, weft_tape_node **dead)
{
    for (int i = 0; i < node->num_inputs; i++) {
        weft_tape_input *input = &node->inputs[i];
        weft_saved_release(&input->saved);
        weft_tape_node *source = input->value == NULL ? NULL : input->value->node;
        input->value = NULL;
        if (source == NULL || --source->references > 0) {
            continue;
        }
        if (source->kind == WEFT_TAPE_LEAF) {
            delete_leaf((weft_tape_leaf *)source);
        } else {
            unlink_node(source);
            source->newer = *dead;
            *dead = source;
        }
    }
    for (int i = 0; i < node->num_outputs; i++) {
        weft_saved_release(&node->outputs[i].saved);
    }
}

static void release_dead(weft_tape_node *dead)
{
    while (dead != NULL) {
        weft_tape_node *node = dead;
        dead = node->newer;
        release_contents(node, &dead);
        free(node);
    }
}

void weft_tape_node_release(weft_tape_node *node)
{
    if (--node->references > 0) {
        return;
    }
    if (node->kind == WEFT_TAPE_LEAF) {
        delete_leaf((weft_tape_leaf *)node);
        return;
    }
    unlink_node(node);
    node->newer = NULL;
    release_dead(node);
}

void weft_tape_node_spend(weft_tape_node *node)
{
    weft_tape_node *dead = NULL;
    node->spent = true;
    release_contents(node, &dead);
    release_dead(dead);
}

/* Nobody can ask for the gradient any more; one that was recorded would hold the leaf. */
static void forget_tensor(weft_tape_leaf *leaf)
{
    weft_tensor_impl *gradient = leaf->gradient;
    leaf->tensor = NULL;
    leaf->gradient = NULL;
    if (gradient != NULL) {
        weft_tensor_unreference(gradient);
    }
}

void weft_tape_set(weft_tensor_impl *tensor, weft_tape_value *value)
{
    weft_tape_value *former = tensor->tape;
    if (value != NULL) {
        value->node->references++;
    }
    tensor->tape = value;
    if (former != NULL) {
        weft_tape_leaf *leaf = weft_tape_leaf_of(former);
        if (leaf != NULL && leaf->tensor == tensor) {
            forget_tensor(leaf);
        }
        weft_tape_node_release(former->node);
    }
}

/* ---- functions of the program ---------------------------------------------------------------------------- */

void weft_tape_visit_begin(weft_tape_visit *visit, int no_grad)
{
    weft_tape *tape = weft_runtime.tape;
    *visit = (weft_tape_visit){ .no_grad = 0 };
    if (tape != NULL) {
        *visit = (weft_tape_visit){ .no_grad = tape->no_grad,
                                    .no_grad_min = tape->no_grad_min,
                                    .casts = tape->casts.count,
                                    .casts_min = tape->casts_min };
        tape->no_grad_min = tape->no_grad = no_grad;
        tape->casts_min = tape->casts.count;
    }
    weft_visit_begin(&visit->scopes);
}

void weft_tape_visit_end(const weft_tape_visit *visit)
{
    weft_tape *tape = weft_runtime.tape;
    weft_visit_end(&visit->scopes);
    if (tape == NULL) {
        return;
    }
    tape->casts_min = visit->casts;
    while (tape->casts.count > visit->casts) {
        weft_autocast_end();
    }
    tape->no_grad = visit->no_grad;
    tape->no_grad_min = visit->no_grad_min;
    tape->casts_min = visit->casts_min;
}

/* ---- the tape's life --------------------------------------------------------------------------------------- */

static void drop(weft_tensor_impl *tensor)
{
    weft_gathering_drop(tensor);
    weft_tape_set(tensor, NULL);
}

static const weft_tensor_owner owner = { .drop = drop, .gather = weft_gather_now };

weft_tape *weft_tape_obtain(const char *function)
{
    if (weft_runtime.tape != NULL) {
        return weft_runtime.tape;
    }
    weft_tape *tape = calloc(1, sizeof(*tape));
    if (tape == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a tape");
        return NULL;
    }
    weft_runtime.tape = tape;
    weft_tensors_set_owner(&owner);
    tape->interposer = weft_tape_interposer();
    weft_interposer_install(&tape->interposer);
    return tape;
}

static void meet_layouts(const weft_tape_node *node)
{
    for (int i = 0; i < node->num_inputs; i++) {
        weft_meet_layout(node->inputs[i].layout);
        weft_meet_layout(node->inputs[i].saved.gathered);
    }
    for (int i = 0; i < node->num_outputs; i++) {
        weft_meet_layout(node->outputs[i].layout);
        weft_meet_layout(node->outputs[i].saved.gathered);
        weft_meet_layout(node->outputs[i].gradient_layout);
    }
    if (node->call != NULL) {
        weft_call_meet_layouts(node->call);
    }
}

void weft_autograd_meet_layouts(void)
{
    const weft_tape *tape = weft_runtime.tape;
    if (tape == NULL) {
        return;
    }
    for (const weft_tape_node *node = tape->newest; node != NULL; node = node->older) {
        meet_layouts(node);
    }
    for (const weft_tape_leaf *leaf = tape->leaves; leaf != NULL; leaf = leaf->next) {
        weft_meet_layout(leaf->value.layout);
        weft_meet_layout(leaf->value.saved.gathered);
        weft_meet_layout(leaf->value.gradient_layout);
    }
}

void weft_autograd_stop(void)
{
    weft_tape *tape = weft_runtime.tape;
    if (tape == NULL) {
        return;
    }
    weft_interposer_remove(&tape->interposer);
    weft_autocast_stop(tape);
    /* Saved tensors and gradients go with the nodes; tensors may be in any order. */
    for (weft_tensor_impl *tensor = weft_runtime.tensors->newest; tensor != NULL;) {
        weft_tensor_impl *older = tensor->older;
        if (tensor->handle != NULL && (tensor->tape != NULL || tensor->gathering != NULL)) {
            tensor->references++; /* a node may have the last one */
            drop(tensor);
            older = tensor->older;
            weft_tensor_unreference(tensor);
        }
        tensor = older;
    }
    weft_vec_free(&tape->used);
    free(tape);
    weft_runtime.tape = NULL;
    weft_tensors_set_owner(NULL);
}
