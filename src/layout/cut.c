/* Cuts: which rows of a dimension each part holds. Lists of sizes. */
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "layout/layout.h"

/* ---- lists of sizes ------------------------------------------------------------------------------------ */

/* Placements are values that may outlive the library's state, and may be made by any thread: the lists stay, in buckets that only
 * grow, at their front. */
enum { NUM_BUCKETS = 256 };
static _Atomic(weft_sizes *) lists[NUM_BUCKETS];

static weft_sizes *find(weft_sizes *first, const weft_sizes *before, uint64_t digest, int64_t count, const int64_t sizes[])
{
    for (weft_sizes *known = first; known != before; known = known->next) {
        if (known->digest == digest && known->count == count &&
            memcmp(known->sizes, sizes, (size_t)count * sizeof(*sizes)) == 0) {
            return known;
        }
    }
    return NULL;
}

static bool makes_same_parts(const weft_sizes *list, weft_cut_kind cut)
{
    weft_placement other = { .kind = WEFT_SHARD, .cut = cut };
    bool same = true;
    for (int64_t i = 0; i < list->count && same; i++) {
        int64_t offset, extent;
        weft_part_range(other, list->total, list->count, i, &offset, &extent);
        same = extent == list->sizes[i];
    }
    return same;
}

static weft_sizes *make_list(uint64_t digest, int64_t count, const int64_t sizes[])
{
    size_t numbers = 3 * (size_t)count + 2;
    weft_sizes *list = malloc(sizeof(*list) + numbers * sizeof(int64_t));
    if (list == NULL) {
        return NULL;
    }
    *list = (weft_sizes){ .digest = digest, .count = count, .begin = list->sizes + count,
                           .filled = list->sizes + 2 * count + 1 };
    list->filled[0] = 0;
    memcpy(list->sizes, sizes, (size_t)count * sizeof(*sizes));
    for (int64_t i = 0; i < count; i++) {
        list->begin[i] = list->total;
        list->filled[i + 1] = list->filled[i] + (sizes[i] > 0);
        list->total += sizes[i];
        list->largest = sizes[i] > sizes[list->largest] ? i : list->largest;
    }
    list->begin[count] = list->total;
    list->equal = makes_same_parts(list, WEFT_CUT_CHUNKS)     ? WEFT_CUT_CHUNKS
                  : makes_same_parts(list, WEFT_CUT_BALANCED) ? WEFT_CUT_BALANCED
                                                              : WEFT_CUT_SIZES;
    return list;
}

const weft_sizes *weft_sizes_intern(int64_t count, const int64_t sizes[])
{
    int64_t total = 0;
    uint64_t digest = weft_digest_add(0, (uint64_t)count);
    for (int64_t i = 0; sizes != NULL && i < count; i++) {
        if (sizes[i] < 0 || total > INT64_MAX - sizes[i]) {
            return NULL;
        }
        total += sizes[i];
        digest = weft_digest_add(digest, (uint64_t)sizes[i]);
    }
    if (sizes == NULL || count < 1 || count > INT_MAX) {
        return NULL;
    }
    _Atomic(weft_sizes *) *bucket = &lists[weft_hash_u64(digest) % NUM_BUCKETS];
    weft_sizes *first = atomic_load_explicit(bucket, memory_order_acquire);
    weft_sizes *known = find(first, NULL, digest, count, sizes);
    weft_sizes *list = known == NULL ? make_list(digest, count, sizes) : NULL;
    while (list != NULL) {
        weft_sizes *seen = first; /* those from here on have been looked at */
        list->next = first;
        if (atomic_compare_exchange_weak_explicit(bucket, &first, list, memory_order_acq_rel, memory_order_acquire)) {
            return list;
        }
        known = find(first, seen, digest, count, sizes);
        if (known != NULL) {
            free(list);
            list = NULL;
        }
    }
    return known;
}

/* ---- cyclic and zigzag --------------------------------------------------------------------------------- */

bool weft_cut_has_runs(weft_placement shard)
{
    return shard.kind == WEFT_SHARD && (shard.cut == WEFT_CUT_CYCLIC || shard.cut == WEFT_CUT_ZIGZAG);
}

/* The place of a part in the order in which blocks are dealt. */
static int64_t turn_of(weft_placement shard, int64_t parts, int64_t index)
{
    return (index + parts - shard.first % parts) % parts;
}

/* The rows that the parts 0 .. index - 1 store. */
static int64_t cyclic_begin(weft_placement shard, int64_t n, int64_t parts, int64_t index)
{
    int64_t round = weft_mul_saturated(shard.block, parts), rest = n % round; /* rows of the last round, cut short */
    int64_t first = shard.first % parts, wraps = weft_min_i64(index, first);    /* so many parts have the last turns */
    int64_t last_turns = weft_min_i64(rest, weft_mul_saturated(shard.block, parts - first + wraps)) -
                         weft_min_i64(rest, weft_mul_saturated(shard.block, parts - first));
    return n / round * shard.block * index + last_turns + weft_min_i64(rest, weft_mul_saturated(shard.block, index - wraps));
}

static int64_t zigzag_begin(int64_t n, int64_t parts, int64_t index)
{
    int64_t chunk = weft_ceil_div(n, 2 * parts);
    return weft_min_i64(index * chunk, n) + n - weft_min_i64(weft_mul_saturated(2 * parts - index, chunk), n);
}

static int64_t runs_begin(weft_placement shard, int64_t n, int64_t parts, int64_t index)
{
    return shard.cut == WEFT_CUT_CYCLIC ? cyclic_begin(shard, n, parts, index) : zigzag_begin(n, parts, index);
}

int64_t weft_part_run(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t run, int64_t *begin)
{
    int64_t rows;
    if (!weft_cut_has_runs(shard)) {
        weft_part_range(shard, n, parts, index, begin, &rows);
        return run == 0 ? rows : 0;
    }
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        int64_t chunk = weft_ceil_div(n, 2 * parts);
        *begin = run > 1 ? n : weft_min_i64(weft_mul_saturated(chunk, run == 0 ? index : 2 * parts - 1 - index), n);
        return weft_min_i64(chunk, n - *begin);
    }
    int64_t number;
    bool fits = weft_mul_checked(run, parts, &number) &&
                weft_mul_checked(number + turn_of(shard, parts, index), shard.block, begin) && *begin < n;
    *begin = fits ? *begin : n;
    return weft_min_i64(shard.block, n - *begin);
}

/* ---- parts --------------------------------------------------------------------------------------------- */

static bool has_sizes(weft_placement shard, int64_t n, int64_t parts)
{
    return shard.cut == WEFT_CUT_SIZES && shard.sizes->count == parts && shard.sizes->total == n;
}

void weft_part_range(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t *offset, int64_t *extent)
{
    if (has_sizes(shard, n, parts)) {
        *offset = shard.sizes->begin[index];
        *extent = shard.sizes->sizes[index];
    } else if (shard.cut == WEFT_CUT_BALANCED) {
        int64_t rows = n / parts, more = n % parts;
        *offset = rows * index + weft_min_i64(index, more);
        *extent = rows + (index < more);
    } else if (weft_cut_has_runs(shard)) {
        *offset = runs_begin(shard, n, parts, index);
        *extent = runs_begin(shard, n, parts, index + 1) - *offset;
    } else {
        int64_t chunk = weft_ceil_div(n, parts);
        *offset = chunk > 0 && index < weft_ceil_div(n, chunk) ? chunk * index : n;
        *extent = weft_min_i64(chunk, n - *offset);
    }
}

int64_t weft_part_of_row(weft_placement shard, int64_t n, int64_t parts, int64_t row)
{
    if (has_sizes(shard, n, parts) || weft_cut_has_runs(shard)) {
        int64_t low = 0, high = parts - 1; /* the last part that begins at the row or before it */
        while (low < high) {
            int64_t middle = low + (high - low + 1) / 2;
            int64_t begin = weft_cut_has_runs(shard) ? runs_begin(shard, n, parts, middle) : shard.sizes->begin[middle];
            low = begin <= row ? middle : low;
            high = begin <= row ? high : middle - 1;
        }
        return low;
    }
    if (shard.cut == WEFT_CUT_BALANCED) {
        int64_t rows = n / parts, more = n % parts;
        return row < (rows + 1) * more ? row / (rows + 1) : more + (row - (rows + 1) * more) / rows;
    }
    return row / weft_ceil_div(n, parts);
}

int64_t weft_part_largest(weft_placement shard, int64_t n, int64_t parts, int64_t *rows)
{
    bool listed = has_sizes(shard, n, parts);
    bool second = shard.cut == WEFT_CUT_ZIGZAG && n > weft_mul_saturated(weft_ceil_div(n, 2 * parts), parts); /* chunk p has rows */
    int64_t largest = listed ? shard.sizes->largest : second ? parts - 1 : shard.cut == WEFT_CUT_CYCLIC ? shard.first % parts : 0;
    int64_t offset;
    *rows = listed ? shard.sizes->sizes[largest] : weft_ceil_div(n, parts);
    if (weft_cut_has_runs(shard)) {
        weft_part_range(shard, n, parts, largest, &offset, rows);
    }
    return largest;
}

int64_t weft_parts_filled(weft_placement shard, int64_t n, int64_t parts, int64_t first, int64_t last)
{
    if (!weft_cut_has_runs(shard)) {
        return has_sizes(shard, n, parts) ? shard.sizes->filled[last + 1] - shard.sizes->filled[first] : last - first + 1;
    }
    int64_t filled = 0;
    for (int64_t index = first; index <= last; index++) {
        filled += runs_begin(shard, n, parts, index) < runs_begin(shard, n, parts, index + 1);
    }
    return filled;
}

int64_t weft_parts_alike(weft_placement shard, int64_t n, int64_t parts, int64_t index)
{
    if (has_sizes(shard, n, parts)) {
        int64_t next = index + 1;
        while (next < parts && shard.sizes->sizes[next] == shard.sizes->sizes[index]) {
            next++;
        }
        return next - index;
    }
    if (weft_cut_has_runs(shard)) {
        int64_t begin = runs_begin(shard, n, parts, index), end = runs_begin(shard, n, parts, index + 1), rows = end - begin;
        int64_t next = index + 1;
        for (; next < parts && (begin = end, end = runs_begin(shard, n, parts, next + 1), end - begin == rows); next++) {}
        return next - index;
    }
    if (shard.cut == WEFT_CUT_BALANCED) {
        int64_t more = n % parts;
        return index < more ? more - index : parts - index;
    }
    int64_t chunk = weft_ceil_div(n, parts), whole = chunk == 0 ? 0 : n / chunk;
    bool last = index == whole && whole < parts && chunk > 0 && n % chunk != 0;
    return index < whole ? whole - index : last ? 1 : parts - index;
}

/* Whether balanced parts are chunks. */
static bool balanced_are_chunks(int64_t n, int64_t parts)
{
    int64_t more = n % parts;
    return more == 0 || more == parts - 1 || n < parts;
}

/* Whether cyclic or zigzag parts are chunks. */
static bool runs_are_chunks(weft_placement shard, int64_t n, int64_t parts)
{
    bool blocks = shard.first % parts == 0 && (n == 1 || weft_ceil_div(n, parts) == shard.block);
    return n == 0 || (shard.cut == WEFT_CUT_ZIGZAG ? n <= parts : blocks);
}

/* The different numbers of rows that the parts of a tensor dimension have, as far as it has been cut. */
typedef struct extents {
    int count; /* -1: too many to tell */
    int64_t rows[16];
    bool cut; /* into more than one part */
} extents;

static void add_extent(extents *e, int64_t rows)
{
    for (int i = 0; i < e->count; i++) {
        if (e->rows[i] == rows) {
            return;
        }
    }
    if (e->count == (int)WEFT_ARRAY_SIZE(e->rows)) {
        e->count = -1;
    } else if (e->count >= 0) {
        e->rows[e->count++] = rows;
    }
}

/* Cuts all parts once more. */
static void cut_extents(extents *e, weft_placement shard, int64_t parts)
{
    extents finer = { .cut = e->cut || parts > 1, .count = e->count < 0 ? -1 : 0 };
    for (int i = 0; i < e->count; i++) {
        for (int64_t c = 0; c < parts && finer.count >= 0; c += weft_parts_alike(shard, e->rows[i], parts, c)) {
            int64_t offset, extent;
            weft_part_range(shard, e->rows[i], parts, c, &offset, &extent);
            add_extent(&finer, extent);
        }
    }
    *e = finer;
}

/* A Shard's canonical form, after others have cut the dimension into parts of these rows. */
static weft_placement canonical(weft_placement placement, const extents *before, int64_t parts)
{
    weft_cut_kind cut = placement.cut;
    if (cut == WEFT_CUT_SIZES) {
        cut = !before->cut && has_sizes(placement, before->rows[0], parts) ? placement.sizes->equal : WEFT_CUT_CHUNKS;
    }
    bool chunks = parts == 1 || before->count >= 0, runs = weft_cut_has_runs(placement);
    for (int i = 0; i < before->count && chunks && parts > 1; i++) {
        chunks = runs ? runs_are_chunks(placement, before->rows[i], parts) : balanced_are_chunks(before->rows[i], parts);
    }
    if ((cut == WEFT_CUT_BALANCED || runs) && chunks) {
        cut = WEFT_CUT_CHUNKS;
    }
    bool cyclic = cut == WEFT_CUT_CYCLIC;
    return (weft_placement){ .kind = WEFT_SHARD, .dim = placement.dim, .cut = cut,
                             .sizes = cut == WEFT_CUT_SIZES ? placement.sizes : NULL, .level = placement.level,
                             .block = cyclic ? placement.block : 0, .first = cyclic ? (int)(placement.first % parts) : 0 };
}

/* Numbers the levels of each tensor dimension that is not cut from left to right. */
static void settle_levels(const weft_mesh_impl *mesh, const int order[], weft_placement placements[])
{
    int last[WEFT_MAX_DIMS] = { 0 }, count[WEFT_MAX_DIMS] = { 0 };
    bool turned[WEFT_MAX_DIMS] = { false };
    for (int i = 0; i < mesh->ndim; i++) {
        weft_placement *p = &placements[order[i]];
        p->level = 0;
        if (p->kind == WEFT_SHARD && mesh->shape[order[i]] > 1) {
            turned[p->dim] = turned[p->dim] || last[p->dim] > order[i];
            last[p->dim] = order[i];
            p->level = count[p->dim]++;
        }
    }
    for (int m = 0; m < mesh->ndim; m++) {
        weft_placement *p = &placements[m];
        p->level = p->kind == WEFT_SHARD && turned[p->dim] ? p->level : 0;
    }
}

void weft_placements_settle(const weft_mesh_impl *mesh, const int64_t shape[], weft_placement placements[])
{
    extents of[WEFT_MAX_DIMS] = { { 0 } };
    int order[WEFT_MAX_DIMS];
    weft_cut_order(mesh->ndim, placements, order);
    for (int i = 0; i < mesh->ndim; i++) {
        int m = order[i];
        weft_placement *p = &placements[m];
        if (p->kind == WEFT_SHARD) {
            extents *before = &of[p->dim];
            if (!before->cut) {
                *before = (extents){ 1, { shape[p->dim] }, false };
            }
            *p = canonical(*p, before, mesh->shape[m]);
            cut_extents(before, *p, mesh->shape[m]);
        }
    }
    settle_levels(mesh, order, placements);
}
