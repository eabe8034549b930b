/* Copies of rows that lie in runs. */
#include "codelets/rearrange.h"

#include <string.h>

#include "codelets/cpu/boxes.h"

/* The last dimension: `count` groups of elements. */
static void copy_groups(const weft_rearrange_args *args, const weft_moved_rows *m, char *target, const char *source)
{
    const int64_t size = (int64_t)args->element_size, d = args->ndim - 1;
    const int64_t from = args->source_stride[d], to = args->target_stride[d];
    source += m->source * from * size;
    target += m->target * to * size;
    if (m->rows == 1) {
        weft_cpu_copy_row(target, source, m->count, m->target_step * to, m->source_step * from, args->element_size);
        return;
    }
    for (int64_t c = 0; c < m->count; c++) {
        if (from == 1 && to == 1) {
            memcpy(target, source, (size_t)(m->rows * size));
        } else {
            weft_cpu_copy_row(target, source, m->rows, to, from, args->element_size);
        }
        source += m->source_step * from * size;
        target += m->target_step * to * size;
    }
}

static void copy_dim(const weft_rearrange_args *args, int d, const weft_moved_rows *moved, char *target, const char *source)
{
    const int64_t source_bytes = args->source_stride[d] * (int64_t)args->element_size;
    const int64_t target_bytes = args->target_stride[d] * (int64_t)args->element_size;
    for (int64_t i = 0; i < args->num_moved[d]; i++) {
        const weft_moved_rows *m = &moved[i];
        if (d == args->ndim - 1) {
            copy_groups(args, m, target, source);
            continue;
        }
        for (int64_t c = 0; c < m->count; c++) {
            for (int64_t r = 0; r < m->rows; r++) {
                copy_dim(args, d + 1, moved + args->num_moved[d], target + (m->target + c * m->target_step + r) * target_bytes,
                         source + (m->source + c * m->source_step + r) * source_bytes);
            }
        }
    }
}

void weft_cpu_rearrange(const weft_task_run *run)
{
    const weft_rearrange_args *args = run->arguments;
    copy_dim(args, 0, args->moved, run->operands[0], run->operands[1]);
}
