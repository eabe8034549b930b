/* Bad input of meshes and tensors; chains after an error; calls before weft_init() and after
 * weft_finalize(); invalid settings. */
#include "errors_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *locals[RANKS] = { memory, memory, memory, memory },
            *one_null[RANKS] = { memory, NULL, memory, memory };
static int64_t offset[8], extent[8], coordinate[8];

/* ---- rows
 * ----------------------------------------------------------------------------------------------- */

static void test_meshes(void **state)
{
    (void)state;
    GIVES_NULL(weft_mesh_create(0, shape_45, NULL), INVALID, "weft_mesh_create", "ndim");
    GIVES_NULL(weft_mesh_create(9, nine, NULL), INVALID, "weft_mesh_create", "ndim");
    GIVES_NULL(weft_mesh_create(1, NULL, NULL), INVALID, "weft_mesh_create", "shape");
    GIVES_NULL(weft_mesh_create(1, (int64_t[]){ 0 }, NULL), INVALID, "weft_mesh_create", "shape[0]");
    GIVES_NULL(weft_mesh_create(2, shape_45, NULL), MESH, "weft_mesh_create", "ranks");
    GIVES_NULL(weft_mesh_create(2, huge, NULL), MESH, "weft_mesh_create", "ranks");
    GIVES_NULL(weft_mesh_create(1, (int64_t[]){ 2 }, (const char *const[]){ "" }), INVALID,
               "weft_mesh_create", "names[0]");
    GIVES_NULL(weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *const[]){ "a", "a" }), INVALID,
               "weft_mesh_create", "names");
    GIVES_NULL(weft_mesh_of_ranks(1, (int64_t[]){ 2 }, NULL, NULL), INVALID, "weft_mesh_of_ranks", "ranks");
    GIVES_NULL(weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 0, RANKS }, NULL), INVALID,
               "weft_mesh_of_ranks", "ranks[1]");
    GIVES_NULL(weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ -1, 0 }, NULL), INVALID, "weft_mesh_of_ranks",
               "ranks[0]");
    GIVES_NULL(weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 1, 1 }, NULL), INVALID, "weft_mesh_of_ranks",
               "ranks");
    GIVES_NULL(weft_mesh_slice(NOT_A_MESH, "dp"), INVALID, "weft_mesh_slice", "mesh");
    GIVES_NULL(weft_mesh_slice(mesh, NULL), INVALID, "weft_mesh_slice", "name");
    GIVES_NULL(weft_mesh_slice(mesh, "pp"), INVALID, "weft_mesh_slice", "name");
    GIVES_NULL(weft_mesh_submesh(stale_mesh, 1, (const char *const[]){ "dp" }, 0), INVALID, "weft_mesh_submesh",
               "mesh");
    GIVES_NULL(weft_mesh_submesh(mesh, 1, (const char *const[]){ "pp" }, 0), INVALID, "weft_mesh_submesh",
               "names[0]");
    GIVES_NULL(weft_mesh_submesh(mesh, 1, (const char *const[]){ "dp" }, 99), INVALID, "weft_mesh_submesh", "rank");
    GIVES_NULL(weft_mesh_unflatten(stale_mesh, 0, 1, shape_45, NULL), INVALID, "weft_mesh_unflatten", "mesh");
    GIVES_NULL(weft_mesh_unflatten(mesh, 2, 1, shape_45, NULL), INVALID, "weft_mesh_unflatten", "dim");
    GIVES_NULL(weft_mesh_unflatten(mesh, 0, 2, shape_45, NULL), SHAPE, "weft_mesh_unflatten", "sizes");
    GIVES_NULL(weft_mesh_flatten(stale_mesh, 0, 1, NULL), INVALID, "weft_mesh_flatten", "mesh");
    GIVES_NULL(weft_mesh_flatten(mesh, 2, 2, NULL), INVALID, "weft_mesh_flatten", "first");
    GIVES_NULL(weft_mesh_flatten(mesh, 0, 5, NULL), INVALID, "weft_mesh_flatten", "last");
    GIVES_NULL(weft_mesh_flatten(mesh, 1, 0, NULL), INVALID, "weft_mesh_flatten", "last");
    GIVES_ZERO(weft_mesh_ndim(NOT_A_MESH), INVALID, "weft_mesh_ndim", "mesh");
    GIVES_ZERO(weft_mesh_ndim(stale_mesh), INVALID, "weft_mesh_ndim", "mesh");
    GIVES_ZERO(weft_mesh_ndim(NULL), MESH, "weft_mesh_ndim", "mesh stack is empty");
    GIVES_ZERO(weft_mesh_size(mesh, 2), INVALID, "weft_mesh_size", "dim");
    GIVES_ZERO(weft_mesh_size(mesh, -3), INVALID, "weft_mesh_size", "dim");
    GIVES_ZERO(weft_mesh_size(NOT_A_MESH, 0), INVALID, "weft_mesh_size", "mesh");
    GIVES_NULL(weft_mesh_dim_name(mesh, 2), INVALID, "weft_mesh_dim_name", "dim");
    GIVES_ZERO(weft_mesh_num_ranks(NOT_A_MESH), INVALID, "weft_mesh_num_ranks", "mesh");
    GIVES_ZERO(weft_mesh_coordinate(NOT_A_MESH, 0, coordinate), INVALID, "weft_mesh_coordinate", "mesh");
    GIVES_ZERO(weft_mesh_coordinate(mesh, RANKS, coordinate), INVALID, "weft_mesh_coordinate", "rank");
    GIVES_ZERO(weft_mesh_coordinate(mesh, 0, NULL), INVALID, "weft_mesh_coordinate", "coordinate");
    REFUSES(weft_mesh_push(NULL), INVALID, "weft_mesh_push", "mesh");
    REFUSES(weft_mesh_push(NOT_A_MESH), INVALID, "weft_mesh_push", "mesh");
    REFUSES(weft_mesh_push(stale_mesh), INVALID, "weft_mesh_push", "mesh");
    REFUSES(weft_mesh_pop(), STATE, "weft_mesh_pop", "empty");
    REFUSES(weft_placements_parse(NULL, 1, (weft_placement[1]){ { 0 } }), INVALID, "weft_placements_parse",
            "text");
    REFUSES(weft_placements_parse("R", 1, NULL), INVALID, "weft_placements_parse", "out");
    REFUSES(weft_placements_parse("R,R", 1, (weft_placement[2]){ { 0 } }), INVALID, "weft_placements_parse",
            "text");
    REFUSES(weft_placements_parse("R", 2, (weft_placement[2]){ { 0 } }), INVALID, "weft_placements_parse",
            "text");
    REFUSES(weft_placements_parse("S(x)", 1, (weft_placement[1]){ { 0 } }), INVALID, "weft_placements_parse",
            "S(x)");
    REFUSES(weft_placements_parse("R", 9, (weft_placement[9]){ { 0 } }), INVALID, "weft_placements_parse",
            "n is");
    REFUSES(weft_shard_box(NOT_A_MESH, rows, 2, shape_45, 0, offset, extent), INVALID, "weft_shard_box",
            "mesh");
    REFUSES(weft_shard_box(NULL, rows, 2, shape_45, 0, offset, extent), MESH, "weft_shard_box", "mesh");
    REFUSES(weft_shard_box(mesh, rows, 9, nine, 0, offset, extent), INVALID, "weft_shard_box", "ndim");
    REFUSES(weft_shard_box(mesh, rows, 2, NULL, 0, offset, extent), INVALID, "weft_shard_box", "shape");
    REFUSES(weft_shard_box(mesh, rows, 2, negative, 0, offset, extent), SHAPE, "weft_shard_box", "shape[1]");
    REFUSES(weft_shard_box(mesh, rows, 2, shape_45, RANKS, offset, extent), INVALID, "weft_shard_box",
            "rank");
    REFUSES(weft_shard_box(mesh, bad_dim, 2, shape_45, 0, offset, extent), LAYOUT, "weft_shard_box",
            "placements");
    REFUSES(weft_shard_box(mesh, rows, 2, shape_45, 0, NULL, extent), INVALID, "weft_shard_box", "offset");
    REFUSES(weft_shard_box(mesh, rows, 2, shape_45, 0, offset, NULL), INVALID, "weft_shard_box", "extent");
    rows_end();
}

/* The checks that all factories share, for one of them. */
#define FACTORY_ROWS(f, ...)                                                                                 \
    do {                                                                                                     \
        GIVES_NULL(weft_##f((weft_dtype)WEFT_DTYPE_COUNT __VA_ARGS__, 2, shape_45, mesh, rows), DTYPE, "weft_" #f,          \
                   "dtype");                                                                                 \
        GIVES_NULL(weft_##f((weft_dtype)-1 __VA_ARGS__, 2, shape_45, mesh, rows), DTYPE, "weft_" #f,         \
                   "dtype");                                                                                 \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 9, nine, mesh, rows), INVALID, "weft_" #f, "ndim");        \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, -1, shape_45, mesh, rows), INVALID, "weft_" #f, "ndim");   \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, NULL, mesh, rows), INVALID, "weft_" #f, "shape");       \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, negative, mesh, rows), SHAPE, "weft_" #f, "shape[1]");  \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, huge, mesh, rows), SHAPE, "weft_" #f, "shape");         \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 3, huge_but_empty, mesh, rows), SHAPE, "weft_" #f,         \
                   "shape");                                                                                 \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, NULL, rows), MESH, "weft_" #f, "mesh");       \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, NOT_A_MESH, rows), INVALID, "weft_" #f,       \
                   "mesh");                                                                                  \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, stale_mesh, rows), INVALID, "weft_" #f,       \
                   "mesh");                                                                                  \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, mesh, bad_dim), LAYOUT, "weft_" #f,           \
                   "placements");                                                                            \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, mesh, bad_negative_dim), LAYOUT, "weft_" #f,  \
                   "placements");                                                                            \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, mesh, bad_kind), LAYOUT, "weft_" #f,          \
                   "placements");                                                                            \
        GIVES_NULL(weft_##f(WEFT_F32 __VA_ARGS__, 2, shape_45, mesh, bad_op), LAYOUT, "weft_" #f,            \
                   "placements");                                                                            \
    } while (0)
#define NOTHING
#define VALUE , 1.0

static void test_tensors(void **state)
{
    (void)state;
    FACTORY_ROWS(empty, NOTHING);
    FACTORY_ROWS(zeros, NOTHING);
    FACTORY_ROWS(ones, NOTHING);
    FACTORY_ROWS(rand, NOTHING);
    FACTORY_ROWS(randn, NOTHING);
    FACTORY_ROWS(full, VALUE);
    GIVES_NULL(weft_zeros(WEFT_F32, 2, shape_45, mesh, with_partial), LAYOUT, "weft_zeros", "Partial");
    GIVES_NULL(weft_full(WEFT_I32, 1e10, 2, shape_45, mesh, NULL), DTYPE, "weft_full", "value");
    GIVES_NULL(weft_full(WEFT_I32, 0.5, 2, shape_45, mesh, NULL), DTYPE, "weft_full", "value");
    GIVES_NULL(weft_full_like(indices, NAN), DTYPE, "weft_full_like", "value");
    GIVES_NULL(weft_full(WEFT_F32, 1, 2, shape_45, mesh, with_partial), LAYOUT, "weft_full", "Partial");
    GIVES_NULL(weft_rand(WEFT_F32, 2, shape_45, mesh, with_partial), LAYOUT, "weft_rand", "Partial");
    GIVES_NULL(weft_rand(WEFT_I32, 2, shape_45, mesh, rows), DTYPE, "weft_rand", "i32");
    GIVES_NULL(weft_randn(WEFT_BOOL, 2, shape_45, mesh, rows), DTYPE, "weft_randn", "bool");
    GIVES_NULL(weft_distribute((weft_dtype)WEFT_DTYPE_COUNT, 2, shape_45, memory, mesh, rows), DTYPE, "weft_distribute",
               "dtype");
    GIVES_NULL(weft_distribute(WEFT_F32, 2, negative, memory, mesh, rows), SHAPE, "weft_distribute", "shape");
    GIVES_NULL(weft_distribute(WEFT_F32, 2, shape_45, memory, NULL, rows), MESH, "weft_distribute", "mesh");
    GIVES_NULL(weft_distribute(WEFT_F32, 2, shape_45, memory, mesh, bad_dim), LAYOUT, "weft_distribute",
               "placements");
    GIVES_NULL(weft_distribute(WEFT_F32, 2, shape_45, memory, mesh, with_partial), LAYOUT, "weft_distribute",
               "Partial");
    GIVES_NULL(weft_from_local((weft_dtype)WEFT_DTYPE_COUNT, 2, shape_45, locals, mesh, rows, 0), DTYPE, "weft_from_local",
               "dtype");
    GIVES_NULL(weft_from_local(WEFT_F32, 9, nine, locals, mesh, rows, 0), INVALID, "weft_from_local", "ndim");
    GIVES_NULL(weft_from_local(WEFT_F32, 2, NULL, locals, mesh, rows, 0), INVALID, "weft_from_local",
               "shape");
    GIVES_NULL(weft_from_local(WEFT_F32, 2, shape_45, locals, stale_mesh, rows, 0), INVALID,
               "weft_from_local", "mesh");
    GIVES_NULL(weft_from_local(WEFT_F32, 2, shape_45, locals, mesh, bad_dim, 0), LAYOUT, "weft_from_local",
               "placements");
    GIVES_NULL(weft_from_local(WEFT_F32, 2, shape_45, NULL, mesh, rows, 0), INVALID, "weft_from_local",
               "locals");
    GIVES_NULL(weft_from_local(WEFT_F32, 2, shape_45, locals, mesh, rows, 8), INVALID, "weft_from_local",
               "flags");
    GIVES_NULL(weft_from_local_even((weft_dtype)WEFT_DTYPE_COUNT, 2, shape_45, locals, mesh, rows, 0), DTYPE,
               "weft_from_local_even", "dtype");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 2, negative, locals, mesh, rows, 0), SHAPE,
               "weft_from_local_even", "shape");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 1, (int64_t[]){ INT64_MAX / 9 }, locals, mesh, rows, 0), SHAPE,
               "weft_from_local_even", "shape");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 2, shape_45, locals, NULL, rows, 0), MESH,
               "weft_from_local_even", "mesh");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 2, shape_45, locals, mesh, bad_dim, 0), LAYOUT,
               "weft_from_local_even", "placements");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 2, shape_45, NULL, mesh, rows, 0), INVALID,
               "weft_from_local_even", "locals");
    GIVES_NULL(weft_from_local_even(WEFT_F32, 2, shape_45, locals, mesh, rows, 16), INVALID,
               "weft_from_local_even", "flags");
    static const int matrix_45[] = { 1, 0, 5, 4, 2, 2, 0, 0, 5 }, banded[] = { 501, 0, 5, 4, 2, 2, 0, 0, 5 },
                     no_blocks[] = { 1, 0, 5, 4, 2, 0, 0, 0, 5 }, beyond[] = { 1, 0, 5, 4, 2, 2, 0, 9, 5 };
    int nine_numbers[9];
    REFUSES(weft_halo_exchange(NULL), INVALID, "weft_halo_exchange", "tensor");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, NULL, locals, mesh, 0), INVALID, "weft_from_scalapack", "descriptor");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, banded, locals, mesh, 0), INVALID, "weft_from_scalapack", "descriptor[0]");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, no_blocks, locals, mesh, 0), INVALID, "weft_from_scalapack", "descriptor[5]");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, beyond, locals, mesh, 0), INVALID, "weft_from_scalapack", "descriptor[7]");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, matrix_45, locals, stale_mesh, 0), INVALID, "weft_from_scalapack", "mesh");
    GIVES_NULL(weft_from_scalapack(WEFT_F32, matrix_45, NULL, mesh, 0), INVALID, "weft_from_scalapack", "locals");
    GIVES_NULL(weft_from_scalapack((weft_dtype)WEFT_DTYPE_COUNT, matrix_45, locals, mesh, 0), DTYPE, "weft_from_scalapack", "dtype");
    REFUSES(weft_scalapack_descriptor(NULL, 0, 0, nine_numbers), INVALID, "weft_scalapack_descriptor", "tensor");
    REFUSES(weft_scalapack_descriptor(matrix, 0, 0, NULL), INVALID, "weft_scalapack_descriptor", "descriptor");
    REFUSES(weft_scalapack_descriptor(matrix, -1, 0, nine_numbers), INVALID, "weft_scalapack_descriptor", "local_rank");
    GIVES_NULL(weft_redistribute(NULL, mesh, rows), INVALID, "weft_redistribute", "tensor");
    GIVES_NULL(weft_redistribute(dead, mesh, rows), INVALID, "weft_redistribute", "tensor");
    GIVES_NULL(weft_redistribute(stale_tensor, mesh, rows), INVALID, "weft_redistribute", "tensor");
    GIVES_NULL(weft_redistribute(matrix, stale_mesh, rows), INVALID, "weft_redistribute", "mesh");
    GIVES_NULL(weft_redistribute(matrix, mesh, bad_dim), LAYOUT, "weft_redistribute", "placements");
    GIVES_NULL(weft_redistribute(matrix, mesh, with_partial), LAYOUT, "weft_redistribute", "Partial");
    GIVES_NULL(weft_redistribute(partial, other_mesh, with_partial), LAYOUT, "weft_redistribute", "Partial");
    REFUSES(weft_to_host(NULL, memory, sizeof(memory)), INVALID, "weft_to_host", "tensor");
    REFUSES(weft_to_host(matrix, NULL, 80), INVALID, "weft_to_host", "global");
    REFUSES(weft_local_to_host(NULL, 0, memory, sizeof(memory)), INVALID, "weft_local_to_host", "tensor");
    REFUSES(weft_local_to_host(matrix, RANKS, memory, sizeof(memory)), INVALID, "weft_local_to_host",
            "local_rank");
    REFUSES(weft_local_to_host(matrix, -1, memory, sizeof(memory)), INVALID, "weft_local_to_host",
            "local_rank");
    REFUSES(weft_to_host(matrix, memory, 79), INVALID, "weft_to_host", "bytes");
    REFUSES(weft_local_to_host(square, 0, memory, 99), INVALID, "weft_local_to_host", "bytes");
    GIVES_ZERO(weft_tensor_bytes(NULL), INVALID, "weft_tensor_bytes", "tensor");
    GIVES_ZERO(weft_tensor_bytes(stale_tensor), INVALID, "weft_tensor_bytes", "tensor");
    GIVES_ZERO(weft_local_bytes(NULL, 0), INVALID, "weft_local_bytes", "tensor");
    GIVES_ZERO(weft_local_bytes(matrix, RANKS), INVALID, "weft_local_bytes", "local_rank");
    REFUSES(weft_local_to_host(square, 0, NULL, 100), INVALID, "weft_local_to_host", "shard");
    GIVES_NULL(weft_local_acquire(NULL, 0, WEFT_READ), INVALID, "weft_local_acquire", "tensor");
    GIVES_NULL(weft_local_acquire(matrix, RANKS, WEFT_READ), INVALID, "weft_local_acquire", "local_rank");
    GIVES_NULL(weft_local_acquire(matrix, 0, (weft_access)0), INVALID, "weft_local_acquire", "access");
    GIVES_NULL(weft_local_acquire(matrix, 0, (weft_access)4), INVALID, "weft_local_acquire", "access");
    REFUSES(weft_local_release(NULL, 0), INVALID, "weft_local_release", "tensor");
    REFUSES(weft_local_release(matrix, RANKS), INVALID, "weft_local_release", "local_rank");
    REFUSES(weft_local_release(matrix, 0), STATE, "weft_local_release", "not acquired");
    GIVES_ZERO(weft_tensor_ndim(NULL), INVALID, "weft_tensor_ndim", "tensor");
    GIVES_ZERO(weft_tensor_size(NULL, 0), INVALID, "weft_tensor_size", "tensor");
    GIVES_ZERO(weft_tensor_size(matrix, 2), INVALID, "weft_tensor_size", "dim");
    SETS_ERROR(weft_tensor_dtype(NULL), INVALID, "weft_tensor_dtype", "tensor");
    GIVES_NULL(weft_tensor_mesh(NULL), INVALID, "weft_tensor_mesh", "tensor");
    GIVES_NULL(weft_tensor_placements(NULL), INVALID, "weft_tensor_placements", "tensor");
    REFUSES(weft_local_box(NULL, 0, offset, extent), INVALID, "weft_local_box", "tensor");
    REFUSES(weft_local_box(matrix, RANKS, offset, extent), INVALID, "weft_local_box", "local_rank");
    REFUSES(weft_local_box(matrix, 0, NULL, extent), INVALID, "weft_local_box", "offset");
    REFUSES(weft_tensor_set_name(NULL, "a"), INVALID, "weft_tensor_set_name", "tensor");
    REFUSES(weft_tensor_print(NULL, stdout), INVALID, "weft_tensor_print", "tensor");
    REFUSES(weft_tensor_print(matrix, NULL), INVALID, "weft_tensor_print", "file");
    SETS_ERROR(weft_tensor_retain(NULL), INVALID, "weft_tensor_retain", "tensor");
    SETS_ERROR(weft_tensor_retain(dead), INVALID, "weft_tensor_retain", "tensor");
    SETS_ERROR(weft_tensor_release(NULL), INVALID, "weft_tensor_release", "tensor");
    SETS_ERROR(weft_tensor_release(dead), INVALID, "weft_tensor_release", "tensor");
    SETS_ERROR(weft_tensor_release(NOT_A_TENSOR), INVALID, "weft_tensor_release", "tensor");
    GIVES_NULL(weft_scope_keep(NULL), INVALID, "weft_scope_keep", "tensor");
    GIVES_NULL(weft_scope_keep(matrix), STATE, "weft_scope_keep", "scope");
    SETS_ERROR(weft_scope_end(), STATE, "weft_scope_end", "scope");
    REFUSES(weft_get_counters(NULL, sizeof(weft_counters)), INVALID, "weft_get_counters", "counters");
    REFUSES(weft_init(NULL), STATE, "weft_init", "already");
    rows_end();
}

/* An error that only some processes see: a missing pointer for a hosted rank. */
static void test_missing_locals(void **state)
{
    (void)state;
    if (weft_local_ranks() > 1) {
        assert_null(weft_from_local(WEFT_F32, 2, shape_45, one_null, mesh, rows, 0));
        assert_error(WEFT_ERR_INVALID, "locals");
    }
    assert_null(weft_distribute(WEFT_F32, 2, shape_45, NULL, mesh, rows));
    assert_error(WEFT_ERR_INVALID, "global");
}

/* The mesh stack after the last pop is as good as none. */
static void test_popped_mesh(void **state)
{
    (void)state;
    assert_int_equal(weft_mesh_push(mesh), WEFT_OK);
    weft_tensor *tensor = weft_zeros(WEFT_F32, 2, shape_45, NULL, rows);
    assert_non_null(tensor);
    assert_int_equal(weft_mesh_pop(), WEFT_OK);
    assert_null(weft_zeros(WEFT_F32, 2, shape_45, NULL, rows));
    assert_error(WEFT_ERR_MESH, "weft_zeros");
    assert_ptr_equal(weft_tensor_mesh(weft_redistribute(tensor, NULL, NULL)), mesh); /* has one of its own */
    weft_tensor_release(tensor);
    assert_no_error();
}

/* The first error stays; a chain needs one check at its end. */
static void test_chains(void **state)
{
    (void)state;
    weft_tensor *sum = weft_sum(weft_add(weft_matmul(matrix, matrix), square), WEFT_ALL_DIMS, false);
    assert_null(sum);
    assert_error(WEFT_ERR_SHAPE, "weft_matmul");
    assert_int_equal(weft_last_status(), WEFT_OK);
    assert_string_equal(weft_last_error(), "");
}

/* A value that only a task can see wrong: the program gets a status when it next waits, and zeros meanwhile.
 */
static void test_values_out_of_range(void **state)
{
    (void)state;
    const int64_t count[] = { 4 };
    weft_scope_begin();
    weft_tensor *far = weft_full(WEFT_I64, 99, 1, count, mesh, NULL);
    weft_tensor *rows_of_zeros = weft_embedding(square, far);
    float values[20];
    assert_int_equal(weft_to_host(rows_of_zeros, values, sizeof(values)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "99");
    for (int i = 0; i < 20; i++) {
        assert_true(values[i] == 0);
    }
    weft_cross_entropy(matrix, far, NULL);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy");
    weft_scope_end();
    assert_library_works();
}

/* ---- before and after ---------------------------------------------------------------------------------- */

static void test_not_initialized(void **state)
{
    (void)state;
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(weft_world_size(), 0);
    assert_int_equal(weft_local_ranks(), 0);
    assert_null(weft_mesh_current());
    weft_print_pending(stderr);
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_finalize");
    assert_int_equal(weft_wait(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_wait");
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_get_counters");
    assert_int_equal(weft_mesh_pop(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_mesh_pop");
    weft_scope_begin();
    assert_error(WEFT_ERR_STATE, "weft_scope_begin");
    weft_scope_end();
    assert_error(WEFT_ERR_STATE, "weft_scope_end");
    assert_null(weft_mesh_create(1, shape_45, NULL));
    assert_error(WEFT_ERR_STATE, "weft_mesh_create");
    assert_null(weft_zeros(WEFT_F32, 2, shape_45, mesh, rows));
    assert_error(WEFT_ERR_STATE, "weft_zeros");
    assert_null(weft_add(matrix, matrix));
    assert_error(WEFT_ERR_STATE, "weft_add");
    assert_int_equal(weft_to_host(matrix, memory, sizeof(memory)), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_to_host");
    weft_tensor_release(matrix);
    assert_error(WEFT_ERR_STATE, "weft_tensor_release");
    start(); /* for the tests that follow, and their teardown */
    make_fixtures();
}

typedef struct setting {
    row_place place;
    const char *variable, *value;
} setting;

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(weft_finalize(), WEFT_OK);
    /* clang-format off */
    static const setting settings[] = {
        { THIS_ROW, "WEFT_WORLD", "moon" },
        { THIS_ROW, "WEFT_LOCAL_RANKS", "0" },
        { THIS_ROW, "WEFT_LOCAL_RANKS", "two" },
        { THIS_ROW, "WEFT_FAKE_SIZE", "-3" },
        { THIS_ROW, "WEFT_FAKE_PROCESSES", "0" },
        { THIS_ROW, "WEFT_PREDICT", "runs=many" },
        { THIS_ROW, "WEFT_PREDICT", "to=" },
        { THIS_ROW, "WEFT_PREDICT", "on,,json" },
        { THIS_ROW, "WEFT_RANKS", "1e3" },
        { THIS_ROW, "WEFT_SEED", "-1" },
        { THIS_ROW, "WEFT_SEED", "abc" },
        { THIS_ROW, "WEFT_WORKERS", "0" },
        { THIS_ROW, "WEFT_DEVICES", "-1" },
        { THIS_ROW, "WEFT_NCCL", "2" },
        { THIS_ROW, "WEFT_MPI_DEVICES", "yes" },
        { THIS_ROW, "WEFT_TF32", "2" },
        { THIS_ROW, "WEFT_BITS", "exact" },
        { THIS_ROW, "WEFT_POOL_BYTES", "-1" },
        { THIS_ROW, "WEFT_CACHE_BYTES", "-1" },
        { THIS_ROW, "WEFT_MEMORY_BYTES", "-1" },
        { THIS_ROW, "WEFT_TIMEOUT_S", "soon" },
        { THIS_ROW, "WEFT_PANEL_BYTES", "0" },
        { THIS_ROW, "WEFT_PANEL_ROWS", "0" },
        { THIS_ROW, "WEFT_PLAN", "ring" },
        { THIS_ROW, "WEFT_PACK_BYTES", "1e6" },
        { THIS_ROW, "WEFT_CALIBRATE", "yes" },
        { THIS_ROW, "WEFT_SILENT", "please" },
        { THIS_ROW, "WEFT_SIGNALS", "2" },
        { THIS_ROW, "WEFT_AUTOGRAPH", "yes" },
        { THIS_ROW, "WEFT_GRAPH_PASSES", "dead,undead" },
        { THIS_ROW, "WEFT_GRAPH_PASSES", "dead," },
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        enter_row(settings[i].place, __func__);
        setenv(settings[i].variable, settings[i].value, 1);
        assert_int_equal(weft_init(NULL), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, settings[i].variable);
        unsetenv(settings[i].variable);
    }
    leave_rows();
    setenv("WEFT_CALIBRATE", "off", 1);
    setenv("WEFT_DEVICES", "1000000", 1); /* no machine has them */
    assert_int_equal(weft_init(NULL), WEFT_ERR_UNSUPPORTED);
    assert_error(WEFT_ERR_UNSUPPORTED, "WEFT_DEVICES");
    unsetenv("WEFT_DEVICES");
    static const struct {
        row_place place;
        weft_config config;
        const char *names;
    } configs[] = {
        { THIS_ROW, { .world = (weft_world)9 }, "world" },
        { THIS_ROW, { .local_ranks = -1 }, "local_ranks" },
        { THIS_ROW, { .fake_size = -1 }, "fake_size" },
        { THIS_ROW, { .ranks = -1 }, "ranks" },
        { THIS_ROW, { .workers = -1 }, "workers" },
        { THIS_ROW, { .pool_bytes = -1 }, "pool_bytes" },
        { THIS_ROW, { .cache_bytes = -1 }, "cache_bytes" },
        { THIS_ROW, { .ranks = 2, .local_ranks = 2 }, "ranks" },
        { THIS_ROW, { .world = WEFT_WORLD_FAKE, .fake_size = 1 << 30 }, "ranks" },
    };
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        enter_row(configs[i].place, __func__);
        assert_int_equal(weft_init(&configs[i].config), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, configs[i].names);
    }
    leave_rows();
    start();
    make_fixtures();
    assert_library_works();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meshes),          cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_missing_locals),  cmocka_unit_test(test_popped_mesh),
        cmocka_unit_test(test_chains),          cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_not_initialized), cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
