#include "muon.h"

#include <math.h>
#include <stdlib.h>

/* 3.4445 x - 4.775 x x^T x + 2.0315 x x^T x x^T x, five times, of matrices [k, m, n] with m <= n. */
static weft_tensor *orthogonal(weft_tensor *x)
{
    x = weft_div(x, weft_clamp(weft_norm(x, 2, WEFT_DIM(1) | WEFT_DIM(2), true), 1e-7, INFINITY));
    for (int step = 0; step < 5; step++) {
        weft_tensor *gram = weft_matmul_ex(x, false, x, true);
        weft_tensor *factor = weft_add(weft_scale(gram, -4.775), weft_scale(weft_matmul(gram, gram), 2.0315));
        x = weft_add(weft_scale(x, 3.4445), weft_matmul(factor, x));
    }
    return x;
}

static int64_t rows_of(const weft_tensor *matrix)
{
    return weft_tensor_size(matrix, 0);
}

static int64_t columns_of(const weft_tensor *matrix)
{
    return weft_tensor_size(matrix, 1);
}

/* A matrix that is not higher than wide: it, or its transpose. */
static weft_tensor *turned(weft_tensor *matrix, bool is_high)
{
    return is_high ? weft_transpose(matrix, 0, 1) : matrix;
}

static bool is_high(const weft_tensor *matrix)
{
    return rows_of(matrix) > columns_of(matrix);
}

static bool alike(const weft_tensor *a, const weft_tensor *b)
{
    int64_t short_a = is_high(a) ? columns_of(a) : rows_of(a), short_b = is_high(b) ? columns_of(b) : rows_of(b);
    return short_a == short_b && rows_of(a) * columns_of(a) == rows_of(b) * columns_of(b);
}

/* The matrices `members` of the list, `count` of one shape. */
static void update_alike(int count, const int members[], weft_tensor *const parameters[], weft_tensor *updates[],
                         const muon_options *o)
{
    weft_placement spread[WEFT_MAX_DIMS];
    for (int m = 0; m < weft_mesh_ndim(weft_tensor_mesh(parameters[members[0]])); m++) {
        spread[m] = weft_shard_balanced(0);
    }
    weft_tensor **matrices = malloc((size_t)count * sizeof(*matrices));
    int64_t *ones = malloc((size_t)count * sizeof(*ones));
    for (int i = 0; i < count; i++) {
        matrices[i] = turned(updates[members[i]], is_high(parameters[members[i]]));
        ones[i] = 1;
    }
    weft_split(orthogonal(weft_redistribute(weft_stack(count, matrices, 0), NULL, spread)), count, ones, 0, matrices);
    for (int i = 0; i < count; i++) {
        weft_tensor *w = parameters[members[i]];
        double larger = (double)(is_high(w) ? rows_of(w) : columns_of(w));
        weft_scale_inplace(w, 1 - o->learning_rate * o->weight_decay);
        weft_add_inplace(w, turned(weft_squeeze(matrices[i], 0), is_high(w)), -o->learning_rate * 0.2 * sqrt(larger));
    }
    free(matrices);
    free(ones);
}

void muon(int n, weft_tensor *const parameters[], weft_tensor *const gradients[], weft_tensor *const momenta[],
          const muon_options *options)
{
    weft_tensor **updates = malloc((size_t)n * sizeof(*updates));
    int *members = malloc((size_t)n * sizeof(*members));
    bool *done = calloc((size_t)n, sizeof(*done));
    weft_no_grad_begin();
    for (int i = 0; i < n; i++) {
        weft_lerp_inplace(momenta[i], gradients[i], 1 - options->momentum);
        updates[i] = weft_lerp(gradients[i], momenta[i], options->momentum);
    }
    for (int first = 0; first < n; first++) {
        int count = 0;
        for (int i = first; i < n && !done[first]; i++) {
            if (!done[i] && alike(parameters[first], parameters[i])) {
                members[count++] = i;
            }
        }
        for (int i = 0; i < count; i++) {
            done[members[i]] = true;
        }
        if (count > 0) {
            update_alike(count, members, parameters, updates, options);
        }
    }
    weft_no_grad_end();
    free(updates);
    free(members);
    free(done);
}
