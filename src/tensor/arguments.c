#include "tensor/arguments.h"

enum { MAX_CONTEXT = 1 << 20 }; /* bytes that are copied for each call or task */

bool weft_check_context(const char *function, const void *context, size_t size)
{
    if (size > MAX_CONTEXT) {
        weft_fail(WEFT_ERR_INVALID, function, "options.context_size is %zu, expected at most %d", size, MAX_CONTEXT);
        return false;
    }
    if (size > 0 && context == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "options.context is NULL, but options.context_size is not 0");
        return false;
    }
    return true;
}

bool weft_tensors_read_before(const char *function, weft_tensor_impl *tensors[], int first, int count, int number)
{
    weft_tensor_impl *target = tensors[number], *copy = NULL;
    for (int i = first; i < count; i++) {
        if (i == number || tensors[i] != target) {
            continue;
        }
        if (copy == NULL) {
            copy = weft_tensor_new(function, target->layout);
            if (copy == NULL || !weft_tensor_copy_into(function, copy, target)) {
                return false;
            }
        }
        tensors[i] = copy;
    }
    return true;
}
