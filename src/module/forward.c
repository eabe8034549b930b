/* Forward passes: hooks, the program's function, and the scope around them. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "call/context.h"
#include "module/module.h"
#include "tensor/state.h"

/* Within the function of a graph: its calls depend on the module's functions. */
static void note_use(weft_module_impl *module)
{
    module->was_used |= weft_runtime.context.deferral != NULL;
}

/* ---- hooks ----------------------------------------------------------------------------------------------- */

bool weft_module_hook_add(const char *function, weft_module_impl *module, weft_module_when when,
                          weft_module_function hook, void *context, void *owned)
{
    weft_module_hook *place = weft_vec_push(&module->hooks[when], sizeof(*place));
    if (place == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a hook");
        return false;
    }
    *place = (weft_module_hook){ hook, context, owned };
    weft_note_change(function, module->was_used);
    return true;
}

void weft_module_hooks_cut(weft_module_impl *module, weft_module_when when, size_t count)
{
    while (module->hooks[when].count > count) {
        free(weft_module_hooks_of(module, when)[--module->hooks[when].count].owned);
    }
}

weft_status weft_module_add_hook(weft_module *handle, weft_module_when when, weft_module_function hook, void *context)
{
    static const char function[] = "weft_module_add_hook";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL) {
        return weft_latest_status();
    }
    if (when != WEFT_BEFORE_FORWARD && when != WEFT_AFTER_FORWARD) {
        return weft_fail(WEFT_ERR_INVALID, function, "when is %d, expected WEFT_BEFORE_FORWARD or WEFT_AFTER_FORWARD",
                         (int)when);
    }
    if (hook == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "hook is NULL");
    }
    return weft_module_hook_add(function, module, when, hook, context, NULL) ? WEFT_OK : weft_latest_status();
}

weft_status weft_module_set_forward(weft_module *handle, weft_forward_function forward, void *context)
{
    static const char function[] = "weft_module_set_forward";
    weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL) {
        return weft_latest_status();
    }
    if (module->forward != forward || module->context != context) {
        weft_note_change(function, module->was_used);
    }
    module->forward = forward;
    module->context = context;
    return WEFT_OK;
}

void *weft_module_context(const weft_module *handle)
{
    weft_module_impl *module = weft_check_module("weft_module_context", "module", handle);
    if (module != NULL) {
        note_use(module);
    }
    return module == NULL ? NULL : module->context;
}

/* ---- forward --------------------------------------------------------------------------------------------- */

/* A pass through one module. */
typedef struct weft_forward {
    const char *function;
    weft_module_impl *module;
    int num_inputs, num_outputs;
    weft_tensor **inputs;  /* which hooks may replace */
    weft_tensor **outputs; /* the caller's */
    size_t scopes;         /* open in the pass */
} weft_forward;

static size_t open_scopes(void)
{
    return weft_runtime.tensors->scopes.count;
}

/* After a part of the pass, which is named: whether its scopes are closed, and all of these are tensors. */
static weft_status check_after(const weft_forward *pass, const char *after, const char *name, int count,
                                 weft_tensor *const tensors[])
{
    if (open_scopes() != pass->scopes) {
        return weft_fail(WEFT_ERR_STATE, pass->function, "%s: %s leaves scopes open, or has closed others",
                         weft_module_label(pass->module), after);
    }
    for (int i = 0; i < count; i++) {
        if (tensors[i] == NULL || weft_tensor_get(tensors[i]) == NULL) {
            /* Most often a call has failed whose result this would be. */
            bool has_failed = weft_kept_message()[0] != '\0';
            return weft_fail(has_failed ? weft_latest_status() : WEFT_ERR_INVALID, pass->function,
                             "%s: %s leaves %s[%d] %s", weft_module_label(pass->module),
                             after, name, i, tensors[i] == NULL ? "NULL" : "no live tensor");
        }
    }
    return WEFT_OK;
}

/* Adds the module to the errors of a function that the program has written. */
static weft_status named_status(const weft_forward *pass, const char *part, weft_status status)
{
    return status == WEFT_OK ? WEFT_OK
                             : weft_fail(status, pass->function, "%s: %s has failed", weft_module_label(pass->module), part);
}

static weft_status call_hooks(const weft_forward *pass, weft_module_when when)
{
    static const char *const parts[] = { "a hook before forward", "a hook after forward" };
    bool before = when == WEFT_BEFORE_FORWARD;
    int count = before ? pass->num_inputs : pass->num_outputs;
    weft_tensor **tensors = before ? pass->inputs : pass->outputs;
    weft_status status = WEFT_OK;
    size_t num_hooks = pass->module->hooks[when].count; /* a hook may add others, for later passes */
    for (size_t i = 0; i < num_hooks && status == WEFT_OK; i++) {
        weft_module_hook hook = weft_module_hooks_of(pass->module, when)[i];
        const weft_context outer = weft_context_enter(weft_context_in_program());
        status = hook.function(pass->module->handle, pass->module->mesh, count, tensors, hook.context);
        weft_context_leave(outer);
        status = named_status(pass, parts[when], status);
        status = status == WEFT_OK ? check_after(pass, parts[when], before ? "inputs" : "outputs", count, tensors)
                                   : status;
    }
    return status;
}

static weft_status call_all(const weft_forward *pass)
{
    const weft_module_impl *module = pass->module;
    weft_status status = call_hooks(pass, WEFT_BEFORE_FORWARD);
    if (status != WEFT_OK) {
        return status;
    }
    const weft_context outer = weft_context_enter(weft_context_in_program());
    status = module->forward(module->handle, pass->num_inputs, pass->inputs, pass->num_outputs, pass->outputs,
                             module->context);
    weft_context_leave(outer);
    status = named_status(pass, "the forward function", status);
    status = status == WEFT_OK
                 ? check_after(pass, "the forward function", "outputs", pass->num_outputs, pass->outputs)
                 : status;
    return status == WEFT_OK ? call_hooks(pass, WEFT_AFTER_FORWARD) : status;
}

/* Moves the outputs to the enclosing scope: also inputs, parameters, and one tensor twice. */
static weft_status keep_outputs(const weft_forward *pass)
{
    for (int i = 0; i < pass->num_outputs; i++) {
        bool kept = weft_tensor_share(weft_tensor_get(pass->outputs[i])) != NULL &&
                    weft_scope_keep(pass->outputs[i]) != NULL;
        if (!kept) {
            return weft_latest_status();
        }
    }
    return WEFT_OK;
}

/* The pass in a scope of its own, and of those that were left open. */
static weft_status run_in_scope(weft_forward *pass)
{
    weft_status status = weft_scope_begin();
    if (status != WEFT_OK) {
        return status;
    }
    pass->scopes = open_scopes();
    const weft_tape_regions regions = weft_tape_regions_open();
    status = call_all(pass);
    if (!weft_tape_regions_restore(&regions) && status == WEFT_OK) {
        status = weft_fail(WEFT_ERR_STATE, pass->function,
                           "%s: the forward function leaves regions of weft_no_grad_begin() or weft_autocast_begin() open, "
                           "or has closed others",
                           weft_module_label(pass->module));
    }
    status = status == WEFT_OK ? keep_outputs(pass) : status;
    while (open_scopes() >= pass->scopes) {
        weft_scope_end_own();
    }
    return status;
}

/* False with the error kept. */
static bool check_forward(const char *function, const weft_module_impl *module, int num_inputs,
                          weft_tensor *inputs[], int num_outputs, weft_tensor *outputs[])
{
    if (num_inputs < 0 || num_outputs < 0) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %d", num_inputs < 0 ? "num_inputs" : "num_outputs",
                  num_inputs < 0 ? num_inputs : num_outputs);
        return false;
    }
    if ((inputs == NULL && num_inputs > 0) || (outputs == NULL && num_outputs > 0)) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", inputs == NULL && num_inputs > 0 ? "inputs" : "outputs");
        return false;
    }
    for (int i = 0; i < num_inputs; i++) {
        char name[32];
        snprintf(name, sizeof(name), "inputs[%d]", i);
        if (weft_check_tensor(function, name, inputs[i]) == NULL) {
            return false;
        }
    }
    if (module->forward == NULL) {
        weft_fail(WEFT_ERR_STATE, function, "%s (%s) has no forward function", weft_module_label(module), module->type);
        return false;
    }
    return true;
}

/* A pass through a module, with inputs of its own. */
static weft_status run_forward(const char *function, weft_module *handle, int num_inputs, weft_tensor *inputs[],
                               int num_outputs, weft_tensor *outputs[])
{
    weft_module_impl *module = weft_check_module(function, "module", handle);
    if (module == NULL || !check_forward(function, module, num_inputs, inputs, num_outputs, outputs)) {
        return weft_latest_status();
    }
    weft_forward pass = { function, module, num_inputs, num_outputs, inputs, outputs, 0 };
    note_use(module);
    module->running++;
    weft_status status = run_in_scope(&pass);
    module->running--;
    return status;
}

/* The program's arrays may be one: inputs are copied before outputs are written. */
static weft_status forward(const char *function, weft_module *module, int num_inputs, weft_tensor *const inputs[],
                           int num_outputs, weft_tensor *outputs[])
{
    size_t bytes = inputs == NULL || num_inputs < 0 ? 0 : (size_t)num_inputs * sizeof(*inputs);
    weft_tensor **own = inputs == NULL ? NULL : malloc(bytes + 1);
    if (own != NULL) {
        memcpy(own, inputs, bytes);
    }
    for (int i = 0; i < num_outputs && outputs != NULL; i++) {
        outputs[i] = NULL;
    }
    weft_status status = own == NULL && inputs != NULL
                             ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d inputs", num_inputs)
                             : run_forward(function, module, num_inputs, own, num_outputs, outputs);
    free(own);
    for (int i = 0; i < num_outputs && outputs != NULL && status != WEFT_OK; i++) {
        outputs[i] = NULL;
    }
    return status;
}

weft_status weft_module_forward(weft_module *module, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                weft_tensor *outputs[])
{
    return forward("weft_module_forward", module, num_inputs, inputs, num_outputs, outputs);
}

weft_tensor *weft_module_call(weft_module *module, weft_tensor *input)
{
    weft_tensor *output;
    forward("weft_module_call", module, 1, &input, 1, &output);
    return output;
}
