/* Records and their dependencies. */
#include "simulate/simulate.h"

#include <stdlib.h>
#include <string.h>

/* State of one datum while records are added. */
typedef struct use {
    uint64_t data;
    int64_t writer;       /* record; -1: none */
    int64_t first_reader; /* since then: index into `readers`; -1: none */
} use;

typedef struct reader {
    uint32_t record;
    int64_t next;
} reader;

void weft_simulation_free(weft_simulation *simulation)
{
    for (size_t i = 0; i < simulation->processes.count; i++) {
        weft_simulated_process *process = weft_simulated_process_at(simulation, i);
        weft_vec_free(&process->records);
        weft_map_free(&process->last);
        weft_vec_free(&process->ready);
        free(process->worker_records);
    }
    for (size_t i = 0; i < simulation->labels.count; i++) {
        free(((char **)simulation->labels.items)[i]);
    }
    weft_vec *const all[] = { &simulation->processes, &simulation->records, &simulation->messages, &simulation->edges,
                              &simulation->uses,      &simulation->readers, &simulation->labels };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all); i++) {
        weft_vec_free(all[i]);
    }
    weft_map_free(&simulation->label_index);
}

int weft_simulation_add_process(weft_simulation *simulation, int host, int workers, int cores)
{
    weft_simulated_process *process = weft_vec_push(&simulation->processes, sizeof(*process));
    simulation->failed |= process == NULL;
    if (process == NULL) {
        return 0;
    }
    *process = (weft_simulated_process){ .host = host, .workers = workers, .cores = cores, .sharing = 1 };
    process->worker_records = malloc((size_t)workers * sizeof(int32_t));
    simulation->failed |= process->worker_records == NULL;
    return (int)simulation->processes.count - 1;
}

uint32_t weft_simulation_label(weft_simulation *simulation, const char *text)
{
    if (text == NULL || *text == '\0') {
        return 0;
    }
    uint64_t hash = weft_hash_bytes(text, strlen(text), 0);
    weft_map *index = &simulation->label_index;
    for (weft_map_slot *slot = weft_map_first(index, hash); slot != NULL; slot = weft_map_next(index, slot)) {
        uint32_t label = (uint32_t)(uintptr_t)slot->value;
        if (strcmp(weft_simulated_label(simulation, label), text) == 0) {
            return label;
        }
    }
    char *copy = strdup(text), **added = copy == NULL ? NULL : weft_vec_push(&simulation->labels, sizeof(char *));
    if (added == NULL) {
        free(copy);
        simulation->failed = true;
        return 0;
    }
    *added = copy;
    simulation->failed |= !weft_map_add(index, hash, (void *)(uintptr_t)simulation->labels.count);
    return (uint32_t)simulation->labels.count;
}

/* ---- dependencies ---------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static use *use_of(weft_simulation *simulation, weft_simulated_process *process, uint64_t data)
{
    uint64_t hash = weft_hash_u64(data + 1);
    for (weft_map_slot *slot = weft_map_first(&process->last, hash); slot != NULL;
         slot = weft_map_next(&process->last, slot)) {
        use *found = (use *)simulation->uses.items + ((uintptr_t)slot->value - 1);
        if (found->data == data) {
            return found;
        }
    }
    use *added = weft_vec_push(&simulation->uses, sizeof(*added));
    if (added == NULL || !weft_map_add(&process->last, hash, (void *)(uintptr_t)simulation->uses.count)) {
        simulation->failed = true;
        return NULL;
    }
    *added = (use){ .data = data, .writer = -1, .first_reader = -1 };
    return added;
}

static void add_edge(weft_simulation *simulation, int64_t from, uint32_t to)
{
    uint32_t *edge = from < 0 || from == to ? NULL : weft_vec_push(&simulation->edges, 2 * sizeof(uint32_t));
    if (edge != NULL) {
        edge[0] = (uint32_t)from;
        edge[1] = to;
        weft_simulated_record_at(simulation, to)->waits++;
    }
    simulation->failed |= from >= 0 && from != to && edge == NULL;
}

static void add_reader(weft_simulation *simulation, use *used, uint32_t record)
{
    reader *added = weft_vec_push(&simulation->readers, sizeof(*added));
    simulation->failed |= added == NULL;
    if (added != NULL) {
        *added = (reader){ record, used->first_reader };
        used->first_reader = (int64_t)simulation->readers.count - 1;
    }
}

/* A read waits for the last write, a write for that and for the reads since. */
static void add_access(weft_simulation *simulation, uint32_t record, const weft_simulated_access *access)
{
    uint32_t process = weft_simulated_record_at(simulation, record)->process;
    use *used = use_of(simulation, weft_simulated_process_at(simulation, process), access->data);
    if (used == NULL) {
        return;
    }
    if (!access->writes) {
        add_edge(simulation, used->writer, record);
        add_reader(simulation, used, record);
        return;
    }
    bool any = false;
    for (int64_t i = used->first_reader; i >= 0;) {
        const reader *other = (const reader *)simulation->readers.items + i;
        any |= other->record != record;
        add_edge(simulation, other->record, record);
        i = other->next;
    }
    if (!any) { /* else the readers have waited for the writer */
        add_edge(simulation, used->writer, record);
    }
    used->writer = record;
    used->first_reader = -1;
}

/* ---- records --------------------------------------------------------------------------------------------- */

static weft_simulated_record *add_record(weft_simulation *simulation, int process, weft_simulated_kind kind,
                                         uint32_t *number)
{
    weft_simulated_record *record = weft_vec_push(&simulation->records, sizeof(*record));
    uint32_t *listed = record == NULL ? NULL
                                      : weft_vec_push(&weft_simulated_process_at(simulation, (size_t)process)->records,
                                                      sizeof(uint32_t));
    *number = (uint32_t)simulation->records.count - 1;
    if (listed == NULL) {
        simulation->failed = true;
        return NULL;
    }
    *listed = *number;
    record->kind = kind;
    record->process = (uint32_t)process;
    record->worker = -1;
    record->cause = WEFT_CAUSE_NONE;
    return record;
}

void weft_simulation_task(weft_simulation *simulation, int process, const weft_simulated_task *task, size_t count,
                          const weft_simulated_access accesses[])
{
    uint32_t number;
    weft_simulated_record *record = add_record(simulation, process, WEFT_SIMULATED_TASK, &number);
    if (record == NULL) {
        return;
    }
    record->us = task->us;
    record->priority = task->priority;
    record->label = task->label;
    record->family = task->family;
    record->accesses = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        add_access(simulation, number, &accesses[i]);
    }
}

void weft_simulation_transfer(weft_simulation *simulation, int process, bool receive, uint32_t label,
                              const weft_simulated_access *access, size_t count,
                              const weft_simulated_message messages[])
{
    uint32_t number;
    weft_simulated_record *record =
        add_record(simulation, process, receive ? WEFT_SIMULATED_RECEIVE : WEFT_SIMULATED_SEND, &number);
    if (record == NULL) {
        return;
    }
    record->label = label;
    record->accesses = 1;
    record->first_message = (uint32_t)simulation->messages.count;
    record->num_messages = record->unfinished = (uint32_t)count;
    for (size_t i = 0; i < count && !simulation->failed; i++) {
        weft_simulated_message *message = weft_vec_push(&simulation->messages, sizeof(*message));
        simulation->failed |= message == NULL;
        if (message != NULL) {
            *message = messages[i];
            message->record = number;
            message->start_us = message->end_us = -1;
            message->cause = WEFT_CAUSE_NONE;
            message->other = message->next_receive = message->after = -1;
            message->posted = false;
        }
    }
    add_access(simulation, number, access);
}

void weft_simulation_spend(weft_simulation *simulation, int process, double us)
{
    uint32_t number;
    weft_simulated_record *record = add_record(simulation, process, WEFT_SIMULATED_SPEND, &number);
    if (record != NULL) {
        record->us = us;
    }
}

void weft_simulation_wait(weft_simulation *simulation, int process)
{
    uint32_t number;
    add_record(simulation, process, WEFT_SIMULATED_WAIT, &number);
}
