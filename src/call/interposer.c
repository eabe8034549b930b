#include "call/interposer.h"

#include "call/context.h"
#include "call/deferral.h"

void weft_interposer_install(weft_interposer *interposer)
{
    weft_interposer **link = &weft_runtime.interposers;
    while (*link != NULL && (*link)->order < interposer->order) {
        link = &(*link)->next;
    }
    interposer->next = *link;
    *link = interposer;
}

void weft_interposer_remove(weft_interposer *interposer)
{
    weft_interposer **link = &weft_runtime.interposers;
    while (*link != NULL && *link != interposer) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = interposer->next;
    }
}

static const weft_call *prepare(const weft_call *call, weft_call *own)
{
    for (weft_interposer *i = weft_runtime.interposers; i != NULL && call != NULL; i = i->next) {
        if (i->prepare != NULL) {
            call = i->prepare(i, call, own);
        }
    }
    return call;
}

const weft_call *weft_call_prepare(const weft_call *call, weft_call *own)
{
    return weft_is_listened_to() ? prepare(call, own) : call;
}

static weft_status perform_numbered(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    const weft_context outer = weft_context_enter(weft_context_numbered());
    weft_status status = perform(call, outputs);
    weft_context_leave(outer);
    return status;
}

/* The calls that this one makes are not the program's, unless it leaves values alone: then they may be about promised tensors. */
static weft_status carry_out_observed(weft_deferral *implicit, const weft_call *call, weft_tensor *outputs[],
                                      weft_perform_function perform)
{
    weft_status status;
    if (implicit->take(implicit, call, outputs, &status)) {
        return status;
    }
    weft_deferral_set_implicit(weft_call_does(call, WEFT_LEAVES_VALUES) ? implicit : NULL);
    status = implicit->has_numbered ? perform_numbered(call, outputs, perform) : perform(call, outputs);
    weft_deferral_set_implicit(implicit);
    return status;
}

weft_status weft_call_carry_out(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    weft_deferral *deferral = weft_runtime.context.deferral;
    weft_status status;
    if (deferral != NULL) {
        return deferral->take(deferral, call, outputs, &status) ? status : perform(call, outputs);
    }
    return weft_runtime.implicit == NULL ? perform(call, outputs) : carry_out_observed(weft_runtime.implicit, call, outputs, perform);
}

weft_status weft_call_next(weft_call_frame *frame)
{
    weft_interposer *next = frame->next;
    while (next != NULL && next->around == NULL) {
        next = next->next;
    }
    if (next == NULL) {
        return weft_call_carry_out(frame->call, frame->outputs, frame->perform);
    }
    frame->next = next->next;
    return next->around(next, frame);
}

/* Public calls that an interposer makes are not seen: the depth counts the call. */
weft_status weft_call_through_all(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    weft_call own;
    call = prepare(call, &own);
    if (call == NULL) {
        return weft_latest_status();
    }
    weft_call_frame frame = { call, weft_call_num_outputs(call), outputs, perform, weft_runtime.interposers };
    const weft_context outer = weft_context_enter(weft_context_within_call());
    weft_status status = weft_call_next(&frame);
    weft_context_leave(outer);
    return status;
}
