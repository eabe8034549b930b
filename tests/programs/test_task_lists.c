/* Checks every list of random programs without running it (tasks/check.h): all operations, on random
 * layouts, meshes and panel heights. Also tests the checker, which must refuse damaged lists: a task
 * missing, twice, or with other accesses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/check.h"
#include "ops/ops.h"
#include "prng.h"
#include "programs/worker.h"
#include "support.h"

typedef enum mutation { MISSING, TWICE, MOVED, BEYOND, LATER, NUM_MUTATIONS } mutation;

static const char *const mutation_names[] = { "a task is missing", "a task stands twice",
                                              "a task writes one element further",
                                              "a task reads beyond its slot",
                                              "two tasks have changed places" };

/* Results for one registered operation, or (NULL) for redistributions. */
typedef struct record {
    const weft_operation *operation;
    uint64_t lists, tasks;
    uint64_t tried[NUM_MUTATIONS], passed[NUM_MUTATIONS];
} record;

enum { MAX_RECORDS = 600, TRIES = 3 };

static record records[MAX_RECORDS];
static int num_records;
static prng numbers = { 12345 };

static record *record_of(const weft_operation *of)
{
    int i = 0;
    while (i < num_records && records[i].operation != of) {
        i++;
    }
    assert_true(i < MAX_RECORDS);
    num_records = i == num_records ? i + 1 : num_records;
    records[i].operation = of;
    return &records[i];
}

static const char *name_of(const record *r)
{
    return r->operation == NULL ? "redistribution" : r->operation->name;
}

/* ---- mutations ----------------------------------------------------------------------------------------- */

/* A list with memory of its own for tasks and operands. */
static weft_task_list copy_list(const weft_task_list *list)
{
    weft_task_list copy = *list;
    copy.tasks.items = malloc((list->tasks.count + 1) * sizeof(weft_task));
    copy.operands.items = malloc(list->operands.count * sizeof(weft_task_operand) + 1);
    assert_true(copy.tasks.items != NULL && copy.operands.items != NULL);
    memcpy(copy.tasks.items, list->tasks.items, list->tasks.count * sizeof(weft_task));
    memcpy(copy.operands.items, list->operands.items, list->operands.count * sizeof(weft_task_operand));
    return copy;
}

/* In the list's own memory, for a change: also of the tasks before that share it. */
static weft_task_operand *operand_at(weft_task_list *list, const weft_task *task, size_t number)
{
    return (weft_task_operand *)list->operands.items +
           (weft_task_operand_at(list, task, (uint32_t)number) - (const weft_task_operand *)list->operands.items);
}

static void note_update(void *context, const weft_kernel_access *access)
{
    bool *updates = context;
    *updates = *updates || access->kind == WEFT_KERNEL_UPDATE;
}

static bool is_update(const weft_task_list *list, const weft_task *task)
{
    bool updates = false;
    if (task->kind != WEFT_RECORD_TASK) {
        return false;
    }
    void *arguments = malloc(list->max_arguments + 8);
    assert_non_null(arguments);
    weft_kernel_info_of(task->kernel)
        ->accesses(weft_task_arguments(list, task, arguments), (int)task->num_operands, note_update,
                   &updates);
    free(arguments);
    return updates;
}

/* The next task that goes on with a sum that task `at` has begun or gone on with; none: the number of
 * tasks. */
static size_t successor(weft_task_list *list, size_t at)
{
    weft_task *tasks = list->tasks.items;
    uint32_t slot = operand_at(list, &tasks[at], 0)->slot;
    int64_t offset = operand_at(list, &tasks[at], 0)->offset;
    size_t next = at + 1;
    while (next < list->tasks.count &&
           (operand_at(list, &tasks[next], 0)->slot != slot ||
            operand_at(list, &tasks[next], 0)->offset != offset || !is_update(list, &tasks[next]))) {
        next++;
    }
    return next;
}

/* False: there is nothing in the task to change like this. */
static bool mutate(weft_task_list *list, mutation how, size_t at, size_t size)
{
    weft_task *tasks = list->tasks.items, *task = &tasks[at];
    if (task->kind == WEFT_RECORD_SEND && (how == MISSING || how == MOVED)) {
        return false; /* that would show at the other process */
    }
    weft_task_operand *first = operand_at(list, task, 0);
    size_t behind = (list->tasks.count - at - 1) * sizeof(*tasks), other;
    switch (how) {
    case MISSING:
        memmove(task, task + 1, behind);
        list->tasks.count--;
        return true;
    case TWICE:
        memmove(task + 1, task, behind + sizeof(*tasks));
        list->tasks.count++;
        return true;
    case MOVED:
        first->offset += (int64_t)size;
        return true;
    case BEYOND:
        other = task->num_operands > 1 ? 1 + (size_t)prng_below(&numbers, task->num_operands - 1) : 0;
        operand_at(list, task, other)->offset += (int64_t)1 << 40;
        return operand_at(list, task, other)->slot != first->slot || other == 0; /* else it may not be read */
    case LATER:
        other = successor(list, at);
        if (other == list->tasks.count) {
            return false;
        }
        weft_task kept = tasks[other];
        tasks[other] = *task;
        *task = kept;
        return true;
    default:
        return false;
    }
}

/* Linked in front of weft_task_list_check() and weft_check_lowered() (--wrap). */
weft_status __real_weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                        size_t why_size);
weft_status __wrap_weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                        size_t why_size);
bool __real_weft_check_lowered(const weft_lowering *lowering);
bool __wrap_weft_check_lowered(const weft_lowering *lowering);

static void try_mutations(record *r, const weft_task_list *list, const weft_task_call *call)
{
    size_t size = weft_dtype_size(call->tensors[call->num_tensors - 1].layout->dtype);
    for (int how = 0; how < NUM_MUTATIONS; how++) {
        for (int i = 0; i < TRIES && list->tasks.count > 0; i++) {
            char why[300];
            weft_task_list copy = copy_list(list);
            size_t at = (size_t)prng_below(&numbers, (int64_t)list->tasks.count);
            if (mutate(&copy, (mutation)how, at, size)) {
                bool passed = __real_weft_task_list_check(&copy, call, why, sizeof(why)) == WEFT_OK;
                r->tried[how]++;
                r->passed[how] += passed;
                if (passed && getenv("WEFT_TEST_VERBOSE") != NULL) {
                    printf("%s: %s\n", name_of(r), mutation_names[how]);
                    weft_task_list_print(list, stdout);
                }
            }
            free(copy.tasks.items);
            free(copy.operands.items);
        }
    }
}

/* The operation whose list is being checked; NULL: it is a redistribution. */
static const weft_operation *checked;

weft_status __wrap_weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                        size_t why_size)
{
    weft_status status = __real_weft_task_list_check(list, call, why, why_size);
    record *r = record_of(checked);
    r->lists += status == WEFT_OK;
    r->tasks += list->tasks.count;
    if (status == WEFT_OK) {
        try_mutations(r, list, call);
    }
    return status;
}

bool __wrap_weft_check_lowered(const weft_lowering *lowering)
{
    checked = lowering->operation;
    bool right = __real_weft_check_lowered(lowering);
    checked = NULL;
    return right;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

enum { PROGRAMS = 1800 };
static int processes;

static void test_lists_of_programs(void **state)
{
    (void)state;
    order all = {
        .processes = processes, .from = 5000, .count = PROGRAMS / (uint64_t)processes, .checks = true
    };
    assert_int_equal(worker(&all), 0);
    uint64_t lists = 0, tasks = 0;
    for (int i = 0; i < num_records; i++) {
        lists += records[i].lists;
        tasks += records[i].tasks;
    }
    print_message("# %" PRIu64 " lists of %" PRIu64 " tasks\n", lists, tasks);
}

/* Elementwise operations that gradients alone call: on tensors of one random layout for each, of f64 or, where an operation takes complex
 * numbers alone, of c128. */
static void check_elementwise(const weft_operation *of, prng *random)
{
    weft_rule rule;
    char why[200];
    assert_int_equal(weft_rule_parse(of->rules[0], &rule, why, sizeof(why)), WEFT_OK);
    weft_mesh *mesh = random_mesh(random, weft_world_size());
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(random, 3, 9, shape);
    weft_call call = { .function = of->name, .operation = of, .num_inputs = rule.num_inputs };
    weft_scope_begin();
    for (int i = 0; i < rule.num_inputs; i++) {
        weft_placement placements[WEFT_MAX_DIMS];
        random_placements(random, mesh, ndim, false, placements);
        weft_dtype dtype = (of->inputs[i].types & WEFT_TYPE_BIT(WEFT_F64)) != 0 ? WEFT_F64 : WEFT_C128;
        call.inputs[i] = weft_ones(dtype, ndim, shape, mesh, placements);
    }
    assert_non_null(weft_dispatch(&call));
    weft_scope_end();
    weft_wait();
}

/* A bias without a gain has an operation of its own, which few programs call. */
static void check_bias_alone(void)
{
    const int64_t shape[] = { 9, 3 }, ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *bias = weft_ones(WEFT_F32, 1, &shape[1], mesh, NULL);
    assert_non_null(weft_layer_norm(weft_ones(WEFT_F32, 2, shape, mesh, &rows), NULL, bias, 1e-5));
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Parts of complex numbers that lie in the program's memory, which no view may share. */
static void check_parts(void)
{
    double pairs[4][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
    const int64_t shape[] = { 4 }, ranks = weft_world_size();
    void *locals[] = { pairs[0], pairs[1], pairs[2], pairs[3] };
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    assert_non_null(weft_view_as_real(weft_from_local(WEFT_C128, 1, shape, locals, mesh, &rows, 0)));
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Gradients of a pooling function, and those of its gradient by the output's. */
static void check_pooling(bool largest)
{
    const int64_t shape[] = { 6, 2, 5 }, ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    const weft_pooling window = { .kernel = { 2 } };
    weft_tensor *a = weft_ones(WEFT_F32, 3, shape, mesh, &rows), *first = NULL, *second = NULL;
    assert_int_equal(weft_set_requires_grad(a, true), WEFT_OK);
    weft_tensor *result = largest ? weft_max_pool(a, 1, &window, NULL) : weft_avg_pool(a, 1, &window);
    weft_tensor *gradient = weft_full_like(result, 2);
    assert_int_equal(weft_set_requires_grad(gradient, true), WEFT_OK);
    assert_int_equal(weft_gradients(1, &result, &gradient, 1, &a, true, &first), WEFT_OK);
    weft_tensor *ones = weft_full_like(first, 1);
    assert_int_equal(weft_gradients(1, &first, &ones, 1, &gradient, false, &second), WEFT_OK);
    assert_non_null(second);
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* The gradient of a cross-entropy of sharded classes. */
static void check_sharded_classes(void)
{
    const int64_t shape[] = { 6, 9 }, ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement columns = weft_shard(1);
    weft_tensor *logits = weft_ones(WEFT_F32, 2, shape, mesh, &columns), *targets = weft_zeros(WEFT_I64, 1, shape, mesh, NULL);
    assert_int_equal(weft_set_requires_grad(logits, true), WEFT_OK);
    assert_int_equal(weft_backward(weft_cross_entropy(logits, targets, NULL), NULL), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Linear algebra, which random programs do not call: they do not know whether a matrix is singular. A matrix that lies in several
 * panels, and a batch of them that is sharded. */
static void check_linear_algebra(void)
{
    const int64_t shape[] = { 6, 5, 5 }, ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    weft_tensor *unit = weft_eye(WEFT_F64, 5, 5, mesh, NULL), *many = weft_redistribute(weft_expand(unit, 3, shape), mesh, &rows);
    weft_tensor *const all[] = { unit, many };
    for (int i = 0; i < 2; i++) {
        weft_tensor *a = all[i], *second, *third;
        assert_non_null(weft_cholesky_solve(a, weft_cholesky(a, i == 0), i == 0));
        assert_non_null(weft_solve(a, a));
        assert_non_null(weft_lu(a, &second, &third));
        assert_non_null(weft_inverse(a));
        assert_non_null(weft_slogdet(a, &second));
        assert_non_null(weft_matrix_exp(a));
        assert_non_null(weft_qr(a, &second));
        assert_non_null(weft_qr_complete(a, &second));
        assert_non_null(weft_eigh(a, false, &second));
        assert_non_null(weft_eig(a, &second));
        assert_non_null(weft_svd(a, &second, &third));
    }
    assert_int_equal(weft_set_requires_grad(many, true), WEFT_OK);
    weft_tensor *determinants = weft_det(many), *ones = weft_full_like(determinants, 1), *gradient;
    assert_int_equal(weft_gradients(1, &determinants, &ones, 1, &many, false, &gradient), WEFT_OK);
    weft_tensor *large = weft_eye(WEFT_F64, 512, 512, mesh, &rows), *column = weft_slice(large, 1, 0, 1, 1);
    assert_non_null(weft_cholesky(large, true)); /* by blocks of rows */
    assert_non_null(weft_solve(large, column));
    assert_non_null(weft_qr(large, NULL));
    assert_int_equal(weft_wait(), WEFT_OK);
}

/* Steps of the kinds of optimisers with one state, two and three, of which random programs do not call any. */
static void check_optimizers(void)
{
    const int64_t shape[] = { 9, 4 }, ranks = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement rows = weft_shard(0);
    const weft_optimizer kinds[] = { WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_NADAM, WEFT_OPTIMIZER_ADAM };
    for (int k = 0; k < 3; k++) {
        weft_tensor *p = weft_ones(WEFT_F32, 2, shape, mesh, &rows), *gradient = weft_full_like(p, 2);
        weft_tensor *states[] = { weft_zeros_like(p), weft_zeros_like(p), weft_zeros_like(p) };
        weft_optimizer_options options;
        assert_int_equal(weft_optimizer_options_init(&options, kinds[k]), WEFT_OK);
        options.amsgrad = kinds[k] == WEFT_OPTIMIZER_ADAM;
        assert_int_equal(weft_optimizer_states(&options), k + 1);
        assert_int_equal(weft_optimizer_step(1, &p, &gradient, states, 1, &options), WEFT_OK);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
}

static void test_lists_of_gradients(void **state)
{
    (void)state;
    enum { TIMES = 20 };
    prng random = { 77 };
    setenv("WEFT_TASK_CACHE", "check", 1);
    start_with_panels(4, "2");
    int count = 0;
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++) {
            const weft_operation *of = weft_operation_families[f][i];
            if (record_of(of)->lists == 0 && weft_kernel_is_elementwise(of->kernel) && of->rules[0] != NULL) {
                for (int turn = 0; turn < TIMES; turn++) {
                    check_elementwise(of, &random);
                }
                count++;
            }
        }
    }
    check_bias_alone();
    check_parts();
    check_pooling(true);
    check_pooling(false);
    check_sharded_classes();
    check_linear_algebra();
    check_optimizers();
    assert_int_equal(weft_finalize(), WEFT_OK);
    print_message("# %d operations\n", count);
}

static void test_every_operation_was_checked(void **state)
{
    (void)state;
    int missing = 0, operations = 0;
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++, operations++) {
            const record *r = record_of(weft_operation_families[f][i]);
            bool composite = r->operation->expand != NULL && r->operation->expands == NULL;
            if (r->lists == 0 && !composite) { /* which become calls of others */
                print_error("no list of %s was checked\n", r->operation->name);
                missing++;
            }
        }
    }
    print_message("# %d operations\n", operations);
    assert_int_equal(missing, 0);
}

/* Limits of the checker: operations that change a part of their target, or nothing, may change any part;
 * of others the rest has been cleared before. */
static bool is_expected(const weft_operation *of, mutation how)
{
    static const char *const parts[] = { "cat", "slice_backward", "pad", "pad_zeros", "attention_state", "attention_backward_q",
                                         "attention_backward_kv" };
    bool found = false;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && of != NULL; i++) {
        found = found || strcmp(of->name, parts[i]) == 0;
    }
    return found && (how == MISSING || how == MOVED);
}

static void test_mutations_are_refused(void **state)
{
    (void)state;
    int missed = 0;
    for (int how = 0; how < NUM_MUTATIONS; how++) {
        uint64_t tried = 0, passed = 0;
        for (int i = 0; i < num_records; i++) {
            const record *r = &records[i];
            tried += r->tried[how];
            passed += r->passed[how];
            if (r->passed[how] > 0 && !is_expected(r->operation, (mutation)how)) {
                print_error("%s, and nothing is said: %s, %" PRIu64 " of %" PRIu64 "\n", mutation_names[how],
                            name_of(r), r->passed[how], r->tried[how]);
                missed++;
            }
        }
        print_message("# %s: %" PRIu64 " of %" PRIu64 " refused\n", mutation_names[how], tried - passed,
                      tried);
        assert_true(tried > 0);
    }
    assert_int_equal(missed, 0);
}

/* One argument: the number of processes. */
int main(int count, char *arguments[])
{
    processes = count > 1 ? atoi(arguments[1]) : 1;
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_lists_of_programs),
        cmocka_unit_test(test_lists_of_gradients),
        cmocka_unit_test(test_mutations_are_refused),
        cmocka_unit_test(test_every_operation_was_checked),
    };
    /* Few programs do not call everything. */
    const struct CMUnitTest few[] = { all[0], all[2] };
    return processes > 1 ? cmocka_run_group_tests_name("task_lists", few, NULL, NULL)
                         : cmocka_run_group_tests_name("task_lists", all, NULL, NULL);
}
