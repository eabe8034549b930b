#include "comm/mpi_control.h"

#include <stdlib.h>
#include <string.h>

#include "comm/mpi_life.h"
#include "comm/mpi_requests.h"

enum { TAG_RECORD = 1, TAG_WORDS, TAG_NEWS, TAG_HERE };

/* What a process that gives up tells the others. */
typedef struct news {
    weft_status status;
    char message[2000]; /* short enough to leave at once */
} news;

/* ---- news ---------------------------------------------------------------------------------------------- */

void weft_mpi_hear_news(weft_mpi_control *meetings)
{
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    if (weft_is_broken() ||
        MPI_Improbe(MPI_ANY_SOURCE, TAG_NEWS, meetings->comm, &there, &message, &status) != MPI_SUCCESS ||
        !there) {
        return;
    }
    news theirs;
    if (MPI_Mrecv(&theirs, (int)sizeof(theirs), MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        meetings->told = true;
        weft_break(theirs.status, "weft", "process %d gave up: %s", status.MPI_SOURCE, theirs.message);
    }
}

/* The messages are short, so that they leave at once; their memory stays with MPI. */
static void spread_news(const weft_mpi_control *meetings)
{
    news *mine = malloc(sizeof(*mine));
    if (mine == NULL || meetings->told) {
        free(mine);
        return;
    }
    mine->status = weft_broken_by(mine->message, sizeof(mine->message));
    int process = 0, processes = 0, sent = 0;
    MPI_Comm_rank(meetings->comm, &process);
    MPI_Comm_size(meetings->comm, &processes);
    for (int p = 0; p < processes; p++) {
        MPI_Request request;
        if (p != process && MPI_Isend(mine, (int)sizeof(*mine), MPI_BYTE, p, TAG_NEWS, meetings->comm,
                                      &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
            sent++;
        }
    }
    if (sent == 0) {
        free(mine);
    }
}

void weft_mpi_give_up(weft_mpi_control *meetings)
{
    weft_mpi_leave(meetings->comm);
    spread_news(meetings);
}

/* ---- meetings ------------------------------------------------------------------------------------------ */

static void hear(void *meetings)
{
    weft_mpi_hear_news(meetings);
}

/* The requests that have ended, one by one; takes the others back. Returns whether nothing is left behind. */
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

/* Gives back the memory of what has been sent; what is still on its way keeps it. */
static void forget_words(weft_mpi_control *meetings)
{
    int ended = 0;
    MPI_Testall(meetings->num_sent, meetings->sent, &ended, MPI_STATUSES_IGNORE);
    if (ended) {
        free(meetings->words);
    }
    free(meetings->sent);
    meetings->num_sent = 0;
}

/* Sends to the processes first .. last - 1, and does not wait: at the next meeting they have read it. */
static void send_words(weft_mpi_control *meetings, int first, int last, int tag, const void *words,
                       size_t size)
{
    forget_words(meetings);
    meetings->words = malloc(size);
    meetings->sent = malloc((size_t)(last - first) * sizeof(MPI_Request));
    if (meetings->words == NULL || meetings->sent == NULL) {
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to compare calls");
        return;
    }
    memcpy(meetings->words, words, size);
    for (int p = first; p < last; p++) {
        MPI_Isend(meetings->words, (int)size, MPI_BYTE, p, tag, meetings->comm,
                  &meetings->sent[meetings->num_sent++]);
    }
}

/* Process 0 says that it has come, so that the others know how long to wait for what it will tell. */
static void say_here(const weft_mpi_control *meetings, int processes)
{
    for (int p = 1; p < processes; p++) {
        MPI_Request request;
        if (MPI_Isend(NULL, 0, MPI_BYTE, p, TAG_HERE, meetings->comm, &request) == MPI_SUCCESS) {
            MPI_Request_free(&request); /* there is no memory to be kept */
        }
    }
}

/* Of process 0. Buffers that MPI may still write to are left to it. */
static void gather_records(weft_mpi_control *meetings, const void *mine, void *all, size_t size,
                           double timeout_s, bool came[])
{
    int processes = 0;
    MPI_Comm_size(meetings->comm, &processes);
    char *inbox = malloc(size * (size_t)processes);
    MPI_Request *requests = malloc((size_t)processes * sizeof(*requests));
    if (inbox == NULL || requests == NULL) {
        free(inbox);
        free(requests);
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to compare the calls of %d processes", processes);
        return;
    }
    say_here(meetings, processes);
    memcpy(inbox, mine, size);
    requests[0] = MPI_REQUEST_NULL;
    for (int p = 1; p < processes; p++) {
        MPI_Irecv(inbox + size * (size_t)p, (int)size, MPI_BYTE, p, TAG_RECORD, meetings->comm, &requests[p]);
    }
    weft_mpi_wait(processes, requests, timeout_s, hear, meetings);
    bool done = end_receives(requests, processes, came);
    memcpy(all, inbox, size * (size_t)processes);
    if (done) {
        free(inbox);
    }
    free(requests);
}

void weft_mpi_gather(weft_mpi_control *meetings, const void *mine, void *all, size_t size, double timeout_s,
                     bool came[])
{
    int process = 0;
    MPI_Comm_rank(meetings->comm, &process);
    if (process == 0) {
        gather_records(meetings, mine, all, size, timeout_s, came);
        return;
    }
    send_words(meetings, 0, 1, TAG_RECORD, mine, size);
    meetings->gathered = true;
}

/* From process 0, within the time. Memory that MPI may still write to is left to it. */
static bool receive(weft_mpi_control *meetings, int tag, void *words, size_t size, double timeout_s)
{
    void *inbox = malloc(size + 1);
    if (inbox == NULL) {
        return false;
    }
    MPI_Request request;
    bool came = false;
    MPI_Irecv(inbox, (int)size, MPI_BYTE, 0, tag, meetings->comm, &request);
    weft_mpi_wait(1, &request, timeout_s, hear, meetings);
    bool ended = end_receives(&request, 1, &came);
    if (came && size > 0) {
        memcpy(words, inbox, size);
    }
    if (ended) {
        free(inbox);
    }
    return came;
}

/* Process 0 waits for the others as long as these have waited for it, and has something to do then. */
static bool receive_words(weft_mpi_control *meetings, void *words, size_t size, double timeout_s)
{
    const double work_s = 5;
    bool here = !meetings->gathered || receive(meetings, TAG_HERE, NULL, 0, timeout_s);
    meetings->gathered = false;
    return here && receive(meetings, TAG_WORDS, words, size, timeout_s > 0 ? timeout_s + work_s : 0);
}

bool weft_mpi_tell(weft_mpi_control *meetings, void *words, size_t size, double timeout_s)
{
    int process = 0, processes = 0;
    MPI_Comm_rank(meetings->comm, &process);
    MPI_Comm_size(meetings->comm, &processes);
    if (process != 0) {
        return receive_words(meetings, words, size, timeout_s);
    }
    /* One that has not come reads them when it comes. */
    send_words(meetings, 1, processes, TAG_WORDS, words, size);
    return true;
}

void weft_mpi_control_close(weft_mpi_control *meetings)
{
    if (weft_mpi_has_left()) { /* freeing a communicator is collective */
        return;
    }
    const double words_are_there_s = 5;
    weft_mpi_wait(meetings->num_sent, meetings->sent, words_are_there_s, NULL, NULL);
    forget_words(meetings);
    MPI_Comm_free(&meetings->comm);
}
