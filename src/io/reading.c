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

static bool no_memory(weft_outcome *outcome, const char *path, const char *what)
{
    weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "%.120s: no memory for %s", path, what);
    return false;
}

/* A text that has been parsed. */
static bool accept(weft_outcome *outcome, weft_status status, const char *path, const char *why)
{
    if (status != WEFT_OK) {
        weft_outcome_fail(outcome, status, "%.120s: %s", path, why);
    }
    return status == WEFT_OK;
}

/* *digest: of the header and the size of the file. False with an outcome: the header is empty. */
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
        return no_memory(outcome, path, "the header");
    }
    failed = failed == NULL ? weft_disk_read(file, bytes, count, 0) : failed;
    bool parsed = false;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    } else {
        *digest = (uint64_t)weft_crc32c(0, bytes, (size_t)count) << 32 ^ (uint64_t)file_bytes;
        parsed = accept(outcome, weft_file_header_parse(header, bytes, count, file_bytes, why, sizeof(why)), path, why);
    }
    free(bytes);
    return parsed;
}

/* ---- an index ---------------------------------------------------------------------------------------------------- */

bool weft_read_index(const char *path, weft_file_index *index, uint64_t *digest, bool *damaged, weft_outcome *outcome)
{
    int file = -1;
    int64_t count = 0;
    char why[200];
    const char *failed = weft_disk_open(path, &file, &count);
    bool fits = failed != NULL || count <= WEFT_HEADER_LIMIT;
    char *bytes = failed == NULL && fits ? malloc((size_t)count + 1) : NULL;
    failed = bytes == NULL ? failed : weft_disk_read(file, bytes, count, 0);
    weft_status status = fits ? WEFT_ERR_NOMEM : WEFT_ERR_IO;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    } else if (bytes == NULL) {
        accept(outcome, status, path, fits ? "no memory for the index" : "this is no index: it has more than 100000000 bytes");
    } else {
        *digest = (uint64_t)weft_crc32c(0, bytes, (size_t)count) << 32 ^ (uint64_t)count;
        status = weft_file_index_parse(index, bytes, (size_t)count, why, sizeof(why));
        accept(outcome, status, path, why);
    }
    *damaged = failed == NULL && status == WEFT_ERR_IO;
    free(bytes);
    if (file >= 0) {
        close(file);
    }
    return failed == NULL && status == WEFT_OK;
}

/* ---- sources ------------------------------------------------------------------------------------------------------- */

static bool make_sources(weft_sources *s, int count, const char *path, weft_outcome *outcome)
{
    s->items = calloc((size_t)count + 1, sizeof(*s->items));
    bool done = s->items != NULL;
    for (int i = 0; i < count && done; i++) {
        s->items[i].path = s->has_index ? weft_path_beside(path, weft_file_index_name(&s->index, i)) : strdup(path);
        s->count++;
        done = s->items[i].path != NULL;
    }
    return done || no_memory(outcome, path, "the names of files");
}

static void close_current(weft_sources *s)
{
    if (s->current != NULL) {
        close(s->file);
    }
    s->current = NULL;
}

/* In place of the one that is open. */
static bool open_source(weft_sources *s, const weft_source *source, int64_t *bytes, weft_outcome *outcome)
{
    close_current(s);
    const char *failed = weft_disk_open(source->path, &s->file, bytes);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, source->path, failed);
        return false;
    }
    s->current = source;
    return true;
}

int weft_sources_file(weft_sources *s, const weft_source *source, weft_outcome *outcome)
{
    int64_t bytes;
    if (s->current == source) {
        return s->file;
    }
    if (!open_source(s, source, &bytes, outcome)) {
        return -1;
    }
    if (weft_disk_stamp(s->file) != source->stamp) {
        refuse(outcome, source->path, "it has changed since its header was read");
        return -1;
    }
    return s->file;
}

/* For the first tensor that needs the source. */
static bool read_header(weft_sources *s, weft_source *source, uint64_t *digest, weft_outcome *outcome)
{
    int64_t bytes = 0;
    uint64_t own = 0;
    if (source->is_read) {
        return true;
    }
    if (!open_source(s, source, &bytes, outcome) || !parse(source->path, s->file, bytes, &source->header, &own, outcome)) {
        return false;
    }
    source->stamp = weft_disk_stamp(s->file);
    source->is_read = true;
    *digest = weft_digest_add(*digest, own);
    return true;
}

/* The index says that this file has the tensor; checks it. False with an outcome: the file has not. */
static bool check_source(const weft_sources *s, const char *name, int file, weft_outcome *outcome)
{
    if (weft_file_find(&s->items[file].header, name) == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_IO, "the index says that %.120s has the tensor \"%.80s\", but it has not",
                          s->items[file].path, name);
        return false;
    }
    return true;
}

bool weft_sources_open(const char *path, int n, const char *const names[], weft_sources *s, uint64_t *digest, weft_outcome *outcome)
{
    bool damaged;
    s->has_index = weft_is_index_path(path);
    if (!s->has_index) {
        return make_sources(s, 1, path, outcome) && read_header(s, &s->items[0], digest, outcome);
    }
    bool done = weft_read_index(path, &s->index, digest, &damaged, outcome) &&
                make_sources(s, (int)s->index.files.count, path, outcome);
    const weft_index_entry *entries = s->index.tensors.items;
    int count = names == NULL ? (int)s->index.tensors.count : n;
    for (int i = 0; i < count && done; i++) {
        const char *name = names == NULL ? entries[i].name : names[i];
        int file = names == NULL ? entries[i].file : weft_file_index_find(&s->index, name);
        done = file < 0 || (read_header(s, &s->items[file], digest, outcome) && check_source(s, name, file, outcome));
    }
    return done;
}

void weft_sources_close(weft_sources *s)
{
    close_current(s);
    for (int i = 0; i < s->count; i++) {
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
