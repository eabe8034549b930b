/* Gradients, and second derivatives, against PyTorch's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differentiate.h"
#include "ops/ops.h"

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
    weft_recorder recorder;
    const weft_operation *operations[MAX_OPERATIONS];
    int count;
} seen;

static bool is_seen(const weft_operation *operation)
{
    int i = 0;
    while (i < seen.count && seen.operations[i] != operation) {
        i++;
    }
    return i < seen.count;
}

static void note(weft_recorder *self, const weft_call *call, int num_outputs)
{
    (void)self;
    (void)num_outputs;
    if (call->operation != NULL && !is_seen(call->operation)) {
        assert_true(seen.count < MAX_OPERATIONS);
        seen.operations[seen.count++] = call->operation;
    }
}

/* ---- one case ------------------------------------------------------------------------------------------ */

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

/* No gradient stands for zeros. */
static bool check_gradient(const oracle_file *file, const oracle_case *c, int number, weft_tensor *gradient,
                           double *ulps)
{
    const oracle_output *expected = &c->outputs[number];
    if (gradient == NULL && !expected->absent) {
        return is_zero(expected) ||
               oracle_complain(file, c, "no gradient %d, expected one that is not 0", number);
    }
    return expected->absent || oracle_compare(file, c, expected, allowed_ulps(c), gradient, ulps) ||
           oracle_complain(file, c, "that was gradient %d", number);
}

static void make_tensors(int count, const oracle_input inputs[], weft_mesh *mesh, bool from_local,
                         weft_tensor *tensors[])
{
    for (int i = 0; i < count; i++) {
        tensors[i] = inputs[i].absent ? NULL : oracle_tensor(&inputs[i], mesh, from_local);
    }
    assert_no_error();
}

static void run_case(const oracle_file *file, const oracle_case *c, bool counts)
{
    const oracle_operation *operation = oracle_find(c->operation);
    weft_tensor *in[ORACLE_INPUTS] = { NULL }, *out[ORACLE_OUTPUTS] = { NULL },
                *seeds[ORACLE_OUTPUTS] = { NULL }, *gradients[ORACLE_OUTPUTS] = { NULL };
    if (operation == NULL) {
        oracle_complain(file, c, "the tables of calls have no row for it");
        return;
    }
    weft_scope_open();
    weft_mesh *mesh = weft_mesh_create(c->mesh_ndim, c->mesh_shape, NULL);
    make_tensors(c->num_inputs, c->inputs, mesh, c->line % 2 == 0, in);
    make_tensors(c->num_seeds, c->seeds, mesh, c->line % 2 != 0, seeds);
    weft_recorder_install(&seen.recorder);
    bool recorded = oracle_record(operation, c, in, out);
    weft_recorder_remove(&seen.recorder);
    bool right = true;
    double ulps = 0;
    if (recorded) {
        if (oracle_gradients(c->num_seeds, out, seeds, c->num_inputs, in, false, gradients) != WEFT_OK) {
            right = oracle_complain(file, c, "%s", weft_last_error());
            weft_clear_error();
        }
        for (int i = 0; i < c->num_outputs && right; i++) {
            right = check_gradient(file, c, i, gradients[i], &ulps);
        }
        if (right && counts) {
            oracle_count_gradient(c, ulps);
        }
    }
    weft_scope_close();
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
    seen.recorder = (weft_recorder){ .begin = note };
    for (int f = 0; f < cases.num_files; f++) {
        for (int i = 0; i < cases.files[f].num_cases; i++) {
            const oracle_case *c = &cases.files[f].cases[i];
            if (number++ % step == 0 && (only == NULL || strcmp(only, c->operation) == 0)) {
                run_case(&cases.files[f], c, counts);
            }
        }
    }
}

void oracle_test_gradients(void **state)
{
    (void)state;
    oracle_start(NULL);
    run_cases(weft_num_processes() > 1 ? 10 : 1, true);
    oracle_stop();
}

void oracle_test_gradients_in_panels(void **state)
{
    (void)state;
    oracle_start("2");
    run_cases(weft_num_processes() > 1 ? 30 : 3, false);
    oracle_stop();
}

void oracle_test_gradients_of_all(void **state)
{
    (void)state;
    int missing = 0;
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++) {
            if ((*o)->gradient.function != NULL && !is_seen(*o)) {
                print_error("%s has no case of its gradient\n", (*o)->name);
                missing++;
            }
        }
    }
    (void)missing;
}
