/* Sums of products by equations; medians, quantiles and covariances: products.h, reductions.h. */
#include "calls.h"

/* The same list as in table_equations.py. */
static const char *const equations[] = {
    "ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij->", "i,j->ij", "ij,ij->ij", "ij,ij->",
    "ij,jk,kl->il", "bi,ij,bj->b", "...ij,...jk->...ik", "i...,i...->...", "abc,cd,bd->a", "iij,ji->i",
    "aij,bjk->abik", "ij,kl->ikjl", "ba,ca",
};

CALL(einsum)
{
    const char *equation = equations[oracle_whole(c, "equation")];
    int count = 1;
    for (const char *at = equation; *at != '\0'; at++) {
        count += *at == ',';
    }
    return weft_einsum(equation, count, in);
}

CALL(tensordot)
{
    int64_t values[2][WEFT_MAX_DIMS];
    int dims[2][WEFT_MAX_DIMS], count = oracle_list(c, "dims", values[0]);
    oracle_list(c, "others", values[1]);
    for (int i = 0; i < count; i++) {
        dims[0][i] = (int)values[0][i];
        dims[1][i] = (int)values[1][i];
    }
    return weft_tensordot(in[0], in[1], count, dims[0], dims[1]);
}

CALL_SEVERAL(median)
{
    return weft_median(in[0], (int)oracle_whole(c, "dim"), oracle_keepdim(c), &out[1]);
}

CALL(quantile)
{
    return weft_quantile(in[0], oracle_number(c, "q"), (int)oracle_whole(c, "dim"), oracle_keepdim(c),
                         (weft_quantile_way)oracle_whole(c, "way"));
}

CALL(cov)
{
    return weft_cov(in[0], (double)oracle_whole(c, "correction"));
}

const oracle_operation oracle_equation_operations[] = {
    CALLED(einsum, ORDER),
    CALLED(tensordot, ORDER),
    SEVERAL(median, EXACT),
    CALLED(quantile, ROUNDINGS),
    CALLED(cov, ORDER),
    { .name = NULL },
};
