#include "comm/mpi_meetings.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/mpi_requests.h"

enum { TAG_RECORD = 1, TAG_WORDS, TAG_NEWS };

/* What a process that gives up tells the others. */
typedef struct news {
    weft_status status;
    char message[768];
} news;

/* MPI outlives weft_finalize(), and so does what a world that broke has left in it: finalize_at_exit() has to
 * know. */
static struct {
    atomic_bool happened;
    MPI_Comm comm; /* of the world that broke, for its processes' last meeting */
} given_up;

/* The process in which weft has initialised MPI; its children have MPI's memory, and nothing of MPI. 0: none. */
static pid_t mpi_process;

/* How long a process waits at its end for the others of a world that broke. */
static const double LAST_MEETING_S = 5;

/* ---- news ---------------------------------------------------------------------------------------------- */

void weft_mpi_hear_news(weft_mpi_meetings *meetings)
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
static void spread_news(const weft_mpi_meetings *meetings)
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

void weft_mpi_give_up(weft_mpi_meetings *meetings)
{
    given_up.comm = meetings->comm;
    given_up.happened = true;
    spread_news(meetings);
}

bool weft_mpi_has_given_up(void)
{
    return given_up.happened;
}

/* ---- meetings ------------------------------------------------------------------------------------------ */

static void pause_us(double us)
{
    struct timespec time = { 0, (long)(us * 1e3) };
    nanosleep(&time, NULL);
}

/* Waits until all requests have ended, the time is over (timeout_s > 0; without the time for which this
 * process itself was stopped), or the world has broken (meetings not NULL). */
static bool wait_all(weft_mpi_meetings *meetings, MPI_Request requests[], int count, double timeout_s)
{
    double last_look_s = MPI_Wtime(), waited_s = 0, sleep_us = 5;
    int ended = 0;
    while (MPI_Testall(count, requests, &ended, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !ended &&
           !(meetings != NULL && weft_is_broken()) && (timeout_s <= 0 || waited_s < timeout_s)) {
        double now_s = MPI_Wtime();
        waited_s += now_s - last_look_s < 1 ? now_s - last_look_s : 0;
        last_look_s = now_s;
        if (meetings != NULL) {
            weft_mpi_hear_news(meetings);
        }
        pause_us(sleep_us);
        sleep_us = sleep_us < 200 ? 2 * sleep_us : 200;
    }
    return ended;
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
static void forget_words(weft_mpi_meetings *meetings)
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
static void send_words(weft_mpi_meetings *meetings, int first, int last, int tag, const void *words,
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

/* Of process 0. Buffers that MPI may still write to are left to it. */
static void gather_records(weft_mpi_meetings *meetings, const void *mine, void *all, size_t size,
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
    memcpy(inbox, mine, size);
    requests[0] = MPI_REQUEST_NULL;
    for (int p = 1; p < processes; p++) {
        MPI_Irecv(inbox + size * (size_t)p, (int)size, MPI_BYTE, p, TAG_RECORD, meetings->comm, &requests[p]);
    }
    wait_all(meetings, requests, processes, timeout_s);
    bool done = end_receives(requests, processes, came);
    memcpy(all, inbox, size * (size_t)processes);
    if (done) {
        free(inbox);
    }
    free(requests);
}

void weft_mpi_gather(weft_mpi_meetings *meetings, const void *mine, void *all, size_t size, double timeout_s,
                     bool came[])
{
    int process = 0;
    MPI_Comm_rank(meetings->comm, &process);
    if (process == 0) {
        gather_records(meetings, mine, all, size, timeout_s, came);
        return;
    }
    send_words(meetings, 0, 1, TAG_RECORD, mine, size);
}

static bool receive_words(weft_mpi_meetings *meetings, void *words, size_t size, double timeout_s)
{
    void *inbox = malloc(size);
    if (inbox == NULL) {
        return false;
    }
    MPI_Request request;
    bool came = false;
    MPI_Irecv(inbox, (int)size, MPI_BYTE, 0, TAG_WORDS, meetings->comm, &request);
    wait_all(meetings, &request, 1, timeout_s > 0 ? 2 * timeout_s + 1 : 0);
    bool ended = end_receives(&request, 1, &came);
    if (came) {
        memcpy(words, inbox, size);
    }
    if (ended) {
        free(inbox);
    }
    return came;
}

bool weft_mpi_tell(weft_mpi_meetings *meetings, void *words, size_t size, double timeout_s)
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

bool weft_mpi_meetings_open(weft_mpi_meetings *meetings, MPI_Comm comm)
{
    if (MPI_Comm_dup(comm, &meetings->comm) != MPI_SUCCESS) {
        return false;
    }
    MPI_Comm_set_errhandler(meetings->comm, MPI_ERRORS_RETURN);
    return true;
}

void weft_mpi_meetings_close(weft_mpi_meetings *meetings)
{
    if (given_up.happened) { /* freeing a communicator is collective */
        return;
    }
    wait_all(NULL, meetings->sent, meetings->num_sent, LAST_MEETING_S);
    forget_words(meetings);
    MPI_Comm_free(&meetings->comm);
}

/* ---- first and last ------------------------------------------------------------------------------------ */

/* MPI_Finalize() waits for all processes, for ever. When the world broke, each waits for the others a while
 * first: a launcher that sees a process end without MPI_Finalize(), or with a status that is not 0, kills the
 * others, who may just be about to say what they have met. */
static bool all_have_come(void)
{
    MPI_Request request;
    if (MPI_Ibarrier(given_up.comm, &request) != MPI_SUCCESS) {
        return false;
    }
    return wait_all(NULL, &request, 1, LAST_MEETING_S);
}

static void finalize_at_exit(void)
{
    if (getpid() != mpi_process) {
        return;
    }
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && (!given_up.happened || all_have_come())) {
        MPI_Finalize();
    }
}

/* MPI can be finalised once only, weft can be started again: so MPI ends with the program. */
weft_status weft_mpi_begin(const char *function, bool own_communicator)
{
    int initialized = 0, finalized = 0, provided = 0;
    if (mpi_process != 0 && getpid() != mpi_process) {
        return weft_fail(WEFT_ERR_STATE, function, "MPI is the parent's, from which this process was forked");
    }
    MPI_Finalized(&finalized);
    if (finalized) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function, "MPI has been finalised");
    }
    if (given_up.happened) {
        return weft_fail(WEFT_ERR_STATE, function,
                         "an earlier world of this process broke, and has left messages in MPI");
    }
    MPI_Initialized(&initialized);
    if (!initialized) {
        if (own_communicator) {
            return weft_fail(WEFT_ERR_STATE, function, "comm is given but MPI is not initialised");
        }
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
            return weft_fail(WEFT_ERR_COMM, function, "MPI_Init_thread() failed");
        }
        mpi_process = getpid();
        atexit(finalize_at_exit);
    }
    return WEFT_OK;
}
