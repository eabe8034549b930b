/* Puts the messages of a program into its StarPU trace, as user events, for draw.py. Preloaded, it stands
 * between the program, which is not changed, and MPI, as MPI's profiling interface allows.
 *
 *     > send PEER TAG BYTES        a message begins        < send PEER TAG        it has ended
 *     > recv PEER TAG BYTES                                < recv PEER TAG
 *     clock SECONDS                the time by CLOCK_MONOTONIC, to lay the processes' traces side by side */
#include <mpi.h>
#include <starpu_fxt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 16 };

typedef struct message {
    MPI_Request request;
    const char *kind;
    int peer, tag;
} message;

/* Calls come from one thread: weft's progress thread. */
static message pending[MOST];
static int num_pending;

static void trace_clock(void)
{
    static int said;
    if (!said) {
        char text[64];
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(text, sizeof(text), "clock %lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
        starpu_fxt_trace_user_event_string(text);
        said = 1;
    }
}

static void begin(const char *kind, int count, MPI_Datatype type, int peer, int tag, MPI_Request request)
{
    char text[64];
    int size = 0;
    PMPI_Type_size(type, &size);
    trace_clock();
    snprintf(text, sizeof(text), "> %s %d %d %lld", kind, peer, tag, (long long)size * count);
    starpu_fxt_trace_user_event_string(text);
    if (num_pending < MOST) {
        pending[num_pending++] = (message){ request, kind, peer, tag };
    }
}

static void end(MPI_Request request)
{
    for (int i = 0; i < num_pending; i++) {
        if (pending[i].request == request) {
            char text[64];
            snprintf(text, sizeof(text), "< %s %d %d", pending[i].kind, pending[i].peer, pending[i].tag);
            starpu_fxt_trace_user_event_string(text);
            pending[i] = pending[--num_pending];
            return;
        }
    }
}

int MPI_Isend(const void *memory, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int status = PMPI_Isend(memory, count, type, peer, tag, comm, request);
    begin("send", count, type, peer, tag, *request);
    return status;
}

int MPI_Irecv(void *memory, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int status = PMPI_Irecv(memory, count, type, peer, tag, comm, request);
    begin("recv", count, type, peer, tag, *request);
    return status;
}

int MPI_Testsome(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[])
{
    MPI_Request *before = malloc(((size_t)count + 1) * sizeof(*before));
    for (int i = 0; before != NULL && i < count; i++) {
        before[i] = requests[i];
    }
    int status = PMPI_Testsome(count, requests, ended, indices, statuses);
    for (int i = 0; before != NULL && *ended != MPI_UNDEFINED && i < *ended; i++) {
        end(before[indices[i]]);
    }
    free(before);
    return status;
}
