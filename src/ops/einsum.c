/* Sums of products by an equation of indices. A normalised equation names every dimension by a letter, those of "..."
 * by digits; it is a call's attribute, six characters in each of its sizes. Pairs of operands are contracted by matrix
 * products, the cheapest pair first. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ops/data_movement.h"
#include "ops/reductions.h"

enum { MAX_OPERANDS = WEFT_MAX_INPUTS, MAX_EQUATION = 6 * WEFT_MAX_SIZES };

/* Labels of one operand's dimensions. */
typedef struct labels {
    int ndim;
    char of[2 * WEFT_MAX_DIMS + 1];
} labels;

typedef struct equation {
    const char *function;
    int num_operands;
    labels operands[MAX_OPERANDS], output;
} equation;

static int position_of(const labels *l, char label)
{
    for (int d = 0; d < l->ndim; d++) {
        if (l->of[d] == label) {
            return d;
        }
    }
    return -1;
}

static bool has(const labels *l, char label)
{
    return position_of(l, label) >= 0;
}

static void add_label(labels *l, char label)
{
    l->of[l->ndim++] = label;
    l->of[l->ndim] = '\0';
}

/* ---- an equation as a call's attribute ----------------------------------------------------------------- */

static void pack(const equation *e, weft_attributes *attributes)
{
    char text[MAX_EQUATION + 1] = { 0 };
    size_t used = 0;
    for (int i = 0; i <= e->num_operands; i++) {
        const labels *l = i < e->num_operands ? &e->operands[i] : &e->output;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s,", l->of);
    }
    attributes->num_sizes = WEFT_MAX_SIZES;
    for (int i = 0; i < MAX_EQUATION; i++) {
        attributes->sizes[i / 6] = attributes->sizes[i / 6] * 256 + text[i];
    }
}

static equation unpack(const weft_call *call)
{
    equation e = { .function = call->function, .num_operands = call->num_inputs };
    for (int i = 0, operand = 0; i < MAX_EQUATION && operand <= call->num_inputs; i++) {
        char label = (char)(call->attributes.sizes[i / 6] >> 8 * (5 - i % 6) & 255);
        labels *l = operand < e.num_operands ? &e.operands[operand] : &e.output;
        if (label == ',') {
            operand++;
        } else if (label != '\0') {
            add_label(l, label);
        }
    }
    return e;
}

/* ---- the body ------------------------------------------------------------------------------------------ */

typedef struct operand {
    weft_tensor *tensor; /* NULL: an error is kept */
    labels labels;
} operand;

static int64_t size_of(const operand *x, char label)
{
    int d = position_of(&x->labels, label);
    return d < 0 ? 1 : weft_layout_of(x->tensor)->shape[d];
}

/* Repeated labels become one, of the diagonal. */
static void take_diagonals(operand *x)
{
    for (int p = 0; p < x->labels.ndim && x->tensor != NULL; p++) {
        for (int q = x->labels.ndim - 1; q > p && x->tensor != NULL; q--) {
            char label = x->labels.of[p];
            if (x->labels.of[q] != label) {
                continue;
            }
            x->tensor = weft_diagonal(x->tensor, 0, p, q);
            memmove(&x->labels.of[q], &x->labels.of[q + 1], (size_t)(x->labels.ndim - q));
            memmove(&x->labels.of[p], &x->labels.of[p + 1], (size_t)(x->labels.ndim - 1 - p));
            x->labels.ndim -= 2;
            add_label(&x->labels, label);
            p = -1;
            break;
        }
    }
}

static void sum_dims(operand *x, int count, const int dims[])
{
    if (count > 0 && x->tensor != NULL) {
        weft_dtype type = weft_layout_of(x->tensor)->dtype;
        weft_tensor *sum = weft_sum(x->tensor, weft_set_of_dims(count, dims), false);
        x->tensor = sum == NULL ? NULL : weft_to_type(sum, type);
    }
}

/* Whether an operand's dimension of size 1 is repeated along another one's. */
static bool is_repeated(const operand all[], int count, int own, char label)
{
    bool repeated = false;
    for (int i = 0; i < count; i++) {
        repeated |= i != own && size_of(&all[i], label) != 1 && size_of(&all[own], label) == 1;
    }
    return repeated;
}

/* Whether the output or another operand has the label. */
static bool is_wanted(const operand all[], int count, int own, char label, const labels *output)
{
    bool wanted = has(output, label);
    for (int i = 0; i < count; i++) {
        wanted |= i != own && has(&all[i].labels, label);
    }
    return wanted;
}

/* Sums over an operand's labels that neither the output nor another operand has; output NULL: over repeated dimensions. */
static void sum_labels(operand all[], int count, int own, const labels *output)
{
    operand *x = &all[own];
    labels kept = { 0 };
    int dims[WEFT_MAX_DIMS], num_dims = 0;
    for (int d = 0; d < x->labels.ndim; d++) {
        char label = x->labels.of[d];
        if (output == NULL ? !is_repeated(all, count, own, label) : is_wanted(all, count, own, label, output)) {
            add_label(&kept, label);
        } else {
            dims[num_dims++] = d;
        }
    }
    sum_dims(x, num_dims, dims);
    x->labels = kept;
}

/* The labels of two operands by use. */
typedef struct roles {
    labels both, left, right, summed;
} roles;

static roles roles_of(const operand *a, const operand *b, const operand all[], int count, const labels *output)
{
    roles r = { 0 };
    for (int d = 0; d < a->labels.ndim; d++) {
        char label = a->labels.of[d];
        bool wanted = has(output, label);
        for (int i = 0; i < count; i++) {
            wanted |= &all[i] != a && &all[i] != b && has(&all[i].labels, label);
        }
        add_label(!has(&b->labels, label) ? &r.left : wanted ? &r.both : &r.summed, label);
    }
    for (int d = 0; d < b->labels.ndim; d++) {
        if (!has(&a->labels, b->labels.of[d])) {
            add_label(&r.right, b->labels.of[d]);
        }
    }
    return r;
}

static labels joined(const labels *first, const labels *second, const labels *third)
{
    labels all = { 0 };
    const labels *const parts[] = { first, second, third };
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < parts[i]->ndim; d++) {
            add_label(&all, parts[i]->of[d]);
        }
    }
    return all;
}

static void permute(operand *x, const labels *order)
{
    int dims[WEFT_MAX_DIMS];
    bool same = true;
    for (int d = 0; d < order->ndim; d++) {
        dims[d] = position_of(&x->labels, order->of[d]);
        same &= dims[d] == d;
    }
    x->tensor = x->tensor == NULL || same ? x->tensor : weft_permute(x->tensor, order->ndim, dims);
    x->labels = *order;
}

static int64_t product_of(const operand *x, const labels *l)
{
    int64_t product = 1;
    for (int d = 0; d < l->ndim; d++) {
        product *= size_of(x, l->of[d]);
    }
    return product;
}

/* [both..., rows, columns], each of the last two flattened from its labels. */
static weft_tensor *as_matrices(operand *x, const labels *both, const labels *rows, const labels *columns)
{
    const labels order = joined(both, rows, columns);
    int64_t shape[WEFT_MAX_DIMS];
    permute(x, &order);
    if (x->tensor == NULL) {
        return NULL;
    }
    if (rows->ndim == 1 && columns->ndim == 1) {
        return x->tensor;
    }
    for (int d = 0; d < both->ndim; d++) {
        shape[d] = size_of(x, both->of[d]);
    }
    shape[both->ndim] = product_of(x, rows);
    shape[both->ndim + 1] = product_of(x, columns);
    return weft_reshape(x->tensor, both->ndim + 2, shape);
}

/* Elements times elements: dimensions that one lacks have size 1. */
static weft_tensor *multiply(operand *a, operand *b, const labels *result)
{
    operand *const operands[] = { a, b };
    for (int i = 0; i < 2; i++) {
        operand *x = operands[i];
        labels own = { 0 };
        int64_t shape[WEFT_MAX_DIMS];
        for (int d = 0; d < result->ndim; d++) {
            shape[d] = size_of(x, result->of[d]);
            if (has(&x->labels, result->of[d])) {
                add_label(&own, result->of[d]);
            }
        }
        permute(x, &own);
        x->tensor = x->tensor == NULL ? NULL : weft_reshape(x->tensor, result->ndim, shape);
    }
    return a->tensor == NULL || b->tensor == NULL ? NULL : weft_mul(a->tensor, b->tensor);
}

static operand contract(const char *function, operand a, operand b, const roles *r)
{
    operand result = { .labels = joined(&r->both, &r->left, &r->right) };
    if (result.labels.ndim > WEFT_MAX_DIMS || r->both.ndim + 2 > WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "a product of two operands has %d dimensions, expected at most %d",
                  result.labels.ndim, WEFT_MAX_DIMS);
        return result;
    }
    if (r->summed.ndim == 0) {
        result.tensor = multiply(&a, &b, &result.labels);
        return result;
    }
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < result.labels.ndim; d++) {
        shape[d] = size_of(has(&a.labels, result.labels.of[d]) ? &a : &b, result.labels.of[d]);
    }
    weft_tensor *left = as_matrices(&a, &r->both, &r->left, &r->summed);
    weft_tensor *right = as_matrices(&b, &r->both, &r->summed, &r->right);
    result.tensor = left == NULL || right == NULL ? NULL : weft_matmul(left, right);
    if (result.tensor != NULL && (r->left.ndim != 1 || r->right.ndim != 1)) {
        result.tensor = weft_reshape(result.tensor, result.labels.ndim, shape);
    }
    return result;
}

/* Multiplications of a pair. */
static double cost_of(const operand *a, const operand *b)
{
    double cost = 1;
    for (int d = 0; d < a->labels.ndim; d++) {
        cost *= (double)size_of(a, a->labels.of[d]);
    }
    for (int d = 0; d < b->labels.ndim; d++) {
        cost *= has(&a->labels, b->labels.of[d]) ? 1 : (double)size_of(b, b->labels.of[d]);
    }
    return cost;
}

/* Replaces the cheapest pair by its product; false: an error is kept. */
static bool contract_pair(const char *function, operand all[], int *count, const labels *output)
{
    int first = 0, second = 1;
    for (int i = 0; i < *count; i++) {
        for (int j = i + 1; j < *count; j++) {
            if (cost_of(&all[i], &all[j]) < cost_of(&all[first], &all[second])) {
                first = i;
                second = j;
            }
        }
    }
    const roles r = roles_of(&all[first], &all[second], all, *count, output);
    all[first] = contract(function, all[first], all[second], &r);
    all[second] = all[--*count];
    return all[first].tensor != NULL;
}

static bool expand_einsum(const weft_call *call, weft_tensor *outputs[])
{
    const equation e = unpack(call);
    operand all[MAX_OPERANDS];
    int count = e.num_operands;
    for (int i = 0; i < count; i++) {
        all[i] = (operand){ call->inputs[i], e.operands[i] };
        take_diagonals(&all[i]);
        if (all[i].tensor == NULL) {
            return false;
        }
    }
    /* Repeated dimensions go first: then the dimension along which they were repeated may be one that no other operand has. */
    for (int i = 0; i < 2 * count; i++) {
        sum_labels(all, count, i % count, i < count ? NULL : &e.output);
        if (all[i % count].tensor == NULL) {
            return false;
        }
    }
    while (count > 1) {
        if (!contract_pair(e.function, all, &count, &e.output)) {
            return false;
        }
    }
    permute(&all[0], &e.output);
    outputs[0] = all[0].tensor == call->inputs[0] ? weft_same(e.function, all[0].tensor) : all[0].tensor;
    return outputs[0] != NULL;
}

#define ALL ((1u << WEFT_MAX_INPUTS) - 1)
#define TENSOR { "tensors", WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, true }

static const weft_operation operation_einsum = {
    .name = "einsum",
    .gradient = { .function = weft_gradient_of_body, .reads = { ALL, ALL, ALL, ALL, ALL, ALL, ALL } },
    .inputs = { { "tensors", WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, false }, TENSOR, TENSOR, TENSOR, TENSOR, TENSOR, TENSOR },
    .expand = expand_einsum,
};

/* ---- reading an equation ------------------------------------------------------------------------------- */

typedef struct reading {
    const char *function, *text, *at;
    int ellipsis; /* dimensions of the longest "..." */
} reading;

static bool wrong(const reading *r, const char *why)
{
    weft_fail(WEFT_ERR_INVALID, r->function, "equation \"%.80s\", character %d: %s", r->text, (int)(r->at - r->text) + 1,
              why);
    return false;
}

static void skip_blanks(reading *r)
{
    r->at += strspn(r->at, " ");
}

/* Letters and at most one "...", which stands for `rest` dimensions or, negative, for as many as `ndim` leaves. */
static bool read_labels(reading *r, int ndim, int rest, labels *l)
{
    char before[2 * WEFT_MAX_DIMS + 1];
    int count = 0, place = -1;
    for (skip_blanks(r); isalpha((unsigned char)*r->at) || *r->at == '.'; skip_blanks(r)) {
        if (*r->at == '.') {
            if (strncmp(r->at, "...", 3) != 0 || place >= 0) {
                return wrong(r, place >= 0 ? "\"...\" a second time" : "a dot, expected \"...\"");
            }
            place = count;
            r->at += 3;
        } else if (count == WEFT_MAX_DIMS) {
            return wrong(r, "more letters than a tensor has dimensions");
        } else {
            before[count++] = *r->at++;
        }
    }
    int extra = place < 0 ? 0 : rest >= 0 ? rest : ndim - count;
    if (ndim >= 0 && (extra < 0 || count + extra != ndim)) {
        char why[80];
        snprintf(why, sizeof(why), "%d letters for an operand of %d dimensions", count, ndim);
        return wrong(r, why);
    }
    if (count + extra > WEFT_MAX_DIMS) {
        return wrong(r, "the result has more dimensions than a tensor can have");
    }
    r->ellipsis = extra > r->ellipsis && rest < 0 ? extra : r->ellipsis;
    for (int i = 0; i <= count; i++) {
        for (int k = 0; i == place && k < extra; k++) {
            add_label(l, (char)('7' - extra + 1 + k)); /* aligned at their end */
        }
        if (i < count) {
            add_label(l, before[i]);
        }
    }
    return true;
}

/* How often a label occurs in the operands. */
static int occurrences(const equation *e, char label)
{
    int count = 0;
    for (int i = 0; i < e->num_operands; i++) {
        for (int d = 0; d < e->operands[i].ndim; d++) {
            count += e->operands[i].of[d] == label;
        }
    }
    return count;
}

/* Without "->": dimensions of "...", and letters that occur once, in their order. */
static bool default_output(const reading *r, equation *e)
{
    for (int k = 0; k < r->ellipsis; k++) {
        add_label(&e->output, (char)('7' - r->ellipsis + 1 + k));
    }
    for (int label = 'A'; label <= 'z'; label++) {
        if (isalpha(label) && occurrences(e, (char)label) == 1) {
            if (e->output.ndim == WEFT_MAX_DIMS) {
                return wrong(r, "the result has more dimensions than a tensor can have");
            }
            add_label(&e->output, (char)label);
        }
    }
    return true;
}

static bool check_output(const reading *r, const equation *e)
{
    for (int d = 0; d < e->output.ndim; d++) {
        char label = e->output.of[d], why[80];
        if (position_of(&e->output, label) != d || occurrences(e, label) == 0) {
            snprintf(why, sizeof(why), "the result has '%c' %s", label,
                     occurrences(e, label) == 0 ? "which no operand has" : "twice");
            return wrong(r, why);
        }
    }
    return true;
}

static bool read_equation(reading *r, weft_tensor *const tensors[], equation *e)
{
    for (int i = 0; i < e->num_operands; i++) {
        if (!read_labels(r, weft_layout_of(tensors[i])->ndim, -1, &e->operands[i])) {
            return false;
        }
        if (i + 1 < e->num_operands && *r->at++ != ',') {
            r->at--;
            return wrong(r, "expected a comma: there are more tensors");
        }
    }
    if (*r->at == '\0') {
        return default_output(r, e);
    }
    if (strncmp(r->at, "->", 2) != 0) {
        return wrong(r, *r->at == ',' ? "there are fewer tensors" : "expected letters, \"...\" or \"->\"");
    }
    r->at += 2;
    if (!read_labels(r, -1, r->ellipsis, &e->output)) {
        return false;
    }
    return *r->at == '\0' ? check_output(r, e) : wrong(r, "expected the end");
}

/* Sizes of one letter are equal; those of "..." may be 1. */
static bool check_sizes(const equation *e, weft_tensor *const tensors[])
{
    int64_t sizes[128];
    memset(sizes, -1, sizeof(sizes));
    for (int i = 0; i < e->num_operands; i++) {
        const weft_layout *layout = weft_layout_of(tensors[i]);
        for (int d = 0; d < layout->ndim; d++) {
            char label = e->operands[i].of[d];
            int64_t *size = &sizes[(int)label];
            bool repeats = isdigit((unsigned char)label) && (*size == 1 || layout->shape[d] == 1);
            if (*size >= 0 && *size != layout->shape[d] && !repeats) {
                weft_fail(WEFT_ERR_SHAPE, e->function, "tensors[%d] has size %lld in dimension %d, expected %lld, as before",
                          i, (long long)layout->shape[d], d, (long long)*size);
                return false;
            }
            *size = *size < 0 || *size == 1 ? layout->shape[d] : *size;
        }
    }
    return true;
}

static bool check_tensors(const char *function, int n, weft_tensor *const tensors[])
{
    if (n < 1 || n > MAX_OPERANDS || tensors == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "num_tensors is %d%s, expected 1 to %d", n,
                  tensors == NULL ? " and tensors NULL" : "", MAX_OPERANDS);
        return false;
    }
    for (int i = 0; i < n; i++) {
        char name[32], first[] = "tensors[0]";
        snprintf(name, sizeof(name), "tensors[%d]", i);
        if (weft_check_tensor(function, name, tensors[i]) == NULL ||
            !weft_check_same_mesh(function, first, weft_layout_of(tensors[0]), name, weft_layout_of(tensors[i]))) {
            return false;
        }
        if (weft_layout_of(tensors[i])->dtype != weft_layout_of(tensors[0])->dtype) {
            weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected %s, the type of tensors[0]", name,
                      weft_dtype_name(weft_layout_of(tensors[i])->dtype),
                      weft_dtype_name(weft_layout_of(tensors[0])->dtype));
            return false;
        }
    }
    return true;
}

static weft_tensor *dispatch_equation(const equation *e, weft_tensor *const tensors[])
{
    weft_call call = { .function = e->function, .operation = &operation_einsum, .num_inputs = e->num_operands };
    memcpy(call.inputs, tensors, (size_t)e->num_operands * sizeof(tensors[0]));
    pack(e, &call.attributes);
    return weft_dispatch(&call);
}

weft_tensor *weft_einsum(const char *text, int num_tensors, weft_tensor *const tensors[])
{
    static const char function[] = "weft_einsum";
    equation e = { .function = function, .num_operands = num_tensors };
    reading r = { function, text, text, 0 };
    if (!check_tensors(function, num_tensors, tensors)) {
        return NULL;
    }
    if (text == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "equation is NULL");
        return NULL;
    }
    return read_equation(&r, tensors, &e) && check_sizes(&e, tensors) ? dispatch_equation(&e, tensors) : NULL;
}

/* Names the dimensions of b: a letter of a's for those that are summed. */
static bool name_dims(const char *function, const weft_tensor *const tensors[2], int num_dims, const int *const dims[2],
                      equation *e)
{
    for (int i = 0; i < 2; i++) {
        int ndim = weft_layout_of(tensors[i])->ndim, own[WEFT_MAX_DIMS];
        if (num_dims > ndim) {
            weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d, expected 0 to %d, the dimensions of %s", num_dims, ndim,
                      i == 0 ? "a" : "b");
            return false;
        }
        if (!weft_check_own_dims(function, tensors[i], num_dims, dims[i], own)) {
            return false;
        }
        for (int d = 0; d < ndim; d++) {
            int k = 0;
            while (k < num_dims && own[k] != d) {
                k++;
            }
            char label = (char)(k < num_dims ? 'a' + k : (i == 0 ? 'j' : 's') + d);
            add_label(&e->operands[i], label);
            if (k == num_dims) {
                add_label(&e->output, label);
            }
        }
    }
    return true;
}

weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, int num_dims, const int dims_a[], const int dims_b[])
{
    static const char function[] = "weft_tensordot";
    weft_tensor *const tensors[] = { a, b };
    const weft_tensor *const both[] = { a, b };
    const int *const dims[] = { dims_a, dims_b };
    equation e = { .function = function, .num_operands = 2 };
    if (weft_check_tensor(function, "a", a) == NULL || weft_check_tensor(function, "b", b) == NULL ||
        !check_tensors(function, 2, tensors)) {
        return NULL;
    }
    if (num_dims < 0 || num_dims > WEFT_MAX_DIMS || (num_dims > 0 && (dims_a == NULL || dims_b == NULL))) {
        weft_fail(WEFT_ERR_INVALID, function, "num_dims is %d, expected 0 to %d, with dims_a and dims_b", num_dims,
                  WEFT_MAX_DIMS);
        return NULL;
    }
    if (!name_dims(function, both, num_dims, dims, &e) || !check_sizes(&e, tensors)) {
        return NULL;
    }
    if (e.output.ndim > WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_SHAPE, function, "the result has %d dimensions, expected at most %d", e.output.ndim,
                  WEFT_MAX_DIMS);
        return NULL;
    }
    return dispatch_equation(&e, tensors);
}

const weft_operation *const weft_einsum_operations[] = { &operation_einsum, NULL };
