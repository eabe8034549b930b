/* Causal attention whose rows and keys are cut zigzag: values and gradients against whole tensors, where the results lie, and the work
 * of each rank. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine_file.h"
#include "prng.h"
#include "support.h"

#include "codelets/attention.h"
#include "dispatch/dispatch.h"

/* ---- work ------------------------------------------------------------------------------------------------ */

enum { MOST_RANKS = 8 };
static int64_t pairs[MOST_RANKS]; /* of rows and keys, that a rank's tasks multiply */

bool __real_weft_lower_kernel(const weft_lowering *lowering);
bool __wrap_weft_lower_kernel(const weft_lowering *lowering);

bool __wrap_weft_lower_kernel(const weft_lowering *lowering)
{
    const int64_t *numbers = lowering->attributes->numbers;
    weft_kernel_id kernel = lowering->operation->kernel;
    if (kernel == WEFT_KERNEL_attention_state || kernel == WEFT_KERNEL_attention_backward_q ||
        kernel == WEFT_KERNEL_attention_backward_kv) {
        int64_t rows = numbers[WEFT_ATTENTION_ROWS], keys = numbers[WEFT_ATTENTION_KEYS];
        /* With a causal mask they are the same chunk here, of which row i sees keys 0 to i. */
        pairs[lowering->shard + weft_first_rank()] += numbers[WEFT_ATTENTION_CAUSAL] ? rows * (rows + 1) / 2 : rows * keys;
    }
    return __real_weft_lower_kernel(lowering);
}

static double busiest_over_mean(int ranks, weft_cut_kind cut, bool backward)
{
    int64_t shape[] = { 1, 16 * ranks, 4 }, most = 0, sum = 0;
    weft_placement rows = { .kind = WEFT_SHARD, .dim = 1, .cut = cut };
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ ranks }, NULL);
    weft_tensor *q = weft_randn(WEFT_F64 | (backward ? WEFT_WITH_GRAD : 0), 3, shape, mesh, &rows);
    weft_tensor *k = weft_randn(WEFT_F64, 3, shape, mesh, &rows);
    const weft_attention_options options = { .causal = true };
    weft_tensor *y = weft_attention(q, k, k, &options);
    memset(pairs, 0, sizeof(pairs));
    if (backward) {
        assert_int_equal(weft_backward(weft_sum(y, WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    } else {
        y = weft_attention(weft_scale(q, 2), k, k, &options);
    }
    weft_scope_end();
    for (int i = 0; i < ranks; i++) {
        most = pairs[i] > most ? pairs[i] : most;
        sum += pairs[i];
    }
    return (double)most * ranks / (double)sum;
}

static weft_status attend(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    const weft_attention_options options = { .causal = true };
    outputs[0] = weft_attention(inputs[0], inputs[1], inputs[2], &options);
    return weft_last_status();
}

static double predicted_us(int ranks, weft_cut_kind cut, const char *machine)
{
    int64_t shape[] = { 1, 512 * ranks, 32 };
    weft_placement rows = { .kind = WEFT_SHARD, .dim = 1, .cut = cut };
    weft_prediction found;
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ ranks }, NULL);
    weft_tensor *inputs[3], *y;
    for (int i = 0; i < 3; i++) {
        inputs[i] = weft_randn(WEFT_F32, 3, shape, mesh, &rows);
    }
    weft_graph *graph = weft_graph_create("attend", attend, NULL, 3, 0, 1);
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &y), WEFT_OK);
    assert_int_equal(weft_graph_predict(graph, &(weft_predict_options){ .machine = machine }, &found, sizeof(found)), WEFT_OK);
    weft_graph_destroy(graph);
    weft_scope_end();
    return found.step_us;
}

/* Where messages take no time, a step is predicted to take as long as its busiest rank computes. */
static void prediction_knows_the_busiest(void **state)
{
    (void)state;
    char machine[MACHINE_PATH_BYTES], number[16];
    write_machine(machine, 1000, 1e6);
    setenv("WEFT_MACHINE", machine, 1);
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        snprintf(number, sizeof(number), "%d", ranks);
        setenv("WEFT_FAKE_SIZE", number, 1);
        setenv("WEFT_FAKE_PROCESSES", number, 1);
        assert_int_equal(weft_init(&(weft_config){ .world = WEFT_WORLD_FAKE }), WEFT_OK);
        double chunks = predicted_us(ranks, WEFT_CUT_CHUNKS, machine), zigzag = predicted_us(ranks, WEFT_CUT_ZIGZAG, machine);
        double counted = (double)(2 * ranks - 1) / ranks; /* of pairs, over the mean: the last chunk sees all keys */
        print_message("# %d ranks: %.0f us in chunks, predicted, zigzag %.0f: 1 / %.3f, by pairs 1 / %.3f\n", ranks, chunks, zigzag,
                      chunks / zigzag, counted);
        assert_true(fabs(chunks / zigzag / counted - 1) < 0.1);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
    unsetenv("WEFT_MACHINE");
    unsetenv("WEFT_FAKE_SIZE");
    unsetenv("WEFT_FAKE_PROCESSES");
    unlink(machine);
}

/* All ranks have as much to do; of chunks the last one has nearly twice the mean. */
static void work_is_even(void **state)
{
    (void)state;
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        WORLD(ranks);
        for (int backward = 0; backward < 2; backward++) {
            double chunks = busiest_over_mean(ranks, WEFT_CUT_CHUNKS, backward);
            double zigzag = busiest_over_mean(ranks, WEFT_CUT_ZIGZAG, backward);
            print_message("# %d ranks, %s: the busiest one's work over the mean %.3f, zigzag %.3f\n", ranks,
                          backward ? "backwards" : "forwards", chunks, zigzag);
            assert_true(backward || chunks > 1.7); /* backwards the gradients of rows and those of keys make up for each other */
            assert_true(zigzag <= 1.05);
        }
        world_stop(NULL);
    }
}

/* ---- values ------------------------------------------------------------------------------------------------ */

enum { MOST = 4 * 3 * 40 * 6 };

/* Any dense tensor of these sizes, the same on each process. */
static weft_tensor *drawn(prng *random, weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        count *= shape[d];
    }
    double *f64 = malloc(((size_t)count + 1) * sizeof(double));
    float *f32 = malloc(((size_t)count + 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        f64[i] = (double)(prng_below(random, 4001) - 2000) / 1000;
        f32[i] = (float)f64[i];
    }
    weft_tensor *tensor = weft_distribute(dtype | WEFT_WITH_GRAD, ndim, shape, dtype == WEFT_F64 ? (void *)f64 : f32, mesh, NULL);
    free(f64);
    free(f32);
    return tensor;
}

typedef struct results {
    int64_t count[5];
    double values[5][MOST];
} results;

static void note(results *of, int i, weft_tensor *tensor)
{
    assert_non_null(tensor);
    of->count[i] = weft_tensor_num_elements(tensor);
    assert_true(of->count[i] <= MOST);
    tensor = weft_to_type(weft_detach(tensor), WEFT_F64);
    assert_int_equal(weft_to_host(tensor, of->values[i], (size_t)of->count[i] * sizeof(double)), WEFT_OK);
}

static void run(results *of, weft_tensor *in[3], const weft_attention_options *options, bool is_cut)
{
    weft_tensor *log_sums = NULL, *y = weft_attention_with_log_sums(in[0], in[1], in[2], options, &log_sums);
    note(of, 0, y);
    note(of, 1, log_sums);
    weft_tensor *of_values = weft_sum(weft_mul(y, y), WEFT_ALL_DIMS, false), *of_sums = weft_sum(log_sums, WEFT_ALL_DIMS, false);
    assert_int_equal(weft_backward(weft_add(of_values, of_sums), NULL), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        note(of, 2 + i, weft_grad(in[i]));
    }
    if (is_cut) {
        assert_int_equal(weft_tensor_placements(y)[0].cut, WEFT_CUT_ZIGZAG);
        assert_int_equal(weft_tensor_placements(log_sums)[0].cut, WEFT_CUT_ZIGZAG);
    }
}

/* [batch...] rows or keys, columns, of which the rows are cut by the first mesh dimension, and the batch by the second. */
static void one_case(prng *random)
{
    static results whole, cut;
    weft_scope_begin();
    int64_t sizes[] = { 1 + prng_below(random, 6), 1 };
    sizes[1] = sizes[0] <= 3 ? 1 + prng_below(random, 2) : 1;
    weft_mesh *mesh = weft_mesh_create(2, sizes, NULL);
    weft_dtype dtype = prng_below(random, 2) == 0 ? WEFT_F64 : WEFT_F32;
    int batch = (int)prng_below(random, 3);
    int64_t rows = prng_below(random, 40), keys = prng_below(random, 2) == 0 ? rows : 1 + prng_below(random, 40);
    int64_t e = 1 + prng_below(random, 6);
    int64_t last[][2] = { { rows, e }, { keys, e }, { keys, 1 + prng_below(random, 6) } }, shape[4] = { 1 + prng_below(random, 3), 2 };
    const weft_attention_options options = { .causal = prng_below(random, 4) > 0, .scale = prng_below(random, 2) == 0 ? 0 : 0.3 };
    weft_tensor *plain[3], *zigzag[3];
    int lacking = (int)prng_below(random, 4); /* q, k or v lacks dimensions of the batch, which are repeated; 3: none does */
    for (int i = 0; i < 3; i++) {
        memcpy(shape + batch, last[i], sizeof(last[i]));
        int lacks = i == lacking ? (int)prng_below(random, batch + 1) : 0;
        weft_placement placements[] = { { .kind = WEFT_SHARD, .dim = batch - lacks, .cut = WEFT_CUT_ZIGZAG },
                                        batch > 0 && lacks == 0 ? weft_shard(0) : weft_replicate() };
        plain[i] = drawn(random, dtype, batch - lacks + 2, shape + lacks, mesh);
        zigzag[i] = weft_redistribute(weft_detach(plain[i]), mesh, placements);
        assert_int_equal(weft_set_requires_grad(zigzag[i], true), WEFT_OK);
    }
    run(&whole, plain, &options, false);
    bool is_cut = rows > 0 && keys > 0; /* few rows are as in chunks */
    for (int i = 0; i < 3; i++) {
        is_cut = is_cut && weft_tensor_placements(zigzag[i])[0].cut == WEFT_CUT_ZIGZAG;
    }
    run(&cut, zigzag, &options, is_cut);
    double slack = dtype == WEFT_F64 ? 1e-11 : 1e-4;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(whole.count[i], cut.count[i]);
        for (int64_t j = 0; j < whole.count[i]; j++) {
            double a = whole.values[i][j], b = cut.values[i][j];
            if (!(fabs(a - b) <= slack * (1 + fabs(a)) || a == b)) {
                fail_msg("result %d, element %d: %g, expected %g (%d ranks, batch %d, %d rows, %d keys)", i, (int)j, b, a, (int)sizes[0],
                         batch, (int)rows, (int)keys);
            }
        }
    }
    weft_scope_end();
}

static void values_are_right(void **state)
{
    (void)state;
    prng random = prng_start(61);
    for (int height = 0; height < 2; height++) {
        if (height > 0) {
            setenv("WEFT_PANEL_ROWS", "1", 1);
        }
        WORLD(6);
        for (int i = 0; i < cases_to_run(60); i++) {
            one_case(&random);
        }
        world_stop(NULL);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* Positions are those of the global indices; only they move, and the cut stays. */
static void rotary_keeps_the_cut(void **state)
{
    (void)state;
    static double whole[2][MOST], cut[2][MOST];
    prng random = prng_start(62);
    WORLD(6);
    for (int i = 0; i < cases_to_run(24); i++) {
        weft_scope_begin();
        int64_t sizes[] = { 2 + prng_below(&random, 2), 1 + prng_below(&random, 2) }, shape[] = { 1 + prng_below(&random, 3), 2, 0, 0 };
        weft_mesh *mesh = weft_mesh_create(2, sizes, NULL);
        weft_dtype dtype = prng_below(&random, 2) == 0 ? WEFT_F64 : WEFT_F32;
        int batch = (int)prng_below(&random, 3);
        shape[batch] = prng_below(&random, 40);
        shape[batch + 1] = 2 * prng_below(&random, 4);
        weft_placement rows = { .kind = WEFT_SHARD, .dim = batch, .cut = WEFT_CUT_ZIGZAG };
        if (prng_below(&random, 2) == 0) {
            rows = (weft_placement){ .kind = WEFT_SHARD, .dim = batch, .cut = WEFT_CUT_CYCLIC, .block = 1 + prng_below(&random, 5) };
        }
        const weft_placement placements[] = { rows, batch > 0 ? weft_shard(0) : weft_replicate() };
        weft_tensor *a = drawn(&random, dtype, batch + 2, shape, mesh), *b = weft_redistribute(weft_detach(a), mesh, placements);
        assert_int_equal(weft_set_requires_grad(b, true), WEFT_OK);
        int64_t count = weft_tensor_num_elements(a);
        for (int k = 0; k < 2; k++) {
            weft_counters before, after;
            assert_int_equal(weft_get_counters(&before, sizeof(before)), WEFT_OK);
            weft_tensor *y = weft_rotary(k == 0 ? a : b, 100, 5);
            assert_int_equal(weft_get_counters(&after, sizeof(after)), WEFT_OK);
            assert_true(k == 0 || after.bytes_moved - before.bytes_moved <= (uint64_t)(8 * shape[batch] * weft_mesh_num_ranks(mesh)));
            assert_true(k == 0 || count == 0 || weft_tensor_placements(y)[0].cut == weft_tensor_placements(b)[0].cut);
            assert_int_equal(weft_backward(weft_sum(weft_mul(y, y), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
            weft_tensor *found[] = { weft_detach(y), weft_grad(k == 0 ? a : b) };
            for (int r = 0; r < 2; r++) {
                weft_tensor *wide = weft_to_type(found[r], WEFT_F64);
                assert_int_equal(weft_to_host(wide, k == 0 ? whole[r] : cut[r], (size_t)count * sizeof(double)), WEFT_OK);
            }
        }
        for (int r = 0; r < 2; r++) {
            for (int64_t j = 0; j < count; j++) {
                assert_true(fabs(whole[r][j] - cut[r][j]) <= (dtype == WEFT_F64 ? 1e-13 : 2e-6) * (1 + fabs(whole[r][j])));
            }
        }
        weft_scope_end();
    }
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest values[] = { cmocka_unit_test(values_are_right), cmocka_unit_test(rotary_keeps_the_cut) };
    const struct CMUnitTest work[] = { cmocka_unit_test(work_is_even), cmocka_unit_test(prediction_knows_the_busiest) };
    int failed = cmocka_run_group_tests_name("attention_zigzag", values, NULL, NULL);
    /* One process lowers the calls for all ranks. */
    return over_processes() ? failed : failed + cmocka_run_group_tests_name("attention_zigzag_work", work, NULL, NULL);
}
