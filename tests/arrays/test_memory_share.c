/* Tensors that do not fit a process's memory are refused before anything is allocated or sent, on every process alike. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of tensors that a process may have, by WEFT_MEMORY_BYTES. */
enum { MEMORY = 1 << 22, RANKS = 4 };

/* The ranks of a process, at most. */
static int64_t most_ranks(void)
{
    return (RANKS + weft_num_processes() - 1) / weft_num_processes();
}

static void assert_refused(const void *result, const char *start)
{
    assert_null(result);
    assert_int_equal(weft_last_status(), WEFT_ERR_NOMEM);
    if (strncmp(weft_last_error(), start, strlen(start)) != 0) {
        fail_msg("\"%s\" does not begin with \"%s\"", weft_last_error(), start);
    }
    weft_clear_error();
}

/* Two shares of a matrix for each rank of a process fit, but not the whole matrix for each. */
static void test_whole_matrices(void)
{
    const int64_t ranks = RANKS, n = most_ranks() == 4 ? 512 : 640, bytes = n * n * 8;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_eye(WEFT_F64, n, n, mesh, &rows), *second, *u;
    assert_true(most_ranks() * bytes / 2 <= MEMORY && most_ranks() * bytes > MEMORY);
    weft_counters before, after;
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_refused(weft_eigh(a, false, &second), most_ranks() == 4 ? "weft_eigh: a is too large: with f64[512, 512] [R] on 4 the call needs 0.0168 GB of a process, "
                                                               "which has 0.00419 GB (WEFT_MEMORY_BYTES)" : "weft_eigh: a is too large: with f64[640, 640] [R] on 4");
    assert_null(second);
    assert_refused(weft_svd(a, &u, &second), "weft_svd: a is too large");
    assert_refused(weft_redistribute(a, mesh, NULL), "weft_redistribute: tensor is too large");
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&after, sizeof(after));
    assert_true(after.messages == before.messages && after.tensor_bytes == before.tensor_bytes);
}

/* A factorisation by blocks has no room for the factor, nor a process for the matrix. */
static void test_shares(void)
{
    const int64_t ranks = RANKS, n = 800, bytes = n * n * 8;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_eye(WEFT_F64, n, n, mesh, &rows), *second;
    assert_true(most_ranks() * bytes / 2 > MEMORY);
    assert_refused(weft_cholesky(a, true), "weft_cholesky: a is too large");
    assert_refused(weft_lu_factor(a, &second), "weft_lu_factor: a is too large");
    assert_refused(weft_solve(a, a), "weft_solve: a is too large");
    assert_refused(weft_qr(a, &second), "weft_qr: a is too large");
    double *whole = malloc((size_t)bytes);
    if (weft_num_processes() > 1) { /* else it is read where it is */
        assert_int_equal(weft_to_host(a, whole, (size_t)bytes), WEFT_ERR_NOMEM);
        assert_refused(NULL, "weft_to_host: tensor is too large");
    }
    if (weft_num_processes() > 1) { /* the others leave it their shares */
        assert_int_equal(weft_to_host_on(a, 0, whole, (size_t)bytes), WEFT_OK);
        assert_true(weft_first_rank() != 0 || (whole[0] == 1 && whole[1] == 0 && whole[n * n - 1] == 1));
    } else {
        assert_int_equal(weft_to_host_on(a, 0, whole, (size_t)bytes), WEFT_ERR_NOMEM);
        assert_refused(NULL, "weft_to_host_on: tensor is too large");
    }
    assert_refused(weft_qr_complete(weft_eye(WEFT_F64, 100000, 1, mesh, NULL), &second), "weft_qr_complete: a is too large");
    free(whole);
    /* As before. */
    double sum;
    assert_int_equal(weft_tensor_item(weft_sum(a, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
    assert_true(sum == (double)n);
}

static void test_world(void **state)
{
    (void)state;
    setenv("WEFT_MEMORY_BYTES", "4194304", 1);
    setenv("WEFT_RANKS", "4", 1);
    assert_int_equal(weft_init(NULL), WEFT_OK);
    weft_scope_begin();
    test_whole_matrices();
    test_shares();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_world) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
