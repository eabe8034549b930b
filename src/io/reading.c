#include "io/reading.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "base/disk.h"

enum { LENGTH_BYTES = 8 };

/* Of a file that is damaged or none: every process sees the same. */
static bool refuse(weft_outcome *outcome, const char *path, const char *why)
{
    weft_outcome_fail(outcome, WEFT_ERR_IO, "%.120s: %s", path, why);
    return false;
}

static bool parse(const char *path, int file, int64_t file_bytes, weft_file_header *header, uint64_t *digest,
                  weft_outcome *outcome)
{
    unsigned char length[LENGTH_BYTES];
    int64_t size = 0;
    char why[200];
    if (file_bytes < LENGTH_BYTES) {
        return refuse(outcome, path, "the file has less than 8 bytes: this is no safetensors file");
    }
    const char *failed = weft_disk_read(file, length, LENGTH_BYTES, 0);
    if (failed == NULL && !weft_file_header_size(length, file_bytes, &size, why, sizeof(why))) {
        return refuse(outcome, path, why);
    }
    int64_t count = LENGTH_BYTES + size;
    char *bytes = failed == NULL ? malloc((size_t)count) : NULL;
    if (failed == NULL && bytes == NULL) {
        return refuse(outcome, path, "no memory for the header");
    }
    failed = failed == NULL ? weft_disk_read(file, bytes, count, 0) : failed;
    bool parsed = false;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    } else {
        *digest = (uint64_t)weft_crc32c(0, bytes, (size_t)count) << 32 ^ (uint64_t)file_bytes;
        parsed = weft_file_header_parse(header, bytes, count, file_bytes, why, sizeof(why)) ||
                 refuse(outcome, path, why);
    }
    free(bytes);
    return parsed;
}

/* Opens a file and parses its header. *digest: of the header and the size of the file. False with an outcome: nothing is open,
 * the header is empty. */
static bool read_header(const char *path, int *file, weft_file_header *header, uint64_t *digest, weft_outcome *outcome)
{
    int64_t file_bytes = 0;
    const char *failed = weft_disk_open(path, file, &file_bytes);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
        return false;
    }
    if (!parse(path, *file, file_bytes, header, digest, outcome)) {
        close(*file);
        *file = -1;
        return false;
    }
    return true;
}

/* ---- an index ---------------------------------------------------------------------------------------------------- */

bool weft_read_index(const char *path, weft_file_index *index, uint64_t *digest, weft_outcome *outcome)
{
    int file = -1;
    int64_t count = 0;
    char why[200];
    const char *failed = weft_disk_open(path, &file, &count);
    bool fits = failed != NULL || count <= WEFT_HEADER_LIMIT;
    char *bytes = failed == NULL && fits ? malloc((size_t)count + 1) : NULL;
    failed = bytes == NULL ? failed : weft_disk_read(file, bytes, count, 0);
    bool done = false;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    } else if (bytes == NULL) {
        refuse(outcome, path, fits ? "no memory for the index" : "this is no index: it has more than 100000000 bytes");
    } else {
        *digest = (uint64_t)weft_crc32c(0, bytes, (size_t)count) << 32 ^ (uint64_t)count;
        done = weft_file_index_parse(index, bytes, (size_t)count, why, sizeof(why)) || refuse(outcome, path, why);
    }
    free(bytes);
    if (file >= 0) {
        close(file);
    }
    return done;
}

/* ---- sources ------------------------------------------------------------------------------------------------------- */

static bool make_sources(weft_sources *s, int count, const char *path, weft_outcome *outcome)
{
    s->items = calloc((size_t)count + 1, sizeof(*s->items));
    bool done = s->items != NULL;
    for (int i = 0; i < count && done; i++) {
        s->items[i].file = -1;
        s->items[i].path = s->has_index ? weft_path_beside(path, weft_file_index_name(&s->index, i)) : strdup(path);
        s->count++;
        done = s->items[i].path != NULL;
    }
    return done || refuse(outcome, path, "no memory for the names of files");
}

/* Opens a source for the first tensor that needs it. */
static bool open_source(weft_source *source, uint64_t *digest, weft_outcome *outcome)
{
    uint64_t own = 0;
    if (source->file < 0 && !read_header(source->path, &source->file, &source->header, &own, outcome)) {
        return false;
    }
    *digest = weft_digest_add(*digest, own);
    return true;
}

/* What an index says of a tensor must be so. */
static bool check_source(const weft_sources *s, const char *name, int file, weft_outcome *outcome)
{
    if (weft_file_find(&s->items[file].header, name) == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_IO, "%.120s has no tensor \"%.80s\", which the index says", s->items[file].path, name);
        return false;
    }
    return true;
}

bool weft_sources_open(const char *path, int n, const char *const names[], weft_sources *s, uint64_t *digest, weft_outcome *outcome)
{
    s->has_index = weft_is_index_path(path);
    if (!s->has_index) {
        return make_sources(s, 1, path, outcome) && open_source(&s->items[0], digest, outcome);
    }
    bool done = weft_read_index(path, &s->index, digest, outcome) && make_sources(s, (int)s->index.files.count, path, outcome);
    const weft_index_entry *entries = s->index.tensors.items;
    int count = names == NULL ? (int)s->index.tensors.count : n;
    for (int i = 0; i < count && done; i++) {
        const char *name = names == NULL ? entries[i].name : names[i];
        int file = names == NULL ? entries[i].file : weft_file_index_find(&s->index, name);
        done = file < 0 || (open_source(&s->items[file], digest, outcome) && check_source(s, name, file, outcome));
    }
    return done;
}

void weft_sources_close(weft_sources *s)
{
    for (int i = 0; i < s->count; i++) {
        if (s->items[i].file >= 0) {
            close(s->items[i].file);
        }
        weft_file_header_free(&s->items[i].header);
        free(s->items[i].path);
    }
    free(s->items);
    weft_file_index_free(&s->index);
    *s = (weft_sources){ .count = 0 };
}

const weft_file_tensor *weft_sources_find(const weft_sources *s, const char *name, const weft_source **source)
{
    int file = s->has_index ? weft_file_index_find(&s->index, name) : 0;
    if (file < 0 || file >= s->count) {
        return NULL;
    }
    *source = &s->items[file];
    return weft_file_find(&s->items[file].header, name);
}
