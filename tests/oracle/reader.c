#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* ---- text ---------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *path;
    int line;
    char *next; /* what is left of the line */
} reader;

static void expect(const reader *r, bool holds, const char *what)
{
    if (!holds) {
        fail_msg("%s:%d: expected %s before \"%.40s\"", r->path, r->line, what, r->next);
    }
}

/* Cuts the next word off; NULL at the end of the line. */
static char *next_word(reader *r)
{
    while (*r->next == ' ') {
        r->next++;
    }
    if (*r->next == '\0') {
        return NULL;
    }
    char *word = r->next;
    r->next += strcspn(r->next, " ");
    if (*r->next != '\0') {
        *r->next++ = '\0';
    }
    return word;
}

/* Cuts a text in two at `mark`; the second part, or NULL where there is no mark. */
static char *cut(char *text, char mark)
{
    char *at = strchr(text, mark);
    if (at != NULL) {
        *at++ = '\0';
    }
    return at;
}

/* "2,3" or "2x3" or "" */
static int read_numbers(const reader *r, const char *text, char mark, int limit, int64_t numbers[])
{
    int count = 0;
    for (char *end; *text != '\0'; text = *end == mark ? end + 1 : end) {
        expect(r, count < limit, "fewer numbers");
        numbers[count++] = strtoll(text, &end, 10);
        expect(r, end != text && (*end == '\0' || *end == mark), "numbers");
    }
    return count;
}

static weft_dtype type_named(const reader *r, const char *name)
{
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++) {
        if (strcmp(name, weft_dtype_name((weft_dtype)t)) == 0) {
            return (weft_dtype)t;
        }
    }
    fail_msg("%s:%d: \"%s\" is no element type", r->path, r->line, name);
    return WEFT_F32;
}

/* "f32[2,3]" */
static void read_shape(const reader *r, char *text, weft_dtype *dtype, int *ndim, int64_t shape[],
                       int64_t *count)
{
    char *sizes = cut(text, '[');
    expect(r, sizes != NULL && cut(sizes, ']') != NULL, "type[shape]");
    *dtype = type_named(r, text);
    *ndim = read_numbers(r, sizes, ',', WEFT_MAX_DIMS, shape);
    *count = shape_count(*ndim, shape);
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* "3f8" is 3f800000 of f32. */
static void read_element(const reader *r, const char *text, weft_dtype dtype, void *elements, int64_t i)
{
    char *end;
    if (!oracle_is_floating(dtype)) {
        oracle_store_whole(dtype, elements, i, strtoll(text, &end, 10));
        expect(r, *end == '\0', "a whole number");
        return;
    }
    if (strcmp(text, "nan") == 0) {
        oracle_store_real(dtype, elements, i, NAN);
        return;
    }
    size_t digits = 2 * weft_dtype_size(dtype), length = strlen(text);
    uint64_t bits = strtoull(text, &end, 16);
    expect(r, *end == '\0' && length > 0 && length <= digits, "hexadecimal digits");
    bits <<= 4 * (digits - length);
    uint32_t bits_32 = (uint32_t)bits;
    uint16_t bits_16 = (uint16_t)bits;
    const void *source = digits == 16 ? (void *)&bits : digits == 8 ? (void *)&bits_32 : (void *)&bits_16;
    memcpy((char *)elements + (size_t)i * digits / 2, source, digits / 2);
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

/* "-240:240/64*!" */
static void read_domain(const reader *r, const char *text, oracle_input *input)
{
    char *end;
    input->low = strtoll(text, &end, 10);
    expect(r, *end == ':', "low:high");
    input->high = strtoll(end + 1, &end, 10);
    input->denominator = *end == '/' ? strtoll(end + 1, &end, 10) : 1;
    for (; *end != '\0'; end++) {
        expect(r, *end == '*' || *end == '!', "* or !");
        input->special |= *end == '*';
        input->distinct |= *end == '!';
    }
}

static const char *usual_domain(weft_dtype dtype)
{
    return oracle_is_floating(dtype) ? "-240:240/64"
           : dtype == WEFT_BOOL      ? "0:1"
           : dtype == WEFT_U8        ? "0:9"
                                     : "-9:9";
}

/* "3f8,0,bf8" */
static void *read_literal(const reader *r, char *text, weft_dtype dtype, int64_t count)
{
    void *elements = calloc((size_t)count + 1, 8);
    for (int64_t i = 0; i < count; i++) {
        expect(r, text != NULL, "more elements");
        char *rest = cut(text, ',');
        read_element(r, text, dtype, elements, i);
        text = rest;
    }
    return elements;
}

/* "f32[2,3]@S0,R~1f", "f32[2,3]@S0,R~1f~-240:240/4", "f32[2]@S0,R=3f8,0", or "-" */
static oracle_input read_input(const reader *r, char *word, int mesh_ndim)
{
    oracle_input input = { .denominator = 1, .absent = strcmp(word, "-") == 0 };
    if (input.absent) {
        return input;
    }
    char *placements = cut(word, '@');
    expect(r, placements != NULL, "@placements");
    char *literal = cut(placements, '='), *seed = cut(placements, '~');
    expect(r, (seed != NULL) != (literal != NULL), "~seed or =elements");
    read_shape(r, word, &input.dtype, &input.ndim, input.shape, &input.count);
    expect(r, weft_placements_parse(placements, mesh_ndim, input.placements) == WEFT_OK, "placements");
    if (literal != NULL) {
        input.literal = read_literal(r, literal, input.dtype, input.count);
        return input;
    }
    char *domain = cut(seed, '~');
    input.seed = strtoull(seed, NULL, 16);
    read_domain(r, domain != NULL ? domain : usual_domain(input.dtype), &input);
    return input;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

/* Up to ";" or the end of the line. True: another output follows. */
static bool read_elements(reader *r, oracle_output *output)
{
    output->elements = calloc((size_t)output->count + 1, 8);
    int64_t filled = 0;
    char *word;
    while ((word = next_word(r)) != NULL && strcmp(word, ";") != 0) {
        char *times = cut(word, '*');
        int64_t repeat = times == NULL ? 1 : strtoll(times, NULL, 10);
        for (int64_t i = 0; i < repeat; i++) {
            expect(r, filled < output->count, "fewer elements");
            read_element(r, word, output->dtype, output->elements, filled++);
        }
    }
    expect(r, filled == output->count, "more elements");
    return word != NULL;
}

/* "f32[2,3]@S0,R^1.5 = ...", a gradient "f32[2,3]^1.5 = ...", or "-" */
static bool read_output(reader *r, oracle_output *output)
{
    char *word = next_word(r);
    expect(r, word != NULL, "an output");
    output->absent = strcmp(word, "-") == 0;
    if (output->absent) {
        word = next_word(r);
        expect(r, word == NULL || strcmp(word, ";") == 0, ";");
        return word != NULL;
    }
    char *magnitude = cut(word, '^');
    output->torch = cut(word, '@');
    output->magnitude = magnitude == NULL ? 0 : strtod(magnitude, NULL);
    read_shape(r, word, &output->dtype, &output->ndim, output->shape, &output->count);
    word = next_word(r);
    expect(r, word != NULL && strcmp(word, "=") == 0, "=");
    return read_elements(r, output);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void add_input(const reader *r, oracle_case *c, char *word, int section)
{
    int *const counts[] = { &c->num_inputs, &c->num_seeds, &c->num_directions };
    oracle_input *const lists[] = { c->inputs, c->seeds, c->directions };
    static const int limits[] = { ORACLE_INPUTS, ORACLE_OUTPUTS, ORACLE_INPUTS };
    expect(r, section < 3 && *counts[section] < limits[section], "fewer inputs");
    lists[section][(*counts[section])++] = read_input(r, word, c->mesh_ndim);
}

static void read_case(reader *r, oracle_case *c)
{
    int section = 0;
    c->line = r->line;
    c->operation = next_word(r);
    char *word = next_word(r);
    expect(r, word != NULL, "a mesh");
    c->mesh_ndim = read_numbers(r, word, 'x', ORACLE_MESH_DIMS, c->mesh_shape);
    while ((word = next_word(r)) != NULL && strcmp(word, "->") != 0) {
        if (strcmp(word, "|") == 0) {
            section++;
            continue;
        }
        char *value = strchr(word, '@') == NULL ? cut(word, '=') : NULL;
        if (value != NULL) {
            expect(r, c->num_attributes < ORACLE_ATTRIBUTES, "fewer attributes");
            c->attributes[c->num_attributes].name = word;
            c->attributes[c->num_attributes++].value = value;
        } else {
            add_input(r, c, word, section);
        }
    }
    expect(r, word != NULL, "->");
    bool more = true;
    while (more) {
        expect(r, c->num_outputs < ORACLE_OUTPUTS, "fewer outputs");
        more = read_output(r, &c->outputs[c->num_outputs++]);
    }
}

/* The whole file as a text of its own. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    size_t read = fread(text, 1, (size_t)size, file);
    fclose(file);
    text[read] = '\0';
    return text;
}

static int count_lines(const char *text)
{
    int lines = 1;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

oracle_file oracle_read(const char *folder, const char *name)
{
    oracle_file file = { .path = malloc(strlen(folder) + strlen(name) + 2) };
    sprintf(file.path, "%s/%s", folder, name);
    file.text = read_text(file.path);
    int lines = count_lines(file.text);
    file.cases = calloc((size_t)lines, sizeof(*file.cases));
    file.refusals = calloc((size_t)lines, sizeof(*file.refusals));
    reader r = { .path = file.path };
    for (char *line = file.text, *rest; line != NULL && *line != '\0'; line = rest) {
        rest = cut(line, '\n');
        r.line++;
        r.next = line;
        if (*line == '!') {
            file.refusals[file.num_refusals++] = line + 2 + strcspn(line + 2, " ") + 1;
        } else if (*line != '#' && *line != '\0') {
            read_case(&r, &file.cases[file.num_cases++]);
        }
    }
    return file;
}

void oracle_close(oracle_file *file)
{
    for (int i = 0; i < file->num_cases; i++) {
        for (int o = 0; o < file->cases[i].num_outputs; o++) {
            free(file->cases[i].outputs[o].elements);
        }
        for (int k = 0; k < file->cases[i].num_inputs; k++) {
            free(file->cases[i].inputs[k].literal);
        }
    }
    free(file->cases);
    free(file->refusals);
    free(file->text);
    free(file->path);
}

/* ---- folders ------------------------------------------------------------------------------------------- */

static int is_case_file(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

int oracle_open_folder(oracle_folder *folder, const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_case_file, alphasort);
    for (int i = 0; i < count; i++) {
        if (i < ORACLE_FILES) {
            folder->files[folder->num_files++] = oracle_read(path, entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    return count > 0 && count <= ORACLE_FILES ? 0 : -1;
}

void oracle_close_folder(oracle_folder *folder)
{
    for (int f = 0; f < folder->num_files; f++) {
        oracle_close(&folder->files[f]);
    }
}

int oracle_results(const oracle_case *c)
{
    return c->num_seeds > 0 ? c->num_seeds : c->num_outputs;
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

static const char *find_attribute(const oracle_case *c, const char *name)
{
    for (int i = 0; i < c->num_attributes; i++) {
        if (strcmp(c->attributes[i].name, name) == 0) {
            return c->attributes[i].value;
        }
    }
    return NULL;
}

static const char *attribute(const oracle_case *c, const char *name)
{
    const char *value = find_attribute(c, name);
    if (value == NULL) {
        fail_msg("line %d: %s has no attribute %s", c->line, c->operation, name);
    }
    return value;
}

bool oracle_has(const oracle_case *c, const char *name)
{
    return find_attribute(c, name) != NULL;
}

double oracle_number(const oracle_case *c, const char *name)
{
    return strtod(attribute(c, name), NULL);
}

int oracle_list(const oracle_case *c, const char *name, int64_t numbers[])
{
    reader r = { .path = c->operation, .line = c->line, .next = (char[]){ "" } };
    return read_numbers(&r, attribute(c, name), ',', WEFT_MAX_DIMS, numbers);
}

weft_dtype oracle_type(const oracle_case *c, const char *name)
{
    reader r = { .path = c->operation, .line = c->line, .next = (char[]){ "" } };
    return type_named(&r, attribute(c, name));
}
