/* Operations in place whose tensors share memory. Values are what a tensor has, not memory: whatever its
 * inputs share with the target, a call gives what it gives of independent copies, and other tensors keep
 * their values.
 * test-in_place HEADER...   functions named weft_..._() in these headers must all be here */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"

#include "operand.h"

enum { MAX_TENSORS = 4, MAX_OTHERS = 8, CASES = 150 };

static const char *const *headers;
static int num_headers;

/* ---- what is called ------------------------------------------------------------------------------------ */

typedef enum role {
    NONE,
    LIKE,    /* of the target's shape and type */
    BESIDE,  /* the same, or smaller and repeated */
    STATE,   /* of the target's layout, and changed */
    INDICES, /* of the target's shape, in the range of dimension 0: the target has such values */
    ROWS     /* of one dimension, of the target's size in dimension 0, and in its range */
} role;

typedef struct call {
    const char *function;
    const char *operations[6]; /* names of those in place that it carries out */
    role roles[MAX_TENSORS];   /* of tensors 1, 2, ...; the target is tensor 0 */
    bool floating;             /* the types that it takes */
    bool distinct;             /* what is changed must not be another tensor of the call */
    bool partial;              /* the target may be Partial(sum) */
    int ndim;                  /* of the target; 0: any */
    bool (*run)(weft_tensor *const t[]);
} call;

#define RUN(name, expression)                                                                                \
    static bool run_##name(weft_tensor *const t[])                                                           \
    {                                                                                                        \
        return expression;                                                                                   \
    }

RUN(copy, weft_copy_inplace(t[0], t[1]) == t[0])
RUN(add, weft_add_inplace(t[0], t[1], 3) == t[0])
RUN(mul, weft_mul_inplace(t[0], t[1]) == t[0])
RUN(div, weft_div_inplace(t[0], t[1]) == t[0])
RUN(lerp, weft_lerp_inplace(t[0], t[1], 0.25) == t[0])
RUN(scale, weft_scale_inplace(t[0], 3) == t[0])
RUN(fill, weft_fill_inplace(t[0], 3) == t[0])
RUN(uniform, weft_random_seed(5) == WEFT_OK && weft_uniform_inplace(t[0], 1, 2) == t[0])
RUN(normal, weft_random_seed(6) == WEFT_OK && weft_normal_inplace(t[0], 1, 2) == t[0])
RUN(scatter_add, weft_scatter_add_inplace(t[0], 0, t[1], t[2]) == t[0])
RUN(index_add, weft_index_add_inplace(t[0], 0, t[1], t[2]) == t[0])

static bool run_sgd(weft_tensor *const t[])
{
    weft_sgd_options options = { .learning_rate = 0.5, .weight_decay = 0.25 };
    return weft_sgd(1, t, t + 1, &options, NULL) == WEFT_OK;
}

static bool run_sgd_momentum(weft_tensor *const t[])
{
    weft_sgd_options options = { .learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.25 };
    return weft_sgd(1, t, t + 2, &options, t + 1) == WEFT_OK;
}

static bool run_sgd_nesterov(weft_tensor *const t[])
{
    weft_sgd_options options = {
        .learning_rate = 0.5, .momentum = 0.5, .weight_decay = 0.25, .nesterov = true
    };
    return weft_sgd(1, t, t + 2, &options, t + 1) == WEFT_OK;
}

static bool run_adam(weft_tensor *const t[])
{
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    options.weight_decay = 0.25;
    return weft_adam(1, t, t + 3, t + 1, t + 2, 3, &options) == WEFT_OK;
}

static bool run_adamw(weft_tensor *const t[])
{
    weft_adam_options options = WEFT_ADAMW_DEFAULT;
    return weft_adamw(1, t, t + 3, t + 1, t + 2, 3, &options) == WEFT_OK;
}

static bool run_clip(weft_tensor *const t[])
{
    return weft_clip_grad_norm(3, t, 1, 2, NULL) == WEFT_OK;
}

/* The program writes to it. */
static bool run_acquire(weft_tensor *const t[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t coordinate[3], offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        if (!weft_mesh_coordinate(weft_tensor_mesh(t[0]), weft_first_rank() + i, coordinate)) {
            continue;
        }
        float *values = weft_local_acquire(t[0], i, WEFT_READ_WRITE);
        if (values == NULL || weft_local_box(t[0], i, offset, extent) != WEFT_OK) {
            return false;
        }
        for (int64_t e = 0; e < shape_count(weft_tensor_ndim(t[0]), extent); e++) {
            values[e] += 1;
        }
        weft_local_release(t[0], i);
    }
    return true;
}

/* An operation of the program's own, every task of which reads all rows of an input: a[i] += sum of b[m]. */
static const weft_operation *op_add_rows;

static void add_rows(const weft_kernel_call *c)
{
    for (int64_t i = 0; i < weft_view_rows(&c->output); i++) {
        float *out = weft_view_row(&c->output, i, NULL);
        for (int64_t m = 0; m < weft_view_rows(&c->inputs[0]); m++) {
            out[0] += *(const float *)weft_view_row(&c->inputs[0], m, NULL);
        }
    }
}

static void register_operations(void)
{
    const weft_operation_input input = { "a", WEFT_TYPE_BIT(WEFT_F32), false };
    op_add_rows = weft_operation_register(&(weft_operation_description){ .name = "add_rows",
                                                                         .rule = "n,[m]->n",
                                                                         .inputs = { input, input },
                                                                         .in_place = true,
                                                                         .kernel = add_rows });
    assert_no_error();
}

RUN(own, weft_apply(op_add_rows, 2, t, NULL) == t[0])

static const call calls[] = {
    { "weft_copy_inplace", { "copy_inplace" }, { BESIDE }, .partial = true, .run = run_copy },
    { "weft_add_inplace", { "add_inplace" }, { BESIDE }, .partial = true, .run = run_add },
    { "weft_mul_inplace", { "mul_inplace" }, { BESIDE }, .partial = true, .run = run_mul },
    { "weft_div_inplace", { "div_inplace" }, { BESIDE }, .floating = true, .run = run_div },
    { "weft_lerp_inplace",
      { "lerp_inplace" },
      { BESIDE },
      .floating = true,
      .partial = true,
      .run = run_lerp },
    { "weft_scale_inplace", { "scale_inplace" }, { NONE }, .partial = true, .run = run_scale },
    { "weft_fill_inplace", { "fill_inplace" }, { NONE }, .run = run_fill },
    { "weft_uniform_inplace", { "uniform" }, { NONE }, .floating = true, .run = run_uniform },
    { "weft_normal_inplace", { "normal" }, { NONE }, .floating = true, .run = run_normal },
    { "weft_scatter_add_inplace", { "add_inplace" }, { INDICES, LIKE }, .run = run_scatter_add },
    { "weft_index_add_inplace", { "add_inplace" }, { ROWS, LIKE }, .run = run_index_add },
    { "weft_sgd", { "sgd" }, { LIKE }, .floating = true, .distinct = true, .run = run_sgd },
    { "weft_sgd",
      { "momentum", "sgd_momentum" },
      { STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_sgd_momentum },
    { "weft_sgd",
      { "momentum", "sgd_nesterov" },
      { STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_sgd_nesterov },
    { "weft_adam",
      { "moment", "moment_decayed", "square_moment", "square_moment_decayed", "adam" },
      { STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_adam },
    { "weft_adamw",
      { "moment", "square_moment", "adam" },
      { STATE, STATE, LIKE },
      .floating = true,
      .distinct = true,
      .run = run_adamw },
    { "weft_clip_grad_norm",
      { "mul_inplace" },
      { STATE, STATE },
      .floating = true,
      .distinct = true,
      .partial = true,
      .run = run_clip },
    { "weft_local_acquire", { NULL }, { NONE }, .floating = true, .run = run_acquire },
    { "weft_apply", { NULL }, { LIKE }, .floating = true, .ndim = 1, .run = run_own },
};
enum { NUM_CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- tensors ------------------------------------------------------------------------------------------- */

typedef struct scene {
    const call *call;
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_dtype dtype;
    int ndim;
    int64_t shape[3];
    weft_tensor *tensors[MAX_TENSORS];
    int num_tensors;
    weft_tensor *others[MAX_OTHERS]; /* share memory with those */
    int num_others;
    char *lent[MAX_RANKS]; /* memory that the target's shards lie in */
    char text[400];
} scene;

static void say(scene *s, const char *text)
{
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, " %s", text);
}

/* Whole numbers 0 .. size of dimension 0 - 1, so that they can be indices too. */
static weft_tensor *fresh(const scene *s, int ndim, const int64_t shape[], const weft_placement *placements,
                          void **lent)
{
    void *locals[MAX_RANKS] = { NULL };
    uint64_t salt = prng_next(&source);
    int64_t limit = s->ndim > 0 && s->shape[0] > 0 ? s->shape[0] : 1;
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS], coordinate[3];
        int rank = weft_first_rank() + i;
        if (!weft_mesh_coordinate(s->mesh, rank, coordinate)) {
            continue;
        }
        weft_shard_box(s->mesh, placements, ndim, shape, rank, offset, extent);
        int64_t count = shape_count(ndim, extent);
        locals[i] = malloc((size_t)count * sizeof(int64_t) + 1);
        for (int64_t e = 0; e < count; e++) {
            prng element = { salt + (uint64_t)dense_index(ndim, shape, offset, extent, e) * 77 };
            int64_t value = prng_below(&element, limit);
            if (s->dtype == WEFT_F32) {
                ((float *)locals[i])[e] = (float)value;
            } else {
                ((int64_t *)locals[i])[e] = value;
            }
        }
    }
    weft_tensor *tensor =
        weft_from_local(s->dtype, ndim, shape, locals, s->mesh, placements, lent == NULL ? WEFT_COPY : 0);
    for (int i = 0; i < weft_local_ranks(); i++) {
        if (lent != NULL) {
            lent[i] = locals[i];
        } else {
            free(locals[i]);
        }
    }
    assert_no_error();
    return tensor;
}

/* With memory of its own. */
static weft_tensor *copy_of(weft_tensor *tensor)
{
    void *locals[MAX_RANKS] = { NULL };
    int64_t shape[WEFT_MAX_DIMS], coordinate[3];
    weft_mesh *mesh = weft_tensor_mesh(tensor);
    int ndim = weft_tensor_ndim(tensor);
    for (int d = 0; d < ndim; d++) {
        shape[d] = weft_tensor_size(tensor, d);
    }
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        if (weft_mesh_coordinate(mesh, weft_first_rank() + i, coordinate)) {
            weft_local_box(tensor, i, offset, extent);
            locals[i] = malloc(weft_local_bytes(tensor, i) + 1);
            assert_int_equal(weft_local_to_host(tensor, i, locals[i], weft_local_bytes(tensor, i)), WEFT_OK);
        }
    }
    weft_tensor *copy = weft_from_local(weft_tensor_dtype(tensor), ndim, shape, locals, mesh,
                                        weft_tensor_placements(tensor), WEFT_COPY);
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(locals[i]);
    }
    assert_no_error();
    return copy;
}

/* ---- what shares memory -------------------------------------------------------------------------------- */

static weft_tensor *note_other(scene *s, weft_tensor *tensor)
{
    assert_no_error();
    assert_true(s->num_others < MAX_OTHERS);
    s->others[s->num_others++] = tensor;
    return tensor;
}

static weft_tensor *flattened(weft_tensor *tensor, int ndim, const int64_t shape[])
{
    int64_t count = shape_count(ndim, shape);
    return weft_reshape(tensor, 1, &count);
}

static weft_tensor *make_target(scene *s)
{
    bool partial = false;
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        partial |= s->placements[m].kind == WEFT_PARTIAL;
    }
    weft_placement copies[3] = { weft_replicate(), weft_replicate(), weft_replicate() };
    switch (below(6)) {
    case 0:
        say(s, "lent");
        return fresh(s, s->ndim, s->shape, s->placements, (void **)s->lent);
    case 1: {
        if (s->ndim == 0) {
            break;
        }
        say(s, "some rows of more");
        int64_t shape[3] = { 3 * s->shape[0] + 2, s->shape[1], s->shape[2] }, first = below(s->shape[0] + 2);
        weft_tensor *all = note_other(s, fresh(s, s->ndim, shape, s->placements, NULL));
        note_other(s, weft_slice(all, 0, 0, s->shape[0]));
        return weft_redistribute(weft_slice(all, 0, first, first + s->shape[0]), s->mesh, s->placements);
    }
    case 2:
        say(s, "reshaped");
        return weft_reshape(
            flattened(note_other(s, fresh(s, s->ndim, s->shape, s->placements, NULL)), s->ndim, s->shape),
            s->ndim, s->shape);
    case 3:
        if (partial) {
            break;
        }
        say(s, "its part of copies");
        return weft_redistribute(note_other(s, fresh(s, s->ndim, s->shape, copies, NULL)), s->mesh,
                                 s->placements);
    case 4: {
        say(s, "taken over");
        weft_tensor *other = note_other(s, fresh(s, s->ndim, s->shape, s->placements, NULL));
        return weft_copy_inplace(fresh(s, s->ndim, s->shape, s->placements, NULL), other);
    }
    default:
        break;
    }
    say(s, "new");
    return fresh(s, s->ndim, s->shape, s->placements, NULL);
}

/* Of the target's shape. */
static weft_tensor *make_like(scene *s, bool itself)
{
    weft_tensor *target = s->tensors[0];
    switch (below(5)) {
    case 0:
        if (itself) {
            say(s, "itself");
            return target;
        }
        break;
    case 1:
        say(s, "itself, reshaped");
        return weft_reshape(flattened(target, s->ndim, s->shape), s->ndim, s->shape);
    case 2:
        say(s, "a tensor that took it over");
        return weft_copy_inplace(fresh(s, s->ndim, s->shape, weft_tensor_placements(target), NULL), target);
    case 3:
        if (s->num_others > 0 && s->ndim > 0 && weft_tensor_ndim(s->others[0]) == s->ndim) {
            say(s, "other rows of the same");
            return weft_slice(s->others[0], 0, 0, s->shape[0]);
        }
        break;
    default:
        break;
    }
    say(s, "new");
    return fresh(s, s->ndim, s->shape, weft_tensor_placements(target), NULL);
}

static weft_tensor *make_row(scene *s)
{
    weft_tensor *target = s->tensors[0];
    if (s->ndim == 0 || s->shape[0] == 0) {
        return make_like(s, true);
    }
    say(s, "a row of itself");
    return below(2) ? weft_slice(target, 0, 0, 1) : weft_select(target, 0, s->shape[0] - 1);
}

/* In the target's layout, and no other tensor of the call. */
static weft_tensor *make_state(scene *s)
{
    weft_tensor *target = s->tensors[0], *like = make_like(s, false);
    weft_tensor *state =
        s->call->partial ? like : weft_redistribute(like, s->mesh, weft_tensor_placements(target));
    for (int i = 0; i < s->num_tensors; i++) {
        if (s->tensors[i] == state) {
            state =
                weft_copy_inplace(fresh(s, s->ndim, s->shape, weft_tensor_placements(target), NULL), state);
        }
    }
    return state;
}

/* The target's elements of column 0. */
static weft_tensor *make_index(const scene *s)
{
    weft_tensor *index = s->tensors[0];
    for (int d = s->ndim - 1; d > 0; d--) {
        index = weft_select(index, d, 0);
    }
    return s->dtype == WEFT_F32 ? weft_to_type(index, WEFT_I64) : index;
}

static weft_tensor *make_input(scene *s, role wanted)
{
    switch (wanted) {
    case BESIDE:
        return below(3) == 0 ? make_row(s) : make_like(s, true);
    case STATE:
        return make_state(s);
    case INDICES: {
        weft_tensor *indices = make_like(s, true);
        return s->dtype == WEFT_F32 ? weft_to_type(indices, WEFT_I64) : indices;
    }
    case ROWS:
        return make_index(s);
    default:
        return make_like(s, !s->call->distinct);
    }
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static scene make_scene(const call *c)
{
    bool indexed = c->roles[0] == INDICES || c->roles[0] == ROWS;
    scene s = { .call = c, .mesh = any_mesh() };
    s.dtype = c->floating || below(2) ? WEFT_F32 : WEFT_I64;
    s.ndim = c->ndim > 0 ? c->ndim : indexed ? 1 + (int)below(3) : (int)below(4);
    for (int d = 0; d < s.ndim; d++) {
        s.shape[d] = indexed ? 1 + below(6) : below(7);
    }
    random_placements(&source, s.mesh, s.ndim, false, s.placements);
    for (int m = 0; m < weft_mesh_ndim(s.mesh) && c->partial && below(4) == 0; m++) {
        s.placements[m] = below(2) ? weft_partial(WEFT_SUM) : s.placements[m];
    }
    snprintf(s.text, sizeof(s.text), "%s of %s, target", c->function,
             describe(s.mesh, s.placements, s.ndim, s.shape));
    s.tensors[0] = make_target(&s);
    s.num_tensors = 1;
    for (int i = 0; c->roles[i] != NONE; i++) {
        say(&s, "| input");
        s.tensors[s.num_tensors++] = make_input(&s, c->roles[i]);
    }
    assert_no_error();
    return s;
}

/* Shards that the program lent have the values when all has ended. */
static void check_lent(const scene *s)
{
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
        if (s->lent[i] != NULL && weft_local_box(s->tensors[0], i, offset, extent) == WEFT_OK) {
            size_t bytes = (size_t)shape_count(s->ndim, extent) * weft_dtype_size(s->dtype);
            char *values = malloc(bytes + 1);
            assert_int_equal(weft_local_to_host(s->tensors[0], i, values, bytes), WEFT_OK);
            assert_memory_equal(values, s->lent[i], bytes);
            free(values);
        }
    }
}

static void run_scene(const scene *s)
{
    const call *c = s->call;
    weft_tensor *copies[MAX_TENSORS], *kept[MAX_OTHERS];
    for (int i = 0; i < s->num_tensors; i++) {
        copies[i] = copy_of(s->tensors[i]);
    }
    for (int i = 0; i < s->num_others; i++) {
        kept[i] = copy_of(s->others[i]);
    }
    bool right = c->run(copies);
    weft_status status = weft_last_status();
    weft_clear_error();
    bool done = c->run(s->tensors);
    if (done != right || weft_last_status() != status) {
        fail_msg("%s: %s", s->text, weft_last_error());
    }
    weft_clear_error();
    for (int i = 0; i < s->num_tensors; i++) {
        /* A target that is an input too has changed as a target does-> */
        assert_same_shards(s->tensors[i], s->tensors[i] == s->tensors[0] ? copies[0] : copies[i], s->text);
    }
    for (int i = 0; i < s->num_others; i++) {
        if (s->others[i] != s->tensors[0]) { /* what has the layout already is redistributed to itself */
            assert_same_shards(s->others[i], kept[i], s->text);
        }
    }
    check_lent(s);
}

/* What is lent must stay until the tensors are gone and their tasks have ended. */
static void one_case(const call *c)
{
    weft_scope_open();
    scene s = make_scene(c);
    run_scene(&s);
    weft_scope_close();
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < MAX_RANKS; i++) {
        free(s.lent[i]);
    }
}

static void run_cases(const char *panel_rows, uint64_t seed)
{
    start_world(panel_rows == NULL ? NULL : "WEFT_PANEL_ROWS", panel_rows);
    register_operations();
    source = prng_start(seed);
    const char *text = getenv("WEFT_TEST_CASES");
    int cases = text != NULL ? atoi(text) : weft_num_processes() > 1 ? CASES / 4 : CASES;
    for (int i = 0; i < NUM_CALLS * cases; i++) {
        one_case(&calls[i % NUM_CALLS]);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void test_panels_by_default(void **state)
{
    (void)state;
    run_cases(NULL, 1);
}

static void test_panels_of_one_row(void **state)
{
    (void)state;
    run_cases("1", 2);
}

static void test_panels_of_two_rows(void **state)
{
    (void)state;
    run_cases("2", 3);
}

/* Rows of a large tensor, copied to themselves: they cannot take over their own memory, which is mostly
 * others'. */
static void test_copy_to_itself(void **state)
{
    (void)state;
    start_world(NULL, NULL);
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ MAX_RANKS }, NULL);
    float values[12], found[3];
    for (int i = 0; i < 12; i++) {
        values[i] = (float)i;
    }
    /* What is there is not there again by chance. */
    weft_tensor_release(weft_full(WEFT_F32, 1, (int64_t[]){ 3 }, -1, mesh, NULL));
    weft_tensor *all = weft_distribute(WEFT_F32, 1, (int64_t[]){ 12 }, values, mesh, NULL);
    weft_tensor *rows = weft_slice(all, 0, 4, 7);
    assert_ptr_equal(weft_copy_inplace(rows, rows), rows);
    assert_int_equal(weft_to_host(rows, found, sizeof(found)), WEFT_OK);
    assert_memory_equal(found, values + 4, sizeof(found));
    assert_shards(rows, NULL, NULL, "copied to itself");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- that nothing is missing --------------------------------------------------------------------------- */

static bool is_called(const char *function, size_t length)
{
    for (int i = 0; i < NUM_CALLS; i++) {
        if (strlen(calls[i].function) == length && strncmp(calls[i].function, function, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Every public function whose name says that it works in place. */
static void test_all_functions(void **state)
{
    (void)state;
    int found = 0;
    for (int h = 0; h < num_headers; h++) {
        FILE *file = fopen(headers[h], "r");
        assert_non_null(file);
        char line[400];
        while (fgets(line, sizeof(line), file) != NULL) {
            char *end = strncmp(line, "WEFT_API", 8) == 0 ? strstr(line, "_inplace(") : NULL, *begin = end;
            while (begin != NULL && begin > line && begin[-1] != '*' && begin[-1] != ' ') {
                begin--;
            }
            if (begin != NULL && !is_called(begin, (size_t)(end + strlen("_inplace") - begin))) {
                fail_msg("%s: no calls of %s", headers[h], line);
            }
            found += begin != NULL;
        }
        fclose(file);
    }
    assert_in_range(found, 11, 1000);
}

/* Every operation in place; those that only the library itself calls are named here. */
static void test_all_operations(void **state)
{
    (void)state;
    static const char *const internal[] = { "cat",
                                            "attention_state",
                                            "attention_backward_q",
                                            "attention_backward_kv",
                                            "randint",
                                            "bernoulli_scalar",
                                            "randperm" };
    for (int f = 0; weft_operation_families[f] != NULL; f++) {
        for (int i = 0; weft_operation_families[f][i] != NULL; i++) {
            const weft_operation *operation = weft_operation_families[f][i];
            bool found = !operation->in_place;
            for (int k = 0; k < NUM_CALLS * 6 && !found; k++) {
                const char *name = calls[k / 6].operations[k % 6];
                found = name != NULL && strcmp(name, operation->name) == 0;
            }
            for (size_t k = 0; k < sizeof(internal) / sizeof(internal[0]) && !found; k++) {
                found = strcmp(internal[k], operation->name) == 0;
            }
            if (!found) {
                fail_msg("no call of %s, which is in place", operation->name);
            }
        }
    }
}

int main(int count, char **arguments)
{
    headers = (const char *const *)arguments + 1;
    num_headers = count - 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_functions),      cmocka_unit_test(test_all_operations),
        cmocka_unit_test(test_panels_by_default),  cmocka_unit_test(test_panels_of_one_row),
        cmocka_unit_test(test_panels_of_two_rows), cmocka_unit_test(test_copy_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
