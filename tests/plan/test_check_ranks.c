/* WEFT_CHECK_RANKS: replicas get the values of their first rank. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 12 };

typedef struct scene {
    weft_mesh *mesh;
    weft_placement placements[3];
    int ndim;
    int64_t shape[3];
} scene;

/* The rank whose values a rank must have: the first one that differs from it along Replicate dimensions
 * alone. */
static int first_replica(const scene *s, const int64_t coordinate[])
{
    for (int rank = 0, best = -1;; rank++) {
        int64_t other[3];
        bool same = weft_mesh_coordinate(s->mesh, rank, other);
        for (int m = 0; m < weft_mesh_ndim(s->mesh) && same; m++) {
            same = s->placements[m].kind == WEFT_REPLICATE ? other[m] == 0 : other[m] == coordinate[m];
        }
        best = same ? rank : best;
        if (same || rank == weft_world_size()) {
            return best;
        }
    }
}

static float given(int rank, int64_t i)
{
    return (float)(1000 * rank + i);
}

static bool has_first_values(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const float *values = found->values;
    int first = first_replica(expected, found->coordinate);
    for (int64_t i = 0; i < found->count; i++) {
        if (values[i] != given(first, i)) {
            snprintf(text, size, "element %d is %g, expected %g", (int)i, (double)values[i],
                     (double)given(first, i));
            return false;
        }
    }
    return true;
}

static void write_given(const hosted_shard *shard, const void *unused)
{
    (void)unused;
    for (int64_t e = 0; e < shard->count; e++) {
        ((float *)shard->values)[e] = given(shard->rank, e);
    }
}

/* Each rank gives other values: replicas of shards, and of addends, get those of their first rank, in the
 * program's memory where that is used in place. */
static void check_ranks_once(prng *random)
{
    scene s = { .mesh = random_mesh(random, MAX_RANKS) };
    s.ndim = random_shape(random, 3, 6, s.shape);
    random_placements(random, s.mesh, s.ndim, true, s.placements);
    random_cut_sizes(random, s.mesh, s.ndim, s.shape, s.placements);
    unsigned flags = WEFT_CHECK_RANKS | (prng_below(random, 2) ? WEFT_COPY : 0);
    void *locals[MAX_RANKS];
    make_locals(WEFT_F32, s.ndim, s.shape, s.mesh, s.placements, write_given, NULL, locals);
    weft_scope_begin();
    weft_tensor *tensor = weft_from_local(WEFT_F32, s.ndim, s.shape, locals, s.mesh, s.placements, flags);
    assert_no_error();
    assert_shards(tensor, has_first_values, &s, "from_local");
    for (int i = 0; i < weft_local_ranks() && !(flags & WEFT_COPY); i++) {
        size_t bytes = weft_local_bytes(tensor, i);
        float *values = malloc(bytes + 1);
        if (bytes > 0) {
            assert_int_equal(weft_local_to_host(tensor, i, values, bytes), WEFT_OK);
            assert_memory_equal(values, locals[i], bytes);
        }
        free(values);
    }
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    free_locals(locals);
}

static void test_first_ranks_values(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "2" };
    for (size_t h = 0; h < 3; h++) {
        start_with_panels(MAX_RANKS, heights[h]);
        prng random = prng_start(6 + h);
        for (int i = 0; i < (weft_num_processes() == 1 ? 300 : 60); i++) {
            check_ranks_once(&random);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- values that all processes read: the same, although replicas differ --------------------------------- */

/* A tensor whose replicas have other values on each rank, and one whose replicas have those of the first. */
static void read_everywhere(prng *random)
{
    scene s = { .mesh = random_mesh(random, MAX_RANKS) };
    s.ndim = random_shape(random, 3, prng_below(random, 2) ? 6 : 1, s.shape);
    random_placements(random, s.mesh, s.ndim, true, s.placements);
    random_cut_sizes(random, s.mesh, s.ndim, s.shape, s.placements);
    void *locals[MAX_RANKS];
    make_locals(WEFT_F32, s.ndim, s.shape, s.mesh, s.placements, write_given, NULL, locals);
    int64_t count = shape_count(s.ndim, s.shape);
    size_t bytes = (size_t)count * sizeof(float);
    float *found = malloc(bytes + 1), *expected = malloc(bytes + 1);
    weft_scope_begin();
    weft_tensor *tensor = weft_from_local(WEFT_F32, s.ndim, s.shape, locals, s.mesh, s.placements, WEFT_COPY);
    weft_tensor *agreed =
        weft_from_local(WEFT_F32, s.ndim, s.shape, locals, s.mesh, s.placements, WEFT_COPY | WEFT_CHECK_RANKS);
    assert_int_equal(weft_to_host(tensor, found, bytes), WEFT_OK);
    assert_int_equal(weft_to_host(agreed, expected, bytes), WEFT_OK);
    if (memcmp(found, expected, bytes) != 0) {
        fail_msg("other values than those of the first replicas: %s", describe(s.mesh, s.placements, s.ndim, s.shape));
    }
    double value;
    if (count == 1) {
        assert_int_equal(weft_tensor_item(tensor, &value), WEFT_OK);
        assert_true(value == (double)expected[0]);
    }
    weft_scope_end();
    free_locals(locals);
    free(found);
    free(expected);
}

static int odd_rank;

static void write_but_one(const hosted_shard *shard, const void *unused)
{
    (void)unused;
    for (int64_t e = 0; e < shard->count; e++) {
        ((float *)shard->values)[e] = shard->rank == odd_rank ? 2 : 1;
    }
}

/* One rank alone has other values. */
static void compare_everywhere(prng *random)
{
    scene s = { .mesh = random_mesh(random, MAX_RANKS) };
    s.ndim = random_shape(random, 3, 6, s.shape);
    random_placements(random, s.mesh, s.ndim, false, s.placements);
    odd_rank = (int)prng_below(random, MAX_RANKS);
    void *locals[MAX_RANKS];
    make_locals(WEFT_F32, s.ndim, s.shape, s.mesh, s.placements, write_but_one, NULL, locals);
    int64_t coordinate[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
    weft_scope_begin();
    weft_tensor *tensor = weft_from_local(WEFT_F32, s.ndim, s.shape, locals, s.mesh, s.placements, WEFT_COPY);
    weft_tensor *ones = weft_ones(WEFT_F32, s.ndim, s.shape, s.mesh, s.placements);
    bool same = !weft_mesh_coordinate(s.mesh, odd_rank, coordinate), equal = false, close = false;
    if (!same) {
        assert_int_equal(weft_shard_box(s.mesh, s.placements, s.ndim, s.shape, odd_rank, offset, extent), WEFT_OK);
        same = shape_count(s.ndim, extent) == 0;
    }
    assert_int_equal(weft_equal(tensor, ones, &equal), WEFT_OK);
    assert_int_equal(weft_allclose(ones, tensor, 0.125, 0.125, false, &close), WEFT_OK);
    if (equal != same || close != same) {
        fail_msg("rank %d has other values: equal %d, close %d, expected %d: %s", odd_rank, equal, close, same,
                 describe(s.mesh, s.placements, s.ndim, s.shape));
    }
    weft_scope_end();
    free_locals(locals);
}

static void test_all_read_the_same(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    prng random = prng_start(28);
    for (int i = 0; i < 60 && weft_num_processes() > 1; i++) { /* one process reads one replica */
        read_everywhere(&random);
        compare_everywhere(&random);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_ranks_values),
        cmocka_unit_test(test_all_read_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
