/* Interposers: functions that run around each public call.
 *
 * A public function that makes, changes, redistributes, reads or releases tensors calls weft_call_make() once its arguments are
 * checked, before it does anything else. Each interposer runs around the rest of the call, as a TorchDispatchMode does:
 * what it keeps from before to after the call are variables of its function. They see public calls alone, not those that a call
 * makes (weft_context.depth).
 *
 * Higher levels (src/autograd) install theirs, and lower ones call them without their headers. Without one a call pays one load
 * and one branch. */
#ifndef WEFT_SRC_CALL_INTERPOSER_H
#define WEFT_SRC_CALL_INTERPOSER_H

#include "call/call.h"
#include "runtime/runtime.h"

/* Executes a call, of an operation or an action, after all interposers have run. A status with the error kept. */
typedef weft_status (*weft_perform_function)(const weft_call *call, weft_tensor *outputs[]);

/* A public call under way, valid until it returns; weft_call_copy() copies the call. Tensors are handles, without a reference of
 * the interposer's. */
typedef struct weft_call_frame {
    const weft_call *call;
    int num_outputs;
    weft_tensor **outputs; /* filled in where the status is WEFT_OK; NULL: not asked for */
    weft_perform_function perform;
    struct weft_interposer *next;
} weft_call_frame;

/* Outermost first. */
typedef enum weft_interposer_order {
    WEFT_OBSERVER, /* leaves calls as they are */
    WEFT_TAPE      /* src/autograd */
} weft_interposer_order;

/* First member of an interposer's state. */
typedef struct weft_interposer {
    weft_interposer_order order;
    /* A call is about to be made; public calls made here are calls of their own, seen before it. Returns the call to make
     * instead, written to *own, or the call; NULL: it fails, with the error kept. NULL: changes none. */
    const weft_call *(*prepare)(struct weft_interposer *self, const weft_call *call, weft_call *own);
    /* Calls weft_call_next(frame) once, or not at all: then it fills in the outputs itself, or returns an error. NULL: no
     * interest. */
    weft_status (*around)(struct weft_interposer *self, weft_call_frame *frame);
    struct weft_interposer *next; /* inwards */
} weft_interposer;

/* weft_finalize() removes all. The newest of one order is the outermost. One that is installed or removed within a call sees the
 * next call first. */
void weft_interposer_install(weft_interposer *interposer);
void weft_interposer_remove(weft_interposer *interposer);

/* Makes the rest of the call, after the interposer that calls this. A status with the error kept. */
weft_status weft_call_next(weft_call_frame *frame);

static inline bool weft_is_listened_to(void)
{
    return weft_runtime.interposers != NULL && weft_runtime.context.depth == 0;
}

/* Only if weft_is_listened_to(). */
weft_status weft_call_through_all(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform);
/* Defers the call, or performs it. */
weft_status weft_call_carry_out(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform);

/* Every call is made here, except those of an expansion that runs. A status with the error kept. */
static inline weft_status weft_call_make(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    return weft_is_listened_to() ? weft_call_through_all(call, outputs, perform) : weft_call_carry_out(call, outputs, perform);
}

/* The call with the inputs that interposers give it, as weft_call_make() does: for functions that check inputs before they make
 * several calls. NULL with the error kept. */
const weft_call *weft_call_prepare(const weft_call *call, weft_call *own);

#endif
