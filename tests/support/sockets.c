#include "sockets.h"

#include <sys/socket.h>

static int pairs[SOCKETS_USES][SOCKETS_MAX_PROCESSES][SOCKETS_MAX_PROCESSES]; /* of process a, to process b */
static int self, num_processes;
static bool is_broken;

bool sockets_make(int processes)
{
    num_processes = processes;
    for (int u = 0; u < SOCKETS_USES; u++) {
        for (int a = 0; a < processes; a++) {
            for (int b = a + 1; b < processes; b++) {
                int pair[2];
                if (socketpair(AF_UNIX, u == SOCKETS_DATA ? SOCK_STREAM : SOCK_SEQPACKET, 0, pair) != 0) {
                    return false;
                }
                pairs[u][a][b] = pair[0];
                pairs[u][b][a] = pair[1];
            }
        }
    }
    return true;
}

void sockets_choose(int process)
{
    self = process;
}

int sockets_self(void)
{
    return self;
}

int sockets_processes(void)
{
    return num_processes;
}

int sockets_to(sockets_use use, int process)
{
    return pairs[use][self][process];
}

void sockets_break(void)
{
    is_broken = true;
}

weft_status sockets_open(weft_transport *transport)
{
    if (is_broken) {
        return WEFT_ERR_COMM;
    }
    *transport = (weft_transport){ .name = "sockets", .control = sockets_control() };
    transport->place = (weft_process_place){
        .process = self,
        .num_processes = num_processes,
        .node_process = self,
        .node_processes = num_processes,
    };
    return sockets_data(&transport->data) ? WEFT_OK : WEFT_ERR_NOMEM;
}
