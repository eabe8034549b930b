/* Structures of sparse matrices: handles and calls. */
#include "arrays/sparse.h"

#include <stdlib.h>

#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "tensor/actions.h"

const weft_sparse_impl *weft_check_sparse(const char *function, const weft_sparse *handle)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    const weft_sparse_impl *a = handle == NULL ? NULL : weft_handle_get(&weft_runtime.handles.sparse, handle);
    if (a == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "a is %s",
                  handle == NULL ? "NULL" : "no structure of a sparse matrix: it has been destroyed");
    }
    return a;
}

void weft_sparse_place(const weft_sparse_impl *a, weft_placement cut, weft_placement placements[])
{
    for (int d = 0; d < a->mesh->ndim; d++) {
        placements[d] = d == a->mesh_dim ? cut : weft_replicate();
    }
}

static void drop(weft_tensor_impl *tensor)
{
    if (tensor != NULL) {
        weft_tensor_unreference(tensor);
    }
}

void weft_sparse_free(weft_sparse_impl *a)
{
    if (a == NULL) {
        return;
    }
    drop(a->ends);
    drop(a->numbers);
    weft_index_list_drop(a->ghosts);
    free(a);
}

void weft_sparse_stop(void)
{
    const weft_vec *slots = &weft_runtime.handles.sparse.slots;
    for (size_t i = 0; i < slots->count; i++) {
        weft_sparse_free(((const weft_handle_slot *)slots->items)[i].object);
    }
    weft_handle_remove_all(&weft_runtime.handles.sparse);
}

/* ---- creation ------------------------------------------------------------------------------------------------------ */

/* details->memory: the arguments; receives the handles. */
typedef struct creation {
    weft_coo_arguments given;
    weft_mesh *mesh;
    bool of_coordinates;
    weft_index_list *coordinates;
    weft_sparse *handle;
} creation;

/* Arguments of this process that need no comparison. False with the error kept. */
static bool check_arguments(const creation *c)
{
    const weft_csr_arguments *csr = &c->given.csr;
    const weft_dtype type = csr->index_type;
    if (csr->mesh == NULL) {
        return false;
    }
    if (!c->of_coordinates && type != WEFT_I32 && type != WEFT_I64) {
        weft_fail(WEFT_ERR_DTYPE, csr->function, "index_type is %s, expected WEFT_I32 or WEFT_I64",
                  (int)type >= 0 && (int)type < WEFT_DTYPE_COUNT ? weft_dtype_name(type) : "no type");
        return false;
    }
    const char *missing = c->of_coordinates      ? (c->given.counts == NULL ? "counts" : NULL)
                          : csr->offsets == NULL ? "offsets"
                          : csr->indices == NULL ? "indices"
                                                 : NULL;
    if (missing != NULL) {
        weft_fail(WEFT_ERR_INVALID, csr->function, "%s is NULL", missing);
    }
    return missing == NULL;
}

static weft_status perform_create(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    creation *c = call->details->memory;
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function })) {
        return weft_latest_status();
    }
    c->given.csr.mesh = weft_check_mesh(call->function, c->mesh);
    bool right = (weft_runtime.num_processes == 1 || weft_check_nothing_waits(call->function)) && check_arguments(c);
    weft_scope_begin();
    weft_sparse_impl *a = c->of_coordinates ? weft_sparse_make_of_coordinates(&c->given, right, &c->coordinates)
                                            : weft_sparse_make(&c->given.csr, right);
    weft_scope_end_own();
    c->handle = a == NULL ? NULL : weft_handle_add(&weft_runtime.handles.sparse, WEFT_HANDLE_SPARSE, a);
    if (a != NULL && c->handle == NULL) {
        weft_sparse_free(a);
        weft_index_list_drop(c->coordinates);
        c->coordinates = NULL;
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for the structure of a sparse matrix");
    }
    return a == NULL ? weft_latest_status() : WEFT_OK;
}

static weft_sparse *create(creation *c)
{
    static const weft_operation action = { .name = "sparse_create", .perform = perform_create, .effects = WEFT_LEAVES_VALUES };
    const char *function = c->given.csr.function;
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_deferral_note(function);
    if (weft_runtime.context.deferral != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "called in a captured graph: make the structure before weft_graph_call()");
        return NULL;
    }
    if (weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "a fake world has no ranks that could have entries");
        return NULL;
    }
    weft_act(&(weft_call){ .function = function, .operation = &action, .details = &(weft_call_details){ .memory = c } }, NULL);
    return c->handle;
}

weft_sparse *weft_sparse_create_csr(int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *row_placements,
                                    const weft_placement *column_placements, weft_dtype index_type, const void *const offsets[],
                                    const void *const indices[])
{
    creation c = { .mesh = mesh };
    c.given.csr = (weft_csr_arguments){ "weft_sparse_create_csr", rows, columns, NULL, row_placements, column_placements, index_type,
                                        offsets, indices };
    return create(&c);
}

weft_sparse *weft_sparse_create_coo(int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *row_placements,
                                    const weft_placement *column_placements, const int64_t counts[], const int64_t row_indices[],
                                    const int64_t column_indices[], weft_index_list **coordinates)
{
    creation c = { .mesh = mesh, .of_coordinates = true };
    c.given = (weft_coo_arguments){ .counts = counts, .rows = row_indices, .columns = column_indices, .lists = coordinates != NULL };
    c.given.csr = (weft_csr_arguments){ "weft_sparse_create_coo", rows, columns, NULL, row_placements, column_placements, WEFT_I64,
                                        NULL, NULL };
    create(&c);
    if (coordinates != NULL) {
        *coordinates = c.coordinates;
    }
    return c.handle;
}

weft_status weft_sparse_destroy(weft_sparse *handle)
{
    static const char function[] = "weft_sparse_destroy";
    const weft_sparse_impl *a = weft_check_sparse(function, handle);
    if (a == NULL || !weft_deferral_finish(function)) {
        return weft_latest_status();
    }
    weft_note_change(function, true);
    weft_handle_remove(&weft_runtime.handles.sparse, handle);
    weft_sparse_free((weft_sparse_impl *)a);
    return WEFT_OK;
}

int64_t weft_sparse_nnz(const weft_sparse *handle)
{
    const weft_sparse_impl *a = weft_check_sparse("weft_sparse_nnz", handle);
    return a == NULL ? -1 : a->nnz;
}

weft_status weft_sparse_placements(const weft_sparse *handle, weft_placement placements[])
{
    static const char function[] = "weft_sparse_placements";
    const weft_sparse_impl *a = weft_check_sparse(function, handle);
    if (a == NULL || placements == NULL) {
        return a == NULL ? weft_latest_status() : weft_fail(WEFT_ERR_INVALID, function, "placements is NULL");
    }
    weft_sparse_place(a, a->value_cut, placements);
    return WEFT_OK;
}
