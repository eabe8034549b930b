/* Mixed precision: regions in which calls get their inputs in other types (cast.c), and the lists of operations that do. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"

/* PyTorch's lists (torch.amp). Operations in neither take their inputs as they are. */
static const char *const narrow[] = { "matmul", "outer", "convolution", "conv3d", "conv_transpose", "conv_transpose3d", "attention",
                                     "attention_grouped", "prelu" };
static const char *const wide[] = {
    "sum",       "prod",    "cumsum",        "cumprod", "p_norm",  "var",    "softmax",    "log_softmax", "norm",
    "rms_norm",  "nll",     "cross_entropy", "cross_entropy_of_parts", "mse", "exp", "expm1",   "exp2",        "log",         "log1p",
    "log2",      "log10",   "pow",           "rsqrt",   "softplus", "tan",   "pow_scalar", "reciprocal",  "sinh",
    "cosh",      "asin",    "acos",          "huber",   "binary_cross_entropy", "kl_div", "kl_div_of_logs", "logit_cross_entropy",
    "weighted_logit_cross_entropy", "general_cross_entropy", "group_norm", "cosine_similarity",
};

static bool is_listed(const char *name, const char *const list[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static weft_cast cast_by_name(const char *name)
{
    return is_listed(name, narrow, WEFT_ARRAY_SIZE(narrow)) ? WEFT_CAST_NARROW
           : is_listed(name, wide, WEFT_ARRAY_SIZE(wide))   ? WEFT_CAST_WIDE
                                                            : WEFT_CAST_NONE;
}

static bool find_rules(const char *function, weft_vec *rules)
{
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++) {
            weft_cast how = cast_by_name((*o)->name);
            weft_cast_rule *rule = how == WEFT_CAST_NONE ? NULL : weft_vec_push(rules, sizeof(*rule));
            if (how != WEFT_CAST_NONE && rule == NULL) {
                rules->count = 0; /* no part of the list is used */
                weft_fail(WEFT_ERR_NOMEM, function, "no memory for a list of operations");
                return false;
            }
            if (rule != NULL) {
                *rule = (weft_cast_rule){ *o, how };
            }
        }
    }
    return true;
}

weft_status weft_autocast_begin(weft_dtype dtype)
{
    static const char function[] = "weft_autocast_begin";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (dtype != WEFT_F32 && !weft_is_16_bit(dtype)) {
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
    weft_casts_close(tape, tape->casts.count - 1);
    return WEFT_OK;
}

weft_tape_regions weft_tape_regions_open(void)
{
    const weft_tape *tape = weft_runtime.tape;
    return tape == NULL ? (weft_tape_regions){ .no_grad = 0 }
                        : (weft_tape_regions){ tape->no_grad, tape->casts.count,
                                               tape->casts.count == 0 ? WEFT_F32 : weft_cast_type(tape) };
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
    weft_casts_close(tape, regions->casts); /* or opened again: the room for those that were closed is there */
    if (regions->casts > 0) {
        ((weft_dtype *)tape->casts.items)[regions->casts - 1] = regions->cast;
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
