/* Reading saved graphs. Whatever a file says, what is read is sound: numbers are in range, values are defined before they
 * are used, and texts and lists have bounds. Whether calls fit their tensors is found when they are made. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "graph/save/saved_reader.h"

static const size_t max_bytes = (size_t)1 << 30; /* of a file */

/* ---- segments -------------------------------------------------------------------------------------------- */

static weft_saved_segment *segment_of(const weft_reader *r)
{
    return (weft_saved_segment *)r->saved->segments.items + r->saved->segments.count - 1;
}

/* "%3, -, %4" appended to `numbers`. */
static void read_values(weft_reader *r, weft_vec *numbers)
{
    do {
        int *place = weft_vec_push(numbers, sizeof(*place));
        if (place == NULL) {
            weft_reader_fail(r, "no memory");
        } else if (weft_reader_take(r, "-")) {
            *place = -1;
        } else if (weft_reader_expect(r, "%")) {
            weft_reader_int(r, 0, INT32_MAX - 1, place);
        }
    } while (!r->failed && weft_reader_take(r, ","));
}

static void read_input(weft_reader *r, int number)
{
    weft_saved_segment *segment = segment_of(r);
    weft_saved_input input = { .line = r->line, .number = number, .is_fake = weft_reader_take(r, "without data") };
    if (segment->calls.count > 0) {
        weft_reader_fail(r, "an input after the first call");
    } else if (weft_reader_expect(r, ":") && weft_reader_layout(r, &input.layout) && weft_reader_expect_end(r)) {
        weft_saved_input *place = weft_vec_push(&segment->inputs, sizeof(input));
        if (place == NULL) {
            weft_reader_fail(r, "no memory");
        } else {
            *place = input;
        }
    }
}

static int64_t read_list(weft_reader *r, int64_t most, int64_t numbers[])
{
    int64_t count = 0;
    do {
        if (count == most) {
            weft_reader_fail(r, "more than %lld numbers", (long long)most);
            return 0;
        }
    } while (weft_reader_integer(r, INT64_MIN, INT64_MAX, &numbers[count++]) && weft_reader_take(r, ","));
    return count;
}

static void read_scalars(weft_reader *r, weft_call *call)
{
    int count = 0;
    do {
        if (count == WEFT_MAX_SCALARS) {
            weft_reader_fail(r, "more than %d scalars", WEFT_MAX_SCALARS);
            return;
        }
    } while (weft_reader_scalar(r, &call->scalars[count++]) && weft_reader_take(r, ","));
}

static void read_more(weft_reader *r, weft_call_details *details)
{
    size_t count = 1;
    for (const char *c = r->at; *c != '\0' && *c != ' '; c++) {
        count += *c == ',';
    }
    int64_t *numbers = weft_reader_keep(r, count * sizeof(*numbers));
    if (numbers != NULL) {
        details->num_numbers = (int)read_list(r, (int64_t)count, numbers);
        details->numbers = numbers;
    }
}

static bool set_name(weft_reader *r, const char *name, size_t length, size_t number, weft_call *call)
{
    return weft_saved_name_find(name, length, number, call) ||
           weft_reader_fail(r, "no operation of weft is called %.*s", (int)(length > 60 ? 60 : length), name);
}

/* "norm#1" */
static void read_name(weft_reader *r, weft_call *call)
{
    const char *name = r->at;
    size_t length = weft_word_length(name);
    int number = 0;
    r->at += length;
    if (*r->at == '#') {
        r->at++;
        weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &number);
    }
    if (!r->failed) {
        set_name(r, name, length, (size_t)number, call);
    }
}

/* One "NAME=..." after the tensors. False: there is none. */
static bool read_field(weft_reader *r, weft_saved_call *c)
{
    weft_attributes *a = &c->call.attributes;
    if (weft_reader_take(r, "operation=")) {
        read_name(r, &c->call);
    } else if (weft_reader_take(r, "rule=")) {
        weft_reader_integer(r, 0, WEFT_MAX_RULES - 1, &a->rule);
    } else if (weft_reader_take(r, "leading=")) {
        weft_reader_integer(r, 0, WEFT_MAX_DIMS, &a->leading);
    } else if (weft_reader_take(r, "type=")) {
        weft_reader_integer(r, 0, WEFT_DTYPE_COUNT - 1, &a->type);
    } else if (weft_reader_take(r, "omitted=")) {
        weft_reader_integer(r, 0, WEFT_MAX_OUTPUTS, &a->omitted);
    } else if (weft_reader_take(r, "wish=")) {
        weft_reader_integer(r, 0, ((int64_t)1 << (4 * WEFT_MAX_DIMS)) - 1, &a->wish);
    } else if (weft_reader_take(r, "sizes=")) {
        a->num_sizes = read_list(r, WEFT_MAX_SIZES, a->sizes);
    } else if (weft_reader_take(r, "numbers=")) {
        a->num_numbers = read_list(r, WEFT_MAX_ATTRIBUTES, a->numbers);
    } else if (weft_reader_take(r, "scalars=")) {
        read_scalars(r, &c->call);
    } else if (weft_reader_take(r, "implicit")) {
        c->implicit = true;
    } else if (weft_reader_take(r, "listed=")) {
        weft_reader_int(r, 0, c->num_tensors, &c->details.num_tensors);
    } else if (weft_reader_take(r, "outputs=")) {
        weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &c->details.num_outputs);
    } else if (weft_reader_take(r, "changed=")) {
        weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &c->details.num_changed);
    } else if (weft_reader_take(r, "more=")) {
        read_more(r, &c->details);
    } else if (weft_reader_take(r, "text=")) {
        c->details.text = weft_reader_quoted(r);
    } else if (weft_reader_take(r, "to ")) {
        c->has_layout = weft_reader_layout(r, &c->layout);
    } else {
        return false;
    }
    return true;
}

/* The call has as many tensors as its function says, and the outputs that it changes are inputs. */
static bool check_counts(weft_reader *r, weft_saved_call *c)
{
    bool has_details = c->details.num_tensors > 0 || c->details.num_outputs > 0 || c->details.num_changed > 0 ||
                       c->details.num_numbers > 0 || c->details.text != NULL || c->has_layout;
    c->call.num_inputs = c->num_tensors - c->details.num_tensors;
    c->call.details = has_details ? &c->details : NULL;
    const weft_operation *operation = c->call.operation;
    if (c->call.num_inputs > WEFT_MAX_INPUTS) {
        return weft_reader_fail(r, "%d tensors, expected at most %d", c->call.num_inputs, WEFT_MAX_INPUTS);
    }
    if (c->details.num_changed > c->num_tensors || c->details.num_changed > c->num_outputs) {
        return weft_reader_fail(r, "%d tensors are changed, but there are not so many", c->details.num_changed);
    }
    if (weft_call_num_outputs(&c->call) != c->num_outputs) {
        return weft_reader_fail(r, "%d outputs, expected %d", c->num_outputs, weft_call_num_outputs(&c->call));
    }
    if (weft_call_is_action(&c->call) && (!c->has_layout || c->num_tensors > 1 || (weft_call_does(&c->call, WEFT_MOVES) && c->num_tensors != 1))) {
        return weft_reader_fail(r, "%s needs one tensor and a layout", c->call.function);
    }
    if (weft_call_is_action(&c->call) || operation->num_inputs > 0) {
        return true;
    }
    for (int i = 0; i < c->call.num_inputs; i++) {
        if (operation->inputs[i].name == NULL && c->details.num_tensors == 0) {
            return weft_reader_fail(r, "%d tensors, expected %d", c->call.num_inputs, i);
        }
    }
    bool any_rule = operation->rules[0] != NULL;
    return !any_rule || operation->rules[c->call.attributes.rule] != NULL || weft_reader_fail(r, "%s has no rule %lld", operation->name,
                                                                                  (long long)c->call.attributes.rule);
}

static void read_output_layouts(weft_reader *r, weft_saved_call *c)
{
    bool first = true;
    c->layouts = weft_reader_keep(r, (size_t)c->num_outputs * sizeof(*c->layouts));
    for (int i = 0; i < c->num_outputs && !r->failed; i++) {
        if (c->numbers[c->num_tensors + i] >= 0) {
            bool separated = weft_reader_expect(r, first ? ":" : ";");
            first = false;
            if (separated) {
                weft_reader_layout(r, &c->layouts[i]);
            }
        }
    }
    if (!r->failed) {
        weft_reader_expect_end(r);
    }
}

/* Tensors before outputs. */
static void set_numbers(weft_reader *r, weft_saved_call *c, const weft_vec *outputs, const weft_vec *inputs)
{
    c->num_tensors = (int)inputs->count;
    c->num_outputs = (int)outputs->count;
    c->numbers = weft_reader_keep(r, (inputs->count + outputs->count) * sizeof(int));
    if (c->numbers != NULL && inputs->count > 0) {
        memcpy(c->numbers, inputs->items, inputs->count * sizeof(int));
    }
    if (c->numbers != NULL && outputs->count > 0) {
        memcpy(c->numbers + inputs->count, outputs->items, outputs->count * sizeof(int));
    }
}

/* "weft_add(%0, %1) ... : ..." */
static void read_call(weft_reader *r, const weft_vec *outputs)
{
    weft_saved_call c = { .line = r->line };
    weft_vec inputs = { 0 };
    size_t length = weft_word_length(r->at);
    const char *name = length > 5 && strncmp(r->at, "weft_", 5) == 0 ? r->at + 5 : NULL;
    if (name == NULL) {
        weft_reader_fail(r, "expected a function at \"%.40s\"", r->at);
        return;
    }
    c.call.function = weft_reader_word(r, length);
    if (!r->failed && weft_reader_expect(r, "(") && !weft_reader_take(r, ")")) {
        read_values(r, &inputs);
        weft_reader_expect(r, ")");
    }
    set_numbers(r, &c, outputs, &inputs);
    weft_vec_free(&inputs);
    while (!r->failed && read_field(r, &c)) {
    }
    if (!r->failed && c.call.operation == NULL) {
        set_name(r, name, length - 5, 0, &c.call);
    }
    if (!r->failed && check_counts(r, &c)) {
        read_output_layouts(r, &c);
    }
    weft_saved_call *place = r->failed ? NULL : weft_vec_push(&segment_of(r)->calls, sizeof(c));
    if (place == NULL) {
        weft_reader_fail(r, "no memory");
    } else {
        *place = c;
        place->has_details = c.call.details != NULL;
        place->call.details = NULL; /* the vector may move */
    }
}

static void read_definition(weft_reader *r)
{
    weft_vec outputs = { 0 };
    weft_reader_skip(r);
    bool has_outputs = *r->at == '%' || *r->at == '-';
    if (has_outputs) {
        read_values(r, &outputs);
        weft_reader_expect(r, "=");
    }
    weft_reader_skip(r);
    if (r->failed) {
        weft_vec_free(&outputs);
        return;
    }
    if (outputs.count == 1 && strncmp(r->at, "input", 5) == 0) {
        weft_reader_take(r, "input");
        read_input(r, ((const int *)outputs.items)[0]);
    } else {
        read_call(r, &outputs);
    }
    weft_vec_free(&outputs);
}

/* ---- values ---------------------------------------------------------------------------------------------- */

/* Values have numbers without gaps, are defined once, and before they are used. */
typedef struct defining {
    weft_reader *r;
    bool *defined;
    int count; /* of values, at most */
} defining;

static bool define(const defining *d, int line, int number)
{
    d->r->line = line;
    if (number < 0 || number >= d->count) {
        return weft_reader_fail(d->r, "%%%d: values have numbers without gaps", number);
    }
    if (d->defined[number]) {
        return weft_reader_fail(d->r, "%%%d is defined twice", number);
    }
    return d->defined[number] = true;
}

static bool use(const defining *d, int line, int number)
{
    d->r->line = line;
    bool right = number >= 0 && number < d->count && d->defined[number];
    return right || weft_reader_fail(d->r, "%%%d is used, but not defined before", number);
}

/* A call's output may be one of its inputs as it is. */
static bool is_input_of(const weft_saved_call *c, int number)
{
    bool found = false;
    for (int i = 0; i < c->num_tensors; i++) {
        found |= c->numbers[i] == number;
    }
    return found;
}

static bool check_call(const defining *d, const weft_saved_call *c)
{
    bool right = true;
    for (int i = 0; i < c->num_tensors && right; i++) {
        right = use(d, c->line, c->numbers[i]);
    }
    for (int i = 0; i < c->num_outputs && right; i++) {
        int number = c->numbers[c->num_tensors + i];
        right = number < 0 || is_input_of(c, number) || define(d, c->line, number);
    }
    return right;
}

/* After the last line of a segment, which is read on then. */
static void check_values(weft_reader *r)
{
    weft_saved_segment *segment = segment_of(r);
    const weft_saved_input *inputs = segment->inputs.items;
    const weft_saved_call *calls = segment->calls.items;
    size_t most = segment->inputs.count;
    int line = r->line;
    for (size_t i = 0; i < segment->calls.count; i++) {
        most += (size_t)calls[i].num_outputs;
    }
    defining d = { .r = r, .defined = calloc(most + 1, sizeof(bool)), .count = (int)most };
    bool right = d.defined != NULL || weft_reader_fail(r, "no memory");
    for (size_t i = 0; i < segment->inputs.count && right; i++) {
        right = define(&d, inputs[i].line, inputs[i].number);
    }
    for (size_t i = 0; i < segment->calls.count && right; i++) {
        right = check_call(&d, &calls[i]);
    }
    for (size_t i = 0; i < segment->wanted.count && right; i++) {
        right = use(&d, line, ((const int *)segment->wanted.items)[i]);
    }
    segment->num_values = (int)most;
    free(d.defined);
    r->line = right ? line : r->line;
}

/* ---- files ----------------------------------------------------------------------------------------------- */

static void begin_segment(weft_reader *r)
{
    if (r->saved->segments.count > 0) {
        check_values(r);
    }
    weft_saved_segment *place = r->failed || !weft_reader_expect_end(r) ? NULL : weft_vec_push(&r->saved->segments, sizeof(*place));
    if (place == NULL) {
        weft_reader_fail(r, "no memory");
    }
}

/* `digest`: of the text before the line. */
static void read_end(weft_reader *r, uint64_t digest)
{
    char *end;
    weft_reader_skip(r);
    unsigned long long read = strtoull(r->at, &end, 16);
    bool right = end == r->at + 16;
    r->at = end;
    if (!right || !weft_reader_expect_end(r)) {
        weft_reader_fail(r, "expected \"end\" and 16 digits");
    } else if (r->saved->segments.count == 0) {
        weft_reader_fail(r, "the file ends before the first segment");
    } else if (read != digest) {
        weft_reader_fail(r, "the text has been changed since it was saved");
    } else {
        check_values(r);
    }
}

static void read_line(weft_reader *r)
{
    if (r->line == 1) {
        int version = 0;
        if (weft_reader_expect(r, WEFT_SAVED_GRAPH) && weft_reader_int(r, 0, WEFT_MAX_SAVED_NUMBERS, &version) && weft_reader_expect_end(r) &&
            version != WEFT_SAVED_VERSION) {
            weft_reader_fail(r, "version %d, expected %d", version, WEFT_SAVED_VERSION);
        }
    } else if (r->line == 2) {
        r->saved->name = weft_reader_expect(r, "graph") ? weft_reader_quoted(r) : NULL;
        r->failed = r->failed || !weft_reader_expect_end(r);
    } else if (r->saved->segments.count == 0 && weft_reader_take(r, "mesh ")) {
        weft_reader_mesh(r);
    } else if (weft_reader_take(r, "segment")) {
        begin_segment(r);
    } else if (r->saved->segments.count == 0) {
        weft_reader_fail(r, "expected a mesh or a segment at \"%.40s\"", r->at);
    } else if (weft_reader_take(r, "kept ")) {
        read_values(r, &segment_of(r)->wanted);
        r->failed = r->failed || !weft_reader_expect_end(r);
    } else {
        read_definition(r);
    }
}

/* Every line but the last one ends with a newline. */
static void read_lines(weft_reader *r)
{
    bool ended = false;
    for (char *line = r->text; *line != '\0' && !r->failed;) {
        size_t length = strcspn(line, "\n");
        bool last = line[length] == '\0';
        uint64_t digest = strncmp(line, "end ", 4) == 0 ? weft_hash_bytes(r->text, (size_t)(line - r->text), 0) : 0;
        r->line++;
        r->at = line;
        if (ended) {
            weft_reader_fail(r, "a line after the end");
        } else if (last) {
            weft_reader_fail(r, "the line does not end");
        } else if (strncmp(line, "end ", 4) == 0) {
            r->at += 4;
            ended = true;
            line[length] = '\0';
            read_end(r, digest);
            line[length] = '\n';
        } else {
            line[length] = '\0';
            read_line(r);
            line[length] = '\n';
        }
        line += length + !last;
    }
    if (!ended && !r->failed) {
        r->line++;
        weft_reader_fail(r, "expected \"end\": the file is not whole");
    }
}

/* The whole file, with a 0 after it. NULL: *why says why; `room` is for its text. */
static char *read_file(const char *path, const char **why, char room[200])
{
    FILE *file = weft_disk_stream(path, room, 200);
    size_t used = 0, size = 0;
    char *text = NULL;
    *why = file == NULL ? room : NULL;
    for (size_t got = 1; file != NULL && *why == NULL && got > 0; used += got) {
        if (used + 1 >= size) {
            size = size == 0 ? 1 << 16 : 2 * size;
            char *larger = size > max_bytes ? NULL : realloc(text, size);
            *why = larger != NULL ? NULL : size > max_bytes ? "the file is too large" : "no memory";
            text = larger != NULL ? larger : text;
        }
        got = *why != NULL ? 0 : fread(text + used, 1, size - used - 1, file);
    }
    if (file != NULL && *why == NULL && ferror(file)) {
        *why = "it cannot be read";
    }
    if (file != NULL) {
        fclose(file);
    }
    if (*why != NULL) {
        free(text);
        return NULL;
    }
    text[used] = '\0';
    if (strlen(text) != used) {
        *why = "it is no text";
        free(text);
        return NULL;
    }
    return text;
}

bool weft_saved_graph_is(const char *path)
{
    static const char begin[] = WEFT_SAVED_GRAPH " ";
    char found[sizeof(begin)] = "";
    char why[200];
    FILE *file = weft_disk_stream(path, why, sizeof(why));
    size_t got = file == NULL ? 0 : fread(found, 1, strlen(begin), file);
    if (file != NULL) {
        fclose(file);
    }
    return got == strlen(begin) && memcmp(found, begin, got) == 0;
}

static void free_segment(weft_saved_segment *segment)
{
    weft_vec_free(&segment->inputs);
    weft_vec_free(&segment->calls);
    weft_vec_free(&segment->wanted);
}

void weft_saved_graph_free(weft_saved_graph *saved)
{
    if (saved == NULL) {
        return;
    }
    for (size_t i = 0; i < saved->segments.count; i++) {
        free_segment((weft_saved_segment *)saved->segments.items + i);
    }
    for (size_t i = 0; i < saved->memory.count; i++) {
        free(((void **)saved->memory.items)[i]);
    }
    weft_vec_free(&saved->segments);
    weft_vec_free(&saved->memory);
    weft_vec_free(&saved->meshes);
    weft_vec_free(&saved->kept);
    free(saved);
}

weft_saved_graph *weft_saved_graph_read(const char *function, const char *path)
{
    char room[200];
    const char *why;
    char *text = read_file(path, &why, room);
    if (text == NULL) {
        weft_fail(WEFT_ERR_IO, function, "%s: %s", path, why);
        return NULL;
    }
    weft_reader r = { .saved = calloc(1, sizeof(*r.saved)), .text = text };
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* numbers with points */
    bool done = r.saved != NULL && plain != (locale_t)0;
    if (done) {
        locale_t former = uselocale(plain);
        r.saved->path = weft_reader_keep(&r, strlen(path));
        if (r.saved->path != NULL) {
            strcpy(r.saved->path, path);
        }
        read_lines(&r);
        uselocale(former);
    }
    if (plain != (locale_t)0) {
        freelocale(plain);
    }
    free(text);
    if (!done || r.failed) {
        weft_fail(done ? WEFT_ERR_IO : WEFT_ERR_NOMEM, function, "%s, line %d: %s", path, r.line, done ? r.why : "no memory");
        weft_saved_graph_free(r.saved);
        return NULL;
    }
    return r.saved;
}
