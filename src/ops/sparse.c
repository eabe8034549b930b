/* Products of sparse matrices: local regions over the rows of each rank, between which an index list brings the ghosts of a vector, or
 * adds up theirs. */
#include "arrays/sparse.h"

#include <weft/local_map.h>

#include "codelets/sparse.h"
#include "comm/check_spmd.h"
#include "ops/linalg.h"
#include "tensor/local_map.h"
#include "tensor/regions.h"
#include "tensor/state.h"

/* Inputs of regions. `x` and its ghosts are rows of the dense matrix by columns; GHOSTS is left out where no rank has any. The
 * region of the transpose has the dense matrix by rows as X, and no GHOSTS. */
enum { ENDS, NUMBERS, VALUES, X, GHOSTS, MOST_INPUTS };

/* ---- on a rank's shards ----------------------------------------------------------------------------------------- */

static weft_sparse_part part_of(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs;
    return (weft_sparse_part){ .dtype = in[VALUES].dtype,
                               .ends = in[ENDS].data,
                               .numbers = in[NUMBERS].data,
                               .num_rows = in[ENDS].extent[0],
                               .values = in[VALUES].data };
}

/* Adds the rows by columns, of a tensor and its ghosts (NULL: there are none). */
static weft_sparse_part with_columns(weft_sparse_part p, const weft_local_tensor *own, const weft_local_tensor *others)
{
    p.width = own->ndim == 2 ? own->extent[1] : 1;
    p.num_own = own->extent[0];
    p.own = own->data;
    p.num_others = others == NULL ? 0 : others->extent[0];
    p.others = others == NULL ? NULL : others->data;
    return p;
}

static void multiply(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs, *out = call->outputs;
    const weft_sparse_part p = with_columns(part_of(call), &in[X], call->num_inputs > GHOSTS ? &in[GHOSTS] : NULL);
    const int64_t first = out->offset[0] - in[ENDS].offset[0];
    if (out->count > 0) {
        weft_sparse_rows_times(&p, first, first + out->extent[0], out->data);
    }
}

/* Its gradients: of values, x and ghosts. */
static void multiply_gradient(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs, *gradient = &in[call->num_inputs - 1];
    const bool ghosts = call->num_outputs > 2;
    weft_sparse_part p = with_columns(part_of(call), &in[X], ghosts ? &in[GHOSTS] : NULL);
    weft_sparse_inner_products(&p, gradient->data, false, call->outputs[0].data);
    p = with_columns(p, &call->outputs[1], ghosts ? &call->outputs[2] : NULL);
    p.conjugate = true;
    weft_sparse_transpose_times(&p, gradient->data);
}

static void multiply_transposed(const weft_local_call *call)
{
    const weft_local_tensor *out = call->outputs;
    const weft_sparse_part p = with_columns(part_of(call), &out[0], call->num_outputs > 1 ? &out[1] : NULL);
    weft_sparse_transpose_times(&p, call->inputs[X].data);
}

/* Its gradients: of values and x. */
static void multiply_transposed_gradient(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs;
    weft_sparse_part p = with_columns(part_of(call), &in[X + 1], call->num_inputs > X + 2 ? &in[X + 2] : NULL);
    weft_sparse_inner_products(&p, in[X].data, true, call->outputs[0].data);
    p.conjugate = true;
    weft_sparse_rows_times(&p, 0, p.num_rows, call->outputs[1].data);
}

/* X and GHOSTS: columns of the whole matrix. */
static void write_dense(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs, *out = call->outputs;
    const weft_sparse_part p = with_columns(part_of(call), &in[X], call->num_inputs > GHOSTS ? &in[GHOSTS] : NULL);
    const int64_t first = out->offset[0] - in[ENDS].offset[0];
    if (out->count > 0) {
        weft_sparse_write_dense(&p, first, first + out->extent[0], out->shape[1], out->data);
    }
}

static void write_dense_gradient(const weft_local_call *call)
{
    const weft_local_tensor *in = call->inputs;
    const weft_sparse_part p = with_columns(part_of(call), &in[X], call->num_inputs > GHOSTS + 1 ? &in[GHOSTS] : NULL);
    weft_sparse_read_dense(&p, in[call->num_inputs - 1].shape[1], in[call->num_inputs - 1].data, call->outputs[0].data);
}

/* ---- regions ------------------------------------------------------------------------------------------------------ */

/* A product. */
typedef struct product {
    const char *function;
    const weft_sparse_impl *a;
    weft_tensor *values, *x; /* x: NULL for the dense matrix */
    weft_placement of_values[WEFT_MAX_DIMS], of_rows[WEFT_MAX_DIMS], of_columns[WEFT_MAX_DIMS], of_ghosts[WEFT_MAX_DIMS];
    weft_placement of_gradient[WEFT_MAX_DIMS]; /* of values: a sum over the mesh dimensions that share the columns of x */
    int ndim;
    int64_t width;
} product;

/* The placements of rows of a dense matrix whose columns stay as those of x. */
static void place(const product *p, weft_placement cut, weft_placement placements[])
{
    const weft_layout *x = p->x == NULL ? NULL : weft_layout_of(p->x);
    for (int d = 0; d < p->a->mesh->ndim; d++) {
        bool stays = x != NULL && x->placements[d].kind == WEFT_SHARD && x->placements[d].dim == 1 &&
                     !weft_cut_has_runs(x->placements[d]);
        placements[d] = d == p->a->mesh_dim ? cut : stays ? x->placements[d] : weft_replicate();
    }
}

static void place_all(product *p)
{
    const weft_sparse_impl *a = p->a;
    weft_placement of_list[WEFT_MAX_DIMS];
    weft_sparse_place(a, a->value_cut, p->of_values);
    place(p, a->row_cut, p->of_rows);
    place(p, a->column_cut, p->of_columns);
    if (a->ghosts != NULL) {
        weft_index_list_placements(a->ghosts, of_list);
        place(p, of_list[a->mesh_dim], p->of_ghosts);
    }
    for (int d = 0; d < a->mesh->ndim; d++) {
        bool shared = d != a->mesh_dim && p->of_rows[d].kind == WEFT_SHARD;
        p->of_gradient[d] = shared ? weft_partial(WEFT_SUM) : p->of_values[d];
    }
}

/* Whether the gradients of values and of x (without x: those of values) have the rows of the result, as those of a diagonal matrix do: they
 * would be computed by rows, and cannot. */
static bool gradient_has_rows(const product *p)
{
    const weft_sparse_impl *a = p->a;
    const weft_layout *rows = weft_sparse_layout(p->function, a, a->row_cut, 1, &a->rows, WEFT_I64);
    const weft_layout *columns = weft_sparse_layout(p->function, a, a->column_cut, 1, &a->columns, WEFT_I64);
    const weft_layout *values = weft_sparse_layout(p->function, a, a->value_cut, 1, &a->nnz, WEFT_I64);
    return rows == NULL || columns == NULL || values == NULL ||
           (weft_local_same_rows(values, rows) && (p->x == NULL || weft_local_same_rows(columns, rows)));
}

/* Calls a region on the structure, the values and others: functions get whole shards of inputs. False with the error kept. */
static bool run(const product *p, weft_local_function function, weft_local_function gradient, bool by_rows, int num_others,
                weft_tensor *const others[], int num_outputs, const weft_local_output descriptions[], weft_tensor *outputs[])
{
    static const bool whole[MOST_INPUTS] = { true, true, true, true, true };
    const weft_placement *gradients[MOST_INPUTS] = { [VALUES] = p->of_gradient };
    weft_tensor *inputs[MOST_INPUTS] = { [ENDS] = p->a->ends->handle, [NUMBERS] = p->a->numbers->handle, [VALUES] = p->values };
    for (int i = 0; i < num_others; i++) {
        inputs[X + i] = others[i];
    }
    by_rows = by_rows && !gradient_has_rows(p);
    const weft_local_map_options options = { .name = p->function,
                                             .mesh = p->a->mesh->handle,
                                             .gradient = gradient,
                                             .grad_placements = gradients,
                                             .by_rows = by_rows,
                                             .whole_inputs = by_rows ? whole : NULL };
    return weft_local_map(function, X + num_others, inputs, num_outputs, descriptions, &options, outputs) == WEFT_OK;
}

static weft_tensor *multiply_rows(const product *p)
{
    const weft_sparse_impl *a = p->a;
    const int64_t shape[2] = { a->rows, p->width };
    const weft_local_output rows = { weft_layout_of(p->values)->dtype, p->ndim, shape, p->of_rows, false };
    weft_tensor *others[2] = { p->x, a->ghosts == NULL ? NULL : weft_index_list_gather(a->ghosts, p->x) }, *result = NULL;
    bool done = a->ghosts == NULL || others[1] != NULL;
    return done && run(p, multiply, multiply_gradient, true, 1 + (a->ghosts != NULL), others, 1, &rows, &result) ? result : NULL;
}

static weft_tensor *multiply_columns(const product *p)
{
    const weft_sparse_impl *a = p->a;
    const weft_dtype dtype = weft_layout_of(p->values)->dtype;
    const int64_t shape[2] = { a->columns, p->width };
    const int64_t of_ghosts[2] = { a->ghosts == NULL ? 0 : weft_index_list_count(a->ghosts), p->width };
    const weft_local_output sums[2] = { { dtype, p->ndim, shape, p->of_columns, false },
                                        { dtype, p->ndim, of_ghosts, p->of_ghosts, false } };
    weft_tensor *results[2] = { NULL, NULL };
    if (!run(p, multiply_transposed, multiply_transposed_gradient, false, 1, &p->x, 1 + (a->ghosts != NULL), sums, results)) {
        return NULL;
    }
    weft_tensor *others = a->ghosts == NULL ? NULL : weft_index_list_scatter_add(a->ghosts, results[1]);
    return a->ghosts == NULL ? results[0] : others == NULL ? NULL : weft_add(results[0], others);
}

static weft_tensor *write_rows(const product *p)
{
    const weft_sparse_impl *a = p->a;
    const int64_t shape[2] = { a->rows, a->columns };
    const weft_local_output rows = { weft_layout_of(p->values)->dtype, 2, shape, p->of_rows, false };
    weft_tensor *columns = weft_arange(WEFT_I64, 0, a->columns, 1, a->mesh->handle, p->of_columns), *result = NULL;
    weft_tensor *others[2] = { columns, a->ghosts == NULL || columns == NULL ? NULL : weft_index_list_gather(a->ghosts, columns) };
    bool done = columns != NULL && (a->ghosts == NULL || others[1] != NULL);
    return done && run(p, write_dense, write_dense_gradient, true, 1 + (a->ghosts != NULL), others, 1, &rows, &result) ? result : NULL;
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

/* The layout that a region takes a tensor in; NULL with the error kept, also where nothing may be redistributed. */
static const weft_layout *taken(const product *p, const char *name, weft_tensor *tensor, const weft_placement placements[])
{
    const weft_layout *own = weft_layout_of(tensor);
    const weft_layout *to = weft_check_layout(p->function, p->a->mesh, placements, own->ndim, own->shape, own->dtype);
    bool done = to != NULL && (to == own || (weft_plan_check(p->function, own, to) && weft_check_explicit(p->function, name, own, to)));
    return done ? to : NULL;
}

static bool check_mesh(const product *p, const char *name, weft_tensor *tensor)
{
    const weft_layout *layout = weft_layout_of(tensor);
    if (layout->mesh != p->a->mesh) {
        char own[160], other[160];
        weft_fail(WEFT_ERR_MESH, p->function, "%s is on mesh %s and the structure on mesh %s: weft_redistribute() it", name,
                  weft_mesh_format(layout->mesh, own, sizeof(own)), weft_mesh_format(p->a->mesh, other, sizeof(other)));
    }
    return layout->mesh == p->a->mesh;
}

static bool check_values(const product *p)
{
    if (weft_check_tensor(p->function, "values", p->values) == NULL ||
        !weft_check_type(p->function, "values", p->values, WEFT_TYPES_LINALG, "f32, f64, c64 or c128") ||
        !check_mesh(p, "values", p->values)) {
        return false;
    }
    const weft_layout *values = weft_layout_of(p->values);
    bool right = values->ndim == 1 && values->shape[0] == p->a->nnz;
    if (!right) {
        char text[160];
        weft_fail(WEFT_ERR_SHAPE, p->function, "values is %s, expected a vector of %lld, one for each entry",
                  weft_layout_format(values, text, sizeof(text)), (long long)p->a->nnz);
    }
    return right;
}

static bool check_x(const product *p, bool transposed)
{
    const int64_t rows = transposed ? p->a->rows : p->a->columns;
    if (weft_check_tensor(p->function, "x", p->x) == NULL || !check_mesh(p, "x", p->x)) {
        return false;
    }
    const weft_layout *x = weft_layout_of(p->x), *values = weft_layout_of(p->values);
    if (x->ndim < 1 || x->ndim > 2 || x->shape[0] != rows) {
        char text[160];
        weft_fail(WEFT_ERR_SHAPE, p->function, "x is %s, expected [%lld] or [%lld, k], as the matrix has %s",
                  weft_layout_format(x, text, sizeof(text)), (long long)rows, (long long)rows, transposed ? "rows" : "columns");
        return false;
    }
    if (x->dtype != values->dtype) {
        weft_fail(WEFT_ERR_DTYPE, p->function, "x is %s, and values %s", weft_dtype_name(x->dtype), weft_dtype_name(values->dtype));
    }
    return x->dtype == values->dtype;
}

/* After all checks but those of layouts. NULL with the error kept. */
static weft_tensor *call_product(product *p, bool transposed)
{
    place_all(p);
    const weft_layout *values = taken(p, "values", p->values, p->of_values), *x = NULL;
    if (values != NULL && p->x != NULL) {
        p->ndim = weft_layout_of(p->x)->ndim;
        p->width = p->ndim == 2 ? weft_layout_of(p->x)->shape[1] : 1;
        x = taken(p, "x", p->x, transposed ? p->of_rows : p->of_columns);
    }
    if (values == NULL || (p->x != NULL && x == NULL)) {
        weft_check_spmd(&(weft_call_signature){ .function = p->function, .failed = true });
        return NULL;
    }
    if (!weft_composite_open(p->function)) {
        return NULL;
    }
    p->values = values == weft_layout_of(p->values) ? p->values : weft_in_layout(p->function, p->values, values);
    p->x = p->x == NULL || x == weft_layout_of(p->x) ? p->x : weft_in_layout(p->function, p->x, x);
    weft_tensor *result = p->values == NULL || (x != NULL && p->x == NULL) ? NULL
                          : x == NULL                                      ? write_rows(p)
                          : transposed                                     ? multiply_columns(p)
                                                                           : multiply_rows(p);
    return weft_composite_close_keeping(result) ? result : NULL;
}

weft_tensor *weft_sparse_matmul(const weft_sparse *a, weft_tensor *values, weft_tensor *x, bool transposed)
{
    static const char function[] = "weft_sparse_matmul";
    product p = { .function = function, .a = weft_check_sparse(function, a), .values = values, .x = x };
    if (p.a == NULL || !check_values(&p) || !check_x(&p, transposed)) {
        if (weft_may_call()) {
            weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        }
        return NULL;
    }
    return call_product(&p, transposed);
}

weft_tensor *weft_sparse_to_dense(const weft_sparse *a, weft_tensor *values)
{
    static const char function[] = "weft_sparse_to_dense";
    product p = { .function = function, .a = weft_check_sparse(function, a), .values = values };
    if (p.a == NULL || !check_values(&p)) {
        if (weft_may_call()) {
            weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        }
        return NULL;
    }
    return call_product(&p, false);
}
