/* Saved graphs: written, read, and made again in fake worlds of any mesh; predicted like the program that saved them; damaged
 * files are refused. Argument: weft-predict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "graph/save/saved.h"
#include "graph_support.h"
#include "output.h"

static const char *tool;
static char folder[] = "/tmp/weft-saved-XXXXXX";
static char path[sizeof(folder) + 16], other_path[sizeof(folder) + 16], machine_path[sizeof(folder) + 16];

/* ---- a program ------------------------------------------------------------------------------------------- */

typedef struct model {
    trained_mlp mlp;
    bool splits; /* the step has two segments */
} model;

static model make_model(void)
{
    return (model){ .mlp = mlp_make() };
}

static weft_status nothing(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    (void)context;
    (void)inputs;
    (void)outputs;
    return WEFT_OK;
}

static void split(weft_tensor *loss)
{
    (void)loss;
    weft_graph_opaque("nothing", WEFT_OPAQUE_CALLED, nothing, NULL, 0, NULL, 0, NULL);
}

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    weft_tensor *y = mlp_forward(&m->mlp, inputs[0]);
    y = weft_add(y, weft_ones_like(y));
    weft_tensor *loss = weft_mse(weft_layer_norm(y, NULL, NULL, 1e-5), inputs[0], WEFT_LOSS_MEAN);
    return mlp_descend(&m->mlp, loss, m->splits ? split : NULL, scalars[0], &outputs[0]);
}

static weft_graph *run_program(model *m)
{
    weft_tensor *loss, *batch = mlp_batch(&m->mlp);
    weft_graph *graph = weft_graph_create("a \"step\"", train, m, 1, 1, 1);
    if (weft_graph_call(graph, &batch, (double[]){ 0.01 }, &loss) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    return graph;
}

/* ---- support --------------------------------------------------------------------------------------------- */

static char *text_of(const char *name)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void write_text(const char *name, const char *text, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void write_machine(void)
{
    static const char text[] = "weft-machine 2\ntask_us 1.000\ncopy_bytes_per_us 1000.000\nproduct_flops_per_us 10000.000\n"
                               "near_latency_us 1.000\nnear_message_us 1.000\nnear_bytes_per_us 1000.000\n"
                               "far_latency_us 10.000\nfar_message_us 1.000\nfar_bytes_per_us 100.000\nend\n";
    write_text(machine_path, text, strlen(text));
}

/* All that does not depend on the time that this thread has taken. */
static void assert_same(const weft_prediction *a, const weft_prediction *b)
{
    assert_int_equal(a->tasks, b->tasks);
    assert_int_equal(a->messages, b->messages);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->peak_bytes, b->peak_bytes);
    assert_int_equal(a->processes, b->processes);
    assert_int_equal(a->simulated, b->simulated);
    assert_int_equal(a->assumed, b->assumed);
}

/* Without which of the call's inputs and outputs are which, and which function reads: a graph made again has none of these. */
static void print_listing(weft_graph *graph, char *text, size_t size)
{
    char *listing = listing_of(graph), *to = text;
    assert_true(strlen(listing) > 0 && strlen(listing) < size);
    for (char *line = listing, *end; *line != '\0'; line = end) {
        end = strchr(line, '\n') + 1;
        char *input = strstr(line, "= inputs[");
        if (input != NULL && input < end) {
            to += sprintf(to, "%.*s= input", (int)(input - line), line);
            line = strchr(input, ']') + 1;
        }
        const char *read = strstr(line, "values are read by");
        bool is_read = read != NULL && read < end;
        if (is_read) {
            to += sprintf(to, "values are read\n");
        } else if (strncmp(line, "  outputs[", strlen("  outputs[")) != 0) {
            to += sprintf(to, "%.*s", (int)(end - line), line);
        }
    }
    free(listing);
}

static weft_graph *make_again(weft_saved_graph **saved, const char *name, const weft_mesh_sizes *sizes)
{
    *saved = weft_saved_graph_read("test", name);
    if (*saved == NULL) {
        fail_msg("%s", weft_last_error());
    }
    weft_graph *graph = weft_saved_graph_make("test", *saved, sizes);
    if (graph == NULL || weft_graph_call(graph, NULL, NULL, NULL) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    return graph;
}

/* ---- the same again -------------------------------------------------------------------------------------- */

static void a_saved_step_is_the_same_step(void **state)
{
    (void)state;
    static char before[1 << 16], after[1 << 16];
    for (int splits = 0; splits < 2; splits++) {
        start_fake_processes("4", "4");
        model m = make_model();
        m.splits = splits;
        weft_graph *graph = run_program(&m);
        assert_int_equal(weft_graph_save(graph, path), WEFT_OK);
        print_listing(graph, before, sizeof(before));
        weft_prediction program = predict(graph, NULL);
        assert_int_equal(weft_finalize(), WEFT_OK);

        start_fake_processes("4", "4");
        weft_saved_graph *saved;
        graph = make_again(&saved, path, &(weft_mesh_sizes){ .count = 0 });
        print_listing(graph, after, sizeof(after));
        assert_string_equal(before, after);
        weft_prediction again = predict(graph, NULL);
        assert_same(&program, &again);
        assert_true(again.messages > 0 && again.tasks > 0);
        assert_int_equal(weft_graph_save(graph, other_path), WEFT_OK);
        char *first = text_of(path), *second = text_of(other_path);
        assert_string_equal(first, second);
        free(first);
        free(second);
        assert_int_equal(weft_graph_call(graph, NULL, NULL, NULL), WEFT_OK);
        assert_int_equal(weft_finalize(), WEFT_OK);
        weft_saved_graph_free(saved);
    }
}

/* A step that was saved on 2x2 is on dp=8,tp=2 the one that the program makes there. */
static void on_another_mesh_it_is_the_programs_step_there(void **state)
{
    (void)state;
    start_fake_processes("4", "4");
    model m = make_model();
    assert_int_equal(weft_graph_save(run_program(&m), path), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
    static const char *const ranks[] = { "2", "16", "64" };
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        weft_mesh_sizes sizes = { .count = 2, .names = { "tp", "dp" }, .sizes = { 2, strtol(ranks[i], NULL, 10) / 2 } };
        start_fake_processes(ranks[i], ranks[i]);
        m = make_model();
        weft_prediction program = predict(run_program(&m), NULL);
        assert_int_equal(weft_finalize(), WEFT_OK);
        start_fake_processes(ranks[i], ranks[i]);
        weft_saved_graph *saved;
        weft_graph *graph = make_again(&saved, path, &sizes);
        assert_int_equal(weft_saved_graph_ranks(saved, &sizes), strtol(ranks[i], NULL, 10));
        weft_prediction again = predict(graph, NULL);
        assert_same(&program, &again);
        assert_int_equal(weft_finalize(), WEFT_OK);
        weft_saved_graph_free(saved);
    }
}

/* ---- weft-predict ---------------------------------------------------------------------------------------- */

static double number_in(const char *json, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\": ", key);
    const char *found = strstr(json, quoted);
    if (found == NULL) {
        fail_msg("no %s in %.500s", key, json);
    }
    return strtod(found + strlen(quoted), NULL);
}

static char *run_tool(const char *options, bool errors, int expected)
{
    char line[1024];
    int status;
    snprintf(line, sizeof(line), "%s %s", path, options);
    char *text = output_of(tool, line, errors, &status);
    if (status != expected) {
        fail_msg("%s ended with %d, expected %d: %.500s", line, status, expected, text);
    }
    return text;
}

static void weft_predict_takes_a_file(void **state)
{
    (void)state;
    char options[256];
    start_fake_processes("16", "16");
    model m = make_model();
    weft_graph *graph = run_program(&m);
    weft_prediction program = predict(graph, NULL);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_fake_processes("4", "4");
    m = make_model();
    assert_int_equal(weft_graph_save(run_program(&m), path), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
    static const char *const meshes[] = { "--mesh dp=8,tp=2", "--mesh 8x2" };
    for (int i = 0; i < 2; i++) {
        snprintf(options, sizeof(options), "%s --machine %s --json", meshes[i], machine_path);
        char *json = run_tool(options, false, 0);
        assert_non_null(strstr(json, "{\"graph\": \"a \\\"step\\\"\", "));
        assert_int_equal(number_in(json, "tasks"), program.tasks);
        assert_int_equal(number_in(json, "messages"), program.messages);
        assert_int_equal(number_in(json, "bytes"), program.bytes);
        assert_int_equal(number_in(json, "peak_bytes"), program.peak_bytes);
        assert_int_equal(number_in(json, "processes"), 16);
        assert_true(number_in(json, "step_us") > 0);
        free(json);
    }
    free(run_tool("--run 2", false, 0)); /* on its own mesh */
    static const struct {
        const char *options, *text;
        int status;
    } wrong[] = { { "--mesh dp=8", "no size is given for dimension 1, tp", 1 },
                  { "--mesh dp=8,tp=2,pp=2", "no mesh has a dimension pp", 1 },
                  { "--mesh 2x2x2", "no size is given", 1 },
                  { "--mesh dp=8,2", "names some", 2 },
                  { "--ranks 4", "--ranks", 2 },
                  { "--mesh dp=2,tp=2 program", "takes no argument program", 2 },
                  { "--mesh dp=2000,tp=2000", "too many ranks", 2 } };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *text = run_tool(wrong[i].options, true, wrong[i].status);
        if (strstr(text, wrong[i].text) == NULL) {
            fail_msg("%s: %s", wrong[i].options, text);
        }
        free(text);
    }
}

/* ---- damage ---------------------------------------------------------------------------------------------- */

static void is_refused(const char *name, const char *text)
{
    weft_saved_graph *saved = weft_saved_graph_read("test", name);
    if (saved != NULL) {
        fail_msg("was read, expected %s", text);
    }
    assert_error(WEFT_ERR_IO, text);
}

static uint32_t next_random(uint32_t *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

/* The right digest for a changed text. */
static size_t seal(char *text, size_t length)
{
    char *end = NULL;
    for (char *found = strstr(text, "\nend "); found != NULL; found = strstr(found + 1, "\nend ")) {
        end = found + 1;
    }
    if (end == NULL) {
        return length;
    }
    snprintf(end, 32, "end %016llx\n", (unsigned long long)weft_hash_bytes(text, (size_t)(end - text), 0));
    return strlen(text);
}

/* One change: a character, a missing or a double piece, a number. */
static size_t damage(char *text, size_t length, uint32_t *seed)
{
    static const char characters[] = "0123456789%-,:;[]()\"\\ =x#\n\x01\xff";
    size_t at = next_random(seed) % length, count = 1 + (next_random(seed) >> 8) % 20;
    count = at + count > length ? length - at : count;
    switch ((next_random(seed) >> 16) % 4) {
    case 0:
        text[at] = characters[(next_random(seed) >> 8) % (sizeof(characters) - 1)];
        return length;
    case 1:
        memmove(text + at, text + at + count, length - at - count + 1);
        return length - count;
    case 2:
        memmove(text + at + count, text + at, length - at + 1);
        return length + count;
    default:
        for (; at < length && (text[at] < '0' || text[at] > '9'); at++) {
        }
        if (at < length) {
            text[at] = '0' + (char)((next_random(seed) >> 8) % 10);
        }
        return length;
    }
}

static void damaged_files_are_refused_with_their_line(void **state)
{
    (void)state;
    start_fake_processes("4", "4");
    model m = make_model();
    assert_int_equal(weft_graph_save(run_program(&m), path), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
    char *text = text_of(path), *changed = calloc(1, 1 << 20);
    size_t length = strlen(text);
    uint32_t seed = 7;
    int read = 0;
    for (int i = 0; i < 3000; i++) {
        memcpy(changed, text, length + 1);
        size_t now = damage(changed, length, &seed);
        bool same = now == length && memcmp(changed, text, length) == 0;
        if (i % 2 == 0 && !same) { /* as it came */
            write_text(other_path, changed, now);
            is_refused(other_path, "line ");
        } else { /* by somebody who knows the digest: whatever it says, reading it is safe */
            write_text(other_path, changed, seal(changed, now));
            weft_saved_graph *saved = weft_saved_graph_read("test", other_path);
            read += saved != NULL;
            weft_saved_graph_free(saved);
            weft_clear_error();
        }
    }
    assert_true(read > 100 && read < 1500);
    for (size_t cut = 0; cut < length; cut += 1 + length / 200) {
        write_text(other_path, text, cut);
        is_refused(other_path, "line ");
    }
    free(text);
    free(changed);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const char head[] = "weft-graph 1\ngraph \"g\"\nmesh m0 (\"dp\" 2)\nsegment\n  %0 = input : f32[4] [S0] on m0\n";
    static const struct {
        const char *head, *lines, *why;
    } all[] = { { "weft-graph 2\n", "", "line 1: version 2, expected 1" },
                { "weft-machine 2\n", "", "line 1: expected \"weft-graph\"" },
                { head, "  %1 = weft_no_such(%0) : f32[4] [S0] on m0\n", "line 6: no operation of weft is called no_such" },
                { head, "  %1 = weft_neg(%2) : f32[4] [S0] on m0\n", "line 6: %2 is used, but not defined before" },
                { head, "  %0 = weft_neg(%0) : f32[4] [S0] on m1\n", "line 6: expected a number from 0 to 0" },
                { head, "  %7 = weft_neg(%0) : f32[4] [S0] on m0\n", "line 6: %7: values have numbers without gaps" },
                { head, "  %1 = weft_neg(%0) : f99[4] [S0] on m0\n", "line 6: expected an element type" },
                { head, "  %1 = weft_neg(%0) : f32[4] [S0,R] on m0\n", "line 6: text is \"S0,R\"" },
                { head, "  %1 = weft_neg(%0) : f32[4] [S3] on m0\n", "line 6: " },
                { head, "  %1 = weft_neg(%0) : f32[-4] [S0] on m0\n", "line 6: expected a number" },
                { head, "  %1, %2 = weft_neg(%0) : f32[4] [S0] on m0; f32[4] [S0] on m0\n", "line 6: 2 outputs, expected 1" },
                { head, "  %1 = weft_neg(%0) rule=3 : f32[4] [S0] on m0\n", "line 6: neg has no rule 3" },
                { head, "  %1 = weft_neg(%0) frob=3 : f32[4] [S0] on m0\n", "line 6: expected \":\"" },
                { head, "  kept %5\n", "line 7: " } };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char text[2048];
        snprintf(text, sizeof(text), "%s%send 0\n", all[i].head, all[i].lines);
        write_text(other_path, text, seal(text, strlen(text)));
        is_refused(other_path, all[i].why);
    }
    is_refused("/nowhere/graph", "/nowhere/graph");
}

/* ---- refusals -------------------------------------------------------------------------------------------- */

static void twice(const weft_kernel_call *call)
{
    (void)call;
}

static weft_status own(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    outputs[0] = weft_apply(context, 1, inputs, NULL);
    return weft_last_status();
}

static void what_cannot_be_saved_is_refused(void **state)
{
    (void)state;
    start_fake_processes("2", "2");
    weft_operation_description description = { .name = "twice", .rule = "A->A", .kernel = twice };
    description.inputs[0] = (weft_operation_input){ "a", WEFT_TYPES_FLOAT, false };
    const weft_operation *operation = weft_operation_register(&description);
    assert_non_null(operation);
    weft_graph *graph = weft_graph_create("own", own, (void *)(uintptr_t)operation, 1, 0, 1);
    assert_int_equal(weft_graph_save(NULL, path), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "graph is NULL");
    assert_int_equal(weft_graph_save(graph, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "path is NULL");
    assert_int_equal(weft_graph_save(graph, path), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "has not run");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    weft_tensor *x = weft_zeros(WEFT_F32, 1, (int64_t[]){ 8 }, mesh, (weft_placement[]){ weft_shard(0) }), *y;
    assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
    assert_int_equal(weft_graph_save(graph, path), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "twice");
    model m = make_model();
    graph = run_program(&m);
    assert_int_equal(weft_graph_save(graph, "/nowhere/graph"), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "/nowhere/graph");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static int set_up(void **state)
{
    (void)state;
    bool made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof(path), "%s/graph", folder);
    snprintf(other_path, sizeof(other_path), "%s/other", folder);
    snprintf(machine_path, sizeof(machine_path), "%s/machine", folder);
    if (made) {
        write_machine();
    }
    return made && setenv("WEFT_MACHINE", machine_path, 1) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(other_path);
    unlink(machine_path);
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s WEFT-PREDICT\n", argv[0]);
        return 1;
    }
    tool = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_step_is_the_same_step),
        cmocka_unit_test(on_another_mesh_it_is_the_programs_step_there),
        cmocka_unit_test(weft_predict_takes_a_file),
        cmocka_unit_test(damaged_files_are_refused_with_their_line),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(what_cannot_be_saved_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
