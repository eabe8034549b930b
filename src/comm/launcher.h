/* What the environment says of the launcher (mpirun, srun, ...) that started this process. */
#ifndef WEFT_SRC_COMM_LAUNCHER_H
#define WEFT_SRC_COMM_LAUNCHER_H

#include <stdbool.h>
#include <stdio.h>

/* Whether MPI_Init() will find a launcher. */
bool weft_launched_for_mpi(void);
/* For a world of one process: a line where the launcher has started several, for each of them then computes
 * everything alone. */
void weft_launcher_warn(FILE *file);

#endif
