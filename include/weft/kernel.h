/** \file
 * A kernel's view of tensors: parts of them on one rank, as pointers, strides and global indices. For
 * operations of a program's own (weft_operation_register()), and for weft's kernels. */
#ifndef WEFT_KERNEL_H
#define WEFT_KERNEL_H

#include <stdarg.h>
#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/** A task's part of a tensor: a box of the global index space. Rows (dimension 0) are stored in panels of
 * consecutive rows; panels are not contiguous with each other. A tensor without dimensions is one row. An
 * empty part has no panels. Elements of a row are row-major; only an input with a halo ("~" in the rule)
 * along dimension 1 or later may have gaps between them, given by `strides`. */
typedef struct weft_view {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /**< of the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the part's first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< of the part */
    int64_t
        row_elements; /**< elements from row to row: without gaps, the product of all extents but the first */
    int64_t strides[WEFT_MAX_DIMS]; /**< elements from index to index in a row; [0] is row_elements */
    int64_t panel_rows; /**< panels end where the global row number plus row_shift is a multiple of this */
    int64_t row_shift;  /**< 0, but where rows come with a halo */
    void *const *panels;           /**< where the rows of each panel begin, those of this part */
} weft_view;

/** Elements of the part. */
static inline int64_t weft_view_count(const weft_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->ndim; d++) {
        count *= view->extent[d];
    }
    return count;
}

/** Rows of the part that have elements: 1 of a tensor without dimensions, 0 of an empty part. */
static inline int64_t weft_view_rows(const weft_view *view)
{
    return view->ndim == 0 ? 1 : view->row_elements == 0 ? 0 : view->extent[0];
}

/**
 * The address of row `row` of the part, 0 .. weft_view_rows() - 1. If `rows` is not NULL, `*rows` is set to
 * the number of rows that follow each other in memory from there, this one included. */
static inline void *weft_view_row(const weft_view *view, int64_t row, int64_t *rows)
{
    if (view->ndim == 0) {
        if (rows != NULL) {
            *rows = 1;
        }
        return view->panels[0];
    }
    int64_t first = view->offset[0] + view->row_shift, place = first + row;
    int64_t panel = place / view->panel_rows - first / view->panel_rows;
    int64_t begin = panel == 0 ? first : place - place % view->panel_rows;
    if (rows != NULL) {
        int64_t end = place - place % view->panel_rows + view->panel_rows, last = first + view->extent[0];
        *rows = (end < last ? end : last) - place;
    }
    return (char *)view->panels[panel] +
           (size_t)((place - begin) * view->row_elements) * weft_dtype_size(view->dtype);
}

#define WEFT_MAX_KERNEL_INPUTS 7
#define WEFT_MAX_KERNEL_OUTPUTS 4
#define WEFT_MAX_NUMBERS 12 /**< integers that a call passes to its kernel */
#define WEFT_MAX_SCALARS 8  /**< real numbers that it passes */

#define WEFT_KERNEL_MESSAGE 160 /**< bytes of a kernel's message, its end included */

/** The error of a kernel's call: plain data, read by the library after the call. The first error of a call
 * counts, and the first of an operation's calls. */
typedef struct weft_kernel_error {
    weft_status status;                /**< WEFT_OK until there is one */
    int problem;                       /**< of the library's own kernels; 0: `message` says it */
    int input;                         /**< number of the input that has the value */
    int64_t value, bound;              /**< the value, and the largest that was expected */
    double number;                     /**< the value, if it is a real number */
    char message[WEFT_KERNEL_MESSAGE]; /**< without the function's name */
} weft_kernel_error;

/** Keeps an error, if it is the call's first. */
#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static inline void weft_kernel_error_set(weft_kernel_error *error, weft_status status, const char *format, ...)
{
    if (error->status == WEFT_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof(error->message), format, arguments);
        va_end(arguments);
        error->status = status;
        error->problem = 0;
    }
}

/** One call of a kernel. Equal calls must give equal outputs, whatever else runs. */
typedef struct weft_kernel_call {
    int num_outputs;
    /** Outputs to write; those in place, to change. */
    union {
        weft_view output; /**< the first one */
        weft_view outputs[WEFT_MAX_KERNEL_OUTPUTS];
    };
    int num_inputs; /**< without the inputs changed in place */
    weft_view inputs[WEFT_MAX_KERNEL_INPUTS];
    /** For operations that accumulate: the inputs are one of several pieces of rows, in order. The output
     * is undefined before the first one. */
    bool first, last;
    const int64_t *numbers;
    const double *scalars;
    const char *function; /**< the public function */
    /** For a value that the kernel cannot use, or a lack of memory: the kernel writes zeros in its place
     * and continues, and the program gets the status at its next blocking call. Use weft_kernel_fail(). */
    weft_kernel_error *error;
} weft_kernel_call;

/** weft_kernel_fail(call, status, format, ...), as printf(), for a weft_kernel_call or a weft_local_call. */
#define weft_kernel_fail(call, status, ...) weft_kernel_error_set((call)->error, (status), __VA_ARGS__)

typedef void (*weft_kernel)(const weft_kernel_call *call);

/** The same on a CUDA device: a function of the host, which launches CUDA kernels on `stream`, a cudaStream_t of the current
 * device, and does not wait for them. The views' panels are addresses in the device's memory; the views, the array of panels,
 * `numbers` and `scalars` are host memory, valid until it returns. `error` is NULL: weft_kernel_fail() cannot be used.
 * \return 0, or the cudaError_t of a launch: the program gets WEFT_ERR_UNSUPPORTED with its name at its next blocking call. */
typedef int (*weft_cuda_kernel)(const weft_kernel_call *call, void *stream);

WEFT_END_DECLS

#endif
