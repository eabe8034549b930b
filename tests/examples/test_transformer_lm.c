/* The transformer: the same losses in every layout and on any number of processes; checkpoints; its options.
 *
 * Arguments: the program transformer_lm, a text to learn. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "example_runs.h"

enum { STEPS = 20 };

static const char *program, *text;

/* A small model; `more` comes last, and wins. `processes` 0: without mpirun. Returns the exit code. */
static int start(int processes, const char *more)
{
    char arguments[2048];
    const char *path = example_path("curve");
    remove(path);
    snprintf(arguments, sizeof(arguments),
             "--layers 2 --width 32 --heads 4 --kv-heads 2 --context 16 --batch 8 --steps %d --warmup 5 "
             "--validate 0 "
             "--sample 3 --text '%s' --curve %s --json %s",
             STEPS, text, path, more);
    return example_run(processes, program, arguments);
}

static void train(int processes, const char *more, int steps, double losses[])
{
    int code = start(processes, more);
    if (code != 0) {
        fail_msg("transformer_lm %s on %d processes gave %d: %s", more, processes, code,
                 example_output("err"));
    }
    example_curve("curve", steps, losses);
}

static void assert_near(const char *what, const double a[], const double b[], int steps, double tolerance)
{
    for (int i = 0; i < steps; i++) {
        if (!(fabs(a[i] - b[i]) <= tolerance)) {
            fail_msg("%s: the loss of step %d is %.9g, and %.9g on one rank", what, i, a[i], b[i]);
        }
    }
}

/* Kept for as long as the options stay the same. */
static const double *on_one_rank(const char *options)
{
    static double losses[STEPS];
    static char last[64] = "none";
    if (strcmp(last, options) != 0) {
        train(0, options, STEPS, losses);
        snprintf(last, sizeof(last), "%s", options);
    }
    return losses;
}

/* As one rank does, and twice the same bits. `options`: of both runs. */
static void compare_with_one_rank(int processes, const char *layout, const char *options)
{
    const double *one = on_one_rank(options);
    double many[STEPS], again[STEPS];
    char more[256];
    snprintf(more, sizeof(more), "%s %s", layout, options);
    train(processes, more, STEPS, many);
    assert_near(layout, many, one, STEPS, 1e-4);
    train(processes, more, STEPS, again);
    assert_memory_equal(many, again, sizeof(many));
    assert_true(one[STEPS - 1] < one[0] - 0.5); /* it learns */
}

static void data_parallel(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=4", "");
}

static void tensor_parallel(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh tp=2 --parallel tp", "");
}

static void data_and_tensor_parallel(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh tp=2,dp=2 --parallel tp", "");
}

static void fully_sharded(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=3 --parallel fsdp", "--batch 6");
}

static void tensor_parallel_and_fully_sharded(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel tp+fsdp", "");
}

static void context_parallel(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel context", "");
    compare_with_one_rank(0, "--mesh tp=3 --parallel context --graph", "");
}

static void sequence_parallel(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel sequence", "");
}

/* Orthogonal updates need whole matrices, which some ranks then have. */
static void muon_in_layouts(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel tp+fsdp", "--muon");
    compare_with_one_rank(2, "--mesh dp=2 --parallel fsdp", "--muon");
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel auto", "--muon");
}

/* Layouts that the program has not named; other ones on other numbers of processes. */
static void chosen_layouts(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel auto", "");
    compare_with_one_rank(0, "--mesh tp=3 --parallel auto", "--tie");
#ifdef WEFT_HAVE_MPI
    compare_with_one_rank(2, "--mesh dp=2,tp=2 --parallel auto", "");
#endif
    double losses[STEPS];
    train(0, "--mesh dp=2,tp=2 --parallel auto --table", STEPS, losses);
    assert_non_null(strstr(example_output("out"), "predicted: "));
    assert_non_null(strstr(example_output("out"), "weft_cross_entropy"));
}

/* Sequences of one batch on two ranks: three and two. */
static void uneven_batch(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2", "--batch 5");
}

static void sequence_parallel_with_an_uneven_batch(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel sequence", "--batch 3");
}

/* One head of keys and values for all queries, and one for each. */
static void groups_of_heads(void **state)
{
    (void)state;
    compare_with_one_rank(0, "--mesh dp=2", "--kv-heads 1");
    compare_with_one_rank(0, "--mesh tp=4", "--kv-heads 4");
}

static long long parameters_printed(void)
{
    long long count = 0;
    const char *line = strstr(example_output("out"), "parameters");
    assert_true(line != NULL && sscanf(line, "parameters %lld", &count) == 1);
    return count;
}

/* One weight, sharded by the embedding's entry of the plan, with two uses. */
static void tied_head(void **state)
{
    (void)state;
    double losses[STEPS];
    train(0, "", STEPS, losses);
    long long untied = parameters_printed();
    train(0, "--tie", STEPS, losses);
    assert_int_equal(untied - parameters_printed(), 32 * 256);
    compare_with_one_rank(0, "--mesh dp=2 --parallel fsdp", "--tie");
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel tp", "--tie");
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel tp+fsdp", "--tie");
    compare_with_one_rank(0, "--mesh dp=2,tp=2 --parallel sequence", "--tie");
}

#ifdef WEFT_HAVE_MPI
/* The number of processes changes no bit: the order of sums is the same. */
static void spreading_changes_nothing(void **state)
{
    (void)state;
    static const char *const layouts[] = { "--mesh dp=2,tp=2 --parallel tp",
                                           "--mesh dp=2,tp=2 --parallel tp+fsdp",
                                           "--mesh dp=2,tp=2 --parallel sequence" };
    double together[STEPS], apart[STEPS];
    for (int i = 0; i < 3; i++) {
        train(0, layouts[i], STEPS, together);
        for (int processes = 2; processes <= 4; processes += 2) {
            train(processes, layouts[i], STEPS, apart);
            assert_memory_equal(together, apart, sizeof(together));
        }
    }
}
#endif

/* Stopped after 8 steps, saved, and resumed, also in another layout. */
static void resumed_run_is_the_same(void **state)
{
    (void)state;
    double whole[STEPS], first[8], rest[STEPS - 8];
    char more[512];
    train(0, "--mesh dp=2", STEPS, whole);
    snprintf(more, sizeof(more), "--mesh dp=2 --stop 8 --save %s", example_path("checkpoint"));
    train(0, more, 8, first);
    assert_memory_equal(first, whole, sizeof(first));
    snprintf(more, sizeof(more), "--mesh dp=2 --load %s", example_path("checkpoint"));
    train(0, more, STEPS - 8, rest);
    assert_memory_equal(rest, whole + 8, sizeof(rest));
    snprintf(more, sizeof(more), "--mesh tp=2,dp=2 --parallel tp+fsdp --load %s", example_path("checkpoint"));
    train(0, more, STEPS - 8, rest);
    assert_near("resumed in another layout", rest, whole + 8, STEPS - 8, 1e-4);
    /* From 2x2 to 3, 1 and 4x1. */
    static const char *const others[] = { "--mesh dp=3 --parallel fsdp", "--mesh dp=1", "--mesh dp=4 --parallel fsdp" };
    snprintf(more, sizeof(more), "--mesh dp=2,tp=2 --parallel tp+fsdp --stop 8 --save %s", example_path("grid"));
    train(0, more, 8, first);
    assert_near("2x2", first, whole, 8, 1e-4);
    for (int i = 0; i < 3; i++) {
        snprintf(more, sizeof(more), "%s --load %s", others[i], example_path("grid"));
        train(0, more, STEPS - 8, rest);
        assert_near(others[i], rest, whole + 8, STEPS - 8, 1e-4);
    }
}

/* --steps 0 --save: only the model, which another run begins with. */
static void initial_weights(void **state)
{
    (void)state;
    double seed_one[STEPS], loaded[STEPS];
    char more[512];
    train(0, "", STEPS, seed_one);
    snprintf(more, sizeof(more), "--steps 0 --save %s", example_path("weights"));
    train(0, more, 0, NULL);
    static char header[1 << 16];
    FILE *file = fopen(example_path("weights"), "rb");
    assert_non_null(file);
    size_t length = fread(header, 1, sizeof(header) - 1, file);
    fclose(file);
    for (size_t i = 0; i < length; i++) {
        header[i] = header[i] == '\0' ? ' ' : header[i]; /* so that strstr() sees all */
    }
    static const char *const names[] = { "embed.weight",
                                         "layers.0.attention_norm.weight",
                                         "layers.1.mlp.w3.weight",
                                         "layers.1.attention.wk.weight",
                                         "norm.weight",
                                         "head.weight" };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_non_null(strstr(header, names[i]));
    }
    assert_null(strstr(header, "adam"));
    /* From those weights, whatever the file is loaded into. */
    snprintf(more, sizeof(more), "--load %s --mesh dp=2,tp=2", example_path("weights"));
    train(0, more, STEPS, loaded);
    assert_near("loaded", loaded, seed_one, STEPS, 1e-4);
}

static void captured_steps_are_the_same(void **state)
{
    (void)state;
    static const char *const layouts[] = { "--mesh dp=2", "--mesh dp=2,tp=2 --parallel tp+fsdp", "--mesh tp=2 --parallel sequence --dtype bf16" };
    for (int i = 0; i < 3; i++) {
        double eager[STEPS], captured[STEPS];
        char more[256];
        train(0, layouts[i], STEPS, eager);
        snprintf(more, sizeof(more), "%s --graph", layouts[i]);
        train(0, more, STEPS, captured);
        assert_memory_equal(eager, captured, sizeof(eager));
#ifdef WEFT_HAVE_MPI
        train(2, more, STEPS, captured);
        assert_memory_equal(eager, captured, sizeof(eager));
#endif
    }
}

static void seed_matters(void **state)
{
    (void)state;
    double a[STEPS], b[STEPS];
    train(0, "--seed 1", STEPS, a);
    train(0, "--seed 2", STEPS, b);
    assert_memory_not_equal(a, b, sizeof(a));
}

/* Products in 16 bits, weights in 32. */
static void bf16_ends_near_f32(void **state)
{
    (void)state;
    enum { LONGER = 60 };
    double wide[LONGER], narrow[LONGER];
    train(0, "--steps 60 --mesh dp=2,tp=2", LONGER, wide);
    train(0, "--steps 60 --mesh dp=2,tp=2 --dtype bf16", LONGER, narrow);
    assert_memory_not_equal(wide, narrow, sizeof(wide));
    double end_wide = 0, end_narrow = 0;
    for (int i = LONGER - 10; i < LONGER; i++) {
        end_wide += wide[i] / 10;
        end_narrow += narrow[i] / 10;
    }
    assert_true(fabs(end_narrow - end_wide) <= 0.02 * end_wide);
}

static void last_line_is_json(void **state)
{
    (void)state;
    double losses[STEPS], first = 0, last = 0, seconds = 0;
    train(0, "--mesh tp=2", STEPS, losses);
    const char *line = example_last_line();
    assert_int_equal(
        sscanf(line,
               "{\"example\": \"transformer_lm\", \"mesh\": [1, 2], \"ranks\": 2, \"processes\": 1, "
               "\"steps\": 20, \"loss_first\": %lf, \"loss_last\": %lf, \"seconds\": %lf, "
               "\"tokens_per_s\": ",
               &first, &last, &seconds),
        3);
    assert_true(fabs(first - losses[0]) < 1e-4);
    const char *list = strstr(line, "\"losses\": [");
    assert_non_null(list);
    list = strchr(list, '[');
    for (int i = 0; i < STEPS; i++) {
        char *end = NULL;
        assert_true(fabs(strtod(list + 1, &end) - losses[i]) < 1e-6);
        list = end;
    }
    assert_string_equal(list, "]}\n");
    assert_non_null(strstr(line, "\"validation_loss\": "));
}

/* Its message has `part`, and its exit code is `code`. */
static void refused(const char *more, int code, const char *part)
{
    int got = start(0, more);
    const char *message = example_output("err");
    if (got != code || strstr(message, part) == NULL) {
        fail_msg("transformer_lm %s gave %d: %s", more, got, message);
    }
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    refused("--text /nonexistent/text", 1, "/nonexistent/text");
    refused("--mesh 2x2", 2, "--mesh");
    refused("--mesh dp=2,dp=2", 2, "--mesh");
    refused("--mesh dp=2,pp=2", 2, "--mesh");
    refused("--mesh dp=0", 2, "--mesh");
    refused("--parallel tensor", 2, "--parallel");
    refused("--mesh tp=4 --parallel tp --kv-heads 2", 2, "--kv-heads");
    refused("--heads 4 --kv-heads 3", 2, "--kv-heads");
    refused("--width 36 --heads 8", 2, "--width");
    refused("--width 36 --heads 4", 2, "--width");
    refused("--lr fast", 2, "--lr");
    refused("--dtype f64", 2, "--dtype");
    refused("--mesh tp=2 --table", 2, "--table");
    refused("--stop 100", 2, "--stop");
    refused("--context 60000", 1, "too short");
    refused("--load /nonexistent/file", 1, "/nonexistent/file");
    assert_int_equal(start(0, "--help"), 0);
    assert_string_equal(example_output("err"), "");
}

/* Weights of another model: the message names the tensor. */
static void other_weights_are_refused(void **state)
{
    (void)state;
    char more[512];
    snprintf(more, sizeof(more), "--steps 0 --save %s", example_path("weights"));
    train(0, more, 0, NULL);
    snprintf(more, sizeof(more), "--width 64 --load %s", example_path("weights"));
    refused(more, 1, "embed.weight");
    snprintf(more, sizeof(more), "--layers 3 --load %s", example_path("weights"));
    refused(more, 1, "layers.2.");
    snprintf(more, sizeof(more), "--stop 8 --save %s", example_path("checkpoint"));
    train(0, more, 8, (double[8]){ 0 });
    snprintf(more, sizeof(more), "--steps 7 --load %s", example_path("checkpoint"));
    refused(more, 1, "8 steps");
}

/* The losses stay; the clock counts nothing where no step is timed. */
static void untimed_steps_are_not_in_the_rate(void **state)
{
    (void)state;
    double all[STEPS], some[STEPS], none[STEPS];
    train(0, "--mesh tp=2", STEPS, all);
    train(0, "--mesh tp=2 --untimed 2", STEPS, some);
    assert_memory_equal(all, some, sizeof(all));
    assert_null(strstr(example_last_line(), "\"tokens_per_s\": null"));
    train(0, "--mesh tp=2 --untimed 20", STEPS, none);
    assert_memory_equal(all, none, sizeof(all));
    assert_non_null(strstr(example_last_line(), "\"seconds\": 0.000, \"tokens_per_s\": null"));
}

int main(int argc, char *argv[])
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s TRANSFORMER_LM TEXT\n", argv[0]);
        return 2;
    }
    program = argv[1];
    text = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_parallel),
        cmocka_unit_test(tensor_parallel),
        cmocka_unit_test(data_and_tensor_parallel),
        cmocka_unit_test(fully_sharded),
        cmocka_unit_test(tensor_parallel_and_fully_sharded),
        cmocka_unit_test(context_parallel),
        cmocka_unit_test(sequence_parallel),
        cmocka_unit_test(muon_in_layouts),
        cmocka_unit_test(chosen_layouts),
        cmocka_unit_test(uneven_batch),
        cmocka_unit_test(sequence_parallel_with_an_uneven_batch),
        cmocka_unit_test(groups_of_heads),
        cmocka_unit_test(tied_head),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(spreading_changes_nothing),
#endif
        cmocka_unit_test(resumed_run_is_the_same),
        cmocka_unit_test(initial_weights),
        cmocka_unit_test(other_weights_are_refused),
        cmocka_unit_test(captured_steps_are_the_same),
        cmocka_unit_test(seed_matters),
        cmocka_unit_test(bf16_ends_near_f32),
        cmocka_unit_test(last_line_is_json),
        cmocka_unit_test(untimed_steps_are_not_in_the_rate),
        cmocka_unit_test(bad_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
