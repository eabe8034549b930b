/* The events of a simulation. */
#include "simulate/simulate.h"

#include "base/heap.h"

#include <stdlib.h>

static bool event_is_first(const void *context, const void *a, const void *b)
{
    const weft_event *one = a, *other = b;
    (void)context;
    return one->us != other->us ? one->us < other->us : one->order < other->order;
}

/* As sched/policy.c: by priority, then by arrival. */
typedef struct ready_task {
    int priority;
    uint32_t record;
    uint64_t arrival;
} ready_task;

static bool task_is_first(const void *context, const void *a, const void *b)
{
    const ready_task *one = a, *other = b;
    (void)context;
    return one->priority != other->priority ? one->priority > other->priority : one->arrival < other->arrival;
}

void weft_simulation_at(weft_simulation *simulation, double us, weft_event_kind kind, uint32_t number)
{
    weft_running *running = simulation->running;
    weft_event event = { us, running->order++, kind, number };
    running->failed |= !weft_heap_push(&running->events, sizeof(event), &event, event_is_first, NULL);
}

/* ---- workers --------------------------------------------------------------------------------------------- */

/* Where fewer threads compute than there are cores, another one delays nothing. */
void weft_process_owe(weft_simulated_process *process, double us)
{
    if (process->busy >= process->cores) {
        process->debt_us += us;
    }
}

static void start_task(weft_simulation *simulation, weft_simulated_process *process, int worker, uint32_t number)
{
    weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    record->start_us = simulation->running->now_us;
    record->begun = true;
    record->worker = worker;
    record->cause = simulation->running->cause;
    process->worker_records[worker] = (int32_t)number;
    process->busy++;
    double us = simulation->machine.task_us + record->us + process->debt_us;
    process->debt_us = 0;
    weft_simulation_at(simulation, record->start_us + us, WEFT_EVENT_TASK_END, number);
}

static int idle_worker(const weft_simulated_process *process)
{
    for (int i = 0; i < process->workers && process->busy < process->workers; i++) {
        if (process->worker_records[i] < 0) {
            return i;
        }
    }
    return -1;
}

static void start_tasks(weft_simulation *simulation, weft_simulated_process *process)
{
    int worker;
    while (process->ready.count > 0 && (worker = idle_worker(process)) >= 0) {
        ready_task task;
        weft_heap_pop(&process->ready, sizeof(task), &task, task_is_first, NULL);
        start_task(simulation, process, worker, task.record);
    }
}

/* ---- records --------------------------------------------------------------------------------------------- */

/* Submitted, and all that it depends on has ended. */
static void make_ready(weft_simulation *simulation, uint32_t number)
{
    weft_running *running = simulation->running;
    weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    weft_simulated_process *process = weft_simulated_process_at(simulation, record->process);
    if (record->kind == WEFT_SIMULATED_TASK) {
        ready_task task = { record->priority, number, running->order++ };
        running->failed |= !weft_heap_push(&process->ready, sizeof(task), &task, task_is_first, NULL);
        return;
    }
    record->cause = running->cause;
    weft_simulation_at(simulation, running->now_us + simulation->machine.transfer_us, WEFT_EVENT_BEGIN, number);
}

static void begin_transfer(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    record->begun = true;
    record->start_us = simulation->running->now_us;
    simulation->running->cause = record->cause;
    weft_transfer_begin_simulated(simulation, number);
}

/* The next record of the submitting thread, if it waits for nothing. */
static void continue_submission(weft_simulation *simulation, weft_simulated_process *process)
{
    if (process->next == process->records.count) {
        return;
    }
    const weft_simulated_machine *machine = &simulation->machine;
    uint32_t number = ((const uint32_t *)process->records.items)[process->next];
    const weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    double us = record->kind == WEFT_SIMULATED_WAIT    ? 0
                : record->kind == WEFT_SIMULATED_SPEND ? record->us
                                                       : machine->submit_us + record->accesses * machine->operand_us;
    process->waiting = record->kind == WEFT_SIMULATED_WAIT && process->unfinished > 0;
    if (!process->waiting) {
        weft_process_owe(process, us);
        weft_simulation_at(simulation, simulation->running->now_us + us, WEFT_EVENT_SUBMIT, number);
    }
}

/* The submitting thread is done with a record. */
static void submit(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    weft_simulated_process *process = weft_simulated_process_at(simulation, record->process);
    record->submitted = true;
    record->submitted_us = simulation->running->now_us;
    process->next++;
    if (record->kind == WEFT_SIMULATED_WAIT || record->kind == WEFT_SIMULATED_SPEND) {
        record->begun = record->ended = true;
        record->start_us = record->end_us = simulation->running->now_us;
        record->cause = process->wait_cause;
    } else {
        process->unfinished++;
        if (record->waits == 0) {
            make_ready(simulation, number);
        }
        start_tasks(simulation, process);
    }
    continue_submission(simulation, process);
}

void weft_record_end(weft_simulation *simulation, uint32_t number)
{
    weft_running *running = simulation->running;
    weft_simulated_record *record = weft_simulated_record_at(simulation, number);
    weft_simulated_process *process = weft_simulated_process_at(simulation, record->process);
    record->ended = true;
    record->end_us = running->now_us;
    running->cause = (int32_t)number;
    process->unfinished--;
    if (record->worker >= 0) {
        process->worker_records[record->worker] = -1;
        process->busy--;
    }
    for (uint32_t i = running->first_edge[number]; i < running->first_edge[number + 1]; i++) {
        weft_simulated_record *next = weft_simulated_record_at(simulation, running->edges[i]);
        if (--next->waits == 0 && next->submitted) {
            make_ready(simulation, running->edges[i]);
        }
    }
    start_tasks(simulation, process);
    if (process->waiting && process->unfinished == 0) {
        process->wait_cause = (int32_t)number;
        continue_submission(simulation, process);
    }
}

/* ---- all ------------------------------------------------------------------------------------------------- */

static void handle(weft_simulation *simulation, const weft_event *event)
{
    simulation->running->now_us = event->us;
    simulation->running->cause = WEFT_CAUSE_NONE;
    switch (event->kind) {
    case WEFT_EVENT_SUBMIT:
        submit(simulation, event->number);
        break;
    case WEFT_EVENT_TASK_END:
        weft_record_end(simulation, event->number);
        break;
    case WEFT_EVENT_BEGIN:
        begin_transfer(simulation, event->number);
        break;
    case WEFT_EVENT_SENT:
        weft_message_sent(simulation, event->number);
        break;
    case WEFT_EVENT_RECEIVED:
        weft_message_received(simulation, event->number);
        break;
    }
}

/* Successors by record. False: no memory. */
static bool sort_edges(weft_simulation *simulation, weft_running *running)
{
    size_t count = simulation->edges.count, records = simulation->records.count;
    const uint32_t(*pairs)[2] = simulation->edges.items;
    running->first_edge = calloc(records + 2, sizeof(uint32_t));
    running->edges = malloc((count + 1) * sizeof(uint32_t));
    if (running->first_edge == NULL || running->edges == NULL) {
        return false;
    }
    uint32_t *first = running->first_edge + 1; /* one ahead: the end of a record's edges while they are entered */
    for (size_t i = 0; i < count; i++) {
        first[pairs[i][0] + 1]++;
    }
    for (size_t i = 0; i < records; i++) {
        first[i + 1] += first[i];
    }
    for (size_t i = 0; i < count; i++) {
        running->edges[first[pairs[i][0]]++] = pairs[i][1];
    }
    return true;
}

static bool prepare(weft_simulation *simulation, weft_running *running)
{
    for (size_t i = 0; i < simulation->processes.count; i++) {
        weft_simulated_process *process = weft_simulated_process_at(simulation, i);
        size_t hosts = (size_t)process->host + 1;
        running->num_hosts = hosts > running->num_hosts ? hosts : running->num_hosts;
        process->wait_cause = WEFT_CAUSE_NONE;
        for (int k = 0; k < process->workers; k++) {
            process->worker_records[k] = -1;
        }
    }
    running->lanes = calloc(2 * (running->num_hosts + simulation->processes.count) + 1, sizeof(*running->lanes));
    return running->lanes != NULL && sort_edges(simulation, running) && weft_messages_match(simulation);
}

static void run_events(weft_simulation *simulation)
{
    weft_running *running = simulation->running;
    for (size_t i = 0; i < simulation->processes.count; i++) {
        continue_submission(simulation, weft_simulated_process_at(simulation, i));
    }
    do {
        while (running->events.count > 0 && !running->failed) {
            weft_event event;
            weft_heap_pop(&running->events, sizeof(event), &event, event_is_first, NULL);
            handle(simulation, &event);
        }
    } while (!running->failed && weft_messages_assume(simulation));
    simulation->end_us = running->now_us;
}

static void forget(const weft_simulation *simulation, weft_running *running)
{
    for (size_t i = 0; running->lanes != NULL && i < 2 * (running->num_hosts + simulation->processes.count); i++) {
        weft_vec_free(&running->lanes[i].waiting);
    }
    free(running->lanes);
    free(running->edges);
    free(running->first_edge);
    weft_vec_free(&running->events);
}

bool weft_simulation_run(weft_simulation *simulation)
{
    weft_running running = { .cause = WEFT_CAUSE_NONE };
    bool done = !simulation->failed;
    simulation->running = &running;
    done = done && prepare(simulation, &running);
    if (done) {
        run_events(simulation);
        done = !running.failed && weft_simulation_shares(simulation);
    }
    forget(simulation, &running);
    simulation->running = NULL;
    return done;
}
