/* Random plans, of any style for any module along any mesh dimension with any layouts of
 * inputs, outputs and parameters, give the loss and the gradients of one rank, bit for bit: all values are integers. */
#include "module_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 80, MOST_ENTRIES = 24, MOST_VALUES = 128 };

/* ---- plans ----------------------------------------------------------------------------------------------- */

static const char *const patterns[] = { "embed",         "layers.0.norm", "layers.*.up", "layers.?.down", "layers.1",
                                        "layers.1.down", "**.norm",       "head",        "layers.0.up",   "**" };

/* A layout of tensors with this many dimensions at least, or NULL. */
static const char *random_layout(prng *random, int ndim)
{
    static const char *const texts[] = { NULL, NULL, "-", "R", "S0", "S-1", "S1", "S2" };
    return texts[prng_below(random, ndim > 2 ? 8 : ndim == 2 ? 7 : 6)];
}

static weft_parallel random_entry(prng *random, const char *mesh_dim)
{
    weft_parallel entry = { patterns[prng_below(random, sizeof(patterns) / sizeof(*patterns))],
                            (weft_parallel_style)prng_below(random, 7), mesh_dim, NULL, NULL, NULL };
    /* "**" is the root too, whose outputs are a scalar among others. */
    bool is_all = strcmp(entry.modules, "**") == 0, is_embed = strcmp(entry.modules, "embed") == 0;
    if (!is_all) {
        entry.inputs = random_layout(random, is_embed ? 2 : 3);
        entry.outputs = random_layout(random, 3);
    }
    entry.parameters = prng_below(random, 3) > 0 ? NULL : prng_below(random, 2) > 0 ? "S-1" : "R";
    return entry;
}

static void print_plan(int count, const weft_parallel plan[], const int64_t shape[2])
{
    print_error("mesh %d x %d\n", (int)shape[0], (int)shape[1]);
    for (int i = 0; i < count; i++) {
        print_error("{ \"%s\", %d, \"%s\", %s, %s, %s }\n", plan[i].modules, (int)plan[i].style, plan[i].mesh_dim,
                    plan[i].inputs == NULL ? "-" : plan[i].inputs, plan[i].outputs == NULL ? "-" : plan[i].outputs,
                    plan[i].parameters == NULL ? "-" : plan[i].parameters);
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

typedef struct results {
    double loss;
    int count;
    double gradients[MAX_PARAMETERS][MOST_VALUES];
} results;

static void run(weft_module *root, weft_mesh *mesh, results *r)
{
    weft_tensor *outputs[2], *parameters[MAX_PARAMETERS];
    memset(r, 0, sizeof(*r));
    if (network_forward(root, mesh, outputs) != WEFT_OK || weft_backward(outputs[1], NULL) != WEFT_OK) {
        return;
    }
    assert_int_equal(weft_tensor_item(outputs[1], &r->loss), WEFT_OK);
    r->count = weft_module_parameters(root, MAX_PARAMETERS, NULL, parameters);
    for (int i = 0; i < r->count; i++) {
        assert_shards(weft_grad(parameters[i]), NULL, NULL, "a gradient");
        assert_int_equal(weft_to_host(weft_grad(parameters[i]), r->gradients[i], sizeof(r->gradients[i])), WEFT_OK);
    }
}

static void test_g3_random_plans(void **state)
{
    (void)state;
    static results expected, found;
    prng random = prng_start(11);
    weft_scope_begin();
    weft_module *alone = network_new(false);
    run(alone, NULL, &expected);
    assert_true(expected.count > 0);
    for (int c = 0; c < CASES; c++) {
        static const int64_t shapes[][2] = { { 2, 3 }, { 3, 2 }, { 1, 5 }, { 4, 1 }, { 2, 2 }, { 6, 1 } };
        const int64_t *shape = shapes[prng_below(&random, 6)];
        weft_parallel plan[MOST_ENTRIES];
        int count = (int)prng_below(&random, MOST_ENTRIES + 1);
        for (int i = 0; i < count; i++) {
            plan[i] = random_entry(&random, prng_below(&random, 2) > 0 ? "a" : "b");
        }
        weft_scope_begin();
        weft_mesh *mesh = weft_mesh_create(2, shape, (const char *[]){ "a", "b" });
        weft_module *root = network_new(false);
        weft_status status = weft_parallelize(root, mesh, count, plan);
        if (status == WEFT_OK) {
            run(root, mesh, &found);
        }
        if (status != WEFT_OK || weft_last_status() != WEFT_OK || memcmp(&found, &expected, sizeof(found)) != 0) {
            print_plan(count, plan, shape);
            fail_msg("case %d: %s", c, weft_last_status() == WEFT_OK ? "other values than on one rank" : weft_last_error());
        }
        weft_module_destroy(root);
        weft_scope_end();
    }
    weft_module_destroy(alone);
    weft_scope_end();
    assert_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_g3_random_plans),
    };
    return cmocka_run_group_tests(tests, network_world_start, network_world_stop);
}
