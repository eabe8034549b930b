#define _DEFAULT_SOURCE /* syscall() */
#include "comm/mpi_presence.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct known_process {
    pid_t pid;      /* 0: on another machine, or in another container */
    int descriptor; /* can be read when the process has ended, whether its parent has noticed or not; -1: none */
} known_process;

struct weft_mpi_presence {
    int count;
    known_process all[];
};

void weft_mpi_presence_card(weft_mpi_card *card)
{
    struct stat space;
    bool known = stat("/proc/self/ns/pid", &space) == 0;
    card->pid = (int64_t)getpid();
    card->pid_space = known ? (uint64_t)space.st_ino : 0;
}

static int open_process(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

weft_mpi_presence *weft_mpi_presence_new(const weft_mpi_common *common)
{
    int count = common->place.num_processes;
    weft_mpi_presence *presence = calloc(1, sizeof(*presence) + (size_t)count * sizeof(presence->all[0]));
    const weft_mpi_card *mine = &common->mine;
    for (int p = 0; presence != NULL && p < count; p++) {
        const weft_mpi_card *theirs = &common->cards[p];
        bool same = theirs->machine == mine->machine && theirs->pid_space == mine->pid_space && mine->pid_space != 0;
        pid_t pid = same ? (pid_t)theirs->pid : 0;
        presence->all[p] = (known_process){ pid, pid > 0 && pid != getpid() ? open_process(pid) : -1 };
        presence->count = p + 1;
    }
    return presence;
}

void weft_mpi_presence_free(weft_mpi_presence *presence)
{
    for (int p = 0; presence != NULL && p < presence->count; p++) {
        if (presence->all[p].descriptor >= 0) {
            close(presence->all[p].descriptor);
        }
    }
    free(presence);
}

static bool has_ended(const known_process *process)
{
    if (process->descriptor >= 0) {
        struct pollfd look = { .fd = process->descriptor, .events = POLLIN };
        return poll(&look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
    }
    return kill(process->pid, 0) != 0 && errno == ESRCH;
}

weft_presence weft_mpi_presence_of(const weft_mpi_presence *presence, int process)
{
    if (presence == NULL || process < 0 || process >= presence->count || presence->all[process].pid <= 0) {
        return WEFT_PRESENCE_UNKNOWN;
    }
    return has_ended(&presence->all[process]) ? WEFT_ENDED : WEFT_PRESENT;
}

int weft_mpi_presence_ended(const weft_mpi_presence *presence)
{
    int ended = -1;
    for (int p = 0; presence != NULL && p < presence->count && ended < 0; p++) {
        ended = weft_mpi_presence_of(presence, p) == WEFT_ENDED ? p : -1;
    }
    return ended;
}
