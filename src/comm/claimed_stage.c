/* Stages that the transport carries out as a whole (weft_data.claims).
 *
 * StarPU grants each panel of such a stage as it grants any transfer. The stage begins when all its panels
 * are granted and all earlier stages have begun. All its panels end together. */
#include <stdlib.h>
#include <string.h>

#include "comm/engine.h"

struct weft_claimed_stage {
    weft_comm *comm;
    weft_stage stage;
    weft_access_map access_map; /* of the stage, if it has one */
    weft_stage_work work;
    int ungranted, unended; /* panels; progress thread only */
    int64_t bytes;
    weft_claimed_stage *next; /* in the order of their numbers */
    weft_comm_transfer **transfers;
    int64_t *offsets; /* byte offsets of the panels in their handles */
    weft_stage_panel panels[];
};

/* ---- the submitting thread ----------------------------------------------------------------------------- */

/* Whether each process has panels of the stage, so that all processes number such stages alike. */
static bool concerns_all(const weft_stage *stage)
{
    const weft_topology *topology = &weft_runtime.topology;
    for (int p = 0; p < topology->num_processes; p++) {
        bool concerned = false;
        for (int rank = topology->first_rank[p]; rank < topology->first_rank[p + 1] && !concerned; rank++) {
            concerned = weft_layout_shard_count(stage->from, rank) > 0 ||
                        weft_layout_shard_count(stage->to, rank) > 0;
        }
        if (!concerned) {
            return false;
        }
    }
    return true;
}

bool weft_comm_claims(const weft_comm *comm, const weft_stage *stage)
{
    const weft_data *data = &comm->transport.data;
    if (data->claims == NULL || !concerns_all(stage)) {
        return false;
    }
    bool along[WEFT_MAX_DIMS];
    weft_stage_kind kind = weft_stage_kind_of(stage, along);
    return data->claims(data->state, stage, kind, along);
}

static void free_claimed(weft_claimed_stage *claimed)
{
    if (claimed != NULL) {
        free(claimed->transfers);
        free(claimed->offsets);
    }
    free(claimed);
}

/* Allocates everything before the first submission. */
static weft_claimed_stage *new_claimed(weft_comm *comm, const weft_stage *stage, int count)
{
    weft_claimed_stage *c = calloc(1, sizeof(*c) + (size_t)count * sizeof(c->panels[0]));
    if (c == NULL) {
        return NULL;
    }
    c->transfers = calloc((size_t)count + 1, sizeof(weft_comm_transfer *));
    c->offsets = calloc((size_t)count + 1, sizeof(int64_t));
    if (c->transfers == NULL || c->offsets == NULL) {
        free_claimed(c);
        return NULL;
    }
    c->comm = comm;
    c->stage = *stage;
    if (stage->access_map != NULL) {
        c->access_map = *stage->access_map;
        c->stage.access_map = &c->access_map;
    }
    c->work = (weft_stage_work){ .stage = &c->stage, .count = count, .panels = c->panels };
    c->ungranted = c->unended = count;
    return c;
}

/* For reports and inquiries: one process stands for the whole stage, the next one. */
static weft_message message_for(const weft_comm *comm, const weft_stage_panel *panel)
{
    const weft_process_place *place = &comm->transport.place;
    return (weft_message){ .peer = (place->process + 1) % place->num_processes,
                           .region = { .run_bytes = panel->bytes },
                           .bytes = panel->bytes,
                           .source_rank = panel->rank,
                           .target_rank = panel->rank };
}

/* For each of its panels. */
static void panel_ended(weft_claimed_stage *c)
{
    if (--c->unended == 0) {
        free_claimed(c);
    }
}

static bool make_transfers(weft_claimed_stage *c, const weft_stage_operand operands[], const char *label)
{
    for (int i = 0; i < c->work.count; i++) {
        const weft_stage_operand *operand = &operands[i];
        weft_message message = message_for(c->comm, &operand->panel);
        c->panels[i] = operand->panel;
        c->offsets[i] = operand->offset;
        c->bytes += operand->panel.bytes;
        c->transfers[i] = weft_comm_transfer_new(c->comm, operand->handle, operand->panel.target, 1, &message,
                                                 operand->panel.target ? c->stage.to : c->stage.from, label);
        if (c->transfers[i] == NULL) {
            return false;
        }
        c->transfers[i]->claimed = c;
        c->transfers[i]->claimed_ended = panel_ended;
    }
    return true;
}

/* After earlier submissions. In a broken world nothing is waited for. */
static void append(weft_comm *comm, weft_claimed_stage *c)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    if (!comm->gave_up) {
        *(comm->first_claimed == NULL ? &comm->first_claimed : &comm->last_claimed->next) = c;
        comm->last_claimed = c;
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
}

bool weft_comm_submit_stage(weft_comm *comm, const weft_stage *stage, int count,
                            const weft_stage_operand operands[], const char *label)
{
    weft_claimed_stage *c = new_claimed(comm, stage, count);
    if (c == NULL || !make_transfers(c, operands, label)) {
        for (int i = 0; c != NULL && i < count; i++) {
            free(c->transfers[i]);
        }
        free_claimed(c);
        weft_fail(WEFT_ERR_NOMEM, "weft_comm_submit_stage", "no memory for a stage of %d panels", count);
        return false;
    }
    c->work.number = comm->claimed_stages++;
    append(comm, c);
    for (int i = 0; i < count; i++) {
        weft_comm_transfer_submit(c->transfers[i], operands[i].whole);
    }
    return true;
}

/* ---- the progress thread ------------------------------------------------------------------------------- */

static weft_claimed_stage *first_to_start(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    weft_claimed_stage *first = comm->first_claimed;
    bool starts = first != NULL && first->ungranted == 0;
    if (starts) {
        comm->first_claimed = first->next;
    }
    starpu_pthread_mutex_unlock(&comm->mutex);
    return starts ? first : NULL;
}

static bool start_stage(weft_comm *comm, weft_claimed_stage *c)
{
    const weft_data *data = &comm->transport.data;
    for (int i = 0; i < c->work.count; i++) {
        c->panels[i].memory = (char *)starpu_variable_get_local_ptr(c->transfers[i]->handle) + c->offsets[i];
    }
    comm->active++;
    comm->active_bytes += c->bytes;
    weft_status status = data->start_stage(data->state, &c->work, c->transfers[0]->posted);
    if (status != WEFT_OK) {
        weft_claimed_end(c, status);
    }
    return status == WEFT_OK;
}

int weft_claimed_granted(weft_comm *comm, weft_comm_transfer *t)
{
    int started = 0;
    t->claimed->ungranted--;
    for (weft_claimed_stage *c; (c = first_to_start(comm)) != NULL;) {
        started += start_stage(comm, c);
    }
    return started;
}

void weft_claimed_end(weft_claimed_stage *c, weft_status status)
{
    weft_comm *comm = c->comm;
    comm->active--;
    comm->active_bytes -= c->bytes;
    if (status != WEFT_OK) {
        weft_break(status, "weft", "transport %s: a stage has failed: %s", comm->transport.name,
                   weft_status_string(status));
    }
    for (int i = 0, count = c->work.count; i < count; i++) { /* the last panel frees the stage */
        weft_comm_transfer *t = c->transfers[i];
        t->posted->ended = true;
        weft_comm_transfer_end(comm, t);
    }
}

void weft_claimed_meet_layouts(const weft_claimed_stage *claimed)
{
    weft_meet_layout(claimed->stage.from);
    weft_meet_layout(claimed->stage.to);
    weft_meet_layout(claimed->access_map.cut);
}

void weft_claimed_clear(weft_comm *comm)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    comm->first_claimed = comm->last_claimed = NULL;
    starpu_pthread_mutex_unlock(&comm->mutex);
}
