/* Finds the process to blame when nothing moves.
 *
 * Each process answers, on its progress thread, inquiries about its calls and what they wait for.
 * Inquiries go to
 *
 *  - the processes whose messages are awaited, after a quarter of a second without progress, and again after
 *    twice as long: this finds calls that differ long before the time-out;
 *  - all processes, at the time-out, when calls differ, or when the submitting thread asks (check_spmd.c)
 *    because another process does not come to a gather or broadcast. The answers are judged (judge.h) when
 *    they are complete or after some seconds: processes that have ended or are stopped give none.
 *
 * Messages go on during an inquiry; progress ends it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/engine.h"

/* Limit for answers: processes on a busy machine answer late. A second inquiry, for the text of a call,
 * asks only those that answered before. */
static const double ANSWERS_US = 4e6, TEXTS_US = 1e6;
/* Time without progress before the peers are asked. */
static const double SUSPECT_AFTER_US = 250e3;
/* Interval between looks for texts of other processes, and for those that have ended while this one waits. */
static const double LISTEN_EVERY_US = 2000, SEARCH_EVERY_US = 100e3;
/* A process on another machine that is waited for and does not answer cannot be reached: after this part of the time-out,
 * and not before it has been asked several times. */
static const double LOST_AFTER = 1.0 / 30, LOST_AFTER_US = 10e6;

typedef union text {
    uint32_t kind;
    weft_ask ask;
    weft_answer answer;
} text;

/* ---- accounts ------------------------------------------------------------------------------------------ */

static weft_awaited wait_of(const weft_comm_transfer *t)
{
    if (t == NULL) {
        return (weft_awaited){ false, 0, 0 };
    }
    return (weft_awaited){ true, t->messages[weft_first_unfinished(t)].peer, t->call_number };
}

static void describe_calls(weft_flight *flight, uint64_t call, weft_account *account)
{
    account->calls = weft_flight_last(flight);
    for (uint64_t i = 0; i < WEFT_ACCOUNT_CALLS && i < account->calls; i++) {
        uint64_t number = account->calls - i;
        account->digests[number % WEFT_ACCOUNT_CALLS] = weft_flight_digest(flight, number);
    }
    char last[8];
    weft_flight_text(flight, account->calls, last, sizeof(last), &account->since_last_call_s);
    account->asked = call;
    uint64_t shown = call <= account->calls ? call : account->calls;
    weft_flight_text(flight, shown, account->text, sizeof(account->text), NULL);
}

static void give_account(weft_comm *comm, uint64_t call, weft_account *account)
{
    memset(account, 0, sizeof(*account)); /* sent as a whole */
    describe_calls(comm->flight, call, account);
    starpu_pthread_mutex_lock(&comm->mutex);
    account->receive = wait_of(weft_oldest_granted(comm, true));
    account->send = wait_of(weft_oldest_granted(comm, false));
    account->gathers = atomic_load(&comm->gathers);
    account->transfers = comm->pending;
    account->without_panels = comm->pending - comm->granted;
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* ---- who has ended ------------------------------------------------------------------------------------- */

static weft_presence presence_of(const weft_comm *comm, int process)
{
    const weft_control *control = &comm->transport.control;
    return control->presence == NULL ? WEFT_PRESENCE_UNKNOWN : control->presence(control->state, process);
}

int weft_inquiry_ended(const weft_comm *comm)
{
    int ended = -1;
    for (int p = 0; p < comm->transport.place.num_processes && ended < 0; p++) {
        ended = presence_of(comm, p) == WEFT_ENDED ? p : -1;
    }
    return ended;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

static void send_text(weft_comm *comm, int process, const void *bytes, size_t size)
{
    comm->transport.control.send(comm->transport.control.state, process, bytes, size);
}

static void ask_process(weft_comm *comm, int process)
{
    weft_ask question = { WEFT_ASK, comm->inquiry.id, comm->inquiry.call };
    send_text(comm, process, &question, sizeof(question));
}

/* From here on answers to earlier questions are ignored. */
static void renew_id(weft_comm *comm)
{
    comm->inquiry.id++;
}

static bool make_room(weft_comm *comm)
{
    weft_inquiry *q = &comm->inquiry;
    size_t processes = (size_t)comm->transport.place.num_processes;
    if (q->accounts == NULL) {
        q->accounts = calloc(processes, sizeof(*q->accounts));
        q->heard = calloc(processes, sizeof(*q->heard));
    }
    return q->accounts != NULL && q->heard != NULL;
}

static void begin(weft_comm *comm, int reason, weft_awaited wait)
{
    weft_inquiry *q = &comm->inquiry;
    int self = comm->transport.place.process;
    q->reason = reason;
    q->began_us = q->last_listen_us;
    q->waited_us = 0;
    q->second = false;
    q->wait = wait;
    q->call = wait.call;
    q->missing = 0;
    renew_id(comm);
    give_account(comm, q->call, &q->accounts[self]);
    for (int p = 0; p < comm->transport.place.num_processes; p++) {
        q->heard[p] = p == self ? &q->accounts[self] : NULL;
        q->missing += p != self && presence_of(comm, p) != WEFT_ENDED;
    }
    for (int p = 0; p < comm->transport.place.num_processes; p++) {
        if (p != self) {
            ask_process(comm, p);
        }
    }
}

/* Asks those that answered for the text of that call. */
static void begin_second(weft_comm *comm, const weft_finding *finding)
{
    weft_inquiry *q = &comm->inquiry;
    int self = comm->transport.place.process;
    q->second = true;
    q->waited_us = 0;
    q->call = finding->call;
    q->missing = 0;
    renew_id(comm);
    give_account(comm, q->call, &q->accounts[self]);
    const int asked[] = { finding->process, finding->other };
    for (int i = 0; i < 2; i++) {
        if (asked[i] != self && q->accounts[asked[i]].asked != q->call) {
            q->missing++;
            ask_process(comm, asked[i]);
        }
    }
}

/* ---- listening ----------------------------------------------------------------------------------------- */

static void give_answer(weft_comm *comm, int process, const weft_ask *question)
{
    weft_answer mine = { .kind = WEFT_ANSWER, .id = question->id };
    give_account(comm, question->call, &mine.account);
    send_text(comm, process, &mine, sizeof(mine));
}

static void take_answer(weft_comm *comm, int process, const weft_answer *theirs)
{
    weft_inquiry *q = &comm->inquiry;
    if (theirs->id != q->id) {
        return;
    }
    if (q->reason != WEFT_INQUIRY_NONE) {
        bool again = q->second && q->accounts[process].asked == q->call;
        q->missing -= q->heard[process] == NULL || (q->second && !again);
        q->accounts[process] = theirs->account;
        q->heard[process] = &q->accounts[process];
        return;
    }
    weft_account mine;
    give_account(comm, 0, &mine);
    uint64_t call = weft_accounts_differ(&mine, &theirs->account);
    if (call != 0 && make_room(comm)) {
        begin(comm, WEFT_INQUIRY_DIFFERS, (weft_awaited){ true, process, call });
    }
}

static void listen(weft_comm *comm)
{
    text heard;
    int process = 0;
    size_t size;
    while ((size = comm->transport.control.receive(comm->transport.control.state, &process, &heard,
                                                   sizeof(heard))) > 0) {
        comm->inquiry.heard_us[process] = starpu_timing_now();
        if (heard.kind == WEFT_ASK && size == sizeof(heard.ask)) {
            give_answer(comm, process, &heard.ask);
        } else if (heard.kind == WEFT_ANSWER && size == sizeof(heard.answer)) {
            take_answer(comm, process, &heard.answer);
        }
    }
}

/* ---- the watchdog -------------------------------------------------------------------------------------- */

/* The mutex is held. Returns the time without progress; 0: nothing waits for messages. A long gap between
 * calls of this function means that this process itself was stopped or starved, and is not counted. */
static double still_us(weft_comm *comm)
{
    double now_us = starpu_timing_now(), since_us = now_us - comm->last_look_us;
    comm->last_look_us = now_us;
    if (since_us > 1e6) {
        comm->last_progress_us += since_us;
        comm->last_progress_us = comm->last_progress_us < now_us ? comm->last_progress_us : now_us;
    }
    return comm->granted > 0 ? now_us - comm->last_progress_us : 0;
}

/* The mutex is held. The peers of the oldest messages. */
static int find_peers(const weft_comm *comm, int peers[], int most)
{
    int count = 0;
    for (const weft_comm_transfer *t = comm->oldest; t != NULL && count < most; t = t->newer) {
        int peer = t->phase == WEFT_SUBMITTED ? -1 : t->messages[weft_first_unfinished(t)].peer;
        for (int i = 0; i < count; i++) {
            peer = peers[i] == peer ? -1 : peer;
        }
        if (peer >= 0 && peer != comm->transport.place.process) {
            peers[count++] = peer;
        }
    }
    return count;
}

/* Asks the processes that this one waits for. Their answers go to take_answer(). */
static void suspect(weft_comm *comm)
{
    enum { MAX_PEERS = 4 };
    int peers[MAX_PEERS];
    starpu_pthread_mutex_lock(&comm->mutex);
    int count = find_peers(comm, peers, MAX_PEERS);
    starpu_pthread_mutex_unlock(&comm->mutex);
    renew_id(comm);
    comm->inquiry.call = 0;
    for (int i = 0; i < count; i++) {
        ask_process(comm, peers[i]);
    }
}

static bool suspects(weft_comm *comm, double still)
{
    weft_inquiry *q = &comm->inquiry;
    if (still < q->suspect_since_us || q->suspect_after_us == 0) { /* progress since then */
        q->suspect_after_us = SUSPECT_AFTER_US;
    }
    q->suspect_since_us = still;
    if (still < q->suspect_after_us) {
        return false;
    }
    q->suspect_after_us *= 2;
    return true;
}

/* The submitting thread waits for an absent process, in a gather or broadcast. */
static void break_gathering(const weft_comm *comm, const char *finding)
{
    char last[320];
    uint64_t call = weft_flight_last(comm->flight);
    weft_flight_text(comm->flight, call, last, sizeof(last), NULL);
    weft_break(WEFT_ERR_TIMEOUT, "weft", "%s; this process waits for it after call %llu%s%s", finding,
               (unsigned long long)call, last[0] != '\0' ? ", " : "", last);
}

/* The mutex is held, and released meanwhile. */
static void break_stuck(weft_comm *comm, const char *finding)
{
    char what[WEFT_BLAME_SIZE + 64];
    snprintf(what, sizeof(what), "nothing has moved for %.1f s%s%s", comm->inquiry.still_us * 1e-6,
             finding[0] != '\0' ? "; " : "", finding);
    const weft_comm_transfer *oldest = weft_oldest_granted(comm, true);
    oldest = oldest == NULL ? weft_oldest_granted(comm, false) : oldest;
    if (oldest != NULL) {
        weft_break_for(oldest, weft_first_unfinished(oldest), WEFT_ERR_TIMEOUT, what);
    } else if (comm->inquiry.accused >= 0) {
        break_gathering(comm, finding);
    } else {
        weft_break(WEFT_ERR_TIMEOUT, "weft", "%s", what);
    }
}

/* `accused`: a process that has ended or cannot be reached; -1: the time is over. */
static void begin_stuck(weft_comm *comm, double still, int accused)
{
    comm->inquiry.accused = accused;
    comm->inquiry.still_us = still;
    starpu_pthread_mutex_lock(&comm->mutex);
    if (still > 0) {
        weft_print_pending_locked(comm, stderr); /* the program may end once it hears that the world is broken */
    }
    const weft_comm_transfer *oldest = weft_oldest_granted(comm, true);
    weft_awaited wait = wait_of(oldest == NULL ? weft_oldest_granted(comm, false) : oldest);
    bool asks = comm->transport.control.send != NULL && make_room(comm);
    if (!asks) {
        break_stuck(comm, "");
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    if (asks) {
        begin(comm, WEFT_INQUIRY_STUCK, accused < 0 ? wait : (weft_awaited){ true, accused, UINT64_MAX });
    }
}

/* ---- the end of an inquiry ----------------------------------------------------------------------------- */

/* The mutex is held. */
static void answer_submitter(weft_comm *comm, const weft_blame *blame)
{
    comm->inquiry.blame = *blame;
    comm->inquiry.wanted = false;
    starpu_pthread_cond_broadcast(&comm->idle);
}

/* The mutex is held. */
static void answer_nothing(weft_comm *comm)
{
    answer_submitter(comm, &(weft_blame){ .status = WEFT_ERR_TIMEOUT, .process = -1 });
}

static bool has_moved(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    bool moved = comm->last_progress_us > comm->inquiry.began_us;
    starpu_pthread_mutex_unlock(&comm->mutex);
    return moved;
}

static void conclude(weft_comm *comm)
{
    weft_inquiry *q = &comm->inquiry;
    int processes = comm->transport.place.num_processes, self = comm->transport.place.process;
    weft_finding finding = weft_judge(processes, q->heard, self, &q->wait);
    bool differs = finding.fault == WEFT_FAULT_DIFFERS, silent = finding.fault == WEFT_FAULT_SILENT;
    finding.ended = silent && presence_of(comm, finding.process) == WEFT_ENDED;
    if (differs && !q->second) {
        begin_second(comm, &finding);
        return;
    }
    weft_blame blame = { .status = differs ? WEFT_ERR_MISMATCH : WEFT_ERR_TIMEOUT,
                         .process = finding.process,
                         .has_come = finding.fault == WEFT_FAULT_NONE };
    weft_finding_text(q->accounts, &finding, blame.text, sizeof(blame.text));
    if (!differs && !blame.has_come && comm->transport.control.miss != NULL) {
        comm->transport.control.miss(comm->transport.control.state);
    }
    int reason = q->reason;
    q->reason = WEFT_INQUIRY_NONE;
    starpu_pthread_mutex_lock(&comm->mutex);
    if (reason == WEFT_INQUIRY_WANTED) {
        answer_submitter(comm, &blame);
    } else if (differs) {
        weft_break(blame.status, "weft", "%s", blame.text);
    } else if (reason == WEFT_INQUIRY_STUCK && (silent || q->accused < 0)) {
        break_stuck(comm, blame.text);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

static void go_on(weft_comm *comm, double since_us)
{
    weft_inquiry *q = &comm->inquiry;
    q->waited_us += since_us < 1e6 ? since_us : 0; /* else this process was stopped */
    if (q->reason == WEFT_INQUIRY_STUCK && q->accused < 0 && has_moved(comm)) {
        q->reason = WEFT_INQUIRY_NONE;
    } else if (q->missing == 0 || q->waited_us > (q->second ? TEXTS_US : ANSWERS_US)) {
        conclude(comm);
    }
}

/* An inquiry of the submitting thread goes first: the program waits for it. */
static void begin_wanted(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    bool wanted = comm->inquiry.wanted;
    int absent = comm->inquiry.absent;
    bool asks = wanted && comm->transport.control.send != NULL && make_room(comm);
    if (wanted && !asks) {
        answer_nothing(comm);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    if (asks) {
        begin(comm, WEFT_INQUIRY_WANTED, (weft_awaited){ true, absent, UINT64_MAX });
    }
}

/* A process that this one waits for on another machine, and that has not answered for a while; -1: none. */
static int find_lost(weft_comm *comm, double still)
{
    enum { MAX_PEERS = 4 };
    double limit_us = comm->timeout_us * LOST_AFTER > LOST_AFTER_US ? comm->timeout_us * LOST_AFTER : LOST_AFTER_US;
    if (comm->transport.control.send == NULL || comm->timeout_us <= 0 || still < limit_us) {
        return -1;
    }
    int peers[MAX_PEERS], lost = -1;
    starpu_pthread_mutex_lock(&comm->mutex);
    int count = find_peers(comm, peers, MAX_PEERS);
    starpu_pthread_mutex_unlock(&comm->mutex);
    for (int i = 0; i < count && lost < 0; i++) {
        bool silent = comm->inquiry.last_listen_us - comm->inquiry.heard_us[peers[i]] > limit_us;
        lost = silent && presence_of(comm, peers[i]) == WEFT_PRESENCE_UNKNOWN ? peers[i] : -1;
    }
    return lost;
}

/* While this process waits for messages, or in a gather or broadcast. -1: none. */
static int find_absent(weft_comm *comm, double still)
{
    weft_inquiry *q = &comm->inquiry;
    if ((still < SUSPECT_AFTER_US && !comm->gathers) || q->last_listen_us - q->last_search_us < SEARCH_EVERY_US) {
        return -1;
    }
    q->last_search_us = q->last_listen_us;
    int ended = weft_inquiry_ended(comm);
    return ended >= 0 ? ended : find_lost(comm, still);
}

static void look(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    double still = still_us(comm);
    starpu_pthread_mutex_unlock(&comm->mutex);
    if (comm->inquiry.reason != WEFT_INQUIRY_NONE) {
        return;
    }
    int absent = find_absent(comm, still);
    if (absent >= 0 || (comm->timeout_us > 0 && still > comm->timeout_us)) {
        begin_stuck(comm, still, absent);
    } else if (comm->transport.control.send != NULL && suspects(comm, still)) {
        suspect(comm);
    }
}

void weft_inquiry_step(weft_comm *comm)
{
    weft_inquiry *q = &comm->inquiry;
    double now_us = starpu_timing_now(), since_us = now_us - q->last_listen_us;
    if (since_us < LISTEN_EVERY_US || comm->gave_up || weft_is_broken()) {
        return;
    }
    if (q->id == 0) { /* answers to questions of an earlier world have other numbers */
        q->id = (uint32_t)weft_hash_u64((uint64_t)now_us ^ (uint64_t)getpid() << 32);
    }
    q->last_listen_us = now_us;
    if (comm->transport.control.hear_abort != NULL) {
        comm->transport.control.hear_abort(comm->transport.control.state);
    }
    if (comm->transport.control.receive != NULL) {
        listen(comm);
    }
    if (q->reason != WEFT_INQUIRY_NONE) {
        go_on(comm, since_us);
    } else {
        begin_wanted(comm);
    }
    if (!weft_is_broken()) {
        look(comm);
    }
}

void weft_inquiry_end(weft_comm *comm)
{
    comm->inquiry.reason = WEFT_INQUIRY_NONE;
    starpu_pthread_mutex_lock(&comm->mutex);
    if (comm->inquiry.wanted) {
        answer_nothing(comm);
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

/* ---- the submitting thread ----------------------------------------------------------------------------- */

void weft_comm_inquire(weft_comm *comm, int absent, weft_blame *blame)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->inquiry.absent = absent;
    comm->inquiry.wanted = !comm->gave_up;
    comm->inquiry.blame = (weft_blame){ .status = WEFT_ERR_TIMEOUT, .process = -1 };
    starpu_pthread_cond_signal(&comm->wake);
    while (comm->inquiry.wanted) {
        starpu_pthread_cond_wait(&comm->idle, &comm->mutex);
    }
    *blame = comm->inquiry.blame;
    starpu_pthread_mutex_unlock(&comm->mutex);
}
