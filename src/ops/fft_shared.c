/* Transforms of long lines that ranks share: the four-step algorithm of D. H. Bailey, "FFTs in external or hierarchical memory", The
 * Journal of Supercomputing 4 (1990). A line of n = n1 n2 elements is a matrix, of which element j = j1 n2 + j2 is at [j1][j2]:
 *
 *     transforms over j1, a rank having some j2;  factors e^(-2 pi i j2 k1 / n);  transforms over j2, a rank having some k1
 *
 * give element k1 + n1 k2. Ranks exchange all elements before each of the two transforms, and the result stays where the second one
 * has made it: a rank has its k1 of each n1 elements, a cut with period n1. The next transform takes n1 for its own n2, and makes one
 * exchange.
 *
 * Of a real line the first transforms are real ones: rows k1 <= n1 / 2 are exchanged and transformed, half of them. Element k1 + n1 k2 with
 * k1 > n1 / 2 is the conjugate of n1 - k1 + n1 (n2 - 1 - k2). To a real line the transforms are complex ones: the real part of the
 * transform of the first half, counted twice, is that of the whole spectrum. */
#include "ops/fft.h"

#include <math.h>
#include <string.h>

#include "codelets/complex.h"
#include "runtime/runtime.h"

typedef struct shared_line {
    weft_transform of;
    int64_t first, second; /* n1, n2 */
    int64_t rows;          /* that the second transforms are of: n1, or those of a real line */
    int64_t given;         /* elements that are transformed: others are 0 */
} shared_line;

/* ---- the two sizes --------------------------------------------------------------------------------------- */

/* The number of mesh dimensions that shard a dimension; *period: that of the only one, 0: none. */
static int count_cuts(const weft_layout *layout, int dim, int64_t *period)
{
    int count = 0;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (weft_layout_shards(layout, m, dim)) {
            const weft_placement p = layout->placements[m]; /* canonical: equal parts of a period are blocks in turn */
            *period = p.cut == WEFT_CUT_CYCLIC && p.period == 0 && p.first == 0 ? p.block * layout->mesh->shape[m] : p.period;
            count++;
        }
    }
    *period = count == 1 ? *period : 0;
    return count;
}

/* Chooses n1 and n2: preferably multiples of the number of ranks, else close to each other. False: n has no such factors. */
static bool find_sizes(const weft_layout *layout, int dim, int64_t n, int64_t *first, int64_t *second)
{
    int64_t period, parts = weft_layout_parts(layout, dim);
    const bool once = count_cuts(layout, dim, &period) == 1;
    *first = 0;
    if (period >= parts && n % period == 0 && n / period >= parts) {
        *first = n / period;
    }
    bool equal = *first > 0 && *first % parts == 0 && period % parts == 0;
    for (int64_t size = (int64_t)sqrt((double)n); size >= parts && !equal; size--) {
        const int64_t other = n / size;
        equal = other * size == n && size % parts == 0 && other % parts == 0;
        *first = equal || (*first == 0 && other * size == n) ? size : *first;
    }
    *second = *first == 0 ? 0 : n / *first;
    return *first > 0 && (once || equal);
}

bool weft_fft_may_be_shared(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    const int64_t *numbers = call->attributes->numbers;
    const int dim = (int)numbers[WEFT_FFT_DIM];
    const int64_t n = numbers[WEFT_FFT_SIZE], parts = weft_layout_parts(a, dim);
    bool may = parts > 1 && n / parts >= parts && a->shape[dim] > 0 && a->ndim < WEFT_MAX_DIMS && numbers[WEFT_FFT_LINE] == 0;
    for (int d = 0; d < a->ndim; d++) { /* where ranks can share lines out, one exchange is enough */
        may &= d == dim || (a->shape[d] > 0 && a->shape[d] < parts);
    }
    return may;
}

/* Rows of n1 elements that the result has. */
static int64_t results_of(const shared_line *s)
{
    return s->of.kind == WEFT_FFT_REAL_KIND ? weft_ceil_div(s->of.n / 2 + 1, s->first) : s->second;
}

/* ---- layouts --------------------------------------------------------------------------------------------- */

/* The placements of a layout, where those that shard `dim` shard dimension `to` instead, of so many rows that repeat with this period
 * (0: they do not); `to` -1: none. With `inserted`, dimensions after `dim` are one further. Sums are made. */
static void place(const weft_layout *layout, int dim, int to, int64_t period, bool inserted, weft_placement placements[])
{
    int level = 0;
    for (int i = 0; i < layout->mesh->ndim; i++) {
        const int m = layout->order[i];
        placements[m] = layout->placements[m];
        if (weft_layout_shards(layout, m, dim)) {
            placements[m] = to < 0 ? weft_replicate()
                                   : (weft_placement){ .kind = WEFT_SHARD, .dim = to, .level = level, .period = period };
            level++;
            period = weft_ceil_div(period, layout->mesh->shape[m]);
        } else if (placements[m].kind == WEFT_PARTIAL) {
            placements[m] = weft_replicate();
        } else if (placements[m].kind == WEFT_SHARD && placements[m].dim > dim && inserted) {
            placements[m].dim++;
        }
    }
}

/* The layout of the line, cut with a period: of its matrix's columns. */
static const weft_layout *by_columns(const weft_layout *a, const shared_line *s)
{
    const int dim = s->of.dim;
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, sizeof(shape));
    shape[dim] = weft_ceil_div(s->given, s->second) * s->second;
    place(a, dim, dim, s->second, false, placements);
    return weft_layout_intern(weft_runtime.layouts, a->mesh, placements, a->ndim, shape, a->dtype);
}

/* The layout of [..., rows, columns, ...] in place of the line, its rows cut. */
static const weft_layout *by_rows(const weft_layout *a, int dim, int64_t rows, int64_t columns, weft_dtype dtype)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    for (int d = 0; d <= a->ndim; d++) {
        shape[d] = d == dim ? rows : d == dim + 1 ? columns : a->shape[d > dim ? d - 1 : d];
    }
    place(a, dim, dim, 0, true, placements);
    return weft_layout_intern(weft_runtime.layouts, a->mesh, placements, a->ndim + 1, shape, dtype);
}

/* ---- the cost -------------------------------------------------------------------------------------------- */

/* Predicted microseconds of a redistribution. */
static double cost_of_move(const weft_layout *from, const weft_layout *to)
{
    const double us = from == to || to == NULL
                          ? 0
                          : weft_plan_cost(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to);
    return to == NULL || us < 0 ? INFINITY : us;
}

/* Of so many complex transforms: with a fraction of the operations per second of matrix products. Real ones count half. */
static double cost_of_lines(double lines, int64_t n)
{
    enum { SLOWER = 10 };
    return lines * 5 * (double)n * log2((double)n) * SLOWER / weft_runtime.planned.product_flops_per_us;
}

/* As the dispatcher would: the least cost of moving counts, and the time of the rank with the most lines comes with it. */
static double cost_of_whole_lines(const weft_layout *a, int dim, int64_t n, double lines)
{
    const int64_t parts = weft_layout_parts(a, dim);
    double least = INFINITY, cost = INFINITY;
    for (int d = -1; d < a->ndim; d++) {
        weft_placement placements[WEFT_MAX_DIMS];
        if (d == dim || (d >= 0 && a->shape[d] < 2)) {
            continue;
        }
        place(a, dim, d, 0, false, placements);
        const double move = cost_of_move(
            a, weft_layout_intern(weft_runtime.layouts, a->mesh, placements, a->ndim, a->shape, a->dtype));
        const double own = d < 0 ? lines : lines / (double)a->shape[d] * (double)weft_ceil_div(a->shape[d], parts);
        if (move < least) {
            least = move;
            cost = move + cost_of_lines(own, n);
        }
    }
    return cost;
}

/* Of the exchange between rows and columns of a matrix. */
static double cost_of_exchange(const weft_layout *a, int dim, int64_t rows, int64_t columns)
{
    weft_placement placements[WEFT_MAX_DIMS];
    const weft_layout *from = by_rows(a, dim, rows, columns, weft_complex_type(a->dtype));
    if (from == NULL) {
        return INFINITY;
    }
    place(from, dim, dim + 1, 0, false, placements);
    return cost_of_move(from, weft_layout_intern(weft_runtime.layouts, a->mesh, placements, from->ndim, from->shape, from->dtype));
}

/* Of the first exchange. That of a line which is cut or padded before is another one, but nearly as long. */
static double cost_of_columns(const weft_layout *a, const shared_line *s)
{
    const weft_layout *to = by_columns(a, s);
    return to == NULL ? INFINITY
                      : cost_of_move(weft_layout_intern(weft_runtime.layouts, a->mesh, a->placements, a->ndim, to->shape, a->dtype), to);
}

/* With its own copies and tasks. */
static double cost_of_shared(const weft_layout *a, const shared_line *s, double lines)
{
    enum { COPIES = 4, TASKS = 10 };
    const bool real = s->of.kind == WEFT_FFT_REAL_KIND;
    const double share = lines / (double)weft_layout_parts(a, s->of.dim);
    const double elements = share * (double)s->second * (double)s->rows;
    const double bytes = COPIES * elements * (double)weft_dtype_size(weft_complex_type(a->dtype));
    return cost_of_columns(a, s) + cost_of_exchange(a, s->of.dim, s->second, s->rows) +
           (real ? 2 * cost_of_exchange(a, s->of.dim, s->rows, results_of(s)) : 0) + cost_of_lines(elements / (double)s->of.n, s->of.n) +
           bytes / weft_runtime.planned.copy_bytes_per_us + (real ? 2 * TASKS : TASKS) * weft_runtime.planned.task_us;
}

static bool is_cheaper(const weft_layout *a, const shared_line *s)
{
    const bool real = s->of.kind == WEFT_FFT_REAL_KIND || s->of.kind == WEFT_FFT_HALF_KIND;
    double lines = 1;
    for (int d = 0; d < a->ndim; d++) {
        lines *= d == s->of.dim ? 1 : (double)a->shape[d];
    }
    return cost_of_shared(a, s, lines) < cost_of_whole_lines(a, s->of.dim, s->of.n, real ? lines / 2 : lines);
}

/* ---- the steps ------------------------------------------------------------------------------------------- */

/* `a` with [rows, columns] in place of dimension `dim`; `joined`: the reverse. */
static weft_tensor *reshaped(weft_tensor *a, int dim, int64_t rows, int64_t columns, bool joined)
{
    if (a == NULL) {
        return NULL;
    }
    const weft_layout *layout = weft_layout_of(a);
    const int ndim = layout->ndim + (joined ? -1 : 1), gone = joined ? 1 : -1;
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        const int64_t other = layout->shape[d > dim ? d + gone : d];
        shape[d] = d == dim ? (joined ? rows * columns : rows) : d == dim + 1 && !joined ? columns : other;
    }
    return weft_reshape(a, ndim, shape);
}

/* Rows [..., rows, columns, ...], of which ranks have some each, after an exchange if they do not. */
static weft_tensor *rows_of(const shared_line *s, const weft_layout *line, weft_tensor *turned, int64_t rows, int64_t columns)
{
    weft_tensor *a = turned == NULL ? NULL : weft_transpose(turned, s->of.dim, s->of.dim + 1);
    const weft_layout *to = a == NULL ? NULL : by_rows(line, s->of.dim, rows, columns, weft_layout_of(a)->dtype);
    if (a != NULL && to == NULL) {
        weft_fail(WEFT_ERR_NOMEM, s->of.function, "no memory for a layout");
    }
    return to == NULL ? NULL : weft_in_layout(s->of.function, a, to);
}

/* One of the two transforms, along the dimension after s->of.dim. */
static weft_tensor *transformed(const shared_line *s, weft_tensor *rows, bool last)
{
    const weft_fft_kind kind = s->of.kind;
    const bool back = kind == WEFT_FFT_INVERSE_KIND || kind == WEFT_FFT_HALF_KIND;
    const bool half = kind == WEFT_FFT_HALF_KIND;
    weft_transform own = { .function = s->of.function,
                           .kind = back ? WEFT_FFT_INVERSE_KIND : last ? WEFT_FFT_FORWARD_KIND : kind,
                           .dim = s->of.dim + 1,
                           .n = last ? s->second : s->first,
                           .scale = last ? s->of.scale : 1,
                           .line = s->of.n,
                           .size = last ? s->second : s->rows,
                           .inherited = last ? WEFT_ALL_SCALARS : 0,
                           .real = last && half };
    own.step = last ? (kind == WEFT_FFT_REAL_KIND && s->of.weighted ? WEFT_FFT_DOUBLES_RESULTS : 0)
                    : WEFT_FFT_TURNS | (half && !s->of.weighted ? WEFT_FFT_DOUBLES_VALUES : 0);
    return rows == NULL ? NULL : weft_transform_dim(&own, rows);
}

/* The elements [..., rows of the result, n1, ...] of a real line's transform, from those with k1 <= n1 / 2, [..., k1, k2, ...]: exchanged,
 * then put together by each rank. */
static weft_tensor *with_mirrored(const shared_line *s, const weft_layout *line, weft_tensor *a)
{
    const int columns = s->of.dim + 1;
    const int64_t count = results_of(s), others = (s->first - 1) / 2;
    if (a == NULL) {
        return NULL;
    }
    weft_tensor *direct = rows_of(s, line, weft_slice(a, columns, 0, count, 1), count, s->rows);
    if (direct == NULL || others == 0) {
        return direct;
    }
    weft_tensor *last = weft_slice(a, columns, s->second - count, s->second, 1);
    last = last == NULL ? NULL : weft_flip(last, 1, &columns);
    last = rows_of(s, line, last, count, s->rows);
    last = last == NULL ? NULL : weft_slice(last, columns, 1, 1 + others, 1);
    last = last == NULL ? NULL : weft_flip(last, 1, &columns);
    weft_tensor *parts[] = { direct, last == NULL ? NULL : weft_conj(last) };
    return parts[1] == NULL ? NULL : weft_cat(2, parts, columns);
}

static bool describe_line(const weft_transform *t, const weft_layout *a, shared_line *s)
{
    const int64_t most = t->kind == WEFT_FFT_HALF_KIND ? t->n / 2 + 1 : t->n;
    *s = (shared_line){ .of = *t, .given = weft_min_i64(most, a->shape[t->dim]) };
    const bool found = find_sizes(a, t->dim, t->n, &s->first, &s->second);
    s->rows = t->kind == WEFT_FFT_REAL_KIND ? s->first / 2 + 1 : s->first;
    return found;
}

bool weft_fft_is_shared(const weft_transform *t, const weft_layout *a)
{
    shared_line s;
    return describe_line(t, a, &s) && is_cheaper(a, &s);
}

weft_tensor *weft_fft_share(const weft_transform *t, weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    const int dim = t->dim;
    shared_line s;
    const weft_layout *columns = describe_line(t, layout, &s) ? by_columns(layout, &s) : NULL;
    if (columns == NULL) {
        weft_fail(WEFT_ERR_NOMEM, t->function, "no memory for a layout");
        return NULL;
    }
    const int64_t rows = weft_ceil_div(s.given, s.second);
    a = weft_fft_fit(weft_fft_fit(a, dim, s.given), dim, rows * s.second);
    a = a == NULL ? NULL : weft_in_layout(t->function, a, columns);
    a = rows_of(&s, layout, reshaped(a, dim, rows, s.second, false), s.second, rows);
    a = rows_of(&s, layout, transformed(&s, a, false), s.rows, s.second);
    a = transformed(&s, a, true);
    if (t->kind == WEFT_FFT_REAL_KIND) {
        a = with_mirrored(&s, layout, a);
    } else {
        a = a == NULL ? NULL : weft_transpose(a, dim, dim + 1);
    }
    a = a == NULL ? NULL : reshaped(a, dim, weft_layout_of(a)->shape[dim], s.first, true);
    return weft_fft_fit(a, dim, t->kind == WEFT_FFT_REAL_KIND ? t->n / 2 + 1 : t->n);
}
