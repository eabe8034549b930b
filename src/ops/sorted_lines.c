/* Sorting of a line in parts. Each rank sorts its own part. The ranks find the key at each border of parts together, a digit of some bits
 * after the other from the highest on, by counting the elements with smaller keys: exactly, as no sample would. Then each element goes
 * once to the rank that it belongs to, which merges the sorted runs that it gets. Among elements with a border's key, earlier
 * ranks' come first, as in a stable sort of the whole line.
 *
 * The steps are local regions but for one: the number of elements between two ranks decides which messages there are, so the program
 * waits for these numbers, two for each border and rank. */
#include "ops/sorted_lines.h"

#include <stdlib.h>
#include <string.h>

#include <weft/local_map.h>

#include "arrays/arrays.h"
#include "arrays/row_moves.h"
#include "codelets/sorted_parts.h"
#include "comm/check_spmd.h"
#include "ops/line_parts.h"
#include "tensor/state.h"

enum {
    BITS = 8,     /* of a digit; each digit takes a reduction, of 2^bits numbers for each border */
    FEW_BITS = 4, /* of a digit with more than FEW_PARTS parts */
    FEW_PARTS = 16,
    BELOW = 0, EQUAL, NUMBERS, /* of a part and a border: elements with keys below that of the border, and with that key */
    LEAST_LENGTH = 1 << 16,    /* shorter lines take longer to agree on than to bring together */
    MOST_PARTS = 2048          /* of which each rank has a table of parts^2 * NUMBERS numbers: 64 MiB */
};

/* The context of tasks. There is a border behind each part but the last. */
typedef struct cuts {
    bool descending;
    int bits, shift; /* of the digit that is being found */
    int64_t parts;
    int64_t ends[]; /* of parts, in the line */
} cuts;

typedef struct line {
    const char *function;
    const weft_layout *layout;
    int mesh_dim;
    cuts *cuts;
    size_t cuts_size;
    weft_placement whole[WEFT_MAX_DIMS], summed[WEFT_MAX_DIMS], split[WEFT_MAX_DIMS]; /* replicated; sums along mesh_dim; cut there */
} line;

/* ---- on a rank's part ------------------------------------------------------------------------------------------- */

static weft_sorted_part part_of(const weft_local_call *call)
{
    const weft_local_tensor *in = &call->inputs[0];
    const cuts *c = call->context;
    return (weft_sorted_part){
        .dtype = in->dtype,
        .descending = c->descending,
        .count = in->count,
        .values = in->data,
        .step = 1,
        .first = in->offset[0],
        .sorted_step = 1,
    };
}

/* The results, of which the second may not be wanted. */
static weft_sorted_part sorted_part_of(const weft_local_call *call)
{
    weft_sorted_part p = part_of(call);
    p.sorted = call->outputs[0].data;
    p.indices = call->num_outputs > 1 ? call->outputs[1].data : NULL;
    return p;
}

static void lacks_memory(const weft_local_call *call)
{
    weft_kernel_fail(call, WEFT_ERR_NOMEM, "no memory to sort %lld elements", (long long)call->inputs[0].count);
    for (int i = 0; i < call->num_outputs; i++) {
        memset(call->outputs[i].data, 0, (size_t)call->outputs[i].count * weft_dtype_size(call->outputs[i].dtype));
    }
}

static void sort_part(const weft_local_call *call)
{
    const weft_sorted_part p = sorted_part_of(call);
    if (!weft_sort_part(&p, p.count)) {
        lacks_memory(call);
    }
}

/* For each border and each value of the next digit: how many keys of the part are smaller. */
static void count_candidates(const cuts *c, const weft_sorted_part *p, const int64_t prefixes[], int64_t counts[])
{
    const int digits = 1 << c->bits;
    for (int64_t border = 0; border < c->parts - 1; border++) {
        const uint64_t first = (uint64_t)prefixes[border], last = first | ((UINT64_C(1) << (c->shift + c->bits - 1) << 1) - 1);
        int64_t low = weft_keys_below(p, first, 0, p->count);
        const int64_t high = last == UINT64_MAX ? p->count : weft_keys_below(p, last + 1, low, p->count);
        for (int digit = 0; digit < digits; digit++) {
            low = weft_keys_below(p, first | (uint64_t)digit << c->shift, low, high);
            counts[border * digits + digit] = low;
        }
    }
}

/* The key of a border is the largest that no more keys are smaller than elements lie before the border. */
static void choose_digits(const cuts *c, const int64_t prefixes[], const int64_t counts[], int64_t chosen[])
{
    const int digits = 1 << c->bits, shift = c->shift + c->bits;
    for (int64_t border = 0; border < c->parts - 1; border++) {
        int64_t digit = digits - 1;
        while (digit > 0 && counts[border * digits + digit] > c->ends[border]) {
            digit--;
        }
        chosen[border] = (int64_t)((uint64_t)prefixes[border] | (uint64_t)digit << shift);
    }
}

/* Inputs: a sorted part. Output: the counts of the first digit. */
static void begin_search(const weft_local_call *call)
{
    const weft_sorted_part p = part_of(call);
    const cuts *c = call->context;
    memset(call->outputs[0].data, 0, (size_t)call->outputs[0].count * sizeof(int64_t));
    memset(call->outputs[1].data, 0, (size_t)call->outputs[1].count * sizeof(int64_t));
    count_candidates(c, &p, call->outputs[0].data, call->outputs[1].data);
}

/* Inputs: a sorted part, the digits found before the last one, the counts of the last one by all ranks. Outputs: the digits, and the
 * counts of the next one. */
static void search_on(const weft_local_call *call)
{
    const weft_sorted_part p = part_of(call);
    const cuts *c = call->context;
    choose_digits(c, call->inputs[1].data, call->inputs[2].data, call->outputs[0].data);
    count_candidates(c, &p, call->outputs[0].data, call->outputs[1].data);
}

/* Inputs as before, with the counts of the last digit. Output: the numbers of the part's elements, by border. */
static void end_search(const weft_local_call *call)
{
    const weft_sorted_part p = part_of(call);
    const cuts *c = call->context;
    int64_t *numbers = call->outputs[0].data, *keys = call->outputs[1].data;
    choose_digits(c, call->inputs[1].data, call->inputs[2].data, keys);
    for (int64_t border = 0; border < c->parts - 1; border++, numbers += NUMBERS) {
        const uint64_t key = (uint64_t)keys[border];
        numbers[BELOW] = weft_keys_below(&p, key, 0, p.count);
        numbers[EQUAL] = (key == UINT64_MAX ? p.count : weft_keys_below(&p, key + 1, numbers[BELOW], p.count)) - numbers[BELOW];
    }
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static int64_t begin_of(const cuts *c, int64_t part)
{
    return part == 0 ? 0 : c->ends[part - 1];
}

/* Where the elements after border number `border` begin in each sorted part; border -1 is the line's beginning, the last one its end.
 * all[]: the numbers of the borders, by part. */
static void find_places(const cuts *c, const int64_t all[], int64_t border, int64_t places[])
{
    const int64_t borders = c->parts - 1;
    int64_t left = border < 0 || border == borders ? 0 : c->ends[border]; /* elements with the border's key that come before it */
    for (int64_t part = 0; part < c->parts; part++) {
        places[part] = border < 0          ? 0
                       : border == borders ? c->ends[part] - begin_of(c, part)
                                           : all[(part * borders + border) * NUMBERS + BELOW];
        left -= border < 0 || border == borders ? 0 : places[part];
    }
    for (int64_t part = 0; part < c->parts && left > 0; part++) {
        const int64_t equal = weft_min_i64(left, all[(part * borders + border) * NUMBERS + EQUAL]);
        places[part] += equal;
        left -= equal;
    }
}

static int64_t part_at(const cuts *c, int64_t offset)
{
    int64_t low = 0, high = c->parts - 1; /* the first part that ends after the offset */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        high = c->ends[middle] > offset ? middle : high;
        low = c->ends[middle] > offset ? low : middle + 1;
    }
    return low;
}

/* Inputs: what has arrived, the numbers of the borders, and the elements' indices if they are wanted. */
static void merge_part(const weft_local_call *call)
{
    const weft_sorted_part p = sorted_part_of(call);
    const cuts *c = call->context;
    const int64_t *all = call->inputs[1].data, *given = call->num_inputs > 2 ? call->inputs[2].data : NULL;
    const int64_t part = part_at(c, call->outputs[0].offset[0]);
    int64_t *starts = malloc((2 * (size_t)c->parts + 1) * sizeof(*starts));
    if (starts == NULL) {
        lacks_memory(call);
        return;
    }
    int64_t *places = starts + c->parts + 1;
    find_places(c, all, part - 1, places);
    memcpy(starts + 1, places, (size_t)c->parts * sizeof(*starts));
    find_places(c, all, part, places);
    starts[0] = 0;
    for (int64_t run = 0; run < c->parts; run++) {
        starts[run + 1] = starts[run] + places[run] - starts[run + 1];
    }
    if (!weft_merge_runs(&p, c->parts, starts, given)) {
        lacks_memory(call);
    }
    free(starts);
}

/* ---- regions ------------------------------------------------------------------------------------------------------ */

/* Calls a region with the cuts as its context. False with the error kept. */
static bool run(const line *l, weft_local_function function, int num_inputs, weft_tensor *const inputs[],
                const weft_placement *const in_placements[], int num_outputs, const weft_local_output descriptions[],
                weft_tensor *outputs[])
{
    const weft_local_map_options options = { .name = l->function,
                                             .mesh = l->layout->mesh->handle,
                                             .in_placements = in_placements,
                                             .context = l->cuts,
                                             .context_size = l->cuts_size };
    return weft_local_map(function, num_inputs, inputs, num_outputs, descriptions, &options, outputs) == WEFT_OK;
}

static weft_local_output like_line(const line *l, weft_dtype dtype)
{
    return (weft_local_output){ dtype, 1, l->layout->shape, l->layout->placements, false };
}

/* The numbers of all borders, on every rank. NULL with the error kept. */
static weft_tensor *find_numbers(const line *l, weft_tensor *sorted)
{
    const int64_t borders = l->cuts->parts - 1, num_counts = borders << l->cuts->bits, size = l->cuts->parts * borders * NUMBERS;
    const weft_local_output keys = { WEFT_I64, 1, &borders, l->whole, false };
    const weft_local_output searched[2] = { keys, { WEFT_I64, 1, &num_counts, l->summed, false } };
    const weft_local_output found[2] = { { WEFT_I64, 1, &size, l->split, false }, keys };
    const weft_placement *placements[3] = { NULL, NULL, l->whole };
    weft_tensor *inputs[3] = { sorted }, *outputs[2] = { NULL, NULL };
    l->cuts->shift = 64 - l->cuts->bits;
    bool done = run(l, begin_search, 1, inputs, NULL, 2, searched, outputs);
    while (done && l->cuts->shift > 0) {
        l->cuts->shift -= l->cuts->bits;
        memcpy(inputs + 1, outputs, sizeof(outputs));
        done = run(l, search_on, 3, inputs, placements, 2, searched, outputs);
    }
    l->cuts->shift = -l->cuts->bits; /* no other digit follows */
    memcpy(inputs + 1, outputs, sizeof(outputs));
    done = done && run(l, end_search, 3, inputs, placements, 2, found, outputs);
    return done ? weft_redistribute(outputs[0], NULL, l->whole) : NULL;
}

/* ---- the exchange -------------------------------------------------------------------------------------------------- */

/* The ranks of the mesh that differ in their coordinate along mesh_dim alone lie at positions base, base + stride, and so on. */
static int64_t stride_of(const line *l)
{
    int64_t stride = 1;
    for (int d = l->mesh_dim + 1; d < l->layout->mesh->ndim; d++) {
        stride *= l->layout->mesh->shape[d];
    }
    return stride;
}

/* The bases with a hosted rank among theirs, ascending. False: no memory. */
static bool find_bases(const line *l, weft_vec *bases)
{
    const weft_mesh_impl *mesh = l->layout->mesh;
    const int64_t stride = stride_of(l), parts = l->cuts->parts;
    bool done = true;
    for (int64_t first = 0; first < mesh->num_ranks && done; first += stride * parts) {
        for (int64_t base = first; base < first + stride && done; base++) {
            bool hosted = false;
            for (int64_t part = 0; part < parts && !hosted; part++) {
                hosted = weft_hosts(weft_mesh_rank_at(mesh, base + part * stride));
            }
            int64_t *added = hosted ? weft_vec_push(bases, sizeof(*added)) : NULL;
            done = !hosted || added != NULL;
            if (added != NULL) {
                *added = base;
            }
        }
    }
    return done;
}

/* Moves between hosted ranks and others, of a piece of a part. */
static bool add_moves(const line *l, const weft_vec *bases, weft_vec *moves, int64_t source, int64_t target, const weft_row_move *piece)
{
    const weft_mesh_impl *mesh = l->layout->mesh;
    const int64_t *base = bases->items, stride = stride_of(l);
    bool done = true;
    for (size_t i = 0; i < bases->count && done; i++) {
        const int from = weft_mesh_rank_at(mesh, base[i] + source * stride), to = weft_mesh_rank_at(mesh, base[i] + target * stride);
        if (weft_hosts(from) || weft_hosts(to)) {
            weft_row_move *added = weft_vec_push(moves, sizeof(*added));
            done = added != NULL;
            if (done) {
                *added = *piece;
                added->source = from;
                added->target = to;
            }
        }
    }
    return done;
}

/* all[]: the numbers of the borders. False: no memory. */
static bool find_moves(const line *l, const int64_t all[], weft_vec *moves)
{
    const cuts *c = l->cuts;
    weft_vec bases = { 0 };
    int64_t *places = malloc(2 * (size_t)c->parts * sizeof(*places));
    bool done = places != NULL && find_bases(l, &bases);
    for (int64_t target = 0; target < c->parts && done; target++) {
        int64_t to = begin_of(c, target), *begin = places, *end = places + c->parts;
        find_places(c, all, target - 1, begin);
        find_places(c, all, target, end);
        for (int64_t source = 0; source < c->parts && done; source++) {
            const weft_row_move piece = { .from = begin_of(c, source) + begin[source], .to = to, .rows = end[source] - begin[source] };
            done = piece.rows == 0 || add_moves(l, &bases, moves, source, target, &piece);
            to += piece.rows;
        }
    }
    weft_vec_free(&bases);
    free(places);
    return done;
}

/* Takes values, and indices if they are wanted, to the ranks that they belong to. BLOCKS. False with the error kept. */
static bool exchange(const line *l, weft_tensor *numbers, int num_tensors, weft_tensor *tensors[])
{
    const int64_t size = weft_layout_of(numbers)->shape[0];
    const size_t bytes = (size_t)size * sizeof(int64_t);
    int64_t *all = malloc(bytes);
    weft_vec moves = { 0 };
    bool done = all != NULL;
    if (done && weft_tensor_gather(l->function, weft_tensor_get(numbers), all, bytes) != WEFT_OK) {
        free(all);
        return false;
    }
    done = done && find_moves(l, all, &moves);
    if (!done) {
        weft_fail_alone(WEFT_ERR_NOMEM, l->function, "no memory for %lld numbers", (long long)size);
    }
    for (int i = 0; i < num_tensors && done; i++) {
        weft_tensor_impl *from = weft_tensor_get(tensors[i]);
        weft_tensor_impl *moved = weft_move_rows(l->function, from, from->layout, (int64_t)moves.count, moves.items);
        tensors[i] = moved == NULL ? NULL : moved->handle;
        done = moved != NULL;
    }
    weft_vec_free(&moves);
    free(all);
    return done;
}

/* outputs[]: values, and indices if num_outputs is 2. False with the error kept. */
static bool sort_line(const line *l, weft_tensor *a, int num_outputs, weft_tensor *outputs[])
{
    const weft_local_output results[2] = { like_line(l, l->layout->dtype), like_line(l, WEFT_I64) };
    weft_tensor *parts[2] = { NULL, NULL };
    weft_tensor *numbers = run(l, sort_part, 1, &a, NULL, num_outputs, results, parts) ? find_numbers(l, parts[0]) : NULL;
    if (numbers == NULL || !exchange(l, numbers, num_outputs, parts)) {
        return false;
    }
    return run(l, merge_part, 1 + num_outputs, (weft_tensor *[]){ parts[0], numbers, parts[1] }, NULL, num_outputs, results, outputs);
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

void weft_sort_lines_from(int64_t length)
{
    weft_runtime.tensors->sorts_from = length;
}

bool weft_sorts_line(const weft_tensor *a)
{
    const weft_layout *layout = weft_layout_of(a);
    const int dim = layout->ndim == 1 ? weft_cutting_dim(layout, 0) : -1;
    const int64_t chosen = weft_runtime.tensors->sorts_from;
    return dim >= 0 && layout->shape[0] >= (chosen > 0 ? chosen : LEAST_LENGTH) && layout->mesh->shape[dim] <= MOST_PARTS &&
           weft_works_in_parts(a);
}

/* False with the error kept. */
static bool describe(line *l, bool descending)
{
    const int64_t parts = l->layout->mesh->shape[l->mesh_dim];
    l->cuts_size = sizeof(cuts) + (size_t)parts * sizeof(int64_t);
    l->cuts = malloc(l->cuts_size);
    if (l->cuts == NULL) {
        weft_fail_alone(WEFT_ERR_NOMEM, l->function, "no memory for %lld parts", (long long)parts);
        return false;
    }
    memset(l->cuts, 0, l->cuts_size);
    l->cuts->descending = descending;
    l->cuts->bits = parts <= FEW_PARTS ? BITS : FEW_BITS;
    l->cuts->parts = parts;
    for (int64_t part = 0, end = 0; part < parts; part++) {
        int64_t offset, extent;
        weft_part_range(l->layout->placements[l->mesh_dim], l->layout->shape[0], parts, part, &offset, &extent);
        end = extent > 0 ? offset + extent : end;
        l->cuts->ends[part] = end;
    }
    for (int d = 0; d < l->layout->mesh->ndim; d++) {
        l->whole[d] = weft_replicate();
        l->summed[d] = d == l->mesh_dim ? weft_partial(WEFT_SUM) : weft_replicate();
        l->split[d] = d == l->mesh_dim ? weft_shard(0) : weft_replicate();
    }
    return true;
}

static bool sort_in_parts(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    line l = { .function = call->function, .layout = layout, .mesh_dim = weft_cutting_dim(layout, 0) };
    bool done = describe(&l, call->attributes.numbers[0] != 0) && sort_line(&l, call->inputs[0], call->details->num_outputs, outputs);
    free(l.cuts);
    return done;
}

/* attributes: numbers[0]: descending. */
static weft_status perform_sort(const weft_call *call, weft_tensor *outputs[])
{
    const weft_layout *layout = weft_layout_of(call->inputs[0]);
    const double numbers[] = { call->attributes.numbers[0], call->details->num_outputs };
    return weft_perform_in_parts(call,
                                 &(weft_call_signature){ .function = call->function,
                                                         .num_layouts = 1,
                                                         .layouts = &layout,
                                                         .num_numbers = WEFT_ARRAY_SIZE(numbers),
                                                         .numbers = numbers },
                                 call->details->num_outputs, sort_in_parts, outputs);
}

bool weft_sort_line(const char *function, weft_tensor *a, bool descending, weft_tensor **values, weft_tensor **indices)
{
    static const weft_operation action = { .name = "sort",
                                           .perform = perform_sort,
                                           .effects = WEFT_NEEDS_DATA,
                                           .gradient = WEFT_GRADIENT_BY(weft_gradient_of_order, WEFT_READS_OUTPUT(1)) };
    const weft_call_details details = { .num_outputs = indices != NULL || weft_requires_grad(a) ? 2 : 1 };
    const weft_call call = { .function = function,
                             .operation = &action,
                             .num_inputs = 1,
                             .inputs = { a },
                             .attributes = { .num_numbers = 1, .numbers = { descending } },
                             .details = &details };
    return weft_act_in_parts(&call, values, indices);
}
