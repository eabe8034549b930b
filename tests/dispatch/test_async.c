/* Only functions marked BLOCKS wait, and computation begins panel by
 * panel. Arguments: the public headers. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "every_call.h"
#include "withheld.h"

static int num_headers;
static char **headers;

/* ---- which functions are marked BLOCKS ----------------------------------------------------------------- */

static char blocking[1 << 12] = " "; /* " weft_wait weft_finalize ..." */
static int num_blocking, num_functions;

static bool blocks(const char *function)
{
    char word[96];
    snprintf(word, sizeof(word), " %s ", function);
    return strstr(blocking, word) != NULL;
}

static bool has(const char *begin, const char *end, const char *word)
{
    const char *found = begin == NULL ? NULL : strstr(begin, word);
    return found != NULL && found < end;
}

/* The name: the word before the first bracket. */
static void note_function(const char *text)
{
    const char *end = text + strcspn(text, "("), *begin = end;
    while (begin > text && strchr(" *\n", begin[-1]) == NULL) {
        begin--;
    }
    size_t used = strlen(blocking);
    assert_true(used + (size_t)(end - begin) + 2 < sizeof(blocking));
    snprintf(blocking + used, sizeof(blocking) - used, "%.*s ", (int)(end - begin), begin);
    num_blocking++;
}

/* A comment belongs to the declaration after it, and between \{ and \} to all. */
static void read_header(const char *text)
{
    const char *comment = NULL, *comment_end = NULL, *group = NULL, *group_end = NULL;
    for (const char *at = text; *at != '\0'; at++) {
        if (strncmp(at, "/**", 3) == 0) {
            comment = at;
            comment_end = strstr(at, "*/");
            assert_non_null(comment_end);
            if (has(comment, comment_end, "\\}")) {
                group = NULL;
            }
            if (has(comment, comment_end, "\\{")) {
                group = comment;
                group_end = comment_end;
            }
            at = comment_end;
        } else if (strncmp(at, "\nWEFT_API ", 10) == 0) {
            num_functions++;
            if (has(comment, comment_end, "BLOCKS") || (group != NULL && has(group, group_end, "BLOCKS"))) {
                note_function(at + 1);
            }
            comment = NULL;
        }
    }
}

static int read_headers(void **state)
{
    (void)state;
    for (int i = 0; i < num_headers; i++) {
        static char text[1 << 17];
        FILE *file = fopen(headers[i], "r");
        if (file == NULL) {
            return -1;
        }
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        read_header(text);
    }
    return 0;
}

static void d1_marks_are_found(void **state)
{
    (void)state;
    static const char *const marked[] = { "weft_wait",        "weft_finalize", "weft_to_host",      "weft_tensor_item",
                                          "weft_tensor_print", "weft_equal",    "weft_local_acquire", "weft_distribute" };
    static const char *const others[] = { "weft_add",        "weft_redistribute", "weft_topk",  "weft_from_local",
                                          "weft_local_map",  "weft_scope_end",  "weft_adam",  "weft_rand",
                                          "weft_local_box",  "weft_attention",    "weft_apply", "weft_clip_grad_norm" };
    for (size_t i = 0; i < sizeof(marked) / sizeof(marked[0]); i++) {
        if (!blocks(marked[i])) {
            fail_msg("%s() is not marked", marked[i]);
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (blocks(others[i])) {
            fail_msg("%s() is marked", others[i]);
        }
    }
    assert_true(num_functions > 270 && num_blocking < 41);
}

/* ---- a gate before every input ------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool is_open;
static atomic_int passed;
static const char *volatile last_call = "none";

static void gate(const weft_kernel_call *call)
{
    pthread_mutex_lock(&lock);
    while (!is_open) {
        pthread_cond_wait(&opened, &lock);
    }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&passed, 1);
    for (int64_t row = 0; row < weft_view_rows(&call->output); row++) {
        size_t bytes = (size_t)(call->output.ndim == 0 ? 1 : call->output.row_elements) *
                       weft_dtype_size(call->output.dtype);
        memcpy(weft_view_row(&call->output, row, NULL), weft_view_row(&call->inputs[0], row, NULL), bytes);
    }
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    is_open = true;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
}

/* A function that waits would hang: ends the process with the function's name. */
static void *watch(void *unused)
{
    enum { SECONDS = 80 };
    (void)unused;
    sleep(SECONDS);
    fprintf(stderr, "[  FAILED  ] %s() waits for its inputs\n", last_call);
    _exit(1);
}

static bool wanted(const char *function)
{
    last_call = function;
    return !blocks(function);
}

/* Fail by right here: the tensor is of an outer scope; the shard has not been acquired; there is no file; the graph has
 * captured nothing, as weft_graph_call() blocks, and no function runs. */
static bool may_fail(const char *function)
{
    return strcmp(function, "weft_graph_shard") == 0 || strcmp(function, "weft_graph_get_placements") == 0 ||
           strcmp(function, "weft_graph_get_shard_info") == 0 || strcmp(function, "weft_graph_save") == 0 ||
           strcmp(function, "weft_graph_test") == 0 || strcmp(function, "weft_graph_size") == 0 ||
           strcmp(function, "weft_scope_keep") == 0 || strcmp(function, "weft_local_release") == 0 ||
           strcmp(function, "weft_save_for_backward") == 0 ||
           strncmp(function, "weft_checkpoint_", strlen("weft_checkpoint_")) == 0;
}

static call_outcomes outcomes = { .may_fail = may_fail };

static void note_call(row_place row, const char *function, void *argument)
{
    note_outcome(row, function, argument);
    if (atomic_load(&passed) != 0) {
        fail_msg("before %s() had returned a task had passed the gate", function);
    }
}

static weft_tensor *behind_gate(const weft_operation *operation, weft_dtype dtype, int ndim, weft_mesh *mesh)
{
    static const int64_t shapes[][4] = { { 0 }, { 2 }, { 2, 2 }, { 1, 2, 2 }, { 1, 2, 2, 2 } };
    const weft_placement rows[] = { weft_shard(0) };
    weft_tensor *source = weft_zeros(dtype, ndim, shapes[ndim], mesh, ndim == 0 ? NULL : rows);
    weft_tensor *result = weft_apply(operation, 1, (weft_tensor *const[]){ source }, NULL);
    assert_no_error();
    return result;
}

static void call_behind_gate(void)
{
    const weft_operation *operation = weft_operation_register(
        &(weft_operation_description){ .name = "gate",
                                       .rule = "A->A",
                                       .inputs = { { "a", WEFT_TYPES_ANY, false } },
                                       .kernel = gate });
    int64_t size = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &size, (const char *const[]){ "name" });
    weft_index_list *list = list_for_calls(mesh); /* waits */
    weft_sparse *sparse = sparse_for_calls(mesh);
    weft_tensor *ghosted = ghosted_for_calls(mesh); /* waits */
    weft_scope_begin();
    const call_arguments arguments = { .mesh = mesh,
                                       .mesh_size = size,
                                       .tensor = behind_gate(operation, WEFT_F32, 2, mesh),
                                       .indices = behind_gate(operation, WEFT_I64, 1, mesh),
                                       .truth = behind_gate(operation, WEFT_BOOL, 2, mesh),
                                       .first = behind_gate(operation, WEFT_F32, 2, mesh),
                                       .second = behind_gate(operation, WEFT_F32, 2, mesh),
                                       .third = behind_gate(operation, WEFT_F32, 2, mesh),
                                       .scalar = behind_gate(operation, WEFT_F32, 0, mesh),
                                       .line = behind_gate(operation, WEFT_F32, 1, mesh),
                                       .places = behind_gate(operation, WEFT_I64, 2, mesh),
                                       .cube = behind_gate(operation, WEFT_F32, 3, mesh),
                                       .image = behind_gate(operation, WEFT_F32, 4, mesh),
                                       .pairs = behind_gate(operation, WEFT_C64, 2, mesh),
                                       .regular = weft_add(behind_gate(operation, WEFT_F32, 2, mesh),
                                                           weft_eye(WEFT_F32, 2, 2, mesh, NULL)),
                                       .operation = operation,
                                       .list = list,
                                       .sparse = sparse,
                                       .ghosted = ghosted };
    call_all_wanted(&arguments, wanted, note_call, &outcomes);
    last_call = "none";
    bool ended = true;
    assert_int_equal(weft_test(&ended), WEFT_OK);
    assert_true(!ended || weft_num_processes() > 1); /* a process may host empty shards alone */
    assert_int_equal(weft_tensor_test(arguments.tensor, &ended), WEFT_OK);
    assert_true(!ended || weft_num_processes() > 1);
    open_gate();
    weft_scope_end();
}

/* Every public function without the mark, with inputs whose tasks wait at a gate: it returns with its
 * result. Then the gate opens, and everything submitted runs. */
static void d1_nothing_waits(void **state)
{
    (void)state;
    WORLD(4);
    pthread_t watcher;
    assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
    call_behind_gate();
    assert_int_equal(weft_wait(), WEFT_OK);
    bool ended = false;
    assert_int_equal(weft_test(&ended), WEFT_OK);
    assert_true(ended);
    weft_scope_begin();
    weft_tensor *zeros = weft_zeros(WEFT_F32, 2, (int64_t[]){ 8, 3 }, weft_mesh_create(1, (int64_t[]){ 4 }, NULL), NULL);
    for (ended = false; !ended;) { /* until it has been computed */
        assert_int_equal(weft_tensor_test(zeros, &ended), WEFT_OK);
    }
    weft_scope_end();
    assert_true(atomic_load(&passed) > 0 || weft_num_processes() > 1);
    pthread_cancel(watcher);
    pthread_join(watcher, NULL);
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_no_failures(&outcomes);
}

/* ---- panel by panel ------------------------------------------------------------------------------------ */

/* The last row is withheld until the first task that needs another rank's row has run: it runs all the same.
 * The order in a recorded trace is looked at by test_trace.py. */
static void d2_first_task_before_last_message(void **state)
{
    (void)state;
    withheld_result result;
    assert_int_equal(withheld_run(weft_num_processes() > 1 ? 0 : 2, &result), WEFT_OK);
    assert_true(result.consumed);
    assert_false(result.gave_up);
    assert_true(result.right);
}

int main(int argc, char *argv[])
{
    num_headers = argc - 1;
    headers = argv + 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d1_marks_are_found),
        cmocka_unit_test(d2_first_task_before_last_message),
        cmocka_unit_test(d1_nothing_waits),
    };
    return cmocka_run_group_tests(tests, read_headers, NULL);
}
