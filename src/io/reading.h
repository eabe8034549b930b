/* The headers of a checkpoint on disk: one file, or the files that an index names. */
#ifndef WEFT_SRC_IO_READING_H
#define WEFT_SRC_IO_READING_H

#include "io/index.h"
#include "io/outcome.h"

/* Reads and parses an index. *digest: of its bytes. False with an outcome: the index is empty; *damaged: it has been read, and is no
 * index. */
bool weft_read_index(const char *path, weft_file_index *index, uint64_t *digest, bool *damaged, weft_outcome *outcome);

/* A file with its header. */
typedef struct weft_source {
    char *path;
    bool is_read;   /* the header */
    uint64_t stamp; /* of the file that had it (weft_disk_stamp()) */
    weft_file_header header;
} weft_source;

/* Zero-initialise. */
typedef struct weft_sources {
    weft_file_index index; /* empty without has_index */
    bool has_index;
    int count;
    weft_source *items;         /* those of the index by their numbers: files that nobody asked for are not read */
    const weft_source *current; /* the only one that is open, because there may be more than a process can open; NULL: none */
    int file;                   /* its descriptor */
} weft_sources;

/* Reads the headers of the files that have the tensors of n names, or with names NULL of all. *digest: of all that was read, and
 * of the sizes of files. False with an outcome: weft_sources_close() is needed all the same. */
bool weft_sources_open(const char *path, int n, const char *const names[], weft_sources *sources, uint64_t *digest,
                       weft_outcome *outcome);
void weft_sources_close(weft_sources *sources);
/* The descriptor of a source, valid until the next one is asked for. -1 with an outcome, also where another file has taken its place
 * since its header was read. */
int weft_sources_file(weft_sources *sources, const weft_source *source, weft_outcome *outcome);
/* A tensor and the source that has it; NULL: none. */
const weft_file_tensor *weft_sources_find(const weft_sources *sources, const char *name, const weft_source **source);

#endif
