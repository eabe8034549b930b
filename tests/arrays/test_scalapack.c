/* ScaLAPACK's matrices in place, both ways: local parts filled by its formula (TOOLS/numroc.f, indxl2g.f: which global index a
 * local one has), descriptors of every layout that has one, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "support.h"

enum { RANKS = 4, MOST = 40 };

/* One dimension of a matrix: its size, the block, the first process, the processes. */
typedef struct dealt {
    int n, block, first, parts;
} dealt;

static int num_local(dealt d, int part)
{
    int distance = (d.parts + part - d.first) % d.parts, whole = d.n / d.block, extra = whole % d.parts;
    return whole / d.parts * d.block + (distance < extra ? d.block : distance == extra ? d.n % d.block : 0);
}

static int global_index(dealt d, int part, int local)
{
    return d.parts * d.block * (local / d.block) + local % d.block + (d.parts + part - d.first) % d.parts * d.block;
}

typedef struct matrix {
    dealt rows, columns;
    bool by_columns; /* the grid numbers its processes so */
    int padding, descriptor[9];
    weft_mesh *grid;
    void *locals[RANKS];
} matrix;

static int rank_at(const matrix *a, int row, int column)
{
    return a->by_columns ? column * a->rows.parts + row : row * a->columns.parts + column;
}

static int local_rows(const matrix *a, int row)
{
    int rows = num_local(a->rows, row);
    return rows > 1 ? rows : 1;
}

/* Element (i, j) is 1000 i + j; a gap between two columns -1. */
static void fill(matrix *a)
{
    for (int row = 0; row < a->rows.parts; row++) {
        for (int column = 0; column < a->columns.parts; column++) {
            int local = rank_at(a, row, column) - weft_first_rank(), leading = local_rows(a, row) + a->padding;
            if (local < 0 || local >= weft_local_ranks()) {
                continue;
            }
            int num_columns = num_local(a->columns, column);
            double *memory = a->locals[local] = malloc(((size_t)leading * (size_t)num_columns + 1) * sizeof(double));
            for (int k = 0; k < leading * num_columns; k++) {
                int i = k % leading, j = k / leading;
                memory[k] = i < num_local(a->rows, row)
                                ? 1000.0 * global_index(a->rows, row, i) + global_index(a->columns, column, j)
                                : -1;
            }
        }
    }
}

/* The leading dimension is that of this process, which has one rank; in one process that of all, which is too large for some. */
static matrix any_matrix(prng *random)
{
    static const int grids[][2] = { { 2, 2 }, { 1, 4 }, { 4, 1 }, { 1, 3 }, { 2, 1 }, { 1, 1 } };
    const int *shape = grids[prng_below(random, 6)];
    matrix a = { .by_columns = prng_below(random, 2) == 0, .padding = 0 };
    dealt *dims[] = { &a.rows, &a.columns };
    for (int d = 0; d < 2; d++) {
        *dims[d] = (dealt){ (int)prng_below(random, MOST), 1 + (int)prng_below(random, prng_below(random, 2) == 0 ? 3 : 2 * MOST), 0,
                            shape[d] };
        dims[d]->first = (int)prng_below(random, shape[d]);
    }
    int ranks[RANKS];
    for (int row = 0; row < shape[0]; row++) {
        for (int column = 0; column < shape[1]; column++) {
            ranks[row * shape[1] + column] = rank_at(&a, row, column);
        }
    }
    const int64_t sizes[] = { shape[0], shape[1] };
    a.grid = weft_mesh_of_ranks(2, sizes, ranks, NULL);
    return a;
}

static void describe_as(matrix *a, int leading)
{
    const int descriptor[] = { 1, -7, a->rows.n, a->columns.n, a->rows.block, a->columns.block, a->rows.first, a->columns.first, leading };
    memcpy(a->descriptor, descriptor, sizeof(descriptor));
}

static void check_values(const matrix *a, weft_tensor *tensor)
{
    double found[MOST * MOST + 1];
    int64_t count = (int64_t)a->rows.n * a->columns.n;
    assert_int_equal(weft_to_host(tensor, found, (size_t)count * sizeof(double)), WEFT_OK);
    for (int64_t k = 0; k < count; k++) {
        assert_true(found[k] == (double)(1000 * (k % a->rows.n) + k / a->rows.n)); /* the transpose */
    }
}

/* Ranks of one process may differ in their numbers of local rows, a descriptor has one: so each rank by itself, the others
 * having a copy of what the layout gives them. With one rank per process, in place. */
static void matrices_in_place(void **state)
{
    (void)state;
    prng random = prng_start(41);
    WORLD(RANKS);
    for (int i = 0; i < share_of(200); i++) {
        weft_scope_begin();
        matrix a = any_matrix(&random);
        int64_t coordinate[2] = { 0, 0 };
        bool alone = weft_local_ranks() == 1, member = weft_mesh_coordinate(a.grid, weft_first_rank(), coordinate);
        bool even = a.rows.n % (a.rows.block * a.rows.parts) == 0; /* all have the same number of rows */
        a.padding = prng_below(&random, 3) == 0 ? 2 : 0;
        fill(&a);
        describe_as(&a, local_rows(&a, (int)coordinate[0]) + a.padding);
        if (alone || even) {
            unsigned flags = a.padding > 0 ? WEFT_COPY : 0;
            weft_tensor *tensor = weft_from_scalapack(WEFT_F64, a.descriptor, a.locals, a.grid, flags);
            assert_non_null(tensor);
            check_values(&a, tensor);
            check_values(&a, weft_redistribute(tensor, NULL, NULL));
            for (int r = 0; r < weft_local_ranks() && flags == 0 && weft_local_bytes(tensor, r) > 0; r++) {
                assert_ptr_equal(weft_local_acquire(tensor, r, WEFT_READ), a.locals[r]);
                assert_int_equal(weft_local_release(tensor, r), WEFT_OK);
            }
            int found[9] = { 0 };
            if (member) {
                assert_int_equal(weft_scalapack_descriptor(tensor, 0, -7, found), WEFT_OK);
                found[8] += a.padding;
                for (int k = 0; k < 9; k++) {
                    const dealt *dim = k == 4 || k == 6 ? &a.rows : k == 5 || k == 7 ? &a.columns : NULL;
                    bool one_block = dim != NULL && (dim->parts == 1 || dim->n <= dim->block);
                    if (found[k] != a.descriptor[k] && !one_block) {
                        fail_msg("descriptor[%d] is %d, expected %d: %d rows by %d, %d columns by %d", k, found[k], a.descriptor[k],
                                 a.rows.n, a.rows.parts, a.columns.n, a.columns.parts);
                    }
                }
            }
        }
        assert_int_equal(weft_wait(), WEFT_OK);
        weft_scope_end();
        for (int r = 0; r < RANKS; r++) {
            free(a.locals[r]);
        }
    }
    world_stop(NULL);
}

/* Layouts that are blocks, and those that are not. */
static void descriptors_of_layouts(void **state)
{
    (void)state;
    static const struct {
        const char *placements;
        int descriptor[9]; /* of rank 0; none if [0] is 0 */
    } cases[] = {
        { "S0,S1", { 1, 5, 10, 7, 5, 4, 0, 0, 5 } },
        { "S1*2,S0*3", { 1, 5, 10, 7, 2, 3, 0, 0, 6 } },
        { "S1*2+1,S0*3+1", { 1, 5, 10, 7, 2, 3, 1, 1, 4 } },
        { "S0*3,S1=", { 1, 5, 10, 7, 5, 3, 0, 0, 5 } }, /* balanced, and even */
        { "S0,S0", { 0 } },
        { "R,S0", { 0 } },
        { "S0z,S1", { 0 } },
        { "S0=,S1", { 1, 5, 10, 7, 5, 4, 0, 0, 5 } },
        { "S0{3,4},S1", { 0 } },
        { "P(sum),S1", { 0 } },
    };
    WORLD(RANKS);
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_placement placements[2];
        assert_int_equal(weft_placements_parse(cases[i].placements, 2, placements), WEFT_OK);
        weft_tensor *tensor = weft_fake(WEFT_F64, 2, (int64_t[]){ 7, 10 }, mesh, placements);
        int found[9] = { 0 };
        weft_status status = weft_scalapack_descriptor(tensor, 0, 5, found);
        assert_int_equal(status, cases[i].descriptor[0] == 0 ? WEFT_ERR_LAYOUT : WEFT_OK);
        if (weft_first_rank() == 0 && memcmp(found, cases[i].descriptor, sizeof(found)) != 0) {
            fail_msg("%s: { %d, %d, %d, %d, %d, %d, %d, %d, %d }", cases[i].placements, found[0], found[1], found[2], found[3],
                     found[4], found[5], found[6], found[7], found[8]);
        }
        weft_clear_error();
    }
    int nine[9];
    assert_int_equal(weft_scalapack_descriptor(weft_zeros(WEFT_F64, 1, (int64_t[]){ 4 }, mesh, NULL), 0, 0, nine), WEFT_ERR_SHAPE);
    assert_int_equal(weft_scalapack_descriptor(weft_fake(WEFT_F64, 2, (int64_t[]){ (int64_t)1 << 31, 1 }, mesh, NULL), 0, 0, nine),
                     WEFT_ERR_LAYOUT);
    const weft_placement both[] = { weft_shard(0), weft_shard(1) };
    assert_int_equal(weft_scalapack_descriptor(weft_fake(WEFT_F64, 2, (int64_t[]){ (int64_t)1 << 31, 1 }, mesh, both), 0, 0, nine),
                     WEFT_ERR_INVALID);
    weft_clear_error();
    /* Padded columns are not used in place, nor columns that are too short. */
    double memory[64] = { 0 };
    void *locals[] = { memory, memory, memory, memory };
    int descriptor[] = { 1, 0, 4, 4, 1, 1, 0, 0, 3 };
    assert_null(weft_from_scalapack(WEFT_F64, descriptor, locals, mesh, 0));
    assert_error(WEFT_ERR_INVALID, "WEFT_COPY copies it");
    assert_non_null(weft_from_scalapack(WEFT_F64, descriptor, locals, mesh, WEFT_COPY));
    descriptor[8] = 1;
    assert_null(weft_from_scalapack(WEFT_F64, descriptor, locals, mesh, WEFT_COPY));
    assert_error(WEFT_ERR_INVALID, "descriptor[8] is 1, expected 2 to");
    /* One rank's leading dimension is too small: no process gets a tensor, and none waits. */
    descriptor[8] = weft_first_rank() == 0 ? 1 : 2;
    assert_null(weft_from_scalapack(WEFT_F64, descriptor, locals, mesh, WEFT_COPY | WEFT_CHECK_RANKS));
    assert_int_equal(weft_last_status(), WEFT_ERR_INVALID);
    weft_clear_error();
    descriptor[8] = 1;
    int64_t three[] = { 2, 2, 1 };
    assert_null(weft_from_scalapack(WEFT_F64, descriptor, locals, weft_mesh_create(3, three, NULL), 0));
    assert_error(WEFT_ERR_SHAPE, "mesh has 3 dimensions");
    weft_scope_end();
    world_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_in_place),
        cmocka_unit_test(descriptors_of_layouts),
    };
    return cmocka_run_group_tests_name("scalapack", tests, NULL, NULL);
}
