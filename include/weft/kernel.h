/** \file
 * How a kernel sees tensors: parts of them on one rank, as pointers, strides and global indices. Used by user-defined
 * operations (weft_operation_register()) and by weft's own kernels. */
#ifndef WEFT_KERNEL_H
#define WEFT_KERNEL_H

#include <stdarg.h>
#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/** A task's part of a tensor: a box of the global index space. Rows (dimension 0) are stored in panels of consecutive
 * rows; panels are not contiguous with each other. A tensor without dimensions is one row. An empty part has no
 * panels. The elements of a row are row-major. They may have gaps, given by `strides`, only if the view is an input
 * with a halo ("~" in the rule) along dimension 1 or later, or the operation has `takes_strides`. In a ghosted
 * array, and with a periodic halo, a part may begin before index 0 and end after the last one. */
typedef struct weft_view {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];  /**< shape of the whole tensor */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the part's first element; with a periodic halo it may be negative */
    int64_t extent[WEFT_MAX_DIMS]; /**< extent of the part; with a periodic halo it may reach beyond the shape */
    int64_t
        row_elements; /**< elements from row to row; without gaps, the product of all extents except the first */
    int64_t strides[WEFT_MAX_DIMS]; /**< elements from one index to the next within a row; [0] is row_elements */
    int64_t panel_rows; /**< a panel ends where the global row number plus row_shift is a multiple of this */
    int64_t row_shift;  /**< 0, unless rows come with a halo, or lie in a ghosted array */
    void *const *panels;           /**< addresses of the first row of each panel, for the panels of this part */
    int64_t first_rows; /**< rows of the part in its first panel; 0: not computed */
} weft_view;

/** Returns the number of elements of the part. */
static inline int64_t weft_view_count(const weft_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->ndim; d++) {
        count *= view->extent[d];
    }
    return count;
}

/** Returns the number of rows of the part that have elements: 1 if the tensor has no dimensions, 0 if the part is
 * empty. */
static inline int64_t weft_view_rows(const weft_view *view)
{
    return view->ndim == 0 ? 1 : view->row_elements == 0 ? 0 : view->extent[0];
}

/**
 * Returns the address of row `row` of the part, 0 .. weft_view_rows() - 1. If `rows` is not NULL, `*rows` is set to
 * the number of rows that are contiguous in memory from there on, including this one.
 */
static inline void *weft_view_row(const weft_view *view, int64_t row, int64_t *rows)
{
    if (view->ndim == 0) {
        if (rows != NULL) {
            *rows = 1;
        }
        return view->panels[0];
    }
    if (row < view->first_rows) { /* most parts are one panel: no division */
        if (rows != NULL) {
            *rows = view->first_rows - row;
        }
        return (char *)view->panels[0] + (size_t)(row * view->row_elements) * weft_dtype_size(view->dtype);
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

/** Returns the number of an element of the whole tensor, row-major: the one `column` elements after the beginning of row
 * `row` of the part. For parts whose rows have no gaps. */
WEFT_INLINE uint64_t weft_view_number(const weft_view *view, int64_t row, int64_t column)
{
    uint64_t number = 0, step = 1;
    for (int d = view->ndim - 1; d > 0; d--) {
        number += (uint64_t)(view->offset[d] + column % view->extent[d]) * step;
        column /= view->extent[d];
        step *= (uint64_t)view->shape[d];
    }
    return view->ndim == 0 ? 0 : number + (uint64_t)(view->offset[0] + row + column) * step;
}

/**
 * \page random Random numbers in kernels
 * A call that draws random numbers (weft_operation_description.random, weft_local_map_options.random) has a state of its
 * own, which is the current state (<weft/random.h>) when the program makes the call; the current state then moves on by
 * one, as by weft_rand(). From that state and the number of an element in the whole tensor (weft_view_number(),
 * weft_local_number()) these functions compute a value, so that it is the same on every mesh, in every layout and on any
 * number of processes. They keep nothing: ask for any number, in any order, as often as you like. Where an element needs
 * k values, take the numbers k i, k i + 1, ..., k i + k - 1.
 *
 * The values are those that weft_rand() and weft_randn() give to the element with this number from the same state: for
 * WEFT_F32 those of the functions with `_f32`, for WEFT_F64 those of the others.
 *
 * On devices use weft_random_words(), weft_random_uniform() and weft_random_uniform_f32(): their results have the same
 * bits as on CPUs.
 */

/** The state of the generator. Equal states give equal values for the same operations. */
typedef struct weft_random_state {
    uint64_t seed;
    uint64_t offset; /**< random operations since the state was seeded */
} weft_random_state;

/** Random bits: four words, number `block` of this state (Philox4x32-10: Salmon, Moraes, Dror, Shaw, Parallel Random
 * Numbers: As Easy as 1, 2, 3, SC11). The other functions take their bits from here: from one block come two numbers of
 * weft_random_uniform() or weft_random_normal(), and four of weft_random_uniform_f32() or weft_random_normal_f32(). */
WEFT_INLINE void weft_random_words(const weft_random_state *state, uint64_t block, uint32_t words[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)state->offset, c3 = (uint32_t)(state->offset >> 32);
    uint32_t k0 = (uint32_t)state->seed, k1 = (uint32_t)(state->seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/** A number in [0, 1): a multiple of 2^-53. */
WEFT_INLINE double weft_random_uniform(const weft_random_state *state, uint64_t number)
{
    uint32_t words[4];
    weft_random_words(state, number / 2, words);
    const uint32_t *own = words + 2 * (number % 2);
    return (double)(((uint64_t)own[1] << 32 | own[0]) >> 11) * (1.0 / 9007199254740992.0);
}

/** A number in [0, 1): a multiple of 2^-24. */
WEFT_INLINE float weft_random_uniform_f32(const weft_random_state *state, uint64_t number)
{
    uint32_t words[4];
    weft_random_words(state, number / 4, words);
    return (float)(words[number % 4] >> 8) * (1.0f / 16777216.0f);
}

/** Normal numbers of mean 0 and variance 1 (Box, Muller: A Note on the Generation of Random Normal Deviates, 1958). \{ */
WEFT_API double weft_random_normal(const weft_random_state *state, uint64_t number);
WEFT_API float weft_random_normal_f32(const weft_random_state *state, uint64_t number);
/** \} */

#define WEFT_MAX_KERNEL_INPUTS 7
#define WEFT_MAX_KERNEL_OUTPUTS 4
#define WEFT_MAX_NUMBERS 12 /**< integers that a call passes to its kernel */
#define WEFT_MAX_SCALARS 8  /**< real numbers that a call passes to its kernel */

#define WEFT_KERNEL_MESSAGE 160 /**< bytes of a kernel's message, including the terminating 0 */

/** The error of a kernel's call: plain data, which the library reads after the call. Only the first error of a call
 * counts, and only the first of an operation's calls. */
typedef struct weft_kernel_error {
    weft_status status;                /**< WEFT_OK until there is one */
    int problem;                       /**< for the library's own kernels; 0: `message` describes the error */
    int input;                         /**< number of the input that has the value */
    int64_t value, bound;              /**< the value, and the largest value that was expected */
    double number;                     /**< the value, if it is a real number */
    char message[WEFT_KERNEL_MESSAGE]; /**< without the function's name */
} weft_kernel_error;

/** Sets the error of a call, if it is the first one. */
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

/** One call of a kernel. Equal calls must give equal outputs, whatever else is running. */
typedef struct weft_kernel_call {
    int num_outputs;
    /** Outputs to write, or to change if they are in place. */
    union {
        weft_view output; /**< the first one */
        weft_view outputs[WEFT_MAX_KERNEL_OUTPUTS];
    };
    int num_inputs; /**< not counting the inputs that are changed in place */
    weft_view inputs[WEFT_MAX_KERNEL_INPUTS];
    /** For operations that accumulate: the inputs are one of several pieces of rows, which come in order. Before the
     * first piece the output is undefined. */
    bool first, last;
    const int64_t *numbers;
    const double *scalars;
    const char *function; /**< the public function */
    /** To report a value that the kernel cannot use, or a lack of memory: write zeros instead, and go on. The program
     * gets the status from its next blocking call. Use weft_kernel_fail(). */
    weft_kernel_error *error;
    void *context; /**< see ::weft_apply_options; calls that run at the same time may share it */
    weft_random_state random; /**< of operations that draw random numbers ("Random numbers in kernels"); else 0 */
} weft_kernel_call;

/** weft_kernel_fail(call, status, format, ...): reports an error of a weft_kernel_call or a weft_local_call, with a
 * message as of printf(). */
#define weft_kernel_fail(call, status, ...) weft_kernel_error_set((call)->error, (status), __VA_ARGS__)

typedef void (*weft_kernel)(const weft_kernel_call *call);

/** A kernel for a CUDA device: a function of the host, which launches CUDA kernels on `stream`, a cudaStream_t of the
 * current device, and does not wait for them. The views' panels are addresses in the device's memory. The views, the
 * array of panels, `numbers`, `scalars` and a copied `context` are in host memory, valid until the function returns.
 * `error` is NULL, so you cannot use weft_kernel_fail().
 *
 * \return 0, or the cudaError_t of a launch. In that case the program's next blocking call returns
 *         WEFT_ERR_UNSUPPORTED, and the message has the error's name. */
typedef int (*weft_cuda_kernel)(const weft_kernel_call *call, void *stream);

WEFT_END_DECLS

#endif
