/* Tensors from a global array, and from each rank's own memory. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, N = 10 };

static weft_mesh *grid, *line;

static int start_with(int64_t panel_rows)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", (int)panel_rows);
    setenv("WEFT_PANEL_ROWS", text, 1);
    WORLD(RANKS);
    unsetenv("WEFT_PANEL_ROWS");
    grid = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with(2);
}

static bool hosts(int rank)
{
    return rank >= weft_first_rank() && rank < weft_first_rank() + weft_local_ranks();
}

static void expect(weft_tensor *tensor, const double expected[], int64_t count)
{
    double values[128];
    assert_no_error();
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, "a tensor");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    assert_memory_equal(values, expected, (size_t)count * sizeof(double));
}

/* ---- A4 ------------------------------------------------------------------------------------------------ */

/* Whichever rank is first in the mesh: its process's array is the tensor, all others' are not looked at. */
static void a4_first_rank_is_the_source(void **state)
{
    (void)state;
    const int64_t shape[] = { N }, sizes[] = { 2, 2 };
    double expected[N], other[N];
    for (int first = 0; first < RANKS; first++) {
        const int ranks[] = { first, (first + 3) % RANKS, (first + 1) % RANKS, (first + 2) % RANKS };
        weft_mesh *mesh = weft_mesh_of_ranks(2, sizes, ranks, NULL);
        for (int i = 0; i < N; i++) {
            expected[i] = 100 * first + i;
            other[i] = -1;
        }
        const weft_placement layouts[][2] = { { weft_shard(0), weft_replicate() },
                                              { weft_replicate(), weft_shard(0) },
                                              { weft_shard(0), weft_shard(0) } };
        weft_scope_begin();
        for (int l = 0; l < 4; l++) {
            const weft_placement *placements = l == 3 ? NULL : layouts[l];
            const void *given = hosts(first) ? expected : l % 2 ? other : NULL;
            weft_tensor *x = weft_distribute(WEFT_F64, 1, shape, given, mesh, placements);
            expect(x, expected, N);
            if (placements == NULL) { /* the default */
                assert_int_equal(weft_tensor_placements(x)[0].kind, WEFT_REPLICATE);
                assert_int_equal(weft_tensor_placements(x)[1].kind, WEFT_REPLICATE);
            }
        }
        weft_scope_end();
    }
}

/* NULL where the array is read: all processes get a status that names it, at once, and go on. */
static void a4_missing_array_ends_everywhere(void **state)
{
    (void)state;
    const int64_t shape[] = { N }, one[] = { 1 };
    const double values[N] = { 3 };
    for (int root = 0; root < RANKS; root++) {
        weft_mesh *mesh = weft_mesh_of_ranks(1, one, &root, NULL);
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        assert_null(weft_distribute(WEFT_F64, 1, shape, hosts(root) ? NULL : values, mesh, NULL));
        weft_get_counters(&after, sizeof(after));
        assert_int_equal(after.tasks, before.tasks);
        assert_non_null(strstr(weft_last_error(), "weft_distribute: global is NULL on "));
        assert_error(WEFT_ERR_INVALID, "hosts the mesh's first rank");
        weft_tensor *x = weft_distribute(WEFT_F64, 1, shape, hosts(root) ? values : NULL, mesh, NULL);
        expect(x, values, N);
        weft_tensor_release(x);
    }
    /* An array without elements may be NULL everywhere. */
    weft_tensor *empty = weft_distribute(WEFT_F64, 1, (const int64_t[]){ 0 }, NULL, line, NULL);
    assert_non_null(empty);
    weft_tensor_release(empty);
    assert_no_error();
}

/* While the program holds a shard, and while tasks wait for it. */
static void a4_while_a_shard_is_held(void **state)
{
    (void)state;
    const int64_t shape[] = { N };
    const weft_placement rows[] = { weft_shard(0) };
    const double values[N] = { 3, 1, 4 };
    weft_scope_begin();
    weft_tensor *held = weft_ones(WEFT_F64, 1, shape, line, rows);
    assert_non_null(weft_local_acquire(held, 0, WEFT_READ_WRITE));
    weft_tensor *x = weft_distribute(WEFT_F64, 1, shape, hosts(0) ? values : NULL, line, rows);
    assert_non_null(x);
    assert_int_equal(weft_local_release(held, 0), WEFT_OK);
    expect(x, values, N);
    weft_scope_end();
}

/* ---- A5: memory ---------------------------------------------------------------------------------------- */

/* Memory for the shards that this process hosts, of a tensor of `shape`. */
static void prepare_locals(weft_mesh *mesh, const weft_placement *placements, int ndim, const int64_t shape[],
                            void *locals[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        assert_int_equal(
            weft_shard_box(mesh, placements, ndim, shape, weft_first_rank() + i, offset, extent), WEFT_OK);
        int64_t count = shape_count(ndim, extent);
        double *memory = calloc((size_t)count + 1, sizeof(*memory));
        for (int64_t k = 0; k < count; k++) {
            memory[k] = (double)dense_index(ndim, shape, offset, extent, k);
        }
        locals[i] = memory;
    }
}

static void release_locals(void *locals[])
{
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(locals[i]);
    }
}

/* Without WEFT_COPY the pointer itself; what tasks write is in the program's memory. With it, another one. */
static void a5_memory_is_used_in_place(void **state)
{
    (void)state;
    const int64_t shape[] = { N, 3 };
    const weft_placement blocks[] = { weft_shard(0), weft_shard(1) };
    void *locals[RANKS];
    prepare_locals(grid, blocks, 2, shape, locals);
    for (unsigned flags = 0; flags <= (WEFT_COPY | WEFT_CHECK_RANKS); flags++) {
        weft_tensor *x = weft_from_local(WEFT_F64, 2, shape, locals, grid, blocks, flags);
        assert_no_error();
        for (int i = 0; i < weft_local_ranks(); i++) {
            void *memory = weft_local_acquire(x, i, WEFT_READ);
            assert_int_equal(memory == locals[i], (flags & WEFT_COPY) == 0);
            assert_int_equal(weft_local_release(x, i), WEFT_OK);
        }
        weft_tensor_release(x);
    }
    weft_tensor *x = weft_from_local(WEFT_F64, 2, shape, locals, grid, blocks, 0);
    assert_non_null(weft_fill_inplace(x, 7));
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_true(*(const double *)locals[i] == 7);
    }
    weft_tensor_release(x);
    assert_no_error();
    release_locals(locals);
}

/* ---- A5: shapes ---------------------------------------------------------------------------------------- */

static weft_tensor *from_sizes(int ndim, const int64_t sizes[], void *locals[], weft_mesh *mesh,
                               const weft_placement *placements, unsigned flags)
{
    const weft_from_local_options options = { .local_shapes = sizes, .flags = flags };
    return weft_from_local_ex(WEFT_F64, ndim, locals, mesh, placements, &options);
}

/* For every pair of placements and many sizes: each rank gives its sizes, and the whole tensor follows. */
static void a5_uneven_shards_are_asked_for(void **state)
{
    (void)state;
    prng source = prng_start(5);
    for (int round = 0; round < 80; round++) {
        int64_t shape[WEFT_MAX_DIMS], sizes[RANKS * 3] = { 0 };
        weft_placement placements[3];
        void *locals[RANKS];
        int ndim = random_shape(&source, 3, 6, shape);
        weft_mesh *mesh = random_mesh(&source, RANKS);
        random_placements(&source, mesh, ndim, false, placements);
        random_cut_sizes(&source, mesh, ndim, shape, placements);
        prepare_locals(mesh, placements, ndim, shape, locals);
        int64_t count = shape_count(ndim, shape);
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t offset[WEFT_MAX_DIMS];
            int64_t extent[WEFT_MAX_DIMS];
            weft_shard_box(mesh, placements, ndim, shape, weft_first_rank() + i, offset, extent);
            memcpy(sizes + i * ndim, extent, (size_t)ndim * sizeof(*sizes));
        }
        weft_tensor *x = from_sizes(ndim, sizes, locals, mesh, placements, 0);
        assert_no_error();
        assert_non_null(x);
        double values[6 * 6 * 6];
        if (count > 0) {
            for (int d = 0; d < ndim; d++) {
                assert_int_equal(weft_tensor_size(x, d), shape[d]);
            }
        }
        assert_int_equal(weft_to_host(x, values, sizeof(values)), WEFT_OK);
        for (int64_t i = 0; i < count; i++) {
            assert_true(values[i] == (double)i);
        }
        weft_tensor_release(x);
        release_locals(locals);
    }
}

/* Sizes that no tensor has: every process gets the same error, which names the rank. Nothing is left
 * afterwards. */
static void a5_shards_that_do_not_fit(void **state)
{
    (void)state;
    const weft_placement rows[] = { weft_shard(0) };
    /* 9 rows over 4 ranks are 3, 3, 3, 0. */
    const int64_t wrong[][RANKS] = { { 2, 3, 3, 1 }, { 3, 3, 2, 1 }, { 0, 3, 3, 3 } };
    const char *const texts[] = { "rank 0 gave a shard of [2, 2], but of f64[9, 2] [S0] on 4 it holds [3, 2]",
                                  "rank 2 gave a shard of [2, 2]", "rank 0 gave a shard of [0, 2]" };
    double memory[8] = { 0 };
    void *locals[RANKS] = { memory, memory, memory, memory };
    for (int w = 0; w < 3; w++) {
        int64_t sizes[RANKS * 2];
        for (int i = 0; i < weft_local_ranks(); i++) {
            sizes[2 * i] = wrong[w][weft_first_rank() + i];
            sizes[2 * i + 1] = 2;
        }
        assert_null(from_sizes(2, sizes, locals, line, rows, 0));
        assert_error(WEFT_ERR_SHAPE, texts[w]);
    }
    /* Replicas of different sizes. */
    int64_t sizes[RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        sizes[i] = weft_first_rank() + i == 2 ? 4 : 3;
    }
    assert_null(from_sizes(1, sizes, locals, line, NULL, 0));
    assert_error(WEFT_ERR_SHAPE, "rank 2 gave a shard of [4], but of f64[3] [R] on 4 it holds [3]");
}

/* An error on one process is an error on all. */
static void a5_one_wrong_process_ends_everywhere(void **state)
{
    (void)state;
    const int64_t shape[] = { 8 };
    const weft_placement rows[] = { weft_shard(0) };
    double memory[8] = { 0 };
    void *locals[RANKS] = { memory, memory, memory, memory }, *nothing[RANKS] = { NULL };
    int64_t two[] = { 2, 2, 2, 2 };
    for (int wrong = 0; wrong < weft_num_processes(); wrong++) {
        bool mine = weft_process_index() == wrong;
        assert_null(weft_from_local(WEFT_F64, 1, shape, mine ? nothing : locals, line, rows, WEFT_CHECK_RANKS));
        assert_error(WEFT_ERR_INVALID, mine ? "locals[0] is NULL" : "gave wrong arguments: ");
        assert_null(from_sizes(1, two, mine ? NULL : locals, line, rows, 0));
        assert_error(WEFT_ERR_INVALID, mine ? "locals is NULL" : "gave wrong arguments: ");
        assert_null(weft_from_local_even(mine ? (weft_dtype)77 : WEFT_F64, 1, two, locals, line, rows,
                                         WEFT_CHECK_RANKS));
        assert_error(WEFT_ERR_DTYPE, mine ? "dtype is 77" : "gave wrong arguments: ");
    }
    /* And another shape, type or placement than the others'. */
    const weft_dtype type = weft_process_index() == weft_num_processes() - 1 ? WEFT_F32 : WEFT_F64;
    if (weft_num_processes() > 1) {
        assert_null(weft_from_local_even(type, 1, two, locals, line, rows, WEFT_CHECK_RANKS));
        assert_error(WEFT_ERR_MISMATCH, "gave other arguments than process 0 (shape, dtype, placements, mesh, size or ghosts)");
        /* 10 rows are 3, 3, 2, 2 or 3, 3, 3, 1: the first ranks' memory fits both. */
        const weft_placement cuts[] = { weft_shard(0), weft_shard_balanced(0), weft_shard_sizes(0, RANKS, (int64_t[]){ 3, 3, 4, 0 }),
                                        weft_shard_sizes(0, RANKS, (int64_t[]){ 3, 3, 0, 4 }) };
        const int64_t ten[] = { 10 };
        bool first = weft_process_index() == 0;
        for (int k = 1; k < 4; k++) {
            assert_null(weft_from_local(WEFT_F64, 1, ten, locals, line, &cuts[first ? k : k - 1], WEFT_CHECK_RANKS));
            assert_error(WEFT_ERR_MISMATCH, "gave other arguments than process 0 (shape, dtype, placements, mesh, size or ghosts)");
        }
    }
    weft_tensor *x = weft_from_local_even(WEFT_F64, 1, two, locals, line, rows, WEFT_CHECK_RANKS | WEFT_COPY);
    expect(x, memory, 8);
    weft_tensor_release(x);
}

/* ---- A5: replicas -------------------------------------------------------------------------------------- */

/* Along every dimension that replicates the first rank's values, also where another one is Partial: ranks
 * that hold one addend get the same, other addends stay. */
static void a5_replicas_beside_addends(void **state)
{
    (void)state;
    const weft_placement layouts[][2] = { { weft_partial(WEFT_SUM), weft_replicate() },
                                          { weft_replicate(), weft_partial(WEFT_SUM) },
                                          { weft_replicate(), weft_replicate() },
                                          { weft_shard(0), weft_replicate() } };
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        double memory[RANKS][2];
        void *locals[RANKS];
        for (int i = 0; i < weft_local_ranks(); i++) {
            memory[i][0] = memory[i][1] = 1 + weft_first_rank() + i;
            locals[i] = memory[i];
        }
        weft_scope_begin();
        weft_tensor *x = weft_from_local_even(WEFT_F64, 1, (const int64_t[]){ 2 }, locals, grid, layouts[l],
                                              WEFT_CHECK_RANKS);
        assert_no_error();
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t at[2];
            double values[2];
            weft_mesh_coordinate(grid, weft_first_rank() + i, at);
            for (int m = 0; m < 2; m++) {
                at[m] = layouts[l][m].kind == WEFT_REPLICATE ? 0 : at[m];
            }
            assert_int_equal(weft_local_to_host(x, i, values, sizeof(values)), WEFT_OK);
            assert_true(values[0] == (double)(1 + 2 * at[0] + at[1]) && values[1] == values[0]);
        }
        assert_shards(x, NULL, NULL, "replicas");
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
    }
}

/* ---- A5: strides --------------------------------------------------------------------------------------- */

/* Every other column of a larger array, and a transposed one: copied where the caller says so, else
 * refused. */
static void a5_strided_memory(void **state)
{
    (void)state;
    enum { HEIGHT = 6, WIDTH = 4 };
    const int64_t shape[] = { HEIGHT * RANKS, WIDTH };
    const weft_placement rows[] = { weft_shard(0) };
    double memory[RANKS][HEIGHT * WIDTH * 2], expected[HEIGHT * WIDTH * RANKS];
    for (int i = 0; i < HEIGHT * WIDTH * RANKS; i++) {
        expected[i] = i;
    }
    const int64_t every_other[] = { 2 * WIDTH, 2 }, transposed[] = { 1, HEIGHT }, plain[] = { WIDTH, 1 };
    const int64_t *const kinds[] = { every_other, transposed, plain };
    for (int k = 0; k < 3; k++) {
        int64_t strides[RANKS * 2];
        void *locals[RANKS];
        for (int i = 0; i < weft_local_ranks(); i++) {
            memcpy(strides + 2 * i, kinds[k], 2 * sizeof(*strides));
            locals[i] = memory[i];
            for (int e = 0; e < HEIGHT * WIDTH; e++) {
                int64_t place = e / WIDTH * kinds[k][0] + e % WIDTH * kinds[k][1];
                memory[i][place] = expected[(weft_first_rank() + i) * HEIGHT * WIDTH + e];
            }
        }
        weft_from_local_options options = { .shape = shape, .strides = strides };
        weft_tensor *in_place = weft_from_local_ex(WEFT_F64, 2, locals, line, rows, &options);
        if (kinds[k] == plain) {
            expect(in_place, expected, HEIGHT * WIDTH * RANKS);
            assert_ptr_equal(weft_local_acquire(in_place, 0, WEFT_READ), locals[0]);
            weft_local_release(in_place, 0);
            weft_tensor_release(in_place);
        } else {
            assert_null(in_place);
            assert_error(WEFT_ERR_INVALID, "are not row-major, and memory that is used in place must be: WEFT_COPY");
        }
        options.flags = WEFT_COPY;
        weft_tensor *copied = weft_from_local_ex(WEFT_F64, 2, locals, line, rows, &options);
        memset(memory, 0, sizeof(memory)); /* it has been read */
        expect(copied, expected, HEIGHT * WIDTH * RANKS);
        weft_tensor_release(copied);
    }
}

static void a5_refuses(void **state)
{
    (void)state;
    const weft_placement rows[] = { weft_shard(0) };
    double memory[8];
    void *locals[RANKS] = { memory, memory, memory, memory };
    const int64_t shape[] = { 8 }, negative[] = { -1, -1, -1, -1 }, three[] = { 3, 3, 3, 3 };
    assert_null(weft_from_local_ex(WEFT_F64, 1, locals, line, rows, NULL));
    assert_error(WEFT_ERR_INVALID, "shape is NULL, and so is local_shapes");
    assert_null(from_sizes(1, negative, locals, line, rows, 0));
    assert_error(WEFT_ERR_SHAPE, "weft_from_local_ex");
    assert_null(weft_from_local_ex(WEFT_F64, 1, locals, line, rows,
                                   &(weft_from_local_options){ .shape = shape, .local_shapes = three }));
    assert_error(WEFT_ERR_SHAPE, "local_shapes[0] is 3, but with this shape and placements rank");
    assert_null(from_sizes(1, three, locals, line, rows, 8));
    assert_error(WEFT_ERR_INVALID, "flags is 0x8");
    assert_null(from_sizes(9, three, locals, line, rows, 0));
    assert_error(WEFT_ERR_INVALID, "ndim is 9");
    assert_null(weft_from_local_ex(WEFT_F64, 1, locals, (weft_mesh *)memory, rows, NULL));
    assert_error(WEFT_ERR_INVALID, "mesh");
    /* Nobody to be asked. */
    assert_int_equal(weft_finalize(), WEFT_OK);
    FAKE_WORLD(RANKS);
    weft_mesh *fake = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    assert_null(from_sizes(1, three, NULL, fake, rows, 0));
    assert_error(WEFT_ERR_UNSUPPORTED, "fake world");
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(a4_first_rank_is_the_source),
        ROW(a4_missing_array_ends_everywhere),
        ROW(a4_while_a_shard_is_held),
        ROW(a5_memory_is_used_in_place),
        ROW(a5_uneven_shards_are_asked_for),
        ROW(a5_shards_that_do_not_fit),
        ROW(a5_one_wrong_process_ends_everywhere),
        ROW(a5_replicas_beside_addends),
        ROW(a5_strided_memory),
        ROW(a5_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
