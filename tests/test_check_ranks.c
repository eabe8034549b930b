/* WEFT_CHECK_RANKS: replicas get the values of their first rank. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

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
    unsigned flags = WEFT_CHECK_RANKS | (prng_below(random, 2) ? WEFT_COPY : 0);
    void *locals[MAX_RANKS];
    make_locals(WEFT_F32, s.ndim, s.shape, s.mesh, s.placements, write_given, NULL, locals);
    weft_scope_open();
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
    weft_scope_close();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_ranks_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
