/* Runs tests that mostly wait, several at once: each in one of a few processes of its own. They are reported in order, as
 * cmocka reports them. */
#ifndef WEFT_TESTS_SIDE_BY_SIDE_H
#define WEFT_TESTS_SIDE_BY_SIDE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_SIDE_BY_SIDE = 80 };

/* Instead of cmocka_run_group_tests(), of at most MAX_SIDE_BY_SIDE tests. `setup` and `teardown` are called in each of the
 * processes; tests with a setup of their own have an initial state. WEFT_TEST_ONLY, a pattern with * and ?: those alone. */
int run_side_by_side(const struct CMUnitTest tests[], size_t count, CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
