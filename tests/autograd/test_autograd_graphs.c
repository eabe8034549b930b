/* Graphs of unusual form: losses that share values, some of them released; segments that detach, that do not record, that
 * return their inputs. */
#include "autograd_support.h"

#include "runtime/pool.h"
#include "tensor/state.h"

static weft_tensor *sum_all(weft_tensor *a)
{
    return weft_sum(a, WEFT_ALL_DIMS, false);
}

/* Two losses share h. The first one is gone before the second one's pass. */
static void test_losses_that_share_values(void **state)
{
    (void)state;
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int l = 0; l < 3; l++) {
        weft_scope_begin();
        weft_tensor *a = leaf_of(line(), &layouts[l], 4), *h = weft_exp(weft_scale(weft_square(a), 0));
        weft_tensor *shared = weft_mul(weft_square(a), h);
        weft_scope_begin();
        weft_tensor *first = sum_all(weft_scale(shared, 3));
        const weft_backward_options retain = { .retain = true };
        assert_int_equal(weft_backward(first, &retain), WEFT_OK);
        assert_int_equal(weft_backward(first, &retain), WEFT_OK);
        weft_scope_end();
        assert_all(weft_grad(a), 12);
        weft_tensor *second = sum_all(shared);
        assert_int_equal(weft_backward(second, NULL), WEFT_OK);
        assert_all(weft_grad(a), 14);
        /* A pass over nodes that the second pass has released is refused, and changes nothing. */
        assert_int_equal(weft_backward(sum_all(weft_square(shared)), NULL), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "released by a former backward pass");
        assert_all(weft_grad(a), 14);
        weft_scope_end();
        assert_no_error();
    }
}

/* A loss that nobody differentiates takes its part of the tape along. */
static void test_losses_that_are_released(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), NULL, 4), *h = weft_tanh(weft_scale(a, 0));
    weft_wait();
    size_t live = weft_runtime.handles.tensors.num_objects;
    int64_t bytes = (int64_t)weft_pool_bytes_in_use(weft_runtime.pool);
    for (int i = 0; i < 50; i++) {
        weft_scope_begin();
        sum_all(weft_softmax(weft_exp(h), 1));
        weft_scope_end();
        weft_wait();
        assert_int_equal(weft_runtime.handles.tensors.num_objects, live);
        assert_int_equal(weft_pool_bytes_in_use(weft_runtime.pool), bytes);
    }
    assert_int_equal(weft_backward(sum_all(weft_scale(h, 2)), NULL), WEFT_OK);
    assert_all(weft_grad(a), 0);
    weft_scope_end();
    assert_no_error();
}

/* ---- segments ------------------------------------------------------------------------------------------------ */

typedef enum form { NO_GRAD_INSIDE, DETACHED, DETACHED_INSIDE, INPUT_ITSELF, LEAF_ITSELF, TWICE_THE_SAME, NUM_FORMS } form;

typedef struct segment {
    form form;
    weft_tensor *leaf;
} segment;

static weft_status run(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs, weft_tensor *outputs[])
{
    const segment *s = context;
    weft_tensor *x = inputs[0], *square;
    (void)num_inputs;
    switch (s->form) {
    case NO_GRAD_INSIDE:
        weft_no_grad_begin();
        square = weft_square(x);
        weft_no_grad_end();
        outputs[0] = weft_mul(x, square);
        break;
    case DETACHED:
        outputs[0] = weft_detach(weft_square(x));
        break;
    case DETACHED_INSIDE:
        outputs[0] = weft_mul(x, weft_detach(weft_square(x)));
        break;
    case INPUT_ITSELF:
        outputs[0] = x;
        break;
    case LEAF_ITSELF:
        outputs[0] = s->leaf;
        break;
    default:
        outputs[0] = weft_square(x);
        break;
    }
    outputs[num_outputs - 1] = outputs[0];
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

/* The gradient of the sum of the output by x, which is 1, and by the leaf. */
static void check_form(form f, int num_outputs)
{
    static const double by_x[NUM_FORMS] = { 1, 0, 1, 1, 0, 2 };
    weft_placement rows = weft_shard(0);
    weft_scope_begin();
    weft_tensor *a = leaf_of(line(), &rows, 4), *leaf = leaf_of(line(), &rows, 4), *in[] = { weft_scale(a, 1) }, *out[2];
    segment s = { f, leaf };
    assert_int_equal(weft_recompute(run, &s, sizeof(s), 1, in, num_outputs, out), WEFT_OK);
    weft_tensor *loss = weft_add(sum_all(out[num_outputs - 1]), sum_all(weft_add(weft_scale(a, 0), weft_scale(leaf, 0))));
    assert_int_equal(weft_backward(loss, NULL), WEFT_OK);
    assert_all(weft_grad(a), by_x[f]);
    assert_all(weft_grad(leaf), f == LEAF_ITSELF);
    weft_scope_end();
    assert_no_error();
}

static void test_forms_of_segments(void **state)
{
    (void)state;
    for (form f = 0; f < NUM_FORMS; f++) {
        check_form(f, 1);
        check_form(f, 2);
    }
}

/* ---- twice through what moves, converts and computes again ----------------------------------------------------- */

/* sum (x^2 in another layout, or type)^2: 4 x^3, and 12 x^2. */
static void test_second_through_layouts_and_types(void **state)
{
    (void)state;
    const weft_placement layouts[] = { weft_replicate(), weft_shard(0), weft_shard(1) };
    for (int from = 0; from < 3; from++) {
        for (int to = 0; to < 3; to++) {
            for (int cast = 0; cast < 2; cast++) {
                weft_scope_begin();
                weft_tensor *a = leaf_of(line(), &layouts[from], 4), *first, *second;
                weft_tensor *moved = weft_redistribute(weft_square(a), NULL, &layouts[to]);
                moved = cast ? weft_to_type(weft_to_type(moved, WEFT_F32), WEFT_F64) : moved;
                weft_tensor *loss = sum_all(weft_square(moved));
                assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, true, &first), WEFT_OK);
                assert_all(first, 4);
                loss = sum_all(weft_redistribute(first, NULL, &layouts[to]));
                assert_int_equal(weft_gradients(1, &loss, NULL, 1, &a, true, &second), WEFT_OK);
                assert_all(second, 12);
                assert_int_equal(weft_backward(sum_all(second), NULL), WEFT_OK);
                assert_all(weft_grad(a), 24);
                weft_scope_end();
                assert_no_error();
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_that_share_values),
        cmocka_unit_test(test_losses_that_are_released),
        cmocka_unit_test(test_forms_of_segments),
        cmocka_unit_test(test_second_through_layouts_and_types),
    };
    return RUN_ON_RANKS(tests);
}
