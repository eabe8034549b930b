/* LU with partial pivoting of one matrix that ranks share, as in cholesky_blocks.c, by blocks of columns: those are rows of the transpose
 * A^T. A block is whole on one rank, and LAPACK, which stores columns one after the other, factors it where it lies: the search
 * for a pivot is in one task. In each step the next block and its pivots go to all ranks, and each of their later blocks exchanges
 * elements, solves for its part of U, and subtracts. At the end the rows of L are exchanged as later steps say. */
#include "ops/linalg.h"

enum { PANEL, PIVOTS };

/* numbers: the first row of the panel; the matrix's rows; a pivot of 0 is an error. */
static const weft_operation operation_lu_panel = {
    .name = "lu_panel",
    .gradient = WEFT_GRADIENT_OF_WHOLE("an LU factorisation"),
    .rules = { "[k][n]->[k][n],[k]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_lu_panel,
};

/* numbers: the first row of the panel; the matrix's rows. */
static const weft_operation operation_lu_update = {
    .name = "lu_update",
    .gradient = WEFT_GRADIENT_OF_WHOLE("an LU factorisation"),
    .rules = { "bq[n],[k][n],[k]->bq[n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false }, { "panel", WEFT_TYPES_LINALG, true }, { "pivots", WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_lu_update,
};

/* numbers: rows of a block; the matrix's rows. */
static const weft_operation operation_lu_exchange = {
    .name = "lu_exchange",
    .gradient = WEFT_GRADIENT_OF_WHOLE("an LU factorisation"),
    .rules = { "bq[n],[m]->bq[n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false }, { "pivots", WEFT_TYPE_BIT(WEFT_I64), false } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_lu_exchange,
};

bool weft_lu_is_shared(const weft_call_layouts *call)
{
    const weft_layout *a = call->inputs[0];
    return weft_matrix_is_shared(a) && a->shape[0] == a->shape[1];
}

/* Adds the block's pivots to those of the blocks before. */
static bool step_of(const weft_call *call, weft_tensor *dealt, int64_t n, int64_t first, int64_t block, weft_tensor **pivots)
{
    weft_tensor *rows = weft_take_block(dealt, first / block, block), *factored[2];
    bool done = rows != NULL && weft_dispatch_all(&(weft_call){ .function = call->function,
                                                                .operation = &operation_lu_panel,
                                                                .num_inputs = 1,
                                                                .inputs = { rows },
                                                                .attributes = { .num_numbers = 3,
                                                                                .numbers = { first, n, call->attributes.numbers[0] } } },
                                                  factored);
    if (!done || weft_dispatch(&(weft_call){ .function = call->function,
                                             .operation = &operation_lu_update,
                                             .num_inputs = 3,
                                             .inputs = { dealt, factored[PANEL], factored[PIVOTS] },
                                             .attributes = { .num_numbers = 2, .numbers = { first, n } } }) == NULL) {
        return false;
    }
    *pivots = *pivots == NULL ? factored[PIVOTS] : weft_cat(2, (weft_tensor *[]){ *pivots, factored[PIVOTS] }, 0);
    return *pivots != NULL;
}

/* numbers[0]: a pivot of 0 is an error. */
bool weft_lu_by_blocks(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const int64_t n = layout->shape[0], block = weft_block_of(layout);
    weft_tensor *transpose = weft_transpose(call->inputs[0], 0, 1), *pivots = NULL;
    weft_tensor *dealt = transpose == NULL ? NULL : weft_deal_rows(call->function, transpose, block);
    bool done = dealt != NULL;
    for (int64_t first = 0; first < n && done; first += block) {
        done = step_of(call, dealt, n, first, block, &pivots);
    }
    done = done && weft_dispatch(&(weft_call){ .function = call->function,
                                               .operation = &operation_lu_exchange,
                                               .num_inputs = 2,
                                               .inputs = { dealt, pivots },
                                               .attributes = { .num_numbers = 2, .numbers = { block, n } } }) != NULL;
    weft_tensor *whole = done ? weft_gather_dealt(dealt, n, n) : NULL;
    outputs[0] = whole == NULL ? NULL : weft_transpose(whole, 0, 1);
    outputs[1] = outputs[0] == NULL ? NULL : weft_slice(pivots, 0, 0, n, 1);
    return outputs[1] != NULL;
}

const weft_operation *const weft_lu_block_operations[] = {
    &operation_lu_panel,
    &operation_lu_update,
    &operation_lu_exchange,
    NULL,
};
