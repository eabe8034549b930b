/* Layouts of a module's inputs and outputs (layouts.c). */
#ifndef WEFT_SRC_MODULE_LAYOUTS_H
#define WEFT_SRC_MODULE_LAYOUTS_H

#include "module/module.h"

enum { WEFT_MAX_WANTED = 16 };

/* Placements of tensors along one mesh dimension. Zero: all as they are. */
typedef struct weft_wanted {
    bool from_text; /* one for each tensor; else placements[0] for all that have its dimension */
    int count;
    weft_placement placements[WEFT_MAX_WANTED];
    bool keeps[WEFT_MAX_WANTED]; /* this one as it is */
} weft_wanted;

/* Of all inputs, or all outputs, of a module. */
typedef struct weft_module_layouts {
    const weft_mesh_impl *mesh;
    const char *what;                  /* "inputs", "outputs" */
    weft_wanted wanted[WEFT_MAX_DIMS]; /* by mesh dimension */
} weft_module_layouts;

/* Reads "S1,-,R". False with the reason. */
bool weft_wanted_read(const char *text, weft_wanted *wanted, char *why, size_t why_size);

/* A hook, with a weft_module_layouts: one redistribution for each tensor that lies otherwise. */
weft_status weft_module_bring(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[],
                              void *context);

#endif
