/* What the processes of an MPI world tell each other beside the messages, on a communicator of its own: why
 * one gives up, and the meetings of the submitting threads (weft_transport.gather and .tell). */
#ifndef WEFT_SRC_COMM_MPI_CONTROL_H
#define WEFT_SRC_COMM_MPI_CONTROL_H

#include <mpi.h>
#include <stdatomic.h>

#include "runtime/runtime.h"

/* Of messages on the meetings' communicator that are not the meetings' own. */
enum { WEFT_MPI_TAG_WORDS = 100 };

/* Zero-initialise it, with a communicator that it takes over. */
typedef struct weft_mpi_control {
    MPI_Comm comm;
    atomic_bool told; /* by another process that the world is broken */
    bool gathered;    /* since it was told something: process 0 will say that it has come */
    /* What this process sent in the last meeting: the same words to some processes. */
    void *words;
    int num_sent;
    MPI_Request *sent;
} weft_mpi_control;

/* Collective, unless this process has given up. */
void weft_mpi_control_close(weft_mpi_control *meetings);

/* Calls weft_break() when another process has told that it gave up. Called by both threads. */
void weft_mpi_hear_news(weft_mpi_control *meetings);
/* The world is broken: tells the other processes why, unless it is one of them that told. */
void weft_mpi_give_up(weft_mpi_control *meetings);

/* As weft_transport.gather() and weft_transport.tell(). */
void weft_mpi_gather(weft_mpi_control *meetings, const void *mine, void *all, size_t size, double timeout_s,
                     bool came[]);
bool weft_mpi_tell(weft_mpi_control *meetings, void *words, size_t size, double timeout_s);

#endif
