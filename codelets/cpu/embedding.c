/* Table look-ups and their derivative. */
#include <string.h>

#include "codelets/lookup.h"

static int64_t index_at(const weft_embedding_args *args, const void *indices, int64_t i)
{
    return args->index_type == WEFT_I64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* The row of this part of the table that index i means; -1 when it is in another part or in none. */
static int64_t row_of(const weft_embedding_args *args, const void *indices, int64_t i, const char *operation)
{
    int64_t index = index_at(args, indices, i);
    if ((index < 0 || index >= args->total_rows) && args->report != NULL) {
        args->report(operation, index, args->total_rows);
    }
    int64_t row = index - args->first_row;
    return index >= 0 && index < args->total_rows && row >= 0 && row < args->num_rows ? row : -1;
}

static void embedding_cpu(void *buffers[], void *argument)
{
    const weft_embedding_args *args = argument;
    size_t size = weft_dtype_size(args->base.dtype), bytes = (size_t)args->width * size;
    char *out = weft_task_pointer(buffers, &args->base, 0);
    const char *table = weft_task_pointer(buffers, &args->base, 1);
    const void *indices = weft_task_pointer(buffers, &args->base, 2);
    for (int64_t i = 0; i < args->count; i++) {
        int64_t row = row_of(args, indices, i, "weft_embedding");
        char *target = out + (size_t)(i * args->output_stride) * size;
        if (row >= 0) {
            memcpy(target, table + (size_t)(row * args->table_stride) * size, bytes);
        } else if (args->first) {
            memset(target, 0, bytes);
        }
    }
}

struct starpu_codelet weft_codelet_embedding = {
    .cpu_funcs = { embedding_cpu },
    .cpu_funcs_name = { "embedding_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_embedding",
    .color = WEFT_COLOR_OTHER,
};

#define DEFINE_SCATTER(name, type)                                                                           \
    static void scatter_##name(type *table, const type *gradient, const void *indices,                       \
                               const weft_embedding_args *args)                                              \
    {                                                                                                        \
        for (int64_t r = 0; r < args->num_rows && args->first; r++) {                                        \
            memset(table + r * args->table_stride, 0, (size_t)args->width * sizeof(type));                   \
        }                                                                                                    \
        for (int64_t i = 0; i < args->count; i++) {                                                          \
            int64_t row = row_of(args, indices, i, "weft_embedding_backward");                               \
            if (row < 0) {                                                                                   \
                continue;                                                                                    \
            }                                                                                                \
            type *restrict target = table + row * args->table_stride;                                        \
            const type *restrict source = gradient + i * args->output_stride;                                \
            for (int64_t k = 0; k < args->width; k++) {                                                      \
                target[k] += source[k];                                                                      \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_SCATTER(f32, float)
DEFINE_SCATTER(f64, double)

static void embedding_backward_cpu(void *buffers[], void *argument)
{
    const weft_embedding_args *args = argument;
    void *table = weft_task_pointer(buffers, &args->base, 0);
    const void *gradient = weft_task_pointer(buffers, &args->base, 1);
    const void *indices = weft_task_pointer(buffers, &args->base, 2);
    if (args->base.dtype == WEFT_F64) {
        scatter_f64(table, gradient, indices, args);
    } else {
        scatter_f32(table, gradient, indices, args);
    }
}

struct starpu_codelet weft_codelet_embedding_backward = {
    .cpu_funcs = { embedding_backward_cpu },
    .cpu_funcs_name = { "embedding_backward_cpu" },
    .nbuffers = STARPU_VARIABLE_NBUFFERS,
    .name = "weft_embedding_backward",
    .color = WEFT_COLOR_OTHER,
};
