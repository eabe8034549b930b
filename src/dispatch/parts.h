/* Operands of a kernel's tasks: rows of shards. kernel.c has the walks over all tasks. PURE. */
#ifndef WEFT_SRC_DISPATCH_PARTS_H
#define WEFT_SRC_DISPATCH_PARTS_H

#include "dispatch/dispatch.h"

/* Rows [first, last) (global) of a shard, as an operand. */
typedef struct weft_part {
    const weft_layout *layout;
    const weft_access_map *access_map; /* of the tensor; NULL: none */
    const weft_neighbours *neighbours; /* the rows may be neighbours' as well; NULL: they are the shard's */
    const weft_shard_info *shard;
    int64_t first, last, own_first;
    int64_t shift; /* added to the rows' global indices: data of an access map has other rows */
    bool in_array; /* a part of a ghosted array: indices of its other dimensions are those of `inside` */
    bool is_joined; /* its panels follow each other in memory: the kernel sees one */
    weft_box inside;
    int64_t first_panel, num_panels, panel_rows; /* panels begin at multiples of panel_rows */
    weft_slot slot; /* panel 0; with is_own: the only panel, of a temporary with the rows from own_first on */
    bool is_own;
    const weft_dim_run *run; /* NULL: all of the rows */
    weft_slot_access access; /* WRITE becomes READ_WRITE if another task writes the panel's first rows */
} weft_part;

/* The operands of one task. */
typedef struct weft_job {
    weft_part outputs[WEFT_MAX_OUTPUTS];
    int num_inputs; /* number of inputs read */
    weft_part inputs[WEFT_MAX_INPUTS];
    bool first, last; /* see weft_kernel_call */
    bool grouped;     /* see weft_kernel_args */
} weft_job;

/* ---- parts --------------------------------------------------------------------------------------------- */

/* Operands are numbered as slots: inputs, then outputs. */
int weft_output_operand(const weft_lowering *lowering, int output);

/* Rows of an operand; those of its shard; those of a panel of the shard. */
weft_part weft_part_of(const weft_lowering *lowering, int operand, int64_t first, int64_t last);
weft_part weft_part_whole(const weft_lowering *lowering, int operand);
weft_part weft_part_panel(const weft_lowering *lowering, int operand, int64_t panel);
/* Moves a part to a temporary with the shard's rows from `own_first` on. */
void weft_part_move(weft_part *p, weft_slot temporary, int64_t own_first);

int64_t weft_part_row_bytes(const weft_part *p);

/* ---- tasks --------------------------------------------------------------------------------------------- */

/* Inputs changed in place are outputs, and not read as inputs. */
bool weft_lowering_reads(const weft_lowering *lowering, int input);

/* A task that makes rows [first, last) of output 0, which are rows of all outputs; it has no inputs yet. */
weft_job weft_job_of_rows(const weft_lowering *lowering, int64_t first, int64_t last);
/* Chooses the inputs' parts for rows [first, last): inputs with relation `same` by row, the others whole. */
void weft_job_choose_inputs(const weft_lowering *lowering, weft_rows_relation same, int64_t first, int64_t last, weft_job *j);
/* Appends the task. False: no memory (the list has failed), or an error is kept. */
bool weft_job_add(const weft_lowering *lowering, const weft_job *j);

#endif
