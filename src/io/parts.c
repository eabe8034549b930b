#include "io/parts.h"

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

/* Names that the former index does not have. False: no memory. */
static bool choose_names(const char *path, int count, const weft_file_index *former, char *names[])
{
    bool made = true, taken_before = true;
    for (int try = 0; made && taken_before; try++) {
        free_names(count, names);
        taken_before = false;
        for (int k = 0; k < count && made; k++) {
            names[k] = name_of(path, try, k, count);
            made = names[k] != NULL;
            taken_before |= made && weft_file_index_file(former, names[k]) >= 0;
        }
    }
    return made;
}

/* ---- the commit ------------------------------------------------------------------------------------------------------ */

static bool rename_beside(const char *path, const char *from, const char *name, weft_outcome *outcome)
{
    char *to = weft_path_beside(path, name);
    errno = ENOMEM;
    const char *failed = to == NULL ? "rename" : weft_disk_rename(from, to);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, to == NULL ? path : to, failed);
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

static bool replace_index(const char *path, int count, const weft_file_header headers[], char *const names[], weft_outcome *outcome)
{
    weft_text text, temporary = weft_text_growing();
    weft_text_add(&temporary, "%s.tmp", path);
    weft_file_index_write(count, headers, (const char *const *)names, &text);
    errno = ENOMEM;
    const char *failed = text.failed || temporary.failed ? "index" : write_index(temporary.characters, &text);
    failed = failed == NULL ? weft_disk_rename(temporary.characters, path) : failed;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
        if (!temporary.failed) {
            weft_disk_remove(temporary.characters);
        }
    }
    weft_text_free(&text);
    weft_text_free(&temporary);
    return failed == NULL;
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

void weft_parts_commit(const char *path, int count, const weft_file_header headers[], char *const temporaries[],
                       weft_outcome *outcome)
{
    weft_file_index former = { .files = { 0 } };
    weft_outcome none = { .status = WEFT_OK };
    uint64_t digest;
    char **names = calloc((size_t)count, sizeof(*names));
    if (access(path, F_OK) == 0) {
        weft_read_index(path, &former, &digest, &none); /* a damaged one is no checkpoint: nothing of it is kept */
    }
    bool done = names != NULL && choose_names(path, count, &former, names);
    if (!done) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "%.150s: no memory for the names of files", path);
    }
    int renamed = 0;
    while (renamed < count && done) {
        done = rename_beside(path, temporaries[renamed], names[renamed], outcome);
        renamed += done;
    }
    done = done && replace_index(path, count, headers, names, outcome);
    for (int k = 0; k < renamed && !done; k++) {
        remove_beside(path, names[k]);
    }
    if (done) {
        remove_former(path, &former);
    }
    if (names != NULL) {
        free_names(count, names);
    }
    free(names);
    weft_file_index_free(&former);
}
