/* Copies of boxes. */
#include "codelets/copy.h"

#include <stdbool.h>
#include <string.h>

#include "codelets/cpu/boxes.h"
#include "codelets/cpu/clones.h"

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

/* Complex numbers of 16 bytes. */
static void copy_row_pairs(uint64_t *restrict target, const uint64_t *restrict source, int64_t n, int64_t target_stride,
                           int64_t source_stride)
{
    for (int64_t i = 0; i < n; i++) {
        target[2 * i * target_stride] = source[2 * i * source_stride];
        target[2 * i * target_stride + 1] = source[2 * i * source_stride + 1];
    }
}

void weft_cpu_copy_row(char *target, const char *source, int64_t n, int64_t target_stride,
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
    case 16:
        copy_row_pairs((uint64_t *)target, (const uint64_t *)source, n, target_stride, source_stride);
        break;
    default:
        copy_row_uint64_t((uint64_t *)target, (const uint64_t *)source, n, target_stride, source_stride);
        break;
    }
}

/* From 2 to 8 KB on, memcpy() may be `rep movsb`. On AMD's Zen 3 and 4 that takes ten times as long where the target
 * lies some bytes after the source modulo a page: a row that moves by one element. Short pieces are not copied so. */
static void copy_bytes(char *to, const char *from, size_t n)
{
    enum { PAGE = 4096, CLOSE = 64, PIECE = 1024 };
    size_t behind = ((uintptr_t)to - (uintptr_t)from) % PAGE;
    for (; behind > 0 && behind < CLOSE && n > PIECE; n -= PIECE, to += PIECE, from += PIECE) {
        memcpy(to, from, PIECE);
    }
    memcpy(to, from, n);
}

/* Non-temporal stores: a line is written without being read first, which saves a third of a copy's
 * traffic; whole lines only, because a part of one takes longer. From a row length (megabytes) on memcpy()
 * does this itself, and is used. The first pages of a next row that lies elsewhere are prefetched, which
 * hardware prefetchers do not foresee. */
void weft_cpu_stream_row(char *to, const char *from, const char *next, size_t n)
{
#if defined(__SSE2__)
    enum { PAGES = 16384 };
    size_t prefetched = next == from + n ? 0 : PAGES;
    size_t head = -(uintptr_t)to % (4 * sizeof(__m128i));
    head = head < n ? head : n;
    memcpy(to, from, head);
    size_t i = head;
    for (; i + 4 * sizeof(__m128i) <= n; i += 4 * sizeof(__m128i)) {
        const __m128i *source = (const __m128i *)(const void *)(from + i);
        __m128i *target = (__m128i *)(void *)(to + i);
        if (i < prefetched) {
            _mm_prefetch(next + i, _MM_HINT_T1);
        }
        __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    memcpy(to + i, from + i, n - i);
#else
    (void)next;
    memcpy(to, from, n);
#endif
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
    if (weft_cpu_transpose_box(target, source, &b, element_size, streams)) {
        return;
    }
    size_t row_bytes = (size_t)n * element_size;
    bool plain = source_stride == 1 && target_stride == 1 && (row_bytes >= LONG_ROW || b.ndim == 1);
    row_walk walk = walk_start(&b);
    for (int64_t row = 0; row < walk.rows; row++) {
        char *to = (char *)target + walk.target * (int64_t)element_size;
        const char *from = (const char *)source + walk.source * (int64_t)element_size;
        walk_next(&walk, &b);
        if (plain && streams && row_bytes >= LONG_STREAM) {
            weft_cpu_stream_row(to, from, (const char *)source + walk.source * (int64_t)element_size, row_bytes);
        } else if (plain) {
            copy_bytes(to, from, row_bytes);
        } else {
            weft_cpu_copy_row(to, from, n, target_stride, source_stride, element_size);
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
