/* Values that are saved for the backward pass. */
#include "autograd/tape.h"

/* The tensor that this one was gathered from, if it is to be gathered again; NULL: it is saved itself. */
static const weft_saved *source_of(const weft_tensor_impl *tensor)
{
    const weft_tape_node *node = tensor->tape == NULL ? NULL : tensor->tape->node;
    bool regathered = node != NULL && node->kind == WEFT_TAPE_CALL && node->call->action != NULL &&
                      node->call->action->moves && !node->spent && node->inputs[0].saved.tensor != NULL;
    return regathered ? &node->inputs[0].saved : NULL;
}

/* The same values in memory of the library's, as a share. NULL with the error kept. */
static weft_tensor_impl *copy_of(const char *function, weft_tensor_impl *tensor)
{
    if (!weft_scope_open_unrecorded()) {
        return NULL;
    }
    weft_tensor_impl *copy = weft_tensor_new(function, tensor->layout);
    bool done = copy != NULL && weft_tensor_copy_into(function, copy, tensor);
    weft_tensor_impl *share = done ? weft_tensor_save(function, copy) : NULL;
    weft_scope_close_keeping(0, NULL, NULL, NULL);
    return share;
}

static void refer_to(weft_tensor_impl *borrowed)
{
    borrowed->references++;
    borrowed->saved_references++;
}

bool weft_save(const char *function, weft_tensor_impl *tensor, bool changes, weft_saved *saved)
{
    const weft_saved *source = source_of(tensor);
    if (source != NULL) {
        *saved = *source;
        saved->gathered = tensor->layout;
        if (saved->versioned) {
            refer_to(saved->tensor);
        } else {
            saved->tensor = weft_tensor_save(function, source->tensor);
        }
        return saved->tensor != NULL;
    }
    *saved = (weft_saved){ .versioned = tensor->borrowed && !changes, .version = tensor->version };
    if (saved->versioned) {
        refer_to(tensor);
        saved->tensor = tensor;
    } else {
        saved->tensor = tensor->borrowed ? copy_of(function, tensor) : weft_tensor_save(function, tensor);
    }
    return saved->tensor != NULL;
}

void weft_saved_release(weft_saved *saved)
{
    weft_tensor_impl *tensor = saved->tensor;
    if (tensor != NULL && saved->versioned) {
        tensor->saved_references--;
    }
    *saved = (weft_saved){ .tensor = NULL };
    if (tensor != NULL) {
        weft_tensor_unreference(tensor);
    }
}

bool weft_saved_check(const char *function, const weft_saved *saved, const char *what, const char *of)
{
    bool same = saved->tensor == NULL || !saved->versioned || saved->tensor->version == saved->version;
    if (!same) {
        weft_fail(WEFT_ERR_STATE, function,
                  "%s of %s, which its gradient reads, is in the program's memory and has been written to since",
                  what, of);
    }
    return same;
}

/* The saved tensor as one of the innermost scope. */
static weft_tensor_impl *itself(const char *function, weft_saved *saved, bool last)
{
    if (saved->versioned) {
        return weft_tensor_share(saved->tensor);
    }
    weft_tensor_impl *tensor = last ? saved->tensor : weft_tensor_save(function, saved->tensor);
    if (last) {
        saved->tensor = NULL;
    }
    bool registered = tensor != NULL && weft_tensor_register(function, tensor);
    if (tensor != NULL) {
        weft_tensor_unreference(tensor); /* the scope has one */
    }
    return registered ? tensor : NULL;
}

weft_tensor_impl *weft_saved_restore(const char *function, weft_saved *saved, bool last)
{
    const weft_layout *gathered = saved->gathered;
    weft_tensor_impl *tensor = itself(function, saved, last);
    if (tensor == NULL || gathered == NULL) {
        return tensor;
    }
    weft_runtime.tape->no_grad++;
    weft_tensor *whole = weft_redistribute(tensor->handle, gathered->mesh->handle, gathered->placements);
    weft_runtime.tape->no_grad--;
    return whole == NULL ? NULL : weft_tensor_get(whole);
}
