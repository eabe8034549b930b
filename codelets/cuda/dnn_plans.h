/* A queue's cuDNN handle, the plans that it has made, and their workspace. */
#ifndef WEFT_CODELETS_CUDA_DNN_PLANS_H
#define WEFT_CODELETS_CUDA_DNN_PLANS_H

#include "codelets/cuda/dnn.h"
#include "codelets/cuda/dnn_graph.h"

/* Which graph a plan computes. */
typedef enum weft_dnn_kind { WEFT_DNN_FORWARD, WEFT_DNN_BACKWARD, WEFT_DNN_CONVOLUTION, WEFT_DNN_KINDS } weft_dnn_kind;

/* Sizes under which a plan is kept: `bytes` bytes of numbers, no more than WEFT_DNN_MOST_SIZES of them. `describe` adds the
 * operations to a graph. */
enum { WEFT_DNN_MOST_SIZES = 32 };
typedef struct weft_dnn_asked {
    weft_dnn_kind kind;
    const void *sizes;
    size_t bytes;
    void (*describe)(weft_dnn_graph *graph, const void *sizes);
} weft_dnn_asked;

typedef struct weft_dnn weft_dnn;

/* The queue's, made by the first call. NULL: cuDNN cannot be used. */
weft_dnn *weft_dnn_of(weft_cuda_queue *queue);

/* The plan for these sizes, made when it is first asked for. NULL: cuDNN has none, or the queue keeps 256 of this kind. */
const weft_dnn_graph *weft_dnn_plan_of(weft_dnn *dnn, const weft_dnn_asked *asked);

/* Whether its gradients of a type have been checked, and were right (dnn_check.h). */
typedef enum weft_dnn_trust { WEFT_DNN_UNKNOWN, WEFT_DNN_RIGHT, WEFT_DNN_WRONG } weft_dnn_trust;
weft_dnn_trust *weft_dnn_trust_of(weft_dnn *dnn, int64_t type);
/* Forgets later runs: those of the check. */
void weft_dnn_set_runs(weft_dnn *dnn, int64_t runs);

/* cuDNN's: 91900 is 9.19.0. */
size_t weft_dnn_version(const weft_dnn *dnn);
/* Bytes of workspace that an operation may ask for. */
size_t weft_dnn_most_bytes(const weft_dnn *dnn);
/* Device memory of at least so many bytes, the same for all operations of the queue, as these follow each other. NULL: no memory. */
void *weft_dnn_workspace(weft_dnn *dnn, size_t bytes);

/* Enqueues a plan on the queue's stream. */
bool weft_dnn_run(weft_dnn *dnn, weft_cuda_queue *queue, const weft_dnn_graph *plan, const weft_dnn_arguments *arguments, void *workspace);

#endif
