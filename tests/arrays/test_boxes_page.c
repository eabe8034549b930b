/* Boxes: errors of every kind on all processes, other calls around them, and the code of docs/tensors.md.
 *
 * Arguments: docs/tensors.md, this file. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 101, COLUMNS = 7, MAX_RANKS = 8 };

static const char *page, *source;

static weft_placement rows_placement;

static int start(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    rows_placement = weft_shard(0);
    return 0;
}

static void scale_rows(double *rows, int64_t first, int64_t count, int steps)
{
    weft_subarray mine = { .box = { .offset = { first, 0 }, .extent = { count, COLUMNS } }, .data = rows };
    const int64_t shape[] = { ROWS, COLUMNS };
    weft_placement by_rows = weft_shard(0);
    weft_fixed_boxes_begin();
    for (int step = 0; step < steps; step++) {
        weft_scope_begin();
        weft_tensor *a = weft_from_boxes(WEFT_F64, 2, shape, 1, &mine, NULL, &by_rows);
        weft_to_boxes(weft_scale(a, 2), 1, &mine);
        weft_scope_end();
    }
    weft_fixed_boxes_end();
    weft_wait();
}

static void mine(int64_t *first, int64_t *count)
{
    int64_t p = weft_num_processes(), i = weft_process_index();
    *count = ROWS / p + (i < ROWS % p);
    *first = i * (ROWS / p) + (i < ROWS % p ? i : ROWS % p);
}

static void code_of_the_page(void **state)
{
    (void)state;
    int64_t first, count;
    mine(&first, &count);
    double memory[ROWS * COLUMNS];
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        memory[i] = (double)(first * COLUMNS + i);
    }
    scale_rows(memory, first, count, 4);
    assert_no_error();
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        assert_true(memory[i] == (double)(16 * (first * COLUMNS + i)));
    }
    static char text[1 << 16], code[1 << 16];
    FILE *files[] = { fopen(page, "r"), fopen(source, "r") };
    assert_true(files[0] != NULL && files[1] != NULL);
    text[fread(text, 1, sizeof(text) - 1, files[0])] = '\0';
    code[fread(code, 1, sizeof(code) - 1, files[1])] = '\0';
    fclose(files[0]);
    fclose(files[1]);
    char *block = strstr(text, "```c\n"), *end = block == NULL ? NULL : strstr(block, "\n```\n");
    assert_non_null(end);
    end[1] = '\0';
    assert_non_null(strstr(code, block + strlen("```c\n")));
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static double memory[ROWS * COLUMNS];

/* This process's rows as a box, changed by the caller; the status on every process. */
static void expect(weft_status status, const char *text, const weft_box *box, void *data, const int64_t strides[])
{
    weft_subarray given = { .box = *box, .data = data };
    if (strides != NULL) {
        memcpy(given.strides, strides, 2 * sizeof(*strides));
    }
    assert_null(weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ ROWS, COLUMNS }, 1, &given, NULL, &rows_placement));
    assert_int_equal(weft_last_status(), status);
    if (text != NULL && strstr(weft_last_error(), text) == NULL) {
        fail_msg("%s lacks %s", weft_last_error(), text);
    }
    weft_clear_error();
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void errors_on_all_processes(void **state)
{
    (void)state;
    int last = weft_num_processes() - 1;
    bool wrong = weft_process_index() == last;
    int64_t first, count;
    mine(&first, &count);
    const weft_box right = { .offset = { first, 0 }, .extent = { count, COLUMNS } };
    const int64_t strides[] = { COLUMNS, 1 }, same[] = { 1, 1 }, negative[] = { -COLUMNS, 1 };
    weft_box box = right;
    char text[100];
    for (int round = 0; round < 2; round++) { /* also where the right boxes are kept */
        box = right;
        box.extent[0] -= wrong;
        snprintf(text, sizeof(text), "[%d:%d, 0:%d] is in no box; beside it box 0 of process %d", ROWS - 1, ROWS, COLUMNS,
                 last);
        expect(WEFT_ERR_SHAPE, text, &box, memory, NULL);
        box = right;
        if (weft_num_processes() > 1 && wrong) {
            box.offset[0]--;
            box.extent[0]++;
        }
        if (weft_num_processes() > 1) {
            snprintf(text, sizeof(text), "is in two boxes: box 0 of process %d", last - 1);
            expect(WEFT_ERR_SHAPE, text, &box, memory, NULL);
            assert_int_equal(weft_last_status(), WEFT_OK);
        }
        box = right;
        box.extent[1] += wrong;
        expect(WEFT_ERR_SHAPE, wrong ? "boxes[0].box has offset 0 and extent 8 in dimension 1" : "gave wrong arguments", &box,
               memory, NULL);
        box = right;
        box.offset[0] = wrong ? -1 : first;
        expect(WEFT_ERR_SHAPE, wrong ? "boxes[0]" : "gave wrong arguments", &box, memory, NULL);
        expect(WEFT_ERR_INVALID, wrong ? "boxes[0].data is NULL" : "gave wrong arguments", &right, wrong ? NULL : memory, NULL);
        expect(WEFT_ERR_INVALID, wrong ? "boxes[0].data is not aligned" : "gave wrong arguments", &right,
               (char *)memory + (wrong ? 4 : 0), NULL);
        expect(WEFT_ERR_INVALID, wrong ? "boxes[0].strides[1] is 1" : "gave wrong arguments", &right, memory,
               wrong ? same : strides);
        expect(WEFT_ERR_INVALID, wrong ? "boxes[0].strides[0] is -7" : "gave wrong arguments", &right, memory,
               wrong ? negative : strides);
        weft_scope_begin();
        weft_subarray given = { .box = right, .data = memory, .strides = { COLUMNS, 1 } };
        weft_tensor *a = weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ ROWS, COLUMNS }, 1, &given, NULL, &rows_placement);
        assert_no_error();
        given = (weft_subarray){ .box = right, .data = wrong ? NULL : memory };
        assert_int_equal(weft_to_boxes(a, 1, &given), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, wrong ? "weft_to_boxes: boxes[0].data is NULL" : "gave wrong arguments");
        assert_int_equal(weft_to_boxes(a, wrong ? -1 : 0, NULL), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, wrong ? "num_boxes is negative" : "gave wrong arguments");
        weft_scope_end();
    }
    /* Another shape on one process. */
    const int64_t shape[] = { ROWS + wrong, COLUMNS };
    const weft_subarray given = { .box = right, .data = memory };
    assert_null(weft_from_boxes(WEFT_F64, 2, shape, 1, &given, NULL, &rows_placement));
    if (weft_num_processes() > 1) {
        assert_error(WEFT_ERR_MISMATCH, "gave other arguments");
    } else {
        assert_error(WEFT_ERR_SHAPE, "is in no box");
    }
    const weft_placement partial = weft_partial(WEFT_SUM);
    assert_null(weft_from_boxes(WEFT_F64, 2, shape, 1, &given, NULL, &partial));
    assert_error(WEFT_ERR_LAYOUT, "Partial");
}

static void sizes_that_the_caller_believes_in(void **state)
{
    (void)state;
    const int64_t shape[] = { ROWS, COLUMNS };
    int64_t believed[2 * MAX_RANKS], offset[2], extent[2], ranks = weft_world_size(), hosted = weft_local_ranks();
    void *pointers[MAX_RANKS];
    assert_true(hosted <= MAX_RANKS);
    for (int64_t i = 0; i < hosted; i++) { /* each process hosts as many */
        int64_t rank = weft_process_index() * hosted + i;
        believed[2 * i] = ROWS / ranks + (rank < ROWS % ranks);
        believed[2 * i + 1] = COLUMNS;
        pointers[i] = memory;
    }
    bool same = true;
    for (int rank = 0; rank < ranks; rank++) {
        weft_shard_box(NULL, &rows_placement, 2, shape, rank, offset, extent);
        same = same && extent[0] == ROWS / ranks + (rank < ROWS % ranks);
    }
    const weft_from_local_options options = { .shape = shape, .local_shapes = believed };
    weft_tensor *a = weft_from_local_ex(WEFT_F64, 2, pointers, NULL, &rows_placement, &options);
    assert_true((a != NULL) == same);
    if (!same) {
        assert_error(WEFT_ERR_SHAPE, "");
    }
    weft_wait();
}

/* ---- around -------------------------------------------------------------------------------------------- */

static weft_status captured(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    outputs[0] = weft_scale(inputs[0], 2);
    return weft_to_boxes(outputs[0], 1, context);
}

static void partial_gradients_graphs(void **state)
{
    (void)state;
    int64_t first, count;
    mine(&first, &count);
    static double result[ROWS * COLUMNS], sums[COLUMNS];
    const weft_subarray rows = { .box = { .offset = { first, 0 }, .extent = { count, COLUMNS } }, .data = memory };
    const weft_subarray of_result = { .box = rows.box, .data = result }, all = { .box.extent = { COLUMNS }, .data = sums };
    const int64_t shape[] = { ROWS, COLUMNS };
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        memory[i] = (double)(first * COLUMNS + i);
    }
    weft_scope_begin();
    weft_tensor *a = weft_from_boxes(WEFT_F64, 2, shape, 1, &rows, NULL, &rows_placement);
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    weft_tensor *sum = weft_sum(a, 0, false); /* addends */
    assert_int_equal(weft_to_boxes(sum, 1, &all), WEFT_OK);
    assert_int_equal(weft_backward(weft_sum(weft_mul(a, a), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_int_equal(weft_to_boxes(weft_grad(a), 1, &of_result), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        assert_true(result[i] == 2 * memory[i]);
    }
    for (int64_t c = 0; c < COLUMNS; c++) {
        assert_true(sums[c] == (double)(ROWS * (ROWS - 1) / 2 * COLUMNS + ROWS * c));
    }
    weft_graph *graph = weft_graph_create("writes", captured, (void *)&rows, 1, 0, 1);
    weft_tensor *input = weft_ones(WEFT_F64, 2, shape, NULL, &rows_placement), *output;
    assert_int_equal(weft_graph_call(graph, &input, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "a captured graph has no boxes");
    weft_graph_destroy(graph);
    weft_scope_end();
    weft_clear_error();
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void fake_world(void **state)
{
    (void)state;
    if (weft_num_processes() > 1) {
        return;
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    FAKE_WORLD(4);
    weft_mesh_push(weft_mesh_create(1, (const int64_t[]){ 4 }, NULL));
    const weft_subarray box = { .box.extent = { 2, COLUMNS }, .data = memory };
    const int64_t shape[] = { ROWS, COLUMNS };
    weft_tensor *a = weft_from_boxes(WEFT_F64, 2, shape, 1, &box, NULL, &rows_placement);
    assert_non_null(a);
    assert_int_equal(weft_to_boxes(a, 1, &box), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_to_boxes");
    weft_tensor_release(a);
}

int main(int argc, char *argv[])
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s docs/tensors.md test_boxes_page.c\n", argv[0]);
        return 2;
    }
    page = argv[1];
    source = argv[2];
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(code_of_the_page),
        ROW(errors_on_all_processes),
        ROW(sizes_that_the_caller_believes_in),
        ROW(partial_gradients_graphs),
        ROW(fake_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
