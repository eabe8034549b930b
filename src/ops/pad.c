/* Elements around a tensor: constants, or its own. */
#include <string.h>

#include "ops/data_movement.h"

/* numbers: elements before each dimension (negative: so many are cut off), bits of the padded dimensions, and of the
 * value and its rest (weft_exact); sizes: of these in the output. */
enum { PAD_MASK = WEFT_MAX_DIMS, PAD_VALUE, PAD_REST, PAD_NUMBERS };

static int describe_pad(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    maps[0] = weft_same_map(from);
    for (int d = 0, next = 0; d < from->ndim; d++) {
        if (attributes->numbers[PAD_MASK] >> d & 1) {
            int64_t before = attributes->numbers[d], size = attributes->sizes[next++], first = weft_max_i64(0, -before);
            int64_t last = weft_min_i64(from->shape[d], size - before);
            maps[0].loops[d] = (weft_affine_loop){ .kind = WEFT_LOOP_ACCESS,
                                                   .extent = weft_max_i64(0, last - first),
                                                   .source = { d, first, 1 },
                                                   .target = { d, weft_max_i64(0, before), 1 } };
        }
    }
    return 1;
}

WEFT_MOVE_FUNCTIONS(pad)

static bool lower_padded(const weft_lowering *lowering)
{
    weft_exact value;
    memcpy(&value.value, &lowering->attributes->numbers[PAD_VALUE], sizeof(value.value));
    memcpy(&value.rest, &lowering->attributes->numbers[PAD_REST], sizeof(value.rest));
    return weft_lower_fill(lowering, value) && lower_pad(lowering);
}

static void fill_of_pad(const weft_attributes *attributes, double value[2])
{
    memcpy(&value[0], &attributes->numbers[PAD_VALUE], sizeof(value[0]));
    memcpy(&value[1], &attributes->numbers[PAD_REST], sizeof(value[1]));
}

static bool gradient_of_pad(const weft_gradient *of);

/* Zeros around addends of any kind stay zeros; other values would be added up. */
#define PAD(name_, ...)                                                                                      \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = { .function = gradient_of_pad },                                                         \
        .write_rule = write_pad_rule,                                                                        \
        .rule_like = "ab~->a*b",                                                                              \
        .window = window_of_pad,                                                                             \
        .describe = describe_pad,                                                                            \
        .fill = fill_of_pad,                                                                                 \
        .inputs = { { "a", WEFT_TYPES_MOVED, false } },                                                      \
        .lower = lower_padded,                                                                               \
        __VA_ARGS__                                                                                          \
    };

PAD(pad, .num_outputs = 1)
PAD(pad_zeros, .outputs[0].linear = WEFT_PASSES_ALL)

static weft_tensor *pad_constant(const char *function, weft_tensor *a, const int64_t before[], const int64_t after[],
                                 weft_exact value)
{
    const weft_layout *layout = weft_layout_of(a);
    weft_attributes attributes = { .num_numbers = PAD_NUMBERS };
    for (int d = 0; d < layout->ndim; d++) {
        if (before[d] != 0 || after[d] != 0) {
            attributes.numbers[d] = before[d];
            attributes.numbers[PAD_MASK] |= (int64_t)1 << d;
            attributes.sizes[attributes.num_sizes++] = layout->shape[d] + before[d] + after[d];
        }
    }
    memcpy(&attributes.numbers[PAD_VALUE], &value.value, sizeof(value.value));
    memcpy(&attributes.numbers[PAD_REST], &value.rest, sizeof(value.rest));
    const weft_operation *operation = value.value == 0 && value.rest == 0 ? &operation_pad_zeros : &operation_pad;
    return attributes.num_sizes == 0 ? weft_same(function, a) : weft_dispatch_move(function, operation, a, &attributes);
}

/* Padding by the negative numbers cuts the gradient out again. */
static bool gradient_of_pad(const weft_gradient *of)
{
    const weft_layout *from = weft_layout_of(of->call->inputs[0]);
    const weft_attributes *attributes = &of->call->attributes;
    int64_t before[WEFT_MAX_DIMS] = { 0 }, after[WEFT_MAX_DIMS] = { 0 };
    for (int d = 0, next = 0; d < from->ndim; d++) {
        if (attributes->numbers[PAD_MASK] >> d & 1) {
            before[d] = -attributes->numbers[d];
            after[d] = from->shape[d] - attributes->sizes[next++] - before[d];
        }
    }
    return weft_give_gradient(of, 0, pad_constant(of->call->function, weft_gradient_of_output(of, 0), before, after, (weft_exact){ 0, 0 }));
}

/* ---- a tensor's own elements --------------------------------------------------------------------------- */

/* The `count` elements before a dimension's first index, or after its last one. */
static weft_tensor *beside(weft_tensor *a, int d, int64_t count, bool behind, weft_pad_mode mode)
{
    int64_t size = weft_layout_of(a)->shape[d], shape[WEFT_MAX_DIMS];
    weft_tensor *edge;
    switch (mode) {
    case WEFT_PAD_REFLECT:
        edge = behind ? weft_slice(a, d, size - 1 - count, size - 1, 1) : weft_slice(a, d, 1, count + 1, 1);
        return edge == NULL ? NULL : weft_flip(edge, 1, &d);
    case WEFT_PAD_REPLICATE:
        edge = behind ? weft_slice(a, d, size - 1, size, 1) : weft_slice(a, d, 0, 1, 1);
        for (int e = 0; e < WEFT_MAX_DIMS; e++) {
            shape[e] = e == d ? count : -1;
        }
        return edge == NULL ? NULL : weft_expand(edge, weft_layout_of(a)->ndim, shape);
    default:
        return behind ? weft_slice(a, d, 0, count, 1) : weft_slice(a, d, size - count, size, 1);
    }
}

static weft_tensor *pad_dim(weft_tensor *a, int d, int64_t before, int64_t after, weft_pad_mode mode)
{
    weft_tensor *parts[3];
    int count = 0;
    if (before > 0) {
        parts[count++] = beside(a, d, before, false, mode);
    }
    parts[count++] = a;
    if (after > 0) {
        parts[count++] = beside(a, d, after, true, mode);
    }
    return parts[0] == NULL || parts[count - 1] == NULL ? NULL : weft_cat(count, parts, d);
}

/* numbers[0]: the mode; sizes: before each dimension, and after each. */
static bool expand_around(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t *before = call->attributes.sizes, *after = before + WEFT_MAX_DIMS;
    outputs[0] = call->inputs[0];
    for (int d = 0; d < weft_layout_of(call->inputs[0])->ndim && outputs[0] != NULL; d++) {
        if (before[d] > 0 || after[d] > 0) {
            outputs[0] = pad_dim(outputs[0], d, before[d], after[d], (weft_pad_mode)call->attributes.numbers[0]);
        }
    }
    return outputs[0] != NULL;
}

static const weft_operation operation_pad_around = {
    .name = "pad_around",
    .gradient = WEFT_GRADIENT_OF_MOVES,
    .inputs = { { "a", WEFT_TYPES_MOVED, false } },
    .expand = expand_around,
};

static weft_tensor *pad_around(const char *function, weft_tensor *a, const int64_t before[], const int64_t after[],
                               weft_pad_mode mode)
{
    int ndim = weft_layout_of(a)->ndim;
    weft_attributes attributes = { .num_sizes = 2 * WEFT_MAX_DIMS, .num_numbers = 1, .numbers = { mode } };
    bool any = false;
    for (int d = 0; d < ndim; d++) {
        attributes.sizes[d] = before[d];
        attributes.sizes[WEFT_MAX_DIMS + d] = after[d];
        any |= before[d] > 0 || after[d] > 0;
    }
    return any ? weft_dispatch_move(function, &operation_pad_around, a, &attributes) : weft_same(function, a);
}

/* ---- the call ------------------------------------------------------------------------------------------ */

/* The most elements on one side that a dimension of this size can give. */
static int64_t most_around(int64_t size, weft_pad_mode mode)
{
    return mode == WEFT_PAD_CIRCULAR  ? size
           : mode == WEFT_PAD_REFLECT ? weft_max_i64(0, size - 1)
           : size == 0                ? 0
                                      : INT64_MAX / 4;
}

static bool check_side(const char *function, const char *name, int d, int64_t value, int64_t least, int64_t most)
{
    if (value < least || value > most) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %lld in dimension %d, expected %lld to %lld", name, (long long)value, d,
                  (long long)least, (long long)most);
        return false;
    }
    return true;
}

static bool check_pads(const char *function, weft_tensor *a, int ndim, const int64_t before[], const int64_t after[],
                       weft_pad_mode mode)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return false;
    }
    const weft_layout *layout = weft_layout_of(a);
    if (ndim != layout->ndim || (ndim > 0 && (before == NULL || after == NULL))) {
        weft_fail(WEFT_ERR_INVALID, function, "ndim is %d%s, expected %d, as a has", ndim,
                  before == NULL || after == NULL ? " and before or after NULL" : "", layout->ndim);
        return false;
    }
    if ((int)mode < WEFT_PAD_CONSTANT || mode > WEFT_PAD_CIRCULAR) {
        weft_fail(WEFT_ERR_INVALID, function, "mode is %d, which is no weft_pad_mode", (int)mode);
        return false;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        int64_t size = layout->shape[d];
        bool constant = mode == WEFT_PAD_CONSTANT;
        int64_t least = constant ? -size : 0, most = constant ? INT64_MAX / 4 : most_around(size, mode);
        if (!check_side(function, "before", d, before[d], least, most) ||
            !check_side(function, "after", d, after[d], weft_max_i64(least, -(size + before[d])), most)) {
            return false;
        }
        shape[d] = size + before[d] + after[d];
    }
    return weft_check_shape(function, ndim, shape);
}

weft_tensor *(weft_pad)(weft_tensor *a, weft_pad_mode mode, weft_scalar value, int ndim, const int64_t before[],
                        const int64_t after[])
{
    static const char function[] = "weft_pad";
    if (!check_pads(function, a, ndim, before, after, mode)) {
        return NULL;
    }
    if (mode != WEFT_PAD_CONSTANT) {
        return pad_around(function, a, before, after, mode);
    }
    weft_exact taken;
    return weft_take_number(function, "value", weft_layout_of(a)->dtype, value, &taken)
               ? pad_constant(function, a, before, after, taken)
               : NULL;
}

const weft_operation *const weft_pad_operations[] = {
    &operation_pad,
    &operation_pad_zeros,
    &operation_pad_around,
    NULL,
};
