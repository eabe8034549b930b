/* Values that are saved for the backward pass. */
#include "autograd/tape.h"
#include "call/deferral.h"
#include "ops/ops.h"

/* The share of a leaf that its redistribution has saved, if the leaf is to be gathered again; else NULL. */
static const weft_tensor_impl *source_of_value(const weft_tape_value *value)
{
    const weft_tape_node *node = value == NULL ? NULL : value->node;
    bool regathered = node != NULL && node->kind == WEFT_TAPE_CALL && weft_is_gather(node->call) && !node->spent;
    return regathered ? node->inputs[0].saved.tensor : NULL;
}

/* The same for a tensor that nobody has written to since; *gathered: the redistribution's result, of which the tensor may be
 * a conversion to another type. */
static const weft_tensor_impl *source_of(const weft_tensor_impl *tensor, const weft_layout **gathered)
{
    const weft_tensor_impl *source = weft_gathered_from(tensor);
    if (source != NULL) {
        *gathered = tensor->layout;
        return source;
    }
    const weft_tape_value *value = tensor->version > 0 ? NULL : tensor->tape;
    const weft_tape_node *node = value == NULL ? NULL : value->node;
    if (node != NULL && node->kind == WEFT_TAPE_CALL && !node->spent && weft_is_conversion(node->call)) {
        value = node->inputs[0].value;
    }
    *gathered = value == NULL ? NULL : value->layout;
    return source_of_value(value);
}

/* The same values in memory of the library's, as a share. NULL with the error kept. */
static weft_tensor_impl *copy_of(const char *function, weft_tensor_impl *tensor)
{
    if (!weft_scope_begin_unrecorded()) {
        return NULL;
    }
    weft_tensor_impl *copy = weft_tensor_new(function, tensor->layout);
    bool done = copy != NULL && weft_tensor_copy_into(function, copy, tensor);
    weft_tensor_impl *share = done ? weft_tensor_save(function, copy) : NULL;
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return share;
}

/* The program's own memory cannot be shared, and writes to it are not noticed on other processes: it is copied. */
bool weft_save(const char *function, weft_tensor_impl *tensor, weft_saved *saved)
{
    const weft_layout *gathered;
    const weft_tensor_impl *source = source_of(tensor, &gathered);
    if (tensor->borrowed && tensor->promised && !weft_deferral_finish(function)) {
        return false;
    }
    *saved = (weft_saved){ .gathered = source == NULL ? NULL : gathered, .dtype = tensor->layout->dtype };
    if (source != NULL) {
        saved->tensor = weft_tensor_save(function, source);
    } else if (tensor->borrowed) {
        weft_runtime.counters.views_copied++;
        saved->tensor = copy_of(function, tensor);
    } else {
        saved->tensor = weft_tensor_save(function, tensor);
    }
    return saved->tensor != NULL;
}

/* The saved tensor as one of the innermost scope. */
static weft_tensor_impl *itself(const char *function, weft_saved *saved, bool last)
{
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
    weft_dtype dtype = saved->dtype;
    weft_tensor_impl *tensor = itself(function, saved, last);
    if (tensor == NULL || gathered == NULL) {
        return tensor;
    }
    /* The smaller type is gathered. Partial is summed in its own. */
    bool first = weft_dtype_size(dtype) < weft_dtype_size(tensor->layout->dtype) && !tensor->layout->has_partial;
    weft_runtime.tape->no_grad++;
    weft_tensor *part = first ? weft_to_type(tensor->handle, dtype) : tensor->handle;
    weft_tensor *whole = part == NULL ? NULL : weft_redistribute(part, gathered->mesh->handle, gathered->placements);
    whole = whole == NULL ? NULL : weft_to_type(whole, dtype);
    weft_runtime.tape->no_grad--;
    return whole == NULL ? NULL : weft_tensor_get(whole);
}
