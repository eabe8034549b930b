/* Elements that take others' places, or are combined with them; sums by number: indexing.h. */
#include "calls.h"

static int dim(const oracle_case *c)
{
    return (int)oracle_whole(c, "dim");
}

CALL(scatter)
{
    return weft_scatter(in[0], dim(c), in[1], in[2]);
}

CALL(index_copy)
{
    return weft_index_copy(in[0], dim(c), in[1], in[2]);
}

CALL(scatter_scalar)
{
    return weft_scatter_scalar(in[0], dim(c), in[1], oracle_number(c, "value"));
}

CALL(index_fill)
{
    return weft_index_fill(in[0], dim(c), in[1], oracle_number(c, "value"));
}

CALL(scatter_reduce)
{
    static const weft_reduce_op reductions[] = { WEFT_SUM, WEFT_AVG, WEFT_PROD, WEFT_MIN, WEFT_MAX };
    return weft_scatter_reduce(in[0], dim(c), in[1], in[2], reductions[oracle_whole(c, "reduction")],
                               oracle_whole(c, "include_self") != 0);
}

CALL(segment_sum)
{
    return weft_segment_sum(in[0], in[1], oracle_whole(c, "num_segments"));
}

CALL(bincount)
{
    return weft_bincount(in[0], NULL, oracle_whole(c, "num_bins"));
}

CALL(bincount_weighted)
{
    return weft_bincount(in[0], in[1], oracle_whole(c, "num_bins"));
}

CALL(histogram)
{
    return weft_histogram(in[0], oracle_whole(c, "num_bins"), oracle_number(c, "low"), oracle_number(c, "high"));
}

const oracle_operation oracle_scatter_operations[] = {
    CALLED(scatter, EXACT),         CALLED(index_copy, EXACT),        CALLED(scatter_scalar, EXACT),
    CALLED(index_fill, EXACT),      CALLED(scatter_reduce, ORDER),    CALLED(segment_sum, ORDER),
    CALLED(bincount, EXACT),        CALLED(bincount_weighted, ORDER), CALLED(histogram, EXACT),
    { .name = NULL },
};
