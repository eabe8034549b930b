#include "dispatch_support.h"

#include <string.h>

int start(void **state)
{
    (void)state;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.local_ranks = NUM_RANKS;
    return weft_init(&config) != WEFT_OK;
}

int stop(void **state)
{
    (void)state;
    weft_clear_error();
    return weft_finalize() != WEFT_OK;
}

weft_mesh *line(void)
{
    int64_t shape[] = { 4 };
    return weft_mesh_create(1, shape, NULL);
}

weft_mesh *grid(void)
{
    static const char *const names[] = { "data", "model" };
    int64_t shape[] = { 2, 3 };
    return weft_mesh_create(2, shape, names);
}

weft_tensor *ones(weft_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    int64_t shape[] = { a, b, c };
    int ndim = 0;
    while (ndim < 3 && shape[ndim] >= 0) {
        ndim++;
    }
    weft_tensor *tensor = weft_ones(dtype, ndim, shape, line(), NULL);
    assert_no_error();
    return tensor;
}

weft_counters counters(void)
{
    weft_counters now;
    assert_int_equal(weft_get_counters(&now, sizeof(now)), WEFT_OK);
    return now;
}

uint64_t tasks(void)
{
    return counters().tasks;
}

uint64_t tasks_before;

void expect_no_more_tasks(void)
{
    tasks_before = tasks();
}

void refused(weft_tensor *result, weft_status status, const char *function, const char *text)
{
    assert_null(result);
    assert_int_equal(tasks(), tasks_before);
    if (strncmp(weft_last_error(), function, strlen(function)) != 0) {
        fail_msg("expected an error of %s, got \"%s\"", function, weft_last_error());
    }
    assert_error(status, text);
}

void expect_all(weft_tensor *tensor, float value)
{
    float values[48];
    assert_no_error();
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < 48; i++) {
        assert_true(values[i] == value);
    }
}
