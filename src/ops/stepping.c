/* All optimisers' steps check their arguments here, and become one call on all parameters. */
#include "ops/stepping.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "comm/check_spmd.h"

/* ---- gradients that are absent -------------------------------------------------------------------------- */

bool weft_check_absent(const char *function, int i)
{
    if (weft_last_status() != WEFT_OK) {
        weft_fail(WEFT_ERR_INVALID, function, "gradients[%d] is NULL, after an error that has not been cleared", i);
        return false;
    }
    return true;
}

int weft_list_present(int n, weft_tensor *const gradients[], weft_tensor *present[])
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (gradients[i] != NULL && present != NULL) {
            present[count] = gradients[i];
        }
        count += gradients[i] != NULL;
    }
    return count;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

const weft_layout *weft_check_item(const char *function, const char *list, weft_tensor *const tensors[],
                                     int i)
{
    const weft_tensor_impl *tensor = weft_check_entry(function, list, i, tensors[i]);
    if (tensor != NULL && !weft_dtype_is_floating(tensor->layout->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function, "%s[%d] is %s, expected a floating type", list, i,
                  weft_dtype_name(tensor->layout->dtype));
        return NULL;
    }
    return tensor == NULL ? NULL : tensor->layout;
}

bool weft_check_list(const char *function, const char *name, int n, weft_tensor *const tensors[])
{
    if (n < 0 || (n > 0 && tensors == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, n < 0 ? "n is negative" : "%s is NULL", name);
        return false;
    }
    return true;
}

/* Checks a tensor that belongs to a parameter: same shape and mesh, and same placements if required. */
static bool check_belongs(const weft_stepping *s, const char *list, weft_tensor *const tensors[], int i,
                          bool placed)
{
    const weft_layout *own = weft_check_item(s->function, list, tensors, i);
    if (own == NULL) {
        return false;
    }
    const weft_layout *parameter = weft_layout_of(s->parameters[i]);
    bool same_shape = own->ndim == parameter->ndim &&
                      memcmp(own->shape, parameter->shape, (size_t)own->ndim * sizeof(own->shape[0])) == 0;
    weft_status status = !same_shape                                  ? WEFT_ERR_SHAPE
                         : own->mesh != parameter->mesh               ? WEFT_ERR_MESH
                         : placed && !weft_placements_equal(own->placements, parameter->placements, own->mesh->ndim) ? WEFT_ERR_LAYOUT
                                                                      : WEFT_OK;
    if (status != WEFT_OK) {
        char text[160], expected[160];
        weft_layout_format(parameter, expected, sizeof(expected));
        weft_fail(status, s->function, "%s[%d] is %s, expected the %s of parameters[%d], %s", list, i,
                  weft_layout_format(own, text, sizeof(text)),
                  status == WEFT_ERR_SHAPE  ? "shape"
                  : status == WEFT_ERR_MESH ? "mesh"
                                            : "placements",
                  i, expected);
    }
    return status == WEFT_OK;
}

static bool check_parameter(const weft_stepping *s, int i)
{
    const weft_layout *parameter = weft_check_item(s->function, "parameters", s->parameters, i);
    if (parameter != NULL && parameter->has_partial) {
        char text[160];
        weft_fail(WEFT_ERR_LAYOUT, s->function, "parameters[%d] is %s, expected no Partial", i,
                  weft_layout_format(parameter, text, sizeof(text)));
        return false;
    }
    return parameter != NULL;
}

/* A master is f32, or f64; f64 if its parameter is. */
static bool check_master(const weft_stepping *s, int list, int i)
{
    const weft_dtype master = weft_layout_of(s->states[list][i])->dtype, own = weft_layout_of(s->parameters[i])->dtype;
    const bool wide = (master == WEFT_F32 && own != WEFT_F64) || master == WEFT_F64;
    if (!wide) {
        weft_fail(WEFT_ERR_DTYPE, s->function, "%s[%d] is %s, expected %s: parameters[%d] is %s",
                  s->state_names[list], i, weft_dtype_name(master), own == WEFT_F64 ? "f64" : "f32 or f64", i, weft_dtype_name(own));
    }
    return wide;
}

bool weft_check_distinct(const char *function, int n, int changed, int num_lists,
                           weft_tensor *const *const lists[], const char *const names[])
{
    weft_map seen = { 0 };
    bool distinct = true;
    for (int k = 0; k < num_lists; k++) {
        for (int i = 0; i < n && lists[k] != NULL && distinct; i++) {
            if (lists[k][i] == NULL) {
                continue;
            }
            if (weft_map_has_pointer(&seen, lists[k][i])) {
                weft_fail(WEFT_ERR_INVALID, function, "%s[%d] is in the lists before, and is changed there",
                          names[k], i);
                distinct = false;
            } else if (k < changed && !weft_map_add_pointer(&seen, lists[k][i])) {
                weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d tensors", n);
                distinct = false;
            }
        }
    }
    weft_map_free(&seen);
    return distinct;
}

bool weft_check_step(const weft_stepping *s)
{
    if (weft_require_init(s->function) != WEFT_OK ||
        !weft_check_list(s->function, "parameters", s->n, s->parameters) ||
        !weft_check_list(s->function, "gradients", s->n, s->gradients)) {
        return false;
    }
    for (int k = 0; k < WEFT_MAX_STATES; k++) {
        if (s->state_names[k] != NULL && !weft_check_list(s->function, s->state_names[k], s->n, s->states[k])) {
            return false;
        }
    }
    for (int i = 0; i < s->n; i++) {
        bool valid = check_parameter(s, i) && (s->gradients[i] == NULL ? weft_check_absent(s->function, i)
                                                                       : check_belongs(s, "gradients", s->gradients, i, false));
        int last = -1;
        for (int k = 0; k < WEFT_MAX_STATES && valid; k++) {
            valid = s->state_names[k] == NULL || check_belongs(s, s->state_names[k], s->states[k], i, true);
            last = s->state_names[k] == NULL ? last : k;
        }
        if (!valid || (s->has_masters && !check_master(s, last, i))) {
            return false;
        }
    }
    enum { CHANGED = 1 + WEFT_MAX_STATES };
    weft_tensor *const *lists[CHANGED + 1] = { s->parameters };
    const char *names[CHANGED + 1] = { "parameters" };
    for (int k = 0; k < WEFT_MAX_STATES; k++) {
        lists[1 + k] = s->states[k];
        names[1 + k] = s->state_names[k];
    }
    lists[CHANGED] = s->gradients;
    names[CHANGED] = "gradients";
    return weft_check_distinct(s->function, s->n, CHANGED, CHANGED + 1, lists, names);
}

bool weft_check_step_number(const char *function, const char *name, double value, bool valid,
                         const char *expected)
{
    if (!valid) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %g, expected %s", name, value, expected);
    }
    return valid;
}

bool weft_check_not_negative(const char *function, const char *name, double value)
{
    return weft_check_step_number(function, name, value, value >= 0 && isfinite(value), "a finite number, at least 0");
}

/* ---- all parameters ------------------------------------------------------------------------------------ */

/* The gradient in its parameter's layout: itself, or a new tensor of the innermost scope. */
static weft_tensor *placed_gradient(weft_tensor *gradient, const weft_layout *parameter)
{
    return weft_placements_equal(weft_layout_of(gradient)->placements, parameter->placements, parameter->mesh->ndim)
               ? gradient
               : weft_redistribute(gradient, parameter->mesh->handle, parameter->placements);
}

/* The lists of a call: the parameters, those of the states, the gradients. The step takes the masters as its parameters. */
typedef struct lists {
    const weft_call *call;
    const weft_operation *one;
    int n, changed; /* lists that the step changes */
    bool rounds, maximizes;
} lists;

static bool has_attribute(const weft_call *call, int number)
{
    return call->attributes.num_numbers > number && call->attributes.numbers[number] != 0;
}

static int list_of(const lists *l, int tensor)
{
    return l->rounds && tensor == 0 ? l->changed : tensor;
}

static weft_tensor *tensor_of(const lists *l, int tensor, int i)
{
    return weft_call_tensor(l->call, list_of(l, tensor) * l->n + i);
}

/* Parameters whose gradients are placed before the first of their steps, which can be one task then. */
enum { TOGETHER = 64 };

/* The gradients of parameters [first, end), as their steps take them. False with the error kept. */
static bool place_gradients(const lists *l, int first, int end, weft_tensor *placed[])
{
    bool done = true;
    for (int i = first; i < end && done; i++) {
        weft_tensor *gradient = placed_gradient(tensor_of(l, l->changed + l->rounds, i), weft_layout_of(tensor_of(l, 0, i)));
        placed[i - first] = gradient != NULL && l->maximizes ? weft_neg(gradient) : gradient;
        done = placed[i - first] != NULL;
    }
    return done;
}

static bool step_one(const lists *l, int i, weft_tensor *gradient, weft_tensor *outputs[])
{
    weft_call step = { .function = l->call->function,
                       .operation = l->one,
                       .num_inputs = l->changed + 1,
                       .attributes = l->call->attributes,
                       .inherited = WEFT_ALL_SCALARS };
    memcpy(step.scalars, l->call->scalars, sizeof(step.scalars));
    for (int k = 0; k < l->changed; k++) {
        step.inputs[k] = tensor_of(l, k, i);
    }
    step.inputs[l->changed] = gradient;
    weft_tensor *changed[WEFT_MAX_OUTPUTS];
    bool done = weft_dispatch_all(&step, changed);
    for (int k = 0; k < l->changed && done; k++) {
        outputs[list_of(l, k) * l->n + i] = changed[k];
    }
    return done;
}

/* The parameters become their masters, rounded. False with the error kept. */
static bool round_masters(const lists *l, weft_tensor *outputs[])
{
    bool done = true;
    for (int i = 0; i < l->n && done && l->rounds; i++) {
        outputs[i] = weft_copy_inplace(weft_call_tensor(l->call, i), tensor_of(l, 0, i));
        done = outputs[i] != NULL;
    }
    return done;
}

bool weft_expand_step(const weft_call *call, const weft_operation *one, weft_tensor *outputs[])
{
    lists l = { .call = call,
                .one = one,
                .changed = one->num_outputs > 1 ? one->num_outputs : 1,
                .rounds = has_attribute(call, WEFT_STEP_ROUNDS),
                .maximizes = has_attribute(call, WEFT_STEP_MAXIMIZES) };
    l.n = weft_call_num_tensors(call) / (l.changed + l.rounds + 1);
    weft_tensor *gradients[TOGETHER] = { NULL };
    bool done = true;
    for (int first = 0, end; first < l.n && done; first = end) {
        end = first + TOGETHER < l.n ? first + TOGETHER : l.n;
        done = place_gradients(&l, first, end, gradients);
        for (int i = first; i < end && done; i++) {
            done = step_one(&l, i, gradients[i - first], outputs);
        }
    }
    return done && round_masters(&l, outputs);
}

/* Concatenates the lists of the call, without parameters that have no gradient. Returns the number of tensors. */
static int write_lists(const weft_stepping *s, weft_tensor *tensors[])
{
    int count = 0;
    for (int k = 0; k < 2 + WEFT_MAX_STATES; k++) {
        weft_tensor *const *list = k == 0 ? s->parameters : k <= WEFT_MAX_STATES ? s->states[k - 1] : s->gradients;
        for (int i = 0; i < s->n && list != NULL; i++) {
            if (s->gradients[i] != NULL) {
                tensors[count++] = list[i];
            }
        }
    }
    return count;
}

weft_status weft_step_all(const weft_stepping *s, weft_call call, const weft_derivation *derivation, const double origins[])
{
    enum { FEW = 64 };
    size_t most = (2 + WEFT_MAX_STATES) * (size_t)s->n + 1;
    weft_tensor *few[2 * FEW], **tensors = most <= FEW ? few : malloc(2 * most * sizeof(weft_tensor *));
    if (tensors == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, s->function, "no memory for %d tensors", s->n);
    }
    int present = weft_list_present(s->n, s->gradients, NULL), count = write_lists(s, tensors), changed = count - present;
    const weft_call_details details = {
        .num_outputs = changed, .num_changed = changed, .num_tensors = count, .tensors = tensors,
        .derivation = derivation, .origins = origins
    };
    call.function = s->function;
    if (s->maximize || s->has_masters) {
        call.attributes.num_numbers = s->has_masters ? WEFT_STEP_ROUNDS + 1 : WEFT_STEP_MAXIMIZES + 1;
        call.attributes.numbers[WEFT_STEP_MAXIMIZES] = s->maximize;
        call.attributes.numbers[WEFT_STEP_ROUNDS] = s->has_masters;
    }
    call.details = &details;
    bool done = weft_dispatch_all(&call, tensors + most);
    weft_runtime.counters.gradients_skipped += done ? (uint64_t)(s->n - present) : 0;
    if (tensors != few) {
        free(tensors);
    }
    return done ? WEFT_OK : weft_latest_status();
}

weft_status weft_refuse_step(const char *function)
{
    weft_status status = weft_latest_status();
    weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
    return status;
}

bool weft_check_beta(const char *function, const char *name, double value)
{
    return weft_check_step_number(function, name, value, value >= 0 && value < 1, "at least 0 and less than 1");
}

bool weft_check_nesterov(const char *function, double momentum, double dampening)
{
    if (momentum == 0 || dampening != 0) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "nesterov with momentum %g and dampening %g, expected a momentum and no dampening", momentum, dampening);
        return false;
    }
    return true;
}
