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
#include "terminal.h"
#include "text.h"

enum {
    CONTEXT = 16,  /* characters of context */
    IN_FLIGHT = 8, /* submitted steps that may be unfinished: keeps the ranks busy within limited memory */
    MAX_RANKS = 64 * 64
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

/* For profiles, see docs/profiling.md. */
typedef struct layer_names {
    const char *weight, *bias, *weight_gradient, *bias_gradient;
} layer_names;

typedef struct layer {
    weft_tensor *weight, *bias;
    layer_names names;
} layer;

typedef struct model {
    weft_tensor *table;
    layer first, second, last;
} model;

/* Normal values of mean 0; they depend on the seed and on the order of calls, not on the mesh. */
static weft_tensor *normal(const options *o, int64_t rows, int64_t columns, double deviation,
                           const weft_placement *where)
{
    weft_scope_open();
    weft_tensor *unit = weft_randn(o->dtype, 2, (int64_t[]){ rows, columns }, NULL, where);
    weft_tensor *values = weft_scope_keep(weft_scale(unit, deviation));
    weft_scope_close();
    return values;
}

static layer layer_new(const options *o, layer_names names, int64_t in, int64_t out,
                       const weft_placement *weight_where, const weft_placement *bias_where)
{
    layer l = { .weight = normal(o, in, out, 1 / sqrt((double)in), weight_where),
                .bias = weft_zeros(o->dtype, 1, &out, NULL, bias_where),
                .names = names };
    weft_tensor_set_name(l.weight, names.weight);
    weft_tensor_set_name(l.bias, names.bias);
    return l;
}

static model model_new(const options *o)
{
    static const layer_names first = { "W1", "b1", "W1.grad", "b1.grad" };
    static const layer_names second = { "W2", "b2", "W2.grad", "b2.grad" };
    static const layer_names last = { "W3", "b3", "W3.grad", "b3.grad" };
    model m = { .table = normal(o, NUM_SYMBOLS, o->embed, 1, everywhere),
                .first = layer_new(o, first, CONTEXT * o->embed, o->hidden, columns_on_tp, rows_on_tp),
                .second = layer_new(o, second, o->hidden, o->hidden, rows_on_tp, everywhere),
                .last = layer_new(o, last, o->hidden, NUM_SYMBOLS, everywhere, everywhere) };
    weft_tensor_set_name(m.table, "table");
    return m;
}

static int64_t model_parameters(const options *o)
{
    return NUM_SYMBOLS * o->embed + (CONTEXT * o->embed + 1) * o->hidden + (o->hidden + 1) * o->hidden +
           (o->hidden + 1) * NUM_SYMBOLS;
}

/* Values of the forward pass for the backward pass. */
typedef struct pass {
    weft_tensor *x, *h1, *a1, *h2, *a2, *z;
} pass;

static pass forward(const model *m, weft_tensor *context)
{
    int64_t embed = weft_tensor_size(m->table, 1);
    pass p;
    p.x = weft_reshape(weft_embedding(m->table, context), 2, (int64_t[]){ -1, CONTEXT * embed });
    p.h1 = weft_add(weft_matmul(p.x, m->first.weight), m->first.bias);
    p.a1 = weft_gelu(p.h1);
    /* Partial on tp: each rank has the product with its rows of W2. The bias is added after their sum. */
    weft_tensor *addends = weft_matmul(p.a1, m->second.weight);
    p.h2 = weft_add(weft_redistribute(addends, NULL, rows_on_dp), m->second.bias);
    p.a2 = weft_gelu(p.h2);
    p.z = weft_add(weft_matmul(p.a2, m->last.weight), m->last.bias);
    return p;
}

/* A step of gradient descent. The gradient is Partial on dp, because each rank has its rows of the batch;
 * the parameter keeps its layout, so the sum over dp happens here, overlapped with the rest of the
 * backward pass. */
static void descend(weft_tensor *parameter, weft_tensor *gradient, const char *name, double rate)
{
    weft_tensor_set_name(gradient, name);
    weft_add_inplace(parameter, gradient, -rate);
}

/* From the gradient of x W + b to that of x, updating W and b. The gradient of W comes first, so that its
 * sum over ranks overlaps with computing that of x, which needs the former W. */
static weft_tensor *layer_backward(const layer *l, weft_tensor *x, weft_tensor *gradient, double rate)
{
    weft_tensor *of_weight = weft_matmul_ex(x, true, gradient, false);
    weft_tensor *of_x = weft_matmul_ex(gradient, false, l->weight, true);
    descend(l->weight, of_weight, l->names.weight_gradient, rate);
    descend(l->bias, weft_sum(gradient, 0, false), l->names.bias_gradient, rate);
    return of_x;
}

static void backward(const model *m, const pass *p, weft_tensor *context, weft_tensor *next, double rate)
{
    int64_t embed = weft_tensor_size(m->table, 1);
    weft_tensor *g = weft_cross_entropy_backward(NULL, p->z, next);
    g = weft_gelu_backward(layer_backward(&m->last, p->a2, g, rate), p->h2);
    g = weft_gelu_backward(layer_backward(&m->second, p->a1, g, rate), p->h1);
    g = weft_reshape(layer_backward(&m->first, p->x, g, rate), 3, (int64_t[]){ -1, CONTEXT, embed });
    descend(m->table, weft_embedding_backward(g, context, NUM_SYMBOLS), "table.grad", rate);
}

/* ---- training ------------------------------------------------------------------------------------------ */

/* Symbols as a tensor sharded by rows on dp. Every process has all rows, and copies those of its hosted
 * ranks. */
static weft_tensor *rows_of(int32_t *symbols, int ndim, const int64_t shape[])
{
    int64_t width = ndim == 2 ? shape[1] : 1, offset[2], extent[2];
    static void *locals[MAX_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        weft_shard_box(NULL, rows_on_dp, ndim, shape, weft_first_rank() + i, offset, extent);
        locals[i] = extent[0] > 0 ? symbols + offset[0] * width : NULL;
    }
    return weft_from_local(WEFT_I32, ndim, shape, locals, NULL, rows_on_dp, WEFT_COPY);
}

/* Random positions of the text: CONTEXT symbols from each, and the next one. */
static void draw_batch(dice *d, const text *t, int64_t batch, int32_t context[], int32_t next[])
{
    for (int64_t row = 0; row < batch; row++) {
        const int32_t *from = t->symbols + dice_below(d, t->count - CONTEXT);
        for (int i = 0; i < CONTEXT; i++) {
            context[row * CONTEXT + i] = from[i];
        }
        next[row] = from[CONTEXT];
    }
}

/* Submits one step. The loss, Replicate, is the caller's to release. */
static weft_tensor *train_step(const model *m, const options *o, int32_t context_symbols[],
                               int32_t next_symbols[])
{
    weft_scope_open();
    weft_tensor *context = rows_of(context_symbols, 2, (int64_t[]){ o->batch, CONTEXT });
    weft_tensor *next = rows_of(next_symbols, 1, &o->batch);
    pass p = forward(m, context);
    weft_tensor *loss = weft_redistribute(weft_cross_entropy(p.z, next), NULL, everywhere);
    weft_tensor_retain(loss);
    backward(m, &p, context, next, o->rate);
    weft_scope_close();
    return loss;
}

/* Waits for a loss, reads and releases it. */
static double read_loss(weft_tensor *loss)
{
    double as_f64 = 0;
    float as_f32 = 0;
    bool wide = weft_tensor_dtype(loss) == WEFT_F64;
    weft_local_to_host(loss, 0, wide ? (void *)&as_f64 : (void *)&as_f32,
                       wide ? sizeof(as_f64) : sizeof(as_f32));
    weft_tensor_release(loss);
    return wide ? as_f64 : as_f32;
}

/* Fills losses[steps]. False: an error, kept by weft. */
static bool train(const model *m, const options *o, const text *t, dice *d, double losses[])
{
    int32_t *context = malloc((size_t)(o->batch * CONTEXT) * sizeof(int32_t));
    int32_t *next = malloc((size_t)o->batch * sizeof(int32_t));
    bool good = context != NULL && next != NULL;
    progress line = progress_start(o->steps, weft_process_index() == 0);
    weft_tensor *pending[IN_FLIGHT];
    for (int64_t step = 0; good && step < o->steps + IN_FLIGHT; step++) {
        int64_t read = step - IN_FLIGHT; /* the step whose loss is read now */
        if (read >= 0 && read < o->steps) {
            losses[read] = read_loss(pending[read % IN_FLIGHT]);
            progress_update(&line, read + 1, losses[read]);
        }
        if (step < o->steps) {
            draw_batch(d, t, o->batch, context, next);
            pending[step % IN_FLIGHT] = train_step(m, o, context, next);
        }
        good = weft_last_status() == WEFT_OK;
    }
    good = weft_wait() == WEFT_OK && good;
    progress_end(&line);
    free(context);
    free(next);
    return good;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

/* BLOCKS: the logits of the next character, NUM_SYMBOLS on every process. The batch has one row: only the
 * first rank of dp has it. */
static void predict(const model *m, int32_t context[], double logits[])
{
    weft_scope_open();
    weft_tensor *z = forward(m, rows_of(context, 2, (int64_t[]){ 1, CONTEXT })).z;
    if (weft_tensor_dtype(z) == WEFT_F64) {
        weft_to_host(z, logits, NUM_SYMBOLS * sizeof(*logits));
    } else {
        float narrow[NUM_SYMBOLS] = { 0 };
        weft_to_host(z, narrow, sizeof(narrow));
        for (int i = 0; i < NUM_SYMBOLS; i++) {
            logits[i] = narrow[i];
        }
    }
    weft_scope_close();
}

/* Continues from a random position of the text. */
static bool write_sample(const model *m, const options *o, const text *t, dice *d)
{
    bool speak = weft_process_index() == 0;
    int32_t context[CONTEXT], next = 0;
    draw_batch(d, t, 1, context, &next);
    if (speak) {
        printf("What it writes, at temperature %g, after \"", o->temperature);
        for (int i = 0; i < CONTEXT; i++) {
            printf(context[i] == 0 ? "\\n" : "%c", text_character(context[i]));
        }
        printf("\":\n\n  ");
    }
    for (int64_t n = 0; n < o->sample && weft_last_status() == WEFT_OK; n++) {
        double logits[NUM_SYMBOLS] = { 0 };
        predict(m, context, logits);
        next = (int32_t)dice_softmax(d, NUM_SYMBOLS, logits, o->temperature);
        for (int i = 0; i + 1 < CONTEXT; i++) {
            context[i] = context[i + 1];
        }
        context[CONTEXT - 1] = next;
        if (speak) {
            printf(next == 0 ? "\n  " : "%c", text_character(next));
            fflush(stdout);
        }
    }
    if (speak) {
        printf("\n\n");
    }
    return weft_last_status() == WEFT_OK;
}

/* ---- the report ---------------------------------------------------------------------------------------- */

/* Tasks, transfers and bytes of all processes: a tensor with one row per rank, in which a process fills
 * the row of its first rank. */
static bool count_work(int64_t totals[3])
{
    int64_t ranks = weft_world_size();
    static int64_t rows[MAX_RANKS][3];
    static void *locals[MAX_RANKS];
    weft_counters counters;
    if (weft_get_counters(&counters) != WEFT_OK) {
        return false;
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = rows[i];
    }
    rows[0][0] = (int64_t)counters.tasks;
    rows[0][1] = (int64_t)counters.transfers;
    rows[0][2] = (int64_t)counters.bytes_moved;
    weft_placement one_row_each = weft_shard(0);
    weft_tensor *all = weft_from_local(WEFT_I64, 2, (int64_t[]){ ranks, 3 }, locals,
                                       weft_mesh_create(1, &ranks, NULL), &one_row_each, WEFT_COPY);
    static int64_t everyone[MAX_RANKS][3];
    weft_status status = weft_to_host(all, everyone, sizeof(everyone));
    for (int i = 0; i < 3; i++) {
        totals[i] = 0;
        for (int64_t rank = 0; rank < ranks; rank++) {
            totals[i] += everyone[rank][i];
        }
    }
    return status == WEFT_OK;
}

/* The mean of the last tenth of the steps, at most 50: a single batch varies. */
static double last_loss(int64_t steps, const double losses[])
{
    int64_t n = steps / 10 < 1 ? 1 : steps / 10 > 50 ? 50 : steps / 10;
    double sum = 0;
    for (int64_t i = steps - n; i < steps; i++) {
        sum += losses[i];
    }
    return sum / (double)n;
}

static void print_summary(const options *o, const double losses[], double seconds, const int64_t work[3])
{
    int dp = (int)o->dp, tp = (int)o->tp, processes = weft_num_processes();
    double first = losses[0], last = last_loss(o->steps, losses);
    double rate = (double)(o->steps * o->batch) / seconds;
    long long steps = o->steps, tasks = work[0], transfers = work[1], bytes = work[2];

    printf("Loss\n\n");
    chart_print(stdout, o->steps, losses, 72, 10);
    printf("\n  mesh         dp %d x tp %d: %d rank%s in %d process%s\n", dp, tp, dp * tp,
           dp * tp > 1 ? "s" : "", processes, processes > 1 ? "es" : "");
    printf("  parameters   %lld\n", (long long)model_parameters(o));
    printf("  steps        %lld in %.1f s, %.0f characters/s\n", steps, seconds, rate);
    printf("  loss         %.3f at first, %.3f at last\n", first, last);
    printf("  work         %lld tasks, %lld transfers, %.1f MB moved between ranks\n", tasks, transfers,
           1e-6 * (double)bytes);
    if (o->json) {
        printf("{\"example\": \"char_lm\", \"mesh\": [%d, %d], \"ranks\": %d, \"processes\": %d, "
               "\"steps\": %lld, \"loss_first\": %.6g, \"loss_last\": %.6g, \"seconds\": %.3f, "
               "\"tokens_per_s\": %.1f, \"tasks\": %lld, \"transfers\": %lld, \"bytes_moved\": %lld}\n",
               dp, tp, dp * tp, processes, steps, first, last, seconds, rate, tasks, transfers, bytes);
    }
}

static bool write_curve(const char *path, int64_t steps, const double losses[])
{
    FILE *file = fopen(path, "w");
    bool good = file != NULL;
    for (int64_t i = 0; good && i < steps; i++) {
        good = fprintf(file, "%.9g\n", losses[i]) > 0;
    }
    if (file != NULL && fclose(file) != 0) {
        good = false;
    }
    if (!good) {
        perror(path);
    }
    return good;
}

/* ---- the program --------------------------------------------------------------------------------------- */

static int fail(void)
{
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "char_lm: %s\n", weft_last_error());
    }
    return EXIT_FAILURE;
}

static bool run(const options *o, const text *t, double losses[])
{
    model m = model_new(o);
    dice d = { o->seed };
    weft_wait(); /* the clock measures steps only */
    double start = seconds_now();
    if (!train(&m, o, t, &d, losses)) {
        return false;
    }
    double seconds = seconds_now() - start;
    int64_t work[3];
    if (!count_work(work) || (o->sample > 0 && !write_sample(&m, o, t, &d))) {
        return false;
    }
    if (weft_process_index() > 0) {
        return true;
    }
    print_summary(o, losses, seconds, work);
    return o->curve == NULL || write_curve(o->curve, o->steps, losses);
}

int main(int argc, char *argv[])
{
    options o;
    int code = options_read(&o, argc, argv);
    if (code >= 0) {
        return code;
    }
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = (int)(o.dp * o.tp); /* spread over the processes */
    config.seed = o.seed;
    if (weft_init(&config) != WEFT_OK) {
        return fail();
    }
    bool speak = weft_process_index() == 0;
    if (weft_world_size() != config.ranks) {
        if (speak) {
            fprintf(stderr, "char_lm: --mesh %dx%d has %d ranks, too few for %d processes\n", (int)o.dp,
                    (int)o.tp, config.ranks, weft_num_processes());
        }
        weft_finalize();
        return EXIT_FAILURE;
    }
    text t;
    double *losses = calloc((size_t)o.steps, sizeof(*losses));
    bool good = losses != NULL && text_load(&t, o.text, CONTEXT + 1, speak);
    if (good) {
        weft_mesh_push(weft_mesh_create(2, (int64_t[]){ o.dp, o.tp }, (const char *const[]){ "dp", "tp" }));
        weft_scope_open();
        good = run(&o, &t, losses);
        weft_scope_close();
        text_free(&t);
    }
    free(losses);
    code = good ? EXIT_SUCCESS : fail();
    weft_finalize();
    return code;
}
