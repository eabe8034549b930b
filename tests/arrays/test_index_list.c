/* Index lists: random lists, cuts, meshes and types against dense arrays; what moves; errors; gradients; graphs. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"

enum { MAX_RANKS = 8, MAX_SIZE = 40, MAX_NAMED = 60, MAX_WIDTH = 12 };

static int num_lists;

/* A list of all ranks, the same on each process. */
typedef struct scene {
    weft_mesh *mesh;
    int mesh_dim;
    int64_t parts, size, total;
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t counts[MAX_RANKS], first[MAX_RANKS]; /* by part */
    int64_t indices[MAX_RANKS][MAX_NAMED];
    weft_index_list *list;
} scene;

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
    int64_t count = s->size == 0 || kind == 0 ? 0 : kind == 4 ? s->size : prng_below(random, MAX_NAMED + 1);
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

static int64_t part_of(const scene *s, int rank)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    return weft_mesh_coordinate(s->mesh, rank, coordinate) ? coordinate[s->mesh_dim] : -1;
}

static void create(scene *s)
{
    int64_t counts[MAX_RANKS];
    const int64_t *indices[MAX_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t part = part_of(s, weft_first_rank() + i);
        counts[i] = part < 0 ? 0 : s->counts[part];
        indices[i] = part < 0 || counts[i] == 0 ? NULL : s->indices[part];
    }
    s->list = weft_index_list_create(s->size, s->mesh, s->placements, counts, indices);
}

static void draw(scene *s, prng *random)
{
    s->mesh = random_mesh(random, MAX_RANKS);
    s->mesh_dim = (int)prng_below(random, weft_mesh_ndim(s->mesh));
    s->parts = weft_mesh_size(s->mesh, s->mesh_dim);
    s->size = prng_below(random, 8) == 0 ? prng_below(random, 2) : prng_below(random, MAX_SIZE + 1);
    s->total = 0;
    for (int d = 0; d < weft_mesh_ndim(s->mesh); d++) {
        s->placements[d] = d == s->mesh_dim ? draw_cut(random, s->parts, s->size) : weft_replicate();
    }
    for (int64_t part = 0; part < s->parts; part++) {
        draw_indices(s, random, part);
        s->first[part] = s->total;
        s->total += s->counts[part];
    }
    create(s);
    assert_no_error();
    assert_non_null(s->list);
    assert_int_equal(weft_index_list_count(s->list), s->total);
}

/* The index of each row that the ranks name, by part. */
static int64_t index_of(const scene *s, int64_t row)
{
    int64_t part = 0;
    while (part + 1 < s->parts && row >= s->first[part + 1]) {
        part++;
    }
    return s->indices[part][row - s->first[part]];
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static double element(weft_dtype dtype, const void *values, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        return ((const double *)values)[i];
    case WEFT_F32:
        return (double)((const float *)values)[i];
    case WEFT_I64:
        return (double)((const int64_t *)values)[i];
    case WEFT_I32:
        return (double)((const int32_t *)values)[i];
    case WEFT_C128: /* each has its number as both parts */
        return ((const double *)values)[2 * i] == ((const double *)values)[2 * i + 1] ? ((const double *)values)[2 * i] : NAN;
    case WEFT_C64:
        return (double)((const float *)values)[2 * i];
    default:
        return (double)((const uint8_t *)values)[i];
    }
}

static void set_element(weft_dtype dtype, void *values, int64_t i, double value)
{
    switch (dtype) {
    case WEFT_F64:
        ((double *)values)[i] = value;
        break;
    case WEFT_F32:
        ((float *)values)[i] = (float)value;
        break;
    case WEFT_I64:
        ((int64_t *)values)[i] = (int64_t)value;
        break;
    case WEFT_I32:
        ((int32_t *)values)[i] = (int32_t)value;
        break;
    case WEFT_C128:
        ((double *)values)[2 * i] = ((double *)values)[2 * i + 1] = value;
        break;
    case WEFT_C64:
        ((float *)values)[2 * i] = (float)value;
        ((float *)values)[2 * i + 1] = (float)value;
        break;
    default:
        ((uint8_t *)values)[i] = (uint8_t)value;
        break;
    }
}

/* A whole tensor. 16-bit types: in WEFT_F32. */
typedef struct dense {
    weft_dtype dtype;
    int ndim;
    int64_t shape[4];
    void *values;
} dense;

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

static void write_shard(const hosted_shard *shard, const void *context)
{
    const dense *d = context;
    size_t size = weft_dtype_size(d->dtype);
    for (int64_t i = 0; i < shard->count; i++) {
        memcpy((char *)shard->values + (size_t)i * size, (const char *)d->values + (size_t)shard_element(shard, d->ndim, d->shape, i) * size,
               size);
    }
}

static bool is_dense(const hosted_shard *shard, const void *expected, char *text, size_t size)
{
    const dense *d = expected;
    for (int64_t i = 0; i < shard->count; i++) {
        double wanted = element(d->dtype, d->values, shard_element(shard, d->ndim, d->shape, i));
        double got = element(d->dtype, shard->values, i);
        if (got != wanted) {
            snprintf(text, size, "rank %d has %.17g as element %lld, expected %.17g", shard->rank, got, (long long)i, wanted);
            return false;
        }
    }
    return true;
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
    weft_tensor *x = make_of_shards(d->dtype, d->ndim, d->shape, s->mesh, placements, write_shard, d);
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
        ((int64_t *)shard->values)[i] = part_of(s, shard->rank);
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
        int64_t own = part_of(s, rank), coordinate[WEFT_MAX_DIMS], other[WEFT_MAX_DIMS];
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
        memcpy((char *)expected.values + (size_t)row * bytes, (const char *)d.values + (size_t)index_of(s, row) * bytes, bytes);
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
                double sum = element(d->dtype, own.values, index * width + k) + element(d->dtype, d->values, (s->first[part] + i) * width + k);
                set_element(d->dtype, own.values, index * width + k, d->dtype == WEFT_BOOL ? sum > 0 : d->dtype == WEFT_U8 ? fmod(sum, 256) : sum);
            }
        }
        for (int64_t i = 0; i < s->size * width; i++) {
            double sum = element(d->dtype, sums->values, i) + element(d->dtype, own.values, i);
            if (named[i / width]) {
                set_element(d->dtype, sums->values, i, d->dtype == WEFT_BOOL ? sum > 0 : d->dtype == WEFT_U8 ? fmod(sum, 256) : sum);
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
    weft_tensor *x = make_of_shards(d.dtype, d.ndim, d.shape, s->mesh, placements, write_shard, &d);
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

/* ---- one list for the other cases -------------------------------------------------------------------------------- */

enum { ROWS = 23 };

/* Each part names the last row, twice, and those of its own number: in a world of all ranks. */
static scene simple_scene(void)
{
    scene s = { .parts = weft_world_size(), .size = ROWS, .placements = { weft_shard(0) } };
    s.mesh = weft_mesh_create(1, &s.parts, NULL);
    for (int64_t part = 0; part < s.parts; part++) {
        const int64_t named[] = { ROWS - 1, part, ROWS - 1, 2 * part, part };
        s.counts[part] = 5;
        s.first[part] = s.total;
        s.total += 5;
        memcpy(s.indices[part], named, sizeof(named));
    }
    create(&s);
    assert_no_error();
    return s;
}

static int64_t times_named(const scene *s, int64_t index)
{
    int64_t times = 0;
    for (int64_t row = 0; row < s->total; row++) {
        times += index_of(s, row) == index;
    }
    return times;
}

/* Row i is a * i + b. */
static dense line_of(double a, double b)
{
    dense d = { .dtype = WEFT_F64, .ndim = 1, .shape = { ROWS } };
    d.values = calloc(ROWS, sizeof(double));
    for (int i = 0; i < ROWS; i++) {
        ((double *)d.values)[i] = a * i + b;
    }
    return d;
}

static weft_tensor *tensor_of(const scene *s, const dense *d)
{
    weft_tensor *x = make_of_shards(d->dtype, d->ndim, d->shape, s->mesh, s->placements, write_shard, d);
    assert_no_error();
    return x;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* L = sum of c[i] (sum over the rows that name i of x[i]^2), so dL/dx[i] = 2 c[i] x[i] n[i]; and of the sum of these, 2 c[i] n[i]. */
static void gradients(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    dense x = line_of(1, 2), c = line_of(3, -4), first = line_of(0, 0), second = line_of(0, 0);
    for (int i = 0; i < ROWS; i++) {
        double times = (double)times_named(&s, i);
        ((double *)first.values)[i] = 2 * ((double *)c.values)[i] * ((double *)x.values)[i] * times;
        ((double *)second.values)[i] = 2 * ((double *)c.values)[i] * times;
    }
    weft_tensor *leaf = tensor_of(&s, &x), *weights = tensor_of(&s, &c);
    weft_set_requires_grad(leaf, true);
    weft_tensor *sums = weft_index_list_scatter_add(s.list, weft_square(weft_index_list_gather(s.list, leaf)));
    weft_tensor *loss = weft_sum(weft_mul(sums, weights), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_backward(loss, &(weft_backward_options){ .create_graph = true }), WEFT_OK);
    weft_tensor *gradient = weft_grad(leaf);
    weft_tensor *total = weft_sum(gradient, WEFT_ALL_DIMS, false);
    assert_shards(weft_redistribute(gradient, s.mesh, s.placements), is_dense, &first, "the gradient");
    weft_zero_grad(1, &leaf);
    assert_int_equal(weft_backward(total, NULL), WEFT_OK);
    assert_no_error();
    assert_shards(weft_redistribute(weft_grad(leaf), s.mesh, s.placements), is_dense, &second, "the second gradient");
    /* A list that is gone. */
    loss = weft_sum(weft_index_list_gather(s.list, leaf), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_backward(loss, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "the index list has been destroyed");
    free(x.values);
    free(c.values);
    free(first.values);
    free(second.values);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static weft_status sums_of_rows(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const scene *s = context;
    weft_tensor *rows = weft_scale(weft_index_list_gather(s->list, inputs[0]), scalars[0]);
    outputs[0] = weft_index_list_scatter_add(s->list, rows);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void graphs(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    weft_graph *graph = weft_graph_create("rows", sums_of_rows, &s, 1, 1, 1);
    assert_int_equal(weft_graph_freeze(graph, true), WEFT_OK);
    dense x = line_of(1, 2), expected = line_of(0, 0);
    weft_tensor *input = tensor_of(&s, &x), *output = NULL;
    double factor = 1;
    for (int run = 0; run < 6; run++, factor += 1) {
        for (int i = 0; i < ROWS; i++) {
            ((double *)expected.values)[i] = factor * ((double *)x.values)[i] * (double)times_named(&s, i);
        }
        assert_int_equal(weft_graph_call(graph, &input, &factor, &output), WEFT_OK);
        assert_shards(output, is_dense, &expected, "the graph's sums");
    }
    weft_graph_info info;
    weft_graph_get_info(graph, &info, sizeof(info));
    assert_true(info.frozen);
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_graph_call(graph, &input, &factor, &output), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    weft_graph_destroy(graph);
    free(x.values);
    free(expected.values);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_status make_list(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    create(context);
    outputs[0] = inputs[0];
    return weft_last_status();
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void expect_none(scene *s, weft_status status, const char *text)
{
    create(s);
    assert_null(s->list);
    assert_error(status, text);
}

static void wrong_lists(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    s.indices[s.parts - 1][3] = ROWS;
    char text[100];
    snprintf(text, sizeof(text), "indices of rank %d: entry 3 is 23, expected 0 to 22", (int)s.parts - 1);
    expect_none(&s, WEFT_ERR_INVALID, text);
    s.indices[s.parts - 1][3] = -1;
    expect_none(&s, WEFT_ERR_INVALID, "entry 3 is -1");
    s.indices[s.parts - 1][3] = 0;
    s.placements[0] = weft_replicate();
    expect_none(&s, WEFT_ERR_LAYOUT, "placements has no Shard of dimension 0");
    s.placements[0] = weft_partial(WEFT_SUM);
    expect_none(&s, WEFT_ERR_LAYOUT, "placements[0] is Partial");
    s.placements[0] = weft_shard(0);
    s.counts[0] = -1;
    create(&s);
    assert_null(s.list);
    assert_error(WEFT_ERR_INVALID, weft_process_index() == 0 ? "counts[0], -1, is negative" : "gave wrong arguments");
    s.counts[0] = 5;
    assert_null(weft_index_list_create(ROWS, s.mesh, s.placements, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "counts is NULL");
    weft_graph *graph = weft_graph_create("list", make_list, &s, 1, 0, 1);
    weft_tensor *scalar = weft_zeros(WEFT_F64, 0, NULL, s.mesh, NULL), *output;
    assert_int_equal(weft_graph_call(graph, &scalar, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "make the list before");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void wrong_tensors(void **state)
{
    (void)state;
    WORLD(4);
    scene s = simple_scene();
    int64_t rows = ROWS + 1, shape[] = { s.parts, 1 };
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 1, &rows, s.mesh, s.placements)));
    assert_error(WEFT_ERR_SHAPE, "x has 24 rows, expected 23, as the list has in its size");
    assert_null(weft_index_list_scatter_add(s.list, weft_zeros(WEFT_F32, 1, &rows, s.mesh, s.placements)));
    assert_error(WEFT_ERR_SHAPE, "values has 24 rows, expected");
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 0, NULL, s.mesh, NULL)));
    assert_error(WEFT_ERR_SHAPE, "x has 1 rows");
    rows = ROWS;
    assert_null(weft_index_list_gather(s.list, weft_zeros(WEFT_F32, 1, &rows, weft_mesh_create(2, shape, NULL), NULL)));
    assert_error(WEFT_ERR_MESH, "x is on mesh");
    assert_null(weft_index_list_gather(NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "list is NULL");
    weft_index_list *stale = s.list;
    assert_int_equal(weft_index_list_destroy(s.list), WEFT_OK);
    assert_int_equal(weft_index_list_destroy(stale), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    assert_int_equal(weft_index_list_count(stale), -1);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    create(&s); /* left to weft_finalize() */
    stale = s.list;
    assert_int_equal(weft_finalize(), WEFT_OK);
    WORLD(4);
    assert_int_equal(weft_index_list_count(stale), -1);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Ranks of one part name different indices. */
static void lines_that_differ(void **state)
{
    (void)state;
    WORLD(4);
    int64_t shape[] = { 1, weft_world_size() }, counts[MAX_RANKS] = { 0 }, one = 1;
    const int64_t *indices[MAX_RANKS] = { NULL };
    const weft_placement placements[] = { weft_shard(0), weft_replicate() };
    for (int i = 0; i < weft_local_ranks(); i++) {
        counts[i] = weft_first_rank() + i == 0 ? 0 : 1;
        indices[i] = &one;
    }
    assert_null(weft_index_list_create(ROWS, weft_mesh_create(2, shape, NULL), placements, counts, indices));
    assert_error(WEFT_ERR_INVALID, "ranks 0 and 1 name different indices");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void no_list_without_ranks(void **state)
{
    (void)state;
    if (over_processes()) {
        skip();
    }
    FAKE_WORLD(4);
    int64_t ranks = 4, counts = 0;
    const int64_t *indices = NULL;
    const weft_placement placements[] = { weft_shard(0) };
    assert_null(weft_index_list_create(ROWS, weft_mesh_create(1, &ranks, NULL), placements, &counts, &indices));
    assert_error(WEFT_ERR_UNSUPPORTED, "a fake world");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    num_lists = cases_to_run(600);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lists),
        cmocka_unit_test(gradients),
        cmocka_unit_test(graphs),
        cmocka_unit_test(wrong_lists),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(lines_that_differ),
        cmocka_unit_test(no_list_without_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
