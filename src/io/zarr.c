/* Zarr stores, version 3, in folders: another writer on the hooks of hooks.c. Each chunk is a file, which one process writes. */
#include <weft/checkpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arrays/arrays.h"
#include "base/disk.h"
#include "base/trees.h"
#include "codelets/types.h"
#include "io/json.h"
#include "io/zarr_chunks.h"
#include "io/zarr_codecs.h"
#include "tensor/actions.h"
#include "tensor/state.h"

/* ---- arguments ------------------------------------------------------------------------------------------------------ */

static const weft_zarr_options defaults = { .level = 3, .chunk_bytes = 16 << 20 };

typedef struct save_request {
    weft_file_call call;
    weft_zarr_options options;
    weft_zarr_chain chain;
} save_request;

/* Whether Zarr keeps a part of a name for itself, or zarr-python takes it for two parts, as it does with a backslash. */
static bool is_reserved(const char *part, size_t length)
{
    const bool dots = length > 0 && length <= 2 && memcmp(part, "..", length) == 0;
    return length == 0 || dots || (length >= 2 && memcmp(part, "__", 2) == 0) || (length == 9 && memcmp(part, "zarr.json", 9) == 0) ||
           memchr(part, '\\', length) != NULL;
}

static bool check_names(const weft_file_call *call)
{
    for (int i = 0; i < call->n; i++) {
        const char *part = call->names[i];
        bool whole = call->may_be_empty && part[0] == '\0';
        while (!whole) {
            const size_t length = strcspn(part, "/");
            if (is_reserved(part, length)) {
                weft_fail(WEFT_ERR_INVALID, call->function, "names[%d] is \"%.100s\", in which \"%.*s\" is no name of Zarr", i,
                          call->names[i], (int)length, part);
                return false;
            }
            whole = part[length] == '\0';
            part += length + 1;
        }
    }
    return true;
}

/* '/' before all others, so that an array is followed by what would lie inside of it. */
static int by_place(const void *a, const void *b)
{
    const unsigned char *x = *(const unsigned char *const *)a, *y = *(const unsigned char *const *)b;
    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    const int before = *x == '/' ? 1 : *x == '\0' ? 0 : *x + 1, after = *y == '/' ? 1 : *y == '\0' ? 0 : *y + 1;
    return (before > after) - (before < after);
}

/* No name twice, and none that is a group of another one. */
static bool check_places(const weft_file_call *call)
{
    const char **sorted = malloc(((size_t)call->n + 1) * sizeof(*sorted));
    if (sorted == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d names", call->n);
        return false;
    }
    bool right = true;
    for (int i = 0; i < call->n; i++) {
        sorted[i] = call->names[i];
    }
    qsort(sorted, (size_t)call->n, sizeof(*sorted), by_place);
    for (int i = 1; i < call->n && right; i++) {
        const size_t length = strlen(sorted[i - 1]);
        const char next = strncmp(sorted[i], sorted[i - 1], length) == 0 ? sorted[i][length] : 'x';
        right = next != '\0' && next != '/';
        if (!right) {
            weft_fail(WEFT_ERR_INVALID, call->function, "names has \"%.80s\" %s", sorted[i - 1],
                      next == '\0' ? "twice" : "as an array and a group");
        }
    }
    free(sorted);
    return right;
}

static bool check_options(const char *function, save_request *request)
{
    weft_zarr_options *options = &request->options;
    const bool gzip = options->codec != NULL && strcmp(options->codec, "gzip") == 0;
    const int most = gzip ? 9 : 22;
    const char *missing;
    if (options->codec != NULL && !gzip && strcmp(options->codec, "zstd") != 0) {
        weft_fail(WEFT_ERR_INVALID, function, "options->codec is \"%.40s\", expected \"zstd\", \"gzip\" or NULL", options->codec);
        return false;
    }
    if (options->level < 0 || options->level > most) {
        weft_fail(WEFT_ERR_INVALID, function, "options->level is %d, expected 0 to %d", options->level, most);
        return false;
    }
    if (options->chunk_bytes != 0 && options->chunk_bytes < WEFT_BOXES_LARGEST_ELEMENT) {
        weft_fail(WEFT_ERR_INVALID, function, "options->chunk_bytes is %lld, expected 0, or %d or more", (long long)options->chunk_bytes,
                  WEFT_BOXES_LARGEST_ELEMENT);
        return false;
    }
    options->level = options->level == 0 ? defaults.level : options->level;
    options->chunk_bytes = options->chunk_bytes == 0 ? defaults.chunk_bytes : options->chunk_bytes;
    weft_zarr_chain *chain = &request->chain;
    if (options->codec != NULL) {
        chain->codecs[chain->num_codecs++] = gzip ? WEFT_ZARR_GZIP : WEFT_ZARR_ZSTD;
    }
    chain->codecs[chain->num_codecs++] = WEFT_ZARR_CRC32C;
    chain->level = options->level;
    if (!weft_zarr_has_codecs(chain, &missing)) {
        weft_fail(WEFT_ERR_UNSUPPORTED, function, "options->codec needs %s, which this library was built without", missing);
        return false;
    }
    return true;
}

/* ---- chunks --------------------------------------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For each dimension: the greatest common divisor of all borders between shards, 0 where there are none; the largest extent of a shard. */
static void find_borders(const weft_layout *layout, int64_t divisor[], int64_t largest[])
{
    memset(divisor, 0, WEFT_MAX_DIMS * sizeof(*divisor));
    memset(largest, 0, WEFT_MAX_DIMS * sizeof(*largest));
    for (int64_t i = 0; i < layout->mesh->num_ranks; i++) {
        const weft_shard_info shard = weft_layout_shard(layout, weft_mesh_rank_at(layout->mesh, i));
        for (int d = 0; d < layout->ndim && shard.count > 0; d++) {
            divisor[d] = common_divisor(divisor[d], shard.box.offset[d]);
            largest[d] = weft_max_i64(largest[d], shard.box.extent[d]);
        }
    }
}

/* Chunks whose borders are the shards' too, of at most `most` bytes. False: shards have none, or only small ones. */
static bool choose_chunk(const weft_layout *layout, int64_t most, int64_t chunk[])
{
    int64_t divisor[WEFT_MAX_DIMS], largest[WEFT_MAX_DIMS], bytes = (int64_t)weft_dtype_size(layout->dtype);
    bool found = true;
    find_borders(layout, divisor, largest);
    for (int d = layout->ndim - 1; d >= 0; d--) {
        const int64_t room = weft_max_i64(1, most / bytes);
        const int64_t whole = weft_max_i64(1, largest[d]);
        if (divisor[d] == 0) {
            chunk[d] = weft_ceil_div(whole, weft_ceil_div(whole, room));
        } else {
            chunk[d] = 2 * divisor[d] < largest[d] ? 0 : weft_box_divisor(divisor[d], room);
            found = found && chunk[d] > 0;
            chunk[d] = weft_max_i64(1, chunk[d]);
        }
        bytes *= chunk[d];
    }
    return found;
}

/* The dimension to be cut over that many ranks: the first one that is long enough, else the longest. */
static int dim_to_cut(const weft_layout *layout, int64_t ranks)
{
    int longest = 0;
    for (int d = 0; d < layout->ndim; d++) {
        if (layout->shape[d] >= ranks) {
            return d;
        }
        longest = layout->shape[d] > layout->shape[longest] ? d : longest;
    }
    return longest;
}

/* All ranks in one line, each with as many whole chunks along one dimension. NULL with the error kept. */
static const weft_layout *layout_of_chunks(const char *function, const weft_layout *layout, int64_t most)
{
    const weft_mesh_impl *mesh = layout->mesh;
    const int64_t ranks = mesh->num_ranks;
    const int cut = dim_to_cut(layout, ranks);
    int64_t bytes = (int64_t)weft_dtype_size(layout->dtype), chunk = 1;
    for (int d = layout->ndim - 1; d >= cut; d--) {
        const int64_t whole = d == cut ? weft_ceil_div(layout->shape[d], ranks) : layout->shape[d];
        chunk = weft_ceil_div(whole, weft_ceil_div(whole, weft_max_i64(1, most / bytes)));
        bytes *= chunk;
    }
    weft_placement rows = weft_shard(cut);
    rows.cut = WEFT_CUT_CHUNKS;
    rows.block = chunk * weft_ceil_div(weft_ceil_div(layout->shape[cut], chunk), ranks);
    const weft_mesh_impl *line = weft_mesh_obtain(function, 1, &ranks, mesh->ranks, NULL);
    return line == NULL ? NULL : weft_check_layout(function, line, &rows, layout->ndim, layout->shape, layout->dtype);
}

/* Along the dimension that layout_of_chunks() has cut. */
static void chunk_of_rows(const weft_layout *layout, int64_t most, int64_t chunk[])
{
    int64_t bytes = (int64_t)weft_dtype_size(layout->dtype);
    for (int d = layout->ndim - 1; d >= 0; d--) {
        const bool cut = layout->placements[0].kind == WEFT_SHARD && layout->placements[0].dim == d;
        const int64_t whole = cut ? weft_ceil_div(layout->shape[d], layout->mesh->num_ranks) : layout->shape[d];
        chunk[d] = weft_ceil_div(whole, weft_ceil_div(whole, weft_max_i64(1, most / bytes)));
        bytes *= chunk[d];
    }
}

/* A tensor whose shards are whole chunks. In the innermost scope. NULL with the error kept. */
static weft_tensor_impl *in_chunks(const save_request *request, weft_tensor_impl *tensor, int64_t chunk[])
{
    const char *function = request->call.function;
    const int64_t most = request->options.chunk_bytes;
    weft_tensor_impl *own = weft_boxes_snapshot(function, tensor);
    if (own == NULL || choose_chunk(own->layout, most, chunk)) {
        return own;
    }
    const weft_layout *layout = layout_of_chunks(function, own->layout, most);
    if (layout == NULL) {
        return NULL;
    }
    chunk_of_rows(layout, most, chunk);
    return weft_tensor_to_layout(function, own, layout);
}

/* ---- the store ------------------------------------------------------------------------------------------------------ */

#define GROUP "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {"
#define MARK "\"weft\": {\"save\": \""

/* To be freed; NULL: no memory. */
static char *join(const char *path, const char *end)
{
    char *joined = malloc(strlen(path) + strlen(end) + 1);
    if (joined != NULL) {
        strcpy(joined, path);
        strcat(joined, end);
    }
    return joined;
}

/* The number that a save has given the store at a path; 0: it is not weft's. *begun: a killed save, or a killed removal, may have left no
 * more than this of one. */
static uint64_t number_of_store(const char *path, bool *begun, weft_outcome *outcome)
{
    static const char first[] = GROUP MARK;
    char *file = join(path, "/zarr.json");
    int64_t length = 0;
    weft_outcome reading = { .status = WEFT_OK };
    char *text = file == NULL ? NULL : weft_zarr_read_text(file, true, &length, &reading);
    if (file == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for a path");
    }
    const char *found = text == NULL ? NULL : strstr(text, MARK);
    const uint64_t number = found == NULL ? 0 : strtoull(found + strlen(MARK), NULL, 16);
    const bool cut = text == NULL || (length < (int64_t)sizeof(first) && memcmp(text, first, (size_t)length) == 0);
    *begun = reading.status == WEFT_OK && cut && weft_tree_has_only(path, "zarr.json");
    free(text);
    free(file);
    return number;
}

/* Nothing but a store of weft's may stand at a path. `beside`: also one that is not whole. */
static void check_place(const char *path, bool beside, weft_outcome *outcome)
{
    bool begun = false;
    const bool ours = weft_tree_exists(path) && (number_of_store(path, &begun, outcome) != 0 || (beside && begun));
    if (weft_disk_is_taken(path) && !ours) {
        weft_outcome_fail(outcome, WEFT_ERR_IO, "%.200s is no Zarr store that weft has written: remove it, or choose another path", path);
    }
}

static void write_text(const char *path, const weft_text *text, weft_outcome *outcome)
{
    int file;
    if (text->failed) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for metadata");
        return;
    }
    const char *failed = weft_disk_create_new(path, &file);
    if (failed == NULL) {
        failed = weft_disk_write(file, text->characters, (int64_t)text->length, 0);
        const char *unfinished = weft_disk_finish(file);
        failed = failed == NULL ? unfinished : failed;
    }
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    }
}

/* A folder below the store, and its zarr.json. */
static void add_node(const char *folder, const weft_text *text, weft_outcome *outcome)
{
    char *file = join(folder, "/zarr.json");
    const char *failed = file == NULL ? "no memory" : weft_tree_make(folder);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, folder, failed);
    } else {
        write_text(file, text, outcome);
    }
    free(file);
}

/* `number`: of the save, for the whole store; 0: a group inside. */
static void add_group(const char *folder, uint64_t number, weft_outcome *outcome)
{
    char room[120];
    weft_text text = weft_text_in(room, sizeof(room));
    weft_text_add(&text, GROUP);
    if (number != 0) {
        weft_text_add(&text, MARK "%016llx\"}", (unsigned long long)number);
    }
    weft_text_add(&text, "}}\n");
    add_node(folder, &text, outcome);
}

/* The groups of a name, each before what is in it, and the array. */
static void add_array(const save_request *request, const char *path, const char *name, const weft_layout *layout, const int64_t chunk[],
                      weft_outcome *outcome)
{
    char described[256];
    weft_zarr_array array = { .ndim = layout->ndim, .dtype = layout->dtype, .chain = request->chain };
    memcpy(array.shape, layout->shape, sizeof(array.shape));
    memcpy(array.chunk, chunk, sizeof(array.chunk));
    weft_text folder = weft_text_growing(), text = weft_text_growing();
    weft_text_add(&folder, "%s/%s", path, name);
    weft_zarr_add(&text, &array, name, weft_layout_describe(layout, described, sizeof(described)));
    if (folder.failed) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for a path");
    }
    for (char *slash = folder.characters + strlen(path) + 1; outcome->status == WEFT_OK && (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        if (!weft_tree_exists(folder.characters)) {
            add_group(folder.characters, 0, outcome);
        }
        *slash = '/';
    }
    if (outcome->status == WEFT_OK) {
        add_node(folder.characters, &text, outcome);
    }
    weft_text_free(&folder);
    weft_text_free(&text);
}

static void remove_store(const char *path, weft_outcome *outcome)
{
    const char *failed = weft_disk_is_taken(path) ? weft_tree_remove(path, "zarr.json") : NULL;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    }
}

/* A save in progress. */
typedef struct saving {
    char *path, *temporary; /* the program's path, which may end in '/', without that */
    char *aside;            /* where the file system cannot exchange names: for the old store */
    weft_tensor_impl **tensors;
    const weft_layout **layouts;
    int64_t (*chunks)[WEFT_MAX_DIMS];
} saving;

/* After a crash between two renames the old store is aside, and nothing at the path. */
static void bring_back(const saving *s, weft_outcome *outcome)
{
    check_place(s->aside, true, outcome);
    if (outcome->status == WEFT_OK && weft_disk_is_taken(s->aside) && !weft_disk_is_taken(s->path) && rename(s->aside, s->path) != 0) {
        weft_outcome_fail_disk(outcome, s->aside, "rename");
    }
}

/* On process 0: the new store, without chunks. */
static void create(const save_request *request, const saving *s, uint64_t number, weft_outcome *outcome)
{
    const weft_file_call *call = &request->call;
    const char *temporary = s->temporary;
    bring_back(s, outcome);
    check_place(s->path, false, outcome);
    check_place(temporary, true, outcome);
    if (outcome->status == WEFT_OK) {
        remove_store(temporary, outcome);
        remove_store(s->aside, outcome);
    }
    if (outcome->status == WEFT_OK) {
        add_group(temporary, number, outcome);
    }
    for (int i = 0; i < call->n && outcome->status == WEFT_OK; i++) {
        add_array(request, temporary, call->names[i], s->layouts[i], s->chunks[i], outcome);
    }
}

/* On process 0. The old store is at the temporary path or aside then. */
static void take_place(const saving *s, weft_outcome *outcome)
{
    bool done = false;
    const char *failed = weft_tree_sync(s->temporary);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, s->temporary, failed);
        return;
    }
    check_place(s->path, false, outcome);
    failed = outcome->status == WEFT_OK ? weft_tree_replace(s->temporary, s->path, s->aside, &done) : NULL;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, s->path, failed);
    }
}

/* ---- saving --------------------------------------------------------------------------------------------------------- */

/* Made from the time and the process's number; not 0. */
static uint64_t new_number(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t of[] = { now.tv_sec, now.tv_nsec, getpid() };
    return weft_hash_bytes(of, sizeof(of), 0) | 1;
}

static void saving_free(saving *s)
{
    free(s->path);
    free(s->temporary);
    free(s->aside);
    free(s->tensors);
    free(s->layouts);
    free(s->chunks);
}

static bool saving_new(saving *s, const weft_file_call *call)
{
    const size_t n = (size_t)call->n + 1;
    char *path = join(call->path, "");
    for (size_t end = path == NULL ? 0 : strlen(path); end > 1 && path[end - 1] == '/'; end--) {
        path[end - 1] = '\0';
    }
    *s = (saving){ .path = path, .temporary = path == NULL ? NULL : join(path, ".tmp"),
                   .aside = path == NULL ? NULL : join(path, ".tmp.old"), .tensors = calloc(n, sizeof(*s->tensors)),
                   .layouts = calloc(n, sizeof(*s->layouts)), .chunks = calloc(n, sizeof(*s->chunks)) };
    return s->temporary != NULL && s->aside != NULL && s->tensors != NULL && s->layouts != NULL && s->chunks != NULL;
}

static weft_status make_tensors(const save_request *request, saving *s)
{
    const weft_file_call *call = &request->call;
    for (int i = 0; i < call->n; i++) {
        s->tensors[i] = in_chunks(request, weft_tensor_get(call->tensors[i]), s->chunks[i]);
        if (s->tensors[i] == NULL) {
            return weft_latest_status();
        }
        s->layouts[i] = s->tensors[i]->layout;
    }
    return WEFT_OK;
}

/* All processes see the store that process 0 has made, and write their chunks. */
static weft_status write_chunks(const save_request *request, const saving *s, uint64_t number)
{
    const weft_file_call *call = &request->call;
    bool begun;
    weft_outcome outcome = { .status = WEFT_OK };
    int64_t mine[WEFT_OUTCOME_NUMBERS], *all = calloc((size_t)weft_runtime.num_processes * WEFT_OUTCOME_NUMBERS, sizeof(*all));
    if (all == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for the outcomes of processes");
    }
    if (number_of_store(s->temporary, &begun, &outcome) != number) {
        char process[64];
        weft_outcome_fail(&outcome, WEFT_ERR_IO, "%s does not see %.150s, which process 0 has made: all need one file system",
                          weft_process_text(weft_runtime.process, process, sizeof(process)), s->temporary);
    }
    if (outcome.status == WEFT_OK) {
        weft_boxes_write(call, s->temporary, s->tensors, weft_zarr_write, &outcome);
    }
    memcpy(mine, &outcome, sizeof(outcome));
    const weft_status status = weft_outcome_agree(call->function, WEFT_OUTCOME_NUMBERS, mine, all);
    free(all);
    return status;
}

static weft_status save(const save_request *request, saving *s)
{
    const char *function = request->call.function;
    const bool first = weft_runtime.process == 0;
    int64_t number = (int64_t)new_number();
    weft_outcome outcome = { .status = WEFT_OK }, ignored = { .status = WEFT_OK };
    weft_status status = make_tensors(request, s);
    if (status == WEFT_OK && first) {
        create(request, s, (uint64_t)number, &outcome);
    }
    status = status == WEFT_OK ? weft_outcome_broadcast(function, 0, &outcome) : status;
    const bool made = status == WEFT_OK;
    if (made && !weft_numbers_broadcast(function, 0, 1, &number)) {
        status = weft_latest_status();
    }
    status = status == WEFT_OK ? write_chunks(request, s, (uint64_t)number) : status;
    if (status == WEFT_OK && first) {
        take_place(s, &outcome);
    }
    status = status == WEFT_OK ? weft_outcome_broadcast(function, 0, &outcome) : status;
    if (made && first) { /* the old store, or the new one after a failure */
        remove_store(s->temporary, &ignored);
        if (weft_disk_is_taken(s->path)) {
            remove_store(s->aside, &ignored);
        }
    }
    return status;
}

static weft_status perform_save(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const save_request *request = call->details->memory;
    saving s;
    if (!weft_check_file_spmd(&request->call, true)) {
        return weft_latest_status();
    }
    weft_status status;
    if (saving_new(&s, &request->call)) {
        weft_scope_begin();
        status = save(request, &s);
        weft_scope_end_own();
    } else {
        status = weft_fail(WEFT_ERR_NOMEM, call->function, "no memory to save %d tensors", request->call.n);
    }
    saving_free(&s);
    return status;
}

weft_status weft_zarr_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                           const weft_zarr_options *options)
{
    static const char function[] = "weft_zarr_save";
    static const weft_operation action = { .name = "zarr_save", .perform = perform_save, .effects = WEFT_NEEDS_DATA };
    save_request request = { .call = { .function = function, .path = path, .n = n, .names = names, .tensors = tensors } };
    weft_file_call *call = &request.call;
    if (!weft_check_file_call(call) || !weft_check_file_waits(call) || !weft_boxes_check_types(call, "Zarr") || !check_names(call) ||
        !check_places(call) ||
        (options != NULL && !WEFT_TAKE_OPTIONS(function, &request.options, options)) || !check_options(function, &request)) {
        weft_check_file_spmd(call, false);
        return weft_latest_status();
    }
    const uint64_t kind = (uint64_t)request.chain.codecs[0] * 64 + (uint64_t)request.options.level;
    call->digest = weft_digest_add(kind, (uint64_t)request.options.chunk_bytes);
    return weft_act_on_file(call, &action, &request);
}

/* ---- loading -------------------------------------------------------------------------------------------------------- */

static weft_status perform_load(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_file_call *given = call->details->memory;
    return weft_check_file_spmd(given, true) ? weft_boxes_load(given, weft_zarr_read) : weft_latest_status();
}

weft_status weft_zarr_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const weft_operation action = { .name = "zarr_load", .perform = perform_load, .effects = WEFT_NEEDS_DATA };
    weft_file_call call = {
        .function = "weft_zarr_load", .path = path, .n = n, .names = names, .tensors = tensors, .may_be_empty = true
    };
    if (!weft_check_file_call(&call) || !weft_check_file_waits(&call) || !weft_check_file_layouts(&call) ||
        !weft_boxes_check_types(&call, "Zarr") || !check_names(&call)) {
        weft_check_file_spmd(&call, false);
        return weft_latest_status();
    }
    return weft_act_on_file(&call, &action, &call);
}
