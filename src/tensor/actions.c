#include "tensor/actions.h"

#include "call/context.h"
#include "call/deferral.h"
#include "tensor/explained.h"
#include "tensor/ghosts.h"
#include "tensor/regions.h"
#include "tensor/state.h"

weft_tensor_impl *weft_tensor_fake(const char *function, const weft_layout *layout)
{
    weft_tensor_impl *tensor = weft_tensor_allocate_fake(function, layout);
    if (tensor != NULL && !weft_tensor_register(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor;
}

bool weft_make_without_data(const weft_call *call, int num_outputs, const weft_layout *const layouts[],
                            weft_tensor_impl *const changed[], weft_tensor *outputs[])
{
    weft_steps *steps = weft_runtime.context.steps;
    for (int i = 0; i < num_outputs; i++) {
        weft_tensor_impl *own = changed == NULL ? NULL : changed[i];
        outputs[i] = weft_tensor_handle(own != NULL ? own : weft_tensor_fake(call->function, layouts[i]));
        if (outputs[i] == NULL) {
            return false;
        }
    }
    return steps == NULL || steps->add(steps, call, num_outputs, outputs);
}

bool weft_check_data(const char *function, const char *argument, weft_tensor_impl *tensor)
{
    if (tensor->fake && tensor->gathering != NULL) {
        return weft_runtime.tensors->owner->gather(tensor);
    }
    if (tensor->fake && tensor->ghosted != NULL) { /* deferred calls may be about to change it */
        return weft_deferral_finish(function) && weft_ghosted_make_dense(function, tensor);
    }
    if (tensor->fake) {
        weft_fail(WEFT_ERR_STATE, function, "%s has no data: it is a layout alone (weft_fake())", argument);
    }
    return !tensor->fake;
}

/* Whether the call makes a tensor without data. False in *valid, with the error kept: it needs data. */
static bool is_without_data(const weft_call *call, bool *valid)
{
    bool fake = weft_runtime.context.steps != NULL;
    *valid = true;
    for (int i = 0, count = weft_call_num_tensors(call); i < count && *valid; i++) {
        const weft_tensor *handle = weft_call_tensor(call, i);
        weft_tensor_impl *input = handle == NULL ? NULL : weft_tensor_get(handle);
        if (input != NULL) { /* else the action reports it */
            fake |= !weft_has_values(input);
            *valid = !weft_call_does(call, WEFT_NEEDS_DATA) || weft_check_data(call->function, "tensor", input);
        }
    }
    return fake && weft_call_does(call, WEFT_MAKES);
}

static weft_status make_without_data(const weft_call *call, weft_tensor *outputs[])
{
    const bool moves = weft_call_does(call, WEFT_MOVES);
    const weft_layout *layout = call->details->layout;
    weft_tensor_impl *input = call->num_inputs == 0 ? NULL : weft_tensor_get(call->inputs[0]);
    if (moves && input->layout == layout) {
        outputs[0] = weft_tensor_handle(weft_tensor_share(input));
        return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (moves && !weft_check_redistribution(call->function, input->layout, layout)) {
        return weft_latest_status();
    }
    if (moves && weft_runtime.context.steps != NULL &&
        !weft_check_explicit(call->function, "an intermediate tensor", input->layout, layout)) {
        return weft_latest_status();
    }
    if (call->access_map[0] != NULL && weft_runtime.context.steps != NULL &&
        !weft_check_explicit_access(call->function, "an intermediate tensor", input->layout,
                                    call->access_map[0])) {
        return weft_latest_status();
    }
    if (moves && weft_runtime.explained != NULL) {
        weft_explain_move(call->function, input->layout, layout);
    }
    if (call->access_map[0] != NULL && weft_runtime.explained != NULL) {
        weft_explain_access(input->layout, call->access_map[0]);
    }
    return weft_make_without_data(call, 1, &layout, NULL, outputs) ? WEFT_OK : weft_latest_status();
}

/* An action that reads values may make calls of its own: these are not deferred. */
static weft_status perform_itself(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_call_does(call, WEFT_LEAVES_VALUES) || weft_runtime.context.deferral == NULL) {
        return call->operation->perform(call, outputs);
    }
    const weft_context outer = weft_context_enter(weft_context_undeferred());
    weft_status status = call->operation->perform(call, outputs);
    weft_context_leave(outer);
    return status;
}

static weft_status perform(const weft_call *call, weft_tensor *outputs[])
{
    bool valid;
    if (is_without_data(call, &valid)) {
        return make_without_data(call, outputs);
    }
    return valid ? perform_itself(call, outputs) : weft_latest_status();
}

weft_status weft_act(const weft_call *call, weft_tensor *outputs[])
{
    return weft_call_make(call, outputs, perform);
}

weft_tensor *weft_act_for_tensor(const weft_call *call)
{
    weft_tensor *output = NULL;
    return weft_act(call, &output) == WEFT_OK ? output : NULL;
}
