/* Bad input: every public function, every kind of wrong argument. A row is a call; after it: the status, a
 * message that names the function and the argument, nothing submitted. At the end of each table the library
 * still computes. */
#include "support.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the rows use --------------------------------------------------------------------------------- */

enum { RANKS = 4 };

static weft_mesh *mesh, *other_mesh, *stale_mesh;
static weft_tensor *image, *filter, *cut;
static weft_tensor *matrix, *square, *scalar, *whole, *on_other, *indices, *places, *booleans, *partial,
    *empty, *dead, *stale_tensor;
static const int64_t shape_45[] = { 4, 5 }, shape_55[] = { 5, 5 }, negative[] = { 4, -1 },
                     huge[] = { INT64_MAX / 2, 3 }, huge_but_empty[] = { 0, INT64_MAX, INT64_MAX },
                     nine[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const weft_placement rows[] = { { WEFT_SHARD, 0, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
                            columns[] = { { WEFT_SHARD, 1, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
                            bad_dim[] = { { WEFT_SHARD, 2, WEFT_SUM }, { WEFT_REPLICATE, 0, WEFT_SUM } },
                            bad_negative_dim[] = { { WEFT_SHARD, -3, WEFT_SUM },
                                                   { WEFT_REPLICATE, 0, WEFT_SUM } },
                            bad_kind[] = { { (weft_placement_kind)7, 0, WEFT_SUM },
                                           { WEFT_REPLICATE, 0, WEFT_SUM } },
                            bad_op[] = { { WEFT_PARTIAL, 0, (weft_reduce_op)9 },
                                         { WEFT_REPLICATE, 0, WEFT_SUM } },
                            with_partial[] = { { WEFT_PARTIAL, 0, WEFT_SUM },
                                               { WEFT_REPLICATE, 0, WEFT_SUM } };
static double memory[64];
static void *locals[RANKS] = { memory, memory, memory, memory },
            *one_null[RANKS] = { memory, NULL, memory, memory };
static int64_t offset[8], extent[8], coordinate[8];
static weft_tensor *pieces[4];
static bool answer;
static weft_random_state random_state;
static weft_tensor *largest;
static const weft_operation *custom;

static void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

static weft_tensor *make(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *on,
                         const weft_placement *how)
{
    weft_tensor *tensor = weft_zeros(dtype, ndim, shape, on, how);
    assert_no_error();
    return tensor;
}

static void make_fixtures(void)
{
    const int64_t mesh_shape[] = { 2, 2 }, line[] = { 4 }, count[] = { 4 };
    static const char *const names[] = { "dp", "tp" };
    mesh = weft_mesh_create(2, mesh_shape, names);
    other_mesh = weft_mesh_create(1, line, NULL);
    matrix = make(WEFT_F32, 2, shape_45, mesh, rows);
    cut = make(WEFT_F32, 2, shape_45, mesh, columns);
    square = make(WEFT_F32, 2, shape_55, mesh, NULL);
    image = make(WEFT_F32, 4, (const int64_t[]){ 2, 6, 5, 5 }, mesh, NULL);
    filter = make(WEFT_F32, 4, (const int64_t[]){ 4, 6, 3, 3 }, mesh, NULL);
    scalar = make(WEFT_F32, 0, NULL, mesh, NULL);
    whole = make(WEFT_F64, 2, shape_45, mesh, NULL);
    on_other = make(WEFT_F32, 2, shape_45, other_mesh, NULL);
    indices = make(WEFT_I64, 1, count, mesh, NULL);
    places = make(WEFT_I64, 2, shape_45, mesh, NULL);
    booleans = make(WEFT_BOOL, 2, shape_45, mesh, NULL);
    empty = make(WEFT_F32, 2, (const int64_t[]){ 0, 5 }, mesh, NULL);
    partial = weft_empty(WEFT_F32, 2, shape_45, mesh, with_partial);
    const weft_placement of_largest[] = { weft_partial(WEFT_MAX), weft_replicate() };
    largest = weft_empty(WEFT_F32, 2, shape_45, mesh, of_largest);
    custom = weft_operation_register(
        &(weft_operation_description){ .name = "custom",
                                       .rule = "ab->ac",
                                       .inputs = { { "argument", WEFT_TYPES_FLOAT, false } },
                                       .kernel = no_kernel });
    assert_int_equal(weft_random_state_create("there", 1), WEFT_OK);
    dead = make(WEFT_F32, 2, shape_45, mesh, NULL);
    weft_tensor_release(dead);
    assert_no_error();
}

typedef struct row {
    const char *call; /* as the program would write it */
    void (*make)(void);
    weft_status status;
    const char *names[2]; /* what the message must contain: function, argument */
} row;

static void start(void)
{
    weft_config config = { .world = WEFT_WORLD_AUTO, .ranks = RANKS };
    assert_int_equal(weft_init(&config), WEFT_OK);
}

/* A sum of ones over everything, right on all ranks. */
static void assert_library_works(void)
{
    weft_scope_open();
    weft_tensor *ones = weft_ones(WEFT_F64, 2, shape_45, mesh, rows);
    double result = 0;
    assert_int_equal(weft_to_host(weft_sum_all(weft_add(ones, ones)), &result, sizeof(result)), WEFT_OK);
    assert_true(result == 40);
    weft_scope_close();
    assert_no_error();
}

static void run_rows(const row table[], size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        weft_counters before, after;
        weft_get_counters(&before);
        table[i].make();
        if (weft_last_status() != table[i].status || strstr(weft_last_error(), table[i].names[0]) == NULL ||
            strstr(weft_last_error(), table[i].names[1]) == NULL) {
            wrong++;
            print_error("%s: got %s, \"%s\"; expected %s naming %s and %s\n", table[i].call,
                        weft_status_string(weft_last_status()), weft_last_error(),
                        weft_status_string(table[i].status), table[i].names[0], table[i].names[1]);
        }
        weft_clear_error();
        weft_get_counters(&after);
        if (after.tasks != before.tasks || after.transfers != before.transfers) {
            wrong++;
            print_error("%s: submitted something\n", table[i].call);
        }
    }
    if (weft_process_index() == 0) {
        printf("# %zu rows\n", count);
    }
    assert_int_equal(wrong, 0);
}

/* Each call is a function of its own, so that it can be a row. A status that is returned is checked against
 * the one kept, a pointer must be NULL. */
#define STATUS_CALL(name, call)                                                                              \
    static void name(void)                                                                                   \
    {                                                                                                        \
        weft_status returned = (call);                                                                       \
        assert_int_equal(returned, weft_last_status());                                                      \
    }
#define NULL_CALL(name, call)                                                                                \
    static void name(void)                                                                                   \
    {                                                                                                        \
        assert_null(call);                                                                                   \
    }
#define ZERO_CALL(name, call)                                                                                \
    static void name(void)                                                                                   \
    {                                                                                                        \
        assert_true((call) == 0);                                                                            \
    }
#define VOID_CALL(name, call)                                                                                \
    static void name(void)                                                                                   \
    {                                                                                                        \
        call;                                                                                                \
    }

/* ---- the table: TYPE(name, call, status, function, argument) ------------------------------------------- */

/* clang-format off */
#define NOT_A_MESH ((weft_mesh *)memory)
#define NOT_A_TENSOR ((weft_tensor *)memory)

#define MESH_ROWS(S, N, Z, V)                                                                                \
    N(mesh_ndim_0, weft_mesh_create(0, shape_45, NULL), INVALID, "weft_mesh_create", "ndim")                 \
    N(mesh_ndim_9, weft_mesh_create(9, nine, NULL), INVALID, "weft_mesh_create", "ndim")                     \
    N(mesh_shape_null, weft_mesh_create(1, NULL, NULL), INVALID, "weft_mesh_create", "shape")                \
    N(mesh_size_0, weft_mesh_create(1, (int64_t[]){ 0 }, NULL), INVALID, "weft_mesh_create", "shape[0]")     \
    N(mesh_too_large, weft_mesh_create(2, shape_45, NULL), MESH, "weft_mesh_create", "ranks")                \
    N(mesh_overflow, weft_mesh_create(2, huge, NULL), MESH, "weft_mesh_create", "ranks")                     \
    N(mesh_name_empty, weft_mesh_create(1, (int64_t[]){ 2 }, (const char *const[]){ "" }), INVALID,          \
      "weft_mesh_create", "names[0]")                                                                        \
    N(mesh_name_twice, weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *const[]){ "a", "a" }), INVALID, \
      "weft_mesh_create", "names")                                                                           \
    N(of_ranks_null, weft_mesh_of_ranks(1, (int64_t[]){ 2 }, NULL, NULL), INVALID, "weft_mesh_of_ranks", "ranks") \
    N(of_ranks_outside, weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 0, RANKS }, NULL), INVALID,         \
      "weft_mesh_of_ranks", "ranks[1]")                                                                      \
    N(of_ranks_negative, weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ -1, 0 }, NULL), INVALID,           \
      "weft_mesh_of_ranks", "ranks[0]")                                                                      \
    N(of_ranks_twice, weft_mesh_of_ranks(1, (int64_t[]){ 2 }, (int[]){ 1, 1 }, NULL), INVALID, "weft_mesh_of_ranks", \
      "ranks")                                                                                               \
    N(slice_bad_mesh, weft_mesh_slice(NOT_A_MESH, "dp"), INVALID, "weft_mesh_slice", "mesh")                 \
    N(slice_null_name, weft_mesh_slice(mesh, NULL), INVALID, "weft_mesh_slice", "name")                      \
    N(slice_no_such_name, weft_mesh_slice(mesh, "pp"), INVALID, "weft_mesh_slice", "name")                   \
    N(flatten_bad_mesh, weft_mesh_flatten(stale_mesh, 0, 1, NULL), INVALID, "weft_mesh_flatten", "mesh")     \
    N(flatten_bad_first, weft_mesh_flatten(mesh, 2, 2, NULL), INVALID, "weft_mesh_flatten", "first")         \
    N(flatten_bad_last, weft_mesh_flatten(mesh, 0, 5, NULL), INVALID, "weft_mesh_flatten", "last")           \
    N(flatten_reversed, weft_mesh_flatten(mesh, 1, 0, NULL), INVALID, "weft_mesh_flatten", "last")           \
    Z(ndim_of_no_mesh, weft_mesh_ndim(NOT_A_MESH), INVALID, "weft_mesh_ndim", "mesh")                        \
    Z(ndim_of_stale_mesh, weft_mesh_ndim(stale_mesh), INVALID, "weft_mesh_ndim", "mesh")                     \
    Z(ndim_no_current, weft_mesh_ndim(NULL), MESH, "weft_mesh_ndim", "mesh stack is empty")                  \
    Z(size_bad_dim, weft_mesh_size(mesh, 2), INVALID, "weft_mesh_size", "dim")                               \
    Z(size_bad_negative_dim, weft_mesh_size(mesh, -3), INVALID, "weft_mesh_size", "dim")                     \
    Z(size_bad_mesh, weft_mesh_size(NOT_A_MESH, 0), INVALID, "weft_mesh_size", "mesh")                       \
    N(name_bad_dim, weft_mesh_dim_name(mesh, 2), INVALID, "weft_mesh_dim_name", "dim")                       \
    Z(num_ranks_bad_mesh, weft_mesh_num_ranks(NOT_A_MESH), INVALID, "weft_mesh_num_ranks", "mesh")           \
    Z(coordinate_bad_mesh, weft_mesh_coordinate(NOT_A_MESH, 0, coordinate), INVALID, "weft_mesh_coordinate", "mesh") \
    Z(coordinate_bad_rank, weft_mesh_coordinate(mesh, RANKS, coordinate), INVALID, "weft_mesh_coordinate", "rank") \
    Z(coordinate_null, weft_mesh_coordinate(mesh, 0, NULL), INVALID, "weft_mesh_coordinate", "coordinate")   \
    S(push_null, weft_mesh_push(NULL), INVALID, "weft_mesh_push", "mesh")                                    \
    S(push_bad, weft_mesh_push(NOT_A_MESH), INVALID, "weft_mesh_push", "mesh")                               \
    S(push_stale, weft_mesh_push(stale_mesh), INVALID, "weft_mesh_push", "mesh")                             \
    S(pop_empty, weft_mesh_pop(), STATE, "weft_mesh_pop", "empty")                                           \
    S(parse_null, weft_placements_parse(NULL, 1, (weft_placement[1]){ { 0 } }), INVALID, "weft_placements_parse", \
      "text")                                                                                                \
    S(parse_null_out, weft_placements_parse("R", 1, NULL), INVALID, "weft_placements_parse", "out")          \
    S(parse_too_many, weft_placements_parse("R,R", 1, (weft_placement[2]){ { 0 } }), INVALID,                \
      "weft_placements_parse", "text")                                                                       \
    S(parse_too_few, weft_placements_parse("R", 2, (weft_placement[2]){ { 0 } }), INVALID, "weft_placements_parse", \
      "text")                                                                                                \
    S(parse_nonsense, weft_placements_parse("S(x)", 1, (weft_placement[1]){ { 0 } }), INVALID,               \
      "weft_placements_parse", "S(x)")                                                                       \
    S(parse_n, weft_placements_parse("R", 9, (weft_placement[9]){ { 0 } }), INVALID, "weft_placements_parse", "n is") \
    S(box_bad_mesh, weft_shard_box(NOT_A_MESH, rows, 2, shape_45, 0, offset, extent), INVALID, "weft_shard_box", \
      "mesh")                                                                                                \
    S(box_no_mesh, weft_shard_box(NULL, rows, 2, shape_45, 0, offset, extent), MESH, "weft_shard_box", "mesh") \
    S(box_bad_ndim, weft_shard_box(mesh, rows, 9, nine, 0, offset, extent), INVALID, "weft_shard_box", "ndim") \
    S(box_null_shape, weft_shard_box(mesh, rows, 2, NULL, 0, offset, extent), INVALID, "weft_shard_box", "shape") \
    S(box_negative, weft_shard_box(mesh, rows, 2, negative, 0, offset, extent), SHAPE, "weft_shard_box", "shape[1]") \
    S(box_bad_rank, weft_shard_box(mesh, rows, 2, shape_45, RANKS, offset, extent), INVALID, "weft_shard_box", "rank") \
    S(box_bad_dim, weft_shard_box(mesh, bad_dim, 2, shape_45, 0, offset, extent), LAYOUT, "weft_shard_box",  \
      "placements")                                                                                          \
    S(box_null_offset, weft_shard_box(mesh, rows, 2, shape_45, 0, NULL, extent), INVALID, "weft_shard_box", "offset") \
    S(box_null_extent, weft_shard_box(mesh, rows, 2, shape_45, 0, offset, NULL), INVALID, "weft_shard_box", "extent")

/* The checks that all factories share, for one of them ... */
#define FACTORY_ROWS(N, f, ...)                                                                              \
    N(f##_bad_dtype, weft_##f((weft_dtype)8, 2, shape_45 __VA_ARGS__, mesh, rows), DTYPE, "weft_" #f, "dtype") \
    N(f##_negative_dtype, weft_##f((weft_dtype)-1, 2, shape_45 __VA_ARGS__, mesh, rows), DTYPE, "weft_" #f, "dtype") \
    N(f##_bad_ndim, weft_##f(WEFT_F32, 9, nine __VA_ARGS__, mesh, rows), INVALID, "weft_" #f, "ndim")        \
    N(f##_negative_ndim, weft_##f(WEFT_F32, -1, shape_45 __VA_ARGS__, mesh, rows), INVALID, "weft_" #f, "ndim") \
    N(f##_null_shape, weft_##f(WEFT_F32, 2, NULL __VA_ARGS__, mesh, rows), INVALID, "weft_" #f, "shape")     \
    N(f##_negative_size, weft_##f(WEFT_F32, 2, negative __VA_ARGS__, mesh, rows), SHAPE, "weft_" #f, "shape[1]") \
    N(f##_overflow, weft_##f(WEFT_F32, 2, huge __VA_ARGS__, mesh, rows), SHAPE, "weft_" #f, "shape")         \
    N(f##_empty_overflow, weft_##f(WEFT_F32, 3, huge_but_empty __VA_ARGS__, mesh, rows), SHAPE, "weft_" #f, "shape") \
    N(f##_no_mesh, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, NULL, rows), MESH, "weft_" #f, "mesh")        \
    N(f##_bad_mesh, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, NOT_A_MESH, rows), INVALID, "weft_" #f, "mesh") \
    N(f##_stale_mesh, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, stale_mesh, rows), INVALID, "weft_" #f, "mesh") \
    N(f##_bad_dim, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, mesh, bad_dim), LAYOUT, "weft_" #f, "placements") \
    N(f##_bad_neg_dim, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, mesh, bad_negative_dim), LAYOUT, "weft_" #f, \
      "placements")                                                                                          \
    N(f##_bad_kind, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, mesh, bad_kind), LAYOUT, "weft_" #f, "placements") \
    N(f##_bad_op, weft_##f(WEFT_F32, 2, shape_45 __VA_ARGS__, mesh, bad_op), LAYOUT, "weft_" #f, "placements")
#define NOTHING
#define VALUE , 1.0

/* ... and what only some of them refuse. */
#define TENSOR_ROWS(S, N, Z, V)                                                                              \
    FACTORY_ROWS(N, empty, NOTHING)                                                                          \
    FACTORY_ROWS(N, zeros, NOTHING)                                                                          \
    FACTORY_ROWS(N, ones, NOTHING)                                                                           \
    FACTORY_ROWS(N, rand, NOTHING)                                                                           \
    FACTORY_ROWS(N, randn, NOTHING)                                                                          \
    FACTORY_ROWS(N, full, VALUE)                                                                             \
    N(zeros_partial, weft_zeros(WEFT_F32, 2, shape_45, mesh, with_partial), LAYOUT, "weft_zeros", "Partial") \
    N(full_range, weft_full(WEFT_I32, 2, shape_45, 1e10, mesh, NULL), DTYPE, "weft_full", "value")           \
    N(full_fraction, weft_full(WEFT_I32, 2, shape_45, 0.5, mesh, NULL), DTYPE, "weft_full", "value")         \
    N(full_like_nan, weft_full_like(indices, NAN), DTYPE, "weft_full_like", "value")                         \
    N(full_partial, weft_full(WEFT_F32, 2, shape_45, 1, mesh, with_partial), LAYOUT, "weft_full", "Partial") \
    N(rand_partial, weft_rand(WEFT_F32, 2, shape_45, mesh, with_partial), LAYOUT, "weft_rand", "Partial")    \
    N(rand_integer, weft_rand(WEFT_I32, 2, shape_45, mesh, rows), DTYPE, "weft_rand", "i32")                 \
    N(randn_integer, weft_randn(WEFT_BOOL, 2, shape_45, mesh, rows), DTYPE, "weft_randn", "bool")            \
    N(distribute_dtype, weft_distribute((weft_dtype)9, 2, shape_45, memory, mesh, rows), DTYPE, "weft_distribute", \
      "dtype")                                                                                               \
    N(distribute_shape, weft_distribute(WEFT_F32, 2, negative, memory, mesh, rows), SHAPE, "weft_distribute", "shape") \
    N(distribute_mesh, weft_distribute(WEFT_F32, 2, shape_45, memory, NULL, rows), MESH, "weft_distribute", "mesh") \
    N(distribute_dim, weft_distribute(WEFT_F32, 2, shape_45, memory, mesh, bad_dim), LAYOUT, "weft_distribute", \
      "placements")                                                                                          \
    N(distribute_partial, weft_distribute(WEFT_F32, 2, shape_45, memory, mesh, with_partial), LAYOUT,        \
      "weft_distribute", "Partial")                                                                          \
    N(local_dtype, weft_from_local((weft_dtype)9, 2, shape_45, locals, mesh, rows, 0), DTYPE, "weft_from_local", \
      "dtype")                                                                                               \
    N(local_ndim, weft_from_local(WEFT_F32, 9, nine, locals, mesh, rows, 0), INVALID, "weft_from_local", "ndim") \
    N(local_shape, weft_from_local(WEFT_F32, 2, NULL, locals, mesh, rows, 0), INVALID, "weft_from_local", "shape") \
    N(local_mesh, weft_from_local(WEFT_F32, 2, shape_45, locals, stale_mesh, rows, 0), INVALID, "weft_from_local", \
      "mesh")                                                                                                \
    N(local_dim, weft_from_local(WEFT_F32, 2, shape_45, locals, mesh, bad_dim, 0), LAYOUT, "weft_from_local", \
      "placements")                                                                                          \
    N(local_null, weft_from_local(WEFT_F32, 2, shape_45, NULL, mesh, rows, 0), INVALID, "weft_from_local", "locals") \
    N(local_flags, weft_from_local(WEFT_F32, 2, shape_45, locals, mesh, rows, 8), INVALID, "weft_from_local", "flags") \
    N(even_dtype, weft_from_local_even((weft_dtype)9, 2, shape_45, locals, mesh, rows, 0), DTYPE,            \
      "weft_from_local_even", "dtype")                                                                       \
    N(even_shape, weft_from_local_even(WEFT_F32, 2, negative, locals, mesh, rows, 0), SHAPE, "weft_from_local_even", \
      "shape")                                                                                               \
    N(even_overflow, weft_from_local_even(WEFT_F32, 1, (int64_t[]){ INT64_MAX / 9 }, locals, mesh, rows, 0), SHAPE, \
      "weft_from_local_even", "shape")                                                                       \
    N(even_mesh, weft_from_local_even(WEFT_F32, 2, shape_45, locals, NULL, rows, 0), MESH, "weft_from_local_even", \
      "mesh")                                                                                                \
    N(even_dim, weft_from_local_even(WEFT_F32, 2, shape_45, locals, mesh, bad_dim, 0), LAYOUT, "weft_from_local_even", \
      "placements")                                                                                          \
    N(even_null, weft_from_local_even(WEFT_F32, 2, shape_45, NULL, mesh, rows, 0), INVALID, "weft_from_local_even", \
      "locals")                                                                                              \
    N(even_flags, weft_from_local_even(WEFT_F32, 2, shape_45, locals, mesh, rows, 4), INVALID, "weft_from_local_even", \
      "flags")                                                                                               \
    N(redistribute_null, weft_redistribute(NULL, mesh, rows), INVALID, "weft_redistribute", "tensor")        \
    N(redistribute_dead, weft_redistribute(dead, mesh, rows), INVALID, "weft_redistribute", "tensor")        \
    N(redistribute_stale, weft_redistribute(stale_tensor, mesh, rows), INVALID, "weft_redistribute", "tensor") \
    N(redistribute_mesh, weft_redistribute(matrix, stale_mesh, rows), INVALID, "weft_redistribute", "mesh")  \
    N(redistribute_dim, weft_redistribute(matrix, mesh, bad_dim), LAYOUT, "weft_redistribute", "placements") \
    N(redistribute_partial, weft_redistribute(matrix, mesh, with_partial), LAYOUT, "weft_redistribute", "Partial") \
    N(redistribute_other_partial, weft_redistribute(partial, other_mesh, with_partial), LAYOUT, "weft_redistribute", \
      "Partial")                                                                                             \
    S(host_null, weft_to_host(NULL, memory, sizeof(memory)), INVALID, "weft_to_host", "tensor")                              \
    S(host_no_memory, weft_to_host(matrix, NULL, 80), INVALID, "weft_to_host", "global")                         \
    S(local_host_null, weft_local_to_host(NULL, 0, memory, sizeof(memory)), INVALID, "weft_local_to_host", "tensor")         \
    S(local_host_rank, weft_local_to_host(matrix, RANKS, memory, sizeof(memory)), INVALID, "weft_local_to_host", "local_rank") \
    S(local_host_negative, weft_local_to_host(matrix, -1, memory, sizeof(memory)), INVALID, "weft_local_to_host", "local_rank") \
    S(host_little, weft_to_host(matrix, memory, 79), INVALID, "weft_to_host", "bytes")                      \
    S(local_host_little, weft_local_to_host(square, 0, memory, 99), INVALID, "weft_local_to_host", "bytes") \
    Z(bytes_null, weft_tensor_bytes(NULL), INVALID, "weft_tensor_bytes", "tensor")                          \
    Z(bytes_stale, weft_tensor_bytes(stale_tensor), INVALID, "weft_tensor_bytes", "tensor")                 \
    Z(local_bytes_null, weft_local_bytes(NULL, 0), INVALID, "weft_local_bytes", "tensor")                   \
    Z(local_bytes_rank, weft_local_bytes(matrix, RANKS), INVALID, "weft_local_bytes", "local_rank")         \
    S(local_host_memory, weft_local_to_host(square, 0, NULL, 100), INVALID, "weft_local_to_host", "shard")        \
    N(acquire_null, weft_local_acquire(NULL, 0, WEFT_READ), INVALID, "weft_local_acquire", "tensor")         \
    N(acquire_rank, weft_local_acquire(matrix, RANKS, WEFT_READ), INVALID, "weft_local_acquire", "local_rank") \
    N(acquire_access, weft_local_acquire(matrix, 0, (weft_access)0), INVALID, "weft_local_acquire", "access") \
    N(acquire_access_4, weft_local_acquire(matrix, 0, (weft_access)4), INVALID, "weft_local_acquire", "access") \
    S(release_null, weft_local_release(NULL, 0), INVALID, "weft_local_release", "tensor")                    \
    S(release_rank, weft_local_release(matrix, RANKS), INVALID, "weft_local_release", "local_rank")          \
    S(release_not_acquired, weft_local_release(matrix, 0), STATE, "weft_local_release", "not acquired")      \
    Z(ndim_null, weft_tensor_ndim(NULL), INVALID, "weft_tensor_ndim", "tensor")                              \
    Z(size_null, weft_tensor_size(NULL, 0), INVALID, "weft_tensor_size", "tensor")                           \
    Z(size_dim, weft_tensor_size(matrix, 2), INVALID, "weft_tensor_size", "dim")                             \
    V(dtype_null, weft_tensor_dtype(NULL), INVALID, "weft_tensor_dtype", "tensor")                           \
    N(mesh_null, weft_tensor_mesh(NULL), INVALID, "weft_tensor_mesh", "tensor")                              \
    N(placements_null, weft_tensor_placements(NULL), INVALID, "weft_tensor_placements", "tensor")            \
    S(local_box_null, weft_local_box(NULL, 0, offset, extent), INVALID, "weft_local_box", "tensor")          \
    S(local_box_rank, weft_local_box(matrix, RANKS, offset, extent), INVALID, "weft_local_box", "local_rank") \
    S(local_box_offset, weft_local_box(matrix, 0, NULL, extent), INVALID, "weft_local_box", "offset")        \
    S(name_null, weft_tensor_set_name(NULL, "a"), INVALID, "weft_tensor_set_name", "tensor")                 \
    S(print_null, weft_tensor_print(NULL, stdout), INVALID, "weft_tensor_print", "tensor")                   \
    S(print_file, weft_tensor_print(matrix, NULL), INVALID, "weft_tensor_print", "file")                     \
    V(retain_null, weft_tensor_retain(NULL), INVALID, "weft_tensor_retain", "tensor")                        \
    V(retain_dead, weft_tensor_retain(dead), INVALID, "weft_tensor_retain", "tensor")                        \
    V(release_null_tensor, weft_tensor_release(NULL), INVALID, "weft_tensor_release", "tensor")              \
    V(release_twice, weft_tensor_release(dead), INVALID, "weft_tensor_release", "tensor")                    \
    V(release_no_tensor, weft_tensor_release(NOT_A_TENSOR), INVALID, "weft_tensor_release", "tensor")        \
    N(keep_null, weft_scope_keep(NULL), INVALID, "weft_scope_keep", "tensor")                                \
    N(keep_no_scope, weft_scope_keep(matrix), STATE, "weft_scope_keep", "scope")                             \
    V(close_no_scope, weft_scope_close(), STATE, "weft_scope_close", "scope")                                \
    S(counters_null, weft_get_counters(NULL), INVALID, "weft_get_counters", "counters")                      \
    S(init_twice, weft_init(NULL), STATE, "weft_init", "already")

/* Two tensors: NULL, dead, of another mesh, of another type. */
#define PAIR_ROWS(N, f, first, second, ...)                                                                  \
    N(f##_null_##first, weft_##f(NULL, matrix __VA_ARGS__), INVALID, "weft_" #f, #first)                     \
    N(f##_null_##second, weft_##f(matrix, NULL __VA_ARGS__), INVALID, "weft_" #f, #second)                   \
    N(f##_dead_##second, weft_##f(matrix, dead __VA_ARGS__), INVALID, "weft_" #f, #second)                   \
    N(f##_stale_##first, weft_##f(stale_tensor, matrix __VA_ARGS__), INVALID, "weft_" #f, #first)            \
    N(f##_other_mesh, weft_##f(matrix, on_other __VA_ARGS__), MESH, "weft_" #f, "weft_redistribute")         \
    N(f##_shape, weft_##f(matrix, square __VA_ARGS__), SHAPE, "weft_" #f, #second)
#define ONE_ROWS(N, f, ...)                                                                                  \
    N(f##_null, weft_##f(NULL __VA_ARGS__), INVALID, "weft_" #f, "a")                                        \
    N(f##_dead, weft_##f(dead __VA_ARGS__), INVALID, "weft_" #f, "a")                                        \
    N(f##_stale, weft_##f(stale_tensor __VA_ARGS__), INVALID, "weft_" #f, "a")
#define FACTOR , 2.0
#define DIM_0 , 0, false
#define DIMS_01 , 0, 1
#define TO_45 , 2, shape_45
#define ROWS_0 , 0
#define TO_20 , 1, (const int64_t[]){ 20 }

#define RANDOM_ROWS(S, N, V)                                                                                 \
    S(state_create_null, weft_random_state_create(NULL, 1), INVALID, "weft_random_state_create", "name")     \
    S(state_create_empty, weft_random_state_create("", 1), INVALID, "weft_random_state_create", "name")      \
    S(state_create_twice, weft_random_state_create("there", 1), INVALID, "weft_random_state_create", "there") \
    S(state_use_unknown, weft_random_state_use("none"), INVALID, "weft_random_state_use", "none")            \
    S(state_get_unknown, weft_random_state_get("none", &random_state), INVALID, "weft_random_state_get", "none") \
    S(state_get_null, weft_random_state_get(NULL, NULL), INVALID, "weft_random_state_get", "state")          \
    S(state_set_unknown, weft_random_state_set("none", random_state), INVALID, "weft_random_state_set", "none") \
    V(states_negative, weft_random_states(-1, NULL), INVALID, "weft_random_states", "max")                   \
    V(states_null, weft_random_states(1, NULL), INVALID, "weft_random_states", "names")                      \
    ONE_ROWS(N, zeros_like, NOTHING)                                                                         \
    ONE_ROWS(N, empty_like, NOTHING)                                                                         \
    ONE_ROWS(N, ones_like, NOTHING)                                                                          \
    ONE_ROWS(N, full_like, FACTOR)                                                                           \
    ONE_ROWS(N, rand_like, NOTHING)                                                                          \
    ONE_ROWS(N, randn_like, NOTHING)                                                                         \
    N(rand_like_integer, weft_rand_like(indices), DTYPE, "weft_rand_like", "i64")                            \
    N(randint_order, weft_randint(3, 3, WEFT_I64, 2, shape_45, mesh, rows), INVALID, "weft_randint", "low")  \
    N(randint_float, weft_randint(0, 3, WEFT_F32, 2, shape_45, mesh, rows), DTYPE, "weft_randint", "f32")    \
    N(randint_u8, weft_randint(0, 257, WEFT_U8, 2, shape_45, mesh, rows), INVALID, "weft_randint", "u8")     \
    N(randint_i32, weft_randint(INT64_MIN, 0, WEFT_I32, 2, shape_45, mesh, rows), INVALID, "weft_randint", "i32") \
    N(randint_bool, weft_randint(-1, 1, WEFT_BOOL, 2, shape_45, mesh, rows), INVALID, "weft_randint", "bool") \
    N(randint_partial, weft_randint(0, 2, WEFT_I64, 2, shape_45, mesh, with_partial), LAYOUT, "weft_randint", "Partial") \
    N(randperm_negative, weft_randperm(-1, mesh, NULL), INVALID, "weft_randperm", "n is")                    \
    N(randperm_mesh, weft_randperm(3, NULL, NULL), MESH, "weft_randperm", "mesh")                            \
    N(bernoulli_null, weft_bernoulli(NULL), INVALID, "weft_bernoulli", "p")                                  \
    N(bernoulli_integer, weft_bernoulli(indices), DTYPE, "weft_bernoulli", "i64")                            \
    N(bernoulli_p, weft_bernoulli_scalar(1.5, WEFT_F32, 2, shape_45, mesh, rows), INVALID, "weft_bernoulli_scalar", "p is") \
    N(bernoulli_nan, weft_bernoulli_scalar(NAN, WEFT_F32, 2, shape_45, mesh, rows), INVALID, "weft_bernoulli_scalar", \
      "p is")                                                                                                \
    N(uniform_null, weft_uniform_inplace(NULL, 0, 1), INVALID, "weft_uniform_inplace", "a")                                \
    N(uniform_order, weft_uniform_inplace(matrix, 1, 0), INVALID, "weft_uniform_inplace", "low")                           \
    N(uniform_infinite, weft_uniform_inplace(matrix, 0, INFINITY), INVALID, "weft_uniform_inplace", "high")                \
    N(uniform_width, weft_uniform_inplace(whole, -1e308, 1e308), INVALID, "weft_uniform_inplace", "distance")              \
    N(uniform_integer, weft_uniform_inplace(indices, 0, 1), DTYPE, "weft_uniform_inplace", "i64")                          \
    N(uniform_partial, weft_uniform_inplace(partial, 0, 1), LAYOUT, "weft_uniform_inplace", "target")                      \
    N(normal_deviation, weft_normal_inplace(matrix, 0, -1), INVALID, "weft_normal_inplace", "deviation")                   \
    N(normal_nan, weft_normal_inplace(matrix, 0, NAN), INVALID, "weft_normal_inplace", "deviation")                        \
    N(normal_integer, weft_normal_inplace(indices, 0, 1), DTYPE, "weft_normal_inplace", "i64")                             \
    N(dropout_null, weft_dropout(NULL, 0.5, true, NULL), INVALID, "weft_dropout", "a")                       \
    N(dropout_p, weft_dropout(matrix, -0.5, true, NULL), INVALID, "weft_dropout", "p is")                    \
    N(dropout_integer, weft_dropout(indices, 0.5, false, NULL), DTYPE, "weft_dropout", "i64")                \
    N(dropout_back_mask, weft_dropout_backward(matrix, NULL, 0.5, true), INVALID, "weft_dropout_backward", "mask") \
    N(dropout_back_type, weft_dropout_backward(matrix, matrix, 0.5, true), DTYPE, "weft_dropout_backward", "mask")

#define SGD(...) (&(weft_sgd_options){ __VA_ARGS__ })
#define ADAM(...) (&(weft_adam_options){ __VA_ARGS__ })
#define LIST1(tensor) ((weft_tensor *const[]){ tensor })
#define OPTIMIZER_ROWS(S)                                                                                    \
    S(sgd_negative_n, weft_sgd(-1, LIST1(matrix), LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "n is") \
    S(sgd_null, weft_sgd(1, NULL, LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "parameters")         \
    S(sgd_null_gradients, weft_sgd(1, LIST1(matrix), NULL, SGD(0.1), NULL), INVALID, "weft_sgd", "gradients") \
    S(sgd_options, weft_sgd(1, LIST1(matrix), LIST1(matrix), NULL, NULL), INVALID, "weft_sgd", "options")    \
    S(sgd_rate, weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(-1), NULL), INVALID, "weft_sgd", "learning_rate") \
    S(sgd_momenta, weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1, 0.9), NULL), INVALID, "weft_sgd", "momenta") \
    S(sgd_nesterov, weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1, .nesterov = true), NULL), INVALID, "weft_sgd", \
      "nesterov")                                                                                            \
    S(sgd_dead, weft_sgd(1, LIST1(matrix), LIST1(dead), SGD(0.1), NULL), INVALID, "weft_sgd", "gradients[0]") \
    S(sgd_shape, weft_sgd(1, LIST1(matrix), LIST1(square), SGD(0.1), NULL), SHAPE, "weft_sgd", "gradients[0]") \
    S(sgd_mesh, weft_sgd(1, LIST1(matrix), LIST1(on_other), SGD(0.1), NULL), MESH, "weft_sgd", "gradients[0]") \
    S(sgd_type, weft_sgd(1, LIST1(indices), LIST1(indices), SGD(0.1), NULL), DTYPE, "weft_sgd", "parameters[0]") \
    S(sgd_partial, weft_sgd(1, LIST1(partial), LIST1(matrix), SGD(0.1), NULL), LAYOUT, "weft_sgd", "Partial") \
    S(sgd_placements, weft_sgd(1, LIST1(matrix), LIST1(whole), SGD(0.1, 0.9), LIST1(whole)), LAYOUT, "weft_sgd", \
      "momenta[0]")                                                                                          \
    S(adam_step, weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 0, ADAM(0.1)), INVALID, \
      "weft_adam", "step")                                                                                   \
    S(adam_options, weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 1, NULL), INVALID, \
      "weft_adam", "options")                                                                                \
    S(adam_beta, weft_adam(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), LIST1(matrix), 1, ADAM(0.1, 1, 0.9)), \
      INVALID, "weft_adam", "beta1")                                                                         \
    S(adamw_moments, weft_adamw(1, LIST1(matrix), LIST1(matrix), LIST1(matrix), NULL, 1, ADAM(0.1)), INVALID, \
      "weft_adamw", "second_moments")                                                                        \
    S(adamw_placements, weft_adamw(1, LIST1(matrix), LIST1(matrix), LIST1(whole), LIST1(matrix), 1, ADAM(0.1)), LAYOUT, \
      "weft_adamw", "first_moments[0]")                                                                      \
    S(clip_null, weft_clip_grad_norm(1, NULL, 1, 2, NULL), INVALID, "weft_clip_grad_norm", "gradients")      \
    S(clip_max, weft_clip_grad_norm(1, LIST1(matrix), -1, 2, NULL), INVALID, "weft_clip_grad_norm", "max_norm") \
    S(clip_twice, weft_clip_grad_norm(2, (weft_tensor *const[]){ matrix, matrix }, 1, 2, NULL), INVALID,    \
      "weft_clip_grad_norm", "gradients[1]")                                                                 \
    S(sgd_itself, weft_sgd(1, LIST1(matrix), LIST1(matrix), SGD(0.1), NULL), INVALID, "weft_sgd", "gradients[0]") \
    S(clip_p, weft_clip_grad_norm(1, LIST1(matrix), 1, 0, NULL), INVALID, "weft_clip_grad_norm", "p is")     \
    S(clip_type, weft_clip_grad_norm(1, LIST1(indices), 1, 2, NULL), DTYPE, "weft_clip_grad_norm", "gradients[0]") \
    S(clip_partial, weft_clip_grad_norm(1, LIST1(largest), 1, 2, NULL), LAYOUT, "weft_clip_grad_norm", "Partial")

#define DESCRIBED(...) (&(weft_operation_description){ __VA_ARGS__ })
#define ONE_INPUT .inputs = { { "a", WEFT_TYPES_ALL, false } }
#define CUSTOM_ROWS(N)                                                                                       \
    N(register_null, weft_operation_register(NULL), INVALID, "weft_operation_register", "description")       \
    N(register_name, weft_operation_register(DESCRIBED(.rule = "a->a", .kernel = no_kernel, ONE_INPUT)), INVALID, \
      "weft_operation_register", "name")                                                                     \
    N(register_kernel, weft_operation_register(DESCRIBED(.name = "f", .rule = "a->a", ONE_INPUT)), INVALID,  \
      "weft_operation_register", "kernel")                                                                   \
    N(register_rule, weft_operation_register(DESCRIBED("f", "a[b->a", .kernel = no_kernel, ONE_INPUT)), INVALID, \
      "weft_operation_register", "at character 4")                                                           \
    N(register_windows, weft_operation_register(DESCRIBED("f", "ab~->ab", .kernel = no_kernel, ONE_INPUT)), INVALID, \
      "weft_operation_register", "windows")                                                                  \
    N(register_inputs, weft_operation_register(DESCRIBED("f", "a,b->ab", .kernel = no_kernel, ONE_INPUT)), INVALID, \
      "weft_operation_register", "inputs[1].name")                                                           \
    N(register_more, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel,                     \
      .inputs = { { "a", WEFT_TYPES_ALL, false }, { "b", WEFT_TYPES_ALL, false } })), INVALID, "weft_operation_register", \
      "inputs[1].name")                                                                                      \
    N(register_types, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, .inputs = { { "a", 0, false } })), \
      INVALID, "weft_operation_register", "types")                                                           \
    N(register_output, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,        \
      .output_type = (weft_output_type)99)), INVALID, "weft_operation_register", "output_type")              \
    N(register_linear, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,        \
      .linear = { .inputs = 2 })), INVALID, "weft_operation_register", "inputs")                             \
    N(register_no_name, weft_operation_register(DESCRIBED("", "a->a", .kernel = no_kernel, ONE_INPUT)), INVALID, \
      "weft_operation_register", "name is empty")                                                            \
    N(register_contracts, weft_operation_register(DESCRIBED("f", "a->", .kernel = no_kernel, ONE_INPUT,      \
      .linear = { .contracts = WEFT_AVG })), INVALID, "weft_operation_register", "contracts")                \
    N(register_no_ops, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,        \
      .linear = { .kind = WEFT_LINEAR_JOINTLY })), INVALID, "weft_operation_register", "ops")                \
    N(register_each, weft_operation_register(DESCRIBED("f", "a->a", .kernel = no_kernel, ONE_INPUT,          \
      .linear = { .kind = WEFT_LINEAR_EACH, .ops = WEFT_LINEAR_OPS })), INVALID, "weft_operation_register", "inputs") \
    N(register_compound, weft_operation_register(DESCRIBED("f", "(ab)->(ac)", .kernel = no_kernel, ONE_INPUT, \
      .in_place = true)), INVALID, "weft_operation_register", "in_place")                                    \
    N(register_in_place, weft_operation_register(DESCRIBED("f", "ab->a", .kernel = no_kernel, ONE_INPUT, .in_place = true)), \
      INVALID, "weft_operation_register", "in_place")                                                        \
    N(apply_null, weft_apply(NULL, 1, LIST1(matrix), NULL), INVALID, "weft_apply", "operation")              \
    N(apply_stale, weft_apply((const weft_operation *)memory, 1, LIST1(matrix), NULL), INVALID, "weft_apply", "operation") \
    N(apply_count, weft_apply(custom, 2, LIST1(matrix), NULL), INVALID, "weft_apply", "num_tensors")         \
    N(apply_tensors, weft_apply(custom, 1, NULL, NULL), INVALID, "weft_apply", "num_tensors")                \
    N(apply_numbers, weft_apply(custom, 1, LIST1(matrix), &(weft_apply_options){ .num_numbers = 13 }), INVALID, \
      "weft_apply", "num_numbers")                                                                           \
    N(apply_dead, weft_apply(custom, 1, LIST1(dead), NULL), INVALID, "custom", "argument")                   \
    N(apply_shape, weft_apply(custom, 1, LIST1(indices), NULL), DTYPE, "custom", "argument")                 \
    N(apply_size, weft_apply(custom, 1, LIST1(matrix), NULL), INVALID, "custom", "no size")

#define OPERATION_ROWS(S, N, Z, V)                                                                           \
    PAIR_ROWS(N, add, a, b, NOTHING)                                                                         \
    PAIR_ROWS(N, sub, a, b, NOTHING)                                                                         \
    PAIR_ROWS(N, mul, a, b, NOTHING)                                                                         \
    PAIR_ROWS(N, add_inplace, a, b, FACTOR)                                                                         \
    N(sub_bool, weft_sub(booleans, booleans), DTYPE, "weft_sub", "a")                                        \
    N(add_in_place_lower, weft_add_inplace(indices, matrix, 1), DTYPE, "weft_add_inplace", "cannot hold")                  \
    N(scale_half, weft_scale(indices, 0.5), DTYPE, "weft_scale", "factor")                                   \
    N(to_no_type, weft_to_type(matrix, (weft_dtype)99), DTYPE, "weft_to_type", "dtype")                      \
    N(backward_type, weft_relu_backward(matrix, whole), DTYPE, "weft_relu_backward", "input")                \
    N(where_condition, weft_where(matrix, matrix, matrix), DTYPE, "weft_where", "condition")                 \
    PAIR_ROWS(N, relu_backward, gradient, input, NOTHING)                                                    \
    PAIR_ROWS(N, gelu_backward, gradient, input, NOTHING)                                                    \
    N(add_grows, weft_add_inplace(scalar, matrix, 1), SHAPE, "weft_add_inplace", "broadcast")                              \
    N(add_partial, weft_add_inplace(partial, matrix, 1), LAYOUT, "weft_add_inplace", "target")                             \
    ONE_ROWS(N, relu, NOTHING)                                                                               \
    ONE_ROWS(N, gelu, NOTHING)                                                                               \
    ONE_ROWS(N, scale, FACTOR)                                                                               \
    ONE_ROWS(N, sum, DIM_0)                                                                                  \
    ONE_ROWS(N, sum_all, NOTHING)                                                                            \
    ONE_ROWS(N, reshape, TO_20)                                                                              \
    N(gelu_integer, weft_gelu(indices), DTYPE, "weft_gelu", "i64")                                           \
    N(mean_bool, weft_mean(booleans, 0, false), DTYPE, "weft_mean", "bool")                                  \
    N(max_of_nothing, weft_max(empty, 0, false), SHAPE, "weft_max", "size 0")                                \
    N(sum_twice, weft_sum_over(matrix, 2, (const int[]){ 1, -1 }, false), INVALID, "weft_sum_over", "twice") \
    N(norm_negative, weft_norm(matrix, -1, 0, false), INVALID, "weft_norm", "p is")                          \
    N(fill_range, weft_fill_inplace(indices, INFINITY), DTYPE, "weft_fill_inplace", "value")                               \
    N(scale_range, weft_scale(indices, 1e19), DTYPE, "weft_scale", "factor")                                 \
    N(clamp_fraction, weft_clamp(indices, 0.5, 1), DTYPE, "weft_clamp", "least")                             \
    N(norm_of_nothing, weft_norm(empty, INFINITY, 0, false), SHAPE, "weft_norm", "size 0")                   \
    N(sum_dim, weft_sum(matrix, 2, false), INVALID, "weft_sum", "dim")                                       \
    N(sum_negative_dim, weft_sum(matrix, -3, true), INVALID, "weft_sum", "dim")                              \
    N(sum_scalar, weft_sum(scalar, 0, false), INVALID, "weft_sum", "a is")                                   \
    N(matmul_null_a, weft_matmul(NULL, matrix), INVALID, "weft_matmul", "a")                                 \
    N(matmul_null_b, weft_matmul(matrix, NULL), INVALID, "weft_matmul", "b")                                 \
    N(matmul_sizes, weft_matmul(matrix, matrix), SHAPE, "weft_matmul", "b")                                  \
    N(matmul_vector, weft_matmul(scalar, matrix), SHAPE, "weft_matmul", "a")                                 \
    N(matmul_type, weft_matmul(square, whole), DTYPE, "weft_matmul", "b")                                    \
    N(matmul_mesh, weft_matmul(square, on_other), MESH, "weft_matmul", "weft_redistribute")                  \
    N(matmul_ex_null, weft_matmul_ex(NULL, true, matrix, false), INVALID, "weft_matmul_ex", "a")             \
    N(matmul_ex_sizes, weft_matmul_ex(matrix, true, square, false), SHAPE, "weft_matmul_ex", "b")            \
    N(embedding_null, weft_embedding(NULL, indices), INVALID, "weft_embedding", "table")                     \
    N(embedding_null_indices, weft_embedding(matrix, NULL), INVALID, "weft_embedding", "indices")            \
    N(embedding_type, weft_embedding(matrix, square), DTYPE, "weft_embedding", "indices")                    \
    N(embedding_shape, weft_embedding(scalar, indices), SHAPE, "weft_embedding", "table")                    \
    N(embed_back_null, weft_embedding_backward(NULL, indices, 4), INVALID, "weft_embedding_backward", "gradient") \
    N(embed_back_rows, weft_embedding_backward(matrix, indices, -1), INVALID, "weft_embedding_backward", "num_rows") \
    N(embed_back_shape, weft_embedding_backward(square, indices, 4), SHAPE, "weft_embedding_backward", "indices") \
    N(entropy_null, weft_cross_entropy(NULL, indices), INVALID, "weft_cross_entropy", "logits")              \
    N(entropy_null_targets, weft_cross_entropy(matrix, NULL), INVALID, "weft_cross_entropy", "targets")      \
    N(entropy_type, weft_cross_entropy(matrix, matrix), DTYPE, "weft_cross_entropy", "targets")              \
    N(entropy_shape, weft_cross_entropy(square, indices), SHAPE, "weft_cross_entropy", "targets")            \
    N(entropy_back_null, weft_cross_entropy_backward(NULL, NULL, indices), INVALID, "weft_cross_entropy_backward", \
      "logits")                                                                                              \
    N(entropy_back_gradient, weft_cross_entropy_backward(matrix, matrix, indices), SHAPE,                    \
      "weft_cross_entropy_backward", "gradient")                                                             \
    N(softmax_null, weft_softmax(NULL, 0), INVALID, "weft_softmax", "a")                                     \
    N(softmax_dim, weft_softmax(matrix, 2), INVALID, "weft_softmax", "dim is 2")                             \
    N(softmax_scalar, weft_softmax(scalar, 1), INVALID, "weft_softmax", "dim is 1")                          \
    N(softmax_type, weft_softmax(indices, 0), DTYPE, "weft_softmax", "a is i64")                             \
    N(log_softmax_dim, weft_log_softmax(cut, -3), INVALID, "weft_log_softmax", "dim is -3")                  \
    N(softmax_back_null, weft_softmax_backward(matrix, NULL, 0), INVALID, "weft_softmax_backward", "output") \
    N(softmax_back_shape, weft_softmax_backward(matrix, square, 0), SHAPE, "weft_softmax_backward", "output has size 5")\
    N(softmax_back_type, weft_softmax_backward(cut, whole, 1), DTYPE, "weft_softmax_backward", "output is f64")\
    N(log_softmax_back_mesh, weft_log_softmax_backward(cut, on_other, 1), MESH, "weft_log_softmax_backward", "output")\
    N(layer_norm_null, weft_layer_norm(NULL, NULL, NULL, 0), INVALID, "weft_layer_norm", "a")                \
    N(layer_norm_dead, weft_layer_norm(matrix, dead, NULL, 0), INVALID, "weft_layer_norm", "gain")           \
    N(layer_norm_scalar, weft_layer_norm(scalar, NULL, NULL, 0), SHAPE, "weft_layer_norm", "a is a scalar")  \
    N(layer_norm_gain, weft_layer_norm(cut, indices, NULL, 0), DTYPE, "weft_layer_norm", "gain is i64")      \
    N(layer_norm_gain_shape, weft_layer_norm(cut, square, NULL, 0), SHAPE, "weft_layer_norm", "gain has size 5")\
    N(layer_norm_gain_ndim, weft_layer_norm(cut, scalar, NULL, 0), SHAPE, "weft_layer_norm", "gain has 0 dimensions")\
    N(layer_norm_bias, weft_layer_norm(cut, NULL, square, 0), SHAPE, "weft_layer_norm", "bias has size 5")   \
    N(layer_norm_biases, weft_layer_norm(cut, matrix, square, 0), SHAPE, "weft_layer_norm", "bias has size 5")\
    N(layer_norm_mesh, weft_layer_norm(cut, on_other, NULL, 0), MESH, "weft_layer_norm", "weft_redistribute")\
    N(layer_norm_epsilon, weft_layer_norm(cut, NULL, NULL, -1), INVALID, "weft_layer_norm", "epsilon is -1") \
    N(layer_norm_back_null, weft_layer_norm_backward(NULL, cut, NULL, 0, NULL, NULL), INVALID,               \
      "weft_layer_norm_backward", "gradient")                                                                \
    N(layer_norm_back_shape, weft_layer_norm_backward(square, cut, NULL, 0, NULL, NULL), SHAPE,              \
      "weft_layer_norm_backward", "gradient has size 5")                                                     \
    N(layer_norm_back_type, weft_layer_norm_backward(whole, cut, NULL, 0, NULL, NULL), DTYPE,                \
      "weft_layer_norm_backward", "gradient is f64")                                                         \
    N(rms_norm_gain, weft_rms_norm(matrix, square, 0), SHAPE, "weft_rms_norm", "gain has size 5")            \
    N(rms_norm_back_gain, weft_rms_norm_backward(matrix, cut, square, 0, NULL), SHAPE, "weft_rms_norm_backward",\
      "gain has size 5")                                                                                     \
    N(entropy_cut_targets, weft_cross_entropy(cut, NULL), INVALID, "weft_cross_entropy", "targets")          \
    N(entropy_cut_type, weft_cross_entropy(cut, matrix), DTYPE, "weft_cross_entropy", "targets")             \
    N(entropy_ex_reduction,                                                                                  \
      weft_cross_entropy_ex(cut, indices, &(weft_cross_entropy_options){ .reduction = (weft_loss_reduction)7 }), INVALID,\
      "weft_cross_entropy_ex", "reduction is 7")                                                             \
    N(entropy_ex_smoothing,                                                                                  \
      weft_cross_entropy_ex(cut, indices, &(weft_cross_entropy_options){ .label_smoothing = 1.5 }), INVALID, \
      "weft_cross_entropy_ex", "label_smoothing is 1.5")                                                     \
    N(entropy_ex_back_type, weft_cross_entropy_ex_backward(whole, cut, indices, NULL), DTYPE,                \
      "weft_cross_entropy_ex_backward", "gradient is f64")                                                   \
    N(entropy_ex_back_shape, weft_cross_entropy_ex_backward(matrix, cut, indices, NULL), SHAPE,              \
      "weft_cross_entropy_ex_backward", "gradient has 2 dimensions")                                         \
    N(nll_shape, weft_nll(square, indices, -100, WEFT_LOSS_MEAN), SHAPE, "weft_nll", "targets")              \
    N(nll_reduction, weft_nll(matrix, indices, -100, (weft_loss_reduction)-1), INVALID, "weft_nll", "reduction is -1")\
    N(nll_back_null, weft_nll_backward(NULL, NULL, indices, -100, WEFT_LOSS_SUM), INVALID, "weft_nll_backward",\
      "log_probabilities")                                                                                   \
    N(mse_shape, weft_mse(matrix, square, WEFT_LOSS_MEAN), SHAPE, "weft_mse", "b has size 5")                \
    N(mse_type, weft_mse(matrix, whole, WEFT_LOSS_NONE), DTYPE, "weft_mse", "b is f64")                      \
    N(mse_reduction, weft_mse(matrix, matrix, (weft_loss_reduction)3), INVALID, "weft_mse", "reduction is 3")\
    N(mse_back_gradient, weft_mse_backward(matrix, matrix, matrix, WEFT_LOSS_SUM), SHAPE, "weft_mse_backward",\
      "gradient has 2 dimensions")                                                                           \
    N(reshape_count, weft_reshape(matrix, 1, (const int64_t[]){ 21 }), SHAPE, "weft_reshape", "shape")       \
    N(reshape_two_unknown, weft_reshape(matrix, 2, (const int64_t[]){ -1, -1 }), SHAPE, "weft_reshape", "shape") \
    N(reshape_null_shape, weft_reshape(matrix, 1, NULL), INVALID, "weft_reshape", "shape")                   \
    N(reshape_ndim, weft_reshape(matrix, 9, nine), INVALID, "weft_reshape", "ndim")                          \
    RANDOM_ROWS(S, N, V)                                                                                     \
    OPTIMIZER_ROWS(S)                                                                                        \
    CUSTOM_ROWS(N) \
    ONE_ROWS(N, argmax, DIM_0)                                                                               \
    N(argmax_dim, weft_argmax(matrix, 2, false), INVALID, "weft_argmax", "dim")                              \
    N(argmin_of_nothing, weft_argmin(empty, 0, false), SHAPE, "weft_argmin", "size 0")                       \
    N(argmin_of_nothing_at_all, weft_argmin_all(empty), SHAPE, "weft_argmin_all", "size 0")                  \
    ONE_ROWS(N, cumsum, ROWS_0)                                                                              \
    N(cumsum_dim, weft_cumsum(matrix, -3), INVALID, "weft_cumsum", "dim is -3")                              \
    N(cumprod_scalar, weft_cumprod(scalar, 0), INVALID, "weft_cumprod", "a is a scalar")                       \
    N(index_select_null, weft_index_select(NULL, 0, indices), INVALID, "weft_index_select", "a")                   \
    N(select_null_indices, weft_index_select(matrix, 0, NULL), INVALID, "weft_index_select", "indices")      \
    N(select_dim, weft_index_select(matrix, 2, indices), INVALID, "weft_index_select", "dim")                \
    N(select_type, weft_index_select(matrix, 0, square), DTYPE, "weft_index_select", "indices")              \
    N(select_shape, weft_index_select(matrix, 0, places), SHAPE, "weft_index_select", "indices")             \
    N(select_mesh, weft_index_select(on_other, 0, indices), MESH, "weft_index_select", "weft_redistribute")  \
    N(gather_null, weft_gather(NULL, 0, places), INVALID, "weft_gather", "a")                                \
    N(gather_ndim, weft_gather(matrix, 0, indices), SHAPE, "weft_gather", "indices")                         \
    N(gather_shape, weft_gather(square, 1, places), SHAPE, "weft_gather", "indices has size 4 in dimension 0") \
    N(scatter_null, weft_scatter_add(NULL, 0, places, matrix), INVALID, "weft_scatter_add", "a")             \
    N(scatter_null_indices, weft_scatter_add(matrix, 0, NULL, matrix), INVALID, "weft_scatter_add", "indices") \
    N(scatter_null_source, weft_scatter_add(matrix, 0, places, NULL), INVALID, "weft_scatter_add", "source") \
    N(scatter_type, weft_scatter_add(matrix, 0, places, whole), DTYPE, "weft_scatter_add", "source is f64")  \
    N(scatter_index_type, weft_scatter_add(matrix, 0, matrix, matrix), DTYPE, "weft_scatter_add", "indices") \
    N(scatter_shape, weft_scatter_add(matrix, 1, places, square), SHAPE, "weft_scatter_add",                 \
      "source has size 5 in dimension 0, expected 4")                                                        \
    N(scatter_indices_shape, weft_scatter_add(square, 0, places, square), SHAPE, "weft_scatter_add", "indices") \
    N(scatter_mesh, weft_scatter_add(on_other, 0, places, matrix), MESH, "weft_scatter_add", "weft_redistribute") \
    N(scatter_in_place_partial, weft_scatter_add_inplace(partial, 0, places, matrix), LAYOUT, "weft_scatter_add_inplace", "Partial") \
    N(index_add_shape, weft_index_add(matrix, 0, places, matrix), SHAPE, "weft_index_add", "indices")        \
    N(index_add_in_place_dim, weft_index_add_inplace(matrix, 5, indices, matrix), INVALID, "weft_index_add_inplace", "dim") \
    N(one_hot_null, weft_one_hot(NULL, 3), INVALID, "weft_one_hot", "indices")                               \
    N(one_hot_type, weft_one_hot(matrix, 3), DTYPE, "weft_one_hot", "indices")                               \
    N(one_hot_classes, weft_one_hot(indices, -1), INVALID, "weft_one_hot", "num_classes is -1")              \
    N(sort_null, weft_sort(NULL, 0, false, NULL), INVALID, "weft_sort", "a")                                 \
    N(sort_dim, weft_sort(matrix, 2, false, NULL), INVALID, "weft_sort", "dim")                              \
    N(argsort_scalar, weft_argsort(scalar, 0, false), INVALID, "weft_argsort", "a is a scalar")                \
    N(topk_many, weft_topk(matrix, 6, 1, true, NULL), INVALID, "weft_topk", "k is 6, expected 0 to 5")       \
    N(topk_negative, weft_topk(matrix, -1, 1, true, NULL), INVALID, "weft_topk", "k is -1")                  \
    S(equal_null, weft_equal(NULL, matrix, &answer), INVALID, "weft_equal", "a")                             \
    S(equal_dead, weft_equal(matrix, dead, &answer), INVALID, "weft_equal", "b")                             \
    S(equal_no_result, weft_equal(matrix, matrix, NULL), INVALID, "weft_equal", "result")                    \
    S(equal_mesh, weft_equal(matrix, on_other, &answer), MESH, "weft_equal", "weft_redistribute")            \
    S(close_null, weft_allclose(matrix, NULL, 0, 0, false, &answer), INVALID, "weft_allclose", "b")          \
    S(close_negative, weft_allclose(matrix, matrix, 0, -1, false, &answer), INVALID, "weft_allclose", "atol is -1") \
    S(close_nan, weft_allclose(matrix, matrix, NAN, 0, false, &answer), INVALID, "weft_allclose", "rtol")    \
    S(item_null, weft_tensor_item(NULL, memory), INVALID, "weft_tensor_item", "tensor")                      \
    S(item_value, weft_tensor_item(scalar, NULL), INVALID, "weft_tensor_item", "value")                      \
    S(item_many, weft_tensor_item(matrix, memory), SHAPE, "weft_tensor_item", "20 elements")

#define TWO(a, b) (weft_tensor *const[]){ a, b }
#define SHAPE_ROWS(S, N, Z, V)                                                                               \
    ONE_ROWS(N, transpose, DIMS_01)                                                                          \
    ONE_ROWS(N, select, DIMS_01)                                                                             \
    ONE_ROWS(N, flatten, DIMS_01)                                                                            \
    ONE_ROWS(N, squeeze_all, NOTHING)                                                                        \
    ONE_ROWS(N, expand, TO_45)                                                                               \
    ONE_ROWS(N, sum_to, TO_45)                                                                               \
    N(squeeze_dim, weft_squeeze(matrix, 2), INVALID, "weft_squeeze", "dim")                                  \
    N(squeeze_scalar, weft_squeeze(scalar, 0), INVALID, "weft_squeeze", "scalar")                            \
    N(unsqueeze_dim, weft_unsqueeze(matrix, -4), INVALID, "weft_unsqueeze", "dim")                           \
    N(flatten_order, weft_flatten(matrix, 1, 0), INVALID, "weft_flatten", "last")                            \
    N(unflatten_none, weft_unflatten(matrix, 0, 0, shape_45), INVALID, "weft_unflatten", "num_sizes")        \
    N(unflatten_many, weft_unflatten(matrix, 0, 8, nine), INVALID, "weft_unflatten", "num_sizes")            \
    N(unflatten_most, weft_unflatten(matrix, 0, INT_MAX, nine), INVALID, "weft_unflatten", "num_sizes")      \
    N(unflatten_least, weft_unflatten(matrix, 0, INT_MIN, nine), INVALID, "weft_unflatten", "num_sizes")     \
    N(unflatten_null, weft_unflatten(matrix, 0, 2, NULL), INVALID, "weft_unflatten", "sizes")                \
    N(unflatten_count, weft_unflatten(matrix, 0, 2, shape_45), SHAPE, "weft_unflatten", "shape [4, 5]")      \
    N(transpose_dim, weft_transpose(matrix, 0, 2), INVALID, "weft_transpose", "dim1")                        \
    N(permute_ndim, weft_permute(matrix, 3, (const int[]){ 0, 1, 2 }), INVALID, "weft_permute", "ndim")      \
    N(permute_twice, weft_permute(matrix, 2, (const int[]){ 1, -1 }), INVALID, "weft_permute", "twice")      \
    N(permute_null, weft_permute(matrix, 2, NULL), INVALID, "weft_permute", "dims")                          \
    N(movedim_to, weft_movedim(matrix, 0, -3), INVALID, "weft_movedim", "to is")                             \
    N(expand_size, weft_expand(matrix, 2, shape_55), SHAPE, "weft_expand", "shape[0]")                       \
    N(expand_fewer, weft_expand(matrix, 1, shape_55), SHAPE, "weft_expand", "shape")                         \
    N(expand_least, weft_expand(matrix, INT_MIN, shape_55), INVALID, "weft_expand", "ndim")                  \
    N(expand_negative, weft_expand(scalar, 2, negative), SHAPE, "weft_expand", "shape[1]")                   \
    N(expand_huge, weft_expand(scalar, 2, huge), SHAPE, "weft_expand", "64-bit")                             \
    N(sum_to_size, weft_sum_to(matrix, 2, shape_55), SHAPE, "weft_sum_to", "shape[0]")                       \
    N(sum_to_more, weft_sum_to(scalar, 2, shape_55), SHAPE, "weft_sum_to", "shape")                          \
    N(slice_null, weft_slice(NULL, 0, 0, 1), INVALID, "weft_slice", "a")                                     \
    N(slice_dim, weft_slice(matrix, 2, 0, 1), INVALID, "weft_slice", "dim")                                  \
    N(slice_step_0, weft_slice_step(matrix, 0, 0, 1, 0), INVALID, "weft_slice_step", "step")                 \
    N(slice_back_size, weft_slice_backward(matrix, 0, 9, 0, 3, 1), SHAPE, "weft_slice_backward", "expected 3") \
    N(slice_back_negative, weft_slice_backward(matrix, 0, -9, 0, 3, 1), SHAPE, "weft_slice_backward", "size is") \
    N(slice_back_null, weft_slice_backward(NULL, 0, 9, 0, 3, 1), INVALID, "weft_slice_backward", "gradient") \
    N(select_index, weft_select(matrix, 0, 4), INVALID, "weft_select", "index")                              \
    N(select_negative, weft_select(matrix, 0, -5), INVALID, "weft_select", "index")                          \
    N(select_of_nothing, weft_select(empty, 0, 0), INVALID, "weft_select", "index")                          \
    N(flip_twice, weft_flip(matrix, 2, (const int[]){ 0, 0 }), INVALID, "weft_flip", "twice")                \
    N(flip_null, weft_flip(matrix, 1, NULL), INVALID, "weft_flip", "dims")                                   \
    N(roll_dim, weft_roll(matrix, 1, 2), INVALID, "weft_roll", "dim")                                        \
    N(tril_vector, weft_tril(indices, 0), SHAPE, "weft_tril", "expected at least 2")                         \
    N(triu_null, weft_triu(NULL, 0), INVALID, "weft_triu", "a")                                              \
    N(cat_none, weft_cat(0, TWO(matrix, matrix), 0), INVALID, "weft_cat", "n is 0")                          \
    N(cat_null, weft_cat(2, NULL, 0), INVALID, "weft_cat", "tensors")                                        \
    N(cat_dead, weft_cat(2, TWO(matrix, dead), 0), INVALID, "weft_cat", "tensors[1]")                        \
    N(cat_mesh, weft_cat(2, TWO(matrix, on_other), 0), MESH, "weft_cat", "tensors[1]")                       \
    N(cat_shape, weft_cat(2, TWO(matrix, square), 1), SHAPE, "weft_cat", "tensors[1]")                       \
    N(cat_scalar, weft_cat(2, TWO(scalar, scalar), 0), SHAPE, "weft_cat", "scalar")                          \
    N(cat_dim, weft_cat(2, TWO(matrix, matrix), 2), INVALID, "weft_cat", "dim")                              \
    N(stack_shape, weft_stack(2, TWO(matrix, square), 0), SHAPE, "weft_stack", "tensors[1]")                 \
    N(stack_dim, weft_stack(2, TWO(matrix, matrix), 3), INVALID, "weft_stack", "dim")                        \
    S(split_sum, weft_split(matrix, 2, shape_45, 0, pieces), SHAPE, "weft_split", "sizes[1]")                \
    S(split_less, weft_split(matrix, 1, (const int64_t[]){ 3 }, 0, pieces), SHAPE, "weft_split", "add up")   \
    S(split_negative, weft_split(matrix, 2, negative, 1, pieces), SHAPE, "weft_split", "sizes[1]")           \
    S(split_null, weft_split(matrix, 2, NULL, 0, pieces), INVALID, "weft_split", "sizes")                    \
    S(split_no_outputs, weft_split(matrix, 2, shape_45, 0, NULL), INVALID, "weft_split", "outputs")          \
    S(split_dead, weft_split(dead, 2, shape_45, 0, pieces), INVALID, "weft_split", "a")                      \
    Z(chunk_none, weft_chunk(matrix, 0, 0, pieces), INVALID, "weft_chunk", "chunks")                         \
    Z(chunk_dim, weft_chunk(matrix, 2, 2, pieces), INVALID, "weft_chunk", "dim")                             \
    Z(chunk_scalar, weft_chunk(scalar, 2, 0, pieces), INVALID, "weft_chunk", "scalar")

#define PRODUCT_ROWS(S, N, Z, V)                                                                             \
    N(matmul_ex_vector, weft_matmul_ex(indices, true, matrix, false), SHAPE, "weft_matmul_ex", "at least 2") \
    N(matmul_bool, weft_matmul(booleans, booleans), DTYPE, "weft_matmul", "a")                               \
    N(dot_null, weft_dot(NULL, indices), INVALID, "weft_dot", "a")                                           \
    N(dot_matrix, weft_dot(square, square), SHAPE, "weft_dot", "a")                                          \
    N(outer_null, weft_outer(indices, NULL), INVALID, "weft_outer", "b")                                     \
    N(outer_matrix, weft_outer(indices, matrix), SHAPE, "weft_outer", "b")                                   \
    N(addmm_null, weft_addmm(NULL, square, square, 1, 1), INVALID, "weft_addmm", "c")                        \
    N(addmm_shape, weft_addmm(matrix, square, square, 1, 1), SHAPE, "weft_addmm", "c")                       \
    N(addmm_ndim, weft_addmm(image, square, square, 1, 1), SHAPE, "weft_addmm", "c")                         \
    N(addmm_type, weft_addmm(whole, square, square, 1, 1), DTYPE, "weft_addmm", "c")                         \
    N(addmm_half, weft_addmm(indices, indices, indices, 1, 0.5), DTYPE, "weft_addmm", "alpha")               \
    N(linear_null, weft_linear(NULL, square, NULL), INVALID, "weft_linear", "x")                             \
    N(linear_sizes, weft_linear(matrix, filter, NULL), SHAPE, "weft_linear", "weight")                       \
    N(linear_bias, weft_linear(matrix, square, matrix), SHAPE, "weft_linear", "bias")                        \
    N(linear_stale, weft_linear(matrix, square, stale_tensor), INVALID, "weft_linear", "bias")               \
    N(conv_null, weft_conv2d(NULL, filter, NULL, NULL), INVALID, "weft_conv2d", "x")                         \
    N(conv_null_weight, weft_conv2d(image, NULL, NULL, NULL), INVALID, "weft_conv2d", "weight")              \
    N(conv_ndim, weft_conv2d(matrix, filter, NULL, NULL), SHAPE, "weft_conv2d", "x")                         \
    N(conv1d_ndim, weft_conv1d(image, filter, NULL, NULL), SHAPE, "weft_conv1d", "x")                        \
    N(conv_channels, weft_conv2d(filter, filter, NULL, &(weft_convolution){ .groups = 2 }), SHAPE, "weft_conv2d", \
      "channels")                                                                                            \
    N(conv_large, weft_conv2d(image, filter, NULL, &(weft_convolution){ .dilation = { 1, 3 } }), SHAPE,      \
      "weft_conv2d", "weight")                                                                               \
    N(conv_stride, weft_conv2d(image, filter, NULL, &(weft_convolution){ .stride = { -1, 1 } }), INVALID,    \
      "weft_conv2d", "stride")                                                                               \
    N(conv_padding, weft_conv2d(image, filter, NULL, &(weft_convolution){ .padding = { 0, -1 } }), INVALID,  \
      "weft_conv2d", "padding")                                                                              \
    N(conv_groups, weft_conv2d(image, filter, NULL, &(weft_convolution){ .groups = -1 }), INVALID, "weft_conv2d", \
      "groups")                                                                                              \
    N(conv_bias, weft_conv2d(image, filter, square, NULL), SHAPE, "weft_conv2d", "bias")                     \
    N(conv_type, weft_conv2d(image, filter, indices, NULL), DTYPE, "weft_conv2d", "bias")                    \
    N(conv_back_shape, weft_conv2d_backward_input(image, filter, NULL, NULL), INVALID,                       \
      "weft_conv2d_backward_input", "shape")                                                                 \
    N(conv_back_gradient, weft_conv2d_backward_weight(image, image, (const int64_t[]){ 6, 6, 3, 3 }, NULL), SHAPE, \
      "weft_conv2d_backward_weight", "gradient")                                                             \
    N(attention_null, weft_attention(NULL, matrix, matrix, NULL), INVALID, "weft_attention", "q")            \
    N(attention_vector, weft_attention(scalar, matrix, matrix, NULL), SHAPE, "weft_attention", "q")          \
    N(attention_sizes, weft_attention(matrix, square, matrix, NULL), SHAPE, "weft_attention", "v")           \
    N(attention_type, weft_attention(matrix, matrix, whole, NULL), DTYPE, "weft_attention", "v")             \
    N(attention_mask, weft_attention(matrix, matrix, matrix, &(weft_attention_options){ .mask = matrix }), SHAPE, \
      "weft_attention", "mask")                                                                              \
    N(attention_mask_type, weft_attention(matrix, matrix, matrix, &(weft_attention_options){ .mask = indices }), DTYPE, \
      "weft_attention", "mask")                                                                              \
    N(attention_back_null, weft_attention_backward(NULL, matrix, matrix, matrix, matrix, NULL, NULL, NULL), INVALID, \
      "weft_attention_backward", "gradient")                                                                 \
    N(attention_back_dead, weft_attention_backward(matrix, matrix, dead, matrix, matrix, NULL, NULL, NULL), INVALID, \
      "weft_attention_backward", "k")                                                                        \
    N(attention_back_output, weft_attention_backward(matrix, matrix, matrix, matrix, NULL, NULL, NULL, NULL), INVALID, \
      "weft_attention_backward", "output")                                                                   \
    N(attention_back_sizes, weft_attention_backward(matrix, matrix, square, matrix, matrix, NULL, NULL, NULL), SHAPE, \
      "weft_attention_backward", "v")                                                                        \
    N(attention_back_shape, weft_attention_backward(square, matrix, matrix, matrix, matrix, NULL, NULL, NULL), SHAPE, \
      "weft_attention_backward", "gradient")                                                                 \
    N(attention_back_type, weft_attention_backward(matrix, matrix, matrix, matrix, whole, NULL, NULL, NULL), DTYPE, \
      "weft_attention_backward", "output")                                                                   \
    N(attention_back_mesh, weft_attention_backward(on_other, matrix, matrix, matrix, matrix, NULL, NULL, NULL), MESH, \
      "weft_attention_backward", "gradient")

/* clang-format on */
#define DEFINE_STATUS(name, call, status, function, argument) STATUS_CALL(call_##name, call)
#define DEFINE_NULL(name, call, status, function, argument) NULL_CALL(call_##name, call)
#define DEFINE_ZERO(name, call, status, function, argument) ZERO_CALL(call_##name, call)
#define DEFINE_VOID(name, call, status, function, argument) VOID_CALL(call_##name, call)
#define LIST(name, call, status, function, argument)                                                         \
    { #call, call_##name, WEFT_ERR_##status, { function, argument } },

MESH_ROWS(DEFINE_STATUS, DEFINE_NULL, DEFINE_ZERO, DEFINE_VOID)
TENSOR_ROWS(DEFINE_STATUS, DEFINE_NULL, DEFINE_ZERO, DEFINE_VOID)
OPERATION_ROWS(DEFINE_STATUS, DEFINE_NULL, DEFINE_ZERO, DEFINE_VOID)
SHAPE_ROWS(DEFINE_STATUS, DEFINE_NULL, DEFINE_ZERO, DEFINE_VOID)
PRODUCT_ROWS(DEFINE_STATUS, DEFINE_NULL, DEFINE_ZERO, DEFINE_VOID)

static const row mesh_rows[] = { MESH_ROWS(LIST, LIST, LIST, LIST) };
static const row tensor_rows[] = { TENSOR_ROWS(LIST, LIST, LIST, LIST) };
static const row operation_rows[] = { OPERATION_ROWS(LIST, LIST, LIST, LIST)
                                          PRODUCT_ROWS(LIST, LIST, LIST, LIST) };
static const row shape_rows[] = { SHAPE_ROWS(LIST, LIST, LIST, LIST) };
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* ---- tests --------------------------------------------------------------------------------------------- */

static void test_meshes(void **state)
{
    (void)state;
    run_rows(mesh_rows, COUNT(mesh_rows));
    assert_library_works();
}

static void test_tensors(void **state)
{
    (void)state;
    run_rows(tensor_rows, COUNT(tensor_rows));
    assert_library_works();
}

static void test_operations(void **state)
{
    (void)state;
    run_rows(operation_rows, COUNT(operation_rows));
    assert_library_works();
}

static void test_shapes(void **state)
{
    (void)state;
    run_rows(shape_rows, COUNT(shape_rows));
    assert_library_works();
}

/* What only some processes can see wrong: a missing pointer for a rank they host. */
static void test_missing_locals(void **state)
{
    (void)state;
    if (weft_local_ranks() > 1) {
        assert_null(weft_from_local(WEFT_F32, 2, shape_45, one_null, mesh, rows, 0));
        assert_error(WEFT_ERR_INVALID, "locals");
    }
    if (weft_num_processes() == 1) { /* others cannot know: see test_divergence.c, "missing" */
        assert_null(weft_distribute(WEFT_F32, 2, shape_45, NULL, mesh, rows));
        assert_error(WEFT_ERR_INVALID, "global");
    }
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
    weft_tensor *sum = weft_sum_all(weft_add(weft_matmul(matrix, matrix), square));
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
    weft_scope_open();
    weft_tensor *far = weft_full(WEFT_I64, 1, count, 99, mesh, NULL);
    weft_tensor *rows_of_zeros = weft_embedding(square, far);
    float values[20];
    assert_int_equal(weft_to_host(rows_of_zeros, values, sizeof(values)), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "99");
    for (int i = 0; i < 20; i++) {
        assert_true(values[i] == 0);
    }
    weft_cross_entropy(matrix, far);
    assert_int_equal(weft_wait(), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_cross_entropy");
    weft_scope_close();
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
    weft_print_pending();
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_finalize");
    assert_int_equal(weft_wait(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_wait");
    weft_counters counters;
    assert_int_equal(weft_get_counters(&counters), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_get_counters");
    assert_int_equal(weft_mesh_pop(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_mesh_pop");
    weft_scope_open();
    assert_error(WEFT_ERR_STATE, "weft_scope_open");
    weft_scope_close();
    assert_error(WEFT_ERR_STATE, "weft_scope_close");
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
    const char *variable, *value;
} setting;

static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(weft_finalize(), WEFT_OK);
    static const setting settings[] = {
        { "WEFT_WORLD", "moon" },     { "WEFT_LOCAL_RANKS", "0" },  { "WEFT_LOCAL_RANKS", "two" },
        { "WEFT_FAKE_SIZE", "-3" },   { "WEFT_RANKS", "1e3" },      { "WEFT_SEED", "-1" },
        { "WEFT_SEED", "abc" },       { "WEFT_WORKERS", "0" },      { "WEFT_POOL_BYTES", "-1" },
        { "WEFT_TIMEOUT_S", "soon" }, { "WEFT_PANEL_BYTES", "0" },  { "WEFT_PANEL_ROWS", "0" },
        { "WEFT_PLAN", "ring" },      { "WEFT_PACK_BYTES", "1e6" }, { "WEFT_CALIBRATE", "yes" },
        { "WEFT_SILENT", "please" },
    };
    for (size_t i = 0; i < COUNT(settings); i++) {
        setenv(settings[i].variable, settings[i].value, 1);
        assert_int_equal(weft_init(NULL), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, settings[i].variable);
        unsetenv(settings[i].variable);
    }
    setenv("WEFT_CALIBRATE", "off", 1);
    static const struct {
        weft_config config;
        const char *names;
    } configs[] = {
        { { .world = (weft_world)9 }, "world" },
        { { .local_ranks = -1 }, "local_ranks" },
        { { .fake_size = -1 }, "fake_size" },
        { { .ranks = -1 }, "ranks" },
        { { .workers = -1 }, "workers" },
        { { .pool_bytes = -1 }, "pool_bytes" },
        { { .ranks = 2, .local_ranks = 2 }, "ranks" },
        { { .world = WEFT_WORLD_FAKE, .fake_size = 1 << 30 }, "ranks" },
    };
    for (size_t i = 0; i < COUNT(configs); i++) {
        assert_int_equal(weft_init(&configs[i].config), WEFT_ERR_INVALID);
        assert_error(WEFT_ERR_INVALID, configs[i].names);
    }
    start();
    make_fixtures();
    assert_library_works();
}

static int setup(void **state)
{
    (void)state;
    /* Objects of an earlier life: nothing may look behind these pointers. One byte on, because the very
     * address may be in use again. */
    start();
    make_fixtures();
    stale_mesh = (weft_mesh *)((char *)mesh + 1);
    stale_tensor = (weft_tensor *)((char *)matrix + 1);
    assert_int_equal(weft_finalize(), WEFT_OK);
    start();
    make_fixtures();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return weft_finalize() == WEFT_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meshes),          cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_operations),      cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_missing_locals),  cmocka_unit_test(test_popped_mesh),
        cmocka_unit_test(test_chains),          cmocka_unit_test(test_values_out_of_range),
        cmocka_unit_test(test_not_initialized), cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
