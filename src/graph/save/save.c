/* weft_graph_save(): the newest run's traces as text. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "base/text.h"
#include "graph/save/saved.h"

static const char function[] = "weft_graph_save";

typedef struct saving {
    weft_text text;
    weft_vec meshes; /* const weft_mesh_impl * */
    bool failed;     /* no memory */
} saving;

/* ---- meshes and layouts ---------------------------------------------------------------------------------- */

/* The number of an equal mesh, or of no mesh. */
static size_t find_mesh(const saving *s, const weft_mesh_impl *mesh)
{
    const weft_mesh_impl *const *all = s->meshes.items;
    size_t i = 0;
    while (i < s->meshes.count && all[i] != mesh && !weft_mesh_same(all[i], mesh)) {
        i++;
    }
    return i;
}

/* "dp", with " and \ after a \, and control characters as \xx. */
static void add_quoted(weft_text *text, const char *characters)
{
    weft_text_add(text, "\"");
    for (const unsigned char *c = (const unsigned char *)characters; *c != '\0'; c++) {
        const char *format = *c < ' ' ? "\\%02x" : *c == '"' || *c == '\\' ? "\\%c" : "%c";
        weft_text_add(text, format, *c);
    }
    weft_text_add(text, "\"");
}

/* The mesh's line, unless it has one. */
static void add_mesh(saving *s, const weft_mesh_impl *mesh)
{
    size_t number = find_mesh(s, mesh);
    if (s->failed || number < s->meshes.count) {
        return;
    }
    const weft_mesh_impl **place = weft_vec_push(&s->meshes, sizeof(*place));
    if (place == NULL) {
        s->failed = true;
        return;
    }
    *place = mesh;
    weft_text_add(&s->text, "mesh m%zu (", number);
    for (int d = 0; d < mesh->ndim; d++) {
        weft_text_add(&s->text, d == 0 ? "" : ", ");
        if (mesh->names[d] != NULL) {
            add_quoted(&s->text, mesh->names[d]);
            weft_text_add(&s->text, " ");
        }
        weft_text_add(&s->text, "%lld", (long long)mesh->shape[d]);
    }
    weft_text_add(&s->text, ")");
    for (int64_t i = 0; i < mesh->num_ranks && mesh->ranks != NULL; i++) {
        weft_text_add(&s->text, "%s%d", i == 0 ? " ranks " : ",", mesh->ranks[i]);
    }
    weft_text_add(&s->text, "\n");
}

/* "f32[8, 4] [S0,R] on m0" */
static void add_layout(saving *s, const weft_layout *layout)
{
    weft_text_add(&s->text, "%s[", weft_dtype_name(layout->dtype));
    weft_text_add_sizes(&s->text, layout->ndim, layout->shape, ", ");
    weft_text_add(&s->text, "] [");
    weft_placements_write(&s->text, layout->placements, layout->mesh->ndim);
    weft_text_add(&s->text, "] on m%zu", find_mesh(s, layout->mesh));
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

static void add_values(weft_text *text, const int numbers[], int count)
{
    for (int i = 0; i < count; i++) {
        weft_text_add(text, i > 0 ? ", " : "");
        weft_text_add(text, numbers[i] < 0 ? "-" : "%%%d", numbers[i]);
    }
}

/* " scalars=0.5,1", without zeros at the end. */
static void add_scalars(weft_text *text, const double scalars[])
{
    int count = WEFT_MAX_SCALARS;
    while (count > 0 && scalars[count - 1] == 0 && !signbit(scalars[count - 1])) {
        count--;
    }
    for (int i = 0; i < count; i++) {
        weft_text_add(text, i == 0 ? " scalars=%.17g" : ",%.17g", scalars[i]);
    }
}

/* Where the function's name does not say it. */
static void add_name(weft_text *text, const weft_call *call, const weft_saved_name *name)
{
    static const char prefix[] = "weft_";
    const char *usual = strncmp(call->function, prefix, strlen(prefix)) == 0 ? call->function + strlen(prefix) : "";
    if (name->number > 0) {
        weft_text_add(text, " operation=%s#%zu", name->name, name->number);
    } else if (strcmp(usual, name->name) != 0) {
        weft_text_add(text, " operation=%s", name->name);
    }
}

static void add_details(saving *s, const weft_call *call)
{
    const weft_call_details *d = call->details;
    if (d == NULL) {
        return;
    }
    weft_call_word(&s->text, "listed", d->num_tensors, 0);
    weft_call_word(&s->text, "outputs", d->num_outputs, 0);
    weft_call_word(&s->text, "changed", d->num_changed, 0);
    weft_call_words(&s->text, "more", d->num_numbers, d->numbers);
    if (d->text != NULL) {
        weft_text_add(&s->text, " text=");
        add_quoted(&s->text, d->text);
    }
    if (d->layout != NULL) {
        weft_text_add(&s->text, " to ");
        add_layout(s, d->layout);
    }
}

static void add_call(saving *s, const weft_graph_trace *trace, const weft_graph_node *node)
{
    weft_saved_name name;
    weft_saved_name_of(node->call, &name);
    weft_text_add(&s->text, "  ");
    add_values(&s->text, node->outputs, node->num_outputs);
    weft_text_add(&s->text, "%s%s(", node->num_outputs > 0 ? " = " : "", node->call->function);
    add_values(&s->text, node->inputs, node->num_inputs);
    weft_text_add(&s->text, ")");
    add_name(&s->text, node->call, &name);
    weft_call_attributes(&s->text, &node->call->attributes);
    weft_call_word(&s->text, "wish", node->call->attributes.wish, 0);
    add_scalars(&s->text, node->call->scalars);
    weft_text_add(&s->text, node->implicit ? " implicit" : "");
    add_details(s, node->call);
    const char *between = " : ";
    for (int i = 0; i < node->num_outputs; i++) {
        if (node->outputs[i] >= 0) {
            weft_text_add(&s->text, "%s", between);
            add_layout(s, weft_trace_value(trace, node->outputs[i])->layout);
            between = "; ";
        }
    }
    weft_text_add(&s->text, "\n");
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static void add_meshes(saving *s, const weft_graph_trace *trace)
{
    for (size_t i = 0; i < trace->values.count; i++) {
        add_mesh(s, weft_trace_value(trace, (int)i)->layout->mesh);
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_call_details *details = weft_trace_node(trace, i)->call->details;
        if (details != NULL && details->layout != NULL) {
            add_mesh(s, details->layout->mesh);
        }
    }
}

static void add_segment(saving *s, const weft_graph_trace *trace)
{
    weft_text_add(&s->text, "segment\n");
    for (int i = 0; i < (int)trace->values.count; i++) {
        const weft_graph_value *value = weft_trace_value(trace, i);
        if (value->is_input) {
            weft_text_add(&s->text, "  %%%d = %s : ", i, value->is_fake ? "input without data" : "input");
            add_layout(s, value->layout);
            weft_text_add(&s->text, "\n");
        }
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        add_call(s, trace, weft_trace_node(trace, i));
    }
    const char *between = "  kept ";
    for (int i = 0; i < (int)trace->values.count && trace->wanted != NULL; i++) {
        if (trace->wanted[i]) {
            weft_text_add(&s->text, "%s%%%d", between, i);
            between = ", ";
        }
    }
    weft_text_add(&s->text, trace->wanted != NULL && *between == ',' ? "\n" : "");
}

static const weft_graph_trace *newest(const weft_graph_impl *graph, size_t position)
{
    return ((const weft_graph_segment *)graph->segments.items)[position].newest;
}

static void add_graph(saving *s, const weft_graph_impl *graph)
{
    weft_text_add(&s->text, WEFT_SAVED_GRAPH " %d\ngraph ", WEFT_SAVED_VERSION);
    add_quoted(&s->text, graph->name);
    weft_text_add(&s->text, "\n");
    for (size_t i = 0; i < graph->num_newest; i++) {
        add_meshes(s, newest(graph, i));
    }
    for (size_t i = 0; i < graph->num_newest; i++) {
        add_segment(s, newest(graph, i));
    }
    if (!s->text.failed) {
        uint64_t digest = weft_hash_bytes(s->text.characters, s->text.length, 0);
        weft_text_add(&s->text, "end %016llx\n", (unsigned long long)digest);
    }
}

/* Whether a file can say all of a call; else a reason. */
static const char *why_not(const weft_call *call)
{
    weft_saved_name name;
    bool has_map = false;
    for (int i = 0; i < call->num_inputs; i++) {
        has_map |= call->access_map[i] != NULL;
    }
    return has_map                            ? "reads other ranks' rows through an access map"
           : weft_saved_name_of(call, &name) ? NULL
           : !weft_call_is_action(call)        ? "is an operation of the program's"
                                              : "depends on the ranks of this process";
}

static weft_status check(const weft_graph_impl *graph)
{
    if (graph->num_newest == 0) {
        return weft_fail(WEFT_ERR_STATE, function, "graph %s has no calls: it has not run", graph->name);
    }
    for (size_t i = 0; i < graph->num_newest; i++) {
        const weft_graph_trace *trace = newest(graph, i);
        for (size_t k = 0; k < trace->nodes.count; k++) {
            const weft_call *call = weft_trace_node(trace, k)->call;
            const char *why = why_not(call);
            if (why != NULL) {
                return weft_fail(WEFT_ERR_UNSUPPORTED, function, "graph %s cannot be saved: call %zu, %s, %s", graph->name, k,
                                 call->function, why);
            }
        }
    }
    return WEFT_OK;
}

static weft_status write_text(const weft_text *text, const char *path)
{
    FILE *file = weft_disk_stream_to(path, false);
    if (file == NULL) {
        return weft_fail(WEFT_ERR_IO, function, "path, %s: %s", path, strerror(errno));
    }
    bool written = fwrite(text->characters, 1, text->length, file) == text->length;
    written = fclose(file) == 0 && written;
    return written ? WEFT_OK : weft_fail(WEFT_ERR_IO, function, "path, %s: it cannot be written", path);
}

weft_status weft_graph_save(const weft_graph *handle, const char *path)
{
    const weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL || path == NULL) {
        return graph == NULL ? weft_latest_status() : weft_fail(WEFT_ERR_INVALID, function, "path is NULL");
    }
    if (graph->running > 0) {
        return weft_fail(WEFT_ERR_STATE, function, "called from within the function of graph %s", graph->name);
    }
    weft_status status = check(graph);
    if (status != WEFT_OK) {
        return status;
    }
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers with points */
    if (plain == (locale_t)0) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for graph %s", graph->name);
    }
    locale_t former = uselocale(plain);
    saving s = { .text = weft_text_growing() };
    add_graph(&s, graph);
    uselocale(former);
    freelocale(plain);
    status = s.failed || s.text.failed ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for graph %s", graph->name)
                                       : write_text(&s.text, path);
    weft_text_free(&s.text);
    weft_vec_free(&s.meshes);
    return status;
}
