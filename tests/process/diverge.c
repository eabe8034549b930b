/* A program of several processes, one of which diverges: run by test_divergence.c with mpirun.
 *
 * usage: diverge WAY [small], on at least 2 processes. Small: all messages are small enough to be packed.
 *        diverge start WHO NAME=VALUE: only process WHO (first, last) has this in its environment at the
 *        start, in a program that has initialised MPI itself.
 *
 * All processes do the same work (redistributions and products with known values) until the last one does
 * WAY (killed_late: after weft_finalize()). Each process prints, in one line each,
 *
 *     process P result OK | WRONG        for every result
 *     process P ends: STATUS MESSAGE     the first error, as the program sees it
 *     process P finalized: STATUS
 *
 * (`start`: ends, then `starts again` if all start without it) and `stops PID` before it stops itself. The
 * exit status is 0 without an error or a wrong result, 3 after an error, 4 after a wrong result. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft/mpi.h>
#include <weft/weft.h>

#include "mpirun.h"

enum { MAX_ROWS = 600, MAX_COLUMNS = 500, STEPS = 6, TURN = 3 };

static int rows = MAX_ROWS, columns = MAX_COLUMNS;

static const char *way;
static bool odd_one; /* this process goes another way */

static bool goes(const char *name)
{
    return odd_one && strcmp(way, name) == 0;
}

/* Writes one whole line at once, because mpirun mixes the lines of all processes. */
static void say_as(int process, const char *what, const char *message)
{
    printf("process %d %s%s\n", process, what, message);
    fflush(stdout);
}

static void say(const char *what, const char *message)
{
    say_as(weft_process_index(), what, message);
}

/* As it sometimes is with Open MPI's launcher: it waits for ever where a process has ended. */
int MPI_Finalize(void)
{
    while (strcmp(way, "killed_late") == 0) {
        pause();
    }
    return PMPI_Finalize();
}

static weft_tensor *placed(weft_tensor *tensor, const char *text)
{
    weft_placement placement;
    weft_placements_parse(text, 1, &placement);
    return weft_redistribute(tensor, NULL, &placement);
}

/* All make a tensor for which the odd process has no memory. */
static void make_large(void)
{
    struct rlimit before = { 0 }, tight;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!odd_one || file == NULL || fscanf(file, "%ld", &pages) != 1 || getrlimit(RLIMIT_AS, &before) != 0) {
        pages = -1;
    }
    if (file != NULL) {
        fclose(file);
    }
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)32 << 20);
    if (pages > 0) {
        setrlimit(RLIMIT_AS, &tight);
    }
    weft_empty(WEFT_F32, 1, (const int64_t[]){ INT64_C(64) << 20 }, NULL, NULL);
    if (pages > 0) {
        setrlimit(RLIMIT_AS, &before);
    }
}

static void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

/* The odd process gives its operation another property. */
static void register_operation(void)
{
    weft_operation_register(&(weft_operation_description){
        .name = "own",
        .rule = "nc->nc",
        .inputs = { { "a", WEFT_TYPES_FLOAT, goes("registers_types") } },
        .outputs[0].linear = { .kind = goes("registers_linear") ? WEFT_LINEAR_JOINTLY : WEFT_NOT_LINEAR,
                    .ops = WEFT_LINEAR_OPS },
        .outputs[0].in_place = goes("registers_in_place"),
        .kernel = no_kernel });
}

/* The odd process gives another path, or its tensor another name. */
static void save(weft_tensor *tensor)
{
    const char *name = goes("saves_name") ? "other" : "w";
    weft_checkpoint_save(goes("saves_path") ? "/nowhere/other" : "/nowhere/first", 1, &name, &tensor, NULL);
}

/* Rows, columns, rows, ... of a tensor of ones that grows by one: STEPS redistributions in flight. At TURN
 * the odd process does its own. */
static weft_tensor *work(void)
{
    weft_placement by_rows = weft_shard(0);
    int64_t shape[] = { rows, goes("shape") ? columns + 1 : columns };
    weft_tensor *ones = weft_ones(WEFT_F32, 2, shape, NULL, &by_rows);
    if (strcmp(way, "memory_at_once") == 0) {
        make_large();
    }
    weft_tensor *sum = weft_scale(ones, 1);
    weft_tensor_set_name(sum, "running");
    for (int i = 0; i < STEPS; i++) {
        if (i == TURN && goes("killed")) {
            raise(SIGKILL);
        }
        if (i == TURN && (goes("stopped") || goes("woken"))) {
            printf("stops %d\n", (int)getpid()); /* for the process that resumes it */
            fflush(stdout);
            raise(SIGSTOP);
        }
        if (i == TURN && goes("sleeps")) {
            sleep(1000);
        }
        if (i == TURN && goes("quits")) {
            exit(0);
        }
        if (i == TURN && goes("leaves")) {
            break;
        }
        if (i == TURN && strcmp(way, "memory") == 0) {
            make_large();
        }
        if (i == TURN && strncmp(way, "registers", strlen("registers")) == 0) {
            register_operation();
        }
        if (i == TURN && strncmp(way, "saves", strlen("saves")) == 0) {
            save(sum);
        }
        sum = placed(sum, i % 2 == 0 ? "S1" : "S0");
        weft_tensor_set_name(sum, "running");
        weft_tensor *other = placed(ones, i % 2 == 0 ? "S1" : "S0");
        if (i == TURN && goes("fails")) {
            other = NULL;
        }
        sum = i == TURN && goes("operation") ? weft_mul(sum, other)
              : i == TURN && goes("scalar")  ? weft_add_inplace(sum, other, 2)
              : i == TURN && goes("layout")  ? weft_add(placed(sum, "R"), other)
                                             : weft_add_inplace(sum, other, 1);
    }
    return sum;
}

/* The value that every element has after work(). */
static bool right(const float values[])
{
    for (int i = 0; i < rows * columns; i++) {
        if (values[i] != STEPS + 1) {
            return false;
        }
    }
    return true;
}

static bool untouched(const float values[])
{
    for (int i = 0; i < rows * columns; i++) {
        if (values[i] != -1) {
            return false;
        }
    }
    return true;
}

/* Everything that hands out values, or waits, on a world that broke: none may succeed. */
static bool all_refuse(weft_tensor *tensor, float values[])
{
    weft_clear_error();
    bool refused = weft_to_host(tensor, values, weft_tensor_bytes(tensor)) != WEFT_OK &&
                   weft_local_to_host(tensor, 0, values, weft_local_bytes(tensor, 0)) != WEFT_OK &&
                   weft_local_acquire(tensor, 0, WEFT_READ) == NULL && weft_wait() != WEFT_OK &&
                   weft_tensor_print(tensor, stdout) != WEFT_OK && weft_add(tensor, tensor) == NULL;
    refused = refused && untouched(values) && weft_last_status() != WEFT_OK;
    weft_clear_error();
    return refused && weft_wait() != WEFT_OK;
}

/* The odd process cannot start, or starts otherwise: nobody may. Then without it: all do. */
static int start_twice(const char *who, char *setting)
{
    int provided = 0, process = 0, processes = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    char *value = strchr(setting, '=');
    *value++ = '\0';
    if (process == (strcmp(who, "first") == 0 ? 0 : processes - 1)) {
        setenv(setting, value, 1);
    }
    weft_status status = weft_init_mpi(MPI_COMM_WORLD, NULL);
    printf("process %d ends: %s: %s\n", process, weft_status_string(status), weft_last_error());
    fflush(stdout);
    weft_clear_error();
    unsetenv(setting);
    weft_status again = status == WEFT_OK ? WEFT_ERR_STATE : weft_init_mpi(MPI_COMM_WORLD, NULL);
    if (again == WEFT_OK && weft_finalize() == WEFT_OK) {
        say_as(process, "starts again", "");
    }
    MPI_Finalize();
    return status == WEFT_OK ? 0 : 3;
}

/* On a busy machine one process may have given up before another one has left weft_init(): that one then
 * gets this error, which is correct too. */
static int not_started(void)
{
    int process = mpirun_process() < 0 ? 0 : mpirun_process(); /* weft does not tell: it has not started */
    printf("process %d ends: %s: %s\n", process, weft_status_string(weft_last_status()), weft_last_error());
    say_as(process, "finalized: ", "not started");
    return 3;
}

int main(int argc, char **argv)
{
    way = argc > 1 ? argv[1] : "";
    if (argc > 3 && strcmp(way, "start") == 0) {
        return start_twice(argv[2], argv[3]);
    }
    if (argc > 2 && strcmp(argv[2], "small") == 0) {
        rows = 60;
        columns = 50;
    }
    if (weft_init(NULL) != WEFT_OK) {
        return not_started();
    }
    odd_one = weft_process_index() == weft_num_processes() - 1;
    int64_t size = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &size, NULL));
    static float values[MAX_ROWS * (MAX_COLUMNS + 1)];
    for (int i = 0; i < rows * columns; i++) {
        values[i] = -1;
    }
    weft_tensor *result = work();
    weft_status status = weft_to_host(result, values, sizeof(values));
    bool wrong = status == WEFT_OK ? !right(values) : !untouched(values);
    if (status == WEFT_OK) {
        say(wrong ? "result WRONG" : "result OK", "");
    }
    if (weft_last_status() != WEFT_OK) {
        status = weft_last_status();
        printf("process %d ends: %s: %s\n", weft_process_index(), weft_status_string(status),
               weft_last_error());
        fflush(stdout);
        weft_tensor *other = weft_ones(WEFT_F32, 1, &size, NULL, NULL);
        if (other != NULL) {
            say("goes on", "");
        }
        if (result != NULL && !all_refuse(result, values)) {
            say("handed out values", "");
        }
    }
    int process = weft_process_index();
    weft_status last = weft_finalize();
    printf("process %d finalized: %s\n", process, weft_status_string(last));
    fflush(stdout);
    if (goes("killed_late")) {
        raise(SIGKILL);
    }
    return wrong ? 4 : status != WEFT_OK || last != WEFT_OK ? 3 : 0;
}
