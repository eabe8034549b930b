#include "io/saving.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/check_spmd.h"
#include "io/collection.h"
#include "io/crc32c.h"
#include "io/index.h"
#include "io/parts.h"
#include "base/disk.h"
#include "runtime/background.h"
#include "tensor/state.h"

/* Bytes that are written at a time: their checksum is computed while they are in the cache. */
static const int64_t CHUNK_BYTES = 1 << 20;

struct weft_saving {
    weft_saving *older;
    char *path;
    int num_parts; /* files */
    char **temporaries;
    weft_file_header *headers;
    size_t num_tensors;           /* of all files: the first ones are in the first file, and so on */
    weft_tensor_impl **snapshots; /* one per tensor; NULL: released */
    weft_collection *collection;
    pthread_t thread;
    bool in_background;
    bool has_thread; /* and it has not been joined */
    atomic_bool ended;
    weft_outcome outcome;
};

/* ---- the thread: own rows ---------------------------------------------------------------------------------- */

/* The beginning of the first rows that a process has written. */
typedef struct sample {
    int64_t offset, count, checksum, part; /* count 0: it has no rows */
} sample;

enum { SAMPLE_NUMBERS = sizeof(sample) / sizeof(int64_t), SAMPLE_BYTES = 4096 };

/* A process's numbers: its outcome, a sample, then the checksum of each piece, ranks of a tensor side by side. */
static int64_t checksum_place(size_t tensor, int local_rank)
{
    return WEFT_OUTCOME_NUMBERS + SAMPLE_NUMBERS + (int64_t)tensor * weft_most_local_ranks() + local_rank;
}

/* Values of a broken world, or of calls whose tasks have failed, must not become a checkpoint. */
static void await_values(const weft_saving *s, weft_outcome *outcome)
{
    for (size_t i = 0; i < s->num_tensors; i++) {
        for (int k = 0; k < s->snapshots[i]->num_shards; k++) {
            weft_rows_await(&s->snapshots[i]->shards[k], false);
        }
    }
    char why[256];
    weft_status status = weft_error_peek(why, sizeof(why));
    if (status != WEFT_OK) {
        weft_outcome_fail(outcome, status, "not saved, because a call before has failed: %s", why);
    }
}

/* The steps of base/disk.h, of one piece; writes its checksum. */
static const char *write_piece(int file, const char *memory, int64_t bytes, int64_t offset, int64_t *checksum)
{
    uint32_t crc = 0;
    const char *failed = NULL;
    for (int64_t done = 0; done < bytes && failed == NULL; done += CHUNK_BYTES) {
        int64_t count = weft_min_i64(CHUNK_BYTES, bytes - done);
        crc = weft_crc32c(crc, memory + done, (size_t)count);
        failed = weft_disk_write(file, memory + done, count, offset + done);
    }
    *checksum = crc;
    return failed;
}

static void take_sample(const char *memory, int64_t bytes, int64_t offset, int part, int64_t numbers[SAMPLE_NUMBERS])
{
    sample first = { offset, weft_min_i64(bytes, SAMPLE_BYTES), 0, part };
    if (numbers[1] == 0 && bytes > 0) { /* its count */
        first.checksum = weft_crc32c(0, memory, (size_t)first.count);
        memcpy(numbers, &first, sizeof(first));
    }
}

/* Tensor `at` of a file, `number` of all. */
static const char *write_tensor(const weft_saving *s, int part, int file, size_t at, size_t number, int64_t numbers[])
{
    const weft_tensor_impl *rows = s->snapshots[number];
    int64_t begin = s->headers[part].data_begin + weft_file_tensors(&s->headers[part])[at].begin;
    const char *failed = NULL;
    for (int i = 0; i < rows->num_shards && failed == NULL; i++) {
        const weft_local_shard *shard = &rows->shards[i];
        int64_t index = weft_mesh_index_of(rows->layout->mesh, shard->rank);
        if (index >= 0) {
            weft_rows_piece piece = weft_rows_piece_at(rows->layout, index);
            take_sample(weft_rows_memory(shard), piece.bytes, begin + piece.begin, part,
                        &numbers[WEFT_OUTCOME_NUMBERS]);
            failed = write_piece(file, weft_rows_memory(shard), piece.bytes, begin + piece.begin,
                                 &numbers[checksum_place(number, i)]);
        }
    }
    return failed;
}

/* `first`: the number of the file's first tensor. */
static void write_part(const weft_saving *s, int part, size_t first, weft_outcome *outcome, int64_t numbers[])
{
    int file = -1;
    const char *failed = weft_disk_create(s->temporaries[part], &file);
    for (size_t i = 0; i < s->headers[part].tensors.count && failed == NULL; i++) {
        failed = write_tensor(s, part, file, i, first + i, numbers);
    }
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, s->temporaries[part], failed);
        if (file >= 0) {
            close(file);
        }
        return;
    }
    failed = weft_disk_finish(file);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, s->temporaries[part], failed);
    }
}

static void write_rows(const weft_saving *s, weft_outcome *outcome, int64_t numbers[])
{
    size_t first = 0;
    for (int k = 0; k < s->num_parts && outcome->status == WEFT_OK; k++) {
        write_part(s, k, first, outcome, numbers);
        first += s->headers[k].tensors.count;
    }
}

/* ---- the thread of process 0: the commit ----------------------------------------------------------------- */

/* The steps of base/disk.h. An older, longer file of the temporary's name is cut. */
static const char *write_header(weft_file_header *header, const char *temporary)
{
    int file = -1;
    weft_text text;
    bool made = weft_file_header_write(header, &text);
    errno = ENOMEM;
    const char *failed = made ? weft_disk_create(temporary, &file) : "header";
    if (failed == NULL) {
        failed = weft_disk_write(file, text.characters, (int64_t)text.length, 0);
        if (failed == NULL && ftruncate(file, header->data_begin + header->data_bytes) != 0) {
            failed = "truncate";
        }
        int reason = errno;
        const char *finished = weft_disk_finish(file);
        errno = failed != NULL ? reason : errno;
        failed = failed != NULL ? failed : finished;
    }
    weft_text_free(&text);
    return failed;
}

/* The steps of base/disk.h. This process finds in its file what another one says to have written there. */
static const char *find_sample(const weft_saving *s, const sample *theirs)
{
    char bytes[SAMPLE_BYTES];
    int file = -1;
    int64_t size;
    const char *failed = weft_disk_open(s->temporaries[theirs->part], &file, &size);
    failed = failed == NULL ? weft_disk_read(file, bytes, theirs->count, theirs->offset) : failed;
    int reason = errno;
    if (failed == NULL && weft_crc32c(0, bytes, (size_t)theirs->count) != (uint32_t)theirs->checksum) {
        failed = "other bytes are there";
        reason = 0;
    }
    if (file >= 0) {
        close(file);
    }
    errno = reason;
    return failed;
}

/* Processes may see different file systems. */
static void check_samples(const weft_saving *s, const int64_t all[], int64_t count, weft_outcome *outcome)
{
    for (int p = 0; p < weft_runtime.num_processes && outcome->status == WEFT_OK; p++) {
        char name[64], reason[100];
        sample theirs;
        memcpy(&theirs, all + p * count + WEFT_OUTCOME_NUMBERS, sizeof(theirs));
        const char *failed = find_sample(s, &theirs);
        if (failed != NULL) {
            weft_disk_failure(failed, reason, sizeof(reason));
            weft_outcome_fail(outcome, WEFT_ERR_IO, "process 0 does not find in %.100s what %s has written: %s, as where they see "
                              "different file systems", s->temporaries[theirs.part], weft_process_text(p, name, sizeof(name)), reason);
        }
    }
}

/* The checksums of all, in the headers, and these in the files. */
static void write_headers(weft_saving *s, const int64_t all[], int64_t count, weft_outcome *outcome)
{
    size_t number = 0;
    for (int k = 0; k < s->num_parts && outcome->status == WEFT_OK; k++) {
        for (size_t i = 0; i < s->headers[k].tensors.count; i++, number++) {
            weft_file_tensors(&s->headers[k])[i].crc =
                weft_join_checksums(s->snapshots[number]->layout, all, count, checksum_place(number, 0));
        }
        const char *failed = write_header(&s->headers[k], s->temporaries[k]);
        if (failed != NULL) {
            weft_outcome_fail_disk(outcome, s->temporaries[k], failed);
        }
    }
}

static void give_names(weft_saving *s, weft_outcome *outcome)
{
    if (weft_is_index_path(s->path)) {
        weft_parts_commit(s->path, s->num_parts, s->headers, s->temporaries, outcome);
        return;
    }
    bool renamed;
    const char *failed = weft_disk_rename(s->temporaries[0], s->path, &renamed);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, s->path, failed);
    }
}

/* `all`: the numbers of all processes. */
static void commit(weft_saving *s, const int64_t all[], int64_t count, weft_outcome *outcome)
{
    weft_outcome_take_first(outcome, count, all);
    if (outcome->status == WEFT_OK) {
        check_samples(s, all, count, outcome);
    }
    if (outcome->status == WEFT_OK) {
        write_headers(s, all, count, outcome);
    }
    if (outcome->status == WEFT_OK) {
        give_names(s, outcome);
    }
    for (int k = 0; k < s->num_parts && outcome->status != WEFT_OK; k++) {
        weft_disk_remove(s->temporaries[k]);
    }
}

static int64_t count_numbers(const weft_saving *s)
{
    return checksum_place(s->num_tensors, 0);
}

/* Of this thread, as Linux has it: a tenth of a core while all cores compute, and all of an idle one. */
static void leave_cores_to_workers(void)
{
    setpriority(PRIO_PROCESS, 0, 10);
}

static void *write_file(void *argument)
{
    weft_saving *s = argument;
    int64_t *mine = weft_collection_mine(s->collection);
    weft_outcome *own = (weft_outcome *)(void *)mine;
    await_values(s, own);
    if (own->status == WEFT_OK) {
        write_rows(s, own, mine);
    }
    const int64_t *all = weft_collection_gather(s->collection);
    if (all != NULL) {
        commit(s, all, count_numbers(s), (weft_outcome *)(void *)weft_collection_to_answer(s->collection));
    }
    const int64_t *answer = weft_collection_answer(s->collection);
    if (answer != NULL) {
        memcpy(&s->outcome, answer, sizeof(s->outcome));
    } else {
        weft_status status = weft_broken_by(s->outcome.text, sizeof(s->outcome.text));
        s->outcome.status = status == WEFT_OK ? WEFT_ERR_COMM : status;
    }
    atomic_store(&s->ended, true);
    return NULL;
}

/* ---- the submitting thread ---------------------------------------------------------------------------------- */

/* Takes over the contents of the headers. False: no memory. */
static bool take_headers(weft_saving *s, int num_parts, weft_file_header headers[])
{
    s->temporaries = calloc((size_t)num_parts, sizeof(*s->temporaries));
    s->headers = calloc((size_t)num_parts, sizeof(*s->headers));
    bool done = s->path != NULL && s->temporaries != NULL && s->headers != NULL;
    for (int k = 0; k < num_parts && done; k++) {
        s->temporaries[k] = weft_part_temporary(s->path, k);
        done = s->temporaries[k] != NULL;
        s->headers[k] = headers[k];
        s->num_tensors += headers[k].tensors.count;
        headers[k] = (weft_file_header){ .data_bytes = 0 };
        s->num_parts++;
    }
    return done;
}

static weft_saving *saving_new(const char *path, int num_parts, weft_file_header headers[])
{
    weft_saving *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    atomic_init(&s->ended, false);
    s->path = strdup(path);
    bool done = take_headers(s, num_parts, headers);
    s->snapshots = calloc(s->num_tensors + 1, sizeof(weft_tensor_impl *));
    if (!done || s->snapshots == NULL) {
        weft_saving_delete(s);
        return NULL;
    }
    return s;
}

/* The snapshots keep a reference of their own. False with the error kept. */
static bool take_snapshots(const char *function, weft_saving *s, weft_tensor *const tensors[])
{
    bool done = true;
    weft_scope_begin();
    for (size_t i = 0; i < s->num_tensors && done; i++) {
        s->snapshots[i] = weft_rows_snapshot(function, weft_tensor_get(tensors[i]));
        done = s->snapshots[i] != NULL;
        if (done) {
            s->snapshots[i]->references++;
        }
    }
    weft_scope_end_own();
    return done;
}

static void release_snapshots(weft_saving *s)
{
    for (size_t i = 0; s->snapshots != NULL && i < s->num_tensors; i++) {
        if (s->snapshots[i] != NULL) {
            weft_tensor_unreference(s->snapshots[i]);
        }
        s->snapshots[i] = NULL;
    }
}

/* The thread. */
static void *write_file_beside(void *argument)
{
    const weft_saving *s = argument;
    if (s->in_background) {
        leave_cores_to_workers();
    }
    return write_file(argument);
}

/* Without a thread the rows are written here. */
static void start_thread(weft_saving *s)
{
    s->has_thread = weft_background_start(&s->thread, write_file_beside, s);
    if (!s->has_thread) {
        weft_end_pause();
        write_file(s);
    }
}

weft_saving *weft_saving_start(const char *function, const char *path, int num_parts, weft_file_header headers[],
                               weft_tensor *const tensors[], bool in_background)
{
    weft_savings_join(); /* two would write one file, if their paths are the same */
    weft_saving *s = saving_new(path, num_parts, headers);
    if (s == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to save tensors to %d files", num_parts);
        return NULL;
    }
    if (take_snapshots(function, s, tensors)) {
        s->collection = weft_collection_new(function, count_numbers(s), WEFT_OUTCOME_NUMBERS);
    }
    if (s->collection == NULL) {
        weft_saving_delete(s);
        return NULL;
    }
    s->in_background = in_background;
    s->older = weft_runtime.savings;
    weft_runtime.savings = s;
    start_thread(s);
    return s;
}

bool weft_saving_has_ended(const weft_saving *saving)
{
    return atomic_load(&saving->ended);
}

void weft_saving_join(weft_saving *s)
{
    weft_end_pause();
    if (s->has_thread) {
        pthread_join(s->thread, NULL);
        s->has_thread = false;
    }
    if (s->snapshots != NULL) {
        release_snapshots(s);
    }
    weft_collection_delete(s->collection);
    s->collection = NULL;
}

const weft_outcome *weft_saving_outcome(const weft_saving *saving)
{
    return &saving->outcome;
}

void weft_saving_delete(weft_saving *s)
{
    if (s == NULL) {
        return;
    }
    for (weft_saving **link = &weft_runtime.savings; *link != NULL; link = &(*link)->older) {
        if (*link == s) {
            *link = s->older;
            break;
        }
    }
    release_snapshots(s);
    for (int k = 0; k < s->num_parts; k++) {
        weft_file_header_free(&s->headers[k]);
        free(s->temporaries[k]);
    }
    free(s->headers);
    free(s->temporaries);
    free(s->snapshots);
    free(s->path);
    free(s);
}

void weft_savings_join(void)
{
    for (weft_saving *s = weft_runtime.savings; s != NULL; s = s->older) {
        weft_saving_join(s);
    }
}

void weft_savings_stop(void)
{
    while (weft_runtime.savings != NULL) {
        weft_saving_delete(weft_runtime.savings);
    }
    weft_handle_remove_all(&weft_runtime.handles.savings);
}
