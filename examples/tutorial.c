/* The steps of docs/training.md, which shows all of this. */
#include <math.h>
#include <stdio.h>

#include <weft/weft.h>

/* Where tensors lie on the mesh [dp, tp]. */
static weft_placement rows[2], columns[2];

static void say(const char *text, double value)
{
    if (weft_process_index() == 0) {
        printf("%-34s %8.4f\n", text, value);
    }
}

/* ---- a loop on arrays of the program's own ---------------------------------------------------------------- */

static void loop(void)
{
    enum { N = 64, MAX_RANKS = 64 };
    static double memory[MAX_RANKS][N];
    void *arrays[MAX_RANKS];
    int64_t shape[] = { N }, offset, extent;
    for (int i = 0; i < weft_local_ranks(); i++) { /* the ranks of this process: one, or several */
        weft_shard_box(NULL, rows, 1, shape, weft_first_rank() + i, &offset, &extent);
        for (int64_t j = 0; j < extent; j++) {
            memory[i][j] = offset + j == 0 ? N : 0; /* a peak at index 0 */
        }
        arrays[i] = memory[i];
    }

    weft_scope_begin();
    weft_tensor *heat = weft_from_local(WEFT_F64, 1, shape, arrays, NULL, rows, 0); /* the arrays, not a copy */
    weft_tensor *state = heat;
    weft_tensor_retain(state);        /* the loop's own reference */
    for (int step = 0; step < 1000; step++) {
        weft_scope_begin();            /* all that a step makes ends with it ... */
        weft_tensor *sides = weft_add(weft_roll(state, 1, 0), weft_roll(state, -1, 0));
        weft_tensor *next = weft_lerp(state, weft_scale(sides, 0.5), 0.5);
        weft_tensor_retain(next);     /* ... but for the next state */
        weft_tensor_release(state);
        state = next;
        weft_scope_end();
    }
    weft_copy_inplace(heat, state);   /* back into the arrays */
    weft_tensor_release(state);
    weft_scope_end();
    weft_wait();                      /* the arrays are the program's again */
    say("loop: first number of the array", memory[0][0]);
}

/* ---- a product ------------------------------------------------------------------------------------------- */

static void product(void)
{
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 32 }, NULL, rows);
    weft_tensor *w = weft_full(WEFT_F32, 0.5, 2, (int64_t[]){ 32, 16 }, NULL, columns);
    weft_tensor *y = weft_matmul(x, w); /* each rank has a tile: no communication */

    double mean = 0;
    weft_tensor_item(weft_mean(y, WEFT_ALL_DIMS, false), &mean); /* waits */
    say("product: mean", mean);
    weft_scope_end();
}

/* ---- a gradient ------------------------------------------------------------------------------------------ */

static void gradient(void)
{
    weft_scope_begin();
    weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 32 }, NULL, rows);
    weft_tensor *w = weft_full(WEFT_F32, 0.5, 2, (int64_t[]){ 32, 16 }, NULL, columns);
    weft_set_requires_grad(w, true);

    weft_tensor *loss = weft_mean(weft_square(weft_matmul(x, w)), WEFT_ALL_DIMS, false);
    weft_backward(loss, NULL); /* submits the backward pass, and waits for nothing */

    double value = 0, slope = 0;
    weft_tensor_item(loss, &value);
    weft_tensor_item(weft_sum(weft_grad(w), WEFT_ALL_DIMS, false), &slope);
    say("gradient: loss", value);
    say("gradient: sum of d loss / d w", slope);
    weft_scope_end();
}

/* ---- descent --------------------------------------------------------------------------------------------- */

static void descent(void)
{
    weft_scope_begin();
    weft_random_seed(1);
    weft_tensor *x = weft_randn(WEFT_F32, 2, (int64_t[]){ 64, 32 }, NULL, rows);
    weft_tensor *wanted = weft_matmul(x, weft_randn(WEFT_F32, 2, (int64_t[]){ 32, 16 }, NULL, columns));
    weft_tensor *w = weft_zeros(WEFT_F32, 2, (int64_t[]){ 32, 16 }, NULL, columns);
    weft_set_requires_grad(w, true);

    for (int step = 0; step <= 200; step++) {
        weft_scope_begin(); /* what a step makes ends with it */
        weft_tensor *loss = weft_mse(weft_matmul(x, w), wanted, WEFT_LOSS_MEAN);
        weft_backward(loss, NULL);
        weft_sgd(1, &w, (weft_tensor *[]){ weft_grad(w) }, &(weft_sgd_options){ .learning_rate = 2 }, NULL);
        weft_zero_grad(1, &w);
        if (step % 100 == 0) {
            double value = 0;
            weft_tensor_item(loss, &value);
            say("descent: loss", value);
        }
        weft_scope_end();
    }
    weft_scope_end();
}

/* ---- modules --------------------------------------------------------------------------------------------- */

static weft_status linear(weft_module *m, int num_inputs, weft_tensor *const x[], int num_outputs,
                          weft_tensor *y[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    y[0] = weft_matmul(x[0], weft_module_use(m, "weight"));
    return weft_last_status();
}

static weft_status mlp(weft_module *m, int num_inputs, weft_tensor *const x[], int num_outputs,
                       weft_tensor *y[], void *context)
{
    (void)num_inputs, (void)num_outputs, (void)context;
    weft_tensor *hidden = weft_gelu(weft_module_call(weft_module_child(m, "up"), x[0]));
    y[0] = weft_module_call(weft_module_child(m, "down"), hidden);
    return weft_last_status();
}

static weft_module *linear_new(int64_t in, int64_t out)
{
    weft_module *m = weft_module_create("linear");
    weft_tensor *unit = weft_randn(WEFT_F32, 2, (int64_t[]){ in, out }, NULL, NULL);
    weft_module_add_parameter(m, "weight", weft_scale(unit, 1 / sqrt((double)in)));
    weft_module_set_forward(m, linear, NULL);
    return m;
}

static weft_module *mlp_new(void)
{
    weft_module *m = weft_module_create("mlp");
    weft_module_add_child(m, "up", linear_new(32, 64));
    weft_module_add_child(m, "down", linear_new(64, 16));
    weft_module_set_forward(m, mlp, NULL);
    return m;
}

/* Along tp each rank has some of the hidden numbers; along dp some of the rows, and of the weights. */
static const weft_parallel plan[] = {
    { "up", WEFT_PARALLEL_COLUMNS, "tp", NULL, NULL, NULL },
    { "down", WEFT_PARALLEL_ROWS, "tp", NULL, NULL, NULL },
    { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp", NULL, NULL, NULL },
};

/* ---- an optimiser with states ---------------------------------------------------------------------------- */

enum { PARAMETERS = 2 };

typedef struct training {
    weft_module *model;
    weft_tensor *parameters[PARAMETERS], *first[PARAMETERS], *second[PARAMETERS];
    const char *names[PARAMETERS];
    int64_t step;
} training;

static void start(training *t)
{
    t->model = mlp_new();
    weft_parallelize(t->model, NULL, 3, plan);
    weft_module_parameters(t->model, PARAMETERS, t->names, t->parameters);
    for (int i = 0; i < PARAMETERS; i++) {
        t->first[i] = weft_zeros_like(t->parameters[i]); /* sharded as the parameter is */
        t->second[i] = weft_zeros_like(t->parameters[i]);
    }
}

static weft_tensor *step(training *t, weft_tensor *x, weft_tensor *wanted)
{
    weft_tensor *gradients[PARAMETERS];
    weft_tensor *loss = weft_mse(weft_module_call(t->model, x), wanted, WEFT_LOSS_MEAN);
    weft_backward(loss, NULL);
    for (int i = 0; i < PARAMETERS; i++) {
        gradients[i] = weft_grad(t->parameters[i]);
    }
    weft_clip_grad_norm(PARAMETERS, gradients, 1, 2, NULL);
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    options.learning_rate = 3e-3;
    weft_adamw(PARAMETERS, t->parameters, gradients, t->first, t->second, ++t->step, &options);
    weft_zero_grad(PARAMETERS, t->parameters);
    return loss;
}

static void train(training *t, int steps)
{
    double value = 0;
    weft_tensor *x = weft_randn(WEFT_F32, 2, (int64_t[]){ 64, 32 }, NULL, rows);
    weft_tensor *wanted =
        weft_tanh(weft_matmul(x, weft_randn(WEFT_F32, 2, (int64_t[]){ 32, 16 }, NULL, NULL)));
    for (int i = 0; i <= steps; i++) {
        weft_scope_begin();
        weft_tensor *loss = step(t, x, wanted);
        if (i % 100 == 0) {
            weft_tensor_item(loss, &value);
            say("modules: loss", value);
        }
        weft_scope_end();
    }
}

/* ---- a checkpoint ---------------------------------------------------------------------------------------- */

static void save_and_load(training *t, const char *path)
{
    double before = 0, after = 0;
    weft_tensor *x = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 32 }, NULL, rows);
    weft_no_grad_begin();
    weft_tensor_item(weft_mean(weft_module_call(t->model, x), WEFT_ALL_DIMS, false), &before);
    weft_checkpoint_save(path, PARAMETERS, t->names, t->parameters, NULL);
    for (int i = 0; i < PARAMETERS; i++) {
        weft_fill_inplace(t->parameters[i], 0);
    }
    weft_checkpoint_load(path, PARAMETERS, t->names, t->parameters); /* on any mesh, in any layout */
    weft_tensor_item(weft_mean(weft_module_call(t->model, x), WEFT_ALL_DIMS, false), &after);
    weft_no_grad_end();
    say("checkpoint: difference", after - before);
    if (weft_process_index() == 0) {
        remove(path);
    }
}

int main(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4; /* in this process, or spread over mpirun's */
    weft_init(&config);
    weft_mesh_push(weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *[]){ "dp", "tp" }));
    weft_placements_parse("S0,R", 2, rows);    /* rows over dp, replicated over tp */
    weft_placements_parse("R,S1", 2, columns); /* columns over tp, replicated over dp */

    loop();
    product();
    gradient();
    descent();

    weft_scope_begin();
    training t = { 0 };
    start(&t);
    train(&t, 200);
    save_and_load(&t, "tutorial.safetensors");
    weft_scope_end();

    int failed = weft_last_status() != WEFT_OK;
    if (failed) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    weft_finalize();
    return failed;
}
