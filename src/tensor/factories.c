/* Factories: empty tensors and constants. */
#include <math.h>
#include <string.h>

#include <weft/autograd.h>

#include "codelets/constant.h"
#include "comm/check_spmd.h"
#include "sharding/types.h"
#include "tensor/actions.h"
#include "tensor/run.h"

bool weft_check_given_type(const char *function, weft_dtype given)
{
    weft_dtype dtype = weft_plain_type(given);
    if (!weft_check_dtype(function, dtype)) {
        return false;
    }
    if (dtype != given && !weft_dtype_has_gradient(dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "dtype is %s with WEFT_WITH_GRAD, expected a floating or complex type", weft_dtype_name(dtype));
        return false;
    }
    return true;
}

weft_tensor *weft_made(weft_dtype given, weft_tensor *tensor)
{
    bool is_leaf = tensor != NULL && given != weft_plain_type(given);
    return is_leaf && weft_set_requires_grad(tensor, true) != WEFT_OK ? NULL : tensor;
}

const weft_layout *weft_factory_layout(const weft_factory *r)
{
    const weft_mesh_impl *mesh = weft_check_mesh(r->function, r->mesh);
    if (mesh == NULL || !weft_check_given_type(r->function, r->dtype) ||
        !weft_check_shape(r->function, r->ndim, r->shape)) {
        return NULL;
    }
    const weft_layout *layout =
        weft_check_layout(r->function, mesh, r->placements, r->ndim, r->shape, weft_plain_type(r->dtype));
    if (layout != NULL && layout->has_partial && !r->partial_allowed) {
        weft_fail(WEFT_ERR_LAYOUT, r->function,
                  "placements has a Partial: a new tensor is Shard or Replicate");
        return NULL;
    }
    return layout;
}

static bool has_number(weft_dtype dtype, double value)
{
    int64_t least;
    uint64_t most;
    if (!weft_whole_range(dtype, &least, &most)) {
        return true;
    }
    const bool wide = dtype == WEFT_I64 || dtype == WEFT_BOOL;
    const double beyond = wide ? 0x1p63 : (double)most + 1, first = wide ? -0x1p63 : least < 0 ? (double)least : 1 - beyond;
    return value == trunc(value) && value >= fmax(first, -0x1p63) && value < beyond;
}

bool weft_check_number(const char *function, const char *argument, weft_dtype dtype, double value)
{
    const bool has = has_number(dtype, value);
    if (!has) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %.17g, expected a whole number in the range of %s", argument, value,
                  weft_dtype_name(dtype));
    }
    return has;
}

/* The nearest double below 2^63 at most, so that it is an int64_t, and what is left. */
weft_exact weft_exact_of(int64_t number)
{
    const double value = fmin((double)number, 0x1p63 - 1024);
    return (weft_exact){ value, (double)(number - (int64_t)value) };
}

/* The nearest double; of a type with fewer digits the one that it rounds as the whole number itself: of the two beside, the odd one. */
static double nearest(weft_dtype dtype, int64_t number)
{
    const double value = (double)number;
    const int64_t back = fabs(value) < 0x1p63 ? (int64_t)value : INT64_MAX;
    if (dtype == WEFT_F64 || dtype == WEFT_C128 || (back == number && fabs(value) < 0x1p63)) {
        return value;
    }
    const bool away = (value > 0) == (back > number) || fabs(value) >= 0x1p63;
    const double shorter = away ? nextafter(value, 0) : value;
    uint64_t bits;
    memcpy(&bits, &shorter, sizeof(bits));
    bits |= 1;
    double odd;
    memcpy(&odd, &bits, sizeof(odd));
    return odd;
}

/* A number of 2^63 or more. */
static bool take_high_number(const char *function, const char *argument, weft_dtype dtype, uint64_t number, weft_exact *taken)
{
    int64_t least;
    uint64_t most;
    if (!weft_whole_range(dtype, &least, &most)) {
        const bool wide = dtype == WEFT_F64 || dtype == WEFT_C128;
        *taken = (weft_exact){ wide ? (double)number : weft_unsigned_before_rounding(number), 0 };
        return true;
    }
    *taken = dtype == WEFT_BOOL ? (weft_exact){ 1, 0 } : weft_exact_of((int64_t)number);
    if (dtype != WEFT_BOOL && dtype != WEFT_U64) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %llu, expected a number in the range of %s", argument, (unsigned long long)number,
                  weft_dtype_name(dtype));
        return false;
    }
    return true;
}

bool weft_take_number(const char *function, const char *argument, weft_dtype dtype, weft_scalar number, weft_exact *taken)
{
    if (number.dtype == WEFT_C128 && weft_dtype_is_complex(dtype)) {
        *taken = (weft_exact){ number.real, number.imag };
        return true;
    }
    if (number.dtype == WEFT_C128 && number.imag != 0) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %g + %gi, expected a real number beside %s", argument, number.real, number.imag,
                  weft_dtype_name(dtype));
        return false;
    }
    if (number.dtype == WEFT_F64 || number.dtype == WEFT_C128) {
        const bool high = dtype == WEFT_U64 && number.real >= 0x1p63 && number.real < 0x1p64;
        *taken = high ? weft_exact_of((int64_t)(uint64_t)number.real) : (weft_exact){ number.real, 0 };
        return weft_check_number(function, argument, dtype, number.real);
    }
    if (number.dtype == WEFT_U64 && number.whole < 0) {
        return take_high_number(function, argument, dtype, (uint64_t)number.whole, taken);
    }
    if (number.dtype != WEFT_I64 && number.dtype != WEFT_U64) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is a weft_scalar of type %d, expected WEFT_F64, WEFT_C128, WEFT_I64 or WEFT_U64",
                  argument, (int)number.dtype);
        return false;
    }
    int64_t least;
    uint64_t most;
    *taken = weft_exact_of(number.whole);
    if (!weft_whole_range(dtype, &least, &most)) {
        *taken = (weft_exact){ nearest(dtype, number.whole), 0 };
    }
    const bool has = dtype == WEFT_I64 || dtype == WEFT_U64 || has_number(dtype, taken->value);
    if (!has) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s is %lld, expected a number in the range of %s", argument, (long long)number.whole,
                  weft_dtype_name(dtype));
    }
    return has;
}

bool weft_take_double(const char *function, const char *argument, weft_dtype dtype, weft_scalar number, double *taken)
{
    weft_exact exact;
    if (!weft_take_number(function, argument, dtype, number, &exact)) {
        return false;
    }
    *taken = exact.value;
    if (exact.rest != 0) {
        if (number.dtype != WEFT_C128) {
            const bool high = number.dtype == WEFT_U64 && number.whole < 0;
            weft_fail(WEFT_ERR_DTYPE, function, "%s is %s%llu, expected a number that a double has", argument,
                      number.whole < 0 && !high ? "-" : "",
                      number.whole < 0 && !high ? 0 - (unsigned long long)number.whole : (unsigned long long)number.whole);
        } else {
            weft_fail(WEFT_ERR_DTYPE, function, "%s is %g + %gi, expected a real number", argument, number.real, number.imag);
        }
    }
    return exact.rest == 0;
}

const weft_layout *weft_layout_like(const char *function, const weft_layout *layout, weft_dtype dtype)
{
    weft_placement placements[WEFT_MAX_DIMS];
    for (int d = 0; d < layout->mesh->ndim; d++) {
        bool partial = layout->placements[d].kind == WEFT_PARTIAL;
        placements[d] = partial ? weft_replicate() : layout->placements[d];
    }
    const weft_layout *like = weft_layout_intern(weft_runtime.layouts, layout->mesh, placements, layout->ndim,
                                                 layout->shape, dtype);
    if (like == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
    }
    return like;
}

static bool submit_fill(const weft_panel *panel, int64_t count, weft_dtype dtype, weft_exact value)
{
    weft_constant_args args = { .base.dtype = dtype, .count = count, .value = value.value, .rest = value.rest };
    weft_bound_operand target = weft_bound(panel, 0, STARPU_W);
    return weft_task_submit(&(weft_single_task){ .kernel = WEFT_KERNEL_constant,
                                                 .name = "fill",
                                                 .function = "fill",
                                                 .arguments = &args,
                                                 .arguments_size = sizeof(args),
                                                 .num_operands = 1,
                                                 .operands = &target });
}

bool weft_shard_fill(const weft_tensor_impl *tensor, const weft_local_shard *shard, weft_exact value)
{
    weft_dtype dtype = tensor->layout->dtype;
    for (int64_t i = 0; i < shard->num_panels; i++) {
        int64_t first, last;
        weft_panel_range(tensor->layout, &shard->box, i, &first, &last);
        int64_t count = (last - first) * weft_row_elements(tensor->layout->ndim, &shard->box);
        if (!submit_fill(&shard->panels[i], count, dtype, value)) {
            return false;
        }
    }
    return true;
}

/* ---- calls -------------------------------------------------------------------------------------------- */

static bool check_spmd(const char *function, const weft_layout *layout, weft_exact value)
{
    const double numbers[] = { value.value, value.rest };
    return weft_check_spmd(&(weft_call_signature){ .function = function,
                                                   .failed = layout == NULL,
                                                   .num_layouts = 1,
                                                   .layouts = &layout,
                                                   .num_numbers = 2,
                                                   .numbers = numbers });
}

static weft_status perform_new(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = weft_tensor_handle(weft_tensor_new(call->function, call->details->layout));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

const weft_operation weft_action_new = { .name = "new", .perform = perform_new, .num_outputs = 1, .effects = WEFT_MAKES };

static weft_status perform_empty(const weft_call *call, weft_tensor *outputs[])
{
    return check_spmd(call->function, call->details->layout, (weft_exact){ 0, 0 }) ? perform_new(call, outputs) : weft_latest_status();
}

const weft_operation weft_action_empty = {
    .name = "empty", .perform = perform_empty, .num_outputs = 1, .effects = WEFT_MAKES | WEFT_READS_LAYOUTS
};

/* scalars[0] and [WEFT_SCALAR_RESTS]: the value. */
static weft_status perform_full(const weft_call *call, weft_tensor *outputs[])
{
    const weft_exact value = { call->scalars[0], call->scalars[WEFT_SCALAR_RESTS] };
    if (!check_spmd(call->function, call->details->layout, value)) {
        return weft_latest_status();
    }
    weft_tensor_impl *tensor = weft_tensor_new(call->function, call->details->layout);
    for (int i = 0; tensor != NULL && i < tensor->num_shards; i++) {
        if (!weft_shard_fill(tensor, &tensor->shards[i], value)) {
            weft_tensor_discard(tensor);
            return weft_latest_status();
        }
    }
    outputs[0] = weft_tensor_handle(tensor);
    return tensor == NULL ? weft_latest_status() : WEFT_OK;
}

const weft_operation weft_action_full = {
    .name = "full", .perform = perform_full, .num_outputs = 1, .effects = WEFT_MAKES | WEFT_READS_LAYOUTS
};

/* `layout` NULL: the arguments are wrong, and the error is kept. `like`: the tensor whose layout it is, or
 * NULL. */
static weft_tensor *make(const char *function, const weft_operation *action, const weft_layout *layout, weft_exact value,
                         weft_tensor *like)
{
    if (layout == NULL) {
        check_spmd(function, layout, value);
        return NULL;
    }
    return weft_act_for_tensor(&(weft_call){ .function = function,
                                             .operation = action,
                                             .num_inputs = like != NULL,
                                             .inputs = { like },
                                             .scalars = { value.value, [WEFT_SCALAR_RESTS] = value.rest },
                                             .details = &(weft_call_details){ .layout = layout } });
}

weft_tensor *weft_empty(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    weft_factory request = { "weft_empty", dtype, ndim, shape, mesh, placements, .partial_allowed = true };
    return weft_made(dtype, make(request.function, &weft_action_empty, weft_factory_layout(&request), (weft_exact){ 0, 0 }, NULL));
}

weft_tensor *weft_zeros(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                        const weft_placement *placements)
{
    weft_factory request = { "weft_zeros", dtype, ndim, shape, mesh, placements, false };
    return weft_made(dtype, make(request.function, &weft_action_full, weft_factory_layout(&request), (weft_exact){ 0, 0 }, NULL));
}

weft_tensor *weft_ones(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    weft_factory request = { "weft_ones", dtype, ndim, shape, mesh, placements, false };
    return weft_made(dtype, make(request.function, &weft_action_full, weft_factory_layout(&request), (weft_exact){ 1, 0 }, NULL));
}

weft_tensor *(weft_full)(weft_dtype dtype, weft_scalar number, int ndim, const int64_t shape[], weft_mesh *mesh,
                       const weft_placement *placements)
{
    weft_factory request = { "weft_full", dtype, ndim, shape, mesh, placements, false };
    const weft_layout *layout = weft_factory_layout(&request);
    weft_exact value = { 0, 0 };
    bool fits = layout != NULL && weft_take_number(request.function, "value", layout->dtype, number, &value);
    return weft_made(dtype, make(request.function, &weft_action_full, fits ? layout : NULL, value, NULL));
}

/* ---- like another tensor ------------------------------------------------------------------------------- */

/* NULL with the error kept. */
static const weft_layout *layout_like(const char *function, const weft_tensor *a)
{
    const weft_tensor_impl *like = weft_check_tensor(function, "a", a);
    return like == NULL ? NULL : weft_layout_like(function, like->layout, like->layout->dtype);
}

weft_tensor *weft_empty_like(weft_tensor *a)
{
    return make("weft_empty_like", &weft_action_empty, layout_like("weft_empty_like", a), (weft_exact){ 0, 0 }, a);
}

weft_tensor *weft_zeros_like(weft_tensor *a)
{
    return make("weft_zeros_like", &weft_action_full, layout_like("weft_zeros_like", a), (weft_exact){ 0, 0 }, a);
}

weft_tensor *weft_ones_like(weft_tensor *a)
{
    return make("weft_ones_like", &weft_action_full, layout_like("weft_ones_like", a), (weft_exact){ 1, 0 }, a);
}

weft_tensor *(weft_full_like)(weft_tensor *a, weft_scalar number)
{
    static const char function[] = "weft_full_like";
    const weft_layout *layout = layout_like(function, a);
    weft_exact value = { 0, 0 };
    bool fits = layout != NULL && weft_take_number(function, "value", layout->dtype, number, &value);
    return make(function, &weft_action_full, fits ? layout : NULL, value, a);
}
