/* The calls of the program, as a deferral that stands behind those of graphs. */
#include <stdlib.h>
#include <time.h>

#include "call/context.h"
#include "comm/check_spmd.h"
#include "dispatch/cache.h"
#include "graph/auto/auto.h"
#include "tensor/explained.h"
#include "tensor/regions.h"
#include "tensor/state.h"

/* A program that takes PAUSE_NS for PAUSE_CALLS calls computes itself, and idle workers should not wait for it. The next call sees that:
 * while the program makes none, nothing is submitted. */
enum { PAUSE_CALLS = 4, PAUSE_NS = PAUSE_CALLS * 20000 };

typedef struct automatic {
    weft_deferral deferral; /* the first member; its number is that of the run */
    weft_observation *observed;
    weft_repeated *open;  /* its first calls have been taken; NULL: none */
    int taken;
    weft_graph_run run; /* of it */
    uint64_t captures;  /* of its graph, before the run */
    uint64_t stages;    /* weft_counters.stages when the newest call came */
    int64_t newest_ns;  /* when one of the newest calls came */
    weft_vec failed;    /* uint64_t: numbers of runs that could not be executed; with a place for one more */
    weft_status failure; /* of the newest of these */
    bool is_untold;      /* no function has returned it */
} automatic;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------- */

/* Cheaper than a digest: tokens are met by chance alone. */
static uint64_t add(uint64_t token, uint64_t word)
{
    return ((token << 7 | token >> 57) ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Changes the program's memory. */
static bool changes_borrowed(const weft_call *call, int input)
{
    return input < weft_call_num_outputs(call) && weft_call_changes(call, input);
}

/* The token's word for an input; false in *plain: it has no data of its own, or the call changes the program's memory. */
static inline uint64_t look_at(const weft_call *call, int input, const weft_tensor *handle, bool *plain)
{
    const weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
    if (tensor == NULL || tensor->fake || tensor->ghosted != NULL || tensor->gathering != NULL ||
        (tensor->borrowed && changes_borrowed(call, input))) {
        *plain = false;
    }
    return tensor == NULL ? 0 : (uint64_t)(uintptr_t)tensor->layout;
}

/* *plain: all its tensors have data of their own, and the program's memory is only read. */
static uint64_t token_of(const weft_call *call, bool *plain)
{
    uint64_t token = add((uint64_t)(uintptr_t)call->operation, weft_runtime.implicit_replications > 0);
    *plain = true;
    for (int i = 0; i < call->num_inputs; i++) {
        token = add(token, look_at(call, i, call->inputs[i], plain));
    }
    const weft_attributes *a = &call->attributes;
    token = add(token, (uint64_t)a->rule ^ (uint64_t)a->leading << 16 ^ (uint64_t)a->type << 32 ^ (uint64_t)a->omitted << 48);
    for (int i = 0; i < a->num_sizes; i++) {
        token = add(token, (uint64_t)a->sizes[i]);
    }
    for (int i = 0; i < a->num_numbers; i++) {
        token = add(token, (uint64_t)a->numbers[i]);
    }
    if (call->details != NULL) {
        for (int i = 0; i < call->details->num_tensors; i++) {
            token = add(token, look_at(call, call->num_inputs + i, call->details->tensors[i], plain));
        }
        token = add(token, (uint64_t)(uintptr_t)call->details->layout);
        for (int i = 0; i < call->details->num_numbers; i++) {
            token = add(token, (uint64_t)call->details->numbers[i]);
        }
    }
    return token ^ token >> 32;
}

/* Calls that are seen or counted one by one are executed one by one. All that begins such a time executes what is deferred. */
static bool may_open(void)
{
    return weft_tensors_acquired() == 0 && weft_runtime.replaced.count == 0 && !weft_forced()->active &&
           !weft_in_region() && !weft_is_explaining() && !weft_is_broken();
}

/* ---- the window ------------------------------------------------------------------------------------------------------- */

static void note_failure(automatic *a, uint64_t number, weft_status status)
{
    ((uint64_t *)a->failed.items)[a->failed.count++] = number;
    a->failure = status;
    a->is_untold = true;
}

/* The program's calls returned WEFT_OK when they were taken. So the failure is returned once, by the next function that can: else
 * tensors that they were to change would be used as they were. */
static weft_status tell_failure(automatic *a, const char *function)
{
    a->is_untold = false;
    return weft_fail(a->failure, function, "calls before it have failed");
}

/* Executes the calls that were taken. `left`: another call has come. A status with the error kept; it is left untold. */
static weft_status close_window(automatic *a, bool left)
{
    weft_repeated *window = a->open;
    if (window == NULL) {
        return WEFT_OK;
    }
    const uint64_t number = a->run.deferral.number;
    const bool complete = a->taken == window->length;
    const uint64_t stages = weft_runtime.counters.stages;
    a->open = NULL;
    window->is_open = false;
    a->deferral.number = 0;
    weft_deferral_set_implicit(NULL); /* its calls are no calls of the program's */
    const weft_context outer = weft_context_enter(weft_context_numbered());
    weft_status status = weft_run_end_segment(&a->run, NULL);
    weft_context_leave(outer);
    weft_run_free(&a->run);
    weft_deferral_set_implicit(&a->deferral);
    a->stages = weft_runtime.counters.stages;
    window->is_wrong = weft_runtime.num_processes > 1 && a->stages != stages && !(complete && window->sends);
    weft_runtime.counters.windows_replayed++;
    weft_runtime.counters.windows_flushed += !complete && !left;
    weft_runtime.counters.windows_left += !complete && left;
    weft_runtime.counters.window_calls += (uint64_t)a->taken;
    weft_repeated_used(window, complete, window->graph->info.captures > a->captures);
    if (status != WEFT_OK) {
        note_failure(a, number, status);
    }
    return status;
}

static void open_window(automatic *a, weft_repeated *window)
{
    a->open = window;
    window->is_open = true;
    a->taken = 0;
    a->captures = window->graph->info.captures;
    window->graph->info.runs++;
    weft_run_begin(&a->run, window->graph);
    a->run.deferral.take = weft_run_take;
    a->run.alone = true;
    a->deferral.number = a->run.deferral.number;
    a->newest_ns = now_ns();
}

/* The open window takes the call. One that sends is executed at once: other processes may wait for it while this one makes no call. */
static bool take_in(automatic *a, const weft_call *call, weft_tensor *outputs[], weft_status *status)
{
    weft_deferral_set_implicit(NULL);
    bool taken = weft_run_take(&a->run.deferral, call, outputs, status);
    weft_deferral_set_implicit(&a->deferral);
    a->taken++;
    if (!taken || *status != WEFT_OK) { /* it is refused, and was not recorded */
        a->taken--;
        if (close_window(a, true) != WEFT_OK && !taken) {
            *status = tell_failure(a, call->function);
            taken = true;
        }
    } else if (a->open->sends && a->taken == a->open->length) {
        weft_observe_sends(a->observed);
        *status = close_window(a, false);
        a->is_untold = false;
    }
    return taken;
}

/* Whether the program has computed between its calls while workers had nothing to do. */
static bool is_late(automatic *a)
{
    const int64_t before = a->newest_ns;
    if (a->taken % PAUSE_CALLS != 0) {
        return false;
    }
    a->newest_ns = now_ns();
    return a->newest_ns - before > PAUSE_NS && a->run.captured == NULL && starpu_task_nsubmitted() == 0;
}

/* An input is of calls that could not be executed: so cannot this one. */
static bool depends_on_failure(const automatic *a, const weft_call *call)
{
    for (int i = 0, count = a->failed.count == 0 ? 0 : weft_call_num_tensors(call); i < count; i++) {
        const weft_tensor *handle = weft_call_tensor(call, i);
        const weft_tensor_impl *tensor = handle == NULL ? NULL : weft_tensor_get(handle);
        for (size_t k = 0; tensor != NULL && tensor->fake && k < a->failed.count; k++) {
            if (tensor->graph_run == ((const uint64_t *)a->failed.items)[k]) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the call is executed without being observed: it leaves values alone, is no call of the program's, or calls are compared one by
 * one (WEFT_CHECK=1). */
static bool is_passed(const weft_call *call)
{
    const weft_context *now = &weft_runtime.context;
    return weft_runtime.check || now->steps != NULL || now->rehearsal != NULL || now->expanded > 0 ||
           weft_call_does(call, WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED);
}

/* The call before may have sent. */
static void observe_messages(automatic *a)
{
    if (weft_runtime.num_processes > 1 && weft_runtime.counters.stages != a->stages) {
        weft_observe_sends(a->observed);
        a->stages = weft_runtime.counters.stages;
    }
}

static bool take(weft_deferral *self, const weft_call *call, weft_tensor *outputs[], weft_status *status)
{
    automatic *a = (automatic *)self;
    a->deferral.has_numbered = false;
    if (is_passed(call)) {
        return false;
    }
    bool plain;
    const uint64_t token = token_of(call, &plain);
    const bool deferrable = plain && weft_is_deferrable(call);
    observe_messages(a);
    if (weft_runtime.num_processes > 1 && deferrable) { /* the call gets its number now, whenever it is executed */
        a->deferral.has_numbered = weft_dispatch_take_number(call);
    }
    if (a->open != NULL) {
        const bool goes_on = deferrable && a->taken < a->open->length && token == a->open->tokens[a->taken];
        if (goes_on && !is_late(a)) {
            weft_observe(a->observed, token, false);
            return take_in(a, call, outputs, status);
        }
        close_window(a, !goes_on && deferrable);
    }
    if (a->is_untold || depends_on_failure(a, call)) {
        *status = tell_failure(a, call->function);
        return true;
    }
    weft_observe(a->observed, token, !deferrable);
    weft_repeated *window = deferrable ? weft_observed_beginning(a->observed) : NULL;
    if (window == NULL || !may_open() || !weft_repeated_is_ready(window) || !weft_repeated_prepare(window) ||
        !weft_vec_reserve(&a->failed, a->failed.count + 1, sizeof(uint64_t))) {
        return false;
    }
    open_window(a, window);
    return take_in(a, call, outputs, status);
}

/* A function that is no call. */
static void note(weft_deferral *self, const char *function)
{
    automatic *a = (automatic *)self;
    close_window(a, false);
    observe_messages(a);
    weft_observe(a->observed, weft_hash_pointer(function), true);
}

/* One that needs values. */
static weft_status finish(weft_deferral *self, const char *function)
{
    automatic *a = (automatic *)self;
    note(self, function);
    return a->is_untold ? tell_failure(a, function) : WEFT_OK;
}

/* ---- start and stop ------------------------------------------------------------------------------------------------------ */

weft_status weft_auto_start(void)
{
    if (!weft_runtime.autograph || weft_runtime.world == WEFT_WORLD_FAKE) {
        return WEFT_OK;
    }
    automatic *a = calloc(1, sizeof(*a));
    weft_observation *observed = calloc(1, sizeof(*observed));
    if (a == NULL || observed == NULL) {
        free(a);
        free(observed);
        return weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory to observe calls");
    }
    *a = (automatic){ .deferral = { .take = take, .finish = finish, .note = note }, .observed = observed };
    weft_deferral_set_implicit(&a->deferral);
    return WEFT_OK;
}

void weft_auto_stop(void)
{
    automatic *a = (automatic *)weft_runtime.implicit;
    if (a != NULL) {
        weft_observation_free(a->observed);
        weft_vec_free(&a->failed);
    }
    free(a);
    weft_deferral_set_implicit(NULL);
}

void weft_auto_meet_layouts(void)
{
    const automatic *a = (const automatic *)weft_runtime.implicit;
    if (a != NULL && a->open != NULL && a->run.captured != NULL) {
        weft_trace_meet_layouts(a->run.captured);
    }
}
