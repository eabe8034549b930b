/* Vectors of norm 1, cosines, norms of matrices, gates: nn.h. */
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

const oracle_operation oracle_normalize_operations[] = {
    CALLED(normalize, ORDER),
    CALLED(cosine_similarity, ORDER),
    CALLED(matrix_norm, ORDER),
    CALLED(glu, ROUNDINGS),
    BINARY(prelu, EXACT),
    { .name = NULL },
};
