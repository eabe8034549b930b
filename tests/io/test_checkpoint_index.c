/* Checkpoints in several files with an index, as Hugging Face has them: any number of files, from any layout to any other; the
 * index names a whole checkpoint whatever happens; damaged indexes and files are refused, and no tensor changes. */
#include "checkpoint_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mpirun.h"

enum { TENSORS = 6, PATH = 320 };

static const char *const names[TENSORS] = { "embed", "layers.0.w", "layers.0.\"b\"\n", "empty", "step", "pairs" };
static const weft_dtype dtypes[TENSORS] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_I64, WEFT_C128 };
static const int ndims[TENSORS] = { 2, 1, 3, 2, 0, 1 };
static const int64_t shapes[TENSORS][3] = { { 11, 3 }, { 7 }, { 2, 3, 2 }, { 0, 4 }, { 0 }, { 5 } };

/* ---- worlds and files ------------------------------------------------------------------------------------------------- */

static void start_ranks(int ranks)
{
    int fewest = mpirun_processes();
    WORLD(ranks < fewest ? fewest : ranks);
    weft_scope_begin();
}

static void stop(void)
{
    assert_no_error();
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static weft_mesh *all_ranks(void)
{
    return weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
}

/* Every process has come here. */
static void meet(void)
{
    weft_placement placements[] = { weft_shard(0) };
    double sum;
    weft_scope_begin();
    weft_tensor *ones = weft_ones(WEFT_F64, 1, (const int64_t[]){ weft_world_size() }, all_ranks(), placements);
    assert_int_equal(weft_to_host(weft_sum(ones, 0, false), &sum, sizeof(sum)), WEFT_OK);
    assert_true(sum == weft_world_size());
    weft_scope_end();
}

/* Whether this process changes files, between two calls of meet(). */
static bool is_first(void)
{
    return weft_process_index() <= 0;
}

static const char *stem(void)
{
    static char path[PATH];
    snprintf(path, sizeof(path), "%.*s", (int)(strlen(checkpoint_path()) - strlen(".safetensors")), checkpoint_path());
    return path;
}

static const char *index_path(void)
{
    static char path[PATH];
    snprintf(path, sizeof(path), "%s.index.json", checkpoint_path());
    return path;
}

/* "" for the first names, "1-" for the second ones. */
static const char *part_path(const char *which, int part, int count)
{
    static char path[PATH + 40];
    snprintf(path, sizeof(path), "%s-%s%05d-of-%05d.safetensors", stem(), which, part, count);
    return path;
}

static bool is_there(const char *which, int part, int count)
{
    return access(part_path(which, part, count), F_OK) == 0;
}

/* After stop(): the next world begins when all have come. */
static void remove_all(int count)
{
    if (mpirun_process() > 0) {
        return;
    }
    for (int k = 1; k <= count; k++) {
        unlink(part_path("", k, count));
        unlink(part_path("1-", k, count));
        unlink(part_path("2-", k, count));
    }
    unlink(index_path());
}

static void make_tensors(prng *random, bool numbered, weft_tensor *tensors[])
{
    for (int i = 0; i < TENSORS; i++) {
        weft_placement placements[3];
        weft_mesh *mesh = random_mesh(random, 6);
        random_placements(random, mesh, ndims[i], false, placements);
        tensors[i] = numbered ? make_numbered(i, dtypes[i], ndims[i], shapes[i], mesh, placements)
                              : weft_zeros(dtypes[i], ndims[i], shapes[i], mesh, placements);
    }
}

static void assert_all(weft_tensor *const tensors[])
{
    for (int i = 0; i < TENSORS; i++) {
        assert_numbered(tensors[i], i);
    }
}

static weft_checkpoint_options of_bytes(int64_t most)
{
    return (weft_checkpoint_options){ .max_file_bytes = most };
}

/* ---- whole checkpoints --------------------------------------------------------------------------------------------- */

/* Tensors have 132, 56, 24, 0, 8 and 80 bytes. */
static const struct {
    int64_t most;
    int files;
} sizes[] = { { 0, 1 }, { 300, 1 }, { 299, 2 }, { 188, 2 }, { 187, 2 }, { 132, 3 }, { 80, 4 }, { 1, 5 } };

static void test_any_number_of_files(void **state)
{
    (void)state;
    prng random = prng_start(42);
    for (size_t round = 0; round < sizeof(sizes) / sizeof(sizes[0]); round++) {
        weft_tensor *tensors[TENSORS];
        const weft_checkpoint_options options = of_bytes(sizes[round].most);
        int count = sizes[round].files;
        start_ranks(1 + (int)prng_below(&random, 6));
        make_tensors(&random, true, tensors);
        assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
        assert_true(is_there("", 1, count) && is_there("", count, count));
        stop();
        start_ranks(1 + (int)prng_below(&random, 6));
        make_tensors(&random, false, tensors);
        assert_int_equal(weft_checkpoint_load(index_path(), TENSORS, names, tensors), WEFT_OK);
        assert_all(tensors);
        stop();
        remove_all(count);
    }
}

/* What the index and its files hold together, and each file alone. */
static void test_contents(void **state)
{
    (void)state;
    static const char *const keys[] = { "step" }, *const values[] = { "1200" };
    weft_checkpoint_options options = of_bytes(80);
    options.num_entries = 1;
    options.keys = keys;
    options.values = values;
    options.random_states = true;
    prng random = prng_start(7);
    weft_tensor *tensors[TENSORS];
    weft_checkpoint_entry entry;
    start_ranks(3);
    make_tensors(&random, true, tensors);
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    weft_checkpoint_file *file = weft_checkpoint_open(index_path());
    assert_int_equal(weft_checkpoint_num_tensors(file), TENSORS);
    assert_string_equal(weft_checkpoint_metadata(file, "step"), "1200");
    assert_int_equal(weft_checkpoint_random_states(file), WEFT_OK);
    for (int i = 0; i < TENSORS; i++) {
        int at = weft_checkpoint_index(file, names[i]);
        assert_int_equal(weft_checkpoint_tensor(file, at, &entry), WEFT_OK);
        assert_int_equal(entry.dtype, dtypes[i]);
        assert_int_equal(entry.bytes, weft_tensor_num_elements(tensors[i]) * (int64_t)weft_dtype_size(dtypes[i]));
        /* The file alone has it at the same place. */
        weft_checkpoint_file *alone = weft_checkpoint_open(weft_checkpoint_tensor_file(file, at));
        weft_checkpoint_entry same;
        assert_int_equal(weft_checkpoint_tensor(alone, weft_checkpoint_index(alone, names[i]), &same), WEFT_OK);
        assert_int_equal(same.offset, entry.offset);
        assert_int_equal(weft_checkpoint_close(alone), WEFT_OK);
    }
    assert_null(weft_checkpoint_tensor_file(file, TENSORS));
    assert_error(WEFT_ERR_INVALID, "index is 6");
    assert_int_equal(weft_checkpoint_close(file), WEFT_OK);
    stop();
    remove_all(4);
}

/* ---- what stands under the path ------------------------------------------------------------------------------------- */

/* Each save's files have names that the former index has not, and the former's files go. */
static void test_saved_again(void **state)
{
    (void)state;
    const weft_checkpoint_options options = of_bytes(132), smaller = of_bytes(1);
    prng random = prng_start(11);
    weft_tensor *tensors[TENSORS], *loaded[TENSORS];
    start_ranks(2);
    make_tensors(&random, true, tensors);
    make_tensors(&random, false, loaded);
    for (int round = 0; round < 4; round++) {
        assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
        for (int k = 1; k <= 3; k++) {
            assert_int_equal(is_there("", k, 3), round % 2 == 0);
            assert_int_equal(is_there("1-", k, 3), round % 2 == 1);
        }
        meet();
    }
    weft_checkpoint_saving *saving = weft_checkpoint_save_async(index_path(), TENSORS, names, tensors, &smaller);
    assert_int_equal(weft_checkpoint_wait(saving), WEFT_OK);
    assert_false(is_there("1-", 1, 3));
    assert_true(is_there("", 5, 5));
    assert_int_equal(weft_checkpoint_load(index_path(), TENSORS, names, loaded), WEFT_OK);
    assert_all(loaded);
    stop();
    remove_all(5);
}

/* A link stands where the index must be written: the former checkpoint remains, and nothing else. */
static void test_failed_save(void **state)
{
    (void)state;
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(12);
    weft_tensor *tensors[TENSORS], *loaded[TENSORS];
    char temporary[PATH + 8];
    start_ranks(2);
    make_tensors(&random, true, tensors);
    make_tensors(&random, false, loaded);
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    weft_fill_inplace(tensors[0], 5);
    snprintf(temporary, sizeof(temporary), "%s.tmp", index_path());
    assert_true(!is_first() || symlink("/dev", temporary) == 0);
    meet();
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "expected a regular file");
    assert_false(is_there("1-", 1, 3));
    meet();
    assert_true(!is_first() || unlink(temporary) == 0);
    assert_int_equal(weft_checkpoint_load(index_path(), TENSORS, names, loaded), WEFT_OK);
    assert_all(loaded);
    stop();
    remove_all(3);
}

/* What has a name that a save would give to a file keeps it: somebody's file, and a link that leads nowhere. */
static void test_names_that_are_taken(void **state)
{
    (void)state;
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(16);
    weft_tensor *tensors[TENSORS];
    char link[8] = "";
    int64_t count;
    start_ranks(2);
    make_tensors(&random, true, tensors);
    if (is_first()) {
        write_bytes(part_path("", 3, 3), "mine", 4);
        assert_int_equal(symlink("nowhere", part_path("1-", 2, 3)), 0);
    }
    meet();
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    for (int k = 1; k <= 3; k++) {
        assert_true(is_there("2-", k, 3));
    }
    assert_false(is_there("", 1, 3) || is_there("1-", 1, 3));
    char *bytes = read_bytes(part_path("", 3, 3), &count);
    assert_int_equal(count, 4);
    assert_memory_equal(bytes, "mine", 4);
    free(bytes);
    assert_int_equal(readlink(part_path("1-", 2, 3), link, sizeof(link)), 7);
    assert_memory_equal(link, "nowhere", 7);
    stop();
    remove_all(3);
}

/* Indexes whose files would have the same names: "model.safetensors.index.json", "model.index.json", and "model-1.index.json". */
static void test_several_indexes(void **state)
{
    (void)state;
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(17);
    weft_tensor *tensors[TENSORS], *given[TENSORS];
    char paths[3][PATH + 20];
    snprintf(paths[0], sizeof(paths[0]), "%s", index_path());
    snprintf(paths[1], sizeof(paths[1]), "%s.index.json", stem());
    snprintf(paths[2], sizeof(paths[2]), "%s-1.index.json", stem());
    start_ranks(2);
    make_tensors(&random, true, tensors);
    for (int step = 0; step < 9; step++) {
        weft_scope_begin();
        for (int i = 0; i < TENSORS; i++) {
            given[i] = weft_full_like(tensors[i], step);
        }
        assert_int_equal(weft_checkpoint_save(paths[step % 3], TENSORS, names, given, &options), WEFT_OK);
        for (int earlier = step < 2 ? 0 : step - 2; earlier <= step; earlier++) {
            double first[33];
            assert_int_equal(weft_checkpoint_load(paths[earlier % 3], TENSORS, names, given), WEFT_OK);
            assert_int_equal(weft_to_host(weft_to_type(given[0], WEFT_F64), first, sizeof(first)), WEFT_OK);
            assert_true(first[0] == earlier && first[32] == earlier);
        }
        weft_scope_end();
    }
    stop();
    if (mpirun_process() <= 0) {
        char command[2 * PATH];
        snprintf(command, sizeof(command), "rm '%s'*", stem());
        assert_int_equal(system(command), 0);
    }
}

/* A killed save of more files has left some. Names that weft does not give stay. */
static void test_left_files(void **state)
{
    (void)state;
    static const char *const endings[] = { "-1.tmp", "-4.tmp", "-9.tmp", "-27.tmp", "-04.tmp", "-x.tmp", "-9.tmp2", "9.tmp" };
    enum { ENDINGS = sizeof(endings) / sizeof(endings[0]), WEFT_GIVES = 4 };
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(18);
    weft_tensor *tensors[TENSORS];
    char path[PATH + 16];
    start_ranks(2);
    make_tensors(&random, true, tensors);
    for (int i = 0; i < ENDINGS && is_first(); i++) {
        snprintf(path, sizeof(path), "%s%s", index_path(), endings[i]);
        write_bytes(path, "left", 4);
    }
    meet();
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    for (int i = 0; i < ENDINGS; i++) {
        snprintf(path, sizeof(path), "%s%s", index_path(), endings[i]);
        assert_int_equal(access(path, F_OK) == 0, i >= WEFT_GIVES);
    }
    meet();
    for (int i = WEFT_GIVES; i < ENDINGS && is_first(); i++) {
        snprintf(path, sizeof(path), "%s%s", index_path(), endings[i]);
        assert_int_equal(unlink(path), 0);
    }
    stop();
    remove_all(3);
}

/* More files than a process may have open. */
static void test_many_files(void **state)
{
    (void)state;
    enum { FILES = 80, ROOM = 24 };
    const weft_checkpoint_options options = of_bytes(1);
    weft_tensor *tensors[FILES];
    char texts[FILES][16];
    const char *labels[FILES];
    struct rlimit before, limit;
    start_ranks(2);
    for (int i = 0; i < FILES; i++) {
        snprintf(texts[i], sizeof(texts[i]), "t%d", i);
        labels[i] = texts[i];
        tensors[i] = make_numbered(i, WEFT_F64, 0, NULL, all_ranks(), (const weft_placement[]){ weft_replicate() });
    }
    assert_int_equal(weft_checkpoint_save(index_path(), FILES, labels, tensors, &options), WEFT_OK);
    int lowest = dup(0); /* the first number that is not taken */
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)lowest + ROOM;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(weft_checkpoint_load(index_path(), FILES, labels, tensors), WEFT_OK);
    weft_checkpoint_file *file = weft_checkpoint_open(index_path());
    assert_int_equal(weft_checkpoint_num_tensors(file), FILES);
    assert_int_equal(weft_checkpoint_close(file), WEFT_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < FILES; i++) {
        assert_numbered(tensors[i], i);
    }
    stop();
    remove_all(FILES);
}

/* As many files as tensors: quadratic searches would take minutes. */
static void test_index_of_many_names(void **state)
{
    (void)state;
    enum { NAMES = 400000 };
    start_ranks(1);
    weft_tensor *tensor = weft_zeros(WEFT_F32, 0, NULL, all_ranks(), NULL);
    if (is_first()) {
        FILE *file = fopen(index_path(), "w");
        fputs("{\"weight_map\": {", file);
        for (int i = 0; i < NAMES; i++) {
            fprintf(file, "%s\"%d\": \"the file of %d\"", i == 0 ? "" : ", ", i, i);
        }
        fputs("}}", file);
        assert_int_equal(fclose(file), 0);
    }
    meet();
    assert_int_equal(weft_checkpoint_load(index_path(), 1, names, &tensor), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "has no tensor \"embed\"");
    stop();
    remove_all(0);
}

/* ---- damage ------------------------------------------------------------------------------------------------------------ */

/* Process 0 alone changes files: after all have read them, and before they read again. */
static void change_file(const char *path, const char *bytes, int64_t count)
{
    meet();
    if (is_first()) {
        write_bytes(path, bytes, count);
    }
    meet();
}

static void write_index(const char *text)
{
    change_file(index_path(), text, (int64_t)strlen(text));
}

/* Loading fails with this message, and opening with it too, unless only `names` are concerned. */
static void assert_refused(weft_tensor *const tensors[], weft_status status, const char *message)
{
    assert_int_equal(weft_checkpoint_load(index_path(), TENSORS, names, tensors), status);
    assert_error(status, message);
    if (status == WEFT_ERR_IO) {
        assert_null(weft_checkpoint_open(index_path()));
        assert_error(WEFT_ERR_IO, message);
    }
}

static void test_damage(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } indexes[] = {
        { "", "expected '{', and the index ends" },
        { "{}", "no weight_map" },
        { "{\"weight_map\": 5}", "expected '{', found '5'" },
        { "{\"weight_map\": {}, \"weight_map\": {}}", "a second weight_map" },
        { "{\"weight_map\": {\"embed\": 1}}", "expected '\"', found '1' at byte 25 of the index" },
        { "{\"weight_map\": {\"embed\": \"../x\"}}", "\"../x\" is not the name of a file in the same folder" },
        { "{\"weight_map\": {\"embed\": \"..\"}}", "not the name of a file" },
        { "{\"weight_map\": {\"embed\": \"\"}}", "not the name of a file" },
        { "{\"weight_map\": {\"embed\": \"a\", \"embed\": \"a\"}}", "a second tensor \"embed\"" },
        { "{\"weight_map\": {\"embed\": \"no such file\"}}", "no such file: open: No such file" },
        { "{\"weight_map\": {\"embed\": \"a\"}} x", "more characters after the object" },
    };
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(13);
    weft_tensor *tensors[TENSORS];
    char text[600];
    int64_t count;
    start_ranks(1);
    make_tensors(&random, true, tensors);
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    char *index = read_bytes(index_path(), &count);
    for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
        write_index(indexes[i].text);
        assert_refused(tensors, WEFT_ERR_IO, indexes[i].message);
    }
    write_index("{\"metadata\": {\"total_size\": -1.5e3}, \"weight_map\": {}}");
    assert_refused(tensors, WEFT_ERR_INVALID, "has no tensor \"embed\"");
    /* The index is right JSON, and wrong. */
    const char *last = strrchr(part_path("", 3, 3), '/') + 1;
    snprintf(text, sizeof(text), "{\"weight_map\": {\"embed\": \"%s\"}}", last);
    write_index(text);
    assert_refused(tensors, WEFT_ERR_IO, "has the tensor \"embed\", but it has not");
    change_file(index_path(), index, count);
    free(index);
    /* A bit of the second file's last byte. */
    char *bytes = read_bytes(part_path("", 2, 3), &count);
    bytes[count - 1] ^= 4;
    change_file(part_path("", 2, 3), bytes, count);
    free(bytes);
    assert_int_equal(weft_checkpoint_load(index_path(), TENSORS, names, tensors), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "-00002-of-00003.safetensors: tensor");
    assert_all(tensors);
    meet();
    assert_true(!is_first() || unlink(part_path("", 3, 3)) == 0);
    meet();
    assert_refused(tensors, WEFT_ERR_IO, "No such file");
    assert_all(tensors);
    stop();
    remove_all(3);
}

/* Random changes of the index: refused, or the values of the files. */
static void test_mutations(void **state)
{
    (void)state;
    const weft_checkpoint_options options = of_bytes(132);
    prng random = prng_start(14);
    weft_tensor *tensors[TENSORS];
    int refused = 0, rounds = share_of(600);
    int64_t count;
    start_ranks(1);
    make_tensors(&random, true, tensors);
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &options), WEFT_OK);
    char *index = read_bytes(index_path(), &count), *changed = malloc((size_t)count);
    for (int round = 0; round < rounds; round++) {
        memcpy(changed, index, (size_t)count);
        changed[prng_below(&random, count)] = (char)prng_next(&random);
        change_file(index_path(), changed, round % 2 == 0 ? count : prng_below(&random, count));
        weft_status status = weft_checkpoint_load(index_path(), TENSORS, names, tensors);
        refused += status != WEFT_OK;
        assert_true(status == WEFT_OK || strlen(weft_last_error()) > strlen("weft_checkpoint_load: "));
        weft_clear_error();
    }
    assert_all(tensors);
    assert_true(refused > rounds / 3);
    free(index);
    free(changed);
    stop();
    remove_all(3);
}

static void test_arguments(void **state)
{
    (void)state;
    const weft_checkpoint_options few = of_bytes(100), negative = of_bytes(-1);
    prng random = prng_start(15);
    weft_tensor *tensors[TENSORS];
    start_ranks(1);
    make_tensors(&random, true, tensors);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), TENSORS, names, tensors, &few), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "path does not end in \".index.json\"");
    assert_int_equal(weft_checkpoint_save(index_path(), TENSORS, names, tensors, &negative), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "options->max_file_bytes is negative");
    assert_int_not_equal(access(index_path(), F_OK), 0);
    const char *const twice[] = { "a", "b", "a" }; /* in different files */
    const weft_checkpoint_options least = of_bytes(1);
    assert_int_equal(weft_checkpoint_save(index_path(), 3, twice, tensors, &least), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "names[2] is the same as another one");
    assert_int_equal(weft_checkpoint_save(index_path(), 0, NULL, NULL, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "n is 0");
    assert_int_equal(weft_checkpoint_save("/tmp/weft-\xff.index.json", TENSORS, names, tensors, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "path is not UTF-8");
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_files), cmocka_unit_test(test_contents),
        cmocka_unit_test(test_saved_again),         cmocka_unit_test(test_failed_save),
        cmocka_unit_test(test_names_that_are_taken), cmocka_unit_test(test_several_indexes),
        cmocka_unit_test(test_left_files),          cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_index_of_many_names), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_mutations),           cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
