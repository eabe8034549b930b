/* weft_from_local() and relatives with WEFT_STRIDES: memory whose rows have gaps is used in place, as that of ghosted arrays whose
 * margins nobody reads and weft never fills. */
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "arrays/import.h"
#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "tensor/ghosts.h"

enum { ANY = -1 }; /* the memory would fit a gap of any width */

/* The elements between the rows of each dimension of memory at these strides. False: they are not row-major with gaps. */
static bool find_gaps(int ndim, const int64_t extent[], const int64_t strides[], int64_t gaps[])
{
    int64_t unit = 1;
    bool found = ndim == 0 || extent[ndim - 1] == 1 || strides[ndim - 1] == 1;
    for (int d = ndim - 1; d > 0 && found; d--) {
        const int64_t dense = unit * extent[d];
        gaps[d] = d == 1 && extent[0] == 1 ? ANY : 0;
        if (extent[d - 1] == 1) {
            unit = dense;
            continue;
        }
        found = strides[d - 1] >= dense && strides[d - 1] % unit == 0;
        gaps[d] = found ? strides[d - 1] / unit - extent[d] : 0;
        unit = strides[d - 1];
    }
    return found;
}

/* Takes over the widths of another rank. False: there are others already. */
static bool agree(int ndim, int64_t gaps[], const int64_t others[])
{
    bool same = true;
    for (int d = 1; d < ndim; d++) {
        same = same && (gaps[d] == ANY || others[d] == ANY || gaps[d] == others[d]);
        gaps[d] = gaps[d] == ANY ? others[d] : gaps[d];
    }
    return same;
}

static bool has_gaps(int ndim, const int64_t gaps[])
{
    bool has = false;
    for (int d = 1; d < ndim; d++) {
        has |= gaps[d] > 0;
    }
    return has;
}

/* Finds the gaps of the hosted ranks. False with the error kept. */
static bool find_own(const weft_import *import, int64_t gaps[])
{
    for (int i = 0; i < weft_runtime.local_ranks && import->strides != NULL; i++) {
        const weft_shard_info held = weft_layout_shard(import->layout, weft_runtime.first_rank + i);
        int64_t own[WEFT_MAX_DIMS];
        if (held.count == 0) {
            continue;
        }
        if (!find_gaps(import->ndim, held.box.extent, import->strides + (ptrdiff_t)i * import->ndim, own)) {
            weft_fail(WEFT_ERR_INVALID, import->function, "strides of rank %d are not row-major with gaps: WEFT_COPY copies the memory",
                      held.rank);
            return false;
        }
        if (!agree(import->ndim, gaps, own)) {
            weft_fail(WEFT_ERR_MISMATCH, import->function, "the rows of rank %d have other gaps than those of another rank", held.rank);
            return false;
        }
    }
    const char *why = !has_gaps(import->ndim, gaps)        ? NULL
                      : import->dtype == WEFT_BOOL         ? "truth values are normalized whole"
                      : weft_runtime.devices.bytes > 0     ? "devices move whole rows"
                      : weft_managed_any_read_only(import) ? "it is read-only"
                                                           : NULL;
    if (why != NULL) {
        weft_fail(WEFT_ERR_INVALID, import->function, "memory with gaps can only be copied here, because %s: WEFT_COPY", why);
    }
    return why == NULL;
}

/* BLOCKS: those of all ranks; a width that every memory fits is 0. False with the error kept, on all processes. */
static bool find_all(const weft_import *import, int64_t gaps[])
{
    enum { GAPS = WEFT_NUMBERS_OWN, NUMBERS = GAPS + WEFT_MAX_DIMS };
    int64_t mine[NUMBERS] = { 0 };
    int64_t *all = calloc((size_t)weft_runtime.num_processes * NUMBERS, sizeof(*all));
    if (all == NULL) {
        weft_fail_alone(WEFT_ERR_NOMEM, import->function, "no memory to compare the arguments of all processes");
        return false;
    }
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        gaps[d] = import->strides == NULL ? 0 : ANY;
    }
    bool right = find_own(import, gaps);
    mine[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    memcpy(&mine[GAPS], gaps, WEFT_MAX_DIMS * sizeof(*gaps));
    bool same = weft_numbers_gather(import->function, NUMBERS, mine, all) && weft_numbers_agree(import->function, NUMBERS, all, right);
    for (int p = 0; p < weft_runtime.num_processes && same; p++) {
        same = agree(import->ndim, gaps, &all[(ptrdiff_t)p * NUMBERS + GAPS]);
        if (!same) {
            weft_fail(WEFT_ERR_MISMATCH, import->function, "the rows of process %d have other gaps than those of another one", p);
        }
    }
    for (int d = 0; d < WEFT_MAX_DIMS && same; d++) {
        gaps[d] = d == 0 || d >= import->ndim || gaps[d] == ANY ? 0 : gaps[d];
    }
    free(all);
    return same;
}

/* NULL with the error kept. */
static weft_tensor_impl *new_in_gaps(const weft_import *import, const int64_t gaps[])
{
    weft_ghosts ghosts = { .star = true };
    memcpy(ghosts.after, gaps, sizeof(ghosts.after));
    char why[200];
    const weft_status status = weft_ghosts_check(import->layout, &ghosts, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, import->function, "%s", why);
        return NULL;
    }
    const weft_layout *padded = weft_ghosts_padded(weft_runtime.layouts, import->layout, &ghosts, false);
    if (padded == NULL) {
        weft_fail(WEFT_ERR_NOMEM, import->function, "no memory for a layout");
        return NULL;
    }
    weft_ghosted_see_calls();
    weft_tensor_impl *tensor = weft_ghosted_new(import->function, import->layout, padded, &ghosts, import->locals);
    if (tensor != NULL) {
        weft_ghosted_set_gaps(tensor);
    }
    return tensor;
}

weft_tensor *weft_import_strided(weft_import *import)
{
    const char *function = import->function;
    if (weft_runtime.context.deferral != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "WEFT_STRIDES within a captured graph: make the tensor before weft_graph_call()");
        return NULL;
    }
    if (!weft_check_nothing_waits(function)) {
        return NULL;
    }
    bool right = weft_import_check(import);
    const double number = import->flags;
    int64_t gaps[WEFT_MAX_DIMS];
    if (!weft_check_spmd(&(weft_call_signature){ .function = function, .num_numbers = 1, .numbers = &number }) ||
        !weft_import_compare(import, right) || !find_all(import, gaps)) {
        return NULL;
    }
    const bool gapped = has_gaps(import->ndim, gaps);
    weft_tensor_impl *tensor =
        gapped ? new_in_gaps(import, gaps) : weft_tensor_import(function, import->layout, import->locals, false);
    if (tensor != NULL && import->managed != NULL) {
        weft_managed_take(import, gapped ? tensor->ghosted->array : tensor);
    }
    return weft_tensor_handle(tensor);
}
