/* Indices and orders: indexing.h. */
#include "calls.h"

/* ---- calls with attributes ----------------------------------------------------------------------------- */

static int dim(const oracle_case *c)
{
    return (int)oracle_whole(c, "dim");
}

/* One tensor and a dimension; a tensor, indices and, where something is added, a source. */
#define ALONG(name)                                                                                          \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], dim(c));                                                                   \
    }
#define LOOK_UP(name)                                                                                        \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], dim(c), in[1]);                                                            \
    }
#define SCATTER(name)                                                                                        \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], dim(c), in[1], in[2]);                                                     \
    }

ALONG(cumsum)
ALONG(cumprod)
LOOK_UP(index_select)
LOOK_UP(gather)
SCATTER(scatter_add)
SCATTER(scatter_add_inplace)
SCATTER(index_add)
SCATTER(index_add_inplace)

CALL(one_hot)
{
    return weft_one_hot(in[0], oracle_whole(c, "num_classes"));
}

CALL_SEVERAL(sort)
{
    return weft_sort(in[0], dim(c), oracle_whole(c, "descending"), &out[1]);
}

CALL_SEVERAL(max_with_indices)
{
    return weft_max_with_indices(in[0], dim(c), oracle_keepdim(c), &out[1]);
}

CALL_SEVERAL(min_with_indices)
{
    return weft_min_with_indices(in[0], dim(c), oracle_keepdim(c), &out[1]);
}

CALL(argsort)
{
    return weft_argsort(in[0], dim(c), oracle_whole(c, "descending"));
}

CALL_SEVERAL(topk)
{
    return weft_topk(in[0], oracle_whole(c, "k"), dim(c), oracle_whole(c, "largest"), &out[1]);
}

CALL_SEVERAL(cummax)
{
    return weft_cummax(in[0], dim(c), &out[1]);
}

CALL_SEVERAL(cummin)
{
    return weft_cummin(in[0], dim(c), &out[1]);
}

CALL(index_put)
{
    return weft_index_put(in[0], c->num_inputs - 2, in + 2, in[1], oracle_whole(c, "accumulate") != 0);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

#define PLACE(name_)                                                                                         \
    { .name = #name_, .over_dim = weft_##name_ },                                                            \
    {                                                                                                        \
        .name = #name_ "_all", .over_all = weft_##name_                                                      \
    }

const oracle_operation oracle_indexing_operations[] = {
    PLACE(argmax),
    PLACE(argmin),
    CALLED(cumsum, ORDER),
    CALLED(cumprod, ORDER),
    CALLED(index_select, EXACT),
    CALLED(gather, EXACT),
    CALLED(scatter_add, ORDER),
    CALLED(scatter_add_inplace, ORDER),
    CALLED(index_add, ORDER),
    CALLED(index_add_inplace, ORDER),
    CALLED(one_hot, EXACT),
    SEVERAL(cummax, EXACT),
    SEVERAL(cummin, EXACT),
    UNARY(nonzero, EXACT),
    BINARY(masked_select, EXACT),
    CALLED(index_put, ORDER),
    SEVERAL(sort, EXACT),
    CALLED(argsort, EXACT),
    SEVERAL(topk, EXACT),
    SEVERAL(max_with_indices, EXACT),
    SEVERAL(min_with_indices, EXACT),
    { .name = NULL },
};
