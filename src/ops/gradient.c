#include "ops/gradient.h"

#include <string.h>

bool weft_give_gradient(const weft_gradient *of, int input, weft_tensor *gradient)
{
    const weft_layout *target = weft_layout_of(weft_call_tensor(of->call, input));
    if (gradient == NULL) {
        return false;
    }
    const weft_layout *layout = weft_layout_of(gradient);
    bool fits = layout->ndim == target->ndim &&
                memcmp(layout->shape, target->shape, (size_t)target->ndim * sizeof(target->shape[0])) == 0;
    weft_tensor *summed = fits ? gradient : weft_sum_to(gradient, target->ndim, target->shape);
    bool converts = summed != NULL && weft_layout_of(summed)->dtype != target->dtype;
    of->gradients[input] = converts ? weft_to_type(summed, target->dtype) : summed;
    return of->gradients[input] != NULL;
}

bool weft_gradient_same(const weft_gradient *of)
{
    bool done = true;
    for (int i = 0; i < weft_call_num_tensors(of->call) && done; i++) {
        done = !weft_gradient_wanted(of, i) || weft_give_gradient(of, i, weft_gradient_of_output(of, 0));
    }
    return done;
}

const char *weft_call_no_gradient(const weft_call *call)
{
    return call->operation != NULL ? call->operation->gradient.zero
           : call->action->moves   ? NULL
                                   : "it makes, reads or releases tensors";
}

unsigned weft_call_gradient_reads(const weft_call *call, const bool wanted[])
{
    unsigned reads = 0;
    for (int i = 0; i < call->num_inputs && call->operation != NULL; i++) {
        reads |= wanted[i] ? call->operation->gradient.reads[i] : 0;
    }
    return reads;
}

static bool compute(const weft_gradient *of)
{
    const weft_call *call = of->call;
    if (call->operation == NULL) {
        return weft_gradient_same(of); /* its values elsewhere */
    }
    const weft_gradient_entry *entry = &call->operation->gradient;
    if (entry->function == NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "the gradient of %s is not known: %s", call->operation->name,
                  entry->missing == NULL ? "the program that registered it gave none" : entry->missing);
        return false;
    }
    return entry->function(of);
}

weft_status weft_call_gradients(const weft_gradient *of)
{
    const weft_call *call = of->call;
    int num_inputs = weft_call_num_tensors(call);
    bool any = false, some = false;
    for (int i = 0; i < num_inputs; i++) {
        of->gradients[i] = NULL;
        any |= weft_gradient_wanted(of, i);
    }
    for (int i = 0; i < weft_call_num_outputs(call); i++) {
        some |= of->output_gradients[i] != NULL;
    }
    if (!any || !some || weft_call_no_gradient(call) != NULL) {
        return WEFT_OK;
    }
    weft_runtime.call_depth++;
    weft_status status = weft_scope_open();
    weft_runtime.call_depth--;
    bool done = status == WEFT_OK && compute(of);
    done = (status != WEFT_OK || weft_scope_close_keeping(done ? num_inputs : 0, of->gradients, NULL, NULL)) && done;
    for (int i = 0; i < num_inputs && !done; i++) {
        of->gradients[i] = NULL;
    }
    return done ? WEFT_OK : weft_last_status();
}
