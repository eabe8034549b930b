/* Parameters with gradients and states, beside plain arrays, for tests of optimisers. */
#ifndef WEFT_TESTS_OPS_OPTIMIZER_SCENE_H
#define WEFT_TESTS_OPS_OPTIMIZER_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/half.h"
#include "operand.h"

enum { MAX_ITEMS = 3, STEPS = 3, SCENE_STATES = 3, SCENE_LISTS = SCENE_STATES + 1 };

/* One parameter with its state; the arrays have the expected values. */
typedef struct item {
    weft_dtype type, state_type;
    operand parameter; /* its type is that of the states; the tensor below has the item's */
    weft_tensor *tensor, *states[SCENE_STATES];
    double *value, *state[SCENE_STATES];
} item;

typedef struct scene {
    weft_mesh *mesh;
    int n;
    item items[MAX_ITEMS];
    operand gradients[MAX_ITEMS]; /* of the present step */
    weft_tensor *parameters[MAX_ITEMS], *gradient_tensors[MAX_ITEMS], *states[SCENE_STATES][MAX_ITEMS];
} scene;

static double rounded(weft_dtype type, double x)
{
    switch (type) {
    case WEFT_F32:
        return (double)(float)x;
    case WEFT_BF16:
        return (double)weft_bf16_to_f32(weft_f32_to_bf16((float)x));
    case WEFT_F16:
        return (double)weft_f16_to_f32(weft_f32_to_f16((float)x));
    default:
        return x;
    }
}

/* Whole numbers, whose sums are exact: gradients near 0 would make Adam's step a matter of chance. */
static operand make_gradient(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[])
{
    operand x = make_operand(mesh, type, ndim, shape, WHOLE, 0);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        x.placements[m].op = x.placements[m].op == WEFT_AVG ? WEFT_SUM : x.placements[m].op;
    }
    realise(&x);
    return x;
}

static void make_item(scene *s, int i)
{
    static const weft_dtype types[] = { WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16 };
    item *it = &s->items[i];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = random_shape(&source, 3, 9, shape);
    it->type = types[below(4)];
    it->state_type = it->type == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    it->parameter = make_operand(s->mesh, it->state_type, ndim, shape, WHOLE, 0);
    for (int m = 0; m < weft_mesh_ndim(s->mesh); m++) {
        if (it->parameter.placements[m].kind == WEFT_PARTIAL) {
            it->parameter.placements[m] = weft_replicate();
        }
    }
    realise(&it->parameter);
    it->tensor = weft_add_scalar(weft_to_type(it->parameter.tensor, it->type), 0);
    s->parameters[i] = it->tensor;
    size_t size = ((size_t)it->parameter.count + 1) * sizeof(double);
    it->value = memcpy(malloc(size), it->parameter.dense, size - sizeof(double));
    for (int k = 0; k < SCENE_STATES; k++) {
        it->states[k] = s->states[k][i] = weft_zeros_like(it->parameter.tensor);
        it->state[k] = calloc(1, size);
    }
    assert_no_error();
}

static void make_scene(scene *s)
{
    *s = (scene){ .mesh = any_mesh(), .n = (int)below(MAX_ITEMS + 1) };
    for (int i = 0; i < s->n; i++) {
        make_item(s, i);
    }
}

static void new_gradients(scene *s)
{
    for (int i = 0; i < s->n; i++) {
        const operand *p = &s->items[i].parameter;
        weft_dtype type = below(3) == 0 ? any_float() : s->items[i].state_type;
        s->gradients[i] = make_gradient(s->mesh, type, p->ndim, p->shape);
        bool half = s->items[i].type != s->items[i].state_type && below(2);
        s->gradient_tensors[i] =
            half ? weft_to_type(s->gradients[i].tensor, s->items[i].type) : s->gradients[i].tensor;
        if (below(5) == 0) { /* the loss does not depend on this parameter */
            s->gradient_tensors[i] = NULL;
        }
    }
}

static void drop_gradients(scene *s)
{
    for (int i = 0; i < s->n; i++) {
        release(&s->gradients[i]);
    }
}

static void drop_scene(scene *s)
{
    for (int i = 0; i < s->n; i++) {
        release(&s->items[i].parameter);
        free(s->items[i].value);
        for (int k = 0; k < SCENE_STATES; k++) {
            free(s->items[i].state[k]);
        }
    }
}

static const char *describe_item(const scene *s, int i, const char *what)
{
    static char text[500];
    snprintf(text, sizeof(text), "%s of parameter %d (%s, %s), gradient %s", what, i,
             weft_dtype_name(s->items[i].type), describe_operand(&s->items[i].parameter),
             describe_operand(&s->gradients[i]));
    return text;
}

/* Units of the last place of 16-bit types, in those of f32. */
static double roundings_of(weft_dtype type)
{
    return type == WEFT_BF16 ? 0x1p16 * 2 : type == WEFT_F16 ? 0x1p13 * 2 : 64;
}

static void check_scene(const scene *s, int num_states)
{
    for (int i = 0; i < s->n; i++) {
        const item *it = &s->items[i];
        assert_int_equal(weft_tensor_dtype(it->tensor), it->type);
        for (int k = 0; k < num_states; k++) {
            /* What was decayed by a weight of 16 bits differs as that does. */
            check(it->states[k], it->state_type, it->parameter.ndim, it->parameter.shape, it->state[k],
                  roundings_of(it->type), 8, describe_item(s, i, "state"));
        }
        weft_tensor *wide = weft_to_type(it->tensor, it->state_type);
        check(wide, it->state_type, it->parameter.ndim, it->parameter.shape, it->value,
              roundings_of(it->type), 16, describe_item(s, i, "value"));
    }
}

#endif
