/* Each process sends a record of its call to process 0, which compares the records and broadcasts the
 * result. The call submits nothing before that: slow, but simple enough to be trusted in debugging. */
#include "comm/check_spmd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/flight.h"
#include "runtime/pending.h"
#include "runtime/pool.h"

enum { CALL_SIZE = 1536, ERROR_SIZE = 256, RESULT_SIZE = 2048 };

typedef struct record {
    uint64_t number;
    uint64_t digest; /* digest of all calls in the record of the last call; else 0 */
    uint64_t ranks;  /* hash of the ranks of the meshes */
    int leader;      /* the process that hosts the lowest of these ranks */
    char call[CALL_SIZE];
    char error[ERROR_SIZE]; /* an earlier kept error: why this process may make other calls */
} record;

typedef struct comparison {
    weft_status status;
    char text[RESULT_SIZE];
} comparison;

/* ---- what is compared ---------------------------------------------------------------------------------- */

/* Meshes of one shape on other ranks are legal on processes without a common rank (weft_mesh_slice()).
 * Every process that uses a mesh must use the same mesh as the process of its lowest rank. */
static void describe_ranks(const weft_call_signature *call, record *mine)
{
    int lowest = weft_runtime.topology.num_ranks;
    for (int i = 0; i < call->num_layouts; i++) {
        const weft_mesh_impl *mesh = call->layouts[i] == NULL ? NULL : call->layouts[i]->mesh;
        for (int64_t k = 0; mesh != NULL && k < mesh->num_ranks; k++) {
            int rank = weft_mesh_rank_at(mesh, k);
            lowest = rank < lowest ? rank : lowest;
            mine->ranks = weft_hash_u64(mine->ranks ^ (uint64_t)rank);
        }
    }
    const weft_topology *topology = &weft_runtime.topology;
    mine->leader = lowest < topology->num_ranks ? weft_topology_process_of(topology, lowest) : 0;
}

/* ---- the comparison, at process 0 ---------------------------------------------------------------------- */

static bool records_agree(const record *a, const record *b)
{
    return a->number == b->number && strcmp(a->call, b->call) == 0;
}

/* The two records differ in their calls, or else in the ranks of their meshes. */
static void report_difference(const record *all, int a, int b, comparison *out)
{
    char first[64], second[64];
    const char *after_a = all[a].error[0] != '\0' ? ", after the error " : "";
    const char *after_b = all[b].error[0] != '\0' ? ", after the error " : "";
    const char *how = records_agree(&all[a], &all[b]) ? ", on meshes of other ranks" : "";
    out->status = WEFT_ERR_MISMATCH;
    snprintf(out->text, RESULT_SIZE, "call %llu: %s calls %.640s%s%s, %s calls %.640s%s%s%s",
             (unsigned long long)all[a].number, weft_process_text(a, first, sizeof(first)), all[a].call,
             after_a, all[a].error, weft_process_text(b, second, sizeof(second)), all[b].call, after_b,
             all[b].error, how);
}

/* At the end: the processes that made other calls, and these calls. */
static void report_calls(weft_comm *comm, int process, comparison *out)
{
    char first[64], second[64];
    weft_blame blame;
    weft_comm_inquire(comm, process, &blame);
    out->status = WEFT_ERR_MISMATCH;
    if (blame.status == WEFT_ERR_MISMATCH) {
        snprintf(out->text, RESULT_SIZE, "%s", blame.text);
    } else {
        snprintf(out->text, RESULT_SIZE,
                 "%s and %s have not made the same calls; WEFT_CHECK=1 shows where they differ",
                 weft_process_text(0, first, sizeof(first)),
                 weft_process_text(process, second, sizeof(second)));
    }
}

/* An absent process may be waiting for another process, which the inquiry names. */
static void report_absence(const weft_comm *comm, const record *mine, int absent, int others,
                           const weft_blame *blame, comparison *out)
{
    char name[64], more[40] = "", number[40] = "";
    if (others > 0) {
        snprintf(more, sizeof(more), " (nor have %d more)", others);
    }
    out->status = blame->status;
    if (mine->number > 0) {
        snprintf(number, sizeof(number), "call %llu, ", (unsigned long long)mine->number);
    }
    snprintf(out->text, RESULT_SIZE, "%s%s%s has not come to %s%.320s, within %.1f s%s", blame->text,
             blame->text[0] != '\0' ? "; " : "", weft_process_text(absent, name, sizeof(name)), number,
             mine->call, weft_comm_timeout_s(comm), more);
}

static void compare(weft_comm *comm, const record *all, const bool came[], comparison *out)
{
    int processes = weft_runtime.num_processes, absent = -1, missing = 0;
    for (int p = processes - 1; p >= 0; p--) {
        absent = came[p] ? absent : p;
        missing += !came[p];
    }
    for (int p = 0; p < processes && out->status == WEFT_OK; p++) {
        int leader = all[p].leader;
        if (came[p] && !records_agree(&all[0], &all[p])) {
            report_difference(all, 0, p, out);
        } else if (came[p] && all[p].digest != all[0].digest) {
            report_calls(comm, p, out);
        } else if (came[p] && came[leader] && all[p].ranks != all[leader].ranks) {
            report_difference(all, leader, p, out);
        }
    }
    if (out->status == WEFT_OK && missing > 0) {
        weft_blame blame;
        weft_comm_inquire(comm, absent, &blame);
        bool known = blame.process >= 0 && !came[blame.process];
        report_absence(comm, &all[0], known ? blame.process : absent, missing - 1, &blame, out);
    }
}

/* ---- gather and broadcast --------------------------------------------------------------------------------------- */

/* Broadcast from process 0. The others wait as long as process 0 waits for the gather. */
static void broadcast_result(weft_comm *comm, const record *mine, comparison *out)
{
    weft_blame blame;
    while (!weft_comm_broadcast(comm, out, sizeof(*out)) && !weft_is_broken()) {
        weft_comm_inquire(comm, 0, &blame);
        if (!blame.has_come && !weft_is_broken()) {
            report_absence(comm, mine, 0, 0, &blame, out);
            return;
        }
    }
}

static void compare_on_all(weft_comm *comm, const record *mine, comparison *out)
{
    size_t processes = (size_t)weft_runtime.num_processes;
    bool gathers = weft_runtime.process == 0;
    record *all = gathers ? calloc(processes, sizeof(*all)) : NULL;
    bool *came = gathers ? calloc(processes, sizeof(*came)) : NULL;
    if (gathers && (all == NULL || came == NULL)) {
        *out = (comparison){ WEFT_ERR_NOMEM, "no memory to compare calls" };
    } else {
        weft_comm_gather(comm, mine, all, sizeof(*mine), came);
        if (gathers && !weft_is_broken()) {
            compare(comm, all, came, out);
        }
        broadcast_result(comm, mine, out);
    }
    free(all);
    free(came);
}

/* BLOCKS. False with the error kept: the world is broken. */
static bool all_come(const char *function, record *mine)
{
    strncpy(mine->error, weft_kept_message(), ERROR_SIZE - 1);
    comparison *result = calloc(1, sizeof(*result));
    if (result == NULL) {
        weft_break(WEFT_ERR_NOMEM, function, "no memory to compare calls");
    } else {
        compare_on_all(weft_runtime.comm, mine, result);
        if (result->status != WEFT_OK) {
            weft_break(result->status, function, "%s", result->text);
        }
    }
    free(result);
    if (weft_is_broken()) {
        weft_comm_give_up(weft_runtime.comm);
        weft_error_collect();
        return false;
    }
    return true;
}

static bool same_everywhere(const weft_call_signature *call)
{
    record mine = { .number = weft_runtime.call_number };
    weft_call_describe(call, mine.call, CALL_SIZE);
    describe_ranks(call, &mine);
    return all_come(call->function, &mine);
}

/* Compares only the parts of a layout that are equal on all processes. weft_mesh_slice() gives processes
 * meshes of other ranks, over other links, on which operations may choose other placements. Such meshes
 * have no common rank, so none has more than half of the ranks. */
static uint64_t digest_of(const weft_layout *layout)
{
    bool same_mesh = 2 * layout->mesh->num_ranks > weft_runtime.topology.num_ranks;
    return same_mesh ? layout->digest : layout->shape_digest;
}

/* Extends the digest. */
static uint64_t add_to_digest(uint64_t digest, const weft_call_signature *call)
{
    digest = weft_digest_text(digest, call->function);
    digest = call->text == NULL ? digest : weft_digest_text(digest, call->text);
    digest = weft_digest_add(digest, (uint64_t)call->failed << 32 | (uint64_t)call->num_layouts << 16 |
                                         (uint64_t)call->num_numbers);
    for (int i = 0; i < call->num_layouts; i++) {
        digest = weft_digest_add(digest, call->layouts[i] == NULL ? 0 : digest_of(call->layouts[i]));
    }
    for (int i = 0; i < call->num_numbers; i++) {
        uint64_t bits = UINT64_MAX; /* of any NaN: its bits may depend on the machine */
        if (!isnan(call->numbers[i])) {
            memcpy(&bits, &call->numbers[i], sizeof(bits));
        }
        digest = weft_digest_add(digest, bits);
    }
    return digest;
}

/* False with the error kept: the call is refused, and takes no number. */
static bool may_submit(const weft_call_signature *call)
{
    if (!weft_pending_admit(weft_runtime.pending, call->function)) {
        return false;
    }
    weft_pool_renew_when_due(weft_runtime.pool);
    return true;
}

void weft_spmd_number(const weft_call_signature *call)
{
    weft_runtime.call_number++;
    weft_runtime.digest = add_to_digest(weft_runtime.digest, call);
}

bool weft_check_spmd(const weft_call_signature *call)
{
    if (weft_runtime.context.steps != NULL) {
        return !call->failed;
    }
    if (weft_runtime.context.expanded > 0) {
        return !call->failed && (!weft_is_broken() || weft_error_collect() == WEFT_OK);
    }
    if (!call->failed && !may_submit(call)) {
        return false;
    }
    if (weft_runtime.comm == NULL) {
        return true;
    }
    if (!weft_may_call()) {
        return !call->failed && weft_require_init(call->function) == WEFT_OK; /* reported already */
    }
    weft_runtime.call = call->function;
    if (!weft_runtime.context.numbered) {
        weft_spmd_number(call);
    }
    weft_flight_note(weft_comm_flight(weft_runtime.comm), call, weft_runtime.call_number,
                     weft_runtime.digest);
    if (weft_is_broken()) {
        weft_error_collect();
        return false;
    }
    return !weft_runtime.check || same_everywhere(call);
}

static bool check_number(const char *function, const char *text, uint64_t number, bool valid)
{
    const double halves[] = { (double)(uint32_t)(number >> 32), (double)(uint32_t)number };
    return weft_check_spmd(&(weft_call_signature){
               .function = function, .failed = !valid, .num_numbers = 2, .numbers = halves, .text = text }) &&
           valid;
}

bool weft_check_spmd_number(const char *function, uint64_t number, bool valid)
{
    return check_number(function, NULL, number, valid);
}

bool weft_check_spmd_named(const char *function, const char *name, uint64_t number, bool valid)
{
    char quoted[80];
    snprintf(quoted, sizeof(quoted), "\"%.70s\"", valid ? name : "");
    return check_number(function, valid ? quoted : NULL, number, valid);
}

bool weft_call_last(const char *function)
{
    if (weft_runtime.comm == NULL || weft_runtime.num_processes == 1 || weft_is_broken()) {
        return !weft_is_broken();
    }
    record mine = { .digest = weft_runtime.digest };
    snprintf(mine.call, CALL_SIZE, "%s()", function);
    return all_come(function, &mine);
}
