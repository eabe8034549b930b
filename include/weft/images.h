/** \file
 * Pooling of images: the last one, two or three dimensions of a tensor are an image, those before (at least one) are
 * samples and channels. Floating types; WEFT_BF16 and WEFT_F16 are added in higher precision, and the result is
 * rounded once. Only halos of sharded image dimensions move.
 */
#ifndef WEFT_IMAGES_H
#define WEFT_IMAGES_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Windows of pooling. The first one, two or three numbers of each array are for the dimensions of the image, in their
 * order. A dimension of size n becomes (n + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down. */
typedef struct weft_pooling {
    int64_t kernel[3];     /**< elements of a window, at least 1 */
    int64_t stride[3];     /**< from window to window; 0 stands for the kernel's size */
    int64_t padding[3];    /**< before and behind the image, at most half a window */
    int64_t dilation[3];   /**< distance between a window's elements; 0 stands for 1. For weft_max_pool() alone */
    bool ceil_mode;        /**< sizes are rounded up, but no window begins behind the image and the padding before it */
    bool excludes_padding; /**< averages divide by a window's elements inside the image. For weft_avg_pool() alone */
    int64_t divisor;       /**< averages divide by it; 0: by the window's elements. For weft_avg_pool() alone */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_pooling;

/** Sets all fields to 0, and `size`. The kernel has to be set. */
static inline void weft_pooling_init(weft_pooling *options)
{
    const weft_pooling all = { { 0 }, { 0 }, { 0 }, { 0 }, false, false, 0, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/**
 * The largest element of each window of the last num_dims dimensions, 1 to 3; NaN if there is one. -infinity for a
 * dilated window of which no element is in the image. Gradient: to the selected elements.
 * \param indices  gets where they are in their image, row-major, WEFT_I64: the first of equal elements, the last NaN,
 *                 -1 where there is none; NULL on error. May be NULL
 * \return WEFT_ERR_INVALID for options that are not possible, WEFT_ERR_SHAPE for an image without elements, or smaller
 *         than the window
 */
WEFT_API weft_tensor *weft_max_pool(weft_tensor *a, int num_dims, const weft_pooling *options, weft_tensor **indices);
/** The sums of the windows, with zeros as padding, divided by their numbers of elements. With `ceil_mode` elements
 * behind the padding do not count. Errors as of weft_max_pool(). */
WEFT_API weft_tensor *weft_avg_pool(weft_tensor *a, int num_dims, const weft_pooling *options);

/** Pooling to given sizes of the last num_dims dimensions, 1 to 3, at least 0; -1 stands for a's own. Index i of a
 * dimension is made from elements i n / size, rounded down, to (i + 1) n / size, rounded up, of the n that it has.
 * `indices` as of weft_max_pool(). WEFT_ERR_SHAPE for an image without elements. \{ */
WEFT_API weft_tensor *weft_adaptive_avg_pool(weft_tensor *a, int num_dims, const int64_t sizes[]);
WEFT_API weft_tensor *weft_adaptive_max_pool(weft_tensor *a, int num_dims, const int64_t sizes[], weft_tensor **indices);
/** \} */

WEFT_END_DECLS

#endif
