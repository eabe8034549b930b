/* The launcher (mpirun, srun, ...) of this process, from its environment. */
#ifndef WEFT_SRC_COMM_LAUNCHER_H
#define WEFT_SRC_COMM_LAUNCHER_H

#include <stdbool.h>
#include <stdio.h>

/* Whether MPI_Init() will find a launcher. */
bool weft_launched_for_mpi(void);
/* In a world of one process: prints a line if the launcher has started several, because each of them then
 * computes everything alone. */
void weft_launcher_warn(FILE *file);

#endif
