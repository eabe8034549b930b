/* Making the structure of a sparse matrix of rows: each rank finds its ghosts, and all agree on the number of entries. */
#include <stdlib.h>
#include <string.h>

#include "arrays/sparse.h"

/* A process's numbers before those of its ranks: something wrong in its arrays, if there is. */
enum { BAD_KIND = WEFT_NUMBERS_OWN, BAD_RANK, BAD_ROW, BAD_VALUE, HEADER };
enum { BAD_NOTHING, BAD_MISSING, BAD_OFFSET, BAD_COLUMN, BAD_SIZE };
/* The numbers that a rank tells all others. */
enum { RANK_ENTRIES, RANK_GHOSTS, RANK_DIGEST, RANK_NUMBERS };

/* The rows of a hosted rank. */
typedef struct part {
    int64_t first_row, num_rows, first_column, num_columns, entries;
    const void *offsets, *indices;
    int64_t *ghosts, num_ghosts; /* ascending */
} part;

typedef struct making {
    const weft_csr_arguments *given;
    const char *function;
    weft_sparse_impl *a;
    part *parts; /* of each hosted rank */
} making;

static bool fail_memory(const char *function)
{
    weft_fail(WEFT_ERR_NOMEM, function, "no memory for the structure of a sparse matrix");
    return false;
}

static int64_t number_at(weft_dtype type, const void *numbers, int64_t i)
{
    return type == WEFT_I32 ? ((const int32_t *)numbers)[i] : ((const int64_t *)numbers)[i];
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

const weft_layout *weft_sparse_layout(const char *function, const weft_sparse_impl *a, weft_placement cut, int ndim,
                                      const int64_t shape[], weft_dtype dtype)
{
    weft_placement placements[WEFT_MAX_DIMS];
    weft_sparse_place(a, cut, placements);
    return weft_check_layout(function, a->mesh, placements, ndim, shape, dtype);
}

void weft_sparse_range(const weft_sparse_impl *a, weft_placement cut, int64_t size, int rank, int64_t *first, int64_t *count)
{
    weft_box box = { .extent = { 0 } };
    const weft_layout *layout = weft_sparse_layout("weft_sparse", a, cut, 1, &size, WEFT_I64);
    bool member = layout != NULL && weft_layout_shard_box(layout, rank, &box);
    *first = member ? box.offset[0] : 0;
    *count = member ? box.extent[0] : 0;
}

/* Whether shards are boxes. False with the error kept. */
static bool check_boxes(const char *function, const char *name, const weft_sparse_impl *a, weft_placement cut, int64_t size)
{
    const weft_layout *layout = weft_sparse_layout(function, a, cut, 1, &size, WEFT_I64);
    return layout != NULL && weft_check_boxes(function, name, layout);
}

bool weft_sparse_check_cuts(const weft_csr_arguments *given, weft_sparse_impl *a)
{
    const char *function = given->function;
    int along = -1;
    a->mesh = given->mesh;
    a->rows = given->rows;
    a->columns = given->columns;
    const weft_row_cut_arguments rows = { a->mesh, given->row_placements, "row_placements", a->rows, "rows" };
    const weft_row_cut_arguments columns = { a->mesh, given->column_placements, "column_placements", a->columns, "columns" };
    if (!weft_check_row_cut(function, &rows, &a->mesh_dim, &a->row_cut) ||
        !check_boxes(function, "row_placements", a, a->row_cut, a->rows)) {
        return false;
    }
    if (given->column_placements == NULL) {
        a->column_cut = a->rows == a->columns ? a->row_cut : weft_shard(0);
        if (a->columns < 0) {
            weft_fail(WEFT_ERR_INVALID, function, "columns is %lld, expected at least 0", (long long)a->columns);
            return false;
        }
        return weft_check_shape(function, 1, &a->columns);
    }
    if (!weft_check_row_cut(function, &columns, &along, &a->column_cut) ||
        !check_boxes(function, "column_placements", a, a->column_cut, a->columns)) {
        return false;
    }
    if (along != a->mesh_dim) {
        weft_fail(WEFT_ERR_LAYOUT, function, "column_placements cut along mesh dimension %d, row_placements along %d", along, a->mesh_dim);
    }
    return along == a->mesh_dim;
}

int64_t weft_sparse_fingerprint(const weft_csr_arguments *given, const weft_sparse_impl *a)
{
    const weft_layout *rows = weft_sparse_layout(given->function, a, a->row_cut, 1, &a->rows, WEFT_I64);
    const weft_layout *columns = weft_sparse_layout(given->function, a, a->column_cut, 1, &a->columns, WEFT_I64);
    return rows == NULL || columns == NULL ? 0 : (int64_t)weft_digest_add(weft_digest_add(rows->digest, columns->digest), a->mesh->digest);
}

/* ---- what a rank has ------------------------------------------------------------------------------------------------ */

static void note_bad(const making *m, int64_t bad[], int kind, int i, int64_t row, int64_t value)
{
    bad[BAD_KIND] = kind;
    bad[BAD_RANK] = weft_hosted_rank(i);
    bad[BAD_ROW] = row + m->parts[i].first_row;
    bad[BAD_VALUE] = value;
}

/* Whether the offsets of a hosted rank ascend from 0 on; the number of its entries. */
static bool check_offsets(const making *m, int i, int64_t bad[])
{
    part *p = &m->parts[i];
    int64_t last = 0;
    for (int64_t row = 0; row <= p->num_rows && p->num_rows > 0; row++) {
        int64_t offset = p->offsets == NULL ? -1 : number_at(m->given->index_type, p->offsets, row);
        if (offset < last || (row == 0 && offset != 0)) {
            note_bad(m, bad, p->offsets == NULL ? BAD_MISSING : BAD_OFFSET, i, row, offset);
            return false;
        }
        last = offset;
    }
    p->entries = last;
    if (last > 0 && p->indices == NULL) {
        note_bad(m, bad, BAD_MISSING, i, 0, 1);
    }
    return bad[BAD_KIND] == BAD_NOTHING;
}

static bool is_own(const part *p, int64_t column)
{
    return column >= p->first_column && column < p->first_column + p->num_columns;
}

static int by_value(const void *a, const void *b)
{
    return weft_compare_i64(*(const int64_t *)a, *(const int64_t *)b);
}

/* Finds the ghosts; *bad where a column is out of range. False: no memory. */
static bool find_ghosts(const making *m, int i, int64_t bad[])
{
    part *p = &m->parts[i];
    const weft_dtype type = m->given->index_type;
    int64_t count = 0, kept = 0, row = 0;
    for (int64_t k = 0; k < p->entries; k++) {
        int64_t column = number_at(type, p->indices, k);
        if (column < 0 || column >= m->a->columns) {
            while (number_at(type, p->offsets, row + 1) <= k) {
                row++;
            }
            note_bad(m, bad, BAD_COLUMN, i, row, column);
            return true;
        }
        count += !is_own(p, column);
    }
    p->ghosts = malloc(((size_t)count + 1) * sizeof(*p->ghosts));
    for (int64_t k = 0; k < p->entries && p->ghosts != NULL; k++) {
        int64_t column = number_at(type, p->indices, k);
        if (!is_own(p, column)) {
            p->ghosts[p->num_ghosts++] = column;
        }
    }
    if (p->ghosts != NULL) {
        qsort(p->ghosts, (size_t)count, sizeof(*p->ghosts), by_value);
    }
    for (int64_t k = 0; k < count && p->ghosts != NULL; k++) {
        if (k == 0 || p->ghosts[k] != p->ghosts[kept - 1]) {
            p->ghosts[kept++] = p->ghosts[k];
        }
    }
    p->num_ghosts = kept;
    if (p->num_columns + kept > INT32_MAX) {
        note_bad(m, bad, BAD_SIZE, i, 0, p->num_columns + kept);
    }
    return p->ghosts != NULL;
}

static uint64_t digest_of(weft_dtype type, const void *numbers, int64_t count)
{
    uint64_t digest = (uint64_t)count;
    for (int64_t k = 0; k < count; k++) {
        digest = weft_digest_add(digest, (uint64_t)number_at(type, numbers, k));
    }
    return digest;
}

/* Finds the parts of all hosted ranks, and writes what they tell the others to mine[]. False with the error kept. */
static bool find_parts(const making *m, int64_t mine[])
{
    const weft_sparse_impl *a = m->a;
    const weft_dtype type = m->given->index_type;
    for (int i = 0; i < weft_runtime.local_ranks && mine[BAD_KIND] == BAD_NOTHING; i++) {
        part *p = &m->parts[i];
        int64_t *own = mine + HEADER + (ptrdiff_t)i * RANK_NUMBERS;
        weft_sparse_range(a, a->row_cut, a->rows, weft_hosted_rank(i), &p->first_row, &p->num_rows);
        weft_sparse_range(a, a->column_cut, a->columns, weft_hosted_rank(i), &p->first_column, &p->num_columns);
        p->offsets = p->num_rows == 0 ? NULL : m->given->offsets[i];
        p->indices = p->num_rows == 0 ? NULL : m->given->indices[i];
        if (!check_offsets(m, i, mine)) {
            return true;
        }
        if (!find_ghosts(m, i, mine)) {
            return fail_memory(m->function);
        }
        own[RANK_ENTRIES] = p->entries;
        own[RANK_GHOSTS] = p->num_ghosts;
        if (a->mesh->ndim > 1) { /* replicas are compared */
            own[RANK_DIGEST] = (int64_t)weft_digest_add(p->num_rows == 0 ? 0 : digest_of(type, p->offsets, p->num_rows + 1),
                                                        digest_of(type, p->indices, p->entries));
        }
    }
    return true;
}

/* ---- agreement --------------------------------------------------------------------------------------------------------- */

/* Each process reports the same error: that of the first process that has one. False with the error kept. */
static bool check_arrays(const making *m, const int64_t all[], int stride)
{
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        const int64_t *bad = all + (ptrdiff_t)p * stride;
        const long long rank = bad[BAD_RANK], row = bad[BAD_ROW], value = bad[BAD_VALUE];
        switch (bad[BAD_KIND]) {
        case BAD_NOTHING:
            continue;
        case BAD_MISSING:
            weft_fail(WEFT_ERR_INVALID, m->function, "%s of rank %lld is NULL, and it has %s", value < 0 ? "offsets" : "indices", rank,
                      value < 0 ? "rows" : "entries");
            break;
        case BAD_OFFSET:
            weft_fail(WEFT_ERR_INVALID, m->function, "offsets of rank %lld: that of row %lld is %lld, expected %s", rank, row, value,
                      value < 0 ? "at least 0" : "0 first, and then at least the one before");
            break;
        case BAD_COLUMN:
            weft_fail(WEFT_ERR_INVALID, m->function, "indices of rank %lld: row %lld has column %lld, expected 0 to %lld", rank, row,
                      value, (long long)m->a->columns - 1);
            break;
        default:
            weft_fail(WEFT_ERR_UNSUPPORTED, m->function, "rank %lld needs %lld elements of a vector, at most 2^31 - 1 are supported", rank,
                      value);
        }
        return false;
    }
    return true;
}

/* Whether ranks of one part have the same rows; the sizes of the values' cut. False with the error kept. */
static bool find_values(const making *m, const int64_t ranks[], bool *any_ghosts)
{
    weft_sparse_impl *a = m->a;
    const int64_t parts = a->mesh->shape[a->mesh_dim];
    const weft_index_list_impl line = { .mesh = a->mesh, .mesh_dim = a->mesh_dim };
    int64_t *sizes = calloc((size_t)parts, sizeof(*sizes));
    bool done = sizes != NULL || fail_memory(m->function);
    for (int64_t i = 0; i < a->mesh->num_ranks && done; i++) {
        int rank = weft_mesh_rank_at(a->mesh, i);
        int64_t of = weft_part_of_rank(&line, rank);
        int first = weft_rank_along(&line, weft_mesh_rank_at(a->mesh, 0), of);
        const int64_t *own = ranks + (ptrdiff_t)rank * RANK_NUMBERS, *other = ranks + (ptrdiff_t)first * RANK_NUMBERS;
        done = memcmp(own, other, RANK_NUMBERS * sizeof(*own)) == 0;
        if (!done) {
            weft_fail(WEFT_ERR_INVALID, m->function,
                      "ranks %d and %d have different rows, and differ only in mesh dimensions along which nothing is cut", first, rank);
        }
        sizes[of] = own[RANK_ENTRIES];
        *any_ghosts |= own[RANK_GHOSTS] > 0;
    }
    for (int64_t of = 0; of < parts && done; of++) {
        a->nnz += sizes[of];
    }
    if (done) {
        a->value_cut = weft_shard_sizes(0, (int)parts, sizes);
    }
    free(sizes);
    return done;
}

/* False with the error kept, on all processes alike. */
static bool agree(const making *m, bool right, bool *any_ghosts)
{
    int stride = HEADER + RANK_NUMBERS * weft_most_local_ranks();
    int64_t *mine = calloc((size_t)stride, sizeof(*mine)), *all = NULL, *ranks = NULL;
    if (mine == NULL) {
        return fail_memory(m->function);
    }
    if (right) {
        mine[WEFT_NUMBERS_FINGERPRINT] = weft_sparse_fingerprint(m->given, m->a);
        right = find_parts(m, mine);
    }
    mine[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    bool done = weft_rank_numbers_gather(m->function, HEADER, RANK_NUMBERS, mine, &all, &ranks) &&
                weft_numbers_agree(m->function, stride, all, right) && check_arrays(m, all, stride) && find_values(m, ranks, any_ghosts);
    free(mine);
    free(all);
    free(ranks);
    return done;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------ */

/* Where the rows of a hosted rank end, and its columns by their new numbers. */
static void number(const making *m, int i, int64_t ends[], int32_t numbers[])
{
    const part *p = &m->parts[i];
    const weft_dtype type = m->given->index_type;
    for (int64_t row = 0; row < p->num_rows; row++) {
        ends[row] = number_at(type, p->offsets, row + 1);
    }
    for (int64_t k = 0; k < p->entries; k++) {
        int64_t column = number_at(type, p->indices, k);
        if (is_own(p, column)) {
            numbers[k] = (int32_t)(column - p->first_column);
        } else {
            const int64_t *found = bsearch(&column, p->ghosts, (size_t)p->num_ghosts, sizeof(column), by_value);
            numbers[k] = (int32_t)(p->num_columns + (found - p->ghosts));
        }
    }
}

/* A tensor of the hosted ranks' numbers, which the structure keeps. NULL with the error kept. */
static weft_tensor_impl *keep(const making *m, weft_placement cut, int64_t size, weft_dtype type, void *const numbers[])
{
    const weft_layout *layout = weft_sparse_layout(m->function, m->a, cut, 1, &size, type);
    weft_tensor_impl *tensor = layout == NULL ? NULL : weft_tensor_import(m->function, layout, numbers, true);
    if (tensor != NULL) {
        tensor->references++;
    }
    return tensor;
}

static bool make_tensors(const making *m)
{
    const size_t ranks = (size_t)weft_runtime.local_ranks + 1;
    weft_sparse_impl *a = m->a;
    void **ends = calloc(ranks, sizeof(*ends)), **numbers = calloc(ranks, sizeof(*numbers));
    bool done = ends != NULL && numbers != NULL;
    for (int i = 0; i < weft_runtime.local_ranks && done; i++) {
        ends[i] = malloc(((size_t)m->parts[i].num_rows + 1) * sizeof(int64_t));
        numbers[i] = malloc(((size_t)m->parts[i].entries + 1) * sizeof(int32_t));
        done = ends[i] != NULL && numbers[i] != NULL;
        if (done) {
            number(m, i, ends[i], numbers[i]);
        }
    }
    done = done || fail_memory(m->function);
    a->ends = done ? keep(m, a->row_cut, a->rows, WEFT_I64, ends) : NULL;
    a->numbers = a->ends != NULL ? keep(m, a->value_cut, a->nnz, WEFT_I32, numbers) : NULL;
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        free(ends == NULL ? NULL : ends[i]);
        free(numbers == NULL ? NULL : numbers[i]);
    }
    free(ends);
    free(numbers);
    return a->numbers != NULL;
}

static bool make_list(const making *m)
{
    const int ranks = weft_runtime.local_ranks;
    weft_placement placements[WEFT_MAX_DIMS];
    int64_t *counts = calloc((size_t)ranks + 1, sizeof(*counts)), total = 0;
    for (int i = 0; i < ranks && counts != NULL; i++) {
        counts[i] = m->parts[i].num_ghosts;
        total += counts[i];
    }
    int64_t *ghosts = malloc(((size_t)total + 1) * sizeof(*ghosts)), *next = ghosts;
    const bool refused = (counts == NULL || ghosts == NULL) && !fail_memory(m->function);
    for (int i = 0; i < ranks && !refused; next += m->parts[i++].num_ghosts) {
        memcpy(next, m->parts[i].ghosts, (size_t)m->parts[i].num_ghosts * sizeof(*ghosts));
    }
    weft_sparse_place(m->a, m->a->column_cut, placements);
    const weft_index_list_arguments given = { m->function, m->a->columns, m->a->mesh->handle, placements, counts, ghosts, refused };
    m->a->ghosts = weft_index_list_new(&given);
    free(counts);
    free(ghosts);
    return m->a->ghosts != NULL;
}

weft_sparse_impl *weft_sparse_make(const weft_csr_arguments *given, bool right)
{
    making m = { .given = given, .function = given->function, .a = calloc(1, sizeof(*m.a)) };
    m.parts = calloc((size_t)weft_runtime.local_ranks + 1, sizeof(*m.parts));
    bool any_ghosts = false, done = (m.a != NULL && m.parts != NULL) || fail_memory(given->function);
    if (done) {
        done = agree(&m, right && weft_sparse_check_cuts(given, m.a), &any_ghosts) && make_tensors(&m) && (!any_ghosts || make_list(&m));
    }
    for (int i = 0; i < weft_runtime.local_ranks && m.parts != NULL; i++) {
        free(m.parts[i].ghosts);
    }
    free(m.parts);
    if (!done) {
        weft_sparse_free(m.a);
        m.a = NULL;
    }
    return m.a;
}
