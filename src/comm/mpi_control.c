#include "comm/mpi_control.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi_life.h"
#include "comm/mpi_requests.h"
#include "comm/mpi_texts.h"

enum { TAG_RECORD = 1, TAG_BROADCAST, TAG_ABORT, TAG_HERE, TAG_TEXT };

typedef struct abort_notice {
    weft_status status;
    int32_t misses_one; /* 1: a process may not come to the end */
    char message[2000]; /* short enough to be sent eagerly */
} abort_notice;

typedef struct mpi_control {
    MPI_Comm comm;
    weft_mpi_guard *guard; /* held in all functions; NULL: there is none */
    weft_mpi_texts texts;
    weft_mpi_presence *presence;
    atomic_bool misses_one; /* a process may not come to the end */
    atomic_bool told; /* an abort notice has come */
    bool gathered;    /* since the last broadcast: process 0 will announce its own arrival */
    /* Payload of the last gather or broadcast: the same bytes to several processes. */
    void *bytes;
    int num_sent;
    MPI_Request *sent;
    abort_notice *notice; /* of this process: memory may be short when it is needed. NULL: sent, its memory stays with MPI */
} mpi_control;

/* ---- abort notices ------------------------------------------------------------------------------------- */

static void hear_abort(void *state)
{
    mpi_control *control = state;
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    if (weft_is_broken() ||
        MPI_Improbe(MPI_ANY_SOURCE, TAG_ABORT, control->comm, &there, &message, &status) != MPI_SUCCESS ||
        !there) {
        return;
    }
    abort_notice theirs;
    if (MPI_Mrecv(&theirs, (int)sizeof(theirs), MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        control->told = true;
        if (theirs.misses_one != 0) {
            weft_mpi_miss();
        }
        weft_break(theirs.status, "weft", "process %d gave up: %s", status.MPI_SOURCE, theirs.message);
    }
}

/* The messages are short enough to be sent eagerly; their memory stays with MPI. */
static void send_notices(mpi_control *control)
{
    abort_notice *mine = control->notice;
    if (mine == NULL || control->told) {
        return;
    }
    mine->status = weft_broken_by(mine->message, sizeof(mine->message));
    mine->misses_one = control->misses_one;
    int process = 0, processes = 0;
    MPI_Comm_rank(control->comm, &process);
    MPI_Comm_size(control->comm, &processes);
    for (int p = 0; p < processes; p++) {
        MPI_Request request;
        if (p != process && MPI_Isend(mine, (int)sizeof(*mine), MPI_BYTE, p, TAG_ABORT, control->comm,
                                      &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
            control->notice = NULL;
        }
    }
}

static void send_abort(void *state)
{
    mpi_control *control = state;
    weft_mpi_leave(control->comm, control->presence);
    send_notices(control);
}

static void miss(void *state)
{
    mpi_control *control = state;
    control->misses_one = true;
    weft_mpi_miss();
}

static weft_presence presence_of(void *state, int process)
{
    const mpi_control *control = state;
    return weft_mpi_presence_of(control->presence, process);
}

/* ---- gather and broadcast ------------------------------------------------------------------------------ */

/* Takes the ended requests and cancels the others. Returns whether none is left. */
static bool end_receives(MPI_Request requests[], int count, bool ended[])
{
    bool all = true;
    for (int i = 0; i < count; i++) {
        int flag = 0;
        MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
        ended[i] = flag;
        all = weft_mpi_take_back(&requests[i]) && all;
    }
    return all;
}

/* Frees the memory of ended sends; MPI keeps that of the others. */
static void forget_sent(mpi_control *control)
{
    bool failed;
    if (weft_mpi_all_ended(control->num_sent, control->sent, &failed)) {
        free(control->bytes);
    }
    free(control->sent);
    control->num_sent = 0;
}

/* Sends to processes first .. last - 1 without waiting: they have read it by the next gather or broadcast. */
static void send_to_some(mpi_control *control, int first, int last, int tag, const void *bytes, size_t size)
{
    forget_sent(control);
    control->bytes = malloc(size);
    control->sent = malloc((size_t)(last - first) * sizeof(MPI_Request));
    if (control->bytes == NULL || control->sent == NULL) {
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to compare calls");
        return;
    }
    memcpy(control->bytes, bytes, size);
    for (int p = first; p < last; p++) {
        MPI_Isend(control->bytes, (int)size, MPI_BYTE, p, tag, control->comm,
                  &control->sent[control->num_sent++]);
    }
}

/* Process 0 announces its arrival, so that the others know how long to wait for the broadcast. */
static void say_here(const mpi_control *control, int processes)
{
    for (int p = 1; p < processes; p++) {
        MPI_Request request;
        if (MPI_Isend(NULL, 0, MPI_BYTE, p, TAG_HERE, control->comm, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request); /* an empty message has no buffer */
        }
    }
}

/* Process 0 only. Buffers that MPI may still write to are left to MPI. */
static void gather_records(mpi_control *control, const void *mine, void *all, size_t size, double timeout_s,
                           bool came[])
{
    int processes = 0;
    MPI_Comm_size(control->comm, &processes);
    char *inbox = malloc(size * (size_t)processes);
    MPI_Request *requests = malloc((size_t)processes * sizeof(*requests));
    if (inbox == NULL || requests == NULL) {
        free(inbox);
        free(requests);
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to compare the calls of %d processes", processes);
        return;
    }
    say_here(control, processes);
    memcpy(inbox, mine, size);
    requests[0] = MPI_REQUEST_NULL;
    for (int p = 1; p < processes; p++) {
        MPI_Irecv(inbox + size * (size_t)p, (int)size, MPI_BYTE, p, TAG_RECORD, control->comm, &requests[p]);
    }
    weft_mpi_wait(processes, requests, timeout_s, control->guard, hear_abort, control);
    bool done = end_receives(requests, processes, came);
    memcpy(all, inbox, size * (size_t)processes);
    if (done) {
        free(inbox);
    }
    free(requests);
}

static void gather(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[])
{
    mpi_control *control = state;
    int process = 0;
    MPI_Comm_rank(control->comm, &process);
    if (process == 0) {
        gather_records(control, mine, all, size, timeout_s, came);
        return;
    }
    send_to_some(control, 0, 1, TAG_RECORD, mine, size);
    control->gathered = true;
}

/* From process 0, within the time-out. Memory that MPI may still write to is left to MPI. */
static bool receive(mpi_control *control, int tag, void *bytes, size_t size, double timeout_s)
{
    void *inbox = malloc(size + 1);
    if (inbox == NULL) {
        return false;
    }
    MPI_Request request;
    bool came = false;
    MPI_Irecv(inbox, (int)size, MPI_BYTE, 0, tag, control->comm, &request);
    weft_mpi_wait(1, &request, timeout_s, control->guard, hear_abort, control);
    bool ended = end_receives(&request, 1, &came);
    if (came && size > 0) {
        memcpy(bytes, inbox, size);
    }
    if (ended) {
        free(inbox);
    }
    return came;
}

/* Process 0 itself waits as long for the others, and then needs some time. */
static bool receive_broadcast(mpi_control *control, void *bytes, size_t size, double timeout_s)
{
    const double work_s = 5;
    bool here = !control->gathered || receive(control, TAG_HERE, NULL, 0, timeout_s);
    control->gathered = false;
    return here && receive(control, TAG_BROADCAST, bytes, size, timeout_s > 0 ? timeout_s + work_s : 0);
}

static bool broadcast(void *state, void *bytes, size_t size, double timeout_s)
{
    mpi_control *control = state;
    int process = 0, processes = 0;
    MPI_Comm_rank(control->comm, &process);
    MPI_Comm_size(control->comm, &processes);
    if (process != 0) {
        return receive_broadcast(control, bytes, size, timeout_s);
    }
    /* An absent process reads them when it comes. */
    send_to_some(control, 1, processes, TAG_BROADCAST, bytes, size);
    return true;
}

/* ---- texts --------------------------------------------------------------------------------------------- */

static void send_text(void *state, int process, const void *bytes, size_t size)
{
    mpi_control *control = state;
    weft_mpi_texts_send(&control->texts, control->comm, TAG_TEXT, process, bytes, size);
}

static size_t receive_text(void *state, int *process, void *bytes, size_t size)
{
    const mpi_control *control = state;
    return weft_mpi_texts_take(control->comm, TAG_TEXT, process, bytes, size);
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

/* Freeing a communicator is collective. Unfinished sends keep their memory. */
static void close_control(void *state)
{
    mpi_control *control = state;
    const double bytes_are_there_s = 5;
    weft_mpi_texts_close(&control->texts);
    if (!weft_mpi_has_left()) {
        weft_mpi_wait(control->num_sent, control->sent, bytes_are_there_s, control->guard, NULL, NULL);
        forget_sent(control);
        MPI_Comm_free(&control->comm);
        weft_mpi_keep(control->presence);
    }
    free(control->notice);
    free(control);
}

bool weft_mpi_control_open(const weft_mpi_common *common, weft_mpi_guard *guard, weft_control *table)
{
    mpi_control *control = calloc(1, sizeof(*control));
    abort_notice *notice = malloc(sizeof(*notice));
    weft_mpi_presence *presence = weft_mpi_presence_new(common);
    if (control == NULL || notice == NULL || presence == NULL) {
        free(control);
        free(notice);
        weft_mpi_presence_free(presence);
        return false;
    }
    control->notice = notice;
    control->presence = presence;
    control->comm = common->control;
    control->guard = guard;
    *table = (weft_control){
        .state = control,
        .gather = gather,
        .broadcast = broadcast,
        .send = send_text,
        .receive = receive_text,
        .send_abort = send_abort,
        .hear_abort = hear_abort,
        .presence = presence_of,
        .miss = miss,
        .close = close_control,
    };
    return true;
}
