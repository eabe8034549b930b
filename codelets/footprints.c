/* Footprints: a hash of everything in the arguments that a task's time depends on. PURE, see kernels.h. */
#include <string.h>

#include "codelets/constant.h"
#include "codelets/copy.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"
#include "codelets/local.h"
#include "codelets/lookup.h"
#include "codelets/rearrange.h"

/* FNV-1a of 64-bit words, folded. */
typedef struct hash {
    uint64_t state;
} hash;

static hash begin(void)
{
    return (hash){ UINT64_C(0xcbf29ce484222325) };
}

static void add(hash *h, int64_t word)
{
    h->state = (h->state ^ (uint64_t)word) * UINT64_C(0x100000001b3);
    h->state ^= h->state >> 29;
}

static void add_all(hash *h, int count, const int64_t words[])
{
    for (int i = 0; i < count; i++) {
        add(h, words[i]);
    }
}

static uint32_t end(hash h)
{
    return (uint32_t)(h.state ^ h.state >> 32);
}

static void add_boxes(hash *h, const weft_task_run *run, const weft_strided_box boxes[])
{
    add(h, run->num_operands);
    for (int i = 0; i < run->num_operands - 1; i++) {
        add(h, boxes[i].ndim);
        add_all(h, boxes[i].ndim, boxes[i].extent);
        add_all(h, boxes[i].ndim, boxes[i].source_stride);
        add_all(h, boxes[i].ndim, boxes[i].target_stride);
    }
}

uint32_t weft_copy_footprint(const weft_task_run *run)
{
    const weft_copy_args *args = run->arguments;
    hash h = begin();
    add(&h, (int64_t)args->element_size * 2 + args->streams);
    add_boxes(&h, run, args->boxes);
    return end(h);
}

uint32_t weft_reduce_footprint(const weft_task_run *run)
{
    const weft_reduce_args *args = run->arguments;
    hash h = begin();
    add(&h, args->base.dtype);
    add(&h, args->combine * 2 + args->accumulate);
    add_boxes(&h, run, args->boxes);
    return end(h);
}

uint32_t weft_rearrange_footprint(const weft_task_run *run)
{
    const weft_rearrange_args *args = run->arguments;
    const weft_moved_rows *moved = args->moved;
    hash h = begin();
    add(&h, (int64_t)args->element_size);
    for (int d = 0; d < args->ndim; moved += args->num_moved[d++]) {
        int64_t rows = 0;
        for (int64_t i = 0; i < args->num_moved[d]; i++) {
            rows += moved[i].rows * moved[i].count;
        }
        add_all(&h, 3, (const int64_t[]){ rows, args->num_moved[d], args->num_moved[d] == 0 ? 0 : moved[0].rows });
    }
    return end(h);
}

uint32_t weft_constant_footprint(const weft_task_run *run)
{
    const weft_constant_args *args = run->arguments;
    hash h = begin();
    add(&h, args->base.dtype);
    add(&h, args->count);
    return end(h);
}

uint32_t weft_matmul_footprint(const weft_task_run *run)
{
    const weft_gemm_args *args = run->arguments;
    const weft_gemm *g = &args->gemm;
    hash h = begin();
    add(&h, g->dtype);
    add(&h, args->base.dtype);
    add(&h, args->input_type);
    add(&h, args->rounds * 8 + g->transpose_a * 4 + g->transpose_b * 2 + args->adds);
    add_all(&h, 7, (const int64_t[]){ g->m, g->n, g->k, g->lda, g->ldb, g->ldc, args->packed_rows });
    return end(h);
}

uint32_t weft_pack_footprint(const weft_task_run *run)
{
    const weft_pack_args *args = run->arguments;
    const weft_gemm *g = &args->gemm;
    hash h = begin();
    add(&h, args->base.dtype);
    add(&h, g->transpose_b);
    add_all(&h, 4, (const int64_t[]){ g->n, g->k, g->ldb, args->count });
    return end(h);
}

static uint32_t embedding_footprint(const weft_task_run *run)
{
    const weft_embedding_args *args = run->arguments;
    hash h = begin();
    add(&h, args->base.dtype);
    add(&h, args->index_type);
    add(&h, args->gradient_type);
    add(&h, args->streams);
    add_all(&h, 4, (const int64_t[]){ args->count, args->width, args->num_rows, args->first });
    return end(h);
}

uint32_t weft_embedding_footprint(const weft_task_run *run)
{
    return embedding_footprint(run);
}

uint32_t weft_embedding_backward_footprint(const weft_task_run *run)
{
    return embedding_footprint(run);
}

/* The function is not part of it: several functions of a program share an average. */
uint32_t weft_local_map_footprint(const weft_task_run *run)
{
    const weft_local_args *args = run->arguments;
    hash h = begin();
    add(&h, args->num_inputs);
    for (int i = 0; i < args->num_inputs + args->num_outputs; i++) {
        add(&h, args->operands[i].total_bytes);
    }
    return end(h);
}

uint32_t weft_elementwise_footprint(const weft_task_run *run)
{
    const weft_elementwise_args *args = run->arguments;
    hash h = begin();
    add(&h, args->base.dtype);
    add(&h, args->converted);
    add(&h, args->streams);
    add_all(&h, args->ndim, args->extent);
    for (int k = 0; k < run->num_operands; k++) {
        add(&h, args->types[k]);
        add_all(&h, args->ndim, args->stride[k]);
    }
    return end(h);
}

/* Extents, and whether it is the first piece; not the position in the tensor or the number of panels. */
uint32_t weft_views_footprint(const weft_task_run *run)
{
    const weft_kernel_args *args = run->arguments;
    hash h = begin();
    add(&h, args->first);
    add_all(&h, WEFT_KERNEL_NUMBERS, args->numbers);
    for (int i = 0; i < args->num_outputs + args->num_inputs; i++) {
        const weft_kernel_operand *operand = &args->operands[i];
        add(&h, operand->dtype);
        add_all(&h, operand->ndim, operand->extent);
    }
    return end(h);
}
