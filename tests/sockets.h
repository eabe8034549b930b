/* A second transport, for tests: processes of one machine over UNIX socket pairs, made before the processes are
 * forked. It has what a transport must have, and nothing else. */
#ifndef WEFT_TESTS_SOCKETS_H
#define WEFT_TESTS_SOCKETS_H

#include "comm/transport.h"

enum { SOCKETS_MAX_PROCESSES = 8 };

/* Before fork(): sockets between every two of so many processes. False: there are none. */
bool sockets_make(int processes);
/* After fork(): which process this one is. */
void sockets_choose(int process);
/* Collective. The sockets serve one world after the other, until one breaks. WEFT_ERR_NOMEM; WEFT_ERR_COMM: one broke. */
weft_status sockets_open(weft_transport *transport);

#endif
