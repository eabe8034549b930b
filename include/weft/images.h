/** \file
 * Pooling and interpolation of images: the last one, two or three dimensions of a tensor are an image, those before (at
 * least one) are samples and channels. Floating types; WEFT_BF16 and WEFT_F16 are added in higher precision, and the
 * result is rounded once. Pooling moves only halos of sharded image dimensions.
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

typedef enum weft_interpolation_mode {
    WEFT_INTERPOLATE_NEAREST = 0,   /**< the element at i step, rounded down */
    WEFT_INTERPOLATE_NEAREST_EXACT, /**< the element at (i + 1/2) step, rounded down */
    WEFT_INTERPOLATE_LINEAR,        /**< of two neighbours in each dimension: linear, bilinear, trilinear */
    WEFT_INTERPOLATE_BICUBIC        /**< of four neighbours in each dimension, by cubic convolution of slope -3/4; images
                                     * of two dimensions alone */
} weft_interpolation_mode;

/** The first one, two or three numbers of each array are for the dimensions of the image, in their order. */
typedef struct weft_interpolation {
    weft_interpolation_mode mode;
    int64_t sizes[3];   /**< of the result; 0: size n becomes n scale, rounded down */
    double scale[3];    /**< 0 stands for 1; 0 beside a size */
    bool align_corners; /**< the first and the last elements stay, in place of the image's edges. Not of nearest elements */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_interpolation;

/** Sets all fields to 0, and `size`: the nearest elements, all sizes as they are. */
static inline void weft_interpolation_init(weft_interpolation *options)
{
    const weft_interpolation all = { WEFT_INTERPOLATE_NEAREST, { 0 }, { 0 }, false, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/**
 * The image of the last num_dims dimensions, 1 to 3, in another size. The step from one element to the next, in elements of
 * a dimension of size n, is n / size, or 1 / scale where that is given; (n - 1) / (size - 1) with `align_corners`, or 0 for
 * size 1. The positions i step (with align_corners), or (i + 1/2) step - 1/2, are computed in WEFT_F32, for WEFT_F64 in that;
 * beyond the image its edges count on. No antialiasing. Sharded image dimensions are gathered; each rank computes
 * its own part of the result, which is placed as a is.
 * \return WEFT_ERR_INVALID for options that are not possible, WEFT_ERR_SHAPE for an image without elements
 */
WEFT_API weft_tensor *weft_interpolate(weft_tensor *a, int num_dims, const weft_interpolation *options);

WEFT_END_DECLS

#endif
