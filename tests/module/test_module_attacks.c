/* Modules in unusual hands: odd names and shared children, deep and wide trees, forward functions and hooks that fail midway.
 * Each is refused with a status and a message, or works; nothing is left behind, and the next pass is as the first. */
#include "printed.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/pool.h"
#include "runtime/runtime.h"
#include "tensor/state.h"

enum { RANKS = 4, DEPTH = 300, WIDTH = 8 };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, (const char *[]){ "dp" });
    weft_mesh_push(mesh);
    return 0;
}

/* What the library holds. */
typedef struct holdings {
    int64_t bytes;
    int tensors;
    size_t scopes;
} holdings;

static holdings held(void)
{
    holdings h = { weft_pool_bytes_in_use(weft_runtime.pool), 0, weft_runtime.tensors->scopes.count };
    for (const weft_tensor_impl *t = weft_runtime.tensors->newest; t != NULL; t = t->older) {
        h.tensors++;
    }
    return h;
}

static void assert_nothing_left(const char *what, holdings before)
{
    holdings now = held();
    if (now.bytes != before.bytes || now.tensors != before.tensors || now.scopes != before.scopes) {
        fail_msg("%s: %lld bytes, %d tensors and %d scopes were held, and %lld, %d and %d are", what, (long long)before.bytes,
                 before.tensors, (int)before.scopes, (long long)now.bytes, now.tensors, (int)now.scopes);
    }
}

/* ---- names ------------------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    enum { LONG = 5000 };
    static char longest[LONG + 1];
    memset(longest, 'n', LONG);
    const char *const right[] = { " ", "%s%n", "a b\tc", "\xc3\xa4", "*", "?", "-", "0", "[1]", "\"", longest };
    const char *const wrong[] = { "", ".", "a.b", ".a", "a.", "..", NULL };
    enum { RIGHT = sizeof(right) / sizeof(*right) };
    holdings before = held();
    weft_scope_begin();
    weft_module *root = weft_module_create("%s%d"), *spare = weft_module_create("spare");
    for (int i = 0; i < RIGHT; i++) {
        weft_module *child = weft_module_create(right[i]);
        assert_int_equal(weft_module_add_child(root, right[i], child), WEFT_OK);
        assert_int_equal(weft_module_add_parameter(child, right[i], weft_full(WEFT_F32, i, 0, NULL, NULL, NULL)), WEFT_OK);
        assert_ptr_equal(weft_module_child(root, right[i]), child);
    }
    const char *names[RIGHT];
    weft_tensor *tensors[RIGHT];
    assert_int_equal(weft_module_parameters(root, RIGHT, names, tensors), RIGHT);
    for (int i = 0; i < RIGHT; i++) {
        double value;
        assert_ptr_equal(weft_module_parameter(root, names[i]), tensors[i]);
        assert_int_equal(weft_tensor_item(tensors[i], &value), WEFT_OK);
        assert_true(value == i);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(weft_module_add_child(root, wrong[i], spare), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "name is ");
        assert_int_equal(weft_module_add_buffer(root, wrong[i], tensors[0]), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, "name is ");
    }
    static char text[8 * LONG];
    PRINT_INTO(text, weft_module_print(root, file));
    assert_non_null(strstr(text, "  %s%n: %s%n\n    %s%n: f32[] [R] on 4"));
    assert_true(strlen(text) > 3 * LONG);
    /* A message on the longest path ends somewhere, and is one. */
    assert_null(weft_module_parameter(weft_module_child(root, longest), "none"));
    assert_error(WEFT_ERR_INVALID, "none");
    assert_int_equal(weft_parallelize(root, mesh, 1, &(weft_parallel){ longest, WEFT_PARALLEL_DATA, NULL, NULL, NULL, NULL }),
                     WEFT_OK);
    weft_module_destroy(spare);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
    assert_nothing_left("names", before);
}

/* ---- shared children --------------------------------------------------------------------------------------- */

static void test_a_module_has_one_place(void **state)
{
    (void)state;
    holdings before = held();
    weft_module *root = weft_module_create("root"), *other = weft_module_create("other"), *shared = weft_module_create("shared");
    assert_int_equal(weft_module_add_child(root, "a", shared), WEFT_OK);
    weft_module *const parents[] = { root, other, shared };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_module_add_child(parents[i], "b", shared), WEFT_ERR_STATE);
        assert_error(WEFT_ERR_STATE, "a");
    }
    assert_int_equal(weft_module_add_child(root, "itself", root), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "root of the tree");
    assert_int_equal(weft_module_add_child(shared, "up", root), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "root of the tree");
    assert_int_equal(weft_module_add_child(root, "a", other), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "\"a\"");
    assert_int_equal(weft_module_modules(root, 0, NULL, NULL), 2);
    assert_int_equal(weft_module_modules(other, 0, NULL, NULL), 1);
    assert_int_equal(weft_module_destroy(shared), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "a");
    weft_module_destroy(root);
    assert_int_equal(weft_module_add_child(other, "gone", shared), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "child");
    weft_module_destroy(other);
    assert_no_error();
    assert_nothing_left("shared children", before);
}

/* ---- deep trees -------------------------------------------------------------------------------------------- */

/* A chain downwards; it is built from the bottom, so that each addition renames all below. */
static weft_module *chain_of(weft_forward_function forward, void *context)
{
    weft_module *top = NULL;
    for (int i = 0; i < DEPTH; i++) {
        weft_module *above = weft_module_create("level");
        weft_module_add_parameter(above, "w", weft_full(WEFT_F32, i, 1, (int64_t[]){ WIDTH }, NULL, NULL));
        weft_module_set_forward(above, forward, context);
        if (top != NULL) {
            assert_int_equal(weft_module_add_child(above, "c", top), WEFT_OK);
        }
        top = above;
    }
    return top;
}

static void test_deep_trees(void **state)
{
    (void)state;
    holdings before = held();
    weft_scope_begin();
    weft_module *root = chain_of(NULL, NULL);
    const char *names[DEPTH];
    weft_tensor *weights[DEPTH];
    assert_int_equal(weft_module_parameters(root, DEPTH, names, weights), DEPTH);
    assert_int_equal(strlen(names[DEPTH - 1]), 2 * (DEPTH - 1) + 1);
    assert_ptr_equal(weft_module_parameter(root, names[DEPTH - 1]), weights[DEPTH - 1]);
    /* Each level is two lines, the last one DEPTH levels to the right. */
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_int_equal(weft_module_print(root, file), WEFT_OK);
    fclose(file);
    assert_int_equal(count_in(text, "\n"), 2 * DEPTH);
    const char *last = strrchr(text, 'w');
    assert_true(last - 2 * DEPTH > text && last[-2 * DEPTH] == ' ' && last[-2 * DEPTH - 1] == '\n');
    free(text);
    const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, NULL, NULL, NULL, NULL } };
    assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
    assert_nothing_left("deep trees", before);
}

/* ---- passes that fail -------------------------------------------------------------------------------------- */

typedef enum mistake { NONE, RETURNS_ERROR, CALL_FAILS, LEAVES_NULL, GIVES_A_DEAD_TENSOR, OPENS_NO_GRAD, OPENS_AUTOCAST,
                       CLOSES_NO_GRAD, CLOSES_AUTOCAST, OPENS_AND_FAILS, BAD_HOOK_BEFORE, BAD_HOOK_AFTER, HOOK_LEAVES_NULL,
                       HOOK_OPENS, NUM_MISTAKES } mistake;

/* The mistake is made at a level of the chain. */
typedef struct plan_of_mistakes {
    mistake which;
    int level, at; /* `at`: of the pass under way */
} plan_of_mistakes;

static weft_status make_mistake(mistake which, weft_tensor **output)
{
    switch (which) {
    case RETURNS_ERROR:
        return WEFT_ERR_UNSUPPORTED;
    case CALL_FAILS:
        *output = weft_matmul(*output, *output);
        break;
    case LEAVES_NULL:
        *output = NULL;
        break;
    case GIVES_A_DEAD_TENSOR:
        weft_scope_begin();
        *output = weft_neg(*output);
        weft_scope_end();
        break;
    case OPENS_NO_GRAD:
        weft_no_grad_begin();
        break;
    case OPENS_AUTOCAST:
        weft_autocast_begin(WEFT_F16);
        break;
    case CLOSES_NO_GRAD:
        weft_no_grad_end();
        break;
    case CLOSES_AUTOCAST:
        weft_autocast_end();
        break;
    case OPENS_AND_FAILS:
        weft_no_grad_begin();
        weft_autocast_begin(WEFT_BF16);
        weft_autocast_begin(WEFT_F32);
        weft_scope_begin();
        return WEFT_ERR_STATE;
    default:
        break;
    }
    return WEFT_OK;
}

static weft_status level_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs;
    plan_of_mistakes *p = context;
    int level = p->at++;
    weft_tensor *y = weft_tanh(weft_add(inputs[0], weft_module_use(self, "w")));
    weft_module *below = level + 1 < 2 * p->level ? weft_module_child(self, "c") : NULL;
    outputs[0] = below == NULL ? y : weft_module_call(below, y);
    if (outputs[0] == NULL) {
        return weft_last_status();
    }
    return level == p->level ? make_mistake(p->which, &outputs[0]) : WEFT_OK;
}

static weft_status hook(weft_module *self, weft_mesh *on, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)self, (void)on;
    const plan_of_mistakes *p = context;
    assert_int_equal(num_tensors, 1);
    if (p->which == HOOK_LEAVES_NULL) {
        tensors[0] = NULL;
    } else if (p->which == HOOK_OPENS) {
        weft_no_grad_begin();
    } else if (p->which == BAD_HOOK_BEFORE || p->which == BAD_HOOK_AFTER) {
        tensors[0] = weft_neg(tensors[0]);
        return WEFT_ERR_INVALID;
    }
    return WEFT_OK;
}

static const struct {
    weft_status status;
    const char *text;
} expected[NUM_MISTAKES] = { [RETURNS_ERROR] = { WEFT_ERR_UNSUPPORTED, "the forward function has failed" },
                             [CALL_FAILS] = { WEFT_ERR_SHAPE, "weft_matmul" },
                             [LEAVES_NULL] = { WEFT_ERR_INVALID, "leaves outputs[0] NULL" },
                             [GIVES_A_DEAD_TENSOR] = { WEFT_ERR_INVALID, "no live tensor" },
                             [OPENS_NO_GRAD] = { WEFT_ERR_STATE, "weft_no_grad_begin()" },
                             [OPENS_AUTOCAST] = { WEFT_ERR_STATE, "weft_autocast_begin()" },
                             [CLOSES_NO_GRAD] = { WEFT_ERR_STATE, "weft_no_grad" },
                             [CLOSES_AUTOCAST] = { WEFT_ERR_STATE, "has closed others" },
                             [OPENS_AND_FAILS] = { WEFT_ERR_STATE, "the forward function has failed" },
                             [BAD_HOOK_BEFORE] = { WEFT_ERR_INVALID, "a hook before forward has failed" },
                             [BAD_HOOK_AFTER] = { WEFT_ERR_INVALID, "a hook after forward has failed" },
                             [HOOK_LEAVES_NULL] = { WEFT_ERR_INVALID, "a hook after forward leaves outputs[0] NULL" },
                             [HOOK_OPENS] = { WEFT_ERR_STATE, "weft_no_grad_begin()" } };

/* A pass of half the chain's levels, with gradients. */
static double train(weft_module *root, plan_of_mistakes *p, weft_tensor *x)
{
    double sum = 0;
    p->at = 0;
    weft_tensor *y = weft_module_call(root, x);
    if (y != NULL) {
        weft_tensor *weight = weft_module_parameter(root, "w");
        assert_int_equal(weft_backward(weft_sum(y, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
        assert_int_equal(weft_tensor_item(weft_sum(weft_grad(weight), WEFT_ALL_DIMS, false), &sum), WEFT_OK);
        assert_int_equal(weft_zero_grad(1, &weight), WEFT_OK);
    }
    return sum;
}

static void zero_all(weft_module *root)
{
    weft_tensor *weights[DEPTH];
    assert_int_equal(weft_module_parameters(root, DEPTH, NULL, weights), DEPTH);
    assert_int_equal(weft_zero_grad(DEPTH, weights), WEFT_OK);
}

static void test_passes_that_fail_midway(void **state)
{
    (void)state;
    const weft_parallel plan[] = { { "**", WEFT_PARALLEL_FULLY_SHARDED, NULL, NULL, NULL, NULL } };
    for (int which = NONE; which < NUM_MISTAKES; which++) {
        char what[40];
        snprintf(what, sizeof(what), "mistake %d", which);
        plan_of_mistakes p = { NONE, 10, 0 };
        weft_scope_begin();
        weft_module *root = chain_of(level_forward, &p);
        assert_int_equal(weft_parallelize(root, mesh, 1, plan), WEFT_OK);
        bool before_forward = which == BAD_HOOK_BEFORE;
        weft_module *hooked = weft_module_child(root, "c.c.c.c.c");
        weft_module_add_hook(hooked, before_forward ? WEFT_BEFORE_FORWARD : WEFT_AFTER_FORWARD, hook, &p);
        weft_autocast_begin(WEFT_BF16);
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F32, 0.5, 2, (int64_t[]){ 4, WIDTH }, NULL, NULL);
        weft_scope_begin();
        double right = train(root, &p, x);
        zero_all(root);
        weft_scope_end();
        assert_no_error();
        holdings before = held();
        p.which = (mistake)which;
        weft_scope_begin();
        train(root, &p, x);
        if (which == NONE) {
            assert_no_error();
        } else {
            assert_error(expected[which].status, expected[which].text);
        }
        zero_all(root);
        weft_scope_end();
        assert_nothing_left(what, before);
        /* As if it had not been. */
        p.which = NONE;
        weft_scope_begin();
        assert_true(train(root, &p, x) == right);
        zero_all(root);
        weft_scope_end();
        weft_scope_end();
        assert_int_equal(weft_autocast_end(), WEFT_OK);
        assert_int_equal(weft_autocast_end(), WEFT_ERR_STATE);
        weft_clear_error();
        weft_module_destroy(root);
        weft_scope_end();
        assert_no_error();
    }
}

/* A hook before opens the region that a hook after closes: a module whose products are in 16 bits. */
static weft_status open_region(weft_module *self, weft_mesh *on, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)self, (void)on, (void)num_tensors, (void)tensors;
    return *(const bool *)context ? weft_autocast_begin(WEFT_BF16) : weft_autocast_end();
}

static weft_status product(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    outputs[0] = weft_matmul(inputs[0], weft_module_use(self, "w"));
    return weft_last_status();
}

static void test_hooks_around_a_region(void **state)
{
    (void)state;
    static const bool opens = true, closes = false;
    weft_scope_begin();
    weft_module *module = weft_module_create("product");
    weft_module_add_parameter(module, "w", weft_ones(WEFT_F32, 2, (int64_t[]){ WIDTH, WIDTH }, NULL, NULL));
    weft_module_set_forward(module, product, NULL);
    weft_module_add_hook(module, WEFT_BEFORE_FORWARD, open_region, (void *)&opens);
    weft_module_add_hook(module, WEFT_AFTER_FORWARD, open_region, (void *)&closes);
    weft_tensor *y = weft_module_call(module, weft_ones(WEFT_F32, 2, (int64_t[]){ 2, WIDTH }, NULL, NULL));
    assert_non_null(y);
    assert_int_equal(weft_tensor_dtype(y), WEFT_BF16);
    weft_module_destroy(module);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_module_has_one_place),
        cmocka_unit_test(test_deep_trees),
        cmocka_unit_test(test_passes_that_fail_midway),
        cmocka_unit_test(test_hooks_around_a_region),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
