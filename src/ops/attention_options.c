/* Attention with grouped heads, a composite; and with dropout, several calls, so that its gradient is that of these. All
 * arguments are checked before the first one. */
#include <math.h>
#include <string.h>

#include "call/interposer.h"
#include "comm/check_spmd.h"
#include "ops/attention.h"

typedef weft_attention_operands attention;

/* ---- checks -------------------------------------------------------------------------------------------- */

/* An operand, with its name; layout NULL: there is none. */
typedef struct named {
    const char *name;
    weft_tensor *tensor;
    const weft_layout *layout;
} named;

/* The size of a dimension that is counted from the end, the last one being 1. */
static int64_t size_from_end(const weft_layout *layout, int back)
{
    return layout->shape[layout->ndim - back];
}

/* That dimension `back` of `other` has the size of dimension `back_of_first` of `first`; `may_be_one`: or 1. */
static bool check_size(const attention *a, const named *first, int back_of_first, const named *other, int back, bool may_be_one)
{
    int64_t wanted = size_from_end(first->layout, back_of_first), size = size_from_end(other->layout, back);
    if (size == wanted || (may_be_one && size == 1)) {
        return true;
    }
    weft_fail(WEFT_ERR_SHAPE, a->function, "%s has size %lld in dimension %d, expected %lld, as %s has in dimension %d",
              other->name, (long long)size, other->layout->ndim - back, (long long)wanted, first->name,
              first->layout->ndim - back_of_first);
    return false;
}

/* Live tensors of floating types on one mesh, with dimensions enough. */
static bool check_tensors(const attention *a, named all[4])
{
    int least = a->grouped ? 3 : 2;
    for (int i = 0; i < 4; i++) {
        named *own = &all[i];
        if (i == 3 && own->tensor == NULL) {
            continue;
        }
        if (weft_check_tensor(a->function, own->name, own->tensor) == NULL) {
            return false;
        }
        own->layout = weft_layout_of(own->tensor);
        weft_dtype dtype = own->layout->dtype;
        if (!weft_dtype_is_floating(dtype) && !(i == 3 && dtype == WEFT_BOOL)) {
            weft_fail(WEFT_ERR_DTYPE, a->function, "%s is %s, expected %sa floating type", own->name, weft_dtype_name(dtype),
                      i == 3 ? "bool or " : "");
            return false;
        }
        if (i < 3 && own->layout->ndim < least) {
            weft_fail(WEFT_ERR_SHAPE, a->function, "%s has %d dimension%s, expected at least %d", own->name,
                      own->layout->ndim, own->layout->ndim == 1 ? "" : "s", least);
            return false;
        }
        if (!weft_check_same_mesh(a->function, "q", all[0].layout, own->name, own->layout)) {
            return false;
        }
    }
    return true;
}

/* That dimension `back` of all operands broadcasts. */
static bool check_batch(const attention *a, const named all[4], int back)
{
    const named *first = NULL;
    for (int i = 0; i < 4; i++) {
        if (all[i].layout == NULL || all[i].layout->ndim < back || size_from_end(all[i].layout, back) == 1) {
            continue;
        }
        if (first != NULL && !check_size(a, first, back, &all[i], back, true)) {
            return false;
        }
        first = &all[i];
    }
    return true;
}

/* Heads of q, in groups that share one of k and v. */
static bool check_heads(const attention *a, const named all[4])
{
    int64_t heads = size_from_end(all[0].layout, 3), shared = size_from_end(all[1].layout, 3);
    if (!check_size(a, &all[1], 3, &all[2], 3, false)) {
        return false;
    }
    if (shared < 1 || heads % shared != 0) {
        weft_fail(WEFT_ERR_SHAPE, a->function, "k has size %lld in dimension %d, expected a divisor of q's %lld heads",
                  (long long)shared, all[1].layout->ndim - 3, (long long)heads);
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (all[i].layout != NULL && all[i].layout->ndim == WEFT_MAX_DIMS) {
            weft_fail(WEFT_ERR_SHAPE, a->function, "%s has %d dimensions, expected at most %d with grouped heads", all[i].name,
                      WEFT_MAX_DIMS, WEFT_MAX_DIMS - 1);
            return false;
        }
    }
    bool masked = all[3].layout != NULL && all[3].layout->ndim >= 3;
    return !masked || check_size(a, &all[0], 3, &all[3], 3, true);
}

static bool check_mask(const attention *a, const named all[4])
{
    const weft_layout *mask = all[3].layout;
    return mask == NULL || ((mask->ndim < 1 || check_size(a, &all[1], 2, &all[3], 1, true)) &&
                            (mask->ndim < 2 || check_size(a, &all[0], 2, &all[3], 2, true)));
}

/* Whatever the rule of attention would refuse, but for types that differ: a region of mixed precision makes them one. */
static bool check_operands(const attention *a)
{
    named all[4] = { { "q", a->q, NULL }, { "k", a->k, NULL }, { "v", a->v, NULL }, { "mask", a->mask, NULL } };
    if (!check_tensors(a, all) || !check_size(a, &all[0], 1, &all[1], 1, false) ||
        !check_size(a, &all[1], 2, &all[2], 2, false) || (a->grouped && !check_heads(a, all)) || !check_mask(a, all)) {
        return false;
    }
    for (int back = a->grouped ? 4 : 3; back <= WEFT_MAX_DIMS; back++) {
        if (!check_batch(a, all, back)) {
            return false;
        }
    }
    return true;
}

/* ---- grouped heads ------------------------------------------------------------------------------------- */

/* Dimension `back`, of heads, becomes two: of groups, and of the heads of each. NULL stays NULL. */
static weft_tensor *split_heads(weft_tensor *tensor, int back, int64_t groups)
{
    if (tensor == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(tensor);
    int64_t shape[WEFT_MAX_DIMS + 1], heads = size_from_end(layout, back);
    for (int d = 0; d < layout->ndim; d++) {
        shape[d + (d > layout->ndim - back)] = layout->shape[d];
    }
    shape[layout->ndim - back] = groups;
    shape[layout->ndim - back + 1] = heads / groups;
    return weft_reshape(tensor, layout->ndim + 1, shape);
}

/* The reverse. */
static weft_tensor *join_heads(weft_tensor *tensor, int back)
{
    if (tensor == NULL) {
        return NULL;
    }
    int first = weft_layout_of(tensor)->ndim - back;
    return weft_flatten(tensor, first - 1, first);
}

/* A mask has heads of its own, or one for all, or none. */
static bool mask_has_heads(const weft_tensor *mask)
{
    return mask != NULL && weft_layout_of(mask)->ndim >= 3;
}

/* Groups become a dimension of the batch, with which one head of k and v broadcasts. */
static bool split_operands(attention *a)
{
    int64_t groups = size_from_end(weft_layout_of(a->k), 3);
    bool masked = a->mask != NULL;
    a->q = split_heads(a->q, 3, groups);
    a->k = a->q == NULL ? NULL : split_heads(a->k, 3, groups);
    a->v = a->k == NULL ? NULL : split_heads(a->v, 3, groups);
    if (a->v == NULL) {
        return false;
    }
    if (mask_has_heads(a->mask)) {
        a->mask = split_heads(a->mask, 3, size_from_end(weft_layout_of(a->mask), 3) == 1 ? 1 : groups);
    }
    return masked == (a->mask != NULL);
}

/* Whether each rank's heads of q are whole groups, or parts of the only one: then splitting them moves nothing. */
static bool shards_hold_groups(const attention *a)
{
    const weft_layout *q = weft_layout_of(a->q);
    int64_t groups = size_from_end(weft_layout_of(a->k), 3);
    return groups == 1 || groups % weft_layout_parts(q, q->ndim - 3) == 0;
}

/* 0 .. count - 1, on q's mesh. Outside of an expansion, of q without data, without data too: nothing may be submitted. */
static weft_tensor *numbers_of(const attention *a, int64_t count)
{
    const weft_tensor_impl *q = weft_tensor_get(a->q);
    weft_mesh *mesh = q->layout->mesh->handle;
    return weft_runtime.context.steps == NULL && q->fake ? weft_fake(WEFT_I64, 1, &count, mesh, NULL)
                                                 : weft_arange(WEFT_I64, 0, count, 1, mesh, NULL);
}

/* The head of k and v of each head of q, on the ranks that have the latter. */
static weft_tensor *heads_of_rows(const attention *a)
{
    const weft_layout *q = weft_layout_of(a->q);
    int64_t heads = size_from_end(q, 3), groups = size_from_end(weft_layout_of(a->k), 3);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < q->mesh->ndim; m++) {
        bool cut = q->placements[m].kind == WEFT_SHARD && q->placements[m].dim == q->ndim - 3;
        placements[m] = cut ? weft_shard(0) : weft_replicate();
    }
    weft_tensor *numbers = numbers_of(a, groups);
    weft_tensor *column = numbers == NULL ? NULL : weft_unsqueeze(numbers, 1);
    weft_tensor *lines = column == NULL ? NULL : weft_expand(column, 2, (int64_t[]){ groups, heads / groups });
    weft_tensor *all = lines == NULL ? NULL : weft_flatten(lines, 0, 1);
    return all == NULL ? NULL : weft_redistribute(all, q->mesh->handle, placements);
}

/* Heads of k and v, as many as q has: each rank copies those that its rows need. */
static bool select_heads(attention *a, weft_tensor *heads)
{
    a->k = heads == NULL ? NULL : weft_index_select(a->k, weft_layout_of(a->k)->ndim - 3, heads);
    a->v = a->k == NULL ? NULL : weft_index_select(a->v, weft_layout_of(a->v)->ndim - 3, heads);
    return a->v != NULL;
}

/* ---- dropout ------------------------------------------------------------------------------------------- */

/* Rows and keys whose scores do not count, as `scores`, or broadcasting to these; NULL: none. `added`: the mask as it is added to
 * scores; NULL: it has truth values, or there is none. False with the error kept. */
static bool find_hidden(const attention *a, weft_tensor *added, weft_tensor **hidden)
{
    const weft_layout *q = weft_layout_of(a->q), *k = weft_layout_of(a->k);
    *hidden = NULL;
    if (a->mask != NULL) {
        *hidden = added != NULL ? weft_eq_scalar(added, -INFINITY) : weft_logical_not(a->mask);
        if (*hidden == NULL) {
            return false;
        }
    }
    if (a->causal) {
        int64_t column[] = { size_from_end(q, 2), 1 };
        weft_tensor *rows = numbers_of(a, column[0]), *keys = rows == NULL ? NULL : numbers_of(a, size_from_end(k, 2));
        weft_tensor *later = keys == NULL ? NULL : weft_lt(weft_reshape(rows, 2, column), keys);
        *hidden = later == NULL || *hidden == NULL ? later : weft_logical_or(*hidden, later);
        return *hidden != NULL;
    }
    return true;
}

/* Hidden scores are -INFINITY, which no other score is below; those of a row that sees no key are 0, whose weights become 0. */
static weft_tensor *hide(weft_tensor *scores, weft_tensor *hidden)
{
    weft_tensor *whole = weft_all(hidden, -1, true);
    weft_tensor *filled = scores == NULL || whole == NULL ? NULL : weft_masked_fill(scores, hidden, -INFINITY);
    return filled == NULL ? NULL : weft_masked_fill(filled, whole, 0);
}

/* With the matrix of all weights. In a region of mixed precision the products round their inputs to its type again. */
static weft_tensor *attend_with_dropout(const attention *a)
{
    weft_dtype type = weft_layout_of(a->q)->dtype, wide = weft_wide_type(type);
    bool adds = a->mask != NULL && weft_dtype_is_floating(weft_layout_of(a->mask)->dtype);
    weft_tensor *hidden, *added = adds ? weft_to_type(a->mask, wide) : NULL;
    weft_tensor *q = weft_to_type(a->q, wide), *k = weft_to_type(a->k, wide), *v = weft_to_type(a->v, wide);
    if (q == NULL || k == NULL || v == NULL || adds != (added != NULL) || !find_hidden(a, added, &hidden)) {
        return NULL;
    }
    weft_tensor *scores = weft_scale(weft_matmul_ex(q, false, k, true), a->scale);
    scores = adds ? weft_add(scores, added) : scores;
    scores = hidden != NULL ? hide(scores, hidden) : scores;
    weft_tensor *weights = scores == NULL ? NULL : weft_softmax(scores, -1);
    weights = hidden != NULL && weights != NULL ? weft_masked_fill(weights, hidden, 0) : weights;
    weights = weights == NULL ? NULL : weft_dropout(weights, a->dropout, true, NULL);
    return weights == NULL ? NULL : weft_to_type(weft_matmul(weights, v), type);
}

/* In an open scope. */
static weft_tensor *make_with_dropout(attention *a)
{
    if (a->grouped && !split_operands(a)) {
        return NULL;
    }
    weft_tensor *result = attend_with_dropout(a);
    return a->grouped ? join_heads(result, 3) : result;
}

static bool has_no_data(const weft_tensor *tensor)
{
    const weft_tensor_impl *live = tensor == NULL ? NULL : weft_tensor_get(tensor);
    return live != NULL && live->fake;
}

/* Compared as one call, so that a message names weft_attention(). Calls without data are not compared, those of a captured
 * function when they are executed. */
static bool compare_calls(const attention *a, bool valid)
{
    weft_attention_layouts of = { .q = NULL };
    if (weft_runtime.context.deferral != NULL || has_no_data(a->q) || has_no_data(a->k) || has_no_data(a->v) || has_no_data(a->mask)) {
        return valid;
    }
    if (valid) {
        of = weft_attention_layouts_of(a);
    }
    const weft_layout *const layouts[] = { of.q, of.k, of.v, of.mask };
    const double numbers[] = { a->causal, a->grouped, a->scale, a->dropout };
    return weft_check_spmd(&(weft_call_signature){ .function = a->function,
                                                   .failed = !valid,
                                                   .num_layouts = valid ? 4 : 0,
                                                   .layouts = layouts,
                                                   .num_numbers = 4,
                                                   .numbers = numbers }) &&
           valid;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static bool expand_grouped(const weft_call *call, weft_tensor *outputs[])
{
    attention a = weft_attention_operands_of(call);
    if (!shards_hold_groups(&a)) {
        outputs[0] = select_heads(&a, heads_of_rows(&a)) ? weft_attention_dispatch(&a, &outputs[1]) : NULL;
        return outputs[0] != NULL;
    }
    if (!split_operands(&a)) {
        return false;
    }
    outputs[0] = join_heads(weft_attention_dispatch(&a, &outputs[1]), 3);
    outputs[1] = join_heads(outputs[1], 2);
    return outputs[0] != NULL && outputs[1] != NULL;
}

/* The gradients of attention of these operands, with outputs and their gradients. */
static bool gradients_of_operands(const weft_gradient *of, const attention *a, weft_tensor *const outputs[],
                                  weft_tensor *const output_gradients[], weft_tensor *gradients[])
{
    weft_call call = *of->call;
    weft_tensor *const inputs[] = { a->q, a->k, a->v, a->mask };
    memcpy(call.inputs, inputs, sizeof(inputs));
    return weft_attention_gradients(&(weft_gradient){ .call = &call,
                                                      .outputs = outputs,
                                                      .output_gradients = output_gradients,
                                                      .wanted = of->wanted,
                                                      .differentiated = of->differentiated,
                                                      .gradients = gradients });
}

/* Gradients of selected heads are added to those of k and v. */
static bool gradients_of_selected(const weft_gradient *of, attention *a)
{
    weft_tensor *gradients[4] = { NULL }, *heads = heads_of_rows(a);
    bool done = select_heads(a, heads) && gradients_of_operands(of, a, of->outputs, of->output_gradients, gradients);
    for (int i = 0; i < of->call->num_inputs && done; i++) {
        weft_tensor *gradient = gradients[i], *input = of->call->inputs[i];
        if (gradient != NULL && (i == 1 || i == 2)) {
            weft_tensor *zero = weft_zeros_like(input);
            gradient = zero == NULL ? NULL : weft_index_add(zero, weft_layout_of(input)->ndim - 3, heads, gradient);
        }
        done = gradients[i] == NULL || weft_give_gradient(of, i, gradient);
    }
    return done;
}

/* Gradients of groups are joined. */
static bool gradients_of_split(const weft_gradient *of, attention *a)
{
    int64_t groups = size_from_end(weft_layout_of(a->k), 3);
    bool done = split_operands(a);
    weft_tensor *outputs[2], *output_gradients[2], *gradients[4] = { NULL };
    for (int i = 0; i < 2 && done; i++) {
        weft_tensor *gradient = weft_gradient_of_output(of, i);
        outputs[i] = split_heads(of->outputs[i], 3 - i, groups);
        output_gradients[i] = split_heads(gradient, 3 - i, groups);
        done = (outputs[i] != NULL) == (of->outputs[i] != NULL) && (output_gradients[i] != NULL) == (gradient != NULL);
    }
    done = done && gradients_of_operands(of, a, outputs, output_gradients, gradients);
    for (int i = 0; i < of->call->num_inputs && done; i++) {
        bool has_heads = i < 3 || mask_has_heads(of->call->inputs[3]);
        done = gradients[i] == NULL || weft_give_gradient(of, i, has_heads ? join_heads(gradients[i], 3) : gradients[i]);
    }
    return done;
}

/* With the result and the log-sums that were kept. */
static bool gradients_of_grouped(const weft_gradient *of)
{
    attention a = weft_attention_operands_of(of->call);
    return shards_hold_groups(&a) ? gradients_of_split(of, &a) : gradients_of_selected(of, &a);
}

#define READS_ALL                                                                                            \
    (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2) | WEFT_READS_INPUT(3) |                 \
     WEFT_READS_OUTPUT(0) | WEFT_READS_OUTPUT(1))

/* Attention with groups as a dimension of the batch, or with as many heads of k and v as q has. Outputs: those of attention. */
static const weft_operation operation_grouped = {
    .name = "attention_grouped",
    .gradient = { .function = gradients_of_grouped, .reads = { READS_ALL, READS_ALL, READS_ALL, READS_ALL } },
    .inputs = { WEFT_ATTENTION_FLOATING("q"), WEFT_ATTENTION_FLOATING("k"), WEFT_ATTENTION_FLOATING("v"),
                WEFT_ATTENTION_MASK },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_GIVEN } },
    .num_outputs = 2,
    .expand = expand_grouped,
};

bool weft_attention_has_options(const attention *a)
{
    return a->grouped || a->dropout > 0;
}

/* Operands of one type, in a region of mixed precision its own. False with the error kept. */
static bool prepare_operands(attention *a)
{
    weft_call own, call = weft_attention_call(a, &operation_grouped, WEFT_ATTENTION_HAS_V);
    weft_tensor **const operands[] = { &a->q, &a->k, &a->v, &a->mask };
    static const char *const names[] = { "q", "k", "v" };
    call.num_inputs = a->mask == NULL ? 3 : 4;
    for (int i = 0; i < call.num_inputs; i++) {
        call.inputs[i] = *operands[i];
    }
    const weft_call *prepared = weft_call_prepare(&call, &own);
    bool done = prepared != NULL;
    for (int i = 0; i < call.num_inputs && done; i++) {
        *operands[i] = prepared->inputs[i];
        weft_dtype type = weft_layout_of(*operands[i])->dtype;
        if (i < 3 && type != weft_layout_of(a->q)->dtype) {
            weft_fail(WEFT_ERR_DTYPE, a->function, "%s is %s, expected q's type", names[i], weft_dtype_name(type));
            done = false;
        }
    }
    return done;
}

weft_tensor *weft_attention_with_options(attention *a, weft_tensor **log_sums)
{
    if (a->dropout > 0 && log_sums != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, a->function, "dropout is %g, expected 0 where log-sums are asked for", a->dropout);
        return NULL;
    }
    if (a->dropout == 0) {
        return check_operands(a) ? weft_attention_dispatch_as(a, &operation_grouped, log_sums) : NULL;
    }
    if (weft_scope_begin() != WEFT_OK) {
        return NULL;
    }
    bool valid = check_operands(a) && prepare_operands(a);
    weft_tensor *result = compare_calls(a, valid) ? make_with_dropout(a) : NULL;
    result = result == NULL ? NULL : weft_scope_keep(result);
    weft_scope_end_own();
    return result;
}

bool weft_attention_refuse_options(const attention *a)
{
    if (weft_attention_has_options(a)) {
        weft_fail(WEFT_ERR_UNSUPPORTED, a->function, "%s, expected %s: such calls are differentiated by weft_gradients()",
                  a->grouped ? "grouped_heads is true" : "dropout is more than 0", a->grouped ? "false" : "0");
        return true;
    }
    return false;
}

const weft_operation *const weft_attention_option_operations[] = { &operation_grouped, NULL };
