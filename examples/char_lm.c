/* A next-character model, trained on a mesh of dp x tp ranks.
 *
 *     x    = table[the previous 16 characters]   [B, 16 E]
 *     h1   = x W1 + b1         a1 = gelu(h1)     [B, H]
 *     h2   = a1 W2 + b2        a2 = gelu(h2)     [B, H]
 *     z    = a2 W3 + b3                          [B, V]
 *     loss = cross_entropy(z, the next character)
 *
 * dp shards the rows of the batch. tp shards the hidden layer between the first two products: W1 by
 * columns, W2 by rows, so that one sum over tp after W2 is the only communication (as in Megatron-LM).
 *
 * Only reading a loss waits, some steps after its own. Until then the program keeps submitting, and an
 * unfinished sum over ranks delays only the tasks that need it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

#include "options.h"
#include "report.h"
#include "sample.h"
#include "terminal.h"
#include "text.h"

enum {
    CONTEXT = 16, /* characters of context */
    NUM_PARAMETERS = 7,
    IN_FLIGHT = 8 /* submitted steps that may be unfinished: keeps the ranks busy within limited memory */
};

/* Placements on the mesh [dp, tp]. */
#define R                                                                                                    \
    {                                                                                                        \
        .kind = WEFT_REPLICATE                                                                               \
    }
#define S(d)                                                                                                 \
    {                                                                                                        \
        .kind = WEFT_SHARD, .dim = (d)                                                                       \
    }
static const weft_placement everywhere[2] = { R, R };
static const weft_placement rows_on_dp[2] = { S(0), R };
static const weft_placement rows_on_tp[2] = { R, S(0) };
static const weft_placement columns_on_tp[2] = { R, S(1) };

/* ---- the model ----------------------------------------------------------------------------------------- */

typedef struct layer {
    weft_tensor *weight, *bias;
} layer;

typedef struct model {
    weft_tensor *table;
    layer first, second, last;
} model;

/* Normal values of mean 0; they depend on the seed and on the order of calls, not on the mesh. */
static weft_tensor *normal(const options *o, int64_t rows, int64_t columns, double deviation,
                           const weft_placement *where)
{
    weft_scope_begin();
    weft_tensor *unit = weft_randn(o->dtype, 2, (int64_t[]){ rows, columns }, NULL, where);
    weft_tensor *values = weft_scope_keep(weft_scale(unit, deviation));
    weft_scope_end();
    return values;
}

/* A step of gradient descent, in the backward pass as soon as the gradient is complete: its sum over dp overlaps
 * with the rest of the pass. */
static weft_status descend(weft_tensor *parameter, weft_tensor *gradient, void *rate)
{
    weft_add_inplace(parameter, gradient, -*(const double *)rate);
    return weft_last_status();
}

/* The name is for profiles: docs/profiling.md. */
static weft_tensor *parameter(options *o, weft_tensor *values, const char *name)
{
    weft_tensor_set_name(values, name);
    weft_set_requires_grad(values, true);
    weft_set_grad_hook(values, descend, &o->run.rate);
    return values;
}

static layer layer_new(options *o, const char *weight_name, const char *bias_name, int64_t in, int64_t out,
                       const weft_placement *weight_where, const weft_placement *bias_where)
{
    weft_tensor *weight = normal(o, in, out, 1 / sqrt((double)in), weight_where);
    weft_tensor *bias = weft_zeros(o->dtype, 1, &out, NULL, bias_where);
    return (layer){ parameter(o, weight, weight_name), parameter(o, bias, bias_name) };
}

static model model_new(options *o)
{
    int64_t in = CONTEXT * o->embed;
    weft_tensor *table = normal(o, NUM_SYMBOLS, o->embed, 1, everywhere);
    return (model){ .table = parameter(o, table, "table"),
                    .first = layer_new(o, "W1", "b1", in, o->hidden, columns_on_tp, rows_on_tp),
                    .second = layer_new(o, "W2", "b2", o->hidden, o->hidden, rows_on_tp, everywhere),
                    .last = layer_new(o, "W3", "b3", o->hidden, NUM_SYMBOLS, everywhere, everywhere) };
}

static int64_t model_parameters(const options *o)
{
    return NUM_SYMBOLS * o->embed + (CONTEXT * o->embed + 1) * o->hidden + (o->hidden + 1) * o->hidden +
           (o->hidden + 1) * NUM_SYMBOLS;
}

/* The logits of the next character. */
static weft_tensor *forward(const model *m, weft_tensor *context)
{
    const int64_t shape[] = { -1, CONTEXT * weft_tensor_size(m->table, 1) };
    weft_tensor *x = weft_reshape(weft_embedding(m->table, context), 2, shape);
    weft_tensor *a1 = weft_gelu(weft_add(weft_matmul(x, m->first.weight), m->first.bias));
    /* Partial on tp: each rank has the product with its rows of W2. The bias is added after their sum. */
    weft_tensor *addends = weft_matmul(a1, m->second.weight);
    weft_tensor *a2 = weft_gelu(weft_add(weft_redistribute(addends, NULL, rows_on_dp), m->second.bias));
    return weft_add(weft_matmul(a2, m->last.weight), m->last.bias);
}

/* ---- training ------------------------------------------------------------------------------------------ */

static weft_tensor *rows_of(int32_t *symbols, int ndim, const int64_t shape[])
{
    return tensor_of_rows(symbols, ndim, shape, rows_on_dp);
}

/* Random positions of the text: CONTEXT symbols from each, and the next one. */
static void draw_batch(dice *d, const text *t, int64_t batch, int32_t context[], int32_t next[])
{
    for (int64_t row = 0; row < batch; row++) {
        int64_t from = dice_below(d, t->count - CONTEXT);
        for (int i = 0; i < CONTEXT; i++) {
            context[row * CONTEXT + i] = text_symbol(t, from + i);
        }
        next[row] = text_symbol(t, from + CONTEXT);
    }
}

/* A step, as a weft_graph_function: from contexts and next symbols to the loss, Replicate. */
static weft_status step_on(void *trained, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const model *m = trained;
    (void)scalars;
    weft_tensor *loss = weft_redistribute(weft_cross_entropy(forward(m, inputs[0]), inputs[1], NULL), NULL, everywhere);
    weft_backward(loss, NULL); /* with the updates: descend() */
    weft_zero_grad(NUM_PARAMETERS,
                   (weft_tensor *[]){ m->table, m->first.weight, m->first.bias, m->second.weight,
                                      m->second.bias, m->last.weight, m->last.bias });
    outputs[0] = loss;
    return weft_last_status();
}

/* Submits one step; `graph`: captured, or NULL. The loss is the caller's to release. */
static weft_tensor *train_step(model *m, const options *o, weft_graph *graph, int32_t context_symbols[],
                               int32_t next_symbols[])
{
    weft_scope_begin();
    weft_tensor *inputs[] = { rows_of(context_symbols, 2, (int64_t[]){ o->run.batch, CONTEXT }),
                              rows_of(next_symbols, 1, &o->run.batch) };
    weft_tensor *loss;
    if (graph != NULL) {
        weft_graph_call(graph, inputs, NULL, &loss);
    } else {
        step_on(m, inputs, NULL, &loss);
    }
    weft_tensor_retain(loss);
    weft_scope_end();
    return loss;
}

/* Fills losses[steps]. False: an error, kept by weft. */
static bool train(model *m, const options *o, const text *t, dice *d, double losses[])
{
    weft_graph *graph = o->run.graph ? weft_graph_create("step", step_on, m, 2, 0, 1) : NULL;
    int32_t *context = malloc((size_t)(o->run.batch * CONTEXT) * sizeof(int32_t));
    int32_t *next = malloc((size_t)o->run.batch * sizeof(int32_t));
    bool good = context != NULL && next != NULL;
    progress line = progress_start("step", o->run.steps, "loss", weft_process_index() == 0);
    weft_tensor *pending[IN_FLIGHT];
    for (int64_t step = 0; good && step < o->run.steps + IN_FLIGHT; step++) {
        int64_t read = step - IN_FLIGHT; /* the step whose loss is read now */
        if (read >= 0 && read < o->run.steps) {
            losses[read] = read_loss(pending[read % IN_FLIGHT]);
            progress_update(&line, read + 1, losses[read]);
        }
        if (step < o->run.steps) {
            draw_batch(d, t, o->run.batch, context, next);
            pending[step % IN_FLIGHT] = train_step(m, o, graph, context, next);
        }
        good = weft_last_status() == WEFT_OK;
    }
    good = weft_wait() == WEFT_OK && good;
    progress_end(&line);
    if (graph != NULL) {
        weft_graph_destroy(graph);
    }
    free(context);
    free(next);
    return good;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* BLOCKS: the logits of the next character, NUM_SYMBOLS on every process. The batch has one row: only the
 * first rank of dp has it. */
static void predict(void *trained, int32_t context[], double logits[])
{
    weft_scope_begin();
    weft_no_grad_begin();
    weft_tensor *z = forward(trained, rows_of(context, 2, (int64_t[]){ 1, CONTEXT }));
    weft_no_grad_end();
    if (weft_tensor_dtype(z) == WEFT_F64) {
        weft_to_host(z, logits, NUM_SYMBOLS * sizeof(*logits));
    } else {
        float narrow[NUM_SYMBOLS] = { 0 };
        weft_to_host(z, narrow, sizeof(narrow));
        for (int i = 0; i < NUM_SYMBOLS; i++) {
            logits[i] = narrow[i];
        }
    }
    weft_scope_end();
}

/* Continues from a random position of the text. */
static bool write_sample(model *m, const options *o, const text *t, dice *d)
{
    const sampler writer = { CONTEXT, NUM_SYMBOLS, o->run.temperature, predict, m, text_character };
    int32_t context[CONTEXT], next = 0;
    draw_batch(d, t, 1, context, &next);
    sample_write(&writer, o->run.sample, context, d);
    return weft_last_status() == WEFT_OK;
}

/* ---- the program --------------------------------------------------------------------------------------- */

static bool run(options *o, const text *t, double losses[])
{
    model m = model_new(o);
    dice d = { (uint64_t)o->run.seed };
    weft_wait(); /* the clock measures steps only */
    double start = seconds_now();
    if (!train(&m, o, t, &d, losses)) {
        return false;
    }
    summary s = { .example = "char_lm",
                  .dp = o->mesh[0],
                  .tp = o->mesh[1],
                  .parameters = model_parameters(o),
                  .steps = o->run.steps,
                  .tokens = o->run.steps * o->run.batch,
                  .token = "characters",
                  .losses = losses,
                  .validation_loss = NAN,
                  .seconds = seconds_now() - start };
    if (!work_count(s.work) || (o->run.sample > 0 && !write_sample(&m, o, t, &d))) {
        return false;
    }
    return summary_print(&s, o->run.curve, o->run.json);
}

int main(int argc, char *argv[])
{
    options o;
    int code = options_read(&o, argc, argv);
    if (code >= 0) {
        return code;
    }
    text t;
    double *losses = calloc((size_t)o.run.steps, sizeof(*losses));
    bool good = world_start("char_lm", (const char *[]){ "dp", "tp" }, o.mesh[0], o.mesh[1], o.run.seed) && losses != NULL &&
                text_load(&t, o.run.text, CONTEXT + 1, weft_process_index() == 0 ? "char_lm" : NULL);
    if (good) {
        weft_scope_begin();
        good = run(&o, &t, losses);
        weft_scope_end();
        text_free(&t);
    }
    free(losses);
    return world_end("char_lm", good);
}
