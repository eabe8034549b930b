#include "machine/agree.h"

#include <stdlib.h>
#include <string.h>

#include "machine/keep.h"
#include "machine/measure.h"

const char weft_machine_builtin[] = "built in", weft_machine_kept[] = "kept",
           weft_machine_measured[] = "measured";

/* From process 0 to all: first the measurements to make (partner 0: none), and, if there are any, again
 * when they are done. */
typedef struct briefing {
    weft_machine machine;
    bool builtin, kept;
    int machines;
    int near_partner, far_partner;
} briefing;

/* This machine's own figures; the built-in ones if any of them could not be measured. Returns the
 * machine's lock, or -1. */
static int own_figures(weft_calibration calibration, briefing *b)
{
    static const weft_machine builtin = WEFT_MACHINE_DEFAULT;
    b->machine = builtin;
    b->builtin = calibration == WEFT_CALIBRATE_OFF;
    if (b->builtin) {
        return -1;
    }
    int lock = weft_machine_lock();
    b->kept = weft_machine_load(&b->machine);
    if (!b->kept) {
        b->machine.near = b->machine.far = (weft_link){ 0 };
    }
    if (!b->kept || calibration == WEFT_CALIBRATE_AGAIN) {
        b->kept = false;
        b->builtin = !weft_machine_measure(&b->machine);
        b->machine = b->builtin ? builtin : b->machine;
    }
    return lock;
}

/* The world's links, and those that have to be measured. `nodes`: for each process, the first one of its
 * machine. */
static void choose_partners(const int nodes[], int processes, bool again, briefing *b)
{
    int near = 0, far = 0;
    for (int p = processes - 1; p > 0; p--) {
        near = nodes[p] == nodes[0] ? p : near;
        far = nodes[p] != nodes[0] ? p : far;
        b->machines += nodes[p] == p;
    }
    b->machines += nodes[0] == 0;
    bool measures = !b->builtin;
    b->near_partner = measures && (again || !weft_link_known(&b->machine.near)) ? near : 0;
    b->far_partner = measures && (again || !weft_link_known(&b->machine.far)) ? far : 0;
}

static bool has_partners(const briefing *b)
{
    return b->near_partner > 0 || b->far_partner > 0;
}

/* With process 0 in one role, and its partners in the other. */
static weft_status measure_links(const weft_peers *peers, briefing *b)
{
    const struct {
        int partner;
        weft_link *link;
    } links[] = { { b->near_partner, &b->machine.near }, { b->far_partner, &b->machine.far } };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(links) && status == WEFT_OK; i++) {
        int partner = links[i].partner;
        if (partner > 0 && (peers->process == 0 || peers->process == partner)) {
            status = weft_link_measure(peers, peers->process == 0 ? partner : 0, links[i].link);
        }
    }
    return status;
}

/* On process 0. It takes the machine's lock when all have come, so that other worlds do not wait for this
 * one's processes. */
static weft_status decide(const weft_peers *peers, weft_calibration calibration, briefing *b, int *lock)
{
    int *nodes = calloc((size_t)peers->num_processes, sizeof(*nodes));
    if (nodes == NULL) {
        return WEFT_ERR_NOMEM;
    }
    bool come = peers->gather(peers->state, &peers->node, nodes, sizeof(*nodes));
    if (come) {
        nodes[0] = peers->node;
        *lock = own_figures(calibration, b);
        choose_partners(nodes, peers->num_processes, calibration == WEFT_CALIBRATE_AGAIN, b);
    }
    free(nodes);
    return come ? WEFT_OK : WEFT_ERR_COMM;
}

static weft_status report_node(const weft_peers *peers)
{
    return peers->gather(peers->state, &peers->node, NULL, sizeof(peers->node)) ? WEFT_OK : WEFT_ERR_COMM;
}

static weft_status broadcast(const weft_peers *peers, briefing *b)
{
    return peers->broadcast(peers->state, b, sizeof(*b)) ? WEFT_OK : WEFT_ERR_COMM;
}

/* All say where they are; process 0 answers with the measurements, and later with their results. */
static weft_status agree(const weft_peers *peers, weft_calibration calibration, briefing *b, int *lock)
{
    bool decides = peers->process == 0;
    weft_status status = decides ? decide(peers, calibration, b, lock) : report_node(peers);
    status = status == WEFT_OK ? broadcast(peers, b) : status;
    if (status != WEFT_OK || !has_partners(b)) {
        return status;
    }
    b->kept = false;
    status = measure_links(peers, b);
    return status == WEFT_OK ? broadcast(peers, b) : status;
}

weft_status weft_machine_agree(const weft_peers *peers, weft_calibration calibration,
                               weft_machine_found *found)
{
    int lock = -1; /* until the measured figures have been kept */
    weft_status status = WEFT_OK;
    briefing b;
    memset(&b, 0, sizeof(b)); /* sent as a whole */
    if (peers->num_processes > 1) {
        status = agree(peers, calibration, &b, &lock);
    } else {
        lock = own_figures(calibration, &b);
        b.machines = 1;
    }
    if (status == WEFT_OK && peers->process == 0 && !b.kept && !b.builtin) {
        weft_machine_keep(&b.machine);
    }
    weft_machine_unlock(lock);
    *found = (weft_machine_found){
        .machine = b.machine,
        .source = b.builtin ? weft_machine_builtin
                  : b.kept  ? weft_machine_kept
                            : weft_machine_measured,
        .spread = { peers->num_processes, b.machines },
    };
    return status;
}
