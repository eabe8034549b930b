/* Linear algebra has the same bits on every number of processes: a world of this process alone has the same ranks as one of all, and keeps
 * its results. Matrices of a batch also have the same bits on every number of ranks. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MOST_RESULTS = 40, N = 520 };

typedef struct result {
    const char *name;
    void *values;
    size_t bytes;
} result;

typedef struct results {
    result all[MOST_RESULTS];
    int count;
} results;

static void keep(results *r, const char *name, weft_tensor *tensor)
{
    if (tensor == NULL || r->count == MOST_RESULTS) {
        fail_msg("%s: %s", name, weft_last_error());
    }
    result *next = &r->all[r->count++];
    *next = (result){ .name = name, .bytes = weft_tensor_bytes(tensor) };
    next->values = malloc(next->bytes);
    assert_int_equal(weft_to_host(tensor, next->values, next->bytes), WEFT_OK);
}

static void keep_two(results *r, const char *name, weft_tensor *first, weft_tensor *second)
{
    keep(r, name, first);
    keep(r, name, second);
}

/* A matrix of `rows` and `columns` on the current ranks, dealt. */
static weft_tensor *random_matrix(weft_dtype type, int64_t rows, int64_t columns, weft_mesh *mesh, const char *placements)
{
    weft_placement p;
    assert_int_equal(weft_placements_parse(placements, 1, &p), WEFT_OK);
    return weft_randn(type, 2, (const int64_t[]){ rows, columns }, mesh, &p);
}

/* One matrix that ranks share: sums are cut by ranks. */
static void compute_shared(results *r, weft_mesh *mesh)
{
    weft_tensor *a = random_matrix(WEFT_F64, N, N, mesh, "S1*64"), *second, *third;
    weft_tensor *unit = weft_eye(WEFT_F64, N, N, mesh, NULL);
    weft_tensor *positive = weft_add_scaled(weft_matmul_ex(a, true, a, false), unit, N), *b = random_matrix(WEFT_F64, N, 3, mesh, "S0");
    weft_tensor *tall = random_matrix(WEFT_C128, 400, 9, mesh, "S0"), *first;
    weft_tensor *factor = weft_cholesky(weft_redistribute(positive, mesh, (const weft_placement[]){ weft_shard(0) }), true);
    keep(r, "weft_cholesky", factor);
    keep(r, "weft_cholesky_solve", weft_cholesky_solve(b, factor, true));
    keep(r, "weft_triangular_solve", weft_triangular_solve(factor, b, true, true, false));
    first = weft_lu_factor(a, &second);
    keep_two(r, "weft_lu_factor", first, second);
    keep(r, "weft_solve", weft_solve(a, b));
    first = weft_slogdet(a, &second);
    keep_two(r, "weft_slogdet", first, second);
    first = weft_qr(a, &second);
    keep_two(r, "weft_qr", first, second);
    keep(r, "weft_lstsq", weft_lstsq(a, b, 0));
    first = weft_qr(tall, &second);
    keep_two(r, "weft_qr of a tall matrix", first, second);
    first = weft_svd(tall, &second, &third);
    keep(r, "weft_svd of a tall matrix", first);
    keep_two(r, "weft_svd of a tall matrix", second, third);
    keep(r, "weft_pinv of a tall matrix", weft_pinv(tall, -1));
}

/* Matrices that are whole on a rank. */
static void compute_whole(results *r, weft_mesh *mesh)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_randn(WEFT_F32, 3, (const int64_t[]){ 7, 12, 12 }, mesh, &rows), *second, *third, *first;
    weft_tensor *one = random_matrix(WEFT_C64, 30, 30, mesh, "S1");
    keep(r, "weft_inverse", weft_inverse(a));
    keep(r, "weft_det", weft_det(a));
    keep(r, "weft_matrix_exp", weft_matrix_exp(a));
    first = weft_qr_complete(weft_slice(a, 2, 0, 5, 1), &second);
    keep_two(r, "weft_qr_complete", first, second);
    first = weft_eigh(one, false, &second);
    keep_two(r, "weft_eigh", first, second);
    first = weft_svd(one, &second, &third);
    keep(r, "weft_svd", first);
    keep_two(r, "weft_svd", second, third);
}

static void compute(weft_world world, int ranks, bool shared, results *r)
{
    const weft_config config = { .world = world, .ranks = ranks };
    const int64_t size = ranks;
    *r = (results){ .count = 0 };
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_scope_begin();
    (shared ? compute_shared : compute_whole)(r, weft_mesh_create(1, &size, NULL));
    assert_no_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void assert_same(const results *a, results *b, int ranks)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        assert_int_equal(a->all[i].bytes, b->all[i].bytes);
        if (memcmp(a->all[i].values, b->all[i].values, a->all[i].bytes) != 0) {
            fail_msg("%s has other bits with %d ranks on these processes", a->all[i].name, ranks);
        }
        free(b->all[i].values);
    }
}

static void drop(results *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->all[i].values);
    }
}

static void test_bits(void **state)
{
    (void)state;
    results alone, together;
    for (int shared = 0; shared < 2; shared++) {
        compute(WEFT_WORLD_SELF, shared ? RANKS : 1, shared, &alone);
        for (int ranks = RANKS; ranks <= (shared ? RANKS : 2 * RANKS - 1); ranks++) {
            compute(WEFT_WORLD_AUTO, ranks, shared, &together);
            assert_same(&alone, &together, ranks);
        }
        drop(&alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
