/* Kernels in fast mode (weft_cuda_queue) on lines of many lengths, against those for CPUs: within bounds, and twice the same bits. */
#ifndef WEFT_TESTS_FAST_CASES_H
#define WEFT_TESTS_FAST_CASES_H

void test_fast_reductions(void **state);
void test_fast_softmax(void **state);
void test_fast_norms(void **state);
void test_fast_losses(void **state);

#endif
