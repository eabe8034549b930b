/* Several meshes at once: operations on inputs of different meshes, and ranks outside a mesh. In one
 * process that hosts all ranks, or in several, some of which host no rank of a mesh. */
#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 6, N = 7 };

static const int64_t line[] = { N };
static const weft_placement shards[] = { { WEFT_SHARD, 0, WEFT_SUM } };

static int start(void **state)
{
    (void)state;
    return WORLD(RANKS);
}

/* Ranks first .. last, which one process hosts alone where they are the first two or the last two. */
static weft_mesh *mesh_of(int first, int last)
{
    int ranks[RANKS];
    int64_t size = last - first + 1;
    for (int i = 0; i < size; i++) {
        ranks[i] = first + i;
    }
    return weft_mesh_of_ranks(1, &size, ranks, NULL);
}

static weft_mesh *lower(void)
{
    return mesh_of(0, 1);
}

static weft_mesh *upper(void)
{
    return mesh_of(RANKS - 2, RANKS - 1);
}

static weft_tensor *filled(double value, int ndim, const int64_t shape[], weft_mesh *mesh,
                           const weft_placement *placements)
{
    weft_tensor *tensor = weft_full(WEFT_F64, value, ndim, shape, mesh, placements);
    assert_no_error();
    return tensor;
}

static void expect(weft_tensor *tensor, weft_mesh *mesh, int64_t count, double value)
{
    double values[N * N] = { 0 };
    assert_no_error();
    assert_non_null(tensor);
    assert_ptr_equal(weft_tensor_mesh(tensor), mesh);
    assert_shards(tensor, NULL, NULL, "a result");
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(values[i] == value);
    }
}

/* ---- scalars ------------------------------------------------------------------------------------------- */

static void test_scalars_are_replicated(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *vector = filled(3, 1, line, lower(), shards), *factor = filled(5, 0, NULL, upper(), NULL);
    expect(weft_mul(vector, factor), lower(), N, 15);
    expect(weft_mul(factor, vector), lower(), N, 15);
    expect(weft_sub(factor, vector), lower(), N, 2);
    expect(weft_add_inplace(vector, factor, 2), lower(), N, 13);
    /* Addends on the other mesh. */
    weft_tensor *total = weft_sum(filled(2, 1, line, upper(), shards), WEFT_ALL_DIMS, false);
    assert_int_equal(weft_tensor_placements(total)[0].kind, WEFT_PARTIAL);
    expect(weft_mul(vector, total), lower(), N, 13 * 2 * N);
    /* Three meshes, and one tensor twice. */
    weft_tensor *condition = weft_ones(WEFT_BOOL, 0, NULL, mesh_of(2, 3), NULL);
    expect(weft_where(condition, factor, vector), lower(), N, 5);
    expect(weft_addcmul(vector, factor, factor, 1), lower(), N, 38);
    /* Only scalars: on the first one's mesh. */
    expect(weft_add(factor, condition), upper(), 1, 6);
    expect(weft_add_inplace(factor, filled(1, 0, NULL, mesh_of(0, RANKS - 1), NULL), 1), upper(), 1, 6);
    weft_scope_end();
}

/* The target stays where it is. */
static void test_targets_stay(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *vector = filled(3, 1, line, lower(), NULL), *target = filled(5, 0, NULL, upper(), NULL);
    assert_null(weft_add_inplace(target, vector, 1));
    assert_error(WEFT_ERR_MESH, "weft_redistribute");
    expect(target, upper(), 1, 5);
    weft_scope_end();
}

/* ---- one element --------------------------------------------------------------------------------------- */

/* Standard error into a file while a function runs; what was written, of this process. */
static char *errors_of(void (*run)(void))
{
    static char text[4096];
    char path[] = "/tmp/weft-meshes-XXXXXX";
    int file = mkstemp(path), kept = dup(STDERR_FILENO);
    assert_true(file >= 0 && kept >= 0);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    run();
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    lseek(file, 0, SEEK_SET);
    ssize_t length = read(file, text, sizeof(text) - 1);
    text[length < 0 ? 0 : length] = '\0';
    close(file);
    remove(path);
    return text;
}

static void add_single(void)
{
    const int64_t one[] = { 1, 1 };
    weft_scope_begin();
    expect(weft_add(filled(3, 1, line, lower(), shards), filled(4, 2, one, upper(), NULL)), lower(), N, 7);
    expect(weft_add(filled(4, 2, one, upper(), NULL), filled(3, 1, line, lower(), shards)), lower(), N, 7);
    weft_scope_end();
}

/* One warning for the operation, by one process. */
static void test_single_elements_are_replicated(void **state)
{
    (void)state;
    assert_int_equal(count_in(errors_of(add_single), "weft_add: b is f64[1, 1]"), weft_process_index() == 0);
    assert_int_equal(count_in(errors_of(add_single), "weft_add"), 0);
}

static void test_warnings_can_be_silenced(void **state)
{
    setenv("WEFT_SILENT", "1", 1);
    assert_int_equal(start(state), 0);
    unsetenv("WEFT_SILENT");
    assert_string_equal(errors_of(add_single), "");
    world_stop(NULL);
}

/* ---- all others ---------------------------------------------------------------------------------------- */

static void test_others_are_moved_when_allowed(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *a = filled(3, 1, line, lower(), shards), *b = filled(4, 1, line, upper(), shards);
    assert_null(weft_add(a, b));
    assert_error(WEFT_ERR_MESH, "a is on mesh 2 and b on mesh 2 of ranks 4, 5: weft_redistribute()");
    assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
    expect(weft_add(a, b), lower(), N, 7);
    expect(weft_add(b, a), upper(), N, 7);
    expect(weft_add_inplace(b, a, 1), upper(), N, 7);
    assert_int_equal(weft_implicit_replication_end(), WEFT_OK);
    assert_null(weft_add(a, b));
    assert_error(WEFT_ERR_MESH, "weft_redistribute");
    weft_scope_end();
}

static void test_replication_ends_with_the_world(void **state)
{
    assert_int_equal(weft_implicit_replication_begin(), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "weft_implicit_replication_begin");
    assert_int_equal(start(state), 0);
    assert_int_equal(weft_implicit_replication_begin(), WEFT_OK);
    world_stop(NULL);
    assert_int_equal(start(state), 0);
    weft_scope_begin();
    assert_null(weft_add(filled(3, 1, line, lower(), NULL), filled(3, 1, line, upper(), NULL)));
    assert_error(WEFT_ERR_MESH, "weft_redistribute");
    weft_scope_end();
    world_stop(NULL);
}

/* ---- ranks outside a mesh ------------------------------------------------------------------------------ */

static void test_ranks_outside(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_mesh *mesh = lower();
    weft_tensor *vector = weft_scale(filled(3, 1, line, mesh, shards), 2);
    weft_tensor *sum = weft_redistribute(weft_sum(vector, WEFT_ALL_DIMS, false), mesh, NULL);
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset, extent, coordinate;
        double values[N] = { -1 };
        bool member = weft_mesh_coordinate(mesh, weft_first_rank() + i, &coordinate) != 0;
        assert_int_equal(weft_tensor_dtype(vector), WEFT_F64);
        assert_int_equal(weft_local_box(vector, i, &offset, &extent), WEFT_OK);
        assert_int_equal(extent > 0, member);
        assert_int_equal(weft_local_to_host(vector, i, values, sizeof(values)), WEFT_OK);
        assert_true(values[0] == (member ? 6 : -1));
        assert_int_equal(weft_tensor_dtype(sum), WEFT_F64);
        values[0] = -1;
        assert_int_equal(weft_local_to_host(sum, i, values, sizeof(values)),
                         member ? WEFT_OK : WEFT_ERR_MESH);
        assert_true(values[0] == (member ? 6 * N : -1));
        if (member) {
            assert_no_error();
            continue;
        }
        assert_error(WEFT_ERR_MESH, "not in its mesh");
        assert_null(weft_local_acquire(sum, i, WEFT_READ));
        assert_error(WEFT_ERR_MESH, "weft_local_acquire");
        assert_int_equal(weft_local_release(sum, i), WEFT_ERR_MESH);
        assert_error(WEFT_ERR_MESH, "weft_local_release");
    }
    expect(sum, mesh, 1, 6 * N);
    expect(weft_redistribute(sum, upper(), NULL), upper(), 1, 6 * N);
    weft_scope_end();
}

/* ---- no mesh given ------------------------------------------------------------------------------------- */

/* A tensor that is redistributed stays on its mesh, whichever is the current one, or none. */
static void test_redistributed_on_its_own_mesh(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_tensor *vector = filled(3, 1, line, lower(), shards);
    weft_tensor *addends = weft_sum(vector, WEFT_ALL_DIMS, false);
    for (int pushed = 0; pushed < 3; pushed++) {
        weft_mesh *const current[] = { NULL, lower(), upper() };
        if (current[pushed] != NULL) {
            assert_int_equal(weft_mesh_push(current[pushed]), WEFT_OK);
        }
        weft_tensor *whole = weft_redistribute(vector, NULL, NULL);
        expect(whole, lower(), N, 3);
        assert_int_equal(weft_tensor_placements(whole)[0].kind, WEFT_REPLICATE);
        assert_ptr_equal(weft_redistribute(vector, NULL, shards), vector);
        expect(weft_redistribute(whole, NULL, shards), lower(), N, 3);
        expect(weft_redistribute(addends, NULL, NULL), lower(), 1, 3 * N);
        expect(weft_redistribute(vector, upper(), NULL), upper(), N, 3);
        if (current[pushed] != NULL) {
            assert_int_equal(weft_mesh_pop(), WEFT_OK);
        }
    }
    weft_scope_end();
}

/* ---- several at once ----------------------------------------------------------------------------------- */

/* A chain in which each mesh's result goes to the next one as a scalar. */
static void test_chains_over_meshes(void **state)
{
    (void)state;
    prng source = prng_start(3);
    for (int i = 0; i < 40; i++) {
        weft_scope_begin();
        double total = 1;
        weft_mesh *mesh = NULL;
        weft_tensor *scale = filled(1, 0, NULL, random_mesh(&source, RANKS), NULL);
        for (int stage = 0; stage < 4; stage++) {
            int64_t shape[WEFT_MAX_DIMS];
            int ndim = random_shape(&source, 3, 4, shape);
            double value = (double)(1 + prng_below(&source, 3));
            weft_placement placements[3];
            mesh = random_mesh(&source, RANKS);
            random_placements(&source, mesh, ndim, false, placements);
            weft_tensor *x = filled(value, ndim, shape, mesh, placements);
            scale = weft_sum(prng_below(&source, 2) ? weft_mul(x, scale) : weft_mul(scale, x), WEFT_ALL_DIMS, false);
            total *= value * (double)shape_count(ndim, shape);
        }
        double result = -1;
        assert_no_error();
        assert_int_equal(weft_to_host(scale, &result, sizeof(result)), WEFT_OK);
        assert_true(result == total);
        weft_scope_end();
    }
}

/* The same numbers whichever mesh draws them, and whoever is outside. */
static void test_states_advance_everywhere(void **state)
{
    (void)state;
    double values[3][N], numbers[3];
    weft_mesh *const meshes[] = { lower(), upper(), mesh_of(0, RANKS - 1) };
    weft_scope_begin();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_random_seed(11), WEFT_OK);
        weft_tensor *first = weft_rand(WEFT_F64, 1, line, meshes[i], shards);
        weft_tensor *second = weft_rand(WEFT_F64, 0, NULL, meshes[(i + 1) % 3], NULL);
        assert_int_equal(weft_to_host(first, values[i], sizeof(values[i])), WEFT_OK);
        assert_int_equal(weft_to_host(second, &numbers[i], sizeof(numbers[i])), WEFT_OK);
        assert_memory_equal(values[i], values[0], sizeof(values[0]));
        assert_true(numbers[i] == numbers[0]);
    }
    weft_scope_end();
    assert_no_error();
}

static int start_compared(void **state)
{
    setenv("WEFT_CHECK", "1", 1);
    int result = start(state);
    unsetenv("WEFT_CHECK");
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scalars_are_replicated, start, world_stop),
        cmocka_unit_test_setup_teardown(test_targets_stay, start, world_stop),
        cmocka_unit_test_setup_teardown(test_single_elements_are_replicated, start, world_stop),
        cmocka_unit_test(test_warnings_can_be_silenced),
        cmocka_unit_test_setup_teardown(test_others_are_moved_when_allowed, start, world_stop),
        cmocka_unit_test(test_replication_ends_with_the_world),
        cmocka_unit_test_setup_teardown(test_ranks_outside, start, world_stop),
        cmocka_unit_test_setup_teardown(test_redistributed_on_its_own_mesh, start, world_stop),
        cmocka_unit_test_setup_teardown(test_chains_over_meshes, start, world_stop),
        cmocka_unit_test_setup_teardown(test_states_advance_everywhere, start, world_stop),
        cmocka_unit_test_setup_teardown(test_scalars_are_replicated, start_compared, world_stop),
        cmocka_unit_test_setup_teardown(test_others_are_moved_when_allowed, start_compared, world_stop),
        cmocka_unit_test_setup_teardown(test_states_advance_everywhere, start_compared, world_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
