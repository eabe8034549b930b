#include "comm/judge.h"

/* ---- calls that differ --------------------------------------------------------------------------------- */

static uint64_t digest_of(const weft_account *account, uint64_t call)
{
    bool kept = call > 0 && call <= account->calls && call + WEFT_ACCOUNT_CALLS > account->calls;
    return kept ? account->digests[call % WEFT_ACCOUNT_CALLS] : 0;
}

static uint64_t oldest_of(const weft_account *account)
{
    return account->calls < WEFT_ACCOUNT_CALLS ? 1 : account->calls - WEFT_ACCOUNT_CALLS + 1;
}

uint64_t weft_accounts_differ(const weft_account *a, const weft_account *b)
{
    uint64_t first = oldest_of(a) > oldest_of(b) ? oldest_of(a) : oldest_of(b);
    uint64_t last = a->calls < b->calls ? a->calls : b->calls;
    for (uint64_t call = first; call <= last; call++) {
        uint64_t here = digest_of(a, call), there = digest_of(b, call);
        if (here != 0 && there != 0 && here != there) {
            return call;
        }
    }
    return 0;
}

/* Number of processes that made the same call as process `like`. */
static int count_like(int processes, const weft_account *const accounts[], int like, uint64_t call)
{
    int count = 0;
    for (int p = 0; p < processes; p++) {
        count += accounts[p] != NULL && digest_of(accounts[p], call) == digest_of(accounts[like], call);
    }
    return count;
}

/* The minority is to blame. */
static weft_finding split(int processes, const weft_account *const accounts[], uint64_t call)
{
    weft_finding finding = { .fault = WEFT_FAULT_DIFFERS, .process = -1, .other = -1, .call = call };
    int most = 0, known = 0;
    for (int p = 0; p < processes; p++) {
        bool has = accounts[p] != NULL && digest_of(accounts[p], call) != 0;
        int count = has ? count_like(processes, accounts, p, call) : 0;
        known += has;
        if (count > most) {
            most = count;
            finding.other = p;
        }
    }
    finding.undecided = 2 * most <= known;
    finding.count = known - most;
    for (int p = 0; p < processes && finding.process < 0; p++) {
        bool has = accounts[p] != NULL && digest_of(accounts[p], call) != 0;
        if (has && digest_of(accounts[p], call) != digest_of(accounts[finding.other], call)) {
            finding.process = p;
        }
    }
    return finding;
}

/* The process with the most calls: its record covers any difference between two others, unless it is far
 * ahead. */
static int longest_of(int processes, const weft_account *const accounts[])
{
    int longest = -1;
    for (int p = 0; p < processes; p++) {
        if (accounts[p] != NULL && (longest < 0 || accounts[p]->calls > accounts[longest]->calls)) {
            longest = p;
        }
    }
    return longest;
}

/* Digests are cumulative, so the first that differs marks the first call that differs. 0: none. */
static uint64_t first_difference(int processes, const weft_account *const accounts[], bool *earlier)
{
    uint64_t first = 0;
    int like[] = { longest_of(processes, accounts), -1 };
    for (int p = 0; p < processes; p++) {
        like[1] = like[1] < 0 && accounts[p] != NULL ? p : like[1];
        for (int k = 0; k < 2 && accounts[p] != NULL; k++) {
            uint64_t call = weft_accounts_differ(accounts[like[k]], accounts[p]);
            if (call != 0 && (first == 0 || call < first)) {
                first = call;
                *earlier = call > 1 && (digest_of(accounts[like[k]], call - 1) == 0 ||
                                        digest_of(accounts[p], call - 1) == 0);
            }
        }
    }
    return first;
}

/* ---- waits --------------------------------------------------------------------------------------------- */

static int count_silent(int processes, const weft_account *const accounts[])
{
    int count = 0;
    for (int p = 0; p < processes; p++) {
        count += accounts[p] == NULL;
    }
    return count;
}

/* The verdict on process `at`, which waits for nobody, and for which process `from` waits. `made`: calls
 * made by the process that waits for it in a gather or broadcast. */
static weft_finding end_of_waits(const weft_account *account, int at, int from, uint64_t call, uint64_t made)
{
    weft_finding finding = { .fault = WEFT_FAULT_COMPUTES, .process = at, .other = from, .call = call };
    bool gathers = call == UINT64_MAX;
    if (gathers && account->gathers) {
        finding.fault = WEFT_FAULT_NONE;
    } else if (account->calls < (gathers ? made : call)) {
        finding.fault = WEFT_FAULT_BEHIND;
    } else if (gathers) {
        finding.call = account->calls;
    } else if (account->send.waits && account->send.peer == from && account->send.call <= call) {
        finding.fault = WEFT_FAULT_LINK;
    }
    return finding;
}

/* A wait, from process to process. */
typedef struct chain {
    int processes;
    const weft_account *const *accounts;
    uint64_t made; /* calls made by the first process */
    int from;      /* the process that waits */
    weft_awaited wait;
} chain;

/* Follows the waits to the process at their end. Returns false if they lead in a circle. A wait for a receive
 * is of the same call or an earlier one, that for a send of an earlier one: so a process comes twice at most,
 * but in circles, which consist of receives of one call. */
static bool follow(chain *c, weft_finding *finding)
{
    for (int steps = 0; steps <= 2 * c->processes; steps++) {
        int at = c->wait.peer;
        const weft_account *account = c->accounts[at];
        if (account == NULL) {
            *finding = (weft_finding){ .fault = WEFT_FAULT_SILENT,
                                       .process = at,
                                       .other = c->from,
                                       .count = count_silent(c->processes, c->accounts),
                                       .call = c->wait.call };
            return true;
        }
        bool receives = account->receive.waits && account->receive.call <= c->wait.call;
        bool sends = account->send.waits && account->send.call < c->wait.call && c->wait.call != UINT64_MAX;
        if (!receives) {
            *finding = end_of_waits(account, at, c->from, c->wait.call, c->made);
            if (finding->fault != WEFT_FAULT_COMPUTES || !sends) {
                return true;
            }
        }
        c->from = at;
        c->wait = receives ? account->receive : account->send;
    }
    *finding = (weft_finding){
        .fault = WEFT_FAULT_LINK, .process = c->wait.peer, .other = c->from, .call = c->wait.call
    };
    return false;
}

/* From a circle to the oldest message that a process of it still sends, of an earlier call. False: none. */
static bool leave_circle(chain *c)
{
    weft_awaited oldest = { false, 0, c->wait.call };
    int at = c->wait.peer;
    for (int steps = 0; steps < c->processes; steps++) {
        if (c->accounts[at]->send.waits && c->accounts[at]->send.call < oldest.call) {
            oldest = c->accounts[at]->send;
            c->from = at;
        }
        at = c->accounts[at]->receive.peer;
    }
    c->wait = oldest.waits ? oldest : c->wait;
    return oldest.waits;
}

/* A message of a call can only wait for messages of that call or of earlier ones: its panel is computed from
 * what they bring, or takes memory that they are sent from. So following the waits, receives first, leads to
 * earlier calls, and at last to a process that waits for nobody. A circle in which nothing older is sent means
 * that messages are lost. */
static weft_finding end_of_chain(int processes, const weft_account *const accounts[], int self, weft_awaited wait)
{
    chain c = { processes, accounts, accounts[self]->calls, self, wait };
    weft_finding finding;
    while (!follow(&c, &finding) && leave_circle(&c)) {
    }
    return finding;
}

weft_finding weft_judge(int processes, const weft_account *const accounts[], int self,
                        const weft_awaited *wait)
{
    bool earlier = false;
    uint64_t call = first_difference(processes, accounts, &earlier);
    if (call != 0) {
        weft_finding finding = split(processes, accounts, call);
        finding.earlier = earlier;
        return finding;
    }
    if (wait->waits && wait->peer != self) {
        return end_of_chain(processes, accounts, self, *wait);
    }
    return (weft_finding){ .fault = WEFT_FAULT_UNKNOWN, .process = -1, .other = -1 };
}
