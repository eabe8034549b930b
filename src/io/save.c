/* weft_checkpoint_save() and relatives: arguments, the header, handles of saves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/deferral.h"
#include "io/check.h"
#include "io/json.h"
#include "io/random_states.h"
#include "io/saving.h"
#include "tensor/state.h"

typedef struct save_request {
    weft_file_call call;
    weft_checkpoint_options options;
    weft_file_header *header;
    bool waits;
    weft_saving *saving; /* that has been started, unless it waits */
} save_request;

static bool refuse(const char *function, const char *list, int i, const char *why)
{
    weft_fail(WEFT_ERR_INVALID, function, "%s[%d] is %s", list, i, why);
    return false;
}

/* ---- the header -------------------------------------------------------------------------------------------- */

static bool check_key(const char *function, const weft_file_header *header, int i, const char *key, const char *value)
{
    if (key == NULL || value == NULL) {
        return refuse(function, key == NULL ? "options->keys" : "options->values", i, "NULL");
    }
    if (!weft_is_utf8(key) || !weft_is_utf8(value)) {
        return refuse(function, weft_is_utf8(value) ? "options->keys" : "options->values", i, "not UTF-8");
    }
    if (strncmp(key, "weft.", 5) == 0) {
        return refuse(function, "options->keys", i, "one of weft's own: it begins with \"weft.\"");
    }
    return weft_file_metadata(header, key) == NULL || refuse(function, "options->keys", i, "the same as another one");
}

static bool no_memory(const char *function)
{
    weft_fail(WEFT_ERR_NOMEM, function, "no memory for the header of the file");
    return false;
}

static bool add_metadata(const char *function, const weft_checkpoint_options *options, weft_file_header *header)
{
    if (options->num_entries < 0 ||
        (options->num_entries > 0 && (options->keys == NULL || options->values == NULL))) {
        const char *list = options->keys == NULL ? "keys" : "values";
        weft_fail(WEFT_ERR_INVALID, function, "options->%s is %s", options->num_entries < 0 ? "num_entries" : list,
                  options->num_entries < 0 ? "negative" : "NULL");
        return false;
    }
    for (int i = 0; i < options->num_entries; i++) {
        if (!check_key(function, header, i, options->keys[i], options->values[i])) {
            return false;
        }
        if (!weft_file_add_entry(header, options->keys[i], options->values[i])) {
            return no_memory(function);
        }
    }
    return !options->random_states || weft_add_random_states(function, header);
}

static bool add_tensors(const weft_file_call *call, weft_file_header *header)
{
    for (int i = 0; i < call->n; i++) {
        const weft_layout *layout = weft_layout_of(call->tensors[i]);
        if (strcmp(call->names[i], "__metadata__") == 0) {
            return refuse(call->function, "names", i, "\"__metadata__\", which the format has for something else");
        }
        if (weft_file_find(header, call->names[i]) != NULL) {
            return refuse(call->function, "names", i, "the same as another one");
        }
        if (!weft_file_add_tensor(header, call->names[i], layout->dtype, layout->ndim, layout->shape)) {
            return no_memory(call->function);
        }
        if (layout->dtype == WEFT_C128 && layout->ndim == WEFT_MAX_DIMS) {
            weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "tensors[%d] is c128 with %d dimensions: the file needs one more", i,
                      WEFT_MAX_DIMS);
            return false;
        }
        if (layout->dtype == WEFT_C128 && !weft_file_add_pairs(header, call->names[i])) {
            return no_memory(call->function);
        }
    }
    return true;
}

/* Its length follows from what is in it, and with it the place of the data. */
static bool finish_header(const char *function, weft_file_header *header)
{
    weft_text text = weft_text_growing();
    bool done = weft_file_place_tensors(header) && weft_file_header_write(header, &text);
    if (!done && text.length > WEFT_HEADER_LIMIT) {
        weft_fail(WEFT_ERR_INVALID, function, "names and metadata have %zu bytes, and may have %d", text.length,
                  WEFT_HEADER_LIMIT);
    } else if (!done) {
        no_memory(function);
    }
    weft_text_free(&text);
    return done;
}

/* ---- saving ------------------------------------------------------------------------------------------------ */

/* After weft_saving_join(). The errors of tasks that it reports on all processes are reported then. */
static weft_status end(const char *function, weft_saving *saving)
{
    weft_outcome outcome = *weft_saving_outcome(saving);
    weft_saving_delete(saving);
    if (outcome.status != WEFT_OK) {
        weft_error_collect();
    }
    return weft_is_broken() ? weft_error_collect() : weft_outcome_report(function, &outcome);
}

static weft_status perform_save(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    save_request *request = call->details->memory;
    if (!weft_check_file_spmd(&request->call, true)) {
        return weft_latest_status();
    }
    weft_saving *saving =
        weft_saving_start(call->function, request->call.path, request->header, request->call.tensors, !request->waits);
    if (saving == NULL) {
        return weft_latest_status();
    }
    if (request->waits) {
        weft_saving_join(saving);
        return end(call->function, saving);
    }
    request->saving = saving;
    return WEFT_OK;
}

/* All checks, then the call. A status with the error kept. */
static weft_status act(save_request *request, const weft_checkpoint_options *options)
{
    static const weft_operation action = { .name = "checkpoint_save", .perform = perform_save, .effects = WEFT_NEEDS_DATA };
    weft_file_header header = { .data_bytes = 0 };
    weft_file_call *call = &request->call;
    request->header = &header;
    bool valid = weft_check_file_call(call) && weft_check_file_waits(call) &&
                 (options == NULL || WEFT_TAKE_OPTIONS(call->function, &request->options, options)) &&
                 add_metadata(call->function, &request->options, &header) && add_tensors(call, &header) &&
                 finish_header(call->function, &header);
    for (size_t i = 0; i < header.metadata.count && valid; i++) {
        const weft_file_entry *entry = (const weft_file_entry *)header.metadata.items + i;
        call->digest = weft_digest_text(weft_digest_text(call->digest, entry->key), entry->value);
    }
    if (!valid) {
        weft_check_file_spmd(call, false);
    }
    weft_status status = valid ? weft_act_on_file(call, &action, request) : weft_latest_status();
    weft_file_header_free(&header);
    return status;
}

static weft_status save(const char *function, const char *path, int n, const char *const names[],
                        weft_tensor *const tensors[], const weft_checkpoint_options *options)
{
    save_request request = {
        .call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors }, .waits = true
    };
    return act(&request, options);
}

weft_status weft_checkpoint_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                                    const weft_checkpoint_options *options)
{
    return save("weft_checkpoint_save", path, n, names, tensors, options);
}

weft_checkpoint_saving *weft_checkpoint_save_async(const char *path, int n, const char *const names[],
                                                   weft_tensor *const tensors[], const weft_checkpoint_options *options)
{
    static const char function[] = "weft_checkpoint_save_async";
    save_request request = {
        .call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors }
    };
    if (act(&request, options) != WEFT_OK || request.saving == NULL) {
        return NULL;
    }
    weft_checkpoint_saving *handle =
        weft_handle_add(&weft_runtime.handles.savings, WEFT_HANDLE_SAVING, request.saving);
    if (handle == NULL) {
        weft_saving_join(request.saving);
        weft_saving_delete(request.saving);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a handle");
    }
    return handle;
}

/* The object of a handle. NULL with the error kept. */
static weft_saving *check_saving(const char *function, const weft_checkpoint_saving *handle)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_saving *saving = handle == NULL ? NULL : weft_handle_get(&weft_runtime.handles.savings, handle);
    if (saving == NULL) {
        weft_fail(WEFT_ERR_INVALID, function,
                  handle == NULL ? "saving is NULL" : "saving is not a pending save");
    }
    return saving;
}

weft_status weft_checkpoint_test(weft_checkpoint_saving *handle, bool *ended)
{
    static const char function[] = "weft_checkpoint_test";
    weft_saving *saving = check_saving(function, handle);
    if (saving == NULL) {
        return weft_latest_status();
    }
    weft_deferral_note(function);
    if (ended == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "ended is NULL");
    }
    *ended = weft_saving_has_ended(saving);
    if (*ended) {
        weft_saving_join(saving);
    }
    return WEFT_OK;
}

weft_status weft_checkpoint_wait(weft_checkpoint_saving *handle)
{
    static const char function[] = "weft_checkpoint_wait";
    weft_saving *saving = check_saving(function, handle);
    if (saving == NULL || !weft_check_nothing_waits(function)) {
        return weft_latest_status();
    }
    weft_deferral_note(function);
    weft_handle_remove(&weft_runtime.handles.savings, handle);
    weft_saving_join(saving);
    return end(function, saving);
}
