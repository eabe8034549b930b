/* Shares of the time in which processes compute and communicate. */
#include "simulate/simulate.h"

#include <stdlib.h>

/* A moment at which tasks or messages of a process become more or fewer. */
typedef struct change {
    double us;
    int tasks, messages;
} change;

static int compare(const void *a, const void *b)
{
    double one = ((const change *)a)->us, other = ((const change *)b)->us;
    return (one > other) - (one < other);
}

static bool add(weft_vec *changes, double start, double end, int tasks, int messages)
{
    change *first = end > start ? weft_vec_push(changes, sizeof(change)) : NULL;
    if (first != NULL) {
        *first = (change){ start, tasks, messages };
        change *last = weft_vec_push(changes, sizeof(change));
        if (last == NULL) {
            return false;
        }
        *last = (change){ end, -tasks, -messages };
    }
    return end <= start || first != NULL;
}

static void share(weft_simulated_process *process, const weft_vec *changes, double whole)
{
    const change *all = changes->items;
    int tasks = 0, messages = 0;
    double computing = 0, communicating = 0, both = 0, any = 0;
    for (size_t i = 0; i + 1 < changes->count; i++) {
        tasks += all[i].tasks;
        messages += all[i].messages;
        double us = all[i + 1].us - all[i].us;
        computing += tasks > 0 ? us : 0;
        communicating += messages > 0 ? us : 0;
        both += tasks > 0 && messages > 0 ? us : 0;
        any += tasks > 0 || messages > 0 ? us : 0;
    }
    process->computing = whole > 0 ? computing / whole : 0;
    process->communicating = whole > 0 ? communicating / whole : 0;
    process->both = whole > 0 ? both / whole : 0;
    process->idle = whole > 0 ? 1 - any / whole : 0;
    process->end_us = changes->count == 0 ? 0 : all[changes->count - 1].us;
}

bool weft_simulation_shares(weft_simulation *simulation)
{
    bool done = true;
    for (size_t p = 0; p < simulation->processes.count && done; p++) {
        weft_simulated_process *process = weft_simulated_process_at(simulation, p);
        const uint32_t *numbers = process->records.items;
        weft_vec changes = { 0 };
        for (size_t i = 0; i < process->records.count && done; i++) {
            const weft_simulated_record *record = weft_simulated_record_at(simulation, numbers[i]);
            done = record->kind != WEFT_SIMULATED_TASK || add(&changes, record->start_us, record->end_us, 1, 0);
            for (uint32_t m = 0; m < record->num_messages && done; m++) {
                const weft_simulated_message *message =
                    weft_simulated_message_at(simulation, record->first_message + m);
                done = add(&changes, message->start_us, message->end_us, 0, 1);
            }
        }
        if (done && changes.count > 0) {
            qsort(changes.items, changes.count, sizeof(change), compare);
        }
        share(process, &changes, simulation->end_us);
        weft_vec_free(&changes);
    }
    return done;
}
