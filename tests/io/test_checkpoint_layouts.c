/* Hooks from which another writer of checkpoints is built; and HDF5 files, which are
 * built on them. */
#include "cuts.h"
#include "checkpoint_support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 6, ROUNDS = 40 };

static int start_ranks(int ranks)
{
    WORLD(ranks);
    weft_scope_begin();
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_ranks(RANKS);
}

static int stop(void **state)
{
    (void)state;
    checkpoint_remove();
    weft_scope_end();
    weft_clear_error();
    return world_stop(NULL);
}

typedef struct scene {
    weft_mesh *mesh;
    int ndim;
    int64_t shape[3];
    weft_placement placements[3];
    weft_tensor *tensor;
} scene;

static scene make_scene(prng *random, int number)
{
    scene s = { .mesh = random_mesh(random, RANKS) };
    s.ndim = random_shape(random, 3, 7, s.shape);
    random_placements(random, s.mesh, s.ndim, false, s.placements);
    s.tensor = make_numbered(number, WEFT_F64, s.ndim, s.shape, s.mesh, s.placements);
    return s;
}

/* Calls for each element of a chunk, with its row-major number in the tensor and in the chunk. */
static void for_elements(const scene *s, const weft_checkpoint_chunk *chunk, void (*visit)(int64_t, int64_t, void *),
                         void *argument)
{
    int64_t count = shape_count(s->ndim, chunk->extent);
    assert_int_equal(chunk->bytes, count * (int64_t)sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        visit(dense_index(s->ndim, s->shape, chunk->offset, chunk->extent, i), i, argument);
    }
}

static void count_element(int64_t at, int64_t i, void *counts)
{
    (void)i;
    ((double *)counts)[at]++;
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

/* The processes' counts, added up: a Partial tensor of them. */
static void add_up(const scene *s, const double own[], double all[])
{
    weft_placement sums[] = { weft_partial(WEFT_SUM) };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    double *zeros = calloc((size_t)shape_count(s->ndim, s->shape) + 1, sizeof(*zeros));
    void *locals[RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = i == 0 ? (void *)(uintptr_t)own : zeros;
    }
    weft_tensor *counts = weft_from_local(WEFT_F64, s->ndim, s->shape, locals, line, sums, WEFT_COPY);
    assert_int_equal(weft_to_host(counts, all, (size_t)shape_count(s->ndim, s->shape) * sizeof(*all)), WEFT_OK);
    free(zeros);
}

/* The items of all processes have each element once; the chunks of one process have each of its elements once. */
static void a12_each_element_once(void **state)
{
    (void)state;
    prng random = prng_start(12);
    for (int round = 0; round < ROUNDS; round++) {
        scene s = make_scene(&random, round);
        int64_t count = shape_count(s.ndim, s.shape);
        double *own = calloc((size_t)count + 1, sizeof(*own)), *all = calloc((size_t)count + 1, sizeof(*all));
        weft_checkpoint_chunk items[RANKS], chunks[RANKS];
        int num_items = weft_tensor_write_items(s.tensor, RANKS, items);
        assert_int_equal(weft_tensor_write_items(s.tensor, 0, NULL), num_items);
        for (int i = 0; i < num_items; i++) {
            assert_int_equal(items[i].rank, weft_first_rank() + items[i].local_rank);
            for_elements(&s, &items[i], count_element, own);
        }
        add_up(&s, own, all);
        for (int64_t i = 0; i < count; i++) {
            assert_true(all[i] == 1);
        }
        memset(own, 0, (size_t)count * sizeof(*own));
        int num_chunks = weft_tensor_chunks(s.tensor, RANKS, chunks);
        assert_true(num_chunks >= num_items);
        for (int i = 0; i < num_chunks; i++) {
            for_elements(&s, &chunks[i], count_element, own);
        }
        for (int64_t i = 0; i < count; i++) {
            assert_true(own[i] <= 1);
        }
        for (int k = 0; k < weft_local_ranks(); k++) { /* every hosted shard is in one of the chunks */
            int64_t offset[3], extent[3];
            weft_local_box(s.tensor, k, offset, extent);
            bool found = weft_local_bytes(s.tensor, k) == 0;
            for (int i = 0; i < num_chunks; i++) {
                found |= memcmp(offset, chunks[i].offset, (size_t)s.ndim * sizeof(offset[0])) == 0 &&
                         memcmp(extent, chunks[i].extent, (size_t)s.ndim * sizeof(extent[0])) == 0;
            }
            assert_true(found);
        }
        free(own);
        free(all);
        weft_scope_end();
        weft_scope_begin();
    }
}

/* The shard of every element has it; a hosted one where there is one. */
static void a12_shard_of_an_element(void **state)
{
    (void)state;
    prng random = prng_start(13);
    for (int round = 0; round < ROUNDS; round++) {
        scene s = make_scene(&random, round);
        int64_t count = shape_count(s.ndim, s.shape);
        const int64_t zero[3] = { 0 };
        for (int64_t i = 0; i < count; i++) {
            int64_t index[3] = { 0 }, rest = i;
            for (int d = s.ndim - 1; d >= 0; d--) {
                index[d] = rest % s.shape[d];
                rest /= s.shape[d];
            }
            weft_checkpoint_chunk chunk;
            assert_int_equal(weft_tensor_shard_at(s.tensor, index, &chunk), WEFT_OK);
            int64_t offset[3], extent[3];
            weft_shard_box(s.mesh, s.placements, s.ndim, s.shape, chunk.rank, offset, extent);
            assert_memory_equal(offset, s.ndim == 0 ? zero : chunk.offset, (size_t)s.ndim * sizeof(offset[0]));
            for (int d = 0; d < s.ndim; d++) {
                assert_true(index[d] >= offset[d] && index[d] < offset[d] + extent[d]);
            }
            weft_checkpoint_chunk chunks[RANKS];
            int hosted = 0, num_chunks = weft_tensor_chunks(s.tensor, RANKS, chunks);
            for (int c = 0; c < num_chunks; c++) {
                bool inside = true;
                for (int d = 0; d < s.ndim; d++) {
                    inside &= index[d] >= chunks[c].offset[d] && index[d] < chunks[c].offset[d] + chunks[c].extent[d];
                }
                hosted += inside;
            }
            assert_int_equal(chunk.local_rank >= 0, hosted > 0);
        }
        weft_scope_end();
        weft_scope_begin();
    }
}

static void a12_refusals(void **state)
{
    (void)state;
    weft_checkpoint_chunk chunk;
    const int64_t shape[] = { 4, 3 }, outside[] = { 4, 0 }, inside[] = { 0, 0 };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_placement sums[] = { weft_partial(WEFT_SUM) };
    weft_tensor *partial = weft_empty(WEFT_F32, 2, shape, line, sums), *tensor = weft_zeros(WEFT_F32, 2, shape, line, NULL);
    assert_int_equal(weft_tensor_write_items(partial, 1, &chunk), -1);
    assert_error(WEFT_ERR_LAYOUT, "weft_tensor_write_items: tensor");
    assert_int_equal(weft_tensor_chunks(tensor, 1, NULL), -1);
    assert_error(WEFT_ERR_INVALID, "weft_tensor_chunks: max");
    assert_int_equal(weft_tensor_shard_at(tensor, outside, &chunk), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "index[0] is 4");
    assert_int_equal(weft_tensor_shard_at(tensor, NULL, &chunk), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "index");
    assert_int_equal(weft_tensor_shard_at(tensor, inside, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "chunk");
}

/* ---- another writer --------------------------------------------------------------------------------------------- */

typedef struct transfer {
    int file;
    double *values;
    bool write;
} transfer;

/* An element at its place in a file of nothing but the elements. */
static void transfer_element(int64_t at, int64_t i, void *argument)
{
    const transfer *t = argument;
    ssize_t done = t->write ? pwrite(t->file, t->values + i, sizeof(double), at * (off_t)sizeof(double))
                            : pread(t->file, t->values + i, sizeof(double), at * (off_t)sizeof(double));
    assert_int_equal(done, sizeof(double));
}

/* Until all processes are here: each reads of all others. */
static void await_all(void)
{
    const int64_t ranks = RANKS;
    const weft_placement rows[] = { weft_shard(0) };
    double values[RANKS];
    weft_tensor *ones = weft_ones(WEFT_F64, 1, &ranks, weft_mesh_create(1, &ranks, NULL), rows);
    assert_int_equal(weft_to_host(ones, values, sizeof(values)), WEFT_OK);
}

/* The program's own format: each process writes its items; those of another mesh read the shards of all their
 * ranks. */
static void a12_another_writer(void **state)
{
    (void)state;
    prng random = prng_start(14);
    for (int round = 0; round < ROUNDS / 4; round++) {
        scene s = make_scene(&random, round);
        weft_checkpoint_chunk items[RANKS];
        int file = open(checkpoint_path(), O_RDWR | O_CREAT, 0666);
        assert_true(file >= 0);
        for (int i = weft_tensor_write_items(s.tensor, RANKS, items) - 1; i >= 0; i--) {
            transfer t = { file, weft_local_acquire(s.tensor, items[i].local_rank, WEFT_READ), true };
            for_elements(&s, &items[i], transfer_element, &t);
            weft_local_release(s.tensor, items[i].local_rank);
        }
        await_all();
        s.mesh = random_mesh(&random, RANKS);
        random_placements(&random, s.mesh, s.ndim, false, s.placements);
        s.tensor = weft_zeros(WEFT_F64, s.ndim, s.shape, s.mesh, s.placements);
        for (int k = 0; k < weft_local_ranks(); k++) {
            weft_checkpoint_chunk shard = { .bytes = (int64_t)weft_local_bytes(s.tensor, k) };
            weft_local_box(s.tensor, k, shard.offset, shard.extent);
            if (shard.bytes > 0) {
                transfer t = { file, weft_local_acquire(s.tensor, k, WEFT_WRITE), false };
                for_elements(&s, &shard, transfer_element, &t);
                weft_local_release(s.tensor, k);
            }
        }
        assert_numbered(s.tensor, round);
        close(file);
        weft_scope_end();
        weft_scope_begin();
    }
}

/* ---- HDF5 --------------------------------------------------------------------------------------------------------- */

/* On one process, between two moments at which all are here. */
static void on_first(void (*action)(const char *path, const char *other), const char *path, const char *other)
{
    await_all();
    if (weft_first_rank() == 0) {
        action(path, other);
    }
    await_all();
}

static bool has_hdf5(void)
{
    bool has = weft_hdf5_save(checkpoint_path(), 0, NULL, NULL) != WEFT_ERR_UNSUPPORTED;
    weft_clear_error();
    return has;
}

/* Some of the Shards. */
static void draw_runs(prng *random, scene *s)
{
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        if (s->placements[m].kind == WEFT_SHARD && prng_below(random, 2) == 0) {
            s->placements[m] = cut_in_runs(random, s->placements[m].dim, weft_mesh_size(s->mesh, m));
        }
    }
}

static void a12_hdf5(void **state)
{
    (void)state;
    enum { TENSORS = 17, TYPES = WEFT_F8_E4M3 };
    static const char *const names[TENSORS] = { "a", "b", "group/c", "group/d", "e.f", "g", "h", "i", "j", "k", "l", "m", "n", "o",
                                                 "p", "q", "r" };
    if (!has_hdf5()) {
        skip();
    }
    prng random = prng_start(15);
    weft_tensor *tensors[TENSORS], *others[TENSORS];
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < TENSORS; i++) {
            scene s = { .mesh = random_mesh(&random, RANKS), .ndim = random_shape(&random, 3, 7, s.shape) };
            weft_dtype dtype = (weft_dtype)(i % TYPES);
            random_placements(&random, s.mesh, s.ndim, false, s.placements);
            if (dtype == WEFT_F64) {
                s.placements[0] = weft_partial(WEFT_SUM);
            }
            tensors[i] = make_numbered(i, dtype, s.ndim, s.shape, s.mesh, s.placements);
            draw_runs(&random, &s);
            tensors[i] = dtype == WEFT_F64 ? tensors[i] : weft_redistribute(tensors[i], s.mesh, s.placements);
            s.mesh = random_mesh(&random, RANKS);
            random_placements(&random, s.mesh, s.ndim, false, s.placements);
            draw_runs(&random, &s);
            others[i] = weft_zeros(dtype, s.ndim, s.shape, s.mesh, s.placements);
        }
        tensors[TENSORS - 1] = tensors[TENSORS - 2]; /* one under two names */
        /* Whole, in chunks of few bytes, and compressed. */
        const weft_hdf5_options stored = { .compression = round % 4 == 3 ? 6 : 0, .chunk_bytes = round % 4 * 40 };
        assert_int_equal(round % 4 == 0 ? weft_hdf5_save(checkpoint_path(), TENSORS, names, tensors)
                                        : weft_hdf5_save_ex(checkpoint_path(), TENSORS, names, tensors, &stored), WEFT_OK);
        assert_int_equal(weft_hdf5_load(checkpoint_path(), TENSORS - 1, names, others), WEFT_OK);
        for (int i = 0; i < TENSORS - 1; i++) {
            assert_numbered(weft_redistribute(others[i], NULL, NULL), i);
        }
        weft_scope_end();
        weft_scope_begin();
    }
}

static const char *hdf5_writer; /* NULL: there is none */

static void write_foreign(const char *path, const char *other)
{
    (void)other;
    char command[600];
    snprintf(command, sizeof(command), "'%s' '%s'", hdf5_writer, path);
    assert_int_equal(system(command), 0);
}

static void a12_hdf5_of_others(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        weft_dtype dtype;
        bool fits;
    } cases[] = { { "f64 be", WEFT_F64, true }, { "f64 be", WEFT_F32, false }, { "i16", WEFT_I16, true },   { "i16", WEFT_F64, true },
                  { "i16", WEFT_I64, true },    { "i16", WEFT_U32, false },    { "i16 be", WEFT_F32, true }, { "i16 be", WEFT_BF16, false },
                  { "i64 be", WEFT_I64, true }, { "i64 be", WEFT_F64, false }, { "f32 be", WEFT_F32, true },
                  { "f32 be", WEFT_C64, false } };
    if (hdf5_writer == NULL) {
        skip();
    }
    const int64_t shape[] = { 4, 3 };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    on_first(write_foreign, checkpoint_path(), NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_tensor *tensor = weft_zeros(cases[i].dtype, 2, shape, line, (const weft_placement[]){ weft_shard(0) });
        assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, &cases[i].name, &tensor), cases[i].fits ? WEFT_OK : WEFT_ERR_DTYPE);
        weft_clear_error();
        double values[12];
        for (int k = 0; k < 12 && cases[i].fits; k++) {
            assert_int_equal(weft_to_host(weft_to_type(tensor, WEFT_F64), values, sizeof(values)), WEFT_OK);
            assert_true(values[k] == (k % 2 ? -1000 : 3000) + k);
        }
    }
}

static void a12_hdf5_refusals(void **state)
{
    (void)state;
    if (!has_hdf5()) {
        skip();
    }
    const int64_t shape[] = { 4, 3 }, other_shape[] = { 3, 4 };
    const char *const names[] = { "a", "b" }, *const unfit[] = { "a", "a/b" };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_tensor *tensors[] = { make_numbered(1, WEFT_F32, 2, shape, line, (const weft_placement[]){ weft_shard(0) }),
                               weft_zeros(WEFT_F32, 2, other_shape, line, NULL) };
    weft_tensor *wrong = weft_zeros(WEFT_F16, 2, shape, line, NULL), *wider = weft_zeros(WEFT_F64, 2, shape, line, NULL);
    assert_int_equal(weft_hdf5_save(checkpoint_path(), 1, names, tensors), WEFT_OK);
    assert_int_equal(weft_hdf5_save(checkpoint_path(), 2, unfit, tensors), WEFT_ERR_IO); /* a group and a dataset */
    assert_error(WEFT_ERR_IO, "a/b");
    assert_int_equal(weft_hdf5_save("/nowhere/file", 1, names, tensors), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "process 0");
    assert_int_equal(weft_hdf5_save_ex(checkpoint_path(), 1, names, tensors + 1, &(weft_hdf5_options){ .compression = 10 }), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "options->compression is 10, expected 0 to 9");
    assert_int_equal(weft_hdf5_save_ex(checkpoint_path(), 1, names, tensors + 1, &(weft_hdf5_options){ .chunk_bytes = -1 }), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "options->chunk_bytes is -1");
    const weft_hdf5_options small = { .chunk_bytes = 15 };
    assert_int_equal(weft_hdf5_save_ex(checkpoint_path(), 1, names, tensors + 1, &small), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "options->chunk_bytes is 15, expected 0, or 16 to 4294967295");
    assert_int_equal(weft_hdf5_load(checkpoint_path(), 2, names, tensors), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "\"b\"");
    assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, names, tensors + 1), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "\"a\"");
    assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, names, &wrong), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "f16");
    assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, names, &wider), WEFT_OK); /* all numbers stay what they are */
    assert_numbered(weft_to_type(wider, WEFT_F32), 1);
    assert_int_equal(weft_hdf5_load("/nowhere", 1, names, tensors), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "open");
    assert_numbered(tensors[0], 1);
    weft_fill_inplace(tensors[0], 0);
    assert_int_equal(weft_hdf5_load(checkpoint_path(), 1, names, tensors), WEFT_OK); /* the first save is whole */
    assert_numbered(tensors[0], 1);
}

/* ---- files that are not what they seem ----------------------------------------------------------------------------- */

typedef weft_status saver(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);

static void make_link(const char *path, const char *other)
{
    unlink(path);
    assert_int_equal(symlink(other, path), 0);
}

static void make_hard_link(const char *path, const char *other)
{
    unlink(path);
    assert_int_equal(link(other, path), 0);
}

static void make_pipe(const char *path, const char *other)
{
    (void)other;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void write_secret(const char *path, const char *other)
{
    write_bytes(path, other, (int64_t)strlen(other));
}

static void remove_file(const char *path, const char *other)
{
    (void)other;
    unlink(path);
}

static void assert_contents(const char *path, const char *expected)
{
    int64_t count;
    char *bytes = read_bytes(path, &count);
    assert_int_equal(count, strlen(expected));
    assert_memory_equal(bytes, expected, (size_t)count);
    free(bytes);
}

static weft_tensor *make_one(void)
{
    const int64_t shape[] = { 4, 3 };
    return make_numbered(1, WEFT_F32, 2, shape, weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL),
                         (const weft_placement[]){ weft_shard(0) });
}

static weft_status save_checkpoint(const char *path, int n, const char *const names[], weft_tensor *const tensors[])
{
    return weft_checkpoint_save(path, n, names, tensors, NULL);
}

/* What stands at PATH.tmp is not written through, and what stands at PATH is not replaced unless it is a file. */
static void try_saver(saver *save)
{
    static const char *const kinds[] = { "a symbolic link", "several names", "a pipe" };
    void (*const makers[])(const char *, const char *) = { make_link, make_hard_link, make_pipe };
    const char *path = checkpoint_path(), *const names[] = { "a" };
    char temporary[240], target[240];
    struct stat about;
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    snprintf(target, sizeof(target), "%s.target", path);
    weft_tensor *tensor = make_one();
    for (int kind = 0; kind < 3; kind++) {
        on_first(write_secret, target, "secret");
        on_first(makers[kind], temporary, target);
        weft_status status = save(path, 1, names, &tensor);
        await_all();
        assert_contents(target, "secret");
        if (save == weft_hdf5_save && kind == 1) { /* its first process alone makes the file, so it makes a new one */
            assert_int_equal(status, WEFT_OK);
        } else {
            assert_int_equal(status, WEFT_ERR_IO);
            assert_error(WEFT_ERR_IO, kinds[kind]);
            assert_int_equal(lstat(temporary, &about), 0); /* it stays */
            assert_false(S_ISREG(about.st_mode) && about.st_nlink == 1);
        }
        on_first(remove_file, temporary, NULL);
    }
    on_first(remove_file, target, NULL);
    on_first(make_pipe, path, NULL);
    assert_int_equal(save(path, 1, names, &tensor), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "it is a pipe, expected a regular file");
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    on_first(remove_file, path, NULL);
    assert_int_equal(save(path, 1, names, &tensor), WEFT_OK);
}

static void a12_links_and_pipes(void **state)
{
    (void)state;
    try_saver(save_checkpoint);
    checkpoint_remove();
    if (has_hdf5()) {
        try_saver(weft_hdf5_save);
    }
}

static void write_damaged(const char *path, const char *intact)
{
    int64_t count;
    char *bytes = read_bytes(intact, &count);
    write_bytes(path, bytes, count / 2);
    free(bytes);
}

/* Each fault of a file has a reason of its own. */
static void a12_hdf5_faults(void **state)
{
    (void)state;
    if (!has_hdf5()) {
        skip();
    }
    const char *path = checkpoint_path(), *const names[] = { "a" }, *const group[] = { "g/a" }, *const whole[] = { "g" };
    char other[240];
    snprintf(other, sizeof(other), "%s.other", path);
    weft_tensor *tensor = make_one(), *bytes = weft_zeros(WEFT_U8, 1, (const int64_t[]){ 5 }, weft_tensor_mesh(tensor), NULL);
#define REFUSED(text) (assert_int_equal(weft_hdf5_load(other, 1, names, &tensor), WEFT_ERR_IO), assert_error(WEFT_ERR_IO, text))
    REFUSED("No such file");
    on_first(make_pipe, other, NULL);
    REFUSED("it is a pipe");
    on_first(remove_file, other, NULL);
    on_first(write_secret, other, "this is not an HDF5 file, though it is long enough to look at");
    REFUSED("signature");
    assert_int_equal(weft_hdf5_save(path, 1, group, &tensor), WEFT_OK);
    on_first(write_damaged, other, path);
    REFUSED("truncated");
#undef REFUSED
    assert_int_equal(weft_hdf5_load("/", 1, names, &tensor), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "it is a directory");
    assert_int_equal(weft_hdf5_load("/dev/zero", 1, names, &tensor), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "it is a device");
    assert_int_equal(weft_hdf5_load(path, 1, group, &bytes), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "the tensor is u8, and \"g/a\" is f32 in the file");
    assert_int_equal(weft_hdf5_load(path, 1, whole, &bytes), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "\"g\"");
    on_first(remove_file, other, NULL);
    assert_numbered(tensor, 1);
}

/* Where the disk is full the former file remains, and the program ends as if nothing had happened. */
static void a12_full_disk(void **state)
{
    (void)state;
    const int64_t shape[] = { 60, 50 };
    const char *path = checkpoint_path(), *const names[] = { "a", "b" };
    saver *const savers[] = { save_checkpoint, weft_hdf5_save };
    struct rlimit before;
    weft_tensor *small[] = { make_one(), make_one() };
    weft_mesh *mesh = weft_tensor_mesh(small[0]);
    weft_placement rows[] = { weft_shard(0) };
    weft_tensor *tensors[] = { make_numbered(2, WEFT_F64, 2, shape, mesh, rows), make_numbered(3, WEFT_F64, 2, shape, mesh, rows) };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (int kind = 0; kind < (has_hdf5() ? 2 : 1); kind++) {
        assert_int_equal(savers[kind](path, 2, names, small), WEFT_OK);
        for (rlim_t limit = 500; limit < 40000; limit += 13000) {
            const struct rlimit now = { limit, before.rlim_max };
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
            weft_status status = savers[kind](path, 2, names, tensors);
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
            assert_int_equal(status, WEFT_ERR_IO);
            assert_error(WEFT_ERR_IO, "File too large");
        }
        weft_fill_inplace(small[0], 0);
        assert_int_equal((kind == 0 ? weft_checkpoint_load : weft_hdf5_load)(path, 2, names, small), WEFT_OK);
        assert_numbered(small[0], 1);
        assert_int_equal(savers[kind](path, 2, names, tensors), WEFT_OK);
    }
    signal(SIGXFSZ, handler);
}

int main(int argc, char **argv)
{
    hdf5_writer = argc > 1 ? argv[1] : NULL;
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        ROW(a12_each_element_once), ROW(a12_shard_of_an_element), ROW(a12_refusals),
        ROW(a12_another_writer),    ROW(a12_hdf5),                ROW(a12_hdf5_refusals),
        ROW(a12_links_and_pipes),   ROW(a12_hdf5_faults),         ROW(a12_full_disk),
        ROW(a12_hdf5_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
