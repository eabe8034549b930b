/* weft_checkpoint_save() and relatives: arguments, the header, handles of saves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call/deferral.h"
#include "io/check.h"
#include "io/index.h"
#include "io/json.h"
#include "io/random_states.h"
#include "io/saving.h"
#include "tensor/state.h"

typedef struct save_request {
    weft_file_call call;
    weft_checkpoint_options options;
    weft_vec headers; /* weft_file_header: one for each file */
    weft_map names;   /* of the call: 1 + index */
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

/* Most bytes of a file by default: that of Hugging Face. */
static const int64_t MOST_BYTES = 5000000000;
enum { MOST_FILES = 99999 };

static weft_file_header *headers_of(const save_request *request)
{
    return request->headers.items;
}

/* That no tensor before has this one's name. */
static bool check_name(save_request *request, int i)
{
    const weft_file_call *call = &request->call;
    uint64_t hash = weft_hash_bytes(call->names[i], strlen(call->names[i]), 0);
    for (weft_map_slot *slot = weft_map_first(&request->names, hash); slot != NULL; slot = weft_map_next(&request->names, slot)) {
        if (strcmp(call->names[(uintptr_t)slot->value - 1], call->names[i]) == 0) {
            return refuse(call->function, "names", i, "the same as another one");
        }
    }
    return weft_map_add(&request->names, hash, (void *)((uintptr_t)i + 1)) || no_memory(call->function);
}

static bool check_tensor(save_request *request, int i, const weft_layout *layout)
{
    const weft_file_call *call = &request->call;
    if (strcmp(call->names[i], "__metadata__") == 0) {
        return refuse(call->function, "names", i, "\"__metadata__\", which the format has for something else");
    }
    if (!check_name(request, i)) {
        return false;
    }
    if (layout->dtype == WEFT_C128 && layout->ndim == WEFT_MAX_DIMS) {
        weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "tensors[%d] is c128 with %d dimensions: the file needs one more", i,
                  WEFT_MAX_DIMS);
        return false;
    }
    return true;
}

/* A tensor goes to the last file, or, if that would be too large, to a new one. */
static bool add_tensors(save_request *request)
{
    const weft_file_call *call = &request->call;
    int64_t most = !weft_is_index_path(call->path)          ? INT64_MAX
                   : request->options.max_file_bytes > 0 ? request->options.max_file_bytes
                                                         : MOST_BYTES;
    int64_t bytes = 0;
    for (int i = 0; i < call->n; i++) {
        const weft_layout *layout = weft_layout_of(call->tensors[i]);
        if (!check_tensor(request, i, layout)) {
            return false;
        }
        int64_t own = weft_tensor_num_elements(call->tensors[i]) * (int64_t)weft_dtype_size(layout->dtype);
        bool is_new = bytes > 0 && own > most - bytes;
        bytes = is_new ? own : bytes + own;
        if (is_new && weft_vec_push(&request->headers, sizeof(weft_file_header)) == NULL) {
            return no_memory(call->function);
        }
        weft_file_header *header = &headers_of(request)[request->headers.count - 1];
        if (!weft_file_add_tensor(header, call->names[i], layout->dtype, layout->ndim, layout->shape) ||
            (layout->dtype == WEFT_C128 && !weft_file_add_pairs(header, call->names[i]))) {
            return no_memory(call->function);
        }
    }
    return request->headers.count <= MOST_FILES ||
           (weft_fail(WEFT_ERR_INVALID, call->function, "options->max_file_bytes is %lld: there would be %zu files, and may be %d",
                      (long long)most, request->headers.count, MOST_FILES), false);
}

/* Its length follows from what is in it, and with it the place of the data. index: the path of the file's index; NULL: there is
 * none. */
static bool finish_header(const char *function, const char *index, weft_file_header *header)
{
    const char *slash = index == NULL ? NULL : strrchr(index, '/');
    weft_text text = weft_text_growing();
    header->index = index == NULL ? NULL : strdup(slash == NULL ? index : slash + 1);
    bool done = (header->index != NULL) == (index != NULL) && weft_file_place_tensors(header) && weft_file_header_write(header, &text);
    if (!done && text.length > WEFT_HEADER_LIMIT) {
        weft_fail(WEFT_ERR_INVALID, function, "names and metadata have %zu bytes, and may have %d", text.length,
                  WEFT_HEADER_LIMIT);
    } else if (!done) {
        no_memory(function);
    }
    weft_text_free(&text);
    return done;
}

/* The files of an index have names that begin as its own, and the index has these names and no others. */
static bool check_index(const weft_file_call *call)
{
    const char *slash = strrchr(call->path, '/');
    if (!weft_is_utf8(slash == NULL ? call->path : slash + 1)) {
        weft_fail(WEFT_ERR_INVALID, call->function, "path is not UTF-8, as the name of an index must be");
        return false;
    }
    if (call->n == 0) {
        weft_fail(WEFT_ERR_INVALID, call->function, "n is 0, and path is that of an index, which names files by their tensors");
        return false;
    }
    return true;
}

static bool check_size(const save_request *request)
{
    int64_t most = request->options.max_file_bytes;
    const char *function = request->call.function;
    if (most < 0) {
        weft_fail(WEFT_ERR_INVALID, function, "options->max_file_bytes is negative");
        return false;
    }
    if (most > 0 && !weft_is_index_path(request->call.path)) {
        weft_fail(WEFT_ERR_INVALID, function, "options->max_file_bytes is for several files, and path does not end in \".index.json\"");
        return false;
    }
    return !weft_is_index_path(request->call.path) || check_index(&request->call);
}

/* The first file has the metadata. */
static bool make_headers(save_request *request)
{
    const char *function = request->call.function;
    if (!check_size(request)) {
        return false;
    }
    weft_file_header *first = weft_vec_push(&request->headers, sizeof(*first));
    if (first == NULL) {
        return no_memory(function);
    }
    bool made = add_metadata(function, &request->options, first) && add_tensors(request);
    const char *index = weft_is_index_path(request->call.path) ? request->call.path : NULL;
    for (size_t k = 0; k < request->headers.count && made; k++) {
        made = finish_header(function, index, &headers_of(request)[k]);
    }
    return made;
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
        weft_saving_start(call->function, request->call.path, (int)request->headers.count, request->headers.items,
                          request->call.tensors, !request->waits);
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
    weft_file_call *call = &request->call;
    bool valid = weft_check_file_call(call) && weft_check_file_waits(call) &&
                 (options == NULL || WEFT_TAKE_OPTIONS(call->function, &request->options, options)) && make_headers(request);
    if (request->options.max_file_bytes != 0) {
        call->digest = weft_digest_add(call->digest, (uint64_t)request->options.max_file_bytes);
    }
    const weft_vec *metadata = valid ? &headers_of(request)[0].metadata : NULL;
    for (size_t i = 0; valid && i < metadata->count; i++) {
        const weft_file_entry *entry = (const weft_file_entry *)metadata->items + i;
        call->digest = weft_digest_text(weft_digest_text(call->digest, entry->key), entry->value);
    }
    if (!valid) {
        weft_check_file_spmd(call, false);
    }
    weft_status status = valid ? weft_act_on_file(call, &action, request) : weft_latest_status();
    for (size_t k = 0; k < request->headers.count; k++) {
        weft_file_header_free(&headers_of(request)[k]);
    }
    weft_vec_free(&request->headers);
    weft_map_free(&request->names);
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
