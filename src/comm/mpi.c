/* The transport between processes: MPI, on a duplicate of the program's communicator. */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

typedef struct mpi_state {
    MPI_Comm comm;
    uint32_t tags; /* tags are taken modulo this */
    int active, capacity;
    MPI_Request *requests; /* `active` of them, with their tokens beside */
    void **tokens;
    int *indices;
    MPI_Status *statuses;
} mpi_state;

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
    int *indices = realloc(state->indices, capacity * sizeof(*indices));
    state->indices = indices != NULL ? indices : state->indices;
    MPI_Status *statuses = realloc(state->statuses, capacity * sizeof(*statuses));
    state->statuses = statuses != NULL ? statuses : state->statuses;
    if (requests == NULL || tokens == NULL || indices == NULL || statuses == NULL) {
        return false;
    }
    state->capacity = (int)capacity;
    return true;
}

static int post(mpi_state *state, const weft_message *message, bool receive, char *first,
                MPI_Request *request)
{
    int tag = (int)(message->tag % state->tags);
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
    if (!make_room(state)) {
        return WEFT_ERR_NOMEM;
    }
    char *first = (char *)memory + message->region.offset;
    if (post(state, message, receive, first, &state->requests[state->active]) != MPI_SUCCESS) {
        return WEFT_ERR_COMM;
    }
    state->tokens[state->active++] = token;
    return WEFT_OK;
}

static int compare_descending(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/* Of the requests from `begin` on, at most `max`, those that have ended: their indices in state->indices, and
 * whether the i-th of these failed in state->statuses[i].MPI_ERROR. */
static int test_some(mpi_state *state, int begin, int max)
{
    int size = state->active - begin < max ? state->active - begin : max;
    int count = 0;
    int error = MPI_Testsome(size, state->requests + begin, &count, state->indices, state->statuses);
    bool broken = error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS;
    if (broken) { /* nothing is known of any of them any more: all end, so that nobody waits for them */
        count = size;
    }
    count = count == MPI_UNDEFINED ? 0 : count;
    for (int i = 0; i < count; i++) {
        state->indices[i] = begin + (broken ? i : state->indices[i]);
        if (error != MPI_ERR_IN_STATUS) {
            state->statuses[i].MPI_ERROR = error;
        }
    }
    return count;
}

static int mpi_poll(void *opaque, weft_finished finished[], int max)
{
    mpi_state *state = opaque;
    int count = 0;
    for (int begin = 0; begin < state->active && count == 0; begin += max) {
        count = test_some(state, begin, max);
    }
    for (int i = 0; i < count; i++) {
        bool failed = state->statuses[i].MPI_ERROR != MPI_SUCCESS;
        finished[i] = (weft_finished){ state->tokens[state->indices[i]], failed ? WEFT_ERR_COMM : WEFT_OK };
    }
    /* From the last to the first, so that the one that fills the gap is never one that has ended too. */
    qsort(state->indices, (size_t)count, sizeof(int), compare_descending);
    for (int i = 0; i < count; i++) {
        state->active--;
        state->requests[state->indices[i]] = state->requests[state->active];
        state->tokens[state->indices[i]] = state->tokens[state->active];
    }
    return count;
}

static void mpi_close(void *opaque)
{
    mpi_state *state = opaque;
    MPI_Comm_free(&state->comm);
    free(state->requests);
    free(state->tokens);
    free(state->indices);
    free(state->statuses);
    free(state);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static void finalize_at_exit(void)
{
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) {
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
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        return weft_fail(
            WEFT_ERR_UNSUPPORTED, function,
            "MPI was initialised without MPI_THREAD_MULTIPLE, which weft's progress thread needs");
    }
    return WEFT_OK;
}

static weft_process_place place_of(MPI_Comm comm)
{
    weft_process_place place = { 0, 1, 0, 1 };
    MPI_Comm_rank(comm, &place.process);
    MPI_Comm_size(comm, &place.num_processes);
    MPI_Comm node;
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node) == MPI_SUCCESS) {
        MPI_Comm_rank(node, &place.node_process);
        MPI_Comm_size(node, &place.node_processes);
        MPI_Comm_free(&node);
    }
    return place;
}

weft_status weft_mpi_open(const char *function, const void *communicator, weft_transport *transport)
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
    if (MPI_Comm_dup(comm, &state->comm) != MPI_SUCCESS) {
        free(state);
        return weft_fail(WEFT_ERR_COMM, function, "MPI_Comm_dup() failed");
    }
    MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN);
    int *bound = NULL, found = 0;
    MPI_Comm_get_attr(state->comm, MPI_TAG_UB, &bound, &found);
    state->tags = found ? (uint32_t)*bound + 1u : 32768u;
    *transport = (weft_transport){
        .name = "mpi",
        .state = state,
        .place = place_of(state->comm),
        .start = mpi_start,
        .poll = mpi_poll,
        .close = mpi_close,
    };
    return WEFT_OK;
}
