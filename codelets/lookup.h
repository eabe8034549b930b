/* Table look-ups. Indices are WEFT_I64 or WEFT_I32 (index_type). */
#ifndef WEFT_CODELETS_LOOKUP_H
#define WEFT_CODELETS_LOOKUP_H

#include "codelets/args.h"
#include <weft/base.h>

enum { WEFT_EMBEDDING_PANELS = 64 }; /* at most, of the table in one task */

/* Embedding. Operand 0: output [count, width] (W with `first`, else RW); operand 1: indices [count]; operands 2, 3, ...: the
 * panels with rows first_row .. first_row + num_rows - 1 of a table of total_rows, cut at multiples of panel_rows. Copies
 * rows with an index in this part; with `first` sets all others to 0, else leaves them. An index outside
 * [0, total_rows) is reported and gives 0. num_rows may be 0, without panels. */
typedef struct weft_embedding_args {
    weft_task_args base;
    weft_dtype index_type, gradient_type;
    int64_t count, width;
    int64_t first_row, num_rows, total_rows;
    int64_t panel_rows;
    int64_t output_stride, table_stride; /* between rows, in elements */
    bool first;
    bool checks; /* reports indices out of range */
    bool streams; /* non-temporal stores, for outputs that would leave the caches before they are read */
} weft_embedding_args;

/* The panel with row `row` of the part, and that row's number in it. */
WEFT_INLINE int64_t weft_embedding_panel(const weft_embedding_args *args, int64_t row, int64_t *row_of_panel)
{
    int64_t number = args->first_row / args->panel_rows, panel = (args->first_row + row) / args->panel_rows - number;
    *row_of_panel = row - (panel == 0 ? 0 : (number + panel) * args->panel_rows - args->first_row);
    return panel;
}

void weft_cpu_embedding(const weft_task_run *run);
uint32_t weft_embedding_footprint(const weft_task_run *run);

/* Its gradient: operand 0: gradient of the table's part (W with `first`: cleared before; else RW),
 * WEFT_F32 or WEFT_F64; operand 1: gradient of the output [count, width], of that type, or of 16 bits for
 * WEFT_F32 (gradient_type); operand 2: indices. The part of the table is in one panel. Rows are added in index order, so
 * results are reproducible bit for bit. */
void weft_cpu_embedding_backward(const weft_task_run *run);
uint32_t weft_embedding_backward_footprint(const weft_task_run *run);

#endif
