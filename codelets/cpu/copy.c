/* Copies and reductions of boxes. */
#include "codelets/copy.h"

#include <stdbool.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "codelets/cpu/clones.h"
#include "codelets/half.h"

/* ---- boxes as runs ------------------------------------------------------------------------------------- */

/* Drops dimensions of size 1, and merges neighbours that are contiguous on both sides. At least one
 * dimension remains. */
static weft_strided_box simplify(const weft_strided_box *box)
{
    weft_strided_box out = { .ndim = 0 };
    for (int d = 0; d < box->ndim; d++) {
        if (box->extent[d] == 1) {
            continue;
        }
        int last = out.ndim - 1;
        if (last >= 0 && out.source_stride[last] == box->extent[d] * box->source_stride[d] &&
            out.target_stride[last] == box->extent[d] * box->target_stride[d]) {
            out.extent[last] *= box->extent[d];
            out.source_stride[last] = box->source_stride[d];
            out.target_stride[last] = box->target_stride[d];
            continue;
        }
        out.extent[out.ndim] = box->extent[d];
        out.source_stride[out.ndim] = box->source_stride[d];
        out.target_stride[out.ndim++] = box->target_stride[d];
    }
    if (out.ndim == 0) {
        out.ndim = 1;
        out.extent[0] = out.source_stride[0] = out.target_stride[0] = 1;
    }
    return out;
}

/* Iterates over all but the last dimension of a box: offsets in elements. */
typedef struct row_walk {
    int64_t index[WEFT_MAX_DIMS];
    int64_t source, target, rows;
} row_walk;

static row_walk walk_start(const weft_strided_box *box)
{
    row_walk walk = { .rows = 1 };
    for (int d = 0; d < box->ndim - 1; d++) {
        walk.rows *= box->extent[d];
    }
    return walk;
}

static void walk_next(row_walk *walk, const weft_strided_box *box)
{
    for (int d = box->ndim - 2; d >= 0; d--) {
        walk->source += box->source_stride[d];
        walk->target += box->target_stride[d];
        if (++walk->index[d] < box->extent[d]) {
            return;
        }
        walk->source -= box->extent[d] * box->source_stride[d];
        walk->target -= box->extent[d] * box->target_stride[d];
        walk->index[d] = 0;
    }
}

/* ---- copy ---------------------------------------------------------------------------------------------- */

/* Reversed and repeated rows have their own, vectorised loops. */
#define DEFINE_COPY_ROW(type)                                                                                \
    WEFT_CLONES static void copy_row_##type(type *restrict target, const type *restrict source, int64_t n,   \
                                            int64_t target_stride, int64_t source_stride)                    \
    {                                                                                                        \
        if (target_stride == 1 && source_stride == 0) {                                                      \
            const type value = source[0];                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                \
                target[i] = value;                                                                           \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        if (target_stride == 1 && source_stride == -1) {                                                     \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                target[i] = source[-i];                                                                      \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            target[i * target_stride] = source[i * source_stride];                                           \
        }                                                                                                    \
    }
DEFINE_COPY_ROW(uint8_t)
DEFINE_COPY_ROW(uint16_t)
DEFINE_COPY_ROW(uint32_t)
DEFINE_COPY_ROW(uint64_t)

static void copy_row(char *target, const char *source, int64_t n, int64_t target_stride,
                     int64_t source_stride, size_t element_size)
{
    switch (element_size) {
    case 1:
        copy_row_uint8_t((uint8_t *)target, (const uint8_t *)source, n, target_stride, source_stride);
        break;
    case 2:
        copy_row_uint16_t((uint16_t *)target, (const uint16_t *)source, n, target_stride, source_stride);
        break;
    case 4:
        copy_row_uint32_t((uint32_t *)target, (const uint32_t *)source, n, target_stride, source_stride);
        break;
    default:
        copy_row_uint64_t((uint64_t *)target, (const uint64_t *)source, n, target_stride, source_stride);
        break;
    }
}

/* Non-temporal stores: a line is written without being read first, which saves a third of a copy's
 * traffic. From a row length (megabytes) on memcpy() does this itself, and is used. */
static void stream_row(char *to, const char *from, size_t n)
{
#if defined(__SSE2__)
    size_t head = -(uintptr_t)to % sizeof(__m128i);
    head = head < n ? head : n;
    memcpy(to, from, head);
    size_t i = head;
    for (; i + 4 * sizeof(__m128i) <= n; i += 4 * sizeof(__m128i)) {
        const __m128i *source = (const __m128i *)(const void *)(from + i);
        __m128i *target = (__m128i *)(void *)(to + i);
        __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    memcpy(to + i, from + i, n - i);
#else
    memcpy(to, from, n);
#endif
}

/* A fence: streamed data must be visible before later stores of this thread, because other threads may
 * read it. */
static void end_stream(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* ---- transposes ---------------------------------------------------------------------------------------- */

/* LINE: bytes of a cache line, the row of a tile. BLOCK_EDGE: elements, a multiple of every tile's edge. */
enum { LINE = 64, BLOCK_EDGE = 64 };

/* Writes a line whose address is a multiple of LINE, with non-temporal stores. */
static inline void write_line(void *target, const void *source, bool streams)
{
#if defined(__SSE2__)
    for (size_t i = 0; streams && i < LINE / sizeof(__m128i); i++) {
        _mm_stream_si128((__m128i *)target + i, _mm_loadu_si128((const __m128i *)source + i));
    }
    if (streams) {
        return;
    }
#endif
    (void)streams;
    memcpy(target, source, LINE);
}

/* Transposes a tile in a buffer. Interleaving the two halves of an array rotates the bits of every index
 * by one; log2(edge) times swap rows and columns. Compilers use the vector unit's interleaving
 * instructions. */
#define DEFINE_TRANSPOSE_TILE(type, bits)                                                                    \
    WEFT_CLONES static void transpose_tile_##type(char *target, int64_t target_stride, const char *source,   \
                                                  int64_t source_stride, bool streams)                       \
    {                                                                                                        \
        enum { EDGE = 1 << (bits), HALF = EDGE * EDGE / 2 };                                                 \
        type buffers[2][2 * HALF];                                                                           \
        for (int i = 0; i < EDGE; i++) {                                                                     \
            memcpy(buffers[0] + i * EDGE, (const type *)source + i * source_stride, LINE);                   \
        }                                                                                                    \
        for (int round = 0; round < (bits); round++) {                                                       \
            const type *restrict in = buffers[round & 1];                                                    \
            type *restrict out = buffers[(round & 1) ^ 1];                                                   \
            for (int i = 0; i < HALF; i++) { /* vectorised */                                                \
                out[2 * i] = in[i];                                                                          \
                out[2 * i + 1] = in[HALF + i];                                                               \
            }                                                                                                \
        }                                                                                                    \
        for (int i = 0; i < EDGE; i++) {                                                                     \
            write_line((type *)target + i * target_stride, buffers[(bits)&1] + i * EDGE, streams);           \
        }                                                                                                    \
    }
DEFINE_TRANSPOSE_TILE(uint8_t, 6)
DEFINE_TRANSPOSE_TILE(uint16_t, 5)
DEFINE_TRANSPOSE_TILE(uint32_t, 4)
DEFINE_TRANSPOSE_TILE(uint64_t, 3)

typedef void (*tile_function)(char *target, int64_t target_stride, const char *source, int64_t source_stride,
                              bool streams);

static tile_function tile_of(size_t element_size)
{
    switch (element_size) {
    case 1:
        return transpose_tile_uint8_t;
    case 2:
        return transpose_tile_uint16_t;
    case 4:
        return transpose_tile_uint32_t;
    default:
        return transpose_tile_uint64_t;
    }
}

/* target[i * target_stride + j] = source[i + j * source_stride], i < rows, j < columns. Strides: elements. */
typedef struct transposition {
    char *target;
    const char *source;
    int64_t rows, columns, target_stride, source_stride;
    int64_t size, edge; /* bytes of an element; elements of a tile's edge */
    bool streams;
} transposition;

/* Whether to use non-temporal stores. Rows far apart map to few cache sets, and would be evicted before
 * they are complete; data beyond the size of the nearest caches leaves them anyway. Whole lines only, so
 * these must be aligned in every row. */
static bool outgrows_near_caches(const transposition *t)
{
    enum { NEAR = 4 << 20 }; /* bytes */
    return t->rows * t->target_stride * t->size >= NEAR && t->target_stride * t->size % LINE == 0 &&
           (uintptr_t)t->target % (size_t)t->size == 0;
}

/* Prefetches the next block: its lines are in as many pages as it has columns, which hardware prefetchers
 * do not foresee. */
static void prefetch_block(const transposition *t, int64_t i, int64_t first, int64_t end)
{
#if defined(__GNUC__)
    int64_t bytes = (t->rows - i < BLOCK_EDGE ? t->rows - i : BLOCK_EDGE) * t->size;
    for (int64_t j = first; j < end; j++) {
        for (int64_t byte = 0; byte < bytes; byte += LINE) {
            __builtin_prefetch(t->source + (i + j * t->source_stride) * t->size + byte);
        }
    }
#else
    (void)t, (void)i, (void)first, (void)end;
#endif
}

/* Rows 0 .. rows - 1 and columns first .. end - 1, whole tiles. In strips of columns whose source rows fit
 * into the nearest cache and TLB. */
static void transpose_tiles(const transposition *t, int64_t rows, int64_t first, int64_t end)
{
    tile_function tile = tile_of((size_t)t->size);
    for (int64_t strip = first; strip < end; strip += BLOCK_EDGE) {
        int64_t strip_end = strip + BLOCK_EDGE < end ? strip + BLOCK_EDGE : end;
        for (int64_t i = 0; i < rows; i += t->edge) {
            if (t->streams && i % BLOCK_EDGE == 0 && i + BLOCK_EDGE < rows) {
                prefetch_block(t, i + BLOCK_EDGE, strip, strip_end);
            }
            for (int64_t j = strip; j < strip_end; j += t->edge) {
                tile(t->target + (i * t->target_stride + j) * t->size, t->target_stride,
                     t->source + (i + j * t->source_stride) * t->size, t->source_stride, t->streams);
            }
        }
    }
}

/* Part of row i, without tiles. */
static void copy_columns(const transposition *t, int64_t i, int64_t first, int64_t end)
{
    copy_row(t->target + (i * t->target_stride + first) * t->size,
             t->source + (i + first * t->source_stride) * t->size, end - first, 1, t->source_stride,
             (size_t)t->size);
}

static void transpose(const transposition *t)
{
    /* With non-temporal stores the first tile begins at a line. */
    int64_t lead = t->streams ? (int64_t)(-(uintptr_t)t->target % LINE) / t->size : 0;
    lead = lead < t->columns ? lead : t->columns;
    int64_t rows = t->rows - t->rows % t->edge, end = t->columns - (t->columns - lead) % t->edge;
    transpose_tiles(t, rows, lead, end);
    for (int64_t i = 0; i < t->rows; i++) {
        copy_columns(t, i, 0, i < rows ? lead : t->columns);
        if (i < rows) {
            copy_columns(t, i, end, t->columns);
        }
    }
}

/* The dimension of at least a tile's edge whose stride is 1; -1: none. */
static int contiguous_dim(const weft_strided_box *b, const int64_t strides[], int64_t edge)
{
    for (int d = 0; d < b->ndim; d++) {
        if (strides[d] == 1 && b->extent[d] >= edge) {
            return d;
        }
    }
    return -1;
}

static weft_strided_box with_last(const weft_strided_box *b, int second_last, int last)
{
    weft_strided_box out = { .ndim = b->ndim };
    int order[WEFT_MAX_DIMS], count = 0;
    for (int d = 0; d < b->ndim; d++) {
        if (d != second_last && d != last) {
            order[count++] = d;
        }
    }
    order[count++] = second_last;
    order[count++] = last;
    for (int d = 0; d < b->ndim; d++) {
        out.extent[d] = b->extent[order[d]];
        out.source_stride[d] = b->source_stride[order[d]];
        out.target_stride[d] = b->target_stride[order[d]];
    }
    return out;
}

/* Copies a box whose source and target are contiguous in different dimensions. False: not such a box. */
static bool transpose_box(char *target, const char *source, const weft_strided_box *box, size_t element_size)
{
    int64_t size = (int64_t)element_size, edge = LINE / size;
    int from = contiguous_dim(box, box->source_stride, edge),
        to = contiguous_dim(box, box->target_stride, edge);
    if (from < 0 || to < 0 || from == to || box->source_stride[to] == 0) {
        return false; /* repeated elements are copied by rows */
    }
    weft_strided_box b = with_last(box, from, to), outer = b;
    int last = b.ndim - 1;
    outer.ndim = last; /* the iterator excludes the last dimension */
    row_walk walk = walk_start(&outer);
    bool streamed = false;
    for (int64_t i = 0; i < walk.rows; i++, walk_next(&walk, &outer)) {
        transposition t = { .target = target + walk.target * size,
                            .source = source + walk.source * size,
                            .rows = b.extent[last - 1],
                            .columns = b.extent[last],
                            .target_stride = b.target_stride[last - 1],
                            .source_stride = b.source_stride[last],
                            .size = size,
                            .edge = edge };
        t.streams = outgrows_near_caches(&t);
        transpose(&t);
        streamed |= t.streams;
    }
    if (streamed) {
        end_stream();
    }
    return true;
}

void weft_cpu_copy_box(void *target, const void *source, const weft_strided_box *box, size_t element_size,
                       bool streams)
{
    /* From so many bytes on memcpy beats a loop; from so many on non-temporal stores. */
    enum { LONG_ROW = 64, LONG_STREAM = 512 };
    for (int d = 0; d < box->ndim; d++) {
        if (box->extent[d] == 0) {
            return;
        }
    }
    weft_strided_box b = simplify(box);
    int64_t n = b.extent[b.ndim - 1];
    int64_t source_stride = b.source_stride[b.ndim - 1], target_stride = b.target_stride[b.ndim - 1];
    if (transpose_box(target, source, &b, element_size)) {
        return;
    }
    size_t row_bytes = (size_t)n * element_size;
    bool plain = source_stride == 1 && target_stride == 1 && (row_bytes >= LONG_ROW || b.ndim == 1);
    row_walk walk = walk_start(&b);
    for (int64_t row = 0; row < walk.rows; row++, walk_next(&walk, &b)) {
        char *to = (char *)target + walk.target * (int64_t)element_size;
        const char *from = (const char *)source + walk.source * (int64_t)element_size;
        if (plain && streams && row_bytes >= LONG_STREAM) {
            stream_row(to, from, row_bytes);
        } else if (plain) {
            memcpy(to, from, row_bytes);
        } else {
            copy_row(to, from, n, target_stride, source_stride, element_size);
        }
    }
    if (streams) {
        end_stream();
    }
}

void weft_cpu_copy(const weft_task_run *run)
{
    const weft_copy_args *args = run->arguments;
    char *target = run->operands[0];
    for (int i = 1; i < run->num_operands; i++) {
        weft_cpu_copy_box(target + args->target_offset[i - 1], run->operands[i], &args->boxes[i - 1],
                          args->element_size, args->streams);
    }
}

/* ---- reduce -------------------------------------------------------------------------------------------- */

/* One row of target = target op source, or (first) target = source. `load` and `store` convert between the
 * stored type and the type of the computation, `wide`. Rows are short enough to stay in a cache for all
 * sources. */
#define DEFINE_REDUCE(name, type, wide, load, store, sum, prod, min, max)                                    \
    static wide combine_##name(weft_combine how, wide a, wide b)                                             \
    {                                                                                                        \
        return how == WEFT_COMBINE_SUM    ? (sum)                                                            \
               : how == WEFT_COMBINE_PROD ? (prod)                                                           \
               : how == WEFT_COMBINE_MIN  ? (min)                                                            \
                                          : (max);                                                           \
    }                                                                                                        \
    static wide scaled_##name(wide value, double scale)                                                      \
    {                                                                                                        \
        return scale == 1 ? value : (wide)((double)value * scale);                                           \
    }                                                                                                        \
    static void reduce_row_##name(const weft_reduce_args *args, int count, type *target,                     \
                                  type *const source[], int64_t n, int64_t target_stride,                    \
                                  const int64_t source_stride[])                                             \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            wide value =                                                                                     \
                args->accumulate ? load(target[i * target_stride]) : load(source[0][i * source_stride[0]]);  \
            for (int k = args->accumulate ? 0 : 1; k < count; k++) {                                         \
                value = combine_##name(args->combine, value, load(source[k][i * source_stride[k]]));         \
            }                                                                                                \
            target[i * target_stride] = store(scaled_##name(value, args->scale));                            \
        }                                                                                                    \
    }

#define SAME(x) (x)
/* NaN wins, as in PyTorch: a != a is true for NaN only. */
#define FLOAT_MIN(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
#define FLOAT_MAX(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))

DEFINE_REDUCE(f64, double, double, SAME, SAME, a + b, a *b, FLOAT_MIN(a, b), FLOAT_MAX(a, b))
DEFINE_REDUCE(f32, float, float, SAME, SAME, a + b, a *b, FLOAT_MIN(a, b), FLOAT_MAX(a, b))
DEFINE_REDUCE(bf16, uint16_t, float, weft_bf16_to_f32, weft_f32_to_bf16, a + b, a *b, FLOAT_MIN(a, b),
              FLOAT_MAX(a, b))
DEFINE_REDUCE(f16, uint16_t, float, weft_f16_to_f32, weft_f32_to_f16, a + b, a *b, FLOAT_MIN(a, b),
              FLOAT_MAX(a, b))
/* Integers wrap around: through unsigned arithmetic, where that is defined. */
DEFINE_REDUCE(i64, int64_t, int64_t, SAME, SAME, (int64_t)((uint64_t)a + (uint64_t)b),
              (int64_t)((uint64_t)a *(uint64_t)b), a<b ? a : b, a> b ? a : b)
DEFINE_REDUCE(i32, int32_t, int32_t, SAME, SAME, (int32_t)((uint32_t)a + (uint32_t)b),
              (int32_t)((uint32_t)a *(uint32_t)b), a<b ? a : b, a> b ? a : b)
DEFINE_REDUCE(u8, uint8_t, uint8_t, SAME, SAME, (uint8_t)(a + b), (uint8_t)(a *b), a<b ? a : b, a> b ? a : b)
DEFINE_REDUCE(boolean, uint8_t, uint8_t, SAME, SAME, a | b, a &b, a &b, a | b)

/* Contiguous sums, as of gradients and partial products. Up to four addends are read in one loop, so that
 * each byte passes once between memory and registers; more are added in blocks whose sums stay in a cache.
 * Same additions in the same order as above, in vectorised loops. Each returns the number of addends used
 * of `count`. */
#define DEFINE_SUM_ROW(name, type)                                                                           \
    static int sum_first_##name(type *restrict out, type *const source[], int64_t begin, int count,          \
                                int64_t n)                                                                   \
    {                                                                                                        \
        const type *restrict a = source[0] + begin, *restrict b = source[count > 1 ? 1 : 0] + begin;         \
        const type *restrict c = source[count > 2 ? 2 : 0] + begin, *restrict d =                            \
                                                                        source[count > 3 ? 3 : 0] + begin;   \
        switch (count) {                                                                                     \
        case 1:                                                                                              \
            memcpy(out, a, (size_t)n * sizeof(type));                                                        \
            return 1;                                                                                        \
        case 2:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i];                                                                        \
            }                                                                                                \
            return 2;                                                                                        \
        case 3:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i] + c[i];                                                                 \
            }                                                                                                \
            return 3;                                                                                        \
        default:                                                                                             \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = a[i] + b[i] + c[i] + d[i];                                                          \
            }                                                                                                \
            return 4;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static int sum_more_##name(type *restrict out, type *const source[], int64_t begin, int count,           \
                               int64_t n)                                                                    \
    {                                                                                                        \
        const type *restrict a = source[0] + begin, *restrict b = source[count > 1 ? 1 : 0] + begin;         \
        const type *restrict c = source[count > 2 ? 2 : 0] + begin;                                          \
        switch (count) {                                                                                     \
        case 1:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i];                                                                      \
            }                                                                                                \
            return 1;                                                                                        \
        case 2:                                                                                              \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i] + b[i];                                                               \
            }                                                                                                \
            return 2;                                                                                        \
        default:                                                                                             \
            for (int64_t i = 0; i < n; i++) { /* vectorised */                                               \
                out[i] = out[i] + a[i] + b[i] + c[i];                                                        \
            }                                                                                                \
            return 3;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void sum_row_##name(const weft_reduce_args *args, int count, type *target,                        \
                               type *const source[], int64_t n)                                              \
    {                                                                                                        \
        enum { BLOCK = 2048 };                                                                               \
        for (int64_t begin = 0; begin < n; begin += BLOCK) {                                                 \
            int64_t length = n - begin < BLOCK ? n - begin : BLOCK;                                          \
            type *out = target + begin;                                                                      \
            int k = args->accumulate ? 0 : sum_first_##name(out, source, begin, count, length);              \
            while (k < count) {                                                                              \
                k += sum_more_##name(out, source + k, begin, count - k, length);                             \
            }                                                                                                \
            if (args->scale != 1) {                                                                          \
                for (int64_t i = 0; i < length; i++) { /* vectorised */                                      \
                    out[i] = (type)((double)out[i] * args->scale);                                           \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
DEFINE_SUM_ROW(f64, double)
DEFINE_SUM_ROW(f32, float)

/* Iterators over all sources in step with the target: their boxes have equal extents. The target's strides
 * are those of the first box. */
typedef struct many_walks {
    const weft_reduce_args *args;
    int count;
    int64_t rows, row_length, target_stride, source_stride[WEFT_MAX_OPERANDS - 1];
    int64_t index[WEFT_MAX_DIMS], target, source[WEFT_MAX_OPERANDS - 1];
} many_walks;

static bool is_contiguous_sum(const many_walks *walk)
{
    bool contiguous = walk->args->combine == WEFT_COMBINE_SUM && walk->target_stride == 1;
    for (int k = 0; k < walk->count; k++) {
        contiguous = contiguous && walk->source_stride[k] == 1;
    }
    return contiguous;
}

static many_walks many_start(const weft_reduce_args *args, int count)
{
    const weft_strided_box *box = &args->boxes[0];
    many_walks walk = { .args = args, .count = count, .rows = 1, .row_length = 1 };
    for (int d = 0; d < box->ndim - 1; d++) {
        walk.rows *= box->extent[d];
    }
    if (box->ndim > 0) {
        walk.row_length = box->extent[box->ndim - 1];
        walk.target_stride = box->target_stride[box->ndim - 1];
        for (int k = 0; k < walk.count; k++) {
            walk.source_stride[k] = args->boxes[k].source_stride[box->ndim - 1];
        }
    }
    return walk;
}

static void many_next(many_walks *walk)
{
    const weft_strided_box *boxes = walk->args->boxes;
    for (int d = boxes->ndim - 2; d >= 0; d--) {
        int64_t steps = ++walk->index[d] < boxes->extent[d] ? 1 : 1 - boxes->extent[d];
        walk->target += steps * boxes->target_stride[d];
        for (int k = 0; k < walk->count; k++) {
            walk->source[k] += steps * boxes[k].source_stride[d];
        }
        if (steps == 1) {
            return;
        }
        walk->index[d] = 0;
    }
}

#define GENERAL_ROW(name)                                                                                    \
    reduce_row_##name(args, walk->count, target, rows, walk->row_length, walk->target_stride, walk->source_stride)
#define FLOAT_ROW(name)                                                                                      \
    (contiguous ? sum_row_##name(args, walk->count, target, rows, walk->row_length) : GENERAL_ROW(name))

/* One row of the target at the iterators' position. */
#define DEFINE_REDUCE_AT(name, type, reduce_row)                                                             \
    static void reduce_at_##name(void *const operands[], const many_walks *walk, bool contiguous)            \
    {                                                                                                        \
        (void)contiguous;                                                                                    \
        const weft_reduce_args *args = walk->args;                                                           \
        type *rows[WEFT_MAX_OPERANDS - 1];                                                                   \
        for (int k = 0; k < walk->count; k++) {                                                              \
            rows[k] = (type *)operands[k + 1] + walk->source[k];                                             \
        }                                                                                                    \
        type *target = (type *)operands[0] + walk->target;                                                   \
        reduce_row(name);                                                                                    \
    }

DEFINE_REDUCE_AT(f64, double, FLOAT_ROW)
DEFINE_REDUCE_AT(f32, float, FLOAT_ROW)
DEFINE_REDUCE_AT(bf16, uint16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(f16, uint16_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i64, int64_t, GENERAL_ROW)
DEFINE_REDUCE_AT(i32, int32_t, GENERAL_ROW)
DEFINE_REDUCE_AT(u8, uint8_t, GENERAL_ROW)
DEFINE_REDUCE_AT(boolean, uint8_t, GENERAL_ROW)

typedef void (*reduce_at)(void *const operands[], const many_walks *walk, bool contiguous);

static const reduce_at reductions[WEFT_DTYPE_COUNT] = {
    [WEFT_F64] = reduce_at_f64, [WEFT_F32] = reduce_at_f32, [WEFT_BF16] = reduce_at_bf16,
    [WEFT_F16] = reduce_at_f16, [WEFT_I64] = reduce_at_i64, [WEFT_I32] = reduce_at_i32,
    [WEFT_U8] = reduce_at_u8,   [WEFT_BOOL] = reduce_at_boolean,
};

void weft_cpu_reduce(const weft_task_run *run)
{
    const weft_reduce_args *args = run->arguments;
    many_walks walk = many_start(args, run->num_operands - 1);
    bool contiguous = is_contiguous_sum(&walk);
    for (int64_t row = 0; row < walk.rows; row++, many_next(&walk)) {
        reductions[args->base.dtype](run->operands, &walk, contiguous);
    }
}
