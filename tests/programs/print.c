/* Prints programs as C, with public headers, and that of gradients as calls where there are some; values and expectations are
 * tables. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "driver.h"
#include "print_prelude.h"

/* ---- literals ------------------------------------------------------------------------------------------ */

static const char *const type_names[] = { "WEFT_F64", "WEFT_F32", "WEFT_BF16", "WEFT_F16",
                                          "WEFT_I64", "WEFT_I32", "WEFT_U8",   "WEFT_BOOL",
                                          "WEFT_C64", "WEFT_C128", "WEFT_I8",  "WEFT_I16",
                                          "WEFT_U16", "WEFT_U32", "WEFT_U64" };
static const char *const c_types[] = { "double",  "float",   "uint16_t", "uint16_t",
                                       "int64_t", "int32_t", "uint8_t",  "uint8_t",
                                       NULL,      NULL,      "int8_t",   "int16_t",
                                       "uint16_t", "uint32_t", "uint64_t" };

static void print_real(FILE *file, double x)
{
    if (x != x) {
        fprintf(file, "NAN");
    } else if (isinf(x)) {
        fprintf(file, "%sINFINITY", x < 0 ? "-" : "");
    } else {
        fprintf(file, "%.17g", x);
    }
}

static void print_whole(FILE *file, int64_t x)
{
    if (x == INT64_MIN) {
        fprintf(file, "INT64_MIN");
    } else {
        fprintf(file, "%" PRId64, x);
    }
}

static void print_element(FILE *file, weft_dtype dtype, const void *memory, int64_t i)
{
    element x = element_load(dtype, memory, i);
    if (dtype == WEFT_BF16 || dtype == WEFT_F16) {
        fprintf(file, "0x%04x /* %g */", ((const uint16_t *)memory)[i], x.real);
    } else if (is_floating(dtype)) {
        print_real(file, x.real);
    } else {
        print_whole(file, x.whole);
    }
}

static void print_array(FILE *file, const char *name, weft_dtype dtype, const void *memory, int64_t count)
{
    fprintf(file, "    static const %s %s[] = { ", c_types[dtype], name);
    for (int64_t i = 0; i < count; i++) {
        fprintf(file, "%s", i > 0 ? ", " : "");
        print_element(file, dtype, memory, i);
    }
    fprintf(file, "%s };\n", count == 0 ? "0" : "");
}

static void print_wholes(FILE *file, const char *type, int count, const int64_t numbers[])
{
    if (count == 0) {
        fprintf(file, "NULL");
        return;
    }
    fprintf(file, "(%s[]){ ", type);
    for (int i = 0; i < count; i++) {
        fprintf(file, "%s", i > 0 ? ", " : "");
        print_whole(file, numbers[i]);
    }
    fprintf(file, " }");
}

static void print_shard(FILE *file, weft_placement p)
{
    const int64_t *sizes;
    int parts = weft_placement_sizes(p, &sizes);
    bool fields = p.level != 0 || p.cut > WEFT_CUT_SIZES || p.block != 0 || p.period != 0;
    if (fields) {
        fprintf(file, "{ WEFT_SHARD, .dim = %d, .cut = (weft_cut_kind)%d, .level = %d, .block = %lld, .first = %d, .period = %lld, .sizes = ",
                p.dim, (int)p.cut, p.level, (long long)p.block, p.first, (long long)p.period);
    }
    if (parts > 0) {
        fprintf(file, "weft_shard_sizes(%d, %d, ", p.dim, parts);
        print_wholes(file, "int64_t", parts, sizes);
        fprintf(file, fields ? ").sizes }" : ")");
    } else if (fields) {
        fprintf(file, "NULL }");
    } else {
        fprintf(file, "%s(%d)", p.cut == WEFT_CUT_BALANCED ? "weft_shard_balanced" : "weft_shard", p.dim);
    }
}

static void print_placements(FILE *file, int count, const weft_placement placements[])
{
    static const char *const ops[] = { "WEFT_SUM", "WEFT_AVG", "WEFT_PROD", "WEFT_MIN", "WEFT_MAX" };
    fprintf(file, "(weft_placement[]){ ");
    for (int m = 0; m < count; m++) {
        weft_placement p = placements[m];
        fprintf(file, "%s", m > 0 ? ", " : "");
        if (p.kind == WEFT_SHARD) {
            print_shard(file, p);
        } else if (p.kind == WEFT_PARTIAL) {
            fprintf(file, "weft_partial(%s)", ops[p.op]);
        } else {
            fprintf(file, "weft_replicate()");
        }
    }
    fprintf(file, " }");
}

static void print_value(FILE *file, int value)
{
    if (value == NO_VALUE) {
        fprintf(file, "NULL");
    } else {
        fprintf(file, "t[%d]", value);
    }
}

/* ---- calls --------------------------------------------------------------------------------------------- */

/* A name of the text with an index: in[1]. */
static bool print_indexed(FILE *file, const step *s, const char *name, size_t length, int index)
{
    if (length == 2 && strncmp(name, "in", 2) == 0) {
        print_value(file, index < s->num_inputs ? s->inputs[index] : NO_VALUE);
    } else if (length == 3 && strncmp(name, "out", 3) == 0) {
        print_value(file, s->outputs[index]);
    } else if (length == 5 && strncmp(name, "whole", 5) == 0) {
        print_whole(file, s->wholes[index]);
    } else if (length == 4 && strncmp(name, "real", 4) == 0) {
        print_real(file, s->reals[index]);
    } else {
        return false;
    }
    return true;
}

static void print_tensors(FILE *file, int count, const int values[])
{
    fprintf(file, "(weft_tensor *[]){ ");
    for (int i = 0; i < count; i++) {
        fprintf(file, "%s", i > 0 ? ", " : "");
        print_value(file, values[i]);
    }
    fprintf(file, " }");
}

/* A name without one. */
static bool print_named(FILE *file, const program *p, const step *s, const char *name, size_t length)
{
    char word[16];
    snprintf(word, sizeof(word), "%.*s", length < 16 ? (int)length : 0, name);
    if (strcmp(word, "in") == 0) {
        print_tensors(file, s->num_inputs, s->inputs);
    } else if (strcmp(word, "out") == 0) {
        fprintf(file, "(t + %d)", s->outputs[0]);
    } else if (strcmp(word, "whole") == 0) {
        print_wholes(file, "int64_t", s->num_wholes, s->wholes);
    } else if (strcmp(word, "shape") == 0) {
        print_wholes(file, "int64_t", s->ndim, s->shape);
    } else if (strcmp(word, "dims") == 0) {
        print_wholes(file, "int", s->ndim, s->shape);
    } else if (strcmp(word, "ndim") == 0) {
        fprintf(file, "%d", s->ndim);
    } else if (strcmp(word, "dtype") == 0) {
        fprintf(file, "%s", type_names[s->dtype]);
    } else if (strcmp(word, "mesh") == 0) {
        fprintf(file, "mesh[%d]", s->mesh);
    } else if (strcmp(word, "placements") == 0) {
        print_placements(file, p->meshes[s->mesh].ndim, s->placements);
    } else if (strcmp(word, "global") == 0) {
        fprintf(file, "given");
    } else if (strcmp(word, "truth") == 0 || strcmp(word, "number") == 0) {
        fprintf(file, "&%s", word);
    } else {
        return false;
    }
    return true;
}

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* The text of the row, with its names replaced. */
static void print_call(FILE *file, const program *p, const step *s)
{
    for (const char *at = s->operation->text; *at != '\0';) {
        size_t length = 0;
        while (is_letter(at[length])) {
            length++;
        }
        if (length == 0 || (at > s->operation->text && (at[-1] == '.' || at[-1] == '>'))) {
            length = length == 0 ? 1 : length;
            fprintf(file, "%.*s", (int)length, at);
        } else {
            int index = 0, used = 0;
            if (sscanf(at + length, "[%d]%n", &index, &used) == 1 && used > 0 &&
                print_indexed(file, s, at, length, index)) {
                length += (size_t)used;
            } else if (strncmp(at, "locals", length) == 0 && length == 6) {
                fprintf(file, "locals");
            } else if (!print_named(file, p, s, at, length)) {
                fprintf(file, "%.*s", (int)length, at);
            }
        }
        at += length;
    }
    fprintf(file, ";\n");
}

/* ---- values -------------------------------------------------------------------------------------------- */

static bool has_partial(const program *p, const step *s)
{
    for (int m = 0; m < p->meshes[s->mesh].ndim; m++) {
        if (s->placements[m].kind == WEFT_PARTIAL) {
            return true;
        }
    }
    return false;
}

/* Each rank's addends, of those that have some. */
static void print_addends(FILE *file, const program *p, const step *s, const dense *x, int number)
{
    const mesh_plan *mesh = &p->meshes[s->mesh];
    char name[40], list[600] = "";
    for (int rank = 0; rank < p->ranks; rank++) {
        if (mesh_index(mesh, rank) < 0) {
            strcat(list, rank > 0 ? ", NULL" : "NULL");
            continue;
        }
        /* All ranks of the dimension have all of the addends, but for other shards: print.c has no boxes,
         * so each rank has an array of the whole, from which weft's box is cut. */
        void *memory = malloc((size_t)x->count * 8 + 8);
        int64_t offset[WEFT_MAX_DIMS] = { 0 };
        shard_rows rows = rows_of_box(x->ndim, offset, x->shape);
        fill_shard(NULL, mesh, s->placements, x, &rows, rank, s->salt, memory);
        free_rows(&rows, x->ndim);
        snprintf(name, sizeof(name), "given%d_%d", number, rank);
        print_array(file, name, x->dtype, memory, x->count);
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", rank > 0 ? ", " : "", name);
        free(memory);
    }
    fprintf(file, "    const void *all[] = { %s };\n    void *locals[64];\n", list);
    fprintf(file,
            "    for (int i = 0; i < weft_local_ranks(); i++) {\n"
            "        const void *own = all[weft_first_rank() + i];\n"
            "        locals[i] = own == NULL ? NULL : cut(%s, %d, ",
            type_names[s->dtype], s->ndim);
    print_wholes(file, "int64_t", s->ndim, s->shape);
    fprintf(file, ", mesh[%d], ", s->mesh);
    print_placements(file, mesh->ndim, s->placements);
    fprintf(file, ", own)[i];\n    }\n");
}

static void print_given(FILE *file, const program *p, const step *s, const dense *x, int number)
{
    if (s->operation->flags & GIVES && has_partial(p, s)) {
        print_addends(file, p, s, x, number);
        return;
    }
    void *memory = malloc((size_t)x->count * 8 + 8);
    for (int64_t i = 0; i < x->count; i++) {
        element_store(x->dtype, memory, i, x->at[i]);
    }
    print_array(file, "given", x->dtype, memory, x->count);
    free(memory);
    if (strstr(s->operation->text, "locals") != NULL && s->mesh >= 0) {
        fprintf(file, "    void *const *locals = cut(%s, %d, ", type_names[s->dtype], s->ndim);
        print_wholes(file, "int64_t", s->ndim, s->shape);
        fprintf(file, ", mesh[%d], ", s->mesh);
        print_placements(file, p->meshes[s->mesh].ndim, s->placements);
        fprintf(file, ", given);\n");
    }
}

/* Values that may be the same tensor, and those whose values changed if they are. */
typedef struct aliases {
    int group[MAX_VALUES];
    bool doubtful[MAX_VALUES];
} aliases;

static void follow_aliases(aliases *a, const program *p, const step *s)
{
    for (int i = 0; i < s->num_outputs; i++) {
        int v = s->outputs[i];
        if (!(s->operation->flags & (IN_PLACE | WRITES))) {
            a->group[v] = s->operation->flags & MAY_BE_SAME ? a->group[s->inputs[0]] : v;
            continue;
        }
        for (int other = 0; other < p->num_values; other++) {
            a->doubtful[other] |= other != v && a->group[other] == a->group[v];
        }
    }
}

/* A value that is known well enough without running the program. */
static void print_check(FILE *file, const aliases *a, const dense *x, int value)
{
    if (x->derived || a->doubtful[value]) {
        return;
    }
    fprintf(file, "    {\n        static const long double want[] = { ");
    for (int64_t i = 0; i < x->count; i++) {
        fprintf(file, "%s", i > 0 ? ", " : "");
        if (is_floating(x->dtype)) {
            print_real(file, x->at[i].real);
        } else {
            print_whole(file, x->at[i].whole);
        }
    }
    fprintf(file, "%s };\n", x->count == 0 ? "0" : "");
    if (x->slack != NULL) {
        fprintf(file, "        static const double slack[] = { ");
        for (int64_t i = 0; i < x->count; i++) {
            fprintf(file, "%s", i > 0 ? ", " : "");
            print_real(file, x->slack[i]);
        }
        fprintf(file, "%s };\n", x->count == 0 ? "0" : "");
    }
    fprintf(file, "        check(\"t[%d]\", t[%d], want, %s);\n    }\n", value, value,
            x->slack != NULL ? "slack" : "NULL");
}

/* ---- the program --------------------------------------------------------------------------------------- */

/* States are created and seeded before each draw, so that they repeat. */
static void print_states(FILE *file, const program *p)
{
    evaluation e;
    evaluation_start(&e, p);
    for (int i = 0; i < MAX_STATES; i++) {
        if (i > 0) {
            fprintf(file, "    weft_random_state_create(\"%s\", 0);\n", random_state_name(i));
        }
        fprintf(file, "    weft_random_state_set(%s%s%s, (weft_random_state){ %" PRIu64 "u, 0 });\n",
                i == 0 ? "" : "\"", i == 0 ? "NULL" : random_state_name(i), i == 0 ? "" : "\"",
                e.states.states[i].seed);
    }
    evaluation_end(&e);
}

static void print_world(FILE *file, const program *p)
{
    fprintf(file, "int main(void)\n{\n");
    if (p->panel_rows > 0) {
        fprintf(file, "    setenv(\"WEFT_PANEL_ROWS\", \"%d\", 1);\n", p->panel_rows);
    }
    if (p->plan > 0) {
        fprintf(file, "    setenv(\"WEFT_PLAN\", \"%s\", 1);\n", program_plans[p->plan]);
    }
    if (p->cache > 0) {
        fprintf(file, "    setenv(\"WEFT_TASK_CACHE\", \"%s\", 1);\n", program_caches[p->cache]);
    }
    if (p->compares) {
        fprintf(file, "    setenv(\"WEFT_CHECK\", \"1\", 1);\n");
    }
    if (p->packs) {
        fprintf(file, "    setenv(\"WEFT_PACK_BYTES\", \"4096\", 1);\n");
    }
    fprintf(file,
            "    setenv(\"WEFT_CALIBRATE\", \"off\", 1);\n    weft_config config = WEFT_CONFIG_DEFAULT;\n"
            "    config.ranks = %d;\n    if (weft_init(&config) != WEFT_OK) {\n        return 1;\n    }\n",
            p->ranks);
    fprintf(file,
            "    weft_mesh *mesh[%d];\n    weft_tensor *t[%d] = { NULL };\n    bool truth = false;\n"
            "    double number = 0;\n    (void)mesh, (void)t, (void)truth, (void)number, (void)cut, "
            "(void)write_shards, (void)check;\n",
            p->num_meshes, p->num_values + MAX_OUTPUTS);
    for (int m = 0; m < p->num_meshes; m++) {
        const mesh_plan *mesh = &p->meshes[m];
        fprintf(file, "    mesh[%d] = ", m);
        if (mesh->kind == MESH_SLICE) {
            fprintf(file, "weft_mesh_slice(mesh[%d], \"%s\");\n", mesh->of, mesh_names[mesh->first]);
            continue;
        }
        if (mesh->kind == MESH_FLATTENED) {
            fprintf(file, "weft_mesh_flatten(mesh[%d], %d, %d, NULL);\n", mesh->of, mesh->first, mesh->last);
            continue;
        }
        fprintf(file, mesh->kind == MESH_GRID ? "weft_mesh_create(%d, " : "weft_mesh_of_ranks(%d, ",
                mesh->ndim);
        print_wholes(file, "int64_t", mesh->ndim, mesh->shape);
        if (mesh->kind == MESH_OF_RANKS) {
            int64_t ranks[MAX_RANKS];
            for (int i = 0; i < mesh_count(mesh); i++) {
                ranks[i] = mesh->ranks[i];
            }
            fprintf(file, ", ");
            print_wholes(file, "int", mesh_count(mesh), ranks);
        }
        fprintf(file, ", (const char *[]){ \"a\", \"b\", \"c\" });\n");
    }
    if (p->implicit) {
        fprintf(file, "    weft_implicit_replication_begin();\n");
    }
}

static bool calls_gradients(const program *p)
{
    for (int i = 0; i < p->num_steps; i++) {
        const char *text = p->steps[i].operation->text;
        if (strstr(text, "_backward") != NULL || strstr(text, "_with_statistics") != NULL || strstr(text, "_with_log_sums") != NULL) {
            return true;
        }
    }
    return false;
}

void print_program(const program *p, FILE *file)
{
    fprintf(file, "/* Random program %" PRIu64 ": %s%d%s. */\n%s%s", p->seed,
            p->processes > 1 ? "mpirun -n " : "one process (", p->processes, p->processes > 1 ? "" : ")",
            print_prelude_arrays, print_prelude_tensors);
    if (calls_gradients(p)) {
        fprintf(file, "#include \"ops/backward.h\" /* of src: link the tests' library */\n");
    }
    print_world(file, p);
    for (int i = 0; i < p->num_steps; i++) {
        const operation *row = random_calls;
        while (row->name != NULL && row != p->steps[i].operation) {
            row++;
        }
        if (row->name != NULL) {
            print_states(file, p);
            break;
        }
    }
    evaluation e;
    static aliases a;
    a = (aliases){ { 0 }, { false } };
    evaluation_start(&e, p);
    if (p->scoped) {
        fprintf(file, "    weft_scope_begin();\n");
    }
    for (int i = 0; i < p->num_steps; i++) {
        const step *s = &p->steps[i];
        scene now;
        if (!evaluate_step(&e, s, &now)) {
            fprintf(file, "    /* step %d is not valid */\n", i);
            break;
        }
        bool gives = s->operation->flags & (GIVES | WRITES);
        fprintf(file, "%s", gives ? "    {\n" : "");
        if (gives) {
            print_given(file, p, s, now.out[0], i);
        }
        fprintf(file, "    ");
        if (s->operation->flags & HOLDS) {
            fprintf(file, "/* the shards of t[%d] are acquired here, until something waits */\n",
                    s->inputs[0]);
        } else if (s->operation->flags & CHECKS) {
            fprintf(file, "/* compared here */\n");
            print_check(file, &a, now.in[0], s->inputs[0]);
        } else if (s->operation->flags & WRITES) {
            fprintf(file, "write_shards(t[%d], given);\n", s->inputs[0]);
        } else {
            print_call(file, p, s);
        }
        fprintf(file, "%s", gives ? "    }\n" : "");
        if (s->operation->flags & ANSWERS) {
            fprintf(
                file,
                "    if (truth != %d) {\n        printf(\"wrong answer\\n\");\n        wrong = 1;\n    }\n",
                now.truth);
        }
        evaluation_commit(&e, &now);
        follow_aliases(&a, p, s);
    }
    for (int v = 0; v < p->num_values; v++) {
        if (is_alive(&e, v)) {
            print_check(file, &a, e.values[v], v);
        }
    }
    fprintf(file,
            "    if (weft_last_status() != WEFT_OK) {\n        printf(\"%%s\\n\", weft_last_error());\n"
            "        wrong = 1;\n    }\n    if (weft_finalize() != WEFT_OK) {\n        wrong = 1;\n    }\n"
            "    blocks_free();\n    return wrong;\n}\n");
    evaluation_end(&e);
}
