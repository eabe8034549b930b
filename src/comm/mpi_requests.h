/* Requests of MPI under way. MPI_Testsome() wants them side by side; what each is for lies beside them. */
#ifndef WEFT_SRC_COMM_MPI_REQUESTS_H
#define WEFT_SRC_COMM_MPI_REQUESTS_H

#include <mpi.h>

#include "base/base.h"

typedef struct weft_mpi_requests {
    int count, capacity;
    MPI_Request *requests;
    void *purposes; /* one for each request, of the user's type */
    /* Of the last weft_mpi_requests_test(): */
    int *ended; /* indices */
    MPI_Status *statuses;
} weft_mpi_requests;

/* Makes room for one more; purpose_size is the same every time. False: no memory, nothing has changed. */
bool weft_mpi_requests_reserve(weft_mpi_requests *all, size_t purpose_size);
void weft_mpi_requests_free(weft_mpi_requests *all);

/* Tests all in one call: one for each few costs a look at the network each time. Returns how many have ended:
 * the k-th is number ended[k], and statuses[k].MPI_ERROR says whether it failed. -1: MPI has failed, and
 * nothing is known of any. */
int weft_mpi_requests_test(weft_mpi_requests *all);

/* Waits until all have ended (true) or the time is over (timeout_s > 0; without the time for which this process
 * itself was stopped). `meanwhile`, where it is not NULL, is called at each look, and a world that breaks ends the
 * wait too. */
bool weft_mpi_wait(int count, MPI_Request requests[], double timeout_s, void (*meanwhile)(void *),
                   void *argument);

/* Tries to take a receive back. True: it has ended, one way or the other, and MPI leaves its memory alone. */
bool weft_mpi_take_back(MPI_Request *receive);

#endif
