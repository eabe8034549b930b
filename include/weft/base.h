/** \file
 * Used by every other header: status codes, element types, limits, symbol visibility.
 *
 * Conventions of the whole library:
 *  - Shapes are `const int64_t shape[]` with `int ndim`, 0 <= ndim <= WEFT_MAX_DIMS; 0 is a scalar.
 *    Row-major.
 *  - A negative dimension counts from the end, as in PyTorch.
 *  - One thread submits: all functions are called from the thread that called weft_init() (see there).
 *  - Every process of the world calls the same functions in the same order with the same arguments (SPMD).
 *  - No function waits, except those whose comment says BLOCKS.
 *  - No function aborts on bad input, unless WEFT_ON_ERROR=abort asks for it. A function that returns a
 *    ::weft_status returns the error; one that returns a pointer returns NULL. A NULL tensor as an argument
 *    gives NULL, so a chain of calls needs one check at its end. The first error is kept (weft_last_status(),
 *    weft_last_error()) until weft_clear_error(). All checks come before the first submission: a failed call
 *    has changed nothing, on no rank.
 *  - An error in the tasks of a call reaches the program later and once, however many tasks meet it: as the
 *    status of the next function that BLOCKS and returns a status, or as NULL from weft_local_acquire(). If
 *    several calls have failed by then, the first one is reported. Functions that BLOCK and return a tensor
 *    leave the error to the next function, because they must do the same on all processes.
 *  - Functions of the program's that the library calls (of graphs, modules and weft_recompute(), hooks, kernels) return. To leave
 *    one by longjmp() or by a C++ exception is undefined: the library would stay in the middle of its call. <weft/weft.hpp> has
 *    weft::guard() for exceptions. exit(), also by Fortran's `stop`, may be called from there, but not from kernels.
 *  - weft_finalize() reports failures that the program has not looked at. WEFT_ON_ERROR=print writes each
 *    error to standard error where it happens; WEFT_ON_ERROR=abort does so and calls abort(), where a
 *    debugger stops. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#if defined(__GNUC__)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif

WEFT_BEGIN_DECLS

/** The version of these headers. Before 1.0 a minor version may change names (CHANGES.md). \{ */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.1.0"
/** \} */
/** The version of the library that runs, as WEFT_VERSION: static storage. May be called at any time. */
WEFT_API const char *weft_version(void);

/**
 * \page options Structs of options
 * Zero-initialise one and set what matters, or begin with its initialiser, weft_..._init(), which sets the
 * defaults and `size`. Later versions append fields: those are read only where `size` says that the program's
 * struct has them. `size` 0 stands for the fields up to `size` itself. WEFT_ERR_INVALID for a size that no
 * version has; WEFT_ERR_UNSUPPORTED where a field is set that this version does not know.
 */

/** Largest number of dimensions of a tensor, and of a mesh. */
#define WEFT_MAX_DIMS 8
/** In the place of a dimension, where a function says so: all of them. */
#define WEFT_ALL_DIMS INT32_MIN

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_INVALID,     /**< an argument is NULL, out of range, or not a live object of this library */
    WEFT_ERR_SHAPE,       /**< shapes do not fit together */
    WEFT_ERR_DTYPE,       /**< element types do not fit together, or the operation has no kernel for them */
    WEFT_ERR_LAYOUT,      /**< a placement is out of range, or not allowed here */
    WEFT_ERR_MESH,        /**< no mesh, or tensors of different meshes */
    WEFT_ERR_MISMATCH,    /**< ranks differ where they must agree */
    WEFT_ERR_UNSUPPORTED, /**< meaningful, but this build or world cannot do it */
    WEFT_ERR_NOMEM,
    WEFT_ERR_IO,
    WEFT_ERR_COMM, /**< a transport failed, or a process has ended without weft_finalize() */
    WEFT_ERR_TIMEOUT,
    WEFT_ERR_STATE,   /**< called at the wrong time: before weft_init(), pop of an empty stack, ... */
    WEFT_ERR_INTERNAL /**< a mistake in weft itself, found before it did harm: please report it */
} weft_status;

/** A short English text for a status ("shape mismatch"); never NULL, static storage. */
WEFT_API const char *weft_status_string(weft_status status);

/** Element types. WEFT_BF16 and WEFT_F16 are stored as 16 bits, WEFT_BOOL as one byte (0 or 1). */
typedef enum weft_dtype
#ifdef __cplusplus
    : unsigned int /* as in C: also with ::WEFT_WITH_GRAD */
#endif
{
    WEFT_F64 = 0,
    WEFT_F32,
    WEFT_BF16,
    WEFT_F16,
    WEFT_I64,
    WEFT_I32,
    WEFT_U8,
    WEFT_BOOL
} weft_dtype;

/** Number of values of ::weft_dtype; valid types are 0 .. WEFT_DTYPE_COUNT - 1. */
#define WEFT_DTYPE_COUNT 8

/** Beside the type that a function takes which makes a tensor of nothing, or of the program's memory: factories, random ones too,
 * weft_fake(), weft_distribute(), weft_from_local() and its relatives, weft_from_boxes(), weft_from_dlpack(). The tensor is a
 * leaf, as by weft_set_requires_grad() right after (<weft/autograd.h>). WEFT_ERR_DTYPE for a type that is not floating: nothing
 * is made then. It is no part of the tensor's type.
 *
 *     weft_tensor *w = weft_randn(WEFT_F32 | WEFT_WITH_GRAD, 2, shape, mesh, by_rows);
 *
 * In C++ makers have a last argument `requires_grad`; in Fortran it is ior(WEFT_F32, WEFT_WITH_GRAD). */
#define WEFT_WITH_GRAD 256

/** Bytes of one element; 0 for a value that is no ::weft_dtype. */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);

/** "f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"; "?" for a value that is no ::weft_dtype. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

WEFT_END_DECLS

#endif
