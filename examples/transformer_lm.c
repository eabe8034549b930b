/* A transformer that continues a text, byte by byte: the model that people train today, small.
 *
 *     x = embed[tokens]                                       [N, D], N = sequences x context
 *     each layer:
 *         n = norm(x)      x = x + wo attention(rotary(wq n), rotary(wk n), wv n)
 *         n = norm(x)      x = x + w2 (silu(w1 n) * w3 n)
 *     loss = cross_entropy(head norm(x), the next byte)
 *
 * norm is RMSNorm, attention is causal and has groups of heads with common keys and values. The forward functions
 * know nothing of ranks: the plan below says where the weights lie, and communication follows from that.
 *
 * Only reading a loss waits, some steps after its own. Until then the program keeps submitting, and an unfinished
 * sum over ranks delays only the tasks that need it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "arguments.h"
#include "batches.h"
#include "checkpoints.h"
#include "layouts.h"
#include "muon.h"
#include "report.h"
#include "sample.h"
#include "terminal.h"
#include "text.h"
#include "transformer_options.h"

enum {
    BYTES = 256,
    MAX_PARAMETERS = 9 * 256 + 3, /* of the most layers */
    IN_FLIGHT = 4 /* submitted steps that may be unfinished: keeps the ranks busy within limited memory */
};

static transformer_options o; /* read once, in main() */

/* ---- the model ------------------------------------------------------------------------------------------- */

typedef weft_tensor *formula(weft_module *m, weft_tensor *x);

static weft_tensor *call(weft_module *m, const char *child, weft_tensor *x)
{
    return weft_module_call(weft_module_child(m, child), x);
}

static weft_tensor *linear(weft_module *m, weft_tensor *x)
{
    return weft_matmul(x, weft_module_use(m, "weight"));
}

static weft_tensor *embedding(weft_module *m, weft_tensor *tokens)
{
    return weft_embedding(weft_module_use(m, "weight"), tokens);
}

/* With the table's rows as columns. */
static weft_tensor *tied_head(weft_module *m, weft_tensor *x)
{
    return weft_matmul_ex(x, false, weft_module_use(m, "weight"), true);
}

static weft_tensor *norm(weft_module *m, weft_tensor *x)
{
    return weft_rms_norm(x, weft_module_use(m, "weight"), 1e-5);
}

/* [N, kv_heads * group * Dh] to [sequences, kv_heads, group, context, Dh]. */
static weft_tensor *split_heads(weft_tensor *x, int64_t group)
{
    const int64_t shape[] = { -1, o.context, o.kv_heads, group, o.width / o.heads };
    return weft_permute(weft_reshape(x, 5, shape), 5, (int[]){ 0, 2, 3, 1, 4 });
}

/* The reverse, with all heads. */
static weft_tensor *join_heads(weft_tensor *x)
{
    return weft_reshape(weft_permute(x, 5, (int[]){ 0, 3, 1, 2, 4 }), 2, (int64_t[]){ -1, o.width });
}

static weft_tensor *attention(weft_module *m, weft_tensor *x)
{
    const weft_attention_options causal = { .causal = true };
    weft_tensor *q = weft_rotary(split_heads(call(m, "wq", x), o.heads / o.kv_heads), 10000, 0);
    weft_tensor *k = weft_rotary(split_heads(call(m, "wk", x), 1), 10000, 0);
    weft_tensor *v = split_heads(call(m, "wv", x), 1);
    return call(m, "wo", join_heads(weft_attention(q, k, v, &causal)));
}

static weft_tensor *mlp(weft_module *m, weft_tensor *x)
{
    return call(m, "w2", weft_mul(weft_silu(call(m, "w1", x)), call(m, "w3", x)));
}

static weft_tensor *layer(weft_module *m, weft_tensor *x)
{
    weft_tensor *h = weft_add(x, call(m, "attention", call(m, "attention_norm", x)));
    return weft_add(h, call(m, "mlp", call(m, "mlp_norm", h)));
}

static weft_tensor *transformer(weft_module *m, weft_tensor *tokens)
{
    weft_tensor *x = call(m, "embed", tokens);
    for (int64_t i = 0; i < o.layers; i++) {
        char name[40];
        snprintf(name, sizeof(name), "layers.%lld", (long long)i);
        x = call(m, name, x);
    }
    return call(m, "head", call(m, "norm", x));
}

/* ---- its weights ----------------------------------------------------------------------------------------- */

/* The forward function of all modules: the formula in their context. */
static weft_status forward(weft_module *m, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    (void)num_inputs, (void)num_outputs; /* one each */
    outputs[0] = (*(formula **)context)(m, inputs[0]);
    return weft_last_status();
}

/* A child, or with parent NULL the root. */
static weft_module *add(weft_module *parent, const char *name, formula **f)
{
    weft_module *m = weft_module_create(name);
    if (f != NULL) {
        weft_module_set_forward(m, forward, f);
    }
    if (parent != NULL) {
        weft_module_add_child(parent, name, m);
    }
    return m;
}

/* A weight's shape alone: it gets memory once it is distributed. */
static void add_weight(weft_module *m, int ndim, int64_t rows, int64_t columns)
{
    weft_module_add_parameter(m, "weight", weft_fake(WEFT_F32, ndim, (int64_t[]){ rows, columns }, NULL, NULL));
}

static void add_linear(weft_module *parent, const char *name, int64_t in, int64_t out)
{
    static formula *f = linear;
    add_weight(add(parent, name, &f), 2, in, out);
}

static void add_norm(weft_module *parent, const char *name)
{
    static formula *f = norm;
    add_weight(add(parent, name, &f), 1, o.width, 0);
}

static void add_layer(weft_module *parent, const char *name)
{
    static formula *fs[] = { layer, attention, mlp };
    const int64_t kv_width = o.width / o.heads * o.kv_heads;
    weft_module *m = add(parent, name, &fs[0]);
    add_norm(m, "attention_norm");
    weft_module *attend = add(m, "attention", &fs[1]);
    add_linear(attend, "wq", o.width, o.width);
    add_linear(attend, "wk", o.width, kv_width);
    add_linear(attend, "wv", o.width, kv_width);
    add_linear(attend, "wo", o.width, o.width);
    add_norm(m, "mlp_norm");
    weft_module *gated = add(m, "mlp", &fs[2]);
    add_linear(gated, "w1", o.width, o.hidden);
    add_linear(gated, "w2", o.hidden, o.width);
    add_linear(gated, "w3", o.width, o.hidden);
}

static weft_module *transformer_new(void)
{
    static formula *fs[] = { transformer, embedding, tied_head };
    weft_scope_begin();
    weft_module *m = add(NULL, "transformer", &fs[0]);
    add_weight(add(m, "embed", &fs[1]), 2, BYTES, o.width);
    weft_module *layers = add(m, "layers", NULL);
    for (int64_t i = 0; i < o.layers; i++) {
        char name[24];
        snprintf(name, sizeof(name), "%lld", (long long)i);
        add_layer(layers, name);
    }
    add_norm(m, "norm");
    if (o.tie) {
        weft_module_add_parameter(add(m, "head", &fs[2]), "weight", weft_module_parameter(m, "embed.weight"));
    } else {
        add_linear(m, "head", o.width, BYTES);
    }
    weft_scope_end();
    return m;
}

/* ---- its plan -------------------------------------------------------------------------------------------- */

/* Along dp each rank has some of the sequences, and of fully sharded weights some of the rows. Along tp each rank has
 * some of the heads, of the MLP's hidden numbers, and of the vocabulary; with `sequence`, also of the rows between
 * products, where x is [N, D]; with `context` of each sequence two chunks (rows_of()), and whole weights. For each module and mesh dimension the first row that fits counts. */
#define AT(parallel) (1u << (parallel))
static const unsigned replicated = AT(DATA) | AT(TENSOR) | AT(SEQUENCE) | AT(CONTEXT);
static const unsigned sharded = AT(FULLY_SHARDED) | AT(TENSOR_AND_FULLY_SHARDED);
static const unsigned tensor = AT(TENSOR) | AT(TENSOR_AND_FULLY_SHARDED), sequence = AT(SEQUENCE);

static weft_status distribute(weft_module *m)
{
    const struct {
        unsigned when; /* --parallel */
        weft_parallel entry;
    } plan[] = {
        { replicated, { "**", WEFT_PARALLEL_DATA, "dp" } },
        { sharded, { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" } },
        { AT(CONTEXT), { "**", WEFT_PARALLEL_DATA, "tp" } },
        { tensor, { "embed", WEFT_PARALLEL_EMBEDDING, "tp" } },
        { tensor, { "layers.*.attention.wo", WEFT_PARALLEL_ROWS, "tp" } },
        { tensor, { "layers.*.mlp.w2", WEFT_PARALLEL_ROWS, "tp" } },
        { sequence, { "embed", WEFT_PARALLEL_EMBEDDING, "tp", .outputs = "S0" } },
        { sequence, { "layers.*.attention.wo", WEFT_PARALLEL_ROWS, "tp", .outputs = "S0" } },
        { sequence, { "layers.*.mlp.w2", WEFT_PARALLEL_ROWS, "tp", .outputs = "S0" } },
        { sequence, { "layers.*.attention", WEFT_PARALLEL_LAYOUTS, "tp", .inputs = "R" } },
        { sequence, { "layers.*.mlp", WEFT_PARALLEL_LAYOUTS, "tp", .inputs = "R" } },
        { tensor | sequence, { "layers.*.attention.w?", WEFT_PARALLEL_COLUMNS, "tp" } }, /* wq, wk, wv */
        { tensor | sequence, { "layers.*.mlp.w?", WEFT_PARALLEL_COLUMNS, "tp" } },       /* w1, w3 */
        { tensor | sequence, { "head", WEFT_PARALLEL_COLUMNS, "tp" } },
    };
    enum { ROWS = sizeof(plan) / sizeof(*plan) };
    weft_parallel entries[ROWS];
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        if ((plan[i].when & AT(o.parallel)) != 0) {
            entries[count++] = plan[i].entry;
        }
    }
    return weft_parallelize(m, NULL, count, entries);
}

/* ---- its first values ------------------------------------------------------------------------------------ */

/* Standard deviation of a weight W: elements of x W are sums over W's rows; results of wo and w2 are summed in x. */
static double deviation(const char *name, weft_tensor *weight)
{
    bool is_table = strcmp(name, "embed.weight") == 0;
    bool adds_to_x = strstr(name, ".wo.") != NULL || strstr(name, ".w2.") != NULL;
    double gain = adds_to_x ? 1 / sqrt(2.0 * (double)o.layers) : 1;
    return gain / sqrt((double)weft_tensor_size(weight, is_table ? 1 : 0));
}

/* Each rank makes its part alone. The values depend on the seed and on the order of calls, not on the mesh. */
static void initialize(weft_module *m)
{
    const char *names[MAX_PARAMETERS];
    weft_tensor *weights[MAX_PARAMETERS];
    int count = weft_module_parameters(m, MAX_PARAMETERS, names, weights);
    weft_no_grad_begin();
    for (int i = 0; i < count; i++) {
        if (weft_tensor_ndim(weights[i]) == 1) {
            weft_fill_inplace(weights[i], 1);
        } else {
            weft_scale_inplace(weft_normal_inplace(weights[i], 0, 1), deviation(names[i], weights[i]));
        }
    }
    weft_no_grad_end();
}

/* ---- training -------------------------------------------------------------------------------------------- */

typedef struct training {
    weft_module *model;
    weft_graph *graph; /* steps are captured; NULL: they are not */
    bool is_sharded;   /* the graph's layouts have been chosen */
    batches data;
    int n, matrices;  /* parameters; matrices, which have weight decay, come first */
    int hidden;       /* of these with --muon those of layers, which come first, and have no second moment */
    int64_t elements; /* of all parameters */
    int64_t step;
    int num_tensors;
    weft_tensor *tensors[3 * MAX_PARAMETERS]; /* parameters, first moments, second ones */
    const char *names[3 * MAX_PARAMETERS];    /* of these, in checkpoints */
    checkpoints files;
    char moments[2 * MAX_PARAMETERS][64];
} training;

static void training_start(training *t)
{
    const char *names[MAX_PARAMETERS];
    weft_tensor *parameters[MAX_PARAMETERS];
    int count = weft_module_parameters(t->model, MAX_PARAMETERS, names, parameters);
    /* With --muon matrices of layers; other matrices; vectors. */
    for (int kind = 0; kind < 3; kind++) {
        t->hidden = kind == 1 ? t->n : t->hidden;
        t->matrices = t->n;
        for (int i = 0; i < count; i++) {
            bool is_hidden = o.muon && strncmp(names[i], "layers.", 7) == 0;
            if ((weft_tensor_ndim(parameters[i]) == 1 ? 2 : is_hidden ? 0 : 1) == kind) {
                t->elements += weft_tensor_num_elements(parameters[i]);
                t->names[t->n] = names[i];
                t->tensors[t->n++] = parameters[i];
            }
        }
    }
    t->num_tensors = 3 * t->n - t->hidden;
    for (int i = t->n; i < t->num_tensors; i++) {
        bool is_first = i < 2 * t->n;
        int of = is_first ? i - t->n : i - 2 * t->n + t->hidden;
        char *name = t->moments[i - t->n];
        snprintf(name, sizeof(t->moments[0]), "%s.%s.%s", of < t->hidden ? "muon" : "adam", is_first ? "first" : "second", t->names[of]);
        t->names[i] = name;
        t->tensors[i] = weft_zeros_like(t->tensors[of]);
    }
    t->files = (checkpoints){ t->n, t->num_tensors, t->names, t->tensors, NULL };
}

/* With `context`, a rank of tp has chunks c and 2 tp - 1 - c of each sequence, so that causal attention is equal work for all. */
static weft_tensor *rows_of(int32_t *bytes, int64_t count)
{
    const int64_t sequences = count / o.context;
    const weft_placement rows_on_dp[] = { weft_shard(0), weft_replicate() };
    const weft_placement sequences_on_dp = { .kind = WEFT_SHARD, .block = (sequences + o.dp - 1) / o.dp * o.context };
    const weft_placement in_zigzag = { .kind = WEFT_SHARD, .cut = WEFT_CUT_ZIGZAG, .period = o.context };
    if (o.parallel != CONTEXT) {
        return tensor_of_rows(bytes, 1, &count, rows_on_dp);
    }
    weft_tensor *rows = tensor_of_rows(bytes, 1, &count, (const weft_placement[]){ sequences_on_dp, weft_replicate() });
    return weft_redistribute(rows, NULL, (const weft_placement[]){ sequences_on_dp, in_zigzag });
}

static weft_tensor *logits_of(training *t, int32_t *tokens, int64_t count)
{
    return weft_module_call(t->model, rows_of(tokens, count));
}

/* The loss of the current batch. With bf16, products are in 16 bits, and norms and the loss in 32. */
static weft_tensor *loss_of(training *t)
{
    weft_autocast_begin(o.dtype);
    weft_tensor *targets = rows_of(t->data.targets, t->data.count);
    weft_tensor *loss = weft_cross_entropy(logits_of(t, t->data.tokens, t->data.count), targets, NULL);
    weft_autocast_end();
    return weft_redistribute(loss, NULL, NULL);
}

/* AdamW, or with --muon Muon for the matrices of layers; with clipped gradients. */
static void update(training *t)
{
    const int n = t->n, m = t->matrices, hidden = t->hidden;
    weft_tensor **parameters = t->tensors, **first = parameters + n, **second = first + n - hidden; /* [hidden] is the first */
    weft_tensor *gradients[MAX_PARAMETERS];
    for (int i = 0; i < n; i++) {
        gradients[i] = weft_grad(parameters[i]);
    }
    weft_clip_grad_norm(n, gradients, 1, 2, NULL);
    weft_adam_options adam = { .learning_rate = transformer_learning_rate(&o, t->step), .beta1 = 0.9, .beta2 = 0.95,
                               .epsilon = 1e-8, .weight_decay = 0.1 };
    t->step++;
    muon(hidden, parameters, gradients, first, &(muon_options){ adam.learning_rate, 0.95, adam.weight_decay });
    weft_adamw(m - hidden, parameters + hidden, gradients + hidden, first + hidden, second + hidden, t->step, &adam);
    adam.weight_decay = 0;
    weft_adamw(n - m, parameters + m, gradients + m, first + m, second + m, t->step, &adam);
    weft_zero_grad(n, parameters);
}

/* A step on the current batch, as a weft_graph_function. outputs[0]: the loss, Replicate. */
static weft_status step_on(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    training *t = context;
    (void)inputs, (void)scalars;
    outputs[0] = loss_of(t);
    weft_backward(outputs[0], NULL);
    update(t);
    return weft_last_status();
}

/* A submitted step: tensors of one element, to be read some steps later. */
typedef struct submitted {
    weft_tensor *loss;
    weft_tensor *asked; /* for a checkpoint, by a signal; NULL without --save */
} submitted;

/* Submits one step. The tensors are the caller's to release. */
static submitted train_step(training *t)
{
    weft_tensor *loss, *asked = NULL;
    weft_scope_begin();
    batches_draw(&t->data, t->step);
    if (t->graph != NULL) {
        weft_graph_call(t->graph, NULL, NULL, &loss);
        if (o.parallel == AUTOMATIC && !t->is_sharded) {
            weft_graph_shard(t->graph, NULL); /* the layouts between the weights, too */
            t->is_sharded = true;
        }
    } else {
        step_on(t, NULL, NULL, &loss);
    }
    weft_tensor_retain(loss);
    if (o.save != NULL) {
        asked = checkpoints_asked();
        weft_tensor_retain(asked);
    }
    weft_scope_end();
    return (submitted){ loss, asked };
}

/* All processes read the same answer here, after the same number of submitted steps. */
static void save_if_asked(training *t, weft_tensor *asked)
{
    if (asked != NULL && read_loss(asked) > 0 && weft_last_status() == WEFT_OK) {
        checkpoints_save(&t->files, o.save, t->step);
        if (weft_process_index() == 0) {
            printf("  step %6lld   checkpoint, asked for by SIGUSR1\n", (long long)t->step);
            fflush(stdout);
        }
    }
}

/* BLOCKS. */
static double validation_loss(training *t)
{
    double loss = NAN;
    weft_scope_begin();
    weft_no_grad_begin();
    batches_validation(&t->data);
    weft_tensor_item(loss_of(t), &loss);
    weft_no_grad_end();
    weft_scope_end();
    return loss;
}

/* --parallel auto: the weights are placed where a captured step takes the least predicted time. The model has shapes alone
 * by then, all Replicate. */
static void choose_layouts(training *t)
{
    weft_tensor *loss;
    weft_scope_begin();
    training_start(t);
    batches_draw(&t->data, 0);
    weft_graph *graph = weft_graph_create("step", step_on, t, 0, 0, 1);
    weft_graph_call(graph, NULL, NULL, &loss);
    FILE *table = o.table && weft_process_index() == 0 ? stdout : NULL;
    layouts_choose(graph, t->model, t->num_tensors, t->tensors, table);
    weft_graph_destroy(graph);
    weft_scope_end();
    t->n = t->hidden = 0;
    t->elements = t->step = 0;
}

/* Trains until step `until`; losses[step] gets those of the steps. */
static void train_until(training *t, int64_t until, double losses[], progress *line)
{
    submitted pending[IN_FLIGHT];
    for (int64_t read = t->step; read < until && weft_last_status() == WEFT_OK;) {
        if (t->step < until && t->step < read + IN_FLIGHT) {
            int64_t step = t->step;
            pending[step % IN_FLIGHT] = train_step(t);
        } else {
            losses[read] = read_loss(pending[read % IN_FLIGHT].loss);
            save_if_asked(t, pending[read % IN_FLIGHT].asked);
            progress_update(line, read + 1, losses[read]);
            read++;
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------------------- */

/* BLOCKS: the logits of the byte after a window of the text. */
static void predict(void *context, int32_t window[], double logits[])
{
    float last[BYTES] = { 0 };
    weft_scope_begin();
    weft_no_grad_begin();
    weft_to_host(weft_slice(logits_of(context, window, o.context), 0, -1, o.context, 1), last, sizeof(last));
    weft_no_grad_end();
    weft_scope_end();
    for (int i = 0; i < BYTES; i++) {
        logits[i] = last[i];
    }
}

/* Continues the first sequence of the next batch. */
static void write_sample(training *t)
{
    const sampler writer = { o.context, BYTES, o.run.temperature, predict, t, text_byte };
    dice d = { (uint64_t)o.run.seed };
    batches_draw(&t->data, t->step);
    sample_write(&writer, o.run.sample, t->data.tokens, &d);
}

/* ---- the program ----------------------------------------------------------------------------------------- */

/* Trains until `stop`, with pauses for validation and checkpoints, which the clock leaves out, as the first steps. */
static void train(training *t, int64_t stop, double losses[], summary *s)
{
    const int64_t start = t->step, timed = start + o.untimed, interval = o.validate > 0 ? o.validate : stop;
    progress line = progress_start("step", stop, "loss", weft_process_index() == 0);
    while (t->step < stop && weft_last_status() == WEFT_OK) {
        const int64_t from = t->step, next = from - from % interval + interval, pause = next < stop ? next : stop;
        const int64_t until = from < timed && timed < pause ? timed : pause;
        double began = seconds_now();
        train_until(t, until, losses, &line);
        weft_wait();
        s->seconds += from < timed ? 0 : seconds_now() - began;
        s->tokens += from < timed ? 0 : (until - from) * o.run.batch * o.context;
        if (until < pause) {
            continue;
        }
        s->validation_loss = validation_loss(t);
        progress_end(&line);
        validation_print(until, losses[until - 1], s->validation_loss);
        if (o.save != NULL && weft_last_status() == WEFT_OK) {
            checkpoints_save(&t->files, o.save, t->step);
        }
    }
    s->steps = t->step - start;
    s->losses = losses + start;
}

static bool run(training *t, double losses[])
{
    const int64_t stop = o.stop > 0 ? o.stop : o.run.steps;
    t->model = transformer_new();
    if (o.parallel == AUTOMATIC) {
        choose_layouts(t);
    } else {
        distribute(t->model);
    }
    weft_module_materialize(t->model);
    initialize(t->model);
    training_start(t);
    if (o.load != NULL && !checkpoints_load(&t->files, o.load, o.run.steps, &t->step, "transformer_lm")) {
        return false;
    }
    weft_wait(); /* the clock measures steps only */
    summary s = { .example = "transformer_lm", .dp = o.dp, .tp = o.tp, .token = "bytes", .validation_loss = NAN,
                  .parameters = t->elements, .all_losses = true };
    t->graph = o.run.graph ? weft_graph_create("step", step_on, t, 0, 0, 1) : NULL;
    train(t, stop, losses, &s);
    work_count(s.work);
    if (s.steps == 0 && o.save != NULL && weft_last_status() == WEFT_OK) {
        checkpoints_save(&t->files, o.save, t->step);
    }
    checkpoints_end(&t->files);
    if (o.run.sample > 0 && s.steps > 0) {
        write_sample(t);
    }
    return summary_print(&s, o.run.curve, o.run.json);
}

int main(int argc, char *argv[])
{
    int code = transformer_options_read(&o, argc, argv);
    if (code >= 0) {
        return code;
    }
    static training t;
    t.data = (batches){ .context = o.context, .rows = o.run.batch, .seed = o.run.seed };
    double *losses = calloc((size_t)o.run.steps + 1, sizeof(*losses));
    if (o.save != NULL) {
        checkpoints_heed_signal();
    }
    bool good = world_start("transformer_lm", (const char *[]){ "dp", "tp" }, o.dp, o.tp, o.run.seed) && losses != NULL &&
                batches_load(&t.data, o.run.text, weft_process_index() == 0 ? "transformer_lm" : NULL);
    if (good) {
        weft_scope_begin();
        good = run(&t, losses);
        weft_scope_end();
    }
    batches_free(&t.data);
    free(losses);
    return world_end("transformer_lm", good);
}
