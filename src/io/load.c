/* weft_checkpoint_load(): every process reads the rows of its ranks, all compare checksums, and only then do the
 * tensors get their values. */
#include <weft/checkpoint.h>

#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "base/disk.h"
#include "io/check.h"
#include "io/crc32c.h"
#include "io/reading.h"
#include "tensor/actions.h"
#include "tensor/state.h"

static const int64_t CHUNK_BYTES = 1 << 20;

typedef struct loading {
    const weft_file_call *call;
    weft_sources sources;
    const weft_source **from;       /* the file of each name */
    const weft_file_tensor **found; /* its tensor */
    weft_tensor_impl **rows;        /* its values in row shards */
} loading;

static int64_t *numbers_new(const char *function, int64_t count)
{
    int64_t *numbers = calloc((size_t)count + 1, sizeof(*numbers));
    if (numbers == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld numbers", (long long)count);
    }
    return numbers;
}

/* ---- the header -------------------------------------------------------------------------------------------- */

static void check_found(const loading *l, int i, weft_outcome *outcome)
{
    const weft_file_tensor *found = l->found[i];
    const weft_layout *layout = weft_layout_of(l->call->tensors[i]);
    const char *name = l->call->names[i];
    if (found == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_INVALID, "names[%d]: %.120s has no tensor \"%.100s\"", i,
                          l->call->path, name);
    } else if (found->ndim > WEFT_MAX_DIMS) {
        weft_outcome_fail(outcome, WEFT_ERR_SHAPE, "\"%.100s\" has %d dimensions in the file, and a tensor has at most %d", name,
                          found->ndim, WEFT_MAX_DIMS);
    } else if (!found->is_readable || found->type != layout->dtype) {
        weft_outcome_fail(outcome, WEFT_ERR_DTYPE, "tensors[%d] is %s, and \"%.100s\" is %s in the file", i,
                          weft_dtype_name(layout->dtype), name, found->dtype);
    } else if (found->ndim != layout->ndim ||
               memcmp(found->shape, layout->shape, (size_t)layout->ndim * sizeof(layout->shape[0])) != 0) {
        char sizes[2][80];
        weft_text texts[] = { weft_text_in(sizes[0], sizeof(sizes[0])), weft_text_in(sizes[1], sizeof(sizes[1])) };
        weft_text_add_sizes(&texts[0], layout->ndim, layout->shape, ", ");
        weft_text_add_sizes(&texts[1], found->ndim, found->shape, ", ");
        weft_outcome_fail(outcome, WEFT_ERR_SHAPE,
                          "tensors[%d] has the shape [%s], and \"%.80s\" has [%s] in the file", i, sizes[0], name,
                          sizes[1]);
    }
}

/* Opens the file on every process; all see the same one. A status with the error kept. */
static weft_status open_file(loading *l)
{
    enum { COUNT = WEFT_OUTCOME_NUMBERS + 1 };
    const char *function = l->call->function;
    weft_outcome outcome = { .status = WEFT_OK };
    uint64_t digest = 0;
    weft_sources_open(l->call->path, l->call->n, l->call->names, &l->sources, &digest, &outcome);
    for (int i = 0; i < l->call->n && outcome.status == WEFT_OK; i++) {
        l->found[i] = weft_sources_find(&l->sources, l->call->names[i], &l->from[i]);
        check_found(l, i, &outcome);
    }
    int64_t mine[COUNT];
    memcpy(mine, &outcome, sizeof(outcome));
    mine[WEFT_OUTCOME_NUMBERS] = (int64_t)digest;
    int64_t *all = numbers_new(function, (int64_t)COUNT * weft_runtime.num_processes);
    weft_status status = all == NULL ? weft_latest_status() : weft_outcome_agree(function, COUNT, mine, all);
    for (int p = 1; p < weft_runtime.num_processes && status == WEFT_OK; p++) {
        if (all[p * COUNT + WEFT_OUTCOME_NUMBERS] != all[WEFT_OUTCOME_NUMBERS]) {
            status = weft_fail(WEFT_ERR_IO, function, "%.200s: processes 0 and %d see other files", l->call->path, p);
        }
    }
    free(all);
    return status;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

static const char *read_piece(int file, char *memory, int64_t bytes, int64_t offset, int64_t *checksum)
{
    uint32_t crc = 0;
    const char *failed = NULL;
    for (int64_t done = 0; done < bytes && failed == NULL; done += CHUNK_BYTES) {
        int64_t count = weft_min_i64(CHUNK_BYTES, bytes - done);
        failed = weft_disk_read(file, memory + done, count, offset + done);
        crc = failed == NULL ? weft_crc32c(crc, memory + done, (size_t)count) : crc;
    }
    *checksum = crc;
    return failed;
}

/* Checksums of the pieces of all ranks of a tensor: ranks of a process side by side. */
static int64_t checksum_place(int tensor, int local_rank)
{
    return WEFT_OUTCOME_NUMBERS + (int64_t)tensor * weft_most_local_ranks() + local_rank;
}

static void read_rows(loading *l, int number, int64_t numbers[], weft_outcome *outcome)
{
    const weft_tensor_impl *rows = l->rows[number];
    const weft_source *source = l->from[number];
    int64_t begin = source->header.data_begin + l->found[number]->begin;
    for (int i = 0; i < rows->num_shards && outcome->status == WEFT_OK; i++) {
        const weft_local_shard *shard = &rows->shards[i];
        int64_t index = weft_mesh_index_of(rows->layout->mesh, shard->rank);
        if (index < 0 || shard->count == 0) {
            continue;
        }
        weft_rows_piece piece = weft_rows_piece_at(rows->layout, index);
        int file = weft_sources_file(&l->sources, source, outcome);
        if (file < 0) {
            break;
        }
        weft_end_pause();
        weft_rows_await(shard, true);
        const char *failed = read_piece(file, weft_rows_memory(shard), piece.bytes, begin + piece.begin,
                                        &numbers[checksum_place(number, i)]);
        weft_truths_normalize(rows->layout->dtype, weft_rows_memory(shard), failed == NULL ? shard->count : 0);
        if (failed != NULL) {
            weft_outcome_fail_disk(outcome, source->path, failed);
        }
    }
}

/* A status with the error kept: the same on all processes, which have the same numbers. */
static weft_status check_tensor(const loading *l, int number, const int64_t all[], int64_t count)
{
    const weft_file_tensor *found = l->found[number];
    const weft_file_header *header = &l->from[number]->header;
    uint32_t crc = weft_join_checksums(l->rows[number]->layout, all, count, checksum_place(number, 0));
    if (!header->has_checksums || crc == found->crc) {
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_IO, l->call->function,
                     "%.120s: tensor \"%.100s\" is damaged: bytes %lld to %lld have the checksum %08x, expected %08x",
                     l->from[number]->path, found->name, (long long)(header->data_begin + found->begin),
                     (long long)(header->data_begin + found->end), crc, found->crc);
}

/* A status with the error kept. */
static weft_status read_all(loading *l)
{
    const char *function = l->call->function;
    int64_t count = checksum_place(l->call->n, 0);
    int64_t *mine = numbers_new(function, count);
    int64_t *all = mine == NULL ? NULL : numbers_new(function, count * weft_runtime.num_processes);
    weft_outcome outcome = { .status = WEFT_OK };
    weft_status status = all == NULL ? weft_latest_status() : WEFT_OK;
    for (int i = 0; i < l->call->n && status == WEFT_OK; i++) {
        const weft_layout *layout = weft_rows_layout(function, weft_layout_of(l->call->tensors[i]));
        l->rows[i] = layout == NULL ? NULL : weft_tensor_new(function, layout);
        status = l->rows[i] == NULL ? weft_latest_status() : WEFT_OK;
    }
    for (int i = 0; i < l->call->n && status == WEFT_OK; i++) {
        read_rows(l, i, mine, &outcome);
    }
    if (status == WEFT_OK) {
        memcpy(mine, &outcome, sizeof(outcome));
        status = weft_outcome_agree(function, count, mine, all);
    }
    for (int i = 0; i < l->call->n && status == WEFT_OK; i++) {
        status = check_tensor(l, i, all, count);
    }
    free(mine);
    free(all);
    return status;
}

/* ---- the call ---------------------------------------------------------------------------------------------- */

static weft_status load(loading *l)
{
    weft_status status = open_file(l);
    status = status == WEFT_OK ? read_all(l) : status;
    for (int i = 0; i < l->call->n && status == WEFT_OK; i++) {
        weft_tensor_impl *target = weft_tensor_get(l->call->tensors[i]);
        bool done = weft_tensor_copy_into(l->call->function, target, l->rows[i]);
        target->version += done;
        status = done ? WEFT_OK : weft_latest_status();
    }
    return status;
}

static weft_status perform_load(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    loading l = { .call = call->details->memory };
    size_t n = (size_t)l.call->n + 1;
    if (!weft_check_file_spmd(l.call, true)) {
        return weft_latest_status();
    }
    l.from = calloc(n, sizeof(*l.from));
    l.found = calloc(n, sizeof(*l.found));
    l.rows = calloc(n, sizeof(*l.rows));
    weft_status status;
    if (l.from == NULL || l.found == NULL || l.rows == NULL) {
        status = weft_fail(WEFT_ERR_NOMEM, call->function, "no memory to load %d tensors", l.call->n);
    } else {
        weft_scope_begin();
        status = load(&l);
        weft_scope_end_own();
    }
    weft_sources_close(&l.sources);
    free(l.from);
    free(l.found);
    free(l.rows);
    return status;
}

weft_status weft_checkpoint_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const weft_operation action = { .name = "checkpoint_load", .perform = perform_load, .effects = WEFT_NEEDS_DATA };
    weft_file_call call = {
        .function = "weft_checkpoint_load", .path = path, .n = n, .names = names, .tensors = tensors, .may_be_empty = true
    };
    if (!weft_check_file_call(&call) || !weft_check_file_waits(&call) || !weft_check_file_layouts(&call)) {
        weft_check_file_spmd(&call, false);
        return weft_latest_status();
    }
    return weft_act_on_file(&call, &action, &call);
}
