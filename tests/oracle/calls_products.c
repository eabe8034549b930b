/* Products, convolutions, attention: products.h. */
#include "calls.h"

#include "ops/backward.h"

CALL(addmm)
{
    return weft_addmm(in[0], in[1], in[2], oracle_number(c, "beta"), oracle_number(c, "alpha"));
}

CALL(linear)
{
    return weft_linear(in[0], in[1], c->num_inputs > 2 ? in[2] : NULL);
}

static weft_convolution convolution(const oracle_case *c)
{
    weft_convolution options = { .groups = oracle_whole(c, "groups") };
    oracle_list(c, "stride", options.stride);
    oracle_list(c, "padding", options.padding);
    oracle_list(c, "dilation", options.dilation);
    return options;
}

/* A convolution, and the gradients of its input and its weights. */
#define CONVOLUTION(name)                                                                                    \
    CALL(name)                                                                                               \
    {                                                                                                        \
        weft_convolution options = convolution(c);                                                           \
        return weft_##name(in[0], in[1], c->num_inputs > 2 ? in[2] : NULL, &options);                        \
    }
#define GRADIENT(name)                                                                                       \
    CALL(name)                                                                                               \
    {                                                                                                        \
        weft_convolution options = convolution(c);                                                           \
        int64_t shape[WEFT_MAX_DIMS];                                                                        \
        oracle_list(c, "shape", shape);                                                                      \
        return weft_##name(in[0], in[1], shape, &options);                                                   \
    }

CONVOLUTION(conv2d)
CONVOLUTION(conv1d)

static weft_convolution3d convolution3d(const oracle_case *c)
{
    weft_convolution3d options = { .groups = oracle_whole(c, "groups") };
    oracle_list(c, "stride", options.stride);
    oracle_list(c, "padding", options.padding);
    oracle_list(c, "dilation", options.dilation);
    return options;
}

CALL(conv3d)
{
    weft_convolution3d options = convolution3d(c);
    return weft_conv3d(in[0], in[1], c->num_inputs > 2 ? in[2] : NULL, &options);
}

CALL(conv_transpose3d)
{
    weft_convolution3d options = convolution3d(c);
    int64_t more[WEFT_MAX_DIMS];
    oracle_list(c, "output_padding", more);
    return weft_conv_transpose3d(in[0], in[1], c->num_inputs > 2 ? in[2] : NULL, &options, more);
}

GRADIENT(conv2d_backward_input)
GRADIENT(conv2d_backward_weight)
GRADIENT(conv1d_backward_input)
GRADIENT(conv1d_backward_weight)

#define TRANSPOSED(name)                                                                                     \
    CALL(name)                                                                                               \
    {                                                                                                        \
        weft_convolution options = convolution(c);                                                           \
        int64_t more[WEFT_MAX_DIMS];                                                                         \
        oracle_list(c, "output_padding", more);                                                              \
        return weft_##name(in[0], in[1], c->num_inputs > 2 ? in[2] : NULL, &options, more);                  \
    }
TRANSPOSED(conv_transpose2d)
TRANSPOSED(conv_transpose1d)

static weft_attention_options attention_options(const oracle_case *c, weft_tensor *mask)
{
    return (weft_attention_options){
        .causal = oracle_whole(c, "causal"), .scale = oracle_number(c, "scale"), .mask = mask
    };
}

CALL(attention)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 3 ? in[3] : NULL);
    return weft_attention(in[0], in[1], in[2], &options);
}

CALL_SEVERAL(attention_grouped_with_log_sums)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 3 ? in[3] : NULL);
    options.size = sizeof(options);
    options.grouped_heads = true;
    return weft_attention_with_log_sums(in[0], in[1], in[2], &options, &out[1]);
}

CALL(attention_grouped)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 3 ? in[3] : NULL);
    options.size = sizeof(options);
    options.grouped_heads = true;
    return weft_attention(in[0], in[1], in[2], &options);
}

CALL_SEVERAL(attention_backward)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 4 ? in[4] : NULL);
    weft_tensor *output = weft_attention(in[1], in[2], in[3], &options);
    return output == NULL ? NULL : weft_attention_backward(in[0], in[1], in[2], in[3], output, &options, &out[1], &out[2]);
}

CALL_SEVERAL(attention_with_log_sums)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 3 ? in[3] : NULL);
    return weft_attention_with_log_sums(in[0], in[1], in[2], &options, &out[1]);
}

CALL_SEVERAL(attention_backward_with_log_sums)
{
    weft_attention_options options = attention_options(c, c->num_inputs > 4 ? in[4] : NULL);
    weft_tensor *log_sums, *output = weft_attention_with_log_sums(in[1], in[2], in[3], &options, &log_sums);
    return output == NULL ? NULL
                          : weft_attention_backward_with_log_sums(in[0], in[1], in[2], in[3], output, log_sums,
                                                                  &options, &out[1], &out[2]);
}

/* weft_matmul() is with the core. */
const oracle_operation oracle_product_operations[] = {
    BINARY(dot, ORDER),
    BINARY(outer, EXACT),
    CALLED(addmm, ORDER),
    CALLED(linear, ORDER),
    CALLED(conv3d, ORDER),
    CALLED(conv2d, ORDER),
    CALLED(conv1d, ORDER),
    CALLED(conv2d_backward_input, ORDER),
    CALLED(conv2d_backward_weight, ORDER),
    CALLED(conv1d_backward_input, ORDER),
    CALLED(conv1d_backward_weight, ORDER),
    CALLED(conv_transpose3d, ORDER),
    CALLED(conv_transpose2d, ORDER),
    CALLED(conv_transpose1d, ORDER),
    CALLED(attention, ORDER),
    CALLED(attention_grouped, ORDER),
    SEVERAL(attention_grouped_with_log_sums, ORDER),
    SEVERAL(attention_backward, ORDER),
    SEVERAL(attention_with_log_sums, ORDER),
    SEVERAL(attention_backward_with_log_sums, ORDER),
    { .name = NULL },
};
