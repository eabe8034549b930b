/* Products of matrices and vectors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/matmul.h"

/* ---- the rule ------------------------------------------------------------------------------------------ */

/* The letters of an addend of an [m, n] matrix: aligned at the last dimensions; those of size 1 broadcast. */
static void write_addend(const weft_layout *const inputs[], char text[3])
{
    const weft_layout *c = inputs[C];
    int64_t target[] = { inputs[A]->ndim == 2 ? inputs[A]->shape[0] : 1,
                         inputs[B]->ndim == 2 ? inputs[B]->shape[1] : 1 };
    int first = c->ndim > 2 ? 0 : 2 - c->ndim, used = 0;
    for (int d = first; d < 2; d++) {
        bool repeated = c->ndim <= 2 && c->shape[d - first] == 1 && target[d] != 1;
        text[used++] = repeated ? '1' : "mn"[d];
    }
    text[used] = '\0';
}

/* PyTorch's rules: dimensions before the matrix broadcast; an operand with one dimension is a vector. */
static void write_matmul_rule(const weft_call_layouts *call, char *text, size_t size)
{
    bool row = call->inputs[A]->ndim == 1, column = call->inputs[B]->ndim == 1;
    int64_t transposes = call->attributes->numbers[TRANSPOSES];
    const char *left = row ? "k*" : transposes & 1 ? "...*k*m*" : "...*m*k*";
    const char *right = column ? "k" : transposes & 2 ? "...*n*k" : "...*kn*";
    snprintf(text, size, "%s,%s->%s%s%s", left, right, row && column ? "" : "...", row ? "" : "m",
             column ? "" : "n");
}

/* The rule without shards along k: only whole sums can be rounded. */
static void write_rounded_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char addend[3];
    switch (call->attributes->numbers[FORM]) {
    case ADDMM:
        write_addend(call->inputs, addend);
        snprintf(text, size, "m*[k],[k]n*,%s->mn", addend);
        break;
    case LINEAR:
        snprintf(text, size, call->num_inputs > C ? "A*[k],n*[k],n->An" : "A*[k],n*[k]->An");
        break;
    default:
        snprintf(text, size, "...*m*[k],%s->...mn", call->attributes->numbers[TRANSPOSES] & 2 ? "n*[k]" : "[k]n*");
        break;
    }
}

static void write_rule(const weft_call_layouts *call, char *text, size_t size)
{
    char addend[3];
    switch (call->attributes->numbers[FORM]) {
    case DOT:
        snprintf(text, size, "k*,k->");
        break;
    case ADDMM:
        write_addend(call->inputs, addend);
        snprintf(text, size, "m*k*,kn*,%s->mn", addend);
        break;
    case LINEAR:
        snprintf(text, size, call->num_inputs > C ? "A*k*,n*k,n->An" : "A*k*,n*k->An");
        break;
    case OVER_ROWS:
        snprintf(text, size, "A*k*,An*->kn");
        break;
    default:
        write_matmul_rule(call, text, size);
        break;
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

static bool gradients_of_matmul(const weft_gradient *of);
static bool gradients_of_linear(const weft_gradient *of);

/* ---- 16 bits ------------------------------------------------------------------------------------------- */

/* A product whose tasks round their blocks of C. */
static const weft_operation operation_rounded = {
    .name = "rounded_matmul",
    .gradient = WEFT_GRADIENT_OF_WHOLE("a product of 16 bits"),
    .write_rule = write_rounded_rule,
    .rule_like = "...*m*[k],[k]n*->...mn",
    .inputs = { { "a", WEFT_TYPES_FLOAT, true }, { "b", WEFT_TYPES_FLOAT, true }, { "c", WEFT_TYPES_FLOAT, true } },
    .outputs[0].type = WEFT_TYPE_GIVEN,
    .kernel = WEFT_KERNEL_bmm,
    .lower = weft_lower_product,
};

static bool shards_dim(const weft_layout *layout, int dim)
{
    bool shards = false;
    for (int m = 0; m < layout->mesh->ndim && !shards; m++) {
        const weft_placement *own = &layout->placements[m];
        shards = own->kind == WEFT_PARTIAL || (own->kind == WEFT_SHARD && own->dim == dim);
    }
    return shards;
}

/* Whether no rank has a part of a sum. */
static bool has_whole_sums(const weft_call *call)
{
    const weft_layout *a = weft_layout_of(call->inputs[A]), *b = weft_layout_of(call->inputs[B]);
    int64_t form = call->attributes.numbers[FORM], transposes = call->attributes.numbers[TRANSPOSES];
    bool of_matrices = form != DOT && form != OVER_ROWS && !(transposes & 1) && a->ndim > 1 && b->ndim == 2;
    return of_matrices && !shards_dim(a, a->ndim - 1) && !shards_dim(b, transposes & 2 || form == LINEAR ? 1 : 0) &&
           (call->num_inputs <= C || !shards_dim(weft_layout_of(call->inputs[C]), -1));
}

/* A rule that the program has put in the place of the library's is that of the product in f32. */
static bool expand_rounded(const weft_call *call, weft_tensor *outputs[])
{
    if (weft_operation_in_use(call->operation)->replaces != NULL || !has_whole_sums(call)) {
        return weft_expand_rounded_sum(call, outputs);
    }
    weft_call product = *call;
    product.operation = &operation_rounded;
    product.inherited = WEFT_ALL_SCALARS;
    outputs[0] = weft_dispatch(&product);
    return outputs[0] != NULL;
}

/* ---- the operation ------------------------------------------------------------------------------------- */

#define PRODUCT(variable, a, b, c, like, gradient_)                                                          \
    static const weft_operation variable = {                                                                 \
        .name = "matmul",                                                                                    \
        .gradient = { .function = gradient_,                                                                 \
                      .reads = { WEFT_READS_INPUT(B), WEFT_READS_INPUT(A) } },                               \
        .write_rule = write_rule,                                                                            \
        .rule_like = like,                                                                                   \
        .outputs[0].linear = { .kind = WEFT_LINEAR_EACH,                                                     \
                               .inputs = 1u << A | 1u << B,                                                  \
                               .ops = WEFT_LINEAR_OPS },                                                     \
        .inputs = { { a, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, true },                                     \
                    { b, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, true },                                     \
                    { c, WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, true } },                                   \
        .outputs[0].type = WEFT_TYPE_GIVEN,                                                                  \
        .kernel = WEFT_KERNEL_bmm,                                                                           \
        .lower = weft_lower_product,                                                                         \
        .expand = expand_rounded,                                                                            \
        .expands = weft_sum_is_rounded,                                                                      \
        .passes_scalars = true,                                                                              \
    };

/* Operations that differ only in the names of their inputs. */
PRODUCT(operation_matmul, "a", "b", "c", "...*m*k*,...kn*->...mn", gradients_of_matmul)
PRODUCT(operation_linear, "x", "weight", "bias", "A*k*,n*k,n->An", gradients_of_linear)

/* `wide`: of 16-bit operands in single precision. */
static weft_tensor *product(weft_call *call, int form, int transposes, bool wide)
{
    call->attributes.num_numbers = 2;
    call->attributes.numbers[TRANSPOSES] = transposes;
    call->attributes.numbers[FORM] = form;
    return wide ? weft_dispatch_wide_sum(call) : weft_dispatch_sum(call);
}

/* ---- public -------------------------------------------------------------------------------------------- */

/* False with the error kept: an operand without dimensions, or a transposed vector. */
static bool check_matrix(const char *function, const char *name, weft_tensor *a, bool transposed)
{
    int least = transposed ? 2 : 1;
    const weft_tensor_impl *matrix = weft_check_tensor(function, name, a);
    if (matrix != NULL && matrix->layout->ndim < least) {
        weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimension%s, expected at least %d", name,
                  matrix->layout->ndim, matrix->layout->ndim == 1 ? "" : "s", least);
        return false;
    }
    return matrix != NULL;
}

weft_tensor *weft_matmul_ex(weft_tensor *a, bool transpose_a, weft_tensor *b, bool transpose_b)
{
    static const char function[] = "weft_matmul_ex";
    if (!check_matrix(function, "a", a, transpose_a) || !check_matrix(function, "b", b, transpose_b)) {
        return NULL;
    }
    weft_call call = {
        .function = function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product(&call, MATMUL, (transpose_a ? 1 : 0) + (transpose_b ? 2 : 0), false);
}

weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b)
{
    static const char function[] = "weft_matmul";
    if (!check_matrix(function, "a", a, false) || !check_matrix(function, "b", b, false)) {
        return NULL;
    }
    weft_call call = {
        .function = function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product(&call, MATMUL, 0, false);
}

weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b)
{
    weft_call call = {
        .function = "weft_dot", .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b }
    };
    return product(&call, DOT, 0, false);
}

weft_tensor *(weft_addmm)(weft_tensor *c, weft_tensor *a, weft_tensor *b, weft_scalar beta, weft_scalar alpha)
{
    static const char function[] = "weft_addmm";
    double of_c, of_product;
    if (weft_check_tensor(function, "c", c) == NULL || weft_check_tensor(function, "a", a) == NULL ||
        !weft_take_double(function, "beta", weft_layout_of(a)->dtype, beta, &of_c) ||
        !weft_take_double(function, "alpha", weft_layout_of(a)->dtype, alpha, &of_product)) {
        return NULL;
    }
    weft_call call = { .function = function,
                       .operation = &operation_matmul,
                       .num_inputs = 3,
                       .inputs = { a, b, c },
                       .scalars = { [ALPHA] = of_product, [BETA] = of_c } };
    return product(&call, ADDMM, 0, false);
}

weft_tensor *weft_linear(weft_tensor *x, weft_tensor *weight, weft_tensor *bias)
{
    weft_call call = { .function = "weft_linear",
                       .operation = &operation_linear,
                       .num_inputs = bias == NULL ? 2 : 3,
                       .inputs = { x, weight, bias },
                       .scalars = { [ALPHA] = 1, [BETA] = 1 } };
    return product(&call, LINEAR, 2, false);
}

static bool expand_outer(const weft_call *call, weft_tensor *outputs[])
{
    const int64_t column[] = { weft_layout_of(call->inputs[0])->shape[0], 1 };
    outputs[0] = weft_mul(weft_reshape(call->inputs[0], 2, column), call->inputs[1]);
    return outputs[0] != NULL;
}

/* The inputs may be of different types; a product's are of one. */
static bool gradients_of_outer(const weft_gradient *of)
{
    weft_tensor *g = weft_gradient_of_output(of, 0);
    weft_tensor *a = weft_conjugate(of->call->inputs[0]), *b = weft_conjugate(of->call->inputs[1]);
    weft_dtype dtype = weft_layout_of(g)->dtype;
    return (!weft_gradient_wanted(of, 0) || weft_give_gradient(of, 0, weft_matmul(g, weft_to_type(b, dtype)))) &&
           (!weft_gradient_wanted(of, 1) ||
            weft_give_gradient(of, 1, weft_matmul_ex(g, true, weft_to_type(a, dtype), false)));
}

static const weft_operation operation_outer = {
    .name = "outer",
    .gradient = { .function = gradients_of_outer, .reads = { WEFT_READS_INPUT(1), WEFT_READS_INPUT(0) } },
    .inputs = { { "a", WEFT_TYPES_ANY, false }, { "b", WEFT_TYPES_ANY, false } },
    .expand = expand_outer,
};

weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b)
{
    static const char function[] = "weft_outer";
    weft_tensor *operands[] = { a, b };
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "a" : "b";
        if (weft_check_tensor(function, name, operands[i]) == NULL) {
            return NULL;
        }
        if (weft_layout_of(operands[i])->ndim != 1) {
            weft_fail(WEFT_ERR_SHAPE, function, "%s has %d dimensions, expected 1", name,
                      weft_layout_of(operands[i])->ndim);
            return NULL;
        }
    }
    return weft_dispatch(
        &(weft_call){ .function = function, .operation = &operation_outer, .num_inputs = 2, .inputs = { a, b } });
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The gradient of an input: the product of two matrices, in the type that it may have. */
static weft_tensor *gradient_product(const weft_gradient *of, int input, weft_tensor *a, bool transpose_a, weft_tensor *b,
                                     bool transpose_b)
{
    weft_call call = { .function = of->call->function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b } };
    return product(&call, MATMUL, (transpose_a ? 1 : 0) + (transpose_b ? 2 : 0), weft_gradient_is_wide(of, input));
}

/* The product over all dimensions but the last: of [.., k] and [.., n], [k, n]. */
static weft_tensor *product_over_rows(const weft_gradient *of, int input, weft_tensor *a, weft_tensor *b)
{
    weft_call call = { .function = of->call->function, .operation = &operation_matmul, .num_inputs = 2, .inputs = { a, b } };
    return product(&call, OVER_ROWS, 0, weft_gradient_is_wide(of, input));
}

/* Dimensions are kept; a vector is a matrix of one row, or of one column. a, b: the conjugates of complex ones. */
typedef struct matrices {
    weft_tensor *a, *b, *g; /* g: the gradient of the product */
    bool transpose_a, transpose_b;
} matrices;

static matrices matrices_of(const weft_gradient *of)
{
    const weft_call *call = of->call;
    int64_t transposes = call->attributes.numbers[TRANSPOSES];
    matrices m = { weft_conjugate(call->inputs[A]), weft_conjugate(call->inputs[B]), weft_gradient_of_output(of, 0),
                   transposes & 1, transposes & 2 };
    if (m.a == NULL || m.b == NULL) {
        return m;
    }
    bool row = weft_layout_of(m.a)->ndim == 1, column = weft_layout_of(m.b)->ndim == 1;
    if (column) {
        m.b = weft_unsqueeze_dim(call->function, m.b, 1);
        m.g = weft_unsqueeze_dim(call->function, m.g, weft_layout_of(m.g)->ndim);
    }
    if (row) {
        m.a = weft_unsqueeze_dim(call->function, m.a, 0);
        m.g = m.g == NULL ? NULL : weft_unsqueeze_dim(call->function, m.g, weft_layout_of(m.g)->ndim - 1);
    }
    return m;
}

/* The gradient a = g b^T, or its transpose; leading dimensions that a lacks are summed. */
static bool give_a(const weft_gradient *of, const matrices *m)
{
    weft_tensor *gradient = m->transpose_a ? gradient_product(of, A, m->b, m->transpose_b, m->g, true)
                                           : gradient_product(of, A, m->g, false, m->b, !m->transpose_b);
    return weft_give_gradient(of, A, gradient);
}

/* The gradient b = a^T g, or its transpose. One b for all leading dimensions of a is summed in the
 * product. */
static bool give_b(const weft_gradient *of, const matrices *m)
{
    bool shared = weft_layout_of(m->b)->ndim == 2 && !m->transpose_a;
    weft_tensor *gradient = shared && m->transpose_b ? product_over_rows(of, B, m->g, m->a)
                            : shared                 ? product_over_rows(of, B, m->a, m->g)
                            : m->transpose_b         ? gradient_product(of, B, m->g, true, m->a, m->transpose_a)
                                                     : gradient_product(of, B, m->a, !m->transpose_a, m->g, false);
    bool column = weft_layout_of(of->call->inputs[B])->ndim == 1;
    if (column && gradient != NULL) {
        int last = weft_layout_of(gradient)->ndim - 1;
        gradient = weft_squeeze_dims(of->call->function, gradient, (int64_t)1 << last);
    }
    return weft_give_gradient(of, B, gradient);
}

/* For alpha a b + beta c; the form determines whether c and the two numbers exist. */
static bool gradients_of_matmul(const weft_gradient *of)
{
    const weft_call *call = of->call;
    double alpha = call->scalars[ALPHA], beta = call->scalars[BETA];
    bool adds = call->attributes.numbers[FORM] == ADDMM;
    if (call->attributes.numbers[FORM] == OVER_ROWS) {
        weft_tensor *g = weft_gradient_of_output(of, 0), *a = weft_conjugate(call->inputs[A]), *b = weft_conjugate(call->inputs[B]);
        return (!weft_gradient_wanted(of, A) || weft_give_gradient(of, A, gradient_product(of, A, b, false, g, true))) &&
               (!weft_gradient_wanted(of, B) || weft_give_gradient(of, B, gradient_product(of, B, a, false, g, false)));
    }
    matrices m = matrices_of(of);
    if (adds && alpha != 1 && m.g != NULL) {
        m.g = weft_scale(m.g, alpha);
    }
    return m.a != NULL && m.b != NULL && m.g != NULL && (!weft_gradient_wanted(of, A) || give_a(of, &m)) &&
           (!weft_gradient_wanted(of, B) || give_b(of, &m)) &&
           (!adds || !weft_gradient_wanted(of, C) ||
            weft_give_gradient(of, C, weft_scale(weft_gradient_of_output(of, 0), beta)));
}

static bool gradients_of_linear(const weft_gradient *of)
{
    const weft_call *call = of->call;
    weft_tensor *g = weft_gradient_of_output(of, 0), *x = weft_conjugate(call->inputs[A]), *weight = weft_conjugate(call->inputs[B]);
    bool row = weft_layout_of(call->inputs[A])->ndim == 1;
    return (!weft_gradient_wanted(of, A) || weft_give_gradient(of, A, gradient_product(of, A, g, false, weight, false))) &&
           (!weft_gradient_wanted(of, B) ||
            weft_give_gradient(of, B, row ? weft_outer(g, x) : product_over_rows(of, B, g, x))) &&
           (call->num_inputs <= C || !weft_gradient_wanted(of, C) || weft_give_gradient(of, C, g));
}

const weft_operation *const weft_matmul_operations[] = {
    &operation_matmul,
    &operation_linear,
    &operation_rounded,
    &operation_outer,
    NULL,
};
