/* Columns of images: rows of elements that convolutions multiply, copied from the image, and added back to it. */
#ifndef WEFT_CODELETS_CUDA_COLUMNS_H
#define WEFT_CODELETS_CUDA_COLUMNS_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

/* columns[sample][tap][position], by their steps, of some samples, taps and positions: the element of the image under a tap
 * at a position. A tap is a channel, i and j; positions are those of a rectangle, row by row. */
typedef struct weft_device_columns {
    weft_dtype type;                                /* of both */
    void *image;                                    /* the first sample; of the taps' first channel */
    void *columns;
    int64_t samples, image_step, column_step;       /* elements from sample to sample */
    int64_t channel_step, row_step;                 /* elements of the image */
    int64_t tap, taps, tap_step;                    /* the first one, their number, elements of the columns */
    int64_t position, positions;                    /* the first one, their number */
    int64_t top, left, width;                       /* of the rectangle: global indices, columns */
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t offset[2], extent[2], shape[2];         /* of the image's part and of the whole image */
} weft_device_columns;

/* 0 outside the image. On the queue's stream, as all of these; a weft_cuda_run's result. */
int weft_cuda_make_columns(const weft_device_columns *work, weft_cuda_queue *queue);
/* Adds them, in the order of their taps, to the elements of the image's part. WEFT_F32 or WEFT_F64. */
int weft_cuda_add_columns(const weft_device_columns *work, weft_cuda_queue *queue);
/* Sets output 0 [n, o, ...] to a bias [o], the call's input number `bias`; -1: to 0. */
int weft_cuda_start_images(const weft_task_run *run, int bias, weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
