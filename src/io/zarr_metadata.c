#include "io/zarr_metadata.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/half.h"
#include "codelets/types.h"
#include "io/json.h"

static const char *const dtype_names[] = {
    [WEFT_F64] = "float64", [WEFT_F32] = "float32", [WEFT_BF16] = "bfloat16", [WEFT_F16] = "float16",    [WEFT_I64] = "int64",
    [WEFT_I32] = "int32",   [WEFT_I16] = "int16",   [WEFT_I8] = "int8",       [WEFT_U64] = "uint64",     [WEFT_U32] = "uint32",
    [WEFT_U16] = "uint16",  [WEFT_U8] = "uint8",    [WEFT_BOOL] = "bool",     [WEFT_C64] = "complex64",  [WEFT_C128] = "complex128",
};
static const char *const codec_names[] = { [WEFT_ZARR_GZIP] = "gzip", [WEFT_ZARR_ZSTD] = "zstd", [WEFT_ZARR_CRC32C] = "crc32c" };

const char *weft_zarr_dtype_name(weft_dtype dtype)
{
    return dtype_names[dtype];
}

const char *weft_zarr_codec_name(weft_zarr_codec codec)
{
    return codec_names[codec];
}

/* ---- reading: a scan that goes back to values whose meaning others tell ------------------------------------------- */

typedef struct parse {
    weft_json json;
    weft_status status; /* of the first failure */
} parse;

static bool fail(parse *p, weft_status status, const char *format, const char *text)
{
    if (p->status == WEFT_OK) {
        p->status = status;
        p->json.failed = false; /* this message, where the scanner has none */
        weft_json_fail(&p->json, format, text);
    }
    return false;
}

/* The scanner has failed. */
static bool damaged(parse *p)
{
    if (p->status == WEFT_OK) {
        p->status = p->json.no_memory ? WEFT_ERR_NOMEM : WEFT_ERR_IO;
    }
    return false;
}

/* A member of an object: where its value begins; 0: there is none. */
typedef struct member {
    const char *name;
    size_t at;
} member;

/* Zarr's rule for members that a reader does not know. */
static bool may_be_ignored(parse *p)
{
    weft_json *json = &p->json;
    bool may = false;
    if (!weft_json_take(json, '{') || weft_json_take(json, '}')) {
        return false;
    }
    do {
        char *key = weft_json_string(json);
        bool asks = key != NULL && strcmp(key, "must_understand") == 0;
        free(key);
        if (!weft_json_expect(json, ':') || !(asks && weft_json_take_word(json, "false") ? (may = true) : weft_json_skip(json))) {
            return damaged(p);
        }
    } while (weft_json_take(json, ','));
    return weft_json_expect(json, '}') && may;
}

static bool scan_member(parse *p, int n, member members[], bool strict)
{
    weft_json *json = &p->json;
    char *key = weft_json_string(json);
    if (key == NULL || !weft_json_expect(json, ':')) {
        free(key);
        return damaged(p);
    }
    member *found = NULL;
    for (int i = 0; i < n; i++) {
        found = strcmp(members[i].name, key) == 0 ? &members[i] : found;
    }
    bool done = true;
    if (found != NULL && found->at != 0) {
        done = fail(p, WEFT_ERR_IO, "a second \"%.40s\"", key);
    } else if (found != NULL) {
        found->at = json->at;
    }
    if (done && found == NULL && strict) {
        done = may_be_ignored(p) || fail(p, WEFT_ERR_UNSUPPORTED, "\"%.40s\", which weft does not know", key);
    } else if (done) {
        done = weft_json_skip(json) || damaged(p);
    }
    free(key);
    return done;
}

/* All of an object. Strict: other members than these are an error, unless they say that they may be ignored. */
static bool scan_object(parse *p, int n, member members[], bool strict)
{
    weft_json *json = &p->json;
    if (!weft_json_expect(json, '{')) {
        return damaged(p);
    }
    if (weft_json_take(json, '}')) {
        return true;
    }
    do {
        if (!scan_member(p, n, members, strict)) {
            return false;
        }
    } while (weft_json_take(json, ','));
    return weft_json_expect(json, '}') || damaged(p);
}

static bool go_to(parse *p, const member *m)
{
    if (m->at == 0) {
        return fail(p, WEFT_ERR_IO, "there is no \"%s\"", m->name);
    }
    p->json.at = m->at;
    return true;
}

enum { MOST_WORD = 48 };

/* A short string. */
static bool scan_word(parse *p, char word[MOST_WORD])
{
    char *string = weft_json_string(&p->json);
    if (string == NULL) {
        return damaged(p);
    }
    weft_text text = weft_text_in(word, MOST_WORD);
    weft_text_add(&text, "%s", string);
    free(string);
    return true;
}

/* {"name": ..., "configuration": ...}, or the name alone. `configuration`: where it begins, or 0. */
static bool scan_named(parse *p, char name[MOST_WORD], size_t *configuration)
{
    *configuration = 0;
    if (weft_json_is_string(&p->json)) {
        return scan_word(p, name);
    }
    member members[] = { { "name", 0 }, { "configuration", 0 }, { "must_understand", 0 } };
    if (!scan_object(p, 3, members, false)) {
        return false;
    }
    const size_t end = p->json.at;
    bool done = go_to(p, &members[0]) && scan_word(p, name);
    p->json.at = end;
    *configuration = members[1].at;
    return done;
}

/* The members of a configuration, which may be missing; the scan stays where it is. */
static bool scan_configuration(parse *p, size_t configuration, int n, member members[])
{
    const size_t end = p->json.at;
    p->json.at = configuration;
    bool done = configuration == 0 || scan_object(p, n, members, false);
    p->json.at = end;
    return done;
}

/* A list of numbers, as many as there are dimensions; *ndim -1: any number of them, which it gets. */
static bool scan_sizes(parse *p, const member *m, int *ndim, int64_t sizes[], int64_t least)
{
    weft_json *json = &p->json;
    const size_t end = json->at;
    int count = 0;
    if (!go_to(p, m) || !(weft_json_expect(json, '[') || damaged(p))) {
        return false;
    }
    if (!weft_json_take(json, ']')) {
        do {
            if (count == WEFT_MAX_DIMS) {
                return fail(p, WEFT_ERR_UNSUPPORTED, "more than 8 dimensions in \"%s\"", m->name);
            }
            if (!weft_json_integer(json, &sizes[count])) {
                return damaged(p);
            }
            if (sizes[count++] < least) {
                return fail(p, WEFT_ERR_IO, "a number that is too small in \"%s\"", m->name);
            }
        } while (weft_json_take(json, ','));
        if (!weft_json_expect(json, ']')) {
            return damaged(p);
        }
    }
    if (*ndim >= 0 && count != *ndim) {
        return fail(p, WEFT_ERR_IO, "\"%s\" has not as many numbers as \"shape\"", m->name);
    }
    *ndim = count;
    json->at = end;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

/* A value as text. */
static bool scan_text(parse *p, char text[MOST_WORD])
{
    const size_t begin = p->json.at;
    if (!weft_json_skip(&p->json)) {
        return damaged(p);
    }
    const size_t length = p->json.at - begin;
    if (length >= MOST_WORD) {
        return fail(p, WEFT_ERR_IO, "%s is too long for a number", "\"fill_value\"");
    }
    memcpy(text, p->json.text + begin, length);
    text[length] = '\0';
    return true;
}

static weft_dtype part_of(weft_dtype dtype)
{
    return dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
}

static void put_float(weft_dtype dtype, const char *text, unsigned char out[])
{
    const double wide = strtod(text, NULL);
    const float narrow = strtof(text, NULL);
    const uint16_t half = dtype == WEFT_BF16 ? weft_f64_to_bf16(wide) : weft_f64_to_f16(wide);
    memcpy(out, dtype == WEFT_F64 ? (const void *)&wide : dtype == WEFT_F32 ? (const void *)&narrow : (const void *)&half,
           weft_dtype_size(dtype));
}

/* "0x7fc00000": the bits. */
static bool put_bits(const char *digits, size_t size, unsigned char out[])
{
    char *end;
    const unsigned long long bits = strtoull(digits, &end, 16);
    const bool right = strlen(digits) == 2 * size && *end == '\0' && digits[0] != '-' && digits[0] != '+';
    memcpy(out, &bits, size);
    return right;
}

static bool scan_float(parse *p, weft_dtype dtype, unsigned char out[])
{
    char text[MOST_WORD];
    if (!weft_json_is_string(&p->json)) {
        if (!scan_text(p, text)) {
            return false;
        }
        const char *first = text + strspn(text, " \t\r\n");
        put_float(dtype, first, out);
        return strchr("-0123456789", *first) != NULL || fail(p, WEFT_ERR_IO, "%.40s is no number", first);
    }
    if (!scan_word(p, text)) {
        return false;
    }
    if (strcmp(text, "NaN") == 0 || strcmp(text, "Infinity") == 0 || strcmp(text, "-Infinity") == 0) {
        put_float(dtype, text, out);
        return true;
    }
    const bool right = strncmp(text, "0x", 2) == 0 && put_bits(text + 2, weft_dtype_size(dtype), out);
    return right || fail(p, WEFT_ERR_IO, "\"%.40s\" is no number", text);
}

static bool scan_integer(parse *p, weft_dtype dtype, unsigned char out[])
{
    char text[MOST_WORD], *end;
    int64_t least;
    uint64_t most;
    if (!scan_text(p, text)) {
        return false;
    }
    weft_whole_range(dtype, &least, &most);
    const char *first = text + strspn(text, " \t\r\n");
    const bool negative = *first == '-';
    errno = 0;
    const uint64_t bits = negative ? (uint64_t)strtoll(first, &end, 10) : strtoull(first, &end, 10);
    const bool fits = errno == 0 && end != first && *end == '\0' && (negative ? (int64_t)bits >= least : bits <= most);
    memcpy(out, &bits, weft_dtype_size(dtype));
    return fits || fail(p, WEFT_ERR_IO, "\"fill_value\" is %.40s, which the type does not have", first);
}

static bool scan_fill(parse *p, weft_dtype dtype, unsigned char out[16])
{
    weft_json *json = &p->json;
    const weft_dtype part = part_of(dtype);
    const size_t size = weft_dtype_size(part);
    if (dtype == WEFT_BOOL) {
        out[0] = weft_json_take_word(json, "true");
        return out[0] == 1 || weft_json_take_word(json, "false") || fail(p, WEFT_ERR_IO, "\"%s\" is no truth value", "fill_value");
    }
    if (part != dtype) {
        return (weft_json_expect(json, '[') || damaged(p)) && scan_float(p, part, out) && (weft_json_expect(json, ',') || damaged(p)) &&
               scan_float(p, part, out + size) && (weft_json_expect(json, ']') || damaged(p));
    }
    int64_t least;
    uint64_t most;
    return weft_whole_range(dtype, &least, &most) ? scan_integer(p, dtype, out) : scan_float(p, dtype, out);
}

/* ---- codecs ------------------------------------------------------------------------------------------------------- */

static bool scan_order(parse *p, size_t configuration, int ndim, weft_zarr_chain *chain)
{
    member order = { "order", 0 };
    int64_t dims[WEFT_MAX_DIMS];
    if (!scan_configuration(p, configuration, 1, &order) || !scan_sizes(p, &order, &ndim, dims, 0)) {
        return false;
    }
    unsigned seen = 0;
    for (int d = 0; d < ndim; d++) {
        seen |= dims[d] < ndim ? 1u << dims[d] : 0;
        chain->order[d] = (int)dims[d];
    }
    return seen == (1u << ndim) - 1 || fail(p, WEFT_ERR_IO, "\"%s\" is no permutation", "order");
}

static bool scan_endian(parse *p, size_t configuration, size_t element, weft_zarr_chain *chain)
{
    member endian = { "endian", 0 };
    char word[MOST_WORD] = "little";
    const size_t end = p->json.at;
    if (!scan_configuration(p, configuration, 1, &endian)) {
        return false;
    }
    if (endian.at == 0 && element > 1) {
        return fail(p, WEFT_ERR_IO, "there is no \"%s\"", "endian");
    }
    if (endian.at != 0 && !(go_to(p, &endian) && scan_word(p, word))) {
        return false;
    }
    p->json.at = end;
    chain->big_endian = strcmp(word, "big") == 0;
    return chain->big_endian || strcmp(word, "little") == 0 || fail(p, WEFT_ERR_IO, "\"endian\" is \"%.40s\"", word);
}

static bool scan_level(parse *p, size_t configuration, weft_zarr_chain *chain)
{
    member level = { "level", 0 };
    int64_t number = 0;
    const size_t end = p->json.at;
    if (!scan_configuration(p, configuration, 1, &level)) {
        return false;
    }
    if (level.at != 0) {
        p->json.at = level.at;
        weft_json_take(&p->json, '-'); /* zstd's fast levels: reading needs none */
        if (!weft_json_integer(&p->json, &number)) {
            return damaged(p);
        }
    }
    p->json.at = end;
    chain->level = (int)(number > 22 ? 22 : number);
    return true;
}

/* A codec of bytes. */
static bool add_codec(parse *p, const char *name, size_t configuration, weft_zarr_chain *chain)
{
    for (int codec = 0; codec < (int)WEFT_ARRAY_SIZE(codec_names); codec++) {
        if (strcmp(name, codec_names[codec]) != 0) {
            continue;
        }
        for (int i = 0; i < chain->num_codecs && codec != WEFT_ZARR_CRC32C; i++) {
            if (chain->codecs[i] != WEFT_ZARR_CRC32C) {
                return fail(p, WEFT_ERR_UNSUPPORTED, "two codecs that compress, the second one \"%s\"", name);
            }
        }
        if (chain->num_codecs == WEFT_ZARR_MOST_CODECS) {
            return fail(p, WEFT_ERR_UNSUPPORTED, "a chain of more codecs than weft takes, at \"%s\"", name);
        }
        chain->codecs[chain->num_codecs++] = (weft_zarr_codec)codec;
        return codec == WEFT_ZARR_CRC32C || scan_level(p, configuration, chain);
    }
    return fail(p, WEFT_ERR_UNSUPPORTED, "the codec \"%.40s\", which weft does not have", name);
}

static bool scan_shards(parse *p, size_t configuration, weft_zarr_array *array);

/* The last kind of codec that a chain has had so far. */
typedef enum stage { OF_ARRAYS, ORDERED, OF_BYTES, OF_SHARDS } stage;

/* `array`: whose chunks may be in shards; NULL: of the inside of shards. */
static bool scan_codec(parse *p, int ndim, size_t element, weft_zarr_array *array, weft_zarr_chain *chain, stage *at)
{
    char name[MOST_WORD];
    size_t configuration;
    if (!scan_named(p, name, &configuration)) {
        return false;
    }
    if (strcmp(name, "transpose") == 0 && *at == OF_ARRAYS) {
        *at = ORDERED;
        return scan_order(p, configuration, ndim, chain);
    }
    if (strcmp(name, "bytes") == 0 && *at <= ORDERED) {
        *at = OF_BYTES;
        return scan_endian(p, configuration, element, chain);
    }
    if (strcmp(name, "sharding_indexed") == 0 && *at == OF_ARRAYS && array != NULL) {
        *at = OF_SHARDS;
        return scan_shards(p, configuration, array);
    }
    if (*at != OF_BYTES) {
        return fail(p, WEFT_ERR_UNSUPPORTED, "the codec \"%.40s\" at this place", name);
    }
    return add_codec(p, name, configuration, chain);
}

static bool scan_codecs(parse *p, const member *m, int ndim, size_t element, weft_zarr_array *array, weft_zarr_chain *chain)
{
    weft_json *json = &p->json;
    const size_t end = json->at;
    stage at = OF_ARRAYS;
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        chain->order[d] = d;
    }
    if (!go_to(p, m) || !(weft_json_expect(json, '[') || damaged(p))) {
        return false;
    }
    if (!weft_json_take(json, ']')) {
        do {
            if (!scan_codec(p, ndim, element, array, chain, &at)) {
                return false;
            }
        } while (weft_json_take(json, ','));
        if (!weft_json_expect(json, ']')) {
            return damaged(p);
        }
    }
    json->at = end;
    return at >= OF_BYTES || fail(p, WEFT_ERR_IO, "\"%s\" make no bytes of elements", m->name);
}

static bool scan_shards(parse *p, size_t configuration, weft_zarr_array *array)
{
    member members[] = { { "chunk_shape", 0 }, { "codecs", 0 }, { "index_codecs", 0 }, { "index_location", 0 } };
    char place[MOST_WORD] = "end";
    array->sharded = true;
    if (!scan_configuration(p, configuration, 4, members) || !scan_sizes(p, &members[0], &array->ndim, array->inner, 1) ||
        !scan_codecs(p, &members[1], array->ndim, weft_dtype_size(array->dtype), NULL, &array->chain) ||
        !scan_codecs(p, &members[2], 0, sizeof(uint64_t), NULL, &array->index_chain)) {
        return false;
    }
    for (int i = 0; i < array->index_chain.num_codecs; i++) {
        if (array->index_chain.codecs[i] != WEFT_ZARR_CRC32C) {
            return fail(p, WEFT_ERR_UNSUPPORTED, "an index that is compressed: \"%s\"", members[2].name);
        }
    }
    const size_t end = p->json.at;
    if (members[3].at != 0 && !(go_to(p, &members[3]) && scan_word(p, place))) {
        return false;
    }
    p->json.at = end;
    array->index_at_start = strcmp(place, "start") == 0;
    for (int d = 0; d < array->ndim; d++) {
        if (array->chunk[d] % array->inner[d] != 0) {
            return fail(p, WEFT_ERR_IO, "shards are not whole chunks: \"%s\"", members[0].name);
        }
    }
    return array->index_at_start || strcmp(place, "end") == 0 || fail(p, WEFT_ERR_IO, "\"index_location\" is \"%.40s\"", place);
}

/* ---- the array ---------------------------------------------------------------------------------------------------- */

enum { FORMAT, NODE, SHAPE, TYPE, GRID, KEYS, FILL, CODECS, TRANSFORMERS, ATTRIBUTES, NAMES, MEMBERS };

static bool scan_kind(parse *p, const member members[])
{
    int64_t format = 0;
    char node[MOST_WORD];
    if (!go_to(p, &members[FORMAT]) || !(weft_json_integer(&p->json, &format) || damaged(p))) {
        return false;
    }
    if (format != 3) {
        return fail(p, WEFT_ERR_UNSUPPORTED, "\"%s\" is not 3", "zarr_format");
    }
    return go_to(p, &members[NODE]) && scan_word(p, node) &&
           (strcmp(node, "array") == 0 || fail(p, WEFT_ERR_INVALID, "it is a %.40s, and no array", node));
}

static bool scan_type(parse *p, const member *m, weft_dtype *dtype)
{
    char name[MOST_WORD];
    size_t configuration;
    if (!go_to(p, m) || !scan_named(p, name, &configuration)) {
        return false;
    }
    for (int i = 0; i < (int)WEFT_ARRAY_SIZE(dtype_names); i++) {
        if (dtype_names[i] != NULL && strcmp(dtype_names[i], name) == 0) {
            *dtype = (weft_dtype)i;
            return true;
        }
    }
    return fail(p, WEFT_ERR_DTYPE, "it has the type \"%.40s\", which weft does not have", name);
}

static bool scan_grid(parse *p, const member *m, weft_zarr_array *array)
{
    char name[MOST_WORD];
    size_t configuration;
    member chunk = { "chunk_shape", 0 };
    if (!go_to(p, m) || !scan_named(p, name, &configuration)) {
        return false;
    }
    if (strcmp(name, "regular") != 0) {
        return fail(p, WEFT_ERR_UNSUPPORTED, "a grid of the kind \"%.40s\"", name);
    }
    return scan_configuration(p, configuration, 1, &chunk) && scan_sizes(p, &chunk, &array->ndim, array->chunk, 1);
}

static bool scan_keys(parse *p, const member *m, weft_zarr_array *array)
{
    char name[MOST_WORD], separator[MOST_WORD];
    size_t configuration;
    member chosen = { "separator", 0 };
    if (!go_to(p, m) || !scan_named(p, name, &configuration) || !scan_configuration(p, configuration, 1, &chosen)) {
        return false;
    }
    array->keys_of_v2 = strcmp(name, "v2") == 0;
    if (!array->keys_of_v2 && strcmp(name, "default") != 0) {
        return fail(p, WEFT_ERR_UNSUPPORTED, "keys of the kind \"%.40s\"", name);
    }
    array->separator = array->keys_of_v2 ? '.' : '/';
    if (chosen.at != 0) {
        if (!go_to(p, &chosen) || !scan_word(p, separator)) {
            return false;
        }
        array->separator = separator[0];
        return strcmp(separator, "/") == 0 || strcmp(separator, ".") == 0 || fail(p, WEFT_ERR_IO, "\"separator\" is \"%.40s\"", separator);
    }
    return true;
}

static bool scan_array(parse *p, weft_zarr_array *array)
{
    member members[] = { [FORMAT] = { "zarr_format", 0 },   [NODE] = { "node_type", 0 },
                         [SHAPE] = { "shape", 0 },          [TYPE] = { "data_type", 0 },
                         [GRID] = { "chunk_grid", 0 },      [KEYS] = { "chunk_key_encoding", 0 },
                         [FILL] = { "fill_value", 0 },      [CODECS] = { "codecs", 0 },
                         [TRANSFORMERS] = { "storage_transformers", 0 }, [ATTRIBUTES] = { "attributes", 0 },
                         [NAMES] = { "dimension_names", 0 } };
    array->ndim = -1;
    if (!scan_object(p, MEMBERS, members, false) || !(weft_json_end(&p->json) || damaged(p)) || !scan_kind(p, members)) {
        return false;
    }
    for (int i = 0; i < MEMBERS; i++) {
        members[i].at = 0;
    }
    p->json.at = 0;
    if (!scan_object(p, MEMBERS, members, true) || !scan_sizes(p, &members[SHAPE], &array->ndim, array->shape, 0) ||
        !scan_type(p, &members[TYPE], &array->dtype) || !scan_grid(p, &members[GRID], array) || !scan_keys(p, &members[KEYS], array)) {
        return false;
    }
    memcpy(array->inner, array->chunk, sizeof(array->inner));
    if (members[TRANSFORMERS].at != 0) {
        p->json.at = members[TRANSFORMERS].at;
        if (!weft_json_take(&p->json, '[') || !weft_json_take(&p->json, ']')) {
            return fail(p, WEFT_ERR_UNSUPPORTED, "\"%s\"", "storage_transformers");
        }
    }
    return scan_codecs(p, &members[CODECS], array->ndim, weft_dtype_size(array->dtype), array, &array->chain) && go_to(p, &members[FILL]) &&
           scan_fill(p, array->dtype, array->fill);
}

weft_status weft_zarr_parse(const char *text, size_t length, weft_zarr_array *array, char *why, size_t why_size)
{
    parse p = { .json = { .text = text, .of = "metadata", .length = length } };
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers with points */
    *array = (weft_zarr_array){ .ndim = 0 };
    if (plain == (locale_t)0) {
        weft_json_fail_memory(&p.json, "a locale");
        damaged(&p);
    } else {
        const locale_t former = uselocale(plain);
        scan_array(&p, array);
        uselocale(former);
        freelocale(plain);
    }
    weft_text reason = weft_text_in(why, why_size);
    weft_text_add(&reason, "%s", p.json.why);
    return p.status;
}
