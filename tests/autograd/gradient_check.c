#include "gradient_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "support.h"

enum { MAX_TENSORS = 16, MAX_QUEUE = 64, MAX_OUTPUTS = 16, MAX_OPERATIONS = 1024 };

/* One of the tensors of a call: as it was before it. */
typedef struct argument {
    weft_tensor *handle; /* at the time of the call; it may be gone */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], count;
    double *values;
} argument;

typedef struct recorded {
    weft_call *call;
    int num_arguments;
    argument arguments[MAX_TENSORS]; /* each once */
    int number[MAX_TENSORS];         /* of each input of the call, among them */
    weft_random_state state;
} recorded;

static struct {
    weft_interposer interposer;
    weft_mesh *mesh;
    input_layout layout;
    recorded queue[MAX_QUEUE];
    int count;
    bool nested; /* what is recorded now is a part of a gradient */
    const weft_operation *operations[MAX_OPERATIONS];
    int checks[MAX_OPERATIONS], num_operations;
} checker;

/* ---- values -------------------------------------------------------------------------------------------- */

static void store(weft_dtype dtype, void *memory, int64_t i, double value)
{
    switch (dtype) {
    case WEFT_F64: ((double *)memory)[i] = value; break;
    case WEFT_F32: ((float *)memory)[i] = (float)value; break;
    case WEFT_I64: ((int64_t *)memory)[i] = (int64_t)value; break;
    case WEFT_I32: ((int32_t *)memory)[i] = (int32_t)value; break;
    case WEFT_BOOL: ((uint8_t *)memory)[i] = value != 0; break;
    default: fail_msg("no values of this type");
    }
}

static double load(weft_dtype dtype, const void *memory, int64_t i)
{
    switch (dtype) {
    case WEFT_F64: return ((const double *)memory)[i];
    case WEFT_F32: return (double)((const float *)memory)[i];
    case WEFT_I64: return (double)((const int64_t *)memory)[i];
    case WEFT_I32: return ((const int32_t *)memory)[i];
    case WEFT_BOOL: return ((const uint8_t *)memory)[i];
    default: fail_msg("no values of this type");
    }
    return 0;
}

static double *values_of(weft_tensor *tensor, int64_t *count)
{
    size_t bytes = weft_tensor_bytes(tensor), size = weft_dtype_size(weft_tensor_dtype(tensor));
    void *memory = calloc(1, bytes + 1);
    if (weft_to_host(tensor, memory, bytes) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    *count = (int64_t)(bytes / size);
    double *values = calloc((size_t)*count + 1, sizeof(double));
    for (int64_t i = 0; i < *count; i++) {
        values[i] = load(weft_tensor_dtype(tensor), memory, i);
    }
    free(memory);
    return values;
}

/* Addends that add up to the values: the first rank has them all but what each of the others adds. */
static weft_tensor *partial_of(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], int64_t count,
                               const double values[])
{
    enum { MAX_RANKS = 8 };
    int first = weft_first_rank();
    void *locals[MAX_RANKS] = { NULL };
    for (int r = 0; r < weft_local_ranks(); r++) {
        int64_t coordinate[WEFT_MAX_DIMS];
        if (!weft_mesh_coordinate(mesh, first + r, coordinate)) {
            continue;
        }
        locals[r] = calloc((size_t)count + 1, weft_dtype_size(dtype));
        for (int64_t i = 0; i < count; i++) {
            double addend = 0.25 * (double)(i % 3), others = addend * (double)(weft_mesh_size(mesh, 0) - 1);
            store(dtype, locals[r], i, coordinate[0] == 0 ? values[i] - others : addend);
        }
    }
    weft_placement placement = weft_partial(WEFT_SUM);
    weft_tensor *tensor = weft_from_local(dtype, ndim, shape, locals, mesh, &placement, WEFT_COPY);
    for (int r = 0; r < weft_local_ranks(); r++) {
        free(locals[r]);
    }
    return tensor;
}

weft_tensor *tensor_of_values(weft_mesh *mesh, input_layout layout, weft_dtype dtype, int ndim, const int64_t shape[],
                              const double values[])
{
    int64_t count = shape_count(ndim, shape);
    if (layout == PARTIAL_SUM && weft_dtype_is_floating(dtype)) {
        return partial_of(mesh, dtype, ndim, shape, count, values);
    }
    weft_placement placement = ndim == 0 || layout == REPLICATED || layout == PARTIAL_SUM ? weft_replicate()
                               : weft_shard(layout == FIRST_SHARDED ? 0 : ndim - 1);
    void *memory = calloc((size_t)count + 1, weft_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++) {
        store(dtype, memory, i, values[i]);
    }
    weft_tensor *tensor = weft_distribute(dtype, ndim, shape, memory, mesh, &placement);
    free(memory);
    assert_no_error();
    return tensor;
}

static weft_tensor *tensor_of(const argument *a)
{
    return tensor_of_values(checker.mesh, checker.layout, a->dtype, a->ndim, a->shape, a->values);
}

/* ---- recording ----------------------------------------------------------------------------------------- */

static int *checks_of(const weft_operation *operation)
{
    int i = 0;
    while (i < checker.num_operations && checker.operations[i] != operation) {
        i++;
    }
    if (i == checker.num_operations) {
        assert_true(i < MAX_OPERATIONS);
        checker.operations[checker.num_operations++] = operation;
    }
    return &checker.checks[i];
}

int gradient_checks_of(const weft_operation *operation)
{
    return *checks_of(operation);
}

static bool is_queued(const weft_operation *operation)
{
    for (int i = 0; i < checker.count; i++) {
        const weft_call *call = checker.queue[i].call; /* NULL: checked already */
        if (call != NULL && call->operation == operation) {
            return true;
        }
    }
    return false;
}

static bool is_of_interest(const weft_call *call)
{
    if (weft_call_is_action(call) ? !weft_call_does(call, WEFT_MOVES) : call->operation->gradient.function == NULL &&
                                                                        call->operation->gradient.by_program == NULL) {
        return false;
    }
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        if (weft_tensor_is_fake(weft_call_tensor(call, i))) {
            return false; /* a part of a gradient that looks at its layout alone */
        }
    }
    bool again = checker.nested && (weft_call_is_action(call) || *checks_of(call->operation) > 0 || is_queued(call->operation));
    return !again && weft_call_num_tensors(call) <= MAX_TENSORS;
}

static void record(const weft_call *call)
{
    assert_true(checker.count < MAX_QUEUE);
    recorded *r = &checker.queue[checker.count++];
    size_t bytes;
    *r = (recorded){ .call = weft_call_copy(call, &bytes) };
    r->call->attributes.omitted = 0; /* what a gradient reads is asked for, as a tape does */
    weft_random_state_get(weft_random_state_current(), &r->state);
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        weft_tensor *tensor = weft_call_tensor(call, i);
        int n = 0;
        while (n < r->num_arguments && r->arguments[n].handle != tensor) {
            n++;
        }
        if (n == r->num_arguments) {
            argument *a = &r->arguments[r->num_arguments++];
            a->handle = tensor;
            a->dtype = weft_tensor_dtype(tensor);
            a->ndim = weft_tensor_ndim(tensor);
            for (int d = 0; d < a->ndim; d++) {
                a->shape[d] = weft_tensor_size(tensor, d);
            }
            a->values = values_of(tensor, &a->count);
        }
        r->number[i] = n;
    }
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    (void)self;
    if (is_of_interest(frame->call)) {
        record(frame->call);
    }
    return weft_call_next(frame);
}

void gradient_check_begin(weft_mesh *mesh, input_layout layout)
{
    checker.mesh = mesh;
    checker.layout = layout;
    checker.interposer = (weft_interposer){ .order = WEFT_OBSERVER, .around = around };
    checker.nested = false;
    weft_interposer_install(&checker.interposer);
}

/* ---- checking ------------------------------------------------------------------------------------------ */

/* The call with other tensors; details are written to *details. */
static weft_call with_tensors(const recorded *r, weft_tensor *const tensors[], weft_tensor *list[],
                              weft_call_details *details)
{
    weft_call call = *r->call;
    for (int i = 0; i < call.num_inputs; i++) {
        call.inputs[i] = tensors[r->number[i]];
    }
    if (call.details != NULL) {
        *details = *call.details;
        for (int i = 0; i < details->num_tensors; i++) {
            list[i] = tensors[r->number[call.num_inputs + i]];
        }
        details->tensors = list;
        call.details = details;
    }
    return call;
}

/* Runs the call on new tensors of the arguments. */
static void run(const recorded *r, weft_tensor *tensors[], weft_tensor *outputs[])
{
    weft_tensor *list[MAX_TENSORS];
    weft_call_details details;
    for (int n = 0; n < r->num_arguments; n++) {
        tensors[n] = tensor_of(&r->arguments[n]);
    }
    weft_call call = with_tensors(r, tensors, list, &details);
    memset(outputs, 0, MAX_OUTPUTS * sizeof(outputs[0]));
    assert_true(weft_call_num_outputs(&call) <= MAX_OUTPUTS);
    weft_random_state_set(weft_random_state_current(), r->state);
    if (weft_invoke(&call, outputs) != WEFT_OK) {
        fail_msg("%s: %s", call.function, weft_last_error());
    }
}

/* What the outputs are multiplied by before they are added up. */
static double weight(int output, int64_t i)
{
    return 0.5 + 0.25 * (double)((i * 7 + output * 3) % 5) - 0.125 * (double)(i % 2);
}

/* The first of a list of outputs does not, so that its gradient is NULL. */
static bool counts(const weft_call *call, int number, const weft_tensor *output)
{
    bool listed = call->details != NULL && call->details->num_outputs > 1;
    return !(listed && number == 0) && output != NULL && weft_dtype_is_floating(weft_tensor_dtype(output));
}

static double weighted_sum(const recorded *r)
{
    weft_tensor *tensors[MAX_TENSORS], *outputs[MAX_OUTPUTS];
    double sum = 0;
    weft_scope_begin();
    run(r, tensors, outputs);
    for (int k = 0; k < weft_call_num_outputs(r->call); k++) {
        if (counts(r->call, k, outputs[k])) {
            int64_t count;
            double *values = values_of(outputs[k], &count);
            for (int64_t i = 0; i < count; i++) {
                sum += weight(k, i) * values[i];
            }
            free(values);
        }
    }
    weft_scope_end();
    return sum;
}

static weft_tensor *weights_like(weft_tensor *output, int number)
{
    int ndim = weft_tensor_ndim(output);
    int64_t shape[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        shape[d] = weft_tensor_size(output, d);
    }
    int64_t count = shape_count(ndim, shape);
    double *values = calloc((size_t)count + 1, sizeof(double));
    for (int64_t i = 0; i < count; i++) {
        values[i] = weight(number, i);
    }
    weft_tensor *weights =
        tensor_of_values(checker.mesh, checker.layout, weft_tensor_dtype(output), ndim, shape, values);
    free(values);
    return weights;
}

/* The gradient of the weighted sum by one argument, to `sum`: of all inputs that are it. Other values than those that the
 * operation says it reads are not there. */
static void analytic(const recorded *r, int argument_number, double sum[])
{
    weft_tensor *tensors[MAX_TENSORS], *outputs[MAX_OUTPUTS], *saved[MAX_TENSORS], *saved_outputs[MAX_OUTPUTS],
        *output_gradients[MAX_OUTPUTS] = { NULL }, *gradients[MAX_TENSORS], *list[MAX_TENSORS];
    bool wanted[MAX_TENSORS] = { false }, needed[MAX_TENSORS] = { false };
    int num_inputs = weft_call_num_tensors(r->call);
    for (int i = 0; i < num_inputs; i++) {
        wanted[i] = r->number[i] == argument_number;
    }
    unsigned reads = weft_call_gradient_reads(r->call, wanted);
    for (int i = 0; i < r->call->num_inputs; i++) {
        needed[r->number[i]] |= (reads & WEFT_READS_INPUT(i)) != 0;
    }
    run(r, tensors, outputs);
    for (int n = 0; n < r->num_arguments; n++) {
        saved[n] = needed[n] ? tensor_of(&r->arguments[n]) : weft_fake_like(tensors[n]);
    }
    for (int k = 0; k < weft_call_num_outputs(r->call); k++) {
        bool read = reads & WEFT_READS_OUTPUT(k);
        saved_outputs[k] = outputs[k] == NULL || read ? outputs[k] : weft_fake_like(outputs[k]);
        output_gradients[k] = counts(r->call, k, outputs[k]) ? weights_like(outputs[k], k) : NULL;
    }
    weft_call_details details;
    weft_call call = with_tensors(r, saved, list, &details);
    checker.nested = true;
    weft_interposer_install(&checker.interposer);
    weft_status status = weft_call_gradients(&(weft_gradient){ .call = &call,
                                                               .outputs = saved_outputs,
                                                               .output_gradients = output_gradients,
                                                               .wanted = wanted,
                                                               .gradients = gradients });
    weft_interposer_remove(&checker.interposer);
    if (status != WEFT_OK) {
        fail_msg("gradient of %s: %s", call.function, weft_last_error());
    }
    for (int i = 0; i < num_inputs; i++) {
        assert_true(wanted[i] || gradients[i] == NULL);
        if (gradients[i] != NULL) {
            int64_t count;
            double *values = values_of(gradients[i], &count);
            assert_int_equal(count, r->arguments[argument_number].count);
            assert_int_equal(weft_tensor_dtype(gradients[i]), r->arguments[argument_number].dtype);
            for (int64_t e = 0; e < count; e++) {
                sum[e] += values[e];
            }
            free(values);
        }
    }
}

static void check_argument(recorded *r, int number)
{
    argument *a = &r->arguments[number];
    double *gradient = calloc((size_t)a->count + 1, sizeof(double));
    weft_scope_begin();
    analytic(r, number, gradient);
    weft_scope_end();
    double slack = a->dtype == WEFT_F64 ? 2e-6 : 2e-3;
    for (int64_t e = 0; e < a->count; e++) {
        double value = a->values[e];
        /* Beside a pole at 0 a function bends within a step that is not small beside the value. */
        double step = a->dtype == WEFT_F64 ? 1e-5 * fmax(0.05, fmin(1, 10 * fabs(value))) : 1.0 / 64;
        a->values[e] = value + step;
        double above = weighted_sum(r);
        a->values[e] = value - step;
        double below = weighted_sum(r);
        a->values[e] = value;
        double expected = (above - below) / (2 * step);
        if (!(fabs(gradient[e] - expected) <= slack * (1 + fabs(expected)))) {
            fail_msg("%s (%s), layout %d, argument %d, element %d: gradient %.12g, difference quotient %.12g",
                     r->call->function, r->call->operation->name, (int)checker.layout,
                     number, (int)e, gradient[e], expected);
        }
    }
    free(gradient);
}

int gradient_check_recorded(void)
{
    weft_interposer_remove(&checker.interposer);
    int i = 0;
    for (; i < checker.count; i++) {
        recorded r = checker.queue[i]; /* the queue may grow */
        for (int n = 0; n < r.num_arguments; n++) {
            if (weft_dtype_is_floating(r.arguments[n].dtype)) {
                check_argument(&r, n);
            }
        }
        if (!weft_call_is_action(r.call)) {
            (*checks_of(r.call->operation))++;
        }
        for (int n = 0; n < r.num_arguments; n++) {
            free(r.arguments[n].values);
        }
        free(r.call);
        checker.queue[i].call = NULL;
    }
    checker.count = 0;
    return i;
}
