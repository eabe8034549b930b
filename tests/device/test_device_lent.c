/* weft_from_dlpack() and weft_from_local() on memory of stand-in devices: it is used where it is, by tasks there and elsewhere, and
 * has the last values when the tensor has ended. Two ranks of one process, each with memory on a device of its own. */
#include "arrays/dlpack.h"
#include "support.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stand_in.h"

enum { RANKS = 2, ROWS = 48, COLUMNS = 100, COUNT = ROWS * COLUMNS, OF_RANK = COUNT / RANKS };

static const int64_t shape[2] = { ROWS, COLUMNS };
static const size_t bytes = OF_RANK * sizeof(float);

/* What a program lends: memory of device i, with values from i * OF_RANK on. */
typedef struct lent {
    float *memory[RANKS];
    int64_t extent[2];
    struct DLManagedTensorVersioned managed[RANKS], *locals[RANKS];
    int deleted;
} lent;

static void delete(struct DLManagedTensorVersioned *self)
{
    ((lent *)self->context)->deleted++;
}

static float value_of(int i)
{
    return (float)i / 4;
}

static void lend(lent *l)
{
    static float values[OF_RANK];
    *l = (lent){ .extent = { ROWS / RANKS, COLUMNS } };
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cudaSetDevice(r), cudaSuccess);
        assert_int_equal(cudaMalloc((void **)&l->memory[r], bytes), cudaSuccess);
        for (int i = 0; i < OF_RANK; i++) {
            values[i] = value_of(r * OF_RANK + i);
        }
        assert_int_equal(cudaMemcpy(l->memory[r], values, bytes, cudaMemcpyHostToDevice), cudaSuccess);
        assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
        l->managed[r] = (struct DLManagedTensorVersioned){
            .major = WEFT_DL_MAJOR, .minor = WEFT_DL_MINOR, .context = l, .deleter = delete,
            .tensor = { .data = l->memory[r], .device_type = WEFT_DL_CUDA, .device_id = r, .ndim = 2, .kind = WEFT_DL_FLOAT, .bits = 32,
                        .lanes = 1, .shape = l->extent }
        };
        l->locals[r] = &l->managed[r];
    }
}

static weft_tensor *take(const lent *l, unsigned flags)
{
    weft_placement rows = weft_shard(0);
    return weft_from_dlpack(WEFT_F32, 2, shape, l->locals, NULL, &rows, flags);
}

static void start(void)
{
    setenv("WEFT_DEVICES", "2", 1);
    WORLD(RANKS, .world = WEFT_WORLD_SELF);
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ RANKS }, NULL));
}

static void stop(const lent *l)
{
    assert_int_equal(l->deleted, RANKS);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cudaFree(l->memory[r]), cudaSuccess);
    }
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* What the program finds in its memory. */
static void expect_lent(const lent *l, float factor, float summand)
{
    static float values[OF_RANK];
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cudaMemcpy(values, l->memory[r], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < OF_RANK; i++) {
            assert_true(values[i] == value_of(r * OF_RANK + i) * factor + summand);
        }
    }
}

static void expect_tensor(weft_tensor *tensor, float factor, float summand)
{
    static float values[COUNT];
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(values[i] == value_of(i) * factor + summand);
    }
}

static int64_t bytes_through_main_memory(void)
{
    stand_in_counts first = stand_in_device_counts(0), second = stand_in_device_counts(1);
    return first.bytes_in + first.bytes_out + second.bytes_in + second.bytes_out;
}

/* In place on both devices: nothing passes through main memory, and the program finds the results. */
static void test_values_stay_on_their_devices(void **state)
{
    (void)state;
    lent l;
    start();
    lend(&l);
    int64_t before = bytes_through_main_memory();
    weft_tensor *x = take(&l, 0);
    assert_non_null(x);
    assert_non_null(weft_scale_inplace(x, 2.0));
    weft_tensor *y = weft_add(x, x);
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(bytes_through_main_memory() == before);
    expect_tensor(y, 4, 0);
    assert_int_equal(l.deleted, 0);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_lent(&l, 2, 0);
    stop(&l);
}

/* Likewise by pointers alone. */
static void test_pointers(void **state)
{
    (void)state;
    lent l;
    weft_placement rows = weft_shard(0);
    start();
    lend(&l);
    void *locals[RANKS] = { l.memory[0], l.memory[1] };
    int64_t before = bytes_through_main_memory();
    weft_tensor *x = weft_from_local(WEFT_F32, 2, shape, locals, NULL, &rows, 0);
    assert_non_null(weft_scale_inplace(x, 2.0));
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_true(bytes_through_main_memory() == before);
    expect_lent(&l, 2, 0);
    /* One rank's memory is the CPU's. */
    float *here = malloc(bytes);
    assert_non_null(here);
    memset(here, 0, bytes);
    locals[0] = here;
    x = weft_from_local_even(WEFT_F32, 2, l.extent, locals, NULL, &rows, 0);
    assert_non_null(weft_scale_inplace(x, 0.5));
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    static float values[OF_RANK];
    assert_int_equal(cudaMemcpy(values, l.memory[1], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(values[9] == value_of(OF_RANK + 9) && here[9] == 0);
    locals[0] = l.memory[0];
    free(here);
    assert_null(weft_from_local(WEFT_BOOL, 2, shape, locals, NULL, &rows, 0));
    assert_non_null(strstr(weft_last_error(), "locals[0] is memory of a device (CUDA's number 0) where truth values are not checked"));
    weft_clear_error();
    l.deleted = RANKS; /* nobody was to call it */
    stop(&l);
}

/* The last values come from elsewhere: the program writes them in main memory; another device, or a CPU, computes them. */
static void test_values_come_home(void **state)
{
    (void)state;
    lent l;
    start();
    lend(&l);
    weft_tensor *x = take(&l, 0);
    for (int r = 0; r < RANKS; r++) {
        float *values = weft_local_acquire(x, r, WEFT_READ | WEFT_WRITE);
        assert_non_null(values);
        for (int i = 0; i < OF_RANK; i++) {
            assert_true(values[i] == value_of(r * OF_RANK + i));
            values[i] += 1;
        }
        assert_int_equal(weft_local_release(x, r), WEFT_OK);
    }
    expect_tensor(x, 1, 1);
    weft_tensor *other = weft_full(WEFT_F32, 3.0, 2, shape, NULL, &(weft_placement){ .kind = WEFT_SHARD, .dim = 1 });
    assert_non_null(weft_add_inplace(x, other, 1));
    expect_tensor(weft_redistribute(x, NULL, NULL), 1, 4);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_lent(&l, 1, 4);
    stop(&l);
}

/* A read-only one is left as it is; one in several panels. */
static void test_read_only_memory(void **state)
{
    (void)state;
    lent l;
    setenv("WEFT_PANEL_ROWS", "7", 1);
    start();
    unsetenv("WEFT_PANEL_ROWS");
    lend(&l);
    for (int r = 0; r < RANKS; r++) {
        l.managed[r].flags = WEFT_DL_READ_ONLY;
    }
    weft_tensor *x = take(&l, 0);
    assert_non_null(weft_scale_inplace(x, 3.0));
    expect_tensor(x, 3, 0);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_lent(&l, 1, 0);
    stop(&l);
    start();
    lend(&l);
    x = take(&l, 0);
    assert_non_null(weft_scale_inplace(x, 3.0));
    struct DLManagedTensorVersioned *shard = weft_to_dlpack(x, 1, 0);
    assert_non_null(shard);
    assert_true(((const float *)shard->tensor.data)[5] == 3 * value_of(OF_RANK + 5));
    shard->deleter(shard);
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_lent(&l, 3, 0);
    stop(&l);
}

static void nap(void *nothing)
{
    (void)nothing;
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* The program's own stream still writes to the memory when weft takes it. */
static void test_work_that_has_not_ended(void **state)
{
    (void)state;
    lent l;
    cudaStream_t stream[RANKS];
    float *values;
    start();
    lend(&l);
    assert_int_equal(cudaHostAlloc((void **)&values, bytes, cudaHostAllocDefault), cudaSuccess);
    for (int i = 0; i < OF_RANK; i++) {
        values[i] = (float)i;
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cudaSetDevice(r), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking), cudaSuccess);
        stand_in_push(stream[r], nap, NULL);
        assert_int_equal(cudaMemcpyAsync(l.memory[r], values, bytes, cudaMemcpyHostToDevice, stream[r]), cudaSuccess);
    }
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    weft_tensor *x = take(&l, 0);
    int device = -1;
    assert_true(cudaGetDevice(&device) == cudaSuccess && device == 0);
    static float found[COUNT];
    assert_int_equal(weft_to_host(x, found, sizeof(found)), WEFT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(found[i] == (float)(i % OF_RANK));
    }
    weft_tensor_release(x);
    assert_int_equal(weft_wait(), WEFT_OK);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(cudaStreamDestroy(stream[r]), cudaSuccess);
    }
    assert_int_equal(cudaFreeHost(values), cudaSuccess);
    stop(&l);
}

static void expect_refused(const lent *l, unsigned flags, weft_status status, const char *text)
{
    assert_null(take(l, flags));
    assert_int_equal(weft_last_status(), status);
    if (strstr(weft_last_error(), text) == NULL) {
        fail_msg("%s", weft_last_error());
    }
    weft_clear_error();
}

static void test_refusals(void **state)
{
    (void)state;
    lent l;
    start();
    lend(&l);
    expect_refused(&l, WEFT_COPY, WEFT_ERR_UNSUPPORTED, "locals[0] is memory of a device (DLPack's type 2, number 0) which WEFT_COPY does not read");
    l.managed[1].tensor.device_id = 7;
    expect_refused(&l, 0, WEFT_ERR_UNSUPPORTED, "locals[1] is memory of a device (DLPack's type 2, number 7) on which this process does not compute");
    l.managed[1].tensor.device_id = 1;
    setenv("STAND_IN_CAPTURES", "1", 1);
    expect_refused(&l, 0, WEFT_ERR_COMM, "locals[0] is memory of a device whose work fails: cudaErrorStreamCaptureUnsupported");
    unsetenv("STAND_IN_CAPTURES");
    assert_int_equal(l.deleted, 0);
    weft_tensor_release(take(&l, WEFT_CHECK_RANKS));
    assert_int_equal(weft_wait(), WEFT_OK);
    expect_lent(&l, 1, 0);
    stop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_stay_on_their_devices),
        cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_values_come_home),
        cmocka_unit_test(test_read_only_memory),
        cmocka_unit_test(test_work_that_has_not_ended),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
