/* Elementwise calls on tensors, whose tasks StarPU runs on two stand-in devices with less memory than the tensors: the
 * same bits as on CPUs, both devices work, and panels are evicted. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/kernels.h"
#include "runtime/cuda.h"
#include "runtime/runtime.h"
#include "tensor/state.h"
#include "stand_in.h"

enum { ROWS = 512, COLUMNS = 512, TENSORS = 6, ROUNDS = 3 };

static const size_t bytes = (size_t)ROWS * COLUMNS * sizeof(double);

static void start_on(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(2, .world = WEFT_WORLD_SELF, .seed = 7);
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 2 }, NULL)), WEFT_OK);
}

/* Each tensor is changed in turn, together with its neighbours. */
static weft_tensor *next_value(weft_tensor *const all[], int i)
{
    weft_tensor *x = all[i], *y = all[(i + 1) % TENSORS], *z = all[(i + 2) % TENSORS];
    switch (i % 3) {
    case 0:
        return weft_tanh(weft_add(weft_mul(x, y), z));
    case 1:
        return weft_where(weft_lt(x, y), weft_exp(weft_neg(weft_abs(x))), z);
    default:
        return weft_addcmul(x, weft_sigmoid(y), z, 0.5);
    }
}

static void compute(double *results)
{
    weft_placement rows;
    assert_int_equal(weft_placements_parse("S0", 1, &rows), WEFT_OK);
    weft_tensor *all[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        all[i] = weft_randn(WEFT_F64, 2, (int64_t[]){ ROWS, COLUMNS }, NULL, &rows);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TENSORS; i++) {
            assert_int_equal(weft_scope_begin(), WEFT_OK);
            weft_tensor *next = next_value(all, i);
            assert_non_null(weft_copy_inplace(all[i], next));
            assert_int_equal(weft_scope_end(), WEFT_OK);
        }
    }
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(weft_to_host(all[i], results + (size_t)i * ROWS * COLUMNS, bytes), WEFT_OK);
        weft_tensor_release(all[i]);
    }
    assert_no_error();
}

static void test_same_bits_with_eviction(void **state)
{
    (void)state;
    double *on_cpus = malloc(TENSORS * bytes), *on_devices = malloc(TENSORS * bytes);
    assert_true(on_cpus != NULL && on_devices != NULL);
    start_on("0");
    assert_true(weft_runtime.device_bytes == 0);
    compute(on_cpus);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start_on("2");
    int64_t memory = atoll(getenv("STAND_IN_BYTES"));
    assert_true(weft_runtime.device_bytes > 0 && weft_runtime.device_bytes <= memory);
    assert_true((int64_t)(TENSORS * bytes) > 2 * memory); /* all do not fit on both */
    compute(on_devices);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_memory_equal(on_cpus, on_devices, TENSORS * bytes);
    int64_t launches = 0, out = 0;
    for (int d = 0; d < 2; d++) {
        stand_in_counts counts = stand_in_device_counts(d);
        printf("# device %d: %lld kernels, %lld bytes in, %lld out, %lld from the other, %lld at once\n", d,
               (long long)counts.launches, (long long)counts.bytes_in, (long long)counts.bytes_out,
               (long long)counts.bytes_peer, (long long)counts.peak_bytes);
        assert_true(counts.launches > 0 && counts.bytes_in > 0 && counts.peak_bytes <= memory);
        launches += counts.launches;
        out += counts.bytes_out;
    }
    assert_true(launches >= ROUNDS * TENSORS * 2 * 2); /* calls, ranks */
    assert_true(out > (int64_t)(TENSORS * bytes));    /* more than the results: evicted */
    free(on_cpus);
    free(on_devices);
}

static int64_t launches(void)
{
    return stand_in_device_counts(0).launches + stand_in_device_counts(1).launches;
}

/* StarPU's models of this test alone. While they are measured CPUs take tasks that devices could run as well, where the bits are
 * the same; once they are known, so many as the times say. */
static void test_models_decide(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-models-XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    double *results[3];
    int64_t kernels[3];
    setenv("STARPU_PERF_MODEL_DIR", folder, 1);
    for (int i = 0; i < 3; i++) {
        setenv("STARPU_CALIBRATE", i == 1 ? "1" : "0", 1);
        results[i] = malloc(TENSORS * bytes);
        int64_t before = launches();
        start_on("2");
        compute(results[i]);
        assert_int_equal(weft_finalize(), WEFT_OK);
        kernels[i] = launches() - before;
        assert_memory_equal(results[i], results[0], TENSORS * bytes);
    }
    printf("# kernels on devices: %lld without models, %lld while they are measured, %lld with them\n", (long long)kernels[0],
           (long long)kernels[1], (long long)kernels[2]);
    assert_true(kernels[1] > 0 && kernels[1] < kernels[0]);
    assert_true(kernels[2] > 0 && kernels[2] <= kernels[0]);
    unsetenv("STARPU_CALIBRATE");
    unsetenv("STARPU_PERF_MODEL_DIR");
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 3; i++) {
        free(results[i]);
    }
}

/* Tensors on the program's memory, changed on devices: their last values are there after weft_wait(). */
static void test_lent_memory(void **state)
{
    (void)state;
    enum { LENT = 1000 };
    start_on("2");
    float *memory[2] = { calloc(LENT, sizeof(float)), calloc(LENT, sizeof(float)) };
    int64_t shape = 2 * LENT, before = stand_in_device_counts(0).launches + stand_in_device_counts(1).launches;
    weft_placement rows = weft_shard(0);
    for (int round = 1; round <= 20; round++) {
        weft_tensor *x = weft_from_local(WEFT_F32, 1, &shape, (void *[]){ memory[0], memory[1] }, NULL, &rows, 0);
        weft_tensor *one = weft_ones(WEFT_F32, 1, &shape, NULL, &rows);
        assert_ptr_equal(weft_add_inplace(x, one, 1), x);
        weft_tensor_release(x);
        weft_tensor_release(one);
        assert_int_equal(weft_wait(), WEFT_OK);
        for (int i = 0; i < 2 * LENT; i++) {
            assert_true(memory[i / LENT][i % LENT] == (float)round);
        }
    }
    assert_true(stand_in_device_counts(0).launches + stand_in_device_counts(1).launches > before);
    assert_int_equal(weft_finalize(), WEFT_OK);
    free(memory[0]);
    free(memory[1]);
}

/* A task that does not fit on a device runs on a CPU. */
static void test_too_large(void **state)
{
    (void)state;
    setenv("WEFT_PANEL_ROWS", "1000000", 1);
    start_on("1");
    int64_t before = stand_in_device_counts(0).launches + stand_in_device_counts(1).launches;
    int64_t size = weft_runtime.device_bytes / (int64_t)sizeof(float);
    weft_tensor *x = weft_full(WEFT_F32, 3, 1, &size, NULL, NULL), *y = weft_add(x, x);
    int64_t corner = size - 1;
    weft_tensor *last = weft_slice(y, 0, corner, size, 1);
    double value = 0;
    assert_int_equal(weft_tensor_item(last, &value), WEFT_OK);
    assert_true(value == 6);
    assert_int_equal(stand_in_device_counts(0).launches + stand_in_device_counts(1).launches, before);
    assert_int_equal(weft_finalize(), WEFT_OK);
    unsetenv("WEFT_PANEL_ROWS");
}

static void start_ranks(const char *devices, int ranks)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(ranks, .world = WEFT_WORLD_SELF, .seed = 7);
}

/* A tensor of so many bytes on each rank, or nearly; its sum with itself, whose elements are 6. */
static weft_tensor *sum_of_bytes(int64_t bytes_on_rank)
{
    int ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ ranks }, NULL));
    int64_t shape[2] = { (int64_t)ranks * 1024, bytes_on_rank / 1024 / (int64_t)sizeof(float) };
    weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_full(WEFT_F32, 3, 2, shape, NULL, &rows), *y = weft_add(x, x);
    int64_t count = shape[0] * shape[1];
    float *values = malloc((size_t)count * sizeof(float));
    assert_non_null(values);
    assert_int_equal(weft_to_host(y, values, (size_t)count * sizeof(float)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == 6);
    }
    free(values);
    return y;
}

static int64_t launched[2];

static void mark_launches(void)
{
    for (int d = 0; d < 2; d++) {
        launched[d] = stand_in_device_counts(d).launches;
    }
}

static int64_t launches_since(int device)
{
    return stand_in_device_counts(device).launches - launched[device];
}

/* One task on each rank's shard, up to a 64th of the memory. */
static void test_whole_shards(void **state)
{
    (void)state;
    start_ranks("2", 2);
    mark_launches();
    weft_tensor_impl *y = weft_tensor_get(sum_of_bytes(weft_runtime.device_bytes / 64));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(y->shards[i].num_panels, 1);
    }
    assert_int_equal(launches_since(0) + launches_since(1), 4); /* constants and sums, of both ranks */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Panels of at most a 64th of the memory, so that sixteen operands of a task fit. */
static void test_large_shards_are_cut(void **state)
{
    (void)state;
    start_ranks("2", 2);
    int64_t most = weft_runtime.device_bytes / 64;
    mark_launches();
    weft_tensor_impl *y = weft_tensor_get(sum_of_bytes(3 * most));
    for (int i = 0; i < 2; i++) {
        const weft_local_shard *shard = &y->shards[i];
        assert_true(shard->num_panels >= 3);
        assert_true(y->layout->panel_rows * weft_row_elements(2, &shard->box) * (int64_t)sizeof(float) <= most);
    }
    assert_true(launches_since(0) + launches_since(1) >= 12);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Two devices can share the shard of one rank. */
static void test_devices_share_a_shard(void **state)
{
    (void)state;
    start_ranks("2", 1);
    mark_launches();
    weft_tensor_impl *y = weft_tensor_get(sum_of_bytes(weft_runtime.device_bytes / 64));
    assert_int_equal(y->shards[0].num_panels, 2);
    assert_int_equal(launches_since(0) + launches_since(1), 4); /* by either: the scheduler's choice depends on time */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* The order of sums is that of CPUs only if panels are. */
static void test_heights_of_cpus(void **state)
{
    (void)state;
    weft_panel_policy policies[2];
    setenv("WEFT_BITS", "cpu", 1);
    for (int devices = 0; devices < 2; devices++) {
        start_ranks(devices == 0 ? "0" : "2", 2);
        policies[devices] = weft_runtime.panels;
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    setenv("WEFT_BITS", "fast", 1);
    assert_memory_equal(&policies[0], &policies[1], sizeof(policies[0]));
}

/* ---- budgets --------------------------------------------------------------------------------------------- */

enum { WIDTH = 16, BATCH = 5120, PARAMETERS = 2, STEPS = 6, SETTLED = 3, BESIDE = 400 };

static void make_parameters(weft_tensor *parameters[], weft_tensor *first[], weft_tensor *second[])
{
    for (int i = 0; i < PARAMETERS; i++) {
        parameters[i] = weft_scale(weft_randn(WEFT_F32, 2, (int64_t[]){ WIDTH, WIDTH }, NULL, NULL), 1.0 / 4);
        assert_int_equal(weft_set_requires_grad(parameters[i], true), WEFT_OK);
        first[i] = weft_zeros_like(parameters[i]);
        second[i] = weft_zeros_like(parameters[i]);
    }
}

/* inputs: none; context: the parameters */
static weft_status loss_and_gradients(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)inputs, (void)scalars;
    weft_tensor **parameters = context;
    weft_placement rows = weft_shard(0), all = weft_replicate();
    weft_tensor *x = weft_randn(WEFT_F32, 2, (int64_t[]){ BATCH, WIDTH }, NULL, &rows);
    weft_tensor *target = weft_tanh(x), *y = x;
    for (int i = 0; i < PARAMETERS; i++) {
        y = weft_gelu(weft_matmul(y, parameters[i]));
    }
    outputs[0] = weft_redistribute(weft_mse(y, target, WEFT_LOSS_MEAN), NULL, &all);
    return weft_backward(outputs[0], NULL);
}

static double train_step(weft_graph *graph, int number, weft_tensor *parameters[], weft_tensor *first[], weft_tensor *second[])
{
    weft_tensor *loss = NULL, *gradients[PARAMETERS];
    double value = NAN;
    weft_scope_begin();
    assert_int_equal(graph != NULL ? weft_graph_call(graph, NULL, NULL, &loss) : loss_and_gradients(parameters, NULL, NULL, &loss),
                     WEFT_OK);
    for (int i = 0; i < PARAMETERS; i++) {
        gradients[i] = weft_grad(parameters[i]);
    }
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    assert_int_equal(weft_adam(PARAMETERS, parameters, gradients, first, second, number, &options), WEFT_OK);
    weft_zero_grad(PARAMETERS, parameters);
    assert_int_equal(weft_tensor_item(loss, &value), WEFT_OK);
    weft_scope_end();
    assert_no_error();
    return value;
}

static int64_t bytes_out(void)
{
    return stand_in_device_counts(0).bytes_out + stand_in_device_counts(1).bytes_out;
}

/* What training asks of CUDA once it has settled: no memory, no pinning, and nothing leaves the devices but what is read. */
static void train_within_budget(int ranks, bool graph)
{
    int64_t pinned = stand_in_counted_calls().pinned_bytes;
    start_ranks(ranks == 1 ? "1" : "2", ranks);
    weft_scope_begin();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ ranks }, NULL));
    weft_tensor *parameters[PARAMETERS], *first[PARAMETERS], *second[PARAMETERS];
    stand_in_calls before = stand_in_counted_calls();
    make_parameters(parameters, first, second);
    for (int i = 0; i < BESIDE; i++) { /* so many that a part of a hundred of the buffers is more than none */
        weft_rand(WEFT_F32, 1, (int64_t[]){ 64 }, NULL, NULL);
    }
    weft_graph *step = graph ? weft_graph_create("step", loss_and_gradients, parameters, 0, 0, 1) : NULL;
    double losses[STEPS + 1] = { 0 };
    for (int number = 1; number <= STEPS; number++) {
        stand_in_calls calls = stand_in_counted_calls();
        int64_t out = bytes_out();
        losses[number] = train_step(step, number, parameters, first, second);
        assert_int_equal(weft_wait(), WEFT_OK);
        stand_in_calls now = stand_in_counted_calls();
        printf("# step %d: %lld device and %lld host allocations, %lld pinned later, %lld freed, %lld bytes out, %lld bytes pinned in all\n",
               number, (long long)(now.mallocs - calls.mallocs), (long long)(now.host_allocs - calls.host_allocs),
               (long long)(now.registers - calls.registers), (long long)(now.frees - calls.frees), (long long)(bytes_out() - out),
               (long long)(now.pinned_bytes - before.pinned_bytes));
        if (number > SETTLED) {
            assert_int_equal(now.mallocs, calls.mallocs);
            assert_int_equal(now.frees, calls.frees);
            assert_int_equal(now.host_allocs, calls.host_allocs);
            assert_int_equal(now.host_frees, calls.host_frees);
            assert_int_equal(now.registers, calls.registers);
            assert_int_equal(now.unregisters, calls.unregisters);
            assert_int_equal(bytes_out() - out, sizeof(float));
        }
        /* Parameters, activations, gradients: none of them is in main memory. */
        assert_true(now.pinned_bytes - before.pinned_bytes <= 8 << 20);
        assert_int_equal(now.pageable_bytes, before.pageable_bytes);
    }
    assert_true(losses[STEPS] < losses[1]);
    if (step != NULL) {
        weft_graph_destroy(step);
    }
    weft_scope_end();
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(stand_in_counted_calls().pinned_bytes, pinned);
}

static void test_budget(void **state)
{
    (void)state;
    train_within_budget(1, false);
}

static void test_budget_of_graphs(void **state)
{
    (void)state;
    train_within_budget(1, true);
}

static void test_budget_on_two(void **state)
{
    (void)state;
    train_within_budget(2, false);
}

/* Error words for as many tasks as StarPU launches before it knows the end of the first; all is there before the first task. */
static void test_queues_are_complete(void **state)
{
    (void)state;
    for (int tasks = 1; tasks <= 4; tasks += 3) {
        char text[8];
        snprintf(text, sizeof(text), "%d", tasks);
        setenv("STARPU_CUDA_PIPELINE", text, 1);
        start_ranks("2", 2);
        int workers[2];
        assert_int_equal(starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, workers, 2), 2);
        for (int i = 0; i < 2; i++) {
            const weft_cuda_queue *queue = &weft_runtime.cuda_queues[workers[i]];
            assert_int_equal(queue->num_errors, tasks * WEFT_CUDA_TASK_ERRORS);
            assert_true(queue->errors != NULL && queue->device_errors != NULL && queue->table != NULL && queue->workspace != NULL);
            assert_true(queue->blas != NULL && queue->blas_stream == queue->stream);
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    unsetenv("STARPU_CUDA_PIPELINE");
}

/* ---- reading --------------------------------------------------------------------------------------------- */

/* A tensor on one rank, sharded by rows or replicated is read where it is: its bytes leave the devices once, through pinned
 * memory, and no task copies them first. By columns it is brought together before. */
static void test_read_in_place(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        const char *placement;
        bool in_place;
    } rows[] = { { 1, "R", true }, { 2, "R", true }, { 2, "S0", true }, { 3, "S0", true }, { 2, "S1", false } };
    enum { HEIGHT = 301, COLUMNS_READ = 40 };
    static float got[HEIGHT * COLUMNS_READ];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start_ranks("2", rows[i].ranks);
        weft_placement placement;
        assert_int_equal(weft_placements_parse(rows[i].placement, 1, &placement), WEFT_OK);
        weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ rows[i].ranks }, NULL);
        weft_mesh_push(mesh);
        weft_tensor *x = weft_arange(WEFT_F32, 0, HEIGHT * COLUMNS_READ, 1, NULL, NULL);
        x = weft_redistribute(weft_reshape(x, 2, (int64_t[]){ HEIGHT, COLUMNS_READ }), mesh, &placement);
        x = weft_add(x, x);
        assert_int_equal(weft_wait(), WEFT_OK);
        uint64_t tasks = weft_runtime.counters.tasks;
        int64_t out = bytes_out(), pageable = stand_in_counted_calls().pageable_bytes;
        assert_int_equal(weft_to_host(x, got, sizeof(got)), WEFT_OK);
        for (int e = 0; e < HEIGHT * COLUMNS_READ; e++) {
            assert_true(got[e] == (float)(2 * e));
        }
        assert_int_equal(bytes_out() - out, sizeof(got));
        assert_int_equal(stand_in_counted_calls().pageable_bytes, pageable);
        printf("# %s on %d ranks: %lld tasks\n", rows[i].placement, rows[i].ranks, (long long)(weft_runtime.counters.tasks - tasks));
        assert_int_equal(weft_runtime.counters.tasks == tasks, rows[i].in_place);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

static void test_printed(void **state)
{
    (void)state;
    for (int devices = 0; devices < 2; devices++) {
        start_on(devices == 0 ? "0" : "2");
        char text[1000] = "";
        FILE *file = fmemopen(text, sizeof(text), "w");
        weft_cuda_print(file);
        fclose(file);
        assert_true(devices == 0 || (strstr(text, "device CUDA 0") != NULL && strstr(text, "device CUDA 1") != NULL));
        assert_true(devices == 1 || strstr(text, "CUDA finds 2") != NULL);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

static void test_too_many(void **state)
{
    (void)state;
    setenv("WEFT_DEVICES", "3", 1);
    assert_int_equal(weft_init(NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "CUDA finds 2 devices");
}

/* Says which device, what it has, and what is needed. */
static void test_too_little(void **state)
{
    (void)state;
    setenv("WEFT_DEVICES", "2", 1);
    assert_int_equal(weft_init(NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "device 0 has 524288 bytes of memory, at least 1048576 are needed");
}

int main(void)
{
    const struct CMUnitTest refused[] = { cmocka_unit_test(test_too_little) };
    if (atoll(getenv("STAND_IN_BYTES")) == 524288) {
        return cmocka_run_group_tests(refused, NULL, NULL);
    }
    const struct CMUnitTest fast[] = {
        cmocka_unit_test(test_whole_shards),
        cmocka_unit_test(test_large_shards_are_cut),
        cmocka_unit_test(test_devices_share_a_shard),
        cmocka_unit_test(test_heights_of_cpus),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_budget_of_graphs),
        cmocka_unit_test(test_budget_on_two),
        cmocka_unit_test(test_queues_are_complete),
        cmocka_unit_test(test_read_in_place),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    if (strcmp(getenv("WEFT_BITS"), "fast") == 0) {
        return cmocka_run_group_tests(fast, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_with_eviction),
        cmocka_unit_test(test_models_decide),
        cmocka_unit_test(test_lent_memory),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
