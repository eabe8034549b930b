/* Names of operations and actions in files. */
#include <string.h>

#include "autograd/tape.h"
#include "dispatch/dispatch.h"
#include "graph/save/saved.h"
#include "tensor/actions.h"

/* Actions that are recorded. */
static const weft_operation *const actions[] = { &weft_action_redistribute, &weft_action_full, &weft_action_empty, &weft_action_gather,
                                                 &weft_action_to_layout };

bool weft_saved_name_of(const weft_call *call, weft_saved_name *found)
{
    *found = (weft_saved_name){ .name = call->operation->name };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(actions); i++) {
        if (actions[i] == call->operation) {
            return true;
        }
    }
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++) {
            const weft_operation *operation = weft_operation_families[f][i];
            if (weft_operation_is(call->operation, operation)) {
                return true;
            }
            found->number += strcmp(operation->name, found->name) == 0;
        }
    }
    return false;
}

static bool is_named(const char *whole, const char *name, size_t length)
{
    return strlen(whole) == length && memcmp(whole, name, length) == 0;
}

bool weft_saved_name_find(const char *name, size_t length, size_t number, weft_call *call)
{
    call->operation = NULL;
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++) {
            const weft_operation *operation = weft_operation_families[f][i];
            if (is_named(operation->name, name, length) && number-- == 0) {
                call->operation = operation;
                return true;
            }
        }
    }
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(actions); i++) {
        if (is_named(actions[i]->name, name, length) && number == 0) {
            call->operation = actions[i];
        }
    }
    return call->operation != NULL;
}
