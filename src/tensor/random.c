/* Public functions on states of random numbers. The states of all processes advance together. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/state.h"

bool weft_random_start(weft_tensors *tensors, uint64_t seed)
{
    weft_named_state *first = weft_vec_push(&tensors->random_states, sizeof(*first));
    if (first != NULL) {
        first->state.seed = seed;
    }
    return first != NULL;
}

void weft_random_stop(weft_tensors *tensors)
{
    weft_named_state *states = tensors->random_states.items;
    for (size_t i = 0; i < tensors->random_states.count; i++) {
        free(states[i].name);
    }
    weft_vec_free(&tensors->random_states);
}

/* The state of this name; NULL: none. */
static weft_named_state *find(const char *name)
{
    weft_named_state *states = weft_runtime.tensors->random_states.items;
    if (name == NULL) {
        return states;
    }
    for (size_t i = 1; i < weft_runtime.tensors->random_states.count; i++) {
        if (strcmp(states[i].name, name) == 0) {
            return &states[i];
        }
    }
    return NULL;
}

/* NULL with the error kept. */
static weft_named_state *check_state(const char *function, const char *name)
{
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    weft_named_state *found = find(name);
    if (found == NULL) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "name is \"%s\", and there is no such state: weft_random_state_create()", name);
    }
    return found;
}

weft_random_state *weft_random_in_use(void)
{
    weft_named_state *states = weft_runtime.tensors->random_states.items;
    return &states[weft_runtime.tensors->random_in_use].state;
}

/* Compared like calls that submit something, because later values follow from it. False with the error
 * kept. */
static bool check_spmd(const char *function, bool failed, const char *name, weft_random_state state)
{
    uint64_t hash = name == NULL ? 0 : weft_hash_bytes(name, strlen(name), 1);
    const uint64_t wide[] = { hash, state.seed, state.offset };
    double numbers[2 * WEFT_ARRAY_SIZE(wide)];
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(wide); i++) {
        numbers[2 * i] = (double)(uint32_t)(wide[i] >> 32);
        numbers[2 * i + 1] = (double)(uint32_t)wide[i];
    }
    return weft_check_spmd(&(weft_call_signature){ .function = function,
                                                   .failed = failed,
                                                   .num_numbers = WEFT_ARRAY_SIZE(numbers),
                                                   .numbers = numbers }) &&
           !failed;
}

/* ---- calls -------------------------------------------------------------------------------------------- */

/* Each has details->text, the state's name, and its numbers. */
enum { SEED, OFFSET };

static weft_status act(const char *function, const weft_operation *action, const char *name, weft_random_state state)
{
    return weft_act(
        &(weft_call){ .function = function,
                      .operation = action,
                      .attributes = { .num_numbers = 2,
                                      .numbers = { [SEED] = (int64_t)state.seed, [OFFSET] = (int64_t)state.offset } },
                      .details = &(weft_call_details){ .text = name } },
        NULL);
}

static weft_random_state state_of(const weft_call *call)
{
    return (weft_random_state){ .seed = (uint64_t)call->attributes.numbers[SEED],
                                .offset = (uint64_t)call->attributes.numbers[OFFSET] };
}

static bool check_call(const weft_call *call)
{
    return check_spmd(call->function, false, call->details->text, state_of(call));
}

static weft_status perform_seed(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    if (!check_spmd(call->function, false, weft_random_state_current(), state_of(call))) {
        return weft_latest_status();
    }
    *weft_random_in_use() = state_of(call);
    return WEFT_OK;
}

weft_status weft_random_seed(uint64_t seed)
{
    static const char function[] = "weft_random_seed";
    static const weft_operation action = { .name = "random_seed", .perform = perform_seed, .effects = WEFT_LEAVES_VALUES };
    return weft_require_init(function) == WEFT_OK ? act(function, &action, NULL, (weft_random_state){ .seed = seed })
                                                  : weft_latest_status();
}

/* False with the error kept. */
static bool check_new_name(const char *function, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        weft_fail(WEFT_ERR_INVALID, function, "name is %s", name == NULL ? "NULL" : "empty");
        return false;
    }
    if (find(name) != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "name is \"%s\", which another state has", name);
        return false;
    }
    return true;
}

static weft_status perform_create(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const char *name = call->details->text;
    if (!check_call(call)) {
        return weft_latest_status();
    }
    char *copy = strdup(name);
    weft_named_state *new =
        copy == NULL ? NULL : weft_vec_push(&weft_runtime.tensors->random_states, sizeof(*new));
    if (new == NULL) {
        free(copy);
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a state");
    }
    *new = (weft_named_state){ copy, state_of(call) };
    return WEFT_OK;
}

weft_status weft_random_state_create(const char *name, uint64_t seed)
{
    static const char function[] = "weft_random_state_create";
    static const weft_operation action = { .name = "random_state_create", .perform = perform_create, .effects = WEFT_LEAVES_VALUES };
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_random_state state = { .seed = seed };
    if (!check_new_name(function, name)) {
        check_spmd(function, true, name, state);
        return weft_latest_status();
    }
    return act(function, &action, name, state);
}

static weft_status perform_use(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    const weft_named_state *found = check_state(call->function, call->details->text);
    if (found == NULL || !check_call(call)) {
        return weft_latest_status();
    }
    weft_runtime.tensors->random_in_use =
        (size_t)(found - (weft_named_state *)weft_runtime.tensors->random_states.items);
    return WEFT_OK;
}

weft_status weft_random_state_use(const char *name)
{
    static const char function[] = "weft_random_state_use";
    static const weft_operation action = { .name = "random_state_use", .perform = perform_use, .effects = WEFT_LEAVES_VALUES };
    if (check_state(function, name) == NULL) {
        check_spmd(function, true, name, (weft_random_state){ 0 });
        return weft_latest_status();
    }
    return act(function, &action, name, (weft_random_state){ 0 });
}

const char *weft_random_state_current(void)
{
    if (weft_require_init("weft_random_state_current") != WEFT_OK) {
        return NULL;
    }
    weft_named_state *states = weft_runtime.tensors->random_states.items;
    return states[weft_runtime.tensors->random_in_use].name;
}

weft_status weft_random_state_get(const char *name, weft_random_state *state)
{
    static const char function[] = "weft_random_state_get";
    weft_named_state *found = check_state(function, name);
    if (found == NULL) {
        return weft_latest_status();
    }
    if (state == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "state is NULL");
    }
    *state = found->state;
    return WEFT_OK;
}

static weft_status perform_set(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_named_state *found = check_state(call->function, call->details->text);
    if (found == NULL || !check_call(call)) {
        return weft_latest_status();
    }
    found->state = state_of(call);
    return WEFT_OK;
}

weft_status weft_random_state_set(const char *name, weft_random_state state)
{
    static const char function[] = "weft_random_state_set";
    static const weft_operation action = { .name = "random_state_set", .perform = perform_set, .effects = WEFT_LEAVES_VALUES };
    if (check_state(function, name) == NULL) {
        check_spmd(function, true, name, state);
        return weft_latest_status();
    }
    return act(function, &action, name, state);
}

int weft_random_states(int max, const char *names[])
{
    static const char function[] = "weft_random_states";
    if (weft_require_init(function) != WEFT_OK) {
        return -1;
    }
    if (max < 0 || (max > 0 && names == NULL)) {
        weft_fail(WEFT_ERR_INVALID, function, "max is %d%s", max, names == NULL ? " and names NULL" : "");
        return -1;
    }
    const weft_named_state *states = weft_runtime.tensors->random_states.items;
    int count = (int)weft_runtime.tensors->random_states.count - 1;
    for (int i = 0; i < max && i < count; i++) {
        names[i] = states[i + 1].name;
    }
    return count;
}
