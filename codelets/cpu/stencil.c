/* Stencils: the output is cut into boxes in which each view is a constant or one part of a source, and the kernels run on tiles of
 * these, which read the sources where they lie. */
#include "codelets/stencil.h"

#include <stdalign.h>
#include <string.h>

#include "codelets/constant.h"
#include "codelets/cpu/stencil_sums.h"

enum { MAX_TILE_BYTES = 1 << 15, MAX_TILE_ELEMENTS = 4096, MIN_TILE_ELEMENTS = 256, MAX_ELEMENT = 16, MIN_LINE = 8 };
_Static_assert(WEFT_STENCIL_STEPS * MIN_TILE_ELEMENTS * MAX_ELEMENT <= 4 * MAX_TILE_BYTES, "room for a tile of each slot");

/* A view in the current box. */
typedef struct leaf {
    const weft_view *view;        /* the part that it is read from; NULL: a constant */
    int64_t shift[WEFT_MAX_DIMS]; /* index of the source minus that of the output */
    const char *at;               /* in the current tile */
    const int64_t *strides;
    alignas(16) char constant[MAX_ELEMENT];
} leaf;

/* Indices [first, first + extent) of the output. */
typedef struct box {
    int64_t first[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
} box;

typedef struct running {
    const weft_kernel_call *call;
    const weft_stencil *stencil;
    int ndim;
    int64_t tile; /* elements, at most */
    box own;      /* the current one */
    int segments[WEFT_STENCIL_VIEWS][WEFT_MAX_DIMS]; /* by view: those of the current box */
    int64_t begins[WEFT_STENCIL_VIEWS][WEFT_MAX_DIMS];
    leaf leaves[WEFT_STENCIL_VIEWS];
    char *slots;
    weft_stencil_sum sum; /* all steps */
    bool sums;            /* in the current box they are made as such */
} running;

static const int64_t no_strides[WEFT_MAX_DIMS];

/* ---- tiles ----------------------------------------------------------------------------------------------- */

/* Where index `first` of the box lies, `shift` further. */
static char *address(const weft_view *view, const int64_t first[], const int64_t shift[])
{
    int64_t elements = 0;
    for (int d = 1; d < view->ndim; d++) {
        elements += (first[d] + shift[d] - view->offset[d]) * view->strides[d];
    }
    char *row = weft_view_row(view, view->ndim == 0 ? 0 : first[0] + shift[0] - view->offset[0], NULL);
    return row + elements * (int64_t)weft_dtype_size(view->dtype);
}

static int64_t distance(const int64_t place[], const int64_t strides[], int ndim)
{
    int64_t elements = 0;
    for (int d = 0; d < ndim; d++) {
        elements += place[d] * strides[d];
    }
    return elements;
}

static char *slot_at(const running *r, int slot)
{
    return r->slots + (int64_t)slot * r->tile * r->stencil->slot_element;
}

static void run_step(const running *r, const weft_stencil_step *step, const box *tile, char *output, const int64_t dense[])
{
    weft_elementwise_args args = step->args;
    void *operands[1 + WEFT_MAX_ELEMENTWISE_INPUTS];
    const size_t bytes = (size_t)r->ndim * sizeof(int64_t);
    args.ndim = r->ndim;
    memcpy(args.extent, tile->extent, bytes);
    operands[0] = step->slot < 0 ? output : slot_at(r, step->slot);
    memcpy(args.stride[0], step->slot < 0 ? r->call->output.strides : dense, bytes);
    for (int i = 0; i < step->num_inputs; i++) {
        const int number = step->operands[i];
        const leaf *read = number < 0 ? NULL : &r->leaves[number];
        operands[i + 1] = read == NULL ? slot_at(r, -1 - number) : (char *)read->at;
        memcpy(args.stride[i + 1], read == NULL ? dense : read->strides, bytes);
    }
    weft_task_run run = { .kernel = step->kernel,
                          .arguments = &args,
                          .num_operands = 1 + step->num_inputs,
                          .operands = operands,
                          .function = step->function,
                          .error = r->call->error };
    memcpy(run.scalars, step->scalars, sizeof(run.scalars));
    weft_cpu_elementwise(&run);
}

/* The tile's lines, which are contiguous in all operands. */
static void run_sums(const running *r, const box *tile)
{
    const weft_view *output = &r->call->output;
    const int64_t size = (int64_t)weft_dtype_size(output->dtype), length = tile->extent[r->ndim - 1];
    box line = *tile;
    line.extent[r->ndim - 1] = 1;
    for (bool more = true; more;) {
        const char *at[WEFT_STENCIL_VIEWS];
        int64_t place[WEFT_MAX_DIMS];
        for (int d = 0; d < r->ndim; d++) {
            place[d] = line.first[d] - tile->first[d];
        }
        for (int v = 0; v < r->stencil->num_views; v++) {
            at[v] = r->leaves[v].at + size * distance(place, r->leaves[v].strides, r->ndim);
        }
        weft_stencil_run_sum(&r->sum, output->dtype, address(output, line.first, no_strides), at, length);
        more = false;
        for (int d = r->ndim - 2; d >= 0 && !more; d--) {
            more = ++line.first[d] < tile->first[d] + tile->extent[d];
            line.first[d] = more ? line.first[d] : tile->first[d];
        }
    }
}

static void run_tile(running *r, const box *tile)
{
    int64_t dense[WEFT_MAX_DIMS], size = 1;
    for (int d = r->ndim - 1; d >= 0; d--) {
        dense[d] = size;
        size *= tile->extent[d];
    }
    for (int v = 0; v < r->stencil->num_views; v++) {
        leaf *own = &r->leaves[v];
        bool repeats = own->view == NULL || own->view->ndim == 0;
        own->at = own->view == NULL ? own->constant : address(own->view, tile->first, own->shift);
        own->strides = repeats ? no_strides : own->view->strides;
    }
    if (r->sums) {
        run_sums(r, tile);
        return;
    }
    char *output = address(&r->call->output, tile->first, no_strides);
    for (int i = 0; i < r->stencil->num_steps; i++) {
        run_step(r, &r->stencil->steps[i], tile, output, dense);
    }
}

/* The rows from `row` of the output on, at most `count`, that are contiguous in all operands. */
static int64_t contiguous_rows(const running *r, int64_t row, int64_t count)
{
    int64_t own;
    weft_view_row(&r->call->output, row - r->call->output.offset[0], &own);
    count = own < count ? own : count;
    for (int v = 0; v < r->stencil->num_views; v++) {
        const leaf *read = &r->leaves[v];
        if (read->view != NULL && read->view->ndim > 0) {
            weft_view_row(read->view, row + read->shift[0] - read->view->offset[0], &own);
            count = own < count ? own : count;
        }
    }
    return count;
}

/* The box in tiles, along dimension d and those after it. */
static void run_part(running *r, const box *whole, int d)
{
    int64_t inner = 1, end = whole->first[d] + whole->extent[d];
    for (int e = d + 1; e < r->ndim; e++) {
        inner *= whole->extent[e];
    }
    const int64_t step = inner >= r->tile ? 1 : r->tile / inner;
    box tile = *whole;
    for (; tile.first[d] < end; tile.first[d] += tile.extent[d]) {
        int64_t left = end - tile.first[d];
        tile.extent[d] = left < step ? left : step;
        tile.extent[d] = d == 0 ? contiguous_rows(r, tile.first[0], tile.extent[0]) : tile.extent[d];
        if (inner > r->tile) {
            run_part(r, &tile, d + 1);
        } else {
            run_tile(r, &tile);
        }
    }
}

/* ---- boxes ----------------------------------------------------------------------------------------------- */

/* The part of the view's source that has the current box; NULL: none. */
static const weft_view *find_input(const running *r, const weft_stencil_view *view, const int64_t shift[])
{
    for (int i = 0; i < r->call->num_inputs; i++) {
        const weft_view *input = &r->call->inputs[i];
        bool has = r->stencil->source_of[i] == view->source;
        for (int d = 0; d < view->ndim && has; d++) {
            int64_t first = r->own.first[d] + shift[d];
            has = first >= input->offset[d] && first + r->own.extent[d] <= input->offset[d] + input->extent[d];
        }
        if (has) {
            return input;
        }
    }
    return NULL;
}

static void set_constant(const weft_stencil_constant *constant, weft_dtype type, leaf *own)
{
    own->view = NULL;
    if (type == WEFT_C128) {
        memcpy(own->constant, constant, 2 * sizeof(double));
        return;
    }
    uint64_t bits = weft_constant_bits(type, constant->value, constant->rest);
    memcpy(own->constant, &bits, weft_dtype_size(type));
}

/* False: no input has the box, which is a mistake in weft. */
static bool bind(running *r, int number)
{
    const weft_stencil_view *view = &weft_stencil_views(r->stencil)[number];
    leaf *own = &r->leaves[number];
    const weft_stencil_segment *constant = NULL;
    for (int d = 0; d < view->ndim; d++) {
        const weft_stencil_segment *segment = &view->segments[d][r->segments[number][d]];
        bool nearer = segment->constant >= 0 && (constant == NULL || segment->level < constant->level);
        constant = nearer ? segment : constant;
        own->shift[d] = segment->first - r->begins[number][d];
    }
    if (constant != NULL) {
        set_constant(&r->stencil->constants[constant->constant], r->stencil->types[view->source], own);
        return true;
    }
    own->view = find_input(r, view, own->shift);
    return own->view != NULL;
}

/* Whether lines of the current box are contiguous in all operands, and none is a constant. */
static bool has_lines(const running *r)
{
    bool has = r->sum.num_terms > 0 && r->call->output.strides[r->ndim - 1] == 1 && r->own.extent[r->ndim - 1] >= MIN_LINE;
    for (int v = 0; v < r->stencil->num_views && has; v++) {
        const weft_view *view = r->leaves[v].view;
        has = view != NULL && view->ndim > 0 && view->strides[r->ndim - 1] == 1;
    }
    return has;
}

static void run_box(running *r)
{
    for (int v = 0; v < r->stencil->num_views; v++) {
        if (!bind(r, v)) {
            weft_kernel_fail(r->call, WEFT_ERR_INTERNAL, "a mistake in weft: no part of view %d's source has its elements", v);
            return;
        }
    }
    r->sums = has_lines(r);
    run_part(r, &r->own, 0);
}

/* The end of the indices from `first` on that lie in one segment of each view. */
static int64_t end_of_segments(running *r, int d, int64_t first, int64_t end)
{
    for (int v = 0; v < r->stencil->num_views; v++) {
        const weft_stencil_view *view = &weft_stencil_views(r->stencil)[v];
        int64_t begin = 0;
        int number = 0;
        if (d >= view->ndim) {
            continue;
        }
        while (begin + view->segments[d][number].count <= first) {
            begin += view->segments[d][number++].count;
        }
        int64_t own = begin + view->segments[d][number].count;
        r->segments[v][d] = number;
        r->begins[v][d] = begin;
        end = own < end ? own : end;
    }
    return end;
}

/* All boxes whose indices in the dimensions before d are the current ones. */
static void run_boxes(running *r, int d)
{
    const weft_view *output = &r->call->output;
    if (d == r->ndim) {
        run_box(r);
        return;
    }
    int64_t end = output->offset[d] + output->extent[d];
    for (int64_t first = output->offset[d], last; first < end; first = last) {
        last = end_of_segments(r, d, first, end);
        r->own.first[d] = first;
        r->own.extent[d] = last - first;
        run_boxes(r, d + 1);
    }
}

void weft_kernel_stencil(const weft_kernel_call *call)
{
    alignas(64) char slots[4 * MAX_TILE_BYTES];
    running r;
    r.call = call;
    r.stencil = call->context;
    r.ndim = call->output.ndim;
    r.slots = slots;
    r.sum = weft_stencil_find_sum(r.stencil);
    int64_t element = r.stencil->slot_element * (r.stencil->num_slots > 0 ? r.stencil->num_slots : 1);
    r.tile = MAX_TILE_BYTES / element;
    r.tile = r.tile > MAX_TILE_ELEMENTS ? MAX_TILE_ELEMENTS : r.tile < MIN_TILE_ELEMENTS ? MIN_TILE_ELEMENTS : r.tile;
    if (weft_view_rows(&call->output) > 0) {
        run_boxes(&r, 0);
    }
}
