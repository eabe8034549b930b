/* Triangular systems whose matrix ranks share: no rank has it whole. Blocks of its rows go to all ranks one after the other, as
 * in cholesky_blocks.c; right-hand sides have all rows on each rank. The rows that are solved stand in one tensor, so a block of rows is
 * either what the others' rows are subtracted from (the matrix itself), or what is subtracted from the others (the adjoint). */
#include "ops/linalg.h"

#include "runtime/runtime.h"

bool weft_triangle_is_shared(const weft_call_layouts *call)
{
    const weft_layout *b = call->inputs[1];
    return b->ndim == 2 && call->attributes->numbers[WEFT_TRIANGULAR_LEFT] != 0 && weft_matrix_is_shared(call->inputs[0]);
}

/* The rows solved so far, [first, last) of the system, and with an adjoint the right-hand sides of the others. */
typedef struct sweep {
    const char *function;
    weft_triangle how;
    int64_t n, block;
    weft_tensor *dealt, *b, *solved; /* solved: NULL before the first block */
    weft_tensor *rest;               /* of the adjoint: rows of b that are not solved, less what the solved ones make of them */
} sweep;

static weft_tensor *placed(const char *function, weft_tensor *a, weft_placement placement)
{
    const weft_layout *layout = weft_layout_of(a);
    const weft_layout *to =
        weft_layout_intern(weft_runtime.layouts, layout->mesh, &placement, layout->ndim, layout->shape, layout->dtype);
    return to == NULL ? NULL : weft_in_layout(function, a, to);
}

weft_tensor *weft_right_sides(const char *function, weft_tensor *b)
{
    const weft_layout *layout = weft_layout_of(b);
    const weft_placement *p = &layout->placements[0];
    bool has_rows = p->kind == WEFT_SHARD && p->dim == 0;
    return has_rows && layout->shape[1] >= layout->mesh->shape[0] ? placed(function, b, weft_shard(1)) : weft_unshard_dim(function, b, 0);
}

/* a - b */
static weft_tensor *difference(weft_tensor *a, weft_tensor *b)
{
    return a == NULL || b == NULL ? NULL : weft_sub(a, b);
}

/* The columns of the triangle in a block of rows, on each rank. */
static weft_tensor *panel_of(const sweep *s, int64_t step, int64_t first, int64_t last)
{
    weft_tensor *rows = weft_take_block(s->dealt, step, s->block);
    weft_tensor *columns = rows == NULL ? NULL : s->how.upper ? weft_slice(rows, 1, first, s->n, 1) : weft_slice(rows, 1, 0, last, 1);
    weft_tensor *panel = columns == NULL ? NULL : placed(s->function, columns, weft_replicate());
    return panel == NULL ? NULL : weft_slice(panel, 0, 0, last - first, 1);
}

/* Those of them on the block's diagonal, and those after it (upper) or before. */
static weft_tensor *diagonal_of(const sweep *s, weft_tensor *panel, int64_t first, int64_t last)
{
    return s->how.upper ? weft_slice(panel, 1, 0, last - first, 1) : weft_slice(panel, 1, first, last, 1);
}

static weft_tensor *others_of(const sweep *s, weft_tensor *panel, int64_t first, int64_t last)
{
    return s->how.upper ? weft_slice(panel, 1, last - first, s->n - first, 1) : weft_slice(panel, 1, 0, first, 1);
}

/* What the block's rows are equal to. */
static weft_tensor *right_side(const sweep *s, weft_tensor *panel, int64_t first, int64_t last)
{
    if (s->how.adjoint) {
        int64_t count = weft_layout_of(s->rest)->shape[0];
        return s->how.upper ? weft_slice(s->rest, 0, 0, last - first, 1) : weft_slice(s->rest, 0, count - (last - first), count, 1);
    }
    weft_tensor *own = weft_slice(s->b, 0, first, last, 1), *others = others_of(s, panel, first, last);
    return s->solved == NULL || others == NULL ? own : difference(own, weft_matmul(others, s->solved));
}

/* Subtracts what the block's solution makes of the other rows. */
static bool update_rest(sweep *s, weft_tensor *panel, weft_tensor *x, int64_t first, int64_t last)
{
    int64_t count = weft_layout_of(s->rest)->shape[0], size = last - first;
    weft_tensor *rest = s->how.upper ? weft_slice(s->rest, 0, size, count, 1) : weft_slice(s->rest, 0, 0, count - size, 1);
    s->rest = count == size ? rest : difference(rest, weft_adjoint_product(others_of(s, panel, first, last), x));
    return s->rest != NULL;
}

static bool solve_block(sweep *s, int64_t step)
{
    const int64_t first = step * s->block, last = weft_min_i64(s->n, first + s->block);
    weft_tensor *panel = panel_of(s, step, first, last);
    weft_tensor *diagonal = panel == NULL ? NULL : diagonal_of(s, panel, first, last);
    weft_tensor *side = diagonal == NULL ? NULL : right_side(s, panel, first, last);
    weft_triangle how = s->how;
    how.first = first;
    weft_tensor *x = side == NULL ? NULL : weft_solve_triangle(s->function, diagonal, side, how);
    if (x == NULL || (s->how.adjoint && !update_rest(s, panel, x, first, last))) {
        return false;
    }
    bool forward = s->how.upper == s->how.adjoint;
    s->solved = s->solved == NULL ? x : weft_cat(2, forward ? (weft_tensor *[]){ s->solved, x } : (weft_tensor *[]){ x, s->solved }, 0);
    return s->solved != NULL;
}

bool weft_solve_by_blocks(const weft_call *call, weft_triangle how, weft_tensor *outputs[])
{
    weft_tensor *a = call->inputs[0];
    const weft_layout *layout = weft_layout_of(a);
    sweep s = { .function = call->function, .how = how, .n = layout->shape[0], .block = weft_block_of(layout) };
    if (layout->placements[0].dim == 1) { /* the adjoint's rows are shared */
        a = weft_adjoint(a);
        s.how.upper = !how.upper;
        s.how.adjoint = !how.adjoint;
    }
    s.b = s.rest = weft_right_sides(call->function, call->inputs[1]);
    s.dealt = a == NULL || s.b == NULL ? NULL : weft_deal_rows(call->function, a, s.block);
    const int64_t steps = (s.n + s.block - 1) / s.block;
    bool done = s.dealt != NULL, forward = s.how.upper == s.how.adjoint;
    for (int64_t step = 0; step < steps && done; step++) {
        done = solve_block(&s, forward ? step : steps - 1 - step);
    }
    outputs[0] = s.solved;
    return done;
}
