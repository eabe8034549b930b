/* Normalisation over the last dimensions. Kernels take whole vectors; if these are sharded, mean, variance
 * and other statistics are computed first, and no vector is gathered. */
#include "codelets/norms.h"

#include <stdio.h>

#include "ops/row_reduce.h"

/* ---- rules --------------------------------------------------------------------------------------------- */

/* Rule letters of a tensor of vectors, "ab[c][d]", or "abcd" if sharded; and of its statistics. */
typedef struct letters {
    char tensor[WEFT_LETTERS_SIZE];
    char statistic[WEFT_LETTERS_SIZE];  /* "ab11" */
    char sums[WEFT_LETTERS_SIZE];       /* "ab1[z]" */
    char vector[WEFT_LETTERS_SIZE];     /* "cd" */
    char one_vector[WEFT_LETTERS_SIZE]; /* "11cd" */
} letters;

static int64_t vectors_mask(int ndim, int64_t first)
{
    return (((int64_t)1 << ndim) - 1) & ~(((int64_t)1 << first) - 1);
}

static letters write_letters(const weft_call_layouts *call, const weft_layout *a)
{
    int64_t first = call->attributes->numbers[WEFT_NORM_FIRST], mask = vectors_mask(a->ndim, first);
    bool parts = call->attributes->numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_STATISTICS;
    letters l;
    weft_write_letters(l.tensor, a->ndim, mask, parts ? WEFT_LETTERS_ALL : WEFT_LETTERS_WHOLE);
    weft_write_letters(l.statistic, a->ndim, mask, WEFT_LETTERS_ONES);
    weft_write_letters(l.vector, a->ndim, mask, WEFT_LETTERS_CHOSEN);
    weft_write_letters(l.one_vector, a->ndim, mask, WEFT_LETTERS_OTHERS);
    snprintf(l.sums, sizeof(l.sums), "%.*s[z]", a->ndim - 1, l.statistic);
    return l;
}

/* `num_tensors` tensors of vectors, then the parts in the order of norms.h. */
static void write_inputs(const weft_call_layouts *call, const letters *l, int num_tensors, const char *output,
                         char *buffer, size_t size)
{
    int64_t parts = call->attributes->numbers[WEFT_NORM_PARTS];
    bool centred = call->attributes->numbers[WEFT_NORM_CENTRED],
         statistics = parts & WEFT_NORM_HAS_STATISTICS;
    const struct {
        bool is_there;
        const char *letters;
    } further[] = { { num_tensors > 1, l->tensor },
                    { statistics && centred, l->statistic },
                    { statistics, l->statistic },
                    { parts & WEFT_NORM_HAS_SUMS, l->sums },
                    { parts & WEFT_NORM_HAS_GAIN, l->vector },
                    { parts & WEFT_NORM_HAS_BIAS, l->vector } };
    weft_text text = weft_text_in(buffer, size);
    weft_text_add(&text, "%s", l->tensor);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(further); i++) {
        if (further[i].is_there) {
            weft_text_add(&text, ",%s", further[i].letters);
        }
    }
    weft_text_add(&text, "->%s", output);
}

static void write_norm_rule(const weft_call_layouts *call, char *text, size_t size)
{
    letters l = write_letters(call, call->inputs[0]);
    write_inputs(call, &l, 1, l.tensor, text, size);
}

static void write_backward_rule(const weft_call_layouts *call, char *text, size_t size)
{
    letters l = write_letters(call, call->inputs[0]);
    write_inputs(call, &l, 2, l.tensor, text, size);
}

static void write_sums_rule(const weft_call_layouts *call, char *text, size_t size)
{
    letters l = write_letters(call, call->inputs[0]);
    write_inputs(call, &l, 2, l.sums, text, size);
}

static void write_gain_rule(const weft_call_layouts *call, char *text, size_t size)
{
    letters l = write_letters(call, call->inputs[0]);
    write_inputs(call, &l, 2, l.one_vector, text, size);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

#define LINEAR_IN_GRADIENT                                                                                   \
    {                                                                                                        \
        .kind = WEFT_LINEAR_EACH, .inputs = 1u << 1, .ops = WEFT_LINEAR_OPS                                  \
    }

static bool has_parts_of_vectors(const weft_call_layouts *call);
static bool expand_forward(const weft_call *call, weft_tensor *outputs[]);

static bool gradients_of_norm(const weft_gradient *of);

/* Inputs: a, and gain and bias where they are given. */
#define NORM_GRADIENT                                                                                        \
    {                                                                                                        \
        .function = gradients_of_norm, .reads = { NORM_READS, NORM_READS, NORM_READS }                       \
    }
#define NORM_READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1))

static const weft_operation operation_norm = {
    .name = "norm",
    .gradient = NORM_GRADIENT,
    .write_rule = write_norm_rule,
    .rule_like = "A[b],[b]->A[b]",
    .inputs = { { "a", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "bias", WEFT_TYPES_FLOAT, false },
                { "gain", WEFT_TYPES_FLOAT, false },
                { "bias", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_norm,
    .expand = expand_forward,
    .expands = has_parts_of_vectors,
};

/* Only its input names are used: a bias without a gain. */
static const weft_operation operation_norm_bias = {
    .name = "norm",
    .gradient = NORM_GRADIENT,
    .write_rule = write_norm_rule,
    .rule_like = "A[b],[b],[b]->A[b]",
    .inputs = { { "a", WEFT_TYPES_FLOAT, false }, { "bias", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_norm,
    .expand = expand_forward,
    .expands = has_parts_of_vectors,
};

#define BACKWARD(name_, rule, like, type_, adds)                                                             \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .gradient = WEFT_GRADIENT_OF_WHOLE("norm_gradients"),                                                \
        .write_rule = rule,                                                                                  \
        .rule_like = like,                                                                                   \
        .outputs[0].linear = LINEAR_IN_GRADIENT,                                                             \
        .inputs = { { "a", WEFT_TYPES_FLOAT, false },                                                        \
                    { "gradient", WEFT_TYPES_FLOAT, true },                                                  \
                    { "gain", WEFT_TYPES_FLOAT, false },                                                     \
                    { "variance", WEFT_TYPES_FLOAT, false },                                                 \
                    { "sums", WEFT_TYPES_FLOAT, false },                                                     \
                    { "gain", WEFT_TYPES_FLOAT, false } },                                                   \
        .outputs[0].type = type_,                                                                            \
        .kernel = WEFT_KERNEL_##name_,                                                                       \
        .accumulates = adds,                                                                                 \
    };
BACKWARD(norm_backward, write_backward_rule, "A[b],A[b],[b]->A[b]", WEFT_TYPE_FIRST, false)
BACKWARD(norm_sums, write_sums_rule, "Ab,Ab,b->A1", WEFT_TYPE_GIVEN, true)
BACKWARD(norm_gain_backward, write_gain_rule, "A[b],A[b]->[b]", WEFT_TYPE_GIVEN, true)

/* ---- calls --------------------------------------------------------------------------------------------- */

typedef struct norm {
    const char *function;
    bool centred;
    weft_tensor *a, *gradient, *gain, *bias; /* all but a may be NULL */
    double epsilon;
    int64_t first, mask;          /* first dimension of the vectors, and mask of their dimensions */
    weft_tensor *mean, *variance; /* of sharded vectors; else NULL */
} norm;

static void add_input(weft_call *call, int64_t part, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
        call->attributes.numbers[WEFT_NORM_PARTS] |= part;
    }
}

/* With all inputs of the norm. */
static weft_call call_of(const norm *n, const weft_operation *operation, weft_dtype type, weft_tensor *sums,
                         weft_tensor *gain, weft_tensor *bias)
{
    weft_call call = { .function = n->function, .operation = operation, .scalars = { n->epsilon } };
    call.attributes.type = operation->outputs[0].type == WEFT_TYPE_GIVEN ? (int64_t)type : 0;
    call.attributes.num_numbers = WEFT_NORM_NUMBERS;
    call.attributes.numbers[WEFT_NORM_FIRST] = n->first;
    call.attributes.numbers[WEFT_NORM_CENTRED] = n->centred;
    add_input(&call, 0, n->a);
    add_input(&call, 0, n->gradient);
    add_input(&call, WEFT_NORM_HAS_STATISTICS, n->mean);
    add_input(&call, WEFT_NORM_HAS_STATISTICS, n->variance);
    add_input(&call, WEFT_NORM_HAS_SUMS, sums);
    add_input(&call, WEFT_NORM_HAS_GAIN, gain);
    add_input(&call, WEFT_NORM_HAS_BIAS, bias);
    return call;
}

/* Finds the vectors' dimensions; the other arguments are live tensors or NULL. False with the error kept. */
static bool check(norm *n, bool has_gradient)
{
    const weft_tensor_impl *a = weft_check_tensor(n->function, "a", n->a);
    if (a == NULL || (has_gradient && weft_check_tensor(n->function, "gradient", n->gradient) == NULL) ||
        (n->gain != NULL && weft_check_tensor(n->function, "gain", n->gain) == NULL) ||
        (n->bias != NULL && weft_check_tensor(n->function, "bias", n->bias) == NULL)) {
        return false;
    }
    const weft_tensor *model = n->gain != NULL ? n->gain : n->bias;
    const char *name = n->gain != NULL ? "gain" : "bias";
    int ndim = a->layout->ndim, own = model == NULL ? 1 : weft_layout_of(model)->ndim;
    if (ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, n->function, "a is a scalar, expected at least 1 dimension");
        return false;
    }
    if (own < 1 || own > ndim) {
        weft_fail(WEFT_ERR_SHAPE, n->function, "%s has %d dimensions, expected 1 to %d, as a has", name, own,
                  ndim);
        return false;
    }
    if (!(n->epsilon >= 0)) {
        weft_fail(WEFT_ERR_INVALID, n->function, "epsilon is %g, expected at least 0", n->epsilon);
        return false;
    }
    n->first = ndim - own;
    n->mask = vectors_mask(ndim, n->first);
    return true;
}

/* Redistributes the tensors to the shards of `layout`, and computes mean and variance of the sharded
 * vectors. False with the error kept. */
static bool take_statistics(norm *n, const weft_layout *layout)
{
    double scale = 1 / weft_count_along(layout, n->mask);
    n->a = weft_place_like(n->function, n->a, layout, 0);
    if (n->gradient != NULL) {
        n->gradient = weft_place_like(n->function, n->gradient, layout, 0);
    }
    if (n->a == NULL) {
        return false;
    }
    if (n->centred) {
        n->mean = weft_sum_statistic(n->function, WEFT_STATISTIC_SUM, n->a, NULL, n->mask, scale);
        n->mean = weft_place_like(n->function, n->mean, layout, n->mask);
        if (n->mean == NULL) {
            return false;
        }
    }
    weft_row_statistic kind = n->centred ? WEFT_STATISTIC_DIFFERENCES : WEFT_STATISTIC_SQUARES;
    n->variance = weft_sum_statistic(n->function, kind, n->a, n->mean, n->mask, scale);
    n->variance = weft_place_like(n->function, n->variance, layout, n->mask);
    return n->variance != NULL;
}

static bool has_elements(const weft_layout *layout)
{
    return weft_count_along(layout, -1) > 0;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

static bool has_parts_of_vectors(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    return weft_is_cut(a, vectors_mask(a->ndim, call->attributes->numbers[WEFT_NORM_FIRST])) && has_elements(a);
}

/* The norm of a call; `used`: number of its inputs before the gain. */
static norm norm_of(const weft_call *call, int used)
{
    const int64_t *numbers = call->attributes.numbers;
    norm n = { .function = call->function,
               .centred = numbers[WEFT_NORM_CENTRED] != 0,
               .a = call->inputs[0],
               .epsilon = call->scalars[0],
               .first = numbers[WEFT_NORM_FIRST] };
    n.mask = vectors_mask(weft_layout_of(n.a)->ndim, n.first);
    n.gain = numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_GAIN ? call->inputs[used++] : NULL;
    n.bias = numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_BIAS ? call->inputs[used] : NULL;
    return n;
}

static bool expand_forward(const weft_call *call, weft_tensor *outputs[])
{
    norm n = norm_of(call, 1);
    if (!take_statistics(&n, weft_layout_of(n.a))) {
        return false;
    }
    weft_call parts = call_of(&n, &operation_norm, 0, NULL, n.gain, n.bias);
    outputs[0] = weft_dispatch_itself(&parts);
    return outputs[0] != NULL;
}

static weft_tensor *forward(norm n)
{
    if (!check(&n, false)) {
        return NULL;
    }
    weft_call call = call_of(&n, n.gain == NULL && n.bias != NULL ? &operation_norm_bias : &operation_norm, 0, NULL,
                             n.gain, n.bias);
    return weft_dispatch(&call);
}

weft_tensor *weft_layer_norm(weft_tensor *a, weft_tensor *gain, weft_tensor *bias, double epsilon)
{
    return forward((norm){ .function = "weft_layer_norm",
                           .centred = true,
                           .a = a,
                           .gain = gain,
                           .bias = bias,
                           .epsilon = epsilon });
}

weft_tensor *weft_rms_norm(weft_tensor *a, weft_tensor *gain, double epsilon)
{
    return forward((norm){ .function = "weft_rms_norm", .a = a, .gain = gain, .epsilon = epsilon });
}

/* ---- backward ------------------------------------------------------------------------------------------ */

static weft_tensor *gradient_of_a(const norm *n)
{
    weft_tensor *sums = NULL;
    if (n->variance != NULL) {
        weft_call call = call_of(n, &operation_norm_sums, WEFT_F64, NULL, n->gain, NULL);
        call.attributes.num_sizes = 1;
        call.attributes.sizes[0] = 2;
        sums = weft_place_like(n->function, weft_dispatch(&call), weft_layout_of(n->a), n->mask);
        if (sums == NULL) {
            return NULL;
        }
    }
    weft_call call = call_of(n, &operation_norm_backward, 0, sums, n->gain, NULL);
    return weft_dispatch(&call);
}

/* [1, 1, c, d] as [c, d], in the gain's type. */
static weft_tensor *as_gain(const norm *n, const weft_tensor *gain, weft_tensor *sum)
{
    int64_t others = ~n->mask & (((int64_t)1 << weft_layout_of(n->a)->ndim) - 1);
    if (sum != NULL && others != 0) {
        sum = weft_squeeze_dims(n->function, sum, others);
    }
    return sum == NULL ? NULL : weft_to_type(sum, weft_layout_of(gain != NULL ? gain : n->a)->dtype);
}

static weft_tensor *gradient_of_gain(const norm *n)
{
    weft_call call = call_of(n, &operation_norm_gain_backward, weft_wide_type(weft_layout_of(n->a)->dtype),
                             NULL, NULL, NULL);
    return as_gain(n, n->gain, weft_dispatch(&call));
}

static weft_tensor *gradient_of_bias(const norm *n)
{
    weft_dtype own = weft_layout_of(n->gradient)->dtype;
    weft_dtype type = weft_layout_of(n->gain != NULL ? n->gain : n->a)->dtype;
    int dims[WEFT_MAX_DIMS];
    for (int d = 0; d < n->first; d++) {
        dims[d] = d;
    }
    if (n->first > 0 && type != own && weft_dtype_size(own) == 2) {
        /* weft_sum_over() would round to 16 bits first. */
        int64_t others = ((int64_t)1 << n->first) - 1;
        return as_gain(n, n->gain,
                       weft_sum_statistic(n->function, WEFT_STATISTIC_SUM, n->gradient, NULL, others, 0));
    }
    /* Without a sum a tensor of its own, which the caller may modify. */
    weft_tensor *sum = n->first == 0 ? weft_squeeze_dims(n->function, n->gradient, 0)
                                     : weft_sum_over(n->gradient, (int)n->first, dims, false);
    return sum == NULL ? NULL : weft_to_type(sum, type);
}

/* Gradients of a, and by numbers[WEFT_NORM_NUMBERS] of the gain (bit 0) and of the bias (bit 1). */
static bool expand_gradients(const weft_call *call, weft_tensor *outputs[])
{
    norm n = norm_of(call, 2);
    n.gradient = call->inputs[1];
    weft_call whole = call_of(&n, &operation_norm_backward, 0, NULL, n.gain, NULL);
    if (!weft_dispatch_accepts(&whole)) {
        return false;
    }
    const weft_layout *layout =
        weft_is_cut(weft_layout_of(n.a), n.mask) ? weft_layout_of(n.a) : weft_layout_of(n.gradient);
    bool parts = weft_is_cut(layout, n.mask) && has_elements(layout);
    if (parts && !take_statistics(&n, layout)) {
        return false;
    }
    int64_t wanted = call->attributes.numbers[WEFT_NORM_NUMBERS];
    outputs[0] = gradient_of_a(&n);
    outputs[1] = wanted & 1 ? gradient_of_gain(&n) : NULL;
    outputs[2] = wanted & 2 ? gradient_of_bias(&n) : NULL;
    return outputs[0] != NULL && (!(wanted & 1) || outputs[1] != NULL) && (!(wanted & 2) || outputs[2] != NULL);
}

static const weft_operation operation_norm_gradients = {
    .name = "norm_gradients",
    .gradient = WEFT_GRADIENT_MISSING("second derivatives of norms"),
    .inputs = { { "a", WEFT_TYPES_FLOAT, false },
                { "gradient", WEFT_TYPES_FLOAT, true },
                { "gain", WEFT_TYPES_FLOAT, false } },
    .num_outputs = 3,
    .expand = expand_gradients,
};

static weft_tensor *backward(norm n, weft_tensor **gradient_gain, weft_tensor **gradient_bias)
{
    weft_tensor **targets[3] = { NULL, gradient_gain, gradient_bias }, *results[3];
    for (int i = 1; i < 3; i++) {
        if (targets[i] != NULL) {
            *targets[i] = NULL;
        }
    }
    if (!check(&n, true)) {
        return NULL;
    }
    weft_call call = call_of(&n, &operation_norm_gradients, 0, NULL, n.gain, NULL);
    call.attributes.num_numbers = WEFT_NORM_NUMBERS + 1;
    call.attributes.numbers[WEFT_NORM_NUMBERS] = (gradient_gain != NULL ? 1 : 0) | (gradient_bias != NULL ? 2 : 0);
    if (!weft_dispatch_all(&call, results)) {
        return NULL;
    }
    for (int i = 1; i < 3; i++) {
        if (targets[i] != NULL) {
            *targets[i] = results[i];
        }
    }
    return results[0];
}

weft_tensor *weft_layer_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain,
                                      double epsilon, weft_tensor **gradient_gain,
                                      weft_tensor **gradient_bias)
{
    return backward((norm){ .function = "weft_layer_norm_backward",
                            .centred = true,
                            .a = a,
                            .gradient = gradient,
                            .gain = gain,
                            .epsilon = epsilon },
                    gradient_gain, gradient_bias);
}

weft_tensor *weft_rms_norm_backward(weft_tensor *gradient, weft_tensor *a, weft_tensor *gain, double epsilon,
                                    weft_tensor **gradient_gain)
{
    return backward((norm){ .function = "weft_rms_norm_backward",
                            .a = a,
                            .gradient = gradient,
                            .gain = gain,
                            .epsilon = epsilon },
                    gradient_gain, NULL);
}

static bool gradients_of_norm(const weft_gradient *of)
{
    norm n = norm_of(of->call, 1);
    n.gradient = weft_gradient_of_output(of, 0);
    int gain = n.gain != NULL ? 1 : 0, bias = n.bias != NULL ? gain + 1 : 0; /* numbers of the inputs; 0: none */
    bool wants_gain = gain > 0 && weft_gradient_wanted(of, gain), wants_bias = bias > 0 && weft_gradient_wanted(of, bias);
    weft_call call = call_of(&n, &operation_norm_gradients, 0, NULL, n.gain, NULL);
    call.attributes.num_numbers = WEFT_NORM_NUMBERS + 1;
    call.attributes.numbers[WEFT_NORM_NUMBERS] = (wants_gain ? 1 : 0) | (wants_bias ? 2 : 0);
    weft_tensor *gradients[3];
    return weft_dispatch_all(&call, gradients) &&
           (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, gradients[0])) &&
           (!wants_gain || weft_give_gradient(of, gain, gradients[1])) &&
           (!wants_bias || weft_give_gradient(of, bias, gradients[2]));
}

const weft_operation *const weft_norm_operations[] = {
    &operation_norm,      &operation_norm_bias,          &operation_norm_backward,
    &operation_norm_sums, &operation_norm_gain_backward,
    &operation_norm_gradients, NULL,
};
