/* Convolutions' graphs. */
#include "codelets/cuda/dnn_convolution.h"

static weft_dnn_tensor image(weft_dnn_graph *graph, const weft_dnn_convolution_sizes *s, int64_t id, const int64_t shape[],
                             bool is_computed)
{
    const bool wide = s->type == WEFT_F32 || (is_computed && !s->narrow);
    const cudnnDataType_t type = wide ? CUDNN_DATA_FLOAT : s->type == WEFT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    return weft_dnn_stored(graph, id, weft_dnn_dense(type, shape[0], shape[1], shape[2], shape[3]));
}

void weft_dnn_convolution_graph(weft_dnn_graph *graph, const void *sizes)
{
    const weft_dnn_convolution_sizes *s = sizes;
    graph->all_aligned = true;
    graph->keeps_precision = s->type == WEFT_F32 && !s->tf32;
    const weft_dnn_tensor x = image(graph, s, WEFT_DNN_X, s->x, s->computed == WEFT_DNN_CONVOLVE_BACKWARD_DATA);
    const weft_dnn_tensor weights = image(graph, s, WEFT_DNN_WEIGHTS, s->weights, s->computed == WEFT_DNN_CONVOLVE_BACKWARD_FILTER);
    const weft_dnn_tensor result = image(graph, s, WEFT_DNN_CONVOLVED, s->result, s->computed == WEFT_DNN_CONVOLVE_FORWARD);
    weft_dnn_convolve(graph, (weft_dnn_convolved)s->computed, &s->filter, x, weights, result);
}
