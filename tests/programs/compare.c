/* Values against their reference, and replicas against each other. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "layout/layout.h"

bool is_partial(weft_tensor *tensor)
{
    const weft_placement *placements = weft_tensor_placements(tensor);
    int ndim = weft_mesh_ndim(weft_tensor_mesh(tensor));
    for (int m = 0; m < ndim; m++) {
        if (placements[m].kind == WEFT_PARTIAL) {
            return true;
        }
    }
    return false;
}

bool is_partial_sum(weft_tensor *tensor)
{
    const weft_placement *placements = weft_tensor_placements(tensor);
    int ndim = weft_mesh_ndim(weft_tensor_mesh(tensor));
    for (int m = 0; m < ndim; m++) {
        if (placements[m].kind == WEFT_PARTIAL &&
            (placements[m].op == WEFT_SUM || placements[m].op == WEFT_AVG)) {
            return true;
        }
    }
    return false;
}

/* ---- elements ------------------------------------------------------------------------------------------ */

static const char *element_text(weft_dtype dtype, element x, char *text, size_t size)
{
    if (is_floating(dtype)) {
        snprintf(text, size, "%.17g", x.real);
    } else {
        snprintf(text, size, "%lld", (long long)x.whole);
    }
    return text;
}

static const char *layout_of(const running *r, int value, char *text, size_t size)
{
    const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[value]];
    const dense *x = r->evaluation.values[value];
    weft_text written = weft_text_in(text, size);
    weft_text_add(&written, "%s[", weft_dtype_name(x->dtype));
    weft_text_add_sizes(&written, x->ndim, x->shape, ",");
    weft_text_add(&written, "] on mesh ");
    weft_text_add_sizes(&written, mesh->ndim, mesh->shape, "x");
    weft_text_add(&written, " as ");
    weft_placements_write(&written, weft_tensor_placements(r->tensors[value]), mesh->ndim);
    return text;
}

/* Element i of a part, which is element `place` of the whole. rank -1: all processes have it. */
static void compare_element(running *r, int value, int64_t place, element got, int rank)
{
    const dense *x = r->evaluation.values[value];
    char found[40], wanted[40], layout[200], where[40] = "the whole";
    if (rank >= 0) {
        snprintf(where, sizeof(where), "rank %d", rank);
    }
    if (!dense_accepts(x, place, got)) {
        run_fail(r, "value %d, %s: element %lld of %s is %s, expected %s (allowed %.3g)", value,
                 layout_of(r, value, layout, sizeof(layout)), (long long)place, where,
                 element_text(x->dtype, got, found, sizeof(found)),
                 element_text(x->dtype, x->at[place], wanted, sizeof(wanted)),
                 x->slack == NULL ? 0 : x->slack[place]);
    }
    r->tally->elements++;
    r->tally->unknown += x->slack != NULL && x->slack[place] == (double)INFINITY;
}

/* Of so many elements. */
static size_t bytes_of(const dense *x, int64_t count)
{
    return (size_t)count * weft_dtype_size(x->dtype);
}

static void compare_whole(running *r, int value, const void *memory)
{
    const dense *x = r->evaluation.values[value];
    for (int64_t i = 0; i < x->count; i++) {
        compare_element(r, value, i, element_load(x->dtype, memory, i), -1);
    }
}

/* ---- trails -------------------------------------------------------------------------------------------- */

static uint64_t digest_of(const void *memory, size_t bytes, uint64_t begin)
{
    uint64_t hash = begin ^ UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ ((const unsigned char *)memory)[i]) * UINT64_C(0x100000001b3);
    }
    return hash | 1; /* never 0 */
}

void trail_add(trail *t, entry added)
{
    if (t->count == t->capacity) {
        t->capacity = 2 * t->capacity + 64;
        t->entries = realloc(t->entries, t->capacity * sizeof(*t->entries));
    }
    t->entries[t->count++] = added;
}

void trail_clear(trail *t)
{
    free(t->entries);
    *t = (trail){ 0 };
}

void note_tensor(running *r, int value, weft_tensor *tensor)
{
    entry added = { .step = r->step, .value = value };
    end_segment(r);
    for (int i = 0; i < weft_local_ranks(); i++) {
        size_t bytes = weft_local_bytes(tensor, i);
        void *memory = malloc(bytes + 1);
        if (bytes > 0 && weft_local_to_host(tensor, i, memory, bytes) != WEFT_OK) {
            run_fail(r, "weft_local_to_host() of value %d: %s", value, weft_last_error());
        }
        added.bits = digest_of(memory, bytes, added.bits);
        free(memory);
    }
    trail_add(r->trail, added);
    r->tally->tensors++;
}

/* ---- where a shard's elements are ----------------------------------------------------------------------- */

bool has_runs(int count, const weft_placement placements[])
{
    bool runs = false;
    for (int m = 0; m < count; m++) {
        runs = runs || (placements[m].kind == WEFT_SHARD && (placements[m].cut > WEFT_CUT_SIZES || placements[m].period > 0));
    }
    return runs;
}

shard_rows rows_of_box(int ndim, const int64_t offset[], const int64_t extent[])
{
    shard_rows rows = { .extent = { 0 } };
    for (int d = 0; d < ndim; d++) {
        rows.extent[d] = extent[d];
        rows.rows[d] = malloc((size_t)extent[d] * sizeof(int64_t) + 1);
        for (int64_t i = 0; i < extent[d]; i++) {
            rows.rows[d][i] = offset[d] + i;
        }
    }
    return rows;
}

shard_rows rows_of_shard(weft_tensor *tensor, int local_rank)
{
    shard_rows rows = { .extent = { 0 } };
    for (int d = 0; d < weft_tensor_ndim(tensor); d++) {
        int64_t most = weft_local_runs(tensor, local_rank, d, 0, NULL), size = weft_tensor_size(tensor, d);
        weft_index_run *runs = malloc((size_t)most * sizeof(*runs) + 1);
        rows.rows[d] = malloc((size_t)size * sizeof(int64_t) + 1);
        weft_local_runs(tensor, local_rank, d, most, runs);
        for (int64_t r = 0; r < most; r++) {
            for (int64_t i = 0; i < runs[r].count; i++) {
                rows.rows[d][rows.extent[d]++] = runs[r].begin + i;
            }
        }
        free(runs);
    }
    return rows;
}

void free_rows(shard_rows *rows, int ndim)
{
    for (int d = 0; d < ndim; d++) {
        free(rows->rows[d]);
    }
}

void element_of_shard(const shard_rows *rows, int ndim, int64_t number, int64_t at[])
{
    unravel(ndim, rows->extent, number, at);
    for (int d = 0; d < ndim; d++) {
        at[d] = rows->rows[d][at[d]];
    }
}

/* ---- replicas ------------------------------------------------------------------------------------------ */

/* The same for all ranks that must have the same: their part of the tensor, and of addends. */
static uint64_t box_of(const running *r, int value, weft_tensor *tensor, int rank)
{
    const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[value]];
    const weft_placement *placements = weft_tensor_placements(tensor);
    const dense *x = r->evaluation.values[value];
    int64_t numbers[2 * WEFT_MAX_DIMS + 1] = { 0 }, coordinate[MAX_MESH_DIMS], parts;
    weft_reduce_op op;
    mesh_coordinate(mesh, mesh_index(mesh, rank), coordinate);
    if (!has_runs(mesh->ndim, placements)) {
        weft_shard_box(weft_tensor_mesh(tensor), placements, x->ndim, x->shape, rank, numbers, numbers + WEFT_MAX_DIMS);
    }
    for (int m = 0; m < mesh->ndim && has_runs(mesh->ndim, placements); m++) {
        numbers[m] = placements[m].kind == WEFT_SHARD ? coordinate[m] : -1;
    }
    numbers[2 * WEFT_MAX_DIMS] = addend_index(mesh, placements, coordinate, &parts, &op);
    return digest_of(numbers, sizeof(numbers), 1);
}

static digest *new_digest(running *r, int value, weft_tensor *tensor)
{
    if (r->num_digests == MAX_DIGESTS) {
        return NULL;
    }
    digest *d = &r->digests[r->num_digests++];
    *d = (digest){ .value = value, .step = r->step };
    const mesh_plan *mesh = &r->program->meshes[r->evaluation.meshes[value]];
    for (int rank = 0; rank < r->program->ranks; rank++) {
        d->box[rank] = mesh_index(mesh, rank) < 0 ? 0 : box_of(r, value, tensor, rank);
    }
    return d;
}

static void compare_digests(running *r, const digest *d, const uint64_t bits[])
{
    for (int a = 0; a < r->program->ranks; a++) {
        for (int b = 0; b < a; b++) {
            if (d->box[a] == d->box[b] && d->box[a] != 0 && bits[a] != 0 && bits[b] != 0 &&
                bits[a] != bits[b]) {
                run_fail(r, "value %d, compared at step %d: replicas on ranks %d and %d differ", d->value,
                         d->step, b, a);
            }
        }
    }
}

/* All ranks' digests on all processes: through weft itself. */
void compare_replicas(running *r)
{
    for (int i = 0; i < r->num_digests; i++) {
        compare_digests(r, &r->digests[i], r->digests[i].bits);
    }
    if (r->program->processes == 1 || r->num_digests == 0) {
        return;
    }
    int64_t shape[] = { r->program->ranks, r->num_digests };
    void *locals[MAX_RANKS];
    int64_t *all = malloc((size_t)(shape[0] * shape[1]) * sizeof(*all));
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t *row = all + (weft_first_rank() + i) * shape[1];
        for (int k = 0; k < r->num_digests; k++) {
            row[k] = (int64_t)r->digests[k].bits[weft_first_rank() + i];
        }
        locals[i] = row;
    }
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, shape, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *tensor = weft_from_local(WEFT_I64, 2, shape, locals, mesh, &rows, WEFT_COPY);
    if (weft_to_host(tensor, all, (size_t)(shape[0] * shape[1]) * sizeof(*all)) != WEFT_OK) {
        run_fail(r, "gathering digests: %s", weft_last_error());
    }
    weft_scope_end();
    for (int k = 0; k < r->num_digests; k++) {
        uint64_t bits[MAX_RANKS];
        for (int rank = 0; rank < r->program->ranks; rank++) {
            bits[rank] = (uint64_t)all[rank * shape[1] + k];
        }
        compare_digests(r, &r->digests[k], bits);
    }
    free(all);
}

/* ---- shards -------------------------------------------------------------------------------------------- */

/* The shards of a tensor that has a value's values, perhaps in another layout. */
static void compare_shards(running *r, int value, weft_tensor *tensor, const mesh_plan *mesh)
{
    const dense *x = r->evaluation.values[value];
    bool addends = is_partial(tensor);
    end_segment(r);
    digest *d = (x->slack != NULL && !x->undefined) || addends ? new_digest(r, value, tensor) : NULL;
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        int64_t at[WEFT_MAX_DIMS];
        if (mesh_index(mesh, rank) < 0 || (addends && d == NULL)) {
            continue;
        }
        shard_rows rows = rows_of_shard(tensor, i);
        int64_t count = count_of(x->ndim, rows.extent);
        void *memory = malloc((size_t)count * 8 + 8);
        if (weft_local_to_host(tensor, i, memory, bytes_of(x, count)) != WEFT_OK) {
            run_fail(r, "weft_local_to_host() of value %d: %s", value, weft_last_error());
        }
        for (int64_t k = 0; k < count && !addends; k++) {
            element_of_shard(&rows, x->ndim, k, at);
            compare_element(r, value, ravel(x->ndim, x->shape, at), element_load(x->dtype, memory, k), rank);
        }
        if (d != NULL) {
            d->bits[rank] = digest_of(memory, bytes_of(x, count), 0);
        }
        free(memory);
        free_rows(&rows, x->ndim);
    }
}

static void compare_properties(running *r, int value)
{
    const dense *x = r->evaluation.values[value];
    weft_tensor *tensor = r->tensors[value];
    bool same = weft_tensor_ndim(tensor) == x->ndim && weft_tensor_dtype(tensor) == x->dtype &&
                weft_tensor_mesh(tensor) == r->meshes[r->evaluation.meshes[value]];
    for (int d = 0; d < x->ndim && same; d++) {
        same = weft_tensor_size(tensor, d) == x->shape[d];
    }
    if (!same) {
        char layout[200];
        run_fail(r, "value %d has another shape, type or mesh than %s: %d dimensions of %s", value,
                 layout_of(r, value, layout, sizeof(layout)), weft_tensor_ndim(tensor),
                 weft_dtype_name(weft_tensor_dtype(tensor)));
    }
}

/* The value of addends: reduced to all ranks, or into some layout. */
static void compare_reduced(running *r, int value)
{
    const dense *x = r->evaluation.values[value];
    uint64_t random = hash3(r->program->seed, (uint64_t)value, (uint64_t)r->step);
    int mesh_number = r->evaluation.meshes[value];
    const mesh_plan *mesh = &r->program->meshes[mesh_number];
    if (random % 3 == 0) {
        void *memory = malloc((size_t)x->count * 8 + 8);
        if (weft_to_host(r->tensors[value], memory, bytes_of(x, x->count)) != WEFT_OK) {
            run_fail(r, "weft_to_host() of value %d: %s", value, weft_last_error());
        }
        compare_whole(r, value, memory);
        free(memory);
        return;
    }
    weft_placement placements[MAX_MESH_DIMS];
    for (int m = 0; m < mesh->ndim; m++) {
        random /= 8;
        placements[m] = x->ndim == 0 || random % 2 == 0 ? weft_replicate()
                                                        : weft_shard((int)(random / 2 % (uint64_t)x->ndim));
    }
    weft_scope_begin();
    weft_tensor *reduced = weft_redistribute(r->tensors[value], r->meshes[mesh_number], placements);
    run_expect_no_error(r, "reducing a value to compare it");
    compare_shards(r, value, reduced, mesh);
    weft_scope_end();
}

void compare_value(running *r, int value)
{
    compare_properties(r, value);
    compare_shards(r, value, r->tensors[value], &r->program->meshes[r->evaluation.meshes[value]]);
    if (is_partial(r->tensors[value])) {
        compare_reduced(r, value);
    }
    run_expect_no_error(r, "comparing");
    r->compared[value] = true;
    r->tally->tensors++;
}

void adopt_value(running *r, int value)
{
    let_shards_go(r);
    dense *x = dense_copy(&r->evaluation.arena, r->evaluation.values[value]);
    compare_value(r, value);
    void *memory = malloc((size_t)x->count * 8 + 8);
    if (weft_to_host(r->tensors[value], memory, bytes_of(x, x->count)) != WEFT_OK) {
        run_fail(r, "weft_to_host() of value %d: %s", value, weft_last_error());
    }
    compare_whole(r, value, memory);
    for (int64_t i = 0; i < x->count; i++) {
        x->at[i] = element_load(x->dtype, memory, i);
    }
    free(memory);
    x->slack = NULL;
    x->signed_zeros = !x->partial;
    r->evaluation.values[value] = x;
}
