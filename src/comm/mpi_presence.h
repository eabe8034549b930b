/* Which processes of this machine have ended. The kernel knows that at once, also while the parent, a busy launcher, has not
 * noticed yet; MPI does not tell. */
#ifndef WEFT_SRC_COMM_MPI_PRESENCE_H
#define WEFT_SRC_COMM_MPI_PRESENCE_H

#include "comm/mpi_open.h"
#include "comm/transport.h"

typedef struct weft_mpi_presence weft_mpi_presence;

/* What a process tells the others: its number, and a mark of the namespace in which it is valid; 0: unknown. */
void weft_mpi_presence_card(weft_mpi_card *card);
/* NULL: no memory. Takes a file descriptor for each other process of this machine, where the kernel has such. */
weft_mpi_presence *weft_mpi_presence_new(const weft_mpi_common *common);
/* NULL: nothing is done. */
void weft_mpi_presence_free(weft_mpi_presence *presence);
/* `presence` may be NULL: unknown. Any thread. */
weft_presence weft_mpi_presence_of(const weft_mpi_presence *presence, int process);
/* The first process that has ended; -1: none. */
int weft_mpi_presence_ended(const weft_mpi_presence *presence);

#endif
