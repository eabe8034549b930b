/* Attention whose heads are sharded, with fewer heads of k and v: what it moves, and that it is attention with repeated
 * heads. */
#include "support.h"

#include <math.h>

enum { RANKS = 4, BATCH = 2, HEADS = 8, LENGTH = 6, E = 3, COUNT = BATCH * HEADS * LENGTH * E };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    return 0;
}

static weft_tensor *heads_of(int64_t heads, int64_t from, bool sharded)
{
    const weft_placement placement = sharded ? weft_shard(1) : weft_replicate();
    int64_t count = BATCH * heads * LENGTH * E;
    weft_tensor *angles = weft_arange(WEFT_F64, (double)from, (double)(from + count), 1, mesh, NULL);
    weft_tensor *values = weft_reshape(weft_sin(angles), 4, (int64_t[]){ BATCH, heads, LENGTH, E });
    weft_tensor *leaf = weft_redistribute(values, mesh, &placement);
    assert_non_null(leaf);
    leaf = weft_detach(leaf);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    return leaf;
}

/* Each head `times` times. */
static weft_tensor *repeated(weft_tensor *a, int64_t heads, int64_t times)
{
    weft_tensor *all = weft_expand(weft_unsqueeze(a, 2), 5, (int64_t[]){ BATCH, heads, times, LENGTH, E });
    return weft_flatten(all, 1, 2);
}

typedef struct results {
    double output[COUNT], of_q[COUNT], of_k[COUNT], of_v[COUNT];
    uint64_t moved; /* bytes, in the forward pass */
} results;

static void attend(int64_t groups, bool grouped, bool sharded, results *r)
{
    weft_scope_begin();
    const weft_attention_options options = { .size = sizeof(options), .causal = true, .grouped_heads = grouped };
    weft_tensor *q = heads_of(HEADS, 0, sharded), *k = heads_of(groups, 1000, false), *v = heads_of(groups, 2000, false);
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *output = grouped ? weft_attention(q, k, v, &options)
                                  : weft_attention(q, repeated(k, groups, HEADS / groups), repeated(v, groups, HEADS / groups), &options);
    weft_get_counters(&after, sizeof(after));
    r->moved = after.bytes_moved - before.bytes_moved;
    assert_int_equal(weft_backward(weft_sum(weft_mul(output, weft_cos(output)), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_int_equal(weft_to_host(output, r->output, sizeof(r->output)), WEFT_OK);
    assert_int_equal(weft_to_host(weft_grad(q), r->of_q, sizeof(r->of_q)), WEFT_OK);
    size_t bytes = sizeof(r->of_k) / HEADS * (size_t)groups;
    assert_int_equal(weft_to_host(weft_grad(k), r->of_k, bytes), WEFT_OK);
    assert_int_equal(weft_to_host(weft_grad(v), r->of_v, bytes), WEFT_OK);
    weft_scope_end();
    assert_no_error();
}

static void expect_near(const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabs(a[i] - b[i]) <= 1e-12 * (1 + fabs(b[i])));
    }
}

/* Groups that fill the ranks' heads, that are parts of them, and that several ranks share. */
static void test_few_heads(void **state)
{
    (void)state;
    for (int64_t groups = 1; groups <= HEADS; groups *= 2) {
        static results plain, own;
        attend(groups, false, false, &plain);
        for (int sharded = 0; sharded < 2; sharded++) {
            attend(groups, true, sharded == 1, &own);
            int64_t count = COUNT / HEADS * groups;
            expect_near(own.output, plain.output, COUNT);
            expect_near(own.of_q, plain.of_q, COUNT);
            expect_near(own.of_k, plain.of_k, count);
            expect_near(own.of_v, plain.of_v, count);
            /* Numbers of heads at most: neither rows nor keys. */
            assert_true(own.moved <= RANKS * HEADS * sizeof(int64_t));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_few_heads) };
    return cmocka_run_group_tests(tests, start, world_stop);
}
