#include "lines.h"

#include <stdlib.h>

#include "operand.h"

void set_length(lines *l, int64_t length)
{
    l->shape[l->dim] = l->length = length;
    l->outer = shape_count(l->dim, l->shape);
    l->inner = shape_count(l->ndim - l->dim - 1, l->shape + l->dim + 1);
}

lines any_lines(void)
{
    lines l = { .ndim = 0 };
    while (l.ndim == 0) {
        l.ndim = random_shape(&source, 4, 9, l.shape);
    }
    l.dim = (int)below(l.ndim);
    set_length(&l, l.shape[l.dim]);
    return l;
}

int64_t count_of(const lines *l)
{
    return l->outer * l->length * l->inner;
}

int64_t place_in(const lines *l, int64_t line, int64_t k)
{
    return (line / l->inner * l->length + k) * l->inner + line % l->inner;
}

int spoken(const lines *l)
{
    return below(2) ? l->dim : l->dim - l->ndim;
}

double *new_values(int64_t count)
{
    return calloc((size_t)count + 1, sizeof(double));
}
