/* From recordings to a simulation. Messages between processes that are all simulated have the same exchange, processes and
 * tag on both sides. A process stands for its class: its receives in an exchange are matched with the sends of the
 * sender's class, in their order, or with its own. */
#include <stdlib.h>
#include <string.h>

#include "predict/predict.h"

/* The sends of one exchange in a recording: a range of `sends`. */
typedef struct assembling {
    const weft_predicted_world *world;
    const weft_process_classes *classes;
    const weft_recording *recordings;
    weft_simulation *simulation;
    weft_map *sends; /* by class: exchange -> its number of sends */
    bool all;        /* every process is simulated */
    int run;
} assembling;

static uint64_t key_of(const assembling *a, uint64_t one, uint64_t other, uint64_t exchange, uint64_t number)
{
    uint64_t key = weft_digest_add((uint64_t)a->run + 1, one);
    return weft_digest_add(weft_digest_add(weft_digest_add(key, other), exchange), number);
}

static uint64_t count_of(const weft_map *counts, uint64_t exchange)
{
    weft_map_slot *slot = weft_map_first(counts, weft_hash_u64(exchange + 1));
    return slot == NULL ? 0 : (uint64_t)(uintptr_t)slot->value;
}

static void count_one(weft_map *counts, uint64_t exchange, weft_simulation *simulation)
{
    uint64_t hash = weft_hash_u64(exchange + 1);
    weft_map_slot *slot = weft_map_first(counts, hash);
    if (slot != NULL) {
        slot->value = (void *)((uintptr_t)slot->value + 1);
    } else {
        simulation->failed |= !weft_map_add(counts, hash, (void *)(uintptr_t)1);
    }
}

/* Numbers of messages of each exchange in one direction. */
static void count_messages(const weft_recording *recording, weft_simulated_kind kind, weft_map *counts,
                           weft_simulation *simulation)
{
    const weft_recorded *records = recording->records.items;
    const weft_recorded_message *messages = recording->messages.items;
    for (size_t i = 0; i < recording->records.count; i++) {
        for (uint32_t k = 0; k < records[i].num_messages && records[i].kind == kind; k++) {
            count_one(counts, messages[records[i].first_message + k].exchange, simulation);
        }
    }
}

/* One process while its records are added. */
typedef struct adding {
    assembling *a;
    int class;
    const weft_recording *recording;
    weft_map receives;             /* exchange -> number of receives in all */
    weft_map sent, received;       /* exchange -> number up to now */
    weft_vec messages;             /* of one transfer */
} adding;

static uint64_t key_in_class(adding *d, const weft_recorded_message *message, bool receive)
{
    const assembling *a = d->a;
    uint64_t exchange = message->exchange;
    weft_map *counts = receive ? &d->received : &d->sent;
    uint64_t number = count_of(counts, exchange);
    count_one(counts, exchange, a->simulation);
    if (!receive) {
        return key_of(a, (uint64_t)d->class, 0, exchange, number);
    }
    int from = a->classes->class_of[message->peer];
    uint64_t sends = count_of(&a->sends[from], exchange), receives = count_of(&d->receives, exchange);
    if (sends == 0) {
        from = d->class;
        sends = count_of(&a->sends[from], exchange);
    }
    return key_of(a, (uint64_t)from, sends == 0, exchange, sends == 0 ? number : number * sends / receives);
}

static uint64_t key_between(const assembling *a, int process, const weft_recorded_message *message, bool receive)
{
    uint64_t source = (uint64_t)(receive ? message->peer : process), target = (uint64_t)(receive ? process : message->peer);
    return key_of(a, source, target, message->exchange, message->tag);
}

static void add_transfer(adding *d, const weft_recorded *record)
{
    assembling *a = d->a;
    bool receive = record->kind == WEFT_SIMULATED_RECEIVE;
    const weft_recording *recording = d->recording;
    int host = weft_host_of(a->world, recording->process);
    d->messages.count = 0;
    for (uint32_t i = 0; i < record->num_messages; i++) {
        const weft_recorded_message *message =
            (const weft_recorded_message *)recording->messages.items + record->first_message + i;
        weft_simulated_message *added = weft_vec_push(&d->messages, sizeof(*added));
        if (added == NULL) {
            a->simulation->failed = true;
            return;
        }
        added->key = a->all ? key_between(a, recording->process, message, receive) : key_in_class(d, message, receive);
        added->bytes = message->bytes;
        added->peer = message->peer;
        added->far = weft_host_of(a->world, message->peer) != host;
    }
    weft_simulation_transfer(a->simulation, d->class, receive, record->label,
                             (const weft_simulated_access *)recording->accesses.items + record->first_access,
                             d->messages.count, d->messages.items);
}

static void add_run(adding *d, const weft_kernel_costs *costs)
{
    const weft_recorded *records = d->recording->records.items;
    weft_simulation *simulation = d->a->simulation;
    weft_map_free(&d->sent);
    weft_map_free(&d->received);
    d->sent = d->received = (weft_map){ 0 };
    size_t count = d->recording->records.count;
    double sharing = d->a->world->sharing, each_us = count == 0 ? 0 : sharing * d->recording->call_us / (double)count;
    enum { TOGETHER = 16 }; /* the submitting thread's own time, in parts */
    for (size_t i = 0; i < count; i++) {
        if (i % TOGETHER == 0) {
            weft_simulation_spend(simulation, d->class, each_us * (double)(count - i < TOGETHER ? count - i : TOGETHER));
        }
        switch (records[i].kind) {
        case WEFT_SIMULATED_TASK: {
            const weft_simulated_task task = { .us = sharing * weft_kernel_cost_us(costs, records[i].cost),
                                               .priority = records[i].priority,
                                               .label = records[i].label,
                                               .family = records[i].family };
            weft_simulation_task(simulation, d->class, &task, records[i].num_accesses,
                                 (const weft_simulated_access *)d->recording->accesses.items + records[i].first_access);
            break;
        }
        case WEFT_SIMULATED_WAIT:
            weft_simulation_wait(simulation, d->class);
            break;
        default:
            add_transfer(d, &records[i]);
        }
    }
}

static void add_process(assembling *a, int class, const weft_kernel_costs *costs)
{
    const weft_predicted_world *world = a->world;
    const weft_recording *recording = &a->recordings[class];
    int host = a->all ? weft_host_of(world, recording->process) : class;
    int process = weft_simulation_add_process(a->simulation, host, world->workers, world->cores);
    if (a->simulation->failed) {
        return;
    }
    if (!a->all) {
        weft_simulated_process_at(a->simulation, (size_t)process)->sharing = (double)world->processes / world->hosts;
    }
    adding d = { .a = a, .class = class, .recording = recording };
    count_messages(recording, WEFT_SIMULATED_RECEIVE, &d.receives, a->simulation);
    for (a->run = 0; a->run < world->runs && !a->simulation->failed; a->run++) {
        add_run(&d, costs);
    }
    weft_map_free(&d.receives);
    weft_map_free(&d.sent);
    weft_map_free(&d.received);
    weft_vec_free(&d.messages);
}

void weft_predict_assemble(const weft_predicted_world *world, const weft_process_classes *classes,
                           const weft_recording recordings[], const weft_kernel_costs *costs, weft_simulation *simulation)
{
    size_t count = (size_t)classes->count;
    assembling a = { .world = world,
                     .classes = classes,
                     .recordings = recordings,
                     .simulation = simulation,
                     .sends = calloc(count, sizeof(weft_map)),
                     .all = classes->count == world->processes };
    simulation->failed |= a.sends == NULL;
    for (size_t i = 0; i < count && !simulation->failed; i++) {
        count_messages(&recordings[i], WEFT_SIMULATED_SEND, &a.sends[i], simulation);
    }
    for (size_t i = 0; i < count && !simulation->failed; i++) {
        add_process(&a, (int)i, costs);
    }
    for (size_t i = 0; i < count && a.sends != NULL; i++) {
        weft_map_free(&a.sends[i]);
    }
    free(a.sends);
}
