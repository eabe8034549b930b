/* Kernels in fast mode (weft_cuda_queue) on lines of many lengths, against those for CPUs: within bounds, and twice the same bits. */
#ifndef WEFT_TESTS_FAST_CASES_H
#define WEFT_TESTS_FAST_CASES_H

#include "view_cases.h"

/* Runs a case and compares its results. */
typedef void run_and_compare(view_case *c, const void *context);
/* Runs it in fast mode, and once more, with the bits of the first call. */
void run_fast_twice(view_case *c, run_and_compare *run, const void *context);
/* In fast mode results differ from a CPU's by no more than `relative` of themselves, or a unit in their last place, and `absolute`; a second
 * call has the bits of the first one. */
void run_fast(view_case *c, double relative, double absolute);

void test_fast_reductions(void **state);
void test_fast_softmax(void **state);
void test_fast_norms(void **state);
void test_fast_losses(void **state);

#endif
