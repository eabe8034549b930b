/* Complex types: pairs of real numbers, the real part first. */
#ifndef WEFT_CODELETS_COMPLEX_H
#define WEFT_CODELETS_COMPLEX_H

#include <stdbool.h>

#include <weft/kernel.h>

#include "codelets/kernels.h"
#include "codelets/types.h"

static inline bool weft_dtype_is_complex(weft_dtype dtype)
{
    return dtype == WEFT_C64 || dtype == WEFT_C128;
}

/* The type of a complex type's parts; real types: itself. */
static inline weft_dtype weft_part_type(weft_dtype dtype)
{
    return dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
}

/* The complex type for numbers of a real type, as PyTorch promotes: its parts are WEFT_F64 for WEFT_F64 alone. */
static inline weft_dtype weft_complex_type(weft_dtype dtype)
{
    return dtype == WEFT_F64 || dtype == WEFT_C128 ? WEFT_C128 : WEFT_C64;
}

/* Whether a task reads or writes complex numbers, or one of the types after them, which no kernel for devices knows: such tasks run on
 * CPUs alone. `arguments`: of a kernel of this form. PURE. */
bool weft_task_is_for_cpus(weft_kernel_form form, const void *arguments, int num_operands);

#ifndef __cplusplus
typedef float _Complex weft_c64;
typedef double _Complex weft_c128;

/* The loops of an elementwise kernel in complex arithmetic (complex.inc), as those of weft_elementwise_loops. */
typedef struct weft_complex_loops {
    void (*c128)(void *out, const void *a, const void *b, const void *c, int64_t n, const double scalars[]);
    void (*c64)(void *out, const void *a, const void *b, const void *c, int64_t n, const double scalars[]);
    bool real; /* results are real: of the type of the parts */
} weft_complex_loops;

/* By kernel - WEFT_KERNEL_ELEMENTWISE. NULL loops: the kernel has no meaning for complex numbers. */
extern const weft_complex_loops weft_complex_loops_table[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE];

/* The bytes of the input's rows, as elements of another type: view_as_real, view_as_complex. */
void weft_kernel_reinterpret(const weft_kernel_call *call);
/* The sum of weft_kernel_sum() (reductions.h), or the product, for complex inputs, in double precision, in index order. */
void weft_complex_sum(const weft_kernel_call *call, bool multiplies);
/* Scans complex inputs, for weft_kernel_cumsum() and weft_kernel_cumprod() (scans.h), in double precision. */
void weft_complex_scan(const weft_kernel_call *call, bool multiplies);
#endif

#endif
