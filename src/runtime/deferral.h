/* Calls that are collected now and executed later: src/graph installs itself here, so that nothing includes upwards.
 * Below the recorders: a call that is deferred has been recorded like any other, and its outputs are promised
 * (tensor/promised.h). */
#ifndef WEFT_SRC_RUNTIME_DEFERRAL_H
#define WEFT_SRC_RUNTIME_DEFERRAL_H

#include "runtime/call.h"
#include "runtime/runtime.h"

typedef struct weft_deferral {
    /* A call whose arguments have been checked. True: it is deferred or has failed, *status and outputs[] are filled
     * in. False: it is to be executed now; all deferred calls that it depends on have been. */
    bool (*take)(struct weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status);
    /* Executes all deferred calls. A status with the error kept. */
    weft_status (*finish)(struct weft_deferral *self);
} weft_deferral;

/* For calls that send messages and are executed at once: those of deferred calls go first, so that they have one order
 * on all processes. False with the error kept. */
static inline bool weft_deferral_finish(void)
{
    weft_deferral *deferral = weft_runtime.deferral;
    return deferral == NULL || deferral->finish(deferral) == WEFT_OK;
}

#endif
