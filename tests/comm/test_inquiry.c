/* Inquiries over a transport of the test, in one process: this is process 0, and the others' answers are
 * written here. Also run under ThreadSanitizer. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm/engine.h"
#include "runtime/pending.h"

enum { PROCESSES = 3, CALLS = 20, MAX_WORDS = 64 };

/* ---- the other processes ------------------------------------------------------------------------------- */

typedef struct letter {
    int process;
    size_t size;
    weft_answer words;
} letter;

static struct {
    pthread_mutex_t mutex; /* of what follows */
    weft_account accounts[PROCESSES];
    bool silent[PROCESSES];
    weft_presence presence[PROCESSES];
    bool misses_one; /* a process may not come to the end */
    letter box[MAX_WORDS]; /* for this process */
    int in_box;
    letter sent[PROCESSES]; /* the last to each */
    int asked;
    void *token;      /* of the message under way */
    atomic_bool ends; /* it */
    bool abandoned;
} world = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void put_in_box(int process, const void *words, size_t size)
{
    if (world.in_box < MAX_WORDS) {
        letter *new = &world.box[world.in_box++];
        new->process = process;
        new->size = size;
        memcpy(&new->words, words, size);
    }
}

static void world_send(void *state, int process, const void *words, size_t size)
{
    (void)state;
    pthread_mutex_lock(&world.mutex);
    world.sent[process].size = size;
    memcpy(&world.sent[process].words, words, size);
    const weft_ask *ask = words;
    if (ask->kind == WEFT_ASK) {
        world.asked++;
        weft_answer answer = { WEFT_ANSWER, ask->id, world.accounts[process] };
        answer.account.asked = ask->call;
        if (!world.silent[process]) {
            put_in_box(process, &answer, sizeof(answer));
        }
    }
    pthread_mutex_unlock(&world.mutex);
}

static size_t world_receive(void *state, int *process, void *words, size_t size)
{
    (void)state;
    size_t taken = 0;
    pthread_mutex_lock(&world.mutex);
    if (world.in_box > 0) {
        const letter *last = &world.box[--world.in_box];
        taken = last->size <= size ? last->size : 0;
        memcpy(words, &last->words, taken);
        *process = last->process;
    }
    pthread_mutex_unlock(&world.mutex);
    return taken;
}

static weft_presence world_presence(void *state, int process)
{
    (void)state;
    return world.presence[process];
}

static void world_miss(void *state)
{
    (void)state;
    world.misses_one = true;
}

static weft_status table_start(void *state, const weft_message *message, bool receive, void *memory,
                               void *token)
{
    (void)state;
    (void)message;
    (void)receive;
    (void)memory;
    world.token = token;
    return WEFT_OK;
}

static int world_poll(void *state, weft_finished finished[], int max)
{
    (void)state;
    if (world.token == NULL || !world.ends || max == 0) {
        return 0;
    }
    finished[0] = (weft_finished){ world.token, WEFT_OK };
    world.token = NULL;
    return 1;
}

static void world_abandon(void *state)
{
    (void)state;
    world.token = NULL;
    world.abandoned = true;
}

static void world_close(void *state)
{
    (void)state;
}

/* ---- this process -------------------------------------------------------------------------------------- */

static int first_rank_of[PROCESSES + 1] = { 0, 1, 3, 4 };
static int value;
static starpu_data_handle_t handle;

static weft_comm *start_engine(double timeout_s)
{
    pthread_mutex_t mutex = world.mutex;
    memset(&world, 0, sizeof(world));
    world.mutex = mutex;
    weft_transport transport = {
        .name = "scripted",
        .place = { .process = 0, .num_processes = PROCESSES },
        .control = { .state = &world, .send = world_send, .receive = world_receive,
                     .presence = world_presence, .miss = world_miss },
        .data = { .state = &world,
                  .memories = 1u << STARPU_CPU_RAM,
                  .start = table_start,
                  .poll = world_poll,
                  .abandon = world_abandon,
                  .close = world_close },
    };
    weft_comm *comm = weft_comm_start("test", transport, timeout_s);
    assert_non_null(comm);
    for (uint64_t n = 1; n <= CALLS; n++) {
        weft_flight_note(weft_comm_flight(comm), &(weft_call_signature){ .function = "weft_here" }, n,
                         100 + n);
    }
    for (int p = 0; p < PROCESSES; p++) {
        weft_account *account = &world.accounts[p];
        account->calls = CALLS;
        snprintf(account->text, sizeof(account->text), "weft_there(%d)", p);
        for (uint64_t n = 1; n <= CALLS; n++) {
            account->digests[n % WEFT_ACCOUNT_CALLS] = 100 + n;
        }
    }
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(value));
    return comm;
}

/* A message from a process, of the call. */
static void receive_from(weft_comm *comm, int process, uint64_t call)
{
    weft_runtime.call = "weft_redistribute";
    weft_runtime.call_number = call;
    weft_message message = { .peer = process,
                             .region = { .run_bytes = sizeof(value) },
                             .bytes = sizeof(value) };
    assert_true(weft_comm_submit(comm, handle, true, true, 1, &message, NULL, NULL));
}

static void stop_engine(weft_comm *comm)
{
    starpu_data_unregister(handle);
    weft_comm_stop(comm);
    weft_unbreak();
}

static void expect_broken(weft_status status, const char *text)
{
    char message[2048];
    assert_int_equal(weft_broken_by(message, sizeof(message)), status);
    if (strstr(message, text) == NULL) {
        fail_msg("expected \"%s\" in \"%s\"", text, message);
    }
    assert_true(world.abandoned);
}

static int start(void **state)
{
    (void)state;
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    conf.ncuda = 0;
    conf.nopencl = 0;
    weft_runtime.first_rank_of = first_rank_of;
    weft_runtime.num_processes = PROCESSES;
    weft_runtime.pending = weft_pending_new(0);
    return weft_runtime.pending == NULL ? -1 : starpu_init(&conf);
}

static int stop(void **state)
{
    (void)state;
    weft_runtime.first_rank_of = NULL;
    weft_runtime.num_processes = 0;
    starpu_shutdown();
    weft_pending_delete(weft_runtime.pending);
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* Not by the time-out, which would say so; and without one. */
static void test_differences_are_found_at_once(void **state)
{
    (void)state;
    for (int timeout_s = 0; timeout_s <= 600; timeout_s += 600) {
        weft_comm *comm = start_engine(timeout_s);
        for (uint64_t n = 17; n <= CALLS; n++) {
            world.accounts[2].digests[n % WEFT_ACCOUNT_CALLS] += 5;
        }
        receive_from(comm, 2, 18);
        weft_comm_wait(comm);
        assert_false(world.misses_one);
        expect_broken(WEFT_ERR_MISMATCH,
                      "call 17: process 2 (rank 3) calls weft_there(2), process 0 (rank 0) calls "
                      "weft_here()");
        stop_engine(comm);
    }
}

static void test_who_is_waited_for(void **state)
{
    (void)state;
    /* Process 1 waits for 2, which has not come so far. */
    weft_comm *comm = start_engine(1);
    world.accounts[1].receive = (weft_awaited){ true, 2, 16 };
    world.accounts[2].calls = 15;
    world.accounts[2].since_last_call_s = 7.5;
    receive_from(comm, 1, 18);
    weft_comm_wait(comm);
    expect_broken(WEFT_ERR_TIMEOUT,
                  "process 2 (rank 3) has not come to call 16: its last is call 15, weft_there(2), "
                  "7.5 s ago; rank 0 waits for 4 bytes from rank 0 in process 1");
    stop_engine(comm);
    comm = start_engine(1);
    world.accounts[1].receive = (weft_awaited){ true, 2, 16 };
    world.silent[2] = true;
    receive_from(comm, 1, 18);
    weft_comm_wait(comm);
    expect_broken(WEFT_ERR_TIMEOUT, "process 2 (rank 3) does not answer: ");
    stop_engine(comm);
    comm = start_engine(1);
    world.accounts[1].transfers = 9;
    world.accounts[1].without_panels = 4;
    receive_from(comm, 1, 18);
    weft_comm_wait(comm);
    expect_broken(WEFT_ERR_TIMEOUT,
                  "process 1 (ranks 1 to 2) has made call 18, and its tasks have not ended, or the "
                  "program holds a shard (4 of its 9 pending transfers wait for that)");
    stop_engine(comm);
}

/* A process of this machine that has ended is found as soon as it is waited for, also by those that wait for another one. */
static void test_ended_is_found_at_once(void **state)
{
    (void)state;
    for (int timeout_s = 0; timeout_s <= 1800; timeout_s += 1800) {
        for (int peer = 1; peer <= 2; peer++) {
            weft_comm *comm = start_engine(timeout_s);
            world.silent[2] = true;
            world.presence[2] = WEFT_ENDED;
            receive_from(comm, peer, 18);
            weft_comm_wait(comm);
            expect_broken(WEFT_ERR_TIMEOUT, "process 2 (rank 3) does not answer: it has ended; rank 0 waits for 4 bytes");
            assert_true(world.misses_one);
            stop_engine(comm);
        }
    }
}

/* The submitting thread waits for all processes, and no message is under way. */
static void test_ended_is_found_in_meetings(void **state)
{
    (void)state;
    weft_comm *comm = start_engine(1800);
    world.presence[1] = WEFT_PRESENT;
    world.silent[2] = true;
    world.presence[2] = WEFT_ENDED;
    comm->gathers = true;
    while (!comm->told) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    }
    expect_broken(WEFT_ERR_TIMEOUT, "process 2 (rank 3) does not answer: it has ended; this process waits for it after "
                                    "call 20, weft_here()");
    stop_engine(comm);
}

/* Nothing is known of a process on another machine but that it does not answer: a thirtieth of the time-out is over. */
static void test_lost_connection(void **state)
{
    (void)state;
    weft_comm *comm = start_engine(300);
    world.silent[2] = true;
    receive_from(comm, 2, 18);
    weft_comm_wait(comm);
    expect_broken(WEFT_ERR_TIMEOUT, "process 2 (rank 3) does not answer: it has ended, is stopped, or cannot be reached");
    assert_true(world.misses_one);
    stop_engine(comm);
}

/* Once the others have been asked: the time-out is over. */
static void *end_when_asked(void *unused)
{
    (void)unused;
    for (bool asked = false; !asked;) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        pthread_mutex_lock(&world.mutex);
        asked = world.asked > 0;
        pthread_mutex_unlock(&world.mutex);
    }
    world.ends = true;
    return NULL;
}

/* A message that comes while the others are asked ends the inquiry. */
static void test_slow_is_not_broken(void **state)
{
    (void)state;
    weft_comm *comm = start_engine(1);
    world.silent[1] = true;
    receive_from(comm, 1, 18);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_when_asked, NULL), 0);
    weft_comm_wait(comm);
    pthread_join(thread, NULL);
    assert_false(weft_is_broken());
    assert_true(world.asked > 0);
    stop_engine(comm);
}

/* Answers questions of another process, while this one waits for nothing. */
static void test_questions_are_answered(void **state)
{
    (void)state;
    weft_comm *comm = start_engine(0);
    weft_ask ask = { WEFT_ASK, 4711, 7 };
    pthread_mutex_lock(&world.mutex);
    put_in_box(1, &ask, sizeof(ask));
    put_in_box(2, "x", 1); /* no words of weft's */
    pthread_mutex_unlock(&world.mutex);
    weft_answer answer = { 0 };
    for (int looks = 0; looks < 1000 && answer.id != 4711; looks++) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
        pthread_mutex_lock(&world.mutex);
        answer = world.sent[1].words;
        pthread_mutex_unlock(&world.mutex);
    }
    assert_int_equal(answer.kind, WEFT_ANSWER);
    assert_int_equal(answer.id, 4711);
    assert_int_equal(answer.account.calls, CALLS);
    assert_int_equal(answer.account.asked, 7);
    assert_string_equal(answer.account.text, "weft_here()");
    assert_true(answer.account.digests[CALLS] == 100 + CALLS && answer.account.digests[1] == 101);
    assert_false(answer.account.receive.waits || answer.account.send.waits || answer.account.gathers);
    stop_engine(comm);
}

/* Questions of the submitting thread. */
static void test_absence_from_meetings(void **state)
{
    (void)state;
    weft_comm *comm = start_engine(1);
    weft_blame blame;
    world.accounts[1].calls = 12;
    weft_comm_inquire(comm, 1, &blame);
    assert_int_equal(blame.status, WEFT_ERR_TIMEOUT);
    assert_int_equal(blame.process, 1);
    assert_non_null(
        strstr(blame.text, "process 1 (ranks 1 to 2) has not come to this call: its last is call 12"));
    pthread_mutex_lock(&world.mutex);
    world.accounts[1].calls = CALLS;
    world.accounts[1].gathers = true;
    pthread_mutex_unlock(&world.mutex);
    weft_comm_inquire(comm, 1, &blame);
    assert_true(blame.has_come);
    pthread_mutex_lock(&world.mutex);
    world.accounts[2].digests[CALLS] = 1;
    pthread_mutex_unlock(&world.mutex);
    weft_comm_inquire(comm, 1, &blame);
    assert_int_equal(blame.status, WEFT_ERR_MISMATCH);
    assert_int_equal(blame.process, 2);
    assert_false(weft_is_broken()); /* the caller breaks the world */
    weft_break(WEFT_ERR_NOMEM, "test", "no more");
    weft_comm_give_up(comm);
    weft_comm_inquire(comm, 1, &blame); /* and does not hang */
    stop_engine(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences_are_found_at_once),
        cmocka_unit_test(test_who_is_waited_for),
        cmocka_unit_test(test_ended_is_found_at_once),
        cmocka_unit_test(test_ended_is_found_in_meetings),
        cmocka_unit_test(test_lost_connection),
        cmocka_unit_test(test_slow_is_not_broken),
        cmocka_unit_test(test_questions_are_answered),
        cmocka_unit_test(test_absence_from_meetings),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
