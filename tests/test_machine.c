/* src/plan: figures of a machine, what follows from them, and their text form, whole and broken. */
#include "plan_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/machine.h"

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
    static const char *const changes[][2] = {
        { "weft-machine 1", "weft-machine 2" },
        { "weft-machine 1", "starpu 1" },
        { "task_us 2", "task_us 0" },
        { "task_us 2", "task_us -2" },
        { "task_us 2", "task_us nan" },
        { "task_us 2", "task_us inf" },
        { "task_us 2", "task_us" },
        { "task_us 2", "task_us two" },
        { "5000", "1e300" },
        { "copy_bytes", "copied_bytes" },
        { "near_latency_us 30", "near_latency_us 0" },
        { "near_message_us 3", "near_message_us -3" },
        { "end", "" },
    };
    char whole[1024] = "";
    weft_machine machine = WEFT_MACHINE_DEFAULT;
    written(&machine, whole, sizeof(whole));
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(changes); i++) {
        char text[2048];
        const char *place = strstr(whole, changes[i][0]);
        assert_non_null(place);
        int length = snprintf(text, sizeof(text), "%.*s%s%s", (int)(place - whole), whole, changes[i][1],
                              place + strlen(changes[i][0]));
        assert_false(read_back(text, (size_t)length, &machine));
    }
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

/* ---- what follows -------------------------------------------------------------------------------------- */

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
    assert_int_equal(p.least_bytes, panels.least_bytes);
    assert_int_equal(p.least_rows, panels.least_rows);
    assert_int_equal(p.max_panels, panels.max_panels);
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
        assert_in_range(sizes.most_bytes, 48 * 1024, 1 << 20);
        assert_true(sizes.window_bytes >= 5 * sizes.most_bytes && sizes.window_bytes >= 256 * 1024);
        bool enough = (double)(sizes.most_bytes + 1) / link.bytes_per_us >= 50 * link.message_us;
        assert_true(enough || sizes.most_bytes == 1 << 20 || link.bytes_per_us <= 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_part_of_a_file_is_none),
        cmocka_unit_test(texts_that_are_no_machine),
        cmocka_unit_test(figures_are_rounded_to_powers_of_two),
        cmocka_unit_test(the_built_in_machine_has_the_default_costs),
        cmocka_unit_test(worlds_wait_for_their_own_link),
        cmocka_unit_test(messages_are_well_above_their_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
