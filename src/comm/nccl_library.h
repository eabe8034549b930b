/* NCCL's functions. The library is loaded when a world uses it: so a weft that was built with NCCL runs on machines
 * without, and starts as fast there. */
#ifndef WEFT_SRC_COMM_NCCL_LIBRARY_H
#define WEFT_SRC_COMM_NCCL_LIBRARY_H

#include <nccl.h>

#include "runtime/runtime.h"

#define WEFT_NCCL_FUNCTIONS(each)                                                                                            \
    each(GetUniqueId) each(CommInitRankConfig) each(CommGetAsyncError) each(CommAbort) each(CommDestroy)                     \
    each(GetErrorString) each(GroupStart) each(GroupEnd) each(Send) each(Recv)

typedef struct weft_nccl_library {
    void *handle;
#define WEFT_NCCL_POINTER(name) __typeof__(nccl##name) *name;
    WEFT_NCCL_FUNCTIONS(WEFT_NCCL_POINTER)
#undef WEFT_NCCL_POINTER
} weft_nccl_library;

/* False with `why`: there is none, or one without these functions. */
bool weft_nccl_load(weft_nccl_library *library, char *why, size_t size);
void weft_nccl_unload(weft_nccl_library *library);

#endif
