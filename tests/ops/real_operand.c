#include "real_operand.h"

#include <stdlib.h>

#include "values.h"

weft_dtype any_real_type(void)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    return types[below(6)];
}

operand make_real(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[])
{
    operand x = make_operand(mesh, is_half(type) ? WEFT_F32 : type, ndim, shape, REAL, 0);
    if (is_half(type)) {
        x.tensor = weft_to_type(x.tensor, type);
        for (int64_t i = 0; i < x.count; i++) {
            x.dense[i] = rounded_to(type, x.dense[i]);
        }
    }
    return x;
}

double allowed(weft_dtype type, bool exactly, double roundings)
{
    double unit = type == WEFT_BF16 ? 0x1p15 : type == WEFT_F16 ? 0x1p12 : 1;
    return is_half(type) ? unit * (exactly ? 1 : 24) + roundings : exactly ? roundings : 20 * roundings;
}

void compare(weft_tensor *tensor, weft_dtype type, int ndim, const int64_t shape[], const double *expected,
             double roundings, double magnitude, const char *what)
{
    assert_no_error();
    assert_non_null(tensor);
    assert_int_equal(weft_tensor_dtype(tensor), type);
    weft_dtype wide = is_half(type) ? WEFT_F32 : type;
    check(weft_to_type(tensor, wide), wide, ndim, shape, expected, roundings, magnitude, what);
}

double *array(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}

int any_shape(int64_t shape[])
{
    int ndim = random_shape(&source, 4, 9, shape);
    if (ndim > 0 && below(3) == 0) {
        shape[below(ndim)] = 1 + below(70); /* longer than the lanes of a sum */
    }
    return ndim;
}
