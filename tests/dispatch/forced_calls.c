#include <string.h>

#include "dispatch/dispatch.h"

#include "forced_calls.h"
#include "ops/backward.h"

void add_input(plan *p, weft_dtype dtype, int ndim, const int64_t shape[])
{
    p->inputs[p->num_inputs].dtype = dtype;
    p->inputs[p->num_inputs].ndim = ndim;
    memcpy(p->inputs[p->num_inputs++].shape, shape, (size_t)ndim * sizeof(shape[0]));
}

void add_indices(plan *p, weft_dtype dtype, int ndim, const int64_t shape[], int64_t limit)
{
    p->inputs[p->num_inputs].limit = limit;
    add_input(p, dtype, ndim, shape);
}

weft_tensor *call_attention(const plan *p, weft_tensor *const in[])
{
    return weft_attention(in[0], in[1], in[2], &(weft_attention_options){ .causal = p->first });
}

weft_tensor *attention_gradient(const plan *p, weft_tensor *const in[], int which)
{
    weft_attention_options options = { .causal = p->first };
    weft_tensor *output = weft_attention(in[0], in[1], in[2], &options), *all[3] = { NULL };
    all[0] = output == NULL
                 ? NULL
                 : weft_attention_backward(output, in[0], in[1], in[2], output, &options, &all[1], &all[2]);
    return all[which];
}

weft_tensor *call_forced(const program *run, const plan *p, weft_tensor *const in[], int64_t combination,
                         int64_t *combinations)
{
    weft_dispatch_force(combination);
    weft_tensor *result = run->call(p, in);
    *combinations = weft_dispatch_force(-1);
    if (result == NULL && weft_last_status() == WEFT_ERR_LAYOUT) {
        weft_clear_error();
        return NULL;
    }
    assert_no_error();
    return result;
}
