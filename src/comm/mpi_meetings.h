/* What the processes of an MPI world tell each other beside the messages, on a communicator of its own: why
 * one gives up; the meetings of the submitting threads (weft_transport.gather and .tell); and how MPI
 * begins and ends in a process, which may have to wait for the others of a world that broke. */
#ifndef WEFT_SRC_COMM_MPI_MEETINGS_H
#define WEFT_SRC_COMM_MPI_MEETINGS_H

#include <mpi.h>
#include <stdatomic.h>

#include "runtime/runtime.h"

typedef struct weft_mpi_meetings {
    MPI_Comm comm;
    atomic_bool told; /* by another process that the world is broken */
    /* What this process sent in the last meeting: the same words to some processes. */
    void *words;
    int num_sent;
    MPI_Request *sent;
} weft_mpi_meetings;

/* MPI_Init_thread() where the program has not; MPI_Finalize() then follows at the program's exit. Errors are
 * kept. */
weft_status weft_mpi_begin(const char *function, bool own_communicator);

/* Collective. `meetings` is zeroed. False: MPI has failed. */
bool weft_mpi_meetings_open(weft_mpi_meetings *meetings, MPI_Comm comm);
/* Collective, unless this process has given up. */
void weft_mpi_meetings_close(weft_mpi_meetings *meetings);

/* Calls weft_break() when another process has told that it gave up. Called by both threads. */
void weft_mpi_hear_news(weft_mpi_meetings *meetings);
/* The world is broken: tells the other processes why, unless it is one of them that told. */
void weft_mpi_give_up(weft_mpi_meetings *meetings);
/* A world of this process broke, and has left messages in MPI: nothing collective is possible any more. */
bool weft_mpi_has_given_up(void);

/* As weft_transport.gather() and weft_transport.tell(). */
void weft_mpi_gather(weft_mpi_meetings *meetings, const void *mine, void *all, size_t size, double timeout_s,
                     bool came[]);
bool weft_mpi_tell(weft_mpi_meetings *meetings, void *words, size_t size, double timeout_s);

#endif
