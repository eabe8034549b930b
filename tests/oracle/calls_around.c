/* Elements around a tensor, diagonals: shapes.h. */
#include "calls.h"

CALL(pad)
{
    int64_t before[WEFT_MAX_DIMS], after[WEFT_MAX_DIMS];
    int ndim = oracle_list(c, "before", before);
    oracle_list(c, "after", after);
    return weft_pad(in[0], (weft_pad_mode)oracle_whole(c, "mode"), oracle_number(c, "value"), ndim, before, after);
}

CALL(diagonal)
{
    return weft_diagonal(in[0], oracle_whole(c, "offset"), (int)oracle_whole(c, "dim1"), (int)oracle_whole(c, "dim2"));
}

CALL(trace)
{
    (void)c;
    return weft_trace(in[0]);
}

CALL(movedims)
{
    int64_t from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
    int source[WEFT_MAX_DIMS], target[WEFT_MAX_DIMS], num = oracle_list(c, "from", from);
    oracle_list(c, "to", to);
    for (int i = 0; i < num; i++) {
        source[i] = (int)from[i];
        target[i] = (int)to[i];
    }
    return weft_movedim(in[0], num, source, target);
}

const oracle_operation oracle_around_operations[] = {
    CALLED(pad, EXACT),
    CALLED(diagonal, EXACT),
    CALLED(trace, ORDER),
    CALLED(movedims, EXACT),
    { .name = NULL },
};
