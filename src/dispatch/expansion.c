/* Expansion of composites, and its cache. */
#include "dispatch/expansion.h"

#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "dispatch/cache.h"
#include "tensor/regions.h"

/* ---- steps --------------------------------------------------------------------------------------------- */

/* Collects the calls of a body. */
typedef struct collector {
    weft_steps steps;
    weft_expansion *expansion;
} collector;

/* False with the error kept: no memory. */
static bool add_layout(const char *function, weft_expansion *expansion, const weft_layout *layout)
{
    const weft_layout **place = weft_vec_push(&expansion->layouts, sizeof(*place));
    if (place == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for its calls");
        return false;
    }
    *place = layout;
    expansion->bytes += sizeof(*place);
    return true;
}

/* The number of a tensor without data; a new one gets the next number. -1 with the error kept: no memory. */
static int number_of(const char *function, weft_expansion *expansion, const weft_tensor *handle)
{
    weft_tensor_impl *tensor = weft_tensor_get(handle);
    if (tensor->number == 0) {
        if (!add_layout(function, expansion, tensor->layout)) {
            return -1;
        }
        tensor->number = ++expansion->num_tensors;
    }
    return tensor->number - 1;
}

static bool add_step(weft_steps *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    weft_expansion *expansion = ((collector *)self)->expansion;
    size_t bytes = 0;
    weft_call *copy = weft_call_copy(call, &bytes);
    weft_step *step = copy == NULL ? NULL : weft_vec_push(&expansion->steps, sizeof(*step));
    if (step == NULL) {
        free(copy);
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for its calls");
        return false;
    }
    *step = (weft_step){ .call = copy, .num_outputs = num_outputs };
    copy->inherited &= self->inherited;
    bool done = true;
    for (int i = 0; i < call->num_inputs; i++) {
        step->inputs[i] = number_of(call->function, expansion, call->inputs[i]);
        done = done && step->inputs[i] >= 0;
    }
    for (int i = 0; i < num_outputs; i++) {
        step->outputs[i] = number_of(call->function, expansion, outputs[i]);
        done = done && step->outputs[i] >= 0;
    }
    expansion->bytes += sizeof(*step) + bytes;
    return done;
}

bool weft_step_changes_alone(const weft_step *step)
{
    const weft_operation *operation = step->call->operation;
    bool alone = !weft_call_is_action(step->call) && step->num_outputs > 0;
    for (int i = 0; i < step->num_outputs && alone; i++) {
        alone = operation->outputs[i].in_place;
    }
    return alone;
}

static weft_step *steps_of(const weft_expansion *expansion)
{
    return expansion->steps.items;
}

/* Whether no later step uses the tensor; marks it in `used`. */
static bool is_last(bool used[], int number)
{
    bool last = !used[number];
    used[number] = true;
    return last;
}

/* Goes from the last step to the first. False with the error kept. */
static bool find_last_uses(const char *function, weft_expansion *expansion)
{
    bool *used = calloc((size_t)expansion->num_tensors + 1, sizeof(*used));
    if (used == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for its calls");
        return false;
    }
    memset(used, true, (size_t)expansion->num_inputs * sizeof(*used)); /* inputs belong to the caller */
    for (int i = 0; i < expansion->num_outputs; i++) {
        if (expansion->outputs[i] >= 0) {
            used[expansion->outputs[i]] = true;
        }
    }
    for (size_t s = expansion->steps.count; s-- > 0;) {
        weft_step *step = &steps_of(expansion)[s];
        for (int i = 0; i < step->num_outputs; i++) {
            step->last_outputs |= (unsigned)is_last(used, step->outputs[i]) << i;
        }
        for (int i = 0; i < step->call->num_inputs; i++) {
            step->last_inputs |= (unsigned)is_last(used, step->inputs[i]) << i;
        }
    }
    free(used);
    return true;
}

/* Whether two steps that change tensors in place follow each other. */
static bool may_join(const weft_expansion *expansion)
{
    bool may = false, before = false;
    for (size_t s = 0; s < expansion->steps.count && !may; s++) {
        bool now = weft_step_changes_alone(&steps_of(expansion)[s]);
        may = before && now;
        before = now;
    }
    return may;
}

static void destroy(weft_lru_entry *entry)
{
    weft_expansion *expansion = (weft_expansion *)entry;
    if (expansion->joined != NULL) {
        weft_expansions_joining()->free(expansion->joined);
    }
    weft_vec_free(&expansion->layouts);
    for (size_t i = 0; i < expansion->steps.count; i++) {
        free(steps_of(expansion)[i].call);
    }
    weft_vec_free(&expansion->steps);
    free(expansion->outputs);
    free(expansion->key);
    free(expansion);
}

void weft_expansion_release(weft_expansion *expansion)
{
    if (expansion != NULL) {
        weft_lru_release(&expansion->entry);
    }
}

/* ---- expanding ----------------------------------------------------------------------------------------- */

/* The call on tensors without data of the same layouts; equal inputs stay equal. */
static bool make_fakes(const weft_call *call, weft_expansion *expansion, weft_tensor_impl *const inputs[],
                       weft_tensor *fakes[])
{
    for (int i = 0; i < expansion->num_inputs; i++) {
        fakes[i] = NULL;
        for (int k = 0; k < i && fakes[i] == NULL && expansion->num_inputs <= WEFT_MAX_INPUTS; k++) {
            fakes[i] = inputs[k] == inputs[i] ? fakes[k] : NULL;
        }
        if (fakes[i] == NULL) {
            fakes[i] = weft_tensor_handle(weft_tensor_fake(call->function, inputs[i]->layout));
        }
        if (fakes[i] == NULL || !add_layout(call->function, expansion, inputs[i]->layout)) {
            return false;
        }
        if (weft_tensor_get(fakes[i])->number == 0) {
            weft_tensor_get(fakes[i])->number = i + 1;
        }
    }
    return true;
}

/* The scope is open. */
static bool carry_body_out(const weft_call *call, weft_expansion *expansion, weft_tensor *fakes[], weft_tensor *outputs[])
{
    collector c = { .steps = { .inherited = ~0u, .add = add_step }, .expansion = expansion };
    weft_own_call own;
    const weft_context outer = weft_context_enter(weft_context_collecting(&c.steps));
    bool done = weft_composite_body(weft_call_on(&own, call, fakes), outputs);
    weft_context_leave(outer);
    for (int i = 0; i < expansion->num_outputs && done; i++) {
        expansion->outputs[i] = outputs[i] == NULL ? -1 : number_of(call->function, expansion, outputs[i]);
        done = outputs[i] == NULL || expansion->outputs[i] >= 0;
    }
    return done;
}

/* Held, and not kept. NULL with the error kept. */
static weft_expansion *expand(const weft_call *call, weft_tensor_impl *const inputs[])
{
    if (!weft_composite_accepts(call, inputs)) {
        return NULL;
    }
    weft_expansion *expansion = calloc(1, sizeof(*expansion));
    int num_inputs = weft_call_num_tensors(call), num_outputs = weft_call_num_outputs(call);
    weft_tensor **tensors = calloc((size_t)(num_inputs + num_outputs) + 1, sizeof(weft_tensor *));
    int *numbers = calloc((size_t)num_outputs + 1, sizeof(*numbers));
    if (expansion == NULL || tensors == NULL || numbers == NULL) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for its calls");
        free(expansion);
        free(tensors);
        free(numbers);
        return NULL;
    }
    expansion->entry.destroy = destroy;
    weft_lru_hold(&expansion->entry);
    expansion->num_inputs = expansion->num_tensors = num_inputs;
    expansion->num_outputs = num_outputs;
    expansion->outputs = numbers;
    expansion->bytes = sizeof(*expansion) + (size_t)num_outputs * sizeof(*numbers);
    weft_scope_begin();
    bool done = make_fakes(call, expansion, inputs, tensors) &&
                carry_body_out(call, expansion, tensors, tensors + num_inputs) &&
                find_last_uses(call->function, expansion);
    expansion->may_join = done && may_join(expansion);
    weft_scope_end_own();
    free(tensors);
    if (!done) {
        weft_expansion_release(expansion);
    }
    return done ? expansion : NULL;
}

/* ---- what it is made from ------------------------------------------------------------------------------ */

enum { MAX_WORDS = 96 };

/* Where the layout of the details is in a key. */
enum { KEY_LAYOUT = 5 };

/* Words of a key: in `own` if they fit. */
typedef struct key {
    uint64_t own[MAX_WORDS], *words;
    size_t count;
} key;

static void add_word(key *k, uint64_t word)
{
    k->words[k->count++] = word;
}

static void add_words(key *k, const void *words, size_t count)
{
    if (count > 0) { /* words may be NULL without elements */
        memcpy(k->words + k->count, words, count * sizeof(uint64_t));
    }
    k->count += count;
}

/* The number of the first input that is the same tensor. In long lists each stands for itself: their
 * bodies do not ask. */
static uint64_t first_same(weft_tensor_impl *const inputs[], int num_inputs, int i)
{
    int first = num_inputs <= WEFT_MAX_INPUTS ? 0 : i;
    while (first < i && inputs[first] != inputs[i]) {
        first++;
    }
    return (uint64_t)first;
}

/* False: no memory. */
static bool make_key(key *k, const weft_call *call, weft_tensor_impl *const inputs[])
{
    static const weft_call_details none = { 0 };
    const weft_call_details *details = call->details == NULL ? &none : call->details;
    const weft_attributes *attributes = &call->attributes;
    int num_inputs = weft_call_num_tensors(call);
    size_t most = 24 + 2 * (size_t)num_inputs + WEFT_MAX_SIZES + WEFT_MAX_ATTRIBUTES + WEFT_MAX_SCALARS +
                  (size_t)details->num_numbers;
    k->count = 0;
    k->words = most <= MAX_WORDS ? k->own : malloc(most * sizeof(uint64_t));
    if (k->words == NULL) {
        return false;
    }
    add_word(k, (uint64_t)(uintptr_t)call->operation);
    add_word(k, (uint64_t)(uintptr_t)call->function); /* error messages of its calls contain it */
    add_word(k, weft_runtime.implicit_replications > 0);
    add_word(k, (uint64_t)num_inputs);
    add_word(k, (uint64_t)weft_call_num_outputs(call));
    add_word(k, (uint64_t)(uintptr_t)details->layout);
    for (int i = 0; i < num_inputs; i++) {
        add_word(k, (uint64_t)(uintptr_t)inputs[i]->layout);
        add_word(k, first_same(inputs, num_inputs, i));
    }
    add_word(k, (uint64_t)attributes->rule);
    add_word(k, (uint64_t)attributes->leading);
    add_word(k, (uint64_t)attributes->type);
    add_word(k, (uint64_t)attributes->omitted);
    add_word(k, (uint64_t)attributes->wish);
    add_word(k, (uint64_t)attributes->num_sizes);
    add_words(k, attributes->sizes, (size_t)attributes->num_sizes);
    add_word(k, (uint64_t)attributes->num_numbers);
    add_words(k, attributes->numbers, (size_t)attributes->num_numbers);
    if (!call->operation->passes_scalars) {
        add_words(k, call->scalars, WEFT_MAX_SCALARS);
    }
    add_word(k, (uint64_t)details->num_numbers);
    add_words(k, details->numbers, (size_t)details->num_numbers);
    return true;
}

static void free_key(key *k)
{
    if (k->words != k->own) {
        free(k->words);
    }
}

/* ---- those that are kept ------------------------------------------------------------------------------- */

static weft_expansion *find(const weft_map *kept, const key *k, uint64_t hash)
{
    for (weft_map_slot *slot = weft_map_first(kept, hash); slot != NULL; slot = weft_map_next(kept, slot)) {
        weft_expansion *found = slot->value;
        if (found->num_words == k->count && memcmp(found->key, k->words, k->count * sizeof(uint64_t)) == 0) {
            weft_lru_hold(&found->entry);
            return found;
        }
    }
    return NULL;
}

/* Caches the expansion if the budget allows; without memory for the key it is not cached. */
static void keep(weft_map *kept, weft_expansion *expansion, const key *k, uint64_t hash)
{
    size_t key_bytes = k->count * sizeof(uint64_t);
    expansion->key = malloc(key_bytes);
    if (expansion->key != NULL) {
        memcpy(expansion->key, k->words, key_bytes);
        expansion->num_words = k->count;
        expansion->bytes += key_bytes;
        weft_lru_keep(&weft_runtime.call_cache, kept, hash, &expansion->entry, expansion->bytes);
    }
}

void weft_expansion_meet_layouts(const weft_expansion *expansion)
{
    weft_meet_layout((const weft_layout *)(uintptr_t)expansion->key[KEY_LAYOUT]);
    for (size_t i = 0; i < expansion->layouts.count; i++) {
        weft_meet_layout(((const weft_layout *const *)expansion->layouts.items)[i]);
    }
    for (size_t i = 0; i < expansion->steps.count; i++) {
        weft_call_meet_layouts(steps_of(expansion)[i].call);
    }
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

static bool same_call(const weft_call *a, const weft_call *b)
{
    bool same = a->operation == b->operation && a->num_inputs == b->num_inputs &&
                memcmp(&a->attributes, &b->attributes, sizeof(a->attributes)) == 0 && a->inherited == b->inherited;
    for (int i = 0; i < WEFT_MAX_SCALARS && same; i++) {
        same = (a->inherited >> i & 1) || memcmp(&a->scalars[i], &b->scalars[i], sizeof(a->scalars[i])) == 0;
    }
    for (int i = 0; i < a->num_inputs && same; i++) {
        same = (a->access_map[i] == NULL) == (b->access_map[i] == NULL) &&
               (a->access_map[i] == NULL || weft_access_map_equal(a->access_map[i], b->access_map[i]));
    }
    return same && (a->details == NULL) == (b->details == NULL) &&
           (a->details == NULL || a->details->layout == b->details->layout);
}

bool weft_expansion_equal(const weft_expansion *a, const weft_expansion *b)
{
    bool same = a->num_tensors == b->num_tensors && a->steps.count == b->steps.count &&
                a->num_outputs == b->num_outputs &&
                memcmp(a->outputs, b->outputs, (size_t)a->num_outputs * sizeof(a->outputs[0])) == 0;
    for (size_t i = 0; i < a->steps.count && same; i++) {
        const weft_step *one = &steps_of(a)[i], *other = &steps_of(b)[i];
        same = same_call(one->call, other->call) && one->num_outputs == other->num_outputs &&
               memcmp(one->inputs, other->inputs, (size_t)one->call->num_inputs * sizeof(one->inputs[0])) == 0 &&
               memcmp(one->outputs, other->outputs, (size_t)one->num_outputs * sizeof(one->outputs[0])) == 0;
    }
    return same;
}

/* Whether the body makes the same calls as before. False with the error kept. */
static bool check_kept(const weft_call *call, weft_tensor_impl *const inputs[], const weft_expansion *kept)
{
    weft_expansion *now = expand(call, inputs);
    bool same = now != NULL && weft_expansion_equal(now, kept);
    if (now != NULL && !same) {
        weft_fail_alone(WEFT_ERR_STATE, call->function, "the cached calls of %s differ from those that it makes now",
                        call->operation->name);
    }
    weft_expansion_release(now);
    return same;
}

weft_expansion *weft_expansion_obtain(const weft_call *call, weft_tensor_impl *const inputs[])
{
    key k;
    bool keeps = !weft_forced()->active && !weft_is_strict() && weft_runtime.task_cache != WEFT_TASK_CACHE_OFF &&
                 make_key(&k, call, inputs);
    if (!keeps) {
        return expand(call, inputs);
    }
    weft_map *kept = weft_expansions_kept();
    uint64_t hash = weft_hash_bytes(k.words, k.count * sizeof(uint64_t), 0);
    weft_expansion *expansion = find(kept, &k, hash);
    if (expansion == NULL) {
        weft_runtime.counters.expansion_misses++;
        expansion = expand(call, inputs);
        if (expansion != NULL) {
            keep(kept, expansion, &k, hash);
        }
    } else {
        weft_runtime.counters.expansion_hits++;
        if (weft_runtime.task_cache == WEFT_TASK_CACHE_CHECK && !check_kept(call, inputs, expansion)) {
            weft_expansion_release(expansion);
            expansion = NULL;
        }
    }
    free_key(&k);
    return expansion;
}

bool weft_expansion_join(const char *function, weft_expansion *expansion)
{
    if (!expansion->may_join || expansion->entry.lru == NULL || expansion->joined != NULL) {
        return true;
    }
    const weft_joining *joining = weft_expansions_joining();
    size_t bytes;
    weft_joined *joined = joining->make(function, expansion, &bytes);
    if (joined != NULL && weft_lru_grow(&expansion->entry, bytes)) {
        expansion->joined = joined;
        expansion->bytes += bytes;
    } else if (joined != NULL) { /* no room: not tried again */
        joining->free(joined);
        expansion->may_join = false;
    }
    return joined != NULL;
}

/* ---- as text ------------------------------------------------------------------------------------------- */

void weft_expansion_print(const weft_expansion *expansion, FILE *file)
{
    for (size_t s = 0; s < expansion->steps.count; s++) {
        const weft_step *step = &steps_of(expansion)[s];
        const weft_call *call = step->call;
        fprintf(file, "  ");
        for (int i = 0; i < step->num_outputs; i++) {
            fprintf(file, "%s%%%d", i > 0 ? ", " : "", step->outputs[i]);
        }
        fprintf(file, "%s%s(", step->num_outputs > 0 ? " = " : "",
                call->operation->name);
        for (int i = 0; i < call->num_inputs; i++) {
            fprintf(file, "%s%%%d", i > 0 ? ", " : "", step->inputs[i]);
        }
        char text[160];
        const weft_layout *layout = call->details == NULL ? NULL : call->details->layout;
        fprintf(file, ")%s%s\n", layout == NULL ? "" : " ",
                layout == NULL ? "" : weft_layout_format(layout, text, sizeof(text)));
    }
}
