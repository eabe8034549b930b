/* All processes exchange their boxes, once, and come to the same plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/boxes.h"
#include "comm/check_spmd.h"

enum { MOST_PLANS = 64 };

/* ---- plans that are kept ------------------------------------------------------------------------------- */

static void plan_free(weft_box_plan *plan)
{
    if (plan != NULL) {
        weft_exchange_free(plan->exchange);
        free(plan->set.boxes);
        free(plan->strides);
        free(plan->in_place);
        weft_box_places_free(&plan->places);
        free(plan);
    }
}

weft_status weft_arrays_start(void)
{
    weft_runtime.arrays = calloc(1, sizeof(weft_arrays));
    return weft_runtime.arrays != NULL ? WEFT_OK : weft_fail(WEFT_ERR_NOMEM, "weft_init", "no memory for the state of boxes");
}

void weft_arrays_stop(void)
{
    if (weft_runtime.arrays == NULL) {
        return;
    }
    weft_sparse_stop();
    weft_index_lists_stop();
    weft_vec *plans = &weft_runtime.arrays->box_plans;
    for (size_t i = 0; i < plans->count; i++) {
        plan_free(((weft_box_plan **)plans->items)[i]);
    }
    weft_vec_free(plans);
    if (weft_runtime.arrays->sees_calls) {
        weft_interposer_remove(&weft_runtime.arrays->ghosts);
    }
    free(weft_runtime.arrays);
    weft_runtime.arrays = NULL;
}

void weft_arrays_meet_layouts(void)
{
    weft_index_lists_meet_layouts();
    const weft_vec *plans = &weft_runtime.arrays->box_plans;
    for (size_t i = 0; i < plans->count; i++) {
        const weft_box_plan *plan = ((weft_box_plan **)plans->items)[i];
        weft_meet_layout(plan->layout);
        if (plan->exchange != NULL) {
            weft_meet_layout(plan->exchange->stage.from);
            weft_meet_layout(plan->exchange->stage.to);
        }
    }
}

static weft_owned_box own_box(const weft_boxes *given, int ndim, int number)
{
    int64_t strides[WEFT_MAX_DIMS];
    weft_owned_box own = { .process = weft_runtime.process, .number = number };
    if (weft_box_is_empty(ndim, &given->items[number].box)) { /* wherever the program says that it lies */
        own.contiguous = true;
        return own;
    }
    memcpy(own.box.offset, given->items[number].box.offset, (size_t)ndim * sizeof(int64_t));
    memcpy(own.box.extent, given->items[number].box.extent, (size_t)ndim * sizeof(int64_t));
    weft_subarray_strides(&given->items[number], ndim, strides);
    own.slowest = weft_strides_slowest(ndim, own.box.extent, strides);
    own.contiguous = weft_strides_are_row_major(ndim, own.box.extent, strides);
    return own;
}

static bool has_boxes(const weft_box_plan *plan, const weft_boxes *given)
{
    bool same = plan->num_own == given->count;
    for (int i = 0; i < plan->num_own && same; i++) {
        weft_owned_box own = own_box(given, plan->set.ndim, i);
        const weft_owned_box *kept = &plan->set.boxes[plan->first_own + i];
        same = weft_box_equal(plan->set.ndim, &own.box, &kept->box) && own.slowest == kept->slowest &&
               own.contiguous == kept->contiguous;
    }
    return same;
}

/* By this process's boxes: the plan used last, if there are several. */
static weft_box_plan *find(const weft_boxes *given, const weft_layout *layout, bool into_tensor)
{
    const weft_vec *plans = &weft_runtime.arrays->box_plans;
    weft_box_plan *found = NULL;
    for (size_t i = 0; i < plans->count; i++) {
        weft_box_plan *plan = ((weft_box_plan **)plans->items)[i];
        if (plan->layout == layout && plan->into_tensor == into_tensor && (found == NULL || plan->last_use > found->last_use) &&
            has_boxes(plan, given)) {
            found = plan;
        }
    }
    return found;
}

/* Whether `count` boxes that follow each other are equal, and of the same processes. */
static bool same_boxes(int ndim, int64_t count, const weft_owned_box *a, const weft_owned_box *b)
{
    bool same = true;
    for (int64_t i = 0; i < count && same; i++) {
        same = a[i].process == b[i].process && weft_box_equal(ndim, &a[i].box, &b[i].box) &&
               a[i].slowest == b[i].slowest && a[i].contiguous == b[i].contiguous;
    }
    return same;
}

/* The number of boxes of a process, which begin at *first; they stand in the order of processes. */
static int64_t boxes_of(const weft_box_set *set, int process, int64_t *first)
{
    int64_t end = *first;
    while (end < set->count && set->boxes[end].process == process) {
        end++;
    }
    return end - *first;
}

/* Whether some process has the same boxes in both sets, or none. */
static bool look_alike(const weft_box_set *a, const weft_box_set *b)
{
    bool alike = false;
    int64_t in_a = 0, in_b = 0;
    for (int p = 0; p < weft_runtime.num_processes && !alike; p++) {
        int64_t count = boxes_of(a, p, &in_a), other = boxes_of(b, p, &in_b);
        alike = count == other && same_boxes(a->ndim, count, a->boxes + in_a, b->boxes + in_b);
        in_a += count;
        in_b += other;
    }
    return alike;
}

/* Compares a new plan with the kept ones: returns the plan of the same boxes; NULL: there is none. */
static weft_box_plan *compare_with_kept(weft_box_plan *plan)
{
    const weft_vec *plans = &weft_runtime.arrays->box_plans;
    for (size_t i = 0; i < plans->count; i++) {
        weft_box_plan *kept = ((weft_box_plan **)plans->items)[i];
        if (kept->layout != plan->layout || kept->into_tensor != plan->into_tensor) {
            continue;
        }
        if (kept->set.count == plan->set.count &&
            same_boxes(plan->set.ndim, plan->set.count, kept->set.boxes, plan->set.boxes)) {
            return kept;
        }
        if (look_alike(&kept->set, &plan->set)) {
            kept->ambiguous = plan->ambiguous = true;
        }
    }
    return NULL;
}

/* The plan used longest ago makes room. False with the error kept. */
static bool keep(const char *function, weft_box_plan *plan)
{
    weft_vec *plans = &weft_runtime.arrays->box_plans;
    weft_box_plan **all = plans->items;
    if (plans->count < MOST_PLANS) {
        all = weft_vec_push(plans, sizeof(weft_box_plan *));
        if (all == NULL) {
            weft_fail(WEFT_ERR_NOMEM, function, "no memory for a plan");
            return false;
        }
    } else {
        size_t oldest = 0;
        for (size_t i = 1; i < plans->count; i++) {
            oldest = all[i]->last_use < all[oldest]->last_use ? i : oldest;
        }
        all += oldest;
        plan_free(*all);
    }
    *all = plan;
    return true;
}

/* ---- the exchange -------------------------------------------------------------------------------------- */

/* Numbers of a process: whether it is right, its layout, how many boxes; then, by box, offsets, extents, memory. */
enum { NUM_BOXES = WEFT_NUMBERS_OWN, NUM_FIRST };

/* All processes' numbers, `count` of each; NULL with the error kept. */
static int64_t *gather(const char *function, int count, const int64_t mine[])
{
    int64_t *all = malloc((size_t)count * (size_t)weft_runtime.num_processes * sizeof(*all));
    if (all == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for the boxes of all processes");
    } else if (!weft_numbers_gather(function, count, mine, all)) {
        free(all);
        all = NULL;
    }
    return all;
}

static void describe(const weft_owned_box *own, int ndim, int64_t numbers[])
{
    memcpy(numbers, own->box.offset, (size_t)ndim * sizeof(*numbers));
    memcpy(numbers + ndim, own->box.extent, (size_t)ndim * sizeof(*numbers));
    numbers[2 * ndim] = own->slowest * 2 + own->contiguous;
}

static weft_owned_box described(int ndim, const int64_t numbers[], int process, int number)
{
    weft_owned_box box = { .process = process, .number = number };
    memcpy(box.box.offset, numbers, (size_t)ndim * sizeof(*numbers));
    memcpy(box.box.extent, numbers + ndim, (size_t)ndim * sizeof(*numbers));
    box.slowest = (int)(numbers[2 * ndim] / 2);
    box.contiguous = numbers[2 * ndim] % 2 != 0;
    return box;
}

/* counts[p * NUM_FIRST + NUM_BOXES]: the number of boxes of process p. False with the error kept. */
static bool exchange_boxes(const weft_boxes *given, weft_box_plan *plan, const int64_t counts[])
{
    int ndim = plan->set.ndim, words = 2 * ndim + 1;
    int64_t most = 0;
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        int64_t count = counts[p * NUM_FIRST + NUM_BOXES];
        plan->first_own = p == weft_runtime.process ? plan->set.count : plan->first_own;
        plan->set.count += count;
        most = weft_max_i64(most, count);
    }
    if (weft_mul_saturated(most, words) > INT32_MAX) {
        weft_fail(WEFT_ERR_UNSUPPORTED, given->function, "a process gave %lld boxes, more than can be exchanged",
                  (long long)most);
        return false;
    }
    int64_t *mine = calloc((size_t)most * (size_t)words + 1, sizeof(*mine));
    plan->set.boxes = calloc((size_t)plan->set.count + 1, sizeof(*plan->set.boxes));
    if (mine == NULL || plan->set.boxes == NULL) {
        free(mine);
        weft_fail(WEFT_ERR_NOMEM, given->function, "no memory for the boxes of all processes");
        return false;
    }
    for (int i = 0; i < given->count; i++) {
        weft_owned_box own = own_box(given, ndim, i);
        describe(&own, ndim, mine + (ptrdiff_t)i * words);
    }
    int64_t *all = most == 0 ? mine : gather(given->function, (int)most * words, mine), next = 0;
    for (int p = 0; p < weft_runtime.num_processes && all != NULL; p++) {
        for (int64_t i = 0; i < counts[p * NUM_FIRST + NUM_BOXES]; i++) {
            plan->set.boxes[next++] = described(ndim, all + (p * most + i) * words, p, (int)i);
        }
    }
    bool done = all != NULL;
    if (all != mine) {
        free(all);
    }
    free(mine);
    return done;
}

/* ---- the same answer on every process ------------------------------------------------------------------ */

static void add_box(weft_text *text, int ndim, const weft_box *box)
{
    weft_text_add(text, "[");
    for (int d = 0; d < ndim; d++) {
        weft_text_add(text, "%s%lld:%lld", d > 0 ? ", " : "", (long long)box->offset[d],
                      (long long)(box->offset[d] + box->extent[d]));
    }
    weft_text_add(text, "]");
}

static void add_owned(weft_text *text, const weft_box_set *set, int64_t position)
{
    char name[64];
    const weft_owned_box *owned = &set->boxes[position];
    weft_text_add(text, "box %d of %s, ", owned->number, weft_process_text(owned->process, name, sizeof(name)));
    add_box(text, set->ndim, &owned->box);
}

/* The box with an end nearest before a gap along some dimension is no help where there are none: the neighbours are the
 * boxes that touch it. */
static void add_neighbours(weft_text *text, const weft_box_set *set, const weft_box *gap)
{
    int named = 0;
    weft_box around = *gap;
    for (int d = 0; d < set->ndim; d++) {
        around.offset[d]--;
        around.extent[d] += 2;
    }
    for (int64_t i = 0; i < set->count && named < 2; i++) {
        weft_box common;
        if (weft_box_intersect(set->ndim, &around, &set->boxes[i].box, &common)) {
            weft_text_add(text, "%s", named++ == 0 ? "; beside it " : ", and ");
            add_owned(text, set, i);
        }
    }
}

static bool covers(const char *function, const weft_box_plan *plan)
{
    weft_box_fault fault = weft_box_set_check(&plan->set, plan->layout->shape);
    char written[400];
    weft_text text = weft_text_in(written, sizeof(written));
    switch (fault.kind) {
    case WEFT_BOXES_RIGHT:
        return true;
    case WEFT_BOXES_GAP:
        add_box(&text, plan->set.ndim, &fault.where);
        weft_text_add(&text, " is in no box");
        add_neighbours(&text, &plan->set, &fault.where);
        break;
    case WEFT_BOXES_OVERLAP:
        add_box(&text, plan->set.ndim, &fault.where);
        weft_text_add(&text, " is in two boxes: ");
        add_owned(&text, &plan->set, fault.first);
        weft_text_add(&text, ", and ");
        add_owned(&text, &plan->set, fault.second);
        break;
    default:
        weft_fail(WEFT_ERR_NOMEM, function, "no memory to compare the boxes");
        return false;
    }
    weft_fail(WEFT_ERR_SHAPE, function, "boxes: %s", written);
    return false;
}

static bool has_any_in_place(const weft_box_plan *plan)
{
    bool any = false;
    for (int64_t i = 0; i < plan->set.count && plan->into_tensor && !any; i++) {
        any = weft_box_own_shard(&plan->set.boxes[i], plan->layout, &weft_runtime.topology) >= 0;
    }
    return any;
}

static weft_box_plan *plan_new(const weft_boxes *given, const weft_layout *layout, bool into_tensor,
                               const int64_t counts[])
{
    weft_box_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        weft_fail(WEFT_ERR_NOMEM, given->function, "no memory for a plan");
        return NULL;
    }
    *plan = (weft_box_plan){ .into_tensor = into_tensor, .layout = layout, .num_own = given->count };
    plan->set.ndim = layout->ndim;
    if (!exchange_boxes(given, plan, counts) || (into_tensor && !covers(given->function, plan))) {
        plan_free(plan);
        return NULL;
    }
    weft_box_plan *kept = compare_with_kept(plan);
    if (kept != NULL || !keep(given->function, plan)) {
        plan_free(plan);
        return kept;
    }
    plan->any_in_place = has_any_in_place(plan);
    return plan;
}

static weft_box_plan *agree(const weft_boxes *given, const weft_layout *layout, bool into_tensor, bool right)
{
    int64_t mine[NUM_FIRST] = { [WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status() };
    if (right) {
        uint64_t digest = weft_digest_add(layout->digest, layout->mesh->digest);
        mine[WEFT_NUMBERS_FINGERPRINT] = (int64_t)weft_digest_add(digest, into_tensor);
        mine[NUM_BOXES] = given->count;
    }
    int64_t *counts = gather(given->function, NUM_FIRST, mine);
    weft_box_plan *plan = NULL;
    if (counts != NULL && weft_numbers_agree(given->function, NUM_FIRST, counts, right)) {
        plan = plan_new(given, layout, into_tensor, counts);
    }
    free(counts);
    return plan;
}

/* Whether all processes have found the same plan; NULL: none was found here. Else all exchange their boxes: a process finds
 * its plan by its own boxes, and those of others may have changed. False, with the error kept in *failed. */
static bool all_found(const char *function, const weft_box_plan *plan, bool *failed)
{
    int64_t mine = plan == NULL ? 0 : (int64_t)plan->last_use, *all = gather(function, 1, &mine);
    bool found = mine != 0;
    *failed = all == NULL;
    for (int p = 0; p < weft_runtime.num_processes && all != NULL; p++) {
        found = found && all[p] == mine;
    }
    free(all);
    return found;
}

/* Fixed boxes: the others go on with the kept plan, and would wait for this process's data. */
static void fail_alone(const char *function)
{
    char message[300];
    snprintf(message, sizeof(message), "%s", weft_kept_message());
    weft_fail_alone(weft_latest_status(), function, "wrong arguments on this process, beside fixed boxes: %s", message);
}

weft_box_plan *weft_box_plan_obtain(const weft_boxes *given, const weft_layout *layout, bool into_tensor, bool right)
{
    weft_box_plan *plan = layout == NULL ? NULL : find(given, layout, into_tensor);
    bool compares = !weft_boxes_are_fixed() || weft_runtime.check || (plan != NULL && plan->ambiguous), failed = false;
    if (weft_runtime.num_processes > 1 && compares) {
        plan = all_found(given->function, right ? plan : NULL, &failed) ? plan : NULL;
    } else if (plan != NULL && !right) {
        fail_alone(given->function);
        failed = true;
    }
    if (failed) {
        return NULL;
    }
    if (plan == NULL) {
        plan = agree(given, layout, into_tensor, right);
    }
    if (plan != NULL) {
        plan->last_use = ++weft_runtime.arrays->box_plan_uses;
    }
    return plan;
}
