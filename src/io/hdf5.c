/* HDF5 files: another writer on the hooks of hooks.c, with serial libhdf5. Processes write values side by side, and chunks in turns. */
#include <weft/checkpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "io/hdf5_file.h"
#include "tensor/actions.h"
#include "tensor/state.h"

#if !WEFT_HAVE_HDF5
static weft_status unsupported(const char *function, const weft_file_call *call)
{
    bool valid = weft_check_file_call(call);
    weft_check_file_spmd(call, false);
    return valid ? weft_fail(WEFT_ERR_UNSUPPORTED, function, "this library was built without HDF5")
                 : weft_latest_status();
}

weft_status weft_hdf5_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const char function[] = "weft_hdf5_save";
    const weft_file_call call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors };
    return unsupported(function, &call);
}

weft_status weft_hdf5_save_ex(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                              const weft_hdf5_options *options)
{
    static const char function[] = "weft_hdf5_save_ex";
    const weft_file_call call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors };
    (void)options;
    return unsupported(function, &call);
}

weft_status weft_hdf5_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const char function[] = "weft_hdf5_load";
    const weft_file_call call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors };
    return unsupported(function, &call);
}
#else

/* ---- saving ----------------------------------------------------------------------------------------------------- */

typedef struct save_request {
    weft_file_call call;
    weft_hdf5_options options;
} save_request;

static void create(const save_request *request, const char *path, weft_tensor_impl *const tensors[], weft_outcome *outcome)
{
    const weft_file_call *call = &request->call;
    const weft_layout **layouts = calloc((size_t)call->n + 1, sizeof(*layouts));
    if (layouts == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for %d layouts", call->n);
        return;
    }
    for (int i = 0; i < call->n; i++) {
        layouts[i] = tensors[i]->layout;
    }
    weft_hdf5_create(path, call->n, call->names, layouts, &request->options, outcome);
    free(layouts);
}

/* One process after the other; the first one creates the file before. */
static weft_status write_in_turn(const save_request *request, const char *path, weft_tensor_impl *tensors[])
{
    const weft_file_call *call = &request->call;
    weft_status status = WEFT_OK;
    for (int p = 0; p < weft_runtime.num_processes && status == WEFT_OK; p++) {
        weft_outcome outcome = { .status = WEFT_OK };
        if (p == weft_runtime.process && p == 0) {
            create(request, path, tensors, &outcome);
        }
        if (p == weft_runtime.process && outcome.status == WEFT_OK) {
            weft_boxes_write(call, path, tensors, weft_hdf5_write, &outcome);
        }
        status = weft_outcome_broadcast(call->function, p, &outcome);
    }
    return status;
}

/* Whether a rank's shard lies in the file as so many runs, so short ones, that bringing rows together is cheaper than to write each. */
static bool has_short_runs(const weft_layout *layout)
{
    enum { MANY_RUNS = 64, SHORT_RUN = 1 << 16 /* bytes */ };
    if (layout->ndim == 0 || layout->shape[0] < layout->mesh->num_ranks) { /* rows would bring it into the memory of few */
        return false;
    }
    for (int64_t i = 0; i < layout->mesh->num_ranks; i++) {
        int outer;
        const weft_shard_info shard = weft_layout_shard(layout, weft_mesh_rank_at(layout->mesh, i));
        const int64_t run = weft_box_run(layout, shard.box.extent, &outer);
        if (shard.count > 0 && shard.count / run > MANY_RUNS && run * (int64_t)weft_dtype_size(layout->dtype) < SHORT_RUN) {
            return true;
        }
    }
    return false;
}

/* All processes at once, in a file that the first one creates before. */
static weft_status write_at_once(const save_request *request, const char *path, weft_tensor_impl *tensors[])
{
    const weft_file_call *call = &request->call;
    weft_outcome outcome = { .status = WEFT_OK };
    int64_t mine[WEFT_OUTCOME_NUMBERS], *all = calloc((size_t)weft_runtime.num_processes * WEFT_OUTCOME_NUMBERS, sizeof(*all));
    if (all == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for the outcomes of processes");
    }
    if (weft_runtime.process == 0) {
        create(request, path, tensors, &outcome);
    }
    weft_status status = weft_outcome_broadcast(call->function, 0, &outcome);
    for (int i = 0; i < call->n && status == WEFT_OK; i++) {
        tensors[i] = has_short_runs(tensors[i]->layout) ? weft_rows_snapshot(call->function, tensors[i]) : tensors[i];
        status = tensors[i] == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (status == WEFT_OK) {
        weft_boxes_write(call, path, tensors, weft_hdf5_write_places, &outcome);
        memcpy(mine, &outcome, sizeof(outcome));
        status = weft_outcome_agree(call->function, WEFT_OUTCOME_NUMBERS, mine, all);
    }
    free(all);
    return status;
}

/* On process 0. */
static void take_place(const char *temporary, const char *path, weft_outcome *outcome)
{
    bool renamed;
    const char *failed = weft_disk_rename(temporary, path, &renamed);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    }
}

static weft_status save(const save_request *request, const char *temporary, weft_tensor_impl *tensors[])
{
    const weft_file_call *call = &request->call;
    weft_status status = WEFT_OK;
    for (int i = 0; i < call->n && status == WEFT_OK; i++) {
        tensors[i] = weft_boxes_snapshot(call->function, weft_tensor_get(call->tensors[i]));
        status = tensors[i] == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (status == WEFT_OK) { /* libhdf5 decides where chunks are */
        status = (request->options.chunk_bytes > 0 ? write_in_turn : write_at_once)(request, temporary, tensors);
    }
    weft_outcome outcome = { .status = WEFT_OK };
    if (status == WEFT_OK && weft_runtime.process == 0) {
        take_place(temporary, call->path, &outcome);
    }
    status = status == WEFT_OK ? weft_outcome_broadcast(call->function, 0, &outcome) : status;
    if (status != WEFT_OK && weft_runtime.process == 0) {
        weft_disk_remove(temporary);
    }
    return status;
}

static weft_status perform_save(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const save_request *request = call->details->memory;
    const weft_file_call *given = &request->call;
    if (!weft_check_file_spmd(given, true)) {
        return weft_latest_status();
    }
    size_t length = strlen(given->path) + sizeof(".tmp");
    char *temporary = malloc(length);
    weft_tensor_impl **tensors = calloc((size_t)given->n + 1, sizeof(*tensors));
    weft_status status;
    if (temporary == NULL || tensors == NULL) {
        status = weft_fail(WEFT_ERR_NOMEM, call->function, "no memory to save %d tensors", given->n);
    } else {
        snprintf(temporary, length, "%s.tmp", given->path);
        weft_scope_begin();
        status = save(request, temporary, tensors);
        weft_scope_end_own();
    }
    free(temporary);
    free(tensors);
    return status;
}

/* Fills in what 0 stands for. */
static bool check_options(const char *function, weft_hdf5_options *options)
{
    if (options->compression < 0 || options->compression > 9) {
        weft_fail(WEFT_ERR_INVALID, function, "options->compression is %d, expected 0 to 9", options->compression);
        return false;
    }
    if (options->chunk_bytes != 0 && (options->chunk_bytes < WEFT_BOXES_LARGEST_ELEMENT || options->chunk_bytes > UINT32_MAX)) {
        weft_fail(WEFT_ERR_INVALID, function, "options->chunk_bytes is %lld, expected 0, or %d to %lld", (long long)options->chunk_bytes,
                  WEFT_BOXES_LARGEST_ELEMENT, (long long)UINT32_MAX);
        return false;
    }
    if (options->compression > 0 && !weft_hdf5_compresses()) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "options->compression is %d, and libhdf5 was built without gzip", options->compression);
        return false;
    }
    options->chunk_bytes = options->compression > 0 && options->chunk_bytes == 0 ? 1 << 20 : options->chunk_bytes;
    return true;
}

static weft_status save_as(const char *function, const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                           const weft_hdf5_options *options)
{
    static const weft_operation action = { .name = "hdf5_save", .perform = perform_save, .effects = WEFT_NEEDS_DATA };
    save_request request = { .call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors } };
    weft_file_call *call = &request.call;
    if (!weft_check_file_call(call) || !weft_check_file_waits(call) || !weft_boxes_check_types(call, "HDF5") ||
        (options != NULL && !WEFT_TAKE_OPTIONS(function, &request.options, options)) || !check_options(function, &request.options)) {
        weft_check_file_spmd(call, false);
        return weft_latest_status();
    }
    if (request.options.chunk_bytes > 0) {
        call->digest = weft_digest_add((uint64_t)request.options.compression, (uint64_t)request.options.chunk_bytes);
    }
    return weft_act_on_file(call, &action, &request);
}

weft_status weft_hdf5_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    return save_as("weft_hdf5_save", path, n, names, tensors, NULL);
}

weft_status weft_hdf5_save_ex(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                              const weft_hdf5_options *options)
{
    return save_as("weft_hdf5_save_ex", path, n, names, tensors, options);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static weft_status perform_load(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_file_call *given = call->details->memory;
    return weft_check_file_spmd(given, true) ? weft_boxes_load(given, weft_hdf5_read) : weft_latest_status();
}

weft_status weft_hdf5_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const weft_operation action = { .name = "hdf5_load", .perform = perform_load, .effects = WEFT_NEEDS_DATA };
    weft_file_call call = {
        .function = "weft_hdf5_load", .path = path, .n = n, .names = names, .tensors = tensors
    };
    if (!weft_check_file_call(&call) || !weft_check_file_waits(&call) || !weft_check_file_layouts(&call) ||
        !weft_boxes_check_types(&call, "HDF5")) {
        weft_check_file_spmd(&call, false);
        return weft_latest_status();
    }
    return weft_act_on_file(&call, &action, &call);
}
#endif
