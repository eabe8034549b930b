/* Leaves of the tape: their gradients and hooks, refusals, and memory of the program. */
#include <math.h>
#include <stdlib.h>

#include "autograd_support.h"

enum { RANKS = 4 };

static void test_e5_leaves(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_placement rows = weft_shard(0);
    weft_tensor *a = leaf_of(line(), &rows, 5), *b = leaf_of(line(), NULL, 5);
    weft_tensor *whole = weft_zeros(WEFT_I64, 1, (int64_t[]){ 3 }, line(), NULL);
    assert_true(weft_is_leaf(a) && weft_requires_grad(a));
    assert_null(weft_grad(a));
    assert_no_error();
    assert_int_equal(weft_set_requires_grad(whole, true), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "weft_set_requires_grad: leaf is i64");
    weft_tensor *c = weft_add(a, b);
    assert_int_equal(weft_set_requires_grad(c, true), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "computed from leaves");
    assert_null(weft_grad(c));
    assert_error(WEFT_ERR_INVALID, "weft_gradients()");
    assert_null(weft_grad(whole));
    assert_error(WEFT_ERR_INVALID, "requires no gradient");

    /* Two leaves get one gradient; a change of one does not show in the other. */
    assert_int_equal(weft_backward(weft_sum(c, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(a), 1);
    assert_all(weft_grad(b), 1);
    weft_scale_inplace(weft_grad(a), 3);
    assert_all(weft_grad(a), 3);
    assert_all(weft_grad(b), 1);

    /* Gradients are added up until they are dropped. */
    assert_int_equal(weft_backward(weft_sum(weft_mul(a, b), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(a), 4);
    assert_all(weft_grad(b), 2);
    assert_int_equal(weft_zero_grad(2, (weft_tensor *[]){ a, b }), WEFT_OK);
    assert_null(weft_grad(a));

    /* A leaf as a loss. */
    weft_tensor *one = weft_full(WEFT_F64, 3, 0, NULL, line(), NULL);
    weft_set_requires_grad(one, true);
    assert_int_equal(weft_backward(one, NULL), WEFT_OK);
    assert_all(weft_grad(one), 1);

    /* A constant again. */
    assert_int_equal(weft_set_requires_grad(a, false), WEFT_OK);
    assert_false(weft_requires_grad(a) || weft_requires_grad(weft_exp(a)));
    weft_scope_end();
    assert_no_error();
}

static void test_refusals(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), NULL, 4), *constant = weft_ones_like(a);
    assert_int_equal(weft_backward(constant, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_backward: loss requires no gradient");
    assert_int_equal(weft_backward(a, NULL), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "loss has 12 elements");

    /* In place on a leaf. */
    assert_null(weft_scale_inplace(a, 2));
    assert_error(WEFT_ERR_STATE, "is a leaf");
    assert_null(weft_copy_inplace(a, constant));
    assert_error(WEFT_ERR_STATE, "is a leaf");
    weft_no_grad_begin();
    assert_non_null(weft_scale_inplace(a, 2));
    assert_false(weft_requires_grad(weft_exp(a)));
    weft_no_grad_end();
    assert_true(weft_is_leaf(a));
    weft_no_grad_end();
    assert_error(WEFT_ERR_STATE, "weft_no_grad_begin() is open");

    /* Twice. */
    weft_tensor *loss = weft_sum(weft_exp(a), WEFT_ALL_DIMS, false);
    weft_backward_options options = { .retain = true };
    assert_int_equal(weft_backward(loss, &options), WEFT_OK);
    assert_all(weft_grad(a), exp(2));
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_all(weft_grad(a), 2 * exp(2));
    assert_int_equal(weft_backward(loss, NULL), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "released by a former backward pass");
    assert_all(weft_grad(a), 2 * exp(2));

    /* A gradient of another shape, or type. */
    weft_tensor *b = weft_exp(a);
    assert_int_equal(weft_backward(b, &(weft_backward_options){ .output_gradient = loss }), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "output_gradient");
    assert_int_equal(
        weft_backward(b, &(weft_backward_options){ .output_gradient = weft_to_type(constant, WEFT_F32) }),
        WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "output_gradient");
    weft_scope_end();
    assert_no_error();
}

/* Memory of the program cannot be shared: what gradients read is copied. */
static void test_borrowed_memory(void **state)
{
    (void)state;
    enum { COUNT = 12 };
    static double memory[RANKS][COUNT];
    void *locals[RANKS];
    weft_scope_begin();
    for (int r = 0; r < weft_local_ranks(); r++) {
        locals[r] = memory[r];
        for (int i = 0; i < COUNT; i++) {
            memory[r][i] = 2;
        }
    }
    weft_tensor *a = weft_from_local(WEFT_F64, 2, (int64_t[]){ 4, 3 }, locals, line(), NULL, 0);
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    assert_int_equal(weft_backward(weft_sum(weft_mul(a, a), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(a), 4);
    weft_tensor *loss = weft_sum(weft_mul(a, a), WEFT_ALL_DIMS, false);
    weft_no_grad_begin();
    weft_scale_inplace(a, 2);
    weft_no_grad_end();
    weft_local_acquire(a, 0, WEFT_READ_WRITE);
    weft_local_release(a, 0);
    weft_zero_grad(1, &a);
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_all(weft_grad(a), 4);
    weft_tensor *b = leaf_of(line(), NULL, 4);
    weft_tensor *c = weft_detach(a);
    weft_wait(); /* `a` is on the same memory */
    weft_tensor *borrowed = weft_from_local(WEFT_F64, 2, (int64_t[]){ 4, 3 }, locals, line(), NULL, 0);
    weft_mul_inplace(borrowed, b);
    assert_int_equal(weft_backward(weft_sum(borrowed, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_all(weft_grad(b), 4);
    assert_all(c, 4);
    weft_wait();
    weft_scope_end();
    weft_wait();
    assert_no_error();
}

/* ---- hooks ------------------------------------------------------------------------------------------------ */

typedef struct order {
    int calls;
    weft_tensor *leaves[8];
    weft_status answer;
} order;

static weft_status note(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    order *o = context;
    o->leaves[o->calls++] = leaf;
    if (weft_grad(leaf) != gradient) {
        return WEFT_ERR_INVALID;
    }
    /* A step in the hook: neither recorded, nor refused. */
    weft_add_inplace(leaf, gradient, -0.5);
    return o->answer;
}

static void test_hooks(void **state)
{
    (void)state;
    weft_scope_begin();
    order o = { .answer = WEFT_OK };
    weft_tensor *a = leaf_of(line(), NULL, 2), *b = leaf_of(line(), NULL, 2), *c = leaf_of(line(), NULL, 2);
    weft_tensor *leaves[] = { a, b, c };
    for (int i = 0; i < 3; i++) {
        weft_set_grad_hook(leaves[i], note, &o);
    }
    /* b is used first and last: its gradient is complete after the others'. */
    weft_tensor *early = weft_mul(weft_scale(b, 2), a), *late = weft_mul(c, b);
    assert_int_equal(weft_backward(weft_sum(weft_mul(early, late), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_int_equal(o.calls, 3);
    assert_ptr_equal(o.leaves[0], c);
    assert_ptr_equal(o.leaves[1], a);
    assert_ptr_equal(o.leaves[2], b);
    assert_all(a, 0);
    assert_all(b, -1);
    o = (order){ .answer = WEFT_ERR_IO };
    assert_int_equal(weft_backward(weft_sum(weft_mul(a, b), WEFT_ALL_DIMS, false), NULL), WEFT_ERR_IO);
    assert_error(WEFT_ERR_IO, "hook");
    assert_int_equal(o.calls, 1);
    weft_scope_end();
    assert_no_error();
}

/* A step in a hook: the tape has given up its share of the leaf, so that nothing is copied. */
static weft_status step(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    weft_tensor **moments = context;
    const weft_adam_options options = WEFT_ADAMW_DEFAULT;
    return weft_adamw(1, &leaf, &gradient, &moments[0], &moments[1], 1, &options);
}

static const void *memory_of(weft_tensor *tensor)
{
    const void *memory = weft_local_acquire(tensor, 0, WEFT_READ);
    weft_local_release(tensor, 0);
    return memory;
}

static void test_steps_in_hooks_copy_nothing(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F64, 2, (int64_t[]){ 8, 8 }, line(), NULL), *w[3], *moments[3][2];
    const void *memory[3][3];
    for (int i = 0; i < 3; i++) {
        w[i] = weft_full(WEFT_F64, 0.1, 2, (int64_t[]){ 8, 8 }, line(), NULL);
        moments[i][0] = weft_zeros_like(w[i]);
        moments[i][1] = weft_zeros_like(w[i]);
        weft_set_requires_grad(w[i], true);
        weft_set_grad_hook(w[i], step, moments[i]);
        memory[i][0] = memory_of(w[i]);
        memory[i][1] = memory_of(moments[i][0]);
        memory[i][2] = memory_of(moments[i][1]);
    }
    for (int n = 0; n < 3; n++) {
        weft_scope_begin();
        weft_tensor *h = x;
        for (int i = 0; i < 3; i++) {
            h = weft_tanh(weft_matmul(h, weft_mul(w[i], w[i])));
        }
        assert_int_equal(weft_backward(weft_sum(h, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        assert_int_equal(weft_zero_grad(3, w), WEFT_OK);
        weft_scope_end();
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(memory_of(w[i]), memory[i][0]);
            assert_ptr_equal(memory_of(moments[i][0]), memory[i][1]);
            assert_ptr_equal(memory_of(moments[i][1]), memory[i][2]);
        }
    }
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_e5_leaves),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_borrowed_memory), cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_steps_in_hooks_copy_nothing),
    };
    return RUN_ON_RANKS(tests);
}
