/* Before MPI's functions: MPI is one of MPI_THREAD_SERIALIZED, and ends the program when two threads are in it at once. Linked
 * with a test whose messages go through weft. */
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int inside;
static atomic_long calls;

static void enter(const char *name)
{
    atomic_fetch_add(&calls, 1);
    if (atomic_fetch_add(&inside, 1) != 0) {
        fprintf(stderr, "two threads are in MPI, one in %s()\n", name);
        abort();
    }
}

static int leave(int error)
{
    atomic_fetch_sub(&inside, 1);
    return error;
}

static void tell(void)
{
    printf("# %ld calls of MPI, one at a time\n", atomic_load(&calls));
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)required;
    atexit(tell);
    return PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, provided);
}

int MPI_Query_thread(int *provided)
{
    *provided = MPI_THREAD_SERIALIZED;
    return MPI_SUCCESS;
}

int MPI_Isend(const void *memory, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    enter("MPI_Isend");
    return leave(PMPI_Isend(memory, count, type, peer, tag, comm, request));
}

int MPI_Issend(const void *memory, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    enter("MPI_Issend");
    return leave(PMPI_Issend(memory, count, type, peer, tag, comm, request));
}

int MPI_Irecv(void *memory, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    enter("MPI_Irecv");
    return leave(PMPI_Irecv(memory, count, type, peer, tag, comm, request));
}

int MPI_Improbe(int peer, int tag, MPI_Comm comm, int *there, MPI_Message *message, MPI_Status *status)
{
    enter("MPI_Improbe");
    return leave(PMPI_Improbe(peer, tag, comm, there, message, status));
}

int MPI_Mrecv(void *memory, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    enter("MPI_Mrecv");
    return leave(PMPI_Mrecv(memory, count, type, message, status));
}

int MPI_Test(MPI_Request *request, int *ended, MPI_Status *status)
{
    enter("MPI_Test");
    return leave(PMPI_Test(request, ended, status));
}

int MPI_Testall(int count, MPI_Request requests[], int *ended, MPI_Status statuses[])
{
    enter("MPI_Testall");
    return leave(PMPI_Testall(count, requests, ended, statuses));
}

int MPI_Testsome(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[])
{
    enter("MPI_Testsome");
    return leave(PMPI_Testsome(count, requests, ended, indices, statuses));
}

int MPI_Cancel(MPI_Request *request)
{
    enter("MPI_Cancel");
    return leave(PMPI_Cancel(request));
}

int MPI_Comm_free(MPI_Comm *comm)
{
    enter("MPI_Comm_free");
    return leave(PMPI_Comm_free(comm));
}
