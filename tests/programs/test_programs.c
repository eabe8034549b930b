/* Random whole programs (programs/program.h tells how): a fixed number of them as a test; more with options.
 *
 *   test-programs COUNT PROCESSES [HEADER...] [FILE.txt...] [PROGRAM...]
 *                                       the test: COUNT programs; those of the files, each by
 *                                       itself; and whether all functions of the public headers have been called
 *   test-programs gradients COUNT PROCESSES
 *                                       the same of programs with gradients (programs/gradients.h)
 *   test-programs --endless             until one fails; says how far it is
 *   test-programs --from SEED --count N, --seconds S, --processes P, --only add,sub    some of them
 *   test-programs --seed SEED           one, which is made smaller and printed as C if it fails
 *   test-programs --seed SEED --print   one, as C
 *   test-programs --seed SEED --text    one, as text, which --file reads
 *   test-programs graphs [gradients] COUNT PROCESSES
 *                                       in captured graphs (programs/graphs.h)
 *   --gradients                         programs with gradients
 *   --graphs                            in captured graphs
 *   test-programs repeated [gradients] COUNT PROCESSES
 *   --repeated                          again and again, with WEFT_AUTOGRAPH=1
 *   --shrink SECONDS                    for making a program smaller, at most
 *   test-programs --file FILE           one, as it is printed (--print: as C)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/ops.h"
#include "programs/driver.h"
#include "programs/make.h"

static driver test_driver = { .processes = 1, .shrink_seconds = 150 };
static uint64_t test_count;
static int num_headers, num_found, num_printed;
static char *headers[64], *found_files[64], *printed[64];
enum { FIRST_SEED = 1000 };

/* ---- the test ------------------------------------------------------------------------------------------ */

/* So many programs before the first one, in parts of as many as are run: WEFT_TEST_FIRST, moved on by WEFT_TEST_TURN in turns
 * of WEFT_TEST_STEP. */
static uint64_t first_seed(void)
{
    const char *const names[] = { "WEFT_TEST_FIRST", "WEFT_TEST_TURN", "WEFT_TEST_STEP" };
    uint64_t numbers[3];
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        numbers[i] = text == NULL ? 0 : strtoull(text, NULL, 10);
    }
    uint64_t part = numbers[0] + numbers[1];
    return FIRST_SEED + test_count * (numbers[2] == 0 ? part : part % numbers[2]);
}

static void test_programs(void **state)
{
    (void)state;
    if (!drive(&test_driver, first_seed(), test_count, 0)) {
        fail_msg("program %" PRIu64 " failed", test_driver.failed_seed);
    }
    if (test_driver.gradients && !test_driver.graphs && !test_driver.repeated) {
        print_message("# %" PRId64 " programs, %" PRId64 " refused; %" PRId64 " gradients of %" PRId64
                      " elements compared, %" PRId64 " elements with differences, %" PRId64 " are not smooth\n",
                      test_driver.total.programs, test_driver.total.tally.refused, test_driver.total.tally.tensors,
                      test_driver.total.tally.elements, test_driver.total.tally.differences,
                      test_driver.total.tally.unknown);
        return;
    }
    if (test_driver.graphs) {
        print_message("# %" PRId64 " calls of frozen graphs, %" PRId64 " inputs donated, %" PRId64 " calls of sharded graphs, %" PRId64
                      " programs with other sizes\n",
                      test_driver.total.tally.frozen, test_driver.total.tally.donated, test_driver.total.tally.sharded,
                      test_driver.total.tally.resized);
        assert_true(test_driver.total.tally.frozen > 0 && test_driver.total.tally.donated > 0);
        assert_true(test_driver.total.tally.sharded > 0 && test_driver.total.tally.resized > 0);
    }
    if (test_driver.repeated) {
        print_message("# %" PRId64 " windows of %" PRId64 " calls\n", test_driver.total.tally.windows, test_driver.total.tally.window_calls);
        assert_true(test_driver.total.tally.windows > 0);
    }
    print_message("# %" PRId64 " programs, %" PRId64 " calls, %" PRId64 " tensors and %" PRId64
                  " elements compared, %" PRId64 " of which could be anything\n",
                  test_driver.total.programs, test_driver.total.tally.steps, test_driver.total.tally.tensors,
                  test_driver.total.tally.elements, test_driver.total.tally.unknown);
}

static bool read_file(program *p, const char *path)
{
    char why[100] = "cannot be opened";
    FILE *file = fopen(path, "r");
    bool read = file != NULL && program_read(p, file, why, sizeof(why));
    if (!read) {
        fprintf(stderr, "%s: %s\n", path, why);
    }
    if (file != NULL) {
        fclose(file);
    }
    return read;
}

/* Programs that failed once, made smaller: their cause has been mended. */
static void test_what_was_found(void **state)
{
    (void)state;
    static program p;
    for (int i = 0; i < num_found; i++) {
        char *log = NULL;
        assert_true(read_file(&p, found_files[i]));
        if (run_alone(&test_driver, &p, 60, &log) != PASSED) {
            fail_msg("%s: %s", found_files[i], log);
        }
        free(log);
    }
    print_message("# %d programs\n", num_found);
}

/* Broken files are refused, by the reader or by the evaluation. */
static void test_broken_files(void **state)
{
    (void)state;
    static const char world[] = "world seed 1 processes 1 ranks 2\n", mesh[] = "mesh 1 of 0 0 0 shape 2 ranks 0 1\n",
                      given[] = "from_local out 0 whole 1 0 type 0 shape 4 mesh 0 placements S0 salt 3\n";
    static const char *const broken[] = {
        "from_local out 0 whole 1 0 type 0 shape 4 mesh 1 placements S0\n", /* no such mesh */
        "from_local out 0 whole 1 0 type 0 shape 4 mesh 0 placements S1\n", /* no such dimension */
        "from_local out 200 whole 1 0 type 0 shape 4 mesh 0 placements R\n",
        "add in 0 out 1\n",   "add in 0 7 out 1\n", "add in 0 0\n",   "add in 0 0 out 1 2\n", "add in 0 0 out -1\n",
        "add in -5 0 out 1\n", "leaf\n",             "leaf in -1\n",   "backward\n",           "tensor_release\n",
        "sum in 0 out 1\n",   "nothing in 0 out 1\n", "add in 0 0 out 1 salt\n add in 1 1\n",
        "mesh 3 of 5 0 0 shape 2 ranks 0 1\n", "mesh 1 of 0 0 0 shape 2 ranks 0 0\n", "mesh 1 of 0 0 0 shape 2 ranks 0 9\n",
    };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        char text[500], why[100];
        static program p;
        evaluation e;
        snprintf(text, sizeof(text), "%s%s%s%s", world, mesh, given, broken[i]);
        FILE *file = fmemopen(text, strlen(text), "r");
        bool valid = program_read(&p, file, why, sizeof(why));
        fclose(file);
        if (valid) {
            valid = evaluate(&e, &p);
            evaluation_end(&e);
        }
        if (valid) {
            fail_msg("this is no program: %s", broken[i]);
        }
    }
}

/* Programs as C, which this build has compiled: they compare their own values. */
static void test_printed_programs(void **state)
{
    (void)state;
    for (int i = 0; i < num_printed; i++) {
        char command[1000];
        snprintf(command, sizeof(command), "'%s'", printed[i]);
        if (system(command) != 0) {
            fail_msg("%s failed", printed[i]);
        }
    }
    print_message("# %d programs\n", num_printed);
}

/* ---- nothing is left out ------------------------------------------------------------------------------- */

/* Operations that random programs without gradients do not reach, or need luck to: a ring of attention needs q, k and v sharded alike;
 * the gradient of a norm and the second derivative of max_pool, which tests/autograd/test_gradients.c compares; and running statistics. */
static const char *const reached_seldom[] = { "attention_state", "attention_finish", "max_pool_pick", "norm_share",
                                              "running_average",
                                              /* of matrices that are not singular, which programs do not know: ops/test_ops_linalg.c */
                                              "cholesky", "cholesky_panel", "cholesky_update", "cholesky_solve", "triangular_solve", "lu_factor", "lu_panel",
                                              "lu_update", "lu_exchange", "qr_panel", "qr_update", "row_order", "lu", "lu_solve", "solve",
                                              "solve_vector", "inverse", "cofactors", "lu_det", "lu_slogdet", "det", "slogdet", "qr",
                                              "eigh", "eig", "svd", "pinv", "lstsq", "matrix_power", "matrix_exp", "matrix_rank", "cond",
                                              /* only one input has a gradient: oracle, autograd/test_gradients.c */
                                              "zeta",
                                              /* ops/test_optimizer_kinds.c, on random layouts as well */
                                              "optimizer_1", "optimizer_2", "optimizer_3", "optimizer_all", NULL };

static bool is_listed(const char *const names[], const char *name)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_called(const char *name)
{
    const operation *row;
    size_t length = strlen(name);
    for (int i = 0; operation_at(i, &row); i++) {
        const char *found = strstr(row->text, name);
        if (found != NULL && found[length] == '(') {
            return true;
        }
    }
    return false;
}

/* Derivatives that no function of the library computes by themselves: tests/autograd/test_gradients.c compares them. */
static bool is_for_gradients_alone(const weft_operation *of)
{
    static const char ending[] = "_backward";
    char function[80];
    size_t length = strlen(of->name);
    snprintf(function, sizeof(function), "weft_%s", of->name);
    return length >= strlen(ending) && strcmp(of->name + length - strlen(ending), ending) == 0 &&
           !is_called(function);
}

/* Each row was called, and each of the library's operations was dispatched. */
static void test_everything_was_called(void **state)
{
    (void)state;
    const operation *row;
    int missing = 0, k = 0;
    if (test_driver.total.programs < (int64_t)test_count) {
        skip(); /* one failed, and there were no more */
    }
    for (int i = 0; operation_at(i, &row); i++) {
        if (test_driver.total.calls[i] == 0 && !(row->flags & OF_GRADIENTS)) {
            print_error("no program called %s\n", row->name);
            missing++;
        }
    }
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t i = 0; weft_operation_families[f][i] != NULL; i++, k++) {
            const weft_operation *of = weft_operation_families[f][i];
            const char *name = of->name;
            assert_true(k < MAX_REGISTERED);
            if (test_driver.total.dispatched[k] == 0 && !is_listed(reached_seldom, name) &&
                !is_for_gradients_alone(of)) {
                print_error("no program reached the operation %s (number %d)\n", name, k);
                missing++;
            }
        }
    }
    assert_int_equal(missing, 0);
}

/* Public functions that make or change no tensor, and some that all programs call (run.c, worker.c). */
static const char *const not_in_the_table[] = {
    "weft_zeta", "weft_optimizer_options_init", "weft_optimizer_states", "weft_optimizer_step",
    "weft_dtype_name", "weft_dtype_size", "weft_status_string", "weft_shard", "weft_replicate",
    "weft_partial", "weft_shard_balanced", "weft_shard_sizes", "weft_placement_sizes", "weft_placements_parse", "weft_init", "weft_init_communicator", "weft_init_mpi_fortran", "weft_finalize",
    "weft_random_normal", "weft_random_normal_f32",
    "weft_last_status", "weft_last_error", "weft_clear_error", "weft_world_size", "weft_pause", "weft_test", "weft_tensor_test", "weft_resume", "weft_num_processes",
    "weft_process_index", "weft_local_ranks", "weft_first_rank", "weft_get_counters", "weft_print_machine",
    "weft_checkpoint_save", "weft_checkpoint_save_async", "weft_checkpoint_test",
    "weft_checkpoint_wait", "weft_checkpoint_load", "weft_checkpoint_open", "weft_checkpoint_close",
    "weft_checkpoint_num_tensors", "weft_checkpoint_index", "weft_checkpoint_tensor", "weft_checkpoint_tensor_file",
    "weft_checkpoint_metadata",
    "weft_tensor_write_items", "weft_tensor_chunks", "weft_tensor_shard_at", "weft_hdf5_save", "weft_hdf5_save_ex", "weft_hdf5_load",
    "weft_zarr_save", "weft_zarr_load",
    "weft_checkpoint_num_keys", "weft_checkpoint_key", "weft_checkpoint_random_states",
    "weft_set_requires_grad", "weft_requires_grad", "weft_is_leaf", "weft_grad", "weft_zero_grad", "weft_backward",
    "weft_backward", "weft_gradients", "weft_detach", "weft_no_grad_begin", "weft_no_grad_end",
    "weft_set_grad_placements", "weft_set_grad_hook", "weft_set_regather", "weft_recompute", "weft_custom_gradient", "weft_save_for_backward", "weft_here", "weft_graph_create", "weft_graph_call", "weft_graph_destroy", "weft_graph_get_info", "weft_graph_print",
    "weft_graph_set_passes", "weft_graph_save", "weft_scale_loss", "weft_unscale_gradients", "weft_autocast_begin",
    "weft_graph_freeze", "weft_graph_predict", "weft_graph_donate", "weft_graph_opaque",
    "weft_graph_shard", "weft_graph_get_placements", "weft_graph_get_shard_info",
    "weft_graph_require", "weft_graph_omit_requirements", "weft_graph_derive_numbers", "weft_graph_test", "weft_graph_size",
    "weft_autocast_end", "weft_autocast_dtype", "weft_autocast_print",
    "weft_fake", "weft_fake_like", "weft_tensor_is_fake", "weft_print_pending",
    "weft_tensor_print_text", "weft_version", "weft_build_info",
    "weft_placements_format", "weft_tensor_shape", "weft_tensor_num_elements",
    "weft_mesh_ranks", "weft_mesh_names", "weft_mesh_create", "weft_mesh_of_ranks", "weft_mesh_flatten",
    "weft_mesh_slice", "weft_local_map", "weft_tensor_flatten", "weft_tensor_unflatten", "weft_from_local_ex", "weft_from_dlpack", "weft_from_dlpack_unversioned", "weft_to_dlpack",
    "weft_to_dlpack_unversioned", "weft_from_boxes", "weft_to_boxes", "weft_from_scalapack", "weft_scalapack_descriptor", "weft_fixed_boxes_begin", "weft_fixed_boxes_end", "weft_from_ghosted", "weft_halo_exchange", "weft_index_list_create", "weft_index_list_destroy", "weft_index_list_count",
    "weft_index_list_placements", "weft_index_list_gather", "weft_index_list_scatter_add",
    "weft_sparse_create_csr", "weft_sparse_create_coo", "weft_sparse_destroy", "weft_sparse_nnz", "weft_sparse_placements", "weft_sparse_matmul",
    "weft_sparse_to_dense", "weft_mesh_submesh", "weft_mesh_unflatten",
    "weft_visualize_sharding", "weft_mesh_ndim", "weft_mesh_size", "weft_mesh_num_ranks",
    "weft_mesh_dim_name", "weft_mesh_coordinate", "weft_mesh_current", "weft_shard_box", "weft_to_host", "weft_to_host_on",
    "weft_local_to_host", "weft_local_acquire", "weft_local_release", "weft_local_box", "weft_local_runs", "weft_local_bytes",
    "weft_tensor_bytes", "weft_tensor_describe", "weft_tensor_ndim", "weft_tensor_size",
    "weft_tensor_dtype", "weft_tensor_mesh", "weft_tensor_placements", "weft_random_state_create",
    "weft_random_state_get", "weft_random_state_current", "weft_random_states", "weft_region_begin",
    "weft_region_end", "weft_region_counts", "weft_print_regions",
    "weft_explain_begin", "weft_explain_end", "weft_explain",
    /* Matrices must not be singular. */
    "weft_cholesky", "weft_cholesky_solve", "weft_triangular_solve", "weft_solve", "weft_inverse", "weft_det", "weft_slogdet", "weft_qr",
    "weft_qr_complete",
    "weft_lu_factor", "weft_lu_solve", "weft_lu",
    "weft_eigh", "weft_svd", "weft_pinv", "weft_lstsq", "weft_matrix_power", "weft_matrix_exp",
    "weft_eig", "weft_matrix_rank", "weft_cond",
    /* Modules make no tensors but by the functions that they are given. */
    "weft_module_create", "weft_module_destroy", "weft_module_add_child", "weft_module_add_parameter", "weft_module_add_buffer",
    "weft_module_set_tensor", "weft_module_parameter", "weft_module_buffer", "weft_module_use", "weft_module_child",
    "weft_module_parameters", "weft_module_buffers", "weft_module_modules", "weft_module_type", "weft_module_name",
    "weft_module_mesh", "weft_module_print", "weft_module_set_forward", "weft_module_context",
    "weft_module_forward", "weft_module_call", "weft_module_add_hook", "weft_distribute_module", "weft_module_materialize", "weft_module_place",
    "weft_module_set_use", "weft_parallelize",
    /* Programs have no operations of their own, and their tensors of several elements are on one mesh. */
    "weft_operation_register", "weft_operation_replace", "weft_operation_restore",
    "weft_apply", "weft_apply_all", "weft_implicit_replication",
    "weft_implicit_replication_begin", "weft_implicit_replication_end", NULL
};

/* Every public function is in the table, or is listed. */
static void test_every_function_is_in_the_table(void **state)
{
    (void)state;
    static char text[1 << 17];
    int functions = 0, missing = 0;
    for (int h = 0; h < num_headers; h++) {
        FILE *file = fopen(headers[h], "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        for (const char *at = text; (at = strstr(at, "\nWEFT_API ")) != NULL; at++) {
            const char *name = at + strcspn(at, "("), *end = name;
            while (name > at && name[-1] != ' ' && name[-1] != '*' && name[-1] != '\n') {
                name--;
            }
            char copy[80];
            snprintf(copy, sizeof(copy), "%.*s", (int)(end - name), name);
            functions++;
            if (!is_called(copy) && !is_listed(not_in_the_table, copy)) {
                print_error("no row calls %s()\n", copy);
                missing++;
            }
        }
    }
    assert_true(functions > 250);
    assert_int_equal(missing, 0);
}

static int run_as_test(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_what_was_found),
        cmocka_unit_test(test_printed_programs),
        cmocka_unit_test(test_every_function_is_in_the_table),
        cmocka_unit_test(test_everything_was_called),
    };
    /* Few programs, or those on several processes, do not call everything. */
    size_t all = sizeof(tests) / sizeof(tests[0]), some = test_share() > 1 ? all - 1 : all;
    return _cmocka_run_group_tests("programs", tests, num_headers > 0 ? some : 1, NULL, NULL);
}

/* ---- options ------------------------------------------------------------------------------------------- */

typedef struct given_options {
    order order;
    bool worker, one, print, text;
    uint64_t seed;
    int seconds;
} given_options;

static void read_options(int count, char *arguments[], given_options *o)
{
    static const struct option known[] = {
        { "worker", no_argument, NULL, 'w' },
        { "page", required_argument, NULL, 'p' },
        { "file", required_argument, NULL, 'f' },
        { "only", required_argument, NULL, 'o' },
        { "processes", required_argument, NULL, 'n' },
        { "from", required_argument, NULL, 'a' },
        { "count", required_argument, NULL, 'c' },
        { "seconds", required_argument, NULL, 's' },
        { "endless", no_argument, NULL, 'e' },
        { "seed", required_argument, NULL, 'i' },
        { "gradients", no_argument, NULL, 'g' },
        { "no-gradients", no_argument, NULL, 'G' },
        { "graphs", no_argument, NULL, 'r' },
        { "no-graphs", no_argument, NULL, 'R' },
        { "repeated", no_argument, NULL, 'l' },
        { "not-repeated", no_argument, NULL, 'L' },
        { "print", no_argument, NULL, 'P' },
        { "text", no_argument, NULL, 'T' },
        { "shrink", required_argument, NULL, 'S' },
        { NULL, 0, NULL, 0 },
    };
    for (int c; (c = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        switch (c) {
        case 'w':
            o->worker = true;
            break;
        case 'p':
            o->order.page = optarg;
            break;
        case 'f':
            o->order.file = optarg;
            break;
        case 'o':
            o->order.only = optarg;
            break;
        case 'n':
            o->order.processes = atoi(optarg);
            break;
        case 'a':
            o->order.from = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            o->order.count = strtoull(optarg, NULL, 10);
            break;
        case 's':
            o->seconds = atoi(optarg);
            break;
        case 'e':
            o->order.count = 0;
            break;
        case 'i':
            o->one = true;
            o->seed = strtoull(optarg, NULL, 10);
            break;
        case 'S':
            test_driver.shrink_seconds = atoi(optarg);
            break;
        case 'g':
        case 'G':
            o->order.gradients = c == 'g';
            break;
        case 'r':
        case 'R':
            o->order.graphs = c == 'r';
            break;
        case 'l':
        case 'L':
            o->order.repeated = c == 'l';
            break;
        case 'P':
            o->print = true;
            break;
        case 'T':
            o->text = true;
            break;
        default:
            exit(2);
        }
    }
}

/* One program: printed, or run, and made smaller. */
static int run_one(driver *d, const given_options *o)
{
    static program p;
    if (o->order.file == NULL) {
        choose_world(&p, o->seed, d->processes);
        p.gradients = d->gradients;
        p.graphs = d->graphs;
        p.repeated = d->repeated;
        generate(&p, d->only);
    } else if (!read_file(&p, o->order.file)) {
        return 2;
    }
    if (o->print) {
        print_program(&p, stdout);
        return 0;
    }
    if (o->text) {
        program_write(&p, stdout);
        return 0;
    }
    char *log = NULL;
    outcome result = run_alone(d, &p, 60, &log);
    printf("%s%s\n", log, result == PASSED ? "passed" : "failed");
    free(log);
    if (result != PASSED && o->order.file == NULL) {
        shrink(d, &p, result);
        report(d, &p);
    }
    return result != PASSED;
}

int main(int count, char *arguments[])
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* Before mpirun is started, and by hand as well. */
    setenv("STARPU_SILENT", "1", 0);
    setenv("WEFT_CALIBRATE", "off", 0);
    setenv("STARPU_WORKERS_NOBIND", "1", 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    given_options o = { .order = { .processes = 1, .count = 1000, .from = FIRST_SEED } };
    bool as_test = count > 1 && arguments[1][0] != '-';
    if (!as_test) {
        read_options(count, arguments, &o);
    }
    if (o.worker) {
        return worker(&o.order);
    }
    test_driver.self = arguments[0];
    test_driver.only = o.order.only;
    test_driver.gradients = o.order.gradients;
    test_driver.graphs = o.order.graphs;
    test_driver.repeated = o.order.repeated;
    if (as_test && strcmp(arguments[1], "graphs") == 0) {
        test_driver.graphs = true;
        arguments++;
        count--;
    }
    if (as_test && strcmp(arguments[1], "repeated") == 0) {
        test_driver.repeated = true;
        arguments++;
        count--;
    }
    if (as_test && strcmp(arguments[1], "gradients") == 0) {
        test_driver.gradients = true;
        arguments++;
        count--;
    }
    if (as_test) {
        test_count = (uint64_t)share_of(atoi(arguments[1]));
        test_driver.processes = count > 2 ? atoi(arguments[2]) : 1;
        for (int i = 3; i < count && i < 64; i++) {
            const char *ending = strrchr(arguments[i], '.');
            if (ending != NULL && strcmp(ending, ".txt") == 0) {
                found_files[num_found++] = arguments[i];
            } else if (ending != NULL && strcmp(ending, ".h") == 0) {
                headers[num_headers++] = arguments[i];
            } else {
                printed[num_printed++] = arguments[i];
            }
        }
        return run_as_test();
    }
    test_driver.processes = o.order.processes;
    test_driver.verbose = true;
    if (o.one || o.order.file != NULL) {
        return run_one(&test_driver, &o);
    }
    bool passed = drive(&test_driver, o.order.from, o.order.count, o.seconds);
    printf("%" PRId64 " programs %s\n", test_driver.total.programs,
           passed ? "passed" : "and then one that failed");
    return !passed;
}
