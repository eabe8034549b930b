#include "every_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "every_call_try.h"
#include "managed.h"
#include "ops/backward.h"

static void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

static weft_status no_graph(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_neg(inputs[0]);
    return WEFT_OK;
}

static weft_status no_opaque(void *context, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    (void)context;
    outputs[0] = inputs[0];
    return WEFT_OK;
}

static weft_status no_segment(void *context, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                              weft_tensor *outputs[])
{
    (void)context, (void)num_inputs, (void)num_outputs;
    outputs[0] = inputs[0];
    return WEFT_OK;
}

static weft_status no_custom_backward(void *context, const weft_custom_request *request, weft_tensor *gradients[])
{
    (void)context, (void)request, (void)gradients;
    return WEFT_OK;
}

static void no_local_function(const weft_local_call *call)
{
    (void)call;
}

static weft_status pass_on(weft_module *module, int num_inputs, weft_tensor *const inputs[], int num_outputs,
                           weft_tensor *outputs[], void *context)
{
    (void)module;
    (void)context;
    for (int i = 0; i < num_outputs && i < num_inputs; i++) {
        outputs[i] = inputs[i];
    }
    return WEFT_OK;
}

static weft_status no_hook(weft_module *module, weft_mesh *mesh, int num_tensors, weft_tensor *tensors[], void *context)
{
    (void)module, (void)mesh, (void)num_tensors, (void)tensors, (void)context;
    return WEFT_OK;
}

enum { MOST_RANKS = 64 };

weft_index_list *list_for_calls(weft_mesh *mesh)
{
    static const int64_t rows[] = { 0, 1 };
    const weft_placement by_rows = weft_shard(0);
    int64_t counts[MOST_RANKS] = { 0 }, first = 0;
    for (int i = weft_local_ranks() - 1; i >= 0; i--) {
        int64_t place = 2;
        weft_mesh_coordinate(mesh, weft_first_rank() + i, &place);
        counts[i] = weft_mesh_size(mesh, 0) == 1 && place == 0 ? 2 : place < 2;
        first = counts[i] > 0 ? place : first;
    }
    return weft_index_list_create(2, mesh, &by_rows, counts, &rows[first]);
}

weft_sparse *sparse_for_calls(weft_mesh *mesh)
{
    static const int64_t offsets[] = { 0, 1, 2 };
    const weft_placement by_rows = weft_shard(0);
    const void *begin[MOST_RANKS], *columns[MOST_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t place = 0;
        weft_mesh_coordinate(mesh, weft_first_rank() + i, &place);
        begin[i] = offsets;
        columns[i] = &offsets[place < 2 ? place : 0];
    }
    return weft_sparse_create_csr(2, 2, mesh, &by_rows, NULL, WEFT_I64, begin, columns);
}

weft_tensor *ghosted_for_calls(weft_mesh *mesh)
{
    static float arrays[MOST_RANKS][8];
    void *locals[MOST_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = arrays[i];
    }
    return weft_from_ghosted(WEFT_F32, 2, (int64_t[]){ 2, 2 }, locals, &(weft_ghosts){ .before = { 1 }, .after = { 1 } }, mesh, NULL);
}

/* clang-format off */
void call_all_wanted(const call_arguments *arguments, bool (*wanted)(const char *function),
                     void (*after)(row_place row, const char *function, void *argument), void *argument)
{
    weft_mesh *mesh = arguments->mesh;
    weft_tensor *tensor = arguments->tensor, *truth = arguments->truth, *scalar = arguments->scalar;
    const weft_operation *operation = arguments->operation;
    weft_tensor *const scalars[] = { scalar }, *const list[] = { tensor };
    weft_tensor *other = NULL, *outputs[4] = { NULL };
    const int64_t shape[] = { 2, 2, 1, 1 }, ones[] = { 1, 1, 1, 1 };
    int64_t place[WEFT_MAX_DIMS];
    double memory[16] = { 0 }, number = 0;
    void *locals[] = { memory, memory, memory, memory };
    /* Without a deleter; one for each hosted rank. */
    int64_t sizes[] = { 2, 2 };
    struct DLManagedTensor managed[4];
    struct DLManagedTensorVersioned versioned[4];
    struct DLManagedTensor *older_tensors[4];
    struct DLManagedTensorVersioned *managed_tensors[4];
    for (int i = 0; i < 4; i++) {
        managed[i] = (struct DLManagedTensor){
            .tensor = { .data = memory, .device = { ON_CPU, 0 }, .ndim = 2, .dtype = { 2, 32, 1 }, .shape = sizes }
        };
        versioned[i] = (struct DLManagedTensorVersioned){ .version = { 1, 0 }, .tensor = managed[i].tensor };
        older_tensors[i] = &managed[i];
        managed_tensors[i] = &versioned[i];
    }
    int descriptor[] = { 1, 0, 2, 2, 1, 1, 0, 0, 2 };
    bool truth_value = false;
    const char *names[WEFT_MAX_DIMS], *const names_of_list[] = { "name" };
    const int64_t origin[] = { 0, 0 };
    weft_checkpoint_chunk chunk;
    char text[64];
    int ranks[64];
    weft_counters counters;
    weft_loss_scaler scaler = WEFT_LOSS_SCALER_DEFAULT;
    const weft_placement *placements = weft_tensor_placements(tensor); /* NULL: it is none, or may not be asked for */
    weft_module *module = weft_module_create("type"), *other_module = weft_module_create("type");
    weft_module *third_module = weft_module_create("type"), *modules[2];
    static const int64_t no_counts[MOST_RANKS] = { 0 };
    static const void *const no_rows[MOST_RANKS] = { NULL };
    const weft_placement by_rows = weft_shard(0);
    weft_graph *graph = weft_graph_create("graph", no_graph, NULL, 1, 0, 1);
    weft_graph_info graph_info;
    weft_graph_shard_info graph_shard_info;
    weft_prediction prediction;
    const weft_parallel plan = { "", WEFT_PARALLEL_DATA, NULL };
    weft_clear_error();
    weft_tensor_layout layout = { WEFT_F32, 2, { 2, 2 }, mesh, { placements == NULL ? weft_replicate() : placements[0] } };
    weft_tensor_shard shards[64];
    for (int i = 0; i < 64; i++) {
        shards[i] = (weft_tensor_shard){ tensor, i };
    }
    weft_random_state random_state = { 0 };
    const weft_local_output like_tensor = { WEFT_F32, 2, shape, NULL };
    const weft_operation_description description = {
        .name = "own", .rule = "ab->ab", .inputs = { { "a", WEFT_TYPES_FLOAT, false } }, .kernel = no_kernel
    };
    /* <weft/runtime.h> */
    TRY(weft_wait, ); TRY(weft_test, &truth_value); TRY(weft_tensor_test, tensor, &truth_value);
    TRY(weft_world_size, );
    TRY(weft_first_rank, ); TRY(weft_local_ranks, );
    TRY(weft_pause, ); TRY(weft_resume, );
    TRY(weft_num_processes, ); TRY(weft_process_index, );
    TRY(weft_scope_begin, ); TRY(weft_scope_end, );
    TRY(weft_get_counters, &counters, sizeof(counters));
    TRY(weft_print_machine, stderr);
    /* <weft/regions.h> */
    TRY(weft_region_begin, "name", WEFT_REGION_STRICT); TRY(weft_region_end, );
    TRY(weft_region_counts, 0, NULL);
    TRY(weft_print_regions, stderr);
    TRY(weft_explain_begin, ); TRY(weft_explain_end, );
    TRY(weft_explain, stderr);
    /* <weft/checkpoint.h>: no file can be there */
    TRY(weft_checkpoint_save, "/dev/null/file", 1, names_of_list, list, NULL);
    TRY(weft_checkpoint_save_async, "/dev/null/file", 1, names_of_list, list, NULL);
    TRY(weft_checkpoint_test, NULL, &truth_value);
    TRY(weft_checkpoint_wait, NULL);
    TRY(weft_checkpoint_load, "/dev/null/file", 1, names_of_list, list);
    TRY(weft_checkpoint_open, "/dev/null/file");
    TRY(weft_checkpoint_close, NULL);
    TRY(weft_checkpoint_num_tensors, NULL);
    TRY(weft_checkpoint_index, NULL, "name");
    TRY(weft_checkpoint_tensor, NULL, 0, NULL);
    TRY(weft_checkpoint_tensor_file, NULL, 0);
    TRY(weft_checkpoint_metadata, NULL, "key");
    TRY(weft_checkpoint_num_keys, NULL);
    TRY(weft_checkpoint_key, NULL, 0, NULL, NULL);
    TRY(weft_checkpoint_random_states, NULL);
    TRY(weft_tensor_write_items, tensor, 0, NULL);
    TRY(weft_tensor_chunks, tensor, 0, NULL);
    TRY(weft_tensor_shard_at, tensor, origin, &chunk);
    TRY(weft_hdf5_save, "/dev/null/file", 1, names_of_list, list);
    TRY(weft_hdf5_save_ex, "/dev/null/file", 1, names_of_list, list, NULL);
    TRY(weft_hdf5_load, "/dev/null/file", 1, names_of_list, list);
    TRY(weft_zarr_save, "/dev/null/file", 1, names_of_list, list, NULL);
    TRY(weft_zarr_load, "/dev/null/file", 1, names_of_list, list);
    /* <weft/mesh.h> */
    TRY(weft_mesh_create, 2, ones, NULL);
    TRY(weft_mesh_of_ranks, 2, ones, (int[]){ 0 }, NULL);
    TRY(weft_mesh_slice, mesh, "name");
    TRY(weft_mesh_submesh, mesh, 1, (const char *const[]){ "name" }, 0);
    TRY(weft_mesh_flatten, mesh, 0, 0, "name");
    TRY(weft_mesh_unflatten, mesh, 0, 1, &arguments->mesh_size, NULL);
    TRY(weft_mesh_ndim, mesh);
    TRY(weft_mesh_size, mesh, 0);
    TRY(weft_mesh_dim_name, mesh, 0);
    TRY(weft_mesh_num_ranks, mesh);
    TRY(weft_mesh_ranks, mesh, ranks);
    TRY(weft_mesh_names, mesh, names);
    TRY(weft_mesh_coordinate, mesh, 0, place);
    TRY(weft_mesh_push, mesh); TRY(weft_mesh_pop, );
    TRY(weft_mesh_current, );
    TRY(weft_shard_box, mesh, NULL, 2, shape, 0, place, place);
    /* <weft/module.h> */
    TRY(weft_module_create, "type");
    TRY(weft_module_add_child, module, "child", other_module);
    TRY(weft_module_add_parameter, module, "weight", NULL);
    TRY(weft_module_add_buffer, module, "buffer", tensor);
    TRY(weft_module_set_tensor, module, "buffer", tensor);
    TRY(weft_module_parameter, module, "weight");
    TRY(weft_module_buffer, module, "buffer");
    TRY(weft_module_use, module, "buffer");
    TRY(weft_module_child, module, "child");
    TRY(weft_module_parameters, module, 4, names, outputs);
    TRY(weft_module_buffers, module, 4, names, outputs);
    TRY(weft_module_modules, module, 2, names, modules);
    TRY(weft_module_type, module);
    TRY(weft_module_name, module);
    TRY(weft_module_mesh, module);
    TRY(weft_module_print, module, stderr);
    TRY(weft_module_set_forward, module, pass_on, NULL);
    TRY(weft_module_context, module);
    TRY(weft_module_forward, module, 0, NULL, 0, NULL);
    TRY(weft_module_call, module, tensor);
    TRY(weft_module_add_hook, module, WEFT_BEFORE_FORWARD, no_hook, NULL);
    TRY(weft_module_place, module, "weight", mesh, NULL);
    TRY(weft_module_set_use, module, "weight", NULL);
    TRY(weft_distribute_module, module, mesh, NULL, NULL, NULL, NULL);
    TRY(weft_parallelize, third_module, mesh, 1, &plan);
    TRY(weft_module_materialize, module);
    TRY(weft_module_destroy, module);
    /* <weft/tensor.h> */
    TRY(weft_tensor_retain, tensor);
    TRY(weft_tensor_release, tensor);
    TRY(weft_scope_keep, tensor);
    TRY(weft_empty, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_zeros, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_ones, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_arange, WEFT_F32, 0, 3, 1, mesh, NULL);
    TRY(weft_linspace, WEFT_F32, 0, 1, 3, mesh, NULL);
    TRY(weft_eye, WEFT_F32, 2, 3, mesh, NULL);
    TRY(weft_fftfreq, WEFT_F32, 4, 0.5, mesh, NULL);
    TRY(weft_rfftfreq, WEFT_F32, 4, 0.5, mesh, NULL);
    TRY(weft_full, WEFT_F32, 0.5, 2, shape, mesh, NULL);
    TRY(weft_empty_like, tensor);
    TRY(weft_zeros_like, tensor);
    TRY(weft_ones_like, tensor);
    TRY(weft_full_like, tensor, 0.5);
    TRY(weft_fake, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_set_requires_grad, scalar, true);
    TRY(weft_requires_grad, scalar); TRY(weft_is_leaf, scalar);
    TRY(weft_set_grad_placements, scalar, NULL);
    TRY(weft_set_grad_hook, scalar, NULL, NULL);
    TRY(weft_set_regather, scalar, false);
    TRY(weft_backward, scalar, NULL);
    TRY(weft_gradients, 1, scalars, NULL, 1, scalars, false, outputs);
    TRY(weft_grad, scalar);
    TRY(weft_zero_grad, 1, scalars);
    TRY(weft_detach, scalar);
    TRY(weft_no_grad_begin, ); TRY(weft_no_grad_end, );
    TRY(weft_set_requires_grad, scalar, false);
    TRY(weft_scale_loss, &scaler, tensor);
    TRY(weft_unscale_gradients, &scaler, 1, list, &truth_value);
    TRY(weft_recompute, no_segment, NULL, 0, 1, list, 1, outputs);
    TRY(weft_custom_gradient, no_segment, no_custom_backward, NULL, 0, 1, list, 1, outputs);
    TRY(weft_save_for_backward, 1, list, NULL, 0);
    TRY(weft_here, NULL, 0);
    TRY(weft_graph_create, "graph", no_graph, NULL, 0, 0, 0);
    TRY(weft_graph_call, graph, list, NULL, outputs);
    TRY(weft_graph_get_info, graph, &graph_info, sizeof(graph_info));
    TRY(weft_graph_set_passes, graph, WEFT_PASS_ALL);
    TRY(weft_graph_print, graph, WEFT_GRAPH_RECORDED, stdout);
    TRY(weft_graph_save, graph, "/dev/null");
    TRY(weft_graph_freeze, graph, true);
    TRY(weft_graph_predict, graph, NULL, &prediction, sizeof(prediction));
    TRY(weft_graph_donate, graph, 0, true);
    TRY(weft_graph_require, graph, "i0.0 >= 0");
    TRY(weft_graph_derive_numbers, graph, NULL, NULL, 0);
    TRY(weft_graph_omit_requirements, graph, true);
    TRY(weft_graph_test, graph, "i0.0 >= 0", &truth_value);
    TRY(weft_graph_size, graph, "i0.0", &place[0]);
    TRY(weft_graph_opaque, "opaque", WEFT_OPAQUE_CALLED, no_opaque, NULL, 1, list, 1, outputs);
    TRY(weft_graph_shard, graph, NULL);
    TRY(weft_graph_get_placements, graph, tensor, layout.placements);
    TRY(weft_graph_get_shard_info, graph, &graph_shard_info, sizeof(graph_shard_info));
    TRY(weft_graph_destroy, graph);
    TRY(weft_autocast_begin, WEFT_BF16); TRY(weft_autocast_end, );
    TRY(weft_autocast_dtype, );
    TRY(weft_autocast_print, stdout);
    TRY(weft_fake_like, tensor);
    TRY(weft_tensor_is_fake, tensor);
    TRY(weft_distribute, WEFT_F32, 2, shape, memory, mesh, NULL);
    TRY(weft_from_local, WEFT_F32, 2, shape, locals, mesh, NULL, 0);
    TRY(weft_from_local_even, WEFT_F32, 2, shape, locals, mesh, NULL, 0);
    TRY(weft_from_scalapack, WEFT_F32, descriptor, locals, mesh, 0);
    TRY(weft_from_local_ex, WEFT_F32, 2, locals, mesh, NULL, &(weft_from_local_options){ .shape = shape });
    TRY(weft_from_dlpack, WEFT_F32, 2, shape, managed_tensors, mesh, NULL, 0);
    TRY(weft_from_dlpack_unversioned, WEFT_F32, 2, shape, older_tensors, mesh, NULL, 0);
    TRY(weft_to_dlpack, tensor, 0, 0); TRY(weft_to_dlpack_unversioned, tensor, 0, 0);
    TRY(weft_from_ghosted, WEFT_F32, 2, shape, locals, &(weft_ghosts){ .size = 0 }, mesh, NULL); TRY(weft_halo_exchange, arguments->ghosted);
    TRY(weft_from_boxes, WEFT_F32, 2, shape, weft_process_index() == 0, &(weft_subarray){ .box.extent = { shape[0], shape[1] }, .data = locals[0] }, mesh, NULL);
    TRY(weft_to_boxes, tensor, 0, NULL); TRY(weft_fixed_boxes_begin, ); TRY(weft_fixed_boxes_end, );
    TRY(weft_tensor_unflatten, shards, &layout, sizeof(layout));
    TRY(weft_tensor_flatten, tensor, shards, &layout, sizeof(layout));
    TRY(weft_redistribute, tensor, mesh, NULL);
    TRY(weft_to_host, tensor, memory, sizeof(memory)); TRY(weft_to_host_on, tensor, 0, memory, sizeof(memory));
    TRY(weft_tensor_item, tensor, &number);
    TRY(weft_local_to_host, tensor, 0, memory, sizeof(memory));
    TRY(weft_local_acquire, tensor, 0, WEFT_READ); TRY(weft_local_release, tensor, 0);
    TRY(weft_tensor_ndim, tensor);
    TRY(weft_tensor_size, tensor, 0);
    TRY(weft_tensor_shape, tensor);
    TRY(weft_tensor_num_elements, tensor);
    TRY(weft_tensor_dtype, tensor);
    TRY(weft_tensor_mesh, tensor);
    TRY(weft_tensor_placements, tensor);
    TRY(weft_local_box, tensor, 0, place, place);
    TRY(weft_local_runs, tensor, 0, 0, 0, NULL);
    TRY(weft_scalapack_descriptor, tensor, 0, 0, descriptor);
    TRY(weft_tensor_bytes, tensor);
    TRY(weft_local_bytes, tensor, 0);
    TRY(weft_tensor_set_name, tensor, "name");
    TRY(weft_tensor_print, tensor, stderr);
    TRY(weft_tensor_print_text, tensor, text, sizeof(text), NULL);
    TRY(weft_visualize_sharding, tensor, WEFT_SHARDING_TEXT, stderr);
    /* <weft/local_map.h> */
    TRY(weft_local_map, no_local_function, 1, list, 1, &like_tensor, NULL, outputs);
    /* <weft/index_list.h> */
    TRY(weft_index_list_create, 2, mesh, &by_rows, no_counts, NULL);
    TRY(weft_index_list_count, arguments->list);
    TRY(weft_index_list_placements, arguments->list, layout.placements);
    TRY(weft_index_list_gather, arguments->list, tensor);
    TRY(weft_index_list_scatter_add, arguments->list, tensor);
    /* <weft/sparse.h> */
    TRY(weft_sparse_create_csr, 0, 2, mesh, &by_rows, NULL, WEFT_I64, no_rows, no_rows);
    TRY(weft_sparse_create_coo, 2, 2, mesh, &by_rows, NULL, no_counts, NULL, NULL, NULL);
    TRY(weft_sparse_nnz, arguments->sparse);
    TRY(weft_sparse_placements, arguments->sparse, layout.placements);
    TRY(weft_sparse_matmul, arguments->sparse, arguments->line, tensor, false);
    TRY(weft_sparse_to_dense, arguments->sparse, arguments->line);
    /* <weft/operation.h> */
    TRY(weft_operation_register, &description);
    TRY(weft_operation_restore, "exp");
    TRY(weft_operation_replace, &(weft_operation_description){ .name = "exp", .rule = "...->..." });
    TRY(weft_apply, operation, 1, list, NULL);
    TRY(weft_apply_all, operation, 1, list, NULL, 1, outputs);
    /* <weft/random.h> */
    TRY(weft_random_seed, 0);
    TRY(weft_random_state_create, "name", 0);
    TRY(weft_random_state_use, "name");
    TRY(weft_random_state_current, );
    TRY(weft_random_state_get, "name", &random_state);
    TRY(weft_random_state_set, "name", random_state);
    TRY(weft_random_states, 1, names);
    TRY(weft_rand, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_randn, WEFT_F32, 2, shape, mesh, NULL);
    TRY(weft_rand_like, tensor);
    TRY(weft_randn_like, tensor);
    TRY(weft_randint, WEFT_I64, 0, 2, 2, shape, mesh, NULL);
    TRY(weft_randperm, 1, mesh, NULL);
    TRY(weft_bernoulli, tensor);
    TRY(weft_bernoulli_scalar, WEFT_F32, 0.5, 2, shape, mesh, NULL);
    TRY(weft_uniform_inplace, tensor, 0.5, 0.5);
    TRY(weft_normal_inplace, tensor, 0.5, 0.5);
    TRY(weft_dropout, tensor, 0.5, false, &other);
    TRY(weft_dropout2d, tensor, 0.5, false, &other);
    TRY(weft_dropout_backward, tensor, truth, 0.5, false);
    try_operations(arguments, wanted, after, argument);
    /* <weft/ops.h> */
    TRY(weft_implicit_replication_begin, ); TRY(weft_implicit_replication_end, );
    TRY(weft_implicit_replication, );
    /* The last, for where they do not fail. */
    TRY(weft_index_list_destroy, arguments->list);
    TRY(weft_sparse_destroy, arguments->sparse);
    TRY(weft_finalize, );
}

void call_everything(const call_arguments *arguments,
                     void (*after)(row_place row, const char *function, void *argument), void *argument)
{
    call_all_wanted(arguments, NULL, after, argument);
}
/* clang-format on */

/* ---- whether these are all ----------------------------------------------------------------------------- */

static void note(row_place row, const char *function, void *argument)
{
    (void)row;
    strcat(argument, function);
    strcat(argument, " ");
}

static bool has_name(const char *names, const char *name, size_t length)
{
    for (const char *found = strstr(names, name); found != NULL; found = strstr(found + 1, name)) {
        if ((found == names || found[-1] == ' ') && found[length] == ' ') {
            return true;
        }
    }
    return false;
}

/* The name after WEFT_API: the word before the first bracket. */
static void check_declaration(const char *text, const char *names)
{
    const char *end = strchr(text, '(');
    assert_non_null(end);
    const char *begin = end;
    while (begin > text && strchr(" *\n", begin[-1]) == NULL) {
        begin--;
    }
    char name[80];
    snprintf(name, sizeof(name), "%.*s", (int)(end - begin), begin);
    if (!has_name(names, name, strlen(name))) {
        fail_msg("%s() is not among the calls of every_call.c", name);
    }
}

void note_outcome(row_place row, const char *function, void *argument)
{
    (void)row;
    call_outcomes *outcomes = argument;
    outcomes->num_calls++;
    if (weft_last_status() != WEFT_OK && !outcomes->may_fail(function)) {
        size_t used = strlen(outcomes->failures);
        snprintf(outcomes->failures + used, sizeof(outcomes->failures) - used, "%s\n", weft_last_error());
        outcomes->num_failures++;
    }
    weft_clear_error();
}

void assert_no_failures(const call_outcomes *outcomes)
{
    if (outcomes->num_failures > 0) {
        fail_msg("%d of %d calls failed:\n%s", outcomes->num_failures, outcomes->num_calls, outcomes->failures);
    }
    assert_true(outcomes->num_calls > 250);
}

void assert_everything_is_called(int num_headers, char *const headers[])
{
    /* Functions that any thread may call at any time; and weft_init(). */
    static char names[1 << 14] = "weft_last_status weft_last_error weft_clear_error weft_print_pending "
                                 "weft_tensor_describe weft_version weft_build_info weft_placements_format "
                                 "weft_optimizer_options_init weft_optimizer_states "
                                 "weft_status_string weft_dtype_size weft_dtype_name weft_shard weft_replicate "
                                 "weft_partial weft_shard_balanced weft_shard_sizes weft_placement_sizes "
                                 "weft_placements_parse weft_init weft_init_communicator "
                                 "weft_init_mpi_fortran weft_random_normal weft_random_normal_f32 ";
    call_everything(&(call_arguments){ 0 }, note, names);
    weft_clear_error();
    int declared = 0;
    for (int i = 0; i < num_headers; i++) {
        static char text[1 << 16];
        FILE *file = fopen(headers[i], "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        for (const char *found = strstr(text, "\nWEFT_API "); found != NULL;
             found = strstr(found + 1, "\nWEFT_API ")) {
            check_declaration(found + 1, names);
            declared++;
        }
    }
    assert_true(declared > 250);
}
