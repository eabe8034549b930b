/* Concatenation and splitting along a dimension. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/concat_layout.h"

/* ---- joining ------------------------------------------------------------------------------------------- */

/* "tensors[3]" */
static const char *argument_name(int i, char text[32])
{
    snprintf(text, 32, "tensors[%d]", i);
    return text;
}

static bool check_tensors(const char *function, int n, weft_tensor *const tensors[])
{
    if (n < 1 || tensors == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "n is %d%s, expected at least 1", n,
                  tensors == NULL ? " and tensors NULL" : "");
        return false;
    }
    for (int i = 0; i < n; i++) {
        char name[32];
        if (weft_check_tensor(function, argument_name(i, name), tensors[i]) == NULL) {
            return false;
        }
        if (weft_layout_of(tensors[i])->mesh != weft_layout_of(tensors[0])->mesh) {
            weft_fail(WEFT_ERR_MESH, function,
                      "tensors[%d] is on another mesh than tensors[0]: weft_redistribute() it", i);
            return false;
        }
    }
    return true;
}

/* A tensor of shape [0] can be joined to any others, as in PyTorch. */
static bool fits_any(const weft_tensor *tensor)
{
    return weft_layout_of(tensor)->ndim == 1 && weft_layout_of(tensor)->shape[0] == 0;
}

/* The first tensor of another shape; 0: none. */
static int first_with_shape(int n, weft_tensor *const tensors[])
{
    for (int i = 0; i < n; i++) {
        if (!fits_any(tensors[i])) {
            return i;
        }
    }
    return 0;
}

/* Whether all have one shape, but perhaps in dimension `except`; -1: no exception. */
static bool check_shapes(const char *function, int n, weft_tensor *const tensors[], int except)
{
    int reference = except < 0 ? 0 : first_with_shape(n, tensors);
    const weft_layout *first = weft_layout_of(tensors[reference]);
    for (int i = 0; i < n; i++) {
        const weft_layout *other = weft_layout_of(tensors[i]);
        bool fits = other->ndim == first->ndim;
        for (int d = 0; fits && d < first->ndim; d++) {
            fits = d == except || other->shape[d] == first->shape[d];
        }
        if (!fits && !(except >= 0 && fits_any(tensors[i]))) {
            char expected[160], text[160];
            weft_fail(WEFT_ERR_SHAPE, function,
                      "tensors[%d] is %s and tensors[%d] %s, expected the same shape%s", i,
                      weft_layout_format(other, text, sizeof(text)), reference,
                      weft_layout_format(first, expected, sizeof(expected)),
                      except < 0 ? "" : " but for the dimension that grows");
            return false;
        }
    }
    return true;
}

/* PyTorch's result_type(); a type without arithmetic alone. False with the error kept: no memory, or no common type. */
static bool find_type(const char *function, int n, weft_tensor *const tensors[], weft_dtype *type)
{
    const weft_layout **layouts = calloc((size_t)n + 1, sizeof(const weft_layout *));
    if (layouts == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the layouts");
        return false;
    }
    int refused[2] = { 0, 0 };
    bool stored = false;
    for (int i = 0; i < n; i++) {
        layouts[i] = weft_layout_of(tensors[i]);
        stored |= weft_dtype_is_stored(layouts[i]->dtype);
        refused[1] = layouts[i]->dtype != layouts[0]->dtype ? i : refused[1];
    }
    *type = stored ? layouts[0]->dtype : weft_promoted(n, layouts);
    const bool common = stored ? refused[1] == 0 : weft_are_promoted(n, layouts, refused);
    if (!common) {
        weft_fail(WEFT_ERR_DTYPE, function,
                  "tensors[%d] is %s and tensors[%d] %s, which have no common type: weft_to_type() converts one of them", refused[0], weft_dtype_name(layouts[refused[0]]->dtype), refused[1], weft_dtype_name(layouts[refused[1]]->dtype));
    }
    free(layouts);
    return common;
}

/* The shape of the result. False with the error kept. */
static bool joined_shape(const char *function, int n, weft_tensor *const tensors[], int dim, int64_t shape[])
{
    memcpy(shape, weft_layout_of(tensors[0])->shape, WEFT_MAX_DIMS * sizeof(shape[0]));
    for (int i = 1; i < n; i++) {
        if (weft_layout_of(tensors[i])->shape[dim] > INT64_MAX - shape[dim]) {
            weft_fail(WEFT_ERR_SHAPE, function, "the total size of the tensors overflows int64");
            return false;
        }
        shape[dim] += weft_layout_of(tensors[i])->shape[dim];
    }
    return weft_check_shape(function, weft_layout_of(tensors[0])->ndim, shape);
}

/* A tensor for the result; NULL with the error kept. */
static weft_tensor *make_target(const char *function, int n, weft_tensor *const tensors[], int dim,
                                const int64_t shape[])
{
    const weft_layout *first = weft_layout_of(tensors[0]);
    weft_placement placements[WEFT_MAX_DIMS];
    weft_choose_row_placements(&(weft_row_of_tensors){ n, tensors, dim, shape[dim] }, true, placements);
    const weft_layout *layout =
        weft_layout_intern(weft_runtime.layouts, first->mesh, placements, first->ndim, shape, first->dtype);
    if (layout == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
        return NULL;
    }
    return weft_new_tensor(function, layout);
}

/* Joins compatible tensors along an existing dimension. Replaces the list by tensors of the common type,
 * in the innermost scope. */
static weft_tensor *join(const char *function, int n, weft_tensor *tensors[], int dim, weft_dtype type)
{
    int64_t shape[WEFT_MAX_DIMS], start = 0;
    if (!joined_shape(function, n, tensors, dim, shape)) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        tensors[i] = weft_to_type(tensors[i], type);
        if (tensors[i] == NULL) {
            return NULL;
        }
    }
    weft_tensor *target = make_target(function, n, tensors, dim, shape);
    for (int i = 0; i < n && target != NULL; i++) {
        int64_t size = weft_layout_of(tensors[i])->shape[dim];
        if (size > 0 && !weft_put_part(function, target, tensors[i], dim, start)) {
            return NULL;
        }
        start += size;
    }
    return target;
}

/* Keeps the tensors whose shape counts; all of them if none has. Returns their number. */
static int with_shape(int n, weft_tensor *const tensors[], weft_tensor *left[])
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        left[count] = tensors[i];
        count += !fits_any(tensors[i]);
    }
    if (count == 0) {
        memcpy(left, tensors, (size_t)n * sizeof(tensors[0]));
    }
    return count == 0 ? n : count;
}

/* The dimension of concatenation, 0 .. ndim - 1; -1 with the error kept. */
static int check_grown(const char *function, int n, weft_tensor *const tensors[], int dim)
{
    int reference = first_with_shape(n, tensors), ndim = weft_layout_of(tensors[reference])->ndim;
    if (ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, function,
                  "tensors[%d] is a scalar, expected at least one dimension: weft_stack()", reference);
        return -1;
    }
    dim = weft_check_dim(function, "dim", dim, ndim);
    return dim >= 0 && check_shapes(function, n, tensors, dim) ? dim : -1;
}

/* A modifiable list for the bodies of both composites. NULL with the error kept. */
static weft_tensor **own_list(const weft_call *call)
{
    weft_tensor **list = malloc((size_t)call->details->num_tensors * sizeof(weft_tensor *));
    if (list == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for the tensors");
    }
    return list;
}

/* All tensors count for the type, also those of shape [0]. */
static bool expand_cat(const weft_call *call, weft_tensor *outputs[])
{
    int n = call->details->num_tensors;
    weft_tensor *const *tensors = call->details->tensors;
    weft_dtype type;
    weft_tensor **left = own_list(call);
    if (left != NULL && find_type(call->function, n, tensors, &type)) {
        int count = with_shape(n, tensors, left);
        outputs[0] = join(call->function, count, left, (int)call->attributes.numbers[0], type);
    }
    free(left);
    return outputs[0] != NULL;
}

static weft_tensor *stack(const char *function, int n, weft_tensor *const tensors[], int dim,
                          weft_tensor *raised[])
{
    for (int i = 0; i < n; i++) {
        raised[i] = weft_unsqueeze_dim(function, tensors[i], dim);
        if (raised[i] == NULL) {
            return NULL;
        }
    }
    weft_dtype type;
    dim = dim < 0 ? dim + weft_layout_of(raised[0])->ndim : dim;
    return find_type(function, n, tensors, &type) ? join(function, n, raised, dim, type) : NULL;
}

static bool expand_stack(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor **raised = own_list(call);
    if (raised != NULL) {
        outputs[0] = stack(call->function, call->details->num_tensors, call->details->tensors,
                           (int)call->attributes.numbers[0], raised);
    }
    free(raised);
    return outputs[0] != NULL;
}

/* The part of the output's gradient that begins at `start` along a dimension, for one of the tensors. */
static bool give_part(const weft_gradient *of, int input, int dim, int64_t start, int64_t extent)
{
    return !weft_gradient_wanted(of, input) ||
           weft_give_gradient(of, input, weft_slice(weft_gradient_of_output(of, 0), dim, start, start + extent, 1));
}

/* Tensors without a shape (one dimension, no elements) are left out. */
static bool gradient_of_concat(const weft_gradient *of)
{
    int ndim = weft_layout_of(weft_gradient_of_output(of, 0))->ndim, dim = (int)of->call->attributes.numbers[0];
    int64_t start = 0;
    bool done = true;
    for (int i = 0; i < of->call->details->num_tensors && done; i++) {
        const weft_layout *layout = weft_layout_of(of->call->details->tensors[i]);
        if (layout->ndim == ndim) {
            done = give_part(of, i, dim, start, layout->shape[dim]);
            start += layout->shape[dim];
        }
    }
    return done;
}

static bool gradient_of_stack(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    int dim = (int)of->call->attributes.numbers[0];
    bool done = true;
    for (int i = 0; i < of->call->details->num_tensors && done; i++) {
        done = !weft_gradient_wanted(of, i) || weft_give_gradient(of, i, weft_select(gradient, dim, i));
    }
    return done;
}

static const weft_operation operation_concat = {
    .name = "concat",
    .gradient = { .function = gradient_of_concat },
    .inputs = { { "tensors", WEFT_TYPES_MOVED, false } },
    .expand = expand_cat,
};

static const weft_operation operation_stack = {
    .name = "stack",
    .gradient = { .function = gradient_of_stack },
    .inputs = { { "tensors", WEFT_TYPES_MOVED, false } },
    .expand = expand_stack,
};

static weft_tensor *dispatch_list(const char *function, const weft_operation *operation, int n,
                                  weft_tensor *const tensors[], int dim)
{
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = operation,
                                       .attributes = { .num_numbers = 1, .numbers = { dim } },
                                       .details = &(weft_call_details){ .num_tensors = n, .tensors = tensors } });
}

weft_tensor *weft_cat(int n, weft_tensor *const tensors[], int dim)
{
    static const char function[] = "weft_cat";
    dim = check_tensors(function, n, tensors) ? check_grown(function, n, tensors, dim) : -1;
    return dim < 0 ? NULL : dispatch_list(function, &operation_concat, n, tensors, dim);
}

weft_tensor *weft_stack(int n, weft_tensor *const tensors[], int dim)
{
    static const char function[] = "weft_stack";
    bool right = check_tensors(function, n, tensors) && check_shapes(function, n, tensors, -1);
    return right ? dispatch_list(function, &operation_stack, n, tensors, dim) : NULL;
}

/* ---- taking apart -------------------------------------------------------------------------------------- */

/* The tensor, and the dimension to be cut; NULL with the error kept. */
static weft_tensor *check_cut(const char *function, weft_tensor *a, int *dim)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    *dim = weft_check_own_dim(function, "dim", a, *dim);
    return *dim < 0 ? NULL : a;
}

/* Redistributes a tensor before it is cut. Pieces of a sharded dimension are sharded along it as well.
 * Pieces with fewer indices than ranks would lie on the first ranks only: then the whole tensor is sharded
 * along another dimension, once. */
static weft_tensor *ready_to_cut(weft_tensor *a, int n, const int64_t sizes[], int dim)
{
    int64_t parts = weft_layout_parts(weft_layout_of(a), dim);
    bool shards = true;
    for (int i = 0; i < n; i++) {
        shards &= sizes[i] >= parts || sizes[i] == 0;
    }
    weft_placement placements[WEFT_MAX_DIMS];
    weft_choose_row_placements(&(weft_row_of_tensors){ 1, &a, dim, weft_layout_of(a)->shape[dim] }, shards, placements);
    weft_placements_settle(weft_layout_of(a)->mesh, weft_layout_of(a)->shape, placements);
    return weft_redistribute(a, weft_layout_of(a)->mesh->handle, placements);
}

/* Consecutive pieces. */
static bool cut(weft_tensor *a, int n, const int64_t sizes[], int dim, weft_tensor *outputs[])
{
    weft_tensor *moved = ready_to_cut(a, n, sizes, dim);
    int64_t start = 0;
    for (int i = 0; i < n && moved != NULL; i++) {
        outputs[i] = weft_slice(moved, dim, start, start + sizes[i], 1);
        if (outputs[i] == NULL) {
            return false;
        }
        start += sizes[i];
    }
    return moved != NULL;
}

/* numbers[0]: the dimension; details->numbers: the sizes. */
static bool expand_split(const weft_call *call, weft_tensor *outputs[])
{
    return cut(call->inputs[0], call->details->num_numbers, call->details->numbers,
               (int)call->attributes.numbers[0], outputs);
}

/* Zeros, where a Partial tensor may be replicated. The tensor itself may be without data. */
static weft_tensor *zeros_of(weft_tensor *tensor)
{
    const weft_layout *layout = weft_layout_of(tensor);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        bool partial = layout->placements[m].kind == WEFT_PARTIAL;
        placements[m] = partial ? weft_replicate() : layout->placements[m];
    }
    return weft_zeros(layout->dtype, layout->ndim, layout->shape, layout->mesh->handle, placements);
}

/* Pieces without a gradient have zeros. */
static bool gradient_of_split(const weft_gradient *of)
{
    int n = of->call->details->num_numbers;
    weft_tensor **pieces = malloc((size_t)n * sizeof(*pieces));
    bool done = pieces != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, of->call->function, "no memory for the gradients");
    }
    for (int i = 0; i < n && done; i++) {
        weft_tensor *gradient = weft_gradient_of_output(of, i);
        pieces[i] = gradient != NULL ? gradient : zeros_of(of->outputs[i]);
        done = pieces[i] != NULL;
    }
    done = done && weft_give_gradient(of, 0, weft_cat(n, pieces, (int)of->call->attributes.numbers[0]));
    free(pieces);
    return done;
}

static const weft_operation operation_split = {
    .name = "split",
    .gradient = { .function = gradient_of_split },
    .inputs = { { "a", WEFT_TYPES_MOVED, false } },
    .expand = expand_split,
};

static weft_status split(const char *function, weft_tensor *a, int n, const int64_t sizes[], int dim,
                         weft_tensor *outputs[])
{
    const weft_call_details details = { .num_outputs = n, .num_numbers = n, .numbers = sizes };
    bool done = weft_dispatch_all(&(weft_call){ .function = function,
                                                .operation = &operation_split,
                                                .num_inputs = 1,
                                                .inputs = { a },
                                                .attributes = { .num_numbers = 1, .numbers = { dim } },
                                                .details = &details },
                                  outputs);
    if (!done) {
        memset(outputs, 0, (size_t)n * sizeof(outputs[0]));
    }
    return done ? WEFT_OK : weft_latest_status();
}

static bool check_sizes(const char *function, int n, const int64_t sizes[], int64_t whole)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > whole - sum) {
            weft_fail(WEFT_ERR_SHAPE, function,
                      "sizes[%d] is %lld, expected 0 to %lld: a has size %lld there", i, (long long)sizes[i],
                      (long long)(whole - sum), (long long)whole);
            return false;
        }
        sum += sizes[i];
    }
    if (sum != whole) {
        weft_fail(WEFT_ERR_SHAPE, function, "sizes add up to %lld, expected %lld, the size of a there",
                  (long long)sum, (long long)whole);
        return false;
    }
    return true;
}

weft_status weft_split(weft_tensor *a, int n, const int64_t sizes[], int dim, weft_tensor *outputs[])
{
    static const char function[] = "weft_split";
    if (n < 1 || sizes == NULL || outputs == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "n is %d%s%s, expected at least 1", n,
                         sizes == NULL ? ", sizes NULL" : "", outputs == NULL ? ", outputs NULL" : "");
    }
    memset(outputs, 0, (size_t)n * sizeof(outputs[0]));
    a = check_cut(function, a, &dim);
    if (a == NULL || !check_sizes(function, n, sizes, weft_layout_of(a)->shape[dim])) {
        return weft_latest_status();
    }
    return split(function, a, n, sizes, dim, outputs);
}

/* Sizes of torch.chunk()'s pieces; returns their number. */
static int chunk_sizes(int64_t size, int chunks, int64_t sizes[])
{
    int64_t each = weft_ceil_div(size, chunks);
    int count = size == 0 ? chunks : (int)weft_ceil_div(size, each);
    for (int i = 0; i < count; i++) {
        sizes[i] = weft_min_i64(each, size - i * each);
    }
    return count;
}

int weft_chunk(weft_tensor *a, int chunks, int dim, weft_tensor *outputs[])
{
    static const char function[] = "weft_chunk";
    if (chunks < 1 || outputs == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "chunks is %d%s, expected at least 1", chunks,
                  outputs == NULL ? ", outputs NULL" : "");
        return 0;
    }
    memset(outputs, 0, (size_t)chunks * sizeof(outputs[0]));
    a = check_cut(function, a, &dim);
    if (a == NULL) {
        return 0;
    }
    int64_t *sizes = malloc((size_t)chunks * sizeof(int64_t));
    if (sizes == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the sizes");
        return 0;
    }
    int count = chunk_sizes(weft_layout_of(a)->shape[dim], chunks, sizes);
    weft_status status = split(function, a, count, sizes, dim, outputs);
    free(sizes);
    return status == WEFT_OK ? count : 0;
}

const weft_operation *const weft_concat_operations[] = {
    &operation_concat,
    &operation_stack,
    &operation_split,
    NULL,
};
