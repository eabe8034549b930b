/* All combinations of strategies of a call, not only the cheapest: each is forced once, and must give the
 * result of one rank. Random shapes, types, meshes and placements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dispatch/dispatch.h"

#include "forced_calls.h"
#include "ops/backward.h"

enum { CASES = 10, MAX_FORCED = 60 };

/* ---- what is called ------------------------------------------------------------------------------------ */

static void draw_one(plan *p)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 7, shape);
    add_input(p, any_number(), ndim, shape);
}

/* The second lacks leading dimensions, or has sizes of 1. */
static void draw_two(plan *p)
{
    draw_one(p);
    int64_t shape[WEFT_MAX_DIMS];
    int lacks = below(3) == 0 ? (int)below(p->inputs[0].ndim + 1) : 0, ndim = p->inputs[0].ndim - lacks;
    for (int d = 0; d < ndim; d++) {
        shape[d] = below(5) == 0 ? 1 : p->inputs[0].shape[d + lacks];
    }
    add_input(p, p->inputs[0].dtype, ndim, shape);
}

static void draw_two_in_place(plan *p)
{
    draw_two(p);
    p->in_place = true;
}

static void draw_three(plan *p)
{
    draw_two(p);
    add_input(p, p->inputs[0].dtype, p->inputs[0].ndim, p->inputs[0].shape);
}

static void draw_reduction(plan *p)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + (int)below(3);
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1 + below(7); /* there is something to choose the largest from */
    }
    add_input(p, any_float(), ndim, shape);
    p->dim = (int)below(ndim);
    p->keepdim = below(2);
}

/* One whose result is rounded. */
static void draw_rounded_reduction(plan *p)
{
    draw_reduction(p);
    p->roundings = 16;
}

static void draw_product(plan *p)
{
    int batch = (int)below(2);
    int64_t m = below(7), n = below(7), k = below(7), first[3] = { 3 }, second[3] = { 3 };
    p->first = below(2);
    p->second = below(2);
    first[batch] = p->first ? k : m;
    first[batch + 1] = p->first ? m : k;
    second[batch] = p->second ? n : k;
    second[batch + 1] = p->second ? k : n;
    weft_dtype dtype = any_float();
    add_input(p, dtype, batch + 2, first);
    add_input(p, dtype, batch + 2, second);
}

static void draw_lookup(plan *p)
{
    int64_t table[2] = { 1 + below(7), below(5) }, shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 2, 6, shape);
    add_input(p, any_float(), 2, table);
    add_indices(p, any_index(), ndim, shape, table[0]);
}

static void draw_lookup_backward(plan *p)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 2, 6, shape);
    p->dim = 1 + (int)below(7); /* rows of the table */
    shape[ndim] = below(5);
    add_input(p, any_float(), ndim + 1, shape);
    add_indices(p, any_index(), ndim, shape, p->dim);
}

static void draw_loss(plan *p)
{
    int64_t shape[2] = { 1 + below(8), 1 + below(6) };
    add_input(p, any_float(), 2, shape);
    add_indices(p, any_index(), 1, shape, shape[1]);
    p->roundings = 64;
}

static void draw_attention(plan *p)
{
    int64_t s = 1 + below(5), t = 1 + below(5), e = 1 + below(4), f = 1 + below(4);
    int64_t q[] = { 3, s, e }, k[] = { 3, t, e }, v[] = { 3, t, f };
    weft_dtype dtype = any_float();
    add_input(p, dtype, 3, q);
    add_input(p, dtype, 3, k);
    add_input(p, dtype, 3, v);
    p->first = below(2);
    p->roundings = 4096;
}

/* ---- the calls ----------------------------------------------------------------------------------------- */

CALL(add, weft_add(in[0], in[1]))
CALL(mul, weft_mul(in[0], in[1]))
CALL(maximum, weft_maximum(in[0], in[1]))
CALL(less, weft_lt(in[0], in[1]))
CALL(scale, weft_scale(in[0], -3))
CALL(relu, weft_relu(in[0]))
CALL(square, weft_square(in[0]))
CALL(addcmul, weft_addcmul(in[0], in[1], in[2], 2))
CALL(add_in_place, weft_add_inplace(in[0], in[1], 2))
CALL(mul_in_place, weft_mul_inplace(in[0], in[1]))
CALL(copy_in_place, weft_copy_inplace(in[0], in[1]))
CALL(sum, weft_sum(in[0], p->dim, p->keepdim))
CALL(mean, weft_mean(in[0], p->dim, p->keepdim))
CALL(prod, weft_prod(in[0], p->dim, p->keepdim))
CALL(max, weft_max(in[0], p->dim, p->keepdim))
CALL(any, weft_any(in[0], p->dim, p->keepdim))
CALL(sum_all, weft_sum(in[0], WEFT_ALL_DIMS, false))
CALL(norm, weft_norm(in[0], 2, p->dim, p->keepdim))
CALL(variance, weft_var(in[0], p->dim, 0, p->keepdim))
CALL(matmul, weft_matmul_ex(in[0], p->first, in[1], p->second))
CALL(embedding, weft_embedding(in[0], in[1]))
CALL(embedding_backward, weft_embedding_backward(in[0], in[1], p->dim))
CALL(cross_entropy, weft_cross_entropy(in[0], in[1], NULL))
CALL(cross_entropy_backward, weft_cross_entropy_backward(NULL, in[0], in[1]))

CALL(attention_backward_q, attention_gradient(p, in, 0))
CALL(attention_backward_k, attention_gradient(p, in, 1))
CALL(attention_backward_v, attention_gradient(p, in, 2))

static const program programs[] = {
    { THIS_ROW, "add", draw_two, call_add },
    { THIS_ROW, "mul", draw_two, call_mul },
    { THIS_ROW, "maximum", draw_two, call_maximum },
    { THIS_ROW, "lt", draw_two, call_less },
    { THIS_ROW, "scale", draw_one, call_scale },
    { THIS_ROW, "relu", draw_one, call_relu },
    { THIS_ROW, "square", draw_one, call_square },
    { THIS_ROW, "addcmul", draw_three, call_addcmul },
    { THIS_ROW, "add_inplace", draw_two_in_place, call_add_in_place },
    { THIS_ROW, "mul_inplace", draw_two_in_place, call_mul_in_place },
    { THIS_ROW, "copy_inplace", draw_two_in_place, call_copy_in_place },
    { THIS_ROW, "sum", draw_reduction, call_sum },
    { THIS_ROW, "mean", draw_rounded_reduction, call_mean },
    { THIS_ROW, "prod", draw_reduction, call_prod },
    { THIS_ROW, "max", draw_reduction, call_max },
    { THIS_ROW, "any", draw_reduction, call_any },
    { THIS_ROW, "sum_all", draw_one, call_sum_all },
    { THIS_ROW, "norm", draw_rounded_reduction, call_norm },
    { THIS_ROW, "variance", draw_rounded_reduction, call_variance },
    { THIS_ROW, "matmul", draw_product, call_matmul },
    { THIS_ROW, "embedding", draw_lookup, call_embedding },
    { THIS_ROW, "embedding_backward", draw_lookup_backward, call_embedding_backward },
    { THIS_ROW, "cross_entropy", draw_loss, call_cross_entropy },
    { THIS_ROW, "cross_entropy_backward", draw_loss, call_cross_entropy_backward },
    { THIS_ROW, "attention", draw_attention, call_attention },
    { THIS_ROW, "attention_backward of q", draw_attention, call_attention_backward_q },
    { THIS_ROW, "attention_backward of k", draw_attention, call_attention_backward_k },
    { THIS_ROW, "attention_backward of v", draw_attention, call_attention_backward_v },
};

/* ---- one call in all ways ------------------------------------------------------------------------------ */

static long forced_count, impossible_count;

/* The result on one rank. */
typedef struct answer {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    double *values;
    double magnitude;
} answer;

static answer answer_alone(const program *run, const plan *p, const operand operands[])
{
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    weft_tensor *in[MAX_OPERANDS];
    for (int i = 0; i < p->num_inputs; i++) {
        operand alone = operands[i];
        alone.mesh = mesh;
        alone.placements[0] = weft_replicate();
        realise(&alone);
        in[i] = alone.tensor;
    }
    weft_tensor *result = run->call(p, in);
    assert_no_error();
    answer a = { .dtype = weft_tensor_dtype(result), .ndim = weft_tensor_ndim(result), .magnitude = 1 };
    for (int d = 0; d < a.ndim; d++) {
        a.shape[d] = weft_tensor_size(result, d);
    }
    int64_t count = shape_count(a.ndim, a.shape);
    a.values = malloc(((size_t)count + 1) * sizeof(*a.values));
    assert_int_equal(
        weft_to_host(weft_to_type(result, WEFT_F64), a.values, (size_t)count * sizeof(*a.values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        a.magnitude = fmax(a.magnitude, fabs(a.values[i]));
    }
    return a;
}

/* The call with this combination. Returns how many there are. */
static int64_t run_forced(const program *run, const plan *p, operand operands[], const answer *expected,
                          int64_t combination)
{
    weft_tensor *in[MAX_OPERANDS];
    bool exact = p->roundings == 0;
    char what[900];
    int used = snprintf(what, sizeof(what), "%s:%d: %s, combination %d:", run->place.file, run->place.line,
                        run->name, (int)combination);
    for (int i = 0; i < p->num_inputs; i++) {
        realise(&operands[i]);
        in[i] = operands[i].tensor;
        exact &= operands[i].exact;
        used += snprintf(what + used, sizeof(what) - (size_t)used, " %s", describe_operand(&operands[i]));
    }
    int64_t combinations;
    weft_tensor *result = call_forced(run, p, in, combination, &combinations);
    if (result == NULL) {
        impossible_count++;
        return combinations;
    }
    assert_int_equal(weft_tensor_dtype(result), expected->dtype);
    check(weft_to_type(result, WEFT_F64), WEFT_F64, expected->ndim, expected->shape, expected->values,
          exact ? 0 : (p->roundings + 16) * 0x1p29, expected->magnitude, what); /* of f32 */
    forced_count++;
    return combinations;
}

/* Targets of operations in place stay as they are, which leaves little to one that is Partial. */
static void reduce_target(operand *target)
{
    for (int m = 0; m < weft_mesh_ndim(target->mesh); m++) {
        if (target->placements[m].kind == WEFT_PARTIAL) {
            target->placements[m] = weft_replicate();
        }
    }
}

static void run_case(const program *run)
{
    plan p = { .num_inputs = 0 };
    run->draw(&p);
    weft_mesh *mesh = any_mesh();
    operand operands[MAX_OPERANDS];
    for (int i = 0; i < p.num_inputs; i++) {
        operands[i] = make_operand(mesh, p.inputs[i].dtype, p.inputs[i].ndim, p.inputs[i].shape,
                                   p.inputs[i].limit > 0 ? INDEX : WHOLE, p.inputs[i].limit);
    }
    if (p.in_place) {
        reduce_target(&operands[0]);
    }
    answer expected = answer_alone(run, &p, operands);
    int64_t combinations = run_forced(run, &p, operands, &expected, 0);
    bool all = combinations <= MAX_FORCED;
    for (int64_t i = 1; i < (all ? combinations : MAX_FORCED); i++) {
        run_forced(run, &p, operands, &expected, all ? i : below(combinations));
    }
    free(expected.values);
    for (int i = 0; i < p.num_inputs; i++) {
        release(&operands[i]);
    }
}

/* ---- the suites ---------------------------------------------------------------------------------------- */

static void run_programs(const char *panel_rows, uint64_t seed)
{
    start_world(panel_rows == NULL ? NULL : "WEFT_PANEL_ROWS", panel_rows);
    source = prng_start(seed);
    forced_count = impossible_count = 0;
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        for (int k = 0; k < share_of(CASES); k++) {
            weft_scope_begin();
            run_case(&programs[i]);
            weft_scope_end();
        }
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
    print_message("# %ld combinations forced, %ld impossible\n", forced_count, impossible_count);
    assert_true(forced_count > 10 * impossible_count);
}

static void test_panels_by_default(void **state)
{
    (void)state;
    run_programs(NULL, 21);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_programs("1", 22);
}

/* Forced choices are not cached: afterwards the cheapest is found again; meanwhile nothing is looked up. */
static void test_nothing_is_kept(void **state)
{
    (void)state;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;
    assert_int_equal(weft_init(&config), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    weft_placement sharded = weft_shard(0);
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 8, 4 }, mesh, &sharded);
    assert_int_equal(weft_tensor_placements(weft_relu(a))[0].kind, WEFT_SHARD);
    weft_dispatch_force(0);
    weft_relu(a);
    int64_t combinations = weft_dispatch_force(0);
    assert_in_range(combinations, 2, 10);
    weft_dispatch_force(combinations - 1); /* all Replicate is the last */
    assert_int_equal(weft_tensor_placements(weft_relu(a))[0].kind, WEFT_REPLICATE);
    weft_dispatch_force(-1);
    assert_int_equal(weft_tensor_placements(weft_relu(a))[0].kind, WEFT_SHARD);
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_kept),
        cmocka_unit_test(test_panels_by_default),
        cmocka_unit_test(test_panels_of_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
