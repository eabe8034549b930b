/* Operations of the program that work in its ghosted arrays. */
#include "dispatch/operands.h"
#include "tensor/ghosts.h"

weft_window weft_window_in_array(const weft_operation *operation, const weft_attributes *attributes, const weft_layout *layout,
                                 int num_inputs, int input, int dim)
{
    weft_call_layouts call = { operation, num_inputs, { NULL }, attributes };
    call.inputs[input] = layout;
    weft_window window = operation->window == NULL ? (weft_window){ .times = 1, .over = 1 } : operation->window(&call, input, dim);
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

/* Why a kernel cannot read the input's halo in its margins; NULL: it can. */
static const char *misfit_of_halo(const weft_call *call, const weft_tensor_impl *tensor, int input)
{
    const weft_ghosts *ghosts = &tensor->ghosted->ghosts;
    const char *why = NULL;
    for (int d = 0; why == NULL && d < tensor->layout->ndim; d++) {
        weft_window w = weft_window_in_array(call->operation, &call->attributes, tensor->layout, call->num_inputs, input, d);
        const bool reads = w.before > 0 || w.after > 0;
        why = tensor->ghosted->has_gaps && reads                                ? "it has gaps, and no ghosts"
              : w.times != 1 || w.over != 1                                    ? "the halo has times or over other than 1"
              : w.before > ghosts->before[d] || w.after > ghosts->after[d] ? "the margins of its arrays are narrower than the halo"
              : w.periodic && !ghosts->periodic[d]                          ? "the halo is periodic, and the margins are not"
                                                                            : NULL;
    }
    return why;
}

/* Why the call's kernel cannot work in the arrays of a ghosted input; NULL: it can. */
static const char *misfit_of(const weft_call *call, const weft_tensor_impl *tensor, int input)
{
    return !call->operation->takes_strides    ? "the operation does not take strides"
           : call->operation->accumulates     ? "the operation accumulates"
           : is_shared(call, input)           ? "it is given twice, and the call changes it"
           : call->attributes.num_sizes > 0   ? "the call gives sizes, by which dimensions may differ from what they read"
                                              : misfit_of_halo(call, tensor, input);
}

static bool reads_margins(const weft_call *call, const weft_layout *layout, int input)
{
    bool reads = false;
    for (int d = 0; d < layout->ndim; d++) {
        weft_window w = weft_window_in_array(call->operation, &call->attributes, layout, call->num_inputs, input, d);
        reads |= w.before > 0 || w.after > 0;
    }
    return reads;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* Which inputs the call takes as they lie in arrays; it is then `own`, which has their maps. False with the error kept: it would
 * read margins elsewhere. */
static bool take_arrays(weft_operands *o, weft_call *own)
{
    *own = *o->call;
    for (int i = 0; i < own->num_inputs; i++) {
        const weft_tensor_impl *input = o->inputs[i];
        const char *why = input->ghosted == NULL ? "it is not ghosted" : misfit_of(own, input, i);
        if (why == NULL) {
            own->access_map[i] = &input->ghosted->map;
            o->ghosted |= 1u << i;
        } else if (input->ghosted != NULL && !input->ghosted->has_gaps && own->operation->takes_strides &&
                   reads_margins(own, input->layout, i)) {
            weft_fail(is_shared(own, i) ? WEFT_ERR_INVALID : WEFT_ERR_SHAPE, own->function, "%s lies in ghosted arrays: %s",
                      own->operation->inputs[i].name, why);
            return false;
        }
    }
    return true;
}

/* An input whose margins the call reads; -1: none. */
static int reader_of_margins(const weft_operands *o)
{
    int found = -1;
    for (int i = 0; i < o->call->num_inputs; i++) {
        bool reads = (o->ghosted >> i & 1) && reads_margins(o->call, o->inputs[i]->layout, i);
        found = reads ? i : found;
    }
    return found;
}

/* Whether the call leaves those inputs where they are, and its letters are cut as they are. */
static bool keeps_arrays(const weft_operands *o, const weft_sharding *sharding)
{
    bool keeps = true;
    for (int i = 0; i < o->call->num_inputs && keeps; i++) {
        weft_access_map map = { .cut = NULL };
        const weft_layout *layout = o->inputs[i]->layout;
        if (!(o->ghosted >> i & 1)) {
            continue;
        }
        keeps = sharding->inputs[i] == layout &&
                (!sharding->has_access_maps || weft_find_access(o->call, sharding, i, &map)) && (map.cut == NULL || map.cut == layout);
        for (int d = 0; d < layout->ndim && sharding->has_access_maps; d++) {
            keeps = keeps && (sharding->window_rows[i][d] < 0 || sharding->window_rows[i][d] == layout->shape[d]);
        }
    }
    return keeps;
}

/* The ghosted inputs that are not read in their arrays get dense copies. False with the error kept. */
static bool make_dense(const weft_operands *o)
{
    bool done = true;
    for (int i = 0; i < o->call->num_inputs && done; i++) {
        weft_tensor_impl *input = o->inputs[i];
        done = input->ghosted == NULL || (o->ghosted >> i & 1) || weft_ghosted_make_dense(o->call->function, input);
    }
    return done;
}

const weft_sharding *weft_obtain_in_arrays(weft_operands *o, weft_call *in_arrays, weft_sharding *own, int *guessed)
{
    const weft_call *given = o->call;
    if (!take_arrays(o, in_arrays)) {
        return NULL;
    }
    o->call = o->ghosted == 0 ? given : in_arrays;
    const weft_sharding *sharding = weft_obtain_layouts(o->call, o->inputs, own, guessed, &o->cached);
    if (sharding != NULL && !keeps_arrays(o, sharding)) {
        int reader = reader_of_margins(o);
        if (reader >= 0) {
            weft_fail(WEFT_ERR_LAYOUT, given->function, "%s lies in ghosted arrays, and the other tensors are cut in another way",
                      given->operation->inputs[reader].name);
            return NULL;
        }
        weft_cache_release(o->cached);
        o->cached = NULL;
        o->call = given;
        o->ghosted = 0;
        sharding = weft_obtain_layouts(given, o->inputs, own, guessed, &o->cached);
    }
    return sharding != NULL && make_dense(o) ? sharding : NULL;
}

bool weft_fills_array(const weft_operands *o, int input)
{
    const weft_tensor_impl *tensor = o->inputs[input];
    return (o->ghosted >> input & 1) && reads_margins(o->call, tensor->layout, input) && !weft_ghosted_is_filled(tensor);
}

/* Whether the tape keeps values that the call has written. */
static bool outputs_are_kept(const weft_call *call)
{
    const weft_gradient_entry *gradient = &call->operation->gradient;
    bool reads = false, taped = false;
    for (int i = 0; i < call->num_inputs; i++) {
        reads |= gradient->by_program != NULL && gradient->reads[i] >> WEFT_MAX_INPUTS != 0;
        taped |= weft_tensor_get(call->inputs[i])->tape != NULL;
    }
    return reads && taped;
}

bool weft_use_arrays(weft_operands *o)
{
    const weft_call *call = o->call;
    bool done = true;
    for (int i = 0; i < call->num_inputs && done; i++) {
        weft_tensor_impl *tensor = o->inputs[i];
        if (!(o->ghosted >> i & 1)) {
            continue;
        }
        done = !weft_fills_array(o, i) || weft_ghosted_fill(call->function, tensor);
        o->ghosts[i] = tensor;
        o->inputs[i] = tensor->ghosted->array;
    }
    return done;
}

bool weft_leave_arrays(weft_operands *o)
{
    const bool kept = o->ghosted != 0 && outputs_are_kept(o->call);
    bool done = true;
    for (int i = 0; i < o->num_outputs && o->ghosted != 0; i++) {
        if (o->call->operation->outputs[i].in_place && o->ghosts[i] != NULL && o->outputs[i] == o->inputs[i]) {
            o->outputs[i] = o->ghosts[i];
            weft_ghosted_array_changed(o->ghosts[i]);
            done = done && (!kept || weft_ghosted_make_dense(o->call->function, o->ghosts[i]));
        }
    }
    return done;
}
