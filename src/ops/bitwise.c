/* Operations on the bits of integers and truth values. */
#include "ops/elementwise.h"

#define BITS WEFT_GRADIENT_ZERO("integers")
#define INTEGERS_OR_TRUTH (WEFT_TYPES_INTEGER | WEFT_TYPES_BOOL)

BINARY(bitwise_and, INTEGERS_OR_TRUTH, WEFT_TYPE_PROMOTED, NOT_LINEAR, BITS)
BINARY(bitwise_or, INTEGERS_OR_TRUTH, WEFT_TYPE_PROMOTED, NOT_LINEAR, BITS)
BINARY(bitwise_xor, INTEGERS_OR_TRUTH, WEFT_TYPE_PROMOTED, NOT_LINEAR, BITS)
BINARY(bitwise_left_shift, WEFT_TYPES_INTEGER, WEFT_TYPE_PROMOTED, NOT_LINEAR, BITS)
BINARY(bitwise_right_shift, WEFT_TYPES_INTEGER, WEFT_TYPE_PROMOTED, NOT_LINEAR, BITS)

/* The kernel's arithmetic has 64 bits, of which a truth value keeps whether any is set. */
static const weft_operation operation_bitwise_not = {
    .name = "bitwise_not",
    .rules = { "A->A" },
    .gradient = BITS,
    .inputs = { { "a", INTEGERS_OR_TRUTH, false } },
    .kernel = WEFT_KERNEL_bitwise_not,
};

static const weft_operation operation_truth_not = {
    .name = "bitwise_not",
    .rules = { "A->A" },
    .gradient = BITS,
    .inputs = { { "a", WEFT_TYPES_BOOL, false } },
    .kernel = WEFT_KERNEL_logical_not,
};

weft_tensor *weft_bitwise_not(weft_tensor *a)
{
    static const char function[] = "weft_bitwise_not";
    if (weft_check_tensor(function, "a", a) == NULL) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){ .function = function,
                                       .operation = weft_layout_of(a)->dtype == WEFT_BOOL ? &operation_truth_not
                                                                                         : &operation_bitwise_not,
                                       .num_inputs = 1,
                                       .inputs = { a } });
}

const weft_operation *const weft_bitwise_operations[] = {
    &operation_bitwise_and,        &operation_bitwise_or,          &operation_bitwise_xor, &operation_bitwise_not,
    &operation_bitwise_left_shift, &operation_bitwise_right_shift, &operation_truth_not,   NULL,
};
