/* features.md D6: nothing moves unseen. Strict regions, printing ones, counters by region and function. */
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
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 2;
    assert_int_equal(weft_init(&config), WEFT_OK);
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
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

/* One of them must move: refused, with its name and both layouts, and nothing is submitted. */
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
    weft_get_counters(&before);
    assert_refused(weft_add(rows, columns), "in the strict region \"forward/inner\"");
    assert_refused(weft_add(rows, columns), "would be moved from f32[8, 8]");
    assert_refused(weft_softmax(rows, 0), "forward/inner");
    assert_refused(weft_softmax(rows, 0), "weft_softmax");
    weft_get_counters(&after);
    assert_int_equal(before.tasks, after.tasks);
    assert_int_equal(before.stages, after.stages);
    /* What is asked for, and what moves nothing. */
    const weft_placement first = weft_shard(0);
    weft_tensor *moved = weft_redistribute(columns, mesh, &first);
    assert_non_null(weft_add(rows, moved));
    assert_non_null(weft_softmax(rows, 1));
    weft_tensor *whole = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 8 }, mesh, NULL);
    assert_non_null(weft_add(rows, whole));
    assert_no_error();
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_int_equal(weft_region_end(), WEFT_OK);
    assert_non_null(weft_softmax(rows, 0));
    assert_non_null(weft_add(rows, columns));
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
    weft_get_counters(&before);
    weft_region_begin("step", 0);
    weft_region_begin("gather", 0);
    weft_redistribute(rows, mesh, NULL);
    weft_redistribute(rows, mesh, NULL);
    weft_region_end();
    weft_exp(rows);
    weft_region_end();
    weft_neg(rows);
    weft_get_counters(&after);
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
}

static void test_printing(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    char text[4096];
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    weft_region_begin("seen", WEFT_REGION_PRINT);
    weft_tensor *sum = weft_add(rows, columns);
    weft_region_end();
    weft_add(rows, columns);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_non_null(sum);
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
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
        cmocka_unit_test_setup_teardown(test_counters, start, stop),
        cmocka_unit_test_setup_teardown(test_printing, start, stop),
        cmocka_unit_test_setup_teardown(test_arguments, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
