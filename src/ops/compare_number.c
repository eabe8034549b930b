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

/* For integers: the kernel takes a value of infinite size as the end of the range; for unsigned ones, 0 is that. */
static comparison constant(weft_dtype type, bool truth)
{
    return type == WEFT_U64 ? (comparison){ truth ? &operation_ge_scalar : &operation_lt_scalar, { 0, 0 } }
           : truth          ? (comparison){ &operation_le_scalar, { INFINITY, 0 } }
                            : (comparison){ &operation_lt_scalar, { -INFINITY, 0 } };
}

static bool compares_equal(const weft_operation *operation)
{
    return operation == &operation_eq_scalar || operation == &operation_ne_scalar;
}

/* With a number below, or above, all that are compared. */
static comparison beyond(const weft_operation *operation, weft_dtype type, bool above)
{
    const bool is_upper_bound = operation == &operation_lt_scalar || operation == &operation_le_scalar;
    return constant(type, compares_equal(operation) ? operation == &operation_ne_scalar : is_upper_bound == above);
}

/* The same comparison of 64-bit integers, with an integer in their range. */
static comparison with_real(const weft_operation *operation, weft_dtype type, double value)
{
    const bool below = value < (type == WEFT_U64 ? 0 : -0x1p63), above = value >= (type == WEFT_U64 ? 0x1p64 : 0x1p63);
    if (isnan(value) || (compares_equal(operation) && value != trunc(value))) {
        return constant(type, operation == &operation_ne_scalar);
    }
    if (below || above) {
        return beyond(operation, type, above);
    }
    const bool takes_next = operation == &operation_lt_scalar || operation == &operation_ge_scalar;
    const double whole = takes_next ? ceil(value) : floor(value);
    if (whole >= 0x1p64) {
        return beyond(operation, type, true);
    }
    return (comparison){ operation, weft_exact_of(type == WEFT_U64 ? (int64_t)(uint64_t)whole : (int64_t)whole) };
}

static comparison with_whole(const weft_operation *operation, weft_dtype type, weft_scalar number)
{
    const bool high = number.whole < 0 && number.dtype == WEFT_U64, below = number.whole < 0 && number.dtype == WEFT_I64;
    const bool outside = type == WEFT_U64 ? below : high;
    return outside ? beyond(operation, type, high) : (comparison){ operation, weft_exact_of(number.whole) };
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
    if (is_whole && (number.dtype == WEFT_I64 || number.dtype == WEFT_U64)) {
        found = with_whole(operation, type, number);
    } else if (number.dtype != WEFT_F64 && !weft_take_number(function, "value", type, number, &found.value)) {
        return NULL;
    } else if (is_whole) {
        found = with_real(operation, type, number.real);
    } else {
        found.value.value = weft_number_of_type(type, found.value.value);
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
