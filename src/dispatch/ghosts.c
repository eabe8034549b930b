/* Operations of the program that work in its ghosted arrays. */
#include "dispatch/dispatch.h"
#include "tensor/ghosts.h"

weft_window weft_window_in_array(const weft_operation *operation, const weft_attributes *attributes, const weft_layout *layout,
                                 int num_inputs, int input, int dim)
{
    weft_window window = { .times = 1, .over = 1 };
    if (operation->window != NULL) {
        weft_call_layouts call = { operation, num_inputs, { NULL }, attributes };
        call.inputs[input] = layout;
        window = operation->window(&call, input, dim);
    }
    window.size = layout->shape[dim];
    return window;
}

/* Whether the input is another input too, and the call changes one of the two. */
static bool is_shared(const weft_call *call, int input)
{
    bool shared = false;
    for (int i = 0; i < call->num_inputs; i++) {
        bool changed = weft_operation_changes(call->operation, i) || weft_operation_changes(call->operation, input);
        shared |= i != input && changed && call->inputs[i] == call->inputs[input];
    }
    return shared;
}

bool weft_works_in_array(const weft_call *call, weft_tensor_impl *const inputs[], int input)
{
    const weft_tensor_impl *tensor = inputs[input];
    bool works = tensor->ghosted != NULL && call->operation->takes_strides && !call->operation->accumulates &&
                 !is_shared(call, input);
    for (int d = 0; works && d < tensor->layout->ndim; d++) {
        weft_window w =
            weft_window_in_array(call->operation, &call->attributes, tensor->layout, call->num_inputs, input, d);
        works = w.times == 1 && w.over == 1 && (!w.periodic || tensor->ghosted->ghosts.periodic[d]) && w.before <= tensor->ghosted->ghosts.before[d] &&
                w.after <= tensor->ghosted->ghosts.after[d];
    }
    return works && call->attributes.num_sizes == 0; /* else letters may have other sizes than the dimensions that they read */
}

bool weft_reads_margins(const weft_call *call, const weft_layout *layout, int input)
{
    bool reads = false;
    for (int d = 0; d < layout->ndim; d++) {
        weft_window w = weft_window_in_array(call->operation, &call->attributes, layout, call->num_inputs, input, d);
        reads |= w.before > 0 || w.after > 0;
    }
    return reads;
}
