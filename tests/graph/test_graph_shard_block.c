/* Automatic shardings of a transformer's block, against layouts written by hand: a training step of attention and MLP in a
 * fake world, on machines that do not exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "machine_file.h"

enum { HEADS = 8 };

/* ---- layouts written by hand ----------------------------------------------------------------------------- */

typedef weft_placement placements[2]; /* along dp and tp */

#define R { .kind = WEFT_REPLICATE }
#define S(dim) { .kind = WEFT_SHARD, (dim) }

/* Where things lie: columns: wq, wk, wv, w1; rows: wo, w2. */
typedef struct style {
    const char *name;
    placements x, columns, rows; /* x: also what comes out of attention and MLP */
    placements used_columns, used_rows; /* where the weights are used */
    placements gathered; /* what goes into attention and MLP */
} style;

static const style by_hand[] = {
    { "data", { S(0), S(0) }, { R, R }, { R, R }, { R, R }, { R, R }, { S(0), S(0) } },
    { "data and tensor", { S(0), R }, { R, S(1) }, { R, S(0) }, { R, S(1) }, { R, S(0) }, { S(0), R } },
    { "tensor", { R, R }, { S(1), S(1) }, { S(0), S(0) }, { S(1), S(1) }, { S(0), S(0) }, { R, R } },
    { "sequence", { S(0), S(0) }, { R, S(1) }, { R, S(0) }, { R, S(1) }, { R, S(0) }, { S(0), R } },
    { "sequence alone", { S(0), S(0) }, { S(1), S(1) }, { S(0), S(0) }, { S(1), S(1) }, { S(0), S(0) }, { R, R } },
    { "fully sharded", { S(0), S(0) }, { S(0), S(0) }, { S(0), S(0) }, { R, R }, { R, R }, { S(0), S(0) } },
    { "tensor and fully sharded", { S(0), R }, { S(0), S(1) }, { S(0), S(0) }, { R, S(1) }, { R, S(0) }, { S(0), R } },
};

static const style replicated = { "replicated", { R, R }, { R, R }, { R, R }, { R, R }, { R, R }, { R, R } };

/* ---- the block ------------------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t sequences, context, width, hidden;
} sizes;

enum { WQ, WK, WV, WO, W1, W2, NORM1, NORM2, NUM_WEIGHTS };

typedef struct block {
    const style *style;
    sizes sizes;
    weft_tensor *x, *target, *weights[NUM_WEIGHTS];
} block;

static bool is_row_weight(int number)
{
    return number == WO || number == W2;
}

static weft_tensor *used(const block *b, int number)
{
    const weft_placement *to = is_row_weight(number) ? b->style->used_rows : b->style->used_columns;
    return weft_redistribute(b->weights[number], NULL, to);
}

/* [N, D] to [sequences, heads, context, D / heads]. */
static weft_tensor *heads_of(const block *b, weft_tensor *x)
{
    const int64_t shape[] = { b->sizes.sequences, b->sizes.context, HEADS, b->sizes.width / HEADS };
    return weft_permute(weft_reshape(x, 4, shape), 4, (int[]){ 0, 2, 1, 3 });
}

static weft_tensor *attention(const block *b, weft_tensor *x)
{
    weft_tensor *q = heads_of(b, weft_matmul(x, used(b, WQ)));
    weft_tensor *k = heads_of(b, weft_matmul(x, used(b, WK)));
    weft_tensor *v = heads_of(b, weft_matmul(x, used(b, WV)));
    weft_tensor *a = weft_permute(weft_attention(q, k, v, NULL), 4, (int[]){ 0, 2, 1, 3 });
    return weft_matmul(weft_reshape(a, 2, (int64_t[]){ -1, b->sizes.width }), used(b, WO));
}

static weft_tensor *normed(const block *b, weft_tensor *x, int number)
{
    return weft_redistribute(weft_rms_norm(x, b->weights[number], 1e-5), NULL, b->style->gathered);
}

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const block *b = context;
    (void)inputs;
    weft_tensor *out = weft_redistribute(attention(b, normed(b, b->x, NORM1)), NULL, b->style->x);
    weft_tensor *h = weft_add(b->x, out), *n = normed(b, h, NORM2);
    out = weft_matmul(weft_gelu(weft_matmul(n, used(b, W1))), used(b, W2));
    weft_tensor *y = weft_add(h, weft_redistribute(out, NULL, b->style->x));
    outputs[0] = weft_redistribute(weft_mse(y, b->target, WEFT_LOSS_MEAN), NULL, NULL);
    weft_backward(outputs[0], NULL);
    weft_tensor *gradients[NUM_WEIGHTS];
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        gradients[i] = weft_grad(b->weights[i]);
    }
    const weft_sgd_options options = { .learning_rate = scalars[0] };
    weft_sgd(NUM_WEIGHTS, b->weights, gradients, &options, NULL);
    weft_zero_grad(NUM_WEIGHTS, b->weights);
    return weft_last_status();
}

static weft_tensor *tensor(weft_mesh *mesh, int ndim, int64_t rows, int64_t columns, const weft_placement *where)
{
    return weft_zeros(WEFT_F32, ndim, (int64_t[]){ rows, columns }, mesh, where);
}

static weft_graph *capture(block *b, weft_mesh *mesh, const style *s, const sizes *z)
{
    const int64_t rows[] = { z->width, z->width, z->width, z->width, z->width, z->hidden, z->width, z->width };
    const int64_t columns[] = { z->width, z->width, z->width, z->width, z->hidden, z->width, 0, 0 };
    *b = (block){ .style = s, .sizes = *z };
    b->x = tensor(mesh, 2, z->sequences * z->context, z->width, s->x);
    b->target = tensor(mesh, 2, z->sequences * z->context, z->width, s->x);
    for (int i = 0; i < NUM_WEIGHTS; i++) {
        const weft_placement *where = i >= NORM1 ? NULL : is_row_weight(i) ? s->rows : s->columns;
        b->weights[i] = tensor(mesh, i >= NORM1 ? 1 : 2, rows[i], columns[i], where);
        weft_set_requires_grad(b->weights[i], true);
    }
    weft_graph *graph = weft_graph_create(s->name, train, b, 0, 1, 1);
    weft_tensor *loss;
    assert_int_equal(weft_graph_call(graph, NULL, &(double){ 0.1 }, &loss), WEFT_OK);
    return graph;
}

/* ---- predictions ----------------------------------------------------------------------------------------- */

static weft_graph_shard_info sharded_info(weft_graph *graph, const weft_graph_shard_options *options)
{
    weft_graph_shard_info info;
    assert_int_equal(weft_graph_shard(graph, options), WEFT_OK);
    assert_int_equal(weft_graph_get_shard_info(graph, &info, sizeof(info)), WEFT_OK);
    return info;
}

/* Of a style, as it is written. */
static double predicted(weft_mesh *mesh, const style *s, const sizes *z, const char *machine)
{
    block b;
    weft_graph *graph = capture(&b, mesh, s, z);
    weft_graph_shard_info info = sharded_info(graph, &(weft_graph_shard_options){ .machine = machine });
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
    return info.recorded_us;
}

/* The best style's name and time. */
static const char *best_by_hand(weft_mesh *mesh, const sizes *z, const char *machine, double *least)
{
    const char *best = NULL;
    for (size_t i = 0; i < sizeof(by_hand) / sizeof(by_hand[0]); i++) {
        double us = predicted(mesh, &by_hand[i], z, machine);
        assert_true(us > 0);
        if (best == NULL || us < *least) {
            best = by_hand[i].name;
            *least = us;
        }
    }
    return best;
}

static void assert_along_tp(const weft_graph *graph, const weft_tensor *tensor, weft_placement expected)
{
    placements found;
    assert_int_equal(weft_graph_get_placements(graph, tensor, found), WEFT_OK);
    assert_int_equal(found[1].kind, expected.kind);
    assert_true(expected.kind != WEFT_SHARD || found[1].dim == expected.dim);
}

/* Queries, keys and values by heads, the MLP by hidden numbers: columns, then rows. */
static void assert_megatron(const weft_graph *graph, const block *b)
{
    for (int i = 0; i < NORM1; i++) {
        assert_along_tp(graph, b->weights[i], weft_shard(is_row_weight(i) ? 0 : 1));
    }
}

static void assert_data_parallel(const weft_graph *graph, const block *b)
{
    assert_along_tp(graph, b->x, weft_shard(0));
    for (int i = 0; i < NORM1; i++) {
        assert_along_tp(graph, b->weights[i], weft_replicate());
    }
}

/* As good as the best of them, from a capture that says nothing of layouts. */
static void as_good_as_by_hand(void **state)
{
    (void)state;
    static const sizes wide = { 2, 128, 1024, 4096 }, narrow = { 64, 128, 128, 512 };
    const struct {
        int64_t mesh[2];
        const sizes *sizes;
        double link; /* bytes per microsecond: 1 Gbit/s, and the memory of one machine */
        const char *best; /* is among these */
        void (*check)(const weft_graph *graph, const block *b); /* or NULL */
    } rows[] = {
        { { 1, FAKE_RANKS }, &wide, 118, "tensor", assert_megatron },
        { { 1, FAKE_RANKS }, &wide, 8000, "sequence alone", assert_megatron },
        { { 1, FAKE_RANKS }, &narrow, 118, "data, fully sharded", assert_data_parallel },
        { { 1, FAKE_RANKS }, &narrow, 8000, "data, fully sharded", NULL },
        { { 2, FAKE_RANKS / 2 }, &wide, 118, "tensor", NULL },
        { { 2, FAKE_RANKS / 2 }, &wide, 8000, "sequence alone", NULL },
        { { 2, FAKE_RANKS / 2 }, &narrow, 118, "data, fully sharded", assert_data_parallel },
    };
    char path[MACHINE_PATH_BYTES];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(2, rows[i].mesh, (const char *const[]){ "dp", "tp" });
        double least = 0;
        block b;
        write_machine(path, 40000, rows[i].link);
        assert_non_null(strstr(rows[i].best, best_by_hand(mesh, rows[i].sizes, path, &least)));
        weft_graph *graph = capture(&b, mesh, &replicated, rows[i].sizes);
        weft_tensor *movable[2 + NUM_WEIGHTS] = { b.x, b.target };
        memcpy(movable + 2, b.weights, sizeof(b.weights));
        weft_graph_shard_info info = sharded_info(
            graph, &(weft_graph_shard_options){ .num_movable = 2 + NUM_WEIGHTS, .movable = movable, .machine = path });
        remove(path);
        assert_true(info.proved);
        if (info.us > 1.02 * least) {
            fail_msg("row %zu: %.1f us; the best by hand, %s, takes %.1f us", i, info.us, rows[i].best, least);
        }
        if (rows[i].check != NULL) {
            rows[i].check(graph, &b);
        }
        assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
        weft_scope_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_good_as_by_hand, start_fake, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
