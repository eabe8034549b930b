/* weft-plan --op: random calls compared with the search itself and with weft-plan's own redistributions,
 * its output, and its messages on bad input. The program's path is the first argument. */
#include "plan_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "sharding/halos.h"
#include "sharding/sharding.h"

static const char *program;

/* ---- running it ---------------------------------------------------------------------------------------- */

/* What the program printed, until the next call; `errors`: its messages, instead of its output. */
static const char *run_tool(const char *arguments, bool errors, int expected)
{
    static char *text;
    free(text);
    int status;
    text = output_of(program, arguments, errors, &status);
    if (status != expected) {
        fail_msg("%s: status %d, expected %d", arguments, status, expected);
    }
    return text;
}

/* The text after "key":, after a position. */
static const char *after(const char *text, const char *key)
{
    char quoted[100];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *found = strstr(text, quoted);
    if (found == NULL) {
        fail_msg("no %s in: %.300s", quoted, text);
    }
    return found + strlen(quoted) + 1;
}

static void assert_says(const char *text, const char *expected)
{
    if (strstr(text, expected) == NULL) {
        fail_msg("no \"%s\" in: %.2000s", expected, text);
    }
}

static bool begins(const char *text, const char *expected)
{
    return strncmp(text, expected, strlen(expected)) == 0;
}

/* ---- random calls -------------------------------------------------------------------------------------- */

typedef struct known_rule {
    const char *text;
    int ndim[2];
    int shape[2][3]; /* factors of the dimensions */
    int num_inputs;
} known_rule;

/* Factors have the sizes of one case. */
static const known_rule rules[] = {
    { "mk,kn->mn", { 2, 2 }, { { 0, 1 }, { 1, 2 } }, 2 }, { "ab->ba", { 2 }, { { 0, 1 } }, 1 },
    { "ab,ab->ab", { 2, 2 }, { { 0, 1 }, { 0, 1 } }, 2 }, { "a[b]c->ac", { 3 }, { { 0, 1, 2 } }, 1 },
    { "Ab,b->Ab", { 3, 1 }, { { 0, 1, 2 }, { 2 } }, 2 },  { "b~a,a->ba", { 2, 1 }, { { 1, 0 }, { 0 } }, 2 },
};

static const weft_operation_halo halo_of_b = { { 0, 'b', 2, 1, 0, 0 }, 0 };

typedef struct problem {
    const known_rule *rule;
    weft_mesh_impl *mesh;
    weft_operation operation;
    weft_attributes attributes;
    weft_call_layouts call;
    char arguments[1000];
} problem;

static void draw_problem(prng *random, const fixture *f, problem *p)
{
    static const char *const linear[] = { "none", "jointly", "each" };
    *p = (problem){ .rule = &rules[prng_below(random, (int)WEFT_ARRAY_SIZE(rules))] };
    const int64_t mesh_shape[] = { 1 + prng_below(random, 4), 1 + prng_below(random, 3) };
    const int64_t sizes[] = { prng_below(random, 40), 1 + prng_below(random, 40), 1 + prng_below(random, 9) };
    int kind = (int)prng_below(random, 3);
    p->mesh = mesh_of(2, mesh_shape, NULL);
    p->operation = (weft_operation){ .name = "own", .rules = { p->rule->text } };
    p->operation.outputs[0].linear =
        (weft_linearity){ .kind = (weft_linear_kind)kind, .inputs = 3, .ops = kind == 0 ? 0 : WEFT_LINEAR_OPS };
    p->operation.outputs[0].linear.inputs = kind == 0 ? 0 : (1u << p->rule->num_inputs) - 1;
    p->call = (weft_call_layouts){ &p->operation, p->rule->num_inputs, { NULL }, &p->attributes };
    int used = snprintf(p->arguments, sizeof(p->arguments), "--mesh %lldx%lld --op '%s' --linear %s --json",
                        (long long)mesh_shape[0], (long long)mesh_shape[1], p->rule->text, linear[kind]);
    if (strchr(p->rule->text, '~') != NULL) {
        p->operation.num_halos = 1;
        p->operation.halos = &halo_of_b;
        p->operation.window = weft_window_of_halo;
        used += snprintf(p->arguments + used, sizeof(p->arguments) - (size_t)used, " --halo b:2,1");
    }
    for (int i = 0; i < p->rule->num_inputs; i++) {
        int64_t shape[3];
        char shape_text[100], placements_text[60];
        for (int d = 0; d < p->rule->ndim[i]; d++) {
            shape[d] = sizes[p->rule->shape[i][d]];
        }
        weft_text text = weft_text_in(shape_text, sizeof(shape_text));
        weft_text_add_sizes(&text, p->rule->ndim[i], shape, "x");
        weft_placement placements[WEFT_MAX_DIMS];
        drawn_placements(random, p->mesh, p->rule->ndim[i], kind != 0, placements);
        text = weft_text_in(placements_text, sizeof(placements_text));
        weft_placements_write(&text, placements, 2);
        p->operation.inputs[i] = (weft_operation_input){ "input", WEFT_TYPES_ALL, false };
        p->call.inputs[i] = weft_layout_intern(f->table, p->mesh, placements, p->rule->ndim[i], shape, WEFT_F32);
        used += snprintf(p->arguments + used, sizeof(p->arguments) - (size_t)used, " --input '%s:%s'", shape_text,
                         placements_text);
    }
}

/* A layout is the one that the program tells after a place of its text. */
static void assert_layout(const weft_layout *layout, const char *told)
{
    char placements[60], quoted[70];
    weft_text text = weft_text_in(placements, sizeof(placements));
    weft_placements_write(&text, layout->placements, layout->mesh->ndim);
    snprintf(quoted, sizeof(quoted), "\"%s\"", placements);
    if (!begins(after(told, "placements"), quoted)) {
        fail_msg("expected %s: %.200s", quoted, told);
    }
}

/* The redistribution of an input, as weft-plan tells of it without --op. */
static void check_redistribution(const problem *p, int input, const weft_sharding *sharding, int64_t bytes)
{
    char arguments[600], shape[100], from[60], to[60];
    weft_text text = weft_text_in(shape, sizeof(shape));
    weft_text_add_sizes(&text, p->call.inputs[input]->ndim, p->call.inputs[input]->shape, "x");
    text = weft_text_in(from, sizeof(from));
    weft_placements_write(&text, p->call.inputs[input]->placements, 2);
    text = weft_text_in(to, sizeof(to));
    weft_placements_write(&text, sharding->inputs[input]->placements, 2);
    snprintf(arguments, sizeof(arguments), "--mesh %lldx%lld --shape %s --from '%s' --to '%s' --json",
             (long long)p->mesh->shape[0], (long long)p->mesh->shape[1], shape, from, to);
    assert_int_equal(strtoll(after(run_tool(arguments, false, 0), "bytes_total"), NULL, 10), bytes);
}

static void check_strategies(const char *told)
{
    double before = -1, first = strtod(after(told, "predicted_us"), NULL);
    int64_t count = strtoll(after(told, "possible"), NULL, 10), seen = 0;
    const char *end = strstr(told, "\"inputs\": [\n");
    for (const char *at = after(told, "strategies"); (at = strstr(at, "{\"chosen\": ")) != NULL && at < end; at++) {
        double us = strtod(after(at, "predicted_us"), NULL);
        assert_int_equal(begins(after(at, "chosen"), "true"), seen == 0);
        assert_true(us >= before || seen == 1); /* after the chosen one, in ascending order */
        assert_true(us >= first);
        before = us;
        seen++;
    }
    assert_int_equal(seen, count);
}

static void random_calls(void **state)
{
    fixture *f = *state;
    prng random = prng_start(51);
    int moved = 0, refused = 0;
    for (int round = 0; round < 150; round++) {
        problem p;
        draw_problem(&random, f, &p);
        weft_topology topology = { (int)p.mesh->num_ranks, (int)p.mesh->num_ranks, NULL };
        weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
        weft_rule_table table = { { NULL, 0, 0 } };
        weft_sharding_world world = { .table = f->table, .topology = &topology, .cost = &cost, .rules = &table };
        weft_sharding sharding;
        char why[400] = "";
        weft_status status = weft_call_shard(&world, &p.call, &sharding, why, sizeof(why));
        if (status != WEFT_OK) {
            assert_says(run_tool(p.arguments, true, 2), why);
            refused++;
        } else {
            char *told = strdup(run_tool(p.arguments, false, 0));
            check_strategies(told);
            const char *at = strstr(told, "\"inputs\": [\n");
            for (int i = 0; i < p.call.num_inputs; i++) {
                at = after(at, "given");
                assert_layout(p.call.inputs[i], at);
                at = after(at, "chosen");
                assert_layout(sharding.inputs[i], at);
                if (sharding.inputs[i] != p.call.inputs[i]) {
                    check_redistribution(&p, i, &sharding, strtoll(after(at, "bytes_total"), NULL, 10));
                    moved++;
                }
            }
            assert_layout(sharding.outputs[0], after(at, "outputs"));
            free(told);
        }
        weft_rule_table_free(&table);
        weft_mesh_delete(p.mesh);
    }
    assert_true(moved > 50);
    assert_true(refused < 75);
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static void the_page(void **state)
{
    (void)state;
    const char *text =
        run_tool("--mesh 2x2 --op 'mk,kn->mn' --input 64x32:S0,R --input 32x16:S0,R", false, 0);
    assert_says(text, "16 combinations of strategies possible, 0 not\n");
    assert_says(text, "m,n      [S0,R]       [R,S1]       -> [S0,S1]");
    assert_says(text, "    ... and 4 more\n");
    assert_says(text, "chosen (*): least predicted cost: 37.5 us, the next one 42.1 us\n");
    assert_says(text, "input 0  f32[64, 32] [S0,R] on 2x2\n    as it is\n");
    assert_says(text, "    to f32[32, 16] [R,S1] on 2x2: direct, 1 stage\n    2048 bytes in all, at most 512 into a rank");
    assert_says(text, "output  f32[64, 16] [S0,S1] on 2x2\n");
    text = run_tool("--mesh 4 --op 'mk,kn->mn' --input 64x32:S1:f64 --input 32x16:S0:f64", false, 0);
    assert_says(text, "the inputs fit as they are");
    assert_says(text, "output  f64[64, 16] [P(sum)] on 4\n");
    text = run_tool("--mesh 65536 --op 'ab->ba' --input 65536x65536:S0", false, 0);
    assert_says(text, "output  f32[65536, 65536] [S1] on 65536\n");
    assert_says(run_tool("--help", false, 0), "--op mk,kn->mn");
}

/* 64 rows of 40 bytes on 4 ranks: each of 3 borders is read across from both sides, 2 and 1 rows. */
static void halos(void **state)
{
    (void)state;
    const char *text = run_tool("--mesh 4 --op 'h~w->hw' --input 64x10:S0 --halo h:2,1", false, 0);
    assert_says(text, "input 0  f32[64, 10] [S0] on 4\n    as it is\n"
                      "    read across ranks: halo; 360 bytes in all, at most 120 into a rank; at most 2 "
                      "messages into a rank");
    assert_says(text, "output  f32[64, 10] [S0] on 4\n");
    text = run_tool("--mesh 4 --op 'h~w->hw' --input 64x10:S0 --halo h:0,1,2 --sizes 32", false, 0);
    assert_says(text, "output  f32[32, 10] [S0] on 4\n");
    assert_null(strstr(text, "read across")); /* pairs of rows lie together */
    text = run_tool("--mesh 4 --op 'h~w,h->hw' --input 64x10:S1 --input 64:R --halo 0h:1,1 --json", false, 0);
    assert_null(strstr(text, "\"reads\""));
    text = run_tool("--mesh 4 --op 'h~w->hw' --input 64x10:S0 --halo h:2,1 --json", false, 0);
    assert_says(text, "\"reads\": {\"kind\": \"halo\", \"bytes_total\": 360, \"bytes_in_max\": 120,");
}

static void operations_by_name(void **state)
{
    (void)state;
    const char *text = run_tool("--mesh 2 --op add --input 8x4:S0 --input 4:R:i64", false, 0);
    assert_says(text, "operation  add  ...,...->...");
    assert_says(text, "a  f32[8, 4] [S0] on 2");
    assert_says(text, "b  i64[4] [R] on 2");
    assert_says(text, "output  f32[8, 4] [S0] on 2");
    /* The same as the library's linearity lets it. */
    text = run_tool("--mesh 2 --op add --input 8:P --input 8:P", false, 0);
    assert_says(text, "output  f32[8] [P(sum)] on 2");
    text = run_tool("--mesh 2 --op eq --input 8:S0 --input 8:S0", false, 0);
    assert_says(text, "output  bool[8] [S0] on 2");
    text = run_tool("--mesh 2 --op to_type --input 8:S0 --type i32", false, 0);
    assert_says(text, "output  i32[8] [S0] on 2");
}

static void bad_input_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
    } bad[] = {
        { "--op add", "--input: add takes 2, and 0 are given" },
        { "--op add --input 4:R,R", "--input: add takes 2, and 1 is given" },
        { "--op nope --input 4:R,R", "--op: \"nope\" is no rule" },
        { "--op matmul --input 4:R,R", "--op: \"matmul\" is no rule" },
        { "--op 'a,a->' --input 4:R,R --input 5:R,R", "--input: input 1 has size 5 in dimension 0" },
        { "--op 'a->a' --input 4x4:R,R", "--input: input 0 has 2 dimensions, expected 1" },
        { "--op 'a->a' --input 4", "--input: \"4\": expected SHAPE:PLACEMENTS" },
        { "--op 'a->a' --input 4:R", "--input: text is \"R\", expected 2 placements" },
        { "--op 'a->a' --input 4:S1,R", "--input: " },
        { "--op 'a->a' --input 4:R,R:x", "--input: \"x\": expected f64" },
        { "--op 'a->a' --input -4:R,R", "--input: \"-4\"" },
        { "--op 'a->' --input 4:R,R --shape 4", "--shape: not with --op" },
        { "--op 'a->a' --input 4:R,R --dtype f32", "--dtype: not with --op" },
        { "--op 'a->a' --input 4:R,R --linear x", "--linear: \"x\"" },
        { "--op neg --input 4:R,R --linear each", "--linear: operation neg says that itself" },
        { "--op 'a->a' --input 4:R,R --rule 1", "--rule: \"1\"" },
        { "--op 'a->a' --input 4:R,R --type u7", "--type: \"u7\"" },
        { "--op neg --input 4:R,R --type f32", "--type: the type of the output of neg" },
        { "--op to_type --input 4:R,R", "--type: missing" },
        { "--op neg --input 4:R,R:bool", "--input: a is bool, expected " },
        { "--op 'a~->a' --input 4:R,R", "--halo: halos has 0 entries, and rule \"a~->a\" has 1" },
        { "--op 'a~->a' --input 4:R,R --halo a", "--halo: \"a\": expected LETTER" },
        { "--op 'a~->a' --input 4:R,R --halo a:", "--halo: \"\": expected a number" },
        { "--op 'a~->a' --input 4:R,R --halo b:1", "--halo: halos[0] is of input 0 and letter 'b'" },
        { "--op 'a~->a' --input 4:R,R --halo 3a:1", "--halo: halos[0] is of input 3" },
        { "--op 'a~->a' --input 4:R,R --halo a:1,1,1,1,1", "--halo: \"a:1,1,1,1,1\"" },
        { "--op 'a~->a' --input 4:R,R --halo a:1,1,1,-1", "--halo: halos[0].over is -1" },
        { "--op add --input 4:R,R --input 4:R,R --halo a:1,1", "--halo: operation add says that itself" },
        { "--halo a:1,1 --shape 4 --from R,R --to R,R", "--halo: not without --op" },
        { "--op 'a->b' --input 4:R,R", "--op: no size is given for b" },
        { "--op 'a->a' --input 4:R,R --sizes 3", "--op: 1 sizes are given" },
        { "--op 'AbC->AC' --input 4x4:R,R --leading 9", "--leading: \"9\"" },
        { "--op 'a-a->' --input 4:R,R", "--op: rule" },
        { "--input 4:R,R --shape 4 --from R,R --to R,R", "--input: not without --op" },
        { "--sizes 4 --shape 4 --from R,R --to R,R", "--sizes: not without --op" },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        char arguments[300];
        snprintf(arguments, sizeof(arguments), "--mesh 2x2 %s", bad[i].arguments);
        assert_says(run_tool(arguments, true, 2), bad[i].says);
        assert_string_equal(run_tool(arguments, false, 2), "");
    }
    assert_says(run_tool("--op 'a->a' --input 4:R", true, 2), "--mesh: missing");
}

int main(int argc, char **argv)
{
    program = argc > 1 ? argv[1] : "";
    if (access(program, X_OK) != 0) {
        fprintf(stderr, "usage: test-weft_plan_op PROGRAM\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_calls, fixture_new, fixture_free),
        cmocka_unit_test(the_page),
        cmocka_unit_test(halos),
        cmocka_unit_test(operations_by_name),
        cmocka_unit_test(bad_input_is_named),
    };
    return cmocka_run_group_tests_name("weft_plan_op", tests, NULL, NULL);
}
