/* examples/muon.c beside plain loops: the formula of torch.optim.Muon with adjust_lr_fn="match_rms_adamw", in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/muon.h"
#include "prng.h"
#include "support.h"

enum { COUNT = 5, SIDE = 6, STEPS = 3 };

typedef struct matrix {
    int rows, columns;
    double at[SIDE][SIDE];
} matrix;

static matrix product(const matrix *a, const matrix *b, bool transposed)
{
    matrix c = { a->rows, transposed ? b->rows : b->columns, { { 0 } } };
    for (int i = 0; i < c.rows; i++) {
        for (int j = 0; j < c.columns; j++) {
            for (int k = 0; k < a->columns; k++) {
                c.at[i][j] += a->at[i][k] * (transposed ? b->at[j][k] : b->at[k][j]);
            }
        }
    }
    return c;
}

static matrix transpose(const matrix *a)
{
    matrix t = { a->columns, a->rows, { { 0 } } };
    for (int i = 0; i < t.rows; i++) {
        for (int j = 0; j < t.columns; j++) {
            t.at[i][j] = a->at[j][i];
        }
    }
    return t;
}

static matrix combined(double x, const matrix *a, double y, const matrix *b)
{
    matrix c = *a;
    for (int i = 0; i < c.rows; i++) {
        for (int j = 0; j < c.columns; j++) {
            c.at[i][j] = x * a->at[i][j] + y * b->at[i][j];
        }
    }
    return c;
}

static matrix orthogonal(matrix g)
{
    bool high = g.rows > g.columns;
    matrix x = high ? transpose(&g) : g;
    double norm = 0;
    for (int i = 0; i < x.rows * SIDE; i++) {
        norm += x.at[i / SIDE][i % SIDE] * x.at[i / SIDE][i % SIDE];
    }
    x = combined(1 / fmax(sqrt(norm), 1e-7), &x, 0, &x);
    for (int step = 0; step < 5; step++) {
        matrix gram = product(&x, &x, true), square = product(&gram, &gram, false);
        matrix factor = combined(-4.775, &gram, 2.0315, &square), more = product(&factor, &x, false);
        x = combined(3.4445, &x, 1, &more);
    }
    return high ? transpose(&x) : x;
}

static void step(matrix *w, const matrix *g, matrix *momentum, const muon_options *o)
{
    *momentum = combined(o->momentum, momentum, 1 - o->momentum, g);
    matrix update = combined(1 - o->momentum, g, o->momentum, momentum), u = orthogonal(update);
    double rate = o->learning_rate * 0.2 * sqrt(fmax(w->rows, w->columns));
    *w = combined(1 - o->learning_rate * o->weight_decay, w, -rate, &u);
}

static matrix drawn(prng *random, int rows, int columns)
{
    matrix a = { rows, columns, { { 0 } } };
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            a.at[i][j] = (double)(prng_below(random, 2001) - 1000) / 500;
        }
    }
    return a;
}

static weft_tensor *tensor_of(const matrix *a, weft_mesh *mesh, const weft_placement placements[])
{
    double dense[SIDE * SIDE];
    for (int i = 0; i < a->rows * a->columns; i++) {
        dense[i] = a->at[i / a->columns][i % a->columns];
    }
    return weft_distribute(WEFT_F64, 2, (int64_t[]){ a->rows, a->columns }, dense, mesh, placements);
}

static void steps_are_the_formulas(void **state)
{
    (void)state;
    static const int shapes[COUNT][2] = { { 3, 5 }, { 5, 3 }, { 4, 4 }, { 3, 5 }, { 6, 1 } };
    const muon_options options = { 0.1, 0.95, 0.2 };
    prng random = prng_start(71);
    weft_placement rows[] = { weft_shard(0), weft_shard(1) };
    WORLD(4);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    matrix w[COUNT], m[COUNT];
    weft_tensor *parameters[COUNT], *momenta[COUNT];
    for (int i = 0; i < COUNT; i++) {
        w[i] = drawn(&random, shapes[i][0], shapes[i][1]);
        m[i] = (matrix){ shapes[i][0], shapes[i][1], { { 0 } } };
        parameters[i] = tensor_of(&w[i], mesh, rows);
        momenta[i] = weft_zeros_like(parameters[i]);
    }
    for (int s = 0; s < STEPS; s++) {
        weft_tensor *gradients[COUNT];
        for (int i = 0; i < COUNT; i++) {
            matrix g = drawn(&random, shapes[i][0], shapes[i][1]);
            gradients[i] = tensor_of(&g, mesh, NULL);
            step(&w[i], &g, &m[i], &options);
        }
        muon(COUNT, parameters, gradients, momenta, &options);
    }
    for (int i = 0; i < COUNT; i++) {
        double found[SIDE * SIDE];
        assert_int_equal(weft_to_host(parameters[i], found, sizeof(found)), WEFT_OK);
        for (int j = 0; j < w[i].rows * w[i].columns; j++) {
            assert_true(fabs(found[j] - w[i].at[j / w[i].columns][j % w[i].columns]) < 1e-10);
        }
    }
    weft_scope_end();
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(steps_are_the_formulas) };
    return cmocka_run_group_tests_name("muon", tests, NULL, NULL);
}
