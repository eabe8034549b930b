#include "io/header.h"

#include <stdlib.h>
#include <string.h>

#include "io/crc32c.h"
#include "io/json.h"

static const char METADATA[] = WEFT_METADATA_NAME;
enum { CRC_DIGITS = WEFT_CRC_DIGITS, LENGTH_BYTES = WEFT_LENGTH_BYTES };

/* ---- element types -------------------------------------------------------------------------------------- */

static const char *const dtype_names[WEFT_DTYPE_COUNT] = {
    [WEFT_F64] = "F64", [WEFT_F32] = "F32", [WEFT_BF16] = "BF16", [WEFT_F16] = "F16",
    [WEFT_I64] = "I64", [WEFT_I32] = "I32", [WEFT_U8] = "U8",     [WEFT_BOOL] = "BOOL",
    [WEFT_C64] = "C64", [WEFT_C128] = "C128", [WEFT_I8] = "I8", [WEFT_I16] = "I16", [WEFT_U16] = "U16",
    [WEFT_U32] = "U32", [WEFT_U64] = "U64", [WEFT_F8_E4M3] = "F8_E4M3", [WEFT_F8_E5M2] = "F8_E5M2",
};

const char *weft_file_dtype_name(weft_dtype type)
{
    return dtype_names[type];
}

bool weft_file_dtype_of(const char *name, weft_dtype *type)
{
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        if (strcmp(dtype_names[i], name) == 0) {
            *type = (weft_dtype)i;
            return true;
        }
    }
    return false;
}

/* ---- tables ---------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    return weft_hash_bytes(name, strlen(name), 0);
}

const weft_file_tensor *weft_file_find(const weft_file_header *header, const char *name)
{
    const weft_file_tensor *tensors = header->tensors.items;
    for (weft_map_slot *slot = weft_map_first(&header->by_name, hash_of(name)); slot != NULL;
         slot = weft_map_next(&header->by_name, slot)) {
        const weft_file_tensor *found = &tensors[(uintptr_t)slot->value - 1];
        if (strcmp(found->name, name) == 0) {
            return found;
        }
    }
    return NULL;
}

const char *weft_file_metadata(const weft_file_header *header, const char *key)
{
    const weft_file_entry *entries = header->metadata.items;
    for (weft_map_slot *slot = weft_map_first(&header->by_key, hash_of(key)); slot != NULL;
         slot = weft_map_next(&header->by_key, slot)) {
        const weft_file_entry *found = &entries[(uintptr_t)slot->value - 1];
        if (strcmp(found->key, key) == 0) {
            return found->value;
        }
    }
    return NULL;
}

void weft_file_header_free(weft_file_header *header)
{
    weft_file_tensor *tensors = header->tensors.items;
    for (size_t i = 0; i < header->tensors.count; i++) {
        free(tensors[i].name);
    }
    weft_file_entry *entries = header->metadata.items;
    for (size_t i = 0; i < header->metadata.count; i++) {
        free(entries[i].key);
        free(entries[i].value);
    }
    weft_vec_free(&header->tensors);
    weft_vec_free(&header->metadata);
    weft_map_free(&header->by_name);
    weft_map_free(&header->by_key);
    free(header->in_order);
    free(header->index);
    *header = (weft_file_header){ .data_bytes = 0 };
}

weft_file_tensor *weft_file_add_named(weft_file_header *header, char *name)
{
    weft_file_tensor *tensor = name == NULL ? NULL : weft_vec_push(&header->tensors, sizeof(*tensor));
    if (tensor == NULL) {
        free(name);
        return NULL;
    }
    tensor->name = name;
    void *number = (void *)(uintptr_t)header->tensors.count;
    return weft_map_add(&header->by_name, hash_of(name), number) ? tensor : NULL;
}

bool weft_file_take_entry(weft_file_header *header, char *key, char *value)
{
    weft_file_entry *entry =
        key == NULL || value == NULL ? NULL : weft_vec_push(&header->metadata, sizeof(*entry));
    if (entry == NULL) {
        free(key);
        free(value);
        return false;
    }
    *entry = (weft_file_entry){ key, value };
    return weft_map_add(&header->by_key, hash_of(key), (void *)(uintptr_t)header->metadata.count);
}

static int compare_placed(const void *a, const void *b)
{
    const weft_file_sort_key *x = a, *y = b;
    int64_t order[] = { x->first - y->first, x->second - y->second, x->index - y->index };
    int i = order[0] != 0 ? 0 : order[1] != 0 ? 1 : 2;
    return order[i] < 0 ? -1 : order[i] > 0;
}

bool weft_file_sort(weft_file_header *header, void (*keys)(const weft_file_tensor *tensor, weft_file_sort_key *out))
{
    size_t count = header->tensors.count;
    weft_file_sort_key *all = malloc((count + 1) * sizeof(*all));
    free(header->in_order);
    header->in_order = malloc((count + 1) * sizeof(*header->in_order));
    bool done = all != NULL && header->in_order != NULL;
    for (size_t i = 0; i < count && done; i++) {
        keys(&weft_file_tensors(header)[i], &all[i]);
        all[i].index = (int)i;
    }
    if (done) {
        qsort(all, count, sizeof(*all), compare_placed);
    }
    for (size_t i = 0; i < count && done; i++) {
        header->in_order[i] = all[i].index;
    }
    free(all);
    return done;
}

/* ---- writing --------------------------------------------------------------------------------------------- */

bool weft_file_add_tensor(weft_file_header *header, const char *name, weft_dtype type, int ndim, const int64_t shape[])
{
    weft_file_tensor *tensor = weft_file_add_named(header, strdup(name));
    if (tensor == NULL) {
        return false;
    }
    strncpy(tensor->dtype, dtype_names[type], sizeof(tensor->dtype) - 1);
    tensor->is_readable = true;
    tensor->type = type;
    tensor->ndim = ndim;
    memcpy(tensor->shape, shape, (size_t)ndim * sizeof(shape[0]));
    return true;
}

char *weft_file_pairs_key(const char *name)
{
    char *key = malloc(sizeof(WEFT_KEY_PAIRS) + strlen(name));
    return key == NULL ? NULL : strcat(strcpy(key, WEFT_KEY_PAIRS), name);
}

bool weft_file_add_pairs(weft_file_header *header, const char *name)
{
    return weft_file_take_entry(header, weft_file_pairs_key(name), strdup("complex: real and imaginary part"));
}

bool weft_file_add_entry(weft_file_header *header, const char *key, const char *value)
{
    return weft_file_take_entry(header, strdup(key), strdup(value));
}

static void by_alignment(const weft_file_tensor *tensor, weft_file_sort_key *out)
{
    out->first = 16 - (int64_t)weft_dtype_size(tensor->type);
    out->second = 0;
}

bool weft_file_place_tensors(weft_file_header *header)
{
    if (!weft_file_sort(header, by_alignment)) {
        return false;
    }
    int64_t place = 0;
    for (size_t i = 0; i < header->tensors.count; i++) {
        weft_file_tensor *tensor = &weft_file_tensors(header)[header->in_order[i]];
        int64_t bytes = 0;
        tensor->begin = place;
        if (!weft_count_checked(tensor->ndim, tensor->shape, &bytes) ||
            !weft_mul_checked(bytes, (int64_t)weft_dtype_size(tensor->type), &bytes) ||
            !weft_add_checked(place, bytes, &place)) {
            return false;
        }
        tensor->end = place;
    }
    header->data_bytes = place;
    return true;
}

static void add_own_entries(const weft_file_header *header, weft_text *text)
{
    weft_text_add(text, "\"%s\":\"1\",\"%s\":\"00000000\",\"%s\":\"", WEFT_KEY_FORMAT, WEFT_KEY_HEADER_CRC,
                  WEFT_KEY_DATA_CRC);
    for (size_t i = 0; i < header->tensors.count; i++) {
        weft_text_add(text, "%s%08x", i == 0 ? "" : " ", weft_file_tensors(header)[header->in_order[i]].crc);
    }
    weft_text_add(text, "\"");
    if (header->index != NULL) {
        weft_text_add(text, ",\"%s\":", WEFT_KEY_INDEX);
        weft_json_add_string(text, header->index);
    }
}

/* safetensors has no type for pairs of F64: these are numbers of type F64, with one more dimension. */
static void add_tensor(const weft_file_tensor *tensor, weft_text *text)
{
    bool pairs = tensor->type == WEFT_C128;
    weft_text_add(text, ",");
    weft_json_add_string(text, tensor->name);
    weft_text_add(text, ":{\"dtype\":\"%s\",\"shape\":[", pairs ? dtype_names[WEFT_F64] : tensor->dtype);
    weft_text_add_sizes(text, tensor->ndim, tensor->shape, ",");
    weft_text_add(text, "%s", !pairs ? "" : tensor->ndim == 0 ? "2" : ",2");
    weft_text_add(text, "],\"data_offsets\":[%lld,%lld]}", (long long)tensor->begin, (long long)tensor->end);
}

static void put_length(int64_t length, char bytes[LENGTH_BYTES])
{
    for (int i = 0; i < LENGTH_BYTES; i++) {
        bytes[i] = (char)((uint64_t)length >> 8 * i & 0xff);
    }
}

bool weft_file_header_write(weft_file_header *header, weft_text *text)
{
    *text = weft_text_growing();
    weft_text_add(text, "%*s{\"%s\":{", LENGTH_BYTES, "", METADATA);
    add_own_entries(header, text);
    const weft_file_entry *entries = header->metadata.items;
    for (size_t i = 0; i < header->metadata.count; i++) {
        weft_text_add(text, ",");
        weft_json_add_string(text, entries[i].key);
        weft_text_add(text, ":");
        weft_json_add_string(text, entries[i].value);
    }
    weft_text_add(text, "}");
    for (size_t i = 0; i < header->tensors.count; i++) {
        add_tensor(&weft_file_tensors(header)[i], text);
    }
    weft_text_add(text, "}");
    weft_text_add(text, "%*s", (int)(7 - (text->length + 7) % 8), ""); /* the data are aligned */
    if (text->failed || text->length > WEFT_HEADER_LIMIT) {
        return false;
    }
    header->data_begin = (int64_t)text->length;
    put_length(header->data_begin - LENGTH_BYTES, text->characters);
    char digits[CRC_DIGITS + 1];
    snprintf(digits, sizeof(digits), "%08x", weft_crc32c(0, text->characters, text->length));
    char *place = text->characters + LENGTH_BYTES;
    memcpy(strstr(place, WEFT_KEY_HEADER_CRC) + strlen(WEFT_KEY_HEADER_CRC) + strlen("\":\""), digits, CRC_DIGITS);
    return true;
}
