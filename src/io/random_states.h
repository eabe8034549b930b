/* States of random numbers as metadata: "weft.random.current", the name of the current one; for each state
 * "weft.random:NAME", "SEED OFFSET", where NAME is empty for the default one. */
#ifndef WEFT_SRC_IO_RANDOM_STATES_H
#define WEFT_SRC_IO_RANDOM_STATES_H

#include "io/header.h"

/* Adds entries for all states. False with the error kept. */
bool weft_add_random_states(const char *function, weft_file_header *header);
/* Sets all states that the header has. A status with the error kept. */
weft_status weft_set_random_states(const char *function, const weft_file_header *header);

#endif
