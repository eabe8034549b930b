/* weft_from_boxes() and weft_to_boxes(): random sets of boxes against dense arrays, the decompositions of MPI programs,
 * errors. `all`: 10,000 random sets. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 8, MAX_BOXES = 40 };

static int num_sets;

/* ---- random sets --------------------------------------------------------------------------------------- */

/* Boxes of all processes, the same on each; memory for this process's own. */
typedef struct box_scene {
    int ndim;
    int64_t shape[4];
    int count, owner[MAX_BOXES];
    weft_box boxes[MAX_BOXES];
    /* This process's. */
    int num_own;
    weft_subarray own[MAX_BOXES];
    void *memory[MAX_BOXES];
    int64_t strides[MAX_BOXES * 4], elements[MAX_BOXES];
    bool dense; /* row-major without gaps, and given so: without strides */
    /* Or all boxes of the process lie in one array of the whole tensor: their bytes interleave. */
    int32_t *shared;
    int64_t shared_elements;
} box_scene;

static void divide(box_scene *s, prng *random, weft_box box, int depth)
{
    int dim = s->ndim == 0 ? 0 : (int)prng_below(random, (uint64_t)s->ndim);
    if (depth == 0 || s->ndim == 0 || box.extent[dim] < 2 || prng_below(random, 5) == 0) {
        s->owner[s->count] = (int)prng_below(random, (uint64_t)weft_num_processes());
        s->boxes[s->count++] = box;
        return;
    }
    int64_t first = 1 + (int64_t)prng_below(random, (uint64_t)box.extent[dim] - 1);
    weft_box rest = box;
    rest.offset[dim] += first;
    rest.extent[dim] -= first;
    box.extent[dim] = first;
    divide(s, random, box, depth - 1);
    divide(s, random, rest, depth - 1);
}

/* A box without elements may lie anywhere. */
static void move_away_if_empty(const box_scene *s, prng *random, weft_box *box)
{
    static const int64_t far[] = { -1, 1, 1000, INT64_MAX / 2 };
    bool empty = false;
    for (int d = 0; d < s->ndim; d++) {
        empty |= box->extent[d] == 0;
    }
    for (int d = 0; d < s->ndim && empty; d++) {
        box->offset[d] += far[prng_below(random, 4)];
    }
}

/* Any boxes, overlapping or not. */
static void scatter(box_scene *s, prng *random)
{
    for (s->count = 0; s->count < 6; s->count++) {
        weft_box *box = &s->boxes[s->count];
        s->owner[s->count] = (int)prng_below(random, (uint64_t)weft_num_processes());
        for (int d = 0; d < s->ndim; d++) {
            box->offset[d] = (int64_t)prng_below(random, (uint64_t)s->shape[d] + 1);
            box->extent[d] = (int64_t)prng_below(random, (uint64_t)(s->shape[d] - box->offset[d]) + 1);
        }
        move_away_if_empty(s, random, box);
    }
}

/* Dimensions from the fastest to the slowest in a random order, with gaps. */
static int64_t random_strides(prng *random, int ndim, const weft_box *box, bool dense, int64_t strides[])
{
    int order[4] = { 0, 1, 2, 3 };
    int64_t step = 1;
    for (int i = 0; i < ndim; i++) {
        int other = i + (int)prng_below(random, (uint64_t)(ndim - i)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < ndim; i++) {
        int d = dense ? ndim - 1 - i : order[i];
        int64_t gap = dense ? 0 : (int64_t)prng_below(random, 3);
        strides[d] = step;
        step *= box->extent[d] + gap;
    }
    return step;
}

static void *fresh_memory(int64_t elements)
{
    void *memory = malloc((size_t)elements * sizeof(int32_t));
    memset(memory, 0x5a, (size_t)elements * sizeof(int32_t));
    return memory;
}

static void add_own(box_scene *s, const weft_box *box, const int64_t strides[], int64_t elements)
{
    int n = s->num_own++;
    s->own[n] = (weft_subarray){ .box = *box };
    memcpy(s->strides + (ptrdiff_t)n * s->ndim, strides, (size_t)s->ndim * sizeof(*strides));
    memcpy(s->own[n].strides, strides, s->dense ? 0 : (size_t)s->ndim * sizeof(*strides));
    int64_t first = 0, count = shape_count(s->ndim, box->extent);
    for (int d = 0; d < s->ndim && s->shared != NULL && count > 0; d++) { /* an empty box may lie anywhere */
        first += box->offset[d] * strides[d];
    }
    s->elements[n] = elements + 1;
    s->memory[n] = s->shared != NULL ? s->shared + first : fresh_memory(elements + 1);
    s->own[n].data = count == 0 ? NULL : s->memory[n];
}

/* Every process draws the same numbers. */
static void allocate(box_scene *s, prng *random, bool may_share)
{
    s->num_own = 0;
    s->dense = prng_below(random, 3) == 0;
    int64_t of_whole[4] = { 0 };
    if (!s->dense && may_share && prng_below(random, 2)) {
        weft_box whole = { .offset = { 0 } };
        memcpy(whole.extent, s->shape, (size_t)s->ndim * sizeof(int64_t));
        s->shared_elements = random_strides(random, s->ndim, &whole, false, of_whole) + 1;
        s->shared = fresh_memory(s->shared_elements);
    }
    for (int i = 0; i < s->count; i++) {
        int64_t strides[4];
        int64_t elements = random_strides(random, s->ndim, &s->boxes[i], s->dense, strides);
        if (s->owner[i] == weft_process_index()) {
            add_own(s, &s->boxes[i], s->shared != NULL ? of_whole : strides, elements);
        }
    }
}

static void free_scene(box_scene *s)
{
    for (int i = 0; i < s->num_own && s->shared == NULL; i++) {
        free(s->memory[i]);
    }
    free(s->shared);
}

static int64_t value_at(const box_scene *s, const int64_t index[])
{
    int64_t value = 0;
    for (int d = 0; d < s->ndim; d++) {
        value = value * s->shape[d] + index[d];
    }
    return value + 1;
}

/* Visits the elements of own box n: `write` sets them (i32), else compares, and returns how many are wrong. */
static int64_t visit(const box_scene *s, int n, bool write)
{
    const weft_box *box = &s->own[n].box;
    int64_t count = shape_count(s->ndim, box->extent), wrong = 0;
    for (int64_t e = 0; e < count; e++) {
        int64_t index[4], rest = e, place = 0;
        for (int d = s->ndim - 1; d >= 0; d--) {
            index[d] = box->offset[d] + rest % box->extent[d];
            place += rest % box->extent[d] * s->strides[n * s->ndim + d];
            rest /= box->extent[d];
        }
        int32_t *element = (int32_t *)s->memory[n] + place, value = (int32_t)value_at(s, index);
        wrong += !write && *element != value;
        *element = write ? value : 0x5a5a5a5a;
    }
    return wrong;
}

static bool is_untouched(const int32_t *memory, int64_t elements)
{
    bool untouched = true;
    for (int64_t i = 0; i < elements; i++) {
        untouched = untouched && memory[i] == 0x5a5a5a5a;
    }
    return untouched;
}

/* The boxes have their values, and what lies between the elements has not been written. */
static void check_memory(const box_scene *s)
{
    for (int i = 0; i < s->num_own; i++) {
        assert_int_equal(visit(s, i, false), 0);
    }
    for (int i = 0; i < s->num_own && s->shared == NULL; i++) {
        assert_true(is_untouched(s->memory[i], s->elements[i]));
    }
    assert_true(is_untouched(s->shared, s->shared_elements));
}

static bool has_numbers(const hosted_shard *found, const void *scene, char *text, size_t size)
{
    const box_scene *s = scene;
    for (int64_t i = 0; i < found->count; i++) {
        int64_t expected = shard_element(found, s->ndim, s->shape, i) + 1;
        if (((int32_t *)found->values)[i] != expected) {
            snprintf(text, size, "element %lld is %d, expected %lld", (long long)i, ((int32_t *)found->values)[i],
                     (long long)expected);
            return false;
        }
    }
    return true;
}

static void check_random_set(prng *random)
{
    box_scene in = { 0 }, out = { 0 };
    weft_mesh *mesh = random_mesh(random, MAX_RANKS);
    weft_placement placements[WEFT_MAX_DIMS];
    in.ndim = random_shape(random, 4, prng_below(random, 4) == 0 ? 20 : 6, in.shape);
    random_placements(random, mesh, in.ndim, false, placements);
    random_cut_sizes(random, mesh, in.ndim, in.shape, placements);
    out.ndim = in.ndim;
    memcpy(out.shape, in.shape, sizeof(in.shape));
    weft_box whole = { .offset = { 0 } };
    memcpy(whole.extent, in.shape, (size_t)in.ndim * sizeof(int64_t));
    divide(&in, random, whole, 5);
    bool divided = prng_below(random, 2);
    if (divided) {
        divide(&out, random, whole, 5);
    } else {
        scatter(&out, random);
    }
    allocate(&in, random, true);
    allocate(&out, random, divided);
    for (int i = 0; i < in.num_own; i++) {
        visit(&in, i, true);
    }
    weft_scope_begin();
    weft_tensor *tensor = weft_from_boxes(WEFT_I32, in.ndim, in.shape, in.num_own, in.own, mesh, placements);
    assert_no_error();
    assert_shards(tensor, has_numbers, &in, describe(mesh, placements, in.ndim, in.shape));
    assert_int_equal(weft_to_boxes(tensor, out.num_own, out.own), WEFT_OK);
    assert_no_error();
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    check_memory(&out);
    check_memory(&in); /* read, not written */
    free_scene(&in);
    free_scene(&out);
}

static void random_sets_of_boxes(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    for (size_t h = 0; h < 3; h++) {
        start_with_panels(MAX_RANKS, heights[h]);
        prng random = prng_start(100 + h);
        for (int i = 0; i < (num_sets + 2) / 3; i++) {
            check_random_set(&random);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- blocks of one array ------------------------------------------------------------------------------- */

enum { SIDE = 192 };

/* As ScaLAPACK has them: block columns dealt round robin, an array by columns in each process. Returns the tasks of so many steps,
 * which do not wait for each other. */
static uint64_t tasks_of_blocks(int blocks, int steps)
{
    enum { MOST = 32 };
    int64_t p = weft_num_processes(), mine = weft_process_index(), side = SIDE / blocks, columns = 0;
    static weft_subarray boxes[MOST * MOST];
    static double array[SIDE * SIDE];
    int num = 0;
    for (int64_t j = mine; j < blocks; j += p, columns += side) {
        for (int64_t i = 0; i < blocks; i++, num++) {
            boxes[num] = (weft_subarray){ .box = { .offset = { i * side, j * side }, .extent = { side, side } },
                                          .data = array + columns * SIDE + i * side,
                                          .strides = { 1, SIDE } };
        }
    }
    for (int64_t i = 0; i < columns * SIDE; i++) {
        array[i] = (double)i;
    }
    double factor = 1;
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    weft_placement rows = weft_shard(0);
    const int64_t shape[] = { SIDE, SIDE };
    for (int step = 0; step < steps; step++, factor *= 3) {
        weft_scope_begin();
        weft_tensor *a = weft_from_boxes(WEFT_F64, 2, shape, num, boxes, NULL, &rows);
        assert_int_equal(weft_to_boxes(weft_scale(a, 3), num, boxes), WEFT_OK);
        weft_scope_end();
    }
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int64_t i = 0; i < columns * SIDE; i++) {
        assert_true(array[i] == factor * (double)i);
    }
    return after.tasks - before.tasks;
}

/* Four times the blocks are at most some five times the tasks; and each step makes as many, also beside those that have not ended. */
static void blocks_of_one_array(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    uint64_t few = tasks_of_blocks(16, 1), many = tasks_of_blocks(32, 1), steps = tasks_of_blocks(32, 8);
    assert_no_error();
    assert_true(many <= 5 * few);
    assert_true(steps <= 8 * 5 * few);
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- as MPI programs cut ------------------------------------------------------------------------------- */

/* N / p rows, and one more for the first N % p. */
static weft_box balanced(int64_t rows, int64_t columns)
{
    int64_t p = weft_num_processes(), mine = weft_process_index();
    weft_box box = { .extent = { rows / p + (mine < rows % p), columns } };
    box.offset[0] = mine * (rows / p) + (mine < rows % p ? mine : rows % p);
    return box;
}

static double ones_of(int64_t rows, const weft_placement *placement)
{
    weft_subarray mine = { .box = balanced(rows, 1) };
    double *ones = malloc(((size_t)mine.box.extent[0] + 1) * sizeof(*ones)), sum = 0;
    mine.data = ones;
    for (int64_t i = 0; i < mine.box.extent[0]; i++) {
        ones[i] = 1;
    }
    weft_scope_begin();
    weft_tensor *a = weft_from_boxes(WEFT_F64, 1, &rows, 1, &mine, NULL, placement);
    assert_int_equal(weft_tensor_item(weft_sum(a, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
    free(ones);
    return sum;
}

/* ceil(N / p) rows for each process: the last ones begin beyond N. Its strides are those of an array without rows. */
static void rounded_rows(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    int64_t p = weft_num_processes(), first = weft_process_index(), ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    for (int64_t rows = 0; rows < 2 * p + 2; rows++) {
        int64_t each = (rows + p - 1) / p;
        double memory[200], sum;
        weft_subarray boxes[] = { { .box.offset = { first * each, 0 }, .data = memory, .strides = { 3, 1 } },
                                  { .box = { .offset = { rows + 7, -3 }, .extent = { 1000, 0 } } } };
        boxes[0].box.extent[0] = first * each >= rows ? 0 : rows - first * each < each ? rows - first * each : each;
        boxes[0].box.extent[1] = 3;
        for (int i = 0; i < 200; i++) {
            memory[i] = 1;
        }
        weft_scope_begin();
        weft_tensor *a = weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ rows, 3 }, 2, boxes, NULL, NULL);
        assert_no_error();
        assert_int_equal(weft_tensor_item(weft_sum(a, WEFT_ALL_DIMS, false), &sum), WEFT_OK);
        assert_int_equal(weft_to_boxes(weft_scale(a, 2), 2, boxes), WEFT_OK);
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_true(sum == (double)rows * 3);
        for (int i = 0; i < 200; i++) {
            assert_true(memory[i] == (i < boxes[0].box.extent[0] * 3 ? 2 : 1));
        }
    }
    weft_subarray wrong = { .box.extent = { 0, -1 } }; /* a negative extent is a mistake all the same */
    assert_null(weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ 0, 3 }, 1, &wrong, NULL, NULL));
    assert_error(WEFT_ERR_SHAPE, "boxes[0].box has offset 0 and extent -1");
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void balanced_rows(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement rows = weft_shard(0);
    static const int64_t sizes[] = { 1001, 1, 0, 5, 8, 100003 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_true(ones_of(sizes[i], &rows) == (double)sizes[i]);
        assert_true(ones_of(sizes[i], NULL) == (double)sizes[i]);
    }
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A scalar that one process after the other gives: the others' boxes, none, are those of several former calls. */
static void give_scalar(int owner, int value)
{
    bool mine = owner == weft_process_index();
    int32_t given = value, got = -1;
    const weft_subarray box = { .data = &given };
    weft_scope_begin();
    weft_tensor *a = weft_from_boxes(WEFT_I32, 0, NULL, mine, mine ? &box : NULL, NULL, NULL);
    assert_int_equal(weft_to_host(a, &got, sizeof(got)), WEFT_OK);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK); /* until then the box's memory stays */
    assert_int_equal(got, value);
}

static void boxes_that_change_elsewhere(void **state)
{
    (void)state;
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    prng random = prng_start(7);
    int processes = weft_num_processes();
    for (int i = 0; i < 30; i++) {
        give_scalar(i < processes ? i : (int)prng_below(&random, (uint64_t)processes), i);
    }
    weft_fixed_boxes_begin();
    for (int i = 0; i < 30; i++) {
        give_scalar((int)prng_below(&random, (uint64_t)processes), i);
    }
    weft_fixed_boxes_end();
    weft_mesh_pop();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* A Jacobi step on a column-major array with ghost layers: several boxes of one array are written back into it. */
static void ghost_layers_and_columns_first(void **state)
{
    (void)state;
    enum { N = 37 };
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement columns = weft_shard(1);
    weft_box mine = balanced(N, N);
    int64_t height = mine.extent[0] + 2; /* a ghost row above and below */
    double *array = malloc((size_t)height * N * sizeof(*array));
    weft_subarray halves[2] = { { .box = mine, .data = array + 1, .strides = { 1, height } },
                                { .box = mine, .data = array + 1 + 20 * height, .strides = { 1, height } } };
    halves[0].box.extent[1] = 20;
    halves[1].box.offset[1] = 20;
    halves[1].box.extent[1] = N - 20;
    for (int64_t i = 0; i < height * N; i++) {
        int64_t row = i % height - 1, column = i / height;
        array[i] = row < 0 || row >= mine.extent[0] ? -7 : (double)((mine.offset[0] + row) * N + column);
    }
    for (int step = 0; step < 5; step++) {
        weft_scope_begin();
        weft_tensor *a = weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ N, N }, 2, halves, NULL, &columns);
        assert_int_equal(weft_to_boxes(weft_add_scalar(weft_scale(a, 2), 1), 2, halves), WEFT_OK);
        weft_scope_end();
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_no_error();
    for (int64_t i = 0; i < height * N; i++) {
        int64_t row = i % height - 1, column = i / height;
        double first = (double)((mine.offset[0] + row) * N + column);
        assert_true(array[i] == (row < 0 || row >= mine.extent[0] ? -7 : first * 32 + 31));
    }
    free(array);
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The first step exchanges boxes; the others data alone. Their memory may change. */
static void boxes_are_exchanged_once(void **state)
{
    (void)state;
    enum { N = 64 };
    start_with_panels(MAX_RANKS, NULL);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_placement rows = weft_shard(0);
    weft_box mine = balanced(N + 1, N);
    double *memory = calloc((size_t)(N + 1) * N * 2, sizeof(*memory));
    weft_counters steps[4];
    weft_get_counters(&steps[0], sizeof(steps[0]));
    weft_fixed_boxes_begin();
    for (int step = 0; step < 3; step++) {
        weft_scope_begin();
        const weft_subarray here = { .box = mine, .data = memory + step % 2 * N * (N + 1) };
        assert_non_null(weft_from_boxes(WEFT_F64, 2, (const int64_t[]){ N + 1, N }, 1, &here, NULL, &rows));
        weft_scope_end();
        weft_get_counters(&steps[step + 1], sizeof(steps[step + 1]));
    }
    int64_t data = (int64_t)(steps[3].bytes_moved - steps[2].bytes_moved);
    assert_int_equal(steps[2].bytes_moved - steps[1].bytes_moved, data);
    assert_int_equal(steps[3].messages - steps[2].messages, steps[2].messages - steps[1].messages);
    assert_true(data <= (N + 1) * N * (int64_t)sizeof(double));
    if (weft_num_processes() > 1) {
        assert_true((int64_t)(steps[1].bytes_moved - steps[0].bytes_moved) > data);
    }
    assert_int_equal(weft_fixed_boxes_end(), WEFT_OK);
    assert_int_equal(weft_fixed_boxes_end(), WEFT_ERR_STATE);
    weft_clear_error();
    weft_wait();
    free(memory);
    weft_mesh_pop();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    num_sets = cases_to_run(3000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sets_of_boxes),
        cmocka_unit_test(blocks_of_one_array),
        cmocka_unit_test(balanced_rows),
        cmocka_unit_test(rounded_rows),
        cmocka_unit_test(boxes_that_change_elsewhere),
        cmocka_unit_test(ghost_layers_and_columns_first),
        cmocka_unit_test(boxes_are_exchanged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
