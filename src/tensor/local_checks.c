/* The checks of local regions. */
#include <stdio.h>

#include "codelets/local.h"
#include "sharding/types.h"
#include "tensor/arguments.h"
#include "tensor/local_map.h"
#include "tensor/regions.h"
#include "tensor/state.h"

static const char function_name[] = "weft_local_map";

static bool refuse(weft_status status, const char *what)
{
    weft_fail(status, function_name, "%s", what);
    return false;
}

/* The entries of outputs that are changed come first, and name an input each. False with the error kept. */
static bool count_changed(weft_local_region *r, const weft_local_output descriptions[])
{
    while (r->num_changed < r->num_outputs && descriptions[r->num_changed].in_place) {
        r->num_changed++;
    }
    for (int i = r->num_changed; i < r->num_outputs; i++) {
        if (descriptions[i].in_place) {
            weft_fail(WEFT_ERR_INVALID, function_name, "descriptions[%d].in_place, but not that of descriptions[%d]: list these first", i,
                      i - 1);
            return false;
        }
    }
    if (r->num_changed > r->num_inputs) {
        weft_fail(WEFT_ERR_INVALID, function_name, "descriptions[%d].in_place, but there are %d inputs", r->num_changed - 1,
                  r->num_inputs);
        return false;
    }
    if (r->num_changed > 0 && r->options.gradient != NULL) {
        return refuse(WEFT_ERR_INVALID, "descriptions[0].in_place, and options.gradient is given: a region that changes an input has no "
                                        "gradient");
    }
    return true;
}

bool weft_local_check_arguments(weft_local_region *r, weft_tensor *const inputs[], const weft_local_output descriptions[],
                            weft_tensor *const outputs[])
{
    if (r->function == NULL) {
        return refuse(WEFT_ERR_INVALID, "function is NULL");
    }
    if (r->num_inputs < 0 || r->num_outputs < 1) {
        weft_fail(WEFT_ERR_INVALID, function_name, "num_%s is %d, expected at least %d",
                  r->num_inputs < 0 ? "inputs" : "outputs", r->num_inputs < 0 ? r->num_inputs : r->num_outputs,
                  r->num_inputs < 0 ? 0 : 1);
        return false;
    }
    if (r->num_inputs > 0 && inputs == NULL) {
        return refuse(WEFT_ERR_INVALID, "inputs is NULL");
    }
    if (descriptions == NULL || outputs == NULL) {
        return refuse(WEFT_ERR_INVALID, descriptions == NULL ? "descriptions is NULL" : "outputs is NULL");
    }
    if (r->options.grad_placements != NULL && r->options.gradient == NULL) {
        return refuse(WEFT_ERR_INVALID, "options.grad_placements is given, but options.gradient is NULL");
    }
    if (!weft_check_context(function_name, r->options.context, r->options.context_size)) {
        return false;
    }
    if (r->options.whole_inputs != NULL && !r->options.by_rows) {
        return refuse(WEFT_ERR_INVALID, "options.whole_inputs is given, but options.by_rows is false");
    }
    return count_changed(r, descriptions);
}

/* Resolves handles, and finds the region's mesh. */
static bool find_inputs(weft_local_region *r, weft_tensor *const inputs[])
{
    char name[32];
    for (int i = 0; i < r->num_inputs; i++) {
        snprintf(name, sizeof(name), "inputs[%d]", i);
        r->tensors[i] = weft_check_tensor(function_name, name, inputs[i]);
        if (r->tensors[i] == NULL) {
            return false;
        }
    }
    r->mesh = r->options.mesh == NULL && r->num_inputs > 0 ? r->tensors[0]->layout->mesh
                                                           : weft_check_mesh(function_name, r->options.mesh);
    return r->mesh != NULL;
}

enum { PLACE_SIZE = 64 };

/* "weft_local_map: descriptions[1]", the beginning of a message. Returns text. */
static const char *place_of(const char *list, int i, char text[PLACE_SIZE])
{
    snprintf(text, PLACE_SIZE, "%s: %s[%d]", function_name, list, i);
    return text;
}

/* The layout in which the function takes input i; NULL with the error kept. */
static const weft_layout *input_layout(const weft_local_region *r, int i)
{
    char place[PLACE_SIZE];
    const weft_layout *given = r->tensors[i]->layout;
    const weft_placement *wanted = r->options.in_placements == NULL ? NULL : r->options.in_placements[i];
    if (wanted != NULL) {
        return weft_check_layout(place_of("options.in_placements", i, place), r->mesh, wanted, given->ndim,
                                 given->shape, given->dtype);
    }
    if (given->mesh != r->mesh) {
        char own[160], region_mesh[160];
        weft_fail(WEFT_ERR_MESH, function_name,
                  "inputs[%d] is on mesh %s and the region on mesh %s: give its in_placements, or "
                  "weft_redistribute() it",
                  i, weft_mesh_format(given->mesh, own, sizeof(own)),
                  weft_mesh_format(r->mesh, region_mesh, sizeof(region_mesh)));
        return NULL;
    }
    return given;
}

static const weft_layout *output_layout(const weft_local_region *r, int i, const weft_local_output *output)
{
    if (i < r->num_changed) {
        return r->layouts[i];
    }
    char text[PLACE_SIZE];
    const char *place = place_of("descriptions", i, text);
    bool right = weft_check_dtype(place, output->dtype) && weft_check_shape(place, output->ndim, output->shape);
    return right ? weft_check_layout(place, r->mesh, output->placements, output->ndim, output->shape, output->dtype)
                 : NULL;
}

/* The same result on every process: counts the panels of any rank's task with so many rows. */
static int64_t max_panels(const weft_layout *layout, int64_t rows)
{
    return layout->ndim == 0 ? 1 : weft_min_i64(rows, layout->shape[0]) / layout->panel_rows + 2;
}

/* Rows of a task by rows: no more than the highest panel of an output has. */
static int64_t most_rows(const weft_local_region *r)
{
    int64_t rows = 1;
    for (int i = r->num_inputs; i < r->num_inputs + r->num_outputs; i++) {
        rows = weft_max_i64(rows, r->layouts[i]->panel_rows);
    }
    return rows;
}

static bool check_panels(const weft_local_region *r)
{
    int64_t panels = 0;
    for (int i = r->num_changed; i < r->num_inputs + r->num_outputs; i++) {
        bool some = r->options.by_rows && (i >= r->num_inputs || !r->whole[i]);
        panels = weft_add_saturated(panels, max_panels(r->layouts[i], some ? most_rows(r) : INT64_MAX));
    }
    if (panels > WEFT_LOCAL_MAX_PANELS) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function_name,
                  "a task would need %lld panels, and takes at most %d: WEFT_PANEL_ROWS is too small",
                  (long long)panels, WEFT_LOCAL_MAX_PANELS);
        return false;
    }
    return true;
}

static bool check_changed(const weft_local_region *r)
{
    for (int i = 0; i < r->num_changed; i++) {
        if (r->layouts[i] != r->tensors[i]->layout) {
            weft_fail(WEFT_ERR_LAYOUT, function_name,
                      "options.in_placements[%d] are not those of inputs[%d], which is changed in place (descriptions[%d].in_place)", i,
                      i, i);
            return false;
        }
        for (int k = 0; k < i; k++) {
            if (r->tensors[k] == r->tensors[i]) {
                weft_fail(WEFT_ERR_INVALID, function_name, "inputs[%d] and inputs[%d] are one tensor, and both are changed", k, i);
                return false;
            }
        }
    }
    return true;
}

/* With by_rows: which inputs are whole. False with the error kept. */
static bool check_rows(const weft_local_region *r)
{
    const weft_layout *rows = r->layouts[r->num_inputs];
    for (int i = 0; i < r->num_inputs + r->num_outputs && r->options.by_rows; i++) {
        const weft_layout *layout = r->layouts[i];
        int output = i - r->num_inputs;
        bool listed = output < 0 && r->options.whole_inputs != NULL && r->options.whole_inputs[i];
        if (output < 0) {
            r->whole[i] = listed || (layout->ndim == 0 && i >= r->num_changed);
        } else if (layout->ndim == 0) {
            weft_fail(WEFT_ERR_SHAPE, function_name, "descriptions[%d] has no dimensions, and options.by_rows needs rows", output);
            return false;
        }
        if (listed && i < r->num_changed) {
            weft_fail(WEFT_ERR_INVALID, function_name, "options.whole_inputs[%d] is true, but the input is an output", i);
            return false;
        }
        if (output >= 0 ? !weft_local_same_rows(layout, rows) : !r->whole[i] && !weft_local_same_rows(layout, rows)) {
            char own[160], other[160];
            weft_fail(WEFT_ERR_LAYOUT, function_name, "%s[%d] is %s, and output 0 %s: with options.by_rows their rows must be cut alike%s",
                      output < 0 ? "inputs" : "descriptions", output < 0 ? i : output, weft_layout_format(layout, own, sizeof(own)),
                      weft_layout_format(rows, other, sizeof(other)), output < 0 ? ", or name the input in options.whole_inputs" : "");
            return false;
        }
    }
    return true;
}

/* Of an input's gradient; NULL with the error kept. */
static const weft_layout *gradient_layout(const weft_local_region *r, int i)
{
    char place[PLACE_SIZE];
    const weft_layout *taken = r->layouts[i];
    const weft_placement *wanted = r->options.grad_placements == NULL ? NULL : r->options.grad_placements[i];
    return wanted == NULL ? weft_layout_like(function_name, taken, taken->dtype)
                          : weft_check_layout(place_of("options.grad_placements", i, place), r->mesh, wanted,
                                              taken->ndim, taken->shape, taken->dtype);
}

static bool find_gradient_layouts(weft_local_region *r)
{
    const weft_layout **layouts = r->layouts + r->num_inputs + r->num_outputs;
    bool right = true;
    for (int i = 0; i < r->num_inputs && right && r->options.gradient != NULL; i++) {
        layouts[i] = gradient_layout(r, i);
        right = layouts[i] != NULL;
    }
    return right;
}

static bool find_layouts(weft_local_region *r, const weft_local_output descriptions[])
{
    for (int i = 0; i < r->num_inputs + r->num_outputs; i++) {
        int output = i - r->num_inputs;
        r->layouts[i] = output < 0 ? input_layout(r, i) : output_layout(r, output, &descriptions[output]);
        if (r->layouts[i] == NULL || !weft_check_boxes(function_name, output < 0 ? "inputs" : "outputs", r->layouts[i])) {
            return false;
        }
    }
    return check_changed(r) && check_rows(r) && check_panels(r) && find_gradient_layouts(r);
}

/* Planning shows impossible redistributions: to Partial from anything else. In a strict region none is made. */
static bool check_moves(const weft_local_region *r)
{
    for (int i = 0; i < r->num_inputs; i++) {
        const weft_layout *given = r->tensors[i]->layout, *wanted = r->layouts[i];
        char name[32];
        snprintf(name, sizeof(name), "inputs[%d]", i);
        if (given != wanted && (!weft_plan_check(function_name, given, wanted) ||
                                !weft_check_explicit(function_name, name, given, wanted))) {
            return false;
        }
    }
    return true;
}

bool weft_local_check(weft_local_region *r, weft_tensor *const inputs[], const weft_local_output descriptions[])
{
    return find_inputs(r, inputs) && find_layouts(r, descriptions) && check_moves(r);
}
