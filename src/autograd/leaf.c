/* The public functions of leaves, and of regions without recording. */
#include <stdio.h>
#include <stdlib.h>

#include "autograd/tape.h"
#include "call/deferral.h"

static weft_tape_leaf *leaf_of(const weft_tensor_impl *tensor)
{
    return tensor->tape == NULL ? NULL : weft_tape_leaf_of(tensor->tape);
}

bool weft_tape_has_gradient(const weft_tensor_impl *tensor)
{
    const weft_tape_leaf *leaf = leaf_of(tensor);
    return leaf != NULL && leaf->gradient != NULL;
}

/* NULL with the error kept: not a live tensor, or not a leaf. */
static weft_tape_leaf *check_leaf(const char *function, const char *argument, const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = weft_check_tensor(function, argument, handle);
    weft_tape_leaf *leaf = tensor == NULL ? NULL : leaf_of(tensor);
    if (tensor != NULL && leaf == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is not a leaf: %s", argument,
                  tensor->tape == NULL ? "it requires no gradient (weft_set_requires_grad())"
                                       : "it was computed from leaves (weft_gradients() computes its gradient)");
    }
    return leaf;
}

static bool make_leaf(const char *function, weft_tensor_impl *tensor)
{
    weft_tape *tape = weft_tape_obtain(function);
    weft_tape_leaf *leaf = tape == NULL ? NULL : calloc(1, sizeof(*leaf));
    if (leaf == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a leaf");
        return false;
    }
    leaf->node = (weft_tape_node){ .kind = WEFT_TAPE_LEAF, .number = ++tape->numbers };
    leaf->value = (weft_tape_value){ .node = &leaf->node, .layout = tensor->layout };
    leaf->tensor = tensor;
    leaf->next = tape->leaves;
    if (leaf->next != NULL) {
        leaf->next->previous = leaf;
    }
    tape->leaves = leaf;
    weft_tape_set(tensor, &leaf->value);
    return true;
}

weft_status weft_set_requires_grad(weft_tensor *handle, bool on)
{
    static const char function[] = "weft_set_requires_grad";
    weft_tensor_impl *tensor = weft_check_tensor(function, "leaf", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (on && !weft_dtype_has_gradient(tensor->layout->dtype)) {
        return weft_fail(WEFT_ERR_DTYPE, function, "leaf is %s, expected a floating or complex type",
                         weft_dtype_name(tensor->layout->dtype));
    }
    if (tensor->tape != NULL && leaf_of(tensor) == NULL) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "leaf was computed from leaves: weft_detach() gives its values as a constant");
    }
    if (!on) {
        weft_tape_set(tensor, NULL);
    }
    return !on || tensor->tape != NULL || make_leaf(function, tensor) ? WEFT_OK : weft_latest_status();
}

bool weft_requires_grad(const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_check_tensor("weft_requires_grad", "tensor", handle);
    bool gathered = tensor != NULL && (!weft_is_deferred(tensor) || weft_gather_now(tensor));
    return gathered && tensor->tape != NULL;
}

bool weft_is_leaf(const weft_tensor *handle)
{
    const weft_tensor_impl *tensor = weft_check_tensor("weft_is_leaf", "tensor", handle);
    return tensor != NULL && leaf_of(tensor) != NULL;
}

weft_tensor *weft_grad(weft_tensor *handle)
{
    const weft_tape_leaf *leaf = check_leaf("weft_grad", "leaf", handle);
    return leaf == NULL ? NULL : weft_tensor_handle(leaf->gradient);
}

weft_status weft_zero_grad(int n, weft_tensor *const leaves[])
{
    static const char function[] = "weft_zero_grad";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (n < 0 || (n > 0 && leaves == NULL)) {
        return n < 0 ? weft_fail(WEFT_ERR_INVALID, function, "n is %d, expected at least 0", n)
                     : weft_fail(WEFT_ERR_INVALID, function, "leaves is NULL");
    }
    for (int i = 0; i < n; i++) {
        const weft_tensor_impl *tensor = leaves[i] == NULL ? NULL : weft_tensor_get(leaves[i]);
        char name[32];
        if (tensor != NULL && leaf_of(tensor) != NULL) {
            continue;
        }
        snprintf(name, sizeof(name), "leaves[%d]", i);
        if (check_leaf(function, name, leaves[i]) == NULL) {
            return weft_latest_status();
        }
    }
    for (int i = 0; i < n; i++) {
        weft_tape_leaf *leaf = leaf_of(weft_tensor_get(leaves[i]));
        if (leaf->gradient != NULL) {
            weft_tensor_unreference(leaf->gradient);
            leaf->gradient = NULL;
        }
    }
    return WEFT_OK;
}

/* A graph that was given the leaf may have a backward pass, which depends on it. */
static void note_setting(const char *function, const weft_tensor *handle, bool changes)
{
    if (changes) {
        weft_note_change(function, weft_tensor_get(handle)->graph_run != 0);
    }
}

/* NULL with the error kept: on the tensor's mesh, and not Partial. */
static const weft_layout *check_grad_placements(const char *function, const weft_layout *own, const weft_placement *placements)
{
    const weft_layout *layout = weft_check_layout(function, own->mesh, placements, own->ndim, own->shape, own->dtype);
    for (int m = 0; layout != NULL && m < own->mesh->ndim; m++) {
        if (layout->placements[m].kind == WEFT_PARTIAL) {
            weft_fail(WEFT_ERR_LAYOUT, function, "placements[%d] is Partial: gradients are whole", m);
            return NULL;
        }
    }
    return layout;
}

/* False with the error kept: a leaf's gradient has another layout than that of new ones. */
static bool check_former_gradient(const char *function, const weft_tape_value *value)
{
    const weft_tape_leaf *leaf = weft_tape_leaf_of(value);
    const weft_layout *layout = leaf == NULL || leaf->gradient == NULL ? NULL : weft_gradient_layout(function, value);
    if (layout != NULL && leaf->gradient->layout != layout) {
        weft_fail(WEFT_ERR_STATE, function, "tensor has a gradient in another layout: weft_zero_grad() drops it");
        return false;
    }
    return leaf == NULL || leaf->gradient == NULL || layout != NULL;
}

weft_status weft_set_grad_placements(weft_tensor *handle, const weft_placement *placements)
{
    static const char function[] = "weft_set_grad_placements";
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL || (weft_is_deferred(tensor) && !weft_gather_now(tensor))) {
        return weft_latest_status();
    }
    const weft_layout *layout = placements == NULL ? NULL : check_grad_placements(function, tensor->layout, placements);
    if (placements != NULL && layout == NULL) {
        return weft_latest_status();
    }
    weft_tape_value *value = tensor->tape;
    if (value == NULL) { /* the first run of a segment is not recorded, and makes the same calls */
        bool recording = weft_runtime.tape == NULL || weft_runtime.tape->no_grad == 0;
        return !recording ? WEFT_OK
                          : weft_fail(WEFT_ERR_INVALID, function,
                                      "tensor requires no gradient: it is no leaf, and was not computed from leaves");
    }
    const weft_layout *former = value->gradient_layout;
    value->gradient_layout = layout;
    if (!check_former_gradient(function, value)) {
        value->gradient_layout = former;
        return weft_latest_status();
    }
    /* A graph's function that computes a tensor on the tape runs each time, and makes this call again: a replay does not lose
     * the setting. */
    note_setting(function, handle, former != layout && (leaf_of(tensor) != NULL || !tensor->promised));
    return WEFT_OK;
}

weft_status weft_set_grad_hook(weft_tensor *handle, weft_grad_hook hook, void *context)
{
    static const char function[] = "weft_set_grad_hook";
    weft_tape_leaf *leaf = check_leaf(function, "leaf", handle);
    if (leaf == NULL) {
        return weft_latest_status();
    }
    note_setting(function, handle, leaf->hook != hook || leaf->hook_context != context);
    leaf->hook = hook;
    leaf->hook_context = context;
    return WEFT_OK;
}

weft_status weft_set_regather(weft_tensor *handle, bool on)
{
    static const char function[] = "weft_set_regather";
    weft_tape_leaf *leaf = check_leaf(function, "leaf", handle);
    if (leaf == NULL) {
        return weft_latest_status();
    }
    note_setting(function, handle, leaf->regathers != on);
    leaf->regathers = on;
    return WEFT_OK;
}

/* ---- constants ------------------------------------------------------------------------------------------- */

static weft_status perform_detach(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]), *constant;
    if (tensor->borrowed && tensor->promised && !weft_deferral_finish(call->function)) {
        return weft_latest_status();
    }
    if (tensor->borrowed) {
        constant = weft_tensor_new(call->function, tensor->layout);
        if (constant != NULL && !weft_tensor_copy_into(call->function, constant, tensor)) {
            constant = weft_tensor_discard(constant);
        }
    } else {
        constant = weft_tensor_save(call->function, tensor);
        bool registered = constant != NULL && weft_tensor_register(call->function, constant);
        if (constant != NULL) {
            weft_tensor_unreference(constant); /* the scope has a reference */
        }
        constant = registered ? constant : NULL;
    }
    outputs[0] = weft_tensor_handle(constant);
    return constant == NULL ? weft_latest_status() : WEFT_OK;
}

weft_tensor *weft_detach(weft_tensor *handle)
{
    static const char function[] = "weft_detach";
    static const weft_operation action = { .name = "detach", .perform = perform_detach, .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED, .num_outputs = 1 };
    return weft_check_tensor(function, "tensor", handle) == NULL
               ? NULL
               : weft_act_for_tensor(&(weft_call){
                     .function = function, .operation = &action, .num_inputs = 1, .inputs = { handle } });
}

/* Counted without a tape too, so that leaves made inside such a region are not recorded there. */
void weft_no_grad_begin(void)
{
    weft_tape *tape = weft_require_init("weft_no_grad_begin") == WEFT_OK ? weft_tape_obtain("weft_no_grad_begin") : NULL;
    if (tape != NULL) {
        tape->no_grad++;
    }
}

void weft_no_grad_end(void)
{
    static const char function[] = "weft_no_grad_end";
    if (weft_require_init(function) != WEFT_OK) {
        return;
    }
    weft_tape *tape = weft_runtime.tape;
    if (tape == NULL || tape->no_grad <= tape->no_grad_min) {
        weft_fail(WEFT_ERR_STATE, function, "no weft_no_grad_begin() is open");
        return;
    }
    tape->no_grad--;
}
