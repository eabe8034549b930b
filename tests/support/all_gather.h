/* Makes a transport carry out all-gathers as whole stages, for tests: through memory shared by the
 * processes. */
#ifndef WEFT_TESTS_ALL_GATHER_H
#define WEFT_TESTS_ALL_GATHER_H

#include "comm/transport.h"

/* Before fork(). False: no memory. */
bool all_gather_make(int processes);
/* Adds claims() and start_stage() to a transport's data table. */
void all_gather_add(weft_transport *transport);
/* Stages that this process has carried out so far. */
uint64_t all_gather_count(void);

#endif
