/* Small messages over MPI: those for one process that are ready together leave in one message (comm/pack.h),
 * on a communicator of their own.
 *
 * A send is copied into the open pack of its process, which leaves when it is full or flushed. All messages of a
 * pack but the last have ended with that: their panels are free. The last one ends when the pack has left, so
 * that the engine polls until then. The memory of packs under way is bounded as that of the receiver is, by paced
 * messages (comm/message.h), which do not travel in packs.
 *
 * A receive is an entry of the inbox. Receives of packs from anyone are always posted, and a pack is emptied
 * when it has come. What comes before its receive is kept, so packs never wait for each other. How much that
 * is, is bounded by paced messages too. */
#ifndef WEFT_SRC_COMM_MPI_PACKS_H
#define WEFT_SRC_COMM_MPI_PACKS_H

#include <mpi.h>

#include "comm/transport.h"

typedef struct weft_mpi_packs weft_mpi_packs;

/* Takes the communicator over. `limit`: of a message's bytes, well below WEFT_PACK_CAPACITY. `nodes`: of each
 * process, a number of its machine, where messages are not packed; NULL: all are. Where none is left to pack, it
 * takes nothing, and a poll does nothing. NULL: no memory, or MPI has failed. */
weft_mpi_packs *weft_mpi_packs_open(MPI_Comm comm, int64_t limit, const int nodes[]);
/* Collective, unless abandoned. */
void weft_mpi_packs_close(weft_mpi_packs *packs);

bool weft_mpi_packs_takes(const weft_mpi_packs *packs, const weft_message *message);
/* As weft_data.start(). May append to `finished`. */
weft_status weft_mpi_packs_start(weft_mpi_packs *packs, const weft_message *message, bool receive,
                                 void *memory, void *token, weft_vec *finished);
/* As weft_data.flush(): the open packs leave. */
void weft_mpi_packs_flush(weft_mpi_packs *packs, weft_vec *finished);
/* Takes what has come; appends the messages that have ended to `finished`
 * (weft_finished). Calls weft_break() when what came is lost. */
void weft_mpi_packs_poll(weft_mpi_packs *packs, weft_vec *finished);
/* As weft_data.abandon(). */
void weft_mpi_packs_abandon(weft_mpi_packs *packs);

#endif
