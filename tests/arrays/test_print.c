/* Tensors as text, for programs, debuggers and people. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, (const char *const[]){ "dp", "t<&p" });
    return 0;
}

/* The text that a function writes to a file. */
static const char *written(weft_status (*write)(weft_tensor *, FILE *), weft_tensor *tensor)
{
    static char text[1 << 16];
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(write(tensor, file), WEFT_OK);
    assert_no_error();
    rewind(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static weft_status draw_text(weft_tensor *tensor, FILE *file)
{
    return weft_visualize_sharding(tensor, WEFT_SHARDING_TEXT, file);
}

static weft_status draw_svg(weft_tensor *tensor, FILE *file)
{
    return weft_visualize_sharding(tensor, WEFT_SHARDING_SVG, file);
}

static weft_tensor *laid_out(int ndim, const int64_t shape[], const char *placements)
{
    weft_placement how[2];
    assert_int_equal(weft_placements_parse(placements, 2, how), WEFT_OK);
    weft_tensor *tensor = weft_empty(WEFT_F32, ndim, shape, mesh, how);
    assert_no_error();
    return tensor;
}

/* ---- contents ------------------------------------------------------------------------------------------ */

static void a9_contents(void **state)
{
    (void)state;
    const weft_placement rows[] = { weft_shard(0), weft_replicate() };
    const float values[] = { 1, 2, 3, 4, 5, 6 };
    weft_scope_begin();
    weft_tensor *x = weft_distribute(WEFT_F32, 2, (const int64_t[]){ 3, 2 }, values, mesh, rows);
    weft_tensor_set_name(x, "x");
    const char *text = written(weft_tensor_print, x);
    if (weft_process_index() == 0) {
        assert_string_equal(
            text, "weft_tensor x f32[3, 2] [S0,R] on 2x2 (dp, t<&p)\n[[1, 2],\n [3, 4],\n [5, 6]]\n");
    } else {
        assert_string_equal(text, "");
    }
    weft_scope_end();
}

/* ---- one line, for debuggers --------------------------------------------------------------------------- */

/* While tasks that need the tensor wait for the program: nothing waits, nothing is communicated, no error is
 * kept. */
static void a9_one_line_waits_for_nothing(void **state)
{
    (void)state;
    const weft_placement rows[] = { weft_shard(0), weft_replicate() };
    char text[200];
    weft_counters before, after;
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F64, 1, (const int64_t[]){ 8 }, mesh, rows);
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_non_null(weft_local_acquire(x, i, WEFT_WRITE));
    }
    weft_tensor *y = weft_redistribute(weft_add(x, x), NULL, NULL);
    weft_tensor_set_name(y, "y");
    assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
    assert_ptr_equal(weft_tensor_describe(y, text, sizeof(text)), text);
    assert_string_equal(text, "y: f64[8] [R,R] on 2x2 (dp, t<&p)");
    assert_string_equal(written(draw_text, y), "y: f64[8] [R,R] on 2x2 (dp, t<&p)\n[across]\n | :\n | 0-3\n");
    assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
    assert_memory_equal(&before, &after, sizeof(before));
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_local_release(x, i), WEFT_OK);
    }
    assert_string_equal(weft_tensor_describe(y, text, 4), "y: ");
    weft_scope_end();
    weft_tensor_describe(y, text, sizeof(text));
    assert_non_null(strstr(text, "not a live tensor"));
    assert_no_error();
}

static void *describe_elsewhere(void *tensor)
{
    static char text[200];
    return (void *)(uintptr_t)weft_tensor_describe(tensor, text, sizeof(text));
}

static void a9_one_line_in_another_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *text;
    weft_tensor *x = weft_ones(WEFT_F64, 0, NULL, mesh, NULL);
    assert_int_equal(pthread_create(&thread, NULL, describe_elsewhere, x), 0);
    assert_int_equal(pthread_join(thread, &text), 0);
    assert_non_null(strstr(text, "no tensor of this thread"));
    weft_tensor_release(x);
}

/* ---- which rank holds what ----------------------------------------------------------------------------- */

static void a9_sharding_as_text(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        int ndim;
        int64_t shape[3];
        const char *placements, *drawing;
    } rows[] = {
        { THIS_ROW, 2, { 8, 6 }, "S0,S1", "[down, across]\n    | 0:3 | 3:6\n0:4 | 0   | 1\n4:8 | 2   | 3\n" },
        { THIS_ROW, 2, { 8, 6 }, "S1,S0", "[down, across]\n    | 0:3 | 3:6\n0:4 | 0   | 2\n4:8 | 1   | 3\n" },
        { THIS_ROW, 2, { 8, 6 }, "R,S1", "[down, across]\n  | 0:3 | 3:6\n: | 0,2 | 1,3\n" },
        { THIS_ROW, 2, { 8, 6 }, "P,S1", "[down, across]\n  | 0:3   | 3:6\n: | 0 + 2 | 1 + 3\n" },
        { THIS_ROW, 2, { 8, 6 }, "R,P", "[down, across]\n  | :\n: | 0,2 + 1,3\n" },
        { THIS_ROW, 1, { 5 }, "S0,S0", "[across]\n | 0:2 | 2:3 | 3:4 | 4:5\n | 0   | 1   | 2   | 3\n" },
        { THIS_ROW, 1, { 1 }, "S0,R", "[across]\n | :\n | 0,1\nno elements: 2,3\n" },
        { THIS_ROW, 2, { 0, 3 }, "S0,R", "no elements: 0,1,2,3\n" },
        { THIS_ROW, 0, { 0 }, "R,R", "scalar\n | 0-3\n" },
        { THIS_ROW,
          3,
          { 4, 2, 4 },
          "S2,S0",
          "[down, :, across]\n    | 0:2 | 2:4\n0:2 | 0   | 2\n2:4 | 1   | 3\n" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        weft_scope_begin();
        const char *text = written(draw_text, laid_out(rows[i].ndim, rows[i].shape, rows[i].placements));
        const char *drawing = strchr(text, '\n');
        assert_non_null(drawing);
        assert_string_equal(drawing + 1, rows[i].drawing);
        weft_scope_end();
    }
    leave_rows();
}

/* Three dimensions sharded: two planes. */
static void a9_sharding_in_planes(void **state)
{
    (void)state;
    assert_int_equal(weft_finalize(), WEFT_OK);
    FAKE_WORLD(8);
    weft_mesh *cube = weft_mesh_create(3, (const int64_t[]){ 2, 2, 2 }, NULL);
    const weft_placement all[] = { weft_shard(0), weft_shard(1), weft_shard(2) };
    weft_tensor *x = weft_empty(WEFT_F32, 3, (const int64_t[]){ 2, 3, 5 }, cube, all);
    assert_string_equal(written(draw_text, x),
                        "f32[2, 3, 5] [S0,S1,S2] on 2x2x2\n"
                        "[down, across, 0:3]\n    | 0:2 | 2:3\n0:1 | 0   | 2\n1:2 | 4   | 6\n"
                        "[down, across, 3:5]\n    | 0:2 | 2:3\n0:1 | 1   | 3\n1:2 | 5   | 7\n");
    weft_tensor_release(x);
}

/* A layout alone is drawn as a tensor with data is. */
static void a9_sharding_without_data(void **state)
{
    (void)state;
    const weft_placement how[] = { weft_shard(0), weft_shard(1) };
    weft_scope_begin();
    weft_tensor *x = weft_fake(WEFT_F32, 2, (const int64_t[]){ 8, 6 }, mesh, how);
    assert_string_equal(strchr(written(draw_text, x), '\n'),
                        "\n[down, across]\n    | 0:3 | 3:6\n0:4 | 0   | 1\n4:8 | 2   | 3\n");
    weft_scope_end();
}

/* Well-formed, and one rectangle for each cell. */
static void a9_sharding_as_svg(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = laid_out(2, (const int64_t[]){ 8, 6 }, "S0,S1");
    weft_tensor_set_name(x, "a & b <c>");
    const char *text = written(draw_svg, x);
    assert_int_equal(strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39), 0);
    assert_string_equal(text + strlen(text) - 7, "</svg>\n");
    assert_non_null(strstr(text, "a &amp; b &lt;c>: f32[8, 6] [S0,S1] on 2x2 (dp, t&lt;&amp;p)</text>"));
    assert_int_equal(count_in(text, "<rect "), 4);
    assert_int_equal(count_in(text, "<text "), count_in(text, "</text>"));
    assert_int_equal(count_in(text, "<"), count_in(text, ">") - 1); /* the name's own > */
    weft_scope_end();
}

static void a9_sharding_refuses(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = laid_out(1, (const int64_t[]){ 8 }, "S0,R");
    assert_int_equal(weft_visualize_sharding(NULL, WEFT_SHARDING_TEXT, stdout), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_visualize_sharding: tensor is NULL");
    assert_int_equal(weft_visualize_sharding(x, (weft_sharding_format)7, stdout), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "format is 7");
    assert_int_equal(weft_visualize_sharding(x, WEFT_SHARDING_TEXT, NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "file is NULL");
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(weft_visualize_sharding(x, WEFT_SHARDING_SVG, full), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "writing failed");
    fclose(full);
    weft_scope_end();
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(a9_contents),         ROW(a9_one_line_waits_for_nothing), ROW(a9_one_line_in_another_thread),
        ROW(a9_sharding_as_text), ROW(a9_sharding_in_planes),         ROW(a9_sharding_as_svg),
        ROW(a9_sharding_refuses), ROW(a9_sharding_without_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
