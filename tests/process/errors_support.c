#include "errors_support.h"

#include <stdio.h>
#include <string.h>

weft_mesh *mesh, *other_mesh, *stale_mesh;
weft_tensor *matrix, *cut, *on_other, *partial, *largest, *dead, *stale_tensor;
weft_tensor *square, *image, *filter, *scalar, *empty;
weft_tensor *whole, *indices, *places, *booleans;
const weft_operation *custom;

const int64_t shape_45[] = { 4, 5 }, shape_55[] = { 5, 5 }, negative[] = { 4, -1 },
              huge[] = { INT64_MAX / 2, 3 }, huge_but_empty[] = { 0, INT64_MAX, INT64_MAX },
              nine[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };

#define AND_REPLICATE                                                                                        \
    {                                                                                                        \
        WEFT_REPLICATE, 0, WEFT_SUM                                                                          \
    }
const weft_placement rows[] = { { WEFT_SHARD, 0, WEFT_SUM }, AND_REPLICATE },
                     columns[] = { { WEFT_SHARD, 1, WEFT_SUM }, AND_REPLICATE },
                     with_partial[] = { { WEFT_PARTIAL, 0, WEFT_SUM }, AND_REPLICATE },
                     bad_dim[] = { { WEFT_SHARD, 2, WEFT_SUM }, AND_REPLICATE },
                     bad_negative_dim[] = { { WEFT_SHARD, -3, WEFT_SUM }, AND_REPLICATE },
                     bad_kind[] = { { (weft_placement_kind)7, 0, WEFT_SUM }, AND_REPLICATE },
                     bad_op[] = { { WEFT_PARTIAL, 0, (weft_reduce_op)9 }, AND_REPLICATE };
double memory[64];

void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

static weft_tensor *make(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *on,
                         const weft_placement *how)
{
    weft_tensor *tensor = weft_zeros(dtype, ndim, shape, on, how);
    assert_no_error();
    return tensor;
}

void make_fixtures(void)
{
    const int64_t mesh_shape[] = { 2, 2 }, line[] = { 4 }, count[] = { 4 };
    static const char *const names[] = { "dp", "tp" };
    mesh = weft_mesh_create(2, mesh_shape, names);
    other_mesh = weft_mesh_create(1, line, NULL);
    matrix = make(WEFT_F32, 2, shape_45, mesh, rows);
    cut = make(WEFT_F32, 2, shape_45, mesh, columns);
    square = make(WEFT_F32, 2, shape_55, mesh, NULL);
    image = make(WEFT_F32, 4, (const int64_t[]){ 2, 6, 5, 5 }, mesh, NULL);
    filter = make(WEFT_F32, 4, (const int64_t[]){ 4, 6, 3, 3 }, mesh, NULL);
    scalar = make(WEFT_F32, 0, NULL, mesh, NULL);
    whole = make(WEFT_F64, 2, shape_45, mesh, NULL);
    on_other = make(WEFT_F32, 2, shape_45, other_mesh, NULL);
    indices = make(WEFT_I64, 1, count, mesh, NULL);
    places = make(WEFT_I64, 2, shape_45, mesh, NULL);
    booleans = make(WEFT_BOOL, 2, shape_45, mesh, NULL);
    empty = make(WEFT_F32, 2, (const int64_t[]){ 0, 5 }, mesh, NULL);
    partial = weft_empty(WEFT_F32, 2, shape_45, mesh, with_partial);
    const weft_placement of_largest[] = { weft_partial(WEFT_MAX), weft_replicate() };
    largest = weft_empty(WEFT_F32, 2, shape_45, mesh, of_largest);
    custom = weft_operation_register(
        &(weft_operation_description){ .name = "custom",
                                       .rule = "ab->ac",
                                       .inputs = { { "argument", WEFT_TYPES_FLOAT, false } },
                                       .kernel = no_kernel });
    assert_int_equal(weft_random_state_create("there", 1), WEFT_OK);
    dead = make(WEFT_F32, 2, shape_45, mesh, NULL);
    weft_tensor_release(dead);
    assert_no_error();
}

void start(void)
{
    WORLD(RANKS);
}

/* A sum of ones over everything, right on all ranks. */
void assert_library_works(void)
{
    weft_scope_begin();
    weft_tensor *ones = weft_ones(WEFT_F64, 2, shape_45, mesh, rows);
    double result = 0;
    assert_int_equal(weft_to_host(weft_sum(weft_add(ones, ones), WEFT_ALL_DIMS, false), &result, sizeof(result)), WEFT_OK);
    assert_true(result == 40);
    weft_scope_end();
    assert_no_error();
}

int setup(void **state)
{
    (void)state;
    /* Objects of an earlier life: nothing may look behind these pointers. One byte on, because the very
     * address may be in use again. */
    start();
    make_fixtures();
    stale_mesh = (weft_mesh *)((char *)mesh + 1);
    stale_tensor = (weft_tensor *)((char *)matrix + 1);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start();
    make_fixtures();
    return 0;
}

int teardown(void **state)
{
    (void)state;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static struct {
    const char *file, *call;
    int line, count, wrong;
    weft_counters before;
} row;

void row_begin(const char *file, int line, const char *call)
{
    row.file = file;
    row.line = line;
    row.call = call;
    row.count++;
    weft_get_counters(&row.before, sizeof(row.before));
}

static void blame(const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    print_error("%s:%d: %s: %s\n", row.file, row.line, row.call, text);
    row.wrong++;
}

void row_end(bool right, weft_status status, const char *function, const char *argument)
{
    if (!right) {
        blame("the call returned something else than on failure");
    }
    if (weft_last_status() != status || strstr(weft_last_error(), function) == NULL ||
        strstr(weft_last_error(), argument) == NULL) {
        blame("got %s, \"%s\"; expected %s naming %s and %s", weft_status_string(weft_last_status()),
              weft_last_error(), weft_status_string(status), function, argument);
    }
    weft_clear_error();
    weft_counters after;
    weft_get_counters(&after, sizeof(after));
    if (after.tasks != row.before.tasks || after.transfers != row.before.transfers) {
        blame("submitted something");
    }
}

void row_end_status(weft_status returned, weft_status status, const char *function, const char *argument)
{
    row_end(returned == weft_last_status(), status, function, argument);
}

void rows_end(void)
{
    int wrong = row.wrong;
    if (weft_process_index() == 0) {
        print_message("# %d rows\n", row.count);
    }
    row.count = row.wrong = 0;
    assert_int_equal(wrong, 0);
    assert_library_works();
}
