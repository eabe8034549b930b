/* Shared by the tests of dispatch: a world of NUM_RANKS ranks in one process, its counters, and refused
 * calls. */
#ifndef WEFT_TESTS_DISPATCH_SUPPORT_H
#define WEFT_TESTS_DISPATCH_SUPPORT_H

#include "support.h"

enum { NUM_RANKS = 6 };

/* A test's setup and teardown. */
int start(void **state);
int stop(void **state);

/* A mesh of four ranks, and one of 2 x 3, (data, model). */
weft_mesh *line(void);
weft_mesh *grid(void);
/* A tensor of ones of up to three dimensions (-1: there are no more). */
weft_tensor *ones(weft_dtype dtype, int64_t a, int64_t b, int64_t c);

weft_counters counters(void);
/* Number of submitted tasks: now, and at the last expect_no_more_tasks(). */
uint64_t tasks(void);
extern uint64_t tasks_before;
void expect_no_more_tasks(void);
/* Asserts that a call was refused with this status and a message that begins with `function` and has
 * `text`, and that nothing was submitted since expect_no_more_tasks(). */
void refused(weft_tensor *result, weft_status status, const char *function, const char *text);
/* Asserts that all 48 elements of a WEFT_F32 tensor have this value. */
void expect_all(weft_tensor *tensor, float value);

#endif
