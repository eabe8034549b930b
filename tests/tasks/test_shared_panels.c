/* Panels that several tasks write: their rows are written at once, and are the same as with a panel for each task. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "ops/backward.h"
#include "tasks/tasks.h"

enum { ROWS = 100, COLUMNS = 48, GROUPS = 8 };

/* ---- lists --------------------------------------------------------------------------------------------- */

/* The longest list that is made: linked in front of weft_task_list_finish() (--wrap). */
bool __real_weft_task_list_finish(weft_task_list *list);
bool __wrap_weft_task_list_finish(weft_task_list *list);

static size_t num_tasks, longest_chain;

static size_t more(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Tasks that have to wait for each other, by the accesses to their slots. */
static size_t chain_of(const weft_task_list *list)
{
    size_t longest = 0, *written = calloc(list->slots.count + 1, sizeof(*written));
    size_t *read = calloc(list->slots.count + 1, sizeof(*read));
    assert_true(written != NULL && read != NULL);
    for (size_t t = 0; t < list->tasks.count; t++) {
        const weft_task *task = weft_task_list_tasks(list) + t;
        size_t before = 0;
        for (uint32_t i = 0; i < task->num_operands; i++) {
            const weft_task_operand *operand = weft_task_operand_at(list, task, i);
            before = more(before, written[operand->slot]);
            before = more(before, operand->access == WEFT_SLOT_READ ? 0 : read[operand->slot]);
        }
        for (uint32_t i = 0; i < task->num_operands; i++) {
            const weft_task_operand *operand = weft_task_operand_at(list, task, i);
            size_t *last = operand->access == WEFT_SLOT_READ ? read : written;
            last[operand->slot] = more(last[operand->slot], before + 1);
        }
        longest = more(longest, before + 1);
    }
    free(written);
    free(read);
    return longest;
}

bool __wrap_weft_task_list_finish(weft_task_list *list)
{
    if (list->tasks.count > num_tasks) {
        num_tasks = list->tasks.count;
        longest_chain = chain_of(list);
    }
    return __real_weft_task_list_finish(list);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

enum { OUTPUTS = 2 };

typedef void (*call_function)(weft_tensor *a, weft_tensor *outputs[OUTPUTS]);

static void call_sum(weft_tensor *a, weft_tensor *outputs[OUTPUTS])
{
    outputs[0] = weft_sum(a, 1, false);
}

static void call_max(weft_tensor *a, weft_tensor *outputs[OUTPUTS])
{
    outputs[0] = weft_max_with_indices(a, 1, false, &outputs[1]);
}

static void call_norm(weft_tensor *a, weft_tensor *outputs[OUTPUTS])
{
    weft_tensor *gain = weft_ones(WEFT_F32, 1, (int64_t[]){ COLUMNS }, weft_tensor_mesh(a), NULL);
    outputs[0] = weft_rms_norm_with_statistics(a, gain, 1e-5, &outputs[1]);
}

static void call_attention(weft_tensor *a, weft_tensor *outputs[OUTPUTS])
{
    outputs[0] = weft_attention_with_log_sums(a, a, a, NULL, &outputs[1]);
}

static void call_cross_entropy(weft_tensor *a, weft_tensor *outputs[OUTPUTS])
{
    const weft_cross_entropy_options options = { .reduction = WEFT_LOSS_NONE, .ignore_index = -1 };
    int64_t rows = weft_tensor_size(a, 0);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, &rows, weft_tensor_mesh(a), NULL);
    outputs[0] = weft_cross_entropy_with_log_sums(a, targets, &options, &outputs[1]);
}

static const struct shared_call {
    const char *name;
    call_function call;
    int ndim; /* of the input */
    size_t outputs;
} calls[] = {
    { "sum", call_sum, 2, 1 },
    { "max_with_indices", call_max, 2, 2 },
    { "rms_norm_with_statistics", call_norm, 2, 2 },
    { "attention_with_log_sums", call_attention, 3, 2 },
    { "cross_entropy_with_log_sums", call_cross_entropy, 2, 2 },
};

/* Calls, and gets the bytes of all outputs; returns their number. */
static size_t run(const struct shared_call *c, int ranks, const char *variable, const char *value, char *bytes, size_t room)
{
    setenv(variable, value, 1);
    WORLD(ranks);
    int64_t size = ranks;
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *outputs[OUTPUTS] = { NULL };
    int64_t matrix[] = { ROWS, COLUMNS }, matrices[] = { ROWS, 2, COLUMNS };
    weft_tensor *a = weft_randn(WEFT_F32, c->ndim, c->ndim == 2 ? matrix : matrices, mesh, &rows);
    num_tasks = 0;
    c->call(a, outputs);
    size_t used = 0;
    for (size_t o = 0; o < c->outputs; o++) {
        size_t own = weft_tensor_bytes(outputs[o]);
        assert_true(used + own <= room);
        assert_int_equal(weft_to_host(outputs[o], bytes + used, own), WEFT_OK);
        used += own;
    }
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv(variable);
    return used;
}

static void test_shared_panels(void **state)
{
    (void)state;
    static char shared[1 << 16], single[1 << 16];
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(calls); i++) {
        for (int ranks = 1; ranks <= 3; ranks++) {
            size_t bytes = run(&calls[i], ranks, "WEFT_PANEL_BYTES", "800", shared, sizeof(shared));
            if (ranks == 1) {
                print_message("# %s: %zu tasks, %zu one after the other\n", calls[i].name, num_tasks, longest_chain);
                assert_true(num_tasks > GROUPS / 2 && longest_chain <= num_tasks / 2);
            }
            assert_int_equal(run(&calls[i], ranks, "WEFT_PANEL_ROWS", "1000", single, sizeof(single)), bytes);
            assert_memory_equal(shared, single, bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_shared_panels) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
