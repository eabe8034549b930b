/* Panels: where a shard is cut. Functions of the layout alone. */
#include "layout/layout.h"

#include <math.h>

/* More rows than a shard in any memory has; a power of two. */
static const int64_t whole_shard = (int64_t)1 << 62;

/* Rows and bytes per row of the largest shard. In a tensor without
 * elements the other sizes may have any value, so their product saturates at INT64_MAX. */
static void largest_shard(const weft_mesh_impl *mesh, const weft_placement *placements, int ndim,
                          const int64_t shape[], weft_dtype dtype, int64_t *rows, int64_t *row_bytes)
{
    int64_t extent[WEFT_MAX_DIMS] = { 0 };
    for (int d = 0; d < ndim; d++) {
        extent[d] = shape[d];
    }
    int order[WEFT_MAX_DIMS];
    weft_cut_order(mesh->ndim, placements, order);
    for (int i = 0; i < mesh->ndim; i++) {
        int m = order[i];
        if (placements[m].kind == WEFT_SHARD) {
            int64_t *own = &extent[placements[m].dim];
            weft_part_largest(placements[m], *own, mesh->shape[m], own);
        }
    }
    *rows = ndim == 0 ? 1 : extent[0];
    *row_bytes = (int64_t)weft_dtype_size(dtype);
    for (int d = 1; d < ndim; d++) {
        if (!weft_mul_checked(*row_bytes, extent[d], row_bytes)) {
            *row_bytes = INT64_MAX;
        }
    }
}

/* Minimum number of rows of a panel, for a shard with so many. */
static int64_t min_rows(const weft_panel_policy *policy, int64_t rows, int64_t row_bytes)
{
    int64_t max_panels = weft_max_i64(1, policy->max_panels);
    int64_t enough = weft_ceil_div(rows, max_panels);
    if (policy->target_bytes > 0) {
        return weft_max_i64(enough, weft_ceil_div(policy->target_bytes, row_bytes));
    }
    double shard_bytes = (double)rows * (double)row_bytes;
    double panels = sqrt(shard_bytes * policy->byte_us / policy->panel_us);
    int64_t pipelined = panels > 1 ? (int64_t)ceil((double)rows / panels) : rows;
    int64_t of_product = weft_min_i64(policy->min_rows, weft_ceil_div(rows, 4));
    enough = weft_max_i64(weft_max_i64(enough, pipelined), of_product);
    return weft_max_i64(enough, weft_ceil_div(policy->min_bytes, row_bytes));
}

/* The height of panels for devices; at least `rows`: one panel. */
static int64_t device_rows(const weft_panel_policy *policy, int64_t rows, int64_t row_bytes)
{
    int64_t bytes = weft_mul_saturated(rows, row_bytes);
    int64_t panels = weft_min_i64(policy->least_panels, bytes / weft_max_i64(1, policy->min_bytes));
    int64_t most = weft_ceil_div(rows, weft_max_i64(1, panels));
    if (bytes > policy->whole_bytes) {
        most = weft_min_i64(most, policy->whole_bytes / row_bytes);
    }
    if (most >= rows) {
        return rows;
    }
    int64_t height = 1;
    while (2 * height <= most || weft_ceil_div(rows, height) > policy->max_panels) {
        height *= 2;
    }
    return height;
}

int64_t weft_panel_rows(const weft_panel_policy *policy, const weft_mesh_impl *mesh,
                        const weft_placement *placements, int ndim, const int64_t shape[], weft_dtype dtype)
{
    if (policy->forced_rows > 0) {
        return policy->forced_rows;
    }
    int64_t rows, row_bytes;
    largest_shard(mesh, placements, ndim, shape, dtype, &rows, &row_bytes);
    if (ndim == 0 || row_bytes == 0 || rows < 2) {
        return whole_shard;
    }
    bool on_devices = policy->whole_bytes > 0 && policy->target_bytes == 0;
    int64_t enough = on_devices ? device_rows(policy, rows, row_bytes) : min_rows(policy, rows, row_bytes);
    if (enough >= rows) {
        return whole_shard;
    }
    int64_t height = 1;
    while (height < enough) {
        height *= 2;
    }
    return height;
}

static bool is_empty(const weft_layout *layout, const weft_box *box)
{
    for (int d = 0; d < layout->ndim; d++) {
        if (box->extent[d] == 0) {
            return true;
        }
    }
    return false;
}

/* A shard with margins: leading panels, the margin and the rows beside it; those in the middle, of panel_rows; trailing panels. */
typedef struct weft_zones {
    int leading, trailing;
    int64_t middle;
    int64_t cuts[6]; /* where the leading panels begin, then the middle, then the trailing panels, then the end */
} weft_zones;

static void find_zones(const weft_layout *layout, const weft_box *box, weft_zones *z)
{
    const int64_t before = layout->margin_rows[0], after = layout->margin_rows[1];
    const int64_t begin = box->offset[0], end = begin + box->extent[0], inside = box->extent[0] - before - after;
    /* Rows that the margins of the parts before and behind get. */
    int64_t gives_before = layout->wraps || begin > 0 ? after : 0, gives_behind = layout->wraps || end < layout->shape[0] ? before : 0;
    const bool thin = gives_before + gives_behind < inside;
    gives_before = thin ? gives_before : 0;
    gives_behind = thin ? gives_behind : 0;
    int n = 0;
    z->cuts[n] = begin;
    n += before > 0;
    z->cuts[n] = begin + before;
    n += gives_before > 0;
    z->leading = n;
    z->cuts[n++] = begin + before + gives_before;
    z->cuts[n] = end - after - gives_behind;
    z->middle = weft_ceil_div(z->cuts[n] - z->cuts[n - 1], layout->panel_rows);
    n += gives_behind > 0;
    z->cuts[n] = end - after;
    n += after > 0;
    z->cuts[n] = end;
    z->trailing = n - z->leading - 1;
}

/* The first row of a panel; of one after the last: the end. */
static int64_t begin_of(const weft_layout *layout, const weft_zones *z, int64_t panel)
{
    if (panel < z->leading) {
        return z->cuts[panel];
    }
    panel -= z->leading;
    return panel < z->middle ? z->cuts[z->leading] + panel * layout->panel_rows : z->cuts[z->leading + 1 + panel - z->middle];
}

int64_t weft_panel_count(const weft_layout *layout, const weft_box *box)
{
    if (is_empty(layout, box)) {
        return 0;
    }
    if (layout->ndim == 0) {
        return 1;
    }
    int64_t last_row = box->offset[0] + box->extent[0] - 1;
    if (weft_layout_has_margins(layout)) {
        weft_zones z;
        find_zones(layout, box, &z);
        return z.leading + z.middle + z.trailing;
    }
    return last_row / layout->panel_rows - box->offset[0] / layout->panel_rows + 1;
}

void weft_panel_range(const weft_layout *layout, const weft_box *box, int64_t index, int64_t *first,
                      int64_t *last)
{
    if (layout->ndim == 0) {
        *first = 0;
        *last = 1;
        return;
    }
    if (weft_layout_has_margins(layout)) {
        weft_zones z;
        find_zones(layout, box, &z);
        *first = begin_of(layout, &z, index);
        *last = begin_of(layout, &z, index + 1);
        return;
    }
    int64_t height = layout->panel_rows;
    int64_t begin = box->offset[0], end = begin + box->extent[0];
    int64_t number = begin / height + index; /* of the panel in the global tensor */
    *first = index == 0 ? begin : number * height;
    *last = end / height <= number ? end : (number + 1) * height;
}

int64_t weft_panel_of_row(const weft_layout *layout, const weft_box *box, int64_t row)
{
    if (weft_layout_has_margins(layout)) {
        weft_zones z;
        find_zones(layout, box, &z);
        int64_t panel = row < z.cuts[z.leading]                        ? 0
                        : row >= z.cuts[z.leading + 1]                 ? z.leading + z.middle
                                                                       : z.leading + (row - z.cuts[z.leading]) / layout->panel_rows;
        while (begin_of(layout, &z, panel + 1) <= row) {
            panel++;
        }
        return panel;
    }
    return layout->ndim == 0 ? 0 : row / layout->panel_rows - box->offset[0] / layout->panel_rows;
}

void weft_panel_margins(const weft_layout *layout, const weft_box *box, int *leading, int *trailing)
{
    weft_zones z;
    find_zones(layout, box, &z);
    *leading = z.leading;
    *trailing = z.trailing;
}

bool weft_panel_is_margin(const weft_layout *layout, const weft_box *box, int64_t index)
{
    return (layout->margin_rows[0] > 0 && index == 0) ||
           (layout->margin_rows[1] > 0 && index == weft_panel_count(layout, box) - 1);
}

weft_shard_info weft_layout_shard(const weft_layout *layout, int rank)
{
    weft_shard_info shard = { .rank = rank };
    shard.member = weft_layout_shard_box(layout, rank, &shard.box);
    shard.count = shard.member ? weft_box_count(layout->ndim, &shard.box) : 0;
    shard.num_panels = shard.count == 0 ? 0 : weft_panel_count(layout, &shard.box);
    return shard;
}

int64_t weft_row_elements(int ndim, const weft_box *box)
{
    int64_t elements = 1;
    for (int d = 1; d < ndim; d++) {
        elements *= box->extent[d];
    }
    return elements;
}

double weft_row_position(const weft_layout *layout, int rank, int64_t row)
{
    if (layout->ndim == 0 || layout->shape[0] == 0) {
        return 0;
    }
    double place = (double)weft_mesh_index_of(layout->mesh, rank) + 1;
    double position = (double)row / (double)layout->shape[0] - place / (double)layout->mesh->num_ranks;
    return position < 0 ? position + 1 : position;
}

int64_t weft_panel_offset(const weft_layout *layout, int rank, int64_t panel, const weft_box *part, int64_t stride[])
{
    weft_box shard;
    weft_layout_shard_box(layout, rank, &shard);
    int64_t first, last, step = 1, elements = 0;
    weft_panel_range(layout, &shard, panel, &first, &last);
    for (int d = layout->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        elements += (part->offset[d] - (d == 0 ? first : shard.offset[d])) * step;
        step *= shard.extent[d];
    }
    return elements * (int64_t)weft_dtype_size(layout->dtype);
}
