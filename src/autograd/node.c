/* Nodes of the tape: their life. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

weft_tape_node *weft_tape_node_new(const char *function, weft_tape_kind kind, int num_inputs, int num_outputs,
                                   size_t extra, void **room)
{
    weft_tape *tape = weft_runtime.tape;
    size_t inputs = weft_aligned(sizeof(weft_tape_node)),
           outputs = inputs + weft_aligned((size_t)num_inputs * sizeof(weft_tape_input)),
           end = outputs + weft_aligned((size_t)num_outputs * sizeof(weft_tape_value));
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

void weft_saved_release(weft_saved *saved)
{
    weft_tensor_impl *tensor = saved->tensor;
    *saved = (weft_saved){ .tensor = NULL };
    if (tensor != NULL) {
        weft_tensor_unreference(tensor);
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

/* ---- values that a segment uses -------------------------------------------------------------------------- */

static bool is_noted(const weft_tape *tape, const weft_tape_value *value)
{
    weft_tape_value *const *used = tape->used.items;
    for (size_t i = 0; i < tape->used.count; i++) {
        if (used[i] == value) {
            return true;
        }
    }
    return false;
}

bool weft_tape_use(weft_tape *tape, const char *function, const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
    if (tensor == NULL || tensor->tape == NULL || is_noted(tape, tensor->tape)) {
        return true;
    }
    weft_tape_value **entry = weft_vec_push(&tape->used, sizeof(*entry));
    if (entry == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to record the call for its gradient");
        return false;
    }
    *entry = tensor->tape;
    tensor->tape->node->references++;
    return true;
}
