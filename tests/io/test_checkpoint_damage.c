/* Files that are damaged, or none: refused with a message, the same on all ranks, and no tensor changes. */
#include "checkpoint_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 5, ROUNDS = 10000, MAX_BYTES = 1 << 14 };

static const char *const names[TENSORS] = { "a", "layers.0.w", "b", "empty", "scalar" };
static const weft_dtype dtypes[TENSORS] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_I64 };
static const int ndims[TENSORS] = { 2, 1, 3, 2, 0 };
static const int64_t shapes[TENSORS][3] = { { 5, 3 }, { 7 }, { 2, 3, 2 }, { 0, 4 }, { 0 } };
static weft_tensor *tensors[TENSORS];
static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(2);
    mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    for (int i = 0; i < TENSORS; i++) {
        weft_placement placement = ndims[i] == 0 ? weft_replicate() : weft_shard(0);
        tensors[i] = make_numbered(i, dtypes[i], ndims[i], shapes[i], mesh, &placement);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    checkpoint_remove();
    weft_clear_error();
    return world_stop(NULL);
}

static void assert_unchanged(void)
{
    for (int i = 0; i < TENSORS; i++) {
        assert_numbered(tensors[i], i);
    }
}

/* ---- mutations ---------------------------------------------------------------------------------------------- */

/* Moves the bytes after `at` by `by`. */
static int64_t shift(char *bytes, int64_t count, int64_t at, int64_t by)
{
    if (count + by > MAX_BYTES || at - by > count) {
        return count;
    }
    int64_t from = by < 0 ? at - by : at;
    memmove(bytes + from + by, bytes + from, (size_t)(count - from));
    return count + by;
}

/* One random change; half of them in the first `header` bytes. Returns the new number of bytes. */
static int64_t mutate(prng *random, char *bytes, int64_t count, int64_t header)
{
    int64_t reach = prng_below(random, 2) == 0 && header < count ? header : count;
    if (reach == 0) {
        return count;
    }
    int64_t at = prng_below(random, reach), other = prng_below(random, reach), length = 1 + prng_below(random, 12);
    length = length > count - at ? count - at : length;
    length = length > count - other ? count - other : length;
    switch (prng_below(random, 9)) {
    case 0:
        bytes[at] = (char)(bytes[at] ^ 1 << prng_below(random, 8));
        return count;
    case 1:
        bytes[at] = (char)prng_next(random);
        return count;
    case 2:
        for (int64_t i = 0; i < length; i++) {
            bytes[at + i] = (char)prng_next(random);
        }
        return count;
    case 3: { /* another character of the format */
        static const char characters[] = "0123456789{}[]:,\"\\ -.eutn\xc3\xff\x01";
        bytes[at] = characters[prng_below(random, (int64_t)sizeof(characters))];
        return count;
    }
    case 4:
        memmove(bytes + at, bytes + other, (size_t)length);
        return count;
    case 5:
        return shift(bytes, count, at, -length);
    case 6: /* a part twice */
        return shift(bytes, count, at, length);
    case 7:
        return at;
    default: /* the length of the header */
        bytes[prng_below(random, 8)] = (char)(prng_below(random, 2) == 0 ? prng_next(random) : 0xff);
        return count;
    }
}

static int64_t header_bytes(const char *bytes)
{
    int64_t length = 0;
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | (unsigned char)bytes[i];
    }
    return 8 + length;
}

/* Loads with zeros in the tensors: they keep them, or get the true values. */
static void load_mutated(const char *bytes, int64_t count, bool has_checksums, int64_t outcomes[2])
{
    static const char zero[512];
    weft_tensor *loaded[TENSORS];
    write_bytes(checkpoint_path(), bytes, count);
    weft_scope_begin();
    for (int i = 0; i < TENSORS; i++) {
        loaded[i] = weft_zeros_like(tensors[i]);
    }
    weft_status status = weft_checkpoint_load(checkpoint_path(), TENSORS, names, loaded);
    outcomes[status == WEFT_OK]++;
    if (status != WEFT_OK) {
        assert_true(strlen(weft_last_error()) > strlen("weft_checkpoint_load: "));
        weft_clear_error();
    }
    for (int i = 0; i < TENSORS && (status != WEFT_OK || has_checksums); i++) {
        char found[512], expected[512];
        size_t size = weft_tensor_bytes(tensors[i]);
        assert_int_equal(weft_to_host(loaded[i], found, sizeof(found)), WEFT_OK);
        assert_int_equal(weft_to_host(tensors[i], expected, sizeof(expected)), WEFT_OK);
        assert_memory_equal(found, status == WEFT_OK ? expected : zero, size);
    }
    weft_scope_end();
}

static void run_mutations(const char *original, int64_t count, bool has_checksums, int rounds)
{
    prng random = prng_start(77);
    char *bytes = malloc(MAX_BYTES);
    int64_t outcomes[2] = { 0 };
    rounds = share_of(rounds);
    for (int round = 0; round < rounds; round++) {
        memcpy(bytes, original, (size_t)count);
        int64_t now = count;
        for (int64_t changes = 1 + prng_below(&random, 3); changes > 0; changes--) {
            now = mutate(&random, bytes, now, header_bytes(original));
        }
        load_mutated(bytes, now, has_checksums, outcomes);
    }
    printf("# %d mutations: %d refused, %d loaded\n", rounds, (int)outcomes[0], (int)outcomes[1]);
    assert_true(outcomes[0] > rounds / 2);
    free(bytes);
}

/* A file of weft's own: what is loaded is what was saved. */
static void test_mutations(void **state)
{
    (void)state;
    int64_t count;
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), TENSORS, names, tensors, NULL), WEFT_OK);
    char *original = read_bytes(checkpoint_path(), &count);
    run_mutations(original, count, true, ROUNDS);
    write_bytes(checkpoint_path(), original, count);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), TENSORS, names, tensors), WEFT_OK);
    assert_unchanged();
    free(original);
}

/* ---- files of other programs -------------------------------------------------------------------------------- */

/* Writes a file with this header and `data` zeros. */
static void write_file(const char *header, int64_t data)
{
    static char bytes[MAX_BYTES];
    size_t length = strlen(header);
    memset(bytes, 0, sizeof(bytes));
    for (int i = 0; i < 8; i++) {
        bytes[i] = (char)(length >> 8 * i);
    }
    memcpy(bytes + 8, header, length);
    write_bytes(checkpoint_path(), bytes, 8 + (int64_t)length + data);
}

static const char foreign[] =
    " {\"a\":{\"dtype\":\"F32\",\"shape\":[5,3],\"data_offsets\":[0,60]},\"layers.0.w\":{\"shape\":[7],\"dtype\":\"F64\","
    "\"data_offsets\":[60,116]},\"b\":{\"data_offsets\":[116,140],\"dtype\":\"BF16\",\"shape\":[2,3,2]},\"empty\":{\"dtype\":"
    "\"I32\",\"shape\":[0,4],\"data_offsets\":[140,140]},\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[140,148]},"
    "\"__metadata__\":{\"format\":\"pt\"},\"other\":{\"dtype\":\"F8_E8M0\",\"shape\":[3],\"data_offsets\":[148,151]}}";

static void test_mutations_of_foreign_files(void **state)
{
    (void)state;
    int64_t count;
    write_file(foreign + 1, 151);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), TENSORS, names, tensors), WEFT_OK);
    char *original = read_bytes(checkpoint_path(), &count);
    run_mutations(original, count, false, ROUNDS / 4);
    free(original);
    write_file(foreign + 1, 151);
    weft_tensor *other = weft_zeros(WEFT_U8, 1, (const int64_t[]){ 3 }, mesh, NULL);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, (const char *const[]){ "other" }, &other), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "F8_E8M0");
    weft_checkpoint_file *file = weft_checkpoint_open(checkpoint_path());
    weft_checkpoint_entry entry;
    assert_int_equal(weft_checkpoint_tensor(file, 5, &entry), WEFT_OK);
    assert_false(entry.is_readable);
    assert_string_equal(weft_checkpoint_metadata(file, "format"), "pt");
    weft_checkpoint_close(file);
}

/* Each kind of damage of the header, by name. */
static void test_refused_headers(void **state)
{
    (void)state;
#define A "\"dtype\":\"F32\",\"shape\":[2]"
#define TEN "[[[[[[[[[["
#define BRACKETS TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
    static const struct {
        row_place row;
        const char *header;
        int data;
        const char *message;
    } rows[] = {
        { THIS_ROW, "", 0, "does not begin with '{'" },
        { THIS_ROW, " {}", 0, "does not begin with '{'" },
        { THIS_ROW, "{", 0, "at byte 1" },
        { THIS_ROW, "{}x", 0, "more characters" },
        { THIS_ROW, "{}", 4, "the file has 4" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]}}", 4, "end at byte 8" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]}}", 12, "end at byte 8" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,9]}}", 9, "\"a\" has 9 bytes" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[8,0]}}", 8, "ends before it begins" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[4,12]}}", 12, "begins at byte 4" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]},\"b\":{" A ",\"data_offsets\":[4,12]}}", 12, "\"b\" begins at byte 4" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]},\"b\":{" A ",\"data_offsets\":[12,20]}}", 20, "expected 8" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]},\"a\":{" A ",\"data_offsets\":[8,16]}}", 16, "a second tensor \"a\"" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8]},\"\\u0061\":{" A ",\"data_offsets\":[8,16]}}", 16, "a second tensor" },
        { THIS_ROW, "{\"a\":{" A "}}", 8, "no data_offsets" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape" },
        { THIS_ROW, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype" },
        { THIS_ROW, "{\"a\":{" A ",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a second key \"shape\"" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":[2,],\"data_offsets\":[0,8]}}", 8, "no value of JSON" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":{\"y\"},\"data_offsets\":[0,8]}}", 8, "expected ':', found '}'" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":{\"y\":1],\"data_offsets\":[0,8]}}", 8, "expected '}', found ']'" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":{1:1},\"data_offsets\":[0,8]}}", 8, "expected '\"', found '1'" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":tru,\"data_offsets\":[0,8]}}", 8, "no value of JSON" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":01,\"data_offsets\":[0,8]}}", 8, "no value of JSON" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":1.,\"data_offsets\":[0,8]}}", 8, "no value of JSON" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":\"\x01\",\"data_offsets\":[0,8]}}", 8, "control character" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":" BRACKETS, 8, "brackets" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":[", 8, "no value of JSON" },
        { THIS_ROW, "{\"__metadata__\":nul}", 0, "expected '{', found 'n'" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,99999999999999999999]}}", 8, "beyond 64 bits" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,9223372036854775808]}}", 8, "beyond 64 bits" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "2^63" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "not its size" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, "not negative" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "expected ',', found '.'" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "no integer" },
        { THIS_ROW, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]}}", 4, "no integer" },
        { THIS_ROW, "{\"a\":{\"dtype\":null,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "expected '\"', found 'n'" },
        { THIS_ROW, "{\"a\":{" A ",\"data_offsets\":[0,8,8]}}", 8, "expected ']', found ','" },
        { THIS_ROW, "{\"a\":[]}", 0, "expected '{', found '['" },
        { THIS_ROW, "{\"\xff\":{" A ",\"data_offsets\":[0,8]}}", 8, "not UTF-8" },
        { THIS_ROW, "{\"\xc0\x80\":{" A ",\"data_offsets\":[0,8]}}", 8, "not UTF-8" },
        { THIS_ROW, "{\"\xed\xa0\x80\":{" A ",\"data_offsets\":[0,8]}}", 8, "not UTF-8" },
        { THIS_ROW, "{\"\\ud800\":{" A ",\"data_offsets\":[0,8]}}", 8, "surrogate" },
        { THIS_ROW, "{\"\\u0000\":{" A ",\"data_offsets\":[0,8]}}", 8, "U+0000" },
        { THIS_ROW, "{\"\\x\":{" A ",\"data_offsets\":[0,8]}}", 8, "escape" },
        { THIS_ROW, "{\"a\nb\":{" A ",\"data_offsets\":[0,8]}}", 8, "control character" },
        { THIS_ROW, "{\"a", 0, "expected '\"', and the header ends" },
        { THIS_ROW, "{\"__metadata__\":{\"a\":1}}", 0, "the value of \"a\" in the metadata is not a string" },
        { THIS_ROW, "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "a second key \"a\"" },
        { THIS_ROW, "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "a second __metadata__" },
        { THIS_ROW, "{\"__metadata__\":{\"weft.format\":\"1\"}}", 0, "checksum" },
        { THIS_ROW, "{\"__metadata__\":{\"weft.anything\":\"1\"}}", 0, "checksum" },
    };
#undef A
#undef BRACKETS
#undef TEN
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].row, __func__);
        write_file(rows[i].header, rows[i].data);
        weft_checkpoint_file *file = weft_checkpoint_open(checkpoint_path());
        if (file != NULL || weft_last_status() != WEFT_ERR_IO || strstr(weft_last_error(), rows[i].message) == NULL) {
            fail_msg("\"%s\", expected \"%s\"", weft_last_error(), rows[i].message);
        }
        weft_clear_error();
        weft_tensor *a = tensors[0];
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, names, &a), WEFT_ERR_IO);
        weft_clear_error();
    }
    leave_rows();
}

/* What the format's own library reads as well. */
static void test_unusual_headers(void **state)
{
    (void)state;
#define A "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"
    static const struct {
        row_place row;
        const char *header, *name;
    } rows[] = {
        { THIS_ROW, "{\"a\":{" A "}}", "a" },
        { THIS_ROW, "{\"__metadata__\":null,\"a\":{" A "}}", "a" },
        { THIS_ROW, "{\"a\":{" A "},\"__metadata__\": null }", "a" },
        { THIS_ROW, "{\"\":{" A "}}", "" },
        { THIS_ROW, "{\"a\":{" A ",\"x\":null}}", "a" },
        { THIS_ROW, "{\"a\":{\"x\":\"}\"," A "}}", "a" },
        { THIS_ROW, "{\"a\":{\"x\":-1.5e+3 , \"x\" : [ ] , \"y\":{ }," A "}}", "a" },
        { THIS_ROW, "{\"a\":{\"x\":{\"b\":[1,[2,{}],{\"c\":[[],true]}],\"d\":false,\"e\":0}," A "}}", "a" },
        { THIS_ROW, "{\"a\":{\"x\":[{\"dtype\":\"F64\"}]," A "}}", "a" },
    };
#undef A
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].row, __func__);
        float values[] = { 1, 1 };
        weft_tensor *a = weft_ones(WEFT_F32, 1, (const int64_t[]){ 2 }, mesh, NULL);
        write_file(rows[i].header, 8);
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, &rows[i].name, &a), WEFT_OK);
        assert_int_equal(weft_to_host(a, values, sizeof(values)), WEFT_OK);
        assert_true(values[0] == 0 && values[1] == 0);
    }
    leave_rows();
    write_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8);
    weft_tensor *a = weft_ones(WEFT_F32, 1, (const int64_t[]){ 2 }, mesh, NULL);
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 1, (const char *const[]){ "a" }, &a), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "\"a\" has 9 dimensions in the file, and a tensor has at most 8");
}

/* ---- other failures ------------------------------------------------------------------------------------------ */

static void test_damaged_tensor_is_named(void **state)
{
    (void)state;
    int64_t count;
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), TENSORS, names, tensors, NULL), WEFT_OK);
    char *bytes = read_bytes(checkpoint_path(), &count);
    weft_checkpoint_file *file = weft_checkpoint_open(checkpoint_path());
    weft_checkpoint_entry entry;
    assert_int_equal(weft_checkpoint_tensor(file, weft_checkpoint_index(file, "b"), &entry), WEFT_OK);
    weft_checkpoint_close(file);
    bytes[entry.offset + 5] ^= 1;
    write_bytes(checkpoint_path(), bytes, count);
    free(bytes);
    char expected[64];
    snprintf(expected, sizeof(expected), "bytes %d to %d", (int)entry.offset, (int)(entry.offset + entry.bytes));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weft_checkpoint_load(checkpoint_path(), TENSORS, names, tensors), WEFT_ERR_IO);
        assert_error(WEFT_ERR_IO, i == 0 ? expected : "tensor \"b\" is damaged");
    }
    /* The others can be loaded. */
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), 2, names, tensors), WEFT_OK);
    assert_unchanged();
}

static void test_other_refusals(void **state)
{
    (void)state;
    const char *path = checkpoint_path();
    weft_tensor *wrong = weft_zeros(WEFT_F32, 2, (const int64_t[]){ 3, 5 }, mesh, NULL);
    weft_tensor *other = weft_zeros(WEFT_F16, 2, shapes[0], mesh, NULL), *fake = weft_fake_like(tensors[0]);
    weft_placement partial = weft_partial(WEFT_SUM);
    weft_tensor *sums = weft_empty(WEFT_F32, 2, shapes[0], mesh, &partial);
    const char *const same[] = { "a", "a" }, *const bad[] = { "\xff" }, *const none[] = { NULL }, *const own[] = { "weft.x" };
    const char *const missing[] = { "a", "layers.1.w" }, *const reserved[] = { "__metadata__" }, *const empty[] = { "" };
    const weft_checkpoint_options reserved_key = { .num_entries = 1, .keys = own, .values = own };
    const weft_checkpoint_options twice = { .num_entries = 2, .keys = same, .values = same };
    const weft_checkpoint_options no_keys = { .num_entries = 2, .values = same };
    const weft_checkpoint_options no_size = { .num_entries = 1, .keys = same, .values = same, .size = 3 };
    assert_int_equal(weft_checkpoint_save(path, TENSORS, names, tensors, NULL), WEFT_OK);
#define REFUSED(call, status, text) (assert_int_equal(call, status), assert_error(status, text))
    REFUSED(weft_checkpoint_save(NULL, 1, names, tensors, NULL), WEFT_ERR_INVALID, "path");
    REFUSED(weft_checkpoint_save("", 1, names, tensors, NULL), WEFT_ERR_INVALID, "path");
    REFUSED(weft_checkpoint_save(path, -1, names, tensors, NULL), WEFT_ERR_INVALID, "n is");
    REFUSED(weft_checkpoint_save(path, 1, NULL, tensors, NULL), WEFT_ERR_INVALID, "names is");
    REFUSED(weft_checkpoint_save(path, 1, names, NULL, NULL), WEFT_ERR_INVALID, "tensors is");
    REFUSED(weft_checkpoint_save(path, 1, none, tensors, NULL), WEFT_ERR_INVALID, "names[0] is NULL");
    REFUSED(weft_checkpoint_save(path, 1, empty, tensors, NULL), WEFT_ERR_INVALID, "names[0] is empty");
    REFUSED(weft_checkpoint_save(path, 1, bad, tensors, NULL), WEFT_ERR_INVALID, "names[0] is not UTF-8");
    REFUSED(weft_checkpoint_save(path, 1, reserved, tensors, NULL), WEFT_ERR_INVALID, "__metadata__");
    REFUSED(weft_checkpoint_save(path, 2, same, tensors, NULL), WEFT_ERR_INVALID, "names[1] is the same");
    REFUSED(weft_checkpoint_save(path, 1, names, &fake, NULL), WEFT_ERR_STATE, "tensors[0]");
    REFUSED(weft_checkpoint_save(path, 1, names, tensors, &reserved_key), WEFT_ERR_INVALID, "options->keys[0]");
    REFUSED(weft_checkpoint_save(path, 1, names, tensors, &twice), WEFT_ERR_INVALID, "options->keys[1]");
    REFUSED(weft_checkpoint_save(path, 1, names, tensors, &no_keys), WEFT_ERR_INVALID, "options->keys");
    REFUSED(weft_checkpoint_save(path, 1, names, tensors, &no_size), WEFT_ERR_INVALID, "size");
    REFUSED(weft_checkpoint_save("/nowhere/at/all", 1, names, tensors, NULL), WEFT_ERR_IO, "No such file");
    REFUSED(weft_checkpoint_save("/dev/null/x", 1, names, tensors, NULL), WEFT_ERR_IO, "process 0");
    REFUSED(weft_checkpoint_load("/nowhere", 1, names, tensors), WEFT_ERR_IO, "No such file");
    REFUSED(weft_checkpoint_load("/", 1, names, tensors), WEFT_ERR_IO, "directory");
    REFUSED(weft_checkpoint_load("/dev/zero", 1, names, tensors), WEFT_ERR_IO, "it is a device, expected a regular file");
    REFUSED(weft_checkpoint_load(path, 2, missing, tensors), WEFT_ERR_INVALID, "layers.1.w");
    REFUSED(weft_checkpoint_load(path, 1, names, &wrong), WEFT_ERR_SHAPE, "[3, 5]");
    REFUSED(weft_checkpoint_load(path, 1, names, &other), WEFT_ERR_DTYPE, "f16");
    REFUSED(weft_checkpoint_load(path, 1, names, &sums), WEFT_ERR_LAYOUT, "P(sum)");
    assert_non_null(weft_local_acquire(tensors[0], 0, WEFT_READ));
    REFUSED(weft_checkpoint_save(path, TENSORS, names, tensors, NULL), WEFT_ERR_STATE, "tensors[0]");
    REFUSED(weft_checkpoint_load(path, TENSORS, names, tensors), WEFT_ERR_STATE, "tensors[0]");
    weft_local_release(tensors[0], 0);
#undef REFUSED
    assert_unchanged();
    assert_int_equal(weft_checkpoint_load(path, TENSORS, names, tensors), WEFT_OK); /* the file too */
    assert_unchanged();
}

/* Values of a call whose tasks have failed do not replace those of the former file. */
static void test_failed_values_are_not_saved(void **state)
{
    (void)state;
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), TENSORS, names, tensors, NULL), WEFT_OK);
    weft_tensor *index = weft_full(WEFT_I64, 99, 1, (const int64_t[]){ 1 }, mesh, NULL);
    weft_tensor *bad = weft_index_select(tensors[0], 0, index); /* out of range */
    assert_non_null(bad);
    assert_int_equal(weft_checkpoint_save(checkpoint_path(), 1, names, &bad, NULL), WEFT_ERR_INVALID);
    weft_clear_error();
    assert_int_equal(weft_wait(), WEFT_OK); /* reported once */
    assert_int_equal(weft_checkpoint_load(checkpoint_path(), TENSORS, names, tensors), WEFT_OK);
    assert_unchanged();
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        ROW(test_mutations),           ROW(test_mutations_of_foreign_files), ROW(test_refused_headers),
        ROW(test_damaged_tensor_is_named), ROW(test_other_refusals),         ROW(test_failed_values_are_not_saved),
        ROW(test_unusual_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
