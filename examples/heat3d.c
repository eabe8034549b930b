/* Heat in a block of X x Y x Z points: an MPI program with arrays of its own, and weft beside it.
 *
 *     mpirun -n 4 heat3d --size 128x128x128 --steps 100
 *
 * Each process owns a slab of planes, in two arrays with a ghost plane on either side. A step gives each point inside the
 * mean of itself, twice, and its six neighbours (the seven-point stencil), from one array into the other; points of the
 * border keep their values. The program takes the steps twice:
 *
 *   plain   border planes are exchanged by MPI_Isend() and MPI_Irecv() into the ghost planes; then all planes are computed
 *   weft    the same arrays are tensors, without their ghost planes and without a copy. A step is one call of an operation
 *           of the program's own:
 *
 *               "x[y][z],x~[y][z]->x[y][z]"   the first input is changed in place. "x~": the kernel also reads the plane before
 *                                             and the plane after it, which come from other ranks where it has to
 *
 * Both use the same loop over a plane's points, and the results are the same bits: the program compares them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include <weft/weft.h>

#include "turns.h"

static struct {
    int64_t size[3], steps, turns;
    bool json;
} o = { .size = { 64, 64, 64 }, .steps = 50, .turns = 3 };

static bool run(void);

static const argument arguments[] = {
    { "size", ARGUMENT_SIZES, o.size, "XxYxZ", "points, those of the border included", 1, 4096 },
    { "steps", ARGUMENT_INTEGER, &o.steps, "N", "in each turn", 1, 1 << 20 },
    { "turns", ARGUMENT_INTEGER, &o.turns, "N", "of both, alternating; the fastest ones count", 1, 1000 },
    { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
};
static const turns_program program = { .name = "heat3d",
                                       .introduction = "Heat in a block of points, by MPI and by weft, on the same arrays.\n",
                                       .part = "slab",
                                       .num_arguments = sizeof(arguments) / sizeof(arguments[0]),
                                       .arguments = arguments,
                                       .run = run };

/* A process's planes [first, first + count). An array has count + 2 planes: a ghost plane, its own ones, a ghost plane. */
typedef struct slab {
    int64_t first, count, points; /* points of a plane */
    double *now, *next;
} slab;

/* ---- the stencil ----------------------------------------------------------------------------------------- */

/* A plane's points inside, from the plane itself, the one below and the one above. */
static void update_inside(double *restrict out, const double *below, const double *plane, const double *above)
{
    const int64_t rows = o.size[1], columns = o.size[2];
    for (int64_t y = 1; y < rows - 1; y++) {
        const double *a = &below[y * columns], *b = &above[y * columns], *p = &plane[y * columns];
        double *to = &out[y * columns];
        for (int64_t z = 1; z < columns - 1; z++) {
            to[z] = 0.125 * (2 * p[z] + p[z - 1] + p[z + 1] + p[z - columns] + p[z + columns] + a[z] + b[z]);
        }
    }
}

static void keep_border(double *restrict out, const double *plane)
{
    const int64_t rows = o.size[1], columns = o.size[2];
    memcpy(out, plane, (size_t)columns * sizeof(*out));
    memcpy(&out[(rows - 1) * columns], &plane[(rows - 1) * columns], (size_t)columns * sizeof(*out));
    for (int64_t y = 0; y < rows; y++) {
        out[y * columns] = plane[y * columns];
        out[(y + 1) * columns - 1] = plane[(y + 1) * columns - 1];
    }
}

/* Plane x of the block. Its neighbours are not read where it is the first or the last one. */
static void update_plane(int64_t x, double *out, const double *below, const double *plane, const double *above)
{
    if (x == 0 || x == o.size[0] - 1) {
        memcpy(out, plane, (size_t)(o.size[1] * o.size[2]) * sizeof(*out));
    } else {
        update_inside(out, below, plane, above);
        keep_border(out, plane);
    }
}

/* ---- with MPI alone -------------------------------------------------------------------------------------- */

static void exchange_planes(const slab *s, double *array)
{
    int process, n = 0;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    const int points = (int)s->points;
    double *own = array + s->points, *last = array + s->count * s->points;
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    if (s->first > 0) {
        MPI_Irecv(array, points, MPI_DOUBLE, process - 1, 0, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(own, points, MPI_DOUBLE, process - 1, 1, MPI_COMM_WORLD, &requests[n++]);
    }
    if (s->first + s->count < o.size[0]) {
        MPI_Irecv(last + s->points, points, MPI_DOUBLE, process + 1, 1, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(last, points, MPI_DOUBLE, process + 1, 0, MPI_COMM_WORLD, &requests[n++]);
    }
    MPI_Waitall(n, requests, statuses); /* MPICH declares an array: GCC warns of MPI_STATUSES_IGNORE */
}

static void swap(slab *s)
{
    double *former = s->now;
    s->now = s->next;
    s->next = former;
}

static void steps_of_mpi(slab *s)
{
    for (int64_t step = 0; step < o.steps && s->count > 0; step++) {
        exchange_planes(s, s->now);
        for (int64_t i = 1; i <= s->count; i++) {
            const double *plane = &s->now[i * s->points];
            update_plane(s->first + i - 1, &s->next[i * s->points], plane - s->points, plane, plane + s->points);
        }
        swap(s);
    }
}

/* ---- with weft ------------------------------------------------------------------------------------------- */

static const double *plane_of(const weft_view *view, int64_t x)
{
    return x < 0 || x >= view->shape[0] ? NULL : weft_view_row(view, x - view->offset[0], NULL);
}

static void heat_kernel(const weft_kernel_call *call)
{
    const weft_view *next = &call->output, *now = &call->inputs[0];
    for (int64_t i = 0; i < weft_view_rows(next); i++) {
        int64_t x = next->offset[0] + i;
        update_plane(x, weft_view_row(next, i, NULL), plane_of(now, x - 1), plane_of(now, x), plane_of(now, x + 1));
    }
}

static const weft_operation *register_heat(void)
{
    return weft_operation_register(&(weft_operation_description){
        .name = "heat3d",
        .rule = "x[y][z],x~[y][z]->x[y][z]",
        .inputs = { { "next", WEFT_TYPE_BIT(WEFT_F64), false }, { "now", WEFT_TYPE_BIT(WEFT_F64), false } },
        .outputs[0].in_place = true,
        .halos = { { .input = 1, .letter = 'x', .before = 1, .after = 1 } },
        .kernel = heat_kernel });
}

static weft_tensor *tensor_of(const slab *s, double *array)
{
    const weft_placement by_planes = weft_shard(0);
    return weft_from_local(WEFT_F64, 3, o.size, (void *[]){ array + s->points }, NULL, &by_planes, 0);
}

/* Nothing waits but the call at the end. */
static void steps_of_weft(slab *s, const weft_operation *heat)
{
    weft_scope_begin();
    weft_tensor *tensors[2] = { tensor_of(s, s->next), tensor_of(s, s->now) };
    for (int64_t step = 0; step < o.steps; step++) {
        weft_scope_begin(); /* what a step makes ends with it */
        weft_apply(heat, 2, tensors, NULL);
        weft_scope_end();
        weft_tensor *former = tensors[0];
        tensors[0] = tensors[1];
        tensors[1] = former;
        swap(s);
    }
    weft_scope_end();
    weft_wait(); /* now the arrays are the program's again */
}

/* ---- both ------------------------------------------------------------------------------------------------ */

/* The process's own planes, as they are at the start. */
static void fill(slab *s)
{
    for (int64_t i = 0; i < s->count * s->points; i++) {
        uint64_t at = (uint64_t)(s->first * s->points + i) * 0x9e3779b97f4a7c15u;
        s->now[s->points + i] = (double)(at >> 40) / (double)(1 << 24);
    }
}

/* False: no memory. */
static bool slab_make(slab *s)
{
    const weft_placement by_planes = weft_shard(0);
    int64_t offset[3], extent[3];
    weft_shard_box(NULL, &by_planes, 3, o.size, weft_first_rank(), offset, extent);
    *s = (slab){ .first = offset[0], .count = extent[0], .points = o.size[1] * o.size[2] };
    s->now = calloc((size_t)((s->count + 2) * s->points), sizeof(double));
    s->next = calloc((size_t)((s->count + 2) * s->points), sizeof(double));
    return s->now != NULL && s->next != NULL;
}

static void slab_free(slab *s)
{
    free(s->now);
    free(s->next);
}

/* The slabs of both ways. */
typedef struct slabs {
    const weft_operation *heat;
    slab plain, own;
} slabs;

static void start(void *context, bool by_weft)
{
    slabs *both = context;
    fill(by_weft ? &both->own : &both->plain);
}

static void take(void *context, bool by_weft)
{
    slabs *both = context;
    if (by_weft) {
        steps_of_weft(&both->own, both->heat);
    } else {
        steps_of_mpi(&both->plain);
    }
}

/* Points of all processes. */
static long long count_different(const slabs *both)
{
    const slab *plain = &both->plain;
    long long different = 0;
    for (int64_t i = plain->points; i < (plain->count + 1) * plain->points; i++) {
        different += memcmp(&plain->now[i], &both->own.now[i], sizeof(double)) != 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, &different, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return different;
}

static void print(const turns_report *r, long long different)
{
    char processes[80];
    snprintf(processes, sizeof(processes), ", %lld steps, %d processes", (long long)o.steps, weft_num_processes());
    turns_print(r, processes);
    printf(different == 0 ? "the same bits\n" : "%lld points differ\n", different);
    if (o.json) {
        turns_print_json(&program, r);
        printf(", \"different\": %lld}\n", different);
    }
}

static bool run(void)
{
    slabs both = { 0 };
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL));
    both.heat = register_heat();
    bool good = turns_all(weft_last_status() == WEFT_OK && slab_make(&both.plain) && slab_make(&both.own));
    if (good) {
        const turns_report r = { "step", o.steps, 3, o.size, turns_measure(o.turns, &both, start, take) };
        long long different = count_different(&both);
        good = different == 0;
        if (weft_process_index() == 0) {
            print(&r, different);
        }
    }
    good = turns_end(&program, good); /* weft may use the arrays until here */
    slab_free(&both.plain);
    slab_free(&both.own);
    return good;
}

int main(int argc, char *argv[])
{
    return turns_main(&program, argc, argv);
}
