/* QR and singular values of one tall matrix whose rows ranks share: Demmel, Grigori, Hoemmen, Langou: Communication-optimal Parallel and
 * Sequential QR and LU Factorizations, 2012 (TSQR). Each rank decomposes its own rows; only the small factors R go to all ranks, which
 * decompose them again. */
#include "ops/linalg.h"

#include "runtime/runtime.h"

enum { LEAST_RATIO = 4 }; /* of a rank's rows to the columns: each rank has the factors R of all ranks */

bool weft_matrix_is_tall(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    const weft_placement *p = &a->placements[0];
    return a->ndim == 2 && a->mesh->ndim == 1 && a->mesh->shape[0] > 1 && p->kind == WEFT_SHARD && p->dim == 0 && a->shape[1] > 0 &&
           a->shape[0] / a->mesh->shape[0] / LEAST_RATIO >= a->shape[1];
}

/* The tensor with dimension 0 shared by ranks, or (not `shared`) whole on each. */
static weft_tensor *laid_out(const char *function, weft_tensor *a, bool shared)
{
    const weft_layout *layout = weft_layout_of(a);
    const weft_placement placement = shared ? weft_shard(0) : weft_replicate();
    const weft_layout *to =
        weft_layout_intern(weft_runtime.layouts, layout->mesh, &placement, layout->ndim, layout->shape, layout->dtype);
    return to == NULL ? NULL : weft_in_layout(function, a, to);
}

/* The rows as a matrix for each rank, [ranks, rows, n]; rows of 0 follow the last. */
static weft_tensor *by_ranks(const char *function, weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    const int64_t ranks = layout->mesh->shape[0], rows = (layout->shape[0] + ranks - 1) / ranks, n = layout->shape[1];
    const int64_t before[2] = { 0 }, after[2] = { ranks * rows - layout->shape[0], 0 };
    weft_tensor *padded = after[0] > 0 ? weft_pad(a, WEFT_PAD_CONSTANT, 0, 2, before, after) : a;
    weft_tensor *apart = padded == NULL ? NULL : weft_reshape(padded, 3, (const int64_t[]){ ranks, rows, n });
    return apart == NULL ? NULL : laid_out(function, apart, true);
}

bool weft_qr_of_tall(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0], *parts = by_ranks(call->function, a), *small = NULL;
    const int64_t m = weft_layout_of(a)->shape[0], n = weft_layout_of(a)->shape[1], ranks = weft_layout_of(a)->mesh->shape[0];
    weft_tensor *own = parts == NULL ? NULL : weft_qr(parts, &small);
    weft_tensor *stacked = own == NULL ? NULL : weft_reshape(small, 2, (const int64_t[]){ ranks * n, n });
    weft_tensor *everywhere = stacked == NULL ? NULL : laid_out(call->function, stacked, false);
    weft_tensor *turns = everywhere == NULL ? NULL : weft_qr(everywhere, &outputs[1]);
    weft_tensor *apart = turns == NULL ? NULL : weft_reshape(turns, 3, (const int64_t[]){ ranks, n, n });
    weft_tensor *q = apart == NULL ? NULL : weft_matmul(own, apart);
    weft_tensor *rows = q == NULL ? NULL : weft_reshape(q, 2, (const int64_t[]){ weft_layout_of(q)->shape[1] * ranks, n });
    outputs[0] = rows == NULL ? NULL : weft_layout_of(rows)->shape[0] > m ? weft_slice(rows, 0, 0, m, 1) : rows;
    return outputs[0] != NULL;
}

/* A = Q R and R = U' S V^H give A = (Q U') S V^H. */
bool weft_svd_of_tall(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *r, *u, *q = weft_qr(call->inputs[0], &r);
    outputs[0] = q == NULL ? NULL : weft_svd(r, &u, &outputs[2]);
    outputs[1] = outputs[0] == NULL ? NULL : weft_matmul(q, u);
    return outputs[1] != NULL;
}
