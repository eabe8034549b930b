#include "io/index.h"

#include <stdlib.h>
#include <string.h>

#include "io/json.h"

bool weft_is_index_path(const char *path)
{
    static const char ending[] = ".index.json";
    size_t length = strlen(path), ends = sizeof(ending) - 1;
    return length > ends && strcmp(path + length - ends, ending) == 0;
}

char *weft_path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1, length = strlen(name) + 1;
    char *beside = malloc(folder + length);
    if (beside != NULL) {
        memcpy(beside, path, folder);
        memcpy(beside + folder, name, length);
    }
    return beside;
}

/* ---- tables -------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *name)
{
    return weft_hash_bytes(name, strlen(name), 0);
}

int weft_file_index_find(const weft_file_index *index, const char *name)
{
    const weft_index_entry *entries = index->tensors.items;
    for (weft_map_slot *slot = weft_map_first(&index->by_name, hash_of(name)); slot != NULL;
         slot = weft_map_next(&index->by_name, slot)) {
        const weft_index_entry *found = &entries[(uintptr_t)slot->value - 1];
        if (strcmp(found->name, name) == 0) {
            return found->file;
        }
    }
    return -1;
}

int weft_file_index_file(const weft_file_index *index, const char *name)
{
    for (weft_map_slot *slot = weft_map_first(&index->by_file, hash_of(name)); slot != NULL;
         slot = weft_map_next(&index->by_file, slot)) {
        int number = (int)(uintptr_t)slot->value - 1;
        if (strcmp(weft_file_index_name(index, number), name) == 0) {
            return number;
        }
    }
    return -1;
}

void weft_file_index_free(weft_file_index *index)
{
    for (size_t i = 0; i < index->files.count; i++) {
        free(((char **)index->files.items)[i]);
    }
    for (size_t i = 0; i < index->tensors.count; i++) {
        free(((weft_index_entry *)index->tensors.items)[i].name);
    }
    weft_vec_free(&index->files);
    weft_vec_free(&index->tensors);
    weft_map_free(&index->by_name);
    weft_map_free(&index->by_file);
    *index = (weft_file_index){ .files = { 0 } };
}

/* ---- parsing ------------------------------------------------------------------------------------------------- */

/* The number of the file, which may be new; takes over the name. -1 with an error. */
static int file_number(weft_json *json, weft_file_index *index, char *name)
{
    bool is_plain = name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    int number = is_plain ? weft_file_index_file(index, name) : -1;
    if (!is_plain) {
        weft_json_fail(json, "\"%.60s\" is not the name of a file in the same folder", name);
    }
    char **place = is_plain && number < 0 ? weft_vec_push(&index->files, sizeof(*place)) : NULL;
    if (place != NULL) {
        *place = name; /* the index's from here on */
        if (weft_map_add(&index->by_file, hash_of(name), (void *)(uintptr_t)index->files.count)) {
            return (int)index->files.count - 1;
        }
    } else {
        free(name);
    }
    if (is_plain && number < 0) {
        weft_json_fail_memory(json, "the name of a file");
    }
    return number;
}

/* Takes over both texts. */
static bool add_tensor(weft_json *json, weft_file_index *index, char *name, char *file)
{
    if (weft_file_index_find(index, name) >= 0) {
        weft_json_fail(json, "a second tensor \"%.60s\"", name);
        free(name);
        free(file);
        return false;
    }
    int number = file_number(json, index, file);
    weft_index_entry *entry = number < 0 ? NULL : weft_vec_push(&index->tensors, sizeof(*entry));
    if (entry == NULL) {
        free(name);
        return number >= 0 && weft_json_fail_memory(json, "a tensor");
    }
    *entry = (weft_index_entry){ name, number };
    return weft_map_add(&index->by_name, hash_of(name), (void *)(uintptr_t)index->tensors.count) ||
           weft_json_fail_memory(json, "a tensor");
}

static bool parse_weight_map(weft_json *json, weft_file_index *index)
{
    bool done = weft_json_expect(json, '{');
    for (bool first = true; done && !weft_json_take(json, '}'); first = false) {
        char *name = first || weft_json_expect(json, ',') ? weft_json_string(json) : NULL;
        char *file = name != NULL && weft_json_expect(json, ':') ? weft_json_string(json) : NULL;
        done = file != NULL;
        if (done) {
            done = add_tensor(json, index, name, file);
        } else {
            free(name);
        }
    }
    return done;
}

/* Other keys are metadata, and whatever a program has added. */
static bool parse_index(weft_json *json, weft_file_index *index)
{
    bool done = weft_json_expect(json, '{'), has_map = false;
    for (bool first = true; done && !weft_json_take(json, '}'); first = false) {
        char *key = first || weft_json_expect(json, ',') ? weft_json_string(json) : NULL;
        bool is_map = key != NULL && strcmp(key, "weight_map") == 0;
        free(key);
        done = key != NULL && weft_json_expect(json, ':') &&
               (!is_map || !has_map || weft_json_fail(json, "a second weight_map")) &&
               (is_map ? parse_weight_map(json, index) : weft_json_skip(json));
        has_map |= is_map;
    }
    return done && weft_json_end(json) && (has_map || weft_json_fail(json, "no weight_map"));
}

weft_status weft_file_index_parse(weft_file_index *index, const char *text, size_t length, char *why, size_t why_size)
{
    weft_json json = { .text = text, .length = length, .of = "index" };
    if (parse_index(&json, index)) {
        return WEFT_OK;
    }
    snprintf(why, why_size, "%s", json.why);
    weft_file_index_free(index);
    return json.no_memory ? WEFT_ERR_NOMEM : WEFT_ERR_IO;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

void weft_file_index_write(int count, const weft_file_header headers[], const char *const files[], weft_text *text)
{
    long long total = 0;
    for (int k = 0; k < count; k++) {
        total += headers[k].data_bytes;
    }
    *text = weft_text_growing();
    weft_text_add(text, "{\n  \"metadata\": {\n    \"total_size\": %lld\n  },\n  \"weight_map\": {", total);
    bool first = true;
    for (int k = 0; k < count; k++) {
        for (size_t i = 0; i < headers[k].tensors.count; i++) {
            weft_text_add(text, "%s\n    ", first ? "" : ",");
            weft_json_add_string(text, weft_file_tensors(&headers[k])[i].name);
            weft_text_add(text, ": ");
            weft_json_add_string(text, files[k]);
            first = false;
        }
    }
    weft_text_add(text, "\n  }\n}\n");
}
