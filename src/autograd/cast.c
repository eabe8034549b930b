/* The inputs of calls in regions of mixed precision, and gathered ones. The conversions are calls of their own, so that
 * gradients pass through them. */
#include "autograd/tape.h"

/* A converted leaf. */
typedef struct converted {
    weft_tape_leaf *leaf;     /* with a reference */
    weft_tensor_impl *tensor; /* with a reference */
    uint64_t version;         /* of the leaf's tensor */
} converted;

static weft_cast cast_of(const weft_tape *tape, const weft_operation *operation)
{
    const weft_cast_rule *rules = tape->cast_rules.items;
    for (size_t i = 0; i < tape->cast_rules.count; i++) {
        if (rules[i].operation == operation) {
            return rules[i].cast;
        }
    }
    return WEFT_CAST_NONE;
}

/* ---- conversions ----------------------------------------------------------------------------------------- */

static converted *find_converted(weft_tape *tape, const weft_tape_leaf *leaf, weft_dtype dtype)
{
    converted *all = tape->converted.items;
    for (size_t i = 0; i < tape->converted.count; i++) {
        if (all[i].leaf == leaf && all[i].tensor->layout->dtype == dtype) {
            return &all[i];
        }
    }
    return NULL;
}

/* A leaf is converted once in a region, while it is not written to. Not in a segment: each run has its own tape. */
static weft_tensor *convert_leaf(weft_tape *tape, weft_tensor_impl *tensor, weft_dtype dtype)
{
    weft_tape_leaf *leaf = weft_tape_leaf_of(tensor->tape);
    bool keeps = tape->no_grad == 0 && !tape->in_segment;
    converted *former = keeps ? find_converted(tape, leaf, dtype) : NULL;
    if (former != NULL && former->version == tensor->version) {
        return weft_tensor_handle(weft_tensor_share(former->tensor));
    }
    weft_tensor *result = weft_to_type(tensor->handle, dtype);
    if (result == NULL || !keeps) {
        return result;
    }
    if (former == NULL) {
        former = weft_vec_push(&tape->converted, sizeof(*former));
        if (former == NULL) {
            return result; /* converted again next time */
        }
        leaf->node.references++;
        former->leaf = leaf;
    } else {
        weft_tensor_unreference(former->tensor);
    }
    former->tensor = weft_tensor_get(result);
    if (former->tensor->tape != NULL) {
        former->tensor->tape->node->stays = true;
    }
    former->tensor->references++;
    former->version = tensor->version;
    return result;
}

static weft_tensor *convert(weft_tape *tape, weft_tensor_impl *tensor, weft_dtype dtype)
{
    if (weft_is_deferred(tensor)) {
        return weft_gather_converted(tensor, dtype);
    }
    if (tensor->tape != NULL && weft_tape_leaf_of(tensor->tape) != NULL) {
        return convert_leaf(tape, tensor, dtype);
    }
    weft_tensor *result = weft_to_type(tensor->handle, dtype);
    return result != NULL && weft_gathered_like("weft_to_type", weft_tensor_get(result), tensor) ? result : NULL;
}

/* f64 stays: nobody asks for it by accident. */
static weft_dtype type_for(weft_cast how, weft_dtype dtype, weft_dtype narrow_type)
{
    bool narrows = how == WEFT_CAST_NARROW && (dtype == WEFT_F32 || weft_is_16_bit(dtype));
    return narrows ? narrow_type : how == WEFT_CAST_WIDE && weft_is_16_bit(dtype) ? WEFT_F32 : dtype;
}

static bool is_changed(const weft_call *call, int input)
{
    return input < weft_call_num_outputs(call) && weft_call_changes(call, input);
}

/* Gathers the inputs that the call reads as they are. False with the error kept. */
static bool gather_inputs(const weft_call *call)
{
    bool reads = !weft_call_does(call, WEFT_KEEPS), done = true;
    for (int i = 0, count = reads ? weft_call_num_tensors(call) : 0; i < count && done; i++) {
        const weft_tensor *handle = weft_call_tensor(call, i);
        weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
        done = tensor == NULL || !weft_is_deferred(tensor) || weft_gather_now(tensor);
    }
    return done;
}

/* The call with its inputs in other types, in `own`; or the call. NULL with the error kept. */
static const weft_call *cast_inputs(weft_tape *tape, const weft_call *call, weft_call *own)
{
    weft_dtype narrow_type = weft_cast_type(tape);
    weft_cast how = cast_of(tape, call->operation);
    for (int i = 0; i < call->num_inputs && how != WEFT_CAST_NONE; i++) {
        weft_tensor_impl *tensor = call->inputs[i] == NULL ? NULL : weft_tensor_get(call->inputs[i]);
        weft_dtype dtype = tensor == NULL ? WEFT_F32 : tensor->layout->dtype, type = type_for(how, dtype, narrow_type);
        if (tensor == NULL || type == dtype || is_changed(call, i)) {
            continue;
        }
        if (call != own) {
            *own = *call;
            call = own;
        }
        own->inputs[i] = convert(tape, tensor, type);
        if (own->inputs[i] == NULL) {
            return NULL;
        }
        /* The public function has given the result the type that its inputs had. */
        if (call->operation->outputs[0].type == WEFT_TYPE_GIVEN && call->attributes.type == (int64_t)dtype) {
            own->attributes.type = (int64_t)type;
        }
    }
    return call;
}

const weft_call *weft_autocast(weft_tape *tape, const weft_call *call, weft_call *own)
{
    if (tape->casts.count == 0 && tape->deferred == 0) {
        return call;
    }
    if (!weft_call_is_action(call) && weft_autocast_narrows(tape)) {
        call = cast_inputs(tape, call, own);
    }
    return call == NULL || tape->deferred == 0 || gather_inputs(call) ? call : NULL;
}

static void forget_converted(weft_tape *tape)
{
    converted *all = tape->converted.items;
    for (size_t i = 0; i < tape->converted.count; i++) {
        weft_tensor_unreference(all[i].tensor);
        weft_tape_node_release(&all[i].leaf->node);
    }
    tape->converted.count = 0;
}

void weft_autocast_stop(weft_tape *tape)
{
    forget_converted(tape);
    weft_vec_free(&tape->converted);
    weft_vec_free(&tape->casts);
    weft_vec_free(&tape->cast_rules);
}

void weft_casts_close(weft_tape *tape, size_t depth)
{
    tape->casts.count = depth;
    if (depth == 0) {
        forget_converted(tape);
    }
}
