/* Index lists: random lists, cuts, meshes and types against dense arrays, and what moves. */
#include "index_list_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"

static int num_lists;

/* ---- random lists ------------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

/* None, any, ascending, one range, all, or one index again and again. */
static void draw_indices(scene *s, prng *random, int64_t part)
{
    int64_t kind = prng_below(random, 6), *indices = s->indices[part];
    int64_t count = s->size == 0 || kind == 0 ? 0 : kind == 4 ? s->size : prng_below(random, 61);
    int64_t first = count == 0 || kind == 4 ? 0 : prng_below(random, s->size);
    count = kind == 3 && count > s->size - first ? s->size - first : count;
    for (int64_t i = 0; i < count; i++) {
        indices[i] = kind == 3 || kind == 4 ? first + i : kind == 5 ? first : prng_below(random, s->size);
    }
    if (kind == 2) {
        int64_t kept = 0;
        qsort(indices, (size_t)count, sizeof(*indices), by_value);
        for (int64_t i = 0; i < count; i++) {
            if (i == 0 || indices[i] != indices[i - 1]) {
                indices[kept++] = indices[i];
            }
        }
        count = kept;
    }
    s->counts[part] = count;
}

static weft_placement draw_cut(prng *random, int64_t parts, int64_t size)
{
    switch (prng_below(random, 4)) {
    case 0:
        return weft_shard(0);
    case 1:
        return weft_shard_balanced(0);
    case 2:
        return sizes_of_rows(random, 0, parts, size);
    default:
        return cut_in_runs(random, 0, parts);
    }
}

static void draw(scene *s, prng *random)
{
    s->mesh = random_mesh(random, MAX_RANKS);
    s->mesh_dim = (int)prng_below(random, weft_mesh_ndim(s->mesh));
    s->parts = weft_mesh_size(s->mesh, s->mesh_dim);
    int64_t most = prng_below(random, 16) == 0 ? MAX_SIZE : 40; /* more panels than a task takes */
    s->size = prng_below(random, 8) == 0 ? prng_below(random, 2) : prng_below(random, most + 1);
    s->total = 0;
    for (int d = 0; d < weft_mesh_ndim(s->mesh); d++) {
        s->placements[d] = d == s->mesh_dim ? draw_cut(random, s->parts, s->size) : weft_replicate();
    }
    for (int64_t part = 0; part < s->parts; part++) {
        draw_indices(s, random, part);
        s->first[part] = s->total;
        s->total += s->counts[part];
    }
    scene_create(s);
    assert_no_error();
    assert_non_null(s->list);
    assert_int_equal(weft_index_list_count(s->list), s->total);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL, WEFT_C64, WEFT_C128 };

static dense draw_dense(prng *random, int64_t rows, weft_dtype dtype)
{
    dense d = { .dtype = dtype, .ndim = 1 + (int)prng_below(random, 3), .shape = { rows } };
    for (int i = 1; i < d.ndim; i++) {
        d.shape[i] = prng_below(random, 4) == 0 ? prng_below(random, 2) : 1 + prng_below(random, 3);
    }
    int64_t count = shape_count(d.ndim, d.shape);
    d.values = calloc((size_t)count + 1, weft_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++) {
        double value = dtype == WEFT_F64    ? ldexp((double)prng_below(random, 1 << 20), -(int)prng_below(random, 30))
                       : dtype == WEFT_BOOL ? (double)prng_below(random, 2)
                                            : (double)prng_below(random, 7);
        set_element(dtype, d.values, i, value);
    }
    return d;
}

static int64_t width_of(const dense *d)
{
    return shape_count(d->ndim - 1, d->shape + 1);
}

static dense like(const dense *d, int64_t rows)
{
    dense other = *d;
    other.shape[0] = rows;
    other.values = calloc((size_t)shape_count(other.ndim, other.shape) + 1, weft_dtype_size(d->dtype));
    return other;
}

/* In the list's placements where `direct`; else in any. */
static weft_tensor *make(const scene *s, prng *random, const dense *d, bool named, bool direct)
{
    weft_placement placements[WEFT_MAX_DIMS];
    if (direct && named) {
        assert_int_equal(weft_index_list_placements(s->list, placements), WEFT_OK);
    } else if (direct) {
        memcpy(placements, s->placements, sizeof(placements));
    } else {
        random_placements(random, s->mesh, d->ndim, false, placements);
        forget_sizes(weft_mesh_ndim(s->mesh), placements);
    }
    weft_tensor *x = make_of_shards(d->dtype, d->ndim, d->shape, s->mesh, placements, write_dense, d);
    assert_no_error();
    return x;
}

/* ---- what moves -------------------------------------------------------------------------------------------------- */

/* Different rows of a part that another one names. */
static int64_t different_rows(const scene *s, int64_t namer, int64_t holder, const int64_t owners[])
{
    bool seen[MAX_SIZE] = { false };
    int64_t count = 0;
    for (int64_t i = 0; i < s->counts[namer]; i++) {
        int64_t index = s->indices[namer][i];
        count += owners[index] == holder && !seen[index];
        seen[index] = true;
    }
    return count;
}

/* The part that has each index, by a tensor of the parts' numbers. */
static void number_part(const hosted_shard *shard, const void *context)
{
    const scene *s = context;
    for (int64_t i = 0; i < shard->count; i++) {
        ((int64_t *)shard->values)[i] = scene_part_of(s, shard->rank);
    }
}

static void find_owners(const scene *s, int64_t owners[])
{
    weft_tensor *parts = make_of_shards(WEFT_I64, 1, &s->size, s->mesh, s->placements, number_part, s);
    assert_int_equal(weft_to_host(parts, owners, (size_t)s->size * sizeof(*owners)), WEFT_OK);
}

static int process_of(int rank)
{
    int first = 0;
    for (int p = 0; p < weft_num_processes(); p++) {
        int ranks = weft_world_size() / weft_num_processes() + (p < weft_world_size() % weft_num_processes());
        if (rank < first + ranks) {
            return p;
        }
        first += ranks;
    }
    return -1;
}

/* Rows and pairs that hosted ranks receive. */
static void count_moves(const scene *s, bool adds, int64_t *rows, int64_t *pairs, int64_t *messages)
{
    int64_t owners[MAX_SIZE + 1];
    find_owners(s, owners);
    *rows = *pairs = *messages = 0;
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i, ranks[MAX_RANKS];
        int64_t own = scene_part_of(s, rank), coordinate[WEFT_MAX_DIMS], other[WEFT_MAX_DIMS];
        weft_mesh_ranks(s->mesh, ranks);
        for (int64_t k = 0; k < weft_mesh_num_ranks(s->mesh) && own >= 0; k++) {
            bool along = ranks[k] != rank;
            weft_mesh_coordinate(s->mesh, rank, coordinate);
            weft_mesh_coordinate(s->mesh, ranks[k], other);
            for (int d = 0; d < weft_mesh_ndim(s->mesh); d++) {
                along = along && (d == s->mesh_dim || coordinate[d] == other[d]);
            }
            int64_t part = other[s->mesh_dim];
            int64_t count = !along ? 0 : adds ? different_rows(s, part, own, owners) : different_rows(s, own, part, owners);
            *rows += count;
            *pairs += count > 0;
            *messages += count > 0 && process_of(ranks[k]) != weft_process_index();
        }
    }
}

static void assert_moves(const scene *s, bool adds, int64_t row_bytes, const weft_counters *before)
{
    int64_t rows, pairs, messages;
    weft_counters after;
    weft_get_counters(&after, sizeof(after));
    count_moves(s, adds, &rows, &pairs, &messages);
    assert_int_equal(after.bytes_moved - before->bytes_moved, rows * row_bytes);
    if (getenv("WEFT_PANEL_ROWS") == NULL) {
        assert_int_equal(after.transfers - before->transfers, row_bytes == 0 ? 0 : pairs);
        assert_int_equal(after.messages - before->messages, row_bytes == 0 ? 0 : messages);
    }
}

/* ---- random cases ------------------------------------------------------------------------------------------------ */

static void check_gather(const scene *s, prng *random)
{
    bool direct = prng_below(random, 2) == 0;
    dense d = draw_dense(random, s->size, types[prng_below(random, (int64_t)(sizeof(types) / sizeof(types[0])))]);
    dense expected = like(&d, s->total);
    size_t bytes = (size_t)width_of(&d) * weft_dtype_size(d.dtype);
    for (int64_t row = 0; row < s->total; row++) {
        memcpy((char *)expected.values + (size_t)row * bytes, (const char *)d.values + (size_t)scene_index_of(s, row) * bytes, bytes);
    }
    weft_tensor *x = make(s, random, &d, false, direct);
    weft_counters before;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *rows = weft_index_list_gather(s->list, x);
    assert_no_error();
    if (direct) {
        assert_moves(s, false, (int64_t)bytes, &before);
    }
    assert_shards(rows, is_dense, &expected, "gathered rows");
    free(d.values);
    free(expected.values);
}

static void add_element(weft_dtype dtype, void *values, int64_t i, double value)
{
    double sum = element(dtype, values, i) + value;
    set_element(dtype, values, i, dtype == WEFT_BOOL ? sum > 0 : dtype == WEFT_U8 ? fmod(sum, 256) : sum);
}

/* Sums as the header says. */
static void sum_rows(const scene *s, const dense *d, const dense *sums)
{
    int64_t width = width_of(d);
    for (int64_t part = 0; part < s->parts; part++) {
        dense own = like(d, s->size);
        bool named[MAX_SIZE + 1] = { false };
        for (int64_t i = 0; i < s->counts[part]; i++) {
            int64_t index = s->indices[part][i];
            named[index] = true;
            for (int64_t k = 0; k < width; k++) {
                add_element(d->dtype, own.values, index * width + k, element(d->dtype, d->values, (s->first[part] + i) * width + k));
            }
        }
        for (int64_t i = 0; i < s->size * width; i++) {
            if (named[i / width]) {
                add_element(d->dtype, sums->values, i, element(d->dtype, own.values, i));
            }
        }
        free(own.values);
    }
}

static void check_scatter_add(const scene *s, prng *random)
{
    bool direct = prng_below(random, 2) == 0;
    dense d = draw_dense(random, s->total, types[prng_below(random, (int64_t)(sizeof(types) / sizeof(types[0])))]);
    dense expected = like(&d, s->size);
    sum_rows(s, &d, &expected);
    weft_tensor *values = make(s, random, &d, true, direct);
    weft_counters before;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *sums = weft_index_list_scatter_add(s->list, values);
    assert_no_error();
    if (direct) {
        assert_moves(s, true, width_of(&d) * (int64_t)weft_dtype_size(d.dtype), &before);
    }
    assert_shards(sums, is_dense, &expected, "sums of rows");
    free(d.values);
    free(expected.values);
}

/* 16 bits: in WEFT_F32 before and after, and rounded once. */
static void check_halves(const scene *s, prng *random)
{
    weft_dtype narrow = prng_below(random, 2) == 0 ? WEFT_BF16 : WEFT_F16;
    dense d = draw_dense(random, s->total, WEFT_F32), expected = like(&d, s->size);
    sum_rows(s, &d, &expected);
    weft_tensor *values = weft_to_type(make(s, random, &d, true, prng_below(random, 2) == 0), narrow);
    weft_tensor *sums = weft_index_list_scatter_add(s->list, values);
    dense rounded = like(&d, s->size);
    weft_tensor *whole = weft_to_type(weft_to_type(make(s, random, &expected, false, true), narrow), WEFT_F32);
    assert_int_equal(weft_to_host(whole, rounded.values, (size_t)shape_count(d.ndim, rounded.shape) * sizeof(float)), WEFT_OK);
    assert_shards(weft_to_type(sums, WEFT_F32), is_dense, &rounded, "sums of 16 bits");
    assert_no_error();
    free(d.values);
    free(expected.values);
    free(rounded.values);
}

/* Partial along other mesh dimensions stays, and along the list's own is reduced: the same as of the reduced tensor. */
static void check_partial(const scene *s, prng *random)
{
    weft_placement placements[WEFT_MAX_DIMS];
    dense d = draw_dense(random, s->size, WEFT_F32);
    random_placements(random, s->mesh, d.ndim, true, placements);
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) { /* whose order of roundings differs */
        placements[m].op = placements[m].op == WEFT_AVG ? WEFT_SUM : placements[m].op;
    }
    forget_sizes(weft_mesh_ndim(s->mesh), placements);
    weft_tensor *x = make_of_shards(d.dtype, d.ndim, d.shape, s->mesh, placements, write_dense, &d);
    weft_tensor *rows = without_partial(weft_index_list_gather(s->list, x));
    weft_tensor *others = weft_index_list_gather(s->list, without_partial(x));
    others = weft_redistribute(others, NULL, weft_tensor_placements(rows));
    assert_no_error();
    assert_same_shards(rows, others, "rows of a Partial tensor");
    free(d.values);
}

static void random_lists(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    for (size_t h = 0; h < 3; h++) {
        start_with_panels(MAX_RANKS, heights[h]);
        prng random = prng_start(200 + h);
        for (int i = 0; i < (num_lists + 2) / 3; i++) {
            scene s;
            weft_scope_begin();
            draw(&s, &random);
            for (int k = 0; k < 2; k++) {
                check_gather(&s, &random);
                check_scatter_add(&s, &random);
            }
            check_halves(&s, &random);
            check_partial(&s, &random);
            assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
            weft_scope_end();
            assert_no_error();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

int main(void)
{
    num_lists = cases_to_run(600);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
