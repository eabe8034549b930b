/* The critical path: backwards from the record that ended last, each time to what let the record begin. */
#include "simulate/simulate.h"

#include <stdlib.h>

typedef struct walk {
    const weft_simulation *simulation;
    weft_vec *parts;
    double until;  /* the path is known from here on */
    int64_t at;    /* the record that ended then; -1: the beginning */
    bool failed;   /* no memory */
} walk;

/* The path from `since` to `until` belongs to a label. */
static void add(walk *w, uint32_t label, int kind, double since)
{
    if (since >= w->until) {
        return;
    }
    weft_path_part *all = w->parts->items, *found = NULL;
    for (size_t i = 0; i < w->parts->count && found == NULL; i++) {
        found = all[i].label == label && (int)all[i].kind == kind ? &all[i] : NULL;
    }
    if (found == NULL) {
        found = weft_vec_push(w->parts, sizeof(*found));
        if (found == NULL) {
            w->failed = true;
            return;
        }
        found->label = label;
        found->kind = kind;
    }
    found->us += w->until - since;
    found->count++;
    w->until = since;
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

/* A message, and those that the link carried before it. Returns the first of these. */
static const weft_simulated_message *follow_link(walk *w, const weft_simulated_message *message)
{
    const weft_simulation *simulation = w->simulation;
    uint32_t label = weft_simulated_record_at(simulation, message->record)->label;
    if (message->other >= 0 && weft_simulated_record_at(simulation, message->record)->kind == WEFT_SIMULATED_RECEIVE) {
        const weft_simulated_message *send = weft_simulated_message_at(simulation, (size_t)message->other);
        message = send->start_us >= 0 && send->start_us <= w->until ? send : message;
    }
    add(w, label, WEFT_PATH_MESSAGES, message->start_us);
    while (message->after >= 0) {
        message = weft_simulated_message_at(simulation, (size_t)message->after);
        add(w, weft_simulated_record_at(simulation, message->record)->label, WEFT_PATH_MESSAGES, message->start_us);
    }
    return message;
}

/* A record began when it was submitted: the submitting thread has worked since its last wait. */
static void follow_submission(walk *w, uint32_t of_process, int64_t before)
{
    const weft_simulation *simulation = w->simulation;
    const weft_simulated_process *process = weft_simulated_process_at(simulation, of_process);
    const uint32_t *numbers = process->records.items;
    const weft_simulated_record *wait = NULL;
    for (size_t i = process->records.count; i-- > 0 && wait == NULL;) {
        const weft_simulated_record *other = weft_simulated_record_at(simulation, numbers[i]);
        bool counts = numbers[i] <= before && other->kind == WEFT_SIMULATED_WAIT && other->cause >= 0 && other->end_us <= w->until;
        wait = counts ? other : NULL;
    }
    add(w, 0, WEFT_PATH_SUBMISSION, wait == NULL ? 0 : wait->end_us);
    w->at = wait == NULL ? -1 : wait->cause;
}

static void step(walk *w)
{
    const weft_simulation *simulation = w->simulation;
    const weft_simulated_record *record = weft_simulated_record_at(simulation, (size_t)w->at);
    const weft_simulated_message *message = last_message(simulation, record);
    int32_t cause = record->cause;
    if (record->kind == WEFT_SIMULATED_TASK) {
        add(w, record->label, WEFT_PATH_TASKS, record->start_us);
    } else if (message != NULL) {
        message = follow_link(w, message);
        cause = message->cause;
        record = weft_simulated_record_at(simulation, message->record);
    }
    const double rounding = 1e-6;
    double ended = cause < 0 ? 0 : weft_simulated_record_at(simulation, (size_t)cause)->end_us;
    if (cause >= 0 && cause != w->at && ended <= w->until + rounding) {
        add(w, 0, WEFT_PATH_SUBMISSION, ended); /* between the end of the cause and the start: a transfer's */
        w->at = cause;
    } else {
        follow_submission(w, record->process, message == NULL ? w->at : (int64_t)message->record);
    }
}

static int compare(const void *a, const void *b)
{
    double one = ((const weft_path_part *)a)->us, other = ((const weft_path_part *)b)->us;
    return (one < other) - (one > other);
}

static int64_t last_record(const weft_simulation *simulation)
{
    int64_t last = -1;
    for (size_t i = 0; i < simulation->records.count; i++) {
        const weft_simulated_record *record = weft_simulated_record_at(simulation, i);
        bool later = last < 0 || record->end_us > weft_simulated_record_at(simulation, (size_t)last)->end_us;
        last = record->ended && later ? (int64_t)i : last;
    }
    return last;
}

bool weft_simulation_path(const weft_simulation *simulation, weft_vec *parts)
{
    walk w = { .simulation = simulation, .parts = parts, .until = simulation->end_us, .at = last_record(simulation) };
    size_t most = 2 * simulation->records.count; /* times of 0 could make a circle */
    for (size_t steps = 0; w.at >= 0 && w.until > 0 && !w.failed && steps < most; steps++) {
        step(&w);
    }
    add(&w, 0, WEFT_PATH_SUBMISSION, 0);
    if (parts->count > 0) {
        qsort(parts->items, parts->count, sizeof(weft_path_part), compare);
    }
    return !w.failed;
}
