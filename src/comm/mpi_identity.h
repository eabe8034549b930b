/* Which MPI this is. A program may be compiled for another MPI than weft, or bring another one into the process: then the
 * same functions have other types, and calling them would end the process. */
#ifndef WEFT_SRC_COMM_MPI_IDENTITY_H
#define WEFT_SRC_COMM_MPI_IDENTITY_H

#include <weft/mpi.h>

/* The MPI that weft was compiled for, as "Open MPI 4.1.4". */
const char *weft_mpi_compiled_for(void);
/* The MPI that this process runs, as it says of itself: "Open MPI v4.1.4", "MPICH Version: 4.0.2". */
void weft_mpi_running(char *text, size_t size);

/* WEFT_ERR_UNSUPPORTED, kept, if this process runs an MPI of another binary interface than that which weft was compiled
 * for. Calls nothing that is not the same in every MPI. */
weft_status weft_mpi_check_running(const char *function);
/* The same of the MPI that a program was compiled for. */
weft_status weft_mpi_check_program(const char *function, const weft_communicator *communicator);

#endif
