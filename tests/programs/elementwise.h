/* Shared by the rows of elementwise operations. */
#ifndef WEFT_TESTS_ELEMENTWISE_H
#define WEFT_TESTS_ELEMENTWISE_H

#include "make.h"
#include "scalar.h"

/* Operands have different types once in so many cases. */
enum { MIXED_TYPES_ONE_IN = 4 };

/* The type of two together, and of all inputs: those without dimensions count only where they are of a higher
 * category (truth value, integer, floating). */
weft_dtype promoted_pair(weft_dtype a, weft_dtype b);
weft_dtype promoted(int count, const dense *const inputs[]);
/* False: PyTorch has no common type for them. */
bool are_promoted(int count, const dense *const inputs[]);
/* Truth value, integer, floating: 0, 1, 2. */
int category_of(weft_dtype dtype);

/* The shape of all inputs together; -1: they do not fit. */
int broadcast_shape(int count, const dense *const inputs[], int64_t shape[]);
/* Element i of a result of this shape is which one of x. */
int64_t broadcast_index(const dense *x, int ndim, const int64_t shape[], int64_t i);

bool make_elementwise(maker *m, step *s);
bool elementwise_reference(scene *s);

/* Slack for all elements computed through Partial inputs; unknown elements. */
void allow_all(scene *s, dense *x, double slack);
/* Allows for what adding addends of `mass`, multiples of `unit`, in any order does to a result; and notes
 * both. */
void allow_addends(scene *s, dense *x, double mass, double unit);

/* A second input that is broadcast with the first: on its mesh, of a part of its shape, or more than it. */
int choose_broadcast(maker *m, int first, unsigned types, value_kind kind);

/* In floating numbers, and in integers, which wrap around. x, y, z: the operands; s, t: the call's
 * numbers. */
#define REAL(name_, ...)                                                                                     \
    static double real_##name_(scalars *v)                                                                   \
    {                                                                                                        \
        const double x = v->a, y = v->b, z = v->c, s = v->real[0], t = v->real[1];                           \
        (void)x, (void)y, (void)z, (void)s, (void)t;                                                         \
        __VA_ARGS__                                                                                          \
    }
#define WHOLE(name_, ...)                                                                                    \
    static int64_t whole_##name_(scalars *v)                                                                 \
    {                                                                                                        \
        const int64_t x = v->i, y = v->j, z = v->k;                                                          \
        const double s = v->real[0], t = v->real[1];                                                         \
        (void)x, (void)y, (void)z, (void)s, (void)t;                                                         \
        __VA_ARGS__                                                                                          \
    }

#endif
