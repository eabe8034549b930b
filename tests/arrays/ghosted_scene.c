#include "ghosted_scene.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- a tensor and its reference ------------------------------------------------------------------------ */

static int64_t dense_place(const field *f, const int64_t index[])
{
    int64_t place = 0;
    for (int d = 0; d < f->ndim; d++) {
        place = place * f->shape[d] + index[d];
    }
    return place;
}

/* Beyond borders that are not periodic. */
static int64_t border_value(const field *f, int which, const int64_t index[])
{
    int64_t value = 1000003 * (which + 1);
    for (int d = 0; d < f->ndim; d++) {
        value = value * 31 + index[d];
    }
    return value;
}

/* Wraps periodic dimensions. False: the index lies beyond a border. */
static bool wrap(const field *f, int64_t index[])
{
    bool inside = true;
    for (int d = 0; d < f->ndim; d++) {
        int64_t n = f->shape[d];
        if (f->ghosts.periodic[d] && n > 0) {
            index[d] = (index[d] % n + n) % n;
        }
        inside = inside && index[d] >= 0 && index[d] < n;
    }
    return inside;
}

/* The element that a margin, or the inside, should have at an index that may lie anywhere. */
static int64_t expected_at(const field *f, int which, const int64_t at[])
{
    int64_t index[MAX_DIMS];
    memcpy(index, at, sizeof(index));
    return wrap(f, index) ? f->dense[which][dense_place(f, index)] : border_value(f, which, at);
}

/* The index of element e of a local array; returns along how many dimensions it lies in the margin. */
static int index_in_array(const field *f, int local, int64_t e, int64_t index[])
{
    int margins = 0;
    for (int d = f->ndim - 1; d >= 0; d--) {
        index[d] = f->own[local].offset[d] - f->ghosts.before[d] + e % f->padded[local][d];
        e /= f->padded[local][d];
        margins += index[d] < f->own[local].offset[d] || index[d] >= f->own[local].offset[d] + f->own[local].extent[d];
    }
    return margins;
}

int64_t field_count_in_array(const field *f, int local)
{
    return shape_count(f->ndim, f->padded[local]);
}

void field_store(const field *f, int which)
{
    for (int i = 0; i < f->num_local; i++) {
        for (int64_t e = 0, count = field_count_in_array(f, i); e < count; e++) {
            int64_t index[MAX_DIMS], wrapped[MAX_DIMS];
            int margins = index_in_array(f, i, e, index);
            memcpy(wrapped, index, sizeof(wrapped));
            bool inside = wrap(f, wrapped);
            f->arrays[which][i][e] = margins > 0 && inside ? -77777 : expected_at(f, which, index);
        }
    }
}

void field_check(const field *f, int which, bool margins)
{
    for (int i = 0; i < f->num_local; i++) {
        for (int64_t e = 0, count = field_count_in_array(f, i); e < count; e++) {
            int64_t index[MAX_DIMS];
            int outside = index_in_array(f, i, e, index);
            if (outside == 0 || (margins && (outside == 1 || !f->ghosts.star))) {
                int64_t expected = expected_at(f, which, index);
                if (f->arrays[which][i][e] != expected) {
                    fail_msg("%s: array of local rank %d has %lld at (%lld, %lld, %lld), expected %lld%s",
                             describe(f->mesh, f->placements, f->ndim, f->shape), i, (long long)f->arrays[which][i][e],
                             (long long)index[0], f->ndim > 1 ? (long long)index[1] : 0, f->ndim > 2 ? (long long)index[2] : 0,
                             (long long)expected, outside > 0 ? " in the margin" : "");
                }
            }
        }
    }
}

/* ---- a stencil of the program's ------------------------------------------------------------------------ */

/* numbers: before and after of each dimension, then whether it is a star. */
static void set_halo(weft_halo *halo, const int64_t numbers[])
{
    int dim = halo->letter - 'a';
    halo->before = numbers[2 * dim];
    halo->after = numbers[2 * dim + 1];
}

/* The weight of a neighbour; 0: it is not read. */
static int64_t weight(int ndim, const int64_t offset[], bool star)
{
    int64_t value = 3, away = 0;
    for (int d = 0; d < ndim; d++) {
        value = value * 5 + offset[d];
        away += offset[d] != 0;
    }
    return star && away > 1 ? 0 : value;
}

static int64_t element(const weft_view *v, const int64_t index[])
{
    const int64_t *row = weft_view_row(v, index[0] - v->offset[0], NULL);
    int64_t place = 0;
    for (int d = 1; d < v->ndim; d++) {
        assert(index[d] >= v->offset[d] && index[d] < v->offset[d] + v->extent[d]);
        place += (index[d] - v->offset[d]) * v->strides[d];
    }
    return row[place];
}

typedef int64_t (*reader)(const void *of, const int64_t index[]);
static int64_t stencil_at(int ndim, const int64_t index[], const int64_t numbers[], reader read, const void *of)
{
    int64_t sum = 0, offset[MAX_DIMS] = { 0 }, at[MAX_DIMS] = { 0 };
    for (int d = 0; d < ndim; d++) {
        offset[d] = -numbers[2 * d];
    }
    for (int d = 0; d >= 0;) {
        for (int k = 0; k < ndim; k++) {
            at[k] = index[k] + offset[k];
        }
        int64_t w = weight(ndim, offset, numbers[2 * MAX_DIMS] != 0);
        sum += w == 0 ? 0 : w * read(of, at);
        for (d = ndim - 1; d >= 0 && ++offset[d] > numbers[2 * d + 1]; d--) {
            offset[d] = -numbers[2 * d];
        }
    }
    return sum % 1000003;
}

static int64_t read_view(const void *of, const int64_t index[])
{
    return element(of, index);
}

static void stencil_kernel(const weft_kernel_call *call)
{
    const weft_view *next = &call->output, *now = &call->inputs[0], *coefficient = &call->inputs[1];
    for (int64_t e = 0, count = weft_view_count(next); e < count; e++) {
        int64_t index[MAX_DIMS] = { 0 }, rest = e, place = 0;
        for (int d = next->ndim - 1; d >= 0; d--) {
            index[d] = next->offset[d] + rest % next->extent[d];
            place += d == 0 ? 0 : rest % next->extent[d] * next->strides[d];
            rest /= next->extent[d];
        }
        int64_t *row = weft_view_row(next, index[0] - next->offset[0], NULL);
        row[place] = stencil_at(next->ndim, index, call->numbers, read_view, now) + element(coefficient, index);
    }
}

const weft_operation *register_stencil(int ndim)
{
    static const char *const rules[] = { "a,a~,a->a", "ab,a~b~,ab->ab", "abc,a~b~c~,abc->abc" };
    weft_operation_description d = { .name = "stencil", .rule = rules[ndim - 1], .kernel = stencil_kernel, .takes_strides = true };
    static const char *const names[] = { "next", "now", "coefficient" };
    for (int i = 0; i < 3; i++) {
        d.inputs[i] = (weft_operation_input){ names[i], WEFT_TYPE_BIT(WEFT_I64), false };
    }
    d.outputs[0].in_place = true;
    d.halo = set_halo;
    for (int k = 0; k < ndim; k++) {
        d.halos[k] = (weft_halo){ .input = 1, .letter = (char)('a' + k) };
    }
    const weft_operation *operation = weft_operation_register(&d);
    assert_no_error();
    return operation;
}

/* ---- random fields ----------------------------------------------------------------------------------- */

/* Each dimension is cut by one mesh dimension at most. */
static void random_single_cuts(prng *random, field *f)
{
    bool cut[MAX_DIMS] = { false };
    for (int m = 0; m < weft_mesh_ndim(f->mesh); m++) {
        int d = (int)prng_below(random, f->ndim);
        f->placements[m] = weft_replicate();
        if (!cut[d] && prng_below(random, 5) > 0) {
            f->placements[m] = prng_below(random, 2) ? weft_shard(d) : weft_shard_balanced(d);
            cut[d] = true;
        }
    }
    random_cut_sizes(random, f->mesh, f->ndim, f->shape, f->placements);
}

void field_random(prng *random, field *f)
{
    *f = (field){ .ndim = 1 + (int)prng_below(random, MAX_DIMS) };
    f->mesh = random_mesh(random, MAX_RANKS);
    for (int d = 0; d < f->ndim; d++) {
        f->shape[d] = prng_below(random, 12) == 0 ? 0 : 1 + prng_below(random, f->ndim == 1 ? 60 : f->ndim == 2 ? 13 : 7);
        bool wide = prng_below(random, 8) == 0;
        f->ghosts.before[d] = prng_below(random, wide ? 9 : 3);
        f->ghosts.after[d] = prng_below(random, wide ? 9 : 3);
        f->ghosts.periodic[d] = prng_below(random, 2);
    }
    f->ghosts.star = prng_below(random, 2);
    random_single_cuts(random, f);
    f->num_local = weft_local_ranks();
    for (int which = 0, count = (int)shape_count(f->ndim, f->shape); which < 2; which++) {
        f->dense[which] = malloc(((size_t)count + 1) * sizeof(int64_t));
        for (int64_t e = 0; e < count; e++) {
            f->dense[which][e] = prng_below(random, 1000);
        }
    }
    for (int i = 0; i < f->num_local; i++) {
        int rank = weft_first_rank() + i;
        weft_box *own = &f->own[i];
        int64_t coordinate[WEFT_MAX_DIMS];
        bool member = weft_mesh_coordinate(f->mesh, rank, coordinate) == 1;
        assert_int_equal(weft_shard_box(f->mesh, f->placements, f->ndim, f->shape, rank, own->offset, own->extent), WEFT_OK);
        bool empty = !member || shape_count(f->ndim, own->extent) == 0;
        for (int d = 0; d < f->ndim; d++) {
            f->padded[i][d] = empty ? 0 : own->extent[d] + f->ghosts.before[d] + f->ghosts.after[d];
        }
        for (int which = 0; which < 2 && !empty; which++) {
            f->arrays[which][i] = malloc((size_t)field_count_in_array(f, i) * sizeof(int64_t));
        }
    }
    for (int which = 0; which < 2; which++) {
        field_store(f, which);
        f->tensors[which] = weft_from_ghosted(WEFT_I64, f->ndim, f->shape, (void *const *)f->arrays[which], &f->ghosts, f->mesh,
                                              f->placements);
        assert_no_error();
        assert_non_null(f->tensors[which]);
    }
}

void field_free(field *f)
{
    for (int which = 0; which < 2; which++) {
        free(f->dense[which]);
        for (int i = 0; i < f->num_local; i++) {
            free(f->arrays[which][i]);
        }
    }
}

typedef struct reference {
    const field *f;
    int which;
} reference;

static int64_t read_reference(const void *of, const int64_t index[])
{
    const reference *r = of;
    return expected_at(r->f, r->which, index);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

step step_random(prng *random, const field *f, step_kind most)
{
    step s = { .kind = prng_below(random, 2) ? STEP_STENCIL : (step_kind)prng_below(random, most), .which = (int)prng_below(random, 2) };
    s.options.num_numbers = 2 * MAX_DIMS + 1;
    for (int d = 0; d < f->ndim; d++) {
        s.options.numbers[2 * d] = prng_below(random, f->ghosts.before[d] + 1);
        s.options.numbers[2 * d + 1] = prng_below(random, f->ghosts.after[d] + 1);
    }
    s.options.numbers[2 * MAX_DIMS] = f->ghosts.star || prng_below(random, 2);
    return s;
}

static void make_stencil(const field *f, const weft_operation *stencil, const step *s)
{
    const int64_t count = shape_count(f->ndim, f->shape);
    weft_tensor *coefficient = weft_arange(WEFT_I64, 0, 17 * count, 17, f->mesh, NULL);
    coefficient = weft_reshape(coefficient, f->ndim, f->shape);
    weft_tensor *tensors[] = { f->tensors[s->which], f->tensors[1 - s->which], coefficient };
    weft_tensor *out = weft_apply(stencil, 3, tensors, &s->options);
    assert_no_error();
    assert_ptr_equal(out, f->tensors[s->which]);
}

static void read_sum(const field *f, int which)
{
    const int64_t count = shape_count(f->ndim, f->shape);
    weft_tensor *sum = weft_sum(weft_reshape(weft_neg(f->tensors[which]), 1, (int64_t[]){ count }), 0, false);
    int64_t found, expected = 0;
    for (int64_t e = 0; e < count; e++) {
        expected -= f->dense[which][e];
    }
    assert_int_equal(weft_to_host(sum, &found, sizeof(found)), WEFT_OK);
    assert_int_equal(found, expected);
}

static void read_all(const field *f, int which)
{
    const size_t bytes = (size_t)shape_count(f->ndim, f->shape) * sizeof(int64_t);
    int64_t *found = malloc(bytes + 1);
    assert_int_equal(weft_to_host(f->tensors[which], found, bytes), WEFT_OK);
    assert_memory_equal(found, f->dense[which], bytes);
    free(found);
}

void step_make(const field *f, const weft_operation *stencil, const step *s)
{
    weft_tensor *tensor = f->tensors[s->which], *other = f->tensors[1 - s->which];
    switch (s->kind) {
    case STEP_STENCIL:
        make_stencil(f, stencil, s);
        break;
    case STEP_ADD:
        assert_ptr_equal(weft_add_inplace(tensor, other, 1), tensor);
        break;
    case STEP_COPY:
        assert_ptr_equal(weft_copy_inplace(tensor, other), tensor);
        break;
    case STEP_EXCHANGE:
        assert_int_equal(weft_halo_exchange(tensor), WEFT_OK);
        break;
    case STEP_SUM:
        read_sum(f, s->which);
        break;
    default:
        read_all(f, s->which);
    }
    assert_no_error();
}

static void compute_stencil(field *f, const step *s)
{
    const reference now = { f, 1 - s->which };
    for (int64_t e = 0, count = shape_count(f->ndim, f->shape); e < count; e++) {
        int64_t index[MAX_DIMS] = { 0 }, rest = e;
        for (int d = f->ndim - 1; d >= 0; d--) {
            index[d] = rest % f->shape[d];
            rest /= f->shape[d];
        }
        f->dense[s->which][e] = stencil_at(f->ndim, index, s->options.numbers, read_reference, &now) + 17 * e;
    }
}

void step_compute(field *f, const step *s)
{
    int64_t *to = f->dense[s->which];
    const int64_t *from = f->dense[1 - s->which], count = shape_count(f->ndim, f->shape);
    if (s->kind == STEP_STENCIL) {
        compute_stencil(f, s);
    }
    for (int64_t e = 0; e < count && (s->kind == STEP_ADD || s->kind == STEP_COPY); e++) {
        to[e] = s->kind == STEP_COPY ? from[e] : to[e] + from[e];
    }
}
