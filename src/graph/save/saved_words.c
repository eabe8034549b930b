/* Saved graphs as text: reading words, numbers and names. */
#include "graph/save/saved_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------------------------------- */

bool weft_reader_fail(weft_reader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!r->failed) {
        vsnprintf(r->why, sizeof(r->why), format, arguments);
    }
    va_end(arguments);
    r->failed = true;
    return false;
}

void *weft_reader_keep(weft_reader *r, size_t bytes)
{
    void *block = calloc(1, bytes + 1);
    void **place = block == NULL ? NULL : weft_vec_push(&r->saved->memory, sizeof(*place));
    if (place == NULL) {
        free(block);
        weft_reader_fail(r, "no memory");
        return NULL;
    }
    return *place = block;
}

void weft_reader_skip(weft_reader *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
}

/* Whether the line goes on with this word, after blanks; takes it. */
bool weft_reader_take(weft_reader *r, const char *word)
{
    weft_reader_skip(r);
    size_t length = strlen(word);
    bool found = strncmp(r->at, word, length) == 0;
    r->at += found ? length : 0;
    return found;
}

bool weft_reader_expect(weft_reader *r, const char *word)
{
    return weft_reader_take(r, word) || weft_reader_fail(r, "expected \"%s\" at \"%.40s\"", word, r->at);
}

bool weft_reader_expect_end(weft_reader *r)
{
    weft_reader_skip(r);
    return *r->at == '\0' || weft_reader_fail(r, "expected the end of the line at \"%.40s\"", r->at);
}

bool weft_reader_integer(weft_reader *r, int64_t least, int64_t most, int64_t *number)
{
    char *end;
    weft_reader_skip(r);
    errno = 0;
    long long read = strtoll(r->at, &end, 10);
    if (end == r->at || errno != 0 || read < least || read > most) {
        return weft_reader_fail(r, "expected a number from %lld to %lld at \"%.40s\"", (long long)least, (long long)most, r->at);
    }
    r->at = end;
    *number = read;
    return true;
}

bool weft_reader_int(weft_reader *r, int least, int most, int *number)
{
    int64_t read = 0;
    bool done = weft_reader_integer(r, least, most, &read);
    *number = (int)read;
    return done;
}

bool weft_reader_scalar(weft_reader *r, double *number)
{
    char *end;
    *number = strtod(r->at, &end);
    if (end == r->at) {
        return weft_reader_fail(r, "expected a number at \"%.40s\"", r->at);
    }
    r->at = end;
    return true;
}

size_t weft_word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* A copy; NULL: no memory. */
char *weft_reader_word(weft_reader *r, size_t length)
{
    char *word = weft_reader_keep(r, length);
    if (word != NULL) {
        memcpy(word, r->at, length);
        r->at += length;
    }
    return word;
}

/* As save.c quotes it. NULL: it is none. */
char *weft_reader_quoted(weft_reader *r)
{
    char *text = weft_reader_expect(r, "\"") ? weft_reader_keep(r, strlen(r->at)) : NULL;
    for (char *to = text; text != NULL; to++) {
        unsigned value;
        if (*r->at == '"') {
            r->at++;
            return text;
        }
        if (*r->at == '\0') {
            weft_reader_fail(r, "expected \" at the end");
            return NULL;
        }
        if (*r->at != '\\') {
            *to = *r->at++;
        } else if (r->at[1] == '"' || r->at[1] == '\\') {
            *to = r->at[1];
            r->at += 2;
        } else if ((r->at[1] == '0' || r->at[1] == '1') && r->at[2] != '\0' && sscanf(r->at + 1, "%2x", &value) == 1 && value > 0) {
            *to = (char)value;
            r->at += 3;
        } else {
            weft_reader_fail(r, "expected \\\", \\\\ or two digits at \"%.40s\"", r->at);
            return NULL;
        }
    }
    return NULL;
}

/* ---- meshes and layouts ---------------------------------------------------------------------------------- */

static bool read_mesh_dim(weft_reader *r, weft_saved_mesh *mesh)
{
    weft_reader_skip(r);
    int d = mesh->ndim++;
    if (*r->at == '"') {
        mesh->names[d] = weft_reader_quoted(r);
    }
    if (r->failed || !weft_reader_integer(r, 1, WEFT_MAX_SAVED_NUMBERS, &mesh->shape[d])) {
        return false;
    }
    mesh->num_ranks *= mesh->shape[d];
    return mesh->num_ranks <= WEFT_MAX_SAVED_NUMBERS || weft_reader_fail(r, "the mesh has more than %d ranks", WEFT_MAX_SAVED_NUMBERS);
}

static bool read_ranks(weft_reader *r, weft_saved_mesh *mesh)
{
    mesh->ranks = weft_reader_keep(r, (size_t)mesh->num_ranks * sizeof(int));
    for (int64_t i = 0; i < mesh->num_ranks && !r->failed; i++) {
        if (i == 0 || weft_reader_expect(r, ",")) {
            weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &mesh->ranks[i]);
        }
    }
    return !r->failed;
}

void weft_reader_mesh(weft_reader *r)
{
    weft_saved_mesh mesh = { .line = r->line, .num_ranks = 1 };
    int number = 0;
    if (!weft_reader_expect(r, "m") || !weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &number) || !weft_reader_expect(r, "(")) {
        return;
    }
    if ((size_t)number != r->saved->meshes.count) {
        weft_reader_fail(r, "the mesh's number is %d, expected %zu", number, r->saved->meshes.count);
        return;
    }
    do {
        if (mesh.ndim == WEFT_MAX_DIMS) {
            weft_reader_fail(r, "the mesh has more than %d dimensions", WEFT_MAX_DIMS);
        }
    } while (!r->failed && read_mesh_dim(r, &mesh) && weft_reader_take(r, ","));
    if (!r->failed && weft_reader_expect(r, ")") && (!weft_reader_take(r, "ranks") || read_ranks(r, &mesh)) && weft_reader_expect_end(r)) {
        weft_saved_mesh *place = weft_vec_push(&r->saved->meshes, sizeof(mesh));
        if (place == NULL) {
            weft_reader_fail(r, "no memory");
        } else {
            *place = mesh;
        }
    }
}

static bool read_dtype(weft_reader *r, weft_dtype *dtype)
{
    weft_reader_skip(r);
    size_t length = weft_word_length(r->at);
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        const char *name = weft_dtype_name((weft_dtype)i);
        if (strlen(name) == length && strncmp(name, r->at, length) == 0) {
            *dtype = (weft_dtype)i;
            r->at += length;
            return true;
        }
    }
    return weft_reader_fail(r, "expected an element type at \"%.40s\"", r->at);
}

static bool read_shape(weft_reader *r, weft_saved_layout *layout)
{
    if (!weft_reader_expect(r, "[") || weft_reader_take(r, "]")) {
        return !r->failed;
    }
    do {
        if (layout->ndim == WEFT_MAX_DIMS) {
            return weft_reader_fail(r, "the tensor has more than %d dimensions", WEFT_MAX_DIMS);
        }
    } while (weft_reader_integer(r, 0, INT64_MAX, &layout->shape[layout->ndim++]) && weft_reader_take(r, ","));
    char why[120];
    if (r->failed || !weft_reader_expect(r, "]")) {
        return false;
    }
    return weft_shape_check(layout->ndim, layout->shape, why, sizeof(why)) == WEFT_OK || weft_reader_fail(r, "%s", why);
}

/* The text between brackets, for as many dimensions as the mesh has. */
static bool read_placements(weft_reader *r, const char *text, size_t length, int mesh_ndim, weft_saved_layout *layout)
{
    char *copy = malloc(length + 1), why[200] = "no memory for placements";
    weft_placement read[WEFT_MAX_DIMS];
    bool done = copy != NULL;
    if (done) {
        memcpy(copy, text, length);
        copy[length] = '\0';
        done = weft_placements_read(copy, mesh_ndim, read, why, sizeof(why)) == WEFT_OK &&
               weft_placements_normalize(read, mesh_ndim, layout->ndim, layout->placements, why, sizeof(why)) == WEFT_OK;
        free(copy);
    }
    return done || weft_reader_fail(r, "%s", why);
}

bool weft_reader_layout(weft_reader *r, weft_saved_layout *layout)
{
    *layout = (weft_saved_layout){ .mesh = 0 };
    if (!read_dtype(r, &layout->dtype) || !read_shape(r, layout) || !weft_reader_expect(r, "[")) {
        return false;
    }
    const char *placements = r->at;
    size_t length = strcspn(r->at, "]");
    r->at += length;
    if (!weft_reader_expect(r, "]") || !weft_reader_expect(r, "on") || !weft_reader_expect(r, "m") ||
        !weft_reader_int(r, 0, (int)r->saved->meshes.count - 1, &layout->mesh)) {
        return false;
    }
    const weft_saved_mesh *mesh = (const weft_saved_mesh *)r->saved->meshes.items + layout->mesh;
    return read_placements(r, placements, length, mesh->ndim, layout);
}
