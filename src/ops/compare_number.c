/* Comparisons with a number. Floating tensors compare with the number as their type has it, integers exactly. */
#include <math.h>

#include "ops/elementwise.h"

#define COMPARISON(name_, types)                                                                             \
    static const weft_operation operation_##name_##_scalar = {                                               \
        .name = #name_ "_scalar",                                                                            \
        .rules = { "A->A" },                                                                                 \
        .gradient = TRUTH,                                                                                   \
        .inputs = { { "a", types, false } },                                                        \
        .outputs[0].type = WEFT_TYPE_BOOL,                                                                   \
        .kernel = WEFT_KERNEL_##name_##_scalar,                                                              \
    };

COMPARISON(eq, WEFT_TYPES_ANY)
COMPARISON(ne, WEFT_TYPES_ANY)
COMPARISON(lt, WEFT_TYPES_ALL)
COMPARISON(le, WEFT_TYPES_ALL)
COMPARISON(gt, WEFT_TYPES_ALL)
COMPARISON(ge, WEFT_TYPES_ALL)

typedef struct comparison {
    const weft_operation *operation;
    weft_exact value;
} comparison;

/* For integers: the kernel takes a value of infinite size as the end of the range. */
static const comparison never = { &operation_lt_scalar, { -INFINITY, 0 } }, always = { &operation_le_scalar, { INFINITY, 0 } };

/* The same comparison of 64-bit integers, with an integer in their range. */
static comparison with_integer(const weft_operation *operation, double value)
{
    const bool below = value < -0x1p63, above = value >= 0x1p63, inside = !below && !above && value == trunc(value);
    if (isnan(value)) {
        return operation == &operation_ne_scalar ? always : never;
    }
    if (operation == &operation_eq_scalar || operation == &operation_ne_scalar) {
        return inside ? (comparison){ operation, { value, 0 } } : operation == &operation_eq_scalar ? never : always;
    }
    const bool is_upper_bound = operation == &operation_lt_scalar || operation == &operation_le_scalar;
    if (below || above) {
        return is_upper_bound == above ? always : never;
    }
    const bool takes_next = operation == &operation_lt_scalar || operation == &operation_ge_scalar;
    return (comparison){ operation, { takes_next ? ceil(value) : floor(value), 0 } };
}

static weft_tensor *compare(const char *function, const weft_operation *operation, weft_tensor *a, weft_scalar number)
{
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    weft_dtype type = weft_layout_of(a)->dtype;
    if (number.dtype == WEFT_C128 && number.imag == 0) {
        number.dtype = WEFT_F64;
    }
    const bool is_whole = !weft_dtype_is_floating(type) && !weft_dtype_is_complex(type);
    comparison found = { operation, { number.real, 0 } };
    if (number.dtype != WEFT_F64 && !weft_take_number(function, "value", is_whole && number.dtype == WEFT_I64 ? WEFT_I64 : type, number, &found.value)) {
        return NULL;
    }
    if (!is_whole) {
        found.value.value = weft_number_of_type(type, found.value.value);
    } else if (number.dtype == WEFT_F64) {
        found = with_integer(operation, number.real);
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = found.operation,
                                       .num_inputs = 1,
                                       .inputs = { a },
                                       .scalars = { found.value.value, [WEFT_SCALAR_RESTS] = found.value.rest } });
}

#define COMPARE(name_)                                                                                       \
    weft_tensor *(weft_##name_##_scalar)(weft_tensor * a, weft_scalar value)                                 \
    {                                                                                                        \
        return compare("weft_" #name_ "_scalar", &operation_##name_##_scalar, a, value);                     \
    }

COMPARE(eq)
COMPARE(ne)
COMPARE(lt)
COMPARE(le)
COMPARE(gt)
COMPARE(ge)

const weft_operation *const weft_number_comparison_operations[] = {
    &operation_eq_scalar, &operation_ne_scalar, &operation_lt_scalar, &operation_le_scalar,
    &operation_gt_scalar, &operation_ge_scalar, NULL,
};
