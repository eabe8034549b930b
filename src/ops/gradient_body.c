/* The gradient of a composite from its body: the body is carried out again by calls, which are noted, and their
 * gradients are made from the last to the first. */
#include <stdlib.h>
#include <string.h>

#include "call/interposer.h"
#include "ops/gradient.h"

/* A call of the body, with its outputs. */
typedef struct body_call {
    weft_call *call;
    int num_outputs;
    weft_tensor **outputs;
} body_call;

typedef struct body_recorder {
    weft_interposer interposer; /* the first member */
    weft_vec calls;             /* body_call */
    bool failed;                /* no memory */
} body_recorder;

/* Whether a call gives one of its inputs, unchanged: as a conversion to the type that it has. */
static bool is_identity(const weft_call *call, weft_tensor *const outputs[])
{
    bool same = false;
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        same |= weft_call_tensor(call, i) == outputs[0];
    }
    return same;
}

static void note_call(body_recorder *recorder, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    size_t bytes;
    if (num_outputs == 0 || is_identity(call, outputs)) {
        return;
    }
    body_call *noted = weft_vec_push(&recorder->calls, sizeof(*noted));
    if (noted == NULL) {
        recorder->failed = true;
        return;
    }
    *noted = (body_call){ .call = weft_call_copy(call, &bytes), .num_outputs = num_outputs };
    noted->outputs = malloc((size_t)num_outputs * sizeof(noted->outputs[0]));
    if (noted->call == NULL || noted->outputs == NULL) {
        recorder->failed = true;
        return;
    }
    memcpy(noted->outputs, outputs, (size_t)num_outputs * sizeof(noted->outputs[0]));
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    weft_status status = weft_call_next(frame);
    if (status == WEFT_OK) {
        note_call((body_recorder *)self, frame->call, frame->num_outputs, frame->outputs);
    }
    return status;
}

/* A tensor that depends on wanted inputs, and its gradient so far; NULL: zero. */
typedef struct dependent {
    weft_tensor *tensor, *gradient;
} dependent;

/* NULL: it depends on none. */
static dependent *dependent_of(const weft_vec *dependents, const weft_tensor *tensor)
{
    dependent *all = dependents->items;
    for (size_t i = dependents->count; i-- > 0 && tensor != NULL;) {
        if (all[i].tensor == tensor) {
            return &all[i];
        }
    }
    return NULL;
}

static bool add_dependent(weft_vec *dependents, weft_tensor *tensor)
{
    if (tensor == NULL || dependent_of(dependents, tensor) != NULL) {
        return true;
    }
    dependent *added = weft_vec_push(dependents, sizeof(*added));
    if (added != NULL) {
        *added = (dependent){ tensor, NULL };
    }
    return added != NULL;
}

/* The wanted inputs, and the outputs of calls that have such inputs. */
static bool find_dependents(const weft_gradient *of, const weft_vec *calls, weft_vec *dependents)
{
    bool done = true;
    for (int i = 0; i < weft_call_num_tensors(of->call) && done; i++) {
        done = !weft_gradient_wanted(of, i) || add_dependent(dependents, weft_call_tensor(of->call, i));
    }
    const body_call *noted = calls->items;
    for (size_t k = 0; k < calls->count && done; k++) {
        bool depends = false;
        for (int i = 0; i < weft_call_num_tensors(noted[k].call); i++) {
            depends |= dependent_of(dependents, weft_call_tensor(noted[k].call, i)) != NULL;
        }
        for (int i = 0; i < noted[k].num_outputs && depends && done; i++) {
            done = add_dependent(dependents, noted[k].outputs[i]);
        }
    }
    return done;
}

static bool add_gradient(weft_vec *dependents, const weft_tensor *tensor, weft_tensor *gradient)
{
    dependent *d = dependent_of(dependents, tensor);
    if (d == NULL || gradient == NULL) {
        return true;
    }
    d->gradient = d->gradient == NULL ? gradient : weft_add(d->gradient, gradient);
    return d->gradient != NULL;
}

/* Adds the gradients of a call's inputs; lists[]: two of as many tensors as the call has outputs, and inputs. */
static bool go_through(const weft_gradient *of, const body_call *noted, weft_vec *dependents, weft_tensor **lists[2],
                       bool wanted[])
{
    int num_inputs = weft_call_num_tensors(noted->call);
    bool any = false;
    for (int i = 0; i < noted->num_outputs; i++) {
        const dependent *d = dependent_of(dependents, noted->outputs[i]);
        lists[0][i] = d == NULL ? NULL : d->gradient;
        any |= lists[0][i] != NULL;
    }
    for (int i = 0; i < num_inputs; i++) {
        wanted[i] = dependent_of(dependents, weft_call_tensor(noted->call, i)) != NULL;
    }
    const weft_gradient own = { .call = noted->call,
                                .outputs = noted->outputs,
                                .output_gradients = lists[0],
                                .wanted = wanted,
                                .differentiated = of->differentiated,
                                .gradients = lists[1] };
    bool done = !any || weft_call_gradients(&own) == WEFT_OK;
    for (int i = 0; i < num_inputs && any && done; i++) {
        done = add_gradient(dependents, weft_call_tensor(noted->call, i), lists[1][i]);
    }
    return done;
}

static bool no_memory(const weft_gradient *of)
{
    weft_fail(WEFT_ERR_NOMEM, of->call->function, "no memory for the gradient");
    return false;
}

static bool go_back(const weft_gradient *of, const weft_vec *calls, weft_vec *dependents)
{
    const body_call *noted = calls->items;
    size_t most = 1;
    for (size_t k = 0; k < calls->count; k++) {
        most = (size_t)weft_max_i64((int64_t)most, noted[k].num_outputs);
        most = (size_t)weft_max_i64((int64_t)most, weft_call_num_tensors(noted[k].call));
    }
    weft_tensor **tensors = calloc(2 * most, sizeof(*tensors)), **lists[2] = { tensors, tensors + most };
    bool *wanted = calloc(most, sizeof(*wanted)), done = tensors != NULL && wanted != NULL;
    if (!done) {
        no_memory(of);
    }
    for (size_t k = calls->count; k-- > 0 && done;) {
        done = go_through(of, &noted[k], dependents, lists, wanted);
    }
    free(wanted);
    free(tensors);
    return done;
}

/* The first of several inputs that are one tensor gets all of its gradient. */
static bool give_gradients(const weft_gradient *of, weft_vec *dependents)
{
    bool done = true;
    for (int i = 0; i < weft_call_num_tensors(of->call) && done; i++) {
        dependent *d = weft_gradient_wanted(of, i) ? dependent_of(dependents, weft_call_tensor(of->call, i)) : NULL;
        if (d != NULL && d->gradient != NULL) {
            done = weft_give_gradient(of, i, d->gradient);
            d->gradient = NULL;
        }
    }
    return done;
}

static void free_calls(weft_vec *calls)
{
    body_call *noted = calls->items;
    for (size_t k = 0; k < calls->count; k++) {
        free(noted[k].call);
        free(noted[k].outputs);
    }
    weft_vec_free(calls);
}

bool weft_gradient_of_body(const weft_gradient *of)
{
    body_recorder recorder = { .interposer = { .order = WEFT_OBSERVER, .around = around } };
    weft_vec dependents = { 0 };
    weft_tensor *outputs[WEFT_MAX_OUTPUTS] = { NULL };
    weft_interposer_install(&recorder.interposer);
    bool done = of->call->operation->expand(of->call, outputs);
    weft_interposer_remove(&recorder.interposer);
    if (done && (recorder.failed || !find_dependents(of, &recorder.calls, &dependents))) {
        done = no_memory(of);
    }
    for (int i = 0; i < weft_call_num_outputs(of->call) && done; i++) {
        done = add_gradient(&dependents, outputs[i], weft_gradient_of_output(of, i));
    }
    done = done && go_back(of, &recorder.calls, &dependents) && give_gradients(of, &dependents);
    weft_vec_free(&dependents);
    free_calls(&recorder.calls);
    return done;
}
