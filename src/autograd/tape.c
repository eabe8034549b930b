/* The tape: its life, and what functions of the program may do to it. */
#include <stdlib.h>

#include "autograd/tape.h"

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
    if (tape->casts.count > visit->casts) {
        weft_casts_close(tape, visit->casts);
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
