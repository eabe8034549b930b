/* weft_graph_predict(): what is rehearsed is what is executed; a prediction changes nothing; rates, worlds, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph_support.h"

enum { RANKS = 4 };

/* The loss is read in the midst of the step. */
static void read_loss(weft_tensor *loss)
{
    double value;
    weft_tensor_item(weft_detach(loss), &value);
}

typedef struct model {
    trained_mlp mlp;
    bool reads;
} model;

static model make_model(void)
{
    return (model){ .mlp = mlp_make() };
}

static weft_status train(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    model *m = context;
    weft_tensor *loss = weft_mse(mlp_forward(&m->mlp, inputs[0]), inputs[0], WEFT_LOSS_MEAN);
    return mlp_descend(&m->mlp, loss, m->reads ? read_loss : NULL, scalars[0], &outputs[0]);
}

static void call(weft_graph *graph, weft_tensor *batch)
{
    weft_tensor *loss;
    weft_scope_begin();
    assert_int_equal(weft_graph_call(graph, &batch, (double[]){ 0.01 }, &loss), WEFT_OK);
    weft_scope_end();
}

static void start(void)
{
    WORLD(RANKS);
}

/* ---- what is rehearsed ----------------------------------------------------------------------------------- */

/* In processes that are all simulated, the largest number of tasks of any is that of the largest replay. */
static void a_replay_has_the_tasks_and_messages_that_were_predicted(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        start();
        model m = make_model();
        m.reads = reads;
        weft_tensor *batch = mlp_batch(&m.mlp);
        weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
        for (int i = 0; i < 3; i++) {
            call(graph, batch);
        }
        weft_prediction found = predict(graph, NULL);
        weft_counters before, after;
        weft_get_counters(&before, sizeof(before));
        call(graph, batch);
        weft_get_counters(&after, sizeof(after));
        uint64_t tasks = after.tasks - before.tasks;
        int64_t numbers[] = { (int64_t)tasks, (int64_t)(after.messages - before.messages) };
        assert_int_equal(found.simulated, weft_num_processes());
        if (weft_num_processes() == 1) {
            assert_true(reads ? found.tasks < tasks : found.tasks == tasks); /* those of the read are its own */
            assert_int_equal(found.messages, 0);
            assert_int_equal(found.bytes, 0);
        } else {
            assert_true(reads || found.tasks >= (uint64_t)numbers[0]);
            assert_true(found.messages > 0 && found.bytes > 0);
            assert_true(numbers[1] > 0);
        }
        assert_int_equal(found.assumed, 0);
        assert_true(found.step_us > 0 && found.computing > 0 && found.computing <= 1 && found.peak_bytes > 0);
        assert_non_null(strstr(found.critical_path, " us  "));
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

/* The same steps with and without predictions between them give the same bits, random numbers included. */
static void a_prediction_changes_nothing(void **state)
{
    (void)state;
    float weights[2][BATCH_WIDTH * MLP_HIDDEN];
    for (int predicted = 0; predicted < 2; predicted++) {
        start();
        model m = make_model();
        weft_tensor *batch = mlp_batch(&m.mlp);
        weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
        for (int i = 0; i < 4; i++) {
            call(graph, batch);
            weft_counters before, after;
            weft_graph_info known, now;
            weft_get_counters(&before, sizeof(before));
            weft_graph_get_info(graph, &known, sizeof(known));
            if (predicted) {
                predict(graph, NULL);
            }
            weft_get_counters(&after, sizeof(after));
            weft_graph_get_info(graph, &now, sizeof(now));
            assert_memory_equal(&before, &after, sizeof(before));
            assert_int_equal(known.runs, now.runs);
            assert_int_equal(known.clusters, now.clusters);
            assert_int_equal(known.bytes, now.bytes);
        }
        assert_int_equal(weft_to_host(m.mlp.weights[0], weights[predicted], sizeof(weights[0])), WEFT_OK);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    assert_memory_equal(weights[0], weights[1], sizeof(weights[0]));
}

/* ---- machines of files ----------------------------------------------------------------------------------- */

static char folder[] = "/tmp/weft-predict-XXXXXX";
static char path[sizeof(folder) + 16];

static void write_machine(double times, const char *more)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "weft-machine 2\ntask_us 0.001\ncopy_bytes_per_us %d.000\nproduct_flops_per_us %d.000\n",
            (int)(times * 1000), (int)(times * 10000));
    fprintf(file, "near_latency_us 1.000\nnear_message_us 1.000\nnear_bytes_per_us 1000.000\n");
    fprintf(file, "far_latency_us 10.000\nfar_message_us 1.000\nfar_bytes_per_us 100.000\n%send\n", more);
    assert_int_equal(fclose(file), 0);
}

/* f32 products of 2 x 256 x 256 x 256 flops at 10,000 a microsecond, as the file says. */
static weft_status products(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context;
    (void)scalars;
    outputs[0] = weft_matmul(weft_matmul(inputs[0], inputs[0]), inputs[0]);
    return WEFT_OK;
}

static void rates_of_a_file_give_the_times_of_kernels(void **state)
{
    (void)state;
    if (weft_num_processes() > 1) {
        skip();
    }
    assert_int_equal(weft_init(&(weft_config){ .world = WEFT_WORLD_SELF, .ranks = 1 }), WEFT_OK);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 1 }, NULL);
    weft_tensor *a = weft_zeros(WEFT_F32, 2, (int64_t[]){ 256, 256 }, mesh, (weft_placement[]){ weft_replicate() });
    weft_graph *graph = weft_graph_create("products", products, NULL, 1, 0, 1);
    weft_tensor *out;
    assert_int_equal(weft_graph_call(graph, &a, NULL, &out), WEFT_OK);
    const double flops = 2.0 * 2 * 256 * 256 * 256;
    for (int times = 1; times <= 8; times *= 2) {
        write_machine(times, "workers 1\ncores 4\n");
        weft_predict_options options = { .machine = path };
        double expected = flops / (times * 10000.0), found = predict(graph, &options).step_us;
        /* beside submission by this process, which takes its time */
        assert_true(found >= expected && (expected < 1000 || found < 3 * expected));
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void runs_follow_each_other(void **state)
{
    (void)state;
    start();
    model m = make_model();
    weft_tensor *batch = mlp_batch(&m.mlp);
    weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
    call(graph, batch);
    call(graph, batch);
    write_machine(0.01, "");
    double once = predict(graph, &(weft_predict_options){ .machine = path }).step_us;
    double each = predict(graph, &(weft_predict_options){ .machine = path, .runs = 3 }).step_us;
    assert_true(each > 0.2 * once && each < 1.2 * once); /* slow kernels: the submitting thread hides behind them */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Rows of tasks and of messages, by how they begin. */
static int count_rows(const char *name, const char *begin)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    char line[512];
    int rows = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        rows += strncmp(line, begin, strlen(begin)) == 0;
    }
    fclose(file);
    return rows;
}

static void options_count(void **state)
{
    (void)state;
    assert_int_equal(weft_init(&(weft_config){ .world = WEFT_WORLD_SELF, .ranks = RANKS }), WEFT_OK);
    model m = make_model();
    weft_tensor *batch = mlp_batch(&m.mlp);
    weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
    call(graph, batch);
    call(graph, batch);
    write_machine(0.01, "cores 4\n");
    char timeline[sizeof(path) + 8];
    snprintf(timeline, sizeof(timeline), "%s.json", path);
    weft_prediction one = predict(graph, &(weft_predict_options){ .machine = path, .workers = 1, .timeline = timeline });
    assert_int_equal(count_rows(timeline, "   ["), one.tasks);
    assert_int_equal(count_rows(timeline, "  ["), 0); /* messages */
    weft_prediction two = predict(graph, &(weft_predict_options){ .machine = path, .workers = 2 });
    weft_prediction shared = predict(graph, &(weft_predict_options){ .machine = path, .workers = 1, .sharing = 4 });
    assert_true(two.step_us < 0.8 * one.step_us); /* four ranks of equal work */
    assert_true(shared.step_us > 3 * one.step_us && shared.step_us < 5 * one.step_us);
    assert_true(one.busy <= 1 && two.busy <= 1 && two.busy > 0.5);
    unlink(timeline);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- worlds ---------------------------------------------------------------------------------------------- */

static weft_prediction of_fake_world(const char *size, const char *processes, const weft_predict_options *options)
{
    start_fake_processes(size, processes);
    model m = make_model();
    weft_tensor *batch = mlp_batch(&m.mlp);
    weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
    call(graph, batch);
    call(graph, batch);
    weft_prediction found = predict(graph, options);
    assert_int_equal(weft_finalize(), WEFT_OK);
    return found;
}

static void a_fake_world_predicts_any_number_of_processes(void **state)
{
    (void)state;
    write_machine(1, "");
    const weft_predict_options options = { .machine = path };
    weft_prediction one = of_fake_world("4", "1", &options), four = of_fake_world("4", "4", &options);
    weft_prediction many = of_fake_world("64", "64", &options);
    assert_int_equal(one.messages, 0);
    assert_int_equal(one.simulated, 1);
    assert_int_equal(four.simulated, 4);
    assert_int_equal(four.assumed, 0);
    assert_true(four.messages > 0 && four.communicating > 0);
    assert_int_equal(many.processes, 64);
    assert_true(many.simulated < 64 && many.messages > 0);
}

/* The same step over two processes, in a fake world and in one of two processes: test_graph_predict runs under mpirun too. */
static void a_fake_world_has_the_messages_of_a_real_one(void **state)
{
    (void)state;
    weft_prediction fake = of_fake_world("4", "2", NULL);
    start();
    bool two = weft_num_processes() == 2;
    if (two) {
        model m = make_model();
        weft_tensor *batch = mlp_batch(&m.mlp);
        weft_graph *graph = weft_graph_create("step", train, &m, 1, 1, 1);
        call(graph, batch);
        call(graph, batch);
        weft_prediction real = predict(graph, NULL);
        assert_int_equal(fake.tasks, real.tasks);
        assert_int_equal(fake.messages, real.messages);
        assert_int_equal(fake.bytes, real.bytes);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- refusals -------------------------------------------------------------------------------------------- */

static weft_status predicts_itself(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    weft_prediction found;
    weft_graph **graph = context;
    (void)scalars;
    assert_int_equal(weft_graph_predict(*graph, NULL, &found, sizeof(found)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "from within");
    outputs[0] = weft_neg(inputs[0]);
    return WEFT_OK;
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    start();
    weft_prediction found = { .step_us = 17 };
    weft_graph *graph = NULL;
    assert_int_equal(weft_graph_predict(NULL, NULL, &found, sizeof(found)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "graph is NULL");
    graph = weft_graph_create("itself", predicts_itself, &graph, 1, 0, 1);
    assert_int_equal(weft_graph_predict(graph, NULL, &found, sizeof(found)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "it has not run");
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ RANKS }, NULL);
    weft_tensor *x = weft_zeros(WEFT_F32, 1, (int64_t[]){ 8 }, mesh, (weft_placement[]){ weft_shard(0) }), *y;
    assert_int_equal(weft_graph_call(graph, &x, NULL, &y), WEFT_OK);
    assert_int_equal(weft_graph_predict(graph, NULL, NULL, sizeof(weft_prediction)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "prediction is NULL");
    const struct {
        weft_predict_options options;
        weft_status status;
        const char *text;
    } wrong[] = { { { .processes = RANKS + 1 }, WEFT_ERR_INVALID, "options.processes" },
                  { { .processes = -1 }, WEFT_ERR_INVALID, "options.processes" },
                  { { .processes = 2, .hosts = 3 }, WEFT_ERR_INVALID, "options.hosts" },
                  { { .workers = -1 }, WEFT_ERR_INVALID, "options.workers" },
                  { { .runs = 1 << 20 }, WEFT_ERR_INVALID, "options.runs" },
                  { { .machine = "/nowhere/machine" }, WEFT_ERR_IO, "options.machine, /nowhere/machine" },
                  { { .timeline = "/nowhere/timeline" }, WEFT_ERR_IO, "options.timeline, /nowhere/timeline" } };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(weft_graph_predict(graph, &wrong[i].options, &found, sizeof(found)), wrong[i].status);
        assert_error(wrong[i].status, wrong[i].text);
    }
    static const char *const files[] = { "no_such_figure 1.0\n", "submit_us many\n", "f64_flops_per_us 0.0\n", "workers\n" };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        write_machine(1, files[i]);
        assert_int_equal(weft_graph_predict(graph, &(weft_predict_options){ .machine = path }, &found, sizeof(found)), WEFT_ERR_IO);
        assert_error(WEFT_ERR_IO, path);
    }
    assert_true(found.step_us == 17);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static int set_up(void **state)
{
    (void)state;
    bool made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof(path), "%s/machine", folder);
    return made ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_has_the_tasks_and_messages_that_were_predicted),
        cmocka_unit_test(a_prediction_changes_nothing),
        cmocka_unit_test(rates_of_a_file_give_the_times_of_kernels),
        cmocka_unit_test(runs_follow_each_other),
        cmocka_unit_test(options_count),
        cmocka_unit_test(a_fake_world_predicts_any_number_of_processes),
        cmocka_unit_test(a_fake_world_has_the_messages_of_a_real_one),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
