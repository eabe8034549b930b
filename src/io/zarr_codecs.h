/* Zarr's codecs of chunks: elements to bytes and back. PURE; thread-safe. */
#ifndef WEFT_SRC_IO_ZARR_CODECS_H
#define WEFT_SRC_IO_ZARR_CODECS_H

#include "io/zarr_metadata.h"

/* Whether this build has all codecs of a chain; else *missing is the name of one. */
bool weft_zarr_has_codecs(const weft_zarr_chain *chain, const char **missing);

/* Bytes that grow. */
typedef struct weft_zarr_bytes {
    unsigned char *bytes;
    int64_t count, room;
} weft_zarr_bytes;
/* Room for `room` bytes; `count` becomes 0. False: no memory. */
bool weft_zarr_bytes_reserve(weft_zarr_bytes *bytes, int64_t room);
void weft_zarr_bytes_free(weft_zarr_bytes *bytes);

/* Whether a chunk of so many stored bytes can have `expected` bytes of elements: NULL, or why not. Before memory is taken for these. */
const char *weft_zarr_check_size(const weft_zarr_chain *chain, int64_t stored, int64_t expected);
/* `count` elements of `size` bytes, whose parts of `part` bytes have an order of bytes, from what is stored. NULL, or why not: the bytes
 * are damaged, or there is no memory (*no_memory). */
const char *weft_zarr_decode(const weft_zarr_chain *chain, const weft_zarr_bytes *stored, int64_t count, size_t size, size_t part,
                             void *elements, bool *no_memory);
/* The bytes to be stored. Little-endian chains alone. The same. */
const char *weft_zarr_encode(const weft_zarr_chain *chain, const void *elements, int64_t bytes, weft_zarr_bytes *stored, bool *no_memory);

#endif
