/* Which processes of this machine have ended. The kernel knows that at once; MPI does not tell. */
#ifndef WEFT_SRC_COMM_MPI_PRESENCE_H
#define WEFT_SRC_COMM_MPI_PRESENCE_H

#include "comm/mpi_open.h"
#include "comm/transport.h"

typedef struct weft_mpi_presence weft_mpi_presence;

/* What a process tells the others: its number, and a mark of the namespace in which it is valid; 0: unknown. */
void weft_mpi_presence_card(weft_mpi_card *card);
/* NULL: no memory. The caller frees it. */
weft_mpi_presence *weft_mpi_presence_new(const weft_mpi_common *common);
/* `presence` may be NULL: unknown. Any thread. */
weft_presence weft_mpi_presence_of(const weft_mpi_presence *presence, int process);

#endif
