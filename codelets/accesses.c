/* The accesses of every kernel, by the structure of its arguments. */
#include "codelets/access.h"

#include "codelets/accesses.h"
#include "codelets/constant.h"
#include "codelets/copy.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"
#include "codelets/local.h"
#include "codelets/lookup.h"
#include "codelets/rearrange.h"

static int64_t size_of(weft_dtype type)
{
    return (int64_t)weft_dtype_size(type);
}

/* A matrix whose rows are `row_stride` elements apart. */
static weft_kernel_access matrix(weft_kernel_access_kind kind, int operand, weft_dtype type, int64_t rows,
                                 int64_t columns, int64_t row_stride, int64_t column_stride)
{
    int64_t size = size_of(type);
    return (weft_kernel_access){ .kind = kind,
                                 .operand = operand,
                                 .element = size,
                                 .ndim = 2,
                                 .extent = { rows, columns },
                                 .stride = { row_stride * size, column_stride * size } };
}

static weft_kernel_access box(weft_kernel_access_kind kind, int operand, int64_t offset, int64_t size,
                              int ndim, const int64_t extent[], const int64_t stride[])
{
    weft_kernel_access access = {
        .kind = kind, .operand = operand, .offset = offset, .element = size, .ndim = ndim
    };
    for (int d = 0; d < ndim; d++) {
        access.extent[d] = extent[d];
        access.stride[d] = stride[d] * size;
    }
    return access;
}

void weft_copy_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    const weft_copy_args *args = arguments;
    int64_t size = (int64_t)args->element_size;
    for (int target = 0; target < 2; target++) {
        for (int i = 0; i < num_operands - 1; i++) {
            const weft_strided_box *b = &args->boxes[i];
            weft_kernel_access access =
                target ? box(WEFT_KERNEL_WRITE, 0, args->target_offset[i], size, b->ndim, b->extent,
                             b->target_stride)
                       : box(WEFT_KERNEL_READ, i + 1, 0, size, b->ndim, b->extent, b->source_stride);
            visit(context, &access);
        }
    }
}

/* The groups of rows of dimension d and those after it: `at` has the elements before them. */
static void visit_moved(const weft_rearrange_args *args, bool target, int d, const weft_moved_rows *moved, weft_kernel_access *at,
                        weft_kernel_visitor visit, void *context)
{
    int64_t size = (int64_t)args->element_size, stride = (target ? args->target_stride : args->source_stride)[d] * size;
    for (int64_t i = 0; i < args->num_moved[d]; i++) {
        for (int64_t c = 0; c < moved[i].count; c++) {
            int64_t first = target ? moved[i].target + c * moved[i].target_step : moved[i].source + c * moved[i].source_step;
            int64_t before = at->offset;
            at->offset += first * stride;
            at->extent[d] = moved[i].rows;
            at->stride[d] = stride;
            if (d == args->ndim - 1) {
                visit(context, at);
            } else {
                visit_moved(args, target, d + 1, moved + args->num_moved[d], at, visit, context);
            }
            at->offset = before;
        }
    }
}

void weft_rearrange_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    (void)num_operands;
    const weft_rearrange_args *args = arguments;
    for (int target = 0; target < 2; target++) {
        weft_kernel_access at = { .kind = target ? WEFT_KERNEL_WRITE : WEFT_KERNEL_READ, .operand = target ? 0 : 1,
                                  .element = (int64_t)args->element_size, .ndim = args->ndim };
        visit_moved(args, target != 0, 0, args->moved, &at, visit, context);
    }
}

void weft_reduce_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    const weft_reduce_args *args = arguments;
    int64_t size = size_of(args->base.dtype);
    for (int i = 0; i < num_operands - 1; i++) {
        const weft_strided_box *b = &args->boxes[i];
        weft_kernel_access source =
            box(WEFT_KERNEL_READ, i + 1, 0, size, b->ndim, b->extent, b->source_stride);
        source.adds_sources = true;
        visit(context, &source);
    }
    const weft_strided_box *b = &args->boxes[0];
    weft_kernel_access target = box(args->accumulate ? WEFT_KERNEL_UPDATE : WEFT_KERNEL_WRITE, 0, 0, size,
                                    b->ndim, b->extent, b->target_stride);
    target.adds_sources = true;
    visit(context, &target);
}

void weft_elementwise_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                               void *context)
{
    const weft_elementwise_args *args = arguments;
    for (int k = num_operands; k-- > 0;) { /* operand 0, the output, comes last */
        weft_kernel_access access = box(k == 0 ? WEFT_KERNEL_WRITE : WEFT_KERNEL_READ, k, 0,
                                        size_of(args->types[k]), args->ndim, args->extent, args->stride[k]);
        visit(context, &access);
    }
}

void weft_constant_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    (void)num_operands;
    const weft_constant_args *args = arguments;
    weft_kernel_access access =
        weft_kernel_access_run(WEFT_KERNEL_CLEAR, 0, 0, args->count, size_of(args->base.dtype));
    visit(context, &access);
}

void weft_matmul_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    const weft_gemm_args *args = arguments;
    const weft_gemm *g = &args->gemm;
    if (g->k > 0) {
        weft_kernel_access a = matrix(WEFT_KERNEL_READ, 1, args->input_type, g->transpose_a ? g->k : g->m,
                                      g->transpose_a ? g->m : g->k, g->lda, 1);
        weft_kernel_access b = matrix(WEFT_KERNEL_READ, 2, args->input_type, g->transpose_b ? g->n : g->k,
                                      g->transpose_b ? g->k : g->n, g->ldb, 1);
        visit(context, &a);
        visit(context, &b);
    }
    if (args->adds) {
        weft_kernel_access x = matrix(WEFT_KERNEL_READ, num_operands - 1 - args->rounds, args->input_type, g->m, g->n,
                                      args->addend_row_stride, args->addend_column_stride);
        visit(context, &x);
    }
    weft_kernel_access c = matrix(g->beta == 0 || args->adds ? WEFT_KERNEL_WRITE : WEFT_KERNEL_UPDATE, 0,
                                  args->base.dtype, g->m, g->n, g->ldc, 1);
    c.addends = g->k;
    visit(context, &c);
    if (args->rounds) {
        weft_kernel_access sums = matrix(WEFT_KERNEL_READ, 0, args->base.dtype, g->m, g->n, g->ldc, 1);
        visit(context, &sums);
        weft_kernel_access rounded = matrix(WEFT_KERNEL_WRITE, num_operands - 1, args->input_type, g->m, g->n, g->n, 1);
        visit(context, &rounded);
    }
}

/* As if the packed rows were stored one after the other: they take at least as much room. */
void weft_pack_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context)
{
    (void)num_operands;
    const weft_pack_args *args = arguments;
    const weft_gemm *g = &args->gemm;
    int64_t width = g->transpose_b ? g->k : g->n;
    weft_kernel_access b = matrix(WEFT_KERNEL_READ, 1, args->base.dtype, args->count, width, g->ldb, 1);
    weft_kernel_access packed = matrix(WEFT_KERNEL_WRITE, 0, args->base.dtype, args->count, width, width, 1);
    packed.offset = args->first * width * size_of(args->base.dtype);
    visit(context, &b);
    visit(context, &packed);
}

/* Reads indices, and adds up `addends` rows each in a matrix (operand 0). */
static void visit_embedding(const weft_embedding_args *args, int operand, weft_kernel_access to, int64_t addends,
                            weft_kernel_visitor visit, void *context)
{
    weft_kernel_access indices =
        weft_kernel_access_run(WEFT_KERNEL_READ, operand, 0, args->count, size_of(args->index_type));
    to.kind = args->first ? WEFT_KERNEL_WRITE : WEFT_KERNEL_UPDATE;
    to.addends = addends;
    visit(context, &indices);
    visit(context, &to);
}

void weft_embedding_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                             void *context)
{
    const weft_embedding_args *args = arguments;
    weft_dtype type = args->base.dtype;
    int64_t first = 0;
    for (int i = 2; i < num_operands; i++) {
        int64_t number = args->first_row / args->panel_rows + i - 1; /* of the next panel in the whole table */
        int64_t end = number * args->panel_rows - args->first_row;
        end = end < args->num_rows ? end : args->num_rows;
        weft_kernel_access panel = matrix(WEFT_KERNEL_READ, i, type, end - first, args->width, args->table_stride, 1);
        visit(context, &panel);
        first = end;
    }
    visit_embedding(args, 1, matrix(WEFT_KERNEL_WRITE, 0, type, args->count, args->width, args->output_stride, 1),
                    args->num_rows, visit, context);
}

void weft_embedding_backward_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                                      void *context)
{
    (void)num_operands;
    const weft_embedding_args *args = arguments;
    weft_kernel_access gradient =
        matrix(WEFT_KERNEL_READ, 1, args->gradient_type, args->count, args->width, args->output_stride, 1);
    visit(context, &gradient);
    visit_embedding(args, 2,
                    matrix(WEFT_KERNEL_WRITE, 0, args->base.dtype, args->num_rows, args->width, args->table_stride, 1),
                    args->count, visit, context);
}

void weft_local_map_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                             void *context)
{
    (void)num_operands;
    const weft_local_args *args = arguments;
    for (int i = 0; i < args->num_inputs + args->num_outputs; i++) {
        const weft_local_operand *operand = &args->operands[i];
        weft_kernel_access_kind kind = i < args->num_inputs ? WEFT_KERNEL_READ : WEFT_KERNEL_WRITE;
        for (int panel = 0; panel < operand->num_panels; panel++) {
            weft_kernel_access access = weft_kernel_access_run(
                kind, operand->first_panel + panel, 0,
                weft_local_panel_end(operand, panel) - weft_local_panel_begin(operand, panel), 1);
            visit(context, &access);
        }
    }
}

/* The rows of an operand, panel by panel. */
static void visit_view(const weft_kernel_args *args, int number, weft_kernel_access_kind kind,
                       int64_t addends, weft_kernel_visitor visit, void *context)
{
    const weft_kernel_operand *operand = &args->operands[number];
    const weft_view view = weft_kernel_view(args, number);
    int64_t row = 0, rows = weft_view_rows(&view);
    for (int i = 0; i < operand->num_panels && row < rows; i++) {
        int64_t count = rows;
        if (view.ndim > 0) {
            int64_t place = view.offset[0] + view.row_shift + row;
            int64_t left = view.panel_rows - place % view.panel_rows;
            count = left < rows - row ? left : rows - row;
        }
        int64_t elements = view.row_elements == 0 ? 0 : view.ndim == 0 ? 1 : (count - 1) * view.row_elements + 1;
        for (int d = 1; d < view.ndim && elements > 0; d++) {
            elements += (view.extent[d] - 1) * view.strides[d]; /* a part of a dimension begins at any place */
        }
        weft_kernel_access access =
            weft_kernel_access_run(kind, operand->first_panel + i, 0, elements, size_of(view.dtype));
        access.addends = addends;
        visit(context, &access);
        row += count;
    }
}

void weft_kernel_call_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                               void *context)
{
    (void)num_operands;
    const weft_kernel_args *args = arguments;
    for (int i = 0; i < args->num_inputs; i++) {
        visit_view(args, args->num_outputs + i, WEFT_KERNEL_READ, 0, visit, context);
    }
    /* Accumulated pieces are rows of input 0. */
    int64_t addends = 0;
    if (args->grouped || !(args->first && args->last)) {
        const weft_view piece = weft_kernel_view(args, args->num_outputs);
        addends = weft_view_rows(&piece);
    }
    for (int o = 0; o < args->num_outputs; o++) {
        visit_view(args, o, args->first ? WEFT_KERNEL_WRITE : WEFT_KERNEL_UPDATE, addends, visit, context);
    }
}
