/* Making the structure of a sparse matrix of coordinates: these go to the ranks that hold their rows, which sort them into rows, and
 * tell the ranks that named them which entries they have become. Both by one index list: the coordinates, sorted by holder, are
 * rows of a tensor, which their holders name. */
#include <stdlib.h>
#include <string.h>

#include "arrays/sparse.h"

/* A process's numbers before those of its ranks: coordinates out of range, if there are any. */
enum { BAD_RANK = WEFT_NUMBERS_OWN, BAD_POSITION, BAD_ROW, BAD_COLUMN, HEADER };
/* The numbers that a rank tells all others. */
enum { RANK_COUNT, RANK_DIGEST, RANK_NUMBERS };
/* Two numbers for each holder: the coordinates that it has for it, as rows of the tensor of all. */
enum { RUN_FIRST, RUN_COUNT, RUN_NUMBERS };

/* A coordinate that a rank holds. */
typedef struct held {
    int64_t row, column;
    int64_t place; /* among those that the rank names of others: in their order */
} held;

/* The coordinates of a hosted rank. */
typedef struct part {
    int64_t count, *order;     /* those that it gives: the sorted ones' places */
    int64_t *pairs;            /* sorted by holder: row, column */
    int64_t *told, *heard;     /* runs by holder, and by the part that has them for this rank */
    int64_t received, *places; /* those of its rows, as rows of the tensor of all */
    int64_t *received_pairs;   /* also entries by place, later */
    int64_t *offsets, *columns;
} part;

typedef struct making {
    const weft_coo_arguments *given;
    const char *function;
    weft_sparse_impl cuts;
    int64_t parts, total;
    part *ranks;      /* hosted */
    int64_t *numbers; /* RANK_NUMBERS of all ranks */
} making;

static bool fail_memory(const char *function)
{
    weft_fail(WEFT_ERR_NOMEM, function, "no memory for the structure of a sparse matrix");
    return false;
}

/* Whether all processes are right. False with the error kept, on all of them: none waits for one that has no memory. */
static bool all_are_right(const making *m, bool right)
{
    int64_t own[WEFT_NUMBERS_OWN] = { 0 }, *all = malloc(WEFT_NUMBERS_OWN * (size_t)weft_runtime.num_processes * sizeof(*all));
    own[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    bool done = (all != NULL || fail_memory(m->function)) && weft_numbers_gather(m->function, WEFT_NUMBERS_OWN, own, all) &&
                weft_numbers_agree(m->function, WEFT_NUMBERS_OWN, all, right);
    free(all);
    return done;
}

/* ---- those of this process -------------------------------------------------------------------------------------------- */

static bool check_counts(const making *m)
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int64_t count = m->given->counts[i];
        bool missing = count > 0 && (m->given->rows == NULL || m->given->columns == NULL);
        bool outside = count > 0 && weft_mesh_index_of(m->cuts.mesh, weft_hosted_rank(i)) < 0;
        if (count < 0 || missing || outside) {
            weft_fail(WEFT_ERR_INVALID, m->function, "counts[%d], %lld, is %s", i, (long long)count,
                      count < 0 ? "negative"
                      : missing ? "more than 0, and row_indices or column_indices is NULL"
                                : "more than 0, and the rank is outside the mesh");
            return false;
        }
    }
    return true;
}

static bool is_inside(const making *m, int64_t row, int64_t column)
{
    return row >= 0 && row < m->cuts.rows && column >= 0 && column < m->cuts.columns;
}

static bool find_bad(const making *m, int64_t header[])
{
    int64_t k = 0;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        for (int64_t position = 0; position < m->given->counts[i]; position++, k++) {
            if (!is_inside(m, m->given->rows[k], m->given->columns[k])) {
                header[BAD_RANK] = weft_hosted_rank(i);
                header[BAD_POSITION] = position;
                header[BAD_ROW] = m->given->rows[k];
                header[BAD_COLUMN] = m->given->columns[k];
                return true;
            }
        }
    }
    return false;
}

/* The part that holds a row: the last one that begins at it or before, and is not empty. */
static int64_t holder_of(const int64_t begin[], int64_t parts, int64_t row)
{
    int64_t low = 0, high = parts;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (begin[middle] <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Sorts the coordinates of a hosted rank by their holders, which keeps their order. */
static bool sort_part(const making *m, int i, const int64_t rows[], const int64_t columns[], const int64_t begin[], int64_t numbers[])
{
    part *p = &m->ranks[i];
    p->count = m->given->counts[i];
    p->order = malloc(((size_t)p->count + 1) * sizeof(int64_t));
    p->pairs = malloc((2 * (size_t)p->count + 1) * sizeof(int64_t));
    p->told = calloc(RUN_NUMBERS * (size_t)m->parts, sizeof(int64_t));
    p->heard = calloc(RUN_NUMBERS * (size_t)m->parts, sizeof(int64_t));
    bool done = p->order != NULL && p->pairs != NULL && p->told != NULL && p->heard != NULL;
    uint64_t digest = (uint64_t)p->count;
    for (int64_t k = 0; k < p->count && done; k++) {
        p->told[RUN_NUMBERS * holder_of(begin, m->parts, rows[k]) + RUN_COUNT]++;
        digest = weft_digest_add(weft_digest_add(digest, (uint64_t)rows[k]), (uint64_t)columns[k]);
    }
    for (int64_t of = 0, next = 0; of < m->parts && done; of++) {
        p->told[RUN_NUMBERS * of + RUN_FIRST] = next;
        next += p->told[RUN_NUMBERS * of + RUN_COUNT];
    }
    for (int64_t k = 0; k < p->count && done; k++) {
        int64_t place = p->told[RUN_NUMBERS * holder_of(begin, m->parts, rows[k]) + RUN_FIRST]++;
        p->order[place] = k;
        p->pairs[2 * place] = rows[k];
        p->pairs[2 * place + 1] = columns[k];
    }
    for (int64_t of = 0; of < m->parts && done; of++) {
        p->told[RUN_NUMBERS * of + RUN_FIRST] -= p->told[RUN_NUMBERS * of + RUN_COUNT];
    }
    numbers[RANK_COUNT] = p->count;
    numbers[RANK_DIGEST] = (int64_t)digest;
    return done;
}

static bool sort_parts(const making *m, int64_t mine[])
{
    int64_t *begin = malloc(((size_t)m->parts + 1) * sizeof(*begin)), extent;
    const int64_t *rows = m->given->rows, *columns = m->given->columns;
    bool done = begin != NULL;
    for (int64_t of = 0; of < m->parts && done; of++) {
        weft_part_range(m->cuts.row_cut, m->cuts.rows, m->parts, of, &begin[of], &extent);
    }
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        int64_t count = m->given->counts[i];
        done = sort_part(m, i, rows, columns, begin, mine + HEADER + (ptrdiff_t)i * RANK_NUMBERS);
        rows = count == 0 ? rows : rows + count;
        columns = count == 0 ? columns : columns + count;
    }
    free(begin);
    return done || fail_memory(m->function);
}

/* ---- agreement ---------------------------------------------------------------------------------------------------------- */

static bool check_range(const making *m, const int64_t all[], int stride)
{
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        const int64_t *header = all + (ptrdiff_t)p * stride;
        if (header[BAD_RANK] >= 0) {
            weft_fail(WEFT_ERR_INVALID, m->function, "coordinates of rank %lld: entry %lld is (%lld, %lld), and the matrix %lld x %lld",
                      (long long)header[BAD_RANK], (long long)header[BAD_POSITION], (long long)header[BAD_ROW],
                      (long long)header[BAD_COLUMN], (long long)m->cuts.rows, (long long)m->cuts.columns);
            return false;
        }
    }
    return true;
}

/* The numbers of the rank of a part, along the line of another rank. */
static const int64_t *numbers_of(const making *m, int rank, int64_t of)
{
    const weft_index_list_impl line = { .mesh = m->cuts.mesh, .mesh_dim = m->cuts.mesh_dim };
    return m->numbers + (ptrdiff_t)weft_rank_along(&line, rank, of) * RANK_NUMBERS;
}

/* Whether ranks of one part give the same. False with the error kept. */
static bool check_lines(const making *m)
{
    const weft_mesh_impl *mesh = m->cuts.mesh;
    const weft_index_list_impl line = { .mesh = mesh, .mesh_dim = m->cuts.mesh_dim };
    for (int64_t i = 0; i < mesh->num_ranks; i++) {
        int rank = weft_mesh_rank_at(mesh, i), first = weft_mesh_rank_at(mesh, 0);
        int64_t of = weft_part_of_rank(&line, rank);
        if (memcmp(numbers_of(m, rank, of), numbers_of(m, first, of), RANK_NUMBERS * sizeof(int64_t)) != 0) {
            weft_fail(WEFT_ERR_INVALID, m->function,
                      "ranks %d and %d give different coordinates, and differ only in mesh dimensions along which nothing is cut",
                      weft_rank_along(&line, first, of), rank);
            return false;
        }
    }
    return true;
}

/* Each rank tells the holders its runs: a square of numbers by givers becomes one by holders. False with the error kept. */
static bool exchange_runs(const making *m)
{
    const int ranks = weft_runtime.local_ranks;
    const int64_t shape[] = { m->parts, m->parts, RUN_NUMBERS };
    const weft_layout *by_giver = weft_sparse_layout(m->function, &m->cuts, weft_shard(0), 3, shape, WEFT_I64);
    const weft_layout *by_holder = weft_sparse_layout(m->function, &m->cuts, weft_shard(1), 3, shape, WEFT_I64);
    void **told = calloc((size_t)ranks + 1, sizeof(*told));
    for (int i = 0; i < ranks && told != NULL; i++) {
        told[i] = m->ranks[i].told;
    }
    const bool ready = (told != NULL || fail_memory(m->function)) && by_giver != NULL && by_holder != NULL;
    weft_tensor_impl *given = ready ? weft_tensor_import(m->function, by_giver, told, true) : NULL;
    const bool right = all_are_right(m, given != NULL);
    weft_tensor_impl *heard = right ? weft_tensor_to_layout(m->function, given, by_holder) : NULL;
    bool done = heard != NULL;
    for (int i = 0; i < ranks && done; i++) {
        done = heard->shards[i].count == 0 || weft_shard_read(m->function, heard, i, m->ranks[i].heard) == WEFT_OK;
    }
    free(told);
    return done;
}

/* False with the error kept, on all processes alike. Processes that have no mesh, or another one, tell fewer numbers or others: so the
 * arguments are compared first. */
static bool agree(making *m, bool right)
{
    int64_t first[WEFT_NUMBERS_OWN] = { 0 }, *all = malloc(WEFT_NUMBERS_OWN * (size_t)weft_runtime.num_processes * sizeof(*all));
    right = right && weft_sparse_check_cuts(&m->given->csr, &m->cuts) && check_counts(m);
    first[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    /* Whether a list of the coordinates is made, too: all processes make it. */
    first[WEFT_NUMBERS_FINGERPRINT] =
        right ? (int64_t)weft_digest_add((uint64_t)weft_sparse_fingerprint(&m->given->csr, &m->cuts), m->given->lists) : 0;
    bool done = (all != NULL || fail_memory(m->function)) && weft_numbers_gather(m->function, WEFT_NUMBERS_OWN, first, all) &&
                weft_numbers_agree(m->function, WEFT_NUMBERS_OWN, all, right);
    free(all);
    all = NULL;
    m->parts = done ? m->cuts.mesh->shape[m->cuts.mesh_dim] : 0;
    const int stride = HEADER + RANK_NUMBERS * weft_most_local_ranks();
    int64_t *mine = done ? calloc((size_t)stride, sizeof(*mine)) : NULL;
    if (!done || !all_are_right(m, mine != NULL || fail_memory(m->function))) {
        free(mine);
        return false;
    }
    mine[BAD_RANK] = -1;
    right = find_bad(m, mine) || sort_parts(m, mine);
    mine[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    done = weft_rank_numbers_gather(m->function, HEADER, RANK_NUMBERS, mine, &all, &m->numbers) &&
           weft_numbers_agree(m->function, stride, all, right) && check_range(m, all, stride) && check_lines(m) && exchange_runs(m);
    free(mine);
    free(all);
    return done;
}

/* ---- to the holders of rows, and back ------------------------------------------------------------------------------------- */

/* The sorted coordinates that a hosted rank holds, as rows of the tensor of all. */
static bool name_places(making *m, int i)
{
    part *p = &m->ranks[i];
    const int rank = weft_hosted_rank(i);
    const bool member = weft_mesh_index_of(m->cuts.mesh, rank) >= 0;
    for (int64_t from = 0; from < m->parts && member; from++) {
        p->received += p->heard[RUN_NUMBERS * from + RUN_COUNT];
    }
    p->places = malloc(((size_t)p->received + 1) * sizeof(int64_t));
    p->received_pairs = malloc((2 * (size_t)p->received + 1) * sizeof(int64_t));
    for (int64_t from = 0, next = 0, row = 0; from < m->parts && member && p->places != NULL; from++) {
        const int64_t *run = p->heard + RUN_NUMBERS * from;
        for (int64_t k = 0; k < run[RUN_COUNT]; k++) {
            p->places[next++] = row + run[RUN_FIRST] + k;
        }
        row += numbers_of(m, rank, from)[RANK_COUNT];
    }
    return p->places != NULL && p->received_pairs != NULL;
}

/* How the coordinates lie that the ranks give. */
static weft_placement cut_of_coordinates(making *m)
{
    const int first = weft_mesh_rank_at(m->cuts.mesh, 0);
    int64_t *sizes = calloc((size_t)m->parts, sizeof(*sizes));
    weft_placement cut = weft_shard(0);
    m->total = 0;
    for (int64_t of = 0; of < m->parts && sizes != NULL; of++) {
        sizes[of] = numbers_of(m, first, of)[RANK_COUNT];
        m->total += sizes[of];
    }
    if (sizes != NULL) {
        cut = weft_shard_sizes(0, (int)m->parts, sizes);
    }
    free(sizes);
    return cut;
}

/* A list of indices of each hosted rank; not `right`: there is none, with the error kept. NULL with the error kept. */
static weft_index_list *list_of(const making *m, bool right, weft_placement cut, int64_t size, const int64_t counts[],
                                int64_t *const indices[])
{
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t total = 0;
    for (int i = 0; i < weft_runtime.local_ranks && right; i++) {
        total += counts[i];
    }
    int64_t *together = right ? malloc(((size_t)total + 1) * sizeof(*together)) : NULL, *next = together;
    for (int i = 0; i < weft_runtime.local_ranks && together != NULL; next += counts[i++]) {
        memcpy(next, indices[i], (size_t)counts[i] * sizeof(*next));
    }
    weft_sparse_place(&m->cuts, cut, placements);
    const bool refused = !right || (together == NULL && !fail_memory(m->function));
    const weft_index_list_arguments given = { m->function, size, m->cuts.mesh->handle, placements, counts, together, refused };
    weft_index_list *list = weft_index_list_new(&given);
    free(together);
    return list;
}

/* Brings numbers along a list, or back: `width` of each coordinate, from one array for each hosted rank to another. False with the
 * error kept. */
static bool bring(const making *m, weft_index_list *list, bool back, weft_placement cut, int64_t width, int64_t *const from[],
                  int64_t *const to[])
{
    const weft_layout *layout =
        weft_sparse_layout(m->function, &m->cuts, cut, 2, (const int64_t[]){ m->total, width }, WEFT_I64);
    weft_tensor_impl *source = layout == NULL ? NULL : weft_tensor_import(m->function, layout, (void *const *)from, true);
    weft_index_list_impl *along = weft_check_index_list(m->function, list);
    const bool right = all_are_right(m, source != NULL);
    weft_tensor_impl *target = right ? weft_index_list_run(m->function, along, back, source) : NULL;
    bool done = target != NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        done = target->shards[i].count == 0 || weft_shard_read(m->function, target, i, to[i]) == WEFT_OK;
    }
    return done;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------- */

static int by_coordinate(const void *a, const void *b)
{
    const held *p = a, *q = b;
    return p->row != q->row ? (p->row > q->row) - (p->row < q->row) : (p->column > q->column) - (p->column < q->column);
}

/* Sorts the coordinates that a hosted rank holds into rows; received_pairs[] receives the number of each one's entry. */
static bool make_rows(const making *m, int i)
{
    part *p = &m->ranks[i];
    int64_t first, rows, entries = 0, row = 0;
    weft_sparse_range(&m->cuts, m->cuts.row_cut, m->cuts.rows, weft_hosted_rank(i), &first, &rows);
    held *all = malloc(((size_t)p->received + 1) * sizeof(*all));
    p->offsets = malloc(((size_t)rows + 1) * sizeof(int64_t));
    p->columns = malloc(((size_t)p->received + 1) * sizeof(int64_t));
    if (all == NULL || p->offsets == NULL || p->columns == NULL) {
        free(all);
        return fail_memory(m->function);
    }
    for (int64_t k = 0; k < p->received; k++) {
        all[k] = (held){ p->received_pairs[2 * k] - first, p->received_pairs[2 * k + 1], k };
    }
    qsort(all, (size_t)p->received, sizeof(*all), by_coordinate);
    p->offsets[0] = 0;
    for (int64_t k = 0; k < p->received; k++) {
        if (k == 0 || by_coordinate(&all[k - 1], &all[k]) != 0) {
            while (row < all[k].row) {
                p->offsets[++row] = entries;
            }
            p->columns[entries++] = all[k].column;
        }
        p->received_pairs[all[k].place] = entries - 1;
    }
    while (row < rows) {
        p->offsets[++row] = entries;
    }
    free(all);
    return true;
}

static weft_sparse_impl *make_of_rows(const making *m)
{
    const size_t ranks = (size_t)weft_runtime.local_ranks + 1;
    weft_csr_arguments csr = m->given->csr;
    const void **offsets = calloc(ranks, sizeof(*offsets)), **columns = calloc(ranks, sizeof(*columns));
    bool done = (offsets != NULL && columns != NULL) || fail_memory(m->function);
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        done = make_rows(m, i);
        offsets[i] = m->ranks[i].offsets;
        columns[i] = m->ranks[i].columns;
    }
    csr.offsets = offsets;
    csr.indices = columns;
    weft_sparse_impl *a = weft_sparse_make(&csr, done);
    free(offsets);
    free(columns);
    return a;
}

/* The list of the entries that the coordinates of each rank have become. `arrays`: two for each hosted rank. NULL with the error kept. */
static weft_index_list *list_entries(const making *m, const weft_sparse_impl *a, weft_index_list *list, weft_placement cut,
                                     int64_t *arrays[])
{
    const int ranks = weft_runtime.local_ranks;
    int64_t **entries = arrays, **sorted = arrays + ranks;
    bool done = true;
    for (int i = 0; i < ranks && done; i++) {
        part *p = &m->ranks[i];
        int64_t first, count;
        weft_sparse_range(a, a->value_cut, a->nnz, weft_hosted_rank(i), &first, &count);
        for (int64_t k = 0; k < p->received; k++) {
            p->received_pairs[k] += first;
        }
        entries[i] = p->received_pairs;
        sorted[i] = p->pairs;
    }
    done = bring(m, list, true, cut, 1, entries, sorted);
    for (int i = 0; i < ranks && done; i++) {
        part *p = &m->ranks[i];
        entries[i] = malloc(((size_t)p->count + 1) * sizeof(int64_t));
        for (int64_t k = 0; k < p->count && entries[i] != NULL; k++) {
            entries[i][p->order[k]] = p->pairs[k];
        }
        free(p->pairs);
        p->pairs = entries[i];
        done = entries[i] != NULL || fail_memory(m->function);
    }
    return list_of(m, done, a->value_cut, a->nnz, m->given->counts, entries);
}

/* After all processes have agreed. */
static weft_sparse_impl *make(making *m, weft_index_list **coordinates)
{
    const int ranks = weft_runtime.local_ranks;
    int64_t **arrays = calloc(3 * (size_t)ranks + 1, sizeof(*arrays)), **pairs = arrays + ranks, **received = pairs + ranks;
    int64_t *counts = calloc((size_t)ranks + 1, sizeof(*counts));
    bool done = arrays != NULL && counts != NULL;
    for (int i = 0; i < ranks && done; i++) {
        done = name_places(m, i);
        arrays[i] = m->ranks[i].places;
        pairs[i] = m->ranks[i].pairs;
        received[i] = m->ranks[i].received_pairs;
        counts[i] = m->ranks[i].received;
    }
    done = done || fail_memory(m->function);
    const weft_placement cut = cut_of_coordinates(m);
    weft_index_list *list = list_of(m, done, cut, m->total, counts, arrays);
    done = list != NULL && bring(m, list, false, cut, 2, pairs, received);
    weft_sparse_impl *a = done ? make_of_rows(m) : NULL;
    if (a != NULL && m->given->lists) {
        weft_placement named[WEFT_MAX_DIMS];
        weft_index_list_placements(list, named);
        *coordinates = list_entries(m, a, list, named[m->cuts.mesh_dim], arrays);
        if (*coordinates == NULL) {
            weft_sparse_free(a);
            a = NULL;
        }
    }
    weft_index_list_drop(list);
    free(arrays);
    free(counts);
    return a;
}

weft_sparse_impl *weft_sparse_make_of_coordinates(const weft_coo_arguments *given, bool right, weft_index_list **coordinates)
{
    making m = { .given = given, .function = given->csr.function };
    m.ranks = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*m.ranks));
    right = right && (m.ranks != NULL || fail_memory(m.function));
    weft_sparse_impl *a = agree(&m, right) ? make(&m, coordinates) : NULL;
    for (int i = 0; i < weft_runtime.local_ranks && m.ranks != NULL; i++) {
        part *p = &m.ranks[i];
        free(p->order);
        free(p->pairs);
        free(p->told);
        free(p->heard);
        free(p->places);
        free(p->received_pairs);
        free(p->offsets);
        free(p->columns);
    }
    free(m.ranks);
    free(m.numbers);
    return a;
}
