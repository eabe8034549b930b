/** \file
 * Pooling and interpolation of images. The last one, two or three dimensions of a tensor are an image; the dimensions
 * before them (at least one) are samples and channels. Floating types; WEFT_BF16 and WEFT_F16 are added in higher
 * precision, and the result is rounded once. Pooling moves only the halos of sharded image dimensions. */
#ifndef WEFT_IMAGES_H
#define WEFT_IMAGES_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Windows of pooling. The first one, two or three numbers of each array are for the dimensions of the image, in their
 * order. A dimension of size n becomes (n + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down. */
typedef struct weft_pooling {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int64_t kernel[3];     /**< number of elements of a window, at least 1 */
    int64_t stride[3];     /**< distance from window to window; 0 means the kernel's size */
    int64_t padding[3];    /**< before and after the image, at most half a window */
    int64_t dilation[3];   /**< distance between a window's elements; 0 means 1. Only for weft_max_pool() */
    bool ceil_mode;        /**< round sizes up; but no window begins after the image and the padding before it */
    bool excludes_padding; /**< averages divide by the number of a window's elements inside the image. Only for
                                weft_avg_pool() */
    int64_t divisor;       /**< averages divide by it; 0: by the number of the window's elements. Only for
                                weft_avg_pool() */
} weft_pooling;

/** Sets all fields to 0, and `size`. You have to set the kernel. */
static inline void weft_pooling_init(weft_pooling *options)
{
    const weft_pooling all = { sizeof(all), { 0 }, { 0 }, { 0 }, { 0 }, false, false, 0 };
    *options = all;
}

/**
 * Returns the largest element of each window of the last num_dims dimensions, 1 to 3; NaN if there is one. If a
 * window is dilated and none of its elements is in the image, the result is -infinity. The gradient goes to the
 * selected elements.
 *
 * \param indices  receives the row-major index of each selected element in its image, WEFT_I64: the first of equal
 *                 elements, the last NaN, -1 if there is no element; NULL on error. May be NULL
 * \return WEFT_ERR_INVALID if an option is not possible, WEFT_ERR_SHAPE if an image has no elements or is smaller
 *         than the window
 */
WEFT_API weft_tensor *weft_max_pool(weft_tensor *a, int num_dims, const weft_pooling *options, weft_tensor **indices);
/** Averages each window: the sum of its elements, with zeros as padding, divided by their number. With `ceil_mode`
 * elements after the padding do not count. Errors as in weft_max_pool(). */
WEFT_API weft_tensor *weft_avg_pool(weft_tensor *a, int num_dims, const weft_pooling *options);

/** Pool the last num_dims dimensions, 1 to 3, to given sizes, which are at least 0; -1 keeps a's own size. Index i of
 * a dimension of n elements is computed from elements i n / size, rounded down, to (i + 1) n / size, rounded up.
 * `indices` as in weft_max_pool(). WEFT_ERR_SHAPE if an image has no elements. \{ */
WEFT_API weft_tensor *weft_adaptive_avg_pool(weft_tensor *a, int num_dims, const int64_t sizes[]);
WEFT_API weft_tensor *weft_adaptive_max_pool(weft_tensor *a, int num_dims, const int64_t sizes[], weft_tensor **indices);
/** \} */

typedef enum weft_interpolation_mode {
    WEFT_INTERPOLATE_NEAREST = 0,   /**< the element at i step, rounded down */
    WEFT_INTERPOLATE_NEAREST_EXACT, /**< the element at (i + 1/2) step, rounded down */
    WEFT_INTERPOLATE_LINEAR,        /**< from two neighbours in each dimension: linear, bilinear, trilinear */
    WEFT_INTERPOLATE_BICUBIC        /**< from four neighbours in each dimension, by cubic convolution of slope -3/4;
                                         only for images of two dimensions */
} weft_interpolation_mode;

/** The first one, two or three numbers of each array are for the dimensions of the image, in their order. */
typedef struct weft_interpolation {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    weft_interpolation_mode mode;
    int64_t sizes[3];   /**< size of the result; 0: size n becomes n scale, rounded down */
    double scale[3];    /**< 0 means 1; must be 0 if a size is set */
    bool align_corners; /**< the first and last elements keep their positions, instead of the image's edges. Not for
                             nearest elements */
} weft_interpolation;

/** Sets all fields to 0, and `size`: the nearest elements, all sizes as they are. */
static inline void weft_interpolation_init(weft_interpolation *options)
{
    const weft_interpolation all = { sizeof(all), WEFT_INTERPOLATE_NEAREST, { 0 }, { 0 }, false };
    *options = all;
}

/**
 * Resizes the image of the last num_dims dimensions, 1 to 3. For a dimension of n elements, the step from one element
 * to the next is n / size, or 1 / scale if a scale is given. With `align_corners` it is (n - 1) / (size - 1), or 0 if
 * size is 1. Positions are i step with `align_corners`, otherwise (i + 1/2) step - 1/2; they are computed in WEFT_F32
 * (in WEFT_F64 for WEFT_F64). Outside the image its edges are repeated. There is no antialiasing. Sharded image
 * dimensions are gathered; each rank computes its own part of the result, which is placed as a is.
 *
 * \return WEFT_ERR_INVALID if an option is not possible, WEFT_ERR_SHAPE if an image has no elements
 */
WEFT_API weft_tensor *weft_interpolate(weft_tensor *a, int num_dims, const weft_interpolation *options);

WEFT_END_DECLS

#endif
