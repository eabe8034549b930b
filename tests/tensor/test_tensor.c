/* Tensors: creation, import, printing; meshes; the fake world. In one process, and over MPI; on worlds of
 * several sizes. */
#include "factory_memory.h"
#include "tensor_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    random_cut_sizes(random, mesh, ndim, shape, placements);
    weft_scope_begin();
    weft_tensor *tensor = which == 0   ? weft_zeros(dtype, ndim, shape, mesh, placements)
                          : which == 1 ? weft_ones(dtype, ndim, shape, mesh, placements)
                                       : weft_full(dtype, value, ndim, shape, mesh, placements);
    size_t size = weft_dtype_size(dtype), count = (size_t)shape_count(ndim, shape);
    unsigned char one[8], *expected = malloc(count * size + 1);
    element_of(dtype, value, one);
    for (size_t i = 0; i < count; i++) {
        memcpy(expected + i * size, one, size);
    }
    assert_host_equal(tensor, count * size, expected, describe(mesh, placements, ndim, shape));
    free(expected);
    weft_scope_end();
}

static void test_constants(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 7; ranks += 3) {
        start(ranks);
        prng random = prng_start((uint64_t)ranks);
        for (int i = 0; i < 80; i++) {
            weft_dtype dtype = (weft_dtype)(i % REAL_TYPES);
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
            weft_scope_begin();
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
            weft_scope_end();
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
        WORLD(4, .seed = seeds[k]);
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
            weft_scope_begin();
            int32_t *given = malloc(count * sizeof(*given) + 1);
            memcpy(given, values, count * sizeof(*given));
            weft_tensor *tensor =
                weft_distribute(WEFT_I32, ndim, shape, root ? given : NULL, mesh, placements);
            memset(given, 0xff, count * sizeof(*given)); /* it has been read: the caller's again */
            assert_host_equal(tensor, count * sizeof(*values), values,
                              describe(mesh, placements, ndim, shape));
            free(given);
            free(values);
            weft_scope_end();
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
    weft_scope_begin();
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
    weft_scope_end();
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
    weft_scope_begin();
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
    weft_scope_end();
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
        weft_scope_begin();
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
        weft_scope_end();
    }
    stop();
}

/* One process gives another shape: an error on all of them. */
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
    assert_int_equal(weft_to_host(weft_sum(ones, WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 9);
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
    weft_scope_begin();
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
    assert_int_equal(weft_to_host(weft_sum(b, WEFT_ALL_DIMS, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == 120);
    assert_all(weft_redistribute(b, line(12), &rows), 20, 6);
    weft_scope_end();
    stop();
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

static void test_print(void **state)
{
    (void)state;
    start(2);
    weft_placement rows = weft_shard(0);
    weft_tensor *tensor = weft_full(WEFT_F32, 0.5, 2, (int64_t[]){ 2, 3 }, line(2), &rows);
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
    FAKE_WORLD(65536);
    assert_int_equal(weft_world_size(), 65536);
    assert_int_equal(weft_local_ranks(), 0);
    int64_t mesh_shape[] = { 256, 256 }, shape[] = { 1 << 20, 1 << 14 };
    weft_mesh *mesh = weft_mesh_create(2, mesh_shape, NULL);
    weft_placement split[] = { weft_shard(0), weft_shard(1) }, rows[] = { weft_shard(0), weft_replicate() };
    weft_scope_begin();
    weft_tensor *a = weft_randn(WEFT_F32, 2, shape, mesh, split);
    weft_tensor *b = weft_redistribute(weft_add(a, a), mesh, rows);
    assert_int_equal(weft_tensor_placements(b)[1].kind, WEFT_REPLICATE);
    assert_int_equal(weft_tensor_size(b, 0), 1 << 20);
    int64_t offset[2], extent[2];
    assert_int_equal(weft_shard_box(mesh, split, 2, shape, 65535, offset, extent), WEFT_OK);
    assert_true(offset[0] == 255 * 4096 && extent[1] == 64);
    weft_counters counters;
    weft_get_counters(&counters, sizeof(counters));
    assert_int_equal(counters.tasks + counters.transfers, 0);
    assert_int_equal(weft_to_host(b, &offset, sizeof(offset)), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "weft_to_host");
    weft_scope_end();
    stop();
}

static void test_many_lives(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        start(1 + i % 5);
        weft_tensor *left = weft_ones(WEFT_F64, 1, (int64_t[]){ 10 }, line(weft_world_size()), NULL);
        assert_non_null(left); /* weft_finalize() releases it, and the open scope's */
        weft_scope_begin();
        weft_add(left, left);
        stop();
    }
}

/* ---- truth values -------------------------------------------------------------------------------------- */

enum { TRUTHS = 12 };
static const unsigned char given_truths[TRUTHS] = { 0, 1, 2, 255, 0, 128, 1, 0, 3, 0, 1, 254 };

/* All but 0 are 1, in what other calls compute too. */
static void check_truths(weft_tensor *tensor, const char *from)
{
    unsigned char found[TRUTHS];
    double sum = 0;
    bool equal = false;
    assert_no_error();
    assert_int_equal(weft_to_host(tensor, found, sizeof(found)), WEFT_OK);
    for (int i = 0; i < TRUTHS; i++) {
        if (found[i] != (given_truths[i] != 0)) {
            fail_msg("%s: truth value %d is %d, of %d", from, i, found[i], given_truths[i]);
        }
    }
    assert_int_equal(weft_tensor_item(weft_sum(tensor, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
    assert_int_equal(weft_equal(tensor, weft_ne_scalar(tensor, 0), &equal), WEFT_OK);
    assert_true(sum == 8 && equal);
}

static void write_truths(const hosted_shard *shard, const void *unused)
{
    (void)unused;
    for (int64_t i = 0; i < shard->count; i++) {
        ((unsigned char *)shard->values)[i] = given_truths[(shard->offset[0] + i / shard->extent[1]) * 3 + shard->offset[1] + i % shard->extent[1]];
    }
}

static void write_file(const char *path)
{
    static const char header[] = "{\"t\":{\"dtype\":\"BOOL\",\"shape\":[4,3],\"data_offsets\":[0,12]}}";
    const unsigned char length[8] = { sizeof(header) - 1 };
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(length, 1, 8, file) + fwrite(header, 1, sizeof(header) - 1, file) + fwrite(given_truths, 1, TRUTHS, file),
                     8 + sizeof(header) - 1 + TRUTHS);
    assert_int_equal(fclose(file), 0);
}

/* Of one process, whose boxes have all elements. */
static void check_boxes_and_files(weft_mesh *mesh, const weft_placement *placements, const int64_t shape[])
{
    unsigned char memory[TRUTHS];
    memcpy(memory, given_truths, TRUTHS);
    const weft_subarray all = { .box.extent = { 4, 3 }, .data = memory };
    check_truths(weft_from_boxes(WEFT_BOOL, 2, shape, 1, &all, mesh, placements), "from_boxes");
    char path[] = "/tmp/weft-truths-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    write_file(path);
    weft_tensor *tensor = weft_zeros(WEFT_BOOL, 2, shape, mesh, placements);
    const char *name = "t";
    assert_int_equal(weft_checkpoint_load(path, 1, &name, &tensor), WEFT_OK);
    check_truths(tensor, "safetensors");
    assert_int_equal(weft_wait(), WEFT_OK);
    close(file);
    remove(path);
}

static void test_truths_from_outside(void **state)
{
    (void)state;
    start_with_panels(4, "1");
    const int64_t ranks = 4, shape[] = { 4, 3 };
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int l = 0; l < 3; l++) {
        weft_scope_begin();
        check_truths(weft_distribute(WEFT_BOOL, 2, shape, given_truths, mesh, &layouts[l]), "distribute");
        void *locals[4];
        for (int copies = 1; copies >= 0; copies--) {
            make_locals(WEFT_BOOL, 2, shape, mesh, &layouts[l], write_truths, NULL, locals);
            weft_scope_begin();
            check_truths(weft_from_local(WEFT_BOOL, 2, shape, locals, mesh, &layouts[l], copies ? WEFT_COPY : 0), "from_local");
            weft_scope_end();
            assert_int_equal(weft_wait(), WEFT_OK);
            free_locals(locals);
        }
        weft_tensor *written = weft_zeros(WEFT_BOOL, 2, shape, mesh, NULL);
        for (int i = 0; i < weft_local_ranks(); i++) {
            unsigned char *values = weft_local_acquire(written, i, WEFT_WRITE);
            memcpy(values, given_truths, weft_local_bytes(written, i));
            assert_int_equal(weft_local_release(written, i), WEFT_OK);
        }
        check_truths(written, "local_acquire");
        if (weft_num_processes() == 1) {
            check_boxes_and_files(mesh, &layouts[l], shape);
        }
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truths_from_outside),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_random_is_the_same_everywhere),
        cmocka_unit_test(test_random_depends_on_seed_and_turn),
        cmocka_unit_test(test_distribute),
        cmocka_unit_test(test_from_local_uses_the_memory),
        cmocka_unit_test(test_from_local_copies),
        cmocka_unit_test(test_check_ranks_broadcasts),
        cmocka_unit_test(test_check_ranks_finds_differences),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_ranks_outside),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_fake_world),
        cmocka_unit_test(test_many_lives),
        cmocka_unit_test(test_factories_make_shards_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
