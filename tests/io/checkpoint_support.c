#include "checkpoint_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpirun.h"

const char *checkpoint_path(void)
{
    static char path[200];
    bool launched = mpirun_process() >= 0;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/weft-checkpoint-%d.safetensors", folder == NULL ? "/tmp" : folder,
             launched ? (int)getppid() : (int)getpid());
    return path;
}

void checkpoint_remove(void)
{
    char temporary[240];
    snprintf(temporary, sizeof(temporary), "%s.tmp", checkpoint_path());
    unlink(checkpoint_path());
    unlink(temporary);
}

char *read_bytes(const char *path, int64_t *count)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)*count + 1);
    assert_int_equal(fread(bytes, 1, (size_t)*count, file), *count);
    fclose(file);
    return bytes;
}

void write_bytes(const char *path, const char *bytes, int64_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, (size_t)count, file), count);
    fclose(file);
}

int64_t element_value(int number, int64_t i, weft_dtype dtype)
{
    int64_t value = (int64_t)((uint64_t)(i + 1) * 2654435761u + (uint64_t)number * 40503u) % 101;
    return dtype == WEFT_BOOL ? value & 1 : dtype == WEFT_F8_E4M3 || dtype == WEFT_F8_E5M2 ? value % 9 : value;
}

/* Values of the shard, as doubles; the addends of a Partial tensor: all at the first coordinate, 0 elsewhere. */
typedef struct numbered {
    int number, ndim;
    weft_dtype dtype;
    const int64_t *shape;
    const weft_placement *placements;
    int num_placements;
} numbered;

static void write_numbered(const hosted_shard *s, const void *context)
{
    const numbered *n = context;
    bool first = true;
    for (int m = 0; m < n->num_placements; m++) {
        first &= n->placements[m].kind != WEFT_PARTIAL || s->coordinate[m] == 0;
    }
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = shard_element(s, n->ndim, n->shape, i);
        ((double *)s->values)[i] = first ? (double)element_value(n->number, at, n->dtype) : 0;
    }
}

static bool is_pairs(weft_dtype dtype)
{
    return dtype == WEFT_C64 || dtype == WEFT_C128;
}

/* Imaginary parts are larger by one. */
weft_tensor *make_numbered(int number, weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                           const weft_placement placements[])
{
    const numbered n = { number, ndim, dtype, shape, placements, weft_mesh_ndim(mesh) };
    weft_tensor *doubles = make_of_shards(WEFT_F64, ndim, shape, mesh, placements, write_numbered, &n);
    if (is_pairs(dtype)) {
        return weft_to_type(weft_complex(doubles, weft_add_scalar(doubles, 1)), dtype);
    }
    return dtype == WEFT_F64 ? doubles : weft_to_type(doubles, dtype);
}

/* In double precision; `more`: what they are larger by. */
static void assert_numbers(weft_tensor *tensor, weft_tensor *doubles, int number, int more)
{
    weft_dtype dtype = weft_tensor_dtype(tensor);
    int64_t count = weft_tensor_num_elements(tensor);
    double *values = calloc((size_t)count + 1, sizeof(*values));
    assert_int_equal(weft_to_host(doubles, values, (size_t)count * sizeof(*values)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        if (values[i] != (double)(element_value(number, i, dtype) + more)) {
            char text[160];
            fail_msg("element %d of tensor %d, %s, is %g, expected %d", (int)i, number,
                     weft_tensor_describe(tensor, text, sizeof(text)), values[i], (int)element_value(number, i, dtype) + more);
        }
    }
    free(values);
}

void assert_numbered(weft_tensor *tensor, int number)
{
    weft_dtype dtype = weft_tensor_dtype(tensor);
    weft_tensor *real = is_pairs(dtype) ? weft_real(tensor) : tensor;
    assert_numbers(tensor, dtype == WEFT_F64 ? tensor : weft_to_type(real, WEFT_F64), number, 0);
    if (is_pairs(dtype)) {
        assert_numbers(tensor, weft_to_type(weft_imag(tensor), WEFT_F64), number, 1);
    }
    assert_shards(tensor, NULL, NULL, "a loaded tensor");
}
