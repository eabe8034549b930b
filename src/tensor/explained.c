#include "tensor/explained.h"

#include <stdlib.h>

#include <weft/explain.h>

#include "call/deferral.h"
#include "call/interposer.h"
#include "sharding/explain.h"
#include "tensor/actions.h"

typedef struct weft_explained {
    weft_interposer interposer; /* the first member */
    weft_text_file text;
    bool open;      /* between begin and end */
    weft_text call; /* the public call, as long as nothing of it has been explained */
} weft_explained;

/* Calls with nothing to explain (scopes, references) leave no line. */
static FILE *write_call(weft_explained *e)
{
    if (e->call.characters != NULL) {
        fputs(e->call.characters, e->text.file);
        weft_text_free(&e->call);
    }
    return e->text.file;
}

bool weft_is_explaining(void)
{
    return weft_runtime.explained != NULL && weft_runtime.explained->open && !weft_runtime.context.unobserved;
}

FILE *weft_explained_file(void)
{
    weft_explained *e = weft_runtime.explained;
    bool collected = weft_runtime.context.steps != NULL && !weft_runtime.context.steps->explains;
    return weft_is_explaining() && !collected ? write_call(e) : NULL;
}

/* ---- public calls -------------------------------------------------------------------------------------- */

static void describe(weft_text *line, const weft_call *call)
{
    weft_text_free(line);
    *line = weft_text_growing();
    weft_text_add(line, "%s(", call->function);
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        const weft_tensor *handle = weft_call_tensor(call, i);
        const weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
        char text[160];
        weft_text_add(line, "%s%s", i > 0 ? ", " : "",
                      tensor == NULL ? "?" : weft_layout_format(tensor->layout, text, sizeof(text)));
    }
    weft_text_add(line, ")\n");
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    weft_explained *e = (weft_explained *)self;
    describe(&e->call, frame->call);
    weft_status status = weft_call_next(frame);
    if (status != WEFT_OK) {
        fprintf(write_call(e), "  failed: %s\n", weft_status_string(status));
    }
    weft_text_free(&e->call);
    return status;
}

void weft_explain_move(const char *function, const weft_layout *from, const weft_layout *to)
{
    FILE *file = weft_explained_file();
    weft_plan plan;
    weft_plan_statistics statistics;
    char why[200], text[160];
    if (file == NULL || from == to) {
        return;
    }
    fprintf(file, "  redistribution  %s\n", weft_layout_format(from, text, sizeof(text)));
    if (weft_plan_make(weft_runtime.layouts, &weft_runtime.topology, &weft_runtime.cost, from, to, &plan, why,
                       sizeof(why)) == WEFT_OK &&
        weft_plan_measure(&plan, &weft_runtime.topology, &statistics) == WEFT_OK) {
        weft_explanation_print_move(&plan, &statistics, "  ", file);
    } else {
        fprintf(file, "      %s cannot be planned\n", function);
    }
}

void weft_explain_access(const weft_layout *from, const weft_access_map *access_map)
{
    FILE *file = weft_explained_file();
    char text[160];
    if (file != NULL) {
        const weft_explained_reads reads =
            weft_access_map_reads(&weft_runtime.topology, &weft_runtime.cost, from, access_map);
        fprintf(file, "  access map  %s\n", weft_layout_format(from, text, sizeof(text)));
        weft_explained_reads_print(&reads, "  ", file);
    }
}

/* ---- the functions ------------------------------------------------------------------------------------- */

static void forget_text(weft_explained *e)
{
    if (e->text.file != NULL) {
        weft_text_file_close(&e->text, NULL, 0, NULL);
        e->text = (weft_text_file){ .file = NULL };
    }
}

weft_status weft_explain_begin(void)
{
    static const char function[] = "weft_explain_begin";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_deferral_finish_implicit(function);
    if (weft_runtime.explained == NULL) {
        weft_runtime.explained = calloc(1, sizeof(weft_explained));
    }
    weft_explained *e = weft_runtime.explained;
    if (e == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for an explanation");
    }
    if (e->open) {
        return weft_fail(WEFT_ERR_STATE, function, "calls are being explained already");
    }
    forget_text(e);
    if (!weft_text_file_open(&e->text)) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for an explanation");
    }
    e->interposer = (weft_interposer){ .order = WEFT_OBSERVER, .around = around };
    weft_interposer_install(&e->interposer);
    e->open = true;
    return WEFT_OK;
}

weft_status weft_explain_end(void)
{
    static const char function[] = "weft_explain_end";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_explained *e = weft_runtime.explained;
    if (e == NULL || !e->open) {
        return weft_fail(WEFT_ERR_STATE, function, "weft_explain_begin() has not been called");
    }
    weft_interposer_remove(&e->interposer);
    e->open = false;
    return WEFT_OK;
}

weft_status weft_explain(FILE *file)
{
    static const char function[] = "weft_explain";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    const weft_explained *e = weft_runtime.explained;
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "file is NULL");
    }
    if (e == NULL || e->text.file == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "weft_explain_begin() has not been called");
    }
    if (fflush(e->text.file) != 0) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for an explanation");
    }
    return fwrite(e->text.characters, 1, e->text.length, file) == e->text.length
               ? WEFT_OK
               : weft_fail(WEFT_ERR_IO, function, "writing failed");
}

void weft_explained_stop(void)
{
    weft_explained *e = weft_runtime.explained;
    if (e != NULL) {
        if (e->open) {
            weft_interposer_remove(&e->interposer);
        }
        forget_text(e);
        free(e);
        weft_runtime.explained = NULL;
    }
}
