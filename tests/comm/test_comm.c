/* The communication engine over a transport of the test, in one process. Also run under ThreadSanitizer:
 * no MPI, all threads of the engine and of StarPU. */
#include "comm_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pending.h"

/* A chain of tasks and messages: each message must carry the results of the previous tasks, and no task
 * may start early. */
static void test_transfers_are_edges(void **state)
{
    (void)state;
    enum { LINKS = 40, COUNT = 1000 };
    static int values[LINKS + 1][COUNT];
    memset(values, 0, sizeof(values));
    starpu_data_handle_t handles[LINKS + 1];
    weft_comm *comm = start_engine();
    for (int i = 0; i <= LINKS; i++) {
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)values[i], sizeof(values[i]));
    }
    for (int i = 0; i < LINKS; i++) {
        submit_add_one(handles[i]);
        uint32_t tag = weft_comm_reserve(comm, 0, false, 1);
        assert_int_equal(tag, weft_comm_reserve(comm, 0, true, 1));
        weft_message message = plain_message(tag, sizeof(values[i]));
        /* The receive first now and then: the order must not matter. */
        for (int k = 0; k < 2; k++) {
            bool receive = k == i % 2;
            assert_true(weft_comm_submit(comm, handles[receive ? i + 1 : i], receive, true, 1, &message, NULL,
                                         "link"));
        }
        submit_add_one(handles[i]); /* must wait for the send */
    }
    weft_comm_wait(comm);
    starpu_task_wait_for_all();
    for (int i = 0; i <= LINKS; i++) {
        starpu_data_unregister(handles[i]);
        for (int k = 0; k < COUNT; k++) {
            assert_int_equal(values[i][k], i < LINKS ? i + 2 : LINKS);
        }
    }
    weft_comm_stop(comm);
    assert_true(the_loopback.closed);
}

/* Many handles at once, several messages in one transfer, regions with gaps on either side. */
static void test_many_strided_messages(void **state)
{
    (void)state;
    enum { PAIRS = 100, ROWS = 8, COLUMNS = 12, PARTS = 3 };
    static int source[PAIRS][ROWS][COLUMNS], target[PAIRS][COLUMNS][ROWS];
    starpu_data_handle_t from[PAIRS], to[PAIRS];
    weft_comm *comm = start_engine();
    for (int p = 0; p < PAIRS; p++) {
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            (&source[p][0][0])[i] = p * 1000 + i;
        }
        starpu_variable_data_register(&from[p], STARPU_MAIN_RAM, (uintptr_t)source[p], sizeof(source[p]));
        starpu_variable_data_register(&to[p], STARPU_MAIN_RAM, (uintptr_t)target[p], sizeof(target[p]));
        uint32_t send_tag = weft_comm_reserve(comm, 0, false, PARTS);
        uint32_t receive_tag = weft_comm_reserve(comm, 0, true, PARTS);
        weft_message sends[PARTS], receives[PARTS];
        for (int k = 0; k < PARTS; k++) {
            /* Columns 4k .. 4k + 3 of the source become the rows 4k .. of a [12, 8] target, row by row. */
            int64_t extent[] = { ROWS, COLUMNS / PARTS }, stride[] = { COLUMNS, 1 };
            sends[k] = plain_message(send_tag + (uint32_t)k, ROWS * COLUMNS / PARTS * (int64_t)sizeof(int));
            sends[k].region =
                weft_region_of_box(2, extent, stride, sizeof(int), k * 4 * (int64_t)sizeof(int));
            receives[k] = sends[k];
            receives[k].tag = receive_tag + (uint32_t)k;
            receives[k].region =
                (weft_region){ .offset = k * 4 * ROWS * (int64_t)sizeof(int), .run_bytes = sends[k].bytes };
        }
        submit_add_one(from[p]);
        assert_true(weft_comm_submit(comm, to[p], true, true, PARTS, receives, NULL, "strided"));
        assert_true(weft_comm_submit(comm, from[p], false, false, PARTS, sends, NULL, "strided"));
        submit_add_one(to[p]);
    }
    weft_comm_wait(comm);
    starpu_task_wait_for_all();
    for (int p = 0; p < PAIRS; p++) {
        starpu_data_unregister(from[p]);
        starpu_data_unregister(to[p]);
        int *packed = &target[p][0][0];
        for (int k = 0; k < PARTS; k++) {
            for (int row = 0; row < ROWS; row++) {
                for (int column = 0; column < 4; column++) {
                    assert_int_equal(*packed++, p * 1000 + row * COLUMNS + k * 4 + column + 2);
                }
            }
        }
    }
    weft_comm_stop(comm);
}

/* A message that fails, when it starts or later, releases its panel and leaves a status: nothing hangs. */
static void test_failures_release(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        int value = 1, other = 0;
        starpu_data_handle_t from, to;
        weft_comm *comm = start_engine();
        *(late ? &the_loopback.fail_end : &the_loopback.fail_start) = 0;
        starpu_variable_data_register(&from, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(value));
        starpu_variable_data_register(&to, STARPU_MAIN_RAM, (uintptr_t)&other, sizeof(other));
        weft_message message = plain_message(0, sizeof(value));
        assert_true(weft_comm_submit(comm, from, false, false, 1, &message, NULL, NULL));
        assert_true(weft_comm_submit(comm, to, true, true, 1, &message, NULL, NULL));
        submit_add_one(from);
        submit_add_one(to);
        weft_comm_wait(comm);
        starpu_task_wait_for_all();
        starpu_data_unregister(from);
        starpu_data_unregister(to);
        assert_int_equal(value, 2);
        assert_int_equal(weft_error_collect(), WEFT_ERR_COMM);
        assert_non_null(strstr(weft_last_error(), "transport loopback"));
        weft_clear_error();
        weft_comm_stop(comm);
    }
}

/* Two messages of one transfer, of which only one is sent, and later transfers. */
typedef struct lonely {
    int values[2], gift, later, after[2];
    starpu_data_handle_t handle, giver, later_handle, after_handle;
} lonely;

static void submit_lonely(weft_comm *comm, lonely *l)
{
    *l = (lonely){ .gift = 7 };
    starpu_variable_data_register(&l->handle, STARPU_MAIN_RAM, (uintptr_t)l->values, sizeof(l->values));
    starpu_variable_data_register(&l->giver, STARPU_MAIN_RAM, (uintptr_t)&l->gift, sizeof(l->gift));
    starpu_variable_data_register(&l->later_handle, STARPU_MAIN_RAM, (uintptr_t)&l->later, sizeof(l->later));
    starpu_variable_data_register(&l->after_handle, STARPU_MAIN_RAM, (uintptr_t)l->after, sizeof(l->after));
    weft_message messages[2] = { plain_message(0, sizeof(int)), plain_message(1, sizeof(int)) };
    messages[1].region.offset = sizeof(int);
    messages[1].source_rank = 3;
    messages[1].target_rank = 8;
    messages[1].peer = 5;
    weft_runtime.call = "weft_redistribute";
    weft_runtime.call_number = 41;
    assert_true(weft_comm_submit(comm, l->handle, true, true, 2, messages, NULL, "weights"));
    assert_true(weft_comm_submit(comm, l->giver, false, false, 1, messages, NULL, "weights"));
    weft_runtime.call = "weft_add";
    /* A send that never starts, after a task that waits for it. */
    submit_add_one(l->handle);
    weft_message more = plain_message(2, sizeof(l->values));
    assert_true(weft_comm_submit(comm, l->handle, false, false, 1, &more, NULL, NULL));
}

static void end_lonely(lonely *l)
{
    starpu_data_unregister(l->handle);
    starpu_data_unregister(l->giver);
    starpu_data_unregister(l->later_handle);
    starpu_data_unregister(l->after_handle);
}

/* A message that never comes: the engine breaks, pending transfers end, and the error stays. */
static void test_time_out_breaks(void **state)
{
    (void)state;
    lonely l;
    weft_comm *comm = start_engine_with(0.2);
    submit_lonely(comm, &l);
    weft_comm_wait(comm);
    starpu_task_wait_for_all();
    assert_true(the_loopback.abandoned);
    assert_true(weft_is_broken());
    for (int again = 0; again < 2; again++) {
        assert_int_equal(weft_error_collect(), WEFT_ERR_TIMEOUT);
        static const char *const named[] = { "weft_redistribute: call 41: ", "nothing has moved",
                                             "rank 8 waits for 4 bytes from rank 3 in process 5",
                                             "tensor weights" };
        for (size_t i = 0; i < WEFT_ARRAY_SIZE(named); i++) {
            assert_non_null(strstr(weft_last_error(), named[i]));
        }
        weft_clear_error();
    }
    /* Later transfers end at once, whether their messages would come or not. */
    weft_message later = plain_message(3, sizeof(l.later));
    assert_true(weft_comm_submit(comm, l.later_handle, true, true, 1, &later, NULL, NULL));
    assert_true(weft_comm_submit(comm, l.giver, false, false, 1, &later, NULL, NULL));
    weft_comm_wait(comm);
    assert_int_equal(l.later, 0);
    /* The transport may still write to the old memory: tasks use other memory. */
    assert_int_equal(l.values[0], 7);
    assert_int_equal(l.values[1], 0);
    assert_ptr_not_equal(starpu_variable_get_local_ptr(l.handle), l.values);
    end_lonely(&l);
    weft_comm_stop(comm);
    assert_true(the_loopback.closed);
}

/* The same because the submitting thread says so; and the next engine is whole. */
static void test_give_up(void **state)
{
    (void)state;
    lonely l;
    weft_comm *comm = start_engine();
    submit_lonely(comm, &l);
    weft_break(WEFT_ERR_MISMATCH, "weft_add", "the others call weft_mul");
    weft_break(WEFT_ERR_COMM, "weft_add", "a second error does not count");
    weft_comm_give_up(comm);
    weft_comm_wait(comm);
    starpu_task_wait_for_all();
    assert_int_equal(weft_error_collect(), WEFT_ERR_MISMATCH);
    assert_string_equal(weft_last_error(), "weft_add: the others call weft_mul");
    weft_clear_error();
    end_lonely(&l);
    weft_comm_stop(comm);
    comm = start_engine();
    assert_false(weft_is_broken());
    assert_int_equal(weft_error_collect(), WEFT_OK);
    weft_comm_stop(comm);
}

/* A panel that tasks or the program keep is no message that does not move. */
static void test_waiting_for_a_panel_is_no_time_out(void **state)
{
    (void)state;
    int value = 1;
    starpu_data_handle_t handle;
    weft_comm *comm = start_engine_with(0.1);
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(value));
    starpu_data_acquire(handle, STARPU_RW);
    weft_message message = plain_message(0, sizeof(value));
    assert_true(weft_comm_submit(comm, handle, false, false, 1, &message, NULL, NULL));
    starpu_sleep(0.4f);
    assert_false(weft_is_broken());
    starpu_data_release(handle);
    weft_comm_wait(comm);
    assert_int_equal(weft_error_collect(), WEFT_ERR_TIMEOUT);
    assert_non_null(strstr(weft_last_error(), "has not taken 4 bytes"));
    weft_clear_error();
    starpu_data_unregister(handle);
    weft_comm_stop(comm);
}

/* A transfer of many messages that takes longer than the time-out, while messages begin and end all the
 * time: on a busy machine too, for many gaps fit into the time-out. */
static void test_slow_messages_are_no_time_out(void **state)
{
    (void)state;
    enum { COUNT = 60, GAP_MS = 40, TIMEOUT_MS = 2000 };
    _Static_assert((COUNT - 1) * GAP_MS > TIMEOUT_MS, "the gaps take longer than the time-out");
    int from[COUNT], to[COUNT] = { 0 };
    starpu_data_handle_t source, target;
    weft_message messages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        from[i] = i + 1;
        messages[i] = plain_message((uint32_t)i, sizeof(int));
        messages[i].region.offset = i * (int64_t)sizeof(int);
    }
    weft_comm *comm = start_engine_with(TIMEOUT_MS * 1e-3);
    the_loopback.gap_us = GAP_MS * 1e3;
    starpu_variable_data_register(&source, STARPU_MAIN_RAM, (uintptr_t)from, sizeof(from));
    starpu_variable_data_register(&target, STARPU_MAIN_RAM, (uintptr_t)to, sizeof(to));
    assert_true(weft_comm_submit(comm, target, true, true, COUNT, messages, NULL, NULL));
    assert_true(weft_comm_submit(comm, source, false, false, COUNT, messages, NULL, NULL));
    weft_comm_wait(comm);
    assert_int_equal(weft_error_collect(), WEFT_OK);
    starpu_data_unregister(source);
    starpu_data_unregister(target);
    assert_memory_equal(from, to, sizeof(from));
    weft_comm_stop(comm);
}

/* The report of a waiting transfer: direction, ranks, bytes, name. */
static void test_pending_report(void **state)
{
    (void)state;
    int value = 0;
    starpu_data_handle_t handle;
    weft_comm *comm = start_engine();
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&value, sizeof(value));
    weft_message message = plain_message(5, sizeof(value));
    message.source_rank = 3;
    message.target_rank = 8;
    assert_true(weft_comm_submit(comm, handle, true, true, 1, &message, NULL, "lonely"));
    assert_pending_says(comm, "1 transfers pending",
                        "receive from process 0, rank 3 to rank 8, tag 5, 4 bytes, lonely");
    /* Give it what it waits for. */
    int gift = 9;
    starpu_data_handle_t giver;
    starpu_variable_data_register(&giver, STARPU_MAIN_RAM, (uintptr_t)&gift, sizeof(gift));
    assert_true(weft_comm_submit(comm, giver, false, false, 1, &message, NULL, NULL));
    weft_comm_wait(comm);
    starpu_data_unregister(handle);
    starpu_data_unregister(giver);
    assert_int_equal(value, 9);
    weft_comm_stop(comm);
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

/* Only the oldest of many messages are printed, without ended ones. */
static void test_pending_report_is_short(void **state)
{
    (void)state;
    enum { COUNT = 50, SENT = 5 };
    int values[COUNT] = { 0 }, gifts[COUNT];
    starpu_data_handle_t handle, giver, last_giver;
    weft_message messages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        gifts[i] = i;
        messages[i] = plain_message((uint32_t)i, sizeof(int));
        messages[i].region.offset = i * (int64_t)sizeof(int);
    }
    weft_comm *comm = start_engine();
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)values, sizeof(values));
    starpu_variable_data_register(&giver, STARPU_MAIN_RAM, (uintptr_t)gifts, sizeof(gifts));
    starpu_variable_data_register(&last_giver, STARPU_MAIN_RAM, (uintptr_t)gifts, sizeof(gifts));
    assert_true(weft_comm_submit(comm, handle, true, true, COUNT, messages, NULL, "many"));
    assert_true(weft_comm_submit(comm, giver, false, false, SENT, messages, NULL, NULL));
    starpu_data_unregister(giver); /* waits for the send */
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    weft_comm_print_pending(comm, file);
    fclose(file);
    assert_int_equal(count_lines(text), 1 + 20 + 1);
    assert_null(strstr(text, "tag 3,"));
    assert_non_null(strstr(text, "tag 24,"));
    assert_null(strstr(text, "tag 25,"));
    assert_non_null(strstr(text, "and 25 more messages"));
    free(text);
    assert_true(weft_comm_submit(comm, last_giver, false, false, COUNT - SENT, messages + SENT, NULL, NULL));
    weft_comm_wait(comm);
    starpu_data_unregister(last_giver);
    starpu_data_unregister(handle);
    assert_memory_equal(values, gifts, sizeof(values));
    weft_comm_stop(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers_are_edges),
        cmocka_unit_test(test_many_strided_messages),
        cmocka_unit_test(test_failures_release),
        cmocka_unit_test(test_time_out_breaks),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_waiting_for_a_panel_is_no_time_out),
        cmocka_unit_test(test_slow_messages_are_no_time_out),
        cmocka_unit_test(test_pending_report),
        cmocka_unit_test(test_pending_report_is_short),
    };
    return cmocka_run_group_tests(tests, start_starpu, stop_starpu);
}
