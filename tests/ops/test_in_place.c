/* Operations in place on tensors that share memory. Tensors have value semantics: whatever its inputs
 * share with the target, a call gives the result for independent copies, and other tensors keep their
 * values.
 * test-in_place HEADER...   all functions weft_..._inplace() of these headers must be tested here */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"

#include "in_place_scene.h"

enum { CASES = 150 };

static const char *const *headers;
static int num_headers;

/* ---- what is called ------------------------------------------------------------------------------------ */

#define RUN(name, expression)                                                                                \
    static bool run_##name(weft_tensor *const t[])                                                           \
    {                                                                                                        \
        return expression;                                                                                   \
    }

RUN(copy, weft_copy_inplace(t[0], t[1]) == t[0])
RUN(add, weft_add_inplace(t[0], t[1], 3) == t[0])
RUN(mul, weft_mul_inplace(t[0], t[1]) == t[0])
RUN(div, weft_div_inplace(t[0], t[1]) == t[0])
RUN(lerp, weft_lerp_inplace(t[0], t[1], 0.25) == t[0])
RUN(scale, weft_scale_inplace(t[0], 3) == t[0])
RUN(fill, weft_fill_inplace(t[0], 3) == t[0])
RUN(uniform, weft_random_seed(5) == WEFT_OK && weft_uniform_inplace(t[0], 1, 2) == t[0])
RUN(normal, weft_random_seed(6) == WEFT_OK && weft_normal_inplace(t[0], 1, 2) == t[0])
RUN(scatter_add, weft_scatter_add_inplace(t[0], 0, t[1], t[2]) == t[0])
RUN(index_add, weft_index_add_inplace(t[0], 0, t[1], t[2]) == t[0])

static bool run_sgd(weft_tensor *const t[])
{
    weft_sgd_options options = { .learning_rate = 0.5, .weight_decay = 0.25 };
    return weft_sgd(1, t, t + 1, &options, NULL) == WEFT_OK;
}

static bool run_sgd_momentum(weft_tensor *const t[])
{
    weft_sgd_options options = { .learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.25 };
    return weft_sgd(1, t, t + 2, &options, t + 1) == WEFT_OK;
}

static bool run_sgd_nesterov(weft_tensor *const t[])
{
    weft_sgd_options options = {
        .learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.25, .nesterov = true
    };
    return weft_sgd(1, t, t + 2, &options, t + 1) == WEFT_OK;
}

static bool run_adam(weft_tensor *const t[])
{
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    options.weight_decay = 0.25;
    return weft_adam(1, t, t + 3, t + 1, t + 2, 3, &options) == WEFT_OK;
}

static bool run_adamw(weft_tensor *const t[])
{
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    return weft_adamw(1, t, t + 3, t + 1, t + 2, 3, &options) == WEFT_OK;
}

static bool run_kind(weft_optimizer kind, int states, weft_tensor *const t[])
{
    weft_optimizer_options options;
    if (weft_optimizer_options_init(&options, kind) != WEFT_OK) {
        return false;
    }
    options.amsgrad = true;
    return weft_optimizer_step(1, t, t + 1 + states, t + 1, 1, &options) == WEFT_OK;
}
RUN(rmsprop, run_kind(WEFT_OPTIMIZER_RMSPROP, 1, t))
RUN(radam, run_kind(WEFT_OPTIMIZER_RADAM, 2, t))
RUN(amsgrad, run_kind(WEFT_OPTIMIZER_ADAM, 3, t))

static bool run_clip(weft_tensor *const t[])
{
    return weft_clip_grad_norm(3, t, 1, 2, NULL) == WEFT_OK;
}

/* The program writes to it. */
static bool run_acquire(weft_tensor *const t[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t coordinate[3];
        if (!weft_mesh_coordinate(weft_tensor_mesh(t[0]), weft_first_rank() + i, coordinate)) {
            continue;
        }
        float *values = weft_local_acquire(t[0], i, WEFT_READ_WRITE);
        if (values == NULL) {
            return false;
        }
        for (size_t e = 0; e < weft_local_bytes(t[0], i) / sizeof(*values); e++) {
            values[e] += 1;
        }
        weft_local_release(t[0], i);
    }
    return true;
}

/* An operation of the program's own, every task of which reads all rows of an input: a[i] += sum of b[m]. */
static const weft_operation *op_add_rows;

static void add_rows(const weft_kernel_call *c)
{
    for (int64_t i = 0; i < weft_view_rows(&c->output); i++) {
        float *out = weft_view_row(&c->output, i, NULL);
        for (int64_t m = 0; m < weft_view_rows(&c->inputs[0]); m++) {
            out[0] += *(const float *)weft_view_row(&c->inputs[0], m, NULL);
        }
    }
}

static void register_operations(void)
{
    const weft_operation_input input = { "a", WEFT_TYPE_BIT(WEFT_F32), false };
    op_add_rows = weft_operation_register(&(weft_operation_description){ .name = "add_rows",
                                                                         .rule = "n,[m]->n",
                                                                         .inputs = { input, input },
                                                                         .outputs[0].in_place = true,
                                                                         .kernel = add_rows });
    assert_no_error();
}

RUN(own, weft_apply(op_add_rows, 2, t, NULL) == t[0])

static const call calls[] = {
    { THIS_ROW, "weft_copy_inplace", { "copy_inplace" }, { BESIDE }, .partial = true, .run = run_copy },
    { THIS_ROW, "weft_add_inplace", { "add_inplace" }, { BESIDE }, .partial = true, .run = run_add },
    { THIS_ROW, "weft_mul_inplace", { "mul_inplace" }, { BESIDE }, .partial = true, .run = run_mul },
    { THIS_ROW, "weft_div_inplace", { "div_inplace" }, { BESIDE }, .floating = true, .run = run_div },
    { THIS_ROW,
      "weft_lerp_inplace",
      { "lerp_inplace" },
      { BESIDE },
      .floating = true,
      .partial = true,
      .run = run_lerp },
    { THIS_ROW, "weft_scale_inplace", { "scale_inplace" }, { NONE }, .partial = true, .run = run_scale },
    { THIS_ROW, "weft_fill_inplace", { "fill_inplace" }, { NONE }, .run = run_fill },
    { THIS_ROW, "weft_uniform_inplace", { "uniform" }, { NONE }, .floating = true, .run = run_uniform },
    { THIS_ROW, "weft_normal_inplace", { "normal" }, { NONE }, .floating = true, .run = run_normal },
    { THIS_ROW, "weft_scatter_add_inplace", { "index_add_inplace", "add_inplace" }, { INDICES, LIKE }, .run = run_scatter_add },
    { THIS_ROW, "weft_index_add_inplace", { "index_add_inplace", "add_inplace" }, { ROWS, LIKE }, .run = run_index_add },
    { THIS_ROW, "weft_sgd", { "sgd" }, { LIKE }, .floating = true, .distinct = true, .run = run_sgd },
    { THIS_ROW,
      "weft_sgd",
      { "momentum", "sgd_momentum" },
      { STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_sgd_momentum },
    { THIS_ROW,
      "weft_sgd",
      { "momentum", "sgd_nesterov" },
      { STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_sgd_nesterov },
    { THIS_ROW,
      "weft_adam",
      { "moment", "moment_decayed", "square_moment", "square_moment_decayed", "adam" },
      { STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_adam },
    { THIS_ROW,
      "weft_adamw",
      { "moment", "square_moment", "adam" },
      { STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_adamw },
    { THIS_ROW,
      "weft_optimizer_step",
      { "optimizer_1" },
      { STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_rmsprop },
    { THIS_ROW,
      "weft_optimizer_step",
      { "optimizer_2" },
      { STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_radam },
    { THIS_ROW,
      "weft_optimizer_step",
      { "optimizer_3" },
      { STATE, STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_amsgrad },
    { THIS_ROW,
      "weft_clip_grad_norm",
      { "mul_inplace" },
      { STATE, STATE },
      .floating = true,
      .distinct = true,
      .partial = true,
      .run = run_clip },
    { THIS_ROW, "weft_local_acquire", { NULL }, { NONE }, .floating = true, .run = run_acquire },
    { THIS_ROW, "weft_apply", { NULL }, { LIKE }, .floating = true, .ndim = 1, .run = run_own },
};
enum { NUM_CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- cases --------------------------------------------------------------------------------------------- */

/* Shards that the program lent have the values when all has ended. */
static void check_lent(const scene *s)
{
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        if (s->lent[i] != NULL) {
            size_t bytes = weft_local_bytes(s->tensors[0], i);
            char *values = malloc(bytes + 1);
            assert_int_equal(weft_local_to_host(s->tensors[0], i, values, bytes), WEFT_OK);
            assert_memory_equal(values, s->lent[i], bytes);
            free(values);
        }
    }
}

static void run_scene(const scene *s)
{
    const call *c = s->call;
    weft_tensor *copies[MAX_TENSORS], *kept[MAX_OTHERS];
    for (int i = 0; i < s->num_tensors; i++) {
        copies[i] = copy_of(s->tensors[i]);
    }
    for (int i = 0; i < s->num_others; i++) {
        kept[i] = copy_of(s->others[i]);
    }
    bool right = c->run(copies);
    weft_status status = weft_last_status();
    weft_clear_error();
    bool done = c->run(s->tensors);
    if (done != right || weft_last_status() != status) {
        fail_msg("%s: %s", s->text, weft_last_error());
    }
    weft_clear_error();
    for (int i = 0; i < s->num_tensors; i++) {
        /* A target that is an input too has changed as a target does. */
        assert_same_shards(s->tensors[i], s->tensors[i] == s->tensors[0] ? copies[0] : copies[i], s->text);
    }
    for (int i = 0; i < s->num_others; i++) {
        if (s->others[i] != s->tensors[0]) { /* what has the layout already is redistributed to itself */
            assert_same_shards(s->others[i], kept[i], s->text);
        }
    }
    check_lent(s);
}

/* What is lent must stay until the tensors are gone and their tasks have ended. */
static void one_case(const call *c)
{
    weft_scope_begin();
    scene s = make_scene(c);
    run_scene(&s);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < MAX_RANKS; i++) {
        free(s.lent[i]);
    }
}

static void run_cases(const char *panel_rows, uint64_t seed)
{
    start_world(panel_rows == NULL ? NULL : "WEFT_PANEL_ROWS", panel_rows);
    register_operations();
    source = prng_start(seed);
    int cases = cases_to_run(weft_num_processes() > 1 ? CASES / 4 : CASES);
    for (int i = 0; i < NUM_CALLS * cases; i++) {
        one_case(&calls[i % NUM_CALLS]);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_panels_by_default(void **state)
{
    (void)state;
    run_cases(NULL, 1);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_cases("1", 2);
}

static void test_panels_of_two_rows(void **state)
{
    (void)state;
    run_cases("2", 3);
}

/* Rows of a large tensor, copied to themselves: they cannot take over their own memory, which is mostly
 * others'. */
static void test_copy_to_itself(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ MAX_RANKS }, NULL);
    float values[12], found[3];
    for (int i = 0; i < 12; i++) {
        values[i] = (float)i;
    }
    /* The values are not right by chance. */
    weft_tensor_release(weft_full(WEFT_F32, -1, 1, (int64_t[]){ 3 }, mesh, NULL));
    weft_tensor *all = weft_distribute(WEFT_F32, 1, (int64_t[]){ 12 }, values, mesh, NULL);
    weft_tensor *rows = weft_slice(all, 0, 4, 7, 1);
    assert_ptr_equal(weft_copy_inplace(rows, rows), rows);
    assert_int_equal(weft_to_host(rows, found, sizeof(found)), WEFT_OK);
    assert_memory_equal(found, values + 4, sizeof(found));
    assert_shards(rows, NULL, NULL, "copied to itself");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- that nothing is missing --------------------------------------------------------------------------- */

static bool is_called(const char *function, size_t length)
{
    for (int i = 0; i < NUM_CALLS; i++) {
        if (strlen(calls[i].function) == length && strncmp(calls[i].function, function, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Every public function whose name says that it works in place. */
static void test_all_functions(void **state)
{
    (void)state;
    int found = 0;
    for (int h = 0; h < num_headers; h++) {
        FILE *file = fopen(headers[h], "r");
        assert_non_null(file);
        char line[400];
        while (fgets(line, sizeof(line), file) != NULL) {
            char *end = strncmp(line, "WEFT_API", 8) == 0 ? strstr(line, "_inplace(") : NULL, *begin = end;
            while (begin != NULL && begin > line && begin[-1] != '*' && begin[-1] != ' ') {
                begin--;
            }
            if (begin != NULL && !is_called(begin, (size_t)(end + strlen("_inplace") - begin))) {
                fail_msg("%s: no calls of %s", headers[h], line);
            }
            found += begin != NULL;
        }
        fclose(file);
    }
    assert_in_range(found, 11, 1000);
}

/* Every operation in place; those that only the library calls are listed here. */
static void test_all_operations(void **state)
{
    (void)state;
    static const char *const internal[] = { "cat",
                                            "attention_state",
                                            "attention_backward_q",
                                            "attention_backward_kv",
                                            "randint",
                                            "bernoulli_scalar",
                                            "randperm",
                                            "range",
                                            "eye",
                                            "interpolation",
                                            "running_average",
                                            "cholesky_update", /* of blocks that weft_cholesky() has made */
                                            "lu_update", /* and weft_lu_factor() */
                                            "lu_exchange",
                                            "qr_update", /* and weft_qr() */
                                            "scalar_add_inplace" /* of scalars: in the oracle */ };
    for (int f = 0; weft_operation_families[f] != NULL; f++) {
        for (int i = 0; weft_operation_families[f][i] != NULL; i++) {
            const weft_operation *operation = weft_operation_families[f][i];
            bool found = !operation->outputs[0].in_place;
            for (int k = 0; k < NUM_CALLS * 6 && !found; k++) {
                const char *name = calls[k / 6].operations[k % 6];
                found = name != NULL && strcmp(name, operation->name) == 0;
            }
            for (size_t k = 0; k < sizeof(internal) / sizeof(internal[0]) && !found; k++) {
                found = strcmp(internal[k], operation->name) == 0;
            }
            if (!found) {
                fail_msg("no call of %s, which is in place", operation->name);
            }
        }
    }
}

int main(int count, char **arguments)
{
    headers = (const char *const *)arguments + 1;
    num_headers = count - 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_functions),      cmocka_unit_test(test_all_operations),
        cmocka_unit_test(test_panels_by_default),  cmocka_unit_test(test_panels_of_one_row),
        cmocka_unit_test(test_panels_of_two_rows), cmocka_unit_test(test_copy_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
