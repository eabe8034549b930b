/* Loss scaling: small gradients in 16 bits would be rounded to zero. */
#include <math.h>
#include <stdio.h>

#include "autograd/tape.h"
#include "ops/ops.h"

static bool is_positive(double number)
{
    return isfinite(number) && number > 0;
}

/* False with the error kept. */
static bool check_scaler(const char *function, const weft_loss_scaler *scaler)
{
    if (weft_require_init(function) != WEFT_OK) {
        return false;
    }
    bool right = scaler != NULL && is_positive(scaler->scale) && is_positive(scaler->growth) &&
                 is_positive(scaler->backoff) && scaler->interval >= 1;
    if (scaler == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "scaler is NULL");
    } else if (!right) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "scaler has scale %g, growth %g, backoff %g, interval %lld: expected positive numbers", scaler->scale,
                  scaler->growth, scaler->backoff, (long long)scaler->interval);
    }
    return right;
}

weft_tensor *weft_scale_loss(const weft_loss_scaler *scaler, weft_tensor *loss)
{
    static const char function[] = "weft_scale_loss";
    bool right = check_scaler(function, scaler) && weft_check_tensor(function, "loss", loss) != NULL;
    return right ? weft_scale(loss, scaler->scale) : NULL;
}

static bool check_gradients(const char *function, int n, weft_tensor *const gradients[])
{
    if (n < 0 || (n > 0 && gradients == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, n < 0 ? "n is %d, expected at least 0" : "gradients is NULL", n);
        return false;
    }
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof(name), "gradients[%d]", i);
        weft_tensor_impl *tensor = weft_check_tensor(function, name, gradients[i]);
        if (tensor != NULL && !weft_dtype_is_floating(tensor->layout->dtype)) {
            weft_fail(WEFT_ERR_DTYPE, function, "%s is %s, expected a floating type", name,
                      weft_dtype_name(tensor->layout->dtype));
            return false;
        }
        if (tensor == NULL || !weft_check_data(function, name, tensor)) {
            return false;
        }
    }
    return true;
}

/* BLOCKS. Whether all elements are finite: one answer for all gradients of one mesh in a row. */
static weft_status ask(int n, weft_tensor *const gradients[], bool *finite)
{
    weft_tensor *all = NULL;
    weft_status status = WEFT_OK;
    *finite = true;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_tensor *here = weft_all(weft_isfinite(gradients[i]), WEFT_ALL_DIMS, false);
        all = all == NULL ? here : weft_logical_and(all, here);
        bool last = i + 1 == n || weft_layout_of(gradients[i + 1])->mesh != weft_layout_of(gradients[i])->mesh;
        double answer = 1;
        status = all == NULL ? weft_latest_status() : last ? weft_tensor_item(all, &answer) : WEFT_OK;
        *finite = *finite && answer != 0;
        all = last ? NULL : all;
    }
    return status;
}

/* A growing scale stays finite. */
static void update(weft_loss_scaler *scaler, bool finite)
{
    scaler->good_steps = finite ? scaler->good_steps + 1 : 0;
    double scale = !finite                                   ? scaler->scale * scaler->backoff
                   : scaler->good_steps >= scaler->interval ? scaler->scale * scaler->growth
                                                             : scaler->scale;
    if (scaler->good_steps >= scaler->interval) {
        scaler->good_steps = 0;
    }
    scaler->scale = is_positive(scale) && scale >= 0x1p-126 && scale <= 0x1p126 ? scale : scaler->scale;
}

weft_status weft_unscale_gradients(weft_loss_scaler *scaler, int n, weft_tensor *const gradients[], bool *finite)
{
    static const char function[] = "weft_unscale_gradients";
    if (!check_scaler(function, scaler) || !check_gradients(function, n, gradients)) {
        return weft_latest_status();
    }
    if (finite == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "finite is NULL");
    }
    bool done = weft_scope_begin() == WEFT_OK, answer = false;
    for (int i = 0; i < n && done; i++) {
        done = weft_scale_inplace(gradients[i], 1 / scaler->scale) != NULL;
    }
    weft_status status = done ? ask(n, gradients, &answer) : weft_latest_status();
    weft_scope_end_own();
    if (status == WEFT_OK) {
        update(scaler, answer);
        *finite = answer;
    }
    return status;
}
