/* weft_reshape() between all pairs of shapes with equally many elements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"
#include "dispatch/dispatch.h"
#include "operand.h"

enum { MAX_DIMS = 5, MAX_SHAPES = 800 };

/* All shapes of up to MAX_DIMS dimensions, none of size 1, with a number of elements. */
typedef struct shapes {
    int count;
    int ndim[MAX_SHAPES];
    int64_t shape[MAX_SHAPES][MAX_DIMS];
} shapes;

static void list_from(shapes *s, int ndim, int64_t shape[], int64_t left)
{
    if (left == 1) {
        assert_true(s->count < MAX_SHAPES);
        memcpy(s->shape[s->count], shape, (size_t)ndim * sizeof(shape[0]));
        s->ndim[s->count++] = ndim;
        return;
    }
    for (int64_t size = 2; size <= left && ndim < MAX_DIMS; size++) {
        if (left % size == 0) {
            shape[ndim] = size;
            list_from(s, ndim + 1, shape, left / size);
        }
    }
}

static void list_shapes(shapes *s, int64_t count)
{
    int64_t shape[MAX_DIMS];
    s->count = 0;
    list_from(s, 0, shape, count);
}

static void start_fake_world(int ranks)
{
    FAKE_WORLD(ranks);
}

/* "[2,3]" */
static const char *shape_text(int ndim, const int64_t shape[], char text[100])
{
    int used = snprintf(text, 100, "[");
    for (int d = 0; d < ndim; d++) {
        used += snprintf(text + used, 100 - (size_t)used, "%s%d", d > 0 ? "," : "", (int)shape[d]);
    }
    snprintf(text + used, 100 - (size_t)used, "]");
    return text;
}

static void check_shape(weft_tensor *a, weft_tensor *result, int ndim, const int64_t shape[])
{
    bool same = result != NULL && weft_tensor_ndim(result) == ndim;
    for (int d = 0; same && d < ndim; d++) {
        same = weft_tensor_size(result, d) == shape[d];
    }
    if (!same) {
        int64_t own[WEFT_MAX_DIMS];
        char from[100], to[100];
        for (int d = 0; d < weft_tensor_ndim(a); d++) {
            own[d] = weft_tensor_size(a, d);
        }
        fail_msg("%s to %s: %s", shape_text(weft_tensor_ndim(a), own, from), shape_text(ndim, shape, to),
                 result == NULL ? weft_last_error() : "another shape");
    }
}

/* All pairs of shapes, on one rank, and some sharded over several. */
static void test_all_pairs(void **state)
{
    (void)state;
    enum { MAX_ELEMENTS = 240 };
    static shapes s;
    for (int ranks = 1, every = test_share(); ranks <= 4; ranks += 3, every *= 5) {
        start_fake_world(ranks);
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ ranks }, NULL);
        weft_placement first = weft_shard(0), whole = weft_replicate();
        int pairs = 0;
        for (int64_t count = 1; count <= MAX_ELEMENTS; count++) {
            list_shapes(&s, count);
            for (int from = 0; from < s.count; from++) {
                weft_scope_begin();
                weft_tensor *a = weft_empty(WEFT_F32, s.ndim[from], s.shape[from], mesh,
                                            s.ndim[from] > 0 ? &first : &whole);
                for (int to = 0; to < s.count; to++) {
                    if (pairs++ % every == 0) {
                        check_shape(a, weft_reshape(a, s.ndim[to], s.shape[to]), s.ndim[to], s.shape[to]);
                    }
                }
                weft_scope_end();
            }
        }
        print_message("%d pairs of shapes, one in %d\n", pairs, every);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* ---- random shapes of as many dimensions as there may be ----------------------------------------------- */

/* Deals the primes out to some dimensions, in their order; the others have size 1, or, of tensors without
 * elements, one has size 0. */
static int dealt_shape(int num_primes, const int64_t primes[], bool empty, int64_t shape[])
{
    int ndim = 1 + (int)below(WEFT_MAX_DIMS);
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1;
    }
    for (int i = 0, d = 0; i < num_primes; i++) {
        d += d < ndim - 1 ? (int)below(ndim - d < 3 ? ndim - d : 3) : 0;
        shape[d] *= primes[i];
    }
    if (empty) {
        shape[below(ndim)] = 0;
    }
    return ndim;
}

static void shuffle(int n, int64_t numbers[])
{
    for (int i = n - 1; i > 0; i--) {
        int64_t other = below(i + 1), number = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = number;
    }
}

/* Two random shapes of as many elements, whose factors mingle. */
static void dealt_pair(int max_primes, int *ndim, int64_t shape[], int *new_ndim, int64_t new_shape[])
{
    static const int64_t first[] = { 2, 2, 2, 3, 3, 5 };
    int64_t primes[20];
    int num_primes = (int)below(max_primes + 1);
    for (int i = 0; i < num_primes; i++) {
        primes[i] = first[below(6)];
    }
    bool empty = below(12) == 0;
    *ndim = dealt_shape(num_primes, primes, empty, shape);
    if (below(3) > 0) {
        shuffle(num_primes, primes);
    }
    *new_ndim = dealt_shape(num_primes, primes, empty, new_shape);
}

static void test_random_pairs(void **state)
{
    (void)state;
    start_fake_world(6);
    source = prng_start(11);
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, NULL);
    for (int i = 0; i < share_of(40000); i++) {
        int64_t shape[WEFT_MAX_DIMS], new_shape[WEFT_MAX_DIMS];
        int ndim, new_ndim;
        dealt_pair(20, &ndim, shape, &new_ndim, new_shape);
        weft_placement placements[2];
        random_placements(&source, mesh, ndim, true, placements);
        weft_scope_begin();
        weft_tensor *a = weft_empty(WEFT_F32, ndim, shape, mesh, placements);
        check_shape(a, weft_reshape(a, new_ndim, new_shape), new_ndim, new_shape);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- with values --------------------------------------------------------------------------------------- */

static void check_values(int ndim, const int64_t shape[], int new_ndim, const int64_t new_shape[])
{
    weft_scope_begin();
    operand a = make_operand(any_mesh(), WEFT_I64, ndim, shape, INDEX, 1 << 30);
    check(weft_reshape(a.tensor, new_ndim, new_shape), WEFT_I64, new_ndim, new_shape, a.dense, 0, 0,
          describe_operand(&a));
    release(&a);
    weft_scope_end();
}

/* Pairs that failed when sizes were given in another order than the rule's. */
static void test_known_pairs(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        int ndim, new_ndim;
        int64_t shape[4], new_shape[4];
    } pairs[] = {
        { THIS_ROW, 3, 4, { 6, 2, 6 }, { 4, 3, 3, 2 } },
        { THIS_ROW, 4, 4, { 4, 3, 6, 2 }, { 6, 2, 4, 3 } },
        { THIS_ROW, 3, 4, { 2, 6, 8 }, { 3, 4, 2, 4 } },
        { THIS_ROW, 4, 4, { 4, 3, 3, 6 }, { 6, 6, 2, 3 } },
    };
    source = prng_start(12);
    start_world("WEFT_PANEL_ROWS", "2");
    for (int i = 0; i < 40; i++) {
        for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
            enter_row(pairs[p].place, __func__);
            check_values(pairs[p].ndim, pairs[p].shape, pairs[p].new_ndim, pairs[p].new_shape);
        }
        leave_rows();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_values(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    static shapes s;
    source = prng_start(13);
    for (size_t h = 0; h < sizeof(heights) / sizeof(heights[0]); h++) {
        start_world(heights[h] == NULL ? NULL : "WEFT_PANEL_ROWS", heights[h]);
        for (int i = 0; i < share_of(600); i++) {
            list_shapes(&s, below(3) > 0 ? 24 * (1 + below(12)) : 1 + below(200));
            int from = (int)below(s.count), to = (int)below(s.count);
            check_values(s.ndim[from], s.shape[from], s.ndim[to], s.shape[to]);
            int64_t shape[WEFT_MAX_DIMS], new_shape[WEFT_MAX_DIMS];
            int ndim, new_ndim;
            dealt_pair(6, &ndim, shape, &new_ndim, new_shape);
            check_values(ndim, shape, new_ndim, new_shape);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* ---- cuts in several runs ------------------------------------------------------------------------------ */

static uint64_t bytes_moved(void)
{
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.bytes_moved;
}

static void expect_indices(weft_tensor *t, int64_t count, const char *what)
{
    int64_t *found = malloc(((size_t)count + 1) * sizeof(*found));
    assert_int_equal(weft_to_host(t, found, (size_t)count * sizeof(*found)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        if (found[i] != i) {
            fail_msg("%s: element %d is %d", what, (int)i, (int)found[i]);
        }
    }
    free(found);
}

/* Random shapes in cyclic, zigzag and periodic cuts. A reshape without a move can be undone without one. */
static void test_any_cut(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    int64_t *indices = malloc((5 * 5 * 5 * 5 * 5 * 5 + 1) * sizeof(*indices));
    int kept = 0;
    for (int64_t i = 0; i <= 5 * 5 * 5 * 5 * 5 * 5; i++) {
        indices[i] = i;
    }
    source = prng_start(14);
    for (size_t h = 0; h < sizeof(heights) / sizeof(heights[0]); h++) {
        start_world(heights[h] == NULL ? NULL : "WEFT_PANEL_ROWS", heights[h]);
        for (int i = 0; i < share_of(800); i++) {
            int64_t shape[WEFT_MAX_DIMS], new_shape[WEFT_MAX_DIMS];
            int ndim, new_ndim;
            dealt_pair(6, &ndim, shape, &new_ndim, new_shape);
            weft_scope_begin();
            weft_mesh *mesh = any_mesh();
            weft_placement placements[WEFT_MAX_DIMS];
            for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
                int dim = (int)below(ndim);
                int64_t kind = below(4);
                placements[m] = kind == 0   ? weft_replicate()
                                : kind == 1 ? weft_shard(dim)
                                            : cut_in_runs(&source, dim, weft_mesh_size(mesh, m));
            }
            draw_levels(&source, weft_mesh_ndim(mesh), placements);
            int64_t count = shape_count(ndim, shape);
            weft_tensor *a = weft_distribute(WEFT_I64, ndim, shape, indices, mesh, placements);
            const char *what = describe(mesh, placements, ndim, shape);
            assert_non_null(a);
            uint64_t before = bytes_moved();
            weft_tensor *b = weft_reshape(a, new_ndim, new_shape);
            uint64_t between = bytes_moved();
            check_shape(a, b, new_ndim, new_shape);
            weft_tensor *back = weft_reshape(b, ndim, shape);
            /* Several mesh dimensions may say one owner in several ways. */
            if (between == before && bytes_moved() != between && weft_mesh_ndim(mesh) == 1) {
                fail_msg("%s: %s moves, and %s came without a move", what, describe(mesh, weft_tensor_placements(b), new_ndim, new_shape),
                         describe(mesh, weft_tensor_placements(a), ndim, shape));
            }
            kept += between == before;
            expect_indices(b, count, what);
            expect_indices(back, count, what);
            weft_scope_end();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    print_message("%d shapes came to another one without a move\n", kept);
    free(indices);
}

/* One block for each part of a dimension that another mesh dimension has cut is several ones of the whole dimension; sizes that
 * repeat are not sizes of a dimension that is as long as their period. */
static void test_cuts_of_other_rows(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *given;
        int ndim, new_ndim;
        int64_t shape[2], new_shape[2];
    } rows[] = {
        { THIS_ROW, "S1%4@1,S1*1%2", 2, 1, { 4, 5 }, { 20 } },
        { THIS_ROW, "S1%4@1,S1%2", 2, 1, { 5, 5 }, { 25 } },
        { THIS_ROW, "S1*2%4@1,S1z%4", 2, 1, { 3, 7 }, { 21 } },
        { THIS_ROW, "S1*3%4@1,S1*1%5", 2, 1, { 3, 7 }, { 21 } },
        { THIS_ROW, "S1*2%6@1,S1*2%4", 2, 1, { 3, 6 }, { 18 } },
        { THIS_ROW, "S1%4@1,S1z%12", 2, 1, { 4, 6 }, { 24 } },
        { THIS_ROW, "S1*4@1,S1=%4", 2, 1, { 13, 13 }, { 169 } },
        { THIS_ROW, "S0*16%28,S0{0,8,8}%16@1", 1, 2, { 32 }, { 8, 4 } },
        { THIS_ROW, "S0%7,S0{0,2,2}%4@1", 2, 1, { 8, 4 }, { 32 } },
    };
    int64_t indices[169];
    for (int i = 0; i < 169; i++) {
        indices[i] = i;
    }
    WORLD(6);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 3 }, NULL);
        weft_placement placements[2];
        int64_t count = shape_count(rows[i].ndim, rows[i].shape);
        assert_int_equal(weft_placements_parse(rows[i].given, 2, placements), WEFT_OK);
        weft_tensor *a = weft_distribute(WEFT_I64, rows[i].ndim, rows[i].shape, indices, mesh, placements);
        weft_tensor *b = weft_reshape(a, rows[i].new_ndim, rows[i].new_shape);
        expect_indices(b, count, rows[i].given);
        expect_indices(weft_reshape(b, rows[i].ndim, rows[i].shape), count, rows[i].given);
        weft_scope_end();
    }
    leave_rows();
    world_stop(NULL);
}

/* A batch of sequences whose rows are cut along the sequence, by two mesh dimensions, or along both. */
static void test_flatten_keeps_the_cut(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *given, *flat;
        int64_t mesh[2], shape[3];
    } rows[] = {
        { THIS_ROW, "R,S1", "R,S0*5", { 1, 2 }, { 3, 10, 4 } },
        { THIS_ROW, "R,S1", "R,S0%10", { 1, 4 }, { 3, 10, 4 } },
        { THIS_ROW, "S0,S1", "S0,S0%10", { 2, 3 }, { 4, 10, 4 } },
        { THIS_ROW, "S1,S0", "S0%10@1,S0", { 3, 2 }, { 4, 10, 4 } },
        { THIS_ROW, "S0,S1", "S0*20,S0%10", { 2, 3 }, { 3, 10, 4 } },
        { THIS_ROW, "S1,S1", "S0*6,S0*3", { 2, 2 }, { 3, 12, 4 } },
        { THIS_ROW, "S1z,S0", "S0z%16@1,S0", { 2, 2 }, { 4, 16, 4 } },
        { THIS_ROW, "S1=,S2", "S0=%10,S1", { 3, 2 }, { 3, 10, 4 } },
        { THIS_ROW, "S1{3,7},R", "S0{3,7}%10,R", { 2, 2 }, { 3, 10, 4 } },
        { THIS_ROW, "S1*2,R", "S0*2%10,R", { 2, 2 }, { 3, 10, 4 } },
        { THIS_ROW, "S0{1,2},R", "S0{10,20},R", { 2, 2 }, { 3, 10, 4 } },
        { THIS_ROW, "S0,R", "S0,R", { 2, 2 }, { 4, 10, 4 } },
    };
    WORLD(6);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(2, rows[i].mesh, NULL);
        weft_placement placements[2];
        char text[80], expected[80];
        assert_int_equal(weft_placements_parse(rows[i].given, 2, placements), WEFT_OK);
        weft_tensor *a = weft_zeros(WEFT_F32, 3, rows[i].shape, mesh, placements);
        uint64_t before = bytes_moved();
        weft_tensor *flat = weft_flatten(a, 0, 1);
        weft_tensor *back = weft_unflatten(flat, 0, 2, rows[i].shape);
        assert_true(bytes_moved() == before);
        weft_placement wanted[2];
        assert_int_equal(weft_placements_parse(rows[i].flat, 2, wanted), WEFT_OK);
        weft_placements_format(wanted, 2, expected, sizeof(expected));
        weft_placements_format(weft_tensor_placements(flat), 2, text, sizeof(text));
        assert_string_equal(text, expected);
        weft_placements_format(weft_tensor_placements(a), 2, expected, sizeof(expected));
        weft_placements_format(weft_tensor_placements(back), 2, text, sizeof(text));
        assert_string_equal(text, expected);
        weft_scope_end();
    }
    leave_rows();
    world_stop(NULL);
}

/* A batch of sequences cut along the sequence: its cross-entropy by rows, forwards and backwards. */
static void test_flattened_losses_move_nothing(void **state)
{
    (void)state;
    static const char *const cuts[] = { "R", "S1", "S1z", "S1=" };
    double expected[3 * 10 * 4], found[3 * 10 * 4], loss[4];
    WORLD(4);
    for (int c = 0; c < 4; c++) {
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
        weft_placement cut;
        assert_int_equal(weft_placements_parse(cuts[c], 1, &cut), WEFT_OK);
        assert_int_equal(weft_random_state_set(NULL, (weft_random_state){ 7, 3 }), WEFT_OK);
        weft_tensor *logits = weft_randn(WEFT_F64 | WEFT_WITH_GRAD, 3, (const int64_t[]){ 3, 10, 4 }, mesh, &cut);
        weft_tensor *targets = weft_randint(WEFT_I64, 0, 4, 2, (const int64_t[]){ 3, 10 }, mesh, &cut);
        uint64_t before = bytes_moved();
        weft_tensor *result = weft_cross_entropy(weft_flatten(logits, 0, 1), weft_flatten(targets, 0, 1), NULL);
        assert_int_equal(weft_backward(result, NULL), WEFT_OK);
        assert_true(bytes_moved() == before);
        assert_int_equal(weft_to_host(result, &loss[c], sizeof(double)), WEFT_OK);
        assert_int_equal(weft_to_host(weft_grad(logits), c == 0 ? expected : found, sizeof(found)), WEFT_OK);
        assert_true(fabs(loss[c] - loss[0]) < 1e-12);
        for (int i = 0; i < 3 * 10 * 4 && c > 0; i++) {
            assert_true(fabs(found[i] - expected[i]) < 1e-12);
        }
        weft_scope_end();
    }
    world_stop(NULL);
}

/* ---- what would be a mistake of the library ------------------------------------------------------------- */

static void write_transposing_rule(const weft_call_layouts *call, char *text, size_t size)
{
    (void)call;
    snprintf(text, size, "ab->ba");
}

/* A rule that gives another shape than was asked for is found before there is a tensor. */
static void test_wrong_rule(void **state)
{
    (void)state;
    static const weft_operation operation = { .name = "wrong",
                                              .write_rule = write_transposing_rule,
                                              .numbers_are_shape = true,
                                              .inputs = { { "a", WEFT_TYPES_ALL, false } } };
    start_fake_world(1);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    weft_tensor *a = weft_empty(WEFT_F32, 2, (int64_t[]){ 2, 3 }, mesh, NULL);
    weft_call call = { .function = "weft_wrong",
                       .operation = &operation,
                       .num_inputs = 1,
                       .inputs = { a },
                       .attributes = { .num_numbers = 2, .numbers = { 2, 3 } } };
    assert_null(weft_dispatch(&call));
    assert_error(WEFT_ERR_INTERNAL, "weft_wrong: a mistake in weft");
    call.attributes.numbers[0] = 3, call.attributes.numbers[1] = 2;
    assert_non_null(weft_dispatch(&call));
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_pairs),  cmocka_unit_test(test_all_pairs),
        cmocka_unit_test(test_random_pairs), cmocka_unit_test(test_values),
        cmocka_unit_test(test_any_cut),      cmocka_unit_test(test_cuts_of_other_rows), cmocka_unit_test(test_flatten_keeps_the_cut),
        cmocka_unit_test(test_flattened_losses_move_nothing), cmocka_unit_test(test_wrong_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
