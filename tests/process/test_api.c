/* Conveniences of the public functions: version, getters, text variants, statuses, options structs that
 * grow. */
#include "printed.h"
#include "support.h"

#include <weft/build.h>
#include <weft/weft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *project_version;

static int start(void **state)
{
    (void)state;
    WORLD(4);
    return 0;
}

static void expect_status(weft_status status, weft_status expected, const char *says)
{
    assert_int_equal(status, expected);
    assert_int_equal(weft_last_status(), expected);
    if (strstr(weft_last_error(), says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), says);
    }
    weft_clear_error();
}

static void versions(void **state)
{
    (void)state;
    char expected[40];
    snprintf(expected, sizeof(expected), "%d.%d.%d", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    assert_string_equal(weft_version(), expected);
    assert_string_equal(WEFT_VERSION, expected);
    assert_string_equal(project_version, expected);
    /* "version: 0.2.0\nMPI: Open MPI 4.1.4\n...": before a world exists. */
    static const char *const parts[] = { "MPI", "StarPU", "BLAS", "oneDNN", "HDF5", "FFT", "GLPK", "CUDA", "NCCL", "cuDNN" };
    char line[64];
    snprintf(line, sizeof(line), "version: %s\n", expected);
    assert_int_equal(strncmp(weft_build_info(), line, strlen(line)), 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(line, sizeof(line), "\n%s: ", parts[i]);
        const char *found = strstr(weft_build_info(), line);
        assert_non_null(found);
        assert_true(found[strlen(line)] > ' ');
    }
}

static void getters(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(2, (int64_t[]){ 2, 2 }, (const char *[]){ "dp", NULL });
    weft_mesh *turned = weft_mesh_of_ranks(1, (int64_t[]){ 3 }, (int[]){ 3, 0, 2 }, NULL);
    const weft_placement rows[] = { weft_shard(0), weft_partial(WEFT_MAX) };
    weft_tensor *tensor = weft_empty(WEFT_F16, 3, (int64_t[]){ 4, 0, 5 }, mesh, rows);
    weft_tensor *scalar = weft_ones(WEFT_F32, 0, NULL, turned, NULL);
    assert_memory_equal(weft_tensor_shape(tensor), ((int64_t[]){ 4, 0, 5 }), 3 * sizeof(int64_t));
    assert_non_null(weft_tensor_shape(scalar));
    assert_int_equal(weft_tensor_num_elements(tensor), 0);
    assert_int_equal(weft_tensor_num_elements(scalar), 1);
    assert_int_equal(weft_mesh_ndim(weft_tensor_mesh(tensor)), 2);
    assert_int_equal(weft_mesh_ndim(weft_tensor_mesh(scalar)), 1);
    int ranks[4] = { -1, -1, -1, -1 };
    const char *names[2] = { "?", "?" };
    assert_int_equal(weft_mesh_ranks(turned, ranks), WEFT_OK);
    assert_memory_equal(ranks, ((int[]){ 3, 0, 2, -1 }), sizeof(ranks));
    assert_int_equal(weft_mesh_ranks(mesh, ranks), WEFT_OK);
    assert_memory_equal(ranks, ((int[]){ 0, 1, 2, 3 }), sizeof(ranks));
    assert_int_equal(weft_mesh_names(mesh, names), WEFT_OK);
    assert_string_equal(names[0], "dp");
    assert_null(names[1]);
    assert_int_equal(weft_last_status(), WEFT_OK);
    expect_status(weft_mesh_ranks(mesh, NULL), WEFT_ERR_INVALID, "weft_mesh_ranks: ranks is NULL");
    expect_status(weft_mesh_names(mesh, NULL), WEFT_ERR_INVALID, "weft_mesh_names: names is NULL");
    assert_null(weft_tensor_shape(NULL));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_tensor_shape");
    assert_int_equal(weft_tensor_num_elements(NULL), 0);
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_tensor_num_elements");
    assert_null(weft_tensor_mesh(NULL));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_tensor_mesh");
    weft_tensor_release(tensor);
    weft_tensor_release(scalar);
}

/* ---- placements ---------------------------------------------------------------------------------------- */

static void placements_there_and_back(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 2000; round++) {
        weft_placement given[WEFT_MAX_DIMS], again[WEFT_MAX_DIMS];
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int n = (int)(random >> 60) % (WEFT_MAX_DIMS + 1);
        for (int m = 0; m < n; m++) {
            int what = (int)(random >> (5 * m + 10)) & 31;
            given[m] = what < 10   ? weft_replicate()
                       : what < 20 ? weft_shard(what % 10 - 2)
                                   : weft_partial((weft_reduce_op)(what % 5));
        }
        char text[200];
        assert_int_equal(weft_placements_format(given, n, text, sizeof(text)), WEFT_OK);
        assert_int_equal(weft_placements_parse(text, n, again), WEFT_OK);
        for (int m = 0; m < n; m++) {
            assert_int_equal(again[m].kind, given[m].kind);
            assert_true(given[m].kind != WEFT_SHARD || again[m].dim == given[m].dim);
            assert_true(given[m].kind != WEFT_PARTIAL || again[m].op == given[m].op);
        }
        size_t length = strlen(text);
        char exact[200] = "untouched";
        assert_int_equal(weft_placements_format(given, n, exact, length + 1), WEFT_OK);
        assert_string_equal(exact, text);
        strcpy(exact, "untouched");
        expect_status(weft_placements_format(given, n, exact, length), WEFT_ERR_INVALID, "size is");
        assert_string_equal(exact, "untouched");
    }
}

static void placements_that_are_none(void **state)
{
    (void)state;
    char text[40] = "untouched";
    const weft_placement wrong[] = { weft_replicate(), { (weft_placement_kind)7, 0, WEFT_SUM } };
    const weft_placement no_op[] = { { WEFT_PARTIAL, 0, (weft_reduce_op)9 } };
    expect_status(weft_placements_format(wrong, 2, text, sizeof(text)), WEFT_ERR_LAYOUT, "placements[1] has kind 7");
    expect_status(weft_placements_format(no_op, 1, text, sizeof(text)), WEFT_ERR_LAYOUT, "placements[0]");
    expect_status(weft_placements_format(wrong, 9, text, sizeof(text)), WEFT_ERR_INVALID, "n is 9");
    expect_status(weft_placements_format(wrong, -1, text, sizeof(text)), WEFT_ERR_INVALID, "n is -1");
    expect_status(weft_placements_format(wrong, 1, NULL, 0), WEFT_ERR_INVALID, "text is NULL");
    assert_string_equal(text, "untouched");
    assert_int_equal(weft_placements_format(NULL, 3, text, sizeof(text)), WEFT_OK);
    assert_string_equal(text, "R,R,R");
    assert_int_equal(weft_placements_format(NULL, 0, text, 1), WEFT_OK);
    assert_string_equal(text, "");
}

/* ---- texts --------------------------------------------------------------------------------------------- */

/* The text of a tensor in a buffer of any size is what process 0 writes to a file. */
static void texts_are_what_files_get(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *shown = weft_randn(WEFT_F64, 2, (int64_t[]){ 5, 7 }, mesh, rows);
    weft_tensor_set_name(shown, "x");
    static char printed[4096], part[4096];
    PRINT_INTO(printed, weft_tensor_print(shown, file));
    size_t told = 0;
    assert_int_equal(weft_tensor_print_text(shown, NULL, 0, &told), WEFT_OK);
    assert_in_range(told, 20, sizeof(part) - 10);
    char *text = malloc(told + 1);
    assert_int_equal(weft_tensor_print_text(shown, text, told + 1, NULL), WEFT_OK);
    assert_int_equal(strlen(text), told);
    assert_string_equal(printed, weft_process_index() == 0 ? text : "");
    const size_t sizes[] = { 1, 2, told / 2, told, told + 1, told + 5 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(part, '#', sizeof(part));
        size_t again = 0;
        assert_int_equal(weft_tensor_print_text(shown, part, sizes[i], &again), WEFT_OK);
        assert_int_equal(again, told);
        size_t kept = sizes[i] <= told ? sizes[i] - 1 : told;
        assert_int_equal(strlen(part), kept);
        assert_memory_equal(part, text, kept);
        assert_int_equal(part[sizes[i]], '#');
    }
    expect_status(weft_tensor_print_text(shown, NULL, 8, NULL), WEFT_ERR_INVALID, "text is NULL");
    expect_status(weft_tensor_print_text(NULL, part, sizeof(part), NULL), WEFT_ERR_INVALID, "tensor");
    free(text);
    weft_tensor_release(shown);
}

static void printing_functions(void **state)
{
    (void)state;
    char text[16] = "?";
    assert_int_equal(weft_wait(), WEFT_OK);
    if (weft_num_processes() == 1) {
        PRINT_INTO(text, weft_print_pending(file));
        assert_string_equal(text, "");
    }
    expect_status(weft_print_pending(NULL), WEFT_ERR_INVALID, "file is NULL");
    expect_status(weft_print_machine(NULL), WEFT_ERR_INVALID, "file is NULL");
    static char machine[1 << 16];
    PRINT_INTO(machine, weft_print_machine(file));
    assert_non_null(strstr(machine, "task"));
}

/* ---- statuses ------------------------------------------------------------------------------------------ */

static void functions_that_fail_say_so(void **state)
{
    (void)state;
    assert_int_equal(weft_scope_begin(), WEFT_OK);
    weft_tensor *tensor = weft_ones(WEFT_F32, 0, NULL, weft_mesh_create(1, (int64_t[]){ 4 }, NULL), NULL);
    assert_int_equal(weft_tensor_retain(tensor), WEFT_OK);
    assert_int_equal(weft_scope_end(), WEFT_OK);
    assert_int_equal(weft_tensor_release(tensor), WEFT_OK);
    expect_status(weft_tensor_release(tensor), WEFT_ERR_INVALID, "weft_tensor_release: tensor");
    expect_status(weft_tensor_retain(tensor), WEFT_ERR_INVALID, "weft_tensor_retain: tensor");
    expect_status(weft_scope_end(), WEFT_ERR_STATE, "no scope is open");
    assert_int_equal(weft_scope_begin(), WEFT_OK);
    tensor = weft_ones(WEFT_F32, 0, NULL, weft_mesh_create(1, (int64_t[]){ 4 }, NULL), NULL);
    expect_status(weft_tensor_release(tensor), WEFT_ERR_STATE, "belongs to a scope");
    assert_int_equal(weft_scope_end(), WEFT_OK);
    assert_int_equal(weft_print_pending(stderr), WEFT_OK);
}

static void before_the_start(void **state)
{
    (void)state;
    expect_status(weft_scope_begin(), WEFT_ERR_STATE, "weft_scope_begin");
    expect_status(weft_scope_end(), WEFT_ERR_STATE, "weft_scope_end");
    expect_status(weft_tensor_retain(NULL), WEFT_ERR_STATE, "weft_tensor_retain");
    expect_status(weft_print_machine(stdout), WEFT_ERR_STATE, "weft_print_machine");
    assert_int_equal(weft_print_pending(stderr), WEFT_OK);
}

/* ---- options that grow --------------------------------------------------------------------------------- */

/* The struct of a later version, with additional fields at the end. */
typedef struct later_options {
    weft_adam_options known;
    double unknown;
} later_options;

static weft_status adam(const weft_adam_options *options)
{
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    assert_int_equal(weft_scope_begin(), WEFT_OK);
    weft_tensor *p = weft_ones(WEFT_F32, 1, (int64_t[]){ 8 }, mesh, NULL), *m = weft_zeros_like(p),
                *v = weft_zeros_like(p), *g = weft_ones_like(p);
    weft_status status = weft_adam(1, &p, &g, &m, &v, 1, options);
    double first = 0;
    if (status == WEFT_OK) {
        assert_int_equal(weft_tensor_item(weft_slice(p, 0, 0, 1, 1), &first), WEFT_OK);
        assert_true(first < 1 && first > 0.5);
    }
    assert_int_equal(weft_scope_end(), WEFT_OK);
    return status;
}

static void options_of_other_versions(void **state)
{
    (void)state;
    const weft_adam_options by_macro = WEFT_ADAM_DEFAULT;
    weft_adam_options by_function;
    weft_adam_options_init(&by_function);
    assert_int_equal(by_macro.size, 0);
    assert_int_equal(by_function.size, sizeof(weft_adam_options));
    assert_true(by_function.beta2 == by_macro.beta2 && by_function.learning_rate == by_macro.learning_rate);
    assert_int_equal(adam(&by_macro), WEFT_OK);
    assert_int_equal(adam(&by_function), WEFT_OK);
    later_options later = { .known = by_function };
    later.known.size = sizeof(later);
    assert_int_equal(adam(&later.known), WEFT_OK);
    later.unknown = 1;
    expect_status(adam(&later.known), WEFT_ERR_UNSUPPORTED, "weft_adam: the options have a field that is set");
    by_function.size = 3;
    expect_status(adam(&by_function), WEFT_ERR_INVALID, "weft_adam: size is 3");
    by_function.size = SIZE_MAX;
    expect_status(adam(&by_function), WEFT_ERR_INVALID, "weft_adam: size is");
}

/* Each struct's initialiser gives what its functions take. */
static void initialisers(void **state)
{
    (void)state;
    weft_mesh *mesh = weft_mesh_create(1, (int64_t[]){ 4 }, NULL);
    assert_int_equal(weft_scope_begin(), WEFT_OK);
    weft_tensor *x = weft_ones(WEFT_F32, 3, (int64_t[]){ 2, 3, 4 }, mesh, NULL);
    weft_tensor *logits = weft_ones(WEFT_F32, 2, (int64_t[]){ 2, 3 }, mesh, NULL);
    weft_tensor *targets = weft_zeros(WEFT_I64, 1, (int64_t[]){ 2 }, mesh, NULL);
    weft_tensor *p = weft_ones_like(x);
    weft_convolution convolution;
    weft_convolution3d convolution3d;
    weft_pooling pooling;
    weft_interpolation interpolation;
    weft_attention_options attention;
    weft_cross_entropy_options cross_entropy;
    weft_sgd_options sgd;
    weft_apply_options apply;
    weft_local_map_options local_map;
    weft_convolution_init(&convolution);
    weft_convolution3d_init(&convolution3d);
    weft_pooling_init(&pooling);
    weft_interpolation_init(&interpolation);
    weft_attention_options_init(&attention);
    weft_cross_entropy_options_init(&cross_entropy);
    weft_sgd_options_init(&sgd);
    weft_apply_options_init(&apply);
    weft_local_map_options_init(&local_map);
    assert_non_null(weft_conv1d(x, x, NULL, &convolution));
    weft_tensor *volume = weft_reshape(x, 5, (int64_t[]){ 2, 3, 4, 1, 1 });
    assert_non_null(weft_conv3d(volume, volume, NULL, &convolution3d));
    pooling.kernel[0] = 2;
    assert_non_null(weft_max_pool(x, 1, &pooling, NULL));
    assert_non_null(weft_interpolate(x, 1, &interpolation));
    assert_non_null(weft_attention(x, x, x, &attention));
    assert_non_null(weft_cross_entropy(logits, targets, &cross_entropy));
    assert_int_equal(weft_sgd(1, &p, &x, &sgd, NULL), WEFT_OK);
    assert_int_equal(weft_last_status(), WEFT_OK);
    convolution.size = convolution3d.size = pooling.size = interpolation.size = attention.size = 1;
    cross_entropy.size = sgd.size = apply.size = local_map.size = 1;
    weft_operation_description description;
    weft_operation_description_init(&description);
    assert_int_equal(description.size, sizeof(description));
    description.size = 1;
    assert_null(weft_operation_register(&description));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_operation_register: size is 1");
    assert_null(weft_conv1d(x, x, NULL, &convolution));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_conv1d: size is 1");
    assert_null(weft_conv3d(volume, volume, NULL, &convolution3d));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_conv3d: size is 1");
    assert_null(weft_max_pool(x, 1, &pooling, NULL));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_max_pool: size is 1");
    assert_null(weft_interpolate(x, 1, &interpolation));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_interpolate: size is 1");
    assert_null(weft_attention(x, x, x, &attention));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_attention: size is 1");
    assert_null(weft_cross_entropy(logits, targets, &cross_entropy));
    expect_status(weft_last_status(), WEFT_ERR_INVALID, "weft_cross_entropy: size is 1");
    expect_status(weft_sgd(1, &p, &x, &sgd, NULL), WEFT_ERR_INVALID, "weft_sgd: size is 1");
    expect_status(weft_local_map(NULL, 1, &x, 0, NULL, &local_map, NULL), WEFT_ERR_INVALID, "weft_local_map");
    assert_int_equal(weft_scope_end(), WEFT_OK);
}

static void a_config_of_another_version(void **state)
{
    (void)state;
    weft_config config;
    weft_config_init(&config);
    config.ranks = 4;
    config.size = 5;
    expect_status(weft_init(&config), WEFT_ERR_INVALID, "weft_init: size is 5");
    struct {
        weft_config known;
        int64_t unknown;
    } later;
    weft_config_init(&later.known);
    later.known.ranks = 4;
    later.known.size = sizeof(later);
    later.unknown = 1;
    expect_status(weft_init(&later.known), WEFT_ERR_UNSUPPORTED, "weft_init: the options have a field");
    later.unknown = 0;
    assert_int_equal(weft_init(&later.known), WEFT_OK);
    assert_int_equal(weft_world_size(), 4);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(int argc, char **argv)
{
    project_version = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(before_the_start),
        cmocka_unit_test(a_config_of_another_version),
        cmocka_unit_test(placements_there_and_back),
        cmocka_unit_test(placements_that_are_none),
        cmocka_unit_test_setup_teardown(getters, start, world_stop),
        cmocka_unit_test_setup_teardown(texts_are_what_files_get, start, world_stop),
        cmocka_unit_test_setup_teardown(printing_functions, start, world_stop),
        cmocka_unit_test_setup_teardown(functions_that_fail_say_so, start, world_stop),
        cmocka_unit_test_setup_teardown(options_of_other_versions, start, world_stop),
        cmocka_unit_test_setup_teardown(initialisers, start, world_stop),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
