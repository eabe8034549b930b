/* Public calls as values: interposers, execution again, on other tensors and on tensors without data;
 * expansions of composites. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "every_call.h"

static call_arguments things;

static weft_tensor *make(weft_dtype dtype, int ndim, weft_placement placement)
{
    const int64_t shape[] = { 2, 2 };
    weft_tensor *tensor = dtype == WEFT_F32 ? weft_rand(dtype, ndim, shape, things.mesh, &placement)
                                            : weft_zeros(dtype, ndim, shape, things.mesh, &placement);
    assert_non_null(tensor);
    return tensor;
}

static void no_kernel(const weft_kernel_call *call)
{
    (void)call;
}

static void start(int ranks, weft_placement placement)
{
    const int64_t size = ranks;
    WORLD(ranks, .world = WEFT_WORLD_SELF);
    things.mesh = weft_mesh_create(1, &size, NULL);
    things.tensor = make(WEFT_F32, 2, placement);
    things.indices = make(WEFT_I64, 1, weft_replicate());
    things.truth = make(WEFT_BOOL, 2, placement);
    things.pairs = make(WEFT_C64, 2, placement);
    things.regular = weft_eye(WEFT_F32, 2, 2, things.mesh, &placement);
    const weft_operation_description description = {
        .name = "given", .rule = "ab->ab", .inputs = { { "a", WEFT_TYPES_FLOAT, false } }, .kernel = no_kernel
    };
    things.operation = weft_operation_register(&description);
    things.list = list_for_calls(things.mesh);
    things.sparse = sparse_for_calls(things.mesh);
    things.ghosted = ghosted_for_calls(things.mesh);
    assert_no_error();
}

static void stop(void)
{
    weft_clear_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- an interposer that checks what it sees ------------------------------------------------------------- */

enum { MAX_OUTPUTS = 128 };

typedef struct listener {
    weft_interposer interposer;
    int begun, ended;     /* since the last public function returned */
    int told, run_again;  /* functions that were told; calls that were carried out again */
    weft_status status;   /* of the last call */
    char function[64];
    weft_tensor *changed[MAX_OUTPUTS]; /* copies of the inputs that the call changes; NULL: it changes none */
    weft_random_state state;
    weft_tensor *fakes[MAX_OUTPUTS]; /* the outputs on tensors without data, where accepted */
    bool accepted;
} listener;

/* Their values have no meaning, or are the program's, or the call ends what it is about. */
static bool can_run_again(const weft_call *call)
{
    static const char *const not[] = { "empty",       "new",           "local_acquire", "local_release",
                                       "retain",      "release",       "scope_open",    "scope_close",
                                       "scope_keep",  "random_state_create", "local_map", "tensor_flatten",
                                       "checkpoint_save" };
    const char *name = call->operation->name;
    for (size_t i = 0; i < sizeof(not) / sizeof(not[0]); i++) {
        if (strcmp(name, not[i]) == 0) {
            return false;
        }
    }
    /* A program's own, whose kernel here writes nothing; nor does the local function above. */
    return strcmp(name, "given") != 0;
}

/* Input `input` of a copy. */
static void set_input(weft_call *copy, int input, weft_tensor *tensor)
{
    if (input < copy->num_inputs) {
        copy->inputs[input] = tensor;
    } else {
        memcpy((void *)(copy->details->tensors + input - copy->num_inputs), &tensor, sizeof(tensor));
    }
}

/* The call on inputs of the same layouts without data. */
static void call_on_fakes(listener *l, const weft_call *call)
{
    size_t bytes;
    weft_call *copy = weft_call_copy(call, &bytes);
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        set_input(copy, i, weft_fake_like(weft_call_tensor(call, i)));
    }
    weft_counters before, after;
    weft_get_counters(&before, sizeof(before));
    memset(l->fakes, 0, sizeof(l->fakes));
    l->accepted = weft_invoke(copy, l->fakes) == WEFT_OK;
    weft_get_counters(&after, sizeof(after));
    if (before.tasks != after.tasks ||
        before.buffers_created + before.buffers_reused != after.buffers_created + after.buffers_reused) {
        fail_msg("%s: something was done for tensors without data", call->function);
    }
    free(copy);
    weft_clear_error();
}

static void begin(listener *l, const weft_call *call, int num_outputs)
{
    l->begun++;
    assert_non_null(call->operation);
    assert_true(num_outputs <= MAX_OUTPUTS);
    weft_random_state_get(weft_random_state_current(), &l->state);
    for (int i = 0; i < MAX_OUTPUTS; i++) {
        bool changes = i < num_outputs && weft_call_changes(call, i);
        l->changed[i] = changes ? weft_empty_like(weft_call_tensor(call, i)) : NULL;
        if (changes) {
            weft_copy_inplace(l->changed[i], weft_call_tensor(call, i));
        }
    }
    l->accepted = false;
    if (!weft_call_is_action(call) && weft_call_num_tensors(call) > 0) {
        call_on_fakes(l, call);
    }
}

static void assert_same_bits(const char *function, weft_tensor *a, weft_tensor *b)
{
    size_t bytes = weft_tensor_bytes(a);
    assert_int_equal(weft_tensor_bytes(b), bytes);
    unsigned char *first = calloc(1, bytes + 1), *second = calloc(1, bytes + 1);
    assert_int_equal(weft_to_host(a, first, bytes), WEFT_OK);
    assert_int_equal(weft_to_host(b, second, bytes), WEFT_OK);
    if (memcmp(first, second, bytes) != 0) {
        fail_msg("%s: other bits when it is carried out again", function);
    }
    free(first);
    free(second);
}

static void run_again(listener *l, const weft_call *call, int num_outputs, weft_tensor *const outputs[])
{
    size_t bytes;
    weft_tensor *again[MAX_OUTPUTS] = { NULL };
    weft_call *copy = weft_call_copy(call, &bytes);
    assert_non_null(copy);
    for (int i = 0; i < weft_call_num_tensors(call); i++) {
        for (int o = 0; o < num_outputs && o < weft_call_num_tensors(call); o++) {
            if (l->changed[o] != NULL && weft_call_tensor(call, i) == weft_call_tensor(call, o)) {
                set_input(copy, i, l->changed[o]);
            }
        }
    }
    weft_random_state after;
    weft_random_state_get(weft_random_state_current(), &after);
    weft_random_state_set(weft_random_state_current(), l->state);
    assert_int_equal(weft_invoke(copy, again), WEFT_OK);
    weft_random_state now;
    weft_random_state_get(weft_random_state_current(), &now);
    assert_int_equal(now.offset, after.offset);
    for (int i = 0; i < num_outputs; i++) {
        assert_true((again[i] == NULL) == (outputs[i] == NULL));
        if (again[i] != NULL && !weft_tensor_is_fake(again[i])) {
            assert_same_bits(call->function, outputs[i], again[i]);
        }
    }
    free(copy);
    l->run_again++;
}

static void end(listener *l, const weft_call *call, int num_outputs, weft_tensor *const outputs[], weft_status status)
{
    l->ended++;
    l->status = status;
    snprintf(l->function, sizeof(l->function), "%s", call->function);
    if (status != WEFT_OK) {
        assert_false(l->accepted);
        return;
    }
    weft_status kept = weft_last_status();
    for (int i = 0; i < num_outputs && l->accepted; i++) {
        assert_true((outputs[i] == NULL) == (l->fakes[i] == NULL));
        if (outputs[i] != NULL && weft_layout_of(outputs[i]) != weft_layout_of(l->fakes[i])) {
            fail_msg("%s: another layout without data", call->function);
        }
    }
    if (can_run_again(call)) {
        run_again(l, call, num_outputs, outputs);
    }
    assert_int_equal(weft_last_status(), kept);
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    listener *l = (listener *)self;
    begin(l, frame->call, frame->num_outputs);
    weft_status status = weft_call_next(frame);
    end(l, frame->call, frame->num_outputs, frame->outputs, status);
    return status;
}

/* ---- every public function ----------------------------------------------------------------------------- */

/* They look at layouts, names, meshes, settings: no tensor is made, changed, moved, read or released. */
static bool only_asks(const char *function)
{
    static const char *const asks[] = { "weft_mesh", "weft_world_size",  "weft_first_rank", "weft_local_ranks",
                                        "weft_num_processes", "weft_process_index", "weft_get_counters",
                                        "weft_print_machine", "weft_shard_box", "weft_tensor_ndim", "weft_tensor_size",
                                        "weft_tensor_dtype", "weft_tensor_mesh", "weft_tensor_placements",
                                        "weft_tensor_num_", "weft_tensor_shape", "weft_tensor_is_fake",
                                        "weft_tensor_bytes", "weft_tensor_set_name", "weft_tensor_describe",
                                        "weft_tensor_write_items", "weft_tensor_chunks", "weft_tensor_shard_at",
                                        "weft_local_box", "weft_local_runs", "weft_scalapack_descriptor", "weft_local_bytes", "weft_visualize", "weft_operation_re",
                                        "weft_random_state_current", "weft_random_state_get", "weft_random_states",
                                        "weft_graph_create", "weft_graph_destroy", "weft_graph_get_info", "weft_graph_print",
                                        "weft_graph_set_passes", "weft_graph_save", "weft_fixed_boxes",
                                        "weft_graph_freeze", "weft_graph_predict", "weft_graph_donate",
                                        "weft_graph_shard", "weft_graph_get_placements", "weft_graph_get_shard_info",
                                        "weft_graph_require", "weft_graph_omit", "weft_graph_derive", "weft_graph_test", "weft_graph_size",
                                        "weft_region_", "weft_print_regions", "weft_explain", "weft_index_list_count",
                                        "weft_index_list_placements", "weft_index_list_destroy", "weft_sparse_nnz",
                                        "weft_sparse_placements", "weft_sparse_destroy",
                                        "weft_wait", "weft_test", "weft_pause", "weft_resume", "weft_finalize", "weft_init",
                                        "weft_set_requires_grad", "weft_requires_grad", "weft_is_leaf", "weft_set_grad_",
                                        "weft_set_regather", "weft_save_for_backward", "weft_here",
                                        "weft_autocast_", "weft_grad", "weft_zero_grad", "weft_no_grad_" };
    if (strcmp(function, "weft_implicit_replication") == 0) {
        return true; /* the setting alone */
    }
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++) {
        if (strncmp(function, asks[i], strlen(asks[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* They are told as the public calls that they make. */
static bool is_transparent(const char *function)
{
    return strncmp(function, "weft_backward", strlen("weft_backward")) == 0 || strcmp(function, "weft_gradients") == 0 ||
           strncmp(function, "weft_module_", strlen("weft_module_")) == 0 ||
           strcmp(function, "weft_distribute_module") == 0 || strcmp(function, "weft_parallelize") == 0 ||
           strcmp(function, "weft_recompute") == 0 || strcmp(function, "weft_custom_gradient") == 0 ||
           strcmp(function, "weft_scale_loss") == 0 ||
           strcmp(function, "weft_unscale_gradients") == 0 || strcmp(function, "weft_graph_call") == 0 ||
           strcmp(function, "weft_graph_opaque") == 0;
}

static void after(row_place row, const char *function, void *argument)
{
    listener *l = argument;
    enter_row(row, __func__);
    bool failed = weft_last_status() != WEFT_OK;
    if (is_transparent(function)) {
        assert_int_equal(l->begun, l->ended);
        l->begun = l->ended = 0;
    }
    if (l->begun != l->ended || l->begun > 1 || (l->begun == 0 && !failed && !only_asks(function) && !is_transparent(function))) {
        fail_msg("%s:%d: %s (%s): told %d times of its beginning, %d times of its end; last of %s", row.file,
                 row.line, function, weft_last_error(), l->begun, l->ended, l->function);
    }
    if (l->begun == 1) {
        assert_true(failed == (l->status != WEFT_OK));
        assert_true(strcmp(l->function, function) == 0 || strncmp(function, "weft_apply", strlen("weft_apply")) == 0);
        l->told++;
    }
    leave_rows();
    l->begun = l->ended = 0;
    weft_clear_error();
}

static void walk(int ranks, weft_placement placement)
{
    start(ranks, placement);
    listener l = { .interposer = { .order = WEFT_OBSERVER, .around = around } };
    weft_tensor_retain(things.tensor); /* one of the calls releases it */
    weft_interposer_install(&l.interposer);
    call_everything(&things, after, &l);
    assert_null(weft_runtime.interposers);
    print_message("# %d functions told, %d carried out again\n", l.told, l.run_again);
    assert_in_range(l.told, 190, 1000);
    assert_in_range(l.run_again, 150, 1000);
    assert_int_equal(weft_world_size(), 0); /* the last call was weft_finalize() */
}

static void test_every_call_is_told_once(void **state)
{
    (void)state;
    walk(1, weft_replicate());
}

static void test_every_call_on_two_ranks(void **state)
{
    (void)state;
    walk(2, weft_shard(1));
}

/* ---- interposers ---------------------------------------------------------------------------------------- */

/* Does not go on: makes nothing of the call. */
static weft_status take_over(weft_interposer *self, weft_call_frame *frame)
{
    (void)self;
    assert_int_equal(frame->num_outputs, 1);
    frame->outputs[0] = frame->call->inputs[0];
    return WEFT_OK;
}

typedef struct counter {
    weft_interposer interposer;
    int calls, left; /* begun; that have returned */
} counter;

static weft_status count_call(weft_interposer *self, weft_call_frame *frame)
{
    counter *c = (counter *)self;
    c->calls++;
    weft_status status = weft_call_next(frame);
    c->left++;
    return status;
}

/* Those outside of one that takes calls over see them, those inside do not. */
static void test_interposer_takes_over(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    weft_counters before, after_it;
    weft_interposer taker = { .order = WEFT_TAPE, .around = take_over };
    counter outside = { .interposer = { .order = WEFT_OBSERVER, .around = count_call } },
            inside = { .interposer = { .order = WEFT_TAPE, .around = count_call } };
    weft_interposer_install(&outside.interposer);
    weft_interposer_install(&inside.interposer);
    weft_interposer_install(&taker); /* the newest of its order */
    weft_get_counters(&before, sizeof(before));
    assert_ptr_equal(weft_softmax(things.tensor, 0), things.tensor);
    assert_ptr_equal(weft_exp(things.tensor), things.tensor);
    weft_get_counters(&after_it, sizeof(after_it));
    assert_int_equal(before.tasks, after_it.tasks);
    assert_int_equal(inside.calls, 0);
    weft_interposer_remove(&taker);
    assert_ptr_not_equal(weft_exp(things.tensor), things.tensor);
    assert_int_equal(outside.calls, 3);
    assert_int_equal(outside.left, 3);
    assert_int_equal(inside.calls, 1);
    weft_interposer_remove(&inside.interposer);
    weft_interposer_remove(&outside.interposer);
    stop();
}

/* Opens a region of its own within the call: its interposer sees the next call first. */
static weft_status open_region(weft_interposer *self, weft_call_frame *frame)
{
    weft_interposer_remove(self);
    assert_int_equal(weft_region_begin("within", 0), WEFT_OK);
    return weft_call_next(frame);
}

static void test_installed_within_a_call(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    weft_interposer opener = { .order = WEFT_OBSERVER, .around = open_region };
    weft_interposer_install(&opener);
    assert_non_null(weft_exp(things.tensor));
    assert_int_equal(weft_region_counts(0, NULL), 0);
    assert_non_null(weft_exp(things.tensor));
    assert_int_equal(weft_region_counts(0, NULL), 1);
    assert_int_equal(weft_region_end(), WEFT_OK);
    stop();
}

/* Asks for all outputs of each call. */
typedef struct asker {
    weft_interposer interposer;
    weft_tensor *second; /* of the last call */
} asker;

static weft_status ask_for_all(weft_interposer *self, weft_call_frame *frame)
{
    const weft_call *call = frame->call;
    weft_call whole = *call;
    whole.attributes.omitted = 0;
    frame->call = &whole;
    weft_status status = weft_call_next(frame);
    frame->call = call;
    if (call->attributes.omitted > 0 && status == WEFT_OK) {
        ((asker *)self)->second = frame->outputs[frame->num_outputs - 1];
    }
    return status;
}

/* Outputs that the program does not ask for are not computed; an interposer may ask for them. */
static void test_outputs_asked_for(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    weft_counters before, now;
    weft_get_counters(&before, sizeof(before));
    weft_tensor *values = weft_sort(things.tensor, 1, false, NULL), *indices, *asked;
    weft_get_counters(&now, sizeof(now));
    assert_int_equal(now.buffers_created + now.buffers_reused, before.buffers_created + before.buffers_reused + 2);
    assert_same_bits("weft_sort", weft_sort(things.tensor, 1, false, &indices), values);
    asker a = { .interposer = { .order = WEFT_TAPE, .around = ask_for_all } };
    weft_interposer_install(&a.interposer);
    assert_same_bits("weft_sort", weft_sort(things.tensor, 1, false, NULL), values);
    asked = a.second;
    a.second = NULL;
    assert_non_null(weft_max_with_indices(things.tensor, 0, false, NULL));
    assert_non_null(a.second);
    a.second = NULL;
    assert_non_null(weft_dropout(things.tensor, 0.5, true, NULL));
    assert_non_null(a.second);
    weft_interposer_remove(&a.interposer);
    assert_same_bits("weft_sort", asked, indices);
    stop();
}

/* ---- composites ----------------------------------------------------------------------------------------- */

static void test_expansions_are_kept(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    weft_counters c[3];
    for (int i = 0; i < 3; i++) {
        assert_non_null(weft_softmax(things.tensor, 0));
        weft_get_counters(&c[i], sizeof(c[i]));
    }
    bool kept = weft_runtime.task_cache != WEFT_TASK_CACHE_OFF;
    assert_int_equal(c[2].expansion_misses, c[0].expansion_misses);
    assert_int_equal(c[2].expansion_hits - c[0].expansion_hits, kept ? 2 : 0);
    stop();
}

/* 512 tensors are one call and one expansion, and come apart again. */
static void test_long_lists(void **state)
{
    (void)state;
    enum { MANY = 512 };
    start(2, weft_replicate());
    static weft_tensor *tensors[MANY], *parts[MANY];
    int64_t sizes[MANY];
    for (int i = 0; i < MANY; i++) {
        tensors[i] = weft_full(WEFT_F32, i, 1, (int64_t[]){ 1 }, things.mesh, NULL);
        sizes[i] = 1;
    }
    weft_interposer idle = { .order = WEFT_OBSERVER };
    weft_counters before, now;
    for (int turn = 0; turn < 2; turn++) {
        weft_get_counters(&before, sizeof(before));
        weft_scope_begin();
        weft_interposer_install(&idle);
        weft_tensor *all = weft_cat(MANY, tensors, 0);
        assert_int_equal(weft_split(all, MANY, sizes, 0, parts), WEFT_OK);
        weft_interposer_remove(&idle);
        float values[MANY], last;
        assert_int_equal(weft_to_host(all, values, sizeof(values)), WEFT_OK);
        assert_int_equal(weft_to_host(parts[MANY - 1], &last, sizeof(last)), WEFT_OK);
        for (int i = 0; i < MANY; i++) {
            assert_true(values[i] == (float)i);
        }
        assert_true(last == MANY - 1);
        weft_scope_end();
        weft_get_counters(&now, sizeof(now));
        if (weft_runtime.task_cache != WEFT_TASK_CACHE_OFF) {
            assert_int_equal(now.expansion_misses - before.expansion_misses, turn == 0 ? 2 : 0);
        }
    }
    stop();
}

/* The second of its calls is refused, so the first one is not made. */
static void test_accepted_before_anything_happens(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    weft_mesh *other = weft_mesh_of_ranks(1, (int64_t[]){ 1 }, (int[]){ 1 }, NULL);
    weft_placement rows = weft_shard(0);
    weft_tensor *a = weft_rand(WEFT_F32, 1, (int64_t[]){ 64 }, things.mesh, &rows);
    weft_tensor *b = weft_rand(WEFT_F32, 1, (int64_t[]){ 64 }, other, NULL);
    weft_counters before, now;
    weft_get_counters(&before, sizeof(before));
    assert_null(weft_outer(a, b));
    assert_int_equal(weft_last_status(), WEFT_ERR_MESH);
    weft_get_counters(&now, sizeof(now));
    assert_int_equal(before.tasks, now.tasks);
    assert_int_equal(before.transfers, now.transfers);
    stop();
}

/* A step of an optimiser over many parameters is one call, whatever its rates are; and nothing of it happens
 * where one of its tensors is refused. */
static void test_steps_are_one_call(void **state)
{
    (void)state;
    enum { MANY = 40 };
    start(2, weft_replicate());
    weft_tensor *lists[4][MANY];
    weft_placement rows = weft_shard(0);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < MANY; i++) {
            lists[k][i] = weft_full(WEFT_F32, 1, 1, (int64_t[]){ 4 + i % 3 }, things.mesh, k == 3 && i % 2 ? &rows : NULL);
        }
    }
    weft_interposer idle = { .order = WEFT_OBSERVER };
    weft_interposer_install(&idle);
    weft_adam_options options = WEFT_ADAM_DEFAULT;
    weft_counters before, now;
    weft_get_counters(&before, sizeof(before));
    for (int step = 1; step <= 3; step++) {
        options.learning_rate = 0.5 / step;
        assert_int_equal(weft_adam(MANY, lists[0], lists[3], lists[1], lists[2], step, &options), WEFT_OK);
    }
    weft_get_counters(&now, sizeof(now));
    bool kept = weft_runtime.task_cache != WEFT_TASK_CACHE_OFF;
    assert_int_equal(now.expansion_misses - before.expansion_misses, kept ? 1 : 0);
    weft_interposer_remove(&idle);
    weft_tensor *norm = NULL;
    assert_int_equal(weft_clip_grad_norm(MANY, lists[3], 1, 2, &norm), WEFT_OK);
    double value;
    assert_int_equal(weft_tensor_item(norm, &value), WEFT_OK);
    assert_float_equal(value, sqrt(199), 1e-5);
    /* Gradients without data leave everything as it is. */
    weft_wait();
    weft_get_counters(&before, sizeof(before));
    lists[3][MANY - 1] = weft_fake_like(lists[3][MANY - 1]);
    assert_int_equal(weft_adam(MANY, lists[0], lists[3], lists[1], lists[2], 4, &options), WEFT_ERR_STATE);
    assert_non_null(strstr(weft_last_error(), "weft_adam: tensors[0] has data, and another input has none"));
    weft_clear_error();
    assert_int_equal(weft_clip_grad_norm(MANY, lists[3], 1, 2, NULL), WEFT_ERR_STATE);
    weft_get_counters(&now, sizeof(now));
    assert_int_equal(before.tasks, now.tasks);
    stop();
}

/* ---- tensors without data (features.md, A14) ------------------------------------------------------------ */

static void test_data_is_refused(void **state)
{
    (void)state;
    start(2, weft_shard(0));
    /* 4 TB. */
    weft_placement rows = weft_shard(0);
    weft_tensor *huge = weft_fake(WEFT_F32, 2, (int64_t[]){ 1 << 20, 1 << 20 }, things.mesh, &rows);
    weft_tensor *product = weft_matmul(huge, weft_softmax(huge, 0));
    assert_true(weft_tensor_is_fake(product) && !weft_tensor_is_fake(things.tensor));
    assert_int_equal(weft_tensor_bytes(product), (size_t)1 << 42);
    assert_no_error();
    float value;
    assert_int_equal(weft_to_host(huge, &value, sizeof(value)), WEFT_ERR_STATE);
    assert_non_null(strstr(weft_last_error(), "has no data"));
    weft_clear_error();
    assert_null(weft_local_acquire(huge, 0, WEFT_READ));
    assert_int_equal(weft_last_status(), WEFT_ERR_STATE);
    weft_clear_error();
    assert_null(weft_add_inplace(things.tensor, weft_fake_like(things.tensor), 1));
    assert_int_equal(weft_last_status(), WEFT_ERR_STATE);
    weft_clear_error();
    assert_int_equal(weft_tensor_print(huge, stdout), WEFT_OK);
    assert_null(weft_matmul(huge, weft_fake(WEFT_F32, 2, (int64_t[]){ 3, 3 }, things.mesh, NULL)));
    assert_int_equal(weft_last_status(), WEFT_ERR_SHAPE);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_is_told_once),
        cmocka_unit_test(test_every_call_on_two_ranks),
        cmocka_unit_test(test_interposer_takes_over), cmocka_unit_test(test_installed_within_a_call),
        cmocka_unit_test(test_outputs_asked_for),
        cmocka_unit_test(test_expansions_are_kept),
        cmocka_unit_test(test_long_lists),
        cmocka_unit_test(test_steps_are_one_call),
        cmocka_unit_test(test_accepted_before_anything_happens),
        cmocka_unit_test(test_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
