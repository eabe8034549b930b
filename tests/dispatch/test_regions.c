/* No hidden communication. Strict regions, printing ones, counters by region
 * and function. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weft_mesh *mesh;
static weft_tensor *rows, *columns;

static int start(void **state)
{
    (void)state;
    WORLD(2);
    const weft_placement first = weft_shard(0), second = weft_shard(1);
    mesh = weft_mesh_create(1, (int64_t[]){ 2 }, NULL);
    rows = weft_rand(WEFT_F32, 2, (int64_t[]){ 8, 8 }, mesh, &first);
    columns = weft_rand(WEFT_F32, 2, (int64_t[]){ 8, 8 }, mesh, &second);
    assert_no_error();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weft_clear_error();
    return world_stop(NULL);
}

/* An input must be redistributed: refused, with its name and both layouts, and nothing is submitted. */
static void assert_refused(const weft_tensor *result, const char *text)
{
    assert_null(result);
    assert_int_equal(weft_last_status(), WEFT_ERR_LAYOUT);
    if (strstr(weft_last_error(), text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, weft_last_error());
    }
    weft_clear_error();
}

static void test_strict(void **state)
{
    (void)state;
    weft_counters before, after;
    assert_non_null(weft_add(rows, columns));
    assert_int_equal(weft_region_begin("forward", WEFT_REGION_STRICT), WEFT_OK);
    assert_int_equal(weft_region_begin("inner", 0), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_refused(weft_add(rows, columns), "in the strict region \"forward/inner\"");
    assert_refused(weft_add(rows, columns), "would be moved from f32[8, 8]");
    assert_refused(weft_softmax(rows, 0), "forward/inner");
    assert_refused(weft_softmax(rows, 0), "weft_softmax");
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(before.tasks, after.tasks);
    assert_int_equal(before.stages, after.stages);
    /* Explicit redistributions, and implicit ones without communication. */
    const weft_placement first = weft_shard(0);
    weft_tensor *moved = weft_redistribute(columns, mesh, &first);
    assert_non_null(weft_add(rows, moved));
    assert_non_null(weft_softmax(rows, 1));
    weft_tensor *whole = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 8 }, mesh, NULL);
    assert_non_null(weft_add(rows, whole));
    /* Along a mesh dimension of one rank nothing moves. */
    weft_mesh *flat = weft_mesh_of_ranks(2, (int64_t[]){ 2, 1 }, (int[]){ 0, 1 }, NULL);
    const weft_placement along_one[] = { weft_shard(1), weft_shard(0) };
    assert_non_null(weft_softmax(weft_ones(WEFT_F32, 2, (int64_t[]){ 4, 4 }, flat, along_one), 0));
    assert_no_error();
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_non_null(weft_softmax(rows, 0));
    assert_non_null(weft_add(rows, columns));
    assert_no_error();
}

static void difference_kernel(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        int64_t i = out->offset[0] + row;
        const float *here = weft_view_row(in, i - in->offset[0], NULL);
        const float *before = i > 0 ? weft_view_row(in, i - 1 - in->offset[0], NULL) : NULL;
        float *target = weft_view_row(out, row, NULL);
        for (int64_t c = 0; c < out->extent[1]; c++) {
            target[c] = here[c] - (before == NULL ? 0 : before[c]);
        }
    }
}

/* Row differences: an operation with a halo of one row. */
static weft_tensor *difference(weft_tensor *a)
{
    static const weft_operation_description description = {
        .name = "difference",
        .rule = "h~w->hw",
        .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F32), false } },
        .halos = { { .letter = 'h', .before = 1 } },
        .kernel = difference_kernel,
    };
    const weft_operation *operation = weft_operation_register(&description);
    assert_non_null(operation);
    return weft_apply(operation, 1, &a, &(weft_apply_options){ .num_sizes = 1, .sizes = { 8 } });
}

static void fill(const weft_local_call *call)
{
    float *values = call->outputs[0].data;
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        values[i] = 1;
    }
}

/* A function on local shards that takes `a` by columns. */
static weft_status by_columns(weft_tensor *a, weft_tensor **output)
{
    const weft_placement second = weft_shard(1);
    const weft_placement *placements[] = { &second };
    const weft_local_output described = { WEFT_F32, 2, (const int64_t[]){ 8, 8 }, &second };
    weft_local_map_options options;
    weft_local_map_options_init(&options);
    options.in_placements = placements;
    return weft_local_map(fill, 1, &a, 1, &described, &options, output);
}

static weft_tensor *convolved(weft_tensor *image)
{
    weft_convolution options;
    weft_convolution_init(&options);
    options.padding[0] = 1;
    weft_tensor *weight = weft_ones(WEFT_F32, 3, (int64_t[]){ 1, 1, 3 }, mesh, NULL);
    return weft_conv1d(image, weight, NULL, &options);
}

/* Halos, shifted blocks, and redistributions of a local region. */
static void test_strict_without_redistributions(void **state)
{
    (void)state;
    const weft_placement last = weft_shard(2);
    weft_tensor *image = weft_ones(WEFT_F32, 3, (int64_t[]){ 1, 1, 8 }, mesh, &last), *output;
    const weft_placement by_sequence = weft_shard(1);
    weft_tensor *sequence = weft_rand(WEFT_F32, 3, (int64_t[]){ 2, 8, 4 }, mesh, &by_sequence);
    weft_counters before, after;
    assert_int_equal(weft_region_begin("strict", WEFT_REGION_STRICT), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    assert_refused(difference(rows), "difference: in the strict region \"strict\" ranks would read each other's parts of a");
    assert_refused(weft_roll(rows, 1, 0), "weft_roll: in the strict region");
    assert_refused(weft_slice(rows, 0, 2, 8, 1), "weft_slice: in the strict region");
    assert_refused(convolved(image), "parts of x, f32[1, 1, 8] [S2]");
    assert_refused(weft_attention(sequence, sequence, sequence, NULL),
                   "weft_attention: in the strict region");
    assert_int_equal(by_columns(rows, &output), WEFT_ERR_LAYOUT);
    assert_refused(output, "weft_local_map: in the strict region \"strict\" inputs[0] would be moved from f32[8, 8] [S0]");
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(before.stages, after.stages);
    assert_int_equal(before.transfers, after.transfers);
    /* What each rank has. */
    assert_non_null(difference(columns));
    assert_non_null(weft_roll(rows, 1, 1));
    assert_non_null(weft_roll(rows, 8, 0));
    assert_int_equal(by_columns(columns, &output), WEFT_OK);
    /* What is asked for. */
    assert_int_equal(weft_region_begin("halos", WEFT_REGION_ALLOW_HALOS), WEFT_OK);
    assert_non_null(difference(rows));
    assert_non_null(convolved(image));
    assert_non_null(weft_attention(sequence, sequence, sequence, NULL));
    assert_refused(weft_add(rows, columns), "in the strict region \"strict/halos\"");
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_refused(difference(rows), "difference");
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_non_null(difference(rows));
    assert_int_equal(by_columns(rows, &output), WEFT_OK);
    assert_no_error();
}

static const weft_region_counters *find(const weft_region_counters *all, int count, const char *region,
                                        const char *function)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(all[i].region, region) == 0 && strcmp(all[i].function, function) == 0) {
            return &all[i];
        }
    }
    return NULL;
}

static void test_counters(void **state)
{
    (void)state;
    weft_region_counters counts[16];
    weft_counters before, after;
    assert_int_equal(weft_region_counts(0, NULL), 0);
    weft_get_counters(&before, sizeof(before));
    weft_region_begin("step", 0);
    weft_region_begin("gather", 0);
    weft_redistribute(rows, mesh, NULL);
    weft_redistribute(rows, mesh, NULL);
    weft_region_end();
    weft_exp(rows);
    weft_region_end();
    weft_neg(rows);
    weft_get_counters(&after, sizeof(after));
    int count = weft_region_counts(16, counts);
    assert_in_range(count, 3, 16);
    const weft_region_counters *gather = find(counts, count, "step/gather", "weft_redistribute");
    const weft_region_counters *local = find(counts, count, "step", "weft_exp");
    assert_true(gather != NULL && local != NULL && find(counts, count, "", "weft_neg") != NULL);
    assert_int_equal(gather->calls, 2);
    assert_int_equal(gather->failed, 0);
    /* Each hosted rank gets the other's half, of 4 x 8 elements, twice. */
    assert_int_equal(gather->bytes, 2 * (uint64_t)weft_local_ranks() * 4 * 8 * 4);
    assert_int_equal(gather->messages, weft_num_processes() > 1 ? gather->transfers : 0);
    assert_int_equal(gather->stages, 2);
    assert_int_equal(local->bytes, 0);
    uint64_t bytes = 0, tasks = 0;
    for (int i = 0; i < count; i++) {
        bytes += counts[i].bytes;
        tasks += counts[i].tasks;
    }
    assert_int_equal(bytes, after.bytes_moved - before.bytes_moved);
    assert_int_equal(tasks, after.tasks - before.tasks);
    FILE *file = tmpfile();
    char text[4096];
    assert_int_equal(weft_print_regions(file), WEFT_OK);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "step/gather"));
    assert_non_null(strstr(text, "weft_redistribute"));
    assert_int_equal(weft_print_regions(NULL), WEFT_ERR_INVALID);
    weft_clear_error();
}

/* Standard error from now on, until what came there is read. */
typedef struct heard {
    FILE *file;
    int kept;
} heard;

static heard listen_to_stderr(void)
{
    heard h = { tmpfile(), dup(STDERR_FILENO) };
    fflush(stderr);
    dup2(fileno(h.file), STDERR_FILENO);
    return h;
}

static void read_heard(heard h, char text[], size_t size)
{
    fflush(stderr);
    dup2(h.kept, STDERR_FILENO);
    close(h.kept);
    rewind(h.file);
    text[fread(text, 1, size - 1, h.file)] = '\0';
    fclose(h.file);
}

static void test_printing(void **state)
{
    (void)state;
    char text[4096];
    heard h = listen_to_stderr();
    weft_region_begin("seen", WEFT_REGION_PRINT);
    weft_tensor *sum = weft_add(rows, columns);
    weft_region_end();
    weft_add(rows, columns);
    read_heard(h, text, sizeof(text));
    assert_non_null(sum);
    static const char start_of_line[] = "weft: seen: weft_add moves f32[8, 8]";
    int lines = 0, named = 0;
    for (const char *at = text; (at = strstr(at, " moves ")) != NULL; at++) {
        lines++;
    }
    for (const char *at = text; (at = strstr(at, start_of_line)) != NULL; at++) {
        named++;
    }
    assert_int_equal(named, lines); /* the same call outside the region prints nothing */
    assert_in_range(named, weft_process_index() == 0 ? 1 : 0, weft_process_index() == 0 ? 2 : 0);
    assert_true(named == 0 || strstr(text, "all-to-all") != NULL || strstr(text, "all-gather") != NULL);
}

/* Halos and local regions are printed, and counted for the function that the program called. */
static void test_halos_are_seen(void **state)
{
    (void)state;
    char text[4096];
    weft_tensor *output;
    heard h = listen_to_stderr();
    weft_region_begin("seen", WEFT_REGION_PRINT);
    weft_tensor *result = difference(rows);
    weft_status status = by_columns(rows, &output);
    weft_region_end();
    read_heard(h, text, sizeof(text));
    assert_non_null(result);
    assert_int_equal(status, WEFT_OK);
    if (weft_process_index() == 0) {
        assert_non_null(strstr(text, "weft: seen: difference reads across ranks f32[8, 8] [S0] on 2: halo (predicted "));
        assert_non_null(strstr(text, "weft: seen: weft_local_map moves f32[8, 8] [S0] on 2 to f32[8, 8] [S1] on 2: all-to-all"));
    } else {
        assert_string_equal(text, "");
    }
    weft_region_counters counts[16];
    int count = weft_region_counts(16, counts);
    const weft_region_counters *halo = find(counts, count, "seen", "difference");
    const weft_region_counters *local = find(counts, count, "seen", "weft_local_map");
    assert_true(halo != NULL && local != NULL);
    /* One row of 8 elements for the second rank; a quarter of the tensor for each. */
    bool has_second = weft_first_rank() + weft_local_ranks() > 1;
    assert_int_equal(halo->bytes, has_second ? 8 * 4 : 0);
    assert_int_equal(halo->transfers, has_second ? 1 : 0);
    assert_int_equal(halo->stages, 1);
    assert_int_equal(local->bytes, (uint64_t)weft_local_ranks() * 4 * 4 * 4);
    assert_int_equal(local->stages, 1);
}

static void test_arguments(void **state)
{
    (void)state;
    char longest[80];
    memset(longest, 'a', sizeof(longest));
    longest[64] = '\0';
    assert_int_equal(weft_region_end(), WEFT_ERR_STATE);
    weft_clear_error();
    assert_int_equal(weft_region_begin(NULL, 0), WEFT_ERR_INVALID);
    assert_int_equal(weft_region_begin("", 0), WEFT_ERR_INVALID);
    assert_int_equal(weft_region_begin(longest, 0), WEFT_ERR_INVALID);
    assert_int_equal(weft_region_begin("a", 8), WEFT_ERR_INVALID);
    assert_int_equal(weft_region_counts(1, NULL), -1);
    assert_int_equal(weft_print_regions(NULL), WEFT_ERR_INVALID);
    weft_clear_error();
    int depth = 0;
    longest[63] = '\0';
    while (weft_region_begin(longest, 0) == WEFT_OK) {
        depth++;
    }
    assert_in_range(depth, 7, 8);
    weft_clear_error();
    for (; depth > 0; depth--) {
        assert_int_equal(weft_region_end(), WEFT_OK);
    }
    assert_int_equal(weft_region_end(), WEFT_ERR_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_strict, start, stop),
        cmocka_unit_test_setup_teardown(test_strict_without_redistributions, start, stop),
        cmocka_unit_test_setup_teardown(test_counters, start, stop),
        cmocka_unit_test_setup_teardown(test_halos_are_seen, start, stop),
        cmocka_unit_test_setup_teardown(test_printing, start, stop),
        cmocka_unit_test_setup_teardown(test_arguments, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
