/* Attention in fast mode, where cuDNN computes it: on the stand-in and on a GPU. */
#ifndef WEFT_TESTS_FAST_ATTENTION_H
#define WEFT_TESTS_FAST_ATTENTION_H

/* Within bounds of double precision, in all sizes, with masks, shared heads, panels; and equal bits of equal calls. */
void test_fast_attention(void **state);
void test_fast_gradients_of_q(void **state);
void test_fast_gradients_of_kv(void **state);
void test_fast_gradients_all(void **state);
/* weft's own kernel computes what cuDNN refuses, and all where cuDNN cannot be used or memory is missing. */
void test_fast_attention_refused(void **state);
void test_fast_gradients_refused(void **state);
/* weft's own kernels before and after cuDNN's gradients have the same bits as loops (dnn_values.c). */
void test_prepared_rows(void **state);
void test_put_values(void **state);

#endif
