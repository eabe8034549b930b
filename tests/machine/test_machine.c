/* src/plan: figures of a machine, what follows from them, and their text form, whole and broken. */
#include "plan_support.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/model.h"

static double random_figure(prng *random)
{
    return ldexp(1 + (double)prng_below(random, 1000) / 1000, (int)prng_below(random, 14) - 2);
}

static weft_link random_link(prng *random)
{
    bool known = prng_below(random, 3) > 0;
    weft_link link = { random_figure(random), random_figure(random), random_figure(random) };
    return known ? link : (weft_link){ 0 };
}

static weft_machine random_machine(prng *random)
{
    return (weft_machine){ random_figure(random), 4 * random_figure(random), 4 * random_figure(random),
                           random_link(random), random_link(random) };
}

static size_t written(const weft_machine *machine, char *text, size_t size)
{
    FILE *file = fmemopen(text, size, "w");
    assert_non_null(file);
    assert_true(weft_machine_write(machine, file));
    long length = ftell(file);
    fclose(file);
    return (size_t)length;
}

static bool read_back(const char *text, size_t length, weft_machine *machine)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, length + (length == 0), "r");
    assert_non_null(file);
    bool whole = length > 0 && weft_machine_read(file, machine);
    fclose(file);
    return whole;
}

/* ---- the text form ------------------------------------------------------------------------------------- */

static void what_is_written_reads_back(void **state)
{
    (void)state;
    prng random = prng_start(1);
    for (int i = 0; i < 500; i++) {
        char text[1024], again[1024];
        weft_machine machine = random_machine(&random), read;
        size_t length = written(&machine, text, sizeof(text));
        assert_true(read_back(text, length, &read));
        assert_int_equal(written(&read, again, sizeof(again)), length);
        assert_memory_equal(text, again, length);
        assert_true(weft_link_known(&read.near) == weft_link_known(&machine.near));
        assert_true(weft_link_known(&read.far) == weft_link_known(&machine.far));
    }
}

static void a_part_of_a_file_is_none(void **state)
{
    (void)state;
    char text[1024];
    weft_machine machine = WEFT_MACHINE_DEFAULT, untouched = machine;
    size_t length = written(&machine, text, sizeof(text));
    machine.task_us = untouched.task_us = 7;
    for (size_t part = 0; part + 1 < length; part++) { /* the last byte is a line's end */
        assert_false(read_back(text, part, &machine));
        assert_memory_equal(&machine, &untouched, sizeof(machine));
    }
}

static void texts_that_are_no_machine(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *from, *to;
    } changes[] = {
        { THIS_ROW, "weft-machine 2", "weft-machine 1" },
        { THIS_ROW, "weft-machine 2", "weft-machine 3" },
        { THIS_ROW, "weft-machine 2", "starpu 2" },
        { THIS_ROW, "task_us 2.000", "task_us 0.000" },
        { THIS_ROW, "task_us 2.000", "task_us -2.000" },
        { THIS_ROW, "task_us 2.000", "task_us nan" },
        { THIS_ROW, "task_us 2.000", "task_us inf" },
        { THIS_ROW, "task_us 2.000", "task_us" },
        { THIS_ROW, "task_us 2.000", "task_us two" },
        { THIS_ROW, "task_us 2.000", "task_us 2" },
        { THIS_ROW, "task_us 2.000", "task_us 2,000" },
        { THIS_ROW, "task_us 2.000", "task_us 2.0" },
        { THIS_ROW, "task_us 2.000", "task_us 2.0000" },
        { THIS_ROW, "task_us 2.000", "task_us .000" },
        { THIS_ROW, "task_us 2.000", "task_us 2.000.000" },
        { THIS_ROW, "task_us 2.000", "task_us 0x2.000" },
        { THIS_ROW, "5000.000", "1e300" },
        { THIS_ROW, "5000.000", "100000000.001" },
        { THIS_ROW, "5000.000", "99999999999999999999.000" },
        { THIS_ROW, "copy_bytes", "copied_bytes" },
        { THIS_ROW, "near_latency_us 30.000", "near_latency_us 0.000" },
        { THIS_ROW, "near_message_us 3.000", "near_message_us -3.000" },
        { THIS_ROW, "end", "" },
    };
    char whole[1024] = "";
    weft_machine machine = WEFT_MACHINE_DEFAULT;
    written(&machine, whole, sizeof(whole));
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(changes); i++) {
        enter_row(changes[i].place, __func__);
        char text[2048];
        const char *place = strstr(whole, changes[i].from);
        assert_non_null(place);
        int length = snprintf(text, sizeof(text), "%.*s%s%s", (int)(place - whole), whole, changes[i].to,
                              place + strlen(changes[i].from));
        assert_false(read_back(text, (size_t)length, &machine));
    }
    leave_rows();
    prng random = prng_start(2);
    for (int i = 0; i < 2000; i++) { /* any bytes may lie there: nothing to be met but an answer */
        char text[1024];
        size_t length = written(&machine, text, sizeof(text));
        for (int k = 0; k < 3; k++) {
            text[prng_below(&random, (int64_t)length)] = (char)prng_below(&random, 256);
        }
        weft_machine read;
        if (read_back(text, length, &read)) {
            assert_true(read.task_us > 0 && read.copy_bytes_per_us > 0 && read.product_flops_per_us > 0);
        }
    }
}

/* The program may have set a locale with a decimal comma; kept figures are for all programs. */
static void figures_are_the_same_in_every_locale(void **state)
{
    (void)state;
    static const char *const with_comma[] = { "de_DE.UTF-8", "de_DE.utf8",  "de_DE",      "fr_FR.UTF-8",
                                              "fr_FR",       "ru_RU.UTF-8", "pl_PL.UTF-8" };
    weft_machine machine = WEFT_MACHINE_DEFAULT, read;
    machine.task_us = 2.5;
    char text[1024], again[1024];
    size_t length = written(&machine, text, sizeof(text));
    assert_non_null(strstr(text, "\ntask_us 2.500\n"));
    bool found = false;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(with_comma) && !found; i++) {
        found = setlocale(LC_NUMERIC, with_comma[i]) != NULL && localeconv()->decimal_point[0] == ',';
    }
    bool whole = read_back(text, length, &read);
    size_t length_again = written(&machine, again, sizeof(again));
    setlocale(LC_NUMERIC, "C");
    if (!found) {
        print_message("no locale with a comma here\n");
        skip();
    }
    assert_true(whole && read.task_us == 2.5);
    assert_int_equal(length_again, length);
    assert_memory_equal(text, again, length);
}

static void what_no_machine_has_is_not_written(void **state)
{
    (void)state;
    static const double figures[] = { 0, -1, 2e8, INFINITY, NAN };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(figures); i++) {
        char text[1024];
        weft_machine machine = WEFT_MACHINE_DEFAULT;
        machine.copy_bytes_per_us = figures[i];
        FILE *file = fmemopen(text, sizeof(text), "w");
        assert_non_null(file);
        assert_false(weft_machine_possible(&machine));
        assert_false(weft_machine_write(&machine, file));
        fclose(file);
    }
}

/* ---- what follows -------------------------------------------------------------------------------------- */

/* The largest and the least figures that a file may have, in every combination. */
static void figures_that_a_file_may_have_are_enough(void **state)
{
    (void)state;
    enum { FIGURES = 9 };
    for (int bits = 0; bits < 1 << FIGURES; bits++) {
        double f[FIGURES];
        for (int i = 0; i < FIGURES; i++) {
            f[i] = (bits >> i & 1) != 0 ? 1e8 : i == 1 || i == 2 ? 1 : 1e-3;
        }
        weft_machine machine = { f[0], f[1], f[2], { f[3], f[4], f[5] }, { f[6], f[7], f[8] } }, read;
        char text[1024];
        assert_true(read_back(text, written(&machine, text, sizeof(text)), &read));
        assert_memory_equal(&read, &machine, sizeof(read));
        weft_machine rounded = weft_machine_rounded(&read);
        for (int machines = 1; machines <= 2; machines++) {
            weft_panel_policy panels = weft_machine_panels(&rounded);
            weft_message_sizes sizes = weft_machine_messages(&rounded, (weft_spread){ 2, machines });
            assert_true(panels.min_bytes >= 0 && panels.min_bytes < INT64_MAX / 16);
            assert_in_range(panels.min_rows, 64, 256);
            assert_in_range(sizes.max_bytes, 48 * 1024, 1 << 20);
        }
    }
}

static void check_rounded(double figure, double rounded)
{
    int exponent;
    if (figure == 0) {
        assert_true(rounded == 0);
        return;
    }
    assert_true(frexp(rounded, &exponent) == 0.5);
    assert_true(rounded / figure < 1.4143 && figure / rounded < 1.4143);
}

static void figures_are_rounded_to_powers_of_two(void **state)
{
    (void)state;
    prng random = prng_start(3);
    for (int i = 0; i < 1000; i++) {
        weft_machine machine = random_machine(&random), rounded = weft_machine_rounded(&machine);
        weft_machine twice = weft_machine_rounded(&rounded);
        check_rounded(machine.task_us, rounded.task_us);
        check_rounded(machine.copy_bytes_per_us, rounded.copy_bytes_per_us);
        check_rounded(machine.product_flops_per_us, rounded.product_flops_per_us);
        check_rounded(machine.near.latency_us, rounded.near.latency_us);
        check_rounded(machine.far.bytes_per_us, rounded.far.bytes_per_us);
        assert_true(twice.task_us == rounded.task_us && twice.far.message_us == rounded.far.message_us);
    }
}

static void the_built_in_machine_has_the_default_costs(void **state)
{
    (void)state;
    static const weft_machine machine = WEFT_MACHINE_DEFAULT;
    static const weft_cost_model costs = WEFT_COST_MODEL_DEFAULT;
    static const weft_panel_policy panels = WEFT_PANEL_POLICY_DEFAULT;
    for (int machines = 1; machines <= 2; machines++) {
        weft_cost_model c = weft_machine_cost(&machine, (weft_spread){ 2, machines });
        assert_true(c.local_message_us == costs.local_message_us && c.local_byte_us == costs.local_byte_us);
        assert_true(c.local_latency_us == costs.local_latency_us &&
                    c.remote_latency_us == costs.remote_latency_us);
        assert_true(c.remote_message_us == costs.remote_message_us &&
                    c.remote_byte_us == costs.remote_byte_us);
    }
    weft_panel_policy p = weft_machine_panels(&machine);
    assert_true(p.byte_us == panels.byte_us && p.panel_us == panels.panel_us);
    assert_int_equal(p.min_bytes, panels.min_bytes);
    assert_int_equal(p.min_rows, panels.min_rows);
    assert_int_equal(p.max_panels, panels.max_panels);
    assert_int_equal(p.whole_bytes, 0);
    assert_memory_equal(&(weft_panel_policy[]){ weft_machine_prescribed_panels(&machine, 0, 0, (weft_device_world){ 0 }) }, &p, sizeof(p));
    /* Devices want whole shards up to a 64th of their memory, and share those that are worth it; what the program prescribes counts
     * all the same. */
    p = weft_machine_prescribed_panels(&machine, 0, 0, (weft_device_world){ 1 << 20, 1 });
    assert_int_equal(p.min_bytes, panels.min_bytes);
    assert_int_equal(p.whole_bytes, 1 << 14);
    p = weft_machine_prescribed_panels(&machine, 5000, 100, (weft_device_world){ INT64_C(80) << 30, 3 });
    assert_int_equal(p.min_bytes, 40 << 20);
    assert_int_equal(p.whole_bytes, 1280 << 20);
    assert_int_equal(p.least_panels, 3);
    assert_int_equal(p.target_bytes, 5000);
    assert_int_equal(p.forced_rows, 100);
}

static void worlds_wait_for_their_own_link(void **state)
{
    (void)state;
    weft_machine machine = WEFT_MACHINE_DEFAULT;
    machine.near = (weft_link){ 1, 0.5, 8192 };
    machine.far = (weft_link){ 16, 4, 1024 };
    assert_true(weft_machine_link(&machine, (weft_spread){ 2, 1 }).bytes_per_us == 8192);
    assert_true(weft_machine_link(&machine, (weft_spread){ 4, 2 }).bytes_per_us == 1024);
    machine.far = (weft_link){ 0 };
    assert_true(weft_machine_link(&machine, (weft_spread){ 4, 2 }).bytes_per_us == 118);
}

static void messages_are_well_above_their_overhead(void **state)
{
    (void)state;
    prng random = prng_start(4);
    for (int i = 0; i < 1000; i++) {
        weft_machine machine = random_machine(&random);
        machine.far.message_us /= 16;
        weft_spread spread = { 2, 1 + (int)prng_below(&random, 2) };
        weft_link link = weft_machine_link(&machine, spread);
        weft_message_sizes sizes = weft_machine_messages(&machine, spread);
        assert_in_range(sizes.max_bytes, 48 * 1024, 1 << 20);
        assert_true(sizes.window_bytes >= 5 * sizes.max_bytes && sizes.window_bytes >= 256 * 1024);
        bool enough = (double)(sizes.max_bytes + 1) / link.bytes_per_us >= 50 * link.message_us;
        assert_true(enough || sizes.max_bytes == 1 << 20 || link.bytes_per_us <= 500);
    }
}

/* ---- machines for predictions -------------------------------------------------------------------------- */

/* The built-in figures and these lines. */
static bool read_model(const char *lines, weft_machine_model *model, char *why, size_t size)
{
    char text[2048];
    const weft_machine machine = WEFT_MACHINE_DEFAULT;
    size_t length = written(&machine, text, sizeof(text));
    length -= strlen("end\n");
    snprintf(text + length, sizeof(text) - length, "%s", lines);
    FILE *file = fmemopen(text, strlen(text), "r");
    assert_non_null(file);
    bool whole = weft_machine_model_read(file, model, why, size);
    fclose(file);
    return whole;
}

static void rates_stand_between_figures_and_end(void **state)
{
    (void)state;
    const weft_machine machine = WEFT_MACHINE_DEFAULT;
    const weft_machine_model own = weft_machine_model_of(&machine);
    weft_machine_model model;
    char why[128] = "";
    assert_true(read_model("end\n", &model, why, sizeof(why)));
    assert_memory_equal(&model, &own, sizeof(own));
    assert_true(read_model("workers 4\nf64_flops_per_us 12.5\nsubmit_us 0\nend\n", &model, why, sizeof(why)));
    assert_true(model.workers == 4 && model.f64_flops_per_us == 12.5 && model.submit_us == 0);
    assert_true(model.f16_flops_per_us == own.f16_flops_per_us && model.random_bytes_per_us == own.random_bytes_per_us);
    /* What is written reads back. */
    char text[2048];
    FILE *file = fmemopen(text, sizeof(text), "w+");
    assert_non_null(file);
    assert_true(weft_machine_model_write(&model, file));
    rewind(file);
    weft_machine_model again;
    assert_true(weft_machine_model_read(file, &again, why, sizeof(why)));
    fclose(file);
    assert_true(again.workers == 4 && again.f64_flops_per_us == 12.5 && again.submit_us == 0);
}

static void broken_models_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *why;
    } cases[] = {
        { "", "the line \"end\" is missing" },
        { "workers 4\n", "the line \"end\" is missing" },
        { "workers\n", "workers has no number" },
        { "workers four\nend\n", "workers is \"four\", which is no number" },
        { "workers -1\nend\n", "workers is \"-1\", which is no number" },
        { "workers 1.\nend\n", "workers is \"1.\", which is no number" },
        { "workers 1.1234567\nend\n", "which is no number" },
        { "workers 1234567890\nend\n", "which is no number" },
        { "wheels 4\nend\n", "there is no figure \"wheels\"" },
        { "f64_flops_per_us 0\nend\n", "f64_flops_per_us is 0, expected more than 0" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_machine_model model, before;
        memset(&model, 7, sizeof(model));
        before = model;
        char why[128] = "";
        assert_false(read_model(cases[i].lines, &model, why, sizeof(why)));
        if (strstr(why, cases[i].why) == NULL) {
            fail_msg("\"%s\": \"%s\" has no \"%s\"", cases[i].lines, why, cases[i].why);
        }
        assert_memory_equal(&model, &before, sizeof(model));
    }
    char why[128] = "";
    weft_machine_model model;
    char nothing[] = "weft-machine 1\n";
    FILE *file = fmemopen(nothing, strlen(nothing), "r");
    assert_non_null(file);
    assert_false(weft_machine_model_read(file, &model, why, sizeof(why)));
    fclose(file);
    assert_non_null(strstr(why, "it does not begin with the figures"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_stand_between_figures_and_end),
        cmocka_unit_test(broken_models_are_refused_with_a_reason),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_part_of_a_file_is_none),
        cmocka_unit_test(texts_that_are_no_machine),
        cmocka_unit_test(figures_are_the_same_in_every_locale),
        cmocka_unit_test(what_no_machine_has_is_not_written),
        cmocka_unit_test(figures_that_a_file_may_have_are_enough),
        cmocka_unit_test(figures_are_rounded_to_powers_of_two),
        cmocka_unit_test(the_built_in_machine_has_the_default_costs),
        cmocka_unit_test(worlds_wait_for_their_own_link),
        cmocka_unit_test(messages_are_well_above_their_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
