#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "terminal.h"

enum { MAX_RANKS = 64 * 64 };

bool world_start(const char *program, const char *const names[2], int64_t first, int64_t second, int64_t seed)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = (int)(first * second); /* spread over the processes */
    config.seed = (uint64_t)seed;
    if (weft_init(&config) != WEFT_OK) {
        return false;
    }
    if (weft_world_size() != config.ranks) {
        if (weft_process_index() == 0) {
            fprintf(stderr, "%s: --mesh %dx%d has %d ranks, too few for %d processes\n", program, (int)first,
                    (int)second, config.ranks, weft_num_processes());
        }
        return false;
    }
    return weft_mesh_push(weft_mesh_create(2, (int64_t[]){ first, second }, names)) == WEFT_OK;
}

int world_end(const char *program, bool good)
{
    if (!good && weft_last_status() != WEFT_OK) {
        fprintf(stderr, "%s: %s\n", program, weft_last_error());
    }
    weft_finalize();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

weft_tensor *tensor_of_rows(int32_t *symbols, int ndim, const int64_t shape[],
                            const weft_placement *placements)
{
    int64_t width = ndim == 2 ? shape[1] : 1, offset[2], extent[2];
    static void *locals[MAX_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_shard_box(NULL, placements, ndim, shape, weft_first_rank() + i, offset, extent);
        locals[i] = extent[0] > 0 ? symbols + offset[0] * width : NULL;
    }
    return weft_from_local(WEFT_I32, ndim, shape, locals, NULL, placements, WEFT_COPY);
}

double read_loss(weft_tensor *loss)
{
    double as_f64 = 0;
    float as_f32 = 0;
    bool wide = weft_tensor_dtype(loss) == WEFT_F64;
    weft_local_to_host(loss, 0, wide ? (void *)&as_f64 : (void *)&as_f32,
                       wide ? sizeof(as_f64) : sizeof(as_f32));
    weft_tensor_release(loss);
    return wide ? as_f64 : as_f32;
}

/* A tensor with one row per rank, in which a process fills the row of its first rank. */
bool work_count(int64_t totals[3])
{
    int64_t ranks = weft_world_size();
    static int64_t rows[MAX_RANKS][3];
    static void *locals[MAX_RANKS];
    weft_counters counters;
    if (weft_get_counters(&counters, sizeof(counters)) != WEFT_OK) {
        return false;
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = rows[i];
    }
    rows[0][0] = (int64_t)counters.tasks;
    rows[0][1] = (int64_t)counters.transfers;
    rows[0][2] = (int64_t)counters.bytes_moved;
    weft_placement one_row_each = weft_shard(0);
    weft_tensor *all = weft_from_local(WEFT_I64, 2, (int64_t[]){ ranks, 3 }, locals,
                                       weft_mesh_create(1, &ranks, NULL), &one_row_each, WEFT_COPY);
    static int64_t everyone[MAX_RANKS][3];
    weft_status status = weft_to_host(all, everyone, sizeof(everyone));
    for (int i = 0; i < 3; i++) {
        totals[i] = 0;
        for (int64_t rank = 0; rank < ranks; rank++) {
            totals[i] += everyone[rank][i];
        }
    }
    return status == WEFT_OK;
}

void mesh_print(int64_t first, int64_t second)
{
    int ranks = weft_world_size(), processes = weft_num_processes();
    printf("  mesh         %lld x %lld: %d rank%s in %d process%s\n", (long long)first, (long long)second, ranks,
           ranks > 1 ? "s" : "", processes, processes > 1 ? "es" : "");
}

void work_print(const int64_t work[3])
{
    printf("  work         %lld tasks, %lld transfers, %.1f MB moved between ranks\n", (long long)work[0], (long long)work[1],
           1e-6 * (double)work[2]);
}

/* The mean of the last tenth of the steps, at most 50: a single batch varies. NAN: there are none. */
static double last_loss(int64_t steps, const double losses[])
{
    if (steps == 0) {
        return NAN;
    }
    int64_t n = steps / 10 < 1 ? 1 : steps / 10 > 50 ? 50 : steps / 10;
    double sum = 0;
    for (int64_t i = steps - n; i < steps; i++) {
        sum += losses[i];
    }
    return sum / (double)n;
}

/* JSON has no number that is none. */
static const char *number(double value, char text[32])
{
    snprintf(text, 32, isnan(value) ? "null" : "%.8g", value);
    return text;
}

static void print_json(const summary *s, double last, double rate)
{
    char first_text[32], last_text[32], rate_text[32];
    printf("{\"example\": \"%s\", \"mesh\": [%d, %d], \"ranks\": %d, \"processes\": %d, "
           "\"steps\": %lld, \"loss_first\": %s, \"loss_last\": %s, \"seconds\": %.3f, "
           "\"tokens_per_s\": %s, \"tasks\": %lld, \"transfers\": %lld, \"bytes_moved\": %lld",
           s->example, (int)s->dp, (int)s->tp, (int)(s->dp * s->tp), weft_num_processes(),
           (long long)s->steps, number(s->steps > 0 ? s->losses[0] : NAN, first_text),
           number(last, last_text), s->seconds, number(rate, rate_text), (long long)s->work[0],
           (long long)s->work[1], (long long)s->work[2]);
    if (!isnan(s->validation_loss)) {
        printf(", \"validation_loss\": %.9g", s->validation_loss);
    }
    if (s->all_losses) {
        printf(", \"losses\": [");
        for (int64_t i = 0; i < s->steps; i++) {
            printf("%s%.9g", i == 0 ? "" : ", ", s->losses[i]);
        }
        printf("]");
    }
    printf("}\n");
}

static void print_table(const summary *s, double last, double rate)
{
    int dp = (int)s->dp, tp = (int)s->tp, processes = weft_num_processes();
    if (s->steps > 0) {
        printf("Loss\n\n");
        chart_print(stdout, s->steps, s->losses, 72, 10);
        printf("\n");
    }
    printf("  mesh         dp %d x tp %d: %d rank%s in %d process%s\n", dp, tp, dp * tp,
           dp * tp > 1 ? "s" : "", processes, processes > 1 ? "es" : "");
    printf("  parameters   %lld\n", (long long)s->parameters);
    if (s->steps > 0) {
        printf("  steps        %lld in %.1f s, %.0f %s/s\n", (long long)s->steps, s->seconds, rate, s->token);
        printf("  loss         %.3f at first, %.3f at last\n", s->losses[0], last);
    }
    if (!isnan(s->validation_loss)) {
        printf("  validation   %.3f\n", s->validation_loss);
    }
    work_print(s->work);
}

static bool write_curve(const char *path, int64_t n, const double losses[])
{
    FILE *file = fopen(path, "w");
    bool good = file != NULL;
    for (int64_t i = 0; good && i < n; i++) {
        good = fprintf(file, "%.9g\n", losses[i]) > 0;
    }
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    if (!good) {
        perror(path);
    }
    return good;
}

void validation_print(int64_t step, double loss, double validation_loss)
{
    if (weft_process_index() == 0 && weft_last_status() == WEFT_OK) {
        printf("  step %6lld   loss %.3f   validation %.3f\n", (long long)step, loss, validation_loss);
        fflush(stdout);
    }
}

bool summary_print(const summary *s, const char *curve, bool json)
{
    if (weft_last_status() != WEFT_OK || weft_process_index() > 0) {
        return weft_last_status() == WEFT_OK;
    }
    double last = last_loss(s->steps, s->losses), rate = (double)s->tokens / s->seconds;
    print_table(s, last, rate);
    bool good = curve == NULL || write_curve(curve, s->steps, s->losses);
    if (json) {
        print_json(s, last, rate);
    }
    return good;
}
