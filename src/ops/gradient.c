#include "ops/gradient.h"

#include <stdio.h>
#include <string.h>

#include "codelets/random.h"

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
    if (summed != NULL && weft_dtype_is_complex(weft_layout_of(summed)->dtype) && !weft_dtype_is_complex(target->dtype)) {
        summed = weft_real(summed); /* a real input's */
    }
    weft_dtype type = summed == NULL ? target->dtype : weft_layout_of(summed)->dtype;
    bool converts = type != target->dtype && !(type == WEFT_F32 && weft_gradient_is_wide(of, input));
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

/* NULL: of an action without one. */
static const weft_gradient_entry *entry_of(const weft_call *call)
{
    const weft_gradient_entry *entry = &call->operation->gradient;
    bool none = entry->function == NULL && entry->zero == NULL && entry->missing == NULL;
    return weft_call_is_action(call) && none ? NULL : entry;
}

const char *weft_call_no_gradient(const weft_call *call)
{
    const weft_gradient_entry *entry = entry_of(call);
    return entry != NULL         ? entry->zero
           : weft_call_does(call, WEFT_MOVES) ? NULL
                                 : "it makes, reads or releases tensors";
}

const char *weft_call_missing_gradient(const weft_call *call)
{
    const weft_gradient_entry *entry = entry_of(call);
    return entry == NULL ? NULL : entry->missing;
}

bool weft_call_gradient_reads_all(const weft_call *call)
{
    const weft_gradient_entry *entry = entry_of(call);
    return entry != NULL && entry->reads_inputs;
}

unsigned weft_call_gradient_reads(const weft_call *call, const bool wanted[])
{
    const weft_gradient_entry *entry = entry_of(call);
    unsigned reads = 0;
    for (int i = 0; i < call->num_inputs && entry != NULL; i++) {
        reads |= wanted[i] ? entry->reads[i] : 0;
    }
    return reads;
}

/* One is not NULL. */
static weft_tensor *some_output_gradient(const weft_gradient *of)
{
    int o = 0;
    while (of->output_gradients[o] == NULL) {
        o++;
    }
    return of->output_gradients[o];
}

/* Checks a program's gradient: live, floating, with data, broadcast from its input. False with the error kept. */
static bool take_program_gradient(const weft_gradient *of, int input)
{
    const weft_call *call = of->call;
    weft_tensor *gradient = of->gradients[input];
    char name[32];
    snprintf(name, sizeof(name), "gradients[%d]", input);
    if (weft_check_tensor(call->function, name, gradient) == NULL) {
        return false;
    }
    if (!weft_dtype_has_gradient(weft_layout_of(gradient)->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, call->function, "%s, from the gradient of %s, is %s, expected a floating or complex type", name,
                  call->operation->name, weft_dtype_name(weft_layout_of(gradient)->dtype));
        return false;
    }
    if (weft_tensor_is_fake(gradient) && !weft_tensor_is_fake(some_output_gradient(of))) {
        weft_fail(WEFT_ERR_INVALID, call->function,
                  "%s, from the gradient of %s, has no data: gradient_reads must name the values that it reads", name,
                  call->operation->name);
        return false;
    }
    return weft_give_gradient(of, input, gradient);
}

static bool ask_program(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const int first_scalar = call->operation->draws ? WEFT_RANDOM_OWN : 0; /* after the random state */
    weft_apply_options options = { .num_numbers = (int)call->attributes.num_numbers,
                                   .num_scalars = WEFT_MAX_SCALARS - first_scalar,
                                   .num_sizes = (int)call->attributes.num_sizes,
                                   .leading = (int)call->attributes.leading,
                                   .type = (weft_dtype)call->attributes.type,
                                   .size = sizeof(options) };
    memcpy(options.numbers, call->attributes.numbers, (size_t)options.num_numbers * sizeof(options.numbers[0]));
    memcpy(options.sizes, call->attributes.sizes, (size_t)options.num_sizes * sizeof(options.sizes[0]));
    memcpy(options.scalars, call->scalars + first_scalar, (size_t)options.num_scalars * sizeof(options.scalars[0]));
    if (call->details != NULL) {
        options.context = call->details->context;
        options.context_size = call->details->context_size;
    }
    const weft_gradient_request request = { .num_inputs = call->num_inputs,
                                            .num_outputs = weft_call_num_outputs(call),
                                            .inputs = call->inputs,
                                            .outputs = of->outputs,
                                            .output_gradients = of->output_gradients,
                                            .wanted = of->wanted,
                                            .options = &options };
    weft_visit visit;
    weft_visit_begin(&visit);
    weft_status status = call->operation->gradient.by_program(&request, of->gradients);
    weft_visit_end(&visit);
    if (status != WEFT_OK) {
        weft_fail(status, call->function, "the gradient of %s failed", call->operation->name);
        return false;
    }
    bool done = true;
    for (int i = 0; i < call->num_inputs && done; i++) {
        of->gradients[i] = of->wanted[i] ? of->gradients[i] : NULL;
        done = of->gradients[i] == NULL || take_program_gradient(of, i);
    }
    return done;
}

static bool compute(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const weft_gradient_entry *entry = entry_of(call);
    if (entry == NULL) {
        return weft_gradient_same(of); /* its values elsewhere */
    }
    if (entry->missing != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "the gradient of %s is not known: %s",
                  call->operation->name, entry->missing);
        return false;
    }
    return entry->by_program != NULL ? ask_program(of) : entry->function(of);
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
    bool opened = weft_scope_begin_unrecorded();
    bool done = opened && compute(of);
    done = (!opened || weft_scope_end_keeping(done ? num_inputs : 0, of->gradients, NULL, NULL)) && done;
    for (int i = 0; i < num_inputs && !done; i++) {
        of->gradients[i] = NULL;
    }
    return done ? WEFT_OK : weft_latest_status();
}
