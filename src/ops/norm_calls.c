/* Letters and calls of norms. */
#include "ops/norm_calls.h"

#include <stdio.h>

int64_t weft_norm_mask(int ndim, int64_t first)
{
    return (((int64_t)1 << ndim) - 1) & ~(((int64_t)1 << first) - 1);
}

weft_norm_letters weft_norm_write_letters(const weft_call_layouts *call, const weft_layout *a)
{
    int64_t first = call->attributes->numbers[WEFT_NORM_FIRST], mask = weft_norm_mask(a->ndim, first);
    bool parts = call->attributes->numbers[WEFT_NORM_PARTS] & WEFT_NORM_IN_PARTS;
    weft_norm_letters l;
    weft_write_letters(l.tensor, a->ndim, mask, parts ? WEFT_LETTERS_ALL : WEFT_LETTERS_WHOLE);
    weft_write_letters(l.statistic, a->ndim, mask, WEFT_LETTERS_ONES);
    weft_write_letters(l.vector, a->ndim, mask, WEFT_LETTERS_CHOSEN);
    weft_write_letters(l.one_vector, a->ndim, mask, WEFT_LETTERS_OTHERS);
    snprintf(l.sums, sizeof(l.sums), "%.*s[z]", a->ndim - 1, l.statistic);
    return l;
}

/* `num_tensors` tensors of vectors, then the parts in the order of norms.h. */
void weft_norm_write_inputs(const weft_call_layouts *call, const weft_norm_letters *l, int num_tensors,
                            const char *output, char *buffer, size_t size)
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

static void add_input(weft_call *call, int64_t part, weft_tensor *tensor)
{
    if (tensor != NULL) {
        call->inputs[call->num_inputs++] = tensor;
        call->attributes.numbers[WEFT_NORM_PARTS] |= part;
    }
}

/* With all inputs of the norm. */
weft_call weft_norm_call_of(const weft_norm_call *n, const weft_operation *operation, weft_dtype type,
                            weft_tensor *sums, weft_tensor *gain, weft_tensor *bias)
{
    weft_call call = { .function = n->function, .operation = operation, .scalars = { n->epsilon } };
    bool typed =
        operation->outputs[0].type == WEFT_TYPE_GIVEN || operation->outputs[1].type == WEFT_TYPE_GIVEN;
    call.attributes.type = typed ? (int64_t)type : 0;
    call.attributes.num_numbers = WEFT_NORM_NUMBERS;
    call.attributes.numbers[WEFT_NORM_FIRST] = n->first;
    call.attributes.numbers[WEFT_NORM_CENTRED] = n->centred;
    call.attributes.numbers[WEFT_NORM_PARTS] =
        (n->parts ? WEFT_NORM_IN_PARTS : 0) | (n->has_rstd ? WEFT_NORM_HAS_RSTD : 0);
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
bool weft_norm_check(weft_norm_call *n, bool has_gradient)
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
    n->mask = weft_norm_mask(ndim, n->first);
    return true;
}

/* Redistributes the tensors to the shards of `layout`, and computes mean and variance of the sharded
 * vectors. False with the error kept. */
bool weft_norm_take_statistics(weft_norm_call *n, const weft_layout *layout)
{
    double scale = 1 / weft_count_along(layout, n->mask);
    n->a = weft_place_like(n->function, n->a, layout, 0);
    if (n->gradient != NULL) {
        n->gradient = weft_place_like(n->function, n->gradient, layout, 0);
    }
    n->parts = true;
    if (n->a == NULL) {
        return false;
    }
    if (n->has_rstd) {
        n->mean = weft_place_like(n->function, n->mean, layout, n->mask);
        n->variance = weft_place_like(n->function, n->variance, layout, n->mask);
        return n->variance != NULL && (!n->centred || n->mean != NULL);
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

bool weft_norm_has_elements(const weft_layout *layout)
{
    return weft_count_along(layout, -1) > 0;
}

/* The norm of a call; `used`: number of its inputs before the gain. */
weft_norm_call weft_norm_of(const weft_call *call, int used)
{
    const int64_t *numbers = call->attributes.numbers;
    weft_norm_call n = { .function = call->function,
                         .centred = numbers[WEFT_NORM_CENTRED] != 0,
                         .a = call->inputs[0],
                         .epsilon = call->scalars[0],
                         .first = numbers[WEFT_NORM_FIRST] };
    n.mask = weft_norm_mask(weft_layout_of(n.a)->ndim, n.first);
    n.gain = numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_GAIN ? call->inputs[used++] : NULL;
    n.bias = numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_BIAS ? call->inputs[used] : NULL;
    return n;
}
