/* Operations on tensors of several meshes, on ranks outside a mesh,
 * and into tensors that exist. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"

enum { RANKS = 4, N = 6 };

static const int64_t square[] = { N, N }, line_shape[] = { N };
static const weft_placement rows[] = { { WEFT_SHARD, 0, WEFT_SUM } };

static int start(void **state)
{
    (void)state;
    setenv("WEFT_SILENT", "1", 1);
    WORLD(RANKS);
    unsetenv("WEFT_SILENT");
    return 0;
}

static weft_mesh *mesh_of(int first, int size)
{
    int ranks[RANKS];
    int64_t sizes[] = { size };
    for (int i = 0; i < size; i++) {
        ranks[i] = first + i;
    }
    return weft_mesh_of_ranks(1, sizes, ranks, NULL);
}

/* Element i is i, in the type. */
static weft_tensor *numbered(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                             const weft_placement *placements)
{
    double values[N * N];
    for (int i = 0; i < N * N; i++) {
        values[i] = i;
    }
    weft_tensor *x = weft_distribute(WEFT_F64, ndim, shape, values, mesh, placements);
    x = dtype == WEFT_F64 ? x : weft_copy_inplace(weft_empty(dtype, ndim, shape, mesh, placements), x);
    assert_no_error();
    return x;
}

/* Of whole numbers, which the tests choose. */
static weft_tensor *integers(int ndim, const int64_t shape[], weft_mesh *mesh)
{
    int64_t values[N * N];
    for (int i = 0; i < N * N; i++) {
        values[i] = i % N;
    }
    weft_tensor *x = weft_distribute(WEFT_I64, ndim, shape, values, mesh, NULL);
    assert_no_error();
    return x;
}

static void expect(weft_tensor *tensor, int64_t count, double (*value)(int64_t i))
{
    double values[N * N];
    assert_no_error();
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, "a result");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == value(i));
    }
}

static double doubled(int64_t i)
{
    return 2 * (double)i;
}

static double plus_three(int64_t i)
{
    return (double)i + 3;
}

/* ---- B3 ------------------------------------------------------------------------------------------------ */

static void b3_one_element_is_replicated(void **state)
{
    (void)state;
    weft_mesh *lower = mesh_of(0, 2), *upper = mesh_of(2, 2);
    weft_scope_begin();
    weft_tensor *x = numbered(WEFT_F64, 2, square, lower, rows);
    weft_tensor *scalar = weft_full(WEFT_F64, 3, 0, NULL, upper, NULL);
    weft_tensor *single = weft_full(WEFT_F64, 3, 2, (const int64_t[]){ 1, 1 }, upper, NULL);
    expect(weft_add(x, scalar), N * N, plus_three);
    expect(weft_add(scalar, x), N * N, plus_three);
    expect(weft_add(x, single), N * N, plus_three);
    assert_ptr_equal(weft_tensor_mesh(weft_add(single, x)), lower);
    weft_scope_end();
}

/* Outside of a region the error names both meshes and says what to do; regions nest, and can be asked for. */
static void b3_region_nests(void **state)
{
    (void)state;
    weft_mesh *lower = mesh_of(0, 2), *upper = mesh_of(2, 2);
    weft_scope_begin();
    weft_tensor *a = numbered(WEFT_F64, 2, square, lower, rows), *b = numbered(WEFT_F64, 2, square, upper, rows);
    assert_false(weft_implicit_replication());
    for (int round = 0; round < 2; round++) { /* what was allowed is not remembered */
        assert_null(weft_add(a, b));
        assert_error(WEFT_ERR_MESH, "a is on mesh 2 and b on mesh 2 of ranks 2, 3: weft_redistribute() one of them");
        assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
        expect(weft_add(a, b), N * N, doubled);
        assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
        assert_int_equal(weft_implicit_replication_end(), WEFT_OK);
        assert_true(weft_implicit_replication());
        expect(weft_add(b, a), N * N, doubled);
        assert_ptr_equal(weft_tensor_mesh(weft_add(b, a)), upper);
        assert_int_equal(weft_implicit_replication_end(), WEFT_OK);
        assert_false(weft_implicit_replication());
    }
    assert_int_equal(weft_implicit_replication_end(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_implicit_replication_end: no region has begun");
    weft_scope_end();
}

static void b3_region_ends_with_the_world(void **state)
{
    assert_int_equal(weft_implicit_replication_begin(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_implicit_replication_begin");
    assert_false(weft_implicit_replication());
    assert_int_equal(start(state), 0);
    assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
    world_stop(NULL);
    assert_int_equal(start(state), 0);
    assert_false(weft_implicit_replication());
    world_stop(NULL);
}

/* ---- B3: the functions that <weft/ops.h> exempts ------------------------------------------------------- */

typedef struct two_meshes {
    weft_tensor *a, *b;             /* [N, N] on two meshes */
    weft_tensor *indices, *line;    /* on a's mesh: [N, N] and [N] */
    weft_tensor *deep, *other_deep; /* [1, N, N] on two meshes */
} two_meshes;

static void ignore(const weft_local_call *call)
{
    (void)call;
}

static bool call_exempt(int number, const two_meshes *t)
{
    weft_tensor *const both[] = { t->a, t->b };
    weft_tensor *outputs[2] = { NULL };
    bool answer;
    weft_local_output output = { WEFT_F64, 2, square, NULL };
    switch (number) {
    case 0:
        return weft_cat(2, both, 0) != NULL;
    case 1:
        return weft_stack(2, both, 0) != NULL;
    case 2:
        return weft_scatter_add(t->a, 0, t->indices, t->b) != NULL;
    case 3:
        return weft_scatter_add_inplace(t->a, 0, t->indices, t->b) != NULL;
    case 4:
        return weft_index_add(t->a, 0, t->line, t->b) != NULL;
    case 5:
        return weft_index_add_inplace(t->a, 0, t->line, t->b) != NULL;
    case 6:
        return weft_equal(t->a, t->b, &answer) == WEFT_OK;
    case 7:
        return weft_allclose(t->a, t->b, 0, 0, false, &answer) == WEFT_OK;
    case 8:
        return weft_attention_backward(t->deep, t->deep, t->deep, t->deep, t->other_deep, NULL, &outputs[0],
                                       &outputs[1]) != NULL;
    case 9:
        return weft_einsum("ij,jk->ik", 2, both) != NULL;
    case 10:
        return weft_index_put(t->a, 1, &t->line, t->b, false) != NULL;
    case 11:
        return weft_masked_select(t->a, weft_gt_scalar(t->b, 0)) != NULL;
    case 12:
        return weft_masked_fill_tensor(t->a, weft_gt_scalar(t->b, 0), weft_sum(t->a, WEFT_ALL_DIMS, false)) != NULL;
    case 13:
        return weft_group_norm(t->a, 1, weft_sum(t->b, 0, false), NULL, 1e-5) != NULL;
    case 14:
        return weft_attention(t->deep, t->other_deep, t->deep,
                              &(weft_attention_options){ .size = sizeof(weft_attention_options), .grouped_heads = true }) != NULL;
    default:
        return weft_local_map(ignore, 2, both, 1, &output, NULL, outputs) == WEFT_OK;
    }
}

static void b3_exempt_functions(void **state)
{
    (void)state;
    const int64_t deep[] = { 1, N, N };
    weft_mesh *lower = mesh_of(0, 2), *upper = mesh_of(2, 2);
    weft_scope_begin();
    const two_meshes t = { .a = numbered(WEFT_F64, 2, square, lower, NULL),
                           .b = numbered(WEFT_F64, 2, square, upper, NULL),
                           .indices = integers(2, square, lower),
                           .line = integers(1, line_shape, lower),
                           .deep = numbered(WEFT_F64, 3, deep, lower, NULL),
                           .other_deep = numbered(WEFT_F64, 3, deep, upper, NULL) };
    assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
    for (int number = 0; number < 16; number++) {
        assert_false(call_exempt(number, &t));
        assert_error(WEFT_ERR_MESH, "weft_redistribute() ");
    }
    /* Others, of many inputs and in place, do move them. */
    assert_non_null(weft_where(weft_gt(t.a, t.b), t.b, t.a));
    assert_non_null(weft_matmul(t.a, t.b));
    assert_non_null(weft_add_inplace(t.b, t.a, 2));
    assert_non_null(weft_gather(t.b, 0, t.indices));
    assert_no_error();
    assert_int_equal(weft_implicit_replication_end(), WEFT_OK);
    weft_scope_end();
}

/* ---- B4 ------------------------------------------------------------------------------------------------ */

enum { MAX_RESULTS = 4 };

/* Everything about a result on the ranks that this process hosts: they are in its mesh, or have nothing of
 * it. */
static void check_outside(weft_tensor *result, weft_dtype dtype)
{
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), dtype);
    int ndim = weft_tensor_ndim(result);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t coordinate[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        if (weft_mesh_coordinate(weft_tensor_mesh(result), weft_first_rank() + i, coordinate) == 1) {
            continue;
        }
        assert_int_equal(weft_local_bytes(result, i), 0);
        assert_int_equal(weft_local_box(result, i, offset, extent), WEFT_OK);
        for (int d = 0; d < ndim; d++) {
            assert_int_equal(extent[d], 0);
        }
        double untouched = -1;
        if (ndim > 0) {
            assert_non_null(weft_local_acquire(result, i, WEFT_READ));
            assert_int_equal(weft_local_release(result, i), WEFT_OK);
            assert_int_equal(weft_local_to_host(result, i, &untouched, sizeof(untouched)), WEFT_OK);
            assert_no_error();
        } else { /* no value at all */
            assert_int_equal(weft_local_to_host(result, i, &untouched, sizeof(untouched)), WEFT_ERR_MESH);
            assert_error(WEFT_ERR_MESH, "it has no value");
            assert_null(weft_local_acquire(result, i, WEFT_READ));
            assert_error(WEFT_ERR_MESH, "it has no value");
        }
        assert_true(untouched == -1);
    }
}

static const weft_operation *halves_and_rows;

/* x / 2, and the number of each element's row. */
static void halve(const weft_kernel_call *call)
{
    for (int64_t row = 0; row < weft_view_rows(&call->outputs[0]); row++) {
        const float *x = weft_view_row(&call->inputs[0], row, NULL);
        float *half = weft_view_row(&call->outputs[0], row, NULL);
        int64_t *number = weft_view_row(&call->outputs[1], row, NULL);
        for (int64_t i = 0; i < call->outputs[0].row_elements; i++) {
            half[i] = x[i] / 2;
            number[i] = call->outputs[0].offset[0] + row;
        }
    }
}

/* The results of one call, of one tensor or several. */
static int results_of(int number, weft_tensor *x, weft_tensor *labels, weft_tensor *results[MAX_RESULTS])
{
    weft_tensor *line = weft_select(x, 0, 1);
    switch (number) {
    case 0:
        results[0] = weft_add(x, x);
        return 1;
    case 1:
        results[0] = weft_sum(x, WEFT_ALL_DIMS, false);
        return 1;
    case 2:
        results[0] = weft_matmul(x, weft_transpose(x, 0, 1));
        return 1;
    case 3:
        results[0] = weft_sort(x, 1, false, &results[1]);
        return 2;
    case 4:
        results[0] = weft_topk(x, 2, 0, true, &results[1]);
        return 2;
    case 5:
        results[0] = weft_dropout(x, 0.5, true, &results[1]);
        return 2;
    case 6:
        assert_int_equal(weft_split(x, 3, (const int64_t[]){ 1, 2, 3 }, 0, results), WEFT_OK);
        return 3;
    case 7:
        results[0] = weft_layer_norm_backward(x, x, line, 1e-5, &results[1], &results[2]);
        return 3;
    case 8:
        results[0] = weft_rms_norm_backward(x, x, line, 1e-5, &results[1]);
        return 2;
    case 9:
        results[0] = weft_cross_entropy(x, labels, NULL);
        return 1;
    case 10:
        results[0] = weft_argmax(x, 1, false);
        return 1;
    case 11:
        results[0] = weft_cat(2, (weft_tensor *const[]){ x, x }, 1);
        return 1;
    case 12:
        assert_int_equal(weft_apply_all(halves_and_rows, 1, &x, NULL, 2, results), WEFT_OK);
        return 2;
    default:
        return 0;
    }
}

/* Results have the type that they have on the world's mesh, several outputs of one call each its own. */
static void b4_results_outside_the_mesh(void **state)
{
    (void)state;
    weft_mesh *world = mesh_of(0, RANKS);
    halves_and_rows = weft_operation_register(
        &(weft_operation_description){ .name = "halves and rows",
                                       .rule = "ab->ab,ab",
                                       .inputs = { { "x", WEFT_TYPE_BIT(WEFT_F32), false } },
                                       .outputs = { { .type = WEFT_TYPE_FIRST }, { .type = WEFT_TYPE_INDEX } },
                                       .kernel = halve });
    assert_no_error();
    for (int first = 0; first < RANKS; first++) {
        weft_mesh *few = mesh_of(first, 1);
        for (int number = 0, count = 1; count > 0; number++) {
            weft_scope_begin();
            weft_tensor *inside[MAX_RESULTS], *outside[MAX_RESULTS];
            weft_tensor *x = numbered(WEFT_F32, 2, square, few, NULL), *y = numbered(WEFT_F32, 2, square, world, rows);
            count = results_of(number, x, integers(1, line_shape, few), outside);
            assert_int_equal(results_of(number, y, integers(1, line_shape, world), inside), count);
            for (int i = 0; i < count; i++) {
                check_outside(outside[i], weft_tensor_dtype(inside[i]));
            }
            weft_scope_end();
        }
    }
}

/* Results that are no tensor are equal on every process, or there are none. */
static void b4_other_results(void **state)
{
    (void)state;
    for (int first = 0; first < RANKS; first++) {
        weft_mesh *few = mesh_of(first, 1);
        weft_scope_begin();
        weft_tensor *x = numbered(WEFT_F64, 2, square, few, NULL);
        bool same = false;
        double item = 0;
        assert_int_equal(weft_equal(x, x, &same), WEFT_OK);
        assert_true(same);
        assert_int_equal(weft_equal(x, weft_add_scalar(x, 1), &same), WEFT_OK);
        assert_false(same);
        assert_int_equal(weft_tensor_item(weft_max(x, WEFT_ALL_DIMS, false), &item), WEFT_OK);
        assert_true(item == N * N - 1);
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t coordinate = -7;
            bool member = weft_first_rank() + i == first;
            assert_int_equal(weft_mesh_coordinate(few, weft_first_rank() + i, &coordinate), member);
            assert_int_equal(coordinate, member ? 0 : -7);
        }
        assert_no_error();
        weft_scope_end();
    }
}

/* ---- B6 ------------------------------------------------------------------------------------------------ */

/* Each in-place function, with operands in layouts of their own. */
static weft_tensor *change(int number, weft_tensor *target, weft_tensor *x, weft_tensor *indices, weft_tensor *list)
{
    switch (number) {
    case 0:
        return weft_copy_inplace(target, x);
    case 1:
        return weft_add_inplace(target, x, 2);
    case 2:
        return weft_mul_inplace(target, x);
    case 3:
        return weft_div_inplace(target, weft_add_scalar(x, 1));
    case 4:
        return weft_lerp_inplace(target, x, 0.5);
    case 5:
        return weft_scatter_add_inplace(target, 1, indices, x);
    case 6:
        return weft_index_add_inplace(target, 0, list, x);
    case 7:
        return weft_scale_inplace(target, 3);
    case 8:
        return weft_fill_inplace(target, 3);
    default:
        return NULL;
    }
}

static bool same_placements(const weft_placement *a, const weft_placement *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof(*a)) == 0;
}

/* The target keeps its layout, whatever the operands' are, and has the values that it has everywhere
 * replicated. */
static void b6_targets_keep_their_layout(void **state)
{
    (void)state;
    prng source = prng_start(29);
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (int round = 0; round < 12; round++) {
        for (int number = 0; number < 9; number++) {
            weft_placement of_target[2], of_x[2], before[2];
            random_placements(&source, mesh, 2, false, of_target);
            random_placements(&source, mesh, 2, true, of_x);
            weft_scope_begin();
            weft_tensor *target = numbered(WEFT_F64, 2, square, mesh, of_target);
            weft_tensor *reference = numbered(WEFT_F64, 2, square, mesh, NULL);
            weft_tensor *x = weft_empty(WEFT_F64, 2, square, mesh, of_x);
            for (int i = 0; i < weft_local_ranks(); i++) { /* of a Partial tensor: addends */
                double *values = weft_local_acquire(x, i, WEFT_WRITE);
                for (size_t k = 0; k < weft_local_bytes(x, i) / sizeof(double); k++) {
                    values[k] = 2;
                }
                weft_local_release(x, i);
            }
            weft_tensor *indices = integers(2, square, mesh), *list = integers(1, line_shape, mesh);
            memcpy(before, weft_tensor_placements(target), sizeof(before));
            assert_ptr_equal(change(number, target, x, indices, list), target);
            assert_true(same_placements(weft_tensor_placements(target), before, 2));
            assert_ptr_equal(weft_tensor_mesh(target), mesh);
            assert_non_null(change(number, reference, weft_redistribute(x, NULL, NULL), indices, list));
            assert_same_shards(target, weft_redistribute(reference, NULL, before), "a target");
            assert_no_error();
            weft_scope_end();
        }
    }
}

/* Numbers, dimensions and states move nothing. */
static void b6_attributes_move_nothing(void **state)
{
    (void)state;
    weft_mesh *mesh = mesh_of(0, RANKS);
    weft_counters before, after;
    weft_scope_begin();
    weft_tensor *x = numbered(WEFT_F64, 2, square, mesh, rows), *line = weft_ones(WEFT_F64, 1, line_shape, mesh, rows);
    assert_int_equal(weft_wait(), WEFT_OK);
    weft_get_counters(&before, sizeof(before));
    weft_scale_inplace(x, 3);
    weft_fill_inplace(x, 3);
    weft_uniform_inplace(x, 0, 1);
    weft_normal_inplace(x, 0, 1);
    weft_add_inplace(x, x, 0.5);
    weft_add_scalar(x, 2);
    weft_clamp(x, 0, 1);
    weft_sum(x, 1, false);
    weft_add_inplace(line, weft_sum(x, 1, false), 2);
    weft_get_counters(&after, sizeof(after));
    assert_no_error();
    assert_int_equal(after.transfers, before.transfers);
    assert_int_equal(after.bytes_moved, before.bytes_moved);
    weft_scope_end();
}

/* PyTorch's out=: weft_copy_inplace(out, the operation). `out` keeps layout and type; the result comes to
 * it. */
static void b6_out(void **state)
{
    (void)state;
    prng source = prng_start(31);
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    for (int round = 0; round < 30; round++) {
        weft_placement of_out[2], of_x[2], before[2];
        random_placements(&source, mesh, 2, false, of_out);
        random_placements(&source, mesh, 2, false, of_x);
        weft_scope_begin();
        weft_tensor *x = numbered(WEFT_F64, 2, square, mesh, of_x), *out = weft_empty(WEFT_F64, 2, square, mesh, of_out);
        memcpy(before, weft_tensor_placements(out), sizeof(before));
        assert_ptr_equal(weft_copy_inplace(out, weft_add(x, x)), out);
        assert_true(same_placements(weft_tensor_placements(out), before, 2));
        expect(out, N * N, doubled);
        weft_scope_end();
    }
}

/* With equal layouts nothing is copied: as many tasks as without out, and no more buffers. */
static void b6_out_copies_nothing(void **state)
{
    (void)state;
    weft_mesh *mesh = mesh_of(0, RANKS);
    weft_counters start_of, plain, into;
    weft_scope_begin();
    weft_tensor *x = numbered(WEFT_F64, 2, square, mesh, rows), *out = weft_empty(WEFT_F64, 2, square, mesh, rows);
    weft_get_counters(&start_of, sizeof(start_of));
    weft_add(x, x);
    weft_get_counters(&plain, sizeof(plain));
    weft_copy_inplace(out, weft_add(x, x));
    weft_get_counters(&into, sizeof(into));
    assert_int_equal(into.tasks - plain.tasks, plain.tasks - start_of.tasks);
    assert_int_equal(into.buffers_created + into.buffers_reused - plain.buffers_created - plain.buffers_reused,
                     plain.buffers_created + plain.buffers_reused - start_of.buffers_created -
                         start_of.buffers_reused);
    expect(out, N * N, doubled);
    weft_scope_end();
}

/* As torch.can_cast(): to a type of the same or a higher category; another shape or mesh is an error, not a
 * resize. */
static void b6_out_refuses(void **state)
{
    (void)state;
    weft_mesh *mesh = mesh_of(0, RANKS), *few = mesh_of(1, 2);
    weft_scope_begin();
    weft_tensor *x = numbered(WEFT_F64, 2, square, mesh, rows), *halves = weft_empty(WEFT_F32, 2, square, mesh, rows);
    assert_ptr_equal(weft_copy_inplace(halves, weft_add(x, x)), halves);
    assert_int_equal(weft_tensor_dtype(halves), WEFT_F32);
    assert_null(weft_copy_inplace(integers(2, square, mesh), weft_add(x, x)));
    assert_error(WEFT_ERR_DTYPE, "cannot hold the result");
    assert_null(weft_copy_inplace(weft_empty(WEFT_F64, 1, line_shape, mesh, rows), weft_add(x, x)));
    assert_error(WEFT_ERR_SHAPE, "weft_copy_inplace");
    assert_null(weft_copy_inplace(weft_empty(WEFT_F64, 2, square, few, rows), weft_add(x, x)));
    assert_error(WEFT_ERR_MESH, "weft_redistribute");
    assert_null(weft_copy_inplace(x, weft_matmul(x, NULL))); /* the first error is kept */
    assert_error(WEFT_ERR_INVALID, "weft_matmul: b is NULL");
    weft_scope_end();
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(b3_one_element_is_replicated),
        ROW(b3_region_nests),
        cmocka_unit_test(b3_region_ends_with_the_world),
        ROW(b3_exempt_functions),
        ROW(b4_results_outside_the_mesh),
        ROW(b4_other_results),
        ROW(b6_targets_keep_their_layout),
        ROW(b6_attributes_move_nothing),
        ROW(b6_out),
        ROW(b6_out_copies_nothing),
        ROW(b6_out_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
