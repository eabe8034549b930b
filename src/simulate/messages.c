/* Messages: their other sides, and the links that they share. */
#include "simulate/simulate.h"

#include "base/heap.h"

#include <stdlib.h>

/* ---- both sides of a message ----------------------------------------------------------------------------- */

static bool is_send(const weft_simulation *simulation, const weft_simulated_message *message)
{
    return weft_simulated_record_at(simulation, message->record)->kind == WEFT_SIMULATED_SEND;
}

/* The send of a key; -1: none. */
static int32_t send_of(const weft_simulation *simulation, const weft_map *sends, uint64_t key)
{
    uint64_t hash = weft_hash_u64(key);
    for (weft_map_slot *slot = weft_map_first(sends, hash); slot != NULL; slot = weft_map_next(sends, slot)) {
        uintptr_t number = (uintptr_t)slot->value - 1;
        if (weft_simulated_message_at(simulation, number)->key == key) {
            return (int32_t)number;
        }
    }
    return -1;
}

bool weft_messages_match(weft_simulation *simulation)
{
    weft_map sends = { 0 };
    bool done = true;
    for (size_t i = 0; i < simulation->messages.count && done; i++) {
        const weft_simulated_message *message = weft_simulated_message_at(simulation, i);
        if (is_send(simulation, message) && send_of(simulation, &sends, message->key) < 0) {
            done = weft_map_add(&sends, weft_hash_u64(message->key), (void *)(uintptr_t)(i + 1));
        }
    }
    for (size_t i = 0; i < simulation->messages.count && done; i++) {
        weft_simulated_message *message = weft_simulated_message_at(simulation, i);
        if (is_send(simulation, message)) {
            continue;
        }
        message->other = send_of(simulation, &sends, message->key);
        if (message->other >= 0) {
            weft_simulated_message *send = weft_simulated_message_at(simulation, (size_t)message->other);
            message->next_receive = send->other;
            send->other = (int32_t)i;
        }
    }
    weft_map_free(&sends);
    return done;
}

/* ---- links ----------------------------------------------------------------------------------------------- */

static weft_simulated_process *process_of(const weft_simulation *simulation, const weft_simulated_message *message)
{
    return weft_simulated_process_at(simulation, weft_simulated_record_at(simulation, message->record)->process);
}

static weft_simulated_lane *lane_of(const weft_simulation *simulation, const weft_simulated_message *message, bool in)
{
    const weft_running *running = simulation->running;
    uint32_t process = weft_simulated_record_at(simulation, message->record)->process;
    size_t owner = message->far ? (size_t)weft_simulated_process_at(simulation, process)->host
                                : running->num_hosts + process;
    return &running->lanes[2 * owner + in];
}

static const weft_simulated_link *link_of(const weft_simulation *simulation, const weft_simulated_message *message)
{
    return message->far ? &simulation->machine.far : &simulation->machine.near;
}

static double time_on_link(const weft_simulation *simulation, const weft_simulated_message *message)
{
    const weft_simulated_link *link = link_of(simulation, message);
    double sharing = message->far ? process_of(simulation, message)->sharing : 1;
    return link->message_us + (double)message->bytes / link->bytes_per_us * sharing;
}

static double processor_time(const weft_simulation *simulation, const weft_simulated_message *message)
{
    const weft_simulated_machine *machine = &simulation->machine;
    double bytes_us = machine->cpu_bytes_per_us > 0 ? (double)message->bytes / machine->cpu_bytes_per_us : 0;
    return machine->message_cpu_us + bytes_us;
}

/* The older one in the order of submission. */
static bool is_older(const void *context, const void *a, const void *b)
{
    const weft_simulation *simulation = context;
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    const weft_simulated_record *first =
        weft_simulated_record_at(simulation, weft_simulated_message_at(simulation, one)->record);
    const weft_simulated_record *second =
        weft_simulated_record_at(simulation, weft_simulated_message_at(simulation, other)->record);
    return first->submitted_us != second->submitted_us ? first->submitted_us < second->submitted_us : one < other;
}

/* ---- receives -------------------------------------------------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* The receive is posted, and its send is on its way, or there is none: its bytes come as they leave, after those that came
 * before them. */
static void arrive(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_message *message = weft_simulated_message_at(simulation, number);
    weft_simulated_lane *lane = lane_of(simulation, message, true);
    const weft_simulated_message *send =
        message->other < 0 ? NULL : weft_simulated_message_at(simulation, (size_t)message->other);
    bool sent = send != NULL && send->start_us >= 0;
    double now = simulation->running->now_us;
    message->start_us = sent ? send->start_us : now;
    double end = later(message->start_us, lane->free_us) + time_on_link(simulation, message);
    lane->free_us = end;
    end = sent ? later(end, send->start_us + time_on_link(simulation, send)) : end;
    end += link_of(simulation, message)->latency_us;
    weft_simulation_at(simulation, later(end, now), WEFT_EVENT_RECEIVED, number);
}

static bool is_on_its_way(const weft_simulated_message *send)
{
    return send->start_us >= 0;
}

void weft_message_received(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_message *message = weft_simulated_message_at(simulation, number);
    message->end_us = simulation->running->now_us;
    weft_process_owe(process_of(simulation, message), processor_time(simulation, message));
    weft_simulated_record *record = weft_simulated_record_at(simulation, message->record);
    if (--record->unfinished == 0) {
        weft_record_end(simulation, message->record);
    }
}

/* ---- sends ----------------------------------------------------------------------------------------------- */

static void start_send(weft_simulation *simulation, weft_simulated_lane *lane, uint32_t number)
{
    weft_running *running = simulation->running;
    weft_simulated_message *message = weft_simulated_message_at(simulation, number);
    lane->busy = true;
    message->start_us = running->now_us;
    weft_simulation_at(simulation, running->now_us + time_on_link(simulation, message), WEFT_EVENT_SENT, number);
    for (int32_t i = message->other; i >= 0; i = weft_simulated_message_at(simulation, (size_t)i)->next_receive) {
        const weft_simulated_message *receive = weft_simulated_message_at(simulation, (size_t)i);
        if (receive->posted && receive->start_us < 0) {
            arrive(simulation, (uint32_t)i);
        }
    }
}

/* The message may go as soon as the link is free. */
static void queue_send(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_message *message = weft_simulated_message_at(simulation, number);
    weft_simulated_lane *lane = lane_of(simulation, message, false);
    message->cause = simulation->running->cause;
    if (!lane->busy) {
        start_send(simulation, lane, number);
    } else {
        simulation->running->failed |= !weft_heap_push(&lane->waiting, sizeof(number), &number, is_older, simulation);
    }
}

static bool waits_for_receive(const weft_simulation *simulation, const weft_simulated_message *send)
{
    return send->other >= 0 && send->bytes > simulation->machine.eager_bytes &&
           !weft_simulated_message_at(simulation, (size_t)send->other)->posted;
}

void weft_message_sent(weft_simulation *simulation, uint32_t number)
{
    weft_simulated_message *message = weft_simulated_message_at(simulation, number);
    weft_simulated_lane *lane = lane_of(simulation, message, false);
    uint32_t record = message->record;
    message->end_us = simulation->running->now_us;
    weft_process_owe(process_of(simulation, message), processor_time(simulation, message));
    lane->busy = false;
    if (lane->waiting.count > 0) {
        uint32_t next;
        weft_heap_pop(&lane->waiting, sizeof(next), &next, is_older, simulation);
        weft_simulated_message_at(simulation, next)->after = (int32_t)number;
        start_send(simulation, lane, next);
    }
    if (--weft_simulated_record_at(simulation, record)->unfinished == 0) {
        weft_record_end(simulation, record);
    }
}

void weft_transfer_begin_simulated(weft_simulation *simulation, uint32_t record)
{
    const weft_simulated_record *transfer = weft_simulated_record_at(simulation, record);
    bool receives = transfer->kind == WEFT_SIMULATED_RECEIVE;
    for (uint32_t i = 0; i < transfer->num_messages; i++) {
        uint32_t number = transfer->first_message + i;
        weft_simulated_message *message = weft_simulated_message_at(simulation, number);
        message->posted = true;
        message->cause = simulation->running->cause;
        if (!receives && !waits_for_receive(simulation, message)) {
            queue_send(simulation, number);
        }
        if (!receives) {
            continue;
        }
        weft_simulated_message *send =
            message->other < 0 ? NULL : weft_simulated_message_at(simulation, (size_t)message->other);
        simulation->assumed += send == NULL;
        if (send == NULL || is_on_its_way(send)) {
            arrive(simulation, number);
        } else if (send->posted && send->other == (int32_t)number && send->bytes > simulation->machine.eager_bytes) {
            queue_send(simulation, (uint32_t)message->other);
        }
    }
    if (transfer->num_messages == 0) {
        weft_record_end(simulation, record);
    }
}

bool weft_messages_assume(weft_simulation *simulation)
{
    for (size_t i = 0; i < simulation->messages.count; i++) {
        weft_simulated_message *message = weft_simulated_message_at(simulation, i);
        if (!message->posted || message->start_us >= 0) {
            continue;
        }
        simulation->assumed++;
        simulation->running->cause = (int32_t)message->record;
        if (is_send(simulation, message)) {
            queue_send(simulation, (uint32_t)i);
        } else {
            arrive(simulation, (uint32_t)i);
        }
        return true;
    }
    return false;
}
