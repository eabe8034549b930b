/* States of random numbers: what the program does with them. Those of all processes advance together. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
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

/* The state of this name; NULL when there is none. */
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

/* What all processes do alike: compared like calls that submit something, for the values of later ones follow
 * from it. False with the error kept. */
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

weft_status weft_random_seed(uint64_t seed)
{
    static const char function[] = "weft_random_seed";
    weft_random_state state = { .seed = seed };
    bool ready = weft_require_init(function) == WEFT_OK;
    if (!ready || !check_spmd(function, false, weft_random_state_current(), state)) {
        return weft_latest_status();
    }
    *weft_random_in_use() = state;
    return WEFT_OK;
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

weft_status weft_random_state_create(const char *name, uint64_t seed)
{
    static const char function[] = "weft_random_state_create";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_random_state state = { .seed = seed };
    bool valid = check_new_name(function, name);
    if (!check_spmd(function, !valid, name, state)) {
        return weft_latest_status();
    }
    char *copy = malloc(strlen(name) + 1);
    weft_named_state *new =
        copy == NULL ? NULL : weft_vec_push(&weft_runtime.tensors->random_states, sizeof(*new));
    if (new == NULL) {
        free(copy);
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for a state");
    }
    *new = (weft_named_state){ strcpy(copy, name), state };
    return WEFT_OK;
}

weft_status weft_random_state_use(const char *name)
{
    static const char function[] = "weft_random_state_use";
    weft_named_state *found = check_state(function, name);
    if (!check_spmd(function, found == NULL, name, (weft_random_state){ 0 })) {
        return weft_latest_status();
    }
    weft_runtime.tensors->random_in_use =
        (size_t)(found - (weft_named_state *)weft_runtime.tensors->random_states.items);
    return WEFT_OK;
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

weft_status weft_random_state_set(const char *name, weft_random_state state)
{
    static const char function[] = "weft_random_state_set";
    weft_named_state *found = check_state(function, name);
    if (!check_spmd(function, found == NULL, name, state)) {
        return weft_latest_status();
    }
    found->state = state;
    return WEFT_OK;
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
