/* Tensors: made, imported, looked at, shared, released. In one process, and over MPI; on worlds of several
 * sizes. */
#include "support.h"

#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void start(int ranks)
{
    weft_config config = { .world = WEFT_WORLD_AUTO, .ranks = ranks, .seed = 17 };
    assert_int_equal(weft_init(&config), WEFT_OK);
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_mesh *line(int64_t ranks)
{
    return weft_mesh_create(1, &ranks, NULL);
}

static void assert_host_equal(weft_tensor *tensor, size_t bytes, const void *expected, const char *what)
{
    void *values = malloc(bytes + 1);
    assert_int_equal(weft_to_host(tensor, values, bytes), WEFT_OK);
    if (memcmp(values, expected, bytes) != 0) {
        fail_msg("%s: other values than expected", what);
    }
    free(values);
}

/* ---- factories ----------------------------------------------------------------------------------------- */

/* One value of each type, as bytes. */
static void element_of(weft_dtype dtype, double value, unsigned char bytes[8])
{
    memset(bytes, 0, 8);
    double f64 = value;
    float f32 = (float)value;
    int64_t i64 = (int64_t)value;
    int32_t i32 = (int32_t)value;
    uint8_t u8 = (uint8_t)value, truth = value != 0;
    /* 2.0 and 1.0 and 0.0 have no mantissa: the upper half of the f32 is the bf16, and f16 has the exponent
     * rebiased. */
    uint32_t bits;
    memcpy(&bits, &f32, sizeof(bits));
    uint16_t bf16 = (uint16_t)(bits >> 16), f16 = value == 0 ? 0 : (uint16_t)(((bits >> 23) - 112) << 10);
    const void *values[] = { &f64, &f32, &bf16, &f16, &i64, &i32, &u8, &truth };
    memcpy(bytes, values[dtype], weft_dtype_size(dtype));
}

static void check_constant(prng *random, weft_dtype dtype, double value, int which)
{
    int64_t shape[4];
    int ndim = random_shape(random, 4, 9, shape);
    weft_mesh *mesh = random_mesh(random, weft_world_size());
    weft_placement placements[3];
    random_placements(random, mesh, ndim, false, placements);
    weft_scope_open();
    weft_tensor *tensor = which == 0   ? weft_zeros(dtype, ndim, shape, mesh, placements)
                          : which == 1 ? weft_ones(dtype, ndim, shape, mesh, placements)
                                       : weft_full(dtype, ndim, shape, value, mesh, placements);
    size_t size = weft_dtype_size(dtype), count = (size_t)shape_count(ndim, shape);
    unsigned char one[8], *expected = malloc(count * size + 1);
    element_of(dtype, value, one);
    for (size_t i = 0; i < count; i++) {
        memcpy(expected + i * size, one, size);
    }
    assert_host_equal(tensor, count * size, expected, describe(mesh, placements, ndim, shape));
    free(expected);
    weft_scope_close();
}

static void test_constants(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 7; ranks += 3) {
        start(ranks);
        prng random = prng_start((uint64_t)ranks);
        for (int i = 0; i < 80; i++) {
            weft_dtype dtype = (weft_dtype)(i % WEFT_DTYPE_COUNT);
            check_constant(&random, dtype,
                           i % 3 == 0           ? 0.0
                           : i % 3 == 1         ? 1.0
                           : dtype == WEFT_BOOL ? 1.0
                                                : 2.0,
                           i % 3);
        }
        stop();
    }
}

/* C1: the values depend on the seed and the place in the global tensor, not on mesh, layout or number of
 * ranks. */
static void test_random_is_the_same_everywhere(void **state)
{
    (void)state;
    enum { CASES = 24 };
    unsigned char *expected[CASES][2] = { { NULL } };
    static const int worlds[] = { 1, 4, 7, 12 };
    for (size_t w = 0; w < 4; w++) {
        start(worlds[w]);
        prng shapes = prng_start(5), layouts = { 100 + w };
        for (int i = 0; i < CASES; i++) {
            weft_dtype dtype = i % 4 == 3   ? WEFT_F16
                               : i % 4 == 2 ? WEFT_BF16
                               : i % 4 == 1 ? WEFT_F64
                                            : WEFT_F32;
            int64_t shape[3];
            int ndim = random_shape(&shapes, 3, 11, shape);
            size_t bytes = (size_t)shape_count(ndim, shape) * weft_dtype_size(dtype);
            weft_scope_open();
            for (int k = 0; k < 2; k++) {
                weft_mesh *mesh = random_mesh(&layouts, weft_world_size());
                weft_placement placements[3];
                random_placements(&layouts, mesh, ndim, false, placements);
                weft_tensor *tensor = k == 0 ? weft_rand(dtype, ndim, shape, mesh, placements)
                                             : weft_randn(dtype, ndim, shape, mesh, placements);
                if (w == 0) {
                    expected[i][k] = malloc(bytes + 1);
                    assert_int_equal(weft_to_host(tensor, expected[i][k], bytes), WEFT_OK);
                } else {
                    assert_host_equal(tensor, bytes, expected[i][k], describe(mesh, placements, ndim, shape));
                }
            }
            weft_scope_close();
        }
        stop();
    }
    for (int i = 0; i < CASES; i++) {
        free(expected[i][0]);
        free(expected[i][1]);
    }
}

static void test_random_depends_on_seed_and_turn(void **state)
{
    (void)state;
    enum { N = 64 };
    int64_t shape[] = { N };
    double first[3][N];
    static const uint64_t seeds[] = { 1, 1, 2 };
    for (int k = 0; k < 3; k++) {
        weft_config config = { .ranks = 4, .seed = seeds[k] };
        assert_int_equal(weft_init(&config), WEFT_OK);
        double second[N];
        weft_mesh_push(line(4));
        assert_int_equal(weft_to_host(weft_rand(WEFT_F64, 1, shape, NULL, NULL), first[k], sizeof(first[k])),
                         WEFT_OK);
        assert_int_equal(weft_to_host(weft_rand(WEFT_F64, 1, shape, NULL, NULL), second, sizeof(second)),
                         WEFT_OK);
        assert_memory_not_equal(first[k], second, sizeof(second));
        for (int i = 0; i < N; i++) {
            assert_true(first[k][i] >= 0 && first[k][i] < 1);
        }
        stop();
    }
    assert_memory_equal(first[0], first[1], sizeof(first[0]));
    assert_memory_not_equal(first[0], first[2], sizeof(first[0]));
}

/* ---- whole arrays in and out --------------------------------------------------------------------------- */

static void test_distribute(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "4" };
    for (int h = 0; h < 3; h++) {
        if (heights[h] != NULL) {
            setenv("WEFT_PANEL_ROWS", heights[h], 1);
        }
        start(7);
        prng random = prng_start((uint64_t)h);
        for (int i = 0; i < 60; i++) {
            weft_mesh *mesh = random_mesh(&random, 7);
            int64_t shape[4];
            int ndim = random_shape(&random, 4, 9, shape);
            weft_placement placements[3];
            random_placements(&random, mesh, ndim, false, placements);
            size_t count = (size_t)shape_count(ndim, shape);
            int32_t *values = malloc(count * sizeof(*values) + 1);
            for (size_t k = 0; k < count; k++) {
                values[k] = (int32_t)prng_next(&random);
            }
            /* Only the process of the mesh's first rank has the array. */
            bool root = false;
            int64_t at[3];
            for (int k = 0; k < weft_local_ranks(); k++) {
                if (weft_mesh_coordinate(mesh, weft_first_rank() + k, at)) {
                    bool first = true;
                    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
                        first = first && at[m] == 0;
                    }
                    root = root || first;
                }
            }
            weft_scope_open();
            int32_t *given = malloc(count * sizeof(*given) + 1);
            memcpy(given, values, count * sizeof(*given));
            weft_tensor *tensor =
                weft_distribute(WEFT_I32, ndim, shape, root ? given : NULL, mesh, placements);
            memset(given, 0xff, count * sizeof(*given)); /* it has been read: the caller's again */
            assert_host_equal(tensor, count * sizeof(*values), values,
                              describe(mesh, placements, ndim, shape));
            free(given);
            free(values);
            weft_scope_close();
        }
        stop();
        unsetenv("WEFT_PANEL_ROWS");
    }
}

/* ---- the program's own memory -------------------------------------------------------------------------- */

enum { ROWS = 7, COLUMNS = 3 };

static void fill_locals(double memory[][ROWS * COLUMNS], void *locals[], double base)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < ROWS * COLUMNS; k++) {
            memory[i][k] = base * (weft_first_rank() + i) + k;
        }
        locals[i] = memory[i];
    }
}

static void test_from_local_uses_the_memory(void **state)
{
    (void)state;
    start(4);
    static double memory[4][ROWS * COLUMNS];
    void *locals[4];
    fill_locals(memory, locals, 1000);
    int64_t local_shape[] = { ROWS, COLUMNS };
    weft_placement split = weft_shard(0);
    weft_scope_open();
    weft_tensor *tensor = weft_from_local_even(WEFT_F64, 2, local_shape, locals, line(4), &split, 0);
    assert_no_error();
    assert_int_equal(weft_tensor_size(tensor, 0), 4 * ROWS);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_ptr_equal(weft_local_acquire(tensor, i, WEFT_READ), memory[i]);
        assert_int_equal(weft_local_release(tensor, i), WEFT_OK);
    }
    /* Redistributed tensors have values of their own; writing in place shows in the program's memory, and not
     * in them. */
    weft_tensor *copy = weft_redistribute(tensor, line(4), NULL);
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4 * ROWS, COLUMNS }, line(4), &split);
    weft_add_inplace(tensor, ones, 0.5);
    assert_int_equal(weft_wait(), WEFT_OK);
    double whole[4 * ROWS * COLUMNS];
    assert_int_equal(weft_to_host(copy, whole, sizeof(whole)), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < ROWS * COLUMNS; k++) {
            assert_true(memory[i][k] == 1000.0 * (weft_first_rank() + i) + k + 0.5);
        }
    }
    for (int k = 0; k < 4 * ROWS * COLUMNS; k++) {
        assert_true(whole[k] == 1000.0 * (k / (ROWS * COLUMNS)) + k % (ROWS * COLUMNS));
    }
    weft_scope_close();
    stop();
}

static void test_from_local_copies(void **state)
{
    (void)state;
    start(4);
    static double memory[4][ROWS * COLUMNS];
    void *locals[4];
    fill_locals(memory, locals, 10);
    weft_placement split = weft_shard(0);
    weft_scope_open();
    weft_tensor *tensor =
        weft_from_local_even(WEFT_F64, 2, (int64_t[]){ ROWS, COLUMNS }, locals, line(4), &split, WEFT_COPY);
    memset(memory, 0xff, sizeof(memory));
    double whole[4][ROWS * COLUMNS];
    assert_int_equal(weft_to_host(tensor, whole, sizeof(whole)), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < ROWS * COLUMNS; k++) {
            assert_true(whole[i][k] == 10.0 * i + k);
        }
    }
    weft_scope_close();
    stop();
}

/* Replicas get the values of their first rank, in the program's memory when that is used in place. */
static void test_check_ranks_broadcasts(void **state)
{
    (void)state;
    start(4);
    static double memory[4][ROWS * COLUMNS];
    for (unsigned flags = WEFT_CHECK_RANKS; flags <= (WEFT_CHECK_RANKS | WEFT_COPY); flags += WEFT_COPY) {
        void *locals[4];
        fill_locals(memory, locals, 100);
        int64_t mesh_shape[] = { 2, 2 };
        weft_placement placements[] = { weft_replicate(), weft_shard(1) };
        weft_scope_open();
        weft_tensor *tensor = weft_from_local(WEFT_F64, 2, (int64_t[]){ ROWS, 2 * COLUMNS }, locals,
                                              weft_mesh_create(2, mesh_shape, NULL), placements, flags);
        assert_no_error();
        for (int i = 0; i < weft_local_ranks(); i++) {
            double values[ROWS * COLUMNS];
            assert_int_equal(weft_local_to_host(tensor, i, values, sizeof(values)), WEFT_OK);
            for (int k = 0; k < ROWS * COLUMNS; k++) {
                assert_true(values[k] == 100.0 * ((weft_first_rank() + i) % 2) + k);
            }
            if ((flags & WEFT_COPY) == 0) {
                assert_memory_equal(memory[i], values, sizeof(values));
            }
        }
        weft_scope_close();
    }
    stop();
}

/* One process gives another shape: all of them are told. */
static void test_check_ranks_finds_differences(void **state)
{
    (void)state;
    start(4);
    static double memory[4][ROWS * COLUMNS];
    void *locals[4];
    fill_locals(memory, locals, 1);
    int64_t rows = weft_process_index() == weft_num_processes() - 1 ? ROWS : ROWS - 1;
    weft_placement split = weft_shard(0);
    weft_tensor *tensor = weft_from_local_even(WEFT_F64, 2, (int64_t[]){ rows, COLUMNS }, locals, line(4),
                                               &split, WEFT_CHECK_RANKS);
    if (weft_num_processes() == 1) {
        assert_non_null(tensor);
    } else {
        assert_null(tensor);
        assert_error(WEFT_ERR_MISMATCH, "weft_from_local_even");
    }
    double sum = 0;
    weft_tensor *ones = weft_ones(WEFT_F64, 1, (int64_t[]){ 9 }, line(4), &split);
    assert_int_equal(weft_to_host(weft_sum_all(ones), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 9);
    stop();
}

/* ---- access to shards ---------------------------------------------------------------------------------- */

static void test_acquire(void **state)
{
    (void)state;
    static const char *const heights[] = { "1", "3", "1000" };
    for (int h = 0; h < 3; h++) {
        setenv("WEFT_PANEL_ROWS", heights[h], 1);
        start(4);
        unsetenv("WEFT_PANEL_ROWS");
        int64_t shape[] = { 5, 3 }; /* on four ranks: 2, 2, 1, 0 rows */
        weft_placement split = weft_shard(0);
        weft_tensor *tensor = weft_zeros(WEFT_I64, 2, shape, line(4), &split);
        int64_t expected[15];
        for (int i = 0; i < 15; i++) {
            expected[i] = i * i;
        }
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t offset[2], extent[2];
            weft_local_box(tensor, i, offset, extent);
            int64_t *shard = weft_local_acquire(tensor, i, WEFT_WRITE);
            assert_non_null(shard);
            assert_null(weft_local_acquire(tensor, i, WEFT_READ));
            assert_error(WEFT_ERR_STATE, "acquired");
            assert_int_equal(weft_local_to_host(tensor, i, expected, sizeof(expected)), WEFT_ERR_STATE);
            weft_clear_error();
            for (int64_t k = 0; k < extent[0] * extent[1]; k++) {
                shard[k] = expected[offset[0] * 3 + k];
            }
            assert_int_equal(weft_local_release(tensor, i), WEFT_OK);
        }
        assert_host_equal(tensor, sizeof(expected), expected, "written through pointers");
        stop();
    }
}

/* Tasks wait for a shard that the program holds. */
static void test_tasks_wait_for_the_program(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 2 };
    weft_placement split = weft_shard(0);
    weft_tensor *a = weft_zeros(WEFT_F64, 1, shape, line(2), &split);
    double *held[2];
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i] = weft_local_acquire(a, i, WEFT_READ_WRITE);
    }
    weft_tensor *doubled = weft_add(a, a); /* submitted, but cannot run */
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i][0] = 21;
        weft_local_release(a, i);
    }
    double expected[] = { 42, 42 };
    assert_host_equal(doubled, sizeof(expected), expected, "doubled");
    stop();
}

static void write_all(weft_tensor *tensor, double value)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[2], extent[2];
        weft_local_box(tensor, i, offset, extent);
        double *shard = weft_local_acquire(tensor, i, WEFT_WRITE);
        for (int64_t k = 0; k < extent[0] * extent[1]; k++) {
            shard[k] = value;
        }
        weft_local_release(tensor, i);
    }
}

static void assert_all(weft_tensor *tensor, int64_t count, double value)
{
    double *expected = malloc((size_t)count * sizeof(*expected));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = value;
    }
    assert_host_equal(tensor, (size_t)count * sizeof(*expected), expected, "constant");
    free(expected);
}

/* What would wait for the program itself is refused; the library goes on, and weft_finalize() takes shards
 * back. */
static void test_waiting_for_oneself(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 2 };
    double values[2];
    weft_tensor *a = weft_zeros(WEFT_F64, 1, shape, line(2), NULL);
    weft_local_acquire(a, 0, WEFT_READ_WRITE);
    weft_scale(a, 2);
    assert_int_equal(weft_wait(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_local_release");
    assert_int_equal(weft_to_host(a, values, sizeof(values)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "acquired");
    stop();
}

/* Also what depends on what is held, over tasks and memory that is shared; nothing else is. */
static void test_waiting_for_what_is_held(void **state)
{
    (void)state;
    start(4);
    weft_mesh *mesh = line(weft_world_size());
    int64_t shape[] = { 3 };
    double values[3], seven[] = { 7, 7, 7 };
    weft_tensor *a = weft_full(WEFT_F64, 1, shape, 3, mesh, NULL);
    weft_tensor *b = weft_full(WEFT_F64, 1, shape, 4, mesh, NULL);
    weft_tensor *c = weft_full(WEFT_F64, 1, shape, 5, mesh, NULL);
    weft_tensor_set_name(a, "parameters");
    double *held = weft_local_acquire(a, 0, WEFT_READ_WRITE);
    double *beside = weft_local_acquire(b, 0, WEFT_WRITE);
    assert_true(held != NULL && beside != NULL && held[2] == 3);
    weft_tensor *view = weft_reshape(a, 1, shape);
    assert_null(weft_local_acquire(view, 0, WEFT_READ));
    assert_error(WEFT_ERR_STATE, "weft_local_acquire: would wait for weft_local_release()");
    assert_int_equal(weft_local_release(b, 0), WEFT_OK);
    assert_int_equal(weft_local_to_host(b, 0, values, sizeof(values)), WEFT_OK);
    weft_tensor *sum = weft_add(a, b), *behind = weft_scale(sum, 2), *apart = weft_add(b, b);
    assert_null(weft_local_acquire(behind, 0, WEFT_READ));
    assert_error(WEFT_ERR_STATE, "local rank 0 of tensor parameters");
    assert_int_equal(weft_local_to_host(behind, 0, values, sizeof(values)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_local_to_host: would wait");
    assert_null(weft_local_acquire(b, 0, WEFT_WRITE)); /* a task that waits reads it first */
    assert_error(WEFT_ERR_STATE, "would wait");
    assert_non_null(weft_local_acquire(b, 0, WEFT_READ));
    assert_int_equal(weft_local_release(b, 0), WEFT_OK);
    assert_int_equal(weft_local_to_host(apart, 0, values, sizeof(values)), WEFT_OK);
    assert_int_equal(weft_local_to_host(c, 0, values, sizeof(values)), WEFT_OK);
    weft_tensor_release(behind); /* its memory is waited for, and used again */
    if (weft_num_processes() == 1) {
        assert_int_equal(weft_to_host(sum, values, sizeof(values)), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "weft_to_host: would wait");
        const double given[] = { 1, 2, 3 };
        weft_tensor *distributed = weft_distribute(WEFT_F64, 1, shape, given, mesh, NULL);
        assert_int_equal(weft_local_release(a, 0), WEFT_OK);
        assert_host_equal(distributed, sizeof(given), given, "distributed meanwhile");
    } else {
        assert_int_equal(weft_local_release(a, 0), WEFT_OK);
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        double *shard = weft_local_acquire(b, i, WEFT_WRITE);
        assert_non_null(shard);
        shard[0] = shard[1] = shard[2] = 0;
        assert_int_equal(weft_local_release(b, i), WEFT_OK);
    }
    assert_host_equal(sum, sizeof(seven), seven, "what waited");
    stop();
}

/* Any number of shards may be looked at, and written to, at once; and again. */
static void test_holding_many(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8 };
    weft_placement split = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F64, 1, shape, line(4), NULL), *view = weft_reshape(a, 1, shape);
    weft_tensor *part = weft_redistribute(a, line(4), &split);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < weft_local_ranks(); i++) {
            assert_non_null(weft_local_acquire(a, i, WEFT_READ));
            assert_non_null(weft_local_acquire(view, i, WEFT_READ));
            double *own = weft_local_acquire(part, i, WEFT_READ_WRITE);
            assert_non_null(own);
            own[0] += 1;
        }
        for (int i = 0; i < weft_local_ranks(); i++) {
            assert_int_equal(weft_local_release(part, i), WEFT_OK);
            assert_non_null(weft_local_acquire(part, i, WEFT_WRITE));
            assert_int_equal(weft_local_release(part, i), WEFT_OK);
            assert_int_equal(weft_local_release(a, i), WEFT_OK);
            assert_int_equal(weft_local_release(view, i), WEFT_OK);
        }
    }
    const double expected[] = { 4, 1, 4, 1, 4, 1, 4, 1 };
    assert_host_equal(part, sizeof(expected), expected, "counted");
    stop();
}

/* ---- errors of tasks ----------------------------------------------------------------------------------- */

/* A task of the process that hosts rank 0 fails, and has by the time this returns. */
static void fail_late(void)
{
    int64_t shape[] = { 4 };
    double probabilities[] = { 2, 0.5, 0.5, 0.5 };
    weft_placement split = weft_shard(0);
    weft_tensor *p = weft_distribute(WEFT_F64, 1, shape, probabilities, line(4), &split);
    assert_no_error();
    assert_non_null(weft_bernoulli(p));
    starpu_task_wait_for_all();
}

/* What a task reports reaches the program once: by the next call that blocks and returns a status, or gives
 * out a shard. Calls that give tensors do what all processes do, and leave it. */
static void test_late_errors_are_told_once(void **state)
{
    (void)state;
    start(4);
    bool fails = weft_first_rank() == 0;
    int64_t shape[] = { 4 };
    double given[] = { 1, 2, 3, 4 }, values[4];
    void *locals[] = { given, given, given, given };
    fail_late();
    weft_tensor *a = weft_distribute(WEFT_F64, 1, shape, given, line(4), NULL);
    weft_tensor *b = weft_from_local(WEFT_F64, 1, shape, locals, line(4), NULL, WEFT_CHECK_RANKS | WEFT_COPY);
    assert_true(a != NULL && b != NULL);
    assert_no_error();
    assert_int_equal(weft_wait(), fails ? WEFT_ERR_INVALID : WEFT_OK);
    assert_int_equal(weft_last_status(), fails ? WEFT_ERR_INVALID : WEFT_OK);
    weft_clear_error();
    assert_int_equal(weft_wait(), WEFT_OK);
    fail_late();
    for (int i = 0; i < weft_local_ranks(); i++) {
        bool told = fails && i == 0;
        assert_int_equal(weft_local_acquire(a, i, WEFT_READ) == NULL, told);
        assert_int_equal(weft_last_status(), told ? WEFT_ERR_INVALID : WEFT_OK);
        weft_clear_error();
        assert_int_equal(weft_local_release(a, i), told ? WEFT_ERR_STATE : WEFT_OK);
        weft_clear_error();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    fail_late();
    assert_int_equal(weft_to_host(b, values, sizeof(values)), fails ? WEFT_ERR_INVALID : WEFT_OK);
    weft_clear_error();
    assert_memory_equal(values, given, sizeof(given));
    stop();
}

/* A shard that gets memory of its own while the program looks at the old one. */
static void test_write_while_held(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0);
    weft_tensor *whole = weft_full(WEFT_F64, 2, shape, 1, line(4), NULL);
    weft_tensor *slice = weft_redistribute(whole, line(4), &split); /* shares the memory */
    const double *held[4];
    for (int i = 0; i < weft_local_ranks(); i++) {
        held[i] = weft_local_acquire(whole, i, WEFT_READ);
    }
    weft_add_inplace(whole, whole, 2);
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < 24; k++) {
            assert_true(held[i][k] == 1);
        }
        assert_int_equal(weft_local_release(whole, i), WEFT_OK);
    }
    assert_all(whole, 24, 3);
    assert_all(slice, 24, 1);
    stop();
}

/* ---- views have values of their own -------------------------------------------------------------------- */

static void test_views(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0);
    for (int write_view = 0; write_view < 2; write_view++) {
        weft_scope_open();
        weft_tensor *whole = weft_full(WEFT_F64, 2, shape, 1, line(4), NULL);
        weft_counters before, after;
        weft_get_counters(&before);
        weft_tensor *slice = weft_redistribute(whole, line(4), &split);
        weft_get_counters(&after);
        assert_int_equal(before.tasks, after.tasks); /* the memory is there already */
        assert_int_equal(before.buffers_created + before.buffers_reused,
                         after.buffers_created + after.buffers_reused);
        write_all(write_view ? slice : whole, 2);
        assert_all(slice, 24, write_view ? 2 : 1);
        assert_all(whole, 24, write_view ? 1 : 2);
        /* And by a task. */
        weft_tensor *again = weft_redistribute(whole, line(4), &split);
        weft_add_inplace(write_view ? again : whole, write_view ? again : whole, 1);
        assert_all(again, 24, write_view ? 2 : 2);
        assert_all(whole, 24, write_view ? 1 : 4);
        weft_scope_close();
    }
    stop();
}

static void test_same_layout_is_the_same_tensor(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 8, 3 };
    weft_placement split = weft_shard(0), negative = weft_shard(-2);
    weft_tensor *tensor = weft_full(WEFT_F64, 2, shape, 1, line(4), &split);
    assert_ptr_equal(weft_redistribute(tensor, line(4), &negative), tensor);
    weft_tensor_release(tensor);
    assert_all(tensor, 24, 1); /* the second reference is left */
    weft_tensor_release(tensor);
    assert_no_error();
    weft_tensor_release(tensor);
    assert_error(WEFT_ERR_INVALID, "tensor");
    stop();
}

/* ---- references ---------------------------------------------------------------------------------------- */

static void test_scopes(void **state)
{
    (void)state;
    start(2);
    int64_t shape[] = { 4 };
    weft_mesh_push(line(2));
    weft_scope_open();
    weft_tensor *outer = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_scope_open();
    weft_tensor *inner = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_tensor *kept = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    weft_tensor *retained = weft_ones(WEFT_F64, 1, shape, NULL, NULL);
    assert_ptr_equal(weft_scope_keep(kept), kept);
    weft_tensor_retain(retained);
    assert_null(weft_scope_keep(outer));
    assert_error(WEFT_ERR_STATE, "innermost");
    weft_tensor_release(inner);
    assert_error(WEFT_ERR_STATE, "scope");
    weft_scope_close();
    assert_int_equal(weft_tensor_ndim(inner), 0);
    assert_error(WEFT_ERR_INVALID, "weft_tensor_ndim");
    assert_int_equal(weft_tensor_ndim(kept), 1);
    weft_scope_keep(kept); /* from the outermost scope: to the caller */
    weft_scope_close();
    assert_int_equal(weft_tensor_ndim(outer), 0);
    weft_clear_error();
    double expected[] = { 1, 1, 1, 1 };
    assert_host_equal(kept, sizeof(expected), expected, "kept");
    assert_host_equal(retained, sizeof(expected), expected, "retained");
    weft_tensor_release(kept);
    weft_tensor_release(retained);
    assert_no_error();
    assert_int_equal(weft_tensor_ndim(kept) + weft_tensor_ndim(retained), 0);
    weft_clear_error();
    stop();
}

/* Released at once, while every task is still to run: results are right, and memory goes round. */
static void test_release_while_pending(void **state)
{
    (void)state;
    start(4);
    int64_t shape[] = { 64, 64 };
    weft_placement rows = weft_shard(0), columns = weft_shard(1);
    weft_mesh *mesh = line(4);
    weft_tensor *total = weft_zeros(WEFT_F64, 2, shape, mesh, &rows);
    for (int i = 1; i <= 100; i++) {
        weft_scope_open();
        weft_tensor *part = weft_full(WEFT_F64, 2, shape, i, mesh, &columns);
        weft_add_inplace(total, weft_scale(part, 2), 1);
        weft_scope_close();
    }
    assert_all(total, 64 * 64, 2 * 5050);
    weft_counters counters;
    weft_get_counters(&counters);
    assert_in_range(counters.buffers_created, 1, 40);
    assert_true(counters.buffers_reused > 150); /* a process may host one rank of the four */
    stop();
}

/* With next to no room for free buffers they are deleted, and nothing else changes. */
static void test_small_pool(void **state)
{
    (void)state;
    weft_config config = { .ranks = 4, .pool_bytes = 5000 };
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_placement rows = weft_shard(0);
    weft_mesh *mesh = line(4);
    for (int64_t n = 1; n < 120; n++) {
        weft_scope_open();
        weft_tensor *tensor = weft_full(WEFT_F64, 1, &n, (double)n, mesh, &rows);
        assert_all(weft_redistribute(tensor, mesh, NULL), n, (double)n);
        weft_scope_close();
    }
    stop();
}

/* ---- meshes -------------------------------------------------------------------------------------------- */

static void test_meshes(void **state)
{
    (void)state;
    start(12);
    int64_t shape[] = { 2, 3, 2 };
    static const char *const names[] = { "pp", NULL, "tp" };
    weft_mesh *mesh = weft_mesh_create(3, shape, names);
    assert_ptr_equal(weft_mesh_create(3, shape, names), mesh); /* equal meshes are one */
    assert_ptr_not_equal(weft_mesh_create(3, shape, NULL), mesh);
    assert_int_equal(weft_mesh_num_ranks(mesh), 12);
    assert_int_equal(weft_mesh_size(mesh, -2), 3);
    assert_string_equal(weft_mesh_dim_name(mesh, 0), "pp");
    assert_null(weft_mesh_dim_name(mesh, 1));
    int64_t at[3];
    assert_int_equal(weft_mesh_coordinate(mesh, 11, at), 1);
    assert_true(at[0] == 1 && at[1] == 2 && at[2] == 1);
    weft_mesh *flat = weft_mesh_flatten(mesh, 0, 1, "dp");
    assert_int_equal(weft_mesh_ndim(flat), 2);
    assert_int_equal(weft_mesh_size(flat, 0), 6);
    assert_string_equal(weft_mesh_dim_name(flat, 1), "tp");
    weft_mesh *some = weft_mesh_of_ranks(1, (int64_t[]){ 3 }, (int[]){ 7, 2, 9 }, NULL);
    assert_int_equal(weft_mesh_coordinate(some, 2, at), 1);
    assert_true(at[0] == 1);
    assert_int_equal(weft_mesh_coordinate(some, 3, at), 0);
    assert_no_error();
    assert_int_equal(weft_mesh_push(mesh), WEFT_OK);
    assert_int_equal(weft_mesh_push(some), WEFT_OK);
    assert_ptr_equal(weft_mesh_current(), some);
    assert_int_equal(weft_mesh_pop(), WEFT_OK);
    assert_ptr_equal(weft_mesh_current(), mesh);
    assert_int_equal(weft_mesh_pop(), WEFT_OK);
    assert_null(weft_mesh_current());
    if (weft_num_processes() == 1) {
        weft_mesh *slice = weft_mesh_slice(mesh, "pp");
        assert_int_equal(weft_mesh_num_ranks(slice), 2);
        assert_int_equal(weft_mesh_coordinate(slice, 6, at), 1);
    }
    stop();
}

/* Ranks that are not in a tensor's mesh call the same functions and hold nothing. */
static void test_ranks_outside(void **state)
{
    (void)state;
    start(12);
    weft_mesh *few = weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 10, 3 }, NULL);
    int64_t shape[] = { 5, 4 };
    weft_placement rows = weft_shard(0);
    weft_scope_open();
    weft_tensor *a = weft_ones(WEFT_F64, 2, shape, few, &rows);
    weft_tensor *b = weft_scale(weft_add(a, a), 3);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int rank = weft_first_rank() + i;
        int64_t offset[2], extent[2];
        double shard[20];
        assert_int_equal(weft_local_box(b, i, offset, extent), WEFT_OK);
        assert_int_equal(extent[0] * extent[1], rank == 10 ? 12 : rank == 3 ? 8 : 0);
        assert_int_equal(weft_local_to_host(b, i, shard, sizeof(shard)), WEFT_OK);
        assert_non_null(weft_local_acquire(b, i, WEFT_READ));
        assert_int_equal(weft_local_release(b, i), WEFT_OK);
    }
    assert_all(b, 20, 6);
    double sum;
    assert_int_equal(weft_to_host(weft_sum_all(b), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 120);
    assert_all(weft_redistribute(b, line(12), &rows), 20, 6);
    weft_scope_close();
    stop();
}

/* A scope that could not be opened is closed like the others, and takes nothing from those around it. */
static void test_scopes_without_memory(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they take address space as they like */
#endif
    start(1);
    if (weft_num_processes() > 1) { /* it breaks a world of several */
        stop();
        return;
    }
    int64_t shape[] = { 2 };
    weft_scope_open();
    weft_tensor *a = weft_ones(WEFT_F64, 1, shape, line(1), NULL);
    assert_int_equal(weft_wait(), WEFT_OK);
    struct rlimit before, tight;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_true(file != NULL && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)16 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    int64_t opened = 0;
    while (weft_last_status() == WEFT_OK && opened < INT64_C(1) << 24) {
        weft_scope_open();
        opened++;
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_error(WEFT_ERR_NOMEM, "weft_scope_open");
    weft_scope_open(); /* there is memory again, but it lies in the one that there was none for */
    weft_clear_error();
    weft_tensor *inside = weft_scale(a, 2);
    assert_ptr_equal(weft_scope_keep(inside), inside);
    for (int64_t i = 0; i < opened + 1; i++) {
        weft_scope_close();
    }
    const double ones[] = { 1, 1 };
    assert_host_equal(a, sizeof(ones), ones, "of the scope around");
    assert_int_equal(weft_tensor_ndim(inside), 0); /* gone with the innermost that was opened */
    assert_error(WEFT_ERR_INVALID, "not a live tensor");
    weft_scope_close();
    weft_scope_close();
    assert_error(WEFT_ERR_STATE, "no scope is open");
    stop();
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static void test_print(void **state)
{
    (void)state;
    start(2);
    weft_placement rows = weft_shard(0);
    weft_tensor *tensor = weft_full(WEFT_F32, 2, (int64_t[]){ 2, 3 }, 0.5, line(2), &rows);
    weft_tensor *far = weft_zeros(WEFT_BOOL, 1, (int64_t[]){ 100 }, line(2), NULL);
    weft_tensor_set_name(tensor, "halves");
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_int_equal(weft_tensor_print(tensor, file), WEFT_OK);
    assert_int_equal(weft_tensor_print(far, file), WEFT_OK);
    fclose(file);
    const char *expected = weft_process_index() != 0 ? ""
                                                     : "weft_tensor halves f32[2, 3] [S0] on 2\n"
                                                       "[[0.5, 0.5, 0.5],\n"
                                                       " [0.5, 0.5, 0.5]]\n"
                                                       "weft_tensor bool[100] [R] on 2\n"
                                                       "[false, false, false, ..., false, false, false]\n";
    assert_string_equal(text, expected);
    free(text);
    stop();
}

/* A world of any size without data: layouts, and nothing submitted. */
static void test_fake_world(void **state)
{
    (void)state;
    weft_config config = { .world = WEFT_WORLD_FAKE, .fake_size = 65536 };
    assert_int_equal(weft_init(&config), WEFT_OK);
    assert_int_equal(weft_world_size(), 65536);
    assert_int_equal(weft_local_ranks(), 0);
    int64_t mesh_shape[] = { 256, 256 }, shape[] = { 1 << 20, 1 << 14 };
    weft_mesh *mesh = weft_mesh_create(2, mesh_shape, NULL);
    weft_placement split[] = { weft_shard(0), weft_shard(1) }, rows[] = { weft_shard(0), weft_replicate() };
    weft_scope_open();
    weft_tensor *a = weft_randn(WEFT_F32, 2, shape, mesh, split);
    weft_tensor *b = weft_redistribute(weft_add(a, a), mesh, rows);
    assert_int_equal(weft_tensor_placements(b)[1].kind, WEFT_REPLICATE);
    assert_int_equal(weft_tensor_size(b, 0), 1 << 20);
    int64_t offset[2], extent[2];
    assert_int_equal(weft_shard_box(mesh, split, 2, shape, 65535, offset, extent), WEFT_OK);
    assert_true(offset[0] == 255 * 4096 && extent[1] == 64);
    weft_counters counters;
    weft_get_counters(&counters);
    assert_int_equal(counters.tasks + counters.transfers, 0);
    assert_int_equal(weft_to_host(b, &offset, sizeof(offset)), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_to_host");
    weft_scope_close();
    stop();
}

static void test_many_lives(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        start(1 + i % 5);
        weft_tensor *left = weft_ones(WEFT_F64, 1, (int64_t[]){ 10 }, line(weft_world_size()), NULL);
        assert_non_null(left); /* weft_finalize() releases it, and the open scope's */
        weft_scope_open();
        weft_add(left, left);
        stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random_is_the_same_everywhere),
        cmocka_unit_test(test_random_depends_on_seed_and_turn),
        cmocka_unit_test(test_distribute),
        cmocka_unit_test(test_from_local_uses_the_memory),
        cmocka_unit_test(test_from_local_copies),
        cmocka_unit_test(test_check_ranks_broadcasts),
        cmocka_unit_test(test_check_ranks_finds_differences),
        cmocka_unit_test(test_acquire),
        cmocka_unit_test(test_tasks_wait_for_the_program),
        cmocka_unit_test(test_waiting_for_oneself),
        cmocka_unit_test(test_waiting_for_what_is_held),
        cmocka_unit_test(test_holding_many),
        cmocka_unit_test(test_late_errors_are_told_once),
        cmocka_unit_test(test_write_while_held),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_same_layout_is_the_same_tensor),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_release_while_pending),
        cmocka_unit_test(test_small_pool),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_ranks_outside),
        cmocka_unit_test(test_scopes_without_memory),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_fake_world),
        cmocka_unit_test(test_many_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
