/* The tree as a text. */
#include <stdio.h>
#include <string.h>

#include "module/module.h"

static int depth_below(const weft_module_impl *top, const weft_module_impl *at)
{
    int depth = 0;
    for (; at != top; at = at->parent) {
        depth++;
    }
    return depth;
}

static void print_slot(const weft_module_slot *slot, int depth, FILE *file)
{
    char text[512];
    fprintf(file, "%*s%s%s: ", 2 * depth, "", slot->name, slot->is_parameter ? "" : " (buffer)");
    if (slot->tensor == NULL) {
        fprintf(file, "none\n");
        return;
    }
    const weft_layout *layout = slot->tensor->layout;
    fprintf(file, "%s", weft_layout_describe(layout, text, sizeof(text)));
    if (slot->has_use) {
        fprintf(file, ", used as %s", weft_placements_text(slot->use, layout->mesh->ndim, text, sizeof(text)));
    }
    fprintf(file, "\n");
}

static weft_status print(const char *function, const void *printed, FILE *file)
{
    const weft_module_impl *top = printed;
    for (const weft_module_impl *at = top; at != NULL; at = weft_module_next(top, at)) {
        int depth = depth_below(top, at);
        fprintf(file, "%*s%s%s%s\n", 2 * depth, "", at == top ? "" : at->name, at == top ? "" : ": ", at->type);
        for (size_t i = 0; i < at->slots.count; i++) {
            print_slot(weft_module_slot_at(at, i), depth + 1, file);
        }
    }
    return ferror(file) ? weft_fail(WEFT_ERR_IO, function, "writing failed") : WEFT_OK;
}

weft_status weft_module_print(const weft_module *handle, FILE *file)
{
    static const char function[] = "weft_module_print";
    const weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL) {
        return weft_latest_status();
    }
    return file == NULL ? weft_fail(WEFT_ERR_INVALID, function, "file is NULL") : print(function, module, file);
}
