/* Headers of safetensors files, as values: parsing, checking, writing. Knows no processes and no tensors.
 *
 *      0                                      8                    8 + N                       end of the file
 *      | N, little-endian, at most 100000000  | JSON, N bytes      | bytes of the tensors     |
 *      |                                      | { ... } and spaces | in the order of offsets  |
 *
 *     {"__metadata__":{"key":"value", ...},
 *      "name":{"dtype":"F32","shape":[5,3],"data_offsets":[0,60]}, ...}
 *
 * Offsets count from byte 8 + N. The tensors fill the data without a gap. In files of weft's the metadata begin with
 *
 *     "weft.format"         "1"
 *     "weft.header_crc32c"  of the bytes 0 to 8 + N, with zeros ("00000000") in place of this value
 *     "weft.crc32c"         one for each tensor, in the order of offsets, separated by spaces
 *
 * A file with one key "weft." must have all three, and they must be right; one without is another program's, and only
 * its structure can be checked. */
#ifndef WEFT_SRC_IO_HEADER_H
#define WEFT_SRC_IO_HEADER_H

#include "base/map.h"
#include "base/text.h"

enum { WEFT_HEADER_LIMIT = 100000000, WEFT_FILE_DTYPE_SIZE = 16 };

/* A tensor of a file. */
typedef struct weft_file_tensor {
    char *name;
    char dtype[WEFT_FILE_DTYPE_SIZE]; /* as the file says */
    bool is_readable;                 /* weft has the type and so many dimensions: `type` and `shape` are valid */
    weft_dtype type;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t begin, end; /* from the beginning of the data */
    uint32_t crc;       /* if the file has checksums */
    int file;           /* in a header that has been put together of several files'; else 0 */
} weft_file_tensor;

typedef struct weft_file_entry {
    char *key, *value;
} weft_file_entry;

/* Zero-initialise. */
typedef struct weft_file_header {
    weft_vec tensors;    /* weft_file_tensor */
    weft_vec metadata;   /* weft_file_entry, without those of weft's own checksums */
    weft_map by_name;    /* of tensors: 1 + index */
    weft_map by_key;     /* of metadata: 1 + index */
    int *in_order;       /* indices of tensors, by offsets */
    int64_t data_begin;  /* 8 + N */
    int64_t data_bytes;
    bool has_checksums;
    char *index;         /* the name of the index that the file is a part of; NULL: of none, or not weft's */
} weft_file_header;

void weft_file_header_free(weft_file_header *header);

/* Parses the first bytes of a file, `count` == 8 + N of them, of `file_bytes` in all. With why: WEFT_ERR_IO: the
 * file is damaged, or no safetensors file; WEFT_ERR_NOMEM; the header is then empty. Changes `bytes`. */
weft_status weft_file_header_parse(weft_file_header *header, char *bytes, int64_t count, int64_t file_bytes, char *why,
                                   size_t why_size);
/* N of the first 8 bytes. False with why: it cannot be. */
bool weft_file_header_size(const unsigned char bytes[8], int64_t file_bytes, int64_t *size, char *why, size_t why_size);

/* The tensor of this name; NULL: none. */
const weft_file_tensor *weft_file_find(const weft_file_header *header, const char *name);
/* The value of a key; NULL: none. */
const char *weft_file_metadata(const weft_file_header *header, const char *key);

static inline weft_file_tensor *weft_file_tensors(const weft_file_header *header)
{
    return header->tensors.items;
}

/* For writing: adds a tensor, whose name must be new, and an entry of metadata. Copies the texts. False: no
 * memory. */
bool weft_file_add_tensor(weft_file_header *header, const char *name, weft_dtype type, int ndim, const int64_t shape[]);
bool weft_file_add_entry(weft_file_header *header, const char *key, const char *value);
/* The metadata that a tensor of WEFT_C128 needs, which the file has as F64 with a last dimension of 2. False: no memory. */
bool weft_file_add_pairs(weft_file_header *header, const char *name);
/* After the last tensor: their offsets, large element types first, so that each is aligned to its elements. False: no
 * memory, or more than 2^63 bytes. */
bool weft_file_place_tensors(weft_file_header *header);
/* The first bytes of the file, with the checksums of the tensors; its length depends on names, shapes and metadata
 * alone. Sets data_begin. False: no memory, or more than the format's limit. To be freed with weft_text_free(). */
bool weft_file_header_write(weft_file_header *header, weft_text *text);

/* ---- for header.c and header_parse.c ---------------------------------------------------------------------- */

#define WEFT_METADATA_NAME "__metadata__"
#define WEFT_KEY_FORMAT "weft.format"
#define WEFT_KEY_HEADER_CRC "weft.header_crc32c"
#define WEFT_KEY_DATA_CRC "weft.crc32c"
#define WEFT_KEY_INDEX "weft.index"
#define WEFT_KEY_PAIRS "weft.complex128:" /* and the name of a tensor */
enum { WEFT_CRC_DIGITS = 8, WEFT_LENGTH_BYTES = 8 };

/* WEFT_KEY_PAIRS of a tensor; NULL: no memory. To be freed. */
char *weft_file_pairs_key(const char *name);
/* A new tensor; takes over the name, also without memory. NULL: no memory. */
weft_file_tensor *weft_file_add_named(weft_file_header *header, char *name);
/* A new entry; takes over both texts, also without memory. False: no memory. */
bool weft_file_take_entry(weft_file_header *header, char *key, char *value);

typedef struct weft_file_sort_key {
    int64_t first, second; /* not negative */
    int index;
} weft_file_sort_key;
/* Sorts the tensors by two keys into header->in_order. False: no memory. */
bool weft_file_sort(weft_file_header *header, void (*keys)(const weft_file_tensor *tensor, weft_file_sort_key *out));

/* "F32"; and the type of such a text, false: weft has none. */
const char *weft_file_dtype_name(weft_dtype type);
bool weft_file_dtype_of(const char *name, weft_dtype *type);

#endif
