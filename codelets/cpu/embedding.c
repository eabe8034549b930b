/* Table look-ups and their derivative. */
#include <string.h>

#include "codelets/convert.h"
#include "codelets/cpu/boxes.h"
#include "codelets/cpu/clones.h"
#include "codelets/lookup.h"
#include "codelets/problems.h"

enum { INDICES = 1 }; /* number of the input */

static int64_t index_at(const weft_embedding_args *args, const void *indices, int64_t i)
{
    return args->index_type == WEFT_I64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* The row of this part of the table for index i; -1: in another part or out of range. */
static int64_t row_of(const weft_task_run *run, const void *indices, int64_t i)
{
    const weft_embedding_args *args = run->arguments;
    int64_t index = index_at(args, indices, i);
    if ((index < 0 || index >= args->total_rows) && args->checks) {
        weft_problem_range(run->error, INDICES, index, args->total_rows - 1);
    }
    int64_t row = index - args->first_row;
    return index >= 0 && index < args->total_rows && row >= 0 && row < args->num_rows ? row : -1;
}

/* The row for index number i; NULL: it is not in this part, or there is no such index. */
static const char *source_of(const weft_task_run *run, int64_t i)
{
    const weft_embedding_args *args = run->arguments;
    int64_t row = i < args->count ? row_of(run, run->operands[1], i) : -1, row_of_panel;
    if (row < 0) {
        return NULL;
    }
    const char *panel = run->operands[2 + weft_embedding_panel(args, row, &row_of_panel)];
    return panel + (size_t)(row_of_panel * args->table_stride) * weft_dtype_size(args->base.dtype);
}

/* log2 of a power of 2; -1: it is none. */
static int shift_of(int64_t number)
{
    int shift = 0;
    for (; number > 1 && (number & 1) == 0; number >>= 1) {
        shift++;
    }
    return number == 1 ? shift : -1;
}

/* Rows of a few bytes, of which each is one load and one store, by indices that are not checked: a call and a division for each row
 * would take several times as long. The rows of panel k begin at row `k << shift` of the whole table, but for the first one's. */
#define LOOK_UP_NARROW(T)                                                                                    \
    static void look_up_##T(const weft_task_run *run, int shift)                                             \
    {                                                                                                        \
        const weft_embedding_args *args = run->arguments;                                                    \
        const int64_t *indices = run->operands[1], first = args->first_row, before = first >> shift;         \
        char *target = run->operands[0];                                                                     \
        for (int64_t i = 0; i < args->count; i++, target += sizeof(T)) {                                     \
            const int64_t row = indices[i] - first;                                                          \
            if (row >= 0 && row < args->num_rows) {                                                          \
                const int64_t panel = (indices[i] >> shift) - before;                                        \
                const int64_t begin = panel == 0 ? first : (before + panel) << shift;                        \
                memcpy(target, (const char *)run->operands[2 + panel] + (size_t)(indices[i] - begin) * sizeof(T), sizeof(T)); \
            } else if (args->first) {                                                                        \
                memset(target, 0, sizeof(T));                                                                \
            }                                                                                                \
        }                                                                                                    \
    }

LOOK_UP_NARROW(uint8_t)
LOOK_UP_NARROW(uint16_t)
LOOK_UP_NARROW(uint32_t)
LOOK_UP_NARROW(uint64_t)

/* False: the rows are not so. */
static bool look_up_narrow(const weft_task_run *run)
{
    const weft_embedding_args *args = run->arguments;
    int shift = shift_of(args->panel_rows);
    bool dense = args->output_stride == args->width && args->table_stride == args->width;
    if (args->checks || args->index_type != WEFT_I64 || !dense || shift < 0 || args->num_rows == 0) {
        return false;
    }
    switch ((size_t)args->width * weft_dtype_size(args->base.dtype)) {
    case 1:
        look_up_uint8_t(run, shift);
        return true;
    case 2:
        look_up_uint16_t(run, shift);
        return true;
    case 4:
        look_up_uint32_t(run, shift);
        return true;
    case 8:
        look_up_uint64_t(run, shift);
        return true;
    default:
        return false;
    }
}

void weft_cpu_embedding(const weft_task_run *run)
{
    enum { LONG_STREAM = 512 };
    if (look_up_narrow(run)) {
        return;
    }
    const weft_embedding_args *args = run->arguments;
    size_t size = weft_dtype_size(args->base.dtype), bytes = (size_t)args->width * size;
    bool streams = args->streams && bytes >= LONG_STREAM;
    char *target = run->operands[0];
    const char *source = source_of(run, 0);
    for (int64_t i = 0; i < args->count; i++, target += (size_t)args->output_stride * size) {
        const char *next = source_of(run, i + 1);
        if (source != NULL && streams) {
            weft_cpu_stream_row(target, source, next == NULL ? source + bytes : next, bytes);
        } else if (source != NULL) {
            memcpy(target, source, bytes);
        } else if (args->first) {
            memset(target, 0, bytes);
        }
        source = next;
    }
    if (streams) {
        end_stream();
    }
}

enum { BLOCK = 512 };

#define DEFINE_ADD(T)                                                                                        \
    WEFT_CLONES static void add_##T(T *target, const T *source, int64_t n)                                   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            target[i] += source[i];                                                                          \
        }                                                                                                    \
    }
DEFINE_ADD(float)
DEFINE_ADD(double)

/* Adds a row of the gradient to a row of the table's gradient. */
static void add_row(const weft_embedding_args *args, void *target, const char *source)
{
    weft_dtype type = args->base.dtype;
    if (type == WEFT_F64) {
        add_double(target, (const double *)source, args->width);
    } else if (args->gradient_type == type) {
        add_float(target, (const float *)source, args->width);
    } else {
        float block[BLOCK];
        size_t size = weft_dtype_size(args->gradient_type);
        for (int64_t first = 0, n; first < args->width; first += n) {
            n = args->width - first < BLOCK ? args->width - first : BLOCK;
            weft_load(type, block, args->gradient_type, source + (size_t)first * size, 1, n);
            add_float((float *)target + first, block, n);
        }
    }
}

void weft_cpu_embedding_backward(const weft_task_run *run)
{
    const weft_embedding_args *args = run->arguments;
    char *table = run->operands[0];
    const char *gradient = run->operands[1];
    const void *indices = run->operands[2];
    size_t row_bytes = (size_t)args->table_stride * weft_dtype_size(args->base.dtype);
    size_t gradient_bytes = (size_t)args->output_stride * weft_dtype_size(args->gradient_type);
    for (int64_t r = 0; r < args->num_rows && args->first; r++) {
        memset(table + (size_t)r * row_bytes, 0, (size_t)args->width * weft_dtype_size(args->base.dtype));
    }
    for (int64_t i = 0; i < args->count; i++) {
        int64_t row = row_of(run, indices, i);
        if (row >= 0) {
            add_row(args, table + (size_t)row * row_bytes, gradient + (size_t)i * gradient_bytes);
        }
    }
}
