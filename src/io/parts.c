#include "io/parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "io/reading.h"

/* The text, to be freed; NULL: no memory. */
static char *taken(weft_text *text)
{
    char *characters = text->failed ? NULL : text->characters;
    if (text->failed) {
        weft_text_free(text);
    }
    return characters;
}

char *weft_part_temporary(const char *path, int part)
{
    weft_text text = weft_text_growing();
    if (weft_is_index_path(path)) {
        weft_text_add(&text, "%s-%d.tmp", path, part + 1);
    } else {
        weft_text_add(&text, "%s.tmp", path);
    }
    return taken(&text);
}

#define NO_NAMES "%.150s: no memory for the names of files"

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* "model" of "folder/model.safetensors.index.json": where it begins, and its length. */
static const char *stem_of(const char *path, int *length)
{
    static const char endings[][16] = { ".index.json", ".safetensors" };
    const char *slash = strrchr(path, '/'), *begin = slash == NULL ? path : slash + 1;
    size_t left = strlen(begin);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(endings); i++) {
        size_t ends = strlen(endings[i]);
        left -= left > ends && memcmp(begin + left - ends, endings[i], ends) == 0 ? ends : 0;
    }
    *length = (int)left;
    return begin;
}

/* Try 0 has the names of Hugging Face. */
static char *name_of(const char *path, int try, int part, int count)
{
    int length;
    const char *stem = stem_of(path, &length);
    weft_text text = weft_text_growing();
    weft_text_add(&text, "%.*s-", length, stem);
    if (try > 0) {
        weft_text_add(&text, "%d-", try);
    }
    weft_text_add(&text, "%05d-of-%05d.safetensors", part + 1, count);
    return taken(&text);
}

static void free_names(int count, char *names[])
{
    for (int k = 0; k < count; k++) {
        free(names[k]);
        names[k] = NULL;
    }
}

/* Whether nothing in the folder has the name, nor the former index, whose file of this name may be lost. False with an outcome: no
 * memory. */
static bool is_free(const char *path, const char *name, const weft_file_index *former, weft_outcome *outcome)
{
    char *file = name == NULL ? NULL : weft_path_beside(path, name);
    bool taken = file != NULL && (weft_disk_is_taken(file) || weft_file_index_file(former, name) >= 0);
    if (file == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, NO_NAMES, path);
    }
    free(file);
    return file != NULL && !taken;
}

/* Names that are new in the folder, where other indexes may have files too. False with an outcome: no memory. */
static bool choose_names(const char *path, int count, const weft_file_index *former, char *names[], weft_outcome *outcome)
{
    int chosen = 0;
    for (int try = 0; chosen < count && outcome->status == WEFT_OK; try++) {
        free_names(count, names);
        bool all_free = true;
        for (chosen = 0; chosen < count && all_free; chosen += all_free) {
            names[chosen] = name_of(path, try, chosen, count);
            all_free = is_free(path, names[chosen], former, outcome);
        }
    }
    return outcome->status == WEFT_OK;
}

/* ---- the commit ------------------------------------------------------------------------------------------------------ */

/* *renamed, as weft_disk_rename() has it. */
static bool rename_beside(const char *path, const char *from, const char *name, bool *renamed, weft_outcome *outcome)
{
    char *to = weft_path_beside(path, name);
    *renamed = false;
    if (to == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, NO_NAMES, path);
        return false;
    }
    const char *failed = weft_disk_rename_new(from, to, renamed);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, to, failed);
    }
    free(to);
    return failed == NULL;
}

static void remove_beside(const char *path, const char *name)
{
    char *file = weft_path_beside(path, name);
    if (file != NULL) {
        weft_disk_remove(file);
    }
    free(file);
}

/* The steps of base/disk.h. */
static const char *write_index(const char *temporary, const weft_text *text)
{
    int file = -1;
    const char *failed = weft_disk_create_new(temporary, &file);
    if (failed == NULL) {
        failed = weft_disk_write(file, text->characters, (int64_t)text->length, 0);
        int reason = errno;
        const char *finished = weft_disk_finish(file);
        errno = failed != NULL ? reason : errno;
        failed = failed != NULL ? failed : finished;
    }
    return failed;
}

/* *replaced may be true with a failure, as weft_disk_rename() has it. */
static void replace_index(const char *path, const weft_text *text, bool *replaced, weft_outcome *outcome)
{
    weft_text temporary = weft_text_growing();
    weft_text_add(&temporary, "%s.tmp", path);
    *replaced = false;
    if (temporary.failed) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, NO_NAMES, path);
    } else {
        const char *failed = write_index(temporary.characters, text);
        failed = failed == NULL ? weft_disk_rename(temporary.characters, path, replaced) : failed;
        if (failed != NULL) {
            weft_outcome_fail_disk(outcome, path, failed);
            weft_disk_remove(temporary.characters);
        }
    }
    weft_text_free(&temporary);
}

/* Files of the former checkpoint that have names as weft gives them. */
static void remove_former(const char *path, const weft_file_index *former)
{
    int length;
    const char *stem = stem_of(path, &length);
    for (int i = 0; i < (int)former->files.count; i++) {
        const char *name = weft_file_index_name(former, i);
        if (strncmp(name, stem, (size_t)length) == 0 && name[length] == '-') {
            remove_beside(path, name);
        }
    }
}

/* The number of a name "INDEX-5.tmp" of weft_part_temporary(); 0: it is none. */
static long number_of(const char *index, const char *name)
{
    size_t length = strlen(index);
    if (strncmp(name, index, length) != 0 || name[length] != '-' || name[length + 1] < '1' || name[length + 1] > '9') {
        return 0;
    }
    char *end;
    long number = strtol(name + length + 1, &end, 10);
    return strcmp(end, ".tmp") == 0 ? number : 0;
}

/* Whether a file says that it is a part of this index, which does not name it: a save that was killed has left it. */
static bool is_orphan(const char *path, const char *index, const char *name, int count, char *const names[])
{
    int length;
    const char *stem = stem_of(path, &length);
    bool possible = strncmp(name, stem, (size_t)length) == 0 && name[length] == '-' && !weft_is_index_path(name);
    for (int k = 0; k < count && possible; k++) {
        possible = strcmp(name, names[k]) != 0;
    }
    char *file = possible ? weft_path_beside(path, name) : NULL;
    weft_sources sources = { .count = 0 };
    weft_outcome outcome = { .status = WEFT_OK };
    uint64_t digest;
    bool orphan = file != NULL && weft_sources_open(file, 0, NULL, &sources, &digest, &outcome) && sources.items[0].header.index != NULL &&
                  strcmp(sources.items[0].header.index, index) == 0;
    weft_sources_close(&sources);
    free(file);
    return orphan;
}

/* Removes files of saves that were killed: temporary ones beyond the last one of this save, and parts that no index names. */
static void remove_left(const char *path, int count, char *const names[])
{
    const char *slash = strrchr(path, '/'), *index = slash == NULL ? path : slash + 1;
    char *folder = weft_path_beside(path, ".");
    DIR *entries = folder == NULL ? NULL : opendir(folder);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (number_of(index, entry->d_name) > count || is_orphan(path, index, entry->d_name, count, names)) {
            remove_beside(path, entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    free(folder);
}

/* The index that stands there. A damaged one is no checkpoint, and nothing of it is kept; one that cannot be read may be whole: false
 * with an outcome. */
static bool read_former(const char *path, weft_file_index *former, weft_outcome *outcome)
{
    weft_outcome reading = { .status = WEFT_OK };
    uint64_t digest;
    bool damaged = false;
    if (access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return true;
    }
    if (!weft_read_index(path, former, &digest, &damaged, &reading) && !damaged) {
        *outcome = reading;
        return false;
    }
    return true;
}

/* The text of the index. False with an outcome. */
static bool make_index(const char *path, int count, const weft_file_header headers[], char *const names[], weft_text *text,
                       weft_outcome *outcome)
{
    weft_file_index_write(count, headers, (const char *const *)names, text);
    if (text->failed) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "%.150s: no memory for the index", path);
    } else if (text->length > WEFT_HEADER_LIMIT) {
        weft_outcome_fail(outcome, WEFT_ERR_INVALID, "%.150s: the index would have %zu bytes, and may have %d", path, text->length,
                          WEFT_HEADER_LIMIT);
    }
    return outcome->status == WEFT_OK;
}

/* The files get their names, and the index takes its place, or all of that is undone. */
static bool put_in_place(const char *path, int count, char *const temporaries[], char *const names[], const weft_text *text,
                         weft_outcome *outcome)
{
    int renamed = 0;
    bool done = true, replaced = false;
    while (renamed < count && done) {
        bool one;
        done = rename_beside(path, temporaries[renamed], names[renamed], &one, outcome);
        renamed += one;
    }
    if (done) {
        replace_index(path, text, &replaced, outcome);
    }
    for (int k = 0; k < renamed && !replaced; k++) {
        remove_beside(path, names[k]);
    }
    return outcome->status == WEFT_OK;
}

void weft_parts_commit(const char *path, int count, const weft_file_header headers[], char *const temporaries[],
                       weft_outcome *outcome)
{
    weft_file_index former = { .files = { 0 } };
    weft_text text = weft_text_growing();
    char **names = calloc((size_t)count, sizeof(*names));
    if (names == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, NO_NAMES, path);
        return;
    }
    if (read_former(path, &former, outcome) && choose_names(path, count, &former, names, outcome) &&
        make_index(path, count, headers, names, &text, outcome) && put_in_place(path, count, temporaries, names, &text, outcome)) {
        remove_former(path, &former);
        remove_left(path, count, names);
    }
    free_names(count, names);
    free(names);
    weft_text_free(&text);
    weft_file_index_free(&former);
}
