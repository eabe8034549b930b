/* Every public function inside a graph that is to be frozen. */
#include "frozen_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "every_call.h"

/* ---- every public function inside ------------------------------------------------------------------------------------- */

/* Tensors for the calls of every_call.c, and two counters: changed by a call before the public function and by one after it. */
typedef struct called {
    call_arguments things;
    weft_tensor *before, *after, *one;
} called;

static const char *wanted_function;

static bool is_wanted(const char *function)
{
    return strcmp(function, wanted_function) == 0;
}

static void ignore(row_place row, const char *function, void *argument)
{
    (void)row, (void)function, (void)argument;
    weft_clear_error();
}

static weft_status call_between(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    called *c = context;
    weft_add_inplace(c->before, c->one, 1);
    outputs[0] = weft_neg(inputs[0]);
    call_all_wanted(&c->things, is_wanted, ignore, NULL);
    weft_clear_error();
    return weft_add_inplace(c->after, c->one, 1) == NULL ? weft_last_status() : WEFT_OK;
}

static weft_tensor *thing(weft_dtype dtype, int ndim, bool last_two)
{
    const int64_t shape[] = { last_two ? 1 : 2, last_two && ndim > 3 ? 1 : 2, 2, 2 };
    return dtype == WEFT_F32 ? weft_rand(dtype, ndim, shape, line(), NULL) : weft_zeros(dtype, ndim, shape, line(), NULL);
}

enum { NUM_THINGS = 13, FROZEN_RUNS = 7 };

static void make_things(called *c, const weft_operation *operation)
{
    weft_random_seed(1);
    c->things = (call_arguments){ .mesh = line(), .mesh_size = weft_world_size(), .operation = operation,
                                  .tensor = thing(WEFT_F32, 2, false), .indices = thing(WEFT_I64, 1, false),
                                  .truth = thing(WEFT_BOOL, 2, false), .first = thing(WEFT_F32, 2, false),
                                  .second = thing(WEFT_F32, 2, false), .third = thing(WEFT_F32, 2, false),
                                  .scalar = thing(WEFT_F32, 0, false), .line = thing(WEFT_F32, 1, false),
                                  .places = thing(WEFT_I64, 2, false), .cube = thing(WEFT_F32, 3, true),
                                  .image = thing(WEFT_F32, 4, true),
                                  .pairs = thing(WEFT_C64, 2, false), .regular = weft_eye(WEFT_F32, 2, 2, line(), NULL),
                                  .list = list_for_calls(line()),
                                  .sparse = sparse_for_calls(line()), .ghosted = ghosted_for_calls(line()) };
    c->one = weft_ones(WEFT_F64, 1, (int64_t[]){ weft_world_size() }, line(), (weft_placement[]){ weft_shard(0) });
    c->before = weft_zeros_like(c->one);
    c->after = weft_zeros_like(c->one);
}

static void end_regions_without_gradients(void)
{
    for (weft_clear_error(); weft_last_status() == WEFT_OK;) {
        weft_no_grad_end();
    }
}

/* Ends what a function has begun. */
static void end_all(const called *c)
{
    while (weft_region_end() == WEFT_OK) {
    }
    while (weft_explain_end() == WEFT_OK) {
    }
    end_regions_without_gradients();
    while (weft_autocast_end() == WEFT_OK) {
    }
    while (weft_implicit_replication_end() == WEFT_OK) {
    }
    while (weft_fixed_boxes_end() == WEFT_OK) {
    }
    while (weft_mesh_current() != NULL && weft_mesh_pop() == WEFT_OK) {
    }
    while (weft_local_release(c->things.tensor, 0) == WEFT_OK) {
    }
    weft_resume();
    weft_operation_restore("exp");
    weft_random_state_use(NULL);
    weft_clear_error();
}

/* Runs the function inside a graph. The message of the refusal to freeze it: "": it is frozen. */
static void run_between(called *c, bool freeze, char *why, size_t size)
{
    weft_graph *graph = weft_graph_create("between", call_between, c, 1, 0, 1);
    assert_int_equal(weft_graph_freeze(graph, freeze), WEFT_OK);
    weft_random_seed(2);
    why[0] = '\0';
    for (int run = 0; run < FROZEN_RUNS; run++) {
        weft_scope_begin();
        weft_tensor *output;
        weft_status status = weft_graph_call(graph, &c->one, NULL, &output);
        if (status == WEFT_ERR_STATE && why[0] == '\0') {
            snprintf(why, size, "%s", weft_last_error());
            weft_clear_error();
            assert_non_null(strstr(why, "cannot be frozen: "));
            assert_int_equal(weft_graph_freeze(graph, false), WEFT_OK);
            status = weft_graph_call(graph, &c->one, NULL, &output);
        }
        if (status != WEFT_OK) {
            fail_msg("%s: %s", wanted_function, weft_last_error());
        }
        weft_scope_end();
        end_all(c);
    }
    if (freeze && why[0] == '\0') {
        bool frozen = info_of(graph).frozen_replays > 0 && info_of(graph).frozen;
        bool called_through = strcmp(wanted_function, "weft_region_begin") == 0 || strcmp(wanted_function, "weft_explain_begin") == 0;
        if (!frozen && !called_through) {
            snprintf(why, size, "%s", info_of(graph).not_frozen);
        }
    }
    weft_graph_destroy(graph);
}

static void compare_bytes(weft_tensor *a, weft_tensor *b, const char *what)
{
    unsigned char first[256], second[256];
    size_t bytes = weft_tensor_bytes(a);
    assert_true(bytes <= sizeof(first));
    assert_int_equal(weft_to_host(a, first, bytes), WEFT_OK);
    assert_int_equal(weft_to_host(b, second, bytes), WEFT_OK);
    if (memcmp(first, second, bytes) != 0) {
        fail_msg("%s: %s differs after a frozen graph", wanted_function, what);
    }
}

static void compare_things(const called *c, const called *expected)
{
    weft_tensor *const a[] = { c->things.tensor, c->things.indices, c->things.truth, c->things.first, c->things.second,
                               c->things.third, c->things.scalar, c->things.line, c->things.places, c->things.cube,
                               c->things.image, c->things.pairs, c->one };
    weft_tensor *const b[] = { expected->things.tensor, expected->things.indices, expected->things.truth,
                               expected->things.first, expected->things.second, expected->things.third,
                               expected->things.scalar, expected->things.line, expected->things.places,
                               expected->things.cube, expected->things.image, expected->things.pairs,
                               expected->one };
    assert_int_equal(sizeof(a) / sizeof(a[0]), NUM_THINGS);
    for (int i = 0; i < NUM_THINGS; i++) {
        compare_bytes(a[i], b[i], "a tensor of the program's");
    }
    assert_all(c->before, FROZEN_RUNS);
    assert_all(c->after, FROZEN_RUNS);
}

/* These change references, which the test cannot repeat, or the world. */
static bool changes_references(const char *function)
{
    static const char *const names[] = { "weft_tensor_retain", "weft_tensor_release", "weft_finalize" };
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        found = found || strcmp(function, names[i]) == 0;
    }
    return found;
}

typedef struct every_function {
    const weft_operation *operation;
    int frozen, refused;
    char refusals[1 << 12]; /* " weft_wait weft_to_host ..." */
} every_function;

static void try_one(every_function *e, const char *function)
{
    wanted_function = function;
    called frozen, expected;
    char why[512], unused[512];
    weft_scope_begin();
    make_things(&expected, e->operation);
    make_things(&frozen, e->operation);
    run_between(&expected, false, unused, sizeof(unused));
    run_between(&frozen, true, why, sizeof(why));
    compare_things(&frozen, &expected);
    weft_scope_end();
    if (why[0] != '\0') {
        e->refused++;
        /* One that reads by a public function, or calls one that is refused, is refused as that. */
        bool is_sparse = strcmp(function, "weft_sparse_matmul") == 0 || strcmp(function, "weft_sparse_to_dense") == 0;
        const char *named = strcmp(function, "weft_unscale_gradients") == 0 ? "weft_tensor_item" : is_sparse ? "weft_local_map" : function;
        bool names_it = strstr(why, named) != NULL && strstr(why, "inside is no call of the graph") != NULL;
        if (!names_it && strstr(why, "is memory that the function passes") == NULL && strstr(why, "outlives the function") == NULL) {
            fail_msg("%s: %s", function, why);
        }
        size_t used = strlen(e->refusals);
        snprintf(e->refusals + used, sizeof(e->refusals) - used, " %s", function);
    } else {
        e->frozen++;
    }
}

static char all_functions[1 << 15];

/* Wants none. */
static bool note_function(const char *function)
{
    size_t used = strlen(all_functions);
    char word[80];
    snprintf(word, sizeof(word), " %s ", function);
    if (strstr(all_functions, word) == NULL) {
        snprintf(all_functions + used, sizeof(all_functions) - used, "%s", word);
    }
    return false;
}

static void no_own_kernel(const weft_kernel_call *call)
{
    (void)call;
}

void test_every_function_inside_a_frozen_graph(void **state)
{
    (void)state;
    static const char *const must_refuse[] = {
        "weft_wait", "weft_test", "weft_tensor_test", "weft_to_host", "weft_local_to_host", "weft_local_acquire", "weft_equal", "weft_allclose", "weft_tensor_print",
        "weft_masked_select", "weft_nonzero", "weft_from_local", "weft_from_scalapack", "weft_from_dlpack", "weft_to_dlpack", "weft_distribute",
        "weft_local_map", "weft_checkpoint_save", "weft_graph_opaque", "weft_graph_set_passes", "weft_pause", "weft_random_seed",
        "weft_random_state_set", "weft_mesh_push", "weft_module_set_forward", "weft_operation_replace", "weft_operation_restore"
    };
    weft_scope_begin();
    weft_random_state_create("name", 0);
    weft_clear_error();
    static every_function e;
    const weft_operation_description description = {
        .name = "no_own", .rule = "ab->ab", .inputs = { { "a", WEFT_TYPES_FLOAT, false } }, .kernel = no_own_kernel
    };
    e = (every_function){ .operation = weft_operation_register(&description) };
    all_functions[0] = '\0';
    call_all_wanted(&(call_arguments){ .mesh = NULL }, note_function, ignore, NULL);
    weft_clear_error();
    char *rest = all_functions;
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        if (!changes_references(name)) {
            try_one(&e, name);
        }
    }
    weft_scope_end();
    print_message("# %d functions frozen, %d refused:%s\n", e.frozen, e.refused, e.refusals);
    assert_true(e.frozen > 300);
    strcat(e.refusals, " ");
    for (size_t i = 0; i < sizeof(must_refuse) / sizeof(must_refuse[0]); i++) {
        char word[80];
        snprintf(word, sizeof(word), " %s ", must_refuse[i]);
        if (strstr(e.refusals, word) == NULL) {
            fail_msg("%s is not refused", must_refuse[i]);
        }
    }
    assert_no_error();
}
