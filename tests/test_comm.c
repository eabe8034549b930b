/* The communication engine over a transport of the test's own, in one process: messages to itself, matched by
 * tag, that end late and out of order. Also what ThreadSanitizer looks at: no MPI, all threads of the engine
 * and of StarPU. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "comm/pack.h"
#include "comm/sends.h"
#include "runtime/pending.h"

/* ---- a transport to oneself ---------------------------------------------------------------------------- */

enum { MAX_POSTED = 4096 };

typedef struct posted {
    bool used, receive;
    weft_message message;
    char *memory;
    void *token;
    int delay; /* polls until it may end */
} posted;

typedef struct loopback {
    posted all[MAX_POSTED];
    prng random;
    bool closed, abandoned;
    int fail_start, fail_end; /* the messages with these tags fail; -1: none */
    double gap_us;            /* between the ends of two messages, at least */
    double last_end_us;
} loopback;

/* Packs a region into contiguous bytes, or the reverse. */
static void move_region(const weft_region *region, char *memory, char *packed, bool unpack)
{
    int64_t runs = weft_region_bytes(region) / (region->run_bytes > 0 ? region->run_bytes : 1);
    for (int64_t i = 0; i < runs; i++) {
        int64_t rest = i, place = region->offset;
        for (int d = region->ndim - 1; d >= 0; d--) {
            place += rest % region->count[d] * region->stride[d];
            rest /= region->count[d];
        }
        char *run = memory + place;
        memcpy(unpack ? run : packed, unpack ? packed : run, (size_t)region->run_bytes);
        packed += region->run_bytes;
    }
}

static weft_status loopback_start(void *state, const weft_message *message, bool receive, void *memory,
                                  void *token)
{
    loopback *self = state;
    if (self->fail_start >= 0 && message->tag == (uint32_t)self->fail_start) {
        return WEFT_ERR_COMM;
    }
    for (int i = 0; i < MAX_POSTED; i++) {
        if (!self->all[i].used) {
            self->all[i] =
                (posted){ true, receive, *message, memory, token, (int)prng_below(&self->random, 4) };
            return WEFT_OK;
        }
    }
    return WEFT_ERR_NOMEM;
}

static posted *partner(loopback *self, const posted *p)
{
    for (int i = 0; i < MAX_POSTED; i++) {
        posted *q = &self->all[i];
        if (q->used && q->receive != p->receive && q->message.tag == p->message.tag) {
            return q;
        }
    }
    return NULL;
}

static int loopback_poll(void *state, weft_finished finished[], int max)
{
    loopback *self = state;
    int count = 0;
    if (self->gap_us > 0) {
        max = starpu_timing_now() - self->last_end_us < self->gap_us ? 0 : 2;
    }
    for (int i = 0; i < MAX_POSTED && count + 2 <= max; i++) {
        posted *send = &self->all[i];
        if (!send->used || send->receive || send->delay-- > 0) {
            continue;
        }
        posted *receive = partner(self, send);
        if (receive == NULL) {
            continue;
        }
        char *packed = malloc((size_t)send->message.bytes + 1);
        move_region(&send->message.region, send->memory, packed, false);
        move_region(&receive->message.region, receive->memory, packed, true);
        free(packed);
        bool fails = self->fail_end >= 0 && send->message.tag == (uint32_t)self->fail_end;
        finished[count++] = (weft_finished){ receive->token, fails ? WEFT_ERR_COMM : WEFT_OK };
        finished[count++] = (weft_finished){ send->token, WEFT_OK };
        send->used = receive->used = false;
        self->last_end_us = starpu_timing_now();
    }
    return count;
}

static void loopback_abandon(void *state)
{
    loopback *self = state;
    self->abandoned = true;
    for (int i = 0; i < MAX_POSTED; i++) {
        self->all[i].used = false;
    }
}

static void loopback_close(void *state)
{
    ((loopback *)state)->closed = true;
}

static loopback the_loopback;

static weft_comm *start_engine_with(double timeout_s)
{
    memset(&the_loopback, 0, sizeof(the_loopback));
    the_loopback.fail_start = the_loopback.fail_end = -1;
    the_loopback.random.state = 7;
    weft_transport transport = {
        .name = "loopback",
        .state = &the_loopback,
        .place = { 0, 1, 0, 1 },
        .start = loopback_start,
        .poll = loopback_poll,
        .abandon = loopback_abandon,
        .close = loopback_close,
    };
    weft_comm *comm = weft_comm_start("test", transport, timeout_s);
    assert_non_null(comm);
    return comm;
}

static weft_comm *start_engine(void)
{
    return start_engine_with(0);
}

/* ---- StarPU around it ---------------------------------------------------------------------------------- */

static int start_starpu(void **state)
{
    (void)state;
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 3;
    conf.ncuda = 0;
    conf.nopencl = 0;
    weft_runtime.pending = weft_pending_new(0);
    return weft_runtime.pending == NULL ? -1 : starpu_init(&conf);
}

static int stop_starpu(void **state)
{
    (void)state;
    starpu_shutdown();
    weft_pending_delete(weft_runtime.pending);
    return 0;
}

static void add_one(void *buffers[], void *argument)
{
    (void)argument;
    int *values = (int *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    size_t count = STARPU_VARIABLE_GET_ELEMSIZE(buffers[0]) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        values[i]++;
    }
}

static struct starpu_codelet add_one_codelet = { .cpu_funcs = { add_one },
                                                 .nbuffers = 1,
                                                 .modes = { STARPU_RW } };

static void submit_add_one(starpu_data_handle_t handle)
{
    assert_int_equal(starpu_task_insert(&add_one_codelet, STARPU_RW, handle, 0), 0);
}

static weft_message plain_message(uint32_t tag, int64_t bytes)
{
    return (weft_message){ .peer = 0, .tag = tag, .region = { .run_bytes = bytes }, .bytes = bytes };
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* A chain of tasks and messages: each message must carry what the tasks before it made, and no task may start
 * early. */
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

/* Two messages of one transfer, of which only one is sent, and what comes after them. */
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
    /* A send of what never comes, behind a task that waits for it. */
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

/* A message that never comes: the engine breaks, what is pending ends, and the error stays. */
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
    /* What comes later ends at once, whether its message would come or not. */
    weft_message later = plain_message(3, sizeof(l.later));
    assert_true(weft_comm_submit(comm, l.later_handle, true, true, 1, &later, NULL, NULL));
    assert_true(weft_comm_submit(comm, l.giver, false, false, 1, &later, NULL, NULL));
    weft_comm_wait(comm);
    assert_int_equal(l.later, 0);
    /* The transport may still write to what was under way: tasks have gone on in other memory. */
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

/* A transfer of many messages that takes longer than the time-out, while messages begin and end all the time.
 */
static void test_slow_messages_are_no_time_out(void **state)
{
    (void)state;
    enum { COUNT = 20, GAP_MS = 50 };
    int from[COUNT], to[COUNT] = { 0 };
    starpu_data_handle_t source, target;
    weft_message messages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        from[i] = i + 1;
        messages[i] = plain_message((uint32_t)i, sizeof(int));
        messages[i].region.offset = i * (int64_t)sizeof(int);
    }
    weft_comm *comm = start_engine_with(COUNT * GAP_MS * 1e-3 / 2);
    the_loopback.gap_us = GAP_MS * 1e3;
    starpu_variable_data_register(&source, STARPU_MAIN_RAM, (uintptr_t)from, sizeof(from));
    starpu_variable_data_register(&target, STARPU_MAIN_RAM, (uintptr_t)to, sizeof(to));
    double begin_us = starpu_timing_now();
    assert_true(weft_comm_submit(comm, target, true, true, COUNT, messages, NULL, NULL));
    assert_true(weft_comm_submit(comm, source, false, false, COUNT, messages, NULL, NULL));
    weft_comm_wait(comm);
    assert_true((starpu_timing_now() - begin_us) * 1e-6 > weft_comm_timeout_s(comm));
    assert_int_equal(weft_error_collect(), WEFT_OK);
    starpu_data_unregister(source);
    starpu_data_unregister(target);
    assert_memory_equal(from, to, sizeof(from));
    weft_comm_stop(comm);
}

/* What is printed about a transfer that waits: direction, ranks, bytes, its name. */
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
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    weft_comm_print_pending(comm, file);
    fclose(file);
    assert_non_null(strstr(text, "1 transfers pending"));
    assert_non_null(strstr(text, "receive from process 0, rank 3 to rank 8, tag 5, 4 bytes, lonely"));
    free(text);
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

/* Of many messages the oldest are printed, and of these not those that have ended. */
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

/* A message that could not be queued starts at once, and its end is told all the same. */
static void test_sends_end_without_a_queue(void **state)
{
    (void)state;
    weft_sends *sends = weft_sends_new(0, 3, 100);
    assert_non_null(sends);
    weft_sends_ended(sends, 1, 7, 8);
    weft_send send = { .peer = 2, .tag = 5, .bytes = 8 }, next;
    assert_true(weft_sends_add(sends, &send));
    weft_sends_ended(sends, 2, 4, 8);
    assert_true(weft_sends_next(sends, &next));
    assert_int_equal(next.tag, 5);
    weft_sends_ended(sends, 2, 5, 8);
    assert_false(weft_sends_next(sends, &next));
    weft_sends_free(sends);
}

/* Regions of boxes against a plain walk over their elements. */
static void test_regions(void **state)
{
    (void)state;
    prng random = prng_start(11);
    for (int i = 0; i < 2000; i++) {
        int64_t shape[4], offset[4], extent[4], stride[4], begin = 0;
        int ndim = (int)prng_below(&random, 5);
        int64_t step = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            shape[d] = 1 + prng_below(&random, 5);
            extent[d] = 1 + prng_below(&random, shape[d]);
            offset[d] = prng_below(&random, shape[d] - extent[d] + 1);
            stride[d] = step;
            begin += offset[d] * step;
            step *= shape[d];
        }
        uint16_t dense[625], expected[625], packed[625];
        for (int e = 0; e < 625; e++) {
            dense[e] = (uint16_t)prng_next(&random);
        }
        weft_region region = weft_region_of_box(ndim, extent, stride, sizeof(uint16_t), begin * 2);
        int64_t count = shape_count(ndim, extent);
        assert_int_equal(weft_region_bytes(&region), count * 2);
        copy_box_out(ndim, shape, sizeof(uint16_t), dense, offset, extent, expected);
        move_region(&region, (char *)dense, (char *)packed, false);
        assert_memory_equal(expected, packed, (size_t)count * 2);
        memset(packed, 0, sizeof(packed));
        weft_region_read(&region, dense, packed);
        assert_memory_equal(expected, packed, (size_t)count * 2);
        uint16_t other[625] = { 0 }, wanted[625] = { 0 };
        move_region(&region, (char *)wanted, (char *)packed, true);
        weft_region_write(&region, other, packed);
        assert_memory_equal(wanted, other, sizeof(other));
    }
}

/* ---- packs --------------------------------------------------------------------------------------------- */

enum { PACKED = 3000, PACKED_PEERS = 3, PACKED_ROWS = 24, PACKED_COLUMNS = 8 };

/* A block of columns of a small matrix, as its tag and peer say; the receiving side has it in one run. */
static weft_message packed_message(int i, bool receive)
{
    int64_t extent[] = { 1 + i % PACKED_ROWS, 1 + i % 7 }, stride[] = { PACKED_COLUMNS, 1 };
    weft_message message = { .peer = i % PACKED_PEERS, .tag = 0xfffffff0u + (uint32_t)i / 2 };
    message.source_rank = i / PACKED_PEERS % 5;
    message.target_rank = i % 2; /* pairs have one tag: what else is in the header tells them apart */
    message.region = weft_region_of_box(2, extent, stride, sizeof(uint16_t), i % 2 * 2);
    message.bytes = weft_region_bytes(&message.region);
    if (receive) {
        message.region = (weft_region){ .offset = 4, .run_bytes = message.bytes };
    }
    return message;
}

typedef struct packed_pair {
    weft_message send, receive;
    uint16_t from[PACKED_ROWS * PACKED_COLUMNS], to[PACKED_ROWS * PACKED_COLUMNS + 2];
    int ended;
} packed_pair;

static packed_pair packed_pairs[PACKED];

static void count_ended(weft_vec *finished)
{
    const weft_finished *all = finished->items;
    for (size_t i = 0; i < finished->count; i++) {
        assert_int_equal(all[i].status, WEFT_OK);
        ((packed_pair *)all[i].token)->ended++;
    }
    finished->count = 0;
}

/* Packs of many peers, some before their receives are started and some after: each message reaches its own
 * place, once. */
static void test_packs(void **state)
{
    (void)state;
    prng random = prng_start(5);
    weft_inbox *inbox = weft_inbox_new();
    assert_non_null(inbox);
    weft_vec finished = { 0 };
    static weft_pack packs[PACKED_PEERS];
    int order[PACKED];
    for (int i = 0; i < PACKED; i++) {
        packed_pair *pair = &packed_pairs[i];
        pair->send = packed_message(i, false);
        pair->receive = packed_message(i, true);
        for (size_t k = 0; k < WEFT_ARRAY_SIZE(pair->from); k++) {
            pair->from[k] = (uint16_t)prng_next(&random);
        }
        order[i] = i;
    }
    for (int i = PACKED - 1; i > 0; i--) {
        int other = (int)prng_below(&random, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int sent_packs = 0;
    for (int i = 0; i < PACKED; i++) {
        /* Sent in the order of the tags; received in another. */
        const weft_message *send = &packed_pairs[i].send;
        weft_pack *pack = &packs[send->peer];
        if (!weft_pack_put(pack, send, packed_pairs[i].from)) {
            assert_int_equal(weft_inbox_take(inbox, send->peer, pack->bytes, pack->used, &finished), WEFT_OK);
            *pack = (weft_pack){ 0 };
            sent_packs++;
            assert_true(weft_pack_put(pack, send, packed_pairs[i].from));
        }
        packed_pair *wanted = &packed_pairs[order[i]];
        bool came = false;
        assert_int_equal(weft_inbox_expect(inbox, &wanted->receive, wanted->to, wanted, &came), WEFT_OK);
        wanted->ended += came;
        count_ended(&finished);
    }
    assert_true(sent_packs > PACKED_PEERS);
    for (int peer = 0; peer < PACKED_PEERS; peer++) {
        assert_int_equal(weft_inbox_take(inbox, peer, packs[peer].bytes, packs[peer].used, &finished),
                         WEFT_OK);
    }
    count_ended(&finished);
    for (int i = 0; i < PACKED; i++) {
        packed_pair *pair = &packed_pairs[i];
        char expected[sizeof(pair->from)];
        assert_int_equal(pair->ended, 1);
        move_region(&pair->send.region, (char *)pair->from, expected, false);
        assert_memory_equal((char *)pair->to + 4, expected, (size_t)pair->send.bytes);
    }
    weft_vec_free(&finished);
    weft_inbox_free(inbox);
}

/* Another size, other ranks, another peer: no match, and the memory stays as it was. */
static void test_packs_that_differ(void **state)
{
    (void)state;
    weft_inbox *inbox = weft_inbox_new();
    weft_vec finished = { 0 };
    static weft_pack pack;
    int from[4] = { 1, 2, 3, 4 }, to[4] = { 0 };
    weft_message sent = plain_message(7, 8), wanted[4] = { sent, sent, sent, sent };
    wanted[0].bytes = wanted[0].region.run_bytes = 16;
    wanted[1].target_rank = 1;
    wanted[2].peer = 1;
    wanted[3].tag = 8;
    bool came = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_inbox_expect(inbox, &wanted[i], to, NULL, &came), WEFT_OK);
        assert_false(came);
    }
    pack = (weft_pack){ 0 };
    assert_true(weft_pack_put(&pack, &sent, from));
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, pack.used, &finished), WEFT_OK);
    assert_int_equal(finished.count, 0);
    assert_int_equal(to[0], 0);
    /* What is no pack is not read beyond its end. */
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, pack.used - 1, &finished), WEFT_ERR_COMM);
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, 3, &finished), WEFT_ERR_COMM);
    assert_int_equal(weft_inbox_expect(inbox, &sent, to, NULL, &came), WEFT_OK);
    assert_true(came);
    assert_memory_equal(to, from, 8);
    weft_vec_free(&finished);
    weft_inbox_free(inbox); /* with what nobody has asked for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_packs),
        cmocka_unit_test(test_packs_that_differ),
        cmocka_unit_test(test_transfers_are_edges),
        cmocka_unit_test(test_many_strided_messages),
        cmocka_unit_test(test_failures_release),
        cmocka_unit_test(test_time_out_breaks),
        cmocka_unit_test(test_give_up),
        cmocka_unit_test(test_waiting_for_a_panel_is_no_time_out),
        cmocka_unit_test(test_slow_messages_are_no_time_out),
        cmocka_unit_test(test_pending_report),
        cmocka_unit_test(test_pending_report_is_short),
        cmocka_unit_test(test_sends_end_without_a_queue),
    };
    return cmocka_run_group_tests(tests, start_starpu, stop_starpu);
}
