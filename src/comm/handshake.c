#include "comm/handshake.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_SIZE = 768, TEXT_SIZE = 896 };

/* Settings that must be equal on all processes. */
typedef enum setting { RANKS, SEED, PANEL_BYTES, PANEL_ROWS, ALGORITHM, CHECK, GRAPH_PASSES, AUTOGRAPH, TF32, BITS, NUM_SETTINGS } setting;

static const char *const setting_names[] = {
    [RANKS] = "the number of ranks (WEFT_RANKS, WEFT_LOCAL_RANKS)",
    [SEED] = "the seed (WEFT_SEED)",
    [PANEL_BYTES] = "WEFT_PANEL_BYTES",
    [PANEL_ROWS] = "WEFT_PANEL_ROWS",
    [ALGORITHM] = "WEFT_PLAN",
    [CHECK] = "WEFT_CHECK",
    [GRAPH_PASSES] = "WEFT_GRAPH_PASSES",
    [AUTOGRAPH] = "WEFT_AUTOGRAPH",
    [TF32] = "WEFT_TF32",
    [BITS] = "WEFT_BITS",
};

/* The account of one process. */
typedef struct handshake {
    weft_status status;
    uint64_t values[NUM_SETTINGS]; /* where status is WEFT_OK */
    weft_device_world devices;     /* likewise */
    int64_t memory_bytes;          /* likewise */
    char error[ERROR_SIZE];        /* otherwise */
} handshake;

/* The verdict of process 0. */
typedef struct outcome {
    weft_status status;
    weft_device_world devices; /* of all */
    int64_t memory_bytes;      /* the least */
    char text[TEXT_SIZE];
} outcome;

static handshake own_handshake(weft_status status, const weft_settings *settings)
{
    handshake mine;
    memset(&mine, 0, sizeof(mine)); /* sent as a whole */
    mine.status = status;
    if (status != WEFT_OK) {
        snprintf(mine.error, sizeof(mine.error), "%s", weft_kept_message());
        return mine;
    }
    mine.values[RANKS] = (uint64_t)weft_runtime.topology.num_ranks;
    mine.values[SEED] = settings->seed;
    mine.values[PANEL_BYTES] = (uint64_t)settings->panel_bytes;
    mine.values[PANEL_ROWS] = (uint64_t)settings->panel_rows;
    mine.values[ALGORITHM] = (uint64_t)settings->algorithm;
    mine.values[CHECK] = settings->check;
    mine.values[GRAPH_PASSES] = settings->graph_passes;
    mine.values[AUTOGRAPH] = settings->autograph;
    mine.values[TF32] = settings->tf32;
    mine.values[BITS] = settings->fast;
    mine.devices = weft_runtime.devices;
    mine.memory_bytes = weft_runtime.memory_bytes;
    return mine;
}

/* ---- at process 0 -------------------------------------------------------------------------------------- */

static void print_value(setting t, uint64_t value, char *text, size_t size)
{
    if (t == ALGORITHM) {
        snprintf(text, size, "%s", weft_algorithm_name((weft_algorithm)value));
    } else if (t == BITS) {
        snprintf(text, size, "%s", value != 0 ? "fast" : "cpu");
    } else if (value == 0 && (t == PANEL_BYTES || t == PANEL_ROWS)) {
        snprintf(text, size, "not set");
    } else {
        snprintf(text, size, "%" PRIu64, value);
    }
}

static void report_difference(const handshake *first, const handshake *other, int process, outcome *out)
{
    setting t = RANKS;
    while (first->values[t] == other->values[t]) {
        t++;
    }
    char here[32], there[32];
    print_value(t, first->values[t], here, sizeof(here));
    print_value(t, other->values[t], there, sizeof(there));
    out->status = WEFT_ERR_MISMATCH;
    snprintf(out->text, sizeof(out->text),
             "%s is %s on process 0 and %s on process %d, expected the same on every process",
             setting_names[t], here, there, process);
}

/* Panels suit the smallest device, and are enough for the process that has most devices for a rank. */
static weft_device_world join_devices(weft_device_world a, weft_device_world b)
{
    int64_t bytes = a.bytes == 0 ? b.bytes : b.bytes == 0 ? a.bytes : weft_min_i64(a.bytes, b.bytes);
    return (weft_device_world){ bytes, a.per_rank > b.per_rank ? a.per_rank : b.per_rank };
}

/* A failure explains more than a difference, and is reported first. */
static void compare(const handshake all[], int processes, outcome *out)
{
    for (int p = 0; p < processes; p++) {
        if (all[p].status != WEFT_OK) {
            out->status = all[p].status;
            snprintf(out->text, sizeof(out->text), "process %d does not start: %s", p, all[p].error);
            return;
        }
    }
    for (int p = 1; p < processes; p++) {
        if (memcmp(all[p].values, all[0].values, sizeof(all[0].values)) != 0) {
            report_difference(&all[0], &all[p], p, out);
            return;
        }
    }
    out->memory_bytes = INT64_MAX;
    for (int p = 0; p < processes; p++) {
        out->devices = join_devices(out->devices, all[p].devices);
        out->memory_bytes = weft_min_i64(out->memory_bytes, all[p].memory_bytes);
    }
}

/* Breaks the world if a process does not come. */
static void compare_all(const char *function, const handshake *mine, double timeout_s,
                        const weft_transport *transport, outcome *out)
{
    int processes = transport->place.num_processes;
    handshake *all = calloc((size_t)processes, sizeof(*all));
    bool *came = calloc((size_t)processes, sizeof(*came));
    if (all == NULL || came == NULL) {
        weft_break(WEFT_ERR_NOMEM, function, "no memory to compare the settings of %d processes", processes);
    } else {
        transport->control.gather(transport->control.state, mine, all, sizeof(*mine), timeout_s, came);
        for (int p = 1; p < processes; p++) {
            if (!came[p]) {
                weft_transport_miss(transport);
                weft_break(WEFT_ERR_TIMEOUT, function, "process %d has not come to %s() within %.1f s", p,
                           function, timeout_s);
            }
        }
        if (!weft_is_broken()) {
            compare(all, processes, out);
        }
    }
    free(all);
    free(came);
}

/* ---- everywhere ---------------------------------------------------------------------------------------- */

static void exchange(const char *function, const handshake *mine, double timeout_s,
                     const weft_transport *transport, outcome *out)
{
    if (transport->place.process == 0) {
        compare_all(function, mine, timeout_s, transport, out);
    } else {
        transport->control.gather(transport->control.state, mine, NULL, sizeof(*mine), timeout_s, NULL);
    }
    if (!weft_is_broken() &&
        !transport->control.broadcast(transport->control.state, out, sizeof(*out), timeout_s)) {
        weft_transport_miss(transport);
        weft_break(WEFT_ERR_TIMEOUT, function, "process 0 has not come to %s() within %.1f s", function,
                   timeout_s);
    }
}

weft_status weft_handshake(const char *function, weft_status status, const weft_settings *settings,
                           const weft_transport *transport)
{
    if (transport->place.num_processes == 1) {
        return status;
    }
    handshake mine = own_handshake(status, settings);
    outcome common;
    memset(&common, 0, sizeof(common));
    exchange(function, &mine, settings->timeout_s, transport, &common);
    if (weft_is_broken()) {
        weft_transport_abort(transport);
        weft_error_collect();
        return status != WEFT_OK ? status : weft_latest_status();
    }
    if (status == WEFT_OK && common.status != WEFT_OK) {
        return weft_fail(common.status, function, "%s", common.text);
    }
    weft_runtime.devices = common.devices;
    weft_runtime.memory_bytes = common.memory_bytes;
    return status;
}
