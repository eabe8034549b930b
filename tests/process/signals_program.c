/* A program of several processes, the last of which is told to end by a signal: run by test_signals.c with mpirun.
 *
 * usage: signals-program WAY
 *
 *     ends      it makes calls until one fails, as the others do
 *     sits      it makes no call any more: the signal ends it after a while
 *     inside    it and the others are in weft_wait(), which waits for messages of a process that only sleeps
 *     child     a forked child of it is told instead
 *     own       it has a handler of its own
 *     vanishes  it is killed, without a word
 *     idle      likewise, while the others wait for nothing
 *
 * Each process prints one line: "process P ends: STATUS MESSAGE", or "process P OK". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

static volatile sig_atomic_t own_signals;
static int process;

static void own_handler(int number)
{
    (void)number;
    own_signals++;
}

/* In one line at once, because mpirun mixes the lines of all processes. */
static int report(bool good)
{
    weft_status status = weft_last_status();
    if (status == WEFT_OK && good) {
        printf("process %d OK\n", process);
    } else {
        printf("process %d ends: %s %s\n", process, weft_status_string(status), weft_last_error());
    }
    fflush(stdout);
    weft_finalize();
    return 0;
}

/* Rounds of calls with messages between all processes, until one fails. */
static int call_until_it_fails(int rounds)
{
    const weft_placement rows = weft_shard(0);
    for (int i = 0; i < rounds && weft_last_status() == WEFT_OK; i++) {
        weft_scope_begin();
        weft_tensor *a = weft_ones(WEFT_F64, 1, (int64_t[]){ 100 }, NULL, &rows);
        weft_wait();
        weft_redistribute(a, NULL, NULL);
        weft_wait();
        weft_scope_end();
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    return report(rounds < 100);
}

static int tell_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    kill(child, SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? call_until_it_fails(5) : report(false);
}

int main(int argc, char *argv[])
{
    const char *way = argc > 1 ? argv[1] : "";
    if (strcmp(way, "own") == 0) {
        signal(SIGTERM, own_handler);
    }
    if (weft_init(NULL) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 2;
    }
    process = weft_process_index();
    bool last = process == weft_num_processes() - 1;
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL));
    if (strcmp(way, "child") == 0) {
        return last ? tell_child() : call_until_it_fails(5);
    }
    if (last) {
        kill(getpid(), strcmp(way, "vanishes") == 0 || strcmp(way, "idle") == 0 ? SIGKILL : SIGTERM);
    }
    if (strcmp(way, "own") == 0) {
        int code = call_until_it_fails(5);
        return last && own_signals != 1 ? 4 : code;
    }
    if (strcmp(way, "sits") == 0 && last) {
        sleep(60);
        return 3;
    }
    if (strcmp(way, "idle") == 0) {
        while (weft_wait() == WEFT_OK) {
            nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        }
        return report(false);
    }
    if (strcmp(way, "inside") == 0 && process == 0) {
        sleep(1);
    }
    return call_until_it_fails(100000);
}
