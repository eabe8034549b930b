/* MPI_THREAD_SERIALIZED: weft's threads take turns. The progress thread calls MPI for messages, the submitting thread for
 * WEFT_CHECK's comparisons and other agreements of the program's calls; a mutex is held around each function of the
 * tables, and not while one sleeps. With MPI_THREAD_MULTIPLE there is no guard. */
#ifndef WEFT_SRC_COMM_MPI_GUARD_H
#define WEFT_SRC_COMM_MPI_GUARD_H

#include "comm/transport.h"

typedef struct weft_mpi_guard weft_mpi_guard;

/* NULL: no memory. */
weft_mpi_guard *weft_mpi_guard_new(void);
void weft_mpi_guard_free(weft_mpi_guard *guard); /* NULL is allowed */

/* Puts guarded tables in the place of a transport's, which closes the guard. */
void weft_mpi_guard_tables(weft_mpi_guard *guard, weft_transport *transport);

/* Sleeps; another thread may call MPI meanwhile. The guard is held before and after. NULL: sleeps. */
void weft_mpi_guard_sleep(weft_mpi_guard *guard, double us);

#endif
