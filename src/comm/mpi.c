/* The transport between processes: MPI, on a duplicate of the program's communicator. */
#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "comm/mpi_packs.h"

/* On the communicator of meetings. */
enum { TAG_RECORD = 1, TAG_WORDS, TAG_NEWS };

/* What a process that gives up tells the others. */
typedef struct news {
    weft_status status;
    char message[768];
} news;

/* The same words on their way to some processes. */
typedef struct sent_words {
    void *words;
    int count;
    MPI_Request *requests;
} sent_words;

typedef struct mpi_state {
    MPI_Comm comm;
    uint32_t tags; /* that there are */
    int active, capacity;
    MPI_Request *requests; /* `active` of them, with their tokens beside */
    void **tokens;
    bool *receives; /* and whether they are receives */
    int *indices;
    MPI_Status *statuses;
    weft_mpi_packs *packs; /* of small messages; NULL: there are none */
    bool packing;          /* they are used: from mpi_settle() on */
    weft_vec finished;     /* weft_finished; those before `reported` have been */
    size_t reported;
    atomic_bool told; /* by another process that the world is broken */
    /* Meetings: a communicator of the submitting thread's, and what this process sent in the last one. */
    MPI_Comm meetings;
    sent_words sent;
} mpi_state;

/* MPI outlives weft_finalize(), and so does what a world that broke has left in it: finalize_at_exit() has to
 * know. */
static struct {
    atomic_bool happened;
    MPI_Comm comm; /* of the world that broke, for its processes' last meeting */
} given_up;

/* How long a process waits at its end for the others of a world that broke. */
static const double LAST_MEETING_S = 5;

bool weft_mpi_launched(void)
{
    static const char *const variables[] = {
        "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE"
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(variables); i++) {
        if (getenv(variables[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- datatypes ----------------------------------------------------------------------------------------- */

/* `bytes` contiguous bytes; counts in MPI are int, so large runs are made of blocks of 1 GiB. */
static int make_run(int64_t bytes, MPI_Datatype *type)
{
    enum { BLOCK = 1 << 30 };
    if (bytes <= INT_MAX) {
        return MPI_Type_contiguous((int)bytes, MPI_BYTE, type);
    }
    MPI_Datatype parts[2] = { MPI_DATATYPE_NULL, MPI_BYTE };
    int counts[2] = { 1, (int)(bytes % BLOCK) };
    MPI_Aint places[2] = { 0, (MPI_Aint)(bytes / BLOCK * BLOCK) };
    int error = MPI_Type_vector((int)(bytes / BLOCK), BLOCK, BLOCK, MPI_BYTE, &parts[0]);
    if (error == MPI_SUCCESS) {
        error = MPI_Type_create_struct(2, counts, places, parts, type);
        MPI_Type_free(&parts[0]);
    }
    return error;
}

static int make_datatype(const weft_region *region, MPI_Datatype *type)
{
    int error = make_run(region->run_bytes, type);
    for (int d = region->ndim - 1; d >= 0 && error == MPI_SUCCESS; d--) {
        MPI_Datatype inner = *type;
        error = MPI_Type_create_hvector((int)region->count[d], 1, (MPI_Aint)region->stride[d], inner, type);
        MPI_Type_free(&inner);
    }
    return error == MPI_SUCCESS ? MPI_Type_commit(type) : error;
}

/* ---- the transport's functions ------------------------------------------------------------------------- */

static bool make_room(mpi_state *state)
{
    if (state->active < state->capacity) {
        return true;
    }
    size_t capacity = state->capacity == 0 ? 256 : 2 * (size_t)state->capacity;
    MPI_Request *requests = realloc(state->requests, capacity * sizeof(*requests));
    state->requests = requests != NULL ? requests : state->requests;
    void **tokens = realloc(state->tokens, capacity * sizeof(*tokens));
    state->tokens = tokens != NULL ? tokens : state->tokens;
    bool *receives = realloc(state->receives, capacity * sizeof(*receives));
    state->receives = receives != NULL ? receives : state->receives;
    int *indices = realloc(state->indices, capacity * sizeof(*indices));
    state->indices = indices != NULL ? indices : state->indices;
    MPI_Status *statuses = realloc(state->statuses, capacity * sizeof(*statuses));
    state->statuses = statuses != NULL ? statuses : state->statuses;
    if (requests == NULL || tokens == NULL || receives == NULL || indices == NULL || statuses == NULL) {
        return false;
    }
    state->capacity = (int)capacity;
    return true;
}

/* A message's number and digest. Open MPI 4.1 writes a message that is longer than its receive beyond the end of the
 * receive's memory (when it is too long to be sent at once). */
static int tag_of(const mpi_state *state, const weft_message *message)
{
    enum { DIGESTS = 1 << 11, FEWEST_NUMBERS = 1 << 16 };
    uint32_t digests = state->tags / DIGESTS >= FEWEST_NUMBERS ? DIGESTS : 1;
    return (int)(message->tag % (state->tags / digests) * digests + weft_message_digest(message) % digests);
}

static int post(mpi_state *state, const weft_message *message, bool receive, char *first,
                MPI_Request *request)
{
    int tag = tag_of(state, message);
    const weft_region *region = &message->region;
    MPI_Datatype type = MPI_BYTE;
    int count = (int)region->run_bytes;
    bool plain = region->ndim == 0 && region->run_bytes <= INT_MAX;
    if (!plain) {
        int error = make_datatype(region, &type);
        if (error != MPI_SUCCESS) {
            return error;
        }
        count = 1;
    }
    int error = receive ? MPI_Irecv(first, count, type, message->peer, tag, state->comm, request)
                        : MPI_Isend(first, count, type, message->peer, tag, state->comm, request);
    if (!plain) {
        MPI_Type_free(&type); /* MPI keeps it until the message has ended */
    }
    return error;
}

static weft_status mpi_start(void *opaque, const weft_message *message, bool receive, void *memory,
                             void *token)
{
    mpi_state *state = opaque;
    if (state->packing && weft_mpi_packs_takes(state->packs, message)) {
        return weft_mpi_packs_start(state->packs, message, receive, memory, token, &state->finished);
    }
    if (!make_room(state)) {
        return WEFT_ERR_NOMEM;
    }
    char *first = (char *)memory + message->region.offset;
    if (post(state, message, receive, first, &state->requests[state->active]) != MPI_SUCCESS) {
        return WEFT_ERR_COMM;
    }
    state->receives[state->active] = receive;
    state->tokens[state->active++] = token;
    return WEFT_OK;
}

static int compare_descending(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/* The requests that have ended: their indices in state->indices, and whether the i-th of these failed in
 * state->statuses[i].MPI_ERROR. All at once: a call of its own for each few costs a look at the network each time. */
static int test_some(mpi_state *state)
{
    int count = 0;
    int error = MPI_Testsome(state->active, state->requests, &count, state->indices, state->statuses);
    bool broken = error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS;
    if (broken) { /* nothing is known of any of them any more: all end, so that nobody waits for them */
        count = state->active;
    }
    count = count == MPI_UNDEFINED ? 0 : count;
    for (int i = 0; i < count; i++) {
        state->indices[i] = broken ? i : state->indices[i];
        if (error != MPI_ERR_IN_STATUS) {
            state->statuses[i].MPI_ERROR = error;
        }
    }
    return count;
}

/* What other processes that gave up have told. Called by both threads. */
static void hear_news(mpi_state *state)
{
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    if (weft_is_broken() ||
        MPI_Improbe(MPI_ANY_SOURCE, TAG_NEWS, state->meetings, &there, &message, &status) != MPI_SUCCESS ||
        !there) {
        return;
    }
    news theirs;
    if (MPI_Mrecv(&theirs, (int)sizeof(theirs), MPI_BYTE, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
        state->told = true;
        weft_break(theirs.status, "weft", "process %d gave up: %s", status.MPI_SOURCE, theirs.message);
    }
}

/* Messages of their own. */
static void poll_requests(mpi_state *state)
{
    int count = state->active > 0 ? test_some(state) : 0;
    if (count == 0) {
        return;
    }
    if (!weft_vec_reserve(&state->finished, state->finished.count + (size_t)count, sizeof(weft_finished))) {
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to tell which messages have ended");
        return;
    }
    for (int i = 0; i < count; i++) {
        bool failed = state->statuses[i].MPI_ERROR != MPI_SUCCESS;
        weft_finished *ended = weft_vec_push(&state->finished, sizeof(*ended)); /* there is room */
        *ended = (weft_finished){ state->tokens[state->indices[i]], failed ? WEFT_ERR_COMM : WEFT_OK };
    }
    /* From the last to the first, so that the one that fills the gap is never one that has ended too. */
    qsort(state->indices, (size_t)count, sizeof(int), compare_descending);
    for (int i = 0; i < count; i++) {
        state->active--;
        state->requests[state->indices[i]] = state->requests[state->active];
        state->tokens[state->indices[i]] = state->tokens[state->active];
        state->receives[state->indices[i]] = state->receives[state->active];
    }
}

static int take_finished(mpi_state *state, weft_finished finished[], int max)
{
    size_t left = state->finished.count - state->reported;
    size_t count = left < (size_t)max ? left : (size_t)max;
    const weft_finished *all = state->finished.items;
    if (count > 0) {
        memcpy(finished, all + state->reported, count * sizeof(*finished));
    }
    state->reported += count;
    if (state->reported == state->finished.count) {
        state->reported = state->finished.count = 0;
    }
    return (int)count;
}

static int mpi_poll(void *opaque, weft_finished finished[], int max)
{
    mpi_state *state = opaque;
    hear_news(state);
    poll_requests(state);
    if (state->packing) {
        weft_mpi_packs_poll(state->packs, &state->finished);
    }
    return take_finished(state, finished, max);
}

/* Tells the other processes why this one gave up, unless it is one of them that told. The messages are short,
 * so that they leave at once; their memory stays with MPI. */
static void spread_news(mpi_state *state)
{
    news *mine = malloc(sizeof(*mine));
    if (mine == NULL || state->told) {
        free(mine);
        return;
    }
    mine->status = weft_broken_by(mine->message, sizeof(mine->message));
    int process = 0, processes = 0;
    MPI_Comm_rank(state->meetings, &process);
    MPI_Comm_size(state->meetings, &processes);
    for (int p = 0; p < processes; p++) {
        MPI_Request request;
        if (p != process && MPI_Isend(mine, (int)sizeof(*mine), MPI_BYTE, p, TAG_NEWS, state->meetings,
                                      &request) == MPI_SUCCESS) {
            MPI_Request_free(&request);
        }
    }
}

/* A receive that has no sender yet is taken back. Others, and sends, which MPI implementations do not cancel,
 * are left to MPI with their memory. */
static void mpi_abandon(void *opaque)
{
    mpi_state *state = opaque;
    given_up.comm = state->meetings;
    given_up.happened = true;
    spread_news(state);
    if (state->packs != NULL) {
        weft_mpi_packs_abandon(state->packs);
    }
    for (int i = 0; i < state->active; i++) {
        int ended = 0;
        if (state->receives[i] && MPI_Cancel(&state->requests[i]) == MPI_SUCCESS) {
            MPI_Test(&state->requests[i], &ended, MPI_STATUS_IGNORE);
        }
    }
    state->active = 0;
    state->reported = state->finished.count = 0;
}

/* ---- meetings ------------------------------------------------------------------------------------------ */

static void pause_us(double us)
{
    struct timespec time = { 0, (long)(us * 1e3) };
    nanosleep(&time, NULL);
}

/* Waits until all requests have ended, the time is over (timeout_s > 0; without the time for which this
 * process itself was stopped), or the world has broken (state not NULL). */
static bool wait_all(mpi_state *state, MPI_Request requests[], int count, double timeout_s)
{
    double last_look_s = MPI_Wtime(), waited_s = 0, sleep_us = 5;
    int ended = 0;
    while (MPI_Testall(count, requests, &ended, MPI_STATUSES_IGNORE) == MPI_SUCCESS && !ended &&
           !(state != NULL && weft_is_broken()) && (timeout_s <= 0 || waited_s < timeout_s)) {
        double now_s = MPI_Wtime();
        waited_s += now_s - last_look_s < 1 ? now_s - last_look_s : 0;
        last_look_s = now_s;
        if (state != NULL) {
            hear_news(state);
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
        int flag = 0, cancelled = 0;
        MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
        ended[i] = flag;
        if (!flag && MPI_Cancel(&requests[i]) == MPI_SUCCESS) {
            MPI_Test(&requests[i], &cancelled, MPI_STATUS_IGNORE);
        }
        all = all && (flag || cancelled);
    }
    return all;
}

/* Gives back the memory of what has been sent; what is still on its way keeps it. */
static void forget_words(sent_words *sent)
{
    int ended = 0;
    MPI_Testall(sent->count, sent->requests, &ended, MPI_STATUSES_IGNORE);
    if (ended) {
        free(sent->words);
    }
    free(sent->requests);
}

/* Sends to the processes first .. last - 1, and does not wait: at the next meeting they have read it. */
static void send_words(mpi_state *state, int first, int last, int tag, const void *words, size_t size)
{
    sent_words *sent = &state->sent;
    forget_words(sent);
    *sent = (sent_words){ malloc(size), 0, malloc((size_t)(last - first) * sizeof(MPI_Request)) };
    if (sent->words == NULL || sent->requests == NULL) {
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to compare calls");
        return;
    }
    memcpy(sent->words, words, size);
    for (int p = first; p < last; p++) {
        MPI_Isend(sent->words, (int)size, MPI_BYTE, p, tag, state->meetings, &sent->requests[sent->count++]);
    }
}

/* Of process 0. Buffers that MPI may still write to are left to it. */
static void gather_records(mpi_state *state, const void *mine, void *all, size_t size, double timeout_s,
                           bool came[])
{
    int processes = 0;
    MPI_Comm_size(state->meetings, &processes);
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
        MPI_Irecv(inbox + size * (size_t)p, (int)size, MPI_BYTE, p, TAG_RECORD, state->meetings,
                  &requests[p]);
    }
    wait_all(state, requests, processes, timeout_s);
    bool done = end_receives(requests, processes, came);
    memcpy(all, inbox, size * (size_t)processes);
    if (done) {
        free(inbox);
    }
    free(requests);
}

static void mpi_gather(void *opaque, const void *mine, void *all, size_t size, double timeout_s, bool came[])
{
    mpi_state *state = opaque;
    int process = 0;
    MPI_Comm_rank(state->meetings, &process);
    if (process == 0) {
        gather_records(state, mine, all, size, timeout_s, came);
        return;
    }
    send_words(state, 0, 1, TAG_RECORD, mine, size);
}

static bool receive_words(mpi_state *state, void *words, size_t size, double timeout_s)
{
    void *inbox = malloc(size);
    if (inbox == NULL) {
        return false;
    }
    MPI_Request request;
    bool came = false;
    MPI_Irecv(inbox, (int)size, MPI_BYTE, 0, TAG_WORDS, state->meetings, &request);
    wait_all(state, &request, 1, timeout_s > 0 ? 2 * timeout_s + 1 : 0);
    bool ended = end_receives(&request, 1, &came);
    if (came) {
        memcpy(words, inbox, size);
    }
    if (ended) {
        free(inbox);
    }
    return came;
}

static bool mpi_tell(void *opaque, void *words, size_t size, double timeout_s)
{
    mpi_state *state = opaque;
    int process = 0, processes = 0;
    MPI_Comm_rank(state->meetings, &process);
    MPI_Comm_size(state->meetings, &processes);
    if (process != 0) {
        return receive_words(state, words, size, timeout_s);
    }
    /* One that has not come reads them when it comes. */
    send_words(state, 1, processes, TAG_WORDS, words, size);
    return true;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

/* Opening packs is collective and this is not, so a process that fails in between leaves nobody waiting. */
static void mpi_settle(void *opaque)
{
    mpi_state *state = opaque;
    state->packing = state->packs != NULL;
}

static void mpi_close(void *opaque)
{
    mpi_state *state = opaque;
    weft_mpi_packs_close(state->packs);
    if (!given_up.happened) { /* freeing communicators is collective */
        wait_all(NULL, state->sent.requests, state->sent.count, LAST_MEETING_S);
        forget_words(&state->sent);
        MPI_Comm_free(&state->comm);
        MPI_Comm_free(&state->meetings);
    }
    free(state->requests);
    free(state->tokens);
    free(state->receives);
    free(state->indices);
    free(state->statuses);
    weft_vec_free(&state->finished);
    free(state);
}

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
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && (!given_up.happened || all_have_come())) {
        MPI_Finalize();
    }
}

/* MPI can be finalised once only, weft can be started again: so MPI ends with the program. */
static weft_status initialize(const char *function, bool own_communicator)
{
    int initialized = 0, finalized = 0, provided = 0;
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
        atexit(finalize_at_exit);
    }
    return WEFT_OK;
}

static weft_status check_threads(const char *function)
{
    int provided = 0;
    MPI_Query_thread(&provided);
    return provided >= MPI_THREAD_MULTIPLE
               ? WEFT_OK
               : weft_fail(
                     WEFT_ERR_UNSUPPORTED, function,
                     "MPI was initialised without MPI_THREAD_MULTIPLE, which weft's progress thread needs");
}

static weft_process_place place_of(MPI_Comm comm)
{
    weft_process_place place = { .num_processes = 1, .node_processes = 1 };
    MPI_Comm_rank(comm, &place.process);
    MPI_Comm_size(comm, &place.num_processes);
    place.node = place.process;
    MPI_Comm node;
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS) {
        MPI_Comm_rank(node, &place.node_process);
        MPI_Comm_size(node, &place.node_processes);
        MPI_Bcast(&place.node, 1, MPI_INT, 0, node);
        MPI_Comm_free(&node);
    }
    return place;
}

/* Processes that were told different limits agree on the least. False: no memory, or MPI has failed. */
static bool open_packs(mpi_state *state, int64_t pack_bytes)
{
    enum { USUAL_LIMIT = 4096 };
    int64_t limit = pack_bytes < 0 ? INT64_MAX : pack_bytes;
    MPI_Allreduce(MPI_IN_PLACE, &limit, 1, MPI_INT64_T, MPI_MIN, state->comm);
    if (limit == 0) {
        return true;
    }
    bool told = limit < INT64_MAX;
    state->packs = weft_mpi_packs_open(state->comm, told ? limit : USUAL_LIMIT, told);
    return state->packs != NULL;
}

weft_status weft_mpi_open(const char *function, const void *communicator, int64_t pack_bytes,
                          weft_transport *transport)
{
    /* Open MPI's handles are pointers, so "MPI_COMM_WORLD given before MPI_Init" can be told from a
     * communicator. */
    bool own = communicator != NULL && *(const MPI_Comm *)communicator != MPI_COMM_WORLD;
    weft_status status = initialize(function, own);
    if (status != WEFT_OK) {
        return status;
    }
    MPI_Comm comm = communicator == NULL ? MPI_COMM_WORLD : *(const MPI_Comm *)communicator;
    if (comm == MPI_COMM_NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "comm is MPI_COMM_NULL");
    }
    mpi_state *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the MPI transport");
    }
    if (MPI_Comm_dup(comm, &state->comm) != MPI_SUCCESS ||
        MPI_Comm_dup(comm, &state->meetings) != MPI_SUCCESS) {
        free(state);
        return weft_fail(WEFT_ERR_COMM, function, "MPI_Comm_dup() failed");
    }
    MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(state->meetings, MPI_ERRORS_RETURN);
    bool packs = open_packs(state, pack_bytes);
    int *bound = NULL, found = 0;
    MPI_Comm_get_attr(state->comm, MPI_TAG_UB, &bound, &found);
    state->tags = found ? (uint32_t)*bound + 1u : 32768u;
    *transport = (weft_transport){
        .name = "mpi",
        .state = state,
        .place = place_of(state->comm),
        .start = mpi_start,
        .poll = mpi_poll,
        .abandon = mpi_abandon,
        .settle = mpi_settle,
        .close = mpi_close,
        .gather = mpi_gather,
        .tell = mpi_tell,
    };
    return packs ? check_threads(function)
                 : weft_fail(WEFT_ERR_NOMEM, function, "no memory for small messages");
}
