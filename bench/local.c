/* Redistribution between four ranks of one process, relative to memcpy by as many threads as workers. Two
 * ratios, whose bytes differ (256 MB is the whole tensor):
 *
 *   fraction_of_memcpy   bytes moved: all boxes that targets take from sources, also of the same rank.
 *                        S0->S1, S1->S0: 256 MB. S0->R: each of 4 ranks takes all, 1 GB. P->S0: 4 addends of
 *                        each element, 1 GB. P->R: P->S0 and S0->R, 2 GB.
 *   fraction_of_written  bytes of the target's shards: 256 MB, or 1 GB for R.
 *
 * They differ if addends are reduced. memcpy reads and writes each byte; a sum of 4 reads 4 bytes for each
 * one written, 5 transfers instead of memcpy's 2 per written byte. So a sum that uses memory as well as
 * memcpy does has fraction_of_written 0.4 and fraction_of_memcpy 1.6. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { RANKS = 4, ROWS = 8192, COLUMNS = 8192 }; /* f32: 256 MB */

typedef struct copier {
    char *target;
    const char *source;
    size_t bytes;
} copier;

static void *copy(void *argument)
{
    const copier *c = argument;
    memcpy(c->target, c->source, c->bytes);
    return NULL;
}

static double run_memcpy(char *target, const char *source, size_t bytes, int threads)
{
    pthread_t ids[64];
    copier parts[64];
    size_t part = bytes / (size_t)threads;
    double start = bench_now_us();
    for (int i = 0; i < threads; i++) {
        parts[i] = (copier){ target + (size_t)i * part, source + (size_t)i * part, part };
        pthread_create(&ids[i], NULL, copy, &parts[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    return bench_now_us() - start;
}

static double run_weft(weft_tensor *source, weft_mesh *mesh, weft_placement to)
{
    weft_scope_begin();
    double start = bench_now_us();
    weft_redistribute(source, mesh, &to);
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_end();
    bench_check();
    return us;
}

/* `written` and `moved`: bytes as above. */
static void measure(const char *name, weft_tensor *source, weft_mesh *mesh, weft_placement to, size_t written,
                    size_t moved, int threads)
{
    size_t bytes = (size_t)1 << 28; /* bytes copied; times for others are proportional */
    char *target = malloc(bytes), *origin = malloc(bytes);
    if (target == NULL || origin == NULL) {
        fprintf(stderr, "bench: no memory\n");
        exit(1);
    }
    memset(target, 1, bytes);
    memset(origin, 2, bytes);
    for (int i = 0; i < 2; i++) { /* warm-up: buffers; the task list is kept from its second use on */
        run_weft(source, mesh, to);
    }
    double ours[BENCH_REPETITIONS], plain[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = run_weft(source, mesh, to);
        plain[i] = run_memcpy(target, origin, bytes, threads) / (double)bytes;
    }
    double us = bench_median(ours, BENCH_REPETITIONS), byte_us = bench_median(plain, BENCH_REPETITIONS);
    printf("{\"bench\": \"local\", \"case\": \"%s\", \"ms\": %.2f, \"memcpy_ms\": %.2f, "
           "\"fraction_of_memcpy\": %.3f, \"fraction_of_written\": %.3f}\n",
           name, us * 1e-3, (double)moved * byte_us * 1e-3, (double)moved * byte_us / us,
           (double)written * byte_us / us);
    fflush(stdout);
    free(target);
    free(origin);
}

int main(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.ranks = RANKS;
    weft_init(&config);
    bench_check();
    int threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads > 64 ? 64 : threads;
    int64_t size = RANKS, shape[] = { ROWS, COLUMNS };
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    size_t whole = (size_t)ROWS * COLUMNS * sizeof(float);
    weft_placement rows = weft_shard(0), columns = weft_shard(1), everywhere = weft_replicate();
    weft_scope_begin();
    weft_tensor *source = weft_ones(WEFT_F32, 2, shape, mesh, &rows);
    measure("S0->S1", source, mesh, columns, whole, whole, threads);
    measure("S0->R", source, mesh, everywhere, whole * RANKS, whole * RANKS, threads);
    weft_scope_end();
    weft_scope_begin();
    source = weft_ones(WEFT_F32, 2, shape, mesh, &columns);
    measure("S1->S0", source, mesh, rows, whole, whole, threads);
    weft_scope_end();
    weft_scope_begin();
    weft_placement partial = weft_partial(WEFT_SUM);
    source = weft_empty(WEFT_F32, 2, shape, mesh, &partial);
    for (int i = 0; i < RANKS; i++) {
        memset(weft_local_acquire(source, i, WEFT_WRITE), 0, whole);
        weft_local_release(source, i);
    }
    measure("P->S0", source, mesh, rows, whole, whole * RANKS, threads);
    measure("P->R", source, mesh, everywhere, whole * RANKS, 2 * whole * RANKS, threads);
    weft_scope_end();
    return weft_finalize() == WEFT_OK ? 0 : 1;
}
