/* Opening the NCCL transport: all processes agree that they can, on one communicator of all of them. Its unique id and all
 * outcomes travel over the control table. */
#include "comm/nccl_open.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/nccl_data.h"
#include "runtime/runtime.h"

enum { WHY = 256 };

/* What a process tells process 0. */
typedef struct card {
    int32_t wanted; /* WEFT_NCCL: -1: not set */
    int32_t can;
    uint64_t machine, device; /* two processes on one device cannot */
    int64_t round_bytes;
    char why[WHY];
} card;

/* What process 0 tells all. */
typedef struct verdict {
    int32_t uses, status; /* a weft_status: where one wants it and another cannot */
    int64_t round_bytes;
    ncclUniqueId id;
    char why[WHY];
} verdict;

typedef struct opening {
    const char *function;
    double timeout_s;
    const weft_transport *transport;
    const weft_settings *settings;
    weft_nccl_parts parts;
} opening;

/* ---- agreement ----------------------------------------------------------------------------------------- */

static weft_status broken(const opening *o, int process)
{
    weft_transport_miss(o->transport);
    weft_break(WEFT_ERR_TIMEOUT, o->function, "process %d has not come to %s() within %.1f s", process, o->function,
               o->timeout_s);
    return WEFT_ERR_TIMEOUT;
}

/* Process 0 gets the cards of all, and decides. */
static weft_status agree(const opening *o, const card *mine, verdict *out,
                         void (*decide)(const opening *o, const card all[], verdict *out))
{
    const weft_control *control = &o->transport->control;
    int processes = o->transport->place.num_processes;
    if (o->transport->place.process == 0) {
        card *all = calloc((size_t)processes, sizeof(*all));
        bool *came = calloc((size_t)processes, sizeof(*came));
        if (all == NULL || came == NULL) {
            free(all);
            free(came);
            weft_break(WEFT_ERR_NOMEM, o->function, "no memory for NCCL");
            return WEFT_ERR_NOMEM;
        }
        control->gather(control->state, mine, all, sizeof(*mine), o->timeout_s, came);
        int absent = 0;
        for (int p = 1; p < processes; p++) {
            absent = absent == 0 && !came[p] ? p : absent;
        }
        if (absent == 0 && !weft_is_broken()) {
            decide(o, all, out);
        }
        free(all);
        free(came);
        if (absent != 0) {
            return broken(o, absent);
        }
    } else {
        control->gather(control->state, mine, NULL, sizeof(*mine), o->timeout_s, NULL);
    }
    return control->broadcast(control->state, out, sizeof(*out), o->timeout_s) ? WEFT_OK : broken(o, 0);
}

/* ---- whether all can ----------------------------------------------------------------------------------- */

static int shares_device_with(const card all[], int process)
{
    for (int p = 0; p < process; p++) {
        if (all[p].machine == all[process].machine && all[p].device == all[process].device) {
            return p;
        }
    }
    return -1;
}

static void decide_use(const opening *o, const card all[], verdict *out)
{
    int processes = o->transport->place.num_processes, wants = -1;
    bool refused = false;
    out->uses = true;
    out->round_bytes = INT64_MAX;
    for (int p = 0; p < processes && out->uses; p++) {
        int other = shares_device_with(all, p);
        if (!all[p].can) {
            snprintf(out->why, WHY, "process %d: %.200s", p, all[p].why);
        } else if (other >= 0) {
            snprintf(out->why, WHY, "processes %d and %d share a device", other, p);
        }
        out->uses = all[p].can && other < 0;
        out->round_bytes = weft_min_i64(out->round_bytes, all[p].round_bytes);
    }
    for (int p = 0; p < processes; p++) {
        refused = refused || all[p].wanted == 0;
        wants = wants < 0 && all[p].wanted == 1 ? p : wants;
    }
    if (wants >= 0 && !out->uses) {
        out->status = WEFT_ERR_UNSUPPORTED;
    }
    out->uses = out->uses && !refused;
    if (out->uses && o->parts.nccl.GetUniqueId((ncclUniqueId *)&out->id) != ncclSuccess) {
        out->uses = false;
        out->status = WEFT_ERR_COMM;
        snprintf(out->why, WHY, "ncclGetUniqueId() failed on process 0");
    }
}

/* StarPU's first device: its number for CUDA, and its memory node. False: none. */
static bool find_device(opening *o)
{
    int worker;
    if (starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &worker, 1) == 0) {
        return false;
    }
    o->parts.device = starpu_worker_get_devid(worker);
    o->parts.node = (int)starpu_worker_get_memory_node((unsigned)worker);
    return true;
}

static uint64_t identify(int device)
{
    struct cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
        return (uint64_t)device;
    }
    uint64_t place = (uint64_t)properties.pciDomainID << 32 | (uint64_t)properties.pciBusID << 16 | (uint64_t)properties.pciDeviceID;
    return weft_hash_bytes(properties.uuid.bytes, sizeof(properties.uuid.bytes), place);
}

/* A sixteenth of the device's memory for staging buffers, and 64 MiB at most to or from a process; a message at least. */
static int64_t round_bytes(const opening *o)
{
    enum { PART = 32, MOST = 64 << 20 };
    int64_t each = weft_runtime.device_bytes / PART / weft_max_i64(1, o->transport->place.num_processes - 1);
    return weft_max_i64(weft_min_i64(each, MOST), weft_runtime.messages.max_bytes);
}

static card own_card(opening *o)
{
    card mine;
    memset(&mine, 0, sizeof(mine));
    mine.wanted = o->settings->nccl;
    mine.machine = weft_machine_id();
    if (weft_runtime.cuda_queues == NULL || !find_device(o)) {
        snprintf(mine.why, WHY, "no CUDA device (WEFT_DEVICES)");
        return mine;
    }
    mine.can = mine.wanted != 0 && weft_nccl_load(&o->parts.nccl, mine.why, WHY);
    if (mine.wanted == 0) {
        snprintf(mine.why, WHY, "WEFT_NCCL is 0");
    }
    mine.device = identify(o->parts.device);
    mine.round_bytes = round_bytes(o);
    int64_t staging = weft_nccl_staging_bytes(o->transport->place.num_processes, mine.round_bytes);
    if (mine.can && staging > weft_runtime.device_bytes / 2) {
        mine.can = false;
        snprintf(mine.why, WHY, "device %d has %lld bytes of memory for panels and messages, at least %lld are needed",
                 o->parts.device, (long long)weft_runtime.device_bytes, (long long)(2 * staging));
    }
    return mine;
}

/* ---- the communicator ---------------------------------------------------------------------------------- */

/* Does not block, so that a peer that has ended is no wait without limit. */
static ncclResult_t make_communicator(opening *o, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const weft_process_place *place = &o->transport->place;
    weft_nccl_library *nccl = &o->parts.nccl;
    cudaSetDevice(o->parts.device);
    ncclResult_t result = nccl->CommInitRankConfig(&o->parts.comm, place->num_processes, id, place->process, &config);
    double waited_s = 0;
    while (result == ncclInProgress && !weft_is_broken() && (o->timeout_s <= 0 || waited_s < o->timeout_s)) {
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        waited_s += 1e-3;
        nccl->CommGetAsyncError(o->parts.comm, &result);
    }
    return result;
}

static void decide_outcome(const opening *o, const card all[], verdict *out)
{
    out->uses = true;
    for (int p = 0; p < o->transport->place.num_processes && out->uses; p++) {
        if (!all[p].can) {
            out->uses = false;
            out->status = WEFT_ERR_COMM;
            snprintf(out->why, WHY, "process %d: %.200s", p, all[p].why);
        }
    }
}

static void give_back(opening *o)
{
    if (o->parts.comm != NULL) {
        o->parts.nccl.CommAbort(o->parts.comm);
    }
    weft_nccl_unload(&o->parts.nccl);
}

/* All make it, or none has it. */
static weft_status open_all(opening *o, const verdict *decided, weft_transport *transport)
{
    enum { GRANTED_PART = 4 };
    card mine;
    verdict out;
    memset(&mine, 0, sizeof(mine));
    memset(&out, 0, sizeof(out));
    ncclResult_t made = make_communicator(o, decided->id);
    weft_data data = transport->data;
    o->parts.processes = transport->place.num_processes;
    o->parts.round_bytes = decided->round_bytes;
    int64_t left = weft_runtime.device_bytes - weft_nccl_staging_bytes(o->parts.processes, decided->round_bytes);
    o->parts.granted_bytes = left / GRANTED_PART;
    int opened = made == ncclSuccess ? weft_nccl_data_open(&o->parts, &data) : 0;
    mine.can = made == ncclSuccess && opened == 0;
    if (made != ncclSuccess) {
        snprintf(mine.why, WHY, "ncclCommInitRankConfig(): %s", o->parts.nccl.GetErrorString(made));
    } else if (opened != 0) {
        snprintf(mine.why, WHY, "no memory on the device: %s", cudaGetErrorString((cudaError_t)opened));
    }
    weft_status status = agree(o, &mine, &out, decide_outcome);
    if (mine.can) {
        transport->data = data; /* closed with the transport, whatever comes */
        transport->name = "nccl";
        weft_runtime.device_bytes = left - o->parts.granted_bytes; /* tasks share the rest */
    } else {
        give_back(o);
    }
    if (status != WEFT_OK) {
        return weft_fail(status, o->function, "the processes do not agree on NCCL");
    }
    return out.status == WEFT_OK ? WEFT_OK : weft_fail((weft_status)out.status, o->function, "NCCL: %s", out.why);
}

weft_status weft_nccl_open(const char *function, const weft_settings *settings, weft_transport *transport, bool *told)
{
    *told = false;
    if (transport->place.num_processes == 1 || transport->control.gather == NULL) {
        return WEFT_OK;
    }
    opening o = { .function = function, .timeout_s = settings->timeout_s, .transport = transport, .settings = settings };
    verdict out;
    memset(&out, 0, sizeof(out));
    int former = 0;
    bool devices = weft_runtime.cuda_queues != NULL && cudaGetDevice(&former) == cudaSuccess;
    card mine = own_card(&o);
    weft_status status = agree(&o, &mine, &out, decide_use);
    if (status == WEFT_OK && out.uses) {
        status = open_all(&o, &out, transport);
    } else {
        give_back(&o);
        status = status != WEFT_OK ? weft_fail(status, function, "the processes do not agree on NCCL")
                 : out.status != WEFT_OK
                     ? weft_fail((weft_status)out.status, function, "WEFT_NCCL is 1, but NCCL cannot be used: %s", out.why)
                     : WEFT_OK;
    }
    *told = !out.uses && !weft_is_broken();
    if (devices) {
        cudaSetDevice(former);
    }
    if (weft_is_broken()) { /* nobody else tells the others. The verdict may have come with another's notice */
        weft_transport_abort(transport);
        status = weft_error_collect();
    }
    return status;
}
