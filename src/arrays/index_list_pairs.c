/* The pairs of an index list, and what its hosted ranks name by position. */
#include <stdlib.h>
#include <string.h>

#include "arrays/index_list.h"

bool weft_index_list_fail_memory(const char *function)
{
    weft_fail_alone(WEFT_ERR_NOMEM, function, "no memory for an index list");
    return false;
}

int64_t weft_part_of_rank(const weft_index_list_impl *list, int rank)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(list->mesh, weft_mesh_index_of(list->mesh, rank), coordinate);
    return coordinate[list->mesh_dim];
}

int weft_rank_along(const weft_index_list_impl *list, int rank, int64_t part)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(list->mesh, weft_mesh_index_of(list->mesh, rank), coordinate);
    coordinate[list->mesh_dim] = part;
    return weft_mesh_rank_at(list->mesh, weft_mesh_ravel(list->mesh, coordinate));
}

static weft_row_pair *add_pair(weft_index_list_impl *list, int holder, int namer, int64_t count, int64_t first_place)
{
    weft_row_pair *pair = weft_vec_push(&list->pairs, sizeof(*pair));
    if (pair == NULL) {
        return NULL;
    }
    *pair = (weft_row_pair){ .holder = holder,
                             .namer = namer,
                             .holder_part = weft_part_of_rank(list, holder),
                             .namer_part = weft_part_of_rank(list, namer),
                             .count = count,
                             .rows = malloc((size_t)count * sizeof(int64_t)),
                             .first_place = first_place };
    return pair->rows == NULL ? NULL : pair;
}

/* The pairs of a hosted namer, whose rows are numbered within parts. */
static bool add_named(weft_index_list_impl *list, int namer, const weft_named_rows *named)
{
    for (int64_t part = 0; part < named->parts; part++) {
        int64_t count = named->begin[part + 1] - named->begin[part], offset, extent;
        weft_part_range(list->held, list->size, named->parts, part, &offset, &extent);
        weft_row_pair *pair =
            count == 0 ? NULL : add_pair(list, weft_rank_along(list, namer, part), namer, count, named->first_place[part]);
        if (count > 0 && pair == NULL) {
            return false;
        }
        for (int64_t k = 0; k < count; k++) {
            pair->rows[k] = offset + named->rows[named->begin[part] + k];
        }
    }
    return true;
}

/* The pairs of a hosted holder with namers of other processes; numbers[]: by part; rows[]: within the holder's part, by part. */
static bool add_held(weft_index_list_impl *list, int holder, int64_t parts, const int64_t numbers[], const int64_t rows[])
{
    int64_t offset, extent;
    weft_part_range(list->held, list->size, parts, weft_part_of_rank(list, holder), &offset, &extent);
    for (int64_t part = 0; part < parts; part++) {
        int64_t count = numbers[part * WEFT_PAIR_NUMBERS + WEFT_PAIR_COUNT];
        int namer = weft_rank_along(list, holder, part);
        if (count > 0 && !weft_hosts(namer)) {
            weft_row_pair *pair = add_pair(list, holder, namer, count, numbers[part * WEFT_PAIR_NUMBERS + WEFT_PAIR_PLACE]);
            if (pair == NULL) {
                return false;
            }
            for (int64_t k = 0; k < count; k++) {
                pair->rows[k] = offset + rows[k];
            }
        }
        rows += count;
    }
    return true;
}

static int by_namer(const void *a, const void *b)
{
    const weft_row_pair *p = a, *q = b;
    if (p->namer_part != q->namer_part) {
        return p->namer_part < q->namer_part ? -1 : 1;
    }
    if (p->namer != q->namer) {
        return p->namer < q->namer ? -1 : 1;
    }
    return weft_compare_i64(p->holder_part, q->holder_part);
}

/* Sorts the pairs, and finds the places of their rows in buffers. */
static void arrange(weft_index_list_impl *list)
{
    weft_row_pair *pairs = list->pairs.items;
    if (list->pairs.count > 0) {
        qsort(pairs, list->pairs.count, sizeof(*pairs), by_namer);
    }
    for (size_t i = 0; i < list->pairs.count; i++) {
        weft_row_pair *pair = &pairs[i];
        bool plain = pair->first_place >= 0;
        if (weft_hosts(pair->namer)) {
            weft_rank_names *names = &list->names[pair->namer - weft_runtime.first_rank];
            pair->received = names->num_received;
            pair->summed = names->num_summed;
            names->num_received += plain || weft_hosts(pair->holder) ? 0 : pair->count;
            names->num_summed += plain ? 0 : pair->count;
        }
    }
}

/* A hosted namer's numbers by position. */
static bool fill_names(weft_index_list_impl *list, int i, const weft_named_rows *named)
{
    weft_rank_names *names = &list->names[i];
    int64_t different = named->begin[named->parts];
    int64_t *place = malloc(((size_t)different + 1) * sizeof(*place)), *sum = malloc(((size_t)different + 1) * sizeof(*sum));
    names->count = named->count;
    names->places = malloc(((size_t)named->count + 1) * sizeof(int64_t));
    names->sums = malloc(((size_t)named->count + 1) * sizeof(int64_t));
    bool done = place != NULL && sum != NULL && names->places != NULL && names->sums != NULL;
    const weft_row_pair *pairs = list->pairs.items;
    for (int64_t row = 0; row < different && done; pairs++) {
        const weft_row_pair *pair = pairs;
        if (pair->namer != weft_hosted_rank(i)) {
            continue;
        }
        bool plain = pair->first_place >= 0, here = weft_hosts(pair->holder);
        for (int64_t k = 0; k < pair->count; k++, row++) {
            place[row] = here ? pair->rows[k] : list->size + (plain ? names->num_received : pair->received + k);
            sum[row] = plain ? names->num_summed : pair->summed + k;
        }
    }
    for (int64_t k = 0; k < named->count && done; k++) {
        names->places[k] = place[named->number[k]];
        names->sums[k] = sum[named->number[k]];
    }
    free(place);
    free(sum);
    return done;
}

/* The tensor of indices. False with the error kept. */
static bool make_indices(const char *function, weft_index_list_impl *list)
{
    int ranks = weft_runtime.local_ranks;
    int64_t one = 1, *counts = calloc((size_t)ranks + 1, sizeof(*counts)), **numbers = calloc((size_t)ranks + 1, sizeof(*numbers));
    const weft_layout *layout = weft_check_layout(function, list->mesh, NULL, 1, &one, WEFT_I64);
    weft_row_pair *pairs = list->pairs.items;
    bool done = counts != NULL && numbers != NULL;
    for (int i = 0; i < ranks && done; i++) {
        const weft_rank_names *names = &list->names[i];
        counts[i] = 2 * names->count;
        for (size_t p = 0; p < list->pairs.count; p++) {
            if (pairs[p].holder == weft_hosted_rank(i)) {
                pairs[p].indices = counts[i];
                counts[i] += pairs[p].count;
            }
        }
        numbers[i] = malloc(((size_t)counts[i] + 1) * sizeof(int64_t));
        done = numbers[i] != NULL;
        if (done && names->count > 0) {
            memcpy(numbers[i], names->places, (size_t)names->count * sizeof(int64_t));
            memcpy(numbers[i] + names->count, names->sums, (size_t)names->count * sizeof(int64_t));
        }
    }
    for (size_t p = 0; p < list->pairs.count && done; p++) {
        if (weft_hosts(pairs[p].holder)) {
            memcpy(numbers[pairs[p].holder - weft_runtime.first_rank] + pairs[p].indices, pairs[p].rows,
                   (size_t)pairs[p].count * sizeof(int64_t));
        }
    }
    list->indices = done && layout != NULL ? weft_indices_new(function, layout, counts, numbers) : NULL;
    for (int i = 0; i < ranks && numbers != NULL; i++) {
        free(numbers[i]);
    }
    free(numbers);
    free(counts);
    return (done || weft_index_list_fail_memory(function)) && list->indices != NULL;
}

bool weft_index_list_complete(const char *function, weft_index_list_impl *list, const weft_named_rows named[], const int64_t held[],
                              int64_t *const requests[])
{
    int64_t parts = list->mesh->shape[list->mesh_dim];
    bool done = true;
    list->names = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*list->names));
    for (int i = 0; i < weft_runtime.local_ranks && done && list->names != NULL; i++) {
        if (weft_mesh_index_of(list->mesh, weft_hosted_rank(i)) >= 0) {
            done = add_named(list, weft_hosted_rank(i), &named[i]) &&
                   add_held(list, weft_hosted_rank(i), parts, held + i * parts * WEFT_PAIR_NUMBERS, requests[i]);
        }
    }
    if (!done || list->names == NULL) {
        return weft_index_list_fail_memory(function);
    }
    arrange(list);
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        done = fill_names(list, i, &named[i]);
    }
    return done ? make_indices(function, list) : weft_index_list_fail_memory(function);
}
