/* Sharded tensors that calls use gathered: the parameters of modules. The gathered tensor remembers where its values come
 * from, so that
 *
 *  - a constant, as a frozen parameter, is gathered again in the backward pass instead of being saved for it (saved.c), as
 *    leaves are by weft_set_regather();
 *  - in a region of mixed precision nothing is gathered before a call reads it. If that call takes 16 bits, each rank
 *    converts its part, and 16 bits are gathered: the same values, because each element is converted alone, in half the bytes. */
#include <stdlib.h>

#include "autograd/tape.h"
#include "tensor/actions.h"

struct weft_gathering {
    weft_tensor_impl *source;   /* a share of the sharded tensor; with a reference */
    weft_tensor_impl *original; /* the sharded tensor itself, until something is gathered; with a reference */
    uint64_t version;           /* of it */
    bool is_recorded;           /* the program has asked for it where calls are recorded */
    weft_tensor_impl *narrow;   /* what a call has got in 16 bits; with a reference. NULL: none */
};

static void unreference(weft_tensor_impl **tensor)
{
    weft_tensor_impl *former = *tensor;
    *tensor = NULL;
    if (former != NULL) {
        weft_tensor_unreference(former);
    }
}

void weft_gathering_drop(weft_tensor_impl *tensor)
{
    struct weft_gathering *g = tensor->gathering;
    if (g == NULL) {
        return;
    }
    weft_runtime.tape->deferred -= tensor->fake;
    tensor->gathering = NULL;
    unreference(&g->source);
    unreference(&g->original);
    unreference(&g->narrow);
    free(g);
}

/* Remembers where the values come from. False with the error kept. */
static bool remember(const char *function, weft_tensor_impl *tensor, weft_tensor_impl *sharded)
{
    struct weft_gathering *g = calloc(1, sizeof(*g));
    weft_tensor_impl *source = g == NULL ? NULL : weft_tensor_save(function, sharded);
    if (source == NULL) {
        free(g);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a gathered tensor");
        return false;
    }
    g->source = source;
    weft_tape_set(source, sharded->tape);
    tensor->gathering = g;
    weft_runtime.tape->deferred += tensor->fake;
    return true;
}

const weft_tensor_impl *weft_gathered_from(const weft_tensor_impl *tensor)
{
    bool known = tensor->gathering != NULL && !tensor->fake && tensor->version == 0;
    return known ? tensor->gathering->source : NULL;
}

bool weft_gathered_like(const char *function, weft_tensor_impl *tensor, const weft_tensor_impl *other)
{
    const weft_tensor_impl *source = weft_gathered_from(other);
    return source == NULL || source->tape != NULL || tensor->gathering != NULL ||
           remember(function, tensor, (weft_tensor_impl *)source);
}

/* ---- gathering in another type ----------------------------------------------------------------------------- */

/* Input 0 in the type and the placements of details->layout. */
static weft_status perform_gather(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *to = call->details->layout;
    if (!weft_scope_begin_unrecorded()) {
        return weft_latest_status();
    }
    weft_tensor *converted = weft_to_type(call->inputs[0], to->dtype);
    weft_tensor *gathered = converted == NULL ? NULL : weft_redistribute(converted, to->mesh->handle, to->placements);
    bool kept = weft_scope_end_keeping(1, &gathered, NULL, NULL);
    outputs[0] = kept ? gathered : NULL;
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

/* The gradient gets the input's type before it is reduced. */
const weft_operation weft_action_gather = {
    .name = "gather", .perform = perform_gather, .num_outputs = 1, .effects = WEFT_MAKES, .gradient = WEFT_GRADIENT_SAME
};

bool weft_is_gather(const weft_call *call)
{
    return weft_call_does(call, WEFT_MOVES) || call->operation == &weft_action_gather;
}

static weft_tensor *gather(const char *function, weft_tensor *sharded, const weft_layout *to)
{
    return weft_layout_of(sharded)->dtype == to->dtype
               ? weft_redistribute(sharded, to->mesh->handle, to->placements)
               : weft_act_for_tensor(&(weft_call){ .function = function,
                                                   .operation = &weft_action_gather,
                                                   .num_inputs = 1,
                                                   .inputs = { sharded },
                                                   .details = &(weft_call_details){ .layout = to } });
}

/* ---- when it is used --------------------------------------------------------------------------------------- */

bool weft_is_deferred(const weft_tensor_impl *tensor)
{
    return tensor->fake && tensor->gathering != NULL;
}

/* The tensor to gather from: the sharded one, if nobody has written to it since; else the share, registered in the innermost
 * scope. NULL with the error kept. */
static weft_tensor *source_of(const char *function, struct weft_gathering *g)
{
    if (g->original->version == g->version && g->original->handle != NULL) {
        return g->original->handle;
    }
    bool registered = g->source->handle != NULL || weft_tensor_register(function, g->source);
    return registered ? g->source->handle : NULL;
}

/* Gathers in a type, into the innermost scope. NULL with the error kept. */
static weft_tensor *gather_as(weft_tensor_impl *tensor, weft_dtype dtype)
{
    static const char function[] = "weft_module_use";
    const weft_layout *to = weft_layout_like(function, tensor->layout, dtype);
    if (to == NULL || !weft_scope_begin_unrecorded()) {
        return NULL;
    }
    weft_tape *tape = weft_runtime.tape;
    int no_grad = tape->no_grad;
    tape->no_grad = !tensor->gathering->is_recorded;
    weft_tensor *source = source_of(function, tensor->gathering);
    weft_tensor *gathered = source == NULL ? NULL : gather(function, source, to);
    tape->no_grad = no_grad;
    return weft_scope_end_keeping(1, &gathered, NULL, NULL) ? gathered : NULL;
}

bool weft_gather_now(weft_tensor_impl *tensor)
{
    weft_tensor *gathered = gather_as(tensor, tensor->layout->dtype);
    if (gathered == NULL || !weft_tensor_give_data("weft_module_use", tensor, weft_tensor_get(gathered))) {
        return false;
    }
    weft_runtime.tape->deferred--; /* it has data from now on */
    weft_tape_set(tensor, weft_tensor_get(gathered)->tape);
    unreference(&tensor->gathering->original);
    if (tensor->tape != NULL) { /* the tape knows its source */
        weft_gathering_drop(tensor);
    }
    return true;
}

weft_tensor *weft_gather_converted(weft_tensor_impl *tensor, weft_dtype dtype)
{
    struct weft_gathering *g = tensor->gathering;
    if (g->narrow != NULL && g->narrow->layout->dtype == dtype) {
        return weft_tensor_handle(weft_tensor_share(g->narrow));
    }
    weft_tensor *gathered = gather_as(tensor, dtype);
    weft_tensor_impl *made = gathered == NULL ? NULL : weft_tensor_get(gathered);
    if (made == NULL || (made->tape == NULL && !remember("weft_module_use", made, g->source))) {
        return NULL;
    }
    unreference(&g->narrow);
    g->narrow = made;
    made->references++;
    return gathered;
}

/* Without data, until it is used. */
static weft_tensor *defer(const char *function, weft_tensor_impl *sharded, const weft_layout *to)
{
    weft_tensor_impl *tensor = weft_tensor_fake(function, to);
    if (tensor == NULL || !remember(function, tensor, sharded)) {
        return NULL;
    }
    tensor->gathering->original = sharded;
    tensor->gathering->version = sharded->version;
    tensor->gathering->is_recorded = weft_runtime.tape->no_grad == 0;
    sharded->references++;
    return tensor->handle;
}

weft_tensor *weft_gather_for_use(const char *function, weft_tensor *handle, const weft_placement *placements)
{
    weft_tensor_impl *sharded = weft_tensor_get(handle);
    const weft_layout *from = sharded->layout;
    const weft_layout *to = weft_check_layout(function, from->mesh, placements, from->ndim, from->shape, from->dtype);
    const weft_tape *tape = weft_runtime.tape;
    bool plain = to == NULL || to == from || tape == NULL || weft_runtime.context.depth > 0 || sharded->fake ||
                 sharded->borrowed || from->has_partial || to->has_partial;
    if (!plain && from->dtype == WEFT_F32 && weft_autocast_narrows(tape)) {
        return defer(function, sharded, to);
    }
    weft_tensor *gathered = weft_redistribute(handle, NULL, placements);
    bool frozen = !plain && gathered != NULL && sharded->tape == NULL && tape->no_grad == 0;
    return !frozen || remember(function, weft_tensor_get(gathered), sharded) ? gathered : NULL;
}
