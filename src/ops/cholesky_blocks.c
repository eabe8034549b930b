/* Cholesky's factorisation of one matrix that ranks share: the right-looking loop over blocks of rows of Choi, Dongarra, Ostrouchov,
 * Petitet, Walker, Whaley: Design and Implementation of the ScaLAPACK LU, QR, and Cholesky Factorization Routines, 1996, for U with
 * A = U^H U. A block of rows lies on one rank, and ranks have blocks in turn. In each step the next block goes to all
 * ranks, which factor it, and subtract its product with itself from their own later blocks. The tasks of a block depend on that block
 * alone, so the next step begins as soon as its block is done: look-ahead is the order of ready tasks. */
#include "ops/linalg.h"

#include "runtime/runtime.h"

enum { LEAST_BLOCK = 32, MOST_BLOCK = 256, BLOCKS_OF_A_RANK = 8, LEAST_SIZE = 512 };

/* numbers[0]: the first row of the panel; numbers[1]: the matrix's rows: those of the panel after them are the unit matrix's. */
static const weft_operation operation_cholesky_panel = {
    .name = "cholesky_panel",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a Cholesky factorisation"),
    .rules = { "[k][n]->[k][n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .kernel = WEFT_KERNEL_cholesky_panel,
};

static const weft_operation operation_cholesky_update = {
    .name = "cholesky_update",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a Cholesky factorisation"),
    .rules = { "bq[n],[k][n]->bq[n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false }, { "panel", WEFT_TYPES_LINALG, true } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_cholesky_update,
};

/* ---- the blocks ---------------------------------------------------------------------------------------- */

bool weft_matrix_is_shared(const weft_layout *a)
{
    const int64_t ranks = a->mesh->ndim == 1 ? a->mesh->shape[0] : 1;
    return a->ndim == 2 && ranks > 1 && a->placements[0].kind == WEFT_SHARD && a->shape[0] >= LEAST_SIZE &&
           a->shape[0] / ranks >= LEAST_BLOCK; /* else most of the padded matrix would be padding */
}

bool weft_cholesky_is_shared(const weft_call_layouts *call)
{
    return weft_matrix_is_shared(call->inputs[0]);
}

int64_t weft_block_of_size(const weft_layout *a, int64_t size)
{
    const weft_placement *p = &a->placements[0];
    const int64_t rows = size / a->mesh->shape[0]; /* of a rank: with larger blocks some would have none */
    int64_t block = p->cut == WEFT_CUT_CYCLIC ? weft_min_i64(p->block, rows) : rows / BLOCKS_OF_A_RANK / LEAST_BLOCK * LEAST_BLOCK;
    return weft_max_i64(LEAST_BLOCK, weft_min_i64(MOST_BLOCK, block));
}

int64_t weft_block_of(const weft_layout *a)
{
    return weft_block_of_size(a, a->shape[0]);
}

weft_tensor *weft_deal_rows(const char *function, weft_tensor *a, int64_t block)
{
    const weft_layout *layout = weft_layout_of(a);
    const int64_t n = layout->shape[0], turn = block * layout->mesh->shape[0], turns = (n + turn - 1) / turn;
    const bool square = layout->shape[1] == n;
    const int64_t before[2] = { 0 }, after[2] = { turns * turn - n, square ? turns * turn - n : 0 };
    const int64_t shape[3] = { turns, turn, layout->shape[1] + after[1] };
    weft_tensor *padded = after[0] > 0 ? weft_pad(a, WEFT_PAD_CONSTANT, 0, 2, before, after) : a;
    weft_tensor *dealt = padded == NULL ? NULL : weft_reshape(padded, 3, shape);
    const weft_placement shared = weft_shard(1);
    const weft_layout *to = weft_layout_intern(weft_runtime.layouts, layout->mesh, &shared, 3, shape, layout->dtype);
    return dealt == NULL || to == NULL ? NULL : weft_in_layout(function, dealt, to);
}

weft_tensor *weft_gather_dealt(weft_tensor *dealt, int64_t m, int64_t n)
{
    const int64_t *shape = weft_layout_of(dealt)->shape, rows = shape[0] * shape[1], columns = shape[2];
    weft_tensor *whole = weft_reshape(dealt, 2, (const int64_t[]){ rows, columns });
    whole = whole == NULL || rows == m ? whole : weft_slice(whole, 0, 0, m, 1);
    return whole == NULL || columns == n ? whole : weft_slice(whole, 1, 0, n, 1);
}

weft_tensor *weft_take_block(weft_tensor *dealt, int64_t step, int64_t block)
{
    const int64_t *shape = weft_layout_of(dealt)->shape, turn = step * block / shape[1], first = step * block % shape[1];
    weft_tensor *rows = weft_slice(dealt, 0, turn, turn + 1, 1);
    weft_tensor *own = rows == NULL ? NULL : weft_slice(rows, 1, first, first + block, 1);
    return own == NULL ? NULL : weft_reshape(own, 2, (const int64_t[]){ block, shape[2] });
}

static bool step_of(const char *function, weft_tensor *dealt, int64_t n, int64_t step, int64_t block)
{
    weft_tensor *rows = weft_take_block(dealt, step, block);
    weft_tensor *panel = rows == NULL ? NULL
                                      : weft_dispatch(&(weft_call){ .function = function,
                                                                    .operation = &operation_cholesky_panel,
                                                                    .num_inputs = 1,
                                                                    .inputs = { rows },
                                                                    .attributes = { .num_numbers = 2,
                                                                                    .numbers = { step * block, n } } });
    return panel != NULL && weft_dispatch(&(weft_call){ .function = function,
                                                        .operation = &operation_cholesky_update,
                                                        .num_inputs = 2,
                                                        .inputs = { dealt, panel },
                                                        .attributes = { .num_numbers = 1, .numbers = { step * block } } }) != NULL;
}

/* numbers[0]: U is wanted, and the upper triangle read. L is the adjoint of the U of the adjoint. */
bool weft_cholesky_by_blocks(const weft_call *call, weft_tensor *outputs[])
{
    bool upper = call->attributes.numbers[0] != 0, done = true;
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const int64_t n = layout->shape[0], block = weft_block_of(layout);
    weft_tensor *a = upper ? call->inputs[0] : weft_adjoint(call->inputs[0]);
    weft_tensor *dealt = a == NULL ? NULL : weft_deal_rows(call->function, a, block);
    for (int64_t step = 0; step * block < n && dealt != NULL && done; step++) {
        done = step_of(call->function, dealt, n, step, block);
    }
    if (!done || dealt == NULL) {
        return false;
    }
    weft_tensor *whole = weft_gather_dealt(dealt, n, n);
    outputs[0] = upper || whole == NULL ? whole : weft_adjoint(whole);
    return outputs[0] != NULL;
}

const weft_operation *const weft_cholesky_block_operations[] = {
    &operation_cholesky_panel,
    &operation_cholesky_update,
    NULL,
};
