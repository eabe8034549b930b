/* weft_from_local() and relatives: tensors of the program's own shards. */
#include "arrays/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "call/deferral.h"
#include "codelets/cuda/kernels.h"
#include "comm/check_spmd.h"
#include "plan/boxes.h"
#include "runtime/cuda.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Copies a non-empty box of elements at `strides` to `packed`, row-major. */
static void pack(int ndim, const int64_t extent[], const int64_t strides[], size_t element_size, const char *memory,
                 char *packed)
{
    if (ndim == 0) {
        memcpy(packed, memory, element_size);
        return;
    }
    size_t inner = element_size;
    for (int d = 1; d < ndim; d++) {
        inner *= (size_t)extent[d];
    }
    bool run = strides[0] == 1 && ndim == 1;
    if (run) {
        memcpy(packed, memory, (size_t)extent[0] * element_size);
    }
    for (int64_t i = 0; i < extent[0] && !run; i++) {
        pack(ndim - 1, extent + 1, strides + 1, element_size, memory + i * strides[0] * (int64_t)element_size,
             packed + (size_t)i * inner);
    }
}

bool weft_is_aligned(size_t element_size, const void *memory)
{
    return (uintptr_t)memory % (element_size < sizeof(double) ? element_size : sizeof(double)) == 0;
}

bool weft_truths_are_normal(weft_dtype dtype, const void *memory, int64_t count)
{
    const unsigned char *truths = memory;
    unsigned char all = 0;
    for (int64_t i = 0; i < count && dtype == WEFT_BOOL; i++) {
        all |= truths[i];
    }
    return all <= 1;
}

void weft_truths_normalize(weft_dtype dtype, void *memory, int64_t count)
{
    unsigned char *truths = memory;
    if (!weft_truths_are_normal(dtype, memory, count)) {
        for (int64_t i = 0; i < count; i++) {
            truths[i] = truths[i] != 0;
        }
    }
}

/* The memory of one non-empty shard; NULL: no memory. `strides` NULL: row-major. */
static weft_buffer *buffer_of(const weft_layout *layout, const weft_local_shard *shard, void *memory, int node, bool copy,
                              const int64_t strides[])
{
    weft_cut cut = weft_shard_cut(layout, shard);
    if (!copy) {
        if (node == STARPU_MAIN_RAM) {
            weft_truths_normalize(layout->dtype, memory, shard->count);
        }
        return weft_buffer_borrow(weft_runtime.pool, cut, memory, node);
    }
    weft_buffer *buffer = weft_buffer_copy(weft_runtime.pool, cut, strides == NULL ? memory : NULL);
    if (buffer != NULL && strides != NULL) {
        pack(layout->ndim, shard->box.extent, strides, weft_dtype_size(layout->dtype), memory, buffer->memory);
    }
    if (buffer != NULL) {
        weft_truths_normalize(layout->dtype, buffer->memory, shard->count);
    }
    return buffer;
}

/* `nodes`: of each shard's memory, NULL: all is main memory. `strides`: of each hosted shard in turn, NULL: row-major; other strides
 * need a copy. NULL with the error kept. */
static weft_tensor_impl *import_shards(const char *function, const weft_layout *layout, void *const locals[], const int nodes[],
                                       bool copy, const int64_t strides[])
{
    weft_tensor_impl *tensor = weft_tensor_allocate(function, layout);
    for (int i = 0; tensor != NULL && i < tensor->num_shards; i++) {
        weft_local_shard *shard = &tensor->shards[i];
        const int64_t *own_strides = strides == NULL ? NULL : strides + (ptrdiff_t)i * layout->ndim;
        if (shard->count > 0 &&
            !weft_shard_attach(shard, buffer_of(layout, shard, locals[i], nodes == NULL ? STARPU_MAIN_RAM : nodes[i], copy, own_strides))) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a shard of %lld elements",
                      (long long)shard->count);
            weft_tensor_delete(tensor);
            return NULL;
        }
    }
    if (tensor != NULL && !weft_tensor_register(function, tensor)) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    if (tensor != NULL) {
        tensor->borrowed = !copy;
        tensor->imported_in = weft_deferral_number();
    }
    return tensor;
}

weft_tensor_impl *weft_tensor_import(const char *function, const weft_layout *layout, void *const locals[],
                                     bool copy)
{
    return import_shards(function, layout, locals, NULL, copy, NULL);
}

/* ---- checks of this process's arguments ---------------------------------------------------------------- */

static bool check_flags(const char *function, unsigned flags)
{
    if ((flags & ~(unsigned)(WEFT_COPY | WEFT_CHECK_RANKS | WEFT_STRIDES)) != 0) {
        weft_fail(WEFT_ERR_INVALID, function, "flags is 0x%x, expected WEFT_COPY, WEFT_CHECK_RANKS and WEFT_STRIDES only",
                  flags);
        return false;
    }
    if ((flags & WEFT_STRIDES) != 0 && flags != WEFT_STRIDES) {
        weft_fail(WEFT_ERR_INVALID, function, "flags is 0x%x, and WEFT_STRIDES goes with no other flag", flags);
        return false;
    }
    return true;
}

/* Shard sizes of hosted ranks, by the layout or by the program. `sizes`: room for them. */
static int64_t shard_sizes(const weft_import *import, int local_rank, int64_t sizes[WEFT_MAX_DIMS])
{
    int rank = weft_runtime.first_rank + local_rank;
    int64_t count = weft_mesh_index_of(import->mesh, rank) >= 0;
    if (import->layout != NULL) {
        weft_shard_info held = weft_layout_shard(import->layout, rank);
        memcpy(sizes, held.box.extent, sizeof(held.box.extent));
        return held.count;
    }
    for (int d = 0; d < import->ndim; d++) {
        sizes[d] = import->local_shapes[local_rank * import->ndim + d];
        count = weft_mul_saturated(count, sizes[d]);
    }
    return count;
}

static bool check_local_shapes(const weft_import *import)
{
    for (int i = 0; i < weft_runtime.local_ranks && import->local_shapes != NULL; i++) {
        bool outside = weft_mesh_index_of(import->mesh, weft_runtime.first_rank + i) < 0;
        for (int d = 0; d < import->ndim && !outside; d++) {
            int64_t size = import->local_shapes[i * import->ndim + d];
            if (size < 0) {
                weft_fail(WEFT_ERR_SHAPE, import->function, "local_shapes[%d] is %lld, expected at least 0",
                          i * import->ndim + d, (long long)size);
                return false;
            }
        }
    }
    return true;
}

/* Compares both if the program gives both. */
static bool check_both_shapes(const weft_import *import)
{
    for (int i = 0; i < weft_runtime.local_ranks && import->local_shapes != NULL && import->layout != NULL; i++) {
        weft_shard_info held = weft_layout_shard(import->layout, weft_runtime.first_rank + i);
        for (int d = 0; d < import->ndim && held.count > 0; d++) {
            int64_t given = import->local_shapes[i * import->ndim + d];
            if (given != held.box.extent[d]) {
                weft_fail(WEFT_ERR_SHAPE, import->function,
                          "local_shapes[%d] is %lld, but with this shape and placements rank %d holds %lld; "
                          "weft_shard_balanced() and weft_shard_sizes() cut otherwise, weft_from_boxes() takes anything",
                          i * import->ndim + d, (long long)given, held.rank, (long long)held.box.extent[d]);
                return false;
            }
        }
    }
    return true;
}

bool weft_import_lend(const weft_import *import, int local_rank, int node, const char *number)
{
    const char *wrong = node < 0 || import->nodes == NULL    ? "on which this process does not compute (WEFT_DEVICES)"
                        : (import->flags & WEFT_COPY) != 0 ? "which WEFT_COPY does not read"
                        : import->dtype == WEFT_BOOL       ? "where truth values are not checked"
                                                           : NULL;
    if (wrong != NULL) {
        weft_fail(WEFT_ERR_UNSUPPORTED, import->function,
                  "locals[%d] is memory of a device (%s) %s, expected memory of the CPU: copy it there first", local_rank, number, wrong);
        return false;
    }
    int failed = weft_cuda_wait(node);
    if (failed != 0) {
        weft_fail(WEFT_ERR_COMM, import->function, "locals[%d] is memory of a device whose work fails: %s", local_rank,
                  weft_cuda_error_name(failed));
        return false;
    }
    import->nodes[local_rank] = node;
    return true;
}

/* Memory of a device is used where it is. */
static bool check_memory_kind(const weft_import *import, int local_rank)
{
    int device = import->nodes == NULL || import->managed != NULL ? -1 : weft_cuda_device_of(import->locals[local_rank]);
    char number[48];
    snprintf(number, sizeof(number), "CUDA's number %d", device);
    return device < 0 || weft_import_lend(import, local_rank, weft_cuda_node_of(device), number);
}

static bool check_local(const weft_import *import, int local_rank)
{
    int64_t sizes[WEFT_MAX_DIMS], count = shard_sizes(import, local_rank, sizes);
    int rank = weft_runtime.first_rank + local_rank;
    if (count > 0 && (import->locals == NULL || import->locals[local_rank] == NULL)) {
        char name[32] = "locals";
        if (import->locals != NULL) {
            snprintf(name, sizeof(name), "locals[%d]", local_rank);
        }
        weft_fail(WEFT_ERR_INVALID, import->function, "%s is NULL, but rank %d holds %lld elements", name, rank,
                  (long long)count);
        return false;
    }
    if (count > 0 && import->strides != NULL && (import->flags & (WEFT_COPY | WEFT_STRIDES)) == 0 &&
        !weft_strides_are_row_major(import->ndim, sizes, import->strides + (ptrdiff_t)local_rank * import->ndim)) {
        weft_fail(WEFT_ERR_INVALID, import->function,
                  "strides of rank %d are not row-major, and memory that is used in place must be: WEFT_COPY copies it",
                  rank);
        return false;
    }
    return count == 0 || check_memory_kind(import, local_rank);
}

/* The given sizes, of either kind. */
static bool check_given_shape(const weft_import *import)
{
    if (!import->asks) {
        const int64_t *given = import->even_shape == NULL ? import->shape : import->even_shape;
        return weft_check_shape(import->function, import->ndim, given);
    }
    if (import->ndim > 0 && import->local_shapes == NULL) {
        weft_fail(WEFT_ERR_INVALID, import->function, "shape is NULL, and so is local_shapes");
        return false;
    }
    static const int64_t ones[WEFT_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    return weft_check_shape(import->function, import->ndim, ones); /* the sizes: check_local_shapes() */
}

/* The whole tensor's shape, if local arguments determine it. */
static bool find_whole(weft_import *import)
{
    for (int d = 0; d < import->ndim; d++) {
        import->whole[d] = import->even_shape == NULL ? import->shape[d] : import->even_shape[d];
    }
    for (int m = 0; m < import->mesh->ndim && import->even_shape != NULL; m++) {
        int d = import->canonical[m].dim;
        if (import->canonical[m].kind == WEFT_SHARD &&
            !weft_mul_checked(import->whole[d], import->mesh->shape[m], &import->whole[d])) {
            weft_fail(WEFT_ERR_SHAPE, import->function, "local_shape[%d] times the mesh is too large", d);
            return false;
        }
    }
    return weft_check_shape(import->function, import->ndim, import->whole);
}

bool weft_import_check(weft_import *import)
{
    const char *function = import->function;
    if (import->refused || !weft_check_given_type(function, import->given) || !check_given_shape(import) || !check_local_shapes(import)) {
        return false;
    }
    char why[200];
    weft_status status = weft_placements_normalize(import->placements, import->mesh->ndim, import->ndim,
                                                   import->canonical, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, function, "placements: %s", why);
        return false;
    }
    if (!import->asks) {
        import->layout = find_whole(import) ? weft_check_layout(function, import->mesh, import->canonical,
                                                                import->ndim, import->whole, import->dtype)
                                            : NULL;
    }
    bool right = (import->asks || import->layout != NULL) && check_both_shapes(import);
    for (int i = 0; i < weft_runtime.local_ranks && right; i++) {
        right = (import->managed == NULL || weft_managed_check(import, i)) && check_local(import, i);
    }
    return right;
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

/* All replicas get the values of the first. False with the error kept, and the tensor's end: the program's memory is its own
 * again once the tasks that may write to it have ended. */
static bool replicate_or_end(const char *function, weft_tensor_impl *tensor)
{
    if (weft_deferral_finish(function) && weft_tensor_replicate_first(function, tensor)) {
        return true;
    }
    tensor->references++;
    weft_tensor_give_up(tensor);
    weft_tensor_unreference(tensor);
    weft_pool_wait_for_borrowed(weft_runtime.pool);
    return false;
}

static weft_tensor *from_local(weft_import *import)
{
    const char *function = import->function;
    if (!check_flags(function, import->flags)) {
        return NULL;
    }
    if (import->asks && weft_runtime.world == WEFT_WORLD_FAKE) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "shape is NULL, and a fake world has no ranks to ask for it");
        return NULL;
    }
    if ((import->flags & WEFT_STRIDES) != 0 && weft_runtime.world != WEFT_WORLD_FAKE) {
        return weft_import_strided(import);
    }
    bool believed = import->local_shapes != NULL && weft_runtime.world != WEFT_WORLD_FAKE;
    bool check = (import->flags & WEFT_CHECK_RANKS) != 0, compares = check || import->asks || believed;
    if (compares && !weft_check_nothing_waits(function)) {
        return NULL;
    }
    bool right = weft_import_check(import);
    if (!compares && !right) {
        return NULL;
    }
    double number = import->flags;
    weft_call_signature call = { .function = function, .num_numbers = 1, .numbers = &number };
    call.num_layouts = compares ? 0 : 1; /* else compared below, where a difference breaks nothing */
    call.layouts = &import->layout;
    if (!weft_check_spmd(&call) || (compares && !weft_import_compare(import, right))) {
        return NULL;
    }
    bool copy = (import->flags & WEFT_COPY) != 0;
    weft_tensor_impl *tensor =
        import_shards(function, import->layout, import->locals, import->nodes, copy, copy ? import->strides : NULL);
    if (tensor != NULL && check && !replicate_or_end(function, tensor)) {
        return NULL;
    }
    if (tensor != NULL && import->managed != NULL) {
        weft_managed_take(import, tensor);
    }
    return weft_tensor_handle(tensor);
}

/* details->memory: a weft_import, whose arrays are the program's. */
static weft_status perform_from_local(const weft_call *call, weft_tensor *outputs[])
{
    weft_import import = *(const weft_import *)call->details->memory;
    if (weft_runtime.device_bytes > 0) {
        import.nodes = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*import.nodes));
        if (import.nodes == NULL) {
            return weft_fail(WEFT_ERR_NOMEM, import.function, "no memory for %d numbers", weft_runtime.local_ranks);
        }
    }
    outputs[0] = from_local(&import);
    free(import.nodes);
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

weft_tensor *weft_import_call(weft_import *import, const weft_mesh *mesh)
{
    static const weft_operation action = { .name = "from_local", .perform = perform_from_local, .effects = WEFT_LEAVES_VALUES, .num_outputs = 1 };
    import->given = import->dtype;
    import->dtype = weft_plain_type(import->given);
    import->mesh = weft_check_mesh(import->function, mesh);
    return import->mesh == NULL
               ? NULL
               : weft_made(import->given, weft_act_for_tensor(&(weft_call){ .function = import->function,
                                                                    .operation = &action,
                                                                    .details = &(weft_call_details){ .memory = import } }));
}

weft_tensor *weft_from_local(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                             weft_mesh *mesh, const weft_placement *placements, unsigned flags)
{
    weft_import import = { .function = "weft_from_local",
                           .dtype = dtype,
                           .ndim = ndim,
                           .placements = placements,
                           .locals = locals,
                           .flags = flags,
                           .shape = shape };
    return weft_import_call(&import, mesh);
}

weft_tensor *weft_from_local_even(weft_dtype dtype, int ndim, const int64_t local_shape[],
                                  void *const locals[], weft_mesh *mesh, const weft_placement *placements,
                                  unsigned flags)
{
    static const int64_t scalar[] = { 0 };
    weft_import import = { .function = "weft_from_local_even",
                           .dtype = dtype,
                           .ndim = ndim,
                           .placements = placements,
                           .locals = locals,
                           .flags = flags,
                           .even_shape = ndim == 0 ? scalar : local_shape };
    return weft_import_call(&import, mesh);
}

weft_tensor *weft_from_local_ex(weft_dtype dtype, int ndim, void *const locals[], weft_mesh *mesh,
                                const weft_placement *placements, const weft_from_local_options *options)
{
    static const char function[] = "weft_from_local_ex";
    weft_from_local_options o = { .size = 0 };
    if (weft_require_init(function) != WEFT_OK ||
        (options != NULL && !WEFT_TAKE_OPTIONS(function, &o, options))) {
        return NULL;
    }
    weft_import import = { .function = function,
                           .dtype = dtype,
                           .ndim = ndim,
                           .placements = placements,
                           .locals = locals,
                           .flags = o.flags,
                           .shape = o.shape,
                           .asks = o.shape == NULL && ndim != 0,
                           .local_shapes = o.local_shapes,
                           .strides = o.strides };
    return weft_import_call(&import, mesh);
}
