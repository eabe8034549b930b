/* The data of a call that all processes compare (comm/check_spmd.h). */
#include <stdlib.h>

#include "comm/check_spmd.h"
#include "dispatch/dispatch.h"

/* A number for the call, or the comparison. False with the error kept. */
typedef bool use_function(const weft_call_signature *signature);

/* inputs[]: of valid calls; NULL: the call's. */
static bool use_filled(const weft_call *call, weft_tensor_impl *const inputs[], bool valid, const weft_layout *layouts[], double numbers[],
                       use_function *use)
{
    static const weft_call_details none = { 0 };
    const weft_call_details *details = call->details == NULL ? &none : call->details;
    const weft_attributes *attributes = &call->attributes;
    int num_numbers = 0, num_layouts = 0;
    numbers[num_numbers++] = (double)attributes->rule;
    numbers[num_numbers++] = (double)attributes->leading;
    numbers[num_numbers++] = (double)attributes->type;
    numbers[num_numbers++] = (double)attributes->omitted;
    numbers[num_numbers++] = (double)attributes->wish;
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        numbers[num_numbers++] = call->scalars[i];
    }
    for (int i = 0; i < attributes->num_sizes; i++) {
        numbers[num_numbers++] = (double)attributes->sizes[i];
    }
    for (int i = 0; i < attributes->num_numbers; i++) {
        numbers[num_numbers++] = (double)attributes->numbers[i];
    }
    for (int i = 0; i < details->num_numbers; i++) {
        numbers[num_numbers++] = (double)details->numbers[i];
    }
    numbers[num_numbers++] = (double)details->context_size;
    while (num_numbers > 0 && numbers[num_numbers - 1] == 0) {
        num_numbers--; /* trailing zeros are left out */
    }
    for (int i = 0, count = valid ? weft_call_num_tensors(call) : 0; i < count; i++) {
        layouts[num_layouts++] = inputs == NULL ? weft_layout_of(weft_call_tensor(call, i)) : inputs[i]->layout;
    }
    if (valid && details->layout != NULL) {
        layouts[num_layouts++] = details->layout;
    }
    return use(&(weft_call_signature){
        .function = call->function,
        .failed = !valid,
        .num_layouts = num_layouts,
        .layouts = layouts,
        .num_numbers = num_numbers,
        .numbers = numbers,
    });
}

static bool use_signature(const weft_call *call, weft_tensor_impl *const inputs[], bool valid, use_function *use)
{
    enum { OWN = 6 + WEFT_MAX_SCALARS + WEFT_MAX_SIZES + WEFT_MAX_ATTRIBUTES };
    const weft_layout *few_layouts[WEFT_MAX_INPUTS + 1];
    double few_numbers[OWN];
    int num_tensors = weft_call_num_tensors(call);
    int details = call->details == NULL ? 0 : call->details->num_numbers;
    if (num_tensors <= WEFT_MAX_INPUTS && details == 0) {
        return use_filled(call, inputs, valid, few_layouts, few_numbers, use);
    }
    const weft_layout **layouts = malloc(((size_t)num_tensors + 1) * sizeof(*layouts));
    double *numbers = malloc(((size_t)details + OWN) * sizeof(*numbers));
    bool done = layouts != NULL && numbers != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d layouts", num_tensors);
    }
    done = done && use_filled(call, inputs, valid, layouts, numbers, use);
    free(layouts);
    free(numbers);
    return done;
}

bool weft_dispatch_check_spmd(const weft_call *call, weft_tensor_impl *const inputs[], bool valid)
{
    if (weft_runtime.comm == NULL || weft_runtime.context.steps != NULL || weft_runtime.context.expanded > 0) {
        return weft_check_spmd(&(weft_call_signature){ .function = call->function, .failed = !valid });
    }
    return use_signature(call, inputs, valid, weft_check_spmd);
}

static bool take_number(const weft_call_signature *signature)
{
    weft_spmd_number(signature);
    return true;
}

bool weft_dispatch_take_number(const weft_call *call)
{
    return use_signature(call, NULL, true, take_number);
}
