/* Transposes of boxes, in tiles of cache lines. */
#include <stdbool.h>
#include <string.h>

#include "codelets/cpu/boxes.h"
#include "codelets/cpu/clones.h"

/* LINE: bytes of a cache line, the row of a tile. STRIP: columns, a multiple of every tile's edge. */
enum { LINE = 64, STRIP = 64 };

/* Writes a line whose address is a multiple of LINE, with non-temporal stores. */
static inline void stream_line(void *target, const void *source)
{
#if defined(__SSE2__)
    for (size_t i = 0; i < LINE / sizeof(__m128i); i++) {
        _mm_stream_si128((__m128i *)target + i, _mm_loadu_si128((const __m128i *)source + i));
    }
#else
    memcpy(target, source, LINE);
#endif
}

#if defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 32") /* tiles of 2 bytes and more are in registers then */
#else
#define UNROLL
#endif

/* Transposes a tile. Interleaving the two halves of an array rotates the bits of every index by one;
 * log2(edge) times swap rows and columns. Compilers use the vector unit's interleaving instructions. */
#define DEFINE_TRANSPOSE_TILE(type, bits)                                                                    \
    WEFT_CLONES static void transpose_tile_##type(char *target, int64_t target_stride, const char *source,   \
                                                  int64_t source_stride, bool streams)                       \
    {                                                                                                        \
        enum { EDGE = 1 << (bits), HALF = EDGE * EDGE / 2 };                                                 \
        type buffers[2][2 * HALF];                                                                           \
        UNROLL                                                                                               \
        for (int i = 0; i < EDGE; i++) {                                                                     \
            memcpy(buffers[0] + i * EDGE, (const type *)source + i * source_stride, LINE);                   \
        }                                                                                                    \
        UNROLL                                                                                               \
        for (int round = 0; round < (bits); round++) {                                                       \
            const type *in = buffers[round & 1];                                                             \
            type *out = buffers[(round & 1) ^ 1];                                                            \
            for (int i = 0; i < HALF; i++) { /* vectorised */                                                \
                out[2 * i] = in[i];                                                                          \
                out[2 * i + 1] = in[HALF + i];                                                               \
            }                                                                                                \
        }                                                                                                    \
        const type *out = buffers[(bits)&1];                                                                 \
        if (streams) {                                                                                       \
            UNROLL                                                                                           \
            for (int i = 0; i < EDGE; i++) {                                                                 \
                stream_line((type *)target + i * target_stride, out + i * EDGE);                             \
            }                                                                                                \
        } else {                                                                                             \
            UNROLL                                                                                           \
            for (int i = 0; i < EDGE; i++) {                                                                 \
                memcpy((type *)target + i * target_stride, out + i * EDGE, LINE);                            \
            }                                                                                                \
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

/* Whether rows far apart, which map to few cache sets, would be evicted before they are complete. */
static bool outgrows_second_level_cache(const transposition *t)
{
    enum { SECOND_LEVEL = 4 << 20 }; /* bytes */
    return t->rows * t->target_stride * t->size >= SECOND_LEVEL;
}

/* Whether lines are aligned in every row: non-temporal stores write whole ones. */
static bool has_whole_lines(const transposition *t)
{
    return t->target_stride * t->size % LINE == 0 && (uintptr_t)t->target % (size_t)t->size == 0;
}

/* Prefetches a tile, whose lines are in as many pages as it has columns: hardware prefetchers do not foresee
 * them. Not into the first-level cache, where lines at a distance of a page share one set. */
static void prefetch_tile(const transposition *t, int64_t i, int64_t j)
{
#if defined(__GNUC__)
    for (int64_t column = j; column < j + t->edge; column++) {
        __builtin_prefetch(t->source + (i + column * t->source_stride) * t->size, 0, 2);
    }
#else
    (void)t, (void)i, (void)j;
#endif
}

/* Rows 0 .. rows - 1 and columns first .. end - 1, whole tiles. In strips of columns whose source rows fit
 * into the first-level cache and TLB. */
static void transpose_tiles(const transposition *t, int64_t rows, int64_t first, int64_t end)
{
    tile_function tile = tile_of((size_t)t->size);
    for (int64_t strip = first; strip < end; strip += STRIP) {
        int64_t strip_end = strip + STRIP < end ? strip + STRIP : end;
        for (int64_t i = 0; i < rows; i += t->edge) {
            bool last = i + t->edge == rows;
            for (int64_t j = strip; j < strip_end; j += t->edge) {
                if (!last || j + STRIP < end) {
                    prefetch_tile(t, last ? 0 : i + t->edge, last ? j + STRIP : j);
                }
                tile(t->target + (i * t->target_stride + j) * t->size, t->target_stride,
                     t->source + (i + j * t->source_stride) * t->size, t->source_stride, t->streams);
            }
        }
    }
}

/* Part of row i, without tiles. */
static void copy_columns(const transposition *t, int64_t i, int64_t first, int64_t end)
{
    weft_cpu_copy_row(t->target + (i * t->target_stride + first) * t->size,
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

bool weft_cpu_transpose_box(char *target, const char *source, const weft_strided_box *box,
                            size_t element_size, bool streams)
{
    if (element_size > sizeof(uint64_t)) {
        return false;
    }
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
        /* Tiles of bytes, 64 lines at once, are written faster through the caches. */
        t.streams = ((streams && size > 1) || outgrows_second_level_cache(&t)) && has_whole_lines(&t);
        transpose(&t);
        streamed |= t.streams;
    }
    if (streamed) {
        end_stream();
    }
    return true;
}
