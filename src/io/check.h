/* Arguments that saving, loading and exporting share. */
#ifndef WEFT_SRC_IO_CHECK_H
#define WEFT_SRC_IO_CHECK_H

#include "call/call.h"
#include "comm/check_spmd.h"
#include "io/rows.h"

/* A call on named tensors in a file. */
typedef struct weft_file_call {
    const char *function;
    const char *path;
    int n;
    const char *const *names;
    weft_tensor *const *tensors;
    bool may_be_empty; /* a name: other programs save tensors named "" */
    uint64_t digest;   /* of what else the processes must agree on */
} weft_file_call;

/* Path, names and tensors are there. False with the error kept. */
bool weft_check_file_call(const weft_file_call *call);
/* That the call may wait for the tensors. False with the error kept. */
bool weft_check_file_waits(const weft_file_call *call);
/* That no tensor is Partial: values are to be written to them. False with the error kept. */
bool weft_check_file_layouts(const weft_file_call *call);
/* weft_check_spmd() of the call, with the layouts of its tensors and a digest of path and names. `valid`: it has
 * passed the checks here. */
bool weft_check_file_spmd(const weft_file_call *call, bool valid);

/* Makes the call: `perform` gets the tensors as details->tensors, and
 * `request` as details->memory. */
weft_status weft_act_on_file(const weft_file_call *call, const weft_operation *action, void *request);

#endif
