#include "comm/mpi_open.h"

#include <stdlib.h>

#include "comm/mpi_life.h"
#include "comm/mpi_presence.h"
#include "comm/mpi_requests.h"

typedef struct opening {
    const char *function;
    double timeout_s;
    weft_mpi_common *common; /* all memory that MPI may write to */
} opening;

/* Waits for a request; `error`: of its start. False with the error kept. */
static bool finish(const opening *o, int error, MPI_Request *request)
{
    if (error == MPI_SUCCESS && weft_mpi_wait(1, request, o->timeout_s, NULL, NULL, NULL)) {
        return true;
    }
    if (error == MPI_SUCCESS) {
        weft_fail(WEFT_ERR_TIMEOUT, o->function,
                  "not all processes have come to %s() within %.1f s: one does not call it, or has ended",
                  o->function, o->timeout_s);
    } else {
        weft_fail(WEFT_ERR_COMM, o->function, "MPI cannot reach the processes of the communicator");
    }
    weft_mpi_leave(MPI_COMM_NULL, NULL);
    return false;
}

static bool duplicate(const opening *o, MPI_Comm comm, MPI_Comm *copy)
{
    MPI_Request request;
    int error = MPI_Comm_idup(comm, copy, &request);
    if (!finish(o, error, &request)) {
        return false;
    }
    MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN);
    return true;
}

static bool exchange_cards(const opening *o)
{
    weft_mpi_common *common = o->common;
    enum { SIZE = sizeof(weft_mpi_card) };
    MPI_Request request;
    int error = MPI_Iallgather(&common->mine, SIZE, MPI_BYTE, common->cards, SIZE, MPI_BYTE, common->messages,
                               &request);
    return finish(o, error, &request);
}

/* If the processes' limits differ the least holds. */
static int64_t min_pack_bytes(const weft_mpi_common *common)
{
    int64_t least = -1;
    for (int p = 0; p < common->place.num_processes; p++) {
        int64_t given = common->cards[p].pack_bytes;
        least = given >= 0 && (least < 0 || given < least) ? given : least;
    }
    return least;
}

static void find_places(weft_mpi_common *common)
{
    weft_process_place *place = &common->place;
    for (int p = 0; p < place->num_processes; p++) {
        int first = 0;
        while (common->cards[first].machine != common->cards[p].machine) {
            first++;
        }
        common->nodes[p] = first;
    }
    place->node = common->nodes[place->process];
    for (int p = 0; p < place->num_processes; p++) {
        bool near = common->nodes[p] == place->node;
        place->node_processes += near;
        place->node_process += near && p < place->process;
    }
}

static bool open_common(const opening *o, MPI_Comm comm)
{
    weft_mpi_common *common = o->common;
    if (!duplicate(o, comm, &common->messages) || !exchange_cards(o)) {
        return false;
    }
    common->pack_bytes = min_pack_bytes(common);
    find_places(common);
    return duplicate(o, common->messages, &common->control) &&
           (common->pack_bytes == 0 || duplicate(o, common->messages, &common->packs));
}

weft_mpi_common *weft_mpi_common_open(const char *function, MPI_Comm comm, int64_t pack_bytes,
                                      double timeout_s)
{
    weft_mpi_common *common = calloc(1, sizeof(*common));
    if (common == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the MPI transport");
        return NULL;
    }
    common->messages = common->control = common->packs = MPI_COMM_NULL;
    common->mine = (weft_mpi_card){ .pack_bytes = pack_bytes, .machine = weft_machine_id() };
    weft_mpi_presence_card(&common->mine);
    MPI_Comm_rank(comm, &common->place.process);
    MPI_Comm_size(comm, &common->place.num_processes);
    common->cards = calloc((size_t)common->place.num_processes, sizeof(*common->cards));
    common->nodes = calloc((size_t)common->place.num_processes, sizeof(*common->nodes));
    if (common->cards == NULL || common->nodes == NULL) {
        weft_mpi_common_free(common);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the MPI transport");
        return NULL;
    }
    return open_common(&(opening){ function, timeout_s, common }, comm) ? common : NULL;
}

void weft_mpi_common_free(weft_mpi_common *common)
{
    free(common->cards);
    free(common->nodes);
    free(common);
}
