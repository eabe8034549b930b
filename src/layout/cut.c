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

static bool makes_same_parts(const weft_sizes *list, weft_placement other)
{
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
    const weft_placement others[] = { weft_shard(0), weft_shard_balanced(0), { .kind = WEFT_SHARD, .block = sizes[0] } };
    list->equal = (weft_placement){ .kind = WEFT_SHARD, .cut = WEFT_CUT_SIZES };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(others) && list->equal.cut == WEFT_CUT_SIZES; i++) {
        list->equal = makes_same_parts(list, others[i]) ? others[i] : list->equal;
    }
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

/* ---- cyclic, zigzag and periodic ----------------------------------------------------------------------- */

static bool has_sizes(weft_placement shard, int64_t n, int64_t parts)
{
    return shard.cut == WEFT_CUT_SIZES && shard.sizes->count == parts && shard.sizes->total == n;
}

bool weft_cut_has_runs(weft_placement shard)
{
    return shard.kind == WEFT_SHARD && (shard.cut == WEFT_CUT_CYCLIC || shard.cut == WEFT_CUT_ZIGZAG || shard.period > 0);
}

/* The place of a part in the order in which blocks are dealt. */
static int64_t turn_of(weft_placement shard, int64_t parts, int64_t index)
{
    return (index + parts - shard.first % parts) % parts;
}

static int64_t chunk_of(weft_placement shard, int64_t n, int64_t parts)
{
    int64_t even = weft_ceil_div(n, parts);
    return shard.block >= even && shard.block > 0 ? shard.block : even;
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

/* The same where `rows` rows are cut without regard to the period, of which the first n exist. */
static int64_t begin_within(weft_placement shard, int64_t rows, int64_t n, int64_t parts, int64_t index)
{
    if (shard.cut == WEFT_CUT_CYCLIC) {
        return cyclic_begin(shard, n, parts, index);
    }
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        int64_t chunk = weft_ceil_div(rows, 2 * parts);
        return weft_min_i64(index * chunk, n) + n - weft_min_i64(weft_mul_saturated(2 * parts - index, chunk), n);
    }
    if (has_sizes(shard, rows, parts)) {
        return weft_min_i64(shard.sizes->begin[index], n);
    }
    int64_t begin = shard.cut == WEFT_CUT_BALANCED ? rows / parts * index + weft_min_i64(index, rows % parts)
                                                   : weft_mul_saturated(chunk_of(shard, rows, parts), index);
    return weft_min_i64(begin, n);
}

static int64_t runs_begin(weft_placement shard, int64_t n, int64_t parts, int64_t index)
{
    if (shard.period == 0) {
        return begin_within(shard, n, n, parts, index);
    }
    int64_t each = shard.period <= n ? begin_within(shard, shard.period, shard.period, parts, index) : 0;
    return n / shard.period * each + begin_within(shard, shard.period, n % shard.period, parts, index);
}

/* How many runs a part has of `rows` rows that are cut without regard to the period. */
static int64_t count_runs(weft_placement shard, int64_t rows, int64_t parts, int64_t index)
{
    if (shard.cut == WEFT_CUT_CYCLIC) {
        int64_t blocks = weft_ceil_div(rows, shard.block) - turn_of(shard, parts, index);
        return blocks <= 0 ? 0 : (blocks - 1) / parts + 1;
    }
    int64_t chunk = weft_ceil_div(rows, 2 * parts);
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        return (weft_mul_saturated(chunk, index) < rows) + (weft_mul_saturated(chunk, 2 * parts - 1 - index) < rows);
    }
    return begin_within(shard, rows, rows, parts, index) < begin_within(shard, rows, rows, parts, index + 1);
}

/* weft_part_run() without regard to the period. */
static int64_t run_within(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t run, int64_t *begin)
{
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        int64_t chunk = weft_ceil_div(n, 2 * parts);
        *begin = run > 1 ? n : weft_min_i64(weft_mul_saturated(chunk, run == 0 ? index : 2 * parts - 1 - index), n);
        return weft_min_i64(chunk, n - *begin);
    }
    if (shard.cut != WEFT_CUT_CYCLIC) {
        *begin = begin_within(shard, n, n, parts, index);
        return run == 0 ? begin_within(shard, n, n, parts, index + 1) - *begin : 0;
    }
    int64_t number;
    bool fits = weft_mul_checked(run, parts, &number) && number < INT64_MAX - parts &&
                weft_mul_checked(number + turn_of(shard, parts, index), shard.block, begin) && *begin < n;
    *begin = fits ? *begin : n;
    return weft_min_i64(shard.block, n - *begin);
}

int64_t weft_part_run(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t run, int64_t *begin)
{
    int64_t rows, before;
    if (!weft_cut_has_runs(shard)) {
        weft_part_range(shard, n, parts, index, begin, &rows);
        return run == 0 ? rows : 0;
    }
    if (shard.period == 0) {
        return run_within(shard, n, parts, index, run, begin);
    }
    int64_t each = count_runs(shard, shard.period, parts, index);
    bool fits = each > 0 && weft_mul_checked(run / each, shard.period, &before) && before < n;
    rows = fits ? run_within(shard, shard.period, parts, index, run % each, begin) : 0;
    *begin = fits && *begin < n - before ? before + *begin : n;
    return weft_min_i64(rows, n - *begin);
}

/* weft_part_at() without regard to the period. */
static int64_t part_within(weft_placement shard, int64_t n, int64_t parts, int64_t row, int64_t *number, int64_t *together)
{
    if (shard.cut == WEFT_CUT_CYCLIC) {
        int64_t block = row / shard.block;
        *number = block / parts * shard.block + row % shard.block;
        *together = weft_min_i64(shard.block - row % shard.block, n - row);
        return (block + shard.first) % parts;
    }
    if (shard.cut == WEFT_CUT_ZIGZAG) {
        int64_t chunk = weft_ceil_div(n, 2 * parts), at = row / chunk;
        *number = row % chunk + (at < parts ? 0 : chunk);
        *together = weft_min_i64(chunk - row % chunk, n - row);
        return at < parts ? at : 2 * parts - 1 - at;
    }
    shard.period = 0;
    int64_t index = weft_part_of_row(shard, n, parts, row), begin, rows;
    weft_part_range(shard, n, parts, index, &begin, &rows);
    *number = row - begin;
    *together = begin + rows - row;
    return index;
}

int64_t weft_part_at(weft_placement shard, int64_t n, int64_t parts, int64_t row, int64_t *number, int64_t *together)
{
    if (shard.period == 0) {
        return part_within(shard, n, parts, row, number, together);
    }
    int64_t before = row / shard.period * shard.period, rows = shard.period;
    int64_t index = part_within(shard, rows, parts, row - before, number, together);
    *number += before / shard.period * (begin_within(shard, rows, rows, parts, index + 1) - begin_within(shard, rows, rows, parts, index));
    *together = weft_min_i64(*together, n - row);
    return index;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

void weft_part_range(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t *offset, int64_t *extent)
{
    if (weft_cut_has_runs(shard)) {
        *offset = runs_begin(shard, n, parts, index);
        *extent = runs_begin(shard, n, parts, index + 1) - *offset;
    } else if (has_sizes(shard, n, parts)) {
        *offset = shard.sizes->begin[index];
        *extent = shard.sizes->sizes[index];
    } else if (shard.cut == WEFT_CUT_BALANCED) {
        int64_t rows = n / parts, more = n % parts;
        *offset = rows * index + weft_min_i64(index, more);
        *extent = rows + (index < more);
    } else {
        int64_t chunk = chunk_of(shard, n, parts);
        *offset = chunk > 0 && index < weft_ceil_div(n, chunk) ? chunk * index : n;
        *extent = weft_min_i64(chunk, n - *offset);
    }
}

int64_t weft_part_of_row(weft_placement shard, int64_t n, int64_t parts, int64_t row)
{
    if (weft_cut_has_runs(shard) || has_sizes(shard, n, parts)) {
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
    return row / chunk_of(shard, n, parts);
}

static int64_t largest_of_all(weft_placement shard, int64_t n, int64_t parts, int64_t *rows)
{
    int64_t largest = 0, offset, extent;
    weft_part_range(shard, n, parts, 0, &offset, rows);
    for (int64_t index = 1; index < parts; index++) {
        weft_part_range(shard, n, parts, index, &offset, &extent);
        largest = extent > *rows ? index : largest;
        *rows = weft_max_i64(*rows, extent);
    }
    return largest;
}

int64_t weft_part_largest(weft_placement shard, int64_t n, int64_t parts, int64_t *rows)
{
    if (shard.period > 0 && (shard.cut == WEFT_CUT_SIZES || shard.cut == WEFT_CUT_ZIGZAG)) {
        return largest_of_all(shard, n, parts, rows); /* the last period, if it is cut short, may decide */
    }
    bool listed = has_sizes(shard, n, parts);
    bool second = shard.cut == WEFT_CUT_ZIGZAG && n > weft_mul_saturated(weft_ceil_div(n, 2 * parts), parts); /* chunk p has rows */
    int64_t largest = listed ? shard.sizes->largest : second ? parts - 1 : shard.cut == WEFT_CUT_CYCLIC ? shard.first % parts : 0;
    int64_t offset;
    *rows = listed ? shard.sizes->sizes[largest] : weft_min_i64(n, chunk_of(shard, n, parts));
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
    for (int64_t index = first, alike; index <= last; index += alike) {
        alike = weft_min_i64(weft_parts_alike(shard, n, parts, index), last - index + 1);
        filled += runs_begin(shard, n, parts, index) < runs_begin(shard, n, parts, index + 1) ? alike : 0;
    }
    return filled;
}

/* The first part whose chunk or block ends behind row n, of balanced parts of `rows` rows. */
static int64_t balanced_part_at(int64_t rows, int64_t n, int64_t parts)
{
    int64_t less = rows / parts, more = rows % parts, before = more * (less + 1);
    return n < before ? n / (less + 1) : less == 0 ? parts : more + (n - before) / less;
}

/* How many parts from `index` on have as many rows as it, or fewer of these parts, where `rows` rows are cut without regard to the
 * period, of which the first n exist. */
static int64_t alike_within(weft_placement shard, int64_t rows, int64_t n, int64_t parts, int64_t index)
{
    int64_t borders[] = { parts, parts, parts, parts }; /* parts from which on their blocks or chunks are whole, cut short, or none */
    if (shard.cut == WEFT_CUT_CYCLIC) {
        int64_t last = n % weft_mul_saturated(shard.block, parts) / shard.block + shard.first; /* block of the last round */
        borders[0] = shard.first % parts;
        borders[1] = last % parts;
        borders[2] = (last + 1) % parts;
    } else if (shard.cut == WEFT_CUT_ZIGZAG) {
        int64_t chunk = weft_ceil_div(rows, 2 * parts), last = chunk == 0 ? 0 : n / chunk;
        borders[0] = last;
        borders[1] = last + 1;
        borders[2] = 2 * parts - 1 - last;
        borders[3] = 2 * parts - last;
    } else if (has_sizes(shard, rows, parts)) {
        int64_t begin = begin_within(shard, rows, n, parts, index), end = begin_within(shard, rows, n, parts, index + 1);
        for (borders[0] = index + 1; borders[0] < parts; borders[0]++) {
            int64_t next = begin_within(shard, rows, n, parts, borders[0] + 1);
            if (next - end != end - begin) {
                break;
            }
            begin = end;
            end = next;
        }
    } else {
        int64_t chunk = chunk_of(shard, rows, parts);
        bool balanced = shard.cut == WEFT_CUT_BALANCED;
        borders[0] = balanced ? balanced_part_at(rows, n, parts) : chunk == 0 ? 0 : n / chunk;
        borders[1] = borders[0] + 1;
        borders[2] = balanced ? rows % parts : parts;
    }
    int64_t next = parts;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(borders); i++) {
        next = borders[i] > index ? weft_min_i64(next, borders[i]) : next;
    }
    return next - index;
}

int64_t weft_parts_alike(weft_placement shard, int64_t n, int64_t parts, int64_t index)
{
    if (shard.period > 0) {
        int64_t whole = n < shard.period ? parts : alike_within(shard, shard.period, shard.period, parts, index);
        return weft_min_i64(whole, alike_within(shard, shard.period, n % shard.period, parts, index));
    }
    if (weft_cut_has_runs(shard)) {
        return alike_within(shard, n, n, parts, index);
    }
    if (has_sizes(shard, n, parts)) {
        int64_t next = index + 1;
        while (next < parts && shard.sizes->sizes[next] == shard.sizes->sizes[index]) {
            next++;
        }
        return next - index;
    }
    if (shard.cut == WEFT_CUT_BALANCED) {
        int64_t more = n % parts;
        return index < more ? more - index : parts - index;
    }
    int64_t chunk = chunk_of(shard, n, parts), whole = chunk == 0 ? 0 : n / chunk;
    bool last = index == whole && whole < parts && chunk > 0 && n % chunk != 0;
    return index < whole ? whole - index : last ? 1 : parts - index;
}

/* Whether balanced parts are chunks. */
static bool balanced_are_chunks(int64_t n, int64_t parts)
{
    int64_t more = n % parts;
    return more == 0 || more == parts - 1 || n < parts;
}

/* Whether cyclic or zigzag parts, without a period, are chunks. */
static bool runs_are_chunks(weft_placement shard, int64_t n, int64_t parts)
{
    bool blocks = shard.first % parts == 0 && (n == 1 || weft_ceil_div(n, parts) == shard.block);
    return n == 0 || (shard.cut == WEFT_CUT_ZIGZAG ? n <= parts : blocks);
}

static void add_extent(weft_extents *e, int64_t rows)
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

void weft_extents_cut(weft_extents *e, weft_placement shard, int64_t parts)
{
    weft_extents finer = { .cut = e->cut || parts > 1, .count = e->count < 0 ? -1 : 0 };
    for (int i = 0; i < e->count; i++) {
        for (int64_t c = 0; c < parts && finer.count >= 0; c += weft_parts_alike(shard, e->rows[i], parts, c)) {
            int64_t offset, extent;
            weft_part_range(shard, e->rows[i], parts, c, &offset, &extent);
            add_extent(&finer, extent);
        }
    }
    *e = finer;
}

/* Whether the number of rows of each part is among least .. most. */
static bool all_have(const weft_extents *e, int64_t least, int64_t most)
{
    bool all = e->count >= 0;
    for (int i = 0; i < e->count && all; i++) {
        all = e->rows[i] >= least && e->rows[i] <= most;
    }
    return all;
}

/* The cut of `rows` rows in canonical form, where it does not repeat. */
static weft_placement canonical_cut(weft_placement placement, int64_t rows, int64_t parts)
{
    if (placement.cut == WEFT_CUT_SIZES) {
        bool has = has_sizes(placement, rows, parts);
        placement.cut = has ? placement.sizes->equal.cut : WEFT_CUT_CHUNKS;
        placement.block = has ? placement.sizes->equal.block : 0;
    }
    bool runs = placement.cut == WEFT_CUT_CYCLIC || placement.cut == WEFT_CUT_ZIGZAG;
    if ((runs && runs_are_chunks(placement, rows, parts)) ||
        (placement.cut == WEFT_CUT_BALANCED && balanced_are_chunks(rows, parts))) {
        placement.cut = WEFT_CUT_CHUNKS;
        placement.block = 0;
    }
    if (placement.cut == WEFT_CUT_CYCLIC && placement.first % parts == 0 && rows <= weft_mul_saturated(placement.block, parts)) {
        placement.cut = WEFT_CUT_CHUNKS; /* one block for each part */
    }
    return placement;
}

/* A periodic cut whose runs are blocks of one size is cyclic. `once`: no part is longer than the period. */
static weft_placement canonical_period(weft_placement placement, int64_t parts, bool once)
{
    int64_t round;
    placement = canonical_cut(placement, placement.period, parts);
    if (placement.cut == WEFT_CUT_CHUNKS && (placement.block > 0 || once || placement.period % parts == 0)) {
        placement.cut = WEFT_CUT_CYCLIC;
        placement.block = chunk_of(placement, placement.period, parts);
        placement.first = 0;
    }
    if (placement.cut == WEFT_CUT_CYCLIC &&
        (once || (weft_mul_checked(placement.block, parts, &round) && placement.period % round == 0))) {
        placement.period = 0;
    }
    return placement;
}

/* A cut in canonical form where it does not repeat, after others have cut the dimension into parts of these rows. */
static weft_placement canonical_once(weft_placement placement, const weft_extents *before, int64_t parts)
{
    if (placement.cut == WEFT_CUT_SIZES) { /* of a dimension that was not cut before */
        placement = before->cut ? weft_shard(placement.dim) : canonical_cut(placement, before->rows[0], parts);
    }
    bool chunks = parts == 1 || before->count >= 0, once = chunks;
    for (int i = 0; i < before->count && once && parts > 1; i++) {
        weft_placement alike = canonical_cut(placement, before->rows[i], parts);
        once = alike.cut == WEFT_CUT_CHUNKS;
        chunks = chunks && once && alike.block == 0;
    }
    placement.cut = once ? WEFT_CUT_CHUNKS : placement.cut;
    placement.block = chunks ? 0 : placement.block; /* as given, also beyond all rows: ScaLAPACK compares blocks */
    return placement;
}

/* A Shard's canonical form, after others have cut the dimension into parts of these rows. */
static weft_placement canonical(weft_placement placement, const weft_extents *before, int64_t parts)
{
    const int level = placement.level;
    /* Sizes without a period are those of a whole dimension. */
    bool needs_period = placement.cut == WEFT_CUT_SIZES && before->cut;
    if (parts == 1 || all_have(before, 0, 0) || (all_have(before, placement.period, placement.period) && !needs_period)) {
        placement.period = 0;
    }
    if (placement.cut == WEFT_CUT_CHUNKS && placement.block > 0) {
        bool fits = all_have(before, 0, weft_mul_saturated(placement.block, parts));
        placement.cut = fits ? WEFT_CUT_CYCLIC : WEFT_CUT_CHUNKS;
        placement.block = fits ? placement.block : 0; /* of another dimension, as sizes that do not fit */
    }
    if (placement.period > 0) {
        placement = canonical_period(placement, parts, all_have(before, 0, placement.period));
    }
    if (placement.period == 0) {
        placement = canonical_once(placement, before, parts);
    }
    bool cyclic = placement.cut == WEFT_CUT_CYCLIC;
    return (weft_placement){ .kind = WEFT_SHARD, .dim = placement.dim, .cut = placement.cut,
                             .sizes = placement.cut == WEFT_CUT_SIZES ? placement.sizes : NULL, .level = level,
                             .period = placement.period, .block = cyclic || placement.cut == WEFT_CUT_CHUNKS ? placement.block : 0,
                             .first = cyclic ? (int)(placement.first % parts) : 0 };
}

weft_placement weft_cut_canonical(weft_placement shard, int64_t rows, int64_t parts)
{
    return canonical(shard, &(weft_extents){ 1, { rows }, false }, parts);
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
    weft_extents of[WEFT_MAX_DIMS] = { { 0 } };
    int order[WEFT_MAX_DIMS];
    weft_cut_order(mesh->ndim, placements, order);
    for (int i = 0; i < mesh->ndim; i++) {
        int m = order[i];
        weft_placement *p = &placements[m];
        if (p->kind == WEFT_SHARD) {
            weft_extents *before = &of[p->dim];
            if (!before->cut) {
                *before = (weft_extents){ 1, { shape[p->dim] }, false };
            }
            *p = canonical(*p, before, mesh->shape[m]);
            weft_extents_cut(before, *p, mesh->shape[m]);
        }
    }
    settle_levels(mesh, order, placements);
}
