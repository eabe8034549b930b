/* Gradients of shards (rows A10, E2): a tensor is split into shards, and others are made of these in the middle of what is
 * differentiated. The dense reference is the matrix of what unflatten does, from its results for unit vectors. */
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"

enum { MOST_RANKS = 4, SIZE = 64, LOCAL_ROWS = 2, LOCAL_COLUMNS = 1 };

static weft_mesh *grid; /* of all ranks: 2 x 2, else 1 x n */

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

/* Small whole numbers: all sums are exact. */
static double number(int64_t i, int salt)
{
    return (double)((i * 7 + salt) % 5) - 2;
}

/* A tensor's layout. */
typedef struct form {
    weft_mesh *mesh;
    weft_placement placements[2];
    int64_t shape[2];
} form;

static int64_t count_of(const form *f)
{
    return f->shape[0] * f->shape[1];
}

/* Every rank has LOCAL_ROWS x LOCAL_COLUMNS. */
static form even_form(weft_mesh *mesh, weft_placement first, weft_placement second)
{
    form f = { mesh, { first, second }, { LOCAL_ROWS, LOCAL_COLUMNS } };
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        if (f.placements[m].kind == WEFT_SHARD) {
            f.shape[f.placements[m].dim] *= weft_mesh_size(mesh, m);
        }
    }
    assert_true(count_of(&f) <= SIZE);
    return f;
}

static weft_tensor *of_values(const form *f, const double values[])
{
    return weft_distribute(WEFT_F64, 2, f->shape, values, f->mesh, f->placements);
}

static weft_tensor *of_numbers(const form *f, int salt)
{
    double values[SIZE];
    for (int64_t i = 0; i < SIZE; i++) {
        values[i] = number(i, salt);
    }
    return of_values(f, values);
}

static weft_tensor *leaf_in(const form *f, int salt)
{
    weft_tensor *a = of_numbers(f, salt);
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    return a;
}

/* The tensor's shards as another tensor. */
static weft_tensor *as(weft_tensor *a, const form *f)
{
    weft_tensor_shard shards[MOST_RANKS];
    weft_tensor_layout layout;
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    assert_true(layout.requires_grad == weft_requires_grad(a));
    layout.mesh = f->mesh;
    memcpy(layout.shape, f->shape, sizeof(f->shape));
    memcpy(layout.placements, f->placements, sizeof(f->placements));
    weft_tensor *result = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_tensor_release(shards[i].tensor), WEFT_OK);
    }
    return result;
}

/* ---- the reference ------------------------------------------------------------------------------------------- */

/* Unflatten is linear: output i is the sum over j of matrix[i][j] times input j. */
static double matrix[SIZE][SIZE];

/* The tensor from which shards are taken: `via` NULL: the one that is given, else its shards as that. */
static weft_tensor *through(weft_tensor *a, const form *via, const form *to)
{
    return as(via == NULL ? a : as(a, via), to);
}

static void find_matrix(const form *from, const form *via, const form *to)
{
    for (int64_t i = 0; i < count_of(from); i++) {
        double unit[SIZE] = { 0 }, column[SIZE];
        unit[i] = 1;
        weft_scope_begin();
        weft_tensor *output = through(of_values(from, unit), via, to);
        assert_int_equal(weft_to_host(output, column, sizeof(column)), WEFT_OK);
        weft_scope_end();
        for (int64_t o = 0; o < count_of(to); o++) {
            matrix[o][i] = column[o];
        }
    }
}

/* Every replica gets the whole gradient: so the matrix of its shards. */
static void find_matrix_of_replicas(const form *from, const form *to)
{
    memset(matrix, 0, sizeof(matrix));
    int ranks[MOST_RANKS];
    assert_int_equal(weft_mesh_ranks(from->mesh, ranks), WEFT_OK);
    for (int r = 0; r < weft_mesh_num_ranks(from->mesh); r++) {
        int64_t a[2], b[2], extent[2];
        weft_shard_box(from->mesh, from->placements, 2, from->shape, ranks[r], a, extent);
        weft_shard_box(to->mesh, to->placements, 2, to->shape, ranks[r], b, extent);
        for (int64_t i = 0; i < extent[0] * extent[1]; i++) {
            int64_t row = i / extent[1], column = i % extent[1];
            matrix[(b[0] + row) * to->shape[1] + b[1] + column]
                  [(a[0] + row) * from->shape[1] + a[1] + column] = 1;
        }
    }
}

static void apply(const form *from, const form *to, const double x[], double y[])
{
    for (int64_t o = 0; o < count_of(to); o++) {
        y[o] = 0;
        for (int64_t i = 0; i < count_of(from); i++) {
            y[o] += matrix[o][i] * x[i];
        }
    }
}

static void apply_transposed(const form *from, const form *to, const double y[], double x[])
{
    for (int64_t i = 0; i < count_of(from); i++) {
        x[i] = 0;
        for (int64_t o = 0; o < count_of(to); o++) {
            x[i] += matrix[o][i] * y[o];
        }
    }
}

static void assert_values(weft_tensor *tensor, const double expected[], const char *what)
{
    double values[SIZE];
    assert_non_null(tensor);
    assert_shards(tensor, NULL, NULL, what);
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        if (values[i] != expected[i]) {
            fail_msg("%s: element %d is %g, expected %g", what, (int)i, values[i], expected[i]);
        }
    }
}

/* y = F(x), loss = sum w y: F^T w. */
static void check_first(const form *from, const form *via, const form *to)
{
    double w[SIZE], expected[SIZE];
    weft_scope_begin();
    weft_tensor *a = leaf_in(from, 1), *y = through(a, via, to);
    assert_true(weft_requires_grad(y) && !weft_is_leaf(y));
    form whole = *to;
    for (int m = 0; m < 2; m++) {
        whole.placements[m] = to->placements[m].kind == WEFT_PARTIAL ? weft_replicate() : to->placements[m];
    }
    assert_int_equal(weft_backward(sum_all(weft_mul(y, of_numbers(&whole, 3))), NULL), WEFT_OK);
    for (int64_t i = 0; i < SIZE; i++) {
        w[i] = number(i, 3);
    }
    apply_transposed(from, to, w, expected);
    assert_values(weft_grad(a), expected, "gradient");
    weft_scope_end();
    assert_no_error();
}

/* L = sum (F(x^2))^2: dL = 4 x F^T F(x^2); its product with v, summed, differentiated again: 4 v F^T F(x^2) +
 * 8 x F^T F(x v). */
static void check_second(const form *from, const form *via, const form *to)
{
    double x[SIZE], v[SIZE], square[SIZE], product[SIZE], y[SIZE], first[SIZE], z[SIZE];
    weft_scope_begin();
    weft_tensor *a = leaf_in(from, 1), *by_v = of_numbers(from, 2), *gradient, *second;
    weft_tensor *loss = sum_all(weft_square(weft_redistribute(through(weft_square(a), via, to), NULL, NULL)));
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, true, &gradient), WEFT_OK);
    for (int64_t i = 0; i < SIZE; i++) {
        x[i] = number(i, 1);
        v[i] = number(i, 2);
        square[i] = x[i] * x[i];
        product[i] = x[i] * v[i];
    }
    apply(from, to, square, y);
    apply_transposed(from, to, y, first);
    apply(from, to, product, y);
    apply_transposed(from, to, y, z);
    for (int64_t i = 0; i < SIZE; i++) {
        z[i] = 4 * v[i] * first[i] + 8 * x[i] * z[i];
        first[i] = 4 * x[i] * first[i];
    }
    assert_values(gradient, first, "first");
    loss = sum_all(weft_mul(gradient, by_v));
    assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, false, &second), WEFT_OK);
    assert_values(second, z, "second");
    weft_scope_end();
    assert_no_error();
}

/* ---- all pairs of layouts ---------------------------------------------------------------------------------- */

enum { KINDS = 5, WHOLE_KINDS = 3 };

static weft_placement placement(int kind)
{
    return kind < 2    ? weft_shard(kind)
           : kind == 2 ? weft_replicate()
           : kind == 3 ? weft_partial(WEFT_SUM)
                       : weft_partial(WEFT_AVG);
}

/* Different shards become replicas somewhere: what is computed has no matrix. */
static bool joins(const form *from, const form *to)
{
    bool any = false;
    for (int m = 0; m < weft_mesh_ndim(from->mesh); m++) {
        any |= from->placements[m].kind == WEFT_SHARD && to->placements[m].kind == WEFT_REPLICATE &&
               weft_mesh_size(from->mesh, m) > 1;
    }
    return any;
}

static bool shards_only(const form *f)
{
    return f->placements[0].kind == WEFT_SHARD &&
           (weft_mesh_ndim(f->mesh) == 1 || f->placements[1].kind == WEFT_SHARD);
}

static void check_pair(const form *from, const form *to)
{
    bool any_partial = to->placements[0].kind == WEFT_PARTIAL || to->placements[1].kind == WEFT_PARTIAL;
    if (!joins(from, to)) {
        find_matrix(from, NULL, to);
        check_first(from, NULL, to);
        check_second(from, NULL, to);
    } else if (!any_partial) {
        find_matrix_of_replicas(from, to);
        check_first(from, NULL, to);
    }
}

static void test_line(void **state)
{
    (void)state;
    for (int n = 0; n < WHOLE_KINDS * KINDS; n++) {
        form from = even_form(line(), placement(n / KINDS), weft_replicate()),
             to = even_form(line(), placement(n % KINDS), weft_replicate());
        check_pair(&from, &to);
    }
}

static void test_grid(void **state)
{
    (void)state;
    for (int n = 0; n < 9 * 25; n++) {
        form from = even_form(grid, placement(n / 25 % 3), placement(n / 75)),
             to = even_form(grid, placement(n % 5), placement(n / 5 % 5));
        check_pair(&from, &to);
    }
}

/* Addends used as addends: of a tensor that is made of shards itself. */
static void test_addends(void **state)
{
    (void)state;
    for (int n = 0; n < WHOLE_KINDS * 4; n++) {
        form from = even_form(line(), placement(n / 4), weft_replicate()),
             via = even_form(line(), placement(3 + n / 2 % 2), weft_replicate()),
             to = even_form(line(), placement(3 + n % 2), weft_replicate());
        find_matrix(&from, &via, &to);
        check_first(&from, &via, &to);
        check_second(&from, &via, &to);
    }
}

/* Each rank's part on its own: another mesh may name them. */
static void test_other_meshes(void **state)
{
    (void)state;
    for (int n = 0; n < 25 * 4; n++) {
        form sharded = even_form(line(), placement(n / 25 % 2), weft_replicate()),
             to = even_form(grid, placement(n % 5), placement(n / 5 % 5));
        bool joined = to.placements[0].kind == WEFT_REPLICATE || to.placements[1].kind == WEFT_REPLICATE;
        if (!joined) {
            find_matrix(&sharded, NULL, &to);
            check_first(&sharded, NULL, &to);
            if (shards_only(&to)) {
                check_second(&sharded, NULL, &to);
            }
        }
    }
}

/* Uneven and empty shards; a shard that is not used has a gradient of zeros; ranks outside of the mesh. */
static void test_uneven(void **state)
{
    (void)state;
    int n = weft_world_size(), last = n - 1;
    weft_mesh *part = weft_mesh_of_ranks(1, (const int64_t[]){ 1 }, &last, NULL);
    const form rows[] = { { line(), { weft_shard(0) }, { 5, 3 } }, { line(), { weft_shard(0) }, { 1, 3 } },
                          { line(), { weft_shard(1) }, { 3, 5 } }, { line(), { weft_shard(0) }, { 0, 3 } },
                          { part, { weft_shard(0) }, { 2, 3 } },   { part, { weft_replicate() }, { 2, 3 } } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        find_matrix(&rows[i], NULL, &rows[i]);
        check_first(&rows[i], NULL, &rows[i]);
        check_second(&rows[i], NULL, &rows[i]);
    }
    form all = { line(), { weft_shard(0) }, { n, 3 } }, but_one = { line(), { weft_shard(0) }, { n - 1, 3 } };
    if (n > 1) {
        find_matrix(&all, NULL, &but_one);
        check_first(&all, NULL, &but_one);
        check_second(&all, NULL, &but_one);
    }
}

/* ---- the flag ------------------------------------------------------------------------------------------------ */

static weft_tensor *rebuilt(weft_tensor *a, bool requires_grad)
{
    weft_tensor_shard shards[MOST_RANKS];
    weft_tensor_layout layout;
    assert_int_equal(weft_tensor_flatten(a, shards, &layout, sizeof(layout)), WEFT_OK);
    layout.requires_grad = requires_grad;
    weft_tensor *result = weft_tensor_unflatten(shards, &layout, sizeof(layout));
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_tensor_release(shards[i].tensor), WEFT_OK);
    }
    return result;
}

static void test_flag(void **state)
{
    (void)state;
    const form f = even_form(line(), weft_shard(0), weft_replicate());
    weft_tensor_shard shards[MOST_RANKS];
    weft_tensor_layout layout;
    weft_scope_begin();
    weft_tensor *constant = of_numbers(&f, 1), *a = leaf_in(&f, 1), *h = weft_square(a);
    assert_false(weft_requires_grad(rebuilt(constant, false)) || weft_requires_grad(rebuilt(a, false)) ||
                 weft_requires_grad(rebuilt(h, false)));
    weft_tensor *leaf = rebuilt(constant, true);
    assert_true(weft_is_leaf(leaf) && !weft_requires_grad(constant));
    assert_int_equal(weft_backward(sum_all(weft_add(weft_scale(leaf, 3), rebuilt(a, true))), NULL), WEFT_OK);
    assert_all(weft_grad(leaf), 3);
    assert_all(weft_grad(a), 1);
    weft_no_grad_begin();
    assert_true(weft_is_leaf(rebuilt(h, true)));
    weft_no_grad_end();
    assert_true(weft_requires_grad(rebuilt(h, true)) && !weft_is_leaf(rebuilt(h, true)));

    /* Without data. */
    weft_tensor *fake = rebuilt(weft_fake_like(a), true);
    assert_true(weft_tensor_is_fake(fake) && weft_is_leaf(fake));

    weft_tensor *whole_numbers = weft_zeros(WEFT_I64, 2, f.shape, f.mesh, f.placements);
    assert_int_equal(weft_tensor_flatten(whole_numbers, shards, &layout, sizeof(layout)), WEFT_OK);
    assert_false(layout.requires_grad);
    layout.requires_grad = true;
    assert_null(weft_tensor_unflatten(shards, &layout, sizeof(layout)));
    assert_error(WEFT_ERR_DTYPE,
                 "layout.requires_grad is set, and layout.dtype is i64, expected a floating or complex type");
    for (int i = 0; i < weft_local_ranks(); i++) {
        assert_int_equal(weft_tensor_release(shards[i].tensor), WEFT_OK);
    }
    weft_scope_end();
    assert_no_error();
}

/* ---- placements of gradients, segments, graphs --------------------------------------------------------------- */

static void test_placements(void **state)
{
    (void)state;
    for (int n = 0; n < WHOLE_KINDS * WHOLE_KINDS; n++) {
        form from = even_form(line(), placement(n % 3), weft_replicate()),
             to = even_form(line(), placement(3), weft_replicate());
        const weft_placement wanted = placement(n / 3);
        double w[SIZE], expected[SIZE];
        find_matrix(&from, NULL, &to);
        weft_scope_begin();
        weft_tensor *a = leaf_in(&from, 1), *h = weft_scale(a, 1), *y = as(h, &to), *gradients[2];
        assert_int_equal(weft_set_grad_placements(h, &wanted), WEFT_OK);
        assert_int_equal(weft_set_grad_placements(y, &wanted), WEFT_OK);
        weft_tensor *loss = sum_all(weft_mul(
            y, of_numbers(&(form){ to.mesh, { weft_replicate() }, { to.shape[0], to.shape[1] } }, 3)));
        assert_int_equal(weft_gradients(1, &loss, NULL, 2, (weft_tensor *[]){ h, y }, true, gradients),
                         WEFT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(weft_tensor_placements(gradients[i])[0].kind, wanted.kind);
        }
        assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
        for (int64_t i = 0; i < SIZE; i++) {
            w[i] = number(i, 3);
        }
        apply_transposed(&from, &to, w, expected);
        assert_values(gradients[0], expected, "by h");
        assert_values(gradients[1], w, "by y");
        assert_values(weft_grad(a), expected, "leaf");
        weft_scope_end();
        assert_no_error();
    }
}

/* Copies of the input, one for each rank, in a row: squares. */
static weft_status copies(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                          weft_tensor *outputs[])
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    const form to = even_form(line(), weft_shard(0), weft_replicate());
    weft_tensor *y = as(weft_square(inputs[0]), &to);
    outputs[0] = y == NULL ? NULL : weft_square(y);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void test_segments(void **state)
{
    (void)state;
    const form from = even_form(line(), weft_replicate(), weft_replicate());
    double expected[SIZE];
    weft_scope_begin();
    weft_tensor *a = leaf_in(&from, 1), *in[] = { weft_scale(a, 1) }, *out;
    assert_int_equal(weft_recompute(copies, NULL, 0, 1, in, 1, &out), WEFT_OK);
    assert_int_equal(weft_backward(sum_all(out), NULL), WEFT_OK);
    for (int64_t i = 0; i < SIZE; i++) {
        expected[i] = weft_world_size() * 4 * number(i, 1) * number(i, 1) * number(i, 1);
    }
    assert_values(weft_grad(a), expected, "segment");
    weft_scope_end();
    assert_no_error();
}

static weft_status step(void *context, weft_tensor *const inputs[], const double scalars[],
                        weft_tensor *outputs[])
{
    weft_tensor *a = context, *product = weft_mul(a, inputs[0]), *out;
    (void)scalars;
    weft_status status = copies(NULL, 1, &product, 1, &out);
    weft_tensor *loss = status == WEFT_OK ? sum_all(out) : NULL;
    return loss == NULL ? weft_last_status() : weft_gradients(1, &loss, NULL, 1, &a, false, outputs);
}

static void test_graphs(void **state)
{
    (void)state;
    const form from = even_form(line(), weft_replicate(), weft_replicate());
    weft_scope_begin();
    weft_tensor *a = leaf_in(&from, 1);
    weft_graph *graph = weft_graph_create("parts", step, a, 1, 0, 1);
    for (int i = 1; i < 5; i++) {
        double expected[SIZE];
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F64, i, 2, from.shape, from.mesh, NULL), *gradient;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &gradient), WEFT_OK);
        for (int64_t k = 0; k < SIZE; k++) {
            expected[k] =
                weft_world_size() * 4 * number(k, 1) * number(k, 1) * number(k, 1) * (double)(i * i * i * i);
        }
        assert_values(gradient, expected, "graph");
        weft_scope_end();
    }
    assert_int_equal(info_of(graph).captures, 1);
    assert_int_equal(info_of(graph).replays, 3);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

static void refuses(weft_tensor *a, weft_tensor *y, const char *words)
{
    assert_true(weft_requires_grad(y));
    assert_int_equal(weft_backward(sum_all(y), NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, words);
    assert_null(weft_grad(a));
}

static void test_refusals(void **state)
{
    (void)state;
    const form sharded = even_form(line(), weft_shard(0), weft_replicate()),
               whole = even_form(line(), weft_replicate(), weft_replicate()),
               addends = even_form(line(), weft_partial(WEFT_SUM), weft_replicate()),
               greatest = even_form(line(), weft_partial(WEFT_MAX), weft_replicate()),
               other = even_form(grid, weft_replicate(), weft_replicate());
    weft_scope_begin();
    weft_tensor *a = leaf_in(&whole, 1);
    refuses(a, as(as(a, &addends), &whole),
            "the shards are addends of a Partial tensor, and are used as values");
    refuses(a, as(as(a, &addends), &sharded),
            "the shards are addends of a Partial tensor, and are used as values");
    refuses(a, as(a, &greatest), "the shards are combined by another reduction than a sum");
    refuses(a, as(as(a, &greatest), &addends), "the shards are combined by another reduction than a sum");
    refuses(a, as(a, &other), "the shards are replicas of a tensor on another mesh");
    if (weft_local_ranks() > 1) {
        weft_tensor_shard of_a[MOST_RANKS], of_b[MOST_RANKS], mixed[MOST_RANKS];
        weft_tensor_layout layout;
        weft_tensor *b = weft_square(a);
        weft_tensor_flatten(a, of_a, &layout, sizeof(layout));
        weft_tensor_flatten(b, of_b, &layout, sizeof(layout));
        memcpy(mixed, of_a, sizeof(mixed));
        mixed[0] = of_b[0];
        refuses(a, weft_tensor_unflatten(mixed, &layout, sizeof(layout)),
                "the shards are not those of one tensor, each in its place");
        memcpy(mixed, of_a, sizeof(mixed));
        mixed[0] = of_a[1];
        refuses(a, weft_tensor_unflatten(mixed, &layout, sizeof(layout)),
                "the shards are not those of one tensor, each in its place");
        for (int i = 0; i < weft_local_ranks(); i++) {
            weft_tensor_release(of_a[i].tensor);
            weft_tensor_release(of_b[i].tensor);
        }
    }
    weft_scope_end();
    assert_no_error();
}

/* Tensors that are given for empty parts are ignored, but that their gradient would have another shape. */
static void test_unlike_empty_parts(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *other = weft_ones(WEFT_F64 | WEFT_WITH_GRAD, 1, (int64_t[]){ 7 }, line(), NULL);
    const weft_tensor_layout empty = {
        .dtype = WEFT_F64, .ndim = 2, .shape = { 0, 3 }, .mesh = line(), .placements = { weft_shard(0) }, .requires_grad = true
    };
    weft_tensor_shard shards[MOST_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        shards[i] = (weft_tensor_shard){ other, i };
    }
    refuses(other, weft_tensor_unflatten(shards, &empty, sizeof(empty)), "the shards are not those of one tensor, each in its place");
    weft_scope_end();
    assert_no_error();
}

static void test_meshes(void **state)
{
    (void)state;
    int64_t n = weft_world_size(), rows = n % 2 == 0 ? 2 : 1;
    grid = weft_mesh_create(2, (const int64_t[]){ rows, n / rows }, NULL);
    assert_non_null(grid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meshes),  cmocka_unit_test(test_line),         cmocka_unit_test(test_grid),
        cmocka_unit_test(test_addends), cmocka_unit_test(test_other_meshes), cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_flag),    cmocka_unit_test(test_placements),   cmocka_unit_test(test_segments),
        cmocka_unit_test(test_graphs),  cmocka_unit_test(test_refusals), cmocka_unit_test(test_unlike_empty_parts),
    };
    return RUN_ON_RANKS(tests);
}
