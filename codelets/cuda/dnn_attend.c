/* Attention by cuDNN: arguments of its graphs. */
#include <math.h>

#include "codelets/attention.h"
#include "codelets/cuda/dnn_attention.h"
#include "codelets/cuda/dnn_check.h"
#include "codelets/cuda/dnn_plans.h"

bool weft_dnn_attend(const weft_dnn_attention *a, weft_cuda_queue *queue)
{
    weft_dnn *dnn = weft_dnn_of(queue);
    const weft_dnn_asked asked = { WEFT_DNN_FORWARD, &a->sizes, sizeof(a->sizes), weft_dnn_forward_graph };
    const weft_dnn_graph *plan = dnn == NULL ? NULL : weft_dnn_plan_of(dnn, &asked);
    void *workspace = plan == NULL ? NULL : weft_dnn_workspace(dnn, (size_t)plan->workspace_bytes);
    if (workspace == NULL) {
        return false;
    }
    float scale = (float)a->scale, masked = -INFINITY;
    int32_t shift = (int32_t)a->shift;
    weft_dnn_arguments arguments = { .count = 0 };
    weft_dnn_add(&arguments, WEFT_DNN_Q, a->q);
    weft_dnn_add(&arguments, WEFT_DNN_K, a->k);
    weft_dnn_add(&arguments, WEFT_DNN_V, a->v);
    weft_dnn_add(&arguments, WEFT_DNN_RESULT, a->result);
    weft_dnn_add(&arguments, WEFT_DNN_SCALE, &scale);
    weft_dnn_add(&arguments, WEFT_DNN_LOG_SUMS, a->sizes.stores ? a->log_sums : NULL);
    weft_dnn_add(&arguments, WEFT_DNN_MASKED, a->sizes.causal ? &masked : NULL);
    weft_dnn_add(&arguments, WEFT_DNN_SHIFT, a->sizes.shifted ? &shift : NULL);
    return weft_dnn_run(dnn, queue, plan, &arguments, workspace);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* Until this version gradients are wrong where the last tile of keys is not full. */
enum { LAST_WITH_WRONG_TILES = 91500 };

/* Workspace: cuDNN's, and what it reads and writes beside the operands. Places from its begin; 0: the operand itself. */
typedef struct parts {
    size_t bytes; /* of the parts so far */
    size_t products, results, log_sums, of_q, of_k, of_v;
} parts;

static size_t add_part(parts *p, int64_t elements, size_t size)
{
    size_t at = p->bytes;
    p->bytes += ((size_t)elements * size + 255) / 256 * 256;
    return at;
}

/* cuDNN's own workspace is the first part. */
static parts parts_of(const weft_dnn_gradients *g, int64_t own_bytes)
{
    const weft_dnn_sizes *s = &g->sizes;
    const int64_t heads = s->groups * s->shared;
    parts p = { .bytes = 0 };
    add_part(&p, own_bytes > 0 ? own_bytes : 1, 1);
    p.products = add_part(&p, heads * s->rows, sizeof(float));
    p.results = add_part(&p, heads * s->rows * s->width, 2);
    p.log_sums = add_part(&p, heads * s->rows, sizeof(float));
    p.of_q = add_part(&p, heads * s->rows * s->depth, 2);
    p.of_k = add_part(&p, heads * s->keys * s->depth, 2);
    p.of_v = add_part(&p, heads * s->keys * s->width, 2);
    return p;
}

/* A cudaError_t. */
static int put(const weft_dnn_gradients *g, weft_dtype type, const void *from, float *to, int64_t rows, int64_t columns, int64_t step,
                int64_t row, weft_cuda_queue *queue)
{
    const weft_dnn_put values = { type, from, to, g->sizes.groups * g->sizes.shared, rows, columns, step, row, g->adds };
    return to == NULL ? 0 : weft_dnn_put_values(&values, queue);
}

/* cuDNN's results to where they are wanted. False: refused. */
static bool put_gradients(const weft_dnn_gradients *g, const parts *p, const char *memory, weft_cuda_queue *queue)
{
    const weft_dnn_sizes *s = &g->sizes;
    const weft_dtype type = (weft_dtype)s->type;
    int failed = put(g, type, memory + p->of_q, g->of_q, s->rows, s->depth, g->of_q_step, s->depth, queue);
    bool kept = g->adds && failed == 0 && g->of_q != NULL;
    failed = failed != 0 ? failed : put(g, type, memory + p->of_k, g->of_k, s->keys, s->depth, g->of_k_step, g->of_k_row, queue);
    kept = kept || (g->adds && failed == 0 && g->of_k != NULL);
    failed = failed != 0 ? failed : put(g, type, memory + p->of_v, g->of_v, s->keys, s->width, g->of_v_step, g->of_v_row, queue);
    if (failed != 0 && kept) {
        *g->failed = failed;
    }
    return failed == 0 || kept;
}

static bool run_gradients(const weft_dnn_gradients *g, weft_dnn *dnn, const weft_dnn_graph *plan, const parts *p, char *memory,
                          weft_cuda_queue *queue)
{
    const float scale = (float)g->scale, masked = -INFINITY, one = 1;
    const int32_t shift = (int32_t)g->shift;
    weft_dnn_arguments arguments = { .count = 0 };
    weft_dnn_add(&arguments, WEFT_DNN_Q, g->q);
    weft_dnn_add(&arguments, WEFT_DNN_K, g->k);
    weft_dnn_add(&arguments, WEFT_DNN_V, g->v);
    weft_dnn_add(&arguments, WEFT_DNN_GRADIENT, g->gradient);
    weft_dnn_add(&arguments, WEFT_DNN_LOG_SUMS, memory + p->log_sums);
    weft_dnn_add(&arguments, WEFT_DNN_PRODUCTS, memory + p->products);
    weft_dnn_add(&arguments, WEFT_DNN_RESULT, memory + p->results);
    weft_dnn_add(&arguments, WEFT_DNN_OF_Q, memory + p->of_q);
    weft_dnn_add(&arguments, WEFT_DNN_OF_K, memory + p->of_k);
    weft_dnn_add(&arguments, WEFT_DNN_OF_V, memory + p->of_v);
    weft_dnn_add(&arguments, WEFT_DNN_SCALE, &scale);
    weft_dnn_add(&arguments, WEFT_DNN_ONE, &one);
    weft_dnn_add(&arguments, WEFT_DNN_MASKED, g->sizes.causal ? &masked : NULL);
    weft_dnn_add(&arguments, WEFT_DNN_SHIFT, g->sizes.shifted ? &shift : NULL);
    return weft_dnn_prepare_rows(g, memory + p->results, (float *)(void *)(memory + p->log_sums), queue) == 0 &&
           weft_dnn_run(dnn, queue, plan, &arguments, memory) && put_gradients(g, p, memory, queue);
}

/* Some of the groups. */
static weft_dnn_gradients groups_of(const weft_dnn_gradients *g, int64_t first, int64_t count)
{
    const weft_dnn_sizes *s = &g->sizes;
    const int64_t head = first * s->shared;
    weft_dnn_gradients part = *g;
    part.sizes.groups = count;
    part.q = (const uint16_t *)g->q + head * s->q_step;
    part.k = (const uint16_t *)g->k + first * s->k_step;
    part.v = (const uint16_t *)g->v + first * s->v_step;
    part.gradient = (const uint16_t *)g->gradient + head * s->result_step;
    part.statistics = g->statistics + head * s->row_step;
    part.of_q = g->of_q == NULL ? NULL : g->of_q + head * g->of_q_step;
    part.of_k = g->of_k == NULL ? NULL : g->of_k + head * g->of_k_step;
    part.of_v = g->of_v == NULL ? NULL : g->of_v + head * g->of_v_step;
    return part;
}

/* Groups at once whose workspace, cuDNN's scores included, the queue may have. */
static int64_t groups_at_once(const weft_dnn_gradients *g, size_t most_bytes)
{
    const weft_dnn_sizes *s = &g->sizes;
    const int64_t scores = 2 * ((s->rows + 127) / 128 * 128) * ((s->keys + 127) / 128 * 128);
    const weft_dnn_gradients one = groups_of(g, 0, 1);
    const size_t bytes = parts_of(&one, s->shared * scores).bytes;
    const int64_t fitting = (int64_t)(most_bytes / bytes);
    return fitting < 1 ? 1 : fitting > s->groups ? s->groups : fitting;
}

static bool compute(const weft_dnn_gradients *g, weft_cuda_queue *queue)
{
    weft_dnn *dnn = weft_dnn_of(queue);
    const int64_t at_once = dnn == NULL ? 1 : groups_at_once(g, weft_dnn_most_bytes(dnn));
    if (dnn == NULL || (g->adds && at_once < g->sizes.groups) || (weft_dnn_version(dnn) <= LAST_WITH_WRONG_TILES && g->sizes.keys % 128 != 0)) {
        return false;
    }
    for (int64_t first = 0; first < g->sizes.groups; first += at_once) {
        const int64_t rest = g->sizes.groups - first;
        const weft_dnn_gradients part = groups_of(g, first, rest < at_once ? rest : at_once);
        const weft_dnn_asked asked = { WEFT_DNN_BACKWARD, &part.sizes, sizeof(part.sizes), weft_dnn_backward_graph };
        const weft_dnn_graph *plan = weft_dnn_plan_of(dnn, &asked);
        const parts p = parts_of(&part, plan == NULL ? 0 : plan->workspace_bytes);
        char *memory = plan == NULL ? NULL : weft_dnn_workspace(dnn, p.bytes);
        if (memory == NULL || !run_gradients(&part, dnn, plan, &p, memory, queue)) {
            return false;
        }
    }
    return true;
}

bool weft_dnn_attend_backward(const weft_dnn_gradients *g, weft_cuda_queue *queue)
{
    weft_dnn *dnn = weft_dnn_of(queue);
    if (dnn == NULL) {
        return false;
    }
    weft_dnn_trust *trust = weft_dnn_trust_of(dnn, g->sizes.type);
    if (*trust == WEFT_DNN_UNKNOWN) {
        const int64_t before = weft_dnn_count_runs(queue);
        *trust = weft_dnn_check_gradients(g->sizes.type, queue, compute) ? WEFT_DNN_RIGHT : WEFT_DNN_WRONG;
        weft_dnn_set_runs(dnn, before);
    }
    return *trust == WEFT_DNN_RIGHT && compute(g, queue);
}
