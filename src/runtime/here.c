/* Where in the program its calls are. */
#include <weft/regions.h>

#include <string.h>

#include "runtime/runtime.h"

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
        now = former != NULL && strcmp(former, file) == 0 ? former : weft_map_intern(&weft_runtime.here_files, file);
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
    weft_map_free_texts(&state->here_files);
    state->here = NULL;
}
