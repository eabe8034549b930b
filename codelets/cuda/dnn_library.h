/* cuDNN's functions. The library is opened when a device first needs it, so a weft that was built with cuDNN's headers runs on
 * machines without the library. Only the graph interface ("backend") is used: an operation is described as a list of products,
 * elementwise functions and reductions, and cuDNN chooses the kernel that computes them as one. */
#ifndef WEFT_CODELETS_CUDA_DNN_LIBRARY_H
#define WEFT_CODELETS_CUDA_DNN_LIBRARY_H

#include <cudnn_graph.h>
#include <stdbool.h>
#include <stddef.h>

#define WEFT_DNN_FUNCTIONS(each)                                                                             \
    each(Create) each(Destroy) each(SetStream) each(GetVersion) each(BackendCreateDescriptor)                \
    each(BackendDestroyDescriptor) each(BackendFinalize) each(BackendSetAttribute) each(BackendGetAttribute) \
    each(BackendExecute)

typedef struct weft_dnn_library {
    void *handle;
#define WEFT_DNN_POINTER(name) __typeof__(cudnn##name) *name;
    WEFT_DNN_FUNCTIONS(WEFT_DNN_POINTER)
#undef WEFT_DNN_POINTER
} weft_dnn_library;

/* False with `why`: there is none, or one that cannot be used. */
bool weft_dnn_load(weft_dnn_library *library, char *why, size_t size);
void weft_dnn_unload(weft_dnn_library *library);

#endif
