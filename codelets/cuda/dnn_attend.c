/* Attention by cuDNN: arguments of its graphs. */
#include <math.h>

#include "codelets/cuda/dnn_attention.h"
#include "codelets/cuda/dnn_plans.h"

bool weft_dnn_attend(const weft_dnn_attention *a, weft_cuda_queue *queue)
{
    weft_dnn *dnn = weft_dnn_of(queue);
    const weft_dnn_graph *plan = dnn == NULL ? NULL : weft_dnn_plan_of(dnn, WEFT_DNN_FORWARD, &a->sizes, weft_dnn_forward_graph);
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
