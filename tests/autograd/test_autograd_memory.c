/* Memory that runs out: whichever allocation fails of a step of training, the step fails with WEFT_ERR_NOMEM or computes
 * the right gradients, nothing is lost, and the next step is right. */
#include "autograd_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_memory.h"
#include "runtime/pool.h"
#include "tensor/state.h"

/* ---- allocations that fail (--wrap) ---------------------------------------------------------------------- */

static _Thread_local bool watched; /* the submitting thread */
static int64_t countdown;          /* allocations until one fails; 0: none does */
static bool more;                  /* all that follow fail as well */
static int64_t failed;

bool allocation_fails(void)
{
    if (!watched || countdown == 0 || --countdown > 0) {
        return false;
    }
    failed++;
    countdown = more;
    return true;
}

/* ---- steps ------------------------------------------------------------------------------------------------ */

enum { LEAVES = 3, SIZE = 8, ELEMENTS = SIZE * SIZE };

static weft_tensor *leaves[LEAVES];

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

static weft_status pass_over(weft_tensor *loss)
{
    return loss == NULL ? weft_last_status() : weft_backward(loss, NULL);
}

static weft_status plain(void)
{
    weft_tensor *h = weft_gelu(weft_matmul(leaves[0], leaves[1]));
    weft_tensor *y = weft_softmax(weft_add(h, leaves[2]), 1);
    return pass_over(sum_all(weft_mul(y, weft_slice(leaves[0], 1, 0, SIZE, 1))));
}

/* Sums in several layouts, slices, outputs that are not asked for, changes in place. */
static weft_status sums(void)
{
    weft_tensor *parts[3] = { NULL };
    if (weft_split(leaves[0], 3, (int64_t[]){ 2, 3, 3 }, 0, parts) != WEFT_OK) {
        return weft_last_status();
    }
    weft_tensor *rows = weft_redistribute(leaves[1], NULL, (weft_placement[]){ weft_shard(1) });
    weft_tensor *most = weft_max_with_indices(weft_mul(rows, leaves[0]), 1, false, NULL);
    weft_tensor *cat = weft_cat(3, (weft_tensor *[]){ parts[2], parts[1], parts[0] }, 0);
    weft_tensor *changed = cat == NULL ? NULL : weft_mul_inplace(cat, leaves[2]);
    weft_tensor *whole = weft_redistribute(changed, NULL, (weft_placement[]){ weft_replicate() });
    return pass_over(weft_add(sum_all(most), sum_all(weft_mul(whole, weft_square(rows)))));
}

static weft_status block(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    (void)context;
    (void)num_inputs;
    (void)num_outputs;
    outputs[0] = weft_tanh(weft_matmul(weft_dropout(inputs[0], 0.25, true, NULL), leaves[1]));
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static weft_status recomputed(void)
{
    weft_tensor *h = leaves[0];
    weft_random_seed(7);
    for (int i = 0; i < 2; i++) {
        weft_tensor *in[] = { h }, *out[] = { NULL };
        if (weft_recompute(block, NULL, 0, 1, in, 1, out) != WEFT_OK) {
            return weft_last_status();
        }
        h = out[0];
    }
    return pass_over(sum_all(weft_mul(h, leaves[2])));
}

static weft_status cast(void)
{
    if (weft_autocast_begin(WEFT_BF16) != WEFT_OK) {
        return weft_last_status();
    }
    weft_tensor *h = weft_matmul(weft_matmul(leaves[0], leaves[1]), leaves[1]);
    weft_tensor *loss = h == NULL ? NULL : sum_all(weft_mul(weft_matmul(h, leaves[2]), weft_to_type(h, WEFT_F32)));
    weft_status status = loss == NULL ? weft_last_status() : WEFT_OK;
    weft_autocast_end();
    return status == WEFT_OK ? weft_backward(loss, NULL) : status;
}

static weft_status twice(void)
{
    weft_tensor *loss = sum_all(weft_mul(weft_tanh(weft_matmul(leaves[0], leaves[1])), leaves[2]));
    weft_tensor *gradients[2], *inputs[] = { leaves[0], leaves[1] };
    if (loss == NULL || weft_gradients(1, &loss, NULL, 2, inputs, true, gradients) != WEFT_OK) {
        return weft_last_status();
    }
    return pass_over(weft_add(sum_all(weft_square(gradients[0])), sum_all(weft_square(gradients[1]))));
}

static weft_status (*const steps[])(void) = { plain, sums, recomputed, cast, twice };
static const char *const names[] = { "plain", "sums", "recomputed", "cast", "twice" };

/* ---- the test -------------------------------------------------------------------------------------------- */

static void read_gradients(float values[LEAVES][ELEMENTS])
{
    memset(values, 0, LEAVES * sizeof(values[0]));
    for (int i = 0; i < LEAVES; i++) {
        weft_tensor *gradient = weft_grad(leaves[i]);
        if (gradient != NULL) {
            assert_int_equal(weft_to_host(gradient, values[i], sizeof(values[i])), WEFT_OK);
        }
    }
}

typedef struct held {
    size_t tensors;
    int64_t bytes;
} held;

/* After everything is released and has run. */
static held in_use(void)
{
    weft_zero_grad(LEAVES, leaves);
    weft_wait();
    assert_no_error();
    return (held){ (size_t)weft_runtime.handles.tensors.num_objects, (int64_t)weft_pool_bytes_in_use(weft_runtime.pool) };
}

static void expect_right(int step, float expected[LEAVES][ELEMENTS], int64_t number)
{
    float found[LEAVES][ELEMENTS];
    read_gradients(found);
    if (memcmp(found, expected, sizeof(found)) != 0) {
        fail_msg("%s: gradients are wrong, allocation %d", names[step], (int)number);
    }
}

/* Whether there was such an allocation. */
static bool fail_at(int step, int64_t number, float expected[LEAVES][ELEMENTS], const held *before)
{
    int64_t earlier = failed;
    weft_scope_begin();
    countdown = number;
    weft_status status = steps[step]();
    countdown = 0;
    bool had = failed > earlier;
    if (status == WEFT_OK && weft_last_status() == WEFT_OK) {
        expect_right(step, expected, number);
    } else {
        if (!had || weft_last_status() != WEFT_ERR_NOMEM || status != WEFT_ERR_NOMEM) {
            fail_msg("%s, allocation %d: status %d, %s", names[step], (int)number, (int)status, weft_last_error());
        }
        weft_clear_error();
    }
    weft_scope_end();
    held now = in_use();
    if (now.tensors != before->tensors || now.bytes != before->bytes) {
        fail_msg("%s, allocation %d: %d tensors and %d bytes are left", names[step], (int)number,
                 (int)(now.tensors - before->tensors), (int)(now.bytes - before->bytes));
    }
    return had;
}

static void run_step(int step, float values[LEAVES][ELEMENTS])
{
    weft_scope_begin();
    if (steps[step]() != WEFT_OK) {
        fail_msg("%s: %s", names[step], weft_last_error());
    }
    read_gradients(values);
    weft_scope_end();
}

static void make_leaves(void)
{
    const weft_placement layouts[LEAVES] = { weft_shard(0), weft_replicate(), weft_shard(1) };
    weft_random_seed(3);
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = weft_randn(WEFT_F32, 2, (int64_t[]){ SIZE, SIZE }, line(), &layouts[i]);
        assert_int_equal(weft_set_requires_grad(leaves[i], true), WEFT_OK);
    }
}

static void run_out(bool all)
{
    watched = true;
    more = all;
    for (int step = 0; step < (int)(sizeof(steps) / sizeof(steps[0])); step++) {
        float expected[LEAVES][ELEMENTS], again[LEAVES][ELEMENTS];
        make_leaves();
        run_step(step, expected);
        in_use();
        run_step(step, again);
        assert_memory_equal(expected, again, sizeof(again));
        held before = in_use();
        int64_t number = 1;
        while (fail_at(step, number, expected, &before)) {
            number++;
            if (number % 10 == 0) {
                run_step(step, again);
                assert_memory_equal(expected, again, sizeof(again));
                in_use();
            }
        }
        print_message("# %s: %d allocations\n", names[step], (int)number - 1);
        for (int i = 0; i < LEAVES; i++) {
            weft_tensor_release(leaves[i]);
        }
    }
    watched = false;
}

static void test_one_allocation_fails(void **state)
{
    (void)state;
    run_out(false);
}

static void test_all_allocations_fail(void **state)
{
    (void)state;
    run_out(true);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_allocation_fails),
        cmocka_unit_test(test_all_allocations_fail),
    };
    return RUN_ON_RANKS(tests);
}
