/* Recorders of public calls. A public function that makes, changes, redistributes, reads or releases
 * tensors calls weft_call_make() once its arguments are checked, before it does anything else. Calls
 * within another call (a composite's) are not recorded.
 *
 * Higher floors (src/autograd, src/graph) install recorders, and lower ones call them without their headers. Without a
 * recorder a call pays one load and one branch. */
#ifndef WEFT_SRC_CALL_RECORDER_H
#define WEFT_SRC_CALL_RECORDER_H

#include "call/call.h"
#include "runtime/runtime.h"

/* First members of a recorder. The call, its details and arrays are valid until the function returns;
 * weft_call_copy() copies them. Tensors are handles, without a reference of the recorder's. */
typedef struct weft_recorder {
    /* A call is about to be made; public calls made here are calls of their own, told before it. Returns the call to
     * make instead, written to *own, or the call; NULL: it fails, with the error kept. NULL: changes none. */
    const weft_call *(*prepare)(struct weft_recorder *self, const weft_call *call, weft_call *own);
    /* A call begins. NULL: no interest. */
    void (*begin)(struct weft_recorder *self, const weft_call *call, int num_outputs);
    /* All have seen its beginning. True: this recorder has executed it, outputs[] and *status are filled in; so it may
     * ask for outputs that the program has not asked for (weft_attributes.omitted). The newest that returns true
     * counts. NULL: executes none. */
    bool (*execute)(struct weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *outputs[],
                    weft_status *status);
    /* A call has ended: with its outputs (NULL: not asked for), or with an error status and no outputs.
     * NULL: no interest. */
    void (*end)(struct weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[],
                weft_status status);
    struct weft_recorder *next; /* installed before */
} weft_recorder;

/* To be called between two public calls; an end() may remove its own recorder. The newest recorder is called first.
 * weft_finalize() removes all. */
void weft_recorder_install(weft_recorder *recorder);
void weft_recorder_remove(weft_recorder *recorder);

/* Carries out a call of one kind, an operation's or an action's, which nothing stands before any more. A status with the error
 * kept. */
typedef weft_status (*weft_perform_function)(const weft_call *call, weft_tensor *outputs[]);

static inline bool weft_is_listened_to(void)
{
    return weft_runtime.recorder != NULL && weft_runtime.context.depth == 0;
}

/* Calls the recorders, and weft_call_carry_out(); only if weft_is_listened_to(). */
weft_status weft_call_tell(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform);
/* Defers the call, or performs it. */
weft_status weft_call_carry_out(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform);

/* Makes a call: the one way of all that are made from outside of expansions. A status with the error kept. */
static inline weft_status weft_call_make(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    return weft_is_listened_to() ? weft_call_tell(call, outputs, perform) : weft_call_carry_out(call, outputs, perform);
}

/* The call with the inputs that recorders give it, as weft_call_tell() does: for functions that check inputs before they
 * make several calls. NULL with the error kept. */
const weft_call *weft_call_prepare(const weft_call *call, weft_call *own);

/* A copy of a call with everything it points to but the program's memory: its bytes; in memory of so many bytes,
 * aligned as malloc()'s; and in an allocation of *bytes bytes, to be freed with free() (NULL: no memory). Takes no
 * references. */
size_t weft_call_copy_bytes(const weft_call *call);
weft_call *weft_call_copy_to(void *memory, const weft_call *call);
weft_call *weft_call_copy(const weft_call *call, size_t *bytes);
/* weft_meet_layout() for all layouts of a copy but those of its tensors. */
void weft_call_meet_layouts(const weft_call *call);

#endif
