/* Pooling and interpolation: images.h. */
#include "calls.h"

static weft_pooling options_of(const oracle_case *c, bool averages)
{
    weft_pooling options = { .ceil_mode = oracle_whole(c, "ceil") };
    oracle_list(c, "kernel", options.kernel);
    oracle_list(c, "stride", options.stride);
    oracle_list(c, "padding", options.padding);
    oracle_list(c, "dilation", options.dilation);
    if (averages) {
        options.excludes_padding = oracle_whole(c, "excludes");
        options.divisor = oracle_whole(c, "divisor");
    }
    return options;
}

CALL_SEVERAL(max_pool)
{
    weft_pooling options = options_of(c, false);
    return weft_max_pool(in[0], (int)oracle_whole(c, "dims"), &options, &out[1]);
}

CALL(avg_pool)
{
    weft_pooling options = options_of(c, true);
    return weft_avg_pool(in[0], (int)oracle_whole(c, "dims"), &options);
}

CALL_SEVERAL(adaptive_max_pool)
{
    int64_t sizes[WEFT_MAX_DIMS];
    int dims = oracle_list(c, "sizes", sizes);
    return weft_adaptive_max_pool(in[0], dims, sizes, &out[1]);
}

CALL(adaptive_avg_pool)
{
    int64_t sizes[WEFT_MAX_DIMS];
    int dims = oracle_list(c, "sizes", sizes);
    return weft_adaptive_avg_pool(in[0], dims, sizes);
}

CALL(interpolate)
{
    weft_interpolation options = { .mode = (weft_interpolation_mode)oracle_whole(c, "mode"),
                                   .align_corners = oracle_whole(c, "align") };
    int64_t quarters[WEFT_MAX_DIMS];
    int dims = oracle_list(c, "sizes", options.sizes);
    oracle_list(c, "quarters", quarters);
    for (int d = 0; d < dims; d++) {
        options.scale[d] = (double)quarters[d] / 4;
    }
    return weft_interpolate(in[0], dims, &options);
}

const oracle_operation oracle_image_operations[] = {
    SEVERAL(max_pool, EXACT),
    CALLED(avg_pool, ORDER),
    SEVERAL(adaptive_max_pool, EXACT),
    CALLED(adaptive_avg_pool, ORDER),
    { .name = "interpolate_nearest", .call = call_interpolate, EXACT },
    CALLED(interpolate, ORDER),
    { .name = NULL },
};
