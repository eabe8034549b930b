/* zarr.json of an array: what Zarr's specification, version 3, says, as values. PURE. */
#ifndef WEFT_SRC_IO_ZARR_METADATA_H
#define WEFT_SRC_IO_ZARR_METADATA_H

#include <weft/base.h>

#include "base/text.h"

typedef enum weft_zarr_codec { WEFT_ZARR_GZIP, WEFT_ZARR_ZSTD, WEFT_ZARR_CRC32C } weft_zarr_codec;

enum { WEFT_ZARR_MOST_CODECS = 4 };

/* How elements become bytes. At most one of the codecs compresses, so that the sizes of all steps are known but that of what is stored. */
typedef struct weft_zarr_chain {
    int order[WEFT_MAX_DIMS]; /* dimension d of what is stored is dimension order[d] of the array */
    bool big_endian;
    int num_codecs;
    weft_zarr_codec codecs[WEFT_ZARR_MOST_CODECS]; /* in the order of writing */
    int level;                                     /* of the codec that compresses */
} weft_zarr_chain;

typedef struct weft_zarr_array {
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    weft_dtype dtype;
    int64_t chunk[WEFT_MAX_DIMS]; /* extents of the grid's cells: one file each */
    bool sharded;                 /* a file is an index and the chunks that it has */
    bool index_at_start;
    int64_t inner[WEFT_MAX_DIMS]; /* extents of what `chain` encodes: `chunk`, unless sharded */
    weft_zarr_chain chain, index_chain;
    bool keys_of_v2; /* "0.1", not "c/0/1" */
    char separator;
    unsigned char fill[16]; /* an element that no chunk has */
} weft_zarr_array;

/* WEFT_OK, or a status with why: WEFT_ERR_IO (damaged), WEFT_ERR_UNSUPPORTED, WEFT_ERR_DTYPE, WEFT_ERR_NOMEM. */
weft_status weft_zarr_parse(const char *text, size_t length, weft_zarr_array *array, char *why, size_t why_size);
/* NULL: a type that Zarr does not have. */
const char *weft_zarr_dtype_name(weft_dtype dtype);
const char *weft_zarr_codec_name(weft_zarr_codec codec);
/* The zarr.json that weft_zarr_parse() reads so. `name`, `layout`: of the tensor, for readers of attributes. */
void weft_zarr_add(weft_text *text, const weft_zarr_array *array, const char *name, const char *layout);

#endif
