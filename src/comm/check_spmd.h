/* The public calls that all processes make together. In worlds of several processes they are numbered, and
 * none is admitted once the world is broken; with WEFT_CHECK=1 all processes compare what they are about to
 * do first. */
#ifndef WEFT_SRC_COMM_CHECK_SPMD_H
#define WEFT_SRC_COMM_CHECK_SPMD_H

#include "comm/comm.h"

/* What must be the same on every process. */
typedef struct weft_call_signature {
    const char *function;
    bool failed; /* its arguments are wrong here: it submits nothing, but takes part in the comparison */
    int num_layouts;
    const weft_layout *const *layouts; /* of tensors given and made; NULL for what there is not */
    int num_numbers;                   /* shapes, scalars, flags */
    const double *numbers;
} weft_call_signature;

/* "weft_matmul(f32[8, 8] [S0] on 4, f32[8, 8] [R] on 4, 0, 2.5)"; returns text. */
char *weft_call_describe(const weft_call_signature *call, char *text, size_t size);
/* "process 2 (ranks 4 to 5)"; returns text. */
char *weft_process_text(int process, char *text, size_t size);

/* Called once by each of them, after its checks and before anything is submitted. False with the error kept:
 * submit nothing. With WEFT_CHECK it BLOCKS until all processes have come to this call, or WEFT_TIMEOUT_S has
 * passed; a difference, or a process that does not come, breaks the world. Calls of an expansion follow from the call
 * that is expanded, and are not compared. */
bool weft_check_spmd(const weft_call_signature *call);

/* Called by weft_finalize() when everything here has ended, with WEFT_CHECK or without: BLOCKS until all
 * processes have come so far, so that none leaves whom others still need, or without hearing that another one
 * gave up. False with the error kept: the world is broken. */
bool weft_call_last(const char *function);

#endif
