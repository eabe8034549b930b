/* Zarr stores of weft: any layout to any other, at any size of chunks; names; damage; who writes which file. */
#include "checkpoint_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "io/zarr_codecs.h"
#include "mpirun.h"

enum { RANKS = 6 };

/* ---- what fails ---------------------------------------------------------------------------------------------------- */

static bool no_exchange; /* as on file systems that cannot exchange names */
static bool no_memory;   /* for stored bytes, on this process */

bool __real_weft_disk_exchange(const char *one, const char *other);
bool __wrap_weft_disk_exchange(const char *one, const char *other);
bool __real_weft_zarr_bytes_reserve(weft_zarr_bytes *bytes, int64_t room);
bool __wrap_weft_zarr_bytes_reserve(weft_zarr_bytes *bytes, int64_t room);

bool __wrap_weft_disk_exchange(const char *one, const char *other)
{
    errno = EINVAL;
    return !no_exchange && __real_weft_disk_exchange(one, other);
}

bool __wrap_weft_zarr_bytes_reserve(weft_zarr_bytes *bytes, int64_t room)
{
    return !no_memory && __real_weft_zarr_bytes_reserve(bytes, room);
}

static const char *store_path(void)
{
    static char path[220];
    snprintf(path, sizeof(path), "%s.zarr", checkpoint_path());
    return path;
}

static const char *in_store(const char *name)
{
    static char path[400];
    snprintf(path, sizeof(path), "%s/%s", store_path(), name);
    return path;
}

static bool has_codec(const char *codec)
{
    const weft_zarr_options options = { .codec = codec };
    bool has = weft_zarr_save(store_path(), 0, NULL, NULL, &options) != WEFT_ERR_UNSUPPORTED;
    weft_clear_error();
    return has;
}

static void remove_store(void)
{
    char command[600];
    snprintf(command, sizeof(command), "rm -rf '%s' '%s.tmp' '%s.link'", store_path(), store_path(), store_path());
    if (mpirun_process() <= 0) {
        assert_int_equal(system(command), 0);
    }
}

/* Something beside the store. */
static const char *beside(const char *end)
{
    static char path[2][300];
    static int used;
    used = 1 - used;
    snprintf(path[used], sizeof(path[used]), "%s%s", store_path(), end);
    return path[used];
}

/* ---- layouts ------------------------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static weft_placement random_placement(uint32_t *state, int ndim, int64_t rows)
{
    const int kind = (int)(next_random(state) % 6), dim = ndim == 0 ? 0 : (int)(next_random(state) % (uint32_t)ndim);
    weft_placement placement = weft_shard(dim);
    if (kind == 0 || ndim == 0) {
        return weft_replicate();
    }
    placement.cut = kind == 1 ? WEFT_CUT_BALANCED : kind == 2 ? WEFT_CUT_CYCLIC : WEFT_CUT_CHUNKS;
    placement.block = kind == 2 ? 1 + (int64_t)(next_random(state) % 3) : kind == 3 ? (rows + 1) / 2 + 1 : 0;
    return placement;
}

/* Random shapes, types, layouts and chunks: what is saved in one layout is loaded into another. */
static void test_layouts(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = { WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL, WEFT_C64, WEFT_C128 };
    static const char *const codecs[] = { NULL, "gzip", "zstd" };
    const bool has[] = { true, has_codec("gzip"), has_codec("zstd") };
    weft_mesh *meshes[] = { weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL), weft_mesh_create(2, (const int64_t[]){ 2, 3 }, NULL),
                            weft_mesh_create(2, (const int64_t[]){ 3, 2 }, NULL) };
    uint32_t random = 7;
    for (int round = 0; round < 25; round++) {
        const char *name = round % 3 == 0 ? "a/b/c" : "a";
        const int ndim = (int)(next_random(&random) % 4);
        const weft_dtype dtype = dtypes[next_random(&random) % 10];
        int64_t shape[3];
        weft_placement placements[2][2];
        weft_tensor *tensors[2];
        for (int d = 0; d < 3; d++) {
            shape[d] = next_random(&random) % 11 == 0 ? 0 : 1 + (int64_t)(next_random(&random) % 9);
        }
        weft_scope_begin();
        for (int side = 0; side < 2; side++) {
            weft_mesh *mesh = meshes[next_random(&random) % 3];
            const int64_t rows = ndim == 0 ? 1 : shape[0];
            for (int m = 0; m < 2; m++) {
                placements[side][m] = random_placement(&random, ndim, rows);
            }
            weft_tensor *plain = make_numbered(side == 0 ? round : 0, dtype, ndim, shape, mesh, (const weft_placement[]){ weft_replicate(), weft_replicate() });
            tensors[side] = weft_redistribute(plain, mesh, placements[side]);
            assert_non_null(tensors[side]);
        }
        const int codec = (int)(next_random(&random) % 3);
        const weft_zarr_options options = { .codec = has[codec] ? codecs[codec] : NULL, .chunk_bytes = 64 << (next_random(&random) % 4) };
        assert_int_equal(weft_zarr_save(store_path(), 1, &name, &tensors[0], &options), WEFT_OK);
        assert_int_equal(weft_zarr_load(store_path(), 1, &name, &tensors[1]), WEFT_OK);
        weft_tensor *read = weft_redistribute(tensors[1], NULL, (const weft_placement[]){ weft_replicate(), weft_replicate() });
        assert_numbered(read, round);
        weft_scope_end();
    }
}

/* Partial tensors are sums; several tensors in one store, one of them twice. */
static void test_partial_and_several(void **state)
{
    (void)state;
    const char *names[] = { "sum", "group/rows", "group/again" };
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 3 }, NULL);
    const int64_t shape[] = { 7, 5 };
    weft_tensor *sum = make_numbered(3, WEFT_F32, 2, shape, mesh, (const weft_placement[]){ weft_partial(WEFT_SUM), weft_shard(1) });
    weft_tensor *rows = make_numbered(4, WEFT_I64, 2, shape, mesh, (const weft_placement[]){ weft_shard(0), weft_shard(0) });
    weft_tensor *given[] = { sum, rows, rows };
    assert_int_equal(weft_zarr_save(store_path(), 3, names, given, NULL), WEFT_OK);
    weft_tensor *first = weft_zeros(WEFT_F32, 2, shape, mesh, NULL), *second = weft_zeros_like(rows), *third = weft_zeros_like(rows);
    weft_tensor *read[] = { first, second, third };
    assert_int_equal(weft_zarr_load(store_path(), 3, names, read), WEFT_OK);
    assert_numbered(first, 3);
    assert_numbered(second, 4);
    assert_numbered(third, 4);
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

/* Chunks of [12, 8] of f64 on 6 ranks, whose shards have 2 rows, are those of shards; with checksums, and as the values are. */
static void test_files(void **state)
{
    (void)state;
    const char *name = "a";
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_tensor *tensor = make_numbered(1, WEFT_F64, 2, (const int64_t[]){ 12, 8 }, line, (const weft_placement[]){ weft_shard(0) });
    assert_int_equal(weft_zarr_save(store_path(), 1, &name, &tensor, NULL), WEFT_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        char file[40];
        int64_t count;
        snprintf(file, sizeof(file), "a/c/%d/0", rank);
        char *bytes = read_bytes(in_store(file), &count);
        assert_int_equal(count, 16 * 8 + 4);
        for (int i = 0; i < 16; i++) {
            double value;
            memcpy(&value, bytes + 8 * i, sizeof(value));
            assert_true(value == (double)element_value(1, 16 * rank + i, WEFT_F64));
        }
        free(bytes);
    }
    assert_int_equal(access(in_store("a/c/6"), F_OK), -1);
    /* Shards without common borders are brought into equal ones first. */
    weft_placement uneven = weft_shard(0);
    uneven.cut = WEFT_CUT_BALANCED;
    weft_tensor *prime = make_numbered(2, WEFT_F64, 2, (const int64_t[]){ 17, 8 }, line, &uneven);
    assert_int_equal(weft_zarr_save(store_path(), 1, &name, &prime, NULL), WEFT_OK);
    assert_int_equal(access(in_store("a/c/5/0"), F_OK), 0);
    assert_int_equal(access(in_store("a/c/6"), F_OK), -1);
    weft_tensor *read = weft_zeros_like(prime);
    assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_OK);
    assert_numbered(read, 2);
}

/* A chunk that is missing has the fill value. */
static void test_missing_chunk(void **state)
{
    (void)state;
    const char *name = "a";
    if (mpirun_process() >= 0) { /* one process removes the chunk */
        skip();
    }
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_tensor *tensor = make_numbered(1, WEFT_I32, 1, (const int64_t[]){ 12 }, line, (const weft_placement[]){ weft_shard(0) });
    assert_int_equal(weft_zarr_save(store_path(), 1, &name, &tensor, NULL), WEFT_OK);
    assert_int_equal(unlink(in_store("a/c/2")), 0);
    weft_tensor *read = make_numbered(5, WEFT_I32, 1, (const int64_t[]){ 12 }, line, (const weft_placement[]){ weft_replicate() });
    int32_t values[12];
    assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_OK);
    assert_int_equal(weft_to_host(read, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(values[i], i / 2 == 2 ? 0 : (int)element_value(1, i, WEFT_I32));
    }
}

/* ---- errors -------------------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    static const char *const wrong[] = { "a//b", "/a", "a/", ".", "..", "a/../b", "__a", "a/__b", "zarr.json", "a\\b" };
    const char *names[] = { "a", "b" }, *twice[] = { "a", "a" }, *inside[] = { "a", "a/b" }, *beside[] = { "a", "a!b" };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    const int64_t shape[] = { 12 };
    weft_tensor *tensor = make_numbered(1, WEFT_F32, 1, shape, line, (const weft_placement[]){ weft_shard(0) });
    weft_tensor *two[] = { tensor, tensor };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(weft_zarr_save(store_path(), 1, &wrong[i], &tensor, NULL), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "is no name of Zarr");
    }
    assert_int_equal(weft_zarr_save(store_path(), 2, twice, two, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "names has \"a\" twice");
    assert_int_equal(weft_zarr_save(store_path(), 2, inside, two, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "as an array and a group");
    assert_int_equal(weft_zarr_save(store_path(), 2, beside, two, NULL), WEFT_OK);
    const weft_zarr_options bad[] = { { .codec = "lzma" }, { .level = -1 }, { .codec = "gzip", .level = 10 }, { .level = 23 }, { .chunk_bytes = 15 } };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(weft_zarr_save(store_path(), 1, names, two, &bad[i]), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "weft_zarr_save: options->");
    }
    assert_int_equal(weft_zarr_save("/nowhere/store", 1, names, two, NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "/nowhere/store.tmp: mkdir");
    assert_int_equal(weft_zarr_save(store_path(), 2, names, two, NULL), WEFT_OK);
    weft_tensor *long_one = weft_zeros(WEFT_F32, 1, (const int64_t[]){ 13 }, line, NULL), *wide = weft_zeros(WEFT_F64, 1, shape, line, NULL);
    assert_int_equal(weft_zarr_load(store_path(), 1, names, &long_one), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "the tensor has the shape [13], and \"a\" has [12] in the store");
    assert_int_equal(weft_zarr_load(store_path(), 1, names, &wide), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "the tensor is f64, and \"a\" is f32 in the store");
    assert_int_equal(weft_zarr_load(store_path(), 1, (const char *[]){ "c" }, two), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "has no array \"c\"");
    assert_int_equal(weft_zarr_load("/nowhere", 1, names, two), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "/nowhere/a/zarr.json: open");
    assert_int_equal(weft_zarr_load(store_path(), 1, (const char *[]){ "" }, two), WEFT_ERR_INVALID); /* a group */
    assert_error(WEFT_ERR_INVALID, "it is a group, and no array");
    assert_int_equal(weft_zarr_load(in_store("a"), 1, (const char *[]){ "" }, two), WEFT_OK);
    assert_int_equal(weft_zarr_save(in_store("/"), 2, names, two, NULL), WEFT_OK); /* a path that ends in slashes */
    assert_int_equal(weft_zarr_load(in_store(""), 2, names, two), WEFT_OK);
    assert_int_equal(access(in_store(".tmp"), F_OK), -1);
    assert_numbered(tensor, 1);
}

/* Values that no longer fit: of one process as of all, and no tensor changes. */
static void test_one_damaged_chunk(void **state)
{
    (void)state;
    const char *names[] = { "a", "b" };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    const int64_t shape[] = { 12 };
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *saved[] = { make_numbered(1, WEFT_F32, 1, shape, line, rows), make_numbered(2, WEFT_F32, 1, shape, line, rows) };
    assert_int_equal(weft_zarr_save(store_path(), 2, names, saved, NULL), WEFT_OK);
    if (mpirun_process() <= 0) {
        int64_t count;
        char *bytes = read_bytes(in_store("b/c/5"), &count);
        bytes[3] ^= 4;
        write_bytes(in_store("b/c/5"), bytes, count);
        free(bytes);
    }
    weft_tensor *read[] = { make_numbered(3, WEFT_F32, 1, shape, line, rows), make_numbered(4, WEFT_F32, 1, shape, line, rows) };
    assert_numbered(read[0], 3); /* the first process has come this far */
    assert_int_equal(weft_zarr_load(store_path(), 2, names, read), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "b/c/5: crc32c: the checksum does not match");
    assert_numbered(read[0], 3);
    assert_numbered(read[1], 4);
}

/* Memory that one process does not have, and chunks beyond all memory in damaged metadata: an error of all processes alike, after which
 * the world goes on. */
static void test_too_large(void **state)
{
    (void)state;
    static const char good[] = "\"chunk_shape\": [2, 4]", large[] = "\"chunk_shape\": [3000000000000, 4]";
    const char *name = "a", *codecs[] = { NULL, "gzip", "zstd" };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    const int64_t shape[] = { 12, 4 };
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *saved = make_numbered(1, WEFT_F32, 2, shape, line, rows), *read = make_numbered(2, WEFT_F32, 2, shape, line, rows);
    for (int i = 0; i < 3; i++) {
        const weft_zarr_options options = { .codec = codecs[i] };
        if (codecs[i] != NULL && !has_codec(codecs[i])) {
            continue;
        }
        assert_int_equal(weft_zarr_save(store_path(), 1, &name, &saved, &options), WEFT_OK);
        no_memory = mpirun_process() <= 0;
        assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_ERR_NOMEM);
        no_memory = false;
        assert_error(WEFT_ERR_NOMEM, "weft_zarr_load: no memory for a chunk of \"a\"");
        if (mpirun_process() <= 0) {
            char changed[2000];
            int64_t count;
            char *text = read_bytes(in_store("a/zarr.json"), &count);
            const char *found = strstr(text, good);
            assert_non_null(found);
            snprintf(changed, sizeof(changed), "%.*s%s%.*s", (int)(found - text), text, large,
                     (int)(text + count - found - (int64_t)strlen(good)), found + strlen(good));
            write_bytes(in_store("a/zarr.json"), changed, (int64_t)strlen(changed));
            free(text);
        }
        assert_numbered(read, 2); /* the first process has come this far */
        assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_ERR_IO);
        assert_error(WEFT_ERR_IO, i == 0 ? "its bytes are not as many as its elements need" : "its bytes are too few for its elements");
        assert_numbered(read, 2);
    }
    assert_int_equal(weft_zarr_save(store_path(), 1, &name, &saved, NULL), WEFT_OK);
    assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_OK);
    assert_numbered(read, 1);
}

/* Names that cannot be exchanged: what crashes leave between the steps is used or removed, and nothing is left. */
static void test_steps(void **state)
{
    (void)state;
    const char *name = "a";
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    const int64_t shape[] = { 12 };
    weft_tensor *first = make_numbered(1, WEFT_F32, 1, shape, line, (const weft_placement[]){ weft_shard(0) });
    weft_tensor *second = make_numbered(2, WEFT_F32, 1, shape, line, (const weft_placement[]){ weft_shard(0) });
    weft_tensor *read = weft_zeros_like(first);
    char command[600];
    no_exchange = true;
    for (int round = 0; round < 4; round++) {
        assert_int_equal(weft_zarr_save(store_path(), 1, &name, &first, NULL), WEFT_OK);
        assert_int_equal(weft_zarr_save(store_path(), 1, &name, round % 2 == 0 ? &first : &second, NULL), WEFT_OK);
        assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_OK);
        assert_numbered(read, 1 + round % 2);
        if (mpirun_process() <= 0) { /* which has removed them */
            assert_int_equal(access(beside(".tmp"), F_OK), -1);
            assert_int_equal(access(beside(".tmp.old"), F_OK), -1);
        }
        if (mpirun_process() < 0 && round == 0) { /* killed after the first step; the next save fails, but the old store is back */
            assert_int_equal(rename(store_path(), beside(".tmp.old")), 0);
            write_bytes(beside(".tmp"), "x", 1);
            assert_int_equal(weft_zarr_save(store_path(), 1, &name, &second, NULL), WEFT_ERR_IO);
            assert_error(WEFT_ERR_IO, ".zarr.tmp is no Zarr store that weft has written");
            assert_int_equal(unlink(beside(".tmp")), 0);
            assert_int_equal(weft_zarr_load(store_path(), 1, &name, &read), WEFT_OK);
            assert_numbered(read, 1);
        }
        if (mpirun_process() < 0 && round == 1) { /* killed after the second step */
            snprintf(command, sizeof(command), "cp -r '%s' '%s'", store_path(), beside(".tmp.old"));
            assert_int_equal(system(command), 0);
        }
    }
    no_exchange = false;
}

/* A store by another name is read through it. */
static void test_link(void **state)
{
    (void)state;
    const char *names[] = { "a", "b" };
    weft_mesh *line = weft_mesh_create(1, (const int64_t[]){ RANKS }, NULL);
    weft_tensor *tensor = make_numbered(1, WEFT_F32, 1, (const int64_t[]){ 12 }, line, (const weft_placement[]){ weft_shard(0) });
    if (mpirun_process() <= 0) {
        assert_int_equal(symlink(store_path(), beside(".link")), 0);
    }
    assert_int_equal(weft_zarr_save(store_path(), 1, names, &tensor, NULL), WEFT_OK);
    assert_int_equal(weft_zarr_load(beside(".link"), 1, names, &tensor), WEFT_OK);
    assert_int_equal(weft_zarr_load(beside(".link"), 1, names + 1, &tensor), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "has no array \"b\"");
    assert_int_equal(weft_zarr_save(beside(".link"), 1, names, &tensor, NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "is no Zarr store that weft has written");
}

/* Metadata and chunks with a bit changed or cut short: as before, or an error with a message; no tensor changes then. */
static void test_damage(void **state)
{
    (void)state;
    static const char *const files[] = { "a/zarr.json", "a/c/0/0", "a/c/2/1" };
    const char *name = "a";
    if (mpirun_process() >= 0) {
        skip();
    }
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 3, 2 }, NULL);
    const int64_t shape[] = { 6, 4 };
    const weft_placement tiles[] = { weft_shard(0), weft_shard(1) };
    weft_tensor *saved = make_numbered(1, WEFT_C64, 2, shape, mesh, tiles);
    uint32_t random = 11;
    int refused = 0;
    for (int codec = 0; codec < 2; codec++) {
        const weft_zarr_options options = { .codec = codec == 1 && has_codec("zstd") ? "zstd" : NULL };
        assert_int_equal(weft_zarr_save(store_path(), 1, &name, &saved, &options), WEFT_OK);
        for (int round = 0; round < 75; round++) {
            const char *path = in_store(files[round % 3]);
            int64_t count;
            char *bytes = read_bytes(path, &count);
            const char flip = (char)(1 << next_random(&random) % 8);
            const int64_t at = next_random(&random) % (uint32_t)count, left = next_random(&random) % 4 == 0 ? at : count;
            bytes[at] ^= flip;
            write_bytes(path, bytes, left);
            bytes[at] ^= flip;
            weft_scope_begin();
            weft_tensor *read = make_numbered(2, WEFT_C64, 2, shape, mesh, tiles);
            const weft_status status = weft_zarr_load(store_path(), 1, &name, &read);
            assert_true(status == WEFT_OK || weft_last_error()[0] != '\0');
            weft_clear_error();
            assert_true(round % 3 == 0 || status != WEFT_OK);
            if (status != WEFT_OK) {
                assert_numbered(read, 2);
            }
            refused += status != WEFT_OK;
            weft_scope_end();
            write_bytes(path, bytes, count);
            free(bytes);
        }
    }
    assert_true(refused > 100);
}

int main(void)
{
    WORLD(RANKS);
    weft_scope_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),   cmocka_unit_test(test_partial_and_several),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_missing_chunk), cmocka_unit_test(test_one_damaged_chunk),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_steps),                  cmocka_unit_test(test_link),
        cmocka_unit_test(test_damage),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weft_scope_end();
    failed += world_stop(NULL);
    remove_store();
    return failed;
}
