/* Convolutions by oneDNN, where it was found. */
#ifndef WEFT_CODELETS_CPU_ONEDNN_CONVOLUTION_H
#define WEFT_CODELETS_CPU_ONEDNN_CONVOLUTION_H

#include "codelets/convolution_geometry.h"

/* A convolution's task: y from x and weight, or one of the others from two. */
typedef struct weft_convolution_task {
    const weft_geometry *geometry;
    const weft_image *x, *y;    /* y: the result, or its gradient */
    int64_t first_channel;      /* of x, by local index; of the first group */
    int64_t first_feature;      /* of y, likewise */
    int64_t groups;             /* of this task */
    const float *weight, *bias; /* all of them, contiguous; bias: NULL without one */
    float *sums;                /* the weights' gradient of this task alone, contiguous */
} weft_convolution_task;

/* One thread. False: oneDNN is not there, or products of columns are the better choice for these types, sizes or this
 * processor, or it ran out of memory; the output then has any content. The choice depends on nothing else, unless
 * memory ends. */
bool weft_onednn_convolve(const weft_convolution_task *task);
/* Elements of x that no element of y meets stay as they are. */
bool weft_onednn_convolve_backward_input(const weft_convolution_task *task);
bool weft_onednn_convolve_backward_weight(const weft_convolution_task *task);

#endif
