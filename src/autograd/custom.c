/* Functions of the program with a gradient of their own. */
#include <stdlib.h>
#include <string.h>

#include "autograd/tape.h"
#include "call/context.h"
#include "ops/ops.h"

/* The tensors and bytes that a forward function has saved, while it runs: weft_context.saving. */
typedef struct weft_saving_forward {
    bool keeps; /* else nothing is recorded, and nothing saved */
    int num_tensors;
    struct kept *tensors;
    void *bytes;
    size_t num_bytes;
} weft_saving_forward;

/* A saved tensor. */
typedef struct kept {
    weft_tensor *handle; /* of the tensor, which may be gone */
    uint64_t version;    /* of it when it was saved */
    const weft_layout *layout;
    weft_saved saved;
    int origin; /* that input, or num_inputs + that output; -1: it is none */
} kept;

/* After a node of WEFT_TAPE_CUSTOM. Its inputs are those of the function, then the saved tensors without values. */
typedef struct custom {
    weft_custom_backward backward;
    void *context;
    int num_inputs, num_saved;
    size_t num_bytes;
    const char *bytes; /* NULL: none */
    const int *origins;
} custom;

/* ---- what is saved ------------------------------------------------------------------------------------------- */

static void forget_kept(weft_saving_forward *s)
{
    for (int i = 0; i < s->num_tensors; i++) {
        weft_saved_release(&s->tensors[i].saved);
    }
    free(s->tensors);
    free(s->bytes);
    *s = (weft_saving_forward){ .keeps = s->keeps };
}

/* False with the error kept. */
static bool keep(const char *function, weft_saving_forward *s, int num_tensors, weft_tensor *const tensors[], const void *bytes,
                 size_t num_bytes)
{
    weft_saving_forward next = { .keeps = true, .num_bytes = num_bytes };
    next.tensors = calloc((size_t)num_tensors + 1, sizeof(kept));
    next.bytes = malloc(num_bytes + 1);
    bool done = next.tensors != NULL && next.bytes != NULL;
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to save %d tensors and %zu bytes", num_tensors, num_bytes);
    } else if (num_bytes > 0) {
        memcpy(next.bytes, bytes, num_bytes);
    }
    for (int i = 0; i < num_tensors && done; i++) {
        weft_tensor_impl *tensor = weft_tensor_get(tensors[i]);
        kept *each = &next.tensors[next.num_tensors++];
        *each = (kept){ .handle = tensors[i], .version = tensor->version, .layout = tensor->layout, .origin = -1 };
        done = weft_save(function, tensor, &each->saved);
    }
    forget_kept(done ? s : &next);
    if (done) {
        *s = next;
    }
    return done;
}

static bool check_tensors(const char *function, const char *what, int count, weft_tensor *const tensors[])
{
    bool right = true;
    for (int i = 0; i < count && right; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s[%d]", what, i);
        right = weft_check_tensor(function, name, tensors[i]) != NULL;
    }
    return right;
}

weft_status weft_save_for_backward(int num_tensors, weft_tensor *const tensors[], const void *bytes, size_t num_bytes)
{
    static const char function[] = "weft_save_for_backward";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    if (num_tensors < 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "num_tensors is %d", num_tensors);
    }
    if ((num_tensors > 0 && tensors == NULL) || (num_bytes > 0 && bytes == NULL)) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", num_tensors > 0 && tensors == NULL ? "tensors" : "bytes");
    }
    if (!check_tensors(function, "tensors", num_tensors, tensors)) {
        return weft_latest_status();
    }
    weft_saving_forward *saving = weft_runtime.context.saving;
    if (saving == NULL) {
        return weft_fail(WEFT_ERR_STATE, function, "called in no forward function of weft_custom_gradient()");
    }
    bool done = !saving->keeps || keep(function, saving, num_tensors, tensors, bytes, num_bytes);
    return done ? WEFT_OK : weft_latest_status();
}

/* ---- the forward function ------------------------------------------------------------------------------------- */

/* The call, while it is made. */
typedef struct making {
    weft_segment_function forward;
    weft_custom_backward backward;
    void *context;
    size_t context_size;
    int num_inputs, num_outputs;
    weft_tensor *const *inputs;
    weft_tensor **outputs;
    weft_tape_value **values; /* of the inputs before the call, with references; NULL: it is not recorded */
    weft_saving_forward saving;
} making;

static const char function[] = "weft_custom_gradient";

/* The function without recording. A status with the error kept. */
static weft_status run_forward(making *m)
{
    weft_tape *tape = weft_runtime.tape;
    weft_context inner = weft_runtime.context;
    inner.saving = &m->saving;
    const weft_context outer = weft_context_enter(inner);
    weft_tape_visit visit;
    weft_tape_visit_begin(&visit, tape == NULL ? 0 : tape->no_grad + 1);
    weft_status status = m->forward(m->context, m->num_inputs, m->inputs, m->num_outputs, m->outputs);
    weft_tape_visit_end(&visit);
    weft_context_leave(outer);
    if (status != WEFT_OK) {
        return weft_fail(status, function, "the forward function returned: %s", weft_status_string(status));
    }
    return check_tensors(function, "outputs", m->num_outputs, m->outputs) ? WEFT_OK
                                                                                                             : weft_latest_status();
}

/* The gradient of what it has used beside its inputs would be lost. False with the error kept. */
static bool check_used(const making *m, const weft_tape *tape)
{
    bool right = true;
    for (size_t u = 0; u < tape->used.count && right; u++) {
        const weft_tape_value *used = ((weft_tape_value **)tape->used.items)[u];
        right = false;
        for (int i = 0; i < m->num_inputs && !right; i++) {
            right = m->values[i] == used;
        }
    }
    if (!right) {
        weft_fail(WEFT_ERR_STATE, function, "the forward function has used a tensor that requires a gradient and is no input");
    }
    return right;
}

/* As weft_tape.used, of the function alone. */
static weft_status run_noting(making *m)
{
    weft_tape *tape = weft_runtime.tape;
    uint64_t *versions = calloc((size_t)m->num_inputs + 1, sizeof(*versions));
    if (versions == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d inputs", m->num_inputs);
    }
    for (int i = 0; i < m->num_inputs; i++) {
        versions[i] = weft_tensor_get(m->inputs[i])->version;
    }
    tape->in_first_run = true;
    weft_status status = run_forward(m);
    tape->in_first_run = false;
    for (int o = 0; o < m->num_outputs && status == WEFT_OK; o++) { /* a leaf may be returned as it is */
        bool own = weft_tensor_get(m->outputs[o])->tape == NULL || weft_tape_use(tape, function, m->outputs[o]);
        status = own ? WEFT_OK : weft_latest_status();
    }
    if (status == WEFT_OK && !(check_used(m, tape) && check_tensors(function, "inputs", m->num_inputs, m->inputs))) {
        status = weft_latest_status();
    }
    for (int i = 0; i < m->num_inputs && status == WEFT_OK; i++) {
        if (weft_tensor_get(m->inputs[i])->version != versions[i]) {
            status = weft_fail(WEFT_ERR_STATE, function, "the forward function has changed inputs[%d]", i);
        }
    }
    weft_tape_forget_used(tape);
    free(versions);
    return status;
}

/* Whether the saved tensor is this one, as it is now. */
static bool is_same(const kept *each, weft_tensor *handle)
{
    return each->handle == handle && each->version == weft_tensor_get(handle)->version;
}

static void find_origins(making *m)
{
    for (int k = 0; k < m->saving.num_tensors; k++) {
        kept *each = &m->saving.tensors[k];
        for (int o = m->num_outputs; o-- > 0;) {
            each->origin = is_same(each, m->outputs[o]) ? m->num_inputs + o : each->origin;
        }
        for (int i = m->num_inputs; i-- > 0;) {
            each->origin = is_same(each, m->inputs[i]) ? i : each->origin;
        }
    }
}

static weft_differentiate differentiate;

/* Why a pass through it cannot be recorded; NULL: it can. */
static const char *find_obstacle(const making *m)
{
    bool right = true;
    for (int k = 0; k < m->saving.num_tensors; k++) {
        const kept *each = &m->saving.tensors[k];
        right = right && (each->origin >= 0 || !weft_dtype_has_gradient(each->layout->dtype));
    }
    return right ? NULL : "it has saved a tensor that is no input or output";
}

/* The node's own memory: the custom, the context, the bytes, the origins. */
static void fill_node(const making *m, weft_tape_node *node, custom *c)
{
    char *context = (char *)c + weft_aligned(sizeof(*c)), *bytes = context + weft_aligned(m->context_size);
    int *origins = (int *)(void *)(bytes + weft_aligned(m->saving.num_bytes));
    *c = (custom){ .backward = m->backward, .context = m->context, .num_inputs = m->num_inputs,
                   .num_saved = m->saving.num_tensors, .num_bytes = m->saving.num_bytes, .origins = origins };
    if (m->context_size > 0) {
        c->context = memcpy(context, m->context, m->context_size);
    }
    if (c->num_bytes > 0) {
        c->bytes = memcpy(bytes, m->saving.bytes, c->num_bytes);
    }
    for (int i = 0; i < m->num_inputs; i++) {
        node->inputs[i].value = m->values[i];
        node->inputs[i].layout = weft_layout_of(m->inputs[i]);
        m->values[i] = NULL;
    }
    for (int k = 0; k < c->num_saved; k++) {
        kept *each = &m->saving.tensors[k];
        origins[k] = each->origin;
        node->inputs[m->num_inputs + k].layout = each->layout;
        node->inputs[m->num_inputs + k].saved = each->saved;
        each->saved = (weft_saved){ .tensor = NULL };
    }
}

static weft_status make_node(making *m)
{
    find_origins(m);
    void *room;
    size_t extra = weft_aligned(sizeof(custom)) + weft_aligned(m->context_size) + weft_aligned(m->saving.num_bytes) +
                   (size_t)m->saving.num_tensors * sizeof(int);
    weft_tape_node *node = weft_tape_node_new(function, WEFT_TAPE_CUSTOM, m->num_inputs + m->saving.num_tensors, m->num_outputs,
                                              extra, &room);
    if (node == NULL) {
        return weft_latest_status();
    }
    fill_node(m, node, room);
    node->custom = room;
    node->differentiate = differentiate;
    node->no_second = find_obstacle(m);
    bool done = weft_tape_attach_shares(node, m->outputs);
    weft_tape_node_release(node);
    return done ? WEFT_OK : weft_latest_status();
}

static weft_status record(making *m)
{
    bool any = false;
    for (int i = 0; i < m->num_inputs; i++) {
        m->values[i] = weft_tensor_get(m->inputs[i])->tape;
        if (m->values[i] != NULL) {
            m->values[i]->node->references++;
            any = true;
        }
    }
    m->saving.keeps = any;
    weft_status status = run_noting(m);
    status = status == WEFT_OK && any ? make_node(m) : status;
    for (int i = 0; i < m->num_inputs; i++) {
        if (m->values[i] != NULL) {
            weft_tape_node_release(m->values[i]->node);
        }
    }
    forget_kept(&m->saving);
    return status;
}

static weft_status check_arguments(const making *m)
{
    const char *missing = m->forward == NULL    ? "forward"
                          : m->backward == NULL ? "backward"
                          : m->outputs == NULL  ? "outputs"
                          : m->num_inputs > 0 && m->inputs == NULL        ? "inputs"
                          : m->context_size > 0 && m->context == NULL ? "context"
                                                                          : NULL;
    if (m->num_inputs < 0) {
        return weft_fail(WEFT_ERR_INVALID, function, "num_inputs is %d", m->num_inputs);
    }
    if (m->num_outputs < 1) {
        return weft_fail(WEFT_ERR_INVALID, function, "num_outputs is %d, expected at least 1", m->num_outputs);
    }
    if (missing != NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", missing);
    }
    return check_tensors(function, "inputs", m->num_inputs, m->inputs) ? WEFT_OK : weft_latest_status();
}

weft_status weft_custom_gradient(weft_segment_function forward, weft_custom_backward backward, void *context,
                                 size_t context_size, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                                 weft_tensor *outputs[])
{
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    making m = { .forward = forward, .backward = backward, .context = context, .context_size = context_size,
                 .num_inputs = num_inputs, .num_outputs = num_outputs, .inputs = inputs, .outputs = outputs };
    weft_status status = check_arguments(&m);
    if (status != WEFT_OK) {
        return status;
    }
    const weft_tape *tape = weft_runtime.tape;
    memset(outputs, 0, (size_t)num_outputs * sizeof(*outputs));
    if (tape == NULL || tape->no_grad > 0) {
        status = run_forward(&m);
    } else {
        m.values = calloc((size_t)num_inputs + 1, sizeof(*m.values));
        status = m.values == NULL ? weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d inputs", num_inputs) : record(&m);
        free(m.values);
    }
    if (status != WEFT_OK) {
        memset(outputs, 0, (size_t)num_outputs * sizeof(*outputs));
    }
    return status;
}

/* ---- the backward function ------------------------------------------------------------------------------------ */

/* The saved tensors, as the values of the tape that they were where the pass is recorded. False with the error kept. */
static bool restore(const weft_pass *pass, weft_tape_node *node, weft_tensor *saved[])
{
    const custom *c = node->custom;
    bool done = true;
    for (int k = 0; k < c->num_saved && done; k++) {
        weft_tensor_impl *tensor = weft_saved_restore(pass->function, &node->inputs[c->num_inputs + k].saved, !pass->retain);
        int origin = c->origins[k];
        weft_tape_value *value = origin < 0                ? NULL
                                 : origin < c->num_inputs ? node->inputs[origin].value
                                                          : &node->outputs[origin - c->num_inputs];
        bool is_value = value != NULL && value->layout != NULL;
        if (tensor != NULL && pass->create_graph && is_value) {
            weft_tape_set(tensor, value);
        }
        saved[k] = weft_tensor_handle(tensor);
        done = saved[k] != NULL;
    }
    return done;
}

/* The gradient in the input's type. NULL with the error kept. */
static weft_tensor *checked(const weft_pass *pass, const weft_layout *input, int number, weft_tensor *gradient)
{
    char name[64];
    snprintf(name, sizeof(name), "gradients[%d] of the backward function", number);
    const weft_tensor_impl *tensor = weft_check_tensor(pass->function, name, gradient);
    if (tensor == NULL) {
        return NULL;
    }
    const weft_layout *layout = tensor->layout;
    if (layout->ndim != input->ndim || memcmp(layout->shape, input->shape, (size_t)input->ndim * sizeof(input->shape[0])) != 0) {
        char is[200], expected[200];
        weft_fail(WEFT_ERR_SHAPE, pass->function, "%s is %s, expected the shape of %s", name,
                  weft_layout_format(layout, is, sizeof(is)), weft_layout_format(input, expected, sizeof(expected)));
        return NULL;
    }
    if (!weft_dtype_has_gradient(layout->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, pass->function, "%s is of type %s", name, weft_dtype_name(layout->dtype));
        return NULL;
    }
    bool of_real = weft_dtype_is_complex(layout->dtype) && !weft_dtype_is_complex(input->dtype);
    gradient = of_real ? weft_real(gradient) : gradient;
    return gradient == NULL ? NULL : weft_to_type(gradient, input->dtype);
}

static weft_status call_backward(const weft_pass *pass, const custom *c, const weft_custom_request *request,
                                 weft_tensor *gradients[])
{
    weft_context inner = weft_runtime.context;
    inner.saving = NULL;
    const weft_context outer = weft_context_enter(inner);
    weft_tape_visit visit;
    weft_tape_visit_begin(&visit, weft_runtime.tape->no_grad);
    weft_status status = c->backward(c->context, request, gradients);
    weft_tape_visit_end(&visit);
    weft_context_leave(outer);
    if (status != WEFT_OK) {
        weft_fail(status, pass->function, "a backward function of weft_custom_gradient() returned: %s", weft_status_string(status));
    }
    return status;
}

static bool differentiate(const weft_pass *pass, weft_tape_node *node, const bool wanted[], weft_tensor *const output_gradients[],
                          weft_tensor *gradients[])
{
    const custom *c = node->custom;
    weft_tensor **saved = calloc((size_t)c->num_saved + 1, sizeof(*saved));
    if (saved == NULL) {
        weft_fail(WEFT_ERR_NOMEM, pass->function, "no memory for %d saved tensors", c->num_saved);
        return false;
    }
    const weft_custom_request request = { .num_inputs = c->num_inputs, .num_outputs = node->num_outputs,
                                          .num_saved = c->num_saved, .saved = saved, .bytes = c->bytes,
                                          .num_bytes = c->num_bytes, .output_gradients = output_gradients, .wanted = wanted };
    bool done = restore(pass, node, saved) && call_backward(pass, c, &request, gradients) == WEFT_OK;
    for (int i = 0; i < c->num_inputs && done; i++) {
        if (wanted[i] && gradients[i] != NULL) {
            gradients[i] = checked(pass, node->inputs[i].layout, i, gradients[i]);
            done = gradients[i] != NULL;
        }
    }
    free(saved);
    return done;
}
