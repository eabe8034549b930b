#include "layout/layout.h"

int64_t weft_box_count(int ndim, const weft_box *box)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        count *= box->extent[d];
    }
    return count;
}

bool weft_box_intersect(int ndim, const weft_box *a, const weft_box *b, weft_box *out)
{
    bool meet = true;
    for (int d = 0; d < ndim; d++) {
        int64_t begin = weft_max_i64(a->offset[d], b->offset[d]);
        int64_t end = weft_min_i64(a->offset[d] + a->extent[d], b->offset[d] + b->extent[d]);
        out->offset[d] = begin;
        out->extent[d] = weft_max_i64(0, end - begin);
        meet = meet && end > begin;
    }
    return meet;
}

bool weft_box_equal(int ndim, const weft_box *a, const weft_box *b)
{
    for (int d = 0; d < ndim; d++) {
        if (a->offset[d] != b->offset[d] || a->extent[d] != b->extent[d]) {
            return false;
        }
    }
    return true;
}

weft_box weft_box_whole(int ndim, const int64_t shape[])
{
    weft_box box = { { 0 }, { 0 } };
    for (int d = 0; d < ndim; d++) {
        box.extent[d] = shape[d];
    }
    return box;
}
