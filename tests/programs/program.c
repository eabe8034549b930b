/* Programs as text. */
#include "program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "layout/layout.h"

const char *const program_plans[] = { NULL, "direct", "chain", "tree", "once" };
const char *const mesh_names[MAX_MESH_DIMS] = { "a", "b", "c" };
const char *const program_caches[] = { NULL, "off", "check" };

int mesh_count(const mesh_plan *mesh)
{
    int64_t count = 1;
    for (int d = 0; d < mesh->ndim; d++) {
        count *= mesh->shape[d];
    }
    return (int)count;
}

int mesh_index(const mesh_plan *mesh, int rank)
{
    for (int i = 0; i < mesh_count(mesh); i++) {
        if (mesh->ranks[i] == rank) {
            return i;
        }
    }
    return -1;
}

void mesh_coordinate(const mesh_plan *mesh, int index, int64_t coordinate[])
{
    int64_t rest = index;
    for (int d = mesh->ndim - 1; d >= 0; d--) {
        coordinate[d] = rest % mesh->shape[d];
        rest /= mesh->shape[d];
    }
}

const char *placements_text(int count, const weft_placement placements[], char *text, size_t size)
{
    weft_text written = weft_text_in(text, size);
    weft_placements_write(&written, placements, count);
    return text;
}

/* ---- fewer steps --------------------------------------------------------------------------------------- */

void program_tidy(program *p)
{
    int numbers[MAX_VALUES], steps = 0, values = 0;
    for (int v = 0; v < MAX_VALUES; v++) {
        numbers[v] = NO_VALUE;
    }
    for (int i = 0; i < p->num_steps; i++) {
        step s = p->steps[i];
        bool good = s.operation != NULL;
        for (int k = 0; k < s.num_inputs && good; k++) {
            good = s.inputs[k] == NO_VALUE || numbers[s.inputs[k]] != NO_VALUE;
            s.inputs[k] = good && s.inputs[k] != NO_VALUE ? numbers[s.inputs[k]] : NO_VALUE;
        }
        for (int k = 0; k < s.num_outputs && good; k++) {
            int *number = &numbers[s.outputs[k]];
            *number = *number == NO_VALUE ? values++ : *number;
            s.outputs[k] = *number;
        }
        if (good) {
            p->steps[steps++] = s;
        }
    }
    p->num_steps = steps;
    p->num_values = values;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void write_wholes(FILE *file, const char *key, int count, const int64_t numbers[])
{
    if (count > 0) {
        fprintf(file, " %s", key);
        for (int i = 0; i < count; i++) {
            fprintf(file, " %" PRId64, numbers[i]);
        }
    }
}

static void write_values(FILE *file, const char *key, int count, const int values[])
{
    int64_t numbers[MAX_INPUTS > MAX_RANKS ? MAX_INPUTS : MAX_RANKS];
    for (int i = 0; i < count; i++) {
        numbers[i] = values[i];
    }
    write_wholes(file, key, count, numbers);
}

static void write_step(const program *p, const step *s, FILE *file)
{
    fprintf(file, "%s", s->operation->name);
    write_values(file, "in", s->num_inputs, s->inputs);
    write_values(file, "out", s->num_outputs, s->outputs);
    write_wholes(file, "whole", s->num_wholes, s->wholes);
    if (s->num_reals > 0) {
        fprintf(file, " real");
        for (int i = 0; i < s->num_reals; i++) {
            fprintf(file, " %a", s->reals[i]);
        }
    }
    fprintf(file, " type %d", (int)s->dtype);
    write_wholes(file, "shape", s->ndim, s->shape);
    if (s->mesh >= 0) {
        char text[64];
        fprintf(file, " mesh %d", s->mesh);
        fprintf(file, " placements %s",
                placements_text(p->meshes[s->mesh].ndim, s->placements, text, sizeof(text)));
    }
    fprintf(file, " salt %" PRIu64 "\n", s->salt);
}

void program_write(const program *p, FILE *file)
{
    fprintf(file, "world seed %" PRIu64 " processes %d ranks %d panel_rows %d plan %d", p->seed, p->processes,
            p->ranks, p->panel_rows, p->plan);
    fprintf(file, " cache %d compares %d packs %d implicit %d scoped %d gradients %d graphs %d repeated %d\n", p->cache, p->compares,
            p->packs, p->implicit, p->scoped, p->gradients, p->graphs, p->repeated);
    for (int m = 0; m < p->num_meshes; m++) {
        const mesh_plan *mesh = &p->meshes[m];
        fprintf(file, "mesh %d of %d %d %d", (int)mesh->kind, mesh->of, mesh->first, mesh->last);
        write_wholes(file, "shape", mesh->ndim, mesh->shape);
        write_values(file, "ranks", mesh_count(mesh), mesh->ranks);
        fprintf(file, "\n");
    }
    for (int i = 0; i < p->num_steps; i++) {
        write_step(p, &p->steps[i], file);
    }
}

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The words of a line. */
typedef struct words {
    char *next;
} words;

static char *word(words *w)
{
    char *begin = w->next + strspn(w->next, " \n");
    char *end = begin + strcspn(begin, " \n");
    w->next = *end == '\0' ? end : end + 1;
    *end = '\0';
    return *begin == '\0' ? NULL : begin;
}

static int64_t whole(words *w)
{
    const char *text = word(w);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

/* Numbers up to the next word that is none. */
static int read_wholes(words *w, int max, int64_t numbers[])
{
    int count = 0;
    while (count < max) {
        const char *at = w->next + strspn(w->next, " \n");
        if (*at != '-' && (*at < '0' || *at > '9')) {
            break;
        }
        numbers[count++] = whole(w);
    }
    return count;
}

static int read_values(words *w, int max, int values[])
{
    int64_t numbers[MAX_WHOLES];
    int count = read_wholes(w, max, numbers);
    for (int i = 0; i < count; i++) {
        values[i] = (int)numbers[i];
    }
    return count;
}

/* "0x1p+0", "-inf", "nan": no key reads as one. */
static int read_reals(words *w, double reals[])
{
    int count = 0;
    while (count < MAX_REALS) {
        char *end, *at = w->next + strspn(w->next, " \n");
        double value = strtod(at, &end);
        if (end == at || (*end != ' ' && *end != '\n' && *end != '\0')) {
            break;
        }
        reals[count++] = value;
        word(w);
    }
    return count;
}

/* How many entries of an argument ("in", "out") a row's call names one by one. */
static int entries_named(const char *text, const char *argument)
{
    size_t length = strlen(argument);
    int count = 0;
    for (const char *at = strstr(text, argument); at != NULL; at = strstr(at + length, argument)) {
        bool own = (at == text || strchr(" (,&*!{-+", at[-1]) != NULL) && at[length] == '[';
        int number = own && at[length + 1] >= '0' && at[length + 1] <= '9' ? atoi(at + length + 1) + 1 : 0;
        count = number > count ? number : count;
    }
    return count;
}

/* Whether a value is the output of a former step. */
static bool is_given(const program *p, int value)
{
    for (int i = 0; i < p->num_steps; i++) {
        for (int k = 0; k < p->steps[i].num_outputs; k++) {
            if (p->steps[i].outputs[k] == value) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a step has what its call needs, of the program before it: what the evaluation relies on. */
static bool is_complete(const program *p, const step *s)
{
    const char *text = s->operation->text;
    const int of_input = CHECKS | WRITES | KEEPS | RETAINS | RELEASES | HOLDS | LEAVES | OF_LEAVES | DIFFERENTIATES |
                         MAY_BE_SAME | IN_PLACE;
    bool complete = s->num_inputs >= entries_named(text, "in") && s->num_outputs >= entries_named(text, "out") &&
                    s->num_wholes >= entries_named(text, "whole") && s->num_reals >= entries_named(text, "real") &&
                    (!(s->operation->flags & of_input) || (s->num_inputs > 0 && s->inputs[0] != NO_VALUE)) &&
                    (!(s->operation->flags & GIVES) || (s->mesh >= 0 && s->num_outputs == 1 && s->num_wholes > 0)) &&
                    s->mesh >= -1 && s->mesh < p->num_meshes && s->dtype >= 0 && s->dtype <= WEFT_U64;
    for (int i = 0; i < s->num_inputs && complete; i++) {
        complete = s->inputs[i] == NO_VALUE || is_given(p, s->inputs[i]);
    }
    for (int i = 0; i < s->num_outputs && complete; i++) {
        complete = s->outputs[i] >= 0 && s->outputs[i] < MAX_VALUES;
    }
    for (int d = 0; d < s->ndim && complete; d++) {
        complete = s->shape[d] < 1 << 16;
    }
    for (int m = 0; complete && s->operation->flags & GIVES && m < p->meshes[s->mesh].ndim; m++) {
        complete = s->placements[m].kind != WEFT_SHARD || s->placements[m].dim < s->ndim;
    }
    return complete;
}

static bool read_step(program *p, const char *name, words *w)
{
    step *s = &p->steps[p->num_steps];
    *s = (step){ .operation = operation_find(name), .mesh = -1 };
    if (s->operation == NULL || p->num_steps + 1 == MAX_STEPS) {
        return false;
    }
    for (const char *key; (key = word(w)) != NULL;) {
        if (strcmp(key, "in") == 0) {
            s->num_inputs = read_values(w, MAX_INPUTS, s->inputs);
        } else if (strcmp(key, "out") == 0) {
            s->num_outputs = read_values(w, MAX_OUTPUTS, s->outputs);
        } else if (strcmp(key, "whole") == 0) {
            s->num_wholes = read_wholes(w, MAX_WHOLES, s->wholes);
        } else if (strcmp(key, "real") == 0) {
            s->num_reals = read_reals(w, s->reals);
        } else if (strcmp(key, "type") == 0) {
            s->dtype = (weft_dtype)whole(w);
        } else if (strcmp(key, "shape") == 0) {
            s->ndim = read_wholes(w, WEFT_MAX_DIMS, s->shape);
        } else if (strcmp(key, "mesh") == 0) {
            s->mesh = (int)whole(w);
        } else if (strcmp(key, "placements") == 0) {
            const char *text = word(w);
            if (text == NULL || s->mesh < 0 || s->mesh >= p->num_meshes ||
                weft_placements_parse(text, p->meshes[s->mesh].ndim, s->placements) != WEFT_OK) {
                return false;
            }
        } else if (strcmp(key, "salt") == 0) {
            const char *text = word(w);
            s->salt = text == NULL ? 0 : strtoull(text, NULL, 10);
        } else {
            return false;
        }
    }
    if (!is_complete(p, s)) {
        return false;
    }
    for (int i = 0; i < s->num_outputs; i++) {
        p->num_values = s->outputs[i] >= p->num_values ? s->outputs[i] + 1 : p->num_values;
    }
    p->num_steps++;
    return true;
}

static bool read_mesh(program *p, words *w)
{
    if (p->num_meshes == MAX_MESHES) {
        return false;
    }
    mesh_plan *mesh = &p->meshes[p->num_meshes++];
    mesh->kind = (mesh_kind)whole(w);
    for (const char *key; (key = word(w)) != NULL;) {
        if (strcmp(key, "of") == 0) {
            mesh->of = (int)whole(w);
            mesh->first = (int)whole(w);
            mesh->last = (int)whole(w);
        } else if (strcmp(key, "shape") == 0) {
            mesh->ndim = read_wholes(w, MAX_MESH_DIMS, mesh->shape);
        } else if (strcmp(key, "ranks") == 0) {
            read_values(w, MAX_RANKS, mesh->ranks);
        } else {
            return false;
        }
    }
    bool right = mesh->ndim > 0 && mesh->kind <= MESH_SLICE && mesh->of >= 0 &&
                 (mesh->kind < MESH_FLATTENED || mesh->of + 1 < p->num_meshes);
    int64_t count = 1;
    for (int d = 0; d < mesh->ndim && right; d++) {
        right = mesh->shape[d] > 0 && mesh->shape[d] <= MAX_RANKS;
        count *= mesh->shape[d];
    }
    right = right && count <= MAX_RANKS;
    for (int i = 0; i < count && right; i++) {
        right = mesh->ranks[i] >= 0 && mesh->ranks[i] < p->ranks;
        for (int k = 0; k < i; k++) {
            right &= mesh->ranks[k] != mesh->ranks[i];
        }
    }
    return right;
}

static bool read_world(program *p, words *w)
{
    for (const char *key; (key = word(w)) != NULL;) {
        const char *text = word(w);
        int64_t number = text == NULL ? 0 : strtoll(text, NULL, 10);
        if (strcmp(key, "processes") == 0) {
            p->processes = (int)number;
        } else if (strcmp(key, "ranks") == 0) {
            p->ranks = (int)number;
        } else if (strcmp(key, "panel_rows") == 0) {
            p->panel_rows = (int)number;
        } else if (strcmp(key, "plan") == 0) {
            p->plan = (int)number;
        } else if (strcmp(key, "cache") == 0) {
            p->cache = (int)number;
        } else if (strcmp(key, "compares") == 0) {
            p->compares = number != 0;
        } else if (strcmp(key, "packs") == 0) {
            p->packs = number != 0;
        } else if (strcmp(key, "implicit") == 0) {
            p->implicit = number != 0;
        } else if (strcmp(key, "scoped") == 0) {
            p->scoped = number != 0;
        } else if (strcmp(key, "gradients") == 0) {
            p->gradients = number != 0;
        } else if (strcmp(key, "graphs") == 0) {
            p->graphs = number != 0;
        } else if (strcmp(key, "repeated") == 0) {
            p->repeated = number != 0;
        } else if (strcmp(key, "seed") == 0) {
            p->seed = text == NULL ? 0 : strtoull(text, NULL, 10);
        } else {
            return false;
        }
    }
    return p->processes > 0 && p->ranks > 0 && p->ranks <= MAX_RANKS && p->plan >= 0 && p->plan < NUM_PLANS &&
           p->cache >= 0 && p->cache < NUM_CACHES;
}

bool program_read(program *p, FILE *file, char *why, size_t size)
{
    char line[2000];
    memset(p, 0, sizeof(*p));
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        words w = { line };
        const char *first = word(&w);
        if (first == NULL) {
            continue;
        }
        bool good = strcmp(first, "world") == 0  ? read_world(p, &w)
                    : strcmp(first, "mesh") == 0 ? read_mesh(p, &w)
                                                 : read_step(p, first, &w);
        if (!good) {
            snprintf(why, size, "line %d (%s) cannot be read", number, first);
            return false;
        }
    }
    if (p->ranks == 0 || p->num_meshes == 0) {
        snprintf(why, size, "no program");
        return false;
    }
    return true;
}
