/* Comparison of results with PyTorch's, on every rank and on the host. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* ---- what went wrong ----------------------------------------------------------------------------------- */

enum { SHOWN = 20 };

int oracle_failures;
FILE *oracle_bits;

bool oracle_complain(const oracle_file *file, const oracle_case *c, const char *format, ...)
{
    if (oracle_failures++ < SHOWN) {
        char text[400];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        print_error("%s:%d: %s: %s\n", file->path, c->line, c->operation, text);
    }
    return false;
}

/* ---- one result ---------------------------------------------------------------------------------------- */

static bool check_description(const oracle_file *file, const oracle_case *c, const oracle_output *expected,
                              weft_tensor *tensor)
{
    if (tensor == NULL) {
        oracle_complain(file, c, "%s", weft_last_error());
        weft_clear_error();
        return false;
    }
    if (weft_tensor_dtype(tensor) != expected->dtype) {
        return oracle_complain(file, c, "the type is %s, expected %s",
                               weft_dtype_name(weft_tensor_dtype(tensor)), weft_dtype_name(expected->dtype));
    }
    bool same = weft_tensor_ndim(tensor) == expected->ndim;
    for (int d = 0; same && d < expected->ndim; d++) {
        same = weft_tensor_size(tensor, d) == expected->shape[d];
    }
    return same || oracle_complain(file, c, "another shape, of %d dimensions", weft_tensor_ndim(tensor));
}

static double for_messages(weft_dtype dtype, const void *array, int64_t i)
{
    return oracle_is_floating(dtype) ? oracle_load_real(dtype, array, i)
                                     : (double)oracle_load_whole(dtype, array, i);
}

/* Expected values. */
typedef struct answer {
    const oracle_output *output;
    double allowed;
    double *ulps; /* gets the largest distance, where that is more */
} answer;

/* Element i of both arrays. */
static bool is_near(const answer *a, const void *got, const void *expected, int64_t i, char *text,
                    size_t size)
{
    weft_dtype dtype = a->output->dtype;
    double distance = oracle_distance(dtype, got, expected, i, a->output->magnitude);
    if (!(distance <= a->allowed)) {
        snprintf(text, size, "element %d is %.17g, expected %.17g: %.3g ulps, allowed %.3g", (int)i,
                 for_messages(dtype, got, i), for_messages(dtype, expected, i), distance, a->allowed);
        return false;
    }
    *a->ulps = fmax(*a->ulps, distance);
    return true;
}

static bool judge(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    const answer *a = expected;
    const oracle_output *output = a->output;
    const size_t element_size = weft_dtype_size(output->dtype);
    char *expected_shard = malloc((size_t)found->count * element_size + 1);
    bool near = true;
    for (int64_t i = 0; i < found->count && near; i++) {
        int64_t element = shard_element(found, output->ndim, output->shape, i);
        memcpy(expected_shard + (size_t)i * element_size, (const char *)output->elements + (size_t)element * element_size, element_size);
        near = is_near(a, found->values, expected_shard, i, text, size);
    }
    free(expected_shard);
    return near;
}

/* Checks the shards of all ranks; for addends their sums; replicas must be equal. */
static bool check_shards(weft_tensor *tensor, const answer *a, char *text, size_t size)
{
    weft_tensor *reduced = without_partial(tensor);
    if (reduced == NULL) {
        snprintf(text, size, "%s", weft_last_error());
        weft_clear_error();
        return false;
    }
    bool is_reduced = weft_tensor_placements(reduced) == weft_tensor_placements(tensor);
    return shards_are_right(reduced, judge, a, text, size) &&
           (is_reduced || shards_are_right(tensor, NULL, NULL, text, size));
}

/* FNV-1a. */
static void write_bits(const void *host, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ ((const unsigned char *)host)[i]) * 1099511628211u;
    }
    fprintf(oracle_bits, " %016llx", (unsigned long long)hash);
}

/* The whole tensor, as every process gets it. */
static bool check_host(weft_tensor *tensor, const answer *a, char *text, size_t size)
{
    void *host = calloc((size_t)a->output->count + 1, 8);
    bool right = weft_to_host(tensor, host, (size_t)a->output->count * 8) == WEFT_OK;
    if (right && oracle_bits != NULL) {
        write_bits(host, (size_t)a->output->count * weft_dtype_size(weft_tensor_dtype(tensor)));
    }
    if (!right) {
        snprintf(text, size, "%s", weft_last_error());
        weft_clear_error();
    }
    for (int64_t i = 0; i < a->output->count && right; i++) {
        right = is_near(a, host, a->output->elements, i, text, size);
    }
    free(host);
    return right;
}

bool oracle_compare(const oracle_file *file, const oracle_case *c, const oracle_output *expected,
                    double allowed, weft_tensor *tensor, double *ulps)
{
    if (!check_description(file, c, expected, tensor)) {
        return false;
    }
    answer a = { expected, allowed, ulps };
    char text[400];
    bool right = check_shards(tensor, &a, text, sizeof(text)) && check_host(tensor, &a, text, sizeof(text));
    return right || oracle_complain(file, c, "%s", text);
}

/* ---- the library --------------------------------------------------------------------------------------- */

static int number_of(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text == NULL ? otherwise : atoi(text);
}

int oracle_sparsity(void)
{
    int step = number_of("WEFT_TEST_STEP", 1) * test_share();
    return step < 1 ? 1 : step;
}

bool oracle_runs(int number, int first, int step)
{
    int sparsity = oracle_sparsity();
    int part = (number_of("WEFT_TEST_FIRST", 0) + number_of("WEFT_TEST_TURN", 0)) % sparsity;
    return number % sparsity == part && number / sparsity % step == first;
}

void oracle_start(const char *panel_rows)
{
    setenv("WEFT_CACHE_BYTES", "536870912", 1); /* the layouts of all cases are kept: they are counted */
    start_with_panels(ORACLE_RANKS, panel_rows);
    oracle_failures = 0;
}

void oracle_stop(void)
{
    assert_int_equal(weft_finalize(), WEFT_OK);
    if (oracle_failures > 0) {
        fail_msg("%d cases are wrong", oracle_failures);
    }
}
