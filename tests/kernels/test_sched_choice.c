/* Where the policy sends a ready task, and from which device an idle one takes one: decisions on numbers alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "prng.h"
#include "sched/choice.h"

enum { CPUS, FIRST, SECOND, PLACES };

/* CPUs and two devices that can execute the task, of which no model knows anything. */
static void start(weft_sched_place places[PLACES])
{
    for (int i = 0; i < PLACES; i++) {
        places[i] = (weft_sched_place){ .can = true, .device = i != CPUS, .task_us = NAN };
    }
}

static void test_data_decide_while_nothing_is_known(void **state)
{
    (void)state;
    weft_sched_place places[PLACES];
    start(places);
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[SECOND].bytes = 1;
    places[SECOND].waiting = 1000;
    assert_int_equal(weft_sched_choose(PLACES, places, false), SECOND);
    places[CPUS].bytes = 100; /* a device all the same */
    assert_int_equal(weft_sched_choose(PLACES, places, false), SECOND);
    places[FIRST].bytes = 1;
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[FIRST].can = places[SECOND].can = false;
    assert_int_equal(weft_sched_choose(PLACES, places, false), CPUS);
    places[CPUS].can = false;
    assert_int_equal(weft_sched_choose(PLACES, places, false), -1);
}

static void test_expected_end_decides_where_all_is_known(void **state)
{
    (void)state;
    weft_sched_place places[PLACES];
    start(places);
    places[CPUS].task_us = 100;
    places[FIRST].task_us = places[SECOND].task_us = 10;
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[FIRST].bytes = 1 << 20; /* of no account: the time to bring them is */
    places[SECOND].transfer_us = 5;
    places[FIRST].queued_us = 6;
    assert_int_equal(weft_sched_choose(PLACES, places, false), SECOND);
    places[FIRST].queued_us = places[SECOND].queued_us = 96;
    assert_int_equal(weft_sched_choose(PLACES, places, false), CPUS); /* 100, 106, 111 */
    places[CPUS].transfer_us = 10;
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[CPUS].transfer_us = 6; /* equal ends: fewer tasks, then the first */
    assert_int_equal(weft_sched_choose(PLACES, places, false), CPUS);
    places[CPUS].waiting = 1;
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[SECOND].task_us = NAN; /* one that can is not known: by data */
    places[SECOND].bytes = 2 << 20;
    assert_int_equal(weft_sched_choose(PLACES, places, false), SECOND);
    places[SECOND].can = false; /* one that cannot need not be known */
    places[FIRST].queued_us = 0;
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
}

static void test_exploring_executes_what_is_not_known(void **state)
{
    (void)state;
    weft_sched_place places[PLACES];
    start(places);
    places[FIRST].task_us = places[SECOND].task_us = 1;
    assert_int_equal(weft_sched_choose(PLACES, places, true), CPUS);
    assert_int_equal(weft_sched_choose(PLACES, places, false), FIRST);
    places[CPUS].can = false;
    assert_int_equal(weft_sched_choose(PLACES, places, true), FIRST);
    places[CPUS].can = true;
    places[SECOND].task_us = NAN;
    places[CPUS].waiting = 3; /* of the unknown ones that with the fewest tasks */
    assert_int_equal(weft_sched_choose(PLACES, places, true), SECOND);
}

/* Whatever the numbers: a place that can, and with known times none that ends before it. */
static void test_random_numbers(void **state)
{
    (void)state;
    prng rolls = prng_start(8);
    for (int round = 0; round < 20000; round++) {
        weft_sched_place places[6];
        int count = 1 + (int)prng_below(&rolls, 6), able = 0, known = 0;
        for (int i = 0; i < count; i++) {
            places[i] = (weft_sched_place){ .can = prng_below(&rolls, 4) > 0,
                                            .device = i > 0,
                                            .waiting = (size_t)prng_below(&rolls, 4),
                                            .bytes = (size_t)prng_below(&rolls, 3),
                                            .queued_us = (double)prng_below(&rolls, 5),
                                            .transfer_us = (double)prng_below(&rolls, 5),
                                            .task_us = prng_below(&rolls, 6) > 0 ? (double)prng_below(&rolls, 5) : NAN };
            able += places[i].can;
            known += places[i].can && !isnan(places[i].task_us);
        }
        bool explores = prng_below(&rolls, 2) == 0;
        int best = weft_sched_choose(count, places, explores);
        assert_int_equal(best >= 0, able > 0);
        assert_true(best < count && (best < 0 || places[best].can));
        assert_true(best < 0 || !explores || known == able || isnan(places[best].task_us));
        for (int i = 0; i < count && best >= 0; i++) {
            const weft_sched_place *a = &places[i], *b = &places[best];
            bool later = a->queued_us + a->transfer_us + a->task_us >= b->queued_us + b->transfer_us + b->task_us;
            assert_true(!a->can || known < able || later);
            assert_true(!a->can || explores || known == able || !a->device || b->device);
        }
    }
}

static void test_idle_devices_take_from_the_busiest(void **state)
{
    (void)state;
    assert_int_equal(weft_sched_victim(3, (size_t[]){ 0, 4, 3 }, 0), -1); /* these begin soon where they are */
    assert_int_equal(weft_sched_victim(3, (size_t[]){ 0, 5, 3 }, 0), 1);
    assert_int_equal(weft_sched_victim(3, (size_t[]){ 0, 5, 9 }, 0), 2);
    assert_int_equal(weft_sched_victim(3, (size_t[]){ 100, 5, 9 }, 0), 2); /* never from itself */
    assert_int_equal(weft_sched_victim(3, (size_t[]){ 100, 5, 9 }, 2), 0);
    assert_int_equal(weft_sched_victim(1, (size_t[]){ 100 }, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_decide_while_nothing_is_known),
        cmocka_unit_test(test_expected_end_decides_where_all_is_known),
        cmocka_unit_test(test_exploring_executes_what_is_not_known),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_idle_devices_take_from_the_busiest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
