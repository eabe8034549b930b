/* Compound dimensions: how the cut of one of their factors cuts them. PURE. */
#include "sharding/strategy.h"

/* The cut of a dimension [outer][rows][inner] whose middle factor is cut; `repeats`: outer is not 1. False: no placement says it. */
static bool scale(weft_placement cut, int64_t rows, int64_t inner, bool repeats, int64_t parts, weft_placement *scaled)
{
    int64_t each = cut.period > 0 ? cut.period : rows, period, block; /* the cut is that of `each` rows, and begins again after them */
    *scaled = cut = weft_cut_in_blocks(cut);
    if (parts == 1 || each == 0 || (inner == 1 && !repeats)) {
        return true;
    }
    if ((repeats && rows % each != 0) || !weft_mul_checked(each, inner, &period)) {
        return false;
    }
    scaled->period = cut.period > 0 || repeats ? period : 0;
    if (inner == 1) {
        return true;
    }
    switch (cut.cut) {
    case WEFT_CUT_BALANCED:
    case WEFT_CUT_CHUNKS:
        block = weft_ceil_div(each, parts) * inner;
        bool chunks = block == weft_ceil_div(period, parts);
        scaled->cut = chunks ? WEFT_CUT_CHUNKS : WEFT_CUT_CYCLIC; /* one round */
        scaled->block = chunks ? 0 : block;
        return cut.cut == WEFT_CUT_CHUNKS || each % parts == 0;
    case WEFT_CUT_CYCLIC:
        return weft_mul_checked(cut.block, inner, &scaled->block);
    case WEFT_CUT_ZIGZAG:
        return weft_ceil_div(each, 2 * parts) * inner == weft_ceil_div(period, 2 * parts);
    default:
        break;
    }
    weft_vec sizes = { 0 };
    scaled->sizes = NULL;
    if (cut.sizes->count == parts && cut.sizes->total == each && weft_vec_reserve(&sizes, (size_t)parts, sizeof(int64_t))) {
        int64_t *items = sizes.items;
        for (int64_t c = 0; c < parts; c++) {
            items[c] = cut.sizes->sizes[c] * inner;
        }
        scaled->sizes = weft_sizes_intern(parts, items);
    }
    weft_vec_free(&sizes);
    return scaled->sizes != NULL;
}

/* The product of the sizes of the factors that lie inside of one. */
static int64_t inner_of(const weft_binding *binding, const weft_compound *compound, int position)
{
    int64_t inner = 1;
    for (int i = position + 1; i < compound->count; i++) {
        inner *= binding->factors[compound->factors[i]].size;
    }
    return inner;
}

static bool repeats(const weft_binding *binding, const weft_compound *compound, int position)
{
    bool outer = false;
    for (int i = 0; i < position; i++) {
        outer |= binding->factors[compound->factors[i]].size != 1;
    }
    return outer;
}

int weft_compound_position(const weft_compound *compound, int factor)
{
    int position = compound->count - 1;
    while (position >= 0 && compound->factors[position] != factor) {
        position--;
    }
    return position;
}

bool weft_compound_cut(const weft_binding *binding, const weft_compound *compound, int position, weft_placement cut, int64_t rows,
                       int64_t parts, weft_placement *scaled)
{
    const weft_factor *factor = &binding->factors[compound->factors[position]];
    return scale(cut, rows, inner_of(binding, compound, position), repeats(binding, compound, position), parts, scaled) &&
           (factor->any_cut || !weft_cut_has_runs(*scaled));
}

/* ---- placing ------------------------------------------------------------------------------------------- */

/* Cuts one more factor's parts; the level says that it comes after those before. False: parts of different sizes would need
 * different placements. */
static bool cut_more(const weft_binding *binding, const weft_compound *compound, int position, weft_placement cut, int64_t parts,
                     weft_extents *rows, weft_placement *scaled)
{
    /* Sizes without a period are those of a dimension that was not cut before. */
    bool possible = rows->count > 0 && !(cut.cut == WEFT_CUT_SIZES && cut.period == 0 && rows->cut), first = true;
    *scaled = cut;
    for (int i = 0; i < rows->count && possible; i++) {
        weft_placement other;
        if (rows->rows[i] > 0) {
            possible = weft_compound_cut(binding, compound, position, cut, rows->rows[i], parts, &other) &&
                       (first || weft_same_cut(*scaled, other));
            *scaled = other;
            first = false;
        }
    }
    weft_extents_cut(rows, cut, parts);
    return possible;
}

bool weft_compound_place(const weft_binding *binding, const weft_compound *compound, int dim, const weft_mesh_impl *mesh,
                         const int factors[], const weft_placement cuts[], weft_placement placements[])
{
    int order[WEFT_MAX_DIMS], level = 0;
    weft_cut_order(mesh->ndim, cuts, order);
    for (int position = 0; position < compound->count; position++) {
        weft_extents rows = { 1, { binding->factors[compound->factors[position]].size }, false };
        for (int i = 0; i < mesh->ndim; i++) {
            int m = order[i];
            if (factors[m] != compound->factors[position]) {
                continue;
            }
            if (!cut_more(binding, compound, position, cuts[m], mesh->shape[m], &rows, &placements[m])) {
                return false;
            }
            placements[m].dim = dim;
            placements[m].level = level++;
        }
    }
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

enum { MOST_CUTS = 3 };

/* The cuts of a factor that may have made `now`. */
static int list_possible(weft_placement now, int64_t inner, weft_placement cuts[MOST_CUTS])
{
    int count = 0;
    weft_placement cut = now = weft_cut_in_blocks(now);
    cut.dim = 0;
    cut.period = 0;
    if (now.cut == WEFT_CUT_CYCLIC) { /* also chunks that are no chunks of the whole dimension, or repeat */
        cuts[count++] = (weft_placement){ .kind = WEFT_SHARD, .level = now.level };
        cut.block /= inner;
    }
    if (now.cut == WEFT_CUT_SIZES) {
        weft_vec sizes = { 0 };
        bool done = weft_vec_reserve(&sizes, (size_t)now.sizes->count, sizeof(int64_t));
        for (int64_t c = 0; c < now.sizes->count && done; c++) {
            ((int64_t *)sizes.items)[c] = now.sizes->sizes[c] / inner;
        }
        cut.sizes = done ? weft_sizes_intern(now.sizes->count, sizes.items) : NULL;
        weft_vec_free(&sizes);
    }
    if ((cut.cut != WEFT_CUT_CYCLIC || cut.block > 0) && (cut.cut != WEFT_CUT_SIZES || cut.sizes != NULL)) {
        cuts[count++] = cut;
        if (now.period > 0 && now.period % inner == 0) { /* the factor's own */
            cut.period = now.period / inner;
            cuts[count++] = cut;
        }
    }
    return count;
}

/* The factor that a placement cuts, where each part has rows[i] indices of factor i before; -1: none alone. */
static int read_one(const weft_binding *binding, const weft_compound *compound, weft_placement now, int64_t parts,
                    const int64_t rows[], weft_placement *cut)
{
    bool outer = false;
    int64_t all = 1;
    for (int i = 0; i < compound->count; i++) {
        all *= rows[i];
    }
    const bool listed = now.cut == WEFT_CUT_SIZES; /* whose period may be needed, whatever it is equal to alone */
    now = listed ? now : weft_cut_canonical(now, all, parts);
    for (int position = 0; position < compound->count; position++) {
        weft_placement cuts[MOST_CUTS], scaled;
        int64_t inner = inner_of(binding, compound, position);
        int count = inner == 0 ? 0 : list_possible(now, inner, cuts);
        for (int i = 0; i < count; i++) {
            if (scale(cuts[i], rows[position], inner, outer, parts, &scaled) &&
                weft_same_cut(listed ? scaled : weft_cut_canonical(scaled, all, parts), now)) {
                *cut = cuts[i];
                return position;
            }
        }
        outer |= rows[position] != 1;
    }
    return -1;
}

int weft_compound_read(const weft_binding *binding, const weft_compound *compound, const weft_layout *layout, int dim, int mesh_dim,
                       weft_placement *cut)
{
    int64_t rows[WEFT_MAX_TERM_FACTORS];
    for (int i = 0; i < compound->count; i++) {
        rows[i] = binding->factors[compound->factors[i]].size;
    }
    for (int i = 0; i < layout->mesh->ndim; i++) {
        int m = layout->order[i];
        if (!weft_layout_shards(layout, m, dim)) {
            continue;
        }
        int position = read_one(binding, compound, layout->placements[m], layout->mesh->shape[m], rows, cut);
        if (m == mesh_dim || position < 0) {
            return m == mesh_dim && position >= 0 ? compound->factors[position] : -1;
        }
        rows[position] = weft_ceil_div(rows[position], layout->mesh->shape[m]);
    }
    return -1;
}
