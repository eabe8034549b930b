/* Graphs of convolutions. */
#ifndef WEFT_CODELETS_CUDA_DNN_CONVOLUTION_H
#define WEFT_CODELETS_CUDA_DNN_CONVOLUTION_H

#include "codelets/cuda/dnn.h"
#include "codelets/cuda/dnn_graph.h"

/* Stored tensors of the graphs. */
enum { WEFT_DNN_X = 1, WEFT_DNN_WEIGHTS, WEFT_DNN_CONVOLVED };

/* All of it is the key under which a plan is kept. */
typedef struct weft_dnn_convolution_sizes {
    int64_t computed; /* weft_dnn_convolved */
    int64_t type;     /* of the other two: WEFT_F32, WEFT_BF16 or WEFT_F16 */
    int64_t narrow;   /* the computed one has the type, too; else WEFT_F32 */
    int64_t x[WEFT_DNN_DIMS], weights[WEFT_DNN_DIMS], result[WEFT_DNN_DIMS];
    weft_dnn_filter filter;
    int64_t tf32; /* inputs of single precision may be rounded */
} weft_dnn_convolution_sizes;

void weft_dnn_convolution_graph(weft_dnn_graph *graph, const void *sizes);

#endif
