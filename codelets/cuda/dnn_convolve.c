/* Convolutions by cuDNN: which tasks, and arguments of the graphs. */
#include "codelets/convolution_geometry.h"

#include "codelets/cuda/dnn_convolution.h"
#include "codelets/cuda/dnn_operands.h"
#include "codelets/cuda/dnn_plans.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"

/* No fewer products of two numbers are worth a plan. */
enum { FEWEST_PRODUCTS = 1 << 16 };

/* Views of a task in the order of cuDNN's tensors: x, weights, the convolution's result. */
enum { X, WEIGHTS, RESULT, IMAGES };

typedef struct task {
    weft_view views[IMAGES], bias;
    weft_image images[IMAGES];
    bool has_bias, adds;
    bool is_put; /* computed in workspace, and then put into the output */
    int computed; /* the number of the output among them */
    weft_dnn_convolution_sizes sizes;
} task;

/* The number of each among the operands: the output, then the inputs. */
static weft_dnn_convolved find_operands(weft_kernel_id kernel, int numbers[IMAGES])
{
    static const struct {
        weft_dnn_convolved computed;
        int numbers[IMAGES];
    } orders[] = { { WEFT_DNN_CONVOLVE_FORWARD, { 1, 2, 0 } },
                   { WEFT_DNN_CONVOLVE_BACKWARD_DATA, { 0, 2, 1 } },
                   { WEFT_DNN_CONVOLVE_BACKWARD_FILTER, { 2, 0, 1 } } };
    const int order = kernel == WEFT_KERNEL_convolution ? 0 : kernel == WEFT_KERNEL_convolution_backward_input ? 1 : 2;
    for (int i = 0; i < IMAGES; i++) {
        numbers[i] = orders[order].numbers[i];
    }
    return orders[order].computed;
}

/* Whether the image is all of its spatial dimensions, in one panel and without gaps, at an address that cuDNN takes. */
static bool is_whole(const weft_image *m)
{
    const weft_view *view = m->view;
    bool whole = weft_view_count(view) > 0;
    for (int d = 1; d < 4; d++) {
        whole = whole && m->room[d] == m->extent[d];
    }
    for (int d = 2; d < 4; d++) {
        whole = whole && m->offset[d] == 0 && m->extent[d] == m->shape[d];
    }
    int64_t together = 0;
    const void *first = whole ? weft_view_row(view, 0, &together) : NULL;
    return whole && together >= m->extent[0] && weft_dnn_is_aligned(first);
}

static void copy_extent(int64_t to[], const weft_image *m)
{
    for (int d = 0; d < 4; d++) {
        to[d] = m->extent[d];
    }
}

/* Products of two numbers: for each element of the result one with each weight of its feature. */
static double products_of(const weft_dnn_convolution_sizes *s)
{
    double count = 1;
    for (int d = 0; d < 4; d++) {
        count *= (double)s->result[d] * (double)(d > 0 ? s->weights[d] : 1);
    }
    return count;
}

/* False: cuDNN does not compute such a task, or not faster. */
static bool begin(task *t, const weft_task_run *run, const weft_cuda_queue *queue)
{
    const weft_kernel_args *args = run->arguments;
    int numbers[IMAGES];
    weft_dnn_convolution_sizes *s = &t->sizes;
    *s = (weft_dnn_convolution_sizes){ .computed = find_operands(run->kernel, numbers), .tf32 = queue->tf32 };
    t->computed = 0;
    bool good = true;
    for (int i = 0; i < IMAGES; i++) {
        t->views[i] = weft_kernel_view(args, numbers[i]);
        t->views[i].panels = run->operands + args->operands[numbers[i]].first_panel;
        t->images[i] = weft_image_of(&t->views[i]);
        good = good && is_whole(&t->images[i]);
        t->computed = numbers[i] == 0 ? i : t->computed;
        s->type = numbers[i] == 1 ? (int64_t)t->views[i].dtype : s->type;
        good = good && (numbers[i] > 0 || t->views[i].dtype == WEFT_F32);
    }
    const weft_image *x = &t->images[X], *weights = &t->images[WEIGHTS], *result = &t->images[RESULT];
    copy_extent(s->x, x);
    copy_extent(s->weights, weights);
    copy_extent(s->result, result);
    for (int d = 0; d < 2; d++) {
        s->filter.stride[d] = args->numbers[WEFT_CONVOLUTION_STRIDE + d];
        s->filter.padding[d] = args->numbers[WEFT_CONVOLUTION_PADDING + d];
        s->filter.dilation[d] = args->numbers[WEFT_CONVOLUTION_DILATION + d];
    }
    /* cuDNN writes gradients of inputs of 16 bits in the same type alone, which is too narrow for sums over samples, and for one that
     * is wanted unrounded. */
    s->narrow = s->type != WEFT_F32 && s->computed != WEFT_DNN_CONVOLVE_FORWARD;
    good = good && !(s->narrow && (s->computed == WEFT_DNN_CONVOLVE_BACKWARD_FILTER || args->numbers[WEFT_CONVOLUTION_WIDE] != 0));
    /* A plan that fails must not have added a part to the output, as weft's own kernel then adds all. */
    t->adds = s->computed == WEFT_DNN_CONVOLVE_BACKWARD_FILTER && !args->first;
    t->is_put = s->narrow || t->adds;
    t->has_bias = s->computed == WEFT_DNN_CONVOLVE_FORWARD && args->numbers[WEFT_CONVOLUTION_ADDS] != 0;
    if (t->has_bias) {
        int64_t together = 0;
        t->bias = weft_kernel_view(args, IMAGES);
        t->bias.panels = run->operands + args->operands[IMAGES].first_panel;
        weft_view_row(&t->bias, 0, &together);
        good = good && together >= s->result[1];
    }
    return good && x->extent[0] == result->extent[0] && weights->extent[0] == result->extent[1] &&
           (s->computed != WEFT_DNN_CONVOLVE_BACKWARD_FILTER || weights->offset[0] == result->offset[1]) &&
           weights->extent[1] * args->numbers[WEFT_CONVOLUTION_GROUPS] == x->extent[1] && products_of(s) >= FEWEST_PRODUCTS;
}

/* To the result, which cuDNN adds to in some types only. */
static int add_bias(const task *t, weft_cuda_queue *queue)
{
    enum { OUTPUT, INPUT, BIAS, OPERANDS };
    const int64_t *shape = t->sizes.result, plane = shape[2] * shape[3];
    char *result = weft_view_row(&t->views[RESULT], 0, NULL), *bias = weft_view_row(&t->bias, 0, NULL);
    void *operands[OPERANDS] = { result, result, bias };
    weft_elementwise_args args = { .base.dtype = WEFT_F32,
                                   .ndim = 3,
                                   .common = WEFT_F32,
                                   .types = { WEFT_F32, WEFT_F32, t->bias.dtype },
                                   .extent = { shape[0], shape[1], plane },
                                   .stride = { [OUTPUT] = { shape[1] * plane, plane, 1 },
                                               [INPUT] = { shape[1] * plane, plane, 1 },
                                               [BIAS] = { 0, 1, 0 } } };
    const weft_task_run run = { .kernel = WEFT_KERNEL_add, .arguments = &args, .num_operands = OPERANDS, .operands = operands };
    return weft_cuda_elementwise(&run, queue);
}

/* A gradient into the output. */
static int put(const task *t, const void *from, int64_t count, weft_cuda_queue *queue)
{
    const weft_dnn_put work = { .type = (weft_dtype)t->sizes.type,
                                .from = from,
                                .to = (float *)weft_view_row(&t->views[t->computed], 0, NULL),
                                .heads = 1,
                                .rows = 1,
                                .columns = count,
                                .to_row = count,
                                .adds = t->adds };
    return weft_dnn_put_values(&work, queue);
}

bool weft_dnn_convolution_task(const weft_task_run *run, weft_cuda_queue *queue, int *failed)
{
    task t;
    *failed = 0;
    if (!begin(&t, run, queue)) {
        return false;
    }
    weft_dnn *dnn = weft_dnn_of(queue);
    const weft_dnn_asked asked = { WEFT_DNN_CONVOLUTION, &t.sizes, sizeof(t.sizes), weft_dnn_convolution_graph };
    const weft_dnn_graph *plan = dnn == NULL ? NULL : weft_dnn_plan_of(dnn, &asked);
    if (plan == NULL) {
        return false;
    }
    /* The workspace is cuDNN's, and after that the gradient's. */
    const int64_t count = weft_view_count(&t.views[t.computed]);
    const size_t of_plan = (size_t)(plan->workspace_bytes + 255) / 256 * 256;
    const size_t own = t.is_put ? (size_t)count * weft_dtype_size((weft_dtype)t.sizes.type) : 0;
    char *workspace = of_plan + own > weft_dnn_most_bytes(dnn) ? NULL : weft_dnn_workspace(dnn, of_plan + own);
    if (workspace == NULL) {
        return false;
    }
    weft_dnn_arguments arguments = { .count = 0 };
    for (int i = 0; i < IMAGES; i++) {
        void *at = weft_view_row(&t.views[i], 0, NULL);
        weft_dnn_add(&arguments, WEFT_DNN_X + i, i == t.computed && t.is_put ? workspace + of_plan : at);
    }
    if (!weft_dnn_run(dnn, queue, plan, &arguments, workspace)) {
        return false;
    }
    *failed = t.is_put ? put(&t, workspace + of_plan, count, queue) : t.has_bias ? add_bias(&t, queue) : 0;
    return true;
}
