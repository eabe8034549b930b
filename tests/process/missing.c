/* A program of several processes, one of which does not complete weft_init(): run by test_missing.c with
 * mpirun.
 *
 * usage: missing OWNER WHO WAY POINT
 *
 *   OWNER  program (it initialises MPI) or weft
 *   WHO    first or last: the process that does WAY; none: no process does
 *   WAY    sleeps, comes_late (sleeps a while), exits (after MPI_Finalize(), if it has initialised MPI),
 *          killed, stopped
 *   POINT  before: instead of weft_init(); N: in the N-th call of an MPI function by weft_init()
 *
 * Each process prints, in one line each,
 *
 *     process P calls N                 number of calls of MPI functions during the start
 *     process P places NODE I OF N      its place among the processes of its machine, by weft and by MPI
 *     process P ends: STATUS MESSAGE    of weft_init(), or of weft_finalize() if weft_init() succeeded
 *     process P waited S                until then, in seconds */
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/mpi.h>
#include <weft/weft.h>

#include "mpirun.h"
#include "runtime/runtime.h"

static const char *way = "";
static int point; /* 0: in no call */
static atomic_int calls;

static void go(void)
{
    fflush(stdout);
    if (strcmp(way, "sleeps") == 0) {
        sleep(1000);
    } else if (strcmp(way, "comes_late") == 0) {
        sleep(6); /* it does not come at all */
    } else if (strcmp(way, "killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(way, "stopped") == 0) {
        raise(SIGSTOP);
    }
}

/* ---- functions of MPI, in the place of MPI's ----------------------------------------------------------- */

static void count_call(void)
{
    if (++calls == point) {
        go();
    }
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    count_call();
    return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    count_call();
    return PMPI_Comm_idup(comm, copy, request);
}

int MPI_Iallgather(const void *mine, int count, MPI_Datatype type, void *all, int all_count,
                   MPI_Datatype all_type, MPI_Comm comm, MPI_Request *request)
{
    count_call();
    return PMPI_Iallgather(mine, count, type, all, all_count, all_type, comm, request);
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    count_call();
    return PMPI_Isend(buffer, count, type, target, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    count_call();
    return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}

/* ---- the program --------------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* MPI waits for processes that are missing, so this is for worlds that are whole. */
static void say_place(int process)
{
    MPI_Comm node;
    int place = 0, size = 0, first = process;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &place);
    MPI_Comm_size(node, &size);
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    printf("process %d places %d %d of %d\n", process, first, place, size);
    printf("process %d machines %d\n", process, weft_runtime.spread.machines);
}

static weft_status start_and_stop(int process, bool whole, MPI_Comm comm, bool own)
{
    calls = 0;
    weft_status status = own ? weft_init_mpi(comm, NULL) : weft_init(NULL);
    if (status == WEFT_OK) {
        printf("process %d calls %d\n", process, (int)calls);
        if (whole) {
            say_place(process);
        }
        status = weft_finalize();
    }
    return status;
}

int main(int argc, char *argv[])
{
    if (argc != 5) {
        return 2;
    }
    bool own = strcmp(argv[1], "program") == 0, whole = strcmp(argv[2], "none") == 0;
    int process = mpirun_process(), last = mpirun_processes() - 1, provided = 0;
    bool goes = !whole && process == (strcmp(argv[2], "first") == 0 ? 0 : last);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (own) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    }
    way = goes ? argv[3] : "";
    point = goes ? atoi(argv[4]) : 0;
    if (goes && strcmp(argv[4], "before") == 0) {
        go();
        if (own) {
            MPI_Finalize();
        }
        return 0;
    }
    double begin_s = now_s();
    weft_status status = start_and_stop(process, whole, MPI_COMM_WORLD, own);
    printf("process %d ends: %s: %s\n", process, weft_status_string(status), weft_last_error());
    printf("process %d waited %.1f\n", process, now_s() - begin_s);
    if (whole && own) {
        MPI_Finalize();
    } else if (own) {
        sleep(3); /* a launcher ends the others when this one does */
        _exit(3);
    }
    return status == WEFT_OK ? 0 : 3;
}
