/* Cyclic, zigzag and periodic cuts: random redistributions between all kinds of cuts, from and to the program's own memory, against rows
 * that are dealt one by one. WEFT_TEST_CASES gives the number of cases. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"
#include "support.h"

enum { RANKS = 6, MOST = 40 };

/* ---- reference ----------------------------------------------------------------------------------------- */

/* Which of `parts` parts has row number `row` of n. */
static int64_t part_of(weft_placement shard, int64_t n, int64_t parts, int64_t row)
{
    const int64_t *sizes;
    if (shard.period > 0) {
        row %= shard.period;
        n = shard.period;
    }
    int64_t each = (n + parts - 1) / parts, half = (n + 2 * parts - 1) / (2 * parts), part = 0;
    switch (shard.cut) {
    case WEFT_CUT_CHUNKS:
        return row / each;
    case WEFT_CUT_CYCLIC:
        return (row / shard.block + shard.first) % parts;
    case WEFT_CUT_ZIGZAG:
        return row / half < parts ? row / half : 2 * parts - 1 - row / half;
    case WEFT_CUT_SIZES:
        for (weft_placement_sizes(shard, &sizes); row >= sizes[part]; row -= sizes[part++]) {}
        return part;
    default:
        while (row >= n / parts + (part < n % parts)) {
            row -= n / parts + (part++ < n % parts);
        }
        return part;
    }
}

/* The rows of a dimension that a rank has, in their order; returns how many. */
static int64_t rows_at(weft_mesh *mesh, const weft_placement placements[], const int64_t coordinate[], int dim, int64_t n,
                       int64_t rows[])
{
    int64_t count = n;
    for (int64_t i = 0; i < n; i++) {
        rows[i] = i;
    }
    for (int level = 0; level < 5; level++) {
        for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
            if (placements[m].kind != WEFT_SHARD || placements[m].dim != dim || placements[m].level != level) {
                continue;
            }
            int64_t kept = 0;
            for (int64_t i = 0; i < count; i++) {
                if (part_of(placements[m], count, weft_mesh_size(mesh, m), i) == coordinate[m]) {
                    rows[kept++] = rows[i];
                }
            }
            count = kept;
        }
    }
    return count;
}

typedef struct piece {
    int64_t count[2], rows[2][MOST];
    double *values;
} piece;

/* The shard of a matrix whose element [i, j] is 1000 i + j. */
static piece shard_of(weft_mesh *mesh, const weft_placement placements[], const int64_t shape[], int rank, double factor)
{
    piece p = { .values = NULL };
    int64_t coordinate[WEFT_MAX_DIMS];
    bool member = weft_mesh_coordinate(mesh, rank, coordinate);
    for (int d = 0; d < 2 && member; d++) {
        p.count[d] = rows_at(mesh, placements, coordinate, d, shape[d], p.rows[d]);
    }
    p.values = malloc((size_t)(p.count[0] * p.count[1] + 1) * sizeof(double));
    for (int64_t i = 0; i < p.count[0] * p.count[1]; i++) {
        p.values[i] = factor * (double)(1000 * p.rows[0][i / p.count[1]] + p.rows[1][i % p.count[1]]);
    }
    return p;
}

/* ---- random layouts ------------------------------------------------------------------------------------ */

static weft_placement any_cut(prng *random, int dim, int64_t parts)
{
    int64_t kind = prng_below(random, 4);
    return kind == 0 ? weft_shard(dim) : kind == 1 ? weft_shard_balanced(dim) : cut_in_runs(random, dim, parts);
}

static void any_placements(prng *random, weft_mesh *mesh, const int64_t shape[], bool partial, weft_placement out[])
{
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        int64_t kind = prng_below(random, partial ? 5 : 4);
        out[m] = kind == 4   ? weft_partial(prng_below(random, 2) == 0 ? WEFT_SUM : WEFT_AVG)
                 : kind == 0 ? weft_replicate()
                             : any_cut(random, (int)prng_below(random, 2), weft_mesh_size(mesh, m));
    }
    draw_levels(random, weft_mesh_ndim(mesh), out);
    random_cut_sizes(random, mesh, 2, shape, out);
}

static weft_mesh *any_mesh(prng *random)
{
    static const int64_t shapes[][3] = { { 6, 0, 0 }, { 2, 3, 0 }, { 3, 2, 0 }, { 4, 0, 0 }, { 2, 2, 0 }, { 5, 0, 0 }, { 1, 4, 0 },
                                         { 2, 1, 3 }, { 1, 0, 0 } };
    const int64_t *shape = shapes[prng_below(random, 9)];
    int ndim = shape[1] == 0 ? 1 : shape[2] == 0 ? 2 : 3;
    int ranks[RANKS], used = (int)(shape[0] * (ndim > 1 ? shape[1] : 1) * (ndim > 2 ? shape[2] : 1));
    int shift = (int)prng_below(random, RANKS - used + 1);
    for (int i = 0; i < used; i++) {
        ranks[i] = i + shift;
    }
    return weft_mesh_of_ranks(ndim, shape, ranks, NULL);
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static weft_tensor *from_shards(weft_mesh *mesh, const weft_placement placements[], const int64_t shape[], weft_placement sums[])
{
    void *locals[RANKS];
    piece pieces[RANKS];
    double factor = 1; /* the addends of a sum are equal */
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        sums[m] = placements[m];
        factor /= placements[m].kind == WEFT_PARTIAL && placements[m].op == WEFT_SUM ? (double)weft_mesh_size(mesh, m) : 1;
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        pieces[i] = shard_of(mesh, placements, shape, weft_first_rank() + i, factor);
        locals[i] = pieces[i].values;
    }
    weft_tensor *tensor = weft_from_local(WEFT_F64, 2, shape, locals, mesh, placements, WEFT_COPY);
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(pieces[i].values);
    }
    return tensor;
}

/* `from`: for the message. */
static void assert_shards_right(weft_tensor *tensor, weft_mesh *mesh, const weft_placement placements[], const int64_t shape[],
                                const char *from)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        piece expected = shard_of(mesh, placements, shape, weft_first_rank() + i, 1);
        int64_t count = expected.count[0] * expected.count[1];
        double *found = calloc((size_t)count + 1, sizeof(*found));
        int64_t coordinate[WEFT_MAX_DIMS];
        if (weft_mesh_coordinate(mesh, weft_first_rank() + i, coordinate)) {
            assert_int_equal(weft_local_to_host(tensor, i, found, (size_t)count * sizeof(double)), WEFT_OK);
        }
        for (int64_t k = 0; k < count; k++) {
            if (fabs(found[k] - expected.values[k]) > 1e-9 * fabs(expected.values[k])) {
                char text[200];
                weft_placements_format(placements, weft_mesh_ndim(mesh), text, sizeof(text));
                fail_msg("rank %d, element %d: %g, expected %g, in [%d, %d] from %s to %s", weft_first_rank() + i, (int)k, found[k],
                         expected.values[k], (int)shape[0], (int)shape[1], from, text);
            }
        }
        free(found);
        free(expected.values);
    }
}

static void one_case(prng *random)
{
    weft_placement from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS], sums[WEFT_MAX_DIMS];
    weft_scope_begin();
    weft_mesh *mesh = any_mesh(random), *other = prng_below(random, 2) == 0 ? mesh : any_mesh(random);
    const int64_t shape[] = { prng_below(random, MOST), prng_below(random, 3) == 0 ? 1 : prng_below(random, MOST) };
    any_placements(random, mesh, shape, true, from);
    any_placements(random, other, shape, false, to);
    weft_tensor *tensor = from_shards(mesh, from, shape, sums);
    bool sum = false;
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        sum = sum || from[m].kind == WEFT_PARTIAL;
    }
    if (!sum) {
        assert_shards_right(tensor, mesh, from, shape, "here");
    }
    weft_tensor *moved = weft_redistribute(tensor, other, to);
    char a[200], b[200];
    weft_placements_format(from, weft_mesh_ndim(mesh), a, sizeof(a));
    weft_placements_format(to, weft_mesh_ndim(other), b, sizeof(b));
    if (moved == NULL) {
        fail_msg("%s to %s of [%d, %d]: %s", a, b, (int)shape[0], (int)shape[1], weft_last_error());
    }
    assert_shards_right(moved, other, to, shape, a);
    double *whole = calloc((size_t)(shape[0] * shape[1]) + 1, sizeof(*whole));
    assert_int_equal(weft_to_host(moved, whole, (size_t)(shape[0] * shape[1]) * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        assert_true(fabs(whole[i] - (double)(1000 * (i / shape[1]) + i % shape[1])) < 1e-6);
    }
    free(whole);
    weft_scope_end();
    assert_no_error();
}

static void redistributions_are_right(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "7" };
    int cases = cases_to_run(300);
    for (int h = 0; h < 3; h++) {
        if (heights[h] != NULL) {
            setenv("WEFT_PANEL_ROWS", heights[h], 1);
        }
        WORLD(RANKS);
        unsetenv("WEFT_PANEL_ROWS");
        prng random = prng_start(51 + (uint64_t)h);
        for (int i = 0; i < cases; i++) {
            one_case(&random);
        }
        world_stop(NULL);
    }
}

/* Elementwise operations and optimisers keep such a cut and move nothing. */
static void elementwise_operations_keep_the_cut(void **state)
{
    (void)state;
    static const char *const cuts[] = { "S0*2", "S0*3+1", "S0z", "S1*1,S0z", "S0z@1,S0*2" };
    const int64_t shape[] = { 17, 5 };
    WORLD(4);
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        int ndim = strchr(cuts[c], ',') == NULL ? 1 : 2;
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(ndim, ndim == 1 ? (int64_t[]){ 4 } : (int64_t[]){ 2, 2 }, NULL);
        weft_placement placements[2], sums[2];
        assert_int_equal(weft_placements_parse(cuts[c], ndim, placements), WEFT_OK);
        weft_tensor *a = from_shards(mesh, placements, shape, sums), *m = weft_zeros_like(a), *v = weft_zeros_like(a);
        weft_counters before, after;
        assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
        weft_tensor *b = weft_add(weft_mul(a, a), weft_tanh(a));
        weft_add_inplace(b, a, 1);
        weft_adam_options options = WEFT_ADAMW_DEFAULT;
        assert_int_equal(weft_adamw(1, &b, &a, &m, &v, 1, &options), WEFT_OK);
        assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
        assert_int_equal(after.bytes_moved, before.bytes_moved);
        assert_memory_equal(weft_tensor_placements(b), weft_tensor_placements(a), (size_t)ndim * sizeof(weft_placement));
        double total, expected = 0;
        for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
            expected += (double)(1000 * (i / shape[1]) + i % shape[1]);
        }
        assert_int_equal(weft_tensor_item(weft_sum(weft_reshape(a, 1, (int64_t[]){ shape[0] * shape[1] }), 0, false), &total), WEFT_OK);
        assert_true(total == expected);
        weft_scope_end();
    }
    world_stop(NULL);
}

/* The operations below get x and y [17, 6], indices and targets [17] in one layout, and the other tensors whole. */
typedef struct operands {
    weft_tensor *x, *y, *w, *bias, *gain, *table, *indices, *targets;
} operands;

#define CALL(name_, ...)                                                                                     \
    static weft_tensor *do_##name_(const operands *o)                                                        \
    {                                                                                                        \
        return __VA_ARGS__;                                                                                  \
    }
CALL(matmul, weft_matmul(o->x, o->w))
CALL(matmul_rows, weft_matmul_ex(o->x, true, o->y, false))
CALL(matmul_t, weft_matmul_ex(o->w, true, o->x, true))
CALL(linear, weft_linear(o->x, weft_transpose(o->w, 0, 1), o->bias))
CALL(addmm, weft_addmm(weft_zeros_like(weft_matmul(o->x, o->w)), o->x, o->w, 1, 2))
CALL(sum_columns, weft_sum(o->x, 1, false))
CALL(sum_rows, weft_sum(o->x, 0, false))
CALL(max, weft_max(o->x, 1, true))
CALL(places, weft_argmax(o->x, 1, false))
CALL(mean, weft_mean(o->x, WEFT_ALL_DIMS, false))
CALL(softmax, weft_softmax(o->x, 1))
CALL(log_softmax, weft_log_softmax(o->x, -1))
CALL(layer_norm, weft_layer_norm(o->x, o->gain, o->gain, 1e-5))
CALL(rms_norm, weft_rms_norm(o->x, o->gain, 1e-5))
CALL(cross_entropy, weft_cross_entropy(o->x, o->targets, NULL))
CALL(mse, weft_mse(o->x, o->y, WEFT_LOSS_MEAN))
CALL(embedding, weft_embedding(o->table, o->indices))
CALL(transpose, weft_transpose(o->x, 0, 1))
CALL(unsqueeze, weft_unsqueeze(o->x, 1))
CALL(reshape, weft_reshape(o->x, 3, (const int64_t[]){ 17, 2, 3 }))
CALL(slice, weft_slice(o->x, 1, 1, 4, 1))

/* Products, reductions, softmax and norms of whole rows and the like keep a cut of the rows and move nothing before a sum is
 * asked for. */
static void operations_on_rows_keep_the_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        weft_tensor *(*call)(const operands *);
        int dim; /* of the result, which is cut as the rows are; -1: it is Partial */
    } calls[] = {
        { "matmul", do_matmul, 0 },
        { "matmul of rows", do_matmul_rows, -1 },
        { "transposed matmul", do_matmul_t, 1 },
        { "linear", do_linear, 0 },
        { "addmm", do_addmm, 0 },
        { "sum of columns", do_sum_columns, 0 },
        { "sum of rows", do_sum_rows, -1 },
        { "max", do_max, 0 },
        { "argmax", do_places, 0 },
        { "mean", do_mean, -1 },
        { "softmax", do_softmax, 0 },
        { "log_softmax", do_log_softmax, 0 },
        { "layer_norm", do_layer_norm, 0 },
        { "rms_norm", do_rms_norm, 0 },
        { "cross_entropy", do_cross_entropy, -1 },
        { "mse", do_mse, -1 },
        { "embedding", do_embedding, 0 },
        { "transpose", do_transpose, 1 },
        { "unsqueeze", do_unsqueeze, 0 },
        { "reshape", do_reshape, 0 },
        { "slice", do_slice, 0 },
    };
    static const char *const cuts[] = { "S0", "S0*2", "S0*3+1", "S0z", "S0%5", "S0{0,2,1,4}%7" };
    double expected[sizeof(calls) / sizeof(calls[0])][120];
    WORLD(4);
    for (size_t c = 0; c < (sizeof(cuts) / sizeof(cuts[0])); c++) {
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
        weft_placement rows;
        assert_int_equal(weft_placements_parse(cuts[c], 1, &rows), WEFT_OK);
        const int64_t matrix[] = { 17, 6 }, weight[] = { 6, 5 }, six[] = { 6 }, five[] = { 5 };
        assert_int_equal(weft_random_state_set(NULL, (weft_random_state){ 7, 3 }), WEFT_OK);
        operands o = { .x = weft_randn(WEFT_F64, 2, matrix, mesh, &rows),
                       .y = weft_randn(WEFT_F64, 2, matrix, mesh, &rows),
                       .w = weft_randn(WEFT_F64, 2, weight, mesh, NULL),
                       .bias = weft_randn(WEFT_F64, 1, five, mesh, NULL),
                       .gain = weft_randn(WEFT_F64, 1, six, mesh, NULL),
                       .table = weft_randn(WEFT_F64, 2, matrix, mesh, NULL),
                       .indices = weft_arange(WEFT_I64, 16, -1, -1, mesh, &rows),
                       .targets = weft_redistribute(weft_clamp(weft_arange(WEFT_I64, 16, -1, -1, mesh, &rows), 0, 5), mesh, &rows) };
        for (size_t i = 0; i < (sizeof(calls) / sizeof(calls[0])); i++) {
            weft_counters before, after;
            assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
            weft_tensor *result = calls[i].call(&o);
            assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
            assert_non_null(result);
            weft_placement placement = weft_tensor_placements(result)[0], kept = rows;
            kept.dim = calls[i].dim;
            char text[40], kept_text[40];
            weft_placements_format(&placement, 1, text, sizeof(text));
            weft_placements_format(&kept, 1, kept_text, sizeof(kept_text));
            double found[120];
            int64_t count = weft_tensor_bytes(weft_to_type(result, WEFT_F64)) / (int64_t)sizeof(double);
            assert_true(count <= 120);
            assert_int_equal(weft_to_host(weft_to_type(result, WEFT_F64), found, (size_t)count * sizeof(double)), WEFT_OK);
            for (int64_t j = 0; j < count && c > 0; j++) {
                if (!(fabs(found[j] - expected[i][j]) <= 1e-12 * (1 + fabs(found[j])))) {
                    fail_msg("%s, %s: element %d is %g, expected %g", calls[i].name, cuts[c], (int)j, found[j], expected[i][j]);
                }
            }
            memcpy(expected[i], found, (size_t)count * sizeof(double));
            if (after.bytes_moved != before.bytes_moved ||
                (calls[i].dim < 0 ? placement.kind != WEFT_PARTIAL : strcmp(text, kept_text) != 0)) {
                fail_msg("%s, %s: %d bytes moved, the result is %s", calls[i].name, cuts[c],
                         (int)(after.bytes_moved - before.bytes_moved), text);
            }
        }
        weft_scope_end();
    }
    world_stop(NULL);
}

/* A step of a linear model on block-cyclic rows: no more moves than on chunks. */
static void gradients_keep_the_cut(void **state)
{
    (void)state;
    static const char *const cuts[] = { "S0", "S0*2+1", "S0z", "S0%5" };
    double expected[30], found[30];
    WORLD(3);
    for (size_t c = 0; c < (sizeof(cuts) / sizeof(cuts[0])); c++) {
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 3 }, NULL);
        weft_placement rows;
        assert_int_equal(weft_placements_parse(cuts[c], 1, &rows), WEFT_OK);
        assert_int_equal(weft_random_state_set(NULL, (weft_random_state){ 7, 3 }), WEFT_OK);
        weft_tensor *x = weft_randn(WEFT_F64, 2, (const int64_t[]){ 13, 6 }, mesh, &rows);
        weft_tensor *w = weft_randn(WEFT_F64 | WEFT_WITH_GRAD, 2, (const int64_t[]){ 6, 5 }, mesh, NULL);
        weft_counters before, after;
        assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
        weft_tensor *normal = weft_layer_norm(weft_tanh(weft_matmul(x, w)), NULL, NULL, 1e-5);
        weft_tensor *loss = weft_sum(weft_softmax(normal, 1), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_backward(weft_mul(loss, loss), NULL), WEFT_OK);
        assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
        assert_int_equal(weft_to_host(weft_grad(w), c == 0 ? expected : found, sizeof(found)), WEFT_OK);
        static uint64_t usual;
        if (c == 0) {
            usual = after.bytes_moved - before.bytes_moved;
        } else {
            assert_true(after.bytes_moved - before.bytes_moved <= usual);
            for (int i = 0; i < 30; i++) {
                assert_true(fabs(found[i] - expected[i]) < 1e-12);
            }
        }
        weft_scope_end();
    }
    world_stop(NULL);
}

/* Random values and ranges depend on the global index alone; what has no box is not drawn as one. */
static void values_by_index_are_the_same(void **state)
{
    (void)state;
    const int64_t shape[] = { 11 };
    double plain[11], cyclic[11];
    WORLD(4);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    const weft_placement blocks = { .kind = WEFT_SHARD, .cut = WEFT_CUT_CYCLIC, .block = 2 };
    for (int drawn = 0; drawn < 3; drawn++) {
        for (int runs = 0; runs < 2; runs++) {
            const weft_placement *p = runs ? &blocks : NULL;
            assert_int_equal(weft_random_state_set(NULL, (weft_random_state){ 7, 3 }), WEFT_OK);
            weft_tensor *t = drawn == 0   ? weft_randn(WEFT_F64, 1, shape, mesh, p)
                             : drawn == 1 ? weft_arange(WEFT_F64, 3, 14, 1, mesh, p)
                                          : weft_uniform_inplace(weft_zeros(WEFT_F64, 1, shape, mesh, p), -1, 1);
            assert_int_equal(weft_to_host(t, runs ? cyclic : plain, sizeof(plain)), WEFT_OK);
        }
        assert_memory_equal(plain, cyclic, sizeof(plain));
    }
    weft_tensor *t = weft_zeros(WEFT_F64, 1, shape, mesh, &blocks);
    weft_index_run runs[3];
    int64_t offset[1], extent[1];
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        if (rank >= 4) {
            continue; /* of more processes than ranks of the mesh */
        }
        int64_t count = weft_local_runs(t, i, -1, 3, runs);
        assert_int_equal(count, rank < 2 ? 2 : 1); /* six blocks */
        assert_int_equal(runs[0].begin, 2 * rank);
        assert_int_equal(runs[count - 1].count, rank == 1 ? 1 : 2);
    }
    assert_no_error();
    assert_int_equal(weft_local_box(t, 0, offset, extent), WEFT_ERR_LAYOUT);
    weft_clear_error();
    assert_int_equal(weft_shard_box(mesh, &blocks, 1, shape, 0, offset, extent), WEFT_ERR_LAYOUT);
    weft_clear_error();
    assert_int_equal(weft_visualize_sharding(t, WEFT_SHARDING_TEXT, stdout), WEFT_ERR_LAYOUT);
    weft_clear_error();
    assert_int_equal(weft_local_runs(t, 0, 1, 0, NULL), -1);
    weft_clear_error();
    weft_scope_end();
    world_stop(NULL);
}

/* A slice's gradient joins one of all rows, whose shards are no boxes. */
static void gradients_of_slices_are_right(void **state)
{
    (void)state;
    const int64_t shape[] = { 10, 3 };
    double found[30];
    WORLD(4);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    weft_placement placements[2];
    assert_int_equal(weft_placements_parse("S0*1,S0z", 2, placements), WEFT_OK);
    weft_tensor *a = weft_ones(WEFT_F64 | WEFT_WITH_GRAD, 2, shape, mesh, placements), *c = weft_slice(a, 0, 1, 3, 1);
    weft_tensor *all = weft_sum(weft_flatten(weft_mul(a, a), 0, 1), 0, false);
    weft_tensor *some = weft_sum(weft_flatten(weft_mul(c, c), 0, 1), 0, false);
    assert_int_equal(weft_backward(weft_add(some, all), NULL), WEFT_OK);
    assert_int_equal(weft_to_host(weft_grad(a), found, sizeof(found)), WEFT_OK);
    for (int i = 0; i < 30; i++) {
        assert_true(found[i] == (i / 3 == 1 || i / 3 == 2 ? 4 : 2));
    }
    weft_scope_end();
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(redistributions_are_right),
        cmocka_unit_test(elementwise_operations_keep_the_cut),
        cmocka_unit_test(operations_on_rows_keep_the_cut),
        cmocka_unit_test(gradients_keep_the_cut),
        cmocka_unit_test(values_by_index_are_the_same),
        cmocka_unit_test(gradients_of_slices_are_right),
    };
    return cmocka_run_group_tests_name("runs", tests, NULL, NULL);
}
