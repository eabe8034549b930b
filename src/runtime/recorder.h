/* Who is told of public calls. A public function that makes, changes, moves, reads or releases tensors passes
 * weft_call_tell() before it does anything but check its arguments, and when it has its outputs. Calls that are made on
 * the way of another one (a composite's) are part of that and are not told.
 *
 * The floors above install themselves (src/autograd, src/graph), so that nothing includes upwards. While nobody
 * listens a call pays one load and one branch. */
#ifndef WEFT_SRC_RUNTIME_RECORDER_H
#define WEFT_SRC_RUNTIME_RECORDER_H

#include "runtime/call.h"
#include "runtime/runtime.h"

/* The first members of what listens. The call, its details and arrays are valid until the function returns:
 * weft_call_copy() keeps one. Tensors are handles; who needs one for longer takes a reference. */
typedef struct weft_recorder {
    /* A call begins. True: it is carried out already, outputs[] and *status are filled in, and nothing else happens but
     * that all are told of its end. NULL: no interest. */
    bool (*begin)(struct weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *outputs[],
                  weft_status *status);
    /* It has ended: with its outputs (NULL: those that were not asked for), or with a status that is not WEFT_OK and
     * no outputs. NULL: no interest. */
    void (*end)(struct weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[],
                weft_status status);
    struct weft_recorder *next; /* the one installed before */
} weft_recorder;

/* Between two calls. The newest is told first. weft_finalize() removes all. */
void weft_recorder_install(weft_recorder *recorder);
void weft_recorder_remove(weft_recorder *recorder);

typedef weft_status (*weft_carry_out_function)(const weft_call *call, weft_tensor *outputs[]);

static inline bool weft_is_listened_to(void)
{
    return weft_runtime.recorder != NULL && weft_runtime.call_depth == 0;
}

/* Carries a call out and tells of it: where weft_is_listened_to(). */
weft_status weft_call_tell(const weft_call *call, int num_outputs, weft_tensor *outputs[],
                           weft_carry_out_function carry_out);

/* A call with all that it points to (but the program's memory, which stays the program's), in one allocation
 * for free(), of so many bytes; NULL: no memory. Takes no references. */
weft_call *weft_call_copy(const weft_call *call, size_t *bytes);

#endif
