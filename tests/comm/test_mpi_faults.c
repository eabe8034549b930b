/* The MPI transport when MPI fails: MPI's functions are replaced (its profiling interface has second
 * names) by ones that count, and fail on request. One process, with messages to itself. */
#include "support.h"

#include <mpi.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/mpi_packs.h"
#include "comm/mpi_presence.h"

#include <weft/mpi.h>

static struct {
    int tests, receives_from_anyone, cancelled, cancelled_nothing;
    int tests_before_failing; /* 0: none fails */
} calls;

int MPI_Testsome(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status statuses[])
{
    calls.tests++;
    int error = PMPI_Testsome(count, requests, ended, indices, statuses);
    bool fails = calls.tests_before_failing > 0 && --calls.tests_before_failing == 0;
    return fails ? MPI_ERR_INTERN : error; /* ended requests have gone from the list all the same */
}

int MPI_Irecv(void *memory, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    calls.receives_from_anyone += source == MPI_ANY_SOURCE;
    return PMPI_Irecv(memory, count, type, source, tag, comm, request);
}

int MPI_Cancel(MPI_Request *request)
{
    calls.cancelled++;
    calls.cancelled_nothing += *request == MPI_REQUEST_NULL;
    return PMPI_Cancel(request);
}

static int start_mpi(void **state)
{
    (void)state;
    int provided = 0;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
}

static int stop_mpi(void **state)
{
    (void)state;
    return MPI_Finalize();
}

static weft_message plain_message(uint32_t tag, int64_t bytes)
{
    return (weft_message){ .peer = 0, .tag = tag, .region = { .run_bytes = bytes }, .bytes = bytes };
}

/* On a single machine, without a setting, packs cost nothing. */
static void test_no_packs_on_one_machine(void **state)
{
    (void)state;
    for (int near_too = 0; near_too < 2; near_too++) {
        memset(&calls, 0, sizeof(calls));
        weft_vec finished = { 0 };
        MPI_Comm comm;
        assert_int_equal(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
        weft_mpi_packs *packs = weft_mpi_packs_open(comm, 4096, near_too ? NULL : (const int[]){ 0 });
        assert_non_null(packs);
        weft_message message = plain_message(1, 8);
        assert_int_equal(weft_mpi_packs_takes(packs, &message), near_too);
        weft_mpi_packs_poll(packs, &finished);
        assert_int_equal(calls.tests, near_too);
        assert_int_equal(calls.receives_from_anyone > 0, near_too);
        weft_mpi_packs_close(packs);
        weft_vec_free(&finished);
    }
}

static int poll_until(weft_transport *transport, weft_finished finished[], int wanted)
{
    int count = 0;
    while (count < wanted && !weft_is_broken()) {
        count += transport->data.poll(transport->data.state, finished + count, 16 - count);
    }
    return count;
}

/* The state of requests is unknown: nothing is reported, because MPI may still write to unfinished
 * messages' memory. Requests that can be cancelled are; those that have gone are not touched. */
static void test_failure_of_a_test(void **state)
{
    (void)state;
    memset(&calls, 0, sizeof(calls));
    enum { COUNT = 4 };
    static int from[COUNT] = { 1, 2, 3, 4 }, to[COUNT];
    weft_message messages[COUNT];
    weft_transport transport;
    weft_finished finished[16];
    assert_int_equal(weft_mpi_open("test", NULL, 0, 0, 0, &transport), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        messages[i] = plain_message((uint32_t)i, sizeof(int));
        assert_int_equal(transport.data.start(transport.data.state, &messages[i], true, &to[i], &to[i]), WEFT_OK);
    }
    assert_int_equal(transport.data.start(transport.data.state, &messages[0], false, &from[0], &from[0]), WEFT_OK);
    assert_int_equal(poll_until(&transport, finished, 2), 2);
    assert_int_equal(to[0], 1);
    assert_false(weft_is_broken());
    assert_int_equal(transport.data.start(transport.data.state, &messages[1], false, &from[1], &from[1]), WEFT_OK);
    calls.tests_before_failing = 1;
    assert_int_equal(poll_until(&transport, finished, 2), 0);
    assert_true(weft_is_broken());
    weft_transport_abort(&transport);
    assert_int_equal(calls.cancelled_nothing, 0);
    assert_true(calls.cancelled >= COUNT - 2); /* the second may have come with the test that failed */
    assert_int_equal(weft_error_collect(), WEFT_ERR_COMM);
    assert_non_null(strstr(weft_last_error(), "MPI_Testsome() failed"));
    weft_clear_error();
    weft_transport_close(&transport);
    weft_unbreak();
}

static void refuse(weft_communicator communicator, weft_status status, const char *part)
{
    assert_int_equal(weft_init_communicator(&communicator, NULL), status);
    if (strstr(weft_last_error(), part) == NULL) {
        fail_msg("no \"%s\" in: %s", part, weft_last_error());
    }
    weft_clear_error();
}

/* Communicators of another MPI, and incomplete ones, are refused before anything is done with them. */
static void test_communicators(void **state)
{
    (void)state;
    MPI_Comm world = MPI_COMM_WORLD;
    const weft_communicator right = { sizeof(right), WEFT_MPI_INTERFACE, sizeof(world), &world };
    weft_communicator c = right;
    assert_int_equal(weft_init_communicator(NULL, NULL), WEFT_ERR_INVALID);
    weft_clear_error();
    c.size = 0;
    refuse(c, WEFT_ERR_INVALID, "weft_init_communicator: communicator->size is 0");
    c = right;
    c.handle = NULL;
    refuse(c, WEFT_ERR_INVALID, "communicator->handle is NULL");
    c = right;
    c.interface = NULL;
    refuse(c, WEFT_ERR_INVALID, "communicator->interface is NULL");
    c = right;
    c.interface = strcmp(WEFT_MPI_INTERFACE, "MPICH") == 0 ? "Open MPI" : "MPICH";
    refuse(c, WEFT_ERR_UNSUPPORTED, c.interface);
    c = right;
    c.handle_size = sizeof(world) + 4;
    refuse(c, WEFT_ERR_UNSUPPORTED, "MPI_Comm");
    assert_int_equal(weft_init_communicator(&right, NULL), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(weft_init_mpi_fortran((int)MPI_Comm_c2f(MPI_COMM_NULL), NULL), WEFT_ERR_INVALID);
    assert_non_null(strstr(weft_last_error(), "weft_init_mpi_fortran: "));
    weft_clear_error();
    assert_int_equal(weft_init_mpi_fortran((int)MPI_Comm_c2f(MPI_COMM_WORLD), NULL), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A process has ended when its parent, a busy launcher, has not noticed yet. */
static void test_presence(void **state)
{
    (void)state;
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) != 0);
    }
    close(gate[0]);
    weft_mpi_card cards[3];
    memset(cards, 0, sizeof(cards));
    weft_mpi_presence_card(&cards[0]);
    cards[1] = cards[2] = cards[0];
    cards[1].pid = child;
    cards[2].machine = 7;
    const weft_mpi_common common = { .place = { .num_processes = 3 }, .mine = cards[0], .cards = cards };
    weft_mpi_presence *presence = weft_mpi_presence_new(&common);
    assert_non_null(presence);
    assert_int_equal(weft_mpi_presence_of(presence, 0), WEFT_PRESENT);
    assert_int_equal(weft_mpi_presence_of(presence, 1), WEFT_PRESENT);
    assert_int_equal(weft_mpi_presence_of(presence, 2), WEFT_PRESENCE_UNKNOWN);
    close(gate[1]);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(weft_mpi_presence_of(presence, 1), WEFT_ENDED);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(weft_mpi_presence_of(presence, 1), WEFT_ENDED);
    weft_mpi_presence_free(presence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presence),
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_no_packs_on_one_machine),
        cmocka_unit_test(test_failure_of_a_test), /* the last: nothing can be opened after it */
    };
    return cmocka_run_group_tests(tests, start_mpi, stop_mpi);
}
