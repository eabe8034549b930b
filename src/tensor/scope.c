/* References and scopes. The references of all scopes lie in one array; a scope is an index into it. */
#include "call/context.h"
#include "runtime/pending.h"
#include "tensor/actions.h"
#include "tensor/state.h"

static weft_tensor_impl **references(void)
{
    return weft_runtime.tensors->references.items;
}

static size_t *scopes(void)
{
    return weft_runtime.tensors->scopes.items;
}

bool weft_scope_adopt(weft_tensor_impl *tensor)
{
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors->scopes.count == 0) {
        tensor->caller_references++;
        tensor->references++;
        return true;
    }
    weft_tensor_impl **slot = weft_vec_push(&tensors->references, sizeof(weft_tensor_impl *));
    if (slot == NULL) {
        return false;
    }
    *slot = tensor;
    tensor->references++;
    return true;
}

bool weft_tensor_register(const char *function, weft_tensor_impl *tensor)
{
    tensor->handle = weft_handle_add(&weft_runtime.handles.tensors, WEFT_HANDLE_TENSOR, tensor);
    if (tensor->handle == NULL || !weft_scope_adopt(tensor)) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a tensor");
        return false;
    }
    if (weft_runtime.trace != NULL) {
        weft_tensor_trace_new(tensor, function);
    }
    return true;
}

void weft_tensor_unreference(weft_tensor_impl *tensor)
{
    if (--tensor->references == 0) {
        weft_tensor_delete(tensor);
    }
}

weft_tensor_impl *weft_tensor_discard(weft_tensor_impl *tensor)
{
    if (tensor == NULL) {
        return NULL;
    }
    weft_vec *all = &weft_runtime.tensors->references;
    if (weft_runtime.tensors->scopes.count == 0) {
        tensor->caller_references--;
    } else {
        size_t i = all->count - 1;
        while (references()[i] != tensor) {
            i--;
        }
        references()[i] = references()[--all->count];
    }
    weft_tensor_unreference(tensor);
    return NULL;
}

/* An action without tensors. */
static weft_status act(const char *function, const weft_operation *action)
{
    weft_status status = weft_require_init(function);
    if (status != WEFT_OK) {
        return status;
    }
    const weft_call call = { .function = function, .operation = action };
    return weft_is_listened_to() ? weft_act(&call, NULL) : action->perform(&call, NULL);
}

static weft_status open_scope(const weft_call *call, weft_tensor *outputs[])
{
    (void)call;
    (void)outputs;
    weft_tensors *tensors = weft_runtime.tensors;
    size_t *begin = tensors->unopened > 0 ? NULL : weft_vec_push(&tensors->scopes, sizeof(size_t));
    if (begin == NULL) {
        /* Counted, as are scopes inside it, so that each weft_scope_end() closes its own scope. */
        tensors->unopened++;
        return weft_fail(WEFT_ERR_NOMEM, "weft_scope_begin", "no memory for a scope");
    }
    *begin = tensors->references.count;
    return WEFT_OK;
}

weft_status weft_scope_begin(void)
{
    static const weft_operation action = { .name = "scope_open", .perform = open_scope, .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED };
    return act("weft_scope_begin", &action);
}

static weft_status close_scope(const weft_call *call, weft_tensor *outputs[])
{
    (void)call;
    (void)outputs;
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors->unopened > 0) {
        tensors->unopened--;
        return WEFT_OK;
    }
    size_t begin = scopes()[--tensors->scopes.count];
    while (tensors->references.count > begin) {
        weft_tensor_unreference(references()[--tensors->references.count]);
    }
    return WEFT_OK;
}

/* A function that the library calls closes no scope of the library's, or of the program's outside. */
static weft_status close_program_scope(const weft_call *call, weft_tensor *outputs[])
{
    const weft_tensors *tensors = weft_runtime.tensors;
    if (tensors->unopened == 0 && tensors->scopes.count <= tensors->scopes_below) {
        return weft_fail(WEFT_ERR_STATE, "weft_scope_end", "no scope is open%s",
                         tensors->scopes_below == 0 ? "" : " that was opened in this function");
    }
    return close_scope(call, outputs);
}

bool weft_is_between_calls(void)
{
    return weft_context_is_outermost() && weft_runtime.pending->composites == 0;
}

/* At the end of a public function that the library does not call: nothing of it is under way but what levels keep. */
static weft_status sweep_when_due(weft_status status)
{
    if (status == WEFT_OK && weft_layout_table_is_full(weft_runtime.layouts) && weft_is_between_calls()) {
        weft_runtime.sweep_layouts();
    }
    return status;
}

weft_status weft_scope_end_own(void)
{
    static const weft_operation action = { .name = "scope_close", .perform = close_program_scope, .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED };
    return act("weft_scope_end", &action);
}

weft_status weft_scope_end(void)
{
    return sweep_when_due(weft_scope_end_own());
}

void weft_visit_begin(weft_visit *visit)
{
    weft_tensors *tensors = weft_runtime.tensors;
    *visit = (weft_visit){ tensors->scopes_below, tensors->scopes.count, tensors->unopened,
                            weft_context_enter(weft_context_in_program()) };
    tensors->scopes_below = tensors->scopes.count;
}

void weft_visit_end(const weft_visit *visit)
{
    weft_tensors *tensors = weft_runtime.tensors;
    while (tensors->unopened > visit->unopened || tensors->scopes.count > visit->scopes) {
        close_scope(NULL, NULL);
    }
    tensors->scopes_below = visit->scopes_below;
    weft_context_leave(visit->outer);
}

bool weft_scope_begin_unrecorded(void)
{
    return open_scope(NULL, NULL) == WEFT_OK || (close_scope(NULL, NULL), false);
}

bool weft_scope_end_keeping(int num_tensors, weft_tensor *const tensors[],
                              bool (*has_reference)(const void *context, int number), const void *context)
{
    for (int i = 0; i < num_tensors; i++) {
        if (tensors[i] != NULL) {
            weft_tensor_get(tensors[i])->references++;
        }
    }
    bool done = close_scope(NULL, NULL) == WEFT_OK;
    for (int i = 0; i < num_tensors; i++) {
        weft_tensor_impl *tensor = tensors[i] == NULL ? NULL : weft_tensor_get(tensors[i]);
        if (tensor != NULL) {
            bool has = has_reference != NULL && has_reference(context, i);
            done = (has || weft_tensor_share(tensor) != NULL) && done;
            weft_tensor_unreference(tensor);
        }
    }
    return done;
}

bool weft_composite_open(const char *function)
{
    if (weft_require_init(function) != WEFT_OK || !weft_pending_admit(weft_runtime.pending, function)) {
        return false;
    }
    weft_composite_enter();
    return true;
}

void weft_composite_enter(void)
{
    weft_runtime.pending->composites++;
    weft_scope_begin();
}

void weft_composite_close(void)
{
    weft_scope_end_own();
    weft_runtime.pending->composites--;
}

bool weft_composite_close_keeping(weft_tensor *result)
{
    bool done = weft_scope_end_keeping(1, &result, NULL, NULL);
    weft_runtime.pending->composites--;
    return done;
}

static weft_status keep(weft_tensor_impl *tensor)
{
    static const char function[] = "weft_scope_keep";
    weft_tensors *tensors = weft_runtime.tensors;
    if (tensors->unopened > 0) {
        return WEFT_OK; /* it belongs to the enclosing scope already */
    }
    if (tensors->scopes.count == 0) {
        return weft_fail(WEFT_ERR_STATE, function, "no scope is open");
    }
    size_t *begin = &scopes()[tensors->scopes.count - 1];
    weft_tensor_impl **all = references();
    size_t place = tensors->references.count;
    while (place > *begin && all[place - 1] != tensor) {
        place--;
    }
    if (place == *begin) {
        return weft_fail(WEFT_ERR_STATE, function, "tensor does not belong to the innermost scope");
    }
    place--;
    if (tensors->scopes.count > 1) {
        /* Moves the reference to the front of this scope, which then begins one later. */
        all[place] = all[*begin];
        all[*begin] = tensor;
        (*begin)++;
    } else {
        all[place] = all[--tensors->references.count];
        tensor->caller_references++;
    }
    return WEFT_OK;
}

static weft_status perform_keep(const weft_call *call, weft_tensor *outputs[])
{
    outputs[0] = call->inputs[0];
    return keep(weft_tensor_get(call->inputs[0]));
}

weft_tensor *weft_scope_keep(weft_tensor *handle)
{
    static const char function[] = "weft_scope_keep";
    static const weft_operation action = {
        .name = "scope_keep", .perform = perform_keep, .num_outputs = 1, .effects = WEFT_LEAVES_VALUES | WEFT_KEEPS | WEFT_IS_NOT_MISSED
    };
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return NULL;
    }
    if (weft_is_listened_to()) {
        return weft_act_for_tensor(
            &(weft_call){ .function = function, .operation = &action, .num_inputs = 1, .inputs = { handle } });
    }
    return keep(tensor) == WEFT_OK ? handle : NULL;
}

static weft_status perform_retain(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    tensor->references++;
    tensor->caller_references++;
    return WEFT_OK;
}

weft_status weft_tensor_retain(weft_tensor *handle)
{
    static const char function[] = "weft_tensor_retain";
    static const weft_operation action = { .name = "retain", .perform = perform_retain, .effects = WEFT_LEAVES_VALUES | WEFT_KEEPS | WEFT_IS_NOT_MISSED };
    return weft_check_tensor(function, "tensor", handle) == NULL
               ? weft_latest_status()
               : weft_act(&(weft_call){ .function = function,
                                        .operation = &action,
                                        .num_inputs = 1,
                                        .inputs = { handle } },
                          NULL);
}

static weft_status perform_release(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    tensor->caller_references--;
    weft_tensor_unreference(tensor);
    return WEFT_OK;
}

weft_status weft_tensor_release_own(weft_tensor *handle)
{
    static const char function[] = "weft_tensor_release";
    static const weft_operation action = { .name = "release", .perform = perform_release, .effects = WEFT_LEAVES_VALUES | WEFT_KEEPS | WEFT_IS_NOT_MISSED };
    weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (tensor->caller_references == 0) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "the caller has no reference of the tensor: it belongs to a scope");
    }
    return weft_act(
        &(weft_call){ .function = function, .operation = &action, .num_inputs = 1, .inputs = { handle } }, NULL);
}

weft_status weft_tensor_release(weft_tensor *handle)
{
    return sweep_when_due(weft_tensor_release_own(handle));
}

weft_tensor_impl *weft_tensor_share(weft_tensor_impl *tensor)
{
    if (!weft_scope_adopt(tensor)) {
        weft_fail(WEFT_ERR_NOMEM, "weft", "no memory for a reference");
        return NULL;
    }
    return tensor;
}
