/* A program of several processes with a captured graph, one of which goes another way: run by test_graph_divergence.c with
 * mpirun.
 *
 * usage: diverge_graph WAY, on at least 2 processes; WAY is that of the last process:
 *     first    captures other calls than the others
 *     shape    passes an input of another shape, when the others replay
 *     size     passes an input of a shape that all have passed before, when the others pass another one
 *     branch   takes another branch, when the others replay
 *     known    takes a branch that all have taken before, when the others take another one
 *     passes   has chosen other passes before the first run
 *     none     has chosen no passes between the first run and the second one
 *     late     has chosen other passes after some runs
 *     less     does not call the graph once
 *     keeps    keeps a tensor of the function's, when the others replay a body in which it is never made
 *     dies     is killed in the graph's function
 *
 * Each process prints, in one line each, `process P runs N`, `process P ends: STATUS MESSAGE`, then `process P again: STATUS` of
 * another call of the graph, and `process P finalized: STATUS`. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { RUNS = 5, TURN = 3, COLUMNS = 40 };

static const char *way;
static bool odd_one; /* this process goes another way */
static int run;

static bool goes(const char *name, int turn)
{
    return odd_one && run == turn && strcmp(way, name) == 0;
}

static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const weft_placement rows = weft_shard(0), columns = weft_shard(1);
    (void)context, (void)scalars;
    weft_tensor *x = inputs[0];
    for (int i = 0; i < 3; i++) {
        x = weft_redistribute(x, NULL, i % 2 == 0 ? &columns : &rows);
        if (goes("dies", TURN) && i == 1) {
            raise(SIGKILL);
        }
        bool other = goes("first", 0) || goes("branch", TURN) || goes("known", TURN) || (run == 1 && strcmp(way, "known") == 0);
        if (goes("keeps", TURN) && i == 1) {
            weft_tensor_retain(x);
        }
        x = other && i == 1 ? weft_redistribute(weft_mul(x, x), NULL, NULL) : weft_add_scalar(x, 1);
    }
    outputs[0] = x;
    return weft_last_status();
}

/* Where the world is broken, a replay is refused, and does not wait; after a capture that was refused, it goes on. */
static weft_status try_again(weft_graph *graph)
{
    const weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 30, COLUMNS }, NULL, &rows), *y = NULL;
    weft_status status = x == NULL ? weft_last_status() : weft_graph_call(graph, &x, NULL, &y);
    return y == NULL ? status : WEFT_OK;
}

int main(int argc, char **argv)
{
    way = argc > 1 ? argv[1] : "";
    if (weft_init(NULL) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 3;
    }
    int process = weft_process_index();
    odd_one = process == weft_num_processes() - 1;
    int64_t size = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &size, NULL));
    weft_graph *graph = weft_graph_create("step", step, NULL, 1, 0, 1);
    const weft_placement rows = weft_shard(0);
    for (; run < RUNS && weft_last_status() == WEFT_OK; run++) {
        bool longer = goes("shape", TURN) || goes("size", TURN) || (run == 1 && strcmp(way, "size") == 0);
        weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 30 + longer, COLUMNS }, NULL, &rows), *y;
        if (goes("passes", 0) || goes("late", TURN)) {
            weft_graph_set_passes(graph, WEFT_PASS_DEAD);
        }
        if (goes("none", 1)) {
            weft_graph_set_passes(graph, WEFT_PASS_NONE);
        }
        if (goes("less", TURN)) {
            continue;
        }
        weft_graph_call(graph, &x, NULL, &y);
        printf("process %d runs %d\n", process, run);
        fflush(stdout);
    }
    weft_status status = weft_wait();
    status = weft_last_status() != WEFT_OK ? weft_last_status() : status;
    if (status != WEFT_OK) {
        printf("process %d ends: %s: %s\n", process, weft_status_string(status), weft_last_error());
        fflush(stdout);
        weft_clear_error();
        printf("process %d again: %s\n", process, weft_status_string(try_again(graph)));
        fflush(stdout);
    }
    weft_clear_error();
    weft_status last = weft_finalize();
    printf("process %d finalized: %s\n", process, weft_status_string(last));
    fflush(stdout);
    return status != WEFT_OK || last != WEFT_OK ? 3 : 0;
}
