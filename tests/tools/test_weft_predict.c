/* weft-predict: programs in fake worlds, its output, and its messages on bad input. Arguments: the tool, char_lm,
 * transformer_lm, a program without graphs, a text. */
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *tool, *char_lm, *transformer_lm, *minimal, *text_file;

/* The output of the tool with these options, on a program with its arguments. */
static char *predict(const char *options, const char *program, const char *arguments, bool errors, int expected)
{
    char line[2048];
    int status;
    snprintf(line, sizeof(line), "%s -- %s %s", options, program, arguments);
    char *text = output_of(tool, line, errors, &status);
    if (status != expected) {
        fail_msg("%s ended with %d, expected %d: %.500s", line, status, expected, text);
    }
    return text;
}

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

static char small[512];

static void a_transformer_on_another_mesh(void **state)
{
    (void)state;
    char *text = predict("--mesh dp=2,tp=2 --json", transformer_lm, small, false, 0);
    assert_true(number_in(text, "step_us") > 0);
    assert_int_equal(number_in(text, "processes"), 4);
    assert_int_equal(number_in(text, "simulated"), 4);
    assert_int_equal(number_in(text, "assumed"), 0);
    assert_true(number_in(text, "messages") > 0 && number_in(text, "bytes") > 0);
    double four = number_in(text, "bytes");
    free(text);
    text = predict("--mesh dp=2,tp=2 --processes 1 --json", transformer_lm, small, false, 0);
    assert_int_equal(number_in(text, "messages"), 0);
    assert_int_equal(number_in(text, "processes"), 1);
    assert_true(four > 0);
    free(text);
}

static void many_ranks(void **state)
{
    (void)state;
    char arguments[600];
    snprintf(arguments, sizeof(arguments), "%s --batch 512", small);
    char *text = predict("--mesh dp=512,tp=2 --json", transformer_lm, arguments, false, 0);
    assert_int_equal(number_in(text, "processes"), 1024);
    assert_true(number_in(text, "simulated") < 64);
    assert_true(number_in(text, "step_us") > 0);
    free(text);
}

static void lines_name_the_critical_path(void **state)
{
    (void)state;
    char arguments[600];
    snprintf(arguments, sizeof(arguments), "--graph --mesh {} --text %s", text_file);
    char *text = predict("--mesh 2x2 --runs 3 --workers 2 --cores 3 --hosts 2", char_lm, arguments, false, 0);
    static const char *const lines[] = { "graph ", "step ", "computing ", "communicating ", "processes      4, 4 of them",
                                         "critical path\n", " us  " };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(text, lines[i]) == NULL) {
            fail_msg("no \"%s\" in %s", lines[i], text);
        }
    }
    free(text);
}

/* Links ten times as fast make a step of messages shorter; the same file gives the same time: rates, nothing is measured but the
 * submitting thread. */
static void a_machine_of_a_file(void **state)
{
    (void)state;
    double us[2];
    for (int fast = 0; fast < 2; fast++) {
        char path[] = "/tmp/weft-machine-XXXXXX", options[128];
        int descriptor = mkstemp(path);
        FILE *file = fdopen(descriptor, "w");
        assert_non_null(file);
        fprintf(file, "weft-machine 2\ntask_us 2.000\ncopy_bytes_per_us 5000.000\nproduct_flops_per_us 50000.000\n"
                      "near_latency_us 30.000\nnear_message_us 3.000\nnear_bytes_per_us 118.000\n"
                      "far_latency_us 30.000\nfar_message_us 3.000\nfar_bytes_per_us %d.000\nworkers 4\nend\n",
                fast ? 1000 : 1);
        fclose(file);
        snprintf(options, sizeof(options), "--mesh dp=4 --json --machine %s", path);
        char *text = predict(options, transformer_lm, small, false, 0);
        us[fast] = number_in(text, "step_us");
        free(text);
        unlink(path);
    }
    assert_true(us[1] < us[0] / 10);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *options, *text;
    } wrong[] = { { "", "--mesh and --ranks" },
                  { "--mesh 2x2 --ranks 4", "--mesh and --ranks" },
                  { "--mesh two", "\"two\"" },
                  { "--mesh 2x", "\"2x\"" },
                  { "--mesh dp=", "\"dp=\"" },
                  { "--ranks 0", "\"0\"" },
                  { "--ranks 4 --processes 5", "5 for 4 ranks" },
                  { "--ranks 4 --workers many", "\"many\"" },
                  { "--ranks 4 --timeline a,b", "a comma" },
                  { "--ranks 4 --wrong", "try" } };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int status;
        char line[512];
        snprintf(line, sizeof(line), "%s -- %s", wrong[i].options, minimal);
        char *text = output_of(tool, line, true, &status);
        for (char *c = text; *c == 'T'; c++) {
            *c = 't';
        }
        if (status == 0 || (strstr(text, wrong[i].text) == NULL && strstr(text, "Try") == NULL)) {
            fail_msg("%s: status %d, %s", line, status, text);
        }
        free(text);
    }
    free(predict("--ranks 4", "/nowhere/program", "", true, 1));
    char *missing = predict("", "/nowhere/step.graph", "", true, 2);
    assert_non_null(strstr(missing, "/nowhere/step.graph: No such file"));
    free(missing);
    char *text = predict("--ranks 4 --machine /nowhere/machine", transformer_lm, "--graph", true, 2);
    assert_non_null(strstr(text, "--machine /nowhere/machine: No such file"));
    free(text);
    text = predict("--ranks 4", minimal, "", true, 1);
    assert_non_null(strstr(text, "has not run a graph"));
    free(text);
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s WEFT-PREDICT CHAR_LM TRANSFORMER_LM MINIMAL TEXT\n", argv[0]);
        return 1;
    }
    tool = argv[1];
    char_lm = argv[2];
    transformer_lm = argv[3];
    minimal = argv[4];
    text_file = argv[5];
    snprintf(small, sizeof(small), "--graph --mesh {} --layers 1 --width 32 --context 32 --text %s", text_file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transformer_on_another_mesh),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(lines_name_the_critical_path),
        cmocka_unit_test(a_machine_of_a_file),
        cmocka_unit_test(bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
