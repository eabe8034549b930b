/* Vectors of norm 1, cosines, norms of matrices, gates, normalisation of channels: nn.h. */
#include "calls.h"

static int dim(const oracle_case *c)
{
    return (int)oracle_whole(c, "dim");
}

CALL(normalize)
{
    return weft_normalize(in[0], oracle_number(c, "p"), dim(c), oracle_number(c, "epsilon"));
}

CALL(cosine_similarity)
{
    return weft_cosine_similarity(in[0], in[1], dim(c), oracle_number(c, "epsilon"));
}

CALL(matrix_norm)
{
    return weft_matrix_norm(in[0], (weft_matrix_norm_kind)oracle_whole(c, "kind"), oracle_keepdim(c));
}

CALL(glu)
{
    return weft_glu(in[0], dim(c));
}

/* ---- channels ------------------------------------------------------------------------------------------ */

/* Behind a: the gain, and the bias, where the case has them. \{ */
static weft_tensor *gain_of(const oracle_case *c, weft_tensor *const in[])
{
    return oracle_whole(c, "gain") ? in[1] : NULL;
}

static weft_tensor *bias_of(const oracle_case *c, weft_tensor *const in[])
{
    return oracle_whole(c, "bias") ? in[1 + oracle_whole(c, "gain")] : NULL;
}
/* \} */

/* Running statistics from 1 and 2, which are further results. */
CALL_SEVERAL(batch_norm)
{
    weft_mesh *mesh = weft_tensor_mesh(in[0]);
    int64_t channels = weft_tensor_size(in[0], 1);
    weft_dtype dtype = weft_tensor_dtype(in[0]) == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    bool more = oracle_results(c) > 1;
    if (more) {
        out[1] = weft_full(dtype, 1, 1, &channels, mesh, NULL);
        out[2] = weft_full(dtype, 2, 1, &channels, mesh, NULL);
    }
    return weft_batch_norm(in[0], more ? out[1] : NULL, more ? out[2] : NULL, gain_of(c, in), bias_of(c, in), true, 0.25,
                           oracle_number(c, "epsilon"));
}

CALL(batch_norm_alone)
{
    return weft_batch_norm(in[0], NULL, NULL, gain_of(c, in), bias_of(c, in), true, 0.25, oracle_number(c, "epsilon"));
}

CALL(batch_norm_of_running)
{
    int64_t vectors = 1 + oracle_whole(c, "gain") + oracle_whole(c, "bias");
    return weft_batch_norm(in[0], in[vectors], in[vectors + 1], gain_of(c, in), bias_of(c, in), false, 0,
                           oracle_number(c, "epsilon"));
}

CALL(group_norm)
{
    return weft_group_norm(in[0], oracle_whole(c, "groups"), gain_of(c, in), bias_of(c, in), oracle_number(c, "epsilon"));
}

CALL(instance_norm)
{
    return weft_instance_norm(in[0], gain_of(c, in), bias_of(c, in), oracle_number(c, "epsilon"));
}

const oracle_operation oracle_normalize_operations[] = {
    CALLED(normalize, ORDER),
    CALLED(cosine_similarity, ORDER),
    CALLED(matrix_norm, ORDER),
    CALLED(glu, ROUNDINGS),
    BINARY(prelu, EXACT),
    SEVERAL(batch_norm, ORDER),
    CALLED(batch_norm_alone, ORDER),
    CALLED(batch_norm_of_running, ORDER),
    CALLED(group_norm, ORDER),
    CALLED(instance_norm, ORDER),
    { .name = NULL },
};
