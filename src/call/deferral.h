/* Calls that are collected now and executed later: src/graph installs itself here, so that nothing includes upwards.
 * Below the interposers: they have seen a call that is deferred like any other, and its outputs are promised
 * (tensor/promised.h). */
#ifndef WEFT_SRC_CALL_DEFERRAL_H
#define WEFT_SRC_CALL_DEFERRAL_H

#include "call/call.h"
#include "runtime/runtime.h"

typedef struct weft_deferral {
    uint64_t number; /* of the recorded segment, unique: weft_tensor_impl.graph_run */
    bool has_numbered; /* of an implicit one: the call that take() has left has its number (comm/check_spmd.h) */
    /* A call whose arguments have been checked. True: it is deferred or has failed, *status and outputs[] are filled
     * in. False: it is to be executed now; all deferred calls that it depends on have been. */
    bool (*take)(struct weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status);
    /* Executes all deferred calls, because this public function needs their values. A status with the error kept. */
    weft_status (*finish)(struct weft_deferral *self, const char *function);
    /* This public function has an effect and is no call: a graph that only repeats its calls would lose the effect. An implicit one
     * executes all deferred calls; if they fail, the next call or finish() says so. */
    void (*note)(struct weft_deferral *self, const char *function);
} weft_deferral;

/* The deferral of a graph's function; where there is none, that of the calls that the program repeats (src/graph/auto), which it
 * does not know of: nothing is refused because of it, and what needs values executes the deferred calls. NULL: none. */
static inline weft_deferral *weft_deferral_any(void)
{
    return weft_runtime.context.deferral != NULL ? weft_runtime.context.deferral : weft_runtime.implicit;
}

/* From now on it sees calls that are executed at once (NULL: nobody does). Returns the former one. */
static inline weft_deferral *weft_deferral_set_implicit(weft_deferral *implicit)
{
    weft_deferral *former = weft_runtime.implicit;
    weft_runtime.implicit = implicit;
    return former;
}

/* 0: calls are not deferred. */
static inline uint64_t weft_deferral_number(void)
{
    const weft_deferral *deferral = weft_deferral_any();
    return deferral == NULL ? 0 : deferral->number;
}

/* For a public function that sends messages and is executed at once: the messages of deferred calls go first, so that they have
 * one order on all processes. False with the error kept. */
static inline bool weft_deferral_finish(const char *function)
{
    weft_deferral *deferral = weft_deferral_any();
    return deferral == NULL || deferral->finish(deferral, function) == WEFT_OK;
}

/* For a public function that is no part of what a graph's function defers, and begins something that calls made before it have no
 * part in: a graph, a region, an explanation; or tells what has been submitted. If they fail, the next call says so. */
static inline void weft_deferral_finish_implicit(const char *function)
{
    if (weft_runtime.implicit != NULL && weft_runtime.context.deferral == NULL) {
        weft_runtime.implicit->note(weft_runtime.implicit, function);
    }
}

/* For a public function that changes something beside the values of tensors. */
static inline void weft_deferral_note(const char *function)
{
    weft_deferral *deferral = weft_deferral_any();
    if (deferral != NULL) {
        deferral->note(deferral, function);
    }
}

/* The program has changed something that decides which calls a function makes: the tensor or a function of a module, the hook
 * of a leaf, the kernel of an operation. `was_used`: a graph's function may have used what was there before, so a frozen graph
 * has to call its function again. */
static inline void weft_note_change(const char *function, bool was_used)
{
    weft_deferral_note(function);
    if (was_used) {
        weft_runtime.changes++;
        weft_runtime.changed_by = function;
    }
}

#endif
