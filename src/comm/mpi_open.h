/* What all processes do together when the MPI transport opens. MPI's functions that all must call for any to
 * return (MPI_Comm_dup(), MPI_Comm_split_type(), ...) wait for a missing process for ever. Those that do not block
 * are used here, and waited for until the time is over. */
#ifndef WEFT_SRC_COMM_MPI_OPEN_H
#define WEFT_SRC_COMM_MPI_OPEN_H

#include <mpi.h>

#include "runtime/runtime.h"

/* What a process says of itself. */
typedef struct weft_mpi_card {
    int64_t pack_bytes; /* as weft_mpi_open() has it */
    uint64_t machine;   /* weft_machine_id() */
} weft_mpi_card;

typedef struct weft_mpi_common {
    MPI_Comm messages, control, packs; /* duplicates; packs: MPI_COMM_NULL where nobody packs */
    weft_process_place place;
    weft_mpi_card mine, *cards; /* of each process */
    int *nodes;                 /* the same: the first process of its machine */
    int64_t pack_bytes;         /* the least that any process gave; -1: none gave one */
} weft_mpi_common;

/* Collective over `comm`. NULL with the error kept: nothing collective is possible any more (weft_mpi_leave()), unless it
 * is WEFT_ERR_NOMEM, and what MPI may still write to is left to it. */
weft_mpi_common *weft_mpi_common_open(const char *function, MPI_Comm comm, int64_t pack_bytes,
                                      double timeout_s);
/* Frees the memory alone: the communicators are their users'. */
void weft_mpi_common_free(weft_mpi_common *common);

#endif
