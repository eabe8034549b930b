/** \file
 * weft on a communicator of the program's own. Not part of <weft/weft.h>, so that programs without MPI need
 * no mpi.h.
 */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include <mpi.h>

#include <weft/runtime.h>

WEFT_BEGIN_DECLS

/**
 * weft_init() in the mpi world made of the processes of `comm`. Collective over comm. weft works on a
 * duplicate of it, from a thread of its own: the program has called MPI_Init_thread() with
 * MPI_THREAD_MULTIPLE, or has not initialised MPI at all (then `comm` must be MPI_COMM_WORLD, and weft
 * initialises and finalises MPI).
 * \return as weft_init(); WEFT_ERR_UNSUPPORTED when MPI was initialised with less than MPI_THREAD_MULTIPLE.
 */
WEFT_API weft_status weft_init_mpi(MPI_Comm comm, const weft_config *config);

WEFT_END_DECLS

#endif
