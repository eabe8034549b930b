/* Checkpoints: what is saved from one mesh and layout is loaded into any other, on any number of ranks and
 * processes. */
#include "checkpoint_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "mpirun.h"

enum { MAX_TENSORS = 24 };

/* At least one rank for each process. */
static void start_ranks(int ranks)
{
    int fewest = mpirun_processes();
    setenv("WEFT_PANEL_ROWS", "2", 1);
    WORLD(ranks < fewest ? fewest : ranks);
    unsetenv("WEFT_PANEL_ROWS");
    weft_scope_begin();
}

static void stop(void)
{
    assert_no_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

typedef struct scene {
    int n;
    weft_dtype dtypes[MAX_TENSORS];
    int ndims[MAX_TENSORS];
    int64_t shapes[MAX_TENSORS][3];
    char names[MAX_TENSORS][24];
    const char *name_list[MAX_TENSORS];
} scene;

static scene make_scene(prng *random)
{
    scene s = { .n = 1 + (int)prng_below(random, MAX_TENSORS) };
    for (int i = 0; i < s.n; i++) {
        s.dtypes[i] = (weft_dtype)prng_below(random, WEFT_DTYPE_COUNT);
        s.ndims[i] = random_shape(random, 3, 9, s.shapes[i]);
        snprintf(s.names[i], sizeof(s.names[i]), "layers.%d.\"w\"\n", i);
    }
    return s;
}

/* Tensors of the scene with random meshes and layouts; `numbered`: with their values, else zeros. */
static void make_tensors(const scene *s, prng *random, bool partial, bool numbered, weft_tensor *tensors[])
{
    for (int i = 0; i < s->n; i++) {
        weft_placement placements[3];
        weft_mesh *mesh = random_mesh(random, 6);
        random_placements(random, mesh, s->ndims[i], false, placements);
        if (partial && s->dtypes[i] == WEFT_F64 && prng_below(random, 2) == 0) {
            placements[0] = weft_partial(WEFT_SUM);
        }
        tensors[i] = numbered ? make_numbered(i, s->dtypes[i], s->ndims[i], s->shapes[i], mesh, placements)
                              : weft_zeros(s->dtypes[i], s->ndims[i], s->shapes[i], mesh, placements);
        assert_no_error();
    }
}

static const char *const *names_of(scene *s)
{
    for (int i = 0; i < s->n; i++) {
        s->name_list[i] = s->names[i];
    }
    return s->name_list;
}

/* Random tensors, saved on some ranks and loaded on others. */
static void test_any_layout_to_any_layout(void **state)
{
    (void)state;
    prng random = prng_start(20261122);
    for (int round = 0; round < 12; round++) {
        weft_tensor *tensors[MAX_TENSORS];
        scene s = make_scene(&random);
        start_ranks(1 + (int)prng_below(&random, 6));
        make_tensors(&s, &random, true, true, tensors);
        assert_int_equal(weft_checkpoint_save(checkpoint_path(), s.n, names_of(&s), tensors, NULL), WEFT_OK);
        stop();
        start_ranks(1 + (int)prng_below(&random, 6));
        make_tensors(&s, &random, false, false, tensors);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), s.n, names_of(&s), tensors), WEFT_OK);
        for (int i = 0; i < s.n; i++) {
            assert_numbered(tensors[i], i);
        }
        stop();
    }
    checkpoint_remove();
}

/* The ranks and meshes of the requirement: 2x2 to 3, 1 and 4x1. */
static void test_2x2_to_others(void **state)
{
    (void)state;
    const int64_t shape[] = { 7, 5 }, bias[] = { 5 };
    const char *const names[] = { "w", "b", "step" };
    weft_tensor *tensors[3];
    start_ranks(4);
    weft_mesh *grid = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, (const char *const[]){ "dp", "tp" });
    tensors[0] = make_numbered(0, WEFT_F32, 2, shape, grid, (const weft_placement[]){ weft_shard(0), weft_shard(1) });
    tensors[1] = make_numbered(1, WEFT_BF16, 1, bias, grid, (const weft_placement[]){ weft_replicate(), weft_shard(0) });
    tensors[2] = make_numbered(2, WEFT_I64, 0, NULL, grid, (const weft_placement[]){ weft_replicate(), weft_replicate() });
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 3, names, tensors, NULL), WEFT_OK);
    stop();
    static const int64_t meshes[][2] = { { 3, 1 }, { 1, 1 }, { 4, 1 } };
    for (int i = 0; i < 3; i++) {
        int ranks = (int)(meshes[i][0] * meshes[i][1]);
        start_ranks(ranks);
        weft_mesh *mesh = weft_mesh_create(i == 2 ? 2 : 1, meshes[i], NULL);
        weft_placement by_rows[] = { weft_shard(0), weft_replicate() }, by_columns[] = { weft_shard(1), weft_shard(0) };
        tensors[0] = weft_zeros(WEFT_F32, 2, shape, mesh, by_columns);
        tensors[1] = weft_zeros(WEFT_BF16, 1, bias, mesh, by_rows);
        tensors[2] = weft_zeros(WEFT_I64, 0, NULL, mesh, NULL);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 3, names, tensors), WEFT_OK);
        for (int k = 0; k < 3; k++) {
            assert_numbered(tensors[k], k);
        }
        /* Some of them, in another order. */
        weft_fill_inplace(tensors[0], 0);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 2, (const char *const[]){ "b", "w" },
                                              (weft_tensor *const[]){ tensors[1], tensors[0] }),
                         WEFT_OK);
        assert_numbered(tensors[0], 0);
        stop();
    }
    checkpoint_remove();
}

/* In the program's own memory: saved from there, loaded to there. */
static void test_own_memory(void **state)
{
    (void)state;
    const int64_t shape[] = { 4, 3 };
    const weft_placement rows[] = { weft_shard(0) };
    const char *const names[] = { "a" };
    start_ranks(4);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    float memory[4][3] = { { 0 } };
    void *locals[4];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = memory[i];
        for (int k = 0; k < 3; k++) {
            memory[i][k] = (float)(10 * (weft_first_rank() + i) + k);
        }
    }
    weft_tensor *tensor = weft_from_local(WEFT_F32, 2, shape, locals, mesh, rows, 0);
    weft_checkpoint_saving *saving = weft_checkpoint_save_async(checkpoint_path(), 1, names, &tensor, NULL);
    assert_non_null(saving);
    weft_fill_inplace(tensor, -1);
    assert_int_equal(weft_checkpoint_wait(saving), WEFT_OK);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, names, &tensor), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        for (int k = 0; k < 3; k++) {
            assert_float_equal(memory[i][k], (float)(10 * (weft_first_rank() + i) + k), 0);
        }
    }
    stop();
    checkpoint_remove();
}

/* ---- asynchronous ------------------------------------------------------------------------------------------ */

/* The values of the moment of the call, whatever happens afterwards; several saves one after the other. */
static void test_async_is_a_snapshot(void **state)
{
    (void)state;
    const int64_t shape[] = { 64, 33 };
    const weft_placement layouts[][2] = { { weft_shard(0), weft_shard(0) },
                                          { weft_replicate(), weft_replicate() },
                                          { weft_shard(0), weft_replicate() },
                                          { weft_shard(1), weft_shard(0) } };
    const char *const names[] = { "a", "b", "c", "d" };
    weft_tensor *tensors[4];
    start_ranks(4);
    weft_mesh *grid = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (int i = 0; i < 4; i++) {
        tensors[i] = make_numbered(i, WEFT_F64, 2, shape, grid, layouts[i]);
    }
    weft_checkpoint_saving *savings[3];
    for (int round = 0; round < 3; round++) {
        savings[round] = weft_checkpoint_save_async(checkpoint_path(), 4, names, tensors, NULL);
        assert_non_null(savings[round]);
        for (int i = 0; i < 4; i++) { /* in place, with and without the former values, and by the program's hand */
            weft_scale_inplace(tensors[i], 2);
            weft_fill_inplace(tensors[i], -3);
            for (int k = 0; k < weft_local_ranks(); k++) {
                double *values = weft_local_acquire(tensors[i], k, WEFT_WRITE);
                assert_non_null(values);
                memset(values, 1, weft_local_bytes(tensors[i], k));
                weft_local_release(tensors[i], k);
            }
        }
        if (round == 1) {
            break;
        }
        assert_int_equal(weft_checkpoint_wait(savings[round]), WEFT_OK);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 4, names, tensors), WEFT_OK);
        for (int i = 0; i < 4; i++) {
            assert_numbered(tensors[i], i);
        }
    }
    bool ended = false;
    while (!ended) {
        assert_int_equal(weft_checkpoint_test(savings[1], &ended), WEFT_OK);
    }
    assert_int_equal(weft_checkpoint_test(savings[1], &ended), WEFT_OK);
    assert_true(ended);
    assert_int_equal(weft_checkpoint_wait(savings[1]), WEFT_OK);
    assert_int_equal(weft_checkpoint_wait(savings[1]), WEFT_ERR_INVALID); /* its handle has ended */
    assert_error(WEFT_ERR_INVALID, "saving");
    stop();
    checkpoint_remove();
}

/* weft_finalize() waits for a save that the program has not waited for. */
static void test_finalize_waits(void **state)
{
    (void)state;
    const int64_t shape[] = { 300, 300 };
    const char *const names[] = { "a" };
    for (int round = 0; round < 3; round++) {
        start_ranks(4);
        weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
        weft_placement placements[] = { weft_shard(round % 2) };
        weft_tensor *tensor = make_numbered(7, WEFT_F32, 2, shape, mesh, placements);
        assert_non_null(weft_checkpoint_save_async(checkpoint_path(), 1, names, &tensor, NULL));
        stop();
        start_ranks(3);
        mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
        tensor = weft_zeros(WEFT_F32, 2, shape, mesh, placements);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, names, &tensor), WEFT_OK);
        assert_numbered(tensor, 7);
        stop();
    }
    checkpoint_remove();
}

/* ---- failures --------------------------------------------------------------------------------------------- */

static void remove_temporary(const char *path)
{
    char temporary[240];
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    unlink(temporary);
}

/* The last process sees another folder: all get the same status and message, and the former file remains. */
static void test_one_process_fails(void **state)
{
    (void)state;
    const int64_t shape[] = { 12, 3 }; /* rows on every rank */
    const char *const names[] = { "a" };
    char folder[400], message[400], relative[200];
    start_ranks(4);
    bool last = weft_process_index() == weft_num_processes() - 1;
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *tensor = make_numbered(3, WEFT_I32, 2, shape, mesh, rows);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 1, names, &tensor, NULL), WEFT_OK);
    assert_non_null(getcwd(folder, sizeof(folder)));
    snprintf(relative, sizeof(relative), "%s", strrchr(checkpoint_path(), '/') + 1);
    snprintf(message, sizeof(message), "%.*s", (int)(strrchr(checkpoint_path(), '/') - checkpoint_path()),
             checkpoint_path());
    assert_int_equal(chdir(last ? "/proc" : message), 0); /* where no file can be made */
    snprintf(message, sizeof(message), "process %d", weft_num_processes() - 1);
    weft_fill_inplace(tensor, 5);
    assert_int_equal(weft_checkpoint_save(relative, 1, names, &tensor, NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, message);
    weft_checkpoint_saving *saving = weft_checkpoint_save_async(relative, 1, names, &tensor, NULL);
    assert_non_null(saving);
    assert_int_equal(weft_checkpoint_wait(saving), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, message);
    assert_int_equal(weft_checkpoint_load(relative, 1, names, &tensor), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, message);
    double values[36];
    assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_F64), values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 36; i++) {
        assert_true(values[i] == 5);
    }
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, names, &tensor), WEFT_OK);
    assert_numbered(tensor, 3);
    /* Each its own folder, as on disks that are not shared: nothing that looks like a checkpoint is left. */
    char own[480];
    snprintf(own, sizeof(own), "%s.%d", checkpoint_path(), last);
    assert_true(mkdir(own, 0777) == 0 || errno == EEXIST);
    assert_int_equal(chdir(own), 0);
    assert_int_equal(weft_checkpoint_save(relative, 1, names, &tensor, NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "different file systems");
    assert_int_not_equal(access(relative, F_OK), 0);
    remove_temporary(relative);
    assert_int_equal(chdir(folder), 0);
    stop();
    rmdir(own);
    checkpoint_remove();
}

/* Leaves are saved and loaded as they are; what the tape has saved of their former values stays. */
static void test_leaves(void **state)
{
    (void)state;
    const int64_t shape[] = { 6, 3 };
    const char *const names[] = { "w" };
    start_ranks(4);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *w = make_numbered(4, WEFT_F64, 2, shape, mesh, rows);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 1, names, &w, NULL), WEFT_OK);
    weft_fill_inplace(w, 3);
    assert_int_equal(weft_set_requires_grad(w, true), WEFT_OK);
    weft_tensor *loss = weft_sum(weft_mul(w, w), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, names, &w), WEFT_OK);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 1, names, &w, NULL), WEFT_OK);
    assert_true(weft_is_leaf(w));
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    double gradient[18];
    assert_int_equal(weft_to_host(weft_grad(w), gradient, sizeof(gradient)), WEFT_OK);
    for (int i = 0; i < 18; i++) {
        assert_true(gradient[i] == 6);
    }
    assert_numbered(weft_detach(w), 4);
    stop();
    checkpoint_remove();
}

/* CRC-32C: the value that its specification gives, a plain loop, and joined parts. */
static void test_checksums(void **state)
{
    (void)state;
    prng random = prng_start(32);
    unsigned char bytes[300];
    assert_int_equal(weft_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(weft_crc32c_by_tables(0, "123456789", 9), 0xe3069283);
    for (int round = 0; round < 300; round++) {
        size_t count = (size_t)prng_below(&random, sizeof(bytes) + 1), part = (size_t)prng_below(&random, (int64_t)count + 1);
        uint32_t plain = UINT32_MAX;
        for (size_t i = 0; i < count; i++) {
            bytes[i] = (unsigned char)prng_next(&random);
            plain ^= bytes[i];
            for (int bit = 0; bit < 8; bit++) {
                plain = plain >> 1 ^ ((plain & 1) != 0 ? 0x82f63b78 : 0);
            }
        }
        assert_int_equal(weft_crc32c(0, bytes, count), ~plain);
        assert_int_equal(weft_crc32c_by_tables(weft_crc32c(0, bytes, part), bytes + part, count - part), ~plain);
        uint32_t first = weft_crc32c(0, bytes, part), second = weft_crc32c(0, bytes + part, count - part);
        assert_int_equal(weft_crc32c_join(first, second, (int64_t)(count - part)), ~plain);
    }
}

/* ---- metadata and contents --------------------------------------------------------------------------------- */

static void test_contents(void **state)
{
    (void)state;
    const int64_t shape[] = { 3, 0, 2 };
    const char *const names[] = { "empty", "\xc3\xbc/\xe2\x82\xac" };
    const char *const keys[] = { "step", "options \"x\"" }, *const values[] = { "12", "--a\\b\n\x01" };
    const weft_checkpoint_options options = { .num_entries = 2, .keys = keys, .values = values };
    start_ranks(3);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    weft_tensor *tensors[] = { weft_zeros(WEFT_F16, 3, shape, mesh, NULL), weft_full(WEFT_F64, 0.5, 0, NULL, mesh, NULL) };
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 2, names, tensors, &options), WEFT_OK);
    weft_checkpoint_file *file = weft_checkpoint_open(checkpoint_path());
    assert_non_null(file);
    assert_int_equal(weft_checkpoint_num_tensors(file), 2);
    assert_int_equal(weft_checkpoint_index(file, names[1]), 1);
    assert_int_equal(weft_checkpoint_index(file, "other"), -1);
    weft_checkpoint_entry entry;
    assert_int_equal(weft_checkpoint_tensor(file, 0, &entry), WEFT_OK);
    assert_string_equal(entry.name, "empty");
    assert_string_equal(entry.file_dtype, "F16");
    assert_true(entry.is_readable && entry.dtype == WEFT_F16 && entry.ndim == 3 && entry.bytes == 0);
    assert_memory_equal(entry.shape, shape, sizeof(shape));
    assert_int_equal(weft_checkpoint_tensor(file, 1, &entry), WEFT_OK);
    assert_true(entry.ndim == 0 && entry.bytes == 8 && entry.offset % 8 == 0);
    assert_int_equal(weft_checkpoint_num_keys(file), 2);
    for (int i = 0; i < 2; i++) {
        const char *key, *value;
        assert_int_equal(weft_checkpoint_key(file, i, &key, &value), WEFT_OK);
        assert_string_equal(key, keys[i]);
        assert_string_equal(value, values[i]);
        assert_string_equal(weft_checkpoint_metadata(file, keys[i]), values[i]);
    }
    assert_null(weft_checkpoint_metadata(file, "other"));
    assert_no_error();
    /* Questions that no file answers. */
    const char *text = "untouched";
    assert_int_equal(weft_checkpoint_tensor(file, 2, &entry), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_checkpoint_tensor: index is 2, and there are 2");
    assert_int_equal(weft_checkpoint_tensor(file, -1, &entry), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "index is -1");
    assert_int_equal(weft_checkpoint_tensor(file, 0, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "entry is NULL");
    assert_int_equal(weft_checkpoint_key(file, 2, &text, &text), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "index is 2, and there are 2");
    assert_int_equal(weft_checkpoint_key(file, 0, &text, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "value is NULL");
    assert_int_equal(weft_checkpoint_key(file, 0, NULL, &text), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "key is NULL");
    assert_string_equal(text, "untouched");
    assert_int_equal(weft_checkpoint_index(file, NULL), -1);
    assert_error(WEFT_ERR_INVALID, "name is NULL");
    assert_null(weft_checkpoint_metadata(file, NULL));
    assert_error(WEFT_ERR_INVALID, "key is NULL");
    assert_null(weft_checkpoint_open(NULL));
    assert_error(WEFT_ERR_INVALID, "path is NULL");
    assert_null(weft_checkpoint_open(""));
    assert_error(WEFT_ERR_INVALID, "path is empty");
    assert_int_equal(weft_checkpoint_random_states(file), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_checkpoint_random_states");
    assert_int_equal(weft_checkpoint_close(file), WEFT_OK);
    assert_int_equal(weft_checkpoint_close(file), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "file");
    stop();
    checkpoint_remove();
}

static void expect_same_numbers(weft_mesh *mesh, const double expected[4])
{
    double found[4];
    weft_tensor *tensor = weft_rand(WEFT_F64, 1, (const int64_t[]){ 4 }, mesh, NULL);
    assert_int_equal(weft_to_host(tensor, found, sizeof(found)), WEFT_OK);
    assert_memory_equal(found, expected, sizeof(found));
}

/* A run goes on with the random numbers that it would have had. */
static void test_random_states(void **state)
{
    (void)state;
    const weft_checkpoint_options options = { .random_states = true };
    double expected[2][4];
    start_ranks(3);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    weft_random_seed(UINT64_MAX - 5);
    weft_rand(WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, NULL);
    weft_random_state_create("data", 77);
    weft_random_state_use("data");
    weft_rand(WEFT_F32, 1, (const int64_t[]){ 5 }, mesh, NULL);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 0, NULL, NULL, &options), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_to_host(weft_rand(WEFT_F64, 1, (const int64_t[]){ 4 }, mesh, NULL), expected[i], sizeof(expected[i]));
        weft_random_state_use(NULL);
    }
    stop();
    start_ranks(4);
    mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_checkpoint_file *file = weft_checkpoint_open(checkpoint_path());
    for (int round = 0; round < 2; round++) { /* the state does not exist, and exists */
        assert_int_equal(weft_checkpoint_random_states(file), WEFT_OK);
        assert_string_equal(weft_random_state_current(), "data");
        expect_same_numbers(mesh, expected[0]);
        weft_random_state_use(NULL);
        expect_same_numbers(mesh, expected[1]);
    }
    stop();
    checkpoint_remove();
}

/* ---- an optimiser's states ---------------------------------------------------------------------------------- */

enum { STEP_TENSORS = 4, STEP_ELEMENTS = 10 };

/* A parameter of 16 bits by rows, its moments, its master in 32 bits. */
static void begin_training(int ranks, weft_tensor *tensors[])
{
    const int64_t shape[] = { STEP_ELEMENTS };
    const weft_placement rows = weft_shard(0);
    start_ranks(ranks);
    weft_mesh_push(weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL));
    tensors[0] = weft_ones(WEFT_BF16, 1, shape, NULL, &rows);
    for (int k = 1; k < STEP_TENSORS; k++) {
        weft_tensor *wide = weft_to_type(tensors[0], WEFT_F32);
        tensors[k] = k < STEP_TENSORS - 1 ? weft_zeros_like(wide) : wide;
    }
}

static void take_steps(weft_tensor *tensors[], int first, int last)
{
    const int64_t shape[] = { STEP_ELEMENTS };
    weft_optimizer_options options;
    weft_optimizer_options_init(&options, WEFT_OPTIMIZER_ADAMW);
    options.master_weights = true;
    for (int step = first; step <= last; step++) {
        float values[STEP_ELEMENTS];
        for (int i = 0; i < STEP_ELEMENTS; i++) {
            values[i] = (float)(1 + (i * 3 + step) % 7) / 8;
        }
        weft_tensor *g = weft_to_type(weft_distribute(WEFT_F32, 1, shape, values, NULL, NULL), WEFT_BF16);
        assert_int_equal(weft_optimizer_step(1, &tensors[0], &g, &tensors[1], step, &options), WEFT_OK);
    }
}

static void read_all(weft_tensor *tensors[], float values[STEP_TENSORS][STEP_ELEMENTS])
{
    for (int k = 0; k < STEP_TENSORS; k++) {
        assert_int_equal(weft_to_host(weft_to_type(tensors[k], WEFT_F32), values[k], sizeof(values[k])), WEFT_OK);
    }
}

/* A run that goes on from a checkpoint, on another number of ranks, has the bits of one that was not interrupted. */
static void test_master_weights(void **state)
{
    (void)state;
    static const char *const names[] = { "p", "first", "second", "master" };
    weft_tensor *tensors[STEP_TENSORS];
    float expected[STEP_TENSORS][STEP_ELEMENTS], values[STEP_TENSORS][STEP_ELEMENTS];
    begin_training(4, tensors);
    take_steps(tensors, 1, 5);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), STEP_TENSORS, names, tensors, NULL), WEFT_OK);
    take_steps(tensors, 6, 10);
    read_all(tensors, expected);
    stop();
    begin_training(3, tensors);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), STEP_TENSORS, names, tensors), WEFT_OK);
    take_steps(tensors, 6, 10);
    read_all(tensors, values);
    assert_memory_equal(values, expected, sizeof(values));
    assert_true(values[0][0] < 1 && values[0][0] != values[3][0]); /* rounded */
    stop();
    checkpoint_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_2x2_to_others),     cmocka_unit_test(test_any_layout_to_any_layout),
        cmocka_unit_test(test_own_memory),        cmocka_unit_test(test_async_is_a_snapshot),
        cmocka_unit_test(test_finalize_waits),    cmocka_unit_test(test_contents),
        cmocka_unit_test(test_random_states),     cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_checksums),         cmocka_unit_test(test_master_weights),
    };
    const struct CMUnitTest of_several[] = { cmocka_unit_test(test_one_process_fails) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + (mpirun_processes() > 1 ? cmocka_run_group_tests(of_several, NULL, NULL) : 0);
}
