/* weft_from_dlpack(): tensors on the memory of managed tensors. */
#include <stdio.h>
#include <stdlib.h>

#include "arrays/arrays.h"
#include "arrays/dlpack.h"
#include "plan/boxes.h"
#include "runtime/cuda.h"
#include "runtime/thread.h"
#include "tensor/state.h"

/* ---- either struct ------------------------------------------------------------------------------------- */

/* The managed tensor of a hosted rank, whichever its struct; self NULL: none is given. */
typedef struct managed_tensor {
    void *self;
    const weft_dl_tensor *tensor;
    void (*give_back)(void *self); /* NULL: it has no deleter */
    uint64_t flags;
    uint32_t major;
} managed_tensor;

static void delete_versioned(void *self)
{
    struct DLManagedTensorVersioned *managed = self;
    managed->deleter(managed);
}

static void delete_unversioned(void *self)
{
    struct DLManagedTensor *managed = self;
    managed->deleter(managed);
}

static managed_tensor find(const weft_managed *all, int local_rank)
{
    managed_tensor found = { .major = WEFT_DL_MAJOR };
    struct DLManagedTensorVersioned *versioned = all->versioned == NULL ? NULL : all->versioned[local_rank];
    struct DLManagedTensor *unversioned = all->unversioned == NULL ? NULL : all->unversioned[local_rank];
    if (versioned != NULL) {
        found.self = versioned;
        found.major = versioned->major;
        found.tensor = &versioned->tensor;
        found.flags = found.major == WEFT_DL_MAJOR ? versioned->flags : 0;
        found.give_back = versioned->deleter == NULL ? NULL : delete_versioned;
    } else if (unversioned != NULL) {
        found.self = unversioned;
        found.tensor = &unversioned->tensor;
        found.give_back = unversioned->deleter == NULL ? NULL : delete_unversioned;
    }
    return found;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

weft_dl_type weft_dl_type_of(weft_dtype dtype)
{
    static const weft_dl_type types[WEFT_DTYPE_COUNT] = {
        [WEFT_F64] = { WEFT_DL_FLOAT, 64 }, [WEFT_F32] = { WEFT_DL_FLOAT, 32 }, [WEFT_BF16] = { WEFT_DL_BFLOAT, 16 },
        [WEFT_F16] = { WEFT_DL_FLOAT, 16 }, [WEFT_I64] = { WEFT_DL_INT, 64 },   [WEFT_I32] = { WEFT_DL_INT, 32 },
        [WEFT_U8] = { WEFT_DL_UINT, 8 },    [WEFT_BOOL] = { WEFT_DL_BOOL, 8 },  [WEFT_C64] = { WEFT_DL_COMPLEX, 64 },
        [WEFT_C128] = { WEFT_DL_COMPLEX, 128 }, [WEFT_I8] = { WEFT_DL_INT, 8 }, [WEFT_I16] = { WEFT_DL_INT, 16 },
        [WEFT_U16] = { WEFT_DL_UINT, 16 }, [WEFT_U32] = { WEFT_DL_UINT, 32 }, [WEFT_U64] = { WEFT_DL_UINT, 64 },
        [WEFT_F8_E4M3] = { WEFT_DL_F8_E4M3, 8 }, [WEFT_F8_E5M2] = { WEFT_DL_F8_E5M2, 8 },
    };
    return types[dtype];
}

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [WEFT_DL_INT] = "integers",         [WEFT_DL_UINT] = "unsigned integers",   [WEFT_DL_FLOAT] = "floating numbers",
        [WEFT_DL_BFLOAT] = "bfloat numbers", [WEFT_DL_COMPLEX] = "complex numbers", [WEFT_DL_BOOL] = "booleans",
        [WEFT_DL_F8_E4M3] = "floating numbers of four bits of exponent", [WEFT_DL_F8_E5M2] = "floating numbers of five bits of exponent",
    };
    return kind < WEFT_ARRAY_SIZE(names) && names[kind] != NULL ? names[kind] : "elements of another kind";
}

static bool check_type(const weft_import *import, int local_rank, const weft_dl_tensor *given)
{
    weft_dl_type expected = weft_dl_type_of(import->dtype);
    if (given->kind == expected.kind && given->bits == expected.bits && given->lanes == 1) {
        return true;
    }
    char lanes[48] = "";
    if (given->lanes != 1) {
        snprintf(lanes, sizeof(lanes), " in vectors of %d lanes", given->lanes);
    }
    weft_fail(WEFT_ERR_DTYPE, import->function, "locals[%d] has %s (%d) of %d bits%s, expected %s", local_rank,
              kind_name(given->kind), given->kind, given->bits, lanes, weft_dtype_name(import->dtype));
    return false;
}

static bool check_memory_kind(const weft_import *import, int local_rank, const weft_dl_tensor *given)
{
    int32_t type = given->device_type;
    if (type == WEFT_DL_CPU || type == WEFT_DL_CUDA_PINNED || type == WEFT_DL_ROCM_PINNED) {
        return true;
    }
    char number[64];
    snprintf(number, sizeof(number), "DLPack's type %d, number %d", type, given->device_id);
    return weft_import_lend(import, local_rank, type == WEFT_DL_CUDA ? weft_cuda_node_of(given->device_id) : -1, number);
}

static bool check_sizes(const weft_import *import, const weft_shard_info *held, int local_rank, const weft_dl_tensor *given)
{
    if (given->ndim != import->ndim) {
        weft_fail(WEFT_ERR_SHAPE, import->function, "locals[%d] has %d dimensions, expected %d", local_rank, given->ndim,
                  import->ndim);
        return false;
    }
    if (given->ndim > 0 && given->shape == NULL) {
        weft_fail(WEFT_ERR_INVALID, import->function, "locals[%d] has no shape: that is NULL", local_rank);
        return false;
    }
    bool same = true, without_elements = false;
    for (int d = 0; d < import->ndim; d++) {
        same &= given->shape[d] == held->box.extent[d];
        without_elements |= given->shape[d] == 0;
    }
    if (held->count == 0 ? !without_elements : !same) {
        char whole[256], own[128], expected[128];
        weft_fail(WEFT_ERR_SHAPE, import->function, "locals[%d] is %s, but of %s rank %d holds %s; weft_shard_balanced() and weft_shard_sizes() cut otherwise, weft_from_boxes() takes anything",
                  local_rank, weft_sizes_text(import->ndim, given->shape, own, sizeof(own)),
                  weft_layout_format(import->layout, whole, sizeof(whole)), held->rank,
                  held->count == 0 ? "nothing" : weft_sizes_text(import->ndim, held->box.extent, expected, sizeof(expected)));
        return false;
    }
    return true;
}

/* Whether memory that is not copied can be used in place. */
static bool check_place(const weft_import *import, int local_rank, const managed_tensor *given, const void *memory)
{
    if ((import->flags & WEFT_COPY) != 0) {
        return true;
    }
    size_t size = weft_dtype_size(import->dtype);
    if ((uintptr_t)memory % size != 0) {
        weft_fail(WEFT_ERR_INVALID, import->function,
                  "locals[%d] begins at %p, expected a multiple of %zu bytes where memory is used in place: WEFT_COPY copies it",
                  local_rank, memory, size);
        return false;
    }
    if ((given->flags & WEFT_DL_READ_ONLY) != 0 && (import->flags & WEFT_CHECK_RANKS) != 0) {
        weft_fail(WEFT_ERR_INVALID, import->function,
                  "locals[%d] is read-only, and WEFT_CHECK_RANKS writes to replicas: WEFT_COPY copies it", local_rank);
        return false;
    }
    return true;
}

/* Truth values in memory that nobody writes to. */
static bool check_truths(const weft_import *import, const weft_shard_info *held, int local_rank, const managed_tensor *given)
{
    const int64_t *strides = import->managed->strides + (ptrdiff_t)local_rank * import->ndim;
    bool is_read_only = (given->flags & WEFT_DL_READ_ONLY) != 0 && (import->flags & WEFT_COPY) == 0;
    if (is_read_only && weft_strides_are_row_major(import->ndim, held->box.extent, strides) &&
        !weft_truths_are_normal(import->dtype, import->managed->locals[local_rank], held->count)) {
        weft_fail(WEFT_ERR_INVALID, import->function,
                  "locals[%d] is read-only, and has truth values other than 0 and 1: WEFT_COPY copies it", local_rank);
        return false;
    }
    return true;
}

static void fill_strides(int ndim, const weft_dl_tensor *given, int64_t strides[])
{
    int64_t row_major = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        strides[d] = given->strides == NULL ? row_major : given->strides[d];
        row_major *= given->shape[d];
    }
}

bool weft_managed_check(const weft_import *import, int local_rank)
{
    const weft_managed *all = import->managed;
    if (all->locals == NULL || all->strides == NULL) {
        weft_fail(WEFT_ERR_NOMEM, import->function, "no memory for %d managed tensors", weft_runtime.local_ranks);
        return false;
    }
    managed_tensor given = find(all, local_rank);
    for (int i = 0; given.self != NULL && i < local_rank; i++) {
        if (find(all, i).self == given.self) {
            weft_fail(WEFT_ERR_INVALID, import->function,
                      "locals[%d] is the managed tensor of locals[%d] too, and its deleter would be called twice", local_rank, i);
            return false;
        }
    }
    const weft_shard_info held = weft_layout_shard(import->layout, weft_runtime.first_rank + local_rank);
    if (given.self == NULL || !held.member) {
        return true;
    }
    if (given.major != WEFT_DL_MAJOR) {
        weft_fail(WEFT_ERR_UNSUPPORTED, import->function, "locals[%d] has version %u of DLPack, expected %d", local_rank,
                  (unsigned)given.major, WEFT_DL_MAJOR);
        return false;
    }
    const weft_dl_tensor *tensor = given.tensor;
    if (!check_memory_kind(import, local_rank, tensor) || !check_type(import, local_rank, tensor) ||
        !check_sizes(import, &held, local_rank, tensor)) {
        return false;
    }
    if (held.count == 0) {
        return true;
    }
    if (tensor->data == NULL) {
        weft_fail(WEFT_ERR_INVALID, import->function, "locals[%d] has no data: that is NULL, but rank %d holds %lld elements",
                  local_rank, held.rank, (long long)held.count);
        return false;
    }
    char *memory = (char *)tensor->data + tensor->byte_offset;
    all->locals[local_rank] = memory;
    fill_strides(import->ndim, tensor, all->strides + (ptrdiff_t)local_rank * import->ndim);
    return check_place(import, local_rank, &given, memory) && check_truths(import, &held, local_rank, &given);
}

bool weft_managed_any_read_only(const weft_import *import)
{
    bool any = false;
    for (int i = 0; i < weft_runtime.local_ranks && import->managed != NULL; i++) {
        any |= (find(import->managed, i).flags & WEFT_DL_READ_ONLY) != 0;
    }
    return any;
}

/* ---- ownership ----------------------------------------------------------------------------------------- */

void weft_managed_take(const weft_import *import, weft_tensor_impl *tensor)
{
    bool copied = (import->flags & WEFT_COPY) != 0;
    for (int i = 0; i < tensor->num_shards; i++) {
        managed_tensor given = find(import->managed, i);
        weft_buffer *buffer = tensor->shards[i].buffer;
        if (given.self != NULL && buffer != NULL && !copied) {
            buffer->give_back = given.give_back;
            buffer->owner = given.self;
            buffer->read_only = (given.flags & WEFT_DL_READ_ONLY) != 0;
        } else if (given.give_back != NULL) {
            weft_thread_call_barred(given.give_back, given.self);
        }
    }
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

static weft_tensor *from_managed(weft_import *import, const weft_mesh *mesh, weft_managed *managed)
{
    if (weft_require_init(import->function) != WEFT_OK) {
        return NULL;
    }
    size_t ranks = (size_t)weft_runtime.local_ranks;
    bool given = managed->versioned != NULL || managed->unversioned != NULL;
    /* Room also for a rank without dimensions, and where there are no ranks. */
    managed->locals = calloc(ranks + 1, sizeof(*managed->locals));
    managed->strides = calloc(ranks * WEFT_MAX_DIMS + 1, sizeof(*managed->strides));
    import->managed = managed;
    import->locals = given ? managed->locals : NULL;
    import->strides = managed->strides;
    weft_tensor *tensor = weft_import_call(import, mesh);
    free(managed->locals);
    free(managed->strides);
    return tensor;
}

weft_tensor *weft_from_dlpack(weft_dtype dtype, int ndim, const int64_t shape[],
                              struct DLManagedTensorVersioned *const locals[], weft_mesh *mesh,
                              const weft_placement *placements, unsigned flags)
{
    return from_managed(&(weft_import){ .function = "weft_from_dlpack",
                                        .dtype = dtype,
                                        .ndim = ndim,
                                        .placements = placements,
                                        .flags = flags,
                                        .shape = shape },
                        mesh, &(weft_managed){ .versioned = locals });
}

weft_tensor *weft_from_dlpack_unversioned(weft_dtype dtype, int ndim, const int64_t shape[],
                                          struct DLManagedTensor *const locals[], weft_mesh *mesh,
                                          const weft_placement *placements, unsigned flags)
{
    return from_managed(&(weft_import){ .function = "weft_from_dlpack_unversioned",
                                        .dtype = dtype,
                                        .ndim = ndim,
                                        .placements = placements,
                                        .flags = flags,
                                        .shape = shape },
                        mesh, &(weft_managed){ .unversioned = locals });
}
