/* weft_to_dlpack() with WEFT_ON_DEVICE on stand-in devices: shards are shared where they lie, and stay there. Two ranks of one process. */
#include "arrays/dlpack.h"
#include "runtime/lease.h"
#include "support.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stand_in.h"

enum { RANKS = 2, ROWS = 48, COLUMNS = 100, COUNT = ROWS * COLUMNS, OF_RANK = COUNT / RANKS };

static const int64_t shape[2] = { ROWS, COLUMNS };
static const size_t bytes = OF_RANK * sizeof(float);

static void start(const char *devices)
{
    setenv("WEFT_DEVICES", devices, 1);
    WORLD(RANKS, .world = WEFT_WORLD_SELF);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ RANKS }, NULL));
}

static void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* Element i is i * factor. The devices compute it. */
static weft_tensor *make(double factor)
{
    weft_placement rows = weft_shard(0);
    weft_tensor *line = weft_arange(WEFT_F32, 0, COUNT, 1, NULL, NULL);
    weft_tensor *whole = weft_reshape(line, 2, shape);
    return weft_scale(weft_redistribute(whole, NULL, &rows), factor);
}

static struct DLManagedTensorVersioned *share(weft_tensor *tensor, int rank)
{
    struct DLManagedTensorVersioned *shard = weft_to_dlpack(tensor, rank, WEFT_ON_DEVICE);
    if (shard == NULL) {
        fail_msg("%s", weft_last_error());
    }
    assert_int_equal(shard->tensor.device_type, WEFT_DL_CUDA);
    assert_int_equal(shard->flags, WEFT_DL_READ_ONLY);
    assert_true(shard->tensor.shape[0] == ROWS / RANKS && shard->tensor.shape[1] == COLUMNS && shard->tensor.strides[0] == COLUMNS);
    struct cudaPointerAttributes attributes;
    assert_int_equal(cudaPointerGetAttributes(&attributes, shard->tensor.data), cudaSuccess);
    assert_true(attributes.type == cudaMemoryTypeDevice && attributes.device == shard->tensor.device_id);
    return shard;
}

/* `memory` of a device has what rank `rank` has of make(factor). */
static void expect(const void *memory, int rank, double factor)
{
    static float values[OF_RANK];
    assert_int_equal(cudaMemcpy(values, memory, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < OF_RANK; i++) {
        assert_true(values[i] == (float)((rank * OF_RANK + i) * factor));
    }
}

static void expect_tensor(weft_tensor *tensor, double factor)
{
    static float values[COUNT];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(values[i] == (float)(i * factor));
    }
}

static int64_t bytes_through_main_memory(void)
{
    stand_in_counts first = stand_in_device_counts(0), second = stand_in_device_counts(1);
    return first.bytes_in + first.bytes_out + second.bytes_in + second.bytes_out;
}

/* Without a copy, with the values of the call: later writes to the tensor do not show. */
static void test_shards_are_shared(void **state)
{
    (void)state;
    start("2");
    weft_tensor *x = make(0.5);
    assert_int_equal(weft_wait(), WEFT_OK);
    int64_t before = bytes_through_main_memory();
    struct DLManagedTensorVersioned *shards[RANKS], *again[RANKS];
    for (int r = 0; r < RANKS; r++) {
        shards[r] = share(x, r);
        again[r] = share(x, r);
        assert_ptr_equal(again[r]->tensor.data, shards[r]->tensor.data);
    }
    bool ready = false;
    assert_true(weft_tensor_test(x, &ready) == WEFT_OK && ready);
    assert_true(bytes_through_main_memory() == before);
    assert_non_null(weft_scale_inplace(x, 4));
    expect_tensor(x, 2);
    for (int r = 0; r < RANKS; r++) {
        expect(shards[r]->tensor.data, r, 0.5);
        shards[r]->deleter(shards[r]);
        expect(again[r]->tensor.data, r, 0.5);
    }
    weft_tensor_release(x);
    for (int i = 0; i < 20; i++) {
        weft_tensor_release(make(i));
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int r = 0; r < RANKS; r++) {
        expect(again[r]->tensor.data, r, 0.5);
        again[r]->deleter(again[r]);
    }
    stop();
}

/* Rows of a tensor, and values that no device has yet. */
static void test_views_and_values_of_main_memory(void **state)
{
    (void)state;
    start("2");
    static float values[COUNT];
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)(i * 0.25);
    }
    weft_placement rows = weft_shard(0);
    weft_tensor *x = weft_distribute(WEFT_F32, 2, shape, values, NULL, &rows);
    for (int r = 0; r < RANKS; r++) {
        struct DLManagedTensorVersioned *shard = share(x, r);
        expect(shard->tensor.data, r, 0.25);
        shard->deleter(shard);
    }
    weft_tensor *whole = weft_redistribute(x, NULL, NULL);
    weft_tensor *tail = weft_slice(whole, 0, 40, ROWS, 1);
    struct DLManagedTensorVersioned *shard = weft_to_dlpack(tail, 1, WEFT_ON_DEVICE);
    assert_non_null(shard);
    assert_int_equal(cudaMemcpy(values, shard->tensor.data, 8 * COLUMNS * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(values[0] == 40 * COLUMNS * 0.25F && values[8 * COLUMNS - 1] == (COUNT - 1) * 0.25F);
    shard->deleter(shard);
    weft_tensor *none = weft_slice(whole, 0, 3, 3, 1);
    shard = weft_to_dlpack(none, 0, WEFT_ON_DEVICE);
    assert_true(shard != NULL && shard->tensor.data == NULL);
    shard->deleter(shard);
    stop();
}

/* Out and in again: weft takes its own memory. */
static void test_round_trip(void **state)
{
    (void)state;
    start("2");
    weft_placement rows = weft_shard(0);
    weft_tensor *x = make(0.5);
    struct DLManagedTensorVersioned *shards[RANKS] = { share(x, 0), share(x, 1) };
    int64_t before = bytes_through_main_memory();
    weft_tensor *y = weft_from_dlpack(WEFT_F32, 2, shape, shards, NULL, &rows, 0);
    assert_non_null(y);
    weft_tensor *z = weft_add(y, x);
    assert_non_null(weft_scale_inplace(y, 3));
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(bytes_through_main_memory() == before);
    expect_tensor(z, 1);
    expect_tensor(y, 1.5);
    expect_tensor(x, 0.5);
    weft_tensor_release(y);
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_non_null(weft_scale_inplace(x, 2));
    expect_tensor(x, 1);
    stop();
}

static void nap(void *nothing)
{
    (void)nothing;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* The consumer's kernels still read when it calls the deleter: the memory is written to only after them. */
static void test_kernels_outlive_the_deleter(void **state)
{
    (void)state;
    start("2");
    for (int i = 0; i < 3; i++) {
        weft_tensor *x = make(0.5);
        struct DLManagedTensorVersioned *shard = share(x, 1);
        cudaStream_t stream;
        void *copies[8];
        assert_int_equal(cudaSetDevice(shard->tensor.device_id), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        for (int k = 0; k < 8; k++) {
            assert_int_equal(cudaMalloc(&copies[k], bytes), cudaSuccess);
        }
        stand_in_push(stream, nap, NULL);
        for (int k = 0; k < 8; k++) {
            assert_int_equal(cudaMemcpyAsync(copies[k], shard->tensor.data, bytes, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
        }
        shard->deleter(shard);
        weft_tensor_release(x);
        assert_int_equal(weft_wait(), WEFT_OK);
        for (int k = 0; k < 8; k++) {
            weft_tensor_release(make(k));
        }
        assert_int_equal(weft_wait(), WEFT_OK);
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
        for (int k = 0; k < 8; k++) {
            expect(copies[k], 1, 0.5);
            assert_int_equal(cudaFree(copies[k]), cudaSuccess);
        }
        assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    }
    stop();
}

/* One wait for each device, on another thread: this one has the device that the program has chosen, if any. */
static void test_waits(void **state)
{
    (void)state;
    start("1");
    weft_tensor *x = make(0.5);
    struct DLManagedTensorVersioned *shards[RANKS] = { share(x, 0), share(x, 1) };
    for (int r = 0; r < RANKS; r++) {
        shards[r]->deleter(shards[r]);
    }
    const int64_t before = stand_in_counted_calls().synchronizations, choices = stand_in_choices();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(stand_in_counted_calls().synchronizations - before, 1);
    assert_int_equal(stand_in_choices(), choices);
    assert_int_equal(weft_lease_held_bytes(), 0);
    stop();
}

/* While a stream of the device is captured it cannot be waited for: the memory stays as it is until later. */
static void test_devices_that_cannot_be_waited_for(void **state)
{
    (void)state;
    start("2");
    weft_tensor *x = make(0.5);
    struct DLManagedTensorVersioned *shard = share(x, 1);
    const void *memory = shard->tensor.data;
    setenv("STAND_IN_CAPTURES", "1", 1);
    shard->deleter(shard);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int i = 0; i < 8; i++) {
        weft_tensor_release(make(i));
    }
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(weft_lease_held_bytes() > 0);
    expect(memory, 1, 0.5);
    unsetenv("STAND_IN_CAPTURES");
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_lease_held_bytes(), 0);
    stop();
}

/* Panels are renewed now and then, by acquiring them for writing. Readers must not come to wait for the consumer. */
static void test_panels_are_not_renewed(void **state)
{
    (void)state;
    start("2");
    weft_tensor *x = make(0.5);
    struct DLManagedTensorVersioned *shard = share(x, 0);
    weft_runtime.counters.tasks += 1 << 20;
    expect_tensor(weft_scale(x, 2), 1);
    expect_tensor(x, 0.5);
    shard->deleter(shard);
    stop();
}

static void test_deleters_after_finalize(void **state)
{
    (void)state;
    start("2");
    weft_tensor *x = make(0.5);
    struct DLManagedTensorVersioned *shards[RANKS] = { share(x, 0), share(x, 1) };
    shards[0]->deleter(shards[0]);
    stop();
    shards[1]->deleter(shards[1]);
    start("2");
    expect_tensor(make(0.5), 0.5);
    stop();
}

static void expect_refused(weft_tensor *tensor, unsigned flags, weft_status status, const char *text)
{
    assert_null(weft_to_dlpack(tensor, 0, flags));
    assert_int_equal(weft_last_status(), status);
    if (strstr(weft_last_error(), text) == NULL) {
        fail_msg("%s", weft_last_error());
    }
    weft_clear_error();
}

static void test_refusals(void **state)
{
    (void)state;
    start("0");
    expect_refused(make(1), WEFT_ON_DEVICE, WEFT_ERR_UNSUPPORTED, "WEFT_ON_DEVICE: this process computes on no devices (WEFT_DEVICES)");
    stop();
    setenv("WEFT_PANEL_ROWS", "7", 1);
    start("2");
    unsetenv("WEFT_PANEL_ROWS");
    expect_refused(make(1), WEFT_ON_DEVICE, WEFT_ERR_UNSUPPORTED, "WEFT_ON_DEVICE: the shard lies in several panels");
    stop();
    start("2");
    weft_tensor *x = make(1);
    expect_refused(x, WEFT_ON_DEVICE | WEFT_COPY, WEFT_ERR_INVALID, "flags is 0x9, expected 0, WEFT_COPY or WEFT_ON_DEVICE");
    static float memory[RANKS][OF_RANK];
    weft_placement rows = weft_shard(0);
    weft_tensor *own = weft_from_local(WEFT_F32, 2, shape, (void *[]){ memory[0], memory[1] }, NULL, &rows, 0);
    expect_refused(own, WEFT_ON_DEVICE, WEFT_ERR_UNSUPPORTED, "WEFT_ON_DEVICE: the shard lies in the program's memory");
    weft_tensor_release(own);
    /* A quarter of the memory in all; what is given back counts no more. */
    struct DLManagedTensorVersioned *first = share(x, 0);
    int64_t memory_bytes = weft_runtime.device_bytes;
    weft_runtime.device_bytes = 6 * (int64_t)bytes;
    weft_tensor *other = make(2);
    expect_refused(other, WEFT_ON_DEVICE, WEFT_ERR_NOMEM, "exceed a quarter of the devices' memory");
    struct DLManagedTensorVersioned *again = share(x, 0);
    first->deleter(first);
    again->deleter(again);
    first = share(other, 0);
    expect(first->tensor.data, 0, 2);
    first->deleter(first);
    weft_runtime.device_bytes = memory_bytes;
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_are_shared),
        cmocka_unit_test(test_views_and_values_of_main_memory),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_kernels_outlive_the_deleter),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_devices_that_cannot_be_waited_for),
        cmocka_unit_test(test_panels_are_not_renewed),
        cmocka_unit_test(test_deleters_after_finalize),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
