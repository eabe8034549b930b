/* Operations of the library whose rule or kernel the program has replaced. A replacement is an operation of its own, which
 * takes the original's place where a call is dispatched: caches are keyed by operation. Recorders see the
 * original. */
#include <stdlib.h>
#include <string.h>

#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "dispatch/description.h"
#include "dispatch/dispatch.h"
#include "runtime/codelets.h"
#include "sharding/halos.h"

/* Replacements in use. */
typedef struct replacement {
    const weft_operation *original;
    const weft_operation *operation; /* one of weft_runtime.registered: tasks name it until weft_finalize() */
} replacement;

static replacement *find(const weft_operation *original)
{
    replacement *all = weft_runtime.replaced.items;
    for (size_t i = 0; i < weft_runtime.replaced.count; i++) {
        if (all[i].original == original) {
            return &all[i];
        }
    }
    return NULL;
}

const weft_operation *weft_operation_in_use(const weft_operation *operation)
{
    const replacement *found = find(operation);
    return found == NULL ? operation : found->operation;
}

void weft_replacements_forget(void)
{
    weft_vec_free(&weft_runtime.replaced);
}

/* The next operation of the library with a name, after the first *number ones; NULL: there is none. Two may have one
 * name. */
static const weft_operation *next_named(const char *name, size_t *number)
{
    size_t k = 0;
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++, k++) {
            if (k >= *number && strcmp(weft_operation_families[f][i]->name, name) == 0) {
                *number = k + 1;
                return weft_operation_families[f][i];
            }
        }
    }
    return NULL;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

static int inputs_of(const weft_operation *operation)
{
    int count = 0;
    while (count < WEFT_MAX_INPUTS && operation->inputs[count].name != NULL) {
        count++;
    }
    return count;
}

static int outputs_of(const weft_operation *operation)
{
    return operation->num_outputs > 0 ? operation->num_outputs : 1;
}

/* Whether a rule can be that of an operation. False with the error kept. */
static bool check_rule(const char *function, const weft_operation_description *d,
                       const weft_operation *original)
{
    weft_rule rule;
    char why[200];
    if (weft_rule_parse(d->rule, &rule, why, sizeof(why)) != WEFT_OK) {
        weft_fail(WEFT_ERR_INVALID, function, "%s", why);
        return false;
    }
    int num_inputs = inputs_of(original), num_outputs = outputs_of(original);
    if (rule.num_inputs > num_inputs || rule.num_outputs != num_outputs) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "rule \"%s\" has %d inputs and %d outputs, and %s has at most %d and %d", d->rule,
                  rule.num_inputs, rule.num_outputs, original->name, num_inputs, num_outputs);
        return false;
    }
    for (int o = 0; o < num_outputs; o++) {
        if (!weft_check_linearity(function, o, &d->outputs[o].linear, rule.num_inputs)) {
            return false;
        }
        if (original->outputs[o].in_place &&
            (o >= rule.num_inputs || !weft_rule_same_dims(&rule.inputs[o], &rule.outputs[o]))) {
            weft_fail(WEFT_ERR_INVALID, function,
                      "rule \"%s\": output %d of %s is its input %d, changed, and has other dimensions",
                      d->rule, o, original->name, o);
            return false;
        }
    }
    return weft_check_halos(function, d, &rule);
}

/* False with the error kept. */
static bool check_replacement(const char *function, const weft_operation_description *d)
{
    size_t number = 0;
    const weft_operation *original = d == NULL || d->name == NULL ? NULL : next_named(d->name, &number);
    if (d == NULL || d->name == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", d == NULL ? "description" : "name");
        return false;
    }
    if (original == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "name is \"%s\", and weft has no such operation", d->name);
        return false;
    }
    if (d->kernel == NULL && d->rule == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "rule and kernel are both NULL");
        return false;
    }
    if (d->kernel == NULL && d->cuda != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "cuda is given, and no kernel");
        return false;
    }
    if (d->gradient != NULL || d->gradient_reads != 0) {
        weft_fail(WEFT_ERR_INVALID, function,
                  "gradient is given, but the gradients of built-in operations cannot be replaced");
        return false;
    }
    if (d->rule == NULL && weft_count_halos(d) > 0) {
        weft_fail(WEFT_ERR_INVALID, function, "halos are given, and no rule");
        return false;
    }
    bool has_rule = true;
    for (; original != NULL && has_rule; original = next_named(d->name, &number)) {
        has_rule = d->rule != NULL || original->rules[0] != NULL || original->write_rule != NULL;
        if (!has_rule) {
            weft_fail(WEFT_ERR_INVALID, function, "rule is NULL, and %s has none", d->name);
        } else if (d->kernel == NULL && original->rules[0] == NULL && original->write_rule == NULL) {
            weft_fail(WEFT_ERR_INVALID, function, "kernel is NULL, and %s has no rule that could be compared",
                      d->name);
            return false;
        } else if (d->rule != NULL && !check_rule(function, d, original)) {
            return false;
        }
    }
    return has_rule;
}

/* ---- replacing ----------------------------------------------------------------------------------------- */

static void set_rule(weft_operation *operation, const weft_operation_description *d, const char *rule)
{
    for (int i = 0; i < WEFT_MAX_RULES; i++) {
        operation->rules[i] = rule; /* calls that would take another one of the original's take it too */
    }
    operation->write_rule = NULL;
    operation->choose = NULL;
    operation->numbers_are_shape = false;
    operation->joins = 0;
    for (int o = 0; o < outputs_of(operation); o++) {
        operation->outputs[o].linear = d->outputs[o].linear;
    }
    operation->num_halos = weft_count_halos(d);
    operation->halo = d->halo;
    operation->window = operation->num_halos > 0 ? weft_window_of_halo : NULL;
}

static void set_kernel(weft_operation *operation, const weft_operation_description *d, weft_kernel_id kernel)
{
    operation->kernel = kernel;
    operation->only_contiguous = d->rule == NULL;
    operation->accumulates = d->accumulates;
    operation->whole_pieces = false;
    operation->joins = 0;
    operation->lower = NULL;
    operation->expand = NULL;
    operation->expands = NULL;
    operation->overwrites = operation->places = operation->views = false;
    operation->first_row = NULL;
}

/* The operation, its halos and its rule in one piece of memory; NULL: there is none. */
static weft_operation *copy_of(const weft_operation *original, const weft_operation_description *d,
                               weft_kernel_id kernel)
{
    int num_halos = weft_count_halos(d);
    size_t fixed = sizeof(weft_operation) + (size_t)num_halos * sizeof(weft_operation_halo);
    size_t size = d->rule == NULL ? 0 : strlen(d->rule) + 1;
    weft_operation *operation = calloc(1, fixed + size);
    if (operation == NULL) {
        return NULL;
    }
    *operation = *original;
    operation->replaces = original;
    operation->keeps_kernel = d->kernel == NULL;
    if (d->rule != NULL) {
        weft_operation_halo *halos = (weft_operation_halo *)(operation + 1);
        char *rule = memcpy((char *)operation + fixed, d->rule, size);
        weft_halos_copy(d, halos);
        operation->halos = halos;
        set_rule(operation, d, rule);
    }
    if (d->kernel != NULL) {
        set_kernel(operation, d, kernel);
    }
    return operation;
}

/* Cached calls may contain calls of the operation. */
static void forget_calls(void)
{
    weft_lru_clear(&weft_runtime.call_cache);
}

static bool replace(const weft_operation *original, const weft_operation_description *d,
                    weft_kernel_id kernel)
{
    weft_operation *operation = copy_of(original, d, kernel);
    weft_operation **owned =
        operation == NULL ? NULL : weft_vec_push(&weft_runtime.registered, sizeof(*owned));
    if (owned == NULL) {
        free(operation);
        return false;
    }
    *owned = operation;
    replacement *slot = find(original);
    slot = slot == NULL ? weft_vec_push(&weft_runtime.replaced, sizeof(*slot)) : slot;
    if (slot != NULL) {
        *slot = (replacement){ .original = original, .operation = operation };
    }
    forget_calls();
    return slot != NULL;
}

static void put_back(const weft_operation *original)
{
    replacement *slot = find(original);
    if (slot != NULL) {
        const replacement *all = weft_runtime.replaced.items;
        *slot = all[--weft_runtime.replaced.count];
        forget_calls();
    }
}

weft_status weft_operation_replace(const weft_operation_description *given)
{
    static const char function[] = "weft_operation_replace";
    weft_operation_description d;
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_deferral_finish_implicit(function); /* its calls are those of what is replaced */
    bool taken = given == NULL || WEFT_TAKE_OPTIONS(function, &d, given);
    bool valid = taken && check_replacement(function, given == NULL ? NULL : &d);
    if (!weft_check_spmd_named(function, valid ? d.name : NULL, valid ? weft_description_fingerprint(&d) : 0, valid)) {
        return weft_latest_status();
    }
    weft_kernel_id kernel = d.kernel == NULL ? WEFT_KERNEL_NONE : weft_codelet_register(d.name, d.kernel, d.cuda, false);
    bool done = d.kernel == NULL || kernel != WEFT_KERNEL_NONE;
    size_t number = 0;
    for (const weft_operation *next = next_named(d.name, &number); next != NULL && done;
         next = next_named(d.name, &number)) {
        done = replace(next, &d, kernel);
    }
    weft_note_change(function, true);
    return done ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, function, "no memory for an operation");
}

weft_status weft_operation_restore(const char *name)
{
    static const char function[] = "weft_operation_restore";
    if (weft_require_init(function) != WEFT_OK) {
        return weft_latest_status();
    }
    weft_deferral_finish_implicit(function); /* its calls are those of what is replaced */
    size_t number = 0;
    const weft_operation *original = name == NULL ? NULL : next_named(name, &number);
    if (original == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "name is %s%s%s", name == NULL ? "NULL" : "\"",
                  name == NULL ? "" : name, name == NULL ? "" : "\", and weft has no such operation");
    }
    if (!weft_check_spmd_named(function, name, original == NULL ? 0 : weft_hash_bytes(name, strlen(name), 1),
                               original != NULL)) {
        return weft_latest_status();
    }
    size_t before = weft_runtime.replaced.count;
    for (; original != NULL; original = next_named(name, &number)) {
        put_back(original);
    }
    weft_deferral_note(function);
    if (weft_runtime.replaced.count != before) {
        weft_note_change(function, true);
    }
    return WEFT_OK;
}
