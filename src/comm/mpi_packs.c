#include "comm/mpi_packs.h"

#include <stdlib.h>
#include <string.h>

#include "comm/mpi_requests.h"
#include "comm/pack.h"

enum { RECEIVES = 8 }; /* number of posted receives */

/* State for one process. */
typedef struct outbox {
    int process;
    bool plain;      /* messages from and to it are not packed */
    weft_pack *open; /* NULL: nothing to send */
    void *last;      /* token of its last message */
} outbox;

/* Purpose of a request. */
typedef struct purpose {
    weft_pack *pack;
    void *token; /* of a send */
} purpose;

struct weft_mpi_packs {
    MPI_Comm comm;
    int64_t limit;
    weft_inbox *inbox;
    int num_processes;
    outbox *outboxes; /* one per process */
    int *busy;        /* processes with an open pack */
    int num_busy;
    weft_mpi_requests active; /* purpose; the first RECEIVES are receives. Empty: nothing is packed */
    bool abandoned;
};

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Purpose of the i-th request. */
static purpose *purpose_of(weft_mpi_packs *packs, int i)
{
    return (purpose *)packs->active.purposes + i;
}

static void report(weft_vec *finished, void *token, weft_status status)
{
    weft_finished *ended = weft_vec_push(finished, sizeof(*ended));
    if (ended != NULL) {
        *ended = (weft_finished){ token, status };
    } else {
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to tell which messages have ended");
    }
}

/* ---- sending ------------------------------------------------------------------------------------------- */

/* Sends the open pack. */
static void send_pack(weft_mpi_packs *packs, outbox *to, weft_vec *finished)
{
    weft_pack *pack = to->open;
    weft_mpi_requests *active = &packs->active;
    int i = active->count;
    weft_status status = weft_mpi_requests_reserve(active, sizeof(purpose)) ? WEFT_OK : WEFT_ERR_NOMEM;
    if (status == WEFT_OK && MPI_Isend(pack->bytes, pack->used, MPI_BYTE, to->process, 0, packs->comm,
                                       &active->requests[i]) != MPI_SUCCESS) {
        status = WEFT_ERR_COMM;
    }
    to->open = NULL;
    if (status != WEFT_OK) {
        report(finished, to->last, status);
        free(pack);
        return;
    }
    *purpose_of(packs, i) = (purpose){ pack, to->last };
    active->count++;
}

static weft_status start_send(weft_mpi_packs *packs, const weft_message *message, const void *memory,
                              void *token, weft_vec *finished)
{
    outbox *to = &packs->outboxes[message->peer];
    bool fits = to->open != NULL && weft_pack_put(to->open, message, memory);
    if (fits) {
        report(finished, to->last, WEFT_OK); /* copied into the pack */
    } else if (to->open != NULL) {
        send_pack(packs, to, finished);
    } else {
        packs->busy[packs->num_busy++] = to->process;
    }
    if (!fits) {
        to->open = malloc(sizeof(*to->open));
        if (to->open == NULL) {
            return WEFT_ERR_NOMEM;
        }
        to->open->used = to->open->count = 0;
        weft_pack_put(to->open, message, memory); /* a single message always fits */
    }
    to->last = token;
    return WEFT_OK;
}

void weft_mpi_packs_flush(weft_mpi_packs *packs, weft_vec *finished)
{
    for (int i = 0; i < packs->num_busy; i++) {
        outbox *to = &packs->outboxes[packs->busy[i]];
        if (to->open != NULL) {
            send_pack(packs, to, finished);
        }
    }
    packs->num_busy = 0;
}

/* ---- receiving ----------------------------------------------------------------------------------------- */

static int post_receive(weft_mpi_packs *packs, int i)
{
    return MPI_Irecv(purpose_of(packs, i)->pack->bytes, WEFT_PACK_CAPACITY, MPI_BYTE, MPI_ANY_SOURCE, 0,
                     packs->comm, &packs->active.requests[i]);
}

static void receive_pack(weft_mpi_packs *packs, int i, const MPI_Status *mpi_status, weft_vec *finished)
{
    int size = 0;
    weft_status status = WEFT_ERR_COMM;
    if (mpi_status->MPI_ERROR == MPI_SUCCESS && MPI_Get_count(mpi_status, MPI_BYTE, &size) == MPI_SUCCESS) {
        status = weft_inbox_take(packs->inbox, mpi_status->MPI_SOURCE, purpose_of(packs, i)->pack->bytes,
                                 size, finished);
    }
    if (status == WEFT_OK && post_receive(packs, i) != MPI_SUCCESS) {
        status = WEFT_ERR_COMM;
    }
    if (status != WEFT_OK) {
        packs->active.requests[i] = MPI_REQUEST_NULL;
        weft_break(status, "weft", "small messages from process %d are lost", mpi_status->MPI_SOURCE);
    }
}

static weft_status start_receive(weft_mpi_packs *packs, const weft_message *message, void *memory,
                                 void *token, weft_vec *finished)
{
    bool came = false;
    weft_status status = weft_inbox_expect(packs->inbox, message, memory, token, &came);
    if (came) {
        report(finished, token, WEFT_OK);
    }
    return status;
}

/* ---- the interface ------------------------------------------------------------------------------------- */

bool weft_mpi_packs_takes(const weft_mpi_packs *packs, const weft_message *message)
{
    return packs != NULL && message->bytes <= packs->limit && !packs->outboxes[message->peer].plain &&
           !weft_message_is_paced(message);
}

weft_status weft_mpi_packs_start(weft_mpi_packs *packs, const weft_message *message, bool receive,
                                 void *memory, void *token, weft_vec *finished)
{
    if (receive) {
        return start_receive(packs, message, memory, token, finished);
    }
    return start_send(packs, message, memory, token, finished);
}

static void end_pack(weft_mpi_packs *packs, int i, int error, weft_vec *finished)
{
    purpose *ended = purpose_of(packs, i);
    packs->active.requests[i] = MPI_REQUEST_NULL; /* filled in later */
    free(ended->pack);
    ended->pack = NULL;
    report(finished, ended->token, error == MPI_SUCCESS ? WEFT_OK : WEFT_ERR_COMM);
}

static void close_ranks(weft_mpi_packs *packs)
{
    int kept = RECEIVES;
    for (int i = RECEIVES; i < packs->active.count; i++) {
        if (purpose_of(packs, i)->pack != NULL) {
            *purpose_of(packs, kept) = *purpose_of(packs, i);
            packs->active.requests[kept++] = packs->active.requests[i];
        }
    }
    packs->active.count = kept;
}

void weft_mpi_packs_poll(weft_mpi_packs *packs, weft_vec *finished)
{
    weft_mpi_requests *active = &packs->active;
    int count = weft_mpi_requests_test(active);
    if (count < 0) {
        weft_break(WEFT_ERR_COMM, "weft", "small messages are lost");
        return;
    }
    bool sent = false;
    for (int k = 0; k < count; k++) {
        int i = active->ended[k];
        const MPI_Status status = active->statuses[k];
        if (i < RECEIVES) {
            receive_pack(packs, i, &status, finished);
        } else {
            end_pack(packs, i, status.MPI_ERROR, finished);
            sent = true;
        }
    }
    if (sent) {
        close_ranks(packs);
    }
}

/* Requests that cannot be cancelled stay with MPI, and so does their memory. */
void weft_mpi_packs_abandon(weft_mpi_packs *packs)
{
    packs->abandoned = true;
    for (int i = 0; i < packs->active.count; i++) {
        MPI_Request *request = &packs->active.requests[i];
        int ended = *request == MPI_REQUEST_NULL;
        if (i < RECEIVES) {
            ended = weft_mpi_take_back(request);
        } else if (!ended) {
            MPI_Test(request, &ended, MPI_STATUS_IGNORE);
        }
        if (!ended) {
            purpose_of(packs, i)->pack = NULL;
        }
    }
}

static void cancel_receives(weft_mpi_packs *packs)
{
    MPI_Request *requests = packs->active.requests;
    for (int i = 0; i < packs->active.count && i < RECEIVES; i++) {
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
    }
}

static void free_packs(weft_mpi_packs *packs)
{
    for (int i = 0; i < packs->active.count; i++) {
        free(purpose_of(packs, i)->pack);
    }
    for (int p = 0; packs->outboxes != NULL && p < packs->num_processes; p++) {
        free(packs->outboxes[p].open);
    }
}

void weft_mpi_packs_close(weft_mpi_packs *packs)
{
    if (packs == NULL) {
        return;
    }
    if (!packs->abandoned) {
        cancel_receives(packs);
        MPI_Comm_free(&packs->comm);
    }
    free_packs(packs);
    weft_inbox_free(packs->inbox);
    free(packs->outboxes);
    free(packs->busy);
    weft_mpi_requests_free(&packs->active);
    free(packs);
}

static bool post_receives(weft_mpi_packs *packs)
{
    for (int i = 0; i < RECEIVES; i++) {
        if (!weft_mpi_requests_reserve(&packs->active, sizeof(purpose))) {
            return false;
        }
        *purpose_of(packs, i) = (purpose){ .pack = malloc(sizeof(weft_pack)) };
        packs->active.requests[i] = MPI_REQUEST_NULL;
        packs->active.count++;
        if (purpose_of(packs, i)->pack == NULL || post_receive(packs, i) != MPI_SUCCESS) {
            return false;
        }
    }
    return true;
}

static bool packs_for_anyone(const weft_mpi_packs *packs)
{
    for (int p = 0; p < packs->num_processes; p++) {
        if (!packs->outboxes[p].plain) {
            return true;
        }
    }
    return false;
}

weft_mpi_packs *weft_mpi_packs_open(MPI_Comm comm, int64_t limit, const int nodes[])
{
    weft_mpi_packs *packs = calloc(1, sizeof(*packs));
    if (packs == NULL) {
        return NULL;
    }
    packs->limit = limit;
    packs->comm = comm;
    int process = 0;
    MPI_Comm_rank(comm, &process);
    MPI_Comm_size(comm, &packs->num_processes);
    packs->outboxes = calloc((size_t)packs->num_processes, sizeof(*packs->outboxes));
    packs->busy = calloc((size_t)packs->num_processes, sizeof(*packs->busy));
    packs->inbox = weft_inbox_new();
    bool opened = packs->outboxes != NULL && packs->busy != NULL && packs->inbox != NULL;
    for (int p = 0; p < packs->num_processes && opened; p++) {
        /* Processes of one machine exchange short messages through shared memory, faster than in packs. */
        packs->outboxes[p] = (outbox){ .process = p, .plain = nodes != NULL && nodes[p] == nodes[process] };
    }
    /* On a single machine nothing is packed, so nothing is posted or polled. The same on every process. */
    if (!opened || (packs_for_anyone(packs) && !post_receives(packs))) {
        weft_mpi_packs_close(packs);
        return NULL;
    }
    return packs;
}
