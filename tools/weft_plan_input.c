/* Parsing of weft-plan's options. */
#include "weft_plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void plan_refuse(const char *option, const char *text, ...)
{
    va_list arguments;
    va_start(arguments, text);
    fprintf(stderr, "weft-plan: %s: ", option);
    vfprintf(stderr, text, arguments);
    fprintf(stderr, " (try --help)\n");
    va_end(arguments);
    exit(2);
}

_Noreturn void plan_out_of_memory(void)
{
    fprintf(stderr, "weft-plan: out of memory\n");
    exit(1);
}

/* An integer from `least` to `most`; *end: after it. */
static int64_t read_number(const char *option, const char *text, int64_t least, int64_t most, char **end)
{
    errno = 0;
    long long value = strtoll(text, end, 10);
    bool is_digit = *text >= '0' && *text <= '9';
    if (!is_digit || errno != 0 || value < least || value > most) {
        plan_refuse(option, "\"%s\": expected a number from %lld to %lld", text, (long long)least,
               (long long)most);
    }
    return value;
}

int64_t plan_read_number(const char *option, const char *text, int64_t least, int64_t most)
{
    char *end;
    int64_t value = read_number(option, text, least, most, &end);
    if (*end != '\0') {
        plan_refuse(option, "\"%s\": expected a number from %lld to %lld", text, (long long)least,
               (long long)most);
    }
    return value;
}

/* "5x3" */
plan_sizes plan_read_sizes(const char *option, const char *text, int64_t least)
{
    plan_sizes read = { 0, { 0 } };
    const char *rest = text;
    for (;;) {
        char *end;
        if (read.count == WEFT_MAX_DIMS) {
            plan_refuse(option, "\"%s\": more than %d dimensions", text, WEFT_MAX_DIMS);
        }
        read.items[read.count++] = read_number(option, rest, least, INT64_MAX, &end);
        if (*end == '\0') {
            return read;
        }
        if (*end != 'x') {
            plan_refuse(option, "\"%s\": expected sizes with an x between them, as in 5x3", text);
        }
        rest = end + 1;
    }
}

plan_sizes plan_read_shape(const char *option, const char *text, weft_dtype dtype)
{
    if (*text == '\0' || strcmp(text, "scalar") == 0) {
        return (plan_sizes){ 0, { 0 } };
    }
    plan_sizes shape = plan_read_sizes(option, text, 0);
    int64_t bytes;
    if (!weft_count_checked(shape.count, shape.items, &bytes) ||
        !weft_mul_checked(bytes, (int64_t)weft_dtype_size(dtype), &bytes)) {
        plan_refuse(option, "\"%s\": more than 2^63 bytes", text);
    }
    return shape;
}

weft_dtype plan_read_dtype(const char *option, const char *text)
{
    for (int dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++) {
        if (strcmp(text, weft_dtype_name((weft_dtype)dtype)) == 0) {
            return (weft_dtype)dtype;
        }
    }
    plan_refuse(option, "\"%s\": expected f64, f32, bf16, f16, i64, i32, u8, bool, c64 or c128", text);
}

weft_algorithm plan_read_algorithm(const char *text)
{
    for (weft_algorithm a = WEFT_DIRECT; a <= WEFT_ALGORITHM_AUTO; a++) {
        if (strcmp(text, weft_algorithm_name(a)) == 0) {
            return a;
        }
    }
    plan_refuse("--algorithm", "\"%s\": expected auto, direct, chain, tree or once", text);
}

weft_mesh_impl *plan_read_mesh(const char *option, const char *text)
{
    plan_sizes shape = plan_read_sizes(option, text, 1);
    weft_status status;
    char why[200] = "";
    weft_mesh_impl *mesh =
        weft_mesh_new(shape.count, shape.items, NULL, NULL, PLAN_MAX_RANKS, &status, why, sizeof(why));
    if (mesh == NULL) {
        plan_refuse(option, "\"%s\": %s", text, why);
    }
    return mesh;
}

void plan_read_placements(const char *option, const char *text, const weft_mesh_impl *mesh, int ndim, const int64_t shape[],
                            weft_placement out[])
{
    char why[400] = "";
    if (weft_placements_read(text, mesh->ndim, out, why, sizeof(why)) != WEFT_OK ||
        weft_placements_normalize(out, mesh->ndim, ndim, out, why, sizeof(why)) != WEFT_OK ||
        weft_placements_check_sizes(mesh, out, shape, why, sizeof(why)) != WEFT_OK) {
        plan_refuse(option, "%s", why);
    }
}

weft_topology plan_make_topology(int64_t num_ranks, int64_t local_ranks)
{
    int processes = (int)weft_ceil_div(num_ranks, local_ranks);
    if (local_ranks == 1) {
        return (weft_topology){ (int)num_ranks, processes, NULL };
    }
    int *first = malloc(((size_t)processes + 1) * sizeof(*first));
    if (first == NULL) {
        plan_out_of_memory();
    }
    for (int p = 0; p <= processes; p++) {
        first[p] = (int)weft_min_i64(num_ranks, p * local_ranks);
    }
    return (weft_topology){ (int)num_ranks, processes, first };
}
