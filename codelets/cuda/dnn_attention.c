/* Attention's graphs, as cuDNN's fused kernels know them. */
#include "codelets/attention.h"
#include "codelets/cuda/dnn_attention.h"

/* ---- parts of graphs ----------------------------------------------------------------------------------- */

cudnnDataType_t weft_dnn_type(const weft_dnn_sizes *sizes)
{
    return sizes->type == WEFT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

weft_dnn_layout weft_dnn_heads(cudnnDataType_t type, int64_t heads, int64_t rows, int64_t columns, int64_t step)
{
    return (weft_dnn_layout){ type, { 1, heads, rows, columns }, { heads * step, step, columns, 1 } };
}

weft_dnn_layout weft_dnn_transposed(weft_dnn_layout layout)
{
    return (weft_dnn_layout){ layout.type,
                              { layout.shape[0], layout.shape[1], layout.shape[3], layout.shape[2] },
                              { layout.strides[0], layout.strides[1], layout.strides[3], layout.strides[2] } };
}

weft_dnn_tensor weft_dnn_mask(weft_dnn_graph *graph, const weft_dnn_sizes *sizes, weft_dnn_tensor scores)
{
    if (!sizes->causal) {
        return scores;
    }
    weft_dnn_tensor row = weft_dnn_index(graph, scores, 2), key = weft_dnn_index(graph, scores, 3);
    if (sizes->shifted) {
        const weft_dnn_tensor shift = weft_dnn_number(graph, WEFT_DNN_SHIFT, CUDNN_DATA_INT32);
        weft_dnn_tensor moved = weft_dnn_between(graph, row.layout);
        weft_dnn_apply_to(graph, CUDNN_POINTWISE_ADD, row, &shift, NULL, moved);
        row = moved;
    }
    weft_dnn_layout truth = scores.layout;
    truth.type = CUDNN_DATA_BOOLEAN;
    const weft_dnn_tensor sees = weft_dnn_between(graph, truth), masked = weft_dnn_number(graph, WEFT_DNN_MASKED, CUDNN_DATA_FLOAT);
    weft_dnn_apply_to(graph, CUDNN_POINTWISE_CMP_GE, row, &key, NULL, sees);
    weft_dnn_tensor result = weft_dnn_between(graph, scores.layout);
    weft_dnn_apply_to(graph, CUDNN_POINTWISE_BINARY_SELECT, scores, &masked, &sees, result);
    return result;
}

/* ---- forward ------------------------------------------------------------------------------------------- */

void weft_dnn_forward_graph(weft_dnn_graph *graph, const void *sizes)
{
    const weft_dnn_sizes *s = sizes;
    const int64_t heads = s->groups * s->shared;
    const cudnnDataType_t type = weft_dnn_type(s);
    const weft_dnn_layout of_scores = weft_dnn_dense(CUDNN_DATA_FLOAT, 1, heads, s->rows, s->keys);
    const weft_dnn_layout of_rows = weft_dnn_heads(CUDNN_DATA_FLOAT, heads, s->rows, 1, s->row_step);
    weft_dnn_tensor q = weft_dnn_stored(graph, WEFT_DNN_Q, weft_dnn_heads(type, heads, s->rows, s->depth, s->q_step));
    weft_dnn_tensor k = weft_dnn_stored(graph, WEFT_DNN_K, weft_dnn_transposed(weft_dnn_heads(type, s->groups, s->keys, s->depth, s->k_step)));
    weft_dnn_tensor v = weft_dnn_stored(graph, WEFT_DNN_V, weft_dnn_heads(type, s->groups, s->keys, s->width, s->v_step));
    weft_dnn_tensor result = weft_dnn_stored(graph, WEFT_DNN_RESULT, weft_dnn_heads(type, heads, s->rows, s->width, s->result_step));
    const weft_dnn_tensor scale = weft_dnn_number(graph, WEFT_DNN_SCALE, CUDNN_DATA_FLOAT);

    weft_dnn_tensor scores = weft_dnn_between(graph, of_scores);
    weft_dnn_multiply(graph, q, k, scores);
    scores = weft_dnn_mask(graph, s, weft_dnn_apply(graph, CUDNN_POINTWISE_MUL, scores, &scale));

    /* cuDNN knows softmax by these operations, those of the log-sums among them, stored or not. */
    const weft_dnn_tensor largest = weft_dnn_between(graph, of_rows);
    weft_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, scores, largest);
    weft_dnn_tensor weights = weft_dnn_apply(graph, CUDNN_POINTWISE_SUB, scores, &largest);
    weights = weft_dnn_apply(graph, CUDNN_POINTWISE_EXP, weights, NULL);
    const weft_dnn_tensor sum = weft_dnn_between(graph, of_rows);
    weft_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, weights, sum);
    const weft_dnn_tensor logarithm = weft_dnn_apply(graph, CUDNN_POINTWISE_LOG, sum, NULL);
    weft_dnn_tensor log_sums = s->stores ? weft_dnn_stored(graph, WEFT_DNN_LOG_SUMS, of_rows) : weft_dnn_between(graph, of_rows);
    weft_dnn_apply_to(graph, CUDNN_POINTWISE_ADD, largest, &logarithm, NULL, log_sums);
    weft_dnn_layout rounded = of_scores;
    rounded.type = type;
    weft_dnn_tensor shares = weft_dnn_between(graph, rounded);
    weft_dnn_apply_to(graph, CUDNN_POINTWISE_DIV, weights, &sum, NULL, shares);
    weft_dnn_multiply(graph, shares, v, result);
}

/* ---- backward ------------------------------------------------------------------------------------------ */

/* The matrices that the scores and the gradients have in common. */
typedef struct inputs {
    int64_t heads;
    weft_dnn_layout of_scores, rounded, of_rows; /* rounded: transposed scores in 16 bits */
    weft_dnn_tensor q, k, v, gradient, scale;    /* k and v transposed */
} inputs;

static inputs backward_inputs(weft_dnn_graph *graph, const weft_dnn_sizes *s)
{
    const cudnnDataType_t type = weft_dnn_type(s);
    inputs in = { .heads = s->groups * s->shared };
    in.of_scores = weft_dnn_dense(CUDNN_DATA_FLOAT, 1, in.heads, s->rows, s->keys);
    in.rounded = weft_dnn_transposed(in.of_scores);
    in.rounded.type = type;
    in.of_rows = weft_dnn_dense(CUDNN_DATA_FLOAT, 1, in.heads, s->rows, 1);
    in.q = weft_dnn_stored(graph, WEFT_DNN_Q, weft_dnn_heads(type, in.heads, s->rows, s->depth, s->q_step));
    in.k = weft_dnn_stored(graph, WEFT_DNN_K, weft_dnn_transposed(weft_dnn_heads(type, s->groups, s->keys, s->depth, s->k_step)));
    in.v = weft_dnn_stored(graph, WEFT_DNN_V, weft_dnn_transposed(weft_dnn_heads(type, s->groups, s->keys, s->width, s->v_step)));
    in.gradient = weft_dnn_stored(graph, WEFT_DNN_GRADIENT, weft_dnn_heads(type, in.heads, s->rows, s->width, s->result_step));
    in.scale = weft_dnn_number(graph, WEFT_DNN_SCALE, CUDNN_DATA_FLOAT);
    return in;
}

/* The product of each row of the result and its gradient. cuDNN knows this chain, multiplication by 1 included, and that its gradient
 * is the one that is multiplied by v: with another tensor in its place it computes both from that one. */
static weft_dnn_tensor row_products(weft_dnn_graph *graph, const weft_dnn_sizes *s, const inputs *in)
{
    const weft_dnn_layout matrices = weft_dnn_heads(weft_dnn_type(s), in->heads, s->rows, s->width, s->rows * s->width);
    const weft_dnn_tensor result = weft_dnn_stored(graph, WEFT_DNN_RESULT, matrices), one = weft_dnn_number(graph, WEFT_DNN_ONE, CUDNN_DATA_FLOAT);
    const weft_dnn_tensor sums = weft_dnn_between(graph, in->of_rows), products = weft_dnn_stored(graph, WEFT_DNN_PRODUCTS, in->of_rows);
    weft_dnn_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, weft_dnn_apply(graph, CUDNN_POINTWISE_MUL, in->gradient, &result), sums);
    weft_dnn_apply_to(graph, CUDNN_POINTWISE_MUL, sums, &one, NULL, products);
    return products;
}

/* e^(score - log-sum) */
static weft_dnn_tensor row_weights(weft_dnn_graph *graph, const weft_dnn_sizes *s, const inputs *in)
{
    const weft_dnn_tensor log_sums = weft_dnn_stored(graph, WEFT_DNN_LOG_SUMS, in->of_rows);
    weft_dnn_tensor scores = weft_dnn_between(graph, in->of_scores);
    weft_dnn_multiply(graph, in->q, in->k, scores);
    scores = weft_dnn_apply(graph, CUDNN_POINTWISE_MUL, scores, &in->scale);
    scores = weft_dnn_apply(graph, CUDNN_POINTWISE_SUB, scores, &log_sums);
    return weft_dnn_apply(graph, CUDNN_POINTWISE_EXP, weft_dnn_mask(graph, s, scores), NULL);
}

/* A matrix of each head's keys: scores^T by a matrix of its rows. */
static void multiply_transposed(weft_dnn_graph *graph, const inputs *in, weft_dnn_tensor scores, weft_dnn_tensor by, int64_t id,
                                weft_dnn_layout layout)
{
    const weft_dnn_tensor transposed = weft_dnn_between(graph, in->rounded);
    weft_dnn_reshape(graph, scores, transposed);
    weft_dnn_multiply(graph, transposed, by, weft_dnn_stored(graph, id, layout));
}

/* In 16 bits: cuDNN 9 takes a graph with gradients in single precision, and writes 16 bits into them. */
static weft_dnn_layout of_keys(const weft_dnn_sizes *s, int64_t heads, int64_t columns)
{
    return weft_dnn_heads(weft_dnn_type(s), heads, s->keys, columns, s->keys * columns);
}

void weft_dnn_backward_graph(weft_dnn_graph *graph, const void *sizes)
{
    const weft_dnn_sizes *s = sizes;
    const inputs in = backward_inputs(graph, s);
    const weft_dnn_tensor products = row_products(graph, s, &in), weights = row_weights(graph, s, &in);
    multiply_transposed(graph, &in, weights, in.gradient, WEFT_DNN_OF_V, of_keys(s, in.heads, s->width));

    weft_dnn_tensor slopes = weft_dnn_between(graph, in.of_scores);
    weft_dnn_multiply(graph, in.gradient, in.v, slopes);
    slopes = weft_dnn_apply(graph, CUDNN_POINTWISE_SUB, slopes, &products);
    slopes = weft_dnn_apply(graph, CUDNN_POINTWISE_MUL, slopes, &weights);
    slopes = weft_dnn_apply(graph, CUDNN_POINTWISE_MUL, slopes, &in.scale);
    multiply_transposed(graph, &in, slopes, in.q, WEFT_DNN_OF_K, of_keys(s, in.heads, s->depth));

    weft_dnn_tensor keys = weft_dnn_between(graph, weft_dnn_transposed(in.k.layout));
    weft_dnn_reshape(graph, in.k, keys);
    weft_dnn_multiply(graph, slopes, keys,
                      weft_dnn_stored(graph, WEFT_DNN_OF_Q, weft_dnn_heads(weft_dnn_type(s), in.heads, s->rows, s->depth, s->rows * s->depth)));
}
