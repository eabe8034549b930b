/* The collective part of opening the MPI transport. Blocking collectives (MPI_Comm_dup(),
 * MPI_Comm_split_type(), ...) wait for an absent process without limit, so the nonblocking ones are used,
 * with a time-out. */
#ifndef WEFT_SRC_COMM_MPI_OPEN_H
#define WEFT_SRC_COMM_MPI_OPEN_H

#include <mpi.h>

#include "runtime/runtime.h"

/* The account of one process. */
typedef struct weft_mpi_card {
    int64_t pack_bytes; /* as in weft_mpi_open() */
    uint64_t machine;   /* weft_machine_id() */
    int64_t pid;        /* of the process, valid where pid_space is the same (comm/mpi_presence.h) */
    uint64_t pid_space;
} weft_mpi_card;

typedef struct weft_mpi_common {
    MPI_Comm messages, control, packs; /* duplicates; packs: MPI_COMM_NULL if no process packs */
    weft_process_place place;
    weft_mpi_card mine, *cards; /* of each process */
    int *nodes;                 /* of each process: the first process of its machine */
    int64_t pack_bytes;         /* the least of all processes; -1: none gave one */
} weft_mpi_common;

/* Collective over `comm`. NULL with the error kept: then nothing collective is possible
 * (weft_mpi_leave()), unless the error is WEFT_ERR_NOMEM, and memory that MPI may still write to is left
 * to MPI. */
weft_mpi_common *weft_mpi_common_open(const char *function, MPI_Comm comm, int64_t pack_bytes,
                                      double timeout_s);
/* Frees the memory alone: the communicators belong to their users. */
void weft_mpi_common_free(weft_mpi_common *common);

#endif
