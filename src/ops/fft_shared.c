/* Transforms of long lines that ranks share: the four-step algorithm of D. H. Bailey, "FFTs in external or hierarchical memory", The
 * Journal of Supercomputing 4 (1990). A line of n = n1 n2 elements is a matrix, of which element j = j1 n2 + j2 is at [j1][j2]:
 *
 *     transforms over j1, a rank having some j2;  factors e^(-2 pi i j2 k1 / n);  transforms over j2, a rank having some k1
 *
 * give element k1 + n1 k2. Ranks exchange all elements before each of the two transforms, and the result stays where the second one
 * has made it: a rank has its k1 of each n1 elements, a cut with period n1. The next transform takes n1 for its own n2, and makes one
 * exchange.
 *
 * A real line's first transforms are real, and only the rows k1 <= n1 / 2 are exchanged and transformed. Element k1 + n1 k2 with
 * k1 > n1 / 2 is the conjugate of n1 - k1 + n1 (n2 - 1 - k2).
 *
 * To a real line everything happens backwards, with n1 and n2 exchanged: it is the real part of the transform of the spectrum's first half,
 * counted twice. In it an element may be replaced by the conjugate of its mirrored one: so columns j2 <= n2 / 2 have all of them, and
 * the second transforms have real results. */
#include "ops/fft.h"

#include <math.h>
#include <string.h>

#include "codelets/complex.h"
#include "runtime/runtime.h"

typedef struct shared_line {
    weft_transform of;
    int64_t first, second; /* n1, n2 */
    int64_t kept;          /* of real lines: rows k1, or columns j2, that the exchanged matrix has; else n1, n2 */
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

static bool is_half(const shared_line *s)
{
    return s->of.kind == WEFT_FFT_HALF_KIND;
}

/* Rows of n1 elements that the result has. */
static int64_t results_of(const shared_line *s)
{
    return s->of.kind == WEFT_FFT_REAL_KIND ? weft_ceil_div(s->of.n / 2 + 1, s->first) : s->second;
}

/* Rows of n2 elements that are transformed. */
static int64_t given_rows(const shared_line *s)
{
    return weft_ceil_div(s->given, s->second);
}

/* Sizes of the matrix that is exchanged between the transforms: [rows][columns], of which ranks have some rows. */
static int64_t middle_rows(const shared_line *s)
{
    return is_half(s) ? s->first : s->kept;
}

static int64_t middle_columns(const shared_line *s)
{
    return is_half(s) ? s->kept : s->second;
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

/* The layout of the line, cut with a period: of its matrix's columns. A spectrum's half in blocks: of its rows. */
static const weft_layout *by_parts(const weft_layout *a, const shared_line *s)
{
    const int dim = s->of.dim;
    int64_t shape[WEFT_MAX_DIMS], rows = given_rows(s);
    weft_placement placements[WEFT_MAX_DIMS];
    memcpy(shape, a->shape, sizeof(shape));
    shape[dim] = rows * s->second;
    place(a, dim, dim, is_half(s) ? 0 : s->second, false, placements);
    for (int i = 0; i < a->mesh->ndim && is_half(s); i++) {
        const int m = a->order[i];
        if (weft_layout_shards(a, m, dim)) {
            rows = weft_ceil_div(rows, a->mesh->shape[m]);
            placements[m].cut = WEFT_CUT_CYCLIC;
            placements[m].block = rows * s->second;
        }
    }
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

/* Transforms reach a fraction of the operations per second of matrix products. A real line counts as half a complex one. */
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
static double cost_of_parts(const weft_layout *a, const shared_line *s)
{
    const weft_layout *to = by_parts(a, s);
    return to == NULL ? INFINITY
                      : cost_of_move(weft_layout_intern(weft_runtime.layouts, a->mesh, a->placements, a->ndim, to->shape, a->dtype), to);
}

/* With its own copies and tasks. */
static double cost_of_shared(const weft_layout *a, const shared_line *s, double lines)
{
    enum { COPIES = 4, TASKS = 10 };
    const bool real = s->of.kind == WEFT_FFT_REAL_KIND;
    const double share = lines / (double)weft_layout_parts(a, s->of.dim);
    const double elements = share * (double)middle_rows(s) * (double)middle_columns(s);
    const double bytes = COPIES * elements * (double)weft_dtype_size(weft_complex_type(a->dtype));
    const double halves = real           ? 2 * cost_of_exchange(a, s->of.dim, s->kept, results_of(s))
                          : is_half(s) ? 2 * cost_of_exchange(a, s->of.dim, s->kept, given_rows(s))
                                         : 0;
    return cost_of_parts(a, s) + cost_of_exchange(a, s->of.dim, middle_rows(s), middle_columns(s)) + halves +
           cost_of_lines(elements / (double)s->of.n, s->of.n) + bytes / weft_runtime.planned.copy_bytes_per_us +
           (halves > 0 ? 2 * TASKS : TASKS) * weft_runtime.planned.task_us;
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

/* One of the two transforms, along the dimension after s->of.dim. The second one of a spectrum's half has the mirrored half's part. */
static weft_tensor *transformed(const shared_line *s, weft_tensor *rows, bool last)
{
    static const weft_fft_kind kinds[][2] = { [WEFT_FFT_FORWARD_KIND] = { WEFT_FFT_FORWARD_KIND, WEFT_FFT_FORWARD_KIND },
                                              [WEFT_FFT_INVERSE_KIND] = { WEFT_FFT_INVERSE_KIND, WEFT_FFT_INVERSE_KIND },
                                              [WEFT_FFT_REAL_KIND] = { WEFT_FFT_REAL_KIND, WEFT_FFT_FORWARD_KIND },
                                              [WEFT_FFT_HALF_KIND] = { WEFT_FFT_INVERSE_KIND, WEFT_FFT_HALF_KIND } };
    weft_transform own = { .function = s->of.function,
                           .kind = kinds[s->of.kind][last],
                           .dim = s->of.dim + 1,
                           .n = last ? s->second : s->first,
                           .scale = last ? s->of.scale : 1,
                           .weighted = last && is_half(s),
                           .line = s->of.n,
                           .size = last ? s->second : middle_rows(s),
                           .inherited = last ? WEFT_ALL_SCALARS : 0 };
    own.step = last ? (s->of.kind == WEFT_FFT_REAL_KIND && s->of.weighted ? WEFT_FFT_DOUBLES_RESULTS : 0)
                    : WEFT_FFT_TURNS | (is_half(s) && !s->of.weighted ? WEFT_FFT_DOUBLES_VALUES : 0);
    return rows == NULL ? NULL : weft_transform_dim(&own, rows);
}

/* Elements first .. end - 1 of a dimension; backwards. NULL for NULL. */
static weft_tensor *sliced(weft_tensor *a, int dim, int64_t first, int64_t end)
{
    return a == NULL ? NULL : weft_slice(a, dim, first, end, 1);
}

static weft_tensor *flipped(weft_tensor *a, int dim)
{
    return a == NULL ? NULL : weft_flip(a, 1, &dim);
}

/* With zeros. NULL for NULL. */
static weft_tensor *padded(weft_tensor *a, int dim, int64_t zeros_before, int64_t zeros_after)
{
    int64_t before[WEFT_MAX_DIMS] = { 0 }, after[WEFT_MAX_DIMS] = { 0 };
    before[dim] = zeros_before;
    after[dim] = zeros_after;
    return a == NULL ? NULL : weft_pad(a, WEFT_PAD_CONSTANT, 0, weft_layout_of(a)->ndim, before, after);
}

/* The elements [..., rows of the result, n1, ...] of a real line's transform, from those with k1 <= n1 / 2, [..., k1, k2, ...]: exchanged,
 * then put together by each rank. */
static weft_tensor *with_mirrored(const shared_line *s, const weft_layout *line, weft_tensor *a)
{
    const int columns = s->of.dim + 1;
    const int64_t count = results_of(s), others = (s->first - 1) / 2;
    weft_tensor *direct = rows_of(s, line, sliced(a, columns, 0, count), count, s->kept);
    if (direct == NULL || others == 0) {
        return direct;
    }
    weft_tensor *last = flipped(sliced(a, columns, s->second - count, s->second), columns);
    last = flipped(sliced(rows_of(s, line, last, count, s->kept), columns, 1, 1 + others), columns);
    weft_tensor *parts[] = { direct, last == NULL ? NULL : weft_conj(last) };
    return parts[1] == NULL ? NULL : weft_cat(2, parts, columns);
}

/* Backwards: columns j2 <= n2 / 2 of a spectrum's half, [..., j2, j1, ...], from its rows [..., rows, n2, ...]. */
static weft_tensor *from_mirrored(const shared_line *s, const weft_layout *line, weft_tensor *a)
{
    const int columns = s->of.dim + 1;
    const int64_t count = given_rows(s), others = (s->second - 1) / 2;
    weft_tensor *direct = rows_of(s, line, sliced(a, columns, 0, s->kept), s->kept, count);
    direct = padded(direct, columns, 0, s->first - count);
    if (direct == NULL || others == 0) {
        return direct;
    }
    weft_tensor *last = flipped(sliced(a, columns, s->kept, s->second), columns);
    last = padded(last == NULL ? NULL : weft_conj(last), columns, 1, s->kept - 1 - others);
    last = padded(flipped(rows_of(s, line, last, s->kept, count), columns), columns, s->first - count, 0);
    return last == NULL ? NULL : weft_add(direct, last);
}

static bool describe_line(const weft_transform *t, const weft_layout *a, shared_line *s)
{
    const int64_t most = t->kind == WEFT_FFT_HALF_KIND ? t->n / 2 + 1 : t->n;
    *s = (shared_line){ .of = *t, .given = weft_min_i64(most, a->shape[t->dim]) };
    const bool found = find_sizes(a, t->dim, t->n, &s->first, &s->second);
    s->kept = t->kind == WEFT_FFT_REAL_KIND ? s->first / 2 + 1 : is_half(s) ? s->second / 2 + 1 : s->first;
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
    const weft_layout *parts = describe_line(t, layout, &s) ? by_parts(layout, &s) : NULL;
    if (parts == NULL) {
        weft_fail(WEFT_ERR_NOMEM, t->function, "no memory for a layout");
        return NULL;
    }
    const int64_t rows = given_rows(&s);
    a = weft_fft_fit(weft_fft_fit(a, dim, s.given), dim, rows * s.second);
    a = a == NULL ? NULL : weft_in_layout(t->function, a, parts);
    a = reshaped(a, dim, rows, s.second, false);
    a = is_half(&s) ? from_mirrored(&s, layout, a) : rows_of(&s, layout, a, s.second, rows);
    a = rows_of(&s, layout, transformed(&s, a, false), middle_rows(&s), middle_columns(&s));
    a = transformed(&s, a, true);
    if (t->kind == WEFT_FFT_REAL_KIND) {
        a = with_mirrored(&s, layout, a);
    } else {
        a = a == NULL ? NULL : weft_transpose(a, dim, dim + 1);
    }
    a = a == NULL ? NULL : reshaped(a, dim, weft_layout_of(a)->shape[dim], s.first, true);
    return weft_fft_fit(a, dim, t->kind == WEFT_FFT_REAL_KIND ? t->n / 2 + 1 : t->n);
}
