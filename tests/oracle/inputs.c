/* Inputs as in values.py, in the layouts of a case. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* ---- dense values -------------------------------------------------------------------------------------- */

/* The elements as whole numbers of steps of 1 / denominator, and as elements. */
typedef struct dense {
    int64_t *steps;
    void *elements;
} dense;

static void store_steps(const oracle_input *input, void *array, int64_t i, int64_t steps)
{
    if (oracle_is_floating(input->dtype)) {
        oracle_store_real(input->dtype, array, i, (double)steps / (double)input->denominator);
    } else {
        oracle_store_whole(input->dtype, array, i, steps);
    }
}

static void store_special(const oracle_input *input, void *array, int64_t i, uint64_t number)
{
    static const double largest[] = {
        [WEFT_F64] = DBL_MAX, [WEFT_F32] = FLT_MAX, [WEFT_BF16] = 0x1.fep127, [WEFT_F16] = 65504
    };
    static const double smallest[] = {
        [WEFT_F64] = DBL_MIN, [WEFT_F32] = FLT_MIN, [WEFT_BF16] = 0x1p-126, [WEFT_F16] = 0x1p-14
    };
    weft_dtype dtype = input->dtype;
    if (oracle_is_floating(dtype)) {
        const double values[] = {
            NAN, INFINITY, -INFINITY, -0.0, largest[dtype], -largest[dtype], smallest[dtype]
        };
        oracle_store_real(dtype, array, i, values[number % 7]);
    } else if (dtype == WEFT_BOOL) {
        oracle_store_whole(dtype, array, i, (int64_t)(number % 2));
    } else {
        const int64_t least = dtype == WEFT_I64 ? INT64_MIN : dtype == WEFT_I32 ? INT32_MIN : 0;
        const int64_t most = dtype == WEFT_I64 ? INT64_MAX : dtype == WEFT_I32 ? INT32_MAX : UINT8_MAX;
        const int64_t values[] = { least, most, 0, 1 };
        oracle_store_whole(dtype, array, i, values[number % 4]);
    }
}

/* low, low + 1, ... in random order */
static void make_distinct(const oracle_input *input, prng *random, int64_t steps[])
{
    for (int64_t i = 0; i < input->count; i++) {
        steps[i] = input->low + i;
    }
    for (int64_t i = input->count - 1; i > 0; i--) {
        int64_t j = prng_below(random, i + 1), kept = steps[i];
        steps[i] = steps[j];
        steps[j] = kept;
    }
}

static dense make_dense(const oracle_input *input)
{
    dense d = { malloc(((size_t)input->count + 1) * sizeof(int64_t)), calloc((size_t)input->count + 1, 8) };
    prng random = { input->seed };
    if (input->literal != NULL) {
        memcpy(d.elements, input->literal, (size_t)input->count * weft_dtype_size(input->dtype));
        return d;
    }
    if (input->distinct) {
        make_distinct(input, &random, d.steps);
    }
    for (int64_t i = 0; i < input->count; i++) {
        if (!input->distinct) {
            d.steps[i] = input->low + prng_below(&random, input->high - input->low + 1);
        }
        store_steps(input, d.elements, i, d.steps[i]);
        uint64_t draw = input->special && !input->distinct ? prng_next(&random) : 1;
        if (draw % 8 == 0) {
            store_special(input, d.elements, i, draw / 8);
        }
    }
    return d;
}

/* ---- addends ------------------------------------------------------------------------------------------- */

/* A rank's addends of each element. */
typedef struct share {
    int64_t parts, part;
    weft_reduce_op op;
} share;

static share share_at(const oracle_input *input, weft_mesh *mesh, const int64_t coordinate[])
{
    share s = { .parts = 1 };
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        if (input->placements[m].kind == WEFT_PARTIAL) {
            s.op = input->placements[m].op;
            s.part = s.part * weft_mesh_size(mesh, m) + coordinate[m];
            s.parts *= weft_mesh_size(mesh, m);
        }
    }
    return s;
}

/* A number that depends on its arguments only. */
static int64_t noise(const oracle_input *input, int64_t element, int64_t part, int64_t n)
{
    prng random = { input->seed * 1000003 + (uint64_t)element * 97 + (uint64_t)part };
    return prng_below(&random, n);
}

/* So that the addends reduce to `steps` exactly. */
static int64_t addend(const oracle_input *input, const share *s, int64_t steps, int64_t element)
{
    bool chosen = s->part == noise(input, element, 50, s->parts);
    int64_t more = noise(input, element, s->part, 4);
    switch (s->op) {
    case WEFT_PROD:
        return chosen ? steps : input->denominator;
    case WEFT_MIN:
        return chosen ? steps : input->dtype == WEFT_BOOL ? (steps | (more & 1)) : steps + more;
    case WEFT_MAX:
        more = input->low >= 0 && more > steps ? steps : more; /* not below 0 where there is nothing below */
        return chosen ? steps : steps - more;
    default:
        break;
    }
    if (s->part < s->parts - 1) {
        return more - 2;
    }
    int64_t others = 0;
    for (int64_t p = 0; p < s->parts - 1; p++) {
        others += noise(input, element, p, 4) - 2;
    }
    return steps * (s->op == WEFT_AVG ? s->parts : 1) - others;
}

int64_t oracle_parts(const oracle_case *c, const oracle_input *input)
{
    int64_t parts = 1;
    for (int m = 0; m < c->mesh_ndim && !input->absent; m++) {
        parts *= input->placements[m].kind == WEFT_PARTIAL ? c->mesh_shape[m] : 1;
    }
    return parts;
}

/* ---- shards -------------------------------------------------------------------------------------------- */

static int64_t global_index(const oracle_input *input, const int64_t offset[], const int64_t extent[],
                            int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = input->ndim - 1; d >= 0; d--) {
        index += (offset[d] + i % extent[d]) * step;
        i /= extent[d];
        step *= input->shape[d];
    }
    return index;
}

/* NULL for a rank outside of the mesh. */
static void *make_local(const oracle_input *input, const dense *d, weft_mesh *mesh, int rank)
{
    int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS], coordinate[ORACLE_MESH_DIMS];
    if (!weft_mesh_coordinate(mesh, rank, coordinate)) {
        return NULL;
    }
    weft_shard_box(mesh, input->placements, input->ndim, input->shape, rank, offset, extent);
    share s = share_at(input, mesh, coordinate);
    size_t size = weft_dtype_size(input->dtype);
    int64_t count = shape_count(input->ndim, extent);
    char *local = calloc((size_t)count + 1, size);
    for (int64_t i = 0; i < count; i++) {
        int64_t element = global_index(input, offset, extent, i);
        if (s.parts > 1) {
            store_steps(input, local, i, addend(input, &s, d->steps[element], element));
        } else {
            memcpy(local + (size_t)i * size, (const char *)d->elements + (size_t)element * size, size);
        }
    }
    return local;
}

static weft_tensor *from_locals(const oracle_input *input, const dense *d, weft_mesh *mesh)
{
    void *locals[ORACLE_RANKS];
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = make_local(input, d, mesh, weft_first_rank() + i);
    }
    weft_tensor *tensor =
        weft_from_local(input->dtype, input->ndim, input->shape, locals, mesh, input->placements, WEFT_COPY);
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(locals[i]);
    }
    return tensor;
}

weft_tensor *oracle_tensor(const oracle_input *input, weft_mesh *mesh, bool from_local)
{
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        from_local |= input->placements[m].kind == WEFT_PARTIAL;
    }
    dense d = make_dense(input);
    weft_tensor *tensor = from_local ? from_locals(input, &d, mesh)
                                     : weft_distribute(input->dtype, input->ndim, input->shape, d.elements,
                                                       mesh, input->placements);
    free(d.steps);
    free(d.elements);
    return tensor;
}
