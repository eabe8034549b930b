/* Making an index list: each rank tells the holders of the rows that it names how many these are, and then which. The second
 * message is an exchange like those of the finished list: that of the named rows as rows of a tensor. */
#include <stdlib.h>
#include <string.h>

#include "arrays/index_list.h"
#include "comm/check_spmd.h"

/* The numbers that a rank tells all others. */
enum { RANK_COUNT, RANK_DIGEST, RANK_NAMED, RANK_NUMBERS };
/* A process's numbers before those of its ranks: an index out of range, if there is one. */
enum { BAD_RANK = WEFT_NUMBERS_OWN, BAD_POSITION, BAD_VALUE, HEADER };
typedef struct making {
    const weft_index_list_arguments *given;
    const char *function;
    weft_index_list_impl *list;
    int64_t parts;
    weft_named_rows *named; /* of each hosted rank */
    int64_t *held;          /* by hosted rank and namer's part: WEFT_PAIR_NUMBERS */
    int64_t **requests;     /* by hosted rank: the rows that its namers name, by part */
} making;

static bool is_member(const making *m, int i)
{
    return weft_mesh_index_of(m->list->mesh, weft_hosted_rank(i)) >= 0;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

bool weft_check_row_cut(const char *function, const weft_row_cut_arguments *given, int *mesh_dim, weft_placement *cut)
{
    weft_placement placements[WEFT_MAX_DIMS];
    *mesh_dim = -1;
    if (given->placements == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", given->name);
        return false;
    }
    if (given->size < 0) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is %lld, expected at least 0", given->size_name, (long long)given->size);
        return false;
    }
    if (!weft_check_shape(function, 1, &given->size) ||
        weft_check_layout(function, given->mesh, given->placements, 1, &given->size, WEFT_I64) == NULL ||
        !weft_check_placements(function, given->mesh, given->placements, 1, placements)) {
        return false;
    }
    for (int d = 0; d < given->mesh->ndim; d++) {
        bool again = placements[d].kind == WEFT_SHARD && *mesh_dim >= 0;
        if (again || placements[d].kind == WEFT_PARTIAL) {
            weft_fail(WEFT_ERR_LAYOUT, function, "%s[%d] is %s: one Shard of dimension 0 is expected, else Replicate", given->name, d,
                      again ? "another Shard" : "Partial");
            return false;
        }
        if (placements[d].kind == WEFT_SHARD) {
            *mesh_dim = d;
            *cut = placements[d];
            cut->level = 0;
        }
    }
    if (*mesh_dim < 0) {
        weft_fail(WEFT_ERR_LAYOUT, function, "%s has no Shard of dimension 0", given->name);
    }
    return *mesh_dim >= 0;
}

static bool check_placements(const making *m)
{
    weft_index_list_impl *list = m->list;
    return weft_check_row_cut(m->function,
                              &(weft_row_cut_arguments){ list->mesh, m->given->placements, "placements", list->size, "size" },
                              &list->mesh_dim, &list->held);
}

static bool check_lists(const making *m)
{
    const weft_index_list_arguments *given = m->given;
    if (given->counts == NULL) {
        weft_fail(WEFT_ERR_INVALID, m->function, "counts is NULL");
        return false;
    }
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int64_t count = given->counts[i];
        const char *wrong = count < 0                             ? "negative"
                            : count > 0 && !is_member(m, i)       ? "more than 0, and the rank is outside the mesh"
                            : count > 0 && given->indices == NULL ? "more than 0, and indices is NULL"
                                                                  : NULL;
        if (wrong != NULL) {
            weft_fail(WEFT_ERR_INVALID, m->function, "counts[%d], %lld, is %s", i, (long long)count, wrong);
            return false;
        }
    }
    return true;
}

/* Finds the first index out of range. */
static void find_bad(const making *m, int64_t header[])
{
    const int64_t *indices = m->given->indices;
    header[BAD_RANK] = -1;
    for (int i = 0; i < weft_runtime.local_ranks && header[BAD_RANK] < 0; i++) {
        for (int64_t k = 0; k < m->given->counts[i] && header[BAD_RANK] < 0; k++) {
            int64_t index = *indices++;
            if (index < 0 || index >= m->list->size) {
                header[BAD_RANK] = weft_hosted_rank(i);
                header[BAD_POSITION] = k;
                header[BAD_VALUE] = index;
            }
        }
    }
}

/* ---- numbers of all ranks ---------------------------------------------------------------------------------------- */

bool weft_rank_numbers_gather(const char *function, int header, int each, const int64_t mine[], int64_t **all, int64_t **ranks)
{
    int stride = header + each * weft_most_local_ranks();
    *all = malloc((size_t)stride * (size_t)weft_runtime.num_processes * sizeof(**all));
    *ranks = malloc((size_t)each * (size_t)weft_runtime.topology.num_ranks * sizeof(**ranks));
    if (*all == NULL || *ranks == NULL) {
        return weft_index_list_fail_memory(function);
    }
    if (!weft_numbers_gather(function, stride, mine, *all)) {
        return false;
    }
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        int first = weft_runtime.first_rank_of[p], count = weft_runtime.first_rank_of[p + 1] - first;
        memcpy(*ranks + (ptrdiff_t)first * each, *all + (ptrdiff_t)p * stride + header, (size_t)(count * each) * sizeof(**ranks));
    }
    return true;
}

/* The first index out of range of all processes, named by each of them. */
static bool check_range(const making *m, const int64_t all[], int stride)
{
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        const int64_t *header = all + (ptrdiff_t)p * stride;
        if (header[WEFT_NUMBERS_STATUS] == WEFT_OK && header[BAD_RANK] >= 0) {
            weft_fail(WEFT_ERR_INVALID, m->function, "indices of rank %lld: entry %lld is %lld, expected 0 to %lld",
                      (long long)header[BAD_RANK], (long long)header[BAD_POSITION], (long long)header[BAD_VALUE],
                      (long long)m->list->size - 1);
            return false;
        }
    }
    return true;
}

/* Whether ranks of one part name the same; the counts of the parts. */
static bool check_lines(making *m, const int64_t ranks[], int64_t counts[])
{
    const weft_mesh_impl *mesh = m->list->mesh;
    for (int64_t i = 0; i < mesh->num_ranks; i++) {
        int rank = weft_mesh_rank_at(mesh, i);
        int first = weft_rank_along(m->list, weft_mesh_rank_at(mesh, 0), weft_part_of_rank(m->list, rank));
        const int64_t *own = ranks + (ptrdiff_t)rank * RANK_NUMBERS, *other = ranks + (ptrdiff_t)first * RANK_NUMBERS;
        if (own[RANK_COUNT] != other[RANK_COUNT] || own[RANK_DIGEST] != other[RANK_DIGEST]) {
            weft_fail(WEFT_ERR_INVALID, m->function,
                      "ranks %d and %d name different indices, and differ only in mesh dimensions along which nothing is cut", first, rank);
            return false;
        }
        counts[weft_part_of_rank(m->list, rank)] = own[RANK_COUNT];
    }
    return true;
}

static weft_placement cut_in(int64_t parts, const int64_t sizes[])
{
    return weft_shard_sizes(0, (int)parts, sizes);
}

static bool find_named(making *m, int64_t numbers[])
{
    bool done = true;
    const int64_t *indices = m->given->indices;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int64_t count = m->given->counts[i], *own = numbers + (ptrdiff_t)i * RANK_NUMBERS;
        uint64_t digest = 0;
        for (int64_t k = 0; k < count; k++) {
            digest = weft_digest_add(digest, (uint64_t)indices[k]);
        }
        done = weft_named_rows_find(&m->named[i], m->list->held, m->list->size, m->parts, count, indices);
        indices = count == 0 ? indices : indices + count;
        own[RANK_COUNT] = count;
        own[RANK_DIGEST] = (int64_t)digest;
        own[RANK_NAMED] = done ? m->named[i].begin[m->parts] : 0;
    }
    return done;
}

/* `right`: this process's arguments are, but for indices out of range; else its error is kept. The named rows of all hosted ranks, and
 * the counts of all. False with the error kept, on all processes alike. */
static bool agree(making *m, bool right, int64_t **ranks)
{
    int stride = HEADER + RANK_NUMBERS * weft_most_local_ranks();
    int64_t *mine = calloc((size_t)stride, sizeof(*mine)), *all = NULL;
    if (mine == NULL) {
        return weft_index_list_fail_memory(m->function);
    }
    mine[BAD_RANK] = -1;
    mine[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    if (right) {
        const weft_index_list_impl *list = m->list;
        const weft_layout *layout =
            weft_check_layout(m->function, list->mesh, m->given->placements, 1, &list->size, WEFT_I64);
        mine[WEFT_NUMBERS_FINGERPRINT] =
            layout == NULL ? 0 : (int64_t)weft_digest_add(layout->digest, list->mesh->digest);
        find_bad(m, mine);
        if (mine[BAD_RANK] < 0 && !find_named(m, mine + HEADER)) {
            free(mine);
            return weft_index_list_fail_memory(m->function);
        }
    }
    bool done = weft_rank_numbers_gather(m->function, HEADER, RANK_NUMBERS, mine, &all, ranks) &&
                weft_numbers_agree(m->function, stride, all, right) && check_range(m, all, stride);
    free(mine);
    free(all);
    return done;
}

/* ---- how many rows each pair has ----------------------------------------------------------------------------------- */

/* A tensor of the hosted ranks' numbers. Belongs to the innermost scope; NULL with the error kept. */
static weft_tensor_impl *import(const making *m, weft_placement along, int ndim, const int64_t shape[], int64_t *const numbers[])
{
    const weft_index_list_impl *list = m->list;
    weft_placement placements[WEFT_MAX_DIMS];
    for (int d = 0; d < list->mesh->ndim; d++) {
        placements[d] = d == list->mesh_dim ? along : weft_replicate();
    }
    const weft_layout *layout = weft_check_layout(m->function, list->mesh, placements, ndim, shape, WEFT_I64);
    return layout == NULL ? NULL : weft_tensor_import(m->function, layout, (void *const *)numbers, true);
}

/* Reads the shards of hosted ranks. False with the error kept. */
static bool read_shards(const making *m, const weft_tensor_impl *tensor, int64_t *const numbers[])
{
    bool done = true;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        done = tensor->shards[i].count == 0 || weft_shard_read(m->function, tensor, i, numbers[i]) == WEFT_OK;
    }
    return done;
}

/* Each namer's numbers for each holder become each holder's for each namer: a table cut by rows becomes one cut by columns. */
static bool tell_counts(making *m)
{
    int64_t row = m->parts * WEFT_PAIR_NUMBERS, shape[] = { m->parts, m->parts, WEFT_PAIR_NUMBERS };
    int64_t *told = calloc((size_t)(weft_runtime.local_ranks * row) + 1, sizeof(*told));
    int64_t **from = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*from));
    int64_t **to = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*to));
    bool done = told != NULL && from != NULL && to != NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        from[i] = told + i * row;
        to[i] = m->held + i * row;
        for (int64_t part = 0; part < m->parts; part++) {
            from[i][part * WEFT_PAIR_NUMBERS + WEFT_PAIR_COUNT] = m->named[i].begin[part + 1] - m->named[i].begin[part];
            from[i][part * WEFT_PAIR_NUMBERS + WEFT_PAIR_PLACE] = m->named[i].first_place[part];
            from[i][part * WEFT_PAIR_NUMBERS + WEFT_PAIR_BEGIN] = m->named[i].begin[part];
        }
    }
    weft_tensor_impl *by_namer = done ? import(m, weft_shard(0), 3, shape, from) : NULL;
    weft_tensor_impl *by_holder = NULL;
    if (by_namer != NULL) {
        weft_placement placements[WEFT_MAX_DIMS];
        memcpy(placements, by_namer->layout->placements, sizeof(placements));
        placements[m->list->mesh_dim] = weft_shard(1);
        const weft_layout *layout = weft_check_layout(m->function, m->list->mesh, placements, 3, shape, WEFT_I64);
        by_holder = layout == NULL ? NULL : weft_tensor_to_layout(m->function, by_namer, layout);
    }
    done = (done || weft_index_list_fail_memory(m->function)) && by_holder != NULL && read_shards(m, by_holder, to);
    free(told);
    free(from);
    free(to);
    return done;
}

/* ---- which rows these are ------------------------------------------------------------------------------------------- */

/* The list of an exchange that brings the named rows to their holders: its holders are the namers, and its rows are numbers of rows. */
typedef struct request {
    weft_index_list_impl *list;
    weft_named_rows *named; /* by hosted rank: what it gets, as what it names */
    int64_t *held;          /* by hosted rank and part, as making.held */
    int64_t **rows;         /* by hosted rank: as requests[] of weft_index_list_complete() */
    int64_t **names;        /* by hosted rank: the rows that it names */
} request;

static void free_request(request *r)
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        if (r->named != NULL) {
            weft_named_rows_free(&r->named[i]);
        }
        if (r->rows != NULL) {
            free(r->rows[i]);
        }
    }
    free(r->named);
    free(r->held);
    free(r->rows);
    free(r->names);
    weft_index_list_free(r->list);
}

/* Rows that a hosted rank holds and others name, as what it names of the request. */
static bool name_request(const making *m, request *r, int i)
{
    const int64_t *held = m->held + i * m->parts * WEFT_PAIR_NUMBERS;
    weft_named_rows *named = &r->named[i];
    int64_t count = 0;
    for (int64_t part = 0; part < m->parts; part++) {
        count += held[part * WEFT_PAIR_NUMBERS + WEFT_PAIR_COUNT];
    }
    *named = (weft_named_rows){ .parts = m->parts,
                                .count = count,
                                .begin = calloc((size_t)m->parts + 1, sizeof(int64_t)),
                                .rows = malloc(((size_t)count + 1) * sizeof(int64_t)),
                                .number = malloc(((size_t)count + 1) * sizeof(int64_t)),
                                .first_place = malloc((size_t)m->parts * sizeof(int64_t)) };
    if (named->begin == NULL || named->rows == NULL || named->number == NULL || named->first_place == NULL) {
        return false;
    }
    for (int64_t part = 0, row = 0; part < m->parts; part++) {
        const int64_t *pair = held + part * WEFT_PAIR_NUMBERS;
        for (int64_t k = 0; k < pair[WEFT_PAIR_COUNT]; k++, row++) {
            named->rows[row] = pair[WEFT_PAIR_BEGIN] + k;
            named->number[row] = row;
        }
        named->begin[part + 1] = row;
        named->first_place[part] = -1; /* the sender does not know it */
    }
    return true;
}

/* Makes the rows that a hosted rank names those that it holds in the request. */
static bool hold_request(const making *m, request *r, int i)
{
    const weft_named_rows *named = &m->named[i];
    int64_t *held = r->held + i * m->parts * WEFT_PAIR_NUMBERS, count = named->begin[m->parts];
    r->rows[i] = malloc(((size_t)count + 1) * sizeof(int64_t));
    r->names[i] = named->rows;
    for (int64_t part = 0; part < m->parts; part++) {
        held[part * WEFT_PAIR_NUMBERS + WEFT_PAIR_COUNT] = named->begin[part + 1] - named->begin[part];
        held[part * WEFT_PAIR_NUMBERS + WEFT_PAIR_PLACE] = -1;
    }
    for (int64_t k = 0; k < count && r->rows[i] != NULL; k++) {
        r->rows[i][k] = k;
    }
    return r->rows[i] != NULL;
}

static weft_index_list_impl *new_list(const weft_mesh_impl *mesh, int mesh_dim, int64_t size, weft_placement held)
{
    weft_index_list_impl *list = calloc(1, sizeof(*list));
    if (list != NULL) {
        *list = (weft_index_list_impl){ .mesh = mesh, .mesh_dim = mesh_dim, .size = size, .held = held };
    }
    return list;
}

/* named_sizes[], held_sizes[]: rows that each part names, without repetition, and rows that others name of each. */
static bool make_request(const making *m, request *r, const int64_t named_sizes[], const int64_t held_sizes[])
{
    size_t ranks = (size_t)weft_runtime.local_ranks + 1;
    int64_t total = 0;
    for (int64_t part = 0; part < m->parts; part++) {
        total += named_sizes[part];
    }
    r->named = calloc(ranks, sizeof(*r->named));
    r->held = calloc(ranks * (size_t)(m->parts * WEFT_PAIR_NUMBERS), sizeof(*r->held));
    r->rows = calloc(ranks, sizeof(*r->rows));
    r->names = calloc(ranks, sizeof(*r->names));
    r->list = new_list(m->list->mesh, m->list->mesh_dim, total, cut_in(m->parts, named_sizes));
    bool done = r->named != NULL && r->held != NULL && r->rows != NULL && r->names != NULL && r->list != NULL;
    if (done) {
        r->list->total = total;
        r->list->named = cut_in(m->parts, held_sizes);
    }
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        done = name_request(m, r, i) && hold_request(m, r, i);
    }
    return done ? weft_index_list_complete(m->function, r->list, r->named, r->held, r->rows) : weft_index_list_fail_memory(m->function);
}

/* Brings the named rows to their holders: m->requests. False with the error kept. */
static bool tell_rows(making *m, const int64_t named_sizes[], const int64_t held_sizes[])
{
    request r = { .list = NULL };
    bool done = make_request(m, &r, named_sizes, held_sizes);
    weft_tensor_impl *from = NULL, *to = NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        m->requests[i] = malloc(((size_t)r.named[i].count + 1) * sizeof(int64_t));
        done = m->requests[i] != NULL || weft_index_list_fail_memory(m->function);
    }
    if (done) {
        from = import(m, r.list->held, 1, &r.list->size, r.names);
        to = from == NULL ? NULL : weft_index_list_run(m->function, r.list, false, from);
        done = to != NULL && read_shards(m, to, m->requests);
    }
    free_request(&r);
    return done;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------ */

/* Rows that others name of each part. False with the error kept. */
static bool gather_held(const making *m, int64_t held_sizes[])
{
    int64_t *mine = calloc((size_t)weft_most_local_ranks() + 1, sizeof(*mine)), *all = NULL, *ranks = NULL;
    bool done = mine != NULL || weft_index_list_fail_memory(m->function);
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        for (int64_t part = 0; part < m->parts; part++) {
            mine[i] += m->held[(i * m->parts + part) * WEFT_PAIR_NUMBERS + WEFT_PAIR_COUNT];
        }
    }
    done = done && weft_rank_numbers_gather(m->function, 0, 1, mine, &all, &ranks);
    for (int64_t i = 0; i < m->list->mesh->num_ranks && done; i++) {
        int rank = weft_mesh_rank_at(m->list->mesh, i);
        held_sizes[weft_part_of_rank(m->list, rank)] = ranks[rank];
    }
    free(mine);
    free(all);
    free(ranks);
    return done;
}

static bool obtain(making *m)
{
    size_t ranks = (size_t)weft_runtime.local_ranks + 1;
    m->named = calloc(ranks, sizeof(*m->named));
    m->held = calloc(ranks * (size_t)(m->parts * WEFT_PAIR_NUMBERS), sizeof(*m->held));
    m->requests = calloc(ranks, sizeof(*m->requests));
    return (m->named != NULL && m->held != NULL && m->requests != NULL) || weft_index_list_fail_memory(m->function);
}

static void free_making(making *m)
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        if (m->named != NULL) {
            weft_named_rows_free(&m->named[i]);
        }
        if (m->requests != NULL) {
            free(m->requests[i]);
        }
    }
    free(m->named);
    free(m->held);
    free(m->requests);
}

/* After all processes have agreed. */
static bool exchange_names(making *m, const int64_t ranks[])
{
    int64_t *counts = calloc(3 * (size_t)m->parts, sizeof(*counts));
    if (counts == NULL) {
        return weft_index_list_fail_memory(m->function);
    }
    int64_t *named = counts + m->parts, *held = named + m->parts;
    bool done = check_lines(m, ranks, counts) && tell_counts(m) && gather_held(m, held);
    for (int64_t i = 0; i < m->list->mesh->num_ranks && done; i++) {
        int rank = weft_mesh_rank_at(m->list->mesh, i);
        named[weft_part_of_rank(m->list, rank)] = ranks[(ptrdiff_t)rank * RANK_NUMBERS + RANK_NAMED];
    }
    if (done) {
        m->list->named = cut_in(m->parts, counts);
        for (int64_t part = 0; part < m->parts; part++) {
            m->list->total += counts[part];
        }
        done = tell_rows(m, named, held) && weft_index_list_complete(m->function, m->list, m->named, m->held, m->requests);
    }
    free(counts);
    return done;
}

weft_index_list_impl *weft_index_list_make(const weft_index_list_arguments *arguments)
{
    making m = { .given = arguments, .function = arguments->function };
    const weft_mesh_impl *mesh = weft_check_mesh(m.function, arguments->mesh);
    m.list = new_list(mesh, 0, arguments->size, weft_replicate());
    if (m.list == NULL) {
        weft_index_list_fail_memory(m.function);
        return NULL;
    }
    int64_t *ranks = NULL;
    bool right = mesh != NULL && !arguments->refused && check_placements(&m) && check_lists(&m);
    m.parts = right ? mesh->shape[m.list->mesh_dim] : 1;
    weft_scope_begin();
    bool done = obtain(&m) && agree(&m, right, &ranks) && exchange_names(&m, ranks);
    weft_scope_end_own();
    free(ranks);
    free_making(&m);
    if (!done) {
        weft_index_list_free(m.list);
        m.list = NULL;
    }
    return m.list;
}
