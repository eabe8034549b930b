/* Each process's share of the machine, on synthetic topologies of hwloc. */
#include "support.h"

#include <stdlib.h>

#include "runtime/runtime.h"

enum { MAX_UNITS = 64 };

static int choose(const char *machine, int wanted, int process, int processes, unsigned units[], bool *bind)
{
    setenv("HWLOC_SYNTHETIC", machine, 1);
    weft_process_place place = { process, processes, process, processes };
    return weft_devices_choose(wanted, place, units, MAX_UNITS, bind);
}

static void test_one_process_has_all_cores(void **state)
{
    (void)state;
    unsigned units[MAX_UNITS];
    bool bind;
    assert_int_equal(choose("node:2 core:4 pu:2", 0, 0, 1, units, &bind), 8);
    assert_true(bind);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(units[i], 2 * i); /* one hardware thread of each core */
    }
}

static void test_processes_share_the_cores(void **state)
{
    (void)state;
    bool taken[16] = { false };
    for (int process = 0; process < 3; process++) {
        unsigned units[MAX_UNITS];
        bool bind;
        int workers = choose("node:2 core:4 pu:2", 0, process, 3, units, &bind);
        assert_true(bind);
        assert_in_range(workers, 2, 3);
        for (int i = 0; i < workers; i++) {
            assert_false(taken[units[i]]); /* no core twice */
            taken[units[i]] = true;
        }
    }
    for (int core = 0; core < 8; core++) {
        assert_true(taken[2 * core]); /* none left over */
    }
}

static void test_neighbours_stay_together(void **state)
{
    (void)state;
    unsigned units[MAX_UNITS];
    bool bind;
    assert_int_equal(choose("node:2 core:4 pu:1", 0, 1, 2, units, &bind), 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(units[i], 4 + i); /* the second NUMA node */
    }
}

static void test_more_processes_than_cores(void **state)
{
    (void)state;
    for (int process = 0; process < 5; process++) {
        unsigned units[MAX_UNITS];
        bool bind;
        int workers = choose("core:2 pu:1", 0, process, 5, units, &bind);
        assert_int_equal(workers, 1); /* at least one each; those without a core of their own are not bound */
    }
}

static void test_what_the_program_wants(void **state)
{
    (void)state;
    unsigned units[MAX_UNITS];
    bool bind;
    assert_int_equal(choose("core:4 pu:1", 3, 0, 1, units, &bind), 3);
    assert_true(bind);
    assert_int_equal(choose("core:4 pu:1", 6, 0, 1, units, &bind), 6);
    assert_false(bind); /* more than there are: they share */
    assert_int_equal(choose("core:4 pu:1", 1000, 0, 1, units, &bind), MAX_UNITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_process_has_all_cores), cmocka_unit_test(test_processes_share_the_cores),
        cmocka_unit_test(test_neighbours_stay_together),  cmocka_unit_test(test_more_processes_than_cores),
        cmocka_unit_test(test_what_the_program_wants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
