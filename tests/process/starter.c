/* A program that starts weft, computes a little and ends: run by test_start.c under adverse conditions. As
 * root it can become another user first (WEFT_TEST_USER). Each process prints, in one line each,
 *
 *     process P starts: STATUS MESSAGE
 *     process P computes SUM            12, from all ranks
 *     process P ends: STATUS
 *
 * and weft_print_machine(), three variables, and "opens the X display NAME" for each that a library tries to open. `starter exits` exits before it computes, without
 * weft_finalize(). The exit status is 0 on success, 3 after an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "mpirun.h"

/* From the launcher's or MPI's variables: weft_process_index() is unknown before the start. */
static int process_number(void)
{
    return mpirun_process() < 0 ? 0 : mpirun_process();
}

/* The sum of twelve ones, rows of which lie on all ranks. */
static double compute(void)
{
    double sum = 0;
    int64_t ranks = weft_world_size();
    weft_scope_begin();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement rows = weft_shard(0);
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ 4, 3 }, NULL, &rows);
    weft_to_host(weft_sum(ones, WEFT_ALL_DIMS, false), &sum, sizeof(sum));
    weft_mesh_pop();
    weft_scope_end();
    return sum;
}

/* Called by hwloc's component `gl` instead of libX11's: there is no display. */
void *XOpenDisplay(const char *name);
void *XOpenDisplay(const char *name)
{
    printf("process %d opens the X display %s\n", process_number(), name == NULL ? "(the default)" : name);
    return NULL;
}

static const char *text_of(const char *variable)
{
    const char *text = getenv(variable);
    return text == NULL ? "(not set)" : text;
}

int main(int argc, char *argv[])
{
    const char *user = getenv("WEFT_TEST_USER");
    if (user != NULL && (setgid((gid_t)atoi(user)) != 0 || setuid((uid_t)atoi(user)) != 0)) {
        return 2;
    }
    int process = process_number();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* whole lines, though mpirun mixes those of all */
    weft_status status = weft_init(NULL);
    printf("process %d starts: %s: %s\n", process, weft_status_string(status), weft_last_error());
    if (status != WEFT_OK) {
        return 3;
    }
    weft_print_machine(stdout);
    printf("process %d has STARPU_PERF_MODEL_DIR %s, XDG_CACHE_HOME %s\n", process,
           text_of("STARPU_PERF_MODEL_DIR"), text_of("XDG_CACHE_HOME"));
    printf("process %d has HWLOC_COMPONENTS %s\n", process, text_of("HWLOC_COMPONENTS"));
    if (argc > 1 && strcmp(argv[1], "exits") == 0) {
        exit(0);
    }
    double sum = compute();
    weft_status last = weft_last_status();
    printf("process %d computes %g\n", process, sum);
    weft_status ended = weft_finalize();
    printf("process %d ends: %s\n", process, weft_status_string(ended));
    return last == WEFT_OK && ended == WEFT_OK && sum == 12 ? 0 : 3;
}
