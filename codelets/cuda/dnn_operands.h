/* Operands of attention's tasks: where their matrices lie, and which heads share those of k and v. */
#ifndef WEFT_CODELETS_CUDA_DNN_OPERANDS_H
#define WEFT_CODELETS_CUDA_DNN_OPERANDS_H

#include "codelets/attention.h"
#include "codelets/cuda/dnn.h"

/* An operand. */
typedef struct weft_dnn_operand {
    const weft_device_view *view;
    void *const *panels;
    bool moves;   /* its first dimension is the result's, so that parts of the batch lie in its panels */
    int64_t step; /* elements from one matrix to the next; 0: they do not lie at equal distances, or have gaps between rows */
} weft_dnn_operand;

/* A task, whose batch is taken in pieces along the first dimension. The operands q, k and v; all others have a matrix (or a row, as
 * log-sums) for each index of the batch, as q has. */
typedef struct weft_dnn_task {
    weft_device_call call;
    const weft_task_run *run;
    weft_dnn_operand q, k, v;
    int leading;                        /* dimensions of the batch along which k and v do not repeat a matrix */
    int64_t inner_groups, inner_shared; /* of each index of the first dimension */
    int64_t pieces;                     /* its size */
    int64_t shift;
    weft_dnn_sizes sizes;
} weft_dnn_task;

/* Fills in what all pieces have in common; q is input number `first`, k and v follow. False: cuDNN does not compute such a task,
 * or not faster. */
bool weft_dnn_task_begin(weft_dnn_task *task, const weft_task_run *run, int first);

/* View number `number`, with so many dimensions after the batch's. */
weft_dnn_operand weft_dnn_operand_of(const weft_dnn_task *task, int number, int dims);
/* Whether it has a matrix for each index of the batch, at equal distances. */
bool weft_dnn_is_whole(const weft_dnn_task *task, const weft_dnn_operand *operand, int dims);

/* Indices of the first dimension from `piece` on that lie in one panel of each operand; sets the numbers of heads. 0: a matrix does
 * not lie in one panel, or there are too many heads. */
int64_t weft_dnn_piece(weft_dnn_task *task, int count, const weft_dnn_operand *const operands[], int64_t piece);
/* The operand's address for a piece. */
void *weft_dnn_place(const weft_dnn_operand *operand, int64_t piece);
/* Whether cuDNN takes this address. */
bool weft_dnn_is_aligned(const void *address);

#endif
