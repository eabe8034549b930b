/* Products of matrices: products.h. */
#include "elementwise.h"
#include "sums.h"

/* ---- matrices ------------------------------------------------------------------------------------------ */

/* One operand as a batch of matrices: rows x columns, and where element (row, column) of matrix i is. */
typedef struct matrices {
    const dense *x;
    int64_t rows, columns;
    bool transposed;
    int batch_ndim; /* dimensions before the matrices */
} matrices;

static matrices matrices_of(const dense *x, bool transposed, bool is_left)
{
    matrices m = { .x = x, .transposed = transposed, .batch_ndim = x->ndim > 2 ? x->ndim - 2 : 0 };
    if (x->ndim == 1) { /* a row on the left, a column on the right */
        m.rows = is_left ? 1 : x->shape[0];
        m.columns = is_left ? x->shape[0] : 1;
        return m;
    }
    int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    m.rows = transposed ? columns : rows;
    m.columns = transposed ? rows : columns;
    return m;
}

static int64_t place_in(const matrices *m, int64_t matrix, int64_t row, int64_t column)
{
    return matrix * m->rows * m->columns +
           (m->transposed ? column * m->rows + row : row * m->columns + column);
}

/* One element of a product: the sum over k of a[row, k] * b[k, column]. */
typedef struct dot_product {
    double real, mass;
    int64_t whole;
    bool finite;
} dot_product;

static dot_product multiply(const matrices *a, int64_t in_a, int64_t row, const matrices *b, int64_t in_b,
                            int64_t column)
{
    dot_product p = { .finite = true };
    for (int64_t k = 0; k < a->columns; k++) {
        int64_t i = place_in(a, in_a, row, k), j = place_in(b, in_b, k, column);
        if (is_floating(a->x->dtype)) {
            p.real += a->x->at[i].real * b->x->at[j].real;
            p.mass += mass_at(a->x, i) * mass_at(b->x, j);
            p.finite &= isfinite(a->x->at[i].real) && isfinite(b->x->at[j].real);
        } else {
            p.whole = wrap_add(p.whole, wrap_multiply(a->x->at[i].whole, b->x->at[j].whole));
        }
    }
    return p;
}

static void set_product(scene *s, dense *out, int64_t i, const dot_product *p, int64_t addends, double unit)
{
    if (!is_floating(out->dtype)) {
        out->at[i].whole = wrapped(out->dtype, p->whole);
        return;
    }
    set_sum(s, out, i, p->real, addends, p->mass, unit);
    /* An addend of 0 times what is infinite. */
    bool partial = false;
    for (int k = 0; k < s->step->num_inputs; k++) {
        partial |= s->in[k] != NULL && s->in[k]->partial;
    }
    dense_allow(s->arena, out, i, partial && !p->finite ? (double)INFINITY : 0);
}

/* The shape of a product without its matrices' own dimensions; -1: batches do not fit. */
static int batch_shape(const matrices *a, const matrices *b, int64_t shape[])
{
    dense of_a = *a->x, of_b = *b->x;
    of_a.ndim = a->batch_ndim;
    of_b.ndim = b->batch_ndim;
    return broadcast_shape(2, (const dense *const[]){ &of_a, &of_b }, shape);
}

static bool product_of(scene *s, bool transpose_a, bool transpose_b)
{
    const dense *x = s->in[0], *y = s->in[1];
    if (x == NULL || y == NULL || x->ndim == 0 || y->ndim == 0 || x->dtype != y->dtype ||
        x->dtype == WEFT_BOOL || (transpose_a && x->ndim < 2) || (transpose_b && y->ndim < 2)) {
        return false;
    }
    matrices a = matrices_of(x, transpose_a, true), b = matrices_of(y, transpose_b, false);
    int64_t shape[WEFT_MAX_DIMS];
    int batch = batch_shape(&a, &b, shape), ndim = batch;
    if (batch < 0 || a.columns != b.rows) {
        return false;
    }
    int64_t matrices_made = count_of(batch, shape);
    if (x->ndim > 1) {
        shape[ndim++] = a.rows;
    }
    if (y->ndim > 1) {
        shape[ndim++] = b.columns;
    }
    dense *out = scene_output(s, 0, x->dtype, ndim, shape);
    dense of_a = *x, of_b = *y;
    of_a.ndim = a.batch_ndim;
    of_b.ndim = b.batch_ndim;
    double unit = dense_unit(x) * dense_unit(y);
    for (int64_t i = 0; i < matrices_made; i++) {
        int64_t in_a = broadcast_index(&of_a, batch, shape, i),
                in_b = broadcast_index(&of_b, batch, shape, i);
        for (int64_t row = 0; row < a.rows; row++) {
            for (int64_t column = 0; column < b.columns; column++) {
                dot_product p = multiply(&a, in_a, row, &b, in_b, column);
                set_product(s, out, (i * a.rows + row) * b.columns + column, &p, a.columns, unit);
            }
        }
    }
    out->unit = unit;
    return true;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

CALLS(matmul, out[0] = weft_matmul(in[0], in[1]))
CALLS(matmul_ex, out[0] = weft_matmul_ex(in[0], whole[0] != 0, in[1], whole[1] != 0))
CALLS(dot, out[0] = weft_dot(in[0], in[1]))
CALLS(einsum, out[0] = weft_einsum("ij,jk", 2, in))
CALLS(tensordot, out[0] = weft_tensordot(in[0], in[1], 1, (int[]){ 1 }, (int[]){ 0 }))
CALLS(outer, out[0] = weft_outer(in[0], in[1]))
CALLS(addmm, out[0] = weft_addmm(in[0], in[1], in[2], real[0], real[1]))
CALLS(linear, out[0] = weft_linear(in[0], in[1], in[2]))

static int64_t small_size(maker *m)
{
    return one_in(m, 25) ? 0 : between(m, 1, 6);
}

/* [..., rows, columns] transposed or not, or a vector, to go with an operand whose inner size is k. */
static int choose_right(maker *m, int a, int64_t k, bool transposed)
{
    const dense *x = value_of(m, a);
    int64_t shape[WEFT_MAX_DIMS] = { k };
    if (!transposed && one_in(m, 5)) {
        return choose_like(m, a, BIT(x->dtype), 1, shape);
    }
    int batch = x->ndim > 2 && one_in(m, 2) ? x->ndim - 2 : 0;
    for (int d = 0; d < batch; d++) {
        shape[d] = one_in(m, 3) ? 1 : x->shape[d];
    }
    int64_t n = small_size(m);
    shape[batch] = transposed ? n : k;
    shape[batch + 1] = transposed ? k : n;
    return choose_like(m, a, BIT(x->dtype), batch + 2, shape);
}

static bool make_matmul(maker *m, step *s)
{
    bool extended = s->operation->name[6] != '\0', transpose_a = extended && one_in(m, 2),
         transpose_b = extended && one_in(m, 2);
    int a = choose_any(m, NUMBERS, transpose_a ? 2 : 1, 4);
    if (a == NO_VALUE || value_of(m, a)->ndim < (transpose_a ? 2 : 1)) {
        return false;
    }
    const dense *x = value_of(m, a);
    int b = choose_right(m, a, x->shape[x->ndim - (transpose_a ? 2 : 1)], transpose_b);
    *s = step_of(s->operation, 2, a, b);
    s->num_wholes = 2;
    s->wholes[0] = transpose_a;
    s->wholes[1] = transpose_b;
    return b != NO_VALUE;
}

static bool multiplied(scene *s)
{
    bool extended = s->step->operation->name[6] != '\0';
    return product_of(s, extended && whole_of_call(s, 0), extended && whole_of_call(s, 1));
}

static bool make_vectors(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 1, 1);
    if (a == NO_VALUE || value_of(m, a)->ndim != 1) {
        return false;
    }
    int64_t size = s->operation->name[0] == 'd' ? value_of(m, a)->shape[0] : -1;
    unsigned types = size < 0 && one_in(m, MIXED_TYPES_ONE_IN) ? NUMBERS : BIT(value_of(m, a)->dtype);
    int b = choose_like(m, a, types, 1, &size);
    *s = step_of(s->operation, 2, a, b);
    return b != NO_VALUE;
}

static bool dotted(scene *s)
{
    return s->in[0] != NULL && s->in[1] != NULL && s->in[0]->ndim == 1 && s->in[1]->ndim == 1 &&
           product_of(s, false, false);
}

static bool make_matrices(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 2, 2);
    if (a == NO_VALUE || value_of(m, a)->ndim != 2) {
        return false;
    }
    int64_t shape[] = { value_of(m, a)->shape[1], small_size(m) };
    int b = choose_like(m, a, BIT(value_of(m, a)->dtype), 2, shape);
    *s = step_of(s->operation, 2, a, b);
    return b != NO_VALUE;
}

static bool matrices_multiplied(scene *s)
{
    return s->in[0] != NULL && s->in[1] != NULL && s->in[0]->ndim == 2 && s->in[1]->ndim == 2 &&
           product_of(s, false, false);
}

/* Every product of two elements: exact, in the type of both. */
static bool outer(scene *s)
{
    const dense *x = s->in[0], *y = s->in[1];
    if (x == NULL || y == NULL || x->ndim != 1 || y->ndim != 1 || !are_promoted(2, s->in)) {
        return false;
    }
    weft_dtype type = promoted(2, s->in);
    dense *out = scene_output(s, 0, type, 2, (int64_t[]){ x->shape[0], y->shape[0] });
    for (int64_t i = 0; i < out->count; i++) {
        element a = converted(type, x->dtype, x->at[i / y->shape[0]]);
        bool wide = y->count == 1 && is_floating(type); /* as weft_mul() has it */
        element b = converted(wide ? arithmetic_type(type) : type, y->dtype, y->at[i % y->shape[0]]);
        if (is_floating(type)) {
            dot_product p = { .real = a.real * b.real, .finite = isfinite(a.real) && isfinite(b.real) };
            out->at[i].real = rounded(type, p.real);
            bool partial = x->partial || y->partial;
            dense_allow(s->arena, out, i, partial && !p.finite ? (double)INFINITY : 0);
        } else {
            out->at[i].whole = wrapped(type, wrap_multiply(a.whole, b.whole));
        }
    }
    if (x->partial || y->partial) {
        allow_addends(s, out, dense_mass(x) * dense_mass(y), dense_unit(x) * dense_unit(y));
    }
    return true;
}

static bool make_addmm(maker *m, step *s)
{
    int a = choose_any(m, NUMBERS, 2, 2);
    if (a == NO_VALUE || value_of(m, a)->ndim != 2) {
        return false;
    }
    const dense *x = value_of(m, a);
    weft_dtype dtype = x->dtype;
    int64_t n = small_size(m), rows = x->shape[0], shape[] = { x->shape[1], n };
    int b = choose_like(m, a, BIT(dtype), 2, shape);
    int ndim = (int)below(m, 3);
    int64_t of_c[] = { one_in(m, 4) ? 1 : rows, one_in(m, 4) ? 1 : n };
    int c = b == NO_VALUE ? NO_VALUE : choose_like(m, a, BIT(dtype), ndim, of_c + 2 - ndim);
    *s = step_of(s->operation, 3, c, a, b);
    s->num_reals = 2;
    s->reals[0] = one_in(m, 4) ? 0 : any_number(m, dtype);
    s->reals[1] = any_number(m, dtype);
    return c != NO_VALUE;
}

static double unit_of_number(double x)
{
    return x == nearbyint(x) ? 1 : x * 8 == nearbyint(x * 8) ? 0.125 : 0;
}

static double whole_number(double x)
{
    return x == nearbyint(x) ? x : (double)NAN;
}

/* Adds factor * c, broadcast, to what has been made of a product scaled by alpha. */
static bool add_scaled_product(scene *s, const dense *c, double beta, const dense *a, const dense *b,
                               bool transpose_b, double alpha)
{
    matrices left = matrices_of(a, false, true), right = matrices_of(b, transpose_b, false);
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < a->ndim - 1; d++) {
        shape[d] = a->shape[d];
    }
    shape[a->ndim - 1] = right.columns;
    if (c != NULL) {
        dense like = { .ndim = a->ndim };
        int64_t both[WEFT_MAX_DIMS];
        for (int d = 0; d < a->ndim; d++) {
            like.shape[d] = shape[d];
        }
        if (c->dtype != a->dtype || broadcast_shape(2, (const dense *const[]){ c, &like }, both) != a->ndim ||
            count_of(a->ndim, both) != count_of(a->ndim, shape)) {
            return false;
        }
    }
    dense *out = scene_output(s, 0, a->dtype, a->ndim, shape);
    double unit = dense_unit(a) * dense_unit(b) * unit_of_number(alpha);
    unit = c != NULL && beta != 0 ? fmin(unit, dense_unit(c) * unit_of_number(beta)) : unit;
    for (int64_t i = 0; i < out->count; i++) {
        dot_product p = multiply(&left, 0, i / right.columns, &right, 0, i % right.columns);
        p.real *= alpha;
        p.mass *= fabs(alpha);
        p.whole = is_floating(a->dtype) ? 0 : wrap_multiply((int64_t)alpha, p.whole);
        if (c != NULL && beta != 0) {
            int64_t from = broadcast_index(c, a->ndim, shape, i);
            p.real += is_floating(c->dtype) ? beta * c->at[from].real : 0;
            p.mass += fabs(beta) * mass_at(c, from);
            p.finite &= isfinite(number_of(c->dtype, c->at[from]));
            p.whole = is_floating(c->dtype)
                          ? 0
                          : wrap_add(p.whole, wrap_multiply((int64_t)beta, c->at[from].whole));
        }
        set_product(s, out, i, &p, left.columns + 2, unit);
        /* As in BLAS a product may be left out where its factor is 0. */
        dense_allow(s->arena, out, i, alpha == 0 && !p.finite ? (double)INFINITY : 0);
    }
    out->unit = unit;
    return true;
}

static bool added(scene *s)
{
    const dense *c = s->in[0], *a = s->in[1], *b = s->in[2];
    if (a == NULL || b == NULL || c == NULL || a->ndim != 2 || b->ndim != 2 || a->dtype != b->dtype ||
        a->dtype == WEFT_BOOL || a->shape[1] != b->shape[0] || c->ndim > 2 || s->step->num_reals < 2) {
        return false;
    }
    double beta = s->step->reals[0], alpha = s->step->reals[1];
    bool whole = whole_number(beta) == beta && whole_number(alpha) == alpha;
    return (is_floating(a->dtype) || whole) && add_scaled_product(s, c, beta, a, b, false, alpha);
}

static bool make_linear(maker *m, step *s)
{
    int x = choose_any(m, NUMBERS, 1, 4);
    if (x == NO_VALUE || value_of(m, x)->ndim == 0) {
        return false;
    }
    const dense *a = value_of(m, x);
    int64_t n = small_size(m), shape[] = { n, a->shape[a->ndim - 1] };
    unsigned types = BIT(a->dtype);
    int weight = choose_like(m, x, types, 2, shape);
    int bias = weight == NO_VALUE || one_in(m, 3) ? NO_VALUE : choose_like(m, x, types, 1, &n);
    *s = step_of(s->operation, 3, x, weight, bias);
    return weight != NO_VALUE;
}

static bool linear(scene *s)
{
    const dense *x = s->in[0], *weight = s->in[1], *bias = s->in[2];
    if (x == NULL || weight == NULL || x->ndim < 1 || weight->ndim != 2 || x->dtype != weight->dtype ||
        x->dtype == WEFT_BOOL || weight->shape[1] != x->shape[x->ndim - 1] ||
        (bias != NULL && (bias->ndim != 1 || bias->shape[0] != weight->shape[0]))) {
        return false;
    }
    return add_scaled_product(s, bias, 1, x, weight, true, 1);
}

const operation product_calls[] = {
    ROW(matmul, make_matmul, multiplied, .flags = MAY_BE_PARTIAL, .weight = 14),
    ROW(matmul_ex, make_matmul, multiplied, .flags = MAY_BE_PARTIAL, .weight = 14),
    ROW(dot, make_vectors, dotted, .flags = MAY_BE_PARTIAL),
    ROW(einsum, make_matrices, matrices_multiplied, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(tensordot, make_matrices, matrices_multiplied, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(outer, make_vectors, outer, .flags = MAY_BE_PARTIAL),
    ROW(addmm, make_addmm, added, .flags = MAY_BE_PARTIAL, .weight = 8),
    ROW(linear, make_linear, linear, .flags = MAY_BE_PARTIAL, .weight = 8),
    { .name = NULL },
};
