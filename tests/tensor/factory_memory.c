/* What factories allocate: no rank holds more than its shard. */
#include "factory_memory.h"

#include "runtime/pool.h"
#include "runtime/runtime.h"
#include "tensor_support.h"

enum { NUM_FACTORIES = 13 };

/* A tensor by the factory of this number; those of one or two dimensions take the first sizes of the shape. */
static weft_tensor *make(int number, int64_t rows, int64_t columns, weft_mesh *mesh, const weft_placement *placements,
                         weft_tensor *like)
{
    const int64_t shape[] = { rows, columns };
    switch (number) {
    case 0:
        return weft_empty(WEFT_F32, 2, shape, mesh, placements);
    case 1:
        return weft_zeros(WEFT_F64, 2, shape, mesh, placements);
    case 2:
        return weft_ones(WEFT_BF16, 2, shape, mesh, placements);
    case 3:
        return weft_full(WEFT_I32, 3, 2, shape, mesh, placements);
    case 4:
        return weft_rand(WEFT_F32, 2, shape, mesh, placements);
    case 5:
        return weft_randn(WEFT_F16, 2, shape, mesh, placements);
    case 6:
        return weft_randint(WEFT_U8, 0, 9, 2, shape, mesh, placements);
    case 7:
        return weft_bernoulli_scalar(WEFT_BOOL, 0.5, 2, shape, mesh, placements);
    case 8:
        return weft_eye(WEFT_F64, rows, columns, mesh, placements);
    case 9:
        return weft_arange(WEFT_I64, 0, rows, 1, mesh, placements);
    case 10:
        return weft_linspace(WEFT_F64, 0, 1, rows, mesh, placements);
    case 11:
        return weft_randperm(rows, mesh, placements);
    default:
        return weft_randn_like(like);
    }
}

static int64_t bytes_here(const weft_tensor *tensor)
{
    int64_t bytes = 0;
    for (int k = 0; k < weft_local_ranks(); k++) {
        bytes += (int64_t)weft_local_bytes(tensor, k);
    }
    return bytes;
}

/* The most bytes in tensors of this process while a factory's tensor is made and its tasks run, beyond those before. */
static int64_t peak_of(int number, prng *random, int64_t *shards)
{
    weft_mesh *mesh = random_mesh(random, weft_world_size());
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t rows = 1 + (int64_t)prng_below(random, 40), columns = 1 + (int64_t)prng_below(random, 9), used, own;
    random_placements(random, mesh, number >= 9 && number <= 11 ? 1 : 2, false, placements);
    weft_scope_begin();
    weft_tensor *like = number == NUM_FACTORIES - 1 ? make(0, rows, columns, mesh, placements, NULL) : NULL;
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_pool_peak(weft_runtime.pool, &used, &own);
    weft_tensor *made = make(number, rows, columns, mesh, placements, like);
    assert_no_error();
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_pool_peak(weft_runtime.pool, &used, &own);
    *shards = bytes_here(made);
    weft_scope_end();
    return used - before;
}

/* No rank holds more than its shard at any time. */
void test_factories_make_shards_alone(void **state)
{
    (void)state;
    start(6);
    prng random = prng_start(8);
    for (int round = 0; round < 8 * NUM_FACTORIES; round++) {
        int64_t shards, peak = peak_of(round % NUM_FACTORIES, &random, &shards);
        if (peak != shards) {
            fail_msg("factory %d: %lld bytes at most, and %lld in its shards", round % NUM_FACTORIES, (long long)peak,
                     (long long)shards);
        }
    }
    /* It can fail: a tensor that is cut after it was made whole. */
    int64_t used, own, ranks = weft_world_size();
    const weft_placement rows[] = { weft_shard(0) };
    weft_mesh *all = weft_mesh_create(1, &ranks, NULL);
    weft_scope_begin();
    weft_pool_peak(weft_runtime.pool, &used, &own);
    int64_t before = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_tensor *cut = weft_redistribute(weft_ones(WEFT_F32, 1, (const int64_t[]){ 600 }, all, NULL), NULL, rows);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_pool_peak(weft_runtime.pool, &used, &own);
    assert_true(used - before > bytes_here(cut));
    weft_scope_end();
    stop();
}
