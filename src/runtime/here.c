/* Where in the program its calls are. */
#include <weft/regions.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* The library's copy of a name. NULL: no memory. */
static const char *intern(const char *file)
{
    weft_map *files = &weft_runtime.here_files;
    size_t size = strlen(file) + 1;
    uint64_t hash = weft_hash_bytes(file, size, 0);
    for (weft_map_slot *slot = weft_map_first(files, hash); slot != NULL; slot = weft_map_next(files, slot)) {
        if (strcmp(slot->value, file) == 0) {
            return slot->value;
        }
    }
    char *added = malloc(size);
    if (added == NULL || !weft_map_add(files, hash, added)) {
        free(added);
        return NULL;
    }
    return memcpy(added, file, size);
}

weft_status weft_here(const char *file, int line)
{
    static const char function[] = "weft_here";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (file != NULL && line < 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "line is %d", line);
    }
    const char *former = weft_runtime.here, *now = file;
    if (file != NULL) {
        now = former != NULL && strcmp(former, file) == 0 ? former : intern(file);
    }
    if (file != NULL && now == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the name of a file");
    }
    weft_here_set(now, line);
    return WEFT_OK;
}

void weft_here_set(const char *file, int line)
{
    weft_runtime.here = file;
    weft_runtime.here_line = line;
}

void weft_here_stop(weft_runtime_state *state)
{
    for (weft_map_slot *slot = weft_map_each(&state->here_files, NULL); slot != NULL; slot = weft_map_each(&state->here_files, slot)) {
        free(slot->value);
    }
    weft_map_free(&state->here_files);
    state->here = NULL;
}
