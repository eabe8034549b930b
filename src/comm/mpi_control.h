/* The control table over MPI, on a communicator of its own. */
#ifndef WEFT_SRC_COMM_MPI_CONTROL_H
#define WEFT_SRC_COMM_MPI_CONTROL_H

#include <mpi.h>

#include "comm/transport.h"

/* Takes over the communicator. False: no memory. */
bool weft_mpi_control_open(MPI_Comm comm, weft_control *control);

#endif
