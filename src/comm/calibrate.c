/* The connection between processes over which src/machine measures and agrees on figures. */
#include "comm/calibrate.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/disk.h"
#include "machine/model.h"
#include "runtime/variables.h"

typedef struct way {
    const char *function;
    const weft_transport *transport;
    double timeout_s;
} way;

/* Breaks the world, naming the process that does not answer, unless it is broken already. */
static void give_up_on(const way *w, int process)
{
    weft_transport_miss(w->transport);
    weft_break(WEFT_ERR_TIMEOUT, w->function,
               "process %d has not answered within %.1f s while the machines were measured", process,
               w->timeout_s);
}

/* ---- messages ------------------------------------------------------------------------------------------ */

enum { MAX_ENDED = 64 };

/* Spins at first, because the delay until a message is noticed belongs to the measurement. Then yields:
 * with more processes than cores the partner may need this core. Time during which this process was
 * stopped is not counted. */
static bool wait_for(const way *w, int messages)
{
    const double awake_us = 200, stopped_us = 1e6;
    double begin_us = starpu_timing_now(), last_us = begin_us, looked_us = begin_us;
    const weft_control *control = &w->transport->control;
    const weft_data *data = &w->transport->data;
    bool failed = false;
    while (messages > 0 && !failed) {
        weft_finished finished[MAX_ENDED];
        int count = data->poll(data->state, finished, MAX_ENDED);
        for (int i = 0; i < count; i++) {
            failed = failed || finished[i].status != WEFT_OK;
        }
        messages -= count;
        control->hear_abort(control->state);
        double now_us = starpu_timing_now();
        last_us = count > 0 ? now_us : last_us;
        begin_us += now_us - looked_us > stopped_us ? now_us - looked_us : 0;
        looked_us = now_us;
        failed = failed || weft_is_broken() || (w->timeout_s > 0 && now_us - begin_us > w->timeout_s * 1e6);
        if (count == 0 && now_us - last_us > awake_us) {
            nanosleep(&(struct timespec){ 0, 1000 }, NULL);
        } else if (count == 0) {
            sched_yield();
        }
    }
    return !failed;
}

static bool pass(void *state, int peer, bool receive, int count, int64_t bytes, char *memory)
{
    way *w = state;
    const weft_data *data = &w->transport->data;
    int self = w->transport->place.process;
    int source = receive ? peer : self, target = receive ? self : peer;
    bool started = true;
    for (int i = 0; i < count && started; i++) {
        weft_message message = { .peer = peer,
                                 .tag = (uint32_t)i,
                                 .region = { .offset = i * bytes, .run_bytes = bytes },
                                 .bytes = bytes,
                                 .source_rank = weft_runtime.first_rank_of[source],
                                 .target_rank = weft_runtime.first_rank_of[target] };
        started = data->start(data->state, &message, receive, memory, w) == WEFT_OK;
    }
    if (started && data->flush != NULL) {
        data->flush(data->state);
    }
    if (!started || !wait_for(w, count)) {
        give_up_on(w, peer);
        return false;
    }
    return true;
}

/* ---- control ------------------------------------------------------------------------------------------- */

static bool gather(void *state, const void *mine, void *all, size_t size)
{
    way *w = state;
    const weft_transport *transport = w->transport;
    int processes = transport->place.num_processes;
    bool gathers = transport->place.process == 0;
    bool *came = gathers ? calloc((size_t)processes, sizeof(*came)) : NULL;
    if (gathers && came == NULL) {
        weft_break(WEFT_ERR_NOMEM, w->function, "no memory to measure the machines of %d processes",
                   processes);
        return false;
    }
    transport->control.gather(transport->control.state, mine, all, size, w->timeout_s, came);
    for (int p = 1; p < processes && gathers; p++) {
        if (!came[p]) {
            give_up_on(w, p);
        }
    }
    free(came);
    return !weft_is_broken();
}

static bool broadcast(void *state, void *bytes, size_t size)
{
    way *w = state;
    const weft_control *control = &w->transport->control;
    if (!weft_is_broken() && !control->broadcast(control->state, bytes, size, w->timeout_s)) {
        give_up_on(w, 0);
    }
    return !weft_is_broken();
}

/* The machine and the processes of a fake world. */
static weft_status describe_fake(const char *function, weft_machine_found *found)
{
    const char *path = weft_variable_text(WEFT_VARIABLE_MACHINE);
    char why[200] = "";
    weft_machine_model model;
    int processes = weft_runtime.topology.num_processes;
    found->spread = (weft_spread){ processes, processes };
    if (path == NULL) {
        return WEFT_OK;
    }
    FILE *file = weft_disk_stream(path, why, sizeof(why));
    bool read = file != NULL && weft_machine_model_read(file, &model, why, sizeof(why));
    if (!read) {
        weft_fail(WEFT_ERR_IO, function, "%s, %s: %s", weft_variable_name(WEFT_VARIABLE_MACHINE), path, why);
    } else {
        found->machine = model.machine;
        found->source = "file";
    }
    if (file != NULL) {
        fclose(file);
    }
    return read ? WEFT_OK : WEFT_ERR_IO;
}

weft_status weft_calibrate(const char *function, const weft_settings *settings,
                           const weft_transport *transport)
{
    way w = { function, transport, settings->timeout_s };
    const weft_peers peers = { .state = &w,
                               .process = transport->place.process,
                               .num_processes = transport->place.num_processes,
                               .node = transport->place.node,
                               .gather = gather,
                               .broadcast = broadcast,
                               .pass = pass };
    bool fake = settings->world == WEFT_WORLD_FAKE;
    weft_machine_found found;
    weft_status status =
        weft_machine_agree(&peers, fake ? WEFT_CALIBRATE_OFF : settings->calibration, &found);
    if (fake && status == WEFT_OK && describe_fake(function, &found) != WEFT_OK) {
        return WEFT_ERR_IO;
    }
    weft_runtime.machine = found.machine;
    weft_runtime.machine_source = found.source;
    weft_runtime.spread = found.spread;
    if (status == WEFT_OK) {
        return WEFT_OK;
    }
    if (status == WEFT_ERR_NOMEM) {
        weft_break(WEFT_ERR_NOMEM, function, "no memory to measure the machines of %d processes",
                   transport->place.num_processes);
    }
    weft_transport_abort(transport);
    return weft_error_collect();
}
