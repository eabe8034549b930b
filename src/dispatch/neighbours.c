/* Inputs with a halo along their first dimension, read in place: a task gets the panels of the rank's own shard, and
 * neighbours' rows in panels of their own before and after them. Nothing but neighbours' rows is copied or sent. */
#include "codelets/kernels.h"
#include "dispatch/dispatch.h"

/* Whether the parts of dimension 0 begin at multiples of one number of rows, which is returned; 0: they do not. If it is
 * periodic all have as many: the first one's rows follow the last one's. */
static int64_t rows_of_parts(const weft_layout *layout, bool periodic)
{
    int64_t rows = layout->shape[0];
    int dims = 0;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (layout->placements[m].kind == WEFT_SHARD && layout->placements[m].dim == 0) {
            if (!weft_cut_is_chunks(layout->placements[m])) {
                return 0;
            }
            rows = weft_ceil_div(rows, layout->mesh->shape[m]);
            dims++;
        }
    }
    return (dims == 1 && !periodic) || layout->shape[0] % weft_layout_parts(layout, 0) == 0 ? rows : 0;
}

/* The height of panels of which each part of so many rows has whole ones; 0: there is none. */
static int64_t height_of_panels(const weft_layout *layout, int64_t part)
{
    if (part == 0 || layout->panel_rows <= part) {
        return part == 0 || part % layout->panel_rows != 0 ? 0 : layout->panel_rows;
    }
    return layout->panel_rows % part == 0 || layout->panel_rows >= layout->shape[0] ? part : 0;
}

/* Whether the map is a halo of whole rows beside each part, and none along another dimension. */
static bool is_halo_of_rows(const weft_access_map *map, const weft_layout *from)
{
    const weft_window *w = &map->of[0];
    bool right = map->cut != NULL && !map->placed && map->has[0] && map->cut->shape[0] == from->shape[0] &&
                 w->times == 1 && w->over == 1 && w->before >= 0 && w->after >= 0;
    for (int d = 1; d < from->ndim; d++) {
        right = right && !map->has[d];
    }
    for (int m = 0; m < from->mesh->ndim; m++) {
        right = right && map->turn[m] == 0;
    }
    return right;
}

/* Whether a part's rows of this tensor, `rows` for each part, lie in one panel. */
static bool is_one_panel(const weft_layout *layout, int64_t rows)
{
    return layout->panel_rows % rows == 0 || layout->panel_rows >= layout->shape[0];
}

/* The map that brings rows [p * part + first, p * part + first + rows) to part p, and its data's layout; `of`: the halo.
 * False with the error kept. */
static bool make_side(const char *function, const weft_layout *from, const weft_window *of, int64_t part, int64_t first, int64_t rows,
                      weft_neighbour_rows *side)
{
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < from->ndim; d++) {
        shape[d] = from->shape[d];
    }
    shape[0] = weft_layout_parts(from, 0);
    *side = (weft_neighbour_rows){ .rows = rows };
    side->map.cut = weft_layout_intern(weft_runtime.layouts, from->mesh, from->placements, from->ndim, shape, from->dtype);
    if (side->map.cut == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
        return false;
    }
    side->map.has[0] = true;
    side->map.of[0] = (weft_window){ .size = from->shape[0],
                                     .times = part,
                                     .over = 1,
                                     .before = -first,
                                     .after = first + rows - 1,
                                     .periodic = of->periodic };
    side->layout = weft_access_layout(function, from, &side->map);
    return side->layout != NULL;
}

bool weft_find_neighbours(const weft_call *call, const weft_layout *from, const weft_access_map *map,
                          weft_neighbours *neighbours)
{
    const weft_operation *operation = call->operation;
    *neighbours = (weft_neighbours){ .height = 0 };
    if (operation->lower != NULL || operation->places || weft_kernel_is_elementwise(operation->kernel) ||
        !is_halo_of_rows(map, from)) {
        return true;
    }
    const weft_window *w = &map->of[0];
    const int64_t part = rows_of_parts(from, w->periodic), before = w->before, after = w->after;
    const int64_t height = height_of_panels(from, part);
    if (height == 0 || before > height || after > height) {
        return true;
    }
    weft_neighbour_rows *sides = neighbours->sides;
    if ((before > 0 && !make_side(call->function, from, w, part, -before, before, &sides[WEFT_ROWS_BEFORE])) ||
        (after > 0 && !make_side(call->function, from, w, part, part, after, &sides[WEFT_ROWS_BEHIND]))) {
        return false;
    }
    bool whole = true;
    for (int s = 0; s < WEFT_ROWS_SIDES; s++) {
        whole = whole && (sides[s].rows == 0 || is_one_panel(sides[s].layout, sides[s].rows));
    }
    neighbours->height = whole ? height : 0;
    neighbours->shift = w->periodic ? height : 0;
    return true;
}
