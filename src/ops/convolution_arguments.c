#include "ops/convolution_arguments.h"

static bool check_option(const weft_convolution_arguments *c, const char *name, int d, int64_t *value, int64_t least)
{
    if (*value == 0 && least == 1) {
        *value = 1;
    }
    if (*value >= least && *value <= INT32_MAX) {
        return true;
    }
    weft_fail(WEFT_ERR_INVALID, c->function, "%s is %lld in spatial dimension %d, expected at least %lld",
              name, (long long)*value, d, (long long)least);
    return false;
}

/* Defaults in place of zeros. */
static bool check_options(weft_convolution_arguments *c)
{
    weft_convolution3d *o = &c->options;
    for (int d = 0; d < 3; d++) {
        if (d >= c->spatial) {
            o->stride[d] = o->dilation[d] = 1;
            o->padding[d] = 0;
        }
        if (!check_option(c, "stride", d, &o->stride[d], 1) || !check_option(c, "padding", d, &o->padding[d], 0) ||
            !check_option(c, "dilation", d, &o->dilation[d], 1)) {
            return false;
        }
    }
    o->groups = o->groups == 0 ? 1 : o->groups;
    if (o->groups < 0) {
        weft_fail(WEFT_ERR_INVALID, c->function, "groups is %lld, expected at least 1", (long long)o->groups);
        return false;
    }
    return true;
}

bool weft_take_convolution_options(weft_convolution_arguments *c, const weft_convolution *options)
{
    weft_convolution own = { .groups = 1 };
    if (options != NULL && !WEFT_TAKE_OPTIONS(c->function, &own, options)) {
        return false;
    }
    c->options = (weft_convolution3d){ .groups = own.groups };
    for (int d = 0; d < 2; d++) {
        c->options.stride[d] = own.stride[d];
        c->options.padding[d] = own.padding[d];
        c->options.dilation[d] = own.dilation[d];
    }
    return check_options(c);
}

bool weft_take_convolution3d_options(weft_convolution_arguments *c, const weft_convolution3d *options)
{
    c->options = (weft_convolution3d){ .groups = 1 };
    return (options == NULL || WEFT_TAKE_OPTIONS(c->function, &c->options, options)) && check_options(c);
}

bool weft_take_convolution_shape(const weft_convolution_arguments *c, const char *name, weft_tensor *tensor, int64_t shape[])
{
    if (weft_check_tensor(c->function, name, tensor) == NULL) {
        return false;
    }
    if (weft_layout_of(tensor)->ndim != c->spatial + 2) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "%s has %d dimension%s, expected %d", name,
                  weft_layout_of(tensor)->ndim, weft_layout_of(tensor)->ndim == 1 ? "" : "s", c->spatial + 2);
        return false;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        shape[d] = weft_layout_of(tensor)->shape[d];
    }
    return true;
}

bool weft_take_given_shape(const weft_convolution_arguments *c, const int64_t given[], int64_t shape[])
{
    if (!weft_check_shape(c->function, c->spatial + 2, given)) {
        return false;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        shape[d] = given[d];
    }
    return true;
}

static bool check_groups(const weft_convolution_arguments *c)
{
    int64_t groups = c->options.groups, features = c->weight[0], channels;
    if (!weft_mul_checked(c->weight[1], groups, &channels) || channels != c->x[1]) {
        weft_fail(
            WEFT_ERR_SHAPE, c->function,
            "weight has size %lld in dimension 1, expected the %lld channels of x divided by %lld groups",
            (long long)c->weight[1], (long long)c->x[1], (long long)groups);
        return false;
    }
    if (features % groups != 0) {
        weft_fail(WEFT_ERR_SHAPE, c->function,
                  "weight has size %lld in dimension 0, expected a multiple of %lld groups",
                  (long long)features, (long long)groups);
        return false;
    }
    return true;
}

bool weft_check_convolution(weft_convolution_arguments *c, bool known)
{
    const weft_convolution3d *o = &c->options;
    int64_t shape[5] = { c->x[0], c->weight[0] };
    if (!check_groups(c)) {
        return false;
    }
    for (int d = 0; d < c->spatial; d++) {
        int64_t taps = c->weight[2 + d], size = weft_min_i64(c->x[2 + d], INT64_MAX / 2);
        int64_t room = taps > INT32_MAX ? -1 : size + 2 * o->padding[d] - o->dilation[d] * (taps - 1) - 1;
        if (taps < 1 || room < 0) {
            weft_fail(WEFT_ERR_SHAPE, c->function,
                      "weight has size %lld in dimension %d, expected 1 to what x has with its padding, %lld",
                      (long long)taps, 2 + d, (long long)(size + 2 * o->padding[d]));
            return false;
        }
        shape[2 + d] = room / o->stride[d] + 1;
    }
    for (int d = 0; d < c->spatial + 2; d++) {
        if (known && c->result[d] != shape[d]) {
            weft_fail(WEFT_ERR_SHAPE, c->function, "gradient has size %lld in dimension %d, expected %lld",
                      (long long)c->result[d], d, (long long)shape[d]);
            return false;
        }
        c->result[d] = shape[d];
    }
    return true;
}

/* ---- transposed ---------------------------------------------------------------------------------------- */

static bool check_channels(weft_convolution_arguments *c)
{
    if (c->weight[0] != c->result[1]) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "weight has size %lld in dimension 0, expected the %lld channels of x",
                  (long long)c->weight[0], (long long)c->result[1]);
        return false;
    }
    if (c->result[1] % c->options.groups != 0) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "x has size %lld in dimension 1, expected a multiple of %lld groups",
                  (long long)c->result[1], (long long)c->options.groups);
        return false;
    }
    if (!weft_mul_checked(c->weight[1], c->options.groups, &c->x[1])) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "weight has size %lld in dimension 1, times %lld groups: too large",
                  (long long)c->weight[1], (long long)c->options.groups);
        return false;
    }
    return true;
}

/* Computes the size of the convolution's input in spatial dimension d. */
static bool take_transposed_size(weft_convolution_arguments *c, int d, int64_t more)
{
    const weft_convolution3d *o = &c->options;
    int64_t taps = c->weight[2 + d], size = c->result[2 + d], spread, wanted;
    if (more < 0 || more >= o->stride[d]) {
        weft_fail(WEFT_ERR_INVALID, c->function,
                  "output_padding is %lld in spatial dimension %d, expected 0 or more, less than the stride %lld",
                  (long long)more, d, (long long)o->stride[d]);
        return false;
    }
    if (size < 1) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "x has size 0 in dimension %d, expected at least 1", 2 + d);
        return false;
    }
    if (taps < 1 || taps > INT32_MAX || !weft_mul_checked(size - 1, o->stride[d], &spread) ||
        !weft_add_checked(spread, o->dilation[d] * (taps - 1) + 1 + more, &wanted) || wanted <= 2 * o->padding[d]) {
        weft_fail(WEFT_ERR_SHAPE, c->function,
                  "weight has size %lld in dimension %d, expected at least 1, and a result of at least one element",
                  (long long)taps, 2 + d);
        return false;
    }
    c->x[2 + d] = wanted - 2 * o->padding[d];
    return true;
}

bool weft_check_transposed(weft_convolution_arguments *c, const int64_t output_padding[])
{
    if (!check_channels(c)) {
        return false;
    }
    c->x[0] = c->result[0];
    for (int d = 0; d < c->spatial; d++) {
        if (!take_transposed_size(c, d, output_padding == NULL ? 0 : output_padding[d])) {
            return false;
        }
    }
    return weft_check_shape(c->function, c->spatial + 2, c->x);
}

/* ---- of composites ------------------------------------------------------------------------------------- */

bool weft_check_convolution_bias(const weft_convolution_arguments *c, weft_tensor *bias, int64_t channels)
{
    if (bias == NULL) {
        return true;
    }
    if (weft_check_tensor(c->function, "bias", bias) == NULL) {
        return false;
    }
    const weft_layout *layout = weft_layout_of(bias);
    if (layout->ndim != 1 || layout->shape[0] != channels) {
        weft_fail(WEFT_ERR_SHAPE, c->function, "bias has %d dimension%s, size %lld, expected one of size %lld", layout->ndim,
                  layout->ndim == 1 ? "" : "s", layout->ndim == 0 ? 1ll : (long long)layout->shape[0], (long long)channels);
        return false;
    }
    return true;
}
