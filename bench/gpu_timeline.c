/* Records what a CUDA device does while a program runs, and prints one JSON object: how long the device was busy, the
 * gaps between its operations, the kernels that took longest, and the bytes copied. CUDA loads this library into the program:
 *
 *   CUDA_INJECTION64_PATH=build/bench/libgpu-timeline.so WEFT_BENCH_TIMELINE=timeline.json PROGRAM
 *
 * Only the second half of the time between the first and the last operation counts, so that a program's start
 * does not. Recorded by CUPTI (cupti.h, the activity API); times are the device's, in microseconds. */
#include <cupti.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 8 << 20, MAX_NAMES = 256, TOP = 24 };

typedef struct operation {
    uint64_t start, end, bytes; /* ns; bytes of a copy */
    const char *name;           /* NULL: a copy */
    int copy_kind;
} operation;

static struct {
    operation *all;
    size_t count, room;
} operations;

/* ---- records ------------------------------------------------------------------------------------------- */

static void add(operation o)
{
    if (operations.count == operations.room) {
        size_t room = operations.room == 0 ? 1 << 16 : 2 * operations.room;
        operation *more = realloc(operations.all, room * sizeof(*more));
        if (more == NULL) {
            return;
        }
        operations.all = more;
        operations.room = room;
    }
    operations.all[operations.count++] = o;
}

/* The members read here have the same offsets in all versions of these records. */
static void add_record(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel9 *k = (const void *)record;
        add((operation){ .start = k->start, .end = k->end, .name = k->name });
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *m = (const void *)record;
        add((operation){ .start = m->start, .end = m->end, .bytes = m->bytes, .copy_kind = m->copyKind });
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *m = (const void *)record;
        add((operation){ .start = m->start, .end = m->end, .name = "memset" });
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer == NULL ? 0 : BUFFER_BYTES;
    *most_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        add_record(record);
    }
    free(buffer);
}

/* ---- the summary --------------------------------------------------------------------------------------- */

typedef struct total {
    const char *name;
    double us;
    long count;
} total;

static int by_start(const void *a, const void *b)
{
    const operation *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int by_time(const void *a, const void *b)
{
    const total *x = a, *y = b;
    return x->us > y->us ? -1 : x->us < y->us;
}

static void add_to(total totals[], int *count, const char *name, double us)
{
    int i = 0;
    while (i < *count && strcmp(totals[i].name, name) != 0) {
        i++;
    }
    if (i == *count && i < MAX_NAMES) {
        totals[(*count)++] = (total){ .name = name };
    }
    if (i < *count) {
        totals[i].us += us;
        totals[i].count++;
    }
}

static const char *name_of(const operation *o)
{
    return o->name != NULL                                   ? o->name
           : o->copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? "copy to the device"
           : o->copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy from the device"
                                                             : "copy within the device";
}

/* Time that at least one of them runs, and the gaps in which none does. */
static double busy_us(const operation o[], size_t count, double gaps[], size_t *num_gaps)
{
    double busy = 0;
    uint64_t until = o[0].start;
    *num_gaps = 0;
    for (size_t i = 0; i < count; i++) {
        if (o[i].start > until) {
            gaps[(*num_gaps)++] = (double)(o[i].start - until) * 1e-3;
            until = o[i].start;
        }
        if (o[i].end > until) {
            busy += (double)(o[i].end - until) * 1e-3;
            until = o[i].end;
        }
    }
    return busy;
}

static void print_totals(FILE *out, const operation o[], size_t count)
{
    static total totals[MAX_NAMES];
    double copied[2] = { 0, 0 };
    int names = 0;
    for (size_t i = 0; i < count; i++) {
        add_to(totals, &names, name_of(&o[i]), (double)(o[i].end - o[i].start) * 1e-3);
        if (o[i].name == NULL && o[i].copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD) {
            copied[0] += (double)o[i].bytes;
        } else if (o[i].name == NULL && o[i].copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH) {
            copied[1] += (double)o[i].bytes;
        }
    }
    qsort(totals, (size_t)names, sizeof(totals[0]), by_time);
    fprintf(out, ", \"to_device_mb\": %.3f, \"from_device_mb\": %.3f, \"longest\": [", copied[0] * 1e-6, copied[1] * 1e-6);
    for (int i = 0; i < names && i < TOP; i++) {
        fprintf(out, "%s{\"name\": \"%.90s\", \"us\": %.0f, \"count\": %ld}", i == 0 ? "" : ", ", totals[i].name, totals[i].us,
                totals[i].count);
    }
    fprintf(out, "]");
}

static void print_summary(FILE *out)
{
    qsort(operations.all, operations.count, sizeof(operation), by_start);
    const uint64_t first = operations.all[0].start, last = operations.all[operations.count - 1].start;
    size_t from = 0, num_gaps;
    while (operations.all[from].start < first + (last - first) / 2) {
        from++;
    }
    const operation *o = operations.all + from;
    const size_t count = operations.count - from;
    double *gaps = malloc(count * sizeof(*gaps));
    if (gaps == NULL) {
        return;
    }
    const double span = (double)(last - o[0].start) * 1e-3, busy = busy_us(o, count, gaps, &num_gaps);
    qsort(gaps, num_gaps, sizeof(*gaps), by_value);
    fprintf(out, "{\"bench\": \"gpu_timeline\", \"span_us\": %.0f, \"busy_us\": %.0f, \"operations\": %zu, \"gaps\": %zu, \"median_gap_us\": %.2f, \"longest_gap_us\": %.0f",
            span, busy, count, num_gaps, num_gaps > 0 ? gaps[num_gaps / 2] : 0.0, num_gaps > 0 ? gaps[num_gaps - 1] : 0.0);
    print_totals(out, o, count);
    fprintf(out, "}\n");
    free(gaps);
}

static void finish(void)
{
    const char *path = getenv("WEFT_BENCH_TIMELINE");
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    FILE *out = path == NULL ? stderr : fopen(path, "w");
    if (out != NULL && operations.count > 0) {
        print_summary(out);
    }
    if (out != NULL && out != stderr) {
        fclose(out);
    }
}

/* Called by CUDA when the program first uses it. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    bool started = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS &&
                   cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) == CUPTI_SUCCESS &&
                   cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) == CUPTI_SUCCESS &&
                   cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET) == CUPTI_SUCCESS;
    if (!started) {
        fprintf(stderr, "bench: CUPTI records nothing\n");
        return 0;
    }
    atexit(finish);
    return 1;
}
