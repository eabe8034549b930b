/* Shared by the tests of random numbers. */
#ifndef WEFT_TESTS_RANDOM_SUPPORT_H
#define WEFT_TESTS_RANDOM_SUPPORT_H

#include "operand.h"

/* start_world() with a seed whose words differ. */
void start_seeded(const char *variable, const char *value);
/* A mesh of the first rank. */
weft_mesh *one_rank(void);
weft_random_state default_state(void);

#endif
