/* Sizes of a graph's inputs: what the program requires of them, and what has held. */
#include <stdlib.h>
#include <string.h>

#include "graph/run/graph.h"
#include "tensor/tensor.h"

void weft_graph_free_shapes(weft_graph_impl *graph)
{
    for (size_t i = 0; i < graph->requirements.count; i++) {
        free((char *)(uintptr_t)((weft_shape_relation *)graph->requirements.items)[i].text);
    }
    weft_vec_free(&graph->requirements);
    free(graph->input_layouts);
    free(graph->shapes);
}

/* ---- sizes as an array ------------------------------------------------------------------------------------- */

bool weft_graph_collect_sizes(const weft_graph_impl *graph, const weft_layout *const layouts[], weft_all_sizes *all)
{
    int num_inputs = graph->num_inputs;
    all->sizes = malloc(((size_t)num_inputs * WEFT_MAX_DIMS + 1) * sizeof(int64_t));
    all->first = malloc((2 * (size_t)num_inputs + 1) * sizeof(int));
    all->counts = all->first + num_inputs;
    all->count = 0;
    if (all->sizes == NULL || all->first == NULL) {
        weft_all_sizes_free(all);
        return false;
    }
    for (int i = 0; i < num_inputs; i++) {
        all->first[i] = all->count;
        all->counts[i] = layouts[i]->ndim;
        for (int d = 0; d < layouts[i]->ndim; d++) {
            all->sizes[all->count++] = layouts[i]->shape[d];
        }
    }
    return true;
}

void weft_all_sizes_free(weft_all_sizes *all)
{
    free(all->sizes);
    free(all->first);
}

bool weft_relation_has_dimensions(const weft_shape_relation *relation, const weft_layout *const layouts[])
{
    bool has = true;
    int input, dim;
    for (int at = 0; weft_shape_named(relation, at, &input, &dim); at++) {
        has = has && dim < layouts[input]->ndim;
    }
    return has;
}

/* ---- required relations ------------------------------------------------------------------------------------ */

static bool check_requirements(const weft_graph_impl *graph, const weft_layout *const layouts[], const weft_all_sizes *all)
{
    for (size_t i = 0; i < graph->requirements.count && !graph->omits_requirements; i++) {
        const weft_shape_relation *relation = (const weft_shape_relation *)graph->requirements.items + i;
        if (weft_relation_has_dimensions(relation, layouts) && weft_shape_holds(relation, all->sizes, all->first)) {
            continue;
        }
        char space[200];
        weft_text sizes = weft_text_in(space, sizeof(space));
        int input, dim;
        for (int at = 0; weft_shape_named(relation, at, &input, &dim); at++) {
            if (dim < layouts[input]->ndim) {
                weft_text_add(&sizes, ", i%d.%d is %lld", input, dim, (long long)layouts[input]->shape[dim]);
            } else {
                weft_text_add(&sizes, ", there is no i%d.%d", input, dim);
            }
        }
        weft_fail(WEFT_ERR_SHAPE, "weft_graph_call", "graph %s requires %s%s", graph->name, relation->text, space);
        return false;
    }
    return true;
}

static bool check_inputs_of(const char *function, const weft_graph_impl *graph, const weft_shape_relation *relation)
{
    int input, dim;
    for (int at = 0; weft_shape_named(relation, at, &input, &dim); at++) {
        if (input >= graph->num_inputs) {
            weft_fail(WEFT_ERR_INVALID, function, "relation: i%d is no input: graph %s has %d", input, graph->name, graph->num_inputs);
            return false;
        }
    }
    return true;
}

bool weft_graph_read_relation(const char *function, const weft_graph_impl *graph, const char *text, weft_shape_relation *relation)
{
    char why[160];
    if (text == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "relation is NULL");
        return false;
    }
    if (!weft_shape_read(text, relation, why, sizeof(why))) {
        weft_fail(WEFT_ERR_INVALID, function, "relation: %s", why);
        return false;
    }
    return check_inputs_of(function, graph, relation);
}

/* A relation that follows from one that is there is not kept. */
static weft_status add_requirement(weft_graph_impl *graph, weft_shape_relation relation)
{
    for (size_t i = 0; i < graph->requirements.count; i++) {
        if (weft_shape_implies((const weft_shape_relation *)graph->requirements.items + i, &relation)) {
            return WEFT_OK;
        }
    }
    char *text = strdup(relation.text);
    weft_shape_relation *added = text == NULL ? NULL : weft_vec_push(&graph->requirements, sizeof(*added));
    if (added == NULL) {
        free(text);
        return weft_fail(WEFT_ERR_NOMEM, "weft_graph_require", "no memory for a relation");
    }
    relation.text = text;
    *added = relation;
    graph->requirements_hold = false;
    return WEFT_OK;
}

weft_status weft_graph_require(weft_graph *handle, const char *text)
{
    static const char function[] = "weft_graph_require";
    weft_graph_impl *graph = weft_check_graph(function, handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    weft_deferral_note(function);
    weft_shape_relation relation;
    return weft_graph_read_relation(function, graph, text, &relation) ? add_requirement(graph, relation) : weft_latest_status();
}

weft_status weft_graph_omit_requirements(weft_graph *handle, bool omit)
{
    weft_graph_impl *graph = weft_check_graph("weft_graph_omit_requirements", handle);
    if (graph == NULL) {
        return weft_latest_status();
    }
    weft_deferral_note("weft_graph_omit_requirements");
    graph->omits_requirements = omit;
    graph->requirements_hold = false;
    return WEFT_OK;
}

/* ---- noting ------------------------------------------------------------------------------------------------ */

/* Whether each input has as many dimensions as before. */
static bool same_dimensions(const weft_graph_impl *graph, const weft_layout *const layouts[])
{
    bool same = true;
    for (int i = 0; i < graph->num_inputs; i++) {
        same = same && layouts[i]->ndim == graph->input_layouts[i]->ndim;
    }
    return same;
}

/* Histories begin where a size changes. Without memory there is none. */
static void note(weft_graph_impl *graph, const weft_layout *const layouts[], const weft_all_sizes *all)
{
    if (graph->shapes != NULL && !same_dimensions(graph, layouts)) {
        free(graph->shapes);
        graph->shapes = NULL;
        return;
    }
    weft_all_sizes before;
    if (graph->shapes == NULL && same_dimensions(graph, layouts) && weft_graph_collect_sizes(graph, graph->input_layouts, &before)) {
        graph->shapes = calloc(1, sizeof(*graph->shapes));
        if (graph->shapes != NULL) {
            weft_shape_note(graph->shapes, before.count, before.sizes);
        }
        weft_all_sizes_free(&before);
    }
    if (graph->shapes != NULL) {
        weft_shape_note(graph->shapes, all->count, all->sizes);
    }
}

/* Whether all inputs have the layouts of the call before. */
static bool are_as_before(const weft_graph_impl *graph, weft_tensor *const inputs[])
{
    bool same = graph->input_layouts != NULL;
    for (int i = 0; i < graph->num_inputs && same; i++) {
        same = graph->input_layouts[i] == weft_layout_of(inputs[i]);
    }
    return same;
}

static uint64_t hash_of(int count, const weft_layout *const layouts[])
{
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) {
        hash = weft_digest_add(hash, layouts[i]->hash);
    }
    return hash;
}

bool weft_graph_check_shapes_of(weft_graph_impl *graph, weft_tensor *const inputs[])
{
    if (graph->num_inputs <= 0 || (are_as_before(graph, inputs) && graph->requirements_hold)) {
        return true;
    }
    const weft_layout **layouts = malloc((size_t)graph->num_inputs * sizeof(*layouts));
    weft_all_sizes all = { .count = 0 };
    for (int i = 0; i < graph->num_inputs && layouts != NULL; i++) {
        layouts[i] = weft_layout_of(inputs[i]);
    }
    if (layouts == NULL || !weft_graph_collect_sizes(graph, layouts, &all)) {
        free(layouts);
        weft_fail(WEFT_ERR_NOMEM, "weft_graph_call", "no memory for the sizes of %d inputs", graph->num_inputs);
        return false;
    }
    bool right = check_requirements(graph, layouts, &all);
    if (right && graph->running == 0 && graph->input_layouts != NULL && !are_as_before(graph, inputs)) {
        note(graph, layouts, &all);
    }
    weft_all_sizes_free(&all);
    if (right && graph->running == 0) { /* a call within another one of the graph leaves that its sizes */
        free(graph->input_layouts);
        graph->input_layouts = layouts;
        graph->inputs_hash = hash_of(graph->num_inputs, layouts);
        graph->requirements_hold = true;
    } else {
        free(layouts);
    }
    return right;
}

/* ---- printing ---------------------------------------------------------------------------------------------- */

static void print_symbol(const weft_shape_history *shapes, int size, FILE *file)
{
    const weft_size_history *h = &shapes->sizes[size];
    int64_t a, b;
    int x = weft_shape_line(shapes, size, &a, &b);
    fprintf(file, "    s%d in %lld..%lld", weft_shape_symbol(shapes, size), (long long)h->min, (long long)h->max);
    if (x >= 0) {
        fprintf(file, ", == ");
        if (a != 1) {
            fprintf(file, "%lld*", (long long)a);
        }
        fprintf(file, "s%d", weft_shape_symbol(shapes, x));
        if (b != 0) {
            fprintf(file, " %c %lld", b < 0 ? '-' : '+', (long long)(b < 0 ? -b : b));
        }
    }
    if (h->divisor > 1) {
        fprintf(file, ", %% %lld == 0", (long long)h->divisor);
    }
    fprintf(file, h->min > 1 ? ", != 1\n" : "\n"); /* a size of 1 would be broadcast */
}

static void print_input(const weft_graph_impl *graph, int input, int first, FILE *file)
{
    const weft_layout *layout = graph->input_layouts[input];
    fprintf(file, "  inputs[%d] : %s[", input, weft_dtype_name(layout->dtype));
    for (int d = 0; d < layout->ndim; d++) {
        int symbol = weft_shape_symbol(graph->shapes, first + d);
        fprintf(file, symbol >= 0 ? "%ss%lld" : "%s%lld", d > 0 ? ", " : "", symbol >= 0 ? (long long)symbol : (long long)layout->shape[d]);
    }
    fprintf(file, "]\n");
}

void weft_graph_print_shapes(const weft_graph_impl *graph, FILE *file)
{
    const weft_shape_history *shapes = graph->shapes;
    for (int i = 0, first = 0; i < graph->num_inputs && shapes != NULL; i++) {
        print_input(graph, i, first, file);
        first += graph->input_layouts[i]->ndim;
    }
    int printed = 0;
    for (int i = 0; shapes != NULL && i < shapes->num_sizes; i++) {
        if (weft_shape_symbol(shapes, i) == printed) {
            print_symbol(shapes, i, file);
            printed++;
        }
    }
    for (size_t i = 0; i < graph->requirements.count; i++) {
        fprintf(file, "    requires %s%s\n", ((const weft_shape_relation *)graph->requirements.items)[i].text,
                graph->omits_requirements ? " (omitted)" : "");
    }
    for (size_t i = 0; i < graph->tested.count; i++) {
        fprintf(file, "    tested: %s\n", ((char *const *)graph->tested.items)[i]);
    }
}
