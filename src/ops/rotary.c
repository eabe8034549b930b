/* Rotary position embedding. */
#include "codelets/rotary.h"

#include <math.h>

#include "ops/ops.h"

static bool gradient_of_rotary(const weft_gradient *of);

/* ---- positions in several runs ------------------------------------------------------------------------------ */

/* The kernel's rows have consecutive positions. */
static bool has_runs(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    bool has = false;
    for (int m = 0; m < a->mesh->ndim && a->ndim >= 2; m++) {
        has |= weft_layout_shards(a, m, a->ndim - 2) && weft_cut_has_runs(a->placements[m]);
    }
    int64_t count = 0;
    return has && weft_count_checked(a->ndim, a->shape, &count) && count > 0;
}

/* [t, d / 2] angles in double precision, cut as the positions of `a` are. */
static weft_tensor *angles_of(const weft_call *call, const weft_layout *a)
{
    int64_t half = a->shape[a->ndim - 1] / 2;
    double first = call->scalars[WEFT_ROTARY_FIRST], theta = call->scalars[WEFT_ROTARY_THETA];
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < a->mesh->ndim; m++) {
        placements[m] = weft_layout_shards(a, m, a->ndim - 2) ? a->placements[m] : weft_replicate();
        placements[m].dim = 0;
    }
    weft_mesh *mesh = a->mesh->handle;
    weft_tensor *positions = weft_arange(WEFT_F64, first, first + (double)a->shape[a->ndim - 2], 1, mesh, placements);
    weft_tensor *pairs = weft_arange(WEFT_F64, 0, (double)half, 1, mesh, NULL);
    return positions == NULL || pairs == NULL
               ? NULL
               : weft_mul(weft_unsqueeze(positions, 1), weft_exp(weft_scale(pairs, -log(theta) / (double)half)));
}

static bool expand_rotary(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    weft_dtype wide = weft_wide_type(layout->dtype);
    int last = layout->ndim - 1;
    int64_t half = layout->shape[last] / 2;
    weft_tensor *angles = angles_of(call, layout), *a = weft_to_type(call->inputs[0], wide);
    if (angles == NULL || a == NULL) {
        return false;
    }
    weft_tensor *cosine = weft_to_type(weft_cos(angles), wide);
    weft_tensor *sine = weft_to_type(weft_scale(weft_sin(angles), call->scalars[WEFT_ROTARY_SIGN]), wide);
    weft_tensor *x = weft_slice(a, last, 0, half, 1), *y = weft_slice(a, last, half, 2 * half, 1);
    weft_tensor *halves[] = { weft_sub(weft_mul(x, cosine), weft_mul(y, sine)), weft_add(weft_mul(y, cosine), weft_mul(x, sine)) };
    bool done = halves[0] != NULL && halves[1] != NULL;
    outputs[0] = done ? weft_to_type(weft_cat(2, halves, last), layout->dtype) : NULL;
    return outputs[0] != NULL;
}

/* ---- the operation ------------------------------------------------------------------------------------------ */

static const weft_operation operation_rotary = {
    .name = "rotary",
    .expand = expand_rotary,
    .expands = has_runs,
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
