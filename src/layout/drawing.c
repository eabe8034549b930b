#include "layout/drawing.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct interval {
    int64_t offset, extent;
} interval;

/* One rank's part, in the order in which parts are drawn. */
typedef struct holder {
    int64_t cell;
    int64_t addend; /* row-major coordinate along the mesh dimensions that are Partial */
    int64_t index;  /* in the mesh */
} holder;

struct weft_drawing {
    const weft_layout *layout;
    int64_t num_intervals[WEFT_MAX_DIMS];
    interval *intervals[WEFT_MAX_DIMS]; /* by tensor dimension, ascending, none empty */
    int order[WEFT_MAX_DIMS];           /* dimensions as cells are numbered: planes, then down, then across */
    int64_t num_holders;
    holder *holders; /* by cell, addend, index */
    int64_t num_empty;
    int64_t *empty; /* mesh indices of ranks with empty shards */
};

/* ---- the grid ------------------------------------------------------------------------------------------ */

static int by_offset(const void *a, const void *b)
{
    int64_t first = ((const interval *)a)->offset, second = ((const interval *)b)->offset;
    return first < second ? -1 : first > second;
}

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_cell(const void *a, const void *b)
{
    const holder *first = a, *second = b;
    int order = compare(first->cell, second->cell);
    order = order != 0 ? order : compare(first->addend, second->addend);
    return order != 0 ? order : compare(first->index, second->index);
}

static bool box_at(const weft_layout *layout, int64_t index, weft_box *box)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(layout->mesh, index, coordinate);
    weft_layout_coordinate_box(layout, coordinate, box);
    return weft_box_count(layout->ndim, box) > 0;
}

/* False: no memory. */
static bool find_intervals(weft_drawing *drawing, int dim)
{
    const weft_layout *layout = drawing->layout;
    interval *found = malloc((size_t)layout->mesh->num_ranks * sizeof(*found));
    if (found == NULL) {
        return false;
    }
    size_t count = 0;
    for (int64_t i = 0; i < layout->mesh->num_ranks; i++) {
        weft_box box;
        if (box_at(layout, i, &box)) {
            found[count++] = (interval){ box.offset[dim], box.extent[dim] };
        }
    }
    qsort(found, count, sizeof(*found), by_offset);
    int64_t distinct = 0;
    for (size_t i = 0; i < count; i++) {
        if (distinct == 0 || found[distinct - 1].offset != found[i].offset) {
            found[distinct++] = found[i];
        }
    }
    drawing->intervals[dim] = found;
    drawing->num_intervals[dim] = distinct;
    return true;
}

/* Down and across are the first two dimensions that are cut, in their order; where fewer are, the first ones. */
static void choose_order(weft_drawing *drawing)
{
    int ndim = drawing->layout->ndim, chosen = 0;
    bool drawn[WEFT_MAX_DIMS] = { false };
    for (int cut = 1; cut >= 0; cut--) {
        for (int d = 0; d < ndim && chosen < 2; d++) {
            if (!drawn[d] && (drawing->num_intervals[d] > 1) == (cut == 1)) {
                drawn[d] = true;
                chosen++;
            }
        }
    }
    int count = 0;
    for (int last = 0; last < 2; last++) {
        for (int d = 0; d < ndim; d++) {
            if (drawn[d] == (last == 1)) {
                drawing->order[count++] = d;
            }
        }
    }
}

static int64_t cell_of(const weft_drawing *drawing, const weft_box *box)
{
    int64_t cell = 0;
    for (int i = 0; i < drawing->layout->ndim; i++) {
        int dim = drawing->order[i];
        interval key = { box->offset[dim], 0 };
        size_t count = (size_t)drawing->num_intervals[dim];
        const interval *found = bsearch(&key, drawing->intervals[dim], count, sizeof(key), by_offset);
        cell = cell * drawing->num_intervals[dim] + (found - drawing->intervals[dim]);
    }
    return cell;
}

static int64_t addend_of(const weft_layout *layout, int64_t index)
{
    int64_t coordinate[WEFT_MAX_DIMS], addend = 0;
    weft_mesh_unravel(layout->mesh, index, coordinate);
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (layout->placements[m].kind == WEFT_PARTIAL) {
            addend = addend * layout->mesh->shape[m] + coordinate[m];
        }
    }
    return addend;
}

static void place_ranks(weft_drawing *drawing)
{
    for (int64_t i = 0; i < drawing->layout->mesh->num_ranks; i++) {
        weft_box box;
        if (box_at(drawing->layout, i, &box)) {
            drawing->holders[drawing->num_holders++] =
                (holder){ cell_of(drawing, &box), addend_of(drawing->layout, i), i };
        } else {
            drawing->empty[drawing->num_empty++] = i;
        }
    }
    qsort(drawing->holders, (size_t)drawing->num_holders, sizeof(holder), by_cell);
}

weft_drawing *weft_drawing_new(const weft_layout *layout)
{
    weft_drawing *drawing = calloc(1, sizeof(*drawing));
    if (drawing == NULL) {
        return NULL;
    }
    drawing->layout = layout;
    size_t ranks = (size_t)layout->mesh->num_ranks;
    drawing->holders = malloc(ranks * sizeof(*drawing->holders));
    drawing->empty = malloc(ranks * sizeof(*drawing->empty));
    bool done = drawing->holders != NULL && drawing->empty != NULL;
    for (int d = 0; d < layout->ndim && done; d++) {
        done = find_intervals(drawing, d);
    }
    if (!done) {
        weft_drawing_free(drawing);
        return NULL;
    }
    choose_order(drawing);
    place_ranks(drawing);
    return drawing;
}

void weft_drawing_free(weft_drawing *drawing)
{
    if (drawing == NULL) {
        return;
    }
    for (int d = 0; d < drawing->layout->ndim; d++) {
        free(drawing->intervals[d]);
    }
    free(drawing->holders);
    free(drawing->empty);
    free(drawing);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* As fprintf(); `file` NULL only counts. */
static int put(FILE *file, const char *format, ...) WEFT_PRINTF(2, 3);

static int put(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = file == NULL ? vsnprintf(NULL, 0, format, arguments) : vfprintf(file, format, arguments);
    va_end(arguments);
    return length;
}

/* The ranks of holders [first, end): "0,1 + 4-7". Returns its length, as the functions below. */
static int put_holders(const weft_drawing *drawing, int64_t first, int64_t end, FILE *file)
{
    const weft_mesh_impl *mesh = drawing->layout->mesh;
    const holder *all = drawing->holders;
    int length = 0, run = 1;
    for (int64_t i = first; i < end; i += run) {
        int rank = weft_mesh_rank_at(mesh, all[i].index);
        for (run = 1; i + run < end && all[i + run].addend == all[i].addend &&
                      weft_mesh_rank_at(mesh, all[i + run].index) == rank + run;
             run++) {
        }
        run = run == 2 ? 1 : run;
        const char *between = i == first ? "" : all[i].addend == all[i - 1].addend ? "," : " + ";
        length += put(file, "%s%d", between, rank);
        length += run > 1 ? put(file, "-%d", rank + run - 1) : 0;
    }
    return length;
}

/* "0:4"; the whole of a dimension: ":". */
static int put_interval(const weft_drawing *drawing, int dim, int64_t number, FILE *file)
{
    const interval *at = &drawing->intervals[dim][number];
    return at->extent == drawing->layout->shape[dim]
               ? put(file, ":")
               : put(file, "%lld:%lld", (long long)at->offset, (long long)(at->offset + at->extent));
}

static void put_empty(const weft_drawing *drawing, FILE *file)
{
    for (int64_t i = 0; i < drawing->num_empty; i++) {
        put(file, "%s%d", i == 0 ? "no elements: " : ",",
            weft_mesh_rank_at(drawing->layout->mesh, drawing->empty[i]));
    }
}

/* ---- planes -------------------------------------------------------------------------------------------- */

/* What is drawn at once: the cells that differ in two dimensions. */
typedef struct plane {
    const weft_drawing *drawing;
    int down, across; /* tensor dimensions; -1: there is none, one row or column */
    int64_t rows, columns;
    int64_t number, count;
    int64_t next;      /* the first holder that has not been drawn */
    int head;          /* characters of the widest interval of `down` */
    int widths[];      /* of each column: characters of its widest cell */
} plane;

/* One past the last holder of the cell that holder `first` is in. */
static int64_t end_of_cell(const weft_drawing *drawing, int64_t first)
{
    int64_t end = first;
    while (end < drawing->num_holders && drawing->holders[end].cell == drawing->holders[first].cell) {
        end++;
    }
    return end;
}

static void widen(int *width, int length)
{
    *width = length > *width ? length : *width;
}

static void measure_plane(plane *p)
{
    const weft_drawing *drawing = p->drawing;
    p->head = 0;
    for (int64_t row = 0; row < p->rows && p->down >= 0; row++) {
        widen(&p->head, put_interval(drawing, p->down, row, NULL));
    }
    for (int64_t column = 0; column < p->columns; column++) {
        p->widths[column] = p->across < 0 ? 0 : put_interval(drawing, p->across, column, NULL);
    }
    int64_t first = p->next;
    for (int64_t cell = 0; cell < p->rows * p->columns; cell++) {
        int64_t end = end_of_cell(drawing, first);
        widen(&p->widths[cell % p->columns], put_holders(drawing, first, end, NULL));
        first = end;
    }
}

/* The first one; NULL: no memory. */
static plane *begin_planes(const weft_drawing *drawing)
{
    int ndim = drawing->layout->ndim;
    int across = ndim > 0 ? drawing->order[ndim - 1] : -1, down = ndim > 1 ? drawing->order[ndim - 2] : -1;
    int64_t columns = across < 0 ? 1 : drawing->num_intervals[across];
    plane *p = malloc(sizeof(*p) + (size_t)columns * sizeof(p->widths[0]));
    if (p == NULL) {
        return NULL;
    }
    *p = (plane){ .drawing = drawing, .down = down, .across = across, .columns = columns };
    p->rows = down < 0 ? 1 : drawing->num_intervals[down];
    p->count = drawing->num_holders > 0;
    for (int i = 0; i < ndim - 2; i++) {
        p->count *= drawing->num_intervals[drawing->order[i]];
    }
    return p;
}

/* "[0:2, down, across]": the plane's own intervals, and the dimensions that are drawn. */
static void put_plane(const plane *p, FILE *file)
{
    const weft_drawing *drawing = p->drawing;
    int ndim = drawing->layout->ndim;
    int64_t at[WEFT_MAX_DIMS] = { 0 }, rest = p->number;
    for (int i = ndim - 3; i >= 0; i--) {
        int dim = drawing->order[i];
        at[dim] = rest % drawing->num_intervals[dim];
        rest /= drawing->num_intervals[dim];
    }
    for (int d = 0; d < ndim; d++) {
        put(file, d == 0 ? "[" : ", ");
        if (d == p->down || d == p->across) {
            put(file, d == p->down ? "down" : "across");
        } else {
            put_interval(drawing, d, at[d], file);
        }
    }
    put(file, ndim == 0 ? "scalar" : "]");
}

static void print_row_head(const plane *p, int64_t row, FILE *file)
{
    int length = row < 0 || p->down < 0 ? 0 : put_interval(p->drawing, p->down, row, file);
    put(file, "%*s", p->head - length, "");
}

/* Goes on to the next plane. */
static void print_plane(plane *p, FILE *file)
{
    put_plane(p, file);
    put(file, "\n");
    for (int64_t row = p->across < 0 ? 0 : -1; row < p->rows; row++) {
        print_row_head(p, row, file);
        for (int64_t column = 0; column < p->columns; column++) {
            int64_t end = row < 0 ? p->next : end_of_cell(p->drawing, p->next);
            put(file, " | ");
            int length = row < 0 ? put_interval(p->drawing, p->across, column, file)
                                 : put_holders(p->drawing, p->next, end, file);
            put(file, "%*s", column + 1 < p->columns ? p->widths[column] - length : 0, "");
            p->next = end;
        }
        put(file, "\n");
    }
}

/* ---- SVG ----------------------------------------------------------------------------------------------- */

enum { CHARACTER = 8, LINE = 24, MARGIN = 8, LENGTH = 320 }; /* pixels; LENGTH: of a whole dimension */

static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&' || *text == '<') {
            put(file, *text == '&' ? "&amp;" : "&lt;");
        } else {
            put(file, "%c", (unsigned char)*text < ' ' ? '_' : *text);
        }
    }
}

static void svg_text(FILE *file, int64_t x, int64_t y, const char *anchor)
{
    put(file, "<text x=\"%lld\" y=\"%lld\" text-anchor=\"%s\">", (long long)x, (long long)y, anchor);
}

static void svg_text_end(FILE *file)
{
    put(file, "</text>\n");
}

/* To scale, but at least `least`. */
static int64_t svg_length(const weft_drawing *drawing, int dim, int64_t number, int64_t least)
{
    double share = dim < 0 ? 0
                           : (double)drawing->intervals[dim][number].extent / (double)drawing->layout->shape[dim];
    return weft_max_i64(least, (int64_t)(share * LENGTH));
}

static int64_t svg_column(const plane *p, int64_t column)
{
    return svg_length(p->drawing, p->across, column, (int64_t)(p->widths[column] + 2) * CHARACTER);
}

/* Coloured by its first rank. */
static void svg_cell(const plane *p, int64_t end, const int64_t corner[2], const int64_t size[2], FILE *file)
{
    int64_t hue = p->drawing->holders[p->next].index * 360 / p->drawing->layout->mesh->num_ranks;
    put(file,
        "<rect x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%lld\" fill=\"hsl(%lld,60%%,82%%)\" "
        "stroke=\"#444\"/>\n",
        (long long)corner[0], (long long)corner[1], (long long)size[0], (long long)size[1], (long long)hue);
    svg_text(file, corner[0] + size[0] / 2, corner[1] + size[1] / 2 + 5, "middle");
    put_holders(p->drawing, p->next, end, file);
    svg_text_end(file);
}

/* Returns where the plane ends on the right. */
static int64_t svg_columns_head(const plane *p, int64_t x, int64_t y, FILE *file)
{
    for (int64_t column = 0; column < p->columns; column++) {
        int64_t width = svg_column(p, column);
        if (p->across >= 0) {
            svg_text(file, x + width / 2, y + LINE - CHARACTER, "middle");
            put_interval(p->drawing, p->across, column, file);
            svg_text_end(file);
        }
        x += width;
    }
    return x;
}

/* Draws from *y on, which then is below the plane, and goes on to the next one. Returns where it ends on the
 * right. */
static int64_t svg_plane(plane *p, int64_t *y, FILE *file)
{
    svg_text(file, MARGIN, *y + LINE - CHARACTER, "start");
    put_plane(p, file);
    svg_text_end(file);
    *y += LINE;
    int64_t left = MARGIN + (int64_t)(p->head + 1) * CHARACTER;
    int64_t right = svg_columns_head(p, left, *y, file);
    *y += LINE;
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t height = svg_length(p->drawing, p->down, row, LINE), x = left;
        if (p->down >= 0) {
            svg_text(file, left - CHARACTER / 2, *y + height / 2 + 5, "end");
            put_interval(p->drawing, p->down, row, file);
            svg_text_end(file);
        }
        for (int64_t column = 0; column < p->columns; column++) {
            int64_t end = end_of_cell(p->drawing, p->next), width = svg_column(p, column);
            svg_cell(p, end, (int64_t[]){ x, *y }, (int64_t[]){ width, height }, file);
            p->next = end;
            x += width;
        }
        *y += height;
    }
    return right;
}

/* `file` NULL: only measures. */
static void svg_body(plane *p, const char *head, int64_t *width, int64_t *height, FILE *file)
{
    *width = 2 * MARGIN + (int64_t)strlen(head) * CHARACTER;
    *height = LINE;
    svg_text(file, MARGIN, LINE - CHARACTER, "start");
    put_escaped(file, head);
    svg_text_end(file);
    p->next = 0;
    for (p->number = 0; p->number < p->count; p->number++) {
        measure_plane(p);
        *width = weft_max_i64(*width, svg_plane(p, height, file) + MARGIN);
    }
    if (p->drawing->num_empty > 0) {
        svg_text(file, MARGIN, *height + LINE - CHARACTER, "start");
        put_empty(p->drawing, file);
        svg_text_end(file);
        *height += LINE;
    }
    *height += MARGIN;
}

static void print_svg(plane *p, const char *head, FILE *file)
{
    int64_t width, height;
    svg_body(p, head, &width, &height, NULL);
    put(file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" "
        "font-family=\"monospace\" font-size=\"13\">\n",
        (long long)width, (long long)height);
    svg_body(p, head, &width, &height, file);
    put(file, "</svg>\n");
}

static void print_text(plane *p, const char *head, FILE *file)
{
    put(file, "%s\n", head);
    for (p->number = 0; p->number < p->count; p->number++) {
        measure_plane(p);
        print_plane(p, file);
    }
    put_empty(p->drawing, file);
    if (p->drawing->num_empty > 0) {
        put(file, "\n");
    }
}

bool weft_drawing_print(const weft_drawing *drawing, const char *head, bool svg, FILE *file)
{
    plane *p = begin_planes(drawing);
    if (p != NULL && svg) {
        print_svg(p, head, file);
    } else if (p != NULL) {
        print_text(p, head, file);
    }
    free(p);
    return p != NULL;
}
