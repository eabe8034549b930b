/* A process that starts, and is told of another's end together with the answer that it waits for: the start is an error, and the
 * world is given up once. A control table stands in for the others. */
#include "support.h"

#include <string.h>

#include "comm/calibrate.h"
#include "comm/nccl_open.h"

static struct {
    bool told; /* the next answer comes with an abort notice */
    int aborts, abandoned;
} world;

static void gather(void *state, const void *mine, void *all, size_t size, double timeout_s, bool came[])
{
    (void)state, (void)mine, (void)all, (void)size, (void)timeout_s, (void)came; /* process 1 does not wait */
}

static bool broadcast(void *state, void *bytes, size_t size, double timeout_s)
{
    (void)state, (void)timeout_s;
    memset(bytes, 0, size);
    if (world.told) {
        weft_break(WEFT_ERR_NOMEM, "weft", "process 2 gave up: no thread for messages");
    }
    return true;
}

static void send_abort(void *state)
{
    (void)state;
    world.aborts++;
}

static void abandon(void *state)
{
    (void)state;
    world.abandoned++;
}

/* Process 1 of 3. */
static weft_transport told_transport(void)
{
    weft_unbreak();
    memset(&world, 0, sizeof(world));
    world.told = true;
    return (weft_transport){ .name = "stand-in",
                             .place = { .process = 1, .num_processes = 3, .node_process = 1, .node_processes = 3 },
                             .control = { .gather = gather, .broadcast = broadcast, .send_abort = send_abort },
                             .data = { .abandon = abandon, .memories = 1u << STARPU_CPU_RAM } };
}

static void assert_given_up(weft_status status)
{
    assert_int_equal(status, WEFT_ERR_NOMEM);
    assert_error(WEFT_ERR_NOMEM, "process 2 gave up: no thread for messages");
    assert_true(weft_is_broken()); /* nothing above the transport starts */
    assert_int_equal(world.aborts, 1);
    assert_int_equal(world.abandoned, 1);
    weft_unbreak();
}

static void test_with_the_machine(void **state)
{
    (void)state;
    weft_transport transport = told_transport();
    weft_settings settings = { .timeout_s = 60, .calibration = WEFT_CALIBRATE_OFF };
    assert_given_up(weft_calibrate("weft_init", &settings, &transport));
}

static bool has_nccl; /* the build: another one does not ask */

static void test_with_the_verdict_on_nccl(void **state)
{
    (void)state;
    weft_transport transport = told_transport();
    weft_settings settings = { .timeout_s = 60, .nccl = -1 };
    bool told = true;
    weft_status status = weft_nccl_open("weft_init", &settings, &transport, &told);
    if (has_nccl) {
        assert_false(told);
        assert_given_up(status);
    } else {
        assert_int_equal(status, WEFT_OK);
        assert_int_equal(world.aborts, 0);
    }
}

/* Argument `nccl`: the library is built with NCCL. */
int main(int argc, char *argv[])
{
    has_nccl = argc > 1 && strcmp(argv[1], "nccl") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_the_machine),
        cmocka_unit_test(test_with_the_verdict_on_nccl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
