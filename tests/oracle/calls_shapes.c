/* Operations that move elements: shapes.h. */
#include "calls.h"

#include "ops/backward.h"

/* ---- calls with attributes ----------------------------------------------------------------------------- */

static int dim(const oracle_case *c, const char *name)
{
    return (int)oracle_whole(c, name);
}

CALL(flatten)
{
    return weft_flatten(in[0], dim(c, "first"), dim(c, "last"));
}

CALL(unflatten)
{
    int64_t sizes[WEFT_MAX_DIMS];
    int count = oracle_list(c, "sizes", sizes);
    return weft_unflatten(in[0], dim(c, "dim"), count, sizes);
}

CALL(squeeze_all)
{
    (void)c;
    return weft_squeeze(in[0], WEFT_ALL_DIMS);
}

CALL(squeeze)
{
    return weft_squeeze(in[0], dim(c, "dim"));
}

CALL(unsqueeze)
{
    return weft_unsqueeze(in[0], dim(c, "dim"));
}

CALL(transpose)
{
    return weft_transpose(in[0], dim(c, "dim0"), dim(c, "dim1"));
}

CALL(permute)
{
    int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
    return weft_permute(in[0], count, dims);
}

CALL(movedim)
{
    return weft_movedim(in[0], 1, (const int[]){ dim(c, "from") }, (const int[]){ dim(c, "to") });
}

CALL(expand)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = oracle_list(c, "shape", shape);
    return weft_expand(in[0], ndim, shape);
}

CALL(sum_to)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = oracle_list(c, "shape", shape);
    return weft_sum_to(in[0], ndim, shape);
}

CALL(slice)
{
    return weft_slice(in[0], dim(c, "dim"), oracle_whole(c, "start"), oracle_whole(c, "stop"), 1);
}

CALL(slice_step)
{
    return weft_slice(in[0], dim(c, "dim"), oracle_whole(c, "start"), oracle_whole(c, "stop"),
                           oracle_whole(c, "step"));
}

CALL(slice_backward)
{
    return weft_slice_backward(in[0], dim(c, "dim"), oracle_whole(c, "size"), oracle_whole(c, "start"),
                               oracle_whole(c, "stop"), oracle_whole(c, "step"));
}

CALL(select)
{
    return weft_select(in[0], dim(c, "dim"), oracle_whole(c, "index"));
}

CALL(flip)
{
    int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
    return weft_flip(in[0], count, dims);
}

CALL(roll)
{
    return weft_roll(in[0], oracle_whole(c, "shift"), dim(c, "dim"));
}

CALL(cat)
{
    return weft_cat(c->num_inputs, in, dim(c, "dim"));
}

CALL(stack)
{
    return weft_stack(c->num_inputs, in, dim(c, "dim"));
}

CALL_SEVERAL(split)
{
    int64_t sizes[WEFT_MAX_DIMS];
    int count = oracle_list(c, "sizes", sizes);
    weft_split(in[0], count, sizes, dim(c, "dim"), out);
    return out[0];
}

CALL_SEVERAL(chunk)
{
    return weft_chunk(in[0], dim(c, "chunks"), dim(c, "dim"), out) == oracle_results(c) ? out[0] : NULL;
}

CALL(tril)
{
    return weft_tril(in[0], oracle_whole(c, "diagonal"));
}

CALL(triu)
{
    return weft_triu(in[0], oracle_whole(c, "diagonal"));
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const oracle_operation oracle_shape_operations[] = {
    CALLED(flatten, EXACT),    CALLED(unflatten, EXACT),
    CALLED(squeeze, EXACT),    CALLED(squeeze_all, EXACT),
    CALLED(unsqueeze, EXACT),  CALLED(transpose, EXACT),
    CALLED(permute, EXACT),    CALLED(movedim, EXACT),
    CALLED(expand, EXACT),     CALLED(sum_to, ORDER),
    CALLED(slice, EXACT),      CALLED(select, EXACT),
    CALLED(slice_step, EXACT), CALLED(slice_backward, EXACT),
    CALLED(flip, EXACT),       CALLED(roll, EXACT),
    CALLED(cat, EXACT),        CALLED(stack, EXACT),
    SEVERAL(split, EXACT),     SEVERAL(chunk, EXACT),
    CALLED(tril, EXACT),       CALLED(triu, EXACT),
    { .name = NULL },
};
