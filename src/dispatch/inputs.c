#include "dispatch/inputs.h"

#include <weft/ops.h>

#include <stdio.h>

#include "comm/check_spmd.h"
#include "dispatch/cache.h"
#include "runtime/thread.h"
#include "tensor/actions.h"

/* ---- meshes -------------------------------------------------------------------------------------------- */

bool weft_check_same_mesh(const char *function, const char *first_name, const weft_layout *first,
                          const char *other_name, const weft_layout *other)
{
    char why[400];
    weft_status status = weft_check_one_mesh(first_name, first, other_name, other, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "%s", why);
    }
    return status == WEFT_OK;
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

/* The leading input, to whose mesh the others go: the target of an operation in place; else the first with
 * several elements, or at least with dimensions. */
static int leading_input(const weft_call *call, const weft_layout *const layouts[])
{
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        if (call->operation->outputs[o].in_place) {
            return o;
        }
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
        if (own->mesh == mesh || !(single || weft_runtime.implicit_replications > 0)) {
            continue;
        }
        if (own->ndim > 0 && weft_runtime.implicit_replications == 0 && *guessed < 0) {
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

/* ---- regions of implicit replication ------------------------------------------------------------------- */

static weft_status perform_change(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function })) {
        return weft_latest_status();
    }
    weft_runtime.implicit_replications += (int)call->attributes.numbers[0];
    return WEFT_OK;
}

static weft_status change_regions(const char *function, const weft_operation *action, int by)
{
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (by < 0 && weft_runtime.implicit_replications == 0) {
        weft_fail(WEFT_ERR_STATE, function, "no region has begun");
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return WEFT_ERR_STATE;
    }
    return weft_act(&(weft_call){ .function = function,
                                  .operation = action,
                                  .attributes = { .num_numbers = 1, .numbers = { by } } },
                    NULL);
}

weft_status weft_implicit_replication_begin(void)
{
    static const weft_operation action = { .name = "implicit_replication_begin", .perform = perform_change, .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED };
    return change_regions("weft_implicit_replication_begin", &action, 1);
}

weft_status weft_implicit_replication_end(void)
{
    static const weft_operation action = { .name = "implicit_replication_end", .perform = perform_change, .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED };
    return change_regions("weft_implicit_replication_end", &action, -1);
}

bool weft_implicit_replication(void)
{
    return !weft_thread_none() && weft_require_init("weft_implicit_replication") == WEFT_OK &&
           weft_runtime.implicit_replications > 0;
}
