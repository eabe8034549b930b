/* Mixed precision: regions in which calls get their inputs in other types. The conversions are calls of their own, so
 * that gradients pass through them. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

/* PyTorch's lists (torch.amp). Operations in neither take their inputs as they are. */
static const char *const narrow[] = { "matmul", "outer", "convolution", "conv3d", "conv_transpose", "conv_transpose3d", "attention",
                                     "attention_grouped", "prelu" };
static const char *const wide[] = {
    "sum",       "prod",    "cumsum",        "cumprod", "p_norm",  "var",    "softmax",    "log_softmax", "norm",
    "rms_norm",  "nll",     "cross_entropy", "mse",     "exp",     "expm1",  "exp2",       "log",         "log1p",
    "log2",      "log10",   "pow",           "rsqrt",   "softplus", "tan",   "pow_scalar", "reciprocal",  "sinh",
    "cosh",      "asin",    "acos",          "huber",   "binary_cross_entropy", "kl_div", "kl_div_of_logs", "logit_cross_entropy",
    "weighted_logit_cross_entropy", "general_cross_entropy", "group_norm", "cosine_similarity",
};

typedef enum cast { CAST_NONE, CAST_NARROW, CAST_WIDE } cast;

typedef struct cast_rule {
    const weft_operation *operation;
    cast cast;
} cast_rule;

/* A converted leaf. */
typedef struct converted {
    weft_tape_leaf *leaf;     /* with a reference */
    weft_tensor_impl *tensor; /* with a reference */
    uint64_t version;         /* of the leaf's tensor */
} converted;

static bool is_listed(const char *name, const char *const list[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static cast cast_by_name(const char *name)
{
    return is_listed(name, narrow, WEFT_ARRAY_SIZE(narrow)) ? CAST_NARROW
           : is_listed(name, wide, WEFT_ARRAY_SIZE(wide))   ? CAST_WIDE
                                                            : CAST_NONE;
}

static bool find_rules(const char *function, weft_vec *rules)
{
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++) {
            cast how = cast_by_name((*o)->name);
            cast_rule *rule = how == CAST_NONE ? NULL : weft_vec_push(rules, sizeof(*rule));
            if (how != CAST_NONE && rule == NULL) {
                rules->count = 0; /* no part of the list is used */
                weft_fail(WEFT_ERR_NOMEM, function, "no memory for a list of operations");
                return false;
            }
            if (rule != NULL) {
                *rule = (cast_rule){ *o, how };
            }
        }
    }
    return true;
}

static cast cast_of(const weft_tape *tape, const weft_operation *operation)
{
    const cast_rule *rules = tape->cast_rules.items;
    for (size_t i = 0; i < tape->cast_rules.count; i++) {
        if (rules[i].operation == operation) {
            return rules[i].cast;
        }
    }
    return CAST_NONE;
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

static bool is_16_bit(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16;
}

/* f64 stays: nobody asks for it by accident. */
static weft_dtype type_for(cast how, weft_dtype dtype, weft_dtype narrow_type)
{
    bool narrows = how == CAST_NARROW && (dtype == WEFT_F32 || is_16_bit(dtype));
    return narrows ? narrow_type : how == CAST_WIDE && is_16_bit(dtype) ? WEFT_F32 : dtype;
}

static weft_dtype region_type(const weft_tape *tape)
{
    return ((const weft_dtype *)tape->casts.items)[tape->casts.count - 1];
}

static bool is_changed(const weft_call *call, int input)
{
    return input < weft_call_num_outputs(call) && weft_call_changes(call, input);
}

bool weft_autocast_narrows(const weft_tape *tape)
{
    return tape->casts.count > 0 && (!tape->in_pass || tape->in_segment) && is_16_bit(region_type(tape));
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
    weft_dtype narrow_type = region_type(tape);
    cast how = cast_of(tape, call->operation);
    for (int i = 0; i < call->num_inputs && how != CAST_NONE; i++) {
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
    if (call->operation != NULL && weft_autocast_narrows(tape)) {
        call = cast_inputs(tape, call, own);
    }
    return call == NULL || tape->deferred == 0 || gather_inputs(call) ? call : NULL;
}

/* ---- regions --------------------------------------------------------------------------------------------- */

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

weft_status weft_autocast_begin(weft_dtype dtype)
{
    static const char function[] = "weft_autocast_begin";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (dtype != WEFT_F32 && !is_16_bit(dtype)) {
        return weft_fail(WEFT_ERR_DTYPE, function, "dtype is %s, expected bf16, f16 or f32", weft_dtype_name(dtype));
    }
    weft_tape *tape = weft_tape_obtain(function);
    if (tape == NULL || (tape->cast_rules.count == 0 && !find_rules(function, &tape->cast_rules))) {
        return weft_latest_status();
    }
    weft_dtype *entry = weft_vec_push(&tape->casts, sizeof(*entry));
    if (entry == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a region");
    }
    *entry = dtype;
    return WEFT_OK;
}

weft_status weft_autocast_end(void)
{
    static const char function[] = "weft_autocast_end";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_tape *tape = weft_runtime.tape;
    if (tape == NULL || tape->casts.count <= tape->casts_min) {
        return weft_fail(WEFT_ERR_STATE, function, "no weft_autocast_begin() is open");
    }
    if (--tape->casts.count == 0) {
        forget_converted(tape);
    }
    return WEFT_OK;
}

weft_tape_regions weft_tape_regions_open(void)
{
    const weft_tape *tape = weft_runtime.tape;
    return tape == NULL ? (weft_tape_regions){ .no_grad = 0 }
                        : (weft_tape_regions){ tape->no_grad, tape->casts.count,
                                               tape->casts.count == 0 ? WEFT_F32 : region_type(tape) };
}

bool weft_tape_regions_restore(const weft_tape_regions *regions)
{
    weft_tape *tape = weft_runtime.tape;
    if (tape == NULL) {
        return true;
    }
    const weft_tape_regions found = weft_tape_regions_open();
    bool same = found.no_grad == regions->no_grad && found.casts == regions->casts && found.cast == regions->cast;
    tape->no_grad = regions->no_grad;
    tape->casts.count = regions->casts; /* the room for those that were closed is there */
    if (regions->casts > 0) {
        ((weft_dtype *)tape->casts.items)[regions->casts - 1] = regions->cast;
    } else {
        forget_converted(tape);
    }
    return same;
}

weft_dtype weft_autocast_dtype(void)
{
    if (weft_require_init("weft_autocast_dtype") != WEFT_OK) {
        return WEFT_F32;
    }
    return weft_runtime.devices.bytes > 0 ? WEFT_F16 : WEFT_BF16; /* equal on all processes */
}

weft_status weft_autocast_print(FILE *file)
{
    static const char function[] = "weft_autocast_print";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    const struct {
        const char *title, *const *names;
        size_t count;
    } lists[] = { { "16 bits:", narrow, WEFT_ARRAY_SIZE(narrow) }, { "f32:    ", wide, WEFT_ARRAY_SIZE(wide) } };
    bool written = true;
    for (int l = 0; l < 2; l++) {
        written = fputs(lists[l].title, file) >= 0 && written;
        for (size_t i = 0; i < lists[l].count; i++) {
            written = fprintf(file, " %s", lists[l].names[i]) >= 0 && written;
        }
        written = fputs("\n", file) >= 0 && written;
    }
    return written ? WEFT_OK : weft_fail(WEFT_ERR_IO, function, "the file cannot be written");
}
