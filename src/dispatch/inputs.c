#include "dispatch/inputs.h"

#include <weft/ops.h>

#include <stdio.h>

#include "comm/check_spmd.h"
#include "dispatch/cache.h"

/* ---- meshes -------------------------------------------------------------------------------------------- */

/* "f32 or f64" */
static const char *types_text(unsigned types, char *text, size_t size)
{
    size_t used = 0;
    for (int t = WEFT_DTYPE_COUNT - 1; t >= 0; t--) {
        if (!(types & WEFT_TYPE_BIT(t))) {
            continue;
        }
        unsigned left = types & (WEFT_TYPE_BIT(t) - 1);
        const char *between = left == 0 ? "" : (left & (left - 1)) == 0 ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", weft_dtype_name((weft_dtype)t), between);
        if (used >= size) {
            break;
        }
    }
    return text;
}

bool weft_check_same_mesh(const char *function, const char *first_name, const weft_layout *first,
                          const char *other_name, const weft_layout *other)
{
    if (other->mesh == first->mesh) {
        return true;
    }
    char first_text[160], other_text[160];
    weft_fail(WEFT_ERR_MESH, function, "%s is on mesh %s and %s on mesh %s: weft_redistribute() one of them",
              first_name, weft_mesh_format(first->mesh, first_text, sizeof(first_text)), other_name,
              weft_mesh_format(other->mesh, other_text, sizeof(other_text)));
    return false;
}

bool weft_check_meshes(const weft_call *call, const weft_layout *const inputs[])
{
    const weft_operation_input *described = call->operation->inputs;
    for (int i = 1; i < call->num_inputs; i++) {
        if (!weft_check_same_mesh(call->function, described[0].name, inputs[0], described[i].name,
                                  inputs[i])) {
            return false;
        }
    }
    return true;
}

/* ---- inputs on several meshes -------------------------------------------------------------------------- */

static bool one_mesh(int num_inputs, const weft_layout *const layouts[])
{
    for (int i = 1; i < num_inputs; i++) {
        if (layouts[i]->mesh != layouts[0]->mesh) {
            return false;
        }
    }
    return true;
}

static int64_t count_of(const weft_layout *layout)
{
    int64_t count = 0;
    weft_count_checked(layout->ndim, layout->shape, &count);
    return count;
}

/* The input to whose mesh the others go: the target, which stays where it is; else the first one of several
 * elements, or at least with dimensions, if there is one. */
static int leading_input(const weft_call *call, const weft_layout *const layouts[])
{
    if (call->operation->in_place) {
        return 0;
    }
    int with_dimensions = 0;
    for (int i = call->num_inputs - 1; i >= 0; i--) {
        with_dimensions = layouts[i]->ndim > 0 ? i : with_dimensions;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (count_of(layouts[i]) != 1) {
            return i;
        }
    }
    return with_dimensions;
}

bool weft_gather_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                         const weft_layout *layouts[], int *guessed)
{
    *guessed = -1;
    for (int i = 0; i < call->num_inputs; i++) {
        layouts[i] = inputs[i]->layout;
    }
    if (one_mesh(call->num_inputs, layouts)) {
        return true;
    }
    const weft_mesh_impl *mesh = layouts[leading_input(call, layouts)]->mesh;
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_layout *own = layouts[i];
        bool single = count_of(own) == 1;
        if (own->mesh == mesh || !(single || weft_runtime.implicit_replication)) {
            continue;
        }
        if (own->ndim > 0 && !weft_runtime.implicit_replication && *guessed < 0) {
            *guessed = i;
        }
        weft_placement replicated[WEFT_MAX_DIMS];
        for (int d = 0; d < mesh->ndim; d++) {
            replicated[d] = weft_replicate();
        }
        layouts[i] =
            weft_layout_intern(weft_runtime.layouts, mesh, replicated, own->ndim, own->shape, own->dtype);
        if (layouts[i] == NULL) {
            weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a layout");
            return false;
        }
    }
    return true;
}

void weft_warn_of_guess(const weft_call *call, int guessed, const weft_layout *layout)
{
    if (weft_runtime.silent || weft_runtime.process != 0 || !weft_cache_first_warning(call->operation)) {
        return;
    }
    char text[160];
    fprintf(
        stderr,
        "weft: %s: %s is %s, on another mesh than the others; it has one element and is taken for a scalar. "
        "weft_redistribute() it, or set WEFT_SILENT=1\n",
        call->function, call->operation->inputs[guessed].name,
        weft_layout_format(layout, text, sizeof(text)));
}

weft_status weft_set_implicit_replication(bool allowed)
{
    static const char function[] = "weft_set_implicit_replication";
    const double number = allowed;
    if (weft_require_init(function) != WEFT_OK ||
        !weft_check_spmd(
            &(weft_call_signature){ .function = function, .num_numbers = 1, .numbers = &number })) {
        return weft_latest_status();
    }
    weft_runtime.implicit_replication = allowed;
    return WEFT_OK;
}

/* ---- types --------------------------------------------------------------------------------------------- */

bool weft_check_types(const weft_call *call, const weft_layout *const inputs[])
{
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_operation_input *described = &call->operation->inputs[i];
        weft_dtype type = inputs[i]->dtype;
        if (!(described->types & WEFT_TYPE_BIT(type))) {
            char expected[80];
            weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s, expected %s", described->name,
                      weft_dtype_name(type), types_text(described->types, expected, sizeof(expected)));
            return false;
        }
        if (described->type_of_first && type != inputs[0]->dtype) {
            weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s, expected %s, the type of %s",
                      described->name, weft_dtype_name(type), weft_dtype_name(inputs[0]->dtype),
                      call->operation->inputs[0].name);
            return false;
        }
    }
    weft_dtype type = weft_promoted(call->num_inputs, inputs);
    if (call->operation->in_place && !weft_dtype_can_hold(inputs[0]->dtype, type)) {
        weft_fail(WEFT_ERR_DTYPE, call->function, "%s is %s and cannot hold the result, which is %s",
                  call->operation->inputs[0].name, weft_dtype_name(inputs[0]->dtype), weft_dtype_name(type));
        return false;
    }
    return true;
}
