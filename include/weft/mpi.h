/** \file
 * weft on a communicator of the program's own. Not part of <weft/weft.h>, so that programs without MPI need
 * no mpi.h.
 */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include <mpi.h>

#include <weft/runtime.h>

WEFT_BEGIN_DECLS

/** Whose binary interface <mpi.h> has. "MPICH": MPICH's, Intel MPI's, MVAPICH's and Cray's, which are the same. \{ */
#if defined(MPI_ABI_VERSION)
#define WEFT_MPI_INTERFACE "the standard's"
#elif defined(OPEN_MPI)
#define WEFT_MPI_INTERFACE "Open MPI"
#elif defined(MPICH_VERSION) || defined(MPICH_NUMVERSION) || defined(I_MPI_VERSION) || defined(MVAPICH2_VERSION)
#define WEFT_MPI_INTERFACE "MPICH"
#else
#define WEFT_MPI_INTERFACE ""
#endif
/** \} */

/** A communicator, and the MPI that it belongs to, as the program's <mpi.h> says. */
typedef struct weft_communicator {
    size_t size;           /**< of this struct */
    const char *interface; /**< WEFT_MPI_INTERFACE */
    size_t handle_size;    /**< sizeof(MPI_Comm) */
    const void *handle;    /**< points to the MPI_Comm */
} weft_communicator;

/**
 * weft_init() in the mpi world made of the processes of a communicator, which may be of another MPI than weft's: that is
 * WEFT_ERR_UNSUPPORTED. weft_init_mpi() calls it. WEFT_ERR_INVALID for NULL.
 */
WEFT_API weft_status weft_init_communicator(const weft_communicator *communicator, const weft_config *config);

/**
 * weft_init() in the mpi world made of the processes of `comm`. Collective over comm. weft works on a
 * duplicate of it, from a thread of its own. The program has called MPI_Init_thread() with
 *
 *  - MPI_THREAD_MULTIPLE, or
 *  - MPI_THREAD_SERIALIZED: then it calls no function of MPI from weft_init_mpi() until weft_finalize() has returned;
 *    weft's two threads take turns;
 *
 * or it has not initialised MPI at all: then `comm` must be MPI_COMM_WORLD, and weft initialises and finalises MPI.
 *
 * \return as weft_init(); WEFT_ERR_UNSUPPORTED when MPI was initialised with less than MPI_THREAD_SERIALIZED, and when the
 *         program has been compiled for, or runs with, another MPI than weft: MPI_Comm is another type there.
 */
static inline weft_status weft_init_mpi(MPI_Comm comm, const weft_config *config)
{
    const weft_communicator all = { sizeof(all), WEFT_MPI_INTERFACE, sizeof(comm), &comm };
    return weft_init_communicator(&all, config);
}

/**
 * The same for the integer by which Fortran knows a communicator; the Fortran module's weft_init_mpi() (docs/languages.md) calls
 * it. The program has initialised MPI, which must be weft's: an integer does not say whose it is.
 *
 * \return as weft_init_mpi(); WEFT_ERR_STATE where MPI is not initialised or has been finalised, WEFT_ERR_INVALID for an integer
 *         that is no communicator.
 */
WEFT_API weft_status weft_init_mpi_fortran(int communicator, const weft_config *config);

WEFT_END_DECLS

#endif
