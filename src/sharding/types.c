#include "sharding/types.h"

typedef enum category { STORED, TRUTH, INTEGER, FLOATING, COMPLEX } category; /* STORED: no arithmetic */

static category category_of(weft_dtype dtype)
{
    return dtype == WEFT_BOOL                              ? TRUTH
           : WEFT_TYPES_INTEGER & WEFT_TYPE_BIT(dtype) ? INTEGER
           : weft_dtype_is_complex(dtype)              ? COMPLEX
           : WEFT_TYPES_STORED & WEFT_TYPE_BIT(dtype)  ? STORED
                                                       : FLOATING;
}

bool weft_dtype_is_floating(weft_dtype dtype)
{
    return category_of(dtype) == FLOATING;
}

bool weft_dtype_has_gradient(weft_dtype dtype)
{
    return category_of(dtype) >= FLOATING;
}

bool weft_dtype_can_hold(weft_dtype to, weft_dtype from)
{
    return category_of(to) >= category_of(from);
}

bool weft_have_common_type(weft_dtype a, weft_dtype b)
{
    const unsigned types = WEFT_TYPE_BIT(a) | WEFT_TYPE_BIT(b);
    return a == b || ((types & WEFT_TYPES_STORED) == 0 && ((types & WEFT_TYPES_UNSIGNED) == 0 || (types & WEFT_TYPES_FLOAT) != 0));
}

weft_dtype weft_promote(weft_dtype a, weft_dtype b)
{
    if (a == b) {
        return a;
    }
    if ((WEFT_TYPE_BIT(a) | WEFT_TYPE_BIT(b)) == (WEFT_TYPE_BIT(WEFT_I8) | WEFT_TYPE_BIT(WEFT_U8))) {
        return WEFT_I16;
    }
    category of_a = category_of(a), of_b = category_of(b);
    if (of_a == COMPLEX || of_b == COMPLEX) {
        bool wide = a == WEFT_F64 || a == WEFT_C128 || b == WEFT_F64 || b == WEFT_C128;
        return wide ? WEFT_C128 : WEFT_C64;
    }
    if (of_a != of_b) {
        return of_a > of_b ? a : b;
    }
    if (of_a == FLOATING && weft_dtype_size(a) == 2 && weft_dtype_size(b) == 2) {
        return WEFT_F32;
    }
    return weft_dtype_size(a) > weft_dtype_size(b) ? a : b;
}

/* The type of a complex tensor without dimensions beside real tensors: floating ones give the size of the parts. */
static weft_dtype complex_beside(weft_dtype scalar, weft_dtype others)
{
    return category_of(others) == FLOATING ? weft_complex_type(others) : scalar;
}

bool weft_are_promoted(int num_inputs, const weft_layout *const inputs[], int refused[2])
{
    int first[2] = { -1, -1 };
    weft_dtype types[2] = { WEFT_BOOL, WEFT_BOOL };
    bool all = true;
    for (int i = 0; i < num_inputs && all; i++) {
        if (inputs[i] == NULL) {
            continue;
        }
        const int which = inputs[i]->ndim > 0;
        all = first[which] < 0 || weft_have_common_type(types[which], inputs[i]->dtype);
        refused[0] = first[which];
        refused[1] = i;
        types[which] = first[which] < 0 ? inputs[i]->dtype : weft_promote(types[which], inputs[i]->dtype);
        first[which] = first[which] < 0 ? i : first[which];
    }
    /* A complex number beside integers is what the result is. */
    if (all && first[0] >= 0 && first[1] >= 0 && category_of(types[0]) > category_of(types[1]) && category_of(types[0]) != COMPLEX) {
        refused[0] = first[1];
        refused[1] = first[0];
        all = weft_have_common_type(types[0], types[1]);
    }
    return all;
}

weft_dtype weft_promoted(int num_inputs, const weft_layout *const inputs[])
{
    weft_dtype types[2] = { WEFT_BOOL, WEFT_BOOL }; /* of inputs without dimensions, and of the others */
    bool any[2] = { false, false };
    for (int i = 0; i < num_inputs; i++) {
        int which = inputs[i]->ndim > 0;
        types[which] = any[which] ? weft_promote(types[which], inputs[i]->dtype) : inputs[i]->dtype;
        any[which] = true;
    }
    if (!any[0] || !any[1]) {
        return types[any[1]];
    }
    if (category_of(types[0]) == COMPLEX && category_of(types[1]) != COMPLEX) {
        return complex_beside(types[0], types[1]);
    }
    return category_of(types[0]) > category_of(types[1]) ? weft_promote(types[0], types[1]) : types[1];
}

weft_dtype weft_output_dtype(weft_output_type kind, int num_inputs, const weft_layout *const inputs[],
                             weft_dtype given)
{
    weft_dtype promoted;
    switch (kind) {
    case WEFT_TYPE_PROMOTED:
        return weft_promoted(num_inputs, inputs);
    case WEFT_TYPE_FLOATING:
        promoted = weft_promoted(num_inputs, inputs);
        return weft_dtype_has_gradient(promoted) ? promoted : WEFT_F32;
    case WEFT_TYPE_SUMMED:
        return weft_dtype_has_gradient(inputs[0]->dtype) ? inputs[0]->dtype : WEFT_I64;
    case WEFT_TYPE_BOOL:
        return WEFT_BOOL;
    case WEFT_TYPE_INDEX:
        return WEFT_I64;
    case WEFT_TYPE_LAST:
        return inputs[num_inputs - 1]->dtype;
    case WEFT_TYPE_GIVEN:
        return given;
    case WEFT_TYPE_REAL:
        return weft_part_type(inputs[0]->dtype);
    case WEFT_TYPE_COMPLEX:
        return weft_complex_type(weft_promoted(num_inputs, inputs));
    case WEFT_TYPE_FIRST:
        break;
    }
    return inputs[0]->dtype;
}
