#include "io/zarr_chunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/trees.h"
#include "comm/check_spmd.h"
#include "io/zarr_codecs.h"

/* An array in use, and those of this process's parts that are its. */
typedef struct use {
    const char *path, *name; /* of the store; of the array */
    weft_outcome *outcome;
    weft_zarr_array array;
    size_t size, part; /* bytes of an element, and of its parts that have an order of bytes */
    int num_parts;
    const weft_box_part *parts;
    unsigned char *elements; /* one chunk, without a codec */
    int64_t chunk_elements;
    weft_zarr_bytes stored;
    weft_text key; /* the path of the present file */
} use;

static bool fail_memory(const use *u)
{
    weft_outcome_fail(u->outcome, WEFT_ERR_NOMEM, "no memory for a chunk of \"%.100s\"", u->name);
    return false;
}

/* ---- boxes ---------------------------------------------------------------------------------------------------------- */

/* The cells of a grid that meet a box. */
static void cells_of(int ndim, const weft_box *box, const int64_t cell[], int64_t first[], int64_t end[])
{
    for (int d = 0; d < ndim; d++) {
        first[d] = box->offset[d] / cell[d];
        end[d] = weft_ceil_div(box->offset[d] + box->extent[d], cell[d]);
    }
}

/* A cell, as far as it lies in the array. */
static weft_box cell_at(const weft_zarr_array *array, const int64_t cell[], const int64_t at[])
{
    weft_box box = { .offset = { 0 } };
    for (int d = 0; d < array->ndim; d++) {
        box.offset[d] = at[d] * cell[d];
        box.extent[d] = weft_min_i64(cell[d], array->shape[d] - box.offset[d]);
    }
    return box;
}

static weft_box box_of(const weft_box_part *part)
{
    weft_box box = { .offset = { 0 } };
    for (int d = 0; d < part->layout->ndim; d++) {
        box.offset[d] = part->offset[d];
        box.extent[d] = part->extent[d];
    }
    return box;
}

/* In elements, where memory has the dimensions in this order; NULL: in theirs. */
static void strides_of(int ndim, const int64_t extent[], const int order[], int64_t strides[])
{
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        const int dim = order == NULL ? d : order[d];
        strides[dim] = stride;
        stride *= extent[dim];
    }
}

/* A side of a copy: elements, their strides, and the index of the first one. */
typedef struct side {
    unsigned char *elements;
    int64_t strides[WEFT_MAX_DIMS];
    const int64_t *offset;
} side;

static unsigned char *element_at(const side *s, int ndim, const int64_t index[], size_t size)
{
    int64_t at = 0;
    for (int d = 0; d < ndim; d++) {
        at += (index[d] - s->offset[d]) * s->strides[d];
    }
    return s->elements + at * (int64_t)size;
}

/* The elements of a box, which is not empty. */
static void copy_box(int ndim, const weft_box *box, size_t size, const side *to, const side *from)
{
    const int last = ndim - 1;
    const int64_t run = ndim == 0 ? 1 : box->extent[last];
    const int64_t stride_to = ndim == 0 ? 1 : to->strides[last], stride_from = ndim == 0 ? 1 : from->strides[last];
    int64_t at[WEFT_MAX_DIMS], end[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        at[d] = box->offset[d];
        end[d] = box->offset[d] + box->extent[d];
    }
    do {
        unsigned char *out = element_at(to, ndim, at, size);
        const unsigned char *in = element_at(from, ndim, at, size);
        if (stride_to == 1 && stride_from == 1) {
            memcpy(out, in, (size_t)run * size);
            continue;
        }
        for (int64_t i = 0; i < run; i++) { /* not vectorised */
            memcpy(out + i * stride_to * (int64_t)size, in + i * stride_from * (int64_t)size, size);
        }
    } while (weft_box_step(last, box->offset, end, at));
}

static side side_of(const weft_box_part *part)
{
    side s = { .elements = part->memory, .offset = part->offset };
    strides_of(part->layout->ndim, part->extent, NULL, s.strides);
    return s;
}

/* A chunk's elements to all parts that have some of them; NULL: the array's fill value. */
static void hand_out(const use *u, const weft_box *chunk, unsigned char *elements)
{
    const int ndim = u->array.ndim;
    unsigned char fill[sizeof(u->array.fill)];
    memcpy(fill, u->array.fill, sizeof(fill));
    side from = { .elements = elements == NULL ? fill : elements, .offset = chunk->offset };
    if (elements != NULL) {
        strides_of(ndim, u->array.inner, u->array.chain.order, from.strides);
    }
    for (int i = 0; i < u->num_parts; i++) {
        const weft_box own = box_of(&u->parts[i]);
        const side to = side_of(&u->parts[i]);
        weft_box both;
        if (!weft_box_part_is_empty(&u->parts[i]) && weft_box_intersect(ndim, &own, chunk, &both)) {
            copy_box(ndim, &both, u->size, &to, &from);
        }
    }
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

char *weft_zarr_read_text(const char *path, bool may_lack, int64_t *length, weft_outcome *outcome)
{
    static const int64_t MOST = 1 << 26;
    int file;
    const char *failed = weft_disk_open(path, &file, length);
    if (failed != NULL) {
        if (!may_lack || errno != ENOENT) {
            weft_outcome_fail_disk(outcome, path, failed);
        }
        return NULL;
    }
    char *text = *length > MOST ? NULL : malloc((size_t)*length + 1);
    if (text == NULL) {
        weft_outcome_fail(outcome, *length > MOST ? WEFT_ERR_IO : WEFT_ERR_NOMEM, "%.200s is too large for metadata", path);
    } else if ((failed = weft_disk_read(file, text, *length, 0)) != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
        free(text);
        text = NULL;
    } else {
        text[*length] = '\0';
    }
    close(file);
    return text;
}

/* PATH/NAME/ and more. False: no memory. */
static bool set_key(use *u, const char *file)
{
    u->key.length = 0;
    weft_text_add(&u->key, "%s%s%s/%s", u->path, u->name[0] == '\0' ? "" : "/", u->name, file);
    return !u->key.failed || fail_memory(u);
}

static bool set_chunk_key(use *u, const int64_t at[])
{
    const weft_zarr_array *array = &u->array;
    const char between[] = { array->separator, '\0' };
    if (!set_key(u, array->keys_of_v2 ? "" : "c")) {
        return false;
    }
    for (int d = 0; d < array->ndim; d++) {
        weft_text_add(&u->key, "%s%lld", array->keys_of_v2 && d == 0 ? "" : between, (long long)at[d]);
    }
    if (array->keys_of_v2 && array->ndim == 0) {
        weft_text_add(&u->key, "0");
    }
    return !u->key.failed || fail_memory(u);
}

/* About the present file. */
static bool fail(const use *u, weft_status status, const char *why)
{
    char process[64];
    weft_process_text(weft_runtime.process, process, sizeof(process));
    weft_outcome_fail(u->outcome, status, "%s: %.150s: %s", process, u->key.characters, why);
    return false;
}

static bool fail_disk(const use *u, const char *step_of_disk)
{
    weft_outcome_fail_disk(u->outcome, u->key.characters, step_of_disk);
    return false;
}

static bool count_elements(use *u)
{
    int64_t bytes = (int64_t)u->size;
    bool fits = true;
    u->chunk_elements = 1;
    for (int d = 0; d < u->array.ndim; d++) {
        fits = fits && weft_mul_checked(u->chunk_elements, u->array.inner[d], &u->chunk_elements) &&
               weft_mul_checked(bytes, u->array.inner[d], &bytes);
    }
    return (fits && bytes < INT64_MAX / 4) || fail(u, WEFT_ERR_IO, "chunks beyond 64 bits");
}

/* Also by a link, through which a store can be read. */
static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool read_metadata(use *u)
{
    char why[200];
    int64_t length;
    const char *missing;
    if (!set_key(u, "zarr.json")) {
        return false;
    }
    char *text = weft_zarr_read_text(u->key.characters, is_folder(u->path), &length, u->outcome);
    if (text == NULL) {
        weft_outcome_fail(u->outcome, WEFT_ERR_INVALID, "%.100s has no array \"%.100s\" of Zarr, version 3", u->path, u->name);
        return false;
    }
    const weft_status status = weft_zarr_parse(text, (size_t)length, &u->array, why, sizeof(why));
    free(text);
    if (status != WEFT_OK) {
        return fail(u, status, why);
    }
    u->size = weft_dtype_size(u->array.dtype);
    u->part = u->array.dtype == WEFT_C64 || u->array.dtype == WEFT_C128 ? u->size / 2 : u->size;
    if (!weft_zarr_has_codecs(&u->array.chain, &missing)) {
        weft_outcome_fail(u->outcome, WEFT_ERR_UNSUPPORTED, "\"%.100s\" needs %s, which this library was built without", u->name, missing);
        return false;
    }
    return count_elements(u);
}

static bool check_array(const use *u, const weft_layout *layout)
{
    const weft_zarr_array *array = &u->array;
    char texts[2][100];
    if (layout->dtype != array->dtype) {
        weft_outcome_fail(u->outcome, WEFT_ERR_DTYPE, "the tensor is %s, and \"%.100s\" is %s in the store", weft_dtype_name(layout->dtype),
                          u->name, weft_dtype_name(array->dtype));
        return false;
    }
    if (layout->ndim == array->ndim && memcmp(layout->shape, array->shape, (size_t)array->ndim * sizeof(array->shape[0])) == 0) {
        return true;
    }
    weft_text shapes[] = { weft_text_in(texts[0], sizeof(texts[0])), weft_text_in(texts[1], sizeof(texts[1])) };
    weft_text_add_sizes(&shapes[0], layout->ndim, layout->shape, ", ");
    weft_text_add_sizes(&shapes[1], array->ndim, array->shape, ", ");
    weft_outcome_fail(u->outcome, WEFT_ERR_SHAPE, "the tensor has the shape [%s], and \"%.100s\" has [%s] in the store", texts[0], u->name,
                      texts[1]);
    return false;
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static bool has_elements(const use *u, const weft_box *box)
{
    for (int i = 0; i < u->num_parts; i++) {
        const weft_box own = box_of(&u->parts[i]);
        weft_box both;
        if (!weft_box_part_is_empty(&u->parts[i]) && weft_box_intersect(u->array.ndim, &own, box, &both)) {
            return true;
        }
    }
    return false;
}

static bool read_bytes(use *u, int file, int64_t offset, int64_t count)
{
    if (!weft_zarr_bytes_reserve(&u->stored, count + 1)) {
        return fail_memory(u);
    }
    u->stored.count = count;
    const char *failed = weft_disk_read(file, u->stored.bytes, count, offset);
    return failed == NULL || fail_disk(u, failed);
}

/* One chunk from its place in a file. */
static bool read_chunk(use *u, int file, int64_t offset, int64_t count, const weft_box *chunk)
{
    bool no_memory;
    const char *why = weft_zarr_check_size(&u->array.chain, count, u->chunk_elements * (int64_t)u->size);
    if (why != NULL) {
        return fail(u, WEFT_ERR_IO, why);
    }
    if (u->elements == NULL) {
        u->elements = malloc((size_t)u->chunk_elements * u->size + 1);
    }
    if (u->elements == NULL) {
        return fail_memory(u);
    }
    if (!read_bytes(u, file, offset, count)) {
        return false;
    }
    why = weft_zarr_decode(&u->array.chain, &u->stored, u->chunk_elements, u->size, u->part, u->elements, &no_memory);
    if (why != NULL) {
        return no_memory ? fail_memory(u) : fail(u, WEFT_ERR_IO, why);
    }
    if (u->array.dtype == WEFT_BOOL) {
        for (int64_t i = 0; i < u->chunk_elements; i++) {
            u->elements[i] = u->elements[i] != 0;
        }
    }
    hand_out(u, chunk, u->elements);
    return true;
}

/* The index of a shard: offset and bytes of each chunk. To be freed; NULL with an outcome. */
static uint64_t *read_index(use *u, int file, int64_t bytes, int64_t count)
{
    const int64_t index_bytes = count * 16 + 4 * u->array.index_chain.num_codecs;
    uint64_t *index = index_bytes > bytes ? NULL : malloc((size_t)count * 16);
    bool no_memory;
    if (index == NULL) {
        index_bytes > bytes ? fail(u, WEFT_ERR_IO, "the file is smaller than a shard's index") : fail_memory(u);
        return NULL;
    }
    const char *why = NULL;
    bool done = read_bytes(u, file, u->array.index_at_start ? 0 : bytes - index_bytes, index_bytes);
    if (done) {
        why = weft_zarr_decode(&u->array.index_chain, &u->stored, 2 * count, sizeof(*index), sizeof(*index), index, &no_memory);
    }
    if (why != NULL) {
        weft_outcome_fail(u->outcome, WEFT_ERR_IO, "%.200s: a shard's index: %s", u->key.characters, why);
    }
    if (!done || why != NULL) {
        free(index);
        index = NULL;
    }
    return index;
}

static bool read_indexed(use *u, int file, int64_t bytes, const uint64_t entry[2], const weft_box *chunk)
{
    if (entry[0] == UINT64_MAX && entry[1] == UINT64_MAX) {
        hand_out(u, chunk, NULL);
        return true;
    }
    if (entry[0] > (uint64_t)bytes || entry[1] > (uint64_t)bytes - entry[0]) {
        return fail(u, WEFT_ERR_IO, "a shard's index names bytes that the file does not have");
    }
    return read_chunk(u, file, (int64_t)entry[0], (int64_t)entry[1], chunk);
}

static bool read_shard(use *u, int file, int64_t bytes, const int64_t shard_at[], const weft_box *shard)
{
    const weft_zarr_array *array = &u->array;
    int64_t first[WEFT_MAX_DIMS], end[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS], count = 1, entries;
    for (int d = 0; d < array->ndim; d++) {
        if (!weft_mul_checked(count, array->chunk[d] / array->inner[d], &count) || !weft_mul_checked(count, 32, &entries)) {
            return fail(u, WEFT_ERR_IO, "a shard of chunks beyond 64 bits");
        }
    }
    uint64_t *index = read_index(u, file, bytes, count);
    if (index == NULL) {
        return false;
    }
    cells_of(array->ndim, shard, array->inner, first, end);
    memcpy(at, first, sizeof(at));
    bool done = true;
    do {
        const weft_box chunk = cell_at(array, array->inner, at);
        int64_t number = 0;
        for (int d = 0; d < array->ndim; d++) {
            const int64_t along = array->chunk[d] / array->inner[d];
            number = number * along + at[d] - shard_at[d] * along;
        }
        done = !has_elements(u, &chunk) || read_indexed(u, file, bytes, index + 2 * number, &chunk);
    } while (done && weft_box_step(array->ndim, first, end, at));
    free(index);
    return done;
}

static bool read_cell(use *u, const int64_t at[], const weft_box *cell)
{
    int file;
    int64_t bytes;
    if (!set_chunk_key(u, at)) {
        return false;
    }
    const char *failed = weft_disk_open(u->key.characters, &file, &bytes);
    if (failed != NULL && errno == ENOENT) {
        hand_out(u, cell, NULL);
        return true;
    }
    if (failed != NULL) {
        return fail_disk(u, failed);
    }
    bool done = u->array.sharded ? read_shard(u, file, bytes, at, cell) : read_chunk(u, file, 0, bytes, cell);
    close(file);
    return done;
}

/* The smallest box with all parts. False: they are empty. */
static bool bounds_of(const use *u, weft_box *bounds)
{
    bool found = false;
    for (int i = 0; i < u->num_parts; i++) {
        if (weft_box_part_is_empty(&u->parts[i])) {
            continue;
        }
        const weft_box own = box_of(&u->parts[i]);
        for (int d = 0; d < u->array.ndim && found; d++) {
            const int64_t end = weft_max_i64(bounds->offset[d] + bounds->extent[d], own.offset[d] + own.extent[d]);
            bounds->offset[d] = weft_min_i64(bounds->offset[d], own.offset[d]);
            bounds->extent[d] = end - bounds->offset[d];
        }
        *bounds = found ? *bounds : own;
        found = true;
    }
    return found;
}

static bool read_array(use *u)
{
    weft_box bounds;
    int64_t first[WEFT_MAX_DIMS], end[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
    if (!read_metadata(u) || !check_array(u, u->parts[0].layout)) {
        return false;
    }
    if (!bounds_of(u, &bounds)) {
        return true;
    }
    bool done = true;
    cells_of(u->array.ndim, &bounds, u->array.chunk, first, end);
    memcpy(at, first, sizeof(at));
    do {
        const weft_box cell = cell_at(&u->array, u->array.chunk, at);
        done = !has_elements(u, &cell) || read_cell(u, at, &cell);
    } while (done && weft_box_step(u->array.ndim, first, end, at));
    return done;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

/* The folders that a file lies in, below the store's. */
static const char *make_folders(const use *u)
{
    const char *failed = NULL;
    for (char *slash = u->key.characters + strlen(u->path) + 1; (slash = strchr(slash, '/')) != NULL && failed == NULL; slash++) {
        *slash = '\0';
        failed = weft_tree_make(u->key.characters);
        *slash = '/';
    }
    return failed;
}

static bool write_file(const use *u)
{
    int file;
    const char *failed = weft_disk_create_new(u->key.characters, &file);
    if (failed != NULL && errno == ENOENT) {
        failed = make_folders(u);
        failed = failed == NULL ? weft_disk_create_new(u->key.characters, &file) : failed;
    }
    if (failed != NULL) {
        return fail_disk(u, failed);
    }
    failed = weft_disk_write(file, u->stored.bytes, u->stored.count, 0);
    const int reason = errno;
    const char *unfinished = weft_disk_finish(file);
    if (failed != NULL) {
        errno = reason;
    }
    failed = failed == NULL ? unfinished : failed;
    return failed == NULL || fail_disk(u, failed);
}

static bool write_chunk(use *u, const weft_box_part *part, const int64_t at[])
{
    const weft_box cell = cell_at(&u->array, u->array.chunk, at);
    const side from = side_of(part);
    side to = { .elements = u->elements, .offset = cell.offset };
    bool no_memory;
    strides_of(u->array.ndim, u->array.chunk, NULL, to.strides);
    memset(u->elements, 0, (size_t)u->chunk_elements * u->size); /* beyond the array's end */
    copy_box(u->array.ndim, &cell, u->size, &to, &from);
    const char *why =
        weft_zarr_encode(&u->array.chain, u->elements, u->chunk_elements * (int64_t)u->size, &u->stored, &no_memory);
    if (!set_chunk_key(u, at)) {
        return false;
    }
    return why == NULL ? write_file(u) : no_memory ? fail_memory(u) : fail(u, WEFT_ERR_IO, why);
}

static bool write_array(use *u)
{
    if (!read_metadata(u)) {
        return false;
    }
    u->elements = malloc((size_t)u->chunk_elements * u->size + 1);
    bool done = u->elements != NULL || fail_memory(u);
    for (int i = 0; i < u->num_parts && done; i++) {
        const weft_box own = box_of(&u->parts[i]);
        int64_t first[WEFT_MAX_DIMS], end[WEFT_MAX_DIMS], at[WEFT_MAX_DIMS];
        if (weft_box_part_is_empty(&u->parts[i])) {
            continue;
        }
        cells_of(u->array.ndim, &own, u->array.chunk, first, end);
        memcpy(at, first, sizeof(at));
        do {
            done = write_chunk(u, &u->parts[i], at);
        } while (done && weft_box_step(u->array.ndim, first, end, at));
    }
    return done;
}

/* ---- all arrays ----------------------------------------------------------------------------------------------------- */

static void on_each_array(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome, bool (*action)(use *))
{
    bool done = true;
    for (int i = 0, next; i < num_parts && done; i = next) {
        for (next = i + 1; next < num_parts && strcmp(parts[next].name, parts[i].name) == 0 && parts[next].layout == parts[i].layout;
             next++) {
        }
        use u = { .path = path, .name = parts[i].name, .outcome = outcome, .num_parts = next - i, .parts = parts + i,
                  .key = weft_text_growing() };
        done = action(&u);
        free(u.elements);
        weft_zarr_bytes_free(&u.stored);
        weft_text_free(&u.key);
    }
}

void weft_zarr_write(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome)
{
    on_each_array(path, num_parts, parts, outcome, write_array);
}

void weft_zarr_read(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome)
{
    on_each_array(path, num_parts, parts, outcome, read_array);
}
