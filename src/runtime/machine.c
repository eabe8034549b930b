/* weft_print_machine(). */
#include <limits.h>

#include "machine/keep.h"
#include "runtime/runtime.h"

weft_status weft_print_machine(FILE *file)
{
    static const char function[] = "weft_print_machine";
    weft_status status = weft_require_init(function);
    if (status != WEFT_OK) {
        return status;
    }
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    const weft_runtime_state *state = &weft_runtime;
    bool builtin = state->machine_source == weft_machine_builtin;
    weft_machine used = builtin ? state->machine : weft_machine_rounded(&state->machine);
    char path[PATH_MAX];
    bool has_path = !builtin && state->process == 0 && weft_machine_path(path, sizeof(path));
    weft_machine_print(&(weft_machine_facts){ .measured = &state->machine,
                                              .used = &used,
                                              .source = state->machine_source,
                                              .path = has_path ? path : NULL,
                                              .spread = state->spread,
                                              .panels = &state->panels,
                                              .messages = &state->messages },
                       file);
    return WEFT_OK;
}
