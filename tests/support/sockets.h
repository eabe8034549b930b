/* A second transport, for tests: processes of one machine over UNIX socket pairs, made before the
 * processes are forked. It is minimal: a control table (sockets_control.c) and a data table
 * (sockets_data.c). */
#ifndef WEFT_TESTS_SOCKETS_H
#define WEFT_TESTS_SOCKETS_H

#include "comm/transport.h"

enum { SOCKETS_MAX_PROCESSES = 8 };

/* One pair of sockets per use, so that nothing needs a header. Packets keep their borders; data is a
 * stream. */
typedef enum sockets_use {
    SOCKETS_COLLECTIVE,
    SOCKETS_TEXT,
    SOCKETS_ABORT,
    SOCKETS_DATA,
    SOCKETS_USES
} sockets_use;

/* Before fork(): sockets between every two of so many processes. False: there are none. */
bool sockets_make(int processes);
/* After fork(): which process this one is. */
void sockets_choose(int process);
/* Collective. The sockets serve one world after the other, until one breaks. WEFT_ERR_NOMEM; WEFT_ERR_COMM:
 * one broke. */
weft_status sockets_open(weft_transport *transport);

/* ---- for the two tables -------------------------------------------------------------------------------- */

int sockets_self(void);
int sockets_processes(void);
/* The end of this process, to another one. */
int sockets_to(sockets_use use, int process);
/* No world comes after this one. */
void sockets_break(void);

weft_control sockets_control(void);
/* False: no memory. */
bool sockets_data(weft_data *data);

#endif
