/* The data table over MPI. */
#ifndef WEFT_SRC_COMM_MPI_DATA_H
#define WEFT_SRC_COMM_MPI_DATA_H

#include "comm/mpi_open.h"
#include "comm/transport.h"

/* Takes the communicators for messages and packs over. False: no memory, or MPI has failed; the table is to be
 * closed all the same where it has a state. */
bool weft_mpi_data_open(const weft_mpi_common *common, weft_data *data);

#endif
