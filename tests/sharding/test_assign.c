/* src/sharding/assign.h: choices of many variables, against all combinations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prng.h"
#include "sharding/assign.h"
#include "sharding/integer.h"

enum { MOST = 9, MOST_CHOICES = 5 };

/* ---- brute force ----------------------------------------------------------------------------------------- */

typedef struct least {
    int64_t cost, memory; /* of the cheapest within the bound; of the smallest of all */
} least;

static least brute_force(const weft_assign *problem, int count, const int num_choices[], int64_t bound)
{
    least found = { WEFT_ASSIGN_IMPOSSIBLE, WEFT_ASSIGN_IMPOSSIBLE };
    int choices[MOST] = { 0 }, at;
    do {
        int64_t cost = weft_assign_cost(problem, choices), memory = weft_assign_memory(problem, choices);
        if (cost < WEFT_ASSIGN_IMPOSSIBLE) {
            found.memory = memory < found.memory ? memory : found.memory;
            found.cost = (bound < 0 || memory <= bound) && cost < found.cost ? cost : found.cost;
        }
        for (at = 0; at < count && ++choices[at] == num_choices[at]; at++) {
            choices[at] = 0;
        }
    } while (at < count);
    return found;
}

/* ---- random problems ------------------------------------------------------------------------------------- */

/* Rarely impossible. */
static int64_t random_cost(prng *r)
{
    return prng_below(r, 8) == 0 ? WEFT_ASSIGN_IMPOSSIBLE : prng_below(r, 3) == 0 ? 0 : prng_below(r, 40);
}

/* Pins are variables with one possible choice. */
static weft_assign *random_problem(prng *r, int count, int num_choices[])
{
    weft_assign *problem = weft_assign_new();
    assert_non_null(problem);
    for (int v = 0; v < count; v++) {
        int64_t cost[MOST_CHOICES], memory[MOST_CHOICES];
        num_choices[v] = 1 + (int)prng_below(r, MOST_CHOICES);
        int pinned = prng_below(r, 5) == 0 ? (int)prng_below(r, num_choices[v]) : -1;
        for (int i = 0; i < num_choices[v]; i++) {
            cost[i] = pinned >= 0 && pinned != i ? WEFT_ASSIGN_IMPOSSIBLE : prng_below(r, 30);
            memory[i] = prng_below(r, 20);
        }
        bool has_memory = prng_below(r, 4) > 0;
        assert_int_equal(weft_assign_add_variable(problem, num_choices[v], cost, has_memory ? memory : NULL), v);
    }
    for (int v = 1; v < count; v++) {
        for (int u = 0; u < v; u++) {
            int64_t cost[MOST_CHOICES * MOST_CHOICES];
            bool joined = u == v - 1 ? prng_below(r, 10) > 0 : prng_below(r, 4) == 0;
            for (int i = 0; i < num_choices[u] * num_choices[v]; i++) {
                cost[i] = random_cost(r);
            }
            assert_true(!joined || weft_assign_add_pair(problem, u, v, cost));
        }
    }
    return problem;
}

static weft_status solve(const weft_assign *problem, weft_assign_options options, int choices[], weft_assignment *result)
{
    char why[200] = "";
    weft_status status = weft_assign_solve(problem, &options, choices, result, why, sizeof(why));
    assert_true((status == WEFT_OK) == (why[0] == '\0'));
    return status;
}

static void equal_to_brute_force(void **state)
{
    (void)state;
    prng r = prng_start(11);
    int num_possible = 0;
    for (int problem_number = 0; problem_number < 200; problem_number++) {
        int num_choices[MOST], choices[MOST], count = 1 + (int)prng_below(&r, MOST);
        weft_assign *problem = random_problem(&r, count, num_choices);
        least expected = brute_force(problem, count, num_choices, -1);
        weft_assignment result;
        weft_status status = solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &result);
        assert_int_equal(status, expected.cost < WEFT_ASSIGN_IMPOSSIBLE ? WEFT_OK : WEFT_ERR_INVALID);
        if (status == WEFT_OK) {
            num_possible++;
            assert_true(result.proved);
            assert_int_equal(result.cost, expected.cost);
            assert_int_equal(weft_assign_cost(problem, choices), expected.cost);
        }
        weft_assign_free(problem);
    }
    assert_true(num_possible > 100);
}

static void bounds_on_memory_hold(void **state)
{
    (void)state;
    prng r = prng_start(12);
    int num_bound = 0, num_refused = 0;
    for (int problem_number = 0; problem_number < 400; problem_number++) {
        int num_choices[MOST], choices[MOST], count = 2 + (int)prng_below(&r, MOST - 1);
        weft_assign *problem = random_problem(&r, count, num_choices);
        int64_t bound = prng_below(&r, 12 * count);
        least any = brute_force(problem, count, num_choices, -1);
        least expected = brute_force(problem, count, num_choices, bound);
        weft_assignment result;
        weft_status status = solve(problem, (weft_assign_options){ .max_memory = bound }, choices, &result);
        assert_int_equal(status, expected.cost < WEFT_ASSIGN_IMPOSSIBLE ? WEFT_OK : WEFT_ERR_INVALID);
        if (status == WEFT_OK) {
            num_bound += expected.cost > any.cost;
            assert_true(result.proved);
            assert_int_equal(result.cost, expected.cost);
            assert_true(weft_assign_memory(problem, choices) <= bound);
            assert_int_equal(result.memory, weft_assign_memory(problem, choices));
        }
        if (any.cost < WEFT_ASSIGN_IMPOSSIBLE) {
            num_refused += status != WEFT_OK;
            assert_int_equal(result.least_memory, any.memory);
        }
        weft_assign_free(problem);
    }
    assert_true(num_bound > 20);
    assert_true(num_refused > 20);
}

/* Tables of few entries: choices are kept and improved. */
static void too_wide_is_not_proved(void **state)
{
    (void)state;
    prng r = prng_start(13);
    int64_t sum = 0, sum_of_least = 0;
    int num_wide = 0;
    for (int problem_number = 0; problem_number < 200; problem_number++) {
        int num_choices[MOST], choices[MOST], count = MOST;
        weft_assign *problem = random_problem(&r, count, num_choices);
        least expected = brute_force(problem, count, num_choices, -1);
        weft_assignment exact, result;
        if (solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &exact) == WEFT_OK) {
            int start[MOST];
            memcpy(start, choices, sizeof(start));
            start[0] = 0;
            bool possible = weft_assign_cost(problem, start) < WEFT_ASSIGN_IMPOSSIBLE;
            weft_assign_options narrow = { .max_memory = -1, .max_entries = 4, .start = possible ? start : choices };
            int improved[MOST];
            int64_t before = weft_assign_cost(problem, narrow.start);
            assert_int_equal(solve(problem, narrow, improved, &result), WEFT_OK);
            assert_true(result.cost >= expected.cost && result.cost <= before);
            assert_int_equal(weft_assign_cost(problem, improved), result.cost);
            assert_true(!result.proved || result.cost == expected.cost);
            num_wide += !result.proved;
            sum += result.cost;
            sum_of_least += expected.cost;
        }
        weft_assign_free(problem);
    }
    assert_true(num_wide > 10 || weft_integer_is_there()); /* else GLPK has proved them */
    assert_true(sum <= sum_of_least * 11 / 10);
}

/* Every variable beside every other one: the first table has 8^6 entries. With too little work to make it, choices are improved
 * only, and what is not proved is not said to be. */
static void little_work_is_not_proved(void **state)
{
    (void)state;
    enum { VARIABLES = 7, CHOICES = 8 };
    prng r = prng_start(17);
    int num_improved = 0;
    for (int problem_number = 0; problem_number < 5; problem_number++) {
        weft_assign *problem = weft_assign_new();
        for (int v = 0; v < VARIABLES; v++) {
            int64_t cost[CHOICES];
            for (int i = 0; i < CHOICES; i++) {
                cost[i] = prng_below(&r, 100);
            }
            assert_int_equal(weft_assign_add_variable(problem, CHOICES, cost, NULL), v);
            for (int u = 0; u < v; u++) {
                int64_t pair[CHOICES * CHOICES];
                for (int i = 0; i < CHOICES * CHOICES; i++) {
                    pair[i] = prng_below(&r, 100);
                }
                assert_true(weft_assign_add_pair(problem, u, v, pair));
            }
        }
        int choices[VARIABLES], improved[VARIABLES], first[VARIABLES] = { 0 };
        weft_assignment exact, result;
        assert_int_equal(solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &exact), WEFT_OK);
        assert_true(exact.proved && exact.widest == 262144);
        weft_assign_options little = { .max_memory = -1, .max_work = 1000 };
        assert_int_equal(solve(problem, little, improved, &result), WEFT_OK);
        assert_true(result.widest < exact.widest);
        assert_true(result.cost >= exact.cost && result.cost <= weft_assign_cost(problem, first));
        assert_int_equal(weft_assign_cost(problem, improved), result.cost);
        assert_true(result.least_cost <= exact.cost);
        assert_true(!result.proved || result.cost == exact.cost);
        num_improved += result.cost < weft_assign_cost(problem, first);
        weft_assign_free(problem);
    }
    assert_int_equal(num_improved, 5);
}

/* Too wide for elimination, with bounds on memory and without: GLPK finds the least. */
static void integer_programs(void **state)
{
    (void)state;
    prng r = prng_start(15);
    int num_wide = 0, num_bound = 0;
    if (!weft_integer_is_there()) {
        skip();
    }
    for (int problem_number = 0; problem_number < 100; problem_number++) {
        int num_choices[MOST], choices[MOST];
        weft_assign *problem = random_problem(&r, MOST, num_choices);
        int64_t bound = problem_number % 2 == 0 ? -1 : 40 + prng_below(&r, 60);
        least expected = brute_force(problem, MOST, num_choices, bound);
        weft_integer_end end = weft_integer_solve(problem, bound, choices);
        assert_int_equal(end, expected.cost < WEFT_ASSIGN_IMPOSSIBLE ? WEFT_INTEGER_PROVED : WEFT_INTEGER_NONE);
        if (end == WEFT_INTEGER_PROVED) {
            assert_int_equal(weft_assign_cost(problem, choices), expected.cost);
            assert_true(bound < 0 || weft_assign_memory(problem, choices) <= bound);
            weft_assignment result;
            weft_assign_options narrow = { .max_memory = bound, .max_entries = 4 };
            assert_int_equal(solve(problem, narrow, choices, &result), WEFT_OK);
            assert_true(result.proved);
            assert_int_equal(result.cost, expected.cost);
            num_wide += result.widest <= 4;
            num_bound += bound >= 0;
        }
        weft_assign_free(problem);
    }
    assert_true(num_wide > 20);
    assert_true(num_bound > 10);
}

/* A change with all that must follow is possible, and costs at least as much as the best choices with it. Variables that must be
 * equal follow in any case. */
static void ties_are_followed(void **state)
{
    (void)state;
    prng r = prng_start(16);
    int num_followed = 0;
    for (int problem_number = 0; problem_number < 200; problem_number++) {
        int num_choices[MOST], choices[MOST];
        weft_assign *problem = random_problem(&r, MOST - 1, num_choices);
        int tied = (int)prng_below(&r, MOST - 1), count = num_choices[tied];
        int64_t equal[MOST_CHOICES * MOST_CHOICES], nothing[MOST_CHOICES] = { 0 };
        for (int i = 0; i < count * count; i++) {
            equal[i] = i / count == i % count ? 0 : WEFT_ASSIGN_IMPOSSIBLE;
        }
        assert_int_equal(weft_assign_add_variable(problem, count, nothing, NULL), MOST - 1);
        assert_true(weft_assign_add_pair(problem, tied, MOST - 1, equal));
        weft_assignment result;
        if (solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &result) == WEFT_OK) {
            for (int i = 0; i < count; i++) {
                int64_t alone = weft_assign_change(problem, choices, tied, i);
                int64_t together = weft_assign_change_tied(problem, choices, tied, i);
                int64_t other = weft_assign_change_tied(problem, choices, MOST - 1, i);
                assert_true((i == choices[tied]) == (alone < WEFT_ASSIGN_IMPOSSIBLE));
                assert_true(together >= 0 && other >= 0);
                num_followed += i != choices[tied] && together < WEFT_ASSIGN_IMPOSSIBLE;
            }
        }
        weft_assign_free(problem);
    }
    assert_true(num_followed > 100);
}

/* ---- blocks ---------------------------------------------------------------------------------------------- */

enum { WIDTH = 12, CHOICES = 9 };

/* A chain of equal blocks of WIDTH variables, each joined with the last one of the block before and with some of its
 * own block. */
static weft_assign *chain_of_blocks(int num_blocks)
{
    weft_assign *problem = weft_assign_new();
    assert_non_null(problem);
    for (int block = 0; block < num_blocks; block++) {
        prng r = { 14 };
        for (int i = 0; i < WIDTH; i++) {
            int64_t cost[CHOICES], pair[CHOICES * CHOICES];
            for (int k = 0; k < CHOICES; k++) {
                cost[k] = prng_below(&r, 1000);
            }
            int v = weft_assign_add_variable(problem, CHOICES, cost, cost);
            assert_int_equal(v, block * WIDTH + i);
            for (int step = 1; step <= 3; step++) {
                for (int k = 0; k < CHOICES * CHOICES; k++) {
                    pair[k] = prng_below(&r, 1000);
                }
                assert_true(v < step || weft_assign_add_pair(problem, v - step, v, pair));
            }
        }
    }
    return problem;
}

static void repeated_blocks_are_solved_once(void **state)
{
    (void)state;
    size_t tables[2], reused[2];
    int64_t cost[3];
    const int num_blocks[] = { 20, 40, 60 };
    for (int i = 0; i < 3; i++) {
        weft_assign *problem = chain_of_blocks(num_blocks[i]);
        int *choices = malloc((size_t)(num_blocks[i] * WIDTH) * sizeof(int));
        assert_non_null(choices);
        weft_assignment result;
        assert_int_equal(solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &result), WEFT_OK);
        assert_true(result.proved);
        assert_int_equal(result.tables + result.reused, num_blocks[i] * WIDTH);
        tables[i % 2] = result.tables;
        reused[i % 2] = result.reused;
        cost[i] = result.cost;
        if (i > 0) {
            assert_int_equal(tables[0], tables[1]); /* further blocks compute nothing */
            assert_true(reused[i % 2] > reused[(i + 1) % 2]);
        }
        free(choices);
        weft_assign_free(problem);
    }
    assert_int_equal(cost[2] - cost[1], cost[1] - cost[0]);
}

/* 1,000 calls in blocks, forward and backward, on a mesh of two dimensions: each has the choices of both. */
static void a_thousand_calls(void **state)
{
    (void)state;
    enum { CALLS = 1000, BLOCK = 10, MANY = 25 };
    weft_assign *problem = weft_assign_new();
    assert_non_null(problem);
    for (int v = 0; v < CALLS; v++) {
        prng r = { (uint64_t)(v < CALLS / 2 ? v % BLOCK : BLOCK + v % BLOCK) };
        int64_t cost[MANY], pair[MANY * MANY];
        for (int k = 0; k < MANY; k++) {
            cost[k] = prng_below(&r, 1000);
        }
        for (int k = 0; k < MANY * MANY; k++) {
            pair[k] = k % (MANY + 1) == 0 ? 0 : 100 + prng_below(&r, 2000);
        }
        assert_int_equal(weft_assign_add_variable(problem, MANY, cost, cost), v);
        assert_true(v == 0 || weft_assign_add_pair(problem, v - 1, v, pair));
        assert_true(v < 3 || v % BLOCK < 5 || weft_assign_add_pair(problem, v - 3, v, pair));
        /* A backward call reads what the forward call of the same block has left. */
        assert_true(v < CALLS / 2 || v % BLOCK < 7 || weft_assign_add_pair(problem, CALLS - 1 - v, v, pair));
    }
    int choices[CALLS];
    weft_assignment result;
    clock_t begun = clock();
    assert_int_equal(solve(problem, (weft_assign_options){ .max_memory = -1 }, choices, &result), WEFT_OK);
    printf("# 1,000 calls: %.2f s, %zu tables, %zu reused, the widest of %zu entries, %s\n",
           (double)(clock() - begun) / CLOCKS_PER_SEC, result.tables, result.reused, result.widest,
           result.proved ? "proved" : "not proved");
    assert_int_equal(weft_assign_cost(problem, choices), result.cost);
    weft_assign_free(problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_brute_force),
        cmocka_unit_test(bounds_on_memory_hold),
        cmocka_unit_test(too_wide_is_not_proved),
        cmocka_unit_test(little_work_is_not_proved),
        cmocka_unit_test(ties_are_followed),
        cmocka_unit_test(integer_programs),
        cmocka_unit_test(repeated_blocks_are_solved_once),
        cmocka_unit_test(a_thousand_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
