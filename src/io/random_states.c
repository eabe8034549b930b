#include "io/random_states.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "tensor/state.h"

static const char CURRENT[] = "weft.random.current", PREFIX[] = "weft.random:";

static bool no_memory(const char *function)
{
    weft_fail(WEFT_ERR_NOMEM, function, "no memory for the random states");
    return false;
}

static bool add_state(const char *function, weft_file_header *header, const weft_named_state *state)
{
    const char *name = state->name == NULL ? "" : state->name;
    if (!weft_is_utf8(name)) {
        weft_fail(WEFT_ERR_INVALID, function, "options->random_states: the name of a state is not UTF-8");
        return false;
    }
    weft_text key = weft_text_growing();
    char value[64];
    weft_text_add(&key, "%s%s", PREFIX, name);
    snprintf(value, sizeof(value), "%" PRIu64 " %" PRIu64, state->state.seed, state->state.offset);
    bool done = !key.failed && weft_file_add_entry(header, key.characters, value);
    weft_text_free(&key);
    return done || no_memory(function);
}

bool weft_add_random_states(const char *function, weft_file_header *header)
{
    const weft_tensors *tensors = weft_runtime.tensors;
    const weft_named_state *states = tensors->random_states.items;
    bool done = true;
    for (size_t i = 0; i < tensors->random_states.count && done; i++) {
        done = add_state(function, header, &states[i]);
    }
    const char *current = states[tensors->random_in_use].name;
    return done && (weft_file_add_entry(header, CURRENT, current == NULL ? "" : current) || no_memory(function));
}

/* ---- back -------------------------------------------------------------------------------------------------- */

static bool read_state(const char *value, weft_random_state *state)
{
    char more;
    return value[0] >= '0' && value[0] <= '9' &&
           sscanf(value, "%" SCNu64 " %" SCNu64 "%c", &state->seed, &state->offset, &more) == 2;
}

static bool is_known(const char *name)
{
    const weft_named_state *states = weft_runtime.tensors->random_states.items;
    for (size_t i = 1; i < weft_runtime.tensors->random_states.count; i++) {
        if (strcmp(states[i].name, name) == 0) {
            return true;
        }
    }
    return name[0] == '\0';
}

/* All entries are right, and the current state is one of them. */
static weft_status check_states(const char *function, const weft_file_header *header)
{
    const char *current = weft_file_metadata(header, CURRENT);
    if (current == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "the file has no states of random numbers");
    }
    const weft_file_entry *entries = header->metadata.items;
    bool has_current = false;
    for (size_t i = 0; i < header->metadata.count; i++) {
        weft_random_state state;
        if (strncmp(entries[i].key, PREFIX, strlen(PREFIX)) == 0) {
            has_current |= strcmp(entries[i].key + strlen(PREFIX), current) == 0;
            if (!read_state(entries[i].value, &state)) {
                return weft_fail(WEFT_ERR_IO, function, "%.80s is \"%.40s\", which is not a saved state", entries[i].key,
                                 entries[i].value);
            }
        }
    }
    return has_current ? WEFT_OK : weft_fail(WEFT_ERR_IO, function, "the file has no state \"%.80s\"", current);
}

weft_status weft_set_random_states(const char *function, const weft_file_header *header)
{
    weft_status status = check_states(function, header);
    const weft_file_entry *entries = header->metadata.items;
    for (size_t i = 0; i < header->metadata.count && status == WEFT_OK; i++) {
        const char *name = entries[i].key + strlen(PREFIX);
        weft_random_state state;
        if (strncmp(entries[i].key, PREFIX, strlen(PREFIX)) != 0 || !read_state(entries[i].value, &state)) {
            continue;
        }
        status = is_known(name) ? WEFT_OK : weft_random_state_create(name, state.seed);
        status = status == WEFT_OK ? weft_random_state_set(name[0] == '\0' ? NULL : name, state) : status;
    }
    const char *current = weft_file_metadata(header, CURRENT);
    return status == WEFT_OK ? weft_random_state_use(current[0] == '\0' ? NULL : current) : status;
}
