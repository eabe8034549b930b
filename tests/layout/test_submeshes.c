/* N-D meshes with names, their sub-meshes by names, joined and split dimensions,
 * and ranks outside a mesh. In one process that hosts all ranks, in several, and in a fake world. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "every_call.h"

enum { RANKS = 12, N = 7 };

static const int64_t grid[] = { 2, 3, 2 };
static const char *const names[] = { "pp", "dp", "tp" };

static int start_world(weft_world world)
{
    weft_config config = { .world = world };
    if (world == WEFT_WORLD_FAKE) {
        config.fake_size = RANKS;
    } else {
        config.ranks = RANKS;
    }
    return weft_init(&config) == WEFT_OK ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    return start_world(WEFT_WORLD_AUTO);
}

static int start_fake(void **state)
{
    (void)state;
    return start_world(WEFT_WORLD_FAKE);
}

/* Ranks in an order of their own: coordinate (i, j, k) is rank (7 * index) mod 12. */
static weft_mesh *scattered_mesh(void)
{
    int ranks[RANKS];
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = 7 * i % RANKS;
    }
    return weft_mesh_of_ranks(3, grid, ranks, names);
}

/* ---- sub-meshes ---------------------------------------------------------------------------------------- */

/* Checks that `sub` has the ranks that agree with `rank` outside the dimensions `dims`, at their
 * coordinates in these. */
static void check_submesh(weft_mesh *mesh, weft_mesh *sub, int num_dims, const int dims[], int rank)
{
    int64_t through[3], at[3], own[3], members = 1;
    assert_no_error();
    assert_int_equal(weft_mesh_ndim(sub), num_dims);
    assert_int_equal(weft_mesh_coordinate(mesh, rank, through), 1);
    for (int d = 0; d < num_dims; d++) {
        assert_int_equal(weft_mesh_size(sub, d), grid[dims[d]]);
        assert_string_equal(weft_mesh_dim_name(sub, d), names[dims[d]]);
        members *= grid[dims[d]];
    }
    assert_int_equal(weft_mesh_num_ranks(sub), members);
    for (int other = 0; other < RANKS; other++) {
        assert_int_equal(weft_mesh_coordinate(mesh, other, at), 1);
        bool inside = true;
        for (int d = 0; d < 3; d++) {
            bool kept = false;
            for (int i = 0; i < num_dims; i++) {
                kept |= dims[i] == d;
            }
            inside &= kept || at[d] == through[d];
        }
        assert_int_equal(weft_mesh_coordinate(sub, other, own), inside);
        for (int i = 0; i < num_dims && inside; i++) {
            assert_int_equal(own[i], at[dims[i]]);
        }
    }
}

static void check_all_submeshes(weft_mesh *mesh)
{
    for (int code = 0; code < 64; code++) { /* every list of up to three dimensions */
        int dims[] = { code % 4 - 1, code / 4 % 4 - 1, code / 16 - 1 }, count = 0;
        while (count < 3 && dims[count] >= 0) {
            count++;
        }
        bool distinct = count > 0;
        const char *chosen[3];
        for (int i = 0; i < count; i++) {
            chosen[i] = names[dims[i]];
            for (int j = 0; j < i; j++) {
                distinct &= dims[i] != dims[j];
            }
        }
        for (int rank = 0; rank < RANKS && distinct; rank++) {
            weft_mesh *sub = weft_mesh_submesh(mesh, count, chosen, rank);
            check_submesh(mesh, sub, count, dims, rank);
            assert_ptr_equal(weft_mesh_submesh(mesh, count, chosen, rank), sub);
        }
    }
}

/* Every process asks for the sub-mesh of every rank, and all get the same answer: the formula's. */
static void a1_submesh_by_names(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(3, grid, names);
    check_all_submeshes(mesh);
    check_all_submeshes(scattered_mesh());
    assert_ptr_equal(weft_mesh_submesh(mesh, 3, names, 5), mesh);
    assert_no_error();
}

/* Of a sub-mesh: the same as at once. */
static void a1_submesh_of_submesh(void **state)
{
    (void)state;
    weft_mesh *mesh = scattered_mesh();
    for (int rank = 0; rank < RANKS; rank++) {
        weft_mesh *stage = weft_mesh_submesh(mesh, 2, (const char *const[]){ "dp", "tp" }, rank);
        const char *const line[] = { "tp" };
        assert_ptr_equal(weft_mesh_submesh(stage, 1, line, rank), weft_mesh_submesh(mesh, 1, line, rank));
    }
    assert_no_error();
}

static void a1_submesh_refuses(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(3, grid, names);
    weft_mesh *part = weft_mesh_submesh(mesh, 1, names, 0);
    const char *const twice[] = { "dp", "dp" }, *const unknown[] = { "dp", "cp" }, *const null[] = { NULL };
    static const char function[] = "weft_mesh_submesh";
    struct {
        row_place place;
        weft_mesh *mesh;
        int count;
        const char *const *names;
        int rank;
        weft_status status;
        const char *text;
    } rows[] = {
        { THIS_ROW, (weft_mesh *)rows, 1, names, 0, WEFT_ERR_INVALID, "mesh" },
        { THIS_ROW, NULL, 1, names, 0, WEFT_ERR_MESH, "mesh stack is empty" },
        { THIS_ROW, mesh, 0, names, 0, WEFT_ERR_INVALID, "num_names is 0, expected 1 to 3" },
        { THIS_ROW, mesh, 4, names, 0, WEFT_ERR_INVALID, "num_names" },
        { THIS_ROW, mesh, 1, NULL, 0, WEFT_ERR_INVALID, "names is NULL" },
        { THIS_ROW, mesh, 1, null, 0, WEFT_ERR_INVALID, "names[0] is NULL" },
        { THIS_ROW, mesh, 2, twice, 0, WEFT_ERR_INVALID, "names[0] and names[1] are both \"dp\"" },
        { THIS_ROW, mesh, 2, unknown, 0, WEFT_ERR_INVALID, "names[1] is \"cp\"" },
        { THIS_ROW, mesh, 1, names, -1, WEFT_ERR_INVALID, "rank is -1" },
        { THIS_ROW, mesh, 1, names, RANKS, WEFT_ERR_INVALID, "rank is 12" },
        { THIS_ROW, part, 1, names, 1, WEFT_ERR_MESH, "rank 1 is not in the mesh 2 (pp)" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enter_row(rows[i].place, __func__);
        assert_null(weft_mesh_submesh(rows[i].mesh, rows[i].count, rows[i].names, rows[i].rank));
        assert_non_null(strstr(weft_last_error(), function));
        assert_error(rows[i].status, rows[i].text);
    }
    leave_rows();
}

/* Tensors on several sub-meshes at once, each computed with by all processes: groups of expert ranks, say. */
static void a1_submeshes_compute(void **state)
{
    (void)state;
    weft_mesh *mesh = scattered_mesh();
    const int64_t shape[] = { N, 3 };
    const weft_placement how[] = { weft_shard(0), weft_shard(1) };
    weft_scope_begin();
    for (int rank = 0; rank < RANKS; rank++) {
        weft_mesh *sub = weft_mesh_submesh(mesh, 2, (const char *const[]){ "tp", "dp" }, rank);
        weft_tensor *x = weft_full(WEFT_F64, rank + 1, 2, shape, sub, how);
        weft_tensor *everywhere = weft_redistribute(weft_add(x, x), mesh, NULL);
        double values[3 * N];
        assert_no_error();
        assert_shards(everywhere, NULL, NULL, "moved to the whole mesh");
        assert_int_equal(weft_to_host(everywhere, values, sizeof(values)), WEFT_OK);
        for (int i = 0; i < 3 * N; i++) {
            assert_true(values[i] == 2 * (rank + 1));
        }
    }
    weft_scope_end();
}

/* ---- joined and split ---------------------------------------------------------------------------------- */

static void check_same_ranks(weft_mesh *mesh, weft_mesh *other)
{
    for (int rank = 0; rank < RANKS; rank++) {
        int64_t first[WEFT_MAX_DIMS], second[WEFT_MAX_DIMS], index = 0, other_index = 0;
        assert_int_equal(weft_mesh_coordinate(mesh, rank, first), 1);
        assert_int_equal(weft_mesh_coordinate(other, rank, second), 1);
        for (int d = 0; d < weft_mesh_ndim(mesh); d++) {
            index = index * weft_mesh_size(mesh, d) + first[d];
        }
        for (int d = 0; d < weft_mesh_ndim(other); d++) {
            other_index = other_index * weft_mesh_size(other, d) + second[d];
        }
        assert_int_equal(index, other_index);
    }
}

static void a1_flatten_and_unflatten(void **state)
{
    (void)state;
    weft_mesh *const meshes[] = { weft_mesh_create(3, grid, names), scattered_mesh() };
    for (int m = 0; m < 2; m++) {
        for (int first = 0; first < 3; first++) {
            for (int last = first; last < 3; last++) {
                weft_mesh *joined = weft_mesh_flatten(meshes[m], first, last, "joined");
                assert_no_error();
                assert_int_equal(weft_mesh_ndim(joined), 3 - (last - first));
                assert_string_equal(weft_mesh_dim_name(joined, first), "joined");
                check_same_ranks(meshes[m], joined);
                weft_mesh *again =
                    weft_mesh_unflatten(joined, first, last - first + 1, grid + first, names + first);
                assert_no_error();
                assert_ptr_equal(again, meshes[m]);
            }
        }
        weft_mesh *split = weft_mesh_unflatten(meshes[m], -2, 2, (const int64_t[]){ 1, 3 }, NULL);
        assert_no_error();
        assert_int_equal(weft_mesh_ndim(split), 4);
        assert_null(weft_mesh_dim_name(split, 1));
        assert_string_equal(weft_mesh_dim_name(split, 3), "tp");
        check_same_ranks(meshes[m], split);
    }
}

/* A dimension that was joined can be named as any other. */
static void a1_submesh_of_flattened(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(3, grid, names);
    weft_mesh *joined = weft_mesh_flatten(mesh, 1, 2, "dp_tp");
    for (int rank = 0; rank < RANKS; rank++) {
        weft_mesh *stage = weft_mesh_submesh(joined, 1, (const char *const[]){ "dp_tp" }, rank);
        weft_mesh *pair = weft_mesh_submesh(mesh, 2, names + 1, rank);
        assert_ptr_equal(weft_mesh_flatten(pair, 0, 1, "dp_tp"), stage);
    }
    assert_no_error();
}

static void a1_unflatten_refuses(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(3, grid, names);
    const int64_t three[] = { 3, 1 }, wrong[] = { 2, 2 }, zero[] = { 3, 0 }, ones[] = { 3, 1, 1, 1, 1, 1, 1 };
    const char *const same[] = { "a", "a" }, *const taken[] = { "x", "tp" };
    assert_null(weft_mesh_unflatten(mesh, 3, 2, three, NULL));
    assert_error(WEFT_ERR_INVALID, "dim is 3");
    assert_null(weft_mesh_unflatten(mesh, 1, 0, three, NULL));
    assert_error(WEFT_ERR_INVALID, "num_sizes is 0");
    assert_null(weft_mesh_unflatten(mesh, 1, 7, ones, NULL));
    assert_error(WEFT_ERR_INVALID, "num_sizes is 7, expected 1 to 6");
    assert_null(weft_mesh_unflatten(mesh, 1, 2, NULL, NULL));
    assert_error(WEFT_ERR_INVALID, "sizes is NULL");
    assert_null(weft_mesh_unflatten(mesh, 1, 2, wrong, NULL));
    assert_error(WEFT_ERR_SHAPE, "product 4, but dimension 1 has the size 3");
    assert_null(weft_mesh_unflatten(mesh, 1, 2, zero, NULL));
    assert_error(WEFT_ERR_INVALID, "sizes[1] is 0");
    assert_null(weft_mesh_unflatten(mesh, 1, 2, three, same));
    assert_error(WEFT_ERR_INVALID, "both \"a\"");
    assert_null(weft_mesh_unflatten(mesh, 1, 2, three, taken));
    assert_error(WEFT_ERR_INVALID, "both \"tp\"");
}

/* The chunks of [S0, S0] over a split dimension are other ones than those of the joined dimension: values
 * move between the two meshes as between any. */
static void a1_tensors_on_both(void **state)
{
    (void)state;
    weft_mesh *mesh = scattered_mesh(), *joined = weft_mesh_flatten(mesh, 0, 2, "all");
    const weft_placement split[] = { weft_shard(0), weft_shard(0), weft_shard(0) },
                         whole[] = { weft_shard(0) };
    double values[N], expected[N] = { 0, 1, 2, 3, 4, 5, 6 };
    weft_scope_begin();
    weft_tensor *x = weft_distribute(WEFT_F64, 1, (const int64_t[]){ N }, expected, mesh, split);
    weft_tensor *y = weft_redistribute(x, joined, whole);
    assert_no_error();
    assert_shards(y, NULL, NULL, "on the joined mesh");
    assert_int_equal(weft_to_host(y, values, sizeof(values)), WEFT_OK);
    assert_memory_equal(values, expected, sizeof(values));
    weft_scope_end();
}

/* ---- ranks outside ------------------------------------------------------------------------------------- */

/* No coordinate, the same calls, empty shards; on each sub-mesh in turn most ranks are outside. */
static void a1_ranks_outside(void **state)
{
    (void)state;
    weft_mesh *mesh = scattered_mesh();
    for (int rank = 0; rank < RANKS; rank++) {
        weft_mesh *line = weft_mesh_submesh(mesh, 1, (const char *const[]){ "dp" }, rank);
        const weft_placement how[] = { weft_shard(0) };
        weft_scope_begin();
        weft_tensor *x = weft_full(WEFT_F32, 1, 1, (const int64_t[]){ N }, line, how);
        weft_tensor *sum = weft_redistribute(weft_sum(x, 0, false), line, NULL);
        double total = 0;
        for (int i = 0; i < weft_local_ranks(); i++) {
            int64_t coordinate[3] = { -1 }, offset, extent;
            bool member = weft_mesh_coordinate(line, weft_first_rank() + i, coordinate) == 1;
            assert_int_equal(member, coordinate[0] >= 0);
            assert_int_equal(weft_local_box(x, i, &offset, &extent), WEFT_OK);
            assert_int_equal(extent > 0, member);
            assert_int_equal(weft_local_bytes(x, i) > 0, member);
            assert_int_equal(weft_local_bytes(sum, i), member ? sizeof(float) : 0);
        }
        assert_int_equal(weft_tensor_item(sum, &total), WEFT_OK);
        assert_true(total == N);
        assert_no_error();
        weft_scope_end();
    }
}

/* ---- every call, from outside -------------------------------------------------------------------------- */

/* Fail by right: the tensor is of an outer scope; it has several elements; a process without a rank of the mesh. */
static bool may_fail(const char *function)
{
    return strcmp(function, "weft_scope_keep") == 0 || strcmp(function, "weft_tensor_item") == 0 ||
           (strcmp(function, "weft_mesh_slice") == 0 && weft_last_status() == WEFT_ERR_MESH) ||
           (strcmp(function, "weft_mesh_submesh") == 0 && weft_last_status() == WEFT_ERR_MESH) ||
           strcmp(function, "weft_save_for_backward") == 0 ||
           strcmp(function, "weft_graph_test") == 0 || strcmp(function, "weft_graph_size") == 0 || /* no function runs */
           strncmp(function, "weft_checkpoint_", strlen("weft_checkpoint_")) == 0 ||
           strncmp(function, "weft_hdf5_", strlen("weft_hdf5_")) == 0 ||
           strncmp(function, "weft_zarr_", strlen("weft_zarr_")) == 0; /* there is no file */
}

static bool is_wanted(const char *function)
{
    return strcmp(function, "weft_finalize") != 0;
}

static void copy_row(const weft_kernel_call *call)
{
    memcpy(weft_view_row(&call->output, 0, NULL), weft_view_row(&call->inputs[0], 0, NULL),
           (size_t)call->output.row_elements * weft_dtype_size(call->output.dtype));
}

static weft_tensor *zeros(weft_dtype dtype, int ndim, weft_mesh *mesh)
{
    static const int64_t shapes[][4] = { { 0 }, { 2 }, { 2, 2 }, { 1, 2, 2 }, { 1, 2, 2, 2 } };
    return weft_zeros(dtype, ndim, shapes[ndim], mesh, NULL);
}

/* Every public function, blocking ones too, on the tensors of a mesh of one rank: the others make the same
 * calls, none hangs, none fails. */
static void a1_every_call_from_outside(void **state)
{
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        WORLD(4);
        const int64_t one = 1;
        weft_mesh *mesh = weft_mesh_of_ranks(1, &one, &rank, (const char *const[]){ "name" });
        weft_scope_begin();
        const call_arguments arguments = {
            .mesh = mesh,
            .mesh_size = 1,
            .tensor = zeros(WEFT_F32, 2, mesh),
            .indices = zeros(WEFT_I64, 1, mesh),
            .truth = zeros(WEFT_BOOL, 2, mesh),
            .first = zeros(WEFT_F32, 2, mesh),
            .second = zeros(WEFT_F32, 2, mesh),
            .third = zeros(WEFT_F32, 2, mesh),
            .scalar = zeros(WEFT_F32, 0, mesh),
            .line = zeros(WEFT_F32, 1, mesh),
            .places = zeros(WEFT_I64, 2, mesh),
            .cube = zeros(WEFT_F32, 3, mesh),
            .image = zeros(WEFT_F32, 4, mesh),
            .pairs = zeros(WEFT_C64, 2, mesh),
            .regular = weft_eye(WEFT_F32, 2, 2, mesh, NULL),
            .list = list_for_calls(mesh),
            .sparse = sparse_for_calls(mesh),
            .ghosted = ghosted_for_calls(mesh),
            .operation = weft_operation_register(
                &(weft_operation_description){ .name = "copy",
                                               .rule = "a[b]->a[b]",
                                               .inputs = { { "a", WEFT_TYPES_ALL, false } },
                                               .kernel = copy_row }),
        };
        call_outcomes outcomes = { .may_fail = may_fail };
        call_all_wanted(&arguments, is_wanted, note_outcome, &outcomes);
        weft_scope_end();
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_no_failures(&outcomes);
        assert_int_equal(weft_finalize(), WEFT_OK);
    }
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, start, world_stop)
    const struct CMUnitTest tests[] = {
        ROW(a1_submesh_by_names),
        cmocka_unit_test_setup_teardown(a1_submesh_by_names, start_fake, world_stop),
        ROW(a1_submesh_of_submesh),
        ROW(a1_submesh_refuses),
        ROW(a1_submeshes_compute),
        ROW(a1_flatten_and_unflatten),
        ROW(a1_submesh_of_flattened),
        ROW(a1_unflatten_refuses),
        ROW(a1_tensors_on_both),
        ROW(a1_ranks_outside),
        cmocka_unit_test(a1_every_call_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
