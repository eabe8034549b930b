/* Elementwise kernels: any types, broadcasting by strides, up to three inputs. */
#ifndef WEFT_CODELETS_ELEMENTWISE_H
#define WEFT_CODELETS_ELEMENTWISE_H

#include <weft/kernel.h>

#include "codelets/args.h"

enum { WEFT_MAX_ELEMENTWISE_INPUTS = 3 };

/* n contiguous elements in the type of the arithmetic; out may be one of the inputs. `out` has that type
 * too, or is one byte per element, 0 or 1, for kernels with WEFT_BOOL results. */
typedef void (*weft_elementwise_loop)(void *out, const void *a, const void *b, const void *c, int64_t n,
                                      const double scalars[]);

/* The loops of a kernel by type of arithmetic: f64; f32 (for f32, bf16 and f16); i64 (for all integers and
 * WEFT_BOOL; wraps around). NULL: there is none for that type. In the order of elementwise.inc, which has the
 * expressions. */
typedef struct weft_elementwise_loops {
    weft_elementwise_loop f64, f32, i64;
} weft_elementwise_loops;

extern const weft_elementwise_loops weft_elementwise_loops_table[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE];
/* Loops of WEFT_U64 where they differ from those of WEFT_I64 (unsigned.inc); else NULL. */
extern const weft_elementwise_loop weft_unsigned_loops_table[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE];
/* Loops in f32 for calls whose inputs and outputs are all bf16. NULL: kernels with WEFT_BOOL results, or of whole numbers. */
extern const weft_elementwise_loop weft_elementwise_bf16_loops[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE];

/* The kernel's results for all values of a 16-bit type, by their bits; made where `count` elements are enough for that. Belongs to
 * the process. NULL: compute; also if memory is short. Any thread. */
const uint16_t *weft_elementwise_table(weft_kernel_id kernel, weft_dtype type, int64_t count);
/* A loop on such a type; b: the table. */
void weft_elementwise_look_up(void *out, const void *a, const void *b, const void *c, int64_t n, const double scalars[]);

/* Operand 0: output (W, or RW in place); the others: inputs (in place, the output is input 0 as well). All
 * have the index box `extent`, each its own strides in elements (0 along a broadcast dimension) and its
 * own type. base.dtype: the type of the arithmetic, WEFT_F64, WEFT_F32, WEFT_I64, WEFT_U64 or complex. An input whose bit is
 * set in `converted` is first converted to `common`. Stores to 16 bits round to nearest even; stores to
 * integers go towards zero, and saturate. */
typedef struct weft_elementwise_args {
    weft_task_args base;
    int ndim;
    weft_dtype common;
    unsigned converted; /* bit k: operand k */
    int streams;        /* non-temporal stores, for outputs that would leave the caches before they are read */
    weft_dtype types[1 + WEFT_MAX_ELEMENTWISE_INPUTS];
    int64_t extent[WEFT_MAX_DIMS];
    int64_t stride[1 + WEFT_MAX_ELEMENTWISE_INPUTS][WEFT_MAX_DIMS];
} weft_elementwise_args;

/* The index box without dimensions of size 1, neighbours merged that are contiguous for every operand. At
 * least one dimension. */
typedef struct weft_elementwise_box {
    int num_operands, ndim;
    int64_t extent[WEFT_MAX_DIMS], stride[1 + WEFT_MAX_ELEMENTWISE_INPUTS][WEFT_MAX_DIMS];
} weft_elementwise_box;

static inline void weft_elementwise_add_dimension(weft_elementwise_box *box, const weft_elementwise_args *args,
                                                  int d)
{
    int last = box->ndim - 1;
    bool joins = last >= 0;
    for (int k = 0; k < box->num_operands && joins; k++) {
        joins = box->stride[k][last] == args->extent[d] * args->stride[k][d];
    }
    int place = joins ? last : box->ndim++;
    box->extent[place] = joins ? box->extent[place] * args->extent[d] : args->extent[d];
    for (int k = 0; k < box->num_operands; k++) {
        box->stride[k][place] = args->stride[k][d];
    }
}

static inline void weft_elementwise_merge(weft_elementwise_box *box, const weft_elementwise_args *args,
                                          int num_operands)
{
    box->num_operands = num_operands;
    box->ndim = 0;
    for (int d = 0; d < args->ndim; d++) {
        if (args->extent[d] != 1) {
            weft_elementwise_add_dimension(box, args, d);
        }
    }
    if (box->ndim == 0) {
        box->ndim = 1;
        box->extent[0] = 1;
        for (int k = 0; k < num_operands; k++) {
            box->stride[k][0] = 1;
        }
    }
}

/* The CPU function of all elementwise kernels. */
void weft_cpu_elementwise(const weft_task_run *run);
uint32_t weft_elementwise_footprint(const weft_task_run *run);

/* The type of the arithmetic for a type. */
weft_dtype weft_arithmetic_type(weft_dtype dtype);
/* Whether converting `type` to `common` before weft_arithmetic_type(common) changes values: not if `type`
 * is no wider, or if `common` is a type of arithmetic. */
bool weft_conversion_matters(weft_dtype type, weft_dtype common);

#endif
