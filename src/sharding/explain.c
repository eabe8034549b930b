#include "sharding/explain.h"

#include <stdlib.h>
#include <string.h>

#include "plan/traffic.h"

/* Combinations before the rest is only counted. */
enum { SHOWN_COMBINATIONS = 12 };

/* ---- the combinations ---------------------------------------------------------------------------------- */

/* Order of preference: cost, number of redistributed inputs, work, order of search. */
static int by_preference(const void *a, const void *b)
{
    const weft_considered *p = *(const weft_considered *const *)a, *q = *(const weft_considered *const *)b;
    double differences[] = { p->us - q->us, p->changed - q->changed, p->work - q->work };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(differences); i++) {
        if (differences[i] != 0) {
            return differences[i] < 0 ? -1 : 1;
        }
    }
    return p < q ? -1 : p > q;
}

static int mesh_dims(const weft_explanation *e)
{
    return e->call->inputs[0]->mesh->ndim;
}

static bool is_chosen(const weft_explanation *e, const weft_considered *c)
{
    bool chosen = true;
    for (int i = 0; i < e->call->num_inputs; i++) {
        chosen &= c->inputs[i] == e->sharding.inputs[i];
    }
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        for (int m = 0; m < mesh_dims(e); m++) {
            chosen &= weft_placement_equal(c->outputs[o][m], e->sharding.outputs[o]->placements[m]);
        }
    }
    return chosen;
}

/* All combinations, the chosen one first. */
static weft_status rank_combinations(weft_explanation *e)
{
    size_t count = e->record.considered.count;
    e->ranked = malloc((count + 1) * sizeof(*e->ranked));
    if (e->ranked == NULL) {
        return WEFT_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        e->ranked[i] = (const weft_considered *)e->record.considered.items + i;
    }
    qsort(e->ranked, count, sizeof(*e->ranked), by_preference);
    size_t chosen = 0;
    while (chosen + 1 < count && !is_chosen(e, e->ranked[chosen])) {
        chosen++;
    }
    const weft_considered *first = e->ranked[chosen];
    memmove(e->ranked + 1, e->ranked, chosen * sizeof(*e->ranked));
    e->ranked[0] = first;
    return WEFT_OK;
}

static weft_status search(const weft_explanation *e, weft_search_record *record, weft_sharding *sharding,
                          char *why, size_t why_size)
{
    weft_sharding_world world = *e->world;
    world.record = record;
    weft_status status = weft_call_shard(&world, e->call, sharding, why, why_size);
    return status == WEFT_OK && record->failed ? WEFT_ERR_NOMEM : status;
}

weft_status weft_explanation_make(const weft_sharding_world *world, const weft_call_layouts *call,
                                  weft_explanation *e, char *why, size_t why_size)
{
    *e = (weft_explanation){ .world = world, .call = call, .record = { .complete = true } };
    for (int i = 0; i < WEFT_MAX_INPUTS; i++) {
        e->same_as[i] = -1;
    }
    weft_search_record compared = { .complete = false };
    weft_sharding unused;
    weft_status status = search(e, &compared, &e->sharding, why, why_size);
    if (status == WEFT_OK) {
        status = search(e, &e->record, &unused, why, why_size);
    }
    e->fits = compared.considered.count + (size_t)compared.num_impossible <
              e->record.considered.count + (size_t)e->record.num_impossible;
    weft_vec_free(&compared.considered);
    if (status == WEFT_OK && e->record.considered.count > 0) {
        status = rank_combinations(e);
    }
    if (status != WEFT_OK) {
        weft_explanation_free(e);
    }
    return status;
}

void weft_explanation_free(weft_explanation *e)
{
    free(e->ranked);
    weft_vec_free(&e->record.considered);
    e->ranked = NULL;
}

const char *weft_explanation_reason(const weft_explanation *e, char *text, size_t size)
{
    if (e->ranked == NULL) {
        snprintf(text, size, "the operation chooses its layouts itself");
        return text;
    }
    if (e->record.considered.count == 1) {
        snprintf(text, size, "no other combination is possible");
        return text;
    }
    const weft_considered *best = e->ranked[0], *next = e->ranked[1];
    if (next->us != best->us) {
        snprintf(text, size, "least predicted cost: %.1f us, the next one %.1f us", best->us, next->us);
    } else if (next->changed != best->changed) {
        snprintf(text, size, "as cheap as the next one, and redistributes fewer inputs: %d, not %d",
                 best->changed, next->changed);
    } else if (next->work != best->work) {
        snprintf(text, size, "as cheap as the next one, and gives the busiest rank less work: %g, not %g",
                 best->work, next->work);
    } else {
        snprintf(text, size, "as good as the next one, and earlier in the order of preference");
    }
    return text;
}

const char *weft_explanation_factors(const weft_explanation *e, const weft_considered *c, char *buffer,
                                     size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    for (int m = 0; m < mesh_dims(e); m++) {
        char name[] = { c->factors[m] == '\0' ? '-' : c->factors[m], '\0' };
        weft_text_add(&text, "%s%s", m == 0 ? "" : ",", c->factors[m] == '.' ? "..." : name);
    }
    return buffer;
}

/* ---- what moves ---------------------------------------------------------------------------------------- */

weft_status weft_explanation_move(const weft_explanation *e, int input, weft_plan *plan,
                                  weft_plan_statistics *statistics)
{
    const weft_sharding_world *world = e->world;
    const weft_layout *from = e->call->inputs[input], *to = e->sharding.inputs[input];
    *plan = (weft_plan){ .from = from, .to = to };
    *statistics = (weft_plan_statistics){ .exact = true };
    if (from == to || e->same_as[input] >= 0) {
        return WEFT_OK;
    }
    char why[200];
    weft_status status =
        weft_plan_make(world->table, world->topology, world->cost, from, to, plan, why, sizeof(why));
    return status == WEFT_OK ? weft_plan_measure(plan, world->topology, statistics) : status;
}

weft_explained_reads weft_access_map_reads(const weft_topology *topology, const weft_cost_model *cost,
                                           const weft_layout *from, const weft_access_map *access_map)
{
    const weft_stage stage = { .from = from, .to = access_map->cut, .access_map = access_map, .scale = 1.0 };
    weft_explained_reads reads = { .any = false };
    bool along[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < from->mesh->num_ranks; i++) {
        weft_traffic traffic = weft_access_map_traffic(&stage, weft_mesh_rank_at(from->mesh, i));
        reads.bytes_total = weft_add_saturated(reads.bytes_total, traffic.bytes_in);
        reads.bytes_in_max = weft_max_i64(reads.bytes_in_max, traffic.bytes_in);
        reads.messages_max = weft_max_i64(reads.messages_max, traffic.messages_in);
    }
    reads.any = reads.bytes_total > 0;
    reads.kind = weft_stage_kind_of(&stage, along);
    reads.predicted_us = weft_access_map_cost(topology, cost, from, access_map);
    return reads;
}

void weft_explained_reads_print(const weft_explained_reads *reads, const char *indent, FILE *file)
{
    if (reads->any) {
        fprintf(file,
                "%s    read across ranks: %s; %lld bytes in all, at most %lld into a rank; at most %lld messages into a "
                "rank; %.1f us predicted\n",
                indent, weft_stage_kind_name(reads->kind), (long long)reads->bytes_total,
                (long long)reads->bytes_in_max, (long long)reads->messages_max, reads->predicted_us);
    }
}

weft_status weft_explanation_reads(const weft_explanation *e, int input, weft_explained_reads *reads)
{
    const weft_layout *from = e->sharding.inputs[input];
    weft_access_map map;
    *reads = (weft_explained_reads){ .any = false };
    if (!e->sharding.has_access_maps) {
        return WEFT_OK;
    }
    if (!weft_sharding_access(e->world->table, e->call, &e->sharding, input, &map)) {
        return WEFT_ERR_NOMEM;
    }
    if (map.cut == NULL) {
        return WEFT_OK;
    }
    *reads = weft_access_map_reads(e->world->topology, e->world->cost, from, &map);
    return WEFT_OK;
}

double weft_explanation_moves_us(const weft_explanation *e)
{
    double us = 0;
    for (int i = 0; i < e->call->num_inputs; i++) {
        weft_plan plan;
        weft_plan_statistics statistics;
        weft_explained_reads reads;
        if (weft_explanation_move(e, i, &plan, &statistics) != WEFT_OK ||
            weft_explanation_reads(e, i, &reads) != WEFT_OK) {
            return -1;
        }
        us += plan.predicted_us + reads.predicted_us;
    }
    return us;
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static void print_combination(const weft_explanation *e, int number, const char *indent, FILE *file)
{
    const weft_considered *c = e->ranked[number];
    char text[200];
    fprintf(file, "%s%s %12.1f  %5d  %10g  %-8s", indent, number == 0 ? "*" : " ", c->us, c->changed, c->work,
            weft_explanation_factors(e, c, text, sizeof(text)));
    for (int i = 0; i < e->call->num_inputs; i++) {
        fprintf(file, " %-12s",
                weft_placements_text(c->inputs[i]->placements, mesh_dims(e), text, sizeof(text)));
    }
    fprintf(file, " ->");
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        fprintf(file, " %-12s", weft_placements_text(c->outputs[o], mesh_dims(e), text, sizeof(text)));
    }
    fprintf(file, "\n");
}

static void print_combinations(const weft_explanation *e, const char *indent, FILE *file)
{
    size_t count = e->record.considered.count;
    char why[200];
    if (e->ranked != NULL) {
        fprintf(file, "%s%zu combination%s of strategies possible, %lld not%s\n", indent, count,
                count == 1 ? "" : "s", (long long)e->record.num_impossible,
                e->fits ? "; the inputs fit as they are: no call compares those that move one" : "");
        fprintf(file, "%s  predicted us  moved        work  shards   inputs -> outputs\n", indent);
    }
    if (e->call->attributes->wish != 0) {
        weft_placement wished[WEFT_MAX_DIMS];
        weft_wished_placements(e->call->attributes->wish, e->sharding.outputs[0], wished);
        fprintf(file, "%s  with the output's way to %s, where it is read next\n", indent,
                weft_placements_text(wished, mesh_dims(e), why, sizeof(why)));
    }
    for (int i = 0; i < (int)count && i < SHOWN_COMBINATIONS; i++) {
        print_combination(e, i, indent, file);
    }
    if (count > SHOWN_COMBINATIONS) {
        fprintf(file, "%s    ... and %zu more\n", indent, count - SHOWN_COMBINATIONS);
    }
    fprintf(file, "%schosen%s: %s\n", indent, e->ranked != NULL ? " (*)" : "",
            weft_explanation_reason(e, why, sizeof(why)));
}

void weft_explanation_print_move(const weft_plan *plan, const weft_plan_statistics *statistics,
                                 const char *indent, FILE *file)
{
    char text[200];
    fprintf(file, "%s    to %s: %s, %d stage%s\n", indent, weft_layout_format(plan->to, text, sizeof(text)),
            plan->algorithm, plan->num_stages, plan->num_stages == 1 ? "" : "s");
    fprintf(file,
            "%s    %lld bytes in all, at most %lld into a rank; at most %lld messages of a rank; %.1f us "
            "predicted\n",
            indent, (long long)statistics->bytes_total, (long long)statistics->bytes_in_max,
            (long long)statistics->messages_max, plan->predicted_us);
}

static weft_status print_input(const weft_explanation *e, int input, const char *indent, FILE *file)
{
    char text[200];
    weft_plan plan;
    weft_plan_statistics statistics;
    weft_explained_reads reads;
    weft_status status = weft_explanation_move(e, input, &plan, &statistics);
    if (status == WEFT_OK) {
        status = weft_explanation_reads(e, input, &reads);
    }
    if (status != WEFT_OK) {
        return status;
    }
    fprintf(file, "%s%s  %s\n", indent, e->call->operation->inputs[input].name,
            weft_layout_format(e->call->inputs[input], text, sizeof(text)));
    if (e->call->inputs[input] == e->sharding.inputs[input]) {
        fprintf(file, "%s    as it is\n", indent);
    } else if (e->same_as[input] >= 0) {
        fprintf(file, "%s    with %s, which is the same tensor\n", indent,
                e->call->operation->inputs[e->same_as[input]].name);
    } else {
        weft_explanation_print_move(&plan, &statistics, indent, file);
    }
    weft_explained_reads_print(&reads, indent, file);
    return WEFT_OK;
}

weft_status weft_explanation_print(const weft_explanation *e, const char *indent, FILE *file)
{
    weft_status status = WEFT_OK;
    print_combinations(e, indent, file);
    for (int i = 0; i < e->call->num_inputs && status == WEFT_OK; i++) {
        status = print_input(e, i, indent, file);
    }
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        char name[16], text[200];
        snprintf(name, sizeof(name), e->sharding.num_outputs == 1 ? "output" : "output %d", o);
        fprintf(file, "%s%s  %s\n", indent, name,
                weft_layout_format(e->sharding.outputs[o], text, sizeof(text)));
    }
    return status;
}
