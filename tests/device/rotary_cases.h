/* Rotary positions: with the CPU's bits, and in fast mode within bounds. */
#ifndef WEFT_TESTS_ROTARY_CASES_H
#define WEFT_TESTS_ROTARY_CASES_H

void test_rotary(void **state);
void test_fast_rotary(void **state);

#endif
