/* Start and end of MPI in a process: MPI can be initialised and finalised once only, while weft can be
 * started again, and a broken world leaves messages in MPI. */
#ifndef WEFT_SRC_COMM_MPI_LIFE_H
#define WEFT_SRC_COMM_MPI_LIFE_H

#include <mpi.h>

#include "comm/mpi_presence.h"
#include "runtime/runtime.h"

/* Tags on the control table's communicator, beside its own. */
enum { WEFT_MPI_TAG_HERE_AT_END = 100, WEFT_MPI_TAG_LEAVES };

/* MPI_Init_thread() unless the program has called it; MPI_Finalize() then follows at the program's exit.
 * MPI_Init_thread() may itself wait for other processes without limit: after timeout_s (> 0) a line on
 * standard error says so. Errors are kept. */
weft_status weft_mpi_begin(const char *function, bool own_communicator, double timeout_s);

/* Nothing collective is possible from here on. `comm`: processes to wait for at exit for a while, so that
 * all can report their errors; MPI_COMM_NULL: no communicator of all exists. `presence` of its processes: stays for ever. */
void weft_mpi_leave(MPI_Comm comm, const weft_mpi_presence *presence);
/* At the end of a world that is whole. Takes `presence`, for MPI_Finalize() at exit: where a process of this machine has ended
 * without it, it would wait for ever, and the others end. */
void weft_mpi_keep(weft_mpi_presence *presence);
/* A process may not come to the end: the exit waits for a shorter time. */
void weft_mpi_miss(void);
bool weft_mpi_has_left(void);

#endif
