/* Sparse matrices: random structures, cuts, meshes and types against dense ones; gradients, graphs, errors. Values are small whole
 * numbers, so all sums are exact. */
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"
#include "support.h"

enum { MAX_RANKS = 8, MOST = 40, MOST_ENTRIES = MOST * 6, MOST_WIDTH = 3 };

typedef double complex number;

/* A matrix, the same on each process. */
typedef struct scene {
    weft_dtype dtype;
    weft_mesh *mesh;
    int mesh_dim;
    int64_t rows, columns, nnz;
    weft_placement row_placements[WEFT_MAX_DIMS], column_placements[WEFT_MAX_DIMS];
    int64_t offsets[MOST + 1], indices[MOST_ENTRIES];
    number values[MOST_ENTRIES], dense[MOST * MOST];
    weft_sparse *a;
    weft_tensor *of_values;
} scene;

static int num_matrices;

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static bool is_complex(weft_dtype dtype)
{
    return dtype == WEFT_C64 || dtype == WEFT_C128;
}

static number draw_number(prng *random, weft_dtype dtype)
{
    double real = (double)prng_below(random, 9) - 4, imaginary = (double)prng_below(random, 9) - 4;
    return is_complex(dtype) ? real + imaginary * I : real;
}

static void pack(weft_dtype dtype, int64_t count, const number from[], void *to)
{
    for (int64_t i = 0; i < count; i++) {
        switch (dtype) {
        case WEFT_F32:
            ((float *)to)[i] = (float)creal(from[i]);
            break;
        case WEFT_F64:
            ((double *)to)[i] = creal(from[i]);
            break;
        case WEFT_C64:
            ((float complex *)to)[i] = (float complex)from[i];
            break;
        default:
            ((number *)to)[i] = from[i];
        }
    }
}

static weft_tensor *tensor_of(const scene *s, int ndim, const int64_t shape[], const number values[], const weft_placement placements[])
{
    void *packed = calloc((size_t)shape_count(ndim, shape) + 1, weft_dtype_size(s->dtype));
    pack(s->dtype, shape_count(ndim, shape), values, packed);
    weft_tensor *made = weft_distribute(s->dtype, ndim, shape, packed, s->mesh, placements);
    assert_non_null(made);
    assert_int_equal(weft_wait(), WEFT_OK); /* the memory is read until then */
    free(packed);
    return made;
}

static void assert_values(const scene *s, weft_tensor *found, int64_t count, const number expected[], const char *what)
{
    size_t size = weft_dtype_size(s->dtype), bytes = (size_t)count * size;
    char *wanted = calloc((size_t)count + 1, size), *own = calloc((size_t)count + 1, size);
    assert_no_error();
    assert_non_null(found);
    pack(s->dtype, count, expected, wanted);
    assert_int_equal(weft_to_host(found, own, bytes), WEFT_OK);
    for (size_t i = 0; i < bytes; i += size) { /* -0 is 0 */
        for (size_t k = i; k < i + size; k += is_complex(s->dtype) ? size / 2 : size) {
            bool narrow = s->dtype == WEFT_F32 || s->dtype == WEFT_C64;
            double a = narrow ? *(float *)(own + k) : *(double *)(own + k), b = narrow ? *(float *)(wanted + k) : *(double *)(wanted + k);
            if (!(a == b)) {
                fail_msg("%s, element %zu: %g, expected %g (%lld x %lld, %s)", what, i / size, a, b, (long long)s->rows,
                         (long long)s->columns, weft_dtype_name(s->dtype));
            }
        }
    }
    free(wanted);
    free(own);
}

/* ---- matrices ----------------------------------------------------------------------------------------------------- */

static weft_placement draw_cut(prng *random, int64_t parts, int64_t size)
{
    int64_t kind = prng_below(random, 3);
    return kind == 0 ? weft_shard(0) : kind == 1 ? weft_shard_balanced(0) : sizes_of_rows(random, 0, parts, size);
}

static void draw_entries(scene *s, prng *random)
{
    int64_t kind = prng_below(random, 4);
    s->nnz = 0;
    for (int64_t row = 0; row < s->rows; row++) {
        s->offsets[row] = s->nnz;
        int64_t count = s->columns == 0 || kind == 0 ? 0 : kind == 1 ? 1 : prng_below(random, 6);
        for (int64_t k = 0; k < count; k++) { /* some twice */
            s->indices[s->nnz] = kind == 1 ? row % s->columns : prng_below(random, s->columns);
            s->values[s->nnz++] = draw_number(random, s->dtype);
        }
    }
    s->offsets[s->rows] = s->nnz;
    memset(s->dense, 0, sizeof(s->dense));
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t k = s->offsets[row]; k < s->offsets[row + 1]; k++) {
            s->dense[row * s->columns + s->indices[k]] += s->values[k];
        }
    }
}

/* The rows of a rank, as it gives them. */
typedef struct local_rows {
    int64_t first, count;
    int64_t offsets[MOST + 1], indices[MOST_ENTRIES];
    int32_t short_offsets[MOST + 1], short_indices[MOST_ENTRIES];
} local_rows;

static void take_rows(const scene *s, int rank, local_rows *own)
{
    int64_t first[1] = { 0 }, count[1] = { 0 };
    const weft_placement *placements = s->row_placements;
    if (weft_mesh_coordinate(s->mesh, rank, (int64_t[WEFT_MAX_DIMS]){ 0 })) {
        bool boxes = weft_shard_box(s->mesh, placements, 1, &s->rows, rank, first, count) == WEFT_OK;
        count[0] = boxes ? count[0] : 0;
        weft_clear_error(); /* cyclic */
    }
    own->first = first[0];
    own->count = count[0];
    for (int64_t row = 0; row <= own->count; row++) {
        own->offsets[row] = s->offsets[own->first + row] - s->offsets[own->first];
        own->short_offsets[row] = (int32_t)own->offsets[row];
    }
    for (int64_t k = 0; k < own->offsets[own->count]; k++) {
        own->indices[k] = s->indices[s->offsets[own->first] + k];
        own->short_indices[k] = (int32_t)own->indices[k];
    }
}

/* Makes the structure of its rows. */
static void create_csr(scene *s, weft_dtype type, const weft_placement *column_placements)
{
    const int ranks = weft_local_ranks();
    local_rows *all = calloc((size_t)ranks, sizeof(*all));
    const void *offsets[MAX_RANKS], *indices[MAX_RANKS];
    for (int i = 0; i < ranks; i++) {
        take_rows(s, weft_first_rank() + i, &all[i]);
        offsets[i] = type == WEFT_I32 ? (void *)all[i].short_offsets : (void *)all[i].offsets;
        indices[i] = type == WEFT_I32 ? (void *)all[i].short_indices : (void *)all[i].indices;
    }
    s->a = weft_sparse_create_csr(s->rows, s->columns, s->mesh, s->row_placements, column_placements, type, offsets, indices);
    free(all);
}

static void draw(scene *s, prng *random)
{
    static const weft_dtype types[] = { WEFT_F64, WEFT_F32, WEFT_C64, WEFT_C128 };
    *s = (scene){ .dtype = types[prng_below(random, 4)], .mesh = random_mesh(random, MAX_RANKS) };
    s->mesh_dim = (int)prng_below(random, weft_mesh_ndim(s->mesh));
    int64_t parts = weft_mesh_size(s->mesh, s->mesh_dim);
    s->rows = prng_below(random, 8) == 0 ? prng_below(random, 2) : prng_below(random, MOST + 1);
    s->columns = prng_below(random, 2) == 0 ? s->rows : prng_below(random, MOST + 1);
    for (int d = 0; d < weft_mesh_ndim(s->mesh); d++) {
        s->row_placements[d] = d == s->mesh_dim ? draw_cut(random, parts, s->rows) : weft_replicate();
        s->column_placements[d] = d == s->mesh_dim ? draw_cut(random, parts, s->columns) : weft_replicate();
    }
    draw_entries(s, random);
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

/* y[i, k] = sum over j of A[i, j] x[j, k], with A transposed or conjugated. */
static void multiply(const scene *s, bool transposed, bool conjugated, int64_t width, const number x[], number y[])
{
    for (int64_t i = 0; i < (transposed ? s->columns : s->rows) * width; i++) {
        y[i] = 0;
    }
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t column = 0; column < s->columns; column++) {
            number value = s->dense[row * s->columns + column];
            for (int64_t k = 0; k < width; k++) {
                y[(transposed ? column : row) * width + k] +=
                    (conjugated ? conj(value) : value) * x[(transposed ? row : column) * width + k];
            }
        }
    }
}

static void draw_placements(const scene *s, prng *random, int ndim, weft_placement placements[])
{
    for (int d = 0; d < weft_mesh_ndim(s->mesh); d++) {
        placements[d] = prng_below(random, 2) == 0 ? weft_replicate() : weft_shard((int)prng_below(random, ndim));
    }
}

static void check_product(const scene *s, prng *random, bool transposed)
{
    static number x[MOST * MOST_WIDTH], y[MOST * MOST_WIDTH], g[MOST * MOST_WIDTH], dx[MOST * MOST_WIDTH], dv[MOST_ENTRIES];
    const int ndim = 1 + (int)prng_below(random, 2);
    const int64_t from = transposed ? s->rows : s->columns, to = transposed ? s->columns : s->rows;
    const int64_t shape[] = { from, ndim == 2 ? prng_below(random, MOST_WIDTH + 1) : 1 }, width = shape[1], result[] = { to, width };
    weft_placement placements[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < MOST * MOST_WIDTH; i++) {
        x[i] = draw_number(random, s->dtype);
        g[i] = draw_number(random, s->dtype);
    }
    draw_placements(s, random, ndim, placements);
    weft_tensor *leaf = tensor_of(s, ndim, shape, x, placements), *of_values = weft_scale(s->of_values, 1);
    weft_set_requires_grad(leaf, true);
    weft_set_requires_grad(of_values, true);
    weft_tensor *product = weft_sparse_matmul(s->a, of_values, leaf, transposed);
    multiply(s, transposed, false, width, x, y);
    assert_values(s, product, to * width, y, transposed ? "the transposed product" : "the product");
    draw_placements(s, random, ndim, placements);
    weft_tensor *gradient = tensor_of(s, ndim, result, g, placements);
    assert_int_equal(weft_backward(product, &(weft_backward_options){ .output_gradient = gradient }), WEFT_OK);
    multiply(s, !transposed, true, width, g, dx);
    assert_values(s, weft_grad(leaf), from * width, dx, "the gradient of x");
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t k = s->offsets[row]; k < s->offsets[row + 1]; k++) {
            const int64_t at_x = transposed ? row : s->indices[k], at_g = transposed ? s->indices[k] : row;
            dv[k] = 0;
            for (int64_t c = 0; c < width; c++) {
                dv[k] += g[at_g * width + c] * conj(x[at_x * width + c]);
            }
        }
    }
    assert_values(s, weft_grad(of_values), s->nnz, dv, "the gradient of values");
}

static void check_dense(const scene *s, prng *random)
{
    static number g[MOST * MOST], dv[MOST_ENTRIES];
    const int64_t shape[] = { s->rows, s->columns };
    weft_tensor *of_values = weft_scale(s->of_values, 1);
    weft_set_requires_grad(of_values, true);
    weft_tensor *dense = weft_sparse_to_dense(s->a, of_values);
    assert_values(s, dense, s->rows * s->columns, s->dense, "the dense matrix");
    for (int64_t i = 0; i < s->rows * s->columns; i++) {
        g[i] = draw_number(random, s->dtype);
    }
    weft_tensor *gradient = tensor_of(s, 2, shape, g, NULL);
    assert_int_equal(weft_backward(dense, &(weft_backward_options){ .output_gradient = gradient }), WEFT_OK);
    for (int64_t row = 0; row < s->rows; row++) {
        for (int64_t k = s->offsets[row]; k < s->offsets[row + 1]; k++) {
            dv[k] = g[row * s->columns + s->indices[k]];
        }
    }
    assert_values(s, weft_grad(of_values), s->nnz, dv, "the gradient of the dense matrix");
}

static void random_rows(void **state)
{
    (void)state;
    prng random = prng_start(901);
    static const char *const heights[] = { NULL, "1", "3" };
    static scene s;
    for (size_t h = 0; h < 3; h++) {
        if (heights[h] != NULL) {
            setenv("WEFT_PANEL_ROWS", heights[h], 1);
        }
        WORLD(MAX_RANKS);
        for (int i = 0; i < (num_matrices + 2) / 3; i++) {
            weft_scope_begin();
            draw(&s, &random);
            bool given = s.rows != s.columns || prng_below(&random, 2) == 0;
            create_csr(&s, prng_below(&random, 2) == 0 ? WEFT_I32 : WEFT_I64, given ? s.column_placements : NULL);
            assert_no_error();
            assert_non_null(s.a);
            assert_int_equal(weft_sparse_nnz(s.a), s.nnz);
            weft_placement placements[WEFT_MAX_DIMS];
            assert_int_equal(weft_sparse_placements(s.a, placements), WEFT_OK);
            if (prng_below(&random, 4) == 0) {
                draw_placements(&s, &random, 1, placements);
            }
            s.of_values = tensor_of(&s, 1, &s.nnz, s.values, placements);
            check_product(&s, &random, false);
            check_product(&s, &random, true);
            check_dense(&s, &random);
            assert_int_equal(weft_sparse_destroy(s.a), WEFT_OK);
            weft_scope_end();
        }
        assert_int_equal(weft_finalize(), WEFT_OK);
        unsetenv("WEFT_PANEL_ROWS");
    }
}

/* ---- coordinates ------------------------------------------------------------------------------------------------------ */

/* Each part names entries of any rows; all together are the matrix. */
static void random_coordinates(void **state)
{
    (void)state;
    prng random = prng_start(902);
    static scene s;
    WORLD(MAX_RANKS);
    for (int i = 0; i < num_matrices; i++) {
        weft_scope_begin();
        draw(&s, &random);
        int64_t parts = weft_mesh_size(s.mesh, s.mesh_dim), total = 0, given = 0, counts[MAX_RANKS] = { 0 }, sizes[MAX_RANKS] = { 0 };
        static int64_t rows[MAX_RANKS][MOST_ENTRIES], columns[MAX_RANKS][MOST_ENTRIES];
        static number values[MAX_RANKS][MOST_ENTRIES], together[MOST_ENTRIES];
        static int64_t own_rows[MAX_RANKS * MOST_ENTRIES], own_columns[MAX_RANKS * MOST_ENTRIES];
        for (int64_t row = 0; row < s.rows; row++) {
            for (int64_t k = s.offsets[row]; k < s.offsets[row + 1]; k++) {
                int64_t part = prng_below(&random, 3) == 0 ? 0 : prng_below(&random, parts);
                rows[part][sizes[part]] = row;
                columns[part][sizes[part]] = s.indices[k];
                values[part][sizes[part]++] = s.values[k];
            }
        }
        for (int64_t part = 0; part < parts; part++) {
            memcpy(together + total, values[part], (size_t)sizes[part] * sizeof(number));
            total += sizes[part];
        }
        for (int r = 0; r < weft_local_ranks(); r++) {
            int64_t place[WEFT_MAX_DIMS];
            if (weft_mesh_coordinate(s.mesh, weft_first_rank() + r, place)) {
                counts[r] = sizes[place[s.mesh_dim]];
                memcpy(own_rows + given, rows[place[s.mesh_dim]], (size_t)counts[r] * sizeof(int64_t));
                memcpy(own_columns + given, columns[place[s.mesh_dim]], (size_t)counts[r] * sizeof(int64_t));
                given += counts[r];
            }
        }
        weft_index_list *list = NULL;
        s.a = weft_sparse_create_coo(s.rows, s.columns, s.mesh, s.row_placements, s.column_placements, counts, own_rows, own_columns,
                                     i % 4 == 3 ? NULL : &list);
        assert_no_error();
        assert_non_null(s.a);
        if (list != NULL) {
            weft_placement placements[WEFT_MAX_DIMS];
            assert_int_equal(weft_index_list_count(list), total);
            assert_int_equal(weft_index_list_placements(list, placements), WEFT_OK);
            s.of_values = weft_index_list_scatter_add(list, tensor_of(&s, 1, &total, together, placements));
            assert_values(&s, weft_sparse_to_dense(s.a, s.of_values), s.rows * s.columns, s.dense, "the assembled matrix");
            weft_index_list_destroy(list);
        }
        assert_int_equal(weft_sparse_destroy(s.a), WEFT_OK);
        weft_scope_end();
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- one matrix --------------------------------------------------------------------------------------------------------- */

enum { N = 21 };

/* 2 on the diagonal, -1 beside it. */
static void make_second_differences(scene *s)
{
    int64_t ranks = weft_world_size();
    *s = (scene){ .dtype = WEFT_F64, .rows = N, .columns = N, .row_placements = { weft_shard(0) } };
    s->mesh = weft_mesh_create(1, &ranks, NULL);
    for (int64_t row = 0; row < N; row++) {
        s->offsets[row] = s->nnz;
        for (int64_t column = row - 1; column <= row + 1; column++) {
            if (column >= 0 && column < N) {
                s->indices[s->nnz] = column;
                s->values[s->nnz++] = s->dense[row * N + column] = column == row ? 2 : -1;
            }
        }
    }
    s->offsets[N] = s->nnz;
    create_csr(s, WEFT_I64, NULL);
}

static weft_tensor *values_of(const scene *s)
{
    weft_placement placements[WEFT_MAX_DIMS];
    assert_int_equal(weft_sparse_placements(s->a, placements), WEFT_OK);
    return tensor_of(s, 1, &s->nnz, s->values, placements);
}

static weft_status twice(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    const scene *s = context;
    weft_tensor *y = weft_sparse_matmul(s->a, inputs[0], weft_scale(inputs[1], scalars[0]), false);
    outputs[0] = weft_sparse_matmul(s->a, inputs[0], y, true);
    return outputs[0] == NULL ? weft_last_status() : WEFT_OK;
}

static void graphs(void **state)
{
    (void)state;
    WORLD(4);
    static scene s;
    make_second_differences(&s);
    assert_no_error();
    number x[N], y[N], z[N];
    weft_graph *graph = weft_graph_create("twice", twice, &s, 2, 1, 1);
    for (int run = 0; run < 5; run++) {
        double factor = run + 1;
        for (int i = 0; i < N; i++) {
            x[i] = i * i % 7 + run;
            y[i] = factor * x[i];
        }
        multiply(&s, false, false, 1, y, z);
        multiply(&s, true, false, 1, z, y);
        weft_tensor *inputs[] = { values_of(&s), tensor_of(&s, 1, &s.rows, x, s.row_placements) }, *output = NULL;
        assert_int_equal(weft_graph_call(graph, inputs, &factor, &output), WEFT_OK);
        assert_values(&s, output, N, y, "the graph's product");
    }
    /* A structure that is gone. */
    double factor = 1;
    weft_tensor *inputs[] = { values_of(&s), tensor_of(&s, 1, &s.rows, x, s.row_placements) }, *output = NULL;
    weft_set_requires_grad(inputs[1], true);
    weft_tensor *loss = weft_sum(weft_sparse_matmul(s.a, inputs[0], inputs[1], false), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_sparse_destroy(s.a), WEFT_OK);
    assert_int_equal(weft_backward(loss, NULL), weft_world_size() == 1 ? WEFT_OK : WEFT_ERR_STATE);
    weft_clear_error();
    assert_int_equal(weft_graph_call(graph, inputs, &factor, &output), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    weft_graph_destroy(graph);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Values in the program's memory. */
static void values_in_place(void **state)
{
    (void)state;
    WORLD(4);
    static scene s;
    make_second_differences(&s);
    weft_placement placements[1];
    void *locals[MAX_RANKS] = { NULL };
    number ones[N], row_sums[N];
    weft_sparse_placements(s.a, placements);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t first, count;
        weft_shard_box(s.mesh, placements, 1, &s.nnz, weft_first_rank() + i, &first, &count);
        double *own = locals[i] = malloc(((size_t)count + 1) * sizeof(double));
        for (int64_t k = 0; k < count; k++) {
            own[k] = creal(s.values[first + k]);
        }
    }
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    weft_tensor *values = weft_from_local(WEFT_F64, 1, &s.nnz, locals, s.mesh, placements, 0);
    multiply(&s, false, false, 1, ones, row_sums);
    assert_values(&s, weft_sparse_matmul(s.a, values, tensor_of(&s, 1, &s.rows, ones, NULL), false), N, row_sums, "the sums of rows");
    assert_int_equal(weft_finalize(), WEFT_OK);
    for (int i = 0; i < MAX_RANKS; i++) {
        free(locals[i]);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------------------------- */

static void wrong_rows(void **state)
{
    (void)state;
    WORLD(4);
    static scene s;
    make_second_differences(&s);
    const int64_t last = s.nnz - 1, kept = s.indices[last];
    char text[100];
    s.indices[last] = N;
    create_csr(&s, WEFT_I32, NULL);
    assert_null(s.a);
    snprintf(text, sizeof(text), "indices of rank %d: row 20 has column 21, expected 0 to 20", weft_world_size() - 1);
    assert_error(WEFT_ERR_INVALID, text);
    s.indices[last] = -1;
    create_csr(&s, WEFT_I64, NULL);
    assert_null(s.a);
    assert_error(WEFT_ERR_INVALID, "row 20 has column -1");
    s.indices[last] = kept;
    s.offsets[N - 1] = s.nnz + 1;
    create_csr(&s, WEFT_I64, NULL);
    assert_null(s.a);
    assert_error(WEFT_ERR_INVALID, "that of row 21 is");
    s.offsets[N - 1] = s.nnz - 2;
    create_csr(&s, WEFT_F32, NULL);
    assert_null(s.a);
    assert_error(WEFT_ERR_DTYPE, "index_type is f32");
    s.row_placements[0] = weft_replicate();
    create_csr(&s, WEFT_I64, NULL);
    assert_null(s.a);
    assert_error(WEFT_ERR_LAYOUT, "row_placements has no Shard of dimension 0");
    s.row_placements[0] = (weft_placement){ .kind = WEFT_SHARD, .cut = WEFT_CUT_CYCLIC, .block = 2 };
    create_csr(&s, WEFT_I64, NULL);
    assert_null(s.a);
    assert_error(WEFT_ERR_LAYOUT, "row_placements");
    s.row_placements[0] = weft_shard(0);
    assert_null(weft_sparse_create_csr(N, N, s.mesh, s.row_placements, NULL, WEFT_I64, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "offsets is NULL");
    assert_null(weft_sparse_create_csr(-1, N, s.mesh, s.row_placements, NULL, WEFT_I64, NULL, NULL));
    weft_clear_error();
    if (weft_num_processes() > 1) {
        s.rows -= weft_process_index();
        create_csr(&s, WEFT_I64, s.row_placements);
        assert_null(s.a);
        assert_error(WEFT_ERR_MISMATCH, "process 1 gave other arguments");
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void wrong_coordinates(void **state)
{
    (void)state;
    WORLD(4);
    const int64_t ranks = weft_world_size(), own = weft_local_ranks();
    int64_t counts[MAX_RANKS] = { 0 };
    const bool last = weft_first_rank() + own == ranks;
    const weft_placement by_rows = weft_shard(0);
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    counts[own - 1] = last ? 2 : 0;
    assert_null(weft_sparse_create_coo(3, 5, mesh, &by_rows, NULL, counts, (int64_t[]){ 2, 3 }, (int64_t[]){ 4, 0 }, NULL));
    char text[100];
    snprintf(text, sizeof(text), "coordinates of rank %d: entry 1 is (3, 0), and the matrix 3 x 5", (int)ranks - 1);
    assert_error(WEFT_ERR_INVALID, text);
    assert_null(weft_sparse_create_coo(3, 5, mesh, &by_rows, NULL, NULL, NULL, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "counts is NULL");
    counts[own - 1] = last ? -1 : 0;
    assert_null(weft_sparse_create_coo(3, 5, mesh, &by_rows, NULL, counts, NULL, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, last ? "-1, is negative" : "gave wrong arguments");
    counts[own - 1] = 0;
    if (weft_num_processes() > 1) { /* a list on some processes alone */
        weft_index_list *list = NULL;
        assert_null(weft_sparse_create_coo(3, 5, mesh, &by_rows, NULL, counts, NULL, NULL, last ? &list : NULL));
        assert_error(WEFT_ERR_MISMATCH, "gave other arguments");
        assert_null(list);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* What only one process refuses, all refuse. */
static void acquired_shard(void **state)
{
    (void)state;
    WORLD(4);
    static scene s;
    make_second_differences(&s);
    if (weft_num_processes() > 1) {
        weft_tensor *other = weft_ones(WEFT_F64, 1, &s.rows, s.mesh, NULL);
        const bool holds = weft_process_index() == weft_num_processes() - 1;
        assert_true(!holds || weft_local_acquire(other, 0, WEFT_WRITE) != NULL);
        weft_add(other, other); /* waits for it */
        create_csr(&s, WEFT_I64, NULL);
        assert_null(s.a);
        assert_error(WEFT_ERR_STATE, holds ? "weft_local_release()" : "process");
        assert_null(weft_index_list_create(N, s.mesh, s.row_placements, (const int64_t[MAX_RANKS]){ 0 }, NULL));
        assert_error(WEFT_ERR_STATE, holds ? "weft_local_release()" : "process");
        assert_int_equal(holds ? weft_local_release(other, 0) : WEFT_OK, WEFT_OK);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static void wrong_tensors(void **state)
{
    (void)state;
    WORLD(4);
    static scene s;
    make_second_differences(&s);
    weft_tensor *values = values_of(&s), *x = weft_ones(WEFT_F64, 1, &s.rows, s.mesh, NULL);
    const int64_t more = N + 1, shape[] = { weft_world_size(), 1 };
    assert_null(weft_sparse_matmul(NULL, values, x, false));
    assert_error(WEFT_ERR_INVALID, "a is NULL");
    assert_null(weft_sparse_matmul(s.a, x, x, false));
    assert_error(WEFT_ERR_SHAPE, "one for each entry");
    assert_null(weft_sparse_matmul(s.a, values, weft_ones(WEFT_F64, 1, &more, s.mesh, NULL), true));
    assert_error(WEFT_ERR_SHAPE, "expected [21] or [21, k], as the matrix has rows");
    assert_null(weft_sparse_matmul(s.a, values, weft_ones(WEFT_F32, 1, &s.rows, s.mesh, NULL), false));
    assert_error(WEFT_ERR_DTYPE, "x is f32, and values f64");
    assert_null(weft_sparse_matmul(s.a, weft_ones(WEFT_I64, 1, &s.nnz, s.mesh, NULL), x, false));
    assert_error(WEFT_ERR_DTYPE, "values");
    assert_null(weft_sparse_matmul(s.a, values, weft_ones(WEFT_F64, 1, &s.rows, weft_mesh_create(2, shape, NULL), NULL), false));
    assert_error(WEFT_ERR_MESH, "x is on mesh");
    weft_sparse *stale = s.a;
    assert_int_equal(weft_sparse_destroy(s.a), WEFT_OK);
    assert_int_equal(weft_sparse_destroy(stale), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    assert_int_equal(weft_sparse_nnz(stale), -1);
    assert_error(WEFT_ERR_INVALID, "it has been destroyed");
    make_second_differences(&s); /* left to weft_finalize() */
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    num_matrices = cases_to_run(60);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows),       cmocka_unit_test(random_coordinates), cmocka_unit_test(graphs),
        cmocka_unit_test(values_in_place),   cmocka_unit_test(wrong_rows),         cmocka_unit_test(wrong_coordinates), cmocka_unit_test(acquired_shard),
        cmocka_unit_test(wrong_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
