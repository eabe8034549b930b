/* Parts of attention's graphs. */
#ifndef WEFT_CODELETS_CUDA_DNN_ATTENTION_H
#define WEFT_CODELETS_CUDA_DNN_ATTENTION_H

#include "codelets/cuda/dnn.h"
#include "codelets/cuda/dnn_graph.h"

/* Stored tensors and numbers of the graphs. MASKED: minus infinity. */
enum {
    WEFT_DNN_Q = 1,
    WEFT_DNN_K,
    WEFT_DNN_V,
    WEFT_DNN_RESULT,
    WEFT_DNN_LOG_SUMS,
    WEFT_DNN_GRADIENT,
    WEFT_DNN_PRODUCTS,
    WEFT_DNN_OF_Q,
    WEFT_DNN_OF_K,
    WEFT_DNN_OF_V,
    WEFT_DNN_SCALE = 20, /* numbers */
    WEFT_DNN_SHIFT,
    WEFT_DNN_MASKED,
    WEFT_DNN_ONE
};

/* The 16-bit type that q, k, v and the results have. */
cudnnDataType_t weft_dnn_type(const weft_dnn_sizes *sizes);
/* Matrices of so many rows and columns, `step` elements from each to the next. */
weft_dnn_layout weft_dnn_heads(cudnnDataType_t type, int64_t heads, int64_t rows, int64_t columns, int64_t step);
/* Rows as columns. */
weft_dnn_layout weft_dnn_transposed(weft_dnn_layout layout);
/* The scores, with others than seen ones replaced by a number. */
weft_dnn_tensor weft_dnn_mask(weft_dnn_graph *graph, const weft_dnn_sizes *sizes, weft_dnn_tensor scores);

/* The graphs, of weft_dnn_sizes. Backward: gradients in the 16-bit type, [heads, rows or keys, depth or width] and contiguous, one for each head of q; the
 * result is one whose rows have the statistics' products with those of its gradient, which are stored, [heads, rows], as are log-sums. In this form, with a gradient of q that is
 * not a sum over tasks of cuDNN's, cuDNN keeps all scores and adds in a fixed order. */
void weft_dnn_forward_graph(weft_dnn_graph *graph, const void *sizes);
void weft_dnn_backward_graph(weft_dnn_graph *graph, const void *sizes);

#endif
