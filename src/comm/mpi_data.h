/* The data table over MPI. */
#ifndef WEFT_SRC_COMM_MPI_DATA_H
#define WEFT_SRC_COMM_MPI_DATA_H

#include "comm/mpi_open.h"
#include "comm/transport.h"

/* Takes over the communicators for messages and packs. False: no memory, or MPI has failed; if the table
 * has a state it is to be closed all the same. */
bool weft_mpi_data_open(const weft_mpi_common *common, weft_data *data);

#endif
