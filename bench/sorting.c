/* Sorting of a vector of f64 that the processes hold parts of, beside a sample sort in plain MPI: both sort their own part by radix, move
 * each element once and merge. weft's result has the parts that the vector had; the sample sort's parts are as its samples fall.
 *
 *     mpirun -n 2 bench-sorting [elements]            default 4,000,000 */
#include <mpi.h>
#include <stdint.h>
#include <string.h>

#include <weft/mpi.h>

#include "bench.h"

enum { SAMPLES = 1024, BYTES = 8, VALUES = 256 };

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* ---- the sample sort --------------------------------------------------------------------------------------------- */

static uint64_t key_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double value_of(uint64_t key)
{
    const uint64_t bits = key >> 63 ? key ^ UINT64_C(1) << 63 : ~key;
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Returns the array with the result. */
static uint64_t *radix_sort(uint64_t *keys, uint64_t *other, size_t n)
{
    size_t counts[BYTES][VALUES] = { { 0 } };
    for (size_t i = 0; i < n; i++) {
        for (int byte = 0; byte < BYTES; byte++) {
            counts[byte][keys[i] >> 8 * byte & 255]++;
        }
    }
    for (int byte = 0; byte < BYTES; byte++) {
        size_t next = 0;
        for (int value = 0; value < VALUES; value++) {
            size_t count = counts[byte][value];
            counts[byte][value] = next;
            next += count;
        }
        for (size_t i = 0; i < n; i++) {
            other[counts[byte][keys[i] >> 8 * byte & 255]++] = keys[i];
        }
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Where the keys of each process begin among sorted ones: starts[0 .. processes]. */
static void split(const uint64_t *keys, size_t n, int processes, int starts[])
{
    uint64_t mine[SAMPLES], *all = room((size_t)processes * SAMPLES, sizeof(*all));
    for (size_t i = 0; i < SAMPLES; i++) {
        mine[i] = keys[i * n / SAMPLES];
    }
    MPI_Allgather(mine, SAMPLES, MPI_UINT64_T, all, SAMPLES, MPI_UINT64_T, MPI_COMM_WORLD);
    qsort(all, (size_t)processes * SAMPLES, sizeof(*all), compare_keys);
    starts[0] = 0;
    starts[processes] = (int)n;
    for (int p = 1; p < processes; p++) {
        size_t low = 0, high = n;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (keys[middle] < all[p * SAMPLES]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        starts[p] = (int)low;
    }
    free(all);
}

/* Merges sorted runs, two at a time. Returns the array with the result. */
static uint64_t *merge(uint64_t *keys, uint64_t *other, int runs, const int starts[])
{
    for (int step = 1; step < runs; step *= 2) {
        for (int run = 0; run < runs; run += 2 * step) {
            const int middle = run + step < runs ? run + step : runs, end = middle + step < runs ? middle + step : runs;
            int left = starts[run], right = starts[middle], at = left;
            while (left < starts[middle] && right < starts[end]) {
                const int second = keys[right] < keys[left];
                other[at++] = keys[second ? right : left];
                right += second;
                left += !second;
            }
            memcpy(other + at, keys + left, (size_t)(starts[middle] - left) * sizeof(*keys));
            at += starts[middle] - left;
            memcpy(other + at, keys + right, (size_t)(starts[end] - right) * sizeof(*keys));
        }
        uint64_t *merged = other;
        other = keys;
        keys = merged;
    }
    return keys;
}

/* Memory that all sorts of a size use. */
typedef struct workspace {
    size_t most; /* elements that may fall to this process */
    uint64_t *keys, *arrived;
    double *result;
    int *numbers;
} workspace;

static workspace make_workspace(size_t n, int processes)
{
    const size_t most = 2 * n + SAMPLES;
    return (workspace){ .most = most,
                        .keys = room(2 * n, sizeof(uint64_t)),
                        .arrived = room(2 * most, sizeof(uint64_t)),
                        .result = room(most, sizeof(double)),
                        .numbers = room(4 * ((size_t)processes + 1), sizeof(int)) };
}

static void free_workspace(workspace *w)
{
    free(w->keys);
    free(w->arrived);
    free(w->result);
    free(w->numbers);
}

/* Writes the sorted values that fall to this process to w->result, and returns their number. */
static size_t sample_sort(const workspace *w, const double *values, size_t n)
{
    int processes;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    int *starts = w->numbers, *ends = starts + processes + 1, *sent = ends + processes + 1, *received = sent + processes + 1;
    for (size_t i = 0; i < n; i++) {
        w->keys[i] = key_of(values[i]);
    }
    const uint64_t *keys = radix_sort(w->keys, w->keys + n, n);
    split(keys, n, processes, starts);
    for (int p = 0; p < processes; p++) {
        sent[p] = starts[p + 1] - starts[p];
    }
    MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
    ends[0] = 0;
    for (int p = 0; p < processes; p++) {
        ends[p + 1] = ends[p] + received[p];
    }
    const size_t count = (size_t)ends[processes];
    if (count > w->most) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Alltoallv(keys, sent, starts, MPI_UINT64_T, w->arrived, received, ends, MPI_UINT64_T, MPI_COMM_WORLD);
    const uint64_t *merged = merge(w->arrived, w->arrived + count, processes, ends);
    for (size_t i = 0; i < count; i++) {
        w->result[i] = value_of(merged[i]);
    }
    return count;
}

/* ---- both ---------------------------------------------------------------------------------------------------------- */

static double timed_mpi(const workspace *w, const double *mine, size_t n)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = bench_now_us();
    const size_t count = sample_sort(w, mine, n);
    MPI_Barrier(MPI_COMM_WORLD);
    const double time = bench_now_us() - begin;
    for (size_t i = 1; i < count; i++) {
        if (w->result[i] < w->result[i - 1]) {
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    return time;
}

static double timed_weft(weft_tensor *a, int wants)
{
    weft_wait();
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = bench_now_us();
    weft_scope_begin();
    weft_tensor *indices = NULL;
    weft_sort(a, 0, false, wants ? &indices : NULL);
    weft_wait();
    MPI_Barrier(MPI_COMM_WORLD);
    const double time = bench_now_us() - begin;
    weft_scope_end();
    bench_check();
    return time;
}

int main(int argc, char **argv)
{
    const int64_t total = argc > 1 ? atoll(argv[1]) : 4000000;
    int provided, processes, process;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    weft_config config;
    weft_config_init(&config);
    weft_init(&config);
    bench_check();
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    const weft_placement rows = weft_shard(0);
    const size_t n = (size_t)(total / processes);
    double *mine = room(n, sizeof(double));
    uint64_t state = UINT64_C(88172645463325252) + (uint64_t)process * 7919;
    for (size_t i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        mine[i] = (double)(int64_t)state * 0x1p-63;
    }
    void *parts[1] = { mine };
    const int64_t shape[1] = { (int64_t)n * processes };
    weft_tensor *a = weft_from_local(WEFT_F64, 1, shape, parts, mesh, &rows, WEFT_COPY);
    bench_check();
    workspace w = make_workspace(n, processes);
    double mpi[BENCH_REPETITIONS], own[BENCH_REPETITIONS], both[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        mpi[i] = timed_mpi(&w, mine, n);
        own[i] = timed_weft(a, 0);
        both[i] = timed_weft(a, 1);
    }
    const double of_mpi = bench_median(mpi, BENCH_REPETITIONS), of_weft = bench_median(own, BENCH_REPETITIONS),
                 of_both = bench_median(both, BENCH_REPETITIONS);
    if (process == 0) {
        printf("{\"bench\": \"sorting\", \"elements\": %lld, \"processes\": %d, \"mpi_ms\": %.1f, \"weft_ms\": %.1f, \"ratio\": %.2f, "
               "\"with_indices_ms\": %.1f}\n",
               (long long)shape[0], processes, of_mpi * 1e-3, of_weft * 1e-3, of_weft / of_mpi, of_both * 1e-3);
    }
    weft_tensor_release(a);
    weft_finalize();
    free_workspace(&w);
    free(mine);
    MPI_Finalize();
    return 0;
}
