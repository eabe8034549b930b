/* Random trees of modules against a model of them: names, order, tied tensors, what is refused, and layouts after a
 * distribution; random patterns of paths against another way to match them. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

enum { RANKS = 4, MODULES = 12, SLOTS = 6, TENSORS = 8, CASES = 60, CALLS = 60, PATHS = 256 };

static weft_mesh *mesh;

static int start(void **state)
{
    (void)state;
    WORLD(RANKS);
    mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    weft_mesh_push(mesh);
    return 0;
}

/* ---- the model ------------------------------------------------------------------------------------------- */

typedef struct model_slot {
    const char *name;
    int tensor; /* -1: none */
    bool is_parameter;
} model_slot;

typedef struct model_module {
    weft_module *module;
    int parent; /* -1: a root */
    const char *name;
    int num_slots, num_children;
    model_slot slots[SLOTS];
    int children[MODULES];
} model_module;

static model_module modules[MODULES];
static weft_tensor *tensors[TENSORS];
static const char *const names[] = { "a", "b", "c0", "weight" };

/* What a function lists. */
typedef struct listing {
    int count;
    char paths[PATHS][64];
    int items[PATHS]; /* numbers of tensors or modules */
    bool seen[TENSORS];
} listing;

static void list_path(listing *list, const char *prefix, const char *name, int item)
{
    snprintf(list->paths[list->count], sizeof(list->paths[0]), "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", name);
    list->items[list->count++] = item;
}

static void list_model(listing *list, int m, const char *prefix, bool is_parameter, bool of_modules)
{
    const model_module *module = &modules[m];
    if (of_modules) {
        list_path(list, prefix, "", m);
        list->paths[list->count - 1][strlen(prefix)] = '\0';
    }
    for (int i = 0; i < module->num_slots && !of_modules; i++) {
        const model_slot *slot = &module->slots[i];
        if (slot->tensor >= 0 && slot->is_parameter == is_parameter && !list->seen[slot->tensor]) {
            list->seen[slot->tensor] = true;
            list_path(list, prefix, slot->name, slot->tensor);
        }
    }
    for (int i = 0; i < module->num_children; i++) {
        char below[64];
        const char *name = modules[module->children[i]].name;
        snprintf(below, sizeof(below), "%.50s%s%s", prefix, prefix[0] == '\0' ? "" : ".", name);
        list_model(list, module->children[i], below, is_parameter, of_modules);
    }
}

static void compare(int m)
{
    static listing expected;
    const char *paths[PATHS];
    weft_tensor *found[PATHS];
    weft_module *found_modules[PATHS];
    for (int is_parameter = 0; is_parameter < 2; is_parameter++) {
        memset(&expected, 0, sizeof(expected));
        list_model(&expected, m, "", is_parameter, false);
        int count = (is_parameter ? weft_module_parameters : weft_module_buffers)(modules[m].module, PATHS, paths, found);
        assert_int_equal(count, expected.count);
        for (int i = 0; i < count; i++) {
            assert_string_equal(paths[i], expected.paths[i]);
            assert_ptr_equal(found[i], tensors[expected.items[i]]);
        }
    }
    memset(&expected, 0, sizeof(expected));
    list_model(&expected, m, "", false, true);
    int count = weft_module_modules(modules[m].module, PATHS, paths, found_modules);
    assert_int_equal(count, expected.count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(paths[i], expected.paths[i]);
        assert_ptr_equal(found_modules[i], modules[expected.items[i]].module);
        assert_ptr_equal(weft_module_child(modules[m].module, paths[i]), found_modules[i]);
    }
    assert_no_error();
}

/* ---- random calls ---------------------------------------------------------------------------------------- */

static int root_of(int m)
{
    while (modules[m].parent >= 0) {
        m = modules[m].parent;
    }
    return m;
}

static bool has_name(const model_module *module, const char *name)
{
    bool has = false;
    for (int i = 0; i < module->num_slots; i++) {
        has = has || strcmp(module->slots[i].name, name) == 0;
    }
    for (int i = 0; i < module->num_children; i++) {
        has = has || strcmp(modules[module->children[i]].name, name) == 0;
    }
    return has;
}

static void add_child(prng *random)
{
    int above = (int)prng_below(random, MODULES), below = (int)prng_below(random, MODULES);
    const char *name = names[prng_below(random, 4)];
    bool right = modules[below].parent < 0 && root_of(above) != below && !has_name(&modules[above], name);
    weft_status status = weft_module_add_child(modules[above].module, name, modules[below].module);
    assert_int_equal(status == WEFT_OK, right);
    weft_clear_error();
    if (right) {
        modules[below].parent = above;
        modules[below].name = name;
        modules[above].children[modules[above].num_children++] = below;
    }
}

static void add_tensor(prng *random)
{
    model_module *module = &modules[prng_below(random, MODULES)];
    const char *name = names[prng_below(random, 4)];
    bool is_parameter = prng_below(random, 4) > 0, right = !has_name(module, name);
    int tensor = (int)prng_below(random, TENSORS + 1) - 1;
    weft_status status = (is_parameter ? weft_module_add_parameter : weft_module_add_buffer)(
        module->module, name, tensor < 0 ? NULL : tensors[tensor]);
    assert_int_equal(status, right ? WEFT_OK : WEFT_ERR_INVALID);
    weft_clear_error();
    if (right) {
        module->slots[module->num_slots++] = (model_slot){ name, tensor, is_parameter };
    }
}

static void set_tensor(prng *random)
{
    model_module *module = &modules[prng_below(random, MODULES)];
    const char *name = names[prng_below(random, 4)];
    int tensor = (int)prng_below(random, TENSORS + 1) - 1;
    model_slot *slot = NULL;
    for (int i = 0; i < module->num_slots; i++) {
        slot = strcmp(module->slots[i].name, name) == 0 ? &module->slots[i] : slot;
    }
    weft_status status = weft_module_set_tensor(module->module, name, tensor < 0 ? NULL : tensors[tensor]);
    assert_int_equal(status, slot != NULL ? WEFT_OK : WEFT_ERR_INVALID);
    weft_clear_error();
    if (slot != NULL) {
        slot->tensor = tensor;
    }
}

static void make_tensors(prng *random)
{
    for (int t = 0; t < TENSORS; t++) {
        double values[16];
        int64_t shape[] = { prng_below(random, 4), 1 + prng_below(random, 3) };
        for (int i = 0; i < 16; i++) {
            values[i] = 100 * t + i;
        }
        tensors[t] = weft_distribute(WEFT_F64, 2, shape, values, mesh, NULL);
    }
}

/* ---- distribution ---------------------------------------------------------------------------------------- */

/* For each tensor, 0: it is left; else 1 + the number of these placements. */
static int choices[TENSORS];
static const weft_placement all_placements[][2] = {
    { { WEFT_SHARD, 0, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
    { { WEFT_SHARD, 1, WEFT_SUM }, { WEFT_SHARD, 0, WEFT_SUM } },
    { { WEFT_SHARD, 0, WEFT_SUM }, { WEFT_SHARD, 0, WEFT_SUM } },
    { { WEFT_REPLICATE, 0, WEFT_SUM }, { WEFT_SHARD, 1, WEFT_SUM } },
};

static weft_status place_chosen(const char *name, weft_module *module, weft_mesh *on, void *context)
{
    (void)name;
    (void)context;
    int m = 0;
    while (modules[m].module != module) {
        m++;
    }
    for (int i = 0; i < modules[m].num_slots; i++) {
        const model_slot *slot = &modules[m].slots[i];
        int choice = slot->tensor < 0 ? 1 : choices[slot->tensor];
        if (choice > 0 && weft_module_place(module, slot->name, on, all_placements[choice - 1]) != WEFT_OK) {
            return WEFT_ERR_INTERNAL;
        }
    }
    return WEFT_OK;
}

static void distribute(prng *random, int root)
{
    static listing expected;
    for (int t = 0; t < TENSORS; t++) {
        choices[t] = (int)prng_below(random, 5);
    }
    memset(&expected, 0, sizeof(expected));
    list_model(&expected, root, "", true, false);
    assert_int_equal(weft_distribute_module(modules[root].module, mesh, place_chosen, NULL, NULL, NULL), WEFT_OK);
    assert_no_error();
    for (int i = 0; i < expected.count; i++) {
        int t = expected.items[i];
        weft_tensor *tensor = weft_module_parameter(modules[root].module, expected.paths[i]);
        const weft_placement *placements = weft_tensor_placements(tensor);
        for (int d = 0; d < 2; d++) {
            weft_placement right = choices[t] == 0 ? weft_replicate() : all_placements[choices[t] - 1][d];
            assert_int_equal(placements[d].kind, right.kind);
            assert_true(right.kind != WEFT_SHARD || placements[d].dim == right.dim);
        }
        double values[16];
        assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
        for (int k = 0; k < weft_tensor_num_elements(tensor); k++) {
            assert_true(values[k] == 100 * t + k);
        }
        tensors[t] = tensor; /* the same in all slots: compare() looks */
    }
    /* Buffers that are no parameters too were replaced as well. */
    memset(&expected, 0, sizeof(expected));
    list_model(&expected, root, "", false, false);
    for (int i = 0; i < expected.count; i++) {
        tensors[expected.items[i]] = weft_module_buffer(modules[root].module, expected.paths[i]);
    }
    compare(root);
    assert_int_equal(weft_distribute_module(modules[root].module, mesh, NULL, NULL, NULL, NULL), WEFT_ERR_STATE);
    weft_clear_error();
}

static void test_random_trees(void **state)
{
    (void)state;
    prng random = prng_start(1);
    for (int c = 0; c < CASES; c++) {
        weft_scope_begin();
        make_tensors(&random);
        memset(modules, 0, sizeof(modules));
        for (int m = 0; m < MODULES; m++) {
            modules[m].module = weft_module_create("any");
            modules[m].parent = -1;
        }
        for (int i = 0; i < CALLS; i++) {
            void (*const calls[])(prng *) = { add_child, add_tensor, add_tensor, set_tensor };
            calls[prng_below(&random, 4)](&random);
            compare((int)prng_below(&random, MODULES));
        }
        distribute(&random, root_of((int)prng_below(&random, MODULES)));
        for (int m = 0; m < MODULES; m++) {
            if (modules[m].parent >= 0) {
                assert_int_equal(weft_module_destroy(modules[m].module), WEFT_ERR_STATE);
                weft_clear_error();
            }
        }
        for (int m = 0; m < MODULES; m++) {
            if (modules[m].parent < 0) {
                assert_int_equal(weft_module_destroy(modules[m].module), WEFT_OK);
            }
        }
        for (int m = 0; m < MODULES; m++) {
            assert_null(weft_module_name(modules[m].module));
            assert_error(WEFT_ERR_INVALID, "is not a module");
        }
        weft_scope_end();
        assert_no_error();
    }
}

/* ---- functions that change the tree themselves ------------------------------------------------------------ */

/* Distributes the part "a", and fails at "b". */
static weft_status distribute_a_part(const char *name, weft_module *module, weft_mesh *on, void *context)
{
    if (strcmp(name, "a") == 0) {
        return weft_distribute_module(module, on, NULL, NULL, NULL, NULL);
    }
    return strcmp(name, "b") == 0 && *(bool *)context ? WEFT_ERR_UNSUPPORTED : WEFT_OK;
}

static void test_parts_distributed_within(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_module *root = weft_module_create("root"), *part = weft_module_create("part");
    weft_module_add_child(root, "a", part);
    weft_module_add_child(root, "b", weft_module_create("part"));
    for (int fails = 1; fails >= 0; fails--) {
        bool failing = fails > 0;
        weft_status status = weft_distribute_module(root, mesh, distribute_a_part, NULL, NULL, &failing);
        assert_int_equal(status, failing ? WEFT_ERR_UNSUPPORTED : WEFT_OK);
        weft_clear_error();
        assert_ptr_equal(weft_module_mesh(part), failing ? NULL : mesh);
        assert_ptr_equal(weft_module_mesh(root), failing ? NULL : mesh);
    }
    weft_module_destroy(root);
    weft_scope_end();
    assert_no_error();
}

static weft_status add_itself(weft_module *module, weft_mesh *on, int num_tensors, weft_tensor *of[], void *context)
{
    (void)on;
    (void)of;
    (void)num_tensors;
    ++*(int *)context;
    return weft_module_add_hook(module, WEFT_BEFORE_FORWARD, add_itself, context);
}

static weft_status nothing(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    (void)self;
    (void)inputs;
    (void)outputs;
    (void)context;
    return num_inputs + num_outputs == 0 ? WEFT_OK : WEFT_ERR_INVALID;
}

static void test_hooks_that_add_hooks(void **state)
{
    (void)state;
    int calls = 0;
    weft_module *module = weft_module_create("any");
    weft_module_set_forward(module, nothing, NULL);
    weft_module_add_hook(module, WEFT_BEFORE_FORWARD, add_itself, &calls);
    for (int i = 0, expected = 1; i < 4; i++, expected = 2 * expected + 1) {
        assert_int_equal(weft_module_forward(module, 0, NULL, 0, NULL), WEFT_OK);
        assert_int_equal(calls, expected);
    }
    weft_module_destroy(module);
    assert_no_error();
}

/* ---- patterns -------------------------------------------------------------------------------------------- */

/* Whether the first p characters of a pattern match the first n of a path, for all p and n from the front. */
static bool matches(const char *pattern, const char *path)
{
    enum { LONGEST = 32 };
    bool right[LONGEST + 1][LONGEST + 1] = { { true } };
    int length = (int)strlen(pattern), size = (int)strlen(path);
    assert_true(length <= LONGEST && size <= LONGEST);
    for (int p = 1; p <= length; p++) {
        bool second_star = p >= 2 && pattern[p - 1] == '*' && pattern[p - 2] == '*';
        for (int n = 0; n <= size; n++) {
            bool one = n > 0 && (pattern[p - 1] == '?' ? path[n - 1] != '.' : pattern[p - 1] == path[n - 1]);
            if (pattern[p - 1] != '*') {
                right[p][n] = one && right[p - 1][n - 1];
            } else if (second_star) { /* the pair of them */
                right[p][n] = right[p - 2][n] || (n > 0 && right[p][n - 1]);
            } else {
                right[p][n] = right[p - 1][n] || (n > 0 && path[n - 1] != '.' && right[p][n - 1]);
            }
        }
    }
    return right[length][size];
}

static void test_random_patterns(void **state)
{
    (void)state;
    prng random = prng_start(2);
    int matched = 0;
    for (int c = 0; c < 200000; c++) {
        static const char letters[] = "aab.**?";
        char pattern[10] = "", path[10] = "";
        int length = (int)prng_below(&random, 7), size = (int)prng_below(&random, 9), stars = 0;
        for (int i = 0; i < length; i++) {
            pattern[i] = letters[prng_below(&random, 7)];
            stars = pattern[i] == '*' ? stars + 1 : 0;
            pattern[i] = stars > 2 ? 'a' : pattern[i]; /* how three stars are read is nobody's matter */
            stars = stars > 2 ? 0 : stars;
        }
        for (int i = 0; i < size; i++) {
            path[i] = letters[prng_below(&random, 4)];
        }
        bool right = matches(pattern, path);
        matched += right;
        if (weft_path_matches(pattern, path) != right) {
            fail_msg("\"%s\" %s \"%s\"", pattern, right ? "should match" : "should not match", path);
        }
    }
    assert_true(matched > 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees),
        cmocka_unit_test(test_parts_distributed_within),
        cmocka_unit_test(test_hooks_that_add_hooks),
        cmocka_unit_test(test_random_patterns),
    };
    return cmocka_run_group_tests(tests, start, world_stop);
}
