/* Composites: operations made of other calls. */
#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "dispatch/cache.h"
#include "dispatch/expansion.h"
#include "dispatch/inputs.h"
#include "tensor/state.h"
#include "tensor/submit.h"

void weft_call_get_layouts(const weft_call *call, weft_call_layouts *layouts)
{
    layouts->operation = call->operation;
    layouts->num_inputs = call->num_inputs;
    layouts->attributes = &call->attributes;
    for (int i = 0; i < call->num_inputs; i++) {
        layouts->inputs[i] = weft_layout_of(call->inputs[i]);
    }
}

bool weft_call_expands(const weft_call *call)
{
    const weft_operation *operation = call->operation;
    if (operation->expand == NULL || operation->expands == NULL) {
        return operation->expand != NULL;
    }
    for (int i = 0; i < call->num_inputs; i++) {
        if (call->inputs[i] == NULL || weft_tensor_get(call->inputs[i]) == NULL) {
            return false; /* weft_dispatch() keeps the error */
        }
    }
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    return operation->expands(&layouts);
}

/* False with the error kept. A body's calls check types of their own, which may be more than the operation takes. */
static bool takes_types(const weft_call *call)
{
    weft_call_layouts layouts;
    weft_call_get_layouts(call, &layouts);
    char why[400] = "";
    weft_status status = weft_call_check_types(&layouts, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, call->function, "%s", why);
    }
    return status == WEFT_OK;
}

/* False with the error kept. Otherwise a call of the body would name its own arguments. */
static bool has_one_mesh(const weft_call *call, weft_tensor_impl *const inputs[])
{
    const weft_layout *layouts[WEFT_MAX_INPUTS];
    int guessed;
    bool right = weft_gather_layouts(call, inputs, layouts, &guessed);
    for (int i = 1; i < call->num_inputs && right; i++) {
        right = weft_check_same_mesh(call->function, call->operation->inputs[0].name, layouts[0],
                                     call->operation->inputs[i].name, layouts[i]);
    }
    return right;
}

bool weft_composite_accepts(const weft_call *call, weft_tensor_impl *const inputs[])
{
    weft_sharding own;
    weft_cached_call *cached;
    int guessed;
    const weft_operation *operation = call->operation;
    bool has_rule = operation->expands != NULL || operation->write_rule != NULL || operation->rules[0] != NULL;
    if (call->num_inputs == 0) {
        return true;
    }
    if (!has_rule) {
        return takes_types(call) && has_one_mesh(call, inputs);
    }
    bool accepts = weft_obtain_layouts(call, inputs, &own, &guessed, &cached) != NULL;
    weft_cache_release(cached);
    return accepts;
}

typedef struct composite_outputs {
    const weft_call *call;
    weft_tensor *const *outputs;
} composite_outputs;

/* Whether an output is an input that was changed in place: the program has a reference to it already. */
static bool is_changed_input(const void *context, int output)
{
    const composite_outputs *o = context;
    return weft_call_changes(o->call, output) && o->outputs[output] == weft_call_tensor(o->call, output);
}

/* Hands the outputs of a scope to the enclosing scope. */
static bool close_and_keep(const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    const composite_outputs context = { call, outputs };
    return weft_scope_end_keeping(num_outputs, outputs, is_changed_input, &context);
}

bool weft_composite_body(const weft_call *call, weft_tensor *outputs[])
{
    bool done = call->operation->expand(call, outputs);
    for (int64_t i = weft_call_num_outputs(call), asked = i - call->attributes.omitted; i-- > asked;) {
        outputs[i] = NULL;
    }
    return done;
}

/* Runs the body on tensors without data: its calls are collected into the enclosing expansion, or only
 * checked. */
static bool carry_body_out(const weft_call *call, weft_tensor *outputs[])
{
    int num_outputs = weft_call_num_outputs(call);
    weft_steps *steps = weft_runtime.context.steps;
    unsigned inherited = steps == NULL ? 0 : steps->inherited;
    weft_scope_begin();
    if (steps != NULL) {
        steps->inherited &= call->inherited;
    }
    bool done = weft_composite_body(call, outputs);
    if (steps != NULL) {
        steps->inherited = inherited;
    }
    return close_and_keep(call, done ? num_outputs : 0, outputs) && done;
}

/* "tensors[3]", in `text`; or the operation's name of the input. */
static const char *name_of(const weft_call *call, int input, char *text, size_t size)
{
    if (input < call->num_inputs) {
        return call->operation->inputs[input].name;
    }
    snprintf(text, size, "tensors[%d]", input - call->num_inputs);
    return text;
}

/* False with the error kept: an input with data is changed, and another input has none. */
static bool check_changed(const weft_call *call, weft_tensor_impl *const inputs[])
{
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        if (weft_call_changes(call, i) && !inputs[i]->fake) {
            char text[32];
            weft_fail(WEFT_ERR_STATE, call->function, "%s has data, and another input has none (weft_fake())",
                      name_of(call, i, text, sizeof(text)));
            return false;
        }
    }
    return true;
}

/* Inputs without data of the same layouts. False with the error kept. */
static bool make_without_data(const char *function, weft_tensor_impl *const inputs[], int num_inputs,
                              weft_tensor *handles[])
{
    bool made = true;
    for (int i = 0; i < num_inputs && made; i++) {
        handles[i] = weft_tensor_handle(inputs[i]->fake ? inputs[i] : weft_tensor_fake(function, inputs[i]->layout));
        made = handles[i] != NULL;
    }
    return made;
}

static bool accept_step(weft_steps *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    (void)self, (void)call, (void)num_outputs, (void)outputs;
    return true;
}

/* A call of the program's with an input without data: nothing is submitted. */
static bool run_without_data(const weft_call *call, weft_tensor_impl *const inputs[], weft_tensor *outputs[])
{
    int num_inputs = weft_call_num_tensors(call);
    weft_tensor **handles = malloc(((size_t)num_inputs + 1) * sizeof(weft_tensor *));
    if (handles == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d tensors", num_inputs);
        return false;
    }
    weft_own_call own;
    weft_scope_begin();
    bool done = make_without_data(call->function, inputs, num_inputs, handles);
    weft_call_on(&own, call, handles);
    if (done) {
        weft_steps steps = { .add = accept_step, .explains = true };
        const weft_context outer = weft_context_enter(weft_context_collecting(&steps));
        done = weft_composite_accepts(call, inputs) && carry_body_out(&own.call, outputs);
        weft_context_leave(outer);
    }
    done = close_and_keep(&own.call, done ? weft_call_num_outputs(call) : 0, outputs) && done;
    free(handles);
    return done;
}

static bool run_composite(const weft_call *call, weft_tensor_impl *const inputs[], weft_tensor *outputs[])
{
    weft_expansion *expansion = weft_expansion_obtain(call, inputs);
    bool made = expansion != NULL && weft_expansion_join(call->function, expansion);
    bool right = weft_dispatch_check_spmd(call, inputs, made) && made;
    bool done = right && weft_expansion_run(expansion, call, inputs, outputs);
    weft_expansion_release(expansion);
    return done;
}

bool weft_composite_call(const weft_call *call, weft_tensor *outputs[])
{
    enum { FEW = 16 };
    weft_tensor_impl *few[FEW];
    int num_inputs = weft_call_num_tensors(call);
    weft_tensor_impl **inputs = num_inputs <= FEW ? few : malloc((size_t)num_inputs * sizeof(*inputs));
    if (inputs == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d tensors", num_inputs);
        return false;
    }
    bool fake = weft_runtime.context.steps != NULL, valid = weft_require_init(call->function) == WEFT_OK;
    for (int i = 0; i < num_inputs && valid; i++) {
        inputs[i] = i < call->num_inputs
                        ? weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i])
                        : weft_check_entry(call->function, "tensors", i - call->num_inputs, weft_call_tensor(call, i));
        valid = inputs[i] != NULL;
        fake = valid && (fake || inputs[i]->fake);
    }
    memset(outputs, 0, (size_t)weft_call_num_outputs(call) * sizeof(outputs[0]));
    bool done = !valid ? weft_dispatch_check_spmd(call, NULL, false)
                : weft_runtime.context.steps != NULL ? carry_body_out(call, outputs)
                : fake ? check_changed(call, inputs) && run_without_data(call, inputs, outputs)
                       : run_composite(call, inputs, outputs);
    if (inputs != few) {
        free(inputs);
    }
    return valid && done;
}

/* ---- running ------------------------------------------------------------------------------------------- */

enum { LEAD = 64 };

/* Tensors of an expansion being run; it owns a reference to each of those after the inputs. */
typedef struct running {
    const weft_call *composite;
    weft_tensor_impl **tensors;
    int num_inputs;
} running;

static void let_go(const running *r, int number)
{
    if (number >= r->num_inputs && r->tensors[number] != NULL) {
        weft_tensor_unreference(r->tensors[number]);
        r->tensors[number] = NULL;
    }
}

static void let_go_after(const running *r, const weft_step *step)
{
    for (int i = 0; i < step->call->num_inputs; i++) {
        if (step->last_inputs >> i & 1) {
            let_go(r, step->inputs[i]);
        }
    }
    for (int i = 0; i < step->num_outputs; i++) {
        if (step->last_outputs >> i & 1) {
            let_go(r, step->outputs[i]);
        }
    }
}

void weft_step_scalars(const weft_call *step, const weft_call *composite, double scalars[WEFT_MAX_SCALARS])
{
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        scalars[i] = step->inherited >> i & 1 ? composite->scalars[i] : step->scalars[i];
    }
}

static bool run_step(const running *r, const weft_step *step)
{
    weft_call call = *step->call;
    call.function = r->composite->function; /* errors of tasks name the function that the program called */
    for (int i = 0; i < call.num_inputs; i++) {
        call.inputs[i] = r->tensors[step->inputs[i]]->handle;
    }
    weft_step_scalars(step->call, r->composite, call.scalars);
    weft_tensor *outputs[WEFT_MAX_STEP_OUTPUTS] = { NULL };
    weft_scope_begin();
    bool done;
    if (weft_call_is_action(&call)) {
        done = call.operation->perform(&call, outputs) == WEFT_OK;
    } else {
        done = weft_dispatch_itself_all(&call, outputs);
    }
    for (int i = 0; i < step->num_outputs && done; i++) {
        weft_tensor_impl **place = &r->tensors[step->outputs[i]];
        if (*place == NULL) {
            *place = weft_tensor_get(outputs[i]);
            (*place)->references++;
        }
    }
    weft_scope_end_own();
    let_go_after(r, step);
    return done;
}

/* The steps from `first` on that become tasks together, if nobody looks at each call. 0: none; -1: with the error kept. */
static int run_joined(const running *r, const weft_expansion *expansion, size_t first)
{
    const weft_runtime_state *state = &weft_runtime;
    bool joins = expansion->joined != NULL && state->explained == NULL && state->regions == NULL && state->replaced.count == 0;
    int ran = joins ? weft_expansions_joining()->run(expansion, first, r->composite, r->tensors) : 0;
    for (int i = 0; i < ran; i++) {
        let_go_after(r, (const weft_step *)expansion->steps.items + first + i);
    }
    return ran;
}

/* All steps. False with the error kept. */
static bool run_steps(const running *r, const weft_expansion *expansion)
{
    bool done = true;
    for (size_t i = 0; i < expansion->steps.count && done;) {
        int ran = run_joined(r, expansion, i);
        done = ran > 0 || (ran == 0 && run_step(r, (const weft_step *)expansion->steps.items + i));
        i += ran > 0 ? (size_t)ran : 1;
    }
    return done;
}

/* Hands the outputs to the innermost scope. */
static bool give_outputs(const running *r, const weft_expansion *expansion, weft_tensor *outputs[])
{
    bool done = true;
    for (int i = 0; i < expansion->num_outputs; i++) {
        int number = expansion->outputs[i];
        weft_tensor_impl *output = number < 0 ? NULL : r->tensors[number];
        outputs[i] = weft_tensor_handle(output);
        bool changed = number == i && weft_call_changes(r->composite, i);
        done = (output == NULL || changed || weft_tensor_share(output) != NULL) && done;
    }
    return done;
}

/* Before an operation's body, and after it. If it leads, its tasks go before those of LEAD operations called before, and steps do not write
 * to memory that the last ones read: they would wait until these have ended. */
static weft_reuse begin_lead(const weft_operation *operation)
{
    if (!operation->leads) {
        return WEFT_REUSE_NEWEST;
    }
    weft_task_set_delay(weft_runtime.delay - LEAD);
    return weft_pool_set_reuse(weft_runtime.pool, WEFT_REUSE_OLD);
}

static void end_lead(const weft_operation *operation, weft_reuse before)
{
    if (operation->leads) {
        weft_task_set_delay(weft_runtime.delay + LEAD);
        weft_pool_set_reuse(weft_runtime.pool, before);
    }
}

bool weft_expansion_run(const weft_expansion *expansion, const weft_call *call, weft_tensor_impl *const inputs[],
                        weft_tensor *outputs[])
{
    enum { FEW = 64 };
    weft_tensor_impl *few[FEW], **tensors = few;
    if (expansion->num_tensors > FEW) {
        tensors = malloc((size_t)expansion->num_tensors * sizeof(*tensors));
    }
    if (tensors == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d tensors", expansion->num_tensors);
        return false;
    }
    memcpy(tensors, inputs, (size_t)expansion->num_inputs * sizeof(*tensors));
    memset(tensors + expansion->num_inputs, 0,
           (size_t)(expansion->num_tensors - expansion->num_inputs) * sizeof(*tensors));
    const running r = { call, tensors, expansion->num_inputs };
    weft_composite_enter();
    const weft_context outer = weft_context_enter(weft_context_expanded());
    const weft_reuse reuse = begin_lead(call->operation);
    bool done = run_steps(&r, expansion);
    end_lead(call->operation, reuse);
    weft_context_leave(outer);
    weft_composite_close();
    done = done && give_outputs(&r, expansion, outputs);
    for (int i = expansion->num_inputs; i < expansion->num_tensors; i++) {
        let_go(&r, i);
    }
    if (tensors != few) {
        free(tensors);
    }
    return done;
}
