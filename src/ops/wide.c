/* Operations that add up: values of 16 bits are added in WEFT_F32, and the result is rounded once. */
#include "ops/ops.h"

weft_tensor *weft_dispatch_sum(const weft_call *call)
{
    for (int i = 0; i < call->num_inputs; i++) {
        if (weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]) == NULL) {
            return NULL;
        }
    }
    weft_call wide = *call;
    weft_dtype type = call->inputs[0]->layout->dtype;
    bool narrow = type == WEFT_BF16 || type == WEFT_F16;
    wide.attributes.type = narrow ? WEFT_F32 : type;
    if (!narrow) {
        return weft_dispatch(&wide);
    }
    weft_scope_open();
    weft_tensor *sum = weft_dispatch(&wide), *result = sum == NULL ? NULL : weft_to_type(sum, type);
    if (result != NULL) {
        weft_scope_keep(result);
    }
    weft_scope_close();
    return result;
}
