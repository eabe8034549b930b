/* Gradients' norm, and the bound on it. */
#include <math.h>
#include <stdlib.h>

#include "ops/stepping.h"
#include "ops/vector_norms.h"

/* Sums and averages can be scaled addend by addend. */
static bool check_scalable(const char *function, weft_tensor *const gradients[], int i)
{
    const weft_layout *gradient = weft_check_item(function, "gradients", gradients, i);
    for (int d = 0; gradient != NULL && d < gradient->mesh->ndim; d++) {
        weft_placement placement = gradient->placements[d];
        if (placement.kind == WEFT_PARTIAL && !(WEFT_LINEAR_OPS & (1u << placement.op))) {
            char text[160];
            weft_fail(WEFT_ERR_LAYOUT, function,
                      "gradients[%d] is %s, expected no Partial but of sums and averages", i,
                      weft_layout_format(gradient, text, sizeof(text)));
            return false;
        }
    }
    return gradient != NULL;
}

static bool check_clip(const char *function, int n, weft_tensor *const gradients[], double max_norm, double p)
{
    if (weft_require_init(function) != WEFT_OK || !weft_check_list(function, "gradients", n, gradients) ||
        !weft_check_step_number(function, "max_norm", max_norm, max_norm >= 0, "at least 0") ||
        !weft_check_step_number(function, "p", p, p > 0, "more than 0")) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (gradients[i] == NULL ? !weft_check_absent(function, i) : !check_scalable(function, gradients, i)) {
            return false;
        }
    }
    return weft_check_distinct(function, n, 1, 1, &gradients, (const char *const[]){ "gradients" });
}

/* scalars: the largest norm, and p. Outputs: the gradients, and their norm where it is asked for. */
enum { CLIP_MAX_NORM, CLIP_P };

static bool expand_clip(const weft_call *call, weft_tensor *outputs[])
{
    int n = call->details->num_tensors;
    weft_tensor *const *gradients = call->details->tensors;
    weft_dtype type = weft_type_of_norm(n, gradients, call->scalars[CLIP_P]);
    weft_tensor *norm = weft_norm_of_all(call->function, n, gradients, call->scalars[CLIP_P]);
    /* 1 / 1e-6 is infinite in f16, and times a max_norm of 0 no number. */
    weft_tensor *wide = norm == NULL ? NULL : weft_to_type(norm, weft_wide_type(type));
    weft_tensor *scale = wide == NULL ? NULL
                                      : weft_scale(weft_reciprocal(weft_add_scalar(wide, 1e-6)),
                                                   call->scalars[CLIP_MAX_NORM]);
    scale = scale == NULL ? NULL : weft_clamp(scale, -INFINITY, 1);
    bool done = scale != NULL;
    for (int i = 0; i < n && done; i++) {
        outputs[i] = weft_mul_inplace(gradients[i], scale);
        done = outputs[i] != NULL;
    }
    outputs[n] = done ? weft_to_type(norm, type) : NULL;
    return done && outputs[n] != NULL;
}

static const weft_operation operation_clip = {
    .name = "clip_grad_norm",
    .gradient = WEFT_GRADIENT_MISSING("clips gradients"),
    .expand = expand_clip,
};

weft_status weft_clip_grad_norm(int n, weft_tensor *const gradients[], double max_norm, double p,
                                weft_tensor **total_norm)
{
    static const char function[] = "weft_clip_grad_norm";
    if (total_norm != NULL) {
        *total_norm = NULL;
    }
    if (!check_clip(function, n, gradients, max_norm, p)) {
        return weft_refuse_step(function);
    }
    weft_tensor **outputs = calloc(2 * (size_t)n + 1, sizeof(weft_tensor *));
    if (outputs == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d tensors", n);
    }
    weft_tensor **tensors = outputs + n + 1;
    int present = weft_list_present(n, gradients, tensors);
    const weft_call_details details = {
        .num_outputs = present + 1, .num_changed = present, .num_tensors = present, .tensors = tensors
    };
    const weft_call call = { .function = function,
                             .operation = &operation_clip,
                             .attributes = { .omitted = total_norm == NULL, .num_numbers = 1, .numbers = { weft_way_of_norm(p) } },
                             .scalars = { [CLIP_MAX_NORM] = max_norm, [CLIP_P] = p },
                             .details = &details };
    bool done = present == 0 || weft_dispatch_all(&call, outputs);
    if (done && total_norm != NULL) {
        *total_norm = outputs[present];
    }
    weft_runtime.counters.gradients_skipped += done ? (uint64_t)(n - present) : 0;
    free(outputs);
    return done ? WEFT_OK : weft_latest_status();
}

const weft_operation *const weft_clipping_operations[] = {
    &operation_clip,
    NULL,
};
