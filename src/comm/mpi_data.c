/* The data table over MPI: messages are matched by their tags, in main memory. */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi_data.h"
#include "comm/mpi_life.h"
#include "comm/mpi_packs.h"
#include "comm/mpi_requests.h"

/* Purpose of a request. */
typedef struct purpose {
    void *token;
    bool receive;
} purpose;

typedef struct mpi_data {
    MPI_Comm comm;
    uint32_t tags;            /* number of transfers under way */
    weft_mpi_requests active; /* large messages, one request each: purpose */
    weft_mpi_packs *packs;    /* of small messages; NULL: there are none */
    bool packing;             /* packs are in use: after mpi_enable_packing() */
    weft_vec finished;        /* weft_finished; those before `reported` have been reported */
    size_t reported;
} mpi_data;

/* ---- datatypes ----------------------------------------------------------------------------------------- */

/* `bytes` contiguous bytes; MPI counts are int, so large runs are made of blocks of 1 GiB. */
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

/* ---- the table's functions ----------------------------------------------------------------------------- */

/* MPI's tag: a message's number and digest. If the processes' calls differ, one message in 16,384 still
 * finds a wrong partner; numbers under way together differ by less than 131,072. Open MPI 4.1 writes a
 * message that is longer than its receive beyond the receive's memory (above the eager limit). */
static int tag_of(const mpi_data *state, const weft_message *message)
{
    enum { DIGESTS = 1 << 14, FEWEST_NUMBERS = 1 << 16 };
    uint32_t digests = state->tags / DIGESTS >= FEWEST_NUMBERS ? DIGESTS : 1;
    return (int)(message->tag % (state->tags / digests) * digests + weft_message_digest(message) % digests);
}

static int post(mpi_data *state, const weft_message *message, bool receive, char *first, MPI_Request *request)
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
    int error;
    if (receive) {
        error = MPI_Irecv(first, count, type, message->peer, tag, state->comm, request);
    } else if (weft_message_is_paced(message)) {
        error = MPI_Issend(first, count, type, message->peer, tag, state->comm, request);
    } else {
        error = MPI_Isend(first, count, type, message->peer, tag, state->comm, request);
    }
    if (!plain) {
        MPI_Type_free(&type); /* MPI keeps it until the message has ended */
    }
    return error;
}

static weft_status mpi_start(void *opaque, const weft_message *message, bool receive, void *memory,
                             void *token)
{
    mpi_data *state = opaque;
    if (state->packing && weft_mpi_packs_takes(state->packs, message)) {
        return weft_mpi_packs_start(state->packs, message, receive, memory, token, &state->finished);
    }
    weft_mpi_requests *active = &state->active;
    if (!weft_mpi_requests_reserve(active, sizeof(purpose))) {
        return WEFT_ERR_NOMEM;
    }
    char *first = (char *)memory + message->region.offset;
    if (post(state, message, receive, first, &active->requests[active->count]) != MPI_SUCCESS) {
        return WEFT_ERR_COMM;
    }
    ((purpose *)active->purposes)[active->count++] = (purpose){ token, receive };
    return WEFT_OK;
}

static int compare_descending(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/* Removes the ended requests. */
static void close_ranks(weft_mpi_requests *active, int count)
{
    purpose *purposes = active->purposes;
    /* From last to first, so that the request that fills the gap has not ended itself. */
    qsort(active->ended, (size_t)count, sizeof(int), compare_descending);
    for (int k = 0; k < count; k++) {
        int i = active->ended[k], last = --active->count;
        active->requests[i] = active->requests[last];
        purposes[i] = purposes[last];
    }
}

/* Large messages. If MPI cannot tell which have ended, none is reported: MPI may still use the memory of
 * any. */
static void poll_requests(mpi_data *state)
{
    weft_mpi_requests *active = &state->active;
    size_t most = state->finished.count + (size_t)active->count;
    if (!weft_vec_reserve(&state->finished, most, sizeof(weft_finished))) { /* before the test removes any */
        weft_break(WEFT_ERR_NOMEM, "weft", "no memory to tell which messages have ended");
        return;
    }
    int count = weft_mpi_requests_test(active);
    if (count < 0) {
        weft_break(WEFT_ERR_COMM, "weft", "MPI_Testsome() failed: it is not known which messages have ended");
        return;
    }
    const purpose *purposes = active->purposes;
    for (int k = 0; k < count; k++) {
        bool failed = active->statuses[k].MPI_ERROR != MPI_SUCCESS;
        weft_finished *ended = weft_vec_push(&state->finished, sizeof(*ended)); /* there is room */
        *ended = (weft_finished){ purposes[active->ended[k]].token, failed ? WEFT_ERR_COMM : WEFT_OK };
    }
    close_ranks(active, count);
}

static int take_finished(mpi_data *state, weft_finished finished[], int max)
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

static void mpi_flush(void *opaque)
{
    mpi_data *state = opaque;
    if (state->packing) {
        weft_mpi_packs_flush(state->packs, &state->finished);
    }
}

static int mpi_poll(void *opaque, weft_finished finished[], int max)
{
    mpi_data *state = opaque;
    poll_requests(state);
    if (state->packing) {
        weft_mpi_packs_poll(state->packs, &state->finished);
    }
    return take_finished(state, finished, max);
}

/* Cancels a receive without a matching sender. Other receives, and sends, which MPI implementations do not
 * cancel, are left to MPI with their memory. */
static void mpi_abandon(void *opaque)
{
    mpi_data *state = opaque;
    if (state->packs != NULL) {
        weft_mpi_packs_abandon(state->packs);
    }
    const purpose *purposes = state->active.purposes;
    for (int i = 0; i < state->active.count; i++) {
        if (purposes[i].receive) {
            weft_mpi_take_back(&state->active.requests[i]);
        }
    }
    state->active.count = 0;
    state->reported = state->finished.count = 0;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

/* Opening packs is collective and this is not, so a failure in between leaves no process waiting. */
static void mpi_enable_packing(void *opaque)
{
    mpi_data *state = opaque;
    state->packing = state->packs != NULL;
}

static void mpi_close(void *opaque)
{
    mpi_data *state = opaque;
    weft_mpi_packs_close(state->packs);
    if (!weft_mpi_has_left()) { /* freeing a communicator is collective */
        MPI_Comm_free(&state->comm);
    }
    weft_mpi_requests_free(&state->active);
    weft_vec_free(&state->finished);
    free(state);
}

/* NULL if disabled. False: no memory, or MPI has failed. */
static bool open_packs(mpi_data *state, const weft_mpi_common *common)
{
    enum { USUAL_LIMIT = 4096 };
    if (common->packs == MPI_COMM_NULL) {
        return true;
    }
    bool given = common->pack_bytes >= 0; /* from now on also within one machine */
    state->packs = weft_mpi_packs_open(common->packs, given ? common->pack_bytes : USUAL_LIMIT,
                                       given ? NULL : common->nodes);
    return state->packs != NULL;
}

static uint32_t count_tags(MPI_Comm comm)
{
    int *bound = NULL, found = 0;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &found);
    return found ? (uint32_t)*bound + 1u : 32768u;
}

bool weft_mpi_data_open(const weft_mpi_common *common, weft_data *table)
{
    mpi_data *state = calloc(1, sizeof(*state));
    if (state == NULL) {
        return false;
    }
    state->comm = common->messages;
    state->tags = count_tags(state->comm);
    *table = (weft_data){
        .state = state,
        .memories = 1u << STARPU_CPU_RAM,
        .matching = WEFT_MATCH_TAGS,
        .start = mpi_start,
        .flush = mpi_flush,
        .poll = mpi_poll,
        .abandon = mpi_abandon,
        .enable_packing = mpi_enable_packing,
        .close = mpi_close,
    };
    return open_packs(state, common);
}
