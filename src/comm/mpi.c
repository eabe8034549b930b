/* The transport between processes: MPI, on duplicates of the program's communicator. */
#include <mpi.h>
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

#include "comm/mpi_control.h"
#include "comm/mpi_data.h"
#include "comm/mpi_identity.h"
#include "comm/mpi_life.h"
#include "comm/mpi_open.h"

/* Sets up the transport: from here on this process can report its errors to the others. */
static weft_status open_tables(const char *function, const weft_mpi_common *common, weft_transport *transport)
{
    int provided = 0;
    MPI_Query_thread(&provided);
    weft_mpi_guard *guard = provided < MPI_THREAD_MULTIPLE ? weft_mpi_guard_new() : NULL;
    weft_transport opened = { .name = "mpi", .place = common->place };
    bool controls = weft_mpi_control_open(common, guard, &opened.control);
    bool moves = controls && weft_mpi_data_open(common, &opened.data);
    if (opened.data.state == NULL) { /* no memory for the tables themselves */
        weft_mpi_guard_free(guard);
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the MPI transport");
    }
    bool guarded = guard != NULL;
    if (guarded) {
        weft_mpi_guard_tables(guard, &opened);
    }
    *transport = opened;
    if (provided < MPI_THREAD_SERIALIZED) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function,
                         "MPI was initialised without MPI_THREAD_SERIALIZED, which weft's progress thread needs "
                         "(MPI_THREAD_MULTIPLE where the program calls MPI too)");
    }
    bool enough = moves && (guarded || provided >= MPI_THREAD_MULTIPLE);
    return enough ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, function, "no memory for small messages");
}

/* Whether MPI reads and writes CUDA's memory, by its own account. */
static bool knows_devices(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT
    return MPIX_Query_cuda_support() == 1;
#else
    return false;
#endif
}

weft_status weft_mpi_open(const char *function, const void *communicator, int64_t pack_bytes,
                          double timeout_s, int takes_devices, weft_transport *transport)
{
    /* MPI_COMM_WORLD is a constant, so it can be told from other communicators before MPI_Init(). */
    bool own = communicator != NULL && *(const MPI_Comm *)communicator != MPI_COMM_WORLD;
    weft_status status = weft_mpi_check_running(function);
    status = status == WEFT_OK ? weft_mpi_begin(function, own, timeout_s) : status;
    if (status != WEFT_OK) {
        return status;
    }
    MPI_Comm comm = communicator == NULL ? MPI_COMM_WORLD : *(const MPI_Comm *)communicator;
    if (comm == MPI_COMM_NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "comm is MPI_COMM_NULL");
    }
    bool devices = takes_devices < 0 ? knows_devices() : takes_devices == 1;
    /* Packs are made in main memory, and both sides of a message must do alike: the least limit of all holds. */
    weft_mpi_common *common = weft_mpi_common_open(function, comm, devices ? 0 : pack_bytes, timeout_s);
    if (common == NULL) {
        return weft_latest_status();
    }
    status = open_tables(function, common, transport);
    weft_mpi_common_free(common);
    transport->data.takes_devices = devices;
    return status;
}
