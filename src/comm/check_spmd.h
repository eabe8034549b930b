/* Numbers the public calls that all processes make together (worlds of several processes), and refuses
 * them once the world is broken. With WEFT_CHECK=1 all processes compare each call before it submits
 * anything. */
#ifndef WEFT_SRC_COMM_CHECK_SPMD_H
#define WEFT_SRC_COMM_CHECK_SPMD_H

#include "comm/comm.h"

/* A call as compared between processes. */
typedef struct weft_call_signature {
    const char *function;
    bool failed; /* its arguments are wrong here: it submits nothing, but takes part in the comparison */
    int num_layouts;
    const weft_layout *const *layouts; /* of the input and output tensors; NULL: no such tensor */
    int num_numbers;                   /* shapes, scalars, flags */
    const double *numbers;
    const char *text; /* what else the call says, as messages show it: the name of a file. NULL: nothing */
} weft_call_signature;

/* "weft_matmul(f32[8, 8] [S0] on 4, f32[8, 8] [R] on 4, 0, 2.5)"; returns text. */
char *weft_call_describe(const weft_call_signature *call, char *text, size_t size);
/* "process 2 (ranks 4 to 5)"; returns text. */
char *weft_process_text(int process, char *text, size_t size);

/* Called once by each such function, after its checks and before the first submission. False with the
 * error kept: submit nothing. With WEFT_CHECK it BLOCKS until all processes have reached this call, or
 * WEFT_TIMEOUT_S has passed; a difference or an absent process breaks the world. Calls within an expansion
 * follow from the expanded call, and are not compared. */
bool weft_check_spmd(const weft_call_signature *call);

/* The same of a call that one number stands for; false where it is not valid, too. */
bool weft_check_spmd_number(const char *function, uint64_t number, bool valid);
/* The same of a call on something that has a name. */
bool weft_check_spmd_named(const char *function, const char *name, uint64_t number, bool valid);

/* Only gives the call its number and digest: for processes that execute it later, each when it likes. Within weft_context_numbered()
 * the functions above give none. The flight record has the call when it is executed. */
void weft_spmd_number(const weft_call_signature *call);

/* Called by weft_finalize() after all local work, with WEFT_CHECK or without. BLOCKS until all processes
 * have reached this point, so that no process leaves that others still need, or misses an abort notice.
 * False with the error kept: the world is broken. */
bool weft_call_last(const char *function);

#endif
