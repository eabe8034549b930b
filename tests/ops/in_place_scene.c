#include "in_place_scene.h"
#include "values.h"

#include <stdio.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------------------------------------- */

static void say(scene *s, const char *text)
{
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, " %s", text);
}

/* Context of the writer of a shard. */
typedef struct numbers {
    const scene *scene;
    int ndim;
    const int64_t *shape;
    uint64_t salt;
} numbers;

/* Whole numbers 0 .. size of dimension 0 - 1, so that they can be indices too. */
static void write_numbers(const hosted_shard *shard, const void *context)
{
    const numbers *n = context;
    const scene *s = n->scene;
    int64_t limit = s->ndim > 0 && s->shape[0] > 0 ? s->shape[0] : 1;
    for (int64_t e = 0; e < shard->count; e++) {
        int64_t number = shard_element(shard, n->ndim, n->shape, e);
        prng element = { n->salt + (uint64_t)number * 77 };
        write_as(s->dtype, shard->values, e, (double)prng_below(&element, limit));
    }
}

/* `lent` (NULL: no): gets the shards' memory, which the tensor uses. */
static weft_tensor *fresh(const scene *s, int ndim, const int64_t shape[], const weft_placement *placements,
                          void **lent)
{
    numbers n = { s, ndim, shape, prng_next(&source) };
    if (lent == NULL) {
        return make_of_shards(s->dtype, ndim, shape, s->mesh, placements, write_numbers, &n);
    }
    make_locals(s->dtype, ndim, shape, s->mesh, placements, write_numbers, &n, lent);
    weft_tensor *tensor = weft_from_local(s->dtype, ndim, shape, lent, s->mesh, placements, 0);
    assert_no_error();
    return tensor;
}

static void write_copy(const hosted_shard *shard, const void *context)
{
    weft_tensor *tensor = *(weft_tensor *const *)context;
    int local_rank = shard->rank - weft_first_rank();
    assert_int_equal(
        weft_local_to_host(tensor, local_rank, shard->values, weft_local_bytes(tensor, local_rank)), WEFT_OK);
}

weft_tensor *copy_of(weft_tensor *tensor)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = weft_tensor_ndim(tensor);
    for (int d = 0; d < ndim; d++) {
        shape[d] = weft_tensor_size(tensor, d);
    }
    return make_of_shards(weft_tensor_dtype(tensor), ndim, shape, weft_tensor_mesh(tensor),
                          weft_tensor_placements(tensor), write_copy, &tensor);
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
        weft_placement placements[3];
        memcpy(placements, s->placements, sizeof(placements));
        forget_sizes(weft_mesh_ndim(s->mesh), placements);
        weft_tensor *all = note_other(s, fresh(s, s->ndim, shape, placements, NULL));
        note_other(s, weft_slice(all, 0, 0, s->shape[0], 1));
        return weft_redistribute(weft_slice(all, 0, first, first + s->shape[0], 1), s->mesh, s->placements);
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

/* A tensor of the target's shape. */
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
            return weft_slice(s->others[0], 0, 0, s->shape[0], 1);
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
    return below(2) ? weft_slice(target, 0, 0, 1, 1) : weft_select(target, 0, s->shape[0] - 1);
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

scene make_scene(const call *c)
{
    bool indexed = c->roles[0] == INDICES || c->roles[0] == ROWS;
    scene s = { .call = c, .mesh = any_mesh() };
    s.dtype = c->floating || below(2) ? WEFT_F32 : WEFT_I64;
    s.ndim = c->ndim > 0 ? c->ndim : indexed ? 1 + (int)below(3) : (int)below(4);
    for (int d = 0; d < s.ndim; d++) {
        s.shape[d] = indexed ? 1 + below(6) : below(7);
    }
    random_placements(&source, s.mesh, s.ndim, false, s.placements);
    random_cut_sizes(&source, s.mesh, s.ndim, s.shape, s.placements);
    for (int m = 0; m < weft_mesh_ndim(s.mesh) && c->partial && below(4) == 0; m++) {
        s.placements[m] = below(2) ? weft_partial(WEFT_SUM) : s.placements[m];
    }
    snprintf(s.text, sizeof(s.text), "%s:%d: %s of %s, target", c->place.file, c->place.line, c->function,
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
