/* How MPI begins and ends in a process: it can be initialised and finalised once only, while weft can be started
 * again, and a world that breaks leaves messages in it. */
#ifndef WEFT_SRC_COMM_MPI_LIFE_H
#define WEFT_SRC_COMM_MPI_LIFE_H

#include <mpi.h>

#include "runtime/runtime.h"

/* MPI_Init_thread() where the program has not; MPI_Finalize() then follows at the program's exit. MPI_Init_thread()
 * itself may wait for other processes for ever: when the time is over (timeout_s > 0) a line on standard error
 * says so. Errors are kept. */
weft_status weft_mpi_begin(const char *function, bool own_communicator, double timeout_s);

/* From here on nothing collective is possible any more. `comm`: of the processes that may be waited for a while
 * at the exit, so that all can say what they have met; MPI_COMM_NULL: there is none that all have. */
void weft_mpi_leave(MPI_Comm comm);
bool weft_mpi_has_left(void);

#endif
