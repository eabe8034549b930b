/* The index of a checkpoint in several files, as Hugging Face has it, as a value: which tensor is in which file. Knows no
 * processes.
 *
 *     {"metadata": {"total_size": 4800}, "weight_map": {"w": "model-00001-of-00002.safetensors", ...}}
 *
 * Files lie in the folder of the index. */
#ifndef WEFT_SRC_IO_INDEX_H
#define WEFT_SRC_IO_INDEX_H

#include "base/map.h"
#include "io/header.h"

/* Zero-initialise. */
typedef struct weft_file_index {
    weft_vec files;   /* char *: their names */
    weft_vec tensors; /* weft_index_entry */
    weft_map by_name; /* of tensors: 1 + index */
    weft_map by_file; /* of files: 1 + index */
} weft_file_index;

typedef struct weft_index_entry {
    char *name;
    int file;
} weft_index_entry;

/* Whether a path is that of an index: it ends in ".index.json". */
bool weft_is_index_path(const char *path);

/* With why: WEFT_ERR_IO: damaged, or no index; WEFT_ERR_NOMEM; the index is then empty. */
weft_status weft_file_index_parse(weft_file_index *index, const char *text, size_t length, char *why, size_t why_size);
void weft_file_index_free(weft_file_index *index);

/* The number of the file that has the tensor; -1: none. */
int weft_file_index_find(const weft_file_index *index, const char *name);
/* The number of the file of this name; -1: none. */
int weft_file_index_file(const weft_file_index *index, const char *name);
static inline const char *weft_file_index_name(const weft_file_index *index, int file)
{
    return ((char *const *)index->files.items)[file];
}

/* The index of `count` files with these headers. Check text->failed. To be freed with weft_text_free(). */
void weft_file_index_write(int count, const weft_file_header headers[], const char *const files[], weft_text *text);

/* `name` in the folder of `path`. NULL: no memory. To be freed. */
char *weft_path_beside(const char *path, const char *name);

#endif
