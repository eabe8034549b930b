/* Elements in another order along dimensions. */
#include "ops/data_movement.h"

/* numbers[0]: bit d: dimension d is reversed; sizes: sizes of these. */
static int describe_flip(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    maps[0] = weft_same_map(from);
    for (int d = 0; d < from->ndim; d++) {
        if (attributes->numbers[0] >> d & 1) {
            maps[0].loops[d].kind = WEFT_LOOP_ACCESS;
            maps[0].loops[d].source = (weft_affine_side){ d, from->shape[d] - 1, -1 };
        }
    }
    return 1;
}

static bool gradient_of_flip(const weft_gradient *of);

WEFT_MOVES(flip, "ab~->a*b", false, NULL, gradient_of_flip)

static bool gradient_of_flip(const weft_gradient *of)
{
    const weft_call *call = of->call;
    return weft_give_gradient(
        of, 0, weft_dispatch_move(call->function, call->operation, weft_gradient_of_output(of, 0), &call->attributes));
}

weft_tensor *weft_flip(weft_tensor *a, int num_dims, const int dims[])
{
    static const char function[] = "weft_flip";
    int checked[WEFT_MAX_DIMS];
    if (weft_check_tensor(function, "a", a) == NULL ||
        !weft_check_own_dims(function, a, num_dims, dims, checked)) {
        return NULL;
    }
    int64_t mask = 0;
    for (int i = 0; i < num_dims && weft_layout_of(a)->ndim > 0; i++) {
        mask |= (int64_t)(weft_layout_of(a)->shape[checked[i]] > 1) << checked[i];
    }
    weft_attributes attributes = { .num_numbers = 1, .numbers = { mask } };
    for (int d = 0; d < weft_layout_of(a)->ndim; d++) {
        if (mask >> d & 1) {
            attributes.sizes[attributes.num_sizes++] = weft_layout_of(a)->shape[d];
        }
    }
    return mask == 0 ? weft_same(function, a) : weft_dispatch_move(function, &operation_flip, a, &attributes);
}

/* numbers: the dimension, and the shift, 1 .. size - 1; sizes[0]: its size. Two maps read the input; the
 * one of its end is first. */
static int describe_roll(const weft_attributes *attributes, const weft_layout *from, weft_affine maps[])
{
    int dim = (int)attributes->numbers[0];
    int64_t shift = attributes->numbers[1], rest = from->shape[dim] - shift;
    maps[0] = maps[1] = weft_same_map(from);
    maps[0].loops[dim] = (weft_affine_loop){ WEFT_LOOP_ACCESS, shift, { dim, rest, 1 }, { dim, 0, 1 } };
    maps[1].loops[dim] = (weft_affine_loop){ WEFT_LOOP_ACCESS, rest, { dim, 0, 1 }, { dim, shift, 1 } };
    maps[1].input = 1;
    return 2;
}

WEFT_MOVE_FUNCTIONS(roll)

/* Both inputs are a: the first one gets all of it. */
static bool gradient_of_roll(const weft_gradient *of)
{
    const int64_t *numbers = of->call->attributes.numbers;
    return !weft_gradient_wanted(of, 0) ||
           weft_give_gradient(of, 0, weft_roll(weft_gradient_of_output(of, 0), -numbers[1], (int)numbers[0]));
}

static const weft_operation operation_roll = {
    .name = "roll",
    .gradient = { .function = gradient_of_roll },
    .write_rule = write_roll_rule,
    .rule_like = "ab~,ab~->a*b",
    .window = window_of_roll,
    .describe = describe_roll,
    .outputs[0].linear = WEFT_PASSES_ALL,
    .inputs = { { "a", WEFT_TYPES_MOVED, false }, { "a", WEFT_TYPES_MOVED, false } },
    .places = true,
    .lower = lower_roll,
};

weft_tensor *weft_roll(weft_tensor *a, int64_t shift, int dim)
{
    static const char function[] = "weft_roll";
    dim = weft_check_tensor(function, "a", a) == NULL ? -1 : weft_check_own_dim(function, "dim", a, dim);
    if (dim < 0) {
        return NULL;
    }
    int64_t size = weft_layout_of(a)->shape[dim];
    shift = size == 0 ? 0 : shift % size;
    shift = shift < 0 ? shift + size : shift;
    if (shift == 0) {
        return weft_same(function, a);
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_roll,
        .num_inputs = 2,
        .inputs = { a, a },
        .attributes = { .num_sizes = 1, .sizes = { size }, .num_numbers = 2, .numbers = { dim, shift } } });
}

const weft_operation *const weft_flip_roll_operations[] = {
    &operation_flip,
    &operation_roll,
    NULL,
};
