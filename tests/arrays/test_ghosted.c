/* weft_from_ghosted(): random programs of stencils, in-place operations and exchanges on ghosted arrays, against dense arrays;
 * errors. */
#include "support.h"

#include <assert.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 6, MAX_DIMS = 3, MAX_LOCAL = 6 };

static int num_programs;

/* ---- a tensor and its reference ------------------------------------------------------------------------ */

/* Two arrays of one shape. The dense reference of each has all elements; `border` those of margins beyond the tensor's borders. */
typedef struct field {
    int ndim;
    int64_t shape[MAX_DIMS];
    weft_ghosts ghosts;
    weft_mesh *mesh;
    weft_placement placements[WEFT_MAX_DIMS];
    int num_local;
    weft_box own[MAX_LOCAL];
    int64_t padded[MAX_LOCAL][MAX_DIMS]; /* extents of the arrays; 0: none */
    int64_t *arrays[2][MAX_LOCAL];
    int64_t *dense[2];
    weft_tensor *tensors[2];
} field;

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

static int64_t count_in_array(const field *f, int local)
{
    return shape_count(f->ndim, f->padded[local]);
}

/* Writes the inside, and the margins beyond borders; other margins get what must not be read. */
static void store(const field *f, int which)
{
    for (int i = 0; i < f->num_local; i++) {
        for (int64_t e = 0, count = count_in_array(f, i); e < count; e++) {
            int64_t index[MAX_DIMS], wrapped[MAX_DIMS];
            int margins = index_in_array(f, i, e, index);
            memcpy(wrapped, index, sizeof(wrapped));
            bool inside = wrap(f, wrapped);
            f->arrays[which][i][e] = margins > 0 && inside ? -77777 : expected_at(f, which, index);
        }
    }
}

/* The inside has the values; with `margins` these too, but for corners that a star leaves out. */
static void check_arrays(const field *f, int which, bool margins)
{
    for (int i = 0; i < f->num_local; i++) {
        for (int64_t e = 0, count = count_in_array(f, i); e < count; e++) {
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

static const weft_operation *register_stencil(int ndim)
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

/* ---- random programs ----------------------------------------------------------------------------------- */

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

static void make_field(prng *random, field *f)
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
            f->arrays[which][i] = malloc((size_t)count_in_array(f, i) * sizeof(int64_t));
        }
    }
    for (int which = 0; which < 2; which++) {
        store(f, which);
        f->tensors[which] = weft_from_ghosted(WEFT_I64, f->ndim, f->shape, (void *const *)f->arrays[which], &f->ghosts, f->mesh,
                                              f->placements);
        assert_no_error();
        assert_non_null(f->tensors[which]);
    }
}

static void free_field(field *f)
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

/* The tensor `to` becomes a stencil of the other one. */
static void apply_stencil(prng *random, field *f, const weft_operation *stencil, int to)
{
    weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1 };
    for (int d = 0; d < f->ndim; d++) {
        options.numbers[2 * d] = prng_below(random, f->ghosts.before[d] + 1);
        options.numbers[2 * d + 1] = prng_below(random, f->ghosts.after[d] + 1);
    }
    options.numbers[2 * MAX_DIMS] = f->ghosts.star || prng_below(random, 2);
    int64_t count = shape_count(f->ndim, f->shape), *coefficients = malloc(((size_t)count + 1) * sizeof(int64_t));
    for (int64_t e = 0; e < count; e++) {
        coefficients[e] = 17 * e;
    }
    weft_tensor *coefficient = weft_distribute(WEFT_I64, f->ndim, f->shape, coefficients, f->mesh, NULL);
    assert_no_error();
    weft_tensor *out = weft_apply(stencil, 3, (weft_tensor *[]){ f->tensors[to], f->tensors[1 - to], coefficient }, &options);
    assert_no_error();
    assert_ptr_equal(out, f->tensors[to]);
    const reference now = { f, 1 - to };
    for (int64_t e = 0; e < count; e++) {
        int64_t index[MAX_DIMS] = { 0 }, rest = e;
        for (int d = f->ndim - 1; d >= 0; d--) {
            index[d] = rest % f->shape[d];
            rest /= f->shape[d];
        }
        f->dense[to][e] = stencil_at(f->ndim, index, options.numbers, read_reference, &now) + coefficients[e];
    }
    free(coefficients);
}

/* A call of weft's own on the tensor, in place or not. */
static void call_others(prng *random, field *f, int which)
{
    int64_t count = shape_count(f->ndim, f->shape);
    weft_tensor *tensor = f->tensors[which];
    switch (prng_below(random, 4)) {
    case 0:
        assert_ptr_equal(weft_add_inplace(tensor, f->tensors[1 - which], 1), tensor);
        for (int64_t e = 0; e < count; e++) {
            f->dense[which][e] += f->dense[1 - which][e];
        }
        break;
    case 1:
        assert_ptr_equal(weft_copy_inplace(tensor, f->tensors[1 - which]), tensor);
        memcpy(f->dense[which], f->dense[1 - which], (size_t)count * sizeof(int64_t));
        break;
    case 2: {
        weft_tensor *sum = weft_sum(weft_reshape(weft_neg(tensor), 1, (int64_t[]){ count }), 0, false);
        int64_t found, expected = 0;
        for (int64_t e = 0; e < count; e++) {
            expected -= f->dense[which][e];
        }
        assert_int_equal(weft_to_host(sum, &found, sizeof(found)), WEFT_OK);
        assert_int_equal(found, expected);
        break;
    }
    default: {
        int64_t *found = malloc(((size_t)count + 1) * sizeof(int64_t));
        assert_int_equal(weft_to_host(tensor, found, (size_t)count * sizeof(int64_t)), WEFT_OK);
        assert_memory_equal(found, f->dense[which], (size_t)count * sizeof(int64_t));
        free(found);
    }
    }
    assert_no_error();
}

/* The program reads its arrays, and may write to them. */
static void use_arrays(prng *random, field *f, int which)
{
    bool filled = prng_below(random, 2);
    if (filled) {
        assert_int_equal(weft_halo_exchange(f->tensors[which]), WEFT_OK);
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    check_arrays(f, which, false);
    check_arrays(f, which, filled);
    if (prng_below(random, 2)) {
        for (int64_t e = 0, count = shape_count(f->ndim, f->shape); e < count; e++) {
            f->dense[which][e] = f->dense[which][e] % 1000 + e;
        }
        store(f, which);
        assert_int_equal(weft_halo_exchange(f->tensors[which]), WEFT_OK);
    }
}

static void run_program(prng *random, const weft_operation *const stencils[])
{
    field f;
    weft_scope_begin();
    make_field(random, &f);
    for (int step = 0, steps = 1 + (int)prng_below(random, 8); step < steps; step++) {
        int which = (int)prng_below(random, 2);
        switch (prng_below(random, 5)) {
        case 0:
            call_others(random, &f, which);
            break;
        case 1:
            use_arrays(random, &f, which);
            break;
        default:
            apply_stencil(random, &f, stencils[f.ndim - 1], which);
        }
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    check_arrays(&f, 0, false);
    check_arrays(&f, 1, false);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    free_field(&f);
}

static void random_programs(void **state)
{
    (void)state;
    static const char *const heights[] = { NULL, "1", "3" };
    prng random = prng_start(20261130);
    for (int world = 0; world < 6; world++) {
        start_with_panels(1 + (int)prng_below(&random, MAX_RANKS), heights[world % 3]);
        const weft_operation *stencils[MAX_DIMS];
        for (int d = 0; d < MAX_DIMS; d++) {
            stencils[d] = register_stencil(d + 1);
        }
        for (int i = 0; i < num_programs / 6 + 1; i++) {
            run_program(&random, stencils);
        }
        world_stop(NULL);
    }
    unsetenv("WEFT_PANEL_ROWS");
}

/* ---- one field ----------------------------------------------------------------------------------------- */

/* A field of 12 x 10 on all ranks of the world, by rows. */
static void make_rows(field *f, weft_ghosts ghosts)
{
    *f = (field){ .ndim = 2, .shape = { 12, 10 }, .ghosts = ghosts, .num_local = weft_local_ranks() };
    f->mesh = weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL);
    f->placements[0] = weft_shard_balanced(0);
    for (int which = 0; which < 2; which++) {
        f->dense[which] = calloc(120, sizeof(int64_t));
        for (int64_t e = 0; e < 120; e++) {
            f->dense[which][e] = 7 * e + which;
        }
    }
    for (int i = 0; i < f->num_local; i++) {
        weft_shard_box(f->mesh, f->placements, 2, f->shape, weft_first_rank() + i, f->own[i].offset, f->own[i].extent);
        for (int d = 0; d < 2; d++) {
            f->padded[i][d] = f->own[i].extent[d] + ghosts.before[d] + ghosts.after[d];
        }
        for (int which = 0; which < 2; which++) {
            f->arrays[which][i] = calloc((size_t)count_in_array(f, i), sizeof(int64_t));
        }
    }
    for (int which = 0; which < 2; which++) {
        store(f, which);
        f->tensors[which] =
            weft_from_ghosted(WEFT_I64, 2, f->shape, (void *const *)f->arrays[which], &f->ghosts, f->mesh, f->placements);
        assert_no_error();
    }
}

static void only_margins_move(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 2, 3 }, .after = { 1, 3 }, .periodic = { true, false } });
    const weft_operation *stencil = register_stencil(2);
    weft_counters before, after;
    weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1, .numbers = { 1, 1, 2, 0 } };
    weft_tensor *tensors[] = { f.tensors[0], f.tensors[1], f.tensors[1] };
    weft_get_counters(&before, sizeof(before));
    weft_apply(stencil, 3, tensors, &options);
    weft_get_counters(&after, sizeof(after));
    int world = weft_world_size(), hosted = weft_local_ranks();
    uint64_t rows = world == 1 ? 0 : (uint64_t)hosted * 3; /* of other ranks, without their columns of margin */
    assert_int_equal(after.bytes_moved - before.bytes_moved, rows * 10 * sizeof(int64_t));
    assert_int_equal(after.views_copied, before.views_copied);
    weft_get_counters(&before, sizeof(before));
    weft_apply(stencil, 3, tensors, &options); /* the margins are fresh */
    weft_get_counters(&after, sizeof(after));
    assert_int_equal(after.bytes_moved, before.bytes_moved);
    assert_int_equal(after.tensor_bytes, before.tensor_bytes); /* nothing has a copy */
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    free_field(&f);
    world_stop(NULL);
}

static void wrong_uses(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 1, 1 }, .after = { 1, 1 } });
    const weft_operation *stencil = register_stencil(2);
    weft_tensor *plain = weft_zeros(WEFT_I64, 2, f.shape, f.mesh, NULL);
    weft_apply_options options = { .num_numbers = 2 * MAX_DIMS + 1, .numbers = { 2, 0, 0, 0 } };
    assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ f.tensors[0], f.tensors[1], plain }, &options));
    assert_error(WEFT_ERR_SHAPE, "now lies in ghosted arrays: the margins of its arrays are narrower than the halo");
    options.numbers[0] = 1;
    assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ f.tensors[0], f.tensors[0], plain }, &options));
    assert_error(WEFT_ERR_INVALID, "now lies in ghosted arrays: it is given twice");
    if (weft_world_size() > 1) {
        assert_null(weft_apply(stencil, 3, (weft_tensor *[]){ plain, f.tensors[1], plain }, &options));
        assert_error(WEFT_ERR_LAYOUT, "now lies in ghosted arrays, and the other tensors are cut in another way");
    }
    assert_int_equal(weft_halo_exchange(plain), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor does not lie in ghosted arrays");
    assert_int_equal(weft_halo_exchange(NULL), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "tensor is NULL");
    assert_null(weft_local_acquire(f.tensors[0], 0, WEFT_READ));
    assert_error(WEFT_ERR_UNSUPPORTED, "the tensor lies in ghosted arrays");
    assert_false(weft_tensor_is_fake(f.tensors[0]));
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], NULL, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "ghosts is NULL");
    assert_null(weft_from_ghosted(WEFT_I64, 0, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, NULL));
    assert_error(WEFT_ERR_SHAPE, "ndim is 0");
    const weft_ghosts less_than_none = { .after = { 0, -2 } };
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], &less_than_none, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "after[1] is -2");
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, NULL, &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "locals is NULL");
    assert_null(weft_from_ghosted(WEFT_I64, 2, NULL, (void *const *)f.arrays[0], &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, "shape");
    assert_null(weft_from_ghosted((weft_dtype)WEFT_DTYPE_COUNT, 2, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "dtype");
    weft_placement twice[] = { { .kind = WEFT_SHARD, .cut = WEFT_CUT_ZIGZAG } };
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, (void *const *)f.arrays[0], &f.ghosts, f.mesh, twice));
    assert_error(weft_world_size() > 1 ? WEFT_ERR_LAYOUT : WEFT_ERR_INVALID, weft_world_size() > 1 ? "deals rows out" : "");
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    free_field(&f);
    world_stop(NULL);
}

/* One process forgets an array: all get its status, and can go on. */
static void one_process_is_wrong(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 1, 0 } });
    void *arrays[MAX_LOCAL];
    memcpy(arrays, f.arrays[0], sizeof(arrays));
    bool wrong = weft_process_index() == weft_num_processes() - 1;
    if (wrong) {
        arrays[0] = NULL;
    }
    assert_null(weft_from_ghosted(WEFT_I64, 2, f.shape, arrays, &f.ghosts, f.mesh, f.placements));
    assert_error(WEFT_ERR_INVALID, wrong ? "locals[0] is NULL" : "gave wrong arguments");
    assert_int_equal(weft_halo_exchange(f.tensors[0]), WEFT_OK);
    assert_int_equal(weft_wait(), WEFT_OK);
    check_arrays(&f, 0, true);
    weft_scope_end();
    free_field(&f);
    world_stop(NULL);
}

/* context: a ghosted tensor, or NULL. */
static weft_status add_ghosted(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    outputs[0] = weft_add(inputs[0], context == NULL ? inputs[0] : context);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void captured_graphs_refuse(void **state)
{
    (void)state;
    WORLD(4);
    field f;
    weft_scope_begin();
    make_rows(&f, (weft_ghosts){ .before = { 1, 0 } });
    weft_tensor *output = NULL, *plain = weft_neg(f.tensors[0]);
    weft_graph *graph = weft_graph_create("input", add_ghosted, NULL, 1, 0, 1);
    assert_int_equal(weft_graph_call(graph, &f.tensors[0], NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "inputs[0] lies in ghosted arrays");
    assert_null(output);
    weft_graph *inner = weft_graph_create("inner", add_ghosted, f.tensors[0], 1, 0, 1);
    assert_int_equal(weft_graph_call(inner, &plain, NULL, &output), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "a captured graph has no ghosted arrays");
    assert_int_equal(weft_graph_call(graph, &plain, NULL, &output), WEFT_OK);
    weft_graph_destroy(graph);
    weft_graph_destroy(inner);
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    free_field(&f);
    world_stop(NULL);
}

int main(void)
{
    num_programs = cases_to_run(3000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs),
        cmocka_unit_test(only_margins_move),
        cmocka_unit_test(wrong_uses),
        cmocka_unit_test(one_process_is_wrong),
        cmocka_unit_test(captured_graphs_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
