/* weft_from_dlpack(): managed tensors of other libraries as shards. In one process, and over MPI. */
#include "managed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MOST = 512 };

static weft_mesh *line;
static int deleted[RANKS];
static pthread_t main_thread;

static int start(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_ROWS", "2", 1);
    weft_config config = { .ranks = RANKS };
    weft_status status = weft_init(&config);
    unsetenv("WEFT_PANEL_ROWS");
    line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    memset(deleted, 0, sizeof(deleted));
    main_thread = pthread_self();
    return status == WEFT_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    assert_no_error();
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- shards of producers ------------------------------------------------------------------------------- */

/* The bytes of the global array, by number of the element: as of all types, booleans too. */
static void fill(weft_dtype dtype, int64_t count, char values[])
{
    size_t size = weft_dtype_size(dtype);
    for (size_t i = 0; i < (size_t)count * size; i++) {
        values[i] = dtype == WEFT_BOOL ? (char)(i % 3 == 0) : (char)(i * 7 % 100);
    }
}

typedef struct given {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    weft_mesh *mesh;
    weft_placement placements[3];
    _Alignas(double) char values[MOST * 8];
    producer *producers[RANKS];
    struct DLManagedTensorVersioned *versioned[RANKS];
    struct DLManagedTensor *unversioned[RANKS];
} given;

static void box_of(const given *g, int local_rank, int64_t extent[WEFT_MAX_DIMS], char values[])
{
    int64_t offset[WEFT_MAX_DIMS];
    weft_shard_box(g->mesh, g->placements, g->ndim, g->shape, weft_first_rank() + local_rank, offset, extent);
    copy_box_out(g->ndim, g->shape, weft_dtype_size(g->dtype), g->values, offset, extent, values);
}

static bool is_member(const given *g, int local_rank)
{
    int64_t at[WEFT_MAX_DIMS];
    return weft_mesh_coordinate(g->mesh, weft_first_rank() + local_rank, at) == 1;
}

/* Each hosted rank gets a producer's tensor; of those outside the mesh every other one, of one element, none is checked. */
static void give(given *g, laid_out how)
{
    static const int64_t ones[WEFT_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    fill(g->dtype, shape_count(g->ndim, g->shape), g->values);
    memset(deleted, 0, sizeof(deleted));
    for (int i = 0; i < weft_local_ranks(); i++) {
        g->producers[i] = NULL;
        g->versioned[i] = NULL;
        g->unversioned[i] = NULL;
        bool member = is_member(g, i);
        if (member || i % 2 == 0) {
            char values[MOST * 8] = { 0 };
            int64_t extent[WEFT_MAX_DIMS];
            if (member) {
                box_of(g, i, extent, values);
            }
            g->producers[i] = produce(g->dtype, g->ndim, member ? extent : ones, values, how, &deleted[i]);
            g->producers[i]->versioned.version.major = member ? 1 : 9;
            g->versioned[i] = &g->producers[i]->versioned;
            g->unversioned[i] = &g->producers[i]->unversioned;
        }
    }
}

static weft_tensor *take(const given *g, bool versioned, unsigned flags)
{
    return versioned ? weft_from_dlpack(g->dtype, g->ndim, g->shape, g->versioned, g->mesh, g->placements, flags)
                     : weft_from_dlpack_unversioned(g->dtype, g->ndim, g->shape, g->unversioned, g->mesh, g->placements, flags);
}

static void expect_deleted(const given *g, int times)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(deleted[i], g->producers[i] == NULL ? 0 : times);
    }
}

static void expect_values(const given *g, weft_tensor *x)
{
    char values[MOST * 8];
    assert_no_error();
    assert_non_null(x);
    assert_shards(x, NULL, NULL, "an import");
    assert_int_equal(weft_to_host(x, values, sizeof(values)), WEFT_OK);
    assert_memory_equal(values, g->values, weft_tensor_bytes(x));
}

/* [n], sharded, of type f64. */
static given *rows(given *g, int64_t n)
{
    *g = (given){ .dtype = WEFT_F64, .ndim = 1, .shape = { n }, .mesh = line, .placements = { weft_shard(0) } };
    return g;
}

/* ---- values -------------------------------------------------------------------------------------------- */

/* Random tensors of all types, with empty shards, of any memory order, of either struct: values, and one call of each deleter. */
static void test_values(void **state)
{
    (void)state;
    prng random = prng_start(11);
    static const unsigned all_flags[] = { 0, WEFT_COPY, WEFT_CHECK_RANKS, WEFT_COPY | WEFT_CHECK_RANKS };
    for (int i = 0; i < 160; i++) {
        given g = { .dtype = (weft_dtype)(i % WEFT_DTYPE_COUNT) };
        g.mesh = random_mesh(&random, RANKS);
        g.ndim = random_shape(&random, 3, 7, g.shape);
        random_placements(&random, g.mesh, g.ndim, false, g.placements);
        random_cut_sizes(&random, g.mesh, g.ndim, g.shape, g.placements);
        unsigned flags = all_flags[i / WEFT_DTYPE_COUNT % 4];
        laid_out how = (laid_out)(prng_next(&random) % ((flags & WEFT_COPY) != 0 ? 4 : 2));
        give(&g, how);
        weft_tensor *x = take(&g, i % 3 != 0, flags);
        if ((flags & WEFT_COPY) != 0) {
            expect_deleted(&g, 1); /* before the call returned */
        }
        expect_values(&g, x);
        weft_tensor_release(x);
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_deleted(&g, 1);
    }
}

/* The memory is the tensor's, and what tasks write is there: but for read-only memory. */
static void test_memory_is_used_in_place(void **state)
{
    (void)state;
    for (int read_only = 0; read_only < 2; read_only++) {
        given g;
        give(rows(&g, 13), STRIDED);
        for (int i = 0; i < weft_local_ranks(); i++) {
            g.versioned[i]->flags = read_only ? READ_ONLY : 0;
        }
        weft_tensor *x = take(&g, true, 0);
        for (int i = 0; i < weft_local_ranks(); i++) {
            const char *memory = g.producers[i]->memory + g.versioned[i]->tensor.byte_offset;
            assert_ptr_equal(weft_local_acquire(x, i, WEFT_READ), memory);
            assert_int_equal(weft_local_release(x, i), WEFT_OK);
        }
        weft_fill_inplace(x, 7);
        assert_int_equal(weft_wait(), WEFT_OK);
        for (int i = 0; i < weft_local_ranks() && !read_only; i++) {
            const double *memory = weft_local_acquire(x, i, WEFT_READ);
            assert_ptr_equal(memory, g.producers[i]->memory + g.versioned[i]->tensor.byte_offset);
            assert_true(*memory == 7);
            assert_int_equal(weft_local_release(x, i), WEFT_OK);
        }
        /* The read-only memory has been left, and given back. */
        expect_deleted(&g, read_only);
        double values[16];
        assert_int_equal(weft_to_host(x, values, sizeof(values)), WEFT_OK);
        assert_true(values[0] == 7 && values[12] == 7);
        weft_tensor_release(x);
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_deleted(&g, 1);
    }
}

static const char *watched;
static double first_at_end;

static void note_first(void)
{
    memcpy(&first_at_end, watched, sizeof(first_at_end));
}

/* Read-only memory that the program acquires for writing: another address, with the values. Its own are what they were when it
 * is given back. */
static void test_read_only_memory_is_left(void **state)
{
    (void)state;
    given g;
    double first;
    give(rows(&g, 8), PLAIN);
    for (int i = 0; i < weft_local_ranks(); i++) {
        g.versioned[i]->flags = READ_ONLY;
    }
    watched = g.producers[0]->memory;
    memcpy(&first, watched, sizeof(first));
    g.producers[0]->within = note_first;
    weft_tensor *x = take(&g, true, 0);
    double *memory = weft_local_acquire(x, 0, WEFT_READ_WRITE);
    assert_non_null(memory);
    assert_true((char *)memory != watched && memory[0] == first);
    memory[0] = 5;
    assert_int_equal(weft_local_release(x, 0), WEFT_OK);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_deleted(&g, 1);
    assert_memory_equal(&first_at_end, &first, sizeof(first));
}

/* ---- deleters ------------------------------------------------------------------------------------------ */

/* While a task that reads the memory waits, the tensor's release, other calls and collections call no deleter. */
static void test_pending_tasks_keep_the_memory(void **state)
{
    (void)state;
    given g;
    give(rows(&g, 16), PLAIN);
    weft_tensor *x = take(&g, true, 0), *late = weft_zeros(WEFT_F64, 1, g.shape, line, g.placements);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_non_null(weft_local_acquire(late, i, WEFT_READ_WRITE));
    }
    weft_tensor *sum = weft_add(x, late);
    weft_tensor_release(x);
    for (int64_t n = 100; n < 140; n++) { /* buffers of new sizes: each collects first */
        weft_tensor_release(weft_zeros(WEFT_F64, 1, &n, line, g.placements));
    }
    expect_deleted(&g, 0);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_local_release(late, i), WEFT_OK);
    }
    weft_tensor_release(late);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_deleted(&g, 1);
    expect_values(&g, sum);
    weft_tensor_release(sum);
}

/* weft_finalize() ends what the program has not released. */
static void test_finalize_deletes(void **state)
{
    (void)state;
    given g;
    give(rows(&g, 8), PLAIN);
    assert_non_null(take(&g, true, 0));
    expect_deleted(&g, 0);
    assert_int_equal(weft_finalize(), WEFT_OK);
    expect_deleted(&g, 1);
    start(NULL);
}

/* The function of a graph that imports another array in each run. */
static weft_status importing(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    weft_tensor *x = take(context, true, 0);
    outputs[0] = weft_add(weft_scale(x, 2), inputs[0]);
    return weft_last_status();
}

static void test_within_a_graph(void **state)
{
    (void)state;
    static given g;
    weft_graph *graph = weft_graph_create("importing", importing, &g, 1, 0, 1);
    for (int run = 0; run < 5; run++) {
        double values[16];
        give(rows(&g, 12), run % 2 ? STRIDED : PLAIN);
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F64, run, 1, g.shape, line, g.placements), *y;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
        assert_int_equal(weft_to_host(y, values, sizeof(values)), WEFT_OK);
        for (int i = 0; i < 12; i++) {
            assert_true(values[i] == 2 * ((const double *)(const void *)g.values)[i] + run);
        }
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_deleted(&g, 1);
    }
    assert_int_equal(weft_graph_destroy(graph), WEFT_OK);
}

static weft_status status_within;
static bool on_main_thread;

static void call_weft(void)
{
    on_main_thread = pthread_equal(pthread_self(), main_thread) != 0;
    status_within = weft_wait();
}

/* Deleters run on the program's thread, and cannot call weft; the library goes on. */
static void test_deleters_cannot_call(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags <= WEFT_COPY; flags++) {
        given g;
        give(rows(&g, 4), PLAIN);
        for (int i = 0; i < weft_local_ranks(); i++) {
            g.producers[i]->within = call_weft;
        }
        status_within = WEFT_OK;
        on_main_thread = false;
        weft_tensor_release(take(&g, true, flags));
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_deleted(&g, 1);
        assert_int_equal(status_within, WEFT_ERR_STATE);
        assert_true(on_main_thread);
        assert_error(WEFT_ERR_STATE, "weft_wait: called by a deleter of a managed tensor");
    }
}

/* Of static memory, say. */
static void test_no_deleter(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags <= WEFT_COPY; flags++) {
        given g;
        give(rows(&g, 6), PLAIN);
        for (int i = 0; i < weft_local_ranks(); i++) {
            g.versioned[i]->deleter = NULL;
        }
        weft_tensor *x = take(&g, true, flags);
        expect_values(&g, x);
        weft_tensor_release(x);
        assert_int_equal(weft_wait(), WEFT_OK);
        expect_deleted(&g, 0);
        for (int i = 0; i < weft_local_ranks(); i++) {
            end_producer(g.producers[i]);
        }
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------ */

static void other_version(producer *p) { p->versioned.version.major = 2; p->versioned.tensor.ndim = -5; }
static void of_a_device(producer *p) { p->versioned.tensor.device.type = ON_CUDA; p->versioned.tensor.device.id = 3; }
static void complex_numbers(producer *p) { p->versioned.tensor.dtype.code = 5; p->versioned.tensor.dtype.bits = 128; }
static void narrow(producer *p) { p->versioned.tensor.dtype.bits = 32; }
static void integers(producer *p) { p->versioned.tensor.dtype.code = 0; }
static void unknown(producer *p) { p->versioned.tensor.dtype.code = 77; }
static void vectors(producer *p) { p->versioned.tensor.dtype.lanes = 4; }
static void other_ndim(producer *p) { p->versioned.tensor.ndim = 2; }
static void no_shape(producer *p) { p->versioned.tensor.shape = NULL; }
static void other_size(producer *p) { p->shape[0]++; }
static void negative_size(producer *p) { p->shape[0] = -3; }
static void no_data(producer *p) { p->versioned.tensor.data = NULL; }
static void misaligned(producer *p) { p->versioned.tensor.byte_offset = 1; }
static void backwards(producer *p) { p->strides[0] = -1; p->versioned.tensor.strides = p->strides; }
static void read_only(producer *p) { p->versioned.flags = READ_ONLY; }

typedef struct refusal {
    row_place place;
    void (*spoil)(producer *p);
    unsigned flags;
    weft_status status;
    const char *text;
} refusal;

#define REFUSED(...)                                                                                         \
    {                                                                                                        \
        THIS_ROW, __VA_ARGS__                                                                                \
    }

static const refusal refusals[] = {
    REFUSED(other_version, 0, WEFT_ERR_UNSUPPORTED, "locals[0] has version 2 of DLPack, expected 1"),
    REFUSED(of_a_device, 0, WEFT_ERR_UNSUPPORTED, "locals[0] is memory of a device (DLPack's type 2, number 3)"),
    REFUSED(of_a_device, WEFT_COPY, WEFT_ERR_UNSUPPORTED, "expected memory of the CPU: copy it there first"),
    REFUSED(complex_numbers, 0, WEFT_ERR_DTYPE, "locals[0] has complex numbers (5) of 128 bits, expected f64"),
    REFUSED(narrow, 0, WEFT_ERR_DTYPE, "locals[0] has floating numbers (2) of 32 bits, expected f64"),
    REFUSED(integers, 0, WEFT_ERR_DTYPE, "locals[0] has integers (0) of 64 bits, expected f64"),
    REFUSED(unknown, 0, WEFT_ERR_DTYPE, "locals[0] has elements of another kind (77) of 64 bits, expected f64"),
    REFUSED(vectors, WEFT_COPY, WEFT_ERR_DTYPE, "of 64 bits in vectors of 4 lanes, expected f64"),
    REFUSED(other_ndim, 0, WEFT_ERR_SHAPE, "locals[0] has 2 dimensions, expected 1"),
    REFUSED(no_shape, 0, WEFT_ERR_INVALID, "locals[0] has no shape"),
    REFUSED(other_size, 0, WEFT_ERR_SHAPE, "locals[0] is [3], but of f64[8] [S0] on 4 rank "),
    REFUSED(negative_size, WEFT_COPY, WEFT_ERR_SHAPE, "locals[0] is [-3], but of"),
    REFUSED(no_data, 0, WEFT_ERR_INVALID, "locals[0] has no data: that is NULL, but rank "),
    REFUSED(misaligned, 0, WEFT_ERR_INVALID, "expected a multiple of 8 bytes where memory is used in place: WEFT_COPY copies it"),
    REFUSED(backwards, 0, WEFT_ERR_INVALID, "are not row-major, and memory that is used in place must be: WEFT_COPY"),
    REFUSED(read_only, WEFT_CHECK_RANKS, WEFT_ERR_INVALID, "locals[0] is read-only, and WEFT_CHECK_RANKS writes to replicas"),
};

/* What is refused stays the caller's. On all processes, and with WEFT_CHECK_RANKS on one, which the others are told. */
static void test_refusals(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof(refusals) / sizeof(refusals[0]); r++) {
        const refusal *row = &refusals[r];
        enter_row(row->place, __func__);
        for (int one = 0; one < 2; one++) {
            unsigned flags = row->flags | (one ? WEFT_CHECK_RANKS : 0);
            bool mine = !one || weft_process_index() == weft_num_processes() - 1;
            given g;
            give(rows(&g, 8), PLAIN);
            if (mine) {
                row->spoil(g.producers[0]);
            }
            assert_null(take(&g, true, flags));
            assert_error(row->status, mine ? row->text : "gave wrong arguments: ");
            expect_deleted(&g, 0);
            for (int i = 0; i < weft_local_ranks(); i++) {
                end_producer(g.producers[i]);
            }
        }
    }
    leave_rows();
}

static void test_refused_arrays(void **state)
{
    (void)state;
    given g;
    rows(&g, 8);
    assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, NULL, line, g.placements, 0));
    assert_error(WEFT_ERR_INVALID, "weft_from_dlpack: locals is NULL, but rank ");
    assert_null(weft_from_dlpack_unversioned(WEFT_F64, 1, g.shape, NULL, line, g.placements, 0));
    assert_error(WEFT_ERR_INVALID, "weft_from_dlpack_unversioned: locals is NULL, but rank ");
    assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, g.versioned, line, g.placements, 0));
    assert_error(WEFT_ERR_INVALID, "weft_from_dlpack: locals[0] is NULL, but rank ");
    give(&g, PLAIN);
    if (weft_local_ranks() > 1) {
        struct DLManagedTensorVersioned *second = g.versioned[1];
        g.versioned[1] = g.versioned[0];
        assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, g.versioned, line, g.placements, 0));
        assert_error(WEFT_ERR_INVALID, "weft_from_dlpack: locals[1] is the managed tensor of locals[0] too");
        expect_deleted(&g, 0);
        g.versioned[1] = second;
    }
    assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, g.versioned, (weft_mesh *)&g, g.placements, 0));
    assert_error(WEFT_ERR_INVALID, "mesh");
    assert_null(weft_from_dlpack((weft_dtype)WEFT_DTYPE_COUNT, 1, g.shape, g.versioned, line, g.placements, 0));
    assert_error(WEFT_ERR_DTYPE, "dtype is 17");
    assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, g.versioned, line, g.placements, 8));
    assert_error(WEFT_ERR_INVALID, "flags is 0x8");
    assert_null(weft_from_dlpack(WEFT_F64, 9, g.shape, g.versioned, line, g.placements, 0));
    assert_error(WEFT_ERR_INVALID, "ndim is 9");
    /* An array with elements where the shard has none. */
    const int64_t none[] = { 0 };
    assert_null(weft_from_dlpack(WEFT_F64, 1, none, g.versioned, line, g.placements, 0));
    assert_error(WEFT_ERR_SHAPE, "holds nothing");
    expect_deleted(&g, 0);
    weft_tensor_release(take(&g, true, 0));
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_deleted(&g, 1);
}

/* Before weft_init(), and in a world without ranks, where no managed tensor is looked at. */
static void test_other_worlds(void **state)
{
    (void)state;
    given g;
    rows(&g, 8);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_null(weft_from_dlpack(WEFT_F64, 1, g.shape, g.versioned, line, g.placements, 0));
    assert_error(WEFT_ERR_STATE, "weft_from_dlpack: weft_init() has not been called");
    assert_null(weft_to_dlpack(NULL, 0, 0));
    assert_error(WEFT_ERR_STATE, "weft_to_dlpack: weft_init() has not been called");
    weft_config config = { .world = WEFT_WORLD_FAKE, .fake_size = RANKS };
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *fake = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_tensor *x = weft_from_dlpack(WEFT_F64, 1, g.shape, NULL, fake, g.placements, 0);
    assert_non_null(x);
    assert_null(weft_to_dlpack(x, 0, 0));
    assert_error(WEFT_ERR_INVALID, "weft_to_dlpack: local_rank is 0");
    assert_int_equal(weft_finalize(), WEFT_OK);
    start(NULL);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        ROW(test_values),
        ROW(test_memory_is_used_in_place),
        ROW(test_read_only_memory_is_left),
        ROW(test_pending_tasks_keep_the_memory),
        ROW(test_within_a_graph),
        ROW(test_finalize_deletes),
        ROW(test_deleters_cannot_call),
        ROW(test_no_deleter),
        ROW(test_refusals),
        ROW(test_refused_arrays),
        ROW(test_other_worlds),
    };
    return cmocka_run_group_tests_name("import by DLPack", tests, NULL, NULL);
}
