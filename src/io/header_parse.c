/* The header of a file that may be anything. */
#include <stdlib.h>
#include <string.h>

#include "io/crc32c.h"
#include "io/header.h"
#include "io/json.h"

static const char METADATA[] = WEFT_METADATA_NAME, OWN[] = "weft.";
enum { CRC_DIGITS = WEFT_CRC_DIGITS, LENGTH_BYTES = WEFT_LENGTH_BYTES };

/* Bytes of an element, also of types that weft does not have; 0: unknown. */
static int64_t element_bytes(const char *name)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } others[] = { { "F8_E8M0", 1 } };
    weft_dtype type;
    if (weft_file_dtype_of(name, &type)) {
        return (int64_t)weft_dtype_size(type);
    }
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(others); i++) {
        if (strcmp(others[i].name, name) == 0) {
            return others[i].bytes;
        }
    }
    return 0;
}

/* ---- parsing: tensors ------------------------------------------------------------------------------------ */

static bool parse_shape(weft_json *json, weft_file_tensor *tensor, int64_t *count)
{
    *count = 1;
    tensor->ndim = 0;
    if (!weft_json_expect(json, '[')) {
        return false;
    }
    bool has_zero = false;
    while (!weft_json_take(json, ']')) {
        int64_t size;
        if ((tensor->ndim > 0 && !weft_json_expect(json, ',')) || !weft_json_integer(json, &size)) {
            return false;
        }
        if (tensor->ndim < WEFT_MAX_DIMS) {
            tensor->shape[tensor->ndim] = size;
        }
        tensor->ndim++;
        has_zero |= size == 0;
        if (!has_zero && !weft_mul_checked(*count, size, count)) {
            return weft_json_fail(json, "a shape of more than 2^63 elements");
        }
    }
    *count = has_zero ? 0 : *count;
    return true;
}

static bool parse_offsets(weft_json *json, weft_file_tensor *tensor)
{
    return weft_json_expect(json, '[') && weft_json_integer(json, &tensor->begin) && weft_json_expect(json, ',') &&
           weft_json_integer(json, &tensor->end) && weft_json_expect(json, ']');
}

static bool parse_dtype(weft_json *json, weft_file_tensor *tensor)
{
    char *name = weft_json_string(json);
    bool fits = name != NULL && strlen(name) > 0 && strlen(name) < sizeof(tensor->dtype);
    if (fits) {
        strcpy(tensor->dtype, name);
    } else {
        weft_json_fail(json, "the dtype is not the name of a type");
    }
    free(name);
    return fits;
}

/* One "key": value of a tensor; *seen: bits of the keys that have come. Other programs may add keys of their own. */
static bool parse_field(weft_json *json, weft_file_tensor *tensor, int64_t *count, unsigned *seen)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    char *key = weft_json_string(json);
    unsigned number = 0;
    while (key != NULL && number < 3 && strcmp(key, keys[number]) != 0) {
        number++;
    }
    bool right = key != NULL && (number == 3 || (*seen & 1U << number) == 0);
    if (key != NULL && !right) {
        weft_json_fail(json, "a second key \"%.40s\" of a tensor", key);
    }
    free(key);
    *seen |= right && number < 3 ? 1U << number : 0;
    return right && weft_json_expect(json, ':') &&
           (number == 0   ? parse_dtype(json, tensor)
            : number == 1 ? parse_shape(json, tensor, count)
            : number == 2 ? parse_offsets(json, tensor)
                          : weft_json_skip(json));
}

static bool check_size(weft_json *json, weft_file_tensor *tensor, int64_t count)
{
    int64_t element = element_bytes(tensor->dtype), bytes = 0;
    tensor->is_readable = tensor->ndim <= WEFT_MAX_DIMS && weft_file_dtype_of(tensor->dtype, &tensor->type);
    if (tensor->begin > tensor->end) {
        return weft_json_fail(json, "tensor \"%.60s\" ends before it begins", tensor->name);
    }
    bool known = element > 0;
    if (known && (!weft_mul_checked(count, element, &bytes) || bytes != tensor->end - tensor->begin)) {
        return weft_json_fail(json, "tensor \"%.60s\" has %lld bytes, which is not its size", tensor->name,
                              (long long)(tensor->end - tensor->begin));
    }
    return true;
}

/* Takes over the name. */
static bool parse_tensor(weft_json *json, weft_file_header *header, char *name)
{
    if (weft_file_find(header, name) != NULL) {
        weft_json_fail(json, "a second tensor \"%.60s\"", name);
        free(name);
        return false;
    }
    weft_file_tensor *tensor = weft_file_add_named(header, name);
    if (tensor == NULL) {
        return weft_json_fail_memory(json, "a tensor");
    }
    int64_t count = 0;
    unsigned seen = 0;
    bool done = weft_json_expect(json, '{');
    for (bool first = true; done && !weft_json_take(json, '}'); first = false) {
        done = (first || weft_json_expect(json, ',')) && parse_field(json, tensor, &count, &seen);
    }
    if (done && seen != 7) {
        return weft_json_fail(json, "tensor \"%.60s\" has no %s", tensor->name,
                              (seen & 1) == 0   ? "dtype"
                              : (seen & 2) == 0 ? "shape"
                                                : "data_offsets");
    }
    return done && check_size(json, tensor, count);
}

/* ---- parsing: metadata ----------------------------------------------------------------------------------- */

/* Weft's own entries; each NULL if it has not come. */
typedef struct own_entries {
    char *format, *header_crc, *data_crc, *index;
    size_t header_crc_at; /* of the value, in the text */
} own_entries;

static void free_own(own_entries *own)
{
    free(own->format);
    free(own->header_crc);
    free(own->data_crc);
    free(own->index);
}

/* Takes over both texts. */
static bool take_entry(weft_json *json, weft_file_header *header, own_entries *own, char *key, char *value)
{
    char **place = strcmp(key, WEFT_KEY_FORMAT) == 0       ? &own->format
                   : strcmp(key, WEFT_KEY_HEADER_CRC) == 0 ? &own->header_crc
                   : strcmp(key, WEFT_KEY_DATA_CRC) == 0   ? &own->data_crc
                   : strcmp(key, WEFT_KEY_INDEX) == 0      ? &own->index
                                                  : NULL;
    bool again = place != NULL ? *place != NULL : weft_file_metadata(header, key) != NULL;
    if (again) {
        weft_json_fail(json, "a second key \"%.60s\" of the metadata", key);
        free(value);
    } else if (place == &own->header_crc) {
        own->header_crc_at = json->at - strlen(value) - 1;
    }
    if (place == NULL && !again) {
        return weft_file_take_entry(header, key, value) || weft_json_fail_memory(json, "metadata");
    }
    free(key);
    if (!again) {
        *place = value;
    }
    return !again;
}

/* To be freed; NULL with an error. */
static char *metadata_value(weft_json *json, const char *key)
{
    if (!weft_json_is_string(json)) {
        weft_json_fail(json, "the value of \"%.60s\" in the metadata is not a string", key);
    }
    return weft_json_string(json);
}

static bool parse_metadata(weft_json *json, weft_file_header *header, own_entries *own)
{
    if (weft_json_take_word(json, "null")) { /* none, as some programs write it */
        return true;
    }
    bool done = weft_json_expect(json, '{');
    for (bool first = true; done && !weft_json_take(json, '}'); first = false) {
        char *key = first || weft_json_expect(json, ',') ? weft_json_string(json) : NULL;
        char *value = key != NULL && weft_json_expect(json, ':') ? metadata_value(json, key) : NULL;
        done = value != NULL;
        if (done) {
            done = take_entry(json, header, own, key, value);
        } else {
            free(key);
        }
    }
    return done;
}

static bool parse_object(weft_json *json, weft_file_header *header, own_entries *own)
{
    bool done = weft_json_expect(json, '{'), has_metadata = false;
    for (bool first = true; done && !weft_json_take(json, '}'); first = false) {
        char *name = first || weft_json_expect(json, ',') ? weft_json_string(json) : NULL;
        bool metadata = name != NULL && strcmp(name, METADATA) == 0;
        done = name != NULL && weft_json_expect(json, ':') &&
               (!metadata || !has_metadata || weft_json_fail(json, "a second __metadata__"));
        if (!done || metadata) {
            free(name);
        }
        if (done) {
            done = metadata ? parse_metadata(json, header, own) : parse_tensor(json, header, name);
        }
        has_metadata |= metadata;
    }
    return done && weft_json_end(json);
}

/* ---- parsing: the whole ---------------------------------------------------------------------------------- */

static bool refuse(char *why, size_t size, const char *format, ...) WEFT_PRINTF(3, 4);

static bool refuse(char *why, size_t size, const char *format, ...)
{
    weft_text text = weft_text_in(why, size);
    va_list arguments;
    va_start(arguments, format);
    weft_text_add_list(&text, format, arguments);
    va_end(arguments);
    return false;
}

static void by_offset(const weft_file_tensor *tensor, weft_file_sort_key *out)
{
    out->first = tensor->begin;
    out->second = tensor->end;
}

/* The tensors, which have been sorted, fill the data without gaps and overlaps. */
static bool check_offsets(const weft_file_header *header, char *why, size_t size)
{
    int64_t place = 0;
    for (size_t i = 0; i < header->tensors.count; i++) {
        const weft_file_tensor *tensor = &weft_file_tensors(header)[header->in_order[i]];
        if (tensor->begin != place) {
            return refuse(why, size, "tensor \"%.60s\" begins at byte %lld of the data, expected %lld", tensor->name,
                          (long long)tensor->begin, (long long)place);
        }
        place = tensor->end;
    }
    if (place != header->data_bytes) {
        return refuse(why, size, "the tensors end at byte %lld of the data, of which the file has %lld",
                      (long long)place, (long long)header->data_bytes);
    }
    return true;
}

static bool read_crc(const char *digits, uint32_t *crc)
{
    *crc = 0;
    for (int i = 0; i < CRC_DIGITS; i++) {
        const char *all = "0123456789abcdef", *found = digits[i] == '\0' ? NULL : strchr(all, digits[i]);
        if (found == NULL) {
            return false;
        }
        *crc = *crc << 4 | (uint32_t)(found - all);
    }
    return true;
}

static bool has_own_key(const weft_file_header *header)
{
    const weft_file_entry *entries = header->metadata.items;
    for (size_t i = 0; i < header->metadata.count; i++) {
        if (strncmp(entries[i].key, OWN, strlen(OWN)) == 0) {
            return true;
        }
    }
    return false;
}

static bool read_data_crcs(weft_file_header *header, const char *list)
{
    size_t count = header->tensors.count, width = CRC_DIGITS + 1;
    if (strlen(list) != (count == 0 ? 0 : count * width - 1)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        bool ends = i + 1 == count || list[i * width + CRC_DIGITS] == ' ';
        if (!ends || !read_crc(list + i * width, &weft_file_tensors(header)[header->in_order[i]].crc)) {
            return false;
        }
    }
    return true;
}

/* `bytes`: the length and the text. */
static bool check_checksums(weft_file_header *header, const own_entries *own, char *bytes, int64_t count, char *why,
                            size_t size)
{
    bool any = own->format != NULL || own->header_crc != NULL || own->data_crc != NULL || own->index != NULL || has_own_key(header);
    if (!any) {
        return true;
    }
    uint32_t wanted = 0;
    bool whole = own->format != NULL && own->header_crc != NULL && own->data_crc != NULL &&
                 strlen(own->header_crc) == CRC_DIGITS && read_crc(own->header_crc, &wanted);
    if (whole) {
        memset(bytes + LENGTH_BYTES + own->header_crc_at, '0', CRC_DIGITS);
    }
    if (!whole || weft_crc32c(0, bytes, (size_t)count) != wanted) {
        return refuse(why, size, "the header (bytes 0 to %lld) has another checksum than weft wrote: it is damaged, or "
                      "another program has written it and kept the metadata \"weft.\"", (long long)count);
    }
    if (strcmp(own->format, "1") != 0) {
        return refuse(why, size, "weft.format is \"%.20s\", expected \"1\"", own->format);
    }
    if (!read_data_crcs(header, own->data_crc)) {
        return refuse(why, size, "weft.crc32c has not one checksum for each tensor");
    }
    header->has_checksums = true;
    return true;
}

/* Pairs of F64 that the metadata call complex are WEFT_C128. False: no memory. */
static bool find_pairs(weft_file_header *header)
{
    for (size_t i = 0; i < header->tensors.count; i++) {
        weft_file_tensor *tensor = &weft_file_tensors(header)[i];
        bool pairs = tensor->is_readable && tensor->type == WEFT_F64 && tensor->ndim > 0 && tensor->shape[tensor->ndim - 1] == 2;
        char *key = pairs ? weft_file_pairs_key(tensor->name) : NULL;
        if (pairs && key == NULL) {
            return false;
        }
        if (pairs && weft_file_metadata(header, key) != NULL) {
            tensor->type = WEFT_C128;
            tensor->ndim--;
            strcpy(tensor->dtype, weft_file_dtype_name(WEFT_C128));
        }
        free(key);
    }
    return true;
}

bool weft_file_header_size(const unsigned char bytes[8], int64_t file_bytes, int64_t *size, char *why, size_t why_size)
{
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | bytes[i];
    }
    if (length > WEFT_HEADER_LIMIT) {
        return refuse(why, why_size, "the header would have %llu bytes, and may have %d: this is no safetensors file",
                      (unsigned long long)length, WEFT_HEADER_LIMIT);
    }
    if ((int64_t)length > file_bytes - LENGTH_BYTES) {
        return refuse(why, why_size, "the header would have %llu bytes, and the file has %lld",
                      (unsigned long long)length, (long long)file_bytes);
    }
    *size = (int64_t)length;
    return true;
}

static weft_status parse(weft_file_header *header, weft_json *json, own_entries *own, char *bytes, int64_t count, char *why,
                         size_t size)
{
    if (json->length == 0 || json->text[0] != '{') {
        refuse(why, size, "the header does not begin with '{': this is no safetensors file");
        return WEFT_ERR_IO;
    }
    if (!parse_object(json, header, own)) {
        refuse(why, size, "%s", json->why);
        return json->no_memory ? WEFT_ERR_NOMEM : WEFT_ERR_IO;
    }
    bool sorted = weft_file_sort(header, by_offset);
    if (sorted && (!check_offsets(header, why, size) || !check_checksums(header, own, bytes, count, why, size))) {
        return WEFT_ERR_IO;
    }
    if (!sorted || !find_pairs(header)) {
        refuse(why, size, "no memory for the tensors of the header");
        return WEFT_ERR_NOMEM;
    }
    return WEFT_OK;
}

weft_status weft_file_header_parse(weft_file_header *header, char *bytes, int64_t count, int64_t file_bytes, char *why,
                                   size_t why_size)
{
    weft_json json = { .text = bytes + LENGTH_BYTES, .length = (size_t)count - LENGTH_BYTES };
    own_entries own = { .format = NULL };
    header->data_begin = count;
    header->data_bytes = file_bytes - count;
    weft_status status = parse(header, &json, &own, bytes, count, why, why_size);
    header->index = own.index;
    own.index = NULL;
    free_own(&own);
    if (status != WEFT_OK) {
        weft_file_header_free(header);
    }
    return status;
}
