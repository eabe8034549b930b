/* What a file holds, for the program. */
#include <stdlib.h>
#include <string.h>

#include "io/contents.h"
#include "io/random_states.h"
#include "io/reading.h"
#include "runtime/runtime.h"

typedef struct weft_open_file {
    struct weft_open_file *older;
    weft_file_header header; /* of several files: all of theirs, with places from the beginnings of the files */
    weft_vec paths;          /* char *: of the files */
} weft_open_file;

static void file_delete(weft_open_file *file)
{
    for (weft_open_file **link = &weft_runtime.files; *link != NULL; link = &(*link)->older) {
        if (*link == file) {
            *link = file->older;
            break;
        }
    }
    weft_file_header_free(&file->header);
    for (size_t i = 0; i < file->paths.count; i++) {
        free(((char **)file->paths.items)[i]);
    }
    weft_vec_free(&file->paths);
    free(file);
}

void weft_files_stop(void)
{
    while (weft_runtime.files != NULL) {
        file_delete(weft_runtime.files);
    }
    weft_handle_remove_all(&weft_runtime.handles.files);
}

/* ---- opening ------------------------------------------------------------------------------------------------- */

/* The tensors that the index has in this file. False: no memory. */
static bool add_tensors(const weft_sources *sources, int number, weft_file_header *all)
{
    const weft_file_header *header = &sources->items[number].header;
    for (size_t i = 0; i < header->tensors.count; i++) {
        const weft_file_tensor *tensor = &weft_file_tensors(header)[i];
        if (weft_file_index_find(&sources->index, tensor->name) != number) {
            continue;
        }
        weft_file_tensor *added = weft_file_add_named(all, strdup(tensor->name));
        if (added == NULL) {
            return false;
        }
        char *name = added->name;
        *added = *tensor;
        added->name = name;
        added->file = number;
        added->begin += header->data_begin;
        added->end += header->data_begin;
    }
    return true;
}

/* Adds keys that no file before this one has. False: no memory. */
static bool add_metadata(const weft_file_header *header, weft_file_header *all)
{
    bool done = true;
    for (size_t i = 0; i < header->metadata.count && done; i++) {
        const weft_file_entry *entry = (const weft_file_entry *)header->metadata.items + i;
        done = weft_file_metadata(all, entry->key) != NULL || weft_file_add_entry(all, entry->key, entry->value);
    }
    return done;
}

/* Takes over what the program may ask for. False: no memory. */
static bool take_contents(weft_sources *sources, weft_open_file *file)
{
    bool done = true;
    for (int i = 0; i < sources->count && done; i++) {
        char **path = weft_vec_push(&file->paths, sizeof(*path));
        done = path != NULL;
        if (done) {
            *path = sources->items[i].path;
            sources->items[i].path = NULL;
        }
        done = done && (!sources->has_index || (add_tensors(sources, i, &file->header) &&
                                                add_metadata(&sources->items[i].header, &file->header)));
    }
    if (!sources->has_index) {
        file->header = sources->items[0].header;
        sources->items[0].header = (weft_file_header){ .data_bytes = 0 };
    }
    return done;
}

/* False with an outcome. */
static bool read_contents(const char *path, weft_open_file *file, weft_outcome *outcome)
{
    weft_sources sources = { .count = 0 };
    uint64_t digest = 0;
    bool done = weft_sources_open(path, 0, NULL, &sources, &digest, outcome);
    if (done && !take_contents(&sources, file)) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for the contents of %.120s", path);
        done = false;
    }
    weft_sources_close(&sources);
    return done;
}

weft_checkpoint_file *weft_checkpoint_open(const char *path)
{
    static const char function[] = "weft_checkpoint_open";
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (path == NULL || path[0] == '\0') {
        weft_fail(WEFT_ERR_INVALID, function, "path is %s", path == NULL ? "NULL" : "empty");
        return NULL;
    }
    weft_outcome outcome = { .status = WEFT_OK };
    weft_open_file *file = calloc(1, sizeof(*file));
    weft_checkpoint_file *handle =
        file == NULL ? NULL : weft_handle_add(&weft_runtime.handles.files, WEFT_HANDLE_FILE, file);
    if (handle == NULL) {
        free(file);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a file");
        return NULL;
    }
    file->older = weft_runtime.files;
    weft_runtime.files = file;
    if (!read_contents(path, file, &outcome)) {
        weft_handle_remove(&weft_runtime.handles.files, handle);
        file_delete(file);
        weft_fail((weft_status)outcome.status, function, "%s", outcome.text);
        return NULL;
    }
    return handle;
}

/* The object of a handle. NULL with the error kept. */
static weft_open_file *check_file(const char *function, const weft_checkpoint_file *handle)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_open_file *file = handle == NULL ? NULL : weft_handle_get(&weft_runtime.handles.files, handle);
    if (file == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, handle == NULL ? "file is NULL" : "file is not open");
    }
    return file;
}

weft_status weft_checkpoint_close(weft_checkpoint_file *handle)
{
    weft_open_file *file = check_file("weft_checkpoint_close", handle);
    if (file == NULL) {
        return weft_latest_status();
    }
    weft_handle_remove(&weft_runtime.handles.files, handle);
    file_delete(file);
    return WEFT_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------- */

int weft_checkpoint_num_tensors(const weft_checkpoint_file *handle)
{
    const weft_open_file *file = check_file("weft_checkpoint_num_tensors", handle);
    return file == NULL ? 0 : (int)file->header.tensors.count;
}

int weft_checkpoint_index(const weft_checkpoint_file *handle, const char *name)
{
    static const char function[] = "weft_checkpoint_index";
    const weft_open_file *file = check_file(function, handle);
    if (file == NULL || name == NULL) {
        if (file != NULL) {
            weft_fail(WEFT_ERR_INVALID, function, "name is NULL");
        }
        return -1;
    }
    const weft_file_tensor *found = weft_file_find(&file->header, name);
    return found == NULL ? -1 : (int)(found - weft_file_tensors(&file->header));
}

/* Whether an index is one of `count`. */
static weft_status check_index(const char *function, int index, size_t count)
{
    bool right = index >= 0 && (size_t)index < count;
    return right ? WEFT_OK
                 : weft_fail(WEFT_ERR_INVALID, function, "index is %d, and there are %zu", index, count);
}

weft_status weft_checkpoint_tensor(const weft_checkpoint_file *handle, int index, weft_checkpoint_entry *entry)
{
    static const char function[] = "weft_checkpoint_tensor";
    const weft_open_file *file = check_file(function, handle);
    weft_status status = file == NULL ? weft_latest_status() : check_index(function, index, file->header.tensors.count);
    if (status != WEFT_OK || entry == NULL) {
        return status != WEFT_OK ? status : weft_fail(WEFT_ERR_INVALID, function, "entry is NULL");
    }
    const weft_file_tensor *found = &weft_file_tensors(&file->header)[index];
    *entry = (weft_checkpoint_entry){ .name = found->name,
                                      .file_dtype = found->dtype,
                                      .is_readable = found->is_readable,
                                      .offset = file->header.data_begin + found->begin,
                                      .bytes = found->end - found->begin };
    if (found->is_readable) {
        entry->dtype = found->type;
        entry->ndim = found->ndim;
        memcpy(entry->shape, found->shape, (size_t)found->ndim * sizeof(found->shape[0]));
    }
    return WEFT_OK;
}

const char *weft_checkpoint_tensor_file(const weft_checkpoint_file *handle, int index)
{
    static const char function[] = "weft_checkpoint_tensor_file";
    const weft_open_file *file = check_file(function, handle);
    if (file == NULL || check_index(function, index, file->header.tensors.count) != WEFT_OK) {
        return NULL;
    }
    return ((char *const *)file->paths.items)[weft_file_tensors(&file->header)[index].file];
}

/* ---- metadata -------------------------------------------------------------------------------------------------- */

const char *weft_checkpoint_metadata(const weft_checkpoint_file *handle, const char *key)
{
    static const char function[] = "weft_checkpoint_metadata";
    const weft_open_file *file = check_file(function, handle);
    if (file != NULL && key == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "key is NULL");
    }
    return file == NULL || key == NULL ? NULL : weft_file_metadata(&file->header, key);
}

int weft_checkpoint_num_keys(const weft_checkpoint_file *handle)
{
    const weft_open_file *file = check_file("weft_checkpoint_num_keys", handle);
    return file == NULL ? 0 : (int)file->header.metadata.count;
}

weft_status weft_checkpoint_key(const weft_checkpoint_file *handle, int index, const char **key, const char **value)
{
    static const char function[] = "weft_checkpoint_key";
    const weft_open_file *file = check_file(function, handle);
    weft_status status =
        file == NULL ? weft_latest_status() : check_index(function, index, file->header.metadata.count);
    if (status != WEFT_OK || key == NULL || value == NULL) {
        return status != WEFT_OK ? status
                                 : weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", key == NULL ? "key" : "value");
    }
    const weft_file_entry *entry = (const weft_file_entry *)file->header.metadata.items + index;
    *key = entry->key;
    *value = entry->value;
    return WEFT_OK;
}

weft_status weft_checkpoint_random_states(const weft_checkpoint_file *handle)
{
    static const char function[] = "weft_checkpoint_random_states";
    const weft_open_file *file = check_file(function, handle);
    return file == NULL ? weft_latest_status() : weft_set_random_states(function, &file->header);
}
