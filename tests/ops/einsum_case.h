/* A case of the tests of products. */
#ifndef WEFT_TESTS_EINSUM_CASE_H
#define WEFT_TESTS_EINSUM_CASE_H

/* weft_einsum() of a random equation against a loop over all indices. */
void case_einsum(void);

#endif
