#include "arrays/arrays.h"
#include "io/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tensor/actions.h"
#include "tensor/state.h"

static bool refuse(const char *function, const char *argument, const char *why)
{
    weft_fail(WEFT_ERR_INVALID, function, "%s is %s", argument, why);
    return false;
}

static bool check_entry(const weft_file_call *call, int i)
{
    char name[32];
    snprintf(name, sizeof(name), "names[%d]", i);
    bool is_empty = call->names[i] != NULL && call->names[i][0] == '\0' && !call->may_be_empty;
    if (call->names[i] == NULL || is_empty || !weft_is_utf8(call->names[i])) {
        const char *why = call->names[i] == NULL ? "NULL" : is_empty ? "empty" : "not UTF-8";
        return refuse(call->function, name, why);
    }
    snprintf(name, sizeof(name), "tensors[%d]", i);
    if (call->tensors[i] == NULL) { /* a NULL tensor as an argument */
        return refuse(call->function, name, "NULL");
    }
    weft_tensor_impl *tensor = weft_check_tensor(call->function, name, call->tensors[i]);
    return tensor != NULL && weft_check_data(call->function, name, tensor);
}

bool weft_check_file_call(const weft_file_call *call)
{
    if (weft_require_init(call->function) != WEFT_OK) {
        return false;
    }
    if (call->path == NULL || call->path[0] == '\0') {
        return refuse(call->function, "path", call->path == NULL ? "NULL" : "empty");
    }
    if (call->n < 0) {
        return refuse(call->function, "n", "negative");
    }
    if (call->n > 0 && (call->names == NULL || call->tensors == NULL)) {
        return refuse(call->function, call->names == NULL ? "names" : "tensors", "NULL");
    }
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "a fake world has no data");
        return false;
    }
    bool right = true;
    for (int i = 0; i < call->n && right; i++) {
        right = check_entry(call, i);
    }
    return right;
}

bool weft_check_file_waits(const weft_file_call *call)
{
    bool right = weft_check_nothing_waits(call->function);
    for (int i = 0; i < call->n && right; i++) {
        char name[32];
        snprintf(name, sizeof(name), "tensors[%d]", i);
        right = weft_check_not_acquired(call->function, name, weft_tensor_get(call->tensors[i]));
    }
    return right;
}

bool weft_check_file_layouts(const weft_file_call *call)
{
    for (int i = 0; i < call->n; i++) {
        const weft_layout *layout = weft_layout_of(call->tensors[i]);
        if (layout->has_partial) {
            char text[160];
            weft_fail(WEFT_ERR_LAYOUT, call->function, "tensors[%d] is %s: values are Shard or Replicate", i,
                      weft_layout_format(layout, text, sizeof(text)));
            return false;
        }
    }
    return true;
}

enum { CALL_TEXT = 240, MOST_PATH = 120, MOST_NAMES = 80 };

/* The last characters of a long text, which differ more often than the first. */
static void add_quoted(weft_text *text, const char *what)
{
    size_t length = strlen(what);
    bool cut = length > MOST_PATH;
    weft_text_add(text, "\"%s%s\"", cut ? "..." : "", cut ? what + length - MOST_PATH : what);
}

/* Path and names, as far as they fit, and a digest of all that is not shown. */
static void describe(const weft_file_call *call, char text[CALL_TEXT])
{
    weft_text written = weft_text_in(text, CALL_TEXT);
    uint64_t digest = weft_digest_text(call->digest, call->path);
    bool all_shown = strlen(call->path) <= MOST_PATH && call->digest == 0;
    add_quoted(&written, call->path);
    size_t begin = written.length;
    for (int i = 0; i < call->n; i++) {
        bool shown = written.length - begin + strlen(call->names[i]) < MOST_NAMES;
        if (shown) {
            weft_text_add(&written, ", \"%s\"", call->names[i]);
        }
        all_shown = all_shown && shown;
        digest = weft_digest_text(digest, call->names[i]);
    }
    if (!all_shown) {
        weft_text_add(&written, ", ... (%016llx)", (unsigned long long)digest);
    }
}

bool weft_check_file_spmd(const weft_file_call *call, bool valid)
{
    if (!valid) {
        weft_check_spmd(&(weft_call_signature){ .function = call->function, .failed = true });
        return false;
    }
    const weft_layout **layouts = malloc(((size_t)call->n + 1) * sizeof(*layouts));
    if (layouts == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d layouts", call->n);
        return false;
    }
    for (int i = 0; i < call->n; i++) {
        layouts[i] = weft_layout_of(call->tensors[i]);
    }
    char text[CALL_TEXT];
    describe(call, text);
    bool same = weft_check_spmd(&(weft_call_signature){
        .function = call->function, .num_layouts = call->n, .layouts = layouts, .text = text });
    free(layouts);
    return same;
}

weft_status weft_act_on_file(const weft_file_call *call, const weft_operation *action, void *request)
{
    const weft_call_details details = {
        .num_tensors = call->n, .tensors = call->tensors, .text = call->path, .memory = request
    };
    return weft_act(&(weft_call){ .function = call->function, .operation = action, .details = &details }, NULL);
}
