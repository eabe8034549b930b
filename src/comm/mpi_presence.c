#include "comm/mpi_presence.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct weft_mpi_presence {
    int count;
    pid_t pids[]; /* of each process; 0: on another machine, or in another container */
};

void weft_mpi_presence_card(weft_mpi_card *card)
{
    struct stat space;
    bool known = stat("/proc/self/ns/pid", &space) == 0;
    card->pid = (int64_t)getpid();
    card->pid_space = known ? (uint64_t)space.st_ino : 0;
}

weft_mpi_presence *weft_mpi_presence_new(const weft_mpi_common *common)
{
    int count = common->place.num_processes;
    weft_mpi_presence *presence = calloc(1, sizeof(*presence) + (size_t)count * sizeof(pid_t));
    const weft_mpi_card *mine = &common->mine;
    for (int p = 0; presence != NULL && p < count; p++) {
        const weft_mpi_card *theirs = &common->cards[p];
        bool same = theirs->machine == mine->machine && theirs->pid_space == mine->pid_space && mine->pid_space != 0;
        presence->pids[p] = same ? (pid_t)theirs->pid : 0;
        presence->count = p + 1;
    }
    return presence;
}

weft_presence weft_mpi_presence_of(const weft_mpi_presence *presence, int process)
{
    if (presence == NULL || process < 0 || process >= presence->count || presence->pids[process] <= 0) {
        return WEFT_PRESENCE_UNKNOWN;
    }
    return kill(presence->pids[process], 0) != 0 && errno == ESRCH ? WEFT_ENDED : WEFT_PRESENT;
}
