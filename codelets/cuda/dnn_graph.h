/* Graphs of operations for cuDNN, and plans, which compute them. Functions that fail keep the first status in the graph, and all
 * later ones do nothing. */
#ifndef WEFT_CODELETS_CUDA_DNN_GRAPH_H
#define WEFT_CODELETS_CUDA_DNN_GRAPH_H

#include <stdint.h>

#include "codelets/cuda/dnn_library.h"

enum { WEFT_DNN_DIMS = 4, WEFT_DNN_OPERATIONS = 32, WEFT_DNN_DESCRIPTORS = 160, WEFT_DNN_ARGUMENTS = 16 };

/* Sizes, and strides in elements, of a tensor; all tensors have four dimensions. */
typedef struct weft_dnn_layout {
    cudnnDataType_t type;
    int64_t shape[WEFT_DNN_DIMS], strides[WEFT_DNN_DIMS];
} weft_dnn_layout;

/* A tensor of a graph. */
typedef struct weft_dnn_tensor {
    cudnnBackendDescriptor_t descriptor;
    weft_dnn_layout layout;
} weft_dnn_tensor;

typedef struct weft_dnn_graph {
    const weft_dnn_library *library;
    cudnnStatus_t status; /* the first one that was not CUDNN_STATUS_SUCCESS */
    /* All that were made, which live as long as the plan; and those of the operations. */
    cudnnBackendDescriptor_t made[WEFT_DNN_DESCRIPTORS], operations[WEFT_DNN_OPERATIONS];
    int num_made, num_operations;
    bool all_aligned;       /* stored tensors are at multiples of 16 bytes, also those of one column */
    bool keeps_precision;   /* no plan that rounds inputs of single precision to TF32 or less, or multiplies rounding errors */
    int64_t next_virtual;   /* number of the next tensor that is never stored */
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes; /* of the plan */
} weft_dnn_graph;

/* A contiguous tensor, row-major. */
weft_dnn_layout weft_dnn_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d);

void weft_dnn_begin(weft_dnn_graph *graph, const weft_dnn_library *library);
/* Also after a failure. */
void weft_dnn_end(weft_dnn_graph *graph);

/* A tensor in device memory, at an address that is a multiple of 16 (4 if it has one column); `id`, more than 0, names it where the plan is executed. */
weft_dnn_tensor weft_dnn_stored(weft_dnn_graph *graph, int64_t id, weft_dnn_layout layout);
/* A number, which lies in main memory where the plan is executed. */
weft_dnn_tensor weft_dnn_number(weft_dnn_graph *graph, int64_t id, cudnnDataType_t type);
/* A tensor between two operations. */
weft_dnn_tensor weft_dnn_between(weft_dnn_graph *graph, weft_dnn_layout layout);

/* Operations. Each writes into `result`. */
void weft_dnn_multiply(weft_dnn_graph *graph, weft_dnn_tensor a, weft_dnn_tensor b, weft_dnn_tensor result);
/* `b` and `selects` may be NULL. */
void weft_dnn_apply_to(weft_dnn_graph *graph, cudnnPointwiseMode_t mode, weft_dnn_tensor a, const weft_dnn_tensor *b,
                       const weft_dnn_tensor *selects, weft_dnn_tensor result);
/* The same into a new tensor between operations, of a's sizes and in single precision. */
weft_dnn_tensor weft_dnn_apply(weft_dnn_graph *graph, cudnnPointwiseMode_t mode, weft_dnn_tensor a, const weft_dnn_tensor *b);
/* The index along a dimension of each element of a tensor, as CUDNN_DATA_INT32. */
weft_dnn_tensor weft_dnn_index(weft_dnn_graph *graph, weft_dnn_tensor a, int64_t dimension);
void weft_dnn_reduce(weft_dnn_graph *graph, cudnnReduceTensorOp_t by, weft_dnn_tensor a, weft_dnn_tensor result);
/* The elements of `a` in another order of dimensions. */
void weft_dnn_reshape(weft_dnn_graph *graph, weft_dnn_tensor a, weft_dnn_tensor result);

/* The forward convolution of x [n, c, h, w] with weights [o, c / groups, i, j], to [n, o, y, z]; the gradient of x (backward_data); or
 * that of the weights (backward_filter). */
typedef enum weft_dnn_convolved {
    WEFT_DNN_CONVOLVE_FORWARD,
    WEFT_DNN_CONVOLVE_BACKWARD_DATA,
    WEFT_DNN_CONVOLVE_BACKWARD_FILTER
} weft_dnn_convolved;
typedef struct weft_dnn_filter {
    int64_t stride[2], padding[2], dilation[2]; /* of h and w; the padding on either side */
} weft_dnn_filter;
/* `computed` is written. */
void weft_dnn_convolve(weft_dnn_graph *graph, weft_dnn_convolved computed, const weft_dnn_filter *filter, weft_dnn_tensor x,
                       weft_dnn_tensor weights, weft_dnn_tensor result);

/* The device that a plan is made for: the current one, given by a handle, or one described in JSON, which need not be present (a plan
 * that is only inspected). */
typedef struct weft_dnn_target {
    cudnnHandle_t handle;
    const char *device;
} weft_dnn_target;

/* Chooses the first of cuDNN's proposals that can be used, that gives equal bits for equal calls, and that needs no more than so
 * many bytes of workspace. CUDNN_STATUS_NOT_SUPPORTED: there is none. */
cudnnStatus_t weft_dnn_plan(weft_dnn_graph *graph, const weft_dnn_target *target, int64_t most_bytes);

/* The addresses of stored tensors and numbers, by their `id`. */
typedef struct weft_dnn_arguments {
    int count;
    int64_t ids[WEFT_DNN_ARGUMENTS];
    const void *pointers[WEFT_DNN_ARGUMENTS];
} weft_dnn_arguments;

/* NULL: the graph has no such tensor. */
void weft_dnn_add(weft_dnn_arguments *arguments, int64_t id, const void *pointer);

/* Enqueues the plan on the handle's stream. */
cudnnStatus_t weft_dnn_execute(const weft_dnn_graph *graph, cudnnHandle_t handle, const weft_dnn_arguments *arguments, void *workspace);

#endif
