#include "pending_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

weft_mesh *mesh;

void start_configured(const weft_config *config)
{
    assert_int_equal(weft_init(config), WEFT_OK);
    int64_t size = weft_world_size();
    mesh = weft_mesh_create(1, &size, NULL);
    assert_no_error();
}

void start(int64_t most, int ranks)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.max_pending_tasks = most;
    config.ranks = ranks;
    start_configured(&config);
}

void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

weft_tensor *full(int64_t rows, double value, const char *text)
{
    weft_placement placement;
    weft_placements_parse(text, 1, &placement);
    weft_tensor *tensor = weft_full(WEFT_F64, value, 1, &rows, mesh, &placement);
    assert_no_error();
    return tensor;
}

long long pending_now(void)
{
    return atomic_load(&weft_runtime.pending->count);
}

void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* scalars[0]: number of tasks that must be pending before it ends. In place: later tasks on the tensor
 * wait. */
static void await_pending(const weft_kernel_call *call)
{
    while (pending_now() < (long long)call->scalars[0]) {
        sleep_ms(1);
    }
}

/* scalars[0]: milliseconds. In place: later tasks on the tensor wait. */
static void doze(const weft_kernel_call *call)
{
    sleep_ms((long)call->scalars[0]);
}

static void hold_up(weft_tensor *tensor, const char *name, weft_kernel kernel, double number)
{
    const weft_operation *operation = weft_operation_register(
        &(weft_operation_description){ .name = name,
                                       .rule = "A->A",
                                       .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
                                       .outputs[0].in_place = true,
                                       .kernel = kernel });
    weft_apply_options options = { .num_scalars = 1, .scalars = { number } };
    assert_non_null(weft_apply(operation, 1, &tensor, &options));
}

void let_doze(weft_tensor *tensor, double ms)
{
    hold_up(tensor, "doze", doze, ms);
}

void let_await_pending(weft_tensor *tensor, int64_t count)
{
    hold_up(tensor, "await_pending", await_pending, (double)count);
}

void check_values(weft_tensor *tensor, int64_t rows, double expected)
{
    double *host = malloc((size_t)rows * sizeof(double));
    assert_int_equal(weft_to_host(tensor, host, (size_t)rows * sizeof(double)), WEFT_OK);
    for (int64_t i = 0; i < rows; i++) {
        assert_true(host[i] == expected);
    }
    free(host);
}

int64_t resident_mb(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &pages, &resident) != 2) {
            resident = 0;
        }
        fclose(file);
    }
    return (int64_t)resident * sysconf(_SC_PAGESIZE) >> 20;
}
