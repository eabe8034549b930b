#include "io/zarr_codecs.h"

#include <stdlib.h>
#include <string.h>
#if WEFT_HAVE_ZLIB
#include <zlib.h>
#endif
#if WEFT_HAVE_ZSTD
#include <zstd.h>
#endif

#include "base/base.h"
#include "io/crc32c.h"

enum { CRC_BYTES = 4 };

bool weft_zarr_has_codecs(const weft_zarr_chain *chain, const char **missing)
{
    *missing = NULL;
    for (int i = 0; i < chain->num_codecs; i++) {
#if !WEFT_HAVE_ZLIB
        *missing = chain->codecs[i] == WEFT_ZARR_GZIP ? "gzip (zlib)" : *missing;
#endif
#if !WEFT_HAVE_ZSTD
        *missing = chain->codecs[i] == WEFT_ZARR_ZSTD ? "zstd (libzstd)" : *missing;
#endif
    }
    return *missing == NULL;
}

bool weft_zarr_bytes_reserve(weft_zarr_bytes *bytes, int64_t room)
{
    bytes->count = 0;
    if (bytes->room < room) {
        free(bytes->bytes);
        bytes->bytes = malloc((size_t)room);
        bytes->room = bytes->bytes == NULL ? 0 : room;
    }
    return bytes->room >= room;
}

void weft_zarr_bytes_free(weft_zarr_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (weft_zarr_bytes){ .count = 0 };
}

/* ---- codecs: NULL, or why not -------------------------------------------------------------------------------------- */

#if WEFT_HAVE_ZLIB
enum { GZIP = 16 + 15 /* zlib's word for gzip's header, and the largest window */ };

/* zlib counts 32 bits at a time. */
static const char *inflate_all(z_stream *stream, const unsigned char *from, int64_t bytes, unsigned char *to, int64_t expected)
{
    const int64_t most = UINT32_MAX;
    int64_t read = 0, written = 0;
    int status = Z_OK;
    unsigned char extra; /* more than expected */
    while (status == Z_OK) {
        const uint32_t in = (uint32_t)weft_min_i64(most, bytes - read), out = (uint32_t)weft_min_i64(most, expected - written);
        stream->next_in = (unsigned char *)(uintptr_t)(from + read);
        stream->avail_in = in;
        stream->next_out = out > 0 ? to + written : &extra;
        stream->avail_out = out > 0 ? out : 1;
        status = inflate(stream, Z_NO_FLUSH);
        read += in - stream->avail_in;
        written += (out > 0 ? out : 1) - stream->avail_out;
        if (written > expected) {
            return "gzip: more bytes than the chunk has";
        }
    }
    return status == Z_MEM_ERROR      ? "no memory"
           : status != Z_STREAM_END ? "gzip: damaged"
           : written != expected    ? "gzip: too few bytes"
                                    : NULL;
}

static const char *gzip_decode(const unsigned char *from, int64_t bytes, unsigned char *to, int64_t expected)
{
    z_stream stream = { .zalloc = Z_NULL };
    if (inflateInit2(&stream, GZIP) != Z_OK) {
        return "no memory";
    }
    const char *failed = inflate_all(&stream, from, bytes, to, expected);
    inflateEnd(&stream);
    return failed;
}

/* Leaves room for a checksum. */
static int deflate_all(z_stream *stream, const unsigned char *from, int64_t bytes, weft_zarr_bytes *to)
{
    const int64_t most = UINT32_MAX;
    int64_t read = 0;
    int status = Z_OK;
    while (status == Z_OK) {
        const uint32_t in = (uint32_t)weft_min_i64(most, bytes - read);
        const uint32_t out = (uint32_t)weft_min_i64(most, to->room - CRC_BYTES - to->count);
        stream->next_in = (unsigned char *)(uintptr_t)(from + read);
        stream->avail_in = in;
        stream->next_out = to->bytes + to->count;
        stream->avail_out = out;
        status = deflate(stream, read + in == bytes ? Z_FINISH : Z_NO_FLUSH);
        read += in - stream->avail_in;
        to->count += out - stream->avail_out;
    }
    return status;
}

static const char *gzip_encode(int level, const unsigned char *from, int64_t bytes, weft_zarr_bytes *to)
{
    z_stream stream = { .zalloc = Z_NULL };
    if (deflateInit2(&stream, level, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return "no memory";
    }
    const int64_t room = (int64_t)deflateBound(&stream, (uLong)bytes) + CRC_BYTES;
    bool done = weft_zarr_bytes_reserve(to, room) && deflate_all(&stream, from, bytes, to) == Z_STREAM_END;
    deflateEnd(&stream);
    return done ? NULL : "no memory";
}
#endif

#if WEFT_HAVE_ZSTD
static const char *zstd_decode(const unsigned char *from, int64_t bytes, unsigned char *to, int64_t expected)
{
    const size_t found = ZSTD_decompress(to, (size_t)expected, from, (size_t)bytes);
    return ZSTD_isError(found) ? "zstd: damaged" : (int64_t)found != expected ? "zstd: too few bytes" : NULL;
}

static const char *zstd_encode(int level, const unsigned char *from, int64_t bytes, weft_zarr_bytes *to)
{
    const size_t room = ZSTD_compressBound((size_t)bytes) + CRC_BYTES;
    const size_t written = weft_zarr_bytes_reserve(to, (int64_t)room) ? ZSTD_compress(to->bytes, room, from, (size_t)bytes, level) : 0;
    to->count = written == 0 || ZSTD_isError(written) ? 0 : (int64_t)written;
    return to->count > 0 ? NULL : "no memory";
}
#endif

static const char *decompress(weft_zarr_codec codec, const unsigned char *from, int64_t bytes, unsigned char *to, int64_t expected)
{
    (void)codec, (void)from, (void)bytes, (void)to, (void)expected;
#if WEFT_HAVE_ZLIB
    if (codec == WEFT_ZARR_GZIP) {
        return gzip_decode(from, bytes, to, expected);
    }
#endif
#if WEFT_HAVE_ZSTD
    if (codec == WEFT_ZARR_ZSTD) {
        return zstd_decode(from, bytes, to, expected);
    }
#endif
    return "a codec that this library was built without";
}

static const char *compress_into(weft_zarr_codec codec, int level, const unsigned char *from, int64_t bytes, weft_zarr_bytes *to)
{
    (void)codec, (void)level, (void)from, (void)bytes, (void)to;
#if WEFT_HAVE_ZLIB
    if (codec == WEFT_ZARR_GZIP) {
        return gzip_encode(level, from, bytes, to);
    }
#endif
#if WEFT_HAVE_ZSTD
    if (codec == WEFT_ZARR_ZSTD) {
        return zstd_encode(level, from, bytes, to);
    }
#endif
    return "a codec that this library was built without";
}

/* ---- chains --------------------------------------------------------------------------------------------------------- */

static uint32_t crc_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* In place. */
static void swap_bytes(unsigned char *bytes, int64_t count, size_t part)
{
    for (int64_t i = 0; i < count; i++) { /* not vectorised */
        for (size_t k = 0; k < part / 2; k++) {
            const unsigned char kept = bytes[k];
            bytes[k] = bytes[part - 1 - k];
            bytes[part - 1 - k] = kept;
        }
        bytes += part;
    }
}

/* The most bytes that so many compressed ones can stand for. Deflate needs two bits for 258 bytes (RFC 1951), Zstandard three bytes for a
 * block of 128 KiB (RFC 8878). */
static int64_t most_inside(weft_zarr_codec codec, int64_t bytes)
{
    return weft_mul_saturated(bytes, codec == WEFT_ZARR_GZIP ? 258 * 4 : (128 << 10) / 3 + 1);
}

const char *weft_zarr_check_size(const weft_zarr_chain *chain, int64_t stored, int64_t expected)
{
    int64_t left = stored;
    for (int i = chain->num_codecs - 1; i >= 0 && left >= 0; i--) {
        if (chain->codecs[i] != WEFT_ZARR_CRC32C) {
            const bool may = most_inside(chain->codecs[i], left) >= expected + (int64_t)i * CRC_BYTES;
            return may ? NULL : "its bytes are too few for its elements";
        }
        left -= CRC_BYTES;
    }
    return left == expected ? NULL : "its bytes are not as many as its elements need";
}

const char *weft_zarr_decode(const weft_zarr_chain *chain, const weft_zarr_bytes *stored, int64_t count, size_t size, size_t part,
                             void *elements, bool *no_memory)
{
    const unsigned char *bytes = stored->bytes;
    weft_zarr_bytes plain = { .count = 0 };
    int64_t left = stored->count;
    const int64_t all = count * (int64_t)size;
    const char *failed = weft_zarr_check_size(chain, left, all);
    for (int i = chain->num_codecs - 1; i >= 0 && failed == NULL; i--) {
        if (chain->codecs[i] == WEFT_ZARR_CRC32C) {
            left -= CRC_BYTES;
            failed = left < 0 || weft_crc32c(0, bytes, (size_t)left) != crc_at(bytes + left) ? "crc32c: the checksum does not match" : NULL;
            continue;
        }
        /* The elements and checksums are inside of the codec that compresses. */
        const int64_t inside = all + (int64_t)i * CRC_BYTES;
        failed = weft_zarr_bytes_reserve(&plain, inside) ? decompress(chain->codecs[i], bytes, left, plain.bytes, inside) : "no memory";
        bytes = plain.bytes;
        left = inside;
    }
    if (failed == NULL && all > 0) {
        memcpy(elements, bytes, (size_t)all);
        if (chain->big_endian && part > 1) {
            swap_bytes(elements, all / (int64_t)part, part);
        }
    }
    weft_zarr_bytes_free(&plain);
    *no_memory = failed != NULL && strcmp(failed, "no memory") == 0;
    return failed;
}

const char *weft_zarr_encode(const weft_zarr_chain *chain, const void *elements, int64_t bytes, weft_zarr_bytes *stored, bool *no_memory)
{
    const char *failed = NULL;
    bool compressed = false;
    *no_memory = false;
    for (int i = 0; i < chain->num_codecs && failed == NULL; i++) {
        if (chain->codecs[i] != WEFT_ZARR_CRC32C) {
            failed = compress_into(chain->codecs[i], chain->level, elements, bytes, stored);
            compressed = true;
        }
    }
    if (failed == NULL && !compressed) {
        failed = weft_zarr_bytes_reserve(stored, bytes + CRC_BYTES) ? NULL : "no memory";
        if (failed == NULL) {
            memcpy(stored->bytes, elements, (size_t)bytes);
            stored->count = bytes;
        }
    }
    if (failed == NULL) { /* weft's own chains end in one checksum */
        const uint32_t crc = weft_crc32c(0, stored->bytes, (size_t)stored->count);
        for (int k = 0; k < CRC_BYTES; k++) {
            stored->bytes[stored->count++] = (unsigned char)(crc >> 8 * k);
        }
    }
    *no_memory = failed != NULL && strcmp(failed, "no memory") == 0;
    return failed;
}
