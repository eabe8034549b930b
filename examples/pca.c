/* Principal components, by orthogonal iteration, of samples whose covariance is known.
 *
 * The samples [samples, features] are m + z A, with independent normal numbers z and A' A = Q diag(1, 1/2, 1/4, ...) Q':
 * the columns of Q, cosines of 0, 1/2, 1, 3/2, ... waves, are the components, and the powers of 1/2 are their variances. So the
 * result can be compared with the truth, from which it differs by about 1 / sqrt(samples). weft has no factorisations; a
 * few components of many samples need none:
 *
 *     W = X' (X V) / (samples - 1)      X: samples less their means, V: orthonormal guesses [features, components]
 *     V = W, made orthonormal column by column (Gram-Schmidt); lengths of the columns are the variances
 *
 * Rows of X lie on the ranks along the mesh's first dimension, its columns along the second. In an MPI program both
 * products would end with an MPI_Allreduce(), on rows' and on columns' communicators. Here they are calls, whose addends
 * are summed where the next call needs the sum.
 *
 *     pca --samples 20000 --mesh 2x2                      four ranks in this process
 *     mpirun -n 4 pca --samples 20000 --mesh 2x2          one in each of four: the same bits
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "arguments.h"
#include "report.h"
#include "state.h"
#include "terminal.h"

enum { MAX_FEATURES = 512, MAX_COMPONENTS = 16 };

static struct {
    int64_t samples, features, components, iterations, check, seed, mesh[2];
    const char *save;
    bool graph, quiet, json;
} o = { .samples = 20000, .features = 48, .components = 5, .iterations = 200, .check = 5, .seed = 1, .mesh = { 2, 2 } };

/* Relative change of a variance in an iteration that ends the loop. */
static const double TOLERANCE = 1e-12;

static const weft_placement tiles[2] = { { .kind = WEFT_SHARD, .dim = 0 }, { .kind = WEFT_SHARD, .dim = 1 } };

/* ---- the samples ----------------------------------------------------------------------------------------- */

static double variance(int64_t component)
{
    return pow(0.5, (double)component);
}

/* Q, the orthonormal basis of the discrete cosine transform. */
static double direction(int64_t feature, int64_t component)
{
    const double pi = 3.14159265358979323846, n = (double)o.features;
    return sqrt((component == 0 ? 1 : 2) / n) * cos(pi * (double)component * ((double)feature + 0.5) / n);
}

/* Samples less their means. Every rank makes its own: a random value depends on the seed and on its global index. */
static weft_tensor *centred_samples(void)
{
    static double factor[MAX_FEATURES * MAX_FEATURES], means[MAX_FEATURES];
    for (int64_t i = 0; i < o.features * o.features; i++) {
        factor[i] = sqrt(variance(i / o.features)) * direction(i % o.features, i / o.features);
        means[i / o.features] = (double)(i / o.features % 3);
    }
    weft_tensor *normal = weft_randn(WEFT_F64, 2, (int64_t[]){ o.samples, o.features }, NULL, tiles);
    weft_tensor *mixing = weft_distribute(WEFT_F64, 2, (int64_t[]){ o.features, o.features }, factor, NULL, NULL);
    weft_tensor *shift = weft_distribute(WEFT_F64, 1, (int64_t[]){ o.features }, means, NULL, NULL);
    weft_tensor *samples = weft_add(weft_matmul(normal, mixing), shift);
    return weft_redistribute(weft_sub(samples, weft_mean(samples, 0, true)), NULL, tiles);
}

/* ---- the algorithm --------------------------------------------------------------------------------------- */

/* The state of the iteration: V [features, components], the variances, and their largest relative change. */
enum { DIRECTIONS, VARIANCES, CHANGE, NUM_STATES };

/* Every rank has all of these two small matrices, so the steps of Gram-Schmidt need no messages. */
static weft_tensor *orthonormal(weft_tensor *w, weft_tensor **lengths)
{
    weft_tensor *columns[MAX_COMPONENTS], *norms[MAX_COMPONENTS];
    for (int j = 0; j < o.components; j++) {
        weft_tensor *column = weft_slice(w, 1, j, j + 1, 1);
        if (j > 0) {
            weft_tensor *done = weft_cat(j, columns, 1);
            column = weft_sub(column, weft_matmul(done, weft_matmul_ex(done, true, column, false)));
        }
        norms[j] = weft_norm(column, 2, WEFT_ALL_DIMS, false);
        columns[j] = weft_div(column, norms[j]);
    }
    *lengths = weft_stack((int)o.components, norms, 0);
    return weft_cat((int)o.components, columns, 1);
}

/* An iteration, as a weft_graph_function: a new state from the old one. */
static weft_status iteration(void *x, weft_tensor *const in[], const double scalars[], weft_tensor *out[])
{
    (void)scalars;
    weft_tensor *scores = weft_matmul(x, in[DIRECTIONS]);
    weft_tensor *w = weft_scale(weft_matmul_ex(x, true, scores, false), 1 / (double)(o.samples - 1));
    out[DIRECTIONS] = orthonormal(weft_redistribute(w, NULL, NULL), &out[VARIANCES]);
    weft_tensor *change = weft_sub(weft_div(in[VARIANCES], out[VARIANCES]), weft_ones_like(out[VARIANCES]));
    out[CHANGE] = weft_max(weft_abs(change), WEFT_ALL_DIMS, false);
    return weft_last_status();
}

typedef struct result {
    double variances[MAX_COMPONENTS];
    double directions[MAX_FEATURES * MAX_COMPONENTS]; /* [features, components] */
    double total;                                     /* sum of all features' variances */
    int64_t iterations;
    bool converged;
    double seconds;
    double wrong_variance, wrong_direction; /* largest errors, in units of what chance allows */
    int64_t work[3];                        /* of work_count() */
} result;

/* BLOCKS: the only wait of the loop. All processes read the same value, so they decide alike. */
static bool has_converged(weft_tensor *change, result *r)
{
    double value = NAN;
    weft_tensor_item(change, &value);
    r->converged = value <= TOLERANCE;
    return r->converged || !isfinite(value) || r->iterations >= o.iterations;
}

static void find_components(weft_tensor *x, result *r)
{
    weft_scope_begin();
    weft_tensor *state[NUM_STATES];
    weft_tensor *guess = weft_randn(WEFT_F64, 2, (int64_t[]){ o.features, o.components }, NULL, NULL);
    state[DIRECTIONS] = orthonormal(guess, &state[VARIANCES]);
    state[CHANGE] = weft_zeros(WEFT_F64, 0, NULL, NULL, NULL);
    state_begin(NUM_STATES, state);
    weft_graph *graph = o.graph ? weft_graph_create("iteration", iteration, x, NUM_STATES, 0, NUM_STATES) : NULL;
    do {
        for (int i = 0; i < o.check && r->iterations < o.iterations; i++, r->iterations++) {
            state_advance(graph, iteration, x, NUM_STATES, state);
        }
    } while (!has_converged(state[CHANGE], r));
    if (graph != NULL) {
        weft_graph_destroy(graph);
    }
    weft_to_host(state[VARIANCES], r->variances, (size_t)o.components * sizeof(double));
    weft_to_host(state[DIRECTIONS], r->directions, (size_t)(o.features * o.components) * sizeof(double));
    state_end(NUM_STATES, state);
    weft_scope_end();
}

/* ---- the check: the covariance that the samples were made with -------------------------------------------- */

/* A variance's standard error is sqrt(2 / samples) of it. The squared angle between a component and its estimate is about
 * the sum of v w / (v - w)^2 over the other variances w, divided by the number of samples: less than 6 / samples. */
static void compare_with_truth(result *r)
{
    const double n = (double)o.samples;
    for (int64_t k = 0; k < o.components; k++) {
        double cosine = 0;
        for (int64_t f = 0; f < o.features; f++) {
            cosine += direction(f, k) * r->directions[f * o.components + k];
        }
        r->wrong_variance = fmax(r->wrong_variance, fabs(r->variances[k] / variance(k) - 1) / sqrt(2 / n));
        r->wrong_direction = fmax(r->wrong_direction, fmax(1 - cosine * cosine, 0) / (6 / n));
    }
}

/* Chance exceeds these once in 10^5 runs or less. */
static bool is_right(const result *r)
{
    return r->converged && r->wrong_variance < 5 && r->wrong_direction < 10;
}

/* ---- the report ------------------------------------------------------------------------------------------ */

/* A component's coefficients, one character each for at most 48 of them, beginning with a positive one. */
static void print_waves(const result *r, int64_t component)
{
    static const char *const heights[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    const double *values = r->directions + component;
    const double sign = values[0] < 0 ? -1 : 1, largest = sqrt(2.0 / (double)o.features);
    int64_t columns = o.features < 48 ? o.features : 48;
    for (int64_t i = 0; i < columns; i++) {
        double value = sign * values[i * o.features / columns * o.components] / largest; /* -1 .. 1, nearly */
        fputs(heights[(int)fmin(fmax((value + 1) * 4, 0), 7)], stdout);
    }
}

static void print_picture(const result *r)
{
    printf("  variance   of all   component\n\n");
    for (int64_t k = 0; k < o.components; k++) {
        printf("  %8.5f   %4.1f %%   ", r->variances[k], 100 * r->variances[k] / r->total);
        print_waves(r, k);
        printf("\n");
    }
}

static void print_table(const result *r)
{
    print_picture(r);
    printf("\n  samples      %lld of %lld features\n", (long long)o.samples, (long long)o.features);
    mesh_print(o.mesh[0], o.mesh[1]);
    printf("  iterations   %lld in %.2f s, %.3f ms each%s\n", (long long)r->iterations, r->seconds,
           1e3 * r->seconds / (double)r->iterations, r->converged ? "" : ": not converged");
    printf("  truth        variances within %.1f standard errors (%.1f %%), directions within %.2f degrees\n", r->wrong_variance,
           100 * r->wrong_variance * sqrt(2 / (double)o.samples), 57.3 * sqrt(r->wrong_direction * 6 / (double)o.samples));
    work_print(r->work);
}

static void print_list(const char *name, int64_t n, const double values[])
{
    printf(", \"%s\": [", name);
    for (int64_t i = 0; i < n; i++) {
        printf("%s%.17g", i == 0 ? "" : ", ", values[i]);
    }
    printf("]");
}

static void print_json(const result *r)
{
    printf("{\"example\": \"pca\", \"mesh\": [%lld, %lld], \"ranks\": %d, \"processes\": %d, \"samples\": %lld, "
           "\"features\": %lld, \"iterations\": %lld, \"converged\": %s, \"wrong_variance\": %.6g, \"wrong_direction\": %.6g, "
           "\"seconds\": %.6f, \"tasks\": %lld, \"transfers\": %lld, \"bytes_moved\": %lld",
           (long long)o.mesh[0], (long long)o.mesh[1], weft_world_size(), weft_num_processes(), (long long)o.samples,
           (long long)o.features, (long long)r->iterations, r->converged ? "true" : "false", r->wrong_variance,
           r->wrong_direction, r->seconds, (long long)r->work[0], (long long)r->work[1], (long long)r->work[2]);
    print_list("variances", o.components, r->variances);
    print_list("directions", o.features * o.components, r->directions);
    printf("}\n");
}

/* ---- the program ----------------------------------------------------------------------------------------- */

/* False: weft has kept an error. */
static bool run(result *r)
{
    weft_scope_begin();
    weft_tensor *x = centred_samples();
    weft_wait(); /* the clock measures iterations only */
    double start = seconds_now();
    find_components(x, r);
    r->seconds = seconds_now() - start;
    weft_tensor_item(weft_sum(weft_var(x, 0, 1, false), WEFT_ALL_DIMS, false), &r->total);
    bool good = work_count(r->work);
    if (o.save != NULL) {
        weft_checkpoint_save(o.save, 1, (const char *[]){ "x" }, &x, NULL);
    }
    weft_scope_end();
    return weft_wait() == WEFT_OK && good && weft_last_status() == WEFT_OK;
}

static bool run_and_report(void)
{
    static result r;
    if (!run(&r)) {
        return false;
    }
    compare_with_truth(&r);
    if (weft_process_index() == 0) {
        if (!o.quiet) {
            print_table(&r);
        }
        if (o.json) {
            print_json(&r);
        }
        if (!is_right(&r)) {
            fprintf(stderr, "pca: %s: variances are %.1f standard errors from the truth, directions %.2f degrees\n",
                    r.converged ? "wrong" : "not converged", r.wrong_variance,
                    57.3 * sqrt(r.wrong_direction * 6 / (double)o.samples));
        }
    }
    return is_right(&r);
}

static const char introduction[] =
    "Finds principal components by orthogonal iteration on a mesh of ranks. All ranks live in this\n"
    "process; under mpirun they are spread over the processes.\n";

int main(int argc, char *argv[])
{
    const argument table[] = {
        { "mesh", ARGUMENT_SIZES, o.mesh, "RxC", "ranks along the samples and along the features", 1, MOST_RANKS },
        { "samples", ARGUMENT_INTEGER, &o.samples, "N", "", 100, 1 << 28 },
        { "features", ARGUMENT_INTEGER, &o.features, "N", "of each sample", 1, MAX_FEATURES },
        { "components", ARGUMENT_INTEGER, &o.components, "N", "to find, at most as many as features", 1, MAX_COMPONENTS },
        { "iterations", ARGUMENT_INTEGER, &o.iterations, "N", "at most", 1, 1 << 24 },
        { "check", ARGUMENT_INTEGER, &o.check, "N", "iterations between two looks at the variances", 1, 1 << 24 },
        { "seed", ARGUMENT_INTEGER, &o.seed, "N", "of the samples", 0, INT32_MAX },
        { "save", ARGUMENT_STRING, &o.save, "FILE", "write the centred samples: a safetensors file with a tensor \"x\"" },
        { "graph", ARGUMENT_FLAG, &o.graph, NULL, "capture the first iteration and replay it: the same bits" },
        { "quiet", ARGUMENT_FLAG, &o.quiet, NULL, "no picture, no table" },
        { "json", ARGUMENT_FLAG, &o.json, NULL, "last line of the output: the result as one JSON object" },
    };
    int code = arguments_read((int)(sizeof(table) / sizeof(*table)), table, introduction, argc, argv);
    if (code >= 0) {
        return code;
    }
    if (o.components > o.features) {
        fprintf(stderr, "pca: --components %lld is more than --features %lld\n", (long long)o.components, (long long)o.features);
        return 2;
    }
    bool good = world_start("pca", (const char *[]){ "samples", "features" }, o.mesh[0], o.mesh[1], o.seed) && run_and_report();
    return world_end("pca", good);
}
