/** \file
 * Run weft on a communicator of your own. This header is not part of <weft/weft.h>, so that programs without MPI need
 * no mpi.h. */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include <mpi.h>

#include <weft/runtime.h>

WEFT_BEGIN_DECLS

/** The binary interface of your <mpi.h>. "MPICH" is that of MPICH, Intel MPI, MVAPICH and Cray, which is the same.
 * \{ */
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

/** A communicator, and the MPI that it belongs to according to your <mpi.h>. */
typedef struct weft_communicator {
    size_t size;           /**< sizeof of this struct */
    const char *interface; /**< WEFT_MPI_INTERFACE */
    size_t handle_size;    /**< sizeof(MPI_Comm) */
    const void *handle;    /**< points to the MPI_Comm */
} weft_communicator;

/**
 * weft_init() in the mpi world made of the processes of a communicator. weft_init_mpi() calls it, and passes the MPI
 * that your program was compiled for. If that is not weft's MPI, the status is WEFT_ERR_UNSUPPORTED. WEFT_ERR_INVALID
 * if the communicator is NULL.
 */
WEFT_API weft_status weft_init_communicator(const weft_communicator *communicator, const weft_config *config);

/**
 * weft_init() in the mpi world made of the processes of `comm`. Collective over comm. weft works on a duplicate of
 * it, from a thread of its own. Your program must have called MPI_Init_thread() with
 *
 *  - MPI_THREAD_MULTIPLE, or
 *  - MPI_THREAD_SERIALIZED. Then it must not call MPI from weft_init_mpi() until weft_finalize() has returned; weft's
 *    two threads take turns.
 *
 * Or it has not initialised MPI at all. Then `comm` must be MPI_COMM_WORLD, and weft initialises and finalises MPI.
 *
 * \return as weft_init(). WEFT_ERR_UNSUPPORTED if MPI was initialised with less than MPI_THREAD_SERIALIZED, or if
 *         your program was compiled for, or runs with, another MPI than weft's, because MPI_Comm is another type
 *         there.
 */
static inline weft_status weft_init_mpi(MPI_Comm comm, const weft_config *config)
{
    const weft_communicator all = { sizeof(all), WEFT_MPI_INTERFACE, sizeof(comm), &comm };
    return weft_init_communicator(&all, config);
}

/**
 * weft_init_mpi() for Fortran's integer handle of a communicator. The Fortran module's weft_init_mpi()
 * (docs/languages.md) calls it. Your program must have initialised MPI, and it must be weft's MPI, because an integer
 * does not say which MPI it belongs to.
 *
 * \return as weft_init_mpi(). WEFT_ERR_STATE if MPI is not initialised or has been finalised, WEFT_ERR_INVALID if the
 *         integer is not a communicator.
 */
WEFT_API weft_status weft_init_mpi_fortran(int communicator, const weft_config *config);

WEFT_END_DECLS

#endif
