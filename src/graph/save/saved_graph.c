/* Saved graphs on meshes of this world. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "dispatch/dispatch.h"
#include "graph/save/saved.h"
#include "tensor/actions.h"

static const char made_by[] = "weft_saved_graph";

/* ---- meshes ---------------------------------------------------------------------------------------------- */

static weft_saved_mesh *mesh_at(const weft_saved_graph *saved, size_t number)
{
    return (weft_saved_mesh *)saved->meshes.items + number;
}

/* The position of a mesh dimension in the sizes; -1: it has none. */
static int find_size(const weft_mesh_sizes *sizes, const weft_saved_mesh *mesh, int dim)
{
    bool named = sizes->count > 0 && sizes->names[0] != NULL;
    if (!named) {
        return sizes->count == mesh->ndim ? dim : -1;
    }
    for (int i = 0; i < sizes->count && mesh->names[dim] != NULL; i++) {
        if (strcmp(sizes->names[i], mesh->names[dim]) == 0) {
            return i;
        }
    }
    return -1;
}

/* Its sizes in this world. The dimension without one; -1: all have. */
static int find_shape(const weft_mesh_sizes *sizes, const weft_saved_mesh *mesh, int64_t shape[])
{
    int missing = -1;
    for (int d = mesh->ndim - 1; d >= 0; d--) {
        int at = find_size(sizes, mesh, d);
        shape[d] = sizes->count == 0 || at < 0 ? mesh->shape[d] : sizes->sizes[at];
        missing = sizes->count > 0 && at < 0 ? d : missing;
    }
    return missing;
}

int64_t weft_saved_graph_ranks(const weft_saved_graph *saved, const weft_mesh_sizes *sizes)
{
    int64_t most = 1, shape[WEFT_MAX_DIMS];
    for (size_t i = 0; i < saved->meshes.count; i++) {
        const weft_saved_mesh *mesh = mesh_at(saved, i);
        int64_t ranks = 1;
        find_shape(sizes, mesh, shape);
        for (int d = 0; d < mesh->ndim; d++) {
            ranks = weft_min_i64(ranks * shape[d], INT32_MAX);
        }
        for (int64_t k = 0; mesh->ranks != NULL && k < mesh->num_ranks; k++) {
            ranks = weft_max_i64(ranks, (int64_t)mesh->ranks[k] + 1);
        }
        most = weft_max_i64(most, ranks);
    }
    return most;
}

/* A mesh of chosen ranks stays as it is. False with the error kept. */
static bool make_mesh(const char *function, const weft_saved_graph *saved, const weft_mesh_sizes *sizes, weft_saved_mesh *mesh)
{
    int64_t shape[WEFT_MAX_DIMS];
    int missing = find_shape(sizes, mesh, shape);
    if (missing >= 0) {
        const char *name = mesh->names[missing];
        weft_fail(WEFT_ERR_INVALID, function, "%s, line %d: no size is given for dimension %d%s%s of the mesh", saved->path, mesh->line,
                  missing, name == NULL ? "" : ", ", name == NULL ? "" : name);
        return false;
    }
    if (mesh->ranks != NULL && memcmp(shape, mesh->shape, (size_t)mesh->ndim * sizeof(shape[0])) != 0) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "%s, line %d: a mesh of chosen ranks has another size", saved->path, mesh->line);
        return false;
    }
    const char *const *names = (const char *const *)mesh->names;
    weft_mesh *made = mesh->ranks == NULL ? weft_mesh_create(mesh->ndim, shape, names)
                                          : weft_mesh_of_ranks(mesh->ndim, shape, mesh->ranks, names);
    mesh->made = made == NULL ? NULL : weft_check_mesh(function, made);
    return mesh->made != NULL;
}

/* Each name of the sizes is that of a mesh dimension. False with the error kept. */
static bool check_sizes(const char *function, const weft_saved_graph *saved, const weft_mesh_sizes *sizes)
{
    for (int i = 0; i < sizes->count && sizes->names[i] != NULL; i++) {
        bool found = false;
        for (size_t k = 0; k < saved->meshes.count; k++) {
            for (int d = 0; d < mesh_at(saved, k)->ndim; d++) {
                found |= find_size(sizes, mesh_at(saved, k), d) == i;
            }
        }
        if (!found) {
            weft_fail(WEFT_ERR_INVALID, function, "%s: no mesh has a dimension %s", saved->path, sizes->names[i]);
            return false;
        }
    }
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------------------- */

static const weft_layout *find_layout(const char *function, const weft_saved_graph *saved, const weft_saved_layout *layout)
{
    return weft_check_layout(function, mesh_at(saved, (size_t)layout->mesh)->made, layout->placements, layout->ndim, layout->shape,
                             layout->dtype);
}

static bool make_inputs(const char *function, const weft_saved_graph *saved, const weft_saved_segment *segment)
{
    bool done = true;
    for (size_t i = 0; i < segment->inputs.count && done; i++) {
        weft_saved_input *input = (weft_saved_input *)segment->inputs.items + i;
        const weft_layout *layout = find_layout(function, saved, &input->layout);
        weft_tensor_impl *tensor = layout == NULL   ? NULL
                                   : input->is_fake ? weft_tensor_fake(function, layout)
                                                    : weft_tensor_new(function, layout);
        input->made = tensor == NULL ? NULL : weft_tensor_handle(tensor);
        done = tensor != NULL;
    }
    return done;
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

typedef struct remaking {
    weft_saved_graph *saved;
    const weft_saved_segment *segment;
    weft_tensor **values; /* by number */
    int *last_uses;       /* by number: the last call that reads it */
} remaking;

static weft_status fail_line(const remaking *m, weft_status status, int line)
{
    char message[400];
    snprintf(message, sizeof(message), "%s", weft_last_error());
    return weft_fail(status, made_by, "%s, line %d: %s", m->saved->path, line, message);
}

static void find_last_uses(const remaking *m)
{
    const weft_saved_call *calls = m->segment->calls.items;
    for (int i = 0; i < (int)m->segment->calls.count; i++) {
        for (int k = 0; k < calls[i].num_tensors; k++) {
            m->last_uses[calls[i].numbers[k]] = i;
        }
    }
    for (size_t i = 0; i < m->segment->wanted.count; i++) {
        m->last_uses[((const int *)m->segment->wanted.items)[i]] = (int)m->segment->calls.count;
    }
}

/* A value that is read after its tensor has been changed lives on in a copy, as it did for the program. */
static weft_status copy_changed(const remaking *m, const weft_saved_call *c, int number)
{
    weft_call call = c->call;
    call.details = c->has_details ? &c->details : NULL;
    for (int i = 0; i < c->num_outputs && i < c->num_tensors; i++) {
        int from = c->numbers[i], to = c->numbers[c->num_tensors + i];
        if (to >= 0 && to != from && weft_call_changes(&call, i) && m->last_uses[from] > number) {
            weft_tensor *changed = m->values[from], *copy = weft_detach(changed);
            if (copy == NULL) {
                return weft_latest_status();
            }
            m->values[from] = copy;
            m->values[to] = changed;
        }
    }
    return WEFT_OK;
}

/* The tensors of a call, its inputs being as before it. */
static void set_tensors(const remaking *m, const weft_saved_call *c, weft_call *call, weft_call_details *details,
                        weft_tensor *tensors[])
{
    for (int i = 0; i < c->num_tensors; i++) {
        int from = c->numbers[i], to = i < c->num_outputs ? c->numbers[c->num_tensors + i] : -1;
        bool copied = to >= 0 && to != from && m->values[to] != NULL;
        tensors[i] = m->values[copied ? to : from];
    }
    *call = c->call;
    *details = c->details;
    memcpy(call->inputs, tensors, (size_t)call->num_inputs * sizeof(tensors[0]));
    details->tensors = tensors + call->num_inputs;
    call->details = c->has_details ? details : NULL;
}

/* What the file says of an output, whatever the mesh. */
static weft_status check_output(const remaking *m, const weft_saved_call *c, int output, const weft_tensor *tensor)
{
    const weft_saved_layout *expected = &c->layouts[output];
    const weft_layout *found = tensor == NULL ? NULL : weft_layout_of(tensor);
    bool same = found != NULL && found->dtype == expected->dtype && found->ndim == expected->ndim &&
                memcmp(found->shape, expected->shape, (size_t)found->ndim * sizeof(found->shape[0])) == 0;
    return same ? WEFT_OK
                : weft_fail(WEFT_ERR_IO, made_by, "%s, line %d: output %d of %s is not what the file says", m->saved->path, c->line,
                            output, c->call.function);
}

static weft_status take_outputs(const remaking *m, const weft_saved_call *c, weft_tensor *const outputs[])
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < c->num_outputs && status == WEFT_OK; i++) {
        int number = c->numbers[c->num_tensors + i];
        if (number >= 0) {
            status = check_output(m, c, i, outputs[i]);
            m->values[number] = outputs[i];
        }
    }
    return status;
}

static weft_status make_call(const remaking *m, int number)
{
    const weft_saved_call *c = (const weft_saved_call *)m->segment->calls.items + number;
    size_t count = (size_t)(c->num_tensors + c->num_outputs);
    weft_tensor **tensors = calloc(count + WEFT_MAX_OUTPUTS, sizeof(*tensors)),
                **outputs = tensors == NULL ? NULL : tensors + c->num_tensors;
    weft_call call;
    weft_call_details details;
    if (tensors == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, made_by, "no memory for %zu tensors", count);
    }
    weft_status status = copy_changed(m, c, number);
    if (status == WEFT_OK) {
        set_tensors(m, c, &call, &details, tensors);
        details.layout = c->has_layout ? find_layout(made_by, m->saved, &c->layout) : NULL;
        status = c->has_layout && details.layout == NULL ? weft_latest_status() : WEFT_OK;
    }
    int implicit = weft_runtime.implicit_replications;
    weft_runtime.implicit_replications = implicit + c->implicit;
    status = status == WEFT_OK ? weft_invoke(&call, outputs) : status;
    weft_runtime.implicit_replications = implicit;
    status = status == WEFT_OK ? take_outputs(m, c, outputs) : fail_line(m, status, c->line);
    free(tensors);
    return status;
}

/* The values that the program kept are referred to until the run ends. */
static weft_status keep_wanted(const remaking *m)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < m->segment->wanted.count && status == WEFT_OK; i++) {
        weft_tensor *tensor = m->values[((const int *)m->segment->wanted.items)[i]];
        weft_tensor **place = weft_vec_push(&m->saved->kept, sizeof(*place));
        if (place == NULL) {
            return weft_fail(WEFT_ERR_NOMEM, made_by, "no memory for a tensor");
        }
        *place = tensor;
        status = weft_tensor_retain(tensor);
        m->saved->kept.count -= status != WEFT_OK;
    }
    return status;
}

static weft_status make_calls(const remaking *m)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < m->segment->inputs.count; i++) {
        const weft_saved_input *input = (const weft_saved_input *)m->segment->inputs.items + i;
        m->values[input->number] = input->made;
    }
    find_last_uses(m);
    for (int i = 0; i < (int)m->segment->calls.count && status == WEFT_OK; i++) {
        status = make_call(m, i);
    }
    return status == WEFT_OK ? keep_wanted(m) : status;
}

static weft_status make_segment(weft_saved_graph *saved, const weft_saved_segment *segment)
{
    size_t count = (size_t)segment->num_values + 1;
    remaking m = { .saved = saved, .segment = segment, .values = calloc(count, sizeof(weft_tensor *)),
                   .last_uses = calloc(count, sizeof(int)) };
    weft_status status = m.values == NULL || m.last_uses == NULL ? weft_fail(WEFT_ERR_NOMEM, made_by, "no memory for a segment")
                                                                 : weft_scope_begin();
    if (status == WEFT_OK) {
        status = make_calls(&m);
        weft_status closed = weft_scope_end_own();
        status = status == WEFT_OK ? closed : status;
    }
    free(m.values);
    free(m.last_uses);
    return status;
}

static void release_kept(weft_saved_graph *saved)
{
    while (saved->kept.count > 0) {
        weft_tensor_release_own(((weft_tensor **)saved->kept.items)[--saved->kept.count]);
    }
}

/* weft_graph_function. */
static weft_status run(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_saved_graph *saved = context;
    weft_status status = WEFT_OK;
    (void)inputs;
    (void)scalars;
    (void)outputs;
    release_kept(saved);
    for (size_t i = 0; i < saved->segments.count && status == WEFT_OK; i++) {
        if (i > 0 && !weft_deferral_finish("weft_graph_call")) {
            return weft_latest_status();
        }
        status = make_segment(saved, (const weft_saved_segment *)saved->segments.items + i);
    }
    return status;
}

weft_graph *weft_saved_graph_make(const char *function, weft_saved_graph *saved, const weft_mesh_sizes *sizes)
{
    bool done = check_sizes(function, saved, sizes);
    for (size_t i = 0; i < saved->meshes.count && done; i++) {
        done = make_mesh(function, saved, sizes, mesh_at(saved, i));
    }
    for (size_t i = 0; i < saved->segments.count && done; i++) {
        done = make_inputs(function, saved, (const weft_saved_segment *)saved->segments.items + i);
    }
    return done ? weft_graph_create(saved->name, run, saved, 0, 0, 0) : NULL;
}
