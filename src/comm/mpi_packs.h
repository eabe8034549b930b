/* Small messages over MPI: those that are ready together for one process leave as one message
 * (comm/pack.h), on a communicator of their own.
 *
 * A send is copied into its process's open pack, which leaves when it is full or flushed. With that all
 * messages of the pack but the last have ended: their panels are free. The last one ends when the pack has
 * left, so that the engine polls until then. Paced messages (comm/message.h), which are not packed, bound
 * the memory of packs under way and of the receiver.
 *
 * A receive is an entry of the inbox. Receives for packs from any process are always posted, and a pack is
 * unpacked on arrival. Messages that precede their receive are kept, so packs never wait for each other.
 * Paced messages bound the kept memory too. */
#ifndef WEFT_SRC_COMM_MPI_PACKS_H
#define WEFT_SRC_COMM_MPI_PACKS_H

#include <mpi.h>

#include "comm/transport.h"

typedef struct weft_mpi_packs weft_mpi_packs;

/* Takes over the communicator. `limit`: bytes of the largest packed message, well below
 * WEFT_PACK_CAPACITY. `nodes`: of each process, the number of its machine, within which messages are not
 * packed; NULL: all are packed. If no process is left to pack for, nothing is allocated and polls do
 * nothing. NULL: no memory, or MPI has failed. */
weft_mpi_packs *weft_mpi_packs_open(MPI_Comm comm, int64_t limit, const int nodes[]);
/* Collective, unless abandoned. */
void weft_mpi_packs_close(weft_mpi_packs *packs);

bool weft_mpi_packs_takes(const weft_mpi_packs *packs, const weft_message *message);
/* As weft_data.start(). May append to `finished`. */
weft_status weft_mpi_packs_start(weft_mpi_packs *packs, const weft_message *message, bool receive,
                                 void *memory, void *token, weft_vec *finished);
/* As weft_data.flush(): sends the open packs. */
void weft_mpi_packs_flush(weft_mpi_packs *packs, weft_vec *finished);
/* Receives packs and appends the ended messages (weft_finished) to `finished`. Calls weft_break() if data
 * is lost. */
void weft_mpi_packs_poll(weft_mpi_packs *packs, weft_vec *finished);
/* As weft_data.abandon(). */
void weft_mpi_packs_abandon(weft_mpi_packs *packs);

#endif
