/* Runs a test's main() in several processes over the sockets: linked with
 * -Wl,--wrap=main,--wrap=weft_init. Arguments: the number of processes; optionally "claims": the transport
 * carries out all-gathers. Only process 0 prints; a failing process fails the test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "all_gather.h"
#include "sockets.h"
#include "start.h"

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
weft_status __real_weft_init(const weft_config *config);
weft_status __wrap_weft_init(const weft_config *config);

static bool claims;

static weft_status open_sockets(const char *function, const weft_settings *settings, const void *argument,
                                weft_transport *transport)
{
    (void)settings;
    (void)argument;
    weft_status status = sockets_open(transport);
    if (status != WEFT_OK) {
        return weft_fail(status, function, "no sockets between the processes");
    }
    if (claims) {
        all_gather_add(transport);
    }
    return WEFT_OK;
}

/* A world named by the test is used as it is. */
weft_status __wrap_weft_init(const weft_config *config)
{
    if (config != NULL && config->world != WEFT_WORLD_AUTO) {
        return __real_weft_init(config);
    }
    return weft_init_over("weft_init", &(weft_opener){ .open = open_sockets }, config);
}

/* Returns the number of this process. */
static int fork_others(int processes, pid_t children[])
{
    for (int p = 1; p < processes; p++) {
        children[p] = fork();
        if (children[p] == 0) {
            sockets_choose(p);
            return freopen("/dev/null", "w", stdout) == NULL ? -1 : p;
        }
    }
    sockets_choose(0);
    return 0;
}

static int failed_children(int processes, const pid_t children[])
{
    int failed = 0;
    for (int p = 1; p < processes; p++) {
        int status = 0;
        bool ended = children[p] > 0 && waitpid(children[p], &status, 0) == children[p];
        if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "process %d has failed\n", p);
            failed++;
        }
    }
    return failed;
}

int __wrap_main(int argc, char **argv)
{
    int processes = argc > 1 ? atoi(argv[1]) : 0;
    claims = argc > 2 && strcmp(argv[2], "claims") == 0;
    pid_t children[SOCKETS_MAX_PROCESSES];
    if (processes < 2 || processes > SOCKETS_MAX_PROCESSES || !sockets_make(processes) ||
        (claims && !all_gather_make(processes))) {
        fprintf(stderr, "%s: expected a number of processes from 2 to %d\n", argv[0], SOCKETS_MAX_PROCESSES);
        return 2;
    }
    setenv("WEFT_TIMEOUT_S", "100", 0);
    int process = fork_others(processes, children);
    if (process < 0) {
        return 2;
    }
    int failed = __real_main(1, argv);
    if (claims && all_gather_count() == 0) {
        fprintf(stderr, "process %d has claimed no stage\n", process);
        failed++;
    }
    return process > 0 ? failed : failed + failed_children(processes, children);
}
