/* Rotary position embedding. */
#include "codelets/rotary.h"

#include <math.h>

#include "ops/ops.h"

static bool gradient_of_rotary(const weft_gradient *of);

static const weft_operation operation_rotary = {
    .name = "rotary",
    .gradient = WEFT_GRADIENT_BY(gradient_of_rotary, 0),
    .rules = { "At[d]->At[d]" },
    .outputs[0].linear = { .kind = WEFT_LINEAR_JOINTLY, .ops = WEFT_LINEAR_OPS },
    .inputs = { { "a", WEFT_TYPES_FLOAT, false } },
    .kernel = WEFT_KERNEL_rotary,
};

/* The rotation by the negative angles. */
static bool gradient_of_rotary(const weft_gradient *of)
{
    weft_call call = *of->call;
    call.inputs[0] = weft_gradient_of_output(of, 0);
    call.scalars[WEFT_ROTARY_SIGN] = -of->call->scalars[WEFT_ROTARY_SIGN];
    return weft_give_gradient(of, 0, weft_dispatch(&call));
}

/* Positions are whole numbers of double precision. */
static bool accepts(const char *function, const char *name, const weft_layout *a, double theta, int64_t first)
{
    const int64_t most = (int64_t)1 << 52;
    if (a->ndim < 2) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimensions, expected at least 2", name, a->ndim);
    } else if (!(theta > 0) || isinf(theta)) {
        weft_fail(WEFT_ERR_INVALID, function, "theta is %g, expected a positive number", theta);
    } else if (first < 0 || first > most) {
        weft_fail(WEFT_ERR_INVALID, function, "first_position is %lld, expected 0 .. %lld", (long long)first,
                  (long long)most);
    } else if (a->shape[a->ndim - 1] % 2 != 0) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s's last dimension has %lld elements, expected an even number", name,
                  (long long)a->shape[a->ndim - 1]);
    } else {
        return true;
    }
    return false;
}

static weft_tensor *rotate(const char *function, const char *name, weft_tensor *a, double theta, int64_t first, bool inverse)
{
    if (weft_check_tensor(function, name, a) == NULL || !accepts(function, name, weft_layout_of(a), theta, first)) {
        return NULL;
    }
    return weft_dispatch(&(weft_call){
        .function = function,
        .operation = &operation_rotary,
        .num_inputs = 1,
        .inputs = { a },
        .scalars = { [WEFT_ROTARY_THETA] = theta,
                     [WEFT_ROTARY_FIRST] = (double)first,
                     [WEFT_ROTARY_SIGN] = inverse ? -1 : 1 },
    });
}

weft_tensor *weft_rotary(weft_tensor *a, double theta, int64_t first_position)
{
    return rotate("weft_rotary", "a", a, theta, first_position, false);
}

weft_tensor *weft_rotary_backward(weft_tensor *gradient, double theta, int64_t first_position)
{
    return rotate("weft_rotary_backward", "gradient", gradient, theta, first_position, true);
}

const weft_operation *const weft_rotary_operations[] = {
    &operation_rotary,
    NULL,
};
