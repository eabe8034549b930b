/* Reshaping. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "tasks/copies.h"

/* ---- lowering: where the output cannot share the memory ------------------------------------------------ */

/* Bytes [first, last) of a shard's memory that a panel has. */
static void panel_bytes(const weft_layout *layout, const weft_shard_info *shard, int64_t panel,
                        int64_t *first, int64_t *last)
{
    int64_t row_bytes =
        weft_row_elements(layout->ndim, &shard->box) * (int64_t)weft_dtype_size(layout->dtype);
    int64_t begin = layout->ndim == 0 ? 0 : shard->box.offset[0];
    weft_panel_range(layout, &shard->box, panel, first, last);
    *first = (*first - begin) * row_bytes;
    *last = (*last - begin) * row_bytes;
}

/* Fills one panel of the output from the input's panels beginning with *source, which advances to the last one used. */
static bool copy_to_panel(const weft_lowering *lowering, int64_t panel, int64_t *source)
{
    const weft_layout *input = lowering->inputs[0];
    const weft_shard_info *from = weft_lowering_input(lowering, 0), *to = weft_lowering_output(lowering);
    int64_t first, last, row, row_end;
    weft_panel_range(lowering->output, &to->box, panel, &row, &row_end);
    panel_bytes(lowering->output, to, panel, &first, &last);
    weft_copies copies = { .list = lowering->tasks,
                           .dtype = input->dtype,
                           .element_size = 1,
                           .target = weft_output_slot(lowering, 0, panel),
                           .access = WEFT_SLOT_WRITE,
                           .position = weft_lowering_position(lowering, row) };
    for (int64_t at = first, end; at < last; at = end) {
        int64_t source_first, source_last;
        panel_bytes(input, from, *source, &source_first, &source_last);
        end = weft_min_i64(last, source_last);
        const weft_strided_box bytes = { .ndim = 1, .extent = { end - at }, .source_stride = { 1 }, .target_stride = { 1 } };
        if (!weft_copies_add(&copies, at - first, weft_input_slot(lowering, 0, *source), at - source_first, &bytes)) {
            return false;
        }
        *source += end == source_last;
    }
    return weft_copies_end(&copies);
}

static bool lower_copy(const weft_lowering *lowering)
{
    int64_t source = 0, given = weft_lowering_input(lowering, 0)->count, taken = weft_lowering_output(lowering)->count;
    if (given != taken) {
        weft_fail(WEFT_ERR_INTERNAL, lowering->function, "a shard of %lld elements becomes one of %lld", (long long)given, (long long)taken);
        return false;
    }
    for (int64_t panel = 0; panel < weft_lowering_output(lowering)->num_panels; panel++) {
        if (!copy_to_panel(lowering, panel, &source)) {
            return false;
        }
    }
    return true;
}

/* ---- the rule ------------------------------------------------------------------------------------------ */

/* One of the two shapes, traversed from the outermost dimension. */
typedef struct side {
    int ndim;
    const int64_t *shape;
    int dim;                                           /* current dimension */
    int64_t left;                                      /* part of its size without factors yet */
    int count[WEFT_MAX_DIMS];                          /* number of factors of each dimension */
    int factors[WEFT_MAX_DIMS][WEFT_MAX_TERM_FACTORS]; /* numbers of the factors */
} side;

typedef struct part {
    int64_t size;
    bool whole; /* a factor of one side only */
} part;

/* The factors of two shapes with equally many elements. */
typedef struct factoring {
    side from, to;
    int num_factors;
    part factors[WEFT_MAX_RULE_FACTORS];
} factoring;

/* Advances to the next dimension with a size other than 1. */
static void next_dim(side *s)
{
    do {
        s->dim++;
    } while (s->dim < s->ndim && s->shape[s->dim] == 1);
    s->left = s->dim < s->ndim ? s->shape[s->dim] : 1;
}

static side side_of(int ndim, const int64_t shape[])
{
    side s = { .ndim = ndim, .shape = shape, .dim = -1 };
    next_dim(&s);
    return s;
}

static void add_part(side *s, int factor)
{
    s->factors[s->dim][s->count[s->dim]++] = factor;
}

/* Makes the rest of a dimension a factor of this side only. Returns its size. */
static int64_t add_rest(factoring *f, side *s)
{
    int64_t size = s->left;
    add_part(s, f->num_factors);
    f->factors[f->num_factors++] = (part){ size, true };
    next_dim(s);
    return size;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Takes dimensions from both sides until their products are equal: no further common outer factors. */
static void add_different(factoring *f)
{
    int64_t from = add_rest(f, &f->from), to = add_rest(f, &f->to);
    while (from != to) {
        if (from < to) {
            from *= add_rest(f, &f->from);
        } else {
            to *= add_rest(f, &f->to);
        }
    }
}

static void add_common(factoring *f, int64_t size)
{
    add_part(&f->from, f->num_factors);
    add_part(&f->to, f->num_factors);
    f->factors[f->num_factors++] = (part){ size, false };
    f->from.left /= size;
    f->to.left /= size;
}

static bool has_elements(const side *s)
{
    for (int d = 0; d < s->ndim; d++) {
        if (s->shape[d] == 0) {
            return false;
        }
    }
    return true;
}

/* Shapes without elements have no common factors. */
static void factor_empty(factoring *f)
{
    while (f->from.dim < f->from.ndim) {
        add_rest(f, &f->from);
    }
    while (f->to.dim < f->to.ndim) {
        add_rest(f, &f->to);
    }
}

static void find_factors(factoring *f)
{
    while (f->from.dim < f->from.ndim) {
        int64_t size = common_divisor(f->from.left, f->to.left);
        if (size > 1) {
            add_common(f, size);
        }
        if (f->from.left > 1 && f->to.left > 1) {
            add_different(f);
            continue;
        }
        if (f->from.left == 1) {
            next_dim(&f->from);
        }
        if (f->to.left == 1) {
            next_dim(&f->to);
        }
    }
}

/* Numbers a side's unnumbered factors in the order of its text. */
static void number_side(const side *s, int number[], int *next)
{
    for (int d = 0; d < s->ndim; d++) {
        for (int i = 0; i < s->count[d]; i++) {
            int *own = &number[s->factors[d][i]];
            *own = *own < 0 ? (*next)++ : *own;
        }
    }
}

static void renumber_side(side *s, const int number[])
{
    for (int d = 0; d < s->ndim; d++) {
        for (int i = 0; i < s->count[d]; i++) {
            s->factors[d][i] = number[s->factors[d][i]];
        }
    }
}

/* Renumbers the factors in the order of the rule's text, in which the rule takes their sizes; they were
 * found in another order. */
static void number_factors(factoring *f)
{
    part found[WEFT_MAX_RULE_FACTORS];
    int number[WEFT_MAX_RULE_FACTORS], next = 0;
    memcpy(found, f->factors, sizeof(found));
    for (int i = 0; i < f->num_factors; i++) {
        number[i] = -1;
    }
    number_side(&f->from, number, &next);
    number_side(&f->to, number, &next);
    for (int i = 0; i < f->num_factors; i++) {
        f->factors[number[i]] = found[i];
    }
    renumber_side(&f->from, number);
    renumber_side(&f->to, number);
}

static void factor_shapes(factoring *f, int ndim, const int64_t shape[], int new_ndim,
                          const int64_t new_shape[])
{
    f->num_factors = 0;
    f->from = side_of(ndim, shape);
    f->to = side_of(new_ndim, new_shape);
    if (has_elements(&f->from)) {
        find_factors(f);
    } else {
        factor_empty(f);
    }
    number_factors(f);
}

/* "a*(b*[c])1" */
static void format_side(const factoring *f, const side *s, char *text)
{
    for (int d = 0; d < s->ndim; d++) {
        if (s->count[d] == 0) {
            *text++ = '1';
        }
        if (s->count[d] > 1) {
            *text++ = '(';
        }
        for (int i = 0; i < s->count[d]; i++) {
            int factor = s->factors[d][i];
            text += sprintf(text, f->factors[factor].whole ? "[%c]" : "%c*", 'a' + factor);
        }
        if (s->count[d] > 1) {
            *text++ = ')';
        }
    }
    *text = '\0';
}

/* numbers: the new shape. */
static void write_reshape_rule(const weft_call_layouts *call, char *text, size_t size)
{
    enum { LONGEST = 3 * WEFT_MAX_RULE_FACTORS + 2 * WEFT_MAX_DIMS + 1 };
    factoring f;
    char from[LONGEST], to[LONGEST];
    factor_shapes(&f, call->inputs[0]->ndim, call->inputs[0]->shape, (int)call->attributes->num_numbers,
                  call->attributes->numbers);
    format_side(&f, &f.from, from);
    format_side(&f, &f.to, to);
    snprintf(text, size, "%s->%s", from, to);
}

/* The sizes of factors that are no dimension of the input, for the rule. */
static void write_sizes(const factoring *f, weft_attributes *attributes)
{
    bool alone[WEFT_MAX_RULE_FACTORS] = { false };
    for (int d = 0; d < f->from.ndim; d++) {
        if (f->from.count[d] == 1) {
            alone[f->from.factors[d][0]] = true;
        }
    }
    for (int i = 0; i < f->num_factors; i++) {
        if (!alone[i]) {
            attributes->sizes[attributes->num_sizes++] = f->factors[i].size;
        }
    }
}

static bool gradient_of_reshape(const weft_gradient *of)
{
    const weft_layout *a = weft_layout_of(of->call->inputs[0]);
    return weft_give_gradient(of, 0, weft_reshape(weft_gradient_of_output(of, 0), a->ndim, a->shape));
}

static const weft_operation operation_reshape = {
    .name = "reshape",
    .gradient = { .function = gradient_of_reshape },
    .write_rule = write_reshape_rule,
    .rule_like = "(a*b*)c*->a*(b*c*)",
    .numbers_are_shape = true,
    .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = ~0u },
    .inputs = { { "a", WEFT_TYPES_MOVED, false } },
    .views = true,
    .lower = lower_copy,
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* "[2, 3]" */
static const char *shape_text(int ndim, const int64_t shape[], char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    weft_text_add(&text, "[");
    weft_text_add_sizes(&text, ndim, shape, ", ");
    weft_text_add(&text, "]");
    return buffer;
}

static bool refuse_shape(const char *function, const weft_layout *from, int ndim, const int64_t shape[])
{
    char old[120], new[120];
    weft_fail(WEFT_ERR_SHAPE, function, "a has shape %s, which does not become shape %s",
              shape_text(from->ndim, from->shape, old, sizeof(old)),
              shape_text(ndim, shape, new, sizeof(new)));
    return false;
}

/* Writes `shape` with its -1 replaced. False with the error kept. */
static bool complete_shape(const char *function, const weft_layout *from, int ndim, const int64_t shape[],
                           int64_t complete[])
{
    if (ndim < 0 || ndim > WEFT_MAX_DIMS || (ndim > 0 && shape == NULL)) {
        return weft_check_shape(function, ndim, shape);
    }
    int unknown = -1;
    for (int d = 0; d < ndim; d++) {
        complete[d] = shape[d];
        if (shape[d] != -1) {
            continue;
        }
        if (unknown >= 0) {
            weft_fail(WEFT_ERR_SHAPE, function, "shape has -1 in dimensions %d and %d, expected at most one",
                      unknown, d);
            return false;
        }
        unknown = d;
        complete[d] = 1;
    }
    if (!weft_check_shape(function, ndim, complete)) {
        return false;
    }
    int64_t old_count = 1, new_count = 1;
    weft_count_checked(from->ndim, from->shape, &old_count);
    weft_count_checked(ndim, complete, &new_count);
    if (unknown >= 0) {
        if (new_count == 0 || old_count % new_count != 0) {
            return refuse_shape(function, from, ndim, shape);
        }
        complete[unknown] = old_count / new_count;
        new_count = old_count;
    }
    return old_count == new_count || refuse_shape(function, from, ndim, shape);
}

/* `shape` has equally many elements. */
static weft_tensor *reshape(const char *function, weft_tensor *a, int ndim, const int64_t shape[])
{
    weft_call call = {
        .function = function, .operation = &operation_reshape, .num_inputs = 1, .inputs = { a }
    };
    factoring f;
    factor_shapes(&f, weft_layout_of(a)->ndim, weft_layout_of(a)->shape, ndim, shape);
    write_sizes(&f, &call.attributes);
    call.attributes.num_numbers = ndim;
    memcpy(call.attributes.numbers, shape, (size_t)ndim * sizeof(shape[0]));
    return weft_dispatch(&call);
}

weft_tensor *weft_reshape(weft_tensor *a, int ndim, const int64_t shape[])
{
    static const char function[] = "weft_reshape";
    int64_t complete[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "a", a) == NULL ||
        !complete_shape(function, weft_layout_of(a), ndim, shape, complete)) {
        return NULL;
    }
    return reshape(function, a, ndim, complete);
}

weft_tensor *weft_flatten(weft_tensor *a, int first, int last)
{
    static const char function[] = "weft_flatten";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    first = weft_wrap_dim(function, "first", a, first);
    last = first < 0 ? -1 : weft_wrap_dim(function, "last", a, last);
    if (last < 0) {
        return NULL;
    }
    if (last < first) {
        weft_fail(WEFT_ERR_INVALID, function, "last is dimension %d, expected at least %d, as first is", last,
                  first);
        return NULL;
    }
    int64_t shape[WEFT_MAX_DIMS] = { 1 };
    int count = 0;
    for (int d = 0; d < layout->ndim; d++) {
        if (d > first && d <= last) {
            shape[count - 1] *= layout->shape[d];
        } else {
            shape[count++] = layout->shape[d];
        }
    }
    return reshape(function, a, layout->ndim == 0 ? 1 : count, shape);
}

weft_tensor *weft_unflatten(weft_tensor *a, int dim, int num_sizes, const int64_t sizes[])
{
    static const char function[] = "weft_unflatten";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    dim = weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    if (num_sizes < 1 || num_sizes > WEFT_MAX_DIMS - layout->ndim + 1 || sizes == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "num_sizes is %d%s, expected 1 to %d", num_sizes,
                  sizes == NULL ? " and sizes NULL" : "", WEFT_MAX_DIMS - layout->ndim + 1);
        return NULL;
    }
    /* Only this dimension, so that a -1 among the sizes is computed from it. */
    const weft_layout alone = { .ndim = 1, .shape = { layout->shape[dim] } };
    int64_t shape[WEFT_MAX_DIMS];
    memcpy(shape, layout->shape, (size_t)dim * sizeof(shape[0]));
    if (!complete_shape(function, &alone, num_sizes, sizes, shape + dim)) {
        return NULL;
    }
    memcpy(shape + dim + num_sizes, layout->shape + dim + 1,
           (size_t)(layout->ndim - dim - 1) * sizeof(shape[0]));
    return reshape(function, a, layout->ndim - 1 + num_sizes, shape);
}

const weft_operation *const weft_reshape_operations[] = {
    &operation_reshape,
    NULL,
};
