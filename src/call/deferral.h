/* Calls that are collected now and executed later: src/graph installs itself here, so that nothing includes upwards.
 * Below the interposers: they have seen a call that is deferred like any other, and its outputs are promised
 * (tensor/promised.h). */
#ifndef WEFT_SRC_CALL_DEFERRAL_H
#define WEFT_SRC_CALL_DEFERRAL_H

#include "call/call.h"
#include "runtime/runtime.h"

typedef struct weft_deferral {
    uint64_t number; /* of the recorded segment, unique: weft_tensor_impl.graph_run */
    /* A call whose arguments have been checked. True: it is deferred or has failed, *status and outputs[] are filled
     * in. False: it is to be executed now; all deferred calls that it depends on have been. */
    bool (*take)(struct weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status);
    /* Executes all deferred calls, because this public function needs their values. A status with the error kept. */
    weft_status (*finish)(struct weft_deferral *self, const char *function);
    /* This public function has an effect and is no call: a graph that only repeats its calls would lose the effect. */
    void (*note)(struct weft_deferral *self, const char *function);
} weft_deferral;

/* 0: calls are not deferred. */
static inline uint64_t weft_deferral_number(void)
{
    return weft_runtime.context.deferral == NULL ? 0 : weft_runtime.context.deferral->number;
}

/* For a public function that sends messages and is executed at once: the messages of deferred calls go first, so that they have
 * one order on all processes. False with the error kept. */
static inline bool weft_deferral_finish(const char *function)
{
    weft_deferral *deferral = weft_runtime.context.deferral;
    return deferral == NULL || deferral->finish(deferral, function) == WEFT_OK;
}

/* For a public function that changes something beside the values of tensors. */
static inline void weft_deferral_note(const char *function)
{
    if (weft_runtime.context.deferral != NULL) {
        weft_runtime.context.deferral->note(weft_runtime.context.deferral, function);
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
