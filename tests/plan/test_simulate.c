/* src/simulate: times against cases calculated by hand, and against a plain list schedule on random graphs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "simulate/simulate.h"

static const double close_to = 1e-6;

/* Links of 10 us, 1 us a message, and 100 bytes/us; submission costs nothing. */
static weft_simulation new_simulation(void)
{
    return (weft_simulation){ .machine = { .near = { 2, 0.5, 1000 }, .far = { 10, 1, 100 } } };
}

enum { MAX_DATA = 8 };

/* A task that reads and writes data: "r1 w2". */
static void task(weft_simulation *s, int process, double us, int priority, const char *uses)
{
    weft_simulated_access accesses[MAX_DATA];
    size_t count = 0;
    for (const char *c = uses; *c != '\0'; c++) {
        if (*c == 'r' || *c == 'w') {
            accesses[count++] = (weft_simulated_access){ strtoull(c + 1, NULL, 10), *c == 'w' };
        }
    }
    weft_simulation_task(s, process, &(weft_simulated_task){ .us = us, .priority = priority }, count, accesses);
}

static void message(weft_simulation *s, int process, bool receive, uint64_t key, int64_t bytes, uint64_t data, bool far)
{
    weft_simulated_message one = { .key = key, .bytes = bytes, .far = far };
    weft_simulation_transfer(s, process, receive, 0, &(weft_simulated_access){ data, receive }, 1, &one);
}

static double run(weft_simulation *s)
{
    assert_true(weft_simulation_run(s));
    for (size_t i = 0; i < s->records.count; i++) {
        assert_true(weft_simulated_record_at(s, i)->ended);
    }
    return s->end_us;
}

static void expect(weft_simulation *s, double us)
{
    double found = run(s);
    if (fabs(found - us) > close_to) {
        fail_msg("%g us, expected %g", found, us);
    }
    weft_vec parts = { 0 };
    double sum = 0;
    assert_true(weft_simulation_path(s, &parts));
    for (size_t i = 0; i < parts.count; i++) {
        sum += ((weft_path_part *)parts.items)[i].us;
    }
    if (fabs(sum - us) > close_to) {
        fail_msg("the critical path has %g us, expected %g", sum, us);
    }
    weft_vec_free(&parts);
    weft_simulation_free(s);
}

/* ---- by hand --------------------------------------------------------------------------------------------- */

static void a_chain_takes_the_sum(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 4, 4);
    s.machine.task_us = 1;
    task(&s, 0, 10, 0, "w1");
    task(&s, 0, 20, 0, "r1 w2");
    task(&s, 0, 30, 0, "r2 w1");
    expect(&s, 63);
}

static void independent_tasks_take_their_sum_by_the_workers(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 5; workers++) {
        weft_simulation s = new_simulation();
        weft_simulation_add_process(&s, 0, workers, workers);
        for (int i = 0; i < 60; i++) {
            task(&s, 0, 7, 0, "");
        }
        expect(&s, 60.0 * 7 / workers);
    }
}

static void readers_run_at_once_and_a_write_waits_for_them(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 2, 2);
    task(&s, 0, 5, 0, "w1");
    task(&s, 0, 10, 0, "r1");
    task(&s, 0, 20, 0, "r1");
    task(&s, 0, 1, 0, "w1");
    expect(&s, 26);
}

static void ready_tasks_run_by_priority(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    task(&s, 0, 5, 0, "");      /* runs while the others are submitted */
    task(&s, 0, 10, 1, "w1");   /* last of these by priority */
    task(&s, 0, 10, 2, "w2");
    task(&s, 0, 10, 3, "w3");
    assert_true(weft_simulation_run(&s));
    assert_true(fabs(weft_simulated_record_at(&s, 1)->start_us - 25) < close_to);
    assert_true(fabs(weft_simulated_record_at(&s, 2)->start_us - 15) < close_to);
    assert_true(fabs(weft_simulated_record_at(&s, 3)->start_us - 5) < close_to);
    weft_simulation_free(&s);
}

static void submission_is_the_limit_of_tiny_tasks(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 2, 4);
    s.machine.submit_us = 2;
    s.machine.operand_us = 1;
    for (int i = 0; i < 10; i++) {
        task(&s, 0, 0.5, 0, "r1");
    }
    expect(&s, 30.5);
}

static void a_wait_ends_with_the_last_task(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 2, 2);
    task(&s, 0, 10, 0, "");
    task(&s, 0, 30, 0, "");
    weft_simulation_wait(&s, 0);
    weft_simulation_spend(&s, 0, 5);
    task(&s, 0, 10, 0, "");
    expect(&s, 45);
}

/* 1000 bytes: 1 + 10 us on the link, and 10 us of latency. */
static void a_message_takes_its_time_on_the_link(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    weft_simulation_add_process(&s, 1, 1, 1);
    task(&s, 0, 5, 0, "w1");
    message(&s, 0, false, 1, 1000, 1, true);
    message(&s, 1, true, 1, 1000, 1, true);
    task(&s, 1, 7, 0, "r1");
    expect(&s, 5 + 11 + 10 + 7);
}

static void a_send_waits_for_its_receive_unless_it_is_small(void **state)
{
    (void)state;
    for (int eager = 0; eager < 2; eager++) {
        weft_simulation s = new_simulation();
        s.machine.eager_bytes = eager * 1000;
        weft_simulation_add_process(&s, 0, 1, 1);
        weft_simulation_add_process(&s, 1, 1, 1);
        message(&s, 0, false, 1, 1000, 1, true);
        task(&s, 1, 100, 0, "w1"); /* the receive's memory is used until then */
        message(&s, 1, true, 1, 1000, 1, true);
        expect(&s, eager ? 100 : 121);
    }
}

static void a_task_and_a_message_overlap(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    weft_simulation_add_process(&s, 1, 1, 1);
    message(&s, 0, false, 1, 9900, 1, true);
    message(&s, 1, true, 1, 9900, 1, true);
    task(&s, 1, 50, 0, "w2");
    task(&s, 1, 10, 0, "r1 r2");
    assert_true(fabs(run(&s) - 120) < close_to);
    const weft_simulated_process *second = weft_simulated_process_at(&s, 1);
    assert_true(fabs(second->communicating - 110.0 / 120) < close_to);
    assert_true(fabs(second->computing - 60.0 / 120) < close_to);
    assert_true(fabs(second->both - 50.0 / 120) < close_to);
    weft_simulation_free(&s);
}

/* Two processes of a host send to a third: over one link one after the other. Of two hosts: they meet at the third one's. */
static void messages_of_a_link_follow_each_other(void **state)
{
    (void)state;
    for (int hosts = 1; hosts <= 2; hosts++) {
        weft_simulation s = new_simulation();
        weft_simulation_add_process(&s, 0, 1, 1);
        weft_simulation_add_process(&s, hosts - 1, 1, 1);
        weft_simulation_add_process(&s, 2, 1, 1);
        for (int i = 0; i < 2; i++) {
            message(&s, i, false, (uint64_t)i, 1000, 1, true);
            message(&s, 2, true, (uint64_t)i, 1000, 1 + (uint64_t)i, true);
        }
        expect(&s, 11 + 11 + 10);
    }
}

static void directions_and_near_links_are_apart(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    weft_simulation_add_process(&s, 0, 1, 1);
    for (int i = 0; i < 2; i++) {
        message(&s, i, false, (uint64_t)i, 1000, 1, false);
        message(&s, 1 - i, true, (uint64_t)i, 1000, 2, false);
    }
    expect(&s, 0.5 + 1 + 2);
}

static void a_link_that_others_share_is_slower(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    weft_simulation_add_process(&s, 1, 1, 1);
    weft_simulated_process_at(&s, 0)->sharing = weft_simulated_process_at(&s, 1)->sharing = 4;
    message(&s, 0, false, 1, 1000, 1, true);
    message(&s, 1, true, 1, 1000, 1, true);
    expect(&s, 1 + 40 + 10);
}

static void messages_take_time_of_busy_cores(void **state)
{
    (void)state;
    for (int cores = 1; cores <= 2; cores++) {
        weft_simulation s = new_simulation();
        s.machine.message_cpu_us = 3;
        s.machine.cpu_bytes_per_us = 500;
        weft_simulation_add_process(&s, 0, 1, cores);
        weft_simulation_add_process(&s, 1, 1, cores);
        message(&s, 0, false, 1, 1000, 1, true);
        message(&s, 1, true, 1, 1000, 1, true);
        task(&s, 1, 40, 0, "");
        task(&s, 1, 40, 0, "");
        expect(&s, cores == 1 ? 85 : 80);
    }
}

static void a_receive_without_a_send_is_counted(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    message(&s, 0, true, 1, 1000, 1, true);
    run(&s);
    assert_int_equal(s.assumed, 1);
    assert_true(fabs(s.end_us - 21) < close_to);
    weft_simulation_free(&s);
}

/* Each process sends after what it receives: nothing could begin. */
static void a_circle_ends(void **state)
{
    (void)state;
    weft_simulation s = new_simulation();
    weft_simulation_add_process(&s, 0, 1, 1);
    weft_simulation_add_process(&s, 1, 1, 1);
    for (int i = 0; i < 2; i++) {
        message(&s, i, true, (uint64_t)i, 1000, 1, true);
        message(&s, i, false, (uint64_t)(1 - i), 1000, 1, true);
    }
    run(&s);
    assert_int_equal(s.assumed, 1);
    weft_simulation_free(&s);
}

/* ---- random graphs --------------------------------------------------------------------------------------- */

enum { MAX_TASKS = 40 };

typedef struct random_task {
    double us;
    int priority, num_uses;
    weft_simulated_access uses[3];
    double submitted, start, end; /* of the plain schedule */
    bool started, ended;
} random_task;

static bool depends(const random_task *task, const random_task *former)
{
    bool found = false;
    for (int i = 0; i < task->num_uses; i++) {
        for (int k = 0; k < former->num_uses; k++) {
            found |= task->uses[i].data == former->uses[k].data && (task->uses[i].writes || former->uses[k].writes);
        }
    }
    return found;
}

static bool is_ready(const random_task tasks[], int i, double now)
{
    bool ready = tasks[i].submitted <= now && !tasks[i].started;
    for (int k = 0; k < i && ready; k++) {
        ready = tasks[k].ended || !depends(&tasks[i], &tasks[k]);
    }
    return ready;
}

/* From one moment to the next at which something ends or is submitted; priorities and times are all different. */
static double plain_schedule(random_task tasks[], int count, int workers)
{
    double now = 0, last = 0;
    int busy = 0;
    for (bool more = true; more;) {
        for (int i = 0; i < count; i++) {
            if (tasks[i].started && !tasks[i].ended && tasks[i].end <= now) {
                tasks[i].ended = true;
                busy--;
            }
        }
        for (bool found = true; found && busy < workers;) {
            int best = -1;
            for (int i = 0; i < count; i++) {
                best = is_ready(tasks, i, now) && (best < 0 || tasks[i].priority > tasks[best].priority) ? i : best;
            }
            found = best >= 0;
            if (found) {
                tasks[best].started = true;
                tasks[best].end = now + tasks[best].us;
                last = fmax(last, tasks[best].end);
                busy++;
            }
        }
        double next = INFINITY;
        for (int i = 0; i < count; i++) {
            next = tasks[i].started && !tasks[i].ended ? fmin(next, tasks[i].end) : next;
            next = tasks[i].submitted > now ? fmin(next, tasks[i].submitted) : next;
        }
        more = isfinite(next);
        now = more ? next : now;
    }
    return last;
}

static int random_tasks(prng *random, random_task tasks[], double submit_us)
{
    int count = 1 + (int)prng_below(random, MAX_TASKS);
    for (int i = 0; i < count; i++) {
        tasks[i] = (random_task){ .us = 1 + (double)prng_below(random, 1 << 20) / 4096,
                                  .priority = (int)prng_below(random, 1 << 28),
                                  .num_uses = (int)prng_below(random, 4),
                                  .submitted = submit_us * (i + 1) };
        for (int k = 0; k < tasks[i].num_uses; k++) {
            tasks[i].uses[k] = (weft_simulated_access){ (uint64_t)prng_below(random, 8), prng_below(random, 2) == 0 };
        }
    }
    return count;
}

static double simulate(const random_task tasks[], int count, int workers, double submit_us, double factor)
{
    weft_simulation s = new_simulation();
    s.machine.submit_us = submit_us;
    weft_simulation_add_process(&s, 0, workers, workers + 1);
    for (int i = 0; i < count; i++) {
        weft_simulation_task(&s, 0, &(weft_simulated_task){ .us = factor * tasks[i].us, .priority = tasks[i].priority },
                             (size_t)tasks[i].num_uses, tasks[i].uses);
    }
    double us = run(&s);
    weft_simulation_free(&s);
    return us;
}

static void random_graphs_equal_a_plain_schedule(void **state)
{
    (void)state;
    prng random = prng_start(1);
    for (int i = 0; i < 3000; i++) {
        random_task tasks[MAX_TASKS];
        const double submit_us = 0.37;
        int count = random_tasks(&random, tasks, submit_us), workers = 1 + (int)prng_below(&random, 4);
        double found = simulate(tasks, count, workers, submit_us, 1);
        double expected = plain_schedule(tasks, count, workers);
        if (fabs(found - expected) > close_to) {
            fail_msg("graph %d of %d tasks on %d workers: %g us, expected %g", i, count, workers, found, expected);
        }
    }
}

/* All times twice as long: the whole twice as long. (Single slower tasks may shorten a list schedule.) */
static void time_is_proportional(void **state)
{
    (void)state;
    prng random = prng_start(2);
    for (int i = 0; i < 500; i++) {
        random_task tasks[MAX_TASKS];
        int count = random_tasks(&random, tasks, 0), workers = 1 + (int)prng_below(&random, 4);
        double once = simulate(tasks, count, workers, 0.25, 1), twice = simulate(tasks, count, workers, 0.5, 2);
        assert_true(fabs(twice - 2 * once) < close_to);
    }
}

static double random_messages(uint64_t seed, double rate)
{
    prng random = { seed };
    weft_simulation s = new_simulation();
    s.machine.far.bytes_per_us = rate;
    enum { PROCESSES = 3, MESSAGES = 30 };
    for (int p = 0; p < PROCESSES; p++) {
        weft_simulation_add_process(&s, p, 1, 1);
    }
    for (int i = 0; i < MESSAGES; i++) {
        int from = (int)prng_below(&random, PROCESSES), to = (from + 1 + (int)prng_below(&random, PROCESSES - 1)) % PROCESSES;
        int64_t bytes = 1 + prng_below(&random, 100000);
        task(&s, from, 1 + (double)prng_below(&random, 100), 0, "w1");
        message(&s, from, false, (uint64_t)i, bytes, 1, true);
        message(&s, to, true, (uint64_t)i, bytes, (uint64_t)(2 + i), true);
    }
    double us = run(&s);
    assert_int_equal(s.assumed, 0);
    weft_simulation_free(&s);
    return us;
}

static void faster_links_are_not_slower(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        double slow = random_messages(seed, 50), fast = random_messages(seed, 500), faster = random_messages(seed, 1e6);
        assert_true(faster <= slow + close_to);
        assert_true(fast <= slow + close_to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_takes_the_sum),
        cmocka_unit_test(independent_tasks_take_their_sum_by_the_workers),
        cmocka_unit_test(readers_run_at_once_and_a_write_waits_for_them),
        cmocka_unit_test(ready_tasks_run_by_priority),
        cmocka_unit_test(submission_is_the_limit_of_tiny_tasks),
        cmocka_unit_test(a_wait_ends_with_the_last_task),
        cmocka_unit_test(a_message_takes_its_time_on_the_link),
        cmocka_unit_test(a_send_waits_for_its_receive_unless_it_is_small),
        cmocka_unit_test(a_task_and_a_message_overlap),
        cmocka_unit_test(messages_of_a_link_follow_each_other),
        cmocka_unit_test(directions_and_near_links_are_apart),
        cmocka_unit_test(a_link_that_others_share_is_slower),
        cmocka_unit_test(messages_take_time_of_busy_cores),
        cmocka_unit_test(a_receive_without_a_send_is_counted),
        cmocka_unit_test(a_circle_ends),
        cmocka_unit_test(random_graphs_equal_a_plain_schedule),
        cmocka_unit_test(time_is_proportional),
        cmocka_unit_test(faster_links_are_not_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
