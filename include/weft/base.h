/** \file
 * Used by every other header: status codes, element types, limits, symbol visibility.
 *
 * Conventions of the whole library:
 *  - Shapes are `const int64_t shape[]` with `int ndim`, 0 <= ndim <= WEFT_MAX_DIMS; 0 dimensions make a scalar. Data
 *    are row-major.
 *  - A negative dimension counts from the end, as in PyTorch.
 *  - One thread submits: call every function from the thread that called weft_init() (see there).
 *  - Every process of the world calls the same functions in the same order with the same arguments (SPMD).
 *  - A function never waits unless its comment says BLOCKS.
 *  - A function never aborts on bad input unless you set WEFT_ON_ERROR=abort. A function that returns a ::weft_status
 *    returns the error; one that returns a pointer returns NULL. If you pass NULL as a tensor, the result is NULL
 *    too, so you can check a chain of calls once, at its end. The library keeps the first error (weft_last_status(),
 *    weft_last_error()) until you call weft_clear_error(). Every call checks its arguments before it submits
 *    anything, so a failed call has changed nothing on any rank.
 *  - If the tasks of a call fail, you hear of it later and once, however many tasks met the error: the next function
 *    that BLOCKS and returns a status returns it, or weft_local_acquire() returns NULL. If several calls have failed
 *    by then, the first one is reported. Functions that BLOCK and return a tensor leave the error to the next
 *    function, because they must do the same on all processes.
 *  - Your functions that the library calls (the functions of graphs, modules and weft_recompute(), hooks, kernels)
 *    must return. Leaving one by longjmp() or a C++ exception is undefined behaviour, because the library would stay
 *    in the middle of its call. For exceptions, use weft::guard() of <weft/weft.hpp>. You may call exit() from these
 *    functions, and Fortran's `stop` does too, but not from kernels.
 *  - weft_finalize() reports failures that the program never looked at. WEFT_ON_ERROR=print prints each error to
 *    standard error as it happens. WEFT_ON_ERROR=abort does so and then calls abort(), so that a debugger stops
 *    there. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <type_traits>
#endif

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

/* Functions that run within kernels, also on devices. */
#ifdef __CUDACC__
#define WEFT_INLINE static __host__ __device__ inline
#elif defined(__GNUC__)
/* Always: a loop that calls one is not vectorised, and GCC leaves calls in large files. */
#define WEFT_INLINE static inline __attribute__((always_inline))
#else
#define WEFT_INLINE static inline
#endif

WEFT_BEGIN_DECLS

/** The version of these headers. Before 1.0 a minor version may change names (CHANGES.md). \{ */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.2.0"
/** \} */
/** Returns the version of the library that is running, in the form of WEFT_VERSION. Static storage; call it at any
 * time. */
WEFT_API const char *weft_version(void);

/**
 * \page options Structs of options
 * Zero-initialise the struct and set the fields you need. Or call its initialiser, weft_..._init(), which sets the
 * defaults and `size`. Later versions append fields. The library reads an appended field only if `size` says that
 * your struct has it; 0 means the fields of version 0.2. The function returns WEFT_ERR_INVALID if no version has that
 * size, and WEFT_ERR_UNSUPPORTED if you set a field that this version does not know.
 */

/**
 * \page filled Structs that the library fills in
 * Pass the size of your struct, sizeof(info). The library writes no more than that, so a program that was compiled with
 * an older weft keeps its memory when a later version appends fields. Fields that this version does not know become 0.
 * WEFT_ERR_INVALID if no version has that size.
 */

/** Largest number of dimensions of a tensor, and of a mesh. */
#define WEFT_MAX_DIMS 8
/** Pass this instead of a dimension to mean all of them, if the function says that it accepts it. */
#define WEFT_ALL_DIMS (1 << 30)
/** A set of dimensions, for functions that say that they accept one: WEFT_DIM(0) | WEFT_DIM(-1) means the first and
 * the last. WEFT_ALL_DIMS is the set to begin with if you collect dimensions in a loop. Beware of an empty
 * loop: a set without members means all dimensions. */
#define WEFT_DIM(dim)                                                                                        \
    (WEFT_ALL_DIMS | ((dim) >= -WEFT_MAX_DIMS && (dim) < WEFT_MAX_DIMS ? 1 << ((dim) + WEFT_MAX_DIMS) : 1 << 29))

typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_INVALID,     /**< an argument is NULL, out of range, or not a live object of this library */
    WEFT_ERR_SHAPE,       /**< shapes do not match */
    WEFT_ERR_DTYPE,       /**< element types do not match, or the operation has no kernel for them */
    WEFT_ERR_LAYOUT,      /**< a placement is out of range, or not allowed here */
    WEFT_ERR_MESH,        /**< there is no mesh, or the tensors are on different meshes */
    WEFT_ERR_MISMATCH,    /**< ranks differ in something that must be equal on all of them */
    WEFT_ERR_UNSUPPORTED, /**< the request makes sense, but this build or world cannot do it */
    WEFT_ERR_NOMEM,
    WEFT_ERR_IO,
    WEFT_ERR_COMM, /**< a transport failed, or a process ended without weft_finalize() */
    WEFT_ERR_TIMEOUT,
    WEFT_ERR_STATE,   /**< called at the wrong time: before weft_init(), pop of an empty stack, ... */
    WEFT_ERR_INTERNAL /**< a bug in weft, found before it did harm: please report it */
} weft_status;

/** Returns a short English text for a status ("shape mismatch"). Never NULL; static storage. */
WEFT_API const char *weft_status_string(weft_status status);

/** Element types. WEFT_BF16 and WEFT_F16 are stored as 16 bits, WEFT_BOOL as one byte (0 or 1). WEFT_C64 and WEFT_C128 are
 * pairs of WEFT_F32 and of WEFT_F64, the real part first, as C99's `float complex`, Fortran and NumPy have them
 * (<weft/complex.h>). WEFT_I8 to WEFT_I64 are signed integers, WEFT_U8 to WEFT_U64 unsigned ones; arithmetic wraps around.
 * WEFT_F8_E4M3 (four bits of exponent, three of fraction; no infinity, the largest number is 448) and WEFT_F8_E5M2 (largest
 * 57344) are for storage: weft_to_type() converts from and to them; they are made, redistributed, moved (slices, joints, pads,
 * transposes, ...), read by the program and kept in files (not HDF5). Arithmetic refuses them (WEFT_ERR_DTYPE). */
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
    WEFT_BOOL,
    WEFT_C64,
    WEFT_C128,
    WEFT_I8,
    WEFT_I16,
    WEFT_U16,
    WEFT_U32,
    WEFT_U64,
    WEFT_F8_E4M3,
    WEFT_F8_E5M2
} weft_dtype;

/** Number of values of ::weft_dtype: valid types are 0 to WEFT_DTYPE_COUNT - 1. */
#define WEFT_DTYPE_COUNT 17

/** Combine this flag with the dtype (by |) to make the new tensor a leaf, as if you called weft_set_requires_grad()
 * right after (<weft/autograd.h>). It works with the functions that make a tensor of nothing or of your memory: the
 * factories (random ones too), weft_fake(), weft_distribute(), weft_from_local() and its variants, weft_from_boxes(),
 * weft_from_dlpack(), weft_from_ghosted(). WEFT_ERR_DTYPE if the type is neither floating nor complex; then no tensor is made. The flag does not become
 * part of the tensor's type.
 *
 *     weft_tensor *w = weft_randn(WEFT_F32 | WEFT_WITH_GRAD, 2, shape, mesh, by_rows);
 *
 * In C++ these functions take a last argument `requires_grad`; in Fortran, write ior(WEFT_F32, WEFT_WITH_GRAD). */
#define WEFT_WITH_GRAD 256

#ifdef __cplusplus
#define WEFT_SCALAR_CONSTRUCTORS                                                                             \
    weft_scalar() = default;                                                                                 \
    weft_scalar(double x) : dtype(WEFT_F64), real(x), imag(0), whole(0) {}                                   \
    weft_scalar(float x) : weft_scalar(double(x)) {}                                                         \
    weft_scalar(long double x) : weft_scalar(double(x)) {}                                                   \
    weft_scalar(double x, double y) : dtype(WEFT_C128), real(x), imag(y), whole(0) {}                        \
    weft_scalar(long long x) : dtype(WEFT_I64), real(0), imag(0), whole(x) {}                                \
    weft_scalar(long x) : weft_scalar((long long)x) {}                                                       \
    weft_scalar(int x) : weft_scalar((long long)x) {}                                                        \
    weft_scalar(unsigned x) : weft_scalar((long long)x) {}                                                   \
    weft_scalar(unsigned long long x) : weft_scalar(double(x))                                               \
    {                                                                                                        \
        dtype = x >> 63 ? WEFT_U64 : WEFT_I64;                                                               \
        whole = (int64_t)x;                                                                                  \
    }                                                                                                        \
    weft_scalar(unsigned long x) : weft_scalar((unsigned long long)x) {}                                     \
    /* Not of what becomes true or false, such as a pointer. */                                              \
    template <typename B, typename std::enable_if<std::is_same<B, bool>::value, int>::type = 0>              \
    weft_scalar(B x) : weft_scalar((long long)x) {}                                                          \
    template <typename C, typename = decltype(C().real() + C().imag())>                                      \
    weft_scalar(const C &x) : weft_scalar(double(x.real()), double(x.imag()))                                \
    {                                                                                                        \
    }
#else
#define WEFT_SCALAR_CONSTRUCTORS
#endif

WEFT_END_DECLS /* C++ has a template in the struct */

/** A number that a call takes for elements of any type. A double has no whole numbers beyond 2^53 and no imaginary
 * part, a 64-bit integer no fractions, so it says which of them it is. You rarely see it: functions that take one are
 * macros in C, too, as those of <tgmath.h>, and C++ converts, so that they accept each type of number:
 *
 *     weft_scale(a, 0.5);
 *     weft_full(WEFT_I64, INT64_MAX, 1, shape, mesh, NULL);
 *     weft_add_scalar(z, 1 + 2 * I);
 *
 * A whole number given for a floating tensor is converted to the tensor's type. WEFT_ERR_DTYPE if the tensor's type
 * does not have the number: it is beyond the range of an integer type (negative numbers down to minus the largest one wrap
 * around in unsigned types, as -255 to -1 in WEFT_U8, but in WEFT_U64 from -2^63 on; and WEFT_BOOL takes any whole number), or has an imaginary part beside real
 * numbers. Comparisons and weft_clamp() take
 * numbers beyond the range. */
typedef struct weft_scalar {
    /** WEFT_F64: the number is `real`; WEFT_C128: real + i imag; WEFT_I64: `whole`; WEFT_U64: `whole`, as uint64_t has it */
    weft_dtype dtype;
    double real, imag;
    int64_t whole;
    WEFT_SCALAR_CONSTRUCTORS
} weft_scalar;

WEFT_BEGIN_DECLS

#ifndef __cplusplus
/** Makes a ::weft_scalar of a number of any arithmetic type, or of a ::weft_scalar. */
#define WEFT_SCALAR(x)                                                                                       \
    _Generic((x), weft_scalar : weft_scalar_itself, float : weft_scalar_real, double : weft_scalar_real,     \
             long double : weft_scalar_real, float _Complex : weft_scalar_complex,                           \
             double _Complex : weft_scalar_complex, long double _Complex : weft_scalar_complex,              \
             unsigned long : weft_scalar_unsigned, unsigned long long : weft_scalar_unsigned,                \
             _Bool : weft_scalar_whole, char : weft_scalar_whole, signed char : weft_scalar_whole,           \
             unsigned char : weft_scalar_whole, short : weft_scalar_whole, unsigned short : weft_scalar_whole,\
             int : weft_scalar_whole, unsigned : weft_scalar_whole, long : weft_scalar_whole,                \
             long long : weft_scalar_whole)(x)
static inline weft_scalar weft_scalar_itself(weft_scalar x)
{
    return x;
}
static inline weft_scalar weft_scalar_real(double x)
{
    const weft_scalar scalar = { WEFT_F64, x, 0, 0 };
    return scalar;
}
static inline weft_scalar weft_scalar_complex(double _Complex x)
{
    const double *parts = (const double *)&x;
    const weft_scalar scalar = { WEFT_C128, parts[0], parts[1], 0 };
    return scalar;
}
static inline weft_scalar weft_scalar_whole(int64_t x)
{
    const weft_scalar scalar = { WEFT_I64, 0, 0, x };
    return scalar;
}
static inline weft_scalar weft_scalar_unsigned(uint64_t x)
{
    const weft_scalar scalar = { x >> 63 ? WEFT_U64 : WEFT_I64, (double)x, 0, (int64_t)x };
    return scalar;
}
#endif

/** Returns the bytes of one element; 0 if the value is not a ::weft_dtype. */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);

/** Returns "f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool", "c64", "c128", "i8", "i16", "u16", "u32", "u64", "f8_e4m3" or
 * "f8_e5m2"; "?" if the value is not a ::weft_dtype. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

WEFT_END_DECLS

#endif
