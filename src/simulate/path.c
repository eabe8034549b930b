/* The critical path: backwards from the record that ended last, each time to what let the record begin. */
#include "simulate/simulate.h"

#include <stdlib.h>

static bool add_part(weft_vec *parts, uint32_t label, int kind, double us)
{
    weft_path_part *all = parts->items, *found = NULL;
    for (size_t i = 0; i < parts->count && found == NULL; i++) {
        found = all[i].label == label && (int)all[i].kind == kind ? &all[i] : NULL;
    }
    if (found == NULL) {
        found = weft_vec_push(parts, sizeof(*found));
        if (found == NULL) {
            return false;
        }
        found->label = label;
        found->kind = kind;
    }
    found->us += us;
    found->count++;
    return true;
}

static int compare(const void *a, const void *b)
{
    double one = ((const weft_path_part *)a)->us, other = ((const weft_path_part *)b)->us;
    return (one < other) - (one > other);
}

/* The message of a transfer that ended last. NULL: it has none. */
static const weft_simulated_message *last_message(const weft_simulation *simulation, const weft_simulated_record *record)
{
    const weft_simulated_message *last = NULL;
    for (uint32_t i = 0; i < record->num_messages; i++) {
        const weft_simulated_message *message = weft_simulated_message_at(simulation, record->first_message + i);
        last = last == NULL || message->end_us > last->end_us ? message : last;
    }
    return last;
}

/* The record that the message of a transfer waited for: of a receive, that which let its send begin. */
static int32_t cause_of_message(const weft_simulation *simulation, const weft_simulated_message *message, double *began)
{
    if (message == NULL) {
        return WEFT_CAUSE_NONE;
    }
    bool receives = weft_simulated_record_at(simulation, message->record)->kind == WEFT_SIMULATED_RECEIVE;
    if (receives && message->other >= 0) {
        const weft_simulated_message *send = weft_simulated_message_at(simulation, (size_t)message->other);
        message = send->start_us >= 0 && send->start_us <= message->end_us ? send : message;
    }
    *began = message->start_us;
    return message->cause;
}

bool weft_simulation_path(const weft_simulation *simulation, weft_vec *parts)
{
    int64_t at = -1;
    for (size_t i = 0; i < simulation->records.count; i++) {
        const weft_simulated_record *record = weft_simulated_record_at(simulation, i);
        bool later = record->ended && (at < 0 || record->end_us > weft_simulated_record_at(simulation, (size_t)at)->end_us);
        at = later ? (int64_t)i : at;
    }
    double until = simulation->end_us;
    bool done = true;
    for (size_t steps = 0; at >= 0 && until > 0 && done && steps <= 2 * simulation->records.count; steps++) {
        const weft_simulated_record *record = weft_simulated_record_at(simulation, (size_t)at);
        bool is_task = record->kind == WEFT_SIMULATED_TASK;
        bool submits = record->kind == WEFT_SIMULATED_SPEND || record->kind == WEFT_SIMULATED_WAIT;
        double began = record->start_us;
        int32_t cause = is_task || submits ? record->cause
                                           : cause_of_message(simulation, last_message(simulation, record), &began);
        if (began < until) {
            done = add_part(parts, submits ? 0 : record->label,
                            is_task   ? WEFT_PATH_TASKS
                            : submits ? WEFT_PATH_SUBMISSION
                                      : WEFT_PATH_MESSAGES,
                            until - began);
            until = began;
        }
        if (cause >= 0 && weft_simulated_record_at(simulation, (size_t)cause)->end_us <= until + 1e-9) {
            double ended = weft_simulated_record_at(simulation, (size_t)cause)->end_us;
            if (ended < until) { /* between a record's data being ready and its start */
                done = done && add_part(parts, 0, WEFT_PATH_SUBMISSION, until - ended);
                until = ended;
            }
            at = cause;
            continue;
        }
        /* Its submission: the submitting thread has worked since its last wait. */
        const weft_simulated_process *process = weft_simulated_process_at(simulation, record->process);
        const uint32_t *numbers = process->records.items;
        int64_t wait = -1;
        for (size_t i = 0; i < process->records.count && numbers[i] <= (uint32_t)at; i++) {
            const weft_simulated_record *other = weft_simulated_record_at(simulation, numbers[i]);
            wait = other->kind == WEFT_SIMULATED_WAIT && other->cause >= 0 && other->end_us <= until ? numbers[i] : wait;
        }
        double since = wait < 0 ? 0 : weft_simulated_record_at(simulation, (size_t)wait)->end_us;
        done = done && (since >= until || add_part(parts, 0, WEFT_PATH_SUBMISSION, until - since));
        until = since;
        at = wait < 0 ? -1 : weft_simulated_record_at(simulation, (size_t)wait)->cause;
    }
    if (done && until > 0) {
        done = add_part(parts, 0, WEFT_PATH_SUBMISSION, until);
    }
    if (done && parts->count > 0) {
        qsort(parts->items, parts->count, sizeof(weft_path_part), compare);
    }
    return done;
}
