#include "tensor_support.h"

#include <stdlib.h>
#include <string.h>

void start(int ranks)
{
    WORLD(ranks, .seed = 17);
}

void stop(void)
{
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
}

weft_mesh *line(int64_t ranks)
{
    return weft_mesh_create(1, &ranks, NULL);
}

void assert_host_equal(weft_tensor *tensor, size_t bytes, const void *expected, const char *what)
{
    void *values = malloc(bytes + 1);
    assert_int_equal(weft_to_host(tensor, values, bytes), WEFT_OK);
    if (memcmp(values, expected, bytes) != 0) {
        fail_msg("%s: other values than expected", what);
    }
    free(values);
}

void write_all(weft_tensor *tensor, double value)
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t offset[2], extent[2];
        weft_local_box(tensor, i, offset, extent);
        double *shard = weft_local_acquire(tensor, i, WEFT_WRITE);
        for (int64_t k = 0; k < extent[0] * extent[1]; k++) {
            shard[k] = value;
        }
        weft_local_release(tensor, i);
    }
}

void assert_all(weft_tensor *tensor, int64_t count, double value)
{
    double *expected = malloc((size_t)count * sizeof(*expected));
    for (int64_t i = 0; i < count; i++) {
        expected[i] = value;
    }
    assert_host_equal(tensor, (size_t)count * sizeof(*expected), expected, "constant");
    free(expected);
}
