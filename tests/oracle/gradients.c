/* Gradients, and second derivatives, against PyTorch's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "oracle.h"

enum { MAX_OPERATIONS = 1024 };

static oracle_folder cases;

int oracle_open_gradients(const char *folder)
{
    return oracle_open_folder(&cases, folder);
}

void oracle_close_gradients(void)
{
    oracle_close_folder(&cases);
}

/* ---- the operations that are differentiated -------------------------------------------------------------- */

static struct {
    weft_interposer interposer;
    const weft_operation *operations[MAX_OPERATIONS];
    int count;
    bool all; /* all cases have run */
} seen;

static bool is_seen(const weft_operation *operation)
{
    int i = 0;
    while (i < seen.count && seen.operations[i] != operation) {
        i++;
    }
    return i < seen.count;
}

/* A call on values that require a gradient. */
static weft_status note(weft_interposer *self, weft_call_frame *frame)
{
    (void)self;
    const weft_call *call = frame->call;
    bool counts = false;
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        counts |= weft_requires_grad(weft_call_tensor(call, i));
    }
    if (counts && !weft_call_is_action(call) && !is_seen(call->operation)) {
        assert_true(seen.count < MAX_OPERATIONS);
        seen.operations[seen.count++] = call->operation;
    }
    return weft_call_next(frame);
}

/* ---- comparison ---------------------------------------------------------------------------------------- */

/* Several roundings in a row, and sums in another order; each addend of a Partial tensor adds to it. */
static double allowed_ulps(const oracle_case *c)
{
    const oracle_input *const lists[] = { c->inputs, c->seeds, c->directions };
    const int counts[] = { c->num_inputs, c->num_seeds, c->num_directions };
    double ulps = ORACLE_GRADIENT_ULPS;
    for (int l = 0; l < 3; l++) {
        for (int i = 0; i < counts[l]; i++) {
            int64_t parts = oracle_parts(c, &lists[l][i]);
            ulps = parts > 1 ? (ulps + 1) * (double)parts : ulps;
        }
    }
    return ulps;
}

static bool is_zero(const oracle_output *expected)
{
    bool zero = true;
    for (int64_t i = 0; i < expected->count && zero; i++) {
        zero = oracle_load_real(expected->dtype, expected->elements, i) == 0;
    }
    return zero;
}

/* The placements of a gradient: the variable's, but Replicate in place of Partial. */
static bool is_placed(const oracle_case *c, const oracle_input *variable, const weft_tensor *gradient)
{
    bool same = true;
    for (int m = 0; m < c->mesh_ndim && same; m++) {
        weft_placement own = variable->placements[m], found = weft_tensor_placements(gradient)[m];
        weft_placement_kind kind = own.kind == WEFT_PARTIAL ? WEFT_REPLICATE : own.kind;
        same = found.kind == kind && (kind != WEFT_SHARD || found.dim == own.dim);
    }
    return same;
}

/* No gradient stands for zeros. */
static bool check_gradient(const oracle_file *file, const oracle_case *c, int number, weft_tensor *gradient,
                           double *ulps)
{
    const oracle_output *expected = &c->outputs[number];
    const oracle_input *variable =
        number < c->num_inputs ? &c->inputs[number] : &c->seeds[number - c->num_inputs];
    if (expected->absent) {
        return gradient == NULL || oracle_complain(file, c, "gradient %d, expected none", number);
    }
    if (gradient == NULL) {
        return is_zero(expected) ||
               oracle_complain(file, c, "no gradient %d, expected one that is not 0", number);
    }
    if (!is_placed(c, variable, gradient)) {
        return oracle_complain(file, c, "gradient %d is not placed like its tensor", number);
    }
    return oracle_compare(file, c, expected, allowed_ulps(c), gradient, ulps) ||
           oracle_complain(file, c, "that was gradient %d", number);
}

/* ---- one case ------------------------------------------------------------------------------------------ */

enum { MAX_VARIABLES = ORACLE_INPUTS + ORACLE_OUTPUTS };

static void make_tensors(int count, const oracle_input inputs[], weft_mesh *mesh, bool from_local,
                         bool leaves, weft_tensor *tensors[])
{
    for (int i = 0; i < count; i++) {
        tensors[i] = inputs[i].absent ? NULL : oracle_tensor(&inputs[i], mesh, from_local);
        if (leaves && tensors[i] != NULL && oracle_is_floating(inputs[i].dtype)) {
            weft_set_requires_grad(tensors[i], true);
        }
    }
    assert_no_error();
}

/* Gradients of the sum of outputs[i] times weights[i] by the variables; those whose weight, or which themselves, are NULL
 * do not count. False with the error kept. */
static bool differentiate(int num_outputs, weft_tensor *const outputs[], weft_tensor *const weights[],
                          int num_variables, weft_tensor *const variables[], bool create_graph,
                          weft_tensor *gradients[])
{
    weft_tensor *summed[MAX_VARIABLES], *by[MAX_VARIABLES], *of[MAX_VARIABLES], *found[MAX_VARIABLES];
    int number[MAX_VARIABLES], n = 0, wanted = 0;
    for (int i = 0; i < num_outputs; i++) {
        if (outputs[i] != NULL && weights[i] != NULL && weft_requires_grad(outputs[i])) {
            summed[n] = outputs[i];
            by[n++] = weights[i];
        }
    }
    for (int i = 0; i < num_variables; i++) {
        gradients[i] = NULL;
        if (variables[i] != NULL && weft_requires_grad(variables[i])) {
            number[wanted] = i;
            of[wanted++] = variables[i];
        }
    }
    if (n > 0 && weft_gradients(n, summed, by, wanted, of, create_graph, found) != WEFT_OK) {
        return false;
    }
    for (int i = 0; i < wanted && n > 0; i++) {
        gradients[number[i]] = found[i];
    }
    return true;
}

/* By the leaves' own gradients. */
static bool accumulate(weft_tensor *output, weft_tensor *seed, int num_variables,
                       weft_tensor *const variables[], weft_tensor *gradients[])
{
    const weft_backward_options options = { .output_gradient = seed };
    bool done = weft_backward(output, &options) == WEFT_OK;
    for (int i = 0; i < num_variables && done; i++) {
        bool leaf = variables[i] != NULL && weft_is_leaf(variables[i]);
        gradients[i] = leaf ? weft_grad(variables[i]) : NULL;
    }
    return done;
}

/* Variables are inputs and, for second derivatives, seeds. False with the error kept. */
static bool find_gradients(const oracle_case *c, weft_mesh *mesh, weft_tensor *const variables[],
                           weft_tensor *out[], weft_tensor *gradients[])
{
    weft_tensor *const *seeds = variables + c->num_inputs, *firsts[ORACLE_INPUTS], *directions[ORACLE_INPUTS];
    bool accumulates = c->num_seeds == 1 && c->line % 3 == 0 && weft_requires_grad(out[0]);
    if (c->num_directions == 0) {
        return accumulates
                   ? accumulate(out[0], seeds[0], c->num_inputs, variables, gradients)
                   : differentiate(c->num_seeds, out, seeds, c->num_inputs, variables, false, gradients);
    }
    make_tensors(c->num_directions, c->directions, mesh, c->line % 2 == 0, false, directions);
    weft_interposer_install(&seen.interposer);
    bool done = differentiate(c->num_seeds, out, seeds, c->num_inputs, variables, true, firsts);
    weft_interposer_remove(&seen.interposer);
    return done && differentiate(c->num_inputs, firsts, directions, c->num_inputs + c->num_seeds, variables,
                                 false, gradients);
}

/* A leaf must not change: its copy does. */
static void call(const oracle_operation *operation, const oracle_case *c, weft_tensor *const variables[],
                 weft_tensor *out[])
{
    weft_tensor *in[ORACLE_INPUTS] = { NULL };
    memcpy(in, variables, (size_t)c->num_inputs * sizeof(in[0]));
    if (strstr(c->operation, "_inplace") != NULL) {
        in[0] = weft_scale(in[0], 1);
    }
    weft_interposer_install(&seen.interposer);
    oracle_call(operation, c, in, out);
    weft_interposer_remove(&seen.interposer);
}

static void run_case(const oracle_file *file, const oracle_case *c, bool counts)
{
    const oracle_operation *operation = oracle_find(c->operation);
    weft_tensor *variables[MAX_VARIABLES] = { NULL }, *out[ORACLE_OUTPUTS] = { NULL },
                *gradients[MAX_VARIABLES] = { NULL };
    if (operation == NULL) {
        oracle_complain(file, c, "the tables of calls have no row for it");
        return;
    }
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(c->mesh_ndim, c->mesh_shape, NULL);
    make_tensors(c->num_inputs, c->inputs, mesh, c->line % 2 == 0, true, variables);
    make_tensors(c->num_seeds, c->seeds, mesh, c->line % 2 != 0, c->num_directions > 0,
                 variables + c->num_inputs);
    call(operation, c, variables, out);
    double ulps = 0;
    bool right = find_gradients(c, mesh, variables, out, gradients);
    for (int i = 0; i < c->num_outputs && right; i++) {
        right = check_gradient(file, c, i, gradients[i], &ulps);
    }
    if (right && counts) {
        oracle_count_gradient(c, ulps);
    }
    weft_scope_end();
    if (weft_last_status() != WEFT_OK) {
        oracle_complain(file, c, "%s", weft_last_error());
        weft_clear_error();
    }
}

/* ---- all cases ----------------------------------------------------------------------------------------- */

static void run_cases(int step, bool counts)
{
    const char *only = getenv("WEFT_TEST_ONLY");
    int number = 0;
    seen.all |= step * oracle_sparsity() == 1 && only == NULL;
    seen.interposer = (weft_interposer){ .order = WEFT_OBSERVER, .around = note };
    for (int f = 0; f < cases.num_files; f++) {
        for (int i = 0; i < cases.files[f].num_cases; i++) {
            const oracle_case *c = &cases.files[f].cases[i];
            if (oracle_runs(number++, 0, step) && (only == NULL || strcmp(only, c->operation) == 0)) {
                run_case(&cases.files[f], c, counts);
            }
        }
    }
}

void oracle_test_gradients(void **state)
{
    (void)state;
    oracle_start(NULL);
    run_cases(weft_num_processes() > 1 ? 5 : 1, true);
    oracle_stop();
}

void oracle_test_gradients_in_panels(void **state)
{
    (void)state;
    oracle_start("2");
    run_cases(weft_num_processes() > 1 ? 15 : 3, false);
    oracle_stop();
}

/* Operations without a case, and why. */
static const char *exempt(const weft_operation *operation)
{
    static const char *const complex_ones[] = { "complex_norm", "fft", "rfft", "irfft", "fftn", "rfftn", "irfftn", "hfft", "ihfft", "dct", "dst",
                                                "fftshift", "real", "imag", "conj", "angle", "sgn", "complex",
                                                "complex_var", "complex_std", "complex_convolution",
                                                "polar", "view_as_real", "view_as_complex", "cholesky", "cholesky_solve", "triangular_solve",
                                                "solve", "solve_vector", "lu_factor", "lu_solve", "lu", "inverse", "det", "slogdet", "qr", "eigh", "svd", "pinv", "lstsq",
                                                "matrix_power", "matrix_exp", "eig", "cond" };
    for (size_t i = 0; i < sizeof(complex_ones) / sizeof(complex_ones[0]); i++) {
        if (strcmp(operation->name, complex_ones[i]) == 0) {
            return "of complex numbers too; tests/autograd/test_gradients_complex.c compares it with differences";
        }
    }
    static const char *const reasons[][2] = {
        { "dropout", "its numbers are not PyTorch's; tests/autograd/test_gradients.c compares it with differences" },
        { "i0e", "PyTorch's cancels; tests/autograd/test_gradients.c compares it with differences" },
        { "i1e", "PyTorch's cancels; tests/autograd/test_gradients.c compares it with differences" },
        { "sinc", "PyTorch's cancels; tests/autograd/test_gradients.c compares it with differences" },
        { "bessel_j0", "PyTorch has none; tests/autograd/test_gradients.c compares it with differences" },
        { "bessel_j1", "PyTorch has none; tests/autograd/test_gradients.c compares it with differences" },
        { "zeta", "not of both inputs; tests/autograd/test_gradients.c compares it with differences" },
        { "polygamma", "PyTorch's is right to nine digits; tests/autograd/test_gradients.c compares it with differences" },
        { "max_pool_pick", "of third derivatives; tests/autograd/test_gradients.c compares it with differences" },
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (strcmp(operation->name, reasons[i][0]) == 0) {
            return reasons[i][1];
        }
    }
    return operation->gradient.missing; /* NULL: it has a gradient, or nothing depends on it */
}

void oracle_test_gradients_of_all(void **state)
{
    (void)state;
    int compared = 0, lacking = 0;
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++) {
            const char *why = exempt(*o);
            if (why != NULL) {
                print_message("# %s: %s\n", (*o)->name, why);
            } else if (seen.all && (*o)->gradient.function != NULL && !is_seen(*o)) {
                print_error("%s has no case of its gradient\n", (*o)->name);
                lacking++;
            }
            compared += is_seen(*o);
        }
    }
    print_message("# gradients of %d operations compared\n", compared);
    if (lacking > 0) {
        fail_msg("%d operations without a case of their gradient", lacking);
    }
}
