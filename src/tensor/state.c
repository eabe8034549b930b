/* Start and stop of what src/tensor keeps between calls. */
#include <stdlib.h>

#include "tensor/state.h"

enum { MOST_PLAN_BYTES = 128 << 20 };

weft_status weft_tensors_start(void)
{
    weft_tensors *tensors = calloc(1, sizeof(weft_tensors));
    if (tensors == NULL || !weft_random_start(tensors, weft_runtime.seed)) {
        free(tensors);
        return weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory for the tensors");
    }
    tensors->most_plan_bytes = MOST_PLAN_BYTES;
    weft_runtime.tensors = tensors;
    return WEFT_OK;
}

void weft_tensors_stop(void)
{
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors == NULL) {
        return;
    }
    while (tensors->newest != NULL) {
        weft_tensor_delete(tensors->newest);
    }
    weft_plans_free(tensors);
    weft_random_stop(tensors);
    weft_vec_free(&tensors->references);
    weft_vec_free(&tensors->scopes);
    free(tensors);
    weft_runtime.tensors = NULL;
}
