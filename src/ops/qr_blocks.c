/* QR of one matrix that ranks share, by blocks of columns as in lu_blocks.c: Bischof, Van Loan: The WY Representation for Products of
 * Householder Matrices, 1987, in the compact form of Schreiber, Van Loan: A Storage-Efficient WY Representation for Products of Householder
 * Transformations, 1989, and in the order of ScaLAPACK's pdgeqrf. In each step the next block goes to all ranks, which make its reflections,
 * and apply them to their own later blocks. Then the blocks go to all ranks once more, the last one first, and their reflections to
 * the columns of the unit matrix, which become Q. Columns before a block's own are 0 where it would change them. */
#include "ops/linalg.h"

#include "runtime/runtime.h"

enum { PANEL, TRIANGLE, LEAST_SIZE = 512, LEAST_COLUMNS = 32 };

/* numbers: the first row of the panel; the matrix's rows. */
static const weft_operation operation_qr_panel = {
    .name = "qr_panel",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a QR decomposition"),
    .rules = { "[k][n]->[k][n],[k][t]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false } },
    .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_FIRST } },
    .num_outputs = 2,
    .kernel = WEFT_KERNEL_qr_panel,
};

/* numbers: the first row of the panel; the matrix's rows; whether Q is formed. */
static const weft_operation operation_qr_update = {
    .name = "qr_update",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a QR decomposition"),
    .rules = { "bq[n],[k][n],[k][t]->bq[n]" },
    .inputs = { { "a", WEFT_TYPES_LINALG, false }, { "panel", WEFT_TYPES_LINALG, true }, { "triangle", WEFT_TYPES_LINALG, true } },
    .outputs[0].in_place = true,
    .kernel = WEFT_KERNEL_qr_update,
};

/* A decomposition of m x n. */
typedef struct reflections {
    const char *function;
    int64_t m, n, block;
    weft_tensor *dealt, *triangles; /* A^T, in the end the columns of R and the reflections; T of all steps, one below the other */
} reflections;

bool weft_qr_is_shared(const weft_layout *a)
{
    const int64_t ranks = a->mesh->ndim == 1 ? a->mesh->shape[0] : 1;
    return a->ndim == 2 && ranks > 1 && a->placements[0].kind == WEFT_SHARD && weft_min_i64(a->shape[0], a->shape[1]) >= LEAST_SIZE &&
           weft_min_i64(a->shape[0], a->shape[1]) / ranks >= LEAST_COLUMNS;
}

static bool update(const reflections *r, weft_tensor *dealt, weft_tensor *const panel[2], int64_t first, bool forms_q)
{
    return weft_dispatch(&(weft_call){ .function = r->function,
                                       .operation = &operation_qr_update,
                                       .num_inputs = 3,
                                       .inputs = { dealt, panel[PANEL], panel[TRIANGLE] },
                                       .attributes = { .num_numbers = 3, .numbers = { first, r->m, forms_q } } }) != NULL;
}

static bool reflect(reflections *r, int64_t first)
{
    weft_tensor *rows = weft_take_block(r->dealt, first / r->block, r->block), *panel[2];
    bool done = rows != NULL && weft_dispatch_all(&(weft_call){ .function = r->function,
                                                                .operation = &operation_qr_panel,
                                                                .num_inputs = 1,
                                                                .inputs = { rows },
                                                                .attributes = { .num_sizes = 1,
                                                                                .sizes = { r->block },
                                                                                .num_numbers = 2,
                                                                                .numbers = { first, r->m } } },
                                                  panel);
    if (!done || !update(r, r->dealt, panel, first, false)) {
        return false;
    }
    r->triangles = r->triangles == NULL ? panel[TRIANGLE] : weft_cat(2, (weft_tensor *[]){ r->triangles, panel[TRIANGLE] }, 0);
    return r->triangles != NULL;
}

/* The tensor on each rank. */
static weft_tensor *everywhere(const char *function, weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    const weft_placement whole = weft_replicate();
    const weft_layout *to = weft_layout_intern(weft_runtime.layouts, layout->mesh, &whole, layout->ndim, layout->shape, layout->dtype);
    return to == NULL ? NULL : weft_in_layout(function, a, to);
}

/* The first k columns of Q, as rows of its transpose. */
static weft_tensor *form_q(const reflections *r, int64_t k)
{
    const int64_t reflected = weft_min_i64(r->m, r->n);
    const weft_layout *a = weft_layout_of(r->dealt);
    const int64_t length = a->shape[2], turn = a->shape[1], turns = (k + turn - 1) / turn, steps = (reflected + r->block - 1) / r->block;
    const weft_placement dealt = { .kind = WEFT_SHARD, .dim = 0, .cut = WEFT_CUT_CYCLIC, .block = r->block };
    weft_tensor *unit = weft_eye(a->dtype, turns * turn, length, a->mesh->handle, &dealt);
    weft_tensor *q = unit == NULL ? NULL : weft_reshape(unit, 3, (const int64_t[]){ turns, turn, length });
    const weft_layout *to = q == NULL ? NULL
                                      : weft_layout_intern(weft_runtime.layouts, a->mesh, a->placements, 3, weft_layout_of(q)->shape, a->dtype);
    q = to == NULL ? NULL : weft_in_layout(r->function, q, to);
    bool done = q != NULL;
    for (int64_t step = steps - 1; step >= 0 && done; step--) {
        weft_tensor *rows = weft_take_block(r->dealt, step, r->block), *panel[2];
        panel[PANEL] = rows == NULL ? NULL : everywhere(r->function, rows);
        panel[TRIANGLE] = weft_slice(r->triangles, 0, step * r->block, (step + 1) * r->block, 1);
        done = panel[PANEL] != NULL && panel[TRIANGLE] != NULL && update(r, q, panel, step * r->block, true);
    }
    return done ? weft_gather_dealt(q, k, r->m) : NULL;
}

bool weft_qr_by_blocks(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    reflections r = { .function = call->function, .m = layout->shape[0], .n = layout->shape[1] };
    const int64_t k = weft_min_i64(r.m, r.n);
    r.block = weft_block_of_size(layout, k);
    weft_tensor *transpose = weft_transpose(call->inputs[0], 0, 1);
    r.dealt = transpose == NULL ? NULL : weft_deal_rows(call->function, transpose, r.block);
    bool done = r.dealt != NULL;
    for (int64_t first = 0; first < k && done; first += r.block) {
        done = reflect(&r, first);
    }
    const int64_t width = call->attributes.sizes[0]; /* k, or all m */
    weft_tensor *q = done ? form_q(&r, width) : NULL, *columns = q == NULL ? NULL : weft_gather_dealt(r.dealt, r.n, width);
    weft_tensor *triangle = columns == NULL ? NULL : weft_tril(columns, 0);
    outputs[0] = triangle == NULL ? NULL : weft_transpose(q, 0, 1);
    outputs[1] = outputs[0] == NULL ? NULL : weft_transpose(triangle, 0, 1);
    return outputs[1] != NULL;
}

const weft_operation *const weft_qr_block_operations[] = {
    &operation_qr_panel,
    &operation_qr_update,
    NULL,
};
