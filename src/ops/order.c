/* Elements of a tensor in another order. */
#include "ops/moves.h"

/* numbers[0]: bit d for each dimension that is reversed. */
static int describe_flip(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    maps[0] = weft_same_map(from);
    for (int d = 0; d < from->ndim; d++) {
        if (call->attributes.numbers[0] >> d & 1) {
            maps[0].loops[d].kind = WEFT_LOOP_WHOLE;
            maps[0].loops[d].source = (weft_affine_side){ d, from->shape[d] - 1, -1 };
        }
    }
    return 1;
}

WEFT_MOVES(flip, "a[b]->a[b]", false, NULL)

weft_tensor *weft_flip(weft_tensor *a, int num_dims, const int dims[])
{
    static const char function[] = "weft_flip";
    int checked[WEFT_MAX_DIMS];
    a = weft_check_tensor(function, "a", a);
    if (a == NULL || !weft_check_own_dims(function, a, num_dims, dims, checked)) {
        return NULL;
    }
    int64_t mask = 0;
    for (int i = 0; i < num_dims; i++) {
        mask |= (int64_t)(a->layout->shape[checked[i]] > 1) << checked[i];
    }
    return mask == 0 ? weft_same(function, a)
                     : weft_dispatch_move(function, &operation_flip, a,
                                          &(weft_attributes){ .num_numbers = 1, .numbers = { mask } });
}

/* numbers: the dimension, and how far it is moved, 1 .. size - 1. The end comes first. */
static int describe_roll(const weft_call *call, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)call->attributes.numbers[0];
    int64_t shift = call->attributes.numbers[1], rest = from->shape[dim] - shift;
    maps[0] = maps[1] = weft_same_map(from);
    maps[0].loops[dim] = (weft_affine_loop){ WEFT_LOOP_WHOLE, shift, { dim, rest, 1 }, { dim, 0, 1 } };
    maps[1].loops[dim] = (weft_affine_loop){ WEFT_LOOP_WHOLE, rest, { dim, 0, 1 }, { dim, shift, 1 } };
    return 2;
}

WEFT_MOVES(roll, "a[b]->a[b]", false, NULL)

weft_tensor *weft_roll(weft_tensor *a, int64_t shift, int dim)
{
    static const char function[] = "weft_roll";
    a = weft_check_tensor(function, "a", a);
    dim = a == NULL ? -1 : weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = a->layout->shape[dim];
    shift = size == 0 ? 0 : shift % size;
    shift = shift < 0 ? shift + size : shift;
    return shift == 0 ? weft_same(function, a)
                      : weft_dispatch_move(function, &operation_roll, a,
                                           &(weft_attributes){ .num_numbers = 2, .numbers = { dim, shift } });
}

const weft_operation *const weft_order_operations[] = {
    &operation_flip,
    &operation_roll,
    NULL,
};
