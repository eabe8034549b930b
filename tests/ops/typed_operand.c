#include "typed_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

weft_dtype any_type(void)
{
    return (weft_dtype)below(REAL_TYPES);
}

bool is_floating(weft_dtype dtype)
{
    return dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16;
}

static weft_dtype type_of_operand(weft_dtype dtype)
{
    return dtype == WEFT_BF16 || dtype == WEFT_F16  ? WEFT_F32
           : dtype == WEFT_U8 || dtype == WEFT_BOOL ? WEFT_I32
                                                    : dtype;
}

void realise_typed(typed *t)
{
    realise(&t->base);
    t->tensor = weft_to_type(t->base.tensor, t->dtype);
    assert_no_error();
}

typed make_typed(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[])
{
    typed t = { .dtype = dtype };
    bool without_sign = dtype == WEFT_U8 || dtype == WEFT_BOOL;
    for (;;) {
        t.base = make_operand(mesh, type_of_operand(dtype), ndim, shape, without_sign ? INDEX : WHOLE,
                              dtype == WEFT_BOOL ? 2 : 11);
        if (t.base.exact) {
            break;
        }
        release(&t.base);
    }
    t.tensor = weft_to_type(t.base.tensor, dtype);
    return t;
}

void sprinkle(typed *t, bool infinities)
{
    if (!is_floating(t->dtype) || below(2)) {
        return;
    }
    for (int64_t i = 0; i < t->base.count; i++) {
        int64_t which = below(10);
        if (which == 0) {
            t->base.dense[i] = NAN;
        } else if (which < 3 && infinities) {
            t->base.dense[i] = which == 1 ? INFINITY : -INFINITY;
        }
    }
    realise_typed(t);
}

weft_tensor *whole_somehow(weft_tensor *tensor, weft_mesh *mesh, int ndim)
{
    weft_placement placements[3];
    random_placements(&source, mesh, ndim, false, placements);
    return weft_redistribute(tensor, mesh, placements);
}

void check_typed(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[],
                 const double *expected, const char *what)
{
    assert_no_error();
    assert_int_equal(weft_tensor_dtype(tensor), dtype);
    check(weft_to_type(tensor, WEFT_F64), WEFT_F64, ndim, shape, expected, 0, 0, what);
}

typed make_any_of(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[])
{
    bool counts = dtype == WEFT_U8 || dtype == WEFT_BOOL;
    typed x = { .dtype = dtype };
    x.base = make_operand(mesh, type_of_operand(dtype), ndim, shape, counts ? INDEX : WHOLE,
                          dtype == WEFT_BOOL ? 2 : 200);
    x.tensor = weft_to_type(x.base.tensor, dtype);
    assert_no_error();
    return x;
}

typed make_any(weft_mesh *mesh, int ndim, const int64_t shape[])
{
    return make_any_of(mesh, any_type(), ndim, shape);
}

void check_any(weft_tensor *result, const typed *x, int ndim, const int64_t shape[], const double *expected,
               const char *what)
{
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), x->dtype);
    char text[600];
    snprintf(text, sizeof(text), "%s of %s %s", what, weft_dtype_name(x->dtype), describe_operand(&x->base));
    check(weft_to_type(result, x->base.dtype), x->base.dtype, ndim, shape, expected, x->base.exact ? 0 : 32,
          10, text);
}

/* ---- references ---------------------------------------------------------------------------------------- */

int64_t flat(int ndim, const int64_t shape[], const int64_t index[])
{
    int64_t place = 0;
    for (int d = 0; d < ndim; d++) {
        place = place * shape[d] + index[d];
    }
    return place;
}

void check_moved(weft_tensor *result, const typed *x, int ndim, const int64_t shape[],
                 source_function source_of, const void *how, const char *what)
{
    int64_t count = shape_count(ndim, shape);
    double *expected = malloc(((size_t)count + 1) * sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        int64_t index[WEFT_MAX_DIMS] = { 0 }, rest = i;
        for (int d = ndim - 1; d >= 0; d--) {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        int64_t place = source_of(x, index, how);
        expected[i] = place < 0 ? 0 : x->base.dense[place];
    }
    check_any(result, x, ndim, shape, expected, what);
    free(expected);
}

int shape_of_at_least(int least, int most, int64_t shape[])
{
    int ndim = least + (int)below(most - least + 1);
    for (int d = 0; d < ndim; d++) {
        shape[d] = ndim < 4 ? any_size() : below(7);
    }
    return ndim;
}

int spelled(int dim, int ndim)
{
    return below(2) ? dim : dim - ndim;
}

static int64_t same_source(const typed *x, const int64_t index[], const void *how)
{
    const int64_t *shape = how;
    return flat((int)shape[WEFT_MAX_DIMS], shape, index) + 0 * x->base.ndim;
}

void check_same(weft_tensor *result, const typed *x, int ndim, const int64_t shape[], const char *what)
{
    int64_t how[WEFT_MAX_DIMS + 1];
    memcpy(how, shape, (size_t)ndim * sizeof(shape[0]));
    how[WEFT_MAX_DIMS] = ndim;
    check_moved(result, x, ndim, shape, same_source, how, what);
}

void check_unchanged(weft_tensor *result, const typed *x)
{
    bool whole = true;
    for (int m = 0; m < weft_mesh_ndim(weft_tensor_mesh(result)); m++) {
        whole &= weft_tensor_placements(result)[m].kind != WEFT_PARTIAL;
    }
    if (whole) {
        weft_fill_inplace(result, 1);
        check_same(x->tensor, x, x->base.ndim, x->base.shape, "input after a change of the output");
    }
}
