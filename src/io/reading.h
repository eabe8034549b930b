/* The headers of a checkpoint on disk: one file, or the files that an index names. */
#ifndef WEFT_SRC_IO_READING_H
#define WEFT_SRC_IO_READING_H

#include "io/index.h"
#include "io/outcome.h"

/* Reads and parses an index. *digest: of its bytes. False with an outcome: the index is empty. */
bool weft_read_index(const char *path, weft_file_index *index, uint64_t *digest, weft_outcome *outcome);

/* A file that is open, with its header. */
typedef struct weft_source {
    char *path;
    int file; /* -1: none */
    weft_file_header header;
} weft_source;

/* Zero-initialise. */
typedef struct weft_sources {
    weft_file_index index; /* empty without has_index */
    bool has_index;
    int count;
    weft_source *items; /* those of the index by their numbers: files that nobody asked for are not open */
} weft_sources;

/* Opens what has the tensors of n names, or with names NULL everything, and parses the headers. *digest: of all that was read, and
 * of the sizes of files. False with an outcome: weft_sources_close() is needed all the same. */
bool weft_sources_open(const char *path, int n, const char *const names[], weft_sources *sources, uint64_t *digest,
                       weft_outcome *outcome);
void weft_sources_close(weft_sources *sources);
/* A tensor and the source that has it; NULL: none. */
const weft_file_tensor *weft_sources_find(const weft_sources *sources, const char *name, const weft_source **source);

#endif
