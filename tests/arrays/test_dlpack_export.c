/* weft_to_dlpack(): shards as managed tensors, which outlive tensors, worlds and the library. In one process, and over MPI. */
#include "managed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"

enum { RANKS = 4, MOST = 512 };

static weft_mesh *line;
static const weft_placement by_rows[] = { { .kind = WEFT_SHARD, .dim = 0 } };

static int start(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_ROWS", "2", 1);
    weft_config config = { .ranks = RANKS };
    weft_status status = weft_init(&config);
    unsetenv("WEFT_PANEL_ROWS");
    line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    return status == WEFT_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    assert_no_error();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

static void end(struct DLManagedTensorVersioned *managed)
{
    managed->deleter(managed);
}

/* 0, 1, 2, ... by rows: each rank has several panels. */
static weft_tensor *numbers(int64_t n, int64_t columns)
{
    return weft_reshape(weft_arange(WEFT_F64, 0, (double)(n * columns), 1, line, by_rows), 2, (int64_t[]){ n, columns });
}

static int64_t count_of(const dl_tensor *tensor)
{
    return shape_count(tensor->ndim, tensor->shape);
}

static void expect_all(const dl_tensor *tensor, double value)
{
    const double *values = tensor->data;
    for (int64_t i = 0; i < count_of(tensor); i++) {
        assert_true(values[i] == value);
    }
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Random tensors of all types, empty shards, ranks outside of the mesh, views: as weft_local_to_host() has them. */
static void test_values(void **state)
{
    (void)state;
    prng random = prng_start(7);
    for (int i = 0; i < 120; i++) {
        weft_scope_begin();
        weft_dtype dtype = (weft_dtype)(i % WEFT_F8_E4M3);
        int64_t shape[3], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        weft_placement placements[3];
        weft_mesh *mesh = random_mesh(&random, RANKS);
        int ndim = random_shape(&random, 3, 7, shape);
        random_placements(&random, mesh, ndim, false, placements);
        weft_tensor *x = weft_to_type(weft_rand(WEFT_F32, ndim, shape, mesh, placements), dtype);
        if (ndim > 0 && shape[0] > 2) { /* in the memory of x, where it may */
            x = weft_slice(x, 0, 1, shape[0], 1);
        }
        assert_no_error();
        for (int local = 0; local < weft_local_ranks(); local++) {
            int64_t at[WEFT_MAX_DIMS];
            if (ndim == 0 && weft_mesh_coordinate(mesh, weft_first_rank() + local, at) == 0) {
                assert_null(weft_to_dlpack(x, local, 0));
                assert_error(WEFT_ERR_MESH, "weft_to_dlpack: tensor is ");
                continue;
            }
            unsigned flags = i / WEFT_F8_E4M3 % 2 ? WEFT_COPY : 0;
            char values[MOST * 8];
            assert_int_equal(weft_local_box(x, local, offset, extent), WEFT_OK);
            assert_int_equal(weft_local_to_host(x, local, values, sizeof(values)), WEFT_OK);
            struct DLManagedTensorVersioned *managed = weft_to_dlpack(x, local, flags);
            struct DLManagedTensor *older = weft_to_dlpack_unversioned(x, local, flags);
            assert_no_error();
            assert_int_equal(managed->version.major, 1);
            assert_int_equal(managed->flags, flags == WEFT_COPY ? COPIED : READ_ONLY);
            assert_managed(&managed->tensor, dtype, ndim, extent);
            assert_managed(&older->tensor, dtype, ndim, extent);
            size_t bytes = weft_local_bytes(x, local);
            assert_true(bytes == 0 || memcmp(managed->tensor.data, values, bytes) == 0);
            assert_true(bytes == 0 || memcmp(older->tensor.data, values, bytes) == 0);
            assert_true(bytes == 0 || (managed->tensor.data == older->tensor.data) == (flags == 0));
            end(managed);
            older->deleter(older);
        }
        weft_scope_end();
    }
}

/* ---- sharing ------------------------------------------------------------------------------------------- */

/* Nothing is copied; what weft writes later does not show, by calls in place and by weft_local_acquire(). */
static void test_values_stay(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = numbers(24, 3), *y = weft_transpose(x, 0, 1);
    const double *memory = weft_local_acquire(x, 0, WEFT_READ);
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    struct DLManagedTensorVersioned *before = weft_to_dlpack(x, 0, 0);
    const double *values = before->tensor.data;
    assert_ptr_equal(values, memory);
    double kept[18];
    memcpy(kept, values, sizeof(kept));
    weft_scale_inplace(x, 2);
    weft_copy_inplace(x, weft_transpose(y, 0, 1));
    weft_fill_inplace(x, -1);
    struct DLManagedTensorVersioned *after = weft_to_dlpack(x, 0, 0);
    expect_all(&after->tensor, -1);
    double *written = weft_local_acquire(x, 0, WEFT_READ_WRITE);
    assert_true(written != values && written != after->tensor.data && written[0] == -1);
    written[0] = 3;
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_all(&after->tensor, -1);
    assert_memory_equal(values, kept, sizeof(kept));
    weft_scope_end();
    assert_memory_equal(values, kept, sizeof(kept));
    end(before);
    end(after);
}

/* The memory of a tensor that has ended is not reused before the deleter has been called, and then it is. */
static void test_memory_stays(void **state)
{
    (void)state;
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t used = weft_pool_bytes_in_use(weft_runtime.pool);
    weft_tensor *x = weft_full(WEFT_F64, 1, 1, (int64_t[]){ 64 }, line, by_rows);
    struct DLManagedTensorVersioned *shards[RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        shards[i] = weft_to_dlpack(x, i, 0);
    }
    weft_tensor_release(x);
    for (int round = 0; round < 20; round++) {
        weft_tensor_release(weft_full(WEFT_F64, round, 1, (int64_t[]){ 64 }, line, by_rows));
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_pool_bytes_in_use(weft_runtime.pool), used + 16 * 8 * weft_local_ranks());
    for (int i = 0; i < weft_local_ranks(); i++) {
        expect_all(&shards[i]->tensor, 1);
        end(shards[i]);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_pool_bytes_in_use(weft_runtime.pool), used);
}

/* A copy is the consumer's: neither sees the other's writes. */
static void test_copies(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F64, 1, (int64_t[]){ 12 }, line, by_rows);
    struct DLManagedTensorVersioned *copy = weft_to_dlpack(x, 0, WEFT_COPY);
    assert_int_equal(copy->flags, COPIED);
    ((double *)copy->tensor.data)[0] = 9;
    double values[3];
    assert_int_equal(weft_local_to_host(x, 0, values, sizeof(values)), WEFT_OK);
    assert_true(values[0] == 1);
    end(copy);
    /* Memory of the program's, which writes to it through the tensor. */
    double locals[RANKS][3] = { { 1, 2, 3 } };
    void *pointers[] = { locals[0], locals[1], locals[2], locals[3] };
    weft_tensor *own = weft_from_local(WEFT_F64, 1, (int64_t[]){ 12 }, pointers, line, by_rows, 0);
    copy = weft_to_dlpack(own, 0, 0);
    assert_int_equal(copy->flags, COPIED | READ_ONLY);
    assert_true(copy->tensor.data != locals[0]);
    weft_fill_inplace(own, 4);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(locals[0][0] == 4);
    assert_memory_equal(copy->tensor.data, ((double[]){ 1, 2, 3 }), 24);
    end(copy);
}

/* To another library and back, several times: a deleter of weft's runs within one of weft's calls. */
static void test_there_and_back(void **state)
{
    (void)state;
    weft_tensor *x = weft_full(WEFT_F64, 5, 1, (int64_t[]){ 40 }, line, by_rows);
    int64_t used = weft_pool_bytes_in_use(weft_runtime.pool);
    for (int round = 0; round < 3; round++) {
        struct DLManagedTensorVersioned *shards[RANKS];
        for (int i = 0; i < weft_local_ranks(); i++) {
            shards[i] = weft_to_dlpack(x, i, 0);
        }
        weft_tensor *y = weft_from_dlpack(WEFT_F64, 1, (int64_t[]){ 40 }, shards, line, by_rows, 0);
        assert_ptr_equal(weft_local_acquire(y, 0, WEFT_READ), shards[0]->tensor.data);
        assert_int_equal(weft_local_release(y, 0), WEFT_OK);
        weft_tensor *twice = weft_scale_inplace(y, 2); /* leaves the shared memory, which is read-only */
        assert_ptr_equal(twice, y);
        double value;
        weft_tensor *sum = weft_sum(weft_sub(y, x), WEFT_ALL_DIMS, false);
        assert_int_equal(weft_tensor_item(sum, &value), WEFT_OK);
        assert_true(value == 40 * 5);
        weft_tensor_release(y);
        assert_int_equal(weft_wait(), WEFT_OK);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(weft_pool_bytes_in_use(weft_runtime.pool) >= used);
    weft_tensor_release(x);
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static void *end_there(void *managed)
{
    end(managed);
    return NULL;
}

/* Deleters on other threads, while this one calls weft. */
static void test_deleters_on_threads(void **state)
{
    (void)state;
    enum { ROUNDS = 40 };
    pthread_t threads[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        weft_tensor *x = weft_full(WEFT_F64, round, 1, (int64_t[]){ 32 }, line, by_rows);
        struct DLManagedTensorVersioned *managed = weft_to_dlpack(x, 0, round % 3 == 0 ? WEFT_COPY : 0);
        weft_tensor_release(x);
        expect_all(&managed->tensor, round);
        assert_int_equal(pthread_create(&threads[round], NULL, end_there, managed), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        pthread_join(threads[round], NULL);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Two of one memory, one ended before and one after weft_finalize(); and while another world runs. */
static void test_memory_outlives_the_library(void **state)
{
    (void)state;
    for (int during = 0; during < 2; during++) {
        weft_tensor *x = weft_full(WEFT_F64, 6, 1, (int64_t[]){ 40 }, line, by_rows);
        struct DLManagedTensorVersioned *managed[4];
        for (int i = 0; i < 4; i++) {
            managed[i] = weft_to_dlpack(x, 0, i == 3 ? WEFT_COPY : 0);
        }
        end(managed[0]);
        weft_tensor_release(x);
        assert_int_equal(weft_finalize(), WEFT_OK);
        if (during) {
            start(NULL);
            weft_tensor_release(weft_ones(WEFT_F64, 1, (int64_t[]){ 40 }, line, by_rows));
        }
        for (int i = 1; i < 4; i++) {
            expect_all(&managed[i]->tensor, 6);
            end(managed[i]);
        }
        if (!during) {
            start(NULL);
        }
        /* Ended, but not collected yet when the library ends. */
        x = weft_ones(WEFT_F64, 1, (int64_t[]){ 40 }, line, by_rows);
        end(weft_to_dlpack(x, 0, 0));
        assert_int_equal(weft_finalize(), WEFT_OK);
        start(NULL);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void test_refusals(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F64, 1, (int64_t[]){ 8 }, line, by_rows);
    assert_null(weft_to_dlpack(NULL, 0, 0));
    assert_error(WEFT_ERR_INVALID, "weft_to_dlpack: tensor is NULL");
    assert_null(weft_to_dlpack(x, weft_local_ranks(), 0));
    assert_error(WEFT_ERR_INVALID, "weft_to_dlpack: local_rank is ");
    assert_null(weft_to_dlpack_unversioned(x, -1, 0));
    assert_error(WEFT_ERR_INVALID, "weft_to_dlpack_unversioned: local_rank is -1");
    assert_null(weft_to_dlpack(x, 0, WEFT_CHECK_RANKS));
    assert_error(WEFT_ERR_INVALID, "weft_to_dlpack: flags is 0x2, expected 0, WEFT_COPY or WEFT_ON_DEVICE");
    assert_null(weft_to_dlpack(weft_fake_like(x), 0, 0));
    assert_error(WEFT_ERR_STATE, "tensor has no data");
    /* While the program writes; while it reads there is nothing to wait for. */
    for (unsigned flags = 0; flags <= WEFT_COPY; flags++) {
        assert_non_null(weft_local_acquire(x, 0, WEFT_WRITE));
        assert_null(weft_to_dlpack(x, 0, flags));
        assert_error(WEFT_ERR_STATE, "weft_to_dlpack: would wait for weft_local_release()");
        assert_int_equal(weft_local_release(x, 0), WEFT_OK);
        assert_non_null(weft_local_acquire(x, 0, WEFT_READ));
        end(weft_to_dlpack(x, 0, flags));
        assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    }
    /* An earlier task's error. */
    for (unsigned flags = 0; flags <= WEFT_COPY; flags++) {
        weft_tensor *wrong = weft_full(WEFT_I64, 99, 1, (int64_t[]){ 8 }, line, by_rows);
        weft_tensor *y = weft_index_select(weft_ones(WEFT_F64, 1, (int64_t[]){ 8 }, line, NULL), 0, wrong);
        assert_null(weft_to_dlpack(y, 0, flags));
        assert_error(WEFT_ERR_INVALID, "99");
        weft_wait();
        weft_clear_error();
    }
    weft_scope_end();
}

/* In a captured graph, which executes what comes before: the values of each run. */
static weft_status exporting(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    struct DLManagedTensorVersioned **managed = context;
    weft_tensor *twice = weft_add(inputs[0], inputs[0]);
    *managed = weft_to_dlpack(twice, 0, 0);
    weft_fill_inplace(twice, 0);
    outputs[0] = weft_add(twice, inputs[0]);
    return *managed == NULL ? weft_last_status() : WEFT_OK;
}

static void test_within_a_graph(void **state)
{
    (void)state;
    struct DLManagedTensorVersioned *managed = NULL;
    weft_graph *graph = weft_graph_create("exporting", exporting, &managed, 1, 0, 1);
    assert_non_null(graph);
    for (int run = 1; run < 5; run++) {
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F64, run, 1, (int64_t[]){ 8 }, line, by_rows), *y;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
        expect_all(&managed->tensor, 2 * run);
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_all(&managed->tensor, 2 * run);
        end(managed);
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        ROW(test_values),
        ROW(test_values_stay),
        ROW(test_memory_stays),
        ROW(test_copies),
        ROW(test_there_and_back),
        ROW(test_deleters_on_threads),
        ROW(test_memory_outlives_the_library),
        ROW(test_refusals),
        ROW(test_within_a_graph),
    };
    return cmocka_run_group_tests_name("export by DLPack", tests, NULL, NULL);
}
