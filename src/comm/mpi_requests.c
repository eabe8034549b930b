#include "comm/mpi_requests.h"

#include <stdlib.h>

#include "runtime/runtime.h"

static void *enlarge(void *items, size_t count, size_t size, bool *failed)
{
    void *larger = realloc(items, count * size);
    *failed = *failed || larger == NULL;
    return larger != NULL ? larger : items;
}

bool weft_mpi_requests_reserve(weft_mpi_requests *all, size_t purpose_size)
{
    enum { FIRST_CAPACITY = 64 };
    if (all->count < all->capacity) {
        return true;
    }
    size_t capacity = all->capacity == 0 ? FIRST_CAPACITY : 2 * (size_t)all->capacity;
    bool failed = false;
    all->requests = enlarge(all->requests, capacity, sizeof(*all->requests), &failed);
    all->purposes = enlarge(all->purposes, capacity, purpose_size, &failed);
    all->ended = enlarge(all->ended, capacity, sizeof(*all->ended), &failed);
    all->statuses = enlarge(all->statuses, capacity, sizeof(*all->statuses), &failed);
    all->capacity = failed ? all->capacity : (int)capacity;
    return !failed;
}

void weft_mpi_requests_free(weft_mpi_requests *all)
{
    free(all->requests);
    free(all->purposes);
    free(all->ended);
    free(all->statuses);
    *all = (weft_mpi_requests){ 0 };
}

int weft_mpi_requests_test(weft_mpi_requests *all)
{
    int count = 0;
    if (all->count == 0) {
        return 0;
    }
    int error = MPI_Testsome(all->count, all->requests, &count, all->ended, all->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) {
        return -1;
    }
    count = count == MPI_UNDEFINED ? 0 : count;
    for (int k = 0; k < count && error == MPI_SUCCESS; k++) {
        all->statuses[k].MPI_ERROR = MPI_SUCCESS; /* set by MPI only with MPI_ERR_IN_STATUS */
    }
    return count;
}

bool weft_mpi_all_ended(int count, MPI_Request requests[], bool *failed)
{
    /* MPICH's MPI_STATUSES_IGNORE is the address 1, which GCC takes for an array without room if it sees it. */
    MPI_Status *volatile ignored = MPI_STATUSES_IGNORE;
    int ended = 0;
    *failed = MPI_Testall(count, requests, &ended, ignored) != MPI_SUCCESS;
    return ended;
}

bool weft_mpi_wait(int count, MPI_Request requests[], double timeout_s, weft_mpi_guard *guard,
                   void (*meanwhile)(void *), void *argument)
{
    const double longest_sleep_us = 200;
    double last_look_s = MPI_Wtime(), waited_s = 0, sleep_us = 5;
    bool ended, failed;
    while (!(ended = weft_mpi_all_ended(count, requests, &failed)) && !failed &&
           !(meanwhile != NULL && weft_is_broken()) && (timeout_s <= 0 || waited_s < timeout_s)) {
        double now_s = MPI_Wtime();
        waited_s += now_s - last_look_s < 1 ? now_s - last_look_s : 0;
        last_look_s = now_s;
        if (meanwhile != NULL) {
            meanwhile(argument);
        }
        weft_mpi_guard_sleep(guard, sleep_us);
        sleep_us = sleep_us < longest_sleep_us ? 2 * sleep_us : longest_sleep_us;
    }
    return ended;
}

bool weft_mpi_take_back(MPI_Request *receive)
{
    int ended = *receive == MPI_REQUEST_NULL;
    if (!ended && MPI_Cancel(receive) == MPI_SUCCESS) {
        MPI_Test(receive, &ended, MPI_STATUS_IGNORE);
    }
    return ended;
}
