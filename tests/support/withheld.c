#include "withheld.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 8, ROWS_EACH = 2, NAME_SIZE = 64, GIVES_UP_S = 30 };

/* In memory that all processes share. */
typedef struct shared_state {
    atomic_int consumed, gave_up;
} shared_state;

/* Kernels have no argument for it. */
static shared_state *shared;
static int64_t last_row;
static bool first_process;

static void copy_row(const weft_kernel_call *call)
{
    memcpy(weft_view_row(&call->output, 0, NULL), weft_view_row(&call->inputs[0], 0, NULL),
           COLUMNS * sizeof(double));
}

static void withhold(const weft_kernel_call *call)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    const time_t begin = time(NULL);
    while (call->output.offset[0] == last_row && atomic_load(&shared->consumed) == 0 &&
           atomic_load(&shared->gave_up) == 0) {
        nanosleep(&pause, NULL);
        if (time(NULL) - begin > GIVES_UP_S) {
            atomic_store(&shared->gave_up, 1);
        }
    }
    copy_row(call);
}

static void consume(const weft_kernel_call *call)
{
    int64_t row = call->output.offset[0];
    copy_row(call);
    if (first_process && row >= ROWS_EACH && row != last_row) {
        atomic_store(&shared->consumed, 1);
    }
}

/* ---- shared memory ------------------------------------------------------------------------------------- */

/* The name of a file that the first process has made, on all of them. */
static bool agree_on_file(weft_mesh *mesh, char name[NAME_SIZE])
{
    const int64_t size[] = { NAME_SIZE };
    snprintf(name, NAME_SIZE, "/tmp/weft-withheld-XXXXXX");
    int file = first_process ? mkstemp(name) : -1;
    if (file >= 0) {
        const shared_state zero = { 0 };
        bool written = write(file, &zero, sizeof(zero)) == (ssize_t)sizeof(zero);
        close(file);
        if (!written) {
            return false;
        }
    }
    weft_tensor *text = weft_distribute(WEFT_U8, 1, size, name, mesh, NULL);
    bool done = weft_to_host(text, name, NAME_SIZE) == WEFT_OK;
    weft_tensor_release(text);
    return done;
}

static bool map_shared(weft_mesh *mesh)
{
    char name[NAME_SIZE];
    if (!agree_on_file(mesh, name)) {
        return false;
    }
    FILE *file = fopen(name, "r+");
    void *memory = file == NULL ? MAP_FAILED
                                : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    if (file != NULL) {
        fclose(file);
    }
    shared = memory == MAP_FAILED ? NULL : memory;
    /* All have it open: the sum needs a number of each. */
    double all = 0;
    int64_t size = weft_mesh_size(mesh, 0);
    weft_scope_begin();
    weft_tensor *here = weft_ones(WEFT_F64, 1, &size, mesh, &(weft_placement){ .kind = WEFT_SHARD });
    bool met = weft_tensor_item(weft_sum(here, WEFT_ALL_DIMS, false), &all) == WEFT_OK && all == (double)size;
    weft_scope_end();
    if (first_process) {
        remove(name);
    }
    return met && shared != NULL;
}

/* ---- the computation ----------------------------------------------------------------------------------- */

static const weft_operation *of_rows(const char *name, weft_kernel kernel)
{
    return weft_operation_register(&(weft_operation_description){
        .name = name, .rule = "a[b]->a[b]", .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } }, .kernel = kernel });
}

static bool compute(weft_mesh *mesh)
{
    const int64_t rows = weft_mesh_size(mesh, 0) * ROWS_EACH, shape[] = { rows, COLUMNS };
    const weft_placement by_rows[] = { weft_shard(0) };
    const weft_operation *withholds = of_rows("withhold", withhold), *consumes = of_rows("consume", consume);
    last_row = rows - 1;
    weft_scope_begin();
    weft_tensor *source = weft_ones(WEFT_F64, 2, shape, mesh, by_rows);
    weft_tensor *made = weft_apply(withholds, 1, (weft_tensor *const[]){ source }, NULL);
    weft_tensor *everywhere = weft_redistribute(made, NULL, NULL);
    weft_tensor *used = weft_apply(consumes, 1, (weft_tensor *const[]){ everywhere }, NULL);
    double sum = 0;
    bool right = weft_tensor_item(weft_sum(used, WEFT_ALL_DIMS, false), &sum) == WEFT_OK && sum == (double)(rows * COLUMNS);
    weft_scope_end();
    return right;
}

weft_status withheld_run(int ranks, withheld_result *result)
{
    /* The withheld row keeps one worker busy. */
    weft_config config = { .ranks = ranks, .workers = 3 };
    setenv("WEFT_PANEL_ROWS", "1", 1);
    weft_status status = weft_init(&config);
    unsetenv("WEFT_PANEL_ROWS");
    if (status != WEFT_OK) {
        return status;
    }
    first_process = weft_process_index() == 0;
    int64_t size = weft_world_size();
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    *result = (withheld_result){ .consumed = false };
    if (map_shared(mesh)) {
        result->right = compute(mesh);
        result->consumed = atomic_load(&shared->consumed) != 0;
        result->gave_up = atomic_load(&shared->gave_up) != 0;
        munmap(shared, sizeof(*shared));
    }
    return weft_finalize();
}
