/* MPI requests under way, contiguous as MPI_Testsome() needs them, each with its purpose. */
#ifndef WEFT_SRC_COMM_MPI_REQUESTS_H
#define WEFT_SRC_COMM_MPI_REQUESTS_H

#include <mpi.h>

#include "base/base.h"
#include "comm/mpi_guard.h"

typedef struct weft_mpi_requests {
    int count, capacity;
    MPI_Request *requests;
    void *purposes; /* one per request, of the user's type */
    /* Results of the last weft_mpi_requests_test(): */
    int *ended; /* indices of ended requests */
    MPI_Status *statuses;
} weft_mpi_requests;

/* Makes room for one more request; purpose_size is the same in every call. False: no memory, nothing
 * changed. */
bool weft_mpi_requests_reserve(weft_mpi_requests *all, size_t purpose_size);
void weft_mpi_requests_free(weft_mpi_requests *all);

/* Tests all in one call, because each test polls the network. Returns the number of ended requests: the
 * k-th is request number ended[k], and statuses[k].MPI_ERROR its error. -1: MPI has failed, and no
 * request's state is known. */
int weft_mpi_requests_test(weft_mpi_requests *all);

/* Whether all have ended. Else false, and none is changed, unless MPI has failed. */
bool weft_mpi_all_ended(int count, MPI_Request requests[], bool *failed);

/* Waits until all have ended (true) or the time is over (timeout_s > 0; without time during which this
 * process itself was stopped). Each poll calls `meanwhile`, if not NULL; a broken world ends the wait too. `guard`:
 * held, but while this sleeps. */
bool weft_mpi_wait(int count, MPI_Request requests[], double timeout_s, weft_mpi_guard *guard,
                   void (*meanwhile)(void *), void *argument);

/* Tries to cancel a receive. True: it has ended or is cancelled, and MPI does not use its memory. */
bool weft_mpi_take_back(MPI_Request *receive);

#endif
