/* Clusters: k-means (Lloyd's algorithm) on points of the program's own, on a mesh of ranks.
 *
 * Each rank owns rows of the points [points, features] and, after the run, the labels of these rows. An iteration is
 *
 *     label of a point     the centre with the least |c|^2 - 2 x c, which is |x - c|^2 but for the point's own |x|^2
 *     centre               the mean of the points with its label
 *
 * In an MPI program the centres' sums and counts would go through MPI_Allreduce(). Here weft_index_add() leaves addends
 * on the ranks (Partial), and the quotient of both, the next centres, needs their sums: that is where they travel.
 * Nothing in the loop waits but has_converged(), every few iterations.
 *
 *     kmeans --points 20000 --mesh 4x1                     four ranks in this process
 *     mpirun -n 4 kmeans --points 20000 --mesh 4x1         one in each of four: the same bits
 *     kmeans --features 64 --mesh 2x2                      features over the mesh's second dimension
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "arguments.h"
#include "report.h"
#include "state.h"
#include "terminal.h"

enum { MAX_RANKS = 64 * 64, MAX_CLUSTERS = 26, MAX_FEATURES = 1024 };

static struct {
    int64_t points, features, clusters, iterations, check, seed, mesh[2];
    const char *save;
    bool graph, quiet, json;
} o = { .points = 20000, .features = 2, .clusters = 7, .iterations = 200, .check = 5, .seed = 1, .mesh = { 2, 1 } };

/* Rows over the mesh's first dimension, features over its second; labels over the first, the same along the second. */
static const weft_placement tiles[2] = { { .kind = WEFT_SHARD, .dim = 0 }, { .kind = WEFT_SHARD, .dim = 1 } };
static const weft_placement rows[2] = { { .kind = WEFT_SHARD, .dim = 0 }, { .kind = WEFT_REPLICATE } };

/* ---- the program's own arrays ---------------------------------------------------------------------------- */

/* A number of [0, 1) that depends on its place alone (splitmix64): points are the same on any mesh. */
static double uniform(uint64_t place)
{
    uint64_t z = (place + (uint64_t)o.seed * 0x51ed2701u) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Clouds around points of the unit cube: the sum of four uniform numbers is nearly normal. */
static double coordinate(int64_t point, int64_t feature)
{
    uint64_t cloud = (uint64_t)(point % o.clusters), place = (uint64_t)(point * o.features + feature) * 4 + (1u << 20);
    double noise = uniform(place) + uniform(place + 1) + uniform(place + 2) + uniform(place + 3) - 2;
    return uniform(cloud * MAX_FEATURES + (uint64_t)feature) + 0.1 * noise;
}

typedef struct arrays {
    void *points[MAX_RANKS], *labels[MAX_RANKS]; /* blocks of the hosted ranks: double, int64_t */
} arrays;

static void arrays_free(arrays *a)
{
    for (int rank = 0; rank < weft_local_ranks(); rank++) {
        free(a->points[rank]);
        free(a->labels[rank]);
    }
}

/* False: no memory, after a message. */
static bool arrays_make(arrays *a)
{
    for (int rank = 0; rank < weft_local_ranks(); rank++) {
        int64_t offset[2], extent[2];
        weft_shard_box(NULL, tiles, 2, (int64_t[]){ o.points, o.features }, weft_first_rank() + rank, offset, extent);
        double *block = malloc((size_t)(extent[0] * extent[1]) * sizeof(*block) + 1); /* not 0 */
        a->points[rank] = block;
        a->labels[rank] = malloc((size_t)extent[0] * sizeof(int64_t) + 1);
        if (block == NULL || a->labels[rank] == NULL) {
            fprintf(stderr, "kmeans: no memory for %lld points\n", (long long)extent[0]);
            return false;
        }
        for (int64_t i = 0; i < extent[0] * extent[1]; i++) {
            block[i] = coordinate(offset[0] + i / extent[1], offset[1] + i % extent[1]);
        }
    }
    return true;
}

/* ---- the algorithm --------------------------------------------------------------------------------------- */

/* The state of the iteration: centres [clusters, features], the sum of all squared distances before it, and the
 * largest step of a centre's coordinate in it. */
enum { CENTRES, COST, STEP, NUM_STATES };

/* Each point's nearest centre, [points]; *distances: squared ones, less |x|^2. */
static weft_tensor *nearest(weft_tensor *points, weft_tensor *centres, weft_tensor **distances)
{
    weft_tensor *lengths = weft_sum(weft_square(centres), 1, false);
    weft_tensor *products = weft_matmul_ex(points, false, centres, true);
    weft_tensor *labels = NULL;
    *distances = weft_min_with_indices(weft_add_scaled(lengths, products, -2), 1, false, &labels);
    return labels;
}

/* Means of the points with each label; a centre without points stays. */
static weft_tensor *means(weft_tensor *points, weft_tensor *labels, weft_tensor *centres)
{
    weft_tensor *ones = weft_ones(WEFT_F64, 2, (int64_t[]){ o.points, 1 }, NULL, rows);
    weft_tensor *none = weft_zeros(WEFT_F64, 2, (int64_t[]){ o.clusters, 1 }, NULL, NULL);
    weft_tensor *sums = weft_index_add(weft_zeros_like(centres), 0, labels, points);
    weft_tensor *counts = weft_index_add(none, 0, labels, ones);
    weft_tensor *quotients = weft_div(sums, weft_clamp(counts, 1, INFINITY));
    return weft_redistribute(weft_where(weft_gt(counts, none), quotients, centres), NULL, NULL);
}

/* An iteration, as a weft_graph_function: a new state from the old one. */
static weft_status iteration(void *points, weft_tensor *const in[], const double scalars[], weft_tensor *out[])
{
    weft_tensor *distances = NULL;
    (void)scalars;
    weft_tensor *labels = nearest(points, in[CENTRES], &distances);
    weft_tensor *cost = weft_add(weft_sum(distances, WEFT_ALL_DIMS, false), weft_sum(weft_square(points), WEFT_ALL_DIMS, false));
    out[CENTRES] = means(points, labels, in[CENTRES]);
    out[COST] = weft_redistribute(cost, NULL, NULL);
    out[STEP] = weft_max(weft_abs(weft_sub(out[CENTRES], in[CENTRES])), WEFT_ALL_DIMS, false);
    return weft_last_status();
}

typedef struct result {
    double *costs; /* of the states that has_converged() has read */
    int64_t num_costs, iterations;
    bool converged;
    double seconds;
    int64_t wrong;  /* labels that are not those of the plain loop */
    double differs; /* of a centre's coordinate from the mean that the plain loop finds, at most */
    double *centres;
    int64_t *labels;
    int64_t work[3]; /* of work_count() */
} result;

/* BLOCKS: the only wait of the loop. All processes read the same values, so they decide alike. */
static bool has_converged(weft_tensor *const state[], result *r)
{
    double step = NAN;
    weft_tensor_item(state[COST], &r->costs[r->num_costs++]);
    weft_tensor_item(state[STEP], &step);
    r->converged = step == 0;
    return r->converged || !isfinite(step) || r->iterations >= o.iterations;
}

/* The centres at first: points. */
static weft_tensor *first_centres(void)
{
    static double values[MAX_CLUSTERS * MAX_FEATURES];
    for (int64_t i = 0; i < o.clusters * o.features; i++) {
        values[i] = coordinate(i / o.features * o.points / o.clusters, i % o.features);
    }
    return weft_distribute(WEFT_F64, 2, (int64_t[]){ o.clusters, o.features }, values, NULL, NULL);
}

/* The labels go into the program's arrays, to which `labels` points. */
static void find_clusters(weft_tensor *points, weft_tensor *labels, result *r)
{
    weft_scope_begin();
    weft_tensor *state[NUM_STATES] = { [CENTRES] = first_centres() }, *distances = NULL;
    state[COST] = state[STEP] = weft_full(WEFT_F64, INFINITY, 0, NULL, NULL, NULL);
    state_begin(NUM_STATES, state);
    weft_graph *graph = o.graph ? weft_graph_create("iteration", iteration, points, NUM_STATES, 0, NUM_STATES) : NULL;
    progress line = progress_start("iteration", 0, "cost", weft_process_index() == 0 && !o.quiet);
    do {
        for (int i = 0; i < o.check && r->iterations < o.iterations; i++, r->iterations++) {
            state_advance(graph, iteration, points, NUM_STATES, state);
        }
        progress_update(&line, r->iterations, r->num_costs > 0 ? r->costs[r->num_costs - 1] : NAN);
    } while (!has_converged(state, r));
    progress_end(&line);
    if (graph != NULL) {
        weft_graph_destroy(graph);
    }
    weft_copy_inplace(labels, nearest(points, state[CENTRES], &distances)); /* into the program's arrays */
    weft_to_host(state[CENTRES], r->centres, (size_t)(o.clusters * o.features) * sizeof(double));
    state_end(NUM_STATES, state);
    weft_scope_end();
}

/* ---- the check: a plain loop over the points ------------------------------------------------------------- */

static double squared_distance(int64_t point, const double *centre)
{
    double sum = 0;
    for (int64_t f = 0; f < o.features; f++) {
        double difference = coordinate(point, f) - centre[f];
        sum += difference * difference;
    }
    return sum;
}

/* Another centre may be as near, but for rounding errors. */
static bool is_nearest(int64_t point, int64_t label, const double *centres)
{
    bool known = label >= 0 && label < o.clusters;
    double mine = known ? squared_distance(point, centres + label * o.features) : INFINITY;
    for (int64_t k = 0; k < o.clusters && known; k++) {
        known = squared_distance(point, centres + k * o.features) >= mine * (1 - 1e-9) - 1e-12;
    }
    return known;
}

/* Sets r->wrong and r->differs. Every process has all labels, and finds the same. */
static void compare_with_plain_loop(result *r)
{
    static double sums[MAX_CLUSTERS * MAX_FEATURES], counts[MAX_CLUSTERS];
    for (int64_t i = 0; i < o.points; i++) {
        int64_t label = r->labels[i];
        if (!is_nearest(i, label, r->centres)) {
            r->wrong++;
            continue;
        }
        counts[label]++;
        for (int64_t f = 0; f < o.features; f++) {
            sums[label * o.features + f] += coordinate(i, f);
        }
    }
    for (int64_t i = 0; i < o.clusters * o.features; i++) {
        double count = counts[i / o.features];
        r->differs = count > 0 ? fmax(r->differs, fabs(sums[i] / count - r->centres[i])) : r->differs;
    }
}

/* Centres are the means of their points once they have converged. */
static bool is_right(const result *r)
{
    return r->wrong == 0 && (!r->converged || r->differs < 1e-9);
}

/* ---- the report ------------------------------------------------------------------------------------------ */

enum { WIDTH = 72, HEIGHT = 22 };

static int cell_of(double value, int cells)
{
    return (int)fmin(fmax((value + 0.25) / 1.5 * cells, 0), cells - 1);
}

/* The first two features: each cell shows the cluster that most of its points are in; a centre is an O.
 * Rows without points are left out. */
static void print_picture(const result *r)
{
    static int64_t counts[HEIGHT][WIDTH][MAX_CLUSTERS];
    static char cells[HEIGHT][WIDTH + 1];
    const int64_t y = o.features > 1;
    memset(cells, ' ', sizeof(cells));
    for (int64_t i = 0; i < o.points; i++) {
        int row = HEIGHT - 1 - cell_of(coordinate(i, y), HEIGHT), column = cell_of(coordinate(i, 0), WIDTH);
        int64_t *here = counts[row][column], mine = ++here[r->labels[i]], most = 0;
        for (int k = 0; k < o.clusters; k++) {
            most = here[k] > most ? here[k] : most;
        }
        cells[row][column] = mine == most ? (char)('a' + r->labels[i]) : cells[row][column];
    }
    for (int64_t k = 0; k < o.clusters; k++) {
        const double *centre = r->centres + k * o.features;
        cells[HEIGHT - 1 - cell_of(centre[y], HEIGHT)][cell_of(centre[0], WIDTH)] = 'O';
    }
    for (int row = 0; row < HEIGHT; row++) {
        int length = WIDTH;
        while (length > 0 && cells[row][length - 1] == ' ') {
            length--;
        }
        if (length > 0) {
            printf("  %.*s\n", length, cells[row]);
        }
    }
}

static void print_table(const result *r)
{
    print_picture(r);
    printf("\n  points       %lld of %lld features, %lld clusters\n", (long long)o.points, (long long)o.features,
           (long long)o.clusters);
    mesh_print(o.mesh[0], o.mesh[1]);
    printf("  iterations   %lld in %.2f s, %.3f ms each%s\n", (long long)r->iterations, r->seconds,
           1e3 * r->seconds / (double)r->iterations, r->converged ? "" : ": not converged");
    printf("  cost         %.4f, the sum of squared distances\n", r->costs[r->num_costs - 1]);
    printf("  plain loop   %lld other labels; centres differ by %.1e\n", (long long)r->wrong, r->differs);
    work_print(r->work);
}

static void print_json(const result *r)
{
    printf("{\"example\": \"kmeans\", \"mesh\": [%lld, %lld], \"ranks\": %d, \"processes\": %d, \"points\": %lld, "
           "\"features\": %lld, \"iterations\": %lld, \"converged\": %s, \"cost\": %.17g, \"wrong\": %lld, "
           "\"differs\": %.3g, \"seconds\": %.6f, \"tasks\": %lld, \"transfers\": %lld, \"bytes_moved\": %lld, \"centres\": [",
           (long long)o.mesh[0], (long long)o.mesh[1], weft_world_size(), weft_num_processes(), (long long)o.points,
           (long long)o.features, (long long)r->iterations, r->converged ? "true" : "false", r->costs[r->num_costs - 1],
           (long long)r->wrong, r->differs, r->seconds, (long long)r->work[0], (long long)r->work[1], (long long)r->work[2]);
    for (int64_t i = 0; i < o.clusters * o.features; i++) {
        printf("%s%.17g", i == 0 ? "" : ", ", r->centres[i]);
    }
    printf("]}\n");
}

/* ---- the program ----------------------------------------------------------------------------------------- */

/* False: weft has kept an error. */
static bool run(const arrays *a, result *r)
{
    weft_scope_begin();
    weft_tensor *points = weft_from_local(WEFT_F64, 2, (int64_t[]){ o.points, o.features }, a->points, NULL, tiles, 0);
    weft_tensor *labels = weft_from_local(WEFT_I64, 1, (int64_t[]){ o.points }, a->labels, NULL, rows, 0);
    weft_wait(); /* the clock measures iterations only */
    double start = seconds_now();
    find_clusters(points, labels, r);
    weft_wait(); /* the program's arrays have the labels from here on */
    r->seconds = seconds_now() - start;
    bool good = work_count(r->work) &&
                weft_to_host(labels, r->labels, (size_t)o.points * sizeof(int64_t)) == WEFT_OK;
    if (o.save != NULL) {
        weft_checkpoint_save(o.save, 2, (const char *[]){ "points", "labels" }, (weft_tensor *[]){ points, labels }, NULL);
    }
    weft_scope_end();
    return weft_wait() == WEFT_OK && good && weft_last_status() == WEFT_OK;
}

static bool run_and_report(void)
{
    static arrays a;
    result r = { .costs = calloc((size_t)(o.iterations / o.check) + 2, sizeof(double)),
                 .centres = calloc((size_t)(o.clusters * o.features), sizeof(double)),
                 .labels = calloc((size_t)o.points, sizeof(int64_t)) };
    bool good = r.costs != NULL && r.centres != NULL && r.labels != NULL && arrays_make(&a) && run(&a, &r);
    if (good) {
        compare_with_plain_loop(&r);
    }
    if (good && weft_process_index() == 0) {
        if (!o.quiet && r.wrong == 0) {
            print_table(&r);
        }
        if (o.json) {
            print_json(&r);
        }
        if (!is_right(&r)) {
            fprintf(stderr, "kmeans: a plain loop gives %lld other labels, and centres that differ by %.1e\n",
                    (long long)r.wrong, r.differs);
        }
    }
    good = good && is_right(&r);
    arrays_free(&a);
    free(r.costs);
    free(r.centres);
    free(r.labels);
    return good;
}

static const char introduction[] =
    "Finds clusters of points by k-means on a mesh of ranks. All ranks live in this process; under\n"
    "mpirun they are spread over the processes.\n";

int main(int argc, char *argv[])
{
    const argument table[] = {
        { "mesh", ARGUMENT_SIZES, o.mesh, "RxC", "ranks along the points and along the features", 1, MOST_RANKS },
        { "points", ARGUMENT_INTEGER, &o.points, "N", "", 1, 1 << 28 },
        { "features", ARGUMENT_INTEGER, &o.features, "N", "of each point; the picture shows two", 1, MAX_FEATURES },
        { "clusters", ARGUMENT_INTEGER, &o.clusters, "N", "", 1, MAX_CLUSTERS },
        { "iterations", ARGUMENT_INTEGER, &o.iterations, "N", "at most", 1, 1 << 24 },
        { "check", ARGUMENT_INTEGER, &o.check, "N", "iterations between two looks at the centres' steps", 1, 1 << 24 },
        { "seed", ARGUMENT_INTEGER, &o.seed, "N", "of the points", 0, INT32_MAX },
        { "save", ARGUMENT_STRING, &o.save, "FILE", "write a safetensors file with tensors \"points\" and \"labels\"" },
        { "graph", ARGUMENT_FLAG, &o.graph, NULL, "capture the first iteration and replay it: the same bits" },
        { "quiet", ARGUMENT_FLAG, &o.quiet, NULL, "no picture, no table" },
        { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
    };
    int code = arguments_read((int)(sizeof(table) / sizeof(*table)), table, introduction, argc, argv);
    if (code >= 0) {
        return code;
    }
    bool good = world_start("kmeans", (const char *[]){ "points", "features" }, o.mesh[0], o.mesh[1], 0) && run_and_report();
    return world_end("kmeans", good);
}
