/* Cuts inside of each other: the order of cutting, which cuts two layouts share, and which global rows a shard stores. */
#include "layout/layout.h"

/* ---- order --------------------------------------------------------------------------------------------- */

void weft_cut_order(int mesh_ndim, const weft_placement placements[], int order[])
{
    for (int m = 0; m < mesh_ndim; m++) {
        int level = placements[m].kind == WEFT_SHARD ? placements[m].level : 0, i = m;
        for (; i > 0 && placements[order[i - 1]].kind == WEFT_SHARD && placements[order[i - 1]].level > level; i--) {
            order[i] = order[i - 1];
        }
        order[i] = m;
    }
}

/* The next mesh dimension of several ranks, from order[*i] on, that cuts a tensor dimension; -1: none. */
static int next_cut(const weft_layout *layout, int dim, int *i)
{
    while (*i < layout->mesh->ndim) {
        int m = layout->order[(*i)++];
        if (weft_layout_shards(layout, m, dim) && layout->mesh->shape[m] > 1) {
            return m;
        }
    }
    return -1;
}

void weft_layout_mark_changed_cuts(const weft_layout *a, const weft_layout *b, bool in_a[], bool in_b[])
{
    for (int d = 0; d < a->ndim; d++) {
        int i = 0, j = 0, m, k;
        bool same = true;
        do {
            m = next_cut(a, d, &i);
            k = next_cut(b, d, &j);
            same = same && m == k && (m < 0 || weft_same_cut(a->placements[m], b->placements[m]));
            if (m >= 0 && !same) {
                in_a[m] = true;
            }
            if (k >= 0 && !same) {
                in_b[k] = true;
            }
        } while (m >= 0 || k >= 0);
    }
}

/* ---- numbering ----------------------------------------------------------------------------------------- */

/* The number of cuts of a dimension up to the last one whose parts may be several runs. */
static int cuts_that_renumber(const weft_layout *layout, int dim)
{
    int count = 0, last = 0, i = 0, m;
    while ((m = next_cut(layout, dim, &i)) >= 0) {
        count++;
        last = weft_cut_has_runs(layout->placements[m]) ? count : last;
    }
    return last;
}

bool weft_layouts_number_alike(const weft_layout *a, const weft_layout *b, int dim)
{
    if (!a->has_runs && !b->has_runs) {
        return true;
    }
    int count = cuts_that_renumber(a, dim), i = 0, j = 0;
    bool alike = count == cuts_that_renumber(b, dim);
    for (int k = 0; k < count && alike; k++) {
        int m = next_cut(a, dim, &i), n = next_cut(b, dim, &j);
        alike = a->mesh->shape[m] == b->mesh->shape[n] && weft_same_cut(a->placements[m], b->placements[n]);
    }
    return alike;
}

bool weft_layouts_number_all_alike(const weft_layout *a, const weft_layout *b)
{
    bool alike = true;
    for (int d = 0; d < a->ndim && alike; d++) {
        alike = weft_layouts_number_alike(a, b, d);
    }
    return alike;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static bool add_run(weft_vec *runs, int64_t begin, int64_t rows, int64_t *local)
{
    weft_run *last = runs->count == 0 ? NULL : (weft_run *)runs->items + runs->count - 1;
    if (last != NULL && last->begin + last->rows == begin) {
        last->rows += rows;
    } else {
        weft_run *added = weft_vec_push(runs, sizeof(*added));
        if (added == NULL) {
            return false;
        }
        *added = (weft_run){ begin, rows, *local };
    }
    *local += rows;
    return true;
}

/* The rows of one part, where `all` has the rows that are cut. */
static bool take_part(const weft_vec *all, weft_placement shard, int64_t parts, int64_t index, weft_vec *taken)
{
    const weft_run *runs = all->items;
    int64_t n = all->count == 0 ? 0 : runs[all->count - 1].local + runs[all->count - 1].rows, local = 0, begin, rows;
    size_t r = 0;
    for (int64_t k = 0; (rows = weft_part_run(shard, n, parts, index, k, &begin)) > 0; k++) {
        while (rows > 0) {
            while (runs[r].local + runs[r].rows <= begin) {
                r++;
            }
            int64_t skip = begin - runs[r].local, here = weft_min_i64(rows, runs[r].rows - skip);
            if (!add_run(taken, runs[r].begin + skip, here, &local)) {
                return false;
            }
            begin += here;
            rows -= here;
        }
    }
    return true;
}

bool weft_layout_runs(const weft_layout *layout, const int64_t coordinate[], int dim, weft_vec *runs)
{
    int64_t local = 0;
    int i = 0, m;
    bool done = layout->shape[dim] == 0 || add_run(runs, 0, layout->shape[dim], &local);
    while (done && (m = next_cut(layout, dim, &i)) >= 0) {
        weft_vec taken = { 0 };
        done = take_part(runs, layout->placements[m], layout->mesh->shape[m], coordinate[m], &taken);
        weft_vec_free(runs);
        *runs = taken;
    }
    return done;
}

int64_t weft_layout_place(const weft_layout *layout, int dim, int64_t row, int64_t coordinate[])
{
    int64_t n = layout->shape[dim], all = n - row, number, together, begin;
    int i = 0, m;
    while ((m = next_cut(layout, dim, &i)) >= 0) {
        coordinate[m] = weft_part_at(layout->placements[m], n, layout->mesh->shape[m], row, &number, &together);
        weft_part_range(layout->placements[m], n, layout->mesh->shape[m], coordinate[m], &begin, &n);
        all = weft_min_i64(all, together);
        row = number;
    }
    return all;
}

bool weft_common_runs(const weft_vec *a, const weft_vec *b, weft_vec *common)
{
    const weft_run *p = a->items, *q = b->items;
    size_t i = 0, j = 0;
    int64_t before = 0;
    bool done = true;
    while (done && i < a->count && j < b->count) {
        int64_t begin = weft_max_i64(p[i].begin, q[j].begin);
        int64_t of_p = p[i].begin + p[i].rows, of_q = q[j].begin + q[j].rows, end = weft_min_i64(of_p, of_q);
        if (begin < end) {
            weft_common_run *added = weft_vec_push(common, sizeof(*added));
            done = added != NULL;
            if (done) {
                *added = (weft_common_run){ p[i].local + begin - p[i].begin, q[j].local + begin - q[j].begin, end - begin, before };
                before += end - begin;
            }
        }
        i += of_p <= of_q;
        j += of_q <= of_p;
    }
    return done;
}

int64_t weft_common_rows(const weft_vec *common)
{
    const weft_common_run *runs = common->items;
    return common->count == 0 ? 0 : runs[common->count - 1].before + runs[common->count - 1].rows;
}
