/* Functions of one 16-bit value by lookup: a table of the results of all 65,536 values, of the loop in f32, so that the bits are
 * those of that loop. A lookup takes a third of the time of gelu's loop, and a twentieth of the C library's functions. */
#include "codelets/elementwise.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "codelets/convert.h"

/* The first task of LEAST_COUNT elements makes the table, which takes as long as VALUES elements in the loop. Smaller ones do not. */
enum { BLOCK = 512, VALUES = 1 << 16, LEAST_COUNT = 1 << 14 };
enum { KERNELS = WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE, TYPES = 2 };

/* Functions without scalars whose loops take longer than lookups. */
#define LOOKED_UP(name) [WEFT_KERNEL_##name - WEFT_KERNEL_ELEMENTWISE] = true

static const bool looked_up[KERNELS] = {
    LOOKED_UP(exp), LOOKED_UP(expm1), LOOKED_UP(log), LOOKED_UP(log1p), LOOKED_UP(log2), LOOKED_UP(log10), LOOKED_UP(sin),
    LOOKED_UP(cos), LOOKED_UP(tan), LOOKED_UP(asin), LOOKED_UP(acos), LOOKED_UP(atan), LOOKED_UP(sinh), LOOKED_UP(cosh),
    LOOKED_UP(asinh), LOOKED_UP(acosh), LOOKED_UP(atanh), LOOKED_UP(tanh), LOOKED_UP(exp2), LOOKED_UP(erf), LOOKED_UP(erfc),
    LOOKED_UP(erfinv), LOOKED_UP(lgamma), LOOKED_UP(digamma), LOOKED_UP(sinc), LOOKED_UP(i0), LOOKED_UP(i0e), LOOKED_UP(i1), LOOKED_UP(i1e),
    LOOKED_UP(bessel_j0), LOOKED_UP(bessel_j1), LOOKED_UP(ndtr), LOOKED_UP(ndtri), LOOKED_UP(log_ndtr), LOOKED_UP(entr), LOOKED_UP(logit),
    LOOKED_UP(sigmoid), LOOKED_UP(silu),
    LOOKED_UP(gelu), LOOKED_UP(gelu_tanh), LOOKED_UP(mish), LOOKED_UP(selu),
};

/* Made by the first large call, kept until the process ends. NULL: not made yet. */
static _Atomic(uint16_t *) tables[KERNELS][TYPES];

static void fill(uint16_t *table, weft_elementwise_loop loop, weft_dtype type)
{
    static const double no_scalars[WEFT_MAX_SCALARS];
    for (int first = 0; first < VALUES; first += BLOCK) {
        float block[BLOCK];
        for (int i = 0; i < BLOCK; i++) {
            table[first + i] = (uint16_t)(first + i);
        }
        weft_load(WEFT_F32, block, type, table + first, 1, BLOCK);
        loop(block, block, block, block, BLOCK, no_scalars);
        weft_store(type, table + first, 1, WEFT_F32, block, BLOCK);
    }
}

const uint16_t *weft_elementwise_table(weft_kernel_id kernel, weft_dtype type, int64_t count)
{
    int own = (int)kernel - WEFT_KERNEL_ELEMENTWISE;
    if (!looked_up[own] || (type != WEFT_BF16 && type != WEFT_F16)) {
        return NULL;
    }
    _Atomic(uint16_t *) *place = &tables[own][type == WEFT_F16];
    uint16_t *table = atomic_load_explicit(place, memory_order_acquire);
    if (table != NULL || count < LEAST_COUNT || (table = malloc(VALUES * sizeof(*table))) == NULL) {
        return table;
    }
    fill(table, weft_elementwise_loops_table[own].f32, type);
    uint16_t *other = NULL; /* of a thread that was faster */
    if (!atomic_compare_exchange_strong(place, &other, table)) {
        free(table);
        return other;
    }
    return table;
}

void weft_elementwise_look_up(void *out, const void *values, const void *table, const void *unused, int64_t n,
                              const double scalars[])
{
    uint16_t *to = out;
    const uint16_t *from = values, *results = table;
    (void)unused, (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        to[i] = results[from[i]];
    }
}
