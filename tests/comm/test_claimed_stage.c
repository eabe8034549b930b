/* Stages that a transport carries out as a whole, with the engine alone: a transport of one process whose
 * "stage" adds its source panels into each of its target panels. */
#include "comm_support.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 500, MAX_STAGES = 64 };

/* State of the transport's stages. */
static struct {
    const weft_stage_work *work[MAX_STAGES];
    void *tokens[MAX_STAGES];
    int offered, begun, ended;
    bool in_order;
    int fail_start, fail_end; /* the stages with these numbers fail; -1: none */
} stages;
static prng stage_random;
static weft_data below; /* the loopback's */

static bool claims(void *state, const weft_stage *stage, weft_stage_kind kind, const bool along[])
{
    (void)state, (void)stage, (void)kind, (void)along;
    return true;
}

static weft_status start_stage(void *state, const weft_stage_work *work, void *token)
{
    (void)state;
    stages.in_order = stages.in_order && work->number == (uint64_t)stages.offered;
    if (stages.fail_start == stages.offered++) {
        return WEFT_ERR_COMM;
    }
    stages.work[stages.begun] = work;
    stages.tokens[stages.begun++] = token;
    return WEFT_OK;
}

static void add_up(const weft_stage_work *work)
{
    static int sums[COUNT];
    memset(sums, 0, sizeof(sums));
    for (int i = 0; i < work->count; i++) {
        for (int k = 0; k < COUNT && !work->panels[i].target; k++) {
            sums[k] += ((const int *)(const void *)work->panels[i].memory)[k];
        }
    }
    for (int i = 0; i < work->count; i++) {
        if (work->panels[i].target) {
            memcpy(work->panels[i].memory, sums, sizeof(sums));
        }
    }
}

static int poll_stages(void *state, weft_finished finished[], int max)
{
    int count = 0;
    if (stages.ended < stages.begun && prng_below(&stage_random, 3) == 0) {
        int number = stages.ended++;
        add_up(stages.work[number]);
        bool fails = number == stages.fail_end;
        finished[count++] = (weft_finished){ stages.tokens[number], fails ? WEFT_ERR_COMM : WEFT_OK };
    }
    return count + below.poll(state, finished + count, max - count);
}

static weft_comm *start_claiming_engine(void)
{
    weft_transport transport = loopback_transport();
    memset(&stages, 0, sizeof(stages));
    stages.fail_start = stages.fail_end = -1;
    stages.in_order = true;
    stage_random = prng_start(9);
    below = transport.data;
    transport.data.claims = claims;
    transport.data.start_stage = start_stage;
    transport.data.poll = poll_stages;
    weft_unbreak(); /* an earlier test's world */
    weft_comm *comm = weft_comm_start("test", transport, 0);
    assert_non_null(comm);
    return comm;
}

/* Handles of COUNT numbers each, all `value`. */
static void register_all(int count, starpu_data_handle_t handles[], int memory[][COUNT], int value)
{
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < COUNT; k++) {
            memory[i][k] = value;
        }
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)memory[i], sizeof(memory[i]));
    }
}

static void unregister_all(int count, starpu_data_handle_t handles[])
{
    for (int i = 0; i < count; i++) {
        starpu_data_unregister(handles[i]);
    }
}

static weft_stage_operand operand(starpu_data_handle_t handle, bool target)
{
    return (weft_stage_operand){ .panel = { .target = target, .bytes = COUNT * (int64_t)sizeof(int) },
                                 .handle = handle,
                                 .whole = target };
}

/* From handles a and b into c. */
static void submit_sum(weft_comm *comm, starpu_data_handle_t a, starpu_data_handle_t b,
                       starpu_data_handle_t c)
{
    static const weft_stage stage = { .scale = 1 };
    const weft_stage_operand operands[] = { operand(a, false), operand(b, false), operand(c, true) };
    assert_true(weft_comm_submit_stage(comm, &stage, 3, operands, "sum"));
}

/* Fibonacci numbers: each stage reads the results of the two before it, and of tasks in between. */
static void test_stages_are_edges(void **state)
{
    (void)state;
    enum { NUMBERS = 40 };
    static int memory[NUMBERS][COUNT];
    starpu_data_handle_t handles[NUMBERS];
    int expected[NUMBERS] = { 1, 1 };
    weft_comm *comm = start_claiming_engine();
    register_all(NUMBERS, handles, memory, 1);
    for (int i = 2; i < NUMBERS; i++) {
        submit_sum(comm, handles[i - 2], handles[i - 1], handles[i]);
        expected[i] = expected[i - 2] + expected[i - 1];
        if (i % 3 == 0) {
            submit_add_one(handles[i]);
            expected[i]++;
        }
    }
    weft_comm_wait(comm);
    starpu_task_wait_for_all();
    unregister_all(NUMBERS, handles);
    assert_int_equal(weft_error_collect(), WEFT_OK);
    assert_int_equal(stages.ended, NUMBERS - 2);
    assert_true(stages.in_order);
    for (int i = 0; i < NUMBERS; i++) {
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(memory[i][k], expected[i]);
        }
    }
    weft_comm_stop(comm);
}

/* A stage whose panels are granted waits for an older one whose panels are not. */
static void test_stages_begin_in_order(void **state)
{
    (void)state;
    static int memory[6][COUNT];
    starpu_data_handle_t handles[6];
    weft_comm *comm = start_claiming_engine();
    register_all(6, handles, memory, 3);
    starpu_data_acquire(handles[0], STARPU_RW);
    submit_sum(comm, handles[0], handles[1], handles[2]);
    submit_sum(comm, handles[3], handles[4], handles[5]);
    starpu_sleep(0.1f);
    assert_int_equal(stages.begun, 0);
    starpu_data_release(handles[0]);
    weft_comm_wait(comm);
    assert_int_equal(stages.ended, 2);
    unregister_all(6, handles);
    assert_int_equal(memory[2][0], 6);
    assert_int_equal(memory[5][COUNT - 1], 6);
    weft_comm_stop(comm);
}

/* A stage that fails, when it begins or when it ends, breaks the world, and releases its panels and those of
 * the stages after it. */
static void test_failed_stages_release(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        static int memory[9][COUNT];
        starpu_data_handle_t handles[9];
        weft_comm *comm = start_claiming_engine();
        *(late ? &stages.fail_end : &stages.fail_start) = 1;
        register_all(9, handles, memory, 1);
        for (int i = 0; i < 9; i += 3) {
            submit_sum(comm, handles[i], handles[i + 1], handles[i + 2]);
            submit_add_one(handles[i + 2]);
        }
        weft_comm_wait(comm);
        starpu_task_wait_for_all();
        unregister_all(9, handles);
        assert_int_equal(weft_error_collect(), WEFT_ERR_COMM);
        assert_non_null(strstr(weft_last_error(), "transport loopback: a stage has failed"));
        weft_clear_error();
        weft_comm_stop(comm);
    }
}

/* An engine with a stage that waits for the first of three handles, which is acquired. */
static weft_comm *start_with_waiting_stage(starpu_data_handle_t handles[3])
{
    static int memory[3][COUNT];
    weft_comm *comm = start_claiming_engine();
    register_all(3, handles, memory, 1);
    starpu_data_acquire(handles[0], STARPU_RW);
    submit_sum(comm, handles[0], handles[1], handles[2]);
    return comm;
}

/* A world breaks while a stage has some of its panels. */
static void test_stages_of_a_broken_world(void **state)
{
    (void)state;
    starpu_data_handle_t handles[3];
    weft_comm *comm = start_with_waiting_stage(handles);
    weft_break(WEFT_ERR_MISMATCH, "weft_add", "the others call weft_mul");
    weft_comm_give_up(comm);
    starpu_data_release(handles[0]);
    submit_sum(comm, handles[0], handles[1], handles[2]);
    weft_comm_wait(comm);
    unregister_all(3, handles);
    assert_int_equal(weft_error_collect(), WEFT_ERR_MISMATCH);
    weft_clear_error();
    weft_comm_stop(comm);
}

static void test_pending_stage_is_reported(void **state)
{
    (void)state;
    starpu_data_handle_t handles[3];
    weft_comm *comm = start_with_waiting_stage(handles);
    assert_pending_says(comm, "3 transfers pending",
                        "stage of transport loopback, target panel of rank 0, 2000 bytes, sum");
    starpu_data_release(handles[0]);
    weft_comm_wait(comm);
    unregister_all(3, handles);
    weft_comm_stop(comm);
}

static void test_a_transport_beside_main_memory_is_refused(void **state)
{
    (void)state;
    weft_unbreak();
    weft_transport transport = loopback_transport();
    transport.data.memories = 1u << STARPU_CUDA_RAM;
    assert_null(weft_comm_start("test", transport, 0));
    assert_error(WEFT_ERR_UNSUPPORTED, "loopback does not reach main memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_are_edges),
        cmocka_unit_test(test_stages_begin_in_order),
        cmocka_unit_test(test_failed_stages_release),
        cmocka_unit_test(test_stages_of_a_broken_world),
        cmocka_unit_test(test_pending_stage_is_reported),
        cmocka_unit_test(test_a_transport_beside_main_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, start_starpu, stop_starpu);
}
