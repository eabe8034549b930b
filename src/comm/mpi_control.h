/* The control table over MPI, on a communicator of its own. */
#ifndef WEFT_SRC_COMM_MPI_CONTROL_H
#define WEFT_SRC_COMM_MPI_CONTROL_H

#include <mpi.h>

#include "comm/mpi_guard.h"
#include "comm/mpi_presence.h"
#include "comm/transport.h"

/* Takes over the communicator of all processes. `guard`: released while a function sleeps; NULL: there is none. False: no
 * memory. */
bool weft_mpi_control_open(const weft_mpi_common *common, weft_mpi_guard *guard, weft_control *control);

#endif
