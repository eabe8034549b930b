/* Table look-ups. Indices are WEFT_I64 or WEFT_I32 (index_type). */
#ifndef WEFT_CODELETS_LOOKUP_H
#define WEFT_CODELETS_LOOKUP_H

#include "codelets/args.h"

/* Embedding. Operand 0: output [count, width] (W with `first`, else RW); operand 1: rows first_row ..
 * first_row + num_rows - 1 of a table of total_rows, [num_rows, width]; operand 2: indices [count]. Copies
 * rows with an index in this part; with `first` sets all others to 0, else leaves them. An index outside
 * [0, total_rows) is reported and gives 0. num_rows may be 0. */
typedef struct weft_embedding_args {
    weft_task_args base;
    weft_dtype index_type, gradient_type;
    int64_t count, width;
    int64_t first_row, num_rows, total_rows;
    int64_t output_stride, table_stride; /* between rows, in elements */
    bool first;
    bool checks; /* reports indices out of range */
} weft_embedding_args;
void weft_cpu_embedding(const weft_task_run *run);
uint32_t weft_embedding_footprint(const weft_task_run *run);

/* Its gradient: operand 0: gradient of the table's part (W with `first`: cleared before; else RW),
 * WEFT_F32 or WEFT_F64; operand 1: gradient of the output [count, width], of that type, or of 16 bits for
 * WEFT_F32 (gradient_type); operand 2: indices. Rows are added in index order, so results are reproducible
 * bit for bit. */
void weft_cpu_embedding_backward(const weft_task_run *run);
uint32_t weft_embedding_backward_footprint(const weft_task_run *run);

#endif
