/* Heat in a plate of Y x X points, cut in both dimensions: an MPI program with ghosted arrays, and weft in the same arrays.
 *
 *     mpirun -n 4 heat2d --size 1001x991 --steps 200 --picture plate.ppm
 *
 * Each process owns a tile of any size, in two arrays with a ghost row or column on each side. Ghosts at the plate's border hold
 * fixed temperatures: the top is hot. A step gives each point the mean of itself, four times, and its four neighbours, from one
 * array into the other. The program takes the steps twice:
 *
 *   plain   MPI_Isend() and MPI_Irecv() with a vector type exchange rows and columns; then all points are computed
 *   weft    the same arrays are tensors (weft_from_ghosted()). A step is one call of an operation of the program's own, which
 *           works in them: weft fills the ghosts, and computes meanwhile what does not read them.
 *           With --calls, tensors without ghosts, and calls of weft alone: the border comes from weft_pad(), neighbours
 *           from weft_slice(). A captured graph makes one pass of them
 *
 * Both use the same loop over a row's points, and the results are the same bits: the program compares them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include <weft/weft.h>

#include "turns.h"

enum { Y, X };

static struct {
    int64_t size[2], steps, turns;
    const char *picture;
    bool json, calls;
} o = { .size = { 257, 255 }, .steps = 50, .turns = 3 };

static bool run(void);

static const argument arguments[] = {
    { "size", ARGUMENT_SIZES, o.size, "YxX", "points", 1, 1 << 16 },
    { "steps", ARGUMENT_INTEGER, &o.steps, "N", "in each turn", 1, 1 << 20 },
    { "turns", ARGUMENT_INTEGER, &o.turns, "N", "of both, alternating; the fastest ones count", 1, 1000 },
    { "picture", ARGUMENT_STRING, &o.picture, "FILE", "writes the last temperatures as a PPM picture" },
    { "calls", ARGUMENT_FLAG, &o.calls, NULL, "weft by weft_pad(), weft_slice() and sums in a captured graph" },
    { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
};
static const turns_program program = { .name = "heat2d",
                                       .introduction = "Heat in a plate, by MPI and by weft, in the same ghosted arrays.\n",
                                       .part = "tile",
                                       .num_arguments = sizeof(arguments) / sizeof(arguments[0]),
                                       .arguments = arguments,
                                       .run = run };

/* A process's points [first, first + count) in both dimensions. An array has count + 2 rows of `row` = count + 2 points. */
typedef struct tile {
    MPI_Comm grid;
    int parts[2], neighbours[2][2]; /* in each dimension, before and after; MPI_PROC_NULL: the border */
    int64_t first[2], count[2], row;
    double *now, *next;
} tile;

/* ---- the stencil ----------------------------------------------------------------------------------------- */

static void update_row(double *restrict out, const double *above, const double *row, const double *below, int64_t count)
{
    for (int64_t x = 0; x < count; x++) {
        out[x] = 0.125 * (4 * row[x] + row[x - 1] + row[x + 1] + above[x] + below[x]);
    }
}

/* ---- with MPI alone -------------------------------------------------------------------------------------- */

static void exchange(const tile *t, double *a, MPI_Datatype column)
{
    MPI_Request requests[8];
    MPI_Status statuses[8];
    double *rows[2][2] = { { a + t->row + 1, a + 1 }, /* sent, received */
                           { a + t->count[Y] * t->row + 1, a + (t->count[Y] + 1) * t->row + 1 } };
    double *columns[2][2] = { { a + t->row + 1, a + t->row }, { a + t->row + t->count[X], a + t->row + t->count[X] + 1 } };
    for (int side = 0; side < 2; side++) {
        MPI_Irecv(rows[side][1], (int)t->count[X], MPI_DOUBLE, t->neighbours[Y][side], 1 - side, t->grid, &requests[side]);
        MPI_Isend(rows[side][0], (int)t->count[X], MPI_DOUBLE, t->neighbours[Y][side], side, t->grid, &requests[2 + side]);
        MPI_Irecv(columns[side][1], 1, column, t->neighbours[X][side], 3 - side, t->grid, &requests[4 + side]);
        MPI_Isend(columns[side][0], 1, column, t->neighbours[X][side], 2 + side, t->grid, &requests[6 + side]);
    }
    MPI_Waitall(8, requests, statuses); /* MPICH declares an array: GCC warns of MPI_STATUSES_IGNORE */
}

static void swap(tile *t)
{
    double *former = t->now;
    t->now = t->next;
    t->next = former;
}

static void steps_of_mpi(tile *t)
{
    MPI_Datatype column;
    MPI_Type_vector((int)t->count[Y], 1, (int)t->row, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int64_t step = 0; step < o.steps; step++) {
        exchange(t, t->now, column);
        for (int64_t y = 1; y <= t->count[Y]; y++) {
            const double *row = &t->now[y * t->row + 1];
            update_row(&t->next[y * t->row + 1], row - t->row, row, row + t->row, t->count[X]);
        }
        swap(t);
    }
    MPI_Type_free(&column);
}

/* ---- with weft ------------------------------------------------------------------------------------------- */

/* Point (y, x) of the view, which has the ghosts too. */
static double *point(const weft_view *view, int64_t y, int64_t x)
{
    return (double *)weft_view_row(view, y - view->offset[Y], NULL) + (x - view->offset[X]);
}

static void heat_kernel(const weft_kernel_call *call)
{
    const weft_view *next = &call->output, *now = &call->inputs[0];
    const int64_t x = next->offset[X];
    for (int64_t i = 0; i < weft_view_rows(next); i++) {
        const int64_t y = next->offset[Y] + i;
        update_row(point(next, y, x), point(now, y - 1, x), point(now, y, x), point(now, y + 1, x), next->extent[X]);
    }
}

static const weft_operation *register_heat(void)
{
    return weft_operation_register(&(weft_operation_description){
        .name = "heat2d",
        .rule = "yx,y~x~->yx",
        .inputs = { { "next", WEFT_TYPE_BIT(WEFT_F64), false }, { "now", WEFT_TYPE_BIT(WEFT_F64), false } },
        .outputs[0].in_place = true,
        .halos = { { .input = 1, .letter = 'y', .before = 1, .after = 1 }, { .input = 1, .letter = 'x', .before = 1, .after = 1 } },
        .kernel = heat_kernel,
        .takes_strides = true });
}

static const weft_placement by_tiles[] = { { .kind = WEFT_SHARD, .dim = Y, .cut = WEFT_CUT_BALANCED },
                                           { .kind = WEFT_SHARD, .dim = X, .cut = WEFT_CUT_BALANCED } };

static weft_tensor *tensor_of(double *array)
{
    const weft_ghosts around = { .before = { 1, 1 }, .after = { 1, 1 }, .star = true };
    return weft_from_ghosted(WEFT_F64, 2, o.size, (void *[]){ array }, &around, NULL, by_tiles);
}

/* Nothing waits but the call at the end. */
static void steps_of_weft(tile *t, const weft_operation *heat)
{
    weft_scope_begin();
    weft_tensor *tensors[2] = { tensor_of(t->next), tensor_of(t->now) };
    for (int64_t step = 0; step < o.steps; step++) {
        weft_apply(heat, 2, tensors, NULL);
        weft_tensor *former = tensors[0];
        tensors[0] = tensors[1];
        tensors[1] = former;
        swap(t);
    }
    weft_scope_end();
    weft_wait(); /* now the arrays are the program's again */
}

/* ---- with calls of weft alone ---------------------------------------------------------------------------- */

/* Each point's neighbour dy rows and dx columns away, of a plate with its border. */
static weft_tensor *neighbour(weft_tensor *bordered, int64_t dy, int64_t dx)
{
    return weft_slice(weft_slice(bordered, Y, 1 + dy, 1 + dy + o.size[Y], 1), X, 1 + dx, 1 + dx + o.size[X], 1);
}

/* In the order of update_row(): the same bits. */
static weft_status step_by_calls(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    weft_tensor *hot = weft_pad(inputs[0], WEFT_PAD_CONSTANT, 1.0, 2, (int64_t[]){ 1, 0 }, (int64_t[]){ 0, 0 });
    weft_tensor *bordered = weft_pad(hot, WEFT_PAD_CONSTANT, 0.0, 2, (int64_t[]){ 0, 1 }, (int64_t[]){ 1, 1 });
    weft_tensor *sum = weft_add(weft_scale(inputs[0], 4.0), neighbour(bordered, 0, -1));
    sum = weft_add(weft_add(sum, neighbour(bordered, 0, 1)), neighbour(bordered, -1, 0));
    outputs[0] = weft_scale(weft_add(sum, neighbour(bordered, 1, 0)), 0.125);
    return WEFT_OK;
}

static void steps_of_calls(const tile *t, weft_graph *graph)
{
    weft_tensor *plate = tensor_of(t->now), *now = weft_scale(plate, 1.0);
    for (int64_t step = 0; step < o.steps; step++) {
        weft_tensor *next = NULL;
        weft_graph_call(graph, &now, NULL, &next);
        weft_tensor_release(now);
        now = next;
    }
    weft_copy_inplace(plate, now);
    weft_tensor_release(now);
    weft_tensor_release(plate);
    weft_wait();
}

/* ---- both ------------------------------------------------------------------------------------------------ */

/* A warm disc in a cold plate, and the border. */
static double temperature(int64_t y, int64_t x)
{
    double dy = (double)y / (double)o.size[Y] - 0.6, dx = (double)x / (double)o.size[X] - 0.4;
    return y < 0 ? 1.0 : dy * dy + dx * dx < 0.04 ? 0.8 : 0.0;
}

static void fill(tile *t)
{
    for (int64_t y = -1; y <= t->count[Y]; y++) {
        for (int64_t x = -1; x <= t->count[X]; x++) {
            double *at = &t->now[(y + 1) * t->row + x + 1];
            *at = temperature(t->first[Y] + y, t->first[X] + x);
            t->next[at - t->now] = *at;
        }
    }
}

/* False: no memory. */
static bool tile_make(tile *t)
{
    int process, periods[2] = { 0, 0 };
    *t = (tile){ .grid = MPI_COMM_NULL };
    MPI_Dims_create(weft_num_processes(), 2, t->parts);
    MPI_Cart_create(MPI_COMM_WORLD, 2, t->parts, periods, 0, &t->grid);
    for (int d = 0; d < 2; d++) {
        MPI_Cart_shift(t->grid, d, 1, &t->neighbours[d][0], &t->neighbours[d][1]);
    }
    MPI_Comm_rank(t->grid, &process);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ t->parts[Y], t->parts[X] }, NULL);
    weft_mesh_push(mesh);
    weft_shard_box(mesh, by_tiles, 2, o.size, process, t->first, t->count);
    t->row = t->count[X] + 2;
    t->now = calloc((size_t)((t->count[Y] + 2) * t->row), sizeof(double));
    t->next = calloc((size_t)((t->count[Y] + 2) * t->row), sizeof(double));
    return t->now != NULL && t->next != NULL;
}

static void tile_free(tile *t)
{
    free(t->now);
    free(t->next);
    if (t->grid != MPI_COMM_NULL) {
        MPI_Comm_free(&t->grid);
    }
}

/* The tiles of both ways. */
typedef struct tiles {
    const weft_operation *heat;
    weft_graph *graph; /* of the calls */
    tile plain, own;
} tiles;

static void start(void *context, bool by_weft)
{
    tiles *both = context;
    fill(by_weft ? &both->own : &both->plain);
}

static void take(void *context, bool by_weft)
{
    tiles *both = context;
    if (by_weft && o.calls) {
        steps_of_calls(&both->own, both->graph);
    } else if (by_weft) {
        steps_of_weft(&both->own, both->heat);
    } else {
        steps_of_mpi(&both->plain);
    }
}

/* Points of all processes. */
static long long count_different(const tiles *both)
{
    const tile *plain = &both->plain;
    long long different = 0;
    for (int64_t y = 1; y <= plain->count[Y]; y++) {
        for (int64_t at = y * plain->row + 1; at <= y * plain->row + plain->count[X]; at++) {
            different += memcmp(&plain->now[at], &both->own.now[at], sizeof(double)) != 0;
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &different, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return different;
}

static void print(const turns_report *r, const tile *t, long long different)
{
    char processes[80];
    snprintf(processes, sizeof(processes), ", %lld steps, %d x %d processes", (long long)o.steps, t->parts[Y], t->parts[X]);
    turns_print(r, processes);
    printf(different == 0 ? "the same bits\n" : "%lld points differ\n", different);
    if (o.json) {
        turns_print_json(&program, r);
        printf(", \"different\": %lld}\n", different);
    }
}

/* ---- the picture ----------------------------------------------------------------------------------------- */

/* Black, red, yellow, white. */
static void write_pixel(FILE *file, double heat)
{
    double scaled = 3 * (heat < 0 ? 0 : heat > 1 ? 1 : heat);
    for (int channel = 0; channel < 3; channel++) {
        double part = scaled - channel;
        fputc((int)(255 * (part < 0 ? 0 : part > 1 ? 1 : part)), file);
    }
}

/* The field as a PPM file, which most viewers show. */
static bool write_picture(double *array)
{
    int64_t points = o.size[Y] * o.size[X];
    double *field = malloc((size_t)points * sizeof(double));
    weft_scope_begin();
    bool good = field != NULL && weft_to_host(tensor_of(array), field, (size_t)points * sizeof(double)) == WEFT_OK;
    weft_scope_end();
    FILE *file = good && weft_process_index() == 0 ? fopen(o.picture, "wb") : NULL;
    if (file != NULL) {
        fprintf(file, "P6\n%lld %lld\n255\n", (long long)o.size[X], (long long)o.size[Y]);
        for (int64_t i = 0; i < points; i++) {
            write_pixel(file, field[i]);
        }
        good = fclose(file) == 0;
    } else if (good && weft_process_index() == 0) {
        perror(o.picture);
        good = false;
    }
    free(field);
    return good;
}

static bool run(void)
{
    tiles both = { .plain = { .grid = MPI_COMM_NULL }, .own = { .grid = MPI_COMM_NULL } };
    both.heat = register_heat();
    both.graph = weft_graph_create("heat2d", step_by_calls, NULL, 1, 0, 1);
    bool good = turns_all(weft_last_status() == WEFT_OK && tile_make(&both.plain) && tile_make(&both.own));
    if (good) {
        const turns_report r = { "step", o.steps, 2, o.size, turns_measure(o.turns, &both, start, take) };
        long long different = count_different(&both);
        good = different == 0 && (o.picture == NULL || write_picture(both.own.now));
        if (weft_process_index() == 0) {
            print(&r, &both.plain, different);
        }
    }
    weft_graph_destroy(both.graph);
    good = turns_end(&program, good); /* weft may use the arrays until here */
    tile_free(&both.plain);
    tile_free(&both.own);
    return good;
}

int main(int argc, char *argv[])
{
    return turns_main(&program, argc, argv);
}
