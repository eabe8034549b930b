#include "complex_operand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

number number_of(double re, double im)
{
    return __builtin_complex(re, im);
}

bool is_complex(weft_dtype dtype)
{
    return dtype == WEFT_C64 || dtype == WEFT_C128;
}

weft_dtype any_complex(void)
{
    return below(2) ? WEFT_C64 : WEFT_C128;
}

double epsilon_of(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_C64 ? 0x1p-23 : 0x1p-52;
}

static number read_number(weft_dtype dtype, const void *values, int64_t i)
{
    switch (dtype) {
    case WEFT_C64:
        return ((const float _Complex *)values)[i];
    case WEFT_C128:
        return ((const number *)values)[i];
    case WEFT_F32:
        return ((const float *)values)[i];
    case WEFT_BOOL:
        return ((const unsigned char *)values)[i];
    default:
        return ((const double *)values)[i];
    }
}

static void write_number(weft_dtype dtype, void *values, int64_t i, number value)
{
    switch (dtype) {
    case WEFT_C64:
        ((float _Complex *)values)[i] = (float _Complex)value;
        break;
    case WEFT_C128:
        ((number *)values)[i] = value;
        break;
    case WEFT_F32:
        ((float *)values)[i] = (float)creal(value);
        break;
    default:
        ((double *)values)[i] = creal(value);
        break;
    }
}

/* The addends that all ranks but the first one have. */
static number noise(const complex_operand *x, int64_t element, int64_t part)
{
    double re = (double)((element * 7 + part * 5) % 9 - 4), im = (double)((element * 3 + part * 11) % 7 - 3);
    return number_of(re, is_complex(x->dtype) ? im : 0);
}

static number addend(const complex_operand *x, weft_reduce_op op, int64_t element, int64_t parts, int64_t part)
{
    number value = x->dense[element];
    if (op == WEFT_PROD) {
        return part == 0 ? value : 1;
    }
    if (part > 0) {
        return noise(x, element, part);
    }
    value = op == WEFT_AVG ? value * (double)parts : value;
    for (int64_t p = 1; p < parts; p++) {
        value -= noise(x, element, p);
    }
    return value;
}

static void write_addends(const hosted_shard *s, const void *context)
{
    const complex_operand *x = context;
    int64_t parts = 1, part = 0;
    weft_reduce_op op = WEFT_SUM;
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        if (x->placements[m].kind == WEFT_PARTIAL) {
            op = x->placements[m].op;
            part = part * weft_mesh_size(x->mesh, m) + s->coordinate[m];
            parts *= weft_mesh_size(x->mesh, m);
        }
    }
    for (int64_t i = 0; i < s->count; i++) {
        write_number(x->dtype, s->values, i, addend(x, op, shard_element(s, x->ndim, x->shape, i), parts, part));
    }
}

void realise_complex(complex_operand *x)
{
    x->tensor = make_of_shards(x->dtype, x->ndim, x->shape, x->mesh, x->placements, write_addends, x);
    assert_no_error();
}

complex_operand make_complex(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], bool whole)
{
    complex_operand x = { .mesh = mesh, .dtype = dtype, .ndim = ndim, .count = shape_count(ndim, shape) };
    memcpy(x.shape, shape, (size_t)ndim * sizeof(shape[0]));
    x.dense = malloc(((size_t)x.count + 1) * sizeof(number));
    for (int64_t i = 0; i < x.count; i++) {
        double re = whole ? (double)(below(11) - 5) : (double)(float)((double)below(6001) / 1000.0 - 3.0);
        double im = whole ? (double)(below(11) - 5) : (double)(float)((double)below(6001) / 1000.0 - 3.0);
        x.dense[i] = number_of(re, is_complex(dtype) ? im : 0);
    }
    random_placements(&source, mesh, ndim, true, x.placements);
    random_cut_sizes(&source, mesh, ndim, shape, x.placements);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        weft_placement *p = &x.placements[m];
        bool ordered = p->kind == WEFT_PARTIAL && (p->op == WEFT_MIN || p->op == WEFT_MAX);
        p->op = ordered ? WEFT_SUM : p->op;
    }
    realise_complex(&x);
    return x;
}

void release_complex(complex_operand *x)
{
    free(x->dense);
}

const char *describe_complex(const complex_operand *x)
{
    return describe(x->mesh, x->placements, x->ndim, x->shape);
}

/* Context of the judge. */
typedef struct expectation {
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;
    const number *values;
    double tolerance;
} expectation;

static bool same_part(double got, double expected, double tolerance)
{
    return fabs(got - expected) <= tolerance || (isnan(got) && isnan(expected)) || got == expected;
}

static bool is_near(const expectation *x, number got, int64_t element, char *text, size_t size)
{
    number expected = x->values[element];
    if (same_part(creal(got), creal(expected), x->tolerance) && same_part(cimag(got), cimag(expected), x->tolerance)) {
        return true;
    }
    snprintf(text, size, "element %d is %.9g%+.9gi, expected %.9g%+.9gi (allowed %.3g)", (int)element, creal(got), cimag(got),
             creal(expected), cimag(expected), x->tolerance);
    return false;
}

static bool judge(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const expectation *x = expected;
    bool near = true;
    for (int64_t i = 0; i < found->count && near; i++) {
        near = is_near(x, read_number(x->dtype, found->values, i), shard_element(found, x->ndim, x->shape, i), text, size);
    }
    return near;
}

void check_complex(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[], const number *expected, double roundings,
                   double magnitude, const char *what)
{
    if (tensor == NULL) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    assert_no_error();
    if (weft_tensor_dtype(tensor) != dtype) {
        fail_msg("%s is %s, expected %s", what, weft_dtype_name(weft_tensor_dtype(tensor)), weft_dtype_name(dtype));
    }
    bool fits = weft_tensor_ndim(tensor) == ndim;
    for (int d = 0; d < ndim && fits; d++) {
        fits = weft_tensor_size(tensor, d) == shape[d];
    }
    if (!fits) {
        char text[300];
        fail_msg("%s has another shape: %s", what, weft_tensor_describe(tensor, text, sizeof(text)));
    }
    expectation x = { dtype, ndim, shape, expected, roundings * epsilon_of(dtype) * magnitude };
    weft_tensor *reduced = without_partial(tensor);
    assert_no_error();
    assert_shards(reduced, judge, &x, what);
    int64_t count = shape_count(ndim, shape);
    void *host = malloc((size_t)count * 16 + 16);
    if (weft_to_host(tensor, host, (size_t)count * weft_dtype_size(dtype)) != WEFT_OK) {
        fail_msg("%s: %s", what, weft_last_error());
    }
    char text[300];
    for (int64_t i = 0; i < count; i++) {
        if (!is_near(&x, read_number(dtype, host, i), i, text, sizeof(text))) {
            fail_msg("%s: %s, to the host", what, text);
        }
    }
    free(host);
    checks_made++;
}
